"""Ranges of scores, classes and groups whose forecasts differ from the observed frequencies.

Groups come with their sentences: those that the report finds, and those that the user names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.arithmetic import level_starts, merge_ties
from skcalib._util.formatting import (
    interval,
    nonnegative,
    number,
    numbers,
    points,
    pvalue,
    rates,
    says_nothing,
)
from skcalib.data.features import EncodedFeatures
from skcalib.data.notions import TopLabel
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping.by_group import MARGINS
from skcalib.grouping.differences import compare_groups
from skcalib.recalibration import GroupRecalibrator
from skcalib.report.findings import (
    Findings,
    GroupingFinding,
    Place,
    binary_problem,
    noted,
    shorten,
)
from skcalib.stats.means import MeanInterval
from skcalib.stats.means import rate_interval as rate_of_labels

if TYPE_CHECKING:
    from skcalib.data.problem import Problem

_MOST_RANGES = 10
_FEWEST_SAMPLES = 10
_FEW_RANGES = 4  # for any information: overconfident scores underestimate it
_SAMPLES_PER_RANGE = 20
_INFORMATION_PER_RANGE = 4.0  # sum of p (1 - p)


def find_places(problem: Problem, level: float) -> tuple[Place, ...]:
    """Ranges of the confidence (for two classes: of the event's probability), then classes."""
    binary, n_classes = binary_problem(problem), problem.forecast.shape[1]
    score = merge_ties(binary.forecast[:, 1])
    binary = replace(
        binary, forecast=np.column_stack([1 - score, score]), labels_or_target=binary.target
    )
    level, total = place_level(level), float(problem.weight.sum())
    ranges = ranges_of_scores(score, problem.weight, problem.count)
    columns = [1] if n_classes == 2 else range(n_classes)
    return (
        *(
            _place("scores", label, ends, binary.take(rows), 1, level, len(ranges), total)
            for rows, ends, label in ranges
        ),
        *(
            _place(
                "class",
                str(problem.classes[column]),
                (0.0, 1.0),
                problem,
                column,
                level,
                len(columns),
                total,
            )
            for column in columns
        ),
    )


def place_level(confidence_level: float) -> float:
    """Level at which the intervals of all ranges, or of all classes, hold simultaneously.

    It is stricter than that of the report, as there are many ranges and classes.
    """
    return 1 - (1 - confidence_level) / 5


def worst_places(places: Sequence[Place], kind: str, most: int) -> list[Place]:
    """Significantly miscalibrated places of a kind, the most harmful first."""
    detected = [place for place in places if place.kind == kind and place.detected]
    return sorted(detected, key=lambda place: -place.squared_gap)[:most]


def ranges_of_scores(
    score: np.ndarray, weight: np.ndarray, count: np.ndarray | None = None
) -> list[tuple[np.ndarray, tuple[float, float], str]]:
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
    first, last = f"{100 * low:.{decimals}f}", f"{100 * high:.{decimals}f}"
    return f"{first} %" if first == last else f"{first} to {last} %"


def _place(kind, label, ends, problem, column, level, n_places, total):
    """Mean score and outcome of one column, with an exact interval at its effective size.

    `total` is the weight of the samples of all places.
    """
    outcome, weight = problem.target[:, column], problem.weight
    mean_score = float(np.average(problem.forecast[:, column], weights=weight))
    level = 1 - (1 - level) / n_places
    observed = rate_of_labels(outcome, weight, level, problem.square, problem.cluster)
    return Place(
        kind,
        label,
        *ends,
        n_samples=problem.n_samples,
        share=float(weight.sum() / total),
        mean_score=mean_score,
        mean_outcome=observed.estimate,
        low=observed.low,
        high=observed.high,
    )


# --- Groups in a report ---------------------------------------------------------------------------


#: Maximum number of rows for a model.
MOST_ROWS = 20_000
#: Level sets of the figure.
N_LEVEL_SETS = 5
#: Most groups that a sentence of the verdict names: found by the report, and named by the user.
GROUPS_IN_VERDICT, _GROUPS_LISTED = 2, 3


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
    rows_of_model = _some_rows(problem, random_state)
    try:
        with noted() as warned:
            model = GroupingLossEstimator(method="risk", **common)
            model.fit(features[rows_of_model], problem.take(rows_of_model))
    except ValueError as error:  # too few samples
        return replace(finding, note=" ".join([*notes, str(error)])), None
    low, high = model.confidence_interval_
    bound = MeanInterval(model.grouping_loss_, low, high, model.standard_error_)
    finding = replace(
        finding,
        grouping_loss=bound,
        pvalue=float(model.pvalue_),
        n_measured=len(rows_of_model),
        rest=rest_of_loss(refinement, bound),
        note=" ".join([*notes, *warned]),
    )
    if finding.named or finding.detected:
        finding = replace(finding, correction=_correction_gain(problem, features.values, **run))
    if not compared.named:
        return finding, _split(features, problem, common)
    groups = np.where(members[0], compared.named[0].rule, "others")
    return finding, _split(np.zeros((len(rows), 1)), problem.take(rows), common, groups)


def _split(features, problem, common, groups=None):
    """Two regions of each level set: of given groups, or learned on one half of the samples."""
    estimator = GroupingLossEstimator(
        method="partition", partitioner="stump", n_bins=N_LEVEL_SETS, n_permutations=0, **common
    )
    try:
        with noted():
            estimator.fit(features, problem, regions=groups)
    except ValueError:  # too few samples for level sets
        return None
    if groups is not None:
        estimator.regions_ = [
            replace(region, rule=region.rule.removeprefix("region "))
            for region in estimator.regions_
        ]
    return estimator


def _some_rows(problem, random_state):
    """The rows for a model: all, or a random part of many."""
    n_samples = len(problem.weight)
    if n_samples <= MOST_ROWS:
        return np.arange(n_samples)
    rng = np.random.RandomState(random_state)
    return np.sort(rng.choice(n_samples, MOST_ROWS, replace=False))


def _correction_gain(problem, values, confidence_level, random_state):
    """Held-out gain of the Brier score by the features, beyond recalibration."""
    rows = _some_rows(problem, random_state)
    forecast, target = problem.forecast[rows], problem.target[rows]
    if forecast.shape[1] > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
    correction = GroupRecalibrator(
        loss="brier",
        labels=[0, 1],
        confidence_level=confidence_level,
        random_state=random_state,
    )
    label, weight = target[:, 1].astype(int), problem.weight[rows]
    with noted():
        correction.fit(forecast, label, weight, features=values[rows])
    return correction.feature_gain_


def rest_of_loss(refinement: MeanInterval, bound: MeanInterval) -> MeanInterval:
    """The loss minus calibration and grouping; a grouping bound below zero counts as zero.

    The standard errors are added, which is conservative: their covariance is unknown.
    """
    grouping, high = max(bound.estimate, 0.0), max(bound.high, 0.0)
    estimate = refinement.estimate - grouping
    reach = refinement.high - refinement.estimate + high - grouping
    error = refinement.standard_error + bound.standard_error
    return MeanInterval(estimate, estimate - reach, estimate + reach, error)


# --- Sentences on groups --------------------------------------------------------------------------


def sentence_on_groups(findings: Findings, most: int = GROUPS_IN_VERDICT) -> str:
    """The sentence of the verdict on groups with equal scores, with at most so many names."""
    grouping, named = findings.grouping, findings.named_groups
    if not grouping.n_tried:
        note = grouping.note or "each has too few samples or too few labels of one kind."
        return f"Groups were not compared: {note.removeprefix('Groups were not compared: ')}"
    if named:
        differences = [_difference_of_group(findings, group) for group in named[:most]]
        if len(named) > most:
            differences.append(f"{len(named) - most} more in the details")
        return f"Groups with equal scores differ: {'; '.join(differences)}. {_remedy(findings)}"
    if grouping.detected:
        return (
            f"Samples with equal scores differ (grouping loss at least "
            f"{number(grouping.grouping_loss.low)}), but no simple group explains it. "
            f"{_remedy(findings)}"
        )
    missed, least = "these samples are too few to find one of 10 %", findings.missed_difference
    if least is not None:
        missed = f"a group of 10 % would have to differ by about {points(least)} to be found"
    # Another sentence is about the groups that the user named.
    which = "No other group" if findings.named_by_user_differ else "No group"
    return f"{which} was found that differs from others with equal scores; {missed}."


def _difference_of_group(findings, group):
    """One group: observed against expected at equal scores."""
    observed, expected = rates(group.observed, group.expected)
    rule = shorten(group.rule)
    return f"where {rule}, {findings.observed_name} {observed}, {expected} expected"


def _remedy(findings):
    """What the features would save beyond recalibration, where that is significant."""
    if not findings.grouping.corrects:
        return "Recalibration cannot remove this; a better model may."
    (before,) = numbers(findings.confidence.terms.loss)
    return (
        "Recalibration cannot remove this; a better model can save "
        f"{interval(findings.grouping.correction)} of the Brier score{findings.of_confidence} "
        f"{before}."
    )


def bounds_by_features(grouping: GroupingFinding) -> list[str]:
    """The lower bound of the grouping loss and the gain by the features, for the details."""
    if grouping.grouping_loss is None:
        return []
    bound = "grouping loss not detected"
    if not says_nothing(grouping.grouping_loss):
        bound = f"grouping loss at least {nonnegative(grouping.grouping_loss)}"
    bounds = [
        f"A model of score and features, against the score alone, on {grouping.n_measured:,} "
        f"samples: {bound}, {pvalue(grouping.pvalue)}."
    ]
    if grouping.correction is not None:
        gain = "no significant gain on held-out samples"
        if grouping.corrects:
            gain = f"saves {interval(grouping.correction)} of the held-out Brier score"
        bounds.append(
            f"Correction by the features (GroupRecalibrator): {gain} beyond recalibration by the "
            "score alone."
        )
    return bounds


def sentence_on_named_groups(findings: Findings) -> str:
    """Which groups that the user names differ from their predictions, and which at equal scores."""
    groups, note = findings.by.groups, findings.by.note
    n_groups = len(groups)
    off = [group for group in groups if group.detected]
    beyond = [group for group in groups if group.equal_scores_detected]
    if not off and not beyond:
        largest = max(max(-group.difference.low, group.difference.high) for group in groups)
        return (
            f"No difference was found in the {n_groups} groups that you named; differences of "
            f"{points(largest)} are not excluded.{f' {MARGINS}' if MARGINS in note else ''}"
        )
    averages = ""
    if off:
        verb = "differs from its" if len(off) == 1 else "differ from their"
        who = f"Of the {n_groups} groups that you named, {len(off)}"
        if len(off) == n_groups > 1:
            who = f"{'Both' if n_groups == 2 else f'All {n_groups}'} groups that you named"
        listed = _listed(off, partial(_averages_of_group, findings), "; ")
        averages = f"{who} {verb} mean prediction: {listed}. "
    if not beyond:
        return f"{averages}None was found to differ from all samples with equal scores."
    differ = "At equal scores the two groups differ from each other"
    if n_groups != 2:  # the difference of one of two is that of the other
        names = _listed(beyond, attrgetter("name"), ", ")
        verb = "differs" if len(beyond) == 1 else "differ"
        differ = f"Compared with all samples with equal scores, {len(beyond)} {verb} ({names})"
    return f"{averages}{differ}: recalibration of the score alone cannot remove this."


def _listed(groups, text, between):
    """The groups of the smallest p-values, and how many more."""
    first = sorted(groups, key=attrgetter("pvalue"))[:_GROUPS_LISTED]
    texts = list(map(text, first))
    if len(groups) > len(first):
        texts.append(f"{len(groups) - len(first)} more in the details")
    return between.join(texts)


def _averages_of_group(findings, group):
    observed, predicted = rates(group.observed, group.mean_predicted)
    mean = "predicted" if findings.n_classes == 2 else "mean confidence"
    return f"{group.name}, {findings.observed_name} {observed}, {mean} {predicted}"
