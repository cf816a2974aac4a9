"""Affine maps of logits: sums, penalised optima and evidence, against dense formulas."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcalib.links import DirichletMap, MatrixMap, VectorMap
from skcalib.links.affine import affine_sums, best_strength, fit_by_evidence, minimise_affine

KINDS = [MatrixMap, VectorMap, DirichletMap]


def problem(kind, n_samples=120, size=1.0):
    """A prepared map, and logits, label distributions and weights of three classes.

    The classes differ by `size`.
    """
    rng = np.random.default_rng(0)
    logits = np.log(rng.dirichlet(np.ones(3), n_samples))
    slopes = 0.7 + size * np.array([-0.3, 0, 0.5])
    truth = softmax(logits * slopes + size * np.array([0.5, 0, -0.5]), axis=1)
    target = rng.multinomial(4, truth) / 4
    return kind().prepare(logits), logits, target, rng.uniform(0.5, 2, n_samples)


def test_sums_are_the_log_loss_and_its_derivatives():
    for kind in KINDS:
        link, logits, target, weight = problem(kind)
        start = link.start(3)
        theta = start + np.random.default_rng(1).normal(0, 0.2, len(start))

        sums = partial(affine_sums, link, logits, target, weight)
        value, gradient, hessian = sums(theta)
        log = log_softmax(link.apply(theta, logits), axis=1)
        assert value == pytest.approx(-weight @ np.sum(target * log, axis=1), rel=1e-12)
        steps = 1e-5 * np.eye(len(theta))
        for derivative, order in ((gradient, 0), (hessian, 1)):
            changes = [(sums(theta + s)[order] - sums(theta - s)[order]) / 2e-5 for s in steps]
            assert_allclose(derivative, changes, rtol=1e-6, atol=1e-5)


def test_the_stiffness_is_the_mean_squared_effect_on_a_logit():
    """Of a slope, under s (1 - s) on the diagonal; a bias has 1 and the common slope none."""
    for kind in KINDS:
        link, logits, _, _ = problem(kind)
        s = softmax(logits, axis=1)
        near = np.sum(s * (1 - s) * logits**2) / np.sum(s * (1 - s))
        diagonal, others = (1, 0) if kind is VectorMap else link.strengths[:2]
        slopes = np.where(np.eye(3) == 1, diagonal * near, others * np.mean(logits**2))
        slopes = np.diag(slopes) if kind is VectorMap else np.ravel(slopes)
        assert_allclose(link.stiffness(3), [0, *slopes, 1, 1, 1], rtol=1e-12)


def test_the_penalised_loss_has_its_minimum():
    """Deviations that are shrunk sum to zero there, also without shrinkage."""
    for kind, shrinkage in product(KINDS, (7.0, 0.0)):
        link, logits, target, weight = problem(kind)
        start, stiffness = link.start(3), link.stiffness(3)
        sums = partial(affine_sums, link, logits, target, weight)
        cost = partial(penalised, sums, shrinkage * stiffness, start)
        options = {"shrinkage": shrinkage, "size": weight.sum()}
        fit = minimise_affine(link, sums, link.tempered(3, 0.7), **options, max_values=100)
        assert fit.converged
        best = minimize(cost, start, jac=True, options={"gtol": 1e-7})
        assert cost(fit.refined)[0] == pytest.approx(best.fun, abs=1e-5)
        for places in link.balanced(3):
            share = stiffness[places] if stiffness[places].any() else np.ones(3)
            assert abs(share @ (fit.refined - start)[places]) < 1e-6
        few = minimise_affine(link, sums, link.tempered(3, 0.7), **options, max_values=1)
        assert not few.converged


def penalised(sums, pull, start, theta):
    """Log loss and half of the squared deviations, and the gradient."""
    value, gradient, _ = sums(theta)
    return value + 0.5 * pull @ (theta - start) ** 2, gradient + pull * (theta - start)


def evidence_at(link, theta, total, share):
    """Log evidence of a strength, by the integral of an expansion at theta over the prior."""
    _, gradient, hessian = total
    stiffness, away = link.stiffness(3), theta - link.start(3)
    shrunk, free = stiffness > 0, stiffness == 0
    project = hessian[shrunk][:, free] @ np.linalg.pinv(hessian[free][:, free], rcond=1e-10)
    unit = np.sqrt(stiffness[shrunk])
    curvature = share * (hessian[shrunk] - project @ hessian[free])[:, shrunk]
    slope = share * (gradient[shrunk] - project @ gradient[free])
    b = (curvature @ away[shrunk] - slope) / unit
    curvature = curvature / np.outer(unit, unit)

    def evidence(strength):
        whole = curvature + strength * np.eye(len(b))
        return (b @ np.linalg.solve(whole, b) - np.linalg.slogdet(whole / strength)[1]) / 2

    return evidence


def test_the_strength_has_the_highest_evidence():
    for kind, share in product(KINDS, (0.8, 1.0)):
        link, logits, target, weight = problem(kind)
        sums, start = partial(affine_sums, link, logits, target, weight), link.tempered(3, 0.7)
        run = {"size": weight.sum()} | ({"share": share} if share < 1 else {})
        strength, theta, total = fit_by_evidence(link, sums, start, **run)
        evidence = evidence_at(link, theta, total, share)
        best, value = best_strength(link, theta, total, share)
        assert value == pytest.approx(evidence(share * best), rel=1e-8)
        assert value >= max(map(evidence, np.geomspace(0.02, 5e5, 100))) - 1e-6
        assert strength == pytest.approx(best, rel=0.02)
        options = {"shrinkage": strength, "size": weight.sum(), "max_values": 100}
        fit = minimise_affine(link, sums, start, **options).refined
        assert_allclose(theta, fit, atol=0.2 if kind is DirichletMap else 0.02)


def test_a_temperature_where_no_deviation_has_evidence():
    """Slopes without a prior cost half the logarithm of the number of samples each."""
    link, logits, _, weight = problem(VectorMap)
    start = link.tempered(3, 0.7)
    sums = partial(affine_sums, link, logits, softmax(0.7 * logits, axis=1), weight)
    assert best_strength(link, start, sums(start), 1.0) == (np.inf, 0)
    strength, theta, _ = fit_by_evidence(link, sums, start, size=weight.sum())
    assert strength == np.inf and np.array_equal(theta, start)
    decisions = []
    for n_samples in range(20, 300, 20):
        link, logits, target, weight = problem(DirichletMap, n_samples, 0.4)
        sums, start = partial(affine_sums, link, logits, target, weight), link.tempered(3, 0.7)
        free, total, size = link.stiffness(3) == 0, sums(start), weight.sum()
        _, gain = best_strength(link, start, total, 0.8)
        slope = total[1][free]
        gain += 0.4 * slope @ np.linalg.pinv(total[2][np.ix_(free, free)], rcond=1e-9) @ slope
        gain -= (free.sum() - 2) * np.log(0.8 * size) / 2
        decisions.append(gain > 0)
        strength = fit_by_evidence(link, sums, start, size=size, share=0.8)[0]
        assert np.isfinite(strength) == decisions[-1]
    assert len(set(decisions)) == 2
