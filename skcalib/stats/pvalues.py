"""P-values of draws and of several tests, and the record of a calibration test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skcalib._util.formatting import Record, pvalue_text
from skcalib._util.messages import shown
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike


def at_least(drawn: ArrayLike, observed: float) -> np.ndarray:
    """Which drawn statistics are as large as the observed one.

    Sums in another order differ by rounding errors; such differences count as ties.
    """
    rounding = 1e-14 + 1e-9 * abs(observed) if np.isfinite(observed) else 0.0
    return np.asarray(drawn) >= observed - rounding


def monte_carlo_pvalue(observed: float, drawn: np.ndarray | Sequence[float]) -> float:
    """(1 + number of draws as large as the observed statistic) / (1 + number of draws)."""
    return float((1 + np.sum(at_least(drawn, observed))) / (1 + len(drawn)))


#: Most draws of a p-value.
MOST_DRAWS = 100_000
#: Most draws in units of the first ones, where each draw calls a function.
MOST_TIMES = 8


def drawn_pvalue(
    draw: Callable[[int], np.ndarray],
    observed: float,
    n_draws: int,
    *,
    size: int,
    level: float = 0.0,
    most: int = MOST_DRAWS,
) -> tuple[float, np.ndarray]:
    r"""P-value of at least `n_draws` draws of a statistic, twice as many while none reaches it.

    ``draw(m)`` returns m further draws, independent of each other and distributed as `observed`
    under the null hypothesis. After :math:`B_0` = `n_draws` draws their number is doubled,
    :math:`B_k = 2^k B_0`, until one is as large as the observed statistic. The last stage has
    `most` draws, fewer if a draw takes many numbers (`size`), or as many as suffice for a p-value
    of `level`. Returned is :math:`p = (1 + m) / (1 + B)`, with the number m of draws that are as
    large among the B draws, and the draws. This is a sequential p-value in the sense of Besag and
    Clifford (1991).

    It is valid: :math:`P(p \le \alpha) \le \alpha` for every :math:`\alpha`. Let :math:`p_k` be the
    p-value of all draws up to stage k. For fixed k it is valid, as the observed statistic is one
    more draw. Let k be the first stage with :math:`2 / (1 + B_k) \le \alpha`, or the last stage. A
    test that stops earlier, at stage j with a draw as large, has :math:`p \ge 2 / (1 + B_j) >
    \alpha`. One that stops at k has :math:`p = p_k`. One that stops later had no such draw at k, so
    :math:`p_k = 1 / (1 + B_k) < \alpha`. Hence :math:`p \le \alpha` implies :math:`p_k \le \alpha`.
    """
    most = max(n_draws, min(most, SIZES.drawn_numbers // max(size, 1)))
    drawn = np.asarray(draw(n_draws), dtype=np.float64)
    while len(drawn) < most and not at_least(drawn, observed).any():
        if 1 / (1 + len(drawn)) <= level:
            break
        drawn = np.append(drawn, draw(min(len(drawn), most - len(drawn))))
    return monte_carlo_pvalue(observed, drawn), drawn


def benjamini_hochberg(pvalues: ArrayLike, level: float) -> np.ndarray:
    """Numbers of the hypotheses that are rejected with a false discovery rate of `level`."""
    order = np.argsort(pvalues, kind="stable")
    allowed = level * np.arange(1, len(order) + 1) / max(len(order), 1)
    passed = np.flatnonzero(np.asarray(pvalues)[order] <= allowed)
    return order[: passed[-1] + 1] if len(passed) else order[:0]


def bonferroni(pvalues: np.ndarray | Sequence[float]) -> float:
    """One p-value from several with any dependence; nan if there was no test."""
    return float(np.minimum(1.0, len(pvalues) * np.min(pvalues)))


@dataclass(frozen=True)
class CalibrationTest(Record):
    """Result of a calibration test; the null hypothesis is that the forecasts are calibrated.

    Attributes
    ----------
    statistic : float
        The test statistic.
    pvalue : float
        Probability, under the null, of a statistic at least as extreme. Never negative.
    estimate : float
        The calibration error behind the test, in its own units.
    method : str
        How the null distribution was computed.
    e_value : float or None
        The e-value of tests that have one, such as
        :func:`~skcalib.significance.calibration_e_value`: evidence whose expectation under the null
        is at most 1. None for others.

    See Also
    --------
    skcalib.significance.combine_tests : One test from those of several sets of data.
    skcalib.kernel_calibration_test : One of the tests that make this record.
    skcalib.grouping.CurveEqualityTest : The record of a test that two curves are equal.

    Examples
    --------
    >>> from skcalib.significance import CalibrationTest
    >>> test = CalibrationTest(statistic=2.5, pvalue=0.012, estimate=0.03, method="asymptotic")
    >>> test.rejects()
    True
    >>> print(test)
    Miscalibrated at the 5 % level: p = 0.012 (asymptotic), estimate 0.03.
    """

    statistic: float
    pvalue: float
    estimate: float
    method: str
    e_value: float | None = None

    def rejects(self, level: float = 0.05) -> bool:
        """Whether calibration is rejected at a level.

        Parameters
        ----------
        level : float, default=0.05
            Accepted probability of rejecting calibrated forecasts.

        Returns
        -------
        bool
            Whether the p-value is at most the level.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {shown(level)}.")
        return self.pvalue <= level

    def __str__(self) -> str:
        verdict = "Miscalibrated" if self.rejects() else "No evidence of miscalibration"
        evidence = "" if self.e_value is None else f"e-value {self.e_value:.3g}, "
        return (
            f"{verdict} at the 5 % level: {pvalue_text(self.pvalue)} ({self.method}), "
            f"{evidence}estimate {self.estimate:.3g}."
        )


def e_value_test(log_e_value: float, estimate: float, method: str) -> CalibrationTest:
    """The record of an e-value, given by its logarithm.

    The e-value is at most the largest floating-point number, unless it is infinite; the p-value is
    min(1, 1 / e).
    """
    with np.errstate(over="ignore"):
        e_value = float(np.exp(log_e_value))
    if np.isinf(e_value) and log_e_value < np.inf:
        e_value = float(np.finfo(np.float64).max)
    return CalibrationTest(log_e_value, 1 / max(e_value, 1.0), estimate, method, e_value)
