r"""Terms of a proper score by sample: loss, calibration error and refinement.

`ProperTerms` holds arrays over samples whose weighted means estimate the loss of the forecast, its
calibration error and its refinement. Without a smoother and a method, the terms
of the Brier score and of the log loss are those of averaged recalibration maps, which
`skcalib.errors.averaged` defines. With the calibrated scores :math:`\hat C` that a smoother
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
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from skcalib._arguments import resolve_loss, resolve_method, resolve_notion, resolve_smoother
from skcalib._parallel import run_each
from skcalib.clusters import outside_level
from skcalib.errors.averaged import AveragedProblem
from skcalib.errors.merged import merged
from skcalib.errors.one_step import OneStepProblem, is_large, n_fitted
from skcalib.links.averaging import ModelAverage
from skcalib.scores import Brier, LogLoss
from skcalib.smoothers import LogitSmoother
from skcalib.smoothers._base import smooth_other_clusters
from skcalib.tower import weighted_mean

if TYPE_CHECKING:
    from skcalib._arguments import LossLike, Method, NotionLike, SmootherLike
    from skcalib.notions import Notion
    from skcalib.problem import Problem
    from skcalib.scores import Divergence, ProperScore
    from skcalib.smoothers import Smoother

SLOW = 1_000_000  # probabilities of more than two classes whose averaged maps take ten seconds


@dataclass(frozen=True)
class ProperTerms:
    """Arrays over samples, already reduced over the problems of the notion.

    ``square`` has the sums of squared weights where a row stands for several samples.
    ``cluster`` has the numbers of the clusters of dependent samples, or is None.
    ``influence`` is a paired difference of losses. With a smoother, its spread gives the standard
    error of the calibration estimate; None where no standard error is known (method "direct").
    """

    loss: np.ndarray
    calibration: np.ndarray
    refinement: np.ndarray
    influence: np.ndarray | None
    uncertainty: float
    weight: np.ndarray
    square: np.ndarray | None = None
    cluster: np.ndarray | None = None

    def mean(self, name: str) -> float:
        """Weighted mean of a term."""
        return float(weighted_mean(getattr(self, name), self.weight))


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
    """Fit a clone of the smoother and estimate each Ĉ without the label of the sample.

    With clusters it is estimated without the labels of the cluster, out of fold.
    """
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
    pairs = notion.problems(problem.forecast, problem.target)
    if smoother is None:
        own = (replace(problem, forecast=forecast, target=target) for forecast, target in pairs)
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
        divided = ((replace(problem, forecast=s, target=y), seed) for s, y in pairs)
        return run_each(_smooth_divided, divided, n_jobs=n_jobs)
    rows = problem.weight, smoother, problem.cluster
    tasks = ((forecast, target, *rows) for forecast, target in pairs)
    return run_each(smooth_held_out, tasks, n_jobs=n_jobs)


def _averaged(problem):
    """Averaged maps of all samples, or of a part of very many."""
    return (OneStepProblem if is_large(problem) else AveragedProblem).of(problem)


def _warn_if_slow(shape):
    """Warn before the averaged maps of several classes take more than about ten seconds."""
    n_samples, n_classes = shape
    if n_classes > 2 and (n_fitted(n_samples, n_classes) + n_samples / 20) * n_classes > SLOW:
        warnings.warn(
            f"The default estimate for {n_samples:,} samples of {n_classes:,} classes takes more "
            "than ten seconds: pass a random part of the samples, or notion='top_label'.",
            UserWarning,
            stacklevel=outside_level(),
        )


def _smooth_divided(problem, seed):
    """As `smooth_held_out` with maps, where a row stands for several samples.

    The samples of a row are divided among five parts at random, and each part gets the maps that
    are fitted to the others.
    """
    rows, parts = problem.split(5, seed)
    conditional = np.empty_like(rows.forecast)
    for part in parts:
        rest = rows.take(np.setdiff1d(np.arange(len(rows.weight)), part))
        average = ModelAverage().fit(rest.forecast, rest.target, rest.weight, rest.square)
        conditional[part] = average.map(rows.forecast[part])
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
    terms = [_terms_of_one(one, score, method) for one in solved]
    share = 1 / len(terms) if notion.reduce == "mean" else 1.0

    def total(name):
        parts = [getattr(term, name) for term in terms]
        return None if parts[0] is None else share * sum(parts)

    names = ("loss", "calibration", "refinement", "influence", "uncertainty")
    reduced = {name: total(name) for name in names}
    one = solved[0]
    return ProperTerms(**reduced, weight=one.weight, square=one.square, cluster=one.cluster)


def _terms_of_one(solved, score, method):
    target, forecast = solved.target, solved.forecast
    uncertainty = float(score.entropy(weighted_mean(target, solved.weight)))
    if isinstance(solved, AveragedProblem):
        loss, (calibration, influence) = solved.loss(score), solved.calibration(score)
        refinement = solved.refinement(score, loss)
        return ProperTerms(loss, calibration, refinement, influence, uncertainty, solved.weight)
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
    return ProperTerms(loss, calibration, refinement, influence, uncertainty, solved.weight)


def refuse_infinite(refinement: np.ndarray) -> None:
    """Raise for infinite losses of the smoother, which are not a property of the forecast."""
    infinite = np.sum(~np.isfinite(refinement))
    if infinite:
        raise ValueError(
            f"The smoother gives probability 0 to the label of {infinite} held-out samples, so "
            "its own log loss is infinite and no comparison is possible: use the default "
            "smoother, method='direct' or loss='brier'."
        )
