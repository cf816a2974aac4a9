"""Bars of the decomposition of the loss."""

from skcalib.displays._decomposition_doors import FromModels
from skcalib.displays._term_drawing import draw_terms


class DecompositionDisplay(FromModels):
    r"""Parts of the loss of several models, as stacked bars with intervals.

    Make one with `from_estimator`, `from_estimators` or `from_predictions`. The mean loss of a
    score S of the label Y, with C = E[Y|S] and Q = E[Y|X], is

    .. math:: E\,L(Y, S) = \underbrace{E\,D(C, S)}_{calibration} +
        \underbrace{E\,D(Q, C)}_{grouping} + \underbrace{E\,L(Y, Q)}_{irreducible} .

    - **Calibration**, of `CalibrationErrorEstimator`: what recalibration would save.
    - **Grouping**, the lower bound of `GroupingLossEstimator`: what a model with a better use of
      the features would save, at least. Only where features are given.
    - **Rest**: what these leave of the loss, an upper bound of the irreducible loss up to the noise
      of the estimates; without features the refinement.

    The lengths of the bars are the estimates themselves, and add up to the loss, which is the black
    mark. An estimate may be negative where there is nothing to find: it is then drawn to the left
    of zero, and the bar passes the mark by as much. Whiskers are the intervals of calibration
    (upper) and grouping (lower), each from where its bar starts. They are cut at zero, as neither
    part can be negative; where the estimate is, the whisker goes from zero to the upper limit.

    Parameters
    ----------
    terms : list of LossTerms
        What is drawn, a bar each: ``name``, ``loss``, ``calibration``, ``grouping`` and ``rest``;
        ``str(terms[0])`` is the line above the bar.
    confidence_level : float, default=0.95
        Level of the intervals.
    unit : str, default="Brier score"
        What the loss is measured by.

    Attributes
    ----------
    bars_ : dict of BarContainer
        The bars of each part, by its name: "calibration", "grouping" if there is one, "rest".
    whiskers_ : dict of ErrorbarContainer
        The intervals, by the same names.
    loss_ : LineCollection
        The marks at the losses.
    ax_ : Axes
        The axes.
    figure_ : Figure
        The figure.

    See Also
    --------
    CalibrationErrorEstimator : Estimates the first part.
    GroupingDisplay : Shows the groups that the second part comes from.

    Notes
    -----
    All bars of a figure are measured on the same labels, so that their noise is shared: two models
    may differ more surely than their whiskers suggest.

    Examples
    --------
    >>> from skcalib import DecompositionDisplay
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(10_000, random_state=0)
    >>> display = DecompositionDisplay.from_predictions(data.y, data.y_proba, data.X)
    >>> print(display.terms[0])
    calibration 0.000..., grouping ≥ 0.00..., rest ≤ 0.07...
    """

    def __init__(self, terms, *, confidence_level=0.95, unit="Brier score"):
        self.terms = list(terms)
        self.confidence_level = confidence_level
        self.unit = unit

    def plot(self, ax=None, *, values="auto", legend=True, bar_kwargs=None, whisker_kwargs=None):
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        values : bool or "auto", default="auto"
            Whether to write the numbers above each bar; by default where the axes are wide enough.
        legend : bool, default=True
            Whether to draw the legend, above the axes.
        bar_kwargs, whisker_kwargs : dict, default=None
            Arguments for ``Axes.barh`` and ``Axes.errorbar``.

        Returns
        -------
        DecompositionDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` is no Axes.
        """
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        if ax is None:
            ax = draw.row_axes(len(self.terms))
        (self.ax_,) = draw.panel_axes(ax, 1)
        self.bars_, self.whiskers_, self.loss_ = draw_terms(
            self.ax_,
            self.terms,
            level=f"{self.confidence_level * 100:g} %",
            values=values,
            legend=legend,
            bar_style=bar_kwargs or {},
            whisker_style=draw.without_aliases(whisker_kwargs),
        )
        self.ax_.set_xlabel(self.unit[:1].upper() + self.unit[1:])
        self.figure_ = self.ax_.figure
        return self
