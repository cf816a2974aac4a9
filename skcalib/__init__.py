"""skcalib: can you trust the probabilities of your classifier?"""

from skcalib import datasets
from skcalib._version import __version__
from skcalib.crossfit import CrossFitProba
from skcalib.displays import (
    DecompositionDisplay,
    GroupingDisplay,
    RecalibrationDisplay,
    ReliabilityDisplay,
)
from skcalib.divergences import Lp, TotalVariation
from skcalib.errors import (
    ScoreDecomposition,
    calibration_upper_bound,
    proper_calibration_error,
    refinement_loss,
    root_brier_score,
    score_decomposition,
    sharpness,
)
from skcalib.estimators import CalibrationErrorEstimator
from skcalib.grouping import GroupingLossEstimator, Region
from skcalib.improvement import CalibrationImprovement, calibration_improvement
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

__all__ = [
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "Brier",
    "CalibrationErrorEstimator",
    "CalibrationImprovement",
    "CalibrationReport",
    "Canonical",
    "ClassGroups",
    "Classwise",
    "CrossFitProba",
    "CrossFitted",
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
    "ReliabilityDisplay",
    "ScoreDecomposition",
    "Smoother",
    "Spherical",
    "TemperatureScaling",
    "TopK",
    "TopLabel",
    "TotalVariation",
    "UniformBins",
    "VarianceReliability",
    "VarianceScaling",
    "VectorScaling",
    "__version__",
    "calibration_improvement",
    "calibration_upper_bound",
    "datasets",
    "dawid_sebastiani_score",
    "get_scorer",
    "get_scorer_names",
    "proper_calibration_error",
    "refinement_loss",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
    "variance_reliability",
]
