r"""One temperature for all logits, and its exact optimum under the log loss.

With the inverse temperature :math:`\beta` the mean log loss
:math:`f(\beta) = \overline{\log \sum_k e^{\beta z_k} - \beta z_y}` is convex, and one pass over the
logits gives its value and three derivatives: the mean, variance and third central moment of z under
:math:`softmax(\beta z)`. Halley's method, safeguarded by a bracket, then needs about two passes
after a warm start from 2,000 rows.
"""

import numpy as np

from skcalib.links._base import Link

_ENTRIES = 1 << 17  # logits of one block: they stay in the cache
_SUBSAMPLE = 2000


class TemperatureMap(Link):
    """z -> beta z."""

    def start(self, n_classes):
        return np.ones(1)

    def apply(self, theta, logits):
        return theta[0] * logits

    def vjp(self, theta, logits, cotangent):
        return np.array([np.sum(cotangent * logits)])

    def bounds(self, n_classes):
        return [(0.0, None)]

    def injective(self, theta, n_classes):
        return bool(theta[0] > 0)

    def preserves_order(self, theta, n_classes):
        return bool(theta[0] > 0)


def optimal_inverse_temperature(logits, labels, weight, *, low=1e-4, high=1e4, tolerance=1e-11):
    """Minimiser of the log loss over beta in [low, high].

    Parameters
    ----------
    logits : array of shape (n, K)
        float32 or float64; the arithmetic follows.
    labels : array of int of shape (n,)
        Columns of the labels.
    weight : array of shape (n,)
        Positive weights.
    low, high : float
        Ends of the search; an optimum beyond one is returned as that end.
    tolerance : float
        Relative error aimed at.

    Returns
    -------
    beta : float
        The minimiser.
    passes : int
        Passes over the data.
    """
    hit, peak = _hit_and_peak(logits, labels)
    beta = 1.0
    if np.array_equal(logits.min(axis=1), peak):
        return beta, 1  # every forecast is uniform: all temperatures are alike
    if len(logits) > 4 * _SUBSAMPLE:
        few = np.linspace(0, len(logits) - 1, _SUBSAMPLE).astype(int)
        beta, _ = _halley(logits[few], hit[few], peak[few], weight[few], beta, low, high, 1e-4)
    beta, passes = _halley(logits, hit, peak, weight, beta, low, high, tolerance)
    return beta, passes


def mean_log_loss(logits, labels, weight, beta):
    """Mean log loss of softmax(beta * logits), block by block.

    Parameters
    ----------
    logits, labels, weight : arrays
        As in `optimal_inverse_temperature`.
    beta : float
        Inverse temperature.

    Returns
    -------
    float
        The mean.
    """
    hit, peak = _hit_and_peak(logits, labels)
    total = 0.0
    for block in _blocks(logits):
        mass = np.exp(logits.dtype.type(beta) * (logits[block] - peak[block, None])).sum(axis=1)
        total += weight[block] @ (np.log(mass) - beta * (hit[block] - peak[block]))
    return float(total / weight.sum())


def _hit_and_peak(logits, labels):
    """The logit of the label, float64, and the largest logit of each row."""
    return logits[np.arange(len(logits)), labels].astype(np.float64), logits.max(axis=1)


def _blocks(logits):
    n_rows = max(1, _ENTRIES // logits.shape[1])
    return (slice(start, start + n_rows) for start in range(0, len(logits), n_rows))


def _halley(logits, hit, peak, weight, beta, low, high, tolerance):
    # float32 logits are multiplied by a float32 beta: a slope belongs to the rounded value.
    low, high, beta = (float(logits.dtype.type(value)) for value in (low, high, beta))
    below, above, untried = low, high, {low, high}
    for passes in range(1, 101):
        slope, curvature, third = map(float, _derivatives(logits, hit, peak, weight, beta))
        if (slope > 0 and beta <= low) or (slope <= 0 and beta >= high):
            break  # convex: the optimum is at this end, or beyond it
        if slope > 0:
            above = min(above, beta)
        else:
            below = max(below, beta)
        step = -slope / max(curvature, 1e-300)
        bend = 1 + 0.5 * third * step / max(curvature, 1e-300)
        if bend > 0.3:
            step /= bend
        new = beta + step
        safe = below < new < above
        if not safe or (passes > 10 and passes % 2):  # slow, as towards an infinite optimum
            end = low if slope > 0 else high
            safe, new = False, end if end in untried else (below * above) ** 0.5
            untried.discard(end)
        change, beta, last = abs(new - beta) / beta, new, beta
        # Cubic convergence: the next error is of the order of this change cubed.
        if (safe and 10 * change**3 < tolerance) or above / below - 1 < tolerance:
            break
        beta = float(logits.dtype.type(beta))
        if beta == last:
            break
    return beta, passes


def _derivatives(logits, hit, peak, weight, beta):
    """First three derivatives of the mean log loss at beta."""
    total = np.zeros(3)
    for block in _blocks(logits):
        below = logits[block] - peak[block, None]
        mass = np.exp(logits.dtype.type(beta) * below)
        whole = mass.sum(axis=1).astype(np.float64)
        moments = []
        for _ in range(3):
            mass *= below
            moments.append(mass.sum(axis=1).astype(np.float64) / whole)
        first, second, third = moments
        w = weight[block]
        total[0] += w @ (first - (hit[block] - peak[block]))
        total[1] += w @ (second - first**2)
        total[2] += w @ (third - 3 * second * first + 2 * first**3)
    return total / weight.sum()
