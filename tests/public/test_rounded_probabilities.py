"""Rounding errors outside [0, 1] are 0 and 1, at every public name that takes probabilities."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl
from engines import to_parquet
from matplotlib import pyplot as plt
from public_estimators import RECALIBRATORS, quick
from public_functions import DISPLAYS, FORECASTS, REPORT, numbers, only_own_warnings, public_name
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from test_inputs import DATA

import skcalib
from skcalib.io import read_predictions

PROBABILITY_ROUNDING = 1e-9  # what the documentation states
#: Zeros and ones as other libraries leave them, with rounding errors.
ERRORS = {
    "one rounding": (-1e-17, np.nextafter(1, 2)),
    "the largest": (-PROBABILITY_ROUNDING, 1 + PROBABILITY_ROUNDING),
}
TOO_MUCH = 2.1 * PROBABILITY_ROUNDING
Y2, PAIRS = DATA[2]
Y3, THREE = DATA[3]
SHAPES = {"column": (Y2, PAIRS[:, 1]), "pairs": (Y2, PAIRS), "three": (Y3, THREE)}


def rounded(proba, below, above):
    """The same forecasts with errors in their zeros and ones; nothing may write to them."""
    forecasts = np.where(proba == 0, below, np.where(proba == 1, above, proba))
    assert (forecasts < 0).any() and (forecasts > 1).any()
    forecasts.flags.writeable = False
    return forecasts


def firsts(recipes):
    names = [public_name(recipe.function) for recipe in recipes]
    return [recipe for k, recipe in enumerate(recipes) if names[k] not in names[:k]]


FUNCTIONS = [*firsts(FORECASTS), *firsts(DISPLAYS)]


def answer(recipe, y, proba, exact):
    """Numbers for forecasts; what goes with them is that of the exact ones."""
    arrays = [proba, *recipe.arrays(exact)[1:]]
    if recipe.takes == "two forecasts":
        arrays[1] = proba[::-1]
    with only_own_warnings():
        values = numbers(recipe(y, *arrays))
    plt.close("all")
    return values


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("recipe", FUNCTIONS, ids=str)
def test_the_answer_is_that_of_zero_and_one(recipe, shape):
    y, exact = SHAPES[shape]
    if shape == "three" and recipe.binary:
        y, exact = SHAPES["pairs"]
    if recipe in DISPLAYS and shape == "pairs":
        return  # a second each
    expected = answer(recipe, y, exact, exact)
    for error in ERRORS.values() if recipe in FORECASTS else [ERRORS["one rounding"]]:
        np.testing.assert_array_equal(answer(recipe, y, rounded(exact, *error), exact), expected)


@pytest.mark.parametrize("shape", ["column", "three"])
@pytest.mark.parametrize("recipe", FUNCTIONS, ids=str)
def test_larger_ones_are_refused(recipe, shape):
    y, exact = SHAPES[shape if not recipe.binary else "column"]
    for wrong in (
        np.where(exact == 0, -TOO_MUCH, exact),
        np.where(exact == 1, 1 + TOO_MUCH, exact),
    ):
        if wrong.ndim == 2 and wrong.max() > 1:
            continue  # sums of several columns have a tolerance of their own
        with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
            recipe(y, wrong, *recipe.arrays(exact)[1:])


@pytest.mark.slow
def test_reports():
    y, exact = SHAPES["three"]
    expected = answer(REPORT, y, exact, exact)
    after_rounding = answer(REPORT, y, rounded(exact, *ERRORS["one rounding"]), exact)
    np.testing.assert_array_equal(after_rounding, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", RECALIBRATORS, ids=lambda kind: kind.__name__)
def test_recalibrators(kind, shape):
    y, exact = SHAPES[shape]
    options = {"features": np.arange(len(y))[:, None] % 3} if kind.takes_features else {}
    try:
        with only_own_warnings():
            fitted = quick(kind).fit(exact, y, **options)
    except (TypeError, ValueError):
        pytest.skip("needs arguments or two classes")
    values = rounded(exact, *ERRORS["one rounding"])
    with only_own_warnings():
        again = quick(kind).fit(values, y, **options)
    expected = fitted.predict_proba(exact, **options)
    for recalibrator, proba in ((fitted, values), (again, exact), (again, values)):
        np.testing.assert_array_equal(recalibrator.predict_proba(proba, **options), expected)
    with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
        fitted.predict_proba(np.where(exact == 0, -TOO_MUCH, exact), **options)


def sketch_of_frame(library, y, proba):
    columns = {"y": y, **{f"p{k}": column for k, column in enumerate(proba.T)}}
    sketch = skcalib.summarize(
        library.DataFrame(columns), y_true="y", y_proba=[*columns][1:], notion="classwise"
    )
    return sketch.to_frame().to_numpy()[:, 2:].astype(float)


def chunked(y, proba):
    half, fitted = len(y) // 2, skcalib.TemperatureScaling(labels=[0, 1, 2])
    for rows in (slice(half), slice(half, None)):
        fitted.partial_fit(proba[rows], y[rows])
    return fitted.predict_proba(proba)


def of_several_labels(y, proba):
    target = np.column_stack([y % 2, (y + np.arange(len(y))) % 2])
    notion = skcalib.data.notions.Multilabel()
    fitted = skcalib.MultilabelRecalibrator().fit(proba[:, :2], target)
    error = skcalib.calibration_error(target, proba[:, :2], notion=notion)
    return [error, fitted.predict_proba(proba[:, :2])]


def of_label_distributions(y, proba):
    decomposition = skcalib.soft_label_decomposition(proba, np.full(proba.shape, 1 / 3))
    return [skcalib.proper_calibration_error(proba, proba[::-1]), numbers(decomposition)]


def without_labels(y, proba):
    return numbers(skcalib.expected_performance(proba))


class Model(ClassifierMixin, BaseEstimator):
    """A fitted model of another library, whose probabilities are its features."""

    classes_ = np.arange(3)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def __sklearn_is_fitted__(self):
        return True


def of_a_model(y, proba):
    model = FrozenEstimator(Model())
    recalibrated = skcalib.RecalibratedClassifierCV(model, skcalib.TemperatureScaling()).fit(
        proba, y
    )
    error = skcalib.get_scorer("neg_brier_calibration_error")(model, proba, y)
    return [recalibrated.predict_proba(proba), error]


def of_features(y, proba):
    X = np.arange(len(y))[:, None] % 3
    estimator = skcalib.GroupingLossEstimator().fit(X, y, y_proba=proba)
    return [estimator.grouping_loss_]


OTHERS = {
    "frames of pandas": partial(sketch_of_frame, pd),
    "frames of polars": partial(sketch_of_frame, pl),
    "chunks": chunked,
    "several labels": of_several_labels,
    "label distributions": of_label_distributions,
    "no labels": without_labels,
    "a model": of_a_model,
    "features": of_features,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_doors(name):
    y, exact = SHAPES["three"]
    with only_own_warnings():
        expected = numbers(OTHERS[name](y, exact))
        for error in ERRORS.values():
            after_rounding = numbers(OTHERS[name](y, rounded(exact, *error)))
            np.testing.assert_allclose(
                after_rounding, expected, rtol=0, atol=2 * PROBABILITY_ROUNDING
            )
    assert np.isfinite(expected).all() and len(expected)
    with pytest.raises(
        ValueError, match=r"outside \[0, 1\]|has the value -2.1e-09, but label dist"
    ):
        OTHERS[name](y, np.where(exact == 0, -TOO_MUCH, exact))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files(tmp_path, suffix):
    """Of one column, of one that is converted to the other class, and of each class."""
    path = tmp_path / f"p.{suffix}"
    write = {"csv": partial(pd.DataFrame.to_csv, index=False), "parquet": to_parquet}
    for exact, names, event in (
        (PAIRS[:, [1]], ["p_1"], None),
        (PAIRS[:, [0]], ["p_0"], "1"),
        (PAIRS, ["p_0", "p_1"], None),
    ):
        values = rounded(exact, *ERRORS["one rounding"])
        write[suffix](pd.DataFrame(values, columns=names).assign(y=Y2), path)
        read = read_predictions(path, event=event)
        chosen = {"labels": read.labels, "pos_label": read.event}
        error = skcalib.calibration_error(read.y_true, read.y_proba, **chosen)
        assert error == skcalib.calibration_error(Y2, PAIRS)


def test_single_precision_keeps_its_type_of_error():
    """A float32 just above 1 is further away than 1e-9, and is refused for a single column."""
    above = np.where(PAIRS[:, 1] == 1, np.nextafter(np.float32(1), np.float32(2)), PAIRS[:, 1])
    with pytest.raises(ValueError, match=r"the value 1\.00000011921, outside \[0, 1\]"):
        skcalib.calibration_error(Y2, above.astype(np.float32))
