"""Predictions from files: .npz, .csv and, where pandas and pyarrow are installed, .parquet.

Nothing that a file holds is executed: arrays are loaded without pickle.
"""

import csv
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from skcalib._tables import LABEL_NAMES, find_event, read_table

PROBA_NAMES = ("y_proba", "predictions")
SUFFIXES = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class Predictions:
    """What a file holds.

    ``labels`` has the class of each column, and the negative and the positive class of
    probabilities of shape (n,); None where the file does not say it. ``features`` are None where
    there are none, and ``event`` is the class that was asked for.
    """

    y_true: np.ndarray
    y_proba: np.ndarray
    labels: np.ndarray | None
    features: np.ndarray | None = None
    event: object = None

    def in_order_of(self, labels):
        """The same predictions with their classes in another order, where these are the same."""
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


def read_predictions(path, *, label_column=None, event=None):
    """Read labels and probabilities from a file.

    Parameters
    ----------
    path : str or path-like
        ``.npz`` with the labels as ``y_true`` or ``ground_truth``, the probabilities as
        ``y_proba`` or ``predictions``, and optionally ``labels``, the class of each column, and
        ``X``, the features. Without ``labels``, whole-number labels are column numbers. ``.csv``
        or ``.parquet`` with a column of labels and one column per class, named by the class, as
        it is or with a prefix or suffix that all of them share, in any letter case. A single
        column is the probability of the class that it names: ``churn``, ``p_churn``,
        ``churn_proba``, ``P(churn)``. A single column that names no class, such as ``p`` or
        ``y_proba``, is the probability of the `event`, which need not be given where labels are
        0/1, -1/1 or False/True. A first column without a name that counts the rows from 0, as
        pandas writes it, is left out.
    label_column : str, optional
        Name of the column of labels; by default the first of y_true, ground_truth, label, target
        and y that the table has, in any letter case.
    event : str, optional
        The class that is the event, of two; a single column that names the other class is turned.

    Returns
    -------
    Predictions
        What the file holds. Probabilities are not validated further.

    Raises
    ------
    ValueError
        If the file cannot be read as such, in one sentence.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skcalib.reading import read_predictions
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
    """Predictions of arrays: a single column, which has no name, is the one of the event."""
    classes = predictions.labels
    if classes is None:
        classes = np.unique(predictions.y_true)
    classes = classes.tolist()
    if len(classes) == 1:  # a class that no row has
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
