"""Bins of scores: edges, and the sums from which every binned error is read."""

from dataclasses import dataclass

import numpy as np

from skcalib.bounds import optimal_n_bins

_CHUNK = 1 << 16  # scores that are binned at a time: they stay in the cache


@dataclass(frozen=True)
class BinSums:
    """Sums over the samples of each bin; two records of the same edges add up by `merge`.

    ``edges`` are the B + 1 edges, from 0 to 1; ``mass`` sums the weights, ``square_mass`` their
    squares, ``score`` and ``label`` the weighted scores and labels, and ``gap``, ``square_gap`` the
    squared weights times label - score and its square.
    """

    edges: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    label: np.ndarray
    square_mass: np.ndarray
    gap: np.ndarray
    square_gap: np.ndarray

    def merge(self, other):
        """The sums of both sets of samples."""
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("Only sums over the same edges can be merged.")
        names = ("mass", "score", "label", "square_mass", "gap", "square_gap")
        return BinSums(self.edges, *(getattr(self, n) + getattr(other, n) for n in names))

    def mean_variance(self):
        """Variance of the mean of label - score in each bin; infinite where one sample is alone.

        sum w^2 (r - mean)^2 / W^2, times m / (m - 1) with the effective number m = W^2 / sum w^2:
        for equal weights the unbiased variance divided by the number of samples.
        """
        mass = np.where(self.mass > 0, self.mass, 1)
        mean = (self.label - self.score) / mass
        spread = self.square_gap - 2 * mean * self.gap + mean**2 * self.square_mass
        effective = mass**2 / np.where(self.mass > 0, self.square_mass, 1)
        several = effective > 1 + 1e-9
        excess = np.where(several, effective / np.where(several, effective - 1, 1), np.inf)
        with np.errstate(invalid="ignore"):
            variance = np.maximum(spread, 0) / mass**2 * excess
        return np.where(several, variance, np.inf)


def uniform_edges(score, n_bins):
    """Edges i / B of bins ((i - 1) / B, i / B]."""
    return np.arange(n_bins + 1) / n_bins


def quantile_edges(score, n_bins):
    """0, the order statistics of rank floor(n b / B), 1 (F24); ties are never split."""
    rank = len(score) * np.arange(1, n_bins) // n_bins
    rank = np.unique(rank[rank > 0])
    inner = np.partition(score, rank - 1)[rank - 1] if len(rank) else np.empty(0)
    # The last bin ends at 1: an edge at the largest score of all would leave it empty.
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


STRATEGIES = {"quantile": quantile_edges, "uniform": uniform_edges}


def make_edges(score, n_bins, strategy):
    """`n_bins` and `strategy` of a public function -> edges from 0 to 1."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}.")
    rule = STRATEGIES[strategy]
    if isinstance(n_bins, str):
        if n_bins != "auto":
            raise ValueError(f"n_bins must be 'auto', a whole number or edges, got {n_bins!r}.")
        return rule(score, optimal_n_bins(len(score)))
    if np.ndim(n_bins) == 0:
        if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
            raise ValueError(f"n_bins must be at least 1, got {n_bins!r}.")
        return rule(score, int(n_bins))
    edges = np.asarray(n_bins, dtype=np.float64)
    good = edges.ndim == 1 and len(edges) >= 2 and np.all(np.diff(edges) > 0)
    if not (good and edges[0] == 0 and edges[-1] == 1):
        raise ValueError("Edges given as n_bins must increase strictly from 0 to 1.")
    return edges


def bin_sums(score, label, weight, edges, *, spread=True):
    """Sums over bins (e_(i-1), e_i], 0 in the first and 1 in the last -> `BinSums`.

    Without ``spread`` the sums of squares stay zero, and variances are unknown.
    """
    n_bins = len(edges) - 1
    place = _uniform_bins if np.array_equal(edges, uniform_edges(None, n_bins)) else _any_bins
    equal = bool(np.all(weight == weight[0]))
    sums = np.zeros((6, n_bins))
    for start in range(0, len(score), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        s, y, w = score[chunk], label[chunk], weight[chunk]
        bins = place(s, edges)
        if equal:  # weighting comes last
            sums[0] += np.bincount(bins, minlength=n_bins) * w[0]
            sums[1] += np.bincount(bins, s, n_bins) * w[0]
            sums[2] += np.bincount(bins, y, n_bins) * w[0]
        else:
            for row, values in zip(sums[:3], (w, w * s, w * y), strict=True):
                row += np.bincount(bins, values, n_bins)
        if spread:
            residual, square = y - s, w * w
            weighted = square * residual
            for row, values in zip(sums[3:], (square, weighted, weighted * residual), strict=True):
                row += np.bincount(bins, values, n_bins)
    return BinSums(edges, *sums)


def _any_bins(score, edges):
    return np.searchsorted(edges[1:-1], score, side="left")


def _uniform_bins(score, edges):
    """The same by a product, set right where it misses an edge by rounding."""
    n_bins = len(edges) - 1
    bins = (score * n_bins).astype(np.intp)
    np.minimum(bins, n_bins - 1, out=bins)
    bins -= score <= edges[bins]
    np.maximum(bins, 0, out=bins)
    bins += score > edges[bins + 1]
    return bins
