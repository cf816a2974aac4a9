"""
Is my model calibrated? A test for all classes at once
======================================================

An error above zero proves nothing: in a finite sample, calibrated forecasts also have one. A test
shows how often the error of calibrated forecasts would be as large. The three models of W19 have
ten classes and 250 samples: M1 is calibrated, M2 draws half of its labels from the first class, M3
draws all of them uniformly.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcalib import calibration_error, kernel_calibration_test
from skcalib.datasets import make_widmann
from skcalib.significance import consistency_test

# %%
# One data set
# ------------
# The result is a record. A positive estimate alone is not evidence, a small p-value is.

for model in ("M1", "M2", "M3"):
    data = make_widmann(250, model=model, random_state=0)
    print(model, kernel_calibration_test(data.y, data.y_proba))

# %%
# Any error can be tested by drawing labels from the forecasts, if the forecasts are kept:

data = make_widmann(250, model="M2", random_state=0)
test = consistency_test(
    data.y, data.y_proba, metric=calibration_error, resample_forecasts=False, random_state=0
)
print(test)

# %%
# Many data sets
# --------------
# Under calibration p-values are uniform: 5 % of them lie below .05. If the model is wrong they are
# concentrated near zero.

fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
edges = np.linspace(0, 1, 21)
for model, ax in zip(("M1", "M2", "M3"), axes, strict=True):
    draws = [make_widmann(250, model=model, random_state=seed) for seed in range(100)]
    pvalues = np.array([kernel_calibration_test(d.y, d.y_proba).pvalue for d in draws])
    ax.hist(pvalues, bins=edges, color="#4c72b0", edgecolor="white")
    ax.axhline(5, color="black", linestyle="--", linewidth=1, label="uniform")
    ax.axvspan(0, 0.05, color="#c44e52", alpha=0.2, label="rejected at 5 %")
    truth = draws[0].truth["total_variation"]
    ax.set_title(f"{model}: true error {truth:.2f}\nrejected: {np.mean(pvalues <= 0.05):.0%}")
    ax.set_xlabel("p-value")
axes[0].set_ylabel("data sets")
axes[0].legend(loc="upper right", fontsize="small")
plt.show()
