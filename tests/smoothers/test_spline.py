"""Splines of the logit: the curve, its band, and what is left where data are few."""

import numpy as np
import pytest
from conftest import pairs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from skcalib import ReliabilityDisplay
from skcalib.data.clusters import independent_size, inflation
from skcalib.data.problem import Problem
from skcalib.displays.reliability import SplinedCurve
from skcalib.smoothers import SplineSmoother
from skcalib.smoothers.spline import SplineBasis, SplineCurve, firth_regression


def fit(p, y, weight=None, **options):
    return SplineSmoother(**options).fit(pairs(p), np.eye(2)[np.asarray(y, dtype=int)], weight)


def curve_of(fitted, p):
    return fitted.predict(pairs(p))[:, 1]


def tempered(rng, n):
    c = rng.random(n)
    return expit(logit(c) / 0.6), c


def bent(rng, n):
    z = rng.normal(size=n)
    return expit(z), expit(0.5 * z + 0.3 * z * np.abs(z))


def rare(rng, n):
    c = rng.beta(1, 17, n)
    return 13 * c / (1 - c + 13 * c), c


def test_basis_is_harrells():
    """Cubic between the knots, linear beyond them, with a continuous second derivative."""
    knots = np.array([-2.0, -0.5, 0.3, 2.5])
    basis = SplineBasis(knots)
    for beyond in (np.linspace(-6, -2, 9), np.linspace(2.5, 7, 9)):
        assert_allclose(np.diff(basis(beyond), 2, axis=0), 0, atol=1e-12)
    step = 1e-4
    at = knots[:, None] + step * np.arange(-3, 4)
    bends = np.diff(np.stack([basis(row) for row in at]), 2, axis=1) / step**2
    assert np.abs(np.diff(bends, axis=1)).max() < 0.02 * np.abs(bends).max() + 0.01
    assert basis(knots).shape == (4, 4)
    t, length = np.linspace(-3, 3, 50), knots[-1] - knots[0]
    first, second, before, last = (np.maximum(t - knot, 0) ** 3 for knot in knots)
    for j, cube in enumerate((first, second)):
        shares = (knots[[3, 2]] - knots[j]) / (knots[3] - knots[2])
        expected = (cube - shares[0] * before + shares[1] * last) / length**3
        assert_allclose(basis(t)[:, 2 + j], expected, atol=1e-12)
    for k in (1, 2):
        slopes = (basis(t + 1e-5, k - 1) - basis(t - 1e-5, k - 1)) / 2e-5
        assert_allclose(basis(t, k), slopes, atol=1e-4)


def test_large_samples_agree_with_plain_logistic_regression():
    rng = np.random.default_rng(0)
    p, c = bent(rng, 20_000)
    y = (rng.random(len(p)) < c) * 1
    fitted = fit(p, y, n_knots=4)
    curve_of(fitted, p[:1])
    columns = SplineBasis(fitted._model.knots_)(logit(p))[:, 1:]
    plain = LogisticRegression(C=1e9, max_iter=1000, tol=1e-10).fit(columns, y)
    assert_allclose(curve_of(fitted, p), plain.predict_proba(columns)[:, 1], atol=2e-3)


def test_firth_is_the_known_answer_for_a_constant():
    """Jeffreys' prior of one probability adds half a success and half a failure."""
    for hits, size in ((0, 10), (3, 10), (20, 20)):
        label, ones = (np.arange(size) < hits) * 1.0, np.ones(size)
        coef, covariance = firth_regression(ones[:, None], label, ones, 0 * ones, np.zeros((1, 1)))
        p = (hits + 0.5) / (size + 1)
        assert_allclose(expit(coef[0]), p, atol=1e-6)
        assert_allclose(covariance, 1 / (size * p * (1 - p)), rtol=1e-4)
        fitted = fit(np.full(size, 0.2), label)
        reach = 1.6448536 / np.sqrt(size * p * (1 - p))
        limits = expit(logit(p) + reach * np.array([[-1], [1]]))
        assert_allclose(fitted.interval(pairs([0.2]), 0.9), limits, rtol=1e-5)


def test_firth_maximises_the_penalised_likelihood():
    """With weights, an offset and a prior; as a straight line does, whose slope has one."""
    rng = np.random.default_rng(0)
    t, weight = rng.normal(size=40), rng.uniform(0.5, 2, 40)
    label, weight = rng.integers(0, 2, 40), weight * weight.sum() / (weight @ weight)
    design, prior = np.column_stack([np.ones(40), t]), np.diag([0, 1.0])

    def cost(coef):
        linear = t + design @ coef
        spread = weight * expit(linear) * expit(-linear)
        likelihood = weight @ (label * linear - np.logaddexp(0, linear))
        return coef @ prior @ coef / 2 - likelihood - np.linalg.slogdet(information(spread))[1] / 2

    def information(spread):
        return (design.T * spread) @ design

    coef, covariance = firth_regression(design, label, weight, t, prior)
    assert_allclose(coef, minimize(cost, [0, 0], tol=1e-9).x, atol=1e-4)
    p = expit(t + design @ coef)
    assert_allclose(np.linalg.inv(covariance), information(weight * p * (1 - p)) + prior)
    assert_allclose(curve_of(fit(expit(t), label, weight), expit(t)), p, atol=1e-4)


@pytest.mark.parametrize("weighted", [True, False])
def test_knots_lie_at_quantiles_of_the_information(weighted):
    """Of a straight line; the curve is that of the largest likelihood in their functions."""
    rng = np.random.default_rng(0)
    p, c = tempered(rng, 400)
    t, y, weight = logit(p), rng.random(400) < c, rng.uniform(0.5, 2, 400) if weighted else 1
    scaled = np.broadcast_to(weight / np.mean(weight), 400) * 1.0
    scaled *= 400 / np.sum(scaled**2)
    line = np.column_stack([np.ones(400), t])
    coef, _ = firth_regression(line, y, scaled, t, np.diag([0, 1.0]))
    straight = expit(t + line @ coef)
    information = (scaled * straight * (1 - straight))[np.argsort(t)]
    middle = (np.cumsum(information) - information / 2) / information.sum()
    for n_knots, places in ((3, [0.1, 0.5, 0.9]), (4, [0.05, 0.35, 0.65, 0.95])):
        knots = np.interp(places, middle, np.sort(t))
        columns = SplineBasis(knots)(t)
        coef, covariance = firth_regression(columns, y, scaled, t, np.zeros((n := len(knots), n)))
        fitted = fit(p, y, np.full(400, weight), n_knots=n_knots)
        assert_allclose(curve_of(fitted, p), expit(t + columns @ coef), rtol=1e-4)
        spread = np.sqrt(np.einsum("ij,jk,ik->i", columns, covariance, columns))
        limits = expit(t + columns @ coef + 1.959964 * spread * [[-1], [1]])
        assert_allclose(fitted.interval(pairs(p)), limits, rtol=1e-3)


def test_clusters_lengthen_the_interval_by_the_sandwich():
    """At each score the larger of both variances."""
    rng = np.random.default_rng(0)
    p, c = bent(rng, 200)
    cluster, weight = np.arange(200) // 8, rng.uniform(0.5, 2, 200)
    y = (rng.random(25)[cluster] < c) * 1.0
    curve = SplineCurve(3).fit(p, y, weight)
    columns, after = SplineBasis(curve.knots_)(logit(p)), curve(pairs(p))[:, 1]
    weight = weight * weight.sum() / (weight @ weight)
    covariance = np.linalg.inv((columns.T * (weight * after * (1 - after))) @ columns)
    sums = np.eye(25)[cluster].T @ ((weight * (y - after))[:, None] * columns)
    factor = inflation(independent_size(weight, cluster=cluster))
    robust = factor * covariance @ sums.T @ sums @ covariance
    variance = [np.einsum("ij,jk,ik->i", columns, v, columns) for v in (covariance, robust)]
    assert (variance[0] < variance[1]).any()
    reach = 1.959964 * np.sqrt(np.max(variance, axis=0)) * [[-1], [1]]
    limits = curve.allow_for_clusters(p, y, 3 * weight, cluster).interval(pairs(p), 0.95)
    assert_allclose(limits, expit(logit(after) + reach), rtol=1e-4)


def test_half_of_the_smallest_score_replaces_zeros():
    """At most .01; beyond them the curve is constant. Likewise at one."""
    for least, floor in ((0.004, 0.002), (0.3, 0.01)):
        p = np.append(np.linspace(least, 0.5, 30), [0, 0])
        y = np.arange(32) % 3 == 0
        low = curve_of(fit(p, y), np.array([0, floor, 1.1 * floor]))
        high = curve_of(fit(1 - p, ~y), 1 - np.array([0, floor, 1.1 * floor]))
        for curve in (low, 1 - high):
            assert curve[0] == pytest.approx(curve[1], rel=1e-9) != curve[2]


def test_knots_follow_the_labels():
    rng = np.random.default_rng(1)
    p = rng.random(400)
    y = (rng.random(400) < p) * 1
    for n, count in ((30, 2), (70, 3), (90, 4), (400, 5)):
        fitted = fit(p[:n], y[:n])
        curve_of(fitted, p[:1])
        assert len(fitted._model.knots_) == count
    few = fit(rng.integers(1, 4, 300) / 4, y[:300])  # three scores hold no five knots
    curve_of(few, p[:1])
    assert len(few._model.knots_) <= 3
    for n_events in (35, 365):  # those of the rarer class count
        uneven = fit(p, np.arange(400) < n_events)
        curve_of(uneven, p[:1])
        assert len(uneven._model.knots_) == 3
    four = fit(rng.integers(1, 5, 400) / 5, y)
    curve_of(four, p[:1])
    assert len(four._model.knots_) == 4
    for n_knots in (6, "five"):
        with pytest.raises(ValueError, match="n_knots must be 'auto', 3, 4 or 5, got"):
            fit(p, y, n_knots=n_knots)


@pytest.mark.parametrize(
    ("world", "n"), [(tempered, 30), (tempered, 600), (bent, 600), (rare, 150), (rare, 2000)]
)
def test_interval_covers_a_smooth_curve(world, n):
    """At five quantiles of the scores; 120 data sets."""
    inside = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        p, c = world(rng, n)
        fitted = fit(p, rng.random(n) < c)
        at = np.argsort(p)[(np.array([0.05, 0.25, 0.5, 0.75, 0.95]) * (n - 1)).astype(int)]
        low, high = fitted.interval(pairs(p[at]))
        inside.append((low <= c[at]) & (c[at] <= high))
    # One standard error of a mean over 120 data sets and five dependent points is at most .02.
    assert 0.95 - 4 * 0.02 < np.mean(inside) < 0.995
    assert np.mean(inside, axis=0).min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 120) - 0.03


def test_interval_holds_the_curve_and_widens_with_the_level():
    """And with unequal weights; it narrows with the samples."""
    rng = np.random.default_rng(0)
    p, c = tempered(rng, 800)
    y, at = rng.random(800) < c, pairs(np.linspace(0, 1, 21))
    fitted = fit(p, y)
    (low, high), wider = fitted.interval(at, 0.5), fitted.interval(at, 0.99)
    curve = fitted.predict(at)[:, 1]
    assert np.all((wider[0] <= low) & (low <= curve) & (curve <= high) & (high <= wider[1]))

    def width(p, y, weight=None):
        limits = fit(p, y, weight, n_knots=3).interval(pairs([0.2, 0.5, 0.8]))
        return np.mean(np.diff(limits, axis=0))

    weight = np.where(np.arange(800) % 2, 1.0, 1e-6)  # half of the samples hardly count
    assert_allclose(width(p, y, weight), width(p[1::2], y[1::2]), rtol=0.02)
    assert width(p, y, weight) > 1.3 * width(p, y)
    assert width(np.tile(p, 4), np.tile(y, 4)) < 0.7 * width(p, y)


rng = np.random.default_rng(0)
grid = np.linspace(0.01, 0.99, 200)
DEGENERATE = {
    "constant scores": ([0.3] * 20, [0] * 15 + [1] * 5),
    "one class": (rng.random(30), [0] * 30),
    "one sample": ([0.3], [1]),
    "two samples": ([0.2, 0.7], [0, 1]),
    "separated": (grid, grid > 0.5),
    "separated the wrong way round": (grid, grid < 0.5),
    "hard and right": ([0, 1] * 10, [0, 1] * 10),
    "hard and wrong": ([0.0] * 10 + [1.0] * 10, [0, 1] * 10),
    "tiny": (rng.random(100) * 1e-12, rng.integers(0, 2, 100)),
    "below every logarithm": (rng.random(100) * 1e-300, rng.integers(0, 2, 100)),
    "nearly constant": (0.5 + 1e-14 * rng.random(100), rng.integers(0, 2, 100)),
    "many zeros": (np.r_[np.zeros(900), rng.random(100)], rng.integers(0, 2, 1000)),
    "extreme": (np.r_[1e-15, 1 - 1e-15, rng.random(200)], rng.integers(0, 2, 202)),
    "no event of thousands": (rng.beta(1, 99, 5000), np.zeros(5000)),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("weighted", [False, True])
def test_degenerate_input_gives_finite_curves(case, weighted):
    p, y = DEGENERATE[case]
    weight = np.random.default_rng(1).uniform(1e-6, 1, len(y)) if weighted else None
    fitted = fit(p, y, weight)
    at = np.array([0, 1e-9, 0.01, 0.3, 0.5, 0.99, 1])
    curve, (low, high) = curve_of(fitted, at), fitted.interval(pairs(at))
    assert np.all((low >= 0) & (low <= curve) & (curve <= high) & (high <= 1))


def test_separated_labels_get_a_monotone_curve_and_one_class_leaves_doubt():
    """With no event among 30 the upper limit is above the 3 / 30 of the rule of three."""
    curve = curve_of(fit(grid, grid > 0.5), grid)
    assert np.all(np.diff(curve) > 0) and curve[0] < 0.02 and curve[-1] > 0.98
    assert np.all(np.diff(curve_of(fit(grid, grid < 0.5), grid)) < 0)
    for y in (grid > 0.5, grid < 0.5):  # a tie at the threshold leaves a straight line
        p, y = np.append(grid, grid[99]), np.append(y, ~y[99])
        bends = np.diff(logit(curve_of(fit(p, y), expit(np.linspace(-4, 4, 9)))), 2)
        assert_allclose(bends, 0, atol=1e-6)
    low, high = fit(np.full(30, 0.2), np.zeros(30)).interval(pairs([0.2]))
    assert low[0] < 0.01 and 0.1 < high[0] < 0.3


def test_smooth_curve_and_band_of_a_display():
    rng = np.random.default_rng(0)
    p, c = tempered(rng, 150)
    y = (rng.random(150) < c) * 1
    display = ReliabilityDisplay.from_predictions(y, p, strategy="smooth")
    curve, fitted = display.curves[0], fit(p, y)
    assert display.band == "confidence" and curve.joined
    assert_allclose(curve.prob_true, curve_of(fitted, curve.prob_pred))
    assert_allclose([curve.low, curve.high], fitted.interval(pairs(curve.prob_pred)))
    options = {"strategy": SplineSmoother(3), "sample_weight": rng.uniform(0.1, 2, 150)}
    (curve,) = ReliabilityDisplay.from_predictions(
        y, p, band="consistency", n_resamples=39, **options
    ).curves
    assert np.mean((curve.low <= curve.prob_pred) & (curve.prob_pred <= curve.high)) > 0.9


def test_refits_of_many_scores_are_grouped_without_harm():
    rng = np.random.default_rng(0)
    p, c = bent(rng, 5000)
    y = (rng.random(5000) < c) * 1.0
    problem = Problem(pairs(p), pairs(y), np.ones(5000), np.arange(2))
    curve = SplinedCurve(SplineSmoother(), problem)
    refitted = curve.refit(y[:, None])[:, 0]
    assert_allclose(refitted, curve.prob_true, atol=2e-3)
    assert_array_equal(refitted, curve.refit(np.column_stack([1 - y, y]))[:, 1])
