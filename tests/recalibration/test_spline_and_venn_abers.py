"""Venn-Abers against the package venn-abers and its definition; splines against their meaning."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import IsotonicRecalibrator, SplineScaling, VennAbersRecalibrator
from skcalib.recalibration.base import fit_without_each
from skcalib.smoothers.spline import SplineBasis

SCORE = np.array([0.1, 0.1, 0.2, 0.3, 0.3, 0.3, 0.4, 0.6, 0.6, 0.7, 0.8, 0.9, 0.9])
LABEL = np.array([0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
NEW = [0.05, 0.1, 0.15, 0.3, 0.35, 0.5, 0.6, 0.8, 0.9, 0.95]
LOW = [0, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 3, 0.6, 0.6, 0.6]  # of venn-abers 1.5.4
HIGH = [3 / 8, 3 / 8, 3 / 8, 0.4, 0.5, 2 / 3, 2 / 3, 0.8, 0.8, 1]


def test_venn_abers_is_the_package():
    fitted = VennAbersRecalibrator().fit(SCORE, LABEL)
    np.testing.assert_allclose(fitted.predict_interval(NEW), np.transpose([LOW, HIGH]), atol=1e-12)
    merged = np.divide(HIGH, 1 - np.array(LOW) + HIGH)
    np.testing.assert_allclose(fitted.predict_proba(NEW)[:, 1], merged, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 2])
def test_venn_abers_is_isotonic_regression_with_one_more_sample(n_classes):
    rng = np.random.default_rng(n_classes)
    proba = rng.multinomial(10, np.full(n_classes, 1 / n_classes), 60) / 10  # ties
    y, weight = rng.integers(0, n_classes, 60), rng.exponential(size=60)
    weight /= weight.mean()
    limits = VennAbersRecalibrator().fit(proba, y, weight).predict_interval(proba[:9])
    limits = limits.reshape(9, -1, 2)
    for i, k, label in np.ndindex(9, limits.shape[1], 2):
        column = k + (n_classes == 2)
        score, event = np.append(proba[:, column], proba[i, column]), np.append(y == column, label)
        isotonic = IsotonicRecalibrator().fit(score, event.astype(int), np.append(weight, 1.0))
        assert limits[i, k, label] == pytest.approx(
            isotonic.predict_proba(score[-1:])[0, 1], abs=1e-9
        )


def waves(n_samples, size, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.normal(0, 2, n_samples)
    truth = expit(t + size * np.sin(1.5 * t))
    return expit(t), (rng.random(n_samples) < truth).astype(int), truth


@pytest.mark.parametrize("spread", [2.0, 6.0])
def test_a_spline_is_the_minimum_of_its_criterion(spread):
    """Of the stated penalties, and the one of the largest marginal likelihood; by Newton's steps.

    Priors are weaker where forecasts are very over-confident.
    """
    rng = np.random.default_rng(0)
    t, weight = np.sort(rng.normal(0.5, spread, 400)), rng.uniform(0.5, 2, 400)
    y = rng.random(400) < expit(1.5 * np.sin(t) + t / spread)
    fitted = SplineScaling().fit(expit(t), y.astype(int), weight)
    weight *= weight.sum() / (weight @ weight)
    middles = (np.cumsum(weight) - weight / 2) / weight.sum()
    basis = SplineBasis(np.interp(np.linspace(0.02, 0.98, 12), middles, t))
    knots, design = basis.start + basis.unit * basis.knots, basis(t)
    mean = np.average(t, weights=weight)
    variance = np.average((t - mean) ** 2, weights=weight)
    nodes = np.sort(np.append(knots, (knots[1:] + knots[:-1]) / 2))  # Simpson's rule is exact
    shares = np.convolve(np.diff(knots) / basis.unit, [1, 1]) / 6
    simpson = np.insert(shares, np.arange(1, 12), 4 * np.diff(knots) / basis.unit / 6)
    bends = basis(nodes, 2) * basis.unit**2
    slopes, middle = basis(knots[[0, -1]], 1), basis(np.array([mean]))
    prior = variance / 2 * slopes.T @ slopes + middle.T @ middle / 10
    prior *= min(1, 16 / variance)
    values, forecasts = {}, {}
    for penalty in 10.0 ** -np.arange(6):
        precision = prior + penalty * (bends.T * simpson) @ bends
        coef = np.append([-basis.start, -basis.unit], np.zeros(10))  # chances of one half
        for _ in range(30):
            p = expit(t + design @ coef)
            hessian = (design.T * (weight * p * (1 - p))) @ design + precision
            coef -= np.linalg.solve(hessian, precision @ coef - design.T @ (weight * (y - p)))
        linear = t + design @ coef
        value = weight @ (np.logaddexp(0, linear) - y * linear) + coef @ precision @ coef / 2
        value += (np.linalg.slogdet(hessian)[1] - np.linalg.slogdet(precision)[1]) / 2
        values[penalty], forecasts[penalty] = value - np.log10(penalty) / 2, expit(linear)
    best = min(values, key=values.get)
    assert fitted.penalty_ == best < 1
    np.testing.assert_allclose(fitted.predict_proba(expit(t))[:, 1], forecasts[best], rtol=1e-4)


def test_splines_of_two_scores_and_where_they_rise():
    """Frequencies, but for weak priors; injective where the curve rises everywhere."""
    score, y = np.repeat([0.2, 0.7], 300), np.arange(600) % 3 == 0
    y[:300] = np.arange(300) % 4 == 0
    after = SplineScaling().fit(score, y).predict_proba([0.2, 0.7])[:, 1]
    np.testing.assert_allclose(after, [1 / 4, 1 / 3], atol=0.01)
    rises = []
    for seed in range(12):
        p, y, _ = waves(600, 0.7, seed)
        spline = SplineScaling().fit(p, y)
        curve = spline.predict_proba(expit(np.linspace(-15, 15, 20_001)))[:, 1]
        rises.append(np.diff(curve).min() > 0)
        assert spline.injective_ == rises[-1]
    assert len(set(rises)) == 2


def test_splines_bend_where_the_labels_do_and_declare_it():
    for size, bends, injective in ((0.0, False, True), (0.4, True, True), (1.2, True, False)):
        p, y, truth = waves(20_000, size)
        spline = SplineScaling().fit(p, y)
        assert np.mean((spline.predict_proba(p)[:, 1] - truth) ** 2) < 2e-4
        assert (spline.penalty_[0] < 0.1) == bends and spline.injective_ == injective
        grid = spline.predict_proba(expit(np.linspace(-12, 12, 5001)))[:, 1]
        assert (np.diff(grid).min() > 0) == injective


@pytest.mark.parametrize("factor", [1, 3, 8, 20, 40])
def test_splines_correct_any_over_confidence(factor):
    rng = np.random.default_rng(0)
    z, grid = rng.normal(0, 1.5, 3000), np.linspace(-6, 6, 4001)
    spline = SplineScaling().fit(expit(factor * z), rng.random(3000) < expit(z))
    mass, truth = np.exp(-(grid**2) / 4.5), expit(grid)
    forecast = expit(factor * grid)
    p = spline.predict_proba(forecast)[:, 1]
    certain = forecast == 1  # forecasts that rounding has made equal: the best is their mean
    best = np.where(certain, truth @ (mass * certain) / max(mass @ certain, 1e-300), truth)
    loss, least = (
        -np.average(truth * np.log(q) + (1 - truth) * np.log1p(-q), weights=mass) for q in (p, best)
    )
    assert loss < 1.01 * least and np.diff(p).min() >= 0


@pytest.mark.parametrize("factor", [1, 8, 20])
def test_splines_of_three_classes_correct_over_confidence(factor):
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.3, (6000, 3))
    truth, forecast = softmax(z, axis=1), softmax(factor * z, axis=1)
    y = (truth.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1)
    p = SplineScaling().fit(forecast[:3000], y[:3000]).predict_proba(forecast[3000:])
    loss, least = (-np.sum(truth[3000:] * np.log(q), axis=1).mean() for q in (p, truth[3000:]))
    assert loss < 1.01 * least


def test_splines_without_folds_are_those_of_refits():
    p, y, _ = waves(2000, 0.8)
    folds = np.array_split(np.arange(2000), 5)
    proba = np.column_stack([1 - p, p])
    parts = fit_without_each(SplineScaling(), proba, y, None, np.arange(2), folds)
    for test, part in zip(folds, parts, strict=True):
        refit = SplineScaling().fit(np.delete(p, test), np.delete(y, test))
        assert part.injective_ == refit.injective_ and part.penalty_ == refit.penalty_
        change = part.predict_proba(proba) - refit.predict_proba(proba)
        assert 0 < np.abs(change).max() < 0.02  # the knots are those of all samples
