r"""One temperature for all logits, with or without class biases.

`optimal_inverse_temperature` minimises the log loss. As a function of the inverse temperature
:math:`\beta`, the mean log loss
:math:`f(\beta) = \overline{\log \sum_k e^{\beta z_k} - \beta z_y}` is convex. One pass over the
logits gives its first three derivatives, from the mean, variance and third central moment of z
under :math:`softmax(\beta z)`. Halley's method, safeguarded by a bracket, needs about two passes
after a warm start from 2,000 rows.

`BiasCorrectedTemperature` adds one bias per class; `fit_bias_corrected` fits it by penalised
maximum likelihood, with the Newton method `minimise_convex`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

from skcalib._util.validation import mean_one
from skcalib.data.labels import labels_or_shares
from skcalib.links.logits import LogRows
from skcalib.links.maps import Link, LinkFit
from skcalib.links.newton import likelihood_tolerance, minimise_convex, row_blocks

_SUBSAMPLE = 2000  # rows of the warm start
_MOST_PASSES = 100


def optimal_inverse_temperature(
    logits: np.ndarray | LogRows,
    labels: np.ndarray,
    weight: np.ndarray,
    *,
    low: float = 1e-4,
    high: float = 1e4,
    tolerance: float = 1e-11,
) -> tuple[float, int]:
    """Minimiser of the log loss over beta in [low, high], and the number of passes over the data.

    Logits (n, K) are float32 or float64, and the arithmetic follows. Labels are columns (n,) or
    label distributions (n, K). An optimum beyond an end is returned as that end. `tolerance` is the
    relative error aimed at.
    """
    hit, peak = _hit_and_peak(logits, labels)
    beta = 1.0
    if np.array_equal(logits.min(axis=1), peak):
        return beta, 1  # every forecast is uniform: the loss does not depend on beta

    def search(beta, tolerance, rows=slice(None)):
        z, at, top, w = logits[rows], hit[rows], peak[rows], weight[rows]
        # beta is rounded to the precision of the logits: derivatives belong to the value used.
        return halley(
            lambda beta: _derivatives(z, at, top, w, beta),
            beta,
            low,
            high,
            tolerance=tolerance,
            rounded=lambda value: float(logits.dtype.type(value)),
        )

    if len(logits) > 4 * _SUBSAMPLE:
        few = np.linspace(0, len(logits) - 1, _SUBSAMPLE).astype(int)
        beta, _ = search(beta, 1e-4, few)
    return search(beta, tolerance)


def mean_log_loss(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray, beta: float) -> float:
    """Mean log loss of softmax(beta * logits), block by block."""
    hit, peak = _hit_and_peak(logits, labels)
    total = 0.0
    for block in row_blocks(logits):
        mass = np.exp(logits.dtype.type(beta) * (logits[block] - peak[block, None])).sum(axis=1)
        total += weight[block] @ (np.log(mass) - beta * (hit[block] - peak[block]))
    return float(total / weight.sum())


def _hit_and_peak(logits, labels):
    """The logit of the label as float64, its mean for soft labels, and the largest of each row."""
    if labels.ndim == 2:
        return np.einsum("ik,ik->i", labels, logits, dtype=np.float64), logits.max(axis=1)
    return logits[np.arange(len(logits)), labels].astype(np.float64), logits.max(axis=1)


def halley(
    derivatives: Callable[[float], np.ndarray],
    beta: float,
    low: float,
    high: float,
    *,
    tolerance: float = 1e-11,
    rounded: Callable[[float], float] = float,
) -> tuple[float, int]:
    """Minimiser in [low, high] of a convex function, from its first three derivatives at beta.

    These may be in any unit of the function. An optimum beyond an end is returned as that end.
    `tolerance` is the relative error aimed at; `rounded` rounds beta to the values that
    `derivatives` distinguishes. Returns the minimiser and the number of calls.
    """
    low, high, beta = map(rounded, (low, high, beta))
    below, above, untried = low, high, {low, high}
    for passes in range(1, _MOST_PASSES + 1):
        slope, curvature, third = map(float, derivatives(beta))
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
        safe = below < new < above or new == beta  # beta itself: the step is rounding
        if not safe or (passes > 10 and passes % 2):  # slow, as to an infinite optimum
            end = low if slope > 0 else high
            safe, new = False, end if end in untried else (below * above) ** 0.5
            untried.discard(end)
        change, beta, last = abs(new - beta) / beta, new, beta
        # Convergence is cubic: the next error is of the order of the cube of this change.
        if (safe and 10 * change**3 < tolerance) or above / below - 1 < tolerance:
            break
        beta = rounded(beta)
        if beta == last:
            break
    return beta, passes


def _derivatives(logits, hit, peak, weight, beta):
    """First three derivatives of the sum of weighted log losses at beta."""
    total = np.zeros(3)
    for block in row_blocks(logits):
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
    return total


# --- Bias-corrected temperature -------------------------------------------------------------------


_WEAK_PRIOR = 0.01  # precision of the priors that keep the fit finite, in samples
_BIAS_LEVEL = 0.01  # of the chi-square test of class totals; biases are fitted if it rejects
_CACHED = 2**18  # entries of one block of an array, which fits into the cache


class BiasCorrectedTemperature(Link):
    r"""z -> beta z + b: one inverse temperature for all classes and one bias for each.

    For K = 2 it is an affine map of the logit (Platt scaling on logits). `fit_bias_corrected` fits
    it by penalised maximum likelihood.
    """

    def start(self, n_classes: int) -> np.ndarray:
        return np.append(1.0, np.zeros(n_classes))

    def apply(self, theta: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return theta[0] * logits + theta[1:]

    def vjp(self, theta: np.ndarray, logits: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        return np.append(np.sum(cotangent * logits), cotangent.sum(axis=0))

    def injective(self, theta: np.ndarray, n_classes: int) -> bool:
        # Outputs shift by one constant only if all logits move in the same direction, which is
        # impossible for forecasts that sum to one.
        return bool(theta[0] != 0)

    def preserves_order(self, theta: np.ndarray, n_classes: int) -> bool:
        return bool(theta[0] > 0 and np.ptp(theta[1:]) == 0)


def fit_bias_corrected(
    logits: np.ndarray, target: np.ndarray, weight: np.ndarray, count: np.ndarray | None = None
) -> LinkFit:
    r"""Fit `BiasCorrectedTemperature` by penalised maximum likelihood.

    The slope has a weak prior around 1, in units of the spread of the logits, which keeps it finite
    when the classes are separable. For K = 2 the biases have a weak prior too. For K > 2 they stay
    at zero unless a chi-square test of the class totals rejects at the level .01. Then they have
    the prior :math:`N(0, \tau^2)`, whose variance is estimated from the totals by the method of
    moments (empirical Bayes). Without the test, shrinkage alone would follow part of every random
    excess, and calibrated forecasts would look miscalibrated too often.

    Parameters
    ----------
    logits, target : array of shape (n, K)
        Logits, as `log_forecast` gives them, and labels or label distributions.
    weight, count : array of shape (n,)
        Positive weights, whose sum is arbitrary, and the number of samples of each row, or None.

    Returns
    -------
    LinkFit
        Inverse temperature beta and the biases, which sum to zero.
    """
    # The priors are in units of samples.
    sums = _BiasedSums(logits, labels_or_shares(target), mean_one(weight, count), count)
    n_classes = len(sums.counts)
    if n_classes == 2:
        return _maximise(sums, np.full(2, _WEAK_PRIOR))
    slope_only = _maximise(sums, np.full(n_classes, np.inf))
    mass, noise, information = sums.totals(slope_only.theta)
    excess = sums.counts - mass
    # Each ratio has mean one, and the totals sum to zero: K - 1 of them are free.
    ratios = excess**2 / np.maximum(noise, np.finfo(np.float64).tiny)
    statistic = np.sum(ratios) * (n_classes - 1) / n_classes
    rejects = chi2.sf(statistic, n_classes - 1) < _BIAS_LEVEL  # a single class: nan, so False
    if not rejects:
        return slope_only
    # Under b ~ N(0, tau^2) the class totals have E[excess^2] = noise + (information tau)^2.
    variance = np.sum(excess**2 - noise) / np.sum(information**2)
    precision = 1 / variance if variance > 0 else np.inf
    return _maximise(sums, np.full(n_classes, max(precision, _WEAK_PRIOR)), slope_only.theta[0])


def _maximise(sums, precision, beta=1.0):
    """Maximise the penalised likelihood; biases of infinite precision stay at zero."""
    free = np.isfinite(precision)
    penalty = np.append(_WEAK_PRIOR, precision[free])
    centre = np.append(sums.spread, np.zeros(free.sum()))
    start = centre.copy()
    start[0] *= beta

    def value(parameters):
        fit, state = sums.value(parameters, free)
        return fit + 0.5 * penalty @ (parameters - centre) ** 2, state

    def slopes(parameters, state):
        gradient, hessian = sums.slopes(free, state)
        return gradient + penalty * (parameters - centre), hessian + np.diag(penalty)

    # The last step is not evaluated: the tolerance is well above the rounding errors of the sum.
    tolerance = likelihood_tolerance(sums.counts.sum())
    minimum = minimise_convex(value, slopes, start, tolerance=tolerance)
    theta = np.zeros(1 + len(free))
    theta[0], theta[1:][free] = minimum.refined[0] / sums.spread, minimum.refined[1:]
    return LinkFit(theta, minimum.n_iter, minimum.converged, "")


class _BiasedSums:
    """Sums over samples.

    `hit` are columns of labels (n,), or label distributions (n, K). The sum of the weights is the
    number of samples in units of the priors. ``spread`` is the unit of the logits: the root of
    their mean square, each row centred. ``counts`` (K,) are the total weights of the labels.
    """

    def __init__(self, logits, hit, weight, count):
        # One row per class makes reductions over the few classes fast.
        centred = np.ascontiguousarray(logits.T)
        centred -= centred.mean(axis=0)
        # The slope and its prior are in units of the spread of the logits.
        square = np.mean(centred**2) if count is None else (centred**2 @ count).mean() / count.sum()
        self.spread = float(np.sqrt(square)) or 1.0
        self._feature = np.divide(centred, self.spread, out=centred)
        self._hit, self._weight = hit, weight
        self._soft = hit.ndim == 2
        if self._soft:
            self.counts = weight @ hit
        else:
            self.counts = np.bincount(hit, weight, minlength=logits.shape[1])
        n_classes, n_samples = self._feature.shape
        size = max(_CACHED // n_classes, 64)
        self._blocks = [slice(start, start + size) for start in range(0, n_samples, size)]

    def value(self, parameters, free):
        """Minus the log likelihood, and what `slopes` reuses.

        The parameters are the slope in units of the spread and the biases of the classes `free`.
        """
        fit, by_block = 0.0, []
        for rows in self._blocks:
            p = parameters[0] * self._feature[:, rows]
            if free.any():
                p[free] += parameters[1:, None]
            p -= p.max(axis=0)
            log_hit = self._at_label(p, rows)
            np.exp(p, out=p)
            total = p.sum(axis=0)
            p /= total
            fit -= self._weight[rows] @ (log_hit - np.log(total))
            by_block.append(p)
        return fit, by_block

    def slopes(self, free, state):
        """Gradient and Hessian of minus the log likelihood."""
        size = 1 + int(free.sum())
        gradient, hessian, mass = np.zeros(size), np.zeros((size, size)), np.zeros(len(free))
        for rows, p in zip(self._blocks, state, strict=True):
            x, w = self._feature[:, rows], self._weight[rows]
            mean = np.einsum("kn,kn->n", p, x)
            gradient[0] += w @ (mean - self._at_label(x, rows))
            spreading = x - mean
            spreading *= p
            spreading *= w
            hessian[0, 0] += np.einsum("kn,kn->", spreading, x)
            if free.any():
                mass += p @ w
                hessian[0, 1:] += spreading.sum(axis=1)[free]
        if free.any():
            gradient[1:] = (mass - self.counts)[free]
            hessian[1:, 0] = hessian[0, 1:]
            products = _products(state, np.sqrt(self._weight))
            hessian[1:, 1:] = np.diag(mass[free]) - products[free][:, free]
        return gradient, hessian

    def _at_label(self, values, rows):
        """Values (K, m) of some rows at the label, or their mean over the label distribution."""
        if self._soft:
            return np.einsum("mk,km->m", self._hit[rows], values)
        return values[self._hit[rows], np.arange(values.shape[1])]

    def totals(self, theta):
        """Expected class totals, their variances and their information, without biases."""
        _, by_block = self.value(theta[:1] * self.spread, np.zeros(len(self.counts), dtype=bool))
        mass, noise, information = np.zeros((3, len(self.counts)))
        for rows, p in zip(self._blocks, by_block, strict=True):
            w, variance = self._weight[rows], p * (1 - p)
            mass += p @ w
            noise += ((self._hit[rows].T - p) ** 2 if self._soft else variance) @ w**2
            information += variance @ w
        return mass, noise, information


def _products(by_block, root_weight):
    """Sum over the samples of weight times p p', from the blocks of p, as a symmetric product."""
    n_classes, total, start = len(by_block[0]), 0.0, 0
    at_once = max(1, n_classes // by_block[0].shape[1])  # about as many columns as rows, for BLAS
    for first in range(0, len(by_block), at_once):
        p = np.concatenate(by_block[first : first + at_once], axis=1)
        p *= root_weight[start : start + p.shape[1]]
        total, start = total + p @ p.T, start + p.shape[1]
    return total
