r"""
How many bins?
==============

The simulation of F24 has three binary forecasts with known true errors (dashed). The curves are the
ECE of 1,000 samples with 1 to 300 bins of equal width, as a mean over 200 data sets. Few bins
average errors of opposite sign, many bins add noise to the error. The vertical line is :math:`B^*`,
the number with the smallest bound. The default ``n_bins="auto"`` is that of equal mass, 9.

On the right are the mean distance of the ECE from the truth, and the bound of F24 for it. The bound
holds for every forecast whose calibration curve is no steeper than the worst of these three.
At :math:`B^*` it is smallest, but fewer bins are closer to the truth here. No number of bins is
good for all of them, and a single bin is best for the calibrated one.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import calibration_error, optimal_n_bins
from skcalib.datasets import make_logistic_scores
from skcalib.theory import ece_bias_bound

N_SAMPLES, REPETITIONS = 1000, 200
BINS = [1, 2, 3, 5, 9, 14, 23, 35, 55, 90, 140, 200, 300]
MODELS = {"calibrated": (0, -2), "good": (0.2, -1.9), "bad": (0.5, -1.5)}
COLORS = ("#0072b2", "#009e73", "#d55e00")
best = optimal_n_bins(N_SAMPLES)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
options = {"notion": "canonical", "strategy": "uniform"}
lipschitz = 1.0
for color, (name, coefficients) in zip(COLORS, MODELS.items(), strict=True):
    errors = np.empty((REPETITIONS, len(BINS)))
    for r in range(REPETITIONS):
        data = make_logistic_scores(N_SAMPLES, *coefficients, random_state=r)
        errors[r] = [calibration_error(data.y, data.y_proba, n_bins=b, **options) for b in BINS]
    truth = data.truth["tce"]
    lipschitz = max(lipschitz, data.truth["lipschitz"])
    low, high = np.percentile(errors, [5, 95], axis=0)
    left.fill_between(BINS, low, high, color=color, alpha=0.18, linewidth=0)
    left.plot(BINS, errors.mean(axis=0), "o-", markersize=3.5, color=color, label=name)
    left.axhline(truth, color=color, linestyle="--", linewidth=1)
    distance = np.abs(errors - truth).mean(axis=0)
    right.plot(BINS, distance, "o-", markersize=3.5, color=color)
    few, at_best = errors[:, [BINS.index(9), BINS.index(best)]].mean(axis=0)
    print(f"{name:<11}truth {truth:.3f}, ECE {few:.3f} (9 bins), {at_best:.3f} ({best} bins)")

bound = [ece_bias_bound(N_SAMPLES, b, lipschitz=lipschitz) for b in BINS]
right.plot(BINS, bound, "k--", label="bound for every forecast")
print(f"bound with {best} bins {ece_bias_bound(N_SAMPLES, best, lipschitz=lipschitz):.2f}")
for ax in (left, right):
    ax.axvline(best, color="0.5", linewidth=1, zorder=0)
    ax.set(xscale="log", xlabel="bins", xticks=[1, 3, 10, 30, 100, 300])
    ax.set_xticklabels([1, 3, 10, 30, 100, 300])
    ax.minorticks_off()
left.annotate("$B^*$", (best, 0.005), xytext=(4, 0), textcoords="offset points", color="0.4")
left.set(title="Mean ECE of 1,000 samples", ylabel="ECE", ylim=(0, None))
right.set(title="Mean |ECE - truth|", yscale="log")
left.legend(loc="upper left")
right.legend(loc="upper right")
plt.show()
