"""The interval method of each metric of the library."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm as normal

from skcalib._util.validation import look_up
from skcalib.data.clusters import effective_size
from skcalib.data.notions import resolve_notion, resolve_reduced
from skcalib.error_intervals._norms import (
    NEGLIGIBLE,
    Gaps,
    absolute_gaps,
    distance_quantiles,
    embedding_at,
    few_limits,
    kernel_problem,
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
from skcalib.error_intervals.exact import FEW_REASON
from skcalib.error_intervals.proper import SMOOTHED, estimate_of_solved, estimate_proper_error
from skcalib.error_intervals.resampling import jackknife
from skcalib.errors._drawn_labels import drawn_embedding_pvalue, drawn_kernel_pvalue, few_labels
from skcalib.errors.binned import resolve_norm
from skcalib.errors.cumulative import KS_REDUCTIONS, PredictedClass
from skcalib.errors.kernel import block_estimates, takes_blocks
from skcalib.errors.logistic import index_of_solved
from skcalib.errors.simplex import DISTANCES, cells_for
from skcalib.proper.proper_terms import solve_notion
from skcalib.scores import Brier, Divergence, Lp, ProperScore, TotalVariation, resolve_loss
from skcalib.stats.means import mean_interval, mean_loss_interval

if TYPE_CHECKING:
    from skcalib.error_intervals.question import ErrorInterval, Question

NOISY: dict[str, Any] = {
    "valid": False,
    "reason": "noise of the curve biases the distance upward, by an amount that is not known",
}
BETWEEN = "a norm lies between those of lower and higher power, whose limits these are"
QUANTILE_OF_CELLS = (
    "the quantile {:g} of the distances of S from C, as far as C - S is constant in each of {} "
    "intervals of the forecasts with equal numbers of samples"
)
SIMULTANEOUS = "the limits are those of all cells simultaneously"
PART_OF_CELL = "the largest distance may be that of a part of a cell, and above the upper limit"
_FEWEST_AND_MOST = 6, 15  # cells of a curve
MOMENTS = "the limits are bounds from those of the squared distance"
INVERSION, BOTH_SIDES = "test inversion", "limits for all bias and none"
FEW: dict[str, Any] = {"method": "exact limits", "conservative": True, "reason": FEW_REASON}
BINNED = "the {} of E[Y|bin] from E[S|bin], with the bins of this sample"
#: Estimates of at least this many standard errors are far from zero.
FAR = 4.0
NOT_REFUTED = "few labels are uncertain, and labels drawn from the forecasts do not refute zero"
NEAR_ZERO = "the lower limit is zero unless two tests reject calibration"
_ROUNDING = 1e-15  # of equal losses, relative to their mean
#: A margin in the standard error that has a visible effect on coverage.
PADDED = 1.15
MARGIN = (
    "the growth of the noise with the error cannot be estimated well: its upper limit makes "
    "the standard error {:.1f} times as large"
)
BENT = (
    "noise biases absolute differences upward by up to {:.1f} standard errors: the lower limit "
    "allows for this bias, the upper one for none"
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
        return _with_few(question, _largest(question, gaps), gaps, p)
    if p == 1:
        target = BINNED.format("mean absolute distance")
        return _with_few(question, _absolute(question, gaps, target, ceiling), gaps, 1)
    rooted = not options["squared"]
    target = BINNED.format(("root of the " if rooted else "") + "mean squared distance")
    usual = _squared(question, gaps, target, ceiling, rooted=rooted)
    return _with_few(question, usual, gaps, 2, rooted=rooted)


def _with_few(question, usual, gaps, power, *, rooted=False, whole=False):
    """Exact limits where events are few; the upper one is at least that of the other interval."""
    limits = few_limits(gaps, question.normal_level, power, whole)
    if limits is None:
        return usual
    low, high = np.sqrt(limits) if rooted else limits
    if np.isfinite(usual.standard_error):
        high = max(high, usual.high)
    error = _error_of(low, high, question.confidence_level)
    return question.answer(low, high, error, target=usual.target, **FEW)


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
    cells = cells_for(problem, options["bins"])
    cells = cells.fit(problem.forecast, problem.target, problem.weight).cells_
    columns = problem.forecast.T, problem.target.T
    halved = 0.5 if len(columns[0]) == 2 else 1.0
    kind, share = _distance_kind(options["distance"], halved)
    if kind is None:
        return jackknife(question, at_zero=True)
    shares, rest = [share] * len(columns[0]), {"cluster": problem.cluster}
    gaps = Gaps.of_columns([cells] * len(shares), *columns, problem.weight, shares, **rest)
    target = f"the mean {kind} distance of E[Y|cell] from E[S|cell], with the cells of this sample"
    ceiling = 2.0 * share
    make, power = (_squared, 2) if kind == "squared" else (_absolute, 1)
    return _with_few(question, make(question, gaps, target, ceiling), gaps, power, whole=True)


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
    if reduce == "predicted":
        options["notion"] = PredictedClass()
    n_problems = len(list(options["notion"].problems(np.eye(2), np.eye(2))))
    if n_problems > 1:
        n_problems = question.problem_of(options["notion"])[0].forecast.shape[1]
    options |= {"n_bins": n_thresholds(n_problems), "strategy": "quantile"}
    gaps = score_gaps(options)
    draws = question.n_resamples, question.rng
    level = question.normal_level
    low, high, error, bias = largest_difference(gaps, question.estimate, level, *draws)
    ceiling = float(len(gaps.cell)) if reduce == "sum" else 1.0
    target = "the largest |E (Y - S) 1{S <= t}| over thresholds t"
    if reduce == "predicted":
        target += ", for each class where it is predicted"
    flags: dict[str, Any] = {"method": BOTH_SIDES, "target": target, "ceiling": ceiling}
    usual = question.nothing_varies(target=target, ceiling=ceiling)
    if error > 0:
        usual = question.answer(low, high, error, **flags, **_bent(bias, error))
    return _with_few(question, usual, gaps, 0)


def kernel(question: Question) -> ErrorInterval:
    """Interval of `kernel_calibration_error`."""
    options = question.options
    data, statistic, size = kernel_problem(options), options["statistic"], options["block_size"]
    h = residual_kernel(options, question.n_jobs)
    target = "the squared kernel calibration error, with the kernel of this sample"
    if statistic in ("linear", "block"):
        if question.clustered:
            raise ValueError(
                f"statistic={statistic!r} takes consecutive samples as independent: use "
                "statistic='unbiased' with groups."
            )
        size = 2 if statistic == "linear" else size
        mean = mean_interval(*block_estimates(h, size), question.confidence_level)
        norm, limits = None, (mean.low, mean.high, mean.standard_error)
        found = question.answer(*limits, method="delta method", target=target)
    elif len(h) < 4:
        return question.nothing_varies(target=target, ceiling=np.inf)
    else:
        blocks = not question.clustered and takes_blocks(statistic, len(h))
        norm = (squared_block_norm if blocks else squared_embedding_norm)(h, question.rng)
        found = _inverted(question, norm, target, np.inf)
    pvalue = partial(drawn_kernel_pvalue, data, statistic, size)
    return _exact_near_zero(question, found, data, pvalue, norm)


def embedding(question: Question) -> ErrorInterval:
    """Interval of `unconditional_mean_embedding_error`."""
    target = "the error of the mean embedding at these locations, with the kernel of this sample"
    data = kernel_problem(question.options)
    problem, _, notion = data
    if len(problem.weight) < 4:
        return question.nothing_varies(target=target, ceiling=np.inf)
    features = embedding_at(data, question.options)
    norm = squared_location_norm(problem, features)
    found = _inverted(question, norm, target, np.inf)
    pvalue = partial(drawn_embedding_pvalue, problem, features, notion)
    return _exact_near_zero(question, found, data, pvalue, norm)


def _exact_near_zero(question, found, data, pvalue, norm=None):
    """With few uncertain labels: wider, and from 0 unless labels drawn from forecasts reject it.

    The variance is that of the observed labels or of the forecasts, whichever is larger, and of two
    more events: a few labels that are equal by chance are not evidence of certainty.
    """
    problem, _, notion = data
    if not few_labels(problem, notion):
        return found
    if norm is not None and norm.noise2 > 0:
        square, forecast = problem.weight**2, problem.forecast
        drawn = np.sum(forecast * (1 - forecast), axis=1)
        seen = square @ np.sum((problem.target - forecast) ** 2, axis=1)
        more = 4 * np.average(square, weights=drawn if drawn.any() else None)
        ratio = (max(seen, square @ drawn) + more) / seen
        wider = {"noise2": ratio**2 * norm.noise2, "noise3": ratio**3 * norm.noise3}
        norm = replace(norm, slope=ratio * norm.slope, **wider)
        found = _inverted(question, norm, found.target, np.inf)
    level = 1 - found.confidence_level
    if found.low == 0 or pvalue(question.n_resamples, question.rng, level=level) <= level:
        return found
    return replace(found, low=0.0, conservative=True, reason=NOT_REFUTED)


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
    if found.interval is None:
        return jackknife(question, at_zero=True, target=found.target)
    if not np.isfinite(found.interval.high) and not found.terms.loss.any():
        return question.nothing_varies(target=found.target, ceiling=np.inf)
    interval = found.interval
    low, high, error = interval.low, interval.high, interval.standard_error
    flags: dict[str, Any] = {"method": "delta method", "target": found.target}
    flags["estimate"] = interval.estimate
    if found.few:
        flags |= FEW
    elif found.norm is not None:
        flags |= {"method": INVERSION, **_padded(found.norm, low)}
        flags |= {} if low > 0 else {"conservative": True, "reason": NEAR_ZERO}
        if found.lower_bound:
            flags |= {"valid": False, "reason": found.lower_bound}
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

    With :math:`x = |C - S|` of a problem of two columns,

    .. math:: E x^2 / \max x \le E x \le \sqrt{E x^2} .

    The interval of :math:`E x^2` is that of the Brier error; the maximum is that of the averaged
    maps. The index itself shrinks to zero near calibration, so neither its spread nor a jackknife
    shows how large the distance may be. Where events are few the lower limit of E x is exact.

    Limits of a quantile of x are the quantiles of simultaneous limits of the curve, as far as it is
    constant in cells (`distance_quantiles`).
    """
    options, target = question.options, "the mean distance of S from C, as far as {}"
    quantile, level = options["quantile"], question.confidence_level
    if quantile is not None:
        target = f"the quantile {quantile:g} of the distances of S from C, as far as {{}}"
    if options["smoother"] is not None:
        limit = "the distance of S from the large-sample limit of the smoother's curve"
        return replace(jackknife(question, at_zero=True, target=limit), **NOISY)
    problem, rule = question.problem_of(resolve_notion(options["notion"]))
    solved = solve_notion(problem, notion=rule, smoother=None, n_jobs=question.n_jobs)
    found = estimate_of_solved(solved, loss="brier", notion=rule, confidence_level=level)
    squared, shown = found.interval, target.format(found.target.rpartition("as far as ")[2])
    pairs, certain = solved[0].forecast.shape[1] == 2, not found.terms.loss.any()
    if certain and rule.reduce == "mean" and not (pairs and found.few):
        return question.nothing_varies(target=shown, ceiling=1.0)
    if not pairs or squared is None or (found.norm is None and not certain):
        limit = target.format("the averaged maps show it")
        return replace(jackknife(question, at_zero=True, target=limit), **NOISY)
    estimate = index_of_solved(solved, rule, quantile)
    many = 1 if rule.reduce == "mean" else len(solved)
    if quantile is not None:
        size = effective_size(solved[0].weight, solved[0].square)
        cells = max(round(size ** (1 / 3)), np.ceil(1 / max(1 - quantile, 1e-3)) + 1)
        cells = int(np.clip(cells, *_FEWEST_AND_MOST))
        gaps = score_gaps({**options, "notion": rule, "n_bins": cells, "strategy": "quantile"})
        low, high = distance_quantiles(gaps, quantile, question.normal_level)
        if found.few:  # too few samples in a cell; a bound of a square is one of its quantiles
            low, high = 0.0, np.sqrt(many * squared.high / max(1 - quantile, 1e-12))
        low, high = min(low, estimate), max(min(high, many), estimate)
        target = QUANTILE_OF_CELLS.format(quantile, cells)
        flags: dict[str, Any] = {"method": "simultaneous limits", "conservative": True}
        flags |= {"target": target, "reason": SIMULTANEOUS, "estimate": estimate}
        flags |= {"valid": False, "reason": PART_OF_CELL} if quantile > 1 - 1 / cells else {}
        return question.answer(low, high, _error_of(low, high, level), **flags)
    most = max(np.abs(one.conditional - one.forecast).max() for one in solved)
    most, single = 1.0 if found.few else float(most), len(solved) == 1
    low, high = squared.low, many * squared.high
    low = np.sqrt(low) if found.few and single else low / (most or 1.0)
    low, high = float(low), float(min(np.sqrt(high), many))
    flags = {"method": INVERSION, "conservative": True, "reason": MOMENTS}
    flags |= {"estimate": estimate, "target": shown}
    flags |= FEW if found.few else {}
    flags |= {"valid": False, "reason": found.lower_bound} if found.lower_bound else {}
    return question.answer(min(low, high), high, _error_of(low, high, level), **flags)


def _mean_loss(question, score, notion, problem, target, rooted=False):
    def loss(labels):
        pairs = notion.problems(problem.forecast, labels)
        losses = [score.loss(one, forecast) - score.infimum for forecast, one in pairs]
        return sum(losses) / (len(losses) if notion.reduce == "mean" else 1)

    rows = {"weight": problem.weight, "square": problem.square, "cluster": problem.cluster}
    rows |= {"confidence_level": question.confidence_level}
    if problem.losses is not None:
        rows["estimate"] = problem.mean_loss(score) - score.infimum
    if problem.indicator:
        mean = mean_interval(loss(problem.target), **rows)
    else:
        mean = mean_loss_interval(loss, problem.forecast, problem.target, **rows)
    low, high, error = max(mean.low, 0.0), mean.high, mean.standard_error
    if rooted:
        low, high, error = np.sqrt(low), np.sqrt(high), error / (2 * question.estimate or 1.0)
    flags = {}
    if error <= _ROUNDING * mean.estimate:
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
