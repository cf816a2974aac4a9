"""
How the grouping loss is estimated (L23, figures 2, 3 and 5)
============================================================

Three definitions: the regions of a level set, the variance induced by binning, and the grouping
diagram.

First a level set: samples with a score near .7 in the plane of two features, coloured by their
posterior. The classifier is calibrated, and the mean posterior is .7. A tree that is fitted to the
labels of half of them divides it into two regions (dotted). In one the mean posterior is lower than
the score, in the other it is higher. The labels of the other half agree with it. The variance
between regions is a part of the grouping loss that can be estimated from labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from skcalib import GroupingDisplay, GroupingLossEstimator
from skcalib.datasets import make_grouping_problem

data = make_grouping_problem(100_000, logit_variance=5, random_state=0)
level = np.abs(data.y_proba[:, 1] - 0.7) < 0.02
X, y, posterior = data.X[level], data.y[level], data.posterior[level, 1]
half = np.arange(len(y)) % 2 == 0
tree = DecisionTreeClassifier(max_leaf_nodes=2, random_state=0).fit(X[half], y[half])
region = tree.apply(X)

fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
image = ax.scatter(*X.T, c=posterior, s=6, cmap="PuOr_r", vmin=0.4, vmax=1)
fig.colorbar(image, label="posterior")
for number in np.unique(region):
    chosen = ~half & (region == number)
    text = f"labels {y[chosen].mean():.2f}\nposterior {posterior[chosen].mean():.2f}"
    ax.annotate(text, X[chosen].mean(axis=0), (25, 10), textcoords="offset points")
draw = ax.axvline if tree.tree_.feature[0] == 0 else ax.axhline
draw(tree.tree_.threshold[0], color="black", linestyle=":")
ax.set(title=f"Score near .7, mean posterior {posterior.mean():.2f}", facecolor="0.85")
ax.set(xlabel="feature 1", ylabel="feature 2")
plt.show()

# %%
# In practice a level set is a bin of scores, in which the calibration curve is not constant. Its
# variance around the mean of the bin (dashed) is not grouping loss. But it is attributed to regions
# that correlate with the score: the variance induced by binning. It is estimated and subtracted,
# and is small for narrow bins. Here the only feature is the score, so there is no grouping loss.

rng = np.random.default_rng(0)
score, grid = rng.random(20_000), np.linspace(0, 1, 401)
y = (rng.random(20_000) < score**2).astype(int)
fig, axes = plt.subplots(1, 2, figsize=(8, 4.3), layout="constrained", sharey=True)
for ax, n_bins in zip(axes, (2, 6), strict=True):
    edge = np.linspace(0, 1, n_bins + 1)
    mean = n_bins * np.diff(edge**3) / 3
    ax.plot(grid, grid**2, color="black", label="calibration curve")
    ax.stairs(mean, edge, baseline=None, color="black", linestyle="--", label="mean of the bin")
    nearest = mean[np.minimum(grid * n_bins, n_bins - 1).astype(int)]
    ax.fill_between(grid, grid**2, nearest, color="#d55e00", alpha=0.5, linewidth=0)
    model = GroupingLossEstimator(
        method="partition", n_bins=n_bins, strategy="uniform", n_permutations=0
    )
    found, truth = model.fit(score[:, None], y, y_proba=score), 1 / 5 - np.mean(mean**2)
    ax.set_title(f"induced {found.induced_:.4f}, truth {truth:.4f}", fontsize="medium")
    ax.set(xlabel=f"score, {n_bins} level sets")
axes[0].legend()
plt.show()

# %%
# The grouping diagram has one point for each region of a level set, and the mean of the level set
# (black). Its mean squared distance from the diagonal is the calibration error, here .0030 in
# truth. The mean squared distance of the regions from it is the grouping loss, .0120 in truth.

group = rng.integers(2, size=20_000)
frequency = score + np.where(group == 1, -0.3, 0.9) * score * (score - 1)
y = (rng.random(20_000) < frequency).astype(int)
GroupingDisplay.from_predictions(y, score, regions=group)
plt.show()
