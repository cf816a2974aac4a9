"""
Decompose the loss of three classifiers
=======================================

The losses of three classifiers have different causes. Naive Bayes counts a signal three times, and
would be improved by recalibration. Logistic regression is calibrated, but misses an interaction:
only a better use of the features helps. The forest finds the interaction, and most of its loss is
irreducible. The data are simulated, so the truth is known (diamonds).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from skcalib import DecompositionDisplay

rng = np.random.default_rng(0)
signal, left, right = rng.standard_normal((3, 8000))
copies = signal[:, None] + 0.3 * rng.standard_normal((8000, 2))
X = np.column_stack([signal, copies, left, right])
frequency = expit(1.5 * signal + left * right)
y = (rng.random(8000) < frequency).astype(int)

# %%
# Each model is evaluated by its out-of-fold probabilities. ``DecompositionDisplay.from_estimators``
# with ``cv=5`` does this automatically; here they are kept to compute their true errors.

models = {
    "Naive Bayes": GaussianNB(),
    "Logistic regression": LogisticRegression(),
    "Random forest": RandomForestClassifier(min_samples_leaf=20, random_state=0),
}
proba = {
    name: cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1]
    for name, model in models.items()
}
truth = [np.mean((p - frequency) ** 2) for p in proba.values()]

# %%
# A diamond is the true sum of calibration error and grouping loss, the mean square of forecast
# minus true frequency. The two estimates approach it from the left as the data increase, because
# both are lower bounds. The part to the right of the diamond is the irreducible loss, the same for
# all.

display = DecompositionDisplay.from_predictions(y, proba, X, grouping="risk")
rows = range(len(models))
display.ax_.plot(truth, rows, "D", color="white", markeredgecolor="black", markersize=7, zorder=6)
plt.show()

# %%
# The same in numbers.

for term, true in zip(display.terms, truth, strict=True):
    estimate = term.calibration.estimate + term.grouping.estimate
    print(f"{term.name:20} calibration + grouping {estimate:.4f}, in truth {true:.4f}")
print(f"irreducible, in truth {np.mean(frequency * (1 - frequency)):.4f}")
