r"""Sums of Dirichlet kernels on the simplex: averages, and likelihoods of their density.

`kernel_average`, `leave_one_out` and `log_likelihoods` are what smoothers call. Two columns with
many pairs are summed by panels in near-linear time (`BetaSources`). All else are exact sums over
all pairs (`dirichlet_average`, `dirichlet_log_likelihoods`), by the blocked sums (`Sources`,
`sum_tiles`) and the bounds that allow sources to be dropped (`Dropping`).

**All pairs.** The log of the kernel of P24 eq. 12 between a point x and a source :math:`s_j`, times
its weight,

.. math::

    \log w_j k(x, s_j) = \langle \log x, s_j / h \rangle + c_j, \qquad
    c_j = \log \Gamma(K + \tfrac1h \textstyle\sum_k s_{jk})
          - \sum_k \log \Gamma(s_{jk} / h + 1) + \log w_j,

is one product of :math:`[\log x, 1]` with :math:`[s_j / h, c_j]`, computed in blocks that fit into
the cache. One-hot values are summed as segments of sources that are sorted by class. Where points
are concentrated, as those of confident networks are, a tree groups their rows into tiles and
negligible sources are dropped. Time O(n^2 K), memory O(n K). Sums are exact up to rounding.

**Two columns, the Beta kernel.** Sums over n sources at m points are relative to the kernel of the
point on itself: Chebyshev series in panels of logits, in O(n + m) products. The leave-one-out sum
is the sum minus the weight of the point. Where the difference would lose digits, the sum is
computed directly. Rows are divided by their sum, which rounding may move away from one; only their
logits are used. `make_plan` and its helpers prepare the panels and their matrices.

doc/design.rst has the formulas and the accuracy of both, how exponentials are summed, and the
bounds by which sources are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.special import gammaln, xlog1py, xlogy
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.parallel import one_thread
from skcalib._util.sizes import SIZES
from skcalib.links.logits import log_positive
from skcalib.smoothers._base import check_at_least_two


def kernel_average(
    points: np.ndarray,
    forecast: np.ndarray,
    weight: np.ndarray,
    values: np.ndarray,
    bandwidth: float,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Averages :math:`\sum_j w_j k(x_i, s_j) v_j / \sum_j w_j k(x_i, s_j)`, shape (m, C).

    Points (m, K), forecast (n, K), weight (n,), values (n, C).
    """
    if _takes_all_pairs(forecast, len(points)):
        points, forecast = _normalised(points), _normalised(forecast)
        return dirichlet_average(points, forecast, weight, values, bandwidth, n_jobs=n_jobs)[0]
    sources, t = BetaSources(forecast, weight, values), logits(points)
    order = np.argsort(t)
    return sources.averages(sources.sums(bandwidth, t[order])[0], order)


def leave_one_out(
    forecast: np.ndarray, weight: np.ndarray, values: np.ndarray, n_jobs: int | None = None
) -> Callable[[float], np.ndarray]:
    """The function of a bandwidth that gives the averages (n, C) without each sample itself."""
    if _takes_all_pairs(forecast, len(forecast)):
        rows = _normalised(forecast)
        return lambda bandwidth: dirichlet_average(
            rows, rows, weight, values, bandwidth, leave_out=True, n_jobs=n_jobs
        )[0]
    sources = BetaSources(forecast, weight, values)
    return lambda h: sources.averages(sources.sums(h)[0], sources.order)


def log_likelihoods(
    forecast: np.ndarray, weight: np.ndarray, n_jobs: int | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """The function of bandwidths that gives the leave-one-out log likelihoods of the forecasts."""
    if _takes_all_pairs(forecast, len(forecast)):
        return partial(dirichlet_log_likelihoods, _normalised(forecast), weight, n_jobs=n_jobs)
    sources = BetaSources(forecast, weight, np.empty((len(forecast), 0)))
    weight = sources.mass[:, 0]
    log_others = np.log(weight_of_others(weight))

    def log_likelihood(bandwidth):
        sums, log_scale = sources.sums(bandwidth)
        return weight @ (np.log(sums[:, 0]) + log_scale - log_others)

    return lambda bandwidths: np.array([log_likelihood(h) for h in bandwidths])


def _takes_all_pairs(forecast, n_points):
    return forecast.shape[1] != 2 or n_points * len(forecast) <= SIZES.panel_pairs


def _normalised(forecast):
    """Rows of two columns divided by their sum, as panels take them."""
    return forecast / forecast.sum(axis=1, keepdims=True) if forecast.shape[1] == 2 else forecast


# --- Sums over all pairs --------------------------------------------------------------------------


_TILE = 32  # rows of a tile where sources are dropped: fewer rows give tighter bounds

_UNDERFLOW = 1e-290  # smaller shares are sums of truncated exponentials and set to 0


def dirichlet_average(
    points: np.ndarray,
    forecast: np.ndarray,
    weight: np.ndarray,
    values: np.ndarray,
    bandwidth: float,
    *,
    leave_out: bool = False,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Kernel averages (m, C) of values (n, C), and the log of the total kernel weight (m,).

    :math:`\sum_j w_j k(x_i, s_j) v_j / M_i` and :math:`\log M_i` with :math:`M_i = \sum_j w_j
    k(x_i, s_j)` and the kernel in the module's docstring, at points x (m, K). Zeros stand for the
    smallest positive number. With `leave_out` the points are the forecasts, and source i is left
    out at point i.

    C may be 0. One-hot values are recognised and summed faster; the error of their shares is
    relative to each share, down to 1e-290, below which a share is 0. The error of other averages is
    relative to the largest absolute value. The result does not depend on the number of threads;
    None means 1 or that of :func:`joblib.parallel_config`.
    """
    values = np.asarray(values, dtype=np.float64)
    n_samples, n_values = values.shape
    one_hot = np.all((values == 0) | (values == 1)) and np.all(values.sum(axis=1) == 1)
    by_segment = bool(n_values == 0 or one_hot)
    scaled = np.asarray(forecast, dtype=np.float64) / bandwidth
    constant = log_constants(scaled, weight)
    if by_segment and n_values > 0:
        segment = values.argmax(axis=1)
        order = np.argsort(segment, kind="stable")
        edges = np.searchsorted(segment[order], np.arange(n_values + 1))
    else:
        order, edges = np.arange(n_samples), np.array([0, n_samples])
    # The ones sum the weights.
    factors = None if by_segment else np.column_stack([values, np.ones(n_samples)])
    sources = Sources(order, scaled[order], constant[order], edges, factors)
    total, peak = _sums(np.asarray(points, dtype=np.float64), sources, leave_out, n_jobs)
    mass = total.sum(axis=1) if by_segment else total[:, -1]
    averages = total[:, :n_values] / mass[:, None]
    if by_segment:
        averages[averages < _UNDERFLOW] = 0.0
    return averages, peak + np.log(mass)


def log_constants(scaled: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The :math:`c_j` (n,) of sources (n, K) divided by the bandwidth, and of their weights."""
    constant = gammaln(scaled.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    return constant + np.log(np.asarray(weight, dtype=np.float64))


def dirichlet_log_likelihoods(
    forecast: np.ndarray,
    weight: np.ndarray,
    bandwidths: np.ndarray,
    *,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Leave-one-out log likelihoods (B,) of forecasts under their kernel density, by bandwidth.

    :math:`\sum_i w_i \log \bigl( \sum_{j \ne i} w_j k(s_i, s_j) / \sum_{j \ne i} w_j \bigr)`.
    """
    weight, values = np.asarray(weight, dtype=np.float64), np.empty((len(forecast), 0))
    log_mass = [
        dirichlet_average(forecast, forecast, weight, values, h, leave_out=True, n_jobs=n_jobs)[1]
        for h in bandwidths
    ]
    log_mass = np.reshape(log_mass, (len(bandwidths), len(forecast)))
    return (log_mass - np.log(weight_of_others(weight))) @ weight


def weight_of_others(weight: np.ndarray) -> np.ndarray:
    """The weight of all others as a sum: a difference would lose digits for a heavy sample."""
    before, after = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)


def _sums(points, sources, leave_out, n_jobs):
    """Sums (m, V) of kernels relative to the exponentials of their peaks (m,)."""
    # With log 0, the weight of a zero at a zero would be indeterminate.
    log_points = log_positive(points)
    n_points, n_sources, position = len(points), len(sources.order), None
    if leave_out:
        check_at_least_two(n_sources)
        position = np.empty(n_points, dtype=np.intp)
        position[sources.order] = np.arange(n_points)
    # One BLAS thread: the products are small, and the tasks run in parallel.
    with one_thread("blas"):
        tiles, dropping = None, None
        if min(n_points, n_sources) >= SIZES.dropping_samples:
            tiles, dropping = kd_tiles(np.sqrt(points), _TILE), Dropping(sources)
        if dropping is None or not dropping.pays(tiles, log_points, position):
            # Sorted by their smallest logarithm: few then have exponentials that underflow.
            order, dropping = np.argsort(log_points.min(axis=1), kind="stable"), None
            tiles = [order[i : i + _ROWS] for i in range(0, n_points, _ROWS)]
        together = max(1, SIZES.task_rows * len(tiles) // max(1, n_points))
        tasks = [tiles[start : start + together] for start in range(0, len(tiles), together)]
        done = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(sum_tiles)(task, log_points, sources, position, dropping) for task in tasks
        )
    total, peak = np.empty((n_points, sources.n_sums)), np.empty(n_points)
    for task, results in zip(tasks, done, strict=True):
        for rows, (sums, largest) in zip(task, results, strict=True):
            total[rows], peak[rows] = sums, largest
    return total, peak


# --- Sums of exponentials -------------------------------------------------------------------------


_ROWS, _COLUMNS = 64, 1024  # of a block: half a megabyte, which fits into the cache
_SOME = 128  # sources that give the first shifts
# exp is ten times slower where its result is subnormal, so arguments are bounded below. The upper
# bound is large enough for the sum to show that the shift was too small.
_LOWEST, _HIGHEST, _LARGE = -700.0, 600.0, 500.0
_EXP_LARGE = np.exp(_LARGE)


@dataclass(frozen=True)
class Sources:
    """Sources in segments: their log kernels are `columns @ log x + constants`.

    `order` holds their original rows. Kernels are summed by segment, between `edges`, or, if
    `values` (n, V) is not None, multiplied by values and summed.
    """

    order: np.ndarray
    columns: np.ndarray
    constants: np.ndarray
    edges: np.ndarray
    values: np.ndarray | None = None

    @property
    def n_sums(self) -> int:
        """The number of sums of each point."""
        return len(self.edges) - 1 if self.values is None else self.values.shape[1]

    @cached_property
    def extremes(self):
        """The largest sum of a row of `columns`, and the smallest constant."""
        return self.columns.sum(axis=1).max(), self.constants.min()

    @cached_property
    def factor(self):
        """Right factor of [log x, 1, -shift]."""
        return np.column_stack([self.columns, self.constants, np.ones(len(self.columns))])

    @cached_property
    def factor_by_column(self):
        """The same in column-major order, which is faster for blocks of consecutive sources."""
        return np.asfortranarray(self.factor)


def sum_tiles(
    tiles: Sequence[np.ndarray],
    log_points: np.ndarray,
    sources: Sources,
    position: np.ndarray | None,
    dropping: Dropping | None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each tile, sums (rows, V) of kernels relative to exp(shift), and shifts (rows,).

    `position[i]` is the source that point i leaves out, or `position` is None. `dropping` is None
    if no source is dropped.
    """
    buffer = np.empty(_ROWS * _COLUMNS)
    number = range(0, len(sources.order), max(1, len(sources.order) // _SOME))
    few = slice(None, None, number.step)
    some = _Block(number, few, np.ascontiguousarray(sources.factor[few].T))
    every_block, careful = list(_blocks(sources, _COLUMNS)), False
    results = []
    for rows in tiles:
        sums = _TileSums(log_points[rows], sources, buffer)
        left_out = None if position is None else position[rows]
        if dropping is None:
            blocks, first = every_block, sums.largest(some, left_out)
        else:
            numbers, first = dropping.select(log_points[rows], left_out)
            if left_out is not None:  # their places among the numbers, -1 for what is absent
                place = np.searchsorted(numbers, left_out)
                present = numbers.take(place, mode="clip") == left_out
                left_out = np.where(present, place, -1)
            blocks = _blocks(sources, _ROWS * _COLUMNS // len(rows), numbers)
        sums.start(first, careful)
        with np.errstate(over="ignore", invalid="ignore"):  # detected in the sums
            for block in blocks:
                sums.add(block, left_out)
        careful = (sums.shift - first).max() > _LARGE  # the next tile is similar
        results.append((sums.total, sums.shift[:, 0]))
    return results


class _Block(NamedTuple):
    """Sources of a tile: `number` among those that it keeps, `here` among all.

    `right` is their factor, transposed. Those from `cuts` on are in these segments.
    """

    number: range
    here: slice | np.ndarray
    right: np.ndarray
    cuts: np.ndarray | None = None
    segments: slice | np.ndarray | None = None

    def left_out(self, sources):
        """Rows and columns where row i leaves out the source with the number `sources[i]`."""
        if sources is None:
            return (), ()
        start, stop, step = self.number.start, self.number.stop, self.number.step
        inside = (sources >= start) & (sources < stop)
        if step > 1:
            inside &= sources % step == 0
        rows = inside.nonzero()[0]
        return rows, (sources[rows] - start) // step


def _blocks(sources, width, numbers=None):
    """All sources, or those with some numbers, block after block."""
    edges = sources.edges if numbers is None else np.searchsorted(numbers, sources.edges)
    for start in range(0, edges[-1], width):
        stop = min(start + width, edges[-1])
        if numbers is None:
            here = slice(start, stop)
            right = sources.factor_by_column[here]
        else:
            here = numbers[start:stop]
            right = sources.factor.take(here, axis=0)  # several times faster than an index
        cuts = edges.clip(start, stop) - start
        segments = np.flatnonzero(np.diff(cuts))
        cuts = cuts[segments]
        if len(segments) == segments[-1] - segments[0] + 1:  # faster than an index
            segments = slice(segments[0], segments[-1] + 1)
        yield _Block(range(start, stop), here, right.T, cuts, segments)


class _TileSums:
    """The sums of a tile of rows, `total` (rows, V), relative to exp(`shift` (rows, 1)).

    The shift of a row is the largest log kernel so far where it is `careful`; else it remains what
    it was at the start, and is one more column of the product.
    """

    def __init__(self, log_points, sources, buffer):
        n_rows = len(log_points)
        self.sources, self.buffer, self.careful = sources, buffer, True
        self.total, self.shift = np.zeros((n_rows, sources.n_sums)), np.zeros((n_rows, 1))
        self.left = np.column_stack([log_points, np.ones(n_rows), np.zeros(n_rows)])
        heaviest, least = sources.extremes
        self.lowest = heaviest * min(log_points.min(), 0.0) + least  # bound of log kernels

    def start(self, shift, careful):
        """Set the first shifts."""
        self.shift[:], self.careful = shift, careful
        self.may_underflow = self.lowest - shift.max() < _LOWEST
        if not careful:
            self.left[:, -1:] = -shift

    def largest(self, some, sources_left_out):
        """The largest log kernels (rows, 1) among a few sources."""
        log_kernel = self._log_kernel(some)
        log_kernel[some.left_out(sources_left_out)] = -np.inf
        return log_kernel.max(axis=1, keepdims=True)

    def add(self, block, sources_left_out):
        """Add the kernels of a block; row i leaves out the source `sources_left_out[i]`.

        Exponentials are relative to the largest from where one is far too large.
        """
        left_out = block.left_out(sources_left_out)
        if not self.careful:
            kernel = self._log_kernel(block)
            if self.may_underflow:
                np.clip(kernel, _LOWEST, _HIGHEST, out=kernel)
            part, segments, weight = self._sums(block, np.exp(kernel, out=kernel), left_out)
            if weight.max() < _EXP_LARGE:
                self.total[:, segments] += part
                return
            self.careful = True
            self.left[:, -1] = 0.0  # a large shift in the product rounds the log kernels
        kernel = self._log_kernel(block)
        kernel[left_out] = -np.inf
        largest = np.maximum(kernel.max(axis=1, keepdims=True), self.shift)
        for _ in range(2):  # in two steps: the whole factor may underflow
            self.total *= np.exp((self.shift - largest) / 2)
        self.shift = largest
        kernel -= largest
        np.clip(kernel, _LOWEST, _HIGHEST, out=kernel)
        part, segments, _ = self._sums(block, np.exp(kernel, out=kernel), left_out)
        self.total[:, segments] += part

    def _log_kernel(self, block):
        """Log kernels, minus the shift unless the tile is careful, in the buffer."""
        shape = len(self.left), block.right.shape[1]
        product = self.buffer[: shape[0] * shape[1]].reshape(shape)
        return np.matmul(self.left, block.right, out=product)

    def _sums(self, block, kernel, left_out):
        """Sums of a block, the segments to which they belong, and sums of weights."""
        kernel[left_out] = 0.0
        if self.sources.values is None:
            part = np.add.reduceat(kernel, block.cuts, axis=1)
            return part, block.segments, part
        part = kernel @ self.sources.values[block.here]
        return part, slice(None), part[:, -1]


# --- Dropped sources ------------------------------------------------------------------------------


_NEGLIGIBLE, _VANISHING = np.log(1e-17), -690.0
_PIECES = 128  # parts of the sources; one source of each is used for comparison
_TRIALS = 16  # tiles of the trial of dropping


class Dropping:
    """Selection of sources by bounds of their log kernels, `columns @ log x + constants`."""

    def __init__(self, sources: Sources) -> None:
        self.sources, n_sources = sources, len(sources.columns)
        pieces = np.arange(0, n_sources, -(-n_sources // _PIECES))
        self.starts = np.union1d(pieces, sources.edges[:-1][np.diff(sources.edges) > 0])
        self.lengths = np.diff(self.starts, append=n_sources)

    def select(
        self, log_points: np.ndarray, left_out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sorted positions of the sources that a tile needs.

        `left_out[i]` is the position of the source that row i leaves out. The second result is the
        largest log kernel (rows, 1) of some of them.
        """
        columns, constants = self.sources.columns, self.sources.constants
        bound = columns @ log_points.max(axis=0) + constants
        # The source with the largest bound in each piece, the first of ties; those of the tile.
        largest = np.maximum.reduceat(bound, self.starts)
        probes = np.flatnonzero(bound == np.repeat(largest, self.lengths))
        probes = probes[np.searchsorted(probes, self.starts)]
        if left_out is not None:
            probes = np.sort(np.append(probes, left_out))
        exact = log_points @ columns[probes].T + constants[probes]
        if left_out is not None:
            exact[left_out[:, None] == probes] = -np.inf
        # The threshold of each segment: sources with a lower bound are dropped.
        cuts = np.searchsorted(probes, self.sources.edges)
        present = np.flatnonzero(np.diff(cuts))
        largest = np.full((len(exact), len(cuts) - 1), -np.inf)
        largest[:, present] = np.maximum.reduceat(exact, cuts[present], axis=1)
        beside_the_whole = largest.max(axis=1, keepdims=True) + _VANISHING
        beside_their_own = largest + (_NEGLIGIBLE - np.log(len(columns)))
        thresholds = np.maximum(beside_their_own, beside_the_whole).min(axis=0)
        thresholds = np.repeat(thresholds, np.diff(self.sources.edges))
        return np.flatnonzero(bound > thresholds), exact.max(axis=1, keepdims=True)

    def pays(
        self, tiles: Sequence[np.ndarray], log_points: np.ndarray, position: np.ndarray | None
    ) -> bool:
        """Whether dropping is faster than the full sum, estimated from a few tiles.

        The measured time is 0.15 + 1500 / n + 1.4 times the share that is kept, in units of the
        time without dropping; dropping is faster where that share is at most 0.5 - 1000 / n. The
        trial costs a tenth of that time at n = 6,000 and a hundredth at 50,000.
        """
        n_sources = len(self.sources.columns)
        # Multiples of the golden ratio: spread evenly, and not aligned with the levels of the tree.
        trials = (np.arange(_TRIALS) * 0.6180339887498949 % 1 * len(tiles)).astype(int)
        counts = []
        for tile in (tiles[trial] for trial in trials):
            left_out = None if position is None else position[tile]
            counts.append(len(self.select(log_points[tile], left_out)[0]))
        return bool(np.mean(counts) / n_sources <= 0.5 - 1000 / n_sources)


def kd_tiles(coordinates: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows cut in two along their most variable coordinate, down to `size` rows.

    The cut is at the mean: for forecasts near 0 or 1 the median would separate values that are all
    near 0. All tiles but one are full.
    """
    tiles, stack = [], [np.arange(len(coordinates))] if len(coordinates) else []
    while stack:
        rows = stack.pop()
        n_tiles = -(-len(rows) // size)
        if n_tiles <= 1:
            tiles.append(rows)
            continue
        inside = coordinates[rows]
        along = inside[:, inside.var(axis=0).argmax()]
        # At least a tenth of the tiles on either side, to limit the depth of the tree.
        least = max(1, n_tiles // 10)
        left = round(np.sum(along <= along.mean()) / size)
        left = size * min(max(left, least), n_tiles - least)
        order = np.argpartition(along, left)
        stack += [rows[order[left:]], rows[order[:left]]]
    return tiles


# --- Sums of Beta kernels by panels ---------------------------------------------------------------


_CHUNK = 16_384  # points per chunk of Chebyshev polynomials
_OWN, _NEAR = 1e-2, 1e-5  # thresholds of isolation
_FAINT = 44.0  # log ratio to the largest term below which a source is left out
_ENTRIES = 1 << 20  # pairs of isolated points and sources per chunk


def logits(forecast: np.ndarray) -> np.ndarray:
    """log x_1 - log x_0, where the smallest positive number replaces 0."""
    low, high = log_positive(np.asarray(forecast, dtype=np.float64)).T
    return high - low


class BetaSources:
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

    def sums(self, bandwidth: float, t: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Sums of mass times rho at sorted logits, and the log of their unit.

        Without logits they are at the sources, sorted, each without its own sample.
        """
        plan, leave_out = make_plan(float(bandwidth)), t is None
        t, mass = (self.t, self.mass[:, 0]) if t is None else (t, self.mass[:, 0].min())
        sums, log_scale, floor = self._sums(plan, t)
        if leave_out:
            sums -= self.mass
        unit = log_scale.copy()
        isolated = np.flatnonzero(~(sums[:, 0] > np.maximum(floor, _OWN * mass)))
        if len(isolated):
            if leave_out:
                sums[isolated], log_peak = self._exact(t[isolated], plan.total, isolated)
            else:
                sums[isolated], log_peak = self._between(t[isolated], plan)
            log_scale[isolated] += log_peak
        if leave_out and self.shares:
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
        part = object.__new__(BetaSources)
        part.t, part.mass = self.t[rows], self.mass[rows][:, columns]
        return part

    def _sums(self, plan, t):
        """Sums by panels, the log of their unit, and the threshold of isolation by reach."""
        skipped = int(self.shares)  # the mass is the sum of the shares
        moments = np.zeros((len(plan.a_edges) - 1, DEGREE, self.mass.shape[1] - skipped))
        for start in range(0, len(self.t), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            a, mass = scaled_probabilities(self.t[chunk], plan.total)[0], self.mass[chunk, skipped:]
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
                a, b = scaled_probabilities(self.t[nearest], total)
                sums, log_peak = self._part(rows)._exact(nodes, total, None)
                sums *= np.exp(log_peak - log_ratio(nodes, a, b))[:, None]
                sides.append((chebval(z, TO_COEFFICIENTS @ sums).T, log_ratio(t, a, b)))
        log_peak = np.max([log_unit for _, log_unit in sides], axis=0)
        return sum(s * np.exp(u - log_peak)[:, None] for s, u in sides), log_peak

    def _exact(self, t, total, rows):
        """Sums of mass times rho / exp(log_peak), and log_peak; sample rows[i] is left out."""
        level_t, first, size = np.unique(self.t, return_index=True, return_counts=True)
        level_mass = np.add.reduceat(self.mass, first, axis=0)
        a, b = scaled_probabilities(level_t, total)
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
    least = log_peak - _FAINT - np.log(n_levels) - uneven

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


DEGREE = 32  # Chebyshev polynomials of a panel
_ANGLES = (np.arange(DEGREE) + 0.5) * np.pi / DEGREE
NODES = np.cos(_ANGLES)  # of Chebyshev interpolation
#: Matrix from values at the nodes to coefficients.
TO_COEFFICIENTS = 2 / DEGREE * np.cos(np.outer(np.arange(DEGREE), _ANGLES))
TO_COEFFICIENTS[0] /= 2
_LOG_REACH = -39.0  # kernels below e^-39 of the kernel of the point on itself are left out
_EXTENT = 36.0  # length of a panel times length of its reach
_CURVED = 3.0  # longest panel near branch points of the logarithms
_T_MAX = 709.0  # logits of the smallest positive number and of its complement lie within
_GRID = 260  # points at which reaches are found by bisection; interpolated in between
_SERIES_FROM = 16.0  # Stirling's series is exact to 1e-14 from here


def stirling_remainder(z: np.ndarray) -> np.ndarray:
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


def scaled_probabilities(t: np.ndarray, total: Any) -> tuple[np.ndarray, np.ndarray]:
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
    a_star, b_star = scaled_probabilities(t, a + b)
    corrections = (
        stirling_remainder(a)
        - stirling_remainder(a_star)
        + stirling_remainder(b)
        - stirling_remainder(b_star)
    )
    return -deviances(a, b, a_star, b_star) - corrections


def log_self(t: np.ndarray, total: Any) -> np.ndarray:
    """Log density of the Beta kernel of a point on itself."""
    a, b = scaled_probabilities(t, total)
    return (
        np.log1p(total) + stirling_remainder(total) - stirling_remainder(a) - stirling_remainder(b)
    )


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
    # Logits, dense in the middle and logarithmic in the tails.
    bend = max(np.log(total), 1.0) + 4
    middle = 2 * np.log(np.tan(np.linspace(0, np.pi / 2, _GRID + 2)[1:-1]))
    tail, inner = np.geomspace(bend, _T_MAX, _GRID // 4), np.linspace(-bend, bend, _GRID)
    t = np.unique(np.concatenate([-tail, middle[np.abs(middle) < bend], inner, tail]))
    low, high = _reach(t, total)
    # The logarithms of 1 + e^t and of Gamma(1 + L e^t) have branch points at a distance of pi.
    curved = np.abs(t) < max(np.log(total), 0) + 40
    t_edges = _cut(t, np.maximum((high - low) / _EXTENT, curved / _CURVED))
    a = scaled_probabilities(t, total)[0]
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
    blocks = _matrices(total, t_edges, a_edges, first, last)
    return Plan(total, t_edges, a_edges, first, last, blocks, series)


def _reach(t, total):
    """For each logit the interval of a on which rho > e^_LOG_REACH, by bisection."""
    a_star = scaled_probabilities(t, total)[0]

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


def _matrices(total, t_edges, a_edges, first, last):
    """B of each panel of t, coefficients in t of the kernel for moments in a, by size of reach."""
    centre, half = 0.5 * (a_edges[1:] + a_edges[:-1]), 0.5 * np.diff(a_edges)
    a = np.clip(centre[:, None] + half[:, None] * NODES, 0, total)
    corrections = stirling_remainder(a) + stirling_remainder(total - a)
    t0, step = 0.5 * (t_edges[1:] + t_edges[:-1]), 0.5 * np.diff(t_edges)[:, None] * NODES
    a0, b0 = scaled_probabilities(t0, total)
    # rho(t, a) = rho(t0, a) rho(t, a0) e^((t - t0)(a - a0)): one product and one exponential.
    shift = log_ratio(t0[:, None] + step, a0[:, None], b0[:, None])
    shift += (stirling_remainder(a0) + stirling_remainder(b0))[:, None]
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
