r"""
The estimated gain depends on the number of samples (G22, figures 1, 3 and 7)
=============================================================================

Over-confident forecasts of ten classes, and the same after temperature scaling, fitted to 5,000
other samples. How much does that improve their calibration? The paper studies networks on
images; here the data are simulated, so the answer is known. Each error gives another answer.

Noise biases most errors upward, and more so where the forecasts are calibrated (top row, below the
root Brier score of about .9). So it adds more after recalibration than before, and for few samples
the gain is too small (bottom left). Among these gains, only that of the root Brier score hardly
depends on the number of samples. The temperature map is injective, so in squares (bottom right) it
is the gain of the calibration error of all classes, without bias. The noise of the squared errors
of the predicted class is nearly the same before and after, so their gains hardly change. But these
are the gains of another error. The gain of the classwise error is too large for few samples.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import TemperatureScaling, calibration_error, ks_calibration_error, root_brier_score
from skcalib.datasets import make_tempered_simplex
from skcalib.errors import kde_calibration_error
from skcalib.scores import Brier

width = {"strategy": "uniform", "n_bins": 15}
classwise = {"notion": "classwise", "norm": "l2", "reduce": "sum", **width}
debiased = {"norm": "l2", "debiased": True, "n_bins": 15}
ERRORS = {  # colour, marker and function; all in units of probability
    "root Brier score": ("#0072b2", "o", root_brier_score),
    "CWCE$_2$, 15 bins": ("#d55e00", "s", lambda y, p: calibration_error(y, p, **classwise)),
    "ECE, 15 bins": ("#009e73", "^", lambda y, p: calibration_error(y, p, **width)),
    "TCE$_2$, debiased": ("#e69f00", "v", lambda y, p: calibration_error(y, p, **debiased)),
    "TCE$_2$, KDE": ("#56b4e9", "D", lambda y, p: kde_calibration_error(y, p, norm="l2")),
    "Kolmogorov-Smirnov": ("#999999", "x", ks_calibration_error),
}
SIZES, REPEATS = (100, 316, 1000, 3162, 10_000), 60

past = make_tempered_simplex(5000, 10, random_state=0)
temperature = TemperatureScaling().fit(past.y_proba, past.y)
values = np.empty((len(ERRORS), 2, len(SIZES), REPEATS))  # before and after
true_gains = []
for j, n in enumerate(SIZES):
    for repeat in range(REPEATS):
        data = make_tempered_simplex(n, 10, random_state=1000 * (j + 1) + repeat)
        pair = data.y_proba, temperature.predict_proba(data.y_proba)
        for i, (_, _, error) in enumerate(ERRORS.values()):
            values[i, :, j, repeat] = [error(data.y, forecast) for forecast in pair]
        if n == SIZES[-1]:  # E[Y | forecast] is the posterior, before and after
            before, after = (Brier().divergence(data.posterior, one).mean() for one in pair)
            true_gains.append(before - after)

# %%
# Means over 60 data sets of each size, with two standard errors.

before, after = values[:, 0], values[:, 1]
panels = {  # with the upper end of the axis: the top row is without the root Brier score
    "Error before": (before, 0.5),
    "Error after": (after, 0.35),
    "Gain of the error": (before - after, None),
    "Gain of the squared error": (before**2 - after**2, None),
}
fig, axes = plt.subplots(2, 2, figsize=(8.5, 7.5), sharex=True, layout="constrained")
for ax, (title, (value, top)) in zip(axes.flat, panels.items(), strict=True):
    for (name, (color, marker, _)), one in zip(ERRORS.items(), value, strict=True):
        reach = 2 * one.std(axis=1, ddof=1) / np.sqrt(REPEATS)
        style = {"color": color, "marker": marker, "capsize": 2, "label": name}
        ax.errorbar(SIZES, one.mean(axis=1), reach, **style)
    ax.set(title=title, xscale="log", ylim=(0, top))
axes[1, 1].axhline(np.mean(true_gains), color="k", linestyle="--", label="truth, all classes")
plt.setp(axes[1], xlabel="evaluation samples")
fig.legend(*axes[1, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()
