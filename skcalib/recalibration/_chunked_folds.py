"""The shrinkage of vector scaling by cross-validation over samples in chunks.

All strengths and folds are fitted at the same time: each pass over the chunks adds up losses,
gradients and second derivatives of every fit that has not ended. A hash of the logits and the label
of a row determines its fold, so that folds depend neither on the chunks nor on their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib.links.affine import affine_steps, affine_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib.links.maps import VectorMap
    from skcalib.recalibration._chunked import ChunkedLogits
    from skcalib.scores import LogLoss

N_FOLDS = 5
FOLDS = range(N_FOLDS)
_DECIMALS = 1e6  # of the logits that are hashed: rounding errors must not change a fold
_TOLERANCE = 1e-3  # of the log likelihood: differences between strengths are far larger
_RESERVED = 7  # passes for the held-out losses and the fit to all samples


def choose_strength(
    samples: ChunkedLogits,
    link: VectorMap,
    score: LogLoss,
    start: np.ndarray,
    strengths: Sequence[float],
) -> tuple[float, np.ndarray]:
    """Strongest shrinkage within a standard error of the best, and where to start its fit.

    Parameters
    ----------
    samples : ChunkedLogits
        The samples.
    link : VectorMap
        The map, prepared.
    score : LogLoss
        The log loss.
    start : ndarray of shape (2 K + 1,)
        Parameters of temperature scaling, where all fits start. They are those of the strength
        infinity.
    strengths : sequence of float
        Strengths in decreasing order, infinity first.

    Returns
    -------
    strength : float
        The chosen strength.
    theta : ndarray of shape (2 K + 1,)
        Mean of its parameters over the folds.
    """
    if samples.n_samples < 2 * N_FOLDS:
        return strengths[0], start
    fitted = _fit_folds(samples, link, start, strengths[1:])
    thetas = np.concatenate([np.broadcast_to(start, (1, N_FOLDS, len(start))), fitted])
    sums = samples.total(_held_out_sums, link, score, thetas)
    at = _first_within_one_standard_error(*sums)
    return strengths[at], thetas[at].mean(axis=0)


def folds_of(logits: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Fold (n,) of each row, from a hash of its logits (n, K) and of the column of its label."""
    rounded = np.rint(logits * _DECIMALS).astype(np.int64).astype(np.uint64)
    mixed = columns.astype(np.uint64)
    for column in rounded.T:
        mixed = _mix(mixed * np.uint64(0x9E3779B97F4A7C15) + column)
    return (mixed % np.uint64(N_FOLDS)).astype(np.intp)


def _mix(h):
    """The finaliser of splitmix64."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def _fit_folds(samples, link, start, strengths):
    """Parameters (strengths, folds, P) of maps that were fitted to the other folds."""
    budget = max(samples.passes_left - _RESERVED, 2)
    size = samples.n_samples * (1 - 1 / N_FOLDS)
    options = {"size": size, "tolerance": _TOLERANCE, "max_values": budget}
    fits = {
        (s, fold): affine_steps(link, start, shrinkage=strength, **options)
        for s, strength in enumerate(strengths)
        for fold in FOLDS
    }
    wanted = {key: next(fit) for key, fit in fits.items()}
    found = np.empty((len(strengths), N_FOLDS, len(start)))
    while wanted:
        # Fits of a fold at the same parameters, as all are at first, share the sums.
        places = {(key[1], theta.tobytes()): theta for key, theta in wanted.items()}
        thetas = [[theta for (k, _), theta in places.items() if k == fold] for fold in FOLDS]
        total = samples.total(_training_sums, link, thetas)
        keys = [(fold, theta.tobytes()) for fold in FOLDS for theta in thetas[fold]]
        sums = {key: total[3 * at : 3 * at + 3] for at, key in enumerate(keys)}
        still = {}
        for key, theta in wanted.items():
            try:
                still[key] = fits[key].send(sums[key[1], theta.tobytes()])
            except StopIteration as end:
                found[key] = end.value.refined
        wanted = still
    return found


def _training_sums(logits, columns, weight, link, thetas):
    """Sums of `affine_sums` at the parameters of each fold, over the rows outside of it."""
    fold, target = folds_of(logits, columns), np.eye(logits.shape[1])[columns]
    found: list[Any] = []
    for k in FOLDS:
        rows = fold != k
        data = logits[rows], target[rows], weight[rows]
        for theta in thetas[k]:
            found += affine_sums(link, *data, theta)
    return tuple(found)


def _held_out_sums(logits, columns, weight, link, score, thetas):
    """Sums of the held-out losses L of all strengths: w L, w^2 L L', w^2 L, w and w^2."""
    fold, target = folds_of(logits, columns), np.eye(logits.shape[1])[columns]
    losses = np.empty((len(thetas), len(logits)))
    for k in FOLDS:
        rows = fold == k
        for s, theta in enumerate(thetas[:, k]):
            losses[s, rows] = score.logit_loss(target[rows], link.apply(theta, logits[rows]))[0]
    square = weight**2
    products = (losses * square) @ losses.T
    return losses @ weight, products, losses @ square, weight.sum(), square.sum()


def _first_within_one_standard_error(mean, products, square_mean, mass, square_mass):
    """As the function of this name in `skcalib.inference`, from the sums of `_held_out_sums`."""
    best = int(np.argmin(mean))
    gap = (mean - mean[best]) / mass
    size = mass**2 / square_mass
    spread = np.diag(products) - 2 * products[best] + products[best, best]
    spread = spread - 2 * gap * (square_mean - square_mean[best]) + gap**2 * square_mass
    error = np.sqrt(np.maximum(spread, 0.0) * size / (size - 1)) / mass
    return int(np.flatnonzero(gap <= error)[0])
