"""
How accurate, compared with other packages?
===========================================

Every dot is a simulated setting whose true Brier calibration error is known. It shows the root mean
squared error of an estimator over that of the default of this library: to the right of the line the
default is closer to the truth. The colour is the way in which the forecasts are wrong.

The numbers are those of ``doc/studies/accuracy.py``. The user guide explains how they were
obtained, and which estimators and settings are omitted.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

PANELS = {"canonical brier": "all classes at once", "top_label brier": "top label"}
KINDS = ("calibrated", "over-confident", "under-confident", "class-dependent", "non-monotone")
TICKS = (0.1, 0.3, 1, 3, 10, 30, 100, 1000)
MARKERS = ("o", "^", "v", "s", "D")
COLORS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7")

folder = Path("doc/studies/results")
folder = folder if folder.exists() else Path("..") / folder  # sphinx-gallery runs it from here
with (folder / "accuracy.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))


def world(row):
    return row["target"], row["classes"], row["kind"], row["samples"]


default = {world(row): float(row["rmse"]) for row in rows if row["estimator"] == "default, cross"}
names = {
    target: ["default, risk"]
    + sorted({r["estimator"] for r in rows if r["target"] == target and r["ours"] == "0"})
    for target in PANELS
}

fig, axes = plt.subplots(
    2, 1, figsize=(8, 6.5), sharex=True, layout="constrained", height_ratios=(7, 5)
)
for ax, (target, title) in zip(axes, PANELS.items(), strict=True):
    for place, name in enumerate(names[target]):
        for k, kind in enumerate(KINDS):
            ratios = [
                float(row["rmse"]) / default[world(row)]
                for row in rows
                if (row["target"], row["estimator"], row["kind"]) == (target, name, kind)
            ]
            height = np.full(len(ratios), place + 0.13 * (k - 2))
            label = kind if place == 0 and target == "canonical brier" else None
            ax.plot(ratios, height, MARKERS[k], color=COLORS[k], ms=5, alpha=0.7, label=label)
    ax.axvline(1, color="k", linewidth=1)
    ax.set(xscale="log", title=title, yticks=range(len(names[target])))
    ax.set(xticks=TICKS, xticklabels=[f"{tick:g}" for tick in TICKS])
    ax.set_yticklabels([n.replace("default, risk", "ours, method risk") for n in names[target]])
    ax.grid(axis="x", alpha=0.3)
    ax.invert_yaxis()
axes[0].legend(loc="upper right", fontsize="small")
axes[1].set(xlabel="← closer than ours     root mean squared error / ours     further away →")
plt.show()
