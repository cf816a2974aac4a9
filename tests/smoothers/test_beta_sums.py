"""The near-linear sums of Beta kernels against sums over all pairs."""

from itertools import product

import numpy as np
import pytest
from conftest import pairs
from grids import rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import gammaln, logsumexp

from skcalib.smoothers import kernel_sums

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


def exact(points, forecast, weight, values, bandwidth, left_out=None):
    """Averages and log masses by all pairs, from Gamma functions, without sources `left_out`."""
    tiny = np.finfo(np.float64).tiny
    s = forecast / bandwidth
    constant = gammaln(2 + s.sum(axis=1)) - gammaln(s + 1).sum(axis=1)
    log_kernel = np.log(np.maximum(points, tiny)) @ s.T + constant + np.log(weight)
    if left_out is not None:
        log_kernel[np.arange(len(points)), left_out] = -np.inf
    log_mass = logsumexp(log_kernel, axis=1)
    return np.exp(log_kernel - log_mass[:, None]) @ values, log_mass


def leave_one_out(forecast, weight, values, bandwidth):
    """What the panels answer, however few samples there are."""
    sources = kernel_sums.BetaSources(forecast, weight, values)
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
    for weight, bandwidth in product(weights, BANDWIDTHS):
        averages, log_mass = leave_one_out(forecast, weight, values, bandwidth)
        expected, log_expected = exact(forecast[rows], forecast, weight, values, bandwidth, rows)
        assert np.isfinite(averages).all() and np.isfinite(log_mass).all()
        np.testing.assert_allclose(averages[rows], expected, rtol=0, atol=tolerance(bandwidth))
        scale = np.maximum(1, np.abs(log_expected))
        assert np.max(np.abs(log_mass[rows] - log_expected) / scale) < tolerance(bandwidth)


@pytest.mark.parametrize("name", [*NAMES, "gaps", "one is heavy"])
def test_new_points_against_all_pairs(name):
    """Points far from all sources, where nothing but the nearest counts, included."""
    rng = np.random.default_rng(1)
    sources = SCORES["uniform" if name == "one is heavy" else name](2000, rng)
    values, weight = rng.uniform(-1, 1, (2000, 1)), rng.uniform(0.5, 2, 2000)
    if name == "one is heavy":
        weight[0] = 1e12
    many = 4000 if name == "gaps" else 200
    far = [np.full(many // 8, 0.99), 10.0 ** rng.uniform(-30, 0, many // 8)]
    p = np.concatenate([[0, 1, 1e-300, 0.5], rng.random(many), *far])
    rows = np.arange(0, len(p), many // 200)
    for bandwidth in BANDWIDTHS:
        averages = kernel_sums.kernel_average(pairs(p), pairs(sources), weight, values, bandwidth)
        expected, _ = exact(pairs(p[rows]), pairs(sources), weight, values, bandwidth)
        np.testing.assert_allclose(averages[rows], expected, rtol=0, atol=tolerance(bandwidth))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    p=arrays(np.float64, st.integers(2, 40), elements=st.floats(0, 1)),
    log_bandwidth=st.floats(-5, 1),
    seed=st.integers(0, 99),
)
def test_any_scores(p, log_bandwidth, seed):
    rng = np.random.default_rng(seed)
    forecast, bandwidth = pairs(p), 10.0**log_bandwidth
    values, weight = rng.uniform(-1, 1, (len(p), 2)), 10.0 ** rng.uniform(-3, 3, len(p))
    averages, log_mass = leave_one_out(forecast, weight, values, bandwidth)
    rows = np.arange(len(p))
    expected, log_expected = exact(forecast, forecast, weight, values, bandwidth, left_out=rows)
    np.testing.assert_allclose(averages, expected, rtol=0, atol=tolerance(bandwidth))
    np.testing.assert_allclose(log_mass, log_expected, rtol=1e-7, atol=1e-7)


def test_few_pairs_take_the_exact_path_with_the_same_answer(monkeypatch):
    """Rows may miss one by rounding."""
    rng = np.random.default_rng(0)
    forecast, weight = pairs(extreme(200, rng)), rng.uniform(0.1, 5, 200)
    target = np.eye(2)[rng.integers(2, size=200)]

    def both():
        average = kernel_sums.leave_one_out(forecast, weight, target)(0.01)
        return average, kernel_sums.log_likelihoods(forecast, weight)([0.01, 0.1])

    direct = both()
    monkeypatch.setattr(kernel_sums, "_PAIRS", 0)
    panels = both()
    np.testing.assert_allclose(panels[0], direct[0], atol=1e-10)
    np.testing.assert_allclose(panels[1], direct[1], rtol=1e-10)
    forecast = pairs(rng.random(1000))
    off = forecast * (1 + 1e-6 * rng.standard_normal((1000, 1)))
    weight, target = np.ones(1000), np.eye(2)[rng.integers(2, size=1000)]
    averages = [kernel_sums.leave_one_out(rows, weight, target)(1e-4) for rows in (forecast, off)]
    np.testing.assert_allclose(*averages, atol=1e-7)


def test_parts_of_the_plan():
    z = np.array([0, 1e-300, 1e-5, 0.5, 3, 15.99, 16.01, 100, 1e5])
    direct = gammaln(z + 1) - z * np.log(np.where(z > 0, z, 1)) + z
    np.testing.assert_allclose(kernel_sums.log_gamma_rest(z), direct, atol=5e-10, rtol=1e-12)
    t, total = np.array([-700.0, -30, 0, 3, 30, 700]), 1000.0
    a, b = kernel_sums.split(t, total)
    np.testing.assert_allclose(a / b, np.exp(t), rtol=1e-12)
    np.testing.assert_allclose(kernel_sums.log_ratio(t, a, b), 0, atol=1e-12)
    x, s = 0.3, 0.32
    density = gammaln(1002) - gammaln(321) - gammaln(681)
    density += 320 * np.log(x) + 680 * np.log(1 - x)
    t = np.log(x / (1 - x))
    log_density = kernel_sums.log_ratio(t, total * s, total * (1 - s)) + kernel_sums.log_self(
        t, total
    )
    assert log_density == pytest.approx(density)
    for bandwidth in (0.1, 1e-3, 1e-5):  # the number of panels grows as the root
        assert len(kernel_sums.make_plan(bandwidth).first) < 40 + 3 * np.sqrt(1 / bandwidth)
        assert kernel_sums.make_plan(bandwidth) is kernel_sums.make_plan(bandwidth)


@pytest.mark.parametrize("name", ["confident", "u-shaped"])
@pytest.mark.parametrize("bandwidth", [1e-2, 1e-3, 1e-4])
def test_averages_of_labels_are_probabilities_with_a_finite_log_loss(name, bandwidth):
    """To relative precision at the own label, which a kernel far away from its class needs."""
    rng = np.random.default_rng(0)
    forecast = pairs(SCORES[name](20_000, rng))
    label = (rng.random(20_000) < forecast[:, 1]).astype(int)
    weight, target = np.ones(20_000), np.eye(2)[label]
    averages = kernel_sums.leave_one_out(forecast, weight, target)(bandwidth)
    assert averages.min() >= 0 and averages.max() <= 1
    at_label = averages[np.arange(20_000), label]
    rows = np.argsort(at_label)[:50]
    expected, _ = exact(forecast[rows], forecast, weight, target, bandwidth, left_out=rows)
    np.testing.assert_allclose(at_label[rows], expected[np.arange(50), label[rows]], rtol=1e-6)


def test_the_only_one_of_its_label():
    """Others give it nothing, exactly; one far from its class gets what underflow leaves."""
    p = np.concatenate([np.linspace(0, 0.2, 2000), np.linspace(0.8, 1, 2000)])
    forecast, weight = pairs(p), np.ones(4000)
    alone = np.eye(2)[(np.arange(4000) == 700).astype(int)]
    for bandwidth in BANDWIDTHS:
        averages = kernel_sums.leave_one_out(forecast, weight, alone)(bandwidth)
        assert averages[700].tolist() == [1, 0]
    label = (p > 0.5).astype(int)
    label[100] = 1
    averages = kernel_sums.leave_one_out(forecast, weight, np.eye(2)[label])(1e-2)
    rows = np.array([100])
    expected, _ = exact(forecast[rows], forecast, weight, np.eye(2)[label], 1e-2, left_out=rows)
    assert 0 < expected[0, 1] < 1e-50
    assert averages[100, 1] == pytest.approx(expected[0, 1], rel=1e-8, abs=0)
