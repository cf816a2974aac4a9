"""Features and groups of samples as numbers, for recalibrators that use more than the forecast."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from skcalib._validation import refuse_frames_to_fetch
from skcalib._values import is_missing, shown

#: Most categories of one column, the most frequent ones; others count as missing.
MOST_CATEGORIES = 250
_FEWEST_KNOWN = 10  # values of a column, to be of any use


class FeatureReader:
    """Learns the columns of features, and reads them as numbers; missing values are nan.

    A vector has the name of the group of each sample (``is_groups``): `read` gives their numbers,
    and -1 for groups that `fit` has not seen. A matrix or a data frame has columns of numbers, or
    of categories, whose codes are numbers too; unseen categories are nan.
    """

    def fit(self, features):
        """Learn columns, names and categories; returns the reader."""
        columns, self.names, self.is_groups = _columns(features)
        self.categories = [_categories(column) for column in columns]
        if self.is_groups:
            self.categories = [_index(np.unique(_group_names(columns[0])))]
        elif not columns:
            raise ValueError("features has no columns: pass at least one feature.")
        self.is_category = np.array([one is not None for one in self.categories])
        table = [self._codes(k, column) for k, column in enumerate(columns)]
        self.useful = np.array([np.sum(~np.isnan(one)) >= _FEWEST_KNOWN for one in table])
        return self

    def read(self, features):
        """Numbers (n, d); of groups (n,), whole numbers."""
        columns, names, is_groups = _columns(features)
        if is_groups != self.is_groups:
            words = {True: "the group of each sample", False: "a matrix of features"}
            raise ValueError(
                f"features is {words[is_groups]}, but was {words[self.is_groups]} in fit: pass "
                "the same kind."
            )
        if len(columns) != len(self.categories):
            raise ValueError(
                f"features has {len(columns)} columns, but GroupRecalibrator was fitted with "
                f"{len(self.categories)}."
            )
        if None not in (names, self.names) and names != self.names:
            raise ValueError(
                f"The feature names of features should be those of fit, {self.names[:5]}, got "
                f"{names[:5]}."
            )
        table = [self._codes(k, column) for k, column in enumerate(columns)]
        if self.is_groups:
            return np.where(np.isnan(table[0]), -1, table[0]).astype(np.intp)
        return np.where(self.useful, np.column_stack(table), 0.0)

    def _codes(self, k, column):
        """Numbers of a column; codes of its categories."""
        known = self.categories[k]
        if known is None:
            return _as_floats(column, k)
        texts = _group_names(column) if self.is_groups else _texts(column)
        return np.array([known.get(text, np.nan) for text in texts], dtype=np.float64)


def check_rows(features, n_samples):
    """Raise unless there is one row of features for each sample."""
    refuse_frames_to_fetch(features, "features")
    if not hasattr(features, "__len__") or getattr(features, "shape", None) == ():
        raise ValueError(f"features must have a row for each forecast, got {shown(features)}.")
    n_rows = features.shape[0] if hasattr(features, "shape") else len(features)
    if n_rows != n_samples:
        raise ValueError(
            f"features has {n_rows} rows, but there are {n_samples} forecasts: pass one row of "
            "features for each."
        )


def _columns(features):
    """Columns as arrays, their names or None, and whether there is a single vector of groups."""
    if issparse(features):
        raise ValueError("features is sparse: pass a dense matrix, or a data frame.")
    if hasattr(features, "columns") and hasattr(features, "dtypes"):
        names = [str(name) for name in features.columns]
        return [np.asarray(features[name]) for name in features.columns], names, False
    values = np.asarray(features)
    if values.ndim == 1:
        return [values], None, True
    if values.ndim != 2:
        raise ValueError(
            "features must have shape (n_samples, n_features), or (n_samples,) for groups, got "
            f"{values.shape}."
        )
    return list(values.T), None, False


def _categories(column):
    """{text: code} of the categories of a column, the frequent ones; None for numbers."""
    if column.dtype.kind in "biuf" or _are_numbers(column):
        return None
    if column.dtype.kind in "mM":
        raise ValueError("features has dates: turn them into numbers, such as days, first.")
    texts = [text for text in _texts(column) if text is not None]
    names, counts = np.unique(np.array(texts, dtype=str), return_counts=True)
    often = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    return _index(names[often])


def _index(names):
    return {name: code for code, name in enumerate(names.tolist())}


def _are_numbers(column):
    """Whether all known values of a column of objects are numbers."""
    if column.dtype.kind != "O":
        return False
    known = [value for value in column.tolist() if not is_missing(value)]
    return bool(known) and all(
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        for value in known
    )


def _as_floats(column, k):
    values = column
    if column.dtype.kind not in "biuf":
        values = [np.nan if is_missing(one) else one for one in column.tolist()]
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"Column {k} of features had numbers in fit, but now has other values: pass the same "
            "columns."
        ) from None
    if np.isinf(found).any():
        raise ValueError(
            f"Column {k} of features has infinite values: replace them, for example by nan."
        )
    return found


def _texts(column):
    """Names as text, so that 1 and "1" are one group; None for missing values of a category."""
    return [None if is_missing(value) else str(value) for value in column.tolist()]


def _group_names(column):
    """Names of groups; missing ones are a group too."""
    return ["missing" if text is None else text for text in _texts(column)]
