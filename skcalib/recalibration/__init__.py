"""Recalibrators: maps of the simplex that are transformers and classifiers."""

from skcalib.recalibration.base import IdentityRecalibrator, LogitRecalibrator, Recalibrator
from skcalib.recalibration.group import GroupRecalibrator, MultilabelRecalibrator
from skcalib.recalibration.held_out import (
    CalibrationImprovement,
    RecalibratorMixture,
    RecalibratorSelection,
    StackedRecalibrator,
    calibration_improvement,
)
from skcalib.recalibration.label_shift import (
    InterceptRecalibrator,
    LabelFrequency,
    LabelShiftRecalibrator,
)
from skcalib.recalibration.one_vs_rest import (
    BetaCalibration,
    BinaryLinkRecalibrator,
    HistogramBinning,
    IsotonicRecalibrator,
    KernelRecalibrator,
    OneVsRestRecalibrator,
    PlattScaling,
    QuadraticScaling,
    SplineScaling,
    VennAbersRecalibrator,
)
from skcalib.recalibration.scaling import (
    BiasCorrectedTemperatureScaling,
    DiagonalOrderPreserving,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    LabelNoiseScaling,
    MatrixScaling,
    ModelAverageScaling,
    TemperatureScaling,
    VectorScaling,
)

__all__ = [
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "BinaryLinkRecalibrator",
    "CalibrationImprovement",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "GroupRecalibrator",
    "HistogramBinning",
    "IdentityRecalibrator",
    "InterceptRecalibrator",
    "IsotonicRecalibrator",
    "KernelRecalibrator",
    "LabelFrequency",
    "LabelNoiseScaling",
    "LabelShiftRecalibrator",
    "LogitRecalibrator",
    "MatrixScaling",
    "ModelAverageScaling",
    "MultilabelRecalibrator",
    "OneVsRestRecalibrator",
    "PlattScaling",
    "QuadraticScaling",
    "Recalibrator",
    "RecalibratorMixture",
    "RecalibratorSelection",
    "SplineScaling",
    "StackedRecalibrator",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbersRecalibrator",
    "calibration_improvement",
]
