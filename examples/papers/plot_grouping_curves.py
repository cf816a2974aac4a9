"""
Calibrated, and not the posterior (L23, figures 9 and 10)
=========================================================

Four calibrated classifiers of one feature. Left, the score S (grey) is the same for X and -X, the
posterior Q (black) is not. Right, the same as a function of the score: two posteriors, of mean S.
A reliability diagram shows the diagonal, as it averages the two.

The scores of the upper two (figure 9) are on the other side of 1/2 than the posterior for some X:
another classifier is more accurate. Those of the lower two (figure 10) never are. They are
calibrated, no classifier is more accurate, and still their scores are not the posterior.

Circles are the regions that :class:`~skcalib.GroupingLossEstimator` finds from features and labels
alone, at their mean score and the frequency of their labels; the area is proportional to the number
of samples. Large ones are near one of the curves, small ones are noisy. Above each panel are the
lower bound of the grouping loss and the truth. Only for "step" is the bound larger than the truth,
by less than a standard error.
"""

import matplotlib.pyplot as plt

from skcalib import GroupingLossEstimator
from skcalib.datasets import make_grouping_curves

fig, axes = plt.subplots(4, 2, figsize=(6, 10.5), layout="constrained", sharey=True)
for (left, right), curve in zip(axes, ("quadratic", "double", "step", "constant"), strict=True):
    data = make_grouping_curves(10_000, curve=curve, random_state=0)
    score, posterior = data.y_proba[:, 1], data.posterior[:, 1]
    left.plot(data.X[:, 0], score, ".", color="0.7", markersize=4)
    left.plot(data.X[:, 0], posterior, ".", color="black", markersize=2)
    left.set(xlim=(-2.2, 2.2), ylabel=f'"{curve}"')
    right.plot(score, posterior, ".", color="black", markersize=2)
    right.plot([0, 1], [0, 1], color="0.7", linewidth=2, zorder=0)

    found = GroupingLossEstimator(method="partition", n_permutations=0).fit(
        data.X, data.y, y_proba=data.y_proba
    )
    for region in found.regions_:
        size = 1500 * region.share
        place = region.mean_score, region.mean_outcome
        right.scatter(*place, s=size, color="#0072b2", alpha=0.5, linewidth=0)
    for ax in (left, right):
        ax.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    bound, truth = found.grouping_loss_, data.truth["grouping_brier"]
    right.set_title(f"at least {bound:.4f}, truth {truth:.4f}", fontsize="medium")
    print(f"{curve:9} {bound:.4f}, standard error {found.standard_error_:.4f}, truth {truth:.4f}")
axes[0, 0].set_title("score (grey), posterior (black)", fontsize="medium")
axes[3, 0].set(xlabel="feature X")
axes[3, 1].set(xlabel="score S")
plt.show()
