"""Statistics of the classical binary tests, and their laws under calibration.

Each is made from forecasts p (n,) and weights, and evaluates many labelings (..., n) at once.
``pvalue`` is that of the asymptotic law, two-sided, from survival functions: never negative.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._validation import check_count
from skcalib.hypothesis._record import CalibrationTest
from skcalib.problem import check_problem

MIN_SAMPLES = 4
_BLOCK = 1 << 22  # simulated labels at a time


class Spiegelhalter:
    """Z = sum w (y - p)(1 - 2p) / sd."""

    name = "Spiegelhalter"

    def __init__(self, p, weight):
        self.p, self.weight = p, weight
        self.tilt = weight * (1 - 2 * p)
        self.deviation = np.sqrt(np.sum(self.tilt**2 * p * (1 - p)))

    def statistic(self, y):
        return _ratio((y - self.p) @ self.tilt, self.deviation)

    def estimate(self, y):
        return (y - self.p) @ self.tilt / self.weight.sum()

    def pvalue(self, statistic):
        return 2 * ndtr(-abs(statistic))


class HosmerLemeshow:
    """Sum over bins of (observed - expected)^2 / variance."""

    def __init__(self, p, weight, bins, ddof):
        self.p, self.weight, self.ddof = p, weight, ddof
        self.name = f"Hosmer-Lemeshow, {bins!r}"
        cells = bins.fit(np.column_stack([1 - p, p]), p[:, None]).cells_
        # A stable sort brings each bin together; reduceat then sums bins of many labelings at once.
        self.order = np.argsort(cells, kind="stable")
        self.starts = np.flatnonzero(np.diff(cells[self.order], prepend=-1))
        self.mass = self._sums(weight)
        squares = self._sums(weight**2)
        mean, rest = (self._sums(weight**2 * v) / squares for v in (p, 1 - p))
        self.variance = squares * mean * rest
        self.freedom = np.sum(self.variance > 0) - ddof
        if self.freedom < 1 and (self.variance > 0).any():
            raise ValueError(
                f"Only {self.freedom + ddof} bins hold forecasts other than 0 and 1, and "
                f"ddof={ddof}: use more bins, or cumulative_test, which needs none."
            )

    def _sums(self, values):
        return np.add.reduceat(values[..., self.order], self.starts, axis=-1)

    def statistic(self, y):
        deviations = self._sums(self.weight * (y - self.p))
        with np.errstate(over="ignore"):  # an event that was as good as impossible: infinite
            return np.sum(_ratio(deviations, np.sqrt(self.variance)) ** 2, axis=-1)

    def estimate(self, y):
        gaps = self._sums(self.weight * (y - self.p)) / self.mass
        return np.sum(self.mass * gaps**2, axis=-1) / self.mass.sum()

    def pvalue(self, statistic):
        if self.freedom < 1:  # every forecast is 0 or 1
            return float(statistic == 0)
        return chi2.sf(statistic, self.freedom)


class _Cumulative:
    """Largest excursion of the cumulative differences, in standard deviations of their end."""

    def __init__(self, p, weight):
        self.p, self.weight = p, weight
        self.order = np.argsort(p, kind="stable")
        ranked = p[self.order]
        self.ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
        self.deviation = np.sqrt(np.sum(weight**2 * p * (1 - p)))

    def _curve(self, y):
        steps = (self.weight * (y - self.p))[..., self.order]
        return np.cumsum(steps, axis=-1)[..., self.ends]

    def statistic(self, y):
        return _ratio(self._size(self._curve(y)), self.deviation)

    def estimate(self, y):
        return self._size(self._curve(y)) / self.weight.sum()


class KolmogorovSmirnov(_Cumulative):
    name = "Kolmogorov-Smirnov"

    def _size(self, curve):
        return np.abs(curve).max(axis=-1)

    def pvalue(self, statistic):
        return brownian_maximum_sf(statistic)


class Kuiper(_Cumulative):
    name = "Kuiper"

    def _size(self, curve):  # the curve starts at 0
        return np.maximum(curve.max(axis=-1), 0) - np.minimum(curve.min(axis=-1), 0)

    def pvalue(self, statistic):
        return brownian_range_sf(statistic)


def brownian_maximum_sf(x):
    """P(max |W(t)| > x) for Brownian motion on [0, 1], by reflection."""
    if x < 0.15:  # 1 up to 1e-23; the series would need many terms
        return 1.0
    k = np.arange(int(40 / x) + 2)
    return float(min(1.0, 4 * np.sum((-1.0) ** k * ndtr(-(2 * k + 1) * x))))


def brownian_range_sf(x):
    """P(max W - min W > x) for Brownian motion on [0, 1] (Feller 1951)."""
    if x < 0.25:
        return 1.0
    k = np.arange(1, int(40 / x) + 3)
    return float(min(1.0, 8 * np.sum((-1.0) ** (k - 1) * k * ndtr(-k * x))))


def _ratio(deviation, spread):
    """Deviation / spread, where 0 / 0 is 0: forecasts of 0 and 1 that were right."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(deviation == 0, 0.0, deviation / spread)


def binary_problem(y_true, y_proba, sample_weight, labels, pos_label, name):
    """Arguments of a binary test -> `Problem` of two columns."""
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    n_classes = problem.forecast.shape[1]
    if n_classes > 2:
        raise ValueError(
            f"{name} is for two classes, but y_proba has {n_classes} columns: use "
            "kernel_calibration_test, or test each class c against the rest, "
            f"{name}(y_true == c, y_proba[:, c]), and multiply the p-values by {n_classes}."
        )
    # What rounding has left above 1 is certain; as it stands it would have a negative variance.
    return replace(problem, forecast=np.minimum(problem.forecast, 1))


def run_test(test, problem, n_resamples, random_state):
    """A statistic made from the forecasts of a problem -> `CalibrationTest` of its labels."""
    y = problem.target[:, 1]
    statistic = float(test.statistic(y))
    if n_resamples is not None:
        n_resamples = check_count(n_resamples, "n_resamples")
        rng = check_random_state(random_state)
        pvalue, law = _simulated_pvalue(test, statistic, n_resamples, rng), "simulated"
    elif len(y) < MIN_SAMPLES:
        raise ValueError(
            f"An asymptotic test needs at least {MIN_SAMPLES} samples, got {len(y)}: pass "
            "n_resamples=999 to simulate the law of the statistic instead."
        )
    else:
        pvalue, law = float(test.pvalue(statistic)), "asymptotic"
    if np.isinf(statistic):
        law += _excluded(problem)
    return CalibrationTest(statistic, pvalue, float(test.estimate(y)), f"{test.name} ({law})")


def _excluded(problem):
    """Why a statistic is infinite, in words: labels that their forecasts had excluded."""
    words = ("; no event where the forecast said 1", "; an event where the forecast said 0")
    wrong = ((problem.target == 1) & (problem.forecast == 0)).any(axis=0)
    return "".join(word for word, found in zip(words, wrong, strict=True) if found)


def _simulated_pvalue(test, statistic, n_resamples, rng):
    """Share of labelings drawn from the forecasts, and the observed one, that are as extreme."""
    n_samples = len(test.p)
    rows = max(1, _BLOCK // n_samples)
    sizes = (min(rows, n_resamples - start) for start in range(0, n_resamples, rows))
    # Drawn here, one block after the other: the p-value does not depend on who adds them up.
    drawn = Parallel(prefer="threads")(
        delayed(test.statistic)(rng.random_sample((size, n_samples)) < test.p) for size in sizes
    )
    # Sums in another order differ by roundings: what is equal but for these counts as equal.
    threshold = abs(statistic) * (1 - 1e-9)
    as_extreme = np.sum(np.abs(np.concatenate(drawn)) >= threshold)
    return float((1 + as_extreme) / (n_resamples + 1))
