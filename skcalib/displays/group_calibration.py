"""Forest plot of the calibration of groups that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._util.formatting import printable
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label
from skcalib._util.validation import check_count
from skcalib.data.problem import ForecastSummary
from skcalib.displays import drawing as draw
from skcalib.displays.display import Display, by_event
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group, take_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

    from skcalib.data.notions import NotionLike
    from skcalib.grouping.by_group import GroupCalibration


class GroupCalibrationDisplay(Display):
    """Forest plot: observed frequency minus mean prediction of each group, with intervals.

    Create one with `from_predictions`, `from_estimator` or `from_sketch`. Or pass the result of
    :func:`~skcalib.calibration_by_group` and call `plot`. The documentation of that function
    defines all numbers.

    - **Difference**: observed frequency minus mean prediction, left of 0 where predictions are too
      high. Intervals hold for all groups at once. The marker is filled where the difference is
      found at the false discovery rate ``1 - confidence_level``, and hollow elsewhere.
    - **At equal scores**: the difference of the frequency from that of all samples with equal
      scores, which no recalibration of the score alone removes.
    - **Shrunken** (``shrunk=True``): the difference, shrunken towards the mean of the groups by an
      amount that depends on its noise. It is a better estimate for a small group, and has no
      interval.

    The number of samples is on the right. There is a panel for each event.

    Parameters
    ----------
    calibrations : GroupCalibrations
        Result of :func:`~skcalib.calibration_by_group`.

    Attributes
    ----------
    differences_, equal_scores_ : ErrorbarContainer, list of ErrorbarContainer or None
        Points and intervals, one for each panel.
    shrunk_ : Line2D, list of Line2D or None
        The shrunken differences.
    ref_line_ : Line2D or list of Line2D
        The line at 0.
    groups_ : list of GroupCalibration
        The groups that are drawn, panel by panel from top to bottom.

    See Also
    --------
    GroupingDisplay : Groups that are learned from features.

    Examples
    --------
    .. plot::
        :alt: Forest plot of two sites: the interval of the south is above zero.

        >>> import numpy as np
        >>> from skcalib import GroupCalibrationDisplay
        >>> rng = np.random.default_rng(0)
        >>> site = rng.choice(["north", "south"], 4000)
        >>> p = rng.uniform(0.1, 0.5, 4000)
        >>> y = rng.random(4000) < p + 0.1 * (site == "south")
        >>> display = GroupCalibrationDisplay.from_predictions(y, p, site)
        >>> [group.name for group in display.groups_ if group.detected]
        ['south']
    """

    def __init__(self, calibrations: GroupCalibrations) -> None:
        self.calibrations = calibrations

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        by: ArrayLike | Mapping[str, ArrayLike] | DataFrame | None = None,
        *,
        notion: NotionLike = "auto",
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        intersections: bool = False,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Forest plot of given probabilities.

        Parameters
        ----------
        by : array-like, data frame or dict of masks
            The groups, as in :func:`~skcalib.calibration_by_group`.
        notion, confidence_level, sample_weight, labels, pos_label, groups, intersections
            As in :func:`~skcalib.calibration_by_group`.

        Raises
        ------
        ValueError
            As :func:`~skcalib.calibration_by_group`.
        """
        calibrations = calibration_by_group(
            y_true,
            y_proba,
            by,
            notion=notion,
            confidence_level=confidence_level,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
            groups=groups,
            intersections=intersections,
        )
        return cls(calibrations).plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_sketch(
        cls,
        sketch: ForecastSummary,
        *,
        notion: NotionLike = "auto",
        confidence_level: float = 0.95,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Forest plot of a sketch with groups, without the samples.

        Parameters
        ----------
        notion, confidence_level, ax, **plot_params
            As in `from_predictions`.

        Raises
        ------
        ValueError
            As `from_predictions`, and for anything but a sketch.
        """
        return cls._of_sketch(
            sketch,
            notion=notion,
            confidence_level=confidence_level,
            ax=ax,
            **plot_params,
        )

    @classmethod
    def _for_rows(cls, options, X, rows, n_samples):
        return options | {"by": take_groups(options.get("by"), rows, n_samples)}

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        equal_scores: bool = True,
        shrunk: bool = False,
        max_groups: int = 40,
        legend: bool = True,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        equal_scores, shrunk, legend : bool
            Whether to draw the differences at equal scores (by default), the shrunken differences
            (not by default) and the legend (by default).
        max_groups : int, default=40
            Maximum number of groups in a panel. If there are more, those with the smallest p-values
            are drawn, in their order, and the title states this.
        """
        panels = by_event(self.calibrations.groups)
        limit = check_count(max_groups, "max_groups")
        drawn = {event: strongest(groups, limit) for event, groups in panels.items()}
        self.groups_ = [group for groups in drawn.values() for group in groups]
        level = self.calibrations.confidence_level
        if ax is None:
            rows = [len(groups) for groups in drawn.values()]
            size = 6.6, 1.1 * len(rows) + 0.42 * sum(rows) + 0.9
            heights = [count + 1 for count in rows]
            axes = draw.new_axes(size, len(rows), height_ratios=heights, sharex=True)
        else:
            axes = draw.panel_axes(ax, len(panels))
        kinds = "differences", "equal_scores", "shrunk", "ref_line"
        artists: dict[str, list] = {part: [] for part in kinds}
        for panel, (event, groups) in zip(axes, drawn.items(), strict=True):
            place = np.arange(len(groups), dtype=np.float64)
            beside = 0.16 if equal_scores else 0.0
            artists["differences"].append(_draw_differences(panel, groups, place - beside, level))
            known = [k for k, group in enumerate(groups) if group.equal_scores is not None]
            if equal_scores and known:
                artists["equal_scores"].append(_draw_equal_scores(panel, groups, known, beside))
            if shrunk:
                style = {"color": "black", "markersize": 9, "markeredgewidth": 1.8, "zorder": 5}
                style["label"] = "Shrunken towards the mean of the groups"
                values = [group.shrunk for group in groups]
                artists["shrunk"] += panel.plot(values, place - beside, "|", **style)
            artists["ref_line"].append(_draw_zero(panel))
            both = equal_scores and bool(known)
            _label(panel, event, groups, len(panels[event]), both=both)
        if legend:
            draw.draw_legends(axes, below=True)
        return draw.keep(self, artists | {"ax": axes})


def strongest(groups: Sequence[GroupCalibration], limit: int) -> list[GroupCalibration]:
    """At most so many groups, those with the smallest p-values, in their order."""
    order = np.argsort([group.pvalue for group in groups], kind="stable")[:limit]
    return [groups[k] for k in sorted(order)]


# --- Drawing of the rows --------------------------------------------------------------------------


def _draw_differences(ax, groups, place, level):
    style = {"color": draw.COLORS[0], "marker": "o", "markersize": 6, "elinewidth": 1.5}
    style["label"] = f"Observed - predicted, {level * 100:g} % for all groups at once"
    filled = f"Filled: found at a false discovery rate of {1 - level:.2g}"
    detected = [group.detected for group in groups]
    differences = [group.difference for group in groups]
    return _draw_intervals(ax, differences, place, detected, filled, style)


def _draw_equal_scores(ax, groups, known, beside):
    """Differences at equal scores, of the groups that have them."""
    style = {"color": draw.COLORS[1], "marker": "D", "markersize": 5, "elinewidth": 1.2}
    style["label"] = "Against all samples with equal scores"
    differences = [groups[k].equal_scores for k in known]
    detected = [groups[k].equal_scores_detected for k in known]
    return _draw_intervals(ax, differences, np.array(known) + beside, detected, None, style)


def _draw_intervals(ax, intervals, place, detected, filled, style):
    """Hollow markers with intervals, filled where a difference is detected."""
    centre, reach = draw.ends_of(intervals)
    hollow = {"linestyle": "none", "capsize": 2.5, "markerfacecolor": "white", "zorder": 3}
    drawn = ax.errorbar(centre, place, xerr=reach, **hollow, **style)
    if any(detected):
        full = {key: style[key] for key in ("color", "marker", "markersize")}
        full |= {"linestyle": "", "zorder": 4, "label": filled}
        ax.plot(centre[detected], place[detected], **full)
    return drawn


def _draw_zero(ax):
    for line in ax.lines:
        if line.get_gid() == "skcalib zero":
            return line
    style = {"linestyle": ":", "linewidth": 1.2, "zorder": 1.5, "gid": "skcalib zero"}
    return ax.axvline(0, color=draw.GREY, **style)


_BOTH = "○ Observed frequency - mean prediction\n◇ Observed frequency - frequency at equal scores"


def _label(ax, event, groups, total, *, both):
    place = np.arange(len(groups))
    ax.set_yticks(place, [_name(group.name) for group in groups])
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
    for child in list(ax.child_axes):
        if child.get_label() == "skcalib counts":
            child.remove()
    right = ax.secondary_yaxis("right", label="skcalib counts")
    right.set_yticks(place, [f"n = {group.n_samples:,}" for group in groups], fontsize="small")
    right.tick_params(length=0, labelcolor=draw.GREY)
    ax.grid(axis="x", color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)


def _name(text):
    text = printable(text)
    text = text if len(text) <= 32 else f"{text[:31]}…"
    return text.replace("$", r"\$")
