"""Bounds for binned errors: bias, number of bins, and error on new data (F24)."""

from skcalib.stats.bins import ece_bias_bound, ece_generalization_bound, optimal_n_bins
from skcalib.theory.supersample import (
    InformationEstimate,
    SupersampleEvaluation,
    evaluate_supersample,
)

__all__ = [
    "InformationEstimate",
    "SupersampleEvaluation",
    "ece_bias_bound",
    "ece_generalization_bound",
    "evaluate_supersample",
    "optimal_n_bins",
]
