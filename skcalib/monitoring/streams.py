r"""Likelihood ratios of alternative calibration curves, sample by sample, for each event.

An alternative maps a forecast p to another probability q. It may depend on earlier samples, but not
on the label of the same sample. Products of the ratios are test martingales, see
`SequentialCalibrationTest`. `ScoreAlternatives` are those of one score at a time,
`TemperatureAlternatives` and `KernelAlternatives` those of all classes. `Streams` has those of all
events of a notion, with the weights of their e-values, and describes them by an `Evidence`.

Sums are taken in the order of the samples, so they do not depend on how these are divided into
batches, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, xlogy

from skcalib._util.messages import shown
from skcalib._util.packing import require, require_arrays
from skcalib._util.records import Record
from skcalib._util.validation import check_count
from skcalib.data.labels import check_class_order
from skcalib.data.notions import (
    NOTIONS,
    Auto,
    Canonical,
    Classwise,
    Cumulative,
    Notion,
    NotionLike,
    TopLabel,
    resolve_notion,
)
from skcalib.data.problem import Problem
from skcalib.kernels import Kernel

#: Sizes of the changes of the log odds.
SIZES = (0.6, 0.3, 0.15)
SIGNED = np.array([sign * size for size in SIZES for sign in (1.0, -1.0)])
#: Shares of a uniform distribution that is mixed with the forecast.
UNIFORM = (0.1, 0.01)
#: Factors of the logits of all classes.
FACTORS = (0.5, 0.7, 0.85, 1.2, 1.4, 2.0)
HARMONICS = 4  # of the score; half as many of its rank
_TINY = np.finfo(np.float64).tiny
_MOST_LOGIT, _MOST_POSITION = 15.0, 4.0
_HARMONIC_PRIOR = 0.25
N_CELLS = 24  # of the scores, for the range of the largest difference
_MOST_FEATURE = 10  # size of the features of a function
_FIRST, _GROWTH = 50, 1.1


class Alternatives:
    """State shared by all kinds: log likelihood ratios, and where each was lowest.

    ``log_ratio``, ``prior``, ``lowest`` and ``lowest_at`` have shape (A,): the ratios so far, the
    weights of the alternatives, which sum to 1, and the smallest log ratio with the number of
    samples at which it occurred.
    """

    def __init__(self, prior: np.ndarray) -> None:
        self.prior = prior / prior.sum()
        self.n_seen = 0
        self.log_ratio = np.zeros(len(prior))
        self.lowest = np.zeros(len(prior))
        self.lowest_at = np.zeros(len(prior), dtype=np.int64)

    def advance(
        self, forecast: np.ndarray, event: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray:
        """Log ratios (n, A) after each of the samples, added to those before."""
        step = self._steps(forecast, event)
        if weight is not None:
            step = weight[:, None] * step
        path = np.cumsum(np.concatenate([self.log_ratio[None], step]), axis=0)[1:]
        smallest = path.min(axis=0)
        lower = smallest < self.lowest
        at = self.n_seen + 1 + path.argmin(axis=0)
        self.lowest = np.where(lower, smallest, self.lowest)
        self.lowest_at = np.where(lower, at, self.lowest_at)
        self.log_ratio = path[-1].copy()
        self.n_seen += len(path)
        return path

    def _steps(self, forecast, event):
        raise NotImplementedError

    def forget(self) -> None:
        """Start again, at a ratio of one."""
        self.log_ratio = np.zeros(len(self.prior))
        self.lowest = np.zeros(len(self.prior))
        self.lowest_at = np.full(len(self.prior), self.n_seen)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by name."""
        names = ("log_ratio", "lowest", "lowest_at")
        return {name: getattr(self, name) for name in names} | {"n_seen": np.array(self.n_seen)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state that `arrays` returned; raises for one of other alternatives."""
        known, n_seen = self.arrays(), int(arrays["n_seen"])
        shape = (min(n_seen, _FIRST), *np.shape(known.get("landmarks", 0))[1:])
        known |= {name: np.empty(shape) for name in ("landmarks", "residuals") if name in known}
        require_arrays(arrays, known)
        sums = [array for name, array in arrays.items() if name != "log_ratio"]
        at = arrays["lowest_at"]
        finite = all(np.isfinite(array).all() for array in sums)
        require(finite and ((at >= 0) & (at <= n_seen)).all(), "a sum of a stream")
        require(arrays.get("next_use", n_seen + 1) > n_seen >= 0, "next_use")
        for name, array in arrays.items():
            setattr(self, name, array if array.ndim else int(array))


class ScoreAlternatives(Alternatives):
    r"""Alternatives of the probability of one event.

    The log odds change by :math:`\eta \phi(p)` with the sizes :math:`\eta` of `SIGNED`: a shift
    (:math:`\phi = 1`), a slope (:math:`\phi` is the logit, standardised by the mean and standard
    deviation of the earlier ones), and `harmonics` sines and cosines of p and of its rank. Another
    alternative is a mixture of the forecast with a uniform distribution, which detects forecasts
    close to 0 or 1 that are wrong. `function` returns other features, shape (n, J), in place of
    sines and cosines.
    """

    def __init__(
        self, harmonics: int = HARMONICS, function: Callable[..., np.ndarray] | None = None
    ) -> None:
        self.harmonics, self.function = harmonics, function
        n_features = 2 * (harmonics + harmonics // 2)
        self.kinds = ["shift", "slope"]
        if function is not None:
            n_features = np.asarray(function(np.array([0.5]))).size
        self.kinds += ["curve"] * n_features
        share = np.array([1.0, 1.0] + [_HARMONIC_PRIOR] * n_features)
        prior = np.repeat(share / len(SIGNED), len(SIGNED))
        mixed = np.full(len(UNIFORM), _HARMONIC_PRIOR / len(UNIFORM))
        super().__init__(np.concatenate([prior, mixed]))
        self.sums = np.zeros(2)  # of logits and of their squares
        self.cells = np.zeros((3, N_CELLS))  # of samples, residuals and forecasts
        self.lowest_cells = np.zeros((len(prior) + len(mixed), 3, N_CELLS))  # at each lowest ratio

    def advance(
        self, forecast: np.ndarray, event: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray:
        """Log ratios (n, A) after each of the samples, added to those before."""
        path = super().advance(forecast, event, weight)
        place = np.minimum((position_of(forecast) * N_CELLS).astype(np.int64), N_CELLS - 1)
        terms = np.stack([np.ones(len(forecast)), event - forecast, forecast])
        sums, lowest, start = self.cells.copy(), self.lowest_cells.copy(), 0
        number = self.lowest_at - (self.n_seen - len(path))
        for stop in sorted({*number[number > 0].tolist(), len(path)}):
            for row in range(3):  # one by one: the same for all batches
                np.add.at(sums[row], place[start:stop], terms[row, start:stop])
            lowest[number == stop] = sums
            start = stop
        self.cells, self.lowest_cells = sums, lowest
        return path

    def forget(self) -> None:
        """Start again, at a ratio of one."""
        super().forget()
        self.cells = np.zeros((3, N_CELLS))
        self.lowest_cells = np.zeros_like(self.lowest_cells)

    def _steps(self, forecast, event):
        mean, spread = self._moments(forecast)
        features = self.features(forecast, mean, spread)
        tilt = (features[:, :, None] * SIGNED).reshape(len(forecast), -1)
        steps = event[:, None] * tilt - np.log1p(forecast[:, None] * np.expm1(tilt))
        chance = np.where(event, forecast, 1 - forecast)  # of the label
        chance = np.where(chance > 0, np.maximum(chance, _TINY), 0.0)  # 1 / chance is finite
        with np.errstate(divide="ignore"):
            mixed = [np.log1p(share * ((0.5 - chance) / chance)) for share in UNIFORM]
        return np.column_stack([steps, *mixed])

    def _moments(self, forecast):
        """Mean and standard deviation of the earlier logits, at each sample."""
        logit = _logit(forecast)
        sums = np.cumsum(np.vstack([self.sums, np.column_stack([logit, logit**2])]), axis=0)
        earlier, self.sums = sums[:-1], sums[-1]
        count = self.n_seen + np.arange(len(forecast), dtype=np.float64)
        mean = np.where(count > 0, earlier[:, 0] / np.maximum(count, 1), logit)
        # The standard deviation is shrunken towards 2 by four samples.
        variance = (earlier[:, 1] + 16.0) / (count + 4) - mean**2 * (count / (count + 4))
        return mean, np.sqrt(np.maximum(variance, 0.05))

    def features(self, forecast: np.ndarray, mean: Any, spread: Any) -> np.ndarray:
        """Features (n, J) of scores, given the moments of the earlier logits."""
        position = (_logit(forecast) - mean) / spread
        position = np.clip(position, -_MOST_POSITION, _MOST_POSITION)
        columns = [np.ones(len(forecast)), position]
        if self.function is not None:
            return np.column_stack([*columns, self._function_values(forecast)])
        for values, most in ((forecast, self.harmonics), (ndtr(position), self.harmonics // 2)):
            for k in range(1, most + 1):
                columns += [np.sin(2 * np.pi * k * values), np.cos(2 * np.pi * k * values)]
        return np.column_stack(columns)

    def _function_values(self, forecast):
        """Values (n, J) of the function of the user."""
        values = np.asarray(self.function(forecast), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(forecast):
            raise ValueError(
                f"features(score) must return an array of shape ({len(forecast)}, J) for "
                f"{len(forecast)} scores, got shape {values.shape}."
            )
        if not (np.abs(values) <= _MOST_FEATURE).all():
            raise ValueError(
                f"features(score) must return numbers between -{_MOST_FEATURE} and "
                f"{_MOST_FEATURE}, best between -1 and 1."
            )
        values = values.reshape(len(forecast), -1)
        known = (len(self.prior) - len(UNIFORM)) // len(SIGNED) - 2
        if values.shape[1] != known:
            raise ValueError(
                f"features(score) must always return {known} columns, got {values.shape[1]}."
            )
        return values

    def cells_since(self, number: int) -> np.ndarray:
        """Sums (3, N_CELLS) of the samples after an alternative had its lowest ratio."""
        if self.lowest_at[number] == self.n_seen:  # now: of all samples
            return self.cells
        return self.cells - self.lowest_cells[number]

    def worst_range(self, cells: np.ndarray) -> tuple[float, float, float]:
        """The range of scores of the largest deviance: its ends, and the mean residual.

        The deviance is that of the frequency of the event from the mean forecast, in all samples of
        the range whose sums are `cells` (3, N_CELLS).
        """
        largest, worst = -1.0, (0.0, 1.0, 0.0)
        edges = score_of(np.arange(N_CELLS + 1) / N_CELLS)
        for first in range(N_CELLS):
            count, residual, expected = np.cumsum(cells[:, first:], axis=1)
            observed = np.clip(expected + residual, 0, count)
            tiny = 1e-12 * np.maximum(count, 1)  # of an event that was impossible
            deviance = xlogy(observed, observed / np.maximum(expected, tiny)) + xlogy(
                count - observed, (count - observed) / np.maximum(count - expected, tiny)
            )
            last = int(deviance.argmax())
            if deviance[last] > largest:
                largest = float(deviance[last])
                ends = float(edges[first]), float(edges[first + last + 1])
                worst = (*ends, float(residual[last] / max(count[last], 1.0)))
        return worst

    def common_direction(self, cells: np.ndarray) -> str | None:
        """Direction in which low and high scores both err by a standard error; None otherwise."""
        count, residual, expected = cells
        variance = expected * (1 - expected / np.maximum(count, 1))
        below = np.cumsum(count) <= count.sum() / 2
        sides = np.array([[residual[half].sum(), variance[half].sum()] for half in (below, ~below)])
        ratio = sides[:, 0] / np.sqrt(np.maximum(sides[:, 1], _TINY))
        return "too_low" if ratio.min() > 1 else "too_high" if ratio.max() < -1 else None

    def kind_of(self, number: int) -> tuple[str, float]:
        """Kind of an alternative, and the change of the log odds per unit of its feature."""
        place, size = divmod(number, len(SIGNED))
        if place >= len(self.kinds):
            return "uniform", -1.0
        return self.kinds[place], float(SIGNED[size])

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by name."""
        cells = {"cells": self.cells, "lowest_cells": self.lowest_cells}
        return super().arrays() | {"sums": self.sums, **cells}


class TemperatureAlternatives(Alternatives):
    """Powers of all probabilities, divided by their sum, with the exponents `FACTORS`.

    Forecasts and events have shape (n, K).
    """

    def __init__(self) -> None:
        super().__init__(np.ones(len(FACTORS)))

    def _steps(self, forecast, event):
        with np.errstate(divide="ignore"):
            logs = np.log(forecast)
        log_chance = logs[event]  # of the label
        steps = []
        for factor in FACTORS:
            total = np.log(np.exp(factor * logs).sum(axis=1))
            with np.errstate(invalid="ignore"):
                step = (factor - 1) * log_chance - total
            steps.append(np.where(np.isinf(log_chance), np.inf, step))
        return np.column_stack(steps)


class KernelAlternatives(Alternatives):
    r"""Tilts along the residuals of earlier samples with similar forecasts.

    :math:`q_k \propto p_k \exp(\eta h_k(p))` with :math:`h(p) = \sum_j k(p, z_j) R_j`,
    :math:`R_j = \sum_s k(z_j, p_s) (y_s - p_s)` over earlier samples s and the first 50 forecasts
    z, divided by the largest length at z. Sums are used from fixed numbers of samples on: 50, and
    then ten percent more each time. Forecasts and events have shape (n, K).
    """

    def __init__(self, kernel: Kernel, n_classes: int) -> None:
        super().__init__(np.ones(len(SIZES)))
        middle = np.full((1, n_classes), 1 / n_classes)
        try:
            kernel(middle, middle)
        except TypeError:
            raise ValueError(
                f"features must be a kernel whose values are numbers, got {kernel!r}."
            ) from None
        self.kernel = kernel
        self.landmarks = np.empty((0, n_classes))
        self.residuals = np.empty((0, n_classes))  # of the landmarks; then sums around each
        self.used = np.zeros((_FIRST, n_classes))
        self.next_use = _FIRST

    def _steps(self, forecast, event):
        steps, start, at = [], 0, self.n_seen
        while start < len(forecast):
            stop = min(len(forecast), start + self.next_use - at)
            p, hit = forecast[start:stop], event[start:stop]
            steps.append(self._tilted(p, hit) if at >= _FIRST else np.zeros((len(p), len(SIZES))))
            self._add(p, hit - p)
            at, start = at + len(p), stop
            if at == self.next_use:
                self._use(at)
        return np.concatenate(steps)

    def _tilted(self, p, hit):
        witness = self.kernel(p, self.landmarks) @ self.used
        steps = []
        for size in SIZES:
            tilt = size * witness
            steps.append((hit * tilt).sum(axis=1) - np.log((p * np.exp(tilt)).sum(axis=1)))
        return np.column_stack(steps)

    def _add(self, p, residual):
        if len(self.landmarks) < _FIRST:
            self.landmarks = np.concatenate([self.landmarks, p])
            self.residuals = np.concatenate([self.residuals, residual])
        else:
            self.residuals = self.residuals + self.kernel(self.landmarks, p) @ residual

    def _use(self, at):
        gram = self.kernel(self.landmarks, self.landmarks)
        if at == _FIRST:
            self.residuals = gram @ self.residuals
        length = np.sqrt(np.square(gram @ self.residuals).sum(axis=1).max())
        if length > 0:
            self.used = self.residuals / length
        self.next_use = int(at * _GROWTH)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by name."""
        names = ("landmarks", "residuals", "used")
        counts = {"next_use": np.array(self.next_use)}
        return super().arrays() | {name: getattr(self, name) for name in names} | counts


def position_of(score: np.ndarray) -> np.ndarray:
    """Scores on a scale that is finer near 0 and 1, from 0 to 1."""
    return (1 + np.sqrt(score) - np.sqrt(1 - score)) / 2


def score_of(position: np.ndarray) -> np.ndarray:
    """The score at a position."""
    s = 2 * position - 1
    return (1 + s * np.sqrt(2 - s**2)) / 2


def _logit(forecast):
    with np.errstate(divide="ignore"):
        logit = np.log(forecast) - np.log1p(-forecast)
    return np.clip(logit, -_MOST_LOGIT, _MOST_LOGIT)


# --- All events of a notion -----------------------------------------------------------------------


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
        event = f" for {self.event}" if self.event else ""
        sign = "too low" if self.difference > 0 else "too high"
        where = f"{sign} for scores from {self.low:.2g} to {self.high:.2g}"
        first = words[self.direction]
        said = where if first == sign else f"{first}, most of all {where}"
        return f"Forecasts{event} are {said}, since sample {self.since + 1:,}."


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
        resolved = resolve_notion(notion)
        if not isinstance(resolved, tuple(NOTIONS.values())):
            raise ValueError(
                "notion must be 'auto', 'top_label', 'classwise', 'cumulative' or 'canonical' for "
                f"a stream, got {notion!r}."
            )
        notion = resolved.for_columns(len(classes))
        if notion.ordered:
            check_class_order(classes)
        self.streams = _streams(notion, features, classes)
        self.prior = np.array([stream.prior for stream in self.streams])

    def advance(self, problem: Problem, weight: np.ndarray | None) -> list[np.ndarray]:
        """Log ratios (n, A) of each stream after each of the samples."""
        ratios = []
        for stream in self.streams:
            forecast, event = stream.read(problem)
            ratios.append(stream.alternatives.advance(forecast, event, weight))
        return ratios

    def average(self, values: list[np.ndarray]) -> np.ndarray:
        """Logarithm (n,) of the average of values (n, A) of each stream, given by logarithms."""
        return log_mean(np.column_stack(self._averages(values)), self.prior)

    def evidence(
        self, values: list[np.ndarray] | None = None, leading: tuple[int, int] | None = None
    ) -> Evidence | None:
        """Description of the evidence for the event with the most evidence; None with a kernel.

        `values` are logarithms (A,) for each stream, by default the log ratios. `leading` are the
        numbers of a stream, which is described, and of its alternative, which tells where the
        samples begin. For a temperature the top label is described.
        """
        if values is None:
            values = [stream.alternatives.log_ratio for stream in self.streams]
        scores = [
            k
            for k, stream in enumerate(self.streams)
            if isinstance(stream.alternatives, ScoreAlternatives)
        ]
        if not scores:
            return None
        place, number = (None, None) if leading is None else leading
        if place is None:
            averages = self._averages(values)
            place = max(scores, key=lambda k: averages[k])
        elif place not in scores:
            place, number = scores[0], None
        stream = self.streams[place]
        return _evidence(stream.event, stream.alternatives, values[place], number)

    def leading(self, values: list[np.ndarray]) -> tuple[int, int]:
        """Numbers of the stream with the most evidence and of its largest alternative."""
        place = int(np.argmax(self._averages(values)))
        return place, int(np.argmax(values[place]))

    def _averages(self, values):
        """Logarithm of the average of values (..., A) of each stream."""
        pairs = zip(self.streams, values, strict=True)
        return [log_mean(logs, stream.alternatives.prior) for stream, logs in pairs]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by number of the stream and name."""
        return {
            f"{k}.{name}": array
            for k, stream in enumerate(self.streams)
            for name, array in stream.alternatives.arrays().items()
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state that `arrays` returned."""
        for k, stream in enumerate(self.streams):
            stream.alternatives.restore(select(arrays, f"{k}."))


def select(arrays: dict[str, np.ndarray], start: str) -> dict[str, np.ndarray]:
    """Arrays whose names begin so, under the rest of their names."""
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }


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


def event_terms(
    part: Problem, weight: np.ndarray | None, notion: Notion, number: int = 0
) -> np.ndarray:
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
        streams = [
            _Stream(1 / 3, "", ScoreAlternatives(**options), TopLabel()),
            _Stream(1 / 3, "", TemperatureAlternatives()),
        ]
        for k, label in enumerate(classes.tolist()):
            alternatives = ScoreAlternatives(harmonics=0)
            streams.append(
                _Stream(1 / (3 * n_classes), f"class {label}", alternatives, Classwise(), k)
            )
        return streams
    if isinstance(notion, (Classwise, Cumulative)):
        events = [columns[-1] for columns in notion.column_names(classes)]
        return [
            _Stream(1 / len(events), event, ScoreAlternatives(**options), notion, k)
            for k, event in enumerate(events)
        ]
    return [_Stream(1.0, "", ScoreAlternatives(**options), notion)]


def log_mean(log_values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Logarithm of the weighted mean of values (..., A) given by their logarithms."""
    largest = log_values.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scaled = np.exp(log_values - largest)
    mean = largest[..., 0] + np.log((scaled * weight).sum(axis=-1))
    return np.where(np.isinf(largest[..., 0]), largest[..., 0], mean)


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
    best = best if kinds[best] >= 0.5 else "uneven"
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
