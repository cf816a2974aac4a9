"""Parsers of plain blocks of a text table: pandas, polars or numpy, in this order.

A plain block has no quotes, no blank lines and the same number of cells in each line. A parser
takes it as bytes, with the number of columns, and the places of the columns of numbers and of text.
It returns a dictionary of columns as `Table.append` takes them, or None if a cell is not as
expected. All parsers round numbers correctly, so the results are equal.
"""

import re
import warnings
from importlib.util import find_spec
from io import BytesIO, StringIO

import numpy as np

from skcalib.io._table import encode

_BOOLEAN = re.compile(rb"true|false", re.IGNORECASE)


def choose_parser():
    """The fastest parser that is installed."""
    if find_spec("pandas") is not None:
        return _by_pandas
    return _by_polars if find_spec("polars") is not None else _by_numpy


def _by_pandas(plain, n_columns, numbers, text):
    import pandas as pd

    options = {"float_precision": "round_trip"}  # the only precision from pandas 3.1
    if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1):
        options = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = pd.read_csv(
                BytesIO(plain),
                header=None,
                names=range(n_columns),
                index_col=False,
                dtype={k: str if k in text else np.float64 for k in range(n_columns)},
                na_values=[""],
                keep_default_na=False,
                quoting=3,
                **options,
            )
    except (ValueError, OverflowError, Warning):
        return None
    columns = {k: frame[k].to_numpy() for k in numbers}
    for column in columns.values():  # pandas reads True as 1
        if np.isin(column, (0, 1)).all() and _BOOLEAN.search(plain):
            return None
    for k in text:
        codes, distinct = pd.factorize(frame[k])
        columns[k] = codes, distinct.tolist()
    return columns


def _by_polars(plain, n_columns, numbers, text):
    import polars as pl

    try:
        frame = pl.read_csv(
            plain,
            has_header=False,
            schema={str(k): pl.String if k in text else pl.Float64 for k in range(n_columns)},
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    columns = {k: frame[str(k)].fill_null(np.nan).to_numpy() for k in numbers}
    return columns | {k: encode(frame[str(k)].to_list()) for k in text}


def _by_numpy(plain, n_columns, numbers, text):
    lines = plain.decode("utf-8")
    try:
        values = np.loadtxt(StringIO(lines), delimiter=",", usecols=numbers, comments=None, ndmin=2)
    except ValueError:
        return None
    columns = dict(zip(numbers, values.T, strict=True))
    rows = lines.split("\n")[:-1]
    return columns | {k: encode([row.split(",", k + 1)[k] for row in rows]) for k in text}
