"""Files that are written as a whole or not at all."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_atomically(path, data):
    """Write text, encoded in UTF-8, or bytes to the file at `path`; return its `Path`.

    The data are written to a temporary file in the same folder, which then replaces the file: a
    process that is interrupted, or a full disk, leaves the earlier content as it was. The file
    keeps its permissions. A symbolic link is replaced, and what it points to is not changed.
    Devices and pipes, such as /dev/null, are written to.

    Raises OSError, with the name of the file.
    """
    path = check_writable(path)
    if isinstance(data, str):
        data = data.encode("utf-8")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return path
    temporary = path.with_name(f".skcalib-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
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
    return path


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
        what = "it" if device else f"the folder {folder.resolve()}"
        raise PermissionError(f"{path} cannot be written: {what} may not be written to.")
    return path
