"""Objects that are not fitted, or of another kind: a sentence wherever an estimator comes in."""

import inspect
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib as s
from skcalib import scorers, smoothers
from skcalib.export import to_json, to_onnx
from skcalib.grouping import grouping_improvement

RNG = np.random.default_rng(0)
N = 60
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
X = RNG.normal(size=(N, 3)) + Y[:, None]
MODEL = GaussianNB()
REGRESSION = s.regression.RecalibratedRegressorCV

#: Not fitted: names of what each is for, and an object.
UNFITTED = {
    "map": s.PlattScaling(),
    "map of parts": s.StackedRecalibrator(),
    "map of features": s.GroupRecalibrator(),
    "map of labels": s.MultilabelRecalibrator(),
    "pipeline of maps": make_pipeline(s.TemperatureScaling(), s.PlattScaling()),
    "search of a map": GridSearchCV(s.PlattScaling(), {"loss": ["log", "brier"]}),
    "frozen map": FrozenEstimator(s.PlattScaling()),
    "classifier": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "frozen classifier": FrozenEstimator(LogisticRegression()),
    "recalibrated classifier": s.RecalibratedClassifierCV(),
    "inspector": s.CalibrationErrorEstimator(),
    "monitor": s.CalibrationMonitor(),
}
#: Neither maps of probabilities nor classifiers, and no parts of any.
FOREIGN = {
    "class": s.TemperatureScaling,
    "isotonic": IsotonicRegression(),
    "fitted isotonic": IsotonicRegression().fit(P, Y),
    "fitted regressor": Ridge().fit(X, Y),
    "fitted scaler": StandardScaler().fit(X),
    "fitted clusters": KMeans(2, n_init=1, random_state=0).fit(X),
    "object": object(),
    "function": len,
    "text": "no such name",
    "number": 5,
}
#: Classifiers of features, where a map of probabilities is needed.
OF_FEATURES = {
    "fitted classifier": LogisticRegression().fit(X, Y),
    "fitted recalibrated classifier": s.RecalibratedClassifierCV(MODEL, "platt").fit(X, Y),
}
FITTED = OF_FEATURES["fitted classifier"]


def of_display(name):
    """A display of an estimator on held-out data."""
    options = {"GroupCalibrationDisplay": {"by": np.resize(["a", "b"], N)}}.get(name, {})
    return lambda estimator: getattr(s.displays, name).from_estimator(estimator, X, Y, **options)


def place_of(name):
    """A display as the reference calls it."""
    return name if name in s.__all__ else f"displays.{name}"


#: Parameters that take a fitted recalibrator, with a call.
FITTED_MAPS = {
    "calibration_improvement.after": lambda estimator: s.calibration_improvement(Y, P, estimator),
    "grouping.grouping_improvement.after": lambda estimator: grouping_improvement(
        Y, P, estimator, X
    ),
    "export.to_json.recalibrator": to_json,
    "RecalibrationDisplay.from_recalibrator.recalibrator": (
        lambda estimator: s.RecalibrationDisplay.from_recalibrator(estimator, P)
    ),
    "RecalibrationDisplay.from_recalibrators.recalibrators": (
        lambda estimator: s.RecalibrationDisplay.from_recalibrators([estimator], P)
    ),
}
#: Those that take a fitted classifier.
FITTED_CLASSIFIERS = {
    "export.to_onnx.model": to_onnx,
    "RecalibrationDisplay.from_estimator.estimator": (
        lambda estimator: s.RecalibrationDisplay.from_estimator(estimator, X)
    ),
    **{
        f"{place_of(name)}.from_estimator.estimator": of_display(name)
        for name in s.displays.__all__
        if name not in ("RecalibrationDisplay", "MonitorDisplay")
    },
    "DecompositionDisplay.from_estimators.estimators": (
        lambda estimator: s.DecompositionDisplay.from_estimators([estimator], X, Y)
    ),
    "CalibrationReport.from_estimator.estimator": (
        lambda estimator: s.CalibrationReport.from_estimator(estimator, X, Y)
    ),
    "ComparisonReport.from_estimators.estimators": (
        lambda estimator: s.ComparisonReport.from_estimators({"a": estimator, "b": estimator}, X, Y)
    ),
    "CalibrationErrorEstimator.estimator": lambda estimator: s.CalibrationErrorEstimator(
        estimator
    ).fit(X, Y),
    "GroupingLossEstimator.estimator": lambda estimator: s.GroupingLossEstimator(estimator).fit(
        X, Y
    ),
    "get_scorer": lambda estimator: s.get_scorer("neg_calibration_error")(estimator, X, Y),
}
#: Those that take another fitted object.
FITTED_OTHERS = {
    "GroupingDisplay.from_grouping_estimator.estimator": (
        s.GroupingDisplay.from_grouping_estimator
    ),
    "displays.MonitorDisplay.from_test.test": s.displays.MonitorDisplay.from_test,
}
#: Those that take what is then fitted.
TRAINED = {
    "decision_regret.model": lambda estimator: s.decision_regret(
        Y, P, threshold=0.3, X=X, model=estimator
    ),
    "RecalibratedClassifierCV.estimator": (
        lambda estimator: s.RecalibratedClassifierCV(estimator, "platt", cv=2).fit(X, Y)
    ),
    "RecalibratedClassifierCV.recalibrator": (
        lambda estimator: s.RecalibratedClassifierCV(MODEL, estimator, cv=2).fit(X, Y)
    ),
    "RecalibratedClassifierCV.candidates": (
        lambda estimator: s.RecalibratedClassifierCV(
            MODEL, "select", candidates=[estimator], cv=2
        ).fit(X, Y)
    ),
    "CrossFitProba.estimator": lambda estimator: s.CrossFitProba(estimator, cv=2).fit(X, Y),
    "GroupingLossEstimator.partitioner": (
        lambda estimator: s.GroupingLossEstimator(MODEL, cv=2, partitioner=estimator).fit(X, Y)
    ),
    "GroupRecalibrator.recalibrator": (
        lambda estimator: s.GroupRecalibrator(estimator).fit(P, Y, features=X)
    ),
    "MultilabelRecalibrator.recalibrator": (
        lambda estimator: s.MultilabelRecalibrator(estimator).fit(P[:, None], Y[:, None])
    ),
    "StackedRecalibrator.candidates": (
        lambda estimator: s.StackedRecalibrator(candidates=[estimator]).fit(P, Y)
    ),
    "regression.RecalibratedRegressorCV.estimator": lambda estimator: REGRESSION(
        estimator, cv=2
    ).fit(X, Y * 1.0),
    "regression.RecalibratedRegressorCV.recalibrator": lambda estimator: REGRESSION(
        None, estimator
    ).fit(X, Y * 1.0),
    "RecalibrationDisplay.from_predictions.recalibrator": (
        lambda estimator: s.RecalibrationDisplay.from_predictions(Y, P, recalibrator=estimator)
    ),
    "smoothers.CrossFitted.estimator": (
        lambda estimator: smoothers.CrossFitted(estimator).fit(np.c_[1 - P, P], Y[:, None]).smooth()
    ),
    "GroupingDisplay.from_predictions.partitioner": (
        lambda estimator: s.GroupingDisplay.from_predictions(Y, P, X, partitioner=estimator)
    ),
    "GroupingDisplay.from_estimator.partitioner": (
        lambda estimator: s.GroupingDisplay.from_estimator(FITTED, X, Y, partitioner=estimator)
    ),
    "DecompositionDisplay.from_predictions.grouping": (
        lambda estimator: s.DecompositionDisplay.from_predictions(Y, P, X, grouping=estimator)
    ),
    "DecompositionDisplay.from_estimators.grouping": (
        lambda estimator: s.DecompositionDisplay.from_estimators([FITTED], X, Y, grouping=estimator)
    ),
    "theory.evaluate_supersample.estimator": (
        lambda estimator: s.theory.evaluate_supersample(estimator, X, Y, n_draws=1, random_state=0)
    ),
    "scorers.DecompositionScorer.recalibrator": (
        lambda estimator: scorers.DecompositionScorer(recalibrator=estimator)(FITTED, X, Y)
    ),
    "scorers.RefinementScorer.recalibrator": (
        lambda estimator: scorers.RefinementScorer(recalibrator=estimator)(FITTED, X, Y)
    ),
}
#: Those that take classifiers or maps of probabilities only.
STRICT = {
    *("decision_regret.model", "RecalibratedClassifierCV.estimator"),
    *("RecalibratedClassifierCV.recalibrator", "RecalibratedClassifierCV.candidates"),
    *("CrossFitProba.estimator", "GroupRecalibrator.recalibrator"),
    *("MultilabelRecalibrator.recalibrator", "StackedRecalibrator.candidates"),
    "regression.RecalibratedRegressorCV.estimator",
    "RecalibrationDisplay.from_predictions.recalibrator",
    *("theory.evaluate_supersample.estimator", "scorers.DecompositionScorer.recalibrator"),
    "scorers.RefinementScorer.recalibrator",
}
#: Parameters of these names that take something else: arrays, records and names.
NO_ESTIMATORS = {
    *("datasets.make_widmann.model", "risk_models.DecisionRegret.grouping"),
    *("monitoring.Alarm.after", "grouping.SoftLabelDecomposition.grouping"),
    "regression.dawid_sebastiani_improvement.after",
    "testing.check_recalibrator.recalibrator",  # it names the law that an object breaks
}
NAMES = {
    *("recalibrator", "recalibrators", "estimator", "estimators", "classifier", "model", "models"),
    *("after", "candidates", "test", "partitioner", "grouping"),
}
REFERENCE = Path(__file__).parents[2] / "doc" / "api.rst"


def parameters_of(name, thing):
    """Names of the parameters of a function, or of a class and its methods."""
    methods = (
        [key for key in dir(thing) if not key.startswith("_")] if inspect.isclass(thing) else ()
    )
    for where, function in [(name, thing), *((f"{name}.{k}", getattr(thing, k)) for k in methods)]:
        if callable(function) and (getattr(function, "__module__", None) or "").startswith(
            "skcalib"
        ):
            yield from (
                f"{where}.{parameter}" for parameter in inspect.signature(function).parameters
            )


@pytest.mark.skipif(not REFERENCE.exists(), reason="needs the folder doc")
def test_all_parameters_that_take_an_estimator_are_listed():
    public = re.findall(r"^   ([\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.M)
    parameters = {
        parameter
        for name in public
        for parameter in parameters_of(name, attrgetter(name)(s))
        if parameter.rpartition(".")[2] in NAMES
    }
    tables = FITTED_MAPS | FITTED_CLASSIFIERS | FITTED_OTHERS | TRAINED
    assert parameters == (tables.keys() - {"get_scorer"}) | NO_ESTIMATORS


def assert_refused(call, estimator, where):
    """It raises a sentence of a ValueError, of which `NotFittedError` is one."""
    with pytest.raises(ValueError) as caught:
        call(estimator)
    assert type(caught.value) in (ValueError, NotFittedError), f"{where}: {caught.value!r}"
    assert len(str(caught.value).split()) > 5, f"{where}: {caught.value}"


@pytest.mark.parametrize("place", FITTED_MAPS | FITTED_CLASSIFIERS | FITTED_OTHERS)
def test_what_is_not_fitted_or_of_another_kind(place):
    call = (FITTED_MAPS | FITTED_CLASSIFIERS | FITTED_OTHERS)[place]
    for name, estimator in (
        UNFITTED | FOREIGN | (OF_FEATURES if place in FITTED_MAPS else {})
    ).items():
        assert_refused(
            call, estimator if isinstance(estimator, type) else clone(estimator, safe=False), name
        )


@pytest.mark.parametrize("place", TRAINED)
def test_what_cannot_be_trained(place):
    """Scalers, clusters and regressors are what some parameters take."""
    for name in ("class", "object", "function", "text", "number"):
        assert_refused(TRAINED[place], FOREIGN[name], name)
    for estimator in FOREIGN.values() if place in STRICT else ():
        assert_refused(TRAINED[place], estimator, estimator)


def test_the_advice_is_right():
    """Out-of-fold probabilities of the map, as the message says; features need no such call."""
    with pytest.raises(NotFittedError, match="This PlattScaling is not fitted") as caught:
        s.calibration_improvement(Y, P, s.PlattScaling())
    (line,) = re.findall(r"as after, (.*)\.$", str(caught.value))
    names = {"cross_val_predict": cross_val_predict, "recalibrator": s.PlattScaling()}
    after = eval(line, names | {"before": P, "y_true": Y})
    improvement = s.calibration_improvement(Y, P, after, injective=True)
    expected = cross_val_predict(s.PlattScaling(), P, Y, cv=5, method="predict_proba")
    assert improvement == s.calibration_improvement(Y, P, expected, injective=True)
    with pytest.raises(NotFittedError, match="held-out probabilities and labels first.$"):
        grouping_improvement(Y, P, s.GroupRecalibrator(), X)


@pytest.mark.parametrize("call", [s.calibration_improvement, grouping_improvement])
def test_maps_of_other_things_than_probabilities_of_classes(call):
    """Their answers would be numbers, and wrong."""
    features = () if call is s.calibration_improvement else (X,)
    both, logits = np.column_stack([1 - P, P]), np.log(np.column_stack([1 - P, P]))
    scaling = s.TemperatureScaling(input="logits").fit(logits, Y)
    labels = s.MultilabelRecalibrator().fit(both, np.column_stack([1 - Y, Y]))
    for after, words in (
        (scaling, "takes logits, but before are probabilities"),
        (make_pipeline(scaling, s.PlattScaling()).fit(logits, Y), "takes logits"),
        (labels, "maps the probabilities of several labels"),
    ):
        with pytest.raises(ValueError, match=words):
            call(Y, both, after, *features)
    inner = labels.recalibrators_[1]
    improvement = s.calibration_improvement(Y, P, inner)
    assert improvement == s.calibration_improvement(Y, P, inner.predict_proba(P), injective=True)


def test_a_search_declares_what_its_best_map_does():
    search = GridSearchCV(s.PlattScaling(), {"loss": ["log", "brier"]}).fit(P, Y)
    improvement = s.calibration_improvement(Y, P, search)
    assert improvement.injective is True
    assert improvement == s.calibration_improvement(Y, P, search.best_estimator_)


def test_weights_of_a_model_that_takes_them_in_a_step():
    """A Pipeline passes them on, and a model without weights says so."""
    weight = np.resize([1.0, 2.0], N)
    options = {"threshold": 0.3, "X": X, "sample_weight": weight, "random_state": 0}
    model = LogisticRegression()
    alone = s.decision_regret(Y, P, **options, model=model)
    assert str(alone) == str(s.decision_regret(Y, P, **options, model=make_pipeline(model)))
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        s.decision_regret(Y, P, **options, model=KNeighborsClassifier())


def test_maps_of_moments_return_moments():
    """A scaler returns variances that are negative, and clusters distances."""
    for estimator in (StandardScaler(), KMeans(3, n_init=1, random_state=0)):
        with pytest.raises(ValueError, match="must return a mean and a positive variance"):
            REGRESSION(None, estimator).fit(X, Y * 1.0)


def test_methods_of_what_is_not_fitted():
    with pytest.raises(NotFittedError):
        s.recalibration.DiagonalOrderPreserving().transform_logits([0.0, 1.0])
