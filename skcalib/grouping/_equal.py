r"""Comparison at equal scores: a linear model whose first part is a curve of the score.

The basis :math:`B` of the curve is piecewise linear, with frequent scores on their own, and holds a
cross-fitted isotonic curve, which has the jumps. The covariance of the labels with a group at equal
scores is :math:`T = \sum_i w_i \tilde g_i (y_i - c_i)`, where :math:`\tilde g` is what the basis
leaves of the group and :math:`c` any curve. By orthogonality T does not depend on the curve where
the basis holds it. What the basis misses of the calibration curve biases T only times what it
misses of :math:`E[g|s]`.
"""

import warnings

import numpy as np

from skcalib.smoothers import IsotonicSmoother, LogitSmoother

_FEWEST, _MOST = 3, 30  # intervals of the curve
_RANK = 1e-8
_ISOTONIC = 20  # samples from which on jumps of the curve are sought


class EqualScores:
    """Residuals and groups without what the score explains.

    Parameters
    ----------
    score, hit, weight : array of shape (n,)
        Probability of the event, whether it happened (0 or 1), positive weights.
    offset : array of shape (n,), default=None
        A parametric calibration curve at each score; fitted by default.

    Attributes
    ----------
    curve : array of shape (n,)
        Fitted frequency of the event at each score.
    residual : array of shape (n,)
        Labels minus the curve before it is clipped; orthogonal to the basis.
    position : array of shape (n,)
        Rank of the score between 0 and 1, by mass and information in equal parts.
    """

    def __init__(self, score, hit, weight, offset=None):
        self.score, self.hit = score, hit
        self.weight = weight / weight.mean()
        self.size = weight.sum() ** 2 / np.sum(weight**2)
        self.equal_weights = np.ptp(weight) <= 1e-9 * weight.max()
        self.offset = parametric_curve(score, hit, weight) if offset is None else offset
        n_intervals = int(np.clip(round(self.size ** (1 / 3)), _FEWEST, _MOST))
        basis, self.position = self._basis(n_intervals)
        self._directions = np.empty((len(score), 0))
        self.residual = hit - self.offset
        self._append(basis)
        room = 0.25 / len(score)
        self.curve = np.clip(hit - self.residual, room, 1 - room)

    @property
    def inflation(self):
        """What corrects squares of residuals for the degrees of freedom of the fit."""
        return self.size / max(self.size - self._directions.shape[1], 1.0)

    @property
    def variance(self):
        """Variance of each label given its score, corrected for the fit of the curve."""
        return self.curve * (1 - self.curve) * self.inflation

    def beyond(self, columns):
        """The same comparison, at equal values of further columns (n, m) too."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._append(columns)
        return other

    def center(self, columns):
        """Columns (n, m) without what the basis explains of them."""
        if not self._directions.shape[1]:
            return columns
        inner = self._directions.T @ (self.weight[:, None] * columns)
        return columns - self._directions @ inner

    def _append(self, columns):
        columns = self.center(np.asarray(columns, dtype=np.float64))
        gram = columns.T @ (self.weight[:, None] * columns)
        scale = np.trace(gram)
        if not scale > 0:
            return
        values, vectors = np.linalg.eigh(gram)
        kept = values > _RANK * scale
        added = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
        self._directions = np.hstack([self._directions, added])
        inner = added.T @ (self.weight * self.residual)
        self.residual = self.residual - added @ inner

    def _basis(self, n_intervals):
        """Piecewise linear in the position, frequent scores, and an isotonic curve."""
        values, which = np.unique(self.score, return_inverse=True)
        information = self.weight * self.offset * (1 - self.offset)
        total = max(information.sum(), 1e-300)
        mass = 0.5 * self.weight / self.weight.sum() + 0.5 * information / total
        mass = np.bincount(which, mass)
        middle = (np.cumsum(mass) - mass / 2) / mass.sum()
        position = middle[which]
        if len(values) <= n_intervals + 1:
            return (which[:, None] == np.arange(len(values))).astype(np.float64), position
        place = position * n_intervals
        knots = np.arange(n_intervals + 1)
        hats = np.clip(1 - np.abs(place[:, None] - knots), 0.0, None)
        often = np.flatnonzero(mass >= 0.5 / n_intervals)
        atoms = (which[:, None] == often).astype(np.float64)
        jumps = np.empty((len(place), 0))
        if np.ptp(self.hit) > 0 and len(place) > _ISOTONIC:
            jumps = monotone_curve(self.score, self.hit, self.weight)[:, None]
        return np.hstack([hats, atoms, jumps]), position


def monotone_curve(score, hit, weight):
    """Frequency of the event by cross-fitted isotonic regression, which can jump."""
    smoother = IsotonicSmoother()
    smoother.fit(np.column_stack([1 - score, score]), np.column_stack([1 - hit, hit]), weight)
    return smoother.smooth_held_out()[:, 1]


def parametric_curve(score, hit, weight):
    """Frequency of the event by the default smoother, fitted once to all samples."""
    if np.ptp(hit) == 0:
        return np.full(len(hit), float(hit[0]))
    forecast = np.column_stack([1 - score, score])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LogitSmoother().fit(forecast, np.column_stack([1 - hit, hit]), weight)
        return fitted.predict(forecast)[:, 1]
