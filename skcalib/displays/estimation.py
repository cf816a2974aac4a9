"""Errors against the sample size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sklearn.utils import check_random_state

from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.problem import check_problem, event_last
from skcalib.displays._constructors import Display
from skcalib.displays._subsamples import (
    EstimationCurve,
    check_errors,
    check_sizes,
    estimation_curves,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class EstimationDisplay(Display):
    r"""Plot estimated errors against the number of samples.

    Create one with `from_estimator` or `from_predictions`. Every error is evaluated on random
    subsamples of the data. An error with a flat curve is comparable between data sets of different
    sizes. The curve of the ECE decreases, and most steeply for good forecasts (G22).

    ==========  ====================================================================================
    Name        Error
    ==========  ====================================================================================
    "ece"       :func:`calibration_error` with 15 bins of equal width
    "debiased"  the same bins, l2, squared and debiased
    "ks"        :func:`ks_calibration_error`
    "proper"    :func:`proper_calibration_error`, Brier
    "kernel"    :func:`kernel_calibration_error`, unbiased
    "rbs"       :func:`root_brier_score`, an upper bound of the root of "proper"
    ==========  ====================================================================================

    All errors have the same notion. By default it is one score at a time: the probability of the
    positive class for two classes, and the top label for more.

    "debiased", "proper", "kernel" and "rbs" are unbiased as squares, and the first three may be
    negative. So the signed root of the mean square is drawn. The unit is that of a probability; for
    "kernel" it is that of the kernel.

    For an l1 :func:`calibration_error` with any bins, two more curves follow from the folded normal
    distribution (G22). With the share :math:`p_b` of bin b, its gap :math:`g_b` (mean label minus
    mean score) and the variance :math:`v_b` of label minus score,

    .. math:: E\,ECE_n \approx \sum_b p_b\, E\, |N(g_b, v_b / (n p_b))| .

    - **Prediction**, dashed: the formula with the gaps and variances of all N samples. The variance
      :math:`v_b` is multiplied by 1 - n / N, as subsamples are drawn without replacement.
    - **Floor**, dotted: the formula if the same forecasts were calibrated, with :math:`g_b = 0` and
      the mean of s (1 - s) as :math:`v_b`. An ECE near its floor is no evidence of miscalibration.

    Subsamples of a size near N share most of their samples, so the band narrows there by
    construction. The last point, all N samples, is one evaluation without a band.

    Parameters
    ----------
    curves : list of EstimationCurve
        One record per error: ``name``, ``size``, ``mean``, ``low``, ``high``, ``prediction`` and
        ``floor``.
    truth : float or dict of str to float, default=None
        The true error: one value, or a dict by the names of the curves.
    confidence_level : float, default=0.95
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

    See Also
    --------
    skcalib.theory.ece_bias_bound : A bound of that bias for every forecast.

    Examples
    --------
    .. plot::
        :alt: Two errors against the sample size: the ECE falls, the root Brier score does not.

        >>> from skcalib.displays import EstimationDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(5000, 3, random_state=0)
        >>> display = EstimationDisplay.from_predictions(  # of calibrated forecasts
        ...     data.y, data.posterior, errors=["ece", "rbs"])
        >>> for curve in display.curves:
        ...     print(curve.name, "falls" if curve.mean[-1] < curve.mean[0] / 2 else "stays")
        ECE falls
        Root Brier score stays
    """

    _constructors: ClassVar = {"from_estimator": {"labels"}}

    def __init__(
        self,
        curves: list[EstimationCurve],
        *,
        truth: float | Mapping[str, float] | None = None,
        name: str | None = None,
        confidence_level: float = 0.95,
    ) -> None:
        self.curves = list(curves)
        self.truth = truth
        self.name = name
        self.confidence_level = confidence_level

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        errors: str | Callable[..., float] | Sequence[Any] | Mapping[str, Any] = ("ece", "proper"),
        notion: NotionLike = "auto",
        sample_sizes: Sequence[int] | None = None,
        n_repeats: int = 50,
        confidence_level: float = 0.95,
        truth: float | Mapping[str, float] | None = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Errors of random subsamples of given probabilities.

        Parameters
        ----------
        errors : str, callable, list or dict of them by name, default=("ece", "proper")
            The errors to draw: names from the table in `EstimationDisplay`, or any error of this
            library or function ``error(y_true, y_proba, *, labels)`` (with `sample_weight` if
            weights are given); ``functools.partial`` fixes its options. The keys of a dict are the
            names in the legend.
        notion : str or Notion, default="auto"
            Notion of the errors that are named by strings, with the names of
            :func:`calibration_error`; a function has its own.
        sample_sizes : list of int, default=None
            Sizes of the subsamples, at most the number of samples; by default nine between about
            100 and all, evenly spaced on a log scale.
        n_repeats : int, default=50
            Subsamples of each size, drawn without replacement and the same for all errors. The full
            data are evaluated once.
        confidence_level : float, default=0.95
            Central share of the subsamples that the band contains.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which stay with their samples.

        Raises
        ------
        ValueError
            For invalid input, unknown errors, two errors of the same name, sizes larger than the
            data, and errors that return NaN or raise on a subsample (for example, one that is too
            small).
        """
        errors = check_errors(errors, notion)
        problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
        problem.require_order(resolve_notion(notion))
        problem = event_last(problem, pos_label)
        check_truth(truth, [error.name for error in errors])
        curves = estimation_curves(
            problem,
            errors,
            check_sizes(sample_sizes, len(problem.forecast)),
            weighted=problem.sample_weight is not None,
            n_repeats=n_repeats,
            confidence_level=confidence_level,
            rng=check_random_state(random_state),
            n_jobs=n_jobs,
        )
        display = cls(curves, truth=truth, name=name, confidence_level=confidence_level)
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        prediction: bool = True,
        floor: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        band, prediction, floor, legend : bool, default=True
            Whether to draw the bands, the two folded-normal curves and the legend.

        Raises
        ------
        ValueError
            If `ax` is not an Axes, or `truth` is neither a number nor a dict by names of the
            curves.
        """
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        style = draw.line_style(kwargs, curve_kwargs)
        (self.ax_,) = draw.panel_axes(draw.new_axes((6.4, 4.6)) if ax is None else ax, 1)
        artists = _draw_curves(
            self.ax_,
            self.curves,
            check_truth(self.truth, [curve.name for curve in self.curves]),
            name=self.name if name is None else name,
            shown={"band": band, "prediction": prediction, "floor": floor},
            curve_style=style,
            band_style=band_kwargs or {},
        )
        if legend:
            draw_keys(self.ax_, artists, f"{self.confidence_level * 100:g} % of the subsamples")
        return draw.keep(self, artists | {"ax": [self.ax_]})


# --- Drawing of errors against the sample size ----------------------------------------------------


#: Lines of constant or expected error: legend text and line style.
KEYS = {
    "prediction": ("expected by the folded normal", "--"),
    "floor": ("expected if calibrated", ":"),
    "truth": ("truth", "-."),
}


def _draw_curves(ax, curves, truths, *, name, shown, curve_style, band_style):
    """Means, bands and lines of all curves -> lists of artists by their kind."""
    from skcalib.displays._plotting import next_color, next_number, numbered

    artists = {part: [] for part in ("line", "band", *KEYS)}
    for curve in curves:
        color = curve_style.get("color") or next_color(ax)
        label = curve.name if name is None else f"{name}: {curve.name}"
        style, marker = numbered(next_number(ax))
        # Line styles distinguish predictions, floors and truths from means; markers distinguish
        # errors.
        style |= {"linestyle": "-", "color": color, "label": label}
        style |= {"marker": marker, "markersize": 4.5, "zorder": 3}
        artists["line"] += ax.plot(curve.size, curve.mean, **{**style, **curve_style})
        if shown["band"]:
            style = {"color": color, "alpha": 0.18, "linewidth": 0, "zorder": 1, **band_style}
            artists["band"].append(ax.fill_between(curve.size, curve.low, curve.high, **style))
        for part in ("prediction", "floor"):
            heights = getattr(curve, part)
            if shown[part] and heights is not None:
                style = {"color": color, "linestyle": KEYS[part][1], "linewidth": 1.5, "zorder": 4}
                artists[part] += ax.plot(curve.size, heights, **style)
        if curve.name in truths:
            style = {"color": color, "linestyle": KEYS["truth"][1], "linewidth": 1.0, "zorder": 2}
            artists["truth"].append(ax.axhline(truths[curve.name], **style))
    ax.set(xscale="log", xlabel="Number of samples", ylabel="Estimated error")
    return artists


def draw_keys(ax: Axes, artists: dict[str, list], band: str) -> None:
    """Legend: a line for each error of all displays on the axes, and a grey key for each style."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from skcalib.displays._plotting import place_legend

    handles: list[Any] = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    grey: dict[str, Any] = {"color": "0.35", "linewidth": 1.3}
    handles += [
        Line2D([], [], label=text, **{**grey, "linestyle": style})
        for part, (text, style) in KEYS.items()
        if artists[part]
    ]
    if artists["band"]:
        handles.append(Patch(color="0.35", alpha=0.25, linewidth=0, label=band))
    place_legend(ax, [(handle, handle.get_label()) for handle in handles], ncols=2)


def check_truth(truth: float | Mapping[str, float] | None, names: list[str]) -> dict[str, float]:
    """True errors by the names of the errors; one number is that of all."""
    found = {} if truth is None else truth
    truths = dict(found) if isinstance(found, Mapping) else dict.fromkeys(names, found)
    if not set(truths) <= set(names) or not all(map(is_finite, truths.values())):
        raise ValueError(
            f"truth must be a number, or a dict of numbers by names among {names}; got "
            f"{shown(truth)}."
        )
    return truths
