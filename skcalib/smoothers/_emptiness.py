"""Kernels on a simplex of many classes: how many neighbours are there to average over?"""

import warnings

import numpy as np
from scipy.special import gammaln, softmax

_PROBES = 200  # forecasts whose neighbours are counted
_TOO_FAR = 0.01  # tolerated share of the uncertainty that a calibrated forecast would be charged
_TINY = np.finfo(np.float64).tiny


def warn_of_emptiness(forecast, weight, bandwidth, rng):
    """Warn where kernel averages would find even a calibrated forecast miscalibrated."""
    neighbours, charge, uncertainty = count_neighbours(forecast, weight, bandwidth, rng)
    if charge > _TOO_FAR * uncertainty:
        n_samples, n_columns = forecast.shape
        warnings.warn(
            f"A kernel average here rests on {neighbours:.3g} effective neighbours (median; "
            f"{n_samples} samples of {n_columns} columns, bandwidth {bandwidth:.2g}): even a "
            f"calibrated forecast would be charged a Brier calibration error of about {charge:.2g}."
            " Use the default smoother, notion='classwise' or 'top_label', or, where the bandwidth "
            "was not chosen by it, DirichletKernel('risk').",
            UserWarning,
            stacklevel=3,
        )


def count_neighbours(forecast, weight, bandwidth, rng):
    r"""Effective neighbours (median), charge of a calibrated forecast, its uncertainty.

    With the shares :math:`a_{ij}` of the others in the average at :math:`s_i`, the effective number
    is :math:`1 / \sum_j a_{ij}^2` (Kish), and a forecast that is calibrated gets the direct
    Brier error :math:`\|\sum_j a_{ij} s_j - s_i\|^2 + \sum_j a_{ij}^2 (1 - \|s_i\|^2)`: the way
    that averaging moves it, and the variance of the labels.
    """
    n_samples, n_columns = forecast.shape
    rows = rng.choice(n_samples, min(_PROBES, n_samples), replace=False)
    points, scaled = forecast[rows], forecast / bandwidth
    log_kernel = np.log(np.maximum(points, _TINY)) @ scaled.T
    log_kernel += gammaln(n_columns + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    log_kernel += np.log(weight)
    log_kernel[np.arange(len(rows)), rows] = -np.inf
    share = softmax(log_kernel, axis=1)
    square = np.sum(share**2, axis=1)
    moved = np.sum((share @ forecast - points) ** 2, axis=1)
    uncertainty = 1 - np.sum(points**2, axis=1)
    charge = np.mean(moved + uncertainty * square)
    return float(np.median(1 / square)), float(charge), float(np.mean(uncertainty))
