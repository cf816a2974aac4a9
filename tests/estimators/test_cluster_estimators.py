"""Estimators with samples in clusters: folds, halves, intervals and tests."""

import warnings

import numpy as np
import pytest
import sklearn
from conftest import in_clusters
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcalib import CalibrationErrorEstimator, GroupingLossEstimator, calibration_error_interval
from skcalib.estimators.classifiers import make_folds
from skcalib.grouping import bounds, partition
from skcalib.scores import Brier
from skcalib.smoothers import DirichletKernel, IsotonicSmoother
from skcalib.smoothers._base import check_folds


def whole(folds, cluster):
    return all(not set(cluster[train]) & set(cluster[test]) for train, test in folds)


def test_numbers_of_folds_mean_folds_of_whole_clusters():
    X, y, _, cluster = in_clusters(30, 0)
    folds = make_folds(5, X, y, cluster)
    assert len(folds) == 5 and whole(folds, cluster)
    assert not whole(make_folds(5, X, y), cluster)
    inner = check_folds(5, np.eye(2)[y], random_state=0, cluster=cluster)
    assert len(inner) == 5 and whole(inner, cluster)
    assert sorted(np.concatenate([test for _, test in inner])) == list(range(len(y)))
    assert len(check_folds(5, np.eye(2)[y], random_state=0, cluster=cluster % 3)) == 3


def test_a_splitter_gets_the_clusters():
    """Also by metadata routing."""
    X, y, _, cluster = in_clusters(30, 1)

    def interval(cv):
        estimator = CalibrationErrorEstimator(LogisticRegression(), cv=cv)
        return estimator.fit(X, y, groups=cluster).confidence_interval_

    assert interval(4) == interval(StratifiedGroupKFold(4)) != interval(GroupKFold(4))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = [interval(cv) for cv in (GroupKFold(4), 4)]
    assert routed == [interval(GroupKFold(4)), interval(4)]


def test_weights_reach_an_estimator_in_a_pipeline_that_requests_them():
    _, y, proba, _ = in_clusters(10, 1)
    weight = np.linspace(0.5, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        asked = CalibrationErrorEstimator().set_fit_request(sample_weight=True)
        model = make_pipeline(FunctionTransformer(), asked).fit(proba, y, sample_weight=weight)
    alone = CalibrationErrorEstimator().fit(proba, y, weight)
    assert model[-1].calibration_error_ == alone.calibration_error_


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_interval_is_that_of_the_function(loss):
    _, y, proba, cluster = in_clusters(40, 3)
    fitted = CalibrationErrorEstimator(loss=loss).fit(proba, y, groups=cluster)
    interval = calibration_error_interval(y, proba, metric=loss, groups=cluster)
    assert fitted.confidence_interval_ == pytest.approx((interval.low, interval.high))
    plain = CalibrationErrorEstimator(loss=loss).fit(proba, y)
    assert fitted.calibration_error_ == interval.estimate < plain.calibration_error_
    assert fitted.confidence_interval_[1] > plain.confidence_interval_[1]


def test_clusters_of_one_sample_change_nothing():
    X, y, proba, _ = in_clusters(20, 4)
    single = np.arange(len(y))
    for smoother in (None, "isotonic"):
        estimator = CalibrationErrorEstimator(smoother=smoother)
        intervals = [
            estimator.fit(proba, y, groups=groups).confidence_interval_ for groups in (None, single)
        ]
        assert intervals[0] == intervals[1]
    estimator = GroupingLossEstimator(n_permutations=9)
    fits = (estimator.fit(X, y, y_proba=proba, groups=groups) for groups in (None, single))
    few, same = ((fitted.grouping_loss_, fitted.pvalue_) for fitted in fits)
    assert few == same


@pytest.mark.parametrize("smoother", [IsotonicSmoother(), DirichletKernel(0.01, refinement="loss")])
def test_a_smoother_does_not_see_the_cluster_of_a_sample(smoother):
    """Samples that are repeated in their cluster reveal nothing: without groups they do."""
    rng = np.random.default_rng(0)
    proba = rng.random(150)
    y = (rng.random(150) < proba).astype(int)
    rows = np.repeat(np.arange(150), 8)
    estimator = CalibrationErrorEstimator(smoother=smoother, method="risk")
    fits = (estimator.fit(proba[rows], y[rows], groups=groups) for groups in (rows, None))
    (blind, error), (seeing, _) = (
        (fitted.calibration_error_, fitted.standard_error_) for fitted in fits
    )
    assert blind < 0.01 and seeing > blind + 0.01
    assert error == pytest.approx(estimator.fit(proba, y).standard_error_, rel=0.4)


def test_halves_are_of_whole_clusters():
    _, _, proba, cluster = in_clusters(40, 5)
    forecast = np.column_stack([1 - proba, proba])
    rng = np.random.RandomState(0)
    for share in (0.1, 0.5, 0.9):
        half = partition.half_of_clusters(forecast, cluster, share, rng)
        assert not set(cluster[half]) & set(cluster[~half])
        assert abs(half.mean() - share) < 0.15
    for n_clusters in (2, 3):
        half = partition.half_of_clusters(forecast, cluster % n_clusters, 0.01, rng)
        assert half.any() and not half.all()


def test_regions_of_a_single_cluster_join_the_largest_of_their_level_set():
    bins = np.array([0] * 6 + [1] * 3)
    region = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3])
    cluster = np.array([0, 0, 1, 2, 0, 0, 5, 5, 5])
    merged, lonely = partition.merge_single_clusters(bins, region, cluster)
    assert merged.tolist() == [1] * 6 + [3] * 3
    assert lonely.tolist() == [False] * 6 + [True] * 3


def test_terms_of_repeated_samples_are_those_of_the_distinct_ones():
    rng = np.random.default_rng(0)
    forecast = rng.random(60)
    bins, region = np.arange(60) // 30, np.arange(60) // 10
    y = (rng.random(60) < 0.5).astype(int)
    rows = np.repeat(np.arange(60), 5)

    def terms(rows, cluster):
        columns = [
            np.column_stack([1 - share, share])[rows] for share in (forecast, y, forecast**2)
        ]
        return bounds.partition_terms(
            Brier(), bins[rows], region[rows], *columns, np.ones(len(rows)), cluster
        )

    few, again = terms(np.arange(60), None), terms(rows, rows)
    for name in ("plugin", "bias", "induced", "calibration", "calibration_induced"):
        assert getattr(again, name) == pytest.approx(getattr(few, name)), name
    assert again.variance == pytest.approx(few.variance * 60 / 59)
    assert terms(rows, None).bias < 0.3 * few.bias
    parts, _ = bounds.Cells(region[rows], np.ones(300)).by_cluster(rows, np.ones((300, 1)))
    assert len(parts.cells) == 60


@pytest.mark.slow
def test_no_grouping_loss_is_found_where_only_clusters_differ():
    """Regions by a feature that is constant in a cluster: 40 data sets without grouping loss."""
    rejected = {"plain": 0, "clusters": 0}
    for seed in range(40):
        X, y, proba, cluster = in_clusters(60, seed, size=12)
        X[:, 1] = np.random.default_rng(seed).normal(size=60)[cluster]
        for name, groups in (("plain", None), ("clusters", cluster)):
            estimator = GroupingLossEstimator(n_bins=3, random_state=0, n_permutations=99)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pvalue = estimator.fit(X, y, y_proba=proba, groups=groups).pvalue_
            rejected[name] += pvalue <= 0.05
    assert rejected["plain"] >= 9
    assert rejected["clusters"] <= 6


def test_a_grouping_loss_is_found():
    """By a partition, a model, given regions and swapped halves."""
    X, y, proba, cluster = in_clusters(60, 8, gap=1.5, spread=0.7)

    def fitted(groups=cluster, regions=None, **options):
        estimator = GroupingLossEstimator(n_bins=4, n_permutations=49, random_state=0, **options)
        return estimator.fit(X, y, y_proba=proba, regions=regions, groups=groups)

    for options in ({"method": "partition"}, {"method": "risk"}, {"regions": X[:, 1] > 0}):
        estimator = fitted(**options)
        assert estimator.pvalue_ <= 0.05 and estimator.grouping_loss_ > 0
        low, high = estimator.confidence_interval_
        assert low < estimator.grouping_loss_ < high
    assert estimator.grouping_loss_ > 0.02
    assert fitted(method="partition", swap=True).grouping_loss_ > 0
    plain = fitted(None, regions=X[:, 1] > 0)
    plain_width = {(r.level_set, r.rule): r.high - r.low for r in plain.regions_}
    for region in estimator.regions_:
        assert region.high - region.low >= 0.999 * plain_width[region.level_set, region.rule]
