"""The public function `read_predictions`, its result `Predictions`, and tables part by part.

Arrays (.npz) are read at once. Tables in text (.csv, also compressed) and parquet (.parquet), from
one file, from several with the same columns or from a folder, are read block by block:
`read_blocks` yields the `RowTable` of the rows read so far, which keeps compact arrays.
A column of a block is an array of numbers, or a sequence of texts, of which an empty one is
missing. Text is read by the module csv, so that labels are what is written, whichever library is
installed; parquet by pyarrow or polars through narwhals.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from zipfile import ZipFile

import numpy as np

from skcalib._util.files import file_error_text
from skcalib._util.formatting import Record
from skcalib._util.messages import shown
from skcalib._util.packing import RefusedMemberError, read_member
from skcalib._util.sizes import SIZES
from skcalib._util.types import Label, MatrixLike
from skcalib._util.validation import is_outside
from skcalib.data.class_columns import LABEL_NAMES
from skcalib.io import roles
from skcalib.io.roles import SAMPLE, check_names, find_roles, shortened, stands_for_missing

if TYPE_CHECKING:
    from os import PathLike

    from skcalib.io.roles import Cells, NumbersOfTexts, Roles

_TABLES = (".csv", ".parquet")
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

    Names decide what a column is, and ``note`` of the result states what was taken, and why. Where
    names leave no column, or two or more, an error has the arguments that choose each column that
    may be meant, as the values of the first 2,000 rows show.

    The labels are ``y_true`` or ``ground_truth``, or the column with the name of an outcome, such
    as label, target, y, class, event, outcome, churned, died, survived or default, also beside
    words such as is or flag, whose values can be labels: no fractions and no dates. Of several
    outcomes they are the column that has the class `event`.

    The score of two classes is the column with the name of a class or of a forecast, such as
    p_churn, score or model_proba. Columns that are left over are features. Columns with another
    text or whole number in each row identify the rows and are not used.

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
        Name of the column of labels, in any letter case; by default found by its name.
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
        said = file_error_text(error)
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


def _predictions(table: RowTable, event: str | None, features: Any = None) -> Predictions:
    """The rows that a table holds, and the classes of its columns.

    A single column is that of the last class, which is the event if one is given. For several
    columns the event is the class itself.
    """
    name, label_column = table.name, table.header[table.label]
    names, proba = table.probabilities()
    texts, codes = table.labels()
    observed, place_of_text = roles.coded_classes(name, label_column, texts)
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
        if table.n_held * len(table.header) >= SIZES.part_entries:
            yield table
            table.clear()
    if table.n_held:
        yield table


# --- Blocks of rows -------------------------------------------------------------------------------


#: Most characters of a cell of text; a longer one is a text to read, not a class or a category.
LONGEST = 1000
#: Suffix -> what opens compressed text.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSED = tuple(_OPENERS)


class RowTable:
    """Labels, probabilities and features of the file `name`.

    ``roles`` are those of the columns, and ``text`` the places of all columns that are kept as
    text. ``n_rows`` rows have been appended, ``n_before`` of them from earlier files, and
    ``n_held`` of them are in memory. ``known`` are texts of labels that may appear. ``numbers``
    reads a list of texts. Messages count rows from ``first_row``. ``files`` are the files and the
    number of rows before each.
    """

    def __init__(
        self,
        path: Path,
        header: list[str],
        roles: Roles,
        numbers: NumbersOfTexts,
        *,
        first_row: int,
        text: Iterable[int] = (),
        known: Iterable[str] = (),
    ) -> None:
        self.name, self.header, self.first_row, self.roles = path.name, header, first_row, roles
        self.label, self.features, self.proba = roles.label, roles.features, roles.proba
        self.n_rows = self.n_before = 0
        self.files = [(path, 0)]
        self._read_numbers = numbers
        self.text = {self.label, *roles.text, *(k for k in text if k in self.features)}
        self._codes = {k: {"": -1} for k in self.text}
        self._codes[self.label].update({text: code for code, text in enumerate(known)})
        self.clear()

    def continue_with(self, path: Path, header: list[str]) -> None:
        """The next rows are those of another file."""
        if header != self.header:
            raise ValueError(
                f"{path.name} has the columns {shortened(', '.join(header))}, and {self.name} has "
                f"{shortened(', '.join(self.header))}: files of one table have the same columns."
            )
        self.name, self.n_before = path.name, self.n_rows
        self.files.append((path, self.n_rows))

    def clear(self) -> None:
        """Remove the rows; names, texts and the number of rows are kept."""
        self._blocks = {k: [] for k in (self.label, *self.features, *self.proba)}
        self.n_held = 0

    def append(self, columns: Sequence[Cells]) -> None:
        """Add a block of rows: ``columns[k]`` is column k."""
        n_rows = len(columns[0])
        if self.roles.numbers_rows:
            counted = np.arange(n_rows) + self.n_rows - self.n_before
            if not np.array_equal(self._numbers(0, columns[0]), counted):
                raise ValueError(
                    f"{self.name} has a first {self._column(0)} that does not number the rows from "
                    "0: remove it, or name it."
                )
        for k, blocks in self._blocks.items():
            read = self._coded if k in self.text else self._numbers
            blocks.append(read(k, columns[k]))
        self.n_rows += n_rows
        self.n_held += n_rows

    def _numbers(self, place, cells):
        if isinstance(cells, np.ndarray):
            if place not in self.features and np.isnan(cells).any():
                raise self._empty(place, np.isnan(cells).argmax())
            return cells.astype(np.float64)
        numbers = self._read_numbers(cells)
        if numbers is not None:
            return numbers
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if cell.strip():
                number = self._read_numbers([cell])
                if number is None:
                    raise self._not_a_number(place, cell.strip())
                numbers[row] = number[0]
            elif place not in self.features:
                raise self._empty(place, row)
        return numbers

    def _coded(self, place, cells):
        """The code of each text; -1 for an empty one."""
        if isinstance(cells, np.ndarray):
            cells = [str(number) if number == number else "" for number in cells.tolist()]
        cells, codes_of_texts = [cell.strip() for cell in cells], self._codes[place]
        for text in dict.fromkeys(cells):
            if len(text) > LONGEST:
                raise ValueError(
                    f"{self.name} has a cell of {len(text):,} characters in "
                    f"{self._where(place, cells.index(text))}: labels and features have at most "
                    f"{LONGEST:,}. Shorten it, or close its quotes."
                )
            codes_of_texts.setdefault(text, len(codes_of_texts) - 1)
        codes = np.fromiter(map(codes_of_texts.__getitem__, cells), np.int32, len(cells))
        if place == self.label and codes.min() < 0:
            raise self._empty(place, codes.argmin())
        return codes

    def labels(self) -> tuple[list[str], np.ndarray]:
        """Distinct labels as text, and the code of each row."""
        return self.texts(self.label), np.concatenate(self._blocks[self.label])

    def probabilities(self) -> tuple[list[str], np.ndarray]:
        """Names of the columns of probabilities, and their values (n, K)."""
        values = np.empty((self.n_held, len(self.proba)))
        for j, k in enumerate(self.proba):
            np.concatenate(self._blocks[k], out=values[:, j])
        return [self.header[k] for k in self.proba], values

    def feature_frame(self) -> MatrixLike:
        """Features as a data frame of pandas or polars, or an array; None if there are none."""
        if not self.features:
            return None
        columns = {}
        for k in self.features:
            column = np.concatenate(self._blocks[k])
            if k in self.text:
                cells = [*self.texts(k), None]  # the code of a missing value is -1
                column = [cells[code] for code in column]
            columns[self.header[k]] = column
        for library in ("pandas", "polars"):
            if find_spec(library) is not None:
                return import_module(library).DataFrame(columns)
        if self.text & set(self.features):
            raise ValueError(
                f"{self.name} has features that are text, which need pandas or polars: install one "
                "of them, or leave these features out."
            )
        return np.column_stack(list(columns.values()))

    def texts(self, place: int) -> list[str]:
        """Distinct texts of a column, in the order of their codes."""
        return [text for text in self._codes[place] if text]

    # Messages about a cell

    def _column(self, place):
        name = self.header[place]
        return f"column {name!r}" if name else "column without a name"

    def _where(self, place, row):
        number = self.n_rows - self.n_before + row + self.first_row
        return f"row {number}, {self._column(place)}"

    def _empty(self, place, row):
        return ValueError(
            f"{self.name} has an empty cell in {self._where(place, row)}: fill it, or leave out "
            "the row."
        )

    def _not_a_number(self, place, cell):
        if place in self.features:
            return ValueError(
                f"{self.name} has numbers in the first rows of {self._column(place)}, a feature, "
                f"and then {shortened(cell)!r}: leave it out with --ignore, or write all as text."
            )
        advice = ": if it is a feature, name it with --features"
        if stands_for_missing(cell):
            advice = ", a missing value: fill it, or leave out the row"
        elif cell.endswith("%"):
            advice = ": write 0.45 for 45 %"
        elif re.fullmatch(r"-?\d*,\d+", cell):
            advice = (
                ": write decimals with a point, 0.45 for 0,45, or pass decimal=',' (--decimal ,)"
            )
        return ValueError(
            f"{self.name} must hold numbers in every column but {self.header[self.label]!r}, and "
            f"the column {self.header[place]!r} holds {shortened(cell)!r}{advice}."
        )


def read_blocks(
    paths: Sequence[Path],
    *,
    known: Iterable[str] = (),
    sep: str = ",",
    decimal: str = ".",
    **roles: Any,
) -> Iterator[RowTable]:
    """Yield the `RowTable` of files after each block; `roles` are the arguments of `find_roles`."""
    table: RowTable | None = None
    numbers = _numbers_of_text(decimal)
    for path in paths:
        is_text = path.suffix.lower() != ".parquet"
        blocks = _text_blocks(path, sep) if is_text else _parquet_blocks(path)
        header, sample = next(blocks)
        if table is not None:
            table.continue_with(path, header)
        elif sample and len(sample[0]):
            if is_text and roles.get("label_column") is None:
                check_names(path.name, header, sample, numbers)
            text = [k for k, cells in enumerate(sample) if isinstance(cells, list)]
            column_roles = find_roles(path.name, header, sample, numbers, **roles)
            table = RowTable(
                path,
                header,
                column_roles,
                numbers,
                first_row=1 + is_text,
                text=text,
                known=known,
            )
        if table is not None:
            for columns in blocks:
                table.append(columns)
                yield table
    if table is None or table.n_rows == 0:
        raise ValueError(f"{paths[0].name} must have a line of column names and at least one row.")


# --- Text -----------------------------------------------------------------------------------------


@contextmanager
def _opened(path):
    """A file of text as bytes, decompressed, and the file itself; errors are those of a table."""
    try:
        with path.open("rb") as raw:
            yield _OPENERS.get(path.suffix.lower(), BufferedReader)(raw), raw
    except UnicodeDecodeError:
        raise ValueError(
            f"{path.name} is not a readable text table: it is not encoded in UTF-8. Save it in "
            "this encoding."
        ) from None
    except (csv.Error, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"{path.name} is not a readable text table: {file_error_text(error)}."
        ) from error


def _numbers_of_text(decimal):
    """A function from texts to numbers, or None if some text is not a number.

    ``decimal`` is the decimal mark, "," or ".".
    """
    marks = str.maketrans({"_": "?", **({",": ".", ".": "?"} if decimal == "," else {})})

    def numbers(cells):
        if len(marks) > 1 or "_" in "".join(cells):  # float would read 0_5 as 5
            cells = [cell.translate(marks) for cell in cells]
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:  # an empty cell, or text
            return None

    return numbers


def _text_blocks(path, sep):
    """Yield the names of the columns with the first rows, then blocks of all rows, as columns."""
    with _opened(path) as (file, _):
        lines = TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = csv.reader(_lines(lines, path.name), delimiter=sep)
        rows = (row for row in rows if len(row) > 1 or (row and row[0].strip()))
        header = [column.strip() for column in next(rows, ())]
        marks = [mark for mark in ",;\t|" if mark in header[0]] if len(header) == 1 else []
        if marks:
            option = "tab" if marks[0] == "\t" else repr(marks[0])
            raise ValueError(
                f"{path.name} is separated by {marks[0]!r}, not by {sep!r}: pass sep={marks[0]!r} "
                f"(--sep {option})."
            )
        rows = _checked(rows, path.name, header)
        first = list(islice(rows, SAMPLE))
        yield header, list(zip(*first, strict=True))
        rows = chain(first, rows)
        while block := list(islice(rows, SIZES.text_rows)):
            yield list(zip(*block, strict=True))


def _checked(rows, name, header):
    """The rows; one that repeats the names, or has another number of cells, is refused."""
    for number, row in enumerate(rows, start=2):
        if row[0].strip() == header[0] and [cell.strip() for cell in row] == header:
            raise ValueError(
                f"{name} repeats its line of column names in row {number}: remove this line. Files "
                "that were joined have the names once."
            )
        if len(row) != len(header):
            raise ValueError(
                f"{name} has {len(header)} columns, but row {number} has {len(row)} cells."
            )
        yield row


def _lines(file, name):
    """Lines of text; one that is longer than any cell may be is read in parts."""
    while line := file.readline(SIZES.line_characters):
        if "\0" in line:
            raise ValueError(
                f"{name} is not a readable text table: it has NUL bytes. Save it in UTF-8."
            )
        yield line


# --- Parquet --------------------------------------------------------------------------------------


@contextmanager
def _parquet_errors(path):
    """Errors of the libraries as those of a table."""
    try:
        yield
    except ImportError:
        raise ValueError(
            'Reading .parquet needs narwhals, and pyarrow or polars: pip install "skcalib[parquet]"'
            ", or save the table as .csv."
        ) from None
    except Exception as error:  # of many types
        said = file_error_text(error)
        raise ValueError(f"{path.name} is not a readable parquet file: {said}.") from error


def _parquet_blocks(path):
    """Yield the names of the columns with the first rows, then blocks of all rows, as columns."""
    n_rows, names = 0, None
    with _parquet_errors(path):
        import narwhals as nw

        announced = _announced_rows(path)
        for frame in map(nw.from_native, _frames(path, announced)):
            if names is None:
                names = [name for name in frame.columns if not name.startswith("__index_level_")]
                yield names, [_cells(frame[name].head(SAMPLE)) for name in names]
            if len(frame):
                n_rows += len(frame)
                yield [_cells(frame[name]) for name in names]
    if n_rows != announced:
        raise ValueError(
            f"{path.name} is damaged: it announces {announced:,} rows and has {n_rows:,}."
        )


def _frames(path, n_rows):
    """Tables of pyarrow or, without it, of polars, of some rows each, or one without rows."""
    if find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            index = _index_columns(schema)
            names = [name for name in schema.names if name not in index]
            if not n_rows:
                yield schema.empty_table().select(names)
            for group in range(file.num_row_groups):  # of all at once, buffers would be kept
                for batch in file.iter_batches(
                    SIZES.parquet_rows, row_groups=[group], columns=names
                ):
                    yield pa.Table.from_batches([batch])
    else:
        import polars as pl

        table = pl.scan_parquet(path)
        for start in range(0, max(n_rows, 1), SIZES.parquet_rows):
            yield table.slice(start, SIZES.parquet_rows).collect()


def _index_columns(schema):
    """Names of the columns that pandas wrote as the index of the rows."""
    try:
        return [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (KeyError, TypeError, ValueError):  # not as pandas writes it
        return []


def _cells(column):
    """A column of narwhals: an array of numbers, or texts."""
    import narwhals as nw

    if column.dtype.is_decimal():
        column = column.cast(nw.Float64)
    if column.dtype.is_integer() or column.dtype.is_float():
        return column.to_numpy()
    values = column.to_list()
    texts = (value.decode() if isinstance(value, bytes) else str(value) for value in values)
    return ["" if value is None else text for value, text in zip(values, texts, strict=True)]


def count_rows(path: Path) -> int:
    """How many rows a file has; about how many of text, from the lines of its first megabytes."""
    if path.suffix.lower() != ".parquet":
        with _opened(path) as (file, raw):
            lines = file.read(2**22).count(b"\n")
            return round(lines * path.stat().st_size / max(raw.tell(), 1))
    with _parquet_errors(path):
        return _announced_rows(path)


def _announced_rows(path):
    """How many rows a parquet file announces."""
    if find_spec("pyarrow") is not None:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            return file.metadata.num_rows
    import polars as pl

    return pl.scan_parquet(path).select(pl.len()).collect().item()
