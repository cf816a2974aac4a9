r"""P-values of kernel errors by labels drawn from the forecasts, where these leave few uncertain.

Given calibrated forecasts, drawn labels have the distribution of the observed ones, so the p-value
:math:`(1 + \#\{b: T_b \ge T\}) / (1 + B)` is exact for every sample size and every statistic T.

A drawn label is the usual one, the most probable, except in few rows. A draw takes only these rows,
by a field that is computed once, in twice the time of the estimate (formulas: doc/design.rst).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from skcalib._util.validation import mean_one
from skcalib.data.labels import draw_codes, one_hot_rows
from skcalib.errors.kernel import (
    MANY,
    kernel_terms,
    random_blocks,
    residual_parts,
    row_slices,
    takes_blocks,
)
from skcalib.stats.means import FEW, impossible_labels, uncertain_labels
from skcalib.stats.pvalues import drawn_pvalue

if TYPE_CHECKING:
    from skcalib.data.notions import Notion
    from skcalib.data.problem import Problem
    from skcalib.errors.kernel import Embedding
    from skcalib.kernels import Kernel

_MOST = 150  # expected unusual labels of a draw
_TOGETHER = 100  # unusual labels of the draws that are evaluated at a time
_WIDE = 512  # columns of a block of kernel values


def few_labels(problem: Problem, notion: Notion) -> bool:
    """Whether a problem leaves fewer than `FEW` labels uncertain.

    They are those of the event of a notion with a single problem, of the class if it has several,
    and of the most uncertain label of an indicator matrix.
    """
    pairs = notion.problems(problem.forecast, problem.target)
    if problem.indicator:
        labels = (
            uncertain_labels(columns, problem.weight * ~np.isnan(event[:, 0]))
            for columns, event in pairs
        )
        return max(labels) < FEW
    first = [columns for columns, _ in islice(pairs, 2)]
    columns = first[0] if len(first) == 1 else problem.forecast
    return uncertain_labels(columns, problem.weight) < FEW


def any_impossible(problem: Problem, notion: Notion) -> bool:
    """Whether an event occurred whose forecast is exactly 0."""
    pairs = notion.problems(problem.forecast, problem.target)
    return any(impossible_labels(forecast, target).any() for forecast, target in pairs)


def drawn_kernel_pvalue(
    problem: Problem,
    kernel: Kernel,
    notion: Notion,
    *,
    statistic: str,
    block_size: int | None,
    n_draws: int,
    rng: np.random.RandomState,
    level: float = 0.0,
) -> float:
    """P-value of a kernel calibration error, by `drawn_pvalue`."""
    if problem.cluster is not None and statistic == "auto":
        problem = problem.samples(MANY, 0)
    drawn, weight = _Drawn(problem, notion, rng), mean_one(problem.weight)
    terms = kernel_terms(problem, kernel, notion)
    usual = residual_parts(problem.forecast, drawn.usual, weight, notion, terms)
    block = _blocks(len(weight), statistic, block_size)
    unit = np.arange(len(block)) if problem.cluster is None else problem.cluster
    unit = np.where(block < 0, -1, unit)  # rows of no block have no pairs
    fields = [_field(part, block, unit) for part in usual]

    def change(draw, rows, target):
        parts = residual_parts(problem.forecast[rows], target, weight[rows], notion, terms)
        total = np.zeros(len(rows))
        for part, old, field in zip(parts, usual, fields, strict=True):
            left, right = part.left - old.left[rows], part.residual - old.residual[rows]
            for i in row_slices(len(rows)):
                together = (draw[i, None] == draw) & _pairs(block, unit, rows[i], rows)
                near = (part.kernel(part.forecast[i], part.forecast) * together) @ right
                total[i] += np.einsum("ik,ik->i", left[i], 2 * field[rows[i]] + near)
        return np.bincount(draw, total)

    return drawn.pvalue(change, n_draws, level)


def drawn_embedding_pvalue(
    problem: Problem,
    embedding: Embedding,
    notion: Notion,
    *,
    n_draws: int,
    rng: np.random.RandomState,
    level: float = 0.0,
) -> float:
    """P-value of the error of mean embeddings, by `drawn_pvalue`."""
    drawn = _Drawn(problem, notion, rng)
    usual = next(iter(notion.problems(problem.forecast, drawn.usual)))[1]
    total = embedding.total(usual)

    def change(draw, rows, target):
        target = next(iter(notion.problems(problem.forecast[rows], target)))[1]
        sums = np.zeros((draw[-1] + 1, len(total)))
        features = embedding.features(rows, target) - embedding.features(rows, usual[rows])
        np.add.at(sums, draw, features)
        return np.einsum("bj,bj->b", sums + 2 * total, sums)

    return drawn.pvalue(change, n_draws, level)


class _Drawn:
    """Draws of labels by their differences from the usual ones.

    With very unequal weights, only labels of the rows with the largest variances are drawn, until
    `_MOST` are expected to be unusual. Others stay as observed: the test is exact given these.
    """

    def __init__(self, problem, notion, rng):
        self.problem, self.notion, self.rng = problem, notion, rng
        forecast = problem.forecast
        # An order that depends on the values only, so that those of rows and columns do not matter.
        some = np.sort(forecast, axis=0)[:: max(1, len(forecast) // 100)]
        self.columns = np.lexsort(some)
        self.rows = np.lexsort((problem.weight, *forecast[:, self.columns].T))
        if problem.indicator:
            known = ~np.isnan(problem.target)
            likely = np.where(known, np.maximum(forecast, 1 - forecast), 1.0)[:, self.columns]
            self.usual = np.where(known, forecast >= 0.5, forecast)
        else:
            likely = forecast.max(axis=1, keepdims=True)
            first = self.columns[forecast[:, self.columns].argmax(axis=1)]
            self.usual = one_hot_rows(first, forecast.shape[1])
        unusual = np.sum(1 - likely, axis=1)
        order = np.argsort(-(problem.weight**2) * unusual, kind="stable")
        observed = order[np.cumsum(unusual[order]) > _MOST]
        self.target = problem.known_target
        self.usual[observed] = self.target[observed]
        self.rate = -np.log(np.minimum(likely, 1.0))
        self.rate[observed] = 0.0

    def pvalue(self, change, n_draws, level):
        """From the change of the statistic for arrays of numbers of draws, rows and targets.

        Draws are doubled while none is as large and the p-value exceeds `level`.
        """
        if any_impossible(self.problem, self.notion):
            return 0.0
        rows = np.flatnonzero((self.target != self.usual).any(axis=1))
        observed = 0.0
        if len(rows):
            observed = float(change(np.zeros(len(rows), int), rows, self.target[rows])[0])

        def draw_values(size):
            values = np.zeros(size)
            for draw, row, target in self._batches(size):
                changes = change(draw - draw[0], row, target)
                values[draw[0] : draw[0] + len(changes)] = changes
            return values + 1e-9 * np.abs(values).max()  # rounding errors of sums are no difference

        unusual = int(np.ceil(self.rate.sum())) + 1  # labels of a draw, with all pairs of them
        size = unusual**2 + unusual * 400
        return drawn_pvalue(draw_values, observed, n_draws, size=size, level=level)[0]

    def _batches(self, n_draws):
        """Numbers of draws in order, rows, and targets of these rows, some draws at a time.

        A label is unusual with probability 1 - exp(-rate), that of at least one event of a Poisson
        variable. The events of all draws are drawn at once, and divided among them.
        """
        forecast, (n_samples, n_columns) = self.problem.forecast, self.rate.shape
        times = self.rng.poisson(n_draws * self.rate[self.rows].ravel())
        cell = np.repeat(np.arange(len(times)), times)
        at = np.unique(self.rng.randint(n_draws, size=len(cell)) * len(times) + cell)
        starts = np.flatnonzero(np.diff(at // len(times), prepend=-1))
        ends = starts[np.flatnonzero(np.diff(starts // _TOGETHER)) + 1]
        for some in np.split(at, ends) if len(at) else ():
            key, place = np.unique(some // n_columns, return_inverse=True)
            draw, row = np.divmod(key, n_samples)
            row = self.rows[row]
            target = self.usual[row]
            if self.problem.indicator:
                column = self.columns[some % n_columns]
                target[place, column] = 1 - target[place, column]
            else:
                others = np.where(target > 0, 0.0, forecast[row])[:, self.columns]
                codes = self.columns[draw_codes(others.cumsum(axis=1), self.rng)]
                target = one_hot_rows(codes, forecast.shape[1])
            yield draw, row, target


def _blocks(n_samples, statistic, block_size):
    """The block of each row within which a statistic takes pairs (n,); -1 for none."""
    block = np.zeros(n_samples, int)
    if takes_blocks(statistic, n_samples):
        rows = random_blocks(n_samples)
        block[:] = -1
        block[rows] = np.arange(len(rows))[:, None]
    elif statistic in ("linear", "block"):
        size = block_size or 2
        block = np.arange(n_samples) // size
        block[n_samples // size * size :] = -1
    return block


def _pairs(block, unit, i, j):
    """Which pairs of rows i (m,) and j (l,) a statistic takes (m, l)."""
    return (block[i, None] == block[j]) & (unit[i, None] != unit[j])


def _field(part, block, unit):
    """Sum of the kernel times the residual over the partners of each row (n, K)."""
    field = np.zeros_like(part.residual)
    order = np.argsort(block, kind="stable")
    for i in (order[strip] for strip in row_slices(len(order))):
        first, last = np.searchsorted(block[order], block[i[[0, -1]]] + np.array([0, 1]))
        for start in range(first, last, _WIDE):
            j = order[start : min(start + _WIDE, last)]
            kernel = part.kernel(part.forecast[i], part.forecast[j])
            field[i] += (kernel * _pairs(block, unit, i, j)) @ part.residual[j]
    return field
