"""Regression: can you trust the variances of your regressor, and how to repair them."""

from skcalib.regression.kernel import (
    kernel_calibration_error_gaussian,
    kernel_calibration_test_gaussian,
)
from skcalib.regression.recalibrated import RecalibratedRegressorCV
from skcalib.regression.reliability import VarianceReliability, variance_reliability
from skcalib.regression.scaling import VarianceScaling
from skcalib.regression.scores import dawid_sebastiani_score

__all__ = [
    "RecalibratedRegressorCV",
    "VarianceReliability",
    "VarianceScaling",
    "dawid_sebastiani_score",
    "kernel_calibration_error_gaussian",
    "kernel_calibration_test_gaussian",
    "variance_reliability",
]
