"""Decisions against the threshold of the probability: Murphy diagrams and decision curves.

A sample is positive where its probability exceeds the threshold t. At every t it is then a true
positive, a false positive, a false negative or a true negative. The cost and the net benefit take
one value for each of these four kinds. So their means and variances follow from the shares of the
kinds, which are cumulative sums over the sorted scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator

from skcalib._util.arithmetic import reach_of
from skcalib._util.formatting import Record, numbers
from skcalib._util.messages import shown
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import (
    CV,
    ArrayLike,
    AxesLike,
    Label,
    MatrixLike,
    RandomState,
    ResponseMethod,
)
from skcalib.data.clusters import effective_size
from skcalib.data.notions import Canonical, resolve_notion
from skcalib.data.problem import ForecastSummary
from skcalib.displays import base
from skcalib.proper.proper import solve_notion
from skcalib.scores import Brier
from skcalib.smoothers import LogitSmoother

if TYPE_CHECKING:
    from skcalib.data.notions import NotionLike

__all__ = ["DecisionCurve", "DecisionCurveDisplay", "MurphyCurve", "MurphyDisplay"]


# --- Curves and their panels, of either quantity --------------------------------------------------


@dataclass(frozen=True, eq=False)
class DecisionCurve(Record):
    """Mean cost or net benefit of one model at m thresholds.

    ``event`` is that of `ReliabilityCurve`, ``rate`` its frequency. ``threshold`` is increasing;
    ``estimate``, its interval [``low``, ``high``] and ``reference``, the value without a model, are
    (m,).
    """

    name: str
    event: str
    rate: float
    threshold: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reference: np.ndarray

    _rows: ClassVar[tuple[str, ...]] = ("threshold", "estimate", "low", "high", "reference")
    _beside: ClassVar[tuple[str, ...]] = ("name", "event", "rate")


class DecisionDisplay(base.Display):
    """Base class: curves of decisions against the threshold.

    A display has the `_parts` that it draws. `_draw_beside` draws what is not a curve or a band,
    and `_set_heights` sets the limits of the axis of the `_quantity`.
    """

    curves: list
    confidence_level: float
    _parts: ClassVar[tuple[str, ...]]
    _quantity: str

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
        if name is not None and len({curve.name for curve in self.curves}) > 1:
            raise ValueError(
                f"name={name!r} is for a single model: leave it out, as several models have their "
                "own names."
            )
        style = base.line_style(kwargs, curve_kwargs)
        ref_style = base.without_aliases(ref_line_kwargs) if ref_line else None
        panels = base.grouped(self.curves)
        axes = base.panel_axes(ax, len(panels), size=(6.4, 4.6) if len(panels) == 1 else None)
        artists: dict[str, list] = {part: [] for part in self._parts}
        for panel, (event, curves) in zip(axes, panels.items(), strict=True):
            # The limit of an earlier display on the same axes is kept if it is higher.
            top = panel.get_ylim()[1] if base.curve_number(panel) else 0.0
            lines = []
            for curve, label in zip(curves, self._labels(curves, name), strict=True):
                look = base.next_style(panel) | {"label": label}
                line = base.draw_curve(panel, curve.threshold, curve.estimate, look, style)
                lines.append(line)
            artists["line"] += lines
            self._draw_beside(panel, curves, lines, artists, ref_style)
            for curve, line in zip(curves, lines, strict=True):
                if band and np.isfinite(curve.low).all():  # a single sample has no interval
                    area = {"color": line.get_color(), "alpha": 0.2, **(band_kwargs or {})}
                    text = f"{self.confidence_level * 100:g} % confidence band"
                    drawn = base.draw_band(
                        panel, curve.threshold, curve.low, curve.high, area, text
                    )
                    artists["band"].append(drawn)
            threshold = base.text_of(event, "Threshold probability", "Threshold of the confidence")
            panel.set(xlabel=threshold, ylabel=self._quantity)
            panel.autoscale(axis="x", tight=True)  # of all displays on the axes
            first, last = panel.get_xlim()
            left = 0.0 if first < _NEAR * last else first
            panel.set_xlim(left, 1.0 if 1 - last < _NEAR * (1 - first) else last)
            self._set_heights(panel, curves, top)
        if legend:
            base.draw_legends(axes)
        return base.set_artists(self, axes, artists)

    def _labels(self, curves, name):
        """Text of each curve in the legend."""
        return [curve.name if name is None else name for curve in curves]

    def _draw_beside(self, ax, curves, lines, artists, ref_style):
        """Draw lines without a model, unless `ref_style` is None, and other parts of the curves."""
        raise NotImplementedError

    def _set_heights(self, ax, curves, top):
        """Limits of the vertical axis, whose upper end was `top` if it had curves."""
        raise NotImplementedError


_NEAR = 0.05  # an axis that starts or ends this near to 0 or 1 extends to it


# --- Murphy diagrams ------------------------------------------------------------------------------


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

    _parts = ("line", "ref_line", "remaining", "regret", "band")
    _quantity = "Mean cost"

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
        sources = model_events(
            y_true,
            y_proba,
            notion,
            name=name,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
        )
        if parts and len({source.model for source in sources}) > 1:
            raise ValueError(
                "parts=True is for a single model, as the areas of several models overlap: pass "
                "the probabilities of one model, or parts=False."
            )
        threshold = np.arange(1, 200) / 200 if thresholds is None else thresholds
        seed = seed_of(random_state) if parts else None
        curves = [MurphyCurve.of(source, threshold, confidence_level, seed) for source in sources]
        return cls(curves, confidence_level=confidence_level).plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_sketch(
        cls,
        sketch: ForecastSummary,
        *,
        thresholds: ArrayLike | None = None,
        parts: bool = False,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Murphy diagram of a sketch, without the samples.

        Parameters
        ----------
        thresholds, parts, confidence_level, random_state, name, ax, **plot_params
            As in `from_predictions`.

        Raises
        ------
        ValueError
            As `from_predictions`, and for anything but a sketch.
        """
        return cls._of_sketch(
            sketch,
            thresholds=thresholds,
            parts=parts,
            confidence_level=confidence_level,
            random_state=random_state,
            name=name,
            ax=ax,
            **plot_params,
        )

    def _labels(self, curves, name):
        scores = numbers(*(curve.brier for curve in curves))
        names = super()._labels(curves, name)
        return [f"{text}\nBrier score\n{score}" for text, score in zip(names, scores, strict=True)]

    def _draw_beside(self, ax, curves, lines, artists, ref_style):
        if ref_style is not None:
            artists["ref_line"] += _draw_references(ax, curves, lines, "No model", ref_style)
        for curve, line in zip(curves, lines, strict=True):
            if curve.remaining is None:
                continue
            style = {
                "color": line.get_color(),
                "linestyle": "--",
                "linewidth": 1.0,
                "label": base.new_legend_text(ax, "After recalibration"),
                "zorder": 3,
            }
            artists["remaining"] += ax.plot(curve.threshold, curve.remaining, **style)
            regret = base.draw_band(
                ax,
                curve.threshold,
                curve.remaining,
                curve.estimate,
                {
                    "color": _REGRET,
                    "alpha": 0.5,
                    "zorder": 2.5,
                    "where": curve.regret > 0,
                    "interpolate": True,
                },
                "Regret of miscalibration",
            )
            artists["regret"].append(regret)

    def _set_heights(self, ax, curves, top):
        ax.autoscale(axis="y")
        ax.set_ylim(bottom=0)


@dataclass(frozen=True, eq=False)
class MurphyCurve(DecisionCurve):
    """The mean cost, the Brier score, and the cost after recalibration (m,), or None."""

    brier: float
    remaining: np.ndarray | None

    _rows = (*DecisionCurve._rows, "remaining")
    _beside = (*DecisionCurve._beside, "brier")

    @property
    def regret(self) -> np.ndarray | None:
        """The regret of miscalibration (m,): the cost that recalibration saves."""
        return None if self.remaining is None else self.estimate - self.remaining

    @classmethod
    def of(
        cls, source: ModelEvent, threshold: np.ndarray, confidence_level: float, seed: int | None
    ) -> Self:
        """The mean cost of a model; after recalibration, too, with the `seed` of its folds."""
        shares = ConfusionShares.of(source.problem, threshold)
        none = np.zeros_like(threshold)
        costs = [none, threshold, 1 - threshold, none]  # the elementary score of each kind
        cost, reach = shares.mean(costs, confidence_level)
        remaining = None
        if seed is not None:
            smoother = LogitSmoother(random_state=seed)
            (solved,) = solve_notion(source.problem, notion=Canonical(), smoother=smoother)
            recalibrated = replace(  # the same samples with out-of-fold recalibrated probabilities
                source.problem,
                forecast=solved.conditional,
                labels_or_target=solved.target,
                weight=solved.weight,
                square=solved.square,
                count=None,
            )
            remaining, _ = ConfusionShares.of(recalibrated, threshold).mean(costs, confidence_level)
        return cls(
            name=source.model,
            event=source.event,
            rate=shares.rate,
            threshold=threshold,
            estimate=cost,
            low=cost - reach,
            high=cost + reach,
            reference=np.minimum(threshold * (1 - shares.rate), (1 - threshold) * shares.rate),
            brier=source.problem.mean_loss(Brier()),
            remaining=remaining,
        )


_REGRET = "#d55e00"  # as the calibration error in `DecompositionDisplay`


# --- Decision curves ------------------------------------------------------------------------------


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

    _parts = ("line", "treat_all", "treat_none", "band")

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
        self._quantity = "Standardized net benefit" if standardized else "Net benefit"

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
        threshold = check_thresholds(thresholds)
        sources = model_events(
            y_true,
            y_proba,
            notion,
            name=name,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
        )
        if threshold is None:  # no sample is treated above the largest probability
            largest = max(source.problem.forecast[:, 1].max() for source in sources)
            last = np.clip(largest, 0.01, 0.99)
            threshold = np.linspace(last / 200, last, 200)
        curves = [
            net_benefit_curve(source, threshold, confidence_level, standardized=standardized)
            for source in sources
        ]
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
        """Decision curve of a classifier on held-out data.

        Parameters
        ----------
        notion, thresholds, standardized, confidence_level, pos_label, ax, **plot_params
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
            notion=notion,
            thresholds=thresholds,
            standardized=standardized,
            confidence_level=confidence_level,
            sample_weight=sample_weight,
            pos_label=pos_label,
            name=name,
            ax=ax,
            **plot_params,
        )

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
        """Decision curve of a sketch, without the samples.

        Parameters
        ----------
        thresholds, standardized, confidence_level, name, ax, **plot_params
            As in `from_predictions`.

        Raises
        ------
        ValueError
            As `from_predictions`, and for anything but a sketch.
        """
        return cls._of_sketch(
            sketch,
            thresholds=thresholds,
            standardized=standardized,
            confidence_level=confidence_level,
            name=name,
            ax=ax,
            **plot_params,
        )

    def _draw_beside(self, ax, curves, lines, artists, ref_style):
        if ref_style is not None:
            artists["treat_all"] += _draw_references(ax, curves, lines, "Treat all", ref_style)
            style = {"color": base.GREY, "linestyle": "-", "linewidth": 0.8, **ref_style}
            points = np.column_stack([curves[0].threshold, np.zeros_like(curves[0].threshold)])
            line = _draw_once(ax, points, "Treat none", "Treat none", style)
            artists["treat_none"].append(line)

    def _set_heights(self, ax, curves, top):
        for curve in curves:  # the largest net benefit and its band there, and of "treat all"
            best = curve.estimate.argmax()
            high = curve.high[best] if np.isfinite(curve.high[best]) else curve.estimate[best]
            top = max(top, 1.08 * max(high, curve.reference.max()))
        top = top or 0.01  # no event occurs
        ax.set_ylim(-0.1 * top, top)


def net_benefit_curve(source, threshold, confidence_level, *, standardized):
    """The `DecisionCurve` of the net benefit of a model at thresholds (m,)."""
    odds = threshold / (1 - threshold)
    none = np.zeros_like(odds)
    shares = ConfusionShares.of(source.problem, threshold)
    benefit, reach = shares.mean([none + 1, -odds, none, none], confidence_level)
    reference = shares.rate - (1 - shares.rate) * odds
    if standardized:
        if shares.rate == 0:
            raise ValueError(
                "standardized=True divides by the prevalence, which is 0, as no sample is "
                "positive: pass standardized=False."
            )
        benefit, reference = benefit / shares.rate, reference / shares.rate
        # The error of a ratio of means, by the delta method.
        _, reach = shares.mean([1 - benefit, -odds, -benefit, none], confidence_level)
        reach = reach / shares.rate
    return DecisionCurve(
        name=source.model,
        event=source.event,
        rate=shares.rate,
        threshold=threshold,
        estimate=benefit,
        low=benefit - reach,
        high=benefit + reach,
        reference=reference,
    )


# --- Models, their events, and thresholds ---------------------------------------------------------


@dataclass(frozen=True)
class ModelEvent:
    """A binary event of a model: the names of both, and its `Problem`."""

    model: str
    event: str
    problem: Any


def model_events(y_true, y_proba, notion, *, name, **arguments):
    """The `ModelEvent` of each curve: of one model, or of a dict of models by name."""
    notion = resolve_notion(notion)
    if isinstance(y_true, ForecastSummary) or not isinstance(y_proba, Mapping):
        models = [("Predictions" if name is None else str(name), y_proba, "y_proba")]
    elif name is not None:
        raise ValueError(
            f"name={name!r} is for a single model: leave it out, as the keys of y_proba are the "
            "names of the models."
        )
    elif not y_proba:
        raise ValueError("y_proba is an empty dict: pass the probabilities of a model or more.")
    else:
        models = [(str(model), proba, f"y_proba[{model!r}]") for model, proba in y_proba.items()]
    return [
        ModelEvent(model, event, problem)
        for model, proba, argument in models
        for event, problem in base.panel_events(y_true, proba, notion, name=argument, **arguments)
    ]


def check_thresholds(thresholds):
    """Distinct thresholds in increasing order (m,), or None for the default."""
    if thresholds is None:
        return None
    try:
        checked = np.asarray(thresholds, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        checked = np.empty(0)
    if checked.ndim != 1 or len(checked) == 0 or not np.all((checked > 0) & (checked < 1)):
        raise ValueError(
            "thresholds must be a list of numbers strictly between 0 and 1, such as "
            f"numpy.linspace(0.01, 0.3, 30); got {shown(thresholds)}."
        )
    return np.unique(checked)


# --- Shares of right and wrong decisions ----------------------------------------------------------


@dataclass(frozen=True)
class ConfusionShares:
    """Shares of true and false positives, false and true negatives at each threshold.

    ``share`` (4, m) has the sums of the weights, ``square`` (4, m) those of the squared weights,
    both relative to the total weight. ``size`` is the effective number of samples.
    """

    share: np.ndarray
    square: np.ndarray
    size: float
    rate: float

    @classmethod
    def of(cls, problem, threshold):
        """The shares of a binary `Problem` at thresholds (m,)."""
        score, event = problem.forecast[:, 1], problem.target[:, 1]
        weight, square = problem.weight, problem.squares
        total = weight.sum()
        order = np.argsort(score, kind="stable")
        n_negative = np.searchsorted(score[order], reach_of(threshold), side="right")
        rows = (np.stack([event, 1 - event])[:, None] * np.stack([weight, square]))[..., order]
        start = np.zeros((2, 2, 1))
        below = np.concatenate([start, rows.cumsum(axis=-1)], axis=-1)[..., n_negative]
        above = rows[..., ::-1].cumsum(axis=-1)[..., ::-1]
        above = np.concatenate([above, start], axis=-1)[..., n_negative]
        share, squares = np.concatenate([above, below]).swapaxes(0, 1)
        rate = float(np.sum(weight * event) / total)
        return cls(share / total, squares / total**2, effective_size(weight, square), rate)

    def mean(self, values, confidence_level):
        """Mean (m,) of the values (4, m) of the kinds, and the half-width of `mean_interval`."""
        values = np.asarray(values)
        mean = np.sum(self.share * values, axis=0)
        if self.size - 1 < 1e-9:
            return mean, np.full(len(mean), np.inf)
        variance = np.sum(self.square * (values - mean) ** 2, axis=0)
        quantile = student.ppf(0.5 + confidence_level / 2, self.size - 1)
        return mean, quantile * np.sqrt(variance * self.size / (self.size - 1))


# --- Lines of reference ---------------------------------------------------------------------------


def _draw_references(ax, curves, lines, text, ref_style):
    """The reference of each curve, in its colour if the event rates of the curves differ."""
    different = not np.allclose([curve.rate for curve in curves], curves[0].rate)
    drawn = []
    for curve, line in zip(curves, lines, strict=True):
        color = line.get_color() if different else base.GREY
        style = {"linestyle": ":", "linewidth": 1.3, "color": color, **ref_style}
        points = np.column_stack([curve.threshold, curve.reference])
        drawn.append(_draw_once(ax, points, text, f"{text} {curve.rate:.9g}", style))
    return list(dict.fromkeys(drawn))


def _draw_once(ax, points, text, mark, style):
    """A line, or the line of the same mark of an earlier curve, extended to these points."""
    for line in ax.lines:
        if line.get_gid() == mark:
            points = np.concatenate([line.get_xydata(), points])
            line.set_data(*points[np.unique(points[:, 0], return_index=True)[1]].T)
            return line
    style = {"label": base.new_legend_text(ax, text), "gid": mark, "zorder": 1.5, **style}
    return ax.plot(*points.T, **style)[0]
