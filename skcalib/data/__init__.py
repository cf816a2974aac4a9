"""Labels, forecasts, weights, clusters and features, and the problems that are evaluated."""

from skcalib.data import notions

__all__ = ["notions"]
