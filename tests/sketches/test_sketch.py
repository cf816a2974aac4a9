"""Sketches: the sums of all samples, whatever the chunks, and functions of them within a bound."""

import io
import json
from functools import reduce
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import peak_memory
from grids import rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import skcalib as s
from skcalib.data.notions import Classwise
from skcalib.sketches.sketch import N_CELLS
from skcalib.sketches.sketch_sums import cells_of

UNIFORM = {"strategy": "uniform", "n_bins": 15}


def sample(n_samples, n_classes=3, *, seed=0, weighted=False):
    """Labels, forecasts with ties, zeros, ones and tiny values, and weights or None."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n_samples)
    proba[::5] = np.round(10 * proba[::5]) / 10
    proba[::5] /= proba[::5].sum(axis=1, keepdims=True)
    proba[:n_classes] = np.eye(n_classes)[:n_samples]
    proba[n_classes : n_classes + 3, 0] = 1e-300
    proba[n_classes : n_classes + 3] /= proba[n_classes : n_classes + 3].sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    weight = rng.gamma(0.5, 1.0, n_samples) * 10.0 ** rng.integers(-3, 3, n_samples)
    weight[1::7] = 0.0
    return y, proba, weight if weighted else None


def cells(sketch):
    """Everything that a sketch holds, for comparisons."""
    frame = sketch.to_frame().astype({"group": str, "problem": str})
    assert frame.index.is_unique
    return frame.sort_values(["group", "problem", "cell", "event"], ignore_index=True)


def agree(sketch, two, rtol=4e-16):
    """The same cells, and the same sums up to the last bit."""
    pd.testing.assert_frame_equal(cells(sketch), cells(two), rtol=rtol, atol=0)
    assert sketch.n_samples_seen_ == two.n_samples_seen_


def test_cells_increase_and_are_narrow_at_both_ends():
    """They end at the p of equidistant sqrt p - sqrt(1 - p)."""
    near_one = 1 - np.geomspace(0.5, 1e-16, 4000)
    score = np.unique(np.concatenate([[0.0, 1.0], np.geomspace(1e-300, 0.5, 4000), near_one]))
    cell = cells_of(score, N_CELLS)
    assert (np.diff(cell) >= 0).all() and cell[0] == 0 and cell[-1] == N_CELLS + 1
    inside = (score > 0) & (score < 1)
    assert (cell[inside].min(), cell[inside].max()) == (1, N_CELLS)
    x = np.linspace(-1, 1, N_CELLS + 1)
    ends = ((x + np.sqrt(2 - x * x)) / 2) ** 2
    width = np.diff(ends)
    assert width.max() < 2.2e-5 and width[0] < 1.1e-9 and width[-1] < 1.1e-9
    k = cell[inside] - 1
    assert (score[inside] >= ends[k] - 1e-12).all() and (score[inside] <= ends[k + 1] + 1e-12).all()


@pytest.mark.parametrize(
    ("notion", "weighted", "n_cells"),
    [("classwise", True, 2**20), *product(["top_label", "classwise"], [False, True], [32])],
)
def test_sums_by_loops(notion, weighted, n_cells):
    """Of few cells there is a table, of many those that occur."""
    y, proba, weight = sample(60, weighted=weighted)
    sketch = s.ForecastSketch([0, 1, 2], notion=notion, n_cells=n_cells).fit(y, proba, weight)
    expected = {}
    for label, p, w in zip(y, proba, np.ones(60) if weight is None else weight, strict=True):
        pairs = [(k, p[k], label == k) for k in range(3)]
        if notion == "top_label":
            pairs = [("top label", p.max(), label == p.argmax())]
        for name, score, event in pairs if w else []:
            cell = int(cells_of(np.array([score]), n_cells)[0])
            sums = expected.setdefault((name, cell, bool(event)), np.zeros(4))
            sums += [1, w, w**2, w * score]
    frame = sketch.to_frame().set_index(["problem", "cell", "event"])
    frame["mean_score"] *= frame["weight"]
    columns = frame[["count", "weight", "square_weight", "mean_score"]].T.to_dict("list")
    assert columns.keys() == expected.keys()
    for key, sums in expected.items():
        np.testing.assert_allclose(columns[key], sums, rtol=1e-13, atol=1e-300)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.booleans(), st.randoms())
def test_order_and_chunks_leave_no_trace(sizes, weighted, shuffle):
    y, proba, weight = sample(sum(sizes), seed=sum(sizes), weighted=weighted)
    w = np.ones(len(y)) if weight is None else weight
    chunks = [r for r in np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]) if w[r].any()]
    parts = [s.ForecastSketch([0, 1, 2]).fit(y[r], proba[r], w[r]) for r in chunks]
    shuffle.shuffle(parts)
    if parts:
        whole = s.ForecastSketch([0, 1, 2]).fit(y, proba, weight)
        agree(reduce(s.ForecastSketch.merge, parts), whole, rtol=2e-14 if weighted else 1e-15)


def test_sums_of_whole_numbers_are_exact_and_many_small_chunks_lose_nothing():
    heavy, light = (
        s.ForecastSketch([0, 1]).fit([1], [0.75], [weight]) for weight in (2.0**52, 1.0)
    )
    total = reduce(s.ForecastSketch.merge, [light, heavy, light, light])
    assert total.to_frame()["weight"].tolist() == [2**52 + 3]
    large = s.ForecastSketch([0, 1]).fit([1], [0.75], [2.0**53]).merge(light)
    total = reduce(s.ForecastSketch.merge, [large, large, light, light])
    assert total.to_frame()["weight"].tolist() == [2**54 + 4]
    sketch = s.ForecastSketch([0, 1])
    for _ in range(100):
        sketch.partial_fit([0, 1], [0.1, 0.1], [1e-3, 1e3])
    frame = sketch.to_frame()
    np.testing.assert_allclose(frame["weight"], [0.1, 1e5], rtol=1e-16)
    np.testing.assert_allclose(frame["mean_score"], 0.1, rtol=2e-16)


def test_groups_are_sketches_and_add_up():
    y, proba, weight = sample(500, weighted=True)
    by = np.array(["north", "south", "east"])[np.random.default_rng(0).integers(3, size=500)]
    new, weight[200:] = s.ForecastSketch([0, 1, 2], notion="classwise"), 1
    sketch, whole = clone(new), clone(new).fit(y, proba, weight)
    for rows, part_weight in ((slice(0, 200), weight[:200]), (slice(200, 500), None)):
        sketch.partial_fit(y[rows], proba[rows], part_weight, by=by[rows])
    assert sorted(sketch.groups_) == ["east", "north", "south"]
    for name in sketch.groups_:
        here = by == name
        alone = clone(new).fit(y[here], proba[here], weight[here], by=by[here])
        agree(sketch.group(name), alone, rtol=1e-13)
    for options in (UNIFORM, {"norm": "l2", "debiased": True, **UNIFORM}):
        error, expected = (s.calibration_error(samples, **options) for samples in (sketch, whole))
        assert error == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="'west' is not one of the groups"):
        sketch.group("west")


@pytest.mark.parametrize(
    ("n_bins", "n_samples"),
    [*rotated([2, 3, 5, 10, 15, 20], [7, 1000], 1), (3, 200_000), (10, 200_000)],
)
def test_scores_on_an_edge_stay_there(n_bins, n_samples):
    """The mean of equal scores is that score: rounding errors of sums do not move it past it."""
    for k in range(1, n_bins):
        edge = k / n_bins
        sketch = s.ForecastSketch([0, 1])
        for _ in range(3):
            sketch.partial_fit(np.ones(n_samples, dtype=int), np.full(n_samples, edge))
        (rows,) = sketch.scored()
        assert abs(rows.score[0] - edge) < 3e-16
        (bins,) = s.reliability_bins(sketch, strategy="uniform", n_bins=n_bins)
        # the bin nearer to 1/2; at 1/2 one of its own, after k others
        assert bins.index.tolist() == [k - 1 if 2 * k > n_bins else k]
        assert len(bins.edges) == n_bins + 1 + (2 * k == n_bins)


def test_bytes_are_the_sketch():
    y, proba, weight = sample(400, weighted=True)
    names = np.array(["a", "b", "c"])
    by = np.random.default_rng(0).integers(4, size=400)
    sketch = s.ForecastSketch(names, notion="classwise").fit(names[y], proba, weight, by=by)
    state = sketch.to_bytes()
    with np.load(io.BytesIO(state), allow_pickle=False) as archive:  # as NumPy reads it
        header = json.loads(archive["header"].tobytes())
    assert (header["kind"], header["version"]) == ("ForecastSketch", 1)
    copy = s.ForecastSketch.from_bytes(state)
    agree(copy, sketch, rtol=0)
    assert copy.groups_ == sketch.groups_ and copy.to_bytes() == state
    assert copy.classes_.tolist() == ["a", "b", "c"]
    agree(copy + sketch, sketch + sketch, rtol=0)
    agree(copy.partial_fit(names[y], proba, weight, by=by), sketch + sketch, rtol=1e-15)
    for use in (s.ForecastSketch.to_bytes, s.ForecastSketch.to_frame):
        with pytest.raises(NotFittedError):
            use(s.ForecastSketch([0, 1]))


STATES = [s.ForecastSketch([0, 1]), s.SequentialCalibrationTest(), s.CalibrationMonitor()]


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_other_bytes_are_refused(state):
    saved = clone(state).fit([0, 1], [0.2, 0.7]).to_bytes()
    older = f"skcalib-{type(state).__name__}".encode()
    for spoiled, words in (
        (saved[:-7], "damaged or incomplete"),
        (saved[:250] + b"?" + saved[251:], "damaged or incomplete"),
        (saved[:40], "damaged or incomplete"),
        (older + b"\x02", "has the format of an earlier version of skcalib, .*: make it again"),
        (b"label,p\n", "The bytes are no state of a"),
        (b"", "The bytes are no state of a"),
        ("text", "must be bytes, got str"),
    ):
        with pytest.raises(ValueError, match=words):
            type(state).from_bytes(spoiled)


def test_parameters_are_refused():
    for parameters, words in (
        ({"labels": None}, "labels must list the classes"),
        ({"labels": [0, 1, 2], "notion": "canonical"}, "'canonical' is for two classes, got 3"),
        ({"labels": [0, 1], "n_cells": 8}, "n_cells must be from 16 to 4194304, got 8"),
    ):
        with pytest.raises(ValueError, match=words):
            s.ForecastSketch(**parameters).fit([0, 1], [0.2, 0.7])


def test_bad_chunks_change_nothing():
    sketch = s.ForecastSketch([0, 1]).fit([0, 1], [0.2, 0.7])
    before, chunk = sketch.to_bytes(), ([0, 1], [0.2, 0.7])
    for arguments, options, words in (
        (([0, 2], [0.2, 0.7]), {}, "y_true contains 2"),
        ((np.array([0, "a"], dtype=object), [0.2, 0.7]), {}, "mixes labels of types"),
        (([0, 1], [0.2, 1.7]), {}, "y_proba"),
        (([0, 1], [0.2, np.nan]), {}, "y_proba"),
        (([], []), {}, "y_true is empty"),
        ((*chunk, [0, 0]), {}, "sample_weight sums to zero"),
        (chunk, {"by": ["a"]}, "by must have shape"),
    ):
        with pytest.raises(ValueError, match=words):
            sketch.partial_fit(*arguments, **options)
    sketch.set_params(n_cells=100)
    with pytest.raises(ValueError, match="different n_cells"):
        sketch.partial_fit(*chunk)
    assert sketch.set_params(n_cells=N_CELLS).to_bytes() == before
    addends = {"different labels": s.ForecastSketch([1, 0]).fit(*chunk), "Only another Forec": 1}
    for words, addend in addends.items():
        with pytest.raises(ValueError, match=words):
            sketch + addend
    agree(sketch + s.ForecastSketch([0, 1]), sketch, rtol=0)


def test_functions_say_what_does_not_fit():
    sketch = s.ForecastSketch([0, 1, 2]).fit(*sample(50)[:2])
    for function, arguments, words in (
        (
            s.calibration_error,
            {"notion": "classwise"},
            "made for notion='top_label', got notion=Classwise",
        ),
        (s.calibration_error, {"y_proba": [0.5], "labels": [0, 1, 2]}, "leave out y_proba, labels"),
        (s.corp_decomposition, {"pos_label": 1}, "leave out pos_label"),
    ):
        with pytest.raises(ValueError, match=words):
            function(sketch, **arguments)
    summed = s.ForecastSketch([0, 1, 2], notion="classwise").fit(*sample(50)[:2])
    error = s.calibration_error(summed, notion="classwise", reduce="sum")
    assert error == pytest.approx(s.calibration_error(summed, notion=Classwise("sum")))
    assert error == pytest.approx(3 * s.calibration_error(summed))


def test_memory_does_not_grow_with_the_samples():
    score, draws = np.random.default_rng(0).random((2, 50_000))
    sketch = s.ForecastSketch([0, 1])
    for _ in range(3):
        sketch.partial_fit(draws < score, score)
    _, peak = peak_memory(lambda: [sketch.partial_fit(draws < score, score) for _ in range(5)])
    assert peak < 60e6 and len(sketch.to_bytes()) < 12e6
