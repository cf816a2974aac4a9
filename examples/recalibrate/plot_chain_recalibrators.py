"""
Chain recalibrators and let GridSearchCV choose
===============================================

Naive Bayes counts correlated features twice and is very over-confident. Its cross-fitted
probabilities pass through two recalibrators, and a grid search varies both: nine chains, and the
smoothing of the classifier. Dots: log loss in the search, with standard errors. Crosses: the
expected log loss of the chain, refitted on all samples, which is known because the posterior
probabilities are known. No model can be below the dashed line.

The search finds the chain of lowest expected loss. Not recalibrating is the worst. Five bins lose a
part of the gain of the map before them. They do not depend on that map, because bins of equal mass
use only the order of the forecasts.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from skcalib import (
    CrossFitProba,
    HistogramBinning,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    PlattScaling,
    TemperatureScaling,
)
from skcalib.scores import LogLoss


def draw(n_samples, seed):
    """Six features, three of a kind; labels; posterior probabilities."""
    rng = np.random.default_rng(seed)
    cause = rng.standard_normal((n_samples, 2))
    X = np.repeat(cause, 3, axis=1) + 0.4 * rng.standard_normal((n_samples, 6))
    p = expit(cause[:, 0] + 1.5 * np.maximum(cause[:, 1], 0) - 1)
    y = np.where(rng.random(n_samples) < p, "yes", "no")
    return X, y, np.column_stack([1 - p, p])


X, y, _ = draw(1500, seed=0)
X_new, _, posterior = draw(20_000, seed=1)
first = [IdentityRecalibrator(), TemperatureScaling(), PlattScaling()]
second = [IdentityRecalibrator(), IsotonicRecalibrator(strict=True), HistogramBinning(n_bins=5)]
pipeline = make_pipeline(CrossFitProba(GaussianNB()), IdentityRecalibrator(), TemperatureScaling())
grid = {
    "identityrecalibrator": first,
    "temperaturescaling": second,
    "crossfitproba__estimator__var_smoothing": [1e-9, 0.1],
}
search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", n_jobs=2).fit(X, y)

results = search.cv_results_
scores = np.stack([results[f"split{k}_test_score"] for k in range(search.n_splits_)])
best = search.best_params_["crossfitproba__estimator__var_smoothing"]
rows = [i for i, p in enumerate(results["params"]) if best in p.values()]
rows.sort(key=lambda i: -results["mean_test_score"][i])
fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
names = []
for position, i in enumerate(rows):
    steps = [results["params"][i][name] for name in ("identityrecalibrator", "temperaturescaling")]
    kinds = [type(s).__name__ for s in steps if not isinstance(s, IdentityRecalibrator)]
    names.append(" → ".join(kinds) or "nothing")
    model = clone(pipeline).set_params(**results["params"][i]).fit(X, y)
    expected = LogLoss().loss(posterior, model.predict_proba(X_new)).mean()
    error = scores[:, i].std(ddof=1) / np.sqrt(len(scores))
    ax.errorbar(-scores[:, i].mean(), position, xerr=error, fmt="o", color="C0", capsize=3)
    ax.plot(expected, position, "kx")
ax.axvline(LogLoss().entropy(posterior).mean(), color="k", linestyle="--")
ax.plot([], [], "o-", color="C0", label="in the search")
ax.plot([], [], "kx", label="expected")
ax.legend()
ax.set(xlabel="log loss", yticks=range(len(names)), yticklabels=names)
ax.invert_yaxis()
plt.show()
