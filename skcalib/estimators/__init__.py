"""Estimators: errors of classifiers, and recalibrated classifiers."""

from skcalib.estimators.calibration_error import CalibrationErrorEstimator
from skcalib.estimators.recalibrated import CrossFitProba, RecalibratedClassifierCV

__all__ = ["CalibrationErrorEstimator", "CrossFitProba", "RecalibratedClassifierCV"]
