"""Frames of every library: the answer for an array, or one sentence, and no foreign warning."""

import numpy as np
import pandas as pd
import pytest
from engines import in_arrow
from engines import polars as pl
from public_functions import DISPLAYS, FORECASTS, firsts, numbers, only_own_warnings, public_name
from sklearn.linear_model import LogisticRegression
from test_inputs import DATA

import skcalib
from skcalib.grouping import grouping_improvement
from skcalib.regression import VarianceScaling

Y, P = DATA[3]
Y2, P2 = DATA[2]
X = np.column_stack([np.arange(len(Y)) % 3, np.arange(len(Y)) / 7])
TARGET = np.column_stack([Y % 2, np.arange(len(Y)) % 2])


def columns(values):
    values = np.asarray(values)
    return {f"c{k}": column for k, column in enumerate(values.reshape(len(values), -1).T)}


def _module(name):
    return pytest.importorskip(name)


def arrow(values):
    return _module("pyarrow").table(columns(values))


def dask(values):
    return _module("dask.dataframe").from_pandas(pd.DataFrame(columns(values)), npartitions=2)


#: Frames whose rows must be fetched, and how the sentence says so.
TO_FETCH = {
    "polars, lazy": (lambda values: pl.LazyFrame(columns(values)), "collect()"),
    "narwhals, lazy": (
        lambda values: _module("narwhals").from_native(pl.LazyFrame(columns(values))),
        "collect()",
    ),
    "pyarrow": (arrow, "to_pandas()"),
    "duckdb": (lambda values: _module("duckdb").from_arrow(arrow(values)), "df()"),
    "dask": (dask, "compute()"),
}
#: Frames that stand for arrays.
IN_MEMORY = {
    "pandas, nullable": lambda values: pd.DataFrame(columns(values)).convert_dtypes(),
    "pandas, arrow": lambda values: in_arrow(pd.DataFrame(columns(values))),
    "polars": lambda values: pl.DataFrame(columns(values)),
    "narwhals": lambda values: _module("narwhals").from_native(pl.DataFrame(columns(values))),
}


#: Recipes that make arguments of the labels and forecasts, and so read them as arrays.
MADE = {
    *("calibration_by_group", "calibration_curve_equality_test", "compare_windows"),
    *("unconditional_mean_embedding_error", "GroupCalibrationDisplay.from_predictions"),
    *("CalibrationMonitor", "SequentialCalibrationTest", "expected_performance"),
    *("calibration_error_interval",),
}


def _of_arguments(recipe, make):
    """Calls of a function with one of its arguments as a frame."""
    y, proba = (Y2, P2) if recipe.binary else (Y, P)
    arrays = recipe.arrays(proba)
    yield lambda: recipe(make(y), *arrays)
    for k in range(len(arrays)):
        changed = [make(array) if place == k else array for place, array in enumerate(arrays)]
        yield lambda changed=changed: recipe(y, *changed)
    for name, values in (("sample_weight", np.ones(len(y))), ("groups", np.arange(len(y)) // 2)):
        if recipe.accepts(name):
            frame = {name: make(values)}
            yield lambda frame=frame: recipe(y, *arrays, **frame)


@pytest.mark.parametrize("kind", TO_FETCH)
@pytest.mark.parametrize(
    "recipe",
    [entry for entry in firsts([*FORECASTS, *DISPLAYS]) if public_name(entry.function) not in MADE],
    ids=str,
)
def test_rows_must_be_fetched(recipe, kind):
    make, fetch = TO_FETCH[kind]
    for call in _of_arguments(recipe, make):
        refused(call, fetch)


def refused(call, fetch):
    with only_own_warnings(), pytest.raises(ValueError, match=r"^[^\n]{40,500}\.$") as error:
        call()
    assert f".{fetch}" in str(error.value)


FITTED = skcalib.TemperatureScaling().fit(P, Y)
REGIONS = skcalib.GroupingLossEstimator(method="partition", n_permutations=0)
GROUPED = skcalib.GroupRecalibrator().fit(P, Y, features=X)


def _by(function, **options):
    return lambda make: function(Y, P, by=make(X[:, 0]), **options)


def of_groups(make):
    return skcalib.GroupRecalibrator().fit(P, Y, features=make(X)).predict_proba(P, features=X)


def of_labels(make):
    return skcalib.MultilabelRecalibrator().fit(make(P[:, :2]), TARGET).predict_proba(P[:, :2])


def of_indicators(make):
    return skcalib.MultilabelRecalibrator().fit(P[:, :2], make(TARGET)).predict_proba(P[:, :2])


def of_moments(make):
    return (
        VarianceScaling()
        .fit(make(1 + P[:, :2]), P[:, 2])
        .predict(make(1 + P[:, :2]), return_std=True)
    )


def of_features(make):
    return REGIONS.fit(make(X), Y, y_proba=P).grouping_loss_


def of_probabilities(make):
    return REGIONS.fit(X, Y, y_proba=make(P)).grouping_loss_


def in_parts(proba):
    return skcalib.TemperatureScaling(labels=[0, 1, 2]).partial_fit(proba, Y)


#: What takes a frame in place of a matrix; each makes one of its arguments.
MATRICES = {
    "fit": lambda make: skcalib.TemperatureScaling().fit(make(P), Y).predict_proba(make(P)),
    "chunks": lambda make: in_parts(make(P)).predict_proba(make(P)),
    "groups of a recalibrator": of_groups,
    "groups of new samples": lambda make: GROUPED.predict_proba(P, features=make(X)),
    "several labels": of_labels,
    "indicators": of_indicators,
    "label distributions": lambda make: skcalib.proper_calibration_error(make(P), P[::-1]),
    "no labels": lambda make: skcalib.expected_performance(make(P)),
    "features": of_features,
    "probabilities": of_probabilities,
    "improvement": lambda make: grouping_improvement(Y, P, P[::-1], make(X)),
    "moments": of_moments,
    "sketch": lambda make: skcalib.ForecastSketch([0, 1, 2]).partial_fit(Y, make(P)).scored(),
    "monitor": lambda make: skcalib.CalibrationMonitor([0, 1, 2]).partial_fit(Y, make(P)).path_,
}
#: Other doors, whose labels, groups or models make something else of some frames.
DOORS = MATRICES | {
    "fit, y": lambda make: skcalib.TemperatureScaling().fit(P, make(Y)),
    "predict": lambda make: FITTED.predict_proba(make(P)),
    "estimator": lambda make: skcalib.CalibrationErrorEstimator().fit(make(P), Y),
    "classifier": lambda make: skcalib.RecalibratedClassifierCV(LogisticRegression()).fit(
        make(X), Y
    ),
    "by": lambda make: skcalib.calibration_by_group(Y, P, by=make(X[:, 0])),
    "by, y": lambda make: skcalib.calibration_by_group(make(Y), P, by=X[:, 0]),
    "equal curves": lambda make: skcalib.grouping.calibration_curve_equality_test(
        Y, P, by=make(X[:, 0])
    ),
    "windows": lambda make: skcalib.compare_windows(Y, P, by=make(X[:, 0] > 1)),
    "weights of a monitor": lambda make: skcalib.CalibrationMonitor([0, 1, 2]).partial_fit(
        Y, P, make(np.ones(len(Y)))
    ),
    "groups of a monitor": lambda make: skcalib.CalibrationMonitor([0, 1, 2]).partial_fit(
        Y, P, by=make(X[:, 0])
    ),
    "features of a report": lambda make: skcalib.CalibrationReport.from_predictions(Y, P, make(X)),
    "forecasts of a report": lambda make: skcalib.CalibrationReport.from_predictions(Y, make(P)),
    "groups of a report": lambda make: skcalib.CalibrationReport.from_predictions(
        Y, P, by=make(X[:, 0])
    ),
}


@pytest.mark.parametrize("kind", TO_FETCH)
@pytest.mark.parametrize("door", DOORS)
def test_rows_must_be_fetched_at_other_doors(door, kind):
    make, fetch = TO_FETCH[kind]
    refused(lambda: DOORS[door](make), fetch)


@pytest.mark.parametrize("kind", IN_MEMORY)
@pytest.mark.parametrize("door", MATRICES)
def test_frames_in_memory(door, kind):
    with only_own_warnings():
        value, expected = (numbers(MATRICES[door](make)) for make in (IN_MEMORY[kind], np.asarray))
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    assert len(expected) and np.isfinite(expected).any()


def test_names_of_columns_are_never_ignored():
    """A table of pyarrow, whose names were not read, gave the error of the other class."""
    y, p = np.array(["a", "b"] * 10), np.linspace(0.05, 0.95, 20)
    swapped = {"p_b": p, "p_a": 1 - p}
    for make in (pd.DataFrame, pl.DataFrame):
        with pytest.raises(ValueError, match=r"The columns of y_proba are named \['p_b', 'p_a'\]"):
            skcalib.calibration_error(y, make(swapped))
    with pytest.raises(ValueError, match=r"y_proba is a Table of pyarrow, .* y_proba\.to_pandas"):
        skcalib.calibration_error(y, _module("pyarrow").table(swapped))
