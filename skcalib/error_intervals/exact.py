r"""Limits of calibration errors where events or wrong predictions are few.

Then an estimate is far from normally distributed, but the distribution of the number of events is
known. Its exact limits (Clopper and Pearson), which are conservative for events of unequal
probabilities (Hoeffding, 1956), give those of the mean probability. The error is at least that of
the means (Jensen), which gives the lower limit. The upper limit is the error of forecasts whose log
odds are shifted until their mean is one of the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from skcalib.data.clusters import cluster_sums, effective_size
from skcalib.scores import Brier, LogLoss, ProperScore
from skcalib.stats.means import FEW_LABELS

FEW_REASON = "few events: the limits are those of their exact number"
_REACH = 36.0  # largest log odds of a forecast, which the shifts can move to either end
_LEAST = 1e-12  # rates that are practically zero


@dataclass(frozen=True)
class MarkedLabel:
    """Whether the label of each sample is a marked class, and the forecast of this class.

    The marked class ``column`` (n,) is the event in all samples, or the most likely class of each.
    ``hit`` (n,) is 1 where it is the label; ``share`` (n,) are the weights, which sum to one, and
    ``size`` is the number of equally weighted and independent labels whose mean varies as much.
    """

    forecast: np.ndarray
    column: np.ndarray
    hit: np.ndarray
    share: np.ndarray
    size: float

    @classmethod
    def of(
        cls,
        forecast: np.ndarray,
        label: np.ndarray,
        column: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> Self:
        """From forecasts (n, K) and labels, by column (n,) or as shares (n, K)."""
        rows, total = np.arange(len(weight)), weight.sum()
        hit = np.asarray(label == column if label.ndim == 1 else label[rows, column], float)
        chance = np.minimum(forecast[rows, column], 1.0)
        square = weight**2 if square is None else square
        spread = chance * (1 - chance)
        noise = float(square @ spread)
        size = total * float(weight @ spread) / noise if noise > 0 else 0.0
        size = min(size, effective_size(weight, square)) or effective_size(weight, square)
        if cluster is not None:
            values = weight * (hit - chance)
            sums, square_sum = cluster_sums(values, cluster), float(values @ values)
            size /= max(float(sums @ sums) / square_sum, 1.0) if square_sum > 0 else 1.0
        return cls(forecast, column, hit, weight / total, float(size))

    @cached_property
    def chance(self) -> np.ndarray:
        """Forecast of the marked class (n,)."""
        return np.minimum(self.forecast[np.arange(len(self.share)), self.column], 1.0)

    @cached_property
    def means(self) -> tuple[float, float]:
        """Mean forecast and share of the marked class; exactly 0 and 1 where all are."""
        return round(float(self.share @ self.chance), 12), round(float(self.share @ self.hit), 12)

    @property
    def numbers(self) -> list[float]:
        """Expected and observed number of the rarer labels."""
        return [self.size * min(mean, 1 - mean) for mean in self.means]

    @property
    def fewest(self) -> float:
        """The smaller number, but at least half of the observed one."""
        expected, observed = self.numbers
        return min(observed, max(expected, observed / 2))

    def rates(self, confidence_level: float) -> tuple[float, float]:
        """Exact limits of the probability of the marked class."""
        tail, rate = (1 - confidence_level) / 2, self.means[1]
        hits, misses = self.size * rate, self.size * (1 - rate)
        low = float(beta.ppf(tail, hits, misses + 1)) if hits > 0 else 0.0
        return low, float(beta.isf(tail, hits + 1, misses)) if misses > 0 else 1.0

    def nearest(self, confidence_level: float) -> float:
        """The rate within the limits that is closest to the mean forecast."""
        low, high = self.rates(confidence_level)
        return min(max(self.means[0], low), high)

    def moved(self, rate: float) -> np.ndarray:
        """Forecasts (n, K) whose log odds of the marked class are shifted to the mean `rate`.

        The other classes keep their proportions. Forecasts of exactly 0 and 1 stay where the others
        can reach this mean.
        """
        others = 1 - self.chance
        if _LEAST < rate < 1 - _LEAST:
            with np.errstate(divide="ignore"):
                odds = np.clip(logit(self.chance), -_REACH, _REACH)
            shift = brentq(lambda d: self.share @ expit(odds + d) - rate, -3 * _REACH, 3 * _REACH)
            certain = (np.abs(odds) == _REACH) & (abs(shift) < _REACH / 2)
            chance = np.where(certain, self.chance, expit(odds + shift))
        else:
            chance = np.full(len(others), np.rint(rate))
        left, even = 1 - chance, (1 - chance)[:, None] / (self.forecast.shape[1] - 1)
        scaled = self.forecast * (left / np.where(others > 0, others, 1.0))[:, None]
        moved = np.where(others[:, None] > 0, scaled, even)
        moved[np.arange(len(moved)), self.column] = chance
        return moved

    def error(self, score: ProperScore, rate: float) -> float:
        """Mean divergence of the forecasts moved to a mean from the forecasts."""
        return float(self.share @ score.divergence(self.moved(rate), self.forecast))

    def least(self, score: ProperScore, rate: float) -> float:
        """Divergence of the rate from the mean forecast, with equal other classes."""
        n, others = self.forecast.shape[1] - 1, self.forecast.copy()
        others[np.arange(len(others)), self.column] = 0.0
        pairs = (rate, 1 - rate), (self.share @ self.chance, float((self.share @ others).sum()))
        c, s = (np.array([[p] + n * [q / n]]) for p, q in pairs)
        return 0.0 if rate == self.means[0] else float(score.divergence(c, s)[0])


def rarest_label(
    forecast: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    *,
    cell: np.ndarray | None = None,
) -> tuple[MarkedLabel, float]:
    """The `MarkedLabel` whose limits are best, and the least number of events or wrong predictions.

    For two classes the mark is the event unless less than half as many wrong predictions are
    expected. With cells (n,) it is the same class in all samples of a cell.
    """
    top = forecast.argmax(axis=1)
    if cell is not None:
        sums = [np.bincount(cell, weight * column) for column in forecast.T]
        top = np.argmax(sums, axis=0)[cell]
    wrong = MarkedLabel.of(forecast, label, top, weight, square, cluster)
    if forecast.shape[1] > 2:
        return wrong, wrong.fewest
    event = MarkedLabel.of(forecast, label, np.ones_like(top), weight, square, cluster)
    best = wrong if event.numbers[0] > 2 * wrong.numbers[0] else event
    return best, min(wrong.fewest, event.fewest)


def is_few(numbers: Sequence[float]) -> bool:
    """Whether limits are exact, from the numbers of each problem; each label counts in several."""
    return sum(numbers) < FEW_LABELS * min(len(numbers), 2)


def exact_limits(
    marks: Sequence[MarkedLabel], score: ProperScore, share: float, confidence_level: float
) -> tuple[float, float]:
    """Limits of the sum over problems of `share` times the mean divergence of C from S.

    The lower one is 0 for scores whose divergence may not be convex in both arguments.
    """
    low, level = 0.0, 1 - (1 - confidence_level) / len(marks)
    if isinstance(score, (Brier, LogLoss)):
        low = share * sum(mark.least(score, mark.nearest(level)) for mark in marks)
    ends = [[mark.error(score, rate) for rate in mark.rates(confidence_level)] for mark in marks]
    return low, share * sum(map(max, ends))
