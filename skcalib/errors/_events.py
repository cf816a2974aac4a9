"""Scores of events, read chunk by chunk: the door of errors that look at one score at a time.

A one-hot target and the problems of a notion take several times the memory of a binary forecast.
Nothing here holds more than a chunk of them.
"""

from dataclasses import dataclass

import numpy as np

from skcalib._checks import check_features, check_proba, check_weight, classes_of_columns
from skcalib._labels import check_y, one_hot, unique_labels
from skcalib.notions import Canonical, Classwise, Notion, TopLabel

_CHUNK = 1 << 16  # entries that are read at a time: they stay in the cache
_TABLE = 1 << 16  # whole labels in a range this wide are counted, not sorted


@dataclass(frozen=True)
class Events:
    """Forecasts (n, columns), the column of each label, and a notion that makes scores of them.

    ``weight`` is None for equal weights, and otherwise divided by ``scale``, a power of two, so
    that squares of weights neither overflow nor vanish.
    """

    raw: np.ndarray
    column: np.ndarray
    n_classes: int
    weight: np.ndarray | None
    scale: float
    notion: Notion

    @property
    def n_samples(self):
        """Number of samples that count."""
        return len(self.raw) if self.weight is None else int(np.count_nonzero(self.weight))

    def chunks(self, size=_CHUNK):
        """Yield scores (m, P), events (m, P) and weights (m,) of the P problems of the notion."""
        step = max(1, max(size, _CHUNK) // self.n_classes)
        columns = np.arange(self.n_classes, dtype=self.column.dtype)
        for start in range(0, len(self.raw), step):
            rows = slice(start, start + step)
            forecast, weight = self._forecast(rows), None
            hit = (columns[:, None] == self.column[rows]).T  # many times faster than its transpose
            if self.weight is not None:
                counts = self.weight[rows] > 0
                forecast, hit, weight = forecast[counts], hit[counts], self.weight[rows][counts]
            if len(forecast):
                yield *_scores(self.notion, forecast, hit), weight

    def columns(self):
        """Scores (P, n), events (P, n) and weights (n,): a row for each problem."""
        score = event = None
        at = 0
        for s, e, _ in self.chunks():
            if score is None:
                shape = (s.shape[1], self.n_samples)
                score, event = np.empty(shape), np.empty(shape, dtype=bool)
            score[:, at : at + len(s)], event[:, at : at + len(s)] = s.T, e.T
            at += len(s)
        return score, event, None if self.weight is None else self.weight[self.weight > 0]

    def _forecast(self, rows):
        try:
            return check_proba(self.raw[rows])
        except ValueError:
            check_proba(self.raw)  # raises too, and knows the number of the row
            raise


def check_events(
    y_true,
    y_proba,
    notion,
    *,
    sample_weight=None,
    labels=None,
    pos_label=None,
    name="y_proba",
    remedy="pos_label",
):
    """Arguments of a public function -> `Events`; the forecasts are checked as they are read."""
    y = check_y(y_true)
    raw = check_features(y_proba, name=name, n_samples=len(y))
    distinct, place, length, index = _look_up(y)
    columns = {"labels": labels, "pos_label": pos_label, "name": name, "remedy": remedy}
    classes = classes_of_columns(distinct, y_proba, raw.shape[1], **columns)
    table = np.zeros(length, dtype=np.uint8 if len(classes) <= 256 else np.intp)
    table[place] = one_hot(distinct, classes).argmax(axis=1)
    column = table.take(index)
    weight, scale = None, 1.0
    if sample_weight is not None:
        weight = check_weight(sample_weight, len(y))
        scale = float(np.ldexp(1.0, int(np.frexp(weight.max())[1]) - 1))
        weight /= scale  # check_weight made a copy
    return Events(raw, column, len(classes), weight, scale, notion)


def _look_up(y):
    """Sorted distinct labels, and for every label an index into a table of so many entries.

    -> (distinct, place of each of them in the table, length of the table, index of each label)
    """
    if y.dtype.kind in "biu":
        low, high = int(y.min()), int(y.max())
        if high - low < _TABLE and high < 2**62:
            index = y.astype(np.intp, copy=low != 0)
            if low:
                index -= low
            place = np.flatnonzero(np.bincount(index))
            return (place + low).astype(y.dtype), place, high - low + 1, index
    try:
        distinct, index = np.unique(y, return_inverse=True)
    except TypeError:
        unique_labels(y)  # says so in a sentence
        raise
    return distinct, np.arange(len(distinct)), len(distinct), index.ravel()


def _scores(notion, forecast, hit):
    """Second columns of the problems of a notion, (m, P): those of the library without copies."""
    kind = type(notion)
    if kind is Classwise:
        return forecast, hit
    if kind is Canonical and forecast.shape[1] == 2:
        return np.ascontiguousarray(forecast[:, 1:]), np.ascontiguousarray(hit[:, 1:])
    if kind is TopLabel:
        return _top(forecast, hit)
    pairs = list(notion.problems(forecast, hit.astype(np.float64)))
    for score, _ in pairs:
        if score.shape[1] != 2:
            raise ValueError(
                f"One score at a time needs problems of two columns, and {notion!r} gives "
                f"{score.shape[1]}: use notion='top_label' or 'classwise', or "
                "simplex_calibration_error for all columns at once."
            )
    score = np.stack([s[:, 1] for s, _ in pairs], axis=1)
    event = np.stack([e[:, 1] for _, e in pairs], axis=1)
    if not np.all((event == 0) | (event == 1)):
        raise ValueError(f"{notion!r} turns labels into numbers other than 0 and 1.")
    return score, event == 1


def _top(forecast, hit):
    if forecast.shape[1] == 2:  # comparing two columns is faster than an argmax of pairs
        second = forecast[:, 1] > forecast[:, 0]
        score = np.maximum(forecast[:, 0], forecast[:, 1])
        return score[:, None], np.where(second, hit[:, 1], hit[:, 0])[:, None]
    top, rows = forecast.argmax(axis=1), np.arange(len(forecast))
    return forecast[rows, top][:, None], hit[rows, top][:, None]
