r"""Newton's method for `VectorMap` under the log loss, from sums over samples.

With :math:`p = softmax(f_\theta(z))` and the columns :math:`x_k = p_k z_k`, the Hessian of the log
loss in the slopes and biases of the classes is

.. math:: \sum_i w_i \left( \begin{pmatrix} diag(p z^2) & diag(p z) \\ diag(p z) & diag(p)
    \end{pmatrix} - \begin{pmatrix} x \\ p \end{pmatrix} \begin{pmatrix} x \\ p \end{pmatrix}^T
    \right) .

The sums of several sets of samples add up, so the samples need not be in memory together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcalib.links._base import (
    Minimum,
    likelihood_tolerance,
    minimise_convex,
    row_blocks,
    solve_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from skcalib.links.maps import VectorMap

_NO_CURVATURE = 1e-12  # of the mean loss: forecasts that are certain and right
#: Log loss, gradient and Hessian.
Sums = tuple[float, np.ndarray, np.ndarray]


def affine_sums(
    link: VectorMap,
    logits: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    theta: np.ndarray,
) -> Sums:
    """Sum of weighted log losses, and its gradient and Hessian in theta (2 K + 1,), in O(n K^2)."""
    n_classes = logits.shape[1]
    value, gradient = 0.0, np.zeros(2 * n_classes + 1)
    inner, outer = np.zeros((3, n_classes)), np.zeros((2 * n_classes, 2 * n_classes))
    for rows in row_blocks(logits):
        # One row for each class: numpy is about twice as fast along long rows.
        z, y, w = logits[rows].T.copy(), target[rows].T.copy(), weight[rows]
        changed = link.apply(theta, logits[rows]).T.copy()
        changed -= changed.max(axis=0)
        p = np.exp(changed)
        total = p.sum(axis=0)
        p /= total
        value += float(w @ (np.log(total) - np.einsum("ki,ki->i", y, changed)))
        products = np.vstack([p * z, p])
        inner += np.stack([(products[:n_classes] * z) @ w, *np.split(products @ w, 2)])
        products *= np.sqrt(w)
        outer += products @ products.T
        p -= y
        p *= w
        slopes = np.einsum("ki,ki->k", p, z)
        gradient += np.concatenate([[slopes.sum()], slopes, p.sum(axis=1)])
    square, cross, mass = map(np.diag, inner)
    by_class = np.block([[square, cross], [cross, mass]]) - outer
    # The common slope changes the slopes of all classes.
    common = by_class[:n_classes].sum(axis=0)
    corner = common[:n_classes].sum().reshape(1, 1)
    return value, gradient, np.block([[corner, common[None]], [common[:, None], by_class]])


def minimise_affine(
    link: VectorMap,
    sums: Callable[[np.ndarray], Sums],
    start: np.ndarray,
    *,
    shrinkage: float,
    size: float,
    max_values: float,
    tolerance: float | None = None,
    known: Sums | None = None,
) -> Minimum:
    """Minimise the sum of weighted log losses plus the penalty of `fit_link`.

    Deviations and biases that are shrunk sum to zero at the optimum. A penalty on these two sums
    does not change it, and makes it unique without shrinkage.

    `sums` maps theta to the sums of `affine_sums` over all samples, with weights whose sum is
    `size`; it is called at most `max_values` times. `known` are the sums at `start`, where these
    have been computed before. The default tolerance is that of a fit to the last digits. The
    ``state`` of the result are the sums at its ``parameters``.
    """
    penalise = _Penalty(link, (len(start) - 1) // 2, shrinkage, size)
    return minimise_convex(
        lambda theta: penalise(theta, sums(theta))[:2],
        lambda theta, state: penalise(theta, state)[2:],
        start,
        known=None if known is None else penalise(start, known),
        tolerance=likelihood_tolerance(size) if tolerance is None else tolerance,
        max_values=max_values,
    )


def affine_step(
    link: VectorMap, theta: np.ndarray, sums: Sums, *, shrinkage: float, size: float
) -> np.ndarray:
    """Parameters after one Newton step of `minimise_affine` from theta, with the sums there.

    Infinite shrinkage leaves the common slope only, and nothing where all losses are constant.
    """
    if np.isinf(shrinkage):
        found, (_, gradient, hessian) = theta.copy(), sums
        if hessian[0, 0] > _NO_CURVATURE * size:
            found[0] -= gradient[0] / hessian[0, 0]
        return found
    *_, gradient, hessian = _Penalty(link, (len(theta) - 1) // 2, shrinkage, size)(theta, sums)
    return theta - solve_step(hessian, gradient)


class _Penalty:
    """Adds the penalty of `minimise_affine` to sums."""

    def __init__(self, link, n_classes, shrinkage, size):
        stiffness = link.stiffness(n_classes)
        self.identity, self.matrix = link.start(n_classes), np.diag(shrinkage * stiffness)
        for rows in (slice(1, n_classes + 1), slice(n_classes + 1, None)):
            self.matrix[rows, rows] += size / n_classes**2 * stiffness[rows][0]

    def __call__(self, theta, sums):
        """Penalised loss, the sums, and the penalised gradient and Hessian."""
        loss, gradient, hessian = sums
        away = theta - self.identity
        pull = self.matrix @ away
        return loss + 0.5 * away @ pull, sums, gradient + pull, hessian + self.matrix
