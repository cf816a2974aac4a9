"""Results as tables: data frames of pandas, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skcalib._util.formatting import printable, pvalue_text

if TYPE_CHECKING:
    from pandas import DataFrame

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
    if isinstance(value, Real):
        return _real_text(name, float(value))
    if isinstance(value, Record):
        return value._sentence() or repr(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_value_text('', item)}" for key, item in value.items())
    if isinstance(value, (tuple, list, np.ndarray)):
        return ", ".join(_value_text("", item) for item in value)
    return str(value)


def _real_text(name, value):
    if name.endswith("pvalue") and np.isfinite(value):
        return pvalue_text(value).removeprefix("p ").removeprefix("= ")
    if not np.isfinite(value):
        return "–" if np.isnan(value) else ("infinite" if value > 0 else "-infinite")
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
