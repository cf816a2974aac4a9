"""Bytes of an object: a NumPy archive with a header in JSON and arrays, and never with pickle."""

import json
from contextlib import contextmanager
from io import BytesIO
from math import isfinite, prod
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from skcalib._util.messages import shown

#: Version of the format of all states.
VERSION = 1
_MOST_COMPRESSED = 1100  # deflate makes data at most 1,032 times shorter


def pack(kind, header, arrays):
    """Bytes of an object of a kind: its header, kind and version in JSON, and its arrays."""
    text = json.dumps({"kind": kind, "version": VERSION, **header}, allow_nan=False)
    file = BytesIO()
    np.savez(file, header=bytes_array(text.encode()), **arrays)
    return file.getvalue()


def is_packed(start, kind):
    """Whether the first bytes of a file are those of an object of this kind.

    The header is the first member of the archive, and the kind is its first entry.
    """
    return start.startswith(b"PK") and f'{{"kind": "{kind}"'.encode() in start[:512]


def bytes_array(content):
    """Bytes as an array, which an archive can hold."""
    return np.frombuffer(content, np.uint8)


def unpack(content, kind, form):
    """The header, which has the form `form`, and the arrays that `pack` wrote.

    Raises a `ValueError` of one sentence for bytes of something else, of another version, damaged
    ones, and a header of another form.
    """
    state = f"state of a {kind}"
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ValueError(f"data must be bytes, got {type(content).__name__}.")
    content = bytes(content)
    if content.startswith(b"skcalib-"):
        raise ValueError(
            f"The {state} has the format of an earlier version of skcalib, which is no longer "
            "read: make it again from its samples."
        )
    if not content.startswith(b"PK"):
        raise ValueError(f"The bytes are no {state}: they are no NumPy archive.")
    try:
        with ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
            arrays = {
                member.filename.removesuffix(".npy"): read_member(archive, member, len(content))
                for member in members
            }
        header = json.loads(arrays.pop("header").tobytes())
        written_kind, version = header.pop("kind"), header.pop("version")
    except Exception as error:  # of many types: damaged bytes reach zipfile, numpy and json
        raise ValueError(f"The {state} is damaged or incomplete.") from error
    if written_kind != kind:
        raise ValueError(f"The bytes are no {state}: they are one of a {shown(written_kind)}.")
    if version != VERSION:
        raise ValueError(
            f"The {state} has version {shown(version)} of the format, and this skcalib reads "
            f"version {VERSION}: update skcalib."
        )
    with refused(state):
        require(len(arrays) == len(members) - 1, "the list of arrays")
        require(has_form(header, form), "its header")
    return header, arrays


class RefusedMemberError(ValueError):
    """A member of an archive that is not read; the argument is what the archive has, in words."""


def read_member(archive, member, n_bytes):
    """The array in a member of an archive of `n_bytes` bytes, without pickle.

    The header of an array states how much memory it needs. Before any is reserved, this is compared
    with the size of the member, and the size of the member with that of the archive.
    """
    name = member.filename.removesuffix(".npy")
    if not member.filename.endswith(".npy"):
        raise RefusedMemberError(
            f"has a member {name!r} that is not an array: write the file with np.savez."
        )
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise RefusedMemberError(
            f"has its array {name!r} in a compression other than deflate: write the file with "
            "np.savez_compressed."
        )
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)  # 3.0 differs from 2.0 in names of fields only
        read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject:
            raise RefusedMemberError(
                f"has Python objects in its array {name!r}, which are never loaded, since that can "
                "run code: save numbers or strings, for example np.asarray(values, dtype=str)."
            )
        if dtype.kind == "V" or dtype.itemsize == 0:
            raise RefusedMemberError(
                f"has values of the type {dtype} in its array {name!r}: save numbers or text."
            )
        size = prod(shape) * dtype.itemsize
        largest = _MOST_COMPRESSED * n_bytes
        if min(shape, default=0) < 0 or file.tell() + size != member.file_size or size > largest:
            raise RefusedMemberError(
                f"is damaged: the header of its array {name!r} announces the shape {shape} and "
                f"{size:,} bytes, which the file does not have."
            )
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


@contextmanager
def refused(thing, remedy=""):
    """Any error of a readable state that skcalib did not write, in one form."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise ValueError(
            f"The {thing} is damaged, or does not fit its parameters ({error}).{remedy}"
        ) from error


def require(condition, part):
    """Raise unless what was read is as it was written."""
    if not condition:
        raise ValueError(f"{part} is not as it was written")


def require_arrays(arrays, expected):
    """Raise unless arrays have the names, types and shapes of others, and no NaN."""
    require(arrays.keys() == expected.keys(), "the list of arrays")
    for name, template in expected.items():
        array = arrays[name]
        same = array.shape == template.shape and array.dtype.kind == template.dtype.kind
        require(same and not np.isnan(array).any(), f"the array {name!r}")


def has_form(value, form):
    """Whether a value of JSON is of a type, one of a tuple of forms, a list or a dict of forms.

    Whole numbers are not negative and below 2**63, numbers are finite, and `object` is anything.
    """
    if isinstance(form, dict):
        same = isinstance(value, dict) and value.keys() == form.keys()
        return same and all(has_form(value[name], part) for name, part in form.items())
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(part, form[0]) for part in value)
    if isinstance(form, tuple):
        return any(has_form(value, part) for part in form)
    if form is float:
        return type(value) in (int, float) and abs(value) < 2**1023 and isfinite(value)
    if form is int:
        return type(value) is int and 0 <= value < 2**63
    return form is object or value is form or type(value) is form


def json_value(value, argument):
    """A label, a group or a name that JSON can hold; raises for others, before they are stored."""
    if isinstance(value, tuple):
        return tuple(json_value(part, argument) for part in value)
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # dates would be integers
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise ValueError(
        f"{argument} takes strings and finite numbers only, which can be saved, got {shown(value)}"
        ": write dates and other objects as text, and leave out or name missing values."
    )
