"""Murphy diagram: the mean cost of decisions against the threshold of the probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label, RandomState
from skcalib.displays._constructors import Display
from skcalib.displays._decision_curves import (
    MurphyCurve,
    check_thresholds,
    model_events,
    murphy_curves,
)

if TYPE_CHECKING:
    from skcalib.data.notions import NotionLike


class DecisionDisplay(Display):
    """Base class: curves of decisions against the threshold, which ``_draw`` draws."""

    curves: list
    confidence_level: float

    _constructors: ClassVar = {
        "from_estimator": {"labels"},
        "from_sketch": {"notion", "sample_weight", "labels", "pos_label"},
    }

    def _draw(self, *args, **options):
        """Lists of artists by their kind."""
        raise NotImplementedError

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
        band, ref_line, legend : bool, default=True
            Whether to draw the bands, the curves without a model (the cost of one decision for
            all samples, or the net benefit of treating all and none) and the legend.

        Returns
        -------
        MurphyDisplay or DecisionCurveDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` cannot hold the panels, and for a `name` of several models.
        """
        from skcalib.displays._plotting import Styles, keep, line_style

        style = line_style(kwargs, curve_kwargs)
        artists = self._draw(
            self.curves,
            ax,
            name,
            level=self.confidence_level if band else None,
            ref_line=ref_line,
            legend=legend,
            styles=Styles(style, band_kwargs, None, ref_line_kwargs),
        )
        return keep(self, artists)


class MurphyDisplay(DecisionDisplay):
    r"""Murphy diagram: the mean cost of decisions against the threshold.

    Create one with `from_predictions`, `from_estimator` or `from_sketch`. A decision is positive
    where the probability p of the event exceeds a threshold t. A false alarm costs t and a miss
    1 - t, so the cost is the elementary score (Ehm, Gneiting, Jordan and Krueger, 2016,
    doi:10.1111/rssb.12154; :class:`~skcalib.scores.Elementary`),

    .. math::

        L_t(y, p) = t\,(1 - y)\,1[p > t] + (1 - t)\,y\,1[p \le t] .

    - **Curve**: the weighted mean of :math:`L_t` at each threshold, in units of the sum of both
      costs, between 0 and max(t, 1 - t). Every proper score is an average of this curve over
      thresholds. So a model whose curve is lower at every t is better by every proper score. If the
      curves of two models cross, each is better for some costs. The legend has the Brier score,
      :math:`(p - y)^2 = \int_0^1 2 L_t(y, p)\,dt`: twice the area below the curve.
    - **Band**: Student's interval of the mean at each single threshold, with the standard error and
      the effective number of samples of ``skcalib.stats.means.mean_interval``. The probability that
      some point of the curve lies outside is larger.
    - **No model**: the least mean cost of one decision for all samples,
      :math:`\min(t (1 - \pi), (1 - t) \pi)` with the event rate :math:`\pi`.
    - **After recalibration** (``parts=True``): the mean of :math:`L_t(y, \hat C)` with the
      out-of-fold recalibrated probabilities :math:`\hat C` of
      :class:`~skcalib.smoothers.LogitSmoother`, computed once for all t. The area between both
      curves is the **regret of miscalibration**, the cost that recalibration saves. An estimate
      below zero has no area. It is a paired difference, which varies less than the band of the cost
      suggests; :func:`~skcalib.decision_regret` gives its interval at one threshold.

    Parameters
    ----------
    curves : list of MurphyCurve
        One record per model and event: ``name``, ``event``, ``rate`` (of the event), ``threshold``,
        ``estimate``, ``low``, ``high``, ``reference`` (no model), ``brier``, and with parts
        ``remaining`` and ``regret``. Curves of the same ``event`` share a panel.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The mean cost; a list if there are several curves, in the order of `curves`.
    band_ : artist, list of artists or None
        The bands.
    ref_line_ : Line2D, list of Line2D or None
        The cost without a model, one line for each event rate. Models have different event rates
        for the top label; the lines then have their colours.
    remaining_ : Line2D, list of Line2D or None
        The cost after recalibration.
    regret_ : artist, list of artists or None
        The regret of miscalibration.

    See Also
    --------
    DecisionCurveDisplay : The same decisions on the scale of the net benefit.

    Notes
    -----
    Time and memory: one sort of the probabilities of each model, and sums at each threshold.

    The bands are too narrow where a model makes few errors at a threshold. For calibrated forecasts
    of an event of 2 % the coverage at level 95 % was 92 to 95 % where at least four misses are
    expected, 65 to 89 % with one to three, and 32 to 57 % with less than one. Without an error the
    width is 0.

    Examples
    --------
    .. plot::
        :alt: Mean cost against the threshold for a forecast and the truth.

        >>> from skcalib import MurphyDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> display = MurphyDisplay.from_predictions(
        ...     data.y, {"Forecast": data.y_proba, "Truth": data.posterior})
        >>> print(display.line_[0].get_label())
        Forecast
        Brier score
        0.168
    """

    def __init__(self, curves: list[MurphyCurve], *, confidence_level: float = 0.95) -> None:
        self.curves = list(curves)
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
        parts: bool = False,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Murphy diagram of given probabilities.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of such
            Probability of the positive class, or of each class; of several models by their names.
        notion : str or Notion, default="auto"
            The event. "auto": the positive class of a binary problem, and otherwise that the
            predicted class is right, with the confidence as its probability. "top_label": that the
            predicted class is right, for any number of classes. "classwise": a panel for each of at
            most 25 classes. "cumulative": a panel for each event that an ordered class is at most
            k. "canonical" is for two classes.
        thresholds : array-like of shape (n_thresholds,), default=None
            Thresholds strictly between 0 and 1; by default 0.005, 0.01, ..., 0.995. Choose
            smaller ones for a rare event, such as ``numpy.linspace(0.001, 0.1, 100)``.
        parts : bool, default=False
            Whether to estimate the cost after recalibration, for a single model. This takes as long
            as a calibration error with a smoother.
        random_state : int, RandomState instance or None, default=0
            Seed of the folds of the recalibration.

        Raises
        ------
        ValueError
            For invalid input, thresholds outside (0, 1), parts of several models or of a single
            sample, a `name` with a dict, more than 25 panels, and a notion with more than two
            columns.
        """
        thresholds = check_thresholds(thresholds)
        events = model_events(y_true, y_proba, notion, name, sample_weight, labels, pos_label)
        curves = murphy_curves(
            events,
            thresholds,
            parts=parts,
            confidence_level=confidence_level,
            random_state=random_state,
        )
        return cls(curves, confidence_level=confidence_level).plot(ax=ax, **plot_params)

    def _draw(self, *args, **options):
        from skcalib.displays._decision_plots import draw_murphy

        return draw_murphy(*args, **options)
