r"""Newton's method for convex functions of few parameters, such as log losses.

`minimise_convex` is the method and `logistic_regression` its most frequent use. `row_blocks` cuts
the passes over many samples into blocks.

**One step in place of a fit.** Cross-validation fits a map once for each fold. With many samples
these fits differ little from the fit to all samples. Let G be the gradient of the log likelihood of
all samples at the parameters of that fit, and I its information; let :math:`G_t` and :math:`I_t` be
those of a test fold alone. Without the fold the parameters are

.. math:: \theta_{-t} = \theta + \delta, \qquad
    \delta = (c (I - I_t) + P)^{-1} (c (G - G_t) - P \theta),

with the precision P of the parameters (here for a prior mean of 0) and the factor c that makes the
weights of the other samples sum to their number. The log likelihood has the same expansion of
second order. So one pass over the samples gives the fits of all folds. What remains is of third
order in :math:`\delta`, which is about half of a standard error of the parameters for a fifth of
the samples. The parameters depend on the held-out samples only by this remainder. The expansion is
checked at the held-out samples, whose likelihood is known at both ends of the step. Where it fails,
as it may for forecasts that are nearly all certain, each fold needs a fit of its own. The same
holds where the score of a fold is unusual for random samples, as for groups that differ, or for
sorted data.

The steps themselves are `AverageWithout` for averaged maps and `AffineFit` for affine maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from skcalib._util.sizes import SIZES
from skcalib.data.clusters import effective_size

_ENTRIES = 1 << 17  # logits per block, which fits into the cache
_FINE, _RELATIVE = 1e-12, 1e-14  # tolerances of the likelihood, the second for each sample
_MOST_STEPS = 200  # of Newton's method


class Minimum(NamedTuple):
    """Minimum of a convex function, and what was computed there.

    ``value`` is that of the function at ``parameters``, ``state`` is what it returned beside its
    value, and ``hessian`` its second derivatives. ``step`` is the next Newton step, whose predicted
    decrease is below the tolerance: parameters plus step have about twice as many correct digits.
    It is 0 where the tolerance was not reached.
    """

    parameters: np.ndarray
    n_iter: int
    converged: bool
    value: float
    state: Any
    hessian: np.ndarray
    step: Any = 0.0

    @property
    def refined(self) -> np.ndarray:
        """Parameters plus step."""
        return self.parameters + self.step


def minimise_convex(
    value: Callable[[np.ndarray], tuple[float, Any]],
    slopes: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    *,
    known: Any = None,
    tolerance: float = 1e-9,
    max_values: float = np.inf,
) -> Minimum:
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
    evaluated: Any = (*value(start), None, None) if known is None else known
    current, state, gradient, hessian = evaluated
    for n_iter in range(_MOST_STEPS):
        if gradient is None:
            gradient, hessian = slopes(parameters, state)
        step = -solve_step(hessian, gradient)
        decrease = -gradient @ step
        if decrease <= tolerance * max(1.0, abs(current) * 1e-6):
            return Minimum(parameters, n_iter, True, current, state, hessian, step)
        scale = 1.0
        while True:
            if n_values >= max_values:
                return Minimum(parameters, n_iter, False, current, state, hessian)
            n_values += 1
            new, new_state = value(parameters + scale * step)
            if new <= current - 1e-4 * scale * decrease:
                break
            scale /= 2
            if scale < 1e-10:  # rounding: no step lowers the value
                return Minimum(parameters, n_iter, True, current, state, hessian)
        parameters, current, state = parameters + scale * step, new, new_state
        gradient = None
    return Minimum(parameters, _MOST_STEPS, False, current, state, slopes(parameters, state)[1])


def solve_step(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
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


def logistic_regression(
    design: np.ndarray,
    offset: np.ndarray | float,
    label: np.ndarray,
    weight: np.ndarray,
    *,
    penalty: np.ndarray | float = 0.0,
    start: np.ndarray | None = None,
    tolerance: float = 1e-9,
) -> tuple[np.ndarray, np.ndarray]:
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


def logistic_loss(
    features: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray | float = 0.0,
    prior: np.ndarray | float = 0.0,
) -> tuple[Callable, Callable]:
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


# --- One step in place of a fit -------------------------------------------------------------------


_RAREST = 20  # samples of each class: one step cannot follow a class that disappears
_LARGEST = 0.3  # largest share of a fold; two of them may be left out together
#: Largest remainder of an expansion: share of its term of second order, and log likelihood.
_REMAINDER, _NEGLIGIBLE = 0.1, 0.01
_SPREAD = 4.0  # standard deviations above the mean up to which a score is usual
_FLAT = 1e-9  # of the largest eigenvalue of an information


def one_step_is_enough(counts: np.ndarray, weight: np.ndarray, folds: Sequence[np.ndarray]) -> bool:
    """Whether one step is accurate for folds of samples whose classes have these counts."""
    size = effective_size(weight)
    least = max(SIZES.one_step_samples, SIZES.one_step_class_samples * len(counts))
    enough = size >= least and counts.min() >= _RAREST
    largest = max(weight[test].sum() for test in folds)
    return bool(enough and largest <= _LARGEST * weight.sum())


def expansion_holds(actual: float, expected: float, half_square: float) -> bool:
    """Whether a log likelihood equals its expansion of second order, but for a small remainder.

    `half_square` is the absolute value of the term of second order.
    """
    return abs(actual - expected) <= _REMAINDER * half_square + _NEGLIGIBLE


def is_usual(
    excess: np.ndarray, information: np.ndarray, share: float, inflation: float = 1.0
) -> bool:
    r"""Whether the score of some samples is usual for samples that are drawn at random.

    Let u (`excess`) be the score of a share s of the samples minus the same share of the score of
    all, and I the information of all samples, which may be singular. Then :math:`u^\top I^{-1} u /
    (s (1 - s))` has about a chi-squared distribution for a random share, and must not exceed its
    mean by much more than four standard deviations. `inflation` is the factor of the variance by
    weights that are not equal.
    """
    values, vectors = np.linalg.eigh(information)
    informative = values > _FLAT * values[-1]
    n_values = int(informative.sum())
    size = np.sum((excess @ vectors[:, informative]) ** 2 / values[informative]) / (
        share * (1 - share)
    )
    return bool(size <= inflation * (n_values + _SPREAD * (np.sqrt(2 * n_values) + 1)))
