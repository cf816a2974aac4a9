"""P-values of draws and of several tests, and the record of a calibration test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skcalib._formatting import pvalue_text
from skcalib._records import Record
from skcalib._types import ArrayLike
from skcalib._values import shown


def at_least(drawn: ArrayLike, observed: float) -> np.ndarray:
    """Which drawn statistics are as large as the observed one.

    Sums in another order differ by rounding errors; such differences count as ties.
    """
    rounding = 1e-14 + 1e-9 * abs(observed) if np.isfinite(observed) else 0.0
    return np.asarray(drawn) >= observed - rounding


def monte_carlo_pvalue(observed: float, drawn: np.ndarray | Sequence[float]) -> float:
    """(1 + number of draws as large as the observed statistic) / (1 + number of draws)."""
    return float((1 + np.sum(at_least(drawn, observed))) / (1 + len(drawn)))


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
        The e-value of tests that have one, such as :func:`~skcalib.calibration_e_value`: evidence
        whose expectation under the null is at most 1. None for others.

    See Also
    --------
    skcalib.combine_tests : One test from those of several sets of data.
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
