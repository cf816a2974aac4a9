"""The grouping loss: what calibration cannot see."""

from skcalib.grouping._table import Region
from skcalib.grouping.equal_scores import (
    GroupComparison,
    GroupDifference,
    differences_at_equal_scores,
)
from skcalib.grouping.estimator import GroupingLossEstimator

__all__ = [
    "GroupComparison",
    "GroupDifference",
    "GroupingLossEstimator",
    "Region",
    "differences_at_equal_scores",
]
