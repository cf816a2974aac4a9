"""
Which map for which error? (P24, table 2)
=========================================

Naive Bayes on the digits, very over-confident, and three maps. They are fitted on 700 held-out
images and evaluated on the other 600, by the loss and by the calibration error that it contains.
P24 concludes that the map should be chosen for the loss. Isotonic regression can take any
increasing shape, and is best by the Brier score. Under the log loss it ranks behind maps with few
parameters: it predicts zeros, and a zero for a class that occurs has an infinite loss.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB

from skcalib import (
    IdentityRecalibrator,
    IsotonicRecalibrator,
    TemperatureScaling,
    VectorScaling,
    proper_calibration_error,
)
from skcalib.scores import Brier, LogLoss

X, y = load_digits(return_X_y=True)
MAPS = {
    "nothing": IdentityRecalibrator(),
    "temperature": TemperatureScaling(),
    "isotonic": IsotonicRecalibrator(),
    "vector": VectorScaling(),
}
LOSSES = {"Brier score": Brier(), "log loss": LogLoss()}
# Zeros are raised, otherwise the mean log loss of isotonic regression would be infinite.
FLOOR = 1e-4

rows = {(name, loss): [] for name in MAPS for loss in LOSSES}
splits = StratifiedShuffleSplit(6, test_size=0.75, random_state=0)
for train, held_out in splits.split(X, y):
    proba = GaussianNB(var_smoothing=1e-2).fit(X[train], y[train]).predict_proba(X[held_out])
    fit, test = slice(0, 700), slice(700, None)
    for name, recalibrator in MAPS.items():
        after = recalibrator.fit(proba[fit], y[held_out][fit]).predict_proba(proba[test])
        after = (after + FLOOR) / (1 + 10 * FLOOR)
        for loss, score in LOSSES.items():
            target = y[held_out][test]
            total = score.loss(np.eye(10)[target], after).mean()
            error = proper_calibration_error(target, after, loss=score)
            rows[name, loss].append((total, error))

# %%
# Mean of six splits, with its standard error. The rest of the bar after its coloured part is the
# refinement, which only better features or models can reduce.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
for ax, loss in zip(axes, LOSSES, strict=True):
    table = np.array([rows[name, loss] for name in MAPS])
    mean, error = table.mean(axis=1), table.std(axis=1, ddof=1) / np.sqrt(len(table[0]))
    ax.barh(list(MAPS), mean[:, 0], color="#cccccc", label="refinement")
    ax.barh(list(MAPS), np.maximum(mean[:, 1], 0), color="#d55e00", label="calibration error")
    ax.errorbar(mean[:, 0], list(MAPS), xerr=error[:, 0], fmt="none", color="black", capsize=3)
    ax.set(title=loss, xlabel="mean on held-out images")
axes[0].invert_yaxis()
axes[1].legend(loc="lower right", fontsize="small")
plt.show()

print(f"{'':12} {'Brier':>8} {'CE':>8} {'log':>8} {'CE':>8}")
for name in MAPS:
    values = np.concatenate([np.mean(rows[name, loss], axis=0) for loss in LOSSES])
    print(f"{name:12} " + " ".join(f"{v:8.4f}" for v in values))
