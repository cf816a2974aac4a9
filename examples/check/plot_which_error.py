r"""
An error that does not depend on the number of samples
======================================================

The simulation of G22 has 100 classes, logits that are normal around one vertex per class, and
labels drawn from their softmax. The forecasts on the left *are* that softmax, so they are
calibrated. In the middle the logits are multiplied by 2.5, so the forecasts are over-confident.
Dash-dotted lines are the truth.

The ECE of calibrated forecasts decreases with the number of samples, entirely because of noise in
the bins: the folded-normal distribution (dashed) predicts it. Debiased squares do not decrease, but
in the middle they stay below the truth: 15 bins do not resolve how the gap varies within a bin. The
proper error has no bins. Both are averaged as squares and drawn as roots, which magnify values near
zero: .02 is the root of .0004.

On the right are the calibrated forecasts again, on a log scale. The ECE decreases like one over the
root of n, and the root Brier score is flat. Only a flat curve can be compared between data sets of
different size. But the root Brier score is an upper bound, and here none of it is calibration
error.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from skcalib.displays import EstimationDisplay

# G22 draw a covariance matrix for each class from the inverse Wishart law. Here each sample has its
# own, and the logits have a multivariate Cauchy distribution.
N_SAMPLES, N_CLASSES = 40_000, 100
rng = np.random.default_rng(0)
logits = rng.standard_normal((N_SAMPLES, N_CLASSES))
logits *= 10 / np.abs(rng.standard_normal((N_SAMPLES, 1)))
logits[np.arange(N_SAMPLES), rng.integers(N_CLASSES, size=N_SAMPLES)] += 1
posterior = softmax(logits, axis=1).max(axis=1)  # probability that the predicted class is right
right = rng.random(N_SAMPLES) < posterior


def true_errors(score):
    """E[right | score] - score in groups of 400 samples: its mean, and its root mean square."""
    gap = (posterior - score)[score.argsort()].reshape(-1, 400).mean(axis=1)
    l1, l2 = np.abs(gap).mean(), np.sqrt(np.mean(gap**2))
    return {"ECE": l1, "Debiased l2 error": l2, "Brier calibration error, root": l2}


# %%
# What is studied is the binary forecast "the predicted class is right".

fig, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
options = {
    "notion": "canonical",
    "sample_sizes": [100, 316, 1000, 3162, 10_000],
    "n_repeats": 40,
    "floor": False,
}
for ax, title, scale in zip(axes, ("Calibrated", "Too confident"), (1, 2.5), strict=False):
    score = softmax(scale * logits, axis=1).max(axis=1)
    errors, truth = ["ece", "debiased", "proper"], true_errors(score)
    display = EstimationDisplay.from_predictions(
        right, score, errors=errors, truth=truth, legend=scale == 1, ax=ax, **options
    )
    ax.set(title=title, ylim=(-0.06, 0.17))
    print(f"{title}: " + ", ".join(f"{name} {value:.3f}" for name, value in truth.items()))
    ece = display.curves[0]
    for size, mean, predicted in zip(ece.size, ece.mean, ece.prediction, strict=True):
        print(f"{size:>8} samples: ECE {mean:.3f}, predicted {predicted:.3f}")

display = EstimationDisplay.from_predictions(
    right, posterior, errors=["ece", "rbs"], ax=axes[2], **options
)
axes[2].set(title="Calibrated, log scale", yscale="log")
rbs = display.curves[1].mean
print(f"root Brier score: {rbs[0]:.3f} of 100 samples, {rbs[-1]:.3f} of 10,000")
plt.show()
