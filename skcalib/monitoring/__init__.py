"""Monitoring of a model over time: tests, alarms, and the performance expected without labels."""

from skcalib.monitoring._records import Alarm, Window
from skcalib.monitoring._streams import Evidence
from skcalib.monitoring.monitor import CalibrationMonitor
from skcalib.monitoring.sequential import SequentialCalibrationTest
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
