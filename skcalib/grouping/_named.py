"""Of the groups that differ, those that are told: no two of nearly the same samples or cause."""

import numpy as np

from skcalib.grouping._compare import compare
from skcalib.grouping._interactions import Pair

_ALIKE = 0.8  # Jaccard index
_WORTH = 0.75  # of the harm of a pair
_LEAST_PART = 0.25  # of its harm: what a group explains beyond those before it


def benjamini_hochberg(pvalues, level):
    """Numbers of the hypotheses that are rejected with a false discovery rate of `level`."""
    order = np.argsort(pvalues, kind="stable")
    allowed = level * np.arange(1, len(order) + 1) / max(len(order), 1)
    passed = np.flatnonzero(np.asarray(pvalues)[order] <= allowed)
    return order[: passed[-1] + 1] if len(passed) else order[:0]


def distinct(found, candidates, level):
    """The most harmful first, without those that repeat one before, or are explained by them.

    Explained is a group that at equal scores *and* equal values of the features that are named
    no longer differs, or keeps less than a quarter of its harm. After the first, a group needs a
    p-value of at most `level`, before and in this second comparison: the false discovery rate over
    the number of groups tested (Bonferroni), because several cuts of one feature would else make
    room for others.
    """
    kept = []
    for one in sorted(found, key=_rank):
        if any(_repeats(one, other, candidates.feature) for other in kept):
            continue
        if kept and not _adds(one, _known(kept, candidates), level):
            continue
        kept.append(one)
    return kept


def _rank(one):
    """By harm with a few digits, so that of two sides of a cut the smaller one comes first.

    The longer rule of a pair must be worth it.
    """
    harm = one.harm * (_WORTH if isinstance(one.source, Pair) else 1.0)
    return -float(f"{harm:.6g}"), one.member.mean()


def _repeats(one, other, feature):
    """Nearly the samples of another or its complement, or a range of scores of its feature."""
    likeness = max(_jaccard(one.member, other.member), _jaccard(one.member, ~other.member))
    if likeness > _ALIKE:
        return True
    if not (isinstance(one.source, Pair) and one.source.cut is not None):
        return False
    numbers = other.source.numbers if isinstance(other.source, Pair) else [other.source]
    return feature[one.source.first] in feature[numbers]


def _jaccard(one, other):
    return np.sum(one & other) / max(np.sum(one | other), 1)


def _known(kept, candidates):
    """Columns of all that is named: the groups, and all cuts of their features."""
    columns = []
    for one in kept:
        numbers = [one.source]
        if isinstance(one.source, Pair):
            columns.append(one.member)
            numbers = one.source.numbers
        for k in numbers:
            same = candidates.feature == candidates.feature[k]
            same &= ~candidates.category
            same[k] = True
            columns += list(candidates.member[:, same].T)
    return np.column_stack(columns)


def _adds(one, known, level):
    """Whether a group differs beyond what is known, by enough."""
    beyond = one.equal.beyond(known[one.rows])
    numbers = compare(beyond, one.inside[:, None], least_share=1e-3)
    if not max(numbers.pvalue[0], one.pvalue) <= level:  # also where nothing is left to compare
        return False
    left = (numbers.total[0] ** 2 - numbers.variance[0]) / numbers.information[0]
    return left / one.equal.weight.sum() >= _LEAST_PART * one.harm
