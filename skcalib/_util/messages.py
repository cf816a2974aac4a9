"""What an argument is, its text in messages, and what was meant: "Did you mean 'top_label'?"."""

import re
import sys
from collections import Counter
from difflib import get_close_matches
from numbers import Integral, Real
from reprlib import Repr

import numpy as np

_REPR = Repr()
_REPR.maxother = _REPR.maxstring = 120
_REPR.maxlist = _REPR.maxtuple = _REPR.maxset = _REPR.maxdict = 8


def shown(value):
    """The value of an argument for a message.

    NumPy's scalars are plain numbers, functions and classes have their name, no object has its
    address, and what is long is abbreviated.
    """
    if isinstance(value, np.generic):  # the item of a date may be a number
        value = str(value) if value.dtype.kind in "mM" else value.item()
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if re.fullmatch(r"function|method|builtin_function_or_method", type(value).__name__):
        return f"the function {value.__name__}"
    text = " ".join(_REPR.repr(value).split())
    return re.sub(r" at 0x[0-9a-f]+|\bnp\.\w+(?=\()", "", text)


def is_whole(value):
    """Whether this is a whole number, and no truth value, that an array can hold."""
    return isinstance(value, Integral) and not isinstance(value, bool) and -(2**63) < value < 2**63


def is_finite(value):
    """Whether this is a real number, and no truth value, that a float can hold."""
    if isinstance(value, np.generic):
        value = value.item()  # the limit is beyond single precision
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and abs(value) <= sys.float_info.max  # exact, also for long whole numbers


def is_missing(value):
    """Whether this is None, NaN, NaT or NA, which is not equal to itself."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # the comparison of pandas.NA has no truth value
        return True


def number_of(value, name):
    """The number that a function of the user returned."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return a number, got {shown(value)}.") from None


def unique_names(names, owner):
    """Names of columns as texts; repeated ones are refused."""
    texts = list(map(str, names))
    for text, times in Counter(texts).items():
        if times > 1:
            raise ValueError(f"{owner} has {times} columns named {text!r}: rename them.")
    return texts


# --- What was meant by a name or a value that is refused ------------------------------------------


#: What other packages and papers call a value, a parameter or a method, and its names here.
OTHER_NAMES = {
    # scores
    "brier_score": ("brier",),
    "cross_entropy": ("log",),
    "kl": ("log",),
    "log_loss": ("log",),
    "logloss": ("log",),
    "mse": ("brier",),
    "nll": ("log",),
    "squared": ("brier",),
    # notions
    "confidence": ("top_label", "confidence_level"),
    "marginal": ("classwise",),
    "multiclass": ("canonical",),
    "one_vs_rest": ("classwise",),
    "ordinal": ("cumulative",),
    "ovr": ("classwise",),
    "top": ("top_label",),
    "top_1": ("top_label",),
    # kernels, bins and maps
    "adaptive": ("quantile",),
    "equal_mass": ("quantile",),
    "equal_width": ("uniform",),
    "exponential": ("laplacian",),
    "histogram": ("uniform", "binning"),
    "linear": ("uniform",),
    "rbf": ("gaussian",),
    "sigmoid": ("platt",),
    # parameters
    "alpha": ("confidence_level",),
    "bins": ("n_bins",),
    "classes": ("labels",),
    "cluster": ("groups",),
    "clusters": ("groups",),
    "debias": ("debiased",),
    "jobs": ("n_jobs",),
    "level": ("confidence_level",),
    "method": ("recalibrator",),
    "metric": ("loss",),
    "n_bootstrap": ("n_resamples",),
    "n_permutations": ("n_resamples",),
    "positive_class": ("pos_label",),
    "probs": ("y_proba",),
    "score": ("loss",),
    "scoring": ("loss",),
    "seed": ("random_state",),
    "unbiased": ("debiased",),
    "weight": ("sample_weight",),
    "weights": ("sample_weight",),
    "y_pred": ("y_proba",),
    "y_prob": ("y_proba",),
    "y_score": ("y_proba",),
    # methods
    "update": ("partial_fit",),
}
#: Least similarity of two strings, as `difflib` measures it.
_SIMILAR = 0.82


def suggestion(value, options):
    """The option that a string stands for, or None: the same letters, another name, or similar."""
    if not isinstance(value, str):
        return None
    options = [option for option in options if isinstance(option, str)]
    plain = {_letters(option): option for option in options}
    if _letters(value) in plain:
        return plain[_letters(value)]
    for name in OTHER_NAMES.get(re.sub(r"[\W_]+", "_", value).casefold(), ()):
        if name in options:
            return name
    close = get_close_matches(_letters(value), list(plain), n=1, cutoff=_SIMILAR)
    return plain[close[0]] if close else None


def did_you_mean(value, options):
    """The sentence with the suggestion, after a blank; empty if there is none."""
    name = suggestion(value, options)
    return "" if name is None else f" Did you mean {name!r}?"


def refusal(name, expected, value, options):
    """The error for an argument that is none of the options: what was expected, got and meant."""
    meant = did_you_mean(value, options)
    return ValueError(f"{name} must be {expected}, got {shown(value)}.{meant}")


def _letters(text):
    """Letters and digits without capitals and separators."""
    return re.sub(r"[\W_]", "", text).casefold()
