r"""G22's test bed for variances, as in the paper: a network of mean and variance, Friedman's data.

A small network forecasts a mean and a variance for each sample and is trained on their joint score,
the Dawid-Sebastiani score. On 100 samples it soon believes its own residuals, which it has fitted
away: the longer it trains, the smaller the variance it forecasts. Two numbers, fitted to 100 held
out samples, repair that on average at every stage of the training.

The data are those of Friedman, with noise of standard deviation :math:`0.5 + x_6`, so the expected
squared error of every forecast is known: :math:`(f(x) - \mu(x))^2 + (0.5 + x_6)^2`.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import make_friedman1

from skcalib.regression import VarianceScaling, variance_reliability

SEEDS, SIZES, STAGES = 8, (10, 200, 50, 2), (20, 35, 60, 100, 170, 300, 550, 1000)

# %%
# Eight data sets of 100 training, 100 calibration and 100 test samples. They are the first axis of
# all arrays: eight networks are trained at once.

drawn = [make_friedman1(300, noise=0, random_state=seed) for seed in range(SEEDS)]
X, f = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
sd = 0.5 + X[:, :, 5]
y = f + sd * np.random.default_rng(0).standard_normal(f.shape)
train, calibration, test = slice(0, 100), slice(100, 200), slice(200, 300)
centre, unit = (m(y[:, train], axis=1, keepdims=True) for m in (np.mean, np.std))

# %%
# The network: two hidden layers of rectifiers, the mean and a positive variance on top, Adam.


def layers(parameters, inputs):
    """Activations of every layer; the last one is (mean, raw variance), standardised."""
    values = [inputs]
    for weights, bias in zip(parameters[::2], parameters[1::2], strict=True):
        linear = values[-1] @ weights + bias
        values.append(np.maximum(linear, 0) if weights.shape[-1] > 2 else linear)
    return values


def forecast(parameters, inputs):
    mean, raw = np.moveaxis(layers(parameters, inputs)[-1], -1, 0)
    return centre + unit * mean, unit**2 * np.logaddexp(0, raw)


def gradient(parameters, inputs, outcomes):
    """Gradient of the mean Dawid-Sebastiani score by back-propagation."""
    values = layers(parameters, inputs)
    mean, raw = np.moveaxis(values[-1], -1, 0)
    residual, precision = mean - outcomes, 1 / np.logaddexp(0, raw)
    slopes = (2 * residual * precision, precision * (1 - residual**2 * precision) * expit(raw))
    back, found = np.stack(slopes, axis=-1) / outcomes.shape[1], []
    for value, weights in zip(values[-2::-1], parameters[-2::-2], strict=True):
        found = [value.swapaxes(1, 2) @ back, back.sum(axis=1, keepdims=True), *found]
        back = (back @ weights.swapaxes(1, 2)) * (value > 0)
    return found


rng = np.random.default_rng(1)
parameters = []
for fan_in, fan_out in pairwise(SIZES):
    parameters.append(rng.uniform(-1, 1, (SEEDS, fan_in, fan_out)) / np.sqrt(fan_in))
    parameters.append(np.zeros((SEEDS, 1, fan_out)))

# %%
# Train; at each stage recalibrate, and compare the mean variance with the mean squared error.

first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
ratio, kept = np.empty((2, len(STAGES), SEEDS)), {}  # variance / squared error: before and after
for step in range(1, STAGES[-1] + 1):
    slopes = gradient(parameters, X[:, train], (y[:, train] - centre) / unit)
    for p, m, v, g in zip(parameters, first, second, slopes, strict=True):
        m += 0.1 * (g - m)
        v += 0.001 * (g**2 - v)
        p -= 0.001 * m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    if step in STAGES:
        mean, before = forecast(parameters, X)
        after = np.empty_like(before)
        for seed, moments in enumerate(np.stack([mean, before], axis=-1)):
            scaling = VarianceScaling().fit(moments[calibration], y[seed, calibration])
            after[seed] = scaling.transform(moments)[:, 1]
        kept[step] = mean[:, test], before[:, test], after[:, test]
        error = np.mean((y - mean)[:, test] ** 2, axis=1)
        ratio[:, STAGES.index(step)] = np.mean(kept[step][1:], axis=2) / error

# %%
# On the left, means over the eight data sets with two standard errors. On the right, after 60
# iterations, the squared errors of the test samples in bins of the forecast variance, and the
# expected squared errors of the same bins: the map brings them to the diagonal.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
mean, *variances = (values.ravel() for values in kept[60])
expected = (f[:, test].ravel() - mean) ** 2 + sd[:, test].ravel() ** 2
for i, (name, color) in enumerate((("before", "C3"), ("after", "C0"))):
    style = {"color": color, "marker": "o", "capsize": 2, "label": name}
    reach = 2 * ratio[i].std(axis=1, ddof=1) / np.sqrt(SEEDS)
    axes[0].errorbar(STAGES, ratio[i].mean(axis=1), reach, **style)
    bins = variance_reliability(y[:, test].ravel(), mean, variances[i], n_bins=6)
    truth = variance_reliability(mean + np.sqrt(expected), mean, variances[i], n_bins=6)
    x, reach = bins.predicted_variance, np.abs([bins.low, bins.high] - bins.ratio)
    axes[1].errorbar(x, bins.mean_squared_error, reach * x, **style)
    axes[1].plot(x, truth.mean_squared_error, "kx", zorder=3, label="truth" if i else None)
axes[0].axhline(1, color="k", linestyle="--")
axes[0].set(xscale="log", xlabel="iterations", ylabel="mean variance / mean squared error")
axes[1].axline((0, 0), slope=1, color="k", linestyle="--")
axes[1].set(xlim=(0, 18), ylim=(0, 18), xlabel="forecast variance", ylabel="mean squared error")
axes[1].legend(loc="lower right")
if __name__ == "__main__":
    plt.show()

# %%
# After 1,000 iterations:

print("variance / squared error: {:.2f} before, {:.2f} after".format(*ratio[:, -1].mean(axis=1)))
