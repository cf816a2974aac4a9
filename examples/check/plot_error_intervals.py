"""
Intervals of errors, and why the bootstrap fails
================================================

Each panel shows an error of ten data sets each of 200, 800 and 3,200 samples. The forecasts are
calibrated in the upper row and over-confident in the lower row. The dashed line is the true error
of the scores. The numbers above the axis count how many of the ten intervals cover it.

The intervals of the library (blue) have a nominal coverage of 95 %. Those of the ECE and the KS
error may cover more often, and are flagged as such (``conservative``): estimates of absolute errors
(dots) are too large by an unknown part of their noise, and the lower limit allows for all of it.

A percentile bootstrap (grey) resamples the rows. A resample repeats some of them, which adds noise
to every bin and sum, and this noise increases the error. For calibrated forecasts none of its
intervals of the ECE covers the truth, which is zero, and more samples do not help.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import calibration_error_interval
from skcalib.datasets import make_tempered_simplex

SIZES, REPETITIONS = [200, 800, 3200], 10
METRICS = {"l1": "ECE", "ks": "KS error", "debiased_l2": "RMSCE, debiased"}
FORECASTS = {"calibrated": 1.0, "over-confident": 0.6}
METHODS = {"auto": ("#0072b2", -0.22), "bootstrap": ("0.6", 0.22)}
OPTIONS = {"notion": "canonical", "n_resamples": 50}


def true_errors(temperature):
    """From the known E[Y|S] of a large sample."""
    data = make_tempered_simplex(200_000, score_temperature=temperature, random_state=1)
    gap = (data.posterior - data.y_proba)[np.argsort(data.y_proba[:, 1]), 1]
    largest = np.abs(np.cumsum(gap)).max() / len(gap)
    return {"l1": np.mean(np.abs(gap)), "ks": largest, "debiased_l2": np.sqrt(np.mean(gap**2))}


fig, axes = plt.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey="col", layout="constrained")
for row, (name, temperature) in zip(axes, FORECASTS.items(), strict=True):
    truth = true_errors(temperature)
    for place, n in enumerate(SIZES):
        for metric, ax in zip(METRICS, row, strict=True):
            held = dict.fromkeys(METHODS, 0)
            for seed in range(REPETITIONS):
                data = make_tempered_simplex(n, score_temperature=temperature, random_state=seed)
                for method, (color, shift) in METHODS.items():
                    found = calibration_error_interval(
                        data.y, data.y_proba, metric=metric, method=method, **OPTIONS
                    )
                    x = place + shift + 0.034 * (seed - (REPETITIONS - 1) / 2)
                    ax.plot([x, x], [found.low, found.high], color=color, linewidth=1.8)
                    ax.plot(x, found.estimate, "k.", markersize=3)
                    held[method] += found.low <= truth[metric] <= found.high
            for method, (color, shift) in METHODS.items():
                words = {"s": f"{held[method]}", "color": color, "weight": "bold", "ha": "center"}
                ax.text(place + shift, 0.02, transform=ax.get_xaxis_transform(), **words)
    for metric, ax in zip(METRICS, row, strict=True):
        ax.axhline(truth[metric], color="black", linestyle="--", linewidth=1, zorder=3)
        ax.set(xticks=range(3), xticklabels=SIZES)
    row[0].set_ylabel(f"{name} forecasts")
for metric, top, bottom in zip(METRICS, *axes, strict=True):
    top.set_title(METRICS[metric])
    bottom.set(xlabel="samples", ylim=(-0.12 * top.get_ylim()[1], None))
handles = [plt.Line2D([], [], color=color, linewidth=2) for color, _ in METHODS.values()]
handles.append(plt.Line2D([], [], color="black", linestyle="--", linewidth=1))
words = ["calibration_error_interval, 95 %", "percentile bootstrap", "truth"]
fig.legend(handles, words, loc="outside lower center", ncols=3, frameon=False)
plt.show()
