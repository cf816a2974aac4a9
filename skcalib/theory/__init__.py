"""Bounds for binned errors: bias, number of bins, and error on new data (F24)."""

from importlib import import_module

from skcalib.stats.bins import ece_bias_bound, ece_generalization_bound, optimal_n_bins

__all__ = [
    "InformationEstimate",
    "SupersampleEvaluation",
    "ece_bias_bound",
    "ece_generalization_bound",
    "evaluate_supersample",
    "optimal_n_bins",
]


def __getattr__(name):
    """Names of `supersample`, imported on request because it imports the errors."""
    if name in ("InformationEstimate", "SupersampleEvaluation", "evaluate_supersample"):
        return getattr(import_module("skcalib.theory.supersample"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
