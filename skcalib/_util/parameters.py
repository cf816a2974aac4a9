"""Parameters that mean the same everywhere, their checks and entries of docstrings, by name.

`checks_parameters` checks the arguments of a function before its first line, and
`check_parameters_of` those of an estimator at the start of `fit`. What is not in `CHECKS` is
checked by the function that uses it. The docstring of a function need not have those `ENTRIES` that
say all that there is to say: `checks_parameters` adds them, and `completes_docstrings` those of a
class and its methods, with what is the same in its base class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sized
from functools import cache, partial, wraps
from inspect import Parameter, cleandoc, getdoc, isfunction, signature
from numbers import Real
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from skcalib._util.messages import is_finite, is_whole, refusal, shown, suggestion
from skcalib._util.validation import check_confidence_level, check_count, look_up, to_numpy

# --- Parameters -----------------------------------------------------------------------------------


Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def checks_parameters(function: Function) -> Function:
    """Check the parameters of a function that are in `CHECKS`; defaults are not checked.

    Scalars of NumPy are passed on as numbers, truth values and strings of Python.
    """
    parameters = signature(function).parameters
    names = list(parameters)
    defaults = {name: parameter.default for name, parameter in parameters.items()}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _refuse_unknown(f"{function.__name__}()", kwargs, parameters)
        positional = [
            _checked(name, value, defaults) for name, value in zip(names, args, strict=False)
        ]
        for name, value in kwargs.items():
            kwargs[name] = _checked(name, value, defaults)
        return function(*positional, *args[len(positional) :], **kwargs)

    sections = sections_of(function.__doc__)
    if sections.keys() > {""}:
        add_parameters(function, sections, ENTRIES)
        call.__doc__ = docstring_of(sections)
    return call  # type: ignore[return-value]


def completes_docstrings(cls: Class) -> Class:
    """Add to the docstrings of a class what they leave out: see `complete_class`.

    Its constructor says which parameter was probably meant by one that it does not have.
    """
    init = vars(cls).get("__init__")
    if init is not None:
        parameters = dict(list(signature(init).parameters.items())[1:])  # without self

        @wraps(init)
        def construct(self, *args, **kwargs):
            _refuse_unknown(type(self).__name__, kwargs, parameters)
            init(self, *args, **kwargs)

        cls.__init__ = construct  # type: ignore[misc]
    return complete_class(cls, ENTRIES)


def _checked(name, value, defaults):
    if isinstance(value, (np.number, np.bool_, np.str_)):
        value = value.item()
    if name not in CHECKS or name not in defaults or value is defaults[name]:
        return value
    return CHECKS[name](value, name)


def check_parameters_of(estimator: Any) -> None:
    """Check the parameters of an estimator that are in `CHECKS`; defaults are not checked."""
    for name, default in _defaults(estimator.__class__).items():
        value = getattr(estimator, name, default)
        if value is not default:
            CHECKS[name](value, name)


@cache
def _defaults(kind):
    """Default of each parameter in `CHECKS`, of the first class of the library that it is made of.

    A subclass outside the library may use the same name for something else.
    """
    library_class = next(base for base in kind.__mro__ if base.__module__.startswith("skcalib."))
    parameters = signature(library_class).parameters.items()
    return {name: parameter.default for name, parameter in parameters if name in CHECKS}


def _refuse_unknown(name, keywords, parameters):
    """Raise a `TypeError` for a keyword that is no parameter, if another was probably meant."""
    if keywords.keys() <= parameters.keys():
        return
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for keyword in keywords:
        meant = None if keyword in parameters else suggestion(keyword, parameters)
        if meant is not None:
            raise TypeError(f"{name} has no parameter {keyword!r}. Did you mean {meant!r}?")


# --- Checks ---------------------------------------------------------------------------------------


def check_flag(value, name):
    """Validate a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def check_labels(value, name="labels"):
    """Validate that this lists classes; how many there must be depends on the forecasts."""
    labels = np.asarray(to_numpy(value, name=name))
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"{name} must list at least two classes, one for each column of y_proba.")
    return value


def check_estimator(value, name="estimator"):
    """Validate that this is an object with a method of estimators, and no class."""
    methods = "fit", "predict", "predict_proba", "decision_function"
    if isinstance(value, type) or not any(hasattr(value, method) for method in methods):
        raise ValueError(
            f"{name} must be an estimator, such as LogisticRegression(), not {shown(value)}."
        )
    return value


def check_choice(value, name, *, choices):
    """Validate one of a few strings."""
    if not isinstance(value, str) or value not in choices:
        names = ", ".join(map(repr, choices[:-1]))
        raise refusal(name, f"{names} or {choices[-1]!r}", value, choices)
    return value


def check_shrinkage(value, name="shrinkage"):
    """Validate a strength of shrinkage, in samples; infinity leaves temperature scaling."""
    number = (is_finite(value) and value >= 0) or (isinstance(value, Real) and value == np.inf)
    if not number and not (isinstance(value, str) and value == "auto"):
        raise ValueError(
            f"{name} must be 'auto' or a number that is not negative, got {shown(value)}."
        )
    return value


def check_positive(value, name):
    """Validate a positive, finite real number."""
    if not is_finite(value) or not value > 0:
        raise ValueError(f"{name} must be a positive finite number, got {shown(value)}.")
    return float(value)


def check_n_jobs(value, name="n_jobs"):
    """Validate a number of jobs, as joblib takes it."""
    if not is_whole(value) or value == 0 or abs(value) >= 2**31:
        raise ValueError(
            f"{name} must be None or a whole number other than 0, such as -1 for all processors; "
            f"got {shown(value)}."
        )
    return int(value)


def check_verbose(value, name="verbose"):
    """Validate how much is printed."""
    if not isinstance(value, (bool, np.bool_)) and not (is_whole(value) and value >= 0):
        raise ValueError(f"{name} must be a whole number of at least 0, got {shown(value)}.")
    return int(value)


def check_seed_or_state(value, name="random_state"):
    """Validate a seed, or a generator of NumPy that scikit-learn takes."""
    if value is None or value is np.random or isinstance(value, np.random.RandomState):
        return value
    if not is_whole(value) or not 0 <= value < 2**32:
        raise ValueError(
            f"{name} must be None, a whole number from 0 to 2**32 - 1 or a "
            f"numpy.random.RandomState, got {shown(value)}."
        )
    return int(value)


def check_splitter(value, name="cv"):
    """Validate a number of folds, a splitter, or pairs of rows for training and test."""
    if value is None or (is_whole(value) and value >= 2):
        return value
    if not isinstance(value, (str, bytes, type)) and hasattr(value, "split"):
        return value
    if isinstance(value, (list, tuple, np.ndarray)):
        may_be_folds = all(isinstance(fold, Sized) and len(fold) == 2 for fold in value)
        may_be_folds = may_be_folds and len(value) > 0
    else:  # as far as one can see without consuming it
        no_folds = (str, bytes, dict, set, type)
        may_be_folds = isinstance(value, Iterable) and not isinstance(value, no_folds)
    if not may_be_folds:
        raise ValueError(
            f"{name} must be None, a whole number of at least 2, a splitter such as KFold() or a "
            f"list of pairs (train, test), got {shown(value)}."
        )
    return value


def check_cache(value, name="memory"):
    """Validate a folder, or an object that caches calls as joblib.Memory does."""
    named = isinstance(value, (str, PathLike)) and str(value)
    if not named and (isinstance(value, type) or not hasattr(value, "cache")):
        raise ValueError(f"{name} must be None, a folder or a joblib.Memory, got {shown(value)}.")
    return value


def check_name(value, name="name"):
    """Validate a name, which is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {shown(value)}.")
    return str(value)


def check_axes(value, name="ax"):
    """Validate axes of matplotlib, one or one for each panel."""
    several = isinstance(value, (list, tuple, np.ndarray))
    axes = np.ravel(np.asarray(value, dtype=object)) if several else [value]
    drawable = all(hasattr(panel, "get_figure") and not isinstance(panel, type) for panel in axes)
    if not len(axes) or not drawable:
        raise ValueError(
            f"{name} must be matplotlib Axes, or a list of them with one for each panel, got "
            f"{shown(value)}."
        )
    return value


def check_label(value, name="pos_label"):
    """Validate what may be the label of a class: one value, not a collection."""
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes, tuple)):
        raise ValueError(f"{name} must be the label of one class, got {shown(value)}.")
    return value


RESPONSES = dict.fromkeys(("auto", "predict_proba", "decision_function"))


def check_response_method(value, name="response_method"):
    """Validate the name of a method of a classifier."""
    look_up(value, RESPONSES, name)
    return value


#: The check of each parameter, which takes a value and the name, and returns the value.
CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "n_jobs": check_n_jobs,
    "verbose": check_verbose,
    "random_state": check_seed_or_state,
    "confidence_level": check_confidence_level,
    "cv": check_splitter,
    "response_method": check_response_method,
    "memory": check_cache,
    "name": check_name,
    "ax": check_axes,
    "pos_label": check_label,
    "labels": check_labels,
    "estimator": check_estimator,
    "region_ratio": partial(check_count, least=2),
    "n_permutations": partial(check_count, least=0),
    "tol": check_positive,
    "shrinkage": check_shrinkage,
    "refinement": partial(check_choice, choices=("entropy", "loss")),
    "ddof": partial(check_count, least=0),
    "input": partial(check_choice, choices=("proba", "logits")),
    "parameters": partial(check_choice, choices=("abm", "am", "ab")),
    "variant": partial(check_choice, choices=("network", "pieces")),
    "style": partial(check_choice, choices=("full", "simple")),
    **dict.fromkeys(("max_iter", "max_points", "n_repeats"), check_count),
    "n_resamples": partial(check_count, least=0),
    **dict.fromkeys(
        (
            "centered",
            "debiased",
            "ensemble",
            "fit_intercept",
            "injective",
            "intersections",
            "monotone",
            "optimal_accuracy",
            "parts",
            "resample_forecasts",
            "rows",
            "smooth_targets",
            "squared",
            "standardized",
            "strict",
            "summary",
            "swap",
        ),
        check_flag,
    ),
}


# --- Docstrings -----------------------------------------------------------------------------------


_SECTION = re.compile(r"^(?=\w[\w ]*\n-+$)", re.M)
_ENTRY = re.compile(r"^(?=\S)", re.M)
_FIRST = ("", "Parameters", "Attributes", "Returns", "Raises")  # the order; others come later


def sections_of(text):
    """The sections of a docstring by their titles; "" is the title of what precedes them.

    There are none without a docstring: `python -OO` removes all of them.
    """
    if text is None:
        return {}
    first, *others = _SECTION.split(cleandoc(text))
    parts = (part.split("\n", 2) for part in others)
    return {"": first.strip("\n")} | {title: body.strip("\n") for title, _, body in parts}


def docstring_of(sections):
    """The docstring of sections, in the order of numpydoc; None without a summary."""
    if "" not in sections:
        return None
    places = {title: place for place, title in enumerate(_FIRST)}
    titles = sorted(sections, key=lambda title: places.get(title, len(places)))
    marked = (f"{title}\n{'-' * len(title)}\n" if title else "" for title in titles)
    parts = zip(marked, titles, strict=True)
    return "\n\n".join(f"{mark}{sections[title]}" for mark, title in parts) + "\n"


def entries_of(section):
    """The entries of a section: their names, of which several may share one, and the text."""
    entries = [entry.rstrip("\n") for entry in _ENTRY.split(section) if entry.strip()]
    return [(re.split(r" :|\n", entry, maxsplit=1)[0].split(", "), entry) for entry in entries]


def by_name(section):
    """The entries of a section by their first names."""
    return {names[0]: entry for names, entry in entries_of(section)}


def add_entries(sections, title, known, names):
    """Add the entries of `names` that a section lacks, if they are known by their first name."""
    listed, place = entries_of(sections.get(title, "")), 0
    for name in names:
        here = [k for k, (entry_names, _) in enumerate(listed) if name in entry_names]
        if not here and name in known:
            listed.insert(place, *entries_of(known[name]))
            here = [place]
        place = here[0] + 1 if here else place
    if listed:
        sections[title] = "\n".join(entry for _, entry in listed)


def add_parameters(function, sections, known):
    """Add the entries of parameters of a function or class that it lacks, and that are known.

    Their defaults are those of the function.
    """
    names, entries = [], {}
    for name, parameter in signature(function).parameters.items():
        name = f"**{name}" if parameter.kind is parameter.VAR_KEYWORD else name
        names.append(name)
        if name in known:
            default = (
                f'"{parameter.default}"'
                if isinstance(parameter.default, str)
                else repr(parameter.default)
            )
            entries[name] = re.sub("(?<=default=).*", default.replace("e-0", "e-"), known[name])
    add_entries(sections, "Parameters", entries, names)


def complete_method(method, inherited, known, result):
    """Add to the docstring of a method the entries and the result that it leaves out.

    They are those of the method of the base class, and `known` ones. A method that is annotated
    with `Self` and has no such section has this `result`.
    """
    sections, of_base = sections_of(method.__doc__), sections_of(inherited)
    add_parameters(method, sections, known | by_name(of_base.get("Parameters", "")))
    if "Returns" in of_base:
        sections.setdefault("Returns", of_base["Returns"])
    if method.__annotations__.get("return") == "Self":
        sections.setdefault("Returns", result)
    method.__doc__ = docstring_of(sections)


#: Method -> the one whose parameters it has.
_LIKE = {"predict": "predict_proba", "transform": "predict_proba", "fit_transform": "fit"}


def complete_class(cls, known):
    """Add to the docstrings of a class and its public methods what they leave out; returns it.

    Entries are those of the base classes, of `predict_proba` for `predict` and `transform`, of
    `fit` for `fit_transform`, of the class itself for constructors, and `known` ones. Attributes of
    base classes follow those of the class. A constructor returns a new object, and other methods
    that are annotated with `Self` the object itself.
    """
    sections = sections_of(cls.__doc__)
    parameters = by_name(sections.get("Parameters", ""))
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if isfunction(function) and function.__doc__ and not name.startswith("_"):
            base = getattr(super(cls, cls), name, None)
            like = getattr(cls, _LIKE.get(name, ""), None)
            base = like if base is None or name == "fit_transform" else base
            inherited = getdoc(base) if base else None
            constructs = isinstance(method, classmethod)
            result = "A new object." if constructs else "The object itself."
            entries = known | parameters if constructs else known
            entries = entries | by_name(sections_of(getdoc(like)).get("Parameters", ""))
            complete_method(function, inherited, entries, f"{cls.__name__}\n    {result}")
    if sections:
        cls._entries, cls._attributes = parameters, by_name(sections.get("Attributes", ""))
        attributes = {}
        for base in reversed(cls.__mro__):
            known = known | vars(base).get("_entries", {})
            attributes |= vars(base).get("_attributes", {})
        add_parameters(cls, sections, known)
        order = (name for base in cls.__mro__ for name in vars(base).get("_attributes", ()))
        add_entries(sections, "Attributes", attributes, order)
        cls.__doc__ = docstring_of(sections)
    return cls


ENTRIES = by_name("""\
y_true : array-like of shape (n_samples,) or ForecastSketch
    Labels of any type, or a sketch, which stands for labels, forecasts and weights.
y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), optional
    Probability of the positive class, or of each class; omitted with a sketch. Rounding errors
    of up to 1e-9 outside [0, 1] are taken as 0 and 1.
loss : {"brier", "log", "spherical", "rps"} or ProperScore, default="brier"
    The proper score.
sample_weight : array-like of shape (n_samples,), default=None
    Weights.
labels : array-like of shape (n_classes,), default=None
    The class of each column of `y_proba`; needed where `y_true` may lack a class.
pos_label : label, default=None
    The positive class of two, to which a `y_proba` of shape (n_samples,) refers; by default
    the last.
confidence_level : float, default=0.95
    Level of the intervals or bands.
n_samples : int, default=1000
    Number of samples.
random_state : int, RandomState instance or None, default=None
    Seed.
X : array-like of shape (n_samples, n_features)
    Features.
y : array-like of shape (n_samples,)
    Labels.
response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
    "auto" is predict_proba, if there is one. Decision values have any scale: they are divided by
    their spread, and become probabilities through the logistic function or the softmax
    (:ref:`decision_values`).
n_jobs : int, default=None
    Number of parallel jobs, over folds, problems of the notion, candidates or draws; the result
    does not depend on it.
groups : array-like of shape (n_samples,), default=None
    The cluster of each sample, such as a patient, by any labels. Squared errors then leave out
    products of residuals of a cluster, intervals, bands and tests allow for dependence within
    clusters, and folds hold whole clusters (:ref:`clusters`).
notion : str or Notion, default="canonical"
    "canonical": all classes at once. "classwise": the mean over one-vs-rest problems.
    "top_label": the confidence against whether the prediction is right. "auto": the positive
    class of two, otherwise the top label. "cumulative": for ordered classes, the mean over the
    events that the class is at most k.
""")
