r"""Likelihood ratios of alternative calibration curves, sample by sample.

An alternative maps a forecast p to another probability q. It may depend on earlier samples, but not
on the label of the same sample. Products of the ratios are test martingales, see
`SequentialCalibrationTest`. `ScoreAlternatives` are those of one score at a time,
`TemperatureAlternatives` and `KernelAlternatives` those of all classes.

Sums are taken in the order of the samples, so they do not depend on how these are divided into
batches, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, xlogy

from skcalib._util.packing import require, require_arrays

if TYPE_CHECKING:
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

    def advance(self, forecast: np.ndarray, event: np.ndarray, weight: Any) -> np.ndarray:
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
        kept = (min(n_seen, _FIRST), *np.shape(known.get("landmarks", 0))[1:])
        grown = {"landmarks": np.empty(kept), "residuals": np.empty(kept)}
        require_arrays(arrays, {name: grown.get(name, one) for name, one in known.items()})
        finite = all(np.isfinite(one).all() for name, one in arrays.items() if name != "log_ratio")
        at = arrays["lowest_at"]
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

    def advance(self, forecast: np.ndarray, event: np.ndarray, weight: Any) -> np.ndarray:
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
        features = self.features(forecast, *self._moments(forecast))
        tilt = (features[:, :, None] * SIGNED).reshape(len(forecast), -1)
        steps = event[:, None] * tilt - np.log1p(forecast[:, None] * np.expm1(tilt))
        own = np.where(event, forecast, 1 - forecast)
        own = np.where(own > 0, np.maximum(own, _TINY), 0.0)  # 1 / own is finite, and no larger
        with np.errstate(divide="ignore"):
            mixed = [np.log1p(share * ((0.5 - own) / own)) for share in UNIFORM]
        return np.column_stack([steps, *mixed])

    def _moments(self, forecast):
        """Mean and standard deviation of the earlier logits, at each sample."""
        logit = _logit(forecast)
        sums = np.cumsum(np.vstack([self.sums, np.column_stack([logit, logit**2])]), axis=0)
        earlier, self.sums = sums[:-1], sums[-1]
        count = self.n_seen + np.arange(len(forecast), dtype=np.float64)
        mean = np.where(count > 0, earlier[:, 0] / np.maximum(count, 1), logit)
        return mean, _spread(earlier[:, 1], mean, count)

    def features(self, forecast: np.ndarray, mean: Any, spread: Any) -> np.ndarray:
        """Features (n, J) of scores, given the moments of the earlier logits."""
        position = (_logit(forecast) - mean) / spread
        position = np.clip(position, -_MOST_POSITION, _MOST_POSITION)
        columns = [np.ones(len(forecast)), position]
        if self.function is not None:
            return np.column_stack([*columns, self._own_features(forecast)])
        for values, most in ((forecast, self.harmonics), (ndtr(position), self.harmonics // 2)):
            for k in range(1, most + 1):
                columns += [np.sin(2 * np.pi * k * values), np.cos(2 * np.pi * k * values)]
        return np.column_stack(columns)

    def _own_features(self, forecast):
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
        best, found = -1.0, (0.0, 1.0, 0.0)
        edges = score_of(np.arange(N_CELLS + 1) / N_CELLS)
        for first in range(N_CELLS):
            count, residual, expected = np.cumsum(cells[:, first:], axis=1)
            observed = np.clip(expected + residual, 0, count)
            tiny = 1e-12 * np.maximum(count, 1)  # of an event that was impossible
            size = xlogy(observed, observed / np.maximum(expected, tiny)) + xlogy(
                count - observed, (count - observed) / np.maximum(count - expected, tiny)
            )
            last = int(size.argmax())
            if size[last] > best:
                best = float(size[last])
                ends = float(edges[first]), float(edges[first + last + 1])
                found = (*ends, float(residual[last] / max(count[last], 1.0)))
        return found

    def common_direction(self, cells: np.ndarray) -> str | None:
        """Direction in which low and high scores both err by a standard error; None otherwise."""
        count, residual, expected = cells
        variance = expected * (1 - expected / np.maximum(count, 1))
        below = np.cumsum(count) <= count.sum() / 2
        sides = np.array([[residual[one].sum(), variance[one].sum()] for one in (below, ~below)])
        least = sides[:, 0] / np.sqrt(np.maximum(sides[:, 1], _TINY))
        return "too_low" if least.min() > 1 else "too_high" if least.max() < -1 else None

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
        own = logs[event]
        steps = []
        for factor in FACTORS:
            total = np.log(np.exp(factor * logs).sum(axis=1))
            with np.errstate(invalid="ignore"):
                step = (factor - 1) * own - total
            steps.append(np.where(np.isinf(own), np.inf, step))  # a label of probability 0
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


def _spread(squares, mean, count):
    """Standard deviation, shrunken towards 2 by four samples."""
    variance = (squares + 16.0) / (count + 4) - mean**2 * (count / (count + 4))
    return np.sqrt(np.maximum(variance, 0.05))
