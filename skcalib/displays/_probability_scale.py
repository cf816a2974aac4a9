"""Scales of probabilities that show crowded scores. Import this module inside methods only."""

from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import FuncFormatter, Locator, NullLocator

from skcalib._util.parameters import check_choice

SCALES = ("auto", "linear", "logit", "sqrt")
MARGIN = 0.02  # beyond 0 and 1, as a fraction of the axis, so that both ends are visible
_BINS = 40
_LETTER, _GAP = 0.092, 0.08  # inches: of a letter of a tick label, and between two labels
# The most common tick values come first; the ends are always included.
_NEAR_ZERO = (0.01, 0.1, 0.5, 0.25, 0.05, 0.02, 0.001, 0.005, 0.0001, 0.002, 0.00001, 0.75, 0.9)
_TICKS = (0.0, 1.0, *(tick for near in _NEAR_ZERO for tick in dict.fromkeys((near, 1 - near))))


@dataclass(frozen=True)
class ProbabilityMap:
    """An increasing map of [0, 1] onto itself, applied to both axes.

    "sqrt" stretches the `end` 0 or 1; "logit", one or both: log((p + soft[0]) / (1 - p + soft[1]))
    is finite at 0 and 1, and the smaller the constant, the more its end is stretched.
    """

    kind: str = "linear"
    end: int = 0
    soft: tuple = (1e-3, 1e-3)

    def forward(self, p):
        """Probability to place on the axis."""
        p = np.asarray(p, dtype=np.float64)
        if self.kind == "sqrt":
            return signed_root(p) if self.end == 0 else 1 - signed_root(1 - p)
        if self.kind == "logit":
            low, high = (
                np.maximum(q + soft, soft / 10)
                for q, soft in zip((p, 1 - p), self.soft, strict=True)
            )
            first, length = self._ends
            return (np.log(low / high) - first) / length
        return p

    def backward(self, place):
        """Place on the axis to probability."""
        place = np.asarray(place, dtype=np.float64)
        if self.kind == "sqrt":
            return signed_square(place) if self.end == 0 else 1 - signed_square(1 - place)
        if self.kind == "logit":
            first, length = self._ends
            odds = np.exp(first + length * place)
            return (odds * (1 + self.soft[1]) - self.soft[0]) / (1 + odds)
        return place

    @property
    def _ends(self):
        """The soft logit of 0, and the distance from it to that of 1."""
        low, high = self.soft
        first = np.log(low / (1 + high))
        return first, np.log((1 + low) / high) - first

    @property
    def edges(self):
        """Edges of bins that have equal width on the axis."""
        return np.clip(self.backward(np.linspace(0, 1, _BINS + 1)), 0, 1)

    @property
    def limits(self):
        """Ends of the axis, a little beyond 0 and 1."""
        return self.backward(np.array([-MARGIN, 1 + MARGIN]))


def signed_root(p):
    """Square root, odd around 0."""
    return np.sign(p) * np.sqrt(np.abs(p))


def signed_square(place):
    """Inverse of `signed_root`."""
    return np.sign(place) * place**2


class PercentLocator(Locator):
    """As many plain percentages as fit on the axis."""

    def __init__(self, mapping):
        halves = [len(percent(tick)) / 2 for tick in _TICKS]
        self._candidates = list(zip(_TICKS, mapping.forward(_TICKS), halves, strict=True))

    def __call__(self):
        """Ticks for the current size of the axes."""
        box = self.axis.axes.get_window_extent()
        inches = min(box.width, box.height) / self.axis.axes.figure.dpi
        placed = []
        for tick, place, half in self._candidates:
            if all(
                inches * abs(place - other) >= _GAP + _LETTER * (half + half_other)
                for _, other, half_other in placed
            ):
                placed.append((tick, place, half))
        return np.sort([tick for tick, _, _ in placed])

    def tick_values(self, vmin, vmax):
        """The same ticks for any limits."""
        return self()


def percent(p, _=None):
    """A probability as a plain percentage, such as 0.1 %."""
    return f"{round(100 * p, 6):.6g} %"


def probability_map(ax):
    """The map of the axes, the identity where none was set."""
    return getattr(ax, "skcalib_map", ProbabilityMap())


def set_probability_scale(ax, scores, weight=None, scale="auto"):
    """Scale both axes so that crowded scores are visible; the diagonal stays a straight line.

    "auto" is linear unless the scores are crowded near 0 or near 1. They are crowded near 0 if 95 %
    of them lie below .2, or 95 % below .5 and three quarters below .1; near 1 likewise. Then it is
    "sqrt", or "logit" if 95 % lie below .02, or if displays on the same Axes are crowded at
    different ends. "auto" depends on the scores of all displays on the Axes, and a scale requested
    by name is kept.

    Returns the map of both axes; ``kind`` is the scale, ``edges`` are bins of equal width on it.
    """
    check_choice(scale, "scale", choices=("auto", "linear", "logit", "sqrt"))
    # Stored on the axes themselves: a table of axes would keep the figures in memory.
    ax.skcalib_quantiles = [*getattr(ax, "skcalib_quantiles", ()), _quantiles(scores, weight)]
    if scale != "auto":
        ax.skcalib_chosen = scale
    ax.skcalib_map = _choose(ax.skcalib_quantiles, getattr(ax, "skcalib_chosen", "auto"))
    _apply(ax, ax.skcalib_map)
    return ax.skcalib_map


def _quantiles(scores, weight):
    """Quantiles .05, .25, .5, .75 and .95 of the weighted scores."""
    scores = np.clip(np.asarray(scores, dtype=np.float64), 0, 1)
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    if weight is None or np.min(weight) == np.max(weight):
        at = np.ceil(shares * len(scores)).astype(int) - 1
        return np.partition(scores, at)[at]
    order = np.argsort(scores)
    mass = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
    at = np.searchsorted(mass, shares * mass[-1])
    return scores[order][np.minimum(at, len(scores) - 1)]


def _choose(quantiles, chosen):
    ends = {end for one in quantiles if (end := _crowded_end(one)) is not None}
    if chosen == "auto":
        if not ends:
            chosen = "linear"
        elif len(ends) == 2 or any(_very_crowded(one) for one in quantiles):
            chosen = "logit"
        else:
            chosen = "sqrt"
    # The distance of a typical score from the crowded end, which "logit" must resolve.
    near = min(min(one[2], 1 - one[2]) for one in quantiles)
    soft = float(np.clip(near / 4, 1e-5, 1e-2))
    if len(ends) == 1:
        (end,) = ends
        return ProbabilityMap(chosen, end, (soft, 0.3) if end == 0 else (0.3, soft))
    return ProbabilityMap(chosen, int(np.mean([one[2] for one in quantiles]) > 0.5), (soft, soft))


def _crowded_end(q):
    """The end, 0 or 1, at which scores with these quantiles are crowded, else None."""
    if q[4] < 0.2 or (q[4] < 0.5 and q[3] < 0.1):
        return 0
    return 1 if q[0] > 0.8 or (q[0] > 0.5 and q[1] > 0.9) else None


def _very_crowded(q):
    return q[4] < 0.02 or q[0] > 0.98


def _apply(ax, mapping):
    if mapping.kind == "linear":
        if ax.get_xscale() != "linear":
            ax.set(xscale="linear", yscale="linear")
    else:
        functions = {"functions": (mapping.forward, mapping.backward)}
        ax.set_xscale("function", **functions)
        ax.set_yscale("function", **functions)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(PercentLocator(mapping))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(percent))
    ax.set(xlim=mapping.limits, ylim=mapping.limits)
