"""Drawing of forest plots of groups. Import this module inside methods only."""

import numpy as np

from skcalib._util.formatting import printable
from skcalib.displays import _plotting as draw

_GREY = "0.35"
_BOTH = "○ Observed frequency - mean prediction\n◇ Observed frequency - frequency at equal scores"


def draw_groups(panels, totals, ax, *, level, equal_scores, shrunk, legend):
    """Lists of artists by their kind, for the groups of each event."""
    if ax is None:
        rows = [len(groups) for groups in panels.values()]
        size = 6.6, 1.1 * len(rows) + 0.42 * sum(rows) + 0.3
        how = {"height_ratios": [count + 1 for count in rows], "sharex": True}
        axes = draw.new_axes(size, len(rows), **how)
    else:
        axes = draw.panel_axes(ax, len(panels))
    artists = {part: [] for part in ("differences", "equal_scores", "shrunk", "ref_line")}
    for panel, (event, groups) in zip(axes, panels.items(), strict=True):
        place = np.arange(len(groups), dtype=np.float64)
        beside = 0.16 if equal_scores else 0.0
        artists["differences"].append(_draw_differences(panel, groups, place - beside, level))
        second = _draw_equal_scores(panel, groups, place + beside) if equal_scores else []
        artists["equal_scores"] += second
        if shrunk:
            artists["shrunk"].append(_draw_shrunk(panel, groups, place - beside))
        artists["ref_line"].append(_draw_zero(panel))
        _label(panel, event, groups, totals[event], both=bool(second))
    if legend:
        draw.draw_legends(axes)
    return artists | {"ax": axes}


def _draw_differences(ax, groups, place, level):
    text = f"Observed - predicted, {level * 100:g} % for all groups at once"
    found = [one.detected for one in groups]
    filled = f"Filled: found at a false discovery rate of {1 - level:.2g}"
    style = {"color": draw.COLORS[0], "marker": "o", "markersize": 6, "elinewidth": 1.5}
    return _draw_intervals(
        ax, [one.difference for one in groups], place, found, filled, text, style
    )


def _draw_equal_scores(ax, groups, place):
    known = [k for k, one in enumerate(groups) if one.equal_scores is not None]
    if not known:
        return []
    values = [groups[k].equal_scores for k in known]
    found = [groups[k].equal_scores_detected for k in known]
    style = {"color": draw.COLORS[1], "marker": "D", "markersize": 5, "elinewidth": 1.2}
    text = "Against all samples with equal scores"
    return [_draw_intervals(ax, values, place[known], found, None, text, style)]


def _draw_intervals(ax, values, place, found, filled, text, style):
    """Hollow markers with intervals, filled where a difference is found."""
    centre, reach = draw.ends_of(values)
    hollow = {"linestyle": "none", "capsize": 2.5, "markerfacecolor": "white", "zorder": 3}
    drawn = ax.errorbar(centre, place, xerr=reach, label=text, **hollow, **style)
    if any(found):
        style = {key: style[key] for key in ("color", "marker", "markersize")}
        style |= {"linestyle": "", "zorder": 4, "label": filled}
        ax.plot(centre[found], place[found], **style)
    return drawn


def _draw_shrunk(ax, groups, place):
    style = {"color": "black", "markersize": 9, "markeredgewidth": 1.8, "zorder": 5}
    values = [one.shrunk for one in groups]
    return ax.plot(values, place, "|", label="Shrunken towards the mean of the groups", **style)[0]


def _draw_zero(ax):
    for line in ax.lines:
        if line.get_gid() == "skcalib zero":
            return line
    return ax.axvline(0, color=_GREY, linestyle=":", linewidth=1.2, zorder=1.5, gid="skcalib zero")


def _label(ax, event, groups, total, *, both):
    place = np.arange(len(groups))
    ax.set_yticks(place, [_name(one.name) for one in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel(_BOTH if both else "Observed frequency - mean prediction")
    ax.tick_params(labelbottom=True)
    ax.locator_params(axis="x", nbins=6)
    low, high = ax.get_xlim()
    ends = min(low, -0.02 * (high - low)), max(high, 0.02 * (high - low))
    ax.set_xlim(ends, auto=None)  # a panel that shares the axis may need more
    title = [draw.event_text(event)] if event else []
    if total > len(groups):
        title.append(f"{len(groups)} of {total:,} groups: the smallest p-values")
    if title:
        ax.set_title("\n".join(title), fontsize="medium")
    for one in list(ax.child_axes):
        if one.get_label() == "skcalib counts":
            one.remove()
    right = ax.secondary_yaxis("right", label="skcalib counts")
    right.set_yticks(place, [f"n = {one.n_samples:,}" for one in groups], fontsize="small")
    right.tick_params(length=0, labelcolor=_GREY)
    ax.grid(axis="x", color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)


def _name(text):
    text = printable(text)
    text = text if len(text) <= 32 else f"{text[:31]}…"
    return text.replace("$", r"\$")
