r"""Exact sums of Dirichlet kernels on the simplex, for any number of classes.

`canonical_average` and `canonical_log_likelihoods` are the functions that smoothers call. After
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
_NARROW = 16  # classes up to which a product per bandwidth is faster than a shared one
_UNDERFLOW = 1e-290  # smaller shares are sums of truncated exponentials and set to 0


def canonical_average(points, forecast, weight, values, bandwidth, *, leave_out=False, n_jobs=None):
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
    by_segment = n_values == 0 or _is_one_hot(values)
    segment, factors = np.zeros(n_samples, dtype=np.intp), None
    if not by_segment:
        factors = np.column_stack([values, np.ones(n_samples)])  # the ones sum the weights
    elif n_values > 0:
        segment = values.argmax(axis=1)
    scaled = np.asarray(forecast, dtype=np.float64) / bandwidth
    constant = _log_constant(scaled, weight)
    n_segments = max(1, n_values) if by_segment else 1
    sources = Sources.sorted(scaled, np.ones(1), constant[None], segment, n_segments, factors)
    (total,), (peak,) = _sums(points, sources, leave_out, n_jobs)
    mass = total.sum(axis=1) if by_segment else total[:, -1]
    averages = total[:, :n_values] / mass[:, None]
    if by_segment:
        averages[averages < _UNDERFLOW] = 0.0
    return averages, peak + np.log(mass)


def canonical_log_likelihoods(forecast, weight, bandwidths, *, n_jobs=None):
    r"""Leave-one-out log likelihoods (B,) of forecasts under their kernel density, by bandwidth.

    :math:`\sum_i w_i \log \bigl( \sum_{j \ne i} w_j k(s_i, s_j) / \sum_{j \ne i} w_j \bigr)`. For
    many classes the product :math:`\langle \log s_i, s_j \rangle` of a block serves all bandwidths;
    for few it costs less than to rescale it, and each bandwidth has its own.
    """
    forecast = np.asarray(forecast, dtype=np.float64)
    weight = np.asarray(weight, dtype=np.float64)
    bandwidths = np.asarray(bandwidths, dtype=np.float64)
    if forecast.shape[1] <= _NARROW:
        groups = bandwidths[:, None]
    else:
        groups = [bandwidths] if len(bandwidths) else []
    log_mass = np.empty((0, len(forecast)))
    for group in groups:
        constants = np.array([_log_constant(forecast / h, weight) for h in group])
        segment = np.zeros(len(forecast), dtype=np.intp)
        sources = Sources.sorted(forecast, 1 / group, constants, segment, 1)
        total, peak = _sums(forecast, sources, True, n_jobs)
        log_mass = np.concatenate([log_mass, peak + np.log(total[:, :, 0])])
    return (log_mass - np.log(_weight_of_others(weight))) @ weight


def _log_constant(scaled, weight):
    """The constants c_j of the sources s_j / h."""
    constant = gammaln(scaled.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    return constant + np.log(np.asarray(weight, dtype=np.float64))


def _weight_of_others(weight):
    """The weight of all others as a sum: a difference would lose digits for a heavy sample."""
    before, after = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)


def _is_one_hot(values):
    """Whether each row is a single 1 and zeros."""
    return bool(np.all((values == 0) | (values == 1)) and np.all(values.sum(axis=1) == 1))


def _sums(points, sources, leave_out, n_jobs):
    """Sums (B, m, V) of kernels relative to the exponentials of their peaks (B, m)."""
    points = np.asarray(points, dtype=np.float64)
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
    total = np.empty((len(sources.slopes), n_points, sources.n_sums))
    peak = np.empty((len(sources.slopes), n_points))
    for task, results in zip(tasks, done, strict=True):
        for rows, (sums, largest) in zip(task, results, strict=True):
            total[:, rows], peak[:, rows] = sums, largest
    return total, peak


def _tiles(points, log_points, sources, position):
    """Rows of points by tile, and the `Dropping` to use, None if that does not pay."""
    if worth_trying(len(points), len(sources.order)):
        tiles = kd_tiles(np.sqrt(points), _TILE)
        dropping = Dropping(sources.columns, sources.slopes, sources.constants, sources.edges)
        if dropping.pays(tiles, log_points, position):
            return tiles, dropping
    return tiles_of_rows(log_points), None


# --- Sums of exponentials -------------------------------------------------------------------------


_ROWS, _COLUMNS = 64, 1024  # of a block: half a megabyte, which fits into the cache
_SOME = 128  # sources that give the first shifts
# exp is ten times slower where its result is subnormal, so arguments are bounded below. The upper
# bound is large enough for the sum to show that the shift was too small.
_LOWEST, _HIGHEST, _LARGE = -700.0, 600.0, 500.0
_EXP_LARGE = np.exp(_LARGE)


@dataclass(frozen=True)
class Sources:
    """Sources in segments: their log kernels are `slopes[b] * columns @ log x + constants[b]`.

    `order` holds their original rows. Kernels are summed by segment, between `edges`, or, if
    `values` (n, V) is not None, multiplied by values and summed.
    """

    order: np.ndarray
    columns: np.ndarray
    slopes: np.ndarray
    constants: np.ndarray
    edges: np.ndarray
    values: np.ndarray | None = None

    @classmethod
    def sorted(cls, columns, slopes, constants, segment, n_segments, values=None):
        """The sources sorted by the number of their segment."""
        order = np.argsort(segment, kind="stable")
        edges = np.searchsorted(segment[order], np.arange(n_segments + 1))
        values = None if values is None else values[order]
        return cls(order, columns[order], slopes, constants[:, order], edges, values)

    @property
    def n_sums(self):
        """The number of sums of each point."""
        return len(self.edges) - 1 if self.values is None else self.values.shape[1]

    @cached_property
    def _extremes(self):
        """The largest sum of a row of `columns`, and the smallest of the constants (B,)."""
        return self.columns.sum(axis=1).max(), self.constants.min(axis=1)

    def lowest(self, log_point):
        """A lower bound (B,) of log kernels where no logarithm is smaller than this."""
        heaviest, constants = self._extremes
        return self.slopes * (heaviest * min(log_point, 0.0)) + constants

    @cached_property
    def factor(self):
        """Right factor of [log x, 1, -shift] or, if there are several slopes, of log x."""
        if len(self.slopes) > 1:
            return self.columns
        ones = np.ones(len(self.columns))
        return np.column_stack([self.slopes[0] * self.columns, self.constants[0], ones])

    @cached_property
    def factor_by_column(self):
        """The same in column-major order, which is faster for blocks of consecutive sources."""
        return np.asfortranarray(self.factor)


def tiles_of_rows(log_points):
    """Tiles of rows, sorted by smallest logarithm: few then have exponentials that underflow."""
    order = np.argsort(log_points.min(axis=1), kind="stable")
    return [order[i : i + _ROWS] for i in range(0, len(order), _ROWS)]


def sum_tiles(tiles, log_points, sources, position, dropping):
    """For each tile, sums (B, rows, V) of kernels relative to exp(shift), and shifts (B, rows).

    `position[i]` is the source that point i leaves out, or `position` is None. `dropping` is None
    if no source is dropped.
    """
    buffers = [np.empty(_ROWS * _COLUMNS) for _ in range(1 if len(sources.slopes) == 1 else 2)]
    some, every_block, careful = _some(sources), list(_blocks(sources, _COLUMNS)), False
    results = []
    for rows in tiles:
        sums = _TileSums(log_points[rows], sources, buffers)
        left_out = None if position is None else position[rows]
        if dropping is None:
            blocks, first = every_block, sums.largest(some, left_out)
        else:
            numbers, first = dropping.kept(log_points[rows], left_out)
            left_out = None if left_out is None else _find(left_out, numbers)
            blocks = _blocks(sources, _ROWS * _COLUMNS // len(rows), numbers)
        sums.start(first, careful)
        with np.errstate(over="ignore", invalid="ignore"):  # detected in the sums
            for block in blocks:
                sums.add(block, left_out)
        careful = (sums.shift - first).max() > _LARGE  # the next tile is similar
        results.append((sums.total, sums.shift[:, :, 0]))
    return results


def _find(wanted, among):
    """Positions in a sorted array, -1 for what is absent."""
    place = np.searchsorted(among, wanted)
    return np.where(among.take(place, mode="clip") == wanted, place, -1)


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


def _some(sources):
    """A block of a few sources at equal distances."""
    number = range(0, len(sources.order), max(1, len(sources.order) // _SOME))
    here = slice(None, None, number.step)
    return _Block(number, here, np.ascontiguousarray(sources.factor[here].T))


class _TileSums:
    """The sums of a tile of rows, `total` (B, rows, V), relative to exp(`shift` (B, rows, 1)).

    The shift of a row is the largest log kernel so far where it is `careful`; else it remains what
    it was at the start, and is one more column of the product.
    """

    def __init__(self, log_points, sources, buffers):
        n_slopes, n_rows = len(sources.slopes), len(log_points)
        self.sources, self.buffers = sources, buffers
        self.total = np.zeros((n_slopes, n_rows, sources.n_sums))
        self.shift = np.zeros((n_slopes, n_rows, 1))
        self.left = log_points
        if n_slopes == 1:
            self.left = np.column_stack([log_points, np.ones(n_rows), np.zeros(n_rows)])
        self.lowest = sources.lowest(log_points.min())
        self.careful = True

    def start(self, shift, careful):
        """Set the first shifts."""
        self.shift[:], self.careful = shift, careful
        self.may_underflow = self.lowest - shift.max(axis=(1, 2)) < _LOWEST
        if len(shift) == 1 and not careful:
            self.left[:, -1:] = -shift[0]

    def largest(self, some, sources_left_out):
        """The largest log kernels (B, rows, 1) among a few sources."""
        left_out = some.left_out(sources_left_out)
        largest = np.empty_like(self.shift)
        for b in range(len(largest)):
            log_kernel = self._log_kernel(b, some)
            log_kernel[left_out] = -np.inf
            log_kernel.max(axis=1, keepdims=True, out=largest[b])
        return largest

    def add(self, block, sources_left_out):
        """Add the kernels of a block; row i leaves out the source `sources_left_out[i]`."""
        left_out = block.left_out(sources_left_out)
        for b in range(len(self.total)):
            if self.careful or not self._add(b, block, left_out):
                self._add_carefully(b, block, left_out)

    def _add(self, b, block, left_out):
        """Add exponentials unless one is far too large; return whether they were added."""
        kernel = self._log_kernel(b, block)
        if self.may_underflow[b]:
            np.clip(kernel, _LOWEST, _HIGHEST, out=kernel)
        part, segments, weight = self._sums(block, np.exp(kernel, out=kernel), left_out)
        if not weight.max() < _EXP_LARGE:
            return False
        self.total[b][:, segments] += part
        return True

    def _add_carefully(self, b, block, left_out):
        """Add exponentials relative to the largest."""
        if not self.careful:
            self.careful = True
            if len(self.total) == 1:
                self.left[:, -1] = 0.0  # a large shift in the product rounds the log kernels
        kernel = self._log_kernel(b, block)
        kernel[left_out] = -np.inf
        largest = np.maximum(kernel.max(axis=1, keepdims=True), self.shift[b])
        for _ in range(2):  # in two steps: the whole factor may underflow
            self.total[b] *= np.exp((self.shift[b] - largest) / 2)
        self.shift[b] = largest
        kernel -= largest
        np.clip(kernel, _LOWEST, _HIGHEST, out=kernel)
        part, segments, _ = self._sums(block, np.exp(kernel, out=kernel), left_out)
        self.total[b][:, segments] += part

    def _log_kernel(self, b, block):
        """Log kernels, minus the shift unless the tile is careful, in a buffer."""
        shape = len(self.left), block.right.shape[1]
        size = shape[0] * shape[1]
        product = self.buffers[0][:size].reshape(shape)
        if b == 0:
            np.matmul(self.left, block.right, out=product)
        if len(self.total) == 1:
            return product
        scaled = self.buffers[1][:size].reshape(shape)
        np.multiply(product, self.sources.slopes[b], out=scaled)
        scaled += self.sources.constants[b, block.here]
        if not self.careful:
            scaled -= self.shift[b]
        return scaled

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
    """Selection of sources by bounds of their log kernels, `slope * columns @ log x + constant`.

    `columns` (n, K) are the non-negative vectors of the sources, segment after segment, between
    `edges`. There are `slopes` (B,) and `constants` (B, n), which include the log weights, for
    every bandwidth.
    """

    def __init__(self, columns, slopes, constants, edges):
        self.columns, self.slopes, self.constants, self.edges = columns, slopes, constants, edges
        n_sources = len(columns)
        pieces = np.arange(0, n_sources, -(-n_sources // _PIECES))
        self.starts = np.union1d(pieces, edges[:-1][np.diff(edges) > 0])
        self.lengths = np.diff(self.starts, append=n_sources)

    def kept(self, log_points, left_out=None):
        """Sorted positions of the sources that a tile needs for any of the bandwidths.

        `left_out[i]` is the position of the source that row i leaves out. The second result is the
        largest log kernel (B, rows, 1) of some of them.
        """
        upper = self.columns @ log_points.max(axis=0)
        keep = np.zeros(len(upper), dtype=bool)
        largest = np.empty((len(self.slopes), len(log_points), 1))
        for b, (slope, constant) in enumerate(zip(self.slopes, self.constants, strict=True)):
            bound = slope * upper + constant
            probes = self._probes(bound, left_out)
            exact = slope * (log_points @ self.columns[probes].T) + constant[probes]
            if left_out is not None:
                exact[left_out[:, None] == probes] = -np.inf
            largest[b] = exact.max(axis=1, keepdims=True)
            keep |= bound > np.repeat(self._thresholds(exact, probes), np.diff(self.edges))
        return np.flatnonzero(keep), largest

    def _probes(self, bound, left_out):
        """The source with the largest bound in each piece, and those of the tile itself."""
        largest = np.maximum.reduceat(bound, self.starts)
        probes = np.flatnonzero(bound == np.repeat(largest, self.lengths))
        # `probes` holds all ties; the first in each piece is enough.
        probes = probes[np.searchsorted(probes, self.starts)]
        return probes if left_out is None else np.sort(np.append(probes, left_out))

    def _thresholds(self, exact, probes):
        """The threshold of each segment: sources with a lower bound are dropped."""
        cuts = np.searchsorted(probes, self.edges)
        present = np.flatnonzero(np.diff(cuts))
        largest = np.full((len(exact), len(cuts) - 1), -np.inf)
        largest[:, present] = np.maximum.reduceat(exact, cuts[present], axis=1)
        beside_the_whole = largest.max(axis=1, keepdims=True) + _VANISHING
        beside_their_own = largest + (_NEGLIGIBLE - np.log(len(self.columns)))
        return np.maximum(beside_their_own, beside_the_whole).min(axis=0)

    def pays(self, tiles, log_points, position):
        """Whether dropping is faster than the full sum, estimated from a few tiles.

        The measured time is 0.15 + 1500 / n + 1.4 times the share that is kept, in units of the
        time without dropping; dropping is faster where that share is at most 0.5 - 1000 / n. The
        trial costs a tenth of that time at n = 6,000 and a hundredth at 50,000.
        """
        n_sources = len(self.columns)
        # Multiples of the golden ratio: spread evenly, and not aligned with the levels of the tree.
        trials = (np.arange(_TRIALS) * 0.6180339887498949 % 1 * len(tiles)).astype(int)
        counts = [
            len(
                self.kept(log_points[tiles[t]], None if position is None else position[tiles[t]])[0]
            )
            for t in trials
        ]
        return np.mean(counts) / n_sources <= 0.5 - 1000 / n_sources


def worth_trying(n_points, n_sources):
    """Whether there are enough points and sources to try `Dropping`."""
    return min(n_points, n_sources) >= _MANY


def kd_tiles(coordinates, size):
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
