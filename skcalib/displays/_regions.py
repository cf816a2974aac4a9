"""Grouping diagrams, computed from a fitted `GroupingLossEstimator`, and their drawing."""

from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np

from skcalib._util.formatting import decimals_of, printable
from skcalib._util.records import Record
from skcalib.stats.means import MeanInterval, clopper_pearson

ABOVE, BELOW, HELD = 1, -1, 0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class GroupingDiagram(Record):
    """The diagram of one binary event.

    ``prob_pred`` and ``prob_true`` are the mean score and outcome of the level sets. The other
    arrays are in the order of ``regions`` and describe each region at the scores of its level set:
    ``score`` and ``expected``, the mean score and outcome of that level set; ``outcome``, which is
    ``expected`` plus the difference of the region at equal scores, with its interval ``low``,
    ``high``; ``side``, 1 or -1 if the interval lies above or below ``expected``, and 0 if it
    contains it. The intervals of all regions hold simultaneously. ``calibration_error`` is that of
    the score, corrected for binning. ``scores`` and ``weight`` of the samples are None if they are
    not known.
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

    _beside = ("event", "grouping_loss", "calibration_error")

    def _columns(self):
        names = ("score", "expected", "outcome", "low", "high", "side", "n_samples", "contribution")
        rules = [region.rule for region in self.regions]
        return {"rule": rules, **{name: getattr(self, name) for name in names}}

    @property
    def contribution(self):
        """Share of each region times the square of its difference at equal scores."""
        share = np.array([region.share for region in self.regions])
        return share / share.sum() * (self.outcome - self.expected) ** 2


def grouping_diagram(estimator, *, event=None, scores=None, weight=None):
    """The diagram of a fitted estimator with regions of one event, by default its own regions."""
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
    # Each region is moved to the scores of its level set; differences do not change.
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
        calibration_error=estimator.calibration_error_corrected_,
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
            "draw: fit it with method='auto'."
        )
    events = sorted({region.event for region in regions})
    if len(events) > 1:
        raise ValueError(
            f"The regions are of several events ({', '.join(events[:3])}...), and a level set of "
            "them is not a point on a curve: fit the estimator with notion='top_label', or use "
            "GroupingDisplay.from_predictions with notion='classwise'."
        )
    return events[0]


def most_told(diagram, n_rules):
    """Indices of the significant regions that add most to the explained grouping loss."""
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
        rule = printable(region.rule).replace("<=", "≤")
        text = (
            f"{number}  {rule}: {region.mean_outcome:.{decimals}f} "
            f"observed, {region.expected:.{decimals}f} expected"
        )
        lines += wrap(text, width, subsequent_indent="    ")
    return lines


def title(diagram, name, unit):
    """Name, grouping loss with interval and calibration error; "none detected" if not above 0.

    The upper end of the interval of a lower bound does not limit the grouping loss itself.
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
    """Samples per level set: the region ratio times the number of regions, two for a stump."""
    if regions is not None:
        return region_ratio * len(np.unique(regions))
    stump = isinstance(partitioner, str) and partitioner == "stump"
    return 2 * region_ratio if stump else region_ratio


# --- Drawing of grouping diagrams on given matplotlib axes ----------------------------------------


# Blue and vermilion of Okabe and Ito, and grey: distinguishable with any colour vision. The markers
# differ too.
COLORS = {ABOVE: "#0072b2", BELOW: "#d55e00", HELD: "#9e9e9e"}
MARKERS = {ABOVE: "^", BELOW: "v", HELD: "o"}
_AREA = 110  # of the largest region, in square points
_LEAST = 6  # so that small regions are visible
_SMALL = 3.0  # inches; axes below this have smaller letters
_MANY = 60  # regions; with more of them, lines and markers are thinner
_STEP = 0.014  # between the regions of a level set, as a fraction of the axis
_BELOW = 38  # points from the axes to the rules


def draw_diagram(ax, diagram, artists, *, title, styles, ref_line, histogram, n_rules, largest):
    """Draw the diagram of one event, and add the artists to the lists of their kinds."""
    from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

    if ref_line:
        artists["ref_line"].append(draw.draw_reference(ax, draw.REFERENCE, **styles.ref_line))
    style = {"color": "black", "marker": "_", "markersize": 9, "linewidth": 1.2, "zorder": 4}
    line = ax.plot(
        diagram.prob_pred, diagram.prob_true, **{**style, "label": "Level sets", **styles.curve}
    )[0]
    many = len(diagram.regions) > _MANY
    score = side_by_side(diagram, draw.probability_map(ax))
    colors = [COLORS[side] for side in diagram.side]
    # Coloured points lie on top; the artists keep the order of the regions.
    faint = [color + "55" if many and color == COLORS[HELD] else color for color in colors]
    style = {"linewidth": 0.5 if many else 1.0, "zorder": 2, **styles.band}
    if "colors" not in style:
        style.setdefault("color", faint)
    intervals = ax.vlines(score, diagram.low, diagram.high, **style)
    style = {
        "s": np.maximum(_AREA * diagram.n_samples / largest, _LEAST),
        "edgecolor": "white",
        "linewidth": 0.2 if many else 0.6,
        "zorder": 3,
        **styles.scatter,
    }
    if "c" not in style:
        style.setdefault("color", faint)
    scatter = ax.scatter(score, diagram.outcome, **style)
    if "marker" not in styles.scatter:
        scatter.set_paths([marker_path(MARKERS[side]) for side in diagram.side])
    drawn, height = {"line": line, "scatter": scatter, "interval": intervals}, 1.0
    if histogram and diagram.scores is not None:
        style = {"color": line.get_color(), **styles.histogram}
        drawn["ax_hist"] = draw.draw_scores(ax, diagram.scores, diagram.weight, **style)
        height = 1.15
    for part, artist in drawn.items():
        artists[part].append(artist)
    draw.square_axes(ax, diagram.event)
    ax.set_title(title, fontsize="small", y=height)
    _write_numbers(ax, diagram, score, n_rules)


def marker_path(marker):
    """The path of a marker, for a collection with several marker shapes."""
    from matplotlib.markers import MarkerStyle

    style = MarkerStyle(marker)
    return style.get_path().transformed(style.get_transform())


def side_by_side(diagram, mapping):
    """Abscissae of the regions: around the score of their level set, slightly apart."""
    place = np.asarray(mapping.forward(diagram.score), dtype=np.float64)
    levels, level, counts = np.unique(place, return_inverse=True, return_counts=True)
    room = np.min(np.diff(levels), initial=1.0)
    step = min(_STEP, 0.7 * room / counts.max())
    order = np.argsort(level, kind="stable")
    rank = np.empty(len(level))
    rank[order] = np.arange(len(level)) - np.searchsorted(level[order], level[order])
    moved = place + step * (rank - (counts[level] - 1) / 2)
    return np.clip(mapping.backward(np.clip(moved, 0, 1)), 0, 1)


def legend_entries(ax, diagrams, *, level):
    """Pairs (artist, text) of the curve, the diagonal, and the meaning of marker and area."""
    from skcalib.displays import _plotting as draw

    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    sides = np.concatenate([diagram.side for diagram in diagrams])
    meaning = {
        ABOVE: "Region above others with equal scores",
        BELOW: "Region below others with equal scores",
        HELD: f"Region without significant difference ({level})",
    }
    style = {"linestyle": "", "markersize": 7}
    entries += [
        (draw.Line2D([], [], color=COLORS[side], marker=MARKERS[side], **style), text)
        for side, text in meaning.items()
        if side in sides
    ]
    sizes = np.concatenate([diagram.n_samples for diagram in diagrams])
    side = sides[np.argmax(sizes)]
    style |= {"color": COLORS[side], "marker": MARKERS[side], "markersize": np.sqrt(_AREA)}
    largest = draw.Line2D([], [], **style)
    entries.append((largest, f"Largest region: {sizes.max():,} samples"))
    return sorted(entries, key=lambda entry: entry[1] == draw.REFERENCE)


def write_rules(ax, diagram, n_rules):
    """Lines below the axes, and below a legend there, that explain the numbers."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    size, letters = ("small", 18) if inches > _SMALL else ("x-small", 21)  # in an inch
    lines = rule_lines(diagram, n_rules, max(20, int(letters * inches)))
    if lines:
        down, legend = _BELOW, ax.get_legend()
        if legend is not None:
            bottom = legend.get_window_extent().y0 - ax.get_window_extent().y0
            down = max(down, 6 - 72 * bottom / ax.figure.dpi)
        place = {"xycoords": "axes fraction", "textcoords": "offset points"}
        ax.annotate("\n".join(lines), (0, 0), (0, -down), va="top", fontsize=size, **place)
    return lines


def _write_numbers(ax, diagram, score, n_rules):
    """Numbers next to the regions that are explained."""
    for number, index in enumerate(most_told(diagram, n_rules), start=1):
        above = diagram.side[index] == ABOVE
        at = score[index], diagram.high[index] if above else diagram.low[index]
        style = {"color": COLORS[diagram.side[index]], "va": "bottom" if above else "top"}
        style |= {"ha": "center", "fontsize": "small", "fontweight": "bold", "zorder": 5}
        move = 0, 2 if above else -2
        ax.annotate(str(number), at, move, textcoords="offset points", **style)
