"""The proper calibration error of a problem with its interval, from the residuals of its maps.

Also intervals of the cost that other decisions would save: `saving_interval`, `regret_interval`.

Where events or wrong predictions are few, an estimate is far from normally distributed, but the
distribution of the number of events is known. Its exact limits (Clopper and Pearson), which are
conservative for events of unequal probabilities (Hoeffding, 1956), give those of the mean
probability. The error is at least that of the means (Jensen), which gives the lower limit. The
upper limit is the error of forecasts whose log odds are shifted until their mean is one of the
limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from skcalib._util.arithmetic import merge_ties
from skcalib._util.types import Method
from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    student_level,
)
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.proper.map_average import AveragedProblem, squared_norms
from skcalib.proper.proper import (
    ProperTerms,
    SmoothedProblem,
    reduce_terms,
    resolve_estimate,
    solve_notion,
)
from skcalib.proper.residual_tests import extended_norms
from skcalib.scores import (
    Brier,
    DecisionCost,
    LogLoss,
    LossLike,
    ProperScore,
    resolve_loss,
    resolve_method,
    weighted_mean,
)
from skcalib.stats.means import (
    FEW_LABELS,
    MeanInterval,
    clopper_pearson,
    clustered_size,
    interval_of_limits,
    mean_interval,
)

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.smoothers import SmootherLike
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
    """A proper calibration error with its interval; see `estimates_of_solved`.

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
    smoother, chosen = resolve_estimate(smoother, method, score)
    problem.require_order(notion, score)
    solved = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs, merge=True)
    return estimates_of_solved(
        solved,
        losses=[score],
        notion=notion,
        method=cast("Method", chosen),
        confidence_level=confidence_level,
    )[0]


def estimates_of_solved(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    *,
    losses: Sequence[LossLike],
    notion: NotionLike,
    method: Method = "auto",
    confidence_level: float = 0.95,
) -> list[ProperEstimate]:
    """Problems from `solve_notion` -> `ProperEstimate` of each loss; they share much of the work.

    For averaged maps the interval is that of `squared_norms`, for smoothers that of
    `_interval_of_terms`. Where events or wrong predictions are few its limits are those of
    `exact_limits`, and the upper one is at least that of the other interval.
    """
    scores, notion = [resolve_loss(loss) for loss in losses], resolve_notion(notion)
    share = 1 / len(solved) if notion.reduce == "mean" else 1.0
    if not isinstance(solved[0], AveragedProblem):
        estimates = []
        for score in scores:
            chosen = resolve_method(method, score)
            terms = reduce_terms(solved, score=score, notion=notion, method=chosen)
            interval = _interval_of_terms(solved, terms, score, notion, chosen, confidence_level)
            estimates.append(ProperEstimate(terms, interval, SMOOTHED))
        return _with_few(estimates, scores, solved, share, confidence_level)
    terms = [reduce_terms(solved, score=score, notion=notion, method=method) for score in scores]
    means = [by_sample.mean("calibration") for by_sample in terms]
    rows = list(zip(scores, terms, means, strict=True))
    known = [score for score, by_sample, mean in rows if np.isfinite(mean) and by_sample.loss.any()]
    norms = squared_norms(solved, known, notion.reduce)
    norms = dict(zip(known, extended_norms(solved, known, norms, share), strict=True))
    shares = [problem.evidence for problem in solved]
    evidence = {name: float(np.mean([kinds[name] for kinds in shares])) for name in shares[0]}
    level, weight, cluster = confidence_level, solved[0].weight, solved[0].cluster
    if cluster is not None:
        level = student_level(level, independent_size(weight, cluster=cluster))
    tests = [problem.tested.test for problem in solved if problem.tested is not None]
    pvalue = min((1.0, *(len(tests) * test.pvalue for test in tests)))
    reason = UNRESOLVED.format(pvalue) if any(test.unresolved for test in tests) else ""
    left_out = max((0.0, *(problem.left_out for problem in solved)))
    reason = LEFT_OUT.format(left_out) if left_out > _LARGE else reason
    estimates = [
        ProperEstimate(
            by_sample,
            interval_of_norm(mean, norms.get(score), level),
            solved[0].target_text,
            norm=norms.get(score),
            evidence=evidence,
            lower_bound=reason,
            residual_pvalue=pvalue,
        )
        for score, by_sample, mean in rows
    ]
    return _with_few(estimates, scores, solved, share, level)


def _with_few(estimates, scores, solved, share, level):
    """Exact limits where events or wrong predictions are few.

    For several classes the upper limit is also at least that of the class with the fewest labels,
    unless there are so many probabilities that its share in the error is negligible. No part of a
    loss exceeds the whole: the upper limit is at most that of the mean loss.
    """
    marks, rare, numbers = [], [], []
    for problem in solved:
        forecast, square = problem.forecast, problem.square
        rows = {"weight": problem.weight, "square": square, "cluster": problem.cluster}
        averaged = isinstance(problem, AveragedProblem)
        label = problem.average.label if averaged else problem.target
        mark, number = rarest_label(forecast, label, **rows)
        marks.append(mark)
        numbers.append(number)
        if forecast.shape[1] > 2 and forecast.size <= _MANY:
            mean = problem.mean_target if averaged else weighted_mean(label, problem.weight)
            column = np.full_like(mark.column, np.argmin(mean))
            mark = MarkedLabel.of(forecast, label, column, **rows)
        rare += [mark] if mark.fewest < FEW_LABELS else []
    few = is_few(numbers)

    def limited(estimate, score):
        interval, terms = estimate.interval, estimate.terms
        known = interval is not None and np.isfinite(interval.estimate)
        if not known or isinstance(score, DecisionCost):
            return estimate
        certain = not terms.loss.any()  # every label had probability 1
        low, high = interval.low, 0.0 if certain else interval.high
        if few or rare:
            exact = exact_limits(marks if few else rare, score, share, level)
            low, high = exact[0] if few else low, max(high, exact[1])
        if not few and score.infimum is not None:
            excess = terms.loss - score.infimum
            whole = mean_interval(excess, terms.weight, level, terms.square, terms.cluster)
            high = min(high, max(whole.high, interval.estimate))
        interval = replace(interval, low=min(low, high), high=high)
        if certain:
            interval = interval_of_limits(max(interval.estimate, 0.0), 0.0, high, level)
        return replace(estimate, interval=interval, few=few)

    return [limited(estimate, score) for estimate, score in zip(estimates, scores, strict=True)]


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
    student = mean_interval(
        terms.influence,
        terms.weight,
        confidence_level,
        terms.square,
        terms.cluster,
        estimate=estimate,
    )
    if not np.isfinite(estimate):
        return student
    if isinstance(score, DecisionCost) and method == "risk" and not smoothed[0].by_entropy:
        share = 1 / len(smoothed) if notion.reduce == "mean" else 1.0
        regret = regret_interval(score, smoothed, share, confidence_level)
        high = max(regret.high, 0.0)
        return replace(regret, low=min(max(regret.low, 0.0), high), high=high)
    direct = reduce_terms(smoothed, score=score, notion=notion, method="direct").mean("calibration")
    centre = (estimate + direct) / 2 if method == "risk" else estimate
    high = max(student.high, upper_limit(max(centre, 0.0), direct, student.high - estimate))
    return MeanInterval(estimate, max(student.low, 0.0), high, student.standard_error)


def upper_limit(centre: float, direct: float, reach: float) -> float:
    """The error t with t - centre = reach sqrt(t / direct): its own spread, not the estimate's."""
    if not (direct > 0 and np.isfinite(reach)):
        return centre + reach
    growth = reach**2 / direct
    return float(centre + growth / 2 + np.sqrt(growth * (centre + growth / 4)))


_GROWTH = 1.25  # of the number of forecasts from one range to the next


def saving_interval(
    score: DecisionCost,
    solved: list[SmoothedProblem],
    before: Sequence[np.ndarray],
    after: Sequence[np.ndarray],
    share: float,
    confidence_level: float,
    *,
    every_change: bool = False,
) -> MeanInterval:
    r"""Interval of the mean cost of the forecasts `before` minus that of those `after`.

    Each has an array (n, K) per problem, and costs are `share` times their sum. For one problem of
    two classes, the samples of class k whose decision changes from a to b are a share
    :math:`\pi_{kab}` of all, and save :math:`d_{kab} = C_{ka} - C_{kb}` each. The limits follow
    from exact limits of these shares: the squared distances of the limits of
    :math:`d_{kab} \pi_{kab}` from its estimate add up (Zou and Donner, Statistics in Medicine 27,
    2008). The samples that change are few, and the differences are of unequal size, so Student's
    interval covers too rarely. It is used for several classes or problems. With `every_change` the
    limits are also those of changes that no sample shows, as those of two models need.
    """
    first, costs = solved[0], np.array(score.costs)
    problems = zip(solved, before, after, strict=True)
    values = sum(score.loss(p.target, s) - score.loss(p.target, c) for p, s, c in problems)
    student = mean_interval(
        share * values, first.weight, confidence_level, first.square, first.cluster
    )
    if len(solved) > 1 or len(costs) > 2:
        return student
    old, new = score.decisions(before[0]), score.decisions(after[0])
    pairs = np.unique(np.column_stack([old, new])[old != new], axis=0)
    if every_change:
        pairs = np.array(list(permutations(range(costs.shape[1]), 2)))
    cells = (old == pairs[:, :1]) & (new == pairs[:, 1:])
    shares = _Shares(first, confidence_level)
    mass, square = (cells @ (w[:, None] * first.target) for w in (first.weight, shares.square))
    difference = (costs[:, pairs[:, 0]] - costs[:, pairs[:, 1]]).T
    low, high = np.sqrt(shares.reach(mass, square, difference, shares.size_of(values)).sum(axis=1))
    estimate = student.estimate
    return replace(student, low=float(estimate - low), high=float(estimate + high))


def regret_interval(
    score: DecisionCost, solved: list[SmoothedProblem], share: float, confidence_level: float
) -> MeanInterval:
    r"""Interval of the mean regret, `share` times the sum over problems.

    It is that of the saving by the fitted maps, with another upper limit. For two classes and two
    decisions this is the limit of what any recalibration saves, where the curve of C crosses the
    threshold at most once on either side of it; see `_largest_saving`. Otherwise half of what the
    maps would save if they were right, beyond what they save, is added: their error makes the
    paired differences too small, and the saving that they predict too large, by about as much.
    """
    before, after = [part.forecast for part in solved], [part.conditional for part in solved]
    saving = saving_interval(score, solved, before, after, share, confidence_level)
    if np.shape(score.costs) == (2, 2):
        limit = share * sum(_largest_saving(score, part, confidence_level) for part in solved)
        return replace(saving, high=float(max(saving.high, limit)))
    predicted: Any = sum(score.divergence(part.conditional, part.forecast) for part in solved)
    missed = float(weighted_mean(share * predicted, solved[0].weight)) - saving.estimate
    return replace(saving, high=float(saving.high + max(missed, 0.0) / 2))


def _largest_saving(score, solved, confidence_level):
    r"""Upper limit of the regret of two decisions, without a family of maps.

    With the threshold t and C on the other side of it for forecasts between u and t, and between t
    and v, the regret is the mean saving by the other decision in these two ranges,

    .. math:: E (Y - t) 1\{u < S \le t\} + E (t - Y) 1\{t < S < v\} .

    u and v are unknown but fixed, so the largest of the upper limits over all ranges is at least
    that of the right ones: it covers at least as often. The limits are those of `saving_interval`.
    From one range to the next, the number of forecasts grows by a quarter. Between them stands the
    largest estimate, with the reach of the larger range.
    """
    costs, shares = np.array(score.costs), _Shares(solved, confidence_level)
    gain, taken = costs[:, 0] - costs[:, 1], score.decisions(solved.forecast)
    slope = gain[0] - gain[1]
    distance = np.abs(merge_ties(solved.forecast[:, 1]) - (gain[0] / slope if slope else 0.0))
    estimates, reaches = [], []
    for decision, difference in enumerate((gain, -gain)):
        rows = np.flatnonzero(taken == decision)
        rows = rows[np.argsort(distance[rows], kind="stable")]
        last = np.flatnonzero(np.diff(distance[rows], append=np.inf))  # of equal forecasts
        steps = int(np.log(len(last) + 1) / np.log(_GROWTH)) + 1
        start = np.unique((_GROWTH ** np.arange(steps)).astype(int) - 1)
        start = start[start < len(last)]
        end = last[np.append(start[1:], len(last))[: len(start)] - 1]
        target = solved.target[rows]
        weights = solved.weight, shares.square
        mass, square = (np.cumsum(w[rows, None] * target, axis=0) for w in weights)
        saved = np.maximum.reduceat(mass[last] @ difference, start) if len(last) else []
        values = np.zeros(len(distance))
        sizes = [shares.size_of(values)]
        for first, stop in zip(np.append(0, end + 1), end + 1, strict=False):
            values[rows[first:stop]] = target[first:stop] @ difference
            sizes.append(shares.size_of(values))
        mass, square = (np.vstack([np.zeros(2), sums[end]]) for sums in (mass, square))
        estimates.append(np.append(0.0, saved) / shares.total)
        reaches.append(shares.reach(mass, square, difference, np.array(sizes)[:, None])[1])
    sums = np.add.outer(estimates[0], estimates[1])
    return float(np.max(sums + np.sqrt(np.add.outer(reaches[0], reaches[1]))))


class _Shares:
    """Exact limits of the shares of samples with some decisions and label."""

    def __init__(self, solved, confidence_level):
        self.weight, self.cluster, self.level = solved.weight, solved.cluster, confidence_level
        self.square = solved.weight**2 if solved.square is None else solved.square
        self.total, self.size = self.weight.sum(), effective_size(self.weight, self.square)

    def size_of(self, values):
        """Number of independent samples whose mean value (n,) is as uncertain."""
        if self.cluster is None:
            return self.size
        residual = values - weighted_mean(values, self.weight)
        spread = np.sqrt(weighted_mean(residual**2, self.weight))
        residual = residual / (2 * spread) if spread > 0 else residual  # as labels of rate one half
        return clustered_size(0.5, residual, self.weight, self.cluster, self.level)

    def reach(self, mass, square, difference, size):
        """Squared distances (2, ...) of the limits of savings, from sums of weights (..., 2)."""
        some = square > 0
        sizes = np.where(some, mass * self.total / np.where(some, square, 1.0), self.size)
        share = mass / self.total
        limits = clopper_pearson(share, sizes * size / self.size, self.level)
        low, high = (difference * (limit - share) for limit in limits)
        least, most = np.minimum(low, high), np.maximum(low, high)
        return np.array([np.sum(least**2, axis=-1), np.sum(most**2, axis=-1)])


# --- Exact limits where events or wrong predictions are few ---------------------------------------

FEW_REASON = "few events: the limits are those of their exact number"
_REACH = 36.0  # largest log odds of a forecast, which the shifts can move to either end
_LEAST = 1e-12  # rates that are practically zero


@dataclass(frozen=True)
class MarkedLabel:
    """Whether the label of each sample is a marked class, and the forecast of this class.

    The marked class ``column`` (n,) is the event in all samples, or the most likely class of each.
    ``hit`` (n,) is 1 where it is the label; ``share`` (n,) are the weights, which sum to one, and
    ``size`` is the number of equally weighted and independent labels whose mean varies as much.
    """

    forecast: np.ndarray
    column: np.ndarray
    hit: np.ndarray
    share: np.ndarray
    size: float

    @classmethod
    def of(
        cls,
        forecast: np.ndarray,
        label: np.ndarray,
        column: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> Self:
        """From forecasts (n, K) and labels, by column (n,) or as shares (n, K)."""
        rows, total = np.arange(len(weight)), weight.sum()
        hit = np.asarray(label == column if label.ndim == 1 else label[rows, column], float)
        chance = np.minimum(forecast[rows, column], 1.0)
        square = weight**2 if square is None else square
        spread = chance * (1 - chance)
        noise = float(square @ spread)
        size = total * float(weight @ spread) / noise if noise > 0 else 0.0
        size = min(size, effective_size(weight, square)) or effective_size(weight, square)
        if cluster is not None:
            values = weight * (hit - chance)
            sums, square_sum = cluster_sums(values, cluster), float(values @ values)
            size /= max(float(sums @ sums) / square_sum, 1.0) if square_sum > 0 else 1.0
        return cls(forecast, column, hit, weight / total, float(size))

    @cached_property
    def chance(self) -> np.ndarray:
        """Forecast of the marked class (n,)."""
        return np.minimum(self.forecast[np.arange(len(self.share)), self.column], 1.0)

    @cached_property
    def means(self) -> tuple[float, float]:
        """Mean forecast and share of the marked class; exactly 0 and 1 where all are."""
        return round(float(self.share @ self.chance), 12), round(float(self.share @ self.hit), 12)

    @property
    def numbers(self) -> list[float]:
        """Expected and observed number of the rarer labels."""
        return [self.size * min(mean, 1 - mean) for mean in self.means]

    @property
    def fewest(self) -> float:
        """The smaller number, but at least half of the observed one."""
        expected, observed = self.numbers
        return min(observed, max(expected, observed / 2))

    def rates(self, confidence_level: float) -> tuple[float, float]:
        """Exact limits of the probability of the marked class."""
        tail, rate = (1 - confidence_level) / 2, self.means[1]
        hits, misses = self.size * rate, self.size * (1 - rate)
        low = float(beta.ppf(tail, hits, misses + 1)) if hits > 0 else 0.0
        return low, float(beta.isf(tail, hits + 1, misses)) if misses > 0 else 1.0

    def nearest(self, confidence_level: float) -> float:
        """The rate within the limits that is closest to the mean forecast."""
        low, high = self.rates(confidence_level)
        return min(max(self.means[0], low), high)

    def moved(self, rate: float) -> np.ndarray:
        """Forecasts (n, K) whose log odds of the marked class are shifted to the mean `rate`.

        The other classes keep their proportions. Forecasts of exactly 0 and 1 stay where the others
        can reach this mean.
        """
        others = 1 - self.chance
        if _LEAST < rate < 1 - _LEAST:
            with np.errstate(divide="ignore"):
                odds = np.clip(logit(self.chance), -_REACH, _REACH)
            shift = brentq(lambda d: self.share @ expit(odds + d) - rate, -3 * _REACH, 3 * _REACH)
            certain = (np.abs(odds) == _REACH) & (abs(shift) < _REACH / 2)
            chance = np.where(certain, self.chance, expit(odds + shift))
        else:
            chance = np.full(len(others), np.rint(rate))
        left, even = 1 - chance, (1 - chance)[:, None] / (self.forecast.shape[1] - 1)
        scaled = self.forecast * (left / np.where(others > 0, others, 1.0))[:, None]
        moved = np.where(others[:, None] > 0, scaled, even)
        moved[np.arange(len(moved)), self.column] = chance
        return moved

    def error(self, score: ProperScore, rate: float) -> float:
        """Mean divergence of the forecasts moved to a mean from the forecasts."""
        return float(self.share @ score.divergence(self.moved(rate), self.forecast))

    def least(self, score: ProperScore, rate: float) -> float:
        """Divergence of the rate from the mean forecast, with equal other classes."""
        n, others = self.forecast.shape[1] - 1, self.forecast.copy()
        others[np.arange(len(others)), self.column] = 0.0
        pairs = (rate, 1 - rate), (self.share @ self.chance, float((self.share @ others).sum()))
        c, s = (np.array([[p] + n * [q / n]]) for p, q in pairs)
        return 0.0 if rate == self.means[0] else float(score.divergence(c, s)[0])


def rarest_label(
    forecast: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    *,
    cell: np.ndarray | None = None,
) -> tuple[MarkedLabel, float]:
    """The `MarkedLabel` whose limits are best, and the least number of events or wrong predictions.

    For two classes the mark is the event unless less than half as many wrong predictions are
    expected. With cells (n,) it is the same class in all samples of a cell.
    """
    top = forecast.argmax(axis=1)
    if cell is not None:
        sums = [np.bincount(cell, weight * column) for column in forecast.T]
        top = np.argmax(sums, axis=0)[cell]
    wrong = MarkedLabel.of(forecast, label, top, weight, square, cluster)
    if forecast.shape[1] > 2:
        return wrong, wrong.fewest
    event = MarkedLabel.of(forecast, label, np.ones_like(top), weight, square, cluster)
    best = wrong if event.numbers[0] > 2 * wrong.numbers[0] else event
    return best, min(wrong.fewest, event.fewest)


def is_few(numbers: Sequence[float]) -> bool:
    """Whether limits are exact, from the numbers of each problem; each label counts in several."""
    return sum(numbers) < FEW_LABELS * min(len(numbers), 2)


def exact_limits(
    marks: Sequence[MarkedLabel], score: ProperScore, share: float, confidence_level: float
) -> tuple[float, float]:
    """Limits of the sum over problems of `share` times the mean divergence of C from S.

    The lower one is 0 for scores whose divergence may not be convex in both arguments.
    """
    low, level = 0.0, 1 - (1 - confidence_level) / len(marks)
    if isinstance(score, (Brier, LogLoss)):
        low = share * sum(mark.least(score, mark.nearest(level)) for mark in marks)
    ends = [[mark.error(score, rate) for rate in mark.rates(confidence_level)] for mark in marks]
    return low, share * sum(map(max, ends))
