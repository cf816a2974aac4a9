"""Features, or the group of each sample, as numbers for recalibrators that use them."""

from __future__ import annotations

import numpy as np

from skcalib._util.messages import shown
from skcalib._util.validation import refuse_frames_to_fetch
from skcalib.data.features import FeatureEncoder
from skcalib.data.table_columns import as_cells, is_frame, read_column

_MANY = 20  # different values, to be surely no groups


class FeatureReader:
    """Learns the columns of features, and reads them as numbers; missing values are nan.

    A vector has the name of the group of each sample (``is_groups``): `read` gives their numbers,
    and -1 for groups that `fit` has not seen. A matrix or a data frame is read by `FeatureEncoder`.
    """

    def fit(self, features):
        """Learn columns, names and categories; returns the reader."""
        self.is_groups = _is_vector(features)
        if self.is_groups:
            _refuse_values(read_column(features))
            self.names = {name: k for k, name in enumerate(np.unique(_group_names(features)))}
        else:
            self.encoder = FeatureEncoder("features").fit(features)
            self.encoder.warn()
        return self

    def read(self, features):
        """Numbers (n, d); of groups (n,), whole numbers."""
        if _is_vector(features) != self.is_groups:
            words = {True: "the group of each sample", False: "a matrix of features"}
            raise ValueError(
                f"features is {words[not self.is_groups]}, but was {words[self.is_groups]} in fit: "
                "pass the same kind."
            )
        if self.is_groups:
            names = _group_names(features).tolist()
            return np.array([self.names.get(name, -1) for name in names], dtype=np.intp)
        return self.encoder.transform(features)


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


def _is_vector(features):
    return not is_frame(features) and getattr(features, "ndim", np.ndim(as_cells(features))) == 1


def _refuse_values(column):
    """Raise for a vector of a feature, whose values are no groups."""
    values = column.numbers()[~column.missing]
    measured = column.kind in ("time", "duration") or np.any(values != np.rint(values))
    if len(values) >= _MANY and measured and len(np.unique(values)) > 0.5 * len(values):
        raise ValueError(
            f"features is a vector of {len(values):,} {column.kind}s that mostly differ, but a "
            "vector holds the group of each sample: for a feature pass a column, of shape "
            "(n_samples, 1)."
        )


def _group_names(features):
    """Names of groups; missing ones are a group too."""
    texts = read_column(features).texts()
    return np.array(["is missing" if text is None else f"= {text}" for text in texts.tolist()])
