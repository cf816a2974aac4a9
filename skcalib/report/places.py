"""Where a forecast is wrong: ranges of scores and classes, promised against come true."""

import numpy as np

from skcalib.intervals import clopper_pearson
from skcalib.notions import TopLabel
from skcalib.report.findings import Place
from skcalib.smoothers import QuantileBins

_MOST_RANGES = 10
_SAMPLES_PER_RANGE = 50


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
        ("scores", _range(forecast[index, 1], event), index, forecast[:, 1], target[:, 1])
        for index in rows
    ]
    every = np.arange(n_samples)
    columns = [1] if n_classes == 2 else range(n_classes)
    classes = [
        (
            "class",
            f"class {problem.classes[k]}",
            every,
            problem.forecast[:, k],
            problem.target[:, k],
        )
        for k in columns
    ]
    return tuple(
        _place(*place, problem.weight, 1 - (1 - level) / len(group))
        for group in (ranges, classes)
        for place in group
    )


def worst_places(places, kind, most):
    """Those of a kind that are wrong beyond chance, the largest harm first."""
    found = [place for place in places if place.kind == kind and place.detected]
    return sorted(found, key=lambda place: -place.harm)[:most]


def _place(kind, where, index, score, outcome, weight, level):
    """Average score and outcome of some samples, with an exact interval at their effective size."""
    mass = weight[index]
    size = mass.sum() ** 2 / np.sum(mass**2)
    mean_score, mean_outcome = (float(np.average(v[index], weights=mass)) for v in (score, outcome))
    low, high = clopper_pearson(mean_outcome, size, level)
    share = float(mass.sum() / weight.sum())
    return Place(kind, where, len(index), share, mean_score, mean_outcome, float(low), float(high))


def _range(scores, event):
    """A range in words, with decimals until its ends differ."""
    low, high = float(scores.min()), float(scores.max())
    if low == high:
        return f"a score of {low:.3g} for {event}"
    decimals = int(np.clip(np.ceil(-np.log10(high - low)) + 1, 2, 5))
    return f"scores from {low:.{decimals}f} to {high:.{decimals}f} for {event}"
