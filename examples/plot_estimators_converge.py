"""
P24, figure 2: estimates of a proper calibration error and the truth
=====================================================================

Over-confident forecasts of two classes, whose calibration error is known exactly. Each curve is the
mean of 20 data sets, each band the middle 80 % of them. Frequencies of 15 bins, substituted into
the divergence, count their own noise as miscalibration. So does P24's kernel (bandwidth .01) for
few samples; by its direct formula it is close to the truth from 800 samples on, while the risk
formula has the smoothing bias of the kernel. The default of this library fits a map to the
forecasts instead of averaging the labels of neighbours, and is right on average for all sizes. The
default can be below zero: clipped at zero, it would be biased.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import proper_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.smoothers import DirichletKernel, QuantileBins

SIZES = [100, 200, 400, 800, 1600, 3200]
ESTIMATORS = {
    "15 bins, direct": {"smoother": QuantileBins(15), "method": "direct"},
    "kernel, direct (eq. 9)": {"smoother": DirichletKernel(0.01), "method": "direct"},
    "kernel, risk (eq. 14)": {"smoother": DirichletKernel(0.01), "method": "risk"},
    "default": {},
}
COLORS = ["#999999", "#e69f00", "#009e73", "#0072b2"]


def estimates(n, loss, options):
    """The same 20 data sets for each estimator."""
    draws = (make_tempered_simplex(n, random_state=seed) for seed in range(20))
    return [proper_calibration_error(d.y, d.y_proba, loss=loss, **options) for d in draws]


truth = make_tempered_simplex(2).truth
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, loss, unit in zip(axes, ("brier", "log"), ("Brier score", "nats"), strict=True):
    for color, (name, options) in zip(COLORS, ESTIMATORS.items(), strict=True):
        found = np.array([estimates(n, loss, options) for n in SIZES])
        ax.plot(SIZES, found.mean(axis=1), "o-", color=color, label=name, markersize=4)
        low, high = np.quantile(found, [0.1, 0.9], axis=1)
        ax.fill_between(SIZES, low, high, color=color, alpha=0.12, linewidth=0)
    ax.axhline(truth[loss], color="black", linestyle="--", label=f"truth, {truth[loss]:.4f}")
    ax.set(xscale="log", xticks=SIZES, xticklabels=SIZES, xlabel="samples")
    ax.set(ylabel=f"calibration error ({unit})", title=f"{loss} loss")
    ax.minorticks_off()
    ax.legend(fontsize="small")
axes[0].set_ylim(-0.01, 0.06)
axes[1].set_ylim(-0.03, 0.15)
plt.show()
