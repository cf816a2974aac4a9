r"""
Recalibrate the variance of a regressor (G22, section 5)
========================================================

A small network forecasts the mean of 100 samples, and its squared residuals, averaged over
neighbours, the variance. But it overfits its training samples: the longer it trains, the smaller
its forecast variance. Two numbers, fitted to 100 held-out samples under the Dawid-Sebastiani score,
correct that on average at every stage of the training.

The data are those of Friedman, with noise of standard deviation :math:`0.5 + x_6`, so the expected
squared error of every forecast is known: :math:`(f(x) - \mu(x))^2 + (0.5 + x_6)^2`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from skcalib.regression import VarianceScaling, variance_reliability

SEEDS, STAGES = 8, (20, 50, 100, 300, 1000)
train, calibration, test = slice(0, 100), slice(100, 200), slice(200, 2200)
ratio = np.empty((2, len(STAGES), SEEDS))  # mean variance / mean squared error: before and after
kept = []

for seed in range(SEEDS):
    X, f = make_friedman1(2200, noise=0, random_state=seed)
    sd = 0.5 + X[:, 5]
    y = f + sd * np.random.default_rng(seed).standard_normal(len(f))
    X = StandardScaler().fit_transform(X)
    network = MLPRegressor(batch_size=100, learning_rate_init=0.01, random_state=seed)
    for step in range(1, STAGES[-1] + 1):
        network.partial_fit(X[train], y[train])
        if step not in STAGES:
            continue
        mean = network.predict(X)
        residual = (y - mean)[train] ** 2
        variance = KNeighborsRegressor(20).fit(X[train], residual).predict(X)
        moments = np.column_stack([mean, variance])
        scaling = VarianceScaling().fit(moments[calibration], y[calibration])
        claimed = variance[test], scaling.transform(moments)[test, 1]
        error = np.mean((y - mean)[test] ** 2)
        ratio[:, STAGES.index(step), seed] = np.mean(claimed, axis=1) / error
        if step == 300:
            expected = (f - mean)[test] ** 2 + sd[test] ** 2
            kept.append([y[test], mean[test], *claimed, expected])

# %%
# On the left, means over eight data sets with two standard errors. On the right, after 300
# iterations, squared errors of test samples in bins of the forecast variance (crosses: their
# expected values). The map brings them near the diagonal.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
outcome, mean, *variances, expected = np.concatenate(kept, axis=1)
for i, (name, color) in enumerate((("before", "#d55e00"), ("after", "#0072b2"))):
    style = {"color": color, "marker": "o", "capsize": 2, "label": name}
    reach = 2 * ratio[i].std(axis=1, ddof=1) / np.sqrt(SEEDS)
    axes[0].errorbar(STAGES, ratio[i].mean(axis=1), reach, **style)
    bins = variance_reliability(outcome, mean, variances[i], n_bins=6)
    truth = variance_reliability(mean + np.sqrt(expected), mean, variances[i], n_bins=6)
    x, reach = bins.predicted_variance, np.abs([bins.low, bins.high] - bins.ratio)
    axes[1].errorbar(x, bins.mean_squared_error, reach * x, **style)
    axes[1].plot(x, truth.mean_squared_error, "kx", zorder=3, label="truth" if i else None)
axes[0].axhline(1, color="k", linestyle="--")
axes[0].set(xscale="log", xlabel="iterations", ylabel="mean variance / mean squared error")
axes[1].axline((0, 0), slope=1, color="k", linestyle="--")
axes[1].set(xlabel="forecast variance", ylabel="mean squared error")
axes[1].legend(loc="lower right")
plt.show()

# %%
# After 1,000 iterations:

print("variance / squared error: {:.2f} before, {:.2f} after".format(*ratio[:, -1].mean(axis=1)))
