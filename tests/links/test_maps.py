"""Maps of logits: what they declare, their parameters, and their optimum."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcalib.links import (
    BetaMap,
    BiasCorrectedTemperature,
    BinaryMap,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    PlattMap,
    QuadraticMap,
    VectorMap,
    fit_link,
)
from skcalib.scores import LogLoss

LOG2 = np.log(2)
LINKS = [
    *(PlattMap(), QuadraticMap(), BetaMap(), BetaMap("am"), BetaMap("ab")),
    *(VectorMap(), MonotonePieces(3)),
]


def problem(link, n_samples=60):
    """Logits, targets, weights and parameters that are not the identity."""
    rng = np.random.default_rng(0)
    n_classes = 2 if isinstance(link, BinaryMap) else 3
    logits = np.log(rng.dirichlet(np.ones(n_classes), n_samples))
    link.prepare(logits)
    truth = softmax(0.6 * logits + 0.4 * np.arange(n_classes), axis=1)
    target, start = rng.multinomial(3, truth) / 3, link.start(n_classes)
    theta = start + rng.uniform(0.05, 0.2, len(start))
    return logits, target, rng.uniform(0.5, 2, n_samples), theta


def penalised(link, pull, logits, target, share, theta):
    """Mean log loss, and half of the squared deviations from the identity."""
    deviation = theta - link.start(logits.shape[1])
    log = log_softmax(link.apply(theta, logits), axis=1)
    penalty = pull * link.stiffness(logits.shape[1]) @ deviation**2 / 2
    return penalty - share @ np.sum(target * log, axis=1)


@pytest.mark.parametrize("shrinkage", [3.0, 0.0])
def test_a_fit_is_the_minimum_of_the_penalised_mean_loss(shrinkage):
    """Never worse than the start, also after no step."""
    for link in LINKS:
        logits, target, weight, theta = problem(link)
        start = link.start(logits.shape[1])
        cost = partial(penalised, link, shrinkage / 50, logits, target, weight / weight.sum())
        options = {"shrinkage": shrinkage, "n_samples": 50, "start": theta}
        fit = fit_link(link, LogLoss(), logits, target, weight, **options)
        best = minimize(cost, start, bounds=link.bounds(logits.shape[1]), tol=1e-12)
        assert fit.converged and fit.n_iter > 0
        assert cost(fit.theta) == pytest.approx(best.fun, abs=1e-7)
        assert cost(fit.theta) < cost(start) - 1e-4
        few = fit_link(link, LogLoss(), logits, target, weight, max_iter=1, **options)
        assert few.n_iter <= 1 and cost(few.theta) <= cost(theta)


#: Parameters, and whether the map is injective, keeps the order, and goes on beyond the scores.
DECLARED = [
    (PlattMap(), [2, 0], True, True, True),
    (PlattMap(), [2, 1], True, False, True),
    (PlattMap(), [-1, 0], True, False, True),
    (PlattMap(), [0, 1], False, False, True),
    (QuadraticMap(), [1, 0, 0], True, False, True),
    (QuadraticMap(), [0, 1, 0], False, False, True),
    (QuadraticMap(), [1, 0, 1], False, False, False),
    (BetaMap(), [2, 2, 0], True, True, True),
    (BetaMap(), [2, 1, 0], True, False, True),
    (BetaMap(), [0, 1, 0], True, False, True),
    (BetaMap(), [2, 2, 1], True, False, True),
    (BetaMap(), [0, 0, 0], False, False, True),
    (BetaMap("am"), [2, 0], True, True, True),
    (BetaMap("am"), [0, 1], False, False, True),
    (BetaMap("ab"), [2, 2], True, True, True),
    (BetaMap("ab"), [2, 1], True, False, True),
    (BiasCorrectedTemperature(), [2, 0, 0, 0], True, True, None),
    (BiasCorrectedTemperature(), [2, 1, 1, 1], True, True, None),
    (BiasCorrectedTemperature(), [2, 1, 0, 0], True, False, None),
    (BiasCorrectedTemperature(), [-1, 0, 0, 0], True, False, None),
    (BiasCorrectedTemperature(), [0, 1, 0, 0], False, False, None),
    (VectorMap(), [1, 0, 0, 0, 0, 0, 0], True, True, True),
    (VectorMap(), [1, 1, 0, 0, 0, 0, 0], True, False, True),
    (VectorMap(), [1, 0, 0, 0, 0, 0, 1], True, False, True),
    (VectorMap(), [-1, 0, 0, 0, 0, 0, 0], True, False, True),
    (VectorMap(), [1, -2, 0, 0, 0, 0, 0], False, False, False),
    (VectorMap(), [1, -1.5, -0.5, -0.5, 0, 0, 0], False, False, False),
    (VectorMap(), np.zeros(7), False, False, True),
    (MatrixMap(), [1, *np.zeros(12)], True, True, True),
    (MatrixMap(), [0, *np.eye(3).ravel(), 1, 1, 1], True, True, True),
    (MatrixMap(), [0, *np.eye(3).ravel(), 1, 0, 0], True, False, True),
    (MatrixMap(), [0, *np.ones(9), 0, 0, 0], False, False, True),
    (MatrixMap(), [0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 0], False, False, True),
    (MatrixMap(), [0, 1, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], False, False, False),
    (MatrixMap(), [1, *np.full(9, -0.1), 0, 0, 0], True, False, True),
    (MonotonePieces(), [1, 1], True, True, None),
]


def test_what_maps_declare():
    """Different forecasts stay different, the order of classes stays, lines go on."""
    for link, theta, injective, in_order, continues in DECLARED:
        theta = np.array(theta, dtype=float)
        n_classes = 2 if len(theta) <= 3 else 3
        assert link.injective(theta, n_classes) is injective
        assert link.preserves_order(theta, n_classes) is in_order
        if continues is not None:
            arguments = (theta,) if n_classes == 2 else (theta, n_classes)
            assert link.continues(*arguments) is continues


def test_parameters_of_known_maps():
    """Temperatures, and slopes and intercepts of beta maps; nodes of a network are those of g."""
    z = np.array([[-2.0, -0.3], [-0.4, -1.2]])
    for link in (VectorMap(), MatrixMap(), MonotonePieces(3), MonotoneNetwork(3, 20)):
        change = np.diff(link.prepare(z).apply(link.tempered(2, 0.7), z))
        assert_allclose(change, 0.7 * np.diff(z), rtol=1e-12)
    a_log = 2 * (z[:, 1] + LOG2) - 0.5 * (z[:, 0] + LOG2)
    for names, theta, slopes, intercept, value in (
        ("ab", [2, 0.5], (2, 0.5), 1.5 * LOG2, a_log),
        ("abm", [2, 0.5, 3], (2, 0.5), 3, a_log + 3 - 1.5 * LOG2),
        ("am", [2, 3], (2, 2), 3, 2 * (z[:, 1] - z[:, 0]) + 3),
    ):
        link, theta = BetaMap(names), np.array(theta)
        assert link.slopes(theta) == slopes and link.intercept(theta) == intercept
        assert_allclose(link.apply(theta, z)[:, 1], value, rtol=1e-12)
        n_slopes = 2 - (names == "am")
        ends = [(0, None)] * n_slopes + [(None, None)] * ("m" in names)
        assert link.bounds(2) == ends
