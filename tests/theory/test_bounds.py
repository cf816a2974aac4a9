"""The scalar bounds of F24, against a simulation whose truth is known."""

from functools import partial
from itertools import pairwise, product
from math import log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

from skcalib import calibration_error, optimal_n_bins
from skcalib.datasets import make_logistic_scores
from skcalib.theory import ece_bias_bound, ece_generalization_bound

#: Intercept and slope of the forecast, its true calibration error and Lipschitz constant (F24).
MODELS = {"bad": (0.5, -1.5, 0.07444, 1.522), "good": (0.2, -1.9, 0.02346, 1.142)}
CALIBRATED = (0.0, -2.0, 0.0, 1.0)
STRATEGIES = ("uniform", "quantile")
TERMS = ("statistical", "binning", "total")
bias = ece_bias_bound


def draw(n_samples, intercept, slope, rng):
    sample = make_logistic_scores(n_samples, intercept, slope, random_state=rng)
    return sample.y, sample.y_proba[:, 1]


def ece(y, p, n_bins, strategy):
    options = {"notion": "canonical", "labels": [0, 1]}
    return calibration_error(y, p, n_bins=n_bins, strategy=strategy, **options)


def binned_truth(edges, intercept, slope):
    """Integrals of the gap over the density of x between the edges in f, where E[Y|x] is known."""
    ends = np.clip(np.sort((logit(edges) - intercept) / slope), -12, 12)

    def gap(x):
        density = (norm.pdf(x - 1) + norm.pdf(x + 1)) / 2
        return (expit(-2 * x) - expit(intercept + slope * x)) * density

    return sum(abs(quad(gap, a, b, epsabs=1e-12)[0]) for a, b in pairwise(ends))


@pytest.mark.parametrize("n_samples", [1, 2, 3, 4, 5, 17, 100, 1000, 4321])
@pytest.mark.parametrize("lipschitz", [0.0, 0.3, 1.0, 60.0])
def test_optimal_n_bins_has_the_smallest_bound(n_samples, lipschitz):
    """Against all numbers of bins for which the bound holds; ties take the smaller number."""
    calls = {"bias": bias, "tce": partial(ece_generalization_bound, bound="tce")}
    for (bound, call), strategy in product(calls.items(), STRATEGIES):
        options = {"strategy": strategy, "lipschitz": lipschitz}
        n_bins = optimal_n_bins(n_samples, bound=bound, **options)
        values = [call(n_samples, b, **options) for b in range(1, n_samples // 2 + 1)]
        assert type(n_bins) is int
        assert n_bins == 1 + (int(np.argmin(values)) if values else 0)


@pytest.mark.parametrize("confidence_level", [0.95, None, 0.5, 0.999])
def test_bias_bound_is_the_formula(confidence_level):
    """In expectation (F24), and with high probability; two parts of quantile bins share delta."""
    n, B, L = 1234, 17, 1.3

    def terms(strategy, delta):
        if delta is None:
            r = sqrt(2 * B * log(2) / (n - B)) + 2 * B / (n - B)
            uniform = sqrt(2 * B * log(2) / n), (1 + L) / B
            return uniform if strategy == "uniform" else (r, (1 + L) * (1 / B + r))
        if strategy == "uniform":
            return sqrt(2 * (B * log(2) + log(1 / delta)) / n), (1 + L) / B
        largest = 1 / B + 2 / n + sqrt(log(B / delta) / (2 * n))
        return 1.5 * sqrt(2 * (B * log(2) + log(2 / delta)) / n) + 2 * B / n, (1 + L) * largest

    delta = None if confidence_level is None else 1 - confidence_level
    for strategy in STRATEGIES:
        statistical, binning = terms(strategy, delta)
        joint = delta / 2 if strategy == "quantile" and delta is not None else delta
        expected = statistical, binning, sum(terms(strategy, joint))
        options = {"strategy": strategy, "lipschitz": L, "confidence_level": confidence_level}
        values = [bias(n, B, term=term, **options) for term in (*TERMS[:2], "total")]
        assert values == pytest.approx(expected, rel=1e-13)
    statistical = bias(100, 15, strategy="quantile", term="statistical")
    assert statistical == pytest.approx(0.84755, abs=5e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_high_probability_grows_with_the_level_and_falls_with_samples(strategy):
    """It is tighter than bounded differences, and needs two samples per bin."""
    for term in TERMS:
        options = {"strategy": strategy, "term": term}
        levels = [bias(1000, 10, confidence_level=c, **options) for c in (0.5, 0.9, 0.99, 1 - 1e-9)]
        sizes = [bias(n, 10, confidence_level=0.95, **options) for n in (20, 100, 10_000)]
        assert np.all(np.diff(levels) >= 0) and np.all(np.diff(sizes) <= 0)
        assert (np.ptp(levels) > 0) != ((strategy, term) == ("uniform", "binning"))
    mean = bias(500, 12, term="statistical")
    high = bias(500, 12, term="statistical", confidence_level=0.95)
    assert mean < high < mean + sqrt(2 * log(1 / 0.05) / 500)
    assert bias(30, 15, strategy=strategy) > 0
    with pytest.raises(ValueError, match=r"n_samples=29 .* 2 \* n_bins=30: use at most 14 bins"):
        bias(29, 15, strategy=strategy)


@pytest.mark.slow
def test_equations_4_8_and_10():
    """TCE of bins <= TCE; mean ECE >= TCE of bins; the exponential moment of their distance."""
    n, n_bins, rng = 200, 8, np.random.RandomState(3)
    for intercept, slope, truth, _ in MODELS.values():
        binned = binned_truth(np.linspace(0, 1, n_bins + 1), intercept, slope)
        sets = (draw(n, intercept, slope, rng) for _ in range(150))
        errors = np.array([ece(y, p, n_bins, "uniform") for y, p in sets])
        assert 0 < binned < truth + 1e-5
        assert errors.mean() - binned > 4 * errors.std() / sqrt(150)
        for tilt in (1.0, sqrt(n), 4 * sqrt(n)):
            moment = log(np.mean(np.exp(tilt * np.abs(errors - binned))))
            assert moment < n_bins * log(2) + tilt**2 / (2 * n)


@pytest.mark.parametrize("dimension", [1, 5, 50])
def test_equations_18_and_20(dimension):
    """Lipschitz classes: their bound, and its rate log n / n^(1/3) at the best number of bins."""
    ratios = []
    for n in (10**6, 10**9, 10**12):
        values = {}
        for n_bins in np.unique(np.geomspace(2, 10**5, 200).astype(int)):
            nats = dimension * log(3.0 * n_bins**2)  # covers of radius 1 / B^2, constant 3
            options = {"radius": 1 / n_bins, "log_covering_number": nats, "lipschitz": 1.2}
            bound = ece_generalization_bound(n, n_bins, bound="metric_entropy", **options)
            expected = 5.4 / n_bins + sqrt(8 * n_bins * (log(2) + nats) / n)
            assert bound == pytest.approx(expected, rel=1e-12)
            values[n_bins] = bound
        best = min(values, key=values.get)
        ratios.append((values[best] * n ** (1 / 3) / log(n), best / n ** (1 / 3)))
    first, *larger = np.array(ratios)
    assert (larger < 1.01 * first).all() and (larger > 0.3 * first).all()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", [*MODELS.values(), CALIBRATED], ids=[*MODELS, "calibrated"])
def test_the_bound_holds_at_every_size(strategy, model):
    intercept, slope, truth, lipschitz = model
    rng = np.random.RandomState(0)
    for n in (100, 316, 1000, 3162, 10_000, 100_000):
        n_bins = optimal_n_bins(n, lipschitz=lipschitz, strategy=strategy)
        sets = (draw(n, intercept, slope, rng) for _ in range(40 if n < 20_000 else 4))
        gaps = [abs(ece(y, p, n_bins, strategy) - truth) for y, p in sets]
        bound = ece_bias_bound(n, n_bins, strategy=strategy, lipschitz=lipschitz)
        assert np.mean(gaps) < bound
        if strategy == "uniform":  # every draw, as the bound is far above the spread
            assert max(gaps) < bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "n_samples", "n_bins"),
    [("uniform", 60, 30), ("quantile", 60, 30), ("uniform", 1000, 22), ("quantile", 200, 10)],
)
def test_terms_hold_one_by_one(strategy, n_samples, n_bins):
    """Against the binned truth by quadrature, in expectation and with high probability."""
    intercept, slope, truth, lipschitz = MODELS["bad"]
    rng = np.random.RandomState(n_bins)
    gaps = np.empty((10, 3))
    for i in range(len(gaps)):
        y, p = draw(n_samples, intercept, slope, rng)
        edges = np.linspace(0, 1, n_bins + 1)
        if strategy == "quantile":
            ranks = n_samples * np.arange(1, n_bins) // n_bins
            edges = np.concatenate([[0], np.sort(p)[ranks - 1], [1]])
        error, binned = ece(y, p, n_bins, strategy), binned_truth(edges, intercept, slope)
        gaps[i] = abs(error - binned), abs(binned - truth), abs(error - truth)
    arguments = {"strategy": strategy, "lipschitz": lipschitz}
    for column, term in zip(gaps.T, TERMS, strict=True):
        assert column.mean() < bias(n_samples, n_bins, term=term, **arguments)
        high = bias(n_samples, n_bins, term=term, confidence_level=0.9, **arguments)
        assert np.mean(column > high) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_high_probability_where_it_is_hardest(strategy):
    """Labels that are fair coins and forecasts of one half have the largest variance."""
    rng, options = np.random.default_rng(1), {"term": "statistical", "confidence_level": 0.5}
    bound = bias(100, 5, strategy=strategy, **options)
    for centre in (0.5, 0.02):
        errors = []
        for _ in range(250):
            p = centre + 0.01 * rng.uniform(-1, 1, 100)
            errors.append(ece((rng.random(100) < p).astype(int), p, 5, strategy))
        assert np.mean(np.array(errors) <= bound) >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rate_of_the_calibrated_model(strategy):
    """The mean gap at the optimal number of bins falls like n ** (-1/3)."""
    rng = np.random.RandomState(2)
    sizes = np.unique(np.geomspace(100, 100_000, 13).astype(int))

    def mean_gap(n):
        n_bins, n_sets = optimal_n_bins(n, strategy=strategy), max(40, 400_000 // n)
        sets = (draw(n, *CALIBRATED[:2], rng) for _ in range(n_sets))
        return np.mean([ece(y, p, n_bins, strategy) for y, p in sets])

    slope = np.polyfit(np.log(sizes), np.log([mean_gap(n) for n in sizes]), 1)[0]
    assert slope == pytest.approx(-1 / 3, abs=0.03)


@pytest.mark.slow
def test_fewer_bins_than_the_bound_of_equal_width_asks_for_have_smaller_errors():
    """The default of bins of equal width, beside the number with the smallest bound."""
    rng = np.random.RandomState(5)
    for intercept, slope, truth, _ in [*MODELS.values(), CALIBRATED]:
        sets = [draw(1000, intercept, slope, rng) for _ in range(60)]
        default, minimiser = (
            [abs(ece(y, p, n_bins, "uniform") - truth) for y, p in sets]
            for n_bins in ("auto", optimal_n_bins(1000))
        )
        gains = np.subtract(minimiser, default)
        assert gains.mean() > -2 * gains.std() / sqrt(60)
    assert gains.mean() > 4 * gains.std() / sqrt(60)  # where the forecast is calibrated
