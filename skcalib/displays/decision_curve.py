"""Decision curve: the net benefit of decisions against the threshold of the probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from skcalib._parameters import checks_parameters
from skcalib.displays._base import held_out
from skcalib.displays._decision_curves import (
    check_thresholds,
    model_events,
    net_benefit_curves,
    sketch_events,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

    from skcalib._arguments import (
        CV,
        AxesLike,
        Label,
        MatrixLike,
        NotionLike,
        ResponseMethod,
    )
    from skcalib.displays._decision_curves import DecisionCurve
    from skcalib.problem import ForecastSummary


class DecisionCurveDisplay:
    r"""Decision curve: the net benefit of treatment against the threshold.

    Create one with `from_predictions`, `from_estimator` or `from_sketch`. A sample is treated where
    the probability p of the event exceeds the threshold t. With n samples, the true positives TP
    and the false positives FP among the treated ones, the net benefit is (Vickers and Elkin, 2006,
    doi:10.1177/0272989X06295361)

    .. math::

        NB(t) = \frac{TP}{n} - \frac{FP}{n} \frac{t}{1 - t}
        = \frac1n \sum_i 1[p_i > t] \left( y_i - (1 - y_i) \frac{t}{1 - t} \right)
        = \pi - \frac{\bar L_t}{1 - t} ,

    with the event rate :math:`\pi` and the mean cost :math:`\bar L_t` of `MurphyDisplay`. Its unit
    is true positives per sample, and its largest possible value :math:`\pi`. The odds t / (1 - t)
    are the harm of an unnecessary treatment in units of the benefit of a necessary one.

    - **Curve**: NB(t), with sample weights for the counts.
    - **Band**: Student's interval of the mean of the n terms of the sum at each single threshold,
      with the standard error and the effective number of samples of
      ``skcalib.inference.mean_interval``. The probability that some point of the curve lies outside
      is larger.
    - **Treat all**: :math:`\pi - (1 - \pi)\, t / (1 - t)`. **Treat none**: 0. A model is useful at
      thresholds where its curve is above both.
    - **Standardized** (``standardized=True``): everything is divided by :math:`\pi`, so the largest
      possible value is 1. The band is for the ratio NB / :math:`\pi`, by the delta method.

    Parameters
    ----------
    curves : list of DecisionCurve
        One record per model and event: ``name``, ``event``, ``rate`` (of the event), ``threshold``,
        ``estimate``, ``low``, ``high`` and ``reference`` (treat all). Curves of the same ``event``
        share a panel.
    standardized : bool, default=False
        Whether the curves are divided by the event rate.
    confidence_level : float, default=0.95
        Level of the bands.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The net benefit; a list if there are several curves, in the order of `curves`.
    band_ : artist, list of artists or None
        The bands.
    treat_all_ : Line2D, list of Line2D or None
        The net benefit of treating all samples, one line for each event rate as in
        `MurphyDisplay`.
    treat_none_ : Line2D, list of Line2D or None
        The net benefit 0.
    ax_ : Axes or list of Axes
        The panel or panels.
    figure_ : Figure
        The figure.

    See Also
    --------
    MurphyDisplay : The same decisions on the scale of their cost.
    decision_regret : What miscalibration costs at one threshold, with intervals.

    Notes
    -----
    The package dcurves treats a sample if p >= t. The results differ for samples whose probability
    equals a threshold.

    Differences of two models on the same samples vary less than their bands, as the labels are the
    same.

    The axis of the net benefit extends from slightly below 0 to slightly above the largest value;
    lower values are outside.

    The bands are too narrow where few events are treated at a threshold. The coverage at level 95 %
    was measured for calibrated forecasts of an event of 2 %, with 250 to 4,000 samples and
    thresholds from .01 to .15. It was 91 to 95 % where at least four true positives are expected,
    70 to 90 % with one or two, and 43 to 76 % with less than one.

    Examples
    --------
    .. plot::
        :alt: Net benefit against the threshold for a forecast, the truth and treating all or none.

        >>> from skcalib import DecisionCurveDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> display = DecisionCurveDisplay.from_predictions(
        ...     data.y, {"Forecast": data.y_proba, "Truth": data.posterior})
        >>> forecast, truth = display.curves
        >>> bool(truth.estimate.mean() > forecast.estimate.mean())
        True
    """

    def __init__(
        self,
        curves: list[DecisionCurve],
        *,
        standardized: bool = False,
        confidence_level: float = 0.95,
    ) -> None:
        self.curves = list(curves)
        self.standardized = standardized
        self.confidence_level = confidence_level

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike | Mapping[str, ArrayLike],
        *,
        notion: NotionLike = "auto",
        thresholds: ArrayLike | None = None,
        standardized: bool = False,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Decision curves of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of such
            Probability of the positive class, or of each class; of several models by their names.
        thresholds : array-like of shape (n_thresholds,), default=None
            Thresholds strictly between 0 and 1; by default 200 with equal distances, up to the
            largest probability, but at least .01 and at most .99. No sample is treated above it.
        standardized : bool, default=False
            Whether to divide by the event rate.
        notion, confidence_level, sample_weight, labels, pos_label, name, ax, **plot_params
            As in `MurphyDisplay.from_predictions`.

        Returns
        -------
        DecisionCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For invalid input, thresholds outside (0, 1), ``standardized=True`` without events, a
            `name` with a dict, more than 25 panels, and a notion with more than two columns.

        Examples
        --------
        >>> from skcalib import DecisionCurveDisplay
        >>> display = DecisionCurveDisplay.from_predictions(
        ...     [0, 0, 1, 1], [0.1, 0.6, 0.3, 0.8], thresholds=[0.2, 0.5])
        >>> display.curves[0].estimate  # 2/4 - 1/4 * 0.2/0.8, and 1/4 - 1/4 * 0.5/0.5
        array([0.4375, 0.    ])
        """
        thresholds = check_thresholds(thresholds)
        events = model_events(
            y_true,
            y_proba,
            notion,
            name,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
        )
        curves = net_benefit_curves(
            events, thresholds, standardized=standardized, confidence_level=confidence_level
        )
        display = cls(curves, standardized=standardized, confidence_level=confidence_level)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_sketch(
        cls,
        sketch: ForecastSummary,
        *,
        thresholds: ArrayLike | None = None,
        standardized: bool = False,
        confidence_level: float = 0.95,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Decision curves of a sketch, without the samples.

        All samples of a cell have the same decision, that of its mean probability.

        Parameters
        ----------
        sketch : ForecastSketch
            Sums over cells of the probability; its notion determines the panels.
        thresholds, standardized, confidence_level, name, ax, **plot_params
            As in `from_predictions`.

        Returns
        -------
        DecisionCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`, and for anything but a sketch.

        Examples
        --------
        >>> from skcalib import DecisionCurveDisplay, ForecastSketch
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> sketch = ForecastSketch([0, 1]).fit(data.y, data.y_proba)
        >>> display = DecisionCurveDisplay.from_sketch(sketch, thresholds=[0.2, 0.5])
        >>> display.curves[0].estimate.round(3)
        array([0.387, 0.248])
        """
        thresholds = check_thresholds(thresholds)
        curves = net_benefit_curves(
            sketch_events(sketch, name),
            thresholds,
            standardized=standardized,
            confidence_level=confidence_level,
        )
        display = cls(curves, standardized=standardized, confidence_level=confidence_level)
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
        notion: NotionLike = "auto",
        thresholds: ArrayLike | None = None,
        standardized: bool = False,
        confidence_level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Decision curves of a classifier on held-out data.

        Parameters
        ----------
        estimator, X, y, cv, response_method
            As in `MurphyDisplay.from_estimator`.
        notion, thresholds, standardized, confidence_level
            As in `from_predictions`.
        sample_weight, pos_label, name, ax, **plot_params
            As in `MurphyDisplay.from_estimator`.

        Returns
        -------
        DecisionCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`.
        NotFittedError
            For a classifier that is not fitted, without `cv`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import DecisionCurveDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> display = DecisionCurveDisplay.from_estimator(GaussianNB(), X, y, cv=5, pos_label=0)
        >>> print(display.line_.get_label(), "|", display.ax_.get_xlabel())
        GaussianNB | Threshold probability of class 0
        """
        problem, _, _ = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            owner=cls.__name__,
        )
        return cls.from_predictions(
            problem,
            problem.forecast,
            notion=notion,
            thresholds=thresholds,
            standardized=standardized,
            confidence_level=confidence_level,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **plot_params,
        )

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        ref_line: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        ref_line_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax, name, band, legend, curve_kwargs, band_kwargs, ref_line_kwargs, **kwargs
            As in `MurphyDisplay.plot`.
        ref_line : bool, default=True
            Whether to draw the lines of "treat all" and "treat none".

        Returns
        -------
        DecisionCurveDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` cannot hold the panels, and for a `name` of several models.
        TypeError
            For an argument that is not a property of a line.
        """
        from skcalib.displays import _decision_plots, _plotting

        artists = _decision_plots.draw_net_benefit(
            self.curves,
            ax,
            name,
            level=self.confidence_level if band else None,
            ref_line=ref_line,
            legend=legend,
            standardized=self.standardized,
            styles=_plotting.Styles(
                _plotting.line_style(kwargs, curve_kwargs), band_kwargs, None, ref_line_kwargs
            ),
        )
        for part, drawn in artists.items():
            setattr(self, f"{part}_", _plotting.one_or_all(drawn))
        self.figure_ = artists["ax"][0].figure
        return self
