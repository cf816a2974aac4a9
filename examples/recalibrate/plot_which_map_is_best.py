"""
Which map is the best, and where?
=================================

Every dot is a setting of the benchmark of recalibration: a simulation, or a classifier on a
generated task. Its colour is the kind of the single map with the lowest log loss on test forecasts,
of this library or another package. The place tells the number of calibration samples, and in
which way the forecasts are wrong, or which classifier made them.

No kind of map is the best everywhere. A shift or a temperature is, where samples are few or the
forecasts are wrong in just this way. Curves and maps of single classes need more samples. The guide
explains the settings.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

KINDS = {
    "none": ("no recalibration",),
    "shift, temperature, noise": ("shift", "temp", "Platt", "sigmoid", "ETS", "bias", "noise"),
    "curve: beta, quadratic, spline": ("beta", "quadratic", "spline"),
    "by class: vector, matrix": ("vector", "matrix", "SVS", "Dirichlet", "logistic", "default"),
    "isotonic, Venn-Abers, bins": ("isotonic", "enn-", "BBQ", "histogram"),
}
COLORS = ("#999999", "#0072b2", "#009e73", "#cc79a7", "#e69f00")
CLASSES = {"K = 2": (2, 2), "K = 3 to 5": (3, 5), "K = 10 to 100": (10, 100)}
MIXED = ("skcalib default", "skcalib selected", "skcalib model average")
HEAD = ("seeds", "tier", "kind", "setting", "K", "n")

above = next(path for path in [Path.cwd(), *Path.cwd().parents] if (path / "doc").is_dir())
path = above / "doc" / "benchmarks" / "recalibration" / "results.csv"
with path.open(encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["tier"] in "12"]
last = rows[-1]["seeds"]
rows = [row for row in rows if row["seeds"] == last]


def winner(row):
    """Kind of the single map of lowest log loss."""
    loss = {
        name: float(text.split()[0])
        for name, text in row.items()
        if name not in HEAD + MIXED and text not in ("", "-", "failed")
    }
    name = min(loss, key=loss.get)
    found = next(kind for kind, words in KINDS.items() if any(word in name for word in words))
    # Of two classes these are a slope and a shift of the log odds, as Platt's map.
    return list(KINDS)[1] if row["K"] == "2" and "vector" in found else found


shapes = list(dict.fromkeys(row["kind"] for row in rows))
fig, axes = plt.subplots(1, len(CLASSES), figsize=(9, 9), sharey=True, layout="constrained")
for ax, (title, (low, high)) in zip(axes, CLASSES.items(), strict=True):
    for j, kind in enumerate(KINDS):
        won = [row for row in rows if low <= int(row["K"]) <= high and winner(row) == kind]
        n_samples = np.array([int(row["n"]) for row in won], dtype=float)
        # Settings of several numbers of classes would cover each other.
        n_samples *= [1 + 0.25 * (int(row["K"]) > low) for row in won]
        places = [shapes.index(row["kind"]) for row in won]
        ax.scatter(n_samples, places, color=COLORS[j], label=kind, s=45)
    ax.set(xscale="log", xlabel="calibration samples", title=title, xlim=(60, 50_000))
    ax.set_yticks(range(len(shapes)), shapes)
    ax.grid(alpha=0.3)
axes[0].invert_yaxis()
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()
