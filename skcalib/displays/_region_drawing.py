"""Drawing of grouping diagrams on matplotlib axes, which callers bring."""

from dataclasses import dataclass

import numpy as np

from skcalib.displays._regions import ABOVE, BELOW, HELD, most_told, rule_lines

# Blue and vermilion of Okabe and Ito, and grey, which readers of any colour vision distinguish;
# the markers differ too.
COLORS = {ABOVE: "#0072b2", BELOW: "#d55e00", HELD: "#9e9e9e"}
MARKERS = {ABOVE: "^", BELOW: "v", HELD: "o"}
_AREA = 110  # of the largest region, in square points
_LEAST = 6  # so that small regions can be seen
_SMALL = 3.0  # inches; axes below this have smaller letters
_MANY = 60  # regions; more than these are drawn finer
_STEP = 0.014  # between the regions of a level set, in parts of the axis
_BELOW = 38  # points from the axes to the rules


@dataclass(frozen=True)
class RegionStyles:
    """What the user wants of each kind of artist; a dict each."""

    curve: dict
    scatter: dict
    interval: dict
    histogram: dict
    ref_line: dict


def draw_diagram(ax, diagram, *, title, styles, ref_line, histogram, n_rules, largest):
    """One event -> its line, scatter, intervals, diagonal and axes of the histogram."""
    from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

    diagonal = draw.draw_reference(ax, **styles.ref_line) if ref_line else None
    style = {"color": "black", "marker": "_", "markersize": 9, "linewidth": 1.2, "zorder": 4}
    line = ax.plot(
        diagram.prob_pred, diagram.prob_true, **{**style, "label": "Level sets", **styles.curve}
    )[0]
    many = len(diagram.regions) > _MANY
    score = side_by_side(diagram, draw.probability_map(ax))
    colors = [COLORS[side] for side in diagram.side]
    # What is coloured lies on top, point by point, though artists keep the order of the regions.
    faint = [color + "55" if many and color == COLORS[HELD] else color for color in colors]
    style = {"linewidth": 0.5 if many else 1.0, "zorder": 2, **styles.interval}
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
    inset = None
    if histogram and diagram.scores is not None:
        style = {"color": line.get_color(), **styles.histogram}
        inset = draw.draw_scores(ax, diagram.scores, diagram.weight, **style)
    draw.square_axes(ax, diagram.event)
    ax.set_title(title, fontsize="small", y=1.0 if inset is None else 1.15)
    _write_numbers(ax, diagram, score, n_rules)
    return line, scatter, intervals, diagonal, inset


def marker_path(marker):
    """The path of a marker, for a collection whose points have different ones."""
    from matplotlib.markers import MarkerStyle

    style = MarkerStyle(marker)
    return style.get_path().transformed(style.get_transform())


def side_by_side(diagram, mapping):
    """Where the regions are drawn: around the score of their level set, a little apart."""
    place = np.asarray(mapping.forward(diagram.score), dtype=np.float64)
    levels, level, counts = np.unique(place, return_inverse=True, return_counts=True)
    room = np.min(np.diff(levels), initial=1.0)
    step = min(_STEP, 0.7 * room / counts.max())
    order = np.argsort(level, kind="stable")
    rank = np.empty(len(level))
    rank[order] = np.arange(len(level)) - np.searchsorted(level[order], level[order])
    moved = place + step * (rank - (counts[level] - 1) / 2)
    return np.clip(mapping.backward(np.clip(moved, 0, 1)), 0, 1)


def legend_entries(ax, diagrams, *, level, largest):
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
    style |= {"marker": "o", "markersize": np.sqrt(_AREA), "markerfacecolor": "none"}
    area = draw.Line2D([], [], markeredgecolor="0.4", **style)
    entries.append((area, f"Region of {largest:,} samples"))
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
        ax.annotate(
            "\n".join(lines),
            (0, 0),
            xycoords="axes fraction",
            xytext=(0, -down),
            textcoords="offset points",
            va="top",
            fontsize=size,
        )
    return lines


def _write_numbers(ax, diagram, score, n_rules):
    """Numbers beside the regions that are explained."""
    for number, index in enumerate(most_told(diagram, n_rules), start=1):
        above = diagram.side[index] == ABOVE
        ax.annotate(
            str(number),
            (score[index], diagram.high[index] if above else diagram.low[index]),
            xytext=(0, 2 if above else -2),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize="small",
            fontweight="bold",
            color=COLORS[diagram.side[index]],
            zorder=5,
        )
