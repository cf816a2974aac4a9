r"""Intervals of the cost that other decisions save, and of all that recalibration can save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from skcalib._util.ties import merge_ties
from skcalib.data.clusters import effective_size
from skcalib.proper.proper_terms import SmoothedProblem
from skcalib.scores import DecisionCost, weighted_mean
from skcalib.stats.means import MeanInterval, clopper_pearson, clustered_size, mean_interval

_GROWTH = 1.25  # of the number of forecasts from one range to the next


def saving_interval(
    score: DecisionCost,
    solved: list[SmoothedProblem],
    before: Sequence[np.ndarray],
    after: Sequence[np.ndarray],
    share: float,
    confidence_level: float,
    *,
    every_change: bool = False,
) -> MeanInterval:
    r"""Interval of the mean cost of the forecasts `before` minus that of those `after`.

    Each has an array (n, K) per problem, and costs are `share` times their sum. For one problem of
    two classes, the samples of class k whose decision changes from a to b are a share
    :math:`\pi_{kab}` of all, and save :math:`d_{kab} = C_{ka} - C_{kb}` each. The limits follow
    from exact limits of these shares: the squared distances of the limits of
    :math:`d_{kab} \pi_{kab}` from its estimate add up (Zou and Donner, Statistics in Medicine 27,
    2008). The samples that change are few, and the differences are of unequal size, so Student's
    interval covers too rarely. It is used for several classes or problems. With `every_change` the
    limits are also those of changes that no sample shows, as those of two models need.
    """
    one, costs = solved[0], np.array(score.costs)
    problems = zip(solved, before, after, strict=True)
    values = sum(score.loss(p.target, s) - score.loss(p.target, c) for p, s, c in problems)
    rows = one.weight, confidence_level, one.square, one.cluster
    found = mean_interval(share * values, *rows)
    if len(solved) > 1 or len(costs) > 2:
        return found
    old, new = score.decisions(before[0]), score.decisions(after[0])
    pairs = np.unique(np.column_stack([old, new])[old != new], axis=0)
    if every_change:
        pairs = np.array(list(permutations(range(costs.shape[1]), 2)))
    cells = (old == pairs[:, :1]) & (new == pairs[:, 1:])
    shares = _Shares(one, confidence_level)
    mass, square = (cells @ (w[:, None] * one.target) for w in (one.weight, shares.square))
    difference = (costs[:, pairs[:, 0]] - costs[:, pairs[:, 1]]).T
    low, high = np.sqrt(shares.reach(mass, square, difference, shares.size_of(values)).sum(axis=1))
    return replace(found, low=float(found.estimate - low), high=float(found.estimate + high))


def regret_interval(
    score: DecisionCost, solved: list[SmoothedProblem], share: float, confidence_level: float
) -> MeanInterval:
    r"""Interval of the mean regret, `share` times the sum over problems.

    It is that of the saving by the fitted maps, with another upper limit. For two classes and two
    decisions this is the limit of what any recalibration saves, where the curve of C crosses the
    threshold at most once on either side of it; see `_largest_saving`. Otherwise half of what the
    maps would save if they were right, beyond what they save, is added: their error makes the
    paired differences too small, and the saving that they predict too large, by about as much.
    """
    pairs = [one.forecast for one in solved], [one.conditional for one in solved]
    found = saving_interval(score, solved, *pairs, share, confidence_level)
    if np.shape(score.costs) == (2, 2):
        limit = share * sum(_largest_saving(score, one, confidence_level) for one in solved)
        return replace(found, high=float(max(found.high, limit)))
    predicted: Any = sum(score.divergence(one.conditional, one.forecast) for one in solved)
    missed = float(weighted_mean(share * predicted, solved[0].weight)) - found.estimate
    return replace(found, high=float(found.high + max(missed, 0.0) / 2))


def _largest_saving(score, solved, confidence_level):
    r"""Upper limit of the regret of two decisions, without a family of maps.

    With the threshold t and C on the other side of it for forecasts between u and t, and between t
    and v, the regret is the mean saving by the other decision in these two ranges,

    .. math:: E (Y - t) 1\{u < S \le t\} + E (t - Y) 1\{t < S < v\} .

    u and v are unknown but fixed, so the largest of the upper limits over all ranges is at least
    that of the right ones: it covers at least as often. The limits are those of `saving_interval`.
    From one range to the next, the number of forecasts grows by a quarter. Between them stands the
    largest estimate, with the reach of the larger range.
    """
    costs, shares = np.array(score.costs), _Shares(solved, confidence_level)
    gain, taken = costs[:, 0] - costs[:, 1], score.decisions(solved.forecast)
    slope = gain[0] - gain[1]
    distance = np.abs(merge_ties(solved.forecast[:, 1]) - (gain[0] / slope if slope else 0.0))
    estimates, reaches = [], []
    for decision, difference in enumerate((gain, -gain)):
        rows = np.flatnonzero(taken == decision)
        rows = rows[np.argsort(distance[rows], kind="stable")]
        last = np.flatnonzero(np.diff(distance[rows], append=np.inf))  # of equal forecasts
        steps = int(np.log(len(last) + 1) / np.log(_GROWTH)) + 1
        start = np.unique((_GROWTH ** np.arange(steps)).astype(int) - 1)
        start = start[start < len(last)]
        end = last[np.append(start[1:], len(last))[: len(start)] - 1]
        target = solved.target[rows]
        weights = solved.weight, shares.square
        mass, square = (np.cumsum(w[rows, None] * target, axis=0) for w in weights)
        saved = np.maximum.reduceat(mass[last] @ difference, start) if len(last) else []
        values = np.zeros(len(distance))
        sizes = [shares.size_of(values)]
        for first, stop in zip(np.append(0, end + 1), end + 1, strict=False):
            values[rows[first:stop]] = target[first:stop] @ difference
            sizes.append(shares.size_of(values))
        mass, square = (np.vstack([np.zeros(2), sums[end]]) for sums in (mass, square))
        estimates.append(np.append(0.0, saved) / shares.total)
        reaches.append(shares.reach(mass, square, difference, np.array(sizes)[:, None])[1])
    return float(np.max(np.add.outer(*estimates) + np.sqrt(np.add.outer(*reaches))))


class _Shares:
    """Exact limits of the shares of samples with some decisions and label."""

    def __init__(self, solved, confidence_level):
        self.weight, self.cluster, self.level = solved.weight, solved.cluster, confidence_level
        self.square = solved.weight**2 if solved.square is None else solved.square
        self.total, self.size = self.weight.sum(), effective_size(self.weight, self.square)

    def size_of(self, values):
        """Number of independent samples whose mean value (n,) is as uncertain."""
        if self.cluster is None:
            return self.size
        residual = values - weighted_mean(values, self.weight)
        spread = np.sqrt(weighted_mean(residual**2, self.weight))
        residual = residual / (2 * spread) if spread > 0 else residual  # as labels of rate one half
        return clustered_size(0.5, residual, self.weight, self.cluster, self.level)

    def reach(self, mass, square, difference, size):
        """Squared distances (2, ...) of the limits of savings, from sums of weights (..., 2)."""
        some = square > 0
        own = np.where(some, mass * self.total / np.where(some, square, 1.0), self.size)
        share = mass / self.total
        limits = clopper_pearson(share, own * size / self.size, self.level)
        ends = [difference * (limit - share) for limit in limits]
        return np.array([np.sum(one(*ends) ** 2, axis=-1) for one in (np.minimum, np.maximum)])
