"""
Grouping loss at the best possible accuracy (L23, figures 11 and 12)
====================================================================

A logistic score of two features. It depends on their sum; the posterior also depends on their
difference. Left, samples in the plane of the features, coloured by their posterior. All samples on
a line parallel to the dashed one have the same score; on the dashed line it is 1/2. Right, the
posterior against the score, and its mean over groups of similar score (black): the diagonal, as all
four scores are calibrated.

The upper two settings are those of figure 11. The posterior of many samples is on the other side of
1/2 than the score, so that another classifier is more accurate. The lower two are those of figure
12. The largest shift is smaller there and zero at the score 1/2: no classifier is more accurate.
The grouping loss is smaller, but not zero. The lower bound of
:class:`~skcalib.GroupingLossEstimator` is above each panel, with the truth; in all four it is many
standard errors above zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import GroupingLossEstimator
from skcalib.datasets import make_grouping_problem

SETTINGS = [(optimal, link) for optimal in (False, True) for link in ("steep", "step")]
COLORS = {"cmap": "PuOr_r", "vmin": 0, "vmax": 1, "s": 4}

fig, axes = plt.subplots(4, 2, figsize=(6, 11.5), layout="constrained")
for (left, right), (optimal, link) in zip(axes, SETTINGS, strict=True):
    data = make_grouping_problem(
        20_000, link=link, optimal_accuracy=optimal, logit_variance=10, random_state=0
    )
    score, posterior = data.y_proba[:, 1], data.posterior[:, 1]
    shown = slice(0, 4000)
    left.scatter(*data.X[shown].T, c=posterior[shown], **COLORS)
    right.scatter(score[shown], posterior[shown], c=posterior[shown], **COLORS)
    left.plot([-3, 3], [3, -3], "k--", linewidth=1)
    left.set(xlim=(-5, 5), ylim=(-5, 5), ylabel=f'"{link}"', aspect="equal")

    groups = np.argsort(score).reshape(20, -1)
    right.plot(score[groups].mean(axis=1), posterior[groups].mean(axis=1), "k.-")
    for line in (right.axhline, right.axvline):
        line(0.5, color="white", linewidth=0.8)
    found = GroupingLossEstimator(method="partition", n_permutations=0).fit(
        data.X, data.y, y_proba=data.y_proba
    )
    bound, truth = found.grouping_loss_, data.truth["grouping_brier"]
    right.set_title(f"at least {bound:.4f}, truth {truth:.4f}", fontsize="medium")
    right.set(aspect="equal", xticks=[0, 0.5, 1], facecolor="0.8")
    left.set(facecolor="0.8")
    best = np.maximum(posterior, 1 - posterior).mean()
    accuracy = np.where(score > 0.5, posterior, 1 - posterior).mean()
    print(
        f"figure {12 if optimal else 11}, {link}: accuracy {accuracy:.3f}, at best {best:.3f}; "
        f"grouping loss at least {bound:.4f}, standard error {found.standard_error_:.4f}"
    )
axes[0, 0].set_title("colour: posterior, 0 to 1", fontsize="medium")
axes[3, 0].set(xlabel="features 1 and 2")
axes[3, 1].set(xlabel="score")
plt.show()
