"""Intervals of samples in clusters: identities, refusals, and coverage."""

import numpy as np
import pandas as pd
import pytest
from conftest import clustered
from scipy.stats import t as student

from skcalib import calibration_error_interval
from skcalib.data.clusters import independent_size, inflation
from skcalib.error_intervals.interval import METRICS
from skcalib.kernels import GaussianKernel
from skcalib.stats import means


def test_the_factor_of_a_variance_around_a_mean():
    assert [inflation(size) for size in (2, 5, 1)] == [2, 1.25, 1]


@pytest.mark.parametrize("metric", METRICS)
def test_clusters_widen(metric):
    """The design effect of the mean loss is about 5 here."""
    y, proba, cluster = clustered(40, 0)

    def interval(groups):
        extra = {"locations": [[0.3, 0.7], [0.6, 0.4]]} if metric == "embedding" else {}
        if metric == "max" or metric.endswith(("l1", "l2")):
            extra = {"n_bins": 8}  # by default there are fewer with clusters
        options = {"n_resamples": 39 if metric == "ici" else 100, "groups": groups, **extra}
        return calibration_error_interval(y, proba, metric=metric, **options)

    plain, robust = (interval(groups) for groups in (None, cluster))
    if metric in ("brier", "log", "ici", "debiased_l2", "squared_l2", "kernel"):
        assert robust.estimate < plain.estimate  # without products within clusters
    elif metric != "simplex":  # of which there are fewer cells
        assert robust.estimate == pytest.approx(plain.estimate, rel=1e-12)
    assert robust.high - robust.low > 1.05 * (plain.high - plain.low)


@pytest.mark.parametrize("method", ["jackknife", "subsampling", "bootstrap"])
def test_parts_are_of_whole_clusters(method):
    """A cluster of one sample repeated k times carries one label, whatever the metric."""
    y, proba, _ = clustered(60, 1)
    y, proba = y[:60], proba[:60]
    cluster = np.repeat(np.arange(60), 10)

    def mean_label(y_true, y_proba):
        return np.mean(y_true)

    few, repeated = (
        calibration_error_interval(
            y[rows], proba[rows], metric=mean_label, method=method, groups=groups
        )
        for rows, groups in (
            (slice(None), None),
            (cluster, cluster),
        )
    )
    assert repeated.standard_error == pytest.approx(few.standard_error)
    assert (repeated.low, repeated.high) == pytest.approx((few.low, few.high))


SOME = ["upper_bound", "root_brier_score", "squared_l2", "l1", "embedding"]


@pytest.mark.parametrize("metric", SOME)
def test_a_sample_that_is_repeated_in_its_cluster_counts_once(metric):
    """The exact interval of the distinct samples, which have more than one in each bin."""
    y, proba, _ = clustered(40, 2)
    y, proba = y[:200], np.round(proba[:200], 1)
    cluster = np.repeat(np.arange(200), 3)
    edges = {"n_bins": [0, 0.3, 0.6, 1], "notion": "canonical"} if metric[0] in "sl" else {}
    if metric == "embedding":
        edges = {"locations": [[0.3, 0.7], [0.6, 0.4]], "kernel": GaussianKernel(0.5)}
    few = calibration_error_interval(y, proba, metric=metric, **edges)
    again = calibration_error_interval(
        y[cluster], proba[cluster], metric=metric, groups=cluster, **edges
    )
    # The cumulants of few clusters leave out products of a cluster with itself: near, not equal.
    assert again.low == pytest.approx(few.low, rel=0.03, abs=3e-3)
    assert again.high == pytest.approx(few.high, rel=0.03)
    if metric == "embedding":
        assert again.standard_error == pytest.approx(few.standard_error, rel=1e-9)


def test_any_labels_of_clusters_in_any_order():
    y, proba, cluster = clustered(30, 3)
    names = np.array([f"patient {k}" for k in range(30)])[cluster]
    mixed = [("site", int(k)) if k % 2 else int(k) for k in cluster]
    mixed_array = np.empty(len(mixed), dtype=object)
    mixed_array[:] = mixed
    rows = np.random.default_rng(0).permutation(len(y))
    intervals = [
        calibration_error_interval(y, proba, groups=groups)
        for groups in (cluster, names, names.tolist(), pd.Series(names), mixed_array, cluster * 0.5)
    ]
    intervals.append(calibration_error_interval(y[rows], proba[rows], groups=names[rows]))
    for interval in intervals[1:]:
        assert (interval.low, interval.high) == pytest.approx(
            (intervals[0].low, intervals[0].high), rel=1e-6
        )


def test_samples_without_weight_do_not_count():
    y, proba, cluster = clustered(30, 4)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[cluster < 10] = 0

    def interval(metric, rows):
        options = {"groups": cluster[rows], "sample_weight": weight[rows]}
        return calibration_error_interval(y[rows], proba[rows], metric=metric, **options)

    for metric in ("upper_bound", "brier", "l1", "kernel"):
        assert interval(metric, slice(None)) == interval(metric, weight > 0)


def test_few_clusters_warn_once_at_the_line_of_the_caller():
    y, proba, cluster = clustered(6, 5)
    with pytest.warns(UserWarning) as said:
        calibration_error_interval(y, proba, metric="upper_bound", groups=cluster)
    assert [str(warning.message) for warning in said] == [
        "groups has only 6 clusters: standard errors from so few are unreliable, and intervals are "
        "usually too short. Use at least ten, preferably forty."
    ]
    assert said[0].filename == __file__
    y, proba, cluster = clustered(10, 5)  # enough: a warning would be an error here
    calibration_error_interval(y, proba, metric="upper_bound", groups=cluster)
    for options in ({"statistic": "linear"}, {"statistic": "block", "block_size": 5}):
        with pytest.raises(ValueError, match="use statistic='unbiased' with groups"):
            calibration_error_interval(y, proba, metric="kernel", groups=cluster, **options)


def test_mean_by_hand():
    """Sums (-3, 1, 2) around the mean 3 of six values in three clusters of two."""
    interval = means.mean_interval(
        [1.0, 2.0, 3.0, 4.0, 3.0, 5.0], cluster=np.array([0, 0, 1, 1, 2, 2])
    )
    assert interval.estimate == pytest.approx(3.0, rel=1e-15, abs=0)
    assert interval.standard_error == pytest.approx(np.sqrt((9 + 1 + 4) / 36 * 3 / 2))
    assert interval.high - 3 == pytest.approx(4.302653 * interval.standard_error, rel=1e-6)
    y, p, cluster = clustered(12, 0)
    loss = (y - p) ** 2
    sums = np.bincount(cluster, loss - loss.mean())
    size = len(y) ** 2 / np.sum(np.bincount(cluster) ** 2.0)
    error = np.sqrt(np.sum(sums**2) * size / (size - 1)) / len(y)
    interval = calibration_error_interval(y, p, metric="upper_bound", groups=cluster)
    assert (interval.estimate, interval.standard_error) == pytest.approx((loss.mean(), error))
    reach = student.ppf(0.975, size - 1) * error
    assert interval.high == pytest.approx(loss.mean() + reach, rel=1e-9)
    for cluster, expected in (([0, 0, 1, 1, 2, 2], 3), ([0, 0, 0, 0, 1, 1], 36 / 20)):
        assert independent_size(np.ones(6), cluster=np.array(cluster)) == expected


def test_rate_and_concordance_of_repeated_samples_are_those_of_the_distinct_ones():
    """Up to the factor m / (m - 1) of the variance, which a binomial has not."""
    y = (np.arange(60) % 3 == 0).astype(float)
    cluster = np.repeat(np.arange(60), 8)
    distinct, again = (
        means.rate_interval(y),
        means.rate_interval(y[cluster], cluster=cluster),
    )
    assert (again.low, again.high) == pytest.approx((distinct.low, distinct.high), abs=0.006)
    assert again.low <= distinct.low < distinct.high <= again.high
    independent = means.rate_interval(y[cluster])
    assert again.high - again.low > 2 * (independent.high - independent.low)
    nothing = means.rate_interval(np.zeros(480), cluster=cluster)
    assert nothing.high == pytest.approx(means.rate_interval(np.zeros(60)).high)
    for weight in np.random.default_rng(0).random((50, 480)):  # the mean of ones is 1 or just below
        none, all_ = (means.rate_interval(np.full(480, label), weight, cluster=cluster)
                      for label in (0.0, 1.0))  # fmt: skip
        assert all_.low == pytest.approx(1 - none.high)
    score = np.random.default_rng(0).random(60)
    distinct = means.concordance_interval(y, score)
    again = means.concordance_interval(y[cluster], score[cluster], cluster=cluster)
    assert again.estimate == pytest.approx(distinct.estimate)
    assert again.standard_error == pytest.approx(distinct.standard_error, rel=0.02)


@pytest.mark.slow
def test_rates_and_ratios_cover():
    """400 data sets of 40 clusters; the standard error of a share of .95 is .011."""
    held = np.zeros(3)
    for seed in range(400):
        y, proba, cluster = clustered(40, seed)
        rate, plain = means.rate_interval(y, cluster=cluster), means.rate_interval(y)
        ratio = means.observed_expected_ratio(y, proba, cluster=cluster)
        truths = (rate, 0.5), (ratio, 1), (plain, 0.5)  # the rates by symmetry
        held += [interval.low <= truth <= interval.high for interval, truth in truths]
    assert held[2] < 0.65 * 400
    assert np.all((held[:2] >= 0.92 * 400) & (held[:2] <= 0.984 * 400))


@pytest.mark.slow
@pytest.mark.parametrize(("n_clusters", "n_sets"), [(50, 250), (200, 400)])
def test_coverage_of_the_mean_loss(n_clusters, n_sets):
    """The standard error of a share of .95 is .014 for 250 data sets, .011 for 400."""
    y, proba, _ = clustered(20_000, 10**6)
    truth = np.mean((y - proba) ** 2)
    held = np.zeros(2)
    for seed in range(n_sets):
        y, proba, cluster = clustered(n_clusters, seed)
        for robust, groups in enumerate((None, cluster)):
            interval = calibration_error_interval(y, proba, metric="upper_bound", groups=groups)
            held[robust] += interval.low <= truth <= interval.high
    assert held[0] <= 0.8 * n_sets and 0.92 * n_sets <= held[1] <= 0.98 * n_sets


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["squared_l2", "brier", "ks"])
def test_coverage_of_calibrated_forecasts(metric):
    """The error is zero, so an interval misses it where its lower limit is positive; 100 sets."""
    options, missed = {"metric": metric, "notion": "canonical", "n_resamples": 100}, np.zeros(2)
    for seed in range(100):
        y, proba, cluster = clustered(50, seed)
        for robust, groups in enumerate((None, cluster)):
            interval = calibration_error_interval(y, proba, groups=groups, **options)
            missed[robust] += interval.low > 0
    assert missed[0] > 20 and missed[1] <= 11
