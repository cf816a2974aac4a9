r"""Heavy tails of decision values: a stored increasing function that gives them those of logits.

Where the tails are heavy, no unit fits: in that of the tails the bulk is one number, and in that of
the bulk the tails saturate. So the values v become :math:`f(v) - f(0)`, where f takes the quantile
of the rank p to the logit of p. It is piecewise linear, and beyond the outer knots logarithmic at
first, which is what Pareto tails ask for. Of two classes v is the difference of the columns, so
that the classes have the same f up to its sign. Of more classes v is any value of any column, so
that f keeps the order of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

_FEWEST = 100  # different values from which tails can be seen
_RANKS = np.array([0.01, 0.05, 0.25])
_LOGISTIC = np.log(1 / _RANKS - 1)  # quantiles of the standard logistic law
#: Ratios of the ranges of 98 % and 90 % of the values, and of 90 % and 50 %, in units of those of
#: the logistic law, above which tails are heavy.
_HEAVY = 3.0
_ROUNDING = 1e-12  # least difference of two values, in units of their size
_STEP = 0.25  # of the logits of the ranks of the knots
_BEHIND = 5.0  # number of values beyond an outer knot
_DOUBLINGS = 2 * np.arange(1, 31)  # of the distance to the median, at knots beyond the outer ones
LARGEST = 1e100  #: Sizes beyond it, in units, are reduced to it.


@dataclass(frozen=True, eq=False)
class TailCurve:
    """An increasing function of values divided by ``unit``: lines between knots and beyond."""

    unit: float
    knots: np.ndarray
    levels: np.ndarray
    two: bool  # columns, whose difference has the tails

    @classmethod
    def of(cls, columns: np.ndarray, unit: float) -> TailCurve | None:
        """The function of columns (n, K), for values that are divided by a unit; None for others.

        It is None where the values in each column have no heavy tails.
        """
        values = _values(divided(columns, unit))
        centred = values - np.nanmedian(values, axis=0)
        values = values[~np.isnan(values)]
        if not _heavy(centred[~np.isnan(centred)]):
            return None
        most = np.log(len(values) / _BEHIND)
        steps = int(most / _STEP)
        levels = np.linspace(-most, most, 2 * steps + 1)
        knots = np.quantile(values, expit(levels), method="hazen")
        middle, half = knots[steps], steps // 2
        knots, place, count = np.unique(knots, return_inverse=True, return_counts=True)
        quantiles, levels = knots[place], np.bincount(place, levels) / count
        for end, sign in ((0, -1), (-1, 1)):
            reach = abs(quantiles[end] - middle) or knots[-1] - knots[0]
            inner = abs(quantiles[half if end == 0 else -1 - half] - middle)
            growth = most / 2 / max(np.log(reach / inner) if inner else np.inf, most / 2)
            beyond = quantiles[end] + sign * reach * (2.0**_DOUBLINGS - 1)
            above = levels[end] + sign * growth * np.log(2) * _DOUBLINGS
            knots = np.append(knots, beyond) if sign > 0 else np.append(beyond[::-1], knots)
            levels = np.append(levels, above) if sign > 0 else np.append(above[::-1], levels)
        curve = cls(unit, knots, levels, columns.shape[1] == 2)
        return replace(curve, levels=levels - curve._at(np.zeros(1)))

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Columns (n, K) with the tails of logits."""
        columns = divided(columns, self.unit)
        mapped = self._at(_values(columns))
        return mapped / 2 * [-1, 1] if self.two else mapped

    def each(self, values: np.ndarray) -> np.ndarray:
        """Single values as logits; v as that of the second of two classes, if the first has -v."""
        count = 1 + self.two
        return self._at(divided(values, self.unit) * count) / count

    def _at(self, values):
        piece = np.searchsorted(self.knots, values, side="right")
        level, slope = self._lines()[piece].T
        return level.T + slope.T * (values - self.knots[np.maximum(piece - 1, 0)])

    def _lines(self):
        """Level and slope (m + 1, 2) of each line, from the knot below it, and the first knot."""
        slopes = np.diff(self.levels) / np.diff(self.knots)
        pairs = self.levels[:1], self.levels, slopes[:1], slopes, slopes[-1:]
        return np.column_stack([np.concatenate(pairs[:2]), np.concatenate(pairs[2:])])

    def _write(self, add, x):
        x = add("scale", x, factor=1 / self.unit)
        x = add("curve", add.logit(x) if self.two else x, breaks=self.knots, coef=self._lines())
        return add("matrix", x, coef=[[-0.5, 0.5]]) if self.two else x


def _values(columns):
    """The difference (n, 1) of two columns, or the columns."""
    return np.diff(columns, axis=1) if columns.shape[1] == 2 else columns


def _heavy(values):
    """Whether the different ones among values (n,) have heavy tails."""
    values = np.sort(values)
    apart = np.diff(values) > _ROUNDING * np.abs(values[1:])
    values = values[np.append(True, apart)]
    if len(values) < _FEWEST:
        return False
    ranges = np.quantile(values, 1 - _RANKS) - np.quantile(values, _RANKS)
    wide, narrow = ranges[:-1] / _LOGISTIC[:-1], ranges[1:] / _LOGISTIC[1:]
    return bool(np.all(wide > _HEAVY * narrow))


def divided(columns: np.ndarray, unit: float) -> np.ndarray:
    """Columns divided by a unit, of which no size exceeds 1e100."""
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(columns.astype(np.float64) / unit, -LARGEST, LARGEST)
