"""Tests and comparisons of samples in clusters: identities, refusals, levels and power."""

from functools import partial

import numpy as np
import pytest
from conftest import clustered as clusters_of
from scipy.special import expit, logit
from scipy.stats import t

import skcalib as s
from skcalib.data.notions import Canonical
from skcalib.data.problem import check_problem
from skcalib.errors.kernel import ResidualKernel, resolve_kernel

BINARY = (s.significance.spiegelhalter_test, s.hosmer_lemeshow_test, s.significance.cumulative_test)
LOGISTIC = [
    partial(s.significance.logistic_calibration_test, hypothesis=hypothesis)
    for hypothesis in ("joint", "intercept", "slope")
]
#: Functions of labels, forecasts and two groups.
OF_GROUPS = (s.compare_windows, s.grouping.calibration_curve_equality_test, s.calibration_by_group)
clustered = partial(clusters_of, size=10)


@pytest.mark.parametrize("test", [*BINARY, s.kernel_calibration_test, *LOGISTIC, *OF_GROUPS])
def test_clusters_of_one_sample_and_equal_weights_change_nothing(test):
    y, proba, _ = clustered(20, 0)
    samples = (y, proba, np.arange(len(y)) % 2) if test in OF_GROUPS else (y, proba)
    plain = test(*samples)
    assert test(*samples, groups=np.arange(len(y))[::-1]) == plain
    assert str(test(*samples, sample_weight=np.full(len(y), 4.0))) == str(plain)


@pytest.mark.parametrize("test", BINARY)
@pytest.mark.parametrize("n_resamples", [None, 199])
def test_p_values_are_valid_where_those_of_independent_samples_are_not(test, n_resamples):
    """60 calibrated data sets; .05 rejects at most 7 of them but with probability .01."""
    known_law = test is s.significance.spiegelhalter_test  # a sum: shifts change it little
    options = {"n_resamples": n_resamples or (None if known_law else 99)}
    plain = robust = 0
    for seed in range(60):
        y, proba, cluster = clustered(40, seed)
        plain += test(y, proba).rejects()
        robust += test(y, proba, groups=cluster, **options).rejects()
    y, proba, cluster = clustered(100, 0, temper=2.5)  # too extreme, and too low
    assert test(y, expit(logit(proba) - 0.8), groups=cluster).rejects()
    assert plain > robust and robust <= 7
    assert plain >= 10 or known_law


def test_spiegelhalter_by_hand():
    """Sums of (y - p)(1 - 2 p) over two pairs of clusters, with Student's law of three degrees."""
    y = np.array([1, 0, 1, 0, 0, 1, 0, 1])
    p = np.array([0.2, 0.2, 0.4, 0.4, 0.3, 0.3, 0.6, 0.6])
    cluster = np.repeat([0, 1, 2, 3], 2)
    with pytest.warns(UserWarning, match="groups has only 4 clusters"):
        result = s.significance.spiegelhalter_test(y, p, groups=cluster)
    sums = ((y - p) * (1 - 2 * p)).reshape(4, 2).sum(axis=1)
    assert result.statistic == pytest.approx(sums.sum() / np.sqrt(np.sum(sums**2)))
    assert result.estimate == pytest.approx(sums.sum() / 8)


@pytest.mark.parametrize("test", BINARY[1:])
def test_signs_are_drawn_by_cluster(test):
    """Samples that are repeated in their cluster have the p-value of the distinct ones."""
    y, proba, _ = clustered(20, 3)
    y, proba = y[:100], proba[:100]
    rows = np.repeat(np.arange(100), 4)
    pairs = np.arange(100) // 2  # clusters, so that signs are drawn for the distinct samples too
    options = {"n_resamples": 499, "random_state": 0}
    few = test(y, proba, groups=pairs, **options)
    again = test(y[rows], proba[rows], groups=pairs[rows], **options)
    assert again.pvalue == pytest.approx(few.pvalue)


@pytest.mark.parametrize(("n_clusters", "most_rows"), [(15, None), (10, None), (15, 60), (10, 60)])
def test_the_function_of_clusters_is_the_sum_over_their_samples(n_clusters, most_rows, set_sizes):
    """Of many clusters and of many samples some are drawn."""
    y, proba, cluster = clustered(15, 5)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if most_rows is None else None
    problem = check_problem(y, proba, groups=cluster, sample_weight=weight)
    h = ResidualKernel.of_problem(problem, resolve_kernel(None), Canonical())
    set_sizes(kernel_clusters=n_clusters, **{"paired_samples": most_rows} if most_rows else {})
    function = h.of_clusters(problem.cluster, "auto" if most_rows else "biased")
    rows = np.arange(len(y))
    if n_clusters < 15:
        chosen = np.random.RandomState(0).permutation(15)[:n_clusters]
        rows = np.flatnonzero(np.isin(problem.cluster, chosen))
    if most_rows:
        rows = rows[np.sort(np.random.RandomState(0).choice(len(rows), most_rows, replace=False))]
    drawn = np.unique(problem.cluster[rows])
    member = (problem.cluster[rows, None] == drawn).astype(float)
    scale = len(drawn) / h.weight[rows].sum()
    expected = scale**2 * member.T @ h.take(rows).matrix() @ member
    assert len(function) == len(drawn) == n_clusters
    np.testing.assert_allclose(function.matrix(), expected, rtol=1e-9, atol=1e-12)
    assert function.weight.mean() == pytest.approx(1)
    some = np.array([2, 7, 3])
    np.testing.assert_allclose(function.take(some).matrix(), function.matrix()[np.ix_(some, some)])
    if n_clusters == 15 and most_rows is None:
        options = {"statistic": "biased", "sample_weight": weight}
        biased = s.kernel_calibration_error(y, proba, **options)
        assert function.total() / 15**2 == pytest.approx(biased)


@pytest.mark.parametrize("method", ["spectral", "multipliers", "bootstrap", "embedding"])
def test_methods_of_the_kernel_test_agree_with_clusters(method):
    y, proba, cluster = clustered(60, 6, temper=2.5)
    options, low = {"method": method, "n_resamples": 199}, expit(logit(proba) - 0.8)
    assert s.kernel_calibration_test(y, low, groups=cluster, **options).pvalue <= 0.02
    p = [
        s.kernel_calibration_test(y, proba, groups=cluster, **options).pvalue
        for y, proba, cluster in (clustered(60, seed) for seed in range(8))
    ]
    assert min(p) > 0.005 and np.median(p) > 0.1


def test_laws_of_independent_samples_are_refused():
    y, proba, cluster = clustered(20, 7)
    kernel, metric = s.kernel_calibration_test, s.ks_calibration_error
    for test, options, message in (
        (kernel, {"statistic": "linear"}, "assumes independent samples: use statistic='unbiased'"),
        (kernel, {"statistic": "block", "block_size": 5}, "'asymptotic' assumes independent sampl"),
        (kernel, {"method": "bound"}, "method='bound' assumes independent samples"),
        (s.significance.consistency_test, {"metric": metric}, "draws labels independently"),
        (s.hosmer_lemeshow_test, {"ddof": 2}, "fitted to labels in clusters: use ddof=0"),
        (
            s.significance.logistic_calibration_test,
            {"n_resamples": 9},
            "cannot be drawn: leave out n_resamples",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            test(y, proba, groups=cluster, **options)


def test_improvement_by_hand():
    y = np.resize([1, 0, 1, 1, 0, 0, 1, 0], 480)
    after = np.resize([0.9, 0.4, 0.6, 0.7, 0.2, 0.6, 0.8, 0.1], 480)
    before, cluster = np.full(480, 0.5), np.repeat(np.arange(5), 96)
    y[cluster == 0] = 1 - y[cluster == 0]
    with pytest.warns(UserWarning, match="groups has only 5 clusters"):
        improvement = s.calibration_improvement(y, before, after, groups=cluster, injective=True)
    gain = 0.25 - (after - y) ** 2
    sums = (gain - gain.mean()).reshape(5, 96).sum(axis=1)
    assert improvement.estimate == pytest.approx(gain.mean())
    assert improvement.standard_error == pytest.approx(np.sqrt(np.sum(sums**2) * 5 / 4) / 480)
    assert improvement.high - improvement.estimate == pytest.approx(
        2.776445 * improvement.standard_error
    )


def test_comparison_has_blocks_of_clusters():
    y, proba, cluster = clustered(60, 10)
    comparison = s.compare_calibration(y, proba, proba**3, groups=cluster)
    assert comparison.n_blocks == 60 // 7
    assert comparison.high < 0
    # Blocks are drawn in the order in which clusters appear first, whatever their names.
    assert s.compare_calibration(y, proba, proba**3, groups=-cluster) == comparison
    first = np.unique(cluster, return_index=True)[1]
    rows = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(y)), first))
    rows = np.concatenate([first, rows])
    again = s.compare_calibration(y[rows], proba[rows], proba[rows] ** 3, groups=cluster[rows])
    assert again.estimate == pytest.approx(comparison.estimate)
    with pytest.raises(ValueError, match="12 clusters give 1 of 9: use smaller blocks or more cl"):
        y, proba, cluster = clustered(12, 10)
        s.compare_calibration(y, proba, proba**3, groups=cluster, block_size=9)


@pytest.mark.slow
def test_level_of_the_comparison():
    """Two models that are wrong by as much; 200 data sets, standard error .015."""
    rejected = 0
    for seed in range(200):
        y, proba, cluster = clustered(50, seed)
        odds = logit(proba)
        comparison = s.compare_calibration(y, expit(odds + 0.7), expit(odds - 0.7), groups=cluster)
        rejected += comparison.pvalue <= 0.05
    assert rejected <= 20


def test_intercept_and_slope_of_repeated_samples():
    """As those of the distinct ones."""
    y, proba, _ = clustered(20, 11)
    rows = np.repeat(np.arange(len(y)), 4)
    few = s.calibration_intercept_slope(y, proba)
    again = s.calibration_intercept_slope(y[rows], proba[rows], groups=rows)
    for single, repeated in zip(vars(few).values(), vars(again).values(), strict=True):
        assert (single.low, single.high) == pytest.approx((repeated.low, repeated.high), rel=1e-4)


@pytest.mark.slow
def test_the_intercept_of_clusters_covers():
    held = {"plain": 0, "clusters": 0}
    for seed in range(200):
        y, proba, cluster = clustered(50, seed)
        for name, groups in (("plain", None), ("clusters", cluster)):
            interval = s.calibration_intercept_slope(y, proba, groups=groups).in_the_large
            held[name] += interval.low <= 0 <= interval.high
    assert held["plain"] < 150 and 182 <= held["clusters"] <= 199


def test_summary_has_the_intervals_of_clusters():
    y, proba, cluster = clustered(40, 12)
    plain, robust = s.calibration_summary(y, proba), s.calibration_summary(y, proba, groups=cluster)
    assert f"samples in {len(np.unique(cluster))} clusters, " in str(robust)
    assert plain.n_clusters is None
    longer = ("observed", "observed_expected_ratio", "brier", "log_loss")
    for name in (*longer, "in_the_large", "brier_skill", "auc"):
        independent, of_clusters = (getattr(summary, name) for summary in (plain, robust))
        assert independent.estimate == pytest.approx(of_clusters.estimate)
        if name in longer:
            assert of_clusters.high - of_clusters.low > 1.1 * (independent.high - independent.low)
    error = robust.brier_calibration_error
    estimator = s.CalibrationErrorEstimator().fit(proba, y, groups=cluster)
    assert (error.low, error.high) == pytest.approx(estimator.confidence_interval_)


@pytest.mark.parametrize("hypothesis", ["joint", "intercept"])
def test_the_intercept_of_few_clusters_has_students_law(hypothesis):
    """The sum of a cluster counts as without the cluster itself, of at most half of the samples."""
    y, _, cluster = clustered(12, 0)
    y, cluster = np.append(y, np.arange(100) % 2), np.append(cluster, np.zeros(100, dtype=int))
    share = np.bincount(cluster) / len(y)
    gradient = np.bincount(cluster, y - 0.4) / np.sqrt(len(y) * 0.24)
    units = 1 / np.sum(share**2)
    law = np.sum((gradient / (1 - np.minimum(share, 0.5))) ** 2) * units / (units - 1)
    test = s.significance.logistic_calibration_test(
        y, np.full(len(y), 0.4), hypothesis=hypothesis, groups=cluster
    )
    assert 2 < units < 12 and share.max() > 0.25
    assert test.pvalue == pytest.approx(
        2 * t.sf(np.sqrt(test.statistic / law), units - 1), rel=1e-6
    )
    assert test.estimate == pytest.approx((test.statistic - law) / len(y))
