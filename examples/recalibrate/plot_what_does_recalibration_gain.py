"""
What does recalibration gain?
=============================

Nine recalibrators are applied to the same over-confident forecasts. Dots with 95 % intervals show
the improvement of the Brier score on 2,000 held-out samples, which needs no estimate of a
calibration error. Crosses show the true improvement of the calibration error, known because the
forecasts are simulated.

For injective maps (blue) both are the same number, and the dashed line is the most that any map
can gain. Maps that are not injective (orange) merge forecasts: they remove the calibration error as
well as the others do, but the score includes the information that they lose. Keeping only the
predicted class gives perfect calibration, but worse forecasts than before.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skcalib import (
    BetaCalibration,
    HistogramBinning,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    PlattScaling,
    TemperatureScaling,
    calibration_improvement,
)
from skcalib.datasets import make_tempered_simplex
from skcalib.recalibration import LabelFrequency, QuadraticScaling
from skcalib.scores import Brier

maps = {
    "nothing": IdentityRecalibrator(),
    "temperature": TemperatureScaling(),
    "Platt": PlattScaling(),
    "beta": BetaCalibration(),
    "quadratic": QuadraticScaling(),
    "isotonic, strict": IsotonicRecalibrator(strict=True),
    "histogram, 15 bins": HistogramBinning(n_bins=15),
    "histogram, 4 bins": HistogramBinning(n_bins=4),
    "label frequency": LabelFrequency(),
}
past, test, world = (
    make_tempered_simplex(n, random_state=seed) for seed, n in enumerate((2000, 2000, 200_000))
)


def true_calibration_error(forecast):
    """Mean divergence of E[Y | forecast] from the forecast; the truth is known sample by sample."""
    _, cell = np.unique(forecast[:, 1], return_inverse=True)
    mean = np.bincount(cell, world.posterior[:, 1]) / np.bincount(cell)
    conditional = np.column_stack([1 - mean[cell], mean[cell]])
    return Brier().divergence(conditional, forecast).mean()


fig, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
for row, recalibrator in enumerate(maps.values()):
    fitted = recalibrator.fit(past.y_proba, past.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some maps are not injective on purpose
        gain = calibration_improvement(test.y, test.y_proba, fitted)
    removed = world.truth["brier"] - true_calibration_error(fitted.predict_proba(world.y_proba))
    color = "C0" if fitted.injective_ else "C1"
    reach = [[gain.estimate - gain.low], [gain.high - gain.estimate]]
    ax.errorbar(gain.estimate, row, xerr=reach, fmt="o", color=color, capsize=3)
    ax.plot(removed, row, "kx", markersize=8)
ax.plot([], [], "kx", label="of the calibration error")
ax.plot([], [], "o-", color="C0", label="of the Brier score, injective map")
ax.plot([], [], "o-", color="C1", label="of the Brier score, other map")
ax.axvline(world.truth["brier"], color="k", linestyle="--", label="the calibration error before")
ax.axvline(0, color="0.7", zorder=0)
ax.set(xlabel="improvement", yticks=range(len(maps)), yticklabels=maps)
ax.invert_yaxis()
ax.legend(loc="upper left")
plt.show()
