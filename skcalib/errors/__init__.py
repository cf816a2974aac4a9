"""Errors: functions of labels and forecasts."""

from skcalib.errors.bounds import calibration_upper_bound, root_brier_score
from skcalib.errors.proper import (
    ScoreDecomposition,
    proper_calibration_error,
    refinement_loss,
    score_decomposition,
    sharpness,
)

__all__ = [
    "ScoreDecomposition",
    "calibration_upper_bound",
    "proper_calibration_error",
    "refinement_loss",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
]
