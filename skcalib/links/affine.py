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
    newton_steps,
    row_blocks,
    run_steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from skcalib.links.maps import VectorMap
    from skcalib.scores import LogLoss

#: Log loss, gradient and Hessian.
Sums = tuple[float, np.ndarray, np.ndarray]


def affine_sums(
    link: VectorMap,
    score: LogLoss,
    logits: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    theta: np.ndarray,
) -> Sums:
    """Sum of weighted log losses, and its gradient and Hessian in theta.

    Parameters
    ----------
    link : VectorMap
        The map.
    score : LogLoss
        The log loss.
    logits, target : ndarray of shape (n, K)
        Logits and one-hot targets.
    weight : ndarray of shape (n,)
        Positive weights.
    theta : ndarray of shape (2 K + 1,)
        Parameters.

    Returns
    -------
    tuple of float, ndarray of shape (2 K + 1,), ndarray of shape (2 K + 1, 2 K + 1)
        The sums; those of several sets of samples add up. Cost: O(n K^2).
    """
    n_classes = logits.shape[1]
    value, gradient = 0.0, np.zeros(2 * n_classes + 1)
    inner, outer = np.zeros((3, n_classes)), np.zeros((2 * n_classes, 2 * n_classes))
    for rows in row_blocks(logits):
        z, y, w = logits[rows], target[rows], weight[rows]
        loss, slope = score.logit_loss(y, link.apply(theta, z))
        value += float(w @ loss)
        gradient += link.vjp(theta, z, w[:, None] * slope)
        p = slope + y
        products = np.hstack([p * z, p])
        inner += np.stack([w @ (products[:, :n_classes] * z), *np.split(w @ products, 2)])
        products *= np.sqrt(w)[:, None]
        outer += products.T @ products
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
) -> Minimum:
    r"""Minimise the sum of weighted log losses plus the penalty of `fit_link`.

    Deviations and biases that are shrunk sum to zero at the optimum. A penalty on these two sums
    does not change it, and makes it unique without shrinkage.

    Parameters
    ----------
    link : VectorMap
        The map, prepared.
    sums : callable
        theta -> the sums of `affine_sums` over all samples, with weights whose sum is `size`.
    start : ndarray of shape (2 K + 1,)
        First parameters.
    shrinkage : float
        Strength, in samples.
    size : float
        Number of samples.
    max_values : float
        Maximum number of calls of `sums`.
    tolerance : float, default=None
        As in `affine_steps`.

    Returns
    -------
    Minimum
        As `minimise_convex` returns it.
    """
    options = {"shrinkage": shrinkage, "size": size, "max_values": max_values}
    return run_steps(affine_steps(link, start, tolerance=tolerance, **options), sums)


def affine_steps(
    link: VectorMap,
    start: np.ndarray,
    *,
    shrinkage: float,
    size: float,
    max_values: float,
    tolerance: float | None = None,
) -> Generator[np.ndarray, Sums, Minimum]:
    """`minimise_affine` as a generator, for several fits that share passes over the samples.

    Parameters
    ----------
    link, start, shrinkage, size, max_values
        As in `minimise_affine`.
    tolerance : float, default=None
        Tolerance of the log likelihood; by default that of a fit to the last digits.

    Returns
    -------
    Minimum
        As `minimise_convex` returns it.

    Yields
    ------
    ndarray of shape (2 K + 1,)
        Parameters, at which it is sent the sums of `affine_sums`.
    """
    n_classes = (len(start) - 1) // 2
    identity, stiffness = link.start(n_classes), link.stiffness(n_classes)
    ones = np.ones((n_classes, n_classes))
    penalty = np.diag(shrinkage * stiffness)
    for rows in (slice(1, n_classes + 1), slice(n_classes + 1, None)):
        penalty[rows, rows] += size / n_classes**2 * stiffness[rows][0] * ones

    tolerance = likelihood_tolerance(size) if tolerance is None else tolerance
    steps, answer = newton_steps(start, tolerance=tolerance, max_values=max_values), None
    while True:
        try:
            name, (theta, *state) = steps.send(answer)
        except StopIteration as end:
            return end.value
        if name == "slopes":
            (answer,) = state
            continue
        loss, gradient, hessian = yield theta
        pull = penalty @ (theta - identity)
        answer = loss + 0.5 * (theta - identity) @ pull, (gradient + pull, hessian + penalty)
