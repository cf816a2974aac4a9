"""Sums of Dirichlet kernels: an oracle in extended precision, laws, dropped sources, and panels."""

from itertools import product

import joblib
import numpy as np
import pytest
from conftest import pairs, peak_memory
from grids import covering, rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln
from threadpoolctl import threadpool_info

from skcalib.smoothers import kernel_sums
from skcalib.smoothers.kernel_sums import (
    BetaSources,
    Dropping,
    dirichlet_average,
    dirichlet_log_likelihoods,
    kd_tiles,
    kernel_average,
    log_likelihoods,
)

TINY = np.finfo(np.float64).tiny
SMALLEST = np.finfo(np.longdouble).tiny
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


def oracle(points, forecast, weight, values, bandwidth, leave_out=False, rows=None, zero=TINY):
    """Row by row in extended precision; and the rounding of the largest log kernel of each row.

    The logarithm of a probability of 0 is that of `zero`.
    """
    scaled = (forecast / bandwidth).astype(np.longdouble)
    constant = constants(forecast, weight, bandwidth)
    rows = np.arange(len(points)) if rows is None else rows
    averages, log_mass = np.empty((len(rows), values.shape[1])), np.empty(len(rows))
    rounding = np.empty(len(rows))
    for r, i in enumerate(rows):
        point = np.where(points[i] > 0, np.maximum(points[i], TINY), zero)
        inner = scaled @ np.log(point).astype(np.longdouble)
        log_kernel = inner + constant
        if leave_out:
            log_kernel[i] = -np.inf
        kernel = np.exp(log_kernel - log_kernel.max())
        averages[r] = (kernel[:, None] * values).sum(axis=0) / kernel.sum()
        log_mass[r] = log_kernel.max() + np.log(kernel.sum())
        terms = (np.abs(inner) + np.abs(constant))[kernel > 1e-20]
        rounding[r] = EPS * terms.max()
    return averages, log_mass, rounding


def check(points, forecast, weight, values, bandwidth, leave_out=False, rows=None):
    """Some rows to 1e-12, or what rounding permits where a log kernel has large terms."""
    sums = dirichlet_average(points, forecast, weight, values, bandwidth, leave_out=leave_out)
    expected = oracle(points, forecast, weight, values, bandwidth, leave_out, rows)
    averages, log_mass, rounding = expected
    some = slice(None) if rows is None else rows
    assert np.all(np.abs(sums[0][some] - averages) <= np.maximum(1e-12, 4 * rounding)[:, None])
    room = np.maximum(1e-12, 8 * rounding + 4 * EPS * np.abs(log_mass))
    assert np.all(np.abs(sums[1][some] - log_mass) <= room)


@pytest.fixture(params=["dropping", "all"])
def drop(request, monkeypatch, set_sizes):
    """Every test that asks for it runs twice: without and with tiles that drop sources."""
    dropping = request.param == "dropping"
    set_sizes(dropping_samples=0 if dropping else np.inf)
    monkeypatch.setattr(Dropping, "pays", lambda *_: True)
    return dropping


@pytest.mark.parametrize(
    ("kind", "n_classes", "bandwidth"),
    covering(KINDS, [2, 3, 10, 100], [1e-5, 1e-3, 0.02, 1.0, 10.0]),
)
def test_agrees_with_the_oracle(kind, n_classes, bandwidth, drop):
    forecast, target, weight = make(kind, 140, n_classes)
    check(forecast, forecast, weight, target, bandwidth, leave_out=True)
    points = make(kind, 30, n_classes, seed=1)[0]
    values = np.random.default_rng(2).uniform(-1, 1, (140, 3))
    for measured in (values, target):
        check(points, forecast, weight, measured, bandwidth)


@pytest.mark.parametrize(
    ("n_samples", "kind"),
    rotated([2, 3, 63, 64, 65, 1023, 1024, 1025, 2100], ["dirichlet", "confident", "exact"], 2),
)
def test_agrees_at_the_borders_of_blocks(n_samples, kind, drop):
    forecast, target, weight = make(kind, n_samples, 3)
    bandwidth = 1e-5 if kind == "exact" else 0.01
    rows = np.unique(np.linspace(0, n_samples - 1, 40).astype(int))
    for values in (target, forecast, target[:, :0]):
        check(forecast, forecast, weight, values, bandwidth, True, rows)


@pytest.mark.parametrize("first_near", [1, 1100])
def test_nearest_sources_are_not_among_the_first(first_near):
    """Shifts start far below the largest log kernels; the block that has these changes them."""
    far, near = make("dirichlet", 2100, 3)[0], np.array([1, 1, 8]) * np.ones((2100, 1))
    near = near + 0.1 * far
    near /= near.sum(axis=1, keepdims=True)
    is_near = np.arange(2100) >= first_near
    is_near[:: 2100 // kernel_sums._SOME] = False
    forecast = np.where(is_near[:, None], near, [0.998, 1e-3, 1e-3])
    weight = np.ones(2100)
    for values in (np.eye(3)[np.zeros(2100, dtype=int)], far):
        check(near[:40], forecast, weight, values, 1e-3)


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
def test_threads_do_not_change_a_bit(one_hot, drop, set_sizes):
    set_sizes(task_rows=64)
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
def test_small_shares_survive(kind, bandwidth, monkeypatch, set_sizes):
    """A log loss sees a share of 1e-100: dropping changes it by rounding only, never to 0."""
    forecast, target, weight = make(kind, 3100, 4, seed=5)
    shares = []
    for dropping in (False, True):
        set_sizes(dropping_samples=0 if dropping else np.inf)
        monkeypatch.setattr(Dropping, "pays", lambda *_: True)
        sums = dirichlet_average(forecast, forecast, weight, target, bandwidth, leave_out=True)
        shares.append(sums[0])
    assert np.any((shares[0] > 0) & (shares[0] < 1e-30))
    assert_array_equal(shares[0] > 0, shares[1] > 0)
    assert_allclose(*shares, rtol=1e-10)


def test_all_tiles_but_one_are_full_and_hold_every_row_once():
    for n_samples, n_classes in ((1, 2), (31, 3), (64, 2), (1000, 4), (999, 10)):
        for kind in KINDS:
            tiles = kd_tiles(make(kind, n_samples, n_classes)[0], 32)
            assert_array_equal(np.sort(np.concatenate(tiles)), np.arange(n_samples))
            assert sorted(len(rows) for rows in tiles)[1:] == [32] * (len(tiles) - 1)
    assert kd_tiles(np.empty((0, 2)), 32) == []


def test_dropping_is_chosen_where_it_pays(monkeypatch):
    """Confident forecasts and small bandwidths; the result is that of all sources."""
    chosen, pays_in_fact = [], Dropping.pays

    def watched(*arguments):
        chosen.append(pays_in_fact(*arguments))
        return chosen[-1]

    monkeypatch.setattr(Dropping, "pays", watched)
    for kind, bandwidth, pays in (("confident", 1e-3, True), ("dirichlet", 0.5, False)):
        forecast, target, weight = make(kind, 6100, 5)
        check(forecast, forecast, weight, target, bandwidth, True, np.arange(0, 6100, 300))
        assert chosen.pop() is pays
    dirichlet_average(forecast[:100], forecast, weight, target, 1e-3)
    assert not chosen  # a hundred points are not worth a question


# --- Two columns, by panels

BANDWIDTHS = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)


def tolerance(bandwidth):
    return 1e-9 if bandwidth >= 1e-3 else 1e-7


def extreme(n_samples, rng):
    p = rng.beta(0.3, 0.3, n_samples)
    special = np.array([0, 1, 1e-30, 1e-300, 5e-324, 1 - 2**-53, 0.5, 0, 1])
    p[: len(special)] = special
    p[20:60], p[60:90] = 0, 1
    return p


SCORES = {
    "uniform": lambda n, rng: rng.random(n),
    "u-shaped": lambda n, rng: rng.beta(0.1, 0.1, n),
    "two points": lambda n, rng: rng.choice([0.2, 0.8], n),
    "ties": lambda n, rng: np.round(rng.beta(0.5, 0.5, n), 2),
    "confident": lambda n, rng: np.exp(-rng.exponential(8, n)),
    "gaps": lambda n, rng: np.where(rng.random(n) < 0.5, 0.1, 0.6) + 0.01 * rng.random(n),
    "extreme": extreme,
}
NAMES = ("ties", "uniform", "two points", "u-shaped", "confident", "extreme")


def panels(forecast, weight, values, bandwidth):
    """What the panels answer, however few samples there are."""
    sources = BetaSources(forecast, weight, values)
    sums, log_scale = sources.sums(bandwidth)
    log_mass = np.empty(len(forecast))
    log_mass[sources.order] = np.log(sums[:, 0]) + log_scale
    return sources.averages(sums, sources.order), log_mass


@pytest.mark.parametrize(
    ("name", "n_samples"), [*rotated(NAMES, [100, 3000, 20_000], 1), ("uniform", 2)]
)
def test_leave_one_out_against_all_pairs(name, n_samples):
    """Weights are equal or differ by twelve decades, or one sample has nearly all."""
    rng = np.random.default_rng(0)
    forecast = pairs(SCORES[name](n_samples, rng))
    values = rng.uniform(-1, 1, (n_samples, 2))
    # special values come first; of many samples that have none fewer are compared
    n_first = min(n_samples, 95 if name == "extreme" or n_samples <= 3000 else 10)
    rows = np.unique(np.append(np.arange(n_first), rng.choice(n_samples, 30)))
    weights = [np.ones(n_samples), 10.0 ** rng.uniform(-6, 6, n_samples)]
    if name == "uniform":
        weights.append(np.where(np.arange(n_samples) == 1, 1e12, 1.0))
    for bandwidth, weight in product(BANDWIDTHS[:: 2 if n_samples == 100 else 1], weights):
        averages, log_mass = panels(forecast, weight, values, bandwidth)
        expected, log_expected, _ = oracle(
            forecast, forecast, weight, values, bandwidth, True, rows
        )
        assert np.isfinite(averages).all() and np.isfinite(log_mass).all()
        assert_allclose(averages[rows], expected, rtol=0, atol=tolerance(bandwidth))
        scale = np.maximum(1, np.abs(log_expected))
        assert np.max(np.abs(log_mass[rows] - log_expected) / scale) < tolerance(bandwidth)


@pytest.mark.parametrize("name", ["gaps", *NAMES, "one is heavy"])
def test_new_points_against_all_pairs(name):
    """Points far from all sources, where nothing but the nearest counts, included."""
    rng = np.random.default_rng(1)
    sources = SCORES["uniform" if name == "one is heavy" else name](700, rng)
    values, weight = rng.uniform(-1, 1, (700, 1)), rng.uniform(0.5, 2, 700)
    if name == "one is heavy":
        weight[0] = 1e12
    many = 2400 if name == "gaps" else 200
    far = [np.full(many // 8, 0.99), 10.0 ** rng.uniform(-30, 0, many // 8)]
    p = np.concatenate([[0, 1, 1e-300, 0.5], rng.random(many), *far])
    rows = np.arange(0, len(p), many // 200)
    for bandwidth in BANDWIDTHS[::3]:
        averages = kernel_average(pairs(p), pairs(sources), weight, values, bandwidth)
        expected = oracle(pairs(p), pairs(sources), weight, values, bandwidth, rows=rows)[0]
        assert_allclose(averages[rows], expected, rtol=0, atol=tolerance(bandwidth))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    p=arrays(np.float64, st.integers(2, 40), elements=st.floats(0, 1)),
    log_bandwidth=st.sampled_from([-4.7, -3.3, -1.9, -0.6, 0.8]),
    seed=st.integers(0, 99),
)
def test_any_scores(p, log_bandwidth, seed):
    rng = np.random.default_rng(seed)
    forecast, bandwidth = pairs(p), 10.0**log_bandwidth
    values, weight = rng.uniform(-1, 1, (len(p), 2)), 10.0 ** rng.uniform(-3, 3, len(p))
    averages, log_mass = panels(forecast, weight, values, bandwidth)
    expected, log_expected, _ = oracle(forecast, forecast, weight, values, bandwidth, True)
    # Where a source far heavier than all at 0 is near it, the logarithm of 0 is not small enough.
    at_zero = oracle(forecast, forecast, weight, values, bandwidth, True, zero=SMALLEST)[0]
    room = tolerance(bandwidth) + np.abs(at_zero - expected)
    assert np.all(np.abs(averages - expected) <= room)
    assert_allclose(log_mass, log_expected, rtol=1e-7, atol=1e-7)


def test_few_pairs_take_the_exact_path_with_the_same_answer(set_sizes):
    """Rows may miss one by rounding."""
    rng = np.random.default_rng(0)
    forecast, weight = pairs(extreme(200, rng)), rng.uniform(0.1, 5, 200)
    target = np.eye(2)[rng.integers(2, size=200)]

    def both():
        average = kernel_sums.leave_one_out(forecast, weight, target)(0.01)
        return average, log_likelihoods(forecast, weight)([0.01, 0.1])

    direct = both()
    set_sizes(panel_pairs=0)
    by_panels = both()
    assert_allclose(by_panels[0], direct[0], atol=1e-10)
    assert_allclose(by_panels[1], direct[1], rtol=1e-10)
    forecast = pairs(rng.random(1000))
    off = forecast * (1 + 1e-6 * rng.standard_normal((1000, 1)))
    weight, target = np.ones(1000), np.eye(2)[rng.integers(2, size=1000)]
    averages = [kernel_sums.leave_one_out(rows, weight, target)(1e-4) for rows in (forecast, off)]
    assert_allclose(*averages, atol=1e-7)


def test_the_number_of_panels_grows_as_the_root_and_they_are_kept():
    for bandwidth in (0.1, 1e-4):
        plan = kernel_sums.make_plan(bandwidth)
        assert len(plan.first) < 40 + 3 * np.sqrt(1 / bandwidth)
        assert kernel_sums.make_plan(bandwidth) is plan


@pytest.mark.parametrize("name", ["confident", "u-shaped"])
@pytest.mark.parametrize("bandwidth", [1e-2, 1e-3, 1e-4])
def test_averages_of_labels_are_probabilities_with_a_finite_log_loss(name, bandwidth):
    """To relative precision at the own label, which a kernel far away from its class needs."""
    rng = np.random.default_rng(0)
    forecast = pairs(SCORES[name](5000, rng))
    label = (rng.random(5000) < forecast[:, 1]).astype(int)
    weight, target = np.ones(5000), np.eye(2)[label]
    averages = kernel_sums.leave_one_out(forecast, weight, target)(bandwidth)
    assert averages.min() >= 0 and averages.max() <= 1
    at_label = averages[np.arange(5000), label]
    rows = np.argsort(at_label)[:50]
    expected = oracle(forecast, forecast, weight, target, bandwidth, True, rows)[0]
    assert_allclose(at_label[rows], expected[np.arange(50), label[rows]], rtol=1e-6)


def test_the_only_one_of_its_label():
    """Others give it nothing, exactly; one far from its class gets what underflow leaves."""
    p = np.concatenate([np.linspace(0, 0.2, 2000), np.linspace(0.8, 1, 2000)])
    forecast, weight = pairs(p), np.ones(4000)
    alone = np.eye(2)[(np.arange(4000) == 700).astype(int)]
    for bandwidth in (10.0, 1e-2, 1e-4):
        averages = kernel_sums.leave_one_out(forecast, weight, alone)(bandwidth)
        assert averages[700].tolist() == [1, 0]
    label = (p > 0.5).astype(int)
    label[100] = 1
    averages = kernel_sums.leave_one_out(forecast, weight, np.eye(2)[label])(1e-2)
    rows = np.array([100])
    expected = oracle(forecast, forecast, weight, np.eye(2)[label], 1e-2, True, rows)[0]
    assert 0 < expected[0, 1] < 1e-50
    assert averages[100, 1] == pytest.approx(expected[0, 1], rel=1e-8, abs=0)
