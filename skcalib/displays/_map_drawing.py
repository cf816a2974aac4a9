"""Drawing of the maps of recalibrators, on axes that callers bring."""

from dataclasses import dataclass

import numpy as np

from skcalib.displays._recalibration_maps import UNCHANGED


@dataclass(frozen=True)
class MapStyles:
    """Style of each kind of artist, as given by the user; a dict each."""

    curve: dict
    histogram: dict
    ref_line: dict


def draw_maps(ax, maps, *, names, styles, ref_line, histogram):
    """Maps of one class -> lists of lines, diagonals and axes of histograms."""
    from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

    diagonals = [_draw_unchanged(ax, draw, styles.ref_line)] if ref_line else []
    lines, colors, numbers = [], {}, {}
    for one in maps:
        alike = [other for other in maps if other.name == one.name]
        first = one.name not in colors
        color = colors.setdefault(one.name, draw.next_color(ax))
        style, marker = draw.numbered(numbers.setdefault(one.name, draw.next_number(ax)))
        style |= {"color": color, "label": _label(alike, names) if first else None, "zorder": 3}
        if one.joined:
            # The folds of a cross-validation share a colour and one entry of the legend.
            style |= {"linewidth": 1.6, "alpha": 1.0 if len(alike) == 1 else 0.6}
        else:
            style |= {"linestyle": "", "marker": marker, "markeredgewidth": 0}
            style |= {"markersize": 2 if len(maps) == 1 else 1.8, "alpha": 0.4, "rasterized": True}
        lines += ax.plot(one.before, one.after, **{**style, **styles.curve})
    insets = []
    scores = [one.scores for one in maps if one.scores is not None]
    if histogram and scores:
        scores = np.concatenate(scores)
        color = lines[0].get_color() if len(colors) == 1 else "0.4"
        style = {"color": color, **styles.histogram}
        insets.append(draw.draw_scores(ax, scores, np.ones(len(scores)), **style))
    draw.square_axes(ax, maps[0].event)
    ax.set_ylabel(ax.get_xlabel().replace("Predicted", "Recalibrated", 1))
    return lines, diagonals, insets


def _draw_unchanged(ax, draw, style):
    """The diagonal, once per axes, under its own name."""
    for line in ax.lines:
        if line.get_label() == UNCHANGED:
            return line
    return draw.draw_reference(ax, **{"label": UNCHANGED, **style})


def _label(maps, names):
    """Name and declarations; of several folds all that occur."""
    name = names.get(maps[0].name, maps[0].name)
    folds = f" ({len(maps)} folds)" if len(maps) > 1 else ""
    words = " / ".join(dict.fromkeys(one.declared for one in maps))
    return f"{name}{folds}\n{words}".strip("\n")


def draw_names(axes, *, outside):
    """Legend of the first panel, or below several panels in their figure."""
    from skcalib.displays import _plotting as draw

    if outside:
        entries = list(zip(*axes[0].get_legend_handles_labels(), strict=True))
        entries.sort(key=lambda entry: entry[1] == UNCHANGED)
        draw.draw_figure_legend(axes[0].figure, entries, markerscale=2.5)
    else:
        draw.draw_legends(axes[:1], markerscale=2.5)
