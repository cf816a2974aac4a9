"""skcalib: can you trust the probabilities of your classifier?"""

from skcalib import datasets
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
from skcalib.notions import Canonical, ClassGroups, Classwise, Notion, TopK, TopLabel
from skcalib.scores import (
    Brier,
    DawidSebastiani,
    LogLoss,
    Lp,
    ProperScore,
    Spherical,
    TotalVariation,
)
from skcalib.scorers import get_scorer, get_scorer_names
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

__version__ = "0.1.0"
