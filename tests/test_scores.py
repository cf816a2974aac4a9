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
