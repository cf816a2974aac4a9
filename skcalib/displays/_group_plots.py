"""Drawing of forest plots of groups. Import this module inside methods only."""

import numpy as np

from skcalib._formatting import printable
from skcalib.displays._plotting import COLORS, draw_legends, event_text, panel_axes, stacked_axes

_GREY = "0.35"


def draw_groups(panels, totals, ax, *, level, equal_scores, shrunk, legend):
    """Lists of artists by their kind, for the groups of each event."""
    if ax is None:
        axes = stacked_axes([len(groups) for groups in panels.values()])
    else:
        axes = panel_axes(ax, len(panels))
    artists = {part: [] for part in ("differences", "equal_scores", "shrunk", "ref_line")}
    for panel, (event, groups) in zip(axes, panels.items(), strict=True):
        place = np.arange(len(groups), dtype=np.float64)
        beside = 0.16 if equal_scores else 0.0
        artists["differences"].append(_draw_differences(panel, groups, place - beside, level))
        if equal_scores:
            artists["equal_scores"] += _draw_equal_scores(panel, groups, place + beside)
        if shrunk:
            artists["shrunk"].append(_draw_shrunk(panel, groups, place - beside))
        artists["ref_line"].append(_draw_zero(panel))
        _label(panel, event, groups, totals[event])
    if legend:
        draw_legends(axes)
    return artists | {"ax": axes}


def _bars(ax, place, intervals, **style):
    centre = np.array([one.estimate for one in intervals])
    ends = np.array([[one.low, one.high] for one in intervals]).T
    reach = np.maximum([centre - ends[0], ends[1] - centre], 0)
    style |= {"linestyle": "none", "capsize": 2.5, "markerfacecolor": "white", "zorder": 3}
    return ax.errorbar(centre, place, xerr=reach, **style)


def _draw_differences(ax, groups, place, level):
    style = {"color": COLORS[0], "marker": "o", "markersize": 6, "elinewidth": 1.5}
    style["label"] = f"Observed - predicted, {level * 100:g} % for all groups at once"
    drawn = _bars(ax, place, [one.difference for one in groups], **style)
    found = [k for k, one in enumerate(groups) if one.detected]
    if found:
        centre = [groups[k].difference.estimate for k in found]
        text = f"Filled: found at a false discovery rate of {1 - level:.2g}"
        style = {"color": COLORS[0], "markersize": 6, "zorder": 4, "label": text}
        ax.plot(centre, place[found], "o", **style)
    return drawn


def _draw_equal_scores(ax, groups, place):
    known = [k for k, one in enumerate(groups) if one.equal_scores is not None]
    if not known:
        return []
    style = {"color": COLORS[1], "marker": "D", "markersize": 5, "elinewidth": 1.2}
    style["label"] = "Against all samples with equal scores"
    drawn = _bars(ax, place[known], [groups[k].equal_scores for k in known], **style)
    found = [k for k in known if groups[k].equal_scores_detected]
    centre = [groups[k].equal_scores.estimate for k in found]
    if found:
        ax.plot(centre, place[found], "D", color=COLORS[1], markersize=5, zorder=4)
    return [drawn]


def _draw_shrunk(ax, groups, place):
    style = {"color": "black", "markersize": 9, "markeredgewidth": 1.8, "zorder": 5}
    values = [one.shrunk for one in groups]
    return ax.plot(values, place, "|", label="Shrunken towards the mean of the groups", **style)[0]


def _draw_zero(ax):
    for line in ax.lines:
        if line.get_gid() == "skcalib zero":
            return line
    return ax.axvline(0, color=_GREY, linestyle=":", linewidth=1.2, zorder=1.5, gid="skcalib zero")


def _label(ax, event, groups, total):
    place = np.arange(len(groups))
    ax.set_yticks(place, [_name(one.name) for one in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel("Observed frequency - mean prediction")
    ax.tick_params(labelbottom=True)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, -0.02 * (high - low)), max(high, 0.02 * (high - low)))
    title = [event_text(event)] if event else []
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
