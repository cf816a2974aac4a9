"""Estimators: errors of classifiers, recalibrated classifiers, and the choice of a recalibrator."""

from skcalib.estimators.calibration_error import CalibrationErrorEstimator
from skcalib.estimators.crossfit import CrossFitProba
from skcalib.estimators.recalibrated import RecalibratedClassifierCV
from skcalib.estimators.selection import RecalibratorSelection

__all__ = [
    "CalibrationErrorEstimator",
    "CrossFitProba",
    "RecalibratedClassifierCV",
    "RecalibratorSelection",
]
