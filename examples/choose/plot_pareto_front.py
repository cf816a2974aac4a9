"""
Accurate or calibrated? A Pareto front
======================================

Each point is one of twenty-two classifiers on the same data. The axes are refinement (the
uncertainty that its forecasts do not resolve) and calibration error. Their sum is the Brier score.
Recalibration moves a point straight down at almost no cost. So of two models the one further to the
left is the better one *after* it, whatever their scores are now. No model is better in both than a
filled point. There are few of these, and after recalibration only the one furthest to the left
remains.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from skcalib import PlattScaling, score_decomposition

X, y = make_classification(
    9000, n_features=15, n_informative=6, n_clusters_per_class=3, flip_y=0.1, random_state=1
)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=1500, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, train_size=2500, random_state=0)

FAMILIES = {
    "boosting": [HistGradientBoostingClassifier(max_iter=n) for n in (5, 20, 80, 300)],
    "forest": [RandomForestClassifier(max_depth=d, random_state=0) for d in (2, 4, 7, 12, None)],
    "neighbours": [KNeighborsClassifier(k) for k in (5, 15, 50, 150, 500)],
    "logistic": [LogisticRegression(C=c) for c in (1e-4, 1e-3, 1e-2, 1)],
    "naive Bayes": [GaussianNB(var_smoothing=s) for s in (1e-9, 0.1, 1, 3)],
}
COLORS = ["#0072b2", "#009e73", "#e69f00", "#cc79a7", "#999999"]


def position(proba):
    """Refinement and calibration error, parts of the Brier score."""
    parts = score_decomposition(y_test, proba)
    return parts.refinement, parts.calibration


points = {}
for family, models in FAMILIES.items():
    for model in models:
        model.fit(X_train, y_train)
        before = model.predict_proba(X_test)
        recalibrator = PlattScaling().fit(model.predict_proba(X_cal), y_cal)
        points.setdefault(family, []).append(
            (position(before), position(recalibrator.predict_proba(before)))
        )
everywhere = np.array([before for pairs in points.values() for before, _ in pairs])

fig, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
for color, (family, pairs) in zip(COLORS, points.items(), strict=True):
    for before, after in pairs:
        best = not np.any(np.all(everywhere < before, axis=1))
        face = color if best else "white"
        arrow = {"arrowstyle": "->", "color": color, "alpha": 0.5}
        ax.annotate("", after, before, arrowprops=arrow)
        ax.plot(*before, "o", color=color, markerfacecolor=face, markersize=7)
    ax.plot([], [], "o", color=color, label=family)
ax.axhline(0, color="0.7", linewidth=0.8)
ax.set(xlabel="refinement: better features or models lower it")
ax.set(ylabel="calibration error: recalibration lowers it")
ax.legend(title="arrow: after Platt scaling")
plt.show()
