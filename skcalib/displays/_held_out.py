"""From a classifier and data to what `from_predictions` takes."""

import numpy as np

from skcalib._validation import check_weight, check_y
from skcalib.estimators._response import held_out_proba, take_rows


def held_out(estimator, X, y, *, cv, response_method, sample_weight, owner):
    """Labels, probabilities, features, weights or None, classes, and rows of assessed samples."""
    y = check_y(y, name="y")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    proba, classes, tested = held_out_proba(
        estimator,
        X,
        y,
        cv=cv,
        response_method=response_method,
        fit_params=None if cv is None or weight is None else {"sample_weight": weight},
        owner=owner,
    )
    rows = np.flatnonzero(tested)
    features = X if len(rows) == len(y) else take_rows(X, rows)
    weight = None if weight is None else weight[rows]
    return y[rows], proba[rows], features, weight, classes, rows
