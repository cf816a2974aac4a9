"""Calibration intercept and slope, and the integrated calibration index."""

import numpy as np
import pytest
from conftest import on_a_line as draw
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import t
from sklearn.linear_model import LogisticRegression

from skcalib import calibration_intercept_slope, integrated_calibration_index
from skcalib.datasets import make_tempered_simplex
from skcalib.links.averaging import ModelAverage
from skcalib.scores import TotalVariation
from skcalib.smoothers import DirichletKernel, LevelSets


def test_estimates_are_those_of_logistic_regression():
    """Standard errors agree with the inverse information, as the model is right here."""
    y, p = draw(20_000, 0.3, 0.7)
    result = calibration_intercept_slope(y, p, confidence_level=0.9)
    x = logit(p)
    peer = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(x[:, None], y)
    assert result.slope.estimate == pytest.approx(peer.coef_[0, 0], abs=1e-6)
    assert result.intercept.estimate == pytest.approx(peer.intercept_[0], abs=1e-6)
    root = brentq(lambda a: np.mean(y - expit(a + x)), -5, 5, xtol=1e-14)
    assert result.in_the_large.estimate == pytest.approx(root, abs=1e-8)
    fitted, columns = peer.predict_proba(x[:, None])[:, 1], np.column_stack([np.ones(len(p)), x])
    information = (columns.T * (fitted * (1 - fitted))) @ columns
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    standard_errors = [result.intercept.standard_error, result.slope.standard_error]
    np.testing.assert_allclose(standard_errors, expected, rtol=0.03)
    for interval in (result.in_the_large, result.intercept, result.slope):
        limits = interval.estimate + 1.645 * interval.standard_error * np.array([-1, 1])
        np.testing.assert_allclose([interval.low, interval.high], limits, rtol=1e-3)


@pytest.mark.parametrize("kind", ["clusters", "few events", "weights"])
def test_standard_errors_are_robust(kind):
    """The sandwich, of clusters by their sums; with few events at least that of the model."""
    y, p = draw(400)
    if kind == "few events":
        p = expit(logit(p) - 4)
        y = np.arange(400) % 50 == 0
    weight = np.random.default_rng(0).exponential(size=400) ** (kind == "weights")
    groups = np.arange(400) // 4 if kind == "clusters" else None
    result = calibration_intercept_slope(
        y, p, sample_weight=weight, confidence_level=0.8, groups=groups
    )
    x, b = logit(p), (result.intercept.estimate, result.slope.estimate)
    models = {
        "in_the_large": (np.ones((400, 1)), expit(result.in_the_large.estimate + x)),
        "slope": (np.column_stack([np.ones(400), x]), expit(b[0] + b[1] * x)),
        "intercept": (np.column_stack([x, np.ones(400)]), expit(b[0] + b[1] * x)),
    }
    for name, (columns, q) in models.items():
        interval = getattr(result, name)
        np.testing.assert_allclose((weight * (y - q)) @ columns, 0, atol=1e-4)
        bread = np.linalg.inv((columns.T * (weight * q * (1 - q))) @ columns)
        terms = columns * (weight * (y - q))[:, None]
        masses = weight
        if groups is not None:
            terms, masses = (
                np.add.reduceat(array, np.arange(0, 400, 4)) for array in (terms, weight)
            )
        m = masses.sum() ** 2 / np.sum(masses**2)
        meat, freedom = terms.T @ terms, m - columns.shape[1]
        variance = (bread @ meat @ bread)[-1, -1]
        if kind == "few events":
            variance = max(variance, bread[-1, -1])
        error = np.sqrt(variance * m / freedom)
        assert interval.standard_error == pytest.approx(error, rel=1e-4), name
        reach = t.ppf(0.9, freedom) * error
        limits = interval.estimate - reach, interval.estimate + reach
        assert (interval.low, interval.high) == pytest.approx(limits, rel=1e-4, abs=1e-5)


@pytest.mark.slow
def test_coverage_with_unequal_weights():
    """The covariance of the unweighted likelihood would be too small by half."""
    hits, rng = [], np.random.default_rng(0)
    for seed in range(400):
        y, p = draw(400, seed=seed)
        result = calibration_intercept_slope(y, p, sample_weight=rng.exponential(size=400) ** 2)
        pairs = (result.in_the_large, 0), (result.slope, 1)
        hits.append([interval.low <= truth <= interval.high for interval, truth in pairs])
    assert np.all(np.abs(np.mean(hits, axis=0) - 0.95) < 0.035)


@pytest.mark.slow
@pytest.mark.parametrize("n_events", [1, 2, 5])
def test_coverage_with_few_events(n_events):
    """Before, the interval of the slope covered 1 in 13, 62 and 90 % of the samples."""
    hits = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x = rng.normal(-7, 1.2, size=500)
        y = np.zeros(500, dtype=int)
        y[rng.choice(500, n_events, replace=False, p=np.exp(x) / np.exp(x).sum())] = 1
        if x[y == 1].min() < x[y == 0].max():
            slope = calibration_intercept_slope(y, expit(x)).slope
            hits.append(slope.low <= 1 <= slope.high)
    assert np.mean(hits) > 0.95 - 2 * np.sqrt(0.05 * 0.95 / 150)


def test_few_effective_samples():
    """Three samples with nearly all of the weight say little."""
    for seed in range(20):
        y, p = draw(300, seed=seed)
        few = np.r_[np.flatnonzero(y == 1)[:2], np.flatnonzero(y == 0)[:1]]
        weight = np.full(300, 1e-6)
        weight[few] = 1.0
        slope = calibration_intercept_slope(y, p, sample_weight=weight).slope
        assert slope.low < 1 < slope.high


def test_weights_average():
    y, p = draw(300)
    weight = np.random.default_rng(1).integers(0, 4, 300)
    result = calibration_intercept_slope(y, p, sample_weight=weight)
    repeated = calibration_intercept_slope(np.repeat(y, weight), np.repeat(p, weight))
    for name in ("in_the_large", "intercept", "slope"):
        weighted, two = (getattr(r, name) for r in (result, repeated))
        assert weighted.estimate == pytest.approx(two.estimate, rel=1e-6)
        assert weighted.standard_error > 1.1 * two.standard_error  # repetitions are no new samples


def test_few_samples_and_certain_forecasts():
    """Two effective samples have no interval; certain forecasts that came true do not count."""
    enough = calibration_intercept_slope([0, 1, 1, 1], [0.5, 1.0, 0.7, 0.2])
    result = calibration_intercept_slope([0, 1, 0], [0.3, 0.2, 0.1], sample_weight=[1, 1e-10, 1])
    assert result.slope.low == -np.inf and result.slope.high == np.inf
    assert np.isfinite([enough.slope.estimate, result.slope.estimate]).all()
    y, p = draw(100)
    same = calibration_intercept_slope(np.append(y, [0, 1, 1]), np.append(p, [0.0, 1.0, 1.0]))
    assert same == calibration_intercept_slope(y, p)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 100.0])
def test_logits_of_any_size(scale):
    y, p = draw(300)
    x = scale * logit(p)
    proba = np.column_stack([expit(-x), expit(x)])
    proba[expit(x) > 0.5, 1] = 1 - proba[expit(x) > 0.5, 0]
    slope = calibration_intercept_slope(y, p).slope.estimate
    if scale == 100:  # logits up to 300 on one side only: 1 - p is exact for p near 0
        low = p < 0.5
        y, x, proba = y[low], x[low], proba[low]
        slope = calibration_intercept_slope(y, p[low]).slope.estimate
    result = calibration_intercept_slope(y, proba)
    assert result.slope.estimate == pytest.approx(slope / scale, rel=1e-4)
    assert np.isfinite(result.in_the_large.estimate)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([1, 1, 1], [0.2, 0.5, 0.7], "of one class"),
        ([1], [0.7], "of one class"),
        ([0, 1, 1], [0.0, 0.7, 0.2], "all labels of forecasts other than 0 and 1 are of one"),
        ([0, 1, 1], [0.3, 0.3, 0.3], "equal"),
        ([0, 0, 1], [0.1, 0.3, 0.3], "separate the two classes"),
        ([1, 1, 0], [0.1, 0.2, 0.3], "separate the two classes"),
    ],
)
def test_no_finite_maximum(y, p, message):
    with pytest.raises(ValueError, match=f"no finite estimate: .*{message}"):
        calibration_intercept_slope(y, p, labels=[0, 1])


def test_index_is_the_mean_distance(binary):
    y, proba = binary
    conditional = ModelAverage().fit(proba, np.eye(2)[y], np.ones(len(y))).averaged
    ranked = np.sort(np.abs(conditional - proba)[:, 1])
    for forecast in (proba, proba[:, 1]):
        assert integrated_calibration_index(y, forecast) == pytest.approx(ranked.mean())
    for level, rank in ((0, 1), (0.5, 60), (0.9, 108), (0.901, 109), (1, 120)):
        value = integrated_calibration_index(y, proba, quantile=level)
        assert value == pytest.approx(ranked[rank - 1], rel=1e-12)


def test_index_with_weights(binary):
    """Level sets of repeated rows keep their means."""
    y, proba = binary
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    positive = weight > 0
    levels = LevelSets().fit(proba[positive], np.eye(2)[y[positive]], weight[positive])
    distance = np.abs(levels.smooth_held_out() - proba[positive])[:, 1]
    arguments = {"smoother": LevelSets(), "sample_weight": weight}
    index = integrated_calibration_index(y, proba, **arguments)
    assert index == pytest.approx(np.average(distance, weights=weight[positive]))
    repeated = np.sort(np.repeat(distance, weight[positive]))
    for level in (0.25, 0.5, 0.9, 1.0):
        value = integrated_calibration_index(y, proba, quantile=level, **arguments)
        rank = int(np.ceil(level * len(repeated) - 1e-9))
        assert value == pytest.approx(repeated[rank - 1], rel=1e-12)


@pytest.mark.slow
def test_index_finds_the_truth():
    """Over 20 data sets; a kernel is biased by its noise. Small for calibrated forecasts."""
    default, kernel, truth, nothing = [], [], [], []
    for seed in range(20):
        sample = make_tempered_simplex(1000, random_state=seed)
        default.append(integrated_calibration_index(sample.y, sample.y_proba))
        smoother = DirichletKernel(0.01)
        kernel.append(integrated_calibration_index(sample.y, sample.y_proba, smoother=smoother))
        truth.append(TotalVariation().divergence(sample.posterior, sample.y_proba).mean())
        sample = make_tempered_simplex(2000, score_temperature=1, random_state=seed)
        nothing.append(integrated_calibration_index(sample.y, sample.y_proba))
    assert np.mean(default) == pytest.approx(np.mean(truth), rel=0.1)
    assert np.mean(kernel) == pytest.approx(np.mean(truth), rel=0.25)
    assert min(nothing) > 0 and np.mean(nothing) < 0.02
