"""Validation of arguments: forecasts, weights, indices, names, counts and levels.

Forecasts become float64 arrays of shape (n, K) with K >= 2, and weights become float64 arrays of
shape (n,). Rounding errors of up to 1e-9 outside [0, 1] become 0 and 1. Other values are never
clipped, renormalised or guessed; invalid input raises an error with a message of one sentence or
two.
"""

import re
from collections.abc import Iterator, KeysView, Mapping, MappingView, Set
from contextlib import suppress
from numbers import Integral, Real
from types import BuiltinFunctionType, FunctionType, MethodType

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skcalib._util.arithmetic import row_sum
from skcalib._util.messages import is_finite, refusal, shown, unique_names

# --- Forecasts and weights ------------------------------------------------------------------------


_FUNCTIONS = FunctionType, BuiltinFunctionType, MethodType
#: Probabilities outside [0, 1] by at most this are 0 or 1 with a rounding error.
PROBABILITY_ROUNDING = 1e-9
# Largest deviation of a row sum from one that rounding can cause: for a float32 softmax over a
# thousand classes, or probabilities written with six decimals; and for half precision.
ROW_SUM_TOLERANCE = 1e-5
HALF_TOLERANCE = 10 * float(np.finfo(np.float16).eps)


def check_proba(y_proba, *, name="y_proba", copy=True):
    """Probabilities of shape (n,), (n, 1) or (n, K) -> float64 array (n, K), K >= 2."""
    return check_simplex(_check_float_array(y_proba, name), name, copy=copy)


def check_column(array, *, name="y_proba"):
    """Finite numbers (n, L) that are probabilities on their own -> float64 array (n, L)."""
    low, high = float(array.min()), float(array.max())
    if is_outside(low, high):  # no sum of columns, so no other tolerance above 1
        raise _outside(array, name)
    return np.asarray(without_rounding(array, low, high), dtype=np.float64)


def is_outside(low, high, most=1.0):
    """Whether the smallest or the largest number is no probability, not even a rounded one."""
    return low < -PROBABILITY_ROUNDING or high > most + PROBABILITY_ROUNDING


def without_rounding(array, low, high):
    """Probabilities whose rounding errors outside [0, 1] are 0 or 1, from their limits.

    The array itself where there are none, else a copy. Values above 1 by more are unchanged.
    """
    if low >= 0 and high <= 1:
        return array
    above = (array > 1) & (array <= 1 + PROBABILITY_ROUNDING)
    return np.where(above, 1.0, np.maximum(array, 0.0))


def check_finite_columns(values, *, name, n_samples=None):
    """Any finite real array (n,) or (n, d) -> (n, d), with as many rows as there are labels."""
    array = _check_float_array(values, name)
    if n_samples is not None and len(array) != n_samples:
        raise ValueError(
            f"y_true and {name} must have the same number of samples: y_true has {n_samples}, "
            f"{name} has {len(array)}."
        )
    return array


def _check_float_array(values, name):
    refuse_sparse(values, name)
    values = to_numpy(values, name=name)
    _refuse_other_kinds(
        values, f"{name} must be a numeric array of shape (n,) or (n, n_classes): it holds"
    )
    try:
        array = check_array(
            values,
            ensure_2d=False,
            allow_nd=True,
            dtype=[np.float64, np.float32, np.float16],
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
    except (OverflowError, TypeError, ValueError) as error:
        said = error_sentence(error)
        if isinstance(error, TypeError) or isinstance(values, (str, bytes)):
            cells = np.asarray(values, dtype=object).ravel().tolist()
            cell = next((cell for cell in cells if not isinstance(cell, Real)), values)
            said = f"it holds {shown(cell)}." if np.ndim(values) else f"got {shown(values)}."
        raise ValueError(
            f"{name} must be a numeric array of shape (n,) or (n, n_classes): {said}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        of_labels = (
            " It may be that of a model of several labels: pass the probabilities of one label at "
            "a time, such as predict_proba(X)[k]."
        )
        raise ValueError(
            f"{name} must have shape (n,) or (n, n_classes), got {np.shape(values)}."
            + of_labels * (array.ndim == 3)
        )
    check_finite(array, name)
    return array


#: Kinds of arrays that NumPy turns into numbers, although they are none.
_OTHER_KINDS = {
    "c": "complex numbers, whose imaginary part would be lost. Pass real numbers",
    "M": "dates. Pass real numbers",
    "m": "differences of times. Pass real numbers",
    "U": "text. Convert it with .astype(float) if it spells numbers",
    "S": "text. Convert it with .astype(float) if it spells numbers",
}


def _refuse_other_kinds(values, start):
    """Raise for text, dates and complex numbers; `start` is the beginning of the message."""
    kinds = _kinds(values)
    if "O" in kinds:
        cells = np.asarray(values, dtype=object).ravel().tolist()
        kinds |= {"U" for cell in cells if isinstance(cell, (str, bytes))}
        kinds |= {"c" for cell in cells if isinstance(cell, (complex, np.complexfloating))}
    for kind, description in _OTHER_KINDS.items():
        if kind in kinds:
            raise ValueError(f"{start} {description}.")


def _kinds(values):
    """Kinds of the values, or of the columns of a frame, as NumPy abbreviates them."""
    dtypes = [getattr(values, "dtype", None)]
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        dtypes = values.dtypes
    elif dtypes[0] is None and isinstance(values, (list, tuple)):
        with suppress(ValueError):  # lists of unequal lengths, which are described elsewhere
            dtypes = [np.asarray(values).dtype]
    known = {dtype.kind for dtype in dtypes if isinstance(dtype, np.dtype)}
    texts = {str(dtype).lower() for dtype in dtypes} & {"str", "string", "utf8"}
    return known | {"U"} if texts else known


def refuse_sparse(values, name):
    """Raise for sparse matrices, which are not converted."""
    if issparse(values):
        raise ValueError(f"{name} is sparse: pass a dense array, for example {name}.toarray().")


def check_finite(array, name):
    """At least one sample, and no NaN or infinity."""
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed.")
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(array.sum()):  # without an array of truth values
            return
    if not np.isfinite(array).all():
        value = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} contains {value}: remove or correct these rows first.")


def check_simplex(array, name, *, copy=True):
    """Probabilities (n, K) from one column, that of the positive class, or from all columns."""
    if array.shape[1] == 1:
        p = check_column(array, name=name)
        return np.hstack([1 - p, p])
    low, high = float(array.min()), float(array.max())
    if is_outside(low, high, 1 + HALF_TOLERANCE):
        raise _outside(array, name)
    array = without_rounding(array, low, high)
    # A copy, so that the caller's array is not changed; callers that only read can do without.
    p = (np.array if copy else np.asarray)(array, dtype=np.float64, order="C")
    if high <= 1 + ROW_SUM_TOLERANCE and _off(row_sum(p)).max() <= ROW_SUM_TOLERANCE:
        return p
    off = _off(p.sum(axis=1))
    row = int(off.argmax())
    tolerance = ROW_SUM_TOLERANCE
    if off[row] > tolerance and np.array_equal(array, array.astype(np.float16)):
        tolerance = HALF_TOLERANCE  # values of half precision, even in a wider type
    if high > 1 + tolerance:
        raise _outside(array, name)
    if off[row] > tolerance:
        raise ValueError(
            f"Each row of {name} must sum to 1 (within {tolerance:g}), but row {row} sums to "
            f"{p[row].sum():.6g}. Pass one probability per class in each row; divide by the row "
            "sum first if that is intended."
        )
    return p


def _off(total):
    """Absolute differences of sums from one, in place of the sums."""
    total -= 1
    return np.abs(total, out=total)


def _outside(array, name):
    """The error for values outside [0, 1], with advice for percentages and logits."""
    low, high = float(array.min()), float(array.max())
    advice = (
        "Map logits or decision values to probabilities first, for example by "
        "scipy.special.softmax or scipy.special.expit."
    )
    with np.errstate(over="ignore"):  # the largest floats
        off = np.abs(array.sum(axis=1, dtype=np.float64) - 100)
    if low >= 0 and array.shape[1] == 1 and 1.01 < high <= 100:
        advice = f"If these are percentages, divide by 100. {advice}"
    elif low >= 0 and array.shape[1] > 1 and np.all(off < 5):
        advice = "The rows sum to 100, so these are percentages: divide by 100."
    value = low if low < -PROBABILITY_ROUNDING else high
    return ValueError(
        f"{name} has the value {value:.12g}, outside [0, 1]: probabilities are expected. {advice}"
    )


def check_weight(sample_weight, n_samples):
    """Weights -> float64 array (n,), ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    sample_weight = to_numpy(sample_weight, name="sample_weight")
    _refuse_other_kinds(sample_weight, "sample_weight must be an array of numbers: it holds")
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("sample_weight must be an array of numbers.") from error
    if weight.shape == (n_samples, 1):
        weight = weight[:, 0]
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight per sample; got shape "
            f"{weight.shape}."
        )
    if not np.isfinite(weight).all() or weight.min() < 0:
        raise ValueError("sample_weight must be finite and not negative.")
    if weight.max() <= 0:
        raise ValueError("sample_weight sums to zero: at least one weight must be positive.")
    return weight


def drop_zero_weights(sample_weight, *arrays):
    """Weights (m,), and the rows of the arrays; zero-weight samples are dropped.

    Weights of an extreme scale are multiplied by a power of two, so that squares do not overflow.
    """
    weight = check_weight(sample_weight, len(arrays[0]))
    exponent = int(np.frexp(weight.max())[1])
    if abs(exponent) >= 200:
        weight = np.ldexp(weight, -exponent)
    counts = weight > 0
    if counts.all():
        return weight, *arrays
    return weight[counts], *(array[counts] for array in arrays)


def weighted_rows(sample_weight, n_samples):
    """The rows that `drop_zero_weights` keeps."""
    return np.flatnonzero(check_weight(sample_weight, n_samples) > 0)


def weights_of_mean_one(weight, count=None):
    """Weights divided by their mean: penalties and priors are then in units of samples.

    A row stands for ``count`` (n,) samples, by default for one.
    """
    return weight * (number_of_samples(weight, count) / weight.sum())


def number_of_samples(rows, count=None):
    """Number of samples of rows that stand for ``count`` (n,) samples, by default for one."""
    return len(rows) if count is None else int(count.sum())


def take_rows(values, index):
    """Rows of an array, also of another library, of a data frame or a list; None stays None."""
    if values is None:
        return None
    if not isinstance(values, np.ndarray) and hasattr(values, "__array_namespace__"):
        library, index = values.__array_namespace__(), np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index
        return library.take(values, library.asarray(index), axis=0)
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if issparse(values):
        values = values.tocsr()
    return [values[i] for i in index] if isinstance(values, (list, tuple)) else values[index]


def weighted_features(X, sample_weight, n_samples):
    """The rows of X of positive weight, which has one row for each sample."""
    refuse_frames_to_fetch(X, "X")
    if not hasattr(X, "__len__") and not getattr(X, "shape", ()):
        raise ValueError(f"X must have a row of features for each sample, got {shown(X)}.")
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows != n_samples:
        raise ValueError(
            f"X and y_true must have the same number of samples: X has {n_rows}, y_true has "
            f"{n_samples}."
        )
    rows = weighted_rows(sample_weight, n_samples)
    return X if len(rows) == n_samples else take_rows(X, rows)


# --- Indices of pandas ----------------------------------------------------------------------------


def check_indices(**arguments):
    """Raise if pandas objects among arguments with a row per sample have different indices.

    Rows are taken by position and never aligned. The index 0, ..., n - 1, which pandas makes by
    itself, is no information, unless the other index has the same numbers in another order. Frames
    whose rows must be fetched first are refused, and features with repeated names.
    """
    for name, argument in arguments.items():
        refuse_frames_to_fetch(argument, name)
        if name not in ("X", "by"):  # a classifier reads X, and masks are a dict
            _refuse_other_containers(argument, name)
        if name in ("X", "features", "by") and hasattr(argument, "columns"):
            unique_names(argument.columns, name)
    named = [
        (name, argument.index) for name, argument in arguments.items() if hasattr(argument, "iloc")
    ]
    for k, (name, index) in enumerate(named):
        for other_name, other_index in named[:k]:
            if not _same_rows(index, other_index):
                raise ValueError(
                    f"{other_name} and {name} have different indices, so their rows may belong to "
                    "different samples: align them first, such as by "
                    f"{name}.loc[{other_name}.index], or pass {name}.to_numpy() if the positions "
                    "agree."
                )


def _same_rows(first, second):
    """Whether two indices of pandas may name the same rows in the same order."""
    if first is second or len(first) != len(second) or first.equals(second):
        return True  # different lengths are described elsewhere
    for default_index, index in ((first, second), (second, first)):
        if _is_default(default_index):
            values = np.asarray(index)
            return not (
                values.dtype.kind in "iu"
                and values.min() == 0
                and values.max() == len(values) - 1
                and np.bincount(values).max() == 1
            )
    return False


def _is_default(index):
    """Whether an index is 0, ..., n - 1."""
    if type(index).__name__ == "RangeIndex":
        return index.start == 0 and index.step == 1
    values = np.asarray(index)
    return values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))


# --- Names, counts and levels ---------------------------------------------------------------------


def check_count(value, name, kind="a whole number", least=1):
    """Validate a whole number of at least 1, or `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be {kind} of at least {least}, got {shown(value)}.")
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2**63, got {shown(value)}.")
    return int(value)


def check_not_negative(value, name, meaning):
    """Validate a finite real number of at least 0."""
    if not is_finite(value) or value < 0:
        raise ValueError(f"{name} must be {meaning}, finite and not negative; got {shown(value)}.")
    return float(value)


def look_up(value, table, name, *, kind=None):
    """The entry of a string in a table, or the string in a list; raises for all other values.

    With `kind`, a table of constructors: the object that the entry makes, and objects of this class
    as they are.
    """
    if isinstance(value, str) and value in table:
        entry = table[value] if isinstance(table, Mapping) else value
        return entry if kind is None else entry()
    if kind is not None and isinstance(value, kind):
        return value
    names = ", ".join(map(repr, table)) + ("" if kind is None else f" or a {kind.__name__}")
    raise refusal(name, f"one of {names}", value, table)


def check_confidence_level(value, name="confidence_level"):
    """Validate any real number strictly between 0 and 1, and return it as a float.

    Below 1e-10 the interval of a mean is a point.
    """
    if not (isinstance(value, Real) and 0 < value < 1):
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {shown(value)}.")
    if value < _LEAST_LEVEL:
        raise ValueError(
            f"{name} must be at least {_LEAST_LEVEL:g}, got {shown(value)}: 0.95 is usual."
        )
    return float(value)


_LEAST_LEVEL = 1e-10


# --- Arrays of other libraries --------------------------------------------------------------------


#: Packages whose frames are not in this process -> what fetches them.
_ENGINES = {"duckdb": "df", "_duckdb": "df", "pyspark": "toPandas", "ibis": "to_pandas"}


def refuse_frames_to_fetch(values, name):
    """Raise for frames without rows that can be indexed, before an attribute of them is read."""
    if hasattr(values, "__dask_graph__"):  # computed only on request
        raise ValueError(
            f"{name} is a Dask collection, which would be computed as a whole: pass "
            f"{name}.compute() if it fits into memory. Otherwise pass its blocks to "
            "partial_fit, and apply a fitted map by map_blocks."
        )
    kind = type(values)
    package = kind.__module__.partition(".")[0]
    if hasattr(kind, "collect_schema") and hasattr(kind, "collect"):
        fetch = "collect"
    elif hasattr(kind, "column_names") and hasattr(kind, "to_pandas"):  # a table of pyarrow
        fetch = "to_pandas"
    elif package in _ENGINES and hasattr(kind, "columns"):
        fetch = _ENGINES[package]
    else:
        return
    raise ValueError(
        f"{name} is a {kind.__name__} of {package.strip('_')}, whose rows must be fetched first: "
        f"pass {name}.{fetch}(). For frames too large for memory there is skcalib.summarize."
    )


def to_numpy(values, *, name):
    """An array of another library on the CPU -> NumPy array; other values are returned unchanged.

    A tensor that requires gradients is detached, as results are numbers and NumPy arrays.
    """
    refuse_frames_to_fetch(values, name)
    _refuse_other_containers(values, name)
    n_masked = np.ma.count_masked(values) if isinstance(values, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{name} has {n_masked} masked values, which are missing: remove their rows from all "
            "arguments first."
        )
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    owned = values.detach() if getattr(values, "requires_grad", False) is True else values
    try:
        array = np.asarray(owned)
        # Without a protocol that numpy.asarray supports, the result is one object.
        return np.from_dlpack(owned) if array.ndim == 0 and array.dtype == object else array
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{type(values).__module__}.{type(values).__qualname__}"
        about = ", ".join(str(getattr(values, key, "?")) for key in ("dtype", "device"))
        raise ValueError(
            f"{name} is a {kind} ({about}) that NumPy cannot read: copy it to the CPU, for example "
            f"with {name}.cpu(), and convert bfloat16 to float32 before the softmax."
        ) from error


def _refuse_other_containers(values, name):
    """Raise for what NumPy reads as a single object: functions, iterators, dicts and sets."""
    kind = type(values).__name__
    if isinstance(values, _FUNCTIONS):
        called = "method" if isinstance(values, MethodType) else "function"
        said, remedy = f"the {called} {values.__name__}", f"call it, such as {values.__name__}(X)"
    elif isinstance(values, Mapping):
        said, remedy = f"a {kind}, not an array", f"pass list({name}.values())"
    elif isinstance(values, Set) and not isinstance(values, KeysView):
        said, remedy = f"a {kind}, which has no order", "pass a list or an array"
    elif isinstance(values, (Iterator, MappingView)):
        said, remedy = f"a {kind}, not an array", f"pass list({name})"
    else:
        return
    raise ValueError(f"{name} is {said}: {remedy}.")


# --- Messages -------------------------------------------------------------------------------------


def error_sentence(error):
    """The message of another library as the end of a sentence: one line, one full stop."""
    line = re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", " ".join(str(error).split()))
    return line.rstrip(".") + "."
