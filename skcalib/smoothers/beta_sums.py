r"""Sums of Beta kernels in near-linear time: the Dirichlet kernel of two columns.

`beta_average`, `beta_leave_one_out` and `beta_log_likelihoods` are what smoothers call; `Sources`
computes the sums; `make_plan` and its helpers prepare the panels and their matrices.

Sums over n sources at m points are relative to the kernel of the point on itself: Chebyshev series
in panels of logits, in O(n + m) products. The leave-one-out sum is the sum minus the weight of the
point. Where the difference would lose digits, the sum is computed directly. doc/design.rst has the
formulas.

Rows are divided by their sum, which rounding may move away from one; only their logits are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.special import gammaln, xlog1py, xlogy

from skcalib.smoothers.dirichlet_sums import (
    dirichlet_average,
    dirichlet_log_likelihoods,
    weight_of_others,
)

_PAIRS = 1_100_000  # up to this number of pairs the direct sum is faster
_CHUNK = 16_384  # points per chunk of Chebyshev polynomials
_OWN, _NEAR = 1e-2, 1e-5  # thresholds of isolation
_NEGLIGIBLE = 44.0  # log ratio to the largest term below which a source is left out
_ENTRIES = 1 << 20  # pairs of isolated points and sources per chunk


def beta_average(
    points: np.ndarray,
    forecast: np.ndarray,
    weight: np.ndarray,
    values: np.ndarray,
    bandwidth: float,
) -> np.ndarray:
    r"""Averages :math:`\sum_j w_j k(x_i, s_j) v_j / \sum_j w_j k(x_i, s_j)`, shape (m, C).

    Points (m, 2), forecast (n, 2), weight (n,), values (n, C).
    """
    if len(points) * len(forecast) <= _PAIRS:
        points, forecast = _normalised(points), _normalised(forecast)
        return dirichlet_average(points, forecast, weight, values, bandwidth)[0]
    sources, t = Sources(forecast, weight, values), logits(points)
    order = np.argsort(t)
    return sources.averages(sources.sums_at(t[order], bandwidth)[0], order)


def beta_leave_one_out(
    forecast: np.ndarray, weight: np.ndarray, values: np.ndarray
) -> Callable[[float], np.ndarray]:
    """The function of a bandwidth that gives the averages (n, C) without each sample itself."""
    if len(forecast) ** 2 <= _PAIRS:
        rows = _normalised(forecast)
        return lambda bandwidth: dirichlet_average(
            rows, rows, weight, values, bandwidth, leave_out=True
        )[0]
    sources = Sources(forecast, weight, values)
    return lambda bandwidth: sources.averages(sources.leave_one_out(bandwidth)[0], sources.order)


def beta_log_likelihoods(
    forecast: np.ndarray, weight: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """The function of bandwidths that gives the leave-one-out log likelihoods of the forecasts."""
    if len(forecast) ** 2 <= _PAIRS:
        return partial(dirichlet_log_likelihoods, _normalised(forecast), weight)
    sources = Sources(forecast, weight, np.empty((len(forecast), 0)))
    weight = sources.mass[:, 0]
    log_rest = np.log(weight_of_others(weight))

    def log_likelihood(bandwidth):
        sums, log_scale = sources.leave_one_out(bandwidth)
        return weight @ (np.log(sums[:, 0]) + log_scale - log_rest)

    return lambda bandwidths: np.array([log_likelihood(h) for h in bandwidths])


def logits(forecast: np.ndarray) -> np.ndarray:
    """log x_1 - log x_0, where the smallest positive number replaces 0."""
    low, high = np.log(np.maximum(np.asarray(forecast, dtype=np.float64), TINY)).T
    return high - low


def _normalised(forecast):
    return forecast / forecast.sum(axis=1, keepdims=True)


class Sources:
    """Sorted sources with their weights and weighted values, for any bandwidth."""

    def __init__(self, forecast: np.ndarray, weight: np.ndarray, values: np.ndarray) -> None:
        t = logits(forecast)
        self.order = np.argsort(t)
        self.t = t[self.order]
        # Averages are clipped to the range of the values, which rounding could leave.
        self.ranges = [(column.min(), column.max()) for column in values.T if len(column)]
        # Shares, such as one-hot targets, need relative precision for the log loss.
        nonnegative = all(low >= 0 for low, _ in self.ranges)
        self.shares = nonnegative and bool(np.all(sum(values.T, np.zeros(len(t))) == 1))
        self.mass = np.empty((len(t), values.shape[1] + 1))
        self.mass[:, 0] = weight[self.order]
        for k in range(values.shape[1]):
            np.multiply(self.mass[:, 0], np.take(values[:, k], self.order), out=self.mass[:, k + 1])

    def averages(self, sums: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Sums at sorted points -> averages in the original order of the points."""
        averages = np.empty((len(sums), self.mass.shape[1] - 1))
        for k in range(averages.shape[1]):
            average = sums[:, k + 1] / sums[:, 0]
            averages[:, k][order] = np.clip(average, *self.ranges[k], out=average)
        return averages

    def leave_one_out(self, bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
        """Sums of mass times rho over all other samples, sorted, and the log of their unit."""
        plan = make_plan(float(bandwidth))
        sums, log_scale, floor = self._sums(plan, self.t)
        sums -= self.mass
        np.maximum(floor, _OWN * self.mass[:, 0], out=floor)
        unit = log_scale.copy()
        sums, log_scale = self._with_isolated(plan, self.t, sums, log_scale, floor, leave_out=True)
        if self.shares:
            self._own_shares(plan, sums, log_scale - unit)
        return sums, log_scale

    def _own_shares(self, plan, sums, log_peak):
        """Recompute the sums of a sample's own columns where its own term dominates them."""
        for k in range(1, self.mass.shape[1]):
            members = np.flatnonzero(self.mass[:, k] > 0)
            left = np.take(sums[:, k], members) * np.exp(np.take(log_peak, members))
            low = np.flatnonzero(left < _NEAR * np.take(self.mass[:, k], members))
            if len(members) == 1:  # no other sample of this class: the sum is exactly 0
                sums[members, k] = 0
            if len(members) == 1 or len(low) == 0:
                continue
            alone = self._part(members, [k])
            exact, peak = alone._exact(alone.t[low], plan.total, low)
            rows = members[low]
            sums[rows, k] = exact[:, 0] * np.exp(np.maximum(peak - log_peak[rows], -745))

    def _part(self, rows, columns=slice(None)):
        """A subset of the sources and of their columns."""
        part = object.__new__(Sources)
        part.t, part.mass = self.t[rows], self.mass[rows][:, columns]
        return part

    def sums_at(self, t: np.ndarray, bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
        """Sums of mass times rho at sorted logits, and the log of their unit."""
        plan = make_plan(float(bandwidth))
        sums, log_scale, floor = self._sums(plan, t)
        np.maximum(floor, _OWN * self.mass[:, 0].min(), out=floor)
        return self._with_isolated(plan, t, sums, log_scale, floor, leave_out=False)

    def _sums(self, plan, t):
        """Sums by panels, the log of their unit, and the threshold of isolation by reach."""
        skipped = int(self.shares)  # the mass is the sum of the shares
        moments = np.zeros((len(plan.a_edges) - 1, DEGREE, self.mass.shape[1] - skipped))
        for start in range(0, len(self.t), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            a, mass = split(self.t[chunk], plan.total)[0], self.mass[chunk, skipped:]
            for panel, rows, polynomials in _panels(plan.a_edges, a):
                moments[panel] += polynomials @ mass[rows]
        mass = moments[:, 0].sum(axis=1) if self.shares else moments[:, 0, 0]
        reach = np.concatenate([[0.0], np.cumsum(mass)])
        reach = _NEAR * (reach[plan.last] - reach[plan.first])
        series = np.concatenate([plan.transfer(moments), plan.log_self[:, :, None]], axis=2)
        values, floor = np.empty((len(t), skipped + series.shape[2])), np.empty(len(t))
        for start in range(0, len(t), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            for panel, rows, polynomials in _panels(plan.t_edges, t[chunk]):
                np.matmul(polynomials.T, series[panel], out=values[chunk][rows, skipped:])
                floor[chunk][rows] = reach[panel]
        if self.shares:
            values[:, 0] = sum(values[:, 1:-1].T, np.zeros(len(t)))
        return values[:, :-1], values[:, -1], floor

    def _with_isolated(self, plan, t, sums, log_scale, floor, *, leave_out):
        isolated = np.flatnonzero(~(sums[:, 0] > floor))
        if len(isolated):
            if leave_out:
                sums[isolated], log_peak = self._exact(t[isolated], plan.total, isolated)
            else:
                sums[isolated], log_peak = self._between(t[isolated], plan)
            log_scale[isolated] += log_peak
        return sums, log_scale

    def _between(self, t, plan):
        """`_exact` at sorted new points, by interpolation where a gap of the sources holds many."""
        place = np.searchsorted(self.t, t)
        panel = np.searchsorted(plan.t_edges, t)
        starts = np.flatnonzero(np.append(True, (np.diff(place) != 0) | (np.diff(panel) != 0)))
        stops = np.append(starts[1:], len(t))
        many = stops - starts > 3 * DEGREE
        sums, log_peak = np.empty((len(t), self.mass.shape[1])), np.empty(len(t))
        few = np.repeat(~many, stops - starts)
        if few.any():
            sums[few], log_peak[few] = self._exact(t[few], plan.total, None)
        for start, stop in zip(starts[many], stops[many], strict=True):
            run = slice(start, stop)
            sums[run], log_peak[run] = self._in_gap(t[run], plan.total, place[start])
        return sums, log_peak

    def _in_gap(self, t, total, place):
        """Sums at points t that all lie between the sources place - 1 and place."""
        # Relative to the nearest source below, the sum over the sources below is smooth in t, and
        # so is the sum above.
        centre, half = 0.5 * (t.max() + t.min()), 0.5 * (t.max() - t.min())
        z = (t - centre) / half if half > 0 else np.zeros_like(t)
        nodes, sides = centre + half * NODES, []
        for rows, nearest in ((slice(place), place - 1), (slice(place, None), place)):
            if len(self.t[rows]):
                a, b = split(self.t[nearest], total)
                sums, log_peak = self._part(rows)._exact(nodes, total, None)
                sums *= np.exp(log_peak - log_ratio(nodes, a, b))[:, None]
                sides.append((chebval(z, TO_COEFFICIENTS @ sums).T, log_ratio(t, a, b)))
        log_peak = np.max([log_unit for _, log_unit in sides], axis=0)
        return sum(s * np.exp(u - log_peak)[:, None] for s, u in sides), log_peak

    def _exact(self, t, total, rows):
        """Sums of mass times rho / exp(log_peak), and log_peak; sample rows[i] is left out."""
        level_t, first, size = np.unique(self.t, return_index=True, return_counts=True)
        level_mass = np.add.reduceat(self.mass, first, axis=0)
        a, b = split(level_t, total)
        own_level = None if rows is None else np.searchsorted(level_t, t)
        alone = None if rows is None else size[own_level] == 1
        uneven = np.log(self.mass[:, 0].max() / self.mass[:, 0].min())
        low, high, log_peak = _intervals(t, a, b, level_t, own_level, alone, uneven)
        sums, lengths = np.empty((len(t), self.mass.shape[1])), high - low
        ends = np.cumsum(lengths)
        done = 0
        while done < len(t):
            reached = ends[done - 1] if done else 0
            upto = max(done + 1, int(np.searchsorted(ends, reached + _ENTRIES, "right")))
            part = slice(done, upto)
            sizes = lengths[part]
            starts = np.cumsum(sizes) - sizes
            level = np.arange(sizes.sum()) - np.repeat(starts - low[part], sizes)
            log_rho = log_ratio(np.repeat(t[part], sizes), a[level], b[level])
            # Far above the peak is only the level of the omitted sample, which has no mass. Other
            # levels may be slightly above: rho is largest up to half a unit of a off the point.
            rho = np.exp(np.clip(log_rho - np.repeat(log_peak[part], sizes), -700, 700))
            mass = level_mass[level]
            if rows is not None:
                here = np.flatnonzero(level == np.repeat(own_level[part], sizes))
                which = np.repeat(np.arange(done, upto), sizes)[here]
                for place, i in zip(here, which, strict=True):
                    # As a sum over the others of the level: a difference would lose digits.
                    start, stop = first[own_level[i]], first[own_level[i]] + size[own_level[i]]
                    before, after = self.mass[start : rows[i]], self.mass[rows[i] + 1 : stop]
                    mass[place] = before.sum(axis=0) + after.sum(axis=0)
            sums[part] = np.add.reduceat(rho[:, None] * mass, starts, axis=0)
            done = upto
        return sums, log_peak


def _intervals(t, a, b, level_t, own_level, alone, uneven):
    """Interval [low, high) of the levels that matter at each t, and the log of the largest rho."""
    n_levels = len(level_t)
    right = np.searchsorted(level_t, t, "left")
    left = right - 1
    if own_level is not None:  # a level that holds the sample alone is left out
        right = np.where(alone, own_level + 1, right)
    candidates = np.stack([np.clip(left, 0, n_levels - 1), np.clip(right, 0, n_levels - 1)])
    log_rho = log_ratio(t, a[candidates], b[candidates])
    log_rho[0, left < 0] = -np.inf
    log_rho[1, right >= n_levels] = -np.inf
    log_peak = log_rho.max(axis=0)
    least = log_peak - _NEGLIGIBLE - np.log(n_levels) - uneven

    def bisect(inside, outside):
        """The last level within reach; `inside` is one, `outside` is none."""
        while np.any(np.abs(outside - inside) > 1):
            middle = (inside + outside) // 2
            near = (log_ratio(t, a[middle], b[middle]) >= least) & (middle >= 0)  # -1 is none
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return inside

    peak = np.where(log_rho[0] >= log_rho[1], left, right)
    low = bisect(peak, np.full_like(peak, -1))
    high = bisect(peak, np.full_like(peak, n_levels)) + 1
    return low, high, log_peak


def _panels(edges, x):
    """(panel, rows, Chebyshev polynomials at those rows) of sorted positions x."""
    cuts = np.searchsorted(x, edges[1:-1])
    bounds = np.concatenate([[0], cuts, [len(x)]])
    panels = np.flatnonzero(np.diff(bounds))
    counts = np.diff(bounds)[panels]
    centre, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    z = (x - np.repeat(centre[panels], counts)) / np.repeat(half[panels], counts)
    polynomials = np.empty((DEGREE, len(x)))
    polynomials[0], polynomials[1] = 1, z
    z *= 2
    for k in range(2, DEGREE):
        np.multiply(z, polynomials[k - 1], out=polynomials[k])
        polynomials[k] -= polynomials[k - 2]
    for panel in panels:
        rows = slice(bounds[panel], bounds[panel + 1])
        yield panel, rows, polynomials[:, rows]


# --- Panels and their matrices --------------------------------------------------------------------


TINY = np.finfo(np.float64).tiny  # substitute for a probability of 0
DEGREE = 32  # Chebyshev polynomials of a panel
_ANGLES = (np.arange(DEGREE) + 0.5) * np.pi / DEGREE
NODES = np.cos(_ANGLES)  # of Chebyshev interpolation
#: Matrix from values at the nodes to coefficients.
TO_COEFFICIENTS = 2 / DEGREE * np.cos(np.outer(np.arange(DEGREE), _ANGLES))
TO_COEFFICIENTS[0] /= 2
_LOG_REACH = -39.0  # kernels below e^-39 of the kernel of the point on itself are left out
_EXTENT = 36.0  # length of a panel times length of its reach
_CURVED = 3.0  # longest panel near branch points of the logarithms
_T_MAX = 709.0  # logits of TINY and of its complement lie within
_GRID = 260  # points at which reaches are found by bisection; interpolated in between
_SERIES_FROM = 16.0  # Stirling's series is exact to 1e-14 from here


def log_gamma_rest(z: np.ndarray) -> np.ndarray:
    """g(z) = log Gamma(z + 1) - z log z + z, without cancellation for large z."""
    z = np.asarray(z, dtype=np.float64)
    large = np.maximum(z, _SERIES_FROM)
    inverse = 1 / large
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    small = np.minimum(z, _SERIES_FROM)
    return np.where(
        z >= _SERIES_FROM,
        0.5 * np.log(2 * np.pi * large) + series,
        gammaln(small + 1) - xlogy(small, small) + small,
    )


def split(t: np.ndarray, total: Any) -> tuple[np.ndarray, np.ndarray]:
    """L times the probability with logit t, and L times its complement, both to full precision."""
    e = np.exp(-np.abs(t))
    larger, smaller = total / (1 + e), total * e / (1 + e)
    return np.where(t > 0, larger, smaller), np.where(t > 0, smaller, larger)


def deviances(a: np.ndarray, b: np.ndarray, a_star: np.ndarray, b_star: np.ndarray) -> np.ndarray:
    """d(a, a*) + d(b, b*) where a + b = a* + b*: the linear terms cancel."""
    # The difference of the smaller pair, which does not lose digits relative to L.
    difference = np.where(a_star > b_star, b_star - b, a - a_star)
    return _xlog_ratio(a, a_star, difference) + _xlog_ratio(b, b_star, -difference)


def _xlog_ratio(x, y, difference):
    """x log(x / y), through the difference where they are close."""
    relative = difference / y
    close = np.abs(relative) < 0.5
    return np.where(close, xlog1py(x, np.where(close, relative, 0.0)), xlogy(x, x / y))


def log_ratio(t: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log rho(t, a) with b = L - a, the shapes broadcast."""
    a_star, b_star = split(t, a + b)
    corrections = (
        log_gamma_rest(a) - log_gamma_rest(a_star) + log_gamma_rest(b) - log_gamma_rest(b_star)
    )
    return -deviances(a, b, a_star, b_star) - corrections


def log_self(t: np.ndarray, total: Any) -> np.ndarray:
    """Log density of the Beta kernel of a point on itself."""
    a, b = split(t, total)
    return np.log1p(total) + log_gamma_rest(total) - log_gamma_rest(a) - log_gamma_rest(b)


@dataclass(frozen=True)
class Plan:
    """Edges of the panels of t and a, and the matrix of each panel of t with its reach.

    ``blocks`` holds, for each size m of a reach, the panels of t that have it and their matrices
    (panels, DEGREE, m DEGREE). ``log_self`` is the Chebyshev series of the log density of a point
    on itself.
    """

    total: float
    t_edges: np.ndarray
    a_edges: np.ndarray
    first: np.ndarray
    last: np.ndarray
    blocks: tuple
    log_self: np.ndarray

    def transfer(self, moments: np.ndarray) -> np.ndarray:
        """Moments (panels of a, DEGREE, V) -> Chebyshev coefficients (panels of t, DEGREE, V)."""
        coefficients = np.empty((len(self.first), *moments.shape[1:]))
        for panels, matrices in self.blocks:
            reach = self.first[panels, None] + np.arange(matrices.shape[2] // DEGREE)
            near = moments[reach].reshape(len(panels), matrices.shape[2], -1)
            coefficients[panels] = matrices @ near
        return coefficients


@lru_cache(maxsize=6)
def make_plan(bandwidth: float) -> Plan:
    """The plan of a bandwidth, shared by all problems that use it."""
    total = 1 / bandwidth
    t = _grid_of_logits(total)
    low, high = _reach(t, total)
    # The logarithms of 1 + e^t and of Gamma(1 + L e^t) have branch points at a distance of pi.
    curved = np.abs(t) < max(np.log(total), 0) + 40
    t_edges = _cut(t, np.maximum((high - low) / _EXTENT, curved / _CURVED))
    a = split(t, total)[0]
    a = np.unique(np.clip(np.concatenate([[0.0, total], a, low, high]), 0, total))
    # Logits that a source reaches: the inverse of the increasing functions low and high.
    rising = np.arange(len(t)) * 1e-13 * total
    enter, leave = np.interp(a, high + rising, t), np.interp(a, low + rising, t)
    a_edges = _cut(a, np.maximum(leave - enter, 1e-9) / _EXTENT)
    first = np.searchsorted(a_edges, np.interp(t_edges[:-1], t, low), "right") - 1
    first = np.clip(first, 0, len(a_edges) - 2)
    last = np.searchsorted(a_edges, np.interp(t_edges[1:], t, high), "left")
    last = np.clip(last, first + 1, len(a_edges) - 1)
    centre, half = 0.5 * (t_edges[1:] + t_edges[:-1]), 0.5 * np.diff(t_edges)
    series = log_self(centre[:, None] + half[:, None] * NODES, total) @ TO_COEFFICIENTS.T
    blocks = _blocks(total, t_edges, a_edges, first, last)
    return Plan(total, t_edges, a_edges, first, last, blocks, series)


def _grid_of_logits(total):
    """Grid of logits: dense in the middle, logarithmic in the tails."""
    bend = max(np.log(total), 1.0) + 4
    angle = np.linspace(0, np.pi / 2, _GRID + 2)[1:-1]
    middle = 2 * np.log(np.tan(angle))
    tail = np.geomspace(bend, _T_MAX, _GRID // 4)
    inner = np.linspace(-bend, bend, _GRID)
    return np.unique(np.concatenate([-tail, middle[np.abs(middle) < bend], inner, tail]))


def _reach(t, total):
    """For each logit the interval of a on which rho > e^_LOG_REACH, by bisection."""
    a_star = split(t, total)[0]

    def end(outermost):
        inside, outside = a_star.copy(), np.full_like(a_star, outermost)
        everything = log_ratio(t, outside, total - outside) >= _LOG_REACH
        for _ in range(40):
            middle = 0.5 * (inside + outside)
            near = log_ratio(t, middle, total - middle) >= _LOG_REACH
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return np.where(everything, outermost, outside)

    low, high = end(0.0), end(total)
    return np.maximum.accumulate(low), np.maximum.accumulate(high)


def _cut(x, density):
    """Edges with about one unit of the integral of the density in each panel."""
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(x)
    integral = np.concatenate([[0.0], np.cumsum(steps)])
    n_panels = max(1, int(np.ceil(integral[-1])))
    edges = np.interp(np.linspace(0, integral[-1], n_panels + 1), integral, x)
    edges[0], edges[-1] = x[0], x[-1]
    return np.unique(edges)


def _blocks(total, t_edges, a_edges, first, last):
    """B of each panel of t, coefficients in t of the kernel for moments in a, by size of reach."""
    centre, half = 0.5 * (a_edges[1:] + a_edges[:-1]), 0.5 * np.diff(a_edges)
    a = np.clip(centre[:, None] + half[:, None] * NODES, 0, total)
    corrections = log_gamma_rest(a) + log_gamma_rest(total - a)
    t0, step = 0.5 * (t_edges[1:] + t_edges[:-1]), 0.5 * np.diff(t_edges)[:, None] * NODES
    a0, b0 = split(t0, total)
    # rho(t, a) = rho(t0, a) rho(t, a0) e^((t - t0)(a - a0)): one product and one exponential.
    shift = log_ratio(t0[:, None] + step, a0[:, None], b0[:, None])
    shift += (log_gamma_rest(a0) + log_gamma_rest(b0))[:, None]
    blocks = []
    for size in np.unique(last - first):
        panels = np.flatnonzero(last - first == size)
        reach = first[panels, None] + np.arange(size)
        here = a[reach].reshape(len(panels), -1)
        log_rho = -deviances(here, total - here, a0[panels, None], b0[panels, None])
        log_rho -= corrections[reach].reshape(len(panels), -1)
        kernel = step[panels, :, None] * (here - a0[panels, None])[:, None, :]
        kernel += log_rho[:, None, :] + shift[panels, :, None]
        np.exp(np.maximum(kernel, -700, out=kernel), out=kernel)
        kernel = kernel.reshape(len(panels), DEGREE, size, DEGREE) @ TO_COEFFICIENTS.T
        matrices = TO_COEFFICIENTS @ kernel.reshape(len(panels), DEGREE, -1)
        blocks.append((panels, matrices))
    return tuple(blocks)
