"""Numbers in the words of records and legends."""

import numpy as np


def record_text(interval):
    """Estimate [low, high], with three decimals or more, see `decimals_of`."""
    decimals = decimals_of(interval)
    estimate, low, high = (
        f"{value:z.{decimals}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} [{low}, {high}]"


def decimals_of(interval):
    """Three decimals, or more until the interval is three units of the last one wide."""
    if not (np.isfinite(interval.low) and np.isfinite(interval.high)):
        return 3
    width = interval.high - interval.low
    return max(3, int(np.ceil(-np.log10(max(width, 1e-6) / 3))))


def pvalue_text(pvalue):
    """A p-value; what has no digit in double precision is not called 0."""
    return "p < 1e-16" if pvalue < 1e-16 else f"p = {pvalue:.3g}"
