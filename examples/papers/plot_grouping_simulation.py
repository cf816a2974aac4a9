"""
What affects the lower bound of the grouping loss (L23, figure 4)
=================================================================

A calibrated classifier is wrong for nearly all groups, with a grouping loss that is known (dashed).
The lower bound of L23 depends on choices. On the left is the size of the regions. Without the
correction of the bias, small regions explain their own noise, and the plug-in is far above the
truth. In the middle is the number of level sets. With few of them the variance induced by binning
is large. It is subtracted, and it vanishes as the level sets get narrower. On the right, not shown
in the paper, is the number of samples: the bound approaches the truth.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skcalib import GroupingLossEstimator
from skcalib.datasets import make_grouping_problem

COLORS = {"plug-in": "#999999", "explained": "#56b4e9", "induced": "#d55e00", "bound": "#0072b2"}
NAMES = {
    "plug-in": "plugin_",
    "explained": "explained_",
    "induced": "induced_",
    "bound": "grouping_loss_",
}


def terms(n_samples, **options):
    """Mean over data sets of each term, by name: the fewer samples, the more data sets."""
    fits = []
    for seed in range(max(5, 30_000 // n_samples)):
        data = make_grouping_problem(n_samples, random_state=seed)
        how = {"method": "partition", "n_permutations": 0, **options}
        model = GroupingLossEstimator(random_state=seed, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small regions raise a warning
            fits.append(model.fit(data.X, data.y, y_proba=data.y_proba))
    return {name: np.mean([getattr(fit, term) for fit in fits]) for name, term in NAMES.items()}


ratios, bins = [3, 6, 12, 25, 50, 100], [2, 4, 8, 15, 30, 60]
sizes = [1000, 3000, 10_000, 30_000]
PANELS = {
    "samples per region": (ratios, [terms(10_000, region_ratio=r) for r in ratios]),
    "level sets": (bins, [terms(10_000, n_bins=b) for b in bins]),
    "samples": (sizes, [terms(n) for n in sizes]),
}
DRAWN = (("plug-in", "explained", "bound"), ("explained", "induced", "bound"), ("plug-in", "bound"))

truth = make_grouping_problem(2).truth["grouping_brier"]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained", sharey=True)
for ax, (label, (values, found)), drawn in zip(axes, PANELS.items(), DRAWN, strict=True):
    for name in drawn:
        ax.plot(values, [f[name] for f in found], "o-", color=COLORS[name], label=name)
    ax.axhline(truth, color="black", linestyle="--", label="true grouping loss")
    ax.axhline(0, color="0.7", linewidth=0.8)
    ax.set(xscale="log", xlabel=label, xticks=values, xticklabels=values)
    ax.minorticks_off()
    ax.legend(fontsize="small")
axes[0].set(ylabel="Brier score", ylim=(-0.001, 0.025))
plt.show()
