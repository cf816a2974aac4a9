r"""Direction of the miscalibration: shifted, too extreme, too moderate, or none of these.

Two classes: on the logit of the event, centred at the mean logit of the forecasts,

.. math:: \mathrm{logit}\, C = m + \alpha + \beta (\mathrm{logit}\, S - m) .

The shift :math:`\alpha` alone and the slope :math:`\beta` alone are two of the models that the
default calibration error averages (`ModelAverage`). Their gains of the log loss, without the
optimism of the fits, are compared with that of the averaged map, which may contain a curve. Several
classes: the slope is one inverse temperature of all logits, the shift is a bias of each class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from skcalib._util.formatting import rates
from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    inflation,
    student_level,
)
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.links.newton import logistic_regression
from skcalib.report.findings import (
    Confusion,
    Findings,
    Gains,
    LogisticRecalibration,
    class_name,
    first_classes,
)
from skcalib.report.subgroups import worst_places
from skcalib.scores import LogLoss, weighted_mean
from skcalib.significance.binary import JointRatio, run_test
from skcalib.smoothers.partition import quantile_cuts
from skcalib.stats.means import MeanInterval, rate_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.proper.map_average import AveragedProblem

_LIMIT = 0.01  # replaces a forecast of exactly 0, unless smaller ones occur
_FEWEST = 10  # samples of a confusion
_WEAK = 0.01  # precision of the priors that keep separable fits finite, in samples
_CLEAR = 2.0  # standard errors by which a shift or slope must differ from none
_CLEARER = 3.0  # the same, for the second clause of a headline
_ON_BOTH_SIDES = 0.15  # share of the samples above and below the curve, if too extreme


# --- Shift, slope and confused classes ------------------------------------------------------------


def logistic_recalibration(
    problem: Problem, confidence_level: float
) -> LogisticRecalibration | None:
    """Binary problem -> `LogisticRecalibration`; None if all forecasts are equal.

    Correct forecasts of exactly 0 or 1 fit every shift and slope. They are omitted, unless some
    such forecast is wrong.
    """
    certain = (problem.forecast == 0).any(axis=1)
    if certain.any() and not ((problem.forecast == 0) & (problem.target == 1)).any():
        problem = problem.take(~certain)
    if problem.n_samples < 2:
        return None
    x, y, weight = _logit(problem.forecast), problem.target[:, 1], problem.weight
    size = effective_size(weight, problem.square)
    share, root = weight / weight.sum(), np.sqrt(problem.squares) / weight.sum()
    centred = x - share @ x
    if np.ptp(centred) < 1e-9:
        return None
    design = np.column_stack([np.ones(len(x)), centred])
    theta, information = logistic_regression(design, x, y, size * share, penalty=_WEAK)
    p = expit(x + design @ theta)
    scores = cluster_sums(design * (size * root * (p - y))[:, None], problem.cluster)
    inverse = np.linalg.inv(information)
    sandwich = inverse @ (scores.T @ scores) @ inverse
    level = confidence_level
    if problem.cluster is not None:  # the likelihood is not that of independent labels
        units = independent_size(weight, cluster=problem.cluster)
        sandwich, level = sandwich * inflation(units), student_level(level, units)
    errors = np.sqrt(np.maximum(np.diag(inverse), np.diag(sandwich)))
    reach = norm.ppf(0.5 + level / 2)
    shift, slope = (
        MeanInterval(float(v), float(v - reach * e), float(v + reach * e), float(e))
        for v, e in zip(theta + [0.0, 1.0], errors, strict=True)
    )
    # Rounding may leave forecasts above 1, which would have a negative variance.
    problem = replace(problem, forecast=np.minimum(problem.forecast, 1))
    return LogisticRecalibration(shift, slope, run_test(JointRatio(problem), problem).pvalue)


def gains_of(solved: AveragedProblem) -> Gains:
    """Gains of the log loss by a shift alone, a slope alone and the averaged map.

    They are means over the labels whose log loss is finite. With several classes the shift is a
    bias of each class, and the slope is one temperature.
    """
    if solved.forecast.shape[1] == 2:
        shift, slope = _binary_gains(solved)
    else:
        shift, slope = solved.gain("bias"), solved.gain("slope")
    whole = solved.errors(LogLoss())
    finite = np.isfinite(whole) & (solved.weight > 0)
    if not finite.any():
        return Gains(0.0, 0.0, np.inf)
    weight = solved.weight[finite]
    return Gains(*(float(weighted_mean(gain[finite], weight)) for gain in (shift, slope, whole)))


def _binary_gains(solved):
    """Gains (n,) of a shift and of a slope about the mean logit, without the fit's optimism."""
    x, y = _logit(solved.forecast), solved.target[:, 1]
    size, weight, unit = solved.average.size, solved.average.weight, solved.average.unit
    for column in (np.ones(len(x)), x - weight @ x / size):
        theta, ((information,),) = logistic_regression(column[:, None], x, y, weight, penalty=_WEAK)
        p = expit(x + theta[0] * column)
        leverage = np.clip(unit * p * (1 - p) * column**2 / information, 0.0, 0.5)
        optimism = 0.5 * unit * (column * (y - p)) ** 2 / information / (1 - leverage)
        yield _loss(x, y) - _loss(x + theta[0] * column, y) - optimism


def _loss(eta, y):
    return np.logaddexp(0, eta) - y * eta


def _logit(forecast):
    """Log odds of the second column, finite; hard predictions have no small positive forecasts."""
    log = log_forecast(forecast, min(detection_limit(forecast), _LIMIT))
    return log[:, 1] - log[:, 0]


def confusions_of(
    solved: AveragedProblem, classes: np.ndarray, confidence_level: float
) -> tuple[Confusion, ...]:
    """The transitions of the averaged maps' `Extension` as observed frequencies.

    Those whose interval, with Bonferroni's correction, lies above the mean probability.
    """
    transitions = () if solved.extension is None else solved.extension.transitions
    confusions = []
    for transition in transitions:
        rows = transition.predicted(solved.forecast)
        if rows.sum() < _FEWEST:
            continue
        weight, score = solved.weight[rows], solved.forecast[rows, transition.target]
        observed = rate_interval(
            solved.targets(rows)[:, transition.target],
            weight,
            1 - (1 - confidence_level) / len(transitions),
            square=None if solved.square is None else solved.square[rows],
            cluster=None if solved.cluster is None else solved.cluster[rows],
        )
        mean_score = float(weighted_mean(score, weight))
        if observed.low > mean_score:
            predicted, true = str(classes[transition.source]), str(classes[transition.target])
            above, n_samples = transition.above or 0.0, int(rows.sum())
            confusions.append(Confusion(predicted, true, above, n_samples, mean_score, observed))
    return tuple(confusions)


# --- The direction that follows from them ---------------------------------------------------------


def find_direction(findings: Findings, solved: AveragedProblem) -> Findings:
    """The findings with their direction, if miscalibration was found and the input is not suspect.

    With two classes, and nearly all samples on one side of the curve, it is not "too extreme".
    """
    if not findings.miscalibrated or findings.input_is_suspect:
        return findings
    if findings.n_classes > 2:
        return replace(findings, direction=_direction_of_classes(findings))
    by_mean, by_slope = _mean_sign(findings), _slope_sign(findings)
    direction = direction_of(findings.gains, by_mean, by_slope) or "uneven"
    gap = (solved.forecast - solved.conditional)[:, 1]
    above, below = solved.share @ (gap > 0), solved.share @ (gap < 0)
    if not direction.endswith(("high", "low")) and min(above, below) < _ON_BOTH_SIDES:
        sides = {place.too_high for place in worst_places(findings.places, "scores", 99)}
        sign = 0 if len(sides) > 1 else by_mean
        direction = {1: "too_high", -1: "too_low"}.get(sign, "uneven")
    more_where = _more_where(findings, direction, solved, gap)
    return replace(findings, direction=direction, more_where=more_where)


def direction_of(gains: Gains, shift_up: float, slope_down: float) -> str | None:
    """The name of the direction from the gains; None if it is none of the simple ones.

    `shift_up` and `slope_down` are +1 if forecasts are clearly too high or too extreme, -1 if they
    are clearly too low or too moderate, and 0 if the data do not decide.
    """
    whole = max(gains.whole, gains.shift, gains.slope)
    half = 0.5 * whole
    if gains.shift > 0 and gains.shift >= max(half, gains.slope) and shift_up:
        return "too_high" if shift_up > 0 else "too_low"
    if gains.slope > 0 and gains.slope >= half and slope_down:
        return "too_extreme" if slope_down > 0 else "too_moderate"
    return None


def _direction_of_classes(findings):
    """The direction of several classes; a gap of the confidence decides with the slope."""
    gap, slope = findings.confidence_gap, _slope_sign(findings)
    sign = int(np.sign(gap.estimate))
    clear = gap.low > 0 or gap.high < 0 or sign == slope
    direction = direction_of(findings.gains, 1, sign if clear else 0)
    if direction == "too_high":  # class biases gain more
        direction = "class_shift" if worst_places(findings.places, "class", 1) else None
    return direction or ("confused" if findings.confusions else "uneven")


def _mean_sign(findings):
    """+1 if the mean prediction is clearly too high, -1 if it is clearly too low."""
    observed, predicted = findings.observed_rate, findings.mean_predicted
    return int(predicted > observed.high) - int(predicted < observed.low)


def _slope_sign(findings, clear=_CLEAR):
    """+1 for a slope clearly below 1 (forecasts too extreme), -1 for one clearly above 1."""
    if findings.logistic is None:
        return 0
    slope = findings.logistic.slope
    clear *= slope.standard_error
    return int(slope.estimate < 1 - clear) - int(slope.estimate > 1 + clear)


def _more_where(findings, direction, solved, gap):
    """Whether the "higher" or "lower" predictions of a shifted event are clearly further off.

    The slope must agree with the fitted curve: its mean differences from the predictions in both
    halves of these, as probabilities and as log odds. Else the text is empty.
    """
    sign = {"too_high": 1, "too_low": -1}.get(direction, 0) * _slope_sign(findings, _CLEARER)
    if not sign:
        return ""
    forecast = solved.forecast[:, 1]
    odds = logit(np.clip([forecast, forecast - gap], 1e-9, 1 - 1e-9))
    cuts = quantile_cuts(forecast, 2)
    if not len(cuts):
        return ""
    halves = forecast > cuts[-1], forecast < cuts[0]
    for size in map(np.abs, (gap, odds[0] - odds[1])):
        high, low = (weighted_mean(size[side], solved.weight[side]) for side in halves)
        if sign * (high - low) <= 0:
            return ""
    return "higher" if sign > 0 else "lower"


# --- The headline of each direction ---------------------------------------------------------------


def _shifted(findings):
    word = "too high" if findings.direction == "too_high" else "too low"
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    side = f", and more so the {findings.more_where} they are" if findings.more_where else ""
    return f"Predictions are {word}{side}: mean {predicted}, observed {observed}."


def _too_extreme(findings):
    return "Over-confident: predictions are too extreme."


def _too_moderate(findings):
    return "Under-confident: predictions are not extreme enough."


def _class_shift(findings):
    off = worst_places(findings.places, "class", len(findings.places))
    often = [place for place in off if place.too_high]
    labels = first_classes(place.label for place in often or off)
    return f"Some classes are predicted too {'often' if often else 'rarely'}: {labels}."


def _confused(findings):
    confusion = findings.confusions[0]
    predicted, true = class_name(confusion.predicted), class_name(confusion.other)
    score, observed = rates(confusion.mean_score, confusion.observed.estimate)
    least = confusion.at_least
    where = f"where {predicted} is predicted"
    where += f" with at least {rates(least)[0]}" if least > 0 else ""
    return (
        f"Some classes are confused: {where}, {true} is true in {observed} of the samples, "
        f"predicted {score}."
    )


def _uneven(findings):
    off = worst_places(findings.places, "scores", len(findings.places))
    score = "score" if findings.n_classes == 2 else "confidence"
    parts = []
    for too_high, word in ((True, "too high"), (False, "too low")):
        place = next((place for place in off if place.too_high is too_high), None)
        if place is not None:
            parts.append(f"{word} where {'it' if parts else f'the {score}'} is {place.label}")
    if parts:
        return f"Miscalibrated, unevenly: {', '.join(parts)}."
    if any(suspicion.kind == "infinite_log_loss" for suspicion in findings.suspicions):
        return "Miscalibrated: some labels were given probability 0."
    return f"Miscalibrated, but no single range of the {score} is clearly off."


@dataclass(frozen=True)
class Direction:
    """A direction: its words in a table, and the headline of a report that has it."""

    words: str
    headline: Callable[[Findings], str]


DIRECTIONS = {
    "too_high": Direction("too high", _shifted),
    "too_low": Direction("too low", _shifted),
    "too_extreme": Direction("over-confident", _too_extreme),
    "too_moderate": Direction("under-confident", _too_moderate),
    "class_shift": Direction("class frequencies", _class_shift),
    "confused": Direction("confused classes", _confused),
    "uneven": Direction("uneven", _uneven),
}
