"""Recalibrators: maps of the simplex that are transformers and classifiers."""

from skcalib.recalibration._base import LogitRecalibrator, Recalibrator
from skcalib.recalibration.bias_corrected import BiasCorrectedTemperatureScaling
from skcalib.recalibration.diagonal import DiagonalOrderPreserving
from skcalib.recalibration.one_vs_rest import (
    BetaCalibration,
    BinaryLinkRecalibrator,
    OneVsRestRecalibrator,
    PlattScaling,
    QuadraticScaling,
)
from skcalib.recalibration.scaling import (
    DirichletCalibration,
    MatrixScaling,
    VectorScaling,
)
from skcalib.recalibration.simple import IdentityRecalibrator, LabelFrequency
from skcalib.recalibration.smoothing import (
    HistogramBinning,
    IsotonicRecalibrator,
    KernelRecalibrator,
)
from skcalib.recalibration.temperature import EnsembleTemperatureScaling, TemperatureScaling

__all__ = [
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "BinaryLinkRecalibrator",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "KernelRecalibrator",
    "LabelFrequency",
    "LogitRecalibrator",
    "MatrixScaling",
    "OneVsRestRecalibrator",
    "PlattScaling",
    "QuadraticScaling",
    "Recalibrator",
    "TemperatureScaling",
    "VectorScaling",
]
