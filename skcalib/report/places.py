"""Where a forecast is wrong: ranges of scores and classes, promised against come true."""

import numpy as np

from skcalib.intervals import clopper_pearson
from skcalib.notions import TopLabel
from skcalib.report.findings import Place
from skcalib.smoothers import QuantileBins

#: Places of a kind that are told at the most.
N_PLACES = 3
_MOST_RANGES = 10
_SAMPLES_PER_RANGE = 50
_TINY = 1e-5  # scores that are closer to 0 or 1 are not told apart


def find_places(problem, level):
    """All ranges of the confidence (for two classes: of the forecast) and all classes."""
    n_samples, n_classes = problem.forecast.shape
    forecast, target = problem.forecast, problem.target
    if n_classes > 2:
        forecast, target = next(TopLabel().problems(forecast, target))
    n_ranges = int(np.clip(n_samples // _SAMPLES_PER_RANGE, 1, _MOST_RANGES))
    cells = QuantileBins(n_ranges).fit(forecast, target).cells_
    rows = [np.flatnonzero(cells == cell) for cell in np.unique(cells)]
    event = f"class {problem.classes[1]}" if n_classes == 2 else "the predicted class"
    ranges = [
        _place("scores", *_range(forecast[index, 1], event), index, forecast[:, 1], target[:, 1],
               problem.weight, _at_once(level, len(rows)))
        for index in rows
    ]  # fmt: skip
    every = np.arange(n_samples)
    columns = [1] if n_classes == 2 else range(n_classes)
    classes = [
        _place("class", f"class {problem.classes[k]}", str(problem.classes[k]), every,
               problem.forecast[:, k], problem.target[:, k],
               problem.weight, _at_once(level, len(columns)))
        for k in columns
    ]  # fmt: skip
    return (*ranges, *classes)


def worst_places(places, kind, most):
    """Those of a kind that are wrong beyond chance, the largest harm first."""
    found = [place for place in places if place.kind == kind and place.detected]
    return sorted(found, key=lambda place: -place.harm)[:most]


def _at_once(level, places):
    """Level of each interval, so that those of all places hold at once (Bonferroni)."""
    return 1 - (1 - level) / places


def _place(kind, where, label, index, score, outcome, weight, level):
    """Average score and outcome of some samples, with an exact interval at their effective size."""
    mass = weight[index]
    size = mass.sum() ** 2 / np.sum(mass**2)
    mean_score, mean_outcome = (float(np.average(v[index], weights=mass)) for v in (score, outcome))
    low, high = clopper_pearson(mean_outcome, size, level)
    share = float(mass.sum() / weight.sum())
    found = (mean_score, mean_outcome, float(low), float(high))
    return Place(kind, where, label, len(index), share, *found)


def _range(scores, event):
    """A range in words and as a label, with decimals until its ends differ."""
    low, high = float(scores.min()), float(scores.max())
    if low == high:
        return f"a score of {low:.3g} for {event}", f"{low:.3g}"
    if high < _TINY:
        return f"scores below {_TINY:.5f} for {event}", f"below {_TINY:.5f}"
    if low > 1 - _TINY:
        return f"scores above {1 - _TINY:.5f} for {event}", f"above {1 - _TINY:.5f}"
    decimals = int(np.clip(np.ceil(-np.log10(high - low)) + 1, 3, 5))
    label = f"{low:.{decimals}f} to {high:.{decimals}f}"
    return f"scores from {label} for {event}", label
