"""Scores: the laws, closed forms, other libraries, and mixtures of thresholds."""

import numpy as np
import pytest
from laws.planted import planted
from public_functions import others

from skcalib import scores
from skcalib.scores import (
    Brier,
    ClasswiseLogLoss,
    DecisionCost,
    Elementary,
    FDivergence,
    LogLoss,
    ProperScore,
    Spherical,
)
from skcalib.testing import check_score

PROPER = [Brier(), LogLoss(), Spherical()]
INFORMATION = [FDivergence(None, f) for f in ("kl", "chi2", "total_variation", "jensen_shannon")]
NOT_STRICTLY = [Elementary(0.3), DecisionCost([[0, 1], [2, 0]])]  # see test_decisions
#: Every public score, also one that is added tomorrow.
EVERY = [*PROPER, *INFORMATION]
EVERY += others(scores, ProperScore, [*EVERY, *NOT_STRICTLY])
JOINTLY_CONVEX = {"Brier", "ClasswiseLogLoss", "LogLoss", "RankedProbability"}
NOT_JOINTLY_CONVEX = {"DawidSebastiani", "Spherical"}


@pytest.mark.parametrize("score", EVERY, ids=repr)
def test_laws(score):
    check_score(score)
    check_score(score, n_classes=(2, 10), random_state=7)


def test_classwise_log_loss_has_one_term_a_class():
    """p log p of each event, and nothing of the rest; their sum is the log loss."""
    q, s = np.random.default_rng(0).dirichlet(np.ones(4), (2, 50))
    score, total, losses = ClasswiseLogLoss(), 0.0, 0.0
    labels = np.eye(4)[np.arange(50) % 4]
    for k in range(4):
        pair, forecast, label = (np.stack([1 - v[:, k], v[:, k]], axis=1) for v in (q, s, labels))
        np.testing.assert_allclose(score.entropy(pair), -q[:, k] * np.log(q[:, k]), rtol=1e-13)
        term = q[:, k] * np.log(q[:, k] / s[:, k]) - q[:, k] + s[:, k]
        np.testing.assert_allclose(score.divergence(pair, forecast), term, rtol=1e-9, atol=1e-15)
        total, losses = total + term, losses + score.loss(label, forecast)
    np.testing.assert_allclose(total, LogLoss().divergence(q, s), rtol=1e-12)
    np.testing.assert_allclose(losses, LogLoss().loss(labels, s), rtol=1e-12)
    np.testing.assert_array_equal(score.divergence(q, s), LogLoss().divergence(q, s))
    assert score.loss(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]))[0] == np.inf


@pytest.mark.parametrize("score", EVERY, ids=repr)
def test_joint_convexity_is_declared_by_those_that_have_it(score):
    """A score that is added, and declares nothing, may have it."""
    name = type(score).__name__
    assert score.jointly_convex or name not in JOINTLY_CONVEX
    if name in NOT_JOINTLY_CONVEX:
        with pytest.raises(AssertionError, match="D of a mean of pairs exceeds the mean of D"):
            check_score(planted(type(score), jointly_convex=True)())


@pytest.mark.parametrize("score", [*PROPER, ClasswiseLogLoss()], ids=repr)
def test_logit_loss_far_out(score):
    """Forecasts that underflow: finite everywhere, and the log loss grows like the logit."""
    logits = np.array([[0.0, 1000.0], [0.0, -1000.0], [3.0, 3.0], [0.0, 40.0]])
    q = np.eye(2)[[0, 1, 1, 0]]
    loss, gradient = score.logit_loss(q, logits)
    assert np.isfinite(loss).all() and np.isfinite(gradient).all()
    if score == LogLoss():
        np.testing.assert_allclose(loss, [1000, 1000, np.log(2), 40], atol=1e-12)
        np.testing.assert_allclose(gradient[0], [-1, 1], atol=1e-12)
    if score == ClasswiseLogLoss():  # of the second class: -log s - 1 + s where it happened, or s
        np.testing.assert_allclose(loss, [1, 999, np.log(2) - 0.5, 1], atol=1e-12)


@pytest.mark.parametrize("score", EVERY, ids=repr)
def test_gradient_of_the_loss_is_that_of_its_values(score):
    """Also of a small probability that grows, where the curvature of the entropy is strong."""
    if score.domain == "moments" or score == FDivergence(None, "total_variation"):
        return
    forecast = np.array([[0.2, 0.5, 0.3], [1e-5, 0.6, 0.4 - 1e-5], [0.7, 0.1, 0.2]])
    target = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]])
    gradient = score.loss_gradient(target, forecast)
    for direction in ([1, -1, 0], [0, 1, -1]):
        step = 1e-4 * forecast.min(axis=1, keepdims=True) * np.array(direction)
        rise = score.loss(target, forecast + step) - score.loss(target, forecast - step)
        slope = np.sum(gradient * step, axis=1) / np.abs(step).max(axis=1)
        np.testing.assert_allclose(rise / np.abs(2 * step).max(axis=1), slope, rtol=2e-4, atol=1e-6)


def test_information_with_and_without_a_prior():
    """sum_k pi_k f(s_k / pi_k) by hand, and its value where one class is certain."""
    s = np.array([[0.5, 0.3, 0.2]])
    for prior, shares in ((None, [1 / 3] * 3), ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])):
        ratio = s / shares
        by_hand = {"kl": np.sum(s * np.log(ratio)), "chi2": np.sum(shares * (ratio - 1) ** 2)}
        for name, expected in by_hand.items():
            score = FDivergence(prior, name)
            assert score.entropy(s)[0] == pytest.approx(-expected, rel=1e-12)
    assert FDivergence(None, "chi2").infimum is None
    assert FDivergence([0.2, 0.3, 0.5], "chi2").infimum == pytest.approx(-4)  # 1 / .2 - 1
    assert FDivergence([0.2, 0.8], "kl").infimum == pytest.approx(np.log(0.2))
    for prior in ("ab", [0.5, 0.6], [[0.5, 0.5]], [1.5, -0.5], object()):
        with pytest.raises(ValueError, match="prior must list positive class frequencies"):
            FDivergence(prior)


def test_decisions_by_hand():
    """Costs of treating are 2 and 1, of leaving 0 and 10; both are 20 / 11 at the threshold."""
    score, forecast = DecisionCost([[0, 1], [10, 2]]), np.array([[0.95, 0.05], [0.8, 0.2]])
    np.testing.assert_allclose(score.entropy(forecast), [0.5, 1.2])
    np.testing.assert_allclose(score.loss(np.eye(2)[[0, 1]], forecast), [0, 2])
    np.testing.assert_allclose(score.loss(np.eye(2)[[1, 0]], forecast), [10, 1])
    assert score.infimum == 0 and score.decisions(forecast).tolist() == [0, 1]
    assert score.tied(np.array([[8 / 9, 1 / 9], [0.9, 0.1]])).tolist() == [True, False]
    for costs in ([0, 1], [[0, 1]], [[0], [1]], [[0, np.nan], [1, 0]], "ab", None):
        with pytest.raises(ValueError, match="costs must be a matrix of finite numbers"):
            DecisionCost(costs)


def test_names_of_methods_and_of_what_trains_a_map():
    assert [scores.resolve_method("auto", score) for score in (Brier(), LogLoss())] == [
        "cross", "risk",
    ]  # fmt: skip
    assert scores.resolve_method("direct", LogLoss()) == "direct"
    assert scores.resolve_training_loss("log") == LogLoss()
    with pytest.raises(ValueError, match="no map can be fitted by it"):
        scores.resolve_training_loss(DecisionCost([[0, 1], [2, 0]]))
    with pytest.raises(ValueError, match="method='cross' needs a score"):
        scores.resolve_method("cross", LogLoss())


def test_weighted_means_and_quantiles():
    values, weight = np.array([3.0, 1.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])
    quantiles = [scores.weighted_quantile(values, weight, level) for level in (0.2, 0.5, 0.51, 1)]
    assert quantiles == [1, 2, 3, 5]
    assert scores.weighted_mean(values, weight) == pytest.approx(3.1)
    assert scores.weighted_mean(values) == 2.75
    assert scores.weighted_mean(np.append(values, np.inf)) == np.inf


def test_scores_of_two_forecasts_by_hand():
    """The divergence of the product of residuals is that of their means: (P - T)(Q - U)."""
    target, forecast = np.random.default_rng(0).dirichlet(np.ones(3), (2, 7, 2))
    rule = scores.UScore(lambda p, q, y, z: np.sum((p - y) * (q - z), axis=1))
    expected = np.sum(np.prod(forecast - target, axis=1), axis=1)
    np.testing.assert_allclose(rule.entropy(target), 0, atol=1e-15)
    np.testing.assert_allclose(rule.divergence(target, forecast), expected, atol=1e-14)
    first = scores.UScore(lambda p, y: np.sum((p - y) ** 2, axis=1), size=1)
    single = first.divergence(target[:, :1], forecast[:, :1])
    np.testing.assert_allclose(single, Brier().divergence(target[:, 0], forecast[:, 0]), rtol=1e-12)
