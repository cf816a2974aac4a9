"""The public function `read_predictions`, its result `Predictions`, and tables part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from zipfile import ZipFile

import numpy as np

from skcalib._util.files import words_of
from skcalib._util.messages import shown
from skcalib._util.packing import RefusedMemberError, read_member
from skcalib._util.records import Record
from skcalib._util.types import Label, MatrixLike
from skcalib._util.validation import is_outside
from skcalib.data.column_names import LABEL_NAMES
from skcalib.io import roles
from skcalib.io.tables import COMPRESSED, Table, count_rows, read_blocks

if TYPE_CHECKING:
    from os import PathLike

_TABLES = (".csv", ".parquet")
SUFFIXES = (".npz", *_TABLES)
PART = 1 << 22  # numbers of a part of a table


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
    note : str
        Which columns of a table were taken as labels and probabilities, and why; which as features,
        and which are not used. Empty for arrays, and for tables whose columns leave no choice.
    label_column, score_column : str or None
        Names of the column of labels of a table, and of its only column of probabilities.

    See Also
    --------
    read_predictions : Read them from a file.
    """

    y_true: np.ndarray
    y_proba: np.ndarray
    labels: np.ndarray | None
    features: MatrixLike = None
    event: Label = None
    note: str = ""
    label_column: str | None = None
    score_column: str | None = None

    _beside = ("labels", "event", "note", "label_column", "score_column")

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
            features = {f"feature_{j}": column for j, column in enumerate(np.transpose(features))}
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
        order = [k for label in labels for k, name in enumerate(self.labels) if name == label]
        if sorted(order) != list(range(len(self.labels))) or order == sorted(order):
            return self
        turned = self.labels[order]
        if self.y_proba.ndim == 2:
            return replace(self, y_proba=self.y_proba[:, order], labels=turned)
        if is_outside(self.y_proba.min(), self.y_proba.max()):
            return self
        return replace(self, y_proba=1 - self.y_proba, labels=turned)


def read_predictions(
    path: str | PathLike[str],
    *,
    label_column: str | None = None,
    score_column: str | None = None,
    event: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
) -> Predictions:
    """Read labels, probabilities and features from a file, or from the files of one table.

    Tables are read block by block, so that the text of a file is never in memory as a whole. Text
    is read by the module csv of Python. Parquet needs narwhals, and pyarrow or polars:
    ``pip install "skcalib[parquet]"``.

    Names decide what a column is, and otherwise the values of the first 2,000 rows. ``note`` of the
    result states what was taken, and why. Where two columns or more are left, an error has the
    arguments that choose each of them.

    The labels are ``y_true`` or ``ground_truth``, or the column with the name of an outcome, such
    as label, target, y, class, event, outcome, churned, died, survived or default, also beside
    words such as is or flag, whose values can be labels. Without such a name they are the only
    column whose values are named by other columns, or the only one with two values, whatever these
    are. Names of identifiers and forecasts, dates, and columns that have another role do not count.
    With an `event` the labels are the column that has this class.

    The score of two classes is the column with the name of a class or of a forecast, such as
    p_churn, score or model_proba, or else the only column of values in [0, 1] that are not all
    whole. Columns that are left over are features. Columns with another text or whole number in
    each row identify the rows and are not used.

    Parameters
    ----------
    path : str or path-like
        ``.npz`` with the labels as ``y_true`` or ``ground_truth``, the probabilities as
        ``y_proba`` or ``predictions``, and optionally ``labels``, the class of each column, and
        ``X``, the features. Without ``labels``, whole-number labels are column numbers. ``.csv`` or
        ``.parquet`` with a column of labels and one column per class, named after the class,
        possibly with a common prefix or suffix, in any letter case. A single column is the
        probability of the class that it names: ``churn``, ``p_churn``, ``churn_proba``. One that
        names no class is that of the `event`, which need not be given if labels are 0/1, -1/1,
        False/True or no/yes, and the column is called ``p`` or ``score``, or after the labels, as
        ``p_churn`` beside ``churned``. A first column without a name that numbers the rows from
        0, as written by pandas, is ignored. Text may be compressed: ``.csv.gz``, ``.csv.bz2`` or
        ``.csv.xz``. A folder, or a pattern such as ``part-*.csv``, stands for files with the same
        columns, in the order of their names.
    label_column : str, optional
        Name of the column of labels, in any letter case; by default found by names or values.
    score_column : str, optional
        Name of the only column of probabilities; others may have values in [0, 1], too.
    event : str, optional
        The class, of two, that is the event; a single column for the other class is converted.
    features : sequence of str, optional
        Names of columns of a table that are features. They hold numbers or text; cells may be
        empty. The result is a data frame of pandas or, without pandas, of polars. Without both it
        is an array, of numbers only. Default: the columns left over.
    ignore : sequence of str, default=()
        Names of columns that are not used.
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
        If the file cannot be read in this format, or if several columns may be the labels or the
        probability. For a first line of text that holds a row in place of names, and names that are
        repeated. For labels that look like a missing value, a total, or two spellings of one. If
        the only probability looks like that of the predicted class.

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
    read, _ = read_files(
        Path(path),
        label_column=label_column,
        score_column=score_column,
        event=event,
        features=features,
        ignore=ignore,
        sep=sep,
        decimal=decimal,
    )
    return read


@dataclass(frozen=True)
class FileRows:
    """The rows of a file among those of its table."""

    path: Path
    rows: slice


def read_files(
    path: Path,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
    event: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    sep: str | None = None,
    decimal: str | None = None,
) -> tuple[Predictions, list[FileRows]]:
    """As `read_predictions`, and the rows of each file."""
    for name, value in {"features": features, "ignore": ignore}.items():
        if isinstance(value, str):
            raise ValueError(
                f"{name} must be a sequence of names of columns, such as [{value!r}], got "
                f"{value!r}."
            )
    paths, suffix = _files_of(path)
    text = _text_format(path, suffix, sep, decimal)
    if suffix == ".npz":
        if label_column is not None or score_column is not None:
            raise ValueError(
                f"A label column or score column ({label_column or score_column!r}) is for tables: "
                f"{path.name} has the arrays y_true (or ground_truth) and y_proba (or predictions)."
            )
        if features or len(ignore):
            raise ValueError(
                f"Names of columns ({', '.join([*(features or ()), *ignore])}) are for tables: the "
                f"features of {path.name} are its array X."
            )
        content = _read_arrays(path)
        content = content if event is None else _with_event(path.name, content, event)
        return content, [FileRows(path, slice(None))]
    *_, table = read_blocks(
        paths,
        label_column=label_column,
        score_column=score_column,
        features=features,
        ignore=ignore,
        event=event,
        **text,
    )
    starts = [start for _, start in table.files]
    stops = [*starts[1:], table.n_rows]
    files = [
        FileRows(file, slice(start, stop))
        for (file, start), stop in zip(table.files, stops, strict=True)
    ]
    return _predictions(table, event, table.feature_frame()), files


def _text_format(path, suffix, sep, decimal):
    """The separator and the decimal mark of text, if they are given."""
    if suffix != ".csv":
        if sep is None and decimal is None:
            return {}
        raise ValueError(f"sep and decimal are for .csv files, got {path.name}: leave them out.")
    sep, decimal = "," if sep is None else sep, "." if decimal is None else decimal
    if decimal not in (".", ","):
        raise ValueError(f"decimal must be '.' or ',', got {shown(decimal)}.")
    if not isinstance(sep, str) or len(sep) != 1 or sep in f'"\r\n.{decimal}':
        raise ValueError(f"sep must be one character but the decimal mark, got {shown(sep)}.")
    return {"sep": sep, "decimal": decimal}


def suffix_of(path: Path) -> str:
    """The suffix of the format: that before the suffix of a compressed file."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = len(suffixes) > 1 and suffixes[-1] in COMPRESSED and suffixes[-2] == ".csv"
    return ".csv" if compressed else "".join(suffixes[-1:])


def name_of(path: Path) -> str:
    """The name of a file without its suffixes."""
    return path.name[: path.name.lower().rfind(suffix_of(path))]


def _files_of(path):
    """The files of a table: one, those of a folder, or those that a pattern matches; the suffix."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if suffix_of(file) in _TABLES)
    else:
        files = sorted(path.parent.glob(path.name)) if set(path.name) & set("*?[") else []
    if not files and path.is_dir():
        raise ValueError(f"{path} has no file that ends in {' or '.join(_TABLES)}.")
    if not files:
        raise ValueError(f"{path} is not a file.")
    suffixes = {suffix_of(file) for file in files}
    if not suffixes <= set(SUFFIXES):
        raise ValueError(
            f"{path.name} must end in {', '.join(SUFFIXES)}: write its table in one of them, for "
            "example with pandas or polars."
        )
    if len(files) > 1 and (len(suffixes) > 1 or ".npz" in suffixes):
        raise ValueError(
            f"{path} stands for {len(files)} files with the endings {', '.join(sorted(suffixes))}: "
            "the files of one table are all .csv or all .parquet."
        )
    return files, suffixes.pop()


# --- Arrays ---------------------------------------------------------------------------------------


def _read_arrays(path):
    """The predictions in an .npz archive, without pickle and only after headers are checked."""
    arrays = {}
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            for name in (*LABEL_NAMES, "y_proba", "predictions", "labels", "X"):
                same = [member for member in members if member.filename in (name, f"{name}.npy")]
                if len(same) > 1:
                    raise RefusedMemberError(f"has two arrays {name!r}: keep one of them.")
                if same:
                    arrays[name] = read_member(archive, same[0], path.stat().st_size)
    except RefusedMemberError as error:
        raise ValueError(f"{path.name} {error}") from None
    except MemoryError as error:
        raise ValueError(f"{path.name} does not fit into memory: {error}") from error
    except Exception as error:  # of many types: damaged bytes reach zipfile, zlib and numpy
        said = words_of(error)
        raise ValueError(f"{path.name} is not a readable .npz archive: {said}.") from error
    chosen = []
    for names in (LABEL_NAMES, ("y_proba", "predictions")):
        known = [name for name in names if name in arrays]
        if not known:
            has = ", ".join(sorted(member.filename.removesuffix(".npy") for member in members))
            raise ValueError(
                f"{path.name} has no array {' or '.join(names)}; its arrays: "
                f"{roles.shortened(has or 'none', 1000)}."
            )
        chosen.append(arrays[known[0]])
    y_true, y_proba = chosen
    if y_true.ndim == 0 or y_proba.ndim == 0:
        raise ValueError(
            f"{path.name} has a single number in place of labels or probabilities: arrays with an "
            "entry for each sample are expected."
        )
    labels = arrays["labels"] if "labels" in arrays else _numbers(path.name, y_true, y_proba)
    return Predictions(y_true, y_proba, labels, arrays.get("X"))


def _numbers(name, y_true, y_proba):
    """The numbers of the columns, if these are the labels; None if they need not be."""
    if y_proba.ndim != 2 or y_true.dtype.kind not in "iu" or not y_true.size:
        return None
    n_columns = y_proba.shape[1]
    if y_true.min() < 0 or y_true.max() >= n_columns:
        raise ValueError(
            f"{name} has {n_columns} columns of probabilities, but labels from {y_true.min()} to "
            f"{y_true.max()}: whole-number labels are column numbers, unless an array `labels` "
            "names the class of each column."
        )
    return np.arange(n_columns) if n_columns > 1 else None


def _with_event(name, predictions, event):
    """Predictions of arrays: a single column has no name and is the probability of the event."""
    classes = predictions.labels
    if classes is None:
        classes = np.unique(predictions.y_true)
    classes = classes.tolist()
    if len(classes) == 1:  # the other class is missing
        pair = [0, 1] if classes[0] in (0, 1) else [-1, 1] if classes[0] == -1 else [event]
        classes = [*classes, *(label for label in pair if label != classes[0])]
    return replace(predictions, event=classes[roles.find_event(name, event, classes)])


# --- Tables ---------------------------------------------------------------------------------------


def _predictions(table: Table, event: str | None, features: Any = None) -> Predictions:
    """The rows that a table holds, and the classes of its columns.

    A single column is that of the last class, which is the event if one is given. For several
    columns the event is the class itself.
    """
    name, label_column = table.name, table.header[table.label]
    names, proba = table.probabilities()
    texts, codes = table.labels()
    observed, place_of_text = roles.classes_of(name, label_column, texts)
    classes = observed.tolist()
    roles.refuse_probabilities(name, [table.header[k] for k in table.features], names, classes)
    of_column, is_assumed = None, False
    if len(names) == 1:
        proba = proba[:, 0]
        classes = roles.both_classes(name, names[0], classes, event)
        wanted = None if event is None else roles.find_event(name, event, classes)
        place, is_assumed = roles.class_of_single(
            name,
            names[0],
            classes,
            label_column,
            wanted,
            is_requested=table.roles.reasons[1] == roles.REQUESTED,
        )
        of_column = classes[place]
        if wanted is not None and wanted != place:
            place = wanted
            if not is_outside(proba.min(), proba.max()):  # other values raise an error later
                proba = 1 - proba
        labels = np.array([classes[1 - place], classes[place]])
        event = None if wanted is None else labels[1]
    else:
        classes = roles.classes_of_several(name, names, classes, proba)
        event = None if event is None else classes[roles.find_event(name, event, classes)]
        labels = np.array(classes)
    if labels.dtype.kind != observed.dtype.kind:  # numbers are text beside a class that is none
        observed = roles.as_text(observed.astype(str).tolist())
    note = table.roles.note(table.header, of_column, is_assumed=is_assumed)
    score_column = names[0] if len(names) == 1 else None
    y_true = observed[place_of_text][codes]
    return Predictions(y_true, proba, labels, features, event, note, label_column, score_column)


class LateLabelError(ValueError):
    """A label appears after the first part of a table, and changes what its columns mean.

    Its argument is the list of all labels as text, with which `read_parts` can start again.
    """


def count_table_rows(path: Path) -> int:
    """About how many rows a table has; 0 for arrays, which cannot be read part by part."""
    paths, suffix = _files_of(path)
    return sum(map(count_rows, paths)) if suffix in _TABLES else 0


def read_parts(
    path: Path,
    *,
    label_column: str | None = None,
    score_column: str | None = None,
    event: str | None = None,
    ignore: Sequence[str] = (),
    known: Sequence[str] | None = None,
    sep: str | None = None,
    decimal: str | None = None,
) -> Iterator[Predictions]:
    """Yield the predictions of a table part by part, with the same classes in each part.

    Raises `LateLabelError` where the labels of the first part, without ``known``, were not enough.
    """
    paths, suffix = _files_of(path)
    arguments: dict[str, Any] = {"label_column": label_column, "score_column": score_column}
    arguments |= {"event": event, "ignore": ignore, "features": (), "known": known or ()}
    arguments |= _text_format(path, suffix, sep, decimal)
    first = None  # classes of the first part
    for table in _filled(read_blocks(paths, **arguments)):
        try:
            part = _predictions(table, event)
            classes = np.asarray(part.labels).tolist()
            if first is not None and classes != first:
                raise LateLabelError(table.texts(table.label))
        except ValueError:
            if known is not None:
                raise
            for whole in read_blocks(paths, **arguments):
                whole.clear()
            labels = whole.texts(whole.label)
            if len(labels) == len(table.texts(table.label)):
                raise
            raise LateLabelError(labels) from None
        first = classes
        yield part


def _filled(blocks):
    """The table whenever it holds the rows of a part, which are removed afterwards."""
    for table in blocks:
        if table.n_held * len(table.header) >= PART:
            yield table
            table.clear()
    if table.n_held:
        yield table
