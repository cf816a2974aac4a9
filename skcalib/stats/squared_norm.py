r"""Laws of squared norms: of a debiased estimate with its intervals, and of sums of chi-squares.

A debiased squared binned error, the unbiased kernel error and the debiased error of embeddings are
all :math:`T = \|\bar u\|^2 - tr S`. Here the mean :math:`\bar u` is nearly normal around
:math:`\mu`, with covariance S of eigenvalues :math:`\lambda`. So T estimates :math:`\theta =
\|\mu\|^2` without bias, and has the cumulants

.. math::

    \kappa_2 = 2 \sum_l \lambda_l^2 + 4 \mu^\top S \mu, \qquad
    \kappa_3 = 8 \sum_l \lambda_l^3 + 24 \mu^\top S^2 \mu .

With :math:`\mu^\top S \mu = r \theta`, where r depends only on the direction of the mean, the laws
are a one-parameter family, and :math:`\mu^\top S^2 \mu` is set to its lower bound, :math:`r^2
\theta` (:ref:`interval_methods`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammainccinv, ndtr

from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike

_NORMAL = 1e-3  # a skewness that is practically zero
LEAST_NOISE = 1e-60  # a second cumulant that is practically zero


@dataclass(frozen=True)
class SquaredNorm:
    """The family of laws of a debiased squared norm, and the observed estimate.

    ``noise2`` and ``noise3`` are the cumulants at zero; ``slope`` is r; ``between`` is the variance
    of the estimate, divided by theta^2, that is due to the random masses of the cells. ``padding``
    is the standard error divided by the one for an r without margin.
    """

    estimate: float
    noise2: float
    noise3: float
    slope: float
    between: float = 0.0
    padding: float = 1.0

    @classmethod
    def from_mean(
        cls,
        signal: float,
        raw: float,
        estimate: float,
        noise2: float,
        noise3: float,
        between: float = 0.0,
    ) -> Self:
        r"""From :math:`\bar u^\top S \bar u`, :math:`\|\bar u\|^2`, T and the cumulants at zero."""
        slope, padding = signal_slope(signal, raw, estimate, noise2, noise3), 1.0
        if estimate > 0 and noise2 > 0:
            plain = max(signal - noise2 / 2, 0.0) / estimate
            variance = noise2 + between * estimate**2 + 4 * estimate * np.array([slope, plain])
            padding = float(np.sqrt(variance[0] / variance[1]))
        return cls(
            float(estimate),
            float(noise2),
            float(noise3),
            float(slope),
            float(between),
            float(padding),
        )

    @property
    def standard_error(self) -> float:
        """Root of the variance at the estimate; a negative estimate counts as zero."""
        return float(np.sqrt(self._cumulants(max(self.estimate, 0.0))[0]))

    @property
    def pvalue(self) -> float:
        """Probability of at least this estimate if the parameter is zero."""
        return self._tail(self.estimate, 0.0)

    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Parameters whose tests do not reject the estimate.

        The upper limit is at least that of an estimate at the median of its distribution at zero.
        Otherwise the interval would be a point if the estimate is very small by chance. So the
        upper limit is never below parameters up to that one, h, and tests of these may use their
        whole error probability for large estimates; the others use one half on either side. The
        coverage equals the level for every parameter, zero included.
        """
        spare = 1 - confidence_level
        typical = self._median_at_zero()
        reached = self._upper(typical, spare / 2)
        high = self._upper(max(self.estimate, typical), spare / 2)
        low = self._lower(spare)
        if low > reached:
            low = max(reached, self._lower(spare / 2))
        return float(low), float(high)

    def _lower(self, tail):
        """The parameter for which an estimate of at least this size has the probability `tail`."""
        if self._tail(self.estimate, 0.0) >= tail:
            return 0.0
        if self._tail(self.estimate, self.estimate) <= tail:  # skewed, and a low level
            return self._upper(self.estimate, 1 - tail)
        return brentq(lambda t: self._tail(self.estimate, t) - tail, 0.0, self.estimate)

    def _upper(self, value, tail):
        """The parameter for which a value of at most this size has the probability `tail`."""
        start = max(value, 0.0)
        if 1 - self._tail(value, start) <= tail:
            return start
        step = np.sqrt(self._cumulants(start)[0])
        for _ in range(60):
            if 1 - self._tail(value, start + step) < tail:
                return brentq(lambda t: 1 - self._tail(value, t) - tail, start, start + step)
            step *= 2
        return np.inf

    def _cumulants(self, theta):
        second = self.noise2 + 4 * self.slope * theta + self.between * theta**2
        return second, self.noise3 + 24 * self.slope**2 * theta

    def _tail(self, value, theta):
        """Probability of at least this value: of a gamma variable with the same cumulants."""
        second, third = self._cumulants(theta)
        distance, skewness = (value - theta) / np.sqrt(second), third / second**1.5
        if abs(skewness) < _NORMAL:
            return float(ndtr(-distance))
        shape = 4 / skewness**2
        place = max(shape + np.sign(skewness) * np.sqrt(shape) * distance, 0.0)
        return float(gammaincc(shape, place) if skewness > 0 else gammainc(shape, place))

    def _median_at_zero(self):
        second, third = self._cumulants(0.0)
        skewness = third / second**1.5
        if abs(skewness) < _NORMAL:
            return 0.0
        shape = 4 / skewness**2
        standard = (gammainccinv(shape, 0.5) - shape) / np.sqrt(shape)
        return float(np.sign(skewness) * np.sqrt(second) * standard)


def noise_cumulants(rows: np.ndarray) -> tuple[float, float]:
    """Second and third cumulants of the squared norm of a sum of independent rows (m, J).

    From products of different rows: the square of a row with itself would make them too large if
    there are few.
    """
    if len(rows) <= SIZES.product_rows:
        products = rows @ rows.T
        np.fill_diagonal(products, 0.0)
        return 2 * float(np.sum(products**2)), 8 * float(np.sum((products @ products) * products))
    matrix, squares = rows.T @ rows, np.einsum("ij,ij->i", rows, rows)
    noise2 = 2 * (float(np.sum(matrix**2)) - float(squares @ squares))
    return noise2, 8 * float(np.sum((matrix @ matrix) * matrix))


def signal_slope(signal: float, raw: float, estimate: float, noise2: float, noise3: float) -> float:
    r"""The ratio :math:`r = \mu^\top S \mu / \|\mu\|^2` from estimates of both.

    ``signal`` and ``raw`` contain the estimated mean, noise included, so their ratio lies between r
    and that of pure noise. Without the noise it is accurate if the estimate is far from zero, and
    unstable otherwise. An r that is too small makes the upper limit too small, in particular if
    both are small by chance. So the ratio is at least its value with one more standard error of
    signal in the direction of the large eigenvalues.
    """
    if not (raw > 0 and noise2 > 0):
        return 0.0
    ratio = signal / raw
    if estimate > 0:
        ratio = max(ratio, min((signal - noise2 / 2) / estimate, np.sqrt(noise2 / 2)))
    largest = max(noise3 / (4 * noise2), 0.0)
    deviation = np.sqrt(noise2 + 4 * ratio * max(estimate, 0.0))
    return float(max(ratio, (signal + deviation * largest) / (raw + deviation)))


# --- Weighted sums of chi-square variables --------------------------------------------------------


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
    distance = 1 - 2 * weights * saddle
    second = copies * np.sum(2 * (weights / distance) ** 2) + saddle**-2
    third = copies * np.sum(8 * (weights / distance) ** 3) - 2 * saddle**-3
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
    step, integral_value = _STEP, np.inf
    while step > _SMALLEST_STEP:
        coarser, integral_value = integral_value, integral(step)
        if abs(integral_value - coarser) <= _ACCURACY * abs(integral_value):
            break
        step /= 2
    return float(np.clip(np.exp(peak) * integral_value / np.pi, 0.0, 1.0))


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
