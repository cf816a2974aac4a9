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
    parts = [cell_sums(*(one[rows] for one in sample)) for rows in np.array_split(order, 7)]
    found, whole = DistributionFunction(sum(parts)), function_of(*sample)
    np.testing.assert_allclose(found(sample[0]), whole(sample[0]), rtol=0, atol=1e-12)


def test_close_to_the_exact_distribution_function(sample):
    """For few different values it is exact."""
    values, _, mass = sample
    found = function_of(*sample)(values)
    np.testing.assert_allclose(found, reached(values, mass, values), rtol=0, atol=0.005)
    assert (np.diff(found[np.argsort(values)]) >= 0).all()
    few = np.random.default_rng(0).choice([-92.0, -3.0, -0.1, 0.0, 0.1, 2.0, 50.0], 3000)
    found = function_of(few, np.ones(3000), mass)(few)
    np.testing.assert_allclose(found, reached(few, mass, few), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 0.01])
def test_values_from_a_table_are_those_of_a_search(sample, spread):
    """Also beyond the ends and at the knots; most knots in one cell, where there is no table."""
    values, *rest = sample
    values = np.append(spread * values[:-1], 60.0)
    found = function_of(values, *rest)
    assert (found._table is None) == (spread < 1)
    at = np.concatenate([values, found.values, np.linspace(-95, 95, 2001)])
    expected = np.interp(at, found.values, found.reached)
    np.testing.assert_allclose(found(at), expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(found(at[:20]), expected[:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))(at), found(at))


def test_exchanged_labels_and_rounding(sample):
    """The cells are symmetric about zero; rounding has no effect, also where many samples are."""
    values, *rest = sample
    one, other = function_of(values, *rest), function_of(-values, *rest)
    np.testing.assert_allclose(one(values), 1 - other(-values), rtol=0, atol=1e-12)
    values[::3] = 0.0
    moved = values + np.random.default_rng(2).uniform(-1e-12, 1e-12, 3000)
    one, other = function_of(values, *rest), function_of(moved, *rest)
    np.testing.assert_allclose(one(values), other(moved), rtol=0, atol=1e-9)
