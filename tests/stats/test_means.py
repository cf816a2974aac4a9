"""Intervals of means, rates, ratios and concordances against their formulas, and their coverage."""

import numpy as np
import pytest
from conftest import pairs
from scipy.special import expit, logit
from scipy.stats import beta, binom, binomtest, norm, t, ttest_1samp
from sklearn.metrics import roc_auc_score

from skcalib.scores import Brier
from skcalib.stats.means import (
    MeanInterval,
    between_forecasts,
    clopper_pearson,
    concordance_interval,
    difference_interval,
    few_label_limits,
    first_within_one_standard_error,
    has_few_labels,
    impossible_labels,
    interval_pvalue,
    mean_difference,
    mean_interval,
    mean_loss_interval,
    observed_expected_ratio,
    rate_interval,
    refutation,
    uncertain_labels,
)


def sums_of(values, cluster):
    """Sums over clusters, one by one."""
    return np.array([values[cluster == g].sum() for g in np.unique(cluster)])


def size_of(weight):
    return weight.sum() ** 2 / np.sum(weight**2)


def limits(interval):
    return interval.low, interval.high


def test_agrees_with_students_interval_and_edges():
    values = np.random.default_rng(0).normal(size=20)
    expected = ttest_1samp(values, 0).confidence_interval(0.9)
    interval = mean_interval(values, confidence_level=0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    for values, low, high in (
        ([2.0], -np.inf, np.inf), ([np.inf, 1.0], np.inf, np.inf), ([1.0, 1.0], 1.0, 1.0),
    ):  # fmt: skip
        computed = mean_interval(values)
        assert (computed.low, computed.high) == (low, high)


def test_standard_error_of_a_weighted_mean():
    """sqrt(sum (w r)^2 m / (m - 1)) / sum w, with sums over clusters, or squares of merged rows."""
    for kind in ("clusters", "weights", "squares"):
        rng = np.random.default_rng(0)
        values, weight, rows = rng.normal(size=30), rng.uniform(0.1, 2, 30), {}
        residual = weight * (values - np.average(values, weights=weight))
        units = weight
        if kind == "clusters":
            rows["cluster"] = np.arange(30) // 4
            residual, units = (sums_of(array, rows["cluster"]) for array in (residual, weight))
        m = size_of(units)
        if kind == "squares":
            rows["square"] = weight**2 / 3
            residual, m = residual / np.sqrt(3), 3 * m
        error = np.sqrt(np.sum(residual**2) * m / (m - 1)) / weight.sum()
        interval = mean_interval(values, weight, 0.8, **rows)
        assert interval.standard_error == pytest.approx(error, rel=1e-12)
        middle = np.average(values, weights=weight)
        expected = middle + np.array([-1, 1]) * t.ppf(0.9, m - 1) * error
        assert limits(interval) == pytest.approx(expected, rel=1e-12)
        moved = mean_interval(values, weight, 0.8, estimate=7.0, **rows)
        assert limits(moved) == pytest.approx(expected + 7.0 - middle, rel=1e-12)


@pytest.mark.parametrize("hits", [0, 1, 7, 29, 30])
def test_rates_are_those_of_scipy(hits):
    label = np.arange(30) < hits
    for level in (0.9, 0.95):
        exact = binomtest(hits, 30).proportion_ci(level, method="exact")
        interval = rate_interval(label, confidence_level=level)
        assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high))
        assert interval.standard_error > 0
    tiny = clopper_pearson(np.array([1e-300, 1 - 1e-16]), np.array([2.5, 2.5]), 0.95)
    assert np.isfinite(tiny).all()


def test_infinite_losses_are_compared_in_pairs():
    """Equal infinite losses cancel; the rule chooses the simplest candidate if all are infinite."""
    losses = np.array([[np.inf, 1.0, 2.0], [np.inf, 2.0, 3.0], [0.0, np.inf, 2.0]])
    assert mean_difference(losses[1], losses[0]).estimate == pytest.approx(2 / 3)
    assert mean_difference(losses[2], losses[0]).low == -np.inf
    assert first_within_one_standard_error(losses)[:2] == (0, 0)
    losses = np.random.default_rng(0).normal(size=(3, 50)) + [[2.0], [0.1], [0.0]]
    first, best, intervals = first_within_one_standard_error(losses, np.arange(1.0, 51))
    assert (first, best) == (1, 2) and intervals[2].estimate == intervals[2].standard_error == 0
    assert intervals[0] == mean_difference(losses[0], losses[2], np.arange(1.0, 51))
    assert intervals[1] == mean_interval(losses[1] - losses[2], np.arange(1.0, 51), 0.95)


@pytest.mark.parametrize("clustered", [True, False])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_rates_and_ratios_are_exact_at_the_effective_size(clustered, level):
    """Clopper-Pearson of the mean label at Kish's or Korn and Graubard's size, over the mean p."""
    rng = np.random.default_rng(1)
    label, p, weight = rng.random(60) < 0.2, rng.uniform(0.1, 0.4, 60), rng.uniform(0.5, 2, 60)
    label |= np.arange(60) % 20 < 5  # clusters of events only
    cluster = np.repeat(np.arange(12), 5) if clustered else None
    rate, expected = np.average(label, weights=weight), np.average(p, weights=weight)
    ratio = observed_expected_ratio(label, p, weight, level, cluster=cluster)
    plain = rate_interval(label, weight, level, cluster=cluster)
    for interval, scale, residual in (
        (plain, 1.0, label - rate), (ratio, expected, label - p * rate / expected),
    ):  # fmt: skip
        m = size_of(weight)
        if clustered:
            units = size_of(sums_of(weight, cluster))
            squares = np.sum(sums_of(weight * residual / weight.sum(), cluster) ** 2)
            variance = squares * units / (units - 1)
            factor = t.ppf(0.5 + level / 2, m - 1) / t.ppf(0.5 + level / 2, units - 1)
            assert rate * (1 - rate) / variance * factor**2 < m
            m = rate * (1 - rate) / variance * factor**2
        low = beta.ppf((1 - level) / 2, rate * m, (1 - rate) * m + 1) / scale
        high = beta.ppf((1 + level) / 2, rate * m + 1, (1 - rate) * m) / scale
        assert (interval.estimate, *limits(interval)) == pytest.approx(
            (rate / scale, low, high), rel=1e-10
        )
        error = (high - low) / 2 / norm.ppf(0.5 + level / 2)
        assert interval.standard_error == pytest.approx(error, rel=1e-10)
    if clustered:  # labels that are all equal: the number of clusters
        none = rate_interval(np.zeros(60), None, level, cluster=cluster)
        assert limits(none) == pytest.approx((0, 1 - ((1 - level) / 2) ** (1 / 12)), rel=1e-9)
        merged = rate_interval(label, weight, level, weight**2)
        assert limits(merged) == limits(rate_interval(label, weight, level))


@pytest.mark.slow
def test_ratio_covers_at_least_its_level_whatever_the_spread_of_the_risks():
    """1,000 draws, standard error .007; the risks spread, so that the interval is conservative."""
    rng = np.random.default_rng(0)
    for concentration in (0.3, 3.0, 300.0):
        risk = rng.beta(concentration, 9 * concentration, 60)
        forecast = np.minimum(2 * risk + 0.01, 1)
        truth = risk.sum() / forecast.sum()
        held = 0
        for _ in range(1000):
            interval = observed_expected_ratio(rng.random(60) < risk, forecast)
            held += interval.low <= truth <= interval.high
        assert held >= 0.935 * 1000


def test_ratio_at_the_edges():
    # Equal risks have exactly the level of the binomial; the true rate is .1.
    held = [observed_expected_ratio(np.arange(40) < hits, np.full(40, 0.2)) for hits in range(41)]
    inside = [interval.low <= 0.5 <= interval.high for interval in held]
    assert binom.pmf(np.arange(41), 40, 0.1) @ inside >= 0.95
    none = observed_expected_ratio([0] * 10, [0.1] * 10)
    assert none.estimate == none.low == 0 and 0 < none.high < np.inf
    every = observed_expected_ratio([1] * 10, [0.5] * 10)
    assert every.estimate == every.high == 2 and 1 < every.low < 2
    single = observed_expected_ratio([1], [0.5])
    assert 0 < single.low < single.estimate == single.high == 2
    weighted = observed_expected_ratio([1, 0], [0.5, 0.5], [1.0, 1e-300])
    assert np.isfinite([weighted.low, weighted.high, weighted.standard_error]).all()
    for forecast in ([0.0, 0.0], [5e-324, 5e-324]):
        with pytest.raises(ValueError, match="ratio of observed to expected events does not exist"):
            observed_expected_ratio([0, 1], forecast)


def test_concordance_is_that_of_scikit_learn_with_ties_and_weights():
    """Its standard error is DeLong's, with structural components written out over all pairs."""
    rng = np.random.default_rng(0)
    label, score = rng.integers(0, 2, 80), rng.integers(0, 6, 80) / 5
    weight = rng.uniform(0.1, 3, 80)
    for weights in (weight, None):
        interval = concordance_interval(label, score, weights)
        assert interval.estimate == pytest.approx(
            roc_auc_score(label, score, sample_weight=weights)
        )
        turned = concordance_interval(1 - label, 1 - score, weights)
        assert turned.estimate == pytest.approx(interval.estimate)
        assert turned.standard_error == pytest.approx(interval.standard_error)
    pairs = score[label == 1][:, None] - score[label == 0][None, :]
    psi = (pairs > 0) + 0.5 * (pairs == 0)
    variance = sum(np.var(psi.mean(axis=a), ddof=1) / psi.shape[1 - a] for a in (0, 1))
    assert interval.standard_error == pytest.approx(np.sqrt(variance))


def test_concordance_has_limits_on_the_logit_scale():
    """With 40 and more of each class; deviations of clusters are added (Obuchowski)."""
    for clustered in (False, True):
        rng = np.random.default_rng(2)
        label, weight = np.arange(200) % 3 == 0, rng.uniform(0.5, 1, 200)
        score, cluster = rng.normal(size=200) + label, np.arange(200) // 2
        interval = concordance_interval(
            label, score, weight, 0.9, cluster=cluster if clustered else None
        )
        above = (score[:, None] > score) & (label[:, None] > label)
        influence, variance = np.zeros(200), 0.0
        for members, ranked in ((label, above), (~label, above.T)):
            others = weight * ~members
            place = ranked @ others / others.sum()
            share = np.where(members, weight, 0.0) / weight[members].sum()
            influence[members] = (share * (place - share @ place))[members]
            m = size_of(weight[members])
            variance += np.sum(influence[members] ** 2) * m / (m - 1)
        z = norm.ppf(0.95)
        if clustered:
            m = size_of(sums_of(weight, cluster))
            variance = np.sum(sums_of(influence, cluster) ** 2) * m / (m - 1)
            z = t.ppf(0.95, m - 1)
        assert interval.standard_error == pytest.approx(np.sqrt(variance), rel=1e-10)
        area = interval.estimate
        reach = z * np.sqrt(variance) / area / (1 - area)
        expected = expit(logit(area) + np.array([-reach, reach]))
        assert limits(interval) == pytest.approx(expected, rel=1e-10)


def test_concordance_of_few_events_solves_newcombes_equation():
    """|theta - area| is z times the standard error at theta, where this reaches further."""
    level, z = 0.9, norm.ppf(0.95)
    for label, score in (([0] * 10 + [1] * 5, np.arange(15)), ([0] * 9 + [1, 0], np.arange(11))):
        interval = concordance_interval(label, score, None, level)
        area, n = interval.estimate, np.bincount(label)
        assert area in (1.0, 0.9)
        for theta in {*limits(interval)} - {1.0}:
            many = (n.sum() - 2) / 2
            spread = 1 + many * (1 - theta) / (2 - theta) + many * theta / (1 + theta)
            variance = theta * (1 - theta) * spread / n.prod()
            assert abs(theta - area) == pytest.approx(z * np.sqrt(variance), rel=1e-6)
        length = (interval.high - interval.low) / 2 / z
        assert interval.standard_error == pytest.approx(length, rel=1e-9) or area < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "n_samples", "n_events"),
    [(0.0, 60, 12), (1.5, 60, 12), (2.5, 300, 60), (1.5, 500, 2), (1.5, 500, 5), (2.7, 500, 10)],
)
def test_concordance_is_covered(shift, n_samples, n_events):
    """300 draws, standard error .013; DeLong's interval alone holds .65 for two events."""
    rng = np.random.default_rng(n_samples)
    truth, held = norm.cdf(shift / np.sqrt(2)), 0
    for _ in range(300):
        label = np.arange(n_samples) < n_events
        interval = concordance_interval(label, rng.normal(shift * label))
        held += interval.low <= truth <= interval.high
    assert held >= 0.91 * 300
    assert held <= 0.99 * 300 or n_events < 12


def test_concordance_of_separated_classes_has_a_lower_limit():
    for sign, end in ((1, 1.0), (-1, 0.0)):
        interval = concordance_interval([0] * 10 + [1] * 5, sign * np.arange(15))
        assert interval.estimate == end
        assert 0 <= interval.low < interval.high <= 1 and interval.standard_error > 0
    few = concordance_interval([0] * 10 + [1] * 5, np.arange(15))
    many = concordance_interval([0] * 100 + [1] * 50, np.arange(150))
    assert few.low < many.low < 1
    single = concordance_interval([0, 1], [0.2, 0.4])
    assert 0 < single.low < 0.5 and single.high == 1
    with pytest.raises(ValueError, match="all labels are of one class"):
        concordance_interval([1, 1], [0.2, 0.4])


def test_differences_and_their_pvalues():
    """Variance estimates recovered from limits (Zou and Donner), and the normal tail of a limit."""
    first, second = MeanInterval(0.5, 0.2, 0.9, 0.3), MeanInterval(0.1, -0.1, 0.2, 0.4)
    interval = difference_interval(first, second)
    expected = 0.4, 0.4 - np.hypot(0.3, 0.1), 0.4 + np.hypot(0.4, 0.2), 0.5
    assert (interval.estimate, *limits(interval), interval.standard_error) == pytest.approx(
        expected
    )
    outside = MeanInterval(0.1, 0.2, 0.2, 0.0)  # limits beyond the estimate count as the estimate
    interval = difference_interval(outside, MeanInterval(0.0, 0.0, 0.0, 0.0))
    assert limits(interval) == pytest.approx((0.1, 0.2))
    interval = difference_interval(MeanInterval(0.0, 0.0, 0.0, 0.0), outside)
    assert limits(interval) == pytest.approx((-0.2, -0.1))
    floored = difference_interval(MeanInterval(-1.0, 0.0, 0.5, 0.1), second, floor=0.0)
    assert floored.estimate == pytest.approx(-1.1)
    assert limits(floored) == pytest.approx((-1.1, -0.1 + np.hypot(0.5, 0.2)))
    for estimate, low, high in ((0.3, 0.1, 0.7), (-0.3, -0.7, -0.1), (1.0, 0.8, 2.0)):
        reach = 0.2
        z = norm.ppf(0.95) * abs(estimate) / reach
        pvalue = interval_pvalue(MeanInterval(estimate, low, high, 1.0), 0.9)
        assert pvalue == pytest.approx(2 * norm.sf(z), rel=1e-9)
    assert 0 < interval_pvalue(MeanInterval(0.3, 0.3, 0.4, 0.1), 0.9) < 1e-300
    assert interval_pvalue(MeanInterval(0.3, -np.inf, 0.4, 0.1), 0.9) == 1


def test_labels_that_forecasts_leave_uncertain():
    """(sum w v)^2 / sum w^2 v with v = (1 - |S|^2) / 2, and the number of the rarer kind."""
    p, weight = np.array([0.5, 0.1, 0.9, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    v = p * (1 - p)
    expected = (weight @ v) ** 2 / (weight**2 @ v)
    for scale in (1.0, 1e200):
        assert uncertain_labels(pairs(p), scale * weight) == pytest.approx(expected)
    merged = uncertain_labels(pairs(p), weight, weight**2 / 2)
    assert merged == pytest.approx(2 * expected)
    assert uncertain_labels(np.eye(2), np.ones(2)) == 0
    for n_events, few in ((39, True), (41, False), (959, False), (961, True)):
        label, even = (np.arange(1000) < n_events).astype(float), np.full(1000, 0.5)
        assert has_few_labels(pairs(even), pairs(label), np.full(1000, 2.0)) == few
        assert not has_few_labels(pairs(even), pairs(label), even, even**2 / 30)
    assert has_few_labels(np.full((1000, 2), [0.97, 0.03]), pairs(label), np.ones(1000))
    three, wrong = np.full((1000, 3), [0.5, 0.3, 0.2]), np.eye(3)[(np.arange(1000) < 40) * 1]
    assert not has_few_labels(three, wrong, np.ones(1000))
    assert has_few_labels(three, wrong, (np.arange(1000) > 1) * 1.0)
    forecast, target = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), np.eye(2)[[0, 0, 1]]
    assert impossible_labels(forecast, target).tolist() == [True, False, False]
    event, no_event = "an event where the forecast said 0", "no event where the forecast said 1"
    assert refutation(forecast, target) == f"refuted by {no_event}"
    assert refutation(forecast, 1 - target) == f"refuted by {event}"
    assert refutation(forecast[:2], target[[0, 2]]) == f"refuted by {no_event} and {event}"
    assert refutation(forecast[2:], target[2:]) == ""
    never = np.array([[0.0, 0.5, 0.5]])
    assert refutation(never, np.eye(3)[[0]]).endswith("a label where the forecast said 0")


def test_between_forecasts_is_halfway_in_log_odds():
    first, second = pairs(np.array([0.2, 0.0, 1.0])), pairs(np.array([0.9, 0.0, 0.0]))
    between = between_forecasts(first, second)[:, 1]
    halfway = expit((logit(0.2) + logit(0.9)) / 2)
    assert between == pytest.approx([halfway, 0.0, 0.5])


@pytest.mark.parametrize("kind", ["clusters", "plain", "squares"])
def test_limits_with_few_events_are_those_of_the_score_test(kind):
    """At either limit of the tilt t the squared score is its variance at t times Student's."""
    rng = np.random.default_rng(3)
    n = 60
    p, weight = np.append(rng.uniform(0.02, 0.5, n - 2), [0.0, 1.0]), rng.uniform(0.5, 2, n)
    cluster = np.arange(n) // 3 if kind == "clusters" else None
    label = (np.arange(n) % 7 == 0) * 1.0
    label[-2:] = 0.0, 1.0
    if kind == "clusters":
        label = label[np.arange(n) // 3 * 3]  # the same in a cluster
    fixed, gain = rng.uniform(0, 1, n), rng.normal(size=n)
    gain = gain if cluster is None else gain[cluster]
    rows = {"square": weight**2 / 2} if kind == "squares" else {"cluster": cluster}
    mean, tilt = few_label_limits(p, label, fixed + label * gain, gain, weight, 0.9, 0.3, **rows)
    share = weight / weight.sum()
    square = share**2 / (2 if kind == "squares" else 1)
    units = size_of(sums_of(weight, cluster)) if kind == "clusters" else 1 / square.sum()
    reach, fixed = t.ppf(0.95, units - 1), fixed + label * gain
    gain = np.where((p > 0) & (p < 1), gain, 0.0)
    fixed, unit, x = fixed - label * gain, np.abs(gain).max(), logit(p.clip(1e-9, 1 - 1e-9))

    def score(at):
        return share * gain * (label - expit(x + at * gain / unit))

    def variance(at):
        q = expit(x + at * gain / unit)
        return square @ (gain**2 * q * (1 - q))

    assert score(tilt.estimate).sum() == pytest.approx(0, abs=1e-9)
    factor = reach**2
    if kind == "clusters":
        robust = np.sum(sums_of(score(tilt.estimate), cluster) ** 2) * units / (units - 1)
        factor *= max(1.0, robust / variance(tilt.estimate))
        assert factor > 1.2 * reach**2
    for end, sign in zip(limits(tilt), (1, -1), strict=True):
        assert score(end).sum() == pytest.approx(sign * np.sqrt(factor * variance(end)), rel=1e-6)
    assert tilt.standard_error == pytest.approx((tilt.high - tilt.low) / 2 / reach, rel=1e-9)
    loss = fixed + expit(x + tilt.estimate * gain / unit) * gain
    variation = reach**2 * (square @ (loss - share @ loss) ** 2)
    down, up = (np.hypot(score(end).sum(), np.sqrt(variation)) for end in limits(tilt))
    assert limits(mean) == pytest.approx((0.3 - down, 0.3 + up), rel=1e-8)
    assert mean.estimate == 0.3
    assert mean.standard_error == pytest.approx((down + up) / 2 / reach, rel=1e-8)
    two = few_label_limits(p[:2], label[:2], fixed[:2], gain[:2], np.ones(2), 0.9, 0.3)[0]
    length = (two.high - two.low) / 2 / t.ppf(0.95, 1)  # at least one degree of freedom
    assert two.standard_error == pytest.approx(length, rel=1e-9)


def test_mean_losses_with_few_events_take_these_limits():
    """What an event adds to the loss; for two classes within the least and the largest loss."""
    p, label = np.array([0.4, 0.3, 0.9, 0.6]), np.array([0.0, 1.0, 1.0, 0.0])
    weight = np.array([1.0, 2.0, 1.0, 1.0])
    forecast, target = pairs(p), pairs(label)

    def loss(labels):
        return Brier().loss(labels, forecast)

    interval = mean_loss_interval(loss, forecast, target, 0.999, weight=weight)
    losses = (label - p) ** 2
    middle = np.average(losses, weights=weight)
    tail = p, label, losses, (1 - p) ** 2 - p**2, weight, 0.999, middle
    expected, _ = few_label_limits(*tail)
    least, most = (np.average(end, weights=weight) for end in np.sort([(1 - p) ** 2, p**2], axis=0))
    assert expected.low < least and expected.high > most
    assert limits(interval) == pytest.approx((least, most))
    assert interval.standard_error == pytest.approx(expected.standard_error)
    p, label = np.tile(p, 10), np.tile(label, 10)
    forecast, target, weight = pairs(p), pairs(label), np.tile(weight, 10)
    interval = mean_loss_interval(loss, forecast, target, 0.9, weight=weight)
    tail = p, label, (label - p) ** 2, (1 - p) ** 2 - p**2, weight, 0.9, middle
    assert limits(interval) == pytest.approx(limits(few_label_limits(*tail)[0]))
    forecast = np.random.default_rng(0).dirichlet([3.0, 1, 1], 50)
    target, weight = np.eye(3)[np.arange(50) % 3], np.ones(50)
    interval = mean_loss_interval(loss, forecast, target, 0.9, weight=weight)
    top = np.eye(3)[forecast.argmax(axis=1)]
    wrong, losses = 1 - forecast.max(axis=1), loss(target)
    gain = (loss(forecast) - loss(top)) / wrong
    missed = 1 - np.sum(top * target, axis=1)
    expected, _ = few_label_limits(wrong, missed, losses, gain, weight, 0.9, losses.mean())
    assert limits(interval) == pytest.approx(limits(expected))
    forecast, target = np.repeat(forecast, 20, axis=0), np.repeat(target, 20, axis=0)
    weight = np.ones(1000)
    assert mean_loss_interval(loss, forecast, target, weight=weight) == mean_interval(loss(target))
