"""Laws of clusters: what every function and estimator that takes `groups` has in common."""

import inspect
from functools import partial

import numpy as np
import pytest
from public_functions import (
    DISPLAYS,
    FORECASTS,
    REPORT,
    numbers,
    package_names,
    public_name,
)
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import skcalib as s
from skcalib.data.problem import check_problem
from skcalib.errors import (
    calibration_error,
    kernel_calibration_error,
    proper_calibration_error,
    simplex_calibration_error,
)
from skcalib.smoothers import DirichletKernel, LogitSmoother, NearestNeighborsSmoother

pytestmark = pytest.mark.filterwarnings("ignore")


# --- Names and single samples ---------------------------------------------------------------------


def attributes(fitted):
    """The fitted attributes."""
    return {name: value for name, value in vars(fitted).items() if name.endswith("_")}


def error_by_folds(y, proba, X, groups):
    estimator = s.CalibrationErrorEstimator(LogisticRegression(), cv=3)
    return attributes(estimator.fit(X, y, groups=groups))


def error_of_smoother(y, proba, X, groups):
    estimator = s.CalibrationErrorEstimator(smoother=LogitSmoother(), method="risk")
    return attributes(estimator.fit(proba, y, groups=groups))


def grouping_loss(y, proba, X, groups):
    estimator = s.GroupingLossEstimator(n_permutations=19)
    return attributes(estimator.fit(X, y, y_proba=proba, groups=groups))


def stacked(y, proba, X, groups):
    return s.StackedRecalibrator().fit(proba, y, groups=groups).transform(proba)


def report_by_folds(y, proba, X, groups):
    report = s.CalibrationReport.from_estimator(LogisticRegression(), X, y, cv=3, groups=groups)
    return report.to_dict()


def report_of_two(y, proba, X, groups):
    models = {"one": proba, "other": expit(2 * proba - 1)}
    return s.ComparisonReport.from_predictions(y, models, groups=groups).to_dict()


def interval_by(method, y, proba, X, groups):
    """The interval of a metric by parts of the samples."""
    options = {"metric": "debiased_l2", "n_bins": 3, "method": method, "n_resamples": 19}
    return s.calibration_error_interval(y, proba, groups=groups, **options)


def called(recipe, y, proba, X, groups):
    """A public function of the table."""
    arrays = {"two forecasts": (proba, proba[::-1]), "features": (proba, X)}
    return recipe(y, *arrays.get(recipe.takes, (proba,)), groups=groups)


def refuses_groups(recipe):
    """Laws of the kernel statistic, and drawn labels, that need independent samples."""
    options = recipe.options
    if "hypothesis" in options:
        return "n_resamples" in options
    kernel = public_name(recipe.function) == "kernel_calibration_test"
    return kernel and ("statistic" in options or options.get("method") == "bound")


TABLE = [recipe for recipe in (*FORECASTS, *DISPLAYS, REPORT) if recipe.accepts("groups")]
TABLE = [recipe for recipe in TABLE if not refuses_groups(recipe)]
OWN = (error_by_folds, error_of_smoother, grouping_loss, stacked, report_by_folds, report_of_two)
METHODS = ("jackknife", "subsampling", "bootstrap")
CASES = {
    **{str(recipe): partial(called, recipe) for recipe in TABLE},
    **{call.__name__: call for call in OWN},
    **{f"interval_by_{method}": partial(interval_by, method) for method in METHODS},
}
SLOW = {"report_by_folds", "report_of_two"}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]
#: Other doors of the same displays and reports.
SAME = {"GroupCalibrationDisplay.from_estimator", "ReliabilityDisplay.from_estimator"}
SAME |= {"ReliabilityDisplay.from_cv_results"}


def test_all_names_that_take_groups_are_tested():
    """Of `fit` and the other doors of classes, too; `groups` of data frames are columns."""
    taken = set()
    for name, thing in package_names().items():
        doors = {name: thing} if inspect.isfunction(thing) else {}
        if inspect.isclass(thing):
            members = inspect.getmembers(thing, callable)
            doors = {f"{name}.{key}": member for key, member in members if key[0] != "_"}
        for door, function in doors.items():
            if "set_" not in door and "groups" in _parameters(function):
                taken.add(door)
    listed = {public_name(recipe.function) for recipe in TABLE} | SAME
    listed |= {"CalibrationErrorEstimator.fit", "GroupingLossEstimator.fit"}
    listed |= {"StackedRecalibrator.fit", "CalibrationReport.from_estimator"}
    listed |= {"calibration_error_interval"}
    assert taken <= listed


def _parameters(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def rows_of_clusters(n_clusters=24, seed=0):
    """Labels, forecasts, features, and clusters of one to five samples in a random order.

    Every other sample is of the other group, and no cluster is in both.
    """
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), rng.integers(2, 6, n_clusters))
    halves = [rng.permutation(np.flatnonzero(cluster % 2 == k)) for k in (0, 1)]
    size = min(map(len, halves))
    cluster = cluster[np.column_stack([half[:size] for half in halves]).ravel()]
    z = 0.6 * rng.normal(size=n_clusters)[cluster] + 0.8 * rng.normal(size=len(cluster))
    y = (rng.random(len(z)) < expit(1.5 * z + rng.normal(size=n_clusters)[cluster])).astype(int)
    return y, expit(z), np.column_stack([z, rng.normal(size=len(z))]), cluster


#: Folds of clusters have no strata, so those of single samples are others.
BY_FOLDS = {"error_by_folds", "report_by_folds", "stacked"}
#: Neither an estimate nor its interval is that of clusters.
WITHOUT_CLUSTERS = set()


def check_groups_of(call, *, by_folds=False, matter=True, kind=0):
    """Groups matter; their names do not, nor do groups of one sample. Not even the last digit.

    Draws, folds and sums go by the order of the first appearance.
    """
    y, proba, X, cluster = rows_of_clusters()
    rng = np.random.default_rng(1)
    distinct = rng.permutation(cluster.max() + 1)
    names = np.array([f"patient {k}" for k in distinct])[cluster]
    expected, independent = (numbers(call(y, proba, X, groups)) for groups in (cluster, None))
    assert expected.size and not np.array_equal(cluster, names)
    assert np.array_equal(expected, independent, equal_nan=True) != matter
    groups = (names, -2.5 * distinct[cluster], names.astype(object))[kind % 3]
    np.testing.assert_array_equal(numbers(call(y, proba, X, groups)), expected)
    alone = numbers(call(y, proba, X, rng.permutation(len(y))))
    if by_folds:
        assert alone.shape == independent.shape
    else:
        np.testing.assert_array_equal(alone, independent)


@pytest.mark.parametrize("case", NAMES)
def test_groups_are_clusters_by_any_names(case):
    facts = {"matter": case not in WITHOUT_CLUSTERS, "kind": list(CASES).index(case)}
    check_groups_of(CASES[case], by_folds=case in BY_FOLDS, **facts)


def test_groups_that_are_ignored_are_found():
    """Also if they are known to be there and nothing else, or if their names are read."""
    test = s.significance.spiegelhalter_test
    recipe = next(recipe for recipe in TABLE if recipe.function is test)
    for groups_of in (
        lambda groups: None,
        lambda groups: np.arange(len(groups)),
        lambda groups: np.unique(groups, return_inverse=True)[1] // 2,
    ):

        def call(y, proba, X, groups, groups_of=groups_of):
            return called(recipe, y, proba, X, None if groups is None else groups_of(groups))

        with pytest.raises(AssertionError):
            check_groups_of(call)


# --- A cluster of identical samples counts as one -------------------------------------------------

LOCATIONS = [[0.2, 0.8], [0.5, 0.5], [0.8, 0.2]]
THREE = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]


def estimate_of(function, name="", *, two=False, **options):
    """What a function of labels and one or `two` forecasts estimates; of a quantity `name`."""

    def estimate(y, proba, groups):
        forecasts = (proba, _tempered(proba, 1.4)) if two else (proba,)
        if function in OF_EVENTS:
            forecasts = (proba[:, 1],)
        record = function(y, *forecasts, groups=groups, **options)
        record = getattr(record, name) if name else record
        return getattr(record, "estimate", record)

    return estimate


OF_EVENTS = (s.calibration_summary, s.decision_regret)
interval_of = partial(estimate_of, s.calibration_error_interval, n_resamples=19)
summary = partial(estimate_of, s.calibration_summary)
of_two = partial(estimate_of, two=True)


def estimator(**parameters):
    """An estimate of `CalibrationErrorEstimator`, and its refinement."""

    def estimate(y, proba, groups):
        fitted = s.CalibrationErrorEstimator(**parameters).fit(proba, y, groups=groups)
        return fitted.calibration_error_

    return estimate


def group(name, power=2):
    """Mean power of a quantity of `calibration_by_group`; groups are of whole clusters."""

    def estimate(y, proba, groups):
        by = np.round(997 * proba[:, 1]) % 2
        group_records = s.calibration_by_group(y, proba[:, 1], by, groups=groups).groups
        values = [getattr(record, name) for record in group_records]
        return np.mean(np.array([getattr(value, "estimate", value) for value in values]) ** power)

    return estimate


SQUARED = {"norm": "l2", "squared": True, "debiased": True}
#: What equals the estimate of one sample of each cluster, but for rounding errors.
EQUAL = {
    **{
        metric: interval_of(metric=metric)
        for metric in ("l1", "ece", "l2", "debiased_l2", "squared_l2", "max", "ks", "kernel")
    },
    "simplex": interval_of(metric="simplex"),
    "squared distance in cells": interval_of(metric="simplex", distance="squared_euclidean"),
    "known edges": interval_of(metric="squared_l2", n_bins=[0, 0.3, 0.6, 1]),
    "classwise": interval_of(metric="squared_l2", notion="classwise", n_bins=3),
    "kernel, biased": interval_of(metric="kernel", statistic="biased"),
    "embedding": interval_of(metric="embedding", locations=LOCATIONS),
    "upper bound": interval_of(metric="upper_bound"),
    "root of the Brier score": interval_of(metric="root_brier_score"),
    **{name: summary(name) for name in ("brier", "brier_skill", "log_loss", "auc")},
    **{name: summary(name) for name in ("slope", "in_the_large", "observed_expected_ratio")},
    "kernel test": estimate_of(s.kernel_calibration_test),
    "cumulative test": estimate_of(s.significance.cumulative_test, n_resamples=19),
    "Hosmer and Lemeshow": estimate_of(s.hosmer_lemeshow_test, n_resamples=19),
    "Spiegelhalter": estimate_of(s.significance.spiegelhalter_test),
    "difference of a group": group("difference"),
    "improvement": of_two(s.calibration_improvement),
    "expected cost": estimate_of(s.decision_regret, "expected_cost", threshold=0.3),
}
#: What equals it in the mean: the design effect of the labels, or random parts, enter.
EQUAL_IN_THE_MEAN = {
    "brier": interval_of(metric="brier"),
    "log": interval_of(metric="log"),
    "ici": interval_of(metric="ici"),
    "estimator": estimator(),
    "estimator, log": estimator(loss="log"),
    "estimator, top label": estimator(notion="top_label"),
    "smoother": estimator(smoother=LogitSmoother()),
    "kernel smoother": estimator(smoother=DirichletKernel()),
    "kernel smoother, direct": estimator(smoother=DirichletKernel(), method="direct"),
    "kernel smoother, risk": estimator(smoother=DirichletKernel(), method="risk"),
    "neighbours": estimator(smoother=NearestNeighborsSmoother(), method="cross"),
    "isotonic": estimator(smoother="isotonic", method="cross"),
    **{name: summary(name) for name in ("ici", "e50", "e90", "emax", "eci")},
    "summary": summary("brier_calibration_error"),
    "unreliability": summary("unreliability"),
    "discrimination": summary("discrimination"),
    "likelihood ratio": estimate_of(s.significance.logistic_calibration_test),
    "error of a group": group("error", power=1),
    "shrunken difference": group("shrunk"),
    "equal scores": group("equal_scores"),
    "comparison": of_two(s.compare_calibration),
    "regret": estimate_of(s.decision_regret, "calibration", threshold=0.3),
}


def _tempered(proba, power):
    powers = proba**power
    return powers / powers.sum(axis=1, keepdims=True)


def one_of_each(seed, n_samples=100, n_classes=2, power=1.0):
    """Labels and forecasts, which are calibrated unless their logits are multiplied."""
    rng = np.random.default_rng(seed)
    chance = np.exp(1.2 * rng.normal(size=(n_samples, n_classes)))
    chance /= chance.sum(axis=1, keepdims=True)
    y = (rng.random((n_samples, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    return y, _tempered(chance, power)


@pytest.mark.parametrize("name", EQUAL)
def test_clusters_of_identical_samples_count_once(name):
    for seed in range(3):
        y, proba = one_of_each(seed)
        cluster = np.repeat(np.arange(100), 6)
        repeated_answer = EQUAL[name](y[cluster], proba[cluster], cluster)
        assert repeated_answer == pytest.approx(EQUAL[name](y, proba, None), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", EQUAL_IN_THE_MEAN)
def test_clusters_of_identical_samples_count_once_in_the_mean(name):
    """Means of six data sets: within two standard errors of one sample of each cluster."""
    estimate, cluster = EQUAL_IN_THE_MEAN[name], np.repeat(np.arange(100), 6)
    both = []
    for seed in range(6):
        y, proba = one_of_each(seed)
        both.append([estimate(y[cluster], proba[cluster], cluster), estimate(y, proba, None)])
    interval, expected = np.mean(both, axis=0)
    error = np.linalg.norm(np.std(both, axis=0, ddof=1)) / np.sqrt(len(both))
    assert abs(interval - expected) < 2 * error


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("power", [1.0, 1.6])
def test_averaged_maps_see_clusters_of_identical_samples_once(n_classes, power):
    """Also of miscalibrated forecasts, several classes, and clusters of unequal sizes."""
    both = []
    for seed in range(4):
        y, proba = one_of_each(seed, n_classes=n_classes, power=power)
        cluster = np.repeat(np.arange(100), 6)
        again = estimator()(y[cluster], proba[cluster], cluster)
        weight = np.random.default_rng(seed).integers(1, 9, 100)
        unequal = np.repeat(np.arange(100), weight)
        fitted = s.CalibrationErrorEstimator()
        different = fitted.fit(proba[unequal], y[unequal], groups=unequal).calibration_error_
        weighted = fitted.fit(proba, y, weight).calibration_error_
        both.append([again - estimator()(y, proba, None), different - weighted, weighted])
    error = np.std(both, axis=0, ddof=1)[2] / np.sqrt(len(both))
    assert np.abs(np.mean(both, axis=0)[:2]).max() < 0.5 * error


# --- One estimate --------------------------------------------------------------------------------


def test_all_functions_have_the_same_estimate():
    y, proba, _, cluster = rows_of_clusters()
    both = np.column_stack([1 - proba, proba])
    problem = check_problem(y, both, groups=cluster)

    def interval(metric, **options):
        return s.calibration_error_interval(y, proba, metric=metric, groups=cluster, **options)

    brier = interval("brier").estimate
    fitted = s.CalibrationErrorEstimator().fit(both, y, groups=cluster)
    assert brier == fitted.calibration_error_ == proper_calibration_error(problem, both)
    summarised = s.calibration_summary(y, proba, groups=cluster)
    assert summarised.brier_calibration_error.estimate == pytest.approx(brier, rel=1e-12)
    assert summarised.ici == pytest.approx(interval("ici").estimate, rel=1e-12)
    kernel = interval("kernel").estimate
    assert kernel == s.kernel_calibration_test(y, proba, groups=cluster).estimate
    assert kernel == kernel_calibration_error(problem, both)
    squared = interval(calibration_error, **SQUARED).estimate
    assert squared == interval("squared_l2").estimate == calibration_error(problem, both, **SQUARED)
    assert interval("simplex").estimate == simplex_calibration_error(problem, both)
    independent = check_problem(y, both)
    for function, options in (
        (proper_calibration_error, {}),
        (kernel_calibration_error, {}),
        (calibration_error, SQUARED),
    ):
        assert function(problem, both, **options) != function(independent, both, **options)


def test_a_debiased_square_is_that_of_pairs_of_different_clusters():
    """Of one bin with the weight W: sum over clusters of w e w' e' over W^2 minus their squares."""
    rng = np.random.default_rng(0)
    y, proba, _, cluster = rows_of_clusters()
    weight = rng.uniform(0.5, 2, len(y))
    problem = check_problem(y, proba, sample_weight=weight, groups=cluster)
    estimate = calibration_error(problem, problem.forecast, notion="canonical", n_bins=1, **SQUARED)
    w, e = weight / weight.sum(), y - proba
    cluster_weight = np.bincount(cluster, w)
    mean = w @ e
    deviation = np.bincount(cluster, w * (e - mean))
    expected = mean**2 - deviation @ deviation / (1 - cluster_weight @ cluster_weight)
    assert estimate == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", ["debiased_l2", "kernel", "upper_bound"])
def test_parts_of_the_samples_keep_their_clusters(metric, method):
    """The estimates of parts are those of clusters, as that of all samples is."""
    y, proba = one_of_each(0, 60)
    cluster = np.repeat(np.arange(60), 4)
    options = {"metric": metric, "method": method, "n_resamples": 30}
    if metric == "debiased_l2":
        options |= {"n_bins": [0, 0.4, 1]}
    if metric == "kernel":
        options |= {"kernel": "gaussian"}
    few = s.calibration_error_interval(y, proba, **options)
    again = s.calibration_error_interval(y[cluster], proba[cluster], groups=cluster, **options)
    for name in ("estimate", "low", "high", "standard_error"):
        assert getattr(again, name) == pytest.approx(getattr(few, name), rel=1e-6), name
    assert (again.valid, again.conservative) == (few.valid, few.conservative)


# --- Truth --------------------------------------------------------------------------------------


def random_effects(seed, n_clusters, sizes, within, power=1.0):
    """Samples of clusters with a random effect on the log odds, and the true Brier error."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), sizes(rng, n_clusters))
    individual, common = rng.normal(size=len(cluster)), rng.normal(size=n_clusters)[cluster]
    z = np.sqrt(within) * individual + np.sqrt(1 - within) * common
    nodes, mass = np.polynomial.hermite_e.hermegauss(41)
    chance = expit(z[:, None] + 1.3 * nodes) @ (mass / mass.sum())
    y = rng.random(len(z)) < expit(z + 1.3 * rng.normal(size=n_clusters)[cluster])
    forecast = _tempered(np.column_stack([1 - chance, chance]), power)
    return y.astype(int), forecast, cluster, float(np.mean((forecast[:, 1] - chance) ** 2))


def unequal(rng, n_clusters):
    return rng.integers(1, 40, n_clusters)


def equal(rng, n_clusters):
    return np.full(n_clusters, 30)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 1.5])
@pytest.mark.parametrize(
    ("n_clusters", "sizes", "within"),
    [(60, unequal, 1.0), (60, unequal, 0.2), (20, equal, 0.5)],
)
def test_estimates_with_clusters_are_near_the_truth(n_clusters, sizes, within, power):
    """Means of 60 data sets are within four standard errors, or a third of the true error.

    Averaged maps shrink small errors. For calibrated forecasts the mean is less than half of that
    without clusters.
    """
    rows = []
    for seed in range(60):
        y, proba, cluster, truth = random_effects(seed, n_clusters, sizes, within, power)
        estimates = [estimator()(y, proba, groups) for groups in (cluster, None)]
        rows.append([*estimates, truth])
    (clustered, independent, truth), error = (
        np.mean(rows, axis=0),
        np.std(rows, axis=0) / np.sqrt(60),
    )
    assert abs(clustered - truth) < max(4 * error[0], truth / 3)
    if power == 1:
        assert clustered < 0.5 * independent
