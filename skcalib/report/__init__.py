"""Reports on the calibration of one or several models."""

from skcalib.report.report import CalibrationReport, ComparisonReport

__all__ = ["CalibrationReport", "ComparisonReport"]
