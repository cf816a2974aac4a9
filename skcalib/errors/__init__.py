"""Errors: functions of labels and forecasts."""

from skcalib.errors.binned import (
    BinRows,
    ReliabilityBins,
    calibration_error,
    reliability_bins,
    simplex_calibration_error,
)
from skcalib.errors.corp import (
    CorpBand,
    CorpCurve,
    CorpDecomposition,
    corp_bands,
    corp_decomposition,
    corp_test,
)
from skcalib.errors.kernel import kernel_calibration_error, unconditional_mean_embedding_error
from skcalib.errors.logistic import (
    CalibrationInterceptSlope,
    calibration_intercept_slope,
    integrated_calibration_index,
)
from skcalib.errors.unbinned import (
    CumulativeCurve,
    cumulative_curve,
    kde_calibration_error,
    ks_calibration_error,
    smooth_calibration_error,
)
from skcalib.proper.proper import (
    ScoreDecomposition,
    calibration_upper_bound,
    proper_calibration_error,
    refinement_loss,
    root_brier_score,
    score_decomposition,
    sharpness,
)

__all__ = [
    "BinRows",
    "CalibrationInterceptSlope",
    "CorpBand",
    "CorpCurve",
    "CorpDecomposition",
    "CumulativeCurve",
    "ReliabilityBins",
    "ScoreDecomposition",
    "calibration_error",
    "calibration_intercept_slope",
    "calibration_upper_bound",
    "corp_bands",
    "corp_decomposition",
    "corp_test",
    "cumulative_curve",
    "integrated_calibration_index",
    "kde_calibration_error",
    "kernel_calibration_error",
    "ks_calibration_error",
    "proper_calibration_error",
    "refinement_loss",
    "reliability_bins",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
    "simplex_calibration_error",
    "smooth_calibration_error",
    "unconditional_mean_embedding_error",
]
