"""Legends that cover no curve. Import this module inside methods only."""

from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation

from skcalib.displays._recalibration_maps import UNCHANGED

REFERENCE = "Perfectly calibrated"  # the diagonal
SHARED = "skcalib shared legend"  # of several panels
_CORNERS = ("upper left", "lower right", "center right", "center left", "upper right", "lower left")
_NARROW = 4.0  # inches; axes below this have smaller letters
_CLEAR = 4  # points between a legend and a curve
_INCH = 72  # points

_HEIGHTS = WeakKeyDictionary()  # of figures that the library made, without their legends


def keep_height(figure):
    """Remember a figure of ours: it grows by what its legends need."""
    _HEIGHTS[figure] = figure.get_figheight()


def draw_legends(axes, **style):
    """A legend for each panel: below it where the figure makes room, else in a free place.

    What several panels share, bands and diagonals, is explained once: below the figure, or in the
    first panel.
    """
    figure = axes[0].figure
    roomy = figure.get_layout_engine() is not None
    several = len(axes) > 1
    shared, heights = {}, []
    for ax in axes:
        entries = sorted(
            zip(*ax.get_legend_handles_labels(), strict=True), key=lambda entry: _is_diagonal(entry)
        )
        if several and (roomy or ax is not axes[0]):
            shared |= {text: artist for artist, text in entries if _is_shared((artist, text))}
            entries = [entry for entry in entries if not _is_shared(entry)]
        legend = draw_below(ax, entries, **style) if roomy else draw_inside(ax, entries, **style)
        heights.append(0 if legend is None else _inches(legend))
    last = _draw_shared(figure, shared) if several and roomy else 0
    _make_room(figure, _rows(axes[0]) * max(heights) + last)


def place_legend(ax, entries, **style):
    """Legend of (artist, text) pairs on one Axes, below it or in a free place; None without any."""
    roomy = ax.figure.get_layout_engine() is not None
    legend = draw_below(ax, entries, **style) if roomy else draw_inside(ax, entries, **style)
    _make_room(ax.figure, 0 if legend is None else _rows(ax) * _inches(legend))
    return legend


def _make_room(figure, height):
    """Let a figure of ours grow by what its legends need, and lay out the figure once.

    The layout of matplotlib depends on sizes that it changes: the second time it is right.
    """
    if figure in _HEIGHTS:
        figure.set_figheight(max(_HEIGHTS[figure] + height, figure.get_figheight()))
    if figure.get_layout_engine() is not None:
        figure.get_layout_engine().execute(figure.figure)


def _rows(ax):
    spec = ax.get_subplotspec()
    return 1 if spec is None else spec.get_gridspec().nrows


def _inches(legend):
    return legend.get_window_extent().height / legend.get_figure().dpi


def draw_figure_legend(figure, entries, **style):
    """Legend of all panels below them; a figure of ours grows by it."""
    _make_room(figure, _draw_shared(figure, {text: artist for artist, text in entries}, **style))


def _draw_shared(figure, shared, **style):
    """Height in inches of a legend below all panels; an earlier one is replaced."""
    for legend in list(figure.legends):
        if legend.get_gid() == SHARED:
            legend.remove()
    if not shared:
        return 0
    legend = figure.legend(
        list(shared.values()),
        list(shared),
        loc="outside lower center",
        ncols=2,
        fontsize="small",
        frameon=False,
        **style,
    )
    _opaque(legend)
    legend.set_gid(SHARED)
    return _inches(legend)


def draw_below(ax, entries, **style):
    """Legend below the labels of the axes, or None without entries."""
    if not entries:
        return _without_legend(ax)
    figure = ax.figure
    ax.apply_aspect()
    ticks = [tick.get_size() for tick in ax.get_xticklabels()] or [10]
    lines = ax.get_xlabel().count("\n") + 1
    depth = 7 + 1.2 * max(ticks) + 4 + 1.3 * lines * ax.xaxis.label.get_size() + 6
    down = ScaledTranslation(0, -depth / _INCH, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0}
    place |= {"bbox_transform": ax.transAxes + down, "frameon": False}
    room = figure.bbox.width / max(1, _columns(ax))
    for size in ("small", "x-small"):
        for text in (_wide, str):
            legend = _legend(ax, entries, text, **{"fontsize": size, **place, **style})
            if legend.get_window_extent().width <= room:
                return legend
    return legend


def draw_inside(ax, entries, **style):
    """Legend at a place of the axes that is free, with shorter texts if it must be, or below."""
    if not entries:
        return _without_legend(ax)
    ax.apply_aspect()
    wide = ax.get_window_extent().width / ax.figure.dpi > _NARROW
    attempts = [(str, "small")] if wide else []
    attempts += [(str, "x-small"), (_name, "x-small"), (_name, "xx-small")]
    inner = Bbox.from_extents(*ax.get_window_extent().extents)
    for text, size in attempts:
        legend = _legend(
            ax, entries, text, loc="upper left", **{"fontsize": size, "framealpha": 0.85, **style}
        )
        box = legend.get_window_extent()
        for corner in _CORNERS:
            place = _place(inner, box, corner, legend)
            if place is not None and is_free(ax, place):
                legend.set_loc(corner)
                return legend
    return draw_below(ax, entries, **style)


def _without_legend(ax):
    if ax.get_legend() is not None:
        ax.get_legend().remove()


def _legend(ax, entries, text, **style):
    handles, labels = zip(*entries, strict=True)
    style = {"handlelength": 2.4, **style}
    legend = ax.legend(handles, [text(label) for label in labels], **style)
    _opaque(legend)
    return legend


def _opaque(legend):
    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):
            handle.set_alpha(1)


def _place(inner, box, corner, legend):
    """Box of the legend at a corner of the axes, None where it does not fit."""
    points = legend.get_figure().dpi / _INCH
    pad = legend.borderaxespad * legend.prop.get_size_in_points() * points
    width, height = box.width, box.height
    if width + 2 * pad > inner.width or height + 2 * pad > inner.height:
        return None
    left = inner.x0 + pad if "left" in corner else inner.x1 - pad - width
    bottom = {
        "upper": inner.y1 - pad - height,
        "lower": inner.y0 + pad,
        "center": (inner.y0 + inner.y1 - height) / 2,
    }[corner.split()[0]]
    return Bbox.from_bounds(left, bottom, width, height).padded(_CLEAR * points)


def is_free(ax, box):
    """Whether no line, band or point of the axes meets a box in display coordinates."""
    for line in ax.lines:
        if line.get_transform().transform_path(line.get_path()).intersects_bbox(box, filled=False):
            return False
    for artist in ax.collections:
        if isinstance(artist, PathCollection):
            points = artist.get_offset_transform().transform(artist.get_offsets())
            if np.any(box.count_contains(points)):
                return False
            continue
        filled = isinstance(artist, PolyCollection)
        for path in artist.get_paths():
            if artist.get_transform().transform_path(path).intersects_bbox(box, filled=filled):
                return False
    return True


def _columns(ax):
    spec = ax.get_subplotspec()
    return 1 if spec is None else spec.get_gridspec().ncols


def _is_diagonal(entry):
    return entry[1] in (REFERENCE, UNCHANGED)


def _is_shared(entry):
    """A band or a diagonal, which is the same in all panels."""
    return _is_diagonal(entry) or not isinstance(entry[0], Line2D)


def _wide(text):
    """Number of a curve behind its name, in one line."""
    *lines, last = text.split("\n")
    number = last[:1].isdigit() or last.startswith("none detected")
    return "\n".join([*lines[:-1], f"{lines[-1]}: {last}"]) if lines and number else text


def _name(text):
    return text.split("\n")[0]
