"""Grouping loss, and comparison of groups at equal scores."""

from skcalib.grouping.bounds import Region
from skcalib.grouping.by_group import GroupCalibration, GroupCalibrations, calibration_by_group
from skcalib.grouping.differences import (
    GroupComparison,
    GroupDifference,
    differences_at_equal_scores,
)
from skcalib.grouping.equal_scores import CurveEqualityTest, calibration_curve_equality_test
from skcalib.grouping.estimator import (
    GroupingImprovement,
    GroupingLossEstimator,
    grouping_improvement,
)
from skcalib.grouping.soft_labels import SoftLabelDecomposition, soft_label_decomposition

__all__ = [
    "CurveEqualityTest",
    "GroupCalibration",
    "GroupCalibrations",
    "GroupComparison",
    "GroupDifference",
    "GroupingImprovement",
    "GroupingLossEstimator",
    "Region",
    "SoftLabelDecomposition",
    "calibration_by_group",
    "calibration_curve_equality_test",
    "differences_at_equal_scores",
    "grouping_improvement",
    "soft_label_decomposition",
]
