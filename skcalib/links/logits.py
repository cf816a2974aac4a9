r"""Logits of forecasts and of decision values, in units in which maps can be fitted to them.

**Logarithms of forecasts.** `log_forecast` takes forecasts to logits, and `detection_limit` says
what stands for a forecast of 0.

**A robust spread, learned once and stored.** The margin of class k in K columns z is :math:`z_k`
minus the mean of the other columns: the log odds of k against the others, if z are logits. One
column d of two classes stands for the columns -d/2 and d/2, with the margins -d and d. The unit of
columns (`LogitScale`, `logit_unit`) is that in which the margins spread as the standard logistic
law, with the standard deviation :math:`\pi / \sqrt 3`. Means and standard deviations are
winsorised: the smallest and the largest hundredth of the values of a column are moved to its
percentiles 1 and 99.

**Ranks, where these alone say how far values are apart.** A `RankCurve` is a stored increasing
function of values v, which takes the quantile of the rank p to the logit of p. It is piecewise
linear, and beyond the outer knots logarithmic at first, which suits Pareto tails. Of two classes v
is the difference of the columns, so that the classes have the same f up to its sign. Of more
classes v is any value of any column, so that f keeps the order of the classes. `heavy_tails` needs
it, because no unit fits: in that of the tails most values are equal, and in that of the other
values the tails saturate. `crowded` forecasts need it where a smoother has a scale of its own: they
are close to each other, to 0 or 1, or in a few clusters.

**Beyond the fitted forecasts.** A curve is known at the forecasts of the calibration set only.
Beyond them a parabola is not monotone, a cubic polynomial diverges, and a kernel has no neighbours.
`Continuation` replaces a map there by a line in the logits, whose slope is that of the map at this
end, and not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_softmax, logit, softmax

from skcalib._util.validation import weights_of_mean_one
from skcalib.scores import weighted_quantile

#: Logarithm of the smallest normal number of single precision, about -87.
COMPRESSED_BELOW = float(np.log(np.finfo(np.float32).tiny))
_SORTED = 1 << 16  # forecasts among which a step is looked for
_SAME, _SINGLE = 2.0**-22, 2.0**-24  # differences by rounding, and of 1 from the number below it
_LEAST_STEP, _MOST_STEP = 0.9e-4, 0.01  # few votes say little about smaller probabilities
_MOST_PARTS, _OFF = 6, 1e-3  # of the least difference; distance from a multiple, in steps


def detection_limit(forecast: np.ndarray) -> float:
    r"""Least probability that forecasts distinguish from 0; smaller ones, and 0, count as this one.

    Where forecasts hold exact zeros, it is half of the smallest positive one. Where they hold none,
    it follows from their resolution, because smaller new values may be real. If all are multiples
    of a step, as shares of votes and rounded numbers are, it is half of the step, and at most .005.
    Otherwise it is half of the smallest value or, where that is smaller, :math:`2^{-25}`, half of
    the distance of 1 from the number below it in single precision.
    """
    least = forecast.min(where=forecast > 0, initial=np.inf)
    if forecast.min() > 0:
        least = min(least, _step(forecast.ravel()) or _SINGLE)
    return float(max(0.5 * least, np.finfo(np.float64).tiny))


def _step(values):
    """The step of which all values are multiples, at most .01; 0 where there is none."""
    levels = np.unique(values[:: 1 + values.size // _SORTED]).astype(np.float64)
    gaps = np.diff(levels, prepend=0.0)
    least = gaps.min(where=gaps > _SAME, initial=1.0)
    for parts in range(1, _MOST_PARTS + 1):  # two neighbouring multiples may not occur
        place = levels * (parts / least)
        if least > _LEAST_STEP and np.abs(place - np.rint(place)).max() < _OFF:
            return min(least / parts, _MOST_STEP)
    return 0.0


class LogRows:
    """The `log_forecast` of forecasts (n, K), computed wherever some rows are read.

    It has only those array methods that the search for a temperature needs, and takes no memory.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, forecast: np.ndarray, limit: float) -> None:
        self.forecast, self.limit, self.shape = forecast, limit, forecast.shape

    def __len__(self) -> int:
        return len(self.forecast)

    def __getitem__(self, index):
        if isinstance(index, slice) and index == slice(None):
            return self
        return log_forecast(self.forecast[index], self.limit)

    def max(self, axis: int) -> np.ndarray:
        """Largest values along an axis: the logarithm is increasing."""
        return log_forecast(self.forecast.max(axis=axis), self.limit)

    def min(self, axis: int) -> np.ndarray:
        """Smallest values along an axis."""
        return log_forecast(self.forecast.min(axis=axis), self.limit)


def log_forecast(forecast: np.ndarray, limit: float) -> np.ndarray:
    r"""Logarithms z of forecasts, as links take them; those below `limit` count as `limit`.

    They increase with the forecast, also from exactly 0 on. Below the smallest normal number of
    single precision, :math:`z_0 \approx -87`, z is replaced by :math:`z_0 - \log(1 + z_0 - z)`. The
    replacement is strictly increasing, so different forecasts stay different, and has slope one at
    :math:`z_0`. A softmax in single precision gives no such values. Products of densities, as in
    naive Bayes, do, and underflow soon after: a log-probability of -700 has little more information
    than one of -100, but would dominate the fit of every slope.
    """
    with np.errstate(divide="ignore"):
        log = np.maximum(np.log(forecast), float(np.log(limit)))
    far = log < COMPRESSED_BELOW
    if far.any():
        log[far] = COMPRESSED_BELOW - np.log1p(COMPRESSED_BELOW - log[far])
    return log


# --- Units ----------------------------------------------------------------------------------------


_DEVIATION = np.pi / np.sqrt(3)  # of the standard logistic law
_TAIL = 0.01  # share of the values on each side that are winsorised
_OFFSET = 10.0  # size of the mean of a margin at most
_FINEST = 1e-12  # a spread that is a smaller share of the median size is rounding
_MOST_VALUES = 1 << 20  # from which a spread is computed
_ORDINARY = 0.005, 10.0  # units of logits that are left as they are
_SATURATED = 700.0  # below the largest logit of a row, where its probability is nearly 0
_FLOAT = np.finfo(np.float64)
LARGEST = 1e100  #: Sizes beyond it, in units, are reduced to it.


@dataclass(frozen=True, eq=False)
class LogitScale:
    """How columns (n, K) become logits: centred rows divided by ``unit``, minus ``shift``.

    Columns with heavy tails first become ``tails(columns)`` (see `RankCurve`).
    """

    unit: float = 1.0
    shift: np.ndarray | float = 0.0
    tails: RankCurve | None = None

    @classmethod
    def of(cls, columns: np.ndarray, tails: bool = True) -> LogitScale:
        """The unit of columns, and a shift that is 0 unless a margin is far from 0.

        It moves the mean of each margin to within ten units of 0. Tails are mapped with `tails`.
        """
        standard, to_margin = cls.standard(columns, tails), 1 - 1 / columns.shape[1]
        offset = standard.shift / to_margin
        excess = offset - np.clip(offset, -_OFFSET, _OFFSET)
        return cls(standard.unit, excess * to_margin, standard.tails)

    @classmethod
    def standard(cls, columns: np.ndarray, tails: bool = True) -> LogitScale:
        """The unit and the mean of columns, which are NaN where one is unknown in a row.

        If all margins are equal, up to rounding, the largest is the unit.
        """
        columns = _drawn_rows(columns)
        curve = heavy_tails(columns, _power(1.0, _exponent(columns))) if tails else None
        margins, exponent = _margins(columns if curve is None else curve(columns))
        mean, spread = _moments(margins)
        unit = spread or float(np.nanmax(np.abs(margins))) or 1.0
        return cls(_power(unit, exponent), mean / unit * (1 - 1 / columns.shape[1]), curve)

    def logits(self, columns: np.ndarray) -> np.ndarray:
        """Logits of columns (n, K)."""
        columns = columns if self.tails is None else self.tails(columns)
        return _centred(divided(columns, self.unit)) - self.shift

    def after(self, first: LogitScale) -> LogitScale:
        """The scale that gives the logits that this one, without tails, makes of the first's."""
        unit = _power(first.unit * self.unit, 0)
        return LogitScale(unit, first.shift / self.unit + self.shift, first.tails)


def logit_unit(logits: np.ndarray) -> tuple[float, RankCurve | None]:
    """What logits (n, K) are divided by: 1, unless their softmax would saturate or be flat.

    It is flat below a unit of 0.005, and saturated above 10; then it is the unit of `LogitScale`.
    If such logits have heavy tails, a `RankCurve` maps them instead.
    """
    logits = _drawn_rows(logits)
    margins, exponent = _margins(logits)
    (_, spread), (low, high) = _moments(margins), _ORDINARY
    if spread == 0:  # a single forecast may be certain, but is not flat
        spread, low = float(np.abs(margins).max()), 0.0
    unit = _power(spread, exponent)
    if spread == 0 or low <= unit <= high:
        return 1.0, None
    tails = heavy_tails(logits, _power(1.0, exponent))
    return (unit if tails is None else 1.0), tails


def in_units(logits: np.ndarray, unit: float, tails: RankCurve | None = None) -> np.ndarray:
    r"""Logits (n, K) divided by a unit, with differences in a row that have a finite square.

    A difference z to the largest of the row of more than :math:`z_0 = 700` becomes
    :math:`z_0 + \log(1 + z - z_0)`. The softmax of both is nearly 0. The largest of such a row is
    moved to within 700, from where no difference is lost. Tails are mapped first.
    """
    if tails is not None:
        logits = tails(logits)
    if unit == 1 and np.abs(logits).max(initial=0) <= _SATURATED / 2:
        return logits
    values = divided(logits, unit)
    largest = values.max(axis=1, keepdims=True)
    below = largest - values
    far = below.max(axis=1, initial=0) > _SATURATED
    if far.any():
        largest, below = np.clip(largest[far], -_SATURATED, _SATURATED), below[far]
        values[far] = (
            largest - np.minimum(below, _SATURATED) - np.log1p(np.maximum(below - _SATURATED, 0))
        )
        return values
    return logits if unit == 1 else values


def _drawn_rows(columns):
    n_rows = min(len(columns), max(1000, _MOST_VALUES // columns.shape[1]))
    if n_rows < len(columns):
        columns = columns[np.linspace(0, len(columns) - 1, n_rows).astype(int)]
    return columns.astype(np.float64)


def _exponent(columns):
    """That of the power of two next to the median size of the values."""
    exponents = np.frexp(columns[(columns != 0) & ~np.isnan(columns)])[1]
    return int(np.median(exponents)) if exponents.size else 0


def _margins(columns):
    """Margins times a power of two that keeps squares finite, and its exponent."""
    exponent = _exponent(columns)
    with np.errstate(over="ignore", under="ignore"):
        columns = np.clip(np.ldexp(columns, -exponent), -LARGEST, LARGEST)
    return _centred(columns) / (1 - 1 / columns.shape[1]), exponent


def _moments(margins):
    """Means (K,) of margins, and their spread in units of the logistic law; 0 if it is rounding."""
    known = ~np.isnan(margins).all(axis=0)
    mean, values = np.zeros(len(known)), margins[:, known]
    low, high = np.nanquantile(values, [_TAIL, 1 - _TAIL], axis=0)
    for most in (np.clip(values, low, high), values):  # the second if all but a few are equal
        mean[known] = np.nanmean(most, axis=0)
        spread = float(np.sqrt(np.nanmean((most - mean[known]) ** 2))) / _DEVIATION
        if spread > _FINEST:
            return mean, spread
    return mean, 0.0


def _centred(columns):
    return columns - np.nanmean(columns, axis=1, keepdims=True)


def _power(unit, exponent):
    """A unit times a power of two, as a positive finite number."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.clip(np.ldexp(unit, exponent), _FLOAT.tiny, _FLOAT.max))


# --- Ranks ----------------------------------------------------------------------------------------


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


# --- Maps beyond the forecasts that they were fitted to -------------------------------------------


_ROWS = 1 << 14  # that give the slopes
_OUTER = 0.8  # quantile of the distances from the centre from which forecasts give a slope
_WHOLE, _END = 1.0, 4.0  # prior precisions: of the slope of the whole map, and of that at an end
_LEAST = 1e-12  # probability of the map below which its logarithm has no weight
_SMALLEST = float(np.log(np.finfo(np.float64).tiny))


class Continuation:
    r"""Line in the logits z (n, K), from the last fitted logits on.

    With rows of mean zero, ``centre`` c (K,) is the middle of the range of each fitted logit, and
    ``reach`` r the largest spread :math:`\max_k - \min_k` of a row of z - c. For two classes these
    give the ends of the log odds. A row of a larger spread is moved towards the centre until it has
    the spread r, :math:`z' = c + \tau (z - c)`, and the logits of the map are there

    .. math:: \log g(z') + \beta_k (1 - \tau)(z - c) ,

    where k is the class with the largest z - c, so for two classes the upper or the lower end. The
    slopes :math:`\beta` (K,) are regressions of the logits of the map on z - c, weighted by the
    information about a slope, over the outer fifth of the calibration set. They have a normal prior
    around the slope of the whole map, which itself has one around 1. Negative slopes become 0.

    Forecasts become logits by `log_forecast` with ``limit``.
    """

    limit: float

    def __init__(
        self,
        apply: Callable[[np.ndarray], np.ndarray],
        logits: np.ndarray,
        weight: np.ndarray,
        count: np.ndarray | None = None,
    ) -> None:
        """Learn from logits (n, K) and weights (n,), where `apply` maps logits to forecasts."""
        centred = logits - logits.mean(axis=1, keepdims=True)
        self.centre = (centred.min(axis=0) + centred.max(axis=0)).astype(np.float64) / 2
        self.centre -= self.centre.mean()
        self.reach = float(np.ptp(centred - self.centre, axis=1).max())
        rows = np.linspace(0, len(logits) - 1, min(len(logits), _ROWS)).astype(int)
        distance, proba = centred[rows] - self.centre, apply(logits[rows])
        log = np.log(np.maximum(proba, _LEAST))
        share = weights_of_mean_one(weight, count)[rows] * (1 - np.sum(proba**2, axis=1)).clip(0)
        log -= log.mean(axis=1, keepdims=True)
        whole = max(_slope(distance, log, share, prior=1.0, precision=_WHOLE), 0.0)
        spread, top = np.ptp(distance, axis=1), distance.argmax(axis=1)
        self.slopes = np.full(logits.shape[1], whole)
        for k in np.unique(top):
            in_class = top == k
            outer = in_class & (
                spread >= weighted_quantile(spread[in_class], weight[rows][in_class], _OUTER)
            )
            slope = _slope(distance[outer], log[outer], share[outer], prior=whole, precision=_END)
            self.slopes[k] = max(slope, 0.0)

    @classmethod
    def of_forecasts(
        cls,
        apply: Callable[[np.ndarray], np.ndarray],
        forecast: np.ndarray,
        weight: np.ndarray,
        count: np.ndarray | None = None,
    ) -> Self:
        """Learn from forecasts (n, K) and weights (n,), where `apply` maps forecasts."""
        limit = detection_limit(forecast)
        logits = log_forecast(forecast, limit)
        continuation = cls(lambda z: apply(softmax(z, axis=1)), logits, weight, count)
        continuation.limit = limit
        return continuation

    def __call__(
        self, apply: Callable[[np.ndarray], np.ndarray], forecast: np.ndarray
    ) -> np.ndarray:
        """The map `apply` of forecasts (n, K), continued."""
        mapped = apply(forecast)
        rows, near, added = self.beyond(log_forecast(forecast, self.limit))
        if len(rows):
            with np.errstate(divide="ignore"):
                mapped[rows] = softmax(np.log(apply(softmax(near, axis=1))) + added, axis=1)
        return mapped

    def beyond(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of the rows beyond the reach, their z', and what is added to the logits there."""
        distance = logits - logits.mean(axis=1, keepdims=True) - self.centre
        spread = np.ptp(distance, axis=1)
        rows = np.flatnonzero(spread > self.reach)
        distance = distance[rows].astype(np.float64)
        share = self.reach / spread[rows, None]
        slope = self.slopes[distance.argmax(axis=1), None]
        near = log_softmax(self.centre + share * distance, axis=1)
        return rows, near, slope * (1 - share) * distance

    def write_logits(self, add: Any, write: Callable[[int], int], x: int) -> int:
        """Add the logits of the map of logits x, continued, where `write` adds those of the map."""
        near, added, inside = self._write(add, x)
        return add("sum", write(_either(add, inside, x, add("log_softmax", near))), added)

    def write_forecasts(self, add: Any, write: Callable[[int], int], x: int) -> int:
        """Add the map of the forecasts x, continued, where `write` adds the map."""
        near, added, inside = self._write(add, add.log(x, self.limit))
        mapped = write(_either(add, inside, x, add("softmax", near)))
        log = add("log", mapped, least=_SMALLEST, far=-1e300)
        return add("softmax", add("sum", log, added))

    def _write(self, add, x):
        """Add z', what is added to the logits of the map, and 1 up to the reach, else 0."""
        n_classes = len(self.centre)
        if n_classes == 2:
            odds, (low, high) = add.logit(x), np.diff(self.centre) + [-self.reach, self.reach]
            near = add("curve", odds, breaks=[low, high], coef=[[low, 0], [low, 1], [high, 0]])
            beyond = [[0, self.slopes[0]], [0, 0], [0, self.slopes[1]]]
            ends = {"breaks": [low, np.nextafter(high, np.inf)]}
            inside = add("curve", odds, **ends, coef=[[0], [1], [0]])
            both = {"coef": [[0, 1]]}
            added = add("curve", odds, breaks=[low, high], coef=beyond)
            return add("matrix", near, **both), add("matrix", added, **both), inside
        mean = np.full((n_classes, n_classes), 1 / n_classes)
        distance = add("scale", add("matrix", x, coef=np.eye(n_classes) - mean), shift=-self.centre)
        ends = []
        for sign in (1.0, -1.0):
            side = add("scale", distance, factor=sign)
            largest = add("product", add("top", side, tolerance=0.0), side)
            ends.append(add("matrix", largest, coef=np.ones((n_classes, 1))))
        spread = add("sum", *ends)
        over = add("curve", spread, breaks=[self.reach], coef=[[0, 0], [0, 1]])
        inside = add("curve", spread, breaks=[np.nextafter(self.reach, np.inf)], coef=[[1], [0]])
        both = add("columns", add("scale", over, factor=0.0, shift=self.reach), over)
        whole = add("scale", both, factor=0.0, shift=[1.0, 0.0])
        parts = add("normalise", both, whole)
        share, excess = (add("matrix", parts, coef=[[1 - k], [k]]) for k in (0, 1))
        near = add("scale", add("product", share, distance), shift=self.centre)
        slopes = add("matrix", add("top", distance, tolerance=0.0), coef=self.slopes[:, None])
        return near, add("product", add("product", excess, slopes), distance), inside


def _either(add, inside, x, otherwise):
    """Add x where `inside` is 1, and otherwise other values."""
    outside = add("scale", inside, factor=-1.0, shift=1.0)
    return add("sum", add("product", inside, x), add("product", outside, otherwise))


def _slope(distance, log, weight, *, prior, precision):
    """Weighted regression of the logits of the map (n, K) on distances, with a normal prior."""
    total = max(weight.sum(), np.finfo(np.float64).tiny)
    x, y = distance - weight @ distance / total, log - weight @ log / total
    product = weight @ np.einsum("ik,ik->i", x, y)
    square = weight @ np.einsum("ik,ik->i", x, x)
    return float((product + precision * prior) / (square + precision))
