"""What displays draw with: axes, styles, scales, histograms and legends of matplotlib.

matplotlib is imported where something is drawn, not with this module.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skcalib._util.formatting import class_text, printable
from skcalib._util.parameters import check_choice

__all__: list[str] = []  # helpers of the displays, none of which is for users

# The palette of Okabe and Ito, which is distinguishable with any colour vision.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
GREY = "0.35"
# Overlaid curves also differ in greyscale.
LINES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)), (0, (7, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 40  # a curve with at most this many points has markers
NARROW = 3.0  # inches; narrower axes have smaller letters
_CURVE = "skcalib curve"  # group id of the lines of a display, with its number
_SCORES = "skcalib scores"  # label by which the histogram of an earlier display is found


# --- Axes of panels -------------------------------------------------------------------------------


def panel_axes(ax, n_panels, *, histogram=True):
    """Axes for the panels: those of a new figure, or the ones given by the user."""
    from matplotlib.axes import Axes

    if ax is None:
        import matplotlib.pyplot as plt  # only new figures need it

        columns = int(np.ceil(np.sqrt(n_panels)))
        rows = -(-n_panels // columns)
        size = (5, 5.85 if histogram else 5.2) if n_panels == 1 else (3.2 * columns, 3.6 * rows)
        figure = plt.figure(figsize=size, layout="constrained")
        return [figure.add_subplot(rows, columns, i + 1) for i in range(n_panels)]
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax, dtype=object)))
    if len(axes) != n_panels or not all(isinstance(panel, Axes) for panel in axes):
        needed = "a matplotlib Axes" if n_panels == 1 else f"an array of {n_panels} Axes"
        raise ValueError(f"ax must be {needed}, one for each panel, or None for a new figure.")
    return axes


def new_axes(size, n_rows=1, **options):
    """Axes of a new figure one above the other."""
    import matplotlib.pyplot as plt

    options |= {"figsize": size, "layout": "constrained", "squeeze": False}
    return list(plt.subplots(n_rows, 1, **options)[1][:, 0])


def width_of(ax):
    """Width of the axes in inches."""
    return ax.get_window_extent().width / ax.figure.dpi


def square_axes(ax, event):
    """Equal scales of forecast and outcome, with the labels of the event."""
    of = f" of {event_text(event)}" if event else ""
    top_label = event == "top label"
    ax.set(
        xlabel="Confidence" if top_label else f"Predicted probability{of}",
        ylabel="Accuracy" if top_label else f"Observed frequency{of}",
        aspect="equal",
    )


def event_text(event):
    """The event as text for a label: "class churn" becomes "churn", "class 1" is kept."""
    name = class_text(event.removeprefix("class ")) if event.startswith("class ") else event
    return printable(name).replace("$", r"\$")  # not a formula


def keep(display, artists):
    """Set the attributes of the kinds of artists, of axes and figure; returns the display."""
    for part, drawn in artists.items():
        setattr(display, f"{part}_", drawn[0] if len(drawn) == 1 else drawn or None)
    display.figure_ = artists["ax"][0].figure
    return display


# --- Styles ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Styles:
    """Styles of artists, as given by the user; None or a dict each."""

    curve: dict
    band: dict | None = None
    histogram: dict | None = None
    ref_line: dict | None = None
    scatter: dict | None = None


def without_aliases(style, kind="line"):
    """Arguments of an artist, or None, with full names: "linewidth" for "lw"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.lines import Line2D

    artists = {"line": Line2D, "points": PathCollection, "segments": LineCollection}
    return normalize_kwargs(style, artists[kind])


def line_style(kwargs, curve_kwargs=None):
    """Line properties from `plot` and `curve_kwargs`, without aliases; raises for unknown names."""
    from matplotlib.lines import Line2D

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
    from matplotlib.colors import to_hex

    used = {to_hex(line.get_color()) for line in ax.lines}
    free = [color for color in COLORS if color not in used]
    return free[0] if free else COLORS[len(ax.lines) % len(COLORS)]


def draw_reference(ax, label, **kwargs):
    """The diagonal, once per axes and name."""
    for line in ax.lines:
        if line.get_label() == label:
            return line
    style = {"color": GREY, "linestyle": ":", "linewidth": 1.2, "label": label, "zorder": 1.5}
    return ax.plot([0, 1], [0, 1], **{**style, **kwargs})[0]


def ends_of(intervals):
    """Centres of intervals, and the lengths of their two arms for ``Axes.errorbar``."""
    low, centre, high = np.array(
        [[interval.low, interval.estimate, interval.high] for interval in intervals]
    ).T
    return centre, np.maximum([centre - low, high - centre], 0)


# --- Scales of probabilities that show crowded scores ---------------------------------------------


_BINS = 40  # of a histogram
_MARGIN = 0.02  # beyond 0 and 1, as a fraction of the axis, so that both ends are visible
# Ticks of a square-root scale that stretches 0, and where less fits: in narrow axes, or near 100 %.
_TICKS, _NARROW_TICKS = (0, 0.01, 0.1, 0.25, 0.5, 1), (0, 0.1, 0.5, 1)


def signed_root(p):
    """Square root, odd around 0."""
    return np.sign(p) * np.sqrt(np.abs(p))


def signed_square(place):
    """Inverse of `signed_root`."""
    return np.sign(place) * place**2


def root_from_one(p):
    """The square root that stretches the end 1."""
    return 1 - signed_root(1 - p)


def square_from_one(place):
    """Inverse of `root_from_one`."""
    return 1 - signed_square(1 - place)


def scale_panels(axes, rows, scale):
    """One scale of both axes for all panels, and one for their histograms.

    It depends on the (scores, weight) in `rows` and on those of earlier displays. "auto" is linear
    unless the scores are crowded near 0 or near 1. They are crowded near 0 if 95 % of them lie
    below .2, or 95 % below .5 and three quarters below .1; near 1 likewise. Then it is "logit" if
    95 % lie below .02, or if displays on the same axes are crowded at different ends, and no score
    is 0 or 1; else "sqrt". A scale requested by name is kept.
    """
    check_choice(scale, "scale", choices=("auto", "linear", "logit", "sqrt"))
    rows = rows or [(np.array([0.25, 0.5, 0.75]), np.ones(3))]  # without scores: not crowded
    quantiles = _quantiles(*map(np.concatenate, zip(*rows, strict=True)))
    for ax in axes:
        # Stored on the axes themselves: a table of axes would keep the figures in memory.
        ax.skcalib_scores = [*getattr(ax, "skcalib_scores", ()), *rows]
        ax.skcalib_quantiles = [*getattr(ax, "skcalib_quantiles", ()), quantiles]
        if scale != "auto":
            ax.skcalib_chosen = scale
        known = np.array(ax.skcalib_quantiles)
        ax.skcalib_scale = _choose_scale(known, getattr(ax, "skcalib_chosen", "auto"))
        _set_scale(ax, known, ax.skcalib_scale)


def _quantiles(scores, weight):
    """Smallest score, quantiles .01, .05, .25, .5, .75, .95 and .99, and largest score."""
    scores = np.clip(np.asarray(scores, dtype=np.float64), 0, 1)
    shares = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    if np.min(weight) == np.max(weight):
        inner = np.quantile(scores, shares, method="inverted_cdf")
    else:
        order = np.argsort(scores)
        mass = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
        rank = np.searchsorted(mass, shares * mass[-1])
        inner = scores[order][np.minimum(rank, len(scores) - 1)]
    return scores.min(), *inner, scores.max()


def _choose_scale(quantiles, scale):
    """The scale for the `_quantiles` of all displays, in rows."""
    least, _, q05, q25, _, q75, q95, _, largest = quantiles.T
    at_zero = np.any((q95 < 0.2) | ((q95 < 0.5) & (q75 < 0.1)))
    at_one = np.any((q05 > 0.8) | ((q05 > 0.5) & (q25 > 0.9)))
    inside = least.min() > 0 and largest.max() < 1
    if scale == "logit" and not inside:
        raise ValueError(
            "scale='logit' shows no forecasts of exactly 0 or 1, which occur: use scale='sqrt', or "
            "clip the forecasts."
        )
    if scale != "auto":
        return scale
    if not (at_zero or at_one):
        return "linear"
    very = (at_zero and at_one) or np.any((q95 < 0.02) | (q05 > 0.98))
    return "logit" if very and inside else "sqrt"


def _set_scale(ax, quantiles, scale):
    """Set scale, limits and ticks of both axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogitLocator, NullLocator

    name, options, limits = scale, {}, (-_MARGIN, 1 + _MARGIN)
    if scale == "logit":
        options = {"nonpositive": "clip"}
        limits = min(quantiles[:, 1].min() / 2, 0.1), max((1 + quantiles[:, -2].max()) / 2, 0.9)
        locator = partial(LogitLocator, nbins=4)
    elif scale == "sqrt":
        near_one = quantiles[:, 4].mean() > 0.5  # the medians
        functions = (root_from_one, square_from_one) if near_one else (signed_root, signed_square)
        name, options = "function", {"functions": functions}
        limits = functions[1](np.array(limits))
        ticks = _NARROW_TICKS if width_of(ax) < NARROW or near_one else _TICKS
        locator = partial(FixedLocator, sorted(1 - p for p in ticks) if near_one else ticks)
    if scale != "linear" or ax.get_xscale() != "linear":
        ax.set_xscale(name, **options)
        ax.set_yscale(name, **options)
    if scale != "linear":
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(percent))
            axis.set_minor_locator(NullLocator())
            axis.set_major_locator(locator())
    ax.set(xlim=limits, ylim=limits)


def percent(p, _=None):
    """A probability as a plain percentage, such as 0.1 %."""
    return f"{round(100 * p, 6):.6g} %"


def places_on_axis(ax, p):
    """Probabilities as fractions of the part of the axis that shows probabilities."""
    transform = ax.xaxis.get_transform()
    start, end = transform.transform(np.clip(ax.get_xlim(), 0, 1))
    return (transform.transform(np.asarray(p, dtype=np.float64)) - start) / (end - start)


def probabilities_at(ax, places):
    """Inverse of `places_on_axis`."""
    transform = ax.xaxis.get_transform()
    ends = np.clip(ax.get_xlim(), 0, 1)
    start, end = transform.transform(ends)
    return np.clip(transform.inverted().transform(start + (end - start) * places), *ends)


def bin_edges(ax):
    """Edges of bins that have equal width on the axis."""
    return probabilities_at(ax, np.linspace(0, 1, _BINS + 1))


# --- Histograms of scores, and tables of numbers --------------------------------------------------


_SPIKE = 12  # times the median bin: a taller histogram has a square-root scale


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
    edges = bin_edges(ax)
    for drawn_scores, drawn_weight, drawn_style in inset.skcalib_drawn:
        shares = drawn_weight / drawn_weight.sum()
        inset.hist(np.clip(drawn_scores, edges[0], edges[-1]), edges, weights=shares, **drawn_style)
    root, top = histogram_scale(ax.skcalib_scores, edges)
    if root:
        inset.set_yscale("function", functions=(signed_root, signed_square))
        inset.set_yticks([])
    inset.set_ylim(0, 1.05 * top)
    size = "x-small" if width_of(ax) > NARROW else 6
    inset.set_ylabel("√ share" if root else "Share", fontsize=size)
    return inset


def histogram_scale(rows, edges):
    """Whether histograms of (scores, weight) need square roots, and the largest share in a bin."""
    root, top = False, 0.0
    for scores, weight in rows:
        inside = np.clip(scores, edges[0], edges[-1])
        shares = np.histogram(inside, edges, weights=weight)[0] / weight.sum()
        root = root or shares.max() > _SPIKE * np.median(shares[shares > 0])
        top = max(top, shares.max())
    return root, top


def scores_of(drawn):
    """Scores and weights of all samples of curves or maps, such as those of folds."""
    return tuple(
        np.concatenate([getattr(record, of) for record in drawn]) for of in ("scores", "weight")
    )


# --- Legends --------------------------------------------------------------------------------------


REFERENCE = "Perfectly calibrated"  # the diagonal
UNCHANGED = "Unchanged"  # that of a map
SHARED = "skcalib shared legend"  # of several panels
_NARROW_LEGEND = 4.0  # inches; legends of narrower axes have smaller letters
_BELOW_AXES = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "frameon": False}


def draw_legends(axes, *, below=False, **style):
    """A legend in the best place of each panel, and one of what all panels have in common.

    With `below` all are below the axes, where they cover nothing.
    """
    entries = [legend_entries(ax) for ax in axes]
    common = set.intersection(*({text for _, text in pairs} for pairs in entries))
    outside = (below or len(axes) > 1) and fills_figure(axes)
    if outside:
        common_legend(axes, [entry for entry in entries[0] if entry[1] in common], **style)
    for ax, pairs in zip(axes, entries, strict=True):
        everything = ax is axes[0] and not outside
        panel_pairs = [pair for pair in pairs if everything or pair[1] not in common]
        place_legend(ax, panel_pairs, **(_BELOW_AXES if below else {}), **style)


def once(ax, text):
    """The text of a legend entry, or None if the axes have it."""
    return None if text in ax.get_legend_handles_labels()[1] else text


def legend_entries(ax):
    """Pairs (artist, text) of the artists on the axes that have a label, the diagonal last."""
    entries = zip(*ax.get_legend_handles_labels(), strict=True)
    return sorted(entries, key=lambda entry: entry[1] in (REFERENCE, UNCHANGED))


def fills_figure(axes):
    """Whether the panels are all axes of a figure whose layout makes room for a legend."""
    figure = axes[0].figure
    return figure.get_layout_engine() is not None and set(figure.axes) == set(axes)


def common_legend(axes, entries, **style):
    """One legend for all panels: below them where they fill the figure, else in the first."""
    if not fills_figure(axes):
        return place_legend(axes[0], entries, **style)
    figure = axes[0].figure
    for legend in list(figure.legends):  # of earlier displays
        if legend.get_gid() == SHARED:
            legend.remove()
    if entries:
        columns = 2 if figure.get_figwidth() > 6 else 1
        place = {"loc": "outside lower center", "fontsize": "small", "frameon": False}
        place["ncols"] = columns
        legend = figure.legend(*zip(*entries, strict=True), **{**place, **style})
        legend.set_gid(SHARED)
        _make_opaque(legend)


def place_legend(ax, entries, **style):
    """Legend of (artist, text) pairs in the best place of the axes."""
    if entries:
        size = "small" if width_of(ax) > _NARROW_LEGEND else "x-small"
        place = {"loc": "best", "fontsize": size, "handlelength": 2.4}
        _make_opaque(ax.legend(*zip(*entries, strict=True), **{**place, **style}))


def _make_opaque(legend):
    """Lines of a legend are opaque, where those of the axes are not."""
    from matplotlib.lines import Line2D

    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):
            handle.set_alpha(1)
