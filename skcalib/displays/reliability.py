"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sklearn.utils import check_random_state

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import (
    ArrayLike,
    AxesLike,
    Bins,
    Label,
    MatrixLike,
    RandomState,
    ResponseMethod,
)
from skcalib._util.validation import check_indices, take_rows
from skcalib.data.labels import check_y
from skcalib.data.notions import Multilabel, NotionLike
from skcalib.data.problem import ForecastSummary, check_problem
from skcalib.displays._constructors import Display
from skcalib.displays._curves import (
    ReliabilityCurve,
    binary_problems,
    check_options,
    legend_label,
    reliability_curves,
    summarised_problems,
    summary_of_event,
)
from skcalib.estimators.classifiers import align_classes, classifier_proba, name_with_response

if TYPE_CHECKING:
    from skcalib.risk_models.summary import CalibrationSummary
    from skcalib.smoothers import Smoother


class ReliabilityDisplay(Display):
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

    _constructors: ClassVar = {
        "from_estimator": {"labels"},
        "from_sketch": {"notion", "sample_weight", "labels", "pos_label", "groups"},
    }

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
            Bins for "quantile" and "uniform", as in :func:`calibration_error`; if None 10, or 5
            with ``style="simple"``. Refused for other curves.
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
        if isinstance(y_true, ForecastSummary):
            events = summarised_problems(y_true, options.notion)
        else:
            rest = sample_weight, labels, pos_label, groups
            problem = check_problem(y_true, y_proba, options.notion, *rest, incomplete=True)
            events = binary_problems(problem, pos_label, options.notion)
        found = summary_of_event(events, confidence_level) if summary else None
        display = cls._of(events, options, name, random_state, errors=not simple, summary=found)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def _of(cls, events, options, name, random_state, *, errors=True, summary=None):
        """The display of binary events, not yet drawn."""
        rng = check_random_state(random_state)
        curves = reliability_curves(events, options, rng, errors=errors)
        how = {"confidence_level": options.confidence_level, "band": options.band}
        return cls(curves, name=name, summary=summary, **how)

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
            proba = classifier_proba(estimator, take_rows(X, test), response_method=response_method)
            proba, classes = align_classes(proba, estimator.classes_, y[test])
            weight = take_rows(sample_weight, test)
            cluster = take_rows(groups, test)
            problem = check_problem(y[test], proba, None, weight, classes, pos_label, cluster)
            events = binary_problems(problem, pos_label, options.notion)
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
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        panels = {}
        for curve in self.curves:
            panels.setdefault(curve.event, []).append(curve)
        style = draw.line_style(kwargs, curve_kwargs)
        axes = draw.panel_axes(ax, len(panels), histogram=histogram)
        artists = {part: [] for part in ("line", "band", "ref_line", "ax_hist")}
        if self.summary is not None:
            self.table_ = draw.draw_table(axes[0], self.summary.lines(), widen=ax is None)
        rows = [draw.scores_of(curves) for curves in panels.values()]
        draw.scale_panels(axes, rows, scale)
        styles = draw.Styles(style, band_kwargs, hist_kwargs, ref_line_kwargs)
        band = f"{self.confidence_level * 100:g} % {self.band} band"
        for panel, (event, curves), row in zip(axes, panels.items(), rows, strict=True):
            draw.draw_panel(
                panel,
                curves,
                row,
                artists,
                event=event,
                label=legend_label(curves, self.name if name is None else name),
                band=band,
                styles=styles,
                ref_line=ref_line,
                histogram=histogram,
            )
        if legend:
            draw.draw_legends(axes)
        return draw.keep(self, artists | {"ax": axes})
