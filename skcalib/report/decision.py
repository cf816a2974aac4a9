"""Decisions at a threshold or with costs: what they cost, and what would save some of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.types import ArrayLike, MatrixLike
from skcalib.data.notions import Canonical, TopLabel
from skcalib.data.problem import Problem, ProblemSummary
from skcalib.links.averaging import averaged_map
from skcalib.risk_models.decisions import decision_regret, no_saving_by_features, no_saving_shown
from skcalib.scores import weighted_mean

if TYPE_CHECKING:
    from skcalib.scores import DecisionCost
    from skcalib.stats.means import MeanInterval

_PER = 1000  # samples to which the costs of the report refer


@dataclass(frozen=True)
class DecisionFinding:
    """Parts of the mean cost of a decision; see :func:`~skcalib.decision_regret`.

    ``threshold`` is that of the probability, or None where ``costs`` are given. ``calibration`` is
    what recalibration would save, ``grouping`` what a better model of the features would save
    beyond that (None without features). ``changed`` is the share of decisions that recalibration
    changes. ``moved`` is the threshold for the forecasts as they are that gives the same decisions
    as recalibration by the averaged map, or None. ``tied`` is the share of forecasts for which two
    decisions cost the same, as at the threshold.
    """

    threshold: float | None
    costs: tuple
    expected_cost: MeanInterval
    calibration: MeanInterval
    grouping: MeanInterval | None
    rest: MeanInterval
    changed: float
    moved: float | None
    tied: float = 0.0

    @property
    def recalibration_saves(self) -> bool:
        """True if recalibration saves significantly."""
        return self.calibration.low > 0

    @property
    def model_saves(self) -> bool:
        """True if a better model of the features saves significantly."""
        return self.grouping is not None and self.grouping.low > 0


def find_decision(
    problem: Problem,
    features: MatrixLike,
    threshold: float | None,
    costs: ArrayLike | None,
    *,
    confidence_level: float,
    random_state: int,
    n_jobs: int | None,
) -> DecisionFinding:
    """The parts of the cost; a threshold with several classes is that of the confidence."""
    several = len(problem.classes) > 2
    notion = TopLabel() if several and threshold is not None else Canonical()
    y_true = problem.labels if problem.count is None else ProblemSummary(problem)
    data: dict[str, Any] = {}
    if problem.count is None:
        data = {"y_proba": problem.forecast, "X": features, "labels": problem.classes}
        data |= {"sample_weight": problem.sample_weight, "groups": problem.cluster}
    data |= {"confidence_level": confidence_level, "random_state": random_state, "n_jobs": n_jobs}
    found = decision_regret(y_true, threshold=threshold, costs=costs, notion=notion, **data)
    binary = next(iter(notion.problems(problem.forecast, problem.target)))
    return DecisionFinding(
        threshold=None if threshold is None else float(threshold),
        costs=() if costs is None else tuple(map(tuple, np.asarray(costs, float).tolist())),
        expected_cost=found.expected_cost,
        calibration=found.calibration,
        grouping=found.grouping,
        rest=found.rest,
        changed=found.changed,
        moved=_moved_threshold(
            found.score, *binary, problem.weight, problem.square, problem.cluster
        ),
        tied=float(weighted_mean(found.score.tied(binary[0]), problem.weight)),
    )


def _moved_threshold(score: DecisionCost, forecast, target, *rows):
    """The threshold of the forecast that gives the decisions of the recalibrated one, or None."""
    if forecast.shape[1] != 2 or np.ptp(target[:, 1]) == 0:
        return None
    recalibrate = averaged_map(forecast, target, *rows)
    s = np.unique(forecast[:, 1])
    act = score.decisions(recalibrate(np.column_stack([1 - s, s])))
    jump = np.flatnonzero(np.diff(act))
    if len(jump) != 1:  # one decision for all, or not a single threshold
        return None
    return float(s[jump[0] : jump[0] + 2].mean())


# --- Sentences ------------------------------------------------------------------------------------


def decision_advice(found: DecisionFinding) -> list[str]:
    """What to do about the decisions, and what it would save."""
    tied = f"{ties(found)}: {100 * found.tied:.2g} %." if found.tied else ""
    return [f"{_what_to_do(found)} {_cost(found)} {_savings(found)} {tied}".rstrip()]


def ties(found: DecisionFinding) -> str:
    """What happens to forecasts for which two decisions cost the same."""
    if found.threshold is None:
        return "Where two decisions cost the same, the first is taken"
    return "Forecasts that equal the threshold count as below it"


def _what_to_do(found):
    where = "" if found.threshold is None else f" at the threshold {found.threshold:g}"
    recalibrate = "recalibrate"
    if found.moved is not None:
        recalibrate += f", or move the threshold to {found.moved:.3g}"
    if found.recalibration_saves and found.model_saves:
        return f"Decisions{where}: {recalibrate}; and look for a better model."
    if found.recalibration_saves:
        return f"Decisions{where}: {recalibrate}."
    if found.model_saves:
        return f"Decisions{where}: look for a better model."
    return f"Decisions{where}: no change is recommended."


def _cost(found):
    cost = _amount(found, found.expected_cost)
    if found.threshold is None:
        return f"They cost {cost} per {_PER:,} samples, in the units of the given costs."
    ratio = (1 - found.threshold) / found.threshold
    as_much = f"a miss costs as much as {ratio:.3g} false alarms"
    if ratio == 1:
        as_much = "a miss and a false alarm cost the same"
    elif ratio < 1:
        as_much = f"a false alarm costs as much as {1 / ratio:.3g} misses"
    unit = "false alarms" if ratio >= 1 else "misses"
    return f"At this threshold {as_much}; the decisions cost {cost} {unit} per {_PER:,} samples."


def _savings(found):
    text = partial(_number, found)
    limited = found.threshold is not None or np.shape(found.costs) == (2, 2)
    said = [no_saving_shown(found.calibration.high, limited, text)]
    if found.recalibration_saves:
        said = [f"Recalibration would save {_amount(found, found.calibration)}."]
    if found.grouping is None:
        said.append("Features are needed to find out what a better model would save.")
    elif found.model_saves:
        beyond = "beyond that " if found.recalibration_saves else ""
        said.append(
            f"Better use of the features would save {beyond}at least "
            f"{_amount(found, found.grouping)}."
        )
    else:
        said.append(no_saving_by_features(found.grouping.high, text))
    return " ".join(said)


def _amount(found, interval):
    low, high = (_number(found, value) for value in (interval.low, interval.high))
    return f"{_number(found, interval.estimate)} [{low}, {high}]"


def _number(found, value):
    """A mean cost per sample, as the number of false alarms or misses among many samples."""
    unit = 1.0 if found.threshold is None else min(found.threshold, 1 - found.threshold)
    amount = _PER * value / unit
    size = abs(amount)
    decimals = 0 if size >= 100 or size == 0 else 1 if size >= 1 else 2
    return f"{amount:z,.{decimals}f}"
