"""A mixture with the uniform distribution: the map of labels with symmetric noise."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from skcalib._validation import number_of_samples
from skcalib.recalibration._sketched import FittedFromSketch
from skcalib.tower import weighted_mean

_LEAST = 1e-12  # noise rate at which the slope of the loss is that at 0


class LabelNoiseScaling(FittedFromSketch):
    r"""Mixture with the uniform distribution: :math:`s \mapsto (1 - t)\, s + t / K`.

    This is the map of symmetric label noise: if a label is replaced, with probability t, by one
    drawn uniformly from all K classes, forecasts that were calibrated for the original labels need
    this map. It moves certain forecasts most, where a temperature hardly changes them: the
    probability of a class is at least t / K, and at most 1 - t (K - 1) / K. It is injective and
    keeps the order of the classes.

    The rate t minimises the loss on [0, n / (n + 1)], so the forecast keeps the weight of at least
    one of n + 1 samples. The log loss and the Brier score are convex in t. A rate below 0 would
    give negative probabilities to forecasts close to 0, so forecasts that are not certain enough
    are left unchanged: use `TemperatureScaling`.

    Cost: O(n K) for each of about ten evaluations of the loss.

    Attributes
    ----------
    noise_rate_ : float
        Share t of labels that are replaced. A share t (K - 1) / K of all labels is then wrong.

    See Also
    --------
    EnsembleTemperatureScaling : With a tempered forecast as a third component.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import LabelNoiseScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 4, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> noisy = rng.random(20_000) < 0.2
    >>> y = np.where(noisy, rng.integers(0, 4, 20_000), data.y)
    >>> round(LabelNoiseScaling().fit(data.posterior, y).noise_rate_, 1)
    0.2
    """

    def _fit_map(self, samples):
        score, target, forecast = samples.score, samples.target, samples.forecast
        share = samples.weight / samples.weight.sum()
        step = 1 / forecast.shape[1] - forecast

        def slope(rate):
            gradient = score.loss_gradient(target, forecast + rate * step)
            return float(share @ np.einsum("ik,ik->i", gradient, step))

        n_samples = number_of_samples(samples.weight, samples.count)
        rates = [0.0, n_samples / (n_samples + 1)]
        slopes = slope(_LEAST), slope(rates[1])
        if slopes[0] < 0 < slopes[1]:
            rates.append(brentq(slope, _LEAST, rates[1], xtol=1e-14))
        losses = [
            float(weighted_mean(score.loss(target, self._mixed(forecast, rate)), samples.weight))
            for rate in rates
        ]
        best = int(np.argmin(losses))
        self.noise_rate_ = rates[best]
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True
        return losses[0], losses[best]

    @staticmethod
    def _mixed(forecast, rate):
        return (1 - rate) * forecast + rate / forecast.shape[1]

    def _apply_map(self, forecast):
        return self._mixed(forecast, self.noise_rate_)

    def _write_map(self, add, x):
        rate = self.noise_rate_
        return add("scale", x, factor=1 - rate, shift=rate / len(self.classes_))
