"""Labels that a classifier is not trained on: classes that folds lack, and missing labels."""

import inspect

import numpy as np
import pytest
from public_functions import package_names
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

import skcalib as s

DISPLAYS = [
    display
    for display in package_names().values()
    if inspect.isclass(display)
    and "cv" in inspect.signature(getattr(display, "from_estimator", len)).parameters
]
CALLS = {
    **{
        f"{display.__name__}.from_estimator": lambda model, X, y, cv, display=display: (
            display.from_estimator(model, X, y, cv=cv)
        )
        for display in DISPLAYS
    },
    "ComparisonReport.from_estimators": lambda model, X, y, cv: s.ComparisonReport.from_estimators(
        {"a": model, "b": model}, X, y, cv=cv
    ),
    **{
        kind.__name__: lambda model, X, y, cv, kind=kind: kind(model, cv=cv).fit(X, y)
        for kind in (
            s.CalibrationErrorEstimator,
            s.GroupingLossEstimator,
            s.RecalibratedClassifierCV,
        )
    },
    "CrossFitProba": lambda model, X, y, cv: s.CrossFitProba(model, cv=cv).fit_transform(X, y),
}


def sorted_labels(n_classes, n_samples=120):
    y = np.sort(np.arange(n_samples) % n_classes)
    return np.random.default_rng(0).normal(size=(n_samples, 2)) + y[:, None], y


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_folds_of_sorted_labels(call):
    """Each fold lacks the classes that it tests, whatever the classifier does then."""
    assert len(CALLS) > 8
    for n_classes, model in [(2, GaussianNB()), (2, LogisticRegression()), (3, GaussianNB())]:
        X, y = sorted_labels(n_classes)
        with pytest.raises(ValueError, match=r"training samples of fold 1 of 2 lack the class 0, "):
            call(model, X, y, KFold(2))


@pytest.mark.parametrize("sizes", [(84, 18, 18), (40, 40, 40), (60, 40, 20), (5,) * 24], ids=str)
@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_uneven_sorted_labels(sizes, n_folds):
    """Refused, unless each fold trains on most of the classes that it tests."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(len(y), 1)) + y[:, None]
    folds = list(KFold(n_folds).split(X))
    unknown = np.mean(np.concatenate([~np.isin(y[test], y[train]) for train, test in folds]))
    fitted = s.CalibrationErrorEstimator(GaussianNB(), cv=KFold(n_folds))
    if unknown > 0.1:
        with pytest.raises(ValueError, match="training samples of fold . of . lack the class"):
            fitted.fit(X, y)
    else:
        assert np.isfinite(fitted.fit(X, y).calibration_error_)


def test_a_rare_class_that_a_fold_lacks():
    """It has the probability 0 there, as a class that the classifier has never seen."""
    X, y = sorted_labels(3)
    y[-1] = 3
    for cv in (KFold(4, shuffle=True, random_state=0), LeaveOneOut()):
        fitted = s.CalibrationErrorEstimator(GaussianNB(), cv=cv).fit(X, y)
        assert fitted.classes_.tolist() == [0, 1, 2, 3]
    y[:] = 0
    y[-1] = 1
    with pytest.raises(ValueError, match="training samples of fold . of 5 lack the class 1"):
        s.CalibrationReport.from_estimator(GaussianNB(), X, y, cv=KFold(5))


# --- Labels -1 of semi-supervised classifiers mean no label ---------------------------------------

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(200, 2))
CLASSES = (FEATURES[:, 0] + RNG.normal(size=200) > 0).astype(int)
UNLABELLED = np.where(np.arange(200) < 30, -1, CLASSES)
SELF = SelfTrainingClassifier(LogisticRegression())
MODELS = {
    "self-training": SELF,
    "pipeline": make_pipeline(StandardScaler(), SELF),
    "search": GridSearchCV(SELF, {"threshold": [0.7]}, cv=2),
    "propagation": LabelPropagation(),
    "spreading": LabelSpreading(),
}
FITS = {
    "recalibrated": lambda model, y: s.RecalibratedClassifierCV(model).fit(FEATURES, y),
    "out of fold": lambda model, y: s.CrossFitProba(model).fit_transform(FEATURES, y),
    "transformer": lambda model, y: s.CrossFitProba(model).fit(FEATURES, y),
    "error": lambda model, y: s.CalibrationErrorEstimator(model, cv=3).fit(FEATURES, y),
    "report": lambda model, y: s.CalibrationReport.from_estimator(model, FEATURES, y, cv=3),
    "display": lambda model, y: s.ReliabilityDisplay.from_estimator(model, FEATURES, y, cv=3),
}
REFUSED = "y is -1 in 30 of 200 samples, which are unlabelled for .*: pass labelled samples only"


@pytest.mark.parametrize("call", FITS.values(), ids=FITS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_unlabelled_samples(model, call):
    with pytest.raises(ValueError, match=REFUSED):
        call(model, UNLABELLED)
    fitted = FrozenEstimator(clone(model).fit(FEATURES, UNLABELLED))
    with pytest.raises(ValueError, match=REFUSED):
        call(fitted, UNLABELLED)


@pytest.mark.filterwarnings("ignore:y contains no unlabeled samples")
def test_labelled_samples():
    """The way that the message names; -1 is a class of other classifiers."""
    fitted = FrozenEstimator(clone(SELF).fit(FEATURES, UNLABELLED))
    options = {"recalibrator": "temperature", "cv": 2}
    for model, y in ((SELF, CLASSES), (fitted, CLASSES), (None, 2 * CLASSES - 1)):
        recalibrated = s.RecalibratedClassifierCV(model, **options).fit(FEATURES, y)
        assert recalibrated.classes_.tolist() == np.unique(y).tolist()
