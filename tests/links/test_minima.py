"""Searches for minima by Newton's and Halley's method: how many steps, and where they end."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcalib.datasets import make_tempered_simplex
from skcalib.links import fit_bias_corrected
from skcalib.links.maps import halley, optimal_inverse_temperature
from skcalib.links.newton import logistic_loss, logistic_regression, minimise_convex


@pytest.mark.parametrize(("n_classes", "most"), [(2, 5), (3, 4), (10, 3)])
def test_newtons_steps_of_a_temperature_with_biases(n_classes, most):
    """A wrong Hessian needs twice as many, and ends at the same place."""
    world = make_tempered_simplex(400, n_classes, score_temperature=0.5, random_state=0)
    logits = np.log(world.y_proba) + np.eye(n_classes)[0]
    fit = fit_bias_corrected(logits, world.y, np.ones(400))
    assert fit.converged and fit.n_iter <= most and np.ptp(fit.theta[1:]) > 0.1


def penalised(theta, precision, logits, target, weight):
    """The log loss of a slope and biases, with priors of both."""
    spread = (logits - logits.mean(axis=1, keepdims=True)).std()
    biases = np.zeros(logits.shape[1]) if len(theta) == 1 else theta[1:]
    log = log_softmax(theta[0] * logits + biases, axis=1)
    penalty = 0.01 * (spread * (theta[0] - 1)) ** 2 + precision * biases @ biases
    return penalty / 2 - weight @ np.sum(target * log, axis=1)


@pytest.mark.parametrize("n_classes", [3, 2])
def test_a_temperature_with_biases_is_the_largest_posterior(n_classes):
    """The variance of the biases of several classes is that of their totals beyond the noise.

    Of labels and of label distributions; one forecast is far from the others.
    """
    rng = np.random.default_rng(0)
    logits, weight = rng.normal(size=(300, n_classes)), rng.uniform(0.5, 2, 300)
    truth = softmax(0.6 * logits + 0.7 * np.eye(n_classes)[0], axis=1)
    w = weight / weight.mean()
    for n_labels, size in ((1, 1.0), (5, 1.0), (1, 1300.0)):
        target = rng.multinomial(n_labels, truth) / n_labels
        logits[0], target[0] = size * np.linspace(1, -1, n_classes), np.eye(n_classes)[0]
        samples, precision = (logits, target, w), 0.01
        if n_classes > 2:
            slope = minimize(penalised, [0.8], (0, *samples), tol=1e-9).x[0]
            p = softmax(slope * logits, axis=1)
            excess, noise = w @ (target - p), p * (1 - p)
            square = excess**2 - w**2 @ (noise if n_labels == 1 else (target - p) ** 2)
            precision = np.sum((w @ noise) ** 2) / np.sum(square)
        start = np.eye(n_classes + 1)[0]
        expected = minimize(penalised, start, (precision, *samples), tol=1e-9).x
        label = target if n_labels > 1 else target.argmax(axis=1)
        fit = fit_bias_corrected(logits, label, 7 * weight)
        assert fit.converged and np.ptp(fit.theta[1:]) > 0.3
        np.testing.assert_allclose(fit.theta, expected, atol=1e-4)


def test_the_penalised_logistic_loss_and_its_derivatives():
    """Of labels between 0 and 1; a fit ends where the gradient vanishes."""
    rng = np.random.default_rng(0)
    design, offset, label, weight = rng.normal(size=(50, 3)), *rng.uniform(0, 2, (3, 50))
    label, prior = label / 2, np.diag([0.0, 1.0, 2.0]) + 0.1
    value, slopes = logistic_loss(design.T, label, weight, offset, prior)
    theta, linear = np.array([1.0, -2.0, 0.5]), offset + design @ [1.0, -2.0, 0.5]
    loss = weight @ (np.logaddexp(0, linear) - label * linear) + theta @ prior @ theta / 2
    assert value(theta)[0] == pytest.approx(loss)
    gradient, hessian = slopes(theta, value(theta)[1])
    ends = [[theta + sign * step for sign in (1, -1)] for step in 1e-5 * np.eye(3)]
    changes = [[(at, *slopes(at, value(at)[1])) for at in pair] for pair in ends]
    differences = [(value(a[0])[0] - value(b[0])[0]) / 2e-5 for a, b in changes]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)
    differences = [(a[1] - b[1]) / 2e-5 for a, b in changes]
    np.testing.assert_allclose(hessian, differences, rtol=1e-6, atol=1e-6)
    best, hessian = logistic_regression(design, offset, label, weight, penalty=prior)
    at_end = slopes(best, value(best)[1])
    np.testing.assert_allclose(at_end[0], 0, atol=1e-6)
    np.testing.assert_allclose(hessian, at_end[1], rtol=1e-4)
    shrunk, _ = logistic_regression(design, offset, label, weight, penalty=1e9)
    np.testing.assert_allclose(shrunk, 0, atol=1e-6)


def test_halley_at_the_optimum_ends_at_once():
    """A step of the size of rounding left the bracket, and the search started again at an end."""
    calls = []

    def derivatives(beta):
        calls.append(beta)
        return np.array([2e-14, 1.8e3, -4.6e3]) if beta == 0.5 else np.array([beta - 0.5, 1, 0])

    assert halley(derivatives, 0.5, 1e-4, 1e4) == (0.5, 1)
    assert calls == [0.5]


def test_halleys_step_is_exact_for_a_logarithm():
    """Of b / m - log b, in any unit; a minimum beyond an end is the end."""
    for minimum, unit in ((2.0, 1.0), (0.5, 1e9), (3.0, 1e-9), (1.0, 1.0)):

        def derivatives(beta, minimum=minimum, unit=unit):
            return unit * np.array([1 / minimum - 1 / beta, beta**-2, -2 * beta**-3])

        assert halley(derivatives, 1.0, 1e-4, 1e4) == (
            pytest.approx(minimum, rel=1e-14),
            1 + (minimum != 1),
        )
        # the next error is of the order of the cube of a change
        assert halley(derivatives, minimum * (1 + 5e-5), 1e-4, 1e4)[1] == 1
        assert halley(derivatives, 5.0, 4.0, 9.0)[0] == 4
        assert halley(derivatives, 0.1, 0.05, 0.4)[0] == 0.4


def test_a_temperature_needs_three_passes():
    """Of label distributions with a known temperature; a wrong derivative needs four or five."""
    logits = np.log(np.random.default_rng(0).dirichlet(np.ones(10), 200))
    for beta in (0.1, 0.2, 0.3, 0.5, 0.7, 1.5):
        shares = softmax(beta * logits, axis=1)
        optimum = optimal_inverse_temperature(logits, shares, np.ones(200))
        assert optimum == (pytest.approx(beta, rel=1e-12), 3)


def test_a_fit_that_did_not_converge_ends_where_it_stopped():
    def value(x):
        return float(np.cosh(x).sum()), None

    def slopes(x, _):
        return np.sinh(x), np.diag(np.cosh(x))

    minimum = minimise_convex(value, slopes, np.array([3.0]), max_values=1)
    assert not minimum.converged and minimum.refined == minimum.parameters == 3
    assert minimise_convex(value, slopes, np.array([3.0])).refined == pytest.approx(0, abs=1e-9)
    # A value that rounding keeps from falling has reached its minimum.
    flat = minimise_convex(lambda x: (1.0, None), slopes, np.array([3.0]))
    assert flat.converged and flat.refined == flat.parameters == 3
