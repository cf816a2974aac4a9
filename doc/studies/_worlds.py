"""Simulated worlds whose calibration errors are known.

A world draws forecasts S as a classifier of Gaussian classes would give them, and labels from
C = g(S) with a known map g. So E[Y|S] = g(S) whatever g is, and no inverse is needed. None of the
maps "class-dependent" and "non-monotone" is in the family of the default smoother. The accuracy
study runs over `KINDS`. Intervals are also checked on `MORE_KINDS`, which nothing was tuned on.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from skcalib.data.notions import NOTIONS
from skcalib.scores import Brier, LogLoss, TotalVariation, expected_divergence

#: Separation of the classes, in standard deviations: accuracies of 86 to 68 %.
SEPARATION = {2: 1.5, 3: 2.0, 4: 2.1, 5: 2.2, 6: 2.3, 10: 2.5, 100: 3.0}
#: Probability of the last class in worlds of rare events (K = 2).
PREVALENCE = 0.02
SCORES = {"brier": Brier(), "log": LogLoss(), "l1": TotalVariation()}
_REFERENCE = {2: 1_000_000, 3: 700_000, 10: 300_000, 100: 60_000}  # rows behind a truth
_USUAL = 400_000  # the same for other numbers of classes


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
        forecast, conditional = (KINDS | MORE_KINDS | JUMPS | REGIONS | LAST)[self.kind](log_proba)
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


def _of_two(event):
    """Probabilities of the second of two classes -> of both."""
    return np.column_stack([1 - event, event])


def step(log_proba):
    """C is three fifths of S below one half, and as far from 1 above it."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    return proba, _of_two(np.where(s < 0.5, 0.6 * s, 1 - 0.6 * (1 - s)))


def four_steps(log_proba):
    """C has four values."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    return proba, _of_two(np.select([s < 0.15, s < 0.5, s < 0.8], [0.08, 0.2, 0.75], 0.9))


def sawtooth(log_proba):
    """Eight teeth, each nearly right on average."""
    proba = np.exp(log_proba)
    s = np.clip(proba[:, 1], 1e-6, 1 - 1e-6)
    return proba, _of_two(np.clip(s + 0.16 * ((8 * s) % 1 - 0.5), 0.004, 0.996))


def one_region(log_proba):
    """Forecasts between .6 and .75 are too high by .25; the others are right."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    return proba, _of_two(np.where((s > 0.6) & (s < 0.75), s - 0.25, s))


def plateau(log_proba):
    """C = .4 for forecasts between .3 and .7, and at least .8 above."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    high = np.where(s >= 0.7, np.clip(s, 0.8, 1), s)
    return proba, _of_two(np.where((s > 0.3) & (s < 0.7), 0.4, high))


def two_waves(log_proba):
    """Two waves, which vanish at both ends."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    return proba, _of_two(s + 0.25 * np.sin(4 * np.pi * s) * s * (1 - s))


def _moved(proba, source, target, mass):
    """The mass (n,) of one class is another."""
    conditional = proba.copy()
    conditional[:, source] -= mass
    conditional[:, target] += mass
    return conditional


def confused_pairs(log_proba):
    """A quarter of class 0 is class 1, a fifth of class 2 is class 3, a tenth of 1 is 2."""
    proba = np.exp(log_proba)
    conditional = proba
    for source, target, rate in ((0, 1, 0.25), (2, 3, 0.2), (1, 2, 0.1)):
        if target < proba.shape[1]:
            conditional = _moved(conditional, source, target, rate * proba[:, source])
    return proba, conditional


def confident_confusion(log_proba):
    """Where class 0 has more than .8, 15 % of it are class 1."""
    proba = np.exp(log_proba)
    return proba, _moved(proba, 0, 1, 0.15 * proba[:, 0] * (proba[:, 0] > 0.8))


def swapped_when_sure(log_proba):
    """Where class 0 or 1 has more than .9, a fifth of it is the other one."""
    proba = np.exp(log_proba)
    conditional = proba
    for source, target in ((0, 1), (1, 0)):
        mass = 0.2 * proba[:, source] * (proba[:, source] > 0.9)
        conditional = _moved(conditional, source, target, mass)
    return proba, conditional


#: Maps with jumps, and classes that are confused with each other.
JUMPS = {
    "step": step,
    "four steps": four_steps,
    "sawtooth": sawtooth,
    "one region": one_region,
    "plateau": plateau,
    "two waves": two_waves,
    "confused pairs": confused_pairs,
    "confident confusion": confident_confusion,
    "swapped when sure": swapped_when_sure,
}
OF_TWO = ("step", "four steps", "sawtooth", "one region", "plateau", "two waves")


def halves(log_proba):
    """C is .25 below one half and .8 above it."""
    proba = np.exp(log_proba)
    return proba, _of_two(np.where(proba[:, 1] < 0.5, 0.25, 0.8))


def cyclic_region(log_proba):
    """Where the confidence is between .5 and .7, a third of each class is the next one."""
    proba = np.exp(log_proba)
    confidence = proba.max(axis=1, keepdims=True)
    mass = proba * ((confidence > 0.5) & (confidence < 0.7)) / 3
    return proba, proba - mass + np.roll(mass, 1, axis=1)


def tied_pairs(log_proba):
    """Classes 0 and 1, 2 and 3, ... have equal probabilities where each has at least .05."""
    proba = np.exp(log_proba)
    conditional = proba.copy()
    for first in range(0, proba.shape[1] - 1, 2):
        pair = slice(first, first + 2)
        both = proba[:, pair].min(axis=1) >= 0.05
        conditional[both, pair] = proba[both, pair].mean(axis=1, keepdims=True)
    return proba, conditional


#: Held out once, and part of the settings of the intervals since then.
REGIONS = {"halves": halves, "cyclic region": cyclic_region, "tied pairs": tied_pairs}


def narrow_band(log_proba):
    """Forecasts between .4 and .5 are too high by .2, those between .15 and .2 too low by .15."""
    proba = np.exp(log_proba)
    s = proba[:, 1]
    high, low = (s > 0.4) & (s < 0.5), (s > 0.15) & (s < 0.2)
    return proba, _of_two(s - 0.2 * high + 0.15 * low)


def margin_wave(log_proba):
    """Mass moves between the first two classes, in a wave of the difference between them."""
    proba = np.exp(log_proba)
    rows, order = np.arange(len(proba)), np.argsort(-proba, axis=1)
    first, second = proba[rows, order[:, 0]], proba[rows, order[:, 1]]
    mass = 0.6 * second * np.sin(2 * np.pi * (first - second))
    conditional = proba.copy()
    conditional[rows, order[:, 0]] -= mass
    conditional[rows, order[:, 1]] += mass
    return proba, conditional


def unlikely_pair(log_proba):
    """Where classes 0 and 1 have less than .1 each, the likelier of 2 and 3 gives a quarter."""
    proba = np.exp(log_proba)
    rows = np.flatnonzero((proba[:, :2] < 0.1).all(axis=1))
    high = 2 + (proba[rows, 3] > proba[rows, 2])
    mass = 0.25 * proba[rows, high]
    conditional = proba.copy()
    conditional[rows, high] -= mass
    conditional[rows, 5 - high] += mass
    return proba, conditional


#: Written before the last change of the intervals, and used once after it.
LAST = {"narrow band": narrow_band, "margin wave": margin_wave, "unlikely pair": unlikely_pair}
_TRUTHS = {}


def true_error(world, loss, notion):
    """E D(E[Y|S], S) of the problems of a notion, by Monte Carlo over forecasts.

    No label is drawn, so the noise is small. Classwise and top-label problems know one coordinate
    of the forecast only: the mean of C given that coordinate is taken in a thousand bins, or for
    each value if there are fewer values.
    """
    key = (world.kind, world.n_classes, loss, notion)
    if key not in _TRUTHS:
        _, forecast, conditional = world.draw(987654321, _REFERENCE.get(world.n_classes, _USUAL))
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
