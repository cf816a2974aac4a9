"""Grouping diagrams."""

from sklearn.utils.validation import check_is_fitted

from skcalib.displays._grouping_doors import FromRegions
from skcalib.displays._region_drawing import (
    RegionStyles,
    draw_diagram,
    legend_entries,
    write_rules,
)
from skcalib.displays._regions import grouping_diagram, title
from skcalib.displays._units import unit
from skcalib.grouping import GroupingLossEstimator


class GroupingDisplay(FromRegions):
    r"""Grouping diagram: differences between samples with equal scores (L23, figure 5).

    Make one with `from_estimator`, `from_predictions`, or `from_grouping_estimator`.

    Samples of about one score form a level set. The **curve** joins the level sets, each at its
    mean score and mean outcome: on the diagonal the forecasts are calibrated. Each level set is cut
    into **regions** by the features, by default into two. A region is drawn beside the mean score
    of its level set, at the height that its outcomes would have at the scores of the level set: the
    distance from the curve is its difference from all samples with equal scores. Where scores
    differ inside of the level set, that difference is taken at equal scores, by the calibration
    curve. Its area is its number of samples.

    - Blue, upward: the interval lies above the level set. Even a calibrated score is too low for
      these samples.
    - Vermilion, downward: the interval lies below; a calibrated score is too high.
    - Grey, a dot: the interval holds the mean outcome of the level set; no significant difference.

    The intervals (Clopper-Pearson) hold for all regions of a panel at once: where there is no
    grouping loss, any region is coloured in one figure of twenty or fewer at level 95 %. Regions
    are learned on one half of the samples and drawn from the other, so that their colours are no
    artefact of the search; the histogram shows all samples.

    The title has the lower bound of the grouping loss with its interval, and the calibration error
    of the binned score, both of `GroupingLossEstimator`. A bound that is not above zero reads "none
    detected", which does not exclude grouping loss that these regions miss. Two regions a level set
    show *that* there is grouping loss; many small ones (``partitioner=None``) detect more of it.

    Parameters
    ----------
    diagrams : list of GroupingDiagram
        What is drawn, a panel each: ``regions`` (records as in ``GroupingLossEstimator.regions_``)
        with ``score``, ``outcome``, ``low``, ``high``, ``expected`` and ``side``, as they are
        drawn; the level sets ``prob_pred`` and ``prob_true``; ``grouping_loss`` and
        ``calibration_error``.
    name : str, default=None
        Name in the title.
    confidence_level : float, default=0.95
        Level of the intervals.
    unit : str, default="Brier score"
        What the numbers in the title are measured by.

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
    ax_ : Axes or list of Axes
        The panel or panels.
    ax_hist_ : Axes, list of Axes or None
        The thin axes above, with the histogram of the forecasts.
    figure_ : Figure
        The figure.

    See Also
    --------
    ReliabilityDisplay : The calibration curve alone, without level sets to choose.
    DecompositionDisplay : Calibration and grouping as parts of the loss.

    References
    ----------
    .. [1] Perez-Lebel, Le Morvan & Varoquaux (2023), Beyond calibration: estimating the grouping
       loss of modern neural networks, ICLR (L23).

    Examples
    --------
    >>> from skcalib import GroupingDisplay
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(4000, random_state=0)
    >>> display = GroupingDisplay.from_predictions(data.y, data.y_proba, data.X, name="Simulated")
    >>> print(display.ax_.get_title())
    Simulated
    Grouping loss ≥ 0.00...
    Calibration error... (Brier score)
    """

    def __init__(self, diagrams, *, name=None, confidence_level=0.95, unit="Brier score"):
        self.diagrams = list(diagrams)
        self.name = name
        self.confidence_level = confidence_level
        self.unit = unit

    @classmethod
    def from_grouping_estimator(cls, estimator, *, name=None, ax=None, **plot_params):
        """Grouping diagram of a fitted `GroupingLossEstimator`, whatever its settings.

        Parameters
        ----------
        estimator : GroupingLossEstimator
            Fitted, with ``method="partition"`` and a notion of one binary event. It does not keep
            the scores of its samples, so there is no histogram.
        name : str, default=None
            Name in the title; the class of the wrapped classifier by default, if there is one.
        ax : Axes, default=None
            Where to draw.
        **plot_params : dict
            Further arguments of `plot`.

        Returns
        -------
        GroupingDisplay
            The display, drawn.

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
        >>> estimator = estimator.fit(data.X, data.y, y_proba=data.y_proba)
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
            name = type(estimator.estimator).__name__
        display = cls(
            [grouping_diagram(estimator)],
            name=name,
            confidence_level=estimator.confidence_level,
            unit=unit(estimator.loss),
        )
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax=None,
        *,
        name=None,
        n_rules=0,
        scale="auto",
        ref_line=True,
        histogram=True,
        legend=True,
        curve_kwargs=None,
        scatter_kwargs=None,
        interval_kwargs=None,
        hist_kwargs=None,
        ref_line_kwargs=None,
        **kwargs,
    ):
        """Draw the diagram.

        Parameters
        ----------
        ax : Axes or array of Axes, default=None
            Where to draw; None makes a figure. Several panels need an array of Axes, one each.
        name : str, default=None
            Name in the title, instead of the display's own.
        n_rules : int, default=0
            How many regions are numbered, with their rule and their outcome against the one that is
            expected at equal scores below the panel: those that are not grey and add most to the
            explained grouping loss.
        scale : {"auto", "linear", "sqrt", "logit"}, default="auto"
            Scale of both axes, as in `ReliabilityDisplay.plot`: "auto" is linear unless the
            forecasts are crowded near 0 or 1, as those of a rare event.
        ref_line, histogram, legend : bool, default=True
            Whether to draw the diagonal, the histogram of the forecasts and the legend.
        curve_kwargs, scatter_kwargs, interval_kwargs, hist_kwargs, ref_line_kwargs : dict
            Arguments for ``Axes.plot``, ``Axes.scatter``, ``Axes.vlines``, ``Axes.hist`` and
            ``Axes.plot``.
        **kwargs : dict
            Properties of matplotlib's Line2D for the curve, such as ``color`` and ``linestyle``. A
            colour also holds for the histogram.

        Returns
        -------
        GroupingDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` cannot hold the panels, and for an unknown scale.
        TypeError
            For an argument that is no property of a line.
        """
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before
        from skcalib.displays._legends import place_legend

        curve_style = draw.line_style(kwargs, curve_kwargs)
        axes = draw.panel_axes(ax, len(self.diagrams))
        name = self.name if name is None else name
        styles = RegionStyles(
            curve_style,
            draw.without_aliases(scatter_kwargs, "points"),
            draw.without_aliases(interval_kwargs, "segments"),
            hist_kwargs or {},
            draw.without_aliases(ref_line_kwargs),
        )
        scores, weights = zip(*map(_scores, self.diagrams), strict=True)
        draw.scale_panels(axes, scores, weights, scale)
        largest = max(diagram.n_samples.max() for diagram in self.diagrams)
        artists = [
            draw_diagram(
                panel,
                diagram,
                title=title(diagram, name, self.unit),
                styles=styles,
                ref_line=ref_line,
                histogram=histogram,
                n_rules=n_rules,
                largest=largest,
            )
            for panel, diagram in zip(axes, self.diagrams, strict=True)
        ]
        if legend:
            level = f"{self.confidence_level * 100:g} %"
            entries = legend_entries(axes[0], self.diagrams, level=level, largest=largest)
            if ax is None and len(axes) > 1:
                draw.draw_figure_legend(axes[0].figure, entries)
            else:
                place_legend(axes[0], entries)
        pairs = zip(axes, self.diagrams, strict=True)
        rules = [write_rules(panel, diagram, n_rules) for panel, diagram in pairs]
        if ax is None:  # for the title too
            draw.make_room(axes, 1 + max(map(len, rules)))
        self.line_, self.scatter_, self.interval_, self.ref_line_, self.ax_hist_ = (
            draw.one_or_all([artist for artist in part if artist is not None])
            for part in zip(*artists, strict=True)
        )
        self.ax_, self.figure_ = draw.one_or_all(axes), axes[0].figure
        return self


def _scores(diagram):
    """What the scale of the axes depends on: the scores, or those of the level sets."""
    if diagram.scores is None:
        return diagram.prob_pred, diagram.mass
    return diagram.scores, diagram.weight
