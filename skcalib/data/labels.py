"""Validation of labels and soft labels; classes and columns that they name; one-hot rows.

Labels may be of any type that can be ordered. Values are never guessed; invalid input raises an
error with a message of one sentence or two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import issparse

from skcalib._util.messages import is_missing, shown
from skcalib._util.validation import (
    PROBABILITY_ROUNDING,
    ROW_SUM_TOLERANCE,
    error_sentence,
    refuse_sparse,
    to_numpy,
    without_rounding,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from numpy.typing import DTypeLike

    from skcalib._util.types import ArrayLike, Classes, Label


def check_y(y_true: ArrayLike, *, name: str = "y_true") -> np.ndarray:
    """Labels of any orderable type -> array (n,) without missing or continuous values."""
    y_true = to_numpy(y_true, name=name)
    y = None if issparse(y_true) else _as_array(y_true, name)
    if y is None or y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] != 1):
        shape = y_true.shape if y is None else y.shape
        if shape == ():
            raise ValueError(
                f"{name} must hold one label per sample, shape (n,); got {shown(y_true)}."
            )
        advice = _ADVICE[_kind_of_rows(y)]
        raise ValueError(
            f"{name} must hold one label per sample, shape (n,); got shape {shape}. {advice}"
        )
    y = y.ravel()
    if len(y) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed.")
    if y.dtype.kind == "O" and any(is_missing(label) for label in y):
        raise ValueError(f"{name} contains missing values (NaN or None): remove these rows first.")
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold class labels.")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"{name} contains NaN or infinity: remove these rows first.")
        if np.any(y != np.floor(y)):
            said = "contains continuous values: class labels are expected. Did you swap labels and"
            raise ValueError(f"{name} {said} forecasts?")
    return y


#: What to do about rows of several columns, by their kind.
_ADVICE = {
    "one-hot": "Turn one-hot rows into labels with .argmax(axis=1); for an "
    "indicator matrix of 0 and 1 pass a column of y_true and of y_proba at a time, or "
    "notion=Multilabel() to a function that takes it; soft labels are label distributions or "
    "annotator counts (n, n_classes).",
    "indicator": "For several labels per sample pass a column of y_true and of y_proba at a time, "
    "its known rows, or notion=Multilabel() of skcalib.data.notions to a function that takes it; "
    "for counts of annotators divide each row by its sum.",
    "soft": "Label distributions and annotator counts are for proper calibration errors, their "
    "decomposition, GroupingLossEstimator and recalibrators with fit(P, y): elsewhere pass one "
    "label per sample, such as .argmax(axis=1). Or did you swap labels and forecasts?",
}
_ADVICE[""] = _ADVICE["one-hot"]


def _kind_of_rows(y):
    """What the rows of an array of several columns are, "" for nothing that is known.

    "one-hot" (a single 1), "indicator" (0, 1 and missing), or "soft": label
    distributions or counts.
    """
    if y is None or y.ndim != 2 or y.shape[1] < 2 or not len(y) or y.dtype.kind not in "biuf":
        return ""
    missing = np.isnan(y)
    binary = bool(((y == 0) | (y == 1) | missing).all())
    if binary and missing.any():
        return "indicator"
    if binary:
        return "one-hot" if bool((y.sum(axis=1) == 1).all()) else "indicator"
    with np.errstate(invalid="ignore"):
        return "soft" if bool((y >= 0).all()) and np.isfinite(y).all() else ""


def has_columns(y_true: ArrayLike) -> bool:
    """Whether labels have several columns: soft labels, or an indicator matrix."""
    shape = () if issparse(y_true) else getattr(y_true, "shape", ())
    if isinstance(y_true, (list, tuple)) and len(y_true):
        shape = (len(y_true), *np.shape(y_true[0]))  # a list of labels is not converted
    return len(shape) == 2 and shape[1] > 1


def check_soft_labels(y_true: ArrayLike, *, name: str = "y_true") -> tuple[np.ndarray, np.ndarray]:
    """Label distributions or annotator counts (n, K) -> distributions, and votes of each row (n,).

    Rows of distributions have an infinite number of votes.
    """
    rows = _as_array(to_numpy(y_true, name=name), name)
    if rows.dtype.kind == "f" and rows.size and rows.min() >= -PROBABILITY_ROUNDING:
        rows = without_rounding(rows, rows.min(), rows.max())
    kind = _kind_of_rows(rows)
    if kind != "soft":
        if kind != "indicator" and rows.dtype.kind in "iuf" and len(rows) and not np.all(rows >= 0):
            bad = rows[~(rows >= 0)].tolist()[0]
            raise ValueError(
                f"{name} has the value {bad!r}, but label distributions are probabilities and "
                "annotator counts are whole numbers: neither is negative or missing."
            )
        check_y(y_true, name=name)  # raises
    rows = rows.astype(np.float64)
    total = rows.sum(axis=1)
    off = np.abs(total - 1)
    if off.max() <= ROW_SUM_TOLERANCE:
        return rows, np.full(len(rows), np.inf)
    if np.any(rows != np.floor(rows)):
        row = int(off.argmax())
        raise ValueError(
            f"{name} must hold label distributions, whose rows sum to 1, or counts of annotators, "
            f"which are whole numbers; row {row} sums to {total[row]:.6g}."
        )
    if total.min() < 1:
        raise ValueError(
            f"{name} has no vote in row {int(total.argmin())}: remove rows without annotators."
        )
    return rows / total[:, None], total


def check_indicators(y_true: ArrayLike, *, name: str = "y_true") -> np.ndarray:
    """Indicator matrix (n, L) of 0 and 1 -> float64 array, with NaN for missing cells."""
    refuse_sparse(y_true, name)
    rows = _as_array(to_numpy(y_true, name=name), name)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(
            f"{name} must be an indicator matrix (n, n_labels) with notion=Multilabel(), a column "
            f"of 0 and 1 for each label; got shape {rows.shape}. For one label per sample use "
            "notion='classwise'."
        )
    if rows.dtype.kind == "O":
        missing = np.array([is_missing(cell) for cell in rows.ravel()]).reshape(rows.shape)
        rows = np.where(missing, np.nan, rows)
        if all(isinstance(cell, (bool, int, float, np.generic)) for cell in rows.ravel()):
            rows = rows.astype(np.float64)
    if rows.dtype.kind not in "biuf" or not ((rows == 0) | (rows == 1) | np.isnan(rows)).all():
        raise ValueError(
            f"{name} must be an indicator matrix of 0 and 1 with notion=Multilabel(), and holds "
            "other values: pass 1 where a sample has the label of the column, 0 where it has not, "
            "and NaN where that is not known."
        )
    return rows.astype(np.float64)


def _as_array(y_true, name):
    """Labels as an array; NaN among strings is not converted to the string "nan"."""
    try:
        y = np.asarray(y_true)
        if y.dtype.kind == "O" and y.ndim == 2 and hasattr(y_true, "dtypes"):
            numbers = np.array(y.tolist())  # columns of pandas of types that may be missing
            return numbers if numbers.dtype.kind in "biuf" else y
        if y.dtype.kind in "US" and not hasattr(y_true, "dtype"):
            objects = np.asarray(y_true, dtype=object)
            if not all(isinstance(label, (str, bytes)) for label in objects.ravel()):
                return objects
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one label per sample, shape (n,): {error_sentence(error)}"
        ) from error
    return y


def listed(classes: Classes) -> str:
    """Classes for a message, abbreviated if there are many."""
    names = np.asarray(classes).tolist()
    if len(names) <= 12:
        return str(names)
    first = ", ".join(map(repr, names[:5]))
    return f"[{first}, ..., {names[-1]!r}] ({len(names)} in all)"


def check_classes(
    y: np.ndarray,
    n_columns: int,
    *,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    name: str = "y_proba",
) -> np.ndarray:
    """Classes of the columns, in order; ``n_columns=1`` is a binary forecast of shape (n,)."""
    classes = unique_labels(y) if labels is None else check_label_list(labels)
    if n_columns == 1 and len(classes) == 1:
        classes = _complete_single_class(classes, pos_label, name)
    if pos_label is not None:
        classes = put_positive_last(classes, pos_label, reorder=n_columns == 1)
    fewer = labels is None and len(classes) < n_columns and classes.dtype.kind in "iuf"
    in_range = fewer and classes[0] >= 0 and classes[-1] < n_columns
    if in_range and np.array_equal(classes, np.rint(classes)):  # numbers of columns
        # Labels that count from 1 have no 0; 0 and 1 alone are more likely those of an event.
        if classes[0] == 0 and len(classes) > 2:
            return np.arange(n_columns, dtype=classes.dtype)
        numbers = f"labels=range({n_columns}) if labels are the numbers of columns"
    else:
        numbers = f"labels= with the class of each column of {name}"
    if len(classes) != max(n_columns, 2):
        holds = "y_true has" if labels is None else "labels lists"
        columns = f"{n_columns} columns"
        advice = f"pass {numbers} (for a scikit-learn classifier: its classes_)"
        if n_columns == 1:
            columns = "one column (the positive class)"
            advice = "pass all columns, or y == k as the labels of one class k"
        raise ValueError(f"{holds} {len(classes)} classes but {name} has {columns}: {advice}.")
    return classes


def _complete_single_class(classes, pos_label, name):
    """Both classes if y_true has only one, from `pos_label` or from 0/1 coding."""
    if pos_label is not None:
        second = None if classes[0] == pos_label else pos_label
        return np.array([classes[0], second], dtype=object)
    only = classes.tolist()[0]
    if isinstance(only, bool):
        return np.array([False, True])
    if classes.dtype.kind in "iufO" and isinstance(only, (int, float)) and only in (-1, 0, 1):
        return np.array([-1, 1]) if only == -1 else np.array([0, 1])
    raise ValueError(
        f"y_true has only the class {only!r}, so it is unknown which class {name} of shape "
        "(n,) is the probability of: pass labels=[negative, positive] or pos_label=."
    )


def put_positive_last(classes: np.ndarray, pos_label: Label, *, reorder: bool) -> np.ndarray:
    """Two classes; with ``reorder``, `pos_label`, which must be one of them, comes last."""
    if len(classes) > 2:
        raise ValueError(
            f"pos_label is for binary problems, but there are {len(classes)} classes: omit it; "
            "if there is a notion= argument, 'classwise' evaluates every class."
        )
    matches = [label == pos_label for label in classes]
    if not any(matches):
        raise ValueError(
            f"pos_label={shown(pos_label)} is not one of the classes {listed(classes)}."
        )
    return classes[::-1] if reorder and matches[0] else classes


def unique_labels(y: np.ndarray, name: str = "y_true") -> np.ndarray:
    """Sorted distinct labels; raises for missing ones and for mixed types."""
    if _range(y) is not None:
        return LabelTable.of(y).distinct
    if y.dtype.kind in "Of" and any(map(is_missing, y)):
        raise ValueError(f"{name} contains missing values (NaN or None): remove these rows first.")
    try:
        return np.unique(y)
    except TypeError as error:
        raise ValueError(f"{name} mixes labels of types that cannot be ordered.") from error


_TABLE = 1 << 16  # range of integer labels up to which they are counted, not sorted


@dataclass(frozen=True)
class LabelTable:
    """Labels as numbers of a table: ``index`` (n,) has that of each label, and ``place`` those of
    the sorted ``distinct`` labels; the table has ``length`` entries.
    """

    distinct: np.ndarray
    place: np.ndarray
    length: int
    index: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray) -> Self:
        """The table of labels that can be ordered."""
        span = _range(y)
        if span is None:
            distinct, index = np.unique(y, return_inverse=True)
            return cls(distinct, np.arange(len(distinct)), len(distinct), index.ravel())
        low, high = span
        index = y.astype(np.intp, copy=low != 0)
        if low:
            index -= low
        place = np.flatnonzero(np.bincount(index))
        return cls((place + low).astype(y.dtype), place, high - low + 1, index)

    def columns(self, classes: np.ndarray, dtype: DTypeLike = np.intp) -> np.ndarray:
        """The column of each label (n,), of the classes of the columns."""
        table = np.zeros(self.length, dtype=dtype)
        table[self.place] = one_hot(self.distinct, classes).argmax(axis=1)
        return table.take(self.index)


def _range(y):
    """The smallest and the largest of labels that are counted; None for others."""
    if y.dtype.kind not in "biu" or not len(y):
        return None
    low, high = int(y.min()), int(y.max())
    return (low, high) if high - low < _TABLE and high < 2**62 else None


def check_label_list(labels: ArrayLike) -> np.ndarray:
    """`labels` as an array without repetition, in the order given."""
    labels = np.asarray(to_numpy(labels, name="labels"))
    if labels.ndim != 1 or len(labels) < 2:
        raise ValueError("labels must list at least two classes, one for each column of y_proba.")
    if len(set(labels.tolist())) != len(labels):
        raise ValueError(f"labels has a class twice: {listed(labels)}.")
    return labels


# --- Ordered classes ------------------------------------------------------------------------------


def ordered_categories(y_true: ArrayLike) -> tuple[Label, ...] | None:
    """The categories of an ordered categorical of pandas or an Enum of polars; None for others."""
    dtype: Any = getattr(y_true, "dtype", None)
    if getattr(dtype, "ordered", False) is True or type(dtype).__name__ == "Enum":
        return tuple(np.asarray(dtype.categories).tolist())
    return None


def check_class_order(classes: Classes, categories: Sequence[Label] | None = None) -> None:
    """Raise unless three or more classes of columns are in their order, as far as can be known.

    Numbers rise, and ordered `categories` have the order of the columns. Strings in another order
    than that of the alphabet have been put in order; in that of the alphabet they have probably
    not, unless they end in, or begin with, numbers, Roman numerals or letters that rise.
    """
    names = np.asarray(classes).tolist()
    if len(names) < 3:
        return
    if categories is not None:
        if [category for category in categories if category in names] != names:
            raise ValueError(
                f"The classes have the ordered categories {listed(categories)}, but the columns "
                f"are read as those of {listed(names)}: put the columns in the order of the "
                "categories, and pass labels= with the class of each column, or encode the classes "
                "as whole numbers."
            )
    elif all(isinstance(name, str) for name in names):
        if names == sorted(names) and not _are_counted(names):
            raise ValueError(
                f"The classes {listed(names)} are in alphabetical order, which is hardly their "
                "own: pass labels=[...] from the lowest to the highest class, with the columns in "
                "this order; if the alphabet is right, pass y_true as an ordered categorical or as "
                "whole numbers."
            )
    elif names != sorted(names):
        raise ValueError(
            f"The columns are those of the classes {listed(names)}, which do not rise: put the "
            "columns in the order of the classes, from the lowest to the highest, and pass labels= "
            "with the class of each column."
        )


_NUMERALS = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"]
_COUNTED = (
    (r"()([+-]?\d+)", float),  # -1
    (r"(.*?)(\d+)", float),  # G1, stage 2, 10
    (r"()(\d+)\b.*", float),  # 1 - mild
    (r"((?:.*[\W_])?)([IVX]+)", lambda text: _NUMERALS.index(text)),
    (r"((?:.*[\W_])?)([A-Za-z])", ord),
)


def _are_counted(names):
    """Whether names differ by numbers, Roman numerals or letters that rise."""
    for pattern, rank in _COUNTED:
        parts = [re.fullmatch(pattern, name) for name in names]
        if all(parts) and len({part[1] for part in parts}) == 1:
            texts = [part[2] for part in parts]
            if rank is not float and rank is not ord and not set(texts) <= set(_NUMERALS):
                continue
            return bool(np.all(np.diff([rank(text) for text in texts]) > 0))
    return False


# --- One-hot rows, columns of labels, and draws ---------------------------------------------------


def one_hot(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels (n,) and the classes of the K columns -> float64 array (n, K)."""
    target = np.asarray(y[:, None] == classes[None, :], dtype=np.float64)
    unknown = target.sum(axis=1) == 0
    if unknown.any():
        raise ValueError(
            f"y_true contains {y[unknown].tolist()[0]!r}, which is none of the classes "
            f"{listed(classes)}: pass labels= with the class of each column."
        )
    return target


def column_of_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels (n,) and the classes of the K columns -> the column of each label, (n,)."""
    try:
        return LabelTable.of(y).columns(classes)
    except TypeError:  # labels without an order
        return one_hot(y, classes).argmax(axis=1)


def one_hot_rows(column: np.ndarray, n_columns: int) -> np.ndarray:
    """The columns of labels (n,) -> float64 array (n, n_columns) with a one in each row."""
    target = np.zeros((len(column), n_columns))
    target[np.arange(len(column)), column] = 1
    return target


def is_one_hot(target: np.ndarray) -> bool:
    """Whether all rows of label distributions (n, K) are those of labels."""
    return len(target) == 0 or bool(target.max(axis=1).min() == 1)


def labels_or_shares(target: np.ndarray) -> np.ndarray:
    """Columns of labels (n,) of one-hot targets; other targets and columns as they are."""
    if target.ndim == 1:
        return target
    return target.argmax(axis=1) if is_one_hot(target) else target


def draw_codes(levels: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A column drawn from each row of cumulative probabilities (n, K), never one of probability 0.

    Rows need not end in exactly 1: they are scaled by their last value.
    """
    at = rng.random_sample((len(levels), 1)) * levels[:, -1:]
    return (levels[:, :-1] <= at).sum(axis=1)
