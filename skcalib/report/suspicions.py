"""Signs of an invalid input, checked before anything else.

Each check names one kind of mistake: labels of the other class, columns out of order, hard
predictions, training data, constant forecasts, a wrong scale, labels of one class, and labels that
were given probability 0. A check that compares two readings of the input requires a difference of
the Brier score of many standard errors, so that sampling noise does not trigger it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from skcalib.inference import concordance_interval, mean_interval
from skcalib.tower import weighted_mean

if TYPE_CHECKING:
    from skcalib.problem import Problem

#: Standard errors by which another reading of the input must lower the Brier score.
_CLEARLY = 5.0
#: Level of the interval of the concordance that must lie below one half.
_RANKING_LEVEL = 0.999
#: Accuracy that another order of the columns must gain.
_ADDED_ACCURACY = 0.02
#: Number of right predictions from which training data are suspected.
_MANY_RIGHT = 50
#: With more classes than this, other orders of the columns are not searched.
_MOST_CLASSES = 2_000


@dataclass(frozen=True)
class Suspicion:
    """One kind of mistake, with the numbers for its sentence.

    ``kind`` is "other_class", "column_order", "hard_predictions", "every_label_right", "constant",
    "percent_scale", "one_class" or "infinite_log_loss".
    """

    kind: str
    before: float = 0.0
    after: float = 0.0
    names: tuple = ()

    @property
    def invalidates(self) -> bool:
        """True if the probabilities probably do not belong to these labels."""
        return self.kind in ("other_class", "column_order", "percent_scale")

    @property
    def comes_before_advice(self) -> bool:
        """True if the input must be corrected before recalibration."""
        return self.invalidates or self.kind == "hard_predictions"


def find_suspicions(problem: Problem) -> tuple[Suspicion, ...]:
    """`Problem` -> tuple of `Suspicion`, the most serious first."""
    checks = (
        _other_order,
        _percent_scale,
        _one_class,
        _constant,
        _hard_predictions,
        _every_label_right,
        _infinite_log_loss,
    )
    found = (check(problem) for check in checks)
    return tuple(one for one in found if one is not None)


def _other_order(problem):
    """Check whether another assignment of columns to classes fits much better."""
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    n_classes = forecast.shape[1]
    if n_classes > _MOST_CLASSES or _is_one_class(problem):
        return None
    # The assignment that maximises the mean probability of the label.
    affinity = target.T @ (weight[:, None] * forecast)
    _, columns = linear_sum_assignment(-affinity)
    if np.array_equal(columns, np.arange(n_classes)):
        return None
    if n_classes == 2 and not _ranks_below_chance(problem):
        return None
    other = forecast[:, columns]
    gain = ((forecast - target) ** 2).sum(axis=1) - ((other - target) ** 2).sum(axis=1)
    if weighted_mean(gain, weight) <= 0 or (n_classes > 2 and not _is_clear(gain, problem)):
        return None
    before, after = (_accuracy(one, target, weight) for one in (forecast, other))
    if n_classes == 2:
        return Suspicion("other_class", before, after)
    if after < before + _ADDED_ACCURACY:
        return None
    moved = np.flatnonzero(columns != np.arange(n_classes))
    return Suspicion("column_order", before, after, tuple(str(problem.classes[k]) for k in moved))


def _ranks_below_chance(problem):
    """Whether higher scores of a class clearly mean fewer labels of it."""
    found = concordance_interval(
        problem.target[:, 1],
        problem.forecast[:, 1],
        problem.weight,
        _RANKING_LEVEL,
        square=problem.square,
        cluster=problem.cluster,
    )
    return found.high < 0.5


def _percent_scale(problem):
    """Check whether a hundred times the probability of the event fits much better."""
    score = problem.forecast[:, 1]
    if problem.forecast.shape[1] > 2 or not 0 < score.max() <= 0.0101:
        return None
    y = problem.target[:, 1]
    gain = (score - y) ** 2 - (np.minimum(100 * score, 1.0) - y) ** 2
    if not _is_clear(gain, problem):
        return None
    return Suspicion("percent_scale", float(score.max()))


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
    if not np.isin(problem.forecast, (0.0, 1.0)).all():
        return None
    return Suspicion("hard_predictions")


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
