"""
Choose a model by its loss, and monitor the calibration error
=============================================================

A boosted classifier is under-confident with few trees. With more trees it becomes more accurate,
and finally over-confident. A search over the number of trees shows what several scorers would
choose, and why. The log loss is the sum of the calibration error, which a recalibrator can remove,
and the refinement, which it cannot.

Accuracy chooses more trees than the log loss does, although their probabilities are worse. The
calibration error agrees with the log loss here. It is not a suitable target, though: the forecast
that always predicts the class frequencies is calibrated, but not informative.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV

from skcalib import get_scorer

X, y = make_classification(
    3000, n_features=20, n_informative=5, n_clusters_per_class=4, flip_y=0.15, random_state=0
)
TREES = [1, 3, 10, 30, 100, 300]
SCORERS = {
    "log loss": "neg_log_loss",
    "calibration error": get_scorer("neg_log_calibration_error"),
    "accuracy": "accuracy",
}
search = GridSearchCV(
    HistGradientBoostingClassifier(learning_rate=0.1, random_state=0),
    {"max_iter": TREES},
    scoring=SCORERS,
    refit="log loss",
)
results = search.fit(X, y).cv_results_
loss, error = (-results[f"mean_test_{name}"] for name in ("log loss", "calibration error"))

# %%
# The three choices. The scorer of an error may return a value slightly above zero: the estimate
# has no bias at zero, so it may be negative.

for name in SCORERS:
    chosen = np.argmax(results[f"mean_test_{name}"])
    accuracy = results["mean_test_accuracy"][chosen]
    parts = f"log loss {loss[chosen]:.3f}, accuracy {accuracy:.3f}"
    print(f"{name:18} {TREES[chosen]:4} trees, {parts}")

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(TREES, loss, "o-", color="black", label="log loss")
ax.plot(TREES, loss - error, "o-", color="#56b4e9", label="refinement: the rest")
ax.plot(TREES, error, "o-", color="#d55e00", label="calibration error: recalibration removes it")
ax.axvline(search.best_params_["max_iter"], color="0.6", linestyle=":", label="chosen by log loss")
ax.axhline(0, color="0.8", linewidth=0.8)
ax.set(xscale="log", xticks=TREES, xticklabels=TREES, xlabel="trees", ylabel="nats, 5-fold")
ax.minorticks_off()
ax.legend()
plt.show()
