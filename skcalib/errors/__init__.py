"""Errors: functions of labels and forecasts."""

from skcalib.errors.binned import ReliabilityBins, calibration_error, reliability_bins
from skcalib.errors.bounds import calibration_upper_bound, root_brier_score
from skcalib.errors.corp import CorpCurve, CorpDecomposition, corp_decomposition
from skcalib.errors.cumulative import CumulativeCurve, cumulative_curve, ks_calibration_error
from skcalib.errors.decomposition import ScoreDecomposition, score_decomposition
from skcalib.errors.embedding_error import unconditional_mean_embedding_error
from skcalib.errors.general import simplex_calibration_error
from skcalib.errors.kernel_error import kernel_calibration_error
from skcalib.errors.proper import proper_calibration_error, refinement_loss, sharpness

__all__ = [
    "CorpCurve",
    "CorpDecomposition",
    "CumulativeCurve",
    "ReliabilityBins",
    "ScoreDecomposition",
    "calibration_error",
    "calibration_upper_bound",
    "corp_decomposition",
    "cumulative_curve",
    "kernel_calibration_error",
    "ks_calibration_error",
    "proper_calibration_error",
    "refinement_loss",
    "reliability_bins",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
    "simplex_calibration_error",
    "unconditional_mean_embedding_error",
]
