"""Grid search over recalibrators of a cross-fitted classifier: how often the classifier is fitted.

    python doc/benchmarks/grid_search.py

A search over five maps in a pipeline after `CrossFitProba` has four sets of training samples: those
of three folds, and all. Without ``memory=`` the classifier is fitted to each of them again for each
map. With it, the fits and their out-of-fold probabilities are kept in a folder, and the goal is the
number of fits of a search over one map. Twice as many fail. Beside it are the processor times.
"""

from tempfile import TemporaryDirectory

import numpy as np
from _measure import Row, finish, shortest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skcalib import (
    BetaCalibration,
    CrossFitProba,
    IsotonicRecalibrator,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)

MAPS = [
    TemperatureScaling(),
    PlattScaling(),
    BetaCalibration(),
    VectorScaling(),
    IsotonicRecalibrator(),
]


class Counted(RandomForestClassifier):
    """A forest that counts the fits of all its copies."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        """Fit, and count."""
        Counted.n_fits += 1
        return super().fit(X, y, sample_weight)


def make_data(n_samples=1500):
    """Features, and labels of two classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 10))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_samples) > 0).astype(int)


def search(X, y, maps, *, keep):
    """Fits of the classifier, and seconds."""
    Counted.n_fits = 0
    with TemporaryDirectory() as folder:
        forest = Counted(n_estimators=20, min_samples_leaf=5, random_state=0)
        classifier = CrossFitProba(forest, memory=folder if keep else None)
        pipeline = Pipeline([("classifier", classifier), ("map", clone(maps[0]))])
        grid = GridSearchCV(pipeline, {"map": maps}, scoring="neg_log_loss", cv=3)
        seconds, _ = shortest(lambda: grid.fit(X, y))
    return Counted.n_fits, seconds


def main():
    """Run, print, assert."""
    X, y = make_data()
    one, least = search(X, y, MAPS[:1], keep=False)
    without, slow = search(X, y, MAPS, keep=False)
    fits, seconds = search(X, y, MAPS, keep=True)
    print(f"{'':32s}{'fits':>6s}{'seconds':>9s}")
    names = "one map", f"{len(MAPS)} maps", f"{len(MAPS)} maps, memory="
    for name, *found in zip(names, (one, without, fits), (least, slow, seconds), strict=True):
        print(f"{name:32s}{found[0]:6d}{found[1]:9.2f}")
    finish(
        [
            Row(
                f"Grid search over {len(MAPS)} maps, CrossFitProba(memory=): fits of the forest",
                fits / one,
                1.0,
                "times those for one map",
                note=f"{without / one:.1f} without memory=",
            )
        ]
    )


if __name__ == "__main__":
    main()
