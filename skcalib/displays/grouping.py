"""Grouping diagrams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import (
    ArrayLike,
    AxesLike,
    Label,
    MatrixLike,
    PartitionerLike,
    RandomState,
    Strategy,
)
from skcalib._util.validation import check_indices, weighted_features, weighted_rows
from skcalib.data.features import encode_features
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.problem import check_problem
from skcalib.displays._constructors import Display, unit
from skcalib.displays._curves import binary_problems
from skcalib.displays._regions import (
    GroupingDiagram,
    draw_diagram,
    grouping_diagram,
    legend_entries,
    level_set_ratio,
    title,
    write_rules,
)
from skcalib.estimators.classifiers import name_with_response
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping.estimator import check_regions

if TYPE_CHECKING:
    from skcalib.scores import LossLike
    from skcalib.smoothers import SmootherLike

_RULES = 3  # that a single panel lists


class GroupingDisplay(Display):
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

    _constructors: ClassVar = {"from_estimator": {"labels"}}
    _instead: ClassVar = (
        ", or draw a fitted GroupingLossEstimator with GroupingDisplay.from_grouping_estimator"
    )

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
        rows = {"X": X, "regions": regions, "sample_weight": sample_weight}
        check_indices(y_true=y_true, y_proba=y_proba, **rows)
        problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
        n_samples = len(problem.weight) if y_true is problem else np.shape(y_true)[0]
        X = np.zeros((n_samples, 1)) if X is None else X
        X = weighted_features(X, sample_weight, n_samples)
        if regions is not None:
            regions = check_regions(regions, n_samples)[weighted_rows(sample_weight, n_samples)]
        rng = check_random_state(random_state)
        encoded = encode_features(X)
        estimator = GroupingLossEstimator(
            loss=loss,
            partitioner=partitioner,
            n_bins=n_bins,
            strategy=strategy,
            region_ratio=level_set_ratio(region_ratio, partitioner, regions),
            smoother=smoother,
            n_permutations=0,
            confidence_level=confidence_level,
            random_state=rng,
        )
        diagrams = []
        for event, one in binary_problems(problem, pos_label, notion):
            one = replace(one, classes=np.arange(2))
            estimator.fit(encoded, one, regions=regions)
            diagrams.append(
                grouping_diagram(
                    estimator, event=event, scores=one.forecast[:, 1], weight=one.weight
                )
            )
        display = cls(diagrams, name=name, confidence_level=confidence_level, unit=unit(loss))
        return display.plot(ax=ax, **plot_params)

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
            unit=unit(estimator.loss),
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
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        curve_style = draw.line_style(kwargs, curve_kwargs)
        axes = draw.panel_axes(ax, len(self.diagrams))
        if n_rules is None:
            n_rules = _RULES if len(axes) == 1 else 0
        name = self.name if name is None else name
        styles = draw.Styles(
            curve_style,
            draw.without_aliases(interval_kwargs, "segments"),
            hist_kwargs or {},
            draw.without_aliases(ref_line_kwargs),
            draw.without_aliases(scatter_kwargs, "points"),
        )
        draw.scale_panels(axes, list(map(_scores, self.diagrams)), scale)
        largest = max(diagram.n_samples.max() for diagram in self.diagrams)
        kinds = "line", "scatter", "interval", "ref_line", "ax_hist"
        artists = {part: [] for part in kinds}
        for panel, diagram in zip(axes, self.diagrams, strict=True):
            draw_diagram(
                panel,
                diagram,
                artists,
                title=title(diagram, name, self.unit),
                styles=styles,
                ref_line=ref_line,
                histogram=histogram,
                n_rules=n_rules,
                largest=largest,
            )
        if legend:
            level = f"{self.confidence_level * 100:g} %"
            entries = legend_entries(axes[0], self.diagrams, level=level)
            draw.draw_common_legend(axes, entries, outside=ax is None)
        pairs = zip(axes, self.diagrams, strict=True)
        rules = [write_rules(panel, diagram, n_rules) for panel, diagram in pairs]
        if ax is None:  # for the title too
            draw.make_room(axes, 1 + max(map(len, rules)))
        return draw.keep(self, artists | {"ax": axes})


def _scores(diagram):
    """Scores that determine the scale of the axes: of the samples, or of the level sets."""
    if diagram.scores is None:
        return diagram.prob_pred, diagram.mass
    return diagram.scores, diagram.weight
