"""Tables in text (.csv) and parquet (.parquet), read block by block.

A `Table` is made from the names of the columns and their `Roles`. `csv_blocks` reads UTF-8 text by
the module csv, `parquet_blocks` parquet by pyarrow, both from one file or from several with the
same columns. They pass blocks of rows to `Table.append`, which keeps compact arrays. A column of a
block is an array of numbers, or a sequence of texts, of which an empty one is missing.
"""

import bz2
import csv
import gzip
import lzma
import re
import zlib
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice

import numpy as np

from skcalib._util.files import words_of
from skcalib.io._roles import (
    SAMPLE,
    check_names,
    find_roles,
    shortened,
    stands_for_missing,
)

#: Most characters of a cell of text; a longer one is a text to read, not a class or a category.
LONGEST = 1000
#: Different probabilities, in single precision, which no other samples have by chance.
MANY = 20


class TextFeatureError(ValueError):
    """A feature that is read as numbers holds text; the argument is its place."""


class Table:
    """Labels, probabilities and features of the file `name`.

    ``roles`` are those of the columns, and ``text`` the places of all columns that are kept as
    text. ``n_rows`` rows have been appended, ``n_before`` of them from earlier files, and
    ``n_held`` of them are in memory. ``known`` are texts of labels that may appear. ``numbers``
    reads a list of texts. Messages count rows from ``first_row``. ``files`` are the names of the
    files and the number of rows before each. With ``identified``, ``digests`` has a hash of all
    cells of each file, which its format, spelling of numbers and order of columns do not change;
    None for a file with `MANY` different probabilities, which identify its rows.
    """

    def __init__(
        self, name, header, roles, numbers, *, first_row, text=(), known=(), identified=False
    ):
        self.name, self.header, self.first_row, self.roles = name, header, first_row, roles
        self.label, self.features, self.proba = roles.label, roles.features, roles.proba
        self.n_rows = self.n_before = 0
        self.files, self.digests = [(name, 0)], [sha256()] if identified else []
        self._different = set()
        self._read_numbers = numbers
        self.text = {self.label, *roles.text, *(k for k in text if k in self.features)}
        self._codes = {k: {"": -1} for k in self.text}
        self._codes[self.label].update({text: code for code, text in enumerate(known)})
        self.clear()

    def continue_with(self, name, header):
        """The next rows are those of another file."""
        if header != self.header:
            raise ValueError(
                f"{name} has the columns {shortened(', '.join(header))}, and {self.name} has "
                f"{shortened(', '.join(self.header))}: files of one table have the same columns."
            )
        self.name, self.n_before = name, self.n_rows
        self.files.append((name, self.n_rows))
        if self.digests:
            self.digests.append(sha256())
            self._different = set()

    def clear(self):
        """Remove the rows; names, texts and the number of rows are kept."""
        self._blocks = {k: [] for k in (self.label, *self.features, *self.proba)}
        self.n_held = 0

    def append(self, columns):
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
        if self.digests and self.digests[-1] is not None:
            self._identify(columns)
        self.n_rows += n_rows
        self.n_held += n_rows

    def _identify(self, columns):
        """Hash all cells of a block, unless the probabilities of the file are many by now."""
        with np.errstate(over="ignore"):  # of what is no probability, and is refused later
            latest = self._blocks[self.proba[-1]][-1].astype(np.float32)
        self._different.update(latest.tolist())
        if len(self._different) >= MANY:
            self.digests[-1] = None
            return
        order = sorted(range(self.roles.numbers_rows, len(self.header)), key=self._name_of)
        cells = [canonical(columns[k], self._read_numbers) for k in order]
        rows = ["\x1f".join(row) for row in zip(*cells, strict=True)]
        self.digests[-1].update("\x1e".join([*rows, ""]).encode())

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
        cells, known = [cell.strip() for cell in cells], self._codes[place]
        for text in dict.fromkeys(cells):
            if len(text) > LONGEST:
                raise ValueError(
                    f"{self.name} has a cell of {len(text):,} characters in "
                    f"{self._where(place, cells.index(text))}: labels and features have at most "
                    f"{LONGEST:,}. Shorten it, or close its quotes."
                )
            known.setdefault(text, len(known) - 1)
        codes = np.fromiter(map(known.__getitem__, cells), np.int32, len(cells))
        if place == self.label and codes.min() < 0:
            raise self._empty(place, codes.argmin())
        return codes

    def labels(self):
        """Distinct labels as text, and the code of each row."""
        return self.texts(self.label), np.concatenate(self._blocks[self.label])

    def probabilities(self):
        """Names of the columns of probabilities, and their values (n, K)."""
        values = np.empty((self.n_held, len(self.proba)))
        for j, k in enumerate(self.proba):
            np.concatenate(self._blocks[k], out=values[:, j])
        return [self.header[k] for k in self.proba], values

    def feature_frame(self):
        """Features as a data frame; None if there are none."""
        if not self.features:
            return None
        columns = {self.header[k]: np.concatenate(self._blocks[k]) for k in self.features}
        texts = {self.header[k]: self.texts(k) for k in self.features if k in self.text}
        if find_spec("pandas") is not None:
            import pandas as pd

            for name, known in texts.items():
                columns[name] = np.array([*known, None], dtype=object)[columns[name]]
            return pd.DataFrame(columns)
        if find_spec("polars") is not None:
            import polars as pl

            for name, known in texts.items():
                cells = [*known, None]  # the code of a missing value is -1
                columns[name] = pl.Series([cells[k] for k in columns[name]], dtype=pl.String)
            return pl.DataFrame(columns)
        if texts:
            raise ValueError(
                f"{self.name} has features that are text, which need pandas or polars: install one "
                "of them, or leave these features out."
            )
        return np.column_stack(list(columns.values()))

    def texts(self, place):
        """Distinct texts of a column, in the order of their codes."""
        return [text for text in self._codes[place] if text]

    # Messages about a cell

    def _name_of(self, place):
        return self.header[place].casefold()

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
            return TextFeatureError(place)
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


def canonical(cells, numbers):
    """Cells as texts that are the same for all spellings of a number, a date and a truth value."""
    values = cells if isinstance(cells, np.ndarray) else numbers(cells)
    if values is not None and values.dtype.kind in "iu":
        return [str(value) for value in values.tolist()]
    if values is not None:
        return [_number_text(value) for value in values.tolist()]
    return [_text_of(cell.strip(), numbers) for cell in cells]


def _number_text(value):
    """A number as text: whole ones exactly, others in single precision, in which they may come."""
    if value != value:
        return ""
    if abs(value) < 2**63 and value == int(value):
        return str(int(value))
    with np.errstate(over="ignore"):
        return str(np.float32(value))


def _text_of(cell, numbers):
    value = numbers([cell]) if cell else None
    if value is not None:
        return _number_text(float(value[0]))
    return re.sub(r"[ t]00:00:00(\.0+)?$", "", cell.casefold())  # of a date


# --- Text -----------------------------------------------------------------------------------------


_ROWS = 500  # of a block: Python searches for garbage after 700 new lists, which takes time
_LINE = 2**24  # characters of a line that are read at once


#: Suffix -> what opens compressed text.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSED = (*_OPENERS, ".zst")


def csv_blocks(paths, **options):
    """Yield the `Table` of the files `paths` after each block; options are those of `_read_csv`."""
    text = []
    while True:
        table = None
        try:
            for path in paths:
                with _opened(path) as (file, _):
                    lines = TextIOWrapper(file, encoding="utf-8-sig", newline="")
                    for read in _read_csv(lines, path.name, table, text=text, **options):
                        table = read
                        yield table
            if table is None or table.n_rows == 0:
                raise ValueError(
                    f"{paths[0].name} must have a line of column names and at least one row."
                )
            return
        except TextFeatureError as error:
            text.append(*error.args)


@contextmanager
def _opened(path):
    """A file of text as bytes, decompressed, and the file itself; errors are those of a table."""
    suffix = path.suffix.lower()
    try:
        with path.open("rb") as raw:
            if suffix == ".zst":
                pa = _arrow()
                yield pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"), raw
            else:
                yield _OPENERS.get(suffix, BufferedReader)(raw), raw
    except UnicodeDecodeError:
        raise ValueError(
            f"{path.name} is not a readable text table: it is not encoded in UTF-8. Save it in "
            "this encoding."
        ) from None
    except (csv.Error, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path.name} is not a readable text table: {words_of(error)}.") from error


def count_csv_rows(paths):
    """About how many rows the files have, from the lines of the first megabytes of each."""
    total = 0
    for path in paths:
        with _opened(path) as (file, raw):
            lines = file.read(2**22).count(b"\n")
            total += round(lines * path.stat().st_size / max(raw.tell(), 1))
    return total


def numbers_of_text(decimal="."):
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


def _read_csv(
    file, name, table, *, text, known=(), sep=",", decimal=".", identified=False, **roles
):
    rows = csv.reader(_lines(file, name), delimiter=sep)
    rows = (row for row in rows if len(row) > 1 or (row and row[0].strip()))
    header = [column.strip() for column in next(rows, ())]
    other = [one for one in ",;\t|" if one in header[0]] if len(header) == 1 else []
    if other:
        raise ValueError(
            f"{name} is separated by {other[0]!r}, not by {sep!r}: pass sep={other[0]!r} "
            f"(--sep {'tab' if other[0] == chr(9) else repr(other[0])})."
        )
    if table is None:
        first = list(islice(rows, SAMPLE))
        if not first:
            return
        for number, row in enumerate(first, start=2):
            _refuse_names(name, header, row, number)
        cells = list(zip(*(row for row in first if len(row) == len(header)), strict=True))
        numbers = numbers_of_text(decimal)
        if roles.get("label_column") is None:
            check_names(name, header, cells, numbers)
        found = find_roles(name, header, cells, numbers, **roles)
        options = {"text": text, "known": known, "identified": identified}
        table = Table(name, header, found, numbers, first_row=2, **options)
        rows = chain(first, rows)
    else:
        table.continue_with(name, header)
    while block := list(islice(rows, _ROWS)):
        start = table.n_rows - table.n_before + 2
        for number, row in enumerate(block, start=start):
            _refuse_names(name, header, row, number)
            if len(row) != len(header):
                raise ValueError(
                    f"{name} has {len(header)} columns, but row {number} has {len(row)} cells."
                )
        table.append(list(zip(*block, strict=True)))
        yield table


def _refuse_names(name, header, row, number):
    """Raise for a row that repeats the names of the columns."""
    if row[0].strip() == header[0] and [cell.strip() for cell in row] == header:
        raise ValueError(
            f"{name} repeats its line of column names in row {number}: remove this line. Files "
            "that were joined have the names once."
        )


def _lines(file, name):
    """Lines of text; one that is longer than any cell may be is read in parts."""
    while line := file.readline(_LINE):
        if "\0" in line:
            raise ValueError(
                f"{name} is not a readable text table: it has NUL bytes. Save it in UTF-8."
            )
        yield line


# --- Parquet --------------------------------------------------------------------------------------


_BATCH = 2**16  # rows
#: Names of the types of pyarrow that are numbers.
_NUMBER = re.compile(r"u?int\d+|halffloat|float|double|decimal\d+\(.*\)")


def _arrow():
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            'Reading .parquet and .zst needs pyarrow: pip install "skcalib[parquet]", or save the '
            "table as .csv."
        ) from None
    return pyarrow


@contextmanager
def _parquet_file(path):
    """The file at `path`, opened by pyarrow."""
    pa = _arrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        said = words_of(error)
        raise ValueError(f"{path.name} is not a readable parquet file: {said}.") from error


def count_parquet_rows(paths):
    """How many rows the files have."""
    total = 0
    for path in paths:
        with _parquet_file(path) as file:
            total += file.metadata.num_rows
    return total


def parquet_blocks(paths, *, known=(), identified=False, **roles):
    """Yield the `Table` of files after each batch; `roles` are those of `find_roles`."""
    table, numbers = None, numbers_of_text()
    for path in paths:
        with _parquet_file(path) as file:
            kept = _without_index(file.schema_arrow)
            names = [field.name for field in kept]
            text = [k for k, field in enumerate(kept) if not _NUMBER.fullmatch(str(field.type))]
            if table is not None:
                table.continue_with(path.name, names)
            for group in range(file.num_row_groups):  # of all at once, buffers would be kept
                for batch in file.iter_batches(_BATCH, row_groups=[group], columns=names):
                    cells = [_cells(batch.column(name)) for name in names]
                    if table is None:
                        some = [one[:SAMPLE] for one in cells]
                        found = find_roles(path.name, names, some, numbers, **roles)
                        options = {"text": text, "known": known, "identified": identified}
                        table = Table(path.name, names, found, numbers, first_row=1, **options)
                    table.append(cells)
                    yield table
            announced = file.metadata.num_rows
        here = 0 if table is None else table.n_rows - table.n_before
        if here != announced:
            raise ValueError(
                f"{path.name} is damaged: it announces {announced:,} rows and has {here:,}."
            )
    if table is None:
        raise ValueError(f"{paths[0].name} must have at least one row.")


def _without_index(schema):
    """The columns without those that pandas wrote as the index of the rows."""
    try:
        index = [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (KeyError, TypeError, ValueError):  # not as pandas writes it
        index = []
    named = (field for field in schema if not field.name.startswith("__index_level_"))
    return [field for field in named if field.name not in index]


def _cells(column):
    """A column of a batch: an array of numbers, or texts."""
    kind = str(column.type)
    if kind.startswith("decimal"):
        column = column.cast("float64")
    if _NUMBER.fullmatch(kind):
        return column.to_numpy(zero_copy_only=False)
    if kind.endswith("binary"):
        column = column.cast("large_string")
    return ["" if value is None else str(value) for value in column.to_pylist()]
