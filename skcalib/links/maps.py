r"""Parametric maps of the logits: affine maps, binary maps and diagonal maps.

Affine maps (`VectorMap`, `MatrixMap`, `DirichletMap`) are written as one common slope plus
deviations, :math:`W = \beta I + M`. *Structured* shrinkage shrinks the deviations and the biases
towards zero and leaves the temperature free. With few samples the fit is close to temperature
scaling. With many samples the shrinkage has no effect. The stiffness of a parameter is its mean
squared effect on a logit; for a slope it is the mean square of the logits that it multiplies.

Binary maps (`PlattMap`, `BetaMap`, `QuadraticMap`) are for problems of two columns (rest, class).
They take the logits :math:`(\log s_0, \log s_1)` and return :math:`(0, \ell)`.

Diagonal maps (`MonotonePieces`, `MonotoneNetwork`) apply one increasing function to every logit,
:math:`z_k \to g(z_k)`. They keep the order of the classes for every g. They are injective: if all
outputs shift by one constant, then all logits move in the same direction, which is impossible for
two forecasts that both sum to one. The function g is the integral of a positive function of the
logit. That function is a step function between quantiles of the logits (`MonotonePieces`; the fit
is convex) or the exponential of a small network (`MonotoneNetwork`), integrated by the trapezoidal
rule. Outside the range of the fitted logits g is linear.
"""

from __future__ import annotations

from math import isqrt
from typing import Literal, Self

import numpy as np

from skcalib.links._base import Link


class Affine(Link):
    """Base class of affine maps, linear in features of each class; theta[0] is the common slope."""

    #: Mean square of the logits, weighted by s (1 - s) and unweighted.
    sizes_: tuple[float, ...] = (1.0, 1.0)

    def prepare(self, logits: np.ndarray) -> Self:
        square = np.square(logits)
        forecast = np.exp(logits - logits.max(axis=1, keepdims=True))
        forecast /= forecast.sum(axis=1, keepdims=True)
        spread = forecast * (1 - forecast)
        total = spread.sum()
        sizes = np.sum(spread * square) / total if total > 0 else 0.0, square.mean()
        self.sizes_ = tuple(float(size) if size > 0 else 1.0 for size in sizes)
        return self

    def features(self, logits: np.ndarray) -> np.ndarray:
        """Features (K, q, n) of the classes of logits (K, n); (1, q, n) if they are the same."""
        raise NotImplementedError

    def places(self, n_classes: int) -> np.ndarray:
        """Places (K, q) in theta of the coefficients of these features; the last are biases."""
        raise NotImplementedError

    def diagonal(self, n_classes: int) -> np.ndarray:
        """Places (K,) of the deviations from the common slope."""
        raise NotImplementedError

    def balanced(self, n_classes: int) -> list[np.ndarray]:
        """Places of parameters that change together without any effect, but for a common slope."""
        shared = self.places(n_classes).T
        return [self.diagonal(n_classes), *shared]

    def n_classes(self, n_parameters: int) -> int:
        """K of the length of theta."""
        raise NotImplementedError

    def matrix(self, theta: np.ndarray, n_classes: int) -> np.ndarray:
        """The whole matrix W."""
        raise NotImplementedError

    def continues(self, theta: np.ndarray, n_classes: int) -> bool:
        """Whether no class becomes less likely, relative to another, as its own logit rises.

        A map that is this for minus the logits continues, too.
        """
        matrix = self.matrix(theta, n_classes)
        steps = np.diag(matrix) - matrix
        return bool(np.all(steps >= 0) or np.all(steps <= 0))

    def tempered(self, n_classes: int, beta: float) -> np.ndarray:
        """Parameters of temperature scaling with the inverse temperature beta."""
        theta = self.start(n_classes)
        theta[0] = beta
        return theta


class VectorMap(Affine):
    """z_k -> (beta + delta_k) z_k + b_k; theta = (beta, delta, b)."""

    def start(self, n_classes: int) -> np.ndarray:
        return np.append(1.0, np.zeros(2 * n_classes))

    def features(self, logits: np.ndarray) -> np.ndarray:
        return np.stack([logits, np.ones_like(logits)], axis=1)

    def places(self, n_classes: int) -> np.ndarray:
        return np.arange(1, 2 * n_classes + 1).reshape(2, n_classes).T

    def diagonal(self, n_classes: int) -> np.ndarray:
        return np.arange(1, n_classes + 1)

    def balanced(self, n_classes: int) -> list[np.ndarray]:
        return [*self.places(n_classes).T]

    def n_classes(self, n_parameters: int) -> int:
        return (n_parameters - 1) // 2

    def matrix(self, theta: np.ndarray, n_classes: int) -> np.ndarray:
        return np.diag(theta[0] + theta[1 : 1 + n_classes])

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        delta, bias = np.split(theta[1:], 2)
        return (theta[0] + delta) * logits + bias

    def _write(self, add, theta, x):
        delta, bias = np.split(theta[1:], 2)
        return add("scale", x, factor=theta[0] + delta, shift=bias)

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        by_class = np.sum(cotangent * logits, axis=0)
        return np.concatenate([[by_class.sum()], by_class, cotangent.sum(axis=0)])

    def stiffness(self, n_classes: int) -> np.ndarray:
        return np.repeat([0.0, self.sizes_[0], 1.0], [1, n_classes, n_classes])

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        # Slopes of one sign: if the outputs shift by one constant, all logits move in the same
        # direction, and two different forecasts cannot both sum to one.
        slopes = theta[0] + theta[1 : 1 + n_classes]
        return bool(np.all(slopes > 0) or np.all(slopes < 0))

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        deviations = theta[1:].reshape(2, n_classes)
        return bool(theta[0] + deviations[0, 0] > 0 and np.all(np.ptp(deviations, axis=1) == 0))


class MatrixMap(Affine):
    """z -> (beta I + M) z + b; theta = (beta, M by rows, b)."""

    #: Relative strength of the shrinkage of the diagonal, of the rest of the matrix, and of biases.
    strengths = (1.0, 10.0, 1.0)

    def start(self, n_classes: int) -> np.ndarray:
        return np.append(1.0, np.zeros(n_classes * (n_classes + 1)))

    def features(self, logits: np.ndarray) -> np.ndarray:
        return np.vstack([logits, np.ones(logits.shape[1])])[None]

    def places(self, n_classes: int) -> np.ndarray:
        places = np.arange(1, n_classes * (n_classes + 1) + 1)
        slopes, biases = np.split(places, [n_classes**2])
        return np.column_stack([slopes.reshape(n_classes, n_classes), biases])

    def diagonal(self, n_classes: int) -> np.ndarray:
        return np.arange(n_classes) * (n_classes + 1) + 1

    def n_classes(self, n_parameters: int) -> int:
        return isqrt(n_parameters - 1)  # K (K + 1) is between two squares

    def matrix(self, theta: np.ndarray, n_classes: int) -> np.ndarray:
        deviation = theta[1 : 1 + n_classes**2].reshape(n_classes, n_classes)
        return theta[0] * np.eye(n_classes) + deviation

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        n_classes = logits.shape[1]
        return logits @ self.matrix(theta, n_classes).T + theta[1 + n_classes**2 :]

    def _write(self, add, theta, x):
        n_classes = self.n_classes(len(theta))
        x = add("matrix", x, coef=self.matrix(theta, n_classes).T)
        return add("scale", x, shift=theta[1 + n_classes**2 :])

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        slopes = cotangent.T @ logits
        return np.concatenate([[np.trace(slopes)], slopes.ravel(), cotangent.sum(axis=0)])

    def stiffness(self, n_classes: int) -> np.ndarray:
        diagonal, off_diagonal, bias = self.strengths
        matrix = np.full((n_classes, n_classes), off_diagonal * self.sizes_[1])
        np.fill_diagonal(matrix, diagonal * self.sizes_[0])
        return np.concatenate([[0.0], matrix.ravel(), np.full(n_classes, bias)])

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        # The outputs shift by one constant only along W^-1 1. Two forecasts that sum to one cannot
        # differ by such a step if all its components have one sign.
        matrix = self.matrix(theta, n_classes)
        if np.linalg.matrix_rank(matrix) < n_classes:
            return False
        direction = np.linalg.solve(matrix, np.ones(n_classes))
        return bool(np.all(direction > 0) or np.all(direction < 0))

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        deviation = theta[1 : 1 + n_classes**2].reshape(n_classes, n_classes)
        bias = theta[1 + n_classes**2 :]
        alike = np.ptp(bias) == 0 and np.all(deviation == np.diag(np.diag(deviation)))
        slopes = theta[0] + np.diag(deviation)
        return bool(alike and np.ptp(slopes) == 0 and slopes[0] > 0)


class DirichletMap(MatrixMap):
    """As `MatrixMap`; only off-diagonal entries and biases are shrunk (ODIR)."""

    strengths = (0.0, 1.0, 1.0)


# --- Binary maps ----------------------------------------------------------------------------------


class BinaryMap(Link):
    """Base class: linear in its parameters, l = features(logits) @ theta.

    See Also
    --------
    skcalib.links.Link : Maps of several classes.
    skcalib.recalibration.BinaryLinkRecalibrator : Makes a recalibrator of it.
    """

    #: Parameters of the identity map.
    identity: tuple[float, ...] = ()

    def features(self, logits: np.ndarray) -> np.ndarray:
        """Features (n, P) of logits (n, 2)."""
        raise NotImplementedError

    def continues(self, theta: np.ndarray) -> bool:
        """Whether the map is monotone for all logits.

        Where it is not, a line in the log odds replaces it beyond the scores that it was fitted to
        (:ref:`beyond_the_scores`).
        """
        return False

    def start(self, n_classes: int) -> np.ndarray:
        if n_classes != 2:
            raise ValueError(
                f"{type(self).__name__} maps problems of two columns, got {n_classes} classes."
            )
        return np.array(self.identity)

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        value = self.features(logits) @ theta
        return np.column_stack([np.zeros(len(value)), value])

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        return self.features(logits).T @ cotangent[:, 1]


class PlattMap(BinaryMap):
    """l -> slope l + intercept; theta = (slope, intercept)."""

    identity = (1.0, 0.0)

    def features(self, logits: np.ndarray) -> np.ndarray:
        return np.column_stack([logits[:, 1] - logits[:, 0], np.ones(len(logits))])

    def _write(self, add, theta, x):
        return add("curve", add.logit(x), breaks=[], coef=[theta[::-1]])

    def continues(self, theta: np.ndarray) -> bool:
        """Always: it is a line."""
        return True

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        return bool(theta[0] != 0)

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        return bool(theta[0] > 0 and theta[1] == 0)


class BetaMap(BinaryMap):
    """l -> a log s_1 - b log s_0 + c with a, b >= 0 (Kull, Silva Filho and Flach 2017).

    `parameters`: "abm" all three; "am" with b = a; "ab" with c = (a - b) log 2, so that 1/2 stays
    1/2 (their m = 1/2): a log(2 s_1) - b log(2 s_0).
    """

    def __init__(self, parameters: Literal["abm", "am", "ab"] = "abm") -> None:
        self.parameters = parameters

    def features(self, logits: np.ndarray) -> np.ndarray:
        first, second = logits[:, 1], -logits[:, 0]
        if self.parameters == "ab":
            return np.column_stack([first + np.log(2), second - np.log(2)])
        slopes = [first, second] if self.parameters == "abm" else [first + second]
        return np.column_stack([*slopes, np.ones(len(logits))])

    @property
    def identity(self) -> tuple[float, ...]:  # type: ignore[override]
        return {"abm": (1.0, 1.0, 0.0), "am": (1.0, 0.0), "ab": (1.0, 1.0)}[self.parameters]

    def bounds(self, n_classes: int) -> list[tuple[float | None, float | None]] | None:
        slopes = 1 if self.parameters == "am" else 2
        return [(0.0, None)] * slopes + [(None, None)] * self.parameters.count("m")

    def slopes(self, theta: np.ndarray) -> tuple[float, float]:
        """Both slopes (a, b)."""
        return (theta[0], theta[0]) if self.parameters == "am" else (theta[0], theta[1])

    def intercept(self, theta: np.ndarray) -> float:
        """The intercept c."""
        return (theta[0] - theta[1]) * np.log(2) if self.parameters == "ab" else theta[-1]

    def _write(self, add, theta, x):
        a, b = self.slopes(theta)
        return add("scale", add("matrix", x, coef=[[-b], [a]]), shift=self.intercept(theta))

    def continues(self, theta: np.ndarray) -> bool:
        """Always: no slope is negative."""
        return True

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        return bool(max(self.slopes(theta)) > 0)

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        a, b = self.slopes(theta)
        return bool(a == b > 0 and self.intercept(theta) == 0)


class QuadraticMap(BinaryMap):
    """l -> curvature l^2 + slope l + intercept; theta = (slope, intercept, curvature)."""

    identity = (1.0, 0.0, 0.0)

    def features(self, logits: np.ndarray) -> np.ndarray:
        value = logits[:, 1] - logits[:, 0]
        return np.column_stack([value, np.ones(len(value)), value**2])

    def stiffness(self, n_classes: int) -> np.ndarray:
        return np.array([0.0, 0.0, 1.0])

    def _write(self, add, theta, x):
        return add("curve", add.logit(x), breaks=[], coef=[theta[[1, 0, 2]]])

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        # A parabola is not monotone; a line is, unless it is constant.
        return bool(theta[2] == 0 and theta[0] != 0)

    def continues(self, theta: np.ndarray) -> bool:
        """Whether the parabola is a line."""
        return bool(theta[2] == 0)


# --- Diagonal maps --------------------------------------------------------------------------------


_LEAST = 1e-6  # lower bound of the slopes: g is strictly increasing


class _Diagonal(Link):
    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        return True

    preserves_order = injective


class MonotonePieces(_Diagonal):
    """Piecewise linear g; theta = slopes between `n_pieces` + 1 knots, quantiles of all logits."""

    def __init__(self, n_pieces: int = 16) -> None:
        self.n_pieces = n_pieces

    def prepare(self, logits: np.ndarray) -> Self:
        levels = np.linspace(0, 1, self.n_pieces + 1)[1:-1]
        self.knots_ = np.unique(np.quantile(logits, levels))
        return self

    def start(self, n_classes: int) -> np.ndarray:
        return np.ones(len(self.knots_) + 1)

    def bounds(self, n_classes: int) -> list[tuple[float | None, float | None]] | None:
        return [(_LEAST, None)] * (len(self.knots_) + 1)

    def tempered(self, n_classes: int, beta: float) -> np.ndarray:
        """Parameters of temperature scaling with the inverse temperature beta."""
        return self.start(n_classes) * beta

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        heights = np.append(0.0, np.cumsum(theta[1:-1] * np.diff(self.knots_)))
        piece = np.searchsorted(self.knots_, logits, side="right")
        base = np.maximum(piece - 1, 0)
        return heights[base] + theta[piece] * (logits - self.knots_[base])

    def _write(self, add, theta, x):
        heights = np.append(0.0, np.cumsum(theta[1:-1] * np.diff(self.knots_)))
        coef = np.column_stack([np.append(0.0, heights), theta])
        return add("curve", x, breaks=self.knots_, coef=coef)

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        flat, c = logits.ravel(), cotangent.ravel()
        piece = np.searchsorted(self.knots_, flat, side="right")
        base = np.maximum(piece - 1, 0)
        n_pieces = len(theta)
        gradient = np.bincount(piece, c * (flat - self.knots_[base]), n_pieces)
        # A slope also raises g above its piece.
        above = np.cumsum(np.bincount(base, c, n_pieces)[::-1])[::-1]
        gradient[1:-1] += above[1:-1] * np.diff(self.knots_)
        return gradient


class MonotoneNetwork(_Diagonal):
    """g' = exp(network), where the network has one input, the logit, and two hidden layers.

    The last layer starts at zero, so that the initial g is the identity or another line. Each
    hidden layer has `hidden` units, the trapezoidal rule `n_grid` points, and `seed` draws the
    first two layers.
    """

    def __init__(self, hidden: int = 8, n_grid: int = 200, seed: int = 0) -> None:
        self.hidden, self.n_grid, self.seed = hidden, n_grid, seed

    def prepare(self, logits: np.ndarray) -> Self:
        low, high = float(logits.min()), float(logits.max())
        if high - low < 1e-12:
            low, high = low - 1, high + 1
        self.grid_ = np.linspace(low, high, self.n_grid)
        self._inputs = (2 * (self.grid_ - low) / (high - low) - 1)[:, None]
        return self

    def start(self, n_classes: int) -> np.ndarray:
        rng, h = np.random.RandomState(self.seed), self.hidden
        first = [rng.normal(size=h), rng.normal(size=h)]
        second = [rng.normal(size=h * h) / np.sqrt(h), 0.1 * rng.normal(size=h)]
        return np.concatenate([*first, *second, np.zeros(h + 1)])

    def stiffness(self, n_classes: int) -> np.ndarray:
        # Every parameter but the last bias, which is the logarithm of the mean slope.
        return np.append(np.ones(len(self.start(n_classes)) - 1), 0.0)

    def tempered(self, n_classes: int, beta: float) -> np.ndarray:
        """Parameters of temperature scaling with the inverse temperature beta."""
        theta = self.start(n_classes)
        theta[-1] = np.log(beta)
        return theta

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        left, share = self._place(logits)
        heights = self._heights(theta)[0]
        return heights[left] * (1 - share) + heights[left + 1] * share

    def _write(self, add, theta, x):
        heights, inner = self._heights(theta)[0], self.grid_[1:-1]
        at = heights[np.append(1, np.arange(1, len(inner) + 1))]
        coef = np.column_stack([at, np.diff(heights) / (self.grid_[1] - self.grid_[0])])
        return add("curve", x, breaks=inner, coef=coef)

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        left, share = self._place(logits)
        n = self.n_grid
        pull = np.bincount(left.ravel(), (cotangent * (1 - share)).ravel(), n)
        pull += np.bincount(left.ravel() + 1, (cotangent * share).ravel(), n)
        # Heights are sums of trapezoids: each slope contributes to all heights above it.
        above = np.cumsum(pull[::-1])[::-1]
        step = 0.5 * (self.grid_[1] - self.grid_[0])
        to_slope = np.zeros(n)
        to_slope[1:] += above[1:] * step
        to_slope[:-1] += above[1:] * step
        _, slope, (a1, a2) = self._heights(theta)
        _, _, w2, _, w3, _ = self._unpack(theta)
        d3 = (to_slope * slope)[:, None]
        d2 = d3 * w3 * (1 - a2**2)
        d1 = (d2 @ w2.T) * (1 - a1**2)
        parts = [self._inputs.T @ d1, d1.sum(0), a1.T @ d2, d2.sum(0), a2.T @ d3, d3.sum(0)]
        return np.concatenate([part.ravel() for part in parts])

    def _unpack(self, theta):
        h = self.hidden
        sizes = np.cumsum([h, h, h * h, h, h])
        w1, b1, w2, b2, w3, b3 = np.split(theta, sizes)
        return w1, b1, w2.reshape(h, h), b2, w3, b3

    def _heights(self, theta):
        w1, b1, w2, b2, w3, b3 = self._unpack(theta)
        a1 = np.tanh(self._inputs * w1 + b1)
        a2 = np.tanh(a1 @ w2 + b2)
        slope = np.exp(np.clip(a2 @ w3 + b3[0], -30, 30))
        step = self.grid_[1] - self.grid_[0]
        heights = np.append(0.0, np.cumsum(0.5 * (slope[1:] + slope[:-1]) * step))
        return heights, slope, (a1, a2)

    def _place(self, logits):
        """Grid interval and relative position of each logit; the end intervals extrapolate."""
        scaled = (logits - self.grid_[0]) / (self.grid_[1] - self.grid_[0])
        left = np.clip(np.floor(scaled), 0, self.n_grid - 2).astype(np.int64)
        return left, scaled - left
