r"""Parametric maps of the simplex into itself."""

import numpy as np
from scipy.special import softmax
from scipy.stats import chi2

from skcalib.links._base import detection_limit, log_forecast

_CACHED = 2**18  # numbers of an array that is worked on at a time


class BiasCorrectedTemperature:
    r"""Bias-corrected temperature scaling: :math:`s \mapsto \mathrm{softmax}(\beta \log s + b)`.

    One inverse temperature :math:`\beta` for all classes and one bias per class. For K = 2 it is
    the affine map of the logit (Platt scaling on logits). Fitted by penalised maximum
    likelihood. The slope has a weak prior around 1, in units of the spread of the logits, which
    keeps it finite when the classes are separable. For K = 2 the biases have a weak prior too. For
    K > 2 they stay at zero unless the class totals reject that at the level `significance`;
    then they carry the prior :math:`N(0, \tau^2)`, its variance estimated from the totals by the
    method of moments (empirical Bayes). The test is there because shrinkage alone, which follows
    every chance excess a little, makes calibrated forecasts look miscalibrated too often.

    Forecasts of exactly 0 enter with half of the smallest positive probability of the fit, the
    usual convention for values below the limit of detection; logarithms below -87 are compressed,
    strictly increasing, and no other value is touched (`log_forecast`).

    Attributes
    ----------
    inverse_temperature_ : float
        The slope beta.
    bias_ : array of shape (K,)
        The biases, which sum to zero.
    detection_limit_ : float
        The value that stands for forecasts of exactly 0.
    converged_ : bool
        Whether the optimiser reached its tolerance.
    """

    #: Precision of the weak priors, in samples.
    weak_prior = 0.01
    #: Level of the chi-square test of class totals that lets biases in.
    significance = 0.01

    def fit(self, forecast, target, weight):
        """Fit to forecasts (n, K), targets (n, K) and weights (n,); return self."""
        self.detection_limit_ = detection_limit(forecast)
        log_forecast = self._log(forecast)
        weight = weight * (len(weight) / weight.sum())  # priors count in samples
        n_classes = forecast.shape[1]
        if n_classes == 2:
            self._maximise(log_forecast, target, weight, np.full(2, self.weak_prior))
            return self
        self._maximise(log_forecast, target, weight, np.full(n_classes, np.inf))
        fitted = self._softmax(log_forecast)
        excess = (weight[:, None] * (target - fitted)).sum(axis=0)
        noise = (weight[:, None] ** 2 * fitted * (1 - fitted)).sum(axis=0)
        information = (weight[:, None] * fitted * (1 - fitted)).sum(axis=0)
        # Each ratio has mean one, and the totals sum to zero: K - 1 of them are free.
        ratios = excess**2 / np.maximum(noise, np.finfo(np.float64).tiny)
        statistic = np.sum(ratios) * (n_classes - 1) / n_classes
        if chi2.sf(statistic, n_classes - 1) < self.significance:
            # Under b ~ N(0, tau^2) the class totals have E[excess^2] = noise + (information tau)^2.
            variance = np.sum(excess**2 - noise) / np.sum(information**2)
            precision = 1 / variance if variance > 0 else np.inf
            precision = np.full(n_classes, max(precision, self.weak_prior))
            self._maximise(log_forecast, target, weight, precision)
        return self

    def apply(self, forecast):
        """Map forecasts (m, K) to calibrated forecasts (m, K)."""
        return self._softmax(self._log(forecast))

    def _log(self, forecast):
        return log_forecast(forecast, self.detection_limit_)

    def _softmax(self, log_forecast):
        return softmax(self.inverse_temperature_ * log_forecast + self.bias_, axis=1)

    def _maximise(self, log_forecast, target, weight, precision):
        """Maximise the penalised likelihood; biases of infinite precision stay at zero."""
        free = np.isfinite(precision)
        # One row per class: reductions over the few classes are then fast.
        centred = np.ascontiguousarray(log_forecast.T)
        centred -= centred.mean(axis=0)
        # The slope is optimised in units of the spread of the logits, its prior likewise.
        spread = np.sqrt(np.mean(centred**2)) or 1.0
        feature = np.divide(centred, spread, out=centred)
        hit = target.argmax(axis=1)
        counts = weight @ target
        penalty = np.append(self.weak_prior, precision[free])
        start = np.append(spread, np.zeros(free.sum()))
        blocks, root_weight = _blocks(*feature.shape), np.sqrt(weight)

        def value(parameters):
            fit, kept = 0.0, []
            for rows in blocks:
                p = parameters[0] * feature[:, rows]
                if free.any():
                    p[free] += parameters[1:, None]
                p -= p.max(axis=0)
                log_hit = p[hit[rows], np.arange(p.shape[1])]
                np.exp(p, out=p)
                total = p.sum(axis=0)
                p /= total
                fit -= weight[rows] @ (log_hit - np.log(total))
                kept.append(p)
            return fit + 0.5 * penalty @ (parameters - start) ** 2, kept

        def slopes(parameters, kept):
            hessian, mass = np.diag(penalty), np.zeros(len(counts))
            gradient = penalty * (parameters - start)
            gradient[1:] -= counts[free]
            for rows, p in zip(blocks, kept, strict=True):
                x, w = feature[:, rows], weight[rows]
                mean = np.einsum("kn,kn->n", p, x)
                gradient[0] += w @ (mean - x[hit[rows], np.arange(len(w))])
                spreading = x - mean
                spreading *= p
                spreading *= w
                hessian[0, 0] += np.einsum("kn,kn->", spreading, x)
                if free.any():
                    mass += p @ w
                    hessian[0, 1:] += spreading.sum(axis=1)[free]
            if free.any():
                gradient[1:] += mass[free]
                hessian[1:, 0] = hessian[0, 1:]
                hessian[1:, 1:] += np.diag(mass[free]) - _products(kept, root_weight)[free][:, free]
            return gradient, hessian

        found, self.converged_ = minimise_convex(value, slopes, start)
        self.inverse_temperature_ = float(found[0] / spread)
        self.bias_ = np.zeros(len(free))
        self.bias_[free] = found[1:]


def _products(kept, root_weight):
    """Sum over the samples of weight times p p', from the blocks of p; half of it is computed."""
    n_classes, found, start = len(kept[0]), 0.0, 0
    at_once = max(1, n_classes // kept[0].shape[1])  # as many columns as rows: BLAS likes squares
    for first in range(0, len(kept), at_once):
        p = np.concatenate(kept[first : first + at_once], axis=1)
        p *= root_weight[start : start + p.shape[1]]
        found, start = found + p @ p.T, start + p.shape[1]
    return found


def _blocks(n_classes, n_samples):
    """Slices of the samples whose arrays stay in the cache of a processor."""
    size = max(_CACHED // n_classes, 64)
    return [slice(start, start + size) for start in range(0, n_samples, size)]


def minimise_convex(value, slopes, start, *, tolerance=1e-9, max_iter=200):
    """Newton's method with backtracking for a smooth, strictly convex function.

    A handful of parameters and a cheap Hessian: Newton needs six passes over the data where a
    quasi-Newton method of scipy needs thirty and spends as long on its own bookkeeping.

    Parameters
    ----------
    value : callable
        Parameters -> (function value, what `slopes` reuses).
    slopes : callable
        (parameters, what `value` returned) -> (gradient, Hessian).
    start : array
        First parameters.
    tolerance : float
        Stop where the predicted decrease is below this, in units of the function.
    max_iter : int
        Maximum number of passes.

    Returns
    -------
    parameters : array
        The parameters.
    converged : bool
        Whether the tolerance was reached.
    """
    parameters = start
    current, state = value(parameters)
    for _ in range(max_iter):
        gradient, hessian = slopes(parameters, state)
        step = -np.linalg.solve(hessian, gradient)
        decrease = -gradient @ step
        if decrease <= tolerance * max(1.0, abs(current) * 1e-6):
            return parameters, True
        scale = 1.0
        while True:
            new, new_state = value(parameters + scale * step)
            if new <= current - 1e-4 * scale * decrease:
                break
            scale /= 2
            if scale < 1e-10:  # rounding: no step lowers the value any more
                return parameters, True
        parameters, current, state = parameters + scale * step, new, new_state
    return parameters, False
