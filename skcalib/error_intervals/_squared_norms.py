r"""Squared norms of means: their estimates near zero and far from it, by one family of laws.

A debiased squared binned error, the unbiased kernel error and the debiased error of embeddings are
all :math:`T = \|\bar u\|^2 - tr S` with a mean :math:`\bar u` that is nearly normal around
:math:`\mu`, with covariance S of eigenvalues :math:`\lambda`. So T estimates
:math:`\theta = \|\mu\|^2` without bias, and has the cumulants

.. math::

    \kappa_2 = 2 \sum_l \lambda_l^2 + 4 \mu^\top S \mu, \qquad
    \kappa_3 = 8 \sum_l \lambda_l^3 + 24 \mu^\top S^2 \mu .

With :math:`\theta = 0` T is of the order of S and skewed; far from zero it is normal and of the
order of its root. Every normal interval gets one of the two wrong. With
:math:`\mu^\top S \mu = r \theta`, where r depends on the direction of the mean alone, the laws are
a family of one parameter, and :math:`\mu^\top S^2 \mu` is put at its least value,
:math:`r^2 \theta`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammainccinv, ndtr

from skcalib._arguments import check_notion
from skcalib.errors.kernel import (
    Embedding,
    ResidualKernel,
    _check_components,
    check_kernel,
    check_locations,
    one_problem,
)
from skcalib.problem import check_problem

_NORMAL = 1e-3  # a skewness that is as good as zero


@dataclass(frozen=True)
class SquaredNorm:
    """The family of laws of a debiased squared norm, and the estimate that was seen.

    ``noise2`` and ``noise3`` are the cumulants at zero; ``slope`` is r; ``between`` is the variance
    of the estimate, divided by theta^2, from what is random beside the mean: the masses of cells.
    ``padding`` is the standard error over the one with an r that has no margin.
    """

    estimate: float
    noise2: float
    noise3: float
    slope: float
    between: float = 0.0
    padding: float = 1.0

    @classmethod
    def from_mean(cls, signal, raw, estimate, noise2, noise3, between=0.0):
        r"""From :math:`\bar u^\top S \bar u`, :math:`\|\bar u\|^2`, T and the cumulants at zero."""
        slope, padding = signal_slope(signal, raw, estimate, noise2, noise3), 1.0
        if estimate > 0 and noise2 > 0:
            plain = max(signal - noise2 / 2, 0.0) / estimate
            variance = noise2 + between * estimate**2 + 4 * estimate * np.array([slope, plain])
            padding = float(np.sqrt(variance[0] / variance[1]))
        found = (estimate, noise2, noise3, slope, between, padding)
        return cls(*map(float, found))

    @property
    def standard_error(self):
        """Root of the variance at the estimate, which counts as zero where it is negative."""
        return float(np.sqrt(self._cumulants(max(self.estimate, 0.0))[0]))

    def interval(self, level):
        """Parameters whose tests do not reject the estimate.

        The upper limit is at least that of an estimate at the median of its law at zero: an
        interval would be a point where chance made the estimate very small. So the upper limit
        is never below parameters up to that one, h, and tests of these may spend all of their
        error on large estimates; the others spend one half on either side. The coverage is the
        level for every parameter, zero included.
        """
        spare = 1 - level
        typical = self._median_at_zero()
        reached = self._upper(typical, spare / 2)
        high = self._upper(max(self.estimate, typical), spare / 2)
        low = self._lower(spare)
        if low > reached:
            low = max(reached, self._lower(spare / 2))
        return float(low), float(high)

    def _lower(self, tail):
        """The parameter for which so large an estimate has the probability `tail`."""
        if self._tail(self.estimate, 0.0) >= tail:
            return 0.0
        return brentq(lambda t: self._tail(self.estimate, t) - tail, 0.0, self.estimate)

    def _upper(self, value, tail):
        """The parameter for which so small a value has the probability `tail`."""
        start = max(value, 0.0)
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


def signal_slope(signal, raw, estimate, noise2, noise3):
    r"""The ratio :math:`r = \mu^\top S \mu / \|\mu\|^2` from estimates of both.

    ``signal`` and ``raw`` have the mean itself in them, noise included, so that their ratio lies
    between r and that of pure noise; without the noise it is right where the estimate is far from
    zero, and wild elsewhere. An r that is too small makes the upper limit too small, most of all
    where chance has made both small: so the ratio is at least what it is with one more standard
    error of signal in the direction of the large eigenvalues.
    """
    if not (raw > 0 and noise2 > 0):
        return 0.0
    ratio = signal / raw
    if estimate > 0:
        ratio = max(ratio, min((signal - noise2 / 2) / estimate, np.sqrt(noise2 / 2)))
    largest = max(noise3 / (4 * noise2), 0.0)
    more = np.sqrt(noise2 + 4 * ratio * max(estimate, 0.0))
    return float(max(ratio, (signal + more * largest) / (raw + more)))


# --- Intervals of the kernel calibration error and of the error of mean embeddings ----------------


_ROWS = 600  # that the spectrum of the noise is computed from


def residual_kernel(options, n_jobs):
    """The function h of two samples, from all arguments of `kernel_calibration_error`."""
    problem = _problem(options)
    notion = check_notion(options["notion"])
    return ResidualKernel.of_problem(problem, check_kernel(options["kernel"]), notion, n_jobs)


def squared_embedding_norm(h, rng):
    """`SquaredNorm` of the unbiased kernel calibration error.

    The mean is that of the features w_i k(S_i, .)(y_i - S_i), whose products are h. Centred
    products give the noise; the second and third cumulant of its law leave the diagonal out, as
    unbiased estimates do.
    """
    n_samples, weight = len(h), h.weight
    ones = np.ones((n_samples, 1))
    mean = h.multiply(ones)[:, 0] / n_samples
    raw = float(mean.mean())
    along = mean - weight * raw
    pairs = n_samples**2 - float(weight @ weight)  # weights have the mean one
    unbiased = (n_samples**2 * raw - h.diagonal().sum()) / pairs
    signal = float(along @ along) / (n_samples * (n_samples - 1))
    rows = np.arange(n_samples)
    if n_samples > _ROWS:
        rows = rng.choice(n_samples, _ROWS, replace=False)
    m, some = len(rows), h.take(rows)
    w, a = weight[rows], mean[rows]
    noise = some.matrix() - np.outer(w, a) - np.outer(a, w) + raw * np.outer(w, w)
    np.fill_diagonal(noise, 0.0)
    noise2 = 2 * np.sum(noise**2) / (m * (m - 1) * n_samples**2)
    noise3 = 8 * np.sum((noise @ noise) * noise) / (m * (m - 1) * (m - 2) * n_samples**3)
    return SquaredNorm.from_mean(signal, raw, unbiased, noise2, noise3)


def squared_location_norm(options):
    """`SquaredNorm` of the error of mean embeddings at locations."""
    problem, notion = _problem(options), check_notion(options["notion"])
    columns = one_problem(problem, notion)[0].shape[1]
    points = check_locations(options["locations"], columns)
    component = _check_components(options["location_labels"], problem, notion, points)
    embedding = Embedding(problem, check_kernel(options["kernel"]), notion, points, component)
    features = embedding._features(slice(None), embedding.target) / np.sqrt(len(points))
    n_samples = len(features)
    mean = features.mean(axis=0)
    noise = (features - embedding.weight[:, None] * mean) / np.sqrt(n_samples * (n_samples - 1))
    matrix, raw = noise.T @ noise, float(mean @ mean)
    estimate, noise2 = raw - float(np.trace(matrix)), 2 * float(np.sum(matrix**2))
    noise3 = 8 * float(np.sum((matrix @ matrix) * matrix))
    return SquaredNorm.from_mean(float(mean @ matrix @ mean), raw, estimate, noise2, noise3)


def _problem(options):
    return check_problem(
        options["y_true"],
        options["y_proba"],
        sample_weight=options["sample_weight"],
        labels=options["labels"],
        pos_label=options["pos_label"],
    )
