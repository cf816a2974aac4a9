"""Sums over bins that add up without a trace of their order."""

from dataclasses import dataclass

import numpy as np

from skcalib.errors.binned import BinSums
from skcalib.notions import Notion

FIELDS = ("mass", "score", "label", "square_mass", "square_gap")


@dataclass(frozen=True)
class Plan:
    """What sums must have in common to be added."""

    labels: np.ndarray
    n_bins: np.ndarray
    notion: Notion

    def refuse_other(self, other):
        """Name the parameter that differs."""
        mine, theirs = self.notion, other.notion
        alike = {
            "labels": self.labels.tolist() == other.labels.tolist(),
            "n_bins": np.array_equal(self.n_bins, other.n_bins),
            "notion": type(mine) is type(theirs) and vars(mine) == vars(theirs),
        }
        for name, same in alike.items():
            if not same:
                raise ValueError(
                    f"Samples that were seen with different {name} cannot be added up: use the "
                    "same parameters for all chunks and parts, or begin again with fit."
                )


@dataclass(frozen=True)
class RunningSums:
    """Sums ``high + low`` of shape (problems, fields, bins), of weights divided by ``scale``.

    ``high`` is the sum rounded to float64, and ``low`` nearly all that rounding took from it: the
    order in which a thousand million parts were added leaves no trace.
    """

    plan: Plan
    n_samples: int
    scale: float
    high: np.ndarray
    low: np.ndarray

    def __add__(self, other):
        self.plan.refuse_other(other.plan)
        scale = max(self.scale, other.scale)
        (high, low), (more, below) = self._at(scale), other._at(scale)
        high, lost = _two_sum(high, more)
        total = _two_sum(high, lost + (low + below))
        return RunningSums(self.plan, self.n_samples + other.n_samples, scale, *total)

    def _at(self, scale):
        """Sums of weights divided by another power of two, which rounds nothing."""
        factor = self.scale / scale
        powers = np.array([factor**2 if name == "square_mass" else factor for name in FIELDS])
        return self.high * powers[:, None], self.low * powers[:, None]

    def bins(self):
        """`BinSums` of each problem."""
        return [BinSums(self.plan.n_bins, *rows) for rows in self.high]


def _two_sum(a, b):
    """The rounded sum and what rounding took from it, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def total(one, two):
    """The sum of two `RunningSums`, where None has seen nothing."""
    return (one or two) if one is None or two is None else one + two
