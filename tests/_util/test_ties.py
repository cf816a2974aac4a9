"""Forecasts that differ by rounding only are one forecast: statistics ignore the last digit."""

import warnings

import numpy as np
import pytest
from public_functions import FORECASTS, numbers
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import cross_val_predict

import skcalib as s
from skcalib._util.arithmetic import (
    bin_ends,
    level_starts,
    merge_forecasts,
    merge_ties,
    ranked_classes,
    reach_in_single_precision,
    split_centre,
    top_class,
)
from skcalib.smoothers import IsotonicSmoother, LevelSets

HUNDREDTHS = np.arange(1, 101) / 100

FORESTS = {
    "pure leaves": RandomForestClassifier(50, random_state=0),
    "mixed leaves": RandomForestClassifier(37, min_samples_leaf=4, random_state=0),
    "extra trees": ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0),
}


def forest(load, name, n_samples=120):
    """Labels, and out-of-fold probabilities of a forest; most of them are averages of fractions."""
    X, y = load(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:n_samples]
    proba = cross_val_predict(FORESTS[name], X[rows], y[rows], cv=3, method="predict_proba")
    return y[rows], proba


def last_digits_changed(proba, seed=0):
    """The same averages, added in another order: 0 and 1 are exact, others change by 2e-16."""
    change = np.random.default_rng(seed).integers(-2, 3, proba.shape) * 1.1e-16
    return np.where((proba > 0) & (proba < 1), np.clip(proba * (1 + change), 0, 1), proba)


def test_levels_by_a_naive_loop():
    rng = np.random.default_rng(0)
    for spread in (1e-16, 4e-16, 1e-15, 3e-15):
        near = rng.choice(HUNDREDTHS, 300) + spread * rng.integers(0, 8, 300)
        tiny = 10.0 ** rng.uniform(-300, -1, 50)
        ordered = np.sort(np.concatenate([near, tiny, [0.0, 0.0, 1.0]]))
        starts, first = [], -np.inf
        for i, value in enumerate(ordered):
            if not value <= first + min(1e-15, 1e-12 * first):
                starts.append(i)
                first = value
        np.testing.assert_array_equal(level_starts(ordered), starts)
    small = np.array([0.0, 1e-300, 1e-20, 1e-16, 3e-16, 1e-15, 0.5, 0.5 + 1e-14])  # all apart
    np.testing.assert_array_equal(level_starts(small), np.arange(8))
    assert merge_ties(small) is small
    np.testing.assert_array_equal(level_starts(np.array([-2.0, -1.0 - 3e-16, -1.0])), [0, 1])


def test_ends_of_bins():
    """Scores that are tied to an edge go to the side of 1/2; those at 1/2 are between two edges."""
    edges = split_centre(np.array([0.25, 0.5, 0.75]))
    assert edges.tolist() == [0.25, 0.5, 0.5, 0.75]
    below, tied, above = 0.25 - 2e-15, [0.25 - 1e-15, 0.25, 0.5 - 1e-15], [0.5, 0.5 + 1e-15]
    scores = [0.0, below, *tied, *above, 0.75, 0.75 + 1e-15, 0.75 + 2e-15, 1.0]
    expected = [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]
    assert np.searchsorted(bin_ends(edges), scores).tolist() == expected
    assert split_centre(np.array([0.2, 0.6])).tolist() == [0.2, 0.6]


def test_reach_in_single_precision():
    low, high = reach_in_single_precision(np.array([4e-8, 0.1, 0.1 + 8e-8, 1 - 4e-8]))
    room = np.array([1e-8, 2.0**-22, 2e-8, 2.0**-22, 1e-8])
    np.testing.assert_allclose(np.array([4e-8, 0.1, 0.1 + 8e-8, 1 - 4e-8]) - low, room[:-1], 1e-6)
    np.testing.assert_allclose(high - [4e-8, 0.1, 0.1 + 8e-8, 1 - 4e-8], room[1:], 1e-6)


def test_merging_changes_nothing_else():
    rng = np.random.default_rng(1)
    exact = rng.choice(HUNDREDTHS[:-1], (200, 3))
    noisy = last_digits_changed(exact)
    merged = merge_forecasts(noisy)
    np.testing.assert_allclose(merged, exact, rtol=1e-15)
    assert [len(np.unique(c)) for c in merged.T] == [len(np.unique(c)) for c in exact.T]
    assert merge_forecasts(exact) is exact
    one_noisy = np.column_stack([exact[:, :2], noisy[:, 2]])
    np.testing.assert_array_equal(merge_forecasts(one_noisy)[:, 2], merged[:, 2])
    pair = np.column_stack([1 - noisy[:, 0], noisy[:, 0]])
    for column in merge_forecasts(pair).T:
        assert len(np.unique(column)) == len(np.unique(exact[:, 0]))


def test_the_predicted_class_is_the_first_of_tied_ones():
    proba = np.array([[0.3, 0.1 + 0.2, 0.4 - 1e-3], [0.1 + 0.2, 0.3, 0.3], [0.2, 0.4, 0.4 - 1e-12]])
    proba[0, 2] = 0.3
    assert ranked_classes(np.array([[0.3, 0.1 + 0.2, 0.4]])).tolist() == [[2, 0, 1]]
    np.testing.assert_array_equal(top_class(proba), [0, 0, 1])
    np.testing.assert_array_equal(top_class(proba[:2]), [0, 0])
    np.testing.assert_array_equal(ranked_classes(proba), [[0, 1, 2], [0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize("name", FORESTS)
def test_isotonic_curves_are_those_of_scikit_learn(name):
    y, proba = forest(load_breast_cancer, name)
    expected = IsotonicRegression(out_of_bounds="clip").fit(proba[:, 1], y).predict(proba[:, 1])
    target = np.column_stack([1 - y, y])
    recalibrator = s.IsotonicRecalibrator(strict=False).fit(proba, y)
    for curve in (
        IsotonicSmoother().fit(proba, target).smooth(), recalibrator.predict_proba(proba),
    ):  # fmt: skip
        np.testing.assert_allclose(curve[:, 1], expected, atol=1e-12)
    gain = np.mean((y - proba[:, 1]) ** 2) - np.mean((y - expected) ** 2)
    assert s.corp_decomposition(y, proba).miscalibration == pytest.approx(gain, abs=1e-12)
    if name == "pure leaves":  # level sets are its distinct averages
        n_cells = LevelSets().fit(last_digits_changed(proba), target).n_cells_
        assert n_cells == len(np.unique(np.rint(50 * proba[:, 1])))


@pytest.mark.parametrize(
    ("load", "name", "step"),
    [
        (load_breast_cancer, "pure leaves", 4),
        pytest.param(load_breast_cancer, "pure leaves", 1, marks=pytest.mark.slow),
        pytest.param(load_digits, "extra trees", 1, marks=pytest.mark.slow),
    ],
)
def test_every_statistic_is_the_same_after_rounding(load, name, step):
    """Without the slow tests every fourth of them."""
    y, exact = forest(load, name)
    noisy, rounded = last_digits_changed(exact), exact.round(12)
    tested = 0
    for recipe in FORECASTS[::step]:
        if (recipe.binary and len(exact.T) > 2) or recipe.takes != "forecast":
            continue
        if recipe.function in (s.significance.calibration_e_value, s.kernel_calibration_test):
            continue  # their draws follow eigenvectors and orders that depend on the last digit
        if recipe.function is s.calibration_test and recipe.options.get("notion") == "classwise":
            continue  # of all events together many rows are merged, up to ends that do so as well
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.simplefilter("ignore")  # few samples for each class, and infinite losses
            try:
                statistics, expected = (numbers(recipe(y, p)) for p in (noisy, rounded))
            except ValueError as error:  # the likelihood of an impossible label
                assert "exactly 0" in str(error), recipe
                continue
        np.testing.assert_allclose(
            statistics, expected, rtol=1e-6, atol=1e-8, equal_nan=True, err_msg=str(recipe)
        )
        tested += 1
    assert tested > 70 / step
