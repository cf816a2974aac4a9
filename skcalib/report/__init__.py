"""The report: from probabilities to a verdict."""

from skcalib.report.comparison import ComparisonReport
from skcalib.report.report import CalibrationReport

__all__ = ["CalibrationReport", "ComparisonReport"]
