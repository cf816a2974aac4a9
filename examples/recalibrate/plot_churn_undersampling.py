"""
A churn model after undersampling
=================================

One customer in twenty-five leaves. The model was trained on all who left and on a tenth of the
others, and is used in a season in which more leave. Its probabilities are far too high, though its
ranking is good. Two corrections need no labels: the share of the negatives that was used is known,
and the new frequency of the event can be estimated from the predictions themselves.
"""

# %%
# Training with a tenth of the negatives
# --------------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skcalib import LabelShiftRecalibrator, ReliabilityDisplay, calibration_intercept_slope

rng = np.random.default_rng(0)


def customers(n_samples, rate):
    """Features of each class are the same in all seasons; the rate of churn is not."""
    y = (rng.random(n_samples) < rate).astype(int)
    return rng.normal(size=(n_samples, 3)) + y[:, None] * [0.9, 0.6, 0.3], y


X, y = customers(60_000, rate=0.04)
kept = (y == 1) | (rng.random(len(y)) < 0.1)
model = LogisticRegression().fit(X[kept], y[kept])
X_new, y_new = customers(30_000, rate=0.08)
p = model.predict_proba(X_new)
print(f"predicted {p[:, 1].mean():.1%}, observed {y_new.mean():.1%}")

# %%
# Back to the population
# ----------------------
# The odds of churn in the sample are ten times those in the population. The correction is Bayes'
# rule with both frequencies, so it divides the odds of each prediction by ten.
sample, population = (np.array([1 - rate, rate]) for rate in (y[kept].mean(), y.mean()))
undersampling = LabelShiftRecalibrator(source_prior=sample, target_prior=population).fit(p)
corrected = undersampling.transform(p)
print(f"predicted {corrected[:, 1].mean():.1%}, as in the season of the training data")

# %%
# To a new season
# ---------------
# The frequency of the new season is estimated from its predictions, without labels. This assumes
# that only the frequency has changed, and not the features of those who leave.
season = LabelShiftRecalibrator(source_prior=sample).fit(p)
print(f"estimated rate {season.target_prior_[1]:.3f} +- {season.standard_error_[1]:.3f}")
adapted = season.transform(p)
models = {"As trained": p, "Population": corrected, "New season": adapted}
for name, proba in models.items():
    line = calibration_intercept_slope(y_new, proba)
    print(f"{name:<12} intercept {line.intercept} slope {line.slope}")

# %%
# With the labels of the new season, which come later, the result can be verified.
_, ax = plt.subplots(figsize=(5.5, 6), layout="constrained")
for name, proba in models.items():
    ReliabilityDisplay.from_predictions(y_new, proba, name=name, ax=ax)
plt.show()
