r"""
Read a reliability diagram
==========================

The forecasts below are over-confident in a known way, so the true curve can be drawn next to its
estimate from 2,000 labels. The two diagrams of the same labels differ in their bands. One shows
whether the forecasts are calibrated, the other where the true curve may be.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from skcalib import ReliabilityDisplay
from skcalib.datasets import make_tempered_simplex

data = make_tempered_simplex(2000, 2, score_temperature=0.6, random_state=0)

# %%
# The truth: forecasts are :math:`\mathrm{softmax}(\log p / 0.6)` of the posterior p, so that the
# frequency of class 1 at the forecast s is :math:`\sigma(0.6 \operatorname{logit} s)`.

score = np.linspace(0.001, 0.999, 500)
truth = expit(0.6 * logit(score))

# %%
# On the left, the *consistency* band lies around the diagonal. It is where the curve of a
# calibrated classifier would be, with these forecasts and this many labels. The curve leaves it on
# both sides, which is evidence against calibration. On the right, the *confidence* band lies around
# the curve. It contains the true curve, and most of the diagonal is outside. Both bands are
# pointwise: each point has a level of 95 %, and the truth may leave the band somewhere.

fig, axes = plt.subplots(1, 2, figsize=(10, 5.6), layout="constrained")
for ax, band in zip(axes, ("consistency", "confidence"), strict=True):
    ax.plot(score, truth, color="black", linestyle="--", label="True curve", zorder=4)
    display = ReliabilityDisplay.from_predictions(
        data.y, data.y_proba, band=band, name="Over-confident", ax=ax
    )
plt.show()

# %%
# The number in the legend weights samples equally; the histogram above shows where they are. The
# true calibration error lies in its interval.

error = display.curves[0].error
print(f"estimated {error.estimate:.4f} [{error.low:.4f}, {error.high:.4f}]")
print(f"true      {data.truth['brier']:.4f}")
