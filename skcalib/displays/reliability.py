"""Reliability diagrams."""

from skcalib.displays._curves import legend_label
from skcalib.displays._from_data import FromData


class ReliabilityDisplay(FromData):
    r"""Reliability diagram: observed frequency against forecast.

    Make one with `from_estimator`, `from_predictions` or `from_cv_results`. A classifier is
    calibrated if its curve :math:`C(s) = P(Y = 1 \mid S = s)` is the diagonal.

    **Curves** (``strategy``). "isotonic": the increasing curve of least squares, with no bins to
    choose (CORP, D21), linear between the scores. "quantile", "uniform": mean label against mean
    forecast in bins of equal mass or width. "kernel": Beta-kernel regression (P24) with the
    bandwidth of the least cross-validated Brier score; pass
    ``strategy=DirichletKernel(bandwidth)`` to choose it. "smooth": logistic regression on a
    restricted cubic spline of the logit, see `SplineSmoother`.

    **Bands** (``band``), pointwise: the whole curve leaves them somewhere more often.

    - "consistency" lies around the diagonal, where the curve would be if the forecasts were
      calibrated: labels are drawn from the forecasts `n_resamples` times, the curve is fitted by
      the same rule, and the band lies between order statistics of these curves. Exact: under
      calibration each point of the curve is inside with probability `confidence_level` or more,
      at every sample size and with weights.
    - "confidence" lies around the curve, where the true C may be. For bins and for the kernel it
      is the Clopper-Pearson interval at the effective size :math:`(\sum w)^2 / \sum w^2` of the
      average, for the kernel estimated from `n_resamples` random signs. It covers the mean of C
      in the bin, and the kernel's average of C, which is not C where C bends within a bandwidth.
      For the isotonic curve it holds the heights through which an increasing curve passes with a
      deviance (likelihood ratio) of at most the quantile of :math:`\chi^2_1`; the weights are
      scaled to sum to their effective size. For "smooth" it is the interval of `SplineSmoother`,
      by the delta method.

    Weights of samples are fixed: they enter the averages, a sample is one label whatever its
    weight, and unequal weights widen every band.

    **Legend.** It lies below the axes where the figure has a layout engine, else in a free place.
    The number is `proper_calibration_error` with its default smoother and method, and its interval:
    of the positive class, of the top label, or of each class against the rest. It cannot be
    negative: an estimate below zero reads "none detected", with an upper limit.

    Parameters
    ----------
    curves : list of ReliabilityCurve
        What is drawn: ``prob_pred``, ``prob_true``, ``low``, ``high`` and ``error`` of each curve.
        Curves of the same ``event`` share a panel.
    name : str, default=None
        Name in the legend; "Calibration curve" without one.
    confidence_level : float, default=0.95
        Level of the bands and of the interval in the legend.
    band : {"consistency", "confidence"} or None, default=None
        What ``low`` and ``high`` of the curves are.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The curve; a list where there are several, in the order of `curves`.
    band_ : artist, list of artists or None
        The band: an area, or bars for bins.
    ref_line_ : Line2D, list of Line2D or None
        The diagonal of each panel.
    ax_ : Axes or list of Axes
        The panel or panels.
    ax_hist_ : Axes, list of Axes or None
        The thin axes above, with the histogram of the forecasts.
    figure_ : Figure
        The figure.

    See Also
    --------
    proper_calibration_error : The number in the legend: default smoother and method, Brier score.
    corp_bands : The isotonic curve and its bands as arrays.

    Notes
    -----
    Measured coverage of the isotonic confidence band of level 95 %, at nine quantiles of the
    forecasts, in seven simulated worlds of 20 to 10,000 samples: on average over the quantiles 95
    to 100 % in the six where C increases, with 89 % at the worst point; 92 to 95 % where C is
    constant, with 75 to 87 % at the two ends. A percentile bootstrap that draws labels from the
    fitted curve (as D21, with forecasts kept) covered 77 to 96 % on average at 1,000 samples, and
    4 to 23 % at the ends in three of six worlds, which is why the band is none. Where C decreases
    no increasing curve is right, and the band does not cover C.

    Several thousand distinct scores are drawn at all knots of the isotonic curve and at some 400
    scores more; every sample enters the curve and the bands. Isotonic curve and band take about a
    second for 100,000 samples.

    References
    ----------
    .. [1] Dimitriadis, Gneiting & Jordan (2021), Stable reliability diagrams for probabilistic
       classifiers, PNAS 118 (D21).
    .. [2] Banerjee & Wellner (2001), Likelihood ratio tests for monotone functions, Annals of
       Statistics 29.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 2, random_state=0)
    >>> display = ReliabilityDisplay.from_predictions(data.y, data.y_proba, name="Over-confident")
    >>> print(display.line_.get_label())
    Over-confident
    Brier calibration error
    0.004 [0.001, 0.009]
    """

    def __init__(self, curves, *, name=None, confidence_level=0.95, band=None):
        self.curves = list(curves)
        self.name = name
        self.confidence_level = confidence_level
        self.band = band

    def plot(
        self,
        ax=None,
        *,
        name=None,
        scale="auto",
        ref_line=True,
        histogram=True,
        legend=True,
        curve_kwargs=None,
        band_kwargs=None,
        hist_kwargs=None,
        ref_line_kwargs=None,
        **kwargs,
    ):
        """Draw the diagram.

        Parameters
        ----------
        ax : Axes or array of Axes, default=None
            Where to draw; None makes a figure. Displays on the same Axes are overlaid. Several
            panels need an array of Axes, one each.
        name : str, default=None
            Name in the legend, instead of the display's own.
        scale : {"auto", "linear", "sqrt", "logit"}, default="auto"
            Scale of both axes, on which the diagonal is a straight line and 0 and 1 can be seen.
            "auto" is linear unless the forecasts are crowded near 0 or 1, as those of a rare event.
            Then it is the square root (of the probability of the crowded end), and the logit where
            95 % of them lie within .02 of the end. Displays on the same Axes share a scale.
        ref_line, histogram, legend : bool, default=True
            Whether to draw the diagonal, the histogram of the forecasts and the legend.
        curve_kwargs, band_kwargs, hist_kwargs, ref_line_kwargs : dict, default=None
            Arguments for ``Axes.plot``, ``Axes.fill_between`` (``Axes.vlines`` for bins),
            ``Axes.hist`` and ``Axes.plot``.
        **kwargs : dict
            Properties of matplotlib's Line2D for the curve, such as ``color`` and ``linestyle``. A
            colour also holds for the band and the histogram.

        Returns
        -------
        ReliabilityDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` cannot hold the panels, and for an unknown scale.
        TypeError
            For an argument that is no property of a line.
        """
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        panels = {}
        for curve in self.curves:
            panels.setdefault(curve.event, []).append(curve)
        style = draw.line_style(kwargs, curve_kwargs)
        axes = draw.panel_axes(ax, len(panels))
        scores, weights = zip(*((curve.scores, curve.weight) for curve in self.curves), strict=True)
        draw.scale_panels(axes, scores, weights, scale)
        styles = draw.Styles(style, band_kwargs, hist_kwargs, ref_line_kwargs)
        band = f"{self.confidence_level * 100:g} % {self.band} band"
        artists = [
            draw.draw_panel(
                panel,
                curves,
                event=event,
                label=legend_label(curves, self.name if name is None else name),
                band=band,
                styles=styles,
                ref_line=ref_line,
                histogram=histogram,
            )
            for panel, (event, curves) in zip(axes, panels.items(), strict=True)
        ]
        if legend:
            draw.draw_legends(axes)
        self.line_, self.band_, self.ref_line_, self.ax_hist_ = (
            draw.one_or_all([artist for part in parts for artist in part])
            for parts in zip(*artists, strict=True)
        )
        self.ax_, self.figure_ = draw.one_or_all(axes), axes[0].figure
        return self
