"""Ranges of scores, classes and groups whose forecasts differ from the observed frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.ties import level_starts, merge_ties
from skcalib.data.features import EncodedFeatures
from skcalib.data.notions import TopLabel
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping.differences import compare_groups
from skcalib.recalibration import GroupRecalibrator
from skcalib.report.findings import GroupingFinding, Place, noted
from skcalib.stats.means import MeanInterval, rate_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem

_MOST_RANGES = 10
_FEWEST_SAMPLES = 10
_FEW_RANGES = 4  # for any information: overconfident scores underestimate it
_SAMPLES_PER_RANGE = 20
_INFORMATION_PER_RANGE = 4.0  # sum of p (1 - p)


def find_places(problem: Problem, level: float) -> tuple[Place, ...]:
    """Ranges of the confidence (for two classes: of the event's probability), then classes."""
    n_classes = problem.forecast.shape[1]
    forecast, target = problem.forecast, problem.target
    if n_classes > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
    score = merge_ties(forecast[:, 1])
    level, total = place_level(level), float(problem.weight.sum())
    confidence = replace(
        problem, forecast=np.column_stack([1 - score, score]), labels_or_target=target
    )
    groups = _equal_information(score, problem.weight, problem.count)
    ranges = [
        _place("scores", label, ends, confidence.take(index), 1, level, len(groups), total)
        for index, ends, label in groups
    ]
    columns = [1] if n_classes == 2 else range(n_classes)
    classes = [
        _place("class", str(problem.classes[k]), (0.0, 1.0), problem, k, level, len(columns), total)
        for k in columns
    ]
    return (*ranges, *classes)


def place_level(confidence_level: float) -> float:
    """Level at which the intervals of all ranges, or of all classes, hold simultaneously.

    It is stricter than that of the report, as there are many ranges and classes.
    """
    return 1 - (1 - confidence_level) / 5


def worst_places(places: Sequence[Place], kind: str, most: int) -> list[Place]:
    """Significantly miscalibrated places of a kind, the most harmful first."""
    found = [place for place in places if place.kind == kind and place.detected]
    return sorted(found, key=lambda place: -place.squared_gap)[:most]


def _equal_information(score, weight, count=None):
    """Ranges of equal sums of p (1 - p): list of (rows, (lowest, highest score), label).

    For a rare event the ranges are narrow where the events are. Equal scores stay together, in the
    range of their middle, and no two ranges have the same label. The ranges of 1 - score are the
    same. `count` (n,) are the numbers of samples of the rows.
    """
    count = np.ones(len(score)) if count is None else count
    n_samples = count.sum()
    order = np.argsort(score, kind="stable")
    sorted_score = score[order]
    # A small weight for each sample separates the ranges of scores of exactly 0 and 1.
    information = weight[order] * (sorted_score * (1 - sorted_score) + 1e-6)
    size = n_samples * information.sum() / weight.sum()
    informative = max(size / _INFORMATION_PER_RANGE, _FEW_RANGES)
    n_ranges = int(np.clip(min(informative, n_samples / _SAMPLES_PER_RANGE), 1, _MOST_RANGES))
    levels = level_starts(sorted_score)
    sums = np.add.reduceat(information, levels)
    middle = (np.cumsum(sums) - sums / 2) / sums.sum() * n_ranges
    towards_centre = np.where(sorted_score[levels] <= 0.5, 1e-9, -1e-9)
    which = np.clip((middle + towards_centre).astype(int), 0, n_ranges - 1)
    starts = levels[np.flatnonzero(np.diff(which, prepend=-1))]
    parts = _large_enough(np.split(order, starts[1:]), score, count)
    groups = [(part, (float(score[part].min()), float(score[part].max()))) for part in parts]
    return _labelled(groups, score)


def _large_enough(parts, score, count):
    """Parts with too few samples are merged with their smaller neighbour, the smallest first.

    Of equal ones it is that which is further from 1/2, and its neighbour nearer to 1/2.
    """

    def size(place):
        samples = count[parts[place]]
        return samples.sum(), -abs(samples @ score[parts[place]] / samples.sum() - 0.5)

    while len(parts) > 1:
        smallest = min(range(len(parts)), key=size)
        if size(smallest)[0] >= _FEWEST_SAMPLES:
            break
        beside = [place for place in (smallest - 1, smallest + 1) if 0 <= place < len(parts)]
        chosen = min(beside, key=lambda place: (size(place)[0], -size(place)[1]))
        first = min(smallest, chosen)
        parts[first : first + 2] = [np.concatenate(parts[first : first + 2])]
    return parts


def _labelled(groups, score):
    """Labels with enough decimals to distinguish the ranges; equal ones are merged."""
    for decimals in (1, 2, 3, 4):
        labels = [range_label(*ends, decimals) for _, ends in groups]
        if len(set(labels)) == len(labels):
            break
    merged = []
    for (rows, ends), label in zip(groups, labels, strict=True):
        if merged and merged[-1][2] == label:
            rows = np.concatenate([merged[-1][0], rows])
            ends = (merged[-1][1][0], ends[1])
            merged.pop()
        merged.append((rows, ends, label))
    return merged


def range_label(low: float, high: float, decimals: int = 1) -> str:
    """Ends in percent; equal ends are shown once."""
    said = [f"{100 * end:.{decimals}f}" for end in (low, high)]
    return f"{said[0]} %" if said[0] == said[1] else f"{said[0]} to {said[1]} %"


def _place(kind, label, ends, problem, column, level, n_places, total):
    """Mean score and outcome of one column, with an exact interval at its effective size.

    `total` is the weight of the samples of all places.
    """
    outcome, weight = problem.target[:, column], problem.weight
    mean_score = float(np.average(problem.forecast[:, column], weights=weight))
    rows = weight, 1 - (1 - level) / n_places, problem.square, problem.cluster
    found = rate_interval(outcome, *rows)
    share = float(weight.sum() / total)
    numbers = (mean_score, found.estimate, found.low, found.high)
    return Place(kind, label, *ends, problem.n_samples, share, *numbers)


# --- Groups in a report ---------------------------------------------------------------------------


#: Maximum number of rows for a model.
MOST_ROWS = 20_000
#: Level sets of the figure.
N_LEVEL_SETS = 5


def find_grouping(
    problem: Problem,
    features: EncodedFeatures | str,
    refinement: MeanInterval,
    confidence_level: float,
    random_state: int,
    n_jobs: int | None = None,
) -> tuple[GroupingFinding, GroupingLossEstimator | None]:
    """Groups that differ at equal scores, and a lower bound of the grouping loss.

    `features` are a table, or why none can be used: then the finding is only this note.
    `refinement` is that of the Brier score of the same event. The second is the
    split for `GroupingDisplay`, or None: the most harmful named group against all others, or a
    balanced split of each level set.
    """
    if isinstance(features, str):
        return GroupingFinding(note=features), None
    run: dict[str, Any] = {"confidence_level": confidence_level, "random_state": random_state}
    compared, rows, members = compare_groups(problem, features, **run)
    notes = [compared.note] if compared.note else []
    common: dict[str, Any] = {"notion": "auto", "labels": problem.classes, "n_jobs": n_jobs, **run}
    finding = GroupingFinding(
        named=compared.named,
        n_tried=compared.n_tried,
        n_compared=compared.n_samples,
        left_out=features.note,
    )
    some = _some_rows(problem, common)
    try:
        with noted() as warned:
            found = GroupingLossEstimator(method="risk", **common)
            found.fit(features[some], problem.take(some))
    except ValueError as error:  # too few samples
        return replace(finding, note=" ".join([*notes, str(error)])), None
    low, high = found.confidence_interval_
    bound = MeanInterval(found.grouping_loss_, low, high, found.standard_error_)
    finding = replace(
        finding,
        grouping_loss=bound,
        pvalue=float(found.pvalue_),
        n_measured=len(some),
        rest=_rest(refinement, bound),
        note=" ".join([*notes, *warned]),
    )
    if finding.named or finding.detected:
        finding = replace(finding, correction=_correction_gain(problem, features.values, common))
    if compared.named:
        groups = np.where(members[0], compared.named[0].rule, "others")
        data = np.zeros((len(rows), 1)), problem.take(rows)
        split = _split(*data, common, groups)
    else:
        split = _split(features, problem, common)
    return finding, split


def _split(features, problem, common, groups=None):
    """Two regions of each level set: of given groups, or learned on one half of the samples."""
    how: dict[str, Any] = {"partitioner": "stump", "n_bins": N_LEVEL_SETS, "n_permutations": 0}
    estimator = GroupingLossEstimator(method="partition", **how, **common)
    try:
        with noted():
            estimator.fit(features, problem, regions=groups)
    except ValueError:  # too few samples for level sets
        return None
    plain = [replace(one, rule=one.rule.removeprefix("region ")) for one in estimator.regions_]
    estimator.regions_ = estimator.regions_ if groups is None else plain
    return estimator


def _some_rows(problem, common):
    """The rows for a model: all, or a random part of many."""
    n_samples = len(problem.weight)
    if n_samples <= MOST_ROWS:
        return np.arange(n_samples)
    rng = np.random.RandomState(common["random_state"])
    return np.sort(rng.choice(n_samples, MOST_ROWS, replace=False))


def _correction_gain(problem, values, common):
    """Held-out gain of the Brier score by the features, beyond recalibration."""
    rows = _some_rows(problem, common)
    forecast, target = problem.forecast[rows], problem.target[rows]
    if forecast.shape[1] > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
    run = {key: common[key] for key in ("confidence_level", "random_state")}
    correction, label = GroupRecalibrator(loss="brier", labels=[0, 1], **run), target[:, 1]
    with noted():
        correction.fit(forecast, label.astype(int), problem.weight[rows], features=values[rows])
    return correction.feature_gain_


def _rest(refinement, bound):
    """The loss minus calibration and grouping; a grouping bound below zero counts as zero.

    The standard errors are added, which is conservative: their covariance is unknown.
    """
    taken, high = max(bound.estimate, 0.0), max(bound.high, 0.0)
    rest = refinement.estimate - taken
    reach = refinement.high - refinement.estimate + high - taken
    error = refinement.standard_error + bound.standard_error
    return MeanInterval(rest, rest - reach, rest + reach, error)
