r"""The link protocol, a parametric map of logits into logits, and its binary and diagonal maps.

A link maps the logits :math:`z = \log s` of a forecast s to the forecast
:math:`softmax(f_\theta(z))`. It declares its starting point (the identity map), the map, and the
vector-Jacobian product that turns a cotangent of its output into a gradient in its parameters.
`Link` is the base class and `fit_link` the common optimiser, a quasi-Newton method, under any
proper score.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from skcalib._util.formatting import Record

if TYPE_CHECKING:
    from skcalib.scores import ProperScore


class Link:
    """Base class: implement `start`, `apply` and `vjp`; declare what the map preserves.

    See Also
    --------
    skcalib.testing.check_link : Checks the laws of links.
    """

    def prepare(self, logits: np.ndarray) -> Self:
        """Prepare data-dependent parts of the map, such as knots; return self."""
        return self

    def start(self, n_classes: int) -> np.ndarray:
        """Parameters of the identity map, shape (P,)."""
        raise NotImplementedError

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Logits (n, K) -> logits (n, K)."""
        raise NotImplementedError

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        """Gradient in theta of the sum of cotangent * apply(theta, logits), shape (P,)."""
        raise NotImplementedError

    def bounds(self, n_classes: int) -> list[tuple[float | None, float | None]] | None:
        """Pairs (low, high) for each parameter, or None."""
        return None

    def stiffness(self, n_classes: int) -> np.ndarray:
        """Relative strength of the shrinkage of each parameter towards `start`, shape (P,).

        In units of the mean squared effect of the parameter on a logit; 0 leaves it free.
        """
        return np.zeros(len(self.start(n_classes)))

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        """Whether different forecasts remain different."""
        return False

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        """Whether the order of the classes in each row is kept."""
        return False


@dataclass(frozen=True)
class LinkFit(Record):
    """Result of `fit_link`."""

    theta: np.ndarray
    n_iter: int
    converged: bool
    message: str

    _rows = ("theta",)
    _beside = ("n_iter", "converged", "message")


def fit_link(
    link: Link,
    score: ProperScore,
    logits: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    *,
    shrinkage: float = 0.0,
    start: np.ndarray | None = None,
    max_iter: int = 1000,
    tolerance: float = 1e-9,
    rounding: float = 1e-13,
    n_samples: int | None = None,
) -> LinkFit:
    r"""Minimise the mean loss plus :math:`\frac{\lambda}{2n} \sum_p c_p (\theta_p - start_p)^2`.

    Parameters
    ----------
    link : Link
        The map, prepared.
    score : ProperScore
        Its `logit_loss` is minimised.
    logits, target : array of shape (n, K)
        Calibration set.
    weight : array of shape (n,)
        Positive weights.
    shrinkage : float, default=0.0
        Strength lambda, in samples; c_p is the link's `stiffness`.
    start : array, default=None
        First parameters; the identity map by default.
    max_iter : int, default=1000
        Maximum number of iterations.
    tolerance : float, default=1e-9
        Stop where no component of the gradient is larger, with parameters in units of the inverse
        root of their stiffness.
    rounding : float, default=1e-13
        Stop where a step lowers the value by less than this share of it.
    n_samples : int, default=None
        Number n of samples, where a row stands for several; by default the number of rows.

    Returns
    -------
    LinkFit
        The best parameters found, never worse than `start`.
    """
    n_classes = logits.shape[1]
    identity = link.start(n_classes)
    first = identity if start is None else np.asarray(start, dtype=np.float64)
    share = weight / weight.sum()
    stiffness = link.stiffness(n_classes)
    pull = shrinkage * stiffness / (len(logits) if n_samples is None else n_samples)
    # Stiffness measures the effect of a parameter on a logit: these units make effects comparable.
    free = np.max(stiffness, initial=0.0) or 1.0
    unit = 1 / np.sqrt(np.where(stiffness > 0, stiffness, free))
    bounds = link.bounds(n_classes)
    if bounds is not None:
        ends = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        bounds = np.array(ends) / unit[:, None]

    def objective(scaled):
        theta = scaled * unit
        loss, slope = score.logit_loss(target, link.apply(theta, logits))
        value = share @ loss + 0.5 * pull @ (theta - identity) ** 2
        gradient = link.vjp(theta, logits, share[:, None] * slope) + pull * (theta - identity)
        return value, gradient * unit

    optimum = minimize(
        objective,
        first / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tolerance, "ftol": rounding},
    )
    theta = optimum.x * unit if optimum.fun <= objective(first / unit)[0] else first

    # The line search also stops where rounding exceeds the last decrease: this is an optimum too.
    downhill = (
        optimum.x - optimum.jac if bounds is None else np.clip(optimum.x - optimum.jac, *bounds.T)
    )
    converged = bool(optimum.success or np.abs(downhill - optimum.x).max() < 1e-4)
    return LinkFit(theta, int(optimum.nit), converged, str(optimum.message))


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


class _Layers(NamedTuple):
    """Weights w and biases b of the two hidden layers and the last."""

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray
    w3: np.ndarray
    b3: np.ndarray


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
        layers = self._unpack(theta)
        d3 = (to_slope * slope)[:, None]
        d2 = d3 * layers.w3 * (1 - a2**2)
        d1 = (d2 @ layers.w2.T) * (1 - a1**2)
        parts = [self._inputs.T @ d1, d1.sum(0), a1.T @ d2, d2.sum(0), a2.T @ d3, d3.sum(0)]
        return np.concatenate([part.ravel() for part in parts])

    def _unpack(self, theta):
        h = self.hidden
        sizes = np.cumsum([h, h, h * h, h, h])
        w1, b1, w2, b2, w3, b3 = np.split(theta, sizes)
        return _Layers(w1, b1, w2.reshape(h, h), b2, w3, b3)

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
