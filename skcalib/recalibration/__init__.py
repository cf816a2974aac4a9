"""Recalibrators: maps of the simplex that are transformers and classifiers."""

from skcalib.recalibration.base import IdentityRecalibrator, LogitRecalibrator, Recalibrator
from skcalib.recalibration.curves import (
    HistogramBinning,
    IsotonicRecalibrator,
    KernelRecalibrator,
    SplineScaling,
    VennAbersRecalibrator,
)
from skcalib.recalibration.group import GroupRecalibrator, MultilabelRecalibrator
from skcalib.recalibration.held_out import (
    CalibrationImprovement,
    RecalibratorSelection,
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
    OneVsRestRecalibrator,
    PlattScaling,
    QuadraticScaling,
)
from skcalib.recalibration.scaling import (
    DiagonalOrderPreserving,
    DirichletCalibration,
    MatrixScaling,
    ModelAverageScaling,
    VectorScaling,
)
from skcalib.recalibration.stacked import RecalibratorMixture, StackedRecalibrator
from skcalib.recalibration.temperature import (
    BiasCorrectedTemperatureScaling,
    EnsembleTemperatureScaling,
    LabelNoiseScaling,
    TemperatureScaling,
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
