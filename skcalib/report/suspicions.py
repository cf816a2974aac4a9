"""Signs of an invalid input, checked before anything else, with the sentence about each.

Each check names one kind of mistake. A check that compares two readings of the input requires a
difference of the Brier score of many standard errors, so that sampling noise does not trigger it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import issparse
from scipy.special import logit
from scipy.stats import poisson

from skcalib._util.formatting import rates
from skcalib._util.types import MatrixLike
from skcalib.data.features import as_cells
from skcalib.data.notions import TopLabel
from skcalib.report.findings import class_name, first_classes
from skcalib.scores import weighted_mean
from skcalib.stats.means import concordance_interval, mean_interval, rate_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.report.findings import Gains, LogisticRecalibration

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
    input must be corrected before recalibration. ``names`` are classes or words of the sentence.
    """

    kind: str
    sentence: str
    names: tuple = ()
    headline: str = ""
    stops_advice: bool = False

    @property
    def invalidates(self) -> bool:
        """True if the probabilities or the samples are probably not what they should be."""
        return bool(self.headline)

    @property
    def comes_before_advice(self) -> bool:
        """True if the input must be corrected before recalibration."""
        return self.invalidates or self.stops_advice


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
    suspicions = (
        _other_class(problem) if problem.forecast.shape[1] == 2 else _column_order(problem),
        _percent_scale(problem),
        _label_order(problem),
        _absent_class(problem),
        _repeated_rows(problem, features),
        _one_class(problem),
        _constant(problem),
        _hard_predictions(problem),
        _every_label_right(problem),
        _infinite_log_loss(problem),
        _balanced_training(problem, logistic, gains),
        _DECISION_VALUES if decision_values else None,
    )
    return tuple(suspicion for suspicion in suspicions if suspicion is not None)


_DECISION_VALUES = Suspicion(
    "decision_values",
    "The scores are decision values, divided by their spread unless they are log odds, and passed "
    "through the logistic function: without probabilities their size has no meaning.",
)


def _other_class(problem):
    """Check whether the forecasts fit much better as probabilities of the other of two classes."""
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    if _is_one_class(problem):
        return None
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
    if n_classes > _MOST_CLASSES or _is_one_class(problem):
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
    names = tuple(str(problem.classes[k]) for k in moved)
    shown = rates(before, after)
    return Suspicion(
        "column_order",
        f"With another order of the columns ({first_classes(names)}): accuracy {shown[1]} instead "
        f"of {shown[0]}.",
        names,
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
    if problem.count is not None or _is_one_class(problem):
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
            return Suspicion("label_order", sentence, (order, measure), headline)
    sentence = (
        f" {measure} is {seen.estimate:.2f}, where such forecasts claim {claimed:.2f}: are the "
        "labels in another order than the forecasts"
    )
    for side, values in {"labels": column, "forecasts": forecast[:, 1]}.items():
        step = np.diff(values)
        if (step >= 0).all() or (step <= 0).all():
            sentence = f"The {side} are sorted, and the{sentence}?"
            return Suspicion("label_order", sentence, (side, measure), headline)
    if _ranking(problem, column, _UNRELATED_LEVEL).low > chance:
        return None
    sentence = f"The{sentence}, or was the model fitted to noise?"
    return Suspicion("unrelated_labels", sentence, ("", measure), stops_advice=True)


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
    if not absent.any() or _is_one_class(problem):
        return None
    count = np.ones(len(problem.weight)) if problem.count is None else problem.count
    with np.errstate(divide="ignore"):
        chance = np.exp(count @ np.log1p(-problem.forecast))
    named = np.flatnonzero(absent & (chance * absent.sum() < _IMPROBABLE))
    if named.size == 0:
        return None
    names = tuple(str(problem.classes[k]) for k in named)
    expected = float(count @ problem.forecast[:, named].sum(axis=1))
    return Suspicion(
        "absent_class",
        f"No sample is of {first_classes(names)}, but about {expected:,.0f} were expected: were "
        "they left out? Nothing can be said about the probability of a class without samples.",
        names,
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
    if logistic is None or gains is None or problem.forecast.shape[1] > 2:
        return None
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
        (side,),
    )


def _percent_scale(problem):
    """Check whether a hundred times the probability of the event fits much better."""
    score, y = problem.forecast[:, 1], problem.target[:, 1]
    if problem.forecast.shape[1] > 2 or not 0 < score.max() <= 0.0101:
        return None
    gain = (score - y) ** 2 - (np.minimum(100 * score, 1.0) - y) ** 2
    if not _is_clear(gain, problem):
        return None
    return Suspicion(
        "percent_scale",
        f"No score exceeds {score.max():.3g}: were they divided by 100?",
        headline="Check the scale: the forecasts fit better times 100.",
    )


def _one_class(problem):
    if not _is_one_class(problem):
        return None
    name = str(problem.classes[problem.target[0].argmax()])
    sentence = f"All labels belong to one class ({class_name(name)}): only the mean can be checked."
    return Suspicion("one_class", sentence, (name,))


def _constant(problem):
    if problem.n_samples < 2 or np.ptp(problem.forecast, axis=0).max() > 0:
        return None
    (rate,) = rates(float(problem.forecast[0, -1]))
    return Suspicion(
        "constant", f"All forecasts are equal ({rate}): they do not distinguish samples."
    )


def _hard_predictions(problem):
    if not np.isin(problem.forecast, (0.0, 1.0)).all():
        return None
    sentence = "All scores are 0 or 1: pass probabilities (predict_proba), not predicted classes."
    return Suspicion("hard_predictions", sentence, stops_advice=True)


def _every_label_right(problem):
    right = problem.forecast.argmax(axis=1) == problem.target.argmax(axis=1)
    if _is_one_class(problem) or problem.n_samples < _MANY_RIGHT or not right.all():
        return None
    return Suspicion(
        "every_label_right",
        "Every prediction is right: if these are training data, use held-out samples.",
    )


def _infinite_log_loss(problem):
    wrong = ((problem.target == 1) & (problem.forecast == 0)).any(axis=1)
    impossible = problem.take(wrong).n_samples
    if not impossible:
        return None
    labels = "label was" if impossible == 1 else "labels were"
    sentence = f"The log loss is infinite: {impossible:,.0f} {labels} given probability 0."
    return Suspicion("infinite_log_loss", sentence)


def _is_one_class(problem):
    return np.count_nonzero(problem.target.any(axis=0)) == 1


def _is_clear(gain, problem):
    mean = mean_interval(gain, problem.weight, square=problem.square, cluster=problem.cluster)
    return mean.estimate > _CLEARLY * mean.standard_error and mean.estimate > 0
