"""The line of code that a report recommends runs without a warning, and does what is right."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib
from skcalib import CalibrationReport, ComparisonReport, ForecastSketch, RecalibratedClassifierCV
from skcalib.report.advice import RECALIBRATOR_NAMES, line_of_code


class LinearDiscriminant(ClassifierMixin, BaseEstimator):
    """Decision values of another scale and origin than the log odds."""

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def decision_function(self, X):
        return 4 * self.inner_.decision_function(X) + 10


SIZES = {"n_features": 3, "n_informative": 3, "n_redundant": 0, "class_sep": 0.6}
X, Y = make_classification(1800, random_state=1, **SIZES)
X = np.hstack([X, X, X])  # a naive model counts each feature three times
PARTS = {"train": slice(600), "new": slice(600, 1200), "test": slice(1200, 1800)}
X_TEST, Y_TEST = X[PARTS["test"]], Y[PARTS["test"]]
MODELS = {
    "classifier": GaussianNB(),
    "Pipeline": make_pipeline(StandardScaler(), GaussianNB()),
    "decision values": LinearDiscriminant(),
}


def values_of(model):
    return getattr(model, "predict_proba", getattr(model, "decision_function", None))(X_TEST)


def line_of(text):
    """The line of code of a report."""
    (line,) = re.findall(r"^  (\S.*\.fit\w*\(.*\).*)$", text, re.MULTILINE)
    return line


def run(line, **names):
    """What the line gives, with warnings as errors."""
    arrays = {
        f"{letter}_{key}": values[rows] for key, rows in PARTS.items() for letter, values in DATA
    }
    arrays |= {"clone": clone, "FrozenEstimator": FrozenEstimator}
    public = {name: getattr(skcalib, name) for name in skcalib.__all__} | {"skcalib": skcalib}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return eval(line, public | arrays | names)


DATA = (("X", X), ("y", Y))


@pytest.mark.usefixtures("few_maps")
@pytest.mark.parametrize("cv", [None, 3], ids=["held out", "out of fold"])
@pytest.mark.parametrize("kind", MODELS)
def test_line_of_a_classifier(kind, cv):
    """A clone is fitted out of fold: the classifier itself may be fitted already, and remains."""
    model = clone(MODELS[kind]).fit(X[PARTS["train"]], Y[PARTS["train"]])
    expected = values_of(model)
    report = CalibrationReport.from_estimator(model, X_TEST, Y_TEST, cv=cv)
    line = line_of(str(report))
    assert line.startswith("RecalibratedClassifierCV(clone(model), ") and "cv=5" in line
    assert ('response_method="decision_function"' in line) == (kind == "decision values")
    better = run(line, model=model)
    assert isinstance(better, RecalibratedClassifierCV) and better.estimator_ is not model
    np.testing.assert_array_equal(values_of(model), expected)
    after = log_loss(Y_TEST, better.predict_proba(X_TEST))
    assert after < report.findings.advice.log_loss["before"] - 0.03


@pytest.mark.usefixtures("few_maps")
def test_line_of_a_frozen_classifier():
    """It cannot be fitted again, and its training data would give a wrong map."""
    model = FrozenEstimator(GaussianNB().fit(X[PARTS["train"]], Y[PARTS["train"]]))
    line = line_of(str(CalibrationReport.from_estimator(model, X_TEST, Y_TEST)))
    assert line.endswith(".fit(X_new, y_new)") and "clone" not in line
    better = run(line, model=model)
    assert better.estimator_ is model
    loss = [log_loss(Y_TEST, classifier.predict_proba(X_TEST)) for classifier in (model, better)]
    assert loss[1] < loss[0] - 0.03


def forecasts(kind):
    """Labels, forecasts and options of a report."""
    model = GaussianNB().fit(X[PARTS["train"]], Y[PARTS["train"]])
    p = model.predict_proba(X_TEST)[:, 1]
    if kind == "first class":
        return np.array(["sick", "well"])[1 - Y_TEST], p, {"pos_label": "sick"}
    if kind == "order of columns":
        return Y_TEST, np.column_stack([p, 1 - p]), {"labels": [1, 0]}
    if kind == "three classes":
        three, label = make_classification(1500, n_classes=3, random_state=0, **SIZES)
        bayes = GaussianNB().fit(three[:300], label[:300])
        proba = bayes.predict_proba(three[300:]) ** 4
        return label[300:], proba / proba.sum(axis=1, keepdims=True), {}
    return Y_TEST, p, {}


@pytest.mark.usefixtures("few_maps")
@pytest.mark.parametrize(
    "kind", ["one column", "first class", "order of columns", "three classes", "sketch"]
)
def test_line_of_predictions(kind):
    y, proba, options = forecasts(kind)
    if kind == "sketch":
        sketch = ForecastSketch([0, 1]).fit(y, proba)
        line = line_of(str(CalibrationReport.from_sketch(sketch)))
        recalibrated = run(line, sketch=sketch, new_proba=proba)
        assert "fit_sketch" in line
    else:
        line = line_of(str(CalibrationReport.from_predictions(y, proba, **options)))
        recalibrated = run(line, y_true=y, y_proba=proba, new_proba=proba)
    classes = options.get("labels", [0, 1, 2] if kind == "three classes" else [0, 1])
    if kind == "first class":
        classes = ["well", "sick"]
    order = [classes.index(label) for label in sorted(classes)]
    forecast = proba if proba.ndim == 2 else np.column_stack([1 - proba, proba])
    before, after = (
        log_loss(y, p[:, order], labels=sorted(classes)) for p in (forecast, recalibrated)
    )
    assert after < before - 0.03


@pytest.mark.parametrize("name", sorted({*RECALIBRATOR_NAMES} - {"StackedRecalibrator"}))
def test_line_of_each_map(name):
    """Every map that a report can recommend, apart from the mixture, which takes seconds."""
    y, p = (values[:200] for values in forecasts("one column")[:2])
    few = {"X_train": X[:200], "y_train": Y[:200], "model": GaussianNB()}
    assert run(line_of_code(name, "predict_proba"), **few).predict_proba(X_TEST).shape == (600, 2)
    assert run(line_of_code(name, "predictions"), y_true=y, y_proba=p, new_proba=p).max() <= 1
    if hasattr(getattr(skcalib.recalibration, name), "fit_sketch"):
        sketch = ForecastSketch([0, 1]).fit(y, p)
        recalibrated = run(line_of_code(name, "canonical"), sketch=sketch, new_proba=p)
        assert recalibrated.shape == (200, 2)


@pytest.mark.usefixtures("few_maps", "words_only")
def test_lines_of_the_command(here, printed):
    y, p, _ = forecasts("one column")
    np.savetxt("p.csv", np.column_stack([y, p]), delimiter=",", header="label,p", comments="")
    line = line_of(printed(["report", "p.csv"]).out)
    recalibrated = run(line, y_true=y, y_proba=p, new_proba=p)
    assert recalibrated.shape == (len(y), 2)


@pytest.mark.usefixtures("few_maps")
def test_a_comparison_recommends_no_line():
    y, p = (values[:60] for values in forecasts("one column")[:2])
    report = ComparisonReport.from_predictions(y, {"a": p, "b": p**2})
    assert ".fit(" not in report.to_text(details=True)
