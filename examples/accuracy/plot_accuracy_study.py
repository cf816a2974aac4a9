"""
How accurate, compared with other packages?
===========================================

Every dot is a simulated setting whose true calibration error is known. It shows the root mean
squared error of an estimator divided by that of the default of this library, on the same data sets.
To the right of the line the default is closer to the truth. The colour shows in which way the
forecasts are wrong. Ratios beyond the ends of the axis are drawn at the ends.

The numbers are those of ``doc/studies/accuracy.py``. The user guide explains how they were
obtained, and which estimators and settings are omitted.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

PANELS = {
    "canonical brier": "Brier score, all classes at once",
    "canonical log": "Log loss, all classes at once",
    "top_label brier": "Brier score, top label",
}
GROUPS = {
    "calibrated": ("calibrated", "rare event"),
    "too large or too small logits": (
        *("over-confident", "under-confident", "ties"),
        "rare event, over-confident",
    ),
    "different by class": ("class-dependent", "class slopes", "label noise"),
    "curved": ("non-monotone", "S-curve", "local bump"),
}
TICKS = (0.1, 0.3, 1, 3, 10, 30, 100, 1000)
MARKERS = ("o", "^", "s", "D")
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")

above = next(path for path in [Path.cwd(), *Path.cwd().parents] if (path / "doc").is_dir())
folder = above / "doc" / "studies" / "results"
with (folder / "accuracy.csv").open(encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["ours"] == "0"]
names = {
    target: sorted({row["estimator"] for row in rows if row["target"] == target})
    for target in PANELS
}

fig, axes = plt.subplots(
    len(PANELS),
    1,
    figsize=(8, 8),
    sharex=True,
    layout="constrained",
    height_ratios=[1 + len(names[target]) for target in PANELS],
)
for ax, (target, title) in zip(axes, PANELS.items(), strict=True):
    for place, name in enumerate(names[target]):
        for k, (group, kinds) in enumerate(GROUPS.items()):
            ratios = [
                max(float(row["rmse"]), 1e-12) / max(float(row["default_rmse"]), 1e-12)
                for row in rows
                if (row["target"], row["estimator"]) == (target, name) and row["kind"] in kinds
            ]
            ratios = np.clip(ratios, TICKS[0], TICKS[-1])
            height = np.full(len(ratios), place + 0.17 * (k - 1.5))
            label = group if place == 0 else None
            ax.plot(ratios, height, MARKERS[k], color=COLORS[k], ms=5, alpha=0.6, label=label)
    ax.axvline(1, color="k", linewidth=1)
    ax.set(xscale="log", title=title, yticks=range(len(names[target])))
    ax.set(xticks=TICKS, xticklabels=[f"{tick:g}" for tick in TICKS])
    ax.set_yticklabels(names[target])
    ax.grid(axis="x", alpha=0.3)
    ax.invert_yaxis()
axes[1].legend(loc="lower right", fontsize="small")
axes[-1].set_xlabel("← closer than ours     root mean squared error / ours     further away →")
plt.show()
