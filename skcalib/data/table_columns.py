"""What a column of a table holds: numbers, times, durations or categories, and its missing values.

`read_columns` reads data frames (pandas, polars, narwhals), arrays of any type and lists. Both the
features of samples and their groups are read by it, so that both follow one rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from numbers import Complex, Real
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from skcalib._util.messages import is_missing, unique_names

_DAY = 86_400_000_000  # microseconds
_MINUTE, _SECOND = _DAY // 1440, _DAY // 86_400
#: Microseconds that all times of a column may be multiples of, and what a text of them shows.
_UNITS = ((_DAY, "D"), (_MINUTE, "m"), (_SECOND, "s"), (1, "us"))
_ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.]\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``kind`` is "number", "time", "duration", "category" (also text and truth values), "empty"
    without any value, or "other", which ``reason`` describes. ``cells`` (n,) are the values: floats
    of numbers, datetime64 of times in the time zone ``zone``, timedelta64 of durations.
    """

    name: str
    kind: str
    cells: np.ndarray
    missing: np.ndarray
    zone: tzinfo | None = None
    reason: str = ""

    def numbers(self) -> np.ndarray:
        """Numbers, and times and durations in days, since 1970; nan where they are missing."""
        if self.kind == "number":
            return self.cells
        if self.kind not in ("time", "duration"):
            return np.full(len(self.cells), np.nan)
        days = self.cells[~self.missing].astype(np.int64) / _DAY
        return _in_rows(days, self.missing, np.float64, np.nan)

    def texts(self) -> np.ndarray:
        """The values as text (n,); None where they are missing."""
        cells = self.cells[~self.missing]
        if self.kind == "time":
            texts = times_as_text(cells, resolution(cells))
        else:  # where truth values are among them, a text "True" has quotes
            cells = cells.tolist()
            truth = {str(cell) for cell in cells if isinstance(cell, (bool, np.bool_))}
            texts = [
                repr(cell) if isinstance(cell, str) and cell in truth else _text(cell)
                for cell in cells
            ]
        return _in_rows(texts, self.missing, object, None)

    def in_zone(self, zone: tzinfo | None) -> Column:
        """Times as clocks of another time zone show them."""
        if self.kind != "time" or str(self.zone) == str(zone):
            return self
        if self.zone is None or zone is None:
            now, before = ("without", "with") if self.zone is None else ("with", "without")
            raise ValueError(
                f"The times of column {self.name!r} are {now} a time zone, but were {before} one "
                "in fit: pass the same kind."
            )
        moved = [
            np.datetime64(clock.replace(tzinfo=self.zone).astimezone(zone).replace(tzinfo=None))
            for clock in self.cells[~self.missing].astype("M8[us]").tolist()
        ]
        cells = _in_rows(moved, self.missing, self.cells.dtype, "NaT")
        return Column(self.name, self.kind, cells, self.missing, zone)


def _in_rows(values, missing, dtype, fill):
    """An array with these values in the rows where none is missing."""
    array = np.full(len(missing), fill, dtype)
    array[~missing] = values
    return array


def resolution(times: np.ndarray) -> int:
    """The largest of some units of time, in microseconds, of which all times are multiples."""
    values = times.astype(np.int64)
    return next(size for size, _ in _UNITS if not (values % size).any())


def times_as_text(times: np.ndarray, size: int) -> list[str]:
    """Times in ISO format, to the unit of so many microseconds."""
    unit: Any = next(name for microseconds, name in _UNITS if microseconds <= size)
    texts = np.datetime_as_string(times.astype("M8[us]"), unit=unit, casting="unsafe").tolist()
    return [text.replace("T", " ") for text in texts]


def day_as_text(day: float, size: int, place: Callable[[float], float] = np.rint) -> str:
    """A number of days since 1970 as the text of a time, at a multiple of `size` microseconds."""
    number = int(place(round(day * (_DAY / size), 3)))
    return times_as_text(np.array([number * size]).astype("M8[us]"), size)[0]


# --- Reading --------------------------------------------------------------------------------------


def is_frame(table: Any) -> bool:
    """Whether this is a data frame of pandas, polars or narwhals."""
    return hasattr(table, "columns") and (hasattr(table, "dtypes") or hasattr(table, "schema"))


def read_columns(
    table: Any, names: Sequence[str] | None = None, *, owner: str = "X"
) -> list[Column]:
    """The columns of a data frame, or of an array (n, d) with these names or x0, x1, ..."""
    if is_frame(table):
        shown = names_of_columns(table.columns, owner)
        return [
            read_column(table[name], text) for name, text in zip(table.columns, shown, strict=True)
        ]
    values = as_cells(table)
    named = [f"x{j}" for j in range(values.shape[1])] if names is None else names
    cells = np.ascontiguousarray(values.T)
    return [read_column(column, name) for name, column in zip(named, cells, strict=True)]


def names_of_columns(names: Iterable[Any], owner: str = "X") -> list[str]:
    """Names of columns as texts that differ; outer spaces are shown by quotes."""
    return [text if text == text.strip() else repr(text) for text in unique_names(names, owner)]


def as_cells(values: Any) -> np.ndarray:
    """An array; lists of text and other values keep their types."""
    if isinstance(values, np.ndarray) or not isinstance(values, (list, tuple)):
        return np.asarray(values)
    try:
        array = np.asarray(values)
    except ValueError:  # cells that are lists, of different lengths
        array = np.empty(0, dtype="U1")
    return np.asarray(values, dtype=object) if array.dtype.kind in "USmM" else array


def read_column(values: Any, name: str = "") -> Column:
    """A vector of any type, or a column of a data frame."""
    kind = str(getattr(values, "dtype", "")).lower()
    declared = kind.startswith(("category", "categorical", "enum", "dictionary"))
    values, zone = _local_times(values)
    cells = as_cells(values)
    if cells.ndim != 1:
        return _other(name, np.full(len(cells), None), "lists")
    kind = cells.dtype.kind
    if kind in "iuf" and not declared and not _collapse(cells):
        single = cells.dtype == np.float32
        numbers = cells if single else cells.astype(np.float64)
        return _known(name, "number", numbers, np.isnan(numbers))
    if kind in "mM":
        kind = "time" if kind == "M" else "duration"
        unit = "M8[us]" if kind == "time" else "m8[us]"
        return _known(name, kind, cells.astype(unit), np.isnat(cells), zone)
    if kind == "c":
        return _other(name, cells, "complex numbers")
    if kind == "V":
        return _other(name, cells, "records")
    cells = cells.astype(object)
    missing = np.fromiter(map(_is_missing, cells.tolist()), dtype=bool, count=len(cells))
    if missing.all():
        return _known(name, "empty", cells, missing)
    return _of_objects(name, cells, missing, declared)


def _known(name, kind, cells, missing, zone=None):
    """A column of a kind; "empty" without any value."""
    if missing.all():
        return Column(name, "empty", cells, missing, zone, reason="no value")
    return Column(name, kind, cells, missing, zone)


def _of_objects(name, cells, missing, declared):
    """A column of Python's objects, some of which are known."""
    known = [
        value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
        for value in cells[~missing].tolist()
    ]
    types = set(map(type, known))

    def all_are(*kinds):
        return all(issubclass(kind, kinds) for kind in types)

    if declared and not any(issubclass(kind, (list, dict, set, np.ndarray)) for kind in types):
        return Column(name, "category", cells, missing)
    if all_are(Real, Decimal) and bool not in types and not _collapse(known):
        numbers = _in_rows([float(value) for value in known], missing, np.float64, np.nan)
        return Column(name, "number", numbers, missing)
    if all_are(timedelta, np.timedelta64, time):
        durations = [
            timedelta(0, value.hour * 3600 + value.minute * 60 + value.second, value.microsecond)
            if isinstance(value, time)
            else value
            for value in known
        ]
        return Column(name, "duration", _in_rows(durations, missing, "m8[us]", "NaT"), missing)
    is_time = all_are(date, np.datetime64) or all(hasattr(kind, "start_time") for kind in types)
    if is_time or (types == {str} and all(map(_ISO_TIME.fullmatch, known))):
        column = _times(name, cells, missing, known)
        if is_time or column is not None:
            return column
    if all_are(Complex) and not all_are(Real):
        return _other(name, cells, "complex numbers")
    scalars = (str, bytes, Real, Decimal, date, time, timedelta, np.generic, UUID)
    periods = ("Interval", "Period")  # of pandas, for numbers or times
    if any(not issubclass(kind, scalars) and kind.__name__ not in periods for kind in types):
        return _other(name, cells, "lists or other objects")
    return Column(name, "category", cells, missing)


def _other(name, cells, reason):
    return Column(name, "other", cells, np.zeros(len(cells), dtype=bool), reason=reason)


def _collapse(numbers):
    """Whether different whole numbers, such as identifiers of 19 digits, are equal as floats."""
    array = np.asarray(numbers)
    if array.dtype.kind == "f" or not len(array) or np.abs(array).max() < 2**53:
        return False
    return len(np.unique(array.astype(np.float64))) < len(np.unique(array))


def _is_missing(value):
    return np.ndim(value) == 0 and not isinstance(value, (dict, set)) and is_missing(value)


def _text(value):
    """A category as text; 1, 1.0 and "1" are the same. Outer spaces are shown by quotes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return text if text and text == text.strip() else repr(text)


def _local_times(values):
    """A column of times with a time zone -> its local times, and the zone; others unchanged."""
    dtype = getattr(values, "dtype", None)
    zone = getattr(dtype, "time_zone", None)
    if zone is not None:  # of polars
        return values.dt.replace_time_zone(None), ZoneInfo(zone)
    if getattr(dtype, "tz", None) is not None:  # of pandas
        return values.dt.tz_localize(None) if hasattr(values, "dt") else values, dtype.tz
    return values, None


def _times(name, cells, missing, known):
    """A column of times, dates or texts of them; None for text that is no time."""
    try:
        times = [_as_datetime(value) for value in known]
    except ValueError:
        return None
    if len({moment.tzinfo is None for moment in times}) == 2:
        return _other(name, cells, "times with and without a time zone")
    zone = times[0].tzinfo
    if zone is not None:
        times = [moment.astimezone(zone).replace(tzinfo=None) for moment in times]
    rows = _in_rows(np.array(times, dtype="M8[us]"), missing, "M8[us]", "NaT")
    return Column(name, "time", rows, missing, zone)


def _as_datetime(value):
    if hasattr(value, "start_time"):  # a period of pandas
        value = value.start_time
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, np.datetime64):
        return value.astype("M8[us]").item()
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)
