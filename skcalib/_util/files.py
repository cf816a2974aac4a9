"""Files that are written as a whole or not at all; standard input; errors of files in words."""

import errno
import os
import secrets
import stat
import sys
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

#: The name of standard input among files, and of its copy.
STANDARD, STANDARD_INPUT = Path("-"), "standard-input.csv"


def file_error_text(error):
    """An error of a file in words, without the number of the system."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    if isinstance(error, zlib.error):
        return "its compressed data are damaged"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


@contextmanager
def without_standard_input(paths):
    """The files with a copy of standard input in place of -."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / STANDARD_INPUT
        if STANDARD in paths:
            with copy.open("wb") as file:
                copyfileobj(sys.stdin.buffer, file)
        yield [copy if path == STANDARD else path for path in paths]


@contextmanager
def exclusive(path):
    """Keep other processes that use this function from the file at `path`, or wait for them.

    What is given is the `Path`. Temporary files of processes that were killed are removed. A file
    system without locks is used without one.
    """
    path = check_writable(path)
    mark = _mark(path)
    lock, held = path.with_name(f"{mark}.lock"), False
    while not held:
        file = open(lock, "ab")  # noqa: SIM115 - closed below, after the lock is removed
        try:
            locked = _lock(file)
            with suppress(FileNotFoundError):  # the one before has removed it: start again
                held = os.path.samestat(os.stat(lock), os.fstat(file.fileno()))
        finally:
            if not held:
                file.close()
    try:
        for left in path.parent.glob(f"{mark}-*.tmp") if locked else ():
            with suppress(OSError):
                left.unlink()
        yield path
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            lock.unlink()
        file.close()


def _mark(path):
    """How the names of the lock and of the temporary files of `path` begin."""
    return f".skcalib-{zlib.crc32(os.fsencode(path.name)):08x}"


def _lock(file):
    """Lock an open file for this process, and wait for others; False if there are no locks."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return False
    return True


def write_atomically(path, content):
    """Write text, encoded in UTF-8, or bytes to the file at `path`; return its `Path`.

    The content is written to a temporary file in the same folder, which then replaces the file: a
    process that is interrupted, or a full disk, leaves the earlier content as it was. The file
    keeps its permissions. A symbolic link is replaced, and what it points to is not changed.
    Devices and pipes, such as /dev/null, are written to.

    Raises OSError, with the name of the file.
    """
    path = check_writable(path)
    if isinstance(content, str):
        content = content.encode("utf-8")
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return path
    with exclusive(path):
        replace_file(path, content)
    return path


def replace_file(path, content):
    """Replace or make the file at `path`, within `exclusive`; `content` are bytes."""
    temporary = path.with_name(f"{_mark(path)}-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not path.is_symlink():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def check_writable(path):
    """The `Path` of a file that can be written; raise OSError for a folder that cannot."""
    path = Path(path)
    folder = path.parent
    if not folder.is_dir():
        kind = NotADirectoryError if folder.exists() else FileNotFoundError
        raise kind(f"{path} cannot be written: {folder} is not a folder.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a folder.")
    device = path.exists() and not path.is_file()
    if not os.access(path if device else folder, os.W_OK):
        place = "it" if device else f"the folder {folder.resolve()}"
        raise PermissionError(f"{path} cannot be written: {place} may not be written to.")
    return path
