"""Tables in the format parquet, read batch by batch through pyarrow or polars."""

import json
import re
from importlib.util import find_spec

import numpy as np

from skcalib.io._table import LONGEST, Table, TextFeatureError, encode

_BATCH = 2**16  # rows of a batch of pyarrow
_SLICE = 2**18  # rows of a slice of polars, which decodes at least a part of a row group for each
#: Columns of an index without a name. Other names of an index are in the metadata, which old
#: versions of polars do not read.
_INDEX = re.compile(r"__index_level_\d+__")


def parquet_blocks(path, **roles):
    """Yield the `Table` of the file at `path` after each batch; `roles` are its arguments."""
    library, text = _library(), []
    while True:
        try:
            yield from _read(library, path, text=text, **roles)
            return
        except TextFeatureError as error:
            text.append(error.place)
        except library.errors as error:
            raise _unreadable(path, error) from error


def count_parquet_rows(path):
    """How many rows the file has."""
    library = _library()
    try:
        return library.open(path)[1]
    except library.errors as error:
        raise _unreadable(path, error) from error


def _unreadable(path, error):
    said = " ".join(str(error).split())
    return ValueError(f"{path.name} is not a readable parquet file: {said}")


def _library():
    if find_spec("pyarrow") is not None:
        return _Pyarrow()
    if find_spec("polars") is not None:
        return _Polars()
    raise ValueError("Reading .parquet needs pyarrow or polars: install one of them, or use .csv.")


def _read(library, path, **roles):
    names, n_rows = library.open(path)
    table = Table(path.name, names, **roles)
    if n_rows == 0:
        raise ValueError(f"{path.name} must have at least one row.")
    for batch in library.batches(path, names):
        columns = {k: _column(library, table, k, column) for k, column in enumerate(batch)}
        table.append(columns, min((table.n_rows + len(batch[0])) / n_rows, 1.0))
        yield table
    if table.n_rows != n_rows:
        raise ValueError(
            f"{path.name} is damaged: it announces {n_rows:,} rows and has {table.n_rows:,}."
        )


def _column(library, table, place, column):
    """A column of a batch, as `Table.append` takes it."""
    if place in table.text:
        return _texts(library, table, place, column)
    if library.is_number(column):
        return library.floats(column)
    values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    if place in table.features:
        raise table.not_a_number(place, None)
    numbers = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            numbers[k] = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise table.not_a_number(place, value) from None
    return numbers


def _texts(library, table, place, column):
    name, header = table.name, table.header[place]
    if place in table.features and not library.is_text(column):
        raise ValueError(
            f"{name} has the feature {header!r} of the type {library.kind(column)}: numbers, text "
            "or booleans are expected. Convert it, or leave it out of --features."
        )
    values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    values = [None if value != value else value for value in values]
    if any(isinstance(value, (list, dict, bytes)) for value in values):
        values = [_text_of(value, name, header, library.kind(column)) for value in values]
    codes, distinct = encode(values)
    if place == table.label and (codes.min() < 0 or not all(text.strip() for text in distinct)):
        raise ValueError(
            f"{name} has a missing label in the column {header!r}: fill it, or leave out the row."
        )
    longest = max(map(len, distinct), default=0)
    if longest > LONGEST:
        raise ValueError(
            f"{name} has a cell of {longest:,} characters in the column {header!r}: labels and "
            f"features have at most {LONGEST:,}. Shorten it."
        )
    return codes, distinct


def _text_of(value, name, header, kind):
    """A label that is bytes, as text."""
    try:
        return None if value is None else value.decode("utf-8")
    except (AttributeError, UnicodeDecodeError):
        raise ValueError(
            f"{name} has labels of the type {kind} in the column {header!r}: words or whole "
            "numbers are expected."
        ) from None


def _without_index(names, metadata):
    """Names of the columns without those that pandas wrote as the index of the rows."""
    try:
        index = json.loads(metadata or "{}").get("index_columns", [])
        index = [name for name in index if isinstance(name, str)]
    except (AttributeError, TypeError, ValueError):  # not as pandas writes it
        index = []
    return [name for name in names if name not in index and not _INDEX.fullmatch(name)]


class _Pyarrow:
    """Columns are arrays of pyarrow."""

    def __init__(self):
        import pyarrow as pa

        self.errors = (pa.ArrowException, OSError)
        self.types = pa.types

    def open(self, path):
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
        return _without_index(schema.names, (schema.metadata or {}).get(b"pandas")), n_rows

    def batches(self, path, names):
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):  # of all at once, buffers would be kept
                for batch in file.iter_batches(_BATCH, row_groups=[group], columns=names):
                    yield [batch.column(name) for name in names]

    def kind(self, column):
        return column.type

    def is_number(self, column):
        types, kind = self.types, column.type
        return types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)

    def is_text(self, column):
        types, kind = self.types, column.type
        if types.is_dictionary(kind):
            kind = kind.value_type
        tests = (types.is_string, types.is_large_string, types.is_boolean, types.is_null)
        return any(test(kind) for test in tests)

    def floats(self, column):
        if self.types.is_decimal(column.type):
            column = column.cast("float64")
        return column.to_numpy(zero_copy_only=False).astype(np.float64)


class _Polars:
    """Columns are Series of polars."""

    def __init__(self):
        import polars as pl

        # Damaged files may end in a panic, which is no PolarsError.
        self.errors = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
        self.texts = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)

    def open(self, path):
        import polars as pl

        names = list(pl.read_parquet_schema(path))
        metadata = None
        if hasattr(pl, "read_parquet_metadata"):
            metadata = pl.read_parquet_metadata(path).get("pandas")
        n_rows = pl.scan_parquet(path).select(pl.len()).collect().item()
        return _without_index(names, metadata), n_rows

    def batches(self, path, names):
        import polars as pl

        start, frame = 0, pl.scan_parquet(path).select(names)
        while len(part := frame.slice(start, _SLICE).collect()):
            yield part.get_columns()
            start += _SLICE

    def kind(self, column):
        return column.dtype

    def is_number(self, column):
        return column.dtype.is_numeric()

    def is_text(self, column):
        return isinstance(column.dtype, self.texts)

    def floats(self, column):
        import polars as pl

        return column.cast(pl.Float64).fill_null(np.nan).to_numpy()
