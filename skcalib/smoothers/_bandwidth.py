"""The search for a bandwidth: a subsample brackets it, a few full evaluations find it."""

from dataclasses import dataclass

import numpy as np

LOWEST, HIGHEST = -5.0, 0.0  # decimal logarithms of the smallest and largest bandwidth tried
MOST_EVALUATIONS = 10  # of the criterion on all rows, where a subsample has bracketed it
_COARSE = np.linspace(LOWEST, HIGHEST, 11)
_STEP = 0.15  # spacing, in decades, of the first three evaluations on all rows
# Searches of the classes of one problem then share their bandwidths, and what a bandwidth costs
# to prepare.
_GRID = 0.025
_CLOSE = 1e-3  # decades that make no difference any more
_AT_END = 0.06  # the same, where the best is the smallest or the largest bandwidth


@dataclass(frozen=True)
class BandwidthSearch:
    """What was tried, in increasing order, and what it was worth: lower costs are better.

    Attributes
    ----------
    criterion : {"likelihood", "risk"}
        Whether the cost is minus the mean leave-one-out log likelihood of the forecasts, or the
        mean leave-one-out loss of the calibrated scores.
    bandwidths, costs : ndarray of shape (n_evaluations,)
        On all rows; on the subsample where `bandwidth` was extrapolated from one.
    bandwidth : float
        The choice.
    n_samples : int
        Rows that the costs were evaluated on.
    """

    criterion: str
    bandwidths: np.ndarray
    costs: np.ndarray
    bandwidth: float
    n_samples: int


class _Curve:
    """Costs by log bandwidth, evaluated where they are asked for and kept."""

    def __init__(self, cost):
        self._cost, self._known = cost, {}

    def __len__(self):
        return len(self._known)

    def at(self, logs):
        """Evaluate several at once: criteria share what does not depend on the bandwidth."""
        logs = np.unique(np.clip(logs, LOWEST, HIGHEST)).tolist()
        new = [x for x in logs if x not in self._known]
        if new:
            self._known.update(zip(new, self._cost(10.0 ** np.array(new)), strict=True))

    def arrays(self):
        logs = np.array(sorted(self._known))
        return logs, np.array([self._known[x] for x in logs.tolist()])

    def best(self):
        logs, costs = self.arrays()
        return float(logs[np.argmin(costs)])

    def neighbours(self):
        """The best with those beside it, None beyond the ends."""
        logs, costs = self.arrays()
        i = int(np.argmin(costs))
        left = i - 1 if i > 0 else None
        right = i + 1 if i + 1 < len(logs) else None
        return tuple(None if j is None else (logs[j], costs[j]) for j in (left, i, right))


def search_bandwidth(
    cost, *, criterion, n_samples, subsample_cost=None, n_subsample=0, shrink=1.0, full=True
):
    """Minimise a cost over bandwidths in [1e-5, 1] -> `BandwidthSearch`.

    ``cost(bandwidths)`` returns an array. With ``subsample_cost`` the bracket comes from there,
    times ``shrink``; ``full=False`` stops then and takes the middle of the bracket.
    """
    bracket = _Curve(subsample_cost or cost)
    bracket.at(_COARSE)
    for step in (0.25, 0.125):
        bracket.at(bracket.best() + np.array([-step, step]))
    if subsample_cost is None:
        curve, used = bracket, n_samples
        _refine(curve, len(curve) + 4)
    elif not full:
        _refine(bracket, len(bracket) + 2)
        curve, used = bracket, n_subsample
    else:
        curve, used = _Curve(cost), n_samples
        centre = _GRID * np.round((bracket.best() + np.log10(shrink)) / _GRID)
        curve.at(centre + _STEP * np.array([-1, 0, 1]))
        _walk(curve)
        _refine(curve, MOST_EVALUATIONS)
    logs, costs = curve.arrays()
    bandwidths = np.clip(10.0**logs, 10.0**LOWEST, 10.0**HIGHEST)
    # Where every cost is infinite the widest kernel is the one that sees most.
    chosen = float(bandwidths[np.argmin(costs) if np.isfinite(costs).any() else -1])
    if subsample_cost is not None and not full:
        chosen = max(chosen * shrink, 10.0**LOWEST)
    return BandwidthSearch(criterion, bandwidths, costs, chosen, used)


def _walk(curve):
    """Step on, each time twice as far, while the best is the last one tried."""
    step = 2 * _STEP
    while len(curve) < MOST_EVALUATIONS - 3:
        left, (x, _), right = curve.neighbours()
        if (left and right) or not LOWEST < x < HIGHEST:
            return
        curve.at([x - step if left is None else x + step])
        step *= 2


def _refine(curve, most):
    """Vertices of parabolas through the best and its neighbours; halves where one is missing."""
    while len(curve) < most:
        left, (b, cost), right = curve.neighbours()
        if left is None and right is None:  # all three first ones fell on the same end
            x = b + (_STEP if b == LOWEST else -_STEP)
        elif left is None or right is None:
            x = 0.5 * (b + (left or right)[0])
            if abs(x - b) < _AT_END:
                return
        else:
            x = _vertex(left, (b, cost), right)
        if x is None or abs(x - b) < _CLOSE:
            return
        curve.at([x])


def _vertex(left, middle, right):
    """Abscissa of the vertex, kept off the points that are known; None if a cost is infinite."""
    (a, fa), (b, fb), (c, fc) = left, middle, right
    if not np.isfinite([fa, fb, fc]).all():
        return None
    rise, fall = (b - a) * (fb - fc), (b - c) * (fb - fa)
    if rise == fall:
        return None
    return float(b - 0.5 * ((b - a) * rise - (b - c) * fall) / (rise - fall))
