"""Features of samples as numbers, and the columns of tables: one rule for all that take features.

`encode_features` reads a table once, and `FeatureEncoder` is learned from the samples of a fit and
reads new ones. Numbers stay as they are, and truth values are 0 or 1. Times become days since
1970, durations days, and each frequent category a column of 0 and 1. What cannot be used is left
out and named: free text and identifiers, columns without a value, and cells that are lists or other
objects.

`read_columns` reads data frames (pandas, polars, narwhals), arrays of any type and lists. Both the
features of samples and their groups are read by it, so that both follow one rule.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from numbers import Complex, Real
from typing import Any, Self
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skcalib._util.messages import is_missing, unique_names
from skcalib._util.sizes import SIZES
from skcalib._util.types import MatrixLike
from skcalib._util.validation import to_numpy

#: Columns of more texts than these need samples enough for each.
_FEW_TEXTS, _FEWEST_SAMPLES = 20, 10
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Feature:
    """A column of the encoded features, and the text of rules about it.

    ``origin`` is the number of the column of X that it comes from; ``category`` is the value of
    which it is the indicator, "" for missing values, and None for numbers. ``unit`` are the
    microseconds of which times are multiples.
    """

    name: str
    origin: int
    kind: str = "number"
    category: str | None = None
    unit: int = 1

    @property
    def title(self) -> str:
        """Name of the column: "region = south", "region is missing"."""
        if self.category is None:
            return self.name
        return f"{self.name} = {self.category}" if self.category else f"{self.name} is missing"

    @property
    def opposite(self) -> str:
        """The complement of an indicator."""
        word = f"not {self.category}" if self.category else "not missing"
        return f"{self.name} is {word}"

    def text(self, value: float, digits: int = 10) -> str:
        """A value of a number."""
        if self.kind == "time":
            return day_as_text(value, self.unit)
        return f"{value:.{digits}g}{' days' if self.kind == 'duration' else ''}"

    def rule(self, low: float | None = None, high: float | None = None, digits: int = 10) -> str:
        """The rule of values above `low` and up to `high`."""
        if self.category is not None:
            return self.opposite if low is None else self.title
        first, above, below = ("<=", ">=", "<") if self.kind == "time" else ("<", ">", "<=")
        end = "" if high is None else f" {below} {self._limit(high, digits)}"
        if low is None:
            return f"{self.name}{end}"
        start = self._limit(low, digits)
        return f"{start} {first} {self.name}{end}" if end else f"{self.name} {above} {start}"

    def _limit(self, cut, digits):
        """A cut as text; of times the first one above it."""
        if self.kind != "time":
            return self.text(cut, digits)
        return day_as_text(cut + self.step, self.unit, np.floor)

    @property
    def step(self) -> float:
        """Smallest difference of two times, in days."""
        return self.unit / 86_400_000_000


@dataclass(frozen=True)
class EncodedFeatures:
    """Features as numbers (n, d), their columns, and a sentence on those that are left out."""

    values: np.ndarray
    features: Sequence[Feature]
    note: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and columns."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> EncodedFeatures:
        return EncodedFeatures(self.values[rows], self.features, self.note)


def encode_features(
    X: MatrixLike | EncodedFeatures,
    *,
    name: str = "X",
    allow_nan: bool = True,
    warn: bool = True,
) -> EncodedFeatures:
    """Features as numbers; X itself is not changed.

    A warning names columns that are left out, unless `warn` is False: the caller then shows the
    note, and columns of infinite values are left out too.
    """
    if isinstance(X, EncodedFeatures):
        return X
    encoder = FeatureEncoder(name, strict=warn).fit(X)
    values = check_array(
        encoder.fitted_values(),
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if allow_nan else True,
        input_name=name,
    )
    if warn:
        encoder.warn()
    return EncodedFeatures(values, encoder.features, encoder.note)


class FeatureEncoder:
    """Learns which columns of a table are used and how, and reads other tables in the same way.

    Of other tables, categories that were not learned have no column, as rare ones.
    """

    def __init__(self, name: str = "X", *, strict: bool = True) -> None:
        self.name, self.strict = name, strict

    def fit(self, X: MatrixLike) -> Self:
        """Learn kinds, categories and the columns that are left out."""
        columns, self.names = self._read(X)
        self.kinds = [column.kind for column in columns]
        self.zones = [column.zone for column in columns]
        self.left_out: dict[str, str] = {}
        self.features: list[Feature] = []
        self._fitted = []
        for origin, column in enumerate(columns):
            features = self._features_of(column, origin)
            if features:
                self.features += features
                self._fitted.append(_encode(column, features))
        if not self._fitted:
            reasons = f": {_listed(self.left_out)}" if columns else ""
            raise ValueError(
                f"{self.name} has no column that can be used{reasons}. Pass at least one column of "
                "numbers, times or categories."
            )
        return self

    def fitted_values(self) -> np.ndarray:
        """Numbers (n, d) of the table of `fit`, once."""
        values, self._fitted = np.hstack(self._fitted), []
        return values

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Numbers (n, d) of another table with the same columns."""
        columns, names = self._read(X)
        if len(columns) != len(self.kinds):
            raise ValueError(
                f"{self.name} has {len(columns)} columns, but had {len(self.kinds)} in fit: pass "
                "the same columns."
            )
        if None not in (names, self.names) and names != self.names:
            raise ValueError(
                f"The feature names of {self.name} should be those of fit, {self.names[:5]}, got "
                f"{names[:5]}."
            )
        by_origin: dict[int, list[Feature]] = {}
        for feature in self.features:
            by_origin.setdefault(feature.origin, []).append(feature)
        return np.hstack(
            [self._read_again(columns[j], j, features) for j, features in by_origin.items()]
        )

    @property
    def note(self) -> str:
        """A sentence that names what is left out; empty if that is nothing."""
        if not self.left_out:
            return ""
        noun = "Columns" if len(self.left_out) > 1 else "A column"
        verb = "are" if len(self.left_out) > 1 else "is"
        return f"{noun} of {self.name} {verb} left out: {_listed(self.left_out)}."

    def warn(self) -> None:
        """Warn if columns are left out."""
        if self.left_out:
            warnings.warn(self.note, UserWarning, stacklevel=3)

    def _read(self, X):
        """Columns of a table, and its names or None."""
        if issparse(X):
            raise ValueError(
                f"{self.name} is sparse: pass dense features, for example those of "
                "sklearn.decomposition.TruncatedSVD."
            )
        X = to_numpy(X, name=self.name)
        if is_frame(X):
            columns = read_columns(X, owner=self.name)
            return columns, [column.name for column in columns]
        X = as_cells(X)
        if X.ndim != 2:
            raise ValueError(
                f"{self.name} must have shape (n_samples, n_features), got {X.shape}: Expected "
                "2D array."
            )
        return read_columns(X), None

    def _features_of(self, column, origin):
        """The encoded columns of a column; none if it is left out, for the reason in `left_out`."""
        name, kind, reason = column.name, column.kind, column.reason
        if kind == "number" and np.isinf(column.cells).any():
            if self.strict:
                raise ValueError(_infinite(column, self.name))
            reason = "infinite values"
        if kind == "category":
            texts = column.texts()[~column.missing].astype(str)
            categories, counts = np.unique(texts, return_counts=True)
            are_truth_values = set(categories.tolist()) <= {"False", "True"}
            least = 2 if len(counts) <= _FEW_TEXTS else _FEWEST_SAMPLES
            if not are_truth_values and counts[counts < least].sum() > 0.5 * counts.sum():
                reason = f"text or an identifier, {len(counts):,} different values"
        if reason:
            self.left_out[name] = reason
            return []
        if kind != "category":
            unit = resolution(column.cells[~column.missing]) if kind == "time" else 1
            return [Feature(name, origin, kind, unit=unit)]
        if are_truth_values:  # one column is sufficient
            chosen = ["True"]
        else:
            often = np.sort(np.argsort(-counts, kind="stable")[: SIZES.categories])
            chosen = categories[often[counts[often] > 1]].tolist()
        if column.missing.any():
            chosen.append("")
        return [Feature(name, origin, kind, category) for category in chosen]

    def _read_again(self, column, origin, features):
        """The numbers of a column whose kind was learned."""
        kind = self.kinds[origin]
        if kind == "category" or column.kind == "empty":
            return _encode(column, features)
        if kind == "number" and set(map(type, column.cells.tolist())) <= {bool}:
            column = replace(column, kind=kind, cells=column.cells.astype(float))
        if column.kind != kind:
            raise ValueError(
                f"Column {column.name} of {self.name} had {kind}s in fit, but now has other "
                "values: pass the same columns."
            )
        column = column.in_zone(self.zones[origin])
        if kind == "number" and np.isinf(column.cells).any():
            raise ValueError(_infinite(column, self.name))
        return _encode(column, features)


def _encode(column, features):
    """Numbers (n, k) of the features of a column."""
    if features[0].category is None:
        return column.numbers()[:, None]
    texts = column.texts()
    indicators = [
        texts == feature.category if feature.category else column.missing for feature in features
    ]
    return np.column_stack(indicators).astype(np.float64)


def _infinite(column, name):
    return (
        f"Column {column.name} of {name} contains infinity: replace infinite values, for example "
        "by nan."
    )


def _listed(left_out):
    """Names and reasons, the first few."""
    said = [f"{name} ({reason})" for name, reason in list(left_out.items())[:_MOST_SHOWN]]
    unnamed = len(left_out) - len(said)
    return ", ".join([*said, f"and {unnamed} more"] if unnamed else said)


# --- Columns of a table ---------------------------------------------------------------------------


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
    dtype: Any = getattr(values, "dtype", None)
    zone = None
    if getattr(dtype, "time_zone", None) is not None:  # of polars
        values, zone = values.dt.replace_time_zone(None), ZoneInfo(dtype.time_zone)
    elif getattr(dtype, "tz", None) is not None:  # of pandas
        values, zone = values.dt.tz_localize(None) if hasattr(values, "dt") else values, dtype.tz
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
    if kind in "cV":
        return _other(name, cells, "complex numbers" if kind == "c" else "records")
    cells = cells.astype(object)
    is_empty = (
        np.ndim(cell) == 0 and not isinstance(cell, (dict, set)) and is_missing(cell)
        for cell in cells.tolist()
    )
    missing = np.fromiter(is_empty, dtype=bool, count=len(cells))
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


def _text(value):
    """A category as text; 1, 1.0 and "1" are the same. Outer spaces are shown by quotes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return text if text and text == text.strip() else repr(text)


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
