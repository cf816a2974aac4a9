"""Drawing of reliability curves on matplotlib axes. Import this module inside methods only."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation

from skcalib._util.formatting import class_text, printable
from skcalib.displays._probability_scale import (
    probability_map,
    set_probability_scale,
    signed_root,
    signed_square,
)

__all__ = [
    "draw_legends",
    "set_probability_scale",
]  # besides the names defined here

# The palette of Okabe and Ito, which is distinguishable with any colour vision.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Overlaid curves also differ in greyscale.
LINES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)), (0, (7, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_CURVE = "skcalib curve"  # group id of the lines of a display, with its number
_SCORES = "skcalib scores"  # label by which the histogram of an earlier display is found
_NARROW = 3.0  # inches; narrower axes have smaller letters
_SPIKE = 12  # times the median bin: a taller histogram has a square-root scale
_SMALLEST = 6  # points of a letter
_FEW = 40  # a curve with at most this many points has markers


def panel_axes(ax, n_panels, *, histogram=True):
    """Axes for the panels: those of a new figure, or the ones given by the user."""
    if ax is None:
        import matplotlib.pyplot as plt  # only new figures need it

        columns = int(np.ceil(np.sqrt(n_panels)))
        rows = -(-n_panels // columns)
        size = (5, 5.85 if histogram else 5.2) if n_panels == 1 else (3.2 * columns, 3.6 * rows)
        figure = plt.figure(figsize=size, layout=TwoPassLayout())
        keep_height(figure)
        return [figure.add_subplot(rows, columns, i + 1) for i in range(n_panels)]
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax, dtype=object)))
    if len(axes) != n_panels or not all(isinstance(one, Axes) for one in axes):
        needed = "a matplotlib Axes" if n_panels == 1 else f"an array of {n_panels} Axes"
        raise ValueError(f"ax must be {needed}, one for each panel, or None for a new figure.")
    return axes


def new_axes(size, n_rows=1, **options):
    """Axes of a new figure one above the other; the figure grows to make room for its legends."""
    import matplotlib.pyplot as plt

    options |= {"figsize": size, "layout": TwoPassLayout(), "squeeze": False}
    figure, axes = plt.subplots(n_rows, 1, **options)
    keep_height(figure)
    return list(axes[:, 0])


def make_room(axes, n_lines):
    """A figure that is taller by some lines of text below each row of panels."""
    rows = axes[0].get_subplotspec().get_gridspec().nrows
    figure = axes[0].figure
    figure.set_figheight(figure.get_figheight() + rows * (0.4 + 0.16 * n_lines))


class TwoPassLayout(ConstrainedLayoutEngine):
    """Constrained layout that is computed twice where a figure is drawn after a change.

    matplotlib's layout depends on sizes that it changes itself: it is correct the second time.
    """

    is_outdated = True

    def execute(self, fig):
        if self.is_outdated:
            self.is_outdated = False
            super().execute(fig)
        return super().execute(fig)


def one_or_all(artists):
    """A single artist as itself, as in scikit-learn's displays."""
    return artists[0] if len(artists) == 1 else artists or None


def ends_of(intervals):
    """Centres of intervals, and the lengths of their two arms for ``Axes.errorbar``."""
    low, centre, high = np.array([[one.low, one.estimate, one.high] for one in intervals]).T
    return centre, np.maximum([centre - low, high - centre], 0)


def keep(display, artists):
    """Set the attributes of the kinds of artists, of axes and figure; returns the display."""
    for part, drawn in artists.items():
        setattr(display, f"{part}_", one_or_all(drawn))
    display.figure_ = artists["ax"][0].figure
    return display


def without_aliases(style, kind="line"):
    """Arguments of an artist, or None, with full names: "linewidth" for "lw"."""
    artists = {"line": Line2D, "points": PathCollection, "segments": LineCollection}
    return normalize_kwargs(style, artists[kind])


def line_style(kwargs, curve_kwargs):
    """Line properties from `plot` and `curve_kwargs`, without aliases; raises for unknown names."""
    style = without_aliases(kwargs)
    for name in style:
        if not hasattr(Line2D, f"set_{name}"):
            raise TypeError(
                f"plot() got an unexpected keyword argument {name!r}: it takes its own parameters "
                "and properties of matplotlib's Line2D, such as color, linestyle and linewidth."
            )
    return style | without_aliases(curve_kwargs)


def next_number(ax):
    """How many displays have drawn curves on the axes."""
    return len({line.get_gid() for line in ax.lines if str(line.get_gid()).startswith(_CURVE)})


def numbered(number):
    """Style of the curve with this number, and the mark by which `next_number` finds it."""
    style = {"linestyle": LINES[number % len(LINES)], "gid": f"{_CURVE} {number}"}
    return style, MARKERS[number % len(MARKERS)]


def next_color(ax):
    """First colour of the palette that no line on the axes uses."""
    used = {to_hex(line.get_color()) for line in ax.lines}
    free = [color for color in COLORS if color not in used]
    return free[0] if free else COLORS[len(ax.lines) % len(COLORS)]


def draw_reference(ax, label, **kwargs):
    """The diagonal, once per axes and name."""
    for line in ax.lines:
        if line.get_label() == label:
            return line
    style = {"color": "0.35", "linestyle": ":", "linewidth": 1.2, "label": label, "zorder": 1.5}
    return ax.plot([0, 1], [0, 1], **{**style, **kwargs})[0]


def draw_curve(ax, curve, *, number, **kwargs):
    """Curve; points are marked where there are few."""
    style, marker = numbered(number)
    style |= {"linewidth": 1.6, "zorder": 3}
    if len(curve.prob_pred) <= _FEW:
        style |= {"marker": marker, "markersize": 4}
    return ax.plot(curve.prob_pred, curve.prob_true, **{**style, **kwargs})[0]


def draw_table(ax, rows, *, widen):
    """Names and numbers to the right of the axes, in a figure that is widened to hold them."""
    style = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    left, drawn = 14, []
    for column in zip(*rows, strict=True):
        for k, text in enumerate(column):
            drawn.append(ax.annotate(text, (1, 1), (left, -12 * k), fontsize="small", **style))
        width = max(one.get_window_extent().width for one in drawn[-len(column) :])
        left += width * _INCH / ax.figure.dpi + 14
    if widen:
        ax.figure.set_figwidth(ax.figure.get_figwidth() + left / _INCH)
    return drawn


def draw_band(ax, curve, *, color, label, **kwargs):
    """Area where the curve is joined, bars where it is a set of bins."""
    if label in ax.get_legend_handles_labels()[1]:
        label = None
    where = (curve.prob_pred, curve.low, curve.high)
    if curve.joined and len(curve.prob_pred) > 1:
        style = {"color": color, "alpha": 0.22, "linewidth": 0, "label": label, "zorder": 2}
        return ax.fill_between(*where, **{**style, **kwargs})
    style = {"color": color, "alpha": 0.3, "linewidth": 5, "label": label, "zorder": 2}
    return ax.vlines(*where, **{**style, **kwargs})


def draw_scores(ax, scores, weight, *, color, **kwargs):
    """Histogram of the forecasts in a thin inset above the axes, shared by all displays on them.

    The bins have equal width on the scale of the axes. The height has one scale for all scores that
    `scale_panels` knows: the share of the forecasts, or its square root if one bin is so high that
    the others would be invisible. Earlier histograms on the axes are drawn again.
    """
    inset = next((child for child in ax.child_axes if child.get_label() == _SCORES), None)
    if inset is None:
        inset = ax.inset_axes([0, 1.02, 1, 0.13], sharex=ax, label=_SCORES)
        inset.tick_params(left=False, labelleft=False)
        inset.xaxis.set_visible(False)
        inset.spines[["top", "left", "right"]].set_visible(False)
        inset.patch.set_visible(False)
    style = {"color": color, "alpha": 0.4, "histtype": "stepfilled", **kwargs}
    inset.skcalib_drawn = [*getattr(inset, "skcalib_drawn", ()), (scores, weight, style)]
    for patch in list(inset.patches):
        patch.remove()
    bins = probability_map(ax).edges
    for one, its_weight, its_style in inset.skcalib_drawn:
        one = np.clip(one, 0, 1)
        inset.hist(one, bins, weights=its_weight / its_weight.sum(), **its_style)
    root, top = histogram_scale(ax.skcalib_scores, bins)
    if root:
        inset.set_yscale("function", functions=(signed_root, signed_square))
        inset.set_yticks([])
    inset.set_ylim(0, 1.05 * top)
    wide = ax.get_window_extent().width / ax.figure.dpi > _NARROW
    size = "x-small" if wide else _SMALLEST
    inset.set_ylabel("√ share" if root else "Share", fontsize=size)
    return inset


def scores_of(drawn):
    """Scores and weights of all samples of curves or maps, such as those of folds."""
    return tuple(np.concatenate([getattr(one, of) for one in drawn]) for of in ("scores", "weight"))


def histogram_scale(rows, bins):
    """Whether histograms of (scores, weight) need square roots, and the largest share in a bin."""
    root, top = False, 0.0
    for scores, weight in rows:
        shares = np.histogram(np.clip(scores, 0, 1), bins, weights=weight)[0] / weight.sum()
        root = root or shares.max() > _SPIKE * np.median(shares[shares > 0])
        top = max(top, shares.max())
    return root, top


def square_axes(ax, event):
    """Equal scales of forecast and outcome, with the labels of the event."""
    of = f" of {event_text(event)}" if event else ""
    top_label = event == "top label"
    ax.set(
        xlabel="Confidence" if top_label else f"Predicted probability{of}",
        ylabel="Accuracy" if top_label else f"Observed frequency{of}",
        xlim=probability_map(ax).limits,
        ylim=probability_map(ax).limits,
        aspect="equal",
    )


def event_text(event):
    """The event as text for a label: "class churn" becomes "churn", "class 1" is kept."""
    name = class_text(event.removeprefix("class ")) if event.startswith("class ") else event
    return printable(name).replace("$", r"\$")  # not a formula


def scale_panels(axes, rows, scale):
    """One scale for all panels, and one for their histograms, from all (scores, weight)."""
    rows = rows or [(np.array([0.0, 0.5, 1.0]), np.ones(3))]  # without scores: not crowded
    scores, weight = map(np.concatenate, zip(*rows, strict=True))
    for ax in axes:
        set_probability_scale(ax, scores, weight, scale)
        ax.skcalib_scores = [*getattr(ax, "skcalib_scores", ()), *rows]  # of earlier displays too


@dataclass(frozen=True)
class Styles:
    """Styles of artists, as given by the user; None or a dict each."""

    curve: dict
    band: dict | None
    histogram: dict | None
    ref_line: dict | None
    scatter: dict | None = None


def draw_panel(ax, curves, rows, artists, *, event, label, band, styles, ref_line, histogram):
    """Draw all curves of an event, and add the artists to the lists of their kinds."""
    ref_style, band_style = without_aliases(styles.ref_line), styles.band or {}
    number, color = next_number(ax), styles.curve.get("color") or next_color(ax)
    if ref_line:
        artists["ref_line"].append(draw_reference(ax, REFERENCE, **ref_style))
    for curve in curves:
        # The folds of a cross-validation share a colour and one entry of the legend.
        style = {"color": color, "alpha": 1.0 if len(curves) == 1 else 0.6, "label": label}
        style |= styles.curve
        artists["line"].append(draw_curve(ax, curve, number=number, **style))
        label = None
        if curve.low is not None:
            style = {"color": color, "label": band, **band_style}
            artists["band"].append(draw_band(ax, curve, **style))
    if histogram:
        style = {"color": color, **(styles.histogram or {})}
        artists["ax_hist"].append(draw_scores(ax, *rows, **style))
    square_axes(ax, event)


# --- Legends that cover no curve ------------------------------------------------------------------


REFERENCE = "Perfectly calibrated"  # the diagonal
UNCHANGED = "Unchanged"  # that of a map
SHARED = "skcalib shared legend"  # of several panels
_CORNERS = ("upper left", "lower right", "center right", "center left", "upper right", "lower left")
_NARROW_AXES = 4.0  # inches; narrower axes have smaller letters
_CLEAR = 4  # points between a legend and a curve
_INCH = 72  # points


def keep_height(figure):
    """Register a figure created by the library: it grows to make room for its legends."""
    figure.skcalib_height = figure.get_figheight()  # without legends


def draw_legends(axes, **style):
    """A legend for each panel: below it if the figure has a layout engine, else in a free place.

    Entries shared by several panels (bands and diagonals) appear once: below the figure, or in the
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
    _make_room(figure, _grid(axes[0])[0] * max(heights) + last)


def draw_common_legend(axes, entries, *, outside, **style):
    """One legend of (artist, text) pairs for all panels: below several, else of the first one."""
    if outside and len(axes) > 1:
        shared = {text: artist for artist, text in entries}
        _make_room(axes[0].figure, _draw_shared(axes[0].figure, shared, **style))
    else:
        place_legend(axes[0], entries, **style)


def place_legend(ax, entries, **style):
    """Legend of (artist, text) pairs on one Axes, below it or in a free place; None without any."""
    roomy = ax.figure.get_layout_engine() is not None
    legend = draw_below(ax, entries, **style) if roomy else draw_inside(ax, entries, **style)
    _make_room(ax.figure, 0 if legend is None else _grid(ax)[0] * _inches(legend))
    return legend


def _make_room(figure, height):
    """Enlarge a figure created by the library to fit its legends; lay out figures of others."""
    if hasattr(figure, "skcalib_height"):
        figure.set_figheight(max(figure.skcalib_height + height, figure.get_figheight()))
    engine = figure.get_layout_engine()
    if isinstance(engine, TwoPassLayout):
        engine.is_outdated = True
    elif engine is not None:
        engine.execute(figure.figure)  # for the first time


def _grid(ax):
    """Numbers of rows and columns of the panels of a figure."""
    spec = ax.get_subplotspec()
    return (1, 1) if spec is None else spec.get_gridspec().get_geometry()


def _inches(legend):
    return legend.get_window_extent().height / legend.get_figure().dpi


def _draw_shared(figure, shared, **style):
    """Height in inches of a legend below all panels; an earlier one is replaced."""
    for legend in list(figure.legends):
        if legend.get_gid() == SHARED:
            legend.remove()
    if not shared:
        return 0
    style |= {"loc": "outside lower center", "ncols": 2, "fontsize": "small", "frameon": False}
    legend = figure.legend(list(shared.values()), list(shared), **style)
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
    room = figure.bbox.width / _grid(ax)[1]
    for size in ("small", "x-small"):
        for text in (_wide, str):
            legend = _legend(ax, entries, text, **{"fontsize": size, **place, **style})
            if legend.get_window_extent().width <= room:
                return legend
    return legend


def draw_inside(ax, entries, **style):
    """Legend in a free place of the axes, with shorter texts if necessary, or below the axes."""
    if not entries:
        return _without_legend(ax)
    ax.apply_aspect()
    wide = ax.get_window_extent().width / ax.figure.dpi > _NARROW_AXES
    attempts = [(str, "small")] if wide else []
    attempts += [(str, "x-small"), (_name, "x-small"), (_name, _SMALLEST)]
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
    """Whether no line, band or point of the axes overlaps a box in display coordinates."""
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


def _is_diagonal(entry):
    return entry[1] in (REFERENCE, UNCHANGED)


def _is_shared(entry):
    """A band or a diagonal, which is the same in all panels."""
    return _is_diagonal(entry) or not isinstance(entry[0], Line2D)


def _wide(text):
    """Join the name of a curve and its number on one line."""
    *lines, last = text.split("\n")
    number = last[:1].isdigit() or last.startswith("none detected")
    return "\n".join([*lines[:-1], f"{lines[-1]}: {last}"]) if lines and number else text


def _name(text):
    return text.split("\n")[0]
