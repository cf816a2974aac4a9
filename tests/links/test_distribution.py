"""The distribution function of log odds from sums over fixed cells."""

import pickle

import numpy as np
import pytest
from dense_directions import reached

from skcalib.links.basis import DistributionFunction, cell_sums


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.logistic(size=3000), rng.uniform(0.5, 2, 3000), rng.uniform(0.1, 1, 3000)


def function_of(*sample):
    return DistributionFunction(cell_sums(*sample))


def test_sums_of_parts_add_up_in_any_order(sample):
    order = np.random.default_rng(1).permutation(3000)
    parts = [cell_sums(*(column[rows] for column in sample)) for rows in np.array_split(order, 7)]
    added, whole = DistributionFunction(sum(parts)), function_of(*sample)
    np.testing.assert_allclose(added(sample[0]), whole(sample[0]), rtol=0, atol=1e-12)


def test_close_to_the_exact_distribution_function(sample):
    """For few different values it is exact."""
    values, _, mass = sample
    shares = function_of(*sample)(values)
    np.testing.assert_allclose(shares, reached(values, mass, values), rtol=0, atol=0.005)
    assert (np.diff(shares[np.argsort(values)]) >= 0).all()
    few = np.random.default_rng(0).choice([-92.0, -3.0, -0.1, 0.0, 0.1, 2.0, 50.0], 3000)
    shares = function_of(few, np.ones(3000), mass)(few)
    np.testing.assert_allclose(shares, reached(few, mass, few), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 0.01])
def test_values_from_a_table_are_those_of_a_search(sample, spread):
    """Also beyond the ends and at the knots; most knots in one cell, where there is no table."""
    values, *weights = sample
    values = np.append(spread * values[:-1], 60.0)
    function = function_of(values, *weights)
    assert (function._table is None) == (spread < 1)
    at = np.concatenate([values, function.values, np.linspace(-95, 95, 2001)])
    expected = np.interp(at, function.values, function.reached)
    np.testing.assert_allclose(function(at), expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(function(at[:20]), expected[:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(at), function(at))


def test_exchanged_labels_and_rounding(sample):
    """The cells are symmetric about zero; rounding has no effect, also where many samples are."""
    values, *weights = sample
    function, changed = function_of(values, *weights), function_of(-values, *weights)
    np.testing.assert_allclose(function(values), 1 - changed(-values), rtol=0, atol=1e-12)
    values[::3] = 0.0
    moved = values + np.random.default_rng(2).uniform(-1e-12, 1e-12, 3000)
    function, changed = function_of(values, *weights), function_of(moved, *weights)
    np.testing.assert_allclose(function(values), changed(moved), rtol=0, atol=1e-9)
