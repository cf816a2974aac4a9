r"""The link protocol: a parametric map of logits into logits, fitted under any proper score.

A link maps the logits :math:`z = \log s` of a forecast s to the forecast
:math:`softmax(f_\theta(z))`. It declares its starting point (the identity map), the map, and the
vector-Jacobian product that turns a cotangent of its output into a gradient in its parameters.
`Link` is the base class and `fit_link` the common optimiser, a quasi-Newton method. Where the
problem is convex and small, `minimise_convex` is Newton's method and `logistic_regression` its
most frequent use. `detection_limit` and `log_forecast` turn forecasts into logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from skcalib._util.records import Record

if TYPE_CHECKING:
    from skcalib.scores import ProperScore

#: Logarithm of the smallest normal number of single precision, about -87.
_FAR = float(np.log(np.finfo(np.float32).tiny))
_ENTRIES = 1 << 17  # logits per block, which fits into the cache
_FINE, _RELATIVE = 1e-12, 1e-14  # tolerances of the likelihood, the second for each sample
_MOST_STEPS = 200  # of Newton's method
_SORTED = 1 << 16  # forecasts among which a step is looked for
_SAME, _SINGLE = 2.0**-22, 2.0**-24  # differences by rounding, and of 1 from the number below it
_LEAST_STEP, _MOST_STEP = 0.9e-4, 0.01  # few votes say little about smaller probabilities
_MOST_PARTS, _OFF = 6, 1e-3  # of the least difference; distance from a multiple, in steps


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


class Minimum(NamedTuple):
    """Minimum of a convex function, and what was computed there.

    ``state`` is what the function returned beside its value, and ``hessian`` its second
    derivatives, both at ``parameters``. ``step`` is the next Newton step, whose predicted decrease
    is below the tolerance: parameters plus step have about twice as many correct digits. It is 0
    where the tolerance was not reached.
    """

    parameters: np.ndarray
    n_iter: int
    converged: bool
    state: Any
    hessian: np.ndarray
    step: Any = 0.0

    @property
    def refined(self) -> np.ndarray:
        """Parameters plus step."""
        return self.parameters + self.step


def minimise_convex(value, slopes, start, *, known=None, tolerance=1e-9, max_values=np.inf):
    """Newton's method with backtracking for a smooth, strictly convex function.

    For few parameters and a cheap Hessian. Newton's method needs six passes over the data. A
    quasi-Newton method of scipy needs thirty, and its overhead takes as much time again.

    `value` maps parameters to the function value and what `slopes` reuses; `slopes` takes both and
    returns gradient and Hessian. `known` is (value, state, gradient, Hessian) at `start`, where
    these have been computed before. It ends where the predicted decrease is below `tolerance`, in
    units of the function. `max_values` bounds the calls of `value`, where each is a pass over data
    that are not in memory.
    """
    parameters, n_values = start, int(known is None)
    if known is None:
        known = (*value(start), None, None)
    current, state, gradient, hessian = known
    for n_iter in range(_MOST_STEPS):
        if gradient is None:
            gradient, hessian = slopes(parameters, state)
        step = -solve_step(hessian, gradient)
        decrease = -gradient @ step
        if decrease <= tolerance * max(1.0, abs(current) * 1e-6):
            return Minimum(parameters, n_iter, True, state, hessian, step)
        scale = 1.0
        while True:
            if n_values >= max_values:
                return Minimum(parameters, n_iter, False, state, hessian)
            n_values += 1
            new, new_state = value(parameters + scale * step)
            if new <= current - 1e-4 * scale * decrease:
                break
            scale /= 2
            if scale < 1e-10:  # rounding: no step lowers the value
                return Minimum(parameters, n_iter, True, state, hessian)
        parameters, current, state = parameters + scale * step, new, new_state
        gradient = None
    return Minimum(parameters, _MOST_STEPS, False, state, slopes(parameters, state)[1])


def solve_step(hessian, gradient):
    """The Newton step; the shortest one where rounding leaves the Hessian singular."""
    try:
        return np.linalg.solve(hessian, gradient)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(hessian, gradient, rcond=None)[0]


def likelihood_tolerance(size: float) -> float:
    """Tolerance of the log likelihood of this many samples, well above its rounding errors."""
    return max(_FINE, _RELATIVE * size)


def row_blocks(logits: np.ndarray, width: int | None = None) -> Iterator[slice]:
    """Slices of the rows of logits (n, K) that fit into the cache, with `width` values in a row."""
    n_rows = max(1, _ENTRIES // (width or logits.shape[1]))
    return (slice(start, start + n_rows) for start in range(0, len(logits), n_rows))


def logistic_regression(design, offset, label, weight, *, penalty=0.0, start=None, tolerance=1e-9):
    r"""Penalised maximum likelihood in :math:`logit P(Y = 1) = o + X \theta`.

    Minimises :math:`\sum_i w_i (\log(1 + e^{\eta_i}) - y_i \eta_i) + \theta^T P \theta / 2`, with
    the linear predictor :math:`\eta = o + X \theta`, by `minimise_convex`. `design` (n, p) is X,
    `offset` o, and `penalty` P the precision of a normal prior around 0; a number stands for that
    multiple of the identity. `start` are first coefficients, by default 0. Returns the coefficients
    (p,) and the Hessian of the objective there.
    """
    n_columns = design.shape[1]
    prior = penalty * np.eye(n_columns) if np.ndim(penalty) == 0 else penalty
    start = np.zeros(n_columns) if start is None else start
    loss = logistic_loss(design.T, label, weight, offset, prior)
    minimum = minimise_convex(*loss, start, tolerance=tolerance)
    return minimum.refined, minimum.hessian


def logistic_loss(features, label, weight, offset=0.0, prior=0.0):
    """Log loss of an offset plus a combination of features (P, n), and its slopes.

    `prior` is the precision of a normal prior of the coefficients around 0.
    """

    def value(theta):
        linear = offset + theta @ features
        small = np.exp(-np.abs(linear))
        loss = np.maximum(linear, 0) + np.log1p(small) - label * linear
        return float(weight @ loss + 0.5 * np.dot(prior, theta) @ theta), (linear, small)

    def slopes(theta, state):
        linear, small = state
        chance = np.where(linear >= 0, 1.0, small) / (1 + small)
        curvature = weight * small / (1 + small) ** 2
        gradient = features @ (weight * (chance - label)) + np.dot(prior, theta)
        return gradient, (features * curvature) @ features.T + prior

    return value, slopes


def detection_limit(forecast):
    r"""Least probability that forecasts distinguish from 0; smaller ones, and 0, count as this one.

    Where forecasts hold exact zeros, it is half of the smallest positive one. Where they hold none,
    it follows from their resolution, because smaller new values may be real. If all are multiples
    of a step, as shares of votes and rounded numbers are, it is half of the step, and at most .005.
    Otherwise it is half of the smallest value or, where that is smaller, :math:`2^{-25}`, half of
    the distance of 1 from the number below it in single precision.
    """
    least = forecast.min(where=forecast > 0, initial=np.inf)
    if forecast.min() > 0:
        least = min(least, _step(forecast.ravel()) or _SINGLE)
    return float(max(0.5 * least, np.finfo(np.float64).tiny))


def _step(values):
    """The step of which all values are multiples, at most .01; 0 where there is none."""
    levels = np.unique(values[:: 1 + values.size // _SORTED]).astype(np.float64)
    gaps = np.diff(levels, prepend=0.0)
    least = gaps.min(where=gaps > _SAME, initial=1.0)
    for parts in range(1, _MOST_PARTS + 1):  # two neighbouring multiples may not occur
        place = levels * (parts / least)
        if least > _LEAST_STEP and np.abs(place - np.rint(place)).max() < _OFF:
            return min(least / parts, _MOST_STEP)
    return 0.0


class LogRows:
    """The `log_forecast` of forecasts (n, K), computed wherever some rows are read.

    It has only those array methods that the search for a temperature needs, and takes no memory.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, forecast: np.ndarray, limit: float) -> None:
        self.forecast, self.limit, self.shape = forecast, limit, forecast.shape

    def __len__(self) -> int:
        return len(self.forecast)

    def __getitem__(self, index):
        if isinstance(index, slice) and index == slice(None):
            return self
        return log_forecast(self.forecast[index], self.limit)

    def max(self, axis: int) -> np.ndarray:
        """Largest values along an axis: the logarithm is increasing."""
        return log_forecast(self.forecast.max(axis=axis), self.limit)

    def min(self, axis: int) -> np.ndarray:
        """Smallest values along an axis."""
        return log_forecast(self.forecast.min(axis=axis), self.limit)


def log_forecast(forecast, limit):
    r"""Logarithms z of forecasts, as links take them; those below `limit` count as `limit`.

    They increase with the forecast, also from exactly 0 on. Below the smallest normal number of
    single precision, :math:`z_0 \approx -87`, z is replaced by :math:`z_0 - \log(1 + z_0 - z)`. The
    replacement is strictly increasing, so different forecasts stay different, and has slope one at
    :math:`z_0`. A softmax in single precision gives no such values. Products of densities, as in
    naive Bayes, do, and underflow soon after: a log-probability of -700 has little more information
    than one of -100, but would dominate the fit of every slope.
    """
    with np.errstate(divide="ignore"):
        log = np.maximum(np.log(forecast), float(np.log(limit)))
    far = log < _FAR
    if far.any():
        log[far] = _FAR - np.log1p(_FAR - log[far])
    return log
