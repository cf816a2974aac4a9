r"""Calibration errors from averaged recalibration maps, without folds, and their intervals.

The default of the proper calibration errors for Brier and log loss. The models m of a
`ModelAverage` are fitted to all samples. With their weights a, the estimate is :math:`\sum_m a_m
T_m`. The identity has the value 0, and the optimism of each fit is subtracted analytically. With
the residual :math:`e = Y - m(S)`, the tangents h and the score x of the parameters, the penalised
Hessian H and the leverage l of a sample,

.. math::

    T_m^{Brier} &= \overline{c \langle Y - S, m - S \rangle
        - c\, (h^\top e)^\top H^{-1} x / (1 - l)} , \\
    T_m^{log} &= \overline{L(Y, S) - L(Y, m)
        - \tfrac12\, x^\top H^{-1} x / (1 - l)} .

For samples in clusters the second x is the sum of those of the cluster, and l is the leverage of
the cluster: a sample does not meet the residuals of its cluster.

**Intervals** do not depend on the weights. The miscalibration Y - S is projected on all directions
of the basis, and its squared length is a squared norm of a mean, `SquaredNorm`. So the interval
allows for miscalibration that the models may have missed, not only for what they found. Its lower
limit is zero unless a second test rejects zero too: that of the scores at the forecasts, whose
noise does not depend on a fit, or the evidence of the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._util.softmax import centred
from skcalib.data.clusters import cluster_sums, independent_size, inflation
from skcalib.data.labels import one_hot_rows
from skcalib.links.averaging import Model, ModelAverage
from skcalib.links.newton import row_blocks
from skcalib.proper.residual_tests import NO_CHANGE, TINY, Extension, orthonormal
from skcalib.scores import Brier, LogLoss, ProperScore, weighted_mean
from skcalib.smoothers._base import check_at_least_two, warn_few_per_class
from skcalib.stats.squared_norm import LEAST_NOISE, SquaredNorm, noise_cumulants

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.links.basis_block import BasisBlock

#: The targets of intervals.
CURVE = "E D(C, S), as far as {} polynomials of the log odds represent C = E[Y|S]"
MAPS = "E D(C, S), as far as {} and curves of the top class and of all classes represent C = E[Y|S]"
BY_CLASS = "one temperature, a bias and a slope of each class"
CONFUSED = f"{BY_CLASS}, constants by most likely class"
COMMON = "one temperature (too few samples for maps by class)"


@dataclass(frozen=True)
class AveragedProblem:
    """One problem of a notion with its averaged recalibration map, which has the labels."""

    forecast: np.ndarray
    weight: np.ndarray
    average: ModelAverage
    square: np.ndarray | None = None
    cluster: np.ndarray | None = None

    @classmethod
    def of(cls, problem: Problem) -> AveragedProblem:
        """Fit the models to the rows of a problem."""
        check_at_least_two(problem.n_samples)
        warn_few_per_class(problem.n_samples, problem.forecast.shape[1])
        forecast, weight, square = problem.forecast, problem.weight, problem.square
        average = ModelAverage().fit(forecast, problem.outcome, weight, square, problem.cluster)
        return cls(forecast, weight, average, square, problem.cluster)

    @cached_property
    def target(self) -> np.ndarray:
        """One-hot labels or label distributions (n, K)."""
        return self.targets(slice(None))

    def targets(self, rows: Any) -> np.ndarray:
        """Some rows of the target (m, K)."""
        label = self.average.label[rows]
        return label if label.ndim == 2 else one_hot_rows(label, self.forecast.shape[1])

    def residual(self, rows: slice, proba: np.ndarray) -> np.ndarray:
        """Some rows of the target minus probabilities (m, K)."""
        return self.average.residual(rows, proba)

    @property
    def mean_target(self) -> np.ndarray:
        """Weighted mean of the target (K,)."""
        label, weight = self.average.label, self.weight
        if label.ndim == 2:
            return weighted_mean(label, weight)
        return np.bincount(label, weight, minlength=self.forecast.shape[1]) / weight.sum()

    @cached_property
    def share(self) -> np.ndarray:
        """Weights of the rows, which sum to one (n,)."""
        return self.weight / self.weight.sum()

    @cached_property
    def root(self) -> np.ndarray:
        """Roots of the sums of squared shares of the samples of each row (n,)."""
        if self.average.unit is self.average.weight:
            return self.share
        return self.share * np.sqrt(self.average.unit / self.average.weight)

    @cached_property
    def one(self) -> np.ndarray:
        """Share of one sample of each row (n,)."""
        return self.root**2 / self.share

    @cached_property
    def tested(self) -> Extension | None:
        """The best map with a test of its residuals; None where it is not tested."""
        return Extension.of(self)

    @property
    def extension(self) -> Extension | None:
        """What the residuals show beyond the averaged maps; None if there is nothing."""
        return self.tested if self.tested is not None and self.tested.found else None

    @cached_property
    def left_out(self) -> float:
        """Share of the squared error of several classes that no map or cell takes in."""
        if self.tested is None or not (missing := self.tested.missing(self)):
            return 0.0
        taken = self.share @ np.sum((self.tested.proba - self.forecast) ** 2, axis=1)
        return float(missing / (missing + taken))

    @property
    def evidence(self) -> dict[str, float]:
        """Weights of the kinds of maps, with the extension as a curve or confusion."""
        found, more = dict(self.average.evidence), self.extension
        if more is not None:
            name = "confusion" if more.transitions else "curve"
            found[name] += more.share * (1 - found[name])
        return found

    @property
    def conditional(self) -> np.ndarray:
        """The averaged forecasts (n, K), with those of the extension."""
        found, more = self.average.averaged, self.extension
        return found if more is None else found + more.share * (more.proba - found)

    @property
    def half(self) -> float:
        """The factor of the Brier score."""
        return 0.5 if self.forecast.shape[1] == 2 else 1.0

    def errors(self, score: ProperScore) -> np.ndarray:
        """Terms whose mean is the error (n,)."""
        return self._with_extension(score, 0)

    def differences(self, score: ProperScore) -> np.ndarray:
        """Paired differences of losses (n,)."""
        return self._with_extension(score, 1)

    def of_maps(self, score: ProperScore, kind: int) -> np.ndarray:
        """`errors` (kind 0) or `differences` (1) by the averaged maps alone (n,)."""
        return self._terms[int(not isinstance(score, Brier)), kind]

    def _with_extension(self, score, kind):
        """The terms of the averaged maps, and those of the extension with its weight."""
        found, more = self.of_maps(score, kind), self.extension
        if more is None or more.share == 0:
            return found
        finite, other = np.isfinite(found), self._terms_of_extension
        other = other[int(not isinstance(score, Brier)), kind]
        return np.where(
            finite, (1 - more.share) * np.where(finite, found, 0.0) + more.share * other, found
        )

    @cached_property
    def _terms_of_extension(self):
        """As `_terms`, of the extension alone."""
        more: Any = self.extension
        found = np.zeros((2, 2, len(self.weight)))
        for rows, block in self.average.directions.of(more.base.groups):
            own = (
                self._optimism(more.base, more.start[rows], rows, block) if more.base.groups else 0
            )
            self._add_terms(found, 1.0, more.proba, rows, own + np.array(more.optimism(self, rows)))
        return found

    def loss(self, score: ProperScore) -> np.ndarray:
        """Loss of each sample (n,)."""
        found = np.empty(len(self.weight))
        for rows in row_blocks(self.forecast):
            found[rows] = score.loss(self.targets(rows), self.forecast[rows])
        return found

    def refinement(self, score: ProperScore, loss: np.ndarray) -> np.ndarray:
        """Loss minus calibration; where the loss is infinite, the loss of the averaged forecast."""
        possible = np.isfinite(loss)
        if possible.all():
            return loss - self.errors(score)
        found, rows = np.empty(len(loss)), np.flatnonzero(~possible)
        found[rows] = score.loss(self.targets(rows), np.maximum(self.conditional[rows], TINY))
        found[possible] = loss[possible] - self.errors(score)[possible]
        return found

    def gain(self, group: str) -> np.ndarray:
        """Gain (n,) of the log loss by the model of one group, without its optimism, or 0."""
        found = np.zeros(len(self.weight))
        for model in self.average.models:
            if model.groups == (group,):
                for rows, block in self.average.directions:
                    own, p = self._own(model, block), self.corrected(model, rows, block)
                    found[rows] = self.log_gain(rows, p) - self._optimism(model, p, rows, own)[1]
        return found

    def corrected(self, model: Model, rows: slice, block: BasisBlock) -> np.ndarray:
        """Forecasts of a model (m, K) at some rows, whose block has all directions."""
        return model.proba[rows]

    def _own(self, model, block):
        """The directions of a model, from the block of all of them."""
        return self.average.basis.part(block, model.groups)

    def log_gain(self, rows: slice, proba: np.ndarray) -> np.ndarray:
        """Log loss of some of the forecasts minus that of corrected ones (m, K), (m,)."""
        label = self.average.label
        if label.ndim == 2:
            changed = LogLoss().loss(label[rows], np.maximum(proba, TINY))
            return LogLoss().loss(label[rows], self.forecast[rows]) - changed
        here = np.arange(len(proba)), label[rows]
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(proba[here], TINY)) - np.log(self.forecast[rows][here])

    @property
    def target_text(self) -> str:
        """The quantity that the interval covers."""
        if self.forecast.shape[1] == 2:
            return CURVE.format(self.average.basis.degree)
        if "confusion" in self.average.directions.names:
            return MAPS.format(CONFUSED)
        return MAPS.format(BY_CLASS if self.average.basis.by_class else COMMON)

    @cached_property
    def _terms(self):
        """Those of `calibration` by score (2, 2, n): both share nearly all of the work."""
        found = np.zeros((2, 2, len(self.weight)))
        for share, model in self.average.weighted_models:
            for rows, block in self.average.directions.of(model.groups):
                optimism = self._optimism(model, model.proba[rows], rows, block)
                self._add_terms(found, share, model.proba, rows, optimism)
        return found

    def _add_terms(self, found, share, proba, rows, optimism):
        """Add the terms by corrected forecasts (n, K), with a weight, to those of some rows."""
        p, s = proba[rows], self.forecast[rows]
        gain = np.einsum("ik,ik->i", self.residual(rows, s), p - s)
        both = self.log_gain(rows, p)
        squares = np.einsum("ik,ik->i", p - s, p - s)
        found[0, 0, rows] += share * (self.half * (gain - optimism[0]))
        found[0, 1, rows] += share * (self.half * (2 * gain - squares))
        found[1, 0, rows] += share * (both - optimism[1])
        found[1, 1, rows] += share * both

    def _optimism(self, model, p, rows, block):
        """Optimism of a model at each sample, for the Brier score without its factor and log loss.

        The products with the score are divided by one minus the leverage of the sample.
        """
        unit, residual = self.average.unit[rows], self.residual(rows, p)
        if self.cluster is not None:
            image = self._steps_of_clusters(model)[self.cluster[rows]]
            brier = np.einsum("ij,ij->i", block.tangent_project(p, residual), image)
            return brier, 0.5 * np.einsum("ij,ij->i", block.project(residual), image)
        if p.shape[1] == 2:  # all are multiples of the directions of the second class
            size = np.einsum("ji,ji->i", model.covariance @ block.top, block.top)
            chance, event = p[:, 0] * p[:, 1], residual[:, 1] ** 2 * size
            brier, log, leverage = 2 * chance * event, event, chance * size
        else:
            score = block.project(residual)
            image = score @ model.covariance
            brier = np.einsum("ij,ij->i", block.tangent_project(p, residual), image)
            log = np.einsum("ij,ij->i", score, image)
            leverage = block.leverage(p, model.covariance) / (p.shape[1] - 1)
        factor = unit / (1 - np.clip(unit * leverage, 0.0, 0.5))
        return factor * brier, 0.5 * factor * log

    def _steps_of_clusters(self, model):
        r"""Change of the parameters (G, J) of a model by each cluster, as far as it is one step.

        It is the product of the inverse Hessian with the score u of the cluster, divided by one
        minus the leverage: the information of the cluster along this step s, over :math:`u^\top s`.
        """
        if model.groups not in self._known_steps:
            score = self._over_clusters(model, self._weighted_scores)
            step = score @ model.covariance
            own = self._over_clusters(model, self._information_along(step))
            along = np.einsum("ij,ij->i", score, step)
            leverage = np.divide(own, along, out=np.zeros(len(own)), where=along > 0)
            self._known_steps[model.groups] = step / (1 - np.clip(leverage, 0, 0.5))[:, None]
        return self._known_steps[model.groups]

    @cached_property
    def _known_steps(self):
        return {}

    def _over_clusters(self, model, values):
        """Sums over clusters of the weighted values (m, ...) of the directions of a model."""
        total: Any = 0.0
        n_clusters = int(self.cluster.max()) + 1
        for rows, block in self.average.directions:
            p, own = self.corrected(model, rows, block), self._own(model, block)
            part = values(rows, own, p)
            part = (self.average.weight[rows] * part.T).T
            total = total + cluster_sums(part, self.cluster[rows], n_clusters)
        return total

    def _weighted_scores(self, rows, block, p):
        return block.project(self.residual(rows, p))

    def _information_along(self, step):
        """Function of some rows: their information along the step of their cluster (m,)."""

        def values(rows, block, p):
            change = block.changes(step[self.cluster[rows]])
            return np.einsum("ik,ik->i", p * centred(p, change), change)

        return values


_WIDE, _PROBES = 2_000, 256  # directions of all problems from which traces are estimated; draws
_BETWEEN = 0.1  # largest relative variance of the squared change: else it is that of few samples


# --- The interval ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorNorm(SquaredNorm):
    """`SquaredNorm` of an error, with a second test of exact calibration and bounds.

    ``calibrated`` is the squared norm of the scores at the forecasts. ``odds`` are those of the
    models against the identity, 0 for samples in clusters. ``most`` is the largest error that the
    forecasts allow. ``wider`` is the squared norm with cells and transitions, whose interval is
    covered too.
    """

    calibrated: SquaredNorm | None = None
    odds: float = np.inf
    most: float = np.inf
    wider: SquaredNorm | None = None

    def interval(self, confidence_level: float) -> tuple[float, float]:
        r"""Parameters that are not rejected; zero is one of them unless a second test rejects it.

        The second test is that of ``calibrated``, or odds of at least :math:`1 / (1 - level)`.
        """
        if not np.isfinite(self.estimate):
            return np.inf, np.inf
        low, high = super().interval(confidence_level)
        if self.wider is not None:
            other = self.wider.interval(confidence_level)
            low, high = min(low, other[0]), max(high, other[1])
        high = float(min(high, self.most))
        if low > 0 and self.calibrated is not None and self.odds < 1 / (1 - confidence_level):
            low = low if self.calibrated.interval(confidence_level)[0] > 0 else 0.0
        return min(low, high), high


def squared_norms(
    problems: Sequence[AveragedProblem], scores: Sequence[ProperScore], reduce: str = "mean"
) -> list[ErrorNorm]:
    """`ErrorNorm` of each score, reduced over the problems of a notion; infinite if its loss is.

    The second test is the same for all.
    """
    share = 1 / len(problems) if reduce == "mean" else 1.0
    finite = [
        all(np.isfinite(problem.errors(score)).all() for problem in problems) for score in scores
    ]
    known = [score for score, one in zip(scores, finite, strict=True) if one]
    norms = iter(_norms(problems, known, share) if known else [])
    return [next(norms) if one else ErrorNorm(np.inf, LEAST_NOISE, 0.0, 0.0) for one in finite]


def _norms(problems, scores, share):
    """Norms of some scores, from two passes: the sums of all projections, and their noise."""
    kinds = [ScoreProjection, *map(projection_of, scores)]
    sums = [sums_of(kinds, problem) for problem in problems]
    at_zero, *found = (
        [kind(problem, own[k]) for problem, own in zip(problems, sums, strict=True)]
        for k, kind in enumerate(kinds)
    )
    of_zero, noises = noise_of(at_zero, found, share)
    return [
        error_norm(problems, one, noise, share, of_zero.norm)
        for one, noise in zip(found, noises, strict=True)
    ]


def sums_of(kinds: Sequence[type[_Projection]], problem: AveragedProblem) -> list[tuple[Any, ...]]:
    """Sums of several kinds of projections of a problem, from one pass; those of parts add up."""
    totals: Any = None
    for rows, block in problem.average.directions:
        parts = [kind.block_sums(problem, rows, block) for kind in kinds]
        totals = (
            parts if totals is None else [_added(*two) for two in zip(totals, parts, strict=True)]
        )
    return totals


def _added(first, second):
    return tuple(a + b for a, b in zip(first, second, strict=True))


def noise_of(
    at_zero: Sequence[ScoreProjection], found: Sequence[Sequence[_Projection]], share: float
) -> tuple[ScoreNoise, list[Noise]]:
    """`ScoreNoise`, and `Noise` of several lists of projections of the same problems; one pass."""
    of_zero, noises = ScoreNoise(at_zero), [Noise(one, share) for one in found]
    pairs: list[Any] = [(of_zero, at_zero), *zip(noises, found, strict=True)]
    every = (one.problem.average.directions for one in at_zero)
    for blocks in zip(*every, strict=True):
        for noise, projections in pairs:
            noise.add(projections, blocks)
    return of_zero, noises


def error_norm(
    problems: Sequence[AveragedProblem],
    found: Sequence[_Projection],
    noise: Noise,
    share: float,
    calibrated: SquaredNorm,
) -> ErrorNorm:
    """`ErrorNorm` from the projections and the `Noise` of all samples."""
    fitted, square = noise.fitted, noise.fitted_square
    variance = max(float(square @ [1.0, -2 * fitted, fitted**2]), 0.0)
    norm = found[0].combine(noise.traces, fitted, variance)
    most = share * sum(one.most for one in found)
    with np.errstate(over="ignore"):  # the mean of several odds has their level, however dependent
        odds = float(np.mean(np.exp([problem.average.log_odds for problem in problems])))
    if problems[0].cluster is not None:  # the evidence is that of independent samples
        odds = 0.0
    return replace(norm, calibrated=calibrated, odds=odds, most=most)


class Noise:
    """Sums, which add up, of the noise of projections, and of the squared change by a map."""

    def __init__(self, found: Sequence[_Projection], share: float) -> None:
        mean = np.sqrt(share) * np.concatenate([one.mean for one in found])
        self.traces, self.fitted = _traces(mean, found[0].problem), 0.0
        self._share, cluster = share, found[0].problem.cluster
        self._squares = np.zeros((2, 2))  # products of own values and roots
        self._sums: Any = None if cluster is None else np.zeros((2, int(cluster.max()) + 1))

    def add(self, found: Sequence[_Projection], blocks: Sequence[tuple[slice, BasisBlock]]) -> None:
        """Add the samples of one block of each problem."""
        parts = [one.block(*at) for one, at in zip(found, blocks, strict=True)]
        problem, rows = found[0].problem, blocks[0][0]
        own = self._share * sum(value for _, value in parts)
        weight, root = problem.share[rows], problem.root[rows]
        noise = np.hstack([noise for noise, _ in parts])
        noise *= (np.sqrt(self._share) * root)[:, None]
        self.traces.add(noise, weight / root, rows)
        self.fitted += float(weight @ own)
        pair = np.stack([root * own, root])
        if self._sums is None:
            self._squares += pair @ pair.T
        else:
            cluster: Any = problem.cluster
            for total, values in zip(self._sums, pair, strict=True):
                total += np.bincount(cluster[rows], values, minlength=len(total))

    @property
    def fitted_square(self) -> np.ndarray:
        """Sums of squares of own values, of their products with the roots, and of the roots."""
        squares = self._squares if self._sums is None else self._sums @ self._sums.T
        return squares[[0, 0, 1], [0, 1, 1]]

    def __add__(self, other: Noise) -> Noise:
        """Of independent samples."""
        found = copy(self)
        found.traces = self.traces + other.traces
        found.fitted = self.fitted + other.fitted
        found._squares = self._squares + other._squares
        return found


class ScoreNoise:
    """Sums over samples of the noise of the scores at the forecasts, if these are calibrated.

    The residuals Y - S do not depend on a fit. So this test of zero is valid where the noise of the
    other test is too small because the fitted map follows the labels: for few samples, and for
    forecasts close to 0 and 1. The noise has the variance of products of different samples, but at
    least the mean and the variance that calibrated forecasts would give it.
    """

    def __init__(self, found: Sequence[_Projection]) -> None:
        mean = np.concatenate([one.mean for one in found])
        self.traces, self.expected = _traces(mean, found[0].problem), 0.0

    def add(
        self, found: Sequence[ScoreProjection], blocks: Sequence[tuple[slice, BasisBlock]]
    ) -> None:
        """Add the samples of one block of each problem."""
        parts = [one.block(*at) for one, at in zip(found, blocks, strict=True)]
        problem, rows = found[0].problem, blocks[0][0]
        noise = np.hstack([noise for noise, _ in parts])
        noise *= problem.root[rows, None]
        self.traces.add(noise, problem.share[rows] / problem.root[rows], rows)
        self.expected += sum(float(own.sum()) for _, own in parts)

    def __add__(self, other: ScoreNoise) -> ScoreNoise:
        found = copy(self)
        found.traces, found.expected = self.traces + other.traces, self.expected + other.expected
        return found

    @property
    def norm(self) -> SquaredNorm:
        """Law of the squared norm of the scores."""
        traces, expected = self.traces, self.expected
        second, third = traces.noise
        skewness = min(third / second**1.5, np.sqrt(8))
        least = 2 * expected**2 / max(traces.size, 1)
        second = max(second - 2 * traces.fourth, least, LEAST_NOISE)
        estimate = traces.squared_mean - max(expected, traces.first)
        return SquaredNorm(estimate, second, skewness * second**1.5, 0.0)


def projection_of(score: ProperScore) -> type[_Projection]:
    """The projection that belongs to the interval of a score."""
    return _BrierProjection if isinstance(score, Brier) else _LogProjection


class _Projection:
    """Residuals of a problem on orthonormal directions: `block_sums`, `block` and `at`.

    Subclasses set ``root``, ``mean`` and ``most`` from the `sums_of` all samples. ``fits`` are the
    models that they use.
    """

    root: np.ndarray
    mean: np.ndarray
    most = np.inf

    def __init__(self, problem: AveragedProblem, sums: tuple[Any, ...]) -> None:
        self.problem, self.fits = problem, self._fits(problem)

    @classmethod
    def block_sums(
        cls, problem: AveragedProblem, rows: slice, block: BasisBlock
    ) -> tuple[Any, ...]:
        """Sums over some rows."""
        raise NotImplementedError

    @staticmethod
    def combine(traces: _Traces, fitted: float, variance: float) -> ErrorNorm:
        """The norm, from the traces of the noise, and the mean and variance of the squared change.

        For the log loss it is the gain instead of the squared change.
        """
        raise NotImplementedError

    def block(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Noise (m, J) and what belongs to the estimate (m,), of some rows."""
        raise NotImplementedError

    def at(self, problem: AveragedProblem) -> Self:
        """The same directions for other samples."""
        found = copy(self)
        found.problem, found.fits = problem, self._fits(problem)
        return found

    @staticmethod
    def _fits(problem):
        return []


class ScoreProjection(_Projection):
    """The scores of all directions at the forecasts, whitened by their information."""

    def __init__(self, problem: AveragedProblem, sums: tuple[Any, ...]) -> None:
        super().__init__(problem, sums)
        self.root, self.mean = _whitened(*sums)

    @classmethod
    def block_sums(
        cls, problem: AveragedProblem, rows: slice, block: BasisBlock
    ) -> tuple[Any, ...]:
        """Mean information and mean score at the forecasts."""
        return _scores(problem, rows, block, np.exp(block.log), problem.forecast[rows])

    def block(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Noise (m, J) and its expected squared norm under calibration (m,)."""
        problem, forecast = self.problem, self.problem.forecast[rows]
        residual = problem.residual(rows, forecast)
        noise, leverage = _whitened_scores(block, forecast, residual, self.root)
        return noise, problem.average.dispersion * problem.root[rows] ** 2 * leverage


class _BrierProjection(_Projection):
    """Y - S on an orthonormal basis of the tangents at S and of the changes by two maps.

    These are the affine map and the best model. The noise is that of the affine map.
    """

    def __init__(self, problem, sums):
        super().__init__(problem, sums)
        gram, mean, self.most = np.array(sums[0]), sums[1], sums[2]
        for j in range(len(gram) - len(self.fits), len(gram)):
            if gram[j, j] <= NO_CHANGE:
                gram[j], gram[:, j] = 0.0, 0.0
        self.root = orthonormal(problem.half * gram)
        self.mean = problem.half * mean @ self.root

    @staticmethod
    def _fits(problem):
        average = problem.average
        return [average.affine] + [average.best] * (average.best is not average.affine)

    @classmethod
    def block_sums(cls, problem, rows, block):
        """Products of all directions, those with the residual, and the largest error."""
        p, share, s = np.exp(block.log), problem.share[rows], problem.forecast[rows]
        changes = [fit - s for fit in _corrected(problem, cls._fits(problem), rows, block)]
        residual = problem.residual(rows, s)
        weighted = share[:, None] * p
        parts = block.total(np.stack([weighted * centred(p, d) for d in [*changes, residual]]))
        cross = parts[:-1].T
        own = np.tensordot(share, _products(changes, changes), 1)
        gram = np.block([[block.tangent_gram(p, share), cross], [cross.T, own]])
        along = np.tensordot(share, _products(changes, [residual]), 1)
        worst = np.einsum("ik,ik->i", s, s) + 1 - 2 * s.min(axis=1)
        return gram, np.append(parts[-1], along), problem.half * float(share @ worst)

    def block(self, rows, block):
        """Noise (m, J) and the squared change by the affine map (m,)."""
        problem, half = self.problem, self.problem.half
        p, fits = np.exp(block.log), _corrected(problem, self.fits, rows, block)
        changes = [fit - problem.forecast[rows] for fit in fits]
        residual = problem.residual(rows, fits[0])
        if p.shape[1] == 2:  # the columns of the first class have the opposite sign
            tangents = (p[:, 0] * p[:, 1] * block.top).T
            columns = np.column_stack([tangents, *(d[:, 1] for d in changes)]) @ self.root
            squares = 2 * np.einsum("ij,ij->i", columns, columns)
            noise = 2 * residual[:, 1:] * columns
        else:
            squares = self._squares(block, p, changes, self.root @ self.root.T)
            along = _products(changes, [residual])[:, :, 0]
            tangents, fitted = np.split(self.root, [-along.shape[1]])
            noise = block.tangent_project(p, residual, tangents) + along @ fitted
        leverage = np.clip(half * problem.one[rows] * squares / (p.shape[1] - 1), 0.0, 0.5)
        change = np.einsum("ik,ik->i", changes[0], changes[0])
        return half * noise / np.sqrt(1 - leverage)[:, None], half * change

    @staticmethod
    def _squares(block, p, changes, inner):
        """Sum over classes of the squared norms of tangents and changes, with `inner`, (m,)."""
        start = len(inner) - len(changes)
        products = _products(changes, changes)
        squares = block.tangent_squares(p, inner[:start, :start])
        squares += np.einsum("ijl,jl->i", products, inner[start:, start:])
        for d, row in zip(changes, inner[start:, :start], strict=True):
            along = block.logits(row) - block.log
            squares += 2 * np.einsum("ik,ik->i", p * centred(p, d), along)
        return squares

    @staticmethod
    def combine(traces, fitted, variance):
        between = min(variance / fitted**2, _BETWEEN) if fitted > 0 else 0.0
        raw = traces.squared_mean
        return ErrorNorm.from_mean(traces.signal, raw, raw - traces.first, *traces.noise, between)


class _LogProjection(_Projection):
    """The gain of the best model, and half the whitened mean score at this model."""

    def __init__(self, problem, sums):
        super().__init__(problem, sums)
        root, mean = _whitened(*sums)
        self.root, self.mean = root / np.sqrt(2), mean / np.sqrt(2)

    @staticmethod
    def _fits(problem):
        return [problem.average.best]

    @classmethod
    def block_sums(cls, problem, rows, block):
        """Information of all directions, and the mean score, at the best model."""
        (p,) = _corrected(problem, cls._fits(problem), rows, block)
        return _scores(problem, rows, block, p, p)

    def block(self, rows, block):
        """Noise (m, J) and the gain (m,)."""
        problem = self.problem
        (p,) = _corrected(problem, self.fits, rows, block)
        noise, leverage = _whitened_scores(block, p, problem.residual(rows, p), self.root)
        leverage *= 2 * problem.one[rows] / (p.shape[1] - 1)
        gain = problem.log_gain(rows, p)
        return noise / np.sqrt(1 - np.clip(leverage, 0.0, 0.5))[:, None], gain

    @staticmethod
    def combine(traces, fitted, variance):
        raw = fitted + traces.squared_mean
        signal = 0.25 * variance + traces.signal
        # A gain may be negative: the ratio of signal to raw is that of noise at least.
        floor = max(traces.first, LEAST_NOISE)
        return ErrorNorm.from_mean(signal, max(raw, floor), raw - traces.first, *traces.noise)


def _corrected(problem, fits, rows, block):
    """Forecasts (m, K) of some models."""
    return [problem.corrected(model, rows, block) for model in fits]


def _scores(problem, rows, block, p, predicted):
    """Information at probabilities p, and scores of predictions, of all directions."""
    share = problem.share[rows]
    mean = block.total(share[:, None] * problem.residual(rows, predicted))
    return block.information(p, share), mean


def _whitened_scores(block, p, residual, root):
    """Scores (n, J) of the residuals, times `root`, and the traces (n,) of their variances at p."""
    if p.shape[1] == 2:  # multiples of the directions of the second class
        columns = block.top.T @ root
        size = np.einsum("ij,ij->i", columns, columns)
        return residual[:, 1:] * columns, p[:, 0] * p[:, 1] * size
    return block.project(residual, root), block.leverage(p, root @ root.T)


def _whitened(information, mean):
    """Root of the inverse information, and the mean score in its units."""
    root = orthonormal(information)
    return root, mean @ root


def _products(left, right):
    """Inner products of the rows of two lists of arrays (n, K): (n, len(left), len(right))."""
    found = [[np.einsum("ik,ik->i", a, b) for b in right] for a in left]
    return np.moveaxis(np.array(found), 2, 0)


class _Traces:
    """Traces of powers of the covariance of a mean, added up over blocks of samples.

    With very many directions the second and third are estimated by random signs.
    """

    def __init__(self, mean):
        self._mean, self.size = mean, len(mean)
        self.first, self.fourth, self.signal = 0.0, 0.0, 0.0
        self._probes, columns = None, len(mean)
        if len(mean) > _WIDE:
            signs = np.random.RandomState(0).choice([-1.0, 1.0], size=(len(mean), _PROBES))
            self._probes, columns = signs, _PROBES
        self._image = np.zeros((len(mean), columns))

    def __add__(self, other: _Traces) -> _Traces:
        found = copy(self)
        for name in ("first", "fourth", "signal", "_image"):
            setattr(found, name, getattr(self, name) + getattr(other, name))
        return found

    def add(self, noise, repeats, rows=None):
        """Rows of weighted noise; each stands for the square of `repeats` (m,) samples."""
        squares = np.einsum("ij,ij->i", noise, noise)
        self.first += float(squares.sum())
        squares /= repeats
        self.fourth += float(squares @ squares)
        self.signal += float(np.sum((noise @ self._mean) ** 2))
        self._image += noise.T @ (noise if self._probes is None else noise @ self._probes)

    @property
    def squared_mean(self):
        return float(self._mean @ self._mean)

    @property
    def noise(self):
        """Second and third cumulant of the squared norm of the noise."""
        image = self._image
        if self._probes is None:
            second, third = np.sum(image**2), np.sum((image @ image) * image)
        else:
            once, twice = self._probes.T @ image, image.T @ image
            np.fill_diagonal(once, 0.0)  # products of independent probes have no bias
            pairs = _PROBES * (_PROBES - 1)
            second, third = np.sum(once**2) / pairs, np.sum(once * twice) / pairs
        return max(2 * float(second), LEAST_NOISE), 8 * float(third)


class _ClusterTraces(_Traces):
    """The same from the sums of the noise over clusters, which are few: see `noise_cumulants`."""

    fourth = 0.0  # products of a cluster with itself are left out of `noise` already

    def __init__(self, mean, problem):
        self._mean, self.size, self._cluster = mean, len(mean), problem.cluster
        self._factor = np.sqrt(inflation(independent_size(problem.weight, cluster=problem.cluster)))
        self._sums = np.zeros((int(problem.cluster.max()) + 1, len(mean)))

    def add(self, noise, repeats, rows):
        sums = cluster_sums(noise, self._cluster[rows])
        self._sums[: len(sums)] += self._factor * sums

    @property
    def first(self):
        return float(np.einsum("ij,ij->", self._sums, self._sums))

    @property
    def signal(self):
        return float(np.sum((self._sums @ self._mean) ** 2))

    @property
    def noise(self):
        second, third = noise_cumulants(self._sums)
        return max(second, LEAST_NOISE), third


def _traces(mean, problem):
    return _Traces(mean) if problem.cluster is None else _ClusterTraces(mean, problem)
