"""Watching a model over time: tests and alarms that may be looked at after every sample."""

from skcalib.monitoring.sequential import Evidence, SequentialCalibrationTest

__all__ = ["Evidence", "SequentialCalibrationTest"]
