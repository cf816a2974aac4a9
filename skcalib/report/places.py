"""Ranges of scores, and classes: the mean prediction in each against the observed frequency."""

from dataclasses import dataclass

import numpy as np

from skcalib.inference import rate_interval
from skcalib.notions import TopLabel

_MOST_RANGES = 10
_FEWEST_SAMPLES = 10
_FEW_RANGES = 4  # whatever the information: overconfident scores say that there is little
_SAMPLES_PER_RANGE = 20
_INFORMATION_PER_RANGE = 4.0  # sum of p (1 - p)


@dataclass(frozen=True)
class Place:
    """A range of scores, or a class: mean prediction against observed frequency.

    ``low_score`` and ``high_score`` are the ends of a range; a class has 0 and 1. [low, high] is
    the Clopper-Pearson interval of ``mean_outcome``, widened so that those of all places of the
    ``kind`` ("scores" or "class") hold at once. ``share`` is that of the samples, by weight.
    """

    kind: str
    label: str
    low_score: float
    high_score: float
    n_samples: int
    share: float
    mean_score: float
    mean_outcome: float
    low: float
    high: float

    @property
    def detected(self):
        """True where the interval does not hold the mean score."""
        return not self.low <= self.mean_score <= self.high

    @property
    def too_high(self):
        """True where the mean prediction lies above the observed frequency."""
        return self.mean_score > self.mean_outcome

    @property
    def harm(self):
        """What the gap adds to a squared error."""
        return self.share * (self.mean_score - self.mean_outcome) ** 2


def find_places(problem, level):
    """Ranges of the confidence (for two classes: of the event's probability), then classes."""
    n_samples, n_classes = problem.forecast.shape
    forecast, target = problem.forecast, problem.target
    if n_classes > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
    score, outcome, weight = forecast[:, 1], target[:, 1], problem.weight
    level = place_level(level)
    groups = equal_information(score, weight)
    ranges = [
        _place("scores", label, ends, index, score, outcome, weight, level, len(groups))
        for index, ends, label in groups
    ]
    every = np.arange(n_samples)
    columns = [1] if n_classes == 2 else range(n_classes)
    classes = [
        _place("class", str(problem.classes[k]), (0.0, 1.0), every,
               problem.forecast[:, k], problem.target[:, k], weight, level, len(columns))
        for k in columns
    ]  # fmt: skip
    return (*ranges, *classes)


def place_level(confidence_level):
    """Level at which the intervals of all ranges, or of all classes, hold together.

    It is stricter than that of the report, since there are many ranges and classes.
    """
    return 1 - (1 - confidence_level) / 5


def worst_places(places, kind, most):
    """Those of a kind that are significantly off, the largest harm first."""
    found = [place for place in places if place.kind == kind and place.detected]
    return sorted(found, key=lambda place: -place.harm)[:most]


def equal_information(score, weight):
    """Ranges of equal sums of p (1 - p): list of (rows, (lowest, highest score), label).

    So a rare event has ranges where its events are. Equal scores stay together, and no two ranges
    have the same label.
    """
    order = np.argsort(score, kind="stable")
    sorted_score = score[order]
    # A little weight of each sample keeps ranges of scores of exactly 0 or 1 apart.
    information = weight[order] * (sorted_score * (1 - sorted_score) + 1e-6)
    size = len(score) * information.sum() / weight.sum()
    n_ranges = int(
        np.clip(
            min(max(size / _INFORMATION_PER_RANGE, _FEW_RANGES), len(score) / _SAMPLES_PER_RANGE),
            1,
            _MOST_RANGES,
        )
    )
    reached = np.cumsum(information) / information.sum()
    which = np.minimum((reached * n_ranges - 1e-9).astype(int), n_ranges - 1)
    first = np.searchsorted(sorted_score, sorted_score)  # ties follow the first of them
    starts = np.flatnonzero(np.diff(which[first], prepend=-1))
    parts = _large_enough(np.split(order, starts[1:]))
    groups = []
    for part in parts:
        ends = float(score[part].min()), float(score[part].max())
        groups.append((part, ends))
    return _labelled(groups, score)


def _large_enough(parts):
    """Parts of too few samples join the one before; the first one joins the next."""
    joined = []
    for part in parts:
        if joined and min(len(part), len(joined[-1])) < _FEWEST_SAMPLES:
            joined[-1] = np.concatenate([joined[-1], part])
        else:
            joined.append(part)
    return joined


def _labelled(groups, score):
    """Labels with as many decimals as distinguish the ranges; equal ones are merged."""
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


def range_label(low, high, decimals=1):
    """Ends in percent; equal ones once."""
    said = [f"{100 * end:.{decimals}f}" for end in (low, high)]
    return f"{said[0]} %" if said[0] == said[1] else f"{said[0]} to {said[1]} %"


def _place(kind, label, ends, index, score, outcome, weight, level, n_places):
    """Mean score and outcome of some samples, with an exact interval at their effective size."""
    mass = weight[index]
    mean_score = float(np.average(score[index], weights=mass))
    found = rate_interval(outcome[index], mass, 1 - (1 - level) / n_places)
    share = float(mass.sum() / weight.sum())
    numbers = (mean_score, found.estimate, found.low, found.high)
    return Place(kind, label, *ends, len(index), share, *numbers)
