"""Grouping loss, and comparison of groups at equal scores."""

from skcalib.grouping.equal_scores import (
    GroupComparison,
    GroupDifference,
    differences_at_equal_scores,
)
from skcalib.grouping.estimator import GroupingLossEstimator
from skcalib.grouping.regions import Region
from skcalib.grouping.repair import RepairCertificate, repair_certificate

__all__ = [
    "GroupComparison",
    "GroupDifference",
    "GroupingLossEstimator",
    "Region",
    "RepairCertificate",
    "differences_at_equal_scores",
    "repair_certificate",
]
