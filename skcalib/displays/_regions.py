"""From a fitted `GroupingLossEstimator` to what a grouping diagram shows; nothing here draws."""

from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np

from skcalib._texts import decimals_of
from skcalib.displays._curves import interval_text
from skcalib.intervals import MeanInterval

ABOVE, BELOW, HELD = 1, -1, 0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class GroupingDiagram:
    """What is drawn for one binary event.

    ``prob_pred`` and ``prob_true`` are the mean score and outcome of the level sets. The arrays of
    ``regions`` follow its order: ``score`` and ``outcome`` with its interval ``low``, ``high``;
    ``center`` and ``expected``, the mean score and outcome of the level set of the region;
    ``side``, 1 or -1 where the interval is above or below the latter, and 0 where it holds it.
    ``scores`` and ``weight`` of the samples are None where they are not known.
    """

    event: str
    regions: list
    prob_pred: np.ndarray
    prob_true: np.ndarray
    score: np.ndarray
    outcome: np.ndarray
    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    expected: np.ndarray
    side: np.ndarray
    n_samples: np.ndarray
    grouping_loss: MeanInterval
    calibration_error: float
    scores: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def contribution(self):
        """Share of each region times the square of its distance from the level set."""
        share = np.array([region.share for region in self.regions])
        return share / share.sum() * (self.outcome - self.expected) ** 2


def grouping_diagram(estimator, *, event=None, scores=None, weight=None):
    """The diagram of a fitted estimator with regions of one event, by default their own."""
    regions = sorted(estimator.regions_, key=lambda r: (r.level_set, r.region))
    event = _one_event(estimator, regions) if event is None else event
    regions = [replace(region, event=event) for region in regions]
    score, outcome, low, high, share = (
        np.array([getattr(region, name) for region in regions])
        for name in ("mean_score", "mean_outcome", "low", "high", "share")
    )
    level = np.unique([region.level_set for region in regions], return_inverse=True)[1]
    mass = np.bincount(level, share)
    prob_pred, prob_true = (np.bincount(level, share * v) / mass for v in (score, outcome))
    expected = prob_true[level]
    order = np.argsort(prob_pred, kind="stable")
    above, below = low > expected + _ROUNDING, high < expected - _ROUNDING
    return GroupingDiagram(
        event=event,
        regions=regions,
        prob_pred=prob_pred[order],
        prob_true=prob_true[order],
        score=score,
        outcome=outcome,
        low=low,
        high=high,
        center=prob_pred[level],
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
            f"The regions speak of several events ({', '.join(events[:3])}...), and a level set of "
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
    """Lines of at most `width` letters: rule, score, outcome against that of the level set."""
    lines = []
    for number, index in enumerate(most_told(diagram, n_rules), start=1):
        region = diagram.regions[index]
        text = (
            f"{number}  {region.rule.replace('<=', '≤')}: score {region.mean_score:.2f}, "
            f"outcome {region.mean_outcome:.2f} (level set {diagram.expected[index]:.2f})"
        )
        lines += wrap(text, width, subsequent_indent="    ")
    return lines


def title(diagram, name, unit):
    """Name, grouping loss with its interval and calibration error."""
    bound, decimals = diagram.grouping_loss, decimals_of(diagram.grouping_loss)
    lines = [] if name is None else [str(name)]
    lines.append(f"Grouping loss ≥ {interval_text(bound)}")
    lines.append(f"Calibration error {diagram.calibration_error:z.{decimals}f} ({unit})")
    return "\n".join(lines)


def level_set_ratio(region_ratio, partitioner, regions):
    """What level sets should hold: each region of a stump, or of given ones, its ratio."""
    if regions is not None:
        return region_ratio * len(np.unique(regions))
    stump = isinstance(partitioner, str) and partitioner == "stump"
    return 2 * region_ratio if stump else region_ratio
