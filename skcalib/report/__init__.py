"""The report: from probabilities to a verdict."""

from skcalib.report.report import CalibrationReport, ComparisonReport

__all__ = ["CalibrationReport", "ComparisonReport"]
