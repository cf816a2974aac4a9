"""
Recalibrated models keep their grouping loss (L23)
==================================================

Six families of models on three data sets, alone (open circles) and recalibrated (filled).
Recalibration removes the calibration error. The grouping loss remains: it is a loss of the
features, which no map of the forecasts can use. Bars are one standard error of the mean over three
divisions of the data. Estimates below zero mean that nothing was found.

The paper shows this for networks on images and texts. The numbers here are those of
``doc/studies/recalibrated_models.py``, which uses data that come with scikit-learn, and a
simulation with the shares of classes of a map of land cover.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

COLORS = {"calibration": "#0072b2", "grouping": "#d55e00"}
NAMES = {"calibration": "calibration error", "grouping": "grouping loss"}

above = next(path for path in [Path.cwd(), *Path.cwd().parents] if (path / "doc").is_dir())
with (above / "doc" / "studies" / "results" / "recalibrated_models.csv").open() as file:
    rows = list(csv.DictReader(file))
tables, models = (list(dict.fromkeys(row[key] for row in rows)) for key in ("data", "model"))

fig, axes = plt.subplots(1, len(tables), figsize=(10, 4.4), sharey=True, layout="constrained")
for ax, table in zip(axes, tables, strict=True):
    for place, model in enumerate(models):
        for shift, (term, color) in zip((-0.16, 0.16), COLORS.items(), strict=True):
            values = [
                [
                    float(row[term])
                    for row in rows
                    if (row["data"], row["model"], row["recalibrated"]) == (table, model, stage)
                ]
                for stage in "01"
            ]
            means = np.mean(values, axis=1)
            errors = np.std(values, axis=1, ddof=1) / np.sqrt(np.shape(values)[1])
            at = place + shift
            ax.plot(means, [at, at], color=color, lw=1.2, alpha=0.5)
            for mean, error, fill in zip(means, errors, ("white", color), strict=True):
                ax.errorbar(mean, at, xerr=error, color=color, lw=1, fmt="o", ms=6, mfc=fill)
    ax.axvline(0, color="#999999", lw=0.8, zorder=0)
    ax.set_title(table, fontsize=11)
    ax.set_xlabel("in units of the Brier score")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_yticks(range(len(models)), models)
axes[0].invert_yaxis()
marks = [
    plt.Line2D([], [], color=color, marker="o", ls="", label=NAMES[term])
    for term, color in COLORS.items()
]
for label, fill in (("alone", "white"), ("recalibrated", "#555555")):
    marks.append(plt.Line2D([], [], color="#555555", marker="o", ls="", mfc=fill, label=label))
fig.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False)
plt.show()
