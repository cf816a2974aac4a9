"""Numbers, names and classes as text, and results as tables.

First the text of records and legends, then numbers in reports, then the base class `Record` with
data frames of pandas and HTML for notebooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

#: Characters that control a terminal or the direction of text, end lines, or are no text.
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text):
    """Text of a user, such as a name, whose control characters are escaped, as in Python."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def record_text(interval):
    """Estimate [low, high], with three decimals or more, see `decimals_of`."""
    decimals = decimals_of(interval)
    estimate, low, high = (
        f"{value:z.{decimals}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} [{low}, {high}]"


def nonnegative_text(interval):
    """As `record_text`, for a quantity that cannot be negative, such as a squared error.

    The interval is cut at zero. An estimate below zero is printed as "none detected (upper limit
    x)": x is the upper end of the interval around an estimate of zero, or its own if that is
    larger, so that noise below zero does not make the limit too small. Without an interval the text
    is the estimate alone.
    """
    decimals = decimals_of(interval)
    estimate, low, high = interval.estimate, interval.low, interval.high
    known = np.isfinite(high - low)
    if float(f"{estimate:.{decimals}f}") < 0:
        limit = f" (upper limit {limit_of_noise(interval):.{decimals}f})"
        return f"none detected{limit if known else ''}"
    if not known:
        return f"{estimate:z.{decimals}f}"
    low = f"{max(low, 0.0):.{decimals}f}"
    return f"{estimate:z.{decimals}f} [{low if float(low) else 0}, {high:z.{decimals}f}]"


def limit_of_noise(interval):
    """Upper limit if a nonnegative quantity is estimated below zero, see `nonnegative_text`."""
    return interval.high - min(interval.estimate, 0.0)


def class_text(label):
    """A class in a sentence: a name by itself, other labels as "class 1"."""
    name = printable(str(label))
    is_name = len(name) > 1 and any(letter.isalpha() for letter in name)
    answers = ("true", "false", "none", "yes", "no")
    return name if is_name and name.lower() not in answers else f"class {name}"


def decimals_of(interval):
    """Three decimals, or more until the interval is three units of the last one wide."""
    if not (np.isfinite(interval.low) and np.isfinite(interval.high)):
        return 3
    width = interval.high - interval.low
    return max(3, int(np.ceil(-np.log10(max(width, 1e-6) / 3))))


def pvalue_text(pvalue):
    """A p-value; one below double precision is printed as a bound."""
    return "p < 1e-16" if pvalue < 1e-16 else f"p = {pvalue:.3g}"


# --- Numbers in reports ---------------------------------------------------------------------------


_NOTHING = 1e-6  # smaller losses are reported as none
_MOST_DECIMALS = 4  # of a percentage


def number(value, spread=None):
    """A number with decimals to two digits of its standard error."""
    if not np.isfinite(value):
        return "infinite" if value > 0 else "-infinite"
    known = spread is not None and 1e-9 * abs(value) < spread < np.inf  # else rounding
    scale = spread if known else abs(value) / 30
    if scale == 0:
        return "0.000"
    decimals = int(np.clip(1 - np.floor(np.log10(scale)), 2, 7))
    return f"{value:z.{decimals}f}"


def numbers(*values):
    """Losses side by side: three decimals, or more until different values differ in print."""
    finite = [value for value in values if np.isfinite(value)]
    for decimals in range(3, 8):
        said = [f"{value:z.{decimals}f}" for value in finite]
        different = len(set(said)) == len(set(finite))
        if different and all(value == 0 or abs(value) >= 10.0**-decimals for value in finite):
            break
    return [f"{value:z.{decimals}f}" if np.isfinite(value) else number(value) for value in values]


def common_spread(*estimates):
    """A standard error that gives all estimates of a column or sentence the same decimals."""
    errors = [
        estimate.standard_error for estimate in estimates if 0 < estimate.standard_error < np.inf
    ]
    return max(min(errors), max(errors) / 10) if errors else None


def interval(estimate, spread=None):
    """A `MeanInterval` as "estimate [low, high]", with the decimals of its standard error."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    error = spread or estimate.standard_error
    parts = (number(v, error) for v in (estimate.low, estimate.high))
    return f"{number(estimate.estimate, error)} [{', '.join(parts)}]"


def nonnegative(estimate, spread=None):
    """A `MeanInterval` of a nonnegative quantity; "none detected" for estimates below zero."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    error = spread or estimate.standard_error
    if estimate.estimate < _NOTHING:
        return f"none detected (upper limit {number(limit_of_noise(estimate), error)})"
    low = max(estimate.low, 0.0)
    while low > _NOTHING and not float(number(low, error)):  # positive also in print
        error /= 10
    said = [number(value, error) for value in (estimate.estimate, low, estimate.high)]
    return f"{said[0]} [{said[1]}, {said[2]}]"


def is_not_positive(estimate):
    """Whether a lower bound is not above zero."""
    return estimate.estimate < _NOTHING


def points(value):
    """A probability difference in percentage points."""
    return "less than 0.01 points" if abs(value) < 1e-4 else f"{_points(value)} points"


def points_between(low, high):
    """A range of probability differences in percentage points."""
    return f"{_points(low)} to {_points(high)}"


def _points(value):
    size = 100 * abs(value)
    if size >= 9.95 or size == 0:
        return f"{size:.0f}"
    decimals = int(np.clip(np.ceil(-np.log10(size)), 1, 4))
    return f"{size:.{decimals}f}"


def rates(*values, distinct=True, column=()):
    """Rates in percent, with decimals for the rarer ones and, if asked, until they differ.

    `column` are all rates below and above them in a table.
    """
    decimals = _rate_decimals(column or values, distinct)
    return [f"{100 * value:.{decimals}f} %" for value in values]


def rate_interval_text(low, high, *beside):
    """[low, high] of a rate, in percent, with the decimals of the rates `beside` it."""
    decimals = _rate_decimals(beside, False)
    return f"[{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"


def _rate_decimals(values, distinct):
    """Two digits of the rarest rate, one of the rarest other side; rates from 1 % have few."""
    log = [(2 - (v > 0.5), np.floor(np.log10(100 * min(v, 1 - v)))) for v in values if 0 < v < 1]
    needed = [digits - 1 - size for digits, size in log] or [1]
    first = int(np.clip(max(needed), 1, min(max(2, min(needed)), _MOST_DECIMALS)))
    for decimals in (first, first + 1) if distinct else ():
        if len({f"{100 * value:.{decimals}f}" for value in values}) == len(set(values)):
            return decimals
    return first


def pvalue(value):
    """A p-value; a small one as a bound."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def level_text(level):
    """A confidence level."""
    return f"{100 * level:g} %"


# --- Results as tables ----------------------------------------------------------------------------


_LIMITS = ("estimate", "low", "high")
_MOST_ROWS = 20  # in a notebook; of longer tables both ends are shown


class Record:
    """Base of results, which are dataclasses: a data frame, and a table in notebooks.

    A result has one row, with a column for each of its numbers and texts, or a row for each entry
    of the attributes `_rows`. `_columns` may define others, and `_beside` names fields that
    notebooks show above the rows.
    """

    _rows: ClassVar[Sequence[str]] = ()
    _beside: ClassVar[Sequence[str]] = ()
    #: Columns of intervals or None, each of which becomes three.
    _intervals: ClassVar[Sequence[str]] = ()

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """The table by columns. Cells are numbers, texts, intervals or None."""
        if self._rows:
            columns = {name: getattr(self, name) for name in self._rows}
            return {name: values for name, values in columns.items() if values is not None}
        return {field_.name: [getattr(self, field_.name)] for field_ in fields(self)}  # type: ignore[arg-type]

    def _sentence(self) -> str:
        """The text of the result if it is one line, for notebooks."""
        text = "" if type(self).__str__ is object.__str__ else str(self)
        return "" if "\n" in text else text

    def to_frame(self) -> DataFrame:
        """The result as a data frame; needs pandas.

        Returns
        -------
        pandas.DataFrame
            One row with a column per field, or one row per entry of the fields that are arrays. An
            interval ``x`` has the columns ``x``, ``x_low`` and ``x_high``, missing values where it
            does not exist.
        """
        return frame_of(self._columns(), self._intervals)

    def _repr_html_(self) -> str:
        columns = dict(self._columns())
        parts = [f"<p><strong>{type(self).__name__}</strong></p>"]
        sentence = self._sentence()
        if sentence:
            parts.append(f"<p>{_text(sentence)}</p>")
        n_rows = len(next(iter(columns.values()), ()))
        if n_rows == 1 and not self._beside:
            parts.append(_fields_table({name: cells[0] for name, cells in columns.items()}))
        else:
            if self._beside:
                parts.append(_fields_table({name: getattr(self, name) for name in self._beside}))
            parts.append(_rows_table(columns, n_rows))
        return f'<div style="overflow-x: auto">{"".join(parts)}</div>'


# --- Data frames ----------------------------------------------------------------------------------


def interval_rows(title: str, intervals: Mapping[str, Any]) -> dict[str, list]:
    """Columns of a table with one row for each interval: its name, limits and standard error."""
    ends = (*_LIMITS, "standard_error")
    columns = {end: [getattr(interval, end) for interval in intervals.values()] for end in ends}
    return {title: list(intervals), **columns}


def frame_of(columns: Mapping[str, Sequence[Any]], intervals: Sequence[str] = ()) -> DataFrame:
    """Data frame of columns; each of `intervals` becomes three, for example x, x_low and x_high."""
    pandas = import_pandas()
    table: dict[str, Any] = {}
    for name, cells in columns.items():
        if name in intervals:
            for end, suffix in zip(_LIMITS, ("", "_low", "_high"), strict=True):
                table[name + suffix] = [
                    np.nan if interval is None else getattr(interval, end) for interval in cells
                ]
        else:
            table[name] = cells
    return pandas.DataFrame(table)


def import_pandas() -> Any:
    """The module pandas; an ImportError with advice if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "to_frame needs pandas, which is not installed: run pip install pandas."
        ) from error
    return pandas


# --- HTML without colours, so that light and dark notebooks are legible ---------------------------


def _fields_table(cells):
    """A row for each name and its value; empty texts are left out."""
    rows = (
        f'<tr><th style="text-align: left">{_text(name)}</th>{_cell(name, value)}</tr>'
        for name, value in cells.items()
        if not (isinstance(value, (str, Mapping)) and len(value) == 0)
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _rows_table(columns, n_rows):
    """A heading for each column, and the rows; of many rows the first and the last ones."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    half = _MOST_ROWS // 2
    shown = range(n_rows) if n_rows <= _MOST_ROWS else [*range(half), *range(n_rows - half, n_rows)]
    lines = [
        f"<tr>{''.join(_cell(name, cells[i]) for name, cells in columns.items())}</tr>"
        for i in shown
    ]
    note = ""
    if n_rows > _MOST_ROWS:
        lines.insert(half, f"<tr>{'<td>…</td>' * len(columns)}</tr>")
        note = f"<p>{n_rows:,} rows</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{note}"


def _cell(name, value):
    is_text = isinstance(value, (str, Mapping))
    style = "text-align: left" if is_text else "white-space: nowrap"
    return f'<td style="{style}">{_text(_value_text(name, value))}</td>'


def _text(text):
    return escape(printable(str(text)))


def _value_text(name, value):
    """A value to four digits, an interval as "estimate [low, high]"."""
    if value is None:
        return "–"
    if isinstance(value, (str, bool, np.bool_)):
        return str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real) and not np.isfinite(value):
        return "–" if np.isnan(value) else ("infinite" if value > 0 else "-infinite")
    if isinstance(value, Real) and name.endswith("pvalue"):
        return pvalue_text(value).removeprefix("p ").removeprefix("= ")
    if isinstance(value, Real):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, Record):
        return value._sentence() or repr(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_value_text('', item)}" for key, item in value.items())
    if isinstance(value, (tuple, list, np.ndarray)):
        return ", ".join(_value_text("", item) for item in value)
    return str(value)
