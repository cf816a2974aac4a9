"""Base class of displays: one constructor is written, and the others follow from it.

A display writes `from_predictions`, whose labels may also be a `Problem` or a sketch. The
constructors `from_estimator` and `from_sketch` find these and pass the options on. Their signatures
and docstrings are those of `from_predictions` with other data in front. A display has those that
its `_constructors` name. Constructors and `plot` return the display; their docstrings get the
section "Returns" here.
"""

from __future__ import annotations

import re
from functools import wraps
from inspect import Parameter, cleandoc, getdoc, signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from skcalib._parameters import checks_parameters
from skcalib.displays._base import held_out
from skcalib.estimators._base import ClassifierInspector
from skcalib.estimators._response import label_proba
from skcalib.notions import Multilabel, resolve_notion
from skcalib.problem import ForecastSummary, check_sketch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

    from skcalib._types import CV, MatrixLike, ResponseMethod


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
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels.
        cv : None, int or splitter, default=None
            None: the classifier is fitted and (X, y) is held out. Else it is cloned, and its
            out-of-fold probabilities are used.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Decision values become probabilities through the logistic function or the softmax.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with `cv` they are also passed to the classifier.
        name : str, default=None
            Name of the classifier; its class by default.
        """
        if isinstance(estimator, ClassifierInspector):
            kind = type(estimator).__name__
            raise ValueError(f"{kind} is not a classifier: pass the classifier{cls._instead}.")
        if "name" in signature(cls.from_predictions).parameters:
            options["name"] = type(estimator).__name__ if name is None else name
        if isinstance(resolve_notion(options.get("notion", "auto")), Multilabel):
            if cv is not None:
                raise ValueError("notion=Multilabel() needs a fitted classifier: leave out cv.")
            proba = label_proba(estimator, X, response_method=response_method)
            return cls.from_predictions(y, proba, sample_weight=sample_weight, **options)
        groups = options.pop("groups", None)
        problem, features, rows = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            groups=groups,
            owner=cls.__name__,
        )
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
        for name, method in vars(cls).items():
            if name == "plot" or name.startswith("from_"):
                _add_result(cls, getattr(method, "__func__", method))
        if "from_predictions" in vars(cls):  # else all constructors are inherited
            for name, without in cls._constructors.items():
                setattr(cls, name, classmethod(_derived(cls, name, without)))


def _add_result(cls, method):
    """Add the section "Returns" to a docstring without one: the display, drawn or as it is."""
    first, mark, rest = (getdoc(method) or "").partition("\n\nParameters\n----------\n")
    if mark and "\n\nReturns\n-------\n" not in rest:
        state = " itself" if method.__name__ == "plot" else ", drawn"
        result = f"\n\nReturns\n-------\n{cls.__name__}\n    The display{state}.\n\n"
        entries, _, sections = rest.partition("\n\n")
        method.__doc__ = f"{first}{mark}{entries}{result}{sections}"


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
        parameters=sorted([*first, *rest], key=lambda one: one.kind),
    )
    call.__annotations__ = {key: one.annotation for key, one in both.items() if key != "cls"}
    call.__annotations__["return"] = "Self"
    call.__qualname__ = f"{cls.__qualname__}.{name}"
    call.__module__ = cls.__module__
    call.__doc__ = _docstring(base, written, own, {"y_true", "y_proba", *without, *own})
    return checks_parameters(call)


_ENTRY = re.compile(r"^(?=\S)", re.M)


def _docstring(base, written, own, without):
    """The docstring of a constructor, with the options and sections of `from_predictions`."""
    title, entries = cleandoc(base.__doc__).split("\n\nParameters\n----------\n")
    first, rest = getdoc(written).split("\n\nParameters\n----------\n")
    options, _, sections = rest.partition("\n\n")
    sections = sections.partition("\n\nExamples\n--------\n")[0]
    title = title.replace("The same", first.partition(".")[0].partition(" of ")[0], 1)
    kept = "".join(_entry(one, own.keys().__contains__) for one in _ENTRY.split(entries + "\n"))
    kept += "".join(_entry(one, lambda name: name not in without) for one in _ENTRY.split(options))
    return f"{title}\n\nParameters\n----------\n{kept.rstrip()}\n\n{sections}\n"


def _entry(entry, is_kept):
    """The entry of one or several parameters without those that a constructor does not have."""
    names, *rest = re.split(r"(?= :|\n)", entry, maxsplit=1)
    kept = [name for name in names.split(", ") if name and is_kept(name)]
    return "".join([", ".join(kept), *rest]) if kept else ""
