"""Predictions from files: .npz, .csv and, where pandas and pyarrow are installed, .parquet.

Nothing that a file holds is executed: arrays are loaded without pickle.
"""

import csv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

LABEL_NAMES = ("y_true", "ground_truth", "label", "target", "y")
PROBA_NAMES = ("y_proba", "predictions")
SUFFIXES = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class Predictions:
    """Labels, probabilities and, where the file tells, the class of each column and features."""

    y_true: np.ndarray
    y_proba: np.ndarray
    labels: np.ndarray | None
    features: np.ndarray | None = None


def read_predictions(path, *, label_column=None):
    """Read labels and probabilities from a file.

    Parameters
    ----------
    path : str or path-like
        ``.npz`` with the labels as ``y_true`` or ``ground_truth``, the probabilities as
        ``y_proba`` or ``predictions``, and optionally ``labels``, the class of each column, and
        ``X``, the features. Without ``labels``, whole-number labels are column numbers. ``.csv``
        or ``.parquet`` with a column of labels and one column per class, named by the class, or a
        single column with the probability of the positive class (the last label in order). A first
        column without a name that counts the rows from 0, as pandas writes it, is left out.
    label_column : str, optional
        Name of the column of labels; by default the first of y_true, ground_truth, label, target
        and y that the table has.

    Returns
    -------
    Predictions
        What the file holds, not validated further.

    Raises
    ------
    ValueError
        If the file cannot be read as such, in one sentence.
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
        return content
    return _from_table(path.name, *content, label_column)


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
            f"{path.name} holds Python objects in its array {name!r}, which are never opened, "
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


def _from_table(name, header, columns, label_column):
    if label_column is None:
        label_column = next((wanted for wanted in LABEL_NAMES if wanted in header), None)
    if label_column not in header:
        raise ValueError(
            f"{name} has no column of labels ({', '.join(LABEL_NAMES)}); name it with "
            f"--label-column. Its columns are {', '.join(header)}."
        )
    header, columns = _without_index(header, columns)
    place = header.index(label_column)
    y_true = np.asarray(columns[place]).astype(str)
    classes = [column for k, column in enumerate(header) if k != place]
    try:
        numbers = [np.asarray(c, dtype=float) for k, c in enumerate(columns) if k != place]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers in every column but {label_column!r}: {error}."
        ) from error
    if not classes:
        raise ValueError(f"{name} has no column of probabilities beside {label_column!r}.")
    for column, values in zip(classes, numbers, strict=True):
        if len(classes) > 1 and (values.min() < 0 or values.max() > 1):
            raise ValueError(
                f"{name} has the column {column!r} with values outside [0, 1], which are no "
                "probabilities: keep the labels and one column for each class; features go into "
                "the array X of an .npz file."
            )
    if len(classes) == 1:
        return Predictions(_as_numbers(y_true), numbers[0], None)
    return Predictions(
        y_true, np.column_stack(numbers), _match(name, np.array(classes), np.unique(y_true))
    )


def _without_index(header, columns):
    """Without the row numbers that pandas writes as a first column without a name."""
    if header[0] in ("", "Unnamed: 0", "__index_level_0__"):
        counted = np.arange(len(columns[0])).astype(str)
        if np.array_equal(np.asarray(columns[0]).astype(str), counted):
            return header[1:], columns[1:]
    return header, columns


def _match(name, classes, labels):
    """Column names are classes, as they are or behind a prefix that all share."""
    for prefix in ("", "proba_", "prob_", "p_"):
        if all(column.startswith(prefix) for column in classes):
            names = np.array([column[len(prefix) :] for column in classes])
            if np.isin(labels, names).all():
                return names
    missing = [label for label in labels if label not in classes]
    raise ValueError(
        f"{name} has the label {str(missing[0])!r}, but no column of that name (columns of "
        f"probabilities: {', '.join(classes)})."
    )


def _as_numbers(y_true):
    """Labels 0 and 1 of a text table are numbers, so that the positive class is plain."""
    try:
        return y_true.astype(float)
    except ValueError:
        return y_true
