"""Smoothers: estimates of a conditional expectation given the forecast."""

from skcalib.smoothers._base import Smoother
from skcalib.smoothers.crossfit import CrossFitted, OutOfFoldSmoother
from skcalib.smoothers.isotonic import IsotonicSmoother
from skcalib.smoothers.kernel import DirichletKernel
from skcalib.smoothers.logit import LogitSmoother
from skcalib.smoothers.median import MedianCells
from skcalib.smoothers.neighbors import NearestNeighborsSmoother
from skcalib.smoothers.partition import LevelSets, PartitionSmoother, QuantileBins, UniformBins
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
