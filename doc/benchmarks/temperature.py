"""Temperature scaling against scikit-learn's, fitted on the same frozen scores, in one run.

    python doc/benchmarks/temperature.py [--quick]

The log loss is convex in the inverse temperature, and one blocked pass over the logits gives its
first three derivatives; Halley's method, started from 2,000 rows, then needs two or three passes.
The reference is the root of the derivative in float64, found by bracketing and nothing of ours.
Needs scikit-learn 1.8 or newer.
"""

import argparse

import numpy as np
from _measure import Row, finish, shortest
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from skcalib import TemperatureScaling

GOAL, ERROR = 8.0, 1e-8


class Scores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose decision values are its features."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


def make_logits(n_samples, n_classes):
    """float32 logits that are over-confident by a factor of about two."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((n_samples, n_classes), dtype=np.float32)
    y = rng.integers(n_classes, size=n_samples)
    logits[np.arange(n_samples), y] += 5 + 2 * rng.standard_normal(n_samples, dtype=np.float32)
    return 2.3 * logits, y


def reference(logits, y, near):
    """The temperature where the derivative of the log loss vanishes, in float64."""

    def slope(beta):
        total = 0.0
        for start in range(0, len(y), 1000):
            z = logits[start : start + 1000].astype(np.float64)
            mass = np.exp(beta * (z - z.max(axis=1, keepdims=True)))
            mean = np.sum(mass * z, axis=1) / mass.sum(axis=1)
            total += np.sum(mean - z[np.arange(len(z)), y[start : start + 1000]])
        return total

    return 1 / brentq(slope, 0.95 / near, 1.05 / near, xtol=1e-15, rtol=1e-13)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n=5,000, K=100")
    quick = parser.parse_args().quick
    n_samples, n_classes = (5000, 100) if quick else (50_000, 1000)
    logits, y = make_logits(n_samples, n_classes)

    ours_time, ours = shortest(lambda: TemperatureScaling(input="logits").fit(logits, y), 3)
    peer = CalibratedClassifierCV(FrozenEstimator(Scores(n_classes)), method="temperature")
    peer_time, peer = shortest(lambda: peer.fit(logits, y), 3 if quick else 1)
    peer_temperature = 1 / peer.calibrated_classifiers_[0].calibrators[0].beta_

    exact = reference(logits, y, ours.temperature_)
    errors = [abs(t / exact - 1) for t in (ours.temperature_, peer_temperature)]
    ratio = peer_time / ours_time

    print(f"n = {n_samples:,}, K = {n_classes:,}, float32 logits; temperature {exact:.10f}")
    print(f"{'':16s}{'seconds':>10s}{'relative error':>18s}")
    print(f"{'skcalib':16s}{ours_time:10.3f}{errors[0]:18.1e}")
    print(f"{'scikit-learn':16s}{peer_time:10.3f}{errors[1]:18.1e}")
    print(f"{ratio:.1f} times as fast (goal {GOAL:g})")
    name = f"Temperature, n = {n_samples:,}, K = {n_classes:,}"
    rows = [
        Row(f"{name}, against scikit-learn's", ratio, GOAL, "times", least=True),
        Row(f"{name}: relative error", errors[0], ERROR, strict=True),
    ]
    finish(rows, quick=quick)


if __name__ == "__main__":
    main()
