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

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import logsumexp, softmax

from skcalib._util.softmax import centred, softmax_parts
from skcalib.data.clusters import cluster_sums, effective_size, in_order
from skcalib.data.labels import labels_or_shares
from skcalib.links.averaging import PRIOR, Model, ModelAverage, identity_model, tree_of
from skcalib.links.basis import CONFUSION, BasisBlock, Directions
from skcalib.proper.map_average import AveragedProblem, ErrorTerms
from skcalib.scores import Brier, ProperScore

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.proper.residual_tests import Extension

_MANY = 200_000  # samples above which they are merged
_CELLS = 1 << 14  # cells on either side of log odds of zero
_END = 746.0  # log odds of the last cell; no float64 has more
_PART, _SHARE, _PER_CLASS = 20_000, 0.02, 40  # of a part: least size, share, samples per class
_CLUSTERS = 40  # of a part, at least
TIMES = 2  # sizes of a part above which there is one
_LEAST_SHARE = 0.25  # of effective samples among all; below it, weights differ too much for a part


# --- Two classes: merged rows ---------------------------------------------------------------------


def compress_rows(problem: Problem) -> Problem:
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
    filled = np.flatnonzero(count)
    cell, weight = key // 2, problem.weight
    mass = np.bincount(cell, weight)
    columns = [np.bincount(cell, weight * column) for column in problem.forecast.T]
    means = [(total[filled // 2] / mass[filled // 2]) for total in columns]  # ties of both labels
    return replace(
        problem,
        forecast=np.column_stack(means),
        labels_or_target=filled % 2,
        weight=np.bincount(key, weight)[filled],
        square=np.bincount(key, weight**2)[filled],
        count=count[filled].astype(np.float64),
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


# --- More classes: a part and one step ------------------------------------------------------------


def n_fitted(n_samples: int, n_classes: int) -> int:
    """Number of samples to which the models are fitted."""
    size = max(round(_SHARE * n_samples), _PART, _PER_CLASS * n_classes)
    return size if n_classes > 2 and n_samples > TIMES * size else n_samples


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

    ``gains`` (3, n) are those of `StepSums`. ``steps`` are the mean gains of the log loss and of
    the Brier score, without its factor, by the step. ``changed`` is the weight of all models other
    than the identity. ``suspect`` is true if the residuals of the part are not noise: only then are
    those of all samples tested.
    """

    gains: np.ndarray = field(kw_only=True)
    steps: tuple[float, float] = field(kw_only=True)
    changed: float = field(kw_only=True)
    suspect: bool = field(kw_only=True)

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Fit the models to a random part of the rows, with a fixed seed, and take the step."""
        part = AveragedProblem.of(problem.take(_drawn(problem)))
        suspect = part.extension is not None
        size = effective_size(problem.weight, problem.square)
        if problem.cluster is not None:  # the part tells how much its samples depend on each other
            size *= part.average.size / effective_size(part.weight)
        average = PartAverage(part.average, problem, size)
        moments = PartMoments.of(part, average)
        del part  # its directions, before there are arrays of all samples
        samples = {"square": problem.square, "cluster": problem.cluster}
        sums = StepSums.of(AveragedProblem(problem.forecast, problem.weight, average, **samples))
        at_forecasts = StepScores(average, (), moments.information, sums.at_forecasts)
        groups = average.start.groups
        at_start = StepScores(average, groups, moments.information_at_start, sums.at_start)
        gain, changed = float(average.weight @ sums.gains[0]), 1.0
        average.log_odds = np.inf
        if np.isfinite(gain):  # else a label had the probability 0
            evidence = at_forecasts.evidence_with(at_start, gain + sums.exact)
            models = list(evidence.values())[1:]
            average.log_odds = float(logsumexp(models) - sums.exact - np.log(len(models)))
            changed = 1 - float(softmax([sums.exact, *models])[0])
        log, brier = at_start.gains(sums.tangent, moments) / size
        return cls(
            problem.forecast,
            problem.weight,
            average,
            **samples,
            gains=sums.gains,
            steps=(float(log), float(brier)),
            changed=changed,
            suspect=suspect,
        )

    @cached_property
    def tested(self) -> Extension | None:
        """As that of `AveragedProblem`; None unless the part shows anything."""
        return super().tested if self.suspect else None

    def corrected(self, model: Model, rows: slice, block: BasisBlock) -> np.ndarray:
        """Forecasts of a model (m, K) at some rows, from its parameters."""
        logits = self.average.basis.part(block, model.groups).logits(model.theta)
        return softmax_parts(logits)[1]

    def map_terms(self, score: ProperScore) -> ErrorTerms:
        """Terms of the averaged maps with the step; differences are those of the best map."""
        (log, gain, square), (log_step, step) = self.gains, self.steps
        if isinstance(score, Brier):
            errors = self.half * (self.changed * (gain + step))
            return ErrorTerms(errors, self.half * (2 * gain - square))
        return ErrorTerms(self.changed * (log + log_step), log)


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
    """The models of a `part`, without corrected forecasts, for all samples of a problem.

    `size` is the effective number of samples. ``first`` is the number of the model from which the
    step is taken; that of the identity is 0. It is the model of the largest weight. The identity of
    forecasts of 0 is exact, and far from the models, which have no zeros: then it is the best of
    these.
    """

    def __init__(self, part: ModelAverage, problem: Problem, size: float) -> None:
        self.basis, self.dispersion, self.size = part.basis, part.dispersion, size
        self._names, self.shares = part.directions.names, part.shares
        none, ratio = np.empty((0, part.basis.n_classes)), part.size / size
        self.models = [
            replace(model, proba=none, covariance=ratio * model.covariance) for model in part.models
        ]
        self.first = int(np.argmax(part.shares))
        if part.forecast.min() == 0:
            self.first = 1 + int(np.argmax([model.evidence for model in part.models]))
        self.start = [identity_model(none), *self.models][self.first]
        self.forecast, self.label = problem.forecast, labels_or_shares(problem.outcome)
        weight, square = problem.weight, problem.square
        factor = size / weight.sum() / self.dispersion
        self.weight = weight if factor == 1 else factor * weight  # no copy of weights of one
        self.unit = self.weight if square is None else factor * square / weight

    @cached_property
    def directions(self) -> Directions:
        """The directions of the part, at all samples."""
        return Directions(self.basis, self.forecast).of(self._names)

    @property
    def averaged(self) -> np.ndarray:
        """The averaged forecasts (n, K)."""
        return self.map(self.forecast)


@dataclass(frozen=True)
class PartMoments:
    """What a step takes from the part.

    ``information`` (J, J) is that of all directions at the forecasts, for all samples, and
    ``information_at_start`` that at the model from which the step is taken. ``squares`` and
    ``crossed`` are the means over the part of x x' and of (h' e) x' at this model; of samples in
    clusters both factors are sums over a cluster.
    """

    information: np.ndarray
    information_at_start: np.ndarray
    squares: np.ndarray
    crossed: np.ndarray

    @classmethod
    def of(cls, part: AveragedProblem, average: PartAverage) -> PartMoments:
        """From the models of a part, which are in `average` too."""
        fitted = part.average
        identity = identity_model(np.exp(fitted.basis.log_proba(fitted.forecast)))
        proba = [identity, *fitted.models][average.first].proba
        scale = fitted.dispersion * average.size / fitted.size
        information = scale * fitted.score_sums(identity.proba, fitted.all_directions)[1]
        at_start = information
        if average.first > 0:
            at_start = scale * fitted.score_sums(proba, fitted.all_directions)[1]
        return cls(information, at_start, *_second_moments(part, proba))


def _second_moments(part, proba):
    """``squares`` and ``crossed`` at corrected forecasts (n, K)."""
    size, n_directions = part.average.size, len(part.average.basis.scale)
    squares, crossed = 0.0, 0.0
    weight = part.share * part.sample_share * size
    n_clusters = 0 if part.cluster is None else int(part.cluster.max()) + 1
    scores, tangents = np.zeros((n_clusters, n_directions)), np.zeros((n_clusters, n_directions))
    for rows, block in part.average.all_directions:
        p, residual = proba[rows], part.residual(rows, proba[rows])
        score, tangent = block.project(residual), block.tangent_project(p, residual)
        if part.cluster is None:
            weighted = score * weight[rows, None]
            squares = squares + score.T @ weighted
            crossed = crossed + tangent.T @ weighted
        else:
            share, cluster = part.share[rows, None], part.cluster[rows]
            scores += cluster_sums(share * score, cluster, n_clusters)
            tangents += cluster_sums(share * tangent, cluster, n_clusters)
    if part.cluster is None:
        return squares, crossed
    return size * scores.T @ scores, size * tangents.T @ scores


@dataclass(frozen=True)
class StepSums:
    """Sums over all samples that a step from the model ``start`` of an average needs.

    ``gains`` (3, n) has for each sample the gain of the log loss by this model, the inner product
    of the residual y - S with the change m - S, and the squared change. ``at_forecasts`` and
    ``at_start`` are the sums u of all directions at the forecasts and at the map, and ``tangent``
    is b, for weights in effective samples. ``exact`` is the log likelihood of the forecasts, beyond
    that of forecasts without zeros.
    """

    gains: np.ndarray
    at_forecasts: np.ndarray
    at_start: np.ndarray
    tangent: np.ndarray
    exact: float

    @classmethod
    def of(cls, problem: AveragedProblem) -> StepSums:
        """From one pass over the samples."""
        average: Any = problem.average
        basis, start = average.basis, average.start
        gains = np.empty((3, len(problem.weight)))
        totals, exact = np.zeros((3, len(basis.scale))), 0.0
        for rows in basis.blocks(len(problem.weight)):
            s, w = problem.forecast[rows], average.dispersion * average.weight[rows, None]
            block = basis(s)
            p = softmax_parts(basis.part(block, start.groups).logits(start.theta))[1]
            exact -= float(average.weight[rows] @ problem.log_gain(rows, np.exp(block.log)))
            residual, change = problem.residual(rows, s), p - s
            gains[0, rows] = problem.log_gain(rows, p)
            gains[1, rows] = np.einsum("ik,ik->i", residual, change)
            gains[2, rows] = np.einsum("ik,ik->i", change, change)
            scores = np.stack([residual, residual - change, p * centred(p, residual)])
            scores *= w
            totals += block.total(scores)
        return cls(gains, totals[0], totals[1], totals[2], exact)


class StepScores:
    """Scores of all directions at a model, and steps in sets of directions from there.

    The model has the groups ``groups`` and is fitted to the part. `information` (J, J) and
    `gradient` (J,), the sums of the scores, are those of all samples, whose weights sum to their
    effective number.
    """

    def __init__(
        self,
        average: PartAverage,
        groups: tuple[str, ...],
        information: np.ndarray,
        gradient: np.ndarray,
    ) -> None:
        self._average, self.groups = average, frozenset(groups)
        self._information, self._gradient = information, gradient
        self._gains = dict[frozenset[str], float]()

    @cached_property
    def evidence(self) -> dict[frozenset[str], float]:
        """Log evidence of sets of groups, relative to that of the groups of the model."""
        evidence, sets = {self.groups: 0.0}, {frozenset[str](): self.groups}
        for groups, parent in tree_of(self._average.basis)[0]:
            before = sets[frozenset(parent)]
            sets[frozenset(groups)] = now = self.groups | frozenset(groups)
            if now not in evidence:
                evidence[now] = evidence[before] + self._difference(before, now)
        if self._average.basis.confusion and not self.groups & CONFUSION:
            best = max(evidence, key=lambda groups: evidence[groups])
            difference = self._difference(best, best | CONFUSION) - PRIOR.confusion
            evidence[best | CONFUSION] = evidence[best] + difference
        return evidence

    def evidence_with(self, fitted: StepScores, gain: float) -> dict[frozenset[str], float]:
        """The `evidence`, with the actual gain of log likelihood by a fitted model.

        The gain that the step predicts is inaccurate where the model is far away.
        """
        evidence, groups = dict(self.evidence), fitted.groups
        if groups:
            simple = groups - CONFUSION
            predicted = self.evidence[simple]
            if groups != simple:
                predicted += self._difference(simple, groups) - PRIOR.confusion
            evidence[groups] = predicted + gain - self.gain(groups) / self._average.dispersion
        return evidence

    def gains(self, tangent: np.ndarray, moments: PartMoments) -> np.ndarray:
        """Gains by the averaged step, without its optimism, from the sums b.

        Those of the log likelihood, and of the sum of the Brier score without its factor.
        """
        size = self._average.size
        squares, crossed, gains = size * moments.squares, size * moments.crossed, np.zeros(2)
        for share, groups in zip(softmax(list(self.evidence.values())), self.evidence, strict=True):
            rows = self._average.basis.select(groups)
            at = np.ix_(rows, rows)
            inverse = np.linalg.inv(self._hessian(at))
            log = self.gain(groups) - 0.5 * np.sum(inverse * squares[at])
            step = inverse @ self._gradient[rows]
            brier = tangent[rows] @ step - np.sum(inverse * crossed[at])
            gains += share * np.array([log, brier])
        return gains

    def gain(self, groups: frozenset[str]) -> float:
        """Gain of the log likelihood that a step in these groups predicts."""
        if groups not in self._gains:
            rows = self._average.basis.select(groups)
            u = self._gradient[rows]
            hessian = self._hessian(np.ix_(rows, rows))
            self._gains[groups] = 0.5 * float(u @ np.linalg.solve(hessian, u))
        return self._gains[groups]

    def _difference(self, before, now):
        """Log evidence that is added by more groups."""
        added = len(self._average.basis.select(now - before))
        gain = (self.gain(now) - self.gain(before)) / self._average.dispersion
        return gain - PRIOR.cost(gain, added, self._average.size)

    def _hessian(self, at):
        return self._information[at] + PRIOR.precision * np.eye(len(at[0]))
