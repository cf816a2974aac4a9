"""Forest plot of the calibration of groups that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label
from skcalib._util.validation import check_count
from skcalib.displays._constructors import Display
from skcalib.grouping.by_group import (
    GroupCalibration,
    GroupCalibrations,
    calibration_by_group,
    take_groups,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from skcalib.data.notions import NotionLike


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
        >>> [one.name for one in display.groups_ if one.detected]
        ['south']
    """

    _constructors: ClassVar = {
        "from_estimator": {"labels"},
        "from_sketch": {
            "by",
            "sample_weight",
            "labels",
            "pos_label",
            "groups",
            "intersections",
        },
    }

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
        data: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
        data |= {"pos_label": pos_label, "groups": groups, "confidence_level": confidence_level}
        data |= {"intersections": intersections}
        found = calibration_by_group(y_true, y_proba, by, notion=notion, **data)
        return cls(found).plot(ax=ax, **plot_params)

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
        from skcalib.displays import _group_plots, _plotting

        panels: dict[str, list[GroupCalibration]] = {}
        for one in self.calibrations.groups:
            panels.setdefault(one.event, []).append(one)
        most = check_count(max_groups, "max_groups")
        drawn = {event: _selected(groups, most) for event, groups in panels.items()}
        self.groups_ = [one for groups in drawn.values() for one in groups]
        artists = _group_plots.draw_groups(
            drawn,
            {event: len(groups) for event, groups in panels.items()},
            ax,
            level=self.calibrations.confidence_level,
            equal_scores=equal_scores,
            shrunk=shrunk,
            legend=legend,
        )
        return _plotting.keep(self, artists)


def _selected(groups, most):
    if len(groups) <= most:
        return groups
    strongest = np.argsort([one.pvalue for one in groups], kind="stable")[:most]
    return [groups[k] for k in sorted(strongest)]
