"""Worlds with features: groups that differ at equal scores, and features that are noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from verdict_worlds import bent, binary, draw_codes, simplex, world

REGIONS = np.array(["north", "east", "south", "west"])
#: By how much an effect of size one moves the probability, in units of 4 p (1 - p).
REACH = 0.15
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def frame(score, rng, **named):
    """Features: the causes, one that follows the score, and noise, as a data frame."""
    n = len(score)
    follows = logit(np.clip(score, 1e-9, 1 - 1e-9)) + 0.5 * rng.standard_normal(n)
    noise = {f"noise_{k}": rng.standard_normal(n) for k in range(3)}
    return pd.DataFrame({**named, "follows": follows, **noise})


def cause(kind, rng, n):
    """Features and the effect of each sample, which is zero on average at every score."""
    z = rng.standard_normal(n)
    region = REGIONS[rng.integers(4, size=n)]
    if kind == "numeric":
        effect = np.sign(z)
    elif kind == "category":
        effect = np.where(region == "east", 1.5, -0.5)
    elif kind == "interaction":
        effect = np.where((z > 0) & np.isin(region, ("east", "west")), 1.5, -0.5)
    else:
        effect = np.zeros(n)
    return {"z": z, "region": region}, effect


@world
def grouped(n, rng, kind, rate=0.4, **bends):
    """Two classes, calibrated or not; `kind` is the cause of the differences between groups."""
    sample = bent(rate, spread=1.0, **bends)(n, rng)
    named, effect = cause(kind, rng, n)
    posterior = sample.truth + REACH * 4 * sample.truth * (1 - sample.truth) * effect
    X = frame(sample.score, rng, **named)
    return binary(sample.score, sample.truth, rng, posterior, X=X)


@world
def grouped_classes(n, rng, kind, n_classes=10):
    """Ten classes, whose predicted class is right more or less often than its score says."""
    sample = simplex(n_classes)(n, rng)
    named, effect = cause(kind, rng, n)
    rows, top = np.arange(n), sample.score.argmax(axis=1)
    right = sample.truth[rows, top]
    moved = right + REACH * 4 * right * (1 - right) * effect
    posterior = sample.truth * ((1 - moved) / (1 - right))[:, None]
    posterior[rows, top] = moved
    code = draw_codes(posterior, rng)
    X = frame(right, rng, **named)
    return replace(sample, y=code, code=code, posterior=posterior, X=X)


@world
def noise_only(n, rng, rate=0.4, n_features=6, **bends):
    """Features that have nothing to do with the labels, as an array."""
    return replace(bent(rate, **bends)(n, rng), X=rng.standard_normal((n, n_features)))


def many_categories(n, rng):
    """A coin-tossed category of forty values, and forecasts that are too high."""
    sample = bent(0.3, shift=-0.7)(n, rng)
    place = np.array([f"town {k}" for k in rng.integers(40, size=n)])
    return replace(sample, X=pd.DataFrame({"place": place, "noise": rng.standard_normal(n)}))


def overlooked_rare(n, rng):
    """The odds are exp(-4 + x + z); the model, without z, says exp(-3.2 + 1.3 x): 7 % for 4 %.

    .86 of the forecasts are too high, and more so the higher they are.
    """
    x = rng.standard_normal(n)
    truth = expit(-4 + x[:, None] + _NODES) @ (_WEIGHTS / _WEIGHTS.sum())
    return binary(expit(-3.2 + 1.3 * x), truth, rng)


def overlooked_feature(n, rng):
    """A model that knows x but not z, and is too high for everybody; the region is a coin."""
    x, z = rng.standard_normal((2, n))
    region = REGIONS[rng.integers(4, size=n)]
    truth = expit(-2 + x[:, None] + _NODES) @ (_WEIGHTS / _WEIGHTS.sum())
    X = pd.DataFrame({"x": x, "z": z, "region": region})
    return binary(expit(-1 + x), truth, rng, expit(-2 + x + z), X=X)
