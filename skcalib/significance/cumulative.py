"""Tests of calibration by cumulative differences: Kolmogorov-Smirnov and Kuiper."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtr

from skcalib._util.parameters import checks_parameters
from skcalib._util.ties import level_starts
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import look_up
from skcalib.data.problem import LabelsLike, Problem
from skcalib.significance.binary import BinaryTest, check_binary, ratio, run_test
from skcalib.stats.pvalues import CalibrationTest


@checks_parameters
def cumulative_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    statistic: Literal["ks", "kuiper"] = "ks",
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Kolmogorov-Smirnov or Kuiper test of calibration, two-sided and without bins.

    With samples in the order of their forecasts,

    .. math::

        C_k = \frac{\sum_{i \le k} w_i (y_i - p_i)}{\sum_i w_i}, \qquad
        \sigma^2 = \frac{\sum_i w_i^2 p_i (1 - p_i)}{(\sum_i w_i)^2},

    the statistic is :math:`\max_k |C_k| / \sigma` ("ks") or :math:`(\max_k C_k - \min_k C_k) /
    \sigma` ("kuiper", with :math:`C_0 = 0`). For calibrated forecasts :math:`C / \sigma` is
    asymptotically a Brownian motion W. The p-value is the upper tail of its largest absolute value,
    :math:`P(\max |W| > x) = 4 \sum_{k \ge 0} (-1)^k \bar\Phi((2k+1) x)`, or of its range, :math:`8
    \sum_{k \ge 1} (-1)^{k-1} k \bar\Phi(k x)`. No bins are needed, and every kind of miscalibration
    is detected if n is large enough. "ks" has slightly more power against errors of one sign, and
    "kuiper" against errors that change sign (:ref:`binary_tests`).

    **"ks" depends on which class is positive.** If the other class is positive, the sums begin at
    the other end: :math:`\max_k |C_k|` becomes :math:`\max_k |C_n - C_k|`. The two p-values can
    differ widely, so choose the class before you see the data. ``statistic="kuiper"`` does not
    depend on the class, because the range is the same from both ends.

    C is evaluated only after groups of equal forecasts, so the order of ties does not matter. For
    finite n, and more so with many ties, the maximum over few points is smaller than the maximum of
    the Brownian motion. The test is then conservative (levels: :ref:`binary_tests`). Labels that
    are drawn give the correct level.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`spiegelhalter_test`.
    statistic : {"ks", "kuiper"}, default="ks"
        Largest absolute value, or range.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`spiegelhalter_test`.

    Returns
    -------
    CalibrationTest
        ``statistic``, ``pvalue``, ``estimate`` (the statistic times :math:`\sigma`: for "ks" the
        Kolmogorov-Smirnov calibration error) and ``method``. A label that
        occurred at a forecast of exactly 0 makes the statistic infinite, with p = 0.

    Raises
    ------
    ValueError
        As :func:`spiegelhalter_test`.

    See Also
    --------
    ks_calibration_error : The estimate alone.
    kernel_calibration_test : For any number of classes.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu. Metrics of calibration for
       probabilistic predictions. Journal of Machine Learning Research 23, 2022.
    .. [2] W. Feller. The asymptotic distribution of the range of sums of independent random
       variables. Annals of Mathematical Statistics 22, 1951.

    Examples
    --------
    >>> from skcalib.significance import cumulative_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, score_temperature=0.6, random_state=0)
    >>> for statistic in ("ks", "kuiper"):
    ...     print(f"{cumulative_test(data.y, data.y_proba, statistic=statistic).pvalue:.2g}")
    0.00019
    0.00036
    """
    law = look_up(statistic, STATISTICS, "statistic")
    given = y_true, y_proba, sample_weight, labels, pos_label, groups
    problem = check_binary(*given, "cumulative_test")
    return run_test(law(problem), problem, n_resamples, random_state, n_jobs)


class _Cumulative(BinaryTest):
    """Largest excursion of the cumulative differences, in standard deviations of their end."""

    def __init__(self, problem: Problem) -> None:
        p = self.p = problem.forecast[:, 1]
        self.weight = problem.weight
        self.order = np.argsort(p, kind="stable")
        ranked = p[self.order]
        self.ends = np.append(level_starts(ranked)[1:], len(ranked)) - 1
        self.deviation = np.sqrt(np.sum(problem.squares * p * (1 - p)))

    def _size(self, curve):
        raise NotImplementedError

    def _curve(self, y):
        steps = (self.weight * (y - self.p))[..., self.order]
        return np.cumsum(steps, axis=-1)[..., self.ends]

    def statistic(self, y: np.ndarray) -> np.ndarray:
        return ratio(self._size(self._curve(y)), self.deviation)

    def estimate(self, y: np.ndarray) -> float:
        """Largest excursion of the mean cumulative difference."""
        return self._size(self._curve(y)) / self.weight.sum()


class KolmogorovSmirnov(_Cumulative):
    """Largest absolute value of the cumulative differences."""

    name = "Kolmogorov-Smirnov"

    def _size(self, curve):
        return np.abs(curve).max(axis=-1)

    def pvalue(self, statistic: float) -> float:
        """P-value of the largest absolute value of Brownian motion."""
        return brownian_maximum_sf(statistic)


class Kuiper(_Cumulative):
    """Range of the cumulative differences."""

    name = "Kuiper"

    def _size(self, curve):  # the curve starts at 0
        return np.maximum(curve.max(axis=-1), 0) - np.minimum(curve.min(axis=-1), 0)

    def pvalue(self, statistic: float) -> float:
        """P-value of the range of Brownian motion."""
        return brownian_range_sf(statistic)


def brownian_maximum_sf(x: float) -> float:
    """P(max |W(t)| > x) for Brownian motion on [0, 1], by reflection."""
    if x < 0.15:  # 1 up to 1e-23; the series would need many terms
        return 1.0
    k = np.arange(int(40 / x) + 2)
    return float(min(1.0, 4 * np.sum((-1.0) ** k * ndtr(-(2 * k + 1) * x))))


def brownian_range_sf(x: float) -> float:
    """P(max W - min W > x) for Brownian motion on [0, 1] (Feller 1951)."""
    if x < 0.25:
        return 1.0
    k = np.arange(1, int(40 / x) + 3)
    return float(min(1.0, 8 * np.sum((-1.0) ** (k - 1) * k * ndtr(-k * x))))


STATISTICS = {"ks": KolmogorovSmirnov, "kuiper": Kuiper}
