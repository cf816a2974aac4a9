"""The class of each column of forecasts, from the arguments and the names of the columns."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import refuse_frames_to_fetch
from skcalib.data.clusters import outside_level
from skcalib.data.column_names import (
    is_numbering,
    is_same_label,
    is_same_score,
    match_names,
    plain_event,
    read_name,
)
from skcalib.data.labels import check_classes, listed, unique_labels

_READ_ONE_BY_ONE = 20  # up to this number, column names are also read one by one
#: The form of `ColumnNames` in JSON.
NAMES_FORM = {"label": (None, str), "score": (None, str)}


@dataclass(frozen=True)
class ColumnNames:
    """Names of the labels and of the single column of scores of some samples; None if unknown."""

    label: str | None = None
    score: str | None = None

    @classmethod
    def of(cls, y_true: ArrayLike, y_proba: ArrayLike) -> Self:
        """The names of Series, or of frames of one column; numbers are no names."""
        label, score = _name_of_single(y_true), _name_of_single(y_proba)
        return cls(
            None if isinstance(label, int) else label, None if isinstance(score, int) else score
        )

    @classmethod
    def known_of(cls, estimator: object) -> Self:
        """The names that a sketch, a test or a monitor has stored."""
        return cls(getattr(estimator, "label_name_", None), getattr(estimator, "score_name_", None))

    def store(self, estimator: object) -> None:
        """Store the names as the attributes `label_name_` and `score_name_`."""
        vars(estimator).update(label_name_=self.label, score_name_=self.score)

    def difference(self, other: ColumnNames, classes: ArrayLike) -> tuple[str, str, str] | None:
        """What differs, "labels" or "scores", and both names; None if nothing differs."""
        before, new = self.label, other.label
        if before is not None and new is not None and not is_same_label(before, new):
            return "labels", before, new
        before, new = self.score, other.score
        classes = np.asarray(classes).tolist()
        if before is None or new is None or is_same_score(before, new, classes):
            return None
        return "scores", before, new

    def joined(self, other: ColumnNames, classes: np.ndarray, *, merged: bool = False) -> Self:
        """The names of these samples and of others; raises if they differ.

        With `merged` the samples are those of two sketches, and otherwise new ones that are added.
        """
        difference = self.difference(other, classes)
        if difference is None:
            return type(self)(self.label or other.label, self.score or other.score)
        column, before, new = difference
        if merged:
            said = f"The {column} of the two sketches are named {before!r} and {new!r}"
            remedy = f"set {column[:-1]}_name_ of both sketches to one name"
        else:
            argument = "y_true" if column == "labels" else "y_proba"
            said = f"{argument} is named {new!r}, and the {column} of the samples before {before!r}"
            remedy = "pass an array, which has no name"
        raise ValueError(f"{said}: if these are the same {column}, {remedy}.")


def classes_of_columns(
    y: np.ndarray,
    y_proba: ArrayLike | None,
    n_columns: int,
    *,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    name: str = "y_proba",
    remedy: Literal["pos_label", "labels"] | None = "pos_label",
    categories: tuple[Any, ...] | None = None,
) -> np.ndarray:
    """The class of each column, from the arguments and the names of the columns.

    A single column that names a class holds its probability. `labels` and `pos_label` decide
    where the name does not, and must not contradict it. Names of several columns must not
    contradict the order of `labels` or of the sorted classes, and may name classes that `y` lacks.
    Ordered `categories` in another order give a warning, unless an argument or a name decides.
    """
    column = _name_of_single(y_proba) if n_columns == 1 else None
    if column is None:
        from_names = _classes_from_names(y, y_proba, n_columns) if labels is None else None
        known = labels if from_names is None else from_names
        classes = check_classes(y, n_columns, labels=known, pos_label=pos_label, name=name)
        if n_columns == 1 and labels is None and pos_label is None and plain_event(classes) == 0:
            raise _unclear("has no name", classes, name, remedy)  # "YES" sorts before "no"
        if labels is None and n_columns > 1:
            check_order(y_proba, classes, name)
            _check_numbers(y_proba, classes, name)
        elif n_columns > 1 and not _are_default_names(y_proba):
            check_order(y_proba, classes, name, remedy="array")
        if categories is not None and labels is None and pos_label is None:
            _warn_of_categories(categories, classes, y_proba, name)
        return classes
    by_argument = labels is not None or pos_label is not None
    if not by_argument:
        only = unique_labels(y)
        if len(only) == 1 and not isinstance(column, int):
            named = isinstance(only[0], (str, bytes)) and read_name(column, only).kind == "class"
            pos_label = only.tolist()[0] if named else None
    classes = check_classes(y, 1, labels=labels, pos_label=pos_label, name=name)
    return _classes_by_name(column, classes, name, by_argument=by_argument, remedy=remedy)


def _warn_of_categories(categories, classes, y_proba, name):
    """Warn if columns without names are read in another order than that of ordered categories."""
    names = classes.tolist()
    in_order = [category for category in categories if category in names]
    if names == in_order or not _are_default_names(y_proba):
        return
    warnings.warn(
        f"y_true has the ordered categories {listed(in_order)}, but {name} has no names of "
        f"columns, so its columns are read as those of {listed(names)}, the sorted classes, as in "
        "scikit-learn: pass labels= with the class of each column.",
        UserWarning,
        stacklevel=outside_level(),
    )


def check_column_names(y_proba: ArrayLike, classes: np.ndarray, name: str) -> None:
    """Raise if names of columns contradict the known classes."""
    refuse_frames_to_fetch(y_proba, name)
    columns = getattr(y_proba, "columns", None)
    column = _name_of_single(y_proba) if columns is None or len(columns) == 1 else None
    if column is None:
        check_order(y_proba, classes, name, remedy=None)
    elif len(classes) == 2:
        _classes_by_name(column, classes, name, by_argument=True, remedy=None)


def _classes_by_name(column, classes, name, *, by_argument, remedy):
    """Two classes; the class of a single column of probabilities comes last.

    `by_argument`: the order of `classes` comes from arguments, not from sorted labels.
    """
    if isinstance(column, int):  # the column of another frame, or the number of the only column
        if by_argument or column != classes[0]:
            return classes
        raise _unclear(f"is number {column}", classes, name, remedy)
    reading = read_name(column, classes, default=1)
    if reading.kind == "class":
        if by_argument and reading.place == 0:
            named, last = classes.tolist()
            advice = {
                None: f"pass the probabilities of {last!r}",
                "labels": f"pass labels={[last, named]!r}",
                "pos_label": f"pass pos_label={named!r} (and no labels=)",
            }[remedy]
            raise ValueError(
                f"The column of {name} is named {column!r}, so it is the probability of "
                f"{named!r}, but it would be read as that of {last!r}: {advice}, or an array, "
                "which has no names."
            )
        return classes[::-1] if reading.place == 0 else classes
    if 0 in reading.mentioned or (reading.kind == "ambiguous" and reading.mentioned):
        raise _unclear(f"is named {column!r}", classes, name, None)
    if by_argument or (plain_event(classes) == 1 and reading.kind in ("generic", "unknown")):
        return classes
    raise _unclear(f"is named {column!r}", classes, name, remedy)


def _unclear(reason, classes, name, remedy):
    """The error for a single column whose class is unknown."""
    first, second = classes.tolist()
    advice = {
        None: f"rename it after one of them, such as 'p_{second}'",
        "labels": f"pass labels={[first, second]!r} or labels={[second, first]!r}, with its class "
        "last",
        "pos_label": f"pass pos_label={first!r} or pos_label={second!r}",
    }[remedy]
    return ValueError(
        f"The column of {name} {reason}, which does not say whether it is the probability of "
        f"{first!r} or of {second!r}: {advice}."
    )


def _name_of_single(y_proba):
    """The name of a Series or of the only column of a frame, or None.

    Default names of libraries are ignored: the column numbers of a pandas frame, ``column_0`` of
    polars. The number of a Series is kept as a whole number: it may be one of several columns.
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


def check_order(
    y_proba: ArrayLike | None,
    classes: np.ndarray,
    name: str,
    *,
    remedy: Literal["labels", "array"] | None = "labels",
) -> None:
    """Raise if the columns of a data frame are named after the classes in another order."""
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
        follow, advice = {
            "labels": (
                "columns follow the sorted classes",
                "pass labels= with the class of each column, or reorder them",
            ),
            "array": (
                "labels is",
                "list the classes in the order of the columns, or pass an array, "
                "which has no names",
            ),
            None: ("columns follow the classes", "reorder them"),
        }[remedy]
        raise ValueError(
            f"The columns of {name} are named {listed(columns)}, but {follow} {listed(expected)}: "
            f"{advice}."
        )


def _check_numbers(y_proba, classes, name):
    """Raise if the columns of a data frame are numbered, and classes have other numbers."""
    columns = list(getattr(y_proba, "columns", ()))
    expected = classes.tolist()
    if (
        len(columns) != len(expected)
        or classes.dtype.kind not in "iuf"
        or not is_numbering(columns)
    ):
        return
    first = int(re.search(r"\d+$", str(columns[0]).strip())[0])
    counted = list(range(first, first + len(columns)))
    if expected[0] == first and expected != counted:
        raise ValueError(
            f"The columns of {name} are named {listed(columns)}, but y_true has the classes "
            f"{listed(expected)}: pass labels= with the class of each column."
        )


def _classes_from_names(y, y_proba, n_columns):
    """Classes of named columns, sorted, where some have no sample; None if names do not decide."""
    columns = getattr(y_proba, "columns", None)
    if columns is None or n_columns < 2 or _are_default_names(y_proba):
        return None
    known = unique_labels(y)
    if len(known) >= n_columns:
        return None
    reading = match_names(list(columns), known.tolist())
    if reading is None:
        return None
    missing = [place for place in reading if isinstance(place, str)]
    if known.dtype.kind == "b":
        return np.array([False, True])
    if known.dtype.kind in "iuf":
        if not all(re.fullmatch(r"-?\d{1,18}(\.0)?", name) for name in missing):
            return None
        missing = [int(float(name)) for name in missing]
    elif not all(isinstance(label, str) for label in known.tolist()):
        return None
    return np.unique(np.array([*known.tolist(), *missing], dtype=known.dtype.type))


def _are_default_names(y_proba):
    """Whether the columns of a data frame have the names that a library gives by itself."""
    columns = getattr(y_proba, "columns", ())
    if type(columns).__name__ == "RangeIndex":  # of pandas; a list of numbers is no such index
        return list(columns) == list(range(len(columns)))
    return list(columns) == [f"column_{k}" for k in range(len(columns))]
