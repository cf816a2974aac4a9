"""Worlds with a known truth: labels, forecasts, and P(Y | score), from which reports are made."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, softmax
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier

#: Coordinates of a standard normal variable in equal shares.
_GRID = norm.ppf((np.arange(4000) + 0.5) / 4000)


@dataclass(frozen=True)
class Draw:
    """A data set and its truth.

    ``y`` and ``p`` are given to the report as they are, ``options`` with them. ``score`` is the
    probability of the event (n,) or of each class (n, K), ``code`` the outcome: whether the event
    happened, or the number of the class. ``truth`` is P(Y | score) in the form of ``score``, None
    where nothing is known; ``posterior`` is P(Y | score, X). Where not ``exact``, the truth depends
    on more than the score, and is P(Y | score) only on average.
    """

    y: np.ndarray
    p: np.ndarray
    score: np.ndarray
    code: np.ndarray
    truth: np.ndarray | None = None
    posterior: np.ndarray | None = None
    X: object = None
    weight: np.ndarray | None = None
    options: dict = field(default_factory=dict)
    exact: bool = True

    @property
    def n_classes(self):
        """Number of classes."""
        return 2 if self.score.ndim == 1 else self.score.shape[1]

    @property
    def matrix(self):
        """Scores as one column per class."""
        return columns(self.score)

    @property
    def share(self):
        """Weights that sum to one."""
        weight = np.ones(len(self.y)) if self.weight is None else np.asarray(self.weight, float)
        return weight / weight.sum()


@dataclass(frozen=True)
class Scenario:
    """A world, how many samples are drawn of it, and what its report must and may say.

    ``must`` maps a claim to the share of data sets in which it has to be made, ``may`` are the
    suspicions that are true besides. ``by`` is "predictions", "decision values", or the name of a
    column of probabilities in a file of comma-separated values.
    """

    name: str
    draw: Callable
    n_samples: int
    must: dict
    may: frozenset = frozenset()
    by: str = "predictions"


def columns(score):
    """(n,) -> (n, 2); (n, K) as it is."""
    return np.column_stack([1 - score, score]) if score.ndim == 1 else score


def world(draw):
    """A function of (n, rng, ...) as one of the rest that makes a function of (n, rng)."""
    return lambda *parameters, **named: lambda n, rng: draw(n, rng, *parameters, **named)


def of_top(score, *parts):
    """The values (n,) of parts (n, K) for the class with the largest score."""
    rows, top = np.arange(len(score)), score.argmax(axis=1)
    return [part[rows, top] for part in parts]


def draw_codes(posterior, rng):
    """Outcomes from probabilities, (n,) or (n, K)."""
    if posterior.ndim == 1:
        return (rng.random(len(posterior)) < posterior).astype(int)
    return (posterior.cumsum(axis=1)[:, :-1] < rng.random((len(posterior), 1))).sum(axis=1)


# Two classes


def bent(rate, *, shift=0.0, slope=1.0, wave=0.0, spread=1.3):
    r"""logit C = m + shift + slope u + wave sin(3 u), with u = logit S - m normal."""

    def bend(u):
        return shift + slope * u + wave * np.sin(3 * u)

    # the mean logit of forecasts with which the event has this rate
    middle = brentq(lambda c: expit(c + bend(spread * _GRID)).mean() - rate, -30, 30)

    def draw(n, rng):
        u = spread * rng.standard_normal(n)
        return binary(expit(middle + u), expit(middle + bend(u)), rng)

    return draw


def binary(score, truth, rng, posterior=None, **fields):
    """Labels 0 and 1, drawn from the posterior."""
    code = draw_codes(truth if posterior is None else posterior, rng)
    return Draw(code, score, score, code, truth, posterior, **fields)


@world
def rare(n, rng, rate, shape=0.5):
    """Calibrated; the probability of the event is Beta(shape, .) with this mean."""
    risk = rng.beta(shape, shape / rate - shape, n)
    code = draw_codes(risk, rng)
    return Draw(code, risk, risk, code, risk, options={"labels": [0, 1]})


@world
def two_names(n, rng, draw, names, event):
    """The labels are names, the forecast one-dimensional and of one of them."""
    sample = draw(n, rng)
    second_name = next(name for name in names if name != event)
    y = np.where(sample.code == 1, event, second_name)
    options = {"pos_label": event, "labels": None}
    return replace(sample, y=y, options=options)


@world
def two_columns(n, rng, draw):
    """The same as one column per class."""
    sample = draw(n, rng)
    return replace(sample, p=sample.matrix)


@world
def misread(n, rng, draw, change):
    """Forecasts that were changed before the report sees them, such as those of the other class."""
    sample = draw(n, rng)
    score = change(sample.score)
    p = columns(score) if sample.p.ndim == 2 else score
    return replace(sample, p=p, score=score)


@world
def stated(n, rng, levels, truths):
    """A few confidences, as language models state them, and how often each is right."""
    levels, truths = np.array(levels), np.array(truths)
    which = rng.integers(len(levels), size=n)
    return binary(levels[which], truths[which], rng)


@world
def rounded(n, rng, slope):
    """Scores in tenths: heavy ties."""
    score = rng.integers(1, 10, n) / 10
    return binary(score, expit(slope * logit(score)), rng)


def separated(n, rng):
    """Every label is on its side of one half."""
    score = rng.uniform(0.05, 0.95, n)
    score[:2] = 0.2, 0.8  # both classes are there
    return binary(score, (score > 0.5).astype(float), rng)


@world
def one_class(n, rng, code, spread=1.0):
    """All labels are the same, whatever the forecasts."""
    score = expit(spread * rng.standard_normal(n))
    codes = np.full(n, code)
    return Draw(codes, score, score, codes, options={"labels": [0, 1]})


@world
def fixed(n, rng, y, p):
    """The same few rows each time; nothing is known of their truth."""
    y, p = np.asarray(y), np.asarray(p, dtype=float)
    return Draw(y, p, p, y, options={"labels": [0, 1]})


def certain_misses(n, rng):
    """Calibrated but for one forecast in a hundred of exactly zero, half of them events."""
    sample = bent(0.3)(n, rng)
    zero = rng.random(n) < 0.01
    score = np.where(zero, 0.0, sample.score)
    truth = np.where(zero, 0.5, sample.truth)
    return binary(score, truth, rng)


def far_outliers(n, rng):
    """Forecasts near zero that are too extreme cost a log loss, hardly a Brier score."""
    sample = bent(0.3)(n, rng)
    rare = rng.random(n) < 0.01
    score = np.where(rare, 1e-5 * (1 + rng.random(n)), sample.score)
    truth = np.where(rare, 0.02, sample.truth)
    return binary(score, truth, rng)


def weights_at_random(n, rng):
    """Calibrated, with weights that have nothing to do with it."""
    sample = bent(0.3)(n, rng)
    return replace(sample, weight=rng.choice([0.5, 1.0, 4.0], n))


def weights_that_matter(n, rng):
    """Calibrated without weights; by them, forecasts are too low."""
    sample = bent(0.4)(n, rng)
    heavy = rng.random(n) < 0.5
    reach = 0.6 * sample.score * (1 - sample.score)
    posterior = sample.score + np.where(heavy, reach, -reach)
    weight = np.where(heavy, 4.0, 1.0)
    code = draw_codes(posterior, rng)
    truth = sample.score + 0.6 * reach  # 4/5 of the one, 1/5 of the other
    return Draw(code, sample.p, sample.score, code, truth, weight=weight)


def network_confidence(n, rng):
    """Largest probability of ten classes against being right, as a problem of two classes."""
    sample = simplex(10, slope=0.55)(n, rng)
    right = (sample.code == sample.score.argmax(axis=1)).astype(int)
    score, truth = of_top(sample.score, sample.score, sample.truth)
    return Draw(right, score, score, right, truth, exact=False)


# Several classes


@world
def simplex(n, rng, n_classes, *, slope=1.0, biases=0.0, spread=2.0, tilt=0.0):
    """log C = slope log S + biases, normalised; `tilt` makes classes unequal in frequency."""
    steps = np.linspace(1, -1, n_classes)
    logits = spread * rng.standard_normal((n, n_classes)) + tilt * steps
    score = softmax(logits, axis=1)
    turned = slope * logits + biases * np.where(np.arange(n_classes) % 2, -1, 1)
    truth = softmax(turned, axis=1)
    return several(score, truth, rng)


def several(score, truth, rng, posterior=None, **fields):
    """Labels 0, ..., K - 1, drawn from the posterior."""
    code = draw_codes(truth if posterior is None else posterior, rng)
    options = {"labels": np.arange(score.shape[1])}
    return Draw(code, score, score, code, truth, posterior, options=options, **fields)


@world
def confident_ten(n, rng, right):
    """Ten classes with confidences from .9 on, of which `right` are right; calibrated by None."""
    top = rng.choice([0.9, 0.95, 0.98, 0.99], n)
    truth_top = top if right is None else np.full(n, right)
    which = rng.integers(10, size=n)
    rows = np.arange(n)
    score, truth = (np.repeat(((1 - t) / 9)[:, None], 10, axis=1) for t in (top, truth_top))
    score[rows, which], truth[rows, which] = top, truth_top
    return several(score, truth, rng)


# Forests


@cache
def _forest(n_classes):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1500, 6))
    y = draw_codes(_forest_posterior(X, n_classes), rng)
    return RandomForestClassifier(50, random_state=0, n_jobs=1).fit(X, y)


def _forest_posterior(X, n_classes):
    if n_classes == 2:
        return expit(1.5 * X[:, 0] + X[:, 1] * X[:, 2])
    return softmax(1.2 * X[:, :n_classes] + 0.5 * X[:, [0]] * X[:, 1 : n_classes + 1], axis=1)


@cache
def _forest_table(n_classes):
    """P(Y | score) of each score of the forest of two classes, by 60,000 draws of X."""
    X = np.random.default_rng(8).standard_normal((60_000, 6))
    at = np.rint(50 * _forest(2).predict_proba(X)[:, 1]).astype(int)
    posterior = _forest_posterior(X, 2)
    counts = np.bincount(at, minlength=51)
    return np.bincount(at, posterior, minlength=51) / np.maximum(counts, 1)


@world
def forest(n, rng, n_classes):
    """Shares of votes, which are ties but for rounding."""
    X = rng.standard_normal((n, 6))
    score = _forest(n_classes).predict_proba(X)
    posterior = _forest_posterior(X, n_classes)
    if n_classes > 2:
        return several(score, posterior, rng, exact=False)
    code = draw_codes(posterior, rng)
    truth = _forest_table(2)[np.rint(50 * score[:, 1]).astype(int)]
    return Draw(code, score, score[:, 1], code, truth)


# Samples that are not what they should be


@world
def repeated(n, rng, draw, times):
    """Every row several times: no interval holds its truth."""
    sample = draw(n // times, rng)
    rows = np.tile(np.arange(n // times), times)
    parts = (sample.y, sample.p, sample.score, sample.code)
    return Draw(*(part[rows] for part in parts))


@world
def reordered(n, rng, draw, order):
    """Labels in another order than the forecasts, which say nothing of them."""
    sample = draw(n, rng)
    rows = order(np.arange(n), rng)
    truth = np.full(n, sample.truth.mean())
    return replace(sample, y=sample.y[rows], code=sample.code[rows], truth=truth)


@world
def odds_multiplied(n, rng, draw, factor):
    """Calibrated forecasts whose odds were multiplied, as by balanced training data."""
    risk = draw(n, rng).score
    return binary(factor * risk / (1 - risk + factor * risk), risk, rng)


@world
def without_class(n, rng, draw, k):
    """No sample of class k."""
    sample = draw(n, rng)
    present = sample.code != k
    truth = sample.truth[present] * (np.arange(sample.n_classes) != k)
    truth /= truth.sum(axis=1, keepdims=True)
    score, code = sample.score[present], sample.code[present]
    return Draw(code, score, score, code, truth, options=sample.options)


class Decisions(ClassifierMixin, BaseEstimator):
    """A classifier with decision values alone, which are its only feature."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X):
        return X[:, 0]
