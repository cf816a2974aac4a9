"""Displays: scikit-learn style figures. matplotlib is imported only when a figure is drawn."""

from skcalib.displays.decisions import DecisionCurveDisplay, MurphyDisplay
from skcalib.displays.errors import DecompositionDisplay, EstimationDisplay
from skcalib.displays.groups import GroupCalibrationDisplay, GroupingDisplay
from skcalib.displays.monitor import MonitorDisplay
from skcalib.displays.recalibration import RecalibrationDisplay
from skcalib.displays.reliability import ReliabilityDisplay

__all__ = [
    "DecisionCurveDisplay",
    "DecompositionDisplay",
    "EstimationDisplay",
    "GroupCalibrationDisplay",
    "GroupingDisplay",
    "MonitorDisplay",
    "MurphyDisplay",
    "RecalibrationDisplay",
    "ReliabilityDisplay",
]
