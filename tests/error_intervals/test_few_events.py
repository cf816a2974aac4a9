"""Intervals where events or wrong predictions are few: exact coverage, and laws of the limits."""

import numpy as np
import pytest
from conftest import pairs
from scipy.special import logit
from scipy.stats import beta, binom, norm

from skcalib import ForecastSketch, calibration_error_interval
from skcalib.error_intervals.proper import FEW_REASON, MarkedLabel, is_few, rarest_label
from skcalib.scores import Brier, LogLoss

N_SAMPLES = 100
#: Metrics and their value for a constant forecast s and a constant probability c.
ERRORS = {
    "brier": lambda c, s: (c - s) ** 2,
    "log": lambda c, s: c * np.log(c / s) + (1 - c) * np.log((1 - c) / (1 - s)),
    "squared_l2": lambda c, s: (c - s) ** 2,
    **dict.fromkeys(("l1", "ece", "l2", "max", "ks", "simplex", "ici"), lambda c, s: abs(c - s)),
}


def interval(y, s, metric, **options):
    options = {"n_resamples": 100, "labels": [0, 1], **options}
    return calibration_error_interval(y, s, metric=metric, **options)


@pytest.mark.parametrize("metric", ERRORS)
@pytest.mark.parametrize("forecast", [0.02, 0.049])
def test_exact_coverage_by_enumeration(metric, forecast):
    """All numbers of events but 3e-5: .95 at least, .9 of samples with at most three events."""
    rate, events = 0.02, np.arange(10)
    covered, chance = [], binom.pmf(events, N_SAMPLES, rate)
    for k in events:
        y = np.arange(N_SAMPLES) < k
        limits = interval(y.astype(int), np.full(N_SAMPLES, forecast), metric)
        covered.append(limits.low - 1e-12 <= ERRORS[metric](rate, forecast) <= limits.high + 1e-12)
        assert limits.conservative and limits.valid and limits.reason == FEW_REASON
    assert chance @ covered >= 0.95
    assert chance[:4] @ covered[:4] / chance[:4].sum() >= 0.9


@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize(("n_events", "forecast"), [(0, 0.2), (3, 0.2), (3, 0.001), (97, 0.5)])
@pytest.mark.parametrize("metric", ERRORS)
def test_limits_of_a_constant_forecast_are_those_of_its_rate(metric, n_events, forecast, level):
    """The errors of the nearest and of the farthest rate that Clopper and Pearson admit."""
    y, s = (np.arange(N_SAMPLES) < n_events).astype(int), np.full(N_SAMPLES, forecast)
    rates = beta.ppf((1 - level) / 2, n_events, 101 - n_events) if n_events else 0.0
    rates = rates, beta.isf((1 - level) / 2, n_events + 1, N_SAMPLES - n_events)
    limits = interval(y, s, metric, confidence_level=level)
    nearest, farthest = ERRORS[metric](np.clip(forecast, *rates), forecast), 0.0
    for rate in rates:
        farthest = max(farthest, ERRORS[metric](max(rate, 1e-300), forecast))
    assert limits.low == pytest.approx(nearest, rel=1e-6, abs=1e-12)
    assert limits.high >= farthest * (1 - 1e-9)
    z = norm.ppf(0.5 + level / 2)
    assert limits.standard_error == pytest.approx((limits.high - limits.low) / (2 * z)) or (
        metric in ("brier", "log")
    )
    if metric in ("brier", "log", "squared_l2", "ks", "ici"):
        assert limits.high < 1.1 * farthest + 0.01


def test_predictions_that_all_came_true_leave_the_share_that_clopper_and_pearson_admit():
    """Forecasts of .2 and .8: a cumulative difference is at least a third of the mean distance."""
    y = np.arange(N_SAMPLES) % 2
    distance = 0.025 ** (1 / N_SAMPLES) - 0.8
    expected = {"l1": distance, "squared_l2": distance**2, "l2": distance, "ks": distance / 3}
    for metric, low in expected.items():
        limits = interval(y, np.where(y == 1, 0.8, 0.2), metric)
        assert limits.low == pytest.approx(low, rel=1e-6) and limits.reason == FEW_REASON


@pytest.mark.parametrize("metric", ["brier", "l1", "l2", "ici", "simplex"])
def test_certain_forecasts_that_came_true(metric):
    """The limits are those of no event, and none are infinite but for the log loss."""
    rate = 1 - 0.025 ** (1 / N_SAMPLES)
    hard = np.arange(N_SAMPLES) % 2
    for y, s in ((np.zeros(N_SAMPLES, dtype=int), np.zeros(N_SAMPLES)), (hard, hard.astype(float))):
        limits = interval(y, s, metric)
        assert limits.low == 0 and limits.reason == FEW_REASON
        assert limits.estimate == 0 or metric == "ici"  # the averaged maps have a prior
        assert limits.high == pytest.approx(ERRORS[metric](rate, 0), rel=0.02)
        assert interval(y, s, "log").high == np.inf


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "n_repetitions"), [("brier", 60), ("squared_l2", 200)])
def test_calibrated_forecasts_seldom_have_a_positive_lower_limit(metric, n_repetitions):
    """Beta(.5, 49.5) forecasts: at most .05 plus two standard errors (.056 and .031)."""
    positive = 0
    for seed in range(n_repetitions):
        rng = np.random.default_rng(seed)
        s = rng.beta(0.5, 49.5, 200)
        limits = interval((rng.random(200) < s).astype(int), s, metric)
        positive += limits.low > 0
    assert positive / n_repetitions <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_repetitions)


def test_wrong_predictions_that_are_few_count_like_events():
    """Three classes at a confidence of .99: none wrong is no evidence, ten of 200 are."""
    top = np.random.default_rng(0).integers(3, size=200)
    s = np.where(np.eye(3)[top] == 1, 0.99, 0.005)
    y = np.r_[(top[:10] + 1) % 3, top[10:]]
    for metric, score in {"brier": Brier(), "log": LogLoss()}.items():
        options = {"metric": metric, "notion": "canonical", "labels": [0, 1, 2]}
        assert interval(top, s, **options).low == 0
        limits = interval(y, s, **options)
        truth = score.divergence(np.array([0.95, 0.025, 0.025]), np.array([0.99, 0.005, 0.005]))
        assert 0 < limits.low < truth < limits.high and limits.reason == FEW_REASON


S120, Y120 = np.linspace(0.02, 0.06, 120), np.zeros(120, dtype=int)
#: Labels, forecasts and options, each with 120 samples without an event.
KINDS = {
    "weights": (Y120, S120, {"sample_weight": np.linspace(0.5, 2, 120)}),
    "clusters": (Y120, S120, {"groups": np.repeat(np.arange(60), 2)}),
    "soft": (np.column_stack([5 - Y120, Y120]), pairs(S120), {"labels": None}),
    "sketch": (ForecastSketch(labels=[0, 1]).fit(Y120, S120), None, {"labels": None}),
    "isotonic": (Y120, S120, {"smoother": "isotonic"}),
    "classwise": (Y120, S120, {"notion": "classwise"}),
}


@pytest.mark.parametrize(("y", "s", "options"), KINDS.values(), ids=KINDS)
def test_limits_of_every_kind_of_samples(y, s, options):
    """None of them sees an event: the error lies between that of no event and zero."""
    limits = interval(y, s, "brier", **options)
    assert limits.reason == FEW_REASON
    assert limits.low < 0.01**2 and limits.high >= np.mean(S120**2) - 1e-6


@pytest.mark.parametrize(("hits", "fewest"), [(0, 0), (1, 5), (3, 7.5), (19, 5)])
def test_the_fewest_labels_are_at_least_half_of_those_seen(hits, fewest):
    """Of 100 labels in 20 rows, where 5 are due."""
    forecasts, classes = np.tile([0.95, 0.05], (20, 1)), np.ones(20, dtype=int)
    marked = MarkedLabel(forecasts, classes, np.arange(20) < hits, np.full(20, 0.05), 100.0)
    assert marked.fewest == pytest.approx(fewest)


def test_marked_labels_are_shifted_to_a_mean():
    """The other classes keep their proportions, and a certain forecast stays."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet([1, 1, 1], 50)
    forecast[0] = [1, 0, 0]
    label = forecast.argmax(axis=1)
    mark, number = rarest_label(forecast, label, np.ones(50))
    assert number == 0 and is_few([number])
    low, high = mark.rates(0.95)
    assert high == 1 and low == pytest.approx(0.025 ** (1 / mark.size))
    rows, others = np.arange(50), (label + 1) % 3
    for rate in (0.0, low, 0.2, 0.9999, 1.0):
        moved = mark.moved(rate)
        assert moved[rows, label].mean() == pytest.approx(rate)
        np.testing.assert_allclose(moved.sum(axis=1), 1)
        third = 3 - label - others
        np.testing.assert_allclose(
            moved[rows[1:], others[1:]] * forecast[rows[1:], third[1:]],
            moved[rows[1:], third[1:]] * forecast[rows[1:], others[1:]],
        )
        if low <= rate < 1 and rate > 0.2:
            assert moved[0].tolist() == [1, 0, 0]
            shift = logit(moved[rows, label][1:]) - logit(mark.chance[1:])
            assert np.ptp(shift) < 1e-6
    assert mark.least(Brier(), mark.means[0]) == 0
    mean = mark.chance.mean()
    expected = Brier().divergence(
        np.array([[0.3, 0.35, 0.35]]), np.array([[mean, (1 - mean) / 2, (1 - mean) / 2]])
    )
    assert mark.least(Brier(), 0.3) == pytest.approx(expected[0])
    assert mark.least(Brier(), 0.3) < mark.error(Brier(), 0.3)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_class_without_labels_among_several(n_classes):
    """The log error may be that of its highest frequency, by Clopper and Pearson."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.full(n_classes - 1, 5.0), 400)
    y = (rng.random((400, 1)) > forecast.cumsum(axis=1)).sum(axis=1)
    forecast = np.column_stack([forecast * (1 - 1e-4), np.full(400, 1e-4)])
    labels = np.arange(n_classes)
    limits = calibration_error_interval(y, forecast, metric="log", labels=labels)
    highest = 1 - 0.025 ** (1 / 400)
    assert limits.low == 0 and limits.high == pytest.approx(ERRORS["log"](highest, 1e-4), rel=0.02)


def test_no_part_of_a_loss_exceeds_the_whole():
    """Labels opposite to the forecasts: the error is nearly the loss."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.6, 1, 300)
    y = (rng.random(300) < 0.1).astype(int)
    for metric in ("brier", "log"):
        limits = interval(y, s, metric)
        assert 0 < limits.low < limits.high
        assert limits.high <= interval(y, s, "upper_bound", loss=metric).high + 1e-12
