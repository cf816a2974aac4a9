"""The methods that are compared: one line each in `METHODS`.

A method is a function without arguments that returns an object with ``fit(P, y)`` for forecasts
(n, K) and labels 0 to K - 1, and ``predict_proba(P)``, as CalArena has them. The other packages
have the settings that their authors recommend, or else their defaults. A method whose package is
missing is skipped, and one for two classes only is judged on those.
"""

from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

#: Of the runs whose rows are published.
VERSIONS = {
    "scikit-learn": "1.9.1",
    "probmetrics": "1.3.0",
    "netcal": "1.4.0",
    "betacal": "1.1.0",
    "venn-abers": "1.5.4",
    "splinecalib": "0.0.13",
}


class TwoClassesOnly(ValueError):
    """The method has no map of more classes: the setting does not count."""


class Unchanged:
    """No recalibration."""

    def fit(self, proba, y):
        return self

    def predict_proba(self, proba):
        return proba


class Ours:
    """A recalibrator of skcalib; it is told the classes, because a sample may lack some."""

    def __init__(self, name, **parameters):
        self.make = getattr(import_module("skcalib"), name)
        self.parameters = parameters

    def fit(self, proba, y):
        self.map_ = self.make(**self.parameters, labels=np.arange(proba.shape[1])).fit(proba, y)
        return self

    def predict_proba(self, proba):
        return self.map_.predict_proba(proba)


class OursSelected:
    """One map of skcalib, which five folds choose by the rule of one standard error."""

    def __init__(self):
        module = import_module("skcalib.recalibration.held_out")
        self.select = module.select_recalibrator

    def fit(self, proba, y):
        classes = np.arange(proba.shape[1])
        rule = StratifiedKFold(min(5, max(2, np.bincount(y).max())), shuffle=True, random_state=0)
        folds = [test for _, test in rule.split(proba, y)]
        _, chosen = self.select(None, proba, y, classes=classes, folds=folds)
        self.map_ = chosen.set_params(labels=classes).fit(proba, y)
        return self

    def predict_proba(self, proba):
        return self.map_.predict_proba(proba)


class Forecasts(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are the forecasts."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, proba, y):
        return self

    def predict_proba(self, proba):
        return proba

    def predict(self, proba):
        return self.classes_[proba.argmax(axis=1)]


class LogOdds(Forecasts):
    """The same, with decision values: the log odds of two classes, else log probabilities."""

    def decision_function(self, proba):
        logs = np.log(np.maximum(proba, np.finfo(float).tiny))
        return logs[:, 1] - logs[:, 0] if self.n_classes == 2 else logs


class ScikitLearn:
    """`CalibratedClassifierCV` of a fitted classifier; all samples fit the map."""

    def __init__(self, method, classifier=Forecasts):
        self.method, self.classifier = method, classifier

    def fit(self, proba, y):
        model = FrozenEstimator(self.classifier(proba.shape[1]))
        every = np.arange(len(y))
        self.map_ = CalibratedClassifierCV(
            model, method=self.method, cv=[(every, every)], ensemble=False
        )
        self.map_.fit(proba, y)
        return self

    def predict_proba(self, proba):
        return self.map_.predict_proba(proba)


class Probmetrics:
    """A calibrator of probmetrics by name, or one class for two classes and one for more."""

    def __init__(self, two, more=None):
        self.module = import_module("probmetrics.calibrators")
        self.maps = self._make(two), self._make(two if more is None else more)

    def fit(self, proba, y):
        self.map_ = self.maps[proba.shape[1] > 2]
        if self.map_ is None:
            raise TwoClassesOnly
        self.map_.fit(proba, y)
        return self

    def predict_proba(self, proba):
        return self.map_.predict_proba(proba)

    def _make(self, name):
        if not name or name[0].isupper():
            return getattr(self.module, name)() if name else None
        return self.module.get_calibrator(name)


class Netcal:
    """A calibration method of netcal."""

    def __init__(self, module, name, **parameters):
        self.map_ = getattr(import_module(f"netcal.{module}"), name)(**parameters)

    def fit(self, proba, y):
        self.map_.fit(self._shaped(proba), y)
        return self

    def predict_proba(self, proba):
        found = self.map_.transform(self._shaped(proba))
        return found if found.ndim == 2 else _both(found)

    def _shaped(self, proba):
        return proba[:, 1] if proba.shape[1] == 2 else proba


class Betacal:
    """Beta calibration of two classes, by its authors."""

    def __init__(self):
        self.map_ = import_module("betacal").BetaCalibration("abm")

    def fit(self, proba, y):
        if proba.shape[1] > 2:
            raise TwoClassesOnly
        self.map_.fit(proba[:, 1], y)
        return self

    def predict_proba(self, proba):
        return _both(self.map_.predict(proba[:, 1]))


class VennAbers:
    """The package venn-abers; its map of more than two classes is one against one."""

    def __init__(self):
        self.map_ = import_module("venn_abers").VennAbersCalibrator()

    def fit(self, proba, y):
        self.data_ = proba, y
        return self

    def predict_proba(self, proba):
        p_cal, y_cal = self.data_
        return self.map_.predict_proba(p_cal=p_cal, y_cal=y_cal, p_test=proba)


class SplineCalib:
    """The package splinecalib."""

    def __init__(self):
        self.map_ = import_module("splinecalib").SplineCalib()

    def fit(self, proba, y):
        self.map_.fit(proba, y)
        return self

    def predict_proba(self, proba):
        return self.map_.calibrate(proba)


def _both(proba):
    return np.column_stack([1 - proba, proba])


#: Name -> function that returns a new method. The first is the one that others are compared with.
METHODS = {
    "skcalib default": lambda: Ours("StackedRecalibrator"),
    "skcalib selected": OursSelected,
    "no recalibration": Unchanged,
    "skcalib model average": lambda: Ours("ModelAverageScaling"),
    "skcalib temperature": lambda: Ours("TemperatureScaling"),
    "skcalib bias-corrected": lambda: Ours("BiasCorrectedTemperatureScaling"),
    "skcalib shift": lambda: Ours("InterceptRecalibrator"),
    "skcalib Platt": lambda: Ours("PlattScaling"),
    "skcalib beta": lambda: Ours("BetaCalibration"),
    "skcalib quadratic": lambda: Ours("QuadraticScaling"),
    "skcalib label noise": lambda: Ours("LabelNoiseScaling"),
    "skcalib vector": lambda: Ours("VectorScaling"),
    "skcalib matrix": lambda: Ours("MatrixScaling"),
    "skcalib isotonic": lambda: Ours("IsotonicRecalibrator"),
    "skcalib strict isotonic": lambda: Ours("IsotonicRecalibrator", strict=True),
    "skcalib spline": lambda: Ours("SplineScaling"),
    "skcalib Venn-Abers": lambda: Ours("VennAbersRecalibrator"),
    "scikit-learn sigmoid": lambda: ScikitLearn("sigmoid"),
    "scikit-learn sigmoid, log odds": lambda: ScikitLearn("sigmoid", LogOdds),
    "scikit-learn isotonic": lambda: ScikitLearn("isotonic"),
    "scikit-learn temperature": lambda: ScikitLearn("temperature"),
    "probmetrics default": lambda: Probmetrics("logistic"),
    "probmetrics default, mixed": lambda: Probmetrics("logistic-mix"),
    "probmetrics temperature": lambda: Probmetrics("temp-scaling"),
    "probmetrics ETS": lambda: Probmetrics("ETSCalibrator"),
    "probmetrics quadratic": lambda: Probmetrics("quadratic-scaling", ""),
    "probmetrics SVS": lambda: Probmetrics("logistic", "svs"),
    "probmetrics vector": lambda: Probmetrics("logistic", "VectorScalingCalibrator"),
    "probmetrics matrix": lambda: Probmetrics("logistic", "MatrixScalingCalibrator"),
    "probmetrics Dirichlet": lambda: Probmetrics("dircal"),
    "netcal temperature": lambda: Netcal("scaling", "TemperatureScaling"),
    "netcal logistic": lambda: Netcal("scaling", "LogisticCalibration"),
    "netcal BBQ": lambda: Netcal("binning", "BBQ"),
    "netcal histogram": lambda: Netcal("binning", "HistogramBinning", bins=10),
    "betacal": Betacal,
    "venn-abers": VennAbers,
    "splinecalib": SplineCalib,
}
#: Not packages of others.
OURS = tuple(name for name in METHODS if name.startswith("skcalib")) + ("no recalibration",)
