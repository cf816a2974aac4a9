"""Every argument changes some answer: laws of what changes nothing would pass without it.

What an argument does not change, in data of two and of three classes with weights and clusters, is
listed with the reason.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from public_estimators import answers
from public_functions import (
    DISPLAYS,
    FORECASTS,
    Recipe,
    firsts,
    ignoring,
    numbers,
    other_values,
    public_name,
)
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import skcalib as s

pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def world(n_classes, n_samples=72):
    """Labels, overconfident forecasts, weights, and clusters of three samples that are alike."""
    rng = np.random.default_rng(n_classes)
    n_clusters = n_samples // 3
    cluster = np.arange(n_samples) % n_clusters
    z, effect = rng.normal(size=(2, n_clusters, n_classes))[:, cluster]
    z += 0.3 * rng.normal(size=z.shape)
    chance = softmax(0.8 * z + 0.6 * effect, axis=1)
    y = (chance.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    proba = softmax(1.2 * z, axis=1)
    assert np.bincount(y, minlength=n_classes).min() > 10 and np.ptp(proba, axis=0).min() > 0.5
    return y, proba, {"sample_weight": rng.uniform(0.2, 3, n_samples), "groups": cluster}


#: Arguments that are used beside others only.
BESIDE = {
    "debiased": {"norm": "l2"}, "squared": {"norm": "l2"}, "reduce": {"notion": "classwise"},
    "block_size": {"statistic": "block"}, "locations": {"method": "embedding"},
    "costs": {"threshold": None, "notion": "canonical"}, "n_bins": {"strategy": "quantile"},
}  # fmt: skip
MORE_VALUES = {
    "block_size": (2,),
    "locations": (4,),
    "n_resamples": (49,),
    "costs": ([[0, 1], [1, 0]],),
}


def calls_of(recipe, n_classes):
    """Calls by the name of an argument; a function that uses it answers two of them otherwise."""
    y, proba, rows = world(n_classes)
    arrays = recipe.arrays(proba)
    yield "y_true", partial(recipe, np.roll(y, 1), *arrays)
    yield "y_proba", partial(recipe, y, *recipe.arrays(np.roll(proba, 1, axis=0)))
    for name, value in rows.items():
        if recipe.accepts(name):
            yield name, partial(recipe, y, *arrays, **{name: value})
    names = dict.fromkeys(name for name, _ in other_values(recipe.function))
    for name in names.keys() - recipe.options.keys():
        options = {key: value for key, value in BESIDE.get(name, {}).items() if recipe.accepts(key)}
        beside = replace(recipe, options=recipe.options | options)
        column = recipe.arrays(proba[:, -1]) if name == "pos_label" else arrays
        if name in BESIDE:
            yield name, partial(beside, y, *column)
        values = [value for key, value in other_values(recipe.function) if key == name]
        for value in (*values, *MORE_VALUES.get(name, ())):
            yield name, partial(beside, y, *column, **{name: value})


def ignored(recipe):
    """Names of arguments with which all answers are the same, or all calls but one are refused."""
    names, used = set(), set()
    for n_classes in (2,) if recipe.binary else (2, 3):
        answers_of = {}
        y, proba, _ = world(n_classes)
        plain = numbers(recipe(y, *recipe.arrays(proba)))
        for name, call in calls_of(recipe, n_classes):
            names.add(name)
            first = answers_of.setdefault(name, [plain] if name not in BESIDE else [])
            if name in used:
                continue
            try:
                result = numbers(call())
            except (ValueError, TypeError):
                continue
            if first and not np.array_equal(first[0], result, equal_nan=True):
                used.add(name)
            first.append(result)
    return names - used


#: Arguments that change no number here, of functions by their defaults.
IGNORED = {
    "calibration_by_group": {"intersections"},  # there are groups of one kind
    "GroupCalibrationDisplay.from_predictions": {"intersections"},
    "calibration_error_interval": {"metric"},  # the table has a value
    "consistency_test": {"metric"},
    "unconditional_mean_embedding_error": {"locations"},
    "distribution_free_bound": {"sample_weight"},  # refused
    # Nothing is found in so few samples.
    "differences_at_equal_scores": {"y_proba", "pos_label"},
    "calibration_curve_equality_test": {"n_resamples"},  # signs of clusters are drawn
}
#: The others take seconds.
RECIPES = [recipe for recipe in firsts([*FORECASTS, *DISPLAYS]) if "Decomp" not in str(recipe)]
RECIPES = [recipe for recipe in RECIPES if "GroupingDisplay" not in str(recipe)]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_every_argument_changes_an_answer(recipe):
    assert ignored(recipe) == IGNORED.get(public_name(recipe.function), set())


def recipe_of(function):
    return next(recipe for recipe in FORECASTS if recipe.function is function)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        *((s.calibration_error, name) for name in ("y_true", "y_proba", "sample_weight", "norm")),
        *((s.hosmer_lemeshow_test, name) for name in ("groups", "n_bins", "sample_weight")),
    ],
)
def test_ignored_arguments_are_found(function, name):
    recipe = recipe_of(function)
    assert name not in ignored(recipe) and name in ignored(ignoring(recipe, name))


# --- Labels of every kind -------------------------------------------------------------------------


@pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC()])
@pytest.mark.parametrize(
    "kind", [s.CalibrationErrorEstimator, partial(s.GroupingLossEstimator, n_permutations=19)]
)
def test_soft_labels_use_the_arguments_that_labels_use(kind, model):
    """With a fitted classifier its probabilities, and weights and clusters, as if all were given.

    Samples of weight 0 are not there: decision values are scaled by the others.
    """
    y, proba, rows = world(2)
    X = np.column_stack([np.log(proba[:, 1]), np.cos(np.arange(len(y)))])
    estimator, soft = kind(model.fit(X, y)), 0.8 * np.eye(2)[y] + 0.1
    few = np.arange(len(y)) % 12 == 5
    X, weight = np.where(few[:, None], 50 * X, X), np.where(few, 0, rows["sample_weight"])
    results = []
    rows = rows | {"sample_weight": weight}
    for options in ({}, {"sample_weight": weight}, rows):
        results.append(answers(estimator.fit(X, soft, **options), None))
    weighted = {name: values[~few] for name, values in rows.items()}
    expected = [answers(estimator.fit(X[~few], soft[~few], **weighted), None)]
    if hasattr(model, "predict_proba"):
        forecast = model.predict_proba(X)
        arrays = (forecast, soft) if isinstance(kind, type) else (X, soft, forecast)
        alone = kind().fit(*arrays, **rows)
        expected.append(answers(alone, None))
    for same in expected:
        for name in results[-1].keys() - {"classes_", "n_features_in_"}:
            np.testing.assert_allclose(results[-1][name], same[name], rtol=1e-7, err_msg=name)
    for changed in results[:-1]:
        assert any(not np.array_equal(changed[name], results[-1][name]) for name in changed)


# --- The most likely class ------------------------------------------------------------------------

AT_PLACES = {"locations": [0.9, 0.55]}
TOP_LABEL = [
    *(
        recipe
        for recipe in firsts(FORECASTS)
        if recipe.accepts("notion") and recipe.takes == "forecast"
    ),
    Recipe(s.errors.unconditional_mean_embedding_error, options=AT_PLACES),
    Recipe(s.kernel_calibration_test, options={"method": "embedding", **AT_PLACES}),
    Recipe(s.calibration_error_interval, options={"metric": "embedding", **AT_PLACES}),
]
TOP_LABEL = [r for r in TOP_LABEL if "embedding_error()" not in str(r)]


@pytest.mark.parametrize("recipe", TOP_LABEL, ids=str)
def test_the_top_label_is_whether_the_most_likely_class_came_true(recipe):
    y, proba, _ = world(3, 240)
    options = recipe.options | {"notion": "top_label"}
    top = replace(recipe, options=options)
    by_hand = replace(recipe, options=recipe.options | {"notion": "canonical"})
    correct, confidence = (y == proba.argmax(axis=1)).astype(int), proba.max(axis=1)
    expected = numbers(by_hand(correct, *recipe.arrays(confidence)))
    np.testing.assert_allclose(numbers(top(y, *recipe.arrays(proba))), expected, rtol=1e-7)
