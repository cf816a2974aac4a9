"""
Which estimators are right on average? (W19, figure 1)
======================================================

Three models of ten classes, 250 samples, 100 data sets each. M1 is calibrated, M2 and M3 are not.
The true expected calibration error is known for each (dashed, first row). Estimates of it by bins
of the simplex are biased. Where there is no error, equal cells estimate .44 and data-dependent
cells .25. For M3 the data-dependent cells are below the truth. The kernel calibration error (second
row) has another scale, with zero for calibrated forecasts. The unbiased and the linear estimator
are right on average, and so take values on both sides of it, unlike the biased one.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import kernel_calibration_error
from skcalib.datasets import make_widmann
from skcalib.errors import simplex_calibration_error
from skcalib.smoothers import MedianCells

ESTIMATORS = {
    "bins, uniform": lambda y, p: simplex_calibration_error(y, p, bins="uniform"),
    "bins, from data": lambda y, p: simplex_calibration_error(y, p, bins=MedianCells(None, 5)),
    "kernel, biased": lambda y, p: kernel_calibration_error(y, p, statistic="biased"),
    "kernel, unbiased": lambda y, p: kernel_calibration_error(y, p, statistic="unbiased"),
    "kernel, linear": lambda y, p: kernel_calibration_error(y, p, statistic="linear"),
}
COLORS = {"bins": "#999999", "kernel": "#0072b2"}

fig, axes = plt.subplots(2, 3, figsize=(9, 5.5), sharey="row", layout="constrained")
for column, model in enumerate(("M1", "M2", "M3")):
    draws = [make_widmann(250, model=model, random_state=seed) for seed in range(100)]
    for row, family in enumerate(("bins", "kernel")):
        ax = axes[row, column]
        names = [name for name in ESTIMATORS if name.startswith(family)]
        values = [[ESTIMATORS[name](d.y, d.y_proba) for d in draws] for name in names]
        parts = ax.violinplot(values, showmeans=True, showextrema=False)
        for body in parts["bodies"]:
            body.set(facecolor=COLORS[family], alpha=0.6)
        parts["cmeans"].set(color="black", linewidth=1)
        ax.set_xticks(range(1, len(names) + 1), [n.partition(", ")[2] for n in names])
        print(model, {n: round(float(np.mean(v)), 4) for n, v in zip(names, values, strict=True)})
    truth = draws[0].truth["total_variation"]
    axes[0, column].axhline(truth, color="black", linestyle="--", label=f"truth, {truth:.2f}")
    axes[0, column].set_title(model)
    axes[0, column].legend(fontsize="small")
    axes[1, column].axhline(0, color="black", linestyle=":", linewidth=1)
axes[0, 0].set_ylabel("ECE, total variation")
axes[1, 0].set_ylabel("squared kernel error")
plt.show()
