"""Directions of logits as dense arrays (n, K, J), problems, and worlds with known truth.

An independent check of the sums of `BasisBlock`, which never make such arrays.
"""

import numpy as np
from scipy.special import softmax

from skcalib.data.problem import Problem


def dense_directions(basis, forecast, names=None):
    """Directions (n, K, J) of some groups: what a parameter of one adds to the logits."""
    names = tuple(basis.groups) if names is None else names
    block = basis(forecast, names)
    units = np.eye(len(basis.select(names)))
    return np.stack([block.logits(unit) - block.log for unit in units], axis=2)


def tangents(p, g):
    """Derivatives (n, K, J) of probabilities p (n, K) in the parameters of g (n, K, J)."""
    return p[:, :, None] * (g - np.einsum("ik,ikj->ij", p, g)[:, None])


def problem_of(y, forecast, weight=None):
    """The problem of labels, or of label distributions, and of forecasts (n, K) or of an event."""
    forecast = np.column_stack([1 - forecast, forecast]) if forecast.ndim == 1 else forecast
    target = np.eye(forecast.shape[1])[y] if y.ndim == 1 else y
    weight = np.ones(len(y)) if weight is None else weight
    return Problem(forecast, target, weight, np.arange(forecast.shape[1]))


def reached(values, mass, at):
    """Distribution function at some places: the mass below, and half of the mass of ties."""
    below = (values[None] < at[:, None]) @ mass
    return (below + (values[None] == at[:, None]) @ mass / 2) / mass.sum()


def labels_from(posterior, rng):
    """One label for each row of probabilities."""
    return (posterior.cumsum(axis=1)[:, :-1] < rng.random((len(posterior), 1))).sum(axis=1)


def world(kind, n_samples, n_classes, seed):
    """Labels, forecasts and posteriors with one kind of miscalibration.

    The forecasts are softmax(1.3 normal); for two classes the log odds have that spread times the
    root of two.
    """
    rng = np.random.default_rng(seed)
    log = 1.3 * rng.normal(size=(n_samples, n_classes))
    log -= np.log(np.exp(log).sum(axis=1, keepdims=True))
    forecast = np.exp(log)
    step = np.linspace(-1, 1, n_classes)
    if kind == "calibrated":
        posterior = forecast
    elif kind == "slope":  # over-confident
        posterior = softmax(0.6 * log, axis=1)
    elif kind == "shift":
        posterior = softmax(log + 0.5 * step, axis=1)
    elif kind == "class_slopes":  # one class is over-confident where another is too cautious
        posterior = softmax(log * (1 - 0.7 * step), axis=1)
    elif kind == "curve":  # the most likely class is right with a wave around its confidence
        posterior = forecast.copy()
        rows, top = np.arange(n_samples), forecast.argmax(axis=1)
        confidence, lowest = forecast[rows, top], 1 / n_classes
        wave = np.sin(2 * np.pi * (confidence - lowest) / (1 - lowest))
        right = confidence + 0.7 * (1 - confidence) * wave
        posterior *= ((1 - right) / (1 - confidence))[:, None]
        posterior[rows, top] = right
    else:
        raise ValueError(kind)
    return labels_from(posterior, rng), forecast, posterior
