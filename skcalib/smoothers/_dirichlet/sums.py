"""Sums of exponentials of a matrix product, block by block, relative to a shift for each row.

The entries of a block of rows and columns are overwritten in place. The shift is the largest log
kernel of the row in its first block; from then on it is one more column of the product, so that
the product is followed by nothing but the exponential and the sums. Terms far larger than the
shift show in the sums: the block is then computed again, with a new shift, by which what was
summed before is rescaled.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_ROWS, _COLUMNS = 64, 1024  # of a block: half a megabyte, which stays in the cache
# exp is ten times slower where its result is not a normal number, so arguments are cut off below;
# above, they are cut off where it is certain that the sum shows that the shift was too small.
_LOWEST, _HIGHEST, _LARGE = -700.0, 600.0, np.exp(500.0)


@dataclass(frozen=True)
class Sources:
    """Sources in segments: their log kernels are `slopes[b] * columns @ log x + constants[b]`.

    `order` are the rows that they had. Kernels are summed by segment, between `edges`, or, if
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
        """The sources, moved to the segments that their numbers name."""
        order = np.argsort(segment, kind="stable")
        edges = np.searchsorted(segment[order], np.arange(n_segments + 1))
        values = None if values is None else values[order]
        return cls(order, columns[order], slopes, constants[:, order], edges, values)

    @property
    def n_sums(self):
        """The number of sums of each point."""
        return len(self.edges) - 1 if self.values is None else self.values.shape[1]

    @cached_property
    def factor(self):
        """What [log x, 1, -shift] is multiplied with or, if there are several slopes, log x."""
        if len(self.slopes) > 1:
            return self.columns
        ones = np.ones(len(self.columns))
        return np.column_stack([self.slopes[0] * self.columns, self.constants[0], ones])

    @cached_property
    def factor_by_column(self):
        """The same, in the order that is faster for blocks of consecutive sources."""
        return np.asfortranarray(self.factor)


def blocks_of_rows(n_points):
    """Tiles of consecutive rows, for sums that drop nothing."""
    return [np.arange(i, min(i + _ROWS, n_points)) for i in range(0, n_points, _ROWS)]


def sum_tiles(tiles, log_points, sources, position, dropping):
    """For each tile, sums (B, rows, V) of kernels relative to exp(shift), and shifts (B, rows).

    `position[i]` is the source that point i leaves out, or `position` is None; so is `dropping`
    if all sources count.
    """
    buffers = [np.empty(_ROWS * _COLUMNS) for _ in range(1 if len(sources.slopes) == 1 else 2)]
    results = []
    for rows in tiles:
        own = None if position is None else position[rows]
        kept, edges, n_kept = None, sources.edges, len(sources.order)
        if dropping is not None:
            kept = dropping.kept(log_points[rows], own)
            edges, n_kept = np.searchsorted(kept, edges), len(kept)
            own = None if own is None else _find(own, kept)
        sums = _TileSums(log_points[rows], sources, buffers)
        width = _ROWS * _COLUMNS // len(rows)
        for start in range(0, n_kept, width):
            stop = min(start + width, n_kept)
            here = slice(start, stop) if kept is None else kept[start:stop]
            cuts = np.clip(edges, start, stop) - start
            left_out = ((), ())
            if own is not None:
                inside = np.flatnonzero((own >= start) & (own < stop))
                left_out = inside, own[inside] - start
            sums.add_block(here, cuts, left_out)
        results.append((sums.total, sums.shift[:, :, 0]))
    return results


def _find(wanted, among):
    """Positions in a sorted array, -1 for what is absent."""
    place = np.searchsorted(among, wanted)
    return np.where(among.take(place, mode="clip") == wanted, place, -1)


class _TileSums:
    """The sums of a tile of rows, `total` (B, rows, V), relative to exp(`shift` (B, rows, 1))."""

    def __init__(self, log_points, sources, buffers):
        n_slopes, n_rows = len(sources.slopes), len(log_points)
        self.sources, self.buffers = sources, buffers
        self.total = np.zeros((n_slopes, n_rows, sources.n_sums))
        self.shift = np.zeros((n_slopes, n_rows, 1))
        self.started = False
        self.left = log_points
        if n_slopes == 1:
            self.left = np.column_stack([log_points, np.ones(n_rows), np.zeros(n_rows)])

    def add_block(self, here, cuts, left_out):
        """Add the kernels of the sources `here`, whose segments are cut at `cuts`."""
        sources, (first, *second) = self.sources, self.buffers
        if isinstance(here, slice):
            right = sources.factor_by_column[here]
        else:
            right = sources.factor.take(here, axis=0)  # several times faster than an index
        shape = len(self.left), len(right)
        product = first[: shape[0] * shape[1]].reshape(shape)
        if second:
            np.matmul(self.left, right.T, out=product)
        present = np.flatnonzero(np.diff(cuts))

        def shifted(b):
            """Log kernels minus the shift, in a buffer."""
            if not second:
                return np.matmul(self.left, right.T, out=product)
            scaled = second[0][: product.size].reshape(shape)
            np.multiply(product, sources.slopes[b], out=scaled)
            scaled += sources.constants[b, here]
            scaled -= self.shift[b]
            return scaled

        def add(b, log_kernel):
            """Add the exponentials, unless one is far too large; return whether they were."""
            kernel = np.exp(np.clip(log_kernel, _LOWEST, _HIGHEST, out=log_kernel), out=log_kernel)
            kernel[left_out] = 0.0
            if sources.values is None:
                part = np.add.reduceat(kernel, cuts[present], axis=1)
                if part.max() < _LARGE:
                    self.total[b][:, present] += part
                    return True
            else:
                part = kernel @ sources.values[here]
                if part[:, -1].max() < _LARGE:
                    self.total[b] += part
                    return True
            return False

        for b in range(len(sources.slopes)):
            if not (self.started and add(b, shifted(b))):
                # Anew without the shift: next to a large one the log kernels would be rounded.
                before = self._set_shift(b, 0.0)
                log_kernel = shifted(b)
                log_kernel[left_out] = -np.inf
                largest = log_kernel.max(axis=1, keepdims=True)
                if self.started:
                    largest = np.maximum(largest, before)
                    for _ in range(2):  # the whole factor may be 0 where the product is not
                        self.total[b] *= np.exp((before - largest) / 2)
                self._set_shift(b, largest)
                log_kernel -= largest
                add(b, log_kernel)
        self.started = True

    def _set_shift(self, b, shift):
        """Change the shift; return the previous one."""
        before = self.shift[b].copy()
        self.shift[b] = shift
        if len(self.shift) == 1:
            self.left[:, -1:] = -self.shift[0]
        return before
