r"""Calibration errors of very many samples: merged rows for two classes, one Newton step for more.

**Two classes.** Forecasts are merged whose log odds t fall into the same of 32,769 cells, those in
which :math:`asinh(t) / h` rounds to the same number. Their width is about .0004 around zero and
grows with the absolute value of t. Forecasts of exactly 0 and 1 have cells of their own. There is a
row for each cell and label, with the mean forecast of the cell, the number of samples, and the sums
of their weights and squared weights. The variance of the forecasts in a cell is lost, so estimates
differ from those of the samples by about 1e-5 of their size. Limits of intervals may differ by
about .002 of their size, because ties divide the samples differently into cells.

**More classes.** The maps are fitted to a part, and one Newton step is taken. The page "From an
estimator and its data" of the guide (:ref:`one_step`) has the formulas. The information H and the
second moments of the scores are those of the part, multiplied by the ratio of the numbers of
samples. Groups of directions which only all samples may support join the step by their log
evidence, with the gains that a score test predicts and the costs of `ModelAverage`. The weight of
the identity follows in the same way from the scores at the forecasts of all samples, and multiplies
the estimates.

The pass reads forecasts and labels by blocks of rows. Beside them there are five arrays of length
n, and the directions at the part until the pass begins.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import logsumexp, softmax

from skcalib._util.softmax import centred, softmax_parts
from skcalib.data.clusters import cluster_sums, effective_size, in_order
from skcalib.data.labels import labels_or_shares
from skcalib.data.problem import Problem
from skcalib.links.averaging import (
    PRIOR,
    Model,
    ModelAverage,
    identity_model,
    tree_of,
)
from skcalib.links.basis import CONFUSION, Directions
from skcalib.proper.map_average import AveragedProblem
from skcalib.scores import Brier, ProperScore

if TYPE_CHECKING:
    from skcalib.links.basis_block import BasisBlock
    from skcalib.proper.residual_tests import Extension

_MANY = 200_000  # samples above which they are merged
_CELLS = 1 << 14  # cells on either side of log odds of zero
_END = 746.0  # log odds of the last cell; no float64 has more


# --- Two classes: merged rows ---------------------------------------------------------------------


def merged(problem: Problem) -> Problem:
    """The problem with a row for each cell and label, or as it is.

    It stays as it is with at most 200,000 rows, more than two columns, rows that stand for several
    samples already, label distributions or clusters.
    """
    several = problem.square is not None or problem.votes is not None
    if len(problem.weight) <= _MANY or problem.forecast.shape[1] != 2 or several:
        return problem
    event = problem.outcome
    if problem.cluster is not None or event.ndim == 2:
        return problem
    key = _cells(problem.forecast)
    key *= 2
    key += event
    count = np.bincount(key)
    kept = np.flatnonzero(count)

    def sums(values):
        return np.bincount(key, values)[kept]

    cell, weight = key // 2, problem.weight
    mass = np.bincount(cell, weight)
    columns = [np.bincount(cell, weight * column) for column in problem.forecast.T]
    means = [(total[kept // 2] / mass[kept // 2]) for total in columns]  # ties of both labels
    weight = sums(weight)
    return replace(
        problem,
        forecast=np.column_stack(means),
        labels_or_target=kept % 2,
        weight=weight,
        square=sums(problem.weight**2),
        count=count[kept].astype(np.float64),
    )


def _cells(forecast):
    """Number of the cell of each forecast (n, 2)."""
    with np.errstate(divide="ignore"):
        odds = np.log(forecast[:, 1])
        odds -= np.log(forecast[:, 0])
    certain = np.isinf(odds)
    place = np.arcsinh(odds, out=odds)
    place *= _CELLS / np.arcsinh(_END)
    np.clip(place, -_CELLS, _CELLS, out=place)
    place[certain] += np.sign(place[certain])
    return np.rint(place, out=place).astype(np.intp) + (_CELLS + 1)


_PART, _SHARE, _PER_CLASS = 20_000, 0.02, 40  # of a part: least size, share, samples per class
_CLUSTERS = 40  # of a part, at least
TIMES = 2  # sizes of a part above which there is one
_LEAST_SHARE = 0.25  # of effective samples among all; below it, weights differ too much for a part


# --- More classes: a part and one step ------------------------------------------------------------


def n_fitted(n_samples: int, n_classes: int) -> int:
    """Number of samples to which the models are fitted."""
    size = max(round(_SHARE * n_samples), part_size(n_classes))
    return size if n_classes > 2 and n_samples > TIMES * size else n_samples


def part_size(n_classes: int) -> int:
    """Least number of samples of a part."""
    return max(_PART, _PER_CLASS * n_classes)


def is_large(problem: Problem) -> bool:
    """Whether a problem has more than two classes and very many samples of similar weights.

    If these are in clusters, a part must have enough of them.
    """
    n_samples = len(problem.weight)
    share = n_fitted(*problem.forecast.shape) / n_samples
    if share == 1 or (problem.n_clusters or np.inf) * share < _CLUSTERS:
        return False
    return effective_size(problem.weight, problem.square) >= _LEAST_SHARE * n_samples


@dataclass(frozen=True)
class OneStepProblem(AveragedProblem):
    """One problem with the models of a part of its samples, and one Newton step.

    ``gains`` (3, n) has for each sample the gain of the log loss by the best model, the inner
    product of the residual y - S with the change m - S, and the squared change. ``steps`` are the
    mean gains of the log loss and of the Brier score, without its factor, by the step. ``changed``
    is the weight of all models other than the identity. ``suspect`` is true if the residuals of
    the part are not noise: only then are those of all samples tested.
    """

    gains: np.ndarray = field(kw_only=True)
    steps: tuple[float, float] = field(kw_only=True)
    changed: float = field(kw_only=True)
    suspect: bool = field(kw_only=True)

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Fit the models to a random part of the rows, with a fixed seed, and take the step."""
        forecast, weight, square = problem.forecast, problem.weight, problem.square
        part = AveragedProblem.of(problem.take(_drawn(problem)))
        suspect = part.extension is not None
        size = effective_size(weight, square)
        if problem.cluster is not None:  # the part tells how much its samples depend on each other
            size *= part.average.size / effective_size(part.weight)
        average = PartAverage(part.average, size)
        average = average.at(forecast, labels_or_shares(problem.outcome), weight, square)
        step = Step(part, average)
        del part  # its directions, before there are arrays of all samples
        whole = AveragedProblem(forecast, weight, average, square, problem.cluster)
        gains, gradients, tangent, own = sums_of_step(average.start, whole)
        gain = float(average.weight @ gains[0])
        average.log_odds, changed, steps = step(gain, gradients, tangent, own)
        given = forecast, weight, average, square, problem.cluster
        return cls(*given, gains=gains, steps=steps, changed=changed, suspect=suspect)

    @cached_property
    def tested(self) -> Extension | None:
        """As that of `AveragedProblem`; None unless the part shows anything."""
        return super().tested if self.suspect else None

    def corrected(self, model: Model, rows: slice, block: BasisBlock) -> np.ndarray:
        """Forecasts of a model (m, K) at some rows, from its parameters."""
        return softmax_parts(self._own(model, block).logits(model.theta))[1]

    def of_maps(self, score: ProperScore, kind: int) -> np.ndarray:
        """`errors` (kind 0) or `differences` (1) by the averaged maps alone (n,)."""
        (log, gain, square), (log_step, step) = self.gains, self.steps
        if isinstance(score, Brier):
            return self.half * ((2 * gain - square) if kind else self.changed * (gain + step))
        return log if kind else self.changed * (log + log_step)


def _drawn(problem):
    """Rows of the part in order, of whole clusters if there are any, drawn with a fixed seed."""
    size = n_fitted(*problem.forecast.shape)
    if problem.cluster is None:
        order = np.random.RandomState(0).permutation(len(problem.weight))
        return np.sort(order[:size])
    number = in_order(problem.cluster)
    counts = np.bincount(number)
    order = np.random.RandomState(0).permutation(len(counts))
    n_clusters = int(np.searchsorted(np.cumsum(counts[order]), size)) + 1
    return np.flatnonzero(np.isin(number, order[:n_clusters]))


class PartAverage(ModelAverage):
    """The models of a `part`, without corrected forecasts, for `size` effective samples of all."""

    def __init__(self, part: ModelAverage, size: float) -> None:
        self.basis, self.dispersion, self.size = part.basis, part.dispersion, size
        self._names = part.directions.names
        self.shares, self.log_odds, self._first = part.shares, part.log_odds, _first(part)
        none, ratio = np.empty((0, part.basis.n_classes)), part.size / size
        self.models = [
            replace(model, proba=none, covariance=ratio * model.covariance) for model in part.models
        ]

    def at(
        self,
        forecast: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        total: float | None = None,
    ) -> PartAverage:
        """The same models at samples, as in `ModelAverage.fit`; `total` is the sum of weights."""
        found = copy(self)
        found.forecast, found.label = forecast, label
        factor = self.size / (weight.sum() if total is None else total) / self.dispersion
        found.weight = weight if factor == 1 else factor * weight  # no copy of weights of one
        found.unit = found.weight if square is None else factor * square / weight
        return found

    @cached_property
    def directions(self) -> Directions:
        """The directions of the part, at all samples."""
        return Directions(self.basis, self.forecast).of(self._names)

    @property
    def start(self) -> Model:
        """The model from which the step is taken, which may be the identity."""
        identity = identity_model(np.empty((0, self.basis.n_classes)))
        return [identity, *self.models][self._first]

    @property
    def averaged(self) -> np.ndarray:
        """The averaged forecasts (n, K)."""
        return self.map(self.forecast)


def _first(average):
    """Number of the model from which the step is taken; that of the identity is 0.

    It is the model of the largest weight. The identity of forecasts of 0 is exact, and far from the
    models, which have no zeros: then it is the best of these.
    """
    if average.forecast.min() > 0:
        return int(np.argmax(average.shares))
    return 1 + int(np.argmax([model.evidence for model in average.models]))


class Step:
    """The Newton step from the models of a part (in `average` too), by sums over all samples."""

    def __init__(self, part: AveragedProblem, average: PartAverage) -> None:
        own = part.average
        self._average = average
        identity = identity_model(np.exp(own.basis.log_proba(own.forecast)))
        start = [identity, *own.models][_first(own)]
        self._models = identity, start
        scale = own.dispersion * average.size / own.size
        self._information = [scale * own.score_sums(identity.proba, own.every)[1]] * 2
        if start is not identity:
            self._information[1] = scale * own.score_sums(start.proba, own.every)[1]
        self._moments = _moments(part, start.proba)

    def __call__(
        self, gain: float, gradients: np.ndarray, tangent: np.ndarray, own: float
    ) -> tuple[float, float, tuple[float, float]]:
        """Log odds of the models, the weight of all but the identity, and the gains by the step.

        `gain` is the weighted sum of the gains of the log loss; the others are `sums_of_step`. The
        gains are mean ones of the log loss, and of the Brier score without its factor.
        """
        average = self._average
        identity, start = (
            _Scores(average, *rest)
            for rest in zip(self._models, self._information, gradients, strict=True)
        )
        log_odds, changed = np.inf, 1.0
        if np.isfinite(gain):  # else a label had the probability 0
            others = list(identity.evidence_with(start, gain + own).values())[1:]
            log_odds = float(logsumexp(others) - own - np.log(len(others)))
            changed = 1 - float(softmax([own, *others])[0])
        log, brier = start.gains(tangent, *self._moments) / average.size
        return log_odds, changed, (float(log), float(brier))


def sums_of_step(
    start: Model, problem: AveragedProblem
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Gains of each sample by the map of a model (3, n), and the sums of all directions.

    These are the sums u at the forecasts and at the map, and b, for weights in effective samples.
    The last sum is the log likelihood of the forecasts, beyond that of forecasts without zeros.
    """
    average, basis = problem.average, problem.average.basis
    gains = np.empty((3, len(problem.weight)))
    totals, own = np.zeros((3, len(basis.scale))), 0.0
    for rows in basis.blocks(len(problem.weight)):
        s, w = problem.forecast[rows], average.dispersion * average.weight[rows, None]
        block = basis(s)
        p = softmax_parts(basis.part(block, start.groups).logits(start.theta))[1]
        own -= float(average.weight[rows] @ problem.log_gain(rows, np.exp(block.log)))
        residual, change = problem.residual(rows, s), p - s
        gains[0, rows] = problem.log_gain(rows, p)
        gains[1, rows] = np.einsum("ik,ik->i", residual, change)
        gains[2, rows] = np.einsum("ik,ik->i", change, change)
        scores = np.stack([residual, residual - change, p * centred(p, residual)])
        scores *= w
        totals += block.total(scores)
    return gains, totals[:2], totals[2], own


class _Scores:
    """Scores of all directions at a model, and steps in sets of directions from there.

    The model `start` is fitted to the part. `information` (J, J) and `gradient` (J,), the sums of
    the scores, are those of all samples, whose weights sum to their effective number.
    """

    def __init__(
        self, average: PartAverage, start: Model, information: np.ndarray, gradient: np.ndarray
    ) -> None:
        self._average, self._own, self._size = average, frozenset(start.groups), average.size
        self._information, self._gradient = information, gradient
        self._gains = dict[frozenset[str], float]()

    @cached_property
    def evidence(self) -> dict[frozenset[str], float]:
        """Log evidence of sets of groups, relative to that of the groups of the model."""
        found, sets = {self._own: 0.0}, {frozenset[str](): self._own}
        for groups, parent in tree_of(self._average.basis)[0]:
            before = sets[frozenset(parent)]
            sets[frozenset(groups)] = now = self._own | frozenset(groups)
            if now not in found:
                found[now] = found[before] + self._difference(before, now)
        if self._average.basis.confusion and not self._own & CONFUSION:
            best = max(found, key=lambda groups: found[groups])
            more = self._difference(best, best | CONFUSION) - PRIOR.confusion
            found[best | CONFUSION] = found[best] + more
        return found

    def evidence_with(self, other: _Scores, gain: float) -> dict[frozenset[str], float]:
        """The `evidence`, with the actual gain of log likelihood by the model of other scores.

        The gain that the step predicts is inaccurate where the model is far away.
        """
        found, groups = dict(self.evidence), other._own
        if groups:
            simple = groups - CONFUSION
            evidence = self.evidence[simple]
            if groups != simple:
                evidence += self._difference(simple, groups) - PRIOR.confusion
            found[groups] = evidence + gain - self._gain(groups) / self._average.dispersion
        return found

    def gains(self, tangent: np.ndarray, squares: np.ndarray, crossed: np.ndarray) -> np.ndarray:
        """Gains by the averaged step, without its optimism, from the sums b and the `_moments`.

        Those of the log likelihood, and of the sum of the Brier score without its factor.
        """
        squares, crossed = self._size * squares, self._size * crossed
        found = np.zeros(2)
        for share, groups in zip(softmax(list(self.evidence.values())), self.evidence, strict=True):
            rows = self._average.basis.select(groups)
            at = np.ix_(rows, rows)
            inverse = np.linalg.inv(self._hessian(at))
            log = self._gain(groups) - 0.5 * np.sum(inverse * squares[at])
            step = inverse @ self._gradient[rows]
            brier = tangent[rows] @ step - np.sum(inverse * crossed[at])
            found += share * np.array([log, brier])
        return found

    def _difference(self, before, now):
        """Log evidence that is added by more groups."""
        added = len(self._average.basis.select(now - before))
        gain = (self._gain(now) - self._gain(before)) / self._average.dispersion
        return gain - PRIOR.cost(gain, added, self._size)

    def _gain(self, groups):
        """Gain of the log likelihood that a step in these groups predicts."""
        if groups not in self._gains:
            rows = self._average.basis.select(groups)
            u = self._gradient[rows]
            hessian = self._hessian(np.ix_(rows, rows))
            self._gains[groups] = 0.5 * float(u @ np.linalg.solve(hessian, u))
        return self._gains[groups]

    def _hessian(self, at):
        return self._information[at] + PRIOR.precision * np.eye(len(at[0]))


def _moments(part, proba):
    """Means over a part of x x' and of (h' e) x', at corrected forecasts (n, K).

    Of samples in clusters both factors are sums over a cluster.
    """
    if part.cluster is not None:
        return _moments_of_clusters(part, proba)
    squares, crossed = 0.0, 0.0
    weight = part.share * part.one * part.average.size
    for rows, block in part.average.every:
        p, residual = proba[rows], part.residual(rows, proba[rows])
        score = block.project(residual)
        weighted = score * weight[rows, None]
        squares = squares + score.T @ weighted
        crossed = crossed + block.tangent_project(p, residual).T @ weighted
    return squares, crossed


def _moments_of_clusters(part, proba):
    shape = int(part.cluster.max()) + 1, len(part.average.basis.scale)
    scores, tangents = np.zeros(shape), np.zeros(shape)
    for rows, block in part.average.every:
        p, residual = proba[rows], part.residual(rows, proba[rows])
        share, among = part.share[rows, None], (part.cluster[rows], shape[0])
        scores += cluster_sums(share * block.project(residual), *among)
        tangents += cluster_sums(share * block.tangent_project(p, residual), *among)
    return part.average.size * scores.T @ scores, part.average.size * tangents.T @ scores
