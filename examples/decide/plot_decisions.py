"""
Costs and thresholds
====================

Which patients should be referred, if a missed illness costs eight times as much as a needless
referral? The best threshold is then 1 / (1 + 8) = .11, provided that the probabilities are
calibrated. Here they are not: the model was trained on data with four times as many cases.
"""

# %%
# A model that predicts too much
# ------------------------------
# The labels follow a logistic model of two features. The training data have four times the odds, as
# after undersampling, so every predicted probability is too high.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from skcalib import DecisionCurveDisplay, MurphyDisplay, PlattScaling, decision_regret

rng = np.random.default_rng(0)
x = rng.normal(size=(8000, 2))
true_proba = expit(-2.5 + 1.2 * x[:, 0] + 0.6 * x[:, 1])
y = (rng.random(8000) < true_proba).astype(int)
proba = expit(logit(true_proba) + np.log(4) + 0.3 * rng.normal(size=8000))
print(f"{y.mean():.1%} are ill, {proba.mean():.1%} are predicted on average")

# %%
# What does it cost?
# ------------------
# The cost is in units of a needless referral. Recalibration is worth its mean, or the threshold can
# be moved to where the calibrated probability is .11.
found = decision_regret(y, proba, costs=[[0, 1], [8, 0]], X=x)
print(found)

# %%
# All thresholds
# --------------
# The Murphy diagram shows the mean cost at every threshold, and what recalibration would save. The
# area is largest where decisions are most often wrong.
display = MurphyDisplay.from_predictions(y, proba, name="Model", parts=True)
display.ax_.axvline(1 / 9, color="0.7", zorder=0)
plt.show()

# %%
# The decision curve shows the same in other units, the net benefit. Where it is below "treat all"
# or "treat none", the model does harm.
half = np.arange(8000) < 4000
platt = PlattScaling().fit(proba[half], y[half])
models = {"Model": proba[~half], "Recalibrated": platt.predict_proba(proba[~half])[:, 1]}
display = DecisionCurveDisplay.from_predictions(
    y[~half], models, thresholds=np.linspace(0.01, 0.5, 99)
)
plt.show()
