r"""Exact sums of Dirichlet kernels on the simplex, for any number of classes.

`dirichlet_average` and `dirichlet_log_likelihoods` are the functions that smoothers call. After
them come the blocked sums (`Sources`, `sum_tiles`) and the bounds that allow sources to be dropped
(`Dropping`). The log of the kernel of P24 eq. 12 between a point x and a source :math:`s_j`, times
its weight,

.. math::

    \log w_j k(x, s_j) = \langle \log x, s_j / h \rangle + c_j, \qquad
    c_j = \log \Gamma(K + \tfrac1h \textstyle\sum_k s_{jk})
          - \sum_k \log \Gamma(s_{jk} / h + 1) + \log w_j,

is one product of :math:`[\log x, 1]` with :math:`[s_j / h, c_j]`, computed in blocks that fit into
the cache. One-hot values are summed as segments of sources that are sorted by class. Where points
are concentrated, as those of confident networks are, a tree groups their rows into tiles and
negligible sources are dropped. Time O(n^2 K), memory O(n K).

Sums are exact up to rounding. doc/design.rst has their accuracy, how exponentials are summed, and
the bounds by which sources are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.parallel import one_thread
from skcalib.smoothers._base import check_at_least_two

# The smallest positive number replaces forecasts of exactly 0: with log 0, the weight of a zero at
# a zero would be indeterminate.
_TINY = np.finfo(np.float64).tiny
_TILE = 32  # rows of a tile where sources are dropped: fewer rows give tighter bounds
_TASK = 1024  # rows per task of a thread

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
    constant = gammaln(scaled.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    constant = constant + np.log(np.asarray(weight, dtype=np.float64))
    segment, factors = np.zeros(n_samples, dtype=np.intp), None
    if not by_segment:
        factors = np.column_stack([values, np.ones(n_samples)])  # the ones sum the weights
    elif n_values > 0:
        segment = values.argmax(axis=1)
    n_segments = max(1, n_values) if by_segment else 1
    sources = Sources.sorted(scaled, constant, segment, n_segments, factors)
    total, peak = _sums(np.asarray(points, dtype=np.float64), sources, leave_out, n_jobs)
    mass = total.sum(axis=1) if by_segment else total[:, -1]
    averages = total[:, :n_values] / mass[:, None]
    if by_segment:
        averages[averages < _UNDERFLOW] = 0.0
    return averages, peak + np.log(mass)


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
    weight, log_mass = np.asarray(weight, dtype=np.float64), np.empty((0, len(forecast)))
    values = np.empty((len(forecast), 0))
    for bandwidth in bandwidths:
        _, mass = dirichlet_average(
            forecast, forecast, weight, values, bandwidth, leave_out=True, n_jobs=n_jobs
        )
        log_mass = np.vstack([log_mass, mass])
    return (log_mass - np.log(weight_of_others(weight))) @ weight


def weight_of_others(weight: np.ndarray) -> np.ndarray:
    """The weight of all others as a sum: a difference would lose digits for a heavy sample."""
    before, after = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)


def _sums(points, sources, leave_out, n_jobs):
    """Sums (m, V) of kernels relative to the exponentials of their peaks (m,)."""
    log_points = np.log(np.maximum(points, _TINY))
    n_points, n_sources, position = len(points), len(sources.order), None
    if leave_out:
        check_at_least_two(n_sources)
        position = np.empty(n_points, dtype=np.intp)
        position[sources.order] = np.arange(n_points)
    # One BLAS thread: the products are small, and the tasks run in parallel.
    with one_thread("blas"):
        tiles, dropping = _tiles(points, log_points, sources, position)
        together = max(1, _TASK * len(tiles) // max(1, n_points))
        tasks = [tiles[start : start + together] for start in range(0, len(tiles), together)]
        done = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(sum_tiles)(task, log_points, sources, position, dropping) for task in tasks
        )
    total, peak = np.empty((n_points, sources.n_sums)), np.empty(n_points)
    for task, results in zip(tasks, done, strict=True):
        for rows, (sums, largest) in zip(task, results, strict=True):
            total[rows], peak[rows] = sums, largest
    return total, peak


def _tiles(points, log_points, sources, position):
    """Rows of points by tile, and the `Dropping` to use, None if that does not pay."""
    if min(len(points), len(sources.order)) >= _MANY:
        tiles, dropping = kd_tiles(np.sqrt(points), _TILE), Dropping(sources)
        if dropping.pays(tiles, log_points, position):
            return tiles, dropping
    # Sorted by their smallest logarithm: few then have exponentials that underflow.
    order = np.argsort(log_points.min(axis=1), kind="stable")
    return [order[i : i + _ROWS] for i in range(0, len(order), _ROWS)], None


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

    @classmethod
    def sorted(
        cls,
        columns: np.ndarray,
        constants: np.ndarray,
        segment: np.ndarray,
        n_segments: int,
        values: np.ndarray | None = None,
    ) -> Sources:
        """The sources sorted by the number of their segment."""
        order = np.argsort(segment, kind="stable")
        edges = np.searchsorted(segment[order], np.arange(n_segments + 1))
        values = None if values is None else values[order]
        return cls(order, columns[order], constants[order], edges, values)

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
        """Add the kernels of a block; row i leaves out the source `sources_left_out[i]`."""
        left_out = block.left_out(sources_left_out)
        if self.careful or not self._add(block, left_out):
            self._add_carefully(block, left_out)

    def _add(self, block, left_out):
        """Add exponentials unless one is far too large; return whether they were added."""
        kernel = self._log_kernel(block)
        if self.may_underflow:
            np.clip(kernel, _LOWEST, _HIGHEST, out=kernel)
        part, segments, weight = self._sums(block, np.exp(kernel, out=kernel), left_out)
        if not weight.max() < _EXP_LARGE:
            return False
        self.total[:, segments] += part
        return True

    def _add_carefully(self, block, left_out):
        """Add exponentials relative to the largest."""
        if not self.careful:
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
_MANY, _TRIALS = 6000, 16  # points and sources from which dropping is tried; tiles of the trial


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
        probes = self._probes(bound, left_out)
        exact = log_points @ columns[probes].T + constants[probes]
        if left_out is not None:
            exact[left_out[:, None] == probes] = -np.inf
        thresholds = np.repeat(self._thresholds(exact, probes), np.diff(self.sources.edges))
        return np.flatnonzero(bound > thresholds), exact.max(axis=1, keepdims=True)

    def _probes(self, bound, left_out):
        """The source with the largest bound in each piece, and those of the tile itself."""
        largest = np.maximum.reduceat(bound, self.starts)
        probes = np.flatnonzero(bound == np.repeat(largest, self.lengths))
        # `probes` holds all ties; the first in each piece is enough.
        probes = probes[np.searchsorted(probes, self.starts)]
        return probes if left_out is None else np.sort(np.append(probes, left_out))

    def _thresholds(self, exact, probes):
        """The threshold of each segment: sources with a lower bound are dropped."""
        cuts = np.searchsorted(probes, self.sources.edges)
        present = np.flatnonzero(np.diff(cuts))
        largest = np.full((len(exact), len(cuts) - 1), -np.inf)
        largest[:, present] = np.maximum.reduceat(exact, cuts[present], axis=1)
        beside_the_whole = largest.max(axis=1, keepdims=True) + _VANISHING
        beside_their_own = largest + (_NEGLIGIBLE - np.log(len(self.sources.columns)))
        return np.maximum(beside_their_own, beside_the_whole).min(axis=0)

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
