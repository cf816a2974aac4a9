"""skcalib: can you trust the probabilities of your classifier?"""

from skcalib import datasets
from skcalib._guesses import missing_attribute
from skcalib._version import __version__
from skcalib.crossfit import CrossFitProba
from skcalib.displays import (
    DecompositionDisplay,
    EstimationDisplay,
    GroupingDisplay,
    RecalibrationDisplay,
    ReliabilityDisplay,
)
from skcalib.error_intervals import ErrorInterval, calibration_error_interval
from skcalib.errors import (
    CorpCurve,
    CorpDecomposition,
    CumulativeCurve,
    ReliabilityBins,
    ScoreDecomposition,
    calibration_error,
    calibration_upper_bound,
    corp_decomposition,
    cumulative_curve,
    kernel_calibration_error,
    ks_calibration_error,
    proper_calibration_error,
    refinement_loss,
    reliability_bins,
    root_brier_score,
    score_decomposition,
    sharpness,
    simplex_calibration_error,
    unconditional_mean_embedding_error,
)
from skcalib.errors.corp import CorpBand, corp_bands, corp_test
from skcalib.errors.logistic import (
    CalibrationInterceptSlope,
    calibration_intercept_slope,
    integrated_calibration_index,
)
from skcalib.estimators import CalibrationErrorEstimator
from skcalib.grouping import GroupingLossEstimator, Region
from skcalib.improvement import CalibrationImprovement, calibration_improvement
from skcalib.kernels import GaussianKernel, Kernel, LaplacianKernel, MatrixKernel
from skcalib.notions import Canonical, ClassGroups, Classwise, Notion, TopK, TopLabel
from skcalib.recalibrated import RecalibratedClassifierCV
from skcalib.recalibration import (
    BetaCalibration,
    BiasCorrectedTemperatureScaling,
    DiagonalOrderPreserving,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    KernelRecalibrator,
    LabelFrequency,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.regression import (
    RecalibratedRegressorCV,
    VarianceReliability,
    VarianceScaling,
    dawid_sebastiani_score,
    kernel_calibration_error_gaussian,
    kernel_calibration_test_gaussian,
    variance_reliability,
)
from skcalib.report import CalibrationReport, ComparisonReport
from skcalib.scorers import get_scorer, get_scorer_names, get_scorers
from skcalib.scores import (
    Brier,
    DawidSebastiani,
    LogLoss,
    Lp,
    ProperScore,
    Spherical,
    TotalVariation,
)
from skcalib.selection import RecalibratorSelection
from skcalib.significance import (
    CalibrationComparison,
    CalibrationTest,
    compare_calibration,
    consistency_test,
    cumulative_test,
    distribution_free_bound,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    spiegelhalter_test,
)
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LevelSets,
    LogitSmoother,
    NearestNeighborsSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)
from skcalib.streaming import IncrementalReliability
from skcalib.summary import CalibrationSummary, calibration_summary
from skcalib.theory.bounds import ece_bias_bound, optimal_n_bins
from skcalib.theory.generalization import ece_generalization_bound
from skcalib.theory.supersample import (
    InformationEstimate,
    SupersampleEvaluation,
    evaluate_supersample,
)

__all__ = [
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "Brier",
    "CalibrationComparison",
    "CalibrationErrorEstimator",
    "CalibrationImprovement",
    "CalibrationInterceptSlope",
    "CalibrationReport",
    "CalibrationSummary",
    "CalibrationTest",
    "Canonical",
    "ClassGroups",
    "Classwise",
    "ComparisonReport",
    "CorpBand",
    "CorpCurve",
    "CorpDecomposition",
    "CrossFitProba",
    "CrossFitted",
    "CumulativeCurve",
    "DawidSebastiani",
    "DecompositionDisplay",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "DirichletKernel",
    "EnsembleTemperatureScaling",
    "ErrorInterval",
    "EstimationDisplay",
    "GaussianKernel",
    "GroupingDisplay",
    "GroupingLossEstimator",
    "HistogramBinning",
    "IdentityRecalibrator",
    "IncrementalReliability",
    "InformationEstimate",
    "IsotonicRecalibrator",
    "IsotonicSmoother",
    "Kernel",
    "KernelRecalibrator",
    "LabelFrequency",
    "LaplacianKernel",
    "LevelSets",
    "LogLoss",
    "LogitSmoother",
    "Lp",
    "MatrixKernel",
    "MatrixScaling",
    "NearestNeighborsSmoother",
    "Notion",
    "PlattScaling",
    "ProperScore",
    "QuadraticScaling",
    "QuantileBins",
    "RecalibratedClassifierCV",
    "RecalibratedRegressorCV",
    "RecalibrationDisplay",
    "RecalibratorSelection",
    "Region",
    "ReliabilityBins",
    "ReliabilityDisplay",
    "ScoreDecomposition",
    "Smoother",
    "Spherical",
    "SplineSmoother",
    "SupersampleEvaluation",
    "TemperatureScaling",
    "TopK",
    "TopLabel",
    "TotalVariation",
    "UniformBins",
    "VarianceReliability",
    "VarianceScaling",
    "VectorScaling",
    "__version__",
    "calibration_error",
    "calibration_error_interval",
    "calibration_improvement",
    "calibration_intercept_slope",
    "calibration_summary",
    "calibration_upper_bound",
    "compare_calibration",
    "consistency_test",
    "corp_bands",
    "corp_decomposition",
    "corp_test",
    "cumulative_curve",
    "cumulative_test",
    "datasets",
    "dawid_sebastiani_score",
    "distribution_free_bound",
    "ece_bias_bound",
    "ece_generalization_bound",
    "evaluate_supersample",
    "get_scorer",
    "get_scorer_names",
    "get_scorers",
    "hosmer_lemeshow_test",
    "integrated_calibration_index",
    "kernel_calibration_error",
    "kernel_calibration_error_gaussian",
    "kernel_calibration_test",
    "kernel_calibration_test_gaussian",
    "ks_calibration_error",
    "optimal_n_bins",
    "proper_calibration_error",
    "refinement_loss",
    "reliability_bins",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
    "simplex_calibration_error",
    "spiegelhalter_test",
    "unconditional_mean_embedding_error",
    "variance_reliability",
]


def __getattr__(name):
    """Names that are not here."""
    raise missing_attribute(__name__, name)
