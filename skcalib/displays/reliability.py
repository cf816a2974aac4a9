"""Reliability diagrams: the curves on the smoothers, their intervals, and the figure.

Each curve has the abscissae ``prob_pred`` and heights ``prob_true``, shape (m,); ``refit(labels)``,
which applies the same rule to other labels (n, B) of the same forecasts and returns heights of
shape (m, B); and ``confidence(confidence_level, n_resamples, rng)``, an interval for the true
heights. The consistency band is in `errors.corp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from skcalib._util.arithmetic import merge_ties
from skcalib._util.formatting import Record, nonnegative_text
from skcalib._util.messages import refusal, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import (
    CV,
    ArrayLike,
    AxesLike,
    Bins,
    Label,
    MatrixLike,
    RandomState,
    ResponseMethod,
)
from skcalib._util.validation import check_count, check_indices, look_up, take_rows
from skcalib.data.clusters import (
    effective_size,
    effective_size_of_sums,
    independent_size,
    intraclass_correlation,
    student_level,
)
from skcalib.data.labels import check_y
from skcalib.data.notions import Multilabel, Notion, NotionLike, resolve_notion
from skcalib.data.problem import ForecastSummary, check_problem
from skcalib.displays import base
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.errors.corp import (
    BANDS,
    IsotonicCurve,
    check_resamples,
    consistency_band,
    spread,
)
from skcalib.estimators.classifiers import name_with_response, proba_and_classes
from skcalib.risk_models.summary import summary_of_problem
from skcalib.smoothers import (
    SMOOTHERS,
    DirichletKernel,
    IsotonicSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)
from skcalib.smoothers.partition import PartitionSmoother
from skcalib.smoothers.spline import SplineCurve
from skcalib.stats.means import MeanInterval, clopper_pearson, rate_interval

if TYPE_CHECKING:
    from skcalib.risk_models.summary import CalibrationSummary

__all__ = ["ReliabilityCurve", "ReliabilityDisplay"]

DEFAULT_BINS = 10


# --- The diagram ----------------------------------------------------------------------------------


class ReliabilityDisplay(base.DiagonalDisplay):
    r"""Reliability diagram: observed frequency against forecast.

    Create one with `from_estimator`, `from_predictions` or `from_cv_results`. A classifier is
    calibrated if its curve :math:`C(s) = P(Y = 1 \mid S = s)` is the diagonal.

    **Curves** (``strategy``):

    - "isotonic": the increasing curve of least squares, without bins (CORP, D21), linear between
      the scores;
    - "quantile", "uniform": mean label against mean forecast in bins of equal mass or width;
    - "kernel": Beta-kernel regression (P24) with the bandwidth that minimises the cross-validated
      Brier score; ``strategy=DirichletKernel(bandwidth)`` sets the bandwidth;
    - "smooth": logistic regression on a restricted cubic spline of the logit, see `SplineSmoother`.

    **Bands** (``band``) are pointwise: the probability that some point of the curve lies outside is
    larger than that of a single point.

    - "consistency" lies around the diagonal and shows where the curve would be if the forecasts
      were calibrated. Labels are drawn from the forecasts `n_resamples` times, and the curve is
      fitted by the same rule. The band lies between order statistics of these curves. It is exact:
      under calibration each point of the curve is inside with probability `confidence_level` or
      more, at every sample size and with weights.
    - "confidence" lies around the curve and shows where the true C may be. For bins and for the
      kernel it is the Clopper-Pearson interval at the effective size
      :math:`(\sum w)^2 / \sum w^2` of the average; for the kernel this size is estimated from
      `n_resamples` random signs. It covers the mean of C in the bin, or the kernel average of C,
      which is not C if C is curved within a bandwidth. For the isotonic curve the band contains the
      heights of increasing curves whose deviance (likelihood ratio) is at most the quantile of
      :math:`\chi^2_1`; the weights are scaled to sum to their effective size. For "smooth" it is
      the interval of `SplineSmoother`, by the delta method.

    Sample weights are treated as fixed and enter the averages. Each sample counts as one label for
    any weight, and unequal weights widen every band.

    **Clusters.** With `groups`, samples of a cluster may depend on each other. The consistency band
    then draws the signs of the residuals y - s of whole clusters in place of labels. The confidence
    band of bins uses the effective size of Korn and Graubard, and that of "smooth" the sandwich
    covariance. The others divide the effective size by the design effect of the average, with one
    correlation of the residuals of a cluster. Quantiles are Student's.

    **Legend.** The number is `proper_calibration_error` with its defaults, with the interval of
    `CalibrationErrorEstimator`, for the positive class, the top label, or each class against the
    rest. It does not depend on the curve that is drawn (:ref:`displays`).

    Parameters
    ----------
    curves : list of ReliabilityCurve
        The curves: ``prob_pred``, ``prob_true``, ``low``, ``high`` and ``error`` of each. Curves of
        the same ``event`` share a panel.
    confidence_level : float, default=0.95
        Level of the bands and of the interval in the legend.
    band : {"consistency", "confidence"} or None, default=None
        The kind of band that ``low`` and ``high`` of the curves hold.
    summary : CalibrationSummary or None, default=None
        Numbers that are written to the right of the axes. They need 3 inches: on axes of yours, use
        a figure with ``layout="constrained"``.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The curve; a list if there are several, in the order of `curves`.
    band_ : artist, list of artists or None
        The band: an area, or bars for bins.
    ref_line_ : Line2D, list of Line2D or None
        The diagonal of each panel.
    ax_hist_ : Axes, list of Axes or None
        The thin axes above, with the histogram of the forecasts.
    table_ : list of Annotation
        The names and numbers of `summary`, if it is given.

    See Also
    --------
    skcalib.errors.corp_bands : The isotonic curve and its bands as arrays.

    Notes
    -----
    Coverages of the isotonic confidence band: :ref:`corp`. Where C decreases, no increasing curve
    is correct, and the band does not cover C.

    The curve and the bands use every sample. With more than 10,000 distinct scores, the curves of
    the consistency band are fitted to sums of neighbouring scores (:ref:`displays`).

    References
    ----------
    .. [1] Banerjee & Wellner (2001), Likelihood ratio tests for monotone functions, Annals of
       Statistics 29.

    Examples
    --------
    .. plot::
        :alt: Reliability diagram of over-confident forecasts, with its band.

        >>> from skcalib import ReliabilityDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(1000, 2, random_state=0)
        >>> display = ReliabilityDisplay.from_predictions(
        ...     data.y, data.y_proba, name="Over-confident")
        >>> print(display.line_.get_label())
        Over-confident
        Brier calibration error
        0.004 [0.001, 0.009]
    """

    _parts = ("line", "band", "ref_line", "ax_hist")

    def __init__(
        self,
        curves: list[ReliabilityCurve],
        *,
        name: str | None = None,
        confidence_level: float = 0.95,
        band: Literal["consistency", "confidence"] | None = None,
        summary: CalibrationSummary | None = None,
    ) -> None:
        self.curves = list(curves)
        self.summary = summary
        self.name = name
        self.confidence_level = confidence_level
        self.band = band

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        style: Literal["full", "simple"] = "full",
        strategy: Literal["auto", "isotonic", "quantile", "uniform", "kernel", "smooth"]
        | Smoother = "auto",
        n_bins: Bins | None = None,
        notion: NotionLike = "auto",
        band: Literal["auto", "consistency", "confidence"] | None = "auto",
        summary: bool = False,
        confidence_level: float = 0.95,
        n_resamples: int = 500,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Reliability diagram of given probabilities.

        Parameters
        ----------
        notion : str or Notion, default="auto"
            "auto": the probability of the positive class of a binary problem, and the confidence of
            the predicted class otherwise. "top_label": the confidence. "classwise": a panel for
            each of at most 25 classes. "cumulative": a panel for each event that an ordered class
            is at most k. "canonical" is for two classes.
        style : {"full", "simple"}, default="full"
            "simple" draws what ``CalibrationDisplay`` of scikit-learn draws: five bins of equal
            width on linear axes, without a band, histogram and error. Other arguments may change
            each of these but the error.
        strategy : {"auto", "isotonic", "quantile", "uniform", "kernel", "smooth"} or Smoother, \
                default="auto"
            The curve. "auto" is "isotonic", and "uniform" with ``style="simple"``. Partition
            smoothers are drawn as bins, other smoothers as curves.
        n_bins : int, "auto", "cube_root" or array-like of edges, default=None
            Bins for "quantile" and "uniform", as in :func:`~skcalib.calibration_error`; if None 10,
            or 5 with ``style="simple"``. Refused for other curves.
        band : {"auto", "consistency", "confidence"} or None, default="auto"
            The band, see `ReliabilityDisplay`; by default "confidence" for ``strategy="smooth"``
            and "consistency" for other curves.
        summary : bool, default=False
            Whether to write the numbers of :func:`~skcalib.calibration_summary` to the right of the
            axes, as ``val.prob`` of R does; for two classes only.
        n_resamples : int, default=500
            Number of resampled label sets for a band, at least 2 / (1 - confidence_level) - 1.

        Raises
        ------
        ValueError
            For invalid input, unknown options, `n_bins` for a curve without bins, too few
            resamples for the level, more than 25 panels, a notion with more than two columns, a
            kernel on a single sample, and a summary of more than two classes.
        """
        simple = style == "simple"
        if isinstance(strategy, str) and strategy == "auto":
            strategy = "uniform" if simple else "isotonic"
        if simple:
            band = None if isinstance(band, str) and band == "auto" else band
            n_bins = 5 if n_bins is None and strategy in ("uniform", "quantile") else n_bins
            plot_params = {"histogram": False, "scale": "linear"} | plot_params
        options = check_options(strategy, n_bins, notion, band, confidence_level, n_resamples)
        events = base.panel_events(
            y_true,
            y_proba,
            options.notion,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
            groups=groups,
        )
        rng = check_random_state(random_state)
        display = cls(
            reliability_curves(events, options, rng, errors=not simple),
            name=name,
            confidence_level=confidence_level,
            band=options.band,
            summary=summary_of_event(events, confidence_level) if summary else None,
        )
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
        style: Literal["full", "simple"] = "full",
        strategy: Literal["auto", "isotonic", "quantile", "uniform", "kernel", "smooth"]
        | Smoother = "auto",
        n_bins: Bins | None = None,
        notion: NotionLike = "auto",
        band: Literal["auto", "consistency", "confidence"] | None = "auto",
        summary: bool = False,
        confidence_level: float = 0.95,
        n_resamples: int = 500,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Reliability diagram of a classifier on held-out data.

        Parameters
        ----------
        style, strategy, n_bins, notion, band, summary, confidence_level, n_resamples
            As in `from_predictions`.
        random_state, pos_label, ax, **plot_params
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
            style=style,
            strategy=strategy,
            n_bins=n_bins,
            notion=notion,
            band=band,
            summary=summary,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
            sample_weight=sample_weight,
            pos_label=pos_label,
            groups=groups,
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
        style: Literal["full", "simple"] = "full",
        strategy: Literal["auto", "isotonic", "quantile", "uniform", "kernel", "smooth"]
        | Smoother = "auto",
        n_bins: Bins | None = None,
        band: Literal["auto", "consistency", "confidence"] | None = "auto",
        summary: bool = False,
        confidence_level: float = 0.95,
        n_resamples: int = 500,
        random_state: RandomState = 0,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Reliability diagram of a sketch, without the samples.

        Parameters
        ----------
        style, strategy, n_bins, band, summary, confidence_level, n_resamples
            As in `from_predictions`.
        random_state, name, ax, **plot_params
            As in `from_predictions`.

        Raises
        ------
        ValueError
            As `from_predictions`, for anything but a sketch, and a curve that needs the samples.
        """
        return cls._of_sketch(
            sketch,
            style=style,
            strategy=strategy,
            n_bins=n_bins,
            band=band,
            summary=summary,
            confidence_level=confidence_level,
            n_resamples=n_resamples,
            random_state=random_state,
            name=name,
            ax=ax,
            **plot_params,
        )

    @classmethod
    @checks_parameters
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: MatrixLike,
        y: ArrayLike,
        *,
        response_method: ResponseMethod = "auto",
        strategy: Literal["isotonic", "quantile", "uniform", "kernel", "smooth"]
        | Smoother = "isotonic",
        n_bins: Bins | None = None,
        notion: NotionLike = "auto",
        band: Literal["auto", "consistency", "confidence"] | None = None,
        confidence_level: float = 0.95,
        n_resamples: int = 500,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Reliability diagram of a cross-validation: a curve for each fold, on its test samples.

        Each fold has its own classifier, so the curves are not pooled. The legend shows the mean of
        their calibration errors and its standard deviation over folds.

        Parameters
        ----------
        cv_results : dict
            What ``sklearn.model_selection.cross_validate`` returns with
            ``return_estimator=True, return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            Features of the cross-validation.
        y : array-like of shape (n_samples,)
            Labels of the cross-validation.
        band : {"auto", "consistency", "confidence"} or None, default=None
            The band of each fold, see `ReliabilityDisplay`.
        response_method, strategy, n_bins, notion, confidence_level, n_resamples, random_state
            As in `from_estimator`.
        sample_weight, pos_label, groups, name, ax, **plot_params
            As in `from_estimator`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn; ``line_`` is the list of the curves of the folds.

        Raises
        ------
        ValueError
            As `from_estimator`, and for results without estimators and indices.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.model_selection import cross_validate
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import ReliabilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> results = cross_validate(
        ...     GaussianNB(), X, y, cv=3, return_estimator=True, return_indices=True)
        >>> len(ReliabilityDisplay.from_cv_results(results, X, y).line_)
        3
        """
        if "estimator" not in cv_results or "indices" not in cv_results:
            raise ValueError(
                "cv_results lacks 'estimator' or 'indices': call cross_validate with "
                "return_estimator=True and return_indices=True."
            )
        options = check_options(strategy, n_bins, notion, band, confidence_level, n_resamples)
        if isinstance(options.notion, Multilabel):
            raise ValueError(
                "from_cv_results takes one label per sample: for notion=Multilabel() pass "
                "out-of-fold probabilities to from_predictions."
            )
        check_indices(X=X, y=y)
        y, rng = check_y(y, name="y"), check_random_state(random_state)
        curves = []
        tests = cv_results["indices"]["test"]
        for estimator, test in zip(cv_results["estimator"], tests, strict=True):
            if max(test) >= len(y):
                raise ValueError(
                    f"cv_results refers to sample {max(test)}, but y has {len(y)} samples: pass "
                    "the X and y of the cross-validation."
                )
            proba, classes = proba_and_classes(
                estimator, take_rows(X, test), y[test], response_method=response_method
            )
            problem = check_problem(
                y[test],
                proba,
                sample_weight=take_rows(sample_weight, test),
                labels=classes,
                pos_label=pos_label,
                groups=take_rows(groups, test),
            )
            events = base.binary_problems(problem, pos_label, options.notion)
            curves += reliability_curves(events, options, rng)
        if name is None:
            name = name_with_response(cv_results["estimator"][0], response_method)
        display = cls(curves, name=name, confidence_level=confidence_level, band=options.band)
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        name: str | None = None,
        scale: Literal["auto", "linear", "sqrt", "logit"] = "auto",
        ref_line: bool = True,
        histogram: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        hist_kwargs: dict[str, Any] | None = None,
        ref_line_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram."""
        panels = base.grouped(self.curves)
        style = base.line_style(kwargs, curve_kwargs)
        ref_style = base.without_aliases(ref_line_kwargs) if ref_line else None
        axes = base.panel_axes(ax, len(panels), histogram=histogram)
        if self.summary is not None:
            self.table_ = _draw_table(axes[0], self.summary.lines(), widen=ax is None)
        samples = [base.scores_of(curves) for curves in panels.values()]
        base.scale_panels(axes, samples, scale)
        artists = self._draw_panels(
            axes,
            panels.items(),
            samples,
            ref_style=ref_style,
            hist_style=(hist_kwargs or {}) if histogram else None,
            name=self.name if name is None else name,
            style=style,
            band_style=band_kwargs or {},
        )
        if legend:
            base.draw_legends(axes)
        return base.set_artists(self, axes, artists)

    def _draw_curves(self, ax, curves, artists, *, name, style, band_style):
        """Curves and bands; the folds of a cross-validation share a colour and a legend entry."""
        look, label = base.next_style(ax), legend_label(curves, name)
        look |= {"alpha": 1.0 if len(curves) == 1 else 0.6}
        for curve in curves:
            height = np.clip(curve.prob_true, *ax.get_ylim())  # 0 and 1 lie beyond a logit axis
            line = base.draw_curve(ax, curve.prob_pred, height, {**look, "label": label}, style)
            artists["line"].append(line)
            label = None
            if curve.low is None:
                continue
            bars = not curve.joined or len(curve.prob_pred) == 1
            band = base.draw_band(
                ax,
                curve.prob_pred,
                *np.clip([curve.low, curve.high], *ax.get_ylim()),
                {"color": line.get_color(), "alpha": 0.3 if bars else 0.22, **band_style},
                f"{self.confidence_level * 100:g} % {self.band} band",
                bars=bars,
            )
            artists["band"].append(band)
        return artists["line"][-1].get_color()


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Record):
    """The curve of one binary event.

    ``event`` is "class c" for the probability of a class, "top label" for the confidence, or empty.
    ``low`` and ``high`` are None without a band; ``error`` is None where it has no estimate (one
    sample) or no legend. ``joined`` is True if the curve is defined between its points.
    """

    event: str
    prob_pred: np.ndarray
    prob_true: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    joined: bool
    scores: np.ndarray
    weight: np.ndarray
    error: MeanInterval | None

    _rows = ("prob_pred", "prob_true", "low", "high")
    _beside = ("event", "error")


# --- What is drawn --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurveOptions:
    """Validated options of the constructors, with names resolved to objects."""

    smoother: Smoother
    notion: Notion
    band: str | None
    confidence_level: float
    n_resamples: int


def check_options(strategy, n_bins, notion, band, confidence_level, n_resamples):
    """Arguments of `ReliabilityDisplay` -> `CurveOptions`."""
    check_count(n_resamples, "n_resamples")
    size = DEFAULT_BINS if n_bins is None else n_bins
    edges = not np.isscalar(size)  # which leave nothing to the strategy

    of_equal_mass = partial(UniformBins if edges else QuantileBins, size)
    binned = {
        "quantile": of_equal_mass,
        "uniform": partial(UniformBins, size),
        "binning": of_equal_mass,
    }
    options = {**binned, "kernel": partial(DirichletKernel, "risk", "loss")}
    smoother = look_up(strategy, {**SMOOTHERS, **options}, "strategy", kind=Smoother)
    if n_bins is not None and not (isinstance(strategy, str) and strategy in binned):
        raise ValueError(
            f"n_bins={shown(n_bins)} is for strategy='quantile' or 'uniform', but strategy is "
            f"{shown(strategy)}: choose one of these two, or leave n_bins out."
        )
    notion = resolve_notion(notion)
    if isinstance(band, str) and band == "auto":
        band = "confidence" if isinstance(smoother, SplineSmoother) else "consistency"
    if band is not None and not (isinstance(band, str) and band in BANDS):
        expected = "'auto', 'consistency', 'confidence' or None"
        raise refusal("band", expected, band, ("auto", *BANDS))
    if band is not None:
        check_resamples(n_resamples, confidence_level)
    return CurveOptions(smoother, notion, band, confidence_level, n_resamples)


def reliability_curves(events, options, rng, *, errors=True):
    """One `ReliabilityCurve` for each event and its `Problem`; `errors` are for a legend."""
    curves, level = [], options.confidence_level
    for event, problem in events:
        curve = make_curve(options.smoother, problem)
        low = high = error = None
        if options.band == "consistency":
            low, high = consistency_band(curve, problem, level, options.n_resamples, rng)
        elif options.band == "confidence":
            low, high = curve.confidence(level, options.n_resamples, rng)
        if errors and problem.n_samples > 1:  # one sample has no held-out estimate
            error = estimate_proper_error(
                problem, loss="brier", notion="canonical", confidence_level=level
            ).interval
        drawn = ReliabilityCurve(
            event=event,
            prob_pred=curve.prob_pred,
            prob_true=curve.prob_true,
            low=low,
            high=high,
            joined=curve.joined,
            scores=problem.forecast[:, 1],
            weight=problem.weight,
            error=error,
        )
        curves.append(drawn)
    return curves


def summary_of_event(events, confidence_level):
    """The `CalibrationSummary` of the only event, which must be a class."""
    (name, problem), *others = events
    if others or name == "top label":
        events_text = f"{len(events)} events" if others else "the top label"
        raise ValueError(
            f"summary=True is for the event of two classes, but the diagram shows {events_text}: "
            "pass one class against the rest, (y_true == c, y_proba[:, c]), or leave out summary."
        )
    return summary_of_problem(problem, confidence_level)


# --- Kinds of calibration curve on the smoothers --------------------------------------------------


_GROUPS = 1000  # of neighbouring scores, for the many fits of a consistency band


def make_curve(smoother, problem):
    """The kind of curve for the smoother; the isotonic curve is that of CORP (D21)."""
    if isinstance(smoother, IsotonicSmoother):
        return IsotonicCurve.of(problem)
    if isinstance(smoother, PartitionSmoother):
        return BinnedCurve(smoother, problem)
    if isinstance(smoother, SplineSmoother):
        return SplinedCurve(smoother, problem)
    if problem.square is not None:
        raise ValueError(
            f"{smoother!r} needs the samples, not a sketch: use strategy='isotonic', 'smooth', "
            "'quantile' or 'uniform'."
        )
    return SmoothCurve(smoother, problem)


def score_grid(score):
    """Scores at which a smooth curve is drawn: some observed scores, and some between them."""
    score = np.unique(merge_ties(score))
    grid = np.concatenate([score[spread(score)], np.linspace(score[0], score[-1], 101)])
    return np.unique(merge_ties(grid))


class BinnedCurve:
    """Mean label against mean forecast, cell by cell."""

    joined = False

    def __init__(self, smoother, problem):
        self._bins = clone(smoother).fit_rows(
            problem.forecast, problem.target, problem.weight, problem.count
        )
        self._problem = problem
        prob_pred = self._bins.cell_means(problem.forecast)[:, 1]
        self._order = np.argsort(prob_pred)
        self.prob_pred = prob_pred[self._order]
        self.prob_true = self._bins.cell_means()[self._order, 1]

    def refit(self, labels):
        """The curve of each column of labels (n, B)."""
        return self._bins.cell_means(labels)[self._order]

    def confidence(self, confidence_level, n_resamples, rng):
        """Lower and upper limits of the curve."""
        cells, problem = self._bins.cells_, self._problem
        if problem.cluster is not None:
            bins = [problem.take(np.flatnonzero(cells == j)) for j in self._order]
            rates = [
                rate_interval(
                    bin_.target[:, 1], bin_.weight, confidence_level, cluster=bin_.cluster
                )
                for bin_ in bins
            ]
            return np.array([rate.low for rate in rates]), np.array([rate.high for rate in rates])
        square_mass = np.bincount(cells, problem.squares)
        size = effective_size_of_sums(self._bins.mass_, square_mass)[self._order]
        return clopper_pearson(self.prob_true, size, confidence_level)


class SmoothCurve:
    """A linear smoother (kernel, nearest neighbours) on a grid of scores."""

    joined = True

    def __init__(self, smoother, problem):
        self._fitted = clone(smoother).fit(problem.forecast, problem.target, problem.weight)
        self._cluster = problem.cluster
        self.prob_pred = score_grid(problem.forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = np.clip(self._fitted.predict(self._grid)[:, 1], 0, 1)

    def refit(self, labels):
        """The curve of each column of labels (n, B), or of other numbers."""
        again = clone(self._fitted)
        if hasattr(self._fitted, "bandwidth_"):  # depends on the forecasts only, which are the same
            again.set_params(bandwidth=self._fitted.bandwidth_)
        labels = np.asarray(labels, dtype=np.float64)  # signs are not copied
        again.fit(self._fitted.forecast_, labels, self._fitted.weight_)
        return again.predict(self._grid)

    def confidence(self, confidence_level, n_resamples, rng):
        """Lower and upper limits of the curve."""
        # The estimate is a weighted mean. For any smoother, averages of random signs estimate the
        # sum of the squared weights, which is the inverse of the effective size. Signs of clusters
        # give that of perfectly dependent samples of a cluster.
        signs = rng.choice([-1.0, 1.0], size=(len(self._fitted.forecast_), n_resamples))
        inverse = np.mean(self.refit(signs) ** 2, axis=1)
        if self._cluster is not None:
            fitted = np.interp(self._fitted.forecast_[:, 1], self.prob_pred, self.prob_true)
            common = intraclass_correlation(
                self._fitted.target_[:, 1] - fitted,
                np.sqrt(fitted * (1 - fitted)),
                self._fitted.weight_,
                self._cluster,
            )
            together = np.mean(self.refit(signs[self._cluster]) ** 2, axis=1)
            inverse = inverse + common * np.maximum(together - inverse, 0.0)
            units = independent_size(self._fitted.weight_, cluster=self._cluster)
            confidence_level = student_level(confidence_level, units)
        size = 1 / inverse
        return clopper_pearson(self.prob_true, np.maximum(size, 1), confidence_level)


class SplinedCurve:
    """Logistic regression on a spline of the logit, with a band by the delta method."""

    joined = True

    def __init__(self, smoother, problem):
        self._fitted = clone(smoother).fit(problem.forecast, problem.target, problem.weight)
        self._size = effective_size(problem.weight, problem.square)
        score, label, weight = self._fitted.forecast_[:, 1], problem.target[:, 1], problem.weight
        self._curve, self._units = self._fit(score, label, weight), np.inf
        if problem.cluster is not None:
            self._curve.allow_for_clusters(score, label, weight, problem.cluster)
            self._units = independent_size(problem.weight, cluster=problem.cluster)
        self.prob_pred = score_grid(problem.forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = self._curve(self._grid)[:, 1]

    def refit(self, labels):
        """The curve of each column of labels (n, B)."""
        score, weight = self._fitted.forecast_[:, 1], self._fitted.weight_
        distinct, group = np.unique(score, return_inverse=True)
        if len(distinct) > _GROUPS:  # average neighbouring scores: the curve hardly changes
            group = group * _GROUPS // len(distinct)
        mass = np.bincount(group, weight)
        score = np.bincount(group, weight * score) / mass
        means = (np.bincount(group, weight * label) / mass for label in labels.T)
        curves = [self._fit(score, mean, mass)(self._grid)[:, 1] for mean in means]
        return np.stack(curves, axis=1)

    def confidence(self, confidence_level, n_resamples, rng):
        """Lower and upper limits of the curve."""
        if np.isfinite(self._units):
            confidence_level = student_level(confidence_level, self._units)
        return self._curve.interval(self._grid, confidence_level)

    def _fit(self, score, label, weight):
        """A curve whose weights sum to the effective number of samples."""
        return SplineCurve(self._fitted.n_knots).fit(score, label, weight, size=self._size)


# --- Texts of the diagram -------------------------------------------------------------------------


def legend_label(curves, name):
    """Name and `proper_calibration_error`, with its interval, or with its spread over folds."""
    errors = [curve.error for curve in curves if curve.error is not None]
    lines = ["Calibration curve" if name is None else str(name)]
    if errors:
        notion = " of the top label" if curves[0].event == "top label" else ""
        lines.append(f"Brier calibration error{notion}")
    if len(errors) == 1:
        lines.append(nonnegative_text(errors[0]))
    elif errors:
        estimates = [error.estimate for error in errors]
        mean, spread_of_folds = float(np.mean(estimates)), float(np.std(estimates))
        text = "none detected" if float(f"{mean:.3f}") < 0 else f"{mean:z.3f}"
        lines.append(f"{text} (mean of {len(errors)} folds, sd {spread_of_folds:.3f})")
    return "\n".join(lines)


def _draw_table(ax, rows, *, widen):
    """Names and numbers to the right of the axes, in a figure that is widened to hold them."""
    style = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    left, points, cells = 14, 72 / ax.figure.dpi, []
    for column in zip(*rows, strict=True):
        for k, text in enumerate(column):
            cells.append(ax.annotate(text, (1, 1), (left, -12 * k), fontsize="small", **style))
        width = max(cell.get_window_extent().width for cell in cells[-len(column) :])
        left += width * points + 14
    if widen:
        ax.figure.set_figwidth(ax.figure.get_figwidth() + left / 72 + 0.5)
    return cells
