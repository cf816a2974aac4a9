"""Scores: the laws, closed forms, other libraries, and mixtures of thresholds."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from public_functions import others
from scipy.integrate import quad
from scipy.special import softmax
from scipy.stats import entropy, norm
from sklearn.metrics import brier_score_loss, log_loss

from skcalib import proper_calibration_error, scores
from skcalib.scores import (
    Brier,
    ClasswiseLogLoss,
    DawidSebastiani,
    DecisionCost,
    Divergence,
    Elementary,
    LogLoss,
    Lp,
    ProperScore,
    Spherical,
    TotalVariation,
)
from skcalib.testing import check_score

PROPER = [Brier(), LogLoss(), Spherical()]
NOT_STRICTLY = [Elementary(0.3), DecisionCost([[0, 1], [2, 0]])]  # see test_decisions
#: Every public score, also one that is added tomorrow.
EVERY = [*PROPER, *others(scores, ProperScore, [*PROPER, *NOT_STRICTLY])]
JOINTLY_CONVEX = {"Brier", "ClasswiseLogLoss", "LogLoss"}
NOT_JOINTLY_CONVEX = {"DawidSebastiani", "Spherical"}
DISTANCES = [TotalVariation(), Lp(1), Lp(2), Lp(3), Lp(1.5)]


@pytest.mark.parametrize("score", EVERY, ids=repr)
def test_laws(score):
    check_score(score)
    check_score(score, n_classes=(2, 10), random_state=7)


# --- against formulas that share nothing with ours ------------------------------------------------


def test_brier_is_that_of_scikit_learn(binary):
    y, proba = binary
    ours = Brier().loss(np.eye(2)[y], proba).mean()
    assert ours == pytest.approx(brier_score_loss(y, proba[:, 1]), rel=1e-13)
    assert ours == pytest.approx(np.mean((proba[:, 1] - y) ** 2), rel=1e-13)


def test_multiclass_brier_is_a_sum_over_classes(multiclass):
    y, proba = multiclass
    by_hand = sum((proba[i, k] - (y[i] == k)) ** 2 for i in range(len(y)) for k in range(3)) / len(
        y
    )
    assert Brier().loss(np.eye(3)[y], proba).mean() == pytest.approx(by_hand, rel=1e-13)


def test_log_loss_is_that_of_scikit_learn(multiclass):
    y, proba = multiclass
    inside = proba.min(axis=1) > 0  # scikit-learn clips the others
    ours = LogLoss().loss(np.eye(3)[y[inside]], proba[inside]).mean()
    assert ours == pytest.approx(log_loss(y[inside], proba[inside]), rel=1e-12)


def test_log_divergence_is_kullback_leibler():
    q, s = np.random.default_rng(0).dirichlet(np.ones(4), (2, 50))
    np.testing.assert_allclose(LogLoss().divergence(q, s), entropy(q, s, axis=1), rtol=1e-12)
    np.testing.assert_allclose(LogLoss().entropy(q), entropy(q, axis=1), rtol=1e-13)


def test_spherical_is_an_angle():
    """1 minus the cosine between label and forecast."""
    label, s = np.eye(3)[[0, 1, 2, 0]], np.random.default_rng(0).dirichlet(np.ones(3), 4)
    cosine = [row @ aim / np.linalg.norm(row) for row, aim in zip(s, label, strict=True)]
    np.testing.assert_allclose(Spherical().loss(label, s), 1 - np.array(cosine), rtol=1e-13)


def test_dawid_sebastiani_is_a_normal_likelihood():
    """(y - mu)^2 / v + log v is twice the negative log density, up to a constant."""
    rng = np.random.default_rng(0)
    y, mean, variance = rng.normal(size=30), rng.normal(size=30), rng.exponential(size=30) + 0.2
    score = DawidSebastiani()
    found = score.loss(score.statistic(y), np.column_stack([mean, mean**2 + variance]))
    expected = -2 * norm.logpdf(y, mean, np.sqrt(variance)) - np.log(2 * np.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_classwise_log_loss_has_one_term_a_class():
    """p log p of each event, and nothing of the rest; their sum is the log loss."""
    q, s = np.random.default_rng(0).dirichlet(np.ones(4), (2, 50))
    score, total, losses = ClasswiseLogLoss(), 0.0, 0.0
    labels = np.eye(4)[np.arange(50) % 4]
    for k in range(4):
        pair, other, label = (np.stack([1 - v[:, k], v[:, k]], axis=1) for v in (q, s, labels))
        np.testing.assert_allclose(score.entropy(pair), -q[:, k] * np.log(q[:, k]), rtol=1e-13)
        own = q[:, k] * np.log(q[:, k] / s[:, k]) - q[:, k] + s[:, k]
        np.testing.assert_allclose(score.divergence(pair, other), own, rtol=1e-9, atol=1e-15)
        total, losses = total + own, losses + score.loss(label, other)
    np.testing.assert_allclose(total, LogLoss().divergence(q, s), rtol=1e-12)
    np.testing.assert_allclose(losses, LogLoss().loss(labels, s), rtol=1e-12)
    np.testing.assert_array_equal(score.divergence(q, s), LogLoss().divergence(q, s))
    assert score.loss(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]))[0] == np.inf


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classwise_log_loss_from_logits(n_classes):
    """Against the loss of the softmax and differences; finite where the forecast underflows."""
    rng, score = np.random.default_rng(0), ClasswiseLogLoss()
    logits, target = rng.normal(size=(20, n_classes)), rng.dirichlet(np.ones(n_classes), 20)
    loss, gradient = score.logit_loss(target, logits)
    np.testing.assert_allclose(loss, score.loss(target, softmax(logits, axis=1)), rtol=1e-12)
    for k in range(n_classes):
        step = 1e-6 * np.eye(n_classes)[k]
        rise = (
            score.logit_loss(target, logits + step)[0] - score.logit_loss(target, logits - step)[0]
        )
        np.testing.assert_allclose(gradient[:, k], rise / 2e-6, rtol=1e-6, atol=1e-9)
    far = np.linspace(1000.0, -1000.0, n_classes)[None]
    loss, gradient = score.logit_loss(np.eye(n_classes)[-1:], far)
    assert loss[0] == pytest.approx(2000, rel=1e-2) and np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("score", "weight"),
    [
        (Brier(), lambda c: 2.0),
        (LogLoss(), lambda c: 1 / (c * (1 - c))),
        (Spherical(), lambda c: (c**2 + (1 - c) ** 2) ** -1.5),
    ],
    ids=["brier", "log", "spherical"],
)
def test_schervish_mixture_of_thresholds(score, weight):
    """Every binary proper loss is a mixture of cost-weighted zero-one losses."""
    for p in (0.05, 0.3, 0.5, 0.92):
        forecast = np.array([[1 - p, p]])
        missed = quad(lambda c: (1 - c) * weight(c), p, 1)[0]
        false_alarm = quad(lambda c: c * weight(c), 0, p)[0]
        assert score.loss(np.array([[0.0, 1.0]]), forecast)[0] == pytest.approx(missed, rel=1e-8)
        assert score.loss(np.array([[1.0, 0.0]]), forecast)[0] == pytest.approx(
            false_alarm, rel=1e-8
        )


# --- joint convexity ------------------------------------------------------------------------------


@pytest.mark.parametrize("score", EVERY, ids=repr)
def test_joint_convexity_is_declared_by_those_that_have_it(score):
    """`check_score` finds a counter-example for those that do not have it.

    A score that is added, and declares nothing, may have it.
    """
    name = type(score).__name__
    assert score.jointly_convex or name not in JOINTLY_CONVEX
    if name in NOT_JOINTLY_CONVEX:

        class Claims(type(score)):
            jointly_convex = True

        with pytest.raises(AssertionError, match="D of a mean of pairs exceeds the mean of D"):
            check_score(Claims())


def test_joint_convexity_is_not_assumed():
    assert not ProperScore.jointly_convex and not Quartic().jointly_convex


# --- gradients of the loss ------------------------------------------------------------------------


class Quartic(ProperScore):
    """A score of a user, without closed forms."""

    infimum = -1.0

    def entropy(self, forecast):
        return -np.sum(forecast**4, axis=-1)

    def gradient(self, forecast):
        return -4 * forecast**3


def points(n_classes, *, concentration=1.0, soft=False, n_samples=300):
    rng = np.random.default_rng(n_classes)
    s = rng.dirichlet(np.full(n_classes, concentration), n_samples)
    labels = np.eye(n_classes)[rng.integers(n_classes, size=n_samples)]
    return (0.9 * labels + 0.1 / n_classes if soft else labels), s


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("score", [*PROPER, Quartic()], ids=repr)
def test_loss_gradient_against_differences(score, n_classes, soft):
    """Along the simplex; the direction that leaves it is free."""
    q, s = points(n_classes, soft=soft)
    s = 0.9 * s + 0.1 / n_classes
    found = score.loss_gradient(q, s)
    assert found.shape == s.shape
    rng = np.random.default_rng(0)
    for _ in range(3):
        step = 1e-6 * (rng.dirichlet(np.ones(n_classes), len(s)) - s)
        rise = score.loss(q, s + step) - score.loss(q, s - step)
        np.testing.assert_allclose(
            2 * np.sum(found * step, axis=1), rise, rtol=1e-6, atol=1e-6 * np.abs(rise).max()
        )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("score", [*PROPER, Quartic()], ids=repr)
def test_logit_loss_against_differences(score, n_classes, soft):
    q, s = points(n_classes, soft=soft)
    logits = 2 * np.log(s)
    loss, gradient = score.logit_loss(q, logits)
    forecast = softmax(logits, axis=1)
    np.testing.assert_allclose(loss, score.loss(q, forecast), rtol=1e-9, atol=1e-12)
    for k in range(n_classes):
        step = 1e-5 * np.eye(n_classes)[k]
        rise = score.logit_loss(q, logits + step)[0] - score.logit_loss(q, logits - step)[0]
        np.testing.assert_allclose(gradient[:, k], rise / 2e-5, atol=1e-6)
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-10)


@pytest.mark.parametrize("concentration", [1.0, 0.2, 0.05])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("score", [Brier(), LogLoss()], ids=repr)
def test_generic_loss_gradient_against_closed_forms(score, n_classes, concentration):
    """Also where the label was given a probability of 1e-15, and the logarithm bends."""
    q, s = points(n_classes, concentration=concentration)
    there = np.sum(q * s, axis=1) > 1e-200
    q, s = q[there], s[there]
    assert concentration > 0.1 or np.sum(q * s, axis=1).min() < 1e-12
    closed, generic = score.loss_gradient(q, s), ProperScore.loss_gradient(score, q, s)

    def in_logits(gradient):
        return s * (gradient - np.sum(s * gradient, axis=1, keepdims=True))

    np.testing.assert_allclose(in_logits(generic), in_logits(closed), atol=1e-5)


@pytest.mark.parametrize("score", [*PROPER, Quartic()], ids=repr)
def test_logit_loss_far_out(score):
    """Forecasts that underflow: finite everywhere, and the log loss grows like the logit."""
    logits = np.array([[0.0, 1000.0], [0.0, -1000.0], [3.0, 3.0], [0.0, 40.0]])
    q = np.eye(2)[[0, 0, 1, 0]]
    loss, gradient = score.logit_loss(q, logits)
    assert np.isfinite(loss).all() and np.isfinite(gradient).all()
    if score == LogLoss():
        np.testing.assert_allclose(loss, [1000, 0, np.log(2), 40], atol=1e-12)
        np.testing.assert_allclose(gradient[0], [-1, 1], atol=1e-12)


# --- exact 0 and 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize(("score", "worst"), [(Brier(), 2), (LogLoss(), np.inf), (Spherical(), 1)])
def test_certain_forecasts(score, worst):
    corners = np.eye(3)
    np.testing.assert_array_equal(score.loss(corners, corners), np.zeros(3))
    np.testing.assert_array_equal(score.loss(corners, corners[[1, 2, 0]]), np.full(3, worst))
    np.testing.assert_array_equal(score.divergence(corners, corners), np.zeros(3))


def test_log_ignores_impossible_classes():
    """0 log 0 = 0, one coordinate at a time: the others still count."""
    q, s = np.array([[0.0, 0.5, 0.5]]), np.array([[0.0, 0.25, 0.75]])
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert LogLoss().divergence(q, s)[0] == pytest.approx(expected, rel=1e-14)
    assert LogLoss().entropy(q)[0] == pytest.approx(np.log(2), rel=1e-14)
    assert LogLoss().divergence(q, np.array([[0.5, 0.5, 0.0]]))[0] == np.inf


# --- distances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_distances(distance, n_classes):
    q, s = np.random.default_rng(0).dirichlet(np.ones(n_classes), (2, 40))
    found = distance.divergence(q, s)
    assert found.shape == (40,) and (found > 0).all()
    np.testing.assert_array_equal(found, distance.divergence(s, q))
    np.testing.assert_array_equal(distance.divergence(q, q), np.zeros(40))


def test_conventions_of_distances():
    for n_classes in (2, 4):
        q, s = np.random.default_rng(0).dirichlet(np.ones(n_classes), (2, 40))
        np.testing.assert_allclose(Lp(2).divergence(q, s), Brier().divergence(q, s), rtol=1e-9)
        np.testing.assert_allclose(
            TotalVariation().divergence(q, s), 0.5 * np.abs(q - s).sum(axis=1), rtol=1e-14
        )
    q, s = np.random.default_rng(0).dirichlet(np.ones(2), (2, 40))
    np.testing.assert_allclose(TotalVariation().divergence(q, s), np.abs(q - s)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(Lp(3).divergence(q, s), np.abs(q - s)[:, 1] ** 3, rtol=1e-12)


@pytest.mark.parametrize("p", [0.5, 0, -1, np.nan])
def test_power_below_one_is_refused(p):
    with pytest.raises(ValueError, match="p must be a finite number of at least 1"):
        Lp(p)


# --- objects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [*PROPER, DawidSebastiani(), *DISTANCES], ids=repr)
def test_scores_are_values(score):
    copy = pickle.loads(pickle.dumps(score))
    assert copy == score and hash(copy) == hash(score)
    assert score not in [other for other in [*PROPER, *DISTANCES] if repr(other) != repr(score)]
    assert isinstance(score, Divergence)


def test_declared_facts():
    assert [s.infimum for s in (*PROPER, DawidSebastiani())] == [0, 0, 0, None]
    assert [s.separable for s in (*PROPER, DawidSebastiani())] == [True, False, False, False]
    assert not any(isinstance(distance, ProperScore) for distance in DISTANCES)


@pytest.mark.parametrize("wrong", ["Brier", "l2", None, Brier, 3, ["brier"]])
def test_one_message_for_every_unknown_loss(wrong):
    with pytest.raises(ValueError, match="loss must be one of 'brier', 'log', 'spherical' or a"):
        proper_calibration_error([0, 1], [0.2, 0.8], loss=wrong)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(PROPER),
    st.integers(2, 8),
    st.floats(0.05, 5),
    st.integers(0, 2**31),
)
def test_propriety_far_and_near(score, n_classes, concentration, seed):
    """No forecast beats the truth, however concentrated both are."""
    rng = np.random.default_rng(seed)
    q, s = rng.dirichlet(np.full(n_classes, concentration), (2, 20))
    assert (score.loss(q, s) >= score.entropy(q) - 1e-12).all()
    near = (1 - 1e-6) * q + 1e-6 * s
    assert (score.loss(q, near) >= score.entropy(q) - 1e-12).all()
