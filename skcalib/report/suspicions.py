"""Signs of an invalid input, checked before anything else.

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

from skcalib._util.types import MatrixLike
from skcalib.data.notions import TopLabel
from skcalib.data.table_columns import as_cells
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
    """One kind of mistake, with the numbers for its sentence.

    ``kind`` is "other_class", "column_order", "percent_scale", "label_order", "absent_class",
    "repeated_rows", "unrelated_labels", "one_class", "constant", "hard_predictions",
    "every_label_right", "infinite_log_loss", "balanced_training" or "decision_values".
    """

    kind: str
    before: float = 0.0
    after: float = 0.0
    names: tuple = ()

    @property
    def invalidates(self) -> bool:
        """True if the probabilities or the samples are probably not what they should be."""
        return self.kind in INVALID

    @property
    def comes_before_advice(self) -> bool:
        """True if the input must be corrected before recalibration."""
        return self.invalidates or self.kind in ("hard_predictions", "unrelated_labels")


#: Kinds with which the verdict is only that the input must be checked.
INVALID = ("other_class", "column_order", "percent_scale", "label_order", "absent_class",
           "repeated_rows")  # fmt: skip


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
    checks = (
        _other_order,
        _percent_scale,
        _label_order,
        _absent_class,
        lambda problem: _repeated_rows(problem, features),
        _one_class,
        _constant,
        _hard_predictions,
        _every_label_right,
        _infinite_log_loss,
        lambda problem: _balanced_training(problem, logistic, gains),
        lambda problem: Suspicion("decision_values") if decision_values else None,
    )
    found = (check(problem) for check in checks)
    return tuple(one for one in found if one is not None)


def _other_order(problem):
    """Check whether another assignment of columns to classes fits much better.

    The best of all orders fits any labels. So for several classes it is chosen on one half of the
    samples, and on the other half it must lower the Brier score and follow the labels more closely.
    """
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    n_classes = forecast.shape[1]
    if n_classes > _MOST_CLASSES or _is_one_class(problem):
        return None
    if n_classes == 2:
        other = forecast[:, ::-1]
        gain = weighted_mean(((forecast - target) ** 2 - (other - target) ** 2).sum(axis=1), weight)
        if gain <= 0 or _ranking(problem, problem.outcome).high >= 0.5:
            return None
        return Suspicion("other_class", *(_accuracy(f, target, weight) for f in (forecast, other)))
    every = np.ones(len(weight), dtype=bool)
    half = np.arange(len(weight)) % 2 == 0 if problem.cluster is None else problem.cluster % 2 == 0
    first, second = _best_order(problem, half), _best_order(problem, ~half)
    moved = (first == second) & (first == _best_order(problem, every))
    moved = np.flatnonzero(moved & (first != np.arange(n_classes)))
    if moved.size == 0:
        return None
    other = np.where(half[:, None], forecast[:, second], forecast[:, first])
    lower = ((forecast - target) ** 2 - (other - target) ** 2).sum(axis=1)
    closer = ((target - weighted_mean(target, weight)) * (other - forecast)).sum(axis=1)
    if not (_is_clear(lower, problem) and _is_clear(closer, problem)):
        return None
    before, after = (_accuracy(f, target, weight) for f in (forecast, other))
    if after < before + _ADDED_ACCURACY:
        return None
    return Suspicion("column_order", before, after, tuple(str(problem.classes[k]) for k in moved))


def _best_order(problem, rows):
    """The column for each class that maximises the mean probability of the label in some rows."""
    forecast = problem.weight[rows, None] * problem.forecast[rows]
    return linear_sum_assignment(-problem.target[rows].T @ forecast)[1]


def _ranking(problem, column, level=_RANKING_LEVEL):
    """Interval of the AUC, or for several classes of the accuracy, with these labels (n,)."""
    rows = problem.weight, level, problem.square, problem.cluster
    if problem.forecast.shape[1] == 2:
        return concordance_interval((column == 1).astype(float), problem.forecast[:, 1], *rows)
    right = (problem.forecast.argmax(axis=1) == column).astype(float)
    return rate_interval(right, *rows)


def _label_order(problem):
    """Check forecasts that vary, with labels that do not follow them: are they in another order?

    The AUC, or accuracy, that calibrated forecasts would have is compared with that of the labels.
    A useless model that was fitted to noise looks the same, unless labels in reverse or moved by
    one row follow the forecasts, or one of both is sorted.
    """
    if problem.count is not None or _is_one_class(problem):
        return None
    forecast, weight, column = problem.forecast, problem.weight, problem.outcome
    what, chance = "AUC", 0.5
    if forecast.shape[1] == 2:
        claimed = _claimed_concordance(forecast[:, 1], weight)
    else:
        what = "accuracy"
        top = np.bincount(forecast.argmax(axis=1), weight, forecast.shape[1]) / weight.sum()
        chance = float(top @ weighted_mean(problem.target, weight))
        claimed = float(weighted_mean(forecast.max(axis=1), weight))
    middle = (chance + claimed) / 2
    if claimed < chance + _CLAIMED:
        return None
    seen = _ranking(problem, column)
    if not seen.low <= chance <= seen.high < middle:
        return None
    steps = {"up": -1, "down": 1}
    moved = {f"moved {how} by one row": np.roll(column, step) for how, step in steps.items()}
    for how, other in {"in reverse": column[::-1], **moved}.items():
        again = _ranking(problem, other)
        if again.low > chance and again.estimate > middle:
            return Suspicion("label_order", seen.estimate, again.estimate, (how, what))
    for how, values in {"labels": column, "forecasts": forecast[:, 1]}.items():
        step = np.diff(values)
        if (step >= 0).all() or (step <= 0).all():
            return Suspicion("label_order", seen.estimate, claimed, (how, what))
    if _ranking(problem, column, _UNRELATED_LEVEL).low > chance:
        return None
    return Suspicion("unrelated_labels", seen.estimate, claimed, ("", what))


def _claimed_concordance(score, weight):
    """Expected AUC of calibrated scores: ties count one half."""
    at = np.unique(score, return_inverse=True)[1]
    events, others = (np.bincount(at, weight * one) for one in (score, 1 - score))
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
    expected = count @ problem.forecast[:, named].sum(axis=1)
    names = tuple(str(problem.classes[k]) for k in named)
    return Suspicion("absent_class", float(expected), names=names) if names else None


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
    return Suspicion("repeated_rows", float(distinct), float(len(column)))


def _together(codes, values):
    """Codes (n,) of pairs of a code and a value, from 0."""
    own = np.unique(values, return_inverse=True)[1].ravel()
    return np.unique(codes * (own.max() + 1) + own, return_inverse=True)[1]


def _balanced_training(problem, logistic, gains):
    """Check for a constant factor of the odds that brings the mean forecast nearer to one half."""
    if logistic is None or gains is None or problem.forecast.shape[1] > 2:
        return None
    shift, slope = logistic.shift, logistic.slope
    means = (weighted_mean(one[:, 1], problem.weight) for one in (problem.forecast, problem.target))
    predicted, observed = np.abs(logit([*means]))
    least = np.sign(shift.low * shift.high) * min(abs(shift.low), abs(shift.high))
    large = abs(shift.estimate) >= np.log(_FACTOR) and least >= np.log(_LEAST_FACTOR)
    straight = max(abs(slope.estimate - 1), slope.standard_error) <= _SLOPE
    towards_half, alone = predicted < observed < np.inf, gains.shift >= _BY_SHIFT * gains.whole
    if not (large and straight and towards_half and alone):
        return None
    word = "high" if shift.estimate < 0 else "low"
    return Suspicion("balanced_training", float(np.exp(abs(shift.estimate))), names=(word,))


def _percent_scale(problem):
    """Check whether a hundred times the probability of the event fits much better."""
    score, y = problem.forecast[:, 1], problem.target[:, 1]
    if problem.forecast.shape[1] > 2 or not 0 < score.max() <= 0.0101:
        return None
    gain = (score - y) ** 2 - (np.minimum(100 * score, 1.0) - y) ** 2
    return Suspicion("percent_scale", float(score.max())) if _is_clear(gain, problem) else None


def _one_class(problem):
    if not _is_one_class(problem):
        return None
    label = problem.classes[problem.target[0].argmax()]
    return Suspicion("one_class", names=(str(label),))


def _constant(problem):
    if problem.n_samples < 2 or np.ptp(problem.forecast, axis=0).max() > 0:
        return None
    return Suspicion("constant", float(problem.forecast[0, -1]))


def _hard_predictions(problem):
    hard = np.isin(problem.forecast, (0.0, 1.0)).all()
    return Suspicion("hard_predictions") if hard else None


def _every_label_right(problem):
    if _is_one_class(problem) or problem.n_samples < _MANY_RIGHT:
        return None
    right = problem.forecast.argmax(axis=1) == problem.target.argmax(axis=1)
    return Suspicion("every_label_right") if right.all() else None


def _infinite_log_loss(problem):
    wrong = ((problem.target == 1) & (problem.forecast == 0)).any(axis=1)
    impossible = problem.take(wrong).n_samples
    return Suspicion("infinite_log_loss", float(impossible)) if impossible else None


def _is_one_class(problem):
    return np.count_nonzero(problem.target.any(axis=0)) == 1


def _is_clear(gain, problem):
    found = mean_interval(gain, problem.weight, square=problem.square, cluster=problem.cluster)
    return found.estimate > _CLEARLY * found.standard_error and found.estimate > 0


def _accuracy(forecast, target, weight):
    right = forecast.argmax(axis=1) == target.argmax(axis=1)
    return float(weighted_mean(right.astype(float), weight))
