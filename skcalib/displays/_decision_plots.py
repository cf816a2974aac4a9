"""Drawing of cost and net benefit over thresholds. Import this module inside methods only."""

import numpy as np

from skcalib._util.formatting import numbers
from skcalib.displays import _plotting as draw

_FEW = 40  # a curve with at most this many points has markers
_REGRET = "#d55e00"  # as the calibration error in `DecompositionDisplay`
_NEAR = 0.05  # an axis that starts or ends this near to 0 or 1 extends to it
_GREY = {"color": "0.35", "zorder": 1.5}


def draw_murphy(curves, ax, name, *, level, ref_line, legend, styles):
    """Lists of artists by their kind; without bands if `level` is None."""
    axes, panels = _panels(ax, curves, name)
    artists = {part: [] for part in ("line", "ref_line", "remaining", "regret", "band")}
    for panel, (event, own) in zip(axes, panels.items(), strict=True):
        scores = numbers(*(curve.brier for curve in own))
        names = [curve.name if name is None else name for curve in own]
        labels = [f"{one}\nBrier score\n{score}" for one, score in zip(names, scores, strict=True)]
        lines = _draw_curves(panel, own, labels, styles)
        artists["line"] += lines
        if ref_line:
            artists["ref_line"] += _draw_references(panel, own, lines, "No model", styles)
        for curve, line in zip(own, lines, strict=True):
            if curve.remaining is not None:
                artists["remaining"].append(_draw_remaining(panel, curve, line))
                artists["regret"].append(_draw_regret(panel, curve))
        artists["band"] += _draw_bands(panel, own, lines, level, styles)
        _label_axes(panel, event, "Mean cost")
        panel.autoscale(axis="y")
        panel.set_ylim(bottom=0)
    if legend:
        _draw_legends(axes)
    return artists | {"ax": axes}


def draw_net_benefit(curves, ax, name, *, level, ref_line, legend, styles, standardized):
    """Lists of artists by their kind; without bands if `level` is None."""
    axes, panels = _panels(ax, curves, name)
    artists = {part: [] for part in ("line", "treat_all", "treat_none", "band")}
    for panel, (event, own) in zip(axes, panels.items(), strict=True):
        # The limit of an earlier display on the same axes is kept if it is higher.
        top = panel.get_ylim()[1] if draw.next_number(panel) else 0.0
        labels = [curve.name if name is None else name for curve in own]
        lines = _draw_curves(panel, own, labels, styles)
        artists["line"] += lines
        if ref_line:
            artists["treat_all"] += _draw_references(panel, own, lines, "Treat all", styles)
            artists["treat_none"].append(_draw_zero(panel, own[0].threshold, styles))
        artists["band"] += _draw_bands(panel, own, lines, level, styles)
        _label_axes(panel, event, "Standardized net benefit" if standardized else "Net benefit")
        top = max(top, *(1.08 * _largest(curve) for curve in own)) or 0.01  # no event occurs
        panel.set_ylim(-0.1 * top, top)
    if legend:
        _draw_legends(axes)
    return artists | {"ax": axes}


def _panels(ax, curves, name):
    """Axes of the panels, and the curves of each panel by their event."""
    if name is not None and len({curve.name for curve in curves}) > 1:
        raise ValueError(
            f"name={name!r} is for a single model: leave it out, as several models have their own "
            "names."
        )
    panels = {}
    for curve in curves:
        panels.setdefault(curve.event, []).append(curve)
    if ax is None and len(panels) == 1:
        ax = draw.new_axes((6.4, 4.6))
    return draw.panel_axes(ax, len(panels)), panels


def _label_axes(ax, event, quantity):
    of = f" of {draw.event_text(event)}" if event else ""
    top_label = event == "top label"
    threshold = "Threshold of the confidence" if top_label else f"Threshold probability{of}"
    ax.set(xlabel=threshold, ylabel=quantity)
    ax.autoscale(axis="x", tight=True)  # of all displays on the axes
    first, last = ax.get_xlim()
    left = 0.0 if first < _NEAR * last else first
    ax.set_xlim(left, 1.0 if 1 - last < _NEAR * (1 - first) else last)


def _draw_legends(axes):
    below = axes[0].figure.get_layout_engine() is not None
    draw.draw_legends(axes, ncols=2 if below and len(axes) == 1 else 1)


def _draw_curves(ax, curves, labels, styles):
    lines = []
    for curve, label in zip(curves, labels, strict=True):
        style, marker = draw.numbered(draw.next_number(ax))
        style |= {"color": draw.next_color(ax), "label": label, "linewidth": 1.6, "zorder": 3}
        if len(curve.threshold) <= _FEW:
            style |= {"marker": marker, "markersize": 4}
        lines += ax.plot(curve.threshold, curve.estimate, **{**style, **styles.curve})
    return lines


def _draw_bands(ax, curves, lines, level, styles):
    bands = []
    for curve, line in zip(curves, lines, strict=True):
        if level is not None and np.isfinite(curve.low).all():  # a single sample has no interval
            style = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0, "zorder": 2}
            style |= {"label": _once(ax, f"{level * 100:g} % confidence band")}
            style |= styles.band or {}
            bands.append(ax.fill_between(curve.threshold, curve.low, curve.high, **style))
    return bands


def _once(ax, text):
    """The text of a legend entry, or None if the axes have it."""
    return None if text in ax.get_legend_handles_labels()[1] else text


def _draw_remaining(ax, curve, line):
    """The cost after recalibration."""
    style = {"color": line.get_color(), "linestyle": "--", "linewidth": 1.0, "zorder": 3}
    style |= {"label": _once(ax, "After recalibration")}
    return ax.plot(curve.threshold, curve.remaining, **style)[0]


def _draw_regret(ax, curve):
    """The area between the cost and the cost after recalibration, where the first is larger."""
    style = {"color": _REGRET, "alpha": 0.5, "linewidth": 0, "zorder": 2.5}
    style |= {"where": curve.regret > 0, "interpolate": True}
    style["label"] = _once(ax, "Regret of miscalibration")
    return ax.fill_between(curve.threshold, curve.remaining, curve.estimate, **style)


def _draw_references(ax, curves, lines, text, styles):
    """The reference of each curve, in its colour if the event rates of the curves differ."""
    different = not np.allclose([curve.rate for curve in curves], curves[0].rate)
    found = []
    for curve, line in zip(curves, lines, strict=True):
        style = {**_GREY, "linestyle": ":", "linewidth": 1.3}
        if different:
            style["color"] = line.get_color()
        style |= draw.without_aliases(styles.ref_line)
        mark = f"{text} {curve.rate:.9g}"
        found.append(_draw_once(ax, curve.threshold, curve.reference, text, mark, style))
    return list(dict.fromkeys(found))


def _draw_zero(ax, threshold, styles):
    text, style = "Treat none", {**_GREY, "linestyle": "-", "linewidth": 0.8}
    style |= draw.without_aliases(styles.ref_line)
    return _draw_once(ax, threshold, np.zeros(len(threshold)), text, text, style)


def _draw_once(ax, x, y, text, mark, style):
    """A line, or the line of the same mark of an earlier curve, extended to these points."""
    for line in ax.lines:
        if line.get_gid() == mark:
            points = np.concatenate([line.get_xydata(), np.column_stack([x, y])])
            line.set_data(*points[np.unique(points[:, 0], return_index=True)[1]].T)
            return line
    return ax.plot(x, y, **{"label": _once(ax, text), "gid": mark, **style})[0]


def _largest(curve):
    """The largest net benefit of the curve and its band there, and of "treat all"."""
    best = curve.estimate.argmax()
    high = curve.high[best] if np.isfinite(curve.high[best]) else curve.estimate[best]
    return max(high, curve.reference.max())
