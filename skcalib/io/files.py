"""The public function `read_predictions`, its result `Predictions`, and tables part by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from skcalib._records import Record
from skcalib._values import shown
from skcalib.io._classes import find_event, read_table
from skcalib.io._npz import read_arrays
from skcalib.io._tables import count_csv_rows, count_parquet_rows, csv_blocks, parquet_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from skcalib._types import Label, MatrixLike

#: Readers of tables, block by block, and what counts their rows.
_TABLES = {".csv": (csv_blocks, count_csv_rows), ".parquet": (parquet_blocks, count_parquet_rows)}
SUFFIXES = (".npz", *_TABLES)


@dataclass(frozen=True)
class Predictions(Record):
    """Content of a file of predictions.

    `to_frame` has a row for each sample: ``y_true``; ``y_proba``, or ``y_proba_`` and the class or
    number of each column; and the features, by their names or as ``feature_0``, ``feature_1``, ...

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
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
) -> Predictions:
    """Read labels, probabilities and features from a file.

    Tables are read block by block, so that the text of a file is never in memory as a whole. Text
    is read by the module csv of Python. Parquet needs pyarrow: ``pip install "skcalib[parquet]"``.
    Columns that pandas wrote as the index are ignored in parquet files, with or without a name. If
    one holds labels, call ``reset_index()`` before writing.

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
    sep : str, optional
        The character that separates the cells of a .csv file; by default a comma.
    decimal : {".", ","}, optional
        The decimal mark of a .csv file; by default a point.

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
    suffix, text = _known_suffix(path), text_format(path, sep, decimal)
    if suffix == ".npz":
        if label_column is not None:
            raise ValueError(
                f"A label column ({label_column!r}) is for tables: the labels of {path.name} are "
                "its array y_true or ground_truth."
            )
        if len(features):
            raise ValueError(
                f"Names of features ({', '.join(features)}) are for tables: the features of "
                f"{path.name} are its array X."
            )
        content = Predictions(*read_arrays(path))
        return content if event is None else _with_event(path.name, content, event)
    blocks, _ = _TABLES[suffix]
    roles = {"label_column": label_column, "features": tuple(features), **text}
    *_, table = blocks(path, **roles)  # one that grows
    y_true, y_proba, labels, event = read_table(table, event=event)
    return Predictions(y_true, y_proba, labels, table.feature_frame(), event)


def text_format(path: Path, sep: str | None, decimal: str | None) -> dict[str, str]:
    """The separator and the decimal mark of text, if they are given."""
    if path.suffix.lower() != ".csv":
        if sep is None and decimal is None:
            return {}
        raise ValueError(f"sep and decimal are for .csv files, got {path.name}: leave them out.")
    sep, decimal = "," if sep is None else sep, "." if decimal is None else decimal
    if decimal not in (".", ","):
        raise ValueError(f"decimal must be '.' or ',', got {shown(decimal)}.")
    if not isinstance(sep, str) or len(sep) != 1 or sep in f'"\r\n.{decimal}':
        raise ValueError(f"sep must be one character but the decimal mark, got {shown(sep)}.")
    return {"sep": sep, "decimal": decimal}


def _known_suffix(path):
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path.name} must end in {', '.join(SUFFIXES)}: write its table in one of them, for "
            "example with pandas or polars."
        )
    return suffix


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


# --- Tables that are too large for the memory -----------------------------------------------------


PART = 1 << 22  # numbers of a part of a table


class LateLabelError(ValueError):
    """A label appears after the first part of a table, and changes what its columns mean.

    Its argument is the list of all labels as text, with which `read_parts` can start again.
    """


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
    sep: str | None = None,
    decimal: str | None = None,
) -> Iterator[Predictions]:
    """Yield the predictions of a table part by part, with the same classes in each part.

    Raises `LateLabelError` where the labels of the first part, without ``known``, were not enough.
    """
    blocks, _ = _TABLES[_known_suffix(path)]
    roles = {"label_column": label_column, "known": () if known is None else known}
    roles |= text_format(path, sep, decimal)
    first = None  # classes of the first part
    for table in _filled(blocks(path, **roles)):
        try:
            y_true, y_proba, labels, wanted = read_table(table, event=event)
            if first is not None and labels.tolist() != first:
                raise LateLabelError(table.texts(table.label))
        except ValueError:
            if known is not None:
                raise
            for rest in blocks(path, **roles):
                rest.clear()
            if len(rest.texts(rest.label)) == len(table.texts(table.label)):
                raise
            raise LateLabelError(rest.texts(rest.label)) from None
        first = labels.tolist()
        yield Predictions(y_true, y_proba, labels, None, wanted)


def _filled(blocks):
    """The table whenever it holds the rows of a part, which are removed afterwards."""
    for table in blocks:
        if table.n_held * len(table.header) >= PART:
            yield table
            table.clear()
    if table.n_held:
        yield table
