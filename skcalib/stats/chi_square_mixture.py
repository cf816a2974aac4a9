"""Distribution of a weighted sum of chi-square variables, with relative accuracy in its tail."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from skcalib._util.types import ArrayLike

#: The least p-value: the probability itself may underflow to 0.
SMALLEST = float(np.finfo(np.float64).tiny)
_STEP = 0.1  # of the trapezoidal rule, at first; it is halved until the integral is accurate
_SMALLEST_STEP = 1e-4
_ACCURACY = 1e-11
_NODES = 32  # at a time
_NEGLIGIBLE = 1e-15
_UNDERFLOW = -750.0


def chi_square_mixture_sf(x: float, weights: ArrayLike, *, copies: int = 1) -> float:
    r"""Probability that :math:`\sum_l \lambda_l Z_l^2` is at least x, for standard normal Z.

    The inversion integral of the Laplace transform,

    .. math::

        \frac1{2 \pi i} \int \exp \varphi(s)\, ds, \qquad
        \varphi(s) = -\tfrac12 \sum_l \log(1 - 2 \lambda_l s) - s x - \log |s|,

    over a hyperbola that cuts the real axis at a saddle point of :math:`\varphi` and opens to the
    right, where the integrand vanishes for x > 0. To the right of 0 it is the probability; to the
    left, taken if x is below the mean, it is that of the complement. There is no cancellation, so
    tails of 1e-100 have the same relative accuracy, about 1e-11, as the centre. Tails may underflow
    to 0. The weights lambda are of either sign; each occurs `copies` times in the sum, which adds
    nothing to the cost, O(number of weights) for each of some 60 nodes.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if x < 0:
        return 1 - chi_square_mixture_sf(-x, -weights, copies=copies)
    largest = weights.max(initial=0.0)
    if largest <= 0:
        return float(x == 0 and not weights.any())
    # In units of the largest weight; weights below its rounding error only cost time.
    weights = weights[np.abs(weights) > 1e-14 * largest] / largest
    with np.errstate(over="ignore"):
        x = x / largest
    if np.isinf(x):  # relative to x all weights are rounding errors
        return 0.0
    if x < 1e-100 and weights.min() > 0:
        return 1.0
    if x >= copies * weights.sum():
        return _tail(x, weights, copies, 1)
    return 1 - _tail(x, weights, copies, -1)


def _tail(x, weights, copies, side):
    """The integral over a hyperbola that passes 0 on the right (side 1) or on the left (-1)."""
    if side > 0 and -0.5 * copies * np.log(1 - 0.5 * weights).sum() - 0.25 * x < _UNDERFLOW:
        return 0.0  # by Chernoff's bound
    saddle = _saddle(x, weights, copies, side)
    rest = 1 - 2 * weights * saddle
    second = copies * np.sum(2 * (weights / rest) ** 2) + saddle**-2
    third = copies * np.sum(8 * (weights / rest) ** 3) - 2 * saddle**-3
    height = second**-0.5
    # Steepest descent near the saddle, but always open to the right.
    width = max(third / (3 * second**2), 0.3 * height)
    peak = _exponent(np.array([saddle + 0j]), x, weights, copies, side).real[0]

    def integral(step):
        """By the trapezoidal rule; twice the integrand at the saddle would be its first node."""
        total, start = 0.5 * height, 1
        while True:
            angle = step * np.arange(start, start + _NODES)
            points = saddle + width * (np.cosh(angle) - 1) + 1j * height * np.sinh(angle)
            slope = width * np.sinh(angle) + 1j * height * np.cosh(angle)
            terms = np.exp(_exponent(points, x, weights, copies, side) - peak) * slope / 1j
            total += terms.sum().real
            if np.abs(terms[-1]) < _NEGLIGIBLE * abs(total):
                return step * total
            start += _NODES

    # Weights of very different size, of either sign, need smaller steps than others.
    step, found = _STEP, np.inf
    while step > _SMALLEST_STEP:
        coarser, found = found, integral(step)
        if abs(found - coarser) <= _ACCURACY * abs(found):
            break
        step /= 2
    return float(np.clip(np.exp(peak) * found / np.pi, 0.0, 1.0))


def _exponent(s, x, weights, copies, side):
    logs = np.log(1 - 2 * np.multiply.outer(s, weights)).sum(axis=-1)
    return -0.5 * copies * logs - s * x - np.log(side * s)


def _saddle(x, weights, copies, side):
    """Where the derivative of the exponent vanishes between 0 and the next singularity."""
    ahead = side * weights
    largest = ahead.max(initial=0.0)

    def slope(t):
        # s = side / (q + 2 largest), so that 1 - 2 w s has no cancellation near the singularity
        q = np.exp(-t)
        scale = q + 2 * largest
        gain = np.sum(weights * (scale / (q + 2 * (largest - ahead))))
        return copies * gain - x - side * scale

    return side / (np.exp(-brentq(slope, -300, 300, xtol=1e-6)) + 2 * largest)
