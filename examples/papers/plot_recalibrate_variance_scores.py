r"""
Scores of forecast variances during training (G22, figure 9)
============================================================

A network with one hidden layer is fitted to 100 samples and forecasts the mean. The variance is the
average of its squared residuals over the nearest of these samples. It overfits, so the forecast
variance becomes too small. As in the paper, two numbers recalibrate the variance at every stage of
the training on Friedman's data. They are fitted to 100 held-out samples; the values differ.

The recalibration does not change the mean, so both forecasts have the same mean squared error. The
Dawid-Sebastiani score of the raw variance increases from 60 iterations on. Crosses are the expected
values, known here. In some of the 48 fits the slope is 0, so the recalibrated variance is constant.
Then the gain in score is less than the gain in calibration. The kernel error also compares the
shape of the distribution. It is smaller after recalibration from 60 iterations on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from skcalib.regression import (
    VarianceScaling,
    dawid_sebastiani_score,
    kernel_calibration_error_gaussian,
)

SEEDS, STAGES = 8, (40, 60, 100, 150, 200, 300)
train, calibration, test = slice(0, 100), slice(100, 200), slice(200, 1200)
NAMES = ("mean variance", "Dawid-Sebastiani score", "squared kernel error", "ratio", "expected")
STYLES = (("raw", "#d55e00", "s"), ("recalibrated", "#0072b2", "o"))
found = np.empty((len(NAMES), 2, len(STAGES), SEEDS))  # before and after
mean_squared_error = np.empty((len(STAGES), SEEDS))

for seed in range(SEEDS):
    X, f = make_friedman1(1200, noise=0, random_state=seed)
    sd = 0.5 + X[:, 5]
    y = f + sd * np.random.default_rng(seed).standard_normal(len(f))
    X = StandardScaler().fit_transform(X)
    network = MLPRegressor(batch_size=100, learning_rate_init=0.01, random_state=seed)
    for step in range(1, STAGES[-1] + 1):
        network.partial_fit(X[train], y[train])
        if step not in STAGES:
            continue
        mean, stage = network.predict(X), STAGES.index(step)
        residual = (y - mean)[train] ** 2
        raw = np.column_stack([mean, KNeighborsRegressor(20).fit(X[train], residual).predict(X)])
        scaling = VarianceScaling().fit(raw[calibration], y[calibration])
        square, expected = (y - mean)[test] ** 2, (f - mean)[test] ** 2 + sd[test] ** 2
        mean_squared_error[stage, seed] = np.mean(square)
        for i, v in enumerate((raw[test, 1], scaling.transform(raw)[test, 1])):
            score = dawid_sebastiani_score(y[test], mean[test], v)
            kernel = kernel_calibration_error_gaussian(y[test], mean[test], v)
            rest = np.mean(square / v), np.mean(expected / v + np.log(v))
            found[:, i, stage, seed] = np.mean(v), score, kernel, *rest

# %%
# Means over eight data sets with two standard errors.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.8), layout="constrained")
for ax, name, value in zip(axes, NAMES[:3], found[:3], strict=True):
    for i, (label, color, marker) in enumerate(STYLES):
        reach = 2 * value[i].std(axis=1, ddof=1) / np.sqrt(SEEDS)
        line = {"color": color, "marker": marker, "label": label, "capsize": 2}
        ax.errorbar(STAGES, value[i].mean(axis=1), reach, **line)
    ax.set(title=name, xlabel="iterations", xlim=(0, None))
axes[0].plot(STAGES, mean_squared_error.mean(axis=1), "k--", label="mean squared error")
axes[0].plot([], [], "kx", label="expected score")
axes[1].plot(STAGES, found[4].mean(axis=2).T, "kx", zorder=3)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# The mean of squared error / variance, of which the paper has a table, is 1 under calibration:

for (label, _, _), ratio in zip(STYLES, found[3].mean(axis=2), strict=True):
    print(f"{label:<13}", ratio.round(2))
