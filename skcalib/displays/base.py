"""Base classes of displays; events, scales, histograms, legends and docstrings that they share.

A display writes `from_predictions`, whose labels may also be a `Problem` or a sketch, and `plot`.
`from_estimator` finds held-out probabilities and passes the options on. `DiagonalDisplay` draws
panels of curves against scores.

`complete_docstrings` adds entries of parameters and attributes that mean the same everywhere, and
the section "Returns" of constructors and `plot`, which return the display.

matplotlib is imported where something is drawn, not with this module.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.formatting import class_text, printable
from skcalib._util.parameters import (
    ENTRIES,
    add_entries,
    add_parameters,
    by_name,
    check_choice,
    checks_parameters,
    docstring_of,
    sections_of,
)
from skcalib._util.types import CV, ArrayLike, MatrixLike, ResponseMethod
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.labels import check_y
from skcalib.data.notions import Classwise, Cumulative, Multilabel, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    binary_events,
    check_problem,
    check_sketch,
    named_events,
)
from skcalib.estimators.classifiers import (
    ClassifierInspector,
    held_out_problem,
    label_proba,
    name_with_response,
)
from skcalib.scores import Brier, LogLoss, RankedProbability, Spherical, resolve_loss

__all__ = ["Display"]


# --- Docstrings -----------------------------------------------------------------------------------


_CONSTRUCTORS = by_name("""\
y_true : array-like of shape (n_samples,)
    Labels.
y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
    Probability of the positive class, or of each class.
estimator : classifier
    Fitted, unless `cv` is given.
cv : None, int or splitter, default=None
    None: the classifier is fitted and (X, y) is held out. Else it is cloned, and its
    out-of-fold probabilities are used.
sketch : ForecastSketch
    Sums over cells of the probability; its notion determines the panels.
name : str, default=None
    Name of the forecasts or of a single model, in the legend or the title; of a classifier its
    class by default, with "decision values" if the scores are these (:ref:`decision_values`).
ax : Axes or array of Axes, default=None
    Where to draw.
**plot_params : dict
    Further arguments of `plot`.
""")
_PLOT = by_name("""\
ax : Axes or array of Axes, default=None
    Where to draw; None makes a figure. Displays on the same Axes are overlaid. Several
    panels need an array of Axes, one each.
name : str, default=None
    Name of a single model, in the legend or the title, instead of its own.
scale : {"auto", "linear", "sqrt", "logit"}, default="auto"
    Scale of both axes, on which the diagonal is a straight line.
    "auto" is linear unless the forecasts are crowded near 0 or 1, as those of a rare event.
    Then it is the square root (of the probability of the crowded end), and the logit where
    95 % of them lie within .02 of the end and none is exactly 0 or 1; frequencies of 0 and 1
    lie beyond a logit axis. Displays on the same Axes share a scale.
ref_line, histogram, legend : bool, default=True
    Whether to draw the diagonal, the histogram of the forecasts and the legend.
curve_kwargs : dict, default=None
    Arguments for ``Axes.plot``.
band_kwargs : dict, default=None
    Arguments for ``Axes.fill_between``, and ``Axes.vlines`` for bins.
hist_kwargs : dict, default=None
    Arguments for ``Axes.hist``.
ref_line_kwargs : dict, default=None
    Arguments for ``Axes.plot``, of the diagonal or of the curves without a model.
**kwargs : dict
    Properties of matplotlib's Line2D for the curve, such as ``color`` and ``linestyle``. A colour
    also holds for the band and the histogram.
""")
_PLOT_RAISES = by_name("""\
ValueError
    If `ax` cannot hold the panels, and for an unknown option.
TypeError
    For an argument that is not a property of a line.
""")
_ATTRIBUTES = by_name("""\
ax_ : Axes or list of Axes
    The panel or panels.
figure_ : Figure
    The figure.
""")


def complete_docstrings(cls):
    """Add to the docstrings of a display what they leave out; returns the class."""
    class_sections = sections_of(cls.__doc__)
    of_class = ENTRIES | _CONSTRUCTORS | by_name(class_sections.get("Parameters", ""))
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if (name == "plot" or name.startswith("from_")) and function.__doc__:
            of_plot = name == "plot"
            sections = sections_of(function.__doc__)
            add_parameters(function, sections, _PLOT if of_plot else of_class)
            state = " itself" if of_plot else ", drawn"
            sections.setdefault("Returns", f"{cls.__name__}\n    The display{state}.")
            if of_plot:
                styled = ["TypeError"] if "kwargs" in signature(function).parameters else []
                add_entries(sections, "Raises", _PLOT_RAISES, ["ValueError", *styled])
            function.__doc__ = docstring_of(sections)
    if class_sections:
        add_parameters(cls, class_sections, of_class)
        attributes = by_name(class_sections.get("Attributes", ""))
        add_entries(class_sections, "Attributes", _ATTRIBUTES, [*attributes, *_ATTRIBUTES])
        cls.__doc__ = docstring_of(class_sections)
    return cls


# --- The base class -------------------------------------------------------------------------------


@complete_docstrings
class Display:
    """A figure of labels and forecasts."""

    #: What to do with an evaluated classifier, in a message.
    _instead: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_docstrings(cls)

    @classmethod
    def from_predictions(cls, y_true: Any, y_proba: Any, **options: Any) -> Self:
        """The display of labels, of a `Problem` or of a sketch."""
        raise NotImplementedError

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
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """The same of a classifier on held-out data.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with `cv` they are also passed to the classifier.
        **options
            As in `from_predictions`.

        Returns
        -------
        Self
            The display, drawn.

        Raises
        ------
        ValueError
            As `from_predictions`, and for an estimator that is not a classifier.
        NotFittedError
            For a classifier that is not fitted, without `cv`.
        """
        if isinstance(estimator, ClassifierInspector):
            kind = type(estimator).__name__
            raise ValueError(f"{kind} is not a classifier: pass the classifier{cls._instead}.")
        if "name" in signature(cls.from_predictions).parameters:
            options["name"] = name or name_with_response(estimator, response_method)
        if isinstance(resolve_notion(options.get("notion", "auto")), Multilabel):
            if cv is not None:
                raise ValueError("notion=Multilabel() needs a fitted classifier: leave out cv.")
            proba = label_proba(estimator, X, response_method=response_method)
            return cls.from_predictions(y, proba, sample_weight=sample_weight, **options)
        problem, features, rows = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            groups=options.pop("groups", None),
            owner=cls.__name__,
        )
        options = cls._for_rows(options, features, rows, np.shape(y)[0])
        return cls.from_predictions(problem, problem.forecast, **options)

    @classmethod
    def _of_sketch(cls, sketch, **options):
        """The display of a sketch in place of labels and forecasts."""
        check_sketch(sketch)
        return cls.from_predictions(sketch, None, **options)

    @classmethod
    def _for_rows(cls, options, X, rows, n_samples):
        """Options of the `rows` that have held-out probabilities, with the features X."""
        return options


def held_out(estimator, X, y, *, cv, response_method, sample_weight, owner, groups=None):
    """The `Problem` of the samples that can be assessed, their features, and their rows."""
    check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups)
    y = check_y(y, name="y")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    problem, rows = held_out_problem(
        estimator,
        X,
        y,
        weight,
        cv=cv,
        response_method=response_method,
        owner=owner,
        groups=groups,
        split_groups=groups,
        fit_params=None if cv is None or weight is None else {"sample_weight": weight},
    )
    features = X if len(rows) == len(y) else take_rows(X, rows)
    return problem, features, rows


# --- Displays with a diagonal ---------------------------------------------------------------------


CALIBRATED = "Perfectly calibrated"  # the diagonal of outcomes
UNCHANGED = "Unchanged"  # that of a map


class DiagonalDisplay(Display):
    """Base class: curves against scores, on panels with the diagonal and a histogram of the scores.

    `_draw_curves` draws the records of a panel, adds the artists to their `_parts`, and returns the
    colour of the histogram.
    """

    _parts: ClassVar[tuple[str, ...]]
    _diagonal: ClassVar[str] = CALIBRATED
    _outcome: ClassVar[str] = "Observed frequency"

    def _draw_panels(self, axes, panels, samples, *, ref_style, hist_style, **options):
        """Draw `panels`, pairs of an event and its records, with the `samples` of the histograms.

        A sample is (scores, weight) or None. Without its style, the diagonal or the histogram is
        left out.
        """
        artists = {part: [] for part in self._parts}
        for ax, (event, records), sample in zip(axes, panels, samples, strict=True):
            if ref_style is not None:
                earlier = [line for line in ax.lines if line.get_label() == self._diagonal]
                style = DOTTED | {"label": self._diagonal} | ref_style
                artists["ref_line"] += earlier[:1] or ax.plot([0, 1], [0, 1], **style)
            color = self._draw_curves(ax, records, artists, **options)
            if hist_style is not None and sample is not None:
                artists["ax_hist"].append(draw_scores(ax, sample, {"color": color} | hist_style))
            ax.set(
                xlabel=text_of(event, "Predicted probability", "Confidence"),
                ylabel=text_of(event, self._outcome, "Accuracy"),
                aspect="equal",
            )
        return artists

    def _draw_curves(self, ax, records, artists, **options):
        raise NotImplementedError


# --- Histograms of scores -------------------------------------------------------------------------


_SPIKE = 12  # times the median bin: a taller histogram has a square-root scale


def draw_scores(ax, sample, style):
    """Histogram of (scores, weight) in a thin inset above the axes, shared by all displays on them.

    The bins have equal width on the scale of the axes. The height has one scale for all scores that
    `scale_panels` knows: the share of the forecasts, or its square root if one bin is so high that
    the others would be invisible. Earlier histograms on the axes are drawn again.
    """
    inset = next((child for child in ax.child_axes if child.get_label() == _SCORES), None)
    if inset is None:
        inset = ax.inset_axes([0, 1.02, 1, 0.13], sharex=ax, label=_SCORES)
        inset.tick_params(left=False, labelleft=False)
        inset.xaxis.set_visible(False)
        inset.spines[["top", "left", "right"]].set_visible(False)
        inset.patch.set_visible(False)
    style = {"alpha": 0.4, "histtype": "stepfilled"} | style
    inset.skcalib_drawn = [*getattr(inset, "skcalib_drawn", ()), (sample, style)]
    for patch in list(inset.patches):
        patch.remove()
    edges = bin_edges(ax)
    for (scores, weight), style_of_sample in inset.skcalib_drawn:
        shares = weight / weight.sum()
        inset.hist(np.clip(scores, edges[0], edges[-1]), edges, weights=shares, **style_of_sample)
    root, top = histogram_scale(ax.skcalib_scores, edges)
    if root:
        inset.set_yscale("function", functions=(stretch, unstretch))
        inset.set_yticks([])
    inset.set_ylim(0, 1.05 * top)
    size = "x-small" if width_of(ax) > NARROW else 6
    inset.set_ylabel("√ share" if root else "Share", fontsize=size)
    return inset


def histogram_scale(rows, edges):
    """Whether histograms of (scores, weight) need square roots, and the largest share in a bin."""
    root, top = False, 0.0
    for scores, weight in rows:
        inside = np.clip(scores, edges[0], edges[-1])
        shares = np.histogram(inside, edges, weights=weight)[0] / weight.sum()
        root = root or shares.max() > _SPIKE * np.median(shares[shares > 0])
        top = max(top, shares.max())
    return root, top


def scores_of(records):
    """Scores and weights of all samples of curves or maps, such as those of folds; or None."""
    known = [record for record in records if record.scores is not None]
    if not known:
        return None
    return tuple(
        np.concatenate([getattr(record, of) for record in known]) for of in ("scores", "weight")
    )


# --- Events, each of which has a panel ------------------------------------------------------------


MAX_PANELS = 25
#: Notions with a panel for each binary event -> the word for one, for several, and a remedy.
_PANELS = {
    Multilabel: ("label", "labels", "pass some of the columns of y_true and y_proba."),
    Cumulative: (
        "threshold",
        "thresholds",
        "draw single thresholds with y_true <= c and the sum of the columns up to c.",
    ),
    Classwise: (
        "class",
        "classes",
        "draw single classes with y_true == c and y_proba[:, column of c], or use "
        "notion='top_label'.",
    ),
}


def panel_events(y_true, y_proba, notion, *, pos_label=None, name="y_proba", **arguments):
    """Each binary event of samples or of a sketch and its `Problem`; see `binary_problems`."""
    if isinstance(y_true, ForecastSummary):
        events = named_events(y_true, None, notion)
        _check_panels(Classwise(), len(events))
        return events
    arguments |= {"pos_label": pos_label, "name": name, "incomplete": True}
    problem = check_problem(y_true, y_proba, notion, **arguments)
    return binary_problems(problem, pos_label, notion)


def binary_problems(problem, pos_label, notion):
    """Each binary event of the notion and its `Problem`; few enough to draw a panel of each."""
    _check_panels(notion, len(problem.classes))
    return binary_events(problem, pos_label, notion)


def _check_panels(notion, n_classes):
    n_panels = n_classes - isinstance(notion, Cumulative)
    for kind, (event, events, remedy) in _PANELS.items():
        if isinstance(notion, kind) and n_panels > MAX_PANELS:
            name = repr(notion) if kind is Multilabel else f"notion={kind.__name__.lower()!r}"
            raise ValueError(
                f"{name} draws one panel per {event}, and {n_panels} {events} exceed the limit of "
                f"{MAX_PANELS} panels: {remedy}"
            )


def grouped(records, field="event"):
    """Curves, maps or groups by their event, which has a panel, or by another field."""
    groups = {}
    for record in records:
        groups.setdefault(getattr(record, field), []).append(record)
    return groups


# --- Units of losses ------------------------------------------------------------------------------


_UNITS = {
    Brier: "Brier score",
    LogLoss: "log loss in nats",
    Spherical: "spherical score",
    RankedProbability: "ranked probability score",
}


def unit(loss):
    """Name and unit of a loss; the class name for a score from outside this library."""
    score = resolve_loss(loss)
    return _UNITS.get(type(score), type(score).__name__)


# --- Colours and lines ----------------------------------------------------------------------------


# The palette of Okabe and Ito, which is distinguishable with any colour vision.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
GREY = "0.35"
# Overlaid curves also differ in greyscale.
LINES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)), (0, (7, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 40  # a curve with at most this many points has markers
DOTTED = {"color": GREY, "linestyle": ":", "linewidth": 1.2, "zorder": 1.5}  # lines to compare with
NARROW = 3.0  # inches; narrower axes have smaller letters
_CURVE = "skcalib curve"  # group id of the lines of a display, with its number
_SCORES = "skcalib scores"  # label by which the histogram of an earlier display is found


# --- Axes of panels -------------------------------------------------------------------------------


def panel_axes(ax, n_panels, *, size=None, histogram=True, **options):
    """Axes for the panels: the ones given by the user, or those of a new figure.

    A figure of this `size` has them one above the other, with `options` of ``Figure.subplots``.
    """
    from matplotlib.axes import Axes

    if ax is None:
        import matplotlib.pyplot as plt  # only new figures need it

        columns = 1 if size else int(np.ceil(np.sqrt(n_panels)))
        rows = -(-n_panels // columns)
        single = (5, 5.85 if histogram else 5.2)
        size = size or (single if n_panels == 1 else (3.2 * columns, 3.6 * rows))
        figure = plt.figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, **options).ravel().tolist()
        for surplus in panels[n_panels:]:
            surplus.remove()
        return panels[:n_panels]
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.array(ax, dtype=object)))
    if len(axes) != n_panels or not all(isinstance(panel, Axes) for panel in axes):
        needed = "a matplotlib Axes" if n_panels == 1 else f"an array of {n_panels} Axes"
        raise ValueError(f"ax must be {needed}, one for each panel, or None for a new figure.")
    return axes


def width_of(ax):
    """Width of the axes in inches."""
    return ax.get_window_extent().width / ax.figure.dpi


def text_of(event, quantity, confidence):
    """Label of an axis with a `quantity` of the event; of the `confidence` for the top label."""
    if event == "top label":
        return confidence
    return f"{quantity} of {event_text(event)}" if event else quantity


def event_text(event):
    """The event as text for a label: "class churn" becomes "churn", "class 1" is kept."""
    name = class_text(event.removeprefix("class ")) if event.startswith("class ") else event
    return printable(name).replace("$", r"\$")  # not a formula


def set_artists(display, axes, artists):
    """Set the attributes of the kinds of artists, of axes and figure; returns the display."""
    for part, drawn in {**artists, "ax": axes}.items():
        setattr(display, f"{part}_", drawn[0] if len(drawn) == 1 else drawn or None)
    display.figure_ = axes[0].figure
    return display


# --- Lines, bands and their styles ----------------------------------------------------------------


def without_aliases(style, kind="line"):
    """Arguments of an artist, or None, with full names: "linewidth" for "lw"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.lines import Line2D

    artists = {"line": Line2D, "points": PathCollection, "segments": LineCollection}
    return normalize_kwargs(style, artists[kind])


def line_style(kwargs, curve_kwargs=None):
    """Line properties from `plot` and `curve_kwargs`, without aliases; raises for unknown names."""
    from matplotlib.lines import Line2D

    style = without_aliases(kwargs)
    for name in style:
        if not hasattr(Line2D, f"set_{name}"):
            raise TypeError(
                f"plot() got an unexpected keyword argument {name!r}: it takes its own parameters "
                "and properties of matplotlib's Line2D, such as color, linestyle and linewidth."
            )
    return style | without_aliases(curve_kwargs)


def curve_number(ax):
    """How many curves or sets of folds displays have drawn on the axes."""
    return len({line.get_gid() for line in ax.lines if str(line.get_gid()).startswith(_CURVE)})


def next_style(ax):
    """Style of the next curve on the axes, by its number and the first colour that is free."""
    from matplotlib.colors import to_hex

    number, used = curve_number(ax), {to_hex(line.get_color()) for line in ax.lines}
    free = [color for color in COLORS if color not in used]
    return {
        "color": free[0] if free else COLORS[len(ax.lines) % len(COLORS)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4,
        "gid": f"{_CURVE} {number}",
        "linewidth": 1.6,
        "zorder": 3,
    }


def draw_curve(ax, x, y, look, style):
    """A line in this style, or else as `look`; its points are marked if they are few."""
    if len(x) > FEW:
        look = look | {"marker": None, "markersize": None}
    return ax.plot(x, y, **{**look, **style})[0]


def draw_band(ax, x, low, high, style, text=None, *, bars=False):
    """The area between two curves, or bars at x, with a `text` that is once in the legend."""
    style = {
        "linewidth": 5 if bars else 0,
        "zorder": 2,
        "label": new_legend_text(ax, text),
        **style,
    }
    return (ax.vlines if bars else ax.fill_between)(x, low, high, **style)


def ends_of(intervals):
    """Centres of intervals, and the lengths of their two arms for ``Axes.errorbar``."""
    low, centre, high = np.array(
        [[interval.low, interval.estimate, interval.high] for interval in intervals]
    ).T
    return centre, np.maximum([centre - low, high - centre], 0)


# --- Scales of probabilities that show crowded scores ---------------------------------------------


_BINS = 40  # of a histogram
_MARGIN = 0.02  # beyond 0 and 1, as a fraction of the axis, so that both ends are visible
# Ticks of a square-root scale that stretches 0, and where less fits: in narrow axes, or near 100 %.
_TICKS, _NARROW_TICKS = (0, 0.01, 0.1, 0.25, 0.5, 1), (0, 0.1, 0.5, 1)


def stretch(p, end=0):
    """Square root of the distance from an end of [0, 1], odd around it."""
    return end + np.sign(p - end) * np.sqrt(np.abs(p - end))


def unstretch(place, end=0):
    """Inverse of `stretch`."""
    return end + np.sign(place - end) * (place - end) ** 2


def scale_panels(axes, rows, scale):
    """One scale of both axes for all panels, and one for their histograms.

    It depends on the (scores, weight) in `rows` and on those of earlier displays. "auto" is linear
    unless the scores are crowded near 0 or near 1. They are crowded near 0 if 95 % of them lie
    below .2, or 95 % below .5 and three quarters below .1; near 1 likewise. Then it is "logit" if
    95 % lie below .02, or if displays on the same axes are crowded at different ends, and no score
    is 0 or 1; else "sqrt". A scale requested by name is kept.
    """
    check_choice(scale, "scale", choices=("auto", "linear", "logit", "sqrt"))
    rows = rows or [(np.array([0.25, 0.5, 0.75]), np.ones(3))]  # without scores: not crowded
    quantiles = _quantiles(*map(np.concatenate, zip(*rows, strict=True)))
    for ax in axes:
        # Stored on the axes themselves: a table of axes would keep the figures in memory.
        ax.skcalib_scores = [*getattr(ax, "skcalib_scores", ()), *rows]
        ax.skcalib_quantiles = [*getattr(ax, "skcalib_quantiles", ()), quantiles]
        if scale != "auto":
            ax.skcalib_chosen = scale
        known = np.array(ax.skcalib_quantiles)
        ax.skcalib_scale = _choose_scale(known, getattr(ax, "skcalib_chosen", "auto"))
        _set_scale(ax, known, ax.skcalib_scale)


def _quantiles(scores, weight):
    """Smallest score, quantiles .01, .05, .25, .5, .75, .95 and .99, and largest score."""
    scores = np.clip(np.asarray(scores, dtype=np.float64), 0, 1)
    shares = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    if np.min(weight) == np.max(weight):
        inner = np.quantile(scores, shares, method="inverted_cdf")
    else:
        order = np.argsort(scores)
        mass = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
        rank = np.searchsorted(mass, shares * mass[-1])
        inner = scores[order][np.minimum(rank, len(scores) - 1)]
    return scores.min(), *inner, scores.max()


def _choose_scale(quantiles, scale):
    """The scale for the `_quantiles` of all displays, in rows."""
    least, _, q05, q25, _, q75, q95, _, largest = quantiles.T
    at_zero = np.any((q95 < 0.2) | ((q95 < 0.5) & (q75 < 0.1)))
    at_one = np.any((q05 > 0.8) | ((q05 > 0.5) & (q25 > 0.9)))
    inside = least.min() > 0 and largest.max() < 1
    if scale == "logit" and not inside:
        raise ValueError(
            "scale='logit' shows no forecasts of exactly 0 or 1, which occur: use scale='sqrt', or "
            "clip the forecasts."
        )
    if scale != "auto":
        return scale
    if not (at_zero or at_one):
        return "linear"
    very = (at_zero and at_one) or np.any((q95 < 0.02) | (q05 > 0.98))
    return "logit" if very and inside else "sqrt"


def _set_scale(ax, quantiles, scale):
    """Set scale, limits and ticks of both axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogitLocator, NullLocator

    name, options, limits = scale, {}, (-_MARGIN, 1 + _MARGIN)
    if scale == "logit":
        options = {"nonpositive": "clip"}
        limits = min(quantiles[:, 1].min() / 2, 0.1), max((1 + quantiles[:, -2].max()) / 2, 0.9)
        locator = partial(LogitLocator, nbins=4)
    elif scale == "sqrt":
        near_one = quantiles[:, 4].mean() > 0.5  # the medians
        functions = partial(stretch, end=int(near_one)), partial(unstretch, end=int(near_one))
        name, options = "function", {"functions": functions}
        limits = functions[1](np.array(limits))
        ticks = _NARROW_TICKS if width_of(ax) < NARROW or near_one else _TICKS
        locator = partial(FixedLocator, sorted(1 - p for p in ticks) if near_one else ticks)
    if scale != "linear" or ax.get_xscale() != "linear":
        ax.set_xscale(name, **options)
        ax.set_yscale(name, **options)
    if scale != "linear":
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(percent))
            axis.set_minor_locator(NullLocator())
            axis.set_major_locator(locator())
    ax.set(xlim=limits, ylim=limits)


def percent(p, _=None):
    """A probability as a plain percentage, such as 0.1 %."""
    return f"{round(100 * p, 6):.6g} %"


def places_on_axis(ax, p):
    """Probabilities as fractions of the part of the axis that shows probabilities."""
    transform = ax.xaxis.get_transform()
    start, end = transform.transform(np.clip(ax.get_xlim(), 0, 1))
    return (transform.transform(np.asarray(p, dtype=np.float64)) - start) / (end - start)


def probabilities_at(ax, places):
    """Inverse of `places_on_axis`."""
    transform = ax.xaxis.get_transform()
    low, high = np.clip(ax.get_xlim(), 0, 1)
    start, end = transform.transform(np.array([low, high]))
    return np.clip(transform.inverted().transform(start + (end - start) * places), low, high)


def bin_edges(ax):
    """Edges of bins that have equal width on the axis."""
    return probabilities_at(ax, np.linspace(0, 1, _BINS + 1))


# --- Legends --------------------------------------------------------------------------------------


_SHARED = "skcalib shared legend"  # of several panels, on their figure
_NARROW_LEGEND = 4.0  # inches; legends of narrower axes have smaller letters
_BELOW_AXES = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "frameon": False}


def draw_legends(axes, *, below=False, **style):
    """A legend in the best place of each panel, and one of what all panels have in common.

    With `below` all are below the axes, where they cover nothing.
    """
    entries = [legend_entries(ax) for ax in axes]
    common = set.intersection(*({text for _, text in pairs} for pairs in entries))
    outside = (below or len(axes) > 1) and fills_figure(axes)
    if outside:
        common_legend(axes, [entry for entry in entries[0] if entry[1] in common], **style)
    for ax, pairs in zip(axes, entries, strict=True):
        everything = ax is axes[0] and not outside
        panel_pairs = [pair for pair in pairs if everything or pair[1] not in common]
        place_legend(ax, panel_pairs, **(_BELOW_AXES if below else {}), **style)


def new_legend_text(ax, text):
    """The text of a legend entry, or None if the axes have it."""
    return None if text in ax.get_legend_handles_labels()[1] else text


def legend_entries(ax):
    """Pairs (artist, text) of the artists on the axes that have a label, the diagonal last."""
    entries = zip(*ax.get_legend_handles_labels(), strict=True)
    return sorted(entries, key=lambda entry: entry[1] in (CALIBRATED, UNCHANGED))


def fills_figure(axes):
    """Whether the panels are all axes of a figure whose layout makes room for a legend."""
    figure = axes[0].figure
    return figure.get_layout_engine() is not None and set(figure.axes) == set(axes)


def common_legend(axes, entries, **style):
    """One legend for all panels: below them where they fill the figure, else in the first."""
    figure = axes[0].figure if fills_figure(axes) else None
    earlier = [] if figure is None else figure.legends
    for legend in [legend for legend in earlier if legend.get_gid() == _SHARED]:
        legend.remove()
    place_legend(axes[0], entries, figure, **style)


def place_legend(ax, entries, figure=None, **style):
    """Legend of (artist, text) pairs in the best place of the axes, or below all of the figure.

    Its lines are opaque, where those of the axes are not.
    """
    from matplotlib.lines import Line2D

    if not entries:
        return
    size = "small" if width_of(ax) > _NARROW_LEGEND else "x-small"
    place = {"loc": "best", "fontsize": size, "handlelength": 2.4}
    if figure is not None:
        place = {
            "loc": "outside lower center",
            "fontsize": "small",
            "frameon": False,
            "ncols": 2 if figure.get_figwidth() > 6 else 1,
        }
    legend = (figure or ax).legend(*zip(*entries, strict=True), **{**place, **style})
    legend.set_gid(None if figure is None else _SHARED)
    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):
            handle.set_alpha(1)
