"""Tables of text, read block by block.

A block is a part of the file that ends at the end of a line. The text of a block without
complications (`_plain`) is parsed by pandas, polars or numpy (`skcalib.io._csv_parsers`). All
other text, and a block that such a parser does not accept, is read by the module csv, which defines
the result and raises the errors. These therefore do not depend on the packages installed.
"""

import csv
import re
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from itertools import islice

import numpy as np

from skcalib.io._csv_parsers import choose_parser
from skcalib.io._table import LONGEST, Table, TextFeatureError, encode

BLOCK = 2**22  # bytes
_CHUNK = 10_000  # rows that the module csv reads at a time
_LINE = 2**24  # characters of the longest line
_BOM = b"\xef\xbb\xbf"


def csv_blocks(path, **roles):
    """Yield the `Table` of the file at `path` after each block; `roles` are its arguments."""
    text = []
    while True:
        try:
            with path.open("rb") as file:
                yield from _read(file, path, text=text, **roles)
                return
        except TextFeatureError as error:
            text.append(error.place)
        except UnicodeDecodeError:
            raise ValueError(
                f"{path.name} is not a readable text table: it is not encoded in UTF-8. Save it in "
                "this encoding."
            ) from None
        except csv.Error as error:
            raise ValueError(f"{path.name} is not a readable text table: {error}") from error


def _read(file, path, **roles):
    size = path.stat().st_size
    header, start = _header(file, path.name)
    table = None if header is None else Table(path.name, header, **roles)
    parse = choose_parser()
    file.seek(start)
    while block := file.read(BLOCK):
        end = file.readline(_LINE)
        block += end
        plain = None if len(end) == _LINE else _plain(block)
        if plain is None:  # a record may go on in the next block
            file.seek(start)
            with _decoded(file) as text:
                share = min((start + len(block)) / size, 1.0)
                yield from _read_text(table, _lines(text, path.name), share)
            break
        start += len(block)
        share = min(start / size, 1.0)
        columns = _parsed(plain, table, parse)
        if columns is None:
            yield from _read_text(table, StringIO(plain.decode("utf-8"), newline=""), share)
        elif columns:
            table.append(columns, share)
            yield table
    if table is None or table.n_rows == 0:
        raise ValueError(f"{path.name} must have a line of column names and at least one row.")


def count_csv_rows(path):
    """About how many rows the file has, from the lines of its first block."""
    with path.open("rb") as file:
        block = file.read(BLOCK)
    return round(block.count(b"\n") * path.stat().st_size / max(len(block), 1))


@contextmanager
def _decoded(file):
    """The rest of a file as text; the file is not closed."""
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.detach()


def _lines(text, name):
    while line := text.readline(_LINE):
        if len(line) == _LINE:
            raise ValueError(
                f"{name} has a line of more than {_LINE:,} characters: a text table with one line "
                "for each row is expected."
            )
        if "\0" in line:
            raise ValueError(
                f"{name} is not a readable text table: it has NUL bytes. Save it in UTF-8."
            )
        yield line


def _header(file, name):
    """Names of the columns, and the place where the rows begin."""
    start = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
    file.seek(start)
    used = []

    def lines(text):
        for line in _lines(text, name):
            used.append(len(line.encode("utf-8")))
            yield line

    with _decoded(file) as text:
        record = next((row for row in csv.reader(lines(text)) if _is_record(row)), None)
    header = None if record is None else [column.strip() for column in record]
    return header, start + sum(used)


def _is_record(row):
    return len(row) > 1 or (len(row) == 1 and bool(row[0].strip()))


# --- Blocks ---------------------------------------------------------------------------------------


_SIMPLE_QUOTES = re.compile(rb'"(?<![^,\n]")([^",\n]*)"(?=[,\n])')  # literal first: fast
_BLANKS = {
    pair: mark
    for mark in (b",", b"\n")
    for blank in (b" ", b"\t")
    for pair in (blank + mark, mark + blank)
}


def _plain(block):
    """Text of a block with one line for each row; None if a record or a cell is not so simple.

    Quotes that are not needed, one space or tab at the ends of cells, and blank lines are removed.
    """
    block = block.replace(b"\r\n", b"\n")
    if b"\r" in block or b"\0" in block:
        return None
    if not block.endswith(b"\n"):
        block += b"\n"
    if b'"' in block:
        block = _SIMPLE_QUOTES.sub(rb"\1", block)
        if b'"' in block:
            return None
    if b" " in block or b"\t" in block:
        for pair, mark in _BLANKS.items():
            block = block.replace(pair, mark)
    if b"\n\n" in block:
        block = re.sub(rb"\n\n+", b"\n", block)
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return block.lstrip(b"\n")


def _parsed(plain, table, parse):
    """Columns of a block; {} for no rows, None if the module csv has to read it."""
    if not plain:
        return {}
    if not _is_rectangular(plain, len(table.header)):
        return None
    numbers = [k for k in range(len(table.header)) if k not in table.text]
    columns = parse(plain, len(table.header), numbers, sorted(table.text))
    if columns is None:
        return None
    for k, column in columns.items():
        if k in table.text:
            empty = k not in table.features and _has_missing(column)
            if empty or any(text is not None and len(text) > LONGEST for text in column[1]):
                return None
        elif k not in table.features and np.isnan(column).any():
            return None
    return columns


def _has_missing(column):
    codes, distinct = column
    return codes.min() < 0 or any(text is None or not text.strip() for text in distinct)


def _is_rectangular(plain, n_columns):
    """Whether each line has the same number of cells."""
    characters = np.frombuffer(plain, np.uint8)
    ends, commas = np.flatnonzero(characters == ord("\n")), np.flatnonzero(characters == ord(","))
    if len(commas) != len(ends) * (n_columns - 1):
        return False
    commas = commas.reshape(len(ends), n_columns - 1)
    return bool(np.all(commas[1:, 0] > ends[:-1]) and np.all(commas[:, -1] < ends))


# --- Text that only the module csv reads ----------------------------------------------------------


def _read_text(table, lines, share):
    rows = (row for row in csv.reader(lines) if _is_record(row))
    while chunk := list(islice(rows, _CHUNK)):
        columns = _columns(table, chunk)
        if columns is None:
            for number, row in enumerate(chunk, start=table.n_rows + 2):
                _check_row(table, number, row)
        table.append(columns, share)
        yield table


def _columns(table, rows):
    """Columns of the cells of rows; None if a row is not as expected."""
    n_columns = len(table.header)
    if any(len(row) != n_columns for row in rows):
        return None
    columns = {}
    for k, cells in enumerate(zip(*rows, strict=True)):
        cells = [cell.strip() for cell in cells]
        missing = k in table.features
        if not missing and not all(cells):
            return None
        if k in table.text:
            if max(map(len, cells)) > LONGEST:
                return None
            columns[k] = encode(cells)
        else:
            try:
                columns[k] = np.array([float(c) if c or not missing else np.nan for c in cells])
            except ValueError:
                return None
    return columns


def _check_row(table, number, row):
    """Raise for the first cell of a row that is not as expected."""
    name, header = table.name, table.header
    if len(row) != len(header):
        raise ValueError(
            f"{name} has {len(header)} columns, but row {number} has {len(row)} cells."
        )
    for k, cell in enumerate(row):
        cell = cell.strip()
        column = repr(header[k]) if header[k] else "without a name"
        if not cell and k not in table.features:
            raise ValueError(
                f"{name} has an empty cell in row {number}, column {column}: fill it, or "
                "leave out the row."
            )
        if k in table.text and len(cell) > LONGEST:
            raise ValueError(
                f"{name} has a cell of {len(cell):,} characters in row {number}, column {column}: "
                f"labels and features have at most {LONGEST:,}. Shorten it, or close its quotes."
            )
        if k not in table.text and cell and not _is_number(cell):
            raise table.not_a_number(k, cell)


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True
