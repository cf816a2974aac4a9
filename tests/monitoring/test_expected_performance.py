"""Performance expected without labels: by hand, by enumeration of labels, and coverage."""

import re
from functools import partial
from itertools import product

import numpy as np
import pytest
from conftest import follow_a_power, pairs
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skcalib import calibration_error_interval, expected_performance
from skcalib.error_intervals import ErrorInterval
from skcalib.scores import Brier

METRICS = ("accuracy", "brier", "log_loss", "auc")
P = np.array([0.1, 0.3, 0.3, 0.6, 0.9])


def observed(y, p):
    """What the labels give."""
    forecast = pairs(p) if p.ndim == 1 else p
    metrics = {"accuracy": np.mean(forecast.argmax(axis=1) == y)}
    metrics["brier"] = Brier().loss(np.eye(forecast.shape[1])[y], forecast).mean()
    metrics["log_loss"] = -np.log(forecast[np.arange(len(y)), y]).mean()
    if forecast.shape[1] == 2 and 0 < y.sum() < len(y):
        metrics["auc"] = roc_auc_score(y, forecast[:, 1])
    return metrics


def interval(high=0.01, level=0.95, target="E D(C, S), as far as", **changes):
    return ErrorInterval(0.0, 0.0, high, 0.0, level, "m", target, **changes)


def test_two_forecasts_by_hand_and_the_limits_of_many():
    """Limits are normal for many samples, and skewed for rare events."""
    expected = expected_performance([0.2, 0.9])
    assert expected.accuracy.estimate == pytest.approx(0.85, abs=1e-12)
    assert expected.brier.estimate == pytest.approx((0.16 + 0.09) / 2, abs=1e-12)
    # Events first: .9 with .8 of a higher score in order, .2 with .1 against it.
    assert expected.auc.estimate == pytest.approx(0.72 / 0.74, abs=1e-12)
    variance = (0.16 + 0.09) / 4  # of the number of right predictions, over n^2
    assert expected.accuracy.standard_error == pytest.approx(np.sqrt(variance), abs=1e-12)
    z = norm.ppf(0.975)
    many = expected_performance(np.full(4000, 0.4)).accuracy
    assert many.high - many.estimate == pytest.approx(z * many.standard_error, rel=0.01)
    rare = expected_performance(np.full(100, 0.01)).accuracy  # 1 error in 100 is expected
    assert rare.high == pytest.approx(1, abs=2e-3)
    assert rare.low < 0.99 - z * rare.standard_error


@pytest.mark.parametrize("p", [P, np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]])])
def test_moments_by_enumeration_of_all_labels(p):
    chances = pairs(p) if p.ndim == 1 else p
    labels = np.array(list(product(range(chances.shape[1]), repeat=len(p))))
    mass = np.prod(chances[np.arange(len(p)), labels], axis=1)
    assert mass.sum() == pytest.approx(1)
    performance = expected_performance(p)
    for name in METRICS[:3]:
        values = np.array([observed(y, p)[name] for y in labels])
        mean = mass @ values
        interval = getattr(performance, name)
        assert interval.estimate == pytest.approx(mean, abs=1e-12)
        assert interval.standard_error == pytest.approx(
            np.sqrt(mass @ (values - mean) ** 2), abs=1e-12
        )


def test_the_area_by_pairs_and_its_weights():
    rng = np.random.default_rng(0)
    p, weight = np.append(P, P), rng.uniform(0.5, 2, 10)
    up = down = 0.0
    for i in range(10):
        for j in set(range(10)) - {i}:
            pair = weight[i] * weight[j] * p[i] * (1 - p[j])
            up, down = up + pair * ((p[i] > p[j]) + 0.5 * (p[i] == p[j])), down + pair
    auc = expected_performance(p, sample_weight=weight).auc
    assert auc.estimate == pytest.approx(up / down, abs=1e-12)
    # The standard error of many samples is that of drawn labels.
    p = rng.beta(1, 2, 400)
    y, rank = rng.random((2000, 400)) < p, 1 + np.argsort(np.argsort(p))
    events = y.sum(axis=1)
    drawn = (y @ rank - events * (events + 1) / 2) / (events * (400 - events))
    auc = expected_performance(p).auc
    assert auc.standard_error == pytest.approx(np.std(drawn), rel=4 / np.sqrt(4000))
    assert auc.estimate == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(2000))


def test_weights_average_and_certain_forecasts():
    weight = np.array([2, 1, 0, 3, 1])
    performance = expected_performance(P, sample_weight=weight)
    repeated = expected_performance(np.repeat(P, weight))
    assert performance.n_samples == 4
    for name in METRICS[:3]:
        interval, two = getattr(performance, name), getattr(repeated, name)
        assert interval.estimate == pytest.approx(two.estimate, abs=1e-12)
        assert interval.standard_error > two.standard_error  # a weight of 2 is not two labels
    sure = expected_performance([0.0, 0.0, 1.0])
    assert [getattr(sure, name).estimate for name in METRICS] == [1, 0, 0, 1]
    assert sure.accuracy.low == sure.accuracy.high == 1
    assert expected_performance([0.0, 0.0]).auc is None  # no event is possible
    assert expected_performance(np.full((4, 3), 1 / 3)).auc is None


def world(seed, n=400, slope=1.0, *, a=1, b=3):
    rng = np.random.default_rng(seed)
    p = np.clip(rng.beta(a, b, n), 1e-6, 1 - 1e-6)
    return (rng.random(n) < expit(slope * logit(p))).astype(int), p


def tempered(seed):
    rng = np.random.default_rng(seed)
    return follow_a_power(500, rng, power=1 / 1.5, n_classes=4)


@pytest.mark.parametrize(("y", "p"), [world(0, slope=0.6), tempered(0)])
def test_the_same_forecasts_give_what_their_labels_gave(y, p):
    adjusted = expected_performance(p, labelled=(y, p)).adjusted
    for name, value in observed(y, p).items():
        assert adjusted[name].estimate == pytest.approx(value, abs=1e-10)


def test_weights_labels_and_order_of_the_labelled_window():
    (y, p), new = world(3, slope=0.7), world(4)[1]
    weight = np.random.default_rng(0).integers(0, 3, 400)
    rows = np.repeat(np.arange(400), weight)
    performance = expected_performance(new, labelled=(y, p, weight))
    repeated = expected_performance(new, labelled=(y[rows], p[rows]))
    assert performance.n_labelled == (weight > 0).sum()
    labelled = np.where(y, "a", "b"), pairs(p), weight
    mirrored = expected_performance(pairs(new), labelled=labelled, labels=["b", "a"])
    turned = expected_performance(new[::-1], labelled=(y[::-1], p[::-1], weight[::-1]))
    for name in METRICS:
        estimate = performance.adjusted[name].estimate
        # The area leaves out pairs of a sample with itself, but not with its repetition.
        tolerance = 1e-3 if name == "auc" else 1e-5
        assert repeated.adjusted[name].estimate == pytest.approx(estimate, abs=tolerance)
        for same in (mirrored, turned):
            assert same.adjusted[name].estimate == pytest.approx(estimate, abs=1e-9)
            assert same.adjusted[name].low == pytest.approx(
                performance.adjusted[name].low, abs=1e-9
            )


def test_standard_errors_are_those_of_flipped_labels():
    """Each label times its effect on the estimate, by flips; the next window is much longer."""
    y, p = world(8, 50, slope=0.6, a=2, b=2)
    new, x = np.tile(p, 40), logit(p)[:, None]
    chance = LogisticRegression(C=np.inf, tol=1e-10).fit(x, y).predict_proba(x)[:, 1]
    plain = expected_performance(new, labelled=(y, p)).adjusted
    effects = {name: [] for name in METRICS}
    for k in range(50):
        flipped = np.where(np.arange(50) == k, 1 - y, y)
        adjusted = expected_performance(new, labelled=(flipped, p)).adjusted
        for name, effect in effects.items():
            effect.append((adjusted[name].estimate - plain[name].estimate) / (1 - 2 * y[k]))
    for name, effect in effects.items():
        terms = (y - chance) * effect
        error = np.sqrt(np.sum((terms - terms.mean()) ** 2) * 50 / 49)
        assert plain[name].standard_error == pytest.approx(error, rel=0.12), name


def test_over_confident_and_small_windows():
    y, p = world(5, 100)
    p = np.append(p, [0.0, 1.0])
    wrong = expected_performance(p, labelled=(np.append(y, [1, 1]), p))  # the forecast 0 was wrong
    assert set(wrong.adjusted) == {"accuracy", "brier", "auc"}
    none = expected_performance(p, labelled=(np.zeros(102, dtype=int), p / 2), labels=[0, 1])
    assert set(none.adjusted) == {"accuracy", "brier", "log_loss"}
    assert none.auc is not None
    assert all(
        np.isfinite([interval.low, interval.high]).all() for interval in none.adjusted.values()
    )
    y, p = world(1, 2000, slope=0.5)
    performance = expected_performance(world(2, 1000)[1], labelled=(y, p))
    for name, sign in (("accuracy", 1), ("auc", 1), ("brier", -1), ("log_loss", -1)):
        assert (
            sign * (getattr(performance, name).estimate - performance.adjusted[name].estimate)
            > 0.01
        )
        assert performance.adjusted[name].standard_error > getattr(performance, name).standard_error


def test_the_text_and_the_table_say_what_is_not_seen():
    text = str(expected_performance(P, labelled=world(6)))
    for words in ("Not visible without labels: a change of P(Y | X)", "if calibrated", "if as the"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100
    assert "within the error interval" in str(expected_performance(P, error_interval=interval()))
    assert "if as" not in str(expected_performance(P))
    frame = expected_performance(np.full((4, 3), 1 / 3)).to_frame().set_index("metric")
    assert list(frame.index) == list(METRICS) and frame.loc["auc"].isna().all()
    assert frame.loc["brier", "expected"] == pytest.approx(2 / 3)


def test_the_error_interval_by_hand():
    performance = expected_performance(np.full(50, 0.3), error_interval=interval(0.01))
    tail = norm.ppf(1 - 0.025 / 2)  # half of 5 % is that of the upper limit of the error
    sizes = {"accuracy": 1.0, "brier": 0.4, "log_loss": abs(logit(0.3))}
    assert performance.adjusted.keys() == sizes.keys()
    for name, size in sizes.items():
        adjusted, expected = performance.adjusted[name], getattr(performance, name)
        assert adjusted.estimate == expected.estimate
        reach = (adjusted.high - adjusted.low) / 2 - tail * adjusted.standard_error
        assert reach == pytest.approx(0.1 * size, abs=0.005)
        assert (adjusted.high + adjusted.low) / 2 == pytest.approx(expected.estimate, abs=0.01)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_change_of_this_size_leaves_the_bound(n_classes):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(n_classes, 5.0), 300)
    changed = rng.dirichlet(np.full(n_classes, 5.0), 300)
    changed = changed if n_classes > 2 else np.where(p > 0.5, 0.9 * p, p + 0.1 * (1 - p))
    error = Brier().divergence(changed, p).mean()
    performance = expected_performance(p, error_interval=interval(error))
    right = {"accuracy": changed[np.arange(300), p.argmax(axis=1)].mean()}
    right["brier"] = Brier().loss(changed, p).mean()
    right["log_loss"] = -np.sum(changed * np.log(p), axis=1).mean()
    for name, value in right.items():
        limits = performance.adjusted[name]
        assert limits.low <= value <= limits.high
        assert abs(value - limits.estimate) > 0.1 * (
            limits.high - limits.estimate
        )  # a change that matters


Y, Q = world(7, 40)
REFUSALS = {
    "y_proba of labelled has 2 columns, and y_proba has 1": {"labelled": (Y, pairs(Q))},
    "has 9 samples of positive weight: at least 10": {"labelled": (Y[:9], Q[:9])},
    "same number of samples": {"labelled": (Y, Q[:9])},
    "not both": {"labelled": (Y, Q), "error_interval": interval()},
    "labels and pos_label belong to labelled": {"pos_label": 1},
    "its target is the binned error": {"error_interval": interval(target="the binned error")},
    "is not valid, as it is not": {"error_interval": interval(valid=False, reason="it is not")},
    "has the level 0.9, which is too low": {"error_interval": interval(level=0.9)},
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        expected_performance(Q, **REFUSALS[message])


#: The labelled window and the next one, by a seed each.
WORLDS = {
    "calibrated": [partial(world, n=500)] * 2,
    "slope": [partial(world, n=500, slope=1 / 1.4)] * 2,
    "other forecasts": [  # the error of the map matters: without it .81
        partial(world, slope=1 / 1.4),
        partial(world, n=2000, slope=1 / 1.4, a=4, b=2),
    ],
    "four classes": [tempered] * 2,
}


def windows(name, seed):
    return [draw(seed + k * 10**6) for k, draw in enumerate(WORLDS[name])]


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_coverage(name):
    """200 seeds: intervals of 95 %, each metric within four standard errors (.06) of .95."""
    hits: dict[str, list] = {}
    for seed in range(200):
        old, (y, p) = windows(name, seed)
        performance = expected_performance(p, labelled=old)
        for metric, value in observed(y, p).items():
            interval = performance.adjusted[metric]
            hits.setdefault(metric, []).append(interval.low <= value <= interval.high)
            if name == "calibrated":
                unadjusted = getattr(performance, metric)
                hits.setdefault(f"own {metric}", []).append(
                    unadjusted.low <= value <= unadjusted.high
                )
    coverage = {metric: np.mean(values) for metric, values in hits.items()}
    assert all(abs(value - 0.95) <= 0.06 for value in coverage.values()), coverage


@pytest.mark.slow
def test_coverage_within_the_error_interval_and_what_is_not_seen():
    """The error interval is conservative; after a change of P(Y | S) nothing is covered."""
    inside, blind = [], []
    for seed in range(100):
        (y_old, old), (y, p) = windows("slope", seed)
        error = calibration_error_interval(y_old, old)
        performance = expected_performance(p, error_interval=error).adjusted
        truth = observed(y, p)
        inside.append([performance[m].low <= truth[m] <= performance[m].high for m in METRICS[:3]])
        y_before, before = world(seed, 500)
        interval = expected_performance(p, labelled=(y_before, before)).adjusted["brier"]
        blind.append(interval.low <= truth["brier"] <= interval.high)
    assert np.mean(inside, axis=0).min() >= 0.95
    assert np.mean(blind) < 0.5
