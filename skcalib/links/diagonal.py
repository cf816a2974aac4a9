r"""Diagonal intra order-preserving maps (DIAG): one increasing function g for every logit.

:math:`z_k \to g(z_k)`. The order of the classes is kept whatever g is, and the map is injective: if
all outputs move by one constant then all logits moved the same way, and forecasts that sum to one
cannot do that. g is the integral of a positive function of the logit, which is either a step
function between quantiles of the logits (`MonotonePieces`; the fit is convex) or the exponential of
a small network (`MonotoneNetwork`), integrated by the trapezoidal rule. Beyond the logits of the
fit g goes on as a straight line.
"""

import numpy as np

from skcalib.links._base import Link

_LEAST = 1e-6  # slopes stay above it: g is strictly increasing


class _Diagonal(Link):
    def injective(self, theta, n_classes):
        return True

    def preserves_order(self, theta, n_classes):
        return True


class MonotonePieces(_Diagonal):
    """Piecewise linear g; theta = slopes between the knots.

    Parameters
    ----------
    n_pieces : int, default=16
        Pieces; knots are quantiles of all logits.
    """

    def __init__(self, n_pieces=16):
        self.n_pieces = n_pieces

    def prepare(self, logits):
        levels = np.linspace(0, 1, self.n_pieces + 1)[1:-1]
        self.knots_ = np.unique(np.quantile(logits, levels))
        return self

    def start(self, n_classes):
        return np.ones(len(self.knots_) + 1)

    def bounds(self, n_classes):
        return [(_LEAST, None)] * (len(self.knots_) + 1)

    def apply(self, theta, logits):
        heights = np.append(0.0, np.cumsum(theta[1:-1] * np.diff(self.knots_)))
        piece = np.searchsorted(self.knots_, logits, side="right")
        base = np.maximum(piece - 1, 0)
        return heights[base] + theta[piece] * (logits - self.knots_[base])

    def vjp(self, theta, logits, cotangent):
        flat, c = logits.ravel(), cotangent.ravel()
        piece = np.searchsorted(self.knots_, flat, side="right")
        base = np.maximum(piece - 1, 0)
        n_pieces = len(theta)
        gradient = np.bincount(piece, c * (flat - self.knots_[base]), n_pieces)
        # A slope also lifts everything above its piece.
        above = np.cumsum(np.bincount(base, c, n_pieces)[::-1])[::-1]
        gradient[1:-1] += above[1:-1] * np.diff(self.knots_)
        return gradient


class MonotoneNetwork(_Diagonal):
    """g' = exp(network), a network of two hidden layers of one logit.

    The last layer starts at zero, so that the first g is the identity, or any straight line.

    Parameters
    ----------
    hidden : int, default=8
        Units of each hidden layer.
    n_grid : int, default=200
        Points of the trapezoidal rule.
    seed : int, default=0
        Draws the first two layers.
    """

    def __init__(self, hidden=8, n_grid=200, seed=0):
        self.hidden, self.n_grid, self.seed = hidden, n_grid, seed

    def prepare(self, logits):
        low, high = float(logits.min()), float(logits.max())
        if high - low < 1e-12:
            low, high = low - 1, high + 1
        self.grid_ = np.linspace(low, high, self.n_grid)
        self._inputs = (2 * (self.grid_ - low) / (high - low) - 1)[:, None]
        return self

    def start(self, n_classes):
        rng, h = np.random.RandomState(self.seed), self.hidden
        first = [rng.normal(size=h), rng.normal(size=h)]
        second = [rng.normal(size=h * h) / np.sqrt(h), 0.1 * rng.normal(size=h)]
        return np.concatenate([*first, *second, np.zeros(h + 1)])

    def stiffness(self, n_classes):
        # All but the last bias, which is the logarithm of the mean slope.
        return np.append(np.ones(len(self.start(n_classes)) - 1), 0.0)

    def straight(self, theta, slope):
        """Parameters whose g is a line of this slope, other parameters as in `theta`."""
        theta = theta.copy()
        theta[-self.hidden - 1 :] = 0.0
        theta[-1] = np.log(slope)
        return theta

    def apply(self, theta, logits):
        left, share = self._place(logits)
        heights = self._heights(theta)[0]
        return heights[left] * (1 - share) + heights[left + 1] * share

    def vjp(self, theta, logits, cotangent):
        left, share = self._place(logits)
        n = self.n_grid
        pull = np.bincount(left.ravel(), (cotangent * (1 - share)).ravel(), n)
        pull += np.bincount(left.ravel() + 1, (cotangent * share).ravel(), n)
        # Heights are sums of trapezoids: each slope counts for all heights above it.
        above = np.cumsum(pull[::-1])[::-1]
        step = 0.5 * (self.grid_[1] - self.grid_[0])
        to_slope = np.zeros(n)
        to_slope[1:] += above[1:] * step
        to_slope[:-1] += above[1:] * step
        _, slope, (a1, a2) = self._heights(theta)
        _, _, w2, _, w3, _ = self._unpack(theta)
        d3 = (to_slope * slope)[:, None]
        d2 = d3 * w3 * (1 - a2**2)
        d1 = (d2 @ w2.T) * (1 - a1**2)
        parts = [self._inputs.T @ d1, d1.sum(0), a1.T @ d2, d2.sum(0), a2.T @ d3, d3.sum(0)]
        return np.concatenate([part.ravel() for part in parts])

    def _unpack(self, theta):
        h = self.hidden
        sizes = np.cumsum([h, h, h * h, h, h])
        w1, b1, w2, b2, w3, b3 = np.split(theta, sizes)
        return w1, b1, w2.reshape(h, h), b2, w3, b3

    def _heights(self, theta):
        w1, b1, w2, b2, w3, b3 = self._unpack(theta)
        a1 = np.tanh(self._inputs * w1 + b1)
        a2 = np.tanh(a1 @ w2 + b2)
        slope = np.exp(np.clip(a2 @ w3 + b3[0], -30, 30))
        step = self.grid_[1] - self.grid_[0]
        heights = np.append(0.0, np.cumsum(0.5 * (slope[1:] + slope[:-1]) * step))
        return heights, slope, (a1, a2)

    def _place(self, logits):
        """Grid interval of each logit and its place there; beyond the grid the line goes on."""
        scaled = (logits - self.grid_[0]) / (self.grid_[1] - self.grid_[0])
        left = np.clip(np.floor(scaled), 0, self.n_grid - 2).astype(np.int64)
        return left, scaled - left
