"""The interval method of each metric of the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skcalib._arguments import resolve_loss, resolve_method, resolve_notion, resolve_reduced
from skcalib._parallel import draw_batches, draw_each
from skcalib._validation import draw_codes, look_up
from skcalib.clusters import independent_size, student_level
from skcalib.error_intervals._norms import (
    NEGLIGIBLE,
    Gaps,
    absolute_gaps,
    largest_difference,
    largest_gap,
    n_thresholds,
    residual_kernel,
    score_gaps,
    squared_block_norm,
    squared_embedding_norm,
    squared_gaps,
    squared_location_norm,
)
from skcalib.error_intervals.decision_savings import missed_saving, saving_interval
from skcalib.errors.averaged import AveragedProblem
from skcalib.errors.averaged_interval import squared_norms
from skcalib.errors.binned import resolve_norm
from skcalib.errors.cumulative import KS_REDUCTIONS, predicted_share
from skcalib.errors.kernel import block_estimates, takes_blocks
from skcalib.errors.logistic import index_of_solved
from skcalib.errors.simplex import BINS, DISTANCES
from skcalib.errors.terms import reduce_terms, resolve_estimate, solve_notion
from skcalib.inference import MeanInterval, mean_interval
from skcalib.pvalues import monte_carlo_pvalue
from skcalib.scores import Brier, DecisionCost, Divergence, Lp, ProperScore, TotalVariation
from skcalib.smoothers.partition import PartitionSmoother

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._arguments import LossLike, Method, NotionLike, SmootherLike
    from skcalib.error_intervals.interval import ErrorInterval, Question
    from skcalib.errors.terms import ProperTerms, SmoothedProblem
    from skcalib.notions import Notion
    from skcalib.problem import Problem
    from skcalib.squared_norm import SquaredNorm

BETWEEN = "a norm lies between those of lower and higher power, whose limits these are"
MOMENTS = "the limits are bounds from those of the squared distance"
INVERSION, BOTH_SIDES = "test inversion", "limits for all bias and none"
BINNED = "the {} of E[Y|bin] from E[S|bin], with the bins of this sample"
#: Estimates of at least this many standard errors are far from zero.
FAR = 4.0
NEAR_ZERO = "the lower limit is zero unless two tests reject calibration"
SMOOTHED = "E D(C, S), as far as the smoother can represent C = E[Y|S]"
#: A margin in the standard error that has a visible effect on coverage.
PADDED = 1.15
MARGIN = (
    "the growth of the noise with the error cannot be estimated well: its upper limit makes "
    "the standard error {:.1f} times as large"
)
BENT = (
    "the absolute value has a kink at zero, and noise biases the estimate upward by "
    "up to {:.1f} standard errors: the lower limit allows for this bias, the upper one for none"
)


def binned(question: Question) -> ErrorInterval:
    """Interval of `calibration_error`."""
    options = dict(question.options)
    options["notion"] = resolve_reduced(options["notion"], options["reduce"])
    p = resolve_norm(options["norm"])
    if p not in (1, 2, np.inf):
        return _between_norms(question, p)
    gaps = score_gaps(options)
    ceiling = 1.0 if options["notion"].reduce == "mean" else float(len(gaps.cell))
    if p == np.inf:
        return _largest(question, gaps)
    if p == 1:
        target = BINNED.format("mean absolute distance")
        return _absolute(question, gaps, target, ceiling)
    rooted = not options["squared"]
    target = BINNED.format(("root of the " if rooted else "") + "mean squared distance")
    return _squared(question, gaps, target, ceiling, rooted=rooted)


def _between_norms(question, p):
    """Limits of a norm from the nearest ones that have intervals: it grows with its power."""
    lower, upper = (
        binned(replace(question, options=dict(question.options, norm=norm)))
        for norm in (("l1", "l2") if p < 2 else ("l2", "max"))
    )
    low, high = lower.low, upper.high
    flags = {"conservative": True, "reason": BETWEEN, "method": "limits of norms"}
    flags["target"] = BINNED.format(f"distance in the norm of power {p:g}")
    return question.answer(low, high, _error_of(low, high, question.confidence_level), **flags)


def _error_of(low, high, confidence_level):
    """The standard error of a normal estimate with these limits."""
    return (high - low) / (2 * float(normal.isf((1 - confidence_level) / 2)))


def simplex(question: Question) -> ErrorInterval:
    """Interval of `simplex_calibration_error`."""
    options, problem = question.options, question.problem()
    cells = clone(look_up(options["bins"], BINS, "bins", kind=PartitionSmoother))
    cells = cells.fit(problem.forecast, problem.target, problem.weight).cells_
    residual = (problem.target - problem.forecast).T
    halved = 0.5 if len(residual) == 2 else 1.0
    kind, share = _distance_kind(options["distance"], halved)
    if kind is None:
        return jackknife(question, at_zero=True)
    gaps = Gaps.of_columns(
        [cells] * len(residual),
        residual,
        problem.weight,
        [share] * len(residual),
        cluster=problem.cluster,
    )
    target = f"the mean {kind} distance of E[Y|cell] from E[S|cell], with the cells of this sample"
    ceiling = 2.0 * share
    make = _squared if kind == "squared" else _absolute
    return make(question, gaps, target, ceiling)


def _distance_kind(distance, halved):
    """A distance as a sum over columns -> ("absolute" or "squared", factor), or (None, None)."""
    if isinstance(distance, str):
        distance = look_up(distance, DISTANCES, "distance", kind=object)
    if isinstance(distance, TotalVariation):
        return "absolute", 0.5
    if isinstance(distance, Lp) and distance.p in (1, 2):
        return ("absolute", "squared")[distance.p == 2], halved
    return ("squared", halved) if isinstance(distance, Brier) else (None, None)


def largest_cumulative(question: Question) -> ErrorInterval:
    """Interval of `ks_calibration_error`."""
    options = dict(question.options)
    reduce = options["reduce"]
    options["notion"] = resolve_reduced(options["notion"], reduce, KS_REDUCTIONS)
    share = predicted_share(question.problem()) if reduce == "predicted" else None
    n_problems = len(list(options["notion"].problems(np.eye(2), np.eye(2))))
    if n_problems > 1:
        n_problems = question.problem_of(options["notion"])[0].forecast.shape[1]
    options |= {"n_bins": n_thresholds(n_problems), "strategy": "quantile"}
    gaps = score_gaps(options, share)
    draws = question.n_resamples, question.rng
    level = question.normal_level
    low, high, error, bias = largest_difference(gaps, question.estimate, level, *draws)
    ceiling = 1.0 if options["notion"].reduce == "mean" else float(len(gaps.cell))
    target = "the largest |E (Y - S) 1{S <= t}| over thresholds t"
    if share is not None:
        target += ", of the class that this sample predicts"
    if not error > 0:
        return question.nothing_varies(target=target, ceiling=ceiling)
    flags: dict[str, Any] = {"method": BOTH_SIDES, "target": target, "ceiling": ceiling}
    return question.answer(low, high, error, **flags, **_bent(bias, error))


def kernel(question: Question) -> ErrorInterval:
    """Interval of `kernel_calibration_error`."""
    options = question.options
    h = residual_kernel(options, question.n_jobs)
    target = "the squared kernel calibration error, with the kernel of this sample"
    if options["statistic"] in ("linear", "block"):
        if question.clustered:
            raise ValueError(
                f"statistic={options['statistic']!r} takes consecutive samples as independent: use "
                "statistic='unbiased' with groups."
            )
        size = 2 if options["statistic"] == "linear" else options["block_size"]
        mean = mean_interval(*block_estimates(h, size), question.confidence_level)
        limits = mean.low, mean.high, mean.standard_error
        return question.answer(*limits, method="delta method", target=target)
    ceiling = np.inf
    if len(h) < 4:
        return question.nothing_varies(target=target, ceiling=ceiling)
    if not question.clustered and takes_blocks(options["statistic"], len(h)):
        return _inverted(question, squared_block_norm(h, question.rng), target, ceiling)
    norm = squared_embedding_norm(h, question.rng)
    return _inverted(question, norm, target, ceiling)


def embedding(question: Question) -> ErrorInterval:
    """Interval of `unconditional_mean_embedding_error`."""
    target = "the error of the mean embedding at these locations, with the kernel of this sample"
    if len(question.problem().weight) < 4:
        return question.nothing_varies(target=target, ceiling=np.inf)
    return _inverted(question, squared_location_norm(question.options), target, np.inf)


def proper(question: Question) -> ErrorInterval:
    """Interval of `proper_calibration_error`: test inversion, or paired losses of a smoother."""
    options = question.options
    problem, notion = question.problem_of(resolve_notion(options["notion"]), soft=True)
    if isinstance(options["loss"], Divergence) and not isinstance(options["loss"], ProperScore):
        return jackknife(question, at_zero=True, target=SMOOTHED)
    given = {name: options[name] for name in ("loss", "smoother", "method")}
    given["notion"] = notion
    level, n_jobs = question.confidence_level, question.n_jobs
    found = estimate_proper_error(problem, **given, confidence_level=level, n_jobs=n_jobs)
    if not found.terms.loss.any():  # every label had probability 1
        return question.nothing_varies(target=found.target, ceiling=np.inf)
    if found.interval is None:
        return jackknife(question, at_zero=True, target=found.target)
    interval = found.interval
    low, high, error = interval.low, interval.high, interval.standard_error
    flags: dict[str, Any] = {"method": "delta method", "target": found.target}
    flags["estimate"] = interval.estimate
    if found.norm is not None:
        flags |= {"method": INVERSION, **_padded(found.norm, low)}
        flags |= {} if low > 0 else {"conservative": True, "reason": NEAR_ZERO}
    elif not np.isfinite(interval.estimate):
        flags |= {"valid": False, "reason": "the estimate is infinite"}
    elif 0 < error < np.inf and interval.estimate < FAR * error:
        reason = "close to zero the estimate varies less than the paired differences suggest"
        flags |= {"conservative": True, "reason": reason}
    return question.answer(low, high, error, **flags)


def upper_bound(question: Question) -> ErrorInterval:
    """Interval of `calibration_upper_bound`: a mean loss."""
    options = question.options
    score = resolve_loss(options["loss"])
    problem, notion = question.problem_of(resolve_notion(options["notion"]), soft=True)
    return _mean_loss(question, score, notion, problem, "the mean loss minus its infimum")


def root_brier(question: Question) -> ErrorInterval:
    """Interval of `root_brier_score`: the root of the interval of a mean loss."""
    problem, notion = question.problem_of(resolve_notion("canonical"), soft=True)
    return _mean_loss(question, Brier(), notion, problem, "the root of E L(Y, S)", True)


def smooth_distance(question: Question) -> ErrorInterval:
    r"""Interval of `integrated_calibration_index`: by that of the squared distance, or a jackknife.

    With :math:`x = C - S` of a problem of two columns,

    .. math:: E x^2 / \max |x| \le E |x| \le \sqrt{E x^2} .

    The interval of :math:`E x^2` is that of the Brier error; the maximum is that of the averaged
    maps. The index itself shrinks to zero near calibration, so neither its spread nor a jackknife
    shows how large the distance may be.
    """
    options, target = question.options, "the mean distance of S from C, as far as {}"
    if options["smoother"] is not None or options["quantile"] is not None:
        limit = "the distance of S from the large-sample limit of the smoother's curve"
        return jackknife(question, at_zero=True, target=limit)
    problem, rule = question.problem_of(resolve_notion(options["notion"]))
    solved = solve_notion(problem, notion=rule, smoother=None, n_jobs=question.n_jobs)
    level = question.confidence_level
    found = estimate_of_solved(solved, loss="brier", notion=rule, confidence_level=level)
    squared = found.interval
    if not found.terms.loss.any() and rule.reduce == "mean":  # every label had probability 1
        shown = target.format(found.target.rpartition("as far as ")[2])
        return question.nothing_varies(target=shown, ceiling=1.0)
    if solved[0].forecast.shape[1] != 2 or found.norm is None or squared is None:
        return jackknife(question, at_zero=True, target=target.format("the averaged maps show it"))
    largest = max(np.abs(one.conditional - one.forecast).max() for one in solved)
    estimate, many = index_of_solved(solved, rule), 1 if rule.reduce == "mean" else len(solved)
    low = min(squared.low / largest, estimate) if largest > 0 else 0.0
    high = max(np.sqrt(many * squared.high), estimate)
    error = _error_of(low, high, level)
    flags: dict[str, Any] = {"method": INVERSION, "conservative": True, "reason": MOMENTS}
    flags["target"] = target.format(found.target.rpartition("as far as ")[2])
    return question.answer(low, high, error, estimate=estimate, ceiling=float(many), **flags)


def _mean_loss(question, score, notion, problem, target, rooted=False):
    losses = [
        score.loss(target, forecast) - score.infimum
        for forecast, target in notion.problems(problem.forecast, problem.target)
    ]
    share = 1 / len(losses) if notion.reduce == "mean" else 1.0
    known = None if problem.losses is None else problem.mean_loss(score) - score.infimum
    own = problem.weight, question.confidence_level
    rows: dict[str, Any] = {"square": problem.square, "cluster": problem.cluster}
    mean = mean_interval(share * sum(losses), *own, estimate=known, **rows)
    low, high, error = max(mean.low, 0.0), mean.high, mean.standard_error
    if rooted:
        low, high, error = np.sqrt(low), np.sqrt(high), error / (2 * question.estimate or 1.0)
    flags = {}
    if error == 0:
        reason = "every sample has the same loss, so its spread cannot be estimated"
        flags = {"valid": False, "reason": reason}
    return question.answer(low, high, error, method="delta method", target=target, **flags)


def _squared(question, gaps, target, ceiling, *, rooted=False):
    norm = squared_gaps(gaps, question.n_resamples, question.rng)
    return _inverted(question, norm, target, ceiling, rooted=rooted)


def _inverted(question, norm, target, ceiling, *, rooted=False):
    """Test inversion on the laws of a squared norm; limits of a root are roots of the limits."""
    if not norm.noise2 > 0:
        return question.nothing_varies(target=target, ceiling=ceiling)
    low, high = norm.interval(question.normal_level)
    error = norm.standard_error
    if rooted:
        low, high = np.sqrt(low), np.sqrt(high)
        error = _error_of(low, high, question.confidence_level)
    flags = {"method": INVERSION, "target": target, "ceiling": ceiling, **_padded(norm, low)}
    return question.answer(low, high, error, **flags)


def _padded(norm, low):
    """Flags of an interval whose spread has a margin."""
    if low > 0 and norm.padding > PADDED:
        return {"conservative": True, "reason": MARGIN.format(norm.padding)}
    return {}


def _absolute(question, gaps, target, ceiling):
    limits = absolute_gaps(gaps, question.normal_level, question.n_resamples, question.rng)
    low, high, error, bias = limits
    if error == 0 and bias == 0:
        return question.nothing_varies(target=target, ceiling=ceiling)
    flags = {"method": BOTH_SIDES, "target": target, "ceiling": ceiling}
    return question.answer(low, high, error, **flags, **_bent(bias, error))


def _largest(question, gaps):
    low, high, error, candidates = largest_gap(gaps, question.confidence_level)
    flags = {}
    if candidates > 1:
        reason = f"any of {candidates} bins may have the largest gap: the limits allow for all"
        flags = {"conservative": True, "reason": reason}
    target = BINNED.format("largest distance")
    flags |= {"method": "simultaneous limits", "target": target, "ceiling": 1.0}
    return question.answer(low, high, error, **flags)


def _bent(bias, error):
    """Flags of an absolute value with so much bias."""
    if bias <= NEGLIGIBLE * error:
        return {}
    size = bias / error if error > 0 else np.inf
    return {"conservative": True, "reason": BENT.format(size)}


# --- The proper calibration error of a problem with its interval ----------------------------------


@dataclass(frozen=True)
class ProperEstimate:
    """A proper calibration error with its interval; see `estimate_of_solved`.

    ``target`` names what the interval covers. ``interval`` is None for the method "direct", whose
    interval needs repetitions. ``norm`` and ``evidence`` are those of averaged maps, and None for
    smoothers; ``norm`` is None too if the error is infinite.
    """

    terms: ProperTerms
    interval: MeanInterval | None
    target: str
    norm: SquaredNorm | None = None
    evidence: dict[str, float] | None = None


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

    For averaged maps the interval is that of `squared_norm`, for smoothers that of
    `interval_of_terms`.
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
    norms = dict(zip(known, squared_norms(solved, known, notion.reduce), strict=True))
    shares = [one.average.evidence for one in solved]
    evidence = {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}
    level, weight, cluster = confidence_level, solved[0].weight, solved[0].cluster
    if cluster is not None:
        level = student_level(level, independent_size(weight, cluster=cluster))
    found = []
    for score, one, mean in rows:
        interval = interval_of_norm(mean, norms.get(score), level)
        target = solved[0].target_text
        found.append(ProperEstimate(one, interval, target, norms.get(score), evidence))
    return found


def _estimate_of_smoothed(solved, score, notion, method, confidence_level):
    method = resolve_method(method, score)
    terms = reduce_terms(solved, score=score, notion=notion, method=method)
    interval = interval_of_terms(solved, terms, score, notion, method, confidence_level)
    return ProperEstimate(terms, interval, SMOOTHED)


def interval_of_norm(
    estimate: float, norm: SquaredNorm | None, confidence_level: float
) -> MeanInterval:
    """Interval of an averaged error; without a norm it is infinite, or every loss is zero."""
    if not np.isfinite(estimate):
        return MeanInterval(estimate, estimate, estimate, 0.0)
    if norm is None:  # every label had probability 1
        return MeanInterval(estimate, 0.0, np.inf, np.inf)
    low, high = norm.interval(confidence_level)
    limits = min(low, max(estimate, 0.0)), max(high, estimate)
    return MeanInterval(estimate, *limits, norm.standard_error)


def interval_of_terms(
    smoothed: list[SmoothedProblem],
    terms: ProperTerms,
    score: ProperScore,
    notion: Notion,
    method: str,
    confidence_level: float,
) -> MeanInterval | None:
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
    `DecisionCost` does not shrink with the error: its interval is that of `saving_interval`, with
    `missed_saving` added to the upper limit.
    """
    if terms.influence is None:
        return None
    estimate = terms.mean("calibration")
    rows: dict[str, Any] = {"square": terms.square, "cluster": terms.cluster}
    found = mean_interval(
        terms.influence, terms.weight, confidence_level, estimate=estimate, **rows
    )
    if not np.isfinite(estimate):
        return found
    if isinstance(score, DecisionCost) and method == "risk" and not smoothed[0].by_entropy:
        share = 1 / len(smoothed) if notion.reduce == "mean" else 1.0
        missed = share * sum(missed_saving(score, one) for one in smoothed)
        if len(smoothed) == 1 and len(score.costs) == 2 and terms.cluster is None:
            (one,) = smoothed
            forecasts = one.forecast, one.conditional
            found = saving_interval(score, one, *forecasts, confidence_level)
        high = max(found.high + missed, 0.0)
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


# --- Intervals of any metric ----------------------------------------------------------------------


GROUPS = 20  # of the jackknife, at most
_BATCH = 10  # draws of labels after which their test is decided or goes on
#: Biases of more standard errors than this affect coverage.
_LARGEST_BIAS = 0.5
_BIASED = (
    "the metric is biased by about {:.1f} standard errors at this sample size, like all metrics "
    "with a kink or a square near a calibrated forecast, so {} does not reach its level"
)
_NAIVE = (
    "resamples repeat samples, which inflates binned errors and reveals the held-out label to "
    "held-out estimates: the interval is for comparison only"
)
METRIC = "the value of the metric for large samples"


def jackknife(question: Question, *, at_zero: bool = False, target: str = METRIC) -> ErrorInterval:
    """Leave out each of at most twenty random groups; Student's limits with their number.

    With ``at_zero``, for metrics that are 0 for calibrated forecasts and positive for others, the
    lower limit is 0 unless the exact test with labels drawn from the forecasts rejects. Labels in
    clusters are not drawn; there it is 0 unless the interval of the Brier calibration error lies
    above 0.
    """
    problem, value = question.sample()
    units = _Units(problem)
    n_groups = min(GROUPS, units.number // 2)
    if n_groups < 2:
        raise ValueError(
            f"A jackknife needs at least 4 {units.name} of positive weight, got {units.number}."
        )
    place = units.permutation(question.rng)
    groups = [np.flatnonzero(place % n_groups != j) for j in range(n_groups)]
    left = np.array(Parallel(n_jobs=question.n_jobs)(delayed(value)(rows) for rows in groups))
    error = float(np.sqrt((n_groups - 1) * left.var()))
    bias = (n_groups - 1) * (left.mean() - question.estimate)
    reach = float(student.isf((1 - question.confidence_level) / 2, n_groups - 1)) * error
    low, high = question.estimate - reach, question.estimate + reach
    flags: dict[str, Any] = {"method": "jackknife", "target": target}
    if at_zero:
        if low > 0 and not _rejects_calibration(question, problem, value):
            low = 0.0
        flags["method"] = "jackknife, test of calibration"
        return question.answer(low, high, error, **flags)
    return question.answer(low, high, error, floor=-np.inf, **flags, **_bias(bias, error, "it"))


def subsampling(question: Question) -> ErrorInterval:
    """Politis and Romano: the rescaled distribution of the metric over subsets of n^(2/3)."""
    problem, value = question.sample()
    units = _Units(problem)
    n_samples = units.number
    size = round(n_samples ** (2 / 3))
    if n_samples < 8:
        raise ValueError(
            f"Subsampling needs at least 8 {units.name} of positive weight, got {n_samples}."
        )

    def draw(rng):
        return value(units.rows(rng.choice(n_samples, size, replace=False)))

    draws = _draws(question, draw)
    # Without replacement: a subset is correlated with the full sample.
    scale = np.sqrt(size / n_samples / (1 - size / n_samples))
    law = scale * (draws - question.estimate)
    tail = (1 - question.confidence_level) / 2
    low, high = question.estimate - np.quantile(law, [1 - tail, tail])
    error = float(law.std())
    flags: dict[str, Any] = {"method": "subsampling", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, error, **flags, **_bias(law.mean(), error, "subsampling"))


def bootstrap(question: Question) -> ErrorInterval:
    """The percentile interval of resamples: never valid, for comparison."""
    problem, value = question.sample()
    units = _Units(problem)
    number = units.number
    draws = _draws(question, lambda rng: value(units.rows(rng.randint(number, size=number))))
    tail = (1 - question.confidence_level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    flags: dict[str, Any] = {"method": "bootstrap", "target": METRIC, "floor": -np.inf}
    return question.answer(low, high, draws.std(), **flags, valid=False, reason=_NAIVE)


class _Units:
    """Samples or, where these depend on each other, clusters: what is left out and drawn."""

    def __init__(self, problem: Problem) -> None:
        self.name = "samples" if problem.cluster is None else "clusters"
        self.number, self._rows = len(problem.weight), None
        if problem.cluster is not None:
            distinct, self._cluster = np.unique(problem.cluster, return_inverse=True)
            self.number = len(distinct)
            ends = np.cumsum(np.bincount(self._cluster))[:-1]
            self._rows = np.split(np.argsort(self._cluster, kind="stable"), ends)

    def permutation(self, rng: np.random.RandomState) -> np.ndarray:
        """Place of the unit of each row in a random order (n,)."""
        place = np.argsort(rng.permutation(self.number))
        return place if self._rows is None else place[self._cluster]

    def rows(self, units: np.ndarray) -> np.ndarray:
        """The rows of some units, repeated as often as these are."""
        return units if self._rows is None else np.concatenate([self._rows[k] for k in units])


def normal_limits(answer: ErrorInterval, level: float) -> tuple[float, float]:
    """The normal interval of a level from the standard error alone."""
    reach = float(normal.isf((1 - level) / 2)) * answer.standard_error
    return answer.estimate - reach, answer.estimate + reach


def _bias(bias, error, name):
    if abs(bias) <= _LARGEST_BIAS * error:
        return {}
    size = abs(bias) / error if error > 0 else np.inf
    return {"valid": False, "reason": _BIASED.format(size, name)}


def _draws(question, draw):
    """Values of `draw` for the generators of a question."""
    return draw_each(draw, question.n_resamples, question.rng, n_jobs=question.n_jobs)


def _rejects_calibration(question, problem, value):
    """Whether the metric is significantly larger than with labels drawn from the forecasts.

    Draws end as soon as those to come cannot change the answer.
    """
    if problem.cluster is not None:
        notion = (question.options or {}).get("notion", "canonical")
        level = question.confidence_level
        found = estimate_proper_error(
            problem, loss="brier", notion=notion, confidence_level=level, n_jobs=question.n_jobs
        )
        return found.interval is not None and found.interval.low > 0
    levels, tail = problem.forecast.cumsum(axis=1), (1 - question.confidence_level) / 2

    def draw(rng):
        return value(slice(None), draw_codes(levels, rng))

    drawn, total = np.empty(0), question.n_resamples
    batches = draw_batches(draw, total, question.rng, size=_BATCH, n_jobs=question.n_jobs)
    for batch in batches:
        drawn = np.append(drawn, batch)
        rest = total - len(drawn)
        # The p-value of all draws, if those to come are as small or as large as possible.
        least, most = (
            monte_carlo_pvalue(question.estimate, np.append(drawn, np.full(rest, end)))
            for end in (-np.inf, np.inf)
        )
        if least > tail or most <= tail:
            break
    return most <= tail
