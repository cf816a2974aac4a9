"""Tier 1: simulated worlds, where the posterior P(Y | S) of every forecast S is known.

Forecasts are those of a classifier of Gaussian classes. Labels are drawn from C = g(S) with a known
map g. So the expected loss of a map has no noise of test labels. The strength of each g is drawn
from the range that its function states: worlds of other seeds are other worlds.
"""

from functools import partial

import numpy as np
from _setting import Setting, draw_labels, generator
from scipy.special import expit, log_softmax, logit, softmax

#: Test forecasts for each number of classes.
N_TEST = {2: 10_000, 3: 10_000, 5: 10_000, 10: 10_000, 12: 10_000, 20: 5_000, 100: 3_000}
#: Range of the separation of the classes, in standard deviations.
SEPARATION = {2: (0.8, 2), 3: (1, 2.5), 5: (1, 2.5), 10: (1.2, 3), 12: (1.2, 3), 20: (1.5, 3.2)}
SIZES = (100, 200, 400, 800, 2_000, 10_000)


# --- maps of any number of classes: log forecasts (m, K) -> posterior (m, K) ----------------------
# Each takes a generator and the number of classes, draws its strength, and returns the map.


def calibrated(rng, n_classes):
    """C = S."""
    return np.exp


def overconfident(rng, n_classes):
    """Logits of C are .4 to .8 times those of S."""
    slope = rng.uniform(0.4, 0.8)
    return lambda log_proba: softmax(slope * log_proba, axis=1)


def underconfident(rng, n_classes):
    """Logits of C are 1.3 to 2.2 times those of S."""
    slope = rng.uniform(1.3, 2.2)
    return lambda log_proba: softmax(slope * log_proba, axis=1)


def shifted(rng, n_classes):
    """The prior of the classes differs: standard deviation .5 to 1 of the log odds."""
    bias = rng.uniform(0.5, 1) * _spread(rng, n_classes)
    return lambda log_proba: softmax(log_proba + bias, axis=1)


def slopes(rng, n_classes):
    """Each class has a slope of its own, .4 to 1.6, and a bias of standard deviation .3."""
    slope, bias = rng.uniform(0.4, 1.6, n_classes), 0.3 * _spread(rng, n_classes)
    return lambda log_proba: softmax(slope * log_proba + bias, axis=1)


def shapes(rng, n_classes):
    """Each class has a shape of its own: a slope, a bound, a bend or a step of its log forecast."""
    kinds = rng.permutation(np.arange(n_classes) % 4)
    strength = rng.uniform(0.5, 1, n_classes)

    def posterior(log_proba):
        made = np.empty_like(log_proba)
        for k, (kind, s) in enumerate(zip(kinds, strength, strict=True)):
            u = log_proba[:, k]
            options = (s * u, 3 * s * np.tanh(u / (3 * s)), u - s * np.exp(u), u + s * (u > -1))
            made[:, k] = options[kind]
        return softmax(made, axis=1)

    return posterior


def matrix(rng, n_classes):
    """Logits of C are a matrix times those of S: entries off the diagonal of about .4 / sqrt(K)."""
    weight = np.eye(n_classes) + rng.normal(size=(n_classes,) * 2) * 0.4 / np.sqrt(n_classes)
    return lambda log_proba: softmax(np.maximum(log_proba, -20) @ weight, axis=1)


def noise(rng, n_classes):
    """A share of .05 to .4 of the labels is replaced by a class at random."""
    share = rng.uniform(0.05, 0.4)
    return lambda log_proba: (1 - share) * np.exp(log_proba) + share / n_classes


def confusions(rng, n_classes):
    """Labels of classes 0 and 1, 2 and 3, ... are swapped with .02 to .4, by class."""
    rate = rng.uniform(0.02, 0.4, n_classes)
    partner = np.arange(n_classes) ^ 1
    partner[partner == n_classes] = n_classes - 1  # an odd number: the last class has none

    def posterior(log_proba):
        moved = np.exp(log_proba) * rate
        return np.exp(log_proba) - moved + moved[:, partner]

    return posterior


def wave(rng, n_classes):
    """The top class is right with a probability that waves around its confidence."""
    height, cycles = rng.uniform(0.3, 0.8) * rng.choice([-1, 1]), rng.uniform(1, 2)

    def posterior(log_proba):
        proba = np.exp(log_proba)
        rows, top = np.arange(len(proba)), proba.argmax(axis=1)
        confidence = proba[rows, top]
        lowest = 1 / n_classes
        phase = 2 * np.pi * cycles * (confidence - lowest) / (1 - lowest)
        right = confidence + height * np.minimum(1 - confidence, confidence) * np.sin(phase)
        rest = np.where(confidence < 1, 1 - confidence, 1)
        made = proba * np.where(confidence < 1, (1 - right) / rest, 1)[:, None]
        made[rows, top] = right
        return made

    return posterior


def saturated(rng, n_classes):
    """Logits of C relative to their mean are bounded by 1.5 to 4, as with wrong training labels."""
    bound = rng.uniform(1.5, 4)

    def posterior(log_proba):
        centred = log_proba - log_proba.mean(axis=1, keepdims=True)
        return softmax(bound * np.tanh(centred / bound), axis=1)

    return posterior


# --- maps of two classes: functions of the log odds u of class 1 ----------------------------------


def tempered_and_shifted(rng):
    """A slope of .4 to 1.8 and a shift of up to 1.5."""
    slope, bias = rng.uniform(0.4, 1.8), rng.uniform(-1.5, 1.5)
    return lambda u: slope * u + bias


def beta_shaped(rng):
    """A log S - b log(1 - S) + c; a and b of .3 to 2 differ by a factor of 1.5 at least."""
    a = rng.uniform(0.3, 1)
    b = a * rng.uniform(1.5, 3)
    if rng.random() < 0.5:
        a, b = b, a
    c = rng.uniform(-0.5, 0.5)
    return lambda u: -a * np.logaddexp(0, -u) + b * np.logaddexp(0, u) + c


def two_slopes(rng):
    """A slope below 0 and another above it, .2 to 2 each."""
    low, high = rng.uniform(0.2, 0.8), rng.uniform(1, 2)
    low, high = (low, high) if rng.random() < 0.5 else (high, low)
    return lambda u: np.where(u < 0, low, high) * u


def stepped(rng):
    """Three to seven steps of C as a function of S, in rising order."""
    n_steps = rng.integers(3, 8)
    places = np.sort(rng.uniform(-3, 3, n_steps - 1))
    heights = np.sort(rng.uniform(-3, 3, n_steps))
    return lambda u: heights[np.searchsorted(places, u)]


def sawtooth(rng):
    """A slope, and a sawtooth of two to five teeth and a height of .5 to 1.5 log odds."""
    height, teeth = rng.uniform(0.5, 1.5), rng.uniform(2, 5)
    return lambda u: u + height * (2 * ((teeth * expit(u)) % 1) - 1)


def uneven_noise(rng):
    """Labels of class 0 are flipped with 0 to .05, those of class 1 with .1 to .35."""
    zero, one = rng.uniform(0, 0.05), rng.uniform(0.1, 0.35)
    return lambda u: logit(expit(u) * (1 - one) + expit(-u) * zero + 1e-12)


def _of_log_odds(shape, rng, n_classes):
    log_odds = shape(rng)

    def posterior(log_proba):
        u = log_odds(log_proba[:, 1] - log_proba[:, 0])
        return np.column_stack([expit(-u), expit(u)])

    return posterior


def _spread(rng, n_classes):
    """Numbers of mean 0 and standard deviation 1, whatever the number of classes."""
    drawn = rng.permutation(np.linspace(-1, 1, n_classes)) + 0.1 * rng.normal(size=n_classes)
    return (drawn - drawn.mean()) / drawn.std()


# --- the list of worlds ---------------------------------------------------------------------------

ANY = {
    "calibrated": calibrated,
    "overconfident": overconfident,
    "underconfident": underconfident,
    "shifted": shifted,
    "slopes": slopes,
    "shapes": shapes,
    "matrix": matrix,
    "noise": noise,
    "confusions": confusions,
    "wave": wave,
    "saturated": saturated,
    "zeros": overconfident,  # of forecasts that are shares of few neighbours
    "zeros, slopes": slopes,
}
BINARY = {
    name: partial(_of_log_odds, shape)
    for name, shape in {
        "tempered and shifted": tempered_and_shifted,
        "beta": beta_shaped,
        "two slopes": two_slopes,
        "stepped": stepped,
        "sawtooth": sawtooth,
        "uneven noise": uneven_noise,
    }.items()
}
TWO_CLASSES = (
    *("calibrated", "overconfident", "underconfident", "shifted", "tempered and shifted", "beta"),
    *("two slopes", "stepped", "sawtooth", "noise", "uneven noise", "wave", "saturated", "zeros"),
)
#: Events expected in the calibration sample of a world of rare events, with its size.
RARE = ((3, 100), (2, 400), (5, 400), (10, 1_000), (20, 2_000), (20, 400), (50, 5_000))


def worlds():
    """Kind, K, n and expected events (0: not rare) of every world."""
    for i, kind in enumerate(TWO_CLASSES):
        for j in (0, 2, 4):
            yield kind, 2, SIZES[(i + j) % 6], 0
    for i, (events, n_samples) in enumerate(RARE):
        yield ("calibrated", "overconfident", "shifted")[i % 3], 2, n_samples, events
    for n_classes, places in ((3, (0, 3)), (5, (1,)), (10, (2, 5))):
        for i, kind in enumerate(ANY):
            for j in places:
                yield kind, n_classes, SIZES[(i + j) % 6], 0
    yield from (("shapes", 12, n, 0) for n in (400, 2_000, 10_000))
    for kind, n_samples in (
        *(("calibrated", 200), ("overconfident", 100), ("slopes", 2_000), ("noise", 800)),
        *(("shifted", 10_000), ("confusions", 2_000)),
    ):
        yield kind, 20, n_samples, 0
    for kind, n_samples in (
        *(("calibrated", 1_000), ("overconfident", 400), ("underconfident", 2_000)),
        *(("slopes", 800), ("slopes", 10_000), ("noise", 2_000), ("shifted", 5_000)),
    ):
        yield kind, 100, n_samples, 0
    yield "stepped", 2, 30_000, 0
    yield "overconfident", 3, 30_000, 0


def draw(seeds, kind, n_classes, n_samples, events=0):
    """The setting of a world; a sample of two classes has at least two labels of each."""
    name = f"{kind}, K = {n_classes}, n = {n_samples}" + (f", {events} events" if events else "")
    rng = generator(seeds, name)
    posterior = (ANY | BINARY)[kind](rng, n_classes)
    separation = rng.uniform(*SEPARATION.get(n_classes, (2, 3.5)))
    rate = events / n_samples
    prior = np.array([1 - rate, rate]) if events else np.full(n_classes, 1 / n_classes)
    n_neighbours = rng.integers(5, 21) if kind.startswith("zeros") else 0

    def sample(n_rows):
        """Forecasts, and their posterior."""
        drawn = rng.choice(n_classes, p=prior, size=n_rows)
        features = rng.normal(size=(n_rows, n_classes))
        features[np.arange(n_rows), drawn] += separation
        log_proba = log_softmax(separation * features + np.log(prior), axis=1)
        if not n_neighbours:
            return np.exp(log_proba), posterior(log_proba)
        counts = rng.multinomial(n_neighbours, np.exp(log_proba))
        inside = (counts + 0.5) / (n_neighbours + 0.5 * n_classes)
        return counts / n_neighbours, posterior(np.log(inside))

    test_proba, target = sample(N_TEST[n_classes])
    while True:
        y_proba, truth = sample(n_samples)
        y_true = draw_labels(rng, truth)
        if n_classes > 2 or np.bincount(y_true, minlength=2).min() >= 2:
            shape = f"rare, {kind}" if events else kind
            head = name, 1, shape, n_classes, n_samples
            return Setting(*head, y_proba, y_true, test_proba, target)
