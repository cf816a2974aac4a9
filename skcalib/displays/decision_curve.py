"""Decision curve: the net benefit of decisions against the threshold of the probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label
from skcalib.displays._decision_curves import (
    DecisionCurve,
    check_thresholds,
    model_events,
    net_benefit_curves,
)
from skcalib.displays.murphy import DecisionDisplay

if TYPE_CHECKING:
    from skcalib.data.notions import NotionLike


class DecisionCurveDisplay(DecisionDisplay):
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
      ``skcalib.stats.means.mean_interval``. The probability that some point of the curve lies
      outside is larger.
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

    See Also
    --------
    decision_regret : What miscalibration costs at one threshold, with intervals.

    Notes
    -----
    The package dcurves treats a sample if p >= t. The results differ for samples whose probability
    equals a threshold.

    The bands are too narrow where fewer than four true positives are expected at a threshold
    (:ref:`decisions`).

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
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of such
            Probability of the positive class, or of each class; of several models by their names.
        thresholds : array-like of shape (n_thresholds,), default=None
            Thresholds strictly between 0 and 1; by default 200 with equal distances, up to the
            largest probability, but at least .01 and at most .99. No sample is treated above it.
        notion, confidence_level, sample_weight, labels, pos_label, name, ax, **plot_params
            As in `MurphyDisplay.from_predictions`.

        Raises
        ------
        ValueError
            For invalid input, thresholds outside (0, 1), ``standardized=True`` without events, a
            `name` with a dict, more than 25 panels, and a notion with more than two columns.
        """
        thresholds = check_thresholds(thresholds)
        events = model_events(y_true, y_proba, notion, name, sample_weight, labels, pos_label)
        curves = net_benefit_curves(
            events, thresholds, standardized=standardized, confidence_level=confidence_level
        )
        display = cls(curves, standardized=standardized, confidence_level=confidence_level)
        return display.plot(ax=ax, **plot_params)

    def _draw(self, *args, **options):
        from skcalib.displays._decision_plots import draw_net_benefit

        return draw_net_benefit(*args, **options, standardized=self.standardized)
