"""Isotonic calibration curves and their bands.

`IsotonicCurve` is the fitted curve. The consistency band covers the curves of calibrated forecasts;
the confidence band (`_isotonic_interval`) covers the true curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Self

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import rel_entr
from scipy.stats import chi2
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.messages import is_whole, shown
from skcalib._util.types import ArrayLike
from skcalib.data.clusters import independent_size, intraclass_correlation, student_level
from skcalib.data.problem import Problem
from skcalib.smoothers.partition import TiedScores

BANDS = ("consistency", "confidence")
_ENTRIES = 1 << 20  # labels drawn at a time, to bound the memory
_ROUNDING = 1e-12  # heights that differ by at most this are one block
_GROUPS = 2_500  # of neighbouring scores, for the many fits of a consistency band
_DISTINCT = 10_000  # scores up to which there are no groups
_POINTS = 200  # points of a curve with many distinct scores, in rank and in value, besides knots


class IsotonicCurve:
    """Isotonic regression of labels on scores, which are sorted and whose ties are merged once.

    ``tied`` holds the distinct scores. ``mean``, ``level`` and ``block`` are the mean label, the
    height of the curve and the number of the block of constant height at each score. ``prob_pred``
    and ``prob_true`` are the points of the curve to plot.
    """

    joined = True

    def __init__(
        self,
        score: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> None:
        self.tied = TiedScores(score, weight)
        self.mean = self.tied.means(label)
        level = self._fit(self.mean)
        rises = np.diff(level, prepend=-np.inf) > _ROUNDING
        self.block = np.cumsum(rises) - 1
        self.level = level[rises][self.block]
        squares = weight**2 if square is None else square
        self._share = weight.sum() / np.sum(squares)  # effective number of labels per weight
        self._units = np.inf
        if cluster is not None:
            self._share = self._share / self._design_effect(label, weight, cluster)
            self._units = independent_size(weight, cluster=cluster)
        knots = np.concatenate([np.flatnonzero(rises), np.flatnonzero(rises)[1:] - 1])
        self._points = spread(self.tied.score, knots)
        self.prob_pred = self.tied.score[self._points]
        self.prob_true = self.level[self._points]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The curve of a binary problem."""
        rows = problem.forecast[:, 1], problem.target[:, 1], problem.weight
        return cls(*rows, problem.square, problem.cluster)

    def levels(self, label: np.ndarray) -> np.ndarray:
        """Height of the curve for other labels (n,) at each distinct score."""
        return self._fit(self.tied.means(label))

    def refit(self, labels: np.ndarray) -> np.ndarray:
        """Heights for other labels (n, B) at the points to plot."""
        return np.stack([self.levels(label)[self._points] for label in labels.T], axis=1)

    def grouped(self, problem: Problem) -> tuple[Self, Problem]:
        r"""The curve and its problem with neighbouring scores as one, for refits to other labels.

        Scores s of rank u in (0, 1) are one group if
        :math:`G (\arcsin \sqrt u + \arcsin \sqrt s) / \pi` rounds down to the same number, with
        G = 2,500, which keeps single scores apart near the ends. If the forecasts are calibrated,
        a block of an isotonic curve of n labels is about :math:`n^{-1/3}` long in units of the
        angle of s or of u, and a group is less than a tenth of it up to n = 1,000,000. With at most
        10,000 distinct scores nothing changes.
        """
        tied = self.tied
        if len(tied.score) <= _DISTINCT:
            return self, problem
        rank = (np.cumsum(tied.mass) - 0.5 * tied.mass) / tied.mass.sum()
        angles = np.arcsin(np.sqrt(rank)) + np.arcsin(np.sqrt(np.clip(tied.score, 0, 1)))
        place = np.floor(angles * (_GROUPS / np.pi))
        group = np.cumsum(np.diff(place, prepend=place[0]) > 0)
        mass = np.bincount(group, tied.mass)
        score = np.bincount(group, tied.mass * tied.score) / mass
        square = np.bincount(group[tied.place], problem.squares)
        found = copy(self)
        found.tied, found._points = TiedScores(score, mass), group[self._points]
        forecast = np.column_stack([1 - score, score])
        return found, Problem(forecast, forecast, mass, problem.classes, square)

    def confidence(
        self, confidence_level: float, n_resamples: int, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray]:
        """Likelihood-ratio interval at the points to plot; uses no random numbers."""
        if np.isfinite(self._units):
            confidence_level = student_level(confidence_level, self._units)
        return _isotonic_interval(
            self.mean, self._share * self.tied.mass, self._points, confidence_level
        )

    def _design_effect(self, label, weight, cluster):
        """Variance of the mean of each block over that of independent labels; one correlation."""
        place = self.tied.place
        level, block = self.level[place], self.block[place]
        spread = np.sqrt(level * (1 - level))
        common = intraclass_correlation(label - level, spread, weight, cluster)
        _, pair = np.unique(np.column_stack([block, cluster]), axis=0, return_inverse=True)
        sums = np.bincount(pair.ravel(), weight)
        of_block = np.zeros(len(sums), dtype=np.intp)
        of_block[pair.ravel()] = block
        together = np.bincount(of_block, sums**2) / np.bincount(block, weight**2)
        return (1 + common * (together - 1))[self.block]

    def _fit(self, mean):
        return self.tied.isotonic(mean).clip(0, 1)  # only rounding leaves [0, 1]


def spread(score: np.ndarray, knots: ArrayLike = ()) -> np.ndarray:
    """Indices of the knots, and of distinct scores spread evenly in rank and in value."""
    if len(score) <= 2 * _POINTS:
        return np.arange(len(score))
    rank = np.linspace(0, len(score) - 1, _POINTS).astype(int)
    value = np.searchsorted(score, np.linspace(score[0], score[-1], _POINTS))
    return np.unique(np.concatenate([rank, value, np.asarray(knots, dtype=int)]))


def check_resamples(n_resamples: int, confidence_level: float) -> None:
    """Enough resamples for order statistics to enclose the level."""
    needed = int(np.ceil(2 / (1 - confidence_level) - 1e-9)) - 1
    if not is_whole(n_resamples) or n_resamples < needed:
        raise ValueError(
            f"n_resamples must be a whole number of at least {needed} for a band of level "
            f"{confidence_level:g}, got {shown(n_resamples)}."
        )


def consistency_band(
    curve: IsotonicCurve,
    problem: Problem,
    confidence_level: float,
    n_resamples: int,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise band of the curves that calibrated forecasts would give, at `curve.prob_pred`.

    Labels are drawn from the forecasts and the curve is fitted to them again. The band lies between
    two order statistics of the B refitted curves, of ranks k and B + 1 - k with
    k = floor((B + 1)(1 - level) / 2). If the forecasts are calibrated, the observed curve is one
    more draw of the same kind, so each point is inside with probability (B + 1 - 2k) / (B + 1) or
    more, at every sample size. For clusters, forecasts plus residuals with a random sign of each
    cluster take the place of labels. With more than 10,000 distinct scores, the refitted curves are
    those of `IsotonicCurve.grouped`.
    """
    if isinstance(curve, IsotonicCurve) and problem.cluster is None:
        curve, problem = curve.grouped(problem)
    draws = label_draws(problem, n_resamples, rng)
    refits = Parallel(n_jobs=n_jobs)(delayed(curve.refit)(draw.T) for draw in draws)
    curves = np.concatenate(refits, axis=1)
    curves.sort(axis=1)
    # 1e-9 corrects rounding: (B + 1)(1 - level) / 2 should be whole for B = 199 and level .95.
    rank = int((n_resamples + 1) * (1 - confidence_level) / 2 + 1e-9)
    return curves[:, rank - 1], curves[:, n_resamples - rank]


def label_draws(
    problem: Problem, n_resamples: int, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Labels of a binary problem drawn from its forecasts, in chunks of rows of (B, n).

    Where a row stands for several samples, as many labels as the effective number of samples are
    drawn at each distinct score, and each of its rows gets their mean.
    """
    probability = problem.forecast[:, 1]
    step, size = max(1, _ENTRIES // len(probability)), None
    if problem.cluster is not None:
        residual = problem.target[:, 1] - probability
        for start in range(0, n_resamples, step):
            shape = min(step, n_resamples - start), int(problem.cluster.max()) + 1
            signs = rng.choice([-1.0, 1.0], size=shape)
            yield probability + signs[:, problem.cluster] * residual
        return
    if problem.square is not None:
        distinct, place = np.unique(probability, return_inverse=True)
        mass, square = (np.bincount(place, sums) for sums in (problem.weight, problem.square))
        size, probability = np.rint(mass**2 / square).astype(np.int64), np.clip(distinct, 0, 1)
    for start in range(0, n_resamples, step):
        shape = min(step, n_resamples - start), len(probability)
        if size is None:
            yield rng.random_sample(shape) < probability
        else:
            yield (rng.binomial(size, probability, shape) / size)[:, place]


def _isotonic_interval(mean, mass, points, confidence_level):
    """Likelihood-ratio interval of an increasing curve at some of its knots.

    `mean` and `mass` are the mean label and the effective number of labels of each distinct score.
    A height is kept unless the log likelihood of the best increasing curve through it is below that
    of the best increasing curve by more than half the chi-squared quantile (Banerjee & Wellner,
    2001). No derivative and no bandwidth has to be estimated. The bootstrap of isotonic curves
    fails.
    """
    below = _prefix_pools(mean, mass, points)
    above = _prefix_pools(1 - mean[::-1], mass[::-1], len(mean) - 1 - points[::-1])[::-1]
    own = zip(mean[points, None], mass[points, None], strict=True)
    pools = [(0.0, *pool) for pool in own]
    # Constraint: pools on the left of t are at most the height, pools on the right at least.
    pools += [(-1.0, level, size) for level, size in below]
    pools += [(1.0, 1 - level, size) for level, size in above]
    row = np.repeat(np.tile(np.arange(len(points)), 3), [len(level) for _, level, _ in pools])
    side = np.concatenate([np.full(len(level), side) for side, level, _ in pools])
    level = np.concatenate([level for _, level, _ in pools])
    size = np.concatenate([size for _, _, size in pools])

    def cost(height):
        height = height[row]
        moved = np.where(side < 0, np.minimum(height, level), height)
        moved = np.where(side > 0, np.maximum(height, level), moved)
        divergence = rel_entr(level, moved) + rel_entr(1 - level, 1 - moved)
        return np.bincount(row, size * divergence, len(points))

    best = isotonic_regression(mean, weights=mass).x[points].clip(0, 1)
    limit = cost(best) + 0.5 * chi2.ppf(confidence_level, 1)
    return tuple(_last_within(cost, limit, best, np.full(len(best), end)) for end in (0.0, 1.0))


def _prefix_pools(mean, mass, ends):
    """Levels and sizes of the pools of the isotonic fit to mean[:end], for increasing ends."""
    level, size, start, pools = np.empty(0), np.empty(0), 0, []
    for end in ends:  # pools of a prefix stay pooled in longer prefixes
        level = np.concatenate([level, mean[start:end]])
        size = np.concatenate([size, mass[start:end]])
        if len(level):
            fit = isotonic_regression(level, weights=size).x.clip(0, 1)
            first = np.flatnonzero(np.diff(fit, prepend=-np.inf))
            level, size = fit[first], np.add.reduceat(size, first)
        pools.append((level, size))
        start = end
    return pools


def _last_within(cost, limit, inside, outside):
    """Bisection between a height that is within the limit and the end of the scale."""
    reached = cost(outside) <= limit
    end = outside
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        within = cost(middle) <= limit
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(reached, end, inside)
