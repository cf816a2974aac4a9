"""Numbers, names and classes as text: for records and legends, then for reports."""

import re

import numpy as np

#: Characters that control a terminal or the direction of text, end lines, or are no text.
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text):
    """Text of a user, such as a name, whose control characters are escaped, as in Python."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def record_text(interval):
    """Estimate [low, high], with three decimals or more, see `decimals_of`."""
    decimals = decimals_of(interval)
    estimate, low, high = (
        f"{value:z.{decimals}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} [{low}, {high}]"


def nonnegative_text(interval):
    """As `record_text`, for a quantity that cannot be negative, such as a squared error.

    The interval is cut at zero. An estimate below zero is printed as "none detected (upper limit
    x)": x is the upper end of the interval around an estimate of zero, or its own if that is
    larger, so that noise below zero does not make the limit too small. Without an interval the text
    is the estimate alone.
    """
    decimals = decimals_of(interval)
    estimate, low, high = interval.estimate, interval.low, interval.high
    known = np.isfinite(high - low)
    if float(f"{estimate:.{decimals}f}") < 0:
        limit = f" (upper limit {limit_of_noise(interval):.{decimals}f})"
        return f"none detected{limit if known else ''}"
    if not known:
        return f"{estimate:z.{decimals}f}"
    low = f"{max(low, 0.0):.{decimals}f}"
    return f"{estimate:z.{decimals}f} [{low if float(low) else 0}, {high:z.{decimals}f}]"


def limit_of_noise(interval):
    """Upper limit if a nonnegative quantity is estimated below zero, see `nonnegative_text`."""
    return interval.high - min(interval.estimate, 0.0)


def class_text(label):
    """A class in a sentence: a name by itself, other labels as "class 1"."""
    name = printable(str(label))
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
    """A p-value; one below double precision is printed as a bound."""
    return "p < 1e-16" if pvalue < 1e-16 else f"p = {pvalue:.3g}"


# --- Numbers in reports ---------------------------------------------------------------------------


_NOTHING = 1e-6  # smaller losses are reported as none
_MOST_DECIMALS = 4  # of a percentage


def number(value, spread=None):
    """A number with decimals to two digits of its standard error."""
    if not np.isfinite(value):
        return "infinite" if value > 0 else "-infinite"
    known = spread is not None and 1e-9 * abs(value) < spread < np.inf  # else rounding
    scale = spread if known else abs(value) / 30
    if scale == 0:
        return "0.000"
    decimals = int(np.clip(1 - np.floor(np.log10(scale)), 2, 7))
    return f"{value:z.{decimals}f}"


def numbers(*values):
    """Losses side by side: three decimals, or more until different values differ in print."""
    finite = [value for value in values if np.isfinite(value)]
    for decimals in range(3, 8):
        said = [f"{value:z.{decimals}f}" for value in finite]
        different = len(set(said)) == len(set(finite))
        if different and all(value == 0 or abs(value) >= 10.0**-decimals for value in finite):
            break
    return [f"{value:z.{decimals}f}" if np.isfinite(value) else number(value) for value in values]


def common_spread(*estimates):
    """A standard error that gives all estimates of a column or sentence the same decimals."""
    errors = [
        estimate.standard_error for estimate in estimates if 0 < estimate.standard_error < np.inf
    ]
    return max(min(errors), max(errors) / 10) if errors else None


def interval(estimate, spread=None):
    """A `MeanInterval` as "estimate [low, high]", with the decimals of its standard error."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    error = spread or estimate.standard_error
    parts = (number(v, error) for v in (estimate.low, estimate.high))
    return f"{number(estimate.estimate, error)} [{', '.join(parts)}]"


def nonnegative(estimate, spread=None):
    """A `MeanInterval` of a nonnegative quantity; "none detected" for estimates below zero."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    error = spread or estimate.standard_error
    if estimate.estimate < _NOTHING:
        return f"none detected (upper limit {number(limit_of_noise(estimate), error)})"
    low = max(estimate.low, 0.0)
    while low > _NOTHING and not float(number(low, error)):  # positive also in print
        error /= 10
    said = [number(value, error) for value in (estimate.estimate, low, estimate.high)]
    return f"{said[0]} [{said[1]}, {said[2]}]"


def says_nothing(estimate):
    """Whether a lower bound is not above zero."""
    return estimate.estimate < _NOTHING


def points(value):
    """A probability difference in percentage points."""
    return "less than 0.01 points" if abs(value) < 1e-4 else f"{_points(value)} points"


def points_between(low, high):
    """A range of probability differences in percentage points."""
    return f"{_points(low)} to {_points(high)}"


def _points(value):
    size = 100 * abs(value)
    if size >= 9.95 or size == 0:
        return f"{size:.0f}"
    decimals = int(np.clip(np.ceil(-np.log10(size)), 1, 4))
    return f"{size:.{decimals}f}"


def rates(*values, distinct=True, column=()):
    """Rates in percent, with decimals for the rarer ones and, if asked, until they differ.

    `column` are all rates below and above them in a table.
    """
    decimals = _rate_decimals(column or values, distinct)
    return [f"{100 * value:.{decimals}f} %" for value in values]


def rate_interval(low, high, *beside):
    """[low, high] of a rate, in percent, with the decimals of the rates `beside` it."""
    decimals = _rate_decimals(beside, False)
    return f"[{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"


def _rate_decimals(values, distinct):
    """Two digits of the rarest rate, one of the rarest other side; rates from 1 % have few."""
    log = [(2 - (v > 0.5), np.floor(np.log10(100 * min(v, 1 - v)))) for v in values if 0 < v < 1]
    needed = [digits - 1 - size for digits, size in log] or [1]
    first = int(np.clip(max(needed), 1, min(max(2, min(needed)), _MOST_DECIMALS)))
    for decimals in (first, first + 1) if distinct else ():
        if len({f"{100 * value:.{decimals}f}" for value in values}) == len(set(values)):
            return decimals
    return first


def pvalue(value):
    """A p-value; a small one as a bound."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def percent(level):
    """A confidence level."""
    return f"{100 * level:g} %"
