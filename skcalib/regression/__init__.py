"""Regression: can you trust the variances of your regressor, and how to repair them."""

from skcalib.regression.recalibrated import RecalibratedRegressorCV
from skcalib.regression.reliability import VarianceReliability, variance_reliability
from skcalib.regression.scaling import VarianceScaling
from skcalib.regression.scores import dawid_sebastiani_score

__all__ = [
    "RecalibratedRegressorCV",
    "VarianceReliability",
    "VarianceScaling",
    "dawid_sebastiani_score",
    "variance_reliability",
]
