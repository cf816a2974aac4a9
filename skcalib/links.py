r"""Parametric maps of the simplex into itself."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import chi2


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
    usual convention for values below the limit of detection; no other value is touched.

    Attributes
    ----------
    inverse_temperature_ : float
        The slope beta.
    bias_ : array of shape (K,)
        The biases, which sum to zero.
    detection_limit_ : float
        The value that stands for forecasts of exactly 0.
    """

    #: Precision of the weak priors, in samples.
    weak_prior = 0.01
    #: Level of the chi-square test of class totals that lets biases in.
    significance = 0.01

    def fit(self, forecast, target, weight):
        """Fit to forecasts (n, K), targets (n, K) and weights (n,); return self."""
        positive = forecast[forecast > 0]
        self.detection_limit_ = max(0.5 * positive.min(), np.finfo(np.float64).tiny)
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
        return np.log(np.where(forecast == 0, self.detection_limit_, forecast))

    def _softmax(self, log_forecast):
        return softmax(self.inverse_temperature_ * log_forecast + self.bias_, axis=1)

    def _maximise(self, log_forecast, target, weight, precision):
        """Maximise the penalised likelihood; biases of infinite precision stay at zero."""
        free = np.isfinite(precision)
        n_samples = len(target)
        centred = log_forecast - log_forecast.mean(axis=1, keepdims=True)
        # The slope is optimised in units of the spread of the logits, its prior likewise.
        spread = np.sqrt(np.mean(centred**2)) or 1.0

        def objective(parameters):
            slope, bias = parameters[0] / spread, np.zeros(len(free))
            bias[free] = parameters[1:]
            log_p = log_softmax(slope * centred + bias, axis=1)
            pull = weight[:, None] * (np.exp(log_p) * target.sum(axis=1, keepdims=True) - target)
            value = -np.sum(weight[:, None] * target * log_p)
            value += 0.5 * self.weak_prior * (parameters[0] - spread) ** 2
            value += 0.5 * np.sum(precision[free] * parameters[1:] ** 2)
            gradient = np.empty_like(parameters)
            gradient[0] = np.sum(pull * centred) / spread
            gradient[0] += self.weak_prior * (parameters[0] - spread)
            gradient[1:] = pull.sum(axis=0)[free] + precision[free] * parameters[1:]
            return value / n_samples, gradient / n_samples

        start = np.zeros(1 + free.sum())
        start[0] = spread
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-14}
        )
        self.inverse_temperature_ = float(found.x[0] / spread)
        self.bias_ = np.zeros(len(free))
        self.bias_[free] = found.x[1:]
