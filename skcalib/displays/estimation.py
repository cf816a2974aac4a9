"""Errors against the sample size."""

from collections.abc import Mapping
from numbers import Real

from skcalib.displays._estimation_doors import FromSubsamples
from skcalib.displays._estimation_drawing import draw_curves, draw_keys, sized_axes


class EstimationDisplay(FromSubsamples):
    r"""Errors against the number of samples that they are estimated from.

    Make one with `from_estimator` or `from_predictions`. Every error is evaluated on random
    subsamples of the data. One that can be compared between data sets of different size has a flat
    curve; that of the ECE falls, most for good forecasts (G22).

    ==========  ====================================================================================
    Name        Error
    ==========  ====================================================================================
    "ece"       :func:`calibration_error` with 15 bins of equal width; of the top label
    "debiased"  the same bins, l2, squared and debiased
    "ks"        :func:`ks_calibration_error`; of the top label
    "proper"    :func:`proper_calibration_error`, Brier; of all classes
    "kernel"    :func:`kernel_calibration_error`, unbiased; of all classes
    "rbs"       :func:`root_brier_score`, an upper bound of the root of "proper"; of all classes
    ==========  ====================================================================================

    "debiased", "proper", "kernel" and "rbs" are right on average as squares, of which the first
    three may come out negative: the mean of squares is drawn as its root, with the sign of the
    mean. The unit is that of a probability; for "kernel" it is that of its kernel.

    For an l1 :func:`calibration_error` with any bins two more curves are drawn, from the folded
    normal law (G22): with the share :math:`p_b` of bin b, its gap :math:`g_b` (mean label minus
    mean score) and the variance :math:`v_b` of label minus score,

    .. math:: E\,ECE_n \approx \sum_b p_b\, E\, |N(g_b, v_b / (n p_b))| .

    - **Prediction**, dashed: with the gaps and variances of all N samples and :math:`v_b` times
      1 - n / N, as subsamples are drawn without replacement. It explains the curve: all of the
      fall is noise in the bins.
    - **Floor**, dotted: if the same forecasts were calibrated, :math:`g_b = 0` and :math:`v_b`
      the mean of s (1 - s). An ECE near its floor is no evidence of miscalibration.

    Parameters
    ----------
    curves : list of EstimationCurve
        What is drawn: ``name``, ``size``, ``mean``, ``low``, ``high``, ``prediction`` and ``floor``
        of each error.
    truth : float or dict of str to float, default=None
        The true error: of all, or by the names of the curves.
    name : str, default=None
        Name of the forecasts.
    band_level : float, default=0.9
        Share of the subsamples between ``low`` and ``high``.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The mean of each error; a list where there are several.
    band_ : artist, list of artists or None
        Area of the central subsamples.
    prediction_, floor_ : Line2D, list of Line2D or None
        The folded-normal curves of errors that have them.
    truth_ : Line2D, list of Line2D or None
        Lines of the true errors.
    ax_ : Axes
        The axes, with a log scale of sizes.
    figure_ : Figure
        The figure.

    See Also
    --------
    calibration_error : The binned errors, and where their bias comes from.
    ece_bias_bound : A bound of that bias for every forecast.

    Notes
    -----
    Subsamples of a size near N share most of their samples, so that the band closes there by
    construction: it is the spread between data sets of size n only for n well below N. The last
    point, all N samples, is one evaluation without a band.

    References
    ----------
    .. [1] Gruber & Buettner (2022), Better uncertainty calibration via proper scores for
       classification and beyond, NeurIPS (G22).

    Examples
    --------
    >>> from skcalib import EstimationDisplay
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(5000, 3, random_state=0)
    >>> display = EstimationDisplay.from_predictions(  # of calibrated forecasts
    ...     data.y, data.posterior, errors=["ece", "rbs"])
    >>> for curve in display.curves:
    ...     print(curve.name, "falls" if curve.mean[-1] < curve.mean[0] / 2 else "stays")
    ECE falls
    Root Brier score stays
    """

    def __init__(self, curves, *, truth=None, name=None, band_level=0.9):
        self.curves = list(curves)
        self.truth = truth
        self.name = name
        self.band_level = band_level

    def plot(
        self,
        ax=None,
        *,
        name=None,
        band=True,
        prediction=True,
        floor=True,
        legend=True,
        curve_kwargs=None,
        band_kwargs=None,
        **kwargs,
    ):
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure. Displays on the same Axes are overlaid.
        name : str, default=None
            Name of the forecasts, instead of the display's own.
        band, prediction, floor, legend : bool, default=True
            Whether to draw the bands, the two folded-normal curves and the legend.
        curve_kwargs, band_kwargs : dict, default=None
            Arguments for ``Axes.plot`` and ``Axes.fill_between``.
        **kwargs : dict
            Properties of matplotlib's Line2D for the means, such as ``color`` and ``marker``.

        Returns
        -------
        EstimationDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` is no Axes, or `truth` is neither a number nor a dict by names of the curves.
        TypeError
            For an argument that is no property of a line.
        """
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        style = draw.line_style(kwargs, curve_kwargs)
        (self.ax_,) = draw.panel_axes(sized_axes() if ax is None else ax, 1)
        artists = draw_curves(
            self.ax_,
            self.curves,
            self._truths(),
            name=self.name if name is None else name,
            shown={"band": band, "prediction": prediction, "floor": floor},
            curve_style=style,
            band_style=band_kwargs or {},
        )
        if legend:
            draw_keys(self.ax_, artists, f"{self.band_level * 100:g} % of the subsamples")
        for part, drawn in artists.items():
            setattr(self, f"{part}_", draw.one_or_all(drawn))
        self.figure_ = self.ax_.figure
        return self

    def _truths(self):
        """True errors by the names of the curves."""
        names = [curve.name for curve in self.curves]
        truths = {} if self.truth is None else self.truth
        if not isinstance(truths, Mapping):
            truths = dict.fromkeys(names, truths)
        if not set(truths) <= set(names) or not all(isinstance(t, Real) for t in truths.values()):
            raise ValueError(
                f"truth must be a number, or a dict of numbers by names among {names}; got "
                f"{self.truth!r}."
            )
        return truths
