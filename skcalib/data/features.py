"""Features of samples as numbers: one rule for all functions that take features.

`encode_features` reads a table once, and `FeatureEncoder` is learned from the samples of a fit and
reads new ones. Numbers stay as they are, and truth values are 0 or 1. Times become days since
1970, durations days, and each frequent category a column of 0 and 1. What cannot be used is left
out and named: free text and identifiers, columns without a value, and cells that are lists or other
objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skcalib._util.types import MatrixLike
from skcalib._util.validation import to_numpy
from skcalib.data.table_columns import as_cells, day_as_text, is_frame, read_columns, resolution

#: Most categories of a column that are encoded, the most frequent ones.
MOST_CATEGORIES = 250
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
            reason = column.reason or self._reason(column)
            if reason:
                self.left_out[column.name] = reason
                continue
            features = _features_of(column, origin)
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

    def _reason(self, column):
        """Why a column cannot be used, or an empty text."""
        if column.kind == "number" and np.isinf(column.cells).any():
            if self.strict:
                raise ValueError(_infinite(column, self.name))
            return "infinite values"
        if column.kind != "category":
            return ""
        categories, counts = np.unique(_known_texts(column), return_counts=True)
        least = 2 if len(counts) <= _FEW_TEXTS else _FEWEST_SAMPLES
        if counts[counts < least].sum() <= 0.5 * counts.sum() or _are_truth_values(categories):
            return ""
        return f"text or an identifier, {len(counts):,} different values"

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


def _features_of(column, origin):
    """The encoded columns of a column."""
    name, kind = column.name, column.kind
    if kind != "category":
        unit = resolution(column.cells[~column.missing]) if kind == "time" else 1
        return [Feature(name, origin, kind, unit=unit)]
    categories, counts = np.unique(_known_texts(column), return_counts=True)
    if _are_truth_values(categories):  # one column is sufficient
        chosen = ["True"]
    else:
        often = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
        chosen = categories[often[counts[often] > 1]].tolist()
    features = [Feature(name, origin, kind, category) for category in chosen]
    if column.missing.any():
        features.append(Feature(name, origin, kind, ""))
    return features


def _are_truth_values(categories):
    return set(categories.tolist()) <= {"False", "True"}


def _known_texts(column):
    return column.texts()[~column.missing].astype(str)


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
