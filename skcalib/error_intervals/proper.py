"""The proper calibration error of a problem with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.types import Method
from skcalib.data.clusters import independent_size, student_level
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.error_intervals.decision_savings import regret_interval
from skcalib.error_intervals.exact import MarkedLabel, exact_limits, few_labels, is_few
from skcalib.proper.averaged_interval import squared_norms
from skcalib.proper.extended_interval import extended_norms
from skcalib.proper.map_average import AveragedProblem
from skcalib.proper.proper_terms import (
    ProperTerms,
    SmoothedProblem,
    reduce_terms,
    resolve_estimate,
    solve_notion,
)
from skcalib.scores import DecisionCost, LossLike, resolve_loss, resolve_method, weighted_mean
from skcalib.stats.few_events import FEW_LABELS
from skcalib.stats.means import MeanInterval, interval_of_limits, mean_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.smoothers.named import SmootherLike
    from skcalib.stats.squared_norm import SquaredNorm

UNRESOLVED = (
    "the residuals of the maps are not noise in the smallest cells that were tested (p = {:.2g}), "
    "so the error may exceed the upper limit"
)
LEFT_OUT = (
    "similar forecasts have similar residuals: about {:.0%} of the Brier error is in none of the "
    "maps and cells, so the error may exceed the upper limit"
)
SMOOTHED = "E D(C, S), as far as the smoother can represent C = E[Y|S]"
_MANY = 20_000_000  # probabilities
_LARGE = 0.03  # share of the error that is left out


@dataclass(frozen=True)
class ProperEstimate:
    """A proper calibration error with its interval; see `estimate_of_solved`.

    ``target`` names what the interval covers. ``interval`` is None for the method "direct", whose
    interval needs repetitions. ``norm`` and ``evidence`` are those of averaged maps, and None for
    smoothers; ``norm`` is None too if the error is infinite. ``few`` is true if the limits are
    exact because events or wrong predictions are few. ``lower_bound`` is the reason why only the
    lower limit is that of the whole error, or empty. ``residual_pvalue`` is that of the residuals
    of averaged maps in cells.
    """

    terms: ProperTerms
    interval: MeanInterval | None
    target: str
    norm: SquaredNorm | None = None
    evidence: dict[str, float] | None = None
    few: bool = False
    lower_bound: str = ""
    residual_pvalue: float = 1.0


def estimate_proper_error(
    problem: Problem,
    *,
    loss: LossLike,
    notion: NotionLike,
    smoother: SmootherLike = None,
    method: Method = "auto",
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> ProperEstimate:
    """`Problem` -> `ProperEstimate` of one loss."""
    score, notion = resolve_loss(loss), resolve_notion(notion)
    smoother, method = resolve_estimate(smoother, method, score)
    problem.require_order(notion, score)
    solved = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs, merge=True)
    how: dict[str, Any] = {"loss": score, "notion": notion, "method": method}
    return estimate_of_solved(solved, confidence_level=confidence_level, **how)


def estimate_of_solved(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    *,
    loss: LossLike,
    notion: NotionLike,
    method: Method = "auto",
    confidence_level: float = 0.95,
) -> ProperEstimate:
    """Problems from `solve_notion`, which several losses may share -> `ProperEstimate`.

    For averaged maps the interval is that of `squared_norms`, for smoothers that of
    `_interval_of_terms`. Where events or wrong predictions are few its limits are those of
    `exact_limits`, and the upper one is at least that of the other interval.
    """
    run: dict[str, Any] = {"method": method, "confidence_level": confidence_level}
    return estimates_of_solved(solved, losses=[loss], notion=notion, **run)[0]


def estimates_of_solved(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    *,
    losses: Sequence[LossLike],
    notion: NotionLike,
    method: Method = "auto",
    confidence_level: float = 0.95,
) -> list[ProperEstimate]:
    """`estimate_of_solved` for each loss, with what they share computed once."""
    scores, notion = [resolve_loss(loss) for loss in losses], resolve_notion(notion)
    if not isinstance(solved[0], AveragedProblem):
        run = notion, method, confidence_level
        return [_estimate_of_smoothed(solved, score, *run) for score in scores]
    terms = [reduce_terms(solved, score=one, notion=notion, method=method) for one in scores]
    means = [one.mean("calibration") for one in terms]
    rows = list(zip(scores, terms, means, strict=True))
    known = [score for score, one, mean in rows if np.isfinite(mean) and one.loss.any()]
    norms = squared_norms(solved, known, notion.reduce)
    share = 1 / len(solved) if notion.reduce == "mean" else 1.0
    norms = dict(zip(known, extended_norms(solved, known, norms, share), strict=True))
    shares = [one.evidence for one in solved]
    evidence = {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}
    level, weight, cluster = confidence_level, solved[0].weight, solved[0].cluster
    if cluster is not None:
        level = student_level(level, independent_size(weight, cluster=cluster))
    tested = [one.tested.test for one in solved if one.tested is not None]
    pvalue = min((1.0, *(len(tested) * one.pvalue for one in tested)))
    reason = UNRESOLVED.format(pvalue) if any(one.unresolved for one in tested) else ""
    left_out = max((0.0, *(one.left_out for one in solved)))
    reason = LEFT_OUT.format(left_out) if left_out > _LARGE else reason
    found = []
    for score, one, mean in rows:
        interval = interval_of_norm(mean, norms.get(score), level)
        given = solved[0].target_text, norms.get(score), evidence
        found.append(ProperEstimate(one, interval, *given, False, reason, pvalue))
    return _with_few(found, scores, solved, notion, level)


def _estimate_of_smoothed(solved, score, notion, method, confidence_level):
    method = resolve_method(method, score)
    terms = reduce_terms(solved, score=score, notion=notion, method=method)
    interval = _interval_of_terms(solved, terms, score, notion, method, confidence_level)
    found = [ProperEstimate(terms, interval, SMOOTHED)]
    return _with_few(found, [score], solved, notion, confidence_level)[0]


def _with_few(found, scores, solved, notion, level):
    """Exact limits where events or wrong predictions are few.

    For several classes the upper limit is also at least that of the class with the fewest labels,
    unless there are so many probabilities that its share in the error is negligible. No part of a
    loss exceeds the whole: the upper limit is at most that of the mean loss.
    """
    marks, rare, numbers = [], [], []
    for one in solved:
        averaged, rest = isinstance(one, AveragedProblem), (one.weight, one.square, one.cluster)
        label = one.average.label if averaged else one.target
        mark, number = few_labels(one.forecast, label, *rest)
        marks.append(mark)
        numbers.append(number)
        if one.forecast.shape[1] > 2 and one.forecast.size <= _MANY:
            mean = one.mean_target if averaged else weighted_mean(label, one.weight)
            columns = np.full_like(mark.column, np.argmin(mean))
            mark = MarkedLabel.of(one.forecast, label, columns, *rest)
        rare += [mark] if mark.fewest < FEW_LABELS else []
    few, share = is_few(numbers), 1 / len(solved) if notion.reduce == "mean" else 1.0

    def limited(one, score):
        interval = one.interval
        known = interval is not None and np.isfinite(interval.estimate)
        if not known or isinstance(score, DecisionCost):
            return one
        certain = not one.terms.loss.any()  # every label had probability 1
        low, high = interval.low, 0.0 if certain else interval.high
        if few or rare:
            exact = exact_limits(marks if few else rare, score, share, level)
            low, high = exact[0] if few else low, max(high, exact[1])
        if not few and score.infimum is not None:
            terms = one.terms
            rows = terms.weight, level, terms.square, terms.cluster
            whole = mean_interval(terms.loss - score.infimum, *rows)
            high = min(high, max(whole.high, interval.estimate))
        interval = replace(interval, low=min(low, high), high=high)
        if certain:
            interval = interval_of_limits(max(interval.estimate, 0.0), 0.0, high, level)
        return replace(one, interval=interval, few=few)

    return [limited(*pair) for pair in zip(found, scores, strict=True)]


def interval_of_norm(
    estimate: float, norm: SquaredNorm | None, confidence_level: float
) -> MeanInterval:
    """Interval of an averaged error; without a norm it is infinite, or every loss is zero."""
    if not np.isfinite(estimate):
        return MeanInterval(estimate, estimate, estimate, 0.0)
    if norm is None:  # every label had probability 1
        return MeanInterval(estimate, 0.0, np.inf, np.inf)
    return MeanInterval(estimate, *norm.interval(confidence_level), norm.standard_error)


def _interval_of_terms(smoothed, terms, score, notion, method, confidence_level):
    r"""Interval of the calibration error of smoothed problems; None for "direct".

    It is Student's, with the spread of the paired differences :math:`L(y, S) - L(y, \hat C)` around
    the estimate. It differs from Student's interval near zero, the lowest possible error:

    - Limits are cut at 0.
    - The upper limit t uses the spread at t instead of that at the estimate, as Wilson's interval
      of a rate does. The variance grows in proportion to a small error, so an estimate that is too
      small by chance also has too small a standard error.
    - The estimate "risk" is too small by the squared error of :math:`\hat C`, by which "direct" is
      too large. Its upper limit is centred at the mean of the two, which is "cross" for a quadratic
      form.

    It is never below Student's limit, and tends to it as the error grows. The spread of a
    `DecisionCost` does not shrink with the error: its interval is that of `regret_interval`.
    """
    if terms.influence is None:
        return None
    estimate = terms.mean("calibration")
    rows = terms.weight, confidence_level, terms.square, terms.cluster
    found = mean_interval(terms.influence, *rows, estimate=estimate)
    if not np.isfinite(estimate):
        return found
    if isinstance(score, DecisionCost) and method == "risk" and not smoothed[0].by_entropy:
        share = 1 / len(smoothed) if notion.reduce == "mean" else 1.0
        found = regret_interval(score, smoothed, share, confidence_level)
        high = max(found.high, 0.0)
        return replace(found, low=min(max(found.low, 0.0), high), high=high)
    direct = reduce_terms(smoothed, score=score, notion=notion, method="direct").mean("calibration")
    centre = (estimate + direct) / 2 if method == "risk" else estimate
    high = max(found.high, _upper(max(centre, 0.0), direct, found.high - estimate))
    return MeanInterval(estimate, max(found.low, 0.0), high, found.standard_error)


def _upper(centre, direct, reach):
    """The error t with t - centre = reach sqrt(t / direct): its own spread, not the estimate's."""
    if not (direct > 0 and np.isfinite(reach)):
        return centre + reach
    growth = reach**2 / direct
    return float(centre + growth / 2 + np.sqrt(growth * (centre + growth / 4)))
