"""Maxima, sums and softmax of the rows of (n, K) arrays.

Reductions of numpy along short rows cost more than the arithmetic: these go by column or through
BLAS where K is small.
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
