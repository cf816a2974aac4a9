"""Watching a model over time: tests and alarms that may be looked at after every sample."""

from skcalib.monitoring._records import Alarm, Window
from skcalib.monitoring._streams import Evidence
from skcalib.monitoring.monitor import CalibrationMonitor
from skcalib.monitoring.sequential import SequentialCalibrationTest

__all__ = ["Alarm", "CalibrationMonitor", "Evidence", "SequentialCalibrationTest", "Window"]
