"""Tables in text (.csv) and parquet (.parquet), read block by block.

A `Table` is made from the names of the columns: one is the column of labels, some may be features,
all others are probabilities. `csv_blocks` reads UTF-8 text by the module csv, `parquet_blocks`
parquet by pyarrow. Both pass blocks of rows to `Table.append`, which keeps compact arrays. A column
of a block is an array of numbers, or a sequence of texts, of which an empty one is missing.
"""

import csv
import re
from collections import Counter
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice

import numpy as np

LABEL_NAMES = ("y_true", "ground_truth", "label", "target", "y")
#: Names of a first column that numbers the rows, as written by pandas.
_UNNAMED = ("", "Unnamed: 0")
#: Most characters of a cell of text; a longer one is a text to read, not a class or a category.
LONGEST = 1000


class TextFeatureError(ValueError):
    """A feature that is read as numbers holds text; the argument is its place."""


class Table:
    """Labels, probabilities and features of the file `name`.

    ``label`` is the place of the column of labels, ``features`` those of the features, and
    ``text`` those of all columns that are kept as text. ``n_rows`` rows have been appended, and
    ``n_held`` of them are in memory. ``known`` are texts of labels that may appear. ``decimal``
    is the decimal mark, "," or ".". Messages count rows from ``first_row``.
    """

    def __init__(
        self,
        name,
        header,
        *,
        first_row,
        label_column=None,
        features=(),
        text=(),
        known=(),
        decimal=".",
    ):
        for column, times in Counter(header).items():
            if times > 1:
                raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
        self.name, self.header, self.first_row, self.n_rows = name, header, first_row, 0
        self._marks = str.maketrans({"_": "?", **({",": ".", ".": "?"} if decimal == "," else {})})
        self.label = _place_of_labels(name, header, label_column)
        self.features = _places_of_features(name, header, features, self.label)
        self.text = {self.label, *(k for k in text if k in self.features)}
        self.proba = [k for k in range(len(header)) if k not in (self.label, *self.features)]
        self._is_numbered = header[0] in _UNNAMED and 0 in self.proba
        if self._is_numbered:
            self.proba.remove(0)
        if not self.proba:
            besides = repr(header[self.label])
            if features:
                chosen = ", ".join(header[k] for k in self.features)
                besides += f" and the features {chosen}: leave the probability out of --features"
            raise ValueError(f"{name} has no column of probabilities besides {besides}.")
        self._codes = {k: {"": -1} for k in self.text}
        self._codes[self.label].update({text: code for code, text in enumerate(known)})
        self.clear()

    def clear(self):
        """Remove the rows; names, texts and the number of rows are kept."""
        self._blocks = {k: [] for k in (self.label, *self.features, *self.proba)}
        self.n_held = 0

    def append(self, columns):
        """Add a block of rows: ``columns[k]`` is column k."""
        n_rows = len(columns[0])
        if self._is_numbered:
            counted = np.arange(self.n_rows, self.n_rows + n_rows)
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
        given = cells
        if len(self._marks) > 1 or "_" in "".join(cells):  # float would read 0_5 as 5
            cells = [cell.translate(self._marks) for cell in cells]
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:  # an empty cell, or text
            pass
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if cell.strip():
                try:
                    numbers[row] = float(cell)
                except ValueError:
                    raise self._not_a_number(place, given[row].strip()) from None
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
                columns[name] = pd.Categorical.from_codes(columns[name], known)
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

    def _column(self, place):
        name = self.header[place]
        return f"column {name!r}" if name else "column without a name"

    def _where(self, place, row):
        return f"row {self.n_rows + row + self.first_row}, {self._column(place)}"

    def _empty(self, place, row):
        return ValueError(
            f"{self.name} has an empty cell in {self._where(place, row)}: fill it, or leave out "
            "the row."
        )

    def _not_a_number(self, place, cell):
        if place in self.features:
            return TextFeatureError(place)
        advice = ": if it is a feature, name it with --features"
        if cell.endswith("%"):
            advice = ": write 0.45 for 45 %"
        elif re.fullmatch(r"-?\d*,\d+", cell):
            advice = (
                ": write decimals with a point, 0.45 for 0,45, or pass decimal=',' (--decimal ,)"
            )
        return ValueError(
            f"{self.name} must hold numbers in every column but {self.header[self.label]!r}, and "
            f"the column {self.header[place]!r} holds {shortened(cell)!r}{advice}."
        )


def shortened(text, most=60):
    """Text for a message."""
    return text if len(text) <= most else f"{text[:most]}..."


def _place_of_labels(name, header, label_column):
    wanted = LABEL_NAMES if label_column is None else (label_column,)
    place = _place(header, wanted)
    if place is not None:
        return place
    columns = _columns_of(header)
    if label_column is not None:
        raise ValueError(f"{name} has no column {label_column!r}; {columns}.")
    raise ValueError(
        f"{name} has no column of labels ({', '.join(LABEL_NAMES)}); name it with --label-column. "
        f"I{columns[1:]}."
    )


def _places_of_features(name, header, features, label):
    places = []
    for feature in features:
        place = _place(header, (feature,))
        if place is None:
            raise ValueError(f"{name} has no column {feature!r}; {_columns_of(header)}.")
        if place == label:
            raise ValueError(
                f"The feature {feature!r} is the column of labels of {name}: leave it out of "
                "--features, or name the labels with --label-column."
            )
        if place in places:
            raise ValueError(f"The feature {feature!r} is named twice: name it once.")
        places.append(place)
    return places


def _place(header, wanted):
    """Place of the first wanted name that the header has once, in any letter case if needed."""
    for key in (str, str.casefold):
        keyed = [key(column) for column in header]
        found = [one for one in wanted if keyed.count(key(one)) == 1]
        if found:
            return keyed.index(key(found[0]))
    return None


def _columns_of(header):
    return f"its columns are {shortened(', '.join(header), 1000)}"


# --- Text -----------------------------------------------------------------------------------------


_ROWS = 500  # of a block: Python searches for garbage after 700 new lists, which takes time
_LINE = 2**24  # characters of a line that are read at once


def csv_blocks(path, **roles):
    """Yield the `Table` of the file at `path` after each block; `roles` are its arguments."""
    text = []
    while True:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from _read_csv(file, path.name, text=text, **roles)
                return
        except TextFeatureError as error:
            text.append(*error.args)
        except UnicodeDecodeError:
            raise ValueError(
                f"{path.name} is not a readable text table: it is not encoded in UTF-8. Save it in "
                "this encoding."
            ) from None
        except csv.Error as error:
            raise ValueError(f"{path.name} is not a readable text table: {error}.") from error


def count_csv_rows(path):
    """About how many rows the file has, from the lines of its first megabytes."""
    with path.open("rb") as file:
        start = file.read(2**22)
    return round(start.count(b"\n") * path.stat().st_size / max(len(start), 1))


def _read_csv(file, name, sep=",", decimal=".", **roles):
    rows = csv.reader(_lines(file, name), delimiter=sep)
    rows = (row for row in rows if len(row) > 1 or (row and row[0].strip()))
    header = [column.strip() for column in next(rows, ())]
    other = [one for one in ",;\t|" if one in header[0]] if len(header) == 1 else []
    if other:
        raise ValueError(
            f"{name} is separated by {other[0]!r}, not by {sep!r}: pass sep={other[0]!r} "
            f"(--sep {'tab' if other[0] == chr(9) else repr(other[0])})."
        )
    if header:
        table = Table(name, header, first_row=2, decimal=decimal, **roles)
        while block := list(islice(rows, _ROWS)):
            for number, row in enumerate(block, start=table.n_rows + 2):
                if len(row) != len(header):
                    raise ValueError(
                        f"{name} has {len(header)} columns, but row {number} has {len(row)} cells."
                    )
            table.append(list(zip(*block, strict=True)))
            yield table
    if not header or table.n_rows == 0:
        raise ValueError(f"{name} must have a line of column names and at least one row.")


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


@contextmanager
def _parquet_file(path):
    """The file at `path`, opened by pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(
            'Reading .parquet needs pyarrow: pip install "skcalib[parquet]", or save the table as '
            ".csv."
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{path.name} is not a readable parquet file: {said}") from error


def count_parquet_rows(path):
    """How many rows the file has."""
    with _parquet_file(path) as file:
        return file.metadata.num_rows


def parquet_blocks(path, **roles):
    """Yield the `Table` of the file at `path` after each batch; `roles` are its arguments."""
    with _parquet_file(path) as file:
        kept = _without_index(file.schema_arrow)
        names = [field.name for field in kept]
        text = [k for k, field in enumerate(kept) if not _NUMBER.fullmatch(str(field.type))]
        table = Table(path.name, names, first_row=1, text=text, **roles)
        for group in range(file.num_row_groups):  # of all at once, buffers would be kept
            for batch in file.iter_batches(_BATCH, row_groups=[group], columns=names):
                table.append([_cells(batch.column(name)) for name in names])
                yield table
        announced = file.metadata.num_rows
    if table.n_rows != announced:
        raise ValueError(
            f"{path.name} is damaged: it announces {announced:,} rows and has {table.n_rows:,}."
        )
    if table.n_rows == 0:
        raise ValueError(f"{path.name} must have at least one row.")


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
