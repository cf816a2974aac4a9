"""Adversarial forecasts, labels and weights at every public function.

The property is the same everywhere: an answer without NaN (and without infinity, but for the
documented ones), or one of our own sentences as a ValueError or TypeError. Never another exception,
never a warning of numpy.
"""

import traceback
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from public_functions import (
    DISPLAYS,
    FORECASTS,
    MOMENTS,
    REPORT,
    SIMULATORS,
    numbers,
    only_own_warnings,
    public_name,
)

import skcalib

HOME = str(Path(skcalib.__file__).parent)


def answer_or_sentence(recipe, y, *arrays, **arguments):
    """Numbers of the result, or None where one of our own sentences was raised."""
    with only_own_warnings():
        try:
            result = recipe(y, *arrays, **arguments)
        except (ValueError, TypeError) as error:
            assert_own_sentence(error)
            return None
        finally:
            plt.close("all")
    values = numbers(result)
    assert not np.isnan(values).any(), f"NaN: {result}"
    assert recipe.infinite or np.isfinite(values).all(), f"infinite: {result}"
    assert_consistent(result)
    return values


def assert_own_sentence(error):
    """Raised inside skcalib, in words: one line, no numpy scalars, a full stop at the end."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    words = str(error)
    assert where.filename.startswith(HOME), f"{where.filename}:{where.lineno}: {words}"
    assert "\n" not in words and words.endswith("."), words
    assert "np." not in words.split("got ")[0], words  # but for what was passed in
    assert 20 < len(words) < 500, words


def assert_consistent(result):
    """What every record of a test or an interval must satisfy."""
    pvalue = getattr(result, "pvalue", None)
    assert pvalue is None or 0 <= pvalue <= 1, result
    estimate = getattr(result, "estimate", None)
    if hasattr(result, "low") and estimate is not None:
        # The interval of an error begins at zero, where its estimate may be negative, and ends at
        # the largest error of forecasts whose rows sum to exactly one.
        slack = 1e-6 * abs(estimate) if np.isfinite(estimate) else 0
        assert result.low <= max(estimate, 0.0) + slack and estimate <= result.high + slack, result


SPECIAL = [0.0, 5e-324, 1e-310, 1e-200, 1e-17, 1e-9, 1e-5, 0.1, 1 / 3, 0.5, 0.7, 1.0]
BAD = {"1e-3": 1.001, "NaN": np.nan, "inf": np.inf, "negative": -0.1, "above": 1.5}


def arrays(values, size):
    """Arrays of so many of some values."""
    return st.lists(values, min_size=size, max_size=size).map(np.array)


@st.composite
def rows(draw, n_samples, n_classes):
    """Rows of the simplex; few distinct ones make ties, one alone a constant forecast."""
    entry = st.one_of(st.sampled_from(SPECIAL), st.floats(0, 1))
    n_distinct = draw(st.sampled_from([1, 2, 3, n_samples]))
    distinct = []
    for _ in range(min(n_distinct, n_samples)):
        row = draw(arrays(entry, n_classes))
        if draw(st.sampled_from([True, False, False])) or row.sum() < 1e-4:
            row = np.eye(n_classes)[draw(st.integers(0, n_classes - 1))]
        distinct.append(row / row.sum())
    return np.array(distinct)[draw(arrays(st.integers(0, len(distinct) - 1), n_samples))]


@st.composite
def weights(draw, n_samples):
    """None, or weights of which some are zero, or which differ by many orders of magnitude."""
    kind = draw(
        st.sampled_from(["none", "none", "ones", "zeros", "single", "scales", "tiny", "huge"])
    )
    if kind == "zeros":
        return draw(arrays(st.sampled_from([0.0, 1.0, 2.5]), n_samples))
    if kind == "scales":
        return 10.0 ** draw(arrays(st.integers(-9, 9), n_samples))
    if kind == "single":
        return np.eye(n_samples)[0]
    scale = {"none": None, "ones": 1.0, "tiny": 1e-300, "huge": 1e300}[kind]
    return None if scale is None else np.full(n_samples, scale)


ANIMALS = np.array(["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"])
NAMES = {
    "int": np.arange(8),
    "str": ANIMALS,
    "negative": np.arange(8) - 1,
    "huge": np.arange(8) + 2**62,
    "float": np.arange(8.0),
    "bytes": ANIMALS.astype("S"),
    "object": ANIMALS.astype(object),
    "date": np.datetime64("2026-01-01") + np.arange(8),
    "bool": np.array([False, True]),  # of two classes
}


@st.composite
def in_another_order(draw, y, proba, options):
    """Columns and `labels` permuted together; one column of either class."""
    classes = options["labels"]
    order = np.array(draw(st.permutations(range(len(classes)))))
    options = {**options, "labels": classes[order]}
    if len(classes) == 2 and draw(st.booleans()):
        positive = draw(st.sampled_from([0, 1]))
        return y, np.minimum(proba[:, positive], 1), {**options, "pos_label": classes[positive]}
    return y, proba[:, order], options


@st.composite
def as_somebody_holds_it(draw, y, proba):
    """Another container of the labels, another precision of the forecasts."""
    holds = [np.asarray, np.asarray, np.ndarray.tolist, pd.Series, lambda y: y[:, None]]
    if y.dtype.kind in "iU":
        holds.append(lambda y: pd.Series(pd.Categorical(y)))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float64, np.float32, np.float16]))
    return draw(st.sampled_from(holds))(y), proba.astype(dtype)


@st.composite
def valid(draw, max_samples=12, binary=False, plain=False):
    """Arguments (y, P, options) that no check of the door has to refuse; plain ones are arrays."""
    n_samples = draw(st.integers(1, max_samples))
    n_classes = 2 if binary else draw(st.sampled_from([2, 2, 3, 4, 8]))
    proba = draw(rows(n_samples, n_classes))
    kind = draw(st.sampled_from(["any", "any", "any", "right", "wrong", "one class"]))
    if kind == "right":
        column = proba.argmax(axis=1)
    elif kind == "wrong":
        column = proba.argmin(axis=1)
    elif kind == "one class":
        column = np.full(n_samples, draw(st.integers(0, n_classes - 1)))
    else:
        column = draw(arrays(st.integers(0, n_classes - 1), n_samples))
    enough = [names for names in NAMES.values() if len(names) >= n_classes]
    classes = draw(st.sampled_from(enough))[:n_classes]
    options = {"sample_weight": draw(weights(n_samples)), "labels": classes}
    if len(np.unique(column)) == n_classes and draw(st.booleans()):
        del options["labels"]
    some = slice(None) if draw(st.booleans()) else slice(1)
    # Rounding is accepted as it is, also above 1 where other columns can make up for it.
    proba[some] *= 1 + draw(st.sampled_from([0, 0, 1e-7, -1e-7]))
    y = classes[column]
    if plain:
        single = n_classes == 2 and draw(st.booleans())
        return y, np.minimum(proba[:, 1], 1) if single else proba, options
    if "labels" in options and draw(st.booleans()):
        y, proba, options = draw(in_another_order(y, proba, options))
    elif n_classes == 2 and draw(st.booleans()):
        proba = np.minimum(proba[:, 1], 1)
    return *draw(as_somebody_holds_it(y, proba)), options


@st.composite
def broken(draw, binary=False):
    """Valid arguments in which one thing is wrong -> (defect, y, P, options)."""
    y, proba, options = draw(valid(binary=binary, plain=True))
    defect = draw(st.sampled_from([*BAD, "lengths", "label", "missing label", "weight", "shape"]))
    row = draw(st.integers(0, len(y) - 1))
    y, proba = y.copy(), np.array(proba)
    if defect in BAD:
        proba[row] = proba[row] * BAD[defect] if defect == "1e-3" else BAD[defect]
        if defect == "1e-3" and (proba.ndim == 1 and proba[row] <= 1):
            proba[row] = 1.001
    elif defect == "lengths":
        y = y[:-1] if draw(st.booleans()) else np.append(y, y[-1])
    elif defect == "label":
        options.setdefault("labels", np.unique(y))
        y = y.astype(object)
        y[row] = 77 if isinstance(y[row], (int, np.integer)) else "yak"
    elif defect == "missing label":
        y = y.astype(object)
        y[row] = draw(st.sampled_from([None, np.nan]))
    elif defect == "weight":
        weight = np.ones(len(y))
        weight[row] = draw(st.sampled_from([-1.0, np.nan, np.inf]))
        options["sample_weight"] = draw(
            st.sampled_from([weight, 0 * np.ones(len(y)), np.ones(len(y) + 1)])
        )
    else:
        proba = draw(
            st.sampled_from([proba[..., None, None], proba[:0], np.zeros((len(y), 0)), "high"])
        )
    return defect, y, proba, options


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
EASY = settings(max_examples=3, derandomize=True, database=None, **QUIET)
THOROUGH = settings(EASY, max_examples=25)
ANY, BINARY = (
    [recipe for recipe in FORECASTS if recipe.binary is binary] for binary in (False, True)
)


def check_all(recipes, *case):
    """One data set at all recipes: drawing it takes longer than most of them."""
    *arrays, options = case
    for recipe in recipes:
        taken = {name: value for name, value in options.items() if recipe.accepts(name)}
        try:
            answer_or_sentence(recipe, *arrays, **taken)
        except Exception as error:
            error.add_note(f"{recipe}, {arrays!r}, {taken}")
            raise


def check_refused(recipes, defect, *case):
    *arrays, options = case
    for recipe in recipes:
        if "transform" in recipe.options and defect in BAD and defect not in ("NaN", "inf"):
            continue  # of a representation any number is good
        taken = {name: value for name, value in options.items() if recipe.accepts(name)}
        answer = answer_or_sentence(recipe, *arrays, **taken)
        assert answer is None, f"{recipe} answers {answer} in spite of {defect}"


@EASY
@given(valid(), valid(binary=True))
def test_hard_forecasts(case, binary):
    check_all(ANY, *case)
    check_all(BINARY, *binary)


@EASY
@given(broken(), broken(binary=True))
def test_broken_arguments_are_refused(case, binary):
    check_refused(ANY, *case)
    check_refused(BINARY, *binary)


@settings(EASY, max_examples=2)
@given(valid())
def test_hard_forecasts_in_displays(case):
    check_all(DISPLAYS, *case)


@pytest.mark.slow
@THOROUGH
@given(valid(), broken(), valid(binary=True, max_samples=40), broken(binary=True))
def test_many_hard_forecasts(case, wrong, binary, wrong_binary):
    check_all(ANY, *case)
    check_refused(ANY, *wrong)
    check_all(BINARY, *binary)
    check_refused(BINARY, *wrong_binary)


@pytest.mark.slow
@settings(EASY, max_examples=2)
@given(valid(max_samples=30))
def test_hard_forecasts_in_the_report(case):
    check_all([REPORT], *case)


@pytest.mark.parametrize("recipe", FORECASTS, ids=str)
def test_rows_off_by_rounding_are_taken_and_others_refused(recipe):
    """1e-7 off one is rounding and is kept as it is; 1e-3 is no probability vector."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(2 if recipe.binary else 3), 30)
    y = np.arange(30) % proba.shape[1]
    near = proba * (1 + 1e-7 * rng.choice([-1, 1], (30, 1)))
    assert answer_or_sentence(recipe, y, near) is not None
    if "transform" not in recipe.options:
        with pytest.raises(ValueError, match=r"must sum to 1 \(within 1e-05\), but row \d+ sums"):
            recipe(y, proba * 0.999)


@pytest.mark.parametrize("recipe", FORECASTS, ids=str)
def test_rows_above_one_by_rounding(recipe):
    """A certain forecast that an average has left at 1.0000001 is as good as certain."""
    y = np.array([0, 1, 1, 0, 1] * 4)
    above = np.array([[0.0, 1 + 1e-7]] * 20)
    labels = {"labels": [0, 1]} if recipe.accepts("labels") else {}
    for proba in (above, np.where(np.arange(20)[:, None] % 5 == 1, above, [[0.4, 0.6]])):
        answer_or_sentence(recipe, y, proba)
        answer_or_sentence(recipe, np.ones(20, dtype=int), proba, **labels)


def test_certainty_above_one_is_not_refuted_by_its_rounding():
    certain, labels = np.array([[0.0, 1 + 1e-7]] * 20), [0, 1]
    tests = (
        skcalib.significance.spiegelhalter_test,
        skcalib.hosmer_lemeshow_test,
        skcalib.significance.cumulative_test,
    )
    for test in tests:
        result = test(np.ones(20), certain, labels=labels)
        assert (result.statistic, result.pvalue) == (0, 1)


def test_infinity_is_an_answer_of_the_log_loss():
    """A label of probability 0 costs infinity, and nothing is clipped to avoid it."""
    y, p = np.array([0, 1, 0, 1, 1, 0]), np.array([0.1, 0.9, 0.2, 0.0, 0.7, 0.4])
    assert skcalib.calibration_upper_bound(y, p, loss="log") == np.inf
    assert skcalib.proper_calibration_error(y, p, loss="log") == np.inf
    assert skcalib.significance.spiegelhalter_test([1, 0, 0, 1], [0, 0, 1, 1.0]).pvalue == 0
    consistency = skcalib.significance.consistency_test(
        np.arange(9) % 3, np.eye(3)[[1, 2, 0] * 3], n_resamples=9
    )
    assert consistency.pvalue == 0 and "a label where the forecast said 0" in consistency.method
    p[3] = 5e-324
    assert np.isfinite(skcalib.calibration_upper_bound(y, p, loss="log"))


HARD_NUMBERS = [0.0, 5e-324, 1e-300, 1e-17, 1.0, 1.0, 2.0, -3.0, 1e17, 1e300, -1.7e308, 1.7e308]


@st.composite
def representations(draw):
    """Labels and real features: constant columns, copies, numbers of every size."""
    n_samples, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    features = draw(arrays(st.sampled_from(HARD_NUMBERS), n_samples * n_features))
    y = draw(arrays(st.integers(0, 2), n_samples))
    return y, features.reshape(n_samples, n_features), draw(weights(n_samples))


REPRESENTATION = next(recipe for recipe in FORECASTS if "transform" in recipe.options)
GROUPING = next(recipe for recipe in DISPLAYS if "Grouping" in str(recipe))


@settings(EASY, max_examples=12)
@given(representations())
def test_hard_representations(case):
    y, features, weight = case
    answer_or_sentence(REPRESENTATION, y, features, sample_weight=weight)


@settings(EASY, max_examples=4)
@given(representations())
def test_hard_features_of_the_grouping_diagram(case):
    y, features, weight = case
    proba = np.random.default_rng(0).dirichlet(np.ones(3), len(y))
    options = {"sample_weight": weight, "labels": [0, 1, 2]}
    answer_or_sentence(GROUPING, y, proba, np.clip(features, -1e300, 1e300), **options)


BAD_FEATURES = {
    "too few": np.zeros((39, 2)),
    "none": np.zeros((40, 0)),
    "infinite": np.full((40, 2), np.inf),
    "words": np.array([[f"a{k}"] * 2 for k in range(40)]),
    "scalar": 3.0,
    "cube": np.zeros((40, 2, 2)),
    "None": None,
}


@pytest.mark.parametrize("features", BAD_FEATURES.values(), ids=BAD_FEATURES)
def test_bad_features_are_refused(features):
    proba = np.random.default_rng(0).dirichlet(np.ones(2), 40)
    y = np.arange(40) % 2
    assert answer_or_sentence(REPRESENTATION, y, features) is None
    with pytest.raises((ValueError, TypeError)):  # scikit-learn judges features, in its words
        GROUPING(y, proba, features)


@st.composite
def moments(draw):
    """Outcomes, means and variances of every size, with ties, in units that are far from one."""
    n_samples = draw(st.integers(1, 12))
    value = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, 1e-8, -1e6])
    y, mean = draw(arrays(value, n_samples)), draw(arrays(value, n_samples))
    variance = draw(arrays(st.sampled_from([1e-12, 1e-6, 0.1, 1.0, 1.0, 1e6]), n_samples))
    unit = draw(st.sampled_from([1.0, 1.0, 1e-30, 1e30]))
    options = {"sample_weight": draw(weights(n_samples))}
    return unit * y, unit * mean, unit**2 * variance, options


@settings(EASY, max_examples=30)
@given(moments())
def test_hard_moments(case):
    check_all(MOMENTS, *case)


@settings(EASY, max_examples=30)
@given(moments(), st.sampled_from([np.nan, np.inf, "variance", "length", "weight"]))
def test_broken_moments_are_refused(case, defect):
    y, mean, variance, options = case
    if defect == "variance":
        variance[-1] = -variance[-1]
    elif defect == "length":
        mean = np.append(mean, 0)
    elif defect == "weight":
        options["sample_weight"] = np.full(len(y), -1.0)
    else:
        y[0] = defect
    # Mean and variance of a pair are columns of one array, and have the same length.
    recipes = [r for r in MOMENTS if defect != "length" or r.takes != "moment pairs"]
    check_refused(recipes, defect, y, mean, variance, options)


ODD = [0, 1, -1, 7, 1.5, 0.0, -0.0, 1e300, np.nan, np.inf, None, "3", True, np.int64(50), [5]]


@pytest.mark.parametrize("simulate", SIMULATORS, ids=public_name)
def test_odd_arguments_of_simulators(simulate):
    """Forecasts on the simplex, or a sentence."""
    names = [n for n in signature(simulate).parameters if n != "random_state"]
    for name in names:
        for odd in (*ODD, 1e-300, 0.01, 1e3):
            with only_own_warnings():
                try:
                    sample = simulate(**{"n_samples": 20, name: odd}, random_state=0)
                except ValueError as error:
                    assert_own_sentence(error)
                    continue
            assert len(sample.y) == len(sample.y_proba) and np.isfinite(sample.y_proba).all()
            np.testing.assert_allclose(sample.y_proba.sum(axis=1), 1, rtol=1e-12)
            np.testing.assert_allclose(sample.posterior.sum(axis=1), 1, rtol=1e-12)
            assert not np.isnan(list(sample.truth.values())).any(), (name, odd)
