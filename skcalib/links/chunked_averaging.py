r"""`ModelAverage` from sums over chunks of samples, in few passes.

`ChunkedAverage` is an average without samples: `ChunkedAverage.at` gives that of some samples.
`TreeFit` fits its models. All models whose parent is known take their steps in the same pass, which
adds up their log likelihoods, gradients and Hessians. The steps are those of a fit in memory, from
the same starts, so the parameters are the same up to rounding. A fit in memory leaves out models by
the evidence of those before them in the list. Here a model may be fitted before these are, and is
left out afterwards by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib.links._base import Minimum, newton_steps, solve_step
from skcalib.links.averaging import (
    _RIDGE,
    _TOLERANCE,
    PER_CLASS,
    Model,
    ModelAverage,
    _confused,
    fit_of_block,
    identity_model,
    tree_of,
)
from skcalib.links.basis import CONFUSION, Directions, LogitBasis

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_UNSURE = 1.0  # predicted decrease from which a pass tries shorter steps too
_TRIALS = 4  # lengths of a step, each half of the one before
_NEGLIGIBLE = 30.0  # log evidence below the best model from which a fit need not be accurate


@dataclass(frozen=True)
class Request:
    """Parameters of a model, and the groups whose gradient and information are needed there."""

    groups: tuple[str, ...]
    theta: np.ndarray
    names: tuple[str, ...]


class ChunkedAverage(ModelAverage):
    """A `ModelAverage` without samples.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least two.
    limit : float
        The `detection_limit` of all forecasts.
    total, squares : float
        Sums of the weights and of their squares.

    Attributes
    ----------
    names : tuple of str
        Groups of directions of the intervals.
    """

    def __init__(self, n_classes: int, *, limit: float, total: float, squares: float) -> None:
        self.size = total**2 / squares
        self.factor = self.size / total
        self.basis = LogitBasis(n_classes)
        by_class = n_classes > 2 and self.size >= PER_CLASS * n_classes
        self.basis.declare(limit, size=self.size, by_class=by_class)
        self.names = tuple(name for name in self.basis.groups if name not in CONFUSION)
        self.models, self.shares, self.log_odds = [], np.ones(1), -np.inf

    def at(self, forecast: np.ndarray, target: np.ndarray, weight: np.ndarray) -> ModelAverage:
        """The average of forecasts (m, K), one-hot targets and weights (m,), with its models."""
        found = ModelAverage()
        found.size, found.basis, found.forecast = self.size, self.basis, forecast
        found.label, found.weight = target.argmax(axis=1), weight * self.factor
        found.unit = found.weight
        found.every = Directions(self.basis, forecast)
        found.directions = found.every.only(self.names)
        found.shares, found.log_odds = self.shares, self.log_odds
        best = max(self.models, key=lambda model: model.evidence, default=None)
        found.models = []
        for share, model in zip(self.shares[1:], self.models, strict=True):
            if share > 0 or model is best or model is self.affine:
                parts = [
                    fit_of_block(block, model.theta, found.label[rows], found.weight[rows])[1]
                    for rows, block in found.directions.of(model.groups)
                ]
                model = replace(model, proba=np.concatenate([model.proba, *parts]))
            found.models.append(model)
        return found

    def start_sums(self, average: ModelAverage) -> tuple[Any, ...]:
        """Sums at the identity over the samples of `at`, before the scales are known.

        Log likelihoods of the forecasts without and with zeros, gradient and information of all
        directions, and their scores at the forecasts with zeros.
        """
        proba = np.exp(self.basis.log_proba(average.forecast))
        gradient, information = average._score(proba, average.every)
        score, residual = 0.0, -average.forecast
        residual[np.arange(len(residual)), average.label] += 1
        for rows, block in average.every:
            score = score + block.total(average.weight[rows, None] * residual[rows])
        base, own = (average._log_likelihood(one) for one in (proba, average.forecast))
        return base, own, gradient, information, score

    @staticmethod
    def model_sums(average: ModelAverage, request: Request) -> tuple[Any, ...]:
        """Log likelihood, gradient and information over the samples of `at`."""
        likelihood, gradient, information = 0.0, 0.0, 0.0
        every = dict(_by_rows(average.every.of(request.names)))
        for rows, block in average.every.of(request.groups):
            w = average.weight[rows]
            own, p = fit_of_block(block, request.theta, average.label[rows], w)
            likelihood += own
            block = every[rows.start]
            gradient = gradient + block.total(w[:, None] * average._residual(rows, p))
            information = information + block.information(p, w)
        return likelihood, gradient, information


def _by_rows(blocks):
    """Blocks by their first row."""
    return ((rows.start, block) for rows, block in blocks)


@dataclass
class _Run:
    """A fit that is under way: its Newton steps, and the parameters that they may try next.

    ``reached`` is what is known of the last parameters that were accepted, ``decrease`` that of the
    penalised loss which the next ``step`` predicts there, and ``scale`` the share of the step that
    is tried first.
    """

    parent: Model
    steps: Generator
    names: tuple[str, ...]
    reached: Minimum
    step: np.ndarray
    decrease: float
    scale: float = 1.0

    @property
    def trials(self) -> list[np.ndarray]:
        """Parameters whose sums the next pass adds up."""
        n_trials = _TRIALS if self.decrease > _UNSURE or self.scale < 1 else 1
        scales = self.scale * 0.5 ** np.arange(n_trials)
        return [self.reached.parameters + scale * self.step for scale in scales]


class TreeFit:
    """Fits the models of a `ChunkedAverage`: `begin`, then `requests` and `receive` in turn.

    Attributes
    ----------
    average : ChunkedAverage
        The average, whose models and weights are set at the end.
    unfinished : list of str
        Models that `stop` ended before the tolerance was reached.
    score, information : ndarray
        Mean score of all directions at the forecasts, and their mean information.
    """

    def __init__(self, average: ChunkedAverage) -> None:
        self.average, self.unfinished = average, list[str]()
        self._tree, self._needed = tree_of(average.basis)
        self._parents = {parent for _, parent in self._tree}
        self._no_rows = np.empty((0, average.basis.n_classes))
        self._done: dict[tuple[str, ...], Model] = {(): identity_model(self._no_rows)}
        self._scores: dict[tuple[str, ...], Any] = {}
        self._runs: dict[tuple[str, ...], _Run] = {}
        self._skipped: set[tuple[str, ...]] = set()
        self._every_scores: dict[tuple[str, ...], Any] = {}  # of all directions
        self._asked: Model | None = None  # the model where that of all directions is needed
        self._refused: set[tuple[str, ...]] = set()  # models to which no constants are added

    def begin(self, sums: Sequence[Any]) -> None:
        """Set the scales of the directions from the `start_sums` of all samples, and start."""
        average, (base, own, gradient, information, score) = self.average, sums
        average.basis.learn_scale(np.diag(information) / average.size)
        scale, average._base = average.basis.scale, float(base)
        gradient, information = gradient * scale, information * np.outer(scale, scale)
        self._own = float(own) - average._base
        self.score, self.information = score * scale / average.size, information / average.size
        self._every_scores[()] = gradient, information
        n_names = len(average.basis.select(average.names))  # the others come last
        self._scores[()] = gradient[:n_names], information[:n_names, :n_names]
        self._advance()

    @property
    def requests(self) -> list[Request]:
        """What the next pass must add up; empty at the end."""
        found = [
            Request(groups, theta, run.names)
            for groups, run in self._runs.items()
            for theta in run.trials
        ]
        if self._asked is not None:
            every = tuple(self.average.basis.groups)
            found.append(Request(self._asked.groups, self._asked.theta, every))
        return found

    def receive(self, sums: Sequence[tuple[Any, ...]]) -> None:
        """Continue with the `model_sums` of all samples, one for each request."""
        answers = iter(sums)
        for groups, run in list(self._runs.items()):
            found = {theta.tobytes(): (theta, next(answers)) for theta in run.trials}
            self._continue(groups, found)
        if self._asked is not None:
            self._every_scores[self._asked.groups], self._asked = sums[-1][1:], None
        self._advance()

    def stop(self) -> None:
        """End with what is known, and list the models of some weight that are inaccurate."""
        best = max(model.evidence for model in self._done.values())
        runs, self._runs, self._asked = self._runs, {}, None
        for groups, run in runs.items():
            self._end(groups, run.parent, run.reached)
            if self._done[groups].evidence + run.decrease > best - _NEGLIGIBLE:
                self.unfinished.append(" and ".join(groups))
        for groups, parent in self._tree[: self._needed]:
            if groups not in self._done:
                start, fit, _, hessian = self.average._known(
                    groups, self._done[parent], *self._scores[parent]
                )
                state = fit, *self._scores[parent]
                self._end(groups, self._done[parent], Minimum(start, 0, False, state, hessian))
                self.unfinished.append(" and ".join(groups))
        self._tree = tuple(model for model in self._tree if model[0] in self._done)
        self._weigh()

    def _advance(self):
        """Start the fits that are needed now; at the end set the models and their weights."""
        while self._decide():
            pass
        if self.average.basis.confusion:
            self._add_confusion()
        if not self.requests:
            self._weigh()

    def _decide(self):
        """Apply the rule of `ModelAverage` that leaves out models; start or end fits accordingly.

        The evidence of a model counts as soon as it is certain that the model is not left out. So a
        model is left out only if it would be in memory. Returns whether a fit ended at its start.
        """
        best, certain, again = 0.0, True, False
        for place, (groups, parent) in enumerate(self._tree):
            if parent not in self._done:
                certain = certain and parent in self._skipped
                continue
            if groups in self._skipped:
                continue
            always, score = place < self._needed, (self._done[parent], groups)
            if not always and self.average._out_of_reach(best, *score, *self._scores[parent]):
                self._skipped.add(groups)
                self._runs.pop(groups, None)
                self._done.pop(groups, None)
            elif groups in self._done:
                if certain or always:
                    best = max(best, self._done[groups].evidence)
            else:
                certain = False
                if groups not in self._runs:
                    self._start(groups, self._done[parent], self._scores[parent])
                    again = again or groups in self._done
        return again

    def _start(self, groups, parent, score):
        names = self.average.names if groups in self._parents else groups
        start, fit, gradient, hessian = self.average._known(groups, parent, *score)
        known = fit, (fit, *score), gradient, hessian
        steps = newton_steps(start, known=known, tolerance=_TOLERANCE)
        self._runs[groups] = _Run(parent, steps, names, *self._reached(start, *known[1:]))
        self._continue(groups, {})

    def _continue(self, groups, known):
        """Take the Newton steps of a fit as far as the sums of its trials are known."""
        run, answer = self._runs[groups], None
        try:
            name, arguments = run.steps.send(None) if not known else ("value", (run.trials[0],))
            while True:
                if name == "slopes":
                    gradient, hessian = self._slopes(groups, *arguments)
                    run.reached, run.step, run.decrease = self._reached(
                        *arguments, gradient, hessian
                    )
                    run.scale, answer = 1.0, (gradient, hessian)
                elif arguments[0].tobytes() in known:
                    theta, (likelihood, *score) = known[arguments[0].tobytes()]
                    fit = 0.5 * _RIDGE * theta @ theta - likelihood
                    run.scale, answer = 0.5 * run.scale, (fit, (fit, *score))
                else:
                    break
                name, arguments = run.steps.send(answer)
        except StopIteration as end:
            del self._runs[groups]
            self._end(groups, run.parent, end.value)

    @staticmethod
    def _reached(theta, state, gradient, hessian):
        """What is known of accepted parameters, the next step, and the decrease it predicts."""
        step = -solve_step(hessian, gradient)
        return Minimum(theta, 0, False, state, hessian), step, float(-gradient @ step)

    def _slopes(self, groups, theta, state):
        """Gradient and Hessian of the penalised loss in the parameters of a model."""
        _, gradient, information = state
        if len(gradient) > len(theta):
            own = self.average.basis.select(groups)
            gradient, information = gradient[own], information[np.ix_(own, own)]
        return _RIDGE * theta - gradient, information + _RIDGE * np.eye(len(theta))

    def _end(self, groups, parent, found):
        fit, *self._scores[groups] = found.state
        model = self.average._model(groups, parent, found, fit, self._no_rows)
        self._done[groups] = _confused(model) if set(groups) >= CONFUSION else model

    def _add_confusion(self):
        """Ask for what the constants by most likely class need, for the best model so far.

        They are fitted while other models are, and again if another model becomes the best.
        """
        parent = max(self._fitted().values(), key=lambda model: model.evidence)
        groups, self._asked = (*parent.groups, *CONFUSION), None
        score = self._every_scores.get(parent.groups)
        if score is None:
            self._asked = parent
        elif parent.groups not in self._refused and groups not in {**self._runs, **self._done}:
            if self.average._supported(parent, groups, *score):
                self._start(groups, parent, score)
            else:
                self._refused.add(parent.groups)
        if all(set(other) >= CONFUSION for other in self._runs):  # the best model is final
            self._runs = {other: run for other, run in self._runs.items() if other == groups}

    def _fitted(self):
        """The models in the order of the list, without those that are left out."""
        order = [(), *(groups for groups, _ in self._tree)]
        return {frozenset(groups): self._done[groups] for groups in order if groups in self._done}

    def _weigh(self):
        fitted = self._fitted()
        groups = (*max(fitted.values(), key=lambda model: model.evidence).groups, *CONFUSION)
        if groups in self._done:
            fitted[frozenset(groups)] = self._done[groups]
            self.average.names = tuple(self.average.basis.groups)
        self.average._weigh(fitted, self._own)
