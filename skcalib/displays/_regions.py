"""From a fitted `GroupingLossEstimator` to what a grouping diagram shows; nothing here draws."""

from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np

from skcalib._formatting import decimals_of
from skcalib.inference import MeanInterval, clopper_pearson

ABOVE, BELOW, HELD = 1, -1, 0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class GroupingDiagram:
    """What is drawn for one binary event.

    ``prob_pred`` and ``prob_true`` are the mean score and outcome of the level sets. The arrays of
    ``regions`` follow its order, and hold each region as it would be at the scores of its level
    set: ``score`` and ``expected``, mean score and outcome of that level set; ``outcome``, which is
    ``expected`` plus the difference of the region at equal scores, with its interval ``low``,
    ``high``; ``side``, 1 or -1 where the interval is above or below ``expected``, and 0 where it
    holds it. The intervals of all regions hold at once. ``scores`` and ``weight`` of the samples
    are None where they are not known.
    """

    event: str
    regions: list
    prob_pred: np.ndarray
    prob_true: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    outcome: np.ndarray
    low: np.ndarray
    high: np.ndarray
    expected: np.ndarray
    side: np.ndarray
    n_samples: np.ndarray
    grouping_loss: MeanInterval
    calibration_error: float
    scores: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def contribution(self):
        """Share of each region times the square of its difference at equal scores."""
        share = np.array([region.share for region in self.regions])
        return share / share.sum() * (self.outcome - self.expected) ** 2


def grouping_diagram(estimator, *, event=None, scores=None, weight=None):
    """The diagram of a fitted estimator with regions of one event, by default their own."""
    regions = sorted(estimator.regions_, key=lambda r: (r.level_set, r.region))
    event = _one_event(estimator, regions) if event is None else event
    regions = [replace(region, event=event) for region in regions]
    score, outcome, curve, share, size = (
        np.array([getattr(region, name) for region in regions])
        for name in ("mean_score", "mean_outcome", "expected", "share", "effective_size")
    )
    level = np.unique([region.level_set for region in regions], return_inverse=True)[1]
    mass = np.bincount(level, share)
    prob_pred, prob_true = (np.bincount(level, share * v) / mass for v in (score, outcome))
    order = np.argsort(prob_pred, kind="stable")
    at_once = 1 - (1 - estimator.confidence_level) / len(regions)
    low, high = clopper_pearson(outcome, size, at_once)
    expected = prob_true[level]
    above, below = low > curve + _ROUNDING, high < curve - _ROUNDING
    # Each region is moved to the scores of its level set: differences stay what they are.
    outcome, low, high = (np.clip(v + expected - curve, 0, 1) for v in (outcome, low, high))
    return GroupingDiagram(
        event=event,
        regions=regions,
        prob_pred=prob_pred[order],
        prob_true=prob_true[order],
        mass=mass[order],
        score=prob_pred[level],
        outcome=outcome,
        low=low,
        high=high,
        expected=expected,
        side=np.where(above, ABOVE, np.where(below, BELOW, HELD)),
        n_samples=np.array([region.n_samples for region in regions]),
        grouping_loss=grouping_interval(estimator),
        calibration_error=estimator.calibration_error_,
        scores=scores,
        weight=weight,
    )


def grouping_interval(estimator):
    """The lower bound of a fitted estimator with its interval."""
    return MeanInterval(
        estimator.grouping_loss_, *estimator.confidence_interval_, estimator.standard_error_
    )


def _one_event(estimator, regions):
    if not regions:
        raise ValueError(
            f"The estimator was fitted with method={estimator.method!r}, which has no regions to "
            "draw: fit it with method='partition'."
        )
    events = sorted({region.event for region in regions})
    if len(events) > 1:
        raise ValueError(
            f"The regions are of several events ({', '.join(events[:3])}...), and a level set of "
            "them is no point on a curve: fit the estimator with notion='top_label', or use "
            "GroupingDisplay.from_predictions with notion='classwise'."
        )
    return events[0]


def most_told(diagram, n_rules):
    """Indices of the regions that stand out and add most to the explained grouping loss."""
    told = np.flatnonzero(diagram.side != HELD)
    order = np.argsort(-diagram.contribution[told], kind="stable")
    return told[order[:n_rules]]


def rule_lines(diagram, n_rules, width):
    """Lines of at most `width` letters: rule, and observed against expected at equal scores."""
    lines = []
    for number, index in enumerate(most_told(diagram, n_rules), start=1):
        region = diagram.regions[index]
        gap = max(abs(region.gap), 1e-6)
        decimals = int(np.clip(np.ceil(-np.log10(gap)) + 1, 2, 5))
        text = (
            f"{number}  {region.rule.replace('<=', '≤')}: {region.mean_outcome:.{decimals}f} "
            f"observed, {region.expected:.{decimals}f} expected"
        )
        lines += wrap(text, width, subsequent_indent="    ")
    return lines


def title(diagram, name, unit):
    """Name, grouping loss with its interval and calibration error; what is not above 0, in words.

    The upper end of the interval of a lower bound is no limit of the grouping loss itself.
    """
    bound, decimals = diagram.grouping_loss, decimals_of(diagram.grouping_loss)
    lines = [] if name is None else [str(name)]
    if float(f"{bound.estimate:.{decimals}f}") > 0:
        low, high = (f"{max(end, 0.0):.{decimals}f}" for end in (bound.low, bound.high))
        lines.append(f"Grouping loss ≥ {bound.estimate:.{decimals}f} [{low}, {high}]")
    else:
        lines.append("Grouping loss: none detected")
    error = diagram.calibration_error
    found = float(f"{error:.{decimals}f}") > 0
    said = f" {error:.{decimals}f} ({unit})" if found else f": none detected ({unit})"
    lines.append(f"Calibration error{said}")
    return "\n".join(lines)


def level_set_ratio(region_ratio, partitioner, regions):
    """What level sets should hold: each region of a stump, or of given ones, its ratio."""
    if regions is not None:
        return region_ratio * len(np.unique(regions))
    stump = isinstance(partitioner, str) and partitioner == "stump"
    return 2 * region_ratio if stump else region_ratio
