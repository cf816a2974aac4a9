"""
Calibrated, and still wrong for half the people
===============================================

A risk model uses the age and the blood pressure of 10,000 simulated patients, but not smoking. Its
forecasts are calibrated: 30 % of all people with a risk of 30 % fall ill. Among the smokers it is
42 %, among the others 18 %. No reliability diagram can show this, as it averages over people with
the same score. A grouping diagram can, from labels and features alone.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skcalib import GroupingDisplay

rng = np.random.default_rng(0)
n = 10_000
patients = pd.DataFrame(
    {
        "age": rng.normal(60, 12, n).round(),
        "blood pressure": rng.normal(135, 18, n).round(),
        "smoker": rng.integers(0, 2, n),
    }
)
shared = 0.09 * (patients["age"] - 60) + 0.04 * (patients["blood pressure"] - 135)
ill = (rng.random(n) < expit(shared - 0.6 + 1.2 * patients["smoker"])).astype(int)

train, test = slice(0, n // 2), slice(n // 2, n)
known = patients[["age", "blood pressure"]]
model = LogisticRegression().fit(known[train], ill[train])
risk = model.predict_proba(known[test])[:, 1]

# %%
# The model is fitted on one half and evaluated on the other. Level sets of its score are split in
# two by the feature that separates them best. The search uses every column, and finds the one that
# the model lacks. Numbered regions are named below the axes. The dashed curves are the truth of
# this simulation.

fig, ax = plt.subplots(figsize=(6, 10), layout="constrained")
effect = np.linspace(-6, 6, 300)
low, high = expit(effect - 0.6), expit(effect + 0.6)
for frequency, color, who in ((high, "#0072b2", "smokers"), (low, "#d55e00", "the others")):
    truth = {"color": color, "linestyle": "--", "linewidth": 1}
    ax.plot((low + high) / 2, frequency, label=f"True risk of {who}", **truth)
display = GroupingDisplay.from_predictions(
    ill[test], risk, patients[test], n_rules=4, name="Risk of illness", ax=ax
)
plt.show()

# %%
# The calibration error is zero, but the grouping loss is large: recalibration cannot reduce it, but
# one additional feature would.

found, bound = display.diagrams[0], display.diagrams[0].grouping_loss
print(f"calibration error {found.calibration_error:z.4f}")
print(f"grouping loss     {bound.estimate:.4f} at least, [{bound.low:.4f}, {bound.high:.4f}]")
difference = expit(shared[test] - 0.6 + 1.2 * patients["smoker"][test]) - risk
print(f"both, in truth    {np.mean(difference**2):.4f}")
