"""Monitoring of a model over time: tests, alarms, and the performance expected without labels."""

from skcalib.monitoring.monitor import Alarm, CalibrationMonitor, Window
from skcalib.monitoring.sequential import Evidence, SequentialCalibrationTest
from skcalib.monitoring.without_labels import ExpectedPerformance, expected_performance

__all__ = [
    "Alarm",
    "CalibrationMonitor",
    "Evidence",
    "ExpectedPerformance",
    "SequentialCalibrationTest",
    "Window",
    "expected_performance",
]
