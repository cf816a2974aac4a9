"""Predictions from files: .npz, .csv and, where pandas and pyarrow are installed, .parquet.

`read_predictions` is the public function, and `Predictions` its result. The readers of the file
formats follow, then the translation of a table into labels and probabilities, where the names of
columns denote classes. No content of a file is executed: arrays are loaded without pickle.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zipfile import BadZipFile

import numpy as np

from skcalib._column_names import forms, is_plain, match_names, read_name

if TYPE_CHECKING:
    from os import PathLike

    from skcalib._arguments import Label

LABEL_NAMES = ("y_true", "ground_truth", "label", "target", "y")
PROBA_NAMES = ("y_proba", "predictions")
SUFFIXES = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class Predictions:
    """Content of a file of predictions.

    ``labels`` has the class of each column, or the negative and the positive class of probabilities
    of shape (n,); None if the file does not name them. ``features`` is None if there are none, and
    ``event`` is the requested class.
    """

    y_true: np.ndarray
    y_proba: np.ndarray
    labels: np.ndarray | None
    features: np.ndarray | None = None
    event: object = None

    def in_order_of(self, labels: np.ndarray | list | None) -> Self:
        """The same predictions with their classes in another order, if the classes are the same."""
        if self.labels is None or labels is None or self.event is not None:
            return self
        order = [k for label in labels for k, own in enumerate(self.labels) if own == label]
        if sorted(order) != list(range(len(self.labels))) or order == sorted(order):
            return self
        turned = self.labels[order]
        if self.y_proba.ndim == 2:
            return replace(self, y_proba=self.y_proba[:, order], labels=turned)
        if self.y_proba.min() < 0 or self.y_proba.max() > 1:
            return self
        return replace(self, y_proba=1 - self.y_proba, labels=turned)


def read_predictions(
    path: str | PathLike[str], *, label_column: str | None = None, event: str | None = None
) -> Predictions:
    """Read labels and probabilities from a file.

    Parameters
    ----------
    path : str or path-like
        ``.npz`` with the labels as ``y_true`` or ``ground_truth``, the probabilities as
        ``y_proba`` or ``predictions``, and optionally ``labels``, the class of each column, and
        ``X``, the features. Without ``labels``, whole-number labels are column numbers. ``.csv`` or
        ``.parquet`` with a column of labels and one column per class, named after the class,
        possibly with a common prefix or suffix, in any letter case. A single column is the
        probability of the class that it names: ``churn``, ``p_churn``, ``churn_proba``,
        ``P(churn)``. A single column that names no class, such as ``p`` or ``y_proba``, is the
        probability of the `event`, which need not be given if labels are 0/1, -1/1 or False/True. A
        first column without a name that numbers the rows from 0, as written by pandas, is ignored.
    label_column : str, optional
        Name of the column of labels; by default the first of y_true, ground_truth, label, target
        and y that the table has, in any letter case.
    event : str, optional
        The class that is the event, of two; a single column for the other class is converted.

    Returns
    -------
    Predictions
        Content of the file. Probabilities are not validated.

    Raises
    ------
    ValueError
        If the file cannot be read in this format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skcalib.io import read_predictions
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "predictions.csv"
    ...     _ = path.write_text("label,p_churn\\nchurn,0.75\\nstay,0.25\\n")
    ...     read = read_predictions(path)
    >>> read.y_proba.tolist(), read.labels.tolist()
    ([0.75, 0.25], ['stay', 'churn'])
    """
    path = Path(path)
    if label_column is not None and path.suffix.lower() == ".npz":
        raise ValueError(
            f"A label column ({label_column!r}) is for tables: the labels of {path.name} are its "
            f"array {' or '.join(LABEL_NAMES[:2])}."
        )
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    readers = dict(zip(SUFFIXES, (_read_npz, _read_csv, _read_parquet), strict=True))
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path.name} must end in {', '.join(readers)}.")
    content = readers[path.suffix.lower()](path)
    if isinstance(content, Predictions):
        return content if event is None else _with_event(path.name, content, event)
    y_true, y_proba, labels, event = read_table(
        path.name, *content, label_column=label_column, event=event
    )
    return Predictions(y_true, y_proba, labels, event=event)


def _with_event(name, predictions, event):
    """Predictions of arrays: a single column has no name and is the probability of the event."""
    classes = predictions.labels
    if classes is None:
        classes = np.unique(predictions.y_true)
    classes = classes.tolist()
    if len(classes) == 1:  # the other class is missing
        other = [0, 1] if classes[0] in (0, 1) else [-1, 1] if classes[0] == -1 else [event]
        classes = [*classes, *(one for one in other if one != classes[0])]
    return replace(predictions, event=classes[find_event(name, event, classes)])


def _read_npz(path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: _read_array(archive, name, path) for name in archive.files}
    except _ObjectsError:
        raise
    except (BadZipFile, ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path.name} is not a readable .npz archive: {error}") from error
    y_true = _first(arrays, LABEL_NAMES[:2], path)
    y_proba = _first(arrays, PROBA_NAMES, path)
    labels = arrays.get("labels")
    if labels is None and y_proba.ndim == 2 and y_true.dtype.kind in "iu" and y_true.size:
        n_columns = y_proba.shape[1]
        if y_true.min() < 0 or y_true.max() >= n_columns:
            raise ValueError(
                f"{path.name} has {n_columns} columns of probabilities, but labels from "
                f"{y_true.min()} to {y_true.max()}: whole-number labels are column numbers, unless "
                "an array `labels` names the class of each column."
            )
        labels = np.arange(n_columns) if n_columns > 1 else None
    return Predictions(y_true, y_proba, labels, arrays.get("X"))


class _ObjectsError(ValueError):
    """An array holds pickled objects."""


def _read_array(archive, name, path):
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise _ObjectsError(
            f"{path.name} has Python objects in its array {name!r}, which are never loaded, "
            "since that can run code: save numbers or strings, for example "
            "np.asarray(values, dtype=str)."
        ) from None


def _first(arrays, names, path):
    for name in names:
        if name in arrays:
            return arrays[name]
    raise ValueError(f"{path.name} has no array {' or '.join(names)}; it has {sorted(arrays)}.")


def _read_csv(path):
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} is not a readable text table: {error}") from error
    if len(rows) < 2:
        raise ValueError(f"{path.name} must have a line of column names and at least one row.")
    header = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise ValueError(
                f"{path.name} has {len(header)} columns, but row {number} has {len(row)} cells."
            )
        empty = next((k for k, cell in enumerate(row) if not cell.strip()), None)
        if empty is not None:
            column = repr(header[empty]) if header[empty] else "without a name"
            raise ValueError(
                f"{path.name} has an empty cell in row {number}, column {column}: fill it, or "
                "leave out the row."
            )
    return header, np.array([[cell.strip() for cell in row] for row in rows[1:]]).T


def _read_parquet(path):
    if find_spec("pandas") is None or find_spec("pyarrow") is None:
        raise ValueError("Reading .parquet needs pandas and pyarrow: install them, or use .csv.")
    import pandas as pd
    from pyarrow import ArrowException

    try:
        frame = pd.read_parquet(path)
    except (ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path.name} is not a readable parquet file: {error}") from error
    return [str(name) for name in frame.columns], [frame[name].to_numpy() for name in frame.columns]


# --- Tables ---------------------------------------------------------------------------------------


def read_table(
    name: str,
    header: list[str],
    columns: np.ndarray,
    *,
    label_column: str | None = None,
    event: str | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Any]:
    """Columns of the table `name` -> labels, probabilities, class of each column, event.

    A single column of probabilities is returned with shape (n,), as the probability of the last
    class, which is the event if one is given. For several columns the event is the class itself.
    """
    for column in header:
        if column and header.count(column) > 1:
            raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
    header, columns = _without_index(header, columns)
    place = _place_of_labels(name, header, label_column)
    label_column = header[place]
    y_true = _labels(name, label_column, columns[place])
    names = [column for k, column in enumerate(header) if k != place]
    if not names:
        raise ValueError(f"{name} has no column of probabilities besides {label_column!r}.")
    numbers = [
        _numbers(name, label_column, column, columns[k])
        for k, column in enumerate(header)
        if k != place
    ]
    if len(names) == 1:
        return _single(name, names[0], y_true, numbers[0], label_column, event)
    return _several(name, names, y_true, np.column_stack(numbers), event)


def find_event(name: str, event: Label, classes: np.ndarray | list) -> int:
    """Index of the class named `event`, in any letter case if the match is unique."""
    if len(classes) > 2:
        raise ValueError(
            f"--event is for two classes, but {name} has {len(classes)}: leave it out."
        )
    for key in (str, str.casefold):
        wanted = {key(form) for form in forms(event)}
        places = [k for k, c in enumerate(classes) if wanted & {key(form) for form in forms(c)}]
        if len(places) == 1:
            return places[0]
    raise ValueError(f"--event {event} is not a class of {name}: its classes are {_and(classes)}.")


# --- Parts of a table -----------------------------------------------------------------------------


def _without_index(header, columns):
    """Drop the row numbers that pandas writes as a first column without a name."""
    if header[0] in ("", "Unnamed: 0", "__index_level_0__"):
        counted = np.arange(len(columns[0])).astype(str)
        if np.array_equal(np.asarray(columns[0]).astype(str), counted):
            return header[1:], columns[1:]
    return header, columns


def _place_of_labels(name, header, label_column):
    wanted = LABEL_NAMES if label_column is None else (label_column,)
    for key in (str, str.casefold):
        keyed = [key(column) for column in header]
        found = [one for one in wanted if keyed.count(key(one)) == 1]
        if found:
            return keyed.index(key(found[0]))
    if label_column is not None:
        raise ValueError(
            f"{name} has no column {label_column!r}; its columns are {', '.join(header)}."
        )
    raise ValueError(
        f"{name} has no column of labels ({', '.join(LABEL_NAMES)}); name it with --label-column. "
        f"Its columns are {', '.join(header)}."
    )


def _labels(name, column, values):
    """Labels as text, or as whole numbers if all of them are whole numbers."""
    values = np.asarray(values)
    if values.dtype.kind in "Of" and any(v is None or bool(v != v) for v in values.tolist()):
        raise ValueError(
            f"{name} has a missing label in the column {column!r}: fill it, or leave out the row."
        )
    text = values.astype(str)
    distinct, which = np.unique(text, return_inverse=True)
    if all(re.fullmatch(r"-?(0|[1-9]\d{0,17})(\.0+)?", label) for label in distinct):
        return np.array([int(float(label)) for label in distinct])[which.ravel()]
    try:
        distinct.astype(float)
    except ValueError:
        return text
    wrong = next(label for label in distinct if not re.fullmatch(r"-?\d+(\.0+)?", label))
    raise ValueError(
        f"{name} has the label {str(wrong)!r} in the column {column!r}: labels of classes are "
        "expected, words or whole numbers."
    )


def _numbers(name, label_column, column, values):
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        cell = next(str(value) for value in values if not _is_number(value))
    advice = ": write 0.45 for 45 %" if cell.endswith("%") else ""
    raise ValueError(
        f"{name} must hold numbers in every column but {label_column!r}, and the column "
        f"{column!r} holds {cell!r}{advice}."
    )


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


# --- One column of probabilities ------------------------------------------------------------------


def _single(name, column, y_true, proba, label_column, event):
    """A single column is the probability of the class that it names."""
    classes = _both(name, column, np.unique(y_true).tolist(), event)
    wanted = None if event is None else find_event(name, event, classes)
    if isinstance(classes[0], str):
        y_true = y_true.astype(str)
    place = _class_of_single(name, column, classes, label_column, wanted)
    if wanted is not None and wanted != place:
        place = wanted
        if proba.min() >= 0 and proba.max() <= 1:  # other values raise an error later
            proba = 1 - proba
    labels = np.array([classes[1 - place], classes[place]])
    return y_true, proba, labels, None if wanted is None else labels[1]


def _both(name, column, observed, event):
    """The two classes of a single column, in order; the rows may contain only one of them."""
    if len(observed) > 2:
        raise ValueError(
            f"{name} has {len(observed)} labels ({_and(observed)}), but one column of "
            f"probabilities, {column!r}: one column for each class is expected, such as "
            f"'p_{observed[0]}'."
        )
    if len(observed) == 2:
        return observed
    (only,) = observed
    for pair in ([0, 1], [-1, 1], ["False", "True"], ["false", "true"], ["FALSE", "TRUE"]):
        if only in pair:
            return pair
    if event is not None and not set(forms(event)) & set(forms(only)):
        return sorted([str(only), event])
    if read_name(column, [only]).kind == "class":
        return [f"not {only}", only] if isinstance(only, str) else [f"not {only}", str(only)]
    raise ValueError(
        f"{name} has only the label {str(only)!r}, and its column of probabilities, {column!r}, "
        "is not named after it: name the other class with --event."
    )


def _class_of_single(name, column, classes, label_column, wanted):
    """Index of the class whose probability a single column holds."""
    reading = read_name(column, classes, default=1 if wanted is None else wanted)
    if reading.kind == "class":
        return reading.place
    first, second = classes
    start = f"{name} has one column of probabilities, {column!r}, which"
    rename = f"rename it 'p_{first}' or 'p_{second}'"
    if reading.kind == "negated":
        raise ValueError(
            f"{start} is named after the opposite of a class: give the probability of one class, "
            f"under a name such as 'p_{second}'."
        )
    if reading.kind == "ambiguous" or reading.mentioned - {wanted}:
        raise ValueError(
            f"{start} does not say clearly whether it is the probability of {first} or of "
            f"{second}: {rename}."
        )
    if wanted is not None:
        return wanted
    after_labels = read_name(column, [label_column]).kind == "class"  # churn, p_churn
    if is_plain(classes) and (reading.kind == "generic" or after_labels):
        return 1
    names = "does not name its class" if reading.kind == "generic" else "names no class"
    raise ValueError(
        f"{start} {names} (classes: {_and(classes)}): {rename}, or choose its class with --event "
        f"{first} or --event {second}."
    )


# --- One column for each class --------------------------------------------------------------------


#: Largest deviation of the sum of a row from 1 that rounding may cause.
ROUNDING = 0.02
_DESCRIBED = 50  # with more classes, messages do not describe the names of single columns
_WHAT_TO_KEEP = (
    "keep the column of labels and one column of probabilities for each class (of two classes, one "
    "is enough); features go into the array X of an .npz file"
)


def _several(name, names, y_true, proba, event):
    """Columns are classes: those of the labels, and classes without samples."""
    observed = np.unique(y_true).tolist()
    reading = match_names(names, observed) or _one_by_one(name, names, observed)
    extra = [k for k, place in enumerate(reading) if isinstance(place, str)]
    _check_extra(name, names, observed, proba, extra)
    labels = [place if isinstance(place, str) else observed[place] for place in reading]
    if not isinstance(observed[0], str) and extra:
        if all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", str(label)) for label in labels):
            labels = [int(label) for label in labels]
        else:
            y_true, labels = y_true.astype(str), [str(label) for label in labels]
    wanted = None if event is None else labels[find_event(name, event, labels)]
    return y_true, proba, np.array(labels), wanted


def _one_by_one(name, names, observed):
    """Classes of columns with names of different forms; raises if a column names no class."""
    missing = observed[0]
    if max(len(names), len(observed)) <= _DESCRIBED:
        readings = [read_name(column, observed) for column in names]
        places = [reading.place for reading in readings]
        if sorted(p for p in places if p is not None) == list(range(len(names))):
            return places
        claims = [
            {reading.place} - {None} or (reading.mentioned if reading.kind == "unknown" else set())
            for reading in readings
        ]
        others = [
            column
            for column, reading, claim in zip(names, readings, claims, strict=True)
            if reading.kind != "ambiguous" and len(claim) != 1
        ]
        claimed = [place for claim in claims for place in claim]
        if 0 < len(others) < len(names):
            raise ValueError(
                f"{name} has {_strangers(others)} (labels: {_and(observed)}): {_WHAT_TO_KEEP}."
            )
        twice = [k for k in range(len(observed)) if claimed.count(k) > 1]
        if twice:
            both = [names[k] for k, claim in enumerate(claims) if twice[0] in claim]
            raise ValueError(
                f"{name} has {len(both)} columns for the class {str(observed[twice[0]])!r}, "
                f"{_and(both)}: keep one of them, or a file for each model."
            )
        missing = next((c for k, c in enumerate(observed) if k not in claimed), missing)
    raise ValueError(
        f"{name} has the label {str(missing)!r}, but no column of that name, such as "
        f"'p_{missing}' (columns of probabilities: {_and(names)})."
    )


def _check_extra(name, names, observed, proba, extra):
    """Raise for additional columns unless they can be probabilities of classes without samples."""
    outside = [k for k in extra if proba[:, k].min() < 0 or proba[:, k].max() > 1]
    if outside:
        raise ValueError(
            f"{name} has {_strangers([names[k] for k in outside], ' with values outside [0, 1]')} "
            f"(labels: {_and(observed)}): {_WHAT_TO_KEEP}."
        )
    totals = proba.sum(axis=1)
    off = np.abs(totals - 1)
    if extra and off.max() > ROUNDING:
        raise ValueError(
            f"{name} has {_strangers([names[k] for k in extra])} (labels: {_and(observed)}), and a "
            f"row of probabilities that sums to {totals[off.argmax()]:.3g}: {_WHAT_TO_KEEP}."
        )


def _strangers(names, what=""):
    """Columns that name no class, for a message."""
    quoted = _and([repr(name) if name else "without a name" for name in names])
    if len(names) == 1:
        return f"the column {quoted}{what}, which is not named after a label"
    return f"the columns {quoted}{what}, which are not named after labels"


def _and(words, limit=8):
    """Words for a message, abbreviated if there are many."""
    words = [str(word) for word in words]
    if len(words) > limit:
        return f"{', '.join(words[:limit])}, ... ({len(words)} in all)"
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])
