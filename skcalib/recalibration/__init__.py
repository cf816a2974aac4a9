"""Recalibrators: maps of the simplex that are transformers and classifiers."""

from skcalib.recalibration._base import LogitRecalibrator, Recalibrator
from skcalib.recalibration.group import GroupRecalibrator
from skcalib.recalibration.improvement import CalibrationImprovement, calibration_improvement
from skcalib.recalibration.label_shift import InterceptRecalibrator, LabelShiftRecalibrator
from skcalib.recalibration.multilabel import MultilabelRecalibrator
from skcalib.recalibration.one_vs_rest import (
    BetaCalibration,
    BinaryLinkRecalibrator,
    HistogramBinning,
    IsotonicRecalibrator,
    KernelRecalibrator,
    OneVsRestRecalibrator,
    PlattScaling,
    QuadraticScaling,
)
from skcalib.recalibration.scaling import (
    DiagonalOrderPreserving,
    DirichletCalibration,
    MatrixScaling,
    VectorScaling,
)
from skcalib.recalibration.selection import RecalibratorSelection
from skcalib.recalibration.simple import (
    IdentityRecalibrator,
    LabelFrequency,
    LabelNoiseScaling,
    ModelAverageScaling,
)
from skcalib.recalibration.spline import SplineScaling
from skcalib.recalibration.stacked import RecalibratorMixture, StackedRecalibrator
from skcalib.recalibration.temperature import (
    BiasCorrectedTemperatureScaling,
    EnsembleTemperatureScaling,
    TemperatureScaling,
)
from skcalib.recalibration.venn_abers import VennAbersRecalibrator

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
