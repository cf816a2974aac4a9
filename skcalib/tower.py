r"""The tower of conditional expectations: mean divergences between two of its points.

With the forecast S, the label Y, the features X, the calibrated scores C = E[Y|S] and the binned
forecast S_B, from fine to coarse::

    Y -- Q = E[Y|X] -- C = E[Y|S] ----------- C_B = E[Y|S_B] -- E[Y]
                 \____ R = E[Y|S_B, region] ____/

Nearly every quantity of the field is the mean divergence between two of these points. Along nested
partitions the divergences of a proper score add exactly, in sample (Pythagoras).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from skcalib.scores import Divergence


def weighted_mean(values: np.ndarray, weight: np.ndarray | None = None) -> Any:
    """Mean of `values` along the first axis; infinite values give an infinite mean."""
    if weight is None:
        return np.mean(values, axis=0)
    return np.tensordot(weight / np.sum(weight), values, axes=1)


def expected_divergence(
    score: Divergence, target: np.ndarray, forecast: np.ndarray, weight: np.ndarray | None = None
) -> float:
    r"""Mean divergence of a forecast from its target, :math:`\sum_i w_i D(t_i, f_i) / \sum_i w_i`.

    Both are points of the tower (n, K). Infinite where the divergence is.
    """
    return float(weighted_mean(score.divergence(target, forecast), weight))


def weighted_quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The smallest value with at least the share `level` of the weight at or below it."""
    order = np.argsort(values)
    share = np.cumsum(weight[order])
    # The factor admits shares that are below the level by rounding only.
    rank = np.searchsorted(share, level * share[-1] * (1 - 1e-12))
    return values[order[rank]]
