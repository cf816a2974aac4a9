"""What a risk model reports: a summary, and what its decisions cost."""

from skcalib.risk_models.decisions import DecisionRegret, decision_regret, net_benefit
from skcalib.risk_models.summary import CalibrationSummary, calibration_summary

__all__ = [
    "CalibrationSummary",
    "DecisionRegret",
    "calibration_summary",
    "decision_regret",
    "net_benefit",
]
