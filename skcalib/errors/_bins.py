"""Bins of scores: edges, and the sums from which every binned error is read."""

from dataclasses import dataclass

import numpy as np

from skcalib.theory.bounds import optimal_n_bins

_CHUNK = 1 << 16  # scores that are binned at a time: they stay in the cache
_SUMS = ("mass", "score", "label", "square_mass", "square_gap")


@dataclass(frozen=True)
class BinSums:
    """Sums over the samples of each bin; two records of the same edges add up by `merge`.

    ``edges`` are the B + 1 edges, from 0 to 1; ``mass`` sums the weights, ``score`` and ``label``
    the weighted scores and labels, ``square_mass`` the squared weights, and ``square_gap`` the
    weighted squares of label - score. The last two are None where nobody asked for variances.
    """

    edges: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    label: np.ndarray
    square_mass: np.ndarray | None
    square_gap: np.ndarray | None

    def merge(self, other):
        """The sums of both sets of samples."""
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("Only sums over the same edges can be merged.")
        pairs = [(getattr(self, name), getattr(other, name)) for name in _SUMS]
        return BinSums(self.edges, *(None if None in map(_none, p) else p[0] + p[1] for p in pairs))

    def mean_variance(self):
        """Variance of the mean of label - score in each bin; infinite where one sample is alone.

        spread * q / (1 - q), with the weighted variance of the residual and q = sum w^2 / W^2: for
        equal weights the unbiased variance divided by the number of samples. The terms of
        `skcalib.tower.debiased_calibration`, read off sums.
        """
        mass = np.where(self.mass > 0, self.mass, 1.0)
        mean = (self.label - self.score) / mass
        spread = np.maximum(self.square_gap / mass - mean**2, 0.0)
        inverse_size = np.where(self.mass > 0, self.square_mass / mass**2, 1.0)
        several = inverse_size < 1 - 1e-9
        rest = np.where(several, 1 - inverse_size, 1.0)
        return np.where(several, spread * inverse_size / rest, np.inf)


def _none(array):
    return None if array is None else True


def uniform_edges(n_bins):
    """Edges i / B of bins ((i - 1) / B, i / B]."""
    return np.arange(n_bins + 1) / n_bins


def quantile_edges(score, n_bins):
    """0, the order statistics of rank floor(n b / B), 1 (F24); ties are never split.

    A first edge of 0 is kept beside the 0 that all edges start with: the bin of the zeros.
    """
    rank = len(score) * np.arange(1, n_bins) // n_bins
    rank = np.unique(rank[rank > 0]) - 1
    inner = np.unique(np.partition(score, rank)[rank]) if len(rank) else np.empty(0)
    # An edge at 1 would close the last bin, and the one after it would be empty.
    return np.concatenate([[0.0], inner[inner < 1], [1.0]])


STRATEGIES = ("quantile", "uniform")


def check_bins(n_bins, strategy, n_samples):
    """`n_bins` and `strategy` of a public function -> edges, or how many bins of equal mass."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}.")
    if isinstance(n_bins, str):
        if n_bins != "auto":
            raise ValueError(f"n_bins must be 'auto', a whole number or edges, got {n_bins!r}.")
        n_bins = optimal_n_bins(n_samples)
    message = "Edges given as n_bins must be numbers that increase strictly from 0 to 1."
    try:
        edges = None if np.ndim(n_bins) == 0 else np.array(n_bins, dtype=np.float64)
    except (TypeError, ValueError) as error:  # lists of unequal lengths have no ndim either
        raise ValueError(message) from error
    if edges is None:
        whole = isinstance(n_bins, (int, np.integer)) and not isinstance(n_bins, bool)
        if not whole or n_bins < 1:
            raise ValueError(f"n_bins must be at least 1, got {n_bins!r}.")
        return int(n_bins) if strategy == "quantile" else uniform_edges(int(n_bins))
    good = edges.ndim == 1 and len(edges) >= 2 and np.all(np.diff(edges) > 0)
    if not (good and edges[0] == 0 and edges[-1] == 1):
        raise ValueError(message)
    return edges


def bin_sums(score, label, weight, edges, *, spread=True):
    """Sums over bins (e_(i-1), e_i], 0 in the first and 1 in the last -> `BinSums`.

    Scores (n,), labels of 0 and 1 (n,) and weights (n,), or None for equal ones. Without
    ``spread`` variances are unknown.
    """
    event = np.asarray(label, dtype=bool)
    step = max(_CHUNK, 4 * len(edges))
    rows = (slice(start, start + step) for start in range(0, len(score), step))
    chunks = ((score[r, None], event[r, None], None if weight is None else weight[r]) for r in rows)
    return sum_chunks(chunks, edges, spread=spread)[0]


def sum_chunks(chunks, edges, *, spread=True):
    """Chunks of scores (m, P), events (m, P) and weights (m,) or None -> P records `BinSums`."""
    n_bins = len(edges) - 1
    place = _uniform_bins if np.array_equal(edges, uniform_edges(n_bins)) else _any_bins
    total = 0.0
    for score, event, weight in chunks:
        total = total + _tallies(place(score, edges), score, event, weight, n_bins + 2, spread)
    total[..., -2] += total[..., -1]  # probabilities that rounding left above 1
    unknown = () if spread else (None, None)
    return [BinSums(edges, *one, *unknown) for one in total[..., 1:-1].transpose(1, 0, 2)]


def _tallies(bins, score, event, weight, n_slots, spread):
    """Sums of one chunk, (3 or 5, P, n_slots): one count for every problem, label and bin."""
    n_problems = score.shape[1]
    bins += n_slots * event
    if n_problems > 1:
        bins += 2 * n_slots * np.arange(n_problems)
    cell, score, shape = bins.ravel(), score.ravel(), (n_problems, 2, n_slots)
    w = None if weight is None else np.broadcast_to(weight[:, None], bins.shape).ravel()

    def tally(values):
        return np.bincount(cell, values, 2 * n_slots * n_problems).reshape(shape)

    def times(values):
        return values if w is None else w * values

    mass = tally(w)
    rows = [mass.sum(axis=1), tally(times(score)).sum(axis=1), mass[:, 1]]
    if spread:
        square = times((event.ravel() - score) ** 2)
        rows += [rows[0] if w is None else tally(w * w).sum(axis=1), tally(square).sum(axis=1)]
    return np.array(rows, dtype=np.float64)


def _any_bins(score, edges):
    """Number of the bin of each score, from 1 on."""
    below = edges[:-1].copy()
    below[0] = -np.inf
    return np.searchsorted(below, score, side="left")


def _uniform_bins(score, edges):
    """The same by a product, wherever rounding cannot have moved it past an edge.

    The product s B and the edge i / B times B are off by at most 1.5 B 2^-53 together, so that
    further than B 2^-50 from a whole number the product tells the bin. Above 1 it is B + 1.
    """
    n_bins = len(edges) - 1
    product = score * n_bins
    distance = np.rint(product)
    distance -= product
    near = np.abs(distance, out=distance) <= n_bins * 2.0**-50
    bins = np.ceil(product, out=product).astype(np.intp)
    if near.any():
        bins[near] = _any_bins(score[near], edges)
    return bins
