"""
A risk score at another hospital: which patients are affected?
==============================================================

A score for the risk of a complication was developed at one hospital. At a second hospital the
complication is rarer, the score's weights are too large, and for patients with diabetes, who were
few at the first hospital, the risk is underestimated. The usual numbers come first: intercept and
slope with intervals, and a logistic update, which corrects the first two faults. The third is not
visible on average, and affects one group.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit

from skcalib import (
    GroupingLossEstimator,
    PlattScaling,
    ReliabilityDisplay,
    calibration_intercept_slope,
)
from skcalib.grouping import differences_at_equal_scores
from skcalib.significance import spiegelhalter_test

rng = np.random.default_rng(0)
n = 12_000
patients = pd.DataFrame(
    {
        "age": rng.normal(65, 10, n).round(),
        "creatinine": rng.lognormal(0, 0.3, n).round(2),
        "diabetes": (rng.random(n) < 0.3).astype(int),
    }
)
effect = 0.06 * (patients["age"] - 65) + 1.5 * (patients["creatinine"] - 1)
score = expit(1.4 * effect - 1.0)
truth = expit(effect - 1.9 + 1.3 * patients["diabetes"])
event = (rng.random(n) < truth).astype(int)
local, later = slice(0, n // 2), slice(n // 2, n)

# %%
# On average the score is too high, and its slope is below one: it is too extreme.

found = calibration_intercept_slope(event[local], score[local])
for name in ("in_the_large", "intercept", "slope"):
    value = getattr(found, name)
    print(f"{name:13} {value.estimate:5.2f}  [{value.low:.2f}, {value.high:.2f}]")
print("Spiegelhalter", spiegelhalter_test(event[local], score[local]))

# %%
# A logistic update with local data corrects both. The diagram of later patients is fine.

update = PlattScaling().fit(score[local], event[local])
after = update.predict_proba(score[later])[:, 1]
fig, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, proba, name in ((axes[0], score[later], "as delivered"), (axes[1], after, "updated")):
    ReliabilityDisplay.from_predictions(event[later], proba, ax=ax, name=name)
plt.show()

# %%
# Who differs from other patients with equal scores? All features are searched, and the rule is
# learned.

grouping = GroupingLossEstimator(n_bins=5, region_ratio=250, random_state=0)
grouping.fit(patients[later], event[later], y_proba=after)
low, high = grouping.confidence_interval_
print(f"grouping loss at least {grouping.grouping_loss_:.4f} [{low:.4f}, {high:.4f}]")
found = differences_at_equal_scores(event[later], after, patients[later])
for group in found.named:
    print(f"{group.rule}: {group.observed:.2f} observed, {group.expected:.2f} at equal scores")
difference = (truth[later] - after).groupby(patients["diabetes"][later]).mean()
print(f"in truth: {difference[1]:+.2f} with diabetes, {difference[0]:+.2f} without")
