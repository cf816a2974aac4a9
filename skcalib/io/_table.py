"""Columns of a table, filled block by block into compact arrays.

A `Table` is made from the names of the columns: one is the column of labels, some may be features,
all others are probabilities. Readers of file formats pass blocks of rows to `Table.append`: for
each column an array of float64 or, for text, codes and distinct values (see `encode`).
"""

import re
from collections import Counter
from importlib.util import find_spec

import numpy as np

LABEL_NAMES = ("y_true", "ground_truth", "label", "target", "y")
#: Names of a first column that may number the rows, as written by pandas.
_UNNAMED = ("", "Unnamed: 0", "__index_level_0__")
#: Most characters of a cell of text; a longer one is a text to read, not a class or a category.
LONGEST = 1000


class TextFeatureError(ValueError):
    """A feature that was read as numbers holds text: the table is read again."""

    def __init__(self, place):
        super().__init__(place)
        self.place = place


class Table:
    """Labels, probabilities and features of the file `name`.

    ``label`` is the place of the column of labels, ``features`` those of the features, and
    ``text`` those of all columns of text; ``n_rows`` rows have been appended, and ``n_held`` of
    them are in memory. ``known`` are texts of labels that may appear.
    """

    def __init__(self, name, header, *, label_column=None, features=(), text=(), known=()):
        for column, times in Counter(header).items():
            if column and times > 1:
                raise ValueError(f"{name} has two columns named {column!r}: rename one of them.")
        self.name, self.header, self.n_rows = name, header, 0
        self.label = _place_of_labels(name, header, label_column)
        self.features = _places_of_features(name, header, features, self.label)
        self.text = {self.label, *text}
        self.proba = [k for k in range(len(header)) if k not in (self.label, *self.features)]
        self._numbering = header[0] in _UNNAMED and 0 in self.proba
        if not self.proba[self._numbering :]:
            besides = repr(header[self.label])
            if features:
                chosen = ", ".join(header[k] for k in self.features)
                besides += f" and the features {chosen}: leave the probability out of --features"
            raise ValueError(f"{name} has no column of probabilities besides {besides}.")
        self._separate = int(self._numbering)  # columns apart from the probabilities
        self._codes = {k: {} for k in (self.label, *self.features) if k in self.text}
        self._codes[self.label].update({text: code for code, text in enumerate(known)})
        self.clear()

    def clear(self):
        """Remove the rows; names, texts and the number of rows are kept."""
        self._first = _Rows(1) if self._separate else None
        self._proba = _Rows(len(self.proba) - self._separate)
        self._single = {
            k: _Rows(1, np.int32 if k in self.text else np.float64)
            for k in (self.label, *self.features)
        }

    @property
    def n_held(self):
        """Number of rows in memory."""
        return self._proba.n_rows

    def append(self, block, share):
        """Add rows: ``block[k]`` is column k, and ``share`` the part of the file that is read."""
        n_rows = len(block[self.proba[0]])
        if self._first is not None:
            counted = np.arange(self.n_rows, self.n_rows + n_rows)
            self._check_numbering(np.array_equal(block[0], counted))
            self._first.append([block[0]], share)
        self._proba.append([block[k] for k in self.proba[self._separate :]], share)
        for k, rows in self._single.items():
            rows.append([self._merged(k, *block[k]) if k in self.text else block[k]], share)
        self.n_rows += n_rows

    def _check_numbering(self, counted):
        """Whether the first column numbers the rows; rows that are removed cannot be read again."""
        if self._numbering and not counted and self.n_held < self.n_rows:
            raise ValueError(
                f"{self.name} has a first column without a name that numbers the rows, but not "
                f"after row {self.n_rows + 1:,}: name it or remove it."
            )
        self._numbering = self._numbering and counted

    def _merged(self, place, codes, distinct):
        """Codes of a block -> codes of the column; -1 for missing values."""
        known = self._codes[place]
        texts = [None if value is None else value.strip() for value in distinct]
        merged = [known.setdefault(text, len(known)) if text else -1 for text in texts]
        return np.array([*merged, -1], dtype=np.int32)[codes]  # the code -1 is the last one

    def labels(self):
        """Distinct labels as text, and the code of each row."""
        return list(self._codes[self.label]), self._single[self.label].close()[:, 0]

    def probabilities(self):
        """Names of the columns of probabilities, and their values (n, K)."""
        names = [self.header[k] for k in self.proba]
        if self._first is None:
            return names, self._proba.close()
        if self._numbering:
            return names[1:], self._proba.close()
        return names, np.column_stack([self._first.close(), self._proba.close()])

    def feature_frame(self):
        """Features as a data frame; None if there are none."""
        if not self.features:
            return None
        columns = {}
        for k in self.features:
            values = self._single[k].close()[:, 0]
            columns[self.header[k]] = (values, list(self._codes[k])) if k in self.text else values
        if find_spec("pandas") is not None:
            return _pandas_frame(columns)
        if find_spec("polars") is not None:
            return _polars_frame(columns)
        if any(isinstance(values, tuple) for values in columns.values()):
            raise ValueError(
                f"{self.name} has features that are text, which need pandas or polars: install one "
                "of them, or leave these features out."
            )
        return np.column_stack(list(columns.values()))

    def not_a_number(self, place, cell):
        """The error for a cell of a column that must hold numbers."""
        if place in self.features:
            return TextFeatureError(place)
        cell = str(cell).strip()
        advice = ": if it is a feature, name it with --features"
        if cell.endswith("%"):
            advice = ": write 0.45 for 45 %"
        elif re.fullmatch(r"-?\d*,\d+", cell):
            advice = ": write decimals with a point, 0.45 for 0,45"
        return ValueError(
            f"{self.name} must hold numbers in every column but {self.header[self.label]!r}, and "
            f"the column {self.header[place]!r} holds {shortened(cell)!r}{advice}."
        )


class _Rows:
    """Rows of one type that are appended block by block to one array."""

    def __init__(self, n_columns, dtype=np.float64):
        self.array, self.n_rows = np.empty((0, n_columns), dtype), 0

    def append(self, columns, share):
        start, self.n_rows = self.n_rows, self.n_rows + len(columns[0])
        if self.n_rows > len(self.array):  # lines of similar lengths: resized once or twice
            expected = min(int(1.01 * self.n_rows / share), 8 * self.n_rows)
            self.array.resize((max(expected, self.n_rows), self.array.shape[1]), refcheck=False)
        for k, column in enumerate(columns):
            self.array[start : self.n_rows, k] = column

    def close(self):
        self.array.resize((self.n_rows, self.array.shape[1]), refcheck=False)
        return self.array


def encode(values):
    """Values -> their codes, and the distinct values as text; the code of None is -1."""
    known = {None: -1}
    codes = [known.setdefault(value, len(known) - 1) for value in values]
    del known[None]
    return np.array(codes, dtype=np.int32), [str(value) for value in known]


def shortened(text, most=60):
    """Text for a message."""
    return text if len(text) <= most else f"{text[:most]}..."


def _place_of_labels(name, header, label_column):
    wanted = LABEL_NAMES if label_column is None else (label_column,)
    place = _place(header, wanted)
    if place is not None:
        return place
    columns = _columns_of(header)
    if label_column is not None:
        raise ValueError(f"{name} has no column {label_column!r}; {columns}.")
    raise ValueError(
        f"{name} has no column of labels ({', '.join(LABEL_NAMES)}); name it with --label-column. "
        f"I{columns[1:]}."
    )


def _places_of_features(name, header, features, label):
    places = []
    for feature in features:
        place = _place(header, (feature,))
        if place is None:
            raise ValueError(f"{name} has no column {feature!r}; {_columns_of(header)}.")
        if place == label:
            raise ValueError(
                f"The feature {feature!r} is the column of labels of {name}: leave it out of "
                "--features, or name the labels with --label-column."
            )
        if place in places:
            raise ValueError(f"The feature {feature!r} is named twice: name it once.")
        places.append(place)
    return places


def _place(header, wanted):
    """Place of the first wanted name that the header has once, in any letter case if needed."""
    for key in (str, str.casefold):
        keyed = [key(column) for column in header]
        found = [one for one in wanted if keyed.count(key(one)) == 1]
        if found:
            return keyed.index(key(found[0]))
    return None


def _columns_of(header):
    return f"its columns are {shortened(', '.join(header), 1000)}"


def _pandas_frame(columns):
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(values[0], categories=values[1])
            if isinstance(values, tuple)
            else values
            for name, values in columns.items()
        }
    )


def _polars_frame(columns):
    import polars as pl

    return pl.DataFrame(
        {
            name: pl.Series([*values[1], None], dtype=pl.String).gather(
                np.where(values[0] < 0, len(values[1]), values[0])
            )
            if isinstance(values, tuple)
            else values
            for name, values in columns.items()
        }
    )
