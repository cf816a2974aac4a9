"""Labels -1 of semi-supervised classifiers mean no label: they are no class of a calibration."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

import skcalib as s

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = (X[:, 0] + RNG.normal(size=200) > 0).astype(int)
UNLABELLED = np.where(np.arange(200) < 30, -1, Y)
SELF = SelfTrainingClassifier(LogisticRegression())
MODELS = {
    "self-training": SELF,
    "pipeline": make_pipeline(StandardScaler(), SELF),
    "search": GridSearchCV(SELF, {"threshold": [0.7]}, cv=2),
    "propagation": LabelPropagation(),
    "spreading": LabelSpreading(),
}
CALLS = {
    "recalibrated": lambda model, y: s.RecalibratedClassifierCV(model).fit(X, y),
    "out of fold": lambda model, y: s.CrossFitProba(model).fit_transform(X, y),
    "transformer": lambda model, y: s.CrossFitProba(model).fit(X, y),
    "error": lambda model, y: s.CalibrationErrorEstimator(model, cv=3).fit(X, y),
    "report": lambda model, y: s.CalibrationReport.from_estimator(model, X, y, cv=3),
    "display": lambda model, y: s.ReliabilityDisplay.from_estimator(model, X, y, cv=3),
}
REFUSED = "y is -1 in 30 of 200 samples, which are unlabelled for .*: pass labelled samples only"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_unlabelled_samples(model, call):
    with pytest.raises(ValueError, match=REFUSED):
        call(model, UNLABELLED)
    fitted = FrozenEstimator(clone(model).fit(X, UNLABELLED))
    with pytest.raises(ValueError, match=REFUSED):
        call(fitted, UNLABELLED)


@pytest.mark.filterwarnings("ignore:y contains no unlabeled samples")
def test_labelled_samples():
    """The way that the message names; -1 is a class of other classifiers."""
    fitted = FrozenEstimator(clone(SELF).fit(X, UNLABELLED))
    for model in (SELF, fitted):
        assert s.RecalibratedClassifierCV(model).fit(X, Y).classes_.tolist() == [0, 1]
    signs = 2 * Y - 1
    assert s.RecalibratedClassifierCV().fit(X, signs).classes_.tolist() == [-1, 1]
