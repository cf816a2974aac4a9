"""Drawing of grouping diagrams on matplotlib axes, which callers bring."""

from dataclasses import dataclass

import numpy as np

from skcalib.displays._regions import ABOVE, BELOW, HELD, most_told, rule_lines

# Blue and vermilion of Okabe and Ito, and grey: told apart by readers of any colour vision.
COLORS = {ABOVE: "#0072b2", BELOW: "#d55e00", HELD: "#9e9e9e"}
_AREA = 110  # of the largest region, in square points
_LEAST = 6  # so that small regions are still seen
_SMALL = 3.0  # inches; axes below this have smaller letters
_MANY = 60  # regions; more than these are drawn finer


@dataclass(frozen=True)
class RegionStyles:
    """What the user wants of each kind of artist; a dict each."""

    curve: dict
    scatter: dict
    interval: dict
    histogram: dict
    ref_line: dict


def draw_diagram(ax, diagram, *, title, styles, ref_line, histogram, n_rules, largest):
    """One event -> its line, scatter, intervals, diagonal, axes of the histogram and rules."""
    from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

    diagonal = draw.draw_reference(ax, **styles.ref_line) if ref_line else None
    style = {"color": "black", "marker": "o", "markersize": 3, "linewidth": 1.2, "zorder": 4}
    line = ax.plot(
        diagram.prob_pred, diagram.prob_true, **{**style, "label": "Level sets", **styles.curve}
    )[0]
    many = len(diagram.regions) > _MANY
    colors = [COLORS[side] for side in diagram.side]
    # What is coloured lies on top, point by point, though artists keep the order of the regions.
    faint = [color + "55" if many and color == COLORS[HELD] else color for color in colors]
    style = {"linewidth": 0.5 if many else 1.0, "zorder": 2, **styles.interval}
    if "colors" not in style:
        style.setdefault("color", faint)
    intervals = ax.vlines(diagram.score, diagram.low, diagram.high, **style)
    style = {
        "s": np.maximum(_AREA * diagram.n_samples / largest, _LEAST),
        "edgecolor": "white",
        "linewidth": 0.2 if many else 0.6,
        "zorder": 3,
        **styles.scatter,
    }
    if "c" not in style:
        style.setdefault("color", faint)
    scatter = ax.scatter(diagram.score, diagram.outcome, **style)
    inset = None
    if histogram and diagram.scores is not None:
        style = {"color": "black", **styles.histogram}
        inset = draw.draw_scores(ax, diagram.scores, diagram.weight, **style)
    draw.square_axes(ax, diagram.event)
    ax.set_title(title, fontsize="small", y=1.0 if inset is None else 1.15)
    return line, scatter, intervals, diagonal, inset, _write_rules(ax, diagram, n_rules)


def draw_keys(ax, diagrams, *, level, largest, outside):
    """Legend of one panel in its freer corner, or of several below them in their figure."""
    from skcalib.displays import _plotting as draw

    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    entries += _keys(draw.Line2D, np.concatenate([d.side for d in diagrams]), level, largest)
    if outside:
        handles, labels = zip(*entries, strict=True)
        place = {"loc": "outside lower center", "ncols": 3, "fontsize": "small", "frameon": False}
        ax.figure.legend(handles, labels, **place)
        return
    diagram = diagrams[0]
    x, y = np.tile(diagram.score, 2), np.concatenate([diagram.low, diagram.high])
    size = "x-small" if _inches(ax) > _SMALL else "xx-small"
    draw.draw_legend(ax, entries, draw.emptier_corner(x, y), fontsize=size)


def _inches(ax):
    return ax.get_window_extent().width / ax.figure.dpi


def _keys(line, sides, level, largest):
    """Entries of the legend for the colours that occur, and for the area."""
    meaning = {
        ABOVE: "Region above its level set",
        BELOW: "Region below its level set",
        HELD: f"Region not told apart ({level})",
    }
    style = {"linestyle": "", "marker": "o", "markersize": 7}
    keys = [
        (line([], [], color=COLORS[side], **style), text)
        for side, text in meaning.items()
        if side in sides
    ]
    style |= {"markersize": np.sqrt(_AREA), "markerfacecolor": "none", "markeredgecolor": "0.4"}
    return [*keys, (line([], [], **style), f"Region of {largest:,} samples")]


def _write_rules(ax, diagram, n_rules):
    """Numbers beside the regions, and below the axes the lines that explain them."""
    for number, index in enumerate(most_told(diagram, n_rules), start=1):
        # Away from the other region of a stump, and inside of the axes.
        score = diagram.score[index]
        right = score < 0.04 or (score >= diagram.center[index] and score < 0.96)
        ax.annotate(
            str(number),
            (score, diagram.outcome[index]),
            xytext=(6 if right else -6, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize="small",
            fontweight="bold",
            color=COLORS[diagram.side[index]],
            zorder=5,
        )
    size, letters = ("small", 18) if _inches(ax) > _SMALL else ("x-small", 21)  # in an inch
    lines = rule_lines(diagram, n_rules, max(20, int(letters * _inches(ax))))
    if lines:
        ax.annotate(
            "\n".join(lines),
            (0, 0),
            xycoords="axes fraction",
            xytext=(0, -38),
            textcoords="offset points",
            va="top",
            fontsize=size,
        )
    return lines
