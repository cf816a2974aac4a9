"""Scores, distances and the tower, number by number: what a hand or a plain loop computes."""

import math

import numpy as np
import pytest
from conftest import Quartic
from scipy.special import softmax

from skcalib.scores import (
    Brier,
    ClasswiseLogLoss,
    DawidSebastiani,
    DecisionCost,
    Divergence,
    LogLoss,
    Lp,
    ProperScore,
    Spherical,
    TotalVariation,
    expected_divergence,
    weighted_mean,
)

THIRD = np.array([[0.2, 0.3, 0.5]])  # three classes
PAIR = np.array([[0.3, 0.7]])  # two
LABEL3, LABEL2 = np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 1.0]])
NORM3, NORM2 = math.sqrt(0.38), math.sqrt(0.58)
LOGS3, LOGS2 = [math.log(p) for p in THIRD[0]], [math.log(p) for p in PAIR[0]]


@pytest.mark.parametrize(
    ("score", "forecast", "entropy", "gradient"),
    [
        (Brier(), THIRD, 1 - 0.38, [-0.4, -0.6, -1.0]),
        (Brier(), PAIR, (1 - 0.58) / 2, [-0.3, -0.7]),
        (LogLoss(), THIRD, -np.dot(THIRD[0], LOGS3), [-v - 1 for v in LOGS3]),
        (LogLoss(), PAIR, -np.dot(PAIR[0], LOGS2), [-v - 1 for v in LOGS2]),
        (Spherical(), THIRD, 1 - NORM3, [-p / NORM3 for p in THIRD[0]]),
        (Spherical(), PAIR, 1 - NORM2, [-p / NORM2 for p in PAIR[0]]),
        # mean 2 and variance 3: log 3 + 1, and (-2 * 2 / 3, 1 / 3)
        (DawidSebastiani(), np.array([[2.0, 7.0]]), math.log(3) + 1, [-4 / 3, 1 / 3]),
    ],
    ids=lambda value: repr(value) if isinstance(value, ProperScore) else "",
)
def test_entropy_and_gradient(score, forecast, entropy, gradient):
    np.testing.assert_allclose(score.entropy(forecast), [entropy], rtol=1e-14)
    np.testing.assert_allclose(score.gradient(forecast), [gradient], rtol=1e-14)
    # a single row, as an array of one axis, is a forecast too
    assert score.entropy(forecast[0]) == pytest.approx(entropy, rel=1e-14)
    np.testing.assert_allclose(score.gradient(forecast[0]), gradient, rtol=1e-14)


@pytest.mark.parametrize(
    ("score", "target", "forecast", "loss", "divergence"),
    [
        (Brier(), LABEL3, THIRD, 0.04 + 0.49 + 0.25, 0.78),
        (Brier(), LABEL2, PAIR, 0.09, 0.09),
        # D is the squared distance, and L = D + H(target)
        (Brier(), THIRD[:, ::-1], THIRD, 0.18 + 0.62, 0.18),
        (Brier(), PAIR[:, ::-1], PAIR, 0.16 + 0.21, 0.16),
        (LogLoss(), LABEL3, THIRD, -LOGS3[1], -LOGS3[1]),
        (LogLoss(), PAIR[:, ::-1], PAIR, -np.dot(PAIR[0, ::-1], LOGS2), 0.4 * math.log(7 / 3)),
        (Spherical(), LABEL3, THIRD, 1 - 0.3 / NORM3, 1 - 0.3 / NORM3),
        (Spherical(), PAIR[:, ::-1], PAIR, 1 - 0.42 / NORM2, NORM2 - 0.42 / NORM2),
        (Quartic(), LABEL2, PAIR, 3 * (0.3**4 + 0.7**4) - 4 * 0.343, None),
    ],
)
def test_loss_and_divergence(score, target, forecast, loss, divergence):
    np.testing.assert_allclose(score.loss(target, forecast), [loss], rtol=1e-13)
    expected = loss + 1 if divergence is None else divergence  # the entropy of a label is -1
    np.testing.assert_allclose(score.divergence(target, forecast), [expected], rtol=1e-12)
    assert score.loss(target[0], forecast[0]) == pytest.approx(loss, rel=1e-13)


def test_dawid_sebastiani_by_hand():
    """(y - mu)^2 / v + log v, and for two normal laws twice their Kullback-Leibler divergence."""
    score = DawidSebastiani()
    np.testing.assert_array_equal(score.statistic(np.array([3.0, -2.0])), [[3, 9], [-2, 4]])
    assert score.statistic(np.ones((2, 5))).shape == (2, 5, 2)
    assert Brier().statistic(LABEL3) is LABEL3
    loss = score.loss(score.statistic(np.array([5.0])), np.array([[2.0, 7.0]]))
    np.testing.assert_allclose(loss, [9 / 3 + math.log(3)], rtol=1e-14)
    apart = score.divergence(np.array([[1.0, 3.0]]), np.array([[2.0, 7.0]]))  # N(1, 2), N(2, 3)
    np.testing.assert_allclose(apart, [math.log(3 / 2) + (2 + 1) / 3 - 1], rtol=1e-13)
    assert score.entropy(np.array([[2.0, 4.0]])) == -np.inf  # no variance


def test_a_class_without_mass_costs_nothing():
    """0 log 0 = 0 in every term, also where both target and forecast exclude a class."""
    q, s = np.array([[0.0, 0.5, 0.5]]), np.array([[0.0, 0.25, 0.75]])
    expected = -0.5 * math.log(0.25) - 0.5 * math.log(0.75)
    np.testing.assert_allclose(LogLoss().loss(q, s), [expected], rtol=1e-14)
    np.testing.assert_allclose(LogLoss().loss(s, q[:, [1, 0, 2]]), [np.inf])
    np.testing.assert_array_equal(LogLoss().loss_gradient(q, s), [[1, 1 - 2, 1 - 2 / 3]])
    np.testing.assert_array_equal(LogLoss().loss_gradient(LABEL2, np.eye(2)[:1]), [[1, -np.inf]])
    s = np.random.default_rng(0).dirichlet(np.ones(5), 500)
    for score in (Brier(), LogLoss(), Spherical(), Quartic()):
        assert (score.loss(s, s) - score.entropy(s)).min() <= 0
        divergence = score.divergence(s, s)
        assert divergence.min() == 0 and divergence.max() < 1e-14


def test_names_in_the_message_for_arrays_that_cannot_be_read():
    class OnAnotherDevice:
        dtype, device = "bfloat16", "gpu"

        def __dlpack__(self):
            raise BufferError("not here")

        def __array__(self, dtype=None, copy=None):
            raise TypeError("not here")

    for score in (Brier(), LogLoss()):
        for method in (score.loss, score.divergence):
            with pytest.raises(ValueError, match=r"^target is a .* with target\.cpu"):
                method(OnAnotherDevice(), PAIR)
            with pytest.raises(ValueError, match=r"^forecast is a .* with forecast\.cpu"):
                method(PAIR, OnAnotherDevice())


@pytest.mark.parametrize(
    ("score", "target", "forecast", "gradient"),
    [
        (Brier(), LABEL3, THIRD, [0.4, -1.4, 1.0]),  # 2 (s - y)
        (Brier(), LABEL2, PAIR, [0.3, -0.3]),
        (LogLoss(), LABEL3, THIRD, [1.0, 1 - 1 / 0.3, 1.0]),  # 1 - y / s
        (LogLoss(), PAIR[:, ::-1], PAIR, [1 - 7 / 3, 1 - 3 / 7]),
        (DecisionCost([[0, 1], [1, 0]]), LABEL2, PAIR, [0.0, 0.0]),  # constant up to 1 / 2
    ],
)
def test_closed_gradients(score, target, forecast, gradient):
    np.testing.assert_allclose(score.loss_gradient(target, forecast), [gradient], atol=1e-14)
    general = ProperScore.loss_gradient(score, target, forecast)
    np.testing.assert_allclose(general, [gradient], atol=1e-6)  # to a constant along the row: none


@pytest.mark.parametrize("n_classes", [2, 4])
def test_gradient_by_differences_is_the_hessian_times_the_step(n_classes):
    """Where the Hessian is known: -12 s^2 for the quartic, -(1 - u u') / |s| for the spherical."""
    rng = np.random.default_rng(n_classes)
    q, s = rng.dirichlet(np.ones(n_classes), (2, 200))
    np.testing.assert_allclose(Quartic().loss_gradient(q, s), -12 * s**2 * (q - s), atol=3e-7)
    norm = np.linalg.norm(s, axis=1, keepdims=True)
    unit = s / norm
    along = np.sum(unit * (q - s), axis=1, keepdims=True)
    expected = -(q - s - unit * along) / norm
    np.testing.assert_allclose(Spherical().loss_gradient(q, s), expected, atol=3e-7)


def test_gradient_by_differences_of_moments():
    """Hessian of log(m2 - m1^2): no corner of a simplex is near, however small the moments."""
    rng = np.random.default_rng(0)
    s = np.column_stack([m := rng.normal(size=50), m**2 + rng.uniform(1, 3, 50)])
    s[0] = [1e-6, 1.0]  # a mean near zero is no probability near zero
    q = s + rng.uniform(0.5, 1, (50, 2))
    v, (d1, d2) = s[:, 1] - s[:, 0] ** 2, (q - s).T
    first = (-2 / v - 4 * s[:, 0] ** 2 / v**2) * d1 + 2 * s[:, 0] / v**2 * d2
    second = 2 * s[:, 0] / v**2 * d1 - d2 / v**2
    gradient = DawidSebastiani().loss_gradient(q, s)
    np.testing.assert_allclose(gradient, np.column_stack([first, second]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mass", [1.0, 1e-3])
def test_gradient_by_differences_next_to_the_border(mass):
    """The logarithm bends where a label had almost no chance: 1 - q / p, to five digits."""
    p = np.array([0.5, 1e-2, 1e-3, 1e-6, 1e-12, 1e-30])
    forecast = np.column_stack([p, 1 - p])
    target = np.column_stack([np.full(6, mass), np.full(6, 1 - mass)])
    gradient = ProperScore.loss_gradient(LogLoss(), target, forecast)
    np.testing.assert_allclose(gradient, 1 - target / forecast, rtol=1e-5, atol=1e-5)
    for row in range(6):  # what other rows hold is no matter
        alone = ProperScore.loss_gradient(LogLoss(), target[row], forecast[row])
        np.testing.assert_allclose(alone, gradient[row], rtol=1e-12, atol=1e-12)
    # no step along a class that neither has; no warning, no nan
    q, s = np.array([[0.0, 0.6, 0.4]]), np.array([[0.0, 0.5, 0.5]])
    gradient = ProperScore.loss_gradient(LogLoss(), q, s)
    np.testing.assert_allclose(gradient, [[0, 1 - 1.2, 1 - 0.8]], atol=1e-6)


@pytest.mark.parametrize(
    "score", [Brier(), LogLoss(), Spherical(), Quartic(), ClasswiseLogLoss()], ids=repr
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_loss_of_logits_and_its_chain_rule(score, n_classes):
    """dL/dz_j = s_j (g_j - sum_k s_k g_k)."""
    rng = np.random.default_rng(0)
    logits, target = rng.normal(size=(6, n_classes)), np.eye(n_classes)[np.arange(6) % n_classes]
    loss, gradient = score.logit_loss(target, logits)
    s = softmax(logits, axis=1)
    slope = score.loss_gradient(target, s)
    expected = s * (slope - np.sum(s * slope, axis=1, keepdims=True))
    np.testing.assert_allclose(loss, score.loss(target, s), rtol=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


def test_logit_log_loss_of_targets_of_any_mass():
    """-sum t log s and |t| s - t: a weighted label is a target, too."""
    logits, target = np.log(THIRD), np.array([[0.5, 2.0, 0.0]])
    loss, gradient = LogLoss().logit_loss(target, logits)
    np.testing.assert_allclose(loss, [-0.5 * LOGS3[0] - 2 * LOGS3[1]], rtol=1e-14)
    np.testing.assert_allclose(gradient, 2.5 * THIRD - target, rtol=1e-14, atol=1e-15)
    two_rows = LogLoss().logit_loss(np.vstack([target, LABEL3]), np.vstack([logits, logits]))
    np.testing.assert_allclose(two_rows[0], [loss[0], -LOGS3[1]], rtol=1e-14)
    np.testing.assert_allclose(two_rows[1][1:], THIRD - LABEL3, rtol=1e-14)


def test_distances_and_means_by_hand():
    q, s = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.2, 0.2, 0.6], [0.4, 0.6, 0]])
    for distance, three, two in (
        (TotalVariation(), [0.6, 0.6], 0.3),
        (Lp(1), [1.2, 1.2], 0.3),
        (Lp(), [0.54, 0.72], 0.09),
        (Lp(3), [0.27, 0.432], 0.027),
    ):
        np.testing.assert_allclose(distance.divergence(q, s), three, rtol=1e-13)
        for label in (LABEL2, LABEL2.tolist()):
            np.testing.assert_allclose(distance.divergence(label, PAIR), [two], rtol=1e-13)
    assert Lp(1).p == 1 and Lp().p == 2
    for p in (0.999, 0, np.nan):
        with pytest.raises(ValueError, match=f"^p must be a finite number of at least 1, got {p}"):
            Lp(p)
    values = np.array([[1.0, 2.0], [3.0, 6.0]])
    np.testing.assert_allclose(weighted_mean(values), [2, 4], rtol=1e-15)
    np.testing.assert_allclose(weighted_mean(values, np.array([1.0, 3.0])), [2.5, 5], rtol=1e-15)
    assert weighted_mean(np.array([1.0, 3.0]), np.array([3, 1])) == 1.5
    apart = expected_divergence(Lp(1), values / 10, 0 * values, np.array([1.0, 3.0]))
    assert type(apart) is float and apart == pytest.approx(0.5 * (0.3 + 3 * 0.9) / 4, rel=1e-14)


def test_scores_are_compared_by_their_values():
    assert repr(Lp(3)) == "Lp(p=3)" and repr(Brier()) == "Brier()"
    assert Lp(3) == Lp(3) and Lp(3) != Lp(2) and Lp(2) != Brier() and Brier() != LogLoss()
    assert hash(Lp(3)) == hash(Lp(3)) != hash(Lp(2)) and hash(Brier()) != hash(LogLoss())
    assert len({Lp(3), Lp(3), Lp(2), Brier(), LogLoss()}) == 4

    class Range(Divergence):
        def __init__(self, low, high):
            self.low, self.high = low, high

    assert repr(Range(0, "x")) == "Range(low=0, high='x')"
    for method in (Divergence().divergence, ProperScore().loss):
        with pytest.raises(NotImplementedError):
            method(PAIR, PAIR)
    with pytest.raises(NotImplementedError):
        ProperScore().entropy(PAIR)
