r"""Affine maps of logits, and their fit under the log loss from sums over samples.

Affine maps (`VectorMap`, `MatrixMap`, `DirichletMap`) are written as one common slope plus
deviations, :math:`W = \beta I + M`. *Structured* shrinkage shrinks the deviations and the biases
towards zero and leaves the temperature free. With few samples the fit is close to temperature
scaling. With many samples the shrinkage has no effect. The stiffness of a parameter is its mean
squared effect on a logit; for a slope it is the mean square of the logits that it multiplies.

Output k of a map is linear in features :math:`x_k` of its own: :math:`(z_k, 1)` for `VectorMap`,
and :math:`(z, 1)` for `MatrixMap`. With :math:`p = softmax(f_\theta(z))`, the Hessian of the log
loss in the parameters of the classes k and l is

.. math:: \sum_i w_i \left( [k = l]\, p_k x_k x_k^T - p_k p_l x_k x_l^T \right) .

The sums of several sets of samples add up, so the samples need not be in memory together.

The strength of the shrinkage is that of the highest evidence, without cross-validation.
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

`AffineFit` is the map without some of the samples, by one step from the fit to all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from skcalib.links.maps import Link
from skcalib.links.newton import (
    Minimum,
    expansion_holds,
    is_usual,
    likelihood_tolerance,
    minimise_convex,
    row_blocks,
    solve_step,
)


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

    def start(self, n_classes: int) -> np.ndarray:
        return np.append(1.0, np.zeros(self.places(n_classes).size))

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

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        matrix, bias = self.matrix(theta, n_classes), theta[-n_classes:]
        slopes = np.diag(matrix)
        alike = np.ptp(bias) == np.ptp(slopes) == 0 and np.all(matrix == np.diag(slopes))
        return bool(alike and slopes[0] > 0)

    def tempered(self, n_classes: int, beta: float) -> np.ndarray:
        """Parameters of temperature scaling with the inverse temperature beta."""
        theta = self.start(n_classes)
        theta[0] = beta
        return theta


class VectorMap(Affine):
    """z_k -> (beta + delta_k) z_k + b_k; theta = (beta, delta, b)."""

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


class MatrixMap(Affine):
    """z -> (beta I + M) z + b; theta = (beta, M by rows, b)."""

    #: Relative strength of the shrinkage of the diagonal, of the rest of the matrix, and of biases.
    strengths = (1.0, 10.0, 1.0)

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


class DirichletMap(MatrixMap):
    """As `MatrixMap`; only off-diagonal entries and biases are shrunk (ODIR)."""

    strengths = (0.0, 1.0, 1.0)


# --- Fit from sums over samples -------------------------------------------------------------------


_NO_CURVATURE = 1e-12  # of the mean loss: forecasts that are certain and right
_TOLERANCE = 1e-3  # of the log likelihood
#: Log loss, gradient and Hessian.
Sums = tuple[float, np.ndarray, np.ndarray]


def affine_sums(
    link: Affine, logits: np.ndarray, target: np.ndarray, weight: np.ndarray, theta: np.ndarray
) -> Sums:
    """Sum of weighted log losses, and its gradient and Hessian in theta (P,), in O(n P^2)."""
    n_classes, n_theta = logits.shape[1], len(theta)
    places = link.places(n_classes)
    n_features = places.shape[1]
    value, slopes, outer = 0.0, 0.0, np.zeros((places.size, places.size))
    inner = np.zeros((n_classes, n_features, n_features))
    for rows in row_blocks(logits, places.size // 2):
        # One row for each class: numpy is about twice as fast along long rows.
        z, y, w = logits[rows].T.copy(), target[rows].T.copy(), weight[rows]
        changed = link.apply(theta, logits[rows]).T.copy()
        changed -= changed.max(axis=0)
        p = np.exp(changed)
        total = p.sum(axis=0)
        p /= total
        value += float(w @ (np.log(total) - np.einsum("ki,ki->i", y, changed)))
        features = link.features(z)
        products = p[:, None] * features
        weighted = products * w
        inner += weighted @ features.transpose(0, 2, 1)
        flat = products.reshape(-1, len(w))
        flat *= np.sqrt(w)
        outer += flat @ flat.T
        p -= y
        p *= w
        slopes += (features @ p[:, :, None])[..., 0]
    by_class = -outer.reshape(n_classes, n_features, n_classes, n_features)
    classes = np.arange(n_classes)
    by_class[classes, :, classes] += inner
    # The common slope changes the slopes on the diagonal.
    diagonal = link.diagonal(n_classes)
    gradient, hessian = np.zeros(n_theta), np.zeros((n_theta, n_theta))
    gradient[places] = slopes
    hessian[np.ix_(places.ravel(), places.ravel())] = by_class.reshape(places.size, -1)
    gradient[0], hessian[0] = gradient[diagonal].sum(), hessian[diagonal].sum(axis=0)
    hessian[:, 0] = hessian[0]
    hessian[0, 0] = hessian[0, diagonal].sum()
    return value, gradient, hessian


def minimise_affine(
    link: Affine,
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

    Deviations and biases that are shrunk sum to zero at the optimum, in units of their stiffness
    (`balanced`). A penalty on these sums does not change it, and makes it unique without shrinkage.

    `sums` maps theta to the sums of `affine_sums` over all samples, with weights whose sum is
    `size`; it is called at most `max_values` times. `known` are the sums at `start`, where these
    have been computed before. The default tolerance is that of a fit to the last digits. The
    ``state`` of the result are the sums at its ``parameters``.
    """
    penalised = _Penalised(link, start, shrinkage, size)

    def value(theta):
        total = sums(theta)
        return penalised.loss(theta, total), total

    evaluated: Any = None
    if known is not None:
        evaluated = penalised.loss(start, known), known, *penalised.slopes(start, known)
    return minimise_convex(
        value,
        penalised.slopes,
        start,
        known=evaluated,
        tolerance=likelihood_tolerance(size) if tolerance is None else tolerance,
        max_values=max_values,
    )


class _Penalised:
    """Sums with the penalty of `minimise_affine`."""

    def __init__(self, link, theta, shrinkage, size):
        n_classes = link.n_classes(len(theta))
        stiffness = link.stiffness(n_classes)
        self.identity, self.matrix = link.start(n_classes), np.diag(shrinkage * stiffness)
        for places in link.balanced(n_classes):
            share = stiffness[places]
            share = share / share.sum() if share.any() else np.full(len(places), 1 / n_classes)
            strength = size * (stiffness[places].mean() or 1.0)
            self.matrix[np.ix_(places, places)] += strength * np.outer(share, share)

    def loss(self, theta, sums):
        """Penalised loss."""
        away = theta - self.identity
        return sums[0] + 0.5 * away @ (self.matrix @ away)

    def slopes(self, theta, sums):
        """Penalised gradient and Hessian."""
        _, gradient, hessian = sums
        return gradient + self.matrix @ (theta - self.identity), hessian + self.matrix


# --- Strength of the shrinkage --------------------------------------------------------------------


_GRID = np.linspace(np.log(1e-2), np.log(1e6), 38)  # log strengths
_ROUNDS, _CLOSE = 12, 0.01  # of strengths in turn with parameters, and when strengths agree
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
    n_unshrunk = (
        free.sum() - 2
    )  # degrees of freedom of other parameters without a prior, with their BIC
    if n_unshrunk > 0:
        slope = total[1][free]
        gain += share * slope @ _inverse(total[2], free) @ slope / 2
        gain -= n_unshrunk * np.log(share * size) / 2
    if gain <= 0:
        return np.inf, start, total
    for _ in range(_ROUNDS):
        options = {"shrinkage": strength, "size": size, "tolerance": _TOLERANCE}
        minimum = minimise_affine(link, sums, theta, known=total, max_values=2, **options)
        theta, total = minimum.parameters, minimum.state
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
    optimum = minimize_scalar(lambda log: -log_evidence(log), bounds=ends, method="bounded")
    if free.sum() == 1 and (best == len(_GRID) - 1 or optimum.fun >= 0):
        return np.inf, 0.0
    return float(np.exp(optimum.x)) / share, -optimum.fun


def _inverse(hessian, some):
    return np.linalg.pinv(hessian[np.ix_(some, some)], rcond=_FLAT, hermitian=True)


# --- Without some of the samples ------------------------------------------------------------------


_MAX_VALUES = 100  # passes over the samples for one strength
_STRONGEST = 1e6  # finite strength, in samples


class AffineFit(NamedTuple):
    """An affine map under the log loss, fitted to all samples, and without parts of them.

    `sums` are those of `affine_sums` of each part at `theta`, `total` their sum; `sizes` and
    `masses` are the numbers of samples and the sums of weights of the parts, whose mean is one,
    and `squares` is the sum of all squared weights.
    """

    link: Affine
    theta: np.ndarray
    shrinkage: float
    sums: list[Sums]
    total: Sums
    sizes: np.ndarray
    masses: np.ndarray
    squares: float

    def without(self, left_out: Sequence[int], *, chosen: bool = False) -> tuple[float, np.ndarray]:
        """Strength and parameters without some parts, by one Newton step.

        With `chosen` the strength has the highest evidence without them.
        """
        size, remaining = self.sizes.sum(), np.delete(np.arange(len(self.sizes)), left_out)
        factor = self.sizes[remaining].sum() / self.masses[remaining].sum()
        held_out = _total([self.sums[k] for k in left_out])
        sums: Any = [
            factor * (of_all - of_parts)
            for of_all, of_parts in zip(self.total, held_out, strict=True)
        ]
        share, strength = self.masses.sum() / self.squares, self.shrinkage
        if chosen:
            strength, _ = best_strength(self.link, self.theta, sums, share)
            if np.isfinite(self.shrinkage):
                strength = min(strength, _STRONGEST)  # which is nearly temperature scaling
        _, gradient, hessian = sums
        if np.isfinite(strength):
            penalised = _Penalised(self.link, self.theta, strength, size)
            gradient, hessian = penalised.slopes(self.theta, sums)
            return strength, self.theta - solve_step(hessian, gradient)
        theta = self.theta.copy()  # the common slope only, and none where all losses are constant
        if hessian[0, 0] > _NO_CURVATURE * size:
            theta[0] -= gradient[0] / hessian[0, 0]
        return strength, theta

    def follows(self, theta: np.ndarray, part: int, actual: float) -> bool:
        """Whether the sum of weighted losses of a part at `theta` follows its expansion."""
        (loss, gradient, hessian), step = self.sums[part], theta - self.theta
        half_square = 0.5 * step @ hessian @ step
        return expansion_holds(actual, loss + gradient @ step + half_square, half_square)

    def is_usual(self, part: int) -> bool:
        """Whether the score of a part is usual for samples drawn at random."""
        (_, score, _), (_, gradient, hessian) = self.sums[part], self.total
        share, inflation = self.masses[part] / self.masses.sum(), self.squares / self.masses.sum()
        return is_usual(score - share * gradient, hessian, share, inflation)


def affine_fit(
    link: Affine,
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    start: np.ndarray,
    strength: float | None = None,
) -> AffineFit:
    """An affine map under the log loss, fitted to all samples, by default of highest evidence.

    `parts` are logits, targets (m, K) and weights (m,) of parts, which are all samples together,
    with weights of mean one; `start` are the parameters of temperature scaling.
    """
    sizes, masses = np.array([(len(weight), weight.sum()) for *_, weight in parts]).T
    squares = float(sum(weight @ weight for *_, weight in parts))
    size, last = sizes.sum(), {}

    def sums(theta):
        last.clear()
        last[theta.tobytes()] = [affine_sums(link, *part, theta) for part in parts]
        return _total(last[theta.tobytes()])

    theta, total = start, None
    if strength is None:
        share = masses.sum() / squares
        strength, theta, total = fit_by_evidence(link, sums, start, size=size, share=share)
    if np.isfinite(strength):
        run: Any = {"tolerance": _TOLERANCE, "max_values": _MAX_VALUES, "known": total}
        theta = minimise_affine(link, sums, theta, shrinkage=strength, size=size, **run).parameters
    if theta.tobytes() not in last:  # the last step did not lower the loss
        sums(theta)
    part_sums = last[theta.tobytes()]
    return AffineFit(link, theta, strength, part_sums, _total(part_sums), sizes, masses, squares)


def _total(sums):
    value, gradient, hessian = zip(*sums, strict=True)
    return sum(value), sum(gradient), sum(hessian)
