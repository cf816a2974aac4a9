"""Statistics and p-values of groups against all samples with equal scores.

`EqualScores` regresses labels and groups on a basis of functions of the score. The statistic is the
covariance of the labels and the group at equal scores: see `differences_at_equal_scores`, and
doc/design.rst for its basis and bias.

`compare` tests groups, and `label_sum_pvalue` computes the p-values.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student

from skcalib._util.arithmetic import merge_ties
from skcalib._util.validation import mean_one
from skcalib.data.clusters import (
    cluster_sums,
    design_effect,
    effective_size,
    effective_size_of_sums,
)
from skcalib.data.problem import Problem
from skcalib.links.averaging import averaged_map
from skcalib.smoothers import IsotonicSmoother
from skcalib.smoothers._base import cross_predict, smooth_other_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._util.types import Fold

_FEWEST, _MOST = 3, 30  # intervals of functions of the position
_RANK = 1e-8
_ISOTONIC = 20  # smallest number of samples for which jumps of the curve are estimated


class EqualScores:
    """Residuals and groups, adjusted for the score; all arrays have shape (n,), as in `Problem`.

    `hit` is 1 where the event happened. `offset` is a parametric calibration curve at each score,
    fitted by default. `folds` are the rows (train, test) of the folds of the isotonic curve, drawn
    by default.

    ``curve`` is the fitted frequency of the event at each score. ``residual`` is the label minus
    the curve before it is clipped, orthogonal to the basis. ``position`` is the rank of the score
    between 0 and 1, by mass and information in equal parts.
    """

    def __init__(
        self,
        score: np.ndarray,
        hit: np.ndarray,
        weight: np.ndarray,
        offset: np.ndarray | None = None,
        *,
        square: np.ndarray | None = None,
        count: np.ndarray | None = None,
        folds: Sequence[Fold] | None = None,
        cluster: np.ndarray | None = None,
    ) -> None:
        self.score, self.hit, self.cluster = score, hit, cluster
        self.weight = mean_one(weight, count)
        self.count = np.ones(len(score)) if count is None else count
        fit_square = square
        if square is None:
            square = weight**2
            fit_square = square if np.ptp(weight) else None  # as in the default calibration error
        if offset is None:
            offset = _parametric_curve(score, hit, weight, fit_square, cluster)
        self.square = square * (self.weight.sum() / weight.sum()) ** 2
        self.size = effective_size(weight, square)
        if cluster is not None:
            spread = np.sqrt(offset * (1 - offset))
            self.size /= design_effect(hit - offset, spread, weight, cluster)
        label_weight = weight / self.count
        self.equal_weights = np.ptp(label_weight) <= 1e-9 * label_weight.max()
        self.offset, self._folds = offset, folds
        basis, self.position = self._basis(intervals_for(self.size))
        self._directions = np.empty((len(score), 0))
        self.residual = hit - self.offset
        self._append(basis)
        room = 0.25 / self.count.sum()
        self.curve = np.clip(hit - self.residual, room, 1 - room)

    @classmethod
    def of_problem(cls, problem: Problem, folds: Sequence[Fold] | None = None) -> Self:
        """Of the samples of a binary problem; the rows of a sketch have folds."""
        return cls(
            merge_ties(np.clip(problem.forecast[:, 1], 0, 1)),
            problem.target[:, 1],
            problem.weight,
            square=problem.square,
            count=problem.count,
            folds=folds,
            cluster=problem.cluster,
        )

    @property
    def inflation(self) -> float:
        """Correction of squared residuals for the degrees of freedom of the fit."""
        return self.size / max(self.size - self._directions.shape[1], 1.0)

    @property
    def variance(self) -> np.ndarray:
        """Variance of each label given its score, corrected for the fit of the curve."""
        return self.curve * (1 - self.curve) * self.inflation

    def robust_variance(self, terms: np.ndarray) -> np.ndarray:
        """Variance of sums of terms (n, ...) of mean zero, by cluster if there are any."""
        return self.inflation * np.sum(cluster_sums(terms, self.cluster) ** 2, axis=0)

    def units(self, centred: np.ndarray) -> np.ndarray:
        """Effective number of clusters for the statistic of centred columns (n, m); or infinity."""
        if self.cluster is None:
            return np.full(centred.shape[1], np.inf)
        sums = cluster_sums(self.weight[:, None] * centred**2, self.cluster)
        return effective_size_of_sums(sums.sum(axis=0), np.sum(sums**2, axis=0))

    def beyond(self, columns: np.ndarray) -> Self:
        """The same comparison, at equal values of further columns (n, m) too."""
        extended = copy(self)
        extended._append(columns)
        return extended

    def center(self, columns: np.ndarray) -> np.ndarray:
        """Residuals of columns (n, m) after regression on the basis."""
        if not self._directions.shape[1]:
            return columns
        inner = self._directions.T @ (self.weight[:, None] * columns)
        return columns - self._directions @ inner

    def variance_at_equal_scores(self, columns: np.ndarray) -> np.ndarray:
        """Variance of columns (n, m) among samples that are neighbours in the score.

        It is 0 for functions of the score: with equal scores there is nothing to compare.
        """
        number, here = np.bincount(self._cell), np.bincount(self._cell, self.weight)
        several = number > 1
        factor = np.where(several, number / np.maximum(number - 1, 1), 0.0)[self._cell]
        means = cluster_sums(self.weight[:, None] * columns, self._cell) / here[:, None]
        squares = (columns - means[self._cell]) ** 2
        known = self.weight * several[self._cell]
        return (factor * self.weight) @ squares / known.sum() if known.any() else 0 * squares[0]

    def _append(self, columns):
        columns = self.center(np.asarray(columns, dtype=np.float64))
        gram = columns.T @ (self.weight[:, None] * columns)
        scale = np.trace(gram)
        if not scale > 0:
            return
        values, vectors = np.linalg.eigh(gram)
        large = values > _RANK * scale
        added = columns @ (vectors[:, large] / np.sqrt(values[large]))
        self._directions = np.hstack([self._directions, added])
        inner = added.T @ (self.weight * self.residual)
        self.residual = self.residual - added @ inner

    @cached_property
    def _cell(self):
        """Cells (n,) of equal scores, with the next score where one sample has its own."""
        _, level, count = np.unique(self.score, return_inverse=True, return_counts=True)
        cell, number, filled = np.empty(len(count), dtype=int), 0, 0
        for k, size in enumerate(count.tolist()):
            cell[k], filled = number, filled + size
            if filled > 1:
                number, filled = number + 1, 0
        return cell[level]

    def _basis(self, n_intervals):
        """Functions of the position, and an isotonic curve."""
        information = self.weight * self.offset * (1 - self.offset)
        total = max(information.sum(), 1e-300)
        mass = 0.5 * self.weight / self.weight.sum() + 0.5 * information / total
        columns, position = functions_of_position(self.score, mass, n_intervals)
        few = len(np.unique(position)) <= n_intervals + 1 or len(position) <= _ISOTONIC
        if few or np.ptp(self.hit) == 0:
            return columns, position
        curve = _monotone_curve(self.score, self.hit, self.weight, self._folds, self.cluster)
        return np.hstack([columns, curve[:, None]]), position


def _monotone_curve(score, hit, weight, folds, cluster):
    """Frequency of the event by cross-fitted isotonic regression, which can jump.

    No sample affects its own frequency, nor does any other of its cluster.
    """
    forecast, target = np.column_stack([1 - score, score]), np.column_stack([1 - hit, hit])
    smoother = IsotonicSmoother()
    if folds is not None:
        curve = cross_predict(forecast, target, weight, _fit_isotonic, folds)
    elif cluster is not None:
        curve = smooth_other_clusters(smoother, forecast, target, weight, cluster)
    else:
        curve = smoother.fit(forecast, target, weight).smooth_held_out()
    return curve[:, 1]


def _fit_isotonic(forecast, target, weight):
    return IsotonicSmoother().fit(forecast, target, weight).predict


def _parametric_curve(score, hit, weight, square, cluster):
    """Frequency of the event by averaged recalibration maps, fitted to all samples."""
    if np.ptp(hit) == 0:
        return np.full(len(hit), float(hit[0]))
    forecast = np.column_stack([1 - score, score])
    target = np.column_stack([1 - hit, hit])
    return averaged_map(forecast, target, weight, square, cluster)(forecast)[:, 1]


def intervals_for(size: float) -> int:
    """Number of intervals of the functions of the position for an effective number of samples."""
    return int(np.clip(round(size ** (1 / 3)), _FEWEST, _MOST))


def functions_of_position(
    score: np.ndarray, mass: np.ndarray, n_intervals: int
) -> tuple[np.ndarray, np.ndarray]:
    """Functions of scores (n,), and their positions, the shares of the mass (n,) below them.

    The functions are piecewise linear in the position, with an indicator of each frequent score; or
    there is an indicator of each score, if these are few.
    """
    values, which = np.unique(score, return_inverse=True)
    mass = np.bincount(which, mass)
    position = ((np.cumsum(mass) - mass / 2) / mass.sum())[which]
    often = np.arange(len(values))
    if len(values) > n_intervals + 1:
        often = np.flatnonzero(mass >= 0.5 * mass.sum() / n_intervals)
    columns = (which[:, None] == often).astype(np.float64)
    if len(values) > n_intervals + 1:
        knots = np.arange(n_intervals + 1)
        hats = np.clip(1 - np.abs(position[:, None] * n_intervals - knots), 0.0, None)
        columns = np.hstack([hats, columns])
    return columns, position


# --- Statistics of groups -------------------------------------------------------------------------


_LEAST_VARIANCE = 1.0  # sum of c (1 - c) in a group: about the events that are expected
_LEAST_SHARE = 0.1  # of the variance of a group: what the score does not explain
_LEAST_CLUSTERS = 5.0  # effective number for the statistic of a group


@dataclass(frozen=True)
class Statistics:
    """Arrays (m,) of the statistics of columns; the p-value of an untested one is nan."""

    total: np.ndarray
    variance: np.ndarray
    information: np.ndarray
    pvalue: np.ndarray


def compare(
    equal: EqualScores, member: np.ndarray, least_share: float = _LEAST_SHARE
) -> Statistics:
    """`Statistics` of columns (n, m) of 0 and 1.

    A column has no p-value if the basis, or the scores next to each sample, explain all but
    `least_share` of its variance, if hardly any event or hardly any non-event is expected in it, or
    if it has few clusters. With clusters
    the p-value is at least that of Student's t distribution for their effective number.
    """
    member = member.astype(np.float64)
    centred = equal.center(member)
    weight = equal.weight
    squares = centred**2
    total = member.T @ (weight * equal.residual)
    information = squares.T @ weight
    variance = squares.T @ (equal.square * equal.variance)
    if equal.cluster is not None:
        terms = (weight * equal.residual)[:, None] * centred
        variance = np.maximum(variance, equal.robust_variance(terms))
    elif not equal.equal_weights:
        robust = squares.T @ (equal.square * equal.residual**2)
        variance = np.maximum(variance, equal.inflation * robust)
    share = member.T @ weight / weight.sum()
    expected = member.T @ (weight * equal.curve * (1 - equal.curve))
    least = least_share * share * (1 - share)
    told = information > least * weight.sum()
    told &= equal.variance_at_equal_scores(member) > least
    pvalue, units = np.full(len(total), np.nan), equal.units(centred)
    for k in np.flatnonzero(told & (expected >= _LEAST_VARIANCE) & (units >= _LEAST_CLUSTERS)):
        coefficients = weight * centred[:, k] / equal.count
        pvalue[k] = label_sum_pvalue(total[k], coefficients, equal.curve, variance[k], equal.count)
        if equal.cluster is not None:
            z = np.abs(total[k]) / np.sqrt(variance[k])
            pvalue[k] = max(pvalue[k], 2 * student.sf(z, units[k] - 1))
    return Statistics(total, variance, information, pvalue)


# --- p-values of weighted sums of labels ----------------------------------------------------------


_ROUNDS = 50
_NEAR = 1e-3  # of z: the normal tail is exact enough, and the formula is 0 / 0
_ORDINARY = 1.2  # z below which the tail is not needed


def label_sum_pvalue(
    total: float,
    coefficients: np.ndarray,
    proba: np.ndarray,
    variance: float | None = None,
    count: np.ndarray | None = None,
) -> float:
    r"""Two-sided p-value of :math:`T = \sum_i a_i (y_i - p_i)` for independent labels.

    The tail is the saddlepoint approximation of Lugannani and Rice (1980), which is accurate far in
    the tails and for a few expected events; half of a typical step :math:`|a_i|` of the largest
    labels is subtracted from \|T\|, as a continuity correction. The probabilities p are strictly
    between 0 and 1. A `variance` of T that exceeds that of independent labels scales T down.
    `count` is the number of labels with the same a and p, by default one.
    """
    count = np.ones(len(proba)) if count is None else count
    label_variance = float(np.sum(count * coefficients**2 * proba * (1 - proba)))
    if not label_variance > 0:
        return 1.0
    step = np.sum(count * np.abs(coefficients) ** 3) / np.sum(count * coefficients**2)
    size = (
        abs(total)
        * np.sqrt(
            label_variance / max(label_variance, label_variance if variance is None else variance)
        )
        - step / 2
    )
    z = size / np.sqrt(label_variance)
    if z <= _ORDINARY:
        return float(min(1.0, 2 * norm.sf(max(z, 0.0))))
    a = np.sign(total) * coefficients
    most = np.sum(count * np.where(a > 0, a * (1 - proba), -a * proba))
    if size >= 0.999 * most:
        size = 0.999 * most
    logit = np.log(proba) - np.log1p(-proba)
    slope = _solve(size, a, count, logit, proba, z / np.sqrt(label_variance))
    bent = expit(logit + slope * a)
    log_mean = np.logaddexp(np.log1p(-proba), np.log(proba) + slope * a)
    cumulant = np.sum(count * (log_mean - slope * a * proba))
    w = np.sqrt(max(2 * (slope * size - cumulant), 0.0))
    u = slope * np.sqrt(np.sum(count * a**2 * bent * (1 - bent)))
    if not (w > _NEAR and u > _NEAR):
        return float(min(1.0, 2 * norm.sf(z)))
    tail = norm.sf(w) + norm.pdf(w) * (1 / u - 1 / w)
    return float(np.clip(2 * tail, 0.0, 1.0))


def _solve(size, a, count, logit, proba, start):
    """Slope at which the expected sum is `size`: Newton inside a bracket."""
    center = np.sum(count * a * proba)
    low, high, slope = 0.0, np.inf, start
    for _ in range(_ROUNDS):
        bent = expit(logit + slope * a)
        miss = np.sum(count * a * bent) - center - size
        low, high = (slope, high) if miss < 0 else (low, slope)
        if abs(miss) < 1e-9 * size:
            break
        step = slope - miss / max(np.sum(count * a**2 * bent * (1 - bent)), 1e-300)
        if not low < step < high:
            step = 2 * slope if np.isinf(high) else (low + high) / 2
        slope = step
    return slope
