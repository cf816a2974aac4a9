r"""Which sources of a kernel sum a tile of neighbouring points can do without.

With :math:`\log k(x, s_j) = \langle \log x, a_j \rangle + c_j` and :math:`a_j \ge 0`, the largest
coordinates of :math:`\log x` in a tile give an upper bound of what source j weighs at any of its
points: one vector stands for the rows of the tile. A source is dropped if, at every point, this
bound is below

- :math:`10^{-17} / n` of the weight of some source *of its own segment*: all that is dropped is
  then below the rounding of the sum of that segment, even of one with a share of 1e-100, so that
  a log loss of the averages does not change; or
- :math:`e^{-690}` of the weight of some source of any segment: underflow beside the whole.

Both compare upper bounds with weights that are computed exactly. Nothing is assumed about the
data; where the points of a tile differ much, little is dropped.
"""

import numpy as np

_NEGLIGIBLE, _UNDERFLOW = np.log(1e-17), -690.0
_PIECES = 128  # parts of the sources, each of which offers one for comparison
_MANY, _TRIALS = 6000, 16  # with fewer points or sources little is gained, if anything


class Dropping:
    """Bounds of the kernels `slope * columns @ log x + constant` of sources in segments.

    Parameters
    ----------
    columns : ndarray of shape (n, K)
        The non-negative vectors of the sources, segment after segment.
    slopes : ndarray of shape (B,)
        Factors of `columns`, one for every bandwidth.
    constants : ndarray of shape (B, n)
        The constants of the sources, with their log weights.
    edges : ndarray of shape (C + 1,)
        Where segments begin and end.
    """

    def __init__(self, columns, slopes, constants, edges):
        self.columns, self.slopes, self.constants, self.edges = columns, slopes, constants, edges
        n_sources = len(columns)
        pieces = np.arange(0, n_sources, -(-n_sources // _PIECES))
        self.starts = np.union1d(pieces, edges[:-1][np.diff(edges) > 0])
        self.lengths = np.diff(self.starts, append=n_sources)

    def kept(self, log_points, own=None):
        """Sorted positions of the sources that a tile needs for any of the bandwidths.

        `own[i]` is the position of the source that row i leaves out.
        """
        upper = self.columns @ log_points.max(axis=0)
        keep = np.zeros(len(upper), dtype=bool)
        for slope, constant in zip(self.slopes, self.constants, strict=True):
            bound = slope * upper + constant
            probes = self._probes(bound, own)
            exact = slope * (log_points @ self.columns[probes].T) + constant[probes]
            if own is not None:
                exact[own[:, None] == probes] = -np.inf
            keep |= bound > np.repeat(self._thresholds(exact, probes), np.diff(self.edges))
        return np.flatnonzero(keep)

    def _probes(self, bound, own):
        """The source with the largest bound in each piece, and those of the tile itself."""
        largest = np.maximum.reduceat(bound, self.starts)
        probes = np.flatnonzero(bound == np.repeat(largest, self.lengths))
        # Tied sources are all there: the first in each piece will do.
        probes = probes[np.searchsorted(probes, self.starts)]
        return probes if own is None else np.sort(np.append(probes, own))

    def _thresholds(self, exact, probes):
        """The bound that a source of each segment must exceed, or else it is dropped."""
        cuts = np.searchsorted(probes, self.edges)
        present = np.flatnonzero(np.diff(cuts))
        largest = np.full((len(exact), len(cuts) - 1), -np.inf)
        largest[:, present] = np.maximum.reduceat(exact, cuts[present], axis=1)
        beside_the_whole = largest.max(axis=1, keepdims=True) + _UNDERFLOW
        beside_their_own = largest + (_NEGLIGIBLE - np.log(len(self.columns)))
        return np.maximum(beside_their_own, beside_the_whole).min(axis=0)

    def pays(self, tiles, log_points, position):
        """Whether dropping is faster than not, judged by what a few tiles keep.

        Measured, the time is 0.15 + 1500 / n + 1.4 times the share that is kept, in units of the
        time without dropping; so it falls where that share is at most 0.5 - 1000 / n. To ask
        costs a tenth of that time at n = 6,000 and a hundredth at 50,000.
        """
        n_sources = len(self.columns)
        # Multiples of the golden ratio: even over the tree, and in step with none of its levels.
        trials = (np.arange(_TRIALS) * 0.6180339887498949 % 1 * len(tiles)).astype(int)
        kept = [
            len(self.kept(log_points[tiles[t]], None if position is None else position[tiles[t]]))
            for t in trials
        ]
        return np.mean(kept) / n_sources <= 0.5 - 1000 / n_sources


def worth_trying(n_points, n_sources):
    """Whether there are points and sources enough for `Dropping` to pay at all."""
    return min(n_points, n_sources) >= _MANY


def kd_tiles(coordinates, size):
    """Rows cut in two along their most variable coordinate, down to `size` rows.

    They are cut at the mean: the median of forecasts that are near 0 or 1 would cut the many that
    are near 0. All tiles but one are full.
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
        # At least a tenth on either side, which keeps the tree shallow.
        least = max(1, n_tiles // 10)
        left = round(np.sum(along <= along.mean()) / size)
        left = size * min(max(left, least), n_tiles - least)
        order = np.argpartition(along, left)
        stack += [rows[order[left:]], rows[order[:left]]]
    return tiles
