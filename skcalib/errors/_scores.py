"""One score and one label per sample, checked at the door without one-hot arrays.

What `check_problem` and a notion give in arrays (n, K) for forecast, target and their rests, the
errors of one score need as one column each: a tenth of the time and memory for two classes.
"""

import numpy as np

from skcalib._checks import check_features, check_proba, check_problem, check_weight
from skcalib._labels import check_classes, check_y, one_hot, unique_labels
from skcalib.notions import Canonical, Classwise, TopLabel

_COLUMNS = 8  # classes that are taken out of the rows at a time: one cache line


def list_scores(y_true, y_proba, notion, *, sample_weight=None, labels=None, pos_label=None):
    """Arguments of a public function -> iterator of (score, label, weight) of each problem.

    ``score`` is float64, ``label`` bool; ``weight`` is None where all samples count alike.
    """
    given = {"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label}
    # Data frames have column names, which check_problem compares with the classes.
    if type(notion) not in _PAIRS or hasattr(y_proba, "columns"):
        return _from_problem(notion, check_problem(y_true, y_proba, **given))
    y = check_y(y_true)
    raw = check_features(y_proba, name="y_proba", n_samples=len(y))
    distinct = _distinct(y)
    classes = check_classes(distinct, raw.shape[1], labels=labels, pos_label=pos_label)
    if raw.shape[1] == 1:
        # The smallest and the largest probability stand for all between them.
        check_proba(np.array([raw.min(), raw.max()]), name="y_proba")
        forecast = raw[:, 0].astype(np.float64, copy=False)
    else:
        forecast = check_proba(raw)
    one_hot(distinct, classes)  # refuses unknown labels
    column = _column_of(y, classes)
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    if weight is not None and not weight.all():  # a sample of weight zero is not there
        counts = weight > 0
        forecast, column, weight = forecast[counts], column[counts], weight[counts]
    pairs = _PAIRS[type(notion)](notion, forecast, column)
    return ((score, label, weight) for score, label in pairs)


def _from_problem(notion, problem):
    """Any notion with problems of two columns, by its own definition."""
    for forecast, target in notion.problems(problem.forecast, problem.target):
        if forecast.shape[1] != 2:
            _refuse(notion, forecast.shape[1])
        yield np.ascontiguousarray(forecast[:, 1]), target[:, 1] > 0.5, problem.weight


def _refuse(notion, n_columns):
    raise ValueError(
        f"Errors of one score need two columns, and {notion!r} gives {n_columns}: use "
        "notion='top_label' or 'classwise', or simplex_calibration_error for bins of the whole "
        "simplex."
    )


def _two_columns(forecast):
    """Probabilities of both classes."""
    return (1 - forecast, forecast) if forecast.ndim == 1 else forecast.T


def _canonical(notion, forecast, column):
    if forecast.ndim == 2 and forecast.shape[1] != 2:
        _refuse(notion, forecast.shape[1])
    score = forecast if forecast.ndim == 1 else np.ascontiguousarray(forecast[:, 1])
    yield score, column == 1


def _classwise(notion, forecast, column):
    if forecast.ndim == 1:
        forecast = np.column_stack([1 - forecast, forecast])
    for start in range(0, forecast.shape[1], _COLUMNS):
        scores = np.ascontiguousarray(forecast[:, start : start + _COLUMNS].T)
        for k, score in enumerate(scores, start):
            yield score, column == k


def _top_label(notion, forecast, column):
    if forecast.ndim == 1 or forecast.shape[1] == 2:
        first, second = _two_columns(forecast)
        yield np.maximum(first, second), column == (second > first)
    else:
        top = forecast.argmax(axis=1)
        yield np.take_along_axis(forecast, top[:, None], axis=1)[:, 0], column == top


_PAIRS = {Canonical: _canonical, Classwise: _classwise, TopLabel: _top_label}


def _distinct(y):
    """Sorted distinct labels; whole numbers of a small range are counted, not sorted."""
    if y.dtype.kind in "iu":
        low, high = int(y.min()), int(y.max())
        if high - low <= len(y) and abs(high) < 2**62 and abs(low) < 2**62:
            counts = np.bincount(y.astype(np.intp) - low)
            return (np.flatnonzero(counts) + low).astype(y.dtype)
    return unique_labels(y)


def _column_of(y, classes):
    """Column of each label; labels are known to be among the classes."""
    if len(classes) == 2:
        return (y == classes[1]).astype(np.int8)
    order = np.argsort(classes)
    return order[np.searchsorted(classes[order], y)]
