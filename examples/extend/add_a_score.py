r"""
Add a score
===========

Tsallis' entropy :math:`(1 - \sum_k s_k^a) / (a - 1)` is concave for every power a > 1, so it is the
entropy of a proper score. Two methods define it; the loss, the divergence and every error of the
library follow from them. The true error is known here, as the labels were drawn from the posterior.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import proper_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.scores import Brier, LogLoss, ProperScore
from skcalib.testing import check_score

# %%
# The class. ``infimum`` is the lowest entropy, that of a certain forecast: with it,
# ``calibration_upper_bound`` accepts the score.


class Tsallis(ProperScore):
    """Score of Tsallis' entropy: near 1 the log loss, at 2 the Brier score (not halved)."""

    infimum = 0.0

    def __init__(self, power=1.5):
        self.power = power

    def entropy(self, forecast):
        return (1 - np.sum(forecast**self.power, axis=-1)) / (self.power - 1)

    def gradient(self, forecast):
        return -self.power / (self.power - 1) * forecast ** (self.power - 1)


# %%
# The one-line test: concave, proper, Pythagoras, and the rest.

check_score(Tsallis(power=1.5))

# %%
# It is now a score like the others.

data = make_tempered_simplex(5000, 2, random_state=0)
for score in (Tsallis(1.5), LogLoss(), Brier()):
    truth = score.divergence(data.posterior, data.y_proba).mean()
    estimate = proper_calibration_error(data.y, data.y_proba, loss=score)
    print(f"{score!r:20} true error {truth:.4f}, estimated {estimate:.4f}")

# %%
# The divergence of a forecast from the target 0.8, by three scores.

p = np.linspace(0.02, 0.98, 97)
forecast = np.column_stack([1 - p, p])
target = np.tile([0.2, 0.8], (len(p), 1))
fig, ax = plt.subplots()
for score in (LogLoss(), Tsallis(1.5), Brier()):
    ax.plot(p, score.divergence(target, forecast), label=repr(score))
ax.set(xlabel="forecast", ylabel="divergence from 0.8")
ax.legend()
plt.show()
