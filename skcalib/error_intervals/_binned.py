"""Intervals of binned errors: squares by inversion, absolute values from both sides."""

import numpy as np
from scipy.sparse import diags
from scipy.stats import norm as normal
from scipy.stats import t as student

from skcalib.error_intervals._gaps import _DENSE, covariance, normal_draws
from skcalib.error_intervals._squared import SquaredNorm

#: Gaps of so many standard errors have a sign that is beyond doubt.
CLEAR = 3.0
#: Biases of up to so many standard errors do not move a coverage visibly.
NEGLIGIBLE = 0.2


def squared_gaps(gaps, n_draws, rng):
    """`SquaredNorm` of the debiased sum of share times mass times squared gap."""
    gap, mass, contributions = gaps.gap(), gaps.mass(), gaps.contributions()
    several = gaps.inverse_size() < 1 - 1e-9
    root = np.sqrt(gaps.share * mass)
    mean = np.where(several, root * gap, 0.0)
    noise = contributions @ diags(root)
    trace, raw = float(noise.multiply(noise).sum()), float(mean @ mean)
    along = noise @ mean
    signal = float(along @ along)
    if gaps.n_cells <= _DENSE:
        matrix = covariance(noise)
        noise2, noise3 = 2 * np.sum(matrix**2), 8 * np.sum((matrix @ matrix) * matrix)
    else:
        norms = np.square(normal_draws(noise, n_draws, rng)).sum(axis=1)
        noise2, noise3 = norms.var(), np.mean((norms - norms.mean()) ** 3)
    masses = gaps.influence(np.zeros_like(gap), gap**2)
    between = float(masses @ masses) / raw**2 if raw > 0 else 0.0
    return SquaredNorm.from_mean(signal, raw, raw - trace, noise2, noise3, between)


def absolute_gaps(gaps, level, n_draws, rng):
    """Limits of the sum of share times mass times |gap| -> (low, high, error, bias)."""
    gap, mass = gaps.gap(), gaps.mass()
    contributions = gaps.contributions()
    spread = np.sqrt(gap_variance(gaps, contributions))
    clear = np.abs(gap) > CLEAR * spread
    factor = gaps.share * mass
    influence = gaps.influence(np.sign(gap), np.abs(gap))
    error = float(np.sqrt(np.sum(influence**2)))
    noise = normal_draws(contributions, n_draws, rng)
    # Where a larger variance is assumed than was found, the draws are widened to it.
    drawn = np.sqrt(np.asarray(contributions.multiply(contributions).sum(axis=0)).ravel())
    extra = np.sqrt(np.maximum(spread**2 - drawn**2, 0.0))
    noise = noise + extra * rng.standard_normal(noise.shape) if extra.any() else noise
    # With all the bias: what is not clear is zero, and every noise adds to it.
    linear = factor * np.sign(gap)
    folded = noise[:, clear] @ linear[clear] + np.abs(noise[:, ~clear]) @ factor[~clear]
    between = error**2 - float(np.sum((contributions @ linear) ** 2))
    folded = folded + np.sqrt(max(between, 0.0)) * rng.standard_normal(n_draws)
    tail = (1 - level) / 2
    estimate = float(factor @ np.abs(gap))
    error = max(error, float(np.std(noise @ linear)))
    low = estimate - float(np.quantile(folded, 1 - tail))
    high = estimate + float(normal.isf(tail)) * error
    bias = float(factor[~clear] @ spread[~clear]) * np.sqrt(2 / np.pi)
    return low, high, error, bias


def largest_gap(gaps, level):
    """Limits of the largest |gap| -> (low, high, error, number of bins that may be the largest)."""
    size = np.abs(gaps.gap())
    spread = np.sqrt(gap_variance(gaps, gaps.contributions(), smooth=True))
    degrees = np.maximum(1 / gaps.inverse_size() - 1, 1.0)
    tail = (1 - level) / 2
    candidates = int(np.sum(size + CLEAR * spread >= np.max(size - CLEAR * spread)))
    # Sidak: P(max |Z| <= q) >= P(|Z| <= q)^m for normal Z of any correlation.
    both = (1 - (1 - tail) ** (1 / candidates)) / 2 if candidates > 1 else tail
    low = np.max(size - student.isf(both, degrees) * spread)
    high = np.max(size + student.isf(tail, degrees) * spread)
    return float(low), float(high), float(spread[size.argmax()]), candidates


def gap_variance(gaps, contributions, *, smooth=False):
    """Variance of each gap, at least that of labels drawn from the forecasts.

    A few labels that happen to be equal have no variance, and prove nothing. A sample that is
    alone has 1/4, the largest variance of a label. ``smooth`` gives each cell at least the
    variance of one more hit and one more miss: needed where a single gap decides.
    """
    found = np.asarray(contributions.multiply(contributions).sum(axis=0)).ravel()
    inverse, mass = gaps.inverse_size(), gaps.mass()
    size = np.abs(gaps.residual)  # of y - s with y in {0, 1}, so that s (1 - s) is:
    drawn = gaps.sum(gaps.weight**2 * size * (1 - size)) / mass**2
    found = np.where(inverse < 1 - 1e-9, np.maximum(found, drawn), 0.25)
    if not smooth:
        return found
    cases = 1 / inverse
    rate = (cases * gaps.sum(gaps.weight * (gaps.residual > 0)) / mass + 1) / (cases + 2)
    return np.maximum(found, rate * (1 - rate) / (cases + 2))
