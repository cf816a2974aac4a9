"""Arithmetic of forecasts: softmax of rows, and ties.

Reductions of numpy along short rows cost more than the arithmetic: those of (n, K) arrays go by
column or through BLAS where K is small.

Forecasts that differ by rounding only count as equal. Averages of trees and sums of probabilities
depend on the order of their terms in the last digit, so that forecasts which are equal by
construction differ by about 1e-16. Level sets, ranks and edges of bins must not depend on that. Two
forecasts are tied if they differ by at most 1e-15, which is the resolution of
`sklearn.isotonic.IsotonicRegression`, and by at most 1e-12 of their size, so that 1e-16 and 1e-20
are not.

Cuts do not depend on which of two classes is called the event: those of the forecasts 1 - p are the
mirror image of those of p. So ties on a cut go to the side that is nearer to 1/2, and ties at 1/2
itself, which have no nearer side, are between two cuts.
"""

from functools import reduce

import numpy as np

_SHORT = 32  # columns up to which maxima are taken column by column


def row_max(values):
    """The largest value of each row, (n,)."""
    if values.shape[1] > _SHORT:
        return values.max(axis=1)
    return reduce(np.maximum, values.T[1:], values[:, 0].copy())


def row_sum(values):
    """The sum of each row, (n,)."""
    return values @ np.ones(values.shape[1])


def centred(proba, values):
    """Values (n, K) minus their means under the probabilities of each row."""
    return values - np.einsum("ik,ik->i", proba, values)[:, None]


def log_softmax(logits):
    """Logarithms (n, K) of the softmax of each row."""
    shifted = _shifted(logits)
    return shifted - np.log(row_sum(np.exp(shifted)))[:, None]


def softmax_parts(logits):
    """Logits minus the largest of their row, their softmax (n, K), and the log of its divisor (n,).

    The first minus the last is the logarithm of the second.
    """
    shifted = _shifted(logits)
    proba = np.exp(shifted)
    total = row_sum(proba)
    proba /= total[:, None]
    return shifted, proba, np.log(total)


def _shifted(logits):
    top = row_max(logits)
    return logits - np.where(np.isfinite(top), top, 0.0)[:, None]


# --- Ties -----------------------------------------------------------------------------------------


#: Largest difference of tied forecasts, and the largest in units of their size.
RESOLUTION, RELATIVE = 1e-15, 1e-12
_BLOCK = 1 << 14  # values whose ties are found at a time
#: Largest difference of a forecast and the same one in single precision.
SINGLE = 2.0**-22


def reach_of(values: np.ndarray) -> np.ndarray:
    """The largest number that is tied to each value."""
    return values + _tolerance(values)


def _tolerance(values):
    return np.minimum(RESOLUTION, RELATIVE * np.abs(values))


def split_centre(edges: np.ndarray) -> np.ndarray:
    """Sorted edges with 1/2 twice where it is one of them: scores of 1/2 have a separate bin."""
    centre = np.flatnonzero(np.abs(edges - 0.5) <= RESOLUTION)[:1]
    return np.insert(edges, centre, edges[centre])


def bin_ends(edges: np.ndarray | float) -> np.ndarray:
    """Largest number of the bin below each inner edge: a score on an edge is nearer to 1/2.

    Of two edges at 1/2 the first has that score above it and the second below it.
    """
    edges = np.atleast_1d(edges)
    below = np.nextafter(edges - _tolerance(edges), -np.inf)
    first = np.append(edges[1:] == edges[:-1], False)
    return np.where((edges < 0.5 - RESOLUTION) | first, below, reach_of(edges))


def level_starts(ordered: np.ndarray, dtype: type = np.intp) -> np.ndarray:
    """Index of the first value of each level of sorted values (n,), those tied to its first.

    Beside the values and the result, only truth values and a block are in memory.
    """
    apart = np.ones(len(ordered), bool)
    blocks = range(0, len(ordered), _BLOCK)
    for first in blocks:
        block = ordered[first : first + _BLOCK + 1]
        apart[first + 1 : first + len(block)] = block[1:] > reach_of(block[:-1])
    at_most_two = (apart[1:-1] | apart[2:]).all()  # values in each level: no chains
    starts = np.empty(np.count_nonzero(apart), dtype)
    n_starts = 0
    for first in blocks:
        block_starts = np.flatnonzero(apart[first : first + _BLOCK])
        starts[n_starts : n_starts + len(block_starts)] = first + block_starts
        n_starts += len(block_starts)
    if at_most_two:
        return starts
    ends = np.append(starts[1:], len(ordered)) - 1
    wide = np.flatnonzero(ordered[ends] > reach_of(ordered[starts]))
    for chain in wide:  # values of which each is tied to the next, but the ends are not
        start = starts[chain]
        while True:
            tail = ordered[start : ends[chain] + 1]
            start += np.searchsorted(tail, reach_of(tail[0]), side="right")
            if start > ends[chain]:
                break
            apart[start] = True
    return np.flatnonzero(apart).astype(dtype) if len(wide) else starts


def merge_ties(values: np.ndarray) -> np.ndarray:
    """Values (n,) with each one replaced by the smallest that is tied to it.

    The same array where no values are tied without being equal.
    """
    firsts = _firsts_of_levels(values)
    return values if firsts is None else values[firsts]


def reach_in_single_precision(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends around increasing probabilities (m,) between which they may be after rounding.

    They are at a distance of 2^-22, which is more than single precision needs, and of at most a
    quarter of that to the next probability, or to 0 and 1.
    """
    room = np.minimum(SINGLE, np.diff(values, prepend=0.0, append=1.0).clip(0) / 4)
    return values - room[:-1], values + room[1:]


def merge_forecasts(forecast: np.ndarray) -> np.ndarray:
    """Forecasts (n, K) with ties merged column by column.

    Of two columns the second decides, and both are replaced. The same array where nothing is tied
    without being equal.
    """
    if forecast.shape[1] == 2:
        firsts = _firsts_of_levels(forecast[:, 1])
        return forecast if firsts is None else forecast[firsts]
    columns = list(forecast.T)
    merged = [merge_ties(column) for column in columns]
    unchanged = all(
        merged_column is column for merged_column, column in zip(merged, columns, strict=True)
    )
    return forecast if unchanged else np.stack(merged, axis=1)


def top_class(forecast: np.ndarray) -> np.ndarray:
    """Number of the first column (n,) whose probability is tied to the largest of its row."""
    largest = forecast.max(axis=1, keepdims=True)
    return (forecast >= largest - _tolerance(largest)).argmax(axis=1)


def ranked_classes(forecast: np.ndarray) -> np.ndarray:
    """Numbers of the columns (n, K) by decreasing probability; tied ones stay in their order."""
    order = np.argsort(-forecast, axis=1, kind="stable")
    ranked = np.take_along_axis(forecast, order, axis=1)
    higher, lower = ranked[:, :-1], ranked[:, 1:]
    unequal = (lower < higher) & (higher <= reach_of(lower))
    for row in np.flatnonzero(unequal.any(axis=1)):
        order[row] = np.argsort(-merge_ties(forecast[row]), kind="stable")
    return order


def _firsts_of_levels(values):
    """For each value, the index of the first value of its level; None if all ties are equal."""
    ordered = np.sort(values)  # far faster than argsort, which ties alone need
    lower, higher = ordered[:-1], ordered[1:]
    if not ((lower < higher) & (higher <= reach_of(lower))).any():
        return None
    order = np.argsort(values, kind="stable")
    starts = level_starts(values[order])
    sizes = np.diff(np.append(starts, len(order)))
    firsts = np.empty(len(order), dtype=np.intp)
    firsts[order] = np.repeat(order[starts], sizes)
    return firsts
