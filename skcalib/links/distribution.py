r"""The distribution function of log odds, from sums over fixed cells.

Cell j holds the log odds t whose :math:`asinh(t) / h` rounds to j, for :math:`|j| \le 8192`. The
cells are symmetric about zero. Their width in t is about :math:`h = 0.00065` around zero and grows
with the absolute value of t. Sums over cells add up over chunks of samples, in any order.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

_CELLS = 1 << 13  # cells on either side of zero
_END = 96.0  # log odds of the last cell: `log_forecast` gives none of more than 94
_KNOTS = 128  # places at which the distribution function is kept
_TABLE, _LOOKS = 4096, 8  # cells of a table of the knots, and most knots in one of them
_FEW = 1000  # values for which no table is used
_TINY = np.finfo(np.float64).tiny


def cell_sums(log_odds: np.ndarray, weight: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Sums over cells (3, 2 _CELLS + 1), which add up: weights, weighted log odds, and masses."""
    place = np.rint(np.arcsinh(log_odds) * (_CELLS / np.arcsinh(_END)))
    cell = np.clip(place, -_CELLS, _CELLS).astype(np.intp) + _CELLS
    size = 2 * _CELLS + 1
    parts = (weight, weight * log_odds, mass)
    return np.stack([np.bincount(cell, part, minlength=size) for part in parts])


class DistributionFunction:
    """The distribution function in the middle of its steps, linear between cells, from `cell_sums`.

    A cell is at the mean of its log odds. So the only value of a cell, and a value that many
    samples share, has the mass of all lower values and half of its own. With more than 128 cells
    the function is kept at 128 quantiles only; for these a cell has at most 1/128 of the weight.
    """

    def __init__(self, sums: np.ndarray) -> None:
        weight, total, mass = sums[:, sums[0] > 0]
        reached = np.cumsum(mass)
        reached = (reached - 0.5 * mass) / max(reached[-1], _TINY)
        self.values, self.reached = total / weight, reached
        if len(mass) > _KNOTS:
            weight = np.minimum(weight, weight.sum() / _KNOTS)
            rank = np.cumsum(weight) - 0.5 * weight
            knots = np.linspace(rank[0], rank[-1], _KNOTS)
            self.values = np.interp(knots, rank, self.values)
            self.reached = np.interp(knots, rank, reached)

    def __getstate__(self) -> dict[str, Any]:
        """All but the table, which is made where it is needed."""
        return {"values": self.values, "reached": self.reached}

    def __call__(self, log_odds: np.ndarray) -> np.ndarray:
        """Values (n,) -> shares of the mass (n,)."""
        if len(log_odds) < _FEW or self._table is None:
            return np.interp(log_odds, self.values, self.reached)
        return self._table(log_odds)

    @cached_property
    def _table(self):
        steps = np.diff(self.values)
        if len(steps) == 0 or not steps.min() > 0:
            return None
        table = _Table(self.values, self.reached)
        return table if table.most <= _LOOKS else None


class _Table:
    """`numpy.interp` without a search, in a third of its time.

    The knot below a value is read from a table of equal cells. In a cell with knots of its own the
    values are compared with the next knots, as many times as a cell has knots at most.
    """

    def __init__(self, knots, values):
        self.knots, self.values = knots, values
        self.slopes, self.ends = np.diff(values) / np.diff(knots), np.append(knots[1:-1], np.inf)
        self.scale = _TABLE / (knots[-1] - knots[0])
        counts = np.bincount(self._cells(knots), minlength=_TABLE)
        self.most = int(counts.max())
        last = np.cumsum(counts) - counts - 1  # knot before each cell
        self.start = np.clip(last, 0, len(knots) - 2)

    def __call__(self, at):
        knot = self.start.take(self._cells(at), mode="clip")  # other modes make copies
        for _ in range(self.most):
            knot += at >= self.ends.take(knot, mode="clip")
        values = np.clip(at, self.knots[0], self.knots[-1])
        values -= self.knots.take(knot, mode="clip")
        values *= self.slopes.take(knot, mode="clip")
        values += self.values.take(knot, mode="clip")
        return values

    def _cells(self, at):
        place = (at - self.knots[0]) * self.scale
        return np.clip(place, 0, _TABLE - 1, out=place).astype(np.intp)
