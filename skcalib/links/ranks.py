r"""Values in units of their ranks, where these alone say how far values are apart.

A `RankCurve` is a stored increasing function of values v, which takes the quantile of the rank p to
the logit of p. It is piecewise linear, and beyond the outer knots logarithmic at
first, which is what Pareto tails ask for. Of two classes v is the difference of the columns, so
that the classes have the same f up to its sign. Of more classes v is any value of any column, so
that f keeps the order of the classes.

`heavy_tails` needs it, because no unit fits: in that of the tails the bulk is one number, and in
that of the bulk the tails saturate. `crowded` forecasts need it where a smoother has a scale of its
own: they are close to each other, to 0 or 1, or in a few clumps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit, logit

_FEWEST = 100  # different values from which tails and clumps can be seen
_FEW = 20  # values from which there are ranks
_RESOLVED = np.log(1.5)  # of the range of a tenth of crowded forecasts, in those of the kernel
_CLUMPED = 0.002  # median range of a tenth of the values in clumps, in that of 98 % of them
_RANKS = np.array([0.01, 0.05, 0.25])
_LOGISTIC = np.log(1 / _RANKS - 1)  # quantiles of the standard logistic law
#: Ratios of the ranges of 98 % and 90 % of the values, and of 90 % and 50 %, in units of those of
#: the logistic law, above which tails are heavy.
_HEAVY = 3.0
_ROUNDING = 1e-12  # least difference of two values, in units of their size
_STEP = 0.25  # of the logits of the ranks of the knots
_BEHIND = 5.0  # number of values beyond an outer knot
_DOUBLINGS = 2 * np.arange(1, 31)  # of the distance to the median, at knots beyond the outer ones
_GAP = 0.05  # least distance of neighbours that is a gap, in units of the range of 98 %
_WIDEST = 2.0  # units of a gap that are kept
_STEEPEST = 30.0  # logarithm of the distance of an outer knot, in that of the median half of it
LARGEST = 1e100  #: Sizes beyond it, in units, are reduced to it.


@dataclass(frozen=True, eq=False)
class RankCurve:
    """An increasing function of values divided by ``unit``: lines between knots and beyond."""

    unit: float
    knots: np.ndarray
    levels: np.ndarray
    two: bool  # columns, whose difference has the tails

    @classmethod
    def of(cls, columns: np.ndarray, unit: float = 1.0, gaps: bool = False) -> RankCurve:
        """The function of columns (n, K), which may be NaN, for values divided by a unit.

        With `gaps`, those between clumps of values remain, up to two units.
        """
        values = _values(divided(columns, unit))
        values = np.sort(values[~np.isnan(values)])
        most = np.log(len(values) / _BEHIND)
        levels = np.linspace(-most, most, 2 * int(most / _STEP) + 1)
        if gaps:
            least = _GAP * _range(values)
            ends = np.flatnonzero(np.diff(values) > least)[:, None] + [0.5, 1.5]
            levels = np.union1d(levels, logit(ends / len(values)).clip(-most, most))
        quantiles = partial(np.quantile, values, method="hazen")
        knots, place, count = np.unique(
            quantiles(expit(levels)), return_inverse=True, return_counts=True
        )
        levels = np.bincount(place, levels) / count
        if len(knots) == 1:
            knots, levels = values[[0, -1]], np.array([-most, most])
        if gaps:
            steps = np.diff(knots)
            moved = np.append(0, np.cumsum(np.where(steps > least, steps.clip(0, _WIDEST), 0)))
            levels += moved - np.interp(quantiles(0.5), knots, moved)
        middle = quantiles(0.5)
        for end, sign in ((0, -1), (-1, 1)):
            reach = abs(knots[end] - middle) or np.ptp(knots)
            inner = abs(quantiles(expit(sign * most / 2)) - middle)
            growth = most / 2 / max(np.log(reach / inner) if inner else _STEEPEST, most / 2)
            beyond = knots[end] + sign * reach * (2.0**_DOUBLINGS - 1)
            above = levels[end] + sign * growth * np.log(2) * _DOUBLINGS
            if sign < 0:
                knots, levels = np.append(beyond[::-1], knots), np.append(above[::-1], levels)
            else:
                knots, levels = np.append(knots, beyond), np.append(levels, above)
        return cls(unit, knots, levels, columns.shape[1] == 2)

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Columns (n, K) with the tails of logits."""
        columns = divided(columns, self.unit)
        mapped = self.of_values(_values(columns))
        return mapped / 2 * [-1, 1] if self.two else mapped

    def each(self, values: np.ndarray) -> np.ndarray:
        """Single values as logits; v as that of the second of two classes, if the first has -v."""
        count = 1 + self.two
        return self.of_values(divided(values, self.unit) * count) / count

    def of_values(self, values: np.ndarray) -> np.ndarray:
        """The function of values in units."""
        piece = np.searchsorted(self.knots, values, side="right")
        level, slope = self._lines()[piece].T
        return level.T + slope.T * (values - self.knots[np.maximum(piece - 1, 0)])

    def _lines(self):
        """Level and slope (m + 1, 2) of each line, from the knot below it, and the first knot."""
        slopes = np.diff(self.levels) / np.diff(self.knots)
        pairs = self.levels[:1], self.levels, slopes[:1], slopes, slopes[-1:]
        return np.column_stack([np.concatenate(pairs[:2]), np.concatenate(pairs[2:])])

    def _write(self, add, x):
        x = self._write_values(add, add.logit(x) if self.two else x)
        return add("matrix", x, coef=[[-0.5, 0.5]]) if self.two else x

    def _write_values(self, add, x):
        x = add("scale", x, factor=1 / self.unit)
        return add("curve", x, breaks=self.knots, coef=self._lines())


def _values(columns):
    """The difference (n, 1) of two columns, or the columns."""
    return np.diff(columns, axis=1) if columns.shape[1] == 2 else columns


def heavy_tails(columns: np.ndarray, unit: float) -> RankCurve | None:
    """The function of columns (n, K), if different values of a column have them; 0 stays 0."""
    values = _values(divided(columns, unit))
    values = _different(values - np.nanmedian(values, axis=0))
    if len(values) < _FEWEST:
        return None
    ranges = np.quantile(values, 1 - _RANKS) - np.quantile(values, _RANKS)
    wide, narrow = ranges[:-1] / _LOGISTIC[:-1], ranges[1:] / _LOGISTIC[1:]
    if not np.all(wide > _HEAVY * narrow):
        return None
    curve = RankCurve.of(columns, unit)
    return replace(curve, levels=curve.levels - curve.of_values(np.zeros(1)))


def curve_of_ranks(forecast: np.ndarray) -> RankCurve | None:
    """The function of log-probabilities, unless there are few forecasts (n, K) or all are equal."""
    log = log_positive(forecast)
    several = len(forecast) >= _FEW and np.ptp(_values(log), axis=0).max() > 0
    return RankCurve.of(log, gaps=True) if several else None


def crowded(forecast: np.ndarray, bandwidth: float) -> RankCurve | None:
    r"""The function of log-probabilities, if forecasts (n, K) are too close for a Dirichlet kernel.

    The smallest bandwidth h gives a kernel at s the standard deviation
    :math:`\sqrt{h s (1 - s)}`. Forecasts are crowded if, in the median, a tenth of the different
    ones lie within it, or in a small share of the range of all.
    """
    curve, log = curve_of_ranks(forecast), log_positive(forecast)
    if curve is None:
        return None
    values = _different(_values(log))
    near = max(len(values) // 10, 1)
    low, high = values[:-near], values[near:]
    if forecast.shape[1] == 2:
        log_width = np.logaddexp(low / 2, -low / 2)
    else:
        log_width = 0.5 * (np.log(-np.expm1(np.minimum(high, -_ROUNDING))) - low)
    kernels = np.log(high - low) - log_width - 0.5 * np.log(bandwidth)
    return curve if np.median(kernels) < _RESOLVED or in_clumps(values) else None


def in_clumps(values: np.ndarray) -> bool:
    """Whether most different ones among values lie in a few clumps, whose ranges are small."""
    values = _different(values)
    if len(values) < _FEWEST:
        return False
    near = len(values) // 10
    return bool(np.median(values[near:] - values[:-near]) < _CLUMPED * _range(values))


def log_positive(forecast: np.ndarray) -> np.ndarray:
    """Logarithms, with the smallest positive number in place of 0."""
    return np.log(np.maximum(forecast, np.finfo(np.float64).tiny))


def _range(values):
    return np.ptp(np.quantile(values, [_RANKS[0], 1 - _RANKS[0]]))


def _different(values):
    """Sorted values that differ by more than rounding."""
    values = np.sort(values[~np.isnan(values)])
    return values[np.append(True, np.diff(values) > _ROUNDING * np.abs(values[1:]))]


def divided(columns: np.ndarray, unit: float) -> np.ndarray:
    """Columns divided by a unit, of which no size exceeds 1e100."""
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(columns.astype(np.float64) / unit, -LARGEST, LARGEST)
