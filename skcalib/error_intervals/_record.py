"""The record that every interval of an error is."""

from dataclasses import dataclass

from skcalib._formatting import record_text


@dataclass(frozen=True)
class ErrorInterval:
    """An error of forecasts with a confidence interval; see :func:`calibration_error_interval`.

    Attributes
    ----------
    estimate : float
        The value of the metric.
    low, high : float
        The interval of the target. It need not hold a biased estimate.
    standard_error : float
        Of the estimate. Of a root, the length of the interval over that of a standard normal one.
    confidence_level : float
        Level of the two-sided interval.
    method : str
        How the interval was made.
    target : str
        The number that the interval is about, in words.
    valid : bool
        The interval holds its target at least as often as its level says.
    conservative : bool
        It may hold it more often than that.
    reason : str
        Why the interval is not valid, or why it is conservative; else empty.

    Examples
    --------
    >>> from skcalib import ErrorInterval
    >>> reason = "its bias is not known"
    >>> print(ErrorInterval(0.155, 0.125, 0.178, 0.013, 0.95, "m", "t", reason=reason))
    0.155 [0.125, 0.178] (95 %, its bias is not known)
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    confidence_level: float
    method: str
    target: str
    valid: bool = True
    conservative: bool = False
    reason: str = ""

    def __str__(self):
        verdict = "conservative" if self.conservative else ""
        verdict = verdict if self.valid else "not valid"
        notes = f", {verdict}" if verdict else ""
        if self.reason:
            notes += f": {self.reason}" if verdict else f", {self.reason}"
        return f"{record_text(self)} ({100 * self.confidence_level:g} %{notes})"
