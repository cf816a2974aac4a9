"""Errors of random subsamples against the sample size, and their expected values (G22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.formatting import Record
from skcalib._util.messages import is_finite, is_whole, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib.data.notions import Classwise, Cumulative, NotionLike, resolve_notion
from skcalib.data.problem import Samples, check_problem, event_last
from skcalib.displays import drawing as draw
from skcalib.displays.display import Display
from skcalib.error_intervals.quantities import DEBIASED, QUANTITIES, by
from skcalib.errors import calibration_error
from skcalib.errors.binned import check_bins, expected_errors_of_subsamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EstimationCurve", "EstimationDisplay"]

_POINTS = 9  # sample sizes, by default
_FIRST = 100  # the smallest size, if the data are at least ten times larger


@dataclass(frozen=True)
class NamedError:
    """An error ``function(y_true, y_proba, *, labels, sample_weight)`` and its name.

    ``squared`` errors are averaged as squares and shown as the root, in units of probability.
    """

    name: str
    function: object
    squared: bool = False

    def units(self, value):
        """Signed root of a squared error; other errors are returned unchanged."""
        return np.sign(value) * np.sqrt(np.abs(value)) if self.squared else value


#: Names of errors for `EstimationDisplay`.
ERRORS = {
    name: NamedError(quantity.label, quantity.metric, quantity.squared)
    for name, quantity in by("curve", (*QUANTITIES, DEBIASED)).items()
}


@dataclass(frozen=True)
class EstimationCurve(Record):
    """One error against the sample size; arrays of shape (m,).

    ``mean`` is that over subsamples, for a squared error the signed root of the mean; the central
    share of the subsamples lies between ``low`` and ``high``. For l1 binned errors ``prediction``
    is the expected value by the folded-normal distribution, and ``floor`` the expected error at
    this size if the same forecasts were calibrated; None for others.
    """

    name: str
    size: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prediction: np.ndarray | None = None
    floor: np.ndarray | None = None

    _rows = ("size", "mean", "low", "high", "prediction", "floor")
    _beside = ("name",)


def check_errors(errors, notion):
    """Names for the notion, functions, or a dict of them by label -> list of `NamedError`."""
    options = {"notion": resolve_notion(notion)}
    if isinstance(errors, Mapping):
        named = [_check_error(error, options, str(name)) for name, error in errors.items()]
    else:
        several = isinstance(errors, (list, tuple))
        named = [_check_error(error, options) for error in (errors if several else [errors])]
    labels = [error.name for error in named]
    if not named or len(set(labels)) < len(labels):
        raise ValueError(
            f"errors must contain at least one error, with distinct names, got {labels}: pass a "
            "dict of errors by name."
        )
    return named


def _check_error(error, options, name=None):
    if isinstance(error, str) and error in ERRORS:
        known = ERRORS[error]
        return NamedError(name or known.name, partial(known.function, **options), known.squared)
    if not callable(error) or isinstance(error, type):
        names = ", ".join(map(repr, ERRORS))
        raise ValueError(
            f"errors must be among {names}, or functions of (y_true, y_proba, labels=...); got "
            f"{shown(error)}."
        )
    inner = getattr(error, "func", error)  # of functools.partial
    return NamedError(name or getattr(inner, "__name__", repr(error)), error)


def check_sizes(sample_sizes, n_samples):
    """Increasing sample sizes; by default nine from about 100 to all samples."""
    if sample_sizes is None:
        first = min(_FIRST, max(n_samples // 10, 2), n_samples)
        return np.unique(np.rint(np.geomspace(first, n_samples, _POINTS)).astype(int))
    sizes = list(sample_sizes) if np.ndim(sample_sizes) == 1 else []
    if not sizes or not all(map(is_whole, sizes)) or min(sizes) < 1 or max(sizes) > n_samples:
        raise ValueError(
            f"sample_sizes must be a list of whole numbers from 1 to the number of samples, "
            f"{n_samples}; got {shown(sample_sizes)}."
        )
    return np.unique(sizes)


def estimation_curves(
    problem, errors, sizes, *, weighted, n_repeats, confidence_level, rng, n_jobs
):
    """Curves of several errors on the same random subsamples of a `Problem`."""
    n_samples = len(problem.forecast)
    repeats = [1 if size == n_samples else n_repeats for size in sizes]
    tasks = [size for size, times in zip(sizes, repeats, strict=True) for _ in range(times)]
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(tasks))
    estimates = Parallel(n_jobs=n_jobs)(
        delayed(_subsample_errors)(problem, errors, size, seed, weighted)
        for size, seed in zip(tasks, seeds, strict=True)
    )
    ends = np.cumsum(repeats)[:-1]
    tail = 50 * (1 - confidence_level)
    curves = []
    for error, values in zip(errors, np.array(estimates).T, strict=True):
        if np.isnan(values).any():
            raise ValueError(
                f"{error.name} returned NaN: pass an error that is defined on subsamples."
            )
        parts = np.split(values, ends)
        mean = np.array([part.mean() for part in parts])
        low, high = np.array([np.percentile(part, [tail, 100 - tail]) for part in parts]).T
        expected = _expected(problem, error.function, sizes, weighted)
        units = (error.units(value) for value in (mean, low, high))
        curves.append(EstimationCurve(error.name, sizes, *units, *expected))
    return curves


def _subsample_errors(problem, errors, size, seed, weighted):
    """Every error on one subsample, drawn without replacement and kept in the original order."""
    n_samples = len(problem.forecast)
    rows = slice(None)
    if size < n_samples:
        rows = np.random.default_rng(seed).choice(n_samples, size, replace=False)
    y, labels = problem.target[rows].argmax(axis=1), np.arange(len(problem.classes))
    options = {"sample_weight": problem.weight[rows]} if weighted else {}
    forecast = problem.forecast[rows]
    return [float(error.function(y, forecast, labels=labels, **options)) for error in errors]


def _expected(problem, function, sizes, weighted):
    """Folded-normal prediction and floor of an l1 `calibration_error`; None for other errors."""
    known = function if isinstance(function, partial) else partial(function)
    options = dict(known.keywords)
    if known.func is not calibration_error or options.pop("norm", "l1") != "l1":
        return None, None
    reduce = options.pop("reduce", "mean")
    notion = resolve_notion(options.pop("notion", "auto"))
    if type(notion) in (Classwise, Cumulative) and reduce == "sum":
        notion = type(notion)(reduce)
    n_bins, strategy = options.pop("n_bins", "auto"), options.pop("strategy", "quantile")
    y, weight = problem.target.argmax(axis=1), problem.weight if weighted else None
    labels = np.arange(len(problem.classes))
    events = Samples.of(y, problem.forecast, notion, weight, labels)
    score, event, weight = events.columns()
    weight = np.ones(score.shape[1]) if weight is None else weight
    share = 1 / len(score) if notion.reduce == "mean" else 1.0
    rows = []
    for size in sizes:
        bins = check_bins(n_bins, strategy, int(size))
        problems = zip(score, event, strict=True)
        rows.append(
            share
            * sum(expected_errors_of_subsamples(s, e, weight, bins, size) for s, e in problems)
        )
    return tuple(np.array(rows).T)


# --- The figure -----------------------------------------------------------------------------------


class EstimationDisplay(Display):
    r"""Plot estimated errors against the number of samples.

    Create one with `from_estimator` or `from_predictions`. Every error is evaluated on random
    subsamples of the data. An error with a flat curve is comparable between data sets of different
    sizes. The curve of the ECE decreases, and most steeply for good forecasts (G22).

    ==========  ====================================================================================
    Name        Error
    ==========  ====================================================================================
    "ece"       :func:`~skcalib.calibration_error` with 15 bins of equal width
    "debiased"  the same bins, l2, squared and debiased
    "ks"        :func:`~skcalib.ks_calibration_error`
    "proper"    :func:`~skcalib.proper_calibration_error`, Brier
    "kernel"    :func:`~skcalib.kernel_calibration_error`, unbiased
    "rbs"       :func:`~skcalib.root_brier_score`, an upper bound of the root of "proper"
    ==========  ====================================================================================

    All errors have the same notion. By default it is one score at a time: the probability of the
    positive class for two classes, and the top label for more.

    "debiased", "proper", "kernel" and "rbs" are unbiased as squares, and the first three may be
    negative. So the signed root of the mean square is drawn. The unit is that of a probability; for
    "kernel" it is that of the kernel.

    For an l1 :func:`~skcalib.calibration_error` with any bins, two more curves follow from the
    folded normal distribution (G22). With the share :math:`p_b` of bin b, its gap :math:`g_b` (mean
    label minus mean score) and the variance :math:`v_b` of label minus score,

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
            :func:`~skcalib.calibration_error`; a function has its own.
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
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
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
        style = draw.line_style(kwargs, curve_kwargs)
        truths = check_truth(self.truth, [curve.name for curve in self.curves])
        (self.ax_,) = draw.panel_axes(draw.new_axes((6.4, 4.6)) if ax is None else ax, 1)
        name = self.name if name is None else name
        artists: dict[str, list] = {part: [] for part in ("line", "band", *KEYS)}
        for curve in self.curves:
            color = style.get("color") or draw.next_color(self.ax_)
            # Line styles distinguish predictions, floors and truths from means; markers
            # distinguish errors.
            look, marker = draw.numbered(draw.next_number(self.ax_))
            look |= {"linestyle": "-", "color": color, "marker": marker, "markersize": 4.5}
            look |= {"label": curve.name if name is None else f"{name}: {curve.name}", "zorder": 3}
            artists["line"] += self.ax_.plot(curve.size, curve.mean, **{**look, **style})
            if band:
                area = {"color": color, "alpha": 0.18, "linewidth": 0, "zorder": 1}
                ends = curve.size, curve.low, curve.high
                drawn = self.ax_.fill_between(*ends, **{**area, **(band_kwargs or {})})
                artists["band"].append(drawn)
            for part, is_drawn in (("prediction", prediction), ("floor", floor)):
                heights = getattr(curve, part)
                if is_drawn and heights is not None:
                    dashes = {"linestyle": KEYS[part][1], "linewidth": 1.5, "zorder": 4}
                    artists[part] += self.ax_.plot(curve.size, heights, color=color, **dashes)
            if curve.name in truths:
                dashes = {"linestyle": KEYS["truth"][1], "linewidth": 1.0, "zorder": 2}
                line = self.ax_.axhline(truths[curve.name], color=color, **dashes)
                artists["truth"].append(line)
        self.ax_.set(xscale="log", xlabel="Number of samples", ylabel="Estimated error")
        if legend:
            _draw_keys(self.ax_, artists, f"{self.confidence_level * 100:g} % of the subsamples")
        return draw.keep(self, artists | {"ax": [self.ax_]})


#: Lines of constant or expected error: legend text and line style.
KEYS = {
    "prediction": ("expected by the folded normal", "--"),
    "floor": ("expected if calibrated", ":"),
    "truth": ("truth", "-."),
}


def _draw_keys(ax, artists, band):
    """Legend: a line for each error of all displays on the axes, and a grey key for each style."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries = draw.legend_entries(ax)
    entries += [
        (Line2D([], [], color=draw.GREY, linewidth=1.3, linestyle=style), text)
        for part, (text, style) in KEYS.items()
        if artists[part]
    ]
    if artists["band"]:
        entries.append((Patch(color=draw.GREY, alpha=0.25, linewidth=0), band))
    draw.place_legend(ax, entries)


def check_truth(truth: float | Mapping[str, float] | None, names: list[str]) -> dict[str, float]:
    """True errors by the names of the errors; one number is that of all."""
    if truth is None:
        return {}
    truths = dict(truth) if isinstance(truth, Mapping) else dict.fromkeys(names, truth)
    if not set(truths) <= set(names) or not all(map(is_finite, truths.values())):
        raise ValueError(
            f"truth must be a number, or a dict of numbers by names among {names}; got "
            f"{shown(truth)}."
        )
    return truths
