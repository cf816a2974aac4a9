"""Arguments are validated once: labels, probabilities and weights become plain arrays.

Past this module forecasts are float64 arrays of shape (n, K) with K >= 2, targets are one-hot
arrays of the same shape and weights are float64 arrays of shape (n,). Nothing is clipped,
renormalised or guessed; what does not fit is refused in one sentence.
"""

import re
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skcalib._array_api import to_numpy
from skcalib._column_names import is_numbering, is_plain, match_names, read_name
from skcalib._labels import (
    check_classes,
    check_y,
    in_words,
    listed,
    one_hot,
    put_positive_last,
    unique_labels,
)

# Rows may miss one by what rounding explains: a float32 softmax over a thousand classes, or
# probabilities written with six decimals. A row that is off by more was no probability vector.
ROW_SUM_TOLERANCE = 1e-5
_READ_ONE_BY_ONE = 20  # names of more columns are read together, or not at all
HALF_TOLERANCE = 10 * float(np.finfo(np.float16).eps)


@dataclass(frozen=True)
class Problem:
    """Forecasts, targets and weights that belong together, validated.

    ``forecast`` and ``target`` have shape (n, K), K >= 2; ``weight`` has shape (n,) and is
    positive; ``classes`` names the K columns.
    """

    forecast: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    classes: np.ndarray


def check_problem(
    y_true,
    y_proba,
    *,
    sample_weight=None,
    labels=None,
    pos_label=None,
    name="y_proba",
    remedy="pos_label",
):
    """Arguments of a public function -> `Problem`.

    `remedy` is the argument that messages recommend: "labels" where there is no `pos_label`.
    """
    y = check_y(y_true)
    raw = check_features(y_proba, name=name, n_samples=len(y))
    columns = {"labels": labels, "pos_label": pos_label, "name": name, "remedy": remedy}
    classes = classes_of_columns(y, y_proba, raw.shape[1], **columns)
    forecast, target = _check_simplex(raw, name), one_hot(y, classes)
    weight = moderate(check_weight(sample_weight, len(y)))
    counts = weight > 0
    if not counts.all():  # a sample of weight zero does not count
        forecast, target, weight = forecast[counts], target[counts], weight[counts]
    return Problem(forecast, target, weight, classes)


def event_last(problem, pos_label=None):
    """The same problem with `pos_label` as the class of its last column; two classes only."""
    if pos_label is None:
        return problem
    classes = put_positive_last(problem.classes, pos_label, reorder=True)
    if classes is problem.classes:
        return problem
    forecast, target = (a[:, ::-1].copy() for a in (problem.forecast, problem.target))
    return Problem(forecast, target, problem.weight, classes)


def classes_of_columns(
    y, y_proba, n_columns, *, labels=None, pos_label=None, name="y_proba", remedy="pos_label"
):
    """The class of each column, as arguments and the names of the columns say.

    A single column that names a class holds its probability. `labels` and `pos_label` decide
    where the name does not, and must not contradict it. Names of several columns must not
    contradict the order of the classes, unless `labels` gives another.
    """
    column = _name_of_single(y_proba) if n_columns == 1 else None
    if column is None:
        classes = check_classes(y, n_columns, labels=labels, pos_label=pos_label, name=name)
        if labels is None and n_columns > 1:
            _check_order(y_proba, classes, name)
        return classes
    given = labels is not None or pos_label is not None
    if not given:
        only = unique_labels(y)
        if len(only) == 1 and not isinstance(column, int):
            named = isinstance(only[0], (str, bytes)) and read_name(column, only).kind == "class"
            pos_label = only.tolist()[0] if named else None
    classes = check_classes(y, 1, labels=labels, pos_label=pos_label, name=name)
    return _classes_by_name(column, classes, name, given=given, remedy=remedy)


def check_column_names(y_proba, classes, name):
    """Refuse names of columns that contradict the known classes of the columns."""
    columns = getattr(y_proba, "columns", None)
    column = _name_of_single(y_proba) if columns is None or len(columns) == 1 else None
    if column is None:
        _check_order(y_proba, classes, name, remedy=None)
    elif len(classes) == 2:
        _classes_by_name(column, classes, name, given=True, remedy=None)


def _classes_by_name(column, classes, name, *, given, remedy):
    """Two classes, the one that a single column is the probability of in the last place.

    `given`: the order of `classes` is that of arguments, not of sorted labels.
    """
    if isinstance(column, int):  # the column of another frame, or the number of the only column
        if given or column != classes[0]:
            return classes
        raise _unclear(f"is number {column}", classes, name, remedy)
    reading = read_name(column, classes, default=1)
    if reading.kind == "class":
        if given and reading.place == 0:
            named, other = classes.tolist()
            raise ValueError(
                f"The column of {name} is named {column!r}, so it is the probability of "
                f"{named!r}, but it would be read as that of {other!r}: "
                f"{_contradiction_remedy(named, other, remedy)}an array, which has no names."
            )
        return classes[::-1] if reading.place == 0 else classes
    if reading.kind == "negated" or 0 in reading.mentioned:
        raise _unclear(f"is named {column!r}", classes, name, None)
    if given or (is_plain(classes) and reading.kind in ("generic", "unknown")):
        return classes
    raise _unclear(f"is named {column!r}", classes, name, remedy)


def _contradiction_remedy(named, other, remedy):
    if remedy is None:
        return f"pass the probabilities of {other!r}, or "
    if remedy == "labels":
        return f"pass labels={[other, named]!r}, or "
    return f"pass pos_label={named!r} (and no labels=), or "


def _unclear(what, classes, name, remedy):
    """The error of a single column whose class is not known."""
    first, second = classes.tolist()
    remedy = {
        None: f"rename it after one of them, such as 'p_{second}'",
        "labels": f"pass labels={[first, second]!r} or labels={[second, first]!r}, with its class "
        "last",
        "pos_label": f"pass pos_label={first!r} or pos_label={second!r}",
    }[remedy]
    return ValueError(
        f"The column of {name} {what}, which does not say whether it is the probability of "
        f"{first!r} or of {second!r}: {remedy}."
    )


def _name_of_single(y_proba):
    """The name of a Series or of the only column of a frame; None where there is none.

    Names that libraries give by themselves are none: the numbers of the columns of a pandas
    frame, ``column_0`` of polars. The number that a Series has is kept as a whole number: it may
    be one of several columns.
    """
    columns = getattr(y_proba, "columns", None)
    if columns is not None:
        names = list(columns)
        name = names[0] if len(names) == 1 else None
        return None if isinstance(name, (int, np.integer)) else _text_of(name)
    if not hasattr(y_proba, "to_frame"):
        return None
    name = getattr(y_proba, "name", None)
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return int(name)
    return _text_of(name)


def _text_of(name):
    text = "" if name is None else str(name).strip()
    return None if not text or re.fullmatch(r"column_\d+", text) else text


def _check_order(y_proba, classes, name, *, remedy="labels"):
    """A data frame whose columns are the classes in another order would be read wrongly."""
    columns = list(getattr(y_proba, "columns", ()))
    expected = classes.tolist()
    if len(columns) != len(expected) or columns == expected:
        return
    places = match_names(columns, expected)
    if places is None:
        if is_numbering(columns) or len(columns) > _READ_ONE_BY_ONE:
            return
        readings = [read_name(column, expected) for column in columns]
        places = [reading.place for reading in readings]
    if any(place is not None and place != k for k, place in enumerate(places)):
        follow = "the sorted classes" if remedy else "the classes"
        advice = "pass labels= with the class of each column, or reorder" if remedy else "reorder"
        raise ValueError(
            f"The columns of {name} are named {listed(columns)}, but columns follow {follow} "
            f"{listed(expected)}: {advice} them."
        )


def check_proba(y_proba, *, name="y_proba"):
    """Probabilities of shape (n,), (n, 1) or (n, K) -> float64 array (n, K), K >= 2."""
    return _check_simplex(_check_float_array(y_proba, name), name)


def check_features(values, *, name, n_samples=None):
    """Any finite real array (n,) or (n, d) -> (n, d), with as many rows as there are labels."""
    array = _check_float_array(values, name)
    if n_samples is not None and len(array) != n_samples:
        raise ValueError(
            f"y_true and {name} must have the same number of samples: y_true has {n_samples}, "
            f"{name} has {len(array)}."
        )
    return array


def _check_float_array(values, name):
    if issparse(values):
        raise ValueError(f"{name} is sparse: pass a dense array, for example {name}.toarray().")
    values = to_numpy(values, name=name)
    try:
        array = check_array(
            values,
            ensure_2d=False,
            dtype=[np.float64, np.float32, np.float16],
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a numeric array of shape (n,) or (n, n_classes): {in_words(error)}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n,) or (n, n_classes), got {np.shape(values)}.")
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed.")
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} contains {what}: remove or repair these rows first.")
    return array


def _check_simplex(array, name):
    low, high = float(array.min()), float(array.max())
    single = array.shape[1] == 1  # it has no others to share a rounding error with
    if low < 0 or high > (1 if single else 1 + HALF_TOLERANCE):
        raise _outside(array, name)
    p = np.array(array, dtype=np.float64, order="C")  # a copy: the caller's array stays untouched
    if single:
        return np.hstack([1 - p, p])
    off = np.abs(p.sum(axis=1) - 1)
    row = int(off.argmax())
    tolerance = _tolerance(array, off[row])
    if high > 1 + tolerance:
        raise _outside(array, name)
    if off[row] > tolerance:
        raise ValueError(
            f"Each row of {name} must sum to 1 (within {tolerance:g}), but row {row} sums to "
            f"{p[row].sum():.6g}. Pass one probability per class in each row; divide by the row "
            "sum first if that is what you mean."
        )
    return p


def _outside(array, name):
    """The error of values outside [0, 1], with advice on what they look like."""
    low, high = float(array.min()), float(array.max())
    advice = (
        "Map logits or decision values to probabilities first, for example by "
        "scipy.special.softmax or scipy.special.expit."
    )
    if low >= 0 and _like_percentages(array, high):
        if array.shape[1] > 1:
            advice = "The rows sum to 100, so these are percentages: divide by 100."
        else:
            advice = f"If these are percentages, divide by 100. {advice}"
    value = low if low < 0 else high
    return ValueError(
        f"{name} has the value {value:.9g}, outside [0, 1]: probabilities are expected. {advice}"
    )


def _like_percentages(array, high):
    """Rows that sum to 100, up to roundings; a single column beyond 1 and within 100."""
    if array.shape[1] == 1:
        return 1.01 < high <= 100
    return bool(np.all(np.abs(array.sum(axis=1, dtype=np.float64) - 100) < 5))


def _tolerance(array, off):
    """What rounding explains: more for numbers of half precision, also in a wider type by now."""
    if off <= ROW_SUM_TOLERANCE or not np.array_equal(array, array.astype(np.float16)):
        return ROW_SUM_TOLERANCE
    return HALF_TOLERANCE


def check_weight(sample_weight, n_samples):
    """Weights -> float64 array (n,), ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    sample_weight = to_numpy(sample_weight, name="sample_weight")
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
        raise ValueError("sample_weight sums to zero: at least one sample must count.")
    return weight


def moderate(weight):
    """Weights of an extreme scale times a power of two: their squares must not leave the range."""
    exponent = int(np.frexp(weight.max())[1])
    return weight if abs(exponent) < 200 else np.ldexp(weight, -exponent)


def from_table(value, table, *, name, kind):
    """Strings are looked up in `table`, objects of `kind` pass; one message for all the rest."""
    if isinstance(value, str) and value in table:
        return table[value]()
    if isinstance(value, kind):
        return value
    names = ", ".join(repr(key) for key in table)
    raise ValueError(f"{name} must be one of {names} or a {kind.__name__}, got {value!r}.")
