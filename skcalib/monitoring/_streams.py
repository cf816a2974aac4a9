"""The e-values of the events of a notion, their average, and a description of the evidence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Any, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.messages import is_finite, shown
from skcalib._util.records import Record
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_count
from skcalib.data.labels import check_class_order, check_label_list, check_y, listed, unique_labels
from skcalib.data.notions import (
    NOTIONS,
    Auto,
    Canonical,
    Classwise,
    Cumulative,
    NotionLike,
    TopLabel,
    resolve_notion,
)
from skcalib.data.problem import Problem, check_problem
from skcalib.kernels import Kernel
from skcalib.monitoring._alternatives import (
    HARMONICS,
    Alternatives,
    KernelAlternatives,
    ScoreAlternatives,
    TemperatureAlternatives,
)

_NOTIONS = tuple(NOTIONS.values())
_MOST_POINTS = 2000  # of a path
_HALF = 0.5  # of the posterior weight, for a direction


@dataclass(frozen=True)
class Evidence(Record):
    """Description of the evidence of miscalibration: direction, range of scores, and start.

    Attributes
    ----------
    event : str
        The event: "" for the positive class and the top label, or a class.
    direction : {"too_high", "too_low", "too_extreme", "too_moderate", "uneven"}
        Direction of the miscalibration of the forecasts.
    low, high : float
        Range of scores in which the frequency of the event has the largest deviance from the mean
        forecast, in the samples after `since`.
    difference : float
        Observed frequency minus mean forecast in this range, in the samples after `since`.
    since : int
        Number of samples after which the evidence for the leading alternative began to grow: an
        estimate of where the miscalibration begins.

    See Also
    --------
    skcalib.SequentialCalibrationTest : Makes this record.
    skcalib.monitoring.Alarm : An alarm that has it.
    """

    event: str
    direction: str
    low: float
    high: float
    difference: float
    since: int

    def __str__(self) -> str:
        words = {
            "too_high": "too high",
            "too_low": "too low",
            "too_extreme": "too extreme",
            "too_moderate": "too moderate",
            "uneven": "miscalibrated",
        }
        what = f" for {self.event}" if self.event else ""
        sign = "too low" if self.difference > 0 else "too high"
        where = f"{sign} for scores from {self.low:.2g} to {self.high:.2g}"
        first = words[self.direction]
        said = where if first == sign else f"{first}, most of all {where}"
        return f"Forecasts{what} are {said}, since sample {self.since + 1:,}."


class Streams:
    """The alternatives of all events of a notion, and the weights of their e-values.

    ``streams`` are the single ones and ``prior`` (S,) their weights, which sum to 1.
    """

    def __init__(
        self,
        notion: NotionLike,
        features: Literal["auto"] | int | Callable[..., np.ndarray] | Kernel,
        classes: np.ndarray,
    ) -> None:
        found = resolve_notion(notion)
        if not isinstance(found, _NOTIONS):
            raise ValueError(
                "notion must be 'auto', 'top_label', 'classwise', 'cumulative' or 'canonical' for "
                f"a stream, got {notion!r}."
            )
        notion = found.for_columns(len(classes))
        if notion.ordered:
            check_class_order(classes)
        self.streams = _streams(notion, features, classes)
        self.prior = np.array([one.prior for one in self.streams])

    def advance(self, problem: Problem, weight: np.ndarray | None) -> list[np.ndarray]:
        """Log ratios (n, A) of each stream after each of the samples."""
        return [one.alternatives.advance(*one.read(problem), weight) for one in self.streams]

    def average(self, values: list[np.ndarray]) -> np.ndarray:
        """Logarithm (n,) of the average of values (n, A) of each stream, given by logarithms."""
        totals = [
            log_mean(own, one.alternatives.prior)
            for one, own in zip(self.streams, values, strict=True)
        ]
        return log_mean(np.column_stack(totals), self.prior)

    def evidence(
        self, values: list[np.ndarray] | None = None, leading: tuple[int, int] | None = None
    ) -> Evidence | None:
        """Description of the evidence for the event with the most evidence; None with a kernel.

        `values` are logarithms (A,) for each stream, by default the log ratios. `leading` are the
        numbers of a stream, which is described, and of its alternative, which tells where the
        samples begin. For a temperature the top label is described.
        """
        if values is None:
            values = [one.alternatives.log_ratio for one in self.streams]
        scores = [
            k
            for k, one in enumerate(self.streams)
            if isinstance(one.alternatives, ScoreAlternatives)
        ]
        if not scores:
            return None
        stream, number = (None, None) if leading is None else leading
        if stream is None:
            strength = self._strength(values)
            stream = max(scores, key=lambda k: strength[k])
        elif stream not in scores:
            stream, number = scores[0], None
        one = self.streams[stream]
        return _evidence(one.event, one.alternatives, values[stream], number)

    def leading(self, values: list[np.ndarray]) -> tuple[int, int]:
        """Numbers of the stream with the most evidence and of its largest alternative."""
        stream = int(np.argmax(self._strength(values)))
        return stream, int(np.argmax(values[stream]))

    def _strength(self, values):
        """Logarithm of the average of values (A,) of each stream."""
        pairs = zip(self.streams, values, strict=True)
        return [float(log_mean(own, one.alternatives.prior)) for one, own in pairs]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by number of the stream and name."""
        return {
            f"{k}.{name}": array
            for k, one in enumerate(self.streams)
            for name, array in one.alternatives.arrays().items()
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state that `arrays` returned."""
        for k, one in enumerate(self.streams):
            start = f"{k}."
            own = {name[len(start):]: array for name, array in arrays.items()
                   if name.startswith(start)}  # fmt: skip
            one.alternatives.restore(own)


@dataclass
class _Stream:
    """Alternatives of one event or of all classes, with the weight of their e-value."""

    prior: float
    event: str
    alternatives: Alternatives
    notion: Any = None  # of one event; None for all columns
    number: int = 0

    def read(self, problem):
        """Scores and events of a score, or forecasts and events of all classes."""
        if self.notion is None:
            return np.clip(np.ascontiguousarray(problem.forecast), 0, 1), problem.target == 1
        pairs = list(self.notion.problems(problem.forecast, problem.target))
        forecast, target = pairs[self.number]
        return np.clip(np.ascontiguousarray(forecast[:, 1]), 0, 1), target[:, 1] == 1

    def terms(self, part, weight):
        """Weights, weighted forecasts and weighted events (n, 3); of all columns the top label."""
        return event_terms(part, weight, self.notion or Auto(), self.number)


def event_terms(part, weight, notion, number=0):
    """Weights, weighted forecasts and weighted events (n, 3) of samples, for an event."""
    forecast, target = next(islice(notion.problems(part.forecast, part.target), number, None))
    each = np.ones(len(forecast)) if weight is None else weight
    return np.column_stack([each, each * forecast[:, 1], each * target[:, 1]])


def _streams(notion, features, classes):
    n_classes = len(classes)
    if isinstance(features, Kernel):
        return [_Stream(1.0, "", KernelAlternatives(features, n_classes))]
    options: dict[str, Any] = {"harmonics": HARMONICS}
    if callable(features):
        options = {"harmonics": 0, "function": features}
    elif not isinstance(features, str):
        options = {"harmonics": check_count(features, "features")}
    elif features != "auto":
        raise ValueError(
            "features must be 'auto', a whole number, a function or a Kernel, got "
            f"{shown(features)}."
        )
    if isinstance(notion, Canonical) and n_classes > 2:
        found = [
            _Stream(1 / 3, "", ScoreAlternatives(**options), TopLabel()),
            _Stream(1 / 3, "", TemperatureAlternatives()),
        ]
        for k, label in enumerate(classes.tolist()):
            own = ScoreAlternatives(harmonics=0)
            found.append(_Stream(1 / (3 * n_classes), f"class {label}", own, Classwise(), k))
        return found
    if isinstance(notion, (Classwise, Cumulative)):
        events = [columns[-1] for columns in notion.column_names(classes)]
        return [
            _Stream(1 / len(events), event, ScoreAlternatives(**options), notion, k)
            for k, event in enumerate(events)
        ]
    return [_Stream(1.0, "", ScoreAlternatives(**options), notion)]


def log_mean(log_values, weight):
    """Logarithm of the weighted mean of values (..., A) given by their logarithms."""
    most = log_values.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scaled = np.exp(log_values - most)
    found = most[..., 0] + np.log((scaled * weight).sum(axis=-1))
    return np.where(np.isinf(most[..., 0]), most[..., 0], found)


def _evidence(event, alternatives, log_values, number):
    """Direction and range of the alternatives, by their posterior weights."""
    log_weight = log_values + np.log(alternatives.prior)
    if np.isfinite(log_weight.max()):
        posterior = np.exp(log_weight - log_weight.max())
    else:  # a label of probability 0
        posterior = (log_weight == np.inf).astype(np.float64)
    posterior /= posterior.sum()
    kinds: dict[str, float] = {}
    names = {"shift": ("too_low", "too_high"), "slope": ("too_moderate", "too_extreme")}
    for k, share in enumerate(posterior):
        kind, size = alternatives.kind_of(k)
        pair = names.get(kind, ("uneven", "uneven") if kind == "curve" else ("", "too_extreme"))
        name = pair[0] if size > 0 else pair[1]
        kinds[name] = kinds.get(name, 0.0) + float(share)
    best = max(kinds, key=lambda name: kinds[name])
    best = best if kinds[best] >= _HALF else "uneven"
    number = int(log_weight.argmax()) if number is None else number
    cells = alternatives.cells_since(number)
    if best in ("too_extreme", "too_moderate"):
        best = alternatives.common_direction(cells) or best
    low, high, difference = alternatives.worst_range(cells)
    return Evidence(
        event=event,
        direction=best,
        low=low,
        high=high,
        difference=difference,
        since=int(alternatives.lowest_at[number]),
    )


# --- Threads --------------------------------------------------------------------------------------


_P = ParamSpec("_P")
_T = TypeVar("_T")
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_FINDING = threading.Lock()


def one_at_a_time(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """A method that waits while another one of them runs on the same object."""

    @wraps(method)
    def waits(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _FINDING:  # the lock is no part of the state of an object
            lock = _LOCKS.setdefault(args[0], threading.RLock())
        with lock:
            return method(*args, **kwargs)

    return waits


# --- Samples of a stream --------------------------------------------------------------------------


def check_stream(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    known: np.ndarray | None,
) -> tuple[Problem, np.ndarray | None]:
    """Samples of a stream -> `Problem`, and weights of at most 1 or None.

    `labels` is the parameter, and `known` are the classes of the samples before, if any.
    """
    classes = _known_labels(y_true, y_proba, labels) if known is None else known
    problem = check_problem(y_true, y_proba, None, sample_weight, classes, remedy="labels")
    if sample_weight is None:
        return problem, None
    if problem.weight.max() > 1:
        raise ValueError(
            f"Weights must be at most 1 here, got {problem.weight.max():.3g}: divide all weights "
            "of the stream by the largest possible one."
        )
    return problem, problem.weight


def _known_labels(y_true, y_proba, labels):
    if labels is not None:
        return check_label_list(labels)
    y, n_columns = check_y(y_true), 1 if np.ndim(y_proba) < 2 else np.shape(y_proba)[1]
    numbered = np.arange(max(n_columns, 2))
    if y.dtype.kind == "b" and len(numbered) == 2:
        return np.array([False, True])
    if y.dtype.kind not in "iuf" or not np.isin(y, numbered).all():
        raise ValueError(
            "labels must list the classes, because a batch may lack some; the labels here are "
            f"{listed(unique_labels(y).tolist())}. For a single column [negative, positive]."
        )
    return numbered


def check_alpha(alpha: float) -> None:
    """Raise for a level that is not between 0 and 1."""
    if not is_finite(alpha) or not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {shown(alpha)}.")


def check_unchanged(estimator: BaseEstimator, known: dict[str, Any]) -> None:
    """Raise for parameters that have changed since the first sample."""
    for name, value in estimator.get_params(deep=False).items():
        before = known[name]
        if value is not before and not np.array_equal(value, before):
            raise ValueError(
                f"{name} has changed from {shown(before)} to {shown(value)} since the first "
                f"sample: set it back, or make a new {type(estimator).__name__}."
            )


@contextmanager
def kept_on_error(estimator: Any) -> Iterator[None]:
    """Restore the state of an estimator if an error occurs. No array is changed in place."""
    before = vars(estimator).copy()
    arrays = before["_streams"].arrays() if "_streams" in before else None
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if arrays is not None:
            before["_streams"].restore(arrays)
        raise


def keep_points(
    step: int, points: list[tuple[int, float]], first: int, path: np.ndarray
) -> tuple[int, list[tuple[int, float]]]:
    """Points of a path at multiples of a step, which doubles when there are too many.

    `path` has the values at the numbers of samples from `first` on.
    """
    number = first + np.arange(len(path))
    kept = number % step == 0
    points = points + list(zip(number[kept].tolist(), path[kept].tolist(), strict=True))
    while len(points) > _MOST_POINTS:
        step *= 2
        points = [point for point in points if point[0] % step == 0]
    return step, points
