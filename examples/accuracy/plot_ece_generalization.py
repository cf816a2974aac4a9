"""
The ECE on the training samples
===============================

A classifier appears calibrated on its training samples. Here each of two classifiers is
refitted on random halves of *supersamples*: n pairs, of which a random choice selects one for
training and the other for testing. Left, the mean ECE on both halves; right, the mean of their
absolute difference, and the bound of F24.

The bound is drawn for a classifier that contains *no* information about these choices, where it is
smallest: :math:`\\sqrt{8 B \\ln 2 / n}`. The gap of the logistic regression, which contains little
information, is far below and decreases with n. The tree memorises its training samples: its gap
does not decrease, and exceeds the bound, which does not apply to it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skcalib import optimal_n_bins
from skcalib.theory import ece_generalization_bound, evaluate_supersample

rng = np.random.default_rng(0)
X = rng.normal(size=(40_000, 10))
y = rng.random(len(X)) < 1 / (1 + np.exp(-X[:, 0] - X[:, 1] * X[:, 2]))

SIZES = [50, 100, 200, 400, 800, 1600, 3200]
CLASSIFIERS = {
    "logistic regression": LogisticRegression(),
    "decision tree": DecisionTreeClassifier(),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for color, (name, classifier) in zip(("C0", "C1"), CLASSIFIERS.items(), strict=True):
    results = [
        evaluate_supersample(
            classifier, X, y, n_pairs=n, n_bins=optimal_n_bins(n), n_draws=4, random_state=0
        )
        for n in SIZES
    ]
    for part, style in (("test", "-"), ("train", "--")):
        means = [getattr(result, f"{part}_error").mean() for result in results]
        left.plot(SIZES, means, style, color=color, marker="o", label=f"{name}, {part}")
    gaps = [np.abs(result.gap).mean() for result in results]
    right.plot(SIZES, gaps, color=color, marker="o", label=name)

bound = [ece_generalization_bound(n, optimal_n_bins(n)) for n in SIZES]
right.plot(SIZES, bound, "k--", label="bound, no information")
left.set(xscale="log", ylabel="ECE", title="on new and on training samples")
right.set(xscale="log", yscale="log", ylabel="|ECE(test) - ECE(train)|", title="the gap")
right.set(ylim=(1e-3, 2))
for ax in (left, right):
    ax.set(xlabel="pairs n", xticks=SIZES, xticklabels=SIZES)
    ax.minorticks_off()
left.legend()
right.legend(loc="lower left")
plt.show()

# %%
# How much information does the tree contain? The plug-in estimate from k draws is at its ceiling,
# ln k, although the truth may be anything up to n ln 2. It is not an upper bound, so it must not be
# used in the bound.

information = results[-1].fcmi
print(f"estimate {information.estimate:.3f} nats")
print(f"ceiling  {information.ceiling:.3f} = ln {results[-1].gap.shape[1]}")
print(f"at most  {information.maximum:.0f} = n ln 2")
