"""
Which of two models is better calibrated, on one page
=====================================================

The people of one score differ in two features. The model "average" is right on average in each
score, and does not use the features. The model "informed" uses them, but doubles the log odds of
the truth: it is over-confident. Which one is better calibrated, which one predicts better, and are
the differences significant? The verdict answers these questions. The table recommends a
recalibration for "informed" only, after which it has the smaller loss.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from skcalib import ComparisonReport
from skcalib.datasets import make_grouping_problem

data = make_grouping_problem(4000, random_state=0)
truth = np.clip(data.posterior[:, 1], 1e-6, 1 - 1e-6)
models = {"average": data.y_proba[:, 1], "informed": expit(2 * logit(truth))}
comparison = ComparisonReport.from_predictions(data.y, models, data.X)
print(comparison)

# %%
# The differences behind the verdict, in the units of their quantity: left of zero the model
# "average" is better. Intervals are paired, since both models predict the same samples.

names = {
    "brier": "Brier score",
    "calibration": "Brier calibration error",
    "refinement": "Brier score, recalibrated",
    "kernel": "Squared kernel calibration error",
}
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
shown = [one for one in comparison.differences if one.quantity in names]
for row, one in enumerate(shown):
    found = one.difference
    reach = [[found.estimate - found.low], [found.high - found.estimate]]
    ax.errorbar(found.estimate, row, xerr=reach, fmt="o", color="#0072b2", capsize=3)
ax.axvline(0, color="0.4", linestyle=":")
ax.set_yticks(range(len(shown)), [names[one.quantity] for one in shown])
ax.set_ylim(len(shown) - 0.5, -0.5)
ax.set(xlabel='"average" minus "informed"', title="Paired differences with 95 % intervals")
plt.show()

# %%
# The whole page, as displayed in a notebook; ``comparison.to_html("comparison.html")`` writes it.

comparison
