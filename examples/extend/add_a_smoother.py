r"""
Add a smoother
==============

A Gaussian kernel on the square roots of the probabilities (the Hellinger distance): it
accepts probabilities of exactly zero and any number of classes. Every sample is left out of
its own average, so the smoother is held out by construction. The true curve is known here.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from skcalib import proper_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.smoothers import Smoother
from skcalib.testing import check_smoother

# %%
# The class. ``fit`` learns from forecasts and targets, ``smooth`` averages any values of the
# fitted samples, ``predict`` gives the mean target at new forecasts.


class HellingerKernel(Smoother):
    """Nadaraya-Watson average with weights exp(-d^2 / (2 h^2)), d the Hellinger distance."""

    def __init__(self, bandwidth=0.05):
        self.bandwidth = bandwidth

    def fit(self, forecast, target, sample_weight=None):
        self._store(forecast, target, sample_weight)
        return self

    def smooth(self, values=None):
        return self._average(self.forecast_, self._values(values), leave_out=True)

    smooth_held_out = smooth

    def predict(self, forecast):
        return self._average(np.asarray(forecast), self.target_, leave_out=False)

    def _average(self, points, values, leave_out):
        distance = cdist(np.sqrt(points), np.sqrt(self.forecast_), "sqeuclidean")
        log_kernel = -distance / (2 * self.bandwidth**2) + np.log(self.weight_)
        if leave_out:
            np.fill_diagonal(log_kernel, -np.inf)
        return softmax(log_kernel, axis=1) @ values


# %%
# The one-line test: held-out estimates, constants, shapes, and the rest.

check_smoother(HellingerKernel())

# %%
# It is now a smoother like the others.

data = make_tempered_simplex(2000, 2, random_state=0)
for method in ("risk", "cross", "direct"):
    error = proper_calibration_error(
        data.y, data.y_proba, smoother=HellingerKernel(), method=method
    )
    print(f"{method:7} {error:.5f}   (truth {data.truth['brier']:.5f})")

# %%
# The estimated curve and the true one.

target = np.column_stack([data.y == 0, data.y == 1]).astype(float)
smoother = HellingerKernel().fit(data.y_proba, target)
grid = np.linspace(0.005, 0.995, 199)
order = np.argsort(data.y_proba[:, 1])
fig, ax = plt.subplots()
ax.plot(grid, smoother.predict(np.column_stack([1 - grid, grid]))[:, 1], label="estimate")
ax.plot(data.y_proba[order, 1], data.posterior[order, 1], "k--", label="truth")
ax.set(xlabel="forecast", ylabel="frequency", aspect="equal")
ax.legend()
plt.show()
