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

**Very many samples of two classes** are merged where their log odds t fall into the same of 32,769
cells, those in which :math:`asinh(t) / h` rounds to the same number. Their width is about .0004
around zero and grows with the absolute value of t. Forecasts of exactly 0 and 1 have cells of their
own. There is a row for each cell and label, with the mean forecast of the cell, the number of
samples, and the sums of their weights and squared weights. The variance of the forecasts in a cell
is lost, so estimates differ from those of the samples by about 1e-5 of their size. Limits of
intervals may differ by about .002 of their size, because ties divide the samples differently into
cells.

**Very many samples of more classes.** The maps are fitted to a part, and one Newton step is taken.
The page "From an estimator and its data" of the guide (:ref:`one_step`) has the formulas. The
information H and the second moments of the scores are those of the part, multiplied by the ratio of
the numbers of samples. Groups of directions which only all samples may support join the step by
their log evidence, with the gains that a score test predicts and the costs of `ModelAverage`. The
weight of the identity follows in the same way from the scores at the forecasts of all samples, and
multiplies the estimates. The pass reads forecasts and labels by blocks of rows. Beside them there
are five arrays of length n, and the directions at the part until the pass begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.special import logsumexp, softmax

from skcalib._util.arithmetic import centred, softmax_parts
from skcalib._util.sizes import SIZES
from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    inflation,
    numbers_by_appearance,
)
from skcalib.data.labels import labels_or_shares, one_hot_rows
from skcalib.links.averaging import PRIOR, Model, ModelAverage, identity_model, tree_of
from skcalib.links.basis import CONFUSION, BasisBlock, Directions
from skcalib.links.newton import row_blocks
from skcalib.proper.residual_tests import NO_CHANGE, TINY, Extension, orthonormal
from skcalib.scores import Brier, LogLoss, ProperScore, weighted_mean
from skcalib.smoothers._base import check_at_least_two, warn_few_per_class
from skcalib.stats.squared_norm import LEAST_NOISE, SquaredNorm, noise_cumulants

if TYPE_CHECKING:
    from skcalib.data.problem import Problem

#: The targets of intervals.
CURVE = "E D(C, S), as far as {} polynomials of the log odds represent C = E[Y|S]"
MAPS = "E D(C, S), as far as {} and curves of the top class and of all classes represent C = E[Y|S]"
BY_CLASS = "one temperature, a bias and a slope of each class"
CONFUSED = f"{BY_CLASS}, constants by most likely class"
COMMON = "one temperature (too few samples for maps by class)"
_PROBES = 256  # draws by which traces are estimated
_SMALL_TARGET = 1 << 16  # entries of one-hot labels that are kept
_BETWEEN = 0.1  # largest relative variance of the squared change: else it is that of few samples
_END = 746.0  # log odds of the last cell; no float64 has more
_SHARE = 0.02  # of a part, at least
_CLUSTERS = 40  # of a part, at least
TIMES = 2  # sizes of a part above which there is one
_LEAST_SHARE = 0.25  # of effective samples among all; below it, weights differ too much for a part


# --- The estimate ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorTerms:
    """Terms of a loss (n,): ``errors``, whose mean is the error, and ``differences`` of losses."""

    errors: np.ndarray
    differences: np.ndarray


def no_terms(n_samples: int) -> dict[type, ErrorTerms]:
    """Zeros to which the terms of maps are added, of both scores: these share nearly all work."""
    return {kind: ErrorTerms(np.zeros(n_samples), np.zeros(n_samples)) for kind in (Brier, LogLoss)}


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
        """Some rows of the target minus probabilities (m, K); a small target is kept for speed."""
        if self.forecast.size <= _SMALL_TARGET:
            return self.target[rows] - proba
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
    def sample_share(self) -> np.ndarray:
        """Share of one sample of each row (n,)."""
        return self.root**2 / self.share

    @property
    def half(self) -> float:
        """The factor of the Brier score."""
        return 0.5 if self.forecast.shape[1] == 2 else 1.0

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
        tested = self.tested
        missing = 0.0 if tested is None else tested.missing(self)
        if tested is None or missing == 0:
            return 0.0
        taken = self.share @ np.sum((tested.proba - self.forecast) ** 2, axis=1)
        return float(missing / (missing + taken))

    @property
    def evidence(self) -> dict[str, float]:
        """Weights of the kinds of maps, with the extension as a curve or confusion."""
        weights, extension = dict(self.average.evidence), self.extension
        if extension is not None:
            name = "confusion" if extension.transitions else "curve"
            weights[name] += extension.share * (1 - weights[name])
        return weights

    @property
    def conditional(self) -> np.ndarray:
        """The averaged forecasts (n, K), with those of the extension."""
        averaged, extension = self.average.averaged, self.extension
        if extension is None:
            return averaged
        return averaged + extension.share * (extension.proba - averaged)

    @property
    def target_text(self) -> str:
        """The quantity that the interval covers."""
        if self.forecast.shape[1] == 2:
            return CURVE.format(self.average.basis.degree)
        if "confusion" in self.average.directions.names:
            return MAPS.format(CONFUSED)
        return MAPS.format(BY_CLASS if self.average.basis.by_class else COMMON)

    def loss(self, score: ProperScore) -> np.ndarray:
        """Loss of each sample (n,)."""
        losses = np.empty(len(self.weight))
        for rows in row_blocks(self.forecast):
            losses[rows] = score.loss(self.targets(rows), self.forecast[rows])
        return losses

    def refinement(self, score: ProperScore, loss: np.ndarray) -> np.ndarray:
        """Loss minus calibration; where the loss is infinite, the loss of the averaged forecast."""
        possible = np.isfinite(loss)
        if possible.all():
            return loss - self.errors(score)
        refinement, rows = np.empty(len(loss)), np.flatnonzero(~possible)
        refinement[rows] = score.loss(self.targets(rows), np.maximum(self.conditional[rows], TINY))
        refinement[possible] = loss[possible] - self.errors(score)[possible]
        return refinement

    def errors(self, score: ProperScore) -> np.ndarray:
        """Terms whose mean is the error (n,)."""
        return self._with_extension(score, "errors")

    def differences(self, score: ProperScore) -> np.ndarray:
        """Paired differences of losses (n,)."""
        return self._with_extension(score, "differences")

    def map_terms(self, score: ProperScore, kind: Literal["errors", "differences"]) -> np.ndarray:
        """Terms (n,) of a kind by the averaged maps alone."""
        return getattr(self._terms_of_maps[type(score)], kind)

    def _with_extension(self, score, kind):
        """Terms of a kind by the averaged maps and, where these are finite, by the extension."""
        of_maps, extension = self.map_terms(score, kind), self.extension
        if extension is None or extension.share == 0:
            return of_maps
        extended, share = getattr(self._terms_of_extension[type(score)], kind), extension.share
        finite = np.isfinite(of_maps)
        mixed = (1 - share) * np.where(finite, of_maps, 0.0) + share * extended
        return np.where(finite, mixed, of_maps)

    @cached_property
    def _terms_of_maps(self):
        terms = no_terms(len(self.weight))
        for share, model in self.average.weighted_models:
            for rows, block in self.average.directions.subset(model.groups):
                p = model.proba[rows]
                self._add_terms(terms, share, p, rows, self._optimism(model, p, rows, block))
        return terms

    @cached_property
    def _terms_of_extension(self):
        extension: Any = self.extension
        base, terms = extension.base, no_terms(len(self.weight))
        for rows, block in self.average.directions.subset(base.groups):
            optimism = np.array(extension.optimism(self, rows))
            if base.groups:
                optimism += self._optimism(base, extension.start[rows], rows, block)
            self._add_terms(terms, 1.0, extension.proba[rows], rows, optimism)
        return terms

    def _add_terms(self, terms, share, p, rows, optimism):
        """Add the terms by corrected forecasts (m, K), with a weight, to those of some rows."""
        s = self.forecast[rows]
        change, log_gain = p - s, self.log_gain(rows, p)
        gain = np.einsum("ik,ik->i", self.residual(rows, s), change)
        squares = np.einsum("ik,ik->i", change, change)
        terms[Brier].errors[rows] += share * (self.half * (gain - optimism[0]))
        terms[Brier].differences[rows] += share * (self.half * (2 * gain - squares))
        terms[LogLoss].errors[rows] += share * (log_gain - optimism[1])
        terms[LogLoss].differences[rows] += share * log_gain

    def log_gain(self, rows: slice, proba: np.ndarray) -> np.ndarray:
        """Log loss of some of the forecasts minus that of corrected ones (m, K), (m,)."""
        label = self.average.label
        if label.ndim == 2:
            changed = LogLoss().loss(label[rows], np.maximum(proba, TINY))
            return LogLoss().loss(label[rows], self.forecast[rows]) - changed
        at_label = np.arange(len(proba)), label[rows]
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(proba[at_label], TINY)) - np.log(self.forecast[rows][at_label])

    def gain(self, group: str) -> np.ndarray:
        """Gain (n,) of the log loss by the model of one group, without its optimism, or 0."""
        gain = np.zeros(len(self.weight))
        for model in (model for model in self.average.models if model.groups == (group,)):
            for rows, block, p in self._blocks_of(model):
                gain[rows] = self.log_gain(rows, p) - self._optimism(model, p, rows, block)[1]
        return gain

    def corrected(self, model: Model, rows: slice, block: BasisBlock) -> np.ndarray:
        """Forecasts of a model (m, K) at some rows, whose block has all directions."""
        return model.proba[rows]

    def _blocks_of(self, model: Model) -> Iterator[tuple[slice, BasisBlock, np.ndarray]]:
        """Rows, the directions of a model there, and its forecasts."""
        for rows, block in self.average.directions:
            p = self.corrected(model, rows, block)
            yield rows, self.average.basis.part(block, model.groups), p

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

    @cached_property
    def _known_steps(self):
        return {}

    def _steps_of_clusters(self, model):
        r"""Change of the parameters (G, J) of a model by each cluster, as far as it is one step.

        It is the product of the inverse Hessian with the score u of the cluster, divided by one
        minus the leverage: the information of the cluster along this step s, over :math:`u^\top s`.
        """
        if model.groups in self._known_steps:
            return self._known_steps[model.groups]
        cluster: Any = self.cluster
        n_clusters, weight = int(cluster.max()) + 1, self.average.weight
        score: Any = 0.0
        for rows, block, p in self._blocks_of(model):
            scores = weight[rows, None] * block.project(self.residual(rows, p))
            score = score + cluster_sums(scores, cluster[rows], n_clusters)
        step, information = score @ model.covariance, np.zeros(n_clusters)
        for rows, block, p in self._blocks_of(model):
            change = block.changes(step[cluster[rows]])
            along = np.einsum("ik,ik->i", p * centred(p, change), change)
            information += cluster_sums(weight[rows] * along, cluster[rows], n_clusters)
        product = np.einsum("ij,ij->i", score, step)
        leverage = np.divide(information, product, out=np.zeros(n_clusters), where=product > 0)
        step = step / (1 - np.clip(leverage, 0, 0.5))[:, None]
        self._known_steps[model.groups] = step
        return step


# --- The interval ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorNorm(SquaredNorm):
    """`SquaredNorm` of an error, with a second test of exact calibration and bounds.

    ``calibrated`` is the squared norm of the scores at the forecasts. ``odds`` are those of the
    models against the identity, 0 for samples in clusters. ``largest_error`` is the largest one
    that the forecasts allow. ``wider`` is the squared norm with cells and transitions, whose
    interval is covered too.
    """

    calibrated: SquaredNorm | None = None
    odds: float = np.inf
    largest_error: float = np.inf
    wider: SquaredNorm | None = None

    def interval(self, confidence_level: float) -> tuple[float, float]:
        r"""Parameters that are not rejected; zero is one of them unless a second test rejects it.

        The second test is that of ``calibrated``, or odds of at least :math:`1 / (1 - level)`.
        """
        if not np.isfinite(self.estimate):
            return np.inf, np.inf
        low, high = super().interval(confidence_level)
        if self.wider is not None:
            wider_low, wider_high = self.wider.interval(confidence_level)
            low, high = min(low, wider_low), max(high, wider_high)
        high = float(min(high, self.largest_error))
        if low > 0 and self.calibrated is not None and self.odds < 1 / (1 - confidence_level):
            low = low if self.calibrated.interval(confidence_level)[0] > 0 else 0.0
        return min(low, high), high


def squared_norms(
    problems: Sequence[AveragedProblem], scores: Sequence[ProperScore], reduce: str = "mean"
) -> list[ErrorNorm]:
    """`ErrorNorm` of each score, reduced over the problems of a notion; infinite if its loss is.

    The second test is the same for all. There are two passes: the sums of all projections, and
    their noise.
    """
    share = 1 / len(problems) if reduce == "mean" else 1.0
    finite = [
        score
        for score in scores
        if all(np.isfinite(problem.errors(score)).all() for problem in problems)
    ]
    infinite = ErrorNorm(np.inf, LEAST_NOISE, 0.0, 0.0)
    if not finite:
        return [infinite] * len(scores)
    of_scores = [BrierProjection if isinstance(score, Brier) else LogProjection for score in finite]
    kinds: list[Any] = [ScoreProjection, *of_scores]
    by_problem = [[kind(problem) for kind in kinds] for problem in problems]
    for problem, projections in zip(problems, by_problem, strict=True):
        for rows, block in problem.average.directions:
            for projection in projections:
                projection.add(rows, block)
        for projection in projections:
            projection.solve()
    at_zero, *fitted = zip(*by_problem, strict=True)
    noise_at_zero = ScoreNoise(at_zero, 1.0)
    noises = [FitNoise(of_score, share) for of_score in fitted]
    for blocks in zip(*(problem.average.directions for problem in problems), strict=True):
        for noise in (noise_at_zero, *noises):
            noise.add(blocks)
    with np.errstate(over="ignore"):  # the mean of several odds has their level, however dependent
        odds = float(np.mean(np.exp([problem.average.log_odds for problem in problems])))
    if problems[0].cluster is not None:  # the evidence is that of independent samples
        odds = 0.0
    calibrated = noise_at_zero.norm
    norms = [replace(noise.norm, calibrated=calibrated, odds=odds) for noise in noises]
    known = dict(zip(finite, norms, strict=True))
    return [known.get(score, infinite) for score in scores]


class ScoreProjection:
    """The scores of all directions at the forecasts, whitened by their information.

    `add` takes rows in a first pass. Then `solve` sets the orthonormal directions ``root`` and the
    ``mean`` residual on them.
    """

    scale = 1.0

    def __init__(self, problem: AveragedProblem) -> None:
        self.problem = problem
        self._information: Any = 0.0
        self._score: Any = 0.0

    def at(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (m, K) of the information, and those from which residuals are taken."""
        return np.exp(block.log), self.problem.forecast[rows]

    def add(self, rows: slice, block: BasisBlock) -> None:
        """Add the information and the mean score of some rows."""
        p, predicted = self.at(rows, block)
        share = self.problem.share[rows]
        residual = self.problem.residual(rows, predicted)
        self._score = self._score + block.total(share[:, None] * residual)
        self._information = self._information + block.information(p, share)

    def solve(self) -> None:
        """Whiten the mean score."""
        root = orthonormal(self._information)
        self.root, self.mean = root / self.scale, self._score @ root / self.scale

    def whitened(
        self, rows: slice, block: BasisBlock, p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (m, J) of the residuals from p, and the traces (m,) of their variances there."""
        residual = self.problem.residual(rows, p)
        if p.shape[1] == 2:  # multiples of the directions of the second class
            top: Any = block.top
            columns = top.T @ self.root
            size = np.einsum("ij,ij->i", columns, columns)
            return residual[:, 1:] * columns, p[:, 0] * p[:, 1] * size
        return block.project(residual, self.root), block.leverage(p, self.root @ self.root.T)

    def noise(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Noise (m, J) and its expected squared norm under calibration (m,)."""
        problem = self.problem
        noise, leverage = self.whitened(rows, block, problem.forecast[rows])
        return noise, problem.average.dispersion * problem.root[rows] ** 2 * leverage


class LogProjection(ScoreProjection):
    """The gain of the best model, and half the whitened mean score at this model."""

    scale, largest_error = np.sqrt(2), np.inf

    def at(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """The forecasts of the best model (m, K), twice."""
        p = self.problem.corrected(self.problem.average.best, rows, block)
        return p, p

    def noise(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Noise (m, J) and the gain (m,)."""
        p = self.at(rows, block)[0]
        noise, leverage = self.whitened(rows, block, p)
        leverage *= 2 * self.problem.sample_share[rows] / (p.shape[1] - 1)
        gain = self.problem.log_gain(rows, p)
        return noise / np.sqrt(1 - np.clip(leverage, 0.0, 0.5))[:, None], gain

    @staticmethod
    def norm(traces: _Traces, gain: float, variance: float) -> ErrorNorm:
        """The norm from the traces of the noise, and the mean gain and its variance."""
        raw = gain + traces.squared_mean
        signal = 0.25 * variance + traces.signal
        # A gain may be negative: the ratio of signal to raw is that of noise at least.
        floor = max(traces.first, LEAST_NOISE)
        noise2, noise3 = traces.noise
        return ErrorNorm.from_mean(signal, max(raw, floor), raw - traces.first, noise2, noise3)


class BrierProjection:
    """Y - S on an orthonormal basis of the tangents at S and of the changes by two maps.

    These are the affine map and the best model. The noise is that of the affine map. `add` and
    `solve` are those of `ScoreProjection`.
    """

    def __init__(self, problem: AveragedProblem) -> None:
        self.problem, average = problem, problem.average
        self._models = [average.affine, *[average.best] * (average.best is not average.affine)]
        self._gram: Any = 0.0
        self._mean: Any = 0.0
        self.largest_error = 0.0

    def _corrected(self, rows, block):
        return [self.problem.corrected(model, rows, block) for model in self._models]

    def add(self, rows: slice, block: BasisBlock) -> None:
        """Add products of all directions, those with the residual, and the largest error."""
        problem, share, p = self.problem, self.problem.share[rows], np.exp(block.log)
        s = problem.forecast[rows]
        changes = [fitted - s for fitted in self._corrected(rows, block)]
        residual = problem.residual(rows, s)
        weighted = share[:, None] * p
        sums = block.total(np.stack([weighted * centred(p, d) for d in [*changes, residual]]))
        cross = sums[:-1].T
        of_changes = np.tensordot(share, _products(changes, changes), 1)
        gram = np.block([[block.tangent_gram(p, share), cross], [cross.T, of_changes]])
        along = np.tensordot(share, _products(changes, [residual]), 1)
        worst = np.einsum("ik,ik->i", s, s) + 1 - 2 * s.min(axis=1)
        self._gram, self._mean = self._gram + gram, self._mean + np.append(sums[-1], along)
        self.largest_error += problem.half * float(share @ worst)

    def solve(self) -> None:
        """Make the directions orthonormal; maps that change nothing are none."""
        gram = np.array(self._gram)
        for j in range(len(gram) - len(self._models), len(gram)):
            if gram[j, j] <= NO_CHANGE:
                gram[j], gram[:, j] = 0.0, 0.0
        self.root = orthonormal(self.problem.half * gram)
        self.mean = self.problem.half * self._mean @ self.root

    def noise(self, rows: slice, block: BasisBlock) -> tuple[np.ndarray, np.ndarray]:
        """Noise (m, J) and the squared change by the affine map (m,)."""
        problem, half = self.problem, self.problem.half
        p, fitted = np.exp(block.log), self._corrected(rows, block)
        changes = [forecast - problem.forecast[rows] for forecast in fitted]
        residual = problem.residual(rows, fitted[0])
        if p.shape[1] == 2:  # the columns of the first class have the opposite sign
            tangents = (p[:, 0] * p[:, 1] * block.top).T
            columns = np.column_stack([tangents, *(d[:, 1] for d in changes)]) @ self.root
            squares = 2 * np.einsum("ij,ij->i", columns, columns)
            noise = 2 * residual[:, 1:] * columns
        else:
            start, inner = len(self.root) - len(changes), self.root @ self.root.T
            squares = block.tangent_squares(p, inner[:start, :start])
            products = _products(changes, changes)
            squares += np.einsum("ijl,jl->i", products, inner[start:, start:])
            for d, row in zip(changes, inner[start:, :start], strict=True):
                crossed = block.logits(row) - block.log
                squares += 2 * np.einsum("ik,ik->i", p * centred(p, d), crossed)
            along = _products(changes, [residual])[:, :, 0]
            tangents, of_changes = np.split(self.root, [start])
            noise = block.tangent_project(p, residual, tangents) + along @ of_changes
        leverage = half * problem.sample_share[rows] * squares / (p.shape[1] - 1)
        change = np.einsum("ik,ik->i", changes[0], changes[0])
        return half * noise / np.sqrt(1 - np.clip(leverage, 0.0, 0.5))[:, None], half * change

    @staticmethod
    def norm(traces: _Traces, change: float, variance: float) -> ErrorNorm:
        """The norm from the traces of the noise, and the mean squared change and its variance."""
        between = min(variance / change**2, _BETWEEN) if change > 0 else 0.0
        raw, (noise2, noise3) = traces.squared_mean, traces.noise
        estimate = raw - traces.first
        return ErrorNorm.from_mean(traces.signal, raw, estimate, noise2, noise3, between)


def _products(left, right):
    """Inner products of the rows of two lists of arrays (n, K): (n, len(left), len(right))."""
    products = [[np.einsum("ik,ik->i", a, b) for b in right] for a in left]
    return np.moveaxis(np.array(products), 2, 0)


class _Noise:
    """Noise of projections of the problems of a notion, which is added up over blocks of rows."""

    _add_values: Callable[..., None]  # of the projections, beside their noise

    def __init__(self, projections: Sequence[Any], share: float) -> None:
        self._projections, self._share = projections, share
        problem = projections[0].problem
        self._problem = problem
        mean = np.sqrt(share) * np.concatenate([projection.mean for projection in projections])
        self._traces = _Traces(mean) if problem.cluster is None else _ClusterTraces(mean, problem)

    def add(self, blocks: Sequence[tuple[slice, BasisBlock]]) -> None:
        """Add the samples of one block of each problem."""
        rows, pairs = blocks[0][0], zip(self._projections, blocks, strict=True)
        noises, values = zip(
            *(projection.noise(rows, block) for projection, (_, block) in pairs), strict=True
        )
        root = self._problem.root[rows]
        noise = np.hstack(noises)
        noise *= (np.sqrt(self._share) * root)[:, None]
        self._traces.add(noise, self._problem.share[rows] / root, rows)
        self._add_values(values, rows)


class ScoreNoise(_Noise):
    """Noise of the scores at the forecasts, if these are calibrated.

    The residuals Y - S do not depend on a fit. So this test of zero is valid where the noise of the
    other test is too small because the fitted map follows the labels: for few samples, and for
    forecasts close to 0 and 1. The noise has the variance of products of different samples, but at
    least the mean and the variance that calibrated forecasts would give it.
    """

    _expected = 0.0

    def _add_values(self, expected, rows):
        self._expected += sum(float(values.sum()) for values in expected)

    @property
    def norm(self) -> SquaredNorm:
        """Law of the squared norm of the scores."""
        traces, expected = self._traces, self._expected
        second, third = traces.noise
        skewness = min(third / second**1.5, np.sqrt(8))
        least = 2 * expected**2 / max(traces.size, 1)
        second = max(second - 2 * traces.fourth, least, LEAST_NOISE)
        estimate = traces.squared_mean - max(expected, traces.first)
        return SquaredNorm(estimate, second, skewness * second**1.5, 0.0)


class FitNoise(_Noise):
    """Noise of projections at fitted maps, and the mean and variance of the gain by a map."""

    def __init__(self, projections: Sequence[Any], share: float) -> None:
        super().__init__(projections, share)
        self._gain, cluster = 0.0, self._problem.cluster
        self._squares = np.zeros((2, 2))  # products of gains and roots
        self._sums: Any = None if cluster is None else np.zeros((2, int(cluster.max()) + 1))

    def _add_values(self, gains, rows):
        gain, root = self._share * sum(gains), self._problem.root[rows]
        self._gain += float(self._problem.share[rows] @ gain)
        pair = np.stack([root * gain, root])
        if self._sums is None:
            self._squares += pair @ pair.T
        else:
            for total, values in zip(self._sums, pair, strict=True):
                total += np.bincount(self._problem.cluster[rows], values, minlength=len(total))

    @property
    def norm(self) -> ErrorNorm:
        """The norm of the error, without its second test."""
        squares = self._squares if self._sums is None else self._sums @ self._sums.T
        square = squares[[0, 0, 1], [0, 1, 1]]
        variance = max(float(square @ [1.0, -2 * self._gain, self._gain**2]), 0.0)
        norm = self._projections[0].norm(self._traces, self._gain, variance)
        largest = self._share * sum(projection.largest_error for projection in self._projections)
        return replace(norm, largest_error=largest)


class _Traces:
    """Traces of powers of the covariance of a mean, added up over blocks of samples.

    With very many directions the second and third are estimated by random signs.
    """

    def __init__(self, mean):
        self._mean, self.size = mean, len(mean)
        self.first, self.fourth, self.signal = 0.0, 0.0, 0.0
        self._probes, columns = None, len(mean)
        if len(mean) > SIZES.exact_directions:
            signs = np.random.RandomState(0).choice([-1.0, 1.0], size=(len(mean), _PROBES))
            self._probes, columns = signs, _PROBES
        self._image = np.zeros((len(mean), columns))

    def add(self, noise, repeats, rows):
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


# --- Very many samples of two classes: merged rows ------------------------------------------------


def compress_rows(problem: Problem) -> Problem:
    """The problem with a row for each cell and label, or as it is.

    It stays as it is with at most 200,000 rows, more than two columns, rows that stand for several
    samples already, label distributions or clusters.
    """
    several = any(rows is not None for rows in (problem.square, problem.votes, problem.cluster))
    if len(problem.weight) <= SIZES.merged_samples or problem.forecast.shape[1] != 2 or several:
        return problem
    event = problem.outcome
    if event.ndim == 2:
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
    place, last = np.arcsinh(odds, out=odds), SIZES.merged_cells
    place *= last / np.arcsinh(_END)
    np.clip(place, -last, last, out=place)
    place[certain] += np.sign(place[certain])
    return np.rint(place, out=place).astype(np.intp) + (last + 1)


# --- Very many samples of more classes: a part and one step ---------------------------------------


def n_fitted(n_samples: int, n_classes: int) -> int:
    """Number of samples to which the models are fitted."""
    size = max(round(_SHARE * n_samples), SIZES.part_samples, SIZES.part_class_samples * n_classes)
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

    def map_terms(self, score: ProperScore, kind: Literal["errors", "differences"]) -> np.ndarray:
        """Terms of the averaged maps with the step; differences are those of the best map."""
        (log_gain, gain, square), (log_step, step) = self.gains, self.steps
        if kind == "differences":
            return self.half * (2 * gain - square) if isinstance(score, Brier) else log_gain
        if isinstance(score, Brier):
            return self.half * (self.changed * (gain + step))
        return self.changed * (log_gain + log_step)


def averaged_problem(problem: Problem) -> AveragedProblem:
    """Averaged maps of all samples, or of a part of very many."""
    return (OneStepProblem if is_large(problem) else AveragedProblem).of(problem)


def _drawn(problem):
    """Rows of the part in order, of whole clusters if there are any, drawn with a fixed seed."""
    size = n_fitted(*problem.forecast.shape)
    if problem.cluster is None:
        order = np.random.RandomState(0).permutation(len(problem.weight))
        return np.sort(order[:size])
    number = numbers_by_appearance(problem.cluster)
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
        return Directions(self.basis, self.forecast).subset(self._names)

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
        size, n_directions = fitted.size, len(fitted.basis.scale)
        squares, crossed = np.zeros((2, n_directions, n_directions))
        weight = part.share * part.sample_share * size
        n_clusters = 0 if part.cluster is None else int(part.cluster.max()) + 1
        scores, tangents = np.zeros((2, n_clusters, n_directions))
        for rows, block in fitted.all_directions:
            p, residual = proba[rows], fitted.residual(rows, proba[rows])
            score, tangent = block.project(residual), block.tangent_project(p, residual)
            if part.cluster is None:
                weighted = score * weight[rows, None]
                squares += score.T @ weighted
                crossed += tangent.T @ weighted
            else:
                share, cluster = part.share[rows, None], part.cluster[rows]
                scores += cluster_sums(share * score, cluster, n_clusters)
                tangents += cluster_sums(share * tangent, cluster, n_clusters)
        if part.cluster is not None:
            squares, crossed = size * scores.T @ scores, size * tangents.T @ scores
        return cls(information, at_start, squares, crossed)


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
