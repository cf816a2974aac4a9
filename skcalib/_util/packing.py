"""Bytes of an object: a name, a version, a header in JSON, arrays and a check sum; no pickle."""

import json
import zlib
from contextlib import contextmanager
from math import isfinite, prod

import numpy as np

from skcalib._util.messages import shown


def seal(mark, version, header, parts):
    """Bytes: mark, version, length of the header, header, `parts`, and their check sum.

    The version has one byte and the length four, as has the check sum (CRC-32). All numbers are
    little-endian.
    """
    text = json.dumps(header, allow_nan=False).encode()
    start = [mark, bytes([version]), len(text).to_bytes(4, "little"), text]
    body = b"".join([*start, *parts])
    return body + zlib.crc32(body).to_bytes(4, "little")


@contextmanager
def refused(what, remedy=""):
    """Any error of bytes whose check sum is right, but which skcalib did not write, in one form."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise ValueError(
            f"The {what} is damaged, or does not fit its parameters ({error}).{remedy}"
        ) from error


def require(found, what):
    """Raise unless what was read is as it was written."""
    if not found:
        raise ValueError(f"{what} is not as it was written")


def has_form(value, form):
    """Whether a value of JSON is of a type, one of a tuple of forms, a list or a dict of forms.

    Whole numbers are not negative and below 2**63, numbers are finite, and `object` is anything.
    """
    if isinstance(form, dict):
        same = isinstance(value, dict) and value.keys() == form.keys()
        return same and all(has_form(value[name], one) for name, one in form.items())
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(one, form[0]) for one in value)
    if isinstance(form, tuple):
        return any(has_form(value, one) for one in form)
    if form is float:
        return type(value) in (int, float) and abs(value) < 2**1023 and isfinite(value)
    if form is int:
        return type(value) is int and 0 <= value < 2**63
    return form is object or value is form or type(value) is form


def unseal(data, mark, forms, what):
    """Header, bytes without the check sum, and the place where the parts begin.

    `forms` has the form of the header of each version of the format that can be read.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ValueError(f"data must be bytes, got {type(data).__name__}.")
    data, at = bytes(data), len(mark) + 1
    if data[: len(mark)] != mark:
        raise ValueError(f"The bytes are no {what}: they do not begin with {mark.decode()!r}.")
    version = data[at - 1] if len(data) >= at else "none"
    if version not in forms:
        is_older = version != "none" and version < min(forms)
        raise ValueError(
            f"The {what} has version {version} of the format, and this skcalib reads "
            f"version {' and '.join(map(str, sorted(forms)))}: "
            f"{'make it again from its samples' if is_older else 'update skcalib'}."
        )
    if len(data) < at + 8 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"The {what} is damaged or incomplete: its check sum is wrong.")
    start = at + 4 + int.from_bytes(data[at : at + 4], "little")
    with refused(what):
        header = json.loads(data[at + 4 : start])
        require(has_form(header, forms[version]), "its header")
    return header, data[:-4], start


def plain(value, what):
    """A label, a group or a name that JSON can hold; raises for others, before they are stored."""
    if isinstance(value, tuple):
        return tuple(plain(one, what) for one in value)
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # dates would be integers
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    raise ValueError(
        f"{what} takes strings and finite numbers only, which can be saved, got {shown(value)}: "
        "write dates and other objects as text, and leave out or name missing values."
    )


def write_arrays(arrays):
    """Names, types and shapes of float64 and int64 arrays for a header, and their bytes."""
    listed, parts = [], []
    for name, array in arrays.items():
        kind = "<i8" if array.dtype.kind == "i" else "<f8"
        listed.append([name, kind, list(array.shape)])
        parts.append(array.astype(kind).tobytes())
    return listed, parts


def read_arrays(listed, data, start):
    """The arrays that `write_arrays` listed, by name, from a place on, and where they end."""
    arrays = {}
    for name, kind, shape in listed:
        stop = start + 8 * prod(shape)
        require(stop <= len(data), f"the array {name!r}")
        native = {"<i8": np.int64, "<f8": np.float64}[kind]
        arrays[name] = np.frombuffer(data[start:stop], kind).astype(native).reshape(shape)
        start = stop
    return arrays, start


def require_arrays(found, expected):
    """Raise unless arrays have the names, types and shapes of others, and no NaN."""
    require(found.keys() == expected.keys(), "the list of arrays")
    for name, one in expected.items():
        same = found[name].shape == one.shape and found[name].dtype.kind == one.dtype.kind
        require(same and not np.isnan(found[name]).any(), f"the array {name!r}")
