"""Two windows: differences with known truth, and the test of equal calibration curves."""

import re
import warnings

import numpy as np
import pytest
from levels import need_level

import skcalib as s
from skcalib.data.notions import Multilabel
from skcalib.stats.means import MeanInterval, difference_interval, interval_pvalue


def windows(seed, n=1500, change=1.0):
    """Labels, forecasts and windows; in the second the labels follow a power of the forecasts."""
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.beta(2, 4, n), rng.beta(4, 2, n)])
    by = np.repeat(["a", "b"], n)
    return rng.random(2 * n) < np.where(by == "a", p, p**change), p, by


def sketches(y, p, by):
    return [s.ForecastSketch([False, True]).fit(y[by == k], p[by == k]) for k in ("a", "b")]


def test_limits_of_a_difference_by_hand_and_its_pvalue():
    first, second = MeanInterval(5.0, 2.0, 9.0, 1.5), MeanInterval(1.0, -2.0, 5.0, 2.0)
    difference = difference_interval(first, second)
    assert (difference.low, difference.high, difference.standard_error) == (-1.0, 9.0, 2.5)
    negative = MeanInterval(-1.0, 0.0, 3.0, 1.0)  # counts as zero
    difference = difference_interval(negative, MeanInterval(4.0, 0.0, 8.0, 1.0), floor=0.0)
    assert (difference.estimate, difference.low, difference.high) == (-5.0, -8.0, 1.0)
    for low in (-0.001, 0.001):
        interval = MeanInterval(1.0, low, 2.0, 0.5)
        below = MeanInterval(-1.0, -2.0, -low, 0.5)  # the same on the other side
        assert (interval_pvalue(interval, 0.95) < 0.05) == (low > 0)
        assert interval_pvalue(below, 0.95) == interval_pvalue(interval, 0.95)
    assert interval_pvalue(MeanInterval(0.0, 0.0, 0.0, 0.0), 0.95) == 1


def test_the_change_is_found_and_sketches_agree():
    y, p, by = windows(0, change=1.4)
    comparison = s.compare_windows(y, p, by)
    sketched = s.compare_calibration(*sketches(y, p, by))
    assert comparison.windows == ("a", "b")
    assert comparison.observed_minus_expected.difference.low > 0
    assert comparison.calibration_error.pvalue < 0.01
    for name in ("calibration_error", "slope", "brier", "observed_minus_expected"):
        counted, from_cells = (
            getattr(record, name).difference for record in (comparison, sketched)
        )
        assert counted.estimate == pytest.approx(
            from_cells.estimate, abs=0.02 * counted.standard_error
        )
    assert len(comparison.to_frame()) == 7
    assert "p = " in str(comparison)
    _, header, *rows = str(comparison).splitlines()
    for end in (match.end() for match in re.finditer(r"first|second|difference", header)):
        assert all(row[end - 1] != " " and row[end : end + 2] in ("", "  ") for row in rows)


@pytest.mark.slow
def test_the_level_of_equal_curves():
    pvalues = [
        s.grouping.calibration_curve_equality_test(*windows(seed, 300)).pvalue for seed in range(40)
    ]
    need_level(pvalues, [0.05], errors=4)
    assert np.mean(pvalues) > 0.3


def test_other_curves_are_found():
    y, p, by = windows(2, change=1.4)
    test = s.grouping.calibration_curve_equality_test(y, p, by)
    assert test.pvalue < 1e-3
    assert test.estimate > 0
    assert s.grouping.calibration_curve_equality_test(*sketches(y, p, by)).pvalue < 1e-3
    y, p, by = windows(0)
    ties = y, p.round(1).clip(0.05, 0.95), by  # a sketch keeps them
    exact, sketched = (
        s.grouping.calibration_curve_equality_test(*x) for x in (ties, sketches(*ties))
    )
    assert sketched.statistic == pytest.approx(exact.statistic, rel=1e-9)
    assert "curves differ" in str(test)
    same = s.grouping.calibration_curve_equality_test(
        np.ones(60, dtype=int), *windows(0, 30)[1:], labels=[0, 1]
    )
    assert (same.estimate, same.pvalue) == (0, 1)


def test_two_models_and_clusters(set_sizes):
    y, p, by = windows(4, 300)
    right = s.grouping.calibration_curve_equality_test(y, p, second=p)
    assert right.pvalue > 0.05
    wrong = s.grouping.calibration_curve_equality_test(y, p, second=p**2)
    assert wrong.pvalue < 0.01
    assert "signs of clusters" in wrong.method  # both rows of a sample are one
    clusters = np.arange(600) % 60
    clustered = s.grouping.calibration_curve_equality_test(y, p, by, groups=clusters)
    assert "signs of clusters" in clustered.method
    set_sizes(drawn_entries=7 * 60)  # seven draws at once
    assert s.grouping.calibration_curve_equality_test(y, p, by, groups=clusters) == clustered
    with pytest.warns(UserWarning, match="6 clusters"):
        assert s.grouping.calibration_curve_equality_test(y, p, by, groups=clusters % 6).pvalue > 0
    message = "5 clusters: the test of equal curves needs at least 6"
    with pytest.warns(UserWarning), pytest.raises(ValueError, match=message):
        s.grouping.calibration_curve_equality_test(y, p, by, groups=clusters % 5)
    with pytest.raises(ValueError, match="60 clusters have samples in both windows"):
        s.compare_windows(y, p, by, groups=clusters)


def test_refusals():
    pd = pytest.importorskip("pandas")
    y, p, by = windows(5, 50)
    equality = s.grouping.calibration_curve_equality_test
    index, apart = np.arange(100) + 7, np.repeat([0.2, 0.8], 4000)
    apart[[0, -1]] = apart[[-1, 0]]  # two samples are no overlap
    score, label = pd.Series(p, index=index, name="p"), pd.Series(y, index=index)
    turned, second = (pd.Series(v, index=index[::-1], name="p") for v in (by, p))
    message, two = "y_proba and by have different indices", (np.c_[y, y], np.c_[p, p])
    for call, words in (
        (lambda: s.compare_windows(y, p), "by is missing"),
        (lambda: s.compare_windows(y, p, np.zeros(100)), "two different values"),
        (lambda: s.compare_windows(*two, by, notion=Multilabel()), "one event, and there are 2"),
        (lambda: s.compare_calibration(sketches(y, p, by)[0], p), "got one sketch"),
        (lambda: s.compare_calibration(y, p), "second is missing"),
        (lambda: equality(y, np.where(by == "a", 0.2, 0.8), by), "do not overlap"),
        (lambda: equality(apart > 0.5, apart, np.repeat(["a", "b"], 4000)), "do not overlap"),
        (lambda: equality(y[:55], p[:55], by[:55]), "at least 10 in each"),
        (lambda: s.compare_windows(y, score, turned), message),
        (lambda: equality(y, score, turned), message),
        (lambda: equality(y, score, second=second), "y_proba and second have different indices"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert s.compare_windows(label, score, pd.Series(by, index=index)).windows == ("a", "b")


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 300])
def test_level_with_few_events(n):
    """2 windows of 10 n and n samples at a rate of .02, calibrated; a standard error of .015."""
    rejected = dict.fromkeys(("observed_minus_expected", "in_the_large", "brier", "log_loss"), 0)
    for seed in range(200):
        rng = np.random.default_rng([seed, n])
        p, by = rng.beta(0.5, 24.5, 11 * n), np.repeat([0, 1], [10 * n, n])
        y = (rng.random(11 * n) < p).astype(int)
        comparison = s.compare_windows(y, p, by, metric="ks", labels=[0, 1])
        for name in rejected:
            change = getattr(comparison, name)
            rejected[name] += change is not None and change.pvalue <= 0.05
        if 0 < y[by == 1].sum() < 15:
            assert comparison.slope is None and "rarer class" in comparison.notes["slope"]
    assert max(rejected.values()) <= 10 + 3.5 * 3.1, rejected


@pytest.mark.parametrize("of_clusters", [False, True])
def test_means_and_their_standard_errors_by_hand(of_clusters):
    """With weights, or of the sums of clusters of unequal size, each in one window."""
    (y, p, by), rows = windows(6, 300), np.arange(600)
    groups = np.cumsum(rows % (5 + rows // 50 % 3) == 0) + 10_000 * (by == "b")
    weight = np.random.default_rng(6).uniform(0.5, 2, 600)
    options = {"groups": groups} if of_clusters else {"sample_weight": weight}
    weight, groups = (np.ones(600), groups) if of_clusters else (weight, np.arange(600))
    comparison = s.compare_windows(y, p, by, **options)
    for name, values in (("observed_minus_expected", y - p), ("brier", (y - p) ** 2)):
        change, means, square = getattr(comparison, name), [], 0.0
        for key in ("a", "b"):
            share, window = weight[by == key] / weight[by == key].sum(), values[by == key]
            codes = np.unique(groups[by == key], return_inverse=True)[1]
            means.append(share @ window)
            size = 1 / np.sum(np.bincount(codes, share) ** 2)
            sums = np.bincount(codes, share * (window - means[-1]))
            square += np.sum(sums**2) * size / (size - 1)
        assert change.first.estimate == pytest.approx(means[0], abs=1e-12)
        assert change.difference.estimate == pytest.approx(means[0] - means[1], abs=1e-12)
        assert change.difference.standard_error == pytest.approx(np.sqrt(square), rel=1e-9)


def test_whole_weights_are_repetitions_in_the_estimates():
    y, p, by = windows(7, 300)
    weight = np.random.default_rng(0).integers(0, 3, 600)
    rows = np.repeat(np.arange(600), weight)
    weighted = s.compare_windows(y, p, by, sample_weight=weight)
    repeated = s.compare_windows(y[rows], p[rows], by[rows])
    for name in ("observed_minus_expected", "in_the_large", "intercept", "slope", "brier"):
        plain, copied = (getattr(record, name).difference for record in (weighted, repeated))
        assert plain.estimate == pytest.approx(copied.estimate, abs=1e-6)
        assert plain.standard_error > copied.standard_error
    assert sum(weighted.n_samples) == (weight > 0).sum()


def test_samples_repeated_within_clusters_are_no_information():
    y, p, by = windows(10, 300, change=1.2)
    rows = np.repeat(np.arange(600), 4)
    repeated = y[rows], p[rows], by[rows]
    calls = ((y, p, by), {}), (repeated, {"groups": rows}), (repeated, {})
    comparisons = [s.compare_windows(*samples, **options) for samples, options in calls]
    for name in ("observed_minus_expected", "slope", "brier", "log_loss"):
        errors = [getattr(comparison, name).difference.standard_error for comparison in comparisons]
        assert errors[1] == pytest.approx(errors[0], rel=0.01)
        assert errors[2] == pytest.approx(errors[0] / 2, rel=0.01)
    equality = s.grouping.calibration_curve_equality_test
    curves = [equality(*samples, **options).pvalue for samples, options in calls]
    assert curves[2] < min(curves[:2]) / 2


def test_weighted_difference_at_two_scores_by_hand():
    rng = np.random.default_rng(12)
    p, by, weight = rng.choice([0.3, 0.7], 400), rng.integers(0, 2, 400), rng.uniform(1, 3, 400)
    y = rng.random(400) < p + 0.1 * by
    total = mass = 0.0
    for score in (0.3, 0.7):
        rows = [(p == score) & (by == k) for k in (0, 1)]
        sums = [weight[window].sum() for window in rows]
        overlap = sums[0] * sums[1] / sum(sums)
        rates = [weight[window] @ y[window] / weight[window].sum() for window in rows]
        total, mass = total + overlap * (rates[0] - rates[1]), mass + overlap
    test = s.grouping.calibration_curve_equality_test(y, p, by, sample_weight=weight)
    assert test.estimate == pytest.approx(total / mass, abs=1e-9)


# --- Exchange of the two samples ------------------------------------------------------------------


def exchanged(kind, options):
    """The results of two samples, or of two models, and of these in the other order."""
    rng = np.random.default_rng(3)
    p = np.concatenate([rng.beta(2, 4, 150), rng.beta(4, 2, 190)])
    y, window = (rng.random(340) < p**1.2).astype(int), np.repeat([0, 1], [150, 190])
    rows = {"groups": rng.integers(0, 60, 340) + 60 * window}
    rows |= {"sample_weight": rng.uniform(0.5, 1.5, 340)}
    options = {name: rows[name] for name in options}
    if kind == "models":
        q = p**0.9
        curves = s.grouping.calibration_curve_equality_test
        for function in (s.compare_calibration, s.calibration_improvement):
            with warnings.catch_warnings(action="ignore"):  # whether the map is injective
                yield function(y, p, q, **options), function(y, q, p, **options)
        yield curves(y, p, second=q, **options), curves(y, q, second=p, **options)
        return
    for function in (s.compare_windows, s.grouping.calibration_curve_equality_test):
        if kind == "sketches":
            first, second = (
                s.ForecastSketch([0, 1]).fit(y[window == k], p[window == k]) for k in (0, 1)
            )
            yield function(first, second), function(second, first)
        else:
            yield function(y, p, window, **options), function(y, p, 1 - window, **options)


def differences(record):
    """The record, or those of each quantity of a comparison of windows."""
    if not hasattr(record, "windows"):
        yield record
        return
    changes = [change for change in vars(record).values() if hasattr(change, "difference")]
    for change in changes:
        yield change.difference
    yield from changes


@pytest.mark.parametrize("options", [(), ("groups",), ("sample_weight",)], ids=str)
@pytest.mark.parametrize("kind", ["windows", "models", "sketches"])
def test_exchanged_samples_change_signs_only(kind, options):
    for plain, turned in exchanged(kind, options):
        pairs = list(zip(differences(plain), differences(turned), strict=True))
        assert pairs
        for record, mirror in pairs:
            for name in {"pvalue", "standard_error", "statistic"} & vars(record).keys():
                assert getattr(record, name) == pytest.approx(getattr(mirror, name), rel=1e-9)
            if hasattr(record, "first"):
                assert (record.first, record.second) == (mirror.second, mirror.first)
            if hasattr(record, "estimate"):
                assert record.estimate == pytest.approx(-mirror.estimate, rel=1e-9, abs=1e-12)
            if hasattr(record, "low"):
                assert (record.low, record.high) == pytest.approx(
                    (-mirror.high, -mirror.low), rel=1e-9
                )
