r"""The strength of a shrinkage by its evidence, without cross-validation.

Shrinkage of strength :math:`\lambda` is a normal prior of the deviations :math:`\psi` from
temperature scaling, with variance :math:`1 / \lambda` in units of their stiffness. The evidence is
the likelihood of the labels averaged over this prior (MacKay 1992). Let the log loss have the
Hessian A in :math:`\psi`, with the common slope at its optimum, and let b be A times the parameters
that minimise the expansion of second order. Relative to temperature scaling the log evidence is

.. math:: \frac{1}{2} \sum_i \left( \frac{\beta_i^2}{\alpha_i + \lambda}
    - \log \left( 1 + \frac{\alpha_i}{\lambda} \right) \right) ,

with the eigenvalues :math:`\alpha_i` of A, and b in its eigenvectors, :math:`\beta_i`. It is
maximised in turn with Newton's method for the parameters. The effective size of weighted samples
takes the place of their number in the likelihood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from skcalib.links.affine import minimise_affine

if TYPE_CHECKING:
    from collections.abc import Callable

    from skcalib.links.affine import Sums
    from skcalib.links.maps import Affine

_GRID = np.linspace(np.log(1e-2), np.log(1e6), 38)  # log strengths
_ROUNDS, _CLOSE = 12, 0.01  # of strengths in turn with parameters, and when strengths agree
_TOLERANCE = 1e-3  # of the log likelihood
_FLAT = 1e-12  # of the largest eigenvalue


def fit_by_evidence(
    link: Affine,
    sums: Callable[[np.ndarray], Sums],
    start: np.ndarray,
    *,
    size: float,
    share: float = 1.0,
) -> tuple[float, np.ndarray, Sums]:
    """The strength, and parameters near its fit with their sums.

    `sums` is as for `minimise_affine`, and `start` the parameters of temperature scaling. `share`
    is the effective size as a share of `size`. The strength is infinity, and the parameters are
    those of `start`, where temperature scaling has the highest evidence.
    """
    theta, total = start, sums(start)
    strength, gain = best_strength(link, theta, total, share)
    free = link.stiffness(link.n_classes(len(theta))) == 0
    more = free.sum() - 2  # degrees of freedom of other parameters without a prior, with their BIC
    if more > 0:
        slope = total[1][free]
        gain += share * slope @ _inverse(total[2], free) @ slope / 2
        gain -= more * np.log(share * size) / 2
    if gain <= 0:
        return np.inf, start, total
    for _ in range(_ROUNDS):
        options = {"shrinkage": strength, "size": size, "tolerance": _TOLERANCE}
        found = minimise_affine(link, sums, theta, known=total, max_values=2, **options)
        theta, total = found.parameters, found.state
        before, (strength, _) = strength, best_strength(link, theta, total, share)
        if np.isinf(strength):
            return strength, start, total
        if abs(strength - before) < _CLOSE * strength:
            break
    return strength, theta, total


def best_strength(
    link: Affine, theta: np.ndarray, total: Sums, share: float
) -> tuple[float, float]:
    """The strength of the highest evidence, and its log, by an expansion at theta.

    Infinity leaves a common slope only; it is finite where other parameters have no prior.
    """
    _, gradient, hessian = total
    n_classes = link.n_classes(len(theta))
    stiffness, away = link.stiffness(n_classes), theta - link.start(n_classes)
    shrunk, free = stiffness > 0, stiffness == 0
    # For each value of the shrunk parameters the others are at their optimum.
    cross = hessian[np.ix_(shrunk, free)] @ _inverse(hessian, free)
    curvature = hessian[np.ix_(shrunk, shrunk)] - cross @ hessian[np.ix_(free, shrunk)]
    unit = 1 / np.sqrt(stiffness[shrunk])
    curvature = share * unit[:, None] * curvature * unit
    slope = share * unit * (gradient[shrunk] - cross @ gradient[free])
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 0.0)
    square = (vectors.T @ (curvature @ (away[shrunk] / unit) - slope)) ** 2

    def log_evidence(log):
        strength = np.exp(log)
        return 0.5 * np.sum(square / (values + strength) - np.log1p(values / strength))

    best = int(np.argmax([log_evidence(log) for log in _GRID]))
    ends = _GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)]
    found = minimize_scalar(lambda log: -log_evidence(log), bounds=ends, method="bounded")
    if free.sum() == 1 and (best == len(_GRID) - 1 or found.fun >= 0):
        return np.inf, 0.0
    return float(np.exp(found.x)) / share, -found.fun


def _inverse(hessian, some):
    return np.linalg.pinv(hessian[np.ix_(some, some)], rcond=_FLAT, hermitian=True)
