"""`calibration_by_group`: groups that the user names, against known truths."""

import dataclasses
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest
from conftest import clustered
from numpy.testing import assert_allclose
from scipy.stats import norm

from skcalib import ForecastSketch, calibration_by_group, calibration_error_interval
from skcalib.data.notions import Multilabel
from skcalib.datasets import make_tempered_simplex
from skcalib.grouping.by_group import shrink, take_groups
from skcalib.stats.means import observed_expected_ratio


def world(n_samples=4000, effects=(0.0, 0.1, -0.05), seed=0):
    """Uniform scores, and groups in which the event is more or less frequent."""
    rng = np.random.default_rng(seed)
    group = rng.integers(len(effects), size=n_samples)
    p = rng.uniform(0.15, 0.6, n_samples)
    return (rng.random(n_samples) < p + np.array(effects)[group]).astype(int), p, group


def test_numbers_of_a_group():
    y, p, group = world()
    weight = np.random.default_rng(1).exponential(size=len(y))
    by_group = calibration_by_group(y, p, group, sample_weight=weight)
    assert [record.name for record in by_group.groups] == ["0", "1", "2"]
    assert [record.detected for record in by_group.groups] == [False, True, True]
    assert not by_group.overlapping
    for k, record in enumerate(by_group.groups):
        here = group == k
        mean, rate = (np.average(a[here], weights=weight[here]) for a in (p, y))
        alone = observed_expected_ratio(y[here], p[here], weight[here], 0.95 ** (1 / 3))
        low, high = (mean * end - mean for end in (alone.low, alone.high))
        ratio, difference = record.ratio, record.difference
        numbers = record.mean_predicted, record.observed, record.share, record.n_samples
        share = weight[here].sum() / weight.sum()
        assert numbers == pytest.approx((mean, rate, share, here.sum()))
        assert (ratio.estimate, ratio.low) == pytest.approx((rate / mean, alone.low))
        assert (ratio.high, difference.estimate) == pytest.approx((alone.high, rate - mean))
        assert (difference.low, difference.high) == pytest.approx((low, high))
        equal, reach = record.equal_scores, norm.isf((1 - 0.95 ** (1 / 3)) / 2)
        reach *= equal.standard_error
        ends = equal.estimate - reach, equal.estimate + reach
        assert (equal.low, equal.high) == pytest.approx(ends, rel=1e-9)
        error = calibration_error_interval(
            y[here], p[here], metric="brier", sample_weight=weight[here]
        )
        limits = error.low, error.estimate, error.high
        assert (record.error.low, record.error.estimate, record.error.high) == pytest.approx(limits)


def test_miscalibration_for_everybody_is_no_difference_at_equal_scores():
    y, p, group = world(8000, effects=(0.0, 0.0, 0.0))
    by_group = calibration_by_group(y, p**2, group)
    assert {(r.detected, r.equal_scores_detected) for r in by_group.groups} == {(True, False)}
    y, p, group = world(8000, effects=(-0.08, 0.08))
    lower, higher = calibration_by_group(y, p, group).groups
    assert lower.equal_scores_detected and higher.equal_scores_detected
    assert lower.equal_scores.low < -0.08 < lower.equal_scores.high
    assert lower.error.low < 0.0064 < lower.error.high


@pytest.mark.slow
def test_all_intervals_hold_at_once():
    """30 data sets of 8 groups: at least .95, and a standard error of .04."""
    effects, held = np.linspace(-0.1, 0.1, 8), {"difference": [], "equal_scores": []}
    for seed in range(30):
        groups = calibration_by_group(*world(1600, effects, seed)).groups
        for kind, covered in held.items():
            pairs = zip((getattr(record, kind) for record in groups), effects, strict=True)
            covered.append(all(record.low <= effect <= record.high for record, effect in pairs))
    assert min(np.mean(covered) for covered in held.values()) >= 0.95 - 0.08


@pytest.mark.slow
def test_false_discoveries_of_groups_that_overlap():
    """50 groups of calibrated forecasts: hardly ever is one found; standard error .044."""
    wrong = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 3, 2000)
        y = (rng.random(2000) < p).astype(int)
        features = rng.normal(size=(2000, 10))
        by = {f"{j}, {k}": features[:, j] > cut for j in range(10)
              for k, cut in enumerate((-1, -0.5, 0, 0.5, 1))}  # fmt: skip
        by_group = calibration_by_group(y, p, by)
        assert by_group.overlapping
        wrong.append(
            any(record.detected or record.equal_scores_detected for record in by_group.groups)
        )
    assert np.mean(wrong) <= 0.05


def test_groups_of_any_form():
    """Columns of numbers, times and intersections are in test_named_groups.py."""
    y, p, group = world(600)
    names = np.array(["a", "b", "c"])[group]
    plain = calibration_by_group(y, p, names)
    assert "observed - predicted" in str(plain)
    masks = {name: names == name for name in "abc"}
    for same in (list(names), pd.Series(pd.Categorical(names)), masks):
        assert calibration_by_group(y, p, same) == plain
    by_group = calibration_by_group(y, p, pd.DataFrame({"site": names, "old": group > 0}))
    columns = ["site = a", "site = b", "site = c", "old = False", "old = True"]
    assert by_group.to_frame()["name"].tolist() == columns


def test_a_difference_is_at_least_minus_one():
    """One group has events only, the other none."""
    p, group = np.random.default_rng(0).uniform(0.4, 0.6, 60), (np.arange(60) >= 12).astype(int)
    interval = calibration_by_group(group, p, group, confidence_level=0.9999).groups[0].equal_scores
    assert interval.low == -1 < interval.high < -0.2


def test_several_classes():
    sample = make_tempered_simplex(3000, 3, random_state=0)
    group = np.random.default_rng(0).integers(2, size=3000)
    top = calibration_by_group(sample.y, sample.y_proba, group)
    right = (sample.y_proba.argmax(axis=1) == sample.y).astype(int)
    by_hand = calibration_by_group(right, sample.y_proba.max(axis=1), group)
    for record, expected in zip(top.groups, by_hand.groups, strict=True):
        assert record.difference.estimate == pytest.approx(expected.difference.estimate)
        assert record.event == ""
    classwise = calibration_by_group(sample.y, sample.y_proba, group, notion="classwise")
    assert len(classwise.groups) == 6 and classwise.groups[2].event == "class 1"
    assert classwise.groups[2].observed == pytest.approx(np.mean(sample.y[group == 0] == 1))
    both = calibration_by_group(right, sample.y_proba.max(axis=1), group, notion="classwise")
    assert [record.event for record in both.groups] == ["class 0", "class 0", "class 1", "class 1"]


def test_shrunken_differences_by_hand():
    """The noise of a group is that of a rate with half an event more of each kind."""
    rng = np.random.default_rng(0)
    group, p = np.repeat(["a", "b", "c"], [40, 80, 400]), rng.random(520)
    y = (rng.random(520) < np.clip(p + 0.1 * (group == "a"), 0, 1)).astype(int)
    records = calibration_by_group(y, p, group).groups
    estimates = np.array([record.difference.estimate for record in records])
    n = np.array([record.n_samples for record in records])
    rate = (np.array([record.observed for record in records]) * n + 0.5) / (n + 1)
    expected = shrink(estimates, rate * (1 - rate) / n)
    assert_allclose([record.shrunk for record in records], expected, rtol=1e-12)
    assert abs(expected - estimates).max() > 0.005


def test_shrunken_differences_are_nearer_to_the_truth():
    rng = np.random.default_rng(0)
    truth, variance = rng.normal(0.02, 0.05, 200), rng.uniform(0.001, 0.01, 200)
    noisy = truth + np.sqrt(variance) * rng.normal(size=200)
    assert np.mean((shrink(noisy, variance) - truth) ** 2) < 0.5 * np.mean((noisy - truth) ** 2)
    for n_equal in (1, 5):  # a single group, and equal ones, stay as they are
        assert_allclose(shrink(np.full(n_equal, 0.1), np.full(n_equal, 0.01)), 0.1)


def test_hard_groups():
    p = np.array([0.0, 0.4, 0.3, 0.5, 0.5, 1e-300, 1 - 1e-16, 0.2])
    y = np.array([1, 1, 0, 1, 1, 0, 1, 1])
    by_group = calibration_by_group(y, p, list("aabbccdd"))
    for record in by_group.groups:
        for interval in (record.difference, record.ratio):
            assert interval.low <= interval.estimate <= interval.high
        assert 0 <= record.pvalue <= 1 and np.isfinite(record.shrunk)
        assert record.equal_scores is None and record.error is None
    assert by_group.groups[0].pvalue < 1e-5  # impossible labels
    alone = calibration_by_group([1, 1], [0.5, 0.6], ["a", "a"], labels=[0, 1])
    assert alone.groups[0].observed == 1


def test_groups_of_some_of_the_samples():
    by, rows = np.array(list("abcab")), np.array([1, 4])
    assert take_groups(by, rows, 5).tolist() == ["b", "b"]
    assert take_groups({"a": by == "a"}, rows - 1, 5)["a"].tolist() == [True, True]
    with pytest.raises(ValueError, match="by must have the group of each of the 6 samples, got 5"):
        take_groups(by, rows, 6)


@pytest.mark.parametrize(("notion", "weighted"), [("auto", 0), ("auto", 1), ("classwise", 0)])
def test_a_sketch_with_groups(notion, weighted):
    """The numbers of the samples, up to the folds and the width of the cells."""
    y, p, group = world(4000)
    if notion == "classwise":
        sample = make_tempered_simplex(4000, 3, random_state=0)
        y, p = sample.y, sample.y_proba
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    sketch = ForecastSketch(labels=np.unique(y), notion=notion)
    sketch.partial_fit(y, p, by=group, sample_weight=weight)
    of_sketch = calibration_by_group(sketch, notion=notion).groups
    of_samples = calibration_by_group(y, p, group, notion=notion, sample_weight=weight).groups
    for sketched, exact in zip(of_sketch, of_samples, strict=True):
        same = attrgetter("name", "event", "n_samples", "detected")
        assert same(sketched) == same(exact)
        assert sketched.observed == pytest.approx(exact.observed)
        assert sketched.difference.estimate == pytest.approx(exact.difference.estimate, abs=1e-6)
        intervals = attrgetter("difference", "ratio", "error")
        for pair in zip(intervals(sketched), intervals(exact), strict=True):
            assert_allclose(*map(dataclasses.astuple, pair), rtol=1e-3, atol=1e-6)
        near = 0.5 * exact.equal_scores.standard_error  # the folds of the isotonic curve differ
        assert sketched.equal_scores.estimate == pytest.approx(
            exact.equal_scores.estimate, abs=near
        )
        assert sketched.equal_scores.low == pytest.approx(exact.equal_scores.low, abs=near)
        assert np.log(sketched.pvalue) == pytest.approx(np.log(exact.pvalue), rel=0.01, abs=0.01)
    plain = ForecastSketch(labels=[0, 1]).partial_fit([0, 1], [0.2, 0.7])
    for arguments, words in (
        ((sketch, p, group), "leave out y_proba, by"),
        ((plain,), "has no groups: pass by= to partial_fit or summarize"),
    ):
        with pytest.raises(ValueError, match=words):
            calibration_by_group(*arguments)


def of_sites(seed):
    """Labels that share an effect of their cluster; each cluster lies in one of two sites."""
    y, p, cluster = clustered(100, seed, spread=0.8)
    return y, p, np.array(["a", "b"])[cluster % 2], cluster


@pytest.mark.slow
def test_intervals_with_clusters():
    """Both intervals hold at once in .95 of the data sets; a standard error of .02 for 120."""
    held = np.zeros((2, 2))
    for seed in range(120):
        y, p, site, cluster = of_sites(seed)
        for k, groups in enumerate((None, cluster)):
            records = calibration_by_group(y, p, site, groups=groups).groups
            for j, kind in enumerate(("difference", "equal_scores")):
                intervals = [getattr(record, kind) for record in records]
                held[j, k] += all(interval.low <= 0 <= interval.high for interval in intervals)
    assert np.all(held[:, 0] <= 0.85 * 120)
    assert np.all(held[:, 1] >= (0.95 - 2 * 0.02) * 120)


def test_clusters_widen_intervals():
    y, p, site, cluster = of_sites(0)
    plain = calibration_by_group(y, p, site)
    pairs = zip(plain.groups, calibration_by_group(y, p, site, groups=cluster).groups, strict=True)
    wider = []
    for independent, robust in pairs:
        widths = [r.difference.high - r.difference.low for r in (independent, robust)]
        assert widths[1] > widths[0]
        assert robust.pvalue >= independent.pvalue
        assert robust.equal_scores.standard_error > independent.equal_scores.standard_error
        wider.append(robust.error.high > independent.error.high)
    assert any(wider)  # not all: dependent samples that pass as independent may show a jump


def test_several_labels_per_sample_are_refused():
    said = "^calibration_by_group takes one label at a time: pass a column of y_true and of y_proba"
    labels, p = [[0, 1], [1, 1]], [[0.2, 0.7], [0.6, 0.9]]
    with pytest.raises(ValueError, match=said):
        calibration_by_group(labels, p, by=["a", "b"], notion=Multilabel())
