"""Decision values of any scale: all numbers are those at scale 1."""

import warnings
from functools import partial

import numpy as np
import pytest
from public_estimators import RECALIBRATORS
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneOut, RepeatedStratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import skcalib as s
from skcalib.scorers import ProbaScorer

SCALES = [1e-300, 1e-6, 1e-3, 1e3, 1e6, 1e9, 1e300]
close = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)


class Margin(ClassifierMixin, BaseEstimator):
    """Its features are its decision values, in some unit and with some offset."""

    def __init__(self, scale=1.0, offset=0.0):
        self.scale = scale
        self.offset = offset

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def decision_function(self, X):
        values = X[:, 0] if len(self.classes_) == 2 else X
        return self.scale * (np.asarray(values) + self.offset)


def samples(n_classes, n_samples=240, seed=0):
    """Decision values and labels; of two classes y ~ expit(2 x)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 1 if n_classes == 2 else n_classes))
    chance = softmax(2 * (np.hstack([0 * X, X]) if n_classes == 2 else X), axis=1)
    y = (rng.random((n_samples, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    return X, np.minimum(y, n_classes - 1)


def quick(kind):
    shrunken = s.VectorScaling, s.recalibration.MatrixScaling, s.DirichletCalibration
    return kind(shrinkage=1.0) if kind in shrunken else kind()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", RECALIBRATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_map(kind, n_classes):
    """The forecasts, and so each loss, are those at scale 1."""
    X, y = samples(n_classes)
    fits = (
        s.RecalibratedClassifierCV(Margin(scale), quick(kind), cv=3).fit(X[:160], y[:160])
        for scale in (1.0, 1e-6, 1e9)
    )
    first, *others = (model.predict_proba(X[160:]) for model in fits)
    for probabilities in others:
        np.testing.assert_allclose(probabilities, first, rtol=0, atol=1e-6)


OPTIONS = {
    "folds": {"cv": 3},
    "ensemble": {"cv": 3, "ensemble": True},
    "repeated": {"cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)},
    "one": {"cv": LeaveOneOut()},
    "time": {"cv": TimeSeriesSplit(2)},
    "select": {"cv": 3, "recalibrator": "select"},
    "groups": {"cv": 3, "recalibrator": s.GroupRecalibrator()},
}


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("scale", SCALES)
def test_every_scale(scale, n_classes):
    X, y = samples(n_classes)
    for offset in (0.0, 1e4):
        expected, scaled = (
            s.RecalibratedClassifierCV(Margin(c, offset), "platt", cv=3).fit(X, y).predict_proba(X)
            for c in (1.0, scale)
        )
        close(scaled, expected)


@pytest.mark.parametrize("name", [*OPTIONS, "frozen", "pipeline"])
def test_every_way_to_fit(name):
    X, y = samples(2, 60)
    features = np.column_stack([X, X[::-1]])
    probabilities = []
    for classifier in (Margin(), Margin(1e7)):
        if name == "frozen":
            frozen = FrozenEstimator(classifier.fit(features, y))
            model = s.RecalibratedClassifierCV(frozen, "platt")
        elif name == "pipeline":
            model = make_pipeline(s.CrossFitProba(classifier, cv=3), s.PlattScaling())
        else:
            parameters = {"recalibrator": "platt"} | OPTIONS[name]
            model = s.RecalibratedClassifierCV(classifier, **parameters)
        probabilities.append(model.fit(features, y).predict_proba(features))
    close(probabilities[0], probabilities[1])


WORLDS = [(1, 0), (1e5, 0), (1e-6, 0), (1e5, 1e3)]


def check_world(scale, offset, **parameters):
    """The log loss of the truth is .4546 in expectation; no scale or offset adds one per cent."""
    X, y = samples(2, 6000)
    known, new = slice(3000), slice(3000, None)
    model = s.RecalibratedClassifierCV(Margin(scale, offset), **parameters).fit(X[known], y[known])
    truth = log_loss(y[new], expit(2 * X[new, 0]))
    assert log_loss(y[new], model.predict_proba(X[new])) < 1.01 * truth


@pytest.mark.parametrize(("scale", "offset"), WORLDS)
@pytest.mark.parametrize("ensemble", [False, True])
def test_the_world_of_the_margin(scale, offset, ensemble):
    check_world(scale, offset, ensemble=ensemble, recalibrator=s.PlattScaling())


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "offset"), WORLDS)
@pytest.mark.parametrize("ensemble", [False, True])
def test_the_world_of_the_margin_with_the_default_map(scale, offset, ensemble):
    check_world(scale, offset, ensemble=ensemble)


HEAVY = {
    "sinh 5": lambda z: np.sinh(5 * z),
    "sinh 20": lambda z: 1e-200 * np.sinh(20 * z),
    "power": lambda z: z**9,
    "one-sided": lambda z: 1e9 * np.exp(5 * z),
}


class Curved(Margin):
    """Its decision values are an increasing function of its features."""

    def __init__(self, curve="power"):
        self.curve = curve

    def decision_function(self, X):
        values = HEAVY[self.curve](np.asarray(X))
        return values[:, 0] if len(self.classes_) == 2 else values


RANKS = {
    "platt": s.PlattScaling(),
    "beta": s.BetaCalibration(),
    "quadratic": s.recalibration.QuadraticScaling(),
    "spline": s.SplineScaling(),
    "kernel": s.recalibration.KernelRecalibrator(),
    "average": s.recalibration.ModelAverageScaling(),
    "Venn-Abers": s.VennAbersRecalibrator(),
    "isotonic": s.IsotonicRecalibrator(strict=True),
    "histogram": s.HistogramBinning(),
}


@pytest.mark.parametrize("cv", [3, None])
@pytest.mark.parametrize("curve", HEAVY)
def test_heavy_tails(curve, cv):
    """Every map comes close to the truth, whose log loss is .528."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(3000, 1)), rng.normal(size=(5000, 1))
    y, truth = (rng.random(3000) < expit(2 * X[:, 0])).astype(int), expit(2 * new[:, 0])
    classifier = Curved(curve) if cv else FrozenEstimator(Curved(curve).fit(X, y))
    labels, weight = np.repeat([0, 1], len(new)), np.concatenate([1 - truth, truth])
    best = log_loss(labels, np.tile(truth, 2), sample_weight=weight)
    for name, recalibrator in RANKS.items():
        model = s.RecalibratedClassifierCV(classifier, recalibrator, cv=cv).fit(X, y)
        forecast = model.predict_proba(new)[:, 1]
        excess = log_loss(labels, np.tile(forecast, 2), sample_weight=weight) - best
        assert excess < (0.015 if name == "kernel" else 0.006), (name, excess)


@pytest.mark.parametrize("curve", HEAVY)
def test_heavy_tails_of_three_classes(curve):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    truth = softmax(2 * X, axis=1)
    y = (rng.random((6000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    model = s.RecalibratedClassifierCV(Curved(curve), "temperature", cv=2).fit(X[:3000], y[:3000])
    forecast, truth = model.predict_proba(X[3000:]), truth[3000:]
    assert np.sum(truth * np.log(truth / forecast), axis=1).mean() < 0.005


@pytest.mark.parametrize("curve", HEAVY)
def test_heavy_tails_with_the_classes_swapped(curve):
    X, y = samples(2, 400)
    model = s.RecalibratedClassifierCV(Curved(curve), "platt", cv=3).fit(X, y)
    swapped = Curved(curve)
    swapped.decision_function = lambda X: -Curved.decision_function(swapped, X)
    models = [FrozenEstimator(classifier.fit(X, y)) for classifier in (Curved(curve), swapped)]
    fits = zip(models, (y, 1 - y), strict=True)
    recalibrated = [s.RecalibratedClassifierCV(m, "platt").fit(X, labels) for m, labels in fits]
    close(recalibrated[1].predict_proba(X)[:, ::-1], recalibrated[0].predict_proba(X))
    assert np.abs(model.predict_proba(X) - recalibrated[0].predict_proba(X)).max() < 0.05


def test_new_rows_do_not_change_the_scale():
    X, y = samples(2)
    model = s.RecalibratedClassifierCV(Margin(1e4), "platt", cv=3).fit(X, y)
    all_rows, scale = model.predict_proba(X), model.responses_[0].scale
    close(np.vstack([model.predict_proba(X[k : k + 1]) for k in range(5)]), all_rows[:5])
    assert model.responses_[0].scale is scale and scale.unit > 1e3
    assert np.isfinite(model.predict_proba(np.array([[1e300], [-1e300]]))).all()


def test_rows_without_weight_do_not_change_the_scale():
    X, y = samples(2)
    outside, weight = np.vstack([X, 1e3 + X]), np.repeat([1.0, 0.0], len(X))
    model = FrozenEstimator(Margin().fit(X, y))
    alone = s.RecalibratedClassifierCV(model, "platt").fit(X, y)
    weighted = s.RecalibratedClassifierCV(model, "platt").fit(outside, np.tile(y, 2), weight)
    close(weighted.predict_proba(X), alone.predict_proba(X))
    error = s.CalibrationErrorEstimator(model)
    estimate = error.fit(outside, np.tile(y, 2), sample_weight=weight).calibration_error_
    assert estimate == pytest.approx(error.fit(X, y).calibration_error_, rel=1e-9)


EVALUATIONS = {
    "error": lambda m, X, y: s.CalibrationErrorEstimator(m).fit(X, y).calibration_error_,
    "error, cv": lambda m, X, y: s.CalibrationErrorEstimator(m, cv=3).fit(X, y).calibration_error_,
    "grouping": lambda m, X, y: (
        s.GroupingLossEstimator(m, n_permutations=0).fit(X, y).grouping_loss_
    ),
    "report": lambda m, X, y: s.CalibrationReport.from_estimator(m, X, y).to_dict()[
        "typical_error"
    ]["estimate"],
    "scorer": lambda m, X, y: ProbaScorer(s.calibration_error)(m, X, y),
    "display": lambda m, X, y: s.ReliabilityDisplay.from_estimator(m, X, y).curves[0].scores,
}


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_evaluation(name, n_classes):
    X, y = samples(n_classes)
    X = np.hstack([X, X[:, :1] ** 2]) if n_classes == 2 else X
    expected, scaled = (EVALUATIONS[name](Margin(c).fit(X, y), X, y) for c in (1.0, 1e8))
    close(scaled, expected)
    assert np.all(np.isfinite(expected))


UNSCALED = [
    LinearSVC(random_state=0, max_iter=200),
    SGDClassifier(random_state=0),
    RidgeClassifier(),
    SVC(),
]


@pytest.mark.parametrize("classifier", UNSCALED, ids=lambda classifier: type(classifier).__name__)
def test_classifiers_on_unscaled_features(classifier):
    """About as good as the sigmoid of scikit-learn, or much better: folds have other scales."""
    X, y = load_breast_cancer(return_X_y=True)
    known, new = np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 2 == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        losses = [
            log_loss(y[new], model.fit(X[known], y[known]).predict_proba(X[new]))
            for model in (
                s.RecalibratedClassifierCV(classifier, "platt"),
                CalibratedClassifierCV(classifier, ensemble=False),
            )
        ]
    assert losses[0] < losses[1] + 0.03


def test_decision_values_that_are_logits():
    X, y = samples(3)
    for classifier in (
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=3, random_state=0),
    ):
        models = [
            s.RecalibratedClassifierCV(classifier, "platt", cv=3, response_method=method).fit(X, y)
            for method in ("predict_proba", "decision_function")
        ]
        close(*(model.predict_proba(X) for model in models))
        (response,) = models[1].responses_
        assert response.is_logit and response.scale.unit == 1


class Saturated(LogisticRegression):
    """Log odds so far from 0 that single precision rounds many probabilities to 0 and 1."""

    def decision_function(self, X):
        return 40 * np.asarray(X)[:, 0]

    def predict_proba(self, X):
        p = expit(self.decision_function(X).astype(np.float32))
        return np.column_stack([1 - p, p]).astype(np.float64)


@pytest.mark.parametrize("folds", [{"cv": 3}, {"cv": 3, "ensemble": True}, {}])
def test_probabilities_that_saturate(folds):
    X, y = samples(2, 3000)
    known, new = slice(1500), slice(1500, None)
    classifier = Saturated().fit(X, y)
    assert np.mean(classifier.predict_proba(X) == 1) > 0.1
    classifier = Saturated() if folds else FrozenEstimator(classifier)
    losses = {}
    for method in ("auto", "predict_proba"):
        parameters = folds | {"recalibrator": "platt", "response_method": method}
        model = s.RecalibratedClassifierCV(classifier, **parameters).fit(X[known], y[known])
        losses[method] = log_loss(y[new], model.predict_proba(X[new]))
        expected = "decision_function" if method == "auto" else method
        assert {response.method for response in model.responses_} == {expected}
    assert losses["auto"] < 1.01 * log_loss(y[new], expit(2 * X[new, 0])) < losses["predict_proba"]
    plain = s.RecalibratedClassifierCV(LogisticRegression(), "platt", cv=3).fit(X, y)
    assert plain.responses_[0].method == "predict_proba"


def test_the_report_says_what_the_scores_are():
    X, y = samples(2)
    report = s.CalibrationReport.from_estimator(Margin(1e5).fit(X, y), X, y)
    assert "divided by their spread unless they are log odds" in report.verdict


def test_a_display_of_the_map():
    X, y = samples(2)
    model = s.RecalibratedClassifierCV(Margin(1e5), "platt", cv=3).fit(X, y)
    display = s.RecalibrationDisplay.from_estimator(model, X)
    assert 1 < np.std(logit(display.maps[0].scores)) < 3


class Broken(Margin):
    def decision_function(self, X):
        return np.where(X[:, 0] > 2, np.nan, X[:, 0])


class Wide(Margin):
    def decision_function(self, X):
        return np.zeros((len(X), 4))


def test_what_is_refused():
    X, y = samples(3)
    for classifier, words in (
        (
            SVC(decision_function_shape="ovo"),
            "values of pairs of classes: set decision",
        ),
        (Broken(), r"Broken\.decision_function\(X\) has values that are NaN or infinite"),
        (Wide(), r"has shape \(240, 4\), but there are 3 classes: a value of each"),
    ):
        with pytest.raises(ValueError, match=words):
            s.CalibrationErrorEstimator(classifier.fit(X, y)).fit(X, y)
