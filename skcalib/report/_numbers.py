"""Numbers as people read them."""

import numpy as np

_NOTHING = 1e-6  # a loss


def number(value, spread=None):
    """A number with as many decimals as its standard error deserves: two of its digits."""
    if not np.isfinite(value):
        return "infinite" if value > 0 else "-infinite"
    told = spread is not None and 1e-9 * abs(value) < spread < np.inf  # less is rounding
    scale = spread if told else abs(value) / 30
    if scale == 0:
        return "0.000"
    decimals = int(np.clip(1 - np.floor(np.log10(scale)), 2, 7))
    return f"{value:z.{decimals}f}"


def interval(estimate):
    """A `MeanInterval` as "estimate [low, high]"."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    parts = (number(v, estimate.standard_error) for v in (estimate.low, estimate.high))
    return f"{number(estimate.estimate, estimate.standard_error)} [{', '.join(parts)}]"


def bound(estimate):
    """A `MeanInterval` of a lower bound of what cannot be negative: below zero it says nothing."""
    if says_nothing(estimate):
        near = abs(estimate.estimate) < _NOTHING
        return (
            f"none (estimate {0 if near else number(estimate.estimate, estimate.standard_error)})"
        )
    return interval(estimate)


def says_nothing(estimate):
    """Whether a lower bound is not above zero."""
    return estimate.estimate < _NOTHING


def points(value):
    """A probability difference in percentage points."""
    size = 100 * abs(value)
    return f"{size:.1f} points" if size < 10 else f"{size:.0f} points"


def points_between(low, high):
    """A range of probability differences in percentage points, by size."""
    low, high = sorted((abs(low), abs(high)))
    return f"{points(low).removesuffix(' points')} to {points(high)}"


def pvalue(value):
    """A p-value of a permutation test, which cannot be zero."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def percent(level):
    """A confidence level."""
    return f"{100 * level:g} %"
