"""Files that are written as a whole or not at all."""

import errno
import os
import stat

import pytest

from skcalib._util.files import check_writable, write_atomically

BEFORE = b"earlier content\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(BEFORE)
    return path


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_text_and_bytes_names_and_devices(tmp_path):
    long = "n" * 255
    for name, content, expected in (
        ("a", "é\n", "é\n".encode()), ("b", b"\r\n\0", b"\r\n\0"), (long, "new", b"new"),
    ):  # fmt: skip
        path = write_atomically(str(tmp_path / name), content)
        assert path == tmp_path / name and path.read_bytes() == expected
    assert names(tmp_path) == ["a", "b", long]
    with pytest.raises(OSError, match="File name too long"):
        write_atomically(tmp_path / f"{long}n", "new")
    before = os.stat(os.devnull).st_ino
    write_atomically(os.devnull, "new")
    assert os.stat(os.devnull).st_ino == before and not os.path.isfile(os.devnull)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_earlier_content_remains_after_an_error(path, monkeypatch, error, step):
    def stop(*_):
        raise error

    monkeypatch.setattr(os, step, stop)
    with pytest.raises(type(error)) as raised:
        write_atomically(path, "x" * 10_000)
    assert path.read_bytes() == BEFORE and names(path.parent) == ["page.html"]
    if isinstance(error, OSError):
        assert "No space left" in str(raised.value) and str(path) in str(raised.value)


def test_permissions_are_kept_and_links_replaced(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomically(link, "new")
    assert link.read_text() == "new" and not link.is_symlink()
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_bytes() == BEFORE and names(path.parent) == ["link", "page.html"]
    path.chmod(0o640)
    write_atomically(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (tmp_path / "plain").write_text("")
    usual = (tmp_path / "plain").stat().st_mode
    assert write_atomically(tmp_path / "new", "new").stat().st_mode == usual


def test_folders_that_cannot_be_written_to(path, tmp_path, monkeypatch):
    for wrong, error, message in (
        (tmp_path / "nowhere" / "page.html", FileNotFoundError, "nowhere is not a folder"),
        (path / "page.html", NotADirectoryError, "page.html is not a folder"),
        (tmp_path, IsADirectoryError, "cannot be written: it is a folder"),
    ):
        for call in (check_writable, lambda file: write_atomically(file, "new")):
            with pytest.raises(error, match=message):
                call(wrong)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=f"the folder {tmp_path} may not be written to"):
        check_writable(path)
