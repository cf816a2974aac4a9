r"""Merge the samples of a large binary problem into fewer rows, which stand for several samples.

Forecasts are merged whose log odds t fall into the same of 32,769 cells, those in which
:math:`asinh(t) / h` rounds to the same number. Their width is about .0004 around zero and grows
with the absolute value of t. Forecasts of exactly 0 and 1 have cells of their own. There is a row
for each cell and label, with the mean forecast of the cell, the number of samples, and the sums of
their weights and squared weights. The variance of the forecasts in a cell is lost, so estimates
differ from those of the samples by about 1e-5 of their size. Limits of intervals may differ by
about .002 of their size, because ties divide the samples differently into cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skcalib.data.problem import Problem

_MANY = 200_000  # samples above which they are merged
_CELLS = 1 << 14  # cells on either side of log odds of zero
_END = 746.0  # log odds of the last cell; no float64 has more


def merged(problem: Problem) -> Problem:
    """The problem with a row for each cell and label, or as it is.

    It stays as it is with at most 200,000 rows, more than two columns, rows that stand for several
    samples already, label distributions or clusters.
    """
    several = problem.square is not None or problem.votes is not None
    if len(problem.weight) <= _MANY or problem.forecast.shape[1] != 2 or several:
        return problem
    event = problem.outcome
    if problem.cluster is not None or event.ndim == 2:
        return problem
    key = _cells(problem.forecast)
    key *= 2
    key += event
    count = np.bincount(key)
    kept = np.flatnonzero(count)

    def sums(values):
        return np.bincount(key, values)[kept]

    cell, weight = key // 2, problem.weight
    mass = np.bincount(cell, weight)
    columns = [np.bincount(cell, weight * column) for column in problem.forecast.T]
    means = [(total[kept // 2] / mass[kept // 2]) for total in columns]  # ties of both labels
    weight = sums(weight)
    return replace(
        problem,
        forecast=np.column_stack(means),
        labels_or_target=kept % 2,
        weight=weight,
        square=sums(problem.weight**2),
        count=count[kept].astype(np.float64),
    )


def _cells(forecast):
    """Number of the cell of each forecast (n, 2)."""
    with np.errstate(divide="ignore"):
        odds = np.log(forecast[:, 1])
        odds -= np.log(forecast[:, 0])
    certain = np.isinf(odds)
    place = np.arcsinh(odds, out=odds)
    place *= _CELLS / np.arcsinh(_END)
    np.clip(place, -_CELLS, _CELLS, out=place)
    place[certain] += np.sign(place[certain])
    return np.rint(place, out=place).astype(np.intp) + (_CELLS + 1)
