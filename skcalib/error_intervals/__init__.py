"""Confidence intervals of every error of the library."""

from skcalib.error_intervals._record import ErrorInterval
from skcalib.error_intervals.interval import calibration_error_interval

__all__ = ["ErrorInterval", "calibration_error_interval"]
