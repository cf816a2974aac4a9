"""Bytes of an object: a name, a version, a header in JSON, arrays and a check sum; no pickle."""

import json
import zlib
from math import prod

import numpy as np

from skcalib._values import shown


def seal(mark, version, header, parts):
    """Bytes: mark, version, length of the header, header, `parts`, and their check sum.

    The version has one byte and the length four, as has the check sum (CRC-32). All numbers are
    little-endian.
    """
    text = json.dumps(header, allow_nan=False).encode()
    start = [mark, bytes([version]), len(text).to_bytes(4, "little"), text]
    body = b"".join([*start, *parts])
    return body + zlib.crc32(body).to_bytes(4, "little")


def unseal(data, mark, version, what):
    """Header, bytes, and the place where the parts begin; raises for other or damaged bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ValueError(f"data must be bytes, got {type(data).__name__}.")
    data, at = bytes(data), len(mark) + 1
    if data[: len(mark)] != mark:
        raise ValueError(f"The bytes are no {what}: they do not begin with {mark.decode()!r}.")
    if data[len(mark) : at] != bytes([version]):
        found = data[at - 1] if len(data) >= at else "none"
        raise ValueError(
            f"The {what} has version {found} of the format, and this skcalib reads "
            f"version {version}: update skcalib."
        )
    if len(data) < at + 8 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"The {what} is damaged or incomplete: its check sum is wrong.")
    start = at + 4 + int.from_bytes(data[at : at + 4], "little")
    return json.loads(data[at + 4 : start]), data, start


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
        native = np.int64 if kind == "<i8" else np.float64
        arrays[name] = np.frombuffer(data[start:stop], kind).astype(native).reshape(shape)
        start = stop
    return arrays, start
