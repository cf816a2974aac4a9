"""Directions of logits and their sums, against dense arrays."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from dense_directions import dense_directions, reached, tangents
from numpy.polynomial.legendre import legvander
from scipy.special import softmax

from skcalib.links.basis import Directions, DistributionFunction, LogitBasis, cell_sums

CASES = [(3, True), (2, False), (3, False), (7, True), (7, False)]
COMMON = ("slope", "common", "top", "top_high", "shared", "shared_high")
BY_CLASS = ("bias", "class_slopes", "confusion", *COMMON)


def subsets(n_classes, by_class):
    """All groups, one, and neighbours in another order."""
    groups = BY_CLASS if by_class else COMMON
    if n_classes == 2:
        groups = "slope", "bias", "class_slopes", "curve", "curve_high"
    return [None, ("slope",), *((two, first) for first, two in pairwise(groups))]


@pytest.fixture(autouse=True)
def few_samples_suffice(set_sizes):
    """Directions by most likely class at any number of samples."""
    set_sizes(confused_samples=0)


EVERY = [(*case, names) for case in CASES for names in subsets(*case)]


@pytest.fixture
def weighted_forecasts(forecasts):
    """Forecasts with ties and exact zeros and ones, and weights."""

    def make(n_classes, n_samples=110, seed=0):
        _, forecast = forecasts(n_samples, n_classes, seed=seed)
        return forecast, np.random.default_rng(seed).uniform(0.5, 2, n_samples)

    return make


def fit(forecast, weight, by_class, size=None):
    size = weight.sum() ** 2 / (weight @ weight) if size is None else size
    basis = LogitBasis(forecast.shape[1])
    return basis.fit_directions(forecast, weight, size=size, by_class=by_class).basis


@pytest.fixture
def learned(weighted_forecasts, set_sizes):
    """A basis, directions before scaling, logs, probabilities and weights; no value is grouped."""
    set_sizes(curve_cells=1 << 20, curve_knots=1000)  # each cell has one value

    def learn(n_classes):
        forecast, weight = weighted_forecasts(n_classes)
        basis = fit(forecast, weight, n_classes > 2)
        log = np.log(np.where(forecast == 0, basis.limit, forecast))
        log -= np.log(np.exp(log).sum(axis=1, keepdims=True))
        return basis, dense_directions(basis, forecast) / basis.scale, log, np.exp(log), weight

    return learn


def check_directions(basis, g, expected):
    for name, value in expected.items():
        directions = g[:, :, basis.groups[name]]
        value = value.reshape(directions.shape)
        np.testing.assert_allclose(directions, value, rtol=1e-7, atol=1e-7, err_msg=name)


def check_contrasts(g):
    """Orthonormal columns that sum to zero, the same for all samples."""
    np.testing.assert_allclose(g, g[:1] + 0 * g, atol=1e-12)
    np.testing.assert_allclose(g[0].sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(g[0].T @ g[0], np.eye(g.shape[2]), atol=1e-12)


@pytest.mark.parametrize(("n_classes", "by_class", "names"), EVERY, ids=str)
def test_sums_are_those_of_dense_arrays(n_classes, by_class, names, weighted_forecasts):
    """Every sum of a block, for any groups, at probabilities other than the forecasts."""
    forecast, weight = weighted_forecasts(n_classes)
    basis, rng = fit(forecast, weight, by_class), np.random.default_rng(1)
    names = tuple(basis.groups) if names is None else names
    g, block = dense_directions(basis, forecast, names), basis(forecast, names)
    n, k, j = g.shape
    p, q = softmax(rng.normal(size=(n, k)), axis=1), rng.normal(size=(n, k))
    theta, matrix = rng.normal(size=j), rng.normal(size=(j, j))
    thetas = rng.normal(size=(n, j))
    matrix = matrix + matrix.T
    h, mean = tangents(p, g), np.einsum("ik,ikj->ij", p, g)
    information = np.einsum("ik,ikj,ikl->ijl", p, g, g) - mean[:, :, None] * mean[:, None, :]
    several = np.stack([q, p * q])
    for value, expected in (
        (block.values(), g[:, 1:] if k == 2 else g),
        (block.logits(theta), block.log + g @ theta),
        (block.changes(thetas), np.einsum("ikj,ij->ik", g, thetas)),
        (block.project(q), np.einsum("ik,ikj->ij", q, g)),
        (block.tangents(p), h[:, 1:] if k == 2 else h),
        (block.total(q), np.einsum("ik,ikj->j", q, g)),
        (block.total(several), np.einsum("rik,ikj->rj", several, g)),
        (block.information(p, weight), np.einsum("i,ijl->jl", weight, information)),
        (block.information_diagonal(p, weight), np.einsum("i,ijj->j", weight, information)),
        (block.leverage(p, matrix), np.einsum("ijl,jl->i", information, matrix)),
        (block.tangent_project(p, q), np.einsum("ikj,ik->ij", h, q)),
        (block.tangent_gram(p, weight), np.einsum("i,ikj,ikl->jl", weight, h, h)),
        (block.tangent_squares(p, matrix), np.einsum("ikj,jl,ikl->i", h, matrix, h)),
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("n_classes", "by_class"), CASES)
def test_every_direction_has_unit_mean_information(n_classes, by_class, weighted_forecasts):
    """At the forecasts, under the weights; from dense arrays."""
    forecast, weight = weighted_forecasts(n_classes)
    basis = fit(forecast, weight, by_class)
    g = dense_directions(basis, forecast)
    information = np.einsum("ikj,ikj->ij", g, tangents(np.exp(basis.log_proba(forecast)), g))
    np.testing.assert_allclose(weight @ information / weight.sum(), 1, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 5, 10])
def test_directions_without_information_are_not_blown_up(n_classes):
    """A slope of forecasts that are equal for all classes has only rounding errors to show."""
    forecast = np.full((300, n_classes), 1 / n_classes)
    basis = fit(forecast, np.ones(300), True)
    assert basis.scale[basis.groups["slope"]] == 1
    g = dense_directions(basis, forecast)
    information = np.einsum("ikj,ikj->j", g, tangents(forecast, g)) / 300
    assert ((abs(information - 1) < 1e-9) | (abs(information) < 1e-9)).all()
    assert np.abs(g).max() < 1e3


@pytest.mark.parametrize(("n_classes", "by_class"), CASES)
def test_blocks_of_any_size_give_the_same(n_classes, by_class, weighted_forecasts, set_sizes):
    """Blocks of one sample, of some and of all; kept, and computed again."""
    forecast, weight = weighted_forecasts(n_classes)
    rng = np.random.default_rng(2)
    basis = fit(forecast, weight, by_class)
    theta, q = rng.normal(size=len(basis.scale)), rng.normal(size=forecast.shape)
    names = ("slope", "bias") if by_class or n_classes == 2 else ("slope", "top")
    sums = []
    for entries, kept_entries in product((1 << 22, 1, 10 * basis.width + 3), (1 << 25, 0)):
        set_sizes(basis_entries=entries, stored_basis_entries=kept_entries)
        basis = fit(forecast, weight, by_class)
        directions, some = Directions(basis, forecast), basis.select(names)
        parts = list(directions)
        assert len(parts) == {1 << 22: 1, 1: len(forecast)}.get(entries, 11)
        logits = np.concatenate([block.logits(theta) for _, block in parts])
        total = sum(block.total(q[rows]) for rows, block in parts)
        for part in [directions.subset(names)] * 2:  # it can be read twice
            few = sum(block.total(q[rows]) for rows, block in part)
            np.testing.assert_allclose(few, total[some], rtol=1e-9, atol=1e-9)
        sums.append(np.concatenate([logits.ravel(), total, basis.scale]))
    for other_sums in sums[1:]:
        np.testing.assert_allclose(other_sums, sums[0], rtol=1e-9, atol=1e-9)


def test_directions_of_two_classes(learned):
    """The log odds, a constant, the sum of both logs, and Legendre polynomials of the place."""
    basis, g, log, p, weight = learned(2)
    odds = log[:, 1] - log[:, 0]
    u = reached(odds, weight * p.prod(axis=1), odds)
    curve = legvander(2 * u - 1, basis.degree + 1)[:, 2:]
    expected = {"slope": odds, "bias": np.ones_like(odds), "class_slopes": log.sum(axis=1)}
    expected |= {"curve": curve[:, :4], "curve_high": curve[:, 4:]}
    assert not g[:, 0].any()
    assert set(basis.groups) == set(expected)
    check_directions(basis, g[:, 1:], expected)


def test_directions_of_more_classes(learned):
    """A temperature, functions of centred logits, contrasts, and polynomials of log odds."""
    basis, g, log, p, weight = learned(4)
    n, rows = len(log), np.arange(len(log))
    odds = log - np.log1p(-np.minimum(p, 1 - 1e-12))
    mass = weight[:, None] * p * (1 - p)
    centred = log - log.mean(axis=1, keepdims=True)
    z = centred / np.sqrt(np.average((centred**2).mean(axis=1), weights=weight))
    place = reached(odds.ravel(), mass.ravel(), odds.ravel())
    shared = legvander(2 * place - 1, basis.degree).reshape(n, 4, -1)[:, :, 2:]
    column = log.argmax(axis=1)
    top = np.zeros((n, 4, basis.degree + 1))
    top_odds = odds[rows, column]
    u = reached(top_odds, mass[rows, column], top_odds)
    top[rows, column] = legvander(2 * u - 1, basis.degree)
    expected = {
        "slope": log[:, :, None],
        "common": np.stack([z * abs(z), z**3, z**2, np.tanh(2 * z)], axis=2),
        "shared": shared[:, :, :4],
        "shared_high": shared[:, :, 4:],
        "top": top[:, :, :5],
        "top_high": top[:, :, 5:],
    }
    assert set(basis.groups) == {*expected, "bias", "class_slopes", "confusion"}
    confusion = g[:, :, basis.groups["confusion"]].reshape(n, 4, 4, 3)
    for j in range(4):  # contrasts of the classes where j is the most likely one, else zero
        check_contrasts(confusion[column == j][:, :, j])
        assert not confusion[column != j][:, :, j].any()
    contrasts = g[:, :, basis.groups["bias"]]
    check_contrasts(contrasts)
    check_directions(basis, g, {**expected, "class_slopes": contrasts * log[:, :, None]})


@pytest.mark.parametrize(
    ("size", "degree"), [(300, 7), (2, 6), (100, 6), (1000, 10), (3000, 14), (4000, 15), (1e7, 15)]
)
def test_the_number_of_polynomials_is_the_cube_root_within_6_to_15(
    size, degree, weighted_forecasts
):
    cases = (2, "curve", 4, degree), (3, "top", 5, degree + 1), (3, "shared", 4, degree - 1)
    for n_classes, name, low, high in cases:
        basis = fit(*weighted_forecasts(n_classes), True, size=size)
        first, high_degrees = (basis.groups[group] for group in (name, f"{name}_high"))
        assert basis.degree == degree
        assert (first.stop - first.start, high_degrees.stop - first.start) == (low, high)


def test_the_detection_limit_replaces_zeros_only(weighted_forecasts):
    """Half of the smallest positive forecast, up to the renormalisation of the row."""
    forecast, weight = weighted_forecasts(3)
    basis = fit(forecast, weight, True)
    smallest = forecast[forecast > 0].min()
    assert basis.limit == smallest / 2
    p = np.exp(basis.log_proba(forecast))
    inside = (forecast > 0).all(axis=1)
    np.testing.assert_allclose(p[inside], forecast[inside], rtol=1e-12)
    np.testing.assert_allclose(p[0], np.array([1, basis.limit, basis.limit]) / (1 + smallest))


# --- The distribution function of log odds, from sums over fixed cells


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.logistic(size=3000), rng.uniform(0.5, 2, 3000), rng.uniform(0.1, 1, 3000)


def function_of(values, weight, mass):
    return DistributionFunction(cell_sums(values, weight, mass))


def test_sums_of_parts_add_up_in_any_order(sample):
    order = np.random.default_rng(1).permutation(3000)
    parts = [cell_sums(*(column[rows] for column in sample)) for rows in np.array_split(order, 7)]
    values, weight, mass = sample
    added, whole = DistributionFunction(sum(parts)), function_of(values, weight, mass)
    np.testing.assert_allclose(added(values), whole(values), rtol=0, atol=1e-12)


def test_close_to_the_exact_distribution_function(sample):
    """For few different values it is exact."""
    values, weight, mass = sample
    shares = function_of(values, weight, mass)(values)
    np.testing.assert_allclose(shares, reached(values, mass, values), rtol=0, atol=0.005)
    assert (np.diff(shares[np.argsort(values)]) >= 0).all()
    few = np.random.default_rng(0).choice([-92.0, -3.0, -0.1, 0.0, 0.1, 2.0, 50.0], 3000)
    shares = function_of(few, np.ones(3000), mass)(few)
    np.testing.assert_allclose(shares, reached(few, mass, few), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 0.01])
def test_values_from_a_table_are_those_of_a_search(sample, spread):
    """Also beyond the ends and at the knots; most knots in one cell, where there is no table."""
    values, weight, mass = sample
    values = np.append(spread * values[:-1], 60.0)
    function = function_of(values, weight, mass)
    assert (function._table is None) == (spread < 1)
    at = np.concatenate([values, function.values, np.linspace(-95, 95, 2001)])
    expected = np.interp(at, function.values, function.reached)
    np.testing.assert_allclose(function(at), expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(function(at[:20]), expected[:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(at), function(at))


def test_exchanged_labels_and_rounding(sample):
    """The cells are symmetric about zero; rounding has no effect, also where many samples are."""
    values, weight, mass = sample
    function, changed = function_of(values, weight, mass), function_of(-values, weight, mass)
    np.testing.assert_allclose(function(values), 1 - changed(-values), rtol=0, atol=1e-12)
    values[::3] = 0.0
    moved = values + np.random.default_rng(2).uniform(-1e-12, 1e-12, 3000)
    function, changed = function_of(values, weight, mass), function_of(moved, weight, mass)
    np.testing.assert_allclose(function(values), changed(moved), rtol=0, atol=1e-9)
