"""Arrays in .npz archives, without pickle and only after their headers are checked.

The header of an array states how much memory it needs. Before any memory is reserved, this is
compared with the size of the member, and the size of the member with that of the file.
"""

from math import prod
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from skcalib._util.files import words_of
from skcalib.data.column_names import LABEL_NAMES
from skcalib.io._roles import shortened

_LABELS, _PROBA = LABEL_NAMES[:2], ("y_proba", "predictions")
_MOST_COMPRESSED = 1100  # deflate makes data at most 1,032 times shorter


def read_arrays(path):
    """The arrays of labels, of probabilities, of the class of each column, and of features."""
    wanted = (*_LABELS, *_PROBA, "labels", "X")
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            arrays = {}
            for name in wanted:
                found = [one for one in members if one.filename in (name, f"{name}.npy")]
                if len(found) > 1:
                    raise _RefusedError(f"{path.name} has two arrays {name!r}: keep one of them.")
                if found:
                    arrays[name] = _read(archive, found[0], name, path)
    except _RefusedError as error:
        raise ValueError(str(error)) from None
    except MemoryError as error:
        raise ValueError(f"{path.name} does not fit into memory: {error}") from error
    except Exception as error:  # of many types: damaged bytes reach zipfile, zlib and numpy
        said = words_of(error)
        raise ValueError(f"{path.name} is not a readable .npz archive: {said}.") from error
    known = sorted(one.filename.removesuffix(".npy") for one in members)
    y_true, y_proba = (_first(arrays, names, path.name, known) for names in (_LABELS, _PROBA))
    if y_true.ndim == 0 or y_proba.ndim == 0:
        raise ValueError(
            f"{path.name} has a single number in place of labels or probabilities: arrays with an "
            "entry for each sample are expected."
        )
    labels = arrays["labels"] if "labels" in arrays else _places(path.name, y_true, y_proba)
    return y_true, y_proba, labels, arrays.get("X")


def _first(arrays, names, file, known):
    for name in names:
        if name in arrays:
            return arrays[name]
    has = shortened(", ".join(known) or "none", 1000)
    raise ValueError(f"{file} has no array {' or '.join(names)}; its arrays: {has}.")


def _places(name, y_true, y_proba):
    """The column numbers, if these are the labels; None if they need not be."""
    if y_proba.ndim != 2 or y_true.dtype.kind not in "iu" or not y_true.size:
        return None
    n_columns = y_proba.shape[1]
    if y_true.min() < 0 or y_true.max() >= n_columns:
        raise ValueError(
            f"{name} has {n_columns} columns of probabilities, but labels from {y_true.min()} to "
            f"{y_true.max()}: whole-number labels are column numbers, unless an array `labels` "
            "names the class of each column."
        )
    return np.arange(n_columns) if n_columns > 1 else None


class _RefusedError(Exception):
    """A readable archive with content that is refused."""


def _read(archive, member, name, path):
    """The array in a member of an archive."""
    if not member.filename.endswith(".npy"):
        raise _RefusedError(
            f"{path.name} has a member {name!r} that is not an array: write the file with np.savez."
        )
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise _RefusedError(
            f"{path.name} has its array {name!r} in a compression other than deflate: write the "
            "file with np.savez_compressed."
        )
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)  # 3.0 differs from 2.0 in names of fields only
        read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject:
            raise _RefusedError(
                f"{path.name} has Python objects in its array {name!r}, which are never loaded, "
                "since that can run code: save numbers or strings, for example "
                "np.asarray(values, dtype=str)."
            )
        if dtype.kind == "V" or dtype.itemsize == 0:
            raise _RefusedError(
                f"{path.name} has values of the type {dtype} in its array {name!r}: save numbers "
                "or text."
            )
        size = prod(shape) * dtype.itemsize
        most = _MOST_COMPRESSED * path.stat().st_size
        if min(shape, default=0) < 0 or file.tell() + size != member.file_size or size > most:
            raise _RefusedError(
                f"{path.name} is damaged: the header of its array {name!r} announces the shape "
                f"{shape} and {size:,} bytes, which the file does not have."
            )
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)
