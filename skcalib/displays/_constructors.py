"""Base class of displays: one constructor is written, and the others follow from it.

A display writes `from_predictions`, whose labels may also be a `Problem` or a sketch. The
constructors `from_estimator` and `from_sketch` find these and pass the options on. Their signatures
and docstrings are those of `from_predictions` with other data in front. A display has those that
its `_constructors` name.

`complete_docstrings` adds what all displays share: entries of parameters and attributes that mean
the same everywhere, and the section "Returns" of constructors and `plot`, which return the display.
"""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.docstrings import (
    add_entries,
    add_parameters,
    by_name,
    docstring_of,
    entries_of,
    sections_of,
)
from skcalib._util.parameters import ENTRIES, checks_parameters
from skcalib._util.types import CV, ArrayLike, MatrixLike, ResponseMethod
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.labels import check_y
from skcalib.data.notions import Multilabel, resolve_notion
from skcalib.data.problem import ForecastSummary, check_sketch
from skcalib.estimators.classifiers import (
    ClassifierInspector,
    held_out_problem,
    label_proba,
    name_with_response,
)
from skcalib.scores import Brier, LogLoss, RankedProbability, Spherical, resolve_loss


class Display:
    """A figure of labels and forecasts."""

    #: Constructors that follow from `from_predictions`, and its parameters that they do not have.
    _constructors: ClassVar[dict[str, set[str]]] = {}
    #: What to do with an evaluated classifier, in a message.
    _instead: ClassVar[str] = ""

    @classmethod
    def from_predictions(cls, y_true: Any, y_proba: Any, **options: Any) -> Self:
        """The display of labels, of a `Problem` or of a sketch."""
        raise NotImplementedError

    @classmethod
    def _for_rows(cls, options, X, rows, n_samples):
        """Options of the `rows` that have held-out probabilities, with the features X."""
        return options

    @classmethod
    def _from_estimator(
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
        estimator : classifier
            Fitted, unless `cv` is given.
        cv : None, int or splitter, default=None
            None: the classifier is fitted and (X, y) is held out. Else it is cloned, and its
            out-of-fold probabilities are used.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with `cv` they are also passed to the classifier.
        name : str, default=None
            Name of the classifier; its class by default, with "decision values" if the scores are
            these (:ref:`decision_values`).
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
        groups = options.pop("groups", None)
        how = cv, response_method, sample_weight
        problem, features, rows = held_out(estimator, X, y, *how, cls.__name__, groups)
        options = cls._for_rows(options, features, rows, np.shape(y)[0])
        return cls.from_predictions(problem, problem.forecast, **options)

    @classmethod
    def _from_sketch(cls, sketch: ForecastSummary, **options: Any) -> Self:
        """The same of a sketch, without the samples.

        Parameters
        ----------
        sketch : ForecastSketch
            Sums over cells of the probability; its notion determines the panels.
        """
        check_sketch(sketch)
        return cls.from_predictions(sketch, None, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_docstrings(cls)
        if "from_predictions" in vars(cls):  # else all constructors are inherited
            for name, without in cls._constructors.items():
                setattr(cls, name, classmethod(_derived(cls, name, without)))


def _derived(cls, name, without):
    """A constructor of `Display` with the options of `from_predictions` of a class."""
    base, written = getattr(Display, f"_{name}").__func__, cls.__dict__["from_predictions"].__func__
    own, options = (dict(signature(one).parameters) for one in (base, written))
    del own["options"]
    if "name" not in options:
        own.pop("name", None)
    for lost in {"y_true", "y_proba", *without}:
        del options[lost]
    several = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
    first = [one for one in own.values() if one.kind in several]
    rest = [one for key, one in options.items() if key not in own]
    n_own = sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in first) - 1  # cls
    after = [one.name for one in rest if one.kind is Parameter.POSITIONAL_OR_KEYWORD]

    @wraps(base)
    def call(cls, *args, **kwargs):
        for lost in without & kwargs.keys():
            raise TypeError(f"{name} has no parameter {lost!r}.")
        given = dict(zip(after, args[n_own:], strict=False))
        for twice in given.keys() & kwargs.keys():
            raise TypeError(f"{name} got two values of {twice!r}.")
        args = args[:n_own] + args[n_own + len(after) :]
        return base(cls, *args, **given, **kwargs)

    del call.__wrapped__
    call.__name__ = name
    both = options | own
    call.__signature__ = signature(written).replace(
        parameters=sorted([*first, *rest], key=lambda one: one.kind)
    )
    call.__annotations__ = {key: one.annotation for key, one in both.items() if key != "cls"}
    call.__annotations__["return"] = "Self"
    call.__qualname__ = f"{cls.__qualname__}.{name}"
    call.__module__ = cls.__module__
    call.__doc__ = _docstring(base, written, own, {"y_true", "y_proba", *without, *own})
    return checks_parameters(call)


def _docstring(base, written, own, without):
    """The docstring of a constructor, with the options and sections of `from_predictions`."""
    ours, theirs = sections_of(base.__doc__), sections_of(written.__doc__)
    if not ours or not theirs:
        return None
    of_predictions = theirs.pop("").partition(".")[0].partition(" of ")[0]
    theirs.pop("Examples", None)
    kept = [_kept(*one, own.keys().__contains__) for one in entries_of(ours["Parameters"])]
    options = entries_of(theirs.get("Parameters", ""))
    kept += [_kept(*one, lambda name: name not in without) for one in options]
    ours[""] = ours[""].replace("The same", of_predictions, 1)
    return docstring_of(ours | theirs | {"Parameters": "\n".join(filter(None, kept))})


def _kept(names, entry, is_kept):
    """The entry of one or several parameters without those that a constructor does not have."""
    kept = ", ".join(filter(is_kept, names))
    return kept and kept + entry.removeprefix(", ".join(names))


# --- What all displays share ----------------------------------------------------------------------


def held_out(estimator, X, y, cv, response_method, sample_weight, owner, groups=None):
    """The `Problem` of the samples that can be assessed, their features, and their rows."""
    check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups)
    y = check_y(y, name="y")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    how = {"cv": cv, "response_method": response_method, "owner": owner}
    how |= {"groups": groups, "split_groups": groups}
    if cv is not None and weight is not None:
        how["fit_params"] = {"sample_weight": weight}
    problem, rows = held_out_problem(estimator, X, y, weight, **how)
    features = X if len(rows) == len(y) else take_rows(X, rows)
    return problem, features, rows


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


_CONSTRUCTORS = by_name("""\
y_true : array-like of shape (n_samples,)
    Labels.
y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
    Probability of the positive class, or of each class.
name : str, default=None
    Name of the forecasts or of a single model, in the legend or the title.
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
    Scale of both axes, on which the diagonal is a straight line and 0 and 1 are visible.
    "auto" is linear unless the forecasts are crowded near 0 or 1, as those of a rare event.
    Then it is the square root (of the probability of the crowded end), and the logit where
    95 % of them lie within .02 of the end. Displays on the same Axes share a scale.
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
    own = sections_of(cls.__doc__)
    of_class = ENTRIES | _CONSTRUCTORS | by_name(own.get("Parameters", ""))
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
    if own:
        add_parameters(cls, own, of_class)
        attributes = by_name(own.get("Attributes", ""))
        add_entries(own, "Attributes", _ATTRIBUTES, [*attributes, *_ATTRIBUTES])
        cls.__doc__ = docstring_of(own)
    return cls
