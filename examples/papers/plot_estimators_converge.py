"""
Estimates of a proper calibration error and the truth (P24, figure 2)
=====================================================================

Over-confident forecasts of 2, 5 and 10 classes, whose calibration error is known exactly. Each
curve is the mean of 10 data sets, each band the middle 80 % of them. The kernel estimates of P24
use a bandwidth that shrinks with the number of samples by the rule
:math:`h \\propto n^{-2/(K + 3)}`, under which they are consistent. Their bias falls slowly. With
1,600 samples, eq. 14 is still far above the truth for any number of classes, and with ten classes
both are several times too large. For two classes eq. 9 is too small, because the kernel smooths the
calibration curve.

The default of this library fits maps of the logits instead of averaging the labels of neighbours.
The truth of this simulation is such a map, so the default is close to it for all sizes. It can be
below zero: clipped at zero, it would be biased.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skcalib import proper_calibration_error
from skcalib.datasets import make_tempered_simplex
from skcalib.scores import Brier, LogLoss
from skcalib.smoothers import DirichletKernel

SIZES = [200, 400, 800, 1600]
CLASSES = (2, 5, 10)
ESTIMATORS = {
    "kernel, direct (eq. 9)": {"smoother": DirichletKernel("scott"), "method": "direct"},
    "kernel, risk (eq. 14)": {"smoother": DirichletKernel("scott"), "method": "risk"},
    "default": {},
}
SCORES = {"brier": Brier(), "log": LogLoss()}
COLORS = ["#e69f00", "#009e73", "#0072b2"]


def estimates(n, n_classes, loss, options):
    """The same 10 data sets for each estimator."""
    draws = (make_tempered_simplex(n, n_classes, random_state=seed) for seed in range(10))
    with warnings.catch_warnings(action="ignore"):  # too few neighbours raise a warning
        return [proper_calibration_error(d.y, d.y_proba, loss=loss, **options) for d in draws]


def true_error(n_classes, loss):
    """Mean divergence of E[Y|S], which this simulation knows, from the forecast."""
    draw = make_tempered_simplex(200_000, n_classes, random_state=0)
    return SCORES[loss].divergence(draw.posterior, draw.y_proba).mean()


fig, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, layout="constrained")
for row, loss, unit in zip(axes, ("brier", "log"), ("Brier score", "log loss, nats"), strict=True):
    for ax, n_classes in zip(row, CLASSES, strict=True):
        truth = true_error(n_classes, loss)
        for color, (name, options) in zip(COLORS, ESTIMATORS.items(), strict=True):
            found = np.array([estimates(n, n_classes, loss, options) for n in SIZES])
            ax.plot(SIZES, found.mean(axis=1), "o-", color=color, label=name, markersize=4)
            low, high = np.quantile(found, [0.1, 0.9], axis=1)
            ax.fill_between(SIZES, low, high, color=color, alpha=0.12, linewidth=0)
        ax.axhline(truth, color="black", linestyle="--", label="truth")
        ax.set(xscale="log", xticks=SIZES, xticklabels=SIZES)
        ax.minorticks_off()
        ax.set_title(f"{n_classes} classes, truth {truth:.4f}", fontsize="medium")
    row[0].set_ylabel(f"calibration error ({unit})")
for ax in axes[1]:
    ax.set_xlabel("samples")
axes[0, 0].legend(fontsize="small")
plt.show()
