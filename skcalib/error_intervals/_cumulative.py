"""Intervals of the largest cumulative difference."""

import numpy as np
from scipy.stats import norm as normal

from skcalib.error_intervals._gaps import normal_draws

#: Distances that differ by so many standard errors of one of them are not both the largest.
CLEAR = 4.0
_POINTS = 300  # thresholds of all problems together
_FEWEST = 40  # thresholds of a problem


def n_thresholds(n_problems):
    """Thresholds per problem at which the cumulative differences are looked at."""
    return max(_FEWEST, _POINTS // n_problems)


def largest_difference(gaps, estimate, level, n_draws, rng):
    """Limits of the share-weighted sum of largest |cumulative difference|.

    -> (low, high, error, bias). The noise of the curve is Gaussian. At thresholds whose distance
    from zero may be the largest, it can only add to the maximum: the lower limit takes the
    largest noise over all of them, on both sides of zero if need be. The upper limit is that of
    the threshold that was found, which the true maximum cannot be below.

    The estimate is the largest over all scores, the noise is drawn at some of them. So the lower
    limit is that of the largest at these: what the curve reaches in between is noise that the mean
    over many problems would add up, and at most a little signal.
    """
    curve, noise = _curves(gaps, n_draws, rng)
    found, largest, bias, seen = 0.0, np.zeros(n_draws), 0.0, 0.0
    for j in range(len(curve)):
        distance, spread = np.abs(curve[j]), noise[j].std(axis=0)
        signed = np.concatenate([curve[j], -curve[j]])
        both = np.concatenate([noise[j], -noise[j]], axis=1)
        top = int(distance.argmax())
        near = signed >= distance[top] - CLEAR * np.maximum(np.tile(spread, 2), spread[top])
        share = gaps.share[gaps.column == j][0]
        noisy = both[:, near].max(axis=1)
        seen += share * distance[top]
        largest += share * noisy
        bias += share * float(noisy.mean())
        found = found + share * np.sign(curve[j][top]) * noise[j][:, top]
    tail, error = (1 - level) / 2, float(np.std(found))
    low = seen - float(np.quantile(largest, 1 - tail))
    return low, estimate + float(normal.isf(tail)) * error, error, bias


def _curves(gaps, n_draws, rng):
    """Cumulative differences of each problem (B,), and draws of their noise (n_draws, B)."""
    rows = gaps.rows()
    increment = np.asarray(rows.sum(axis=0)).ravel()
    draws = normal_draws(rows, n_draws, rng, weight=gaps.weight)
    own = [gaps.column == j for j in range(len(gaps.cell))]
    return [np.cumsum(increment[o]) for o in own], [np.cumsum(draws[:, o], axis=1) for o in own]
