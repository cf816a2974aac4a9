"""Regression: evaluate the calibration of forecast variances, and recalibrate them."""

from skcalib.regression.evaluation import (
    VarianceReliability,
    dawid_sebastiani_improvement,
    dawid_sebastiani_score,
    kernel_calibration_error_gaussian,
    kernel_calibration_test_gaussian,
    variance_reliability,
)
from skcalib.regression.scaling import RecalibratedRegressorCV, VarianceScaling

__all__ = [
    "RecalibratedRegressorCV",
    "VarianceReliability",
    "VarianceScaling",
    "dawid_sebastiani_improvement",
    "dawid_sebastiani_score",
    "kernel_calibration_error_gaussian",
    "kernel_calibration_test_gaussian",
    "variance_reliability",
]
