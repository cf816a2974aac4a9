"""Smoothers: estimates of a conditional expectation given the forecast."""

from skcalib.smoothers._base import CrossFitted, OutOfFoldSmoother, Smoother
from skcalib.smoothers.kernel import DirichletKernel
from skcalib.smoothers.logit import LogitSmoother
from skcalib.smoothers.neighbors import NearestNeighborsSmoother
from skcalib.smoothers.partition import (
    IsotonicSmoother,
    LevelSets,
    MedianCells,
    PartitionSmoother,
    QuantileBins,
    UniformBins,
)
from skcalib.smoothers.spline import SplineSmoother

__all__ = [
    "CrossFitted",
    "DirichletKernel",
    "IsotonicSmoother",
    "LevelSets",
    "LogitSmoother",
    "MedianCells",
    "NearestNeighborsSmoother",
    "OutOfFoldSmoother",
    "PartitionSmoother",
    "QuantileBins",
    "Smoother",
    "SplineSmoother",
    "UniformBins",
]
