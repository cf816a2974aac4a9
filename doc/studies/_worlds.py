"""Simulated worlds whose calibration errors are known.

A world draws forecasts S as a classifier of Gaussian classes would give them, and labels from
C = g(S) with a known map g. So E[Y|S] = g(S) whatever g is, and no inverse is needed. None of the
maps "class-dependent" and "non-monotone" is in the family of the default smoother. The accuracy
study runs over `KINDS`. Intervals are also checked on `MORE_KINDS`, which nothing was tuned on.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from skcalib.notions import NOTIONS
from skcalib.scores import Brier, LogLoss, TotalVariation
from skcalib.tower import expected_divergence

#: Separation of the classes, in standard deviations: accuracies of 86, 87, 81 and 68 %.
SEPARATION = {2: 1.5, 3: 2.0, 10: 2.5, 100: 3.0}
#: Probability of the last class in worlds of rare events (K = 2).
PREVALENCE = 0.02
SCORES = {"brier": Brier(), "log": LogLoss(), "l1": TotalVariation()}
_REFERENCE = {2: 1_000_000, 3: 700_000, 10: 300_000, 100: 60_000}  # rows behind a truth


@dataclass(frozen=True)
class World:
    """Forecasts of n samples in K classes, and in what way they are wrong."""

    kind: str
    n_classes: int
    n_samples: int

    def draw(self, seed, n_samples=None):
        """Labels, forecasts S and E[Y|S] of one data set."""
        rng = np.random.default_rng([seed, self.n_classes])
        n_samples = self.n_samples if n_samples is None else n_samples
        features = rng.normal(size=(n_samples, self.n_classes))
        rows = np.arange(n_samples)
        separation = SEPARATION[self.n_classes]
        prior = np.zeros(self.n_classes)
        if self.kind.startswith("rare"):
            prior = np.log([1 - PREVALENCE, PREVALENCE])
            drawn = (rng.uniform(size=n_samples) < PREVALENCE).astype(int)
        else:
            drawn = rng.integers(self.n_classes, size=n_samples)
        features[rows, drawn] += separation
        log_proba = log_softmax(separation * features + prior, axis=1)
        forecast, conditional = (KINDS | MORE_KINDS)[self.kind](log_proba)
        level = rng.uniform(size=(n_samples, 1)) * conditional.sum(axis=1, keepdims=True)
        labels = np.sum(conditional.cumsum(axis=1) <= level, axis=1)
        return np.minimum(labels, self.n_classes - 1), forecast, conditional


def calibrated(log_proba):
    """S = C."""
    proba = np.exp(log_proba)
    return proba, proba


def over_confident(log_proba):
    """The logits are too large by 1 / .7."""
    return softmax(log_proba / 0.7, axis=1), np.exp(log_proba)


def under_confident(log_proba):
    """The logits are too small by .7."""
    return softmax(0.7 * log_proba, axis=1), np.exp(log_proba)


def class_dependent(log_proba):
    """Slopes that alternate by class, and biases between -.5 and .5."""
    n_classes = log_proba.shape[1]
    place = np.arange(n_classes)
    slope = 0.9 + 0.3 / np.log2(n_classes) * np.cos(np.pi * place)
    bias = 0.5 * np.cos(2 * np.pi * place / max(n_classes - 1, 2))
    return np.exp(log_proba), softmax(slope * log_proba + bias, axis=1)


def non_monotone(log_proba):
    """The top class is right with a probability that goes up and down with its confidence."""
    proba = np.exp(log_proba)
    rows, top = np.arange(len(proba)), proba.argmax(axis=1)
    confidence = proba[rows, top]
    lowest = 1 / proba.shape[1]
    rest = 1 - confidence
    # One wave between the least confidence and 1, where it vanishes: the map is continuous.
    wave = np.sin(2 * np.pi * (confidence - lowest) / (1 - lowest))
    right = confidence + 0.7 * rest * wave
    conditional = proba * np.where(rest > 0, (1 - right) / np.where(rest > 0, rest, 1), 1)[:, None]
    conditional[rows, top] = right
    return proba, conditional


KINDS = {
    "calibrated": calibrated,
    "over-confident": over_confident,
    "under-confident": under_confident,
    "class-dependent": class_dependent,
    "non-monotone": non_monotone,
}


def class_slopes(log_proba):
    """Slopes of the log probabilities that alternate between .7 and 1.3 by class."""
    slope = 1 + 0.3 * np.cos(np.pi * np.arange(log_proba.shape[1]))
    return np.exp(log_proba), softmax(slope * log_proba, axis=1)


def s_curve(log_proba):
    """Centred logits that are steeper in the middle and flat far from it."""
    scale = SEPARATION[log_proba.shape[1]] ** 2 * 2 / 3
    centred = log_proba - log_proba.mean(axis=1, keepdims=True)
    return np.exp(log_proba), softmax(1.2 * scale * np.tanh(centred / scale), axis=1)


def local_bump(log_proba):
    """Calibrated, except where the top class has a confidence between .65 and .85."""
    proba = np.exp(log_proba)
    rows, top = np.arange(len(proba)), proba.argmax(axis=1)
    confidence = proba[rows, top]
    distance = np.clip((confidence - 0.75) / 0.1, -1, 1)
    right = confidence - 0.3 * (1 - distance**2) ** 2
    rest = np.where(confidence < 1, 1 - confidence, 1)
    conditional = proba * np.where(confidence < 1, (1 - right) / rest, 1)[:, None]
    conditional[rows, top] = right
    return proba, conditional


def ties(log_proba):
    """Forecasts that are rounded to twentieths, inside the simplex, and over-confident."""
    n_classes = log_proba.shape[1]
    exact = 20 * np.exp(log_proba)
    count = np.floor(exact)
    # Largest remainders: the classes that gain one more twentieth.
    missing = 20 - count.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(count - exact, axis=1, kind="stable"), axis=1)
    count += rank < missing
    forecast = (count + 0.25) / (20 + 0.25 * n_classes)
    return forecast, softmax(0.7 * np.log(forecast), axis=1)


def label_noise(log_proba):
    """A label becomes the next class with a probability of .15 or .03, in turn by class."""
    proba = np.exp(log_proba)
    flipped = proba * np.where(np.arange(proba.shape[1]) % 2 == 0, 0.15, 0.03)
    return proba, proba - flipped + np.roll(flipped, 1, axis=1)


MORE_KINDS = {
    "class slopes": class_slopes,
    "S-curve": s_curve,
    "local bump": local_bump,
    "ties": ties,
    "label noise": label_noise,
    "rare event": calibrated,
    "rare event, over-confident": over_confident,
}
_TRUTHS = {}


def true_error(world, loss, notion):
    """E D(E[Y|S], S) of the problems of a notion, by Monte Carlo over forecasts.

    No label is drawn, so the noise is small. Classwise and top-label problems know one coordinate
    of the forecast only: the mean of C given that coordinate is taken in a thousand bins, or for
    each value if there are fewer values.
    """
    key = (world.kind, world.n_classes, loss, notion)
    if key not in _TRUTHS:
        _, forecast, conditional = world.draw(987654321, _REFERENCE[world.n_classes])
        problems = NOTIONS[notion]().problems(forecast, conditional)
        if notion != "canonical":
            problems = (_bin_means(*problem) for problem in problems)
        errors = [expected_divergence(SCORES[loss], c, s) for s, c in problems]
        _TRUTHS[key] = float(np.mean(errors))
    return _TRUTHS[key]


def _bin_means(forecast, conditional, n_bins=1000):
    _, place, count = np.unique(forecast[:, 1], return_inverse=True, return_counts=True)
    if len(count) <= n_bins:
        means = [np.bincount(place, a) / count for a in conditional.T]
        return forecast, np.column_stack(means)[place]
    order = np.argsort(forecast[:, 1], kind="stable")
    cells = np.array_split(order, n_bins)
    return tuple(
        np.array([a[cell].mean(axis=0) for cell in cells]) for a in (forecast, conditional)
    )
