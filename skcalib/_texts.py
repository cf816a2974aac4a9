"""Numbers in the words of records and legends."""

import numpy as np


def record_text(interval):
    """Estimate [low, high], with three decimals or more, see `decimals_of`."""
    decimals = decimals_of(interval)
    estimate, low, high = (
        f"{value:z.{decimals}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} [{low}, {high}]"


def nonnegative_text(interval):
    """As `record_text`, for a quantity that cannot be negative, such as a squared error.

    The interval is cut off at zero. An estimate below zero reads "none detected (upper limit x)":
    x is the upper end that the interval would have around an estimate of zero, or its own if that
    is larger, so that noise below zero is not taken for certainty. Without an interval there is
    the estimate alone.
    """
    decimals = decimals_of(interval)
    estimate, low, high = interval.estimate, interval.low, interval.high
    known = np.isfinite(high - low)
    if float(f"{estimate:.{decimals}f}") < 0:
        limit = f" (upper limit {max(high, high - estimate):.{decimals}f})"
        return f"none detected{limit if known else ''}"
    if not known:
        return f"{estimate:z.{decimals}f}"
    low = f"{max(low, 0.0):.{decimals}f}"
    return f"{estimate:z.{decimals}f} [{low if float(low) else 0}, {high:z.{decimals}f}]"


def class_text(label):
    """A class as it is called in a sentence: a name by itself, other labels as "class 1"."""
    name = str(label)
    is_name = len(name) > 1 and any(letter.isalpha() for letter in name)
    answers = ("true", "false", "none", "yes", "no")
    return name if is_name and name.lower() not in answers else f"class {name}"


def decimals_of(interval):
    """Three decimals, or more until the interval is three units of the last one wide."""
    if not (np.isfinite(interval.low) and np.isfinite(interval.high)):
        return 3
    width = interval.high - interval.low
    return max(3, int(np.ceil(-np.log10(max(width, 1e-6) / 3))))


def pvalue_text(pvalue):
    """A p-value; what has no digit in double precision is not called 0."""
    return "p < 1e-16" if pvalue < 1e-16 else f"p = {pvalue:.3g}"
