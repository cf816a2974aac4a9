"""Diagrams of groups: those that the user names, and those that are learned at equal scores.

`GroupCalibrationDisplay` draws the numbers of `calibration_by_group`, and `GroupingDisplay` the
level sets and regions of a fitted `GroupingLossEstimator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcalib._util.formatting import Record, decimals_of, printable
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import (
    CV,
    ArrayLike,
    AxesLike,
    Label,
    MatrixLike,
    PartitionerLike,
    RandomState,
    ResponseMethod,
    Strategy,
)
from skcalib._util.validation import check_count, check_indices, weighted_features, weighted_rows
from skcalib.data.features import encode_features
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.problem import ForecastSummary, check_problem
from skcalib.displays import base
from skcalib.estimators.classifiers import name_with_response
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group, take_groups
from skcalib.grouping.estimator import check_regions
from skcalib.stats.means import MeanInterval, clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

    from skcalib.grouping.by_group import GroupCalibration
    from skcalib.scores import LossLike
    from skcalib.smoothers import SmootherLike

__all__ = ["GroupCalibrationDisplay", "GroupingDiagram", "GroupingDisplay"]


# --- Groups that the user names -------------------------------------------------------------------


class GroupCalibrationDisplay(base.Display):
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
        panels = base.grouped(self.calibrations.groups)
        limit = check_count(max_groups, "max_groups")
        drawn = {event: strongest(groups, limit) for event, groups in panels.items()}
        self.groups_ = [group for groups in drawn.values() for group in groups]
        level = self.calibrations.confidence_level
        rows = [len(groups) for groups in drawn.values()]
        axes = base.panel_axes(
            ax,
            len(panels),
            size=(6.6, 1.1 * len(rows) + 0.42 * sum(rows) + 0.9),
            height_ratios=[count + 1 for count in rows],
            sharex=True,
        )
        kinds = "differences", "equal_scores", "shrunk", "ref_line"
        artists: dict[str, list] = {part: [] for part in kinds}
        for panel, (event, groups) in zip(axes, drawn.items(), strict=True):
            place = np.arange(len(groups), dtype=np.float64)
            beside = place - (0.16 if equal_scores else 0.0)
            style = {
                "color": base.COLORS[0],
                "marker": "o",
                "markersize": 6,
                "elinewidth": 1.5,
                "label": f"Observed - predicted, {level * 100:g} % for all groups at once",
            }
            differences = _draw_intervals(
                panel,
                [group.difference for group in groups],
                beside,
                [group.detected for group in groups],
                style,
                f"Filled: found at a false discovery rate of {1 - level:.2g}",
            )
            artists["differences"].append(differences)
            known = [k for k, group in enumerate(groups) if group.equal_scores is not None]
            if equal_scores and known:
                style = {
                    "color": base.COLORS[1],
                    "marker": "D",
                    "markersize": 5,
                    "elinewidth": 1.2,
                    "label": "Against all samples with equal scores",
                }
                differences = _draw_intervals(
                    panel,
                    [groups[k].equal_scores for k in known],
                    place[known] + 0.16,
                    [groups[k].equal_scores_detected for k in known],
                    style,
                )
                artists["equal_scores"].append(differences)
            if shrunk:
                style = {
                    "color": "black",
                    "markersize": 9,
                    "markeredgewidth": 1.8,
                    "zorder": 5,
                    "label": "Shrunken towards the mean of the groups",
                }
                values = [group.shrunk for group in groups]
                artists["shrunk"] += panel.plot(values, beside, "|", **style)
            earlier = [line for line in panel.lines if line.get_gid() == _ZERO]
            zero = earlier[0] if earlier else panel.axvline(0, gid=_ZERO, **base.DOTTED)
            artists["ref_line"].append(zero)
            both = equal_scores and bool(known)
            _label(panel, event, groups, len(panels[event]), both=both)
        if legend:
            base.draw_legends(axes, below=True)
        return base.set_artists(self, axes, artists)


def strongest(groups: Sequence[GroupCalibration], limit: int) -> list[GroupCalibration]:
    """At most so many groups, those with the smallest p-values, in their order."""
    order = np.argsort([group.pvalue for group in groups], kind="stable")[:limit]
    return [groups[k] for k in sorted(order)]


_ZERO = "skcalib zero"  # group id of the line at 0


def _draw_intervals(ax, intervals, place, detected, style, filled=None):
    """Hollow markers with intervals, filled where a difference is detected."""
    centre, reach = base.ends_of(intervals)
    hollow = {"linestyle": "none", "capsize": 2.5, "markerfacecolor": "white", "zorder": 3}
    drawn = ax.errorbar(centre, place, xerr=reach, **hollow, **style)
    if any(detected):
        full = {key: style[key] for key in ("color", "marker", "markersize")}
        full |= {"linestyle": "", "zorder": 4, "label": filled}
        ax.plot(centre[detected], place[detected], **full)
    return drawn


_BOTH = "○ Observed frequency - mean prediction\n◇ Observed frequency - frequency at equal scores"


def _label(ax, event, groups, total, *, both):
    place = np.arange(len(groups))
    names = [printable(group.name) for group in groups]
    names = [name if len(name) <= 32 else f"{name[:31]}…" for name in names]
    ax.set_yticks(place, [name.replace("$", r"\$") for name in names])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel(_BOTH if both else "Observed frequency - mean prediction")
    ax.tick_params(labelbottom=True)
    ax.locator_params(axis="x", nbins=6)
    low, high = ax.get_xlim()
    ends = min(low, -0.02 * (high - low)), max(high, 0.02 * (high - low))
    ax.set_xlim(ends, auto=None)  # a panel that shares the axis may need more
    lines = [base.event_text(event)] if event else []
    if total > len(groups):
        lines.append(f"{len(groups)} of {total:,} groups: the smallest p-values")
    if lines:
        ax.set_title("\n".join(lines), fontsize="medium")
    for child in [child for child in ax.child_axes if child.get_label() == "skcalib counts"]:
        child.remove()
    right = ax.secondary_yaxis("right", label="skcalib counts")
    right.set_yticks(place, [f"n = {group.n_samples:,}" for group in groups], fontsize="small")
    right.tick_params(length=0, labelcolor=base.GREY)
    ax.grid(axis="x", color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)


# --- Groups with equal scores ---------------------------------------------------------------------


class GroupingDisplay(base.DiagonalDisplay):
    r"""Grouping diagram: differences between samples with equal scores (L23, figure 5).

    Create one with `from_estimator`, `from_predictions`, or `from_grouping_estimator`.

    Samples with similar scores form a level set. The **curve** joins the level sets, each at its
    mean score and mean outcome. The features split each level set into **regions**, by default two.
    A region is drawn next to the mean score of its level set. Its height is the mean outcome that
    it would have at the scores of the level set, so its distance from the curve is its difference
    from all samples with equal scores. If scores vary within the level set, this difference is
    adjusted with the calibration curve. The area of a region shows its number of samples.

    - Blue, upward: the interval lies above the level set. Even a calibrated score is too low for
      these samples.
    - Vermilion, downward: the interval lies below; a calibrated score is too high.
    - Grey, a dot: the interval contains the mean outcome of the level set; no significant
      difference.

    The intervals (Clopper-Pearson) hold simultaneously for all regions of a panel. Regions are
    learned on one half of the samples and drawn with the other half, so the colours are not an
    artefact of the search. The histogram shows all samples.

    The title has the lower bound of the grouping loss with its interval, and
    ``calibration_error_corrected_`` of `GroupingLossEstimator`: the error of the level sets plus
    the part that binning removes (L23 prop. C.2). A bound that is not above zero is shown as "none
    detected"; there may still be grouping loss that these regions miss.

    Parameters
    ----------
    diagrams : list of GroupingDiagram
        One record per panel: ``regions`` (records as in ``GroupingLossEstimator.regions_``) with
        ``score``, ``outcome``, ``low``, ``high``, ``expected`` and ``side``, as drawn; the level
        sets ``prob_pred`` and ``prob_true``; ``grouping_loss``, and ``calibration_error`` corrected
        for binning.
    unit : str, default="Brier score"
        Name and unit of the loss in the title.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The calibration curve; a list where there are several panels.
    scatter_ : PathCollection or list of PathCollection
        The regions, in the order of ``diagrams[k].regions``: by level set.
    interval_ : LineCollection or list of LineCollection
        Their intervals.
    ref_line_ : Line2D, list of Line2D or None
        The diagonal.
    ax_hist_ : Axes, list of Axes or None
        The thin axes above, with the histogram of the forecasts.

    See Also
    --------
    ReliabilityDisplay : The calibration curve alone, without level sets to choose.
    DecompositionDisplay : Calibration and grouping as parts of the loss.

    Examples
    --------
    .. plot::
        :alt: Level sets, their regions and the calibration curve.

        >>> from skcalib import GroupingDisplay
        >>> from skcalib.datasets import make_grouping_problem
        >>> data = make_grouping_problem(20_000, random_state=0)
        >>> display = GroupingDisplay.from_predictions(
        ...     data.y, data.y_proba, data.X, name="Simulated")
        >>> print(display.ax_.get_title())
        Simulated
        Grouping loss ≥ 0.00...
        Calibration error... (Brier score)
    """

    _instead: ClassVar = (
        ", or draw a fitted GroupingLossEstimator with GroupingDisplay.from_grouping_estimator"
    )

    _parts = ("line", "scatter", "interval", "ref_line", "ax_hist")

    def __init__(
        self,
        diagrams: list[GroupingDiagram],
        *,
        name: str | None = None,
        confidence_level: float = 0.95,
        unit: str = "Brier score",
    ) -> None:
        self.diagrams = list(diagrams)
        self.name = name
        self.confidence_level = confidence_level
        self.unit = unit

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        X: MatrixLike = None,
        *,
        regions: ArrayLike | None = None,
        partitioner: PartitionerLike = "stump",
        n_bins: int = 10,
        strategy: Strategy = "quantile",
        region_ratio: int = 12,
        notion: NotionLike = "auto",
        loss: LossLike = "brier",
        smoother: SmootherLike = None,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Grouping diagram of given probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Features, or any representation, possibly of features that the classifier does not use.
            Columns are read as in `GroupingLossEstimator`. May be None if `regions` are given.
        notion : str or Notion, default="auto"
            As in `ReliabilityDisplay.from_predictions`.
        regions : array-like of shape (n_samples,), default=None
            Regions known in advance, such as a clinic or an age group, and not derived from these
            labels. All samples are then drawn.
        partitioner : {"stump", "kmeans"}, estimator or None, default="stump"
            How a level set is split into regions. "stump" makes two halves at the median of a
            feature; others are as in `GroupingLossEstimator`. None is a tree with many regions, and
            ``KMeans(2)`` the other partition of L23.
        n_bins : int, default=10
            Largest number of level sets, 10 as in the diagrams of L23; fewer if their regions
            would be smaller than `region_ratio`.
        strategy : {"quantile", "uniform"}, default="quantile"
            Level sets of equal mass or equal width.
        region_ratio : int, default=12
            Target number of samples in a region.
        loss : {"brier", "log", "spherical", "rps"} or ProperScore, default="brier"
            The proper score of the numbers in the title.
        smoother : None, str, Smoother or classifier, default=None
            The continuous calibration curve behind the grouping loss, as in
            `GroupingLossEstimator`.
        random_state : int, RandomState instance or None, default=0
            Seed of the halves and of the partitioner.

        Raises
        ------
        ValueError
            For invalid input, neither `X` nor `regions`, a notion with more than two columns, and
            more than 25 panels.

        Examples
        --------
        >>> from skcalib import GroupingDisplay
        >>> from skcalib.datasets import make_grouping_problem
        >>> data = make_grouping_problem(2000, random_state=0)
        >>> clinic = data.X[:, 0] > data.X[:, 1]
        >>> display = GroupingDisplay.from_predictions(data.y, data.y_proba, regions=clinic)
        >>> display.diagrams[0].regions[0].rule
        'region False'
        """
        if X is None and regions is None:
            raise ValueError(
                "A grouping diagram compares samples with equal scores: pass their features X, or "
                "regions= that are known in advance."
            )
        notion = resolve_notion(notion)
        check_indices(
            y_true=y_true, y_proba=y_proba, X=X, regions=regions, sample_weight=sample_weight
        )
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        n_samples = len(problem.weight) if y_true is problem else np.shape(y_true)[0]
        X = np.zeros((n_samples, 1)) if X is None else X
        X = weighted_features(X, sample_weight, n_samples)
        if regions is not None:
            regions = check_regions(regions, n_samples)[weighted_rows(sample_weight, n_samples)]
            region_ratio = region_ratio * len(np.unique(regions))  # samples per level set
        elif isinstance(partitioner, str) and partitioner == "stump":
            region_ratio = 2 * region_ratio
        rng = check_random_state(random_state)
        encoded = encode_features(X)
        estimator = GroupingLossEstimator(
            loss=loss,
            partitioner=partitioner,
            n_bins=n_bins,
            strategy=strategy,
            region_ratio=region_ratio,
            smoother=smoother,
            n_permutations=0,
            confidence_level=confidence_level,
            random_state=rng,
        )
        diagrams = []
        for event, binary in base.binary_problems(problem, pos_label, notion):
            estimator.fit(encoded, replace(binary, classes=np.arange(2)), regions=regions)
            scores = binary.forecast[:, 1]
            diagrams.append(
                grouping_diagram(estimator, event=event, scores=scores, weight=binary.weight)
            )
        display = cls(diagrams, name=name, confidence_level=confidence_level, unit=base.unit(loss))
        return display.plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        cv: CV = None,
        response_method: ResponseMethod = "auto",
        regions: ArrayLike | None = None,
        partitioner: PartitionerLike = "stump",
        n_bins: int = 10,
        strategy: Strategy = "quantile",
        region_ratio: int = 12,
        notion: NotionLike = "auto",
        loss: LossLike = "brier",
        smoother: SmootherLike = None,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Grouping diagram of a classifier on held-out data, with its features.

        Parameters
        ----------
        regions, partitioner, n_bins, strategy, region_ratio, notion, loss, smoother
            As in `from_predictions`.
        confidence_level, random_state, pos_label, ax, **plot_params
            As in `from_predictions`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with `cv` they are also passed to the classifier.

        Raises
        ------
        ValueError
            As `from_predictions`, and for an estimator that is not a classifier.
        NotFittedError
            For a classifier that is not fitted, without `cv`.
        """
        return super().from_estimator(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            regions=regions,
            partitioner=partitioner,
            n_bins=n_bins,
            strategy=strategy,
            region_ratio=region_ratio,
            notion=notion,
            loss=loss,
            smoother=smoother,
            confidence_level=confidence_level,
            random_state=random_state,
            sample_weight=sample_weight,
            pos_label=pos_label,
            name=name,
            ax=ax,
            **plot_params,
        )

    @classmethod
    def _for_rows(cls, options, X, rows, n_samples):
        regions = options.get("regions")
        if regions is None:
            return options | {"X": X}
        regions = np.asarray(regions)
        return options | {"regions": regions[rows] if regions.shape == (n_samples,) else regions}

    @classmethod
    @checks_parameters
    def from_grouping_estimator(
        cls,
        estimator: GroupingLossEstimator,
        *,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Grouping diagram of a fitted `GroupingLossEstimator`, with any settings.

        Parameters
        ----------
        estimator : GroupingLossEstimator
            Fitted, with regions of one binary event: not with ``method="risk"``. It does not keep
            the scores of its samples, so there is no histogram.
        name : str, default=None
            Name in the title; the class of the wrapped classifier by default, if there is one.

        Raises
        ------
        ValueError
            If the estimator is not fitted, has no regions, or regions of several events.

        Examples
        --------
        >>> from skcalib import GroupingDisplay
        >>> from skcalib.datasets import make_grouping_problem
        >>> from skcalib.grouping import GroupingLossEstimator
        >>> data = make_grouping_problem(2000, random_state=0)
        >>> estimator = GroupingLossEstimator(partitioner="stump", n_bins=5, random_state=0)
        >>> estimator = estimator.fit(data.X, data.y, data.y_proba)
        >>> display = GroupingDisplay.from_grouping_estimator(estimator)
        >>> display.ax_hist_ is None
        True
        """
        if not isinstance(estimator, GroupingLossEstimator):
            raise ValueError(
                f"A GroupingLossEstimator is needed, got {type(estimator).__name__}: for a "
                "classifier use GroupingDisplay.from_estimator."
            )
        check_is_fitted(estimator, "regions_")
        if name is None and estimator.estimator is not None:
            name = name_with_response(estimator.estimator, estimator.response_method)
        display = cls(
            [grouping_diagram(estimator)],
            name=name,
            confidence_level=estimator.confidence_level,
            unit=base.unit(estimator.loss),
        )
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        name: str | None = None,
        n_rules: int | None = None,
        scale: Literal["auto", "linear", "sqrt", "logit"] = "auto",
        ref_line: bool = True,
        histogram: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        scatter_kwargs: dict[str, Any] | None = None,
        interval_kwargs: dict[str, Any] | None = None,
        hist_kwargs: dict[str, Any] | None = None,
        ref_line_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        n_rules : int, default=None
            How many regions are numbered, by default 3 of a single panel and none of several. They
            are listed below the panel with their rule, their outcome and the outcome expected at
            equal scores. The regions chosen are those that are not grey and add most to the
            explained grouping loss.
        scatter_kwargs, interval_kwargs : dict, default=None
            Arguments for ``Axes.scatter`` and ``Axes.vlines``.
        """
        style = base.line_style(kwargs, curve_kwargs)
        ref_style = base.without_aliases(ref_line_kwargs) if ref_line else None
        scatter_style = base.without_aliases(scatter_kwargs, "points")
        interval_style = base.without_aliases(interval_kwargs, "segments")
        axes = base.panel_axes(ax, len(self.diagrams))
        if n_rules is None:
            n_rules = _RULES if len(axes) == 1 else 0
        samples = [base.scores_of([diagram]) for diagram in self.diagrams]
        levels = [(diagram.prob_pred, diagram.mass) for diagram in self.diagrams]
        rows = [sample or level for sample, level in zip(samples, levels, strict=True)]
        base.scale_panels(axes, rows, scale)
        artists = self._draw_panels(
            axes,
            [(diagram.event, diagram) for diagram in self.diagrams],
            samples,
            ref_style=ref_style,
            hist_style=(hist_kwargs or {}) if histogram else None,
            style=style,
            scatter_style=scatter_style,
            interval_style=interval_style,
            n_rules=n_rules,
        )
        n_lines = 0
        for panel, diagram, sample in zip(axes, self.diagrams, samples, strict=True):
            text = title(diagram, self.name if name is None else name, self.unit)
            height = 1.15 if histogram and sample is not None else 1.0
            panel.set_title(text, fontsize="small", y=height)
            n_lines = max(n_lines, write_rules(panel, diagram, n_rules))
        if legend:
            level = f"{self.confidence_level * 100:g} %"
            entries = legend_entries(axes[0], artists["line"][0], self.diagrams, level=level)
            base.common_legend(axes, entries)
        if ax is None:  # titles, rules and the legend need room
            figure, rows = axes[0].figure, axes[0].get_subplotspec().get_gridspec().nrows
            room = rows * (0.5 + 0.16 * n_lines) + (1.3 if legend else 0)
            figure.set_figheight(figure.get_figheight() + room)
        return base.set_artists(self, axes, artists)

    def _draw_curves(self, ax, diagram, artists, *, style, scatter_style, interval_style, n_rules):
        """The curve of the level sets, and the regions, of which some are numbered."""
        look = {"color": "black", "marker": "_", "markersize": 9, "linewidth": 1.2, "zorder": 4}
        (line,) = ax.plot(
            diagram.prob_pred, diagram.prob_true, **{**look, "label": "Level sets", **style}
        )
        places = side_by_side(ax, diagram)
        largest = max(drawn.n_samples.max() for drawn in self.diagrams)
        scatter, interval = _draw_regions(
            ax, diagram, places, largest, scatter_style, interval_style
        )
        _write_numbers(ax, diagram, places, n_rules)
        for part, artist in (("line", line), ("scatter", scatter), ("interval", interval)):
            artists[part].append(artist)
        return line.get_color()


@dataclass(frozen=True, eq=False)
class GroupingDiagram(Record):
    """The diagram of one binary event.

    ``prob_pred`` and ``prob_true`` are the mean score and outcome of the level sets. The other
    arrays are in the order of ``regions`` and describe each region at the scores of its level set:
    ``score`` and ``expected``, the mean score and outcome of that level set; ``outcome``, which is
    ``expected`` plus the difference of the region at equal scores, with its interval ``low``,
    ``high``; ``side``, 1 or -1 if the interval lies above or below ``expected``, and 0 if it
    contains it. The intervals of all regions hold simultaneously. ``calibration_error`` is that of
    the score, corrected for binning. ``scores`` and ``weight`` of the samples are None if they are
    not known.
    """

    event: str
    regions: list
    prob_pred: np.ndarray
    prob_true: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    outcome: np.ndarray
    low: np.ndarray
    high: np.ndarray
    expected: np.ndarray
    side: np.ndarray
    n_samples: np.ndarray
    grouping_loss: MeanInterval
    calibration_error: float
    scores: np.ndarray | None = None
    weight: np.ndarray | None = None

    _beside = ("event", "grouping_loss", "calibration_error")

    def _columns(self):
        names = ("score", "expected", "outcome", "low", "high", "side", "n_samples", "contribution")
        rules = [region.rule for region in self.regions]
        return {"rule": rules, **{name: getattr(self, name) for name in names}}

    @property
    def contribution(self) -> np.ndarray:
        """Share of each region times the square of its difference at equal scores."""
        share = np.array([region.share for region in self.regions])
        return share / share.sum() * (self.outcome - self.expected) ** 2


ABOVE, BELOW, NOT_SIGNIFICANT = 1, -1, 0
_ROUNDING = 1e-9


def grouping_diagram(estimator, *, event=None, scores=None, weight=None):
    """The diagram of a fitted estimator with regions of one event, by default its own regions."""
    regions = sorted(estimator.regions_, key=lambda r: (r.level_set, r.region))
    if not regions:
        raise ValueError(
            f"The estimator was fitted with method={estimator.method!r}, which has no regions to "
            "draw: fit it with method='auto'."
        )
    events = sorted({region.event for region in regions})
    if event is None and len(events) > 1:
        raise ValueError(
            f"The regions are of several events ({', '.join(events[:3])}...), and a level set of "
            "them is not a point on a curve: fit the estimator with notion='top_label', or use "
            "GroupingDisplay.from_predictions with notion='classwise'."
        )
    event = events[0] if event is None else event
    regions = [replace(region, event=event) for region in regions]
    score, outcome, curve, share, size = (
        np.array([getattr(region, name) for region in regions])
        for name in ("mean_score", "mean_outcome", "expected", "share", "effective_size")
    )
    level = np.unique([region.level_set for region in regions], return_inverse=True)[1]
    mass = np.bincount(level, share)
    prob_pred, prob_true = (np.bincount(level, share * v) / mass for v in (score, outcome))
    order = np.argsort(prob_pred, kind="stable")
    at_once = 1 - (1 - estimator.confidence_level) / len(regions)
    low, high = clopper_pearson(outcome, size, at_once)
    expected = prob_true[level]
    above, below = low > curve + _ROUNDING, high < curve - _ROUNDING
    # Each region is moved to the scores of its level set; differences do not change.
    outcome, low, high = (np.clip(v + expected - curve, 0, 1) for v in (outcome, low, high))
    return GroupingDiagram(
        event=event,
        regions=regions,
        prob_pred=prob_pred[order],
        prob_true=prob_true[order],
        mass=mass[order],
        score=prob_pred[level],
        outcome=outcome,
        low=low,
        high=high,
        expected=expected,
        side=np.where(above, ABOVE, np.where(below, BELOW, NOT_SIGNIFICANT)),
        n_samples=np.array([region.n_samples for region in regions]),
        grouping_loss=grouping_interval(estimator),
        calibration_error=estimator.calibration_error_corrected_,
        scores=scores,
        weight=weight,
    )


def grouping_interval(estimator):
    """The lower bound of a fitted estimator with its interval."""
    return MeanInterval(
        estimator.grouping_loss_, *estimator.confidence_interval_, estimator.standard_error_
    )


def regions_with_rules(diagram, n_rules):
    """Indices of the significant regions that add most to the explained grouping loss."""
    significant = np.flatnonzero(diagram.side != NOT_SIGNIFICANT)
    order = np.argsort(-diagram.contribution[significant], kind="stable")
    return significant[order[:n_rules]]


def title(diagram, name, unit):
    """Name, grouping loss with interval and calibration error; "none detected" if not above 0.

    The upper end of the interval of a lower bound does not limit the grouping loss itself.
    """
    bound, error = diagram.grouping_loss, diagram.calibration_error
    decimals = decimals_of(bound)
    estimate, low, high, corrected = (
        f"{value:.{decimals}f}"
        for value in (bound.estimate, max(bound.low, 0.0), max(bound.high, 0.0), error)
    )
    grouping = f" ≥ {estimate} [{low}, {high}]" if float(estimate) > 0 else ": none detected"
    calibration = f" {corrected}" if float(corrected) > 0 else ": none detected"
    lines = [f"Grouping loss{grouping}", f"Calibration error{calibration} ({unit})"]
    return "\n".join(lines if name is None else [str(name), *lines])


# --- Drawing of regions ---------------------------------------------------------------------------


# Blue and vermilion of Okabe and Ito, and grey: distinguishable with any colour vision. The markers
# differ too.
COLORS = {ABOVE: "#0072b2", BELOW: "#d55e00", NOT_SIGNIFICANT: "#9e9e9e"}
MARKERS = {ABOVE: "^", BELOW: "v", NOT_SIGNIFICANT: "o"}
_AREA = 110  # of the largest region, in square points
_LEAST = 6  # so that small regions are visible
_MANY = 60  # regions; with more of them, lines and markers are thinner
_STEP = 0.014  # between the regions of a level set, as a fraction of the axis
_BELOW = 38  # points from the axes to the rules
_RULES = 3  # that a single panel lists


def side_by_side(ax, diagram):
    """Abscissae of the regions: around the score of their level set, slightly apart."""
    place = base.places_on_axis(ax, diagram.score)
    levels, level, counts = np.unique(place, return_inverse=True, return_counts=True)
    room = np.min(np.diff(levels), initial=1.0)
    step = min(_STEP, 0.7 * room / counts.max())
    order = np.argsort(level, kind="stable")
    rank = np.empty(len(level))
    rank[order] = np.arange(len(level)) - np.searchsorted(level[order], level[order])
    moved = place + step * (rank - (counts[level] - 1) / 2)
    return base.probabilities_at(ax, np.clip(moved, 0, 1))


def _draw_regions(ax, diagram, places, largest, scatter_style, interval_style):
    """Points and intervals of the regions at their `places`, by their side and size."""
    from matplotlib.markers import MarkerStyle

    many = len(diagram.regions) > _MANY
    colors = [COLORS[side] for side in diagram.side]
    # Coloured points lie on top; the artists keep the order of the regions.
    faint = [
        color + "55" if many and color == COLORS[NOT_SIGNIFICANT] else color for color in colors
    ]
    style = {"linewidth": 0.5 if many else 1.0, "zorder": 2, **interval_style}
    if "colors" not in style:
        style.setdefault("color", faint)
    interval = ax.vlines(places, diagram.low, diagram.high, **style)
    style = {
        "s": np.maximum(_AREA * diagram.n_samples / largest, _LEAST),
        "edgecolor": "white",
        "linewidth": 0.2 if many else 0.6,
        "zorder": 3,
        **scatter_style,
    }
    if "c" not in style:
        style.setdefault("color", faint)
    scatter = ax.scatter(places, diagram.outcome, **style)
    if "marker" not in scatter_style:
        shapes = {side: MarkerStyle(marker) for side, marker in MARKERS.items()}
        paths = {
            side: shape.get_path().transformed(shape.get_transform())
            for side, shape in shapes.items()
        }
        scatter.set_paths([paths[side] for side in diagram.side])
    return scatter, interval


def _write_numbers(ax, diagram, places, n_rules):
    """Numbers next to the regions whose rules are written."""
    for number, index in enumerate(regions_with_rules(diagram, n_rules), start=1):
        above = diagram.side[index] == ABOVE
        at = places[index], diagram.high[index] if above else diagram.low[index]
        style = {
            "color": COLORS[diagram.side[index]],
            "va": "bottom" if above else "top",
            "ha": "center",
            "fontsize": "small",
            "fontweight": "bold",
            "zorder": 5,
        }
        move = 0, 2 if above else -2
        ax.annotate(str(number), at, move, textcoords="offset points", **style)


def legend_entries(ax, line, diagrams, *, level):
    """Pairs (artist, text): the meaning of marker and area follows that of the curve `line`."""
    from matplotlib.lines import Line2D

    sides = np.concatenate([diagram.side for diagram in diagrams])
    meaning = {
        ABOVE: "Region above others with equal scores",
        BELOW: "Region below others with equal scores",
        NOT_SIGNIFICANT: f"Region without significant difference ({level})",
    }
    style = {"linestyle": "", "markersize": 7}
    regions = [
        (Line2D([], [], color=COLORS[side], marker=MARKERS[side], **style), text)
        for side, text in meaning.items()
        if side in sides
    ]
    sizes = np.concatenate([diagram.n_samples for diagram in diagrams])
    side = sides[np.argmax(sizes)]
    style |= {"color": COLORS[side], "marker": MARKERS[side], "markersize": np.sqrt(_AREA)}
    regions.append((Line2D([], [], **style), f"Largest region: {sizes.max():,} samples"))
    entries = base.legend_entries(ax)
    place = next((k for k, (artist, _) in enumerate(entries, start=1) if artist is line), 0)
    return [*entries[:place], *regions, *entries[place:]]


def write_rules(ax, diagram, n_rules):
    """Rules of the numbered regions below the axes, their outcome and that at equal scores.

    Returns the number of lines.
    """
    inches, lines = base.width_of(ax), []
    size, letters = ("small", 18) if inches > base.NARROW else ("x-small", 21)  # in an inch
    for number, index in enumerate(regions_with_rules(diagram, n_rules), start=1):
        region = diagram.regions[index]
        gap = max(abs(region.gap), 1e-6)
        decimals = int(np.clip(np.ceil(-np.log10(gap)) + 1, 2, 5))
        rule = printable(region.rule).replace("<=", "≤")
        text = (
            f"{number}  {rule}: {region.mean_outcome:.{decimals}f} "
            f"observed, {region.expected:.{decimals}f} expected"
        )
        lines += wrap(text, max(20, int(letters * inches)), subsequent_indent="    ")
    if lines:
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        ax.annotate("\n".join(lines), (0, 0), (0, -_BELOW), fontsize=size, **place)
    return len(lines)
