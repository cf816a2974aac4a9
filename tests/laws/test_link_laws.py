"""Links obey their laws; the checker rejects planted defects, by name."""

import numpy as np
import pytest
from planted import altered, planted
from public_functions import others
from scipy.special import softmax

from skcalib import links
from skcalib.links import (
    BetaMap,
    BiasCorrectedTemperature,
    DirichletMap,
    Link,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    PlattMap,
    QuadraticMap,
    VectorMap,
    fit_link,
)
from skcalib.scores import Brier, LogLoss, Spherical
from skcalib.testing import check_link


class TemperatureMap(Link):
    """z -> beta z."""

    def start(self, n_classes):
        return np.ones(1)

    def apply(self, theta, logits):
        return theta[0] * logits

    def vjp(self, theta, logits, cotangent):
        return np.array([np.sum(cotangent * logits)])

    def bounds(self, n_classes):
        return [(0.0, None)]

    def injective(self, theta, n_classes):
        return bool(theta[0] > 0)

    preserves_order = injective


LINKS = [
    TemperatureMap(),
    BiasCorrectedTemperature(),
    VectorMap(),
    MatrixMap(),
    DirichletMap(),
    MonotonePieces(),
    MonotonePieces(n_pieces=3),
    MonotoneNetwork(),
    MonotoneNetwork(hidden=3, n_grid=20, seed=1),
    PlattMap(),
    BetaMap(),
    BetaMap("am"),
    BetaMap("ab"),
    QuadraticMap(),
]
LINKS += others(links, Link, LINKS, abstract=(links.BinaryMap,))


def test_laws():
    """Of every link in each run; the message names the link."""
    for link in LINKS:
        check_link(link)
        check_link(link, n_classes=(2,), random_state=7)


def test_binary_maps_refuse_more_than_two_columns():
    for link in (PlattMap(), BetaMap(), QuadraticMap()):
        with pytest.raises(ValueError, match="two columns, got 3 classes"):
            link.start(3)
    with pytest.raises(AssertionError, match="refuses every number of classes"):
        check_link(PlattMap(), n_classes=(3, 4))


#: Only ties are broken: the shift is far below the gaps of other pairs.
UntiesInSecret = planted(
    VectorMap,
    apply=lambda self, theta, z: (
        theta[0] * z + 1e-6 * np.arange(z.shape[1]) * ((z[:, :1] == z[:, 1:2]) & (theta[0] != 1))
    ),
    vjp=lambda self, theta, z, c: np.append(np.sum(c * z), np.zeros(len(theta) - 1)),
    bounds=lambda self, n_classes: [(0.1, None)] + [(None, None)] * (2 * n_classes),
    preserves_order=lambda self, theta, n_classes: True,
    injective=lambda self, theta, n_classes: False,
)
#: What a row becomes depends on the others.
CentresColumns = planted(
    TemperatureMap,
    apply=lambda self, theta, z: z + (theta[0] - 1) * z.mean(axis=0),
    vjp=lambda self, theta, z, c: np.array([c.sum(axis=0) @ z.mean(axis=0)]),
    injective=Link.injective,
    preserves_order=Link.injective,
)


class PreparesInPlace(TemperatureMap):
    def prepare(self, logits):
        logits -= logits.max()
        return self


class ForgetsWhenCopied(MonotonePieces):
    def __getstate__(self):
        return {"n_pieces": self.n_pieces, "knots_": self.knots_ + 1.0, "_shift": 1.0}

    def apply(self, theta, logits):
        return super().apply(theta, logits) * (2 if hasattr(self, "_shift") else 1)


RNG = np.random.default_rng()


def declares(base, name, value=lambda theta: True):
    """A map with another declaration at its parameters."""
    return planted(base, **{name: lambda self, theta, n_classes: value(theta)})


@pytest.mark.parametrize(
    ("link", "law"),
    [
        (object(), "is a Link"),
        (planted(TemperatureMap, start=lambda self, n_classes: np.array([1.1]))(), "identity"),
        (altered(VectorMap, start=lambda answer: answer + 1e-9 * RNG.random())(), "call to call"),
        (altered(TemperatureMap, bounds=lambda answer: [(2.0, None)])(), "bounds .2.0, None. excl"),
        (altered(VectorMap, vjp=lambda answer: answer * np.r_[1, np.full(len(answer) - 1, 0.99)])(),
         "central differences"),
        (declares(QuadraticMap, "injective")(), "the map folds"),
        # slopes of both signs: the Jacobian vanishes on a surface that crosses the simplex
        (declares(VectorMap, "injective")(), "the map folds"),
        (planted(TemperatureMap, apply=lambda self, theta, z: z * (theta[0] == 1),
                 vjp=lambda self, theta, z, c: np.zeros(1))(), "constant"),
        (declares(VectorMap, "preserves_order")(), "change places"),
        (UntiesInSecret(), "tied"),
        (altered(TemperatureMap, prepare=lambda answer: None)(), "prepare does not return self"),
        (planted(TemperatureMap, apply=lambda self, theta, z: np.multiply(z, theta[0], out=z))(),
         "modif"),
        (PreparesInPlace(), "prepare modified"),
        (CentresColumns(), "some of the rows"),
        (altered(VectorMap, stiffness=lambda answer: np.ones(1))(), "Stiffness has the shape"),
        (altered(VectorMap, stiffness=lambda answer: -np.ones_like(answer))(), "not negative"),
        (planted(TemperatureMap, apply=lambda self, theta, z: z if theta[0] == 1 else z[:, :1])(),
         "became"),
        (declares(TemperatureMap, "preserves_order", lambda t: np.bool_(t[0] > 0))(), "not a bool"),
        (ForgetsWhenCopied(), "copy"),
    ],
)  # fmt: skip
def test_planted_defects_are_found(link, law):
    with pytest.raises(AssertionError, match=law):
        check_link(link, n_classes=(2, 3) if not isinstance(link, QuadraticMap) else (2,))


def test_injectivity_of_affine_maps_is_exact():
    """One sign of the slopes, or of W^-1 1, is what a collision needs; a collision is exhibited."""
    link, mixed = VectorMap(), np.array([0.0, 1, 1, -1, 0, 0, 0])
    assert link.injective(np.array([1.0, 0, 0.5, 2, 0, 0, 0]), 3)
    assert not link.injective(mixed, 3)
    # logits that move by (1, 1, -1) c map to logits that move by c alike
    a, b = np.log([0.1, 0.1, 0.8]), np.log([0.4, 0.4, 0.2])  # c is the logarithm of 4
    gap = link.apply(mixed, np.array([b])) - link.apply(mixed, np.array([a]))
    np.testing.assert_allclose(gap, gap.mean(), atol=1e-12)
    assert MatrixMap().injective(np.append(1.0, np.zeros(12)), 3)
    assert not MatrixMap().injective(np.zeros(13), 3)


@pytest.mark.parametrize("score", [LogLoss(), Brier(), Spherical()], ids=repr)
@pytest.mark.parametrize("link", [VectorMap(), MonotonePieces(4), TemperatureMap()])
def test_fit_reaches_a_stationary_point(link, score, multiclass):
    y, proba = multiclass
    keep = proba.min(axis=1) > 0
    logits, target = np.log(proba[keep]), np.eye(3)[y[keep]]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(target))
    link.prepare(logits)

    def objective(theta):
        loss = score.loss(target, softmax(link.apply(theta, logits), axis=1))
        pull = 5.0 * link.stiffness(3) / len(target)
        return weight @ loss / weight.sum() + 0.5 * pull @ (theta - link.start(3)) ** 2

    fit = fit_link(link, score, logits, target, weight, shrinkage=5.0)
    assert fit.converged and fit.n_iter > 0
    lowest = objective(fit.theta)
    assert lowest <= objective(link.start(3))
    bounds = link.bounds(3) or [(None, None)] * len(fit.theta)
    for p, (low, _) in enumerate(bounds):
        step = np.zeros_like(fit.theta)
        step[p] = 1e-3
        assert objective(fit.theta + step) >= lowest - 1e-12
        if low is None or fit.theta[p] - 1e-3 > low:
            assert objective(fit.theta - step) >= lowest - 1e-12


def test_units_of_logits_of_sharp_forecasts():
    """Means of squares, weighted by the variances of the labels, and not."""
    logits = np.array([[9.0, 0, -3], [-2, 7, 1], [4, 4, -8]])
    proba = softmax(logits, axis=1)
    variance = proba * (1 - proba)
    assert variance[:2].sum() < 1
    for rows in (slice(2), slice(3)):
        units = VectorMap().prepare(logits[rows]).sizes_
        mean = np.average(logits[rows] ** 2, weights=variance[rows])
        assert units == pytest.approx((mean, np.mean(logits[rows] ** 2)), rel=1e-12)
    assert VectorMap().prepare(np.array([[1000.0, 0]])).sizes_ == (1, 500_000)


def test_a_fit_that_is_cut_short_says_so_and_is_no_worse_than_its_start(multiclass):
    y, proba = multiclass
    logits, target = np.log(np.maximum(proba, 1e-3)), np.eye(3)[y]
    link, weight = MatrixMap(), np.ones(len(y))
    fit = fit_link(link, LogLoss(), logits, target, weight, max_iter=1)
    assert not fit.converged and fit.n_iter == 1 and "LIMIT" in fit.message
    start = np.mean(LogLoss().logit_loss(target, logits)[0])
    assert np.mean(LogLoss().logit_loss(target, link.apply(fit.theta, logits))[0]) <= start
