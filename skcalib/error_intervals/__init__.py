"""Confidence intervals for all calibration errors of the library."""

from skcalib.error_intervals.interval import calibration_error_interval
from skcalib.error_intervals.request import ErrorInterval

__all__ = ["ErrorInterval", "calibration_error_interval"]
