"""Searches for minima by Newton's and Halley's method: how many steps, and where they end."""

import numpy as np
import pytest

from skcalib.datasets import make_tempered_simplex
from skcalib.links import fit_bias_corrected
from skcalib.links.maps import halley
from skcalib.links.newton import minimise_convex


@pytest.mark.parametrize(("n_classes", "most"), [(2, 5), (3, 4), (10, 3)])
def test_newtons_steps_of_a_temperature_with_biases(n_classes, most):
    """A wrong Hessian needs twice as many, and ends at the same place."""
    world = make_tempered_simplex(400, n_classes, score_temperature=0.5, random_state=0)
    logits = np.log(world.y_proba) + np.eye(n_classes)[0]
    fit = fit_bias_corrected(logits, world.y, np.ones(400))
    assert fit.converged and fit.n_iter <= most and np.ptp(fit.theta[1:]) > 0.1


def test_halley_at_the_optimum_ends_at_once():
    """A step of the size of rounding left the bracket, and the search started again at an end."""
    calls = []

    def derivatives(beta):
        calls.append(beta)
        return np.array([2e-14, 1.8e3, -4.6e3]) if beta == 0.5 else np.array([beta - 0.5, 1, 0])

    assert halley(derivatives, 0.5, 1e-4, 1e4) == (0.5, 1)
    assert calls == [0.5]


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
