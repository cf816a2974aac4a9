"""Saved states that were changed, with a check sum that is right: `ValueError`, or a state."""

import json
import random
import re
import resource
import time
import warnings
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from conftest import Trap

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
        (type(state), state.to_bytes())
        for state in (with_groups, binary, kernel, few, sketch, plain)
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


def parts_of(state):
    """The text of the header, and the other arrays."""
    with np.load(BytesIO(state), allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays.pop("header").tobytes(), arrays


def joined(text, arrays):
    """The bytes of these parts, with check sums that fit."""
    file = BytesIO()
    np.savez(file, header=np.frombuffer(bytes(text), np.uint8), **arrays)
    return file.getvalue()


def forged(state, draw):
    """The bytes with one change, and check sums that fit."""
    text, arrays = parts_of(state)
    way, name = draw.randrange(6), draw.choice(sorted(arrays))
    array = arrays[name].copy()
    if way < 2:
        header = json.loads(text)
        *above, last = draw.choice(list(places(header))[1:])
        inside = header
        for key in above:
            inside = inside[key]
        if draw.random() < 0.1 and isinstance(inside, dict):
            del inside[last]
        else:
            inside[last] = draw.choice(WRONG)
        text = json.dumps(header).encode()
    elif way == 2:
        text = bytearray(text)
        text[draw.randrange(len(text))] = draw.choice(b'0123456789-.eE,:"{}[]naN')
    elif way == 3 and array.size:
        integer = draw.choice((-1, 0, 1, 50, 2**40, 2**62, -(2**62)))
        with np.errstate(all="ignore"):
            number = np.float64(draw.choice((*NUMBERS, integer)))
            array.flat[draw.randrange(array.size)] = number.astype(array.dtype)
        arrays[name] = array
    elif way == 4:
        arrays[name] = draw.choice((array[..., :-1] if array.ndim else array, array[None], array.T,
                                    array.astype(str), array.astype(complex)))  # fmt: skip
    else:
        del arrays[name]
        arrays |= {} if draw.random() < 0.5 else {"other": array}
    return joined(text, arrays)


def shape_announced(state, draw):
    """The bytes with another shape in the header of an array, which the check sum does not fit."""
    places = [match.start() + 10 for match in re.finditer(rb"'shape': \(", state)]
    place = draw.choice(places)
    return state[:place] + b"9999999999999"[: draw.randrange(1, 13)] + state[place + 12 :]


@pytest.mark.parametrize("number", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_changed_state_is_refused_with_a_value_error(number):
    """Or it is used like any other: no other error, less than 1 GiB more, and less than 5 s."""
    draw, known, refused = random.Random(number), states(), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(number):
        kind, state = draw.choice(known)
        changed = forged(state, draw)
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
        ({"n_samples": 301}, "n_samples or step"),
        ({"step": 0}, "n_samples or step"),
        ({"step": 2**63}, "its header is not as it was written"),
        ({"classes": list(range(20_000))}, "the number of alternatives"),
        ({"own": {"rejected_at": -1}}, "its header is not as it was written"),
        ({"version": 2}, "has version 2 of the format, and this skcalib reads version 1: update"),
        ({"kind": "ForecastSketch"}, "are no state of a SequentialCalibrationTest: they are one"),
    ],
)
def test_other_values_in_the_header(change, words):
    stream = SequentialCalibrationTest(notion="canonical").partial_fit(Y, P)
    text, arrays = parts_of(stream.to_bytes())
    header = json.loads(text)
    assert set(change) <= set(header)
    changed = joined(json.dumps(header | change).encode(), arrays)
    with pytest.raises(ValueError, match=words):
        stream.from_bytes(changed)


def test_arrays_that_announce_other_shapes():
    """No memory is reserved for what the bytes do not have."""
    draw, before = random.Random(0), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, state in states() * 10:
        with pytest.raises(ValueError, match="is damaged or incomplete"):
            kind.from_bytes(shape_announced(state, draw))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18


def test_objects_are_never_loaded():
    text, arrays = parts_of(ForecastSketch([0, 1]).fit([0, 1], [0.2, 0.7]).to_bytes())
    for values in (np.array([Trap()]), np.array([None])):
        with pytest.raises(ValueError, match="is damaged or incomplete"):
            ForecastSketch.from_bytes(joined(text, {**arrays, "0.key": values}))


def test_a_path_with_a_missing_value():
    stream = SequentialCalibrationTest(notion="canonical").partial_fit(Y, P)
    stream._points[0] = stream._points[0][0], np.nan
    with pytest.raises(ValueError, match="the path"):
        stream.from_bytes(stream.to_bytes())


def changed_at(values, *changes):
    """A copy of values (F, m) with other numbers at some places of the first row."""
    changed = values.copy()
    for place, by in changes:
        changed[0, place] += by
    return changed


@pytest.mark.parametrize(
    ("words", "name", "change"),
    [
        ("a sum", "low", lambda values: changed_at(values, (0, 1.0))),  # no rounding error
        ("a sum", "rest", lambda values: changed_at(values, (0, 1e3))),
        ("a sum", "total", lambda values: changed_at(values, (0, np.inf))),
        *(("a sum", "scale", lambda values, to=to: to) for to in (0.0, -1.0, 3.0, np.nan)),
        ("the list of cells", "key", lambda values: values[::-1]),
        ("the list of cells", "key", lambda values: np.append(values[:-1], values[-2])),
        ("the list of cells", "key", lambda values: np.append(values[:-1], 1 << 40)),
        ("the list of cells", "key", lambda values: np.append(-1, values[1:])),
        *(("the list of cells", "n_samples", lambda values, to=to: to) for to in (0, 2**53 + 1)),
        ("the number of samples", "n_samples", lambda values: values + 1),
        ("the number of samples", "high", lambda values: changed_at(values, (0, 1.0))),
        ("the weight of a cell", "high", lambda values: changed_at(values, (0, 0.5), (1, -0.5))),
        ("the weight of a cell", "high", lambda values: changed_at(values, (0, 1.0), (1, -1.0))),
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
        "_lowest": lambda x: [lowest + np.inf for lowest in x],
        "_restarted": lambda x: x + 10**9,
    }
    for name, change in changes.items():
        monitor = CalibrationMonitor([0, 1]).partial_fit(Y > 0, 1 - P[:, 0])
        setattr(monitor, name, change(getattr(monitor, name)))
        with pytest.raises(ValueError, match="the sums of windows is not as it was written"):
            monitor.from_bytes(monitor.to_bytes())


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"labels": ' + b"9" * 5000 + b"}", b"\xff", b"", b"[1]", b'{"a": 1}']
)
def test_other_headers(text):
    with pytest.raises(ValueError, match="The state of a ForecastSketch is damaged or incomplete"):
        ForecastSketch.from_bytes(joined(text, {}))
