"""Every constructor of a display draws the same data."""

import inspect

import numpy as np
import pytest
from matplotlib import pyplot as plt
from public_functions import numbers
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib import ForecastSketch, IdentityRecalibrator
from skcalib.data.notions import Multilabel
from skcalib.data.problem import check_problem
from skcalib.datasets import make_tempered_simplex

#: Display -> data beside labels and forecasts, of every sample; and quick options.
DISPLAYS = {
    "DecisionCurveDisplay": ({}, {"thresholds": [0.2, 0.5]}),
    "DecompositionDisplay": ({}, {"grouping": None}),
    "EstimationDisplay": ({}, {"n_repeats": 3, "sample_sizes": [50, 150]}),
    "GroupCalibrationDisplay": ({"by": np.arange(400) % 3}, {}),
    "GroupingDisplay": ({"regions": np.arange(400) % 2}, {}),
    "MurphyDisplay": ({}, {"thresholds": [0.2, 0.5], "parts": True}),
    "ReliabilityDisplay": ({}, {"n_resamples": 99}),
}
WITH_SKETCH = [name for name in DISPLAYS if hasattr(getattr(skcalib.displays, name), "from_sketch")]


def known(p, y):
    """A fitted classifier whose probabilities are its features."""
    return IdentityRecalibrator().fit(p, y)


@pytest.fixture(scope="module")
def samples():
    world = make_tempered_simplex(400, 2, score_temperature=0.7, random_state=0)
    return world.y, world.y_proba


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def drawn(display):
    """The numbers of the records that a display draws."""
    for name in ("curves", "terms", "diagrams", "calibrations"):
        if hasattr(display, name):
            records = getattr(display, name)
            return numbers([[vars(record) for record in getattr(records, "groups", records)]])
    raise AssertionError(f"{display!r} has no records")


def of(name, constructor, *arguments, **options):
    return getattr(getattr(skcalib.displays, name), constructor)(*arguments, **options)


@pytest.mark.parametrize("name", DISPLAYS)
def test_a_problem_has_the_same_data(name, samples):
    (y, p), (rows, quick) = samples, DISPLAYS[name]
    options = {**rows, **quick}
    expected = drawn(of(name, "from_predictions", y, p, **options))
    assert expected.size and np.isfinite(expected).any()
    display = of(name, "from_predictions", check_problem(y, p), p, **options)
    np.testing.assert_allclose(drawn(display), expected, rtol=1e-9, atol=1e-12)
    assert display.figure_ is not None


@pytest.mark.parametrize("name", WITH_SKETCH)
def test_a_sketch_has_nearly_the_same_data(name, samples):
    """Groups and decisions are those of the samples up to the width of the cells."""
    (y, p), (rows, quick) = samples, DISPLAYS[name]
    options = {} if name == "GroupCalibrationDisplay" else quick
    sketch = ForecastSketch([0, 1]).partial_fit(y, p, by=rows.get("by"))
    display = of(name, "from_sketch", sketch, **options)
    again = of(name, "from_predictions", sketch, None, **options)
    np.testing.assert_array_equal(drawn(display), drawn(again))
    with pytest.raises(ValueError, match="from_sketch needs a ForecastSketch, got ndarray"):
        of(name, "from_sketch", p)
    if name in ("DecisionCurveDisplay", "MurphyDisplay", "ReliabilityDisplay"):
        exact = of(name, "from_predictions", y, p, **options)
        of_sketch, of_samples = (
            getattr(c.curves[0], "error", c.curves[0]).estimate for c in (display, exact)
        )
        np.testing.assert_allclose(of_sketch, of_samples, atol=0.01)


@pytest.mark.parametrize("name", DISPLAYS)
def test_out_of_fold_probabilities_are_those_of_cross_val_predict(name, samples):
    (y, _), (rows, quick) = samples, DISPLAYS[name]
    X = np.random.default_rng(0).standard_normal((400, 2)) + y[:, None]
    weight = {"sample_weight": 1.0 + np.arange(400) % 2}
    proba = cross_val_predict(GaussianNB(), X, y, cv=3, method="predict_proba", params=weight)
    options = {**rows, **quick, **weight}
    display = of(name, "from_estimator", GaussianNB(), X, y, cv=3, **options)
    expected = of(name, "from_predictions", y, proba, **options)
    np.testing.assert_allclose(drawn(display), drawn(expected), rtol=1e-9, atol=1e-12)
    assert getattr(display, "name", None) in (None, "GaussianNB")


@pytest.mark.parametrize("name", DISPLAYS)
def test_weights_and_the_event_reach_every_constructor(name, samples):
    """Forecasts of the other class are those of this one, with columns and labels turned."""
    (y, p), (rows, quick) = samples, DISPLAYS[name]
    options = {**rows, **quick, "sample_weight": np.random.default_rng(0).uniform(0.5, 2, 400)}
    expected = drawn(of(name, "from_predictions", 1 - y, p[:, ::-1], **options))
    words, options = np.array(["no", "yes"])[y], {**options, "pos_label": "no"}
    fitted = of(name, "from_estimator", known(p, words), p, words, **options)
    for display in (of(name, "from_predictions", words, p, **options), fitted):
        np.testing.assert_allclose(drawn(display), expected, rtol=1e-6, atol=1e-9)
    with pytest.raises(NotFittedError, match=f"{name} with cv=None needs a fitted"):
        of(name, "from_estimator", GaussianNB(), p, y, **{**rows, **quick})


@pytest.mark.parametrize("name", DISPLAYS)
def test_signatures_and_docstrings_follow(name, samples):
    """A constructor of its own has the options of `from_predictions`, and no unknown ones."""
    cls, (y, p) = getattr(skcalib.displays, name), samples
    rows = DISPLAYS[name][0]
    sketch = ForecastSketch([0, 1]).partial_fit(y, p, by=rows.get("by"))
    arguments = {"from_estimator": (known(p, y), p, y), "from_sketch": (sketch,)}
    written = inspect.signature(cls.from_predictions).parameters
    for constructor in arguments.keys() & vars(cls).keys():
        taken = inspect.signature(getattr(cls, constructor)).parameters
        others = {"y_true", "y_proba", "X", "by", "labels"}
        if constructor == "from_sketch":
            others |= {"notion", "sample_weight", "pos_label", "groups", "intersections"}
        assert written.keys() - taken.keys() <= others
        for option in written.keys() & taken.keys() - {"sample_weight", "X"}:
            assert written[option].default == taken[option].default
    for constructor, values in arguments.items():
        options = rows if constructor == "from_estimator" else {}
        if hasattr(cls, constructor):
            with pytest.raises(TypeError, match="unknown"):
                getattr(cls, constructor)(*values, unknown=1, **options)


def test_a_subclass_inherits_constructors(samples):
    y, p = samples
    subclass = type("Own", (skcalib.ReliabilityDisplay,), {})
    for display in (subclass.from_predictions(y, p), subclass.from_estimator(known(p, y), p, y)):
        assert type(display) is subclass


def test_several_labels_need_a_fitted_classifier(samples):
    """Probabilities of labels have no columns of classes, and there are no folds of them."""
    y = np.random.default_rng(0).integers(2, size=(60, 2))
    y[:2] = [[0, 1], [1, 0]]

    class Labels(IdentityRecalibrator):
        classes_ = [np.arange(2)] * 2

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.4)

    model = Labels()
    display = skcalib.ReliabilityDisplay.from_estimator(model, y, y, notion=Multilabel(), band=None)
    assert len(display.curves) == 2
    with pytest.raises(ValueError, match="leave out cv"):
        skcalib.ReliabilityDisplay.from_estimator(model, y, y, notion=Multilabel(), cv=3)
