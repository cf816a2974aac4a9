r"""Newton's method for convex functions of few parameters, such as log losses.

`minimise_convex` is the method and `logistic_regression` its most frequent use. `row_blocks` cuts
the passes over many samples into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_ENTRIES = 1 << 17  # logits per block, which fits into the cache
_FINE, _RELATIVE = 1e-12, 1e-14  # tolerances of the likelihood, the second for each sample
_MOST_STEPS = 200  # of Newton's method


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
