"""
Three methods, one error
========================

The calibration error of the same forecasts is estimated by "risk", "cross" and "direct" from
samples of different sizes. The curves are means over 20 data sets, and the dashed line is the true
error.

"risk" is too low and "direct" too high, each because of the noise of the smoother. With fifteen
bins the noise and the gap are large. `LogitSmoother` averages maps of few parameters and has a
small gap.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import proper_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.smoothers import LogitSmoother, QuantileBins

SIZES, METHODS, REPETITIONS = (50, 100, 200, 400, 800), ("direct", "cross", "risk"), 20

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
smoothers = {"15 quantile bins": QuantileBins(15), "LogitSmoother": LogitSmoother()}
for ax, (title, smoother) in zip(axes, smoothers.items(), strict=True):
    errors = np.empty((REPETITIONS, len(SIZES), len(METHODS)))
    for r, i in np.ndindex(REPETITIONS, len(SIZES)):
        data = make_tempered_simplex(SIZES[i], random_state=r)
        errors[r, i] = [
            proper_calibration_error(data.y, data.y_proba, smoother=smoother, method=method)
            for method in METHODS
        ]
    mean, reach = errors.mean(axis=0), 2 * errors.std(axis=0) / np.sqrt(REPETITIONS)
    for m, method in enumerate(METHODS):
        ax.errorbar(SIZES, mean[:, m], reach[:, m], marker="o", capsize=2, label=method)
    ax.axhline(data.truth["brier"], color="k", linestyle="--")
    ax.set(title=title, xscale="log", xlabel="samples", xticks=SIZES, xticklabels=SIZES)
    ax.minorticks_off()
axes[0].set(ylabel="Brier calibration error")
axes[1].legend()
plt.show()
