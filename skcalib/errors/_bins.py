"""Bins of one score: edges, and the sums from which every binned error is read."""

from dataclasses import dataclass, fields

import numpy as np

from skcalib.bounds import optimal_n_bins

_CHUNK = 1 << 16  # scores that are binned at a time: they stay in the cache
_NEAR = 1e-9  # a product with the number of bins is off by less than this share of a bin


@dataclass(frozen=True)
class BinSums:
    """Sums over the samples of each bin; records of the same edges add up exactly by `merge`.

    ``edges`` are the B + 1 edges, from 0 to 1: bin b is (edges[b], edges[b + 1]], and zero belongs
    to the first. ``mass`` sums the weights w, ``square_mass`` w^2, ``score`` and ``label`` w s and
    w y, ``square_gap`` w (y - s)^2; the last is None where it was not asked for.
    """

    edges: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    label: np.ndarray
    square_mass: np.ndarray
    square_gap: np.ndarray | None = None

    def merge(self, other):
        """The sums of both sets of samples."""
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("Only sums over the same edges can be merged.")
        names = [field.name for field in fields(self)][1:]
        if self.square_gap is None or other.square_gap is None:
            names.remove("square_gap")
        return BinSums(self.edges, *(getattr(self, n) + getattr(other, n) for n in names))

    def gap(self):
        """Mean of label - score in each bin, zero in empty ones."""
        return (self.label - self.score) / np.where(self.mass > 0, self.mass, 1)

    def size(self):
        """Effective number of samples, (sum w)^2 / sum w^2."""
        return self.mass**2 / np.where(self.square_mass > 0, self.square_mass, 1)

    def gap_variance(self):
        """Unbiased variance of `gap`, as in `tower.partition_bias`; infinite below two samples."""
        several = self.size() > 1 + 1e-9
        spread = self.square_gap / np.where(self.mass > 0, self.mass, 1) - self.gap() ** 2
        variance = np.maximum(spread, 0) / np.where(several, self.size() - 1, 1)
        return np.where(several, variance, np.inf)


def uniform_edges(n_bins):
    """Edges i / B of bins ((i - 1) / B, i / B]."""
    return np.arange(n_bins + 1) / n_bins


def quantile_edges(score, n_bins, weight=None):
    """0, the order statistics of rank floor(n b / B), 1 (F24); ties are never split.

    Weights that are whole numbers repeat their samples. For others, an edge is the last sample at
    which the running sum of the weights has not passed its share b / B of the total, which for
    equal weights is the same as no weights.
    """
    if weight is None:
        rank = _ranks(len(score), n_bins)
        return _close(np.partition(score, rank - 1)[rank - 1] if len(rank) else rank)
    order = np.lexsort((weight, score))
    running = np.cumsum(weight[order])
    if _whole(weight):
        rank = _ranks(round(running[-1]), n_bins)
        place = np.searchsorted(running, rank, side="left")
    else:
        share = running[-1] * np.arange(1, n_bins) / n_bins
        place = np.searchsorted(running, share * (1 + 1e-12), side="right") - 1
        place = place[place >= 0]
    return _close(score[order[place]])


def _ranks(n_samples, n_bins):
    """Distinct ranks floor(n b / B) of the inner edges, counted from one."""
    rank = n_samples * np.arange(1, n_bins) // n_bins
    return np.unique(rank[rank > 0])


def _close(inner):
    """Inner edges, zero and one.

    Zero may be an edge twice: the first bin then holds the scores that are exactly zero. An inner
    edge of one would leave the last bin empty.
    """
    inner = np.unique(inner)
    return np.concatenate([[0.0], inner[inner < 1], [1.0]])


def _whole(weight):
    return bool(np.all(weight == np.floor(weight)))


STRATEGIES = ("quantile", "uniform")


def check_bins(n_bins, strategy):
    """`n_bins` and `strategy` of a public function: "auto", a number, or edges from 0 to 1."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}.")
    if isinstance(n_bins, str):
        if n_bins != "auto":
            raise ValueError(f"n_bins must be 'auto', a whole number or edges, got {n_bins!r}.")
        return n_bins
    if np.ndim(n_bins) == 0:
        whole = isinstance(n_bins, (int, np.integer)) and not isinstance(n_bins, bool)
        if not whole or n_bins < 1:
            raise ValueError(f"n_bins must be a whole number of at least 1, got {n_bins!r}.")
        return int(n_bins)
    edges = np.array(n_bins, dtype=np.float64)
    good = edges.ndim == 1 and len(edges) >= 2 and np.all(np.diff(edges) > 0)
    if not (good and edges[0] == 0 and edges[-1] == 1):
        raise ValueError("Edges given as n_bins must increase strictly from 0 to 1.")
    return edges


def count_bins(n_bins, n_samples, weight=None):
    """A number of bins: "auto" is F24's, with whole weights as repetitions."""
    if not isinstance(n_bins, str):
        return n_bins
    repeated = weight is not None and _whole(weight)
    return optimal_n_bins(round(weight.sum()) if repeated else n_samples)


def make_edges(score, n_bins, strategy, weight=None):
    """Scores and what `check_bins` returned -> edges from 0 to 1."""
    if isinstance(n_bins, np.ndarray):
        return n_bins
    n_bins = count_bins(n_bins, len(score), weight)
    return uniform_edges(n_bins) if strategy == "uniform" else quantile_edges(score, n_bins, weight)


def sum_bins(score, label, weight, n_bins, strategy, *, spread=False):
    """Scores (n,), labels (n,) of bool, weights (n,) or None -> `BinSums` of chosen bins."""
    if strategy == "quantile" and weight is None and not isinstance(n_bins, np.ndarray):
        return _sorted_sums(score, label, count_bins(n_bins, len(score)), spread)
    edges = make_edges(score, n_bins, strategy, weight)
    return bin_sums(score, label, weight, edges, spread=spread)


def bin_sums(score, label, weight, edges, *, spread=False):
    """Sums over bins (e_(i-1), e_i], 0 in the first and 1 in the last -> `BinSums`."""
    n_bins = len(edges) - 1
    place = _uniform_bins if np.array_equal(edges, uniform_edges(n_bins)) else _any_bins
    # Bins of label 0 and then of label 1, so that labels need no sum of their own.
    mass, scores, squares = np.zeros((3, 2, n_bins))
    gaps = np.zeros((2, n_bins)) if spread else None
    for start in range(0, len(score), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        s, y = score[chunk], label[chunk]
        w = None if weight is None else weight[chunk]
        cell = place(s, edges)
        cell += n_bins * y

        def total(values, cell=cell):
            return np.bincount(cell, values, 2 * n_bins).reshape(2, n_bins)

        mass += total(w)
        scores += total(s if w is None else w * s)
        if w is not None:
            squares += total(w * w)
        if spread:
            square = (y - s) ** 2
            gaps += total(square if w is None else w * square)
    squares = mass if weight is None else squares
    gaps = gaps.sum(axis=0) if spread else None
    return BinSums(edges, mass.sum(axis=0), scores.sum(axis=0), mass[1], squares.sum(axis=0), gaps)


def _any_bins(score, edges):
    return np.searchsorted(edges[1:-1], score, side="left")


def _uniform_bins(score, edges):
    """The same by a product; scores that may be an edge are compared with the edges."""
    n_bins = len(edges) - 1
    scaled = score * n_bins
    bins = scaled.astype(np.intp)
    scaled -= bins
    scaled -= 0.5
    near = np.flatnonzero(np.abs(scaled, out=scaled) > 0.5 - _NEAR * n_bins)
    if len(near):
        bins[near] = _any_bins(score[near], edges)
    return bins


def sort_by_score(score, label):
    """Scores in increasing order, and their labels.

    One sort of integers: the two highest bits of a float in [0, 2) are zero, so its pattern can
    move up by one bit and take the label along. Nothing is rounded and no tie is made or broken.
    """
    packed = (score + 0.0).view(np.int64)  # a copy; minus zero becomes zero
    packed <<= 1
    packed |= label
    packed.sort()
    label = (packed & 1).astype(bool)
    packed >>= 1
    return packed.view(np.float64), label


def _sorted_sums(score, label, n_bins, spread):
    """`bin_sums` with the edges of `quantile_edges`, by one sort and no search per sample."""
    score, label = sort_by_score(score, label)
    edges = _close(score[_ranks(len(score), n_bins) - 1])
    ends = np.append(np.searchsorted(score, edges[1:-1], side="right"), len(score))
    mass = np.diff(ends, prepend=0).astype(np.float64)
    starts = (ends - mass.astype(np.intp))[mass > 0]

    def total(values):
        sums = np.zeros(len(mass))
        sums[mass > 0] = np.add.reduceat(values, starts)
        return sums

    labels = total(label.astype(np.float64))
    return BinSums(
        edges, mass, total(score), labels, mass, total((label - score) ** 2) if spread else None
    )
