"""Drawing of streams over time. Import this module inside methods only."""

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from skcalib.displays import _plotting as draw

_GREY = "0.35"
_LN10 = np.log(10)
_LOWEST = -3.0  # powers of ten below 1 that are drawn at least
_ALARM = draw.COLORS[1]
_FEW = 40  # windows with markers of full size


def draw_stream(path, windows, ax, *, alpha, alarms, level, name, legend, style):
    """Lists of artists by their kind, and the axes of the panels."""
    monitor = windows is not None
    if ax is None:
        axes = draw.new_axes((6.6, 5.2), 2, sharex=True) if monitor else draw.new_axes((6.6, 3.6))
    else:
        axes = draw.panel_axes(ax, 2 if monitor else 1)
    top = axes[0]
    threshold = -np.log10(alpha)
    label = name or ("Statistic" if monitor else "e-value")
    line = _draw_path(top, path, threshold, {"label": label, **style})
    limit_style = {"color": _GREY, "linestyle": "--", "linewidth": 1.2, "zorder": 2}
    limit = top.axhline(threshold, **limit_style, label=f"Threshold {1 / alpha:,.6g}")
    drawn = _draw_alarms(top, alarms, label="Alarm" if monitor else "First rejection")
    top.set_ylabel("Evidence of a change" if monitor else "e-value")
    top.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    top.yaxis.set_major_formatter(FuncFormatter(_power))
    artists = {"line": [line], "threshold": [limit], "alarms": [drawn], "differences": []}
    if monitor:
        artists["differences"] = [_draw_windows(axes[1], windows, level)]
        _draw_alarms(axes[1], alarms, label=None)
        top.tick_params(labelbottom=False)
    for one in axes:
        one.set_xlim(0, 1.02 * max(1.0, np.nanmax(path[:, 0])))
        one.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        one.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        one.grid(axis="y", color="0.92", linewidth=0.8)
        one.set_axisbelow(True)
    axes[-1].set_xlabel("Number of samples")
    if legend:
        roomy = axes[0].figure.get_layout_engine() is not None
        entries = [one for ax in axes for one in zip(*ax.get_legend_handles_labels(), strict=True)]
        if monitor and roomy:
            draw.draw_common_legend(axes, entries, outside=True)
        else:
            draw.draw_legends(axes, ncols=2)
    return artists | {"ax": axes}


def _draw_path(ax, path, threshold, style):
    """The statistic in powers of ten; infinite values are at the upper end."""
    power = path[:, 1] / _LN10
    finite = power[np.isfinite(power)]
    top = max(threshold, finite.max(initial=0.0)) + 0.5
    bottom = min(-0.5, max(finite.min(initial=0.0) - 0.3, _LOWEST))
    shown = np.where(power == np.inf, top, np.where(power == -np.inf, np.nan, power))
    style = {"color": draw.COLORS[0], "linewidth": 1.4, "zorder": 3, **style}
    line = ax.plot(path[:, 0], shown, **style)[0]
    if len(finite) and finite.min() < _LOWEST:
        bottom = finite.min() - 0.3
    ax.set_ylim(bottom, top)
    return line


def _draw_alarms(ax, alarms, *, label):
    if not len(alarms):
        return None
    style = {"color": _ALARM, "linewidth": 1.0, "alpha": 0.8, "zorder": 2.5, "label": label}
    return ax.vlines(alarms, 0, 1, transform=ax.get_xaxis_transform(), **style)


def _draw_windows(ax, windows, level):
    ax.axhline(0, color=_GREY, linestyle=":", linewidth=1.2, zorder=1.5)
    ax.set_ylabel("Observed - forecast")
    if not windows:
        return None
    centre, reach = draw.ends_of([one.difference(level) for one in windows])
    place = [(one.first + one.last) / 2 for one in windows]
    style = {"markersize": 4.5, "elinewidth": 1.2, "capsize": 2}
    if len(windows) > _FEW:
        style = {"markersize": 2.5, "elinewidth": 0.8, "capsize": 0}
    style |= {"color": draw.COLORS[0], "linestyle": "none", "marker": "o", "zorder": 3}
    style["label"] = f"Window, {level * 100:g} % interval"
    return ax.errorbar(place, centre, yerr=np.where(np.isfinite(reach), reach, 0), **style)


def _power(value, _):
    """A power of ten as a tick: numbers up to 1,000, and beyond them the power."""
    if value != int(value):
        return ""
    power = int(value)
    return f"{10.0**power:,g}" if -3 <= power <= 3 else f"$10^{{{power}}}$"
