"""Tables in text (.csv) and parquet (.parquet), read block by block.

`read_blocks` passes blocks of rows to a `Table`, which keeps compact arrays, from one file or from
several with the same columns. A column of a block is an array of numbers, or a sequence of texts,
of which an empty one is missing. Text is read by the module csv, so that labels are what is
written, whichever library is installed; parquet by pyarrow or polars through narwhals.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from skcalib._util.files import words_of
from skcalib.io.roles import SAMPLE, check_names, find_roles, shortened, stands_for_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from skcalib._util.types import MatrixLike
    from skcalib.io.roles import Cells, NumbersOfTexts, Roles

#: Most characters of a cell of text; a longer one is a text to read, not a class or a category.
LONGEST = 1000
_ROWS = 500  # of a block: Python searches for garbage after 700 new lists, which takes time
_LINE = 2**24  # characters of a line that are read at once
_BATCH = 2**16  # rows of a block of parquet
#: Suffix -> what opens compressed text.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSED = tuple(_OPENERS)


class Table:
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
) -> Iterator[Table]:
    """Yield the `Table` of files after each block; `roles` are the arguments of `find_roles`."""
    table: Table | None = None
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
            table = Table(
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
        raise ValueError(f"{path.name} is not a readable text table: {words_of(error)}.") from error


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
        while block := list(islice(rows, _ROWS)):
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
    while line := file.readline(_LINE):
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
        said = words_of(error)
        raise ValueError(f"{path.name} is not a readable parquet file: {said}.") from error


def _parquet_blocks(path):
    """Yield the names of the columns with the first rows, then blocks of all rows, as columns."""
    n_rows = 0
    with _parquet_errors(path):
        import narwhals as nw

        names = None
        for frame in map(nw.from_native, _frames(path)):
            if names is None:
                names = [name for name in frame.columns if not name.startswith("__index_level_")]
                yield names, [_cells(frame[name].head(SAMPLE)) for name in names]
            if len(frame):
                n_rows += len(frame)
                yield [_cells(frame[name]) for name in names]
    announced = count_rows(path)
    if n_rows != announced:
        raise ValueError(
            f"{path.name} is damaged: it announces {announced:,} rows and has {n_rows:,}."
        )


def _frames(path):
    """Tables of pyarrow or, without it, of polars, of some rows each, or one without rows."""
    if find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = [name for name in schema.names if name not in _index_columns(schema)]
            if not file.metadata.num_rows:
                yield schema.empty_table().select(names)
            for group in range(file.num_row_groups):  # of all at once, buffers would be kept
                for batch in file.iter_batches(_BATCH, row_groups=[group], columns=names):
                    yield pa.Table.from_batches([batch])
    else:
        import polars as pl

        table = pl.scan_parquet(path)
        for start in range(0, max(count_rows(path), 1), _BATCH):
            yield table.slice(start, _BATCH).collect()


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
        if find_spec("pyarrow") is not None:
            from pyarrow.parquet import read_metadata

            return read_metadata(path).num_rows
        import polars as pl

        return pl.scan_parquet(path).select(pl.len()).collect().item()
