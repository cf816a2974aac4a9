"""Values of arguments in messages: short, on one line, and as a caller would write them."""

import re
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
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if re.fullmatch(r"function|method|builtin_function_or_method", type(value).__name__):
        return f"the function {value.__name__}"
    text = " ".join(_REPR.repr(value).split())
    return re.sub(r" at 0x[0-9a-f]+|\bnp\.\w+(?=\()", "", text)
