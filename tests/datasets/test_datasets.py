"""Simulators: the truth is the truth, by integrals and draws that share no code with ours."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import betaln, expit, logit, xlogy
from scipy.stats import norm

from skcalib.datasets import (
    CURVES,
    LINKS,
    classwise_truth,
    make_grouping_curves,
    make_grouping_problem,
    make_logistic_scores,
    make_tempered_simplex,
    make_widmann,
)
from skcalib.scores import LogLoss

MAKERS = [
    partial(make_tempered_simplex, n_classes=2),
    partial(make_tempered_simplex, n_classes=5, score_temperature=1.4),
    make_grouping_problem,
    partial(make_grouping_problem, heterogeneity=0.0),
    partial(make_grouping_problem, optimal_accuracy=True, link="steep", logit_variance=10),
    *(partial(make_grouping_curves, curve=curve) for curve in CURVES),
    make_logistic_scores,
    *(partial(make_widmann, model=model, n_classes=3) for model in ("M1", "M2")),
]


def tempered(n, n_classes, label, score):
    temperatures = {"label_temperature": label, "score_temperature": score}
    return make_tempered_simplex(n, n_classes, random_state=7, **temperatures)


@pytest.mark.parametrize("make", MAKERS)
def test_shape_and_reproducibility(make):
    sample, same, another_seed = (make(300, random_state=seed) for seed in (0, 0, 1))
    n_classes = sample.y_proba.shape[1]
    assert sample.y.shape == (300,) and sample.posterior.shape == sample.y_proba.shape
    np.testing.assert_array_equal(np.unique(sample.y), np.arange(n_classes))
    for rows in (sample.y_proba, sample.posterior):
        assert rows.min() >= 0 and np.ptp(rows, axis=0).min() > 0.3
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(sample.y_proba, same.y_proba)
    np.testing.assert_array_equal(sample.y, same.y)
    assert not np.array_equal(sample.y_proba, another_seed.y_proba)
    assert all(isinstance(value, float) for value in sample.truth.values())


@pytest.mark.parametrize("make", MAKERS)
def test_labels_are_drawn_from_the_posterior(make, within_standard_errors):
    """The residual has mean zero, overall and against functions of the forecast."""
    sample = make(40_000, random_state=3)
    residual = np.eye(sample.y_proba.shape[1])[sample.y] - sample.posterior
    for k in range(residual.shape[1]):
        within_standard_errors(residual[:, k], 0)
        within_standard_errors(residual[:, k] * sample.y_proba[:, k], 0)
        within_standard_errors(residual[:, k] * (sample.posterior[:, 0] >= 0.5), 0)


@pytest.mark.parametrize(("label", "score"), [(0.9, 0.6), (0.9, 1.7), (1.0, 1.0), (0.5, 0.8)])
def test_tempered_truth_by_quadrature(label, score):
    """The integral over u, written out with powers of u and 1 - u."""

    def parts(u):
        p = u ** (1 / label) / (u ** (1 / label) + (1 - u) ** (1 / label))
        s = p ** (1 / score) / (p ** (1 / score) + (1 - p) ** (1 / score))
        return p, s, 1 - p, 1 - s

    functions = {
        "brier": lambda p, s, q, r: (p - s) ** 2,
        "log": lambda p, s, q, r: p * np.log(p / s) + q * np.log(q / r),
        "refinement_brier": lambda p, s, q, r: p * q,
        "refinement_log": lambda p, s, q, r: -p * np.log(p) - q * np.log(q),
    }
    truth = tempered(10, 2, label, score).truth
    for name, function in functions.items():
        integrand = lambda u, function=function: function(*parts(u))  # noqa: E731
        expected = quad(integrand, 1e-9, 1 - 1e-9, epsabs=1e-11, limit=200)[0]
        assert truth[name] == pytest.approx(expected, rel=1e-6, abs=1e-8), name
    assert (truth["uncertainty_brier"], truth["uncertainty_log"]) == (0.25, np.log(2))


CLASSWISE = [(2, 0.9, 0.6), (3, 0.9, 0.6), (5, 0.9, 1.4), (10, 0.9, 0.3), (4, 0.3, 0.5)]


@pytest.mark.parametrize(("n_classes", "label", "score"), CLASSWISE)
def test_classwise_truth_by_draws(n_classes, label, score, within_standard_errors):
    """Neighbours in the score of one class share E[Y_k|S_k]; no draw uses the quadrature."""
    sample = tempered(400_000, n_classes, label, score)
    order = np.argsort(sample.y_proba[:, 0])
    s, p = sample.y_proba[order, 0], sample.posterior[order, 0]
    # Products of independent gaps at nearly equal scores: their mean is E (E[Y_0|S_0] - S_0)^2.
    for gap in (p - s, (sample.y == 0)[order] - s):
        within_standard_errors(gap[::2] * gap[1::2], sample.truth["classwise_brier"])
    # The log loss is not a product. Means of 400 neighbours estimate E[Y_0|S_0]; their noise adds
    # half the variance times the curvature of the divergence, which is subtracted.
    group, score = p.reshape(-1, 400), s.reshape(-1, 400).mean(axis=1)
    mean, variance = group.mean(axis=1), group.var(axis=1, ddof=1) / 400
    divergence = xlogy(mean, mean / score) + xlogy(1 - mean, (1 - mean) / (1 - score))
    estimate = np.mean(divergence - variance / (2 * mean * (1 - mean)))
    # Noise of the means, to first order, and of the draws of the score.
    slope = logit(mean) - logit(score)
    error = np.sqrt(np.mean(slope**2 * variance) / len(mean) + divergence.var() / len(s))
    truth = sample.truth["classwise_log"]
    assert abs(estimate - truth) <= 4 * error + 0.002 * truth


@pytest.mark.parametrize(("n_classes", "label", "score"), CLASSWISE[1:])
def test_standard_error_of_the_classwise_truth(n_classes, label, score):
    """Other quasi-random points: the relative error that the docstring states."""
    truths = [classwise_truth(n_classes, label, score, seed=seed) for seed in range(5)]
    values = [list(truth.values()) for truth in truths]
    assert (np.std(values, axis=0, ddof=1) / np.mean(values, axis=0)).max() < 2e-3


def test_classwise_truth_of_two_classes_and_of_extreme_settings():
    """The general formula; finite without warnings; left out for more than 1000 classes."""
    sample = make_tempered_simplex(10, 2, random_state=0)
    for name, value in classwise_truth(2, 0.9, 0.6).items():
        assert value == pytest.approx(sample.truth[name], rel=1e-6)
    for label, score in product((0.01, 100), repeat=2):
        truth = tempered(10, 3, label, score).truth
        assert 0 < truth["classwise_brier"] < truth["classwise_log"] < 5
    assert make_tempered_simplex(10, 1001, random_state=0).truth == {}


def test_the_forecast_is_a_function_of_the_posterior():
    """Temperature scaling is injective, so the calibrated scores are the posterior itself."""
    sample = make_tempered_simplex(500, 4, score_temperature=0.6, random_state=0)
    rebuilt = sample.posterior ** (1 / 0.6)
    rebuilt /= rebuilt.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sample.y_proba, rebuilt, rtol=1e-9)
    calibrated = make_tempered_simplex(50, 4, score_temperature=1, random_state=0)
    np.testing.assert_allclose(calibrated.y_proba, calibrated.posterior, rtol=1e-12)
    names = ("brier", "log", "classwise_brier", "classwise_log")
    assert calibrated.truth == dict.fromkeys(names, 0.0)


@pytest.mark.parametrize(("heterogeneity", "kind"), [(1.0, "brier"), (0.4, "log")])
def test_grouping_truth_by_quadrature(heterogeneity, kind):
    def integrand(t, z):
        s = expit(np.sqrt(20) * z)
        q = s + heterogeneity * (2 * expit(t) - 1) * min(s, 1 - s)
        log = q * np.log(q / s) + (1 - q) * np.log((1 - q) / (1 - s))
        return ((q - s) ** 2 if kind == "brier" else log) * norm.pdf(z) * norm.pdf(t)

    truth = make_grouping_problem(10, heterogeneity=heterogeneity, random_state=0).truth
    half, _ = dblquad(integrand, -6, 0, -6, 6, epsabs=1e-8)
    assert truth[f"grouping_{kind}"] == pytest.approx(2 * half, rel=1e-5)


def test_grouping_truth_by_draws(within_standard_errors):
    """X has the stated covariance, S is calibrated, and Q differs from S as stated."""
    sample = make_grouping_problem(200_000, random_state=1)
    np.testing.assert_allclose(np.cov(sample.X.T), [[5.5, 4.5], [4.5, 5.5]], atol=0.1)
    s = expit(sample.X.sum(axis=1))
    np.testing.assert_allclose(sample.y_proba[:, 1], s, rtol=1e-12)
    across = (sample.X[:, 0] - sample.X[:, 1]) / np.sqrt(2)
    q = s + (2 * expit(across) - 1) * np.minimum(s, 1 - s)
    np.testing.assert_allclose(sample.posterior[:, 1], q, atol=1e-12)
    check_draws(sample, within_standard_errors)
    sample = make_grouping_problem(100, heterogeneity=0.0, random_state=0)
    assert sample.truth["grouping_brier"] == sample.truth["grouping_log"] == 0
    np.testing.assert_allclose(sample.posterior, sample.y_proba, rtol=0, atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("concentration", [0.1, 1.0])
@pytest.mark.parametrize("mixture", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("model", ["M2", "M3"])
def test_truth_of_widmanns_grid(n_classes, concentration, mixture, model, within_standard_errors):
    """W19, appendix: closed forms of the paper, and means over draws of forecasts."""
    options = {"model": model, "concentration": concentration, "mixture": mixture}
    sample = make_widmann(4000, n_classes=n_classes, random_state=1, **options)
    a, m, truth = concentration, n_classes, sample.truth
    published = mixture * (m - 1) / m
    if model == "M3":
        log_ratio = (m - 1) * np.log(m - 1) - m * np.log(m)
        published = mixture * np.exp(a * log_ratio - betaln(a, (m - 1) * a)) / a
    assert truth["total_variation"] == pytest.approx(published, rel=1e-9)
    difference = sample.posterior - sample.y_proba
    if mixture == 0:
        assert truth == {"total_variation": 0, "brier": 0} and np.all(difference == 0)
        return
    within_standard_errors(0.5 * np.abs(difference).sum(axis=1), truth["total_variation"])
    halved = 0.5 if n_classes == 2 else 1.0
    within_standard_errors(halved * np.sum(difference**2, axis=1), truth["brier"])


def test_models_of_widmann_are_points_of_the_grid():
    for model, mixture in (("M1", 0), ("M2", 0.5), ("M3", 1)):
        options = {"model": model, "random_state": 3}
        plain, explicit = (make_widmann(50, **options, **k) for k in ({}, {"mixture": mixture}))
        for key in ("y", "y_proba", "posterior"):
            np.testing.assert_array_equal(plain[key], explicit[key])
        assert plain.truth == explicit.truth


def test_truth_of_logistic_scores(within_standard_errors):
    """F24's constants, and means over draws."""
    for intercept, slope, tce, lipschitz in (
        (0.5, -1.5, 0.07444, 1.522),
        (0.2, -1.9, 0.02346, 1.142),
    ):
        sample = make_logistic_scores(200_000, intercept, slope, random_state=0)
        assert sample.truth["tce"] == pytest.approx(tce, abs=6e-6)
        assert sample.truth["lipschitz"] == pytest.approx(lipschitz, abs=6e-4)
        gap = sample.posterior - sample.y_proba
        within_standard_errors(np.abs(gap[:, 1]), sample.truth["tce"])
        within_standard_errors(gap[:, 1] ** 2, sample.truth["brier"])
        losses = LogLoss().divergence(sample.posterior, sample.y_proba)
        within_standard_errors(losses, sample.truth["log"])
    calibrated = make_logistic_scores(100, 0, -2, random_state=0)
    np.testing.assert_allclose(calibrated.posterior, calibrated.y_proba)
    assert calibrated.truth["tce"] == 0 and calibrated.truth["lipschitz"] == pytest.approx(1)


def check_draws(sample, same_mean):
    """The truth, calibration and accuracy of a large draw."""
    score, q = sample.y_proba[:, 1], sample.posterior[:, 1]
    same_mean((q - score) ** 2, sample.truth["grouping_brier"])
    same_mean(LogLoss().divergence(sample.posterior, sample.y_proba), sample.truth["grouping_log"])
    same_mean((score > 0.5) == sample.y, sample.truth["accuracy"])
    same_mean(sample.y - q, 0)
    for low in np.arange(0, 1, 0.1):  # calibrated at every level
        same_mean((sample.y - score)[(score >= low) & (score < low + 0.1)], 0)


@pytest.mark.parametrize("curve", CURVES)
def test_grouping_curves(curve, within_standard_errors):
    sample = make_grouping_curves(200_000, curve=curve, random_state=0)
    check_draws(sample, within_standard_errors)
    score, q = sample.y_proba[:, 1], sample.posterior[:, 1]
    wrong = (q - 0.5) * (score - 0.5) < 0
    assert wrong.any() == (curve in ("quadratic", "double"))
    best = np.maximum(q, 1 - q).mean()
    assert (best > sample.truth["accuracy"] + 0.02) == wrong.any()
    assert sample.y_proba.min() >= 0 and 0 <= q.min() <= q.max() <= 1


def test_grouping_curves_by_their_formulas():
    """The grouping loss by adaptive integrals over x, with each curve written once more."""

    def of_normal(gap):
        def integrand(x):
            return 2 * norm.pdf(x) * gap(1 - np.exp(-((0.9 * x) ** 2))) ** 2

        kinks = [np.sqrt(-np.log(1 - s)) / 0.9 for s in (0.25, 0.5, 0.75)]
        return quad(integrand, 0, 10, points=kinks, epsabs=1e-13)[0]

    gaps = {
        "quadratic": lambda s: s - s**2,
        "double": lambda s: min(s, 1 - s),
        "step": lambda s: min(s, 1 - s, abs(s - 0.5)),
    }
    for curve, gap in gaps.items():
        truth = make_grouping_curves(10, curve=curve, random_state=0).truth
        assert truth["grouping_brier"] == pytest.approx(of_normal(gap), rel=1e-9)

    # Two outcomes: 1/2 with probability 2 m, and a certain one; m is the smaller of S and 1 - S.
    def integrand(x):
        m = min(np.exp(-(x**2)), 1 - np.exp(-(x**2)))
        return (2 * m * (0.5 - m) ** 2 + (1 - 2 * m) * m**2) / 3

    truth = make_grouping_curves(10, curve="constant", random_state=0).truth
    expected = quad(integrand, 0, 3, points=[np.sqrt(np.log(2))], epsabs=1e-13)[0]
    assert truth["grouping_brier"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("optimal", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_grouping_problem_of_optimal_accuracy(link, optimal, within_standard_errors):
    """Figures 11 and 12: with optimal accuracy Q and S are on the same side of 1/2.

    Links are odd, or S would not be calibrated, and bounded by 1.
    """
    t = np.linspace(-8, 8, 1601)
    assert 0.9 < np.abs(LINKS[link](t)).max() <= 1
    np.testing.assert_allclose(LINKS[link](t), -LINKS[link](-t), atol=1e-12)
    sample = make_grouping_problem(
        200_000, link=link, optimal_accuracy=optimal, logit_variance=10, random_state=0
    )
    check_draws(sample, within_standard_errors)
    score, q = sample.y_proba[:, 1], sample.posterior[:, 1]
    within_standard_errors(np.log(score / sample.y_proba[:, 0]) ** 2, 10)
    assert ((q - 0.5) * (score - 0.5) < 0).any() != optimal
    if optimal:
        assert np.abs(q - score).max() <= 0.25


def test_sharpest_shift_of_optimal_accuracy_by_an_integral():
    """The link "step" is 1 in size: the grouping loss is E min(S, 1 - S, |S - 1/2|)^2."""

    def integrand(z):
        s = expit(z)
        return 2 * norm.pdf(z, scale=np.sqrt(20)) * min(s, 1 - s, abs(s - 0.5)) ** 2

    truth = make_grouping_problem(10, link="step", optimal_accuracy=True, random_state=0).truth
    expected = quad(integrand, 0, 60, points=[np.log(3)], epsabs=1e-13)[0]
    assert truth["grouping_brier"] == pytest.approx(expected, rel=1e-8)


def test_refusals():
    for make, options, words in (
        (make_tempered_simplex, {"n_classes": 1}, "n_classes must be at least 2"),
        (make_grouping_problem, {"heterogeneity": 1.5}, r"heterogeneity must be in \[0, 1\]"),
        (make_widmann, {"n_classes": 1}, "n_classes must be at least 2"),
        (make_widmann, {"model": "M2", "mixture": 1.1}, r"mixture must be in \[0, 1\], got"),
        (make_widmann, {"model": "M1", "mixture": 0.5}, "is calibrated, so its mixture is 0"),
        (make_logistic_scores, {"intercept": 0.5, "slope": 0}, "slope must not be 0"),
    ):
        with pytest.raises(ValueError, match=words):
            make(10, **options)
