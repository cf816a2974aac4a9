r"""
Wrong for whom? Three notions of calibration
============================================

The figure shows two forecasts of ten classes for 2,000 samples. It compares the calibration errors
of the predicted class, of each class against the rest, and of all classes at once. Black bars are
the truth.

The first forecast is over-confident. The second is calibrated for the class that it predicts, and
reverses the order of all others: an error of the predicted class alone does not detect it. Over all
classes bins become cells of the simplex, in which errors of opposite sign cancel. The proper error
is as accurate as its recalibration maps. They detect nearly all of the reverse order of nine
classes, but would detect less of a more complicated error. The test on the kernel error needs no
map; its p-values are below the names.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

import skcalib as sk

K, N_SAMPLES, GROUPS = 10, 2000, (500, 400)
rng = np.random.default_rng(0)
posterior = softmax(1.5 * rng.standard_normal((np.prod(GROUPS), K)), axis=1)
y = (posterior.cumsum(axis=1) < rng.random((len(posterior), 1))).sum(axis=1)
order = np.argsort(-posterior, axis=1)
reversed_rest = np.empty_like(posterior)
rows = range(len(y))
for rank, other in enumerate([0, *range(K - 1, 0, -1)]):
    reversed_rest[rows, order[:, rank]] = posterior[rows, order[:, other]]
confident = softmax(np.log(posterior) / 0.6, axis=1)


def true_square(score, right):
    """Mean square of E[right | score] - score, in groups of neighbouring scores."""
    return np.mean((right - score)[score.argsort()].reshape(GROUPS).mean(axis=1) ** 2)


def squares(forecast, notion):
    """True error, with bins, debiased, proper."""
    data = y[:N_SAMPLES], forecast[:N_SAMPLES]
    proper = sk.proper_calibration_error(*data, notion=notion)
    if notion == "canonical":  # both forecasts determine the posterior: E[Y|S] is the posterior
        cells = sk.errors.simplex_calibration_error(*data, distance="squared_euclidean")
        return np.sum((posterior - forecast) ** 2, axis=1).mean(), cells, np.nan, proper
    pairs = [(forecast[:, k], posterior[:, k]) for k in range(K)]
    if notion == "top_label":
        pairs = [(forecast.max(axis=1), posterior[rows, forecast.argmax(axis=1)])]
    options = {"n_bins": 15, "norm": "l2", "squared": True, "notion": notion}
    binned = [sk.calibration_error(*data, debiased=d, **options) for d in (False, True)]
    return np.mean([true_square(*pair) for pair in pairs]), *binned, proper


NOTIONS, place = ("top_label", "classwise", "canonical"), np.arange(3)
STYLES = {"bins": "s", "debiased bins": "D", "proper": "o"}
COLORS = ("#d55e00", "#e69f00", "#0072b2")
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
forecasts = {"Too confident": confident, "Wrong below the top": reversed_rest}
for ax, (name, forecast) in zip(axes, forecasts.items(), strict=True):
    texts, values = [], np.array([squares(forecast, notion) for notion in NOTIONS])
    truth, *estimates = (np.sign(values) * np.sqrt(np.abs(values))).T
    ax.hlines(truth, place - 0.36, place + 0.36, color="black", linewidth=2, label="truth")
    for k, (label, marker) in enumerate(STYLES.items()):
        ax.plot(place + 0.2 * (k - 1), estimates[k], marker, color=COLORS[k], label=label)
    for notion, line in zip(NOTIONS, np.column_stack([truth, *estimates]), strict=True):
        data = y[:N_SAMPLES], forecast[:N_SAMPLES]
        kernel = sk.kernel_calibration_test(*data, notion=notion, random_state=0)
        pvalue = "< 1e-6" if kernel.pvalue < 1e-6 else f"= {kernel.pvalue:.1g}"
        texts.append(f"{notion.replace('_', ' ')}\n(kernel: p {pvalue})")
        numbers = [f"{n} {v:.3f}" for n, v in zip(("truth", *STYLES), line, strict=True)]
        print(f"{name}, {notion}: {', '.join(numbers)}, kernel {kernel.estimate:.5f}")
    ax.set(title=name, xticks=place, xticklabels=texts)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
axes[0].set_ylabel("root of the squared error")
axes[1].legend(loc="upper left")
plt.show()
