"""Fits from parts are those in memory, or those of a random part of the samples."""

import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import cut, lazy
from grids import covering
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import skcalib as s
from skcalib.datasets import make_tempered_simplex

FITS = {
    "temperature": s.TemperatureScaling(),
    "temperature, brier": s.TemperatureScaling(loss="brier"),
    "temperature, logits": s.TemperatureScaling(input="logits"),
    "biases": s.recalibration.BiasCorrectedTemperatureScaling(),
    "platt": s.PlattScaling(),
    "beta": s.BetaCalibration(),
    "quadratic": s.recalibration.QuadraticScaling(),
    "vector": s.VectorScaling(),
    "vector, logits": s.VectorScaling(shrinkage=5, input="logits"),
    "matrix": s.recalibration.MatrixScaling(shrinkage=5),
    "dirichlet": s.DirichletCalibration(shrinkage=5),
    "stack": s.StackedRecalibrator(candidates=[s.TemperatureScaling(), s.PlattScaling()]),
}


def samples(n_samples, n_classes, *, shift=0.6, seed=0):
    """Forecasts whose slopes and class frequencies are wrong, some of them with zeros."""
    world = make_tempered_simplex(n_samples, n_classes, score_temperature=0.6, random_state=seed)
    proba = world.y_proba * np.exp(np.linspace(-shift, shift, n_classes))
    proba[3, 0] = 0.0
    return proba / proba.sum(axis=1, keepdims=True), world.y


def pair(name, n_classes):
    scaling = clone(FITS[name]).set_params(labels=np.arange(n_classes))
    return scaling, clone(scaling)


def in_parts(scaling, chunks):
    for values, *labels_and_weight in chunks:
        weight = {"sample_weight": labels_and_weight.pop()} if len(labels_and_weight) == 2 else {}
        scaling.partial_fit(values, *labels_and_weight, **weight)
    return scaling


def assert_same(fitted, expected, values):
    """Equal to the last bit: the same samples, in the same order."""
    np.testing.assert_array_equal(fitted.predict_proba(values), expected.predict_proba(values))
    for name, value in vars(expected).items():
        if name.endswith("_") and not isinstance(value, dict):
            assert np.array_equal(getattr(fitted, name), value) or name == "mixture_", name


@pytest.mark.parametrize("name, n_classes, weighted", covering(FITS, [2, 3, 8], [False, True]))
def test_the_same_as_in_memory(name, n_classes, weighted):
    proba, y = samples(900, n_classes)
    scaling, expected = pair(name, n_classes)
    values = np.log(np.maximum(proba, 1e-9)) if scaling.input == "logits" else proba
    weight = np.random.default_rng(0).integers(0, 4, 900) * 2e307 if weighted else None
    arrays = (values, y) if weight is None else (values, y, weight)
    expected.fit(values, y, sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the first calls have few samples
        in_parts(scaling, cut(400, *arrays))
    assert_same(scaling, expected, values)
    assert scaling.n_samples_seen_ == (900 if weight is None else np.count_nonzero(weight))


def test_a_random_part_of_many_samples(set_sizes):
    """Every sample is as likely to be kept, whatever the sizes of the calls and the order."""
    set_sizes(subsample_samples=1000)
    proba, y = samples(20_000, 2)
    weight = np.arange(20_000) + 1.0  # names the samples
    weights = []
    for size in (300, 7000, 20_000):
        scaling = in_parts(s.TemperatureScaling(labels=[0, 1]), cut(size, proba, y, weight))
        assert scaling.n_samples_seen_ == 20_000
        weights.append(scaling._subsample["weight"])
    np.testing.assert_array_equal(weights[0], weights[2])
    np.testing.assert_array_equal(weights[1], weights[2])
    counts = np.histogram(weights[0], 10, (0, 20_000))[0]
    assert counts.sum() == 1000 and np.abs(counts - 100).max() < 4 * np.sqrt(100 * 0.9)
    part = weights[0].astype(int) - 1
    expected = s.TemperatureScaling(labels=[0, 1]).fit(proba[part], y[part], weight[part])
    assert scaling.temperature_ == expected.temperature_


def test_classes_of_the_first_call():
    proba, y = samples(300, 3)
    scaling = s.TemperatureScaling()
    with pytest.raises(ValueError, match="labels must list the classes"):
        scaling.partial_fit(proba[:10], y[:10])
    scaling.partial_fit(proba[:200], y[:200], classes=[0, 1, 2]).partial_fit(proba[200:], y[200:])
    assert scaling.temperature_ == s.TemperatureScaling().fit(proba, y).temperature_
    before = scaling.temperature_
    for classes in ([0, 1], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="but that of the first call is"):
            scaling.partial_fit(proba, y, classes=classes)
    with pytest.raises(ValueError, match="but labels is"):
        s.TemperatureScaling(labels=[0, 1]).partial_fit(proba, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="outside"):
        scaling.partial_fit(3 * proba, y)
    assert (scaling.temperature_, scaling.n_samples_seen_) == (before, 300)
    assert scaling.partial_fit(proba, y, sample_weight=np.zeros(300)).n_samples_seen_ == 300
    with pytest.raises(ValueError, match="no sample of positive weight"):
        s.TemperatureScaling(labels=[0, 1, 2]).partial_fit(proba, y, sample_weight=np.zeros(300))


def test_fit_and_partial_fit_do_not_mix():
    proba, y = samples(300, 3)
    scaling = s.TemperatureScaling().fit(proba, y)
    with pytest.warns(UserWarning, match="begins again, with these samples"):
        scaling.partial_fit(proba[:200], y[:200])
    assert scaling.temperature_ == s.TemperatureScaling().fit(proba[:200], y[:200]).temperature_
    scaling = s.TemperatureScaling(labels=[0, 1, 2]).partial_fit(proba[:100], y[:100])
    assert not hasattr(scaling.fit(proba, y), "n_samples_seen_")


@pytest.mark.filterwarnings("error")  # also with the lowest versions
def test_a_warning_that_is_an_error_loses_no_samples():
    y = np.arange(300) % 3
    proba = 0.1 + 0.7 * np.eye(3)[y]
    scaling = s.TemperatureScaling(labels=[0, 1, 2])
    for many in (1, 2):
        with pytest.warns(ConvergenceWarning, match="separable by the scores"):
            scaling.partial_fit(proba, y)
        with pytest.raises(ConvergenceWarning):
            scaling.partial_fit(proba, y)
        assert scaling.n_samples_seen_ == 600 * many


def test_a_single_column_and_names_of_labels_and_columns():
    proba, y = samples(500, 2)
    y = np.array(["no", "yes"])[y]
    for kind in (s.TemperatureScaling, s.recalibration.BiasCorrectedTemperatureScaling):
        of_chunks = in_parts(kind(labels=["no", "yes"]), cut(250, proba[:, 1], y))
        expected = kind().fit(proba[:, 1], y)
        assert of_chunks.predict_proba([0.3]) == pytest.approx(
            expected.predict_proba([0.3]), abs=1e-10
        )
    proba, y = samples(200, 3, shift=0.2)
    names = ["a", "b", "c"]
    frame, y = pd.DataFrame(proba, columns=names), np.array(names)[y]
    scaling = in_parts(s.TemperatureScaling(labels=names), cut(90, frame, y))
    assert scaling.feature_names_in_.tolist() == names
    single, two = pd.Series(proba[:, 0], name="p_a"), s.TemperatureScaling(labels=names[:2])
    with pytest.raises(ValueError, match="The column of X is named"):
        two.partial_fit(single, np.where(y == "a", "a", "b"))


P, Y = samples(100, 3)


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        ((P * 2, Y), "outside"),
        ((P, Y[:50]), "must have the same number of samples"),
        ((P, Y + 1), "y_true contains 3"),
        ((P, Y, [0, 1, 2], -np.ones(100)), "sample_weight must be finite"),
        ((P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), Y), "labels lists 3 classes"),
    ],
)
def test_samples_that_are_refused_leave_the_map_as_it_was(samples, match):
    scaling = s.TemperatureScaling(labels=[0, 1, 2]).partial_fit(P, Y)
    before = vars(scaling).copy()
    with pytest.raises(ValueError, match=match):
        scaling.partial_fit(*samples)
    assert vars(scaling) == before


def test_dask_arrays_are_not_computed_by_other_functions():
    """They were, as a whole and without a message."""
    proba, y = samples(100, 3)
    _, labels = lazy(proba, y, rows=20)
    p = lazy(proba, rows=20)[0].map_blocks(pytest.fail, meta=np.empty((0, 0)))
    for work in (
        lambda: s.TemperatureScaling().fit(p, y),
        lambda: s.TemperatureScaling().fit(proba, labels),
        lambda: s.TemperatureScaling().fit(proba, y).predict_proba(p),
        lambda: s.proper_calibration_error(y, p),
        lambda: s.calibration_error(y, proba, sample_weight=labels),
    ):
        with pytest.raises(ValueError, match="is a Dask collection, which would be computed"):
            work()
