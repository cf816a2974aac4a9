"""What a calibration test returns: a small record that is questioned later."""

from dataclasses import dataclass

from skcalib._formatting import pvalue_text


@dataclass(frozen=True)
class CalibrationTest:
    """Result of a calibration test; the null hypothesis is that the forecasts are calibrated.

    Attributes
    ----------
    statistic : float
        The test statistic.
    pvalue : float
        Probability, under the null, of a statistic at least as extreme. Never negative.
    estimate : float
        The calibration error that the test is about, in its own units.
    method : str
        How the law of the statistic was found.

    Examples
    --------
    >>> from skcalib import CalibrationTest
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

    def rejects(self, level=0.05):
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
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        return self.pvalue <= level

    def __str__(self):
        verdict = "Miscalibrated" if self.rejects() else "No evidence of miscalibration"
        return (
            f"{verdict} at the 5 % level: {pvalue_text(self.pvalue)} ({self.method}), "
            f"estimate {self.estimate:.3g}."
        )
