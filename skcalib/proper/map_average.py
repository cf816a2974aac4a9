r"""Calibration errors from averaged recalibration maps, without folds.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.softmax import centred
from skcalib.data.clusters import cluster_sums
from skcalib.data.labels import one_hot_rows
from skcalib.links.averaging import Model, ModelAverage
from skcalib.links.newton import row_blocks
from skcalib.proper.residual_tests import Extension
from skcalib.scores import Brier, LogLoss, ProperScore, weighted_mean
from skcalib.smoothers._base import check_at_least_two
from skcalib.smoothers.logit import warn_few_per_class

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.links.basis_block import BasisBlock

#: The targets of intervals.
CURVE = "E D(C, S), as far as {} polynomials of the log odds represent C = E[Y|S]"
MAPS = "E D(C, S), as far as {} and curves of the top class and of all classes represent C = E[Y|S]"
BY_CLASS = "one temperature, a bias and a slope of each class"
CONFUSED = f"{BY_CLASS}, constants by most likely class"
COMMON = "one temperature (too few samples for maps by class)"
_TINY = np.finfo(np.float64).tiny


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
        return self.average._residual(rows, proba)

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
        found[rows] = score.loss(self.targets(rows), np.maximum(self.conditional[rows], _TINY))
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
            changed = LogLoss().loss(label[rows], np.maximum(proba, _TINY))
            return LogLoss().loss(label[rows], self.forecast[rows]) - changed
        here = np.arange(len(proba)), label[rows]
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(proba[here], _TINY)) - np.log(self.forecast[rows][here])

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
