"""Smoothers: estimates of a conditional expectation given the forecast."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sklearn.base import BaseEstimator

from skcalib._util.validation import look_up
from skcalib.smoothers._base import CrossFitted, LogitSmoother, OutOfFoldSmoother, Smoother
from skcalib.smoothers.kernel import DirichletKernel
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

#: Smoothers by name, for the errors and for the curves of diagrams; "binning" is "quantile".
SMOOTHERS = {
    "isotonic": IsotonicSmoother,
    "quantile": QuantileBins,
    "uniform": UniformBins,
    "smooth": SplineSmoother,
    "kernel": DirichletKernel,
    "binning": QuantileBins,
}
SmootherLike: TypeAlias = (
    Literal["isotonic", "quantile", "uniform", "smooth", "kernel", "binning"]
    | Smoother
    | BaseEstimator
    | None
)


def resolve_smoother(smoother: SmootherLike) -> Smoother:
    """A smoother from None (`LogitSmoother`), a string, a smoother or a scikit-learn classifier."""
    if smoother is None:
        return LogitSmoother()
    if hasattr(smoother, "predict_proba") and not isinstance(smoother, (Smoother, type)):
        return CrossFitted(smoother)
    return look_up(smoother, SMOOTHERS, "smoother", kind=Smoother)
