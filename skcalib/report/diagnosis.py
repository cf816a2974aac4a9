r"""Diagnosis of the forecasts: signs of an invalid input, and the direction of a miscalibration.

Each sign is one kind of mistake, with its sentence, and comes before anything else. A check that
compares two readings of the input requires a difference of the Brier score of many standard errors,
so that sampling noise does not trigger it.

The direction is shifted, too extreme, too moderate, or none of these. Two classes: on the logit of
the event, centred at the mean logit of the forecasts,

.. math:: \mathrm{logit}\, C = m + \alpha + \beta (\mathrm{logit}\, S - m) .

The shift :math:`\alpha` alone and the slope :math:`\beta` alone are two of the models that the
default calibration error averages (`ModelAverage`). Their gains of the log loss, without the
optimism of the fits, are compared with that of the averaged map, which may contain a curve. Several
classes: the slope is one inverse temperature of all logits, the shift is a bias of each class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import issparse
from scipy.special import expit, logit
from scipy.stats import norm, poisson

from skcalib._util.formatting import rates
from skcalib._util.types import MatrixLike
from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    inflation,
    student_level,
)
from skcalib.data.features import as_cells
from skcalib.data.notions import TopLabel
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
from skcalib.scores import LogLoss, weighted_mean
from skcalib.significance.binary import JointRatio, run_test
from skcalib.smoothers.partition import quantile_cuts
from skcalib.stats.means import MeanInterval, concordance_interval, mean_interval, rate_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.proper.map_average import AveragedProblem


# --- Signs of an invalid input --------------------------------------------------------------------


#: Standard errors by which another reading of the input must lower the Brier score.
_CLEARLY = 5.0
#: Level of the interval of the concordance that must lie below one half.
_RANKING_LEVEL = 0.999
#: Level of the interval that chance lies in, if labels are not related to the forecasts at all.
_UNRELATED_LEVEL = 0.9
#: Accuracy that another order of the columns must gain.
_ADDED_ACCURACY = 0.02
#: Number of right predictions from which training data are suspected.
_MANY_RIGHT = 50
#: With more classes than this, other orders of the columns are not searched.
_MOST_CLASSES = 2_000
#: Probability below which chance does not explain repeated rows, or that a class has no label.
_IMPROBABLE = 1e-4
#: Share of the rows that repeat others; forecasts beside a repeated one that show how labels vary.
_REPEATED, _BESIDE = 0.1, 20
#: Excess over chance of the AUC, or accuracy, that the forecasts claim, from which they vary a lot.
_CLAIMED = 0.15
#: Factor of the odds, and its lower limit; difference of the slope from 1; share of the gain.
_FACTOR, _LEAST_FACTOR, _SLOPE, _BY_SHIFT = 4.0, 2.5, 0.15, 0.9


@dataclass(frozen=True)
class Suspicion:
    """One kind of mistake: the sentence about it, and what it means for the verdict.

    ``kind`` is "other_class", "column_order", "percent_scale", "label_order", "absent_class",
    "repeated_rows", "unrelated_labels", "one_class", "constant", "hard_predictions",
    "every_label_right", "infinite_log_loss", "balanced_training" or "decision_values". A
    ``headline`` is that of a verdict which only asks to check the input. With ``stops_advice`` the
    input must be corrected before recalibration.
    """

    kind: str
    sentence: str
    headline: str = ""
    stops_advice: bool = False

    @property
    def invalidates(self) -> bool:
        """True if the probabilities or the samples are probably not what they should be."""
        return bool(self.headline)


def find_suspicions(
    problem: Problem,
    features: MatrixLike = None,
    logistic: LogisticRecalibration | None = None,
    gains: Gains | None = None,
    decision_values: bool = False,
) -> tuple[Suspicion, ...]:
    """`Problem` -> tuple of `Suspicion`, the most serious first.

    `features` tell rows with equal forecasts apart, `logistic` and `gains` show a constant factor
    of the odds, and `decision_values` says that the forecasts are transformed decision values.
    """
    binary, several_labels = problem.forecast.shape[1] == 2, not _is_one_class(problem)
    suspicions = []
    if several_labels:
        suspicions.append(_other_class(problem) if binary else _column_order(problem))
    if binary:
        suspicions.append(_percent_scale(problem))
    if several_labels:
        suspicions += [_label_order(problem), _absent_class(problem)]
    suspicions += [_repeated_rows(problem, features), *_plain_suspicions(problem)]
    if binary and logistic is not None and gains is not None:
        suspicions.append(_balanced_training(problem, logistic, gains))
    if decision_values:
        sentence = (
            "The scores are decision values, divided by their spread unless they are log odds, and "
            "passed through the logistic function: without probabilities their size has no meaning."
        )
        suspicions.append(Suspicion("decision_values", sentence))
    return tuple(suspicion for suspicion in suspicions if suspicion is not None)


def _other_class(problem):
    """Check whether the forecasts fit much better as probabilities of the other of two classes."""
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    swapped = forecast[:, ::-1]
    gain = weighted_mean(((forecast - target) ** 2 - (swapped - target) ** 2).sum(axis=1), weight)
    if gain <= 0 or _ranking(problem, problem.outcome).high >= 0.5:
        return None
    accuracies = rates(*(_accuracy(f, target, weight) for f in (forecast, swapped)))
    return Suspicion(
        "other_class",
        "Read as probabilities of the other class they fit much better: accuracy "
        f"{accuracies[1]} instead of {accuracies[0]}.",
        headline="Check the labels: the forecasts fit the other class.",
    )


def _column_order(problem):
    """Check whether another assignment of columns to several classes fits much better.

    The best of all orders fits any labels. So it is chosen on one half of the samples, and on the
    other half it must lower the Brier score and follow the labels more closely.
    """
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    n_classes = forecast.shape[1]
    if n_classes > _MOST_CLASSES:
        return None
    every = np.ones(len(weight), dtype=bool)
    half = np.arange(len(weight)) % 2 == 0 if problem.cluster is None else problem.cluster % 2 == 0
    first, second = _best_order(problem, half), _best_order(problem, ~half)
    moved = (first == second) & (first == _best_order(problem, every))
    moved = np.flatnonzero(moved & (first != np.arange(n_classes)))
    if moved.size == 0:
        return None
    ordered = np.where(half[:, None], forecast[:, second], forecast[:, first])
    lower = ((forecast - target) ** 2 - (ordered - target) ** 2).sum(axis=1)
    closer = ((target - weighted_mean(target, weight)) * (ordered - forecast)).sum(axis=1)
    if not (_is_clear(lower, problem) and _is_clear(closer, problem)):
        return None
    before, after = (_accuracy(f, target, weight) for f in (forecast, ordered))
    if after < before + _ADDED_ACCURACY:
        return None
    names, shown = first_classes(map(str, problem.classes[moved])), rates(before, after)
    return Suspicion(
        "column_order",
        f"With another order of the columns ({names}): accuracy {shown[1]} instead of {shown[0]}.",
        headline="Check the columns: the forecasts fit another order of the classes.",
    )


def _best_order(problem, rows):
    """The column for each class that maximises the mean probability of the label in some rows."""
    forecast = problem.weight[rows, None] * problem.forecast[rows]
    return linear_sum_assignment(-problem.target[rows].T @ forecast)[1]


def _accuracy(forecast, target, weight):
    right = forecast.argmax(axis=1) == target.argmax(axis=1)
    return float(weighted_mean(right.astype(float), weight))


def _ranking(problem, column, level=_RANKING_LEVEL):
    """Interval of the AUC, or for several classes of the accuracy, with these labels (n,)."""
    rows = {"square": problem.square, "cluster": problem.cluster}
    score = problem.forecast[:, 1]
    if problem.forecast.shape[1] == 2:
        event = (column == 1).astype(float)
        return concordance_interval(event, score, problem.weight, level, **rows)
    right = (problem.forecast.argmax(axis=1) == column).astype(float)
    return rate_interval(right, problem.weight, level, **rows)


def _label_order(problem):
    """Check forecasts that vary, with labels that do not follow them: are they in another order?

    The AUC, or accuracy, that calibrated forecasts would have is compared with that of the labels.
    A useless model that was fitted to noise looks the same, unless labels in reverse or moved by
    one row follow the forecasts, or one of both is sorted.
    """
    if problem.count is not None:
        return None
    forecast, weight, column = problem.forecast, problem.weight, problem.outcome
    measure, chance = "AUC", 0.5
    if forecast.shape[1] == 2:
        claimed = _claimed_concordance(forecast[:, 1], weight)
    else:
        measure = "accuracy"
        top = np.bincount(forecast.argmax(axis=1), weight, forecast.shape[1]) / weight.sum()
        chance = float(top @ weighted_mean(problem.target, weight))
        claimed = float(weighted_mean(forecast.max(axis=1), weight))
    middle = (chance + claimed) / 2
    if claimed < chance + _CLAIMED:
        return None
    seen = _ranking(problem, column)
    if not seen.low <= chance <= seen.high < middle:
        return None
    headline = "Check the order: labels and forecasts are not in the same one."
    orders = {
        "in reverse": column[::-1],
        "moved up by one row": np.roll(column, -1),
        "moved down by one row": np.roll(column, 1),
    }
    for order, labels in orders.items():
        ranking = _ranking(problem, labels)
        if ranking.low > chance and ranking.estimate > middle:
            sentence = (
                f"With the labels {order} the {measure} is {ranking.estimate:.2f} instead of "
                f"{seen.estimate:.2f}."
            )
            return Suspicion("label_order", sentence, headline)
    sentence = (
        f" {measure} is {seen.estimate:.2f}, where such forecasts claim {claimed:.2f}: are the "
        "labels in another order than the forecasts"
    )
    for side, values in {"labels": column, "forecasts": forecast[:, 1]}.items():
        step = np.diff(values)
        if (step >= 0).all() or (step <= 0).all():
            sentence = f"The {side} are sorted, and the{sentence}?"
            return Suspicion("label_order", sentence, headline)
    if _ranking(problem, column, _UNRELATED_LEVEL).low > chance:
        return None
    sentence = f"The{sentence}, or was the model fitted to noise?"
    return Suspicion("unrelated_labels", sentence, stops_advice=True)


def _claimed_concordance(score, weight):
    """Expected AUC of calibrated scores: ties count one half."""
    at = np.unique(score, return_inverse=True)[1]
    events, others = (np.bincount(at, weight * share) for share in (score, 1 - score))
    below = np.cumsum(others) - others / 2
    pairs = events.sum() * others.sum()
    return float(events @ below / pairs) if pairs > 0 else 0.5


def _absent_class(problem):
    """Check for classes without labels that should have some."""
    absent = ~problem.target.any(axis=0)
    if not absent.any():
        return None
    count = np.ones(len(problem.weight)) if problem.count is None else problem.count
    with np.errstate(divide="ignore"):
        chance = np.exp(count @ np.log1p(-problem.forecast))
    named = np.flatnonzero(absent & (chance * absent.sum() < _IMPROBABLE))
    if named.size == 0:
        return None
    names = first_classes(map(str, problem.classes[named]))
    expected = float(count @ problem.forecast[:, named].sum(axis=1))
    return Suspicion(
        "absent_class",
        f"No sample is of {names}, but about {expected:,.0f} were expected: were they left out? "
        "Nothing can be said about the probability of a class without samples.",
        headline="Check the test set: a class has no samples.",
    )


def _repeated_rows(problem, features):
    """Check for rows that are given several times.

    Samples that merely have the same forecast, as of a leaf of a tree, differ in their labels about
    as often as samples with similar forecasts. Repeated rows never do.
    """
    if problem.count is not None or len(problem.weight) < 2:
        return None
    forecast, column = problem.forecast, problem.outcome
    score, right = forecast[:, 1], column
    if forecast.shape[1] > 2:
        ((pair, hit),) = TopLabel().problems(forecast, problem.target)
        score, right = pair[:, 1], hit[:, 1]
    most = (1 - _REPEATED) * len(column)
    if len(np.unique(score)) > most:
        return None
    row = np.unique(forecast, axis=0, return_inverse=True)[1].ravel()
    if features is not None and not issparse(features):
        for values in as_cells(features).reshape(len(row), -1).T:
            row = _together(row, values.astype(str) if values.dtype.kind == "O" else values)
    distinct = _together(row, column).max() + 1
    if distinct > most:
        return None
    if problem.cluster is not None and _together(row, problem.cluster).max() == row.max():
        return None  # the clusters tell that these rows belong together
    size, events = np.bincount(row), np.bincount(row, right)
    order = np.argsort(np.bincount(row, score) / size, kind="stable")
    block = np.arange(len(order)) // _BESIDE
    share, size = (events / size)[order], size[order]
    share = (np.bincount(block, share) / np.bincount(block))[block]
    expected = float(np.sum(1 - share**size - (1 - share) ** size))
    mixed = len(np.unique(_together(row, right))) - len(size)
    if mixed > expected / 5 or poisson.cdf(mixed, expected) > _IMPROBABLE:
        return None
    return Suspicion(
        "repeated_rows",
        f"Only {distinct:,.0f} of {len(column):,.0f} rows are distinct: all intervals and p-values "
        "are too small. Drop the repeated rows, or pass groups= with one value for each distinct "
        "row.",
        headline="Check the rows: many are given several times.",
    )


def _together(codes, values):
    """Codes (n,) of pairs of a code and a value, from 0."""
    value_codes = np.unique(values, return_inverse=True)[1].ravel()
    return np.unique(codes * (value_codes.max() + 1) + value_codes, return_inverse=True)[1]


def _balanced_training(problem, logistic, gains):
    """Check for a constant factor of the odds that brings the mean forecast nearer to one half."""
    shift, slope = logistic.shift, logistic.slope
    means = (weighted_mean(p[:, 1], problem.weight) for p in (problem.forecast, problem.target))
    predicted, observed = np.abs(logit([*means]))
    least = np.sign(shift.low * shift.high) * min(abs(shift.low), abs(shift.high))
    large = abs(shift.estimate) >= np.log(_FACTOR) and least >= np.log(_LEAST_FACTOR)
    straight = max(abs(slope.estimate - 1), slope.standard_error) <= _SLOPE
    towards_half, alone = predicted < observed < np.inf, gains.shift >= _BY_SHIFT * gains.whole
    if not (large and straight and towards_half and alone):
        return None
    side = "high" if shift.estimate < 0 else "low"
    factor = float(f"{float(np.exp(abs(shift.estimate))):.2g}")
    return Suspicion(
        "balanced_training",
        f"The odds are about {factor:,g} times too {side} in all ranges: was the model trained on "
        "balanced data? LabelShiftRecalibrator corrects this.",
    )


def _percent_scale(problem):
    """Check whether a hundred times the probability of the event fits much better."""
    score, y = problem.forecast[:, 1], problem.target[:, 1]
    gain = (score - y) ** 2 - (np.minimum(100 * score, 1.0) - y) ** 2
    if not (0 < score.max() <= 0.0101 and _is_clear(gain, problem)):
        return None
    return Suspicion(
        "percent_scale",
        f"No score exceeds {score.max():.3g}: were they divided by 100?",
        headline="Check the scale: the forecasts fit better times 100.",
    )


def _plain_suspicions(problem):
    """What labels and forecasts show without a test."""
    forecast, target, one_class = problem.forecast, problem.target, _is_one_class(problem)
    if one_class:
        name = class_name(str(problem.classes[target[0].argmax()]))
        yield Suspicion(
            "one_class", f"All labels belong to one class ({name}): only the mean can be checked."
        )
    if problem.n_samples >= 2 and np.ptp(forecast, axis=0).max() == 0:
        (rate,) = rates(float(forecast[0, -1]))
        yield Suspicion(
            "constant", f"All forecasts are equal ({rate}): they do not distinguish samples."
        )
    if np.isin(forecast, (0.0, 1.0)).all():
        yield Suspicion(
            "hard_predictions",
            "All scores are 0 or 1: pass probabilities (predict_proba), not predicted classes.",
            stops_advice=True,
        )
    right = forecast.argmax(axis=1) == target.argmax(axis=1)
    if right.all() and problem.n_samples >= _MANY_RIGHT and not one_class:
        yield Suspicion(
            "every_label_right",
            "Every prediction is right: if these are training data, use held-out samples.",
        )
    impossible = problem.take(((target == 1) & (forecast == 0)).any(axis=1)).n_samples
    if impossible:
        labels = "label was" if impossible == 1 else "labels were"
        sentence = f"The log loss is infinite: {impossible:,.0f} {labels} given probability 0."
        yield Suspicion("infinite_log_loss", sentence)


def _is_one_class(problem):
    return np.count_nonzero(problem.target.any(axis=0)) == 1


def _is_clear(gain, problem):
    mean = mean_interval(gain, problem.weight, square=problem.square, cluster=problem.cluster)
    return mean.estimate > _CLEARLY * mean.standard_error and mean.estimate > 0


# --- Shift, slope and confused classes ------------------------------------------------------------


_LIMIT = 0.01  # replaces a forecast of exactly 0, unless smaller ones occur
_FEWEST = 10  # samples of a confusion
_WEAK = 0.01  # precision of the priors that keep separable fits finite, in samples
_CLEAR = 2.0  # standard errors by which a shift or slope must differ from none
_CLEARER = 3.0  # the same, for the second clause of a headline
_ON_BOTH_SIDES = 0.15  # share of the samples above and below the curve, if too extreme


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
    bias of each class, and the slope is one temperature. With two both are about the mean logit,
    and without the optimism of their fits.
    """
    if solved.forecast.shape[1] > 2:
        gains = [solved.gain("bias"), solved.gain("slope")]
    else:
        x, y, gains = _logit(solved.forecast), solved.target[:, 1], []
        size, weight, unit = solved.average.size, solved.average.weight, solved.average.unit
        for column in (np.ones(len(x)), x - weight @ x / size):
            theta, ((information,),) = logistic_regression(
                column[:, None], x, y, weight, penalty=_WEAK
            )
            moved = x + theta[0] * column
            p = expit(moved)
            leverage = np.clip(unit * p * (1 - p) * column**2 / information, 0.0, 0.5)
            optimism = 0.5 * unit * (column * (y - p)) ** 2 / information / (1 - leverage)
            before, after = np.logaddexp(0, x) - y * x, np.logaddexp(0, moved) - y * moved
            gains.append(before - after - optimism)
    whole = solved.errors(LogLoss())
    finite = np.isfinite(whole) & (solved.weight > 0)
    if not finite.any():
        return Gains(0.0, 0.0, np.inf)
    weight = solved.weight[finite]
    return Gains(*(float(weighted_mean(gain[finite], weight)) for gain in (*gains, whole)))


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

    With two classes, and nearly all samples on one side of the curve, it is not "too extreme". With
    more a gap of the confidence decides with the slope.
    """
    if not findings.miscalibrated or findings.input_is_suspect:
        return findings
    by_slope = _slope_sign(findings)
    if findings.n_classes > 2:
        confidence = findings.confidence_gap
        sign = int(np.sign(confidence.estimate))
        clear = confidence.low > 0 or confidence.high < 0 or sign == by_slope
        direction = direction_of(findings.gains, 1, sign if clear else 0)
        if direction == "too_high":  # class biases gain more
            direction = "class_shift" if findings.worst_places("class") else None
        direction = direction or ("confused" if findings.confusions else "uneven")
        return replace(findings, direction=direction)
    observed, predicted = findings.observed_rate, findings.mean_predicted
    by_mean = int(predicted > observed.high) - int(predicted < observed.low)
    direction = direction_of(findings.gains, by_mean, by_slope) or "uneven"
    gap = (solved.forecast - solved.conditional)[:, 1]
    above, below = solved.share @ (gap > 0), solved.share @ (gap < 0)
    if not direction.endswith(("high", "low")) and min(above, below) < _ON_BOTH_SIDES:
        sides = {place.too_high for place in findings.worst_places("scores")}
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


#: Directions, and their words in a table.
DIRECTIONS = {
    "too_high": "too high",
    "too_low": "too low",
    "too_extreme": "over-confident",
    "too_moderate": "under-confident",
    "class_shift": "class frequencies",
    "confused": "confused classes",
    "uneven": "uneven",
}


def headline_of_direction(findings: Findings) -> str:
    """The headline of a report that has a direction."""
    direction = str(findings.direction)
    if direction == "too_extreme":
        return "Over-confident: predictions are too extreme."
    if direction == "too_moderate":
        return "Under-confident: predictions are not extreme enough."
    if direction == "class_shift":
        off = findings.worst_places("class")
        often = [place for place in off if place.too_high]
        labels = first_classes(place.label for place in often or off)
        return f"Some classes are predicted too {'often' if often else 'rarely'}: {labels}."
    if direction == "confused":
        confusion = findings.confusions[0]
        predicted, true = class_name(confusion.predicted), class_name(confusion.other)
        score, observed = rates(confusion.mean_score, confusion.observed.estimate)
        least = f" with at least {rates(confusion.at_least)[0]}" if confusion.at_least > 0 else ""
        return (
            f"Some classes are confused: where {predicted} is predicted{least}, {true} is true in "
            f"{observed} of the samples, predicted {score}."
        )
    if direction == "uneven":
        return _uneven(findings)
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    side = f", and more so the {findings.more_where} they are" if findings.more_where else ""
    return f"Predictions are {DIRECTIONS[direction]}{side}: mean {predicted}, observed {observed}."


def _uneven(findings):
    off = findings.worst_places("scores")
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
