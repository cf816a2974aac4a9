"""One setting: calibration forecasts and labels, and what a map is judged on."""

from typing import NamedTuple

import numpy as np

#: Seeds of development, for tuning, and of the hold-out, which is run once for a release.
SEEDS = {"dev": 1, "holdout": 2}


class Setting(NamedTuple):
    """Forecasts of n samples in K classes, and test forecasts.

    The target of a test forecast is its posterior (m, K), or its label (m,). Settings with one name
    are repeated splits of the same forecasts: their losses are averaged.
    """

    name: str
    tier: int
    kind: str
    n_classes: int
    n_samples: int
    y_proba: np.ndarray
    y_true: np.ndarray
    test_proba: np.ndarray
    target: np.ndarray


def generator(seeds, *words):
    """A random generator that depends on the seeds and on words and numbers, not on an order."""
    text = " ".join(str(word) for word in words)
    return np.random.default_rng([SEEDS[seeds], *text.encode()])


def draw_labels(rng, posterior):
    """A label of each row of a posterior (n, K)."""
    level = rng.uniform(size=(len(posterior), 1)) * posterior.sum(axis=1, keepdims=True)
    labels = np.sum(posterior.cumsum(axis=1) <= level, axis=1)
    return np.minimum(labels, posterior.shape[1] - 1)


def losses(target, proba):
    """Mean log loss and Brier score; probabilities below 2e-16 count as 2e-16 in the log loss."""
    log_proba = np.log(np.maximum(proba, np.finfo(float).eps))
    if target.ndim == 1:
        rows = np.arange(len(target))
        label_proba = proba[rows, target]
        return -log_proba[rows, target].mean(), (np.sum(proba**2, 1) - 2 * label_proba + 1).mean()
    brier = np.sum(proba**2, axis=1) - 2 * np.sum(target * proba, axis=1) + 1
    return -np.sum(target * log_proba, axis=1).mean(), brier.mean()
