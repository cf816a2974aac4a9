"""The public function `read_predictions`, its result `Predictions`, and arrays in .npz files."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from skcalib._records import Record
from skcalib.io._classes import find_event, read_table
from skcalib.io._csv import count_csv_rows, csv_blocks
from skcalib.io._npz import read_arrays
from skcalib.io._parquet import count_parquet_rows, parquet_blocks
from skcalib.io._table import LABEL_NAMES, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from pandas import DataFrame

    from skcalib._types import Label, MatrixLike

PROBA_NAMES = ("y_proba", "predictions")
#: Readers of tables, block by block, and what counts their rows.
_TABLES = {
    ".csv": (csv_blocks, count_csv_rows),
    ".parquet": (parquet_blocks, count_parquet_rows),
}
SUFFIXES = (".npz", *_TABLES)


@dataclass(frozen=True)
class Predictions(Record):
    """Content of a file of predictions.

    Attributes
    ----------
    y_true : ndarray of shape (n_samples,)
        Labels: whole numbers, or text.
    y_proba : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Probability of the second class, or of each class.
    labels : ndarray of shape (n_classes,) or None
        The class of each column, or both classes of `y_proba` of shape (n_samples,); None if the
        file does not name them.
    features : ndarray, data frame or None
        Features; None if there are none.
    event : label or None
        The requested class.

    See Also
    --------
    read_predictions : Read them from a file.
    """

    y_true: np.ndarray
    y_proba: np.ndarray
    labels: np.ndarray | None
    features: MatrixLike = None
    event: Label = None

    _beside = ("labels", "event")

    def _columns(self):
        columns = {"y_true": self.y_true}
        if self.y_proba.ndim == 1:
            columns["y_proba"] = self.y_proba
        else:
            labels = range(self.y_proba.shape[1]) if self.labels is None else self.labels
            for label, proba in zip(labels, self.y_proba.T, strict=True):
                columns[f"y_proba_{label}"] = proba
        if self.features is None:
            return columns
        features = self.features
        if not hasattr(features, "columns"):
            features = {f"feature_{j}": one for j, one in enumerate(np.transpose(features))}
        names = getattr(features, "columns", features)
        return columns | {name: np.asarray(features[name]) for name in names}

    def to_frame(self) -> DataFrame:
        """One row per sample; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Columns: ``y_true``; ``y_proba``, or ``y_proba_`` and the class or number of each
            column; and the features, by their names or as ``feature_0``, ``feature_1``, ...
        """
        return super().to_frame()

    def in_order_of(self, labels: np.ndarray | list | None) -> Self:
        """The same predictions with their classes in another order, if the classes are the same.

        Parameters
        ----------
        labels : array-like of shape (n_classes,) or None
            Classes in the order wanted.

        Returns
        -------
        Predictions
            The predictions; unchanged if `labels` are other classes, or if there is an event.
        """
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
    path: str | PathLike[str],
    *,
    label_column: str | None = None,
    event: str | None = None,
    features: Sequence[str] = (),
) -> Predictions:
    """Read labels, probabilities and features from a file.

    Tables are read block by block. Only the arrays of the result and one block of the file are in
    memory, so a file may be larger than the memory. In parquet files, columns that pandas wrote as
    the index are ignored, with or without a name. If one holds labels, call ``reset_index()``
    before writing. Parquet needs pyarrow or polars. Text is parsed by pandas or polars, where one
    of them is installed, and otherwise by numpy, with equal results.

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
        The class, of two, that is the event; a single column for the other class is converted.
    features : sequence of str, default=()
        Names of columns of a table that are features. They hold numbers, or text, which is read as
        categories; cells may be empty. The result is a data frame of pandas or, without pandas, of
        polars. Without both it is an array, of numbers only.

    Returns
    -------
    Predictions
        Content of the file. Probabilities are not validated.

    Raises
    ------
    ValueError
        If the file cannot be read in this format.

    See Also
    --------
    skcalib.CalibrationReport.from_predictions : Report on the predictions.

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
    if isinstance(features, str):
        raise ValueError(
            f"features must be a sequence of names of columns, such as [{features!r}], got "
            f"{features!r}."
        )
    if label_column is not None and path.suffix.lower() == ".npz":
        raise ValueError(
            f"A label column ({label_column!r}) is for tables: the labels of {path.name} are its "
            f"array {' or '.join(LABEL_NAMES[:2])}."
        )
    if len(features) and path.suffix.lower() == ".npz":
        raise ValueError(
            f"Names of features ({', '.join(features)}) are for tables: the features of "
            f"{path.name} are its array X."
        )
    suffix = _known_suffix(path)
    if suffix == ".npz":
        content = _read_npz(path)
        return content if event is None else _with_event(path.name, content, event)
    blocks, _ = _TABLES[suffix]
    grown = blocks(path, label_column=label_column, features=tuple(features))
    (table,) = deque(grown, maxlen=1)  # after the last block
    y_true, y_proba, labels, event = read_table(table, event=event)
    return Predictions(y_true, y_proba, labels, table.feature_frame(), event)


def _known_suffix(path):
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path.name} must end in {', '.join(SUFFIXES)}.")
    return suffix


# --- Tables that are too large for the memory -----------------------------------------------------


PART = 1 << 22  # numbers of a part of a table


class LateLabelError(ValueError):
    """A label appears after the first part of a table, and changes what its columns mean.

    ``known`` are the texts of all labels, with which `read_parts` can start again.
    """

    def __init__(self, known: list[str]) -> None:
        super().__init__(known)
        self.known = known


def count_rows(path: Path) -> int:
    """About how many rows a table has; 0 for arrays, which cannot be read part by part."""
    _, count = _TABLES.get(_known_suffix(path), (None, None))
    return 0 if count is None else count(path)


def read_parts(
    path: Path,
    *,
    label_column: str | None = None,
    event: str | None = None,
    known: Sequence[str] | None = None,
) -> Iterator[Predictions]:
    """Yield the predictions of a table part by part, with the same classes in each part.

    Raises `LateLabelError` where the labels of the first part, without ``known``, were not enough.
    """
    blocks, _ = _TABLES[_known_suffix(path)]
    roles = {"label_column": label_column, "known": () if known is None else known}
    first = None  # part
    for table in blocks(path, **roles):
        if table.n_held * len(table.header) < PART:
            continue
        try:
            part = _part(table, event, first)
        except ValueError:
            if known is not None:
                raise
            labels = _all_labels(blocks(path, **roles))
            if len(labels) == len(table.labels()[0]):
                raise
            raise LateLabelError(labels) from None
        first = part if first is None else first
        yield part
        table.clear()
    if table.n_held:
        yield _part(table, event, first)


def _part(table, event, first):
    """The rows that a table holds; raises `LateLabelError` for classes unlike those of `first`."""
    y_true, y_proba, labels, wanted = read_table(table, event=event)
    if first is not None and labels.tolist() != first.labels.tolist():
        raise LateLabelError(table.labels()[0])
    return Predictions(y_true, y_proba, labels, None, wanted)


def _all_labels(blocks):
    """Texts of the labels of a table, which is read to its end."""
    for table in blocks:
        table.clear()
    return table.labels()[0]


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
    wanted = (*LABEL_NAMES[:2], *PROBA_NAMES, "labels", "X")
    arrays, members = read_arrays(path, wanted)
    y_true = _first(arrays, LABEL_NAMES[:2], path, members)
    y_proba = _first(arrays, PROBA_NAMES, path, members)
    labels = arrays.get("labels")
    if y_true.ndim == 0 or y_proba.ndim == 0:
        raise ValueError(
            f"{path.name} has a single number in place of labels or probabilities: arrays with an "
            "entry for each sample are expected."
        )
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


def _first(arrays, names, path, members):
    for name in names:
        if name in arrays:
            return arrays[name]
    has = shortened(", ".join(members) or "none", 1000)
    raise ValueError(f"{path.name} has no array {' or '.join(names)}; its arrays: {has}.")
