r"""The tower of conditional expectations: mean divergences between two of its points.

With the forecast S, the label Y, the features X, the calibrated scores C = E[Y|S] and the binned
forecast S_B, from fine to coarse::

    Y -- Q = E[Y|X] -- C = E[Y|S] ----------- C_B = E[Y|S_B] -- E[Y]
                 \____ R = E[Y|S_B, region] ____/

nearly every number of the field is the mean divergence between two of these points. Along nested
partitions the divergences of a proper score add exactly, in sample (Pythagoras).
"""

import numpy as np

from skcalib.scores import Brier


def weighted_mean(values, weight=None):
    """Mean of `values` along the first axis; infinite values give an infinite mean."""
    if weight is None:
        return np.mean(values, axis=0)
    return np.tensordot(weight / np.sum(weight), values, axes=1)


def expected_divergence(score, target, forecast, weight=None):
    r"""Mean divergence of a forecast from its target, :math:`\sum_i w_i D(t_i, f_i) / \sum_i w_i`.

    Parameters
    ----------
    score : Divergence
        A proper score, or a distance.
    target, forecast : array of shape (n, K)
        Two points of the tower.
    weight : array of shape (n,), optional
        Weights, averaged; their sum is arbitrary.

    Returns
    -------
    float
        Not negative, in the units of the score; infinite where the divergence is.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import Brier
    >>> from skcalib.tower import expected_divergence
    >>> float(expected_divergence(Brier(), np.eye(2), np.full((2, 2), 0.5)))
    0.25
    """
    return float(weighted_mean(score.divergence(target, forecast), weight))


def partition_bias(cells, values, weight=None):
    r"""Bias of the squared norm of cell means, :math:`b(P; V) = \sum_c \frac{n_c}{n}
    \frac{\widehat{var}_c(V)}{n_c}`, in the units of `Brier`.

    The mean over the samples of :math:`\|\bar V_c\|^2` exceeds that of
    :math:`\|E[V|c]\|^2` by this much in expectation. ``var_c`` is the unbiased variance in the
    cell, summed over columns (halved for two columns, as `Brier` is). Unequal weights are
    importance weights: ``var_c / n_c`` becomes the estimated variance of the weighted mean.
    Cells with one sample have no variance and contribute nothing: leave them out of the quantity
    that is corrected too (`debiased_calibration` does).

    Parameters
    ----------
    cells : array of int of shape (n,)
        Cell of each sample.
    values : array of shape (n, C)
        What is averaged over cells.
    weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    float
        Not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.tower import partition_bias
    >>> partition_bias(np.array([0, 0, 1, 1]), np.array([[0.0], [1.0], [1.0], [1.0]]))
    0.125
    """
    weight = np.ones(len(cells)) if weight is None else np.asarray(weight, dtype=np.float64)
    mass, mean, inverse_size = _cells(cells, values, weight)
    squares = np.bincount(cells, weight * np.sum((values - mean[cells]) ** 2, axis=1))
    several = _has_variance(inverse_size)
    size_term = inverse_size[several] / (1 - inverse_size[several])
    scale = 0.5 if values.shape[1] == 2 else 1.0
    return float(scale * np.sum(squares[several] * size_term) / mass.sum())


def debiased_calibration(cells, forecast, target, weight=None):
    r"""Binned Brier calibration error :math:`E D(C_B, S_B)` without its bias (K19, corrected).

    Plug-in error minus :math:`b(P; Y - S)`, the bias by the variance of the *residual*. The usual
    correction with the label variance m (1 - m) / (n - 1) is right only where the forecast is
    constant in each bin. Unbiased given the partition; it may be negative, and is not clipped,
    because its mean must be right. Cells with one sample are left out of both terms.

    Parameters
    ----------
    cells : array of int of shape (n,)
        Bin of each sample.
    forecast, target : array of shape (n, K)
        Forecasts and labels.
    weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    float
        Estimate in squared units, halved for K = 2.

    Raises
    ------
    ValueError
        If no cell holds two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.tower import debiased_calibration
    >>> p, y = np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.0, 1.0, 1.0, 1.0])
    >>> cells, pairs = np.zeros(4, dtype=int), lambda v: np.column_stack([1 - v, v])
    >>> debiased_calibration(cells, pairs(p), pairs(y))
    0.0
    """
    weight = np.ones(len(cells)) if weight is None else np.asarray(weight, dtype=np.float64)
    residual = target - forecast
    mass, mean, inverse_size = _cells(cells, residual, weight)
    several = _has_variance(inverse_size)
    if not several[mass > 0].any():
        raise ValueError(
            "Debiasing needs a bin with at least two samples: use fewer bins, or no debiasing."
        )
    plug_in = Brier().divergence(mean[several], np.zeros_like(mean[several]))
    kept = several[cells]
    share = mass[several].sum() / mass.sum()
    kept_cells = np.unique(cells[kept], return_inverse=True)[1]
    bias = partition_bias(kept_cells, residual[kept], weight[kept])
    return float(np.sum(mass[several] * plug_in) / mass.sum() - share * bias)


def debiased_leg(fine, coarse, values, weight=None):
    r"""Brier leg :math:`E D(\bar V_{fine}, \bar V_{coarse})` between nested partitions, debiased.

    Plug-in minus b(fine; V) + b(coarse; V). With V the labels, `fine` the regions and `coarse`
    the bins it is the debiased explained grouping loss (L23 prop. 4.3). Unbiased for samples drawn
    independently in each bin.

    Parameters
    ----------
    fine, coarse : array of int of shape (n,)
        Cell of each sample; `fine` refines `coarse`, and its cells hold two samples or more.
    values : array of shape (n, C)
        What is averaged.
    weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    float
        Estimate in squared units, halved for two columns; may be negative.

    Raises
    ------
    ValueError
        If a cell of `fine` holds a single sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.tower import debiased_leg
    >>> fine, coarse = np.array([0, 0, 1, 1]), np.zeros(4, dtype=int)
    >>> round(debiased_leg(fine, coarse, np.array([[0.0], [0.0], [1.0], [1.0]])), 4)
    0.3333
    """
    weight = np.ones(len(fine)) if weight is None else np.asarray(weight, dtype=np.float64)
    mass, fine_mean, inverse_size = _cells(fine, values, weight)
    if not _has_variance(inverse_size[mass > 0]).all():
        raise ValueError(
            "Debiasing needs two samples in every fine cell: merge the cells that hold one."
        )
    coarse_mean = _cells(coarse, values, weight)[1]
    plug_in = expected_divergence(Brier(), fine_mean[fine], coarse_mean[coarse], weight)
    return plug_in - partition_bias(fine, values, weight) + partition_bias(coarse, values, weight)


def _cells(cells, values, weight):
    """Weight, mean and inverse effective size of each cell."""
    mass = np.bincount(cells, weight)
    sums = np.stack([np.bincount(cells, weight * column) for column in values.T], axis=1)
    safe = np.where(mass > 0, mass, 1.0)
    inverse_size = np.where(mass > 0, np.bincount(cells, weight**2) / safe**2, 1.0)
    return mass, sums / safe[:, None], inverse_size


def _has_variance(inverse_size):
    return inverse_size < 1 - 1e-9
