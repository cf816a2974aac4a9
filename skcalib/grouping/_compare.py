"""Groups against all samples with equal scores: statistics and p-values."""

from dataclasses import dataclass

import numpy as np

from skcalib.grouping._equal import EqualScores
from skcalib.grouping._interactions import propose_pairs
from skcalib.grouping._tails import label_sum_pvalue

#: Samples that a group and its complement hold at least.
LEAST_SIZE = 10
_LEAST_VARIANCE = 1.0  # sum of c (1 - c) in a group: about the events that are expected
_LEAST_SHARE = 0.1  # of the variance of a group: what the score does not explain
_BLOCK = 64  # columns that are centred at once


@dataclass(frozen=True)
class Tested:
    """One tested group: ``source`` is the number of a candidate, or a `Pair`.

    ``member`` (n,) is about all samples, ``rows`` are those tested, and ``equal`` their comparison.
    """

    source: object
    member: np.ndarray
    rows: np.ndarray
    equal: EqualScores
    total: float
    variance: float
    information: float
    pvalue: float

    @property
    def harm(self):
        """Explained variance less its noise, a mean over the tested samples."""
        explained = (self.total**2 - self.variance) / self.information
        return float(explained / self.equal.weight.sum())

    @property
    def inside(self):
        """Members among the tested samples."""
        return self.member[self.rows]


@dataclass(frozen=True)
class Statistics:
    """Arrays (m,) of the statistics of columns; the p-value of an untested one is nan."""

    total: np.ndarray
    variance: np.ndarray
    information: np.ndarray
    pvalue: np.ndarray


def compare(equal, member, least_share=_LEAST_SHARE):
    """`Statistics` of columns (n, m) of 0 and 1.

    Columns whose variance the basis explains, but for `least_share`, have no p-value, nor have
    those in which hardly any event, or hardly any other, is expected.
    """
    member = member.astype(np.float64)
    centred = equal.center(member)
    weight = equal.weight
    squares = centred**2
    total = member.T @ (weight * equal.residual)
    information = squares.T @ weight
    variance = squares.T @ (weight**2 * equal.variance)
    if not equal.equal_weights:
        robust = squares.T @ (weight**2 * equal.residual**2)
        variance = np.maximum(variance, equal.inflation * robust)
    share = member.T @ weight / weight.sum()
    expected = member.T @ (weight * equal.curve * (1 - equal.curve))
    told = information > least_share * share * (1 - share) * weight.sum()
    pvalue = np.full(len(total), np.nan)
    for k in np.flatnonzero(told & (expected >= _LEAST_VARIANCE)):
        pvalue[k] = label_sum_pvalue(total[k], weight * centred[:, k], equal.curve, variance[k])
    return Statistics(total, variance, information, pvalue)


def compare_all(equal, candidates, rng):
    """List of `Tested`: all candidates, and pairs of them that one half proposes to the other."""
    return _singles(equal, candidates) + _pairs(equal, candidates, rng)


def effective_size(weight):
    """(sum w)^2 / sum w^2 of weights (n,); 0 where there are none."""
    squares = np.sum(weight**2)
    return float(weight.sum() ** 2 / squares) if squares > 0 else 0.0


def _singles(equal, candidates):
    found, rows = [], np.arange(len(equal.score))
    for start in range(0, candidates.member.shape[1], _BLOCK):
        member = candidates.member[:, start : start + _BLOCK]
        numbers = compare(equal, member)
        for k in np.flatnonzero(~np.isnan(numbers.pvalue)):
            found.append(_tested(start + int(k), member[:, k], rows, equal, numbers, k))
    return found


def _tested(source, member, rows, equal, numbers, k, pvalue=None):
    return Tested(
        source,
        member,
        rows,
        equal,
        float(numbers.total[k]),
        float(numbers.variance[k]),
        float(numbers.information[k]),
        float(numbers.pvalue[k] if pvalue is None else pvalue),
    )


def _pairs(equal, candidates, rng):
    n_samples = len(equal.score)
    order = np.argsort(equal.score, kind="stable")
    coin = rng.random_sample(n_samples // 2 + 1) < 0.5
    side = np.empty(n_samples, dtype=bool)  # one of each two neighbours in the score
    position = np.arange(n_samples)
    side[order] = coin[position // 2] ^ (position % 2 == 0)
    halves = [np.flatnonzero(side), np.flatnonzero(~side)]
    if min(map(len, halves)) < 4 * LEAST_SIZE or not candidates.member.shape[1]:
        return []
    parts = [
        EqualScores(equal.score[half], equal.hit[half], equal.weight[half], equal.offset[half])
        for half in halves
    ]
    found = []
    for this, other in ((0, 1), (1, 0)):
        for pair in propose_pairs(parts[this], candidates, halves[this], LEAST_SIZE, rng):
            found += _test_pair(pair, candidates, equal.score, halves[other], parts[other])
    return found


def _test_pair(pair, candidates, score, rows, equal):
    """The larger of two p-values: of the difference, and of the joint effect beyond the parts."""
    parts = pair.parts(candidates, score)
    member = parts.all(axis=1)
    parts, here = parts[rows].astype(np.float64), member[rows][:, None]
    if effective_size(equal.weight * here[:, 0]) < LEAST_SIZE:
        return []
    tilted = parts * (equal.position - 0.5)[:, None]
    if pair.cut is not None:  # the curve may jump where the range of scores ends
        equal = equal.beyond(np.column_stack([parts[:, 1], tilted[:, 1]]))
    alone = parts if pair.cut is not None else np.hstack([parts, tilted])
    numbers = compare(equal, here)
    joint = compare(equal.beyond(alone), here, least_share=1e-3)
    pvalue = np.maximum(numbers.pvalue[0], joint.pvalue[0])
    return [] if np.isnan(pvalue) else [_tested(pair, member, rows, equal, numbers, 0, pvalue)]
