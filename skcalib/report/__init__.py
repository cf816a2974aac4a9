"""The report: from probabilities to a verdict."""

from skcalib.report.report import CalibrationReport

__all__ = ["CalibrationReport"]
