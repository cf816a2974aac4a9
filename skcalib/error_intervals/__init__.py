"""Confidence intervals for all calibration errors of the library."""

from skcalib.error_intervals.interval import ErrorInterval, calibration_error_interval

__all__ = ["ErrorInterval", "calibration_error_interval"]
