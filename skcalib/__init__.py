"""skcalib: can you trust the probabilities of your classifier?"""

from skcalib import datasets
from skcalib._version import __version__
from skcalib.bounds import ece_bias_bound, optimal_n_bins
from skcalib.crossfit import CrossFitProba
from skcalib.displays import (
    DecompositionDisplay,
    GroupingDisplay,
    RecalibrationDisplay,
    ReliabilityDisplay,
)
from skcalib.divergences import Lp, TotalVariation
from skcalib.errors import (
    CumulativeCurve,
    ReliabilityBins,
    ScoreDecomposition,
    calibration_error,
    calibration_upper_bound,
    cumulative_curve,
    ks_calibration_error,
    proper_calibration_error,
    refinement_loss,
    reliability_bins,
    root_brier_score,
    score_decomposition,
    sharpness,
    simplex_calibration_error,
)
from skcalib.estimators import CalibrationErrorEstimator
from skcalib.generalization import ece_generalization_bound
from skcalib.grouping import GroupingLossEstimator, Region
from skcalib.hypothesis import (
    CalibrationTest,
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from skcalib.improvement import CalibrationImprovement, calibration_improvement
from skcalib.integrated_index import integrated_calibration_index
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
    variance_reliability,
)
from skcalib.report import CalibrationReport
from skcalib.scorers import get_scorer, get_scorer_names
from skcalib.scores import (
    Brier,
    DawidSebastiani,
    LogLoss,
    ProperScore,
    Spherical,
)
from skcalib.selection import RecalibratorSelection
from skcalib.slopes import CalibrationInterceptSlope, calibration_intercept_slope
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LevelSets,
    LogitSmoother,
    NearestNeighborsSmoother,
    QuantileBins,
    Smoother,
    UniformBins,
)
from skcalib.supersample import (
    InformationEstimate,
    SupersampleEvaluation,
    evaluate_supersample,
)

__all__ = [
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "Brier",
    "CalibrationErrorEstimator",
    "CalibrationImprovement",
    "CalibrationInterceptSlope",
    "CalibrationReport",
    "CalibrationTest",
    "Canonical",
    "ClassGroups",
    "Classwise",
    "CrossFitProba",
    "CrossFitted",
    "CumulativeCurve",
    "DawidSebastiani",
    "DecompositionDisplay",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "DirichletKernel",
    "EnsembleTemperatureScaling",
    "GroupingDisplay",
    "GroupingLossEstimator",
    "HistogramBinning",
    "IdentityRecalibrator",
    "InformationEstimate",
    "IsotonicRecalibrator",
    "IsotonicSmoother",
    "KernelRecalibrator",
    "LabelFrequency",
    "LevelSets",
    "LogLoss",
    "LogitSmoother",
    "Lp",
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
    "calibration_improvement",
    "calibration_intercept_slope",
    "calibration_upper_bound",
    "cumulative_curve",
    "cumulative_test",
    "datasets",
    "dawid_sebastiani_score",
    "ece_bias_bound",
    "ece_generalization_bound",
    "evaluate_supersample",
    "get_scorer",
    "get_scorer_names",
    "hosmer_lemeshow_test",
    "integrated_calibration_index",
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
    "variance_reliability",
]
