"""skcalib: can you trust the probabilities of your classifier?"""

from skcalib import datasets
from skcalib._version import __version__
from skcalib.displays import ReliabilityDisplay
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
from skcalib.grouping import GroupingLossEstimator
from skcalib.notions import Canonical, ClassGroups, Classwise, Notion, TopK, TopLabel
from skcalib.report import CalibrationReport
from skcalib.scorers import get_scorer, get_scorer_names
from skcalib.scores import (
    Brier,
    DawidSebastiani,
    LogLoss,
    Lp,
    ProperScore,
    Spherical,
    TotalVariation,
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
    UniformBins,
)

__all__ = [
    "Brier",
    "CalibrationErrorEstimator",
    "CalibrationReport",
    "Canonical",
    "ClassGroups",
    "Classwise",
    "CrossFitted",
    "DawidSebastiani",
    "DirichletKernel",
    "GroupingLossEstimator",
    "IsotonicSmoother",
    "LevelSets",
    "LogLoss",
    "LogitSmoother",
    "Lp",
    "NearestNeighborsSmoother",
    "Notion",
    "ProperScore",
    "QuantileBins",
    "ReliabilityDisplay",
    "ScoreDecomposition",
    "Smoother",
    "Spherical",
    "TopK",
    "TopLabel",
    "TotalVariation",
    "UniformBins",
    "__version__",
    "calibration_upper_bound",
    "datasets",
    "get_scorer",
    "get_scorer_names",
    "proper_calibration_error",
    "refinement_loss",
    "root_brier_score",
    "score_decomposition",
    "sharpness",
]
