"""Exact sums of Dirichlet kernels: an oracle in extended precision, laws, and dropped sources."""

import joblib
import numpy as np
import pytest
from conftest import peak_memory
from grids import covering, rotated
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln
from threadpoolctl import threadpool_info

from skcalib.smoothers import kernel_sums
from skcalib.smoothers.kernel_sums import (
    Dropping,
    dirichlet_average,
    dirichlet_log_likelihoods,
)

TINY = np.finfo(np.float64).tiny
EPS = np.finfo(np.float64).eps
KINDS = ("dirichlet", "confident", "tied", "exact", "one-hot")


def make(kind, n_samples, n_classes, seed=0):
    """Forecasts, one-hot labels drawn from them, and uneven weights."""
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(n_classes, 0.5), n_samples)
    if kind == "confident":
        logits = 3 * rng.standard_normal((n_samples, n_classes))
        logits[np.arange(n_samples), rng.integers(n_classes, size=n_samples)] += 12
        forecast = np.exp(logits - logits.max(axis=1, keepdims=True))
    elif kind == "tied":
        forecast = forecast[rng.integers(min(3, n_samples), size=n_samples)]
    elif kind == "exact":
        forecast[forecast < 0.3 / n_classes] = 0
        forecast[::7] = np.eye(n_classes)[rng.integers(n_classes, size=len(forecast[::7]))]
    elif kind == "one-hot":
        forecast = np.eye(n_classes)[rng.integers(n_classes, size=n_samples)]
    forecast /= forecast.sum(axis=1, keepdims=True)
    above = rng.random((n_samples, 1)) > forecast.cumsum(axis=1)[:, :-1]
    target = np.eye(n_classes)[above.sum(axis=1)]
    return forecast, target, rng.exponential(size=n_samples) + 1e-3


def constants(forecast, weight, bandwidth):
    """c_j in float64: their rounding is part of the definition."""
    scaled = forecast / bandwidth
    constant = gammaln(forecast.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    return constant + np.log(weight)


def oracle(points, forecast, weight, values, bandwidth, leave_out=False, rows=None):
    """Row by row in extended precision; and the rounding of the largest log kernel of each row."""
    scaled = (forecast / bandwidth).astype(np.longdouble)
    constant = constants(forecast, weight, bandwidth)
    rows = np.arange(len(points)) if rows is None else rows
    averages, log_mass = np.empty((len(rows), values.shape[1])), np.empty(len(rows))
    rounding = np.empty(len(rows))
    for r, i in enumerate(rows):
        inner = scaled @ np.log(np.maximum(points[i], TINY)).astype(np.longdouble)
        log_kernel = inner + constant
        if leave_out:
            log_kernel[i] = -np.inf
        kernel = np.exp(log_kernel - log_kernel.max())
        averages[r] = (kernel[:, None] * values).sum(axis=0) / kernel.sum()
        log_mass[r] = log_kernel.max() + np.log(kernel.sum())
        terms = (np.abs(inner) + np.abs(constant))[kernel > 1e-20]
        rounding[r] = EPS * terms.max()
    return averages, log_mass, rounding


def assert_close(sums, expected):
    """1e-12, or what rounding permits where a log kernel has large terms."""
    averages, log_mass, rounding = expected
    assert np.all(np.abs(sums[0] - averages) <= np.maximum(1e-12, 4 * rounding)[:, None])
    room = np.maximum(1e-12, 8 * rounding + 4 * EPS * np.abs(log_mass))
    assert np.all(np.abs(sums[1] - log_mass) <= room)


@pytest.fixture(params=["all", "dropping"])
def drop(request, monkeypatch):
    """Every test that asks for it runs twice: without and with tiles that drop sources."""
    dropping = request.param == "dropping"
    monkeypatch.setattr(kernel_sums, "_MANY", 0 if dropping else np.inf)
    monkeypatch.setattr(Dropping, "pays", lambda *_: True)
    return dropping


@pytest.mark.parametrize(
    ("kind", "n_classes", "bandwidth"),
    covering(KINDS, [2, 3, 10, 100], [1e-5, 1e-3, 0.02, 1.0, 10.0]),
)
def test_agrees_with_the_oracle(kind, n_classes, bandwidth, drop):
    forecast, target, weight = make(kind, 140, n_classes)
    expected = oracle(forecast, forecast, weight, target, bandwidth, True)
    sums = dirichlet_average(forecast, forecast, weight, target, bandwidth, leave_out=True)
    assert_close(sums, expected)
    points = make(kind, 30, n_classes, seed=1)[0]
    values = np.random.default_rng(2).uniform(-1, 1, (140, 3))
    for measured in (values, target):
        sums = dirichlet_average(points, forecast, weight, measured, bandwidth)
        assert_close(sums, oracle(points, forecast, weight, measured, bandwidth))


@pytest.mark.parametrize(
    ("n_samples", "kind"),
    rotated([2, 3, 63, 64, 65, 1023, 1024, 1025, 2100], ["dirichlet", "confident", "exact"], 2),
)
def test_agrees_at_the_borders_of_blocks(n_samples, kind, drop):
    forecast, target, weight = make(kind, n_samples, 3)
    bandwidth = 1e-5 if kind == "exact" else 0.01
    rows = np.unique(np.linspace(0, n_samples - 1, 40).astype(int))
    for values in (target, forecast, target[:, :0]):
        expected = oracle(forecast, forecast, weight, values, bandwidth, True, rows)
        sums = dirichlet_average(forecast, forecast, weight, values, bandwidth, leave_out=True)
        assert_close((sums[0][rows], sums[1][rows]), expected)


@pytest.mark.parametrize("first_near", [1, 1100])
def test_nearest_sources_are_not_among_the_first(first_near, monkeypatch):
    """Shifts start far below the largest log kernels; the block that has these changes them."""
    far, near = make("dirichlet", 2100, 3)[0], np.array([1, 1, 8]) * np.ones((2100, 1))
    near = near + 0.1 * far
    near /= near.sum(axis=1, keepdims=True)
    is_near = np.arange(2100) >= first_near
    is_near[:: 2100 // kernel_sums._SOME] = False
    forecast = np.where(is_near[:, None], near, [0.998, 1e-3, 1e-3])
    weight, carefully, add = np.ones(2100), [], kernel_sums._TileSums.add

    def watched(sums, block, *left_out):
        add(sums, block, *left_out)
        if sums.careful:
            carefully.append(block.number.start)

    monkeypatch.setattr(kernel_sums._TileSums, "add", watched)
    for values in (np.eye(3)[np.zeros(2100, dtype=int)], far):
        sums = dirichlet_average(near[:40], forecast, weight, values, 1e-3)
        assert_close(sums, oracle(near[:40], forecast, weight, values, 1e-3))
    assert min(carefully) == 1024 * (first_near // 1024)


def test_few_sources_points_and_values(drop):
    for n_samples in (1, 2):
        forecast, target, weight = make("dirichlet", n_samples, 4)
        point = forecast[:1]
        averages, log_mass = dirichlet_average(point, point, weight[:1], target[:1], 0.1)
        assert_array_equal(averages, target[:1])
        expected = np.log(forecast[0]) @ forecast[0] / 0.1 + constants(forecast, weight, 0.1)[0]
        assert_allclose(log_mass, expected, rtol=1e-12)
    forecast, target, weight = make("dirichlet", 20, 3)
    averages, log_mass = dirichlet_average(forecast[:0], forecast, weight, target, 0.1)
    assert averages.shape == (0, 3) and log_mass.shape == (0,)
    averages, nothing = dirichlet_average(forecast, forecast, weight, target[:, :0], 0.1)
    assert averages.shape == (20, 0)
    assert_allclose(nothing, dirichlet_average(forecast, forecast, weight, target, 0.1)[1])


@pytest.mark.parametrize("one_hot", [True, False])
def test_threads_do_not_change_a_bit(one_hot, drop, monkeypatch):
    monkeypatch.setattr(kernel_sums, "_TASK", 64)
    forecast, target, weight = make("confident", 1100, 3)
    values = target if one_hot else forecast
    threads_before = [library["num_threads"] for library in threadpool_info()]

    def run(n_jobs):
        options = {"leave_out": True, "n_jobs": n_jobs}
        sums = dirichlet_average(forecast, forecast, weight, values, 0.01, **options)
        return *sums, dirichlet_log_likelihoods(forecast, weight, [0.01, 0.1], n_jobs=n_jobs)

    sums = [run(1), run(2), run(3)]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        sums.append(run(None))
    for expected, *threaded in zip(*sums, strict=True):
        for array in threaded:
            assert_array_equal(array, expected)
    assert [library["num_threads"] for library in threadpool_info()] == threads_before


def test_memory_is_that_of_blocks():
    forecast, target, weight = make("dirichlet", 4000, 3)

    def both():
        dirichlet_average(forecast, forecast, weight, target, 0.05, leave_out=True)
        dirichlet_log_likelihoods(forecast, weight, [0.05, 0.1])

    assert peak_memory(both)[1] < 10e6  # a matrix of all pairs has 128 MB


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods(kind, drop):
    forecast, target, weight = make(kind, 1100 if kind == "confident" else 160, 3)
    weight[0] = 1e8  # a difference of sums would forget the others
    bandwidths = np.array([1e-4, 0.01, 0.3])
    likelihoods = dirichlet_log_likelihoods(forecast, weight, bandwidths)
    for h, value in zip(bandwidths, likelihoods, strict=True):
        _, log_mass, rounding = oracle(forecast, forecast, weight, target, h, True)
        weight_of_others = [np.delete(weight, i).sum() for i in range(len(weight))]
        by_sample = log_mass - np.log(weight_of_others)
        room = weight @ (1e-12 + 8 * rounding + 1e-14 * np.abs(by_sample))
        assert abs(value - weight @ by_sample) <= room
        single = dirichlet_log_likelihoods(forecast, weight, [h])
        assert abs(value - single[0]) <= room
    assert dirichlet_log_likelihoods(forecast, weight, []).shape == (0,)


@pytest.mark.parametrize(
    ("kind", "bandwidth"), [("confident", 1e-3), ("confident", 0.01), ("exact", 1e-3)]
)
def test_small_shares_survive(kind, bandwidth, monkeypatch):
    """A log loss sees a share of 1e-100: dropping changes it by rounding only, never to 0."""
    forecast, target, weight = make(kind, 3100, 4, seed=5)
    shares = []
    for dropping in (False, True):
        monkeypatch.setattr(kernel_sums, "_MANY", 0 if dropping else np.inf)
        monkeypatch.setattr(Dropping, "pays", lambda *_: True)
        sums = dirichlet_average(forecast, forecast, weight, target, bandwidth, leave_out=True)
        shares.append(sums[0])
    assert np.any((shares[0] > 0) & (shares[0] < 1e-30))
    assert_array_equal(shares[0] > 0, shares[1] > 0)
    assert_allclose(*shares, rtol=1e-10)


def test_dropping_is_chosen_where_it_pays(monkeypatch):
    """Confident forecasts and small bandwidths; the result is that of all sources."""
    chosen = []
    real = Dropping.pays

    def watched(*arguments):
        chosen.append(bool(real(*arguments)))
        return chosen[-1]

    monkeypatch.setattr(Dropping, "pays", watched)
    for kind, bandwidth, pays in (("confident", 1e-3, True), ("dirichlet", 0.5, False)):
        forecast, target, weight = make(kind, 6100, 5)
        sums = dirichlet_average(forecast, forecast, weight, target, bandwidth, leave_out=True)
        rows = np.arange(0, 6100, 300)
        expected = oracle(forecast, forecast, weight, target, bandwidth, True, rows)
        assert_close((sums[0][rows], sums[1][rows]), expected)
        assert chosen.pop() is pays
    dirichlet_average(forecast[:100], forecast, weight, target, 1e-3)
    assert not chosen  # a hundred points are not worth a question
