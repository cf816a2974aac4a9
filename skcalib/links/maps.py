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

`optimal_inverse_temperature` minimises the log loss. As a function of the inverse temperature
:math:`\beta`, the mean log loss
:math:`f(\beta) = \overline{\log \sum_k e^{\beta z_k} - \beta z_y}` is convex. One pass over the
logits gives its first three derivatives, from the mean, variance and third central moment of z
under :math:`softmax(\beta z)`. Halley's method, safeguarded by a bracket, needs about two passes
after a warm start from 2,000 rows. `BiasCorrectedTemperature` adds one bias per class;
`fit_bias_corrected` fits it by penalised maximum likelihood, with the Newton method
`minimise_convex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2

from skcalib._util.formatting import Record
from skcalib._util.validation import weights_of_mean_one
from skcalib.data.labels import labels_or_shares
from skcalib.links.logits import LogRows
from skcalib.links.newton import likelihood_tolerance, minimise_convex, row_blocks

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


class _NetworkValues(NamedTuple):
    """Heights and slopes of g on the grid; the hidden layers, and the weights behind them."""

    heights: np.ndarray
    slope: np.ndarray
    first: np.ndarray
    second: np.ndarray
    to_second: np.ndarray
    to_slope: np.ndarray


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
        heights = self._network(theta).heights
        return heights[left] * (1 - share) + heights[left + 1] * share

    def _write(self, add, theta, x):
        heights, inner = self._network(theta).heights, self.grid_[1:-1]
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
        network = self._network(theta)
        first, second = network.first, network.second
        d3 = (to_slope * network.slope)[:, None]
        d2 = d3 * network.to_slope * (1 - second**2)
        d1 = (d2 @ network.to_second.T) * (1 - first**2)
        parts = [self._inputs.T @ d1, d1.sum(0), first.T @ d2, d2.sum(0), second.T @ d3, d3.sum(0)]
        return np.concatenate([part.ravel() for part in parts])

    def _network(self, theta):
        h = self.hidden
        w1, b1, w2, b2, w3, b3 = np.split(theta, np.cumsum([h, h, h * h, h, h]))
        w2 = w2.reshape(h, h)
        first = np.tanh(self._inputs * w1 + b1)
        second = np.tanh(first @ w2 + b2)
        slope = np.exp(np.clip(second @ w3 + b3[0], -30, 30))
        step = self.grid_[1] - self.grid_[0]
        heights = np.append(0.0, np.cumsum(0.5 * (slope[1:] + slope[:-1]) * step))
        return _NetworkValues(heights, slope, first, second, w2, w3)

    def _place(self, logits):
        """Grid interval and relative position of each logit; the end intervals extrapolate."""
        scaled = (logits - self.grid_[0]) / (self.grid_[1] - self.grid_[0])
        left = np.clip(np.floor(scaled), 0, self.n_grid - 2).astype(np.int64)
        return left, scaled - left


# --- One temperature for all logits ---------------------------------------------------------------


_SUBSAMPLE = 2000  # rows of the warm start
_MOST_PASSES = 100


def optimal_inverse_temperature(
    logits: np.ndarray | LogRows,
    labels: np.ndarray,
    weight: np.ndarray,
    *,
    low: float = 1e-4,
    high: float = 1e4,
) -> tuple[float, int]:
    """Minimiser of the log loss over beta in [low, high], and the number of passes over the data.

    Logits (n, K) are float32 or float64, and the arithmetic follows. Labels are columns (n,) or
    label distributions (n, K). An optimum beyond an end is returned as that end.
    """
    hit, peak = _hit_and_peak(logits, labels)
    beta, passes = 1.0, 1
    if np.array_equal(logits.min(axis=1), peak):
        return beta, passes  # every forecast is uniform: the loss does not depend on beta
    searches: list[tuple[Any, float]] = [(slice(None), 1e-11)]
    if len(logits) > 4 * _SUBSAMPLE:
        few = np.linspace(0, len(logits) - 1, _SUBSAMPLE).astype(int)
        searches.insert(0, (few, 1e-4))
    for rows, tolerance in searches:
        # beta is rounded to the precision of the logits: derivatives belong to the value used.
        beta, passes = halley(
            partial(_derivatives, logits[rows], hit[rows], peak[rows], weight[rows]),
            beta,
            low,
            high,
            tolerance=tolerance,
            rounded=lambda value: float(logits.dtype.type(value)),
        )
    return beta, passes


def mean_log_loss(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray, beta: float) -> float:
    """Mean log loss of softmax(beta * logits), block by block."""
    hit, peak = _hit_and_peak(logits, labels)
    total = 0.0
    for block in row_blocks(logits):
        mass = np.exp(logits.dtype.type(beta) * (logits[block] - peak[block, None])).sum(axis=1)
        total += weight[block] @ (np.log(mass) - beta * (hit[block] - peak[block]))
    return float(total / weight.sum())


def _hit_and_peak(logits, labels):
    """The logit of the label as float64, its mean for soft labels, and the largest of each row."""
    if labels.ndim == 2:
        return np.einsum("ik,ik->i", labels, logits, dtype=np.float64), logits.max(axis=1)
    return logits[np.arange(len(logits)), labels].astype(np.float64), logits.max(axis=1)


def halley(
    derivatives: Callable[[float], np.ndarray],
    beta: float,
    low: float,
    high: float,
    *,
    tolerance: float = 1e-11,
    rounded: Callable[[float], float] = float,
) -> tuple[float, int]:
    """Minimiser in [low, high] of a convex function, from its first three derivatives at beta.

    These may be in any unit of the function. An optimum beyond an end is returned as that end.
    `tolerance` is the relative error aimed at; `rounded` rounds beta to the values that
    `derivatives` distinguishes. Returns the minimiser and the number of calls.
    """
    low, high, beta = map(rounded, (low, high, beta))
    below, above, untried = low, high, {low, high}
    for passes in range(1, _MOST_PASSES + 1):
        slope, curvature, third = map(float, derivatives(beta))
        if (slope > 0 and beta <= low) or (slope <= 0 and beta >= high):
            break  # convex: the optimum is at this end, or beyond it
        if slope > 0:
            above = min(above, beta)
        else:
            below = max(below, beta)
        step = -slope / max(curvature, 1e-300)
        bend = 1 + 0.5 * third * step / max(curvature, 1e-300)
        if bend > 0.3:
            step /= bend
        new = beta + step
        safe = below < new < above or new == beta  # beta itself: the step is rounding
        if not safe or (passes > 10 and passes % 2):  # slow, as to an infinite optimum
            end = low if slope > 0 else high
            safe, new = False, end if end in untried else (below * above) ** 0.5
            untried.discard(end)
        change, beta, last = abs(new - beta) / beta, new, beta
        # Convergence is cubic: the next error is of the order of the cube of this change.
        if (safe and 10 * change**3 < tolerance) or above / below - 1 < tolerance:
            break
        beta = rounded(beta)
        if beta == last:
            break
    return beta, passes


def _derivatives(logits, hit, peak, weight, beta):
    """First three derivatives of the sum of weighted log losses at beta."""
    total = np.zeros(3)
    for block in row_blocks(logits):
        below = logits[block] - peak[block, None]
        mass = np.exp(logits.dtype.type(beta) * below)
        whole = mass.sum(axis=1).astype(np.float64)
        moments = []
        for _ in range(3):
            mass *= below
            moments.append(mass.sum(axis=1).astype(np.float64) / whole)
        first, second, third = moments
        w = weight[block]
        total[0] += w @ (first - (hit[block] - peak[block]))
        total[1] += w @ (second - first**2)
        total[2] += w @ (third - 3 * second * first + 2 * first**3)
    return total


# --- Bias-corrected temperature -------------------------------------------------------------------


_WEAK_PRIOR = 0.01  # precision of the priors that keep the fit finite, in samples
_BIAS_LEVEL = 0.01  # of the chi-square test of class totals; biases are fitted if it rejects
_CACHED = 2**18  # entries of one block of an array, which fits into the cache


class BiasCorrectedTemperature(Link):
    r"""z -> beta z + b: one inverse temperature for all classes and one bias for each.

    For K = 2 it is an affine map of the logit (Platt scaling on logits). `fit_bias_corrected` fits
    it by penalised maximum likelihood.
    """

    def start(self, n_classes: int) -> np.ndarray:
        return np.append(1.0, np.zeros(n_classes))

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return theta[0] * logits + theta[1:]

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        return np.append(np.sum(cotangent * logits), cotangent.sum(axis=0))

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        # Outputs shift by one constant only if all logits move in the same direction, which is
        # impossible for forecasts that sum to one.
        return bool(theta[0] != 0)

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        return bool(theta[0] > 0 and np.ptp(theta[1:]) == 0)


def fit_bias_corrected(
    logits: np.ndarray, target: np.ndarray, weight: np.ndarray, count: np.ndarray | None = None
) -> LinkFit:
    r"""Fit `BiasCorrectedTemperature` by penalised maximum likelihood.

    The slope has a weak prior around 1, in units of the spread of the logits, which keeps it finite
    when the classes are separable. For K = 2 the biases have a weak prior too. For K > 2 they stay
    at zero unless a chi-square test of the class totals rejects at the level .01. Then they have
    the prior :math:`N(0, \tau^2)`, whose variance is estimated from the totals by the method of
    moments (empirical Bayes). Without the test, shrinkage alone would follow part of every random
    excess, and calibrated forecasts would look miscalibrated too often.

    Parameters
    ----------
    logits, target : array of shape (n, K)
        Logits, as `log_forecast` gives them, and labels or label distributions.
    weight, count : array of shape (n,)
        Positive weights, whose sum is arbitrary, and the number of samples of each row, or None.

    Returns
    -------
    LinkFit
        Inverse temperature beta and the biases, which sum to zero.
    """
    # The priors are in units of samples.
    sums = _BiasedSums(logits, labels_or_shares(target), weights_of_mean_one(weight, count), count)
    n_classes = len(sums.counts)
    if n_classes == 2:
        return _maximise(sums, np.full(2, _WEAK_PRIOR))
    slope_only = _maximise(sums, np.full(n_classes, np.inf))
    mass, noise, information = sums.totals(slope_only.theta)
    excess = sums.counts - mass
    # Each ratio has mean one, and the totals sum to zero: K - 1 of them are free.
    ratios = excess**2 / np.maximum(noise, np.finfo(np.float64).tiny)
    statistic = np.sum(ratios) * (n_classes - 1) / n_classes
    rejects = chi2.sf(statistic, n_classes - 1) < _BIAS_LEVEL  # a single class: nan, so False
    if not rejects:
        return slope_only
    # Under b ~ N(0, tau^2) the class totals have E[excess^2] = noise + (information tau)^2.
    variance = np.sum(excess**2 - noise) / np.sum(information**2)
    precision = 1 / variance if variance > 0 else np.inf
    return _maximise(sums, np.full(n_classes, max(precision, _WEAK_PRIOR)), slope_only.theta[0])


def _maximise(sums, precision, beta=1.0):
    """Maximise the penalised likelihood; biases of infinite precision stay at zero."""
    free = np.isfinite(precision)
    penalty = np.append(_WEAK_PRIOR, precision[free])
    centre = np.append(sums.spread, np.zeros(free.sum()))
    start = centre.copy()
    start[0] *= beta

    def value(parameters):
        fit, state = sums.value(parameters, free)
        return fit + 0.5 * penalty @ (parameters - centre) ** 2, state

    def slopes(parameters, state):
        gradient, hessian = sums.slopes(free, state)
        return gradient + penalty * (parameters - centre), hessian + np.diag(penalty)

    # The last step is not evaluated: the tolerance is well above the rounding errors of the sum.
    tolerance = likelihood_tolerance(sums.counts.sum())
    minimum = minimise_convex(value, slopes, start, tolerance=tolerance)
    theta = np.zeros(1 + len(free))
    theta[0], theta[1:][free] = minimum.refined[0] / sums.spread, minimum.refined[1:]
    return LinkFit(theta, minimum.n_iter, minimum.converged, "")


class _BiasedSums:
    """Sums over samples.

    `hit` are columns of labels (n,), or label distributions (n, K). The sum of the weights is the
    number of samples in units of the priors. ``spread`` is the unit of the logits: the root of
    their mean square, each row centred. ``counts`` (K,) are the total weights of the labels.
    """

    def __init__(self, logits, hit, weight, count):
        # One row per class makes reductions over the few classes fast.
        centred = np.ascontiguousarray(logits.T)
        centred -= centred.mean(axis=0)
        # The slope and its prior are in units of the spread of the logits.
        square = np.mean(centred**2) if count is None else (centred**2 @ count).mean() / count.sum()
        self.spread = float(np.sqrt(square)) or 1.0
        self._feature = np.divide(centred, self.spread, out=centred)
        self._hit, self._weight = hit, weight
        self._soft = hit.ndim == 2
        if self._soft:
            self.counts = weight @ hit
        else:
            self.counts = np.bincount(hit, weight, minlength=logits.shape[1])
        n_classes, n_samples = self._feature.shape
        size = max(_CACHED // n_classes, 64)
        self._blocks = [slice(start, start + size) for start in range(0, n_samples, size)]

    def value(self, parameters, free):
        """Minus the log likelihood, and what `slopes` reuses.

        The parameters are the slope in units of the spread and the biases of the classes `free`.
        """
        fit, by_block = 0.0, []
        for rows in self._blocks:
            p = parameters[0] * self._feature[:, rows]
            if free.any():
                p[free] += parameters[1:, None]
            p -= p.max(axis=0)
            log_hit = self._at_label(p, rows)
            np.exp(p, out=p)
            total = p.sum(axis=0)
            p /= total
            fit -= self._weight[rows] @ (log_hit - np.log(total))
            by_block.append(p)
        return fit, by_block

    def slopes(self, free, state):
        """Gradient and Hessian of minus the log likelihood."""
        size = 1 + int(free.sum())
        gradient, hessian, mass = np.zeros(size), np.zeros((size, size)), np.zeros(len(free))
        for rows, p in zip(self._blocks, state, strict=True):
            x, w = self._feature[:, rows], self._weight[rows]
            mean = np.einsum("kn,kn->n", p, x)
            gradient[0] += w @ (mean - self._at_label(x, rows))
            spreading = x - mean
            spreading *= p
            spreading *= w
            hessian[0, 0] += np.einsum("kn,kn->", spreading, x)
            if free.any():
                mass += p @ w
                hessian[0, 1:] += spreading.sum(axis=1)[free]
        if free.any():
            gradient[1:] = (mass - self.counts)[free]
            hessian[1:, 0] = hessian[0, 1:]
            products, start, root = 0.0, 0, np.sqrt(self._weight)
            at_once = max(1, len(free) // state[0].shape[1])  # nearly square arrays, for BLAS
            for first in range(0, len(state), at_once):
                p = np.concatenate(state[first : first + at_once], axis=1)
                p *= root[start : start + p.shape[1]]
                products, start = products + p @ p.T, start + p.shape[1]
            hessian[1:, 1:] = np.diag(mass[free]) - products[free][:, free]
        return gradient, hessian

    def _at_label(self, values, rows):
        """Values (K, m) of some rows at the label, or their mean over the label distribution."""
        if self._soft:
            return np.einsum("mk,km->m", self._hit[rows], values)
        return values[self._hit[rows], np.arange(values.shape[1])]

    def totals(self, theta):
        """Expected class totals, their variances and their information, without biases."""
        _, by_block = self.value(theta[:1] * self.spread, np.zeros(len(self.counts), dtype=bool))
        mass, noise, information = np.zeros((3, len(self.counts)))
        for rows, p in zip(self._blocks, by_block, strict=True):
            w, variance = self._weight[rows], p * (1 - p)
            mass += p @ w
            noise += ((self._hit[rows].T - p) ** 2 if self._soft else variance) @ w**2
            information += variance @ w
        return mass, noise, information
