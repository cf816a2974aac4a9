"""Saved states that were changed, with a check sum that is right: `ValueError`, or a state."""

import json
import random
import resource
import struct
import time
import warnings
import zlib
from dataclasses import replace

import numpy as np
import pytest

from skcalib import CalibrationMonitor, ForecastSketch, calibration_error
from skcalib.kernels import LaplacianKernel
from skcalib.monitoring import SequentialCalibrationTest

rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(3), 300)
Y = (rng.random(300)[:, None] > (P**3 / (P**3).sum(1, keepdims=True)).cumsum(1)[:, :2]).sum(1)
BY = np.array(["north", "south"])[np.arange(300) % 2]
WRONG = (None, True, -1, 0, 0.5, 7, 2**40, 2**70, 1e308, "x", [], {}, [[1]], ["a", {}])
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e308, 1e300, 5e-324)


def states():
    """Pairs of a class and the bytes of one of its objects."""
    options = {"window": 100, "n_windows": 2, "alpha": 0.02}
    monitor = CalibrationMonitor(notion="canonical", **options)
    with_groups = monitor.partial_fit(Y, P, by=BY, source="a")
    assert with_groups.n_alarms_ and len(with_groups.windows_) == 2
    binary = CalibrationMonitor([False, True], **options).partial_fit(Y[:250] > 0, 1 - P[:250, 0])
    kernel = SequentialCalibrationTest(features=0.5 * LaplacianKernel(0.3)).partial_fit(Y, P)
    sketch = ForecastSketch([0, 1, 2], notion="classwise", n_cells=64).fit(Y, P, P[:, 0], by=BY)
    plain = ForecastSketch(["a", "b"]).fit(np.array(["a", "b"])[(Y > 0) * 1], 1 - P[:, 0])
    few = SequentialCalibrationTest(features=1, notion="classwise").partial_fit(Y, P)
    return [
        (type(one), one.to_bytes()) for one in (with_groups, binary, kernel, few, sketch, plain)
    ]


def use(state):
    """What may be called on a state that was accepted."""
    state.to_bytes()
    if isinstance(state, ForecastSketch):
        return calibration_error(state, n_bins=5, notion=state._plan().notion)
    if len(state.classes_) < 4:
        proba = P[:5, : len(state.classes_)] / P[:5, : len(state.classes_)].sum(1, keepdims=True)
        state.partial_fit(np.array(state.classes_)[[0, 1, 0, 1, 1]], proba)
    return state.summary() if isinstance(state, CalibrationMonitor) else state.evidence()


def places(value, path=()):
    """Paths of all values of JSON."""
    yield path
    for name in (
        value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    ):
        yield from places(value[name], (*path, name))


def parts_of(data):
    """What is before the header, the header, and what is after it, without the check sum."""
    at = data.index(b"{") - 4
    end = at + 4 + int.from_bytes(data[at : at + 4], "little")
    return data[:at], data[at + 4 : end], bytearray(data[end:-4])


def joined(start, text, body=b""):
    """The bytes of these parts, with the check sum that fits."""
    whole = start + len(text).to_bytes(4, "little") + bytes(text) + bytes(body)
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def forged(data, draw):
    """The bytes with one change, and the check sum that fits."""
    start, text, body = parts_of(data)
    how = draw.randrange(5)
    if how < 2:
        header = json.loads(text)
        *above, last = draw.choice(list(places(header))[1:])
        inside = header
        for name in above:
            inside = inside[name]
        if draw.random() < 0.1 and isinstance(inside, dict):
            del inside[last]
        else:
            inside[last] = draw.choice(WRONG)
        text = json.dumps(header).encode()
    elif how == 2:
        text = bytearray(text)
        text[draw.randrange(len(text))] = draw.choice(b'0123456789-.eE,:"{}[]naN')
    elif how == 3:
        place = 8 * draw.randrange(len(body) // 8)
        integer = draw.choice((-1, 0, 1, 50, 2**40, 2**62, -(2**62)))
        value = ("<q", integer) if draw.random() < 0.3 else ("<d", draw.choice(NUMBERS))
        body[place : place + 8] = struct.pack(*value)
    else:
        body = body[: draw.randrange(len(body))] + bytes(draw.choice((0, 8, 64)))
    return joined(start, text, body)


@pytest.mark.parametrize("number", [1500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_changed_state_is_refused_with_a_value_error(number):
    """Or it is used like any other: no other error, less than 1 GiB more, and less than 5 s."""
    draw, known, refused = random.Random(number), states(), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(number):
        kind, data = draw.choice(known)
        changed = forged(data, draw)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(kind.from_bytes(changed))
            except ValueError as error:
                refused += 1
                assert "\n" not in str(error)
        assert time.process_time() - began < 5
    assert refused > 0.6 * number
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_samples": 299}, "n_samples or step"),
        ({"step": 0}, "n_samples or step"),
        ({"step": 2**63}, "its header is not as it was written"),
        ({"classes": list(range(20_000))}, "the number of alternatives"),
        ({"arrays": [["values", "<f8", [2.0]]]}, "its header is not as it was written"),
        ({"arrays": [["values", "<f8", [2**40]]]}, "the array 'values' is not as it was written"),
    ],
)
def test_other_numbers_in_the_header(change, words):
    stream = SequentialCalibrationTest(notion="canonical").partial_fit(Y, P)
    start, text, body = parts_of(stream.to_bytes())
    header = json.loads(text)
    assert set(change) <= set(header)
    changed = joined(start, json.dumps(header | change).encode(), body)
    with pytest.raises(ValueError, match=words):
        stream.from_bytes(changed)


def test_a_path_with_a_missing_value():
    stream = SequentialCalibrationTest(notion="canonical").partial_fit(Y, P)
    stream._points[0] = stream._points[0][0], np.nan
    with pytest.raises(ValueError, match="the path"):
        stream.from_bytes(stream.to_bytes())


def changed_at(values, *changes):
    """A copy of values (F, m) with other numbers at some places of the first row."""
    found = values.copy()
    for place, by in changes:
        found[0, place] += by
    return found


@pytest.mark.parametrize(
    ("words", "name", "change"),
    [
        ("a sum", "low", lambda one: changed_at(one, (0, 1.0))),  # no rounding error
        ("a sum", "rest", lambda one: changed_at(one, (0, 1e3))),
        ("a sum", "total", lambda one: changed_at(one, (0, np.inf))),
        *(("a sum", "scale", lambda one, to=to: to) for to in (0.0, -1.0, 3.0, np.nan)),
        ("the list of cells", "key", lambda one: one[::-1]),
        ("the list of cells", "key", lambda one: np.append(one[:-1], one[-2])),
        ("the list of cells", "key", lambda one: np.append(one[:-1], 1 << 40)),
        ("the list of cells", "key", lambda one: np.append(-1, one[1:])),
        *(("the list of cells", "n_samples", lambda one, to=to: to) for to in (0, 2**53 + 1)),
        ("the number of samples", "n_samples", lambda one: one + 1),
        ("the number of samples", "high", lambda one: changed_at(one, (0, 1.0))),
        ("the weight of a cell", "high", lambda one: changed_at(one, (0, 0.5), (1, -0.5))),
        ("the weight of a cell", "high", lambda one: changed_at(one, (0, 1.0), (1, -1.0))),
    ],
)
def test_cells_that_are_no_sums_of_samples(words, name, change):
    (sums,) = ForecastSketch([0, 1]).fit(Y > 1, P[:, 0])._sums
    sums.require_sums()
    assert sums.high[0, 1] == 1  # a single sample
    with pytest.raises(ValueError, match=f"^{words} is not as it was written"):
        replace(sums, **{name: change(getattr(sums, name))}).require_sums()


def test_infinite_sums_of_windows():
    changes = {
        "_current": lambda x: x + np.inf,
        "_total": lambda x: x - 1e6,
        "_lowest": lambda x: [one + np.inf for one in x],
        "_restarted": lambda x: x + 10**9,
    }
    for name, change in changes.items():
        monitor = CalibrationMonitor([0, 1]).partial_fit(Y > 0, 1 - P[:, 0])
        setattr(monitor, name, change(getattr(monitor, name)))
        with pytest.raises(ValueError, match="the sums of windows is not as it was written"):
            monitor.from_bytes(monitor.to_bytes())


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"labels": ' + b"9" * 5000 + b"}", b"\xff", b""]
)
def test_other_headers(text):
    with pytest.raises(ValueError, match="The sketch is damaged, or does not fit its parameters"):
        ForecastSketch.from_bytes(joined(b"skcalib-sketch\x01", text))
