"""What is accepted as labels, probabilities and weights, and what is refused.

Right answers for odd but valid input are tested here on `check_problem`, and once more through a
public function, so that nothing on the way changes them.
"""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from conftest import pairs
from engines import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import skcalib as s
from skcalib._util.validation import check_proba
from skcalib.data.labels import check_y
from skcalib.data.problem import Problem, check_problem, event_last

Y = np.array([0, 1, 1, 2, 0, 2])
P = np.array(
    [[0.7, 0.2, 0.1], [0, 1, 0], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7], [0.7, 0.2, 0.1], [0.4, 0.3, 0.3]]
)
POSITIVE = np.array([0.2, 0.9, 0.5, 1.0, 0.0, 0.5])
BITS = np.array([0, 1, 1, 1, 0, 0])
PAIRS = pairs(POSITIVE)
#: A public function that needs no smoother: the mean Brier loss.
brier = s.calibration_upper_bound


def without(array, row, value):
    changed = np.array(array, dtype=object if isinstance(value, str) else float)
    changed[row] = value
    return changed


PERCENTS = np.array([[34, 33, 34]] * 6)
BAD_PROBA = [
    (Y, without(P, 1, [-1e-8, 1, 0]), "y_proba has the value -1e-08"),
    (Y, without(P, (0, 0), 0.70002), "y_proba must sum to 1"),
    (Y, without(P, 1, [1.0001, 0, 0]), "y_proba has the value 1.0001, outside"),
    (BITS, POSITIVE + 1e-7, "y_proba has the value 1.0000001, outside"),
    (Y, np.round(99.5 * P, 1), "The rows sum to 100.*: divide by 100"),
    (Y, PERCENTS, r"value 34, outside .*The rows sum to 100, so .*: divide by 100\.$"),
    (BITS, 2 * POSITIVE, "value 2, .*percentages, divide by 100"),
    (BITS, np.full((6, 2), 2.0**1023), r"outside \[0, 1\]"),
    (Y, np.empty((6, 0)), "y_proba must have shape"),
    (Y, None, "y_proba is missing: pass labels and forecasts"),
    ([0, 1], [[0.5, 0.5], [1.0]], "y_proba must be a numeric array"),
    (BITS, pd.Series([0.1, None, *[0.5] * 4]), "y_proba contains NaN"),
    (BITS, P, "2 classes but y_proba has 3 columns: pass labels="),
    (Y, POSITIVE, "y_proba has one column .*pass all columns, or y =="),
    (["x"] * 3, np.eye(2)[[0, 1, 0]], "pass labels="),
]
WITH_NA = ["a", "b", pd.NA, "c", "a", "c"]
BAD_Y = [
    (csr_array(np.eye(3)[Y]), r"y_true must hold one label per sample.* \(6, 3\)"),
    *((y, "y_true must hold one label per sample") for y in (Y[:, None, None], 1, None)),
    ([[0], [1, 2]], "y_true must hold one label per sample"),
    (without(Y, 2, np.nan), "y_true contains NaN"),
    (without(Y, 2, np.inf), "y_true contains NaN or infinity"),
    (["a", "b", np.nan, "c", "a", "c"], "y_true contains missing values"),
    ([0, 1, pd.NA, 2, 0, 2], "y_true contains missing values"),
    (pd.Series([0, 1, pd.NA, 2, 0, 2], dtype="Int64"), "y_true contains"),
    (pd.Series(WITH_NA), "y_true contains missing"),
    (np.array(["2020-01-01", "NaT"] * 3, dtype="M8[ns]"), "y_true"),
    (pd.Categorical(WITH_NA), "y_true contains missing"),
    (pl.Series(["a", "b", None, "c", "a", "c"]), "y_true contains missing values"),
    (pl.Series([0, 1, None, 2, 0, 2]), "y_true contains NaN"),
    ([0, 1, 1, "2", 0, 2], "y_true mixes labels"),
    (np.array([0, 1, 1, "2", 0, 2], dtype=object), "y_true mixes labels"),
    (Y + 1j, "y_true must hold class labels"),
]
BAD_ARGUMENTS = [
    ("labels", [0, 1], "labels lists 2 classes but y_proba has 3 columns"),
    ("labels", [0, 1, 2, 3], "labels lists 4 classes but y_proba has 3 columns"),
    ("labels", "abc", "labels must list at least two classes"),
    ("labels", [[0, 1], [1, 2]], "labels must list"),
    ("labels", ["a", "b", "c"], "y_true contains 0, .* none of the classes"),
    ("sample_weight", [1, 1, np.nan, 1, 1, 1], "sample_weight must be finite"),
    ("sample_weight", [1, np.inf, 1, 1, 1, 1], "sample_weight must be finite"),
    ("sample_weight", np.ones((6, 2)), "sample_weight must have shape"),
    ("sample_weight", 2.0, "sample_weight must have shape"),
    ("sample_weight", [None] * 6, "sample_weight must be"),
]
REFUSED = [
    *((y, proba, {}, words) for y, proba, words in BAD_PROBA),
    *((y, P, {}, words) for y, words in BAD_Y),
    *((Y, P, {name: value}, words) for name, value, words in BAD_ARGUMENTS),
    (BITS == 1, POSITIVE, {"pos_label": "x"}, r"\[False, True\]"),
]


@pytest.mark.parametrize("function", [brier, s.proper_calibration_error])
@pytest.mark.parametrize(("y", "proba", "options", "words"), REFUSED)
def test_what_is_refused_in_a_sentence(function, y, proba, options, words):
    """No numpy scalars and no line breaks in it."""
    with pytest.raises(ValueError, match=words) as caught:
        function(y, proba, **options)
    assert "\n" not in str(caught.value) and "np." not in str(caught.value)


def test_whole_numbers_are_numbers_of_columns():
    """A 0 tells that labels count from 0; without it they may count from 1."""
    y, proba = np.resize([0, 2, 3], 40), np.random.default_rng(0).dirichlet(np.ones(5), 40)
    expected = brier(y, proba, labels=range(5))
    assert brier(y, proba) == brier(y.astype(float), proba) == expected
    with pytest.raises(ValueError, match=r"labels=range\(5\) if labels are the numbers of columns"):
        brier(y[y > 0], proba[y > 0])


def test_messages_about_many_classes_are_short():
    proba = np.full((3, 1000), 1e-3)
    names = [f"c{k}" for k in range(1000)]
    words = r"none of the classes \[0, 1, 2, 3, 4, \.\.\., 999\] \(1000 in all\): pass"
    with pytest.raises(ValueError, match=words):
        brier([0, 1, 1000], proba, labels=range(1000))
    with pytest.raises(ValueError, match=r"twice: \['c0', .*, 'c0'\] \(1000 in all\)\.$"):
        brier(["c0"] * 3, proba, labels=[*names[:-1], "c0"])
    frame = pd.DataFrame(proba, columns=names[::-1])
    with pytest.raises(ValueError, match="columns of y_proba are named") as caught:
        brier(np.resize(names, 3000), pd.concat([frame] * 1000, ignore_index=True))
    assert len(str(caught.value)) < 400


def test_half_precision_is_recognised_in_a_wider_type():
    """Forecasts of half precision pass the doors that a function calls with what it has read."""
    rng = np.random.default_rng(0)
    half = rng.dirichlet(np.ones(60), 50).astype(np.float16)
    y = np.arange(50) % 60
    assert 1e-5 < np.abs(half.astype(float).sum(axis=1) - 1).max() < 1e-2
    off = np.where(np.arange(50)[:, None] == 7, np.float16(0.98) * half, half)
    for dtype in (np.float16, np.float32, np.float64):
        proba = half.astype(dtype)
        np.testing.assert_array_equal(check_proba(proba), half)
        with pytest.raises(ValueError, match=r"\(within 0.00976562\), but row 7 sums to 0.9[78]"):
            check_proba(off.astype(dtype))
    consistency = s.significance.consistency_test(
        y, half, labels=range(60), n_resamples=5, random_state=0
    )
    assert consistency.statistic == s.calibration_error(y, half, labels=range(60))
    near = half.astype(float)
    near[3] *= 1 - 1e-12  # numbers of double precision: no rounding explains these rows
    with pytest.raises(ValueError, match="within 1e-05"):
        check_proba(near)


def test_six_decimals_are_accepted_as_they_are():
    """As are float32 probabilities that somebody has turned into float64."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(8), 500)
    for rounded in (np.round(proba, 6), proba.astype(np.float32).astype(np.float64)):
        assert np.abs(rounded.sum(axis=1) - 1).max() > 1e-8
        np.testing.assert_array_equal(check_proba(rounded), rounded)


def test_positive_class_of_one_column():
    """(n,), (n, 1) and two columns are the same forecast."""
    expected = np.mean((POSITIVE - BITS) ** 2)
    for proba in (POSITIVE, POSITIVE[:, None], PAIRS, POSITIVE.tolist(), pd.Series(POSITIVE)):
        assert brier(BITS, proba) == pytest.approx(expected, rel=1e-14)
    for pos_label in (0, 1):  # does not reorder two columns
        assert brier(BITS, PAIRS, pos_label=pos_label) == brier(BITS, PAIRS)
    names = np.array(["no", "yes"])[BITS]
    assert brier(names, POSITIVE) == pytest.approx(expected, rel=1e-14)
    assert brier(names, 1 - POSITIVE, pos_label="no") == pytest.approx(expected, rel=1e-14)
    assert brier(names, 1 - POSITIVE, labels=["yes", "no"]) == pytest.approx(expected, rel=1e-14)
    assert brier(BITS == 1, POSITIVE) == pytest.approx(expected, rel=1e-14)
    assert brier(2 * BITS - 1, POSITIVE) == pytest.approx(expected, rel=1e-14)
    assert s.root_brier_score(BITS, POSITIVE) ** 2 == pytest.approx(expected, rel=1e-14)


def test_the_event_goes_last():
    """Both columns, targets and classes are turned together; nothing that was given changes."""
    problem = check_problem(BITS, PAIRS, sample_weight=[1, 2, 0, 1, 1, 1])
    before = problem.forecast.copy()
    turned = event_last(problem, 0)
    assert turned.classes.tolist() == [1, 0]
    np.testing.assert_array_equal(turned.forecast, before[:, ::-1])
    np.testing.assert_array_equal(turned.target, problem.target[:, ::-1])
    np.testing.assert_array_equal(turned.weight, problem.weight)
    np.testing.assert_array_equal(problem.forecast, before)
    assert turned.forecast.flags.c_contiguous and turned.target.flags.c_contiguous
    assert event_last(problem, 1) is problem and event_last(problem) is problem
    again = event_last(turned, 1)
    np.testing.assert_array_equal(again.forecast, before)
    single = event_last(check_problem(BITS, POSITIVE, pos_label=0), 0)
    np.testing.assert_array_equal(single.forecast[:, 1], POSITIVE)
    with pytest.raises(ValueError, match=r"pos_label=7 is not one of the classes \[0, 1\]"):
        event_last(problem, 7)
    with pytest.raises(ValueError, match="pos_label is for binary problems, but there are 3"):
        event_last(check_problem(Y, P), 1)
    three = check_problem(Y, P)
    assert event_last(three) is three


def test_labels_without_an_order_need_their_columns():
    y = np.array([1, "a", "a", 1, 1, "a"], dtype=object)
    labels = np.array([1, "a"], dtype=object)
    problem = check_problem(y, P[:, 1:] / P[:, 1:].sum(axis=1, keepdims=True), labels=labels)
    assert problem.outcome.tolist() == [0, 1, 1, 0, 0, 1]
    with pytest.raises(ValueError, match=r"none of the classes \[1, 'a'\]"):
        brier(np.array([1, "b", "a", 1, 1, "a"], dtype=object), POSITIVE, labels=labels)


def test_labels_name_the_columns():
    """In any order, and a class may be missing from y; the Brier score is that of plain arrays."""
    order = [2, 0, 1]
    for rows in (Y >= 0, Y != 1):
        expected = np.mean(np.sum((P[rows] - np.eye(3)[Y[rows]]) ** 2, axis=1))
        error = s.root_brier_score(Y[rows], P[rows][:, order], labels=order)
        assert error**2 == pytest.approx(expected, rel=1e-13)


def test_one_class_only():
    """0/1 coding, labels= or pos_label= tell what the column means."""
    for y, arguments, target in [
        (np.ones(6, dtype=int), {}, 1),
        (np.ones(6, dtype=int).astype(object), {}, 1),
        (np.zeros(6, dtype=bool).astype(object), {}, 0),
        (np.zeros(6, dtype=int), {}, 0),
        (np.full(6, -1), {}, 0),
        (np.zeros(6, dtype=bool), {}, 0),
        (["x"] * 6, {"pos_label": "x"}, 1),
        (["x"] * 6, {"pos_label": "z"}, 0),
        (["x"] * 6, {"labels": ["a", "x"]}, 1),
        (["x"] * 6, {"labels": ["x", "z"]}, 0),
    ]:
        expected = np.mean((POSITIVE - target) ** 2)
        assert brier(y, POSITIVE, **arguments) == pytest.approx(expected, rel=1e-14)


NUMBER = st.integers(-3, 3) | st.floats() | st.booleans()
LABEL = NUMBER | st.text("ab", max_size=2) | st.none()


@settings(deadline=None, max_examples=50)
@given(st.lists(LABEL, min_size=1, max_size=5))
def test_any_list_is_labels_or_a_sentence(labels):
    """Labels come out as many as they went in, never a missing value among them."""
    try:
        y = check_y(labels)
    except ValueError as error:
        assert "y_true" in str(error)
    else:
        assert len(y) == len(labels)
        assert None not in labels and not any(label != label for label in labels)


def test_columns_of_labels_equal_one_hot_targets():
    column, weight = np.array([0, 1, 1, 2, 0, 2]), np.arange(1.0, 7)
    of_columns, of_targets = (
        Problem(P, target, weight, np.array(["a", "b", "c"]))
        for target in (column, np.eye(3)[column])
    )
    assert "target" not in vars(of_columns)  # made where it is first read
    rows = [1, 3, 4]
    turned = replace(of_targets, labels_or_target=np.eye(3)[column[::-1]])
    for first, second in (
        (of_columns, of_targets),
        (of_columns.take(rows), of_targets.take(rows)),
        (pickle.loads(pickle.dumps(of_columns)), of_targets),
        (replace(of_columns, labels_or_target=column[::-1]), turned),
    ):
        for name in ("outcome", "labels", "target", "weight", "forecast"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name), name)
    assert of_columns.target is of_columns.target
    with pytest.raises(FrozenInstanceError):
        of_columns.target = column


def test_forecasts_that_are_only_read_are_not_copied():
    problem = check_problem(Y, P, copy=False)
    assert np.shares_memory(problem.forecast, P)
    assert not problem.forecast.flags.writeable and P.flags.writeable
    assert not np.shares_memory(check_problem(Y, P).forecast, P)
    for values in (P.astype(np.float32), np.asfortranarray(P), P.tolist()):
        forecast = check_problem(Y, values, copy=False).forecast
        assert forecast.dtype == np.float64 and forecast.flags.c_contiguous
        np.testing.assert_allclose(forecast, P, rtol=1e-7)
    weight = [1, 1, 0, 1, 1, 1]
    weighted = check_problem(Y, P, sample_weight=weight, copy=False)
    np.testing.assert_array_equal(weighted.forecast, np.delete(P, 2, axis=0))
