"""
Recalibration on reused or on fresh samples
===========================================

Histogram binning needs labelled samples: the training samples of the classifier again, or fewer but
fresh ones? F24 bound the true calibration error (TCE) after the binning with B bins. The bound is
:math:`\\sqrt{2 B \\ln 2 / (n - B)} + 2 B / (n - B)` for n fresh samples (corollary 5). It is
:math:`2 \\sqrt{2 (I + B \\ln 2) / n}` for n reused ones (theorem 7), where I is the information of
the forecasts about the choice of the training samples. Their table 1 is repeated with simulated
data of known TCE. Three classifiers are trained on 2,000 samples, on five data sets each, and
recalibrated with :math:`B = \\lfloor 2000^{1/3} \\rfloor` bins.

Reusing is better for the logistic regression, whose forecasts contain little information. It makes
no difference for boosting. It is much worse for the forest, whose forecasts on training samples are
nearly their labels. There the error exceeds even the smallest bound for reused samples (I = 0).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from skcalib import HistogramBinning
from skcalib.smoothers import QuantileBins
from skcalib.theory import ece_generalization_bound

N_TRAIN, N_FRESH, SIZES = 2000, 400, [50, 100, 200, 400, 800, 1600]
N_BINS = int(N_TRAIN ** (1 / 3))
CLASSIFIERS = {
    "logistic regression": LogisticRegression(),
    "gradient boosting": GradientBoostingClassifier(n_estimators=50, random_state=0),
    "random forest": RandomForestClassifier(50, random_state=0),
}


def draw(n_samples, rng):
    X = rng.normal(size=(n_samples, 10))
    posterior = expit(1.5 * X[:, 0] + X[:, 1] * X[:, 2])
    return X, (rng.random(n_samples) < posterior).astype(int), posterior


def recalibrated_error(classifier, X, y):
    """TCE on new samples over 100 bins, from probabilities instead of labels."""
    binning = HistogramBinning(n_bins=N_BINS).fit(classifier.predict_proba(X), y)
    proba = binning.predict_proba(new)
    bins = QuantileBins(100).fit(proba, posterior[:, None])
    return np.abs(bins.smooth() - bins.smooth(proba[:, 1:])).mean()


rng = np.random.default_rng(0)
X_new, _, posterior = draw(20_000, rng)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for place, (name, classifier) in enumerate(CLASSIFIERS.items()):
    reused, fresh = np.empty(5), np.empty((5, len(SIZES)))
    for r in range(5):
        X, y, _ = draw(N_TRAIN, rng)
        new = classifier.fit(X, y).predict_proba(X_new)
        reused[r] = recalibrated_error(classifier, X, y)
        fresh[r] = [recalibrated_error(classifier, *draw(n, rng)[:2]) for n in SIZES]
    few = fresh[:, SIZES.index(N_FRESH)]
    print(f"{name:20} TCE with reused samples {reused.mean():.3f}, fresh {few.mean():.3f}")
    left.errorbar(place - 0.1, few.mean(), few.std(), fmt="o", color="0.5")
    left.errorbar(place + 0.1, reused.mean(), reused.std(), fmt="s", color="k")
    right.plot(SIZES, fresh.mean(axis=0), "o-", color=f"C{place}", label=name)
    right.axhline(reused.mean(), color=f"C{place}", linestyle=":")

for kind, n in (("reused", N_TRAIN), ("fresh", N_FRESH)):
    bound = ece_generalization_bound(n, N_BINS, bound=f"recalibrated_{kind}")
    print(f"bound for {n} {kind} samples{', I = 0' * (kind == 'reused')}: {bound:.3f}")
bounds = [ece_generalization_bound(n, N_BINS, bound="recalibrated_fresh") for n in SIZES]
right.plot(SIZES, bounds, "k--", label="bound, fresh samples")
left.legend(["400 fresh samples", "2,000 reused samples"], loc="upper left")
left.set(title=f"TCE after histogram binning, {N_BINS} bins", ylabel="TCE", ylim=(0, None))
left.set(xticks=range(len(CLASSIFIERS)), xticklabels=CLASSIFIERS, xlim=(-0.5, 2.5))
right.set(xscale="log", yscale="log", xlabel="fresh samples", ylabel="TCE", ylim=(0.01, 2))
right.set(xticks=SIZES, xticklabels=SIZES, title="By fresh samples; dotted: 2,000 reused")
right.minorticks_off()
right.legend(loc="upper right", fontsize="small")
plt.show()
