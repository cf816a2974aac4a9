r"""Terms of a proper score by sample: loss, calibration error and refinement.

`ProperTerms` holds arrays over samples whose weighted means estimate the loss of the forecast, its
calibration error and its refinement. Without a smoother and a method, the terms
of the Brier score and of the log loss are those of averaged recalibration maps, which
`skcalib.proper.map_average` defines. With the calibrated scores :math:`\hat C` that a smoother
estimates without the label of the sample, they are

=========  =====================================================  =============================
method     calibration                                            refinement
=========  =====================================================  =============================
"risk"     L(Y, S) - refinement                                   L(Y, Ĉ), or H(Ĉ) for P24
"direct"   D(Ĉ, S)                                                as for "risk"
"cross"    (D(Ĉ, S) + L(Y, S) - L(Y, Ĉ)) / 2 = c <Y - S, Ĉ - S>   L(Y, S) - calibration
=========  =====================================================  =============================

With a smoother, "auto" is "cross" for scores that are a quadratic form, and "risk" for the others.
Without one, an explicit method, or another score than these two, uses `LogitSmoother`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from skcalib._util.parallel import run_each
from skcalib._util.types import Method
from skcalib.data.clusters import outside_level
from skcalib.data.notions import Canonical, Notion, NotionLike, resolve_notion
from skcalib.links.averaging import PER_CLASS, averaged_map
from skcalib.proper.compress_rows import merged
from skcalib.proper.map_average import AveragedProblem
from skcalib.proper.one_step import OneStepProblem, is_large, n_fitted
from skcalib.scores import (
    Brier,
    Divergence,
    LogLoss,
    LossLike,
    ProperScore,
    resolve_loss,
    resolve_method,
    weighted_mean,
)
from skcalib.smoothers import LogitSmoother, Smoother
from skcalib.smoothers._base import smooth_other_clusters
from skcalib.smoothers.named import SmootherLike, resolve_smoother

if TYPE_CHECKING:
    from skcalib.data.problem import Problem

SLOW = 3_300_000  # probabilities of a few classes whose averaged maps take about ten seconds


class ProperTerms:
    """Arrays over samples, reduced over the problems of the notion, computed when read."""

    def __init__(self, parts: Sequence[_SmoothedTerms | _AveragedTerms], reduce: str) -> None:
        self._parts, one = parts, parts[0].solved
        self._share = 1 / len(parts) if reduce == "mean" else 1.0
        self.weight, self.square, self.cluster = one.weight, one.square, one.cluster

    @cached_property
    def loss(self) -> np.ndarray:
        """Loss of the forecast (n,)."""
        return self._total("loss")

    @cached_property
    def calibration(self) -> np.ndarray:
        """Calibration error (n,)."""
        return self._total("calibration")

    @cached_property
    def refinement(self) -> np.ndarray:
        """Refinement (n,)."""
        return self._total("refinement")

    @cached_property
    def influence(self) -> np.ndarray | None:
        """Paired differences of losses (n,), which give the standard error; None for "direct"."""
        return self._total("influence")

    @cached_property
    def uncertainty(self) -> float:
        """Entropy of the mean label."""
        return self._total("uncertainty")

    def mean(self, name: str) -> float:
        """Weighted mean of a term."""
        return float(weighted_mean(getattr(self, name), self.weight))

    def _total(self, name):
        values = [getattr(part, name) for part in self._parts]
        if values[0] is None or len(values) == 1:
            return values[0]
        return self._share * sum(values)


@dataclass(frozen=True)
class SmoothedProblem:
    """One problem of a notion with its calibrated scores Ĉ, which depend on no score.

    ``by_entropy`` is true if the smoother estimates the refinement by the entropy of Ĉ.
    """

    forecast: np.ndarray
    target: np.ndarray
    conditional: np.ndarray
    weight: np.ndarray
    by_entropy: bool
    square: np.ndarray | None = None
    cluster: np.ndarray | None = None

    def refinement(self, score: ProperScore) -> np.ndarray:
        """Refinement of each sample, by the rule of the smoother."""
        if self.by_entropy:
            return score.entropy(self.conditional)
        return score.loss(self.target, self.conditional)


def smooth_held_out(
    forecast: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    smoother: Smoother,
    cluster: np.ndarray | None = None,
) -> SmoothedProblem:
    """Each Ĉ by a clone of the smoother without the label of the sample, or of its cluster."""
    if cluster is None:
        fitted = clone(smoother).fit(forecast, target, weight)
        conditional, by_entropy = fitted.smooth_held_out(), fitted.refinement == "entropy"
    else:
        conditional = smooth_other_clusters(smoother, forecast, target, weight, cluster)
        by_entropy = smoother.refinement == "entropy"
    return SmoothedProblem(forecast, target, conditional, weight, by_entropy, cluster=cluster)


def solve_notion(
    problem: Problem,
    *,
    notion: Notion,
    smoother: Smoother | None,
    n_jobs: int | None = None,
    merge: bool = False,
) -> list[SmoothedProblem] | list[AveragedProblem]:
    """Estimate C for every problem of a notion; without a smoother by averaged maps.

    With `merge` the rows of the only problem may stand for several samples, see `merged`; rows of
    several problems belong to the same samples.
    """
    own = problems_of(problem, notion)
    if smoother is None:
        first = list(islice(own, 2))
        _warn_if_slow(first[0].forecast.shape)
        if merge and len(first) == 1:
            first = [merged(first[0])]
        every = ((one,) for one in chain(first, own))
        return run_each(_averaged, every, n_jobs=n_jobs)
    if problem.square is not None:
        if type(smoother) is not LogitSmoother:
            raise ValueError(
                "A smoother leaves out the label of each sample, so it needs the samples, not a "
                "sketch: leave out smoother=."
            )
        seed = smoother.random_state
        return run_each(_smooth_divided, ((one, seed) for one in own), n_jobs=n_jobs)
    rows = problem.weight, smoother, problem.cluster
    tasks = ((one.forecast, one.target, *rows) for one in own)
    return run_each(smooth_held_out, tasks, n_jobs=n_jobs)


def problems_of(problem: Problem, notion: Notion) -> Iterator[Problem]:
    """The problems of a notion; that of all classes is the problem itself."""
    if type(notion) is Canonical:
        yield problem
        return
    for forecast, target in notion.problems(problem.forecast, problem.target):
        yield replace(problem, forecast=forecast, labels_or_target=target)


def _averaged(problem):
    """Averaged maps of all samples, or of a part of very many."""
    return (OneStepProblem if is_large(problem) else AveragedProblem).of(problem)


def _warn_if_slow(shape):
    """Warn before the averaged maps of several classes take about ten seconds or more.

    Slopes and shifts of single classes have products of all pairs of classes.
    """
    n_samples, n_classes = shape
    time = (n_fitted(n_samples, n_classes) + n_samples / 20) * n_classes
    if n_samples >= PER_CLASS * n_classes:
        time *= 1 + (n_classes / 140) ** 2
    if n_classes > 2 and time > SLOW:
        warnings.warn(
            f"The default estimate for {n_samples:,} samples of {n_classes:,} classes takes about "
            "ten seconds or more: pass a random part of the samples, or notion='top_label'.",
            UserWarning,
            stacklevel=outside_level(),
        )


def _smooth_divided(problem, seed):
    """As `smooth_held_out` with maps; the samples of a row are divided among five random parts."""
    rows, parts = problem.split(5, seed)
    conditional = np.empty_like(rows.forecast)
    for part in parts:
        rest = rows.take(np.setdiff1d(np.arange(len(rows.weight)), part))
        recalibrate = averaged_map(rest.forecast, rest.outcome, rest.weight, rest.square)
        conditional[part] = recalibrate(rows.forecast[part])
    own = rows.forecast, rows.target, conditional, rows.weight
    return SmoothedProblem(*own, by_entropy=False, square=rows.square)


def resolve_estimate(
    smoother: SmootherLike, method: Method, score: ProperScore
) -> tuple[Smoother | None, str]:
    """The smoother and the method of a score; (None, "auto") stands for averaged maps."""
    automatic = isinstance(method, str) and method == "auto"
    if smoother is None and automatic and type(score) in (Brier, LogLoss):
        return None, "auto"
    return resolve_smoother(smoother).for_loss(score), resolve_method(method, score)


def reads_only(loss: object, notion: Notion, smoother: SmootherLike, method: Method) -> bool:
    """Whether only code of the library gets the forecasts, which certainly does not change them."""
    own = loss in ("brier", "log") if isinstance(loss, str) else type(loss) in (Brier, LogLoss)
    automatic = isinstance(method, str) and method == "auto"
    return own and type(notion) is Canonical and smoother is None and automatic


def proper_terms(
    problem: Problem,
    *,
    loss: LossLike,
    notion: NotionLike,
    smoother: SmootherLike,
    method: Method,
    n_jobs: int | None = None,
) -> ProperTerms:
    """Arguments of a public function -> `ProperTerms`, whose rows may stand for several samples."""
    score, notion = resolve_loss(loss), resolve_notion(notion)
    smoother, method = resolve_estimate(smoother, method, score)
    problem.require_order(notion, score)
    solved = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs, merge=True)
    return reduce_terms(solved, score=score, notion=notion, method=method)


def mean_distance(
    problem: Problem,
    distance: Divergence,
    *,
    notion: NotionLike,
    smoother: SmootherLike,
    method: Method,
    n_jobs: int | None = None,
) -> float:
    """Mean distance of the calibrated scores from the forecasts, where there is no loss."""
    if not isinstance(method, str) or method != "direct":
        raise ValueError(
            f"{distance!r} is a distance without a loss, which only method='direct' can use, got "
            f"method={method!r}."
        )
    rule = resolve_notion(notion)
    smoothed = solve_notion(
        problem, notion=rule, smoother=resolve_smoother(smoother), n_jobs=n_jobs
    )
    means = [
        weighted_mean(distance.divergence(one.conditional, one.forecast), one.weight)
        for one in smoothed
    ]
    return float(sum(means)) / (len(means) if rule.reduce == "mean" else 1)


def reduce_terms(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    *,
    score: ProperScore,
    notion: Notion,
    method: str,
) -> ProperTerms:
    """Terms of the problems of a notion, reduced to one record."""
    parts = [
        _AveragedTerms(one, score)
        if isinstance(one, AveragedProblem)
        else _smoothed_terms(one, score, method)
        for one in solved
    ]
    return ProperTerms(parts, notion.reduce)


class _AveragedTerms:
    """As `ProperTerms`, of one problem with averaged maps; computed where they are read."""

    def __init__(self, solved, score):
        self.solved, self._score = solved, score

    @cached_property
    def loss(self):
        return self.solved.loss(self._score)

    @property
    def calibration(self):
        return self.solved.errors(self._score)

    @property
    def influence(self):
        return self.solved.differences(self._score)

    @property
    def refinement(self):
        return self.solved.refinement(self._score, self.loss)

    @property
    def uncertainty(self):
        return float(self._score.entropy(self.solved.mean_target))


@dataclass(frozen=True)
class _SmoothedTerms:
    """As `ProperTerms`, of one problem with a smoother."""

    solved: SmoothedProblem
    loss: np.ndarray
    calibration: np.ndarray
    refinement: np.ndarray
    influence: np.ndarray | None
    uncertainty: float


def _smoothed_terms(solved, score, method):
    target, forecast = solved.target, solved.forecast
    uncertainty = float(score.entropy(weighted_mean(target, solved.weight)))
    loss, refinement = score.loss(target, forecast), solved.refinement(score)
    if method == "direct":
        calibration, influence = score.divergence(solved.conditional, forecast), None
    elif method == "risk":
        refuse_infinite(refinement)
        calibration = influence = loss - refinement
    else:
        influence = loss - score.loss(target, solved.conditional)
        calibration = 0.5 * (score.divergence(solved.conditional, forecast) + influence)
        refinement = loss - calibration
    return _SmoothedTerms(solved, loss, calibration, refinement, influence, uncertainty)


def refuse_infinite(refinement: np.ndarray) -> None:
    """Raise for infinite losses of the smoother, which are not a property of the forecast."""
    infinite = np.sum(~np.isfinite(refinement))
    if infinite:
        raise ValueError(
            f"The smoother gives probability 0 to the label of {infinite} held-out samples, so "
            "its own log loss is infinite and no comparison is possible: use the default "
            "smoother, method='direct' or loss='brier'."
        )
