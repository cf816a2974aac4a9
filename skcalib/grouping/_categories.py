"""Columns of categories as columns of 0 and 1, so that groups can be formed and named."""

import re

import numpy as np

#: Categories of a column that get a column of their own, the most frequent ones.
MOST_CATEGORIES = 20
_CUT = re.compile(r" (?:> 0\.5|<= 0\.5|> 0|<= 0)$")
_MISSING = " is missing"


def encode_features(X):
    """Frame -> the same, categories one-hot, and the new names; anything else as it is.

    A column "region" becomes "region = south" and so on, and "region is missing" where values are.
    Dates and other objects stay, and are refused where features are checked. X itself is not
    changed.
    """
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return X, ()
    names = [str(name) for name in X.columns]
    kinds = list(X.dtypes)
    if len(set(names)) < len(names) or not any(map(_is_category, kinds)):
        return X, ()
    columns, added = {}, []
    for name, own, kind in zip(names, X.columns, kinds, strict=True):
        encoded = _one_hot(name, X[own]) if _is_category(kind) else None
        if encoded is None:
            columns[name] = X[own]
        else:
            columns.update(encoded)
            added += encoded
    if not columns:  # nothing but missing values
        return X, ()
    if hasattr(X, "index"):  # pandas matches columns by their index
        return type(X)(columns, index=X.index), tuple(added)
    return type(X)(columns), tuple(added)


def plain_rule(rule, encoded):
    """A rule in words: "region = south > 0.5" is "region = south"."""
    return " and ".join(_plain(part, encoded) for part in rule.split(" and "))


def opposite(name):
    """The complement of a category: "region is not south"."""
    if name.endswith(_MISSING):
        return f"{name.removesuffix(_MISSING)} is not missing"
    return name.replace(" = ", " is not ", 1)


def source(name, encoded):
    """The column of X that a column of the encoded features was made of."""
    if name not in encoded:
        return name
    return name.removesuffix(_MISSING) if name.endswith(_MISSING) else name.split(" = ", 1)[0]


def _plain(part, encoded):
    name = _CUT.sub("", part)
    if name == part or name not in encoded:
        return part
    return name if ">" in part[len(name) :] else opposite(name)


def _is_category(kind):
    """Whether a column of this type, of pandas or polars, may hold strings or categories."""
    said = str(kind).lower()
    return said.startswith(("category", "categorical", "enum", "str", "object", "bool", "utf8"))


def _one_hot(name, column):
    """{name of a category: 0 or 1}; None for objects that are neither strings nor booleans."""
    values = [value.item() if isinstance(value, np.generic) else value for value in column]
    known = [value for value in values if not _is_missing(value)]
    if not all(isinstance(value, (str, bool, int, float)) for value in known):
        return None
    said = np.array(["" if _is_missing(value) else str(value) for value in values], dtype=str)
    there = np.array([not _is_missing(value) for value in values], dtype=bool)
    categories, counts = np.unique(said[there], return_counts=True)
    if len(categories) and set(categories) <= {"False", "True"}:  # one column tells both
        categories, counts = np.array(["True"]), np.array([1])
    often = categories[np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])]
    columns = {
        f"{name} = {category}": (there & (said == category)).astype(np.float64)
        for category in often
    }
    if len(columns) and not there.all():
        columns[f"{name}{_MISSING}"] = (~there).astype(np.float64)
    return columns


def _is_missing(value):
    """None, nan, pandas' NA and NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
