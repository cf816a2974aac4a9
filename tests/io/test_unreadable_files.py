"""Files that cannot be read: one sentence, without the numbers of system errors."""

import bz2
import gzip
import lzma
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skcalib.__main__ import main

ROWS = b"label,p_churn\nchurn,0.25\nstay,0.5\n" * 1 + b"churn,0.75\n" * 50


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def damaged(content, way):
    middle = len(content) // 2
    return {
        "empty": b"",
        "cut": content[:middle],
        "text": ROWS,
        "flipped": content[: middle - 8] + bytes(b ^ 255 for b in content[middle - 8 : middle + 8])
        + content[middle + 8 :],
    }[way]  # fmt: skip


def arrays():
    np.savez("whole.npz", y_true=[0, 1] * 20, y_proba=np.linspace(0, 1, 40))
    return Path("whole.npz").read_bytes()


def parquet():
    pytest.importorskip("pyarrow")
    return pd.DataFrame({"y": [0, 1] * 20, "p": np.linspace(0, 1, 40)}).to_parquet()


def refused_in_words(capsys, name):
    """By both commands: status 2, one line, no number of an error."""
    for command in (["report"], ["monitor", "--state", "s"]):
        assert main([*command, name]) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1 and not said.out
        assert re.search(r"\.\n$", said.err) and len(said.err) < 400
        assert not re.search(r"[Ee]rrno|Error -?\d|Traceback|\[Err", said.err), said.err
        assert not Path("s").exists() and not Path("skcalib-report.html").exists()
    return said.err


@pytest.mark.parametrize("way", ["empty", "cut", "text", "flipped"])
@pytest.mark.parametrize("suffix", [*COMPRESSORS, ".npz", ".parquet"])
def test_damaged_files(here, capsys, suffix, way):
    if suffix == ".parquet" and way == "flipped":
        pytest.skip("parquet has no check sums that pyarrow reads")
    if suffix in COMPRESSORS:
        name, content = f"p.csv{suffix}", COMPRESSORS[suffix](ROWS)
    else:
        name, content = f"p{suffix}", arrays() if suffix == ".npz" else parquet()
    (here / name).write_bytes(damaged(content, way))
    assert name in refused_in_words(capsys, name)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"y,p\n", b"\0\0\0", b"\xff\xfe"])
def test_empty_tables(here, capsys, content):
    (here / "p.csv").write_bytes(content)
    assert "p.csv" in refused_in_words(capsys, "p.csv")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.csv", "none.csv is not a file."),
        ("none/p.csv", "none/p.csv is not a file."),
        ("none-*.csv", "none-*.csv is not a file."),
        ("folder", "folder has no file that ends in .csv or .parquet."),
        ("p.csv.zst", "p.csv.zst must end in .npz, .csv, .parquet"),
        ("p.txt", "p.txt must end in .npz, .csv, .parquet"),
        ("p.csv/q.csv", "p.csv/q.csv is not a file."),
        ("x" * 300 + ".csv", "file name too long"),
    ],
)
def test_what_is_no_file(here, capsys, name, words):
    (here / "folder").mkdir()
    for file in ("p.txt", "p.csv", "p.csv.zst"):
        (here / file).touch()
    assert words in refused_in_words(capsys, name).replace("\n", "")


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.npz", "p.parquet", "*.csv"])
def test_files_that_may_not_be_read(here, capsys, monkeypatch, name):
    """The tests may run as root, who may read everything."""
    (here / name.replace("*", "p")).write_bytes(ROWS)

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr("skcalib.io.files.ZipFile", refuse)
    if name.endswith(".parquet"):
        monkeypatch.setattr(pytest.importorskip("pyarrow.parquet"), "ParquetFile", refuse)
    assert "permission denied" in refused_in_words(capsys, name)


def test_states_that_cannot_be_read(here, capsys, monkeypatch):
    (here / "p.csv").write_bytes(ROWS)
    (here / "s").mkdir()
    assert main(["monitor", "p.csv", "--state", "s"]) == 2
    assert "s cannot be written: it is a folder." in capsys.readouterr().err
    (here / "t").touch()

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert main(["monitor", "p.csv", "--state", "t"]) == 2
    assert capsys.readouterr().err == "skcalib: t cannot be read or written: permission denied.\n"
