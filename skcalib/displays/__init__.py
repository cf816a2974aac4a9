"""Displays: scikit-learn style figures. matplotlib is imported only when a figure is drawn."""

from skcalib.displays.decisions import DecisionCurveDisplay, MurphyDisplay
from skcalib.displays.decomposition import DecompositionDisplay
from skcalib.displays.estimation import EstimationDisplay
from skcalib.displays.group_calibration import GroupCalibrationDisplay
from skcalib.displays.grouping import GroupingDisplay
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
