"""What all displays share: the base class with its constructor from a classifier, and docstrings.

A display writes `from_predictions`, whose labels may also be a `Problem` or a sketch.
`from_estimator` finds held-out probabilities and passes the options on.

`complete_docstrings` adds entries of parameters and attributes that mean the same everywhere, and
the section "Returns" of constructors and `plot`, which return the display.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.parameters import (
    ENTRIES,
    add_entries,
    add_parameters,
    by_name,
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


# --- Events, each of which has a panel ------------------------------------------------------------


MAX_PANELS = 25


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
    if isinstance(notion, Multilabel) and n_classes > MAX_PANELS:
        raise ValueError(
            f"{notion!r} draws one panel per label, and {n_classes} labels exceed the limit of "
            f"{MAX_PANELS} panels: pass some of the columns of y_true and y_proba."
        )
    if isinstance(notion, Cumulative) and n_classes - 1 > MAX_PANELS:
        raise ValueError(
            f"notion='cumulative' draws one panel per threshold, and {n_classes - 1} thresholds "
            f"exceed the limit of {MAX_PANELS} panels: draw single thresholds with y_true <= c and "
            "the sum of the columns up to c."
        )
    if isinstance(notion, Classwise) and n_classes > MAX_PANELS:
        raise ValueError(
            f"notion='classwise' draws one panel per class, and {n_classes} classes exceed the "
            f"limit of {MAX_PANELS} panels: draw single classes with y_true == c and "
            "y_proba[:, column of c], or use notion='top_label'."
        )


def by_event(drawn):
    """Curves, maps or groups of each panel by their event."""
    panels = {}
    for record in drawn:
        panels.setdefault(record.event, []).append(record)
    return panels


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
