"""Sums of forecasts that can be added: over cells of the probability, without rounding errors.

`CellSums` are the sums of `ForecastSketch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from skcalib._util.packing import json_value, require, require_arrays
from skcalib.data.labels import check_label_list


def add_pairs(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of two pairs (rounded sum, rounding error) as such a pair (Knuth)."""
    high, lost = _two_sum(first[0], second[0])
    return _two_sum(high, lost + (first[1] + second[1]))


def _two_sum(a, b):
    """The rounded sum and its exact rounding error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def check_known_labels(labels: Any) -> np.ndarray:
    """The labels that all chunks share, which a chunk alone does not tell."""
    if labels is None:
        raise ValueError(
            "labels must list the classes in the order of the columns of y_proba, because a "
            "chunk may lack some; for a single column [negative, positive]."
        )
    known = check_label_list(labels)
    json_value(tuple(known), "labels")
    return known


# --- Sums over cells ------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellPlan:
    """Parameters that must agree for sums to be added."""

    labels: np.ndarray
    notion: str
    n_cells: int

    @property
    def n_problems(self) -> int:
        """Number of scores of a sample."""
        several = {"classwise": len(self.labels), "cumulative": len(self.labels) - 1}
        return several.get(self.notion, 1)

    @property
    def n_slots(self) -> int:
        """Number of cells with those of exactly 0 and 1."""
        return self.n_cells + 2

    def names(self) -> list:
        """Name of the event of each problem."""
        if self.notion == "classwise":
            return self.labels.tolist()
        if self.notion == "cumulative":
            return [f"<= {label}" for label in self.labels[:-1]]
        return ["top label"] if self.notion == "top_label" else self.labels[-1:].tolist()

    def refuse_other(self, other: CellPlan) -> None:
        """Raise if a parameter differs, and name it."""
        alike = {
            "labels": self.labels.tolist() == other.labels.tolist(),
            "notion": self.notion == other.notion,
            "n_cells": self.n_cells == other.n_cells,
        }
        for name, same in alike.items():
            if not same:
                raise ValueError(
                    f"Samples with different {name} cannot be combined: use the same parameters "
                    "for all chunks and parts, or start again with fit."
                )


@dataclass(frozen=True)
class CellSums:
    """Sums over the occupied cells of one group, of weights divided by ``scale``.

    ``key`` (m,) numbers the cells by problem, label and place. ``high + low`` (F, m) are the
    numbers of samples and the sums of weighted differences of the score from `cell_starts`, which
    keep the digits in which the scores of a cell differ. For samples with weights (F = 4, not 2)
    the sums of weights and of squared weights follow. ``total + rest`` (2, 2 P) are the sums of
    weighted squared scores and log losses by problem and label, where impossible labels count as 0.
    In each pair the first is the sum rounded to float64, and the second is its rounding error.
    """

    plan: CellPlan
    n_samples: int
    scale: float
    key: np.ndarray
    high: np.ndarray
    low: np.ndarray
    total: np.ndarray
    rest: np.ndarray

    ARRAYS: ClassVar = ("key", "high", "low", "total", "rest")

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def require_sums(self) -> None:
        """Raise for arrays that are no sums of samples."""
        n_problems, n_fields = self.plan.n_problems, 4 if len(self.high) == 4 else 2
        cells = np.zeros((n_fields, len(self.key)))
        totals = np.zeros((2, 2 * n_problems))
        expected = {"key": np.zeros(len(self.key), dtype=np.int64), "high": cells, "low": cells}
        require_arrays(self.arrays(), {**expected, "total": totals, "rest": totals})
        finite = all(np.isfinite(array).all() for array in self.arrays().values())
        pairs = (self.high, self.low), (self.total, self.rest)
        rounded = all((value + error == value).all() for value, error in pairs)
        require(finite and rounded and self.scale > 0 and np.frexp(self.scale)[0] == 0.5, "a sum")
        rising = np.all(
            np.diff(self.key, prepend=-1, append=2 * n_problems * self.plan.n_slots) > 0
        )
        require(rising and 0 < self.n_samples <= 2**53, "the list of cells")
        count = np.bincount(self.places()[0], self.high[0], n_problems)
        require((count == self.n_samples).all(), "the number of samples")
        positive = np.delete(self.high, 1, axis=0)
        require((positive > 0).all() and (self.high[0] % 1 == 0).all(), "the weight of a cell")

    def __add__(self, other: CellSums) -> CellSums:
        self.plan.refuse_other(other.plan)
        scale = max(self.scale, other.scale)
        n_fields = max(len(self.high), len(other.high))
        mine, theirs = self._at(scale, n_fields), other._at(scale, n_fields)
        key, my_place, their_place = _union(self.key, other.key)
        high, low = np.zeros((2, n_fields, len(key)))
        for i in range(n_fields):
            high[i, my_place], low[i, my_place] = mine.high[i], mine.low[i]
            for start in range(0, len(their_place), _BLOCK):
                part = slice(start, start + _BLOCK)
                at = their_place[part]
                high[i, at], low[i, at] = add_pairs(
                    (high[i, at], low[i, at]), (theirs.high[i, part], theirs.low[i, part])
                )
        total, error = add_pairs((mine.total, mine.rest), (theirs.total, theirs.rest))
        n_samples = self.n_samples + other.n_samples
        return CellSums(self.plan, n_samples, scale, key, high, low, total, error)

    def _at(self, scale, n_fields):
        """The sums of weights divided by another power of two, which is exact."""
        factor = self.scale / scale
        if factor == 1 and n_fields == len(self.high):
            return self
        high, low = (_powers(factor) * _with_weights(array) for array in (self.high, self.low))
        totals = {"total": factor * self.total, "rest": factor * self.rest}
        return replace(self, scale=scale, high=high, low=low, **totals)

    def unscaled(self) -> np.ndarray:
        """Numbers of samples, sums of weighted differences, of weights and of squares (4, m)."""
        return _powers(self.scale) * _with_weights(self.high)

    def mean_losses(self) -> np.ndarray:
        """Mean Brier score and log loss (P, 2) of each problem."""
        problem, event, slot = self.places()
        (_, excess, weight, _), n_problems = _with_weights(self.high), self.plan.n_problems
        by_label = self.total.reshape(2, n_problems, 2)
        mass = np.bincount(2 * problem + event, weight, 2 * n_problems).reshape(n_problems, 2)
        # Squared scores are those of non-events; an event has the loss (1 - p)^2.
        scores = excess + weight * cell_starts(self.plan.n_cells)[slot]
        score = np.bincount(problem[event], scores[event], n_problems)
        brier = np.maximum(by_label[0].sum(axis=1) + mass[:, 1] - 2 * score, 0.0)
        log, wrong = by_label[1].sum(axis=1), event == (slot == 0)
        log[problem[wrong & ((slot == 0) | (slot == self.plan.n_slots - 1))]] = np.inf
        return np.column_stack([brier, log]) / mass.sum(axis=1)[:, None]

    def moderate(self) -> np.ndarray:
        """As `unscaled`, but weights of an extreme scale stay divided by it.

        Their squares would overflow, or their products with small scores would vanish.
        """
        extreme = abs(np.frexp(self.scale)[1]) >= _EXTREME
        return _with_weights(self.high) if extreme else self.unscaled()

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of the problem, whether the event occurred, and number of the cell of each key."""
        kind, slot = np.divmod(self.key, self.plan.n_slots)
        return kind // 2, kind % 2 == 1, slot


_BLOCK = 1 << 14  # cells that are added at a time, to need less memory
_EXTREME = 200  # exponent of weights that are not multiplied back


def _powers(factor):
    """Powers of the factor of all weights by which the four fields of `CellSums` change."""
    return np.array([[1.0], [factor], [factor], [factor**2]])


def _with_weights(fields):
    """All four fields of `CellSums`: without weights, a sample has weight 1."""
    return fields if len(fields) == 4 else fields[[0, 1, 0, 0]]


def _union(keys, others):
    """All keys of two increasing arrays, increasing, and the places of the keys of each."""
    if np.array_equal(keys, others):
        return keys, slice(None), np.arange(len(others))
    both = np.concatenate([2 * keys, 2 * others + 1])
    both.sort(kind="stable")  # two increasing parts: one merge
    of_others = (both & 1).astype(bool)
    both >>= 1
    first = np.append(True, both[1:] != both[:-1])
    key = both[first]
    place = np.cumsum(first, out=both)
    place -= 1
    return key, place[~of_others], place[of_others]


def cells_of(score: np.ndarray, n_cells: int) -> np.ndarray:
    """Number of the cell of each score, 0 for scores of 0 and C + 1 for scores of 1."""
    place = np.sqrt(score)
    place -= np.sqrt(np.maximum(1 - score, 0))
    place += 1
    place *= n_cells / 2
    cell = place.astype(np.int64)
    cell += 1
    np.minimum(cell, n_cells, out=cell)
    cell += score >= 1
    cell *= score > 0
    return cell


def cell_starts(n_cells: int) -> np.ndarray:
    r"""Smallest score of each cell (C + 2,), :math:`((s + \sqrt{2 - s^2}) / 2)^2` for s(p) = s."""
    s = np.arange(n_cells) * (2 / n_cells) - 1
    root = (s + np.sqrt(2 - s * s)) * 0.5
    return np.concatenate([[0.0], root * root, [1.0]])


def sum_events(
    events: Any, plan: CellPlan, codes: np.ndarray | None = None, n_groups: int = 1
) -> list[CellSums]:
    """Sums of each group of `Samples`; `codes` (n,) are groups of those of positive weight."""
    n_problems, n_slots, starts = plan.n_problems, plan.n_slots, cell_starts(plan.n_cells)
    width, at, n_samples = 2 * n_problems, 0, np.zeros(n_groups, dtype=np.int64)
    n_fields = 2 if events.weight is None else 4
    cells, totals = _Tally(n_fields, n_groups * width * n_slots), np.zeros((2, n_groups * width))
    for score, event, weight in events.blocks():
        group = None if codes is None else codes[at : at + len(score)]
        at += len(score)
        n_samples += len(score) if group is None else np.bincount(group, minlength=n_groups)
        key = cells_of(score, plan.n_cells)
        excess = score - starts[key]
        key += n_slots * event
        if n_problems > 1:
            key += 2 * n_slots * np.arange(n_problems)
        if group is not None:
            key += width * n_slots * group[:, None]
        if weight is None:
            cells.add(key.ravel(), 1.0, excess.ravel())
        else:
            each = np.repeat(weight, n_problems)
            cells.add(key.ravel(), 1.0, each * excess.ravel(), each, each**2)
        hit = event.astype(np.float64)
        miss = 1 - hit
        happened = np.abs(score - miss)  # the probability of the label
        happened += happened == 0  # an impossible label counts as 0
        for row, value in zip(totals, (score * score, np.log(happened)), strict=True):
            row += _totals(value, hit, miss, weight, group, n_groups)
    totals[1] *= -1
    key, sums = cells.result()
    totals = totals.reshape(2, n_groups, width)
    groups = []
    for g in range(n_groups):
        first = g * width * n_slots
        start, stop = np.searchsorted(key, [first, first + width * n_slots])
        high = sums[:, start:stop].copy()
        groups.append(
            CellSums(
                plan,
                int(n_samples[g]),
                events.scale,
                key[start:stop] - first,
                high,
                np.broadcast_to(0.0, high.shape),
                totals[:, g].copy(),
                np.zeros((2, width)),
            )
        )
    return groups


def _totals(value, hit, miss, weight, group, n_groups):
    """Sums of values (m, P) by group, problem and label, (n_groups * P * 2,)."""
    value = value if weight is None else weight[:, None] * value
    if group is None:
        sums = [np.einsum("ij,ij->j", value, label) for label in (miss, hit)]
    else:
        parts = miss * value, hit * value
        sums = [[np.bincount(group, column, n_groups) for column in part.T] for part in parts]
    return np.array(sums).reshape(2, value.shape[1], n_groups).T.ravel()


_DENSE = 1 << 21  # keys up to which a table of all is kept, and sums of other keys


class _Tally:
    """Sums by key, in a table of all keys or, where they are too many, of those that occur."""

    def __init__(self, n_fields, n_keys):
        self._dense = np.zeros((n_fields, n_keys)) if n_keys <= _DENSE else None
        self._parts = []

    def add(self, key, *values):
        """Add to each field a number for each key, or one for all."""
        if self._dense is not None:
            place, into = key, self._dense
        else:
            distinct, place = np.unique(key, return_inverse=True)
            place, into = place.ravel(), np.zeros((len(values), len(distinct)))
            if sum(len(keys) for keys, _ in self._parts) > _DENSE:
                self._parts = [self.result()]
            self._parts.append((distinct, into))
        for row, value in zip(into, values, strict=True):
            np.add.at(row, place, value)

    def result(self):
        """Keys that occur, increasing, and their sums (n_fields, m)."""
        if self._dense is not None:
            key = np.flatnonzero(self._dense[0])
            return key, self._dense[:, key]
        distinct, place = np.unique(
            np.concatenate([key for key, _ in self._parts]), return_inverse=True
        )
        every = np.concatenate([sums for _, sums in self._parts], axis=1)
        return distinct, np.stack([np.bincount(place.ravel(), row) for row in every])
