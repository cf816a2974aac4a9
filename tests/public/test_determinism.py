"""The same call gives the same answer: for any number of jobs, and for any order of the rows.

The order of rows is a matter of definition for some functions: folds of a cross-fitted smoother go
by row, blocks are consecutive rows, draws go row by row, and streams are in the order of time. The
table of public functions marks them, and everything else is tested not to depend on it.
"""

from inspect import isclass, signature

import numpy as np
import pytest
from conftest import make_forecasts
from public_functions import (
    DISPLAYS,
    FORECASTS,
    MOMENTS,
    REPORT,
    numbers,
    only_own_warnings,
    public_name,
    public_names,
)
from sklearn.linear_model import LogisticRegression
from sklearn.utils import shuffle

import skcalib
from skcalib.smoothers import DirichletKernel

EVERY = [*FORECASTS, *DISPLAYS, *MOMENTS]
RANDOM = [recipe for recipe in EVERY if recipe.accepts("random_state")]


def data_for(recipe):
    """Labels, and forecasts without ties at the top; or outcomes, means and variances."""
    rng = np.random.default_rng(0)
    if recipe in MOMENTS:
        return rng.normal(size=40), (rng.normal(size=40), rng.uniform(1, 2, 40))
    y, proba = make_forecasts(40, 2 if recipe.binary else 3, seed=3)
    proba = 0.98 * proba + 0.02 * rng.dirichlet(np.ones(proba.shape[1]), 40)
    ranked = np.sort(proba, axis=1)
    assert (ranked[:, -1] > ranked[:, -2]).all() and proba.min() > 0
    return y, recipe.arrays(proba / proba.sum(axis=1, keepdims=True))


def run(recipe, y, *arrays, **arguments):
    with only_own_warnings():
        return numbers(recipe(y, *arrays, **arguments))


SLOW_REPORT = pytest.param(REPORT, marks=pytest.mark.slow)
#: Recipes that draw nothing here: others do, from many samples, few events, clusters or bins.
WITHOUT_DRAWS = {
    "kernel_calibration_test(method='bound')",
    "kernel_calibration_test(statistic='biased')",
    "calibration_error_interval(n_resamples=99)",
    "corp_bands(notion='top_label', n_resamples=39, band='confidence')",
    "calibration_curve_equality_test()",
    "differences_at_equal_scores()",
    "ReliabilityDisplay.from_predictions(strategy='quantile', band=NoneType, notion='classwise')",
    "ReliabilityDisplay.from_predictions(strategy='kernel', band=NoneType)",
    "ReliabilityDisplay.from_predictions(strategy='uniform', band='confidence', "
    "notion='top_label')",
    "MurphyDisplay.from_predictions()",
    "MurphyDisplay.from_predictions(notion='classwise')",
    "kernel_calibration_test_gaussian()",
    "kernel_calibration_test_gaussian(statistic='linear')",
}


@pytest.mark.parametrize("recipe", [*RANDOM, SLOW_REPORT], ids=str)
def test_the_same_random_state_gives_the_same_result(recipe):
    """An integer, or a RandomState in the same state; the state of numpy is not touched.

    Other integers give other numbers where draws matter.
    """
    y, arrays = data_for(recipe)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = run(recipe, y, *arrays, random_state=7)
    again = run(recipe, y, *arrays, random_state=7)
    np.testing.assert_array_equal(first, again)
    others = (run(recipe, y, *arrays, random_state=seed) for seed in range(5))
    drawn = any(not np.array_equal(first, other, equal_nan=True) for other in others)
    assert drawn != (str(recipe) in WITHOUT_DRAWS)
    states = (np.random.RandomState(7) for _ in range(2))
    first, again = (run(recipe, y, *arrays, random_state=state) for state in states)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("recipe", [r for r in EVERY if r not in RANDOM], ids=str)
def test_functions_without_a_random_state_draw_nothing(recipe):
    y, arrays = data_for(recipe)
    np.random.seed(0)  # noqa: NPY002
    first = run(recipe, y, *arrays)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(first, run(recipe, y, *arrays))


MANY = make_forecasts(1500, 3, seed=5)  # enough for several tasks of a kernel
PARALLEL = [recipe for recipe in (*FORECASTS, *MOMENTS) if recipe.accepts("n_jobs")]
DOORS = ("from_predictions", "from_estimator")
#: What else has `n_jobs` is compared in a suite of its own.
JOBS_ELSEWHERE = {
    "test_estimator_inputs": (
        *("CalibrationErrorEstimator", "CrossFitProba", "GroupingLossEstimator"),
        *("RecalibratedClassifierCV", "StackedRecalibrator", "RecalibratedRegressorCV"),
    ),
    "test_error_displays": ("EstimationDisplay.from_predictions",),
    "test_report": [f"CalibrationReport.{door}" for door in DOORS],
    "test_report_comparison": [f"ComparisonReport.{door}" for door in (DOORS[0], f"{DOORS[1]}s")],
    "test_report_sketch": ("CalibrationReport.from_sketch", "ComparisonReport.from_sketches"),
    "test_generalization": ("evaluate_supersample",),
    "test_grouping_improvement": ("grouping_improvement",),
    "test_soft_labels": ("soft_label_decomposition",),
    "test_multilabel": ("MultilabelRecalibrator",),
    "below": ("DirichletKernel",),
}


def test_every_function_with_jobs_is_compared():
    """All public names with a parameter `n_jobs`, and the methods of classes that have one."""
    public = public_names()
    for owner, member in list(public.items()):
        if isclass(member):
            public |= {
                f"{owner}.{name}": getattr(member, name) for name in dir(member) if name[0] != "_"
            }
            if not hasattr(member, "fit"):  # doors build it
                del public[owner]
    with_jobs = {
        n
        for n, member in public.items()
        if callable(member) and "n_jobs" in signature(member).parameters
    }
    assert with_jobs == {public_name(recipe.function) for recipe in PARALLEL}.union(
        *JOBS_ELSEWHERE.values()
    )


@pytest.mark.parametrize("recipe", PARALLEL, ids=str)
def test_the_number_of_jobs_does_not_matter(recipe):
    y, proba = MANY
    arrays = (y == 0, proba[:, 0]) if recipe.binary else (y, *recipe.arrays(proba))
    if recipe in MOMENTS:
        arrays = proba[:, 0], proba[:, 1], 1 + proba[:, 2]
    alone, in_two_jobs = (run(recipe, *arrays, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(alone, in_two_jobs)


def test_the_number_of_jobs_of_models_and_smoothers_does_not_matter():
    y, proba = MANY
    costs = {"threshold": 0.3, "notion": "classwise", "X": proba, "model": LogisticRegression()}
    smoothers = (DirichletKernel("scott", n_jobs=n_jobs) for n_jobs in (1, 2))
    for alone, in_two_jobs in (
        (skcalib.decision_regret(y, proba, n_jobs=n_jobs, **costs) for n_jobs in (1, 2)),
        (skcalib.proper_calibration_error(y, proba, smoother=smoother) for smoother in smoothers),
    ):
        assert alone == in_two_jobs


#: Functions to which the order of rows does not matter, by definition.
UNORDERED = [recipe for recipe in EVERY if not recipe.order]


@pytest.mark.parametrize("kind", ["plain", "weighted", "tied"])
@pytest.mark.parametrize("recipe", UNORDERED, ids=str)
def test_the_order_of_rows_does_not_matter(recipe, kind):
    """Of tied forecasts, each is that of several samples with other labels and weights."""
    y, arrays = data_for(recipe)
    weight, moved = {}, {}
    if kind == "tied" and recipe not in MOMENTS:
        proba = np.round(4 * arrays[0])
        proba /= proba.sum(axis=1, keepdims=True)
        proba = 0.9 * proba + 0.1 / proba.shape[1]
        assert len(np.unique(proba.round(12), axis=0)) < len(y) / 2
        arrays = (proba, 0.5 * proba + 0.5 / proba.shape[1])  # forecasts that are tied as well
        arrays = arrays if recipe.takes == "two forecasts" else recipe.arrays(proba)
    rows = shuffle(np.arange(len(y)), random_state=len(kind))
    needs_equal_weights = "bound" in str(recipe) or "biased" in str(recipe)
    if kind != "plain" and recipe.accepts("sample_weight") and not needs_equal_weights:
        weight["sample_weight"] = np.random.default_rng(2).uniform(0.5, 2, len(y))
        moved["sample_weight"] = weight["sample_weight"][rows]
    expected = run(recipe, y, *arrays, **weight)
    got = run(recipe, y[rows], *(array[rows] for array in arrays), **moved)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


#: Draws go direction by direction, and another order of the classes gives other directions.
OTHER_DRAWS = {"calibration_e_value"}
WITHOUT_OPTIMISER = ("root_brier_score", "kernel_calibration_error", "calibration_upper_bound")
SYMMETRIC = [
    recipe
    for recipe in FORECASTS
    if not recipe.binary
    and not (recipe.order and recipe.accepts("random_state"))
    and public_name(recipe.function) not in OTHER_DRAWS
    and not {"rps", "cumulative"} & set(map(str, recipe.options.values()))  # of ordered classes
]


@pytest.mark.parametrize("recipe", SYMMETRIC, ids=str)
def test_the_order_of_columns_does_not_matter(recipe):
    """Columns and `labels` in another order: the same numbers, class by class in another order."""
    y, arrays = data_for(recipe)
    names = np.array(["ant", "bee", "cat"])
    expected = np.sort(run(recipe, names[y], *arrays, labels=names))
    for order in ([2, 0, 1], [0, 2, 1]):
        moved = (array[:, order] for array in arrays)
        got = np.sort(run(recipe, names[y], *moved, labels=names[order]))
        # Iterations of an optimiser end a little elsewhere; without one only rounding is left.
        exact = public_name(recipe.function) in WITHOUT_OPTIMISER
        tolerance = {"rtol": 1e-12} if exact else {"rtol": 1e-3, "atol": 1e-6}
        np.testing.assert_allclose(got, expected, **tolerance)
