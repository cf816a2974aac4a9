"""Recalibrators of two classes against scikit-learn's fits, and maps of several classes.

    python doc/benchmarks/recalibrators.py [--quick]

Fits of scikit-learn to the same scores are the unit of the maps of one probability: isotonic
regression, which needs a sort, and logistic regression of the two logarithms, without a penalty.
A recalibrator also validates its input, measures its losses, and bounds the slopes of Beta
calibration. Affine maps choose the strength of their shrinkage from the samples, and the mixture of
all maps its weights.
"""

import argparse
from functools import partial

import numpy as np
from _measure import Row, finish, shortest
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from skcalib import (
    BetaCalibration,
    DirichletCalibration,
    IsotonicRecalibrator,
    StackedRecalibrator,
    VectorScaling,
)
from skcalib.recalibration import MatrixScaling

RATIO, REPEATS = 1.2, 5
#: Maps of several classes: their number, and the goal in seconds.
SEVERAL = (
    (VectorScaling, 100, 2.0),
    (MatrixScaling, 10, 2.0),
    (DirichletCalibration, 10, 2.0),
    (StackedRecalibrator, 100, 10.0),
)


def make_scores(n_samples):
    """Labels and probabilities of an event, which are too high."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n_samples)
    return (rng.random(n_samples) < p**1.3).astype(int), p


def make_classes(n_samples, n_classes):
    """Labels and forecasts of several classes, whose slopes and biases differ."""
    rng = np.random.default_rng(0)
    logits = 1.7 * rng.standard_normal((n_samples, n_classes))
    logits[np.arange(n_samples), rng.integers(n_classes, size=n_samples)] += 5
    slopes, biases = np.exp(0.3 * rng.standard_normal(n_classes)), rng.normal(0, 0.6, n_classes)
    proba = softmax(logits, axis=1)
    chances = softmax(0.65 * slopes * np.log(proba) + biases, axis=1)
    y = (chances.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    return y, proba


def ratio_row(name, n_samples, ours, peer):
    """Shortest times of both, taken in turn, as a row."""
    times = np.array([[shortest(run)[0] for run in (ours, peer)] for _ in range(REPEATS)])
    measured, unit = times.min(axis=0)
    return Row(
        f"{name}, n = {n_samples:,}, against scikit-learn's", measured / unit, RATIO, "times"
    )


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    quick = parser.parse_args().quick
    most = 10 if quick else 1
    y, p = make_scores(10**6 // most)
    isotonic = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    rows = [
        ratio_row(
            "IsotonicRecalibrator",
            len(y),
            lambda: IsotonicRecalibrator().fit(p, y),
            lambda: isotonic.fit(p, y),
        )
    ]
    y, p = make_scores(10**5 // most)
    logarithms = np.column_stack([np.log(p), -np.log1p(-p)])
    rows.append(
        ratio_row(
            "BetaCalibration",
            len(y),
            lambda: BetaCalibration().fit(p, y),
            lambda: LogisticRegression(C=np.inf).fit(logarithms, y),
        )
    )
    for kind, n_classes, goal in SEVERAL:
        y, proba = make_classes(10_000 // most, n_classes)
        seconds, _ = shortest(partial(kind(labels=range(n_classes)).fit, proba, y), 2)
        name = f"{kind.__name__}, n = {len(y):,}, K = {n_classes}"
        rows.append(Row(name, seconds, goal, "s"))
    finish(rows, quick=quick)


if __name__ == "__main__":
    main()
