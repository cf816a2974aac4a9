r"""P-values of the unbiased kernel estimate under calibration, from the function h of a sample.

For calibrated forecasts the estimate is a degenerate U-statistic. Its law is that of

.. math::

    \frac1n \sum_{i \ne j} h_{ij} Z_i Z_j = \sum_l \lambda_l Z_l^2

with independent standard normal Z and the eigenvalues of h / n without its diagonal, which sum to
zero. It has the variance of the statistic; with the diagonal in, which the textbook has, it is
too wide by a term of order 1 / n, which matters: rejections of ten calibrated classes at .05
fall to .021 for n = 100. Each function here gives (statistic, p-value).
"""

import numpy as np

from skcalib.hypothesis._mixture import chi_square_mixture_sf

SMALLEST = float(np.finfo(np.float64).tiny)
_ROWS = 1000  # that a spectrum is computed from
_ENTRIES = 1 << 22  # of the draws that are evaluated at a time


def spectral(h, total, diagonal, n_resamples, rng):
    """Eigenvalues of at most 1,000 rows; the tail of the mixture by numerical inversion."""
    n_samples = len(h)
    rows = h if n_samples <= _ROWS else h.take(rng.choice(n_samples, _ROWS, replace=False))
    matrix = rows.matrix()
    np.fill_diagonal(matrix, 0)
    weights = np.linalg.eigvalsh(matrix) / len(rows)
    statistic = (total - diagonal.sum()) / n_samples
    return statistic, chi_square_mixture_sf(statistic, weights)


def multipliers(h, total, diagonal, n_resamples, rng):
    """The same law from all rows, by simulation."""
    n_samples = len(h)
    statistic = (total - diagonal.sum()) / n_samples
    draws = (
        (np.einsum("ib,ib->b", z, h.multiply(z)) - diagonal @ z**2) / n_samples
        for z in _batches(n_samples, n_resamples, rng.standard_normal)
    )
    return statistic, _share(draws, statistic, n_resamples)


def bootstrap(h, total, diagonal, n_resamples, rng):
    r"""Arcones and Gine's bootstrap of a degenerate U-statistic, which W19 uses.

    The statistic is n / (n - 1) SKCE - V with V the mean of h over all pairs, and a draw
    :math:`\frac2{n (n - 1)} \sum_{i < j} h^*_{ij} - \frac2n \sum_i \bar h^*_i`, where
    :math:`\bar h_i` is the mean of h(i, j) over j, in terms of the counts of each sample.
    """
    n_samples = len(h)
    statistic = (total - diagonal.sum()) / (n_samples - 1) ** 2 - total / n_samples**2
    mean = h.multiply(np.ones((n_samples, 1)))[:, 0] / n_samples
    even = np.full(n_samples, 1 / n_samples)

    def counts(size):
        return np.ascontiguousarray(rng.multinomial(n_samples, even, size[1]).T, dtype=np.float64)

    draws = (
        (np.einsum("ib,ib->b", c, h.multiply(c)) - diagonal @ c) / (n_samples * (n_samples - 1))
        - 2 / n_samples * (mean @ c)
        for c in _batches(n_samples, n_resamples, counts)
    )
    return statistic, _share(draws, statistic, n_resamples)


def _batches(n_samples, n_resamples, draw):
    """Arrays (n, R) of draws, of bounded size."""
    together = max(1, _ENTRIES // n_samples)
    for start in range(0, n_resamples, together):
        yield draw((n_samples, min(together, n_resamples - start)))


def _share(draws, statistic, n_resamples):
    """Share of the draws, and the observed statistic itself, that are as large."""
    # Sums in another order differ by roundings: what is equal but for these counts as equal.
    threshold = statistic - 1e-9 * abs(statistic)
    return (1 + sum(np.sum(batch >= threshold) for batch in draws)) / (n_resamples + 1)


NULL_LAWS = {"spectral": spectral, "multipliers": multipliers, "bootstrap": bootstrap}
