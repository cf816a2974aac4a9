"""Base class of displays: one constructor is written, and the others follow from it.

A display writes `from_predictions`, whose labels may also be a `Problem` or a sketch. The
constructors `from_estimator` and `from_sketch` find these and pass the options on. Their signatures
and docstrings are those of `from_predictions` with other data in front.
"""

from __future__ import annotations

import re
from functools import wraps
from inspect import Parameter, cleandoc, getdoc, signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

from skcalib._parameters import checks_parameters
from skcalib.displays._base import held_out
from skcalib.problem import ForecastSummary, check_sketch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

    from skcalib._arguments import CV, MatrixLike, ResponseMethod


class Display:
    """A figure of labels and forecasts."""

    #: Constructors that follow from `from_predictions`, and its parameters that they do not have.
    _constructors: ClassVar[dict[str, set[str]]] = {}

    @classmethod
    def from_predictions(cls, y_true: Any, y_proba: Any, **options: Any) -> Self:
        """The display of labels, of a `Problem` or of a sketch."""
        raise NotImplementedError

    @classmethod
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
        problem, _, _ = held_out(
            estimator,
            X,
            y,
            cv=cv,
            response_method=response_method,
            sample_weight=sample_weight,
            owner=cls.__name__,
        )
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(problem, problem.forecast, name=name, **options)

    @classmethod
    def from_sketch(cls, sketch: ForecastSummary, **options: Any) -> Self:
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
        for name, without in cls._constructors.items():
            setattr(cls, name, classmethod(_derived(cls, name, without)))


def _derived(cls, name, without):
    """A constructor of `Display` with the options of `from_predictions` of a class."""
    base, written = getattr(Display, name).__func__, cls.__dict__["from_predictions"].__func__
    own, options = (dict(signature(one).parameters) for one in (base, written))
    del own["options"]
    for lost in {"y_true", "y_proba", *without}:
        del options[lost]
    several = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}

    @wraps(base)
    def call(cls, *args, **kwargs):
        for lost in without & kwargs.keys():
            raise TypeError(f"{name} has no parameter {lost!r}.")
        return base(cls, *args, **kwargs)

    del call.__wrapped__
    both = options | own
    first = [one for one in own.values() if one.kind in several]
    rest = [one for key, one in options.items() if key not in own]
    call.__signature__ = signature(written).replace(
        parameters=sorted([*first, *rest], key=lambda one: one.kind),
    )
    call.__annotations__ = {key: one.annotation for key, one in both.items() if key != "cls"}
    call.__annotations__["return"] = "Self"
    call.__qualname__ = f"{cls.__qualname__}.{name}"
    call.__module__ = cls.__module__
    call.__doc__ = _docstring(base, written, {"y_true", "y_proba", *without, *own})
    return checks_parameters(call)


_ENTRY = re.compile(r"^(?=\S)", re.M)


def _docstring(base, written, without):
    """The docstring of a constructor, with the options and sections of `from_predictions`."""
    title, own = cleandoc(base.__doc__).split("\n\nParameters\n----------\n")
    first, rest = getdoc(written).split("\n\nParameters\n----------\n")
    entries, _, sections = rest.partition("\n\n")
    sections = sections.partition("\n\nExamples\n--------\n")[0]
    title = title.replace("The same", first.partition(".")[0].partition(" of ")[0], 1)
    kept = "".join(_entry(one, without) for one in _ENTRY.split(entries))
    return f"{title}\n\nParameters\n----------\n{own}\n{kept.rstrip()}\n\n{sections}\n"


def _entry(entry, without):
    """The entry of one or several parameters without those that a constructor does not have."""
    names, *rest = re.split(r"(?= :|\n)", entry, maxsplit=1)
    kept = [name for name in names.split(", ") if name and name not in without]
    return "".join([", ".join(kept), *rest]) if kept else ""
