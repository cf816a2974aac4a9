r"""
Add a recalibrator that is not a map of logits
==============================================

The base class provides validation, classes, weights, names of columns, losses and pipelines. A
recalibrator learns from samples in ``_fit_map``, maps forecasts in ``_apply_map``, and declares
what the map preserves. This one mixes the forecast with the label frequencies, which suits small
calibration sets.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import RecalibrationDisplay, calibration_improvement
from skcalib.datasets import make_tempered_simplex
from skcalib.recalibration import Recalibrator
from skcalib.testing import check_recalibrator

# %%
# The share of the forecast in the mixture minimises the Brier score, which is quadratic.


class FrequencyMixture(Recalibrator):
    """A mixture of the forecast and the label frequencies."""

    def __init__(self, *, input="proba", loss="brier", labels=None):
        self.input = input
        self.loss = loss
        self.labels = labels

    def _fit_map(self, samples):
        forecast, target, weight = samples.forecast, samples.target, samples.weight
        self.frequency_ = np.average(target, axis=0, weights=weight)
        away, residual = forecast - self.frequency_, target - self.frequency_
        best = np.sum(weight @ (away * residual)) / np.sum(weight @ away**2)
        self.share_ = float(np.clip(best, 0.01, 1))
        self.injective_ = True
        self.preserves_argmax_ = self.preserves_order_ = self.share_ == 1

    def _apply_map(self, forecast):
        return self.share_ * forecast + (1 - self.share_) * self.frequency_


# %%
# The one-line test: probabilities row by row, weights, names of classes, declared properties.

check_recalibrator(FrequencyMixture())

# %%
# It is a transformer and a classifier like any other.

train = make_tempered_simplex(300, 2, random_state=0)
test = make_tempered_simplex(4000, 2, random_state=1)
mixture = FrequencyMixture().fit(train.y_proba, train.y)
print(f"share of the forecast: {mixture.share_:.2f}")
print(calibration_improvement(test.y, test.y_proba, mixture, loss="brier"))

# %%
# Its map has a slope below one: forecasts near 0 and 1 are moderated.

RecalibrationDisplay.from_recalibrator(mixture)
plt.show()
