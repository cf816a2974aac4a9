"""What an argument is, a whole or a finite number, and its text in messages."""

import re
import sys
from collections import Counter
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
