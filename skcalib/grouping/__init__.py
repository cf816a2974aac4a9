"""The grouping loss: what calibration cannot see."""

from skcalib.grouping._table import Region
from skcalib.grouping.estimator import GroupingLossEstimator

__all__ = ["GroupingLossEstimator", "Region"]
