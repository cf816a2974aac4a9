"""The grouping loss, piece by piece: terms by loops, halves and regions by hand, words."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import pairs
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skcalib.data.features import Feature, encode_features
from skcalib.grouping.bounds import (
    Cells,
    GroupingProblem,
    Options,
    beside_score,
    fit_given_regions,
    fit_partition,
    fit_risk,
    functions_of_score,
    model_step,
    moved_curve,
    partition_terms,
    permutation_pvalue,
    region_table,
    risk_terms,
    sign_pvalue,
    steps_beside_score,
)
from skcalib.grouping.estimator import fit_problem
from skcalib.grouping.partition import (
    Partitioner,
    allows_nan,
    cut_level_sets,
    level_sets,
    merge_singletons,
    order_of,
    stratified_half,
)
from skcalib.recalibration.group import Mixing
from skcalib.scores import Brier, LogLoss, Spherical
from skcalib.smoothers import QuantileBins
from skcalib.stats.pvalues import bonferroni

SCORES = [Brier(), LogLoss(), Spherical()]


# --- terms ----------------------------------------------------------------------------------------


def cells_world(n_classes, weighted, seed=0):
    """Two level sets of five regions; every region holds three labels or more."""
    rng = np.random.default_rng(seed)
    regions = np.array([7] * 4 + [9] * 3 + [2] * 5 + [4] * 6 + [5] * 4)
    bins = np.where(np.isin(regions, [7, 9]), 3, 1)
    target = np.eye(n_classes)[rng.integers(n_classes, size=len(regions))]
    forecast, curve = rng.dirichlet(np.ones(n_classes), (2, len(regions)))
    weight = rng.uniform(0.2, 3, len(regions)) if weighted else np.ones(len(regions))
    return bins, regions, forecast, target, curve, weight


def cell_means(cells, values, weight):
    """Mean over the cell of each sample."""
    member = (cells[:, None] == cells) * weight
    return member @ values / member.sum(axis=1, keepdims=True)


def jackknife(function, cells, values, weight):
    """(W - w_i) (g without i - g), scaled so that it is exact for squares."""
    total = 0.0
    for cell in np.unique(cells):
        here = cells == cell
        if here.sum() == 1:
            continue
        cell_weight, rows = weight[here], values[here]
        share = cell_weight / cell_weight.sum()
        squares = np.sum(share**2)
        expected = np.sum(share**2 / (1 - share) * (1 - 2 * share + squares))
        others = (share @ rows - share[:, None] * rows) / (1 - share[:, None])
        change = function(others) - function((share @ rows)[None])
        total += squares / expected * (cell_weight.sum() - cell_weight) @ change
    return total / weight.sum()


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_terms_by_loops(score, n_classes, weighted):
    bins, regions, forecast, target, curve, weight = cells_world(n_classes, weighted)
    terms = partition_terms(score, bins, regions, forecast, target, curve, weight)
    share = weight / weight.sum()
    fine, coarse = (cell_means(cells, target, weight) for cells in (regions, bins))
    scores, curves = (cell_means(bins, values, weight) for values in (forecast, curve))
    assert terms.plugin == pytest.approx(share @ score.divergence(fine, coarse), rel=1e-12)

    def peak(mean):
        return -score.entropy(mean)

    def error(means):
        return score.divergence(means[:, :n_classes], means[:, n_classes:])

    bias = jackknife(peak, regions, target, weight)
    bias -= jackknife(peak, bins, target, weight)
    assert terms.bias == pytest.approx(bias, rel=1e-9)
    induced = score.divergence(curve, curves)
    assert terms.induced == pytest.approx(share @ induced, rel=1e-12)
    influence = score.loss(target, coarse) - score.loss(target, fine) - induced
    spread = np.sum((share * (influence - share @ influence)) ** 2)
    assert terms.variance == pytest.approx(spread, rel=1e-12)
    both = np.hstack([target, forecast])
    calibration = share @ score.divergence(coarse, scores)
    calibration -= jackknife(error, bins, both, weight)
    assert terms.calibration == pytest.approx(calibration, rel=1e-9)
    hidden = score.divergence(curve, forecast) - score.divergence(curves, scores)
    assert terms.calibration_induced == pytest.approx(share @ hidden, rel=1e-11, abs=1e-14)
    assert terms.lower_bound == terms.plugin - terms.bias - terms.induced
    if not score.separable:
        assert math.isnan(terms.correction)
        return
    same = bins[:, None] == bins
    size = (same @ weight) ** 2 / (same @ weight**2)
    of_label, of_score = target - coarse, forecast - scores
    moments = share * size / (size - 1) @ np.sum(2 * of_label * of_score - of_score**2, axis=1)
    assert terms.correction == pytest.approx(moments / (2 if n_classes == 2 else 1), rel=1e-11)
    assert {type(value) for value in vars(terms).values()} == {float}


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_terms_against_the_curve_by_loops(score, weighted):
    """Cells against the mean of the curve in them, regions minus level sets."""
    bins, regions, forecast, target, curve, weight = cells_world(3, weighted)
    terms = partition_terms(score, bins, regions, forecast, target, curve, weight, by_curve=True)
    share, both = weight / weight.sum(), np.hstack([target, curve])

    def error(means):
        return score.divergence(means[:, :3], means[:, 3:])

    fine, coarse = (cell_means(cells, both, weight) for cells in (regions, bins))
    plugin, bias = share @ error(fine), jackknife(error, regions, both, weight)
    induced = share @ error(coarse) - jackknife(error, bins, both, weight)
    assert terms.plugin == pytest.approx(plugin, rel=1e-12)
    assert terms.bias == pytest.approx(bias, rel=1e-9)
    assert terms.induced == pytest.approx(induced, rel=1e-9)
    against_scores = partition_terms(score, bins, regions, forecast, target, curve, weight)
    assert terms.calibration == against_scores.calibration
    gain, of_curve = (
        sum(
            sign * (score.loss(rows, means[:, 3:]) - score.loss(rows, means[:, :3]))
            for sign, means in ((1, fine), (-1, coarse))
        )
        for rows in (target, curve)
    )
    of_curve = np.where(np.isfinite(of_curve), of_curve, 0.0)[:, None]
    influence = gain - (of_curve - cell_means(regions, of_curve, weight))[:, 0]
    spread = np.sum((share * (influence - share @ influence)) ** 2)
    assert terms.variance == pytest.approx(spread, rel=1e-9)


def test_cells_of_tiny_weights_and_a_jackknife_without_what_is_alone_or_infinite():
    tiny = Cells(np.array([5, 5]), np.array([1e-300, 3e-300]))
    np.testing.assert_allclose(tiny.mean(np.array([[1e-30], [5e-30]])), 4e-30, rtol=1e-14)
    np.testing.assert_allclose(tiny.size, [1.6], rtol=1e-14)

    def square(mean):
        return mean[:, 0] ** 2

    def inverse(mean):
        with np.errstate(divide="ignore"):
            return 1 / mean[:, 0]

    values, together = np.array([[0.0], [1.0], [0.7]]), np.zeros(3, dtype=int)
    with_single = Cells(np.array([0, 0, 1]), np.ones(3))
    expected = 2 / 3 * 0.5 / 2  # the third sample is alone
    assert with_single.jackknife_bias(square, values) == pytest.approx(expected, rel=1e-13)
    for scale in (1e-6, 1.0, 1e6):  # as is one beside which the others weigh nothing
        heavy, light = scale * np.array([1.0, 1e-12, 1e-12]), scale * np.array([1.0, 1e-3, 1e-3])
        assert Cells(together, heavy).jackknife_bias(square, values) == 0
        bias = Cells(together, light).jackknife_bias(square, values)
        expected = jackknife(square, together, values, light)
        assert bias == pytest.approx(expected, rel=1e-9)
    # Without the second sample the mean is 0 and the function infinite: the first one counts.
    pair = Cells(np.zeros(2, dtype=int), np.ones(2))
    assert pair.jackknife_bias(inverse, values[:2]) == pytest.approx((1 - 2) / 2, rel=1e-13)


def test_binning_correction_of_single_samples():
    """A level set of one sample has no variance: nothing is added for it."""
    bins, regions = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1])
    target, forecast = pairs([0, 1, 1, 0]), pairs([0.2, 0.5, 0.8, 0.3])
    terms = partition_terms(Brier(), bins, regions, forecast, target, forecast, np.ones(4))
    p, y = np.array([0.2, 0.5, 0.8]), np.array([0, 1, 1])
    covariance, variance = np.cov(y, p)[0, 1], np.var(p, ddof=1)
    assert terms.correction == pytest.approx(3 / 4 * (2 * covariance - variance), rel=1e-12)


# --- level sets and halves ------------------------------------------------------------------------


def test_level_sets_by_hand():
    """Samples are sorted by the probability of the event, or by the largest one."""
    p = np.array([0.05, 0.1, 0.4, 0.45, 0.5, 0.95])
    assert level_sets(pairs(p), 2, "quantile").tolist() == [0, 0, 0, 1, 1, 1]
    # A score of exactly 1/2 is in the middle of both halves, so it is a level set of its own.
    assert level_sets(pairs(p), 2, "uniform").tolist() == [0, 0, 0, 0, 1, 2]
    assert level_sets(pairs(p), 1, "uniform").tolist() == [0] * 6
    three = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    level = level_sets(three, 2, "quantile")
    assert level[0] == level[1] != level[2] == level[3]
    np.testing.assert_array_equal(order_of(pairs([0.3, 0.9])), [0.3, 0.9])
    np.testing.assert_array_equal(order_of(three[[1, 3]]), [0.7, 0.7])
    with pytest.raises(ValueError, match="^strategy='uniform' cuts one probability: with more"):
        level_sets(np.eye(3), 2, "uniform")


@pytest.mark.parametrize(("test_size", "few"), [(0.5, 2), (0.25, 4), (0.75, 4), (0.2, 5)])
def test_the_same_share_of_each_few_neighbours(test_size, few):
    """Within level sets, in the order of the score: exactly test_size of each run of neighbours."""
    rng = np.random.default_rng(0)
    p, bins = rng.permutation(200) / 200, rng.integers(3, size=200)
    in_order = np.lexsort((p, bins))
    picked = np.zeros(few)
    for seed in range(60):
        half = stratified_half(pairs(p), bins, test_size, np.random.RandomState(seed))
        assert half.dtype == bool and half.shape == (200,)
        runs = half[in_order].reshape(-1, few)
        np.testing.assert_array_equal(runs.sum(axis=1), round(few * test_size))
        odd = runs != (test_size > 0.5)  # who stands out of a run can be anybody in it
        assert set(odd.argmax(axis=1)) == set(range(few))
        picked += runs.sum(axis=0)
    # each place of a run is measured equally often: 4 standard errors
    share = picked / (60 * 200 / few)
    error = math.sqrt(test_size * (1 - test_size) / (60 * 200 / few))
    assert np.abs(share - test_size).max() < 4 * error


# --- features -------------------------------------------------------------------------------------


def columns(*names):
    return [Feature(name, j) for j, name in enumerate(names)]


def numbers_of(X, *, allow_nan):
    return encode_features(X, allow_nan=allow_nan).values


def test_features_that_pass():
    X = np.arange(6).reshape(3, 2)
    values = numbers_of(X, allow_nan=False)
    assert values.dtype == np.float64 and values.tolist() == X.tolist()
    assert numbers_of(X.astype(np.float32), allow_nan=False).dtype == np.float32
    frame = pd.DataFrame({"a": np.uint8([1, 2]), "b": [True, False], "c": [0.5, 1.5]})
    assert numbers_of(frame, allow_nan=False).tolist() == [[1, 1, 0.5], [2, 0, 1.5]]
    missing = np.array([[1.0, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(numbers_of(missing, allow_nan=True), missing)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (csr_array(np.eye(2)), "^X is sparse: pass dense features"),
        (np.ones(3), "Expected 2D array"),
        ([[np.nan], [1.0]], "^Input X contains NaN"),
        ([[np.nan]], r"^X has no column that can be used: x0 \(no value\)"),
        ([[np.inf]], "^Column x0 of X contains infinity"),
    ],
)
def test_words_of_refused_features(X, words):
    with pytest.raises(ValueError, match=words):
        numbers_of(X, allow_nan=False)


# --- regions --------------------------------------------------------------------------------------


class FirstColumn(BaseEstimator):
    """Regions that somebody else knows, as an estimator: the first feature is their number."""

    def fit(self, X, y):
        FirstColumn.seen, self.fitted_ = (X, y), True
        return self

    def predict(self, X):
        return X[:, 0].astype(int)


def test_kinds_of_partitioners_and_who_takes_missing_values():
    tree, model = DecisionTreeClassifier(), FirstColumn()
    kinds = [None, "stump", "kmeans", model, tree]
    names = [Partitioner(partitioner, 12, None, columns("a")).kind for partitioner in kinds]
    assert names == ["tree", "stump", "kmeans", "estimator", "estimator"]
    for wrong, text in {"tree": "'tree'", FirstColumn: "the class FirstColumn", 7: "7"}.items():
        with pytest.raises(ValueError, match=f"^partitioner must be None, .* predict, got {text}."):
            Partitioner(wrong, 12, None, columns("a"))
    assert allows_nan(None) and allows_nan("stump") and not allows_nan("kmeans")
    assert allows_nan(HistGradientBoostingClassifier()) and not allows_nan(LogisticRegression())
    assert not allows_nan(HistGradientBoostingClassifier) and not allows_nan(7)


STEPS = np.repeat([0.0, 1.0, 2.0, 3.0], 12)[:, None]  # 48 samples of four kinds
LABELS = np.repeat([0, 1, 0, 1], 12)
FITTING, MEASURED = np.arange(0, 48, 2), np.arange(1, 48, 2)


def cut(partitioner, ratio, X=STEPS, labels=LABELS, weight=None, fitting=FITTING, seed=None):
    cutter = Partitioner(partitioner, ratio, np.random.RandomState(0), columns("dose"))
    weight = np.ones(len(X)) if weight is None else weight
    prepared = cutter.prepare(X)
    return cutter.cut(prepared, np.eye(labels.max() + 1)[labels], weight, fitting, MEASURED, seed)


def test_the_tree_cuts_where_labels_change():
    fitted, measured, rules = cut(None, 6)  # 24 measured: four regions
    np.testing.assert_array_equal(measured, fitted)
    assert len(set(measured)) == 4 and len(rules) == 4
    expected = {"dose <= 0.5", "0.5 < dose <= 1.5", "1.5 < dose <= 2.5", "dose > 2.5"}
    assert set(rules) == expected
    for kind, rule in ((0, "dose <= 0.5"), (3, "dose > 2.5")):
        assert {rules[k] for k in measured[STEPS[MEASURED, 0] == kind]} == {rule}
    assert len(cut(None, 8)[2]) == 3 and len(cut(None, 12)[2]) == 2
    halves = (STEPS[:, 0] >= 2).astype(int)
    assert len(cut(None, 24, labels=halves)[2]) == 1
    assert cut(None, 25, labels=halves)[2] == ["all"]  # less than the ratio: one region


def test_leaves_hold_half_of_the_ratio():
    """Rounded down: a kind of five among the fitted is cut off at a ratio of 11, not of 12."""
    X = np.concatenate([np.zeros(38), np.ones(10)])[:, None]
    labels = X[:, 0].astype(int)
    assert len(cut(None, 11, X, labels)[2]) == 2
    assert len(cut(None, 12, X, labels)[2]) == 1
    X[:] = 0
    X[FITTING[5]] = 1  # a single one
    assert len(cut(None, 3, X, X[:, 0].astype(int))[2]) == 2
    assert len(cut(None, 4, X, X[:, 0].astype(int))[2]) == 1


def test_a_stump_is_balanced():
    """Two regions whatever the ratio; with ties no side is below a third of the level set."""
    labels = (STEPS[:, 0] >= 2).astype(int)
    _, measured, rules = cut("stump", 2, labels=labels)
    assert set(rules) == {"dose <= 1.5", "dose > 1.5"}
    np.testing.assert_array_equal(np.bincount(measured), [12, 12])
    for n_last, n_rules in ((8, 2), (7, 1)):
        for fitting in (FITTING, np.arange(24), np.arange(25)):
            X = np.zeros((48, 1))
            X[fitting[-n_last:]] = 1
            rules = cut("stump", 12, X, X[:, 0].astype(int), fitting=fitting)[2]
            assert len(rules) == n_rules
    thirds = np.repeat([0.0, 1.0, 2.0], 16)[:, None]
    assert len(cut("stump", 2, thirds, (thirds[:, 0] == 1).astype(int))[2]) == 2


def test_weights_tell_the_stump_what_matters():
    """Two features, each right on half of the samples: the heavy half decides."""
    rng, rows = np.random.default_rng(0), np.arange(48)
    labels, noise, first = rng.integers(2, size=48), rng.integers(2, size=(2, 48)), rows < 24
    X = np.column_stack([np.where(first, labels, noise[0]), np.where(first, noise[1], labels)])
    for heavy, feature in ((first, "a"), (~first, "b")):
        weight, cutter = (
            np.where(heavy, 1.0625, 0.0625),
            Partitioner("stump", 12, None, columns("a", "b")),
        )
        prepared = cutter.prepare(X.astype(float))
        rules = cutter.cut(prepared, np.eye(2)[labels], weight, rows, rows, None)[2]
        assert {rule[0] for rule in rules} == {feature}


def test_two_means_of_each_level_set():
    """The paper's other partition: k-means with two clusters, on the features as they are."""
    X = np.random.default_rng(1).normal(size=(48, 2)) * [1, 50]
    fitted, measured, rules = cut(KMeans(2, random_state=0), 12, X)
    model = KMeans(2, random_state=0).fit(X[FITTING])
    np.testing.assert_array_equal(fitted, model.labels_)
    np.testing.assert_array_equal(measured, model.predict(X[MEASURED]))
    assert rules == ["KMeans region 0", "KMeans region 1"]
    last = KMeans(2)
    for partitioner in (last, make_pipeline(StandardScaler(), last)):
        first, second = (cut(partitioner, 12, X, seed=5)[1].tolist() for _ in range(2))
        assert first == second and last.random_state is None  # the given object is not changed


def same_groups(first, second):
    np.testing.assert_array_equal(first[:, None] == first, second[:, None] == second)


def test_clusters_are_those_of_scikit_learn():
    """One start from the seed, on standardised features."""
    X = np.random.default_rng(0).normal(size=(48, 2)) * [1, 50]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    for seed in (1, 2):
        fitted, regions, _ = cut("kmeans", 3, X, seed=seed)
        model = KMeans(8, n_init=1, random_state=seed).fit(scaled[FITTING])
        same_groups(model.labels_, fitted)
        same_groups(model.predict(scaled[MEASURED]), regions)
    target, cuts = np.eye(2)[LABELS], []
    bins, measured = np.arange(48) // 24, np.arange(48) % 2 == 1
    for _ in range(2):  # the generator decides, and nothing else
        cutter = Partitioner("kmeans", 3, np.random.RandomState(0), columns("a", "b"))
        cuts.append(cut_level_sets(cutter, scaled, target, np.ones(48), bins, measured).region)
    np.testing.assert_array_equal(*cuts)
    seeds = np.random.RandomState(0).randint(2**31 - 1, size=2)
    for level, seed in enumerate(seeds):
        rows = [np.flatnonzero((bins == level) & (measured == part)) for part in (False, True)]
        labels = cutter.cut(scaled, target, np.ones(48), *rows, seed)[1]
        several = np.bincount(labels)[labels] > 1  # others were joined
        same_groups(cuts[0][np.arange(24) // 12 == level][several], labels[several])


def test_estimators_find_regions():
    """A clone learns from features and labels of one part, and numbers both."""
    X = np.column_stack([STEPS[:, 0] + 5, np.arange(48)])
    arguments = X, np.eye(2)[LABELS], np.ones(48), FITTING, MEASURED, None
    fitted, measured, rules = Partitioner(model := FirstColumn(), 12, None, columns("a", "b")).cut(
        *arguments
    )
    np.testing.assert_array_equal(fitted, STEPS[FITTING, 0])
    np.testing.assert_array_equal(measured, STEPS[MEASURED, 0])
    assert rules == [f"FirstColumn region {k}" for k in (5, 6, 7, 8)]
    assert not hasattr(model, "fitted_")
    np.testing.assert_array_equal(FirstColumn.seen[0], X[FITTING])
    np.testing.assert_array_equal(FirstColumn.seen[1], LABELS[FITTING])
    alone = np.zeros(48, dtype=int)
    alone[1] = 1  # measured, not fitted: one class has nothing that a classifier can tell apart
    fitted, measured, rules = cut(LogisticRegression(), 12, labels=alone)
    assert rules == ["all"] and not fitted.any() and not measured.any()
    assert (len(fitted), len(measured)) == (24, 24)
    assert len(cut(FirstColumn(), 12, labels=alone)[2]) == 4  # no classifier: it may know


def test_estimators_without_regions():
    """At most half as many regions as samples; four samples may be alone."""
    with pytest.raises(ValueError, match="^RandomForestClassifier gives several regions for each"):
        cut(RandomForestClassifier(2), 12)
    X = np.arange(48.0)[:, None]
    with pytest.raises(ValueError, match="^LinearRegression puts nearly every sample into its own"):
        cut(LinearRegression(), 12, X=X)
    halves = X // 2
    assert len(cut(FirstColumn(), 12, X=halves)[2]) == 24
    halves[0] = 99
    with pytest.raises(ValueError, match="puts nearly every sample into its own region"):
        cut(FirstColumn(), 12, X=halves)
    cutter = Partitioner(FirstColumn(), 12, None, columns("a"))
    arguments = X, np.eye(2)[LABELS], np.ones(48), np.arange(2)
    assert len(cutter.cut(*arguments, np.arange(2, 4), None)[2]) == 4
    with pytest.raises(ValueError, match="its own region"):
        cutter.cut(*arguments, np.arange(2, 5), None)


def test_single_samples_join_their_like():
    """By the squared distance of frequencies on the other half; the first of equals."""
    likeness = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3], [0.7, 0.3]])
    region = np.array([0, 0, 1, 2, 2, 2, 3])
    assert merge_singletons(region, likeness).tolist() == [0, 0, 2, 2, 2, 2, 0]
    alone = merge_singletons(np.array([1, 2, 3]), likeness)
    assert alone.tolist() == [1, 1, 1]
    together = np.array([0, 0, 1, 1])
    assert merge_singletons(together, likeness) is together
    tie = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert merge_singletons(np.array([0, 1, 1, 2, 2]), tie).tolist() == [1, 1, 1, 2, 2]


def test_cutting_all_level_sets():
    """Numbers over all level sets, and rules in their order."""
    bins = np.repeat([0, 1, 2, 3, 4], [12, 2, 6, 12, 3])
    region = np.array([0, 1] * 6 + [0, 0] + [0] * 6 + [5] * 6 + [6] * 6 + [2] * 3)
    measured = np.arange(35) % 4 < 2
    measured[12:14] = False  # level 1 has nobody to measure
    measured[14:20] = True  # level 2 nobody to learn from
    measured[32:] = [False, True, True]  # and level 4 one sample to learn from
    region[[2, 3, 6]] = [8, 9, 8]  # what only fitted samples are in is no region
    assert not measured[[2, 3, 6]].any()
    target = np.eye(2)[np.arange(35) // 2 % 2]
    X = region[:, None].astype(float)
    cutter = Partitioner(FirstColumn(), 12, None, columns("a"))
    regions = cut_level_sets(cutter, X, target, np.ones(35), bins, measured)
    expected = {(0, 0): 0, (0, 1): 1, (2, 0): 2, (3, 5): 3, (3, 6): 4, (4, 2): 5}
    rows = np.flatnonzero(measured)
    assert regions.region.tolist() == [expected[bins[i], region[i]] for i in rows]
    names = [f"FirstColumn region {k}" for k in (0, 1, 5, 6, 2)]
    assert regions.rules == [*names[:2], "all", *names[2:]]
    assert regions.singletons == 0 and regions.n_before == 6


def cut_regions(fitted, measured_regions, bins=None):
    """`cut_level_sets` of (region, label) pairs that are fitted and regions that are measured."""
    region = np.array([r for r, _ in fitted] + list(measured_regions))
    labels = np.array([label for _, label in fitted] + [0] * len(measured_regions))
    measured = np.arange(len(region)) >= len(fitted)
    bins = np.zeros(len(region), dtype=int) if bins is None else bins
    cutter = Partitioner(FirstColumn(), 12, None, columns("a"))
    X = region[:, None].astype(float)
    return cut_level_sets(cutter, X, np.eye(2)[labels], np.ones(len(region)), bins, measured)


def test_single_samples_of_a_level_set():
    """They join the region with the labels most like those of their own on the other half."""
    half, ones = [(0, 0), (0, 1)], [(1, 1)] * 6
    regions = cut_regions([*half, *ones, (2, 1)], [0, 0, 1, 1, 2])
    assert regions.rules == ["FirstColumn region 0", "FirstColumn region 1"]
    assert regions.n_before == 3 and regions.singletons == pytest.approx(1 / 3)
    # Where nobody was fitted a region is like the level set as a whole: 7 ones of 8.
    for fitted, joined in (([(2, 1)], 1), ([(2, 0)], 0), ([(2, 1), (2, 0)], 0), ([], 1)):
        regions = cut_regions([*half, *ones, *fitted], [0, 0, 1, 1, 2])
        assert regions.region.tolist() == [0, 0, 1, 1, joined]
    # single samples in two level sets
    bins = np.repeat([0, 1, 0, 1], [5, 3, 3, 4])
    regions = cut_regions([*half, *ones], [0, 0, 1, 0, 1, 1, 2], bins)
    assert regions.n_before == 5 and regions.singletons == pytest.approx(3 / 5)
    # a single one with nobody to join
    regions = cut_regions(half, [0])
    assert regions.region.tolist() == [0] and regions.singletons == 1 and regions.n_before == 1


def test_expected_frequencies_of_regions_are_probabilities():
    """The curve, shifted to the mean of the level set: at most one, and at least zero."""
    region, high = np.array([0, 0, 1, 1]), np.array([0.99, 0.99, 0.5, 0.5])
    for curve, label in ((high, 1), (1 - high, 0)):
        table = region_table(
            events=["rest", "event"],
            bins=0 * region,
            regions=region,
            rules="ab",
            forecast=pairs(np.full(4, 0.5)),
            target=pairs(np.full(4, label)),
            curve=pairs(curve),
            weight=np.ones(4),
            confidence_level=0.9,
        )
        expected = {row.rule: row.expected for row in table}
        shift = 0.255 if label else -0.255
        assert expected == pytest.approx({"a": label, "b": curve[2] + shift})


def test_harm_with_clusters_of_one_sample_is_that_without_clusters():
    rng, region = np.random.default_rng(0), np.arange(40) // 10
    table_of = partial(
        region_table,
        events=["rest", "event"],
        bins=0 * region,
        regions=region,
        rules="abcd",
        forecast=pairs(np.full(40, 0.5)),
        target=pairs(rng.integers(2, size=40)),
        curve=pairs(rng.random(40)),
        weight=np.ones(40),
        confidence_level=0.9,
    )
    plain, single = (table_of(cluster=cluster) for cluster in (None, np.arange(40)))
    assert [row.harm for row in single] == pytest.approx([row.harm for row in plain])


# --- the test -------------------------------------------------------------------------------------


def between_by_hand(bins, regions, residual, weight):
    """The statistic cell by cell."""
    total = 0.0
    for cells, sign in ((regions, 1), (bins, -1)):
        for cell in np.unique(cells):
            pull = weight[cells == cell] @ residual[cells == cell]
            total += sign * pull @ pull / weight[cells == cell].sum()
    return total


def pvalue_by_hand(bins, regions, forecast, residual, weight, n_permutations, rng, width):
    """Draws in the order of the documentation."""
    order = np.lexsort((rng.random_sample(len(bins)), forecast[:, 1], bins))
    place = np.arange(len(bins)) - np.searchsorted(bins[order], bins[order])
    bands = np.cumsum(place % width == 0)

    def statistic(rows):
        return between_by_hand(bins[order], regions[order], residual[rows], weight[rows])

    draws = (np.lexsort((rng.random_sample(len(bins)), bands)) for _ in range(n_permutations))
    least = statistic(order) * (1 - 1e-12)
    return (1 + sum(statistic(order[k]) >= least for k in draws)) / (1 + n_permutations)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [3, 20])
def test_permutations_by_hand(seed, width, monkeypatch):
    rng = np.random.default_rng(seed)
    bins = rng.integers(2, size=50)
    regions = 3 * bins + rng.integers(3, size=50)
    forecast = pairs(np.round(rng.random(50), 1))  # with ties
    residual = pairs(rng.integers(2, size=50)) - forecast + 0.25 * pairs(regions % 3 == 0)
    weight = rng.uniform(0.5, 2, 50)
    arguments = bins, regions, forecast, residual, weight, 39
    for n_jobs in (1, 2):
        with parallel_config(n_jobs=n_jobs):
            pvalue = permutation_pvalue(*arguments, np.random.RandomState(seed), width=width)
        expected = pvalue_by_hand(*arguments, np.random.RandomState(seed), width)
        assert pvalue == expected
        monkeypatch.setattr("skcalib.grouping.bounds._AT_ONCE", 250)  # batches of five
    if width == 20:
        assert permutation_pvalue(*arguments, np.random.RandomState(seed)) == expected
        # numbers of cells may have gaps
        gaps = 2 * bins, 5 * regions + 3, *arguments[2:]
        assert permutation_pvalue(*gaps, np.random.RandomState(seed)) == expected


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_clusters_by_hand(seed):
    rng = np.random.default_rng(seed)
    bins, cluster = rng.integers(2, size=60), rng.integers(15, size=60)
    regions = 3 * bins + rng.integers(3, size=60)
    residual, weight = rng.normal(size=(60, 2)), rng.uniform(0.5, 2, 60)
    centred = residual.copy()
    for k in range(2):
        centred[bins == k] -= np.average(residual[bins == k], axis=0, weights=weight[bins == k])
    draws = np.random.RandomState(seed).choice([-1.0, 1.0], size=(39, 15))
    null = [between_by_hand(bins, regions, d[cluster, None] * centred, weight) for d in draws]
    least = between_by_hand(bins, regions, centred, weight) * (1 - 1e-12)
    pvalue = sign_pvalue(bins, regions, residual, weight, cluster, 39, np.random.RandomState(seed))
    assert pvalue == (1 + sum(statistic >= least for statistic in null)) / 40


def test_permutations_that_say_everything_or_nothing():
    n = 200
    regions, bins = np.arange(n) % 2, np.zeros(n, dtype=int)
    forecast, rng = pairs(np.full(n, 0.5)), np.random.RandomState(0)
    certain = pairs(regions) - forecast
    weight = np.ones(n)
    # No permutation is as large, so their number is doubled up to its limit.
    assert permutation_pvalue(bins, regions, forecast, certain, weight, 99, rng) < 1e-4
    assert permutation_pvalue(bins, regions, forecast, 0 * certain, weight, 99, rng) == 1
    # nobody to change places with
    alone = permutation_pvalue(bins, regions, forecast, certain, weight, 99, rng, width=1)
    assert alone == 1
    assert bonferroni([0.01, 0.2, 0.5]) == pytest.approx(0.03) and bonferroni([0.9, 0.8]) == 1
    assert bonferroni([0.4]) == 0.4 and math.isnan(bonferroni([np.nan, 0.1]))


# --- the second bound -----------------------------------------------------------------------------


def mixing_of(y, curve, paths, weight):
    def losses(step, rows):
        return Brier().loss(y[rows], moved_curve(curve[rows], step))

    return Mixing(losses, paths, weight)


def test_the_best_weights():
    """For Brier and one step cross / direct, between 0 and 3, if the gain exceeds its error."""
    rng = np.random.default_rng(0)
    rows, curve = np.arange(400), pairs(np.full(400, 0.5))
    y = pairs(rng.integers(2, size=400))
    weight = rng.uniform(0.5, 2, 400)
    for effect, size in ((0.2, 0.05), (-0.2, 0.3), (0.2, 0.25)):
        direction = np.where(y[:, 1] > 0.5, 1, -1)
        step = np.where(rng.random(400) < 0.5 + effect, direction, -direction) * size
        step = np.column_stack([-step, step])
        cross = weight @ np.sum((y - curve) * step, axis=1)
        exact = cross / (weight @ np.sum(step**2, axis=1))
        # of a path of two levels, the one that leads to lower losses is chosen
        mixture = mixing_of(y, curve, [np.stack([-step, step])], weight).choose(rows)
        assert mixture.levels == [int(exact > 0)]
        assert mixture.weights == pytest.approx([min(abs(exact), 3.0)], abs=2e-3)
    small = 0.01 * rng.normal(size=(1, 400, 1)) * [-1, 1]  # noise: no gain beyond its error
    mixture = mixing_of(y, curve, [small], weight).choose(rows)
    np.testing.assert_array_equal(mixture.weights, [0])
    np.testing.assert_array_equal(mixture.direction, [1])
    truth = pairs(np.full(400, 0.8))
    halves = [0.5 * (truth - curve)[None], np.zeros((2, 400, 2))]
    mixture = mixing_of(truth, curve, halves, weight).choose(rows)
    np.testing.assert_allclose(mixture.of(halves, rows), truth - curve, atol=1e-4)
    none = mixing_of(y, curve, halves, weight).choose(rows[:0])
    np.testing.assert_array_equal(none.weights, [0, 0])
    # a probability falls to a twentieth of itself at the least; rows sum to one
    curve = np.array([[0.4, 0.6], [0.2, 0.8]])
    step = np.array([[0.1, -0.1], [-0.4, 0.4]])
    np.testing.assert_array_equal(moved_curve(curve, 0.0 * step), curve)
    np.testing.assert_allclose(moved_curve(curve, step), [[0.5, 0.5], np.array([0.01, 1.2]) / 1.21])


@pytest.mark.parametrize("n_test", [1900, 2000, 2100])
def test_training_rows_join_a_regression_of_fewer_than_2000_rows(n_test):
    forecast, rows, seen = np.random.default_rng(0).dirichlet([1, 1, 1], 4000), np.arange(4000), []

    def predict(chosen):
        seen.append(chosen)
        return np.ones((2, len(chosen), 3))

    steps = steps_beside_score(
        forecast, forecast, np.ones(4000), predict, rows[n_test:], rows[:n_test]
    )
    assert steps.shape == (2, n_test, 3) and np.abs(steps).max() < 1e-9
    assert len(np.unique(seen[0])) == len(seen[0]) == max(n_test, 2000)
    np.testing.assert_array_equal(seen[0][:n_test], rows[:n_test])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_what_the_score_explains_is_removed(n_classes):
    """A function of the score in the span vanishes; of others little is left; noise stays."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(n_classes), 2000)
    weight = rng.uniform(0.5, 2, 2000)
    logits = np.log(forecast)
    linear = logits - logits.mean(axis=1, keepdims=True)
    assert np.abs(beside_score(linear, forecast, forecast, weight)).max() < 1e-9
    smooth = np.sqrt(forecast)
    assert beside_score(smooth, forecast, forecast, weight).std() < 0.2 * smooth.std()
    curve = rng.dirichlet(np.full(n_classes, 5.0), 2000)  # one that follows no forecast
    assert np.abs(beside_score(curve, forecast, curve, weight)).max() < 1e-9
    noise = rng.normal(size=(2000, 1))
    left = beside_score(noise, forecast, forecast, weight)
    assert 0.97 < left.std() / noise.std() < 1
    np.testing.assert_allclose(weight @ left, 0, atol=1e-8)


@pytest.mark.parametrize(
    ("n_samples", "n_classes", "n_used", "n_pairs"),
    [(2000, 2, 1, 0), (200, 4, 2, 1), (2000, 4, 3, 3), (2000, 12, 10, 3)],
)
def test_one_component_for_each_hundred_samples(n_samples, n_classes, n_used, n_pairs):
    """At most ten, of K - 1, of curve, scores and ranks; squares and products of the last two.

    Piecewise linear functions of the position have a knot more than the cube root of n.
    """
    forecast = np.random.default_rng(0).dirichlet(np.ones(n_classes), n_samples)
    n_knots = round(n_samples ** (1 / 3)) + 1
    columns = functions_of_score(forecast, forecast[::-1], np.ones(n_samples))
    assert columns.shape[1] == n_knots + 2 * n_used + 2 * (4 * n_used + n_pairs)


def test_steps_of_a_classifier():
    """To its probabilities, here the class frequencies; a class that the fold lacks gets none."""
    model = DummyClassifier(strategy="prior")
    target = np.eye(3)[[0, 2, 2, 0, 2, 1]]
    curve = np.full((6, 3), 1 / 3)
    weight, train, test = np.arange(1.0, 7.0), np.arange(5), np.array([5])
    features = np.zeros((6, 1))
    step = model_step(model, features, target, curve, weight, train, test)
    np.testing.assert_allclose(step, [[5 / 15 - 1 / 3, 0 - 1 / 3, 10 / 15 - 1 / 3]], atol=1e-15)
    step = model_step(model, features, target, curve, np.ones(6), train, test)
    np.testing.assert_allclose(step, [[2 / 5 - 1 / 3, -1 / 3, 3 / 5 - 1 / 3]], atol=1e-15)
    one_class = model_step(model, features, target, curve, weight, np.array([1, 2]), test)
    np.testing.assert_array_equal(one_class, np.zeros((1, 3)), strict=True)


def test_features_with_next_to_no_values_are_left_out():
    """Fewer than ten known values, and some missing: boosting would stumble over them."""
    features = np.arange(60.0).reshape(30, 2)
    train, test = np.arange(20), np.arange(20, 30)
    target, curve = pairs(np.arange(30) % 2), pairs(np.full(30, 0.25))
    for known, used in ((9, False), (10, True), (20, True)):
        X = features.copy()
        X[known:20, 0] = np.nan
        model_step(FirstColumn(), X, target, curve, np.ones(30), train, test)
        expected = X[train] if used else np.column_stack([np.zeros(20), X[train, 1]])
        np.testing.assert_array_equal(FirstColumn.seen[0], expected)
    short = features[:9]  # nothing is missing, however few there are
    model_step(
        FirstColumn(), short, target[:9], curve[:9], np.ones(9), np.arange(5), np.arange(5, 9)
    )
    np.testing.assert_array_equal(FirstColumn.seen[0], short[:5])


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_second_bound_by_loops(score, n_classes):
    """Steps fold by fold, beside the score; the weight of a fold is the best on all others."""
    rng = np.random.default_rng(0)
    n = 60
    forecast = rng.dirichlet(np.ones(n_classes), n)
    curve = 0.8 * forecast + 0.2 / n_classes
    X = rng.normal(size=(n, 2))
    target = np.eye(n_classes)[((X[:, 0] > 0) + 0) if n_classes == 2 else rng.integers(3, size=n)]
    weight = rng.uniform(0.5, 2, n)
    weight /= weight.mean()
    folds = [(np.setdiff1d(np.arange(n), np.arange(k, n, 3)), np.arange(k, n, 3)) for k in range(3)]
    problem = GroupingProblem(forecast, target, weight, X, [])
    terms = risk_terms(problem, score, curve, LinearRegression(), folds, 0)
    features = np.column_stack([forecast[:, 1:], X])
    step = np.zeros((n, n_classes))
    for train, test in folds:
        model = LinearRegression().fit(features[train], (target - curve)[train], weight[train])
        predicted = model.predict(features)  # column by column
        step[test] = beside_score(predicted, forecast, curve, weight)[test]  # of each model alone

    def losses(step, rows):
        return score.loss(target[rows], moved_curve(curve[rows], step))

    before, scale = score.loss(target, curve), np.zeros(n)
    for _, test in folds:
        others = np.setdiff1d(np.arange(n), test)
        scale[test] = Mixing(losses, [step[None]], weight).choose(others).weights
    assert np.median(scale) > 0.3 or n_classes == 3
    after = losses(step * scale[:, None], np.arange(n))
    np.testing.assert_allclose(terms.differences, before - after, rtol=1e-6, atol=1e-9)
    assert terms.scale == pytest.approx(np.average(scale, weights=weight), abs=1e-6)
    slope = (before - losses(1e-4 * step, np.arange(n))) / 1e-4
    np.testing.assert_allclose(terms.slope, slope, rtol=1e-6, atol=1e-9)
    if score == Brier() and n_classes == 2:
        exact = 2 * np.sum((target - curve) * step, axis=1) / 2
        np.testing.assert_allclose(terms.slope, exact, atol=1e-3)


def test_the_scale_of_weights_is_no_penalty():
    """Ridge regression would shrink less for weights that are larger together."""
    problem = problem_of()
    heavy = replace(problem, weight=100 * problem.weight)
    folds = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    for model in (Ridge(30.0), None):
        light_terms, heavy_terms = (
            risk_terms(weighted, Brier(), problem.forecast, model, folds, 0)
            for weighted in (problem, heavy)
        )
        np.testing.assert_allclose(light_terms.differences, heavy_terms.differences, atol=1e-6)
        assert light_terms.scale == pytest.approx(heavy_terms.scale, abs=1e-4)


def test_samples_that_no_fold_tests_stay_where_they_are():
    n = 40
    rng = np.random.default_rng(0)
    forecast, target = pairs(rng.random(n)), pairs(np.arange(n) % 2)
    folds = [(np.arange(20), np.arange(20, 30))]
    problem = GroupingProblem(forecast, target, np.ones(n), (np.arange(n) % 2.0)[:, None], [])
    terms = risk_terms(problem, Brier(), forecast, LinearRegression(), folds, 0)
    untouched = np.r_[0:20, 30:40]
    np.testing.assert_array_equal(terms.differences[untouched], 0)
    np.testing.assert_array_equal(terms.slope[untouched], 0)
    assert terms.scale == 0  # nothing outside of the fold says how far to go


# --- one problem ----------------------------------------------------------------------------------

OPTIONS = Options(
    n_bins=2,
    strategy="quantile",
    region_ratio=10,
    test_size=0.5,
    swap=False,
    by_curve=False,
    n_permutations=19,
    folds=3,
    confidence_level=0.9,
    features=columns("a", "b"),
)


def problem_of(n=120, seed=0, weighted=True, effect=0.1):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    region = rng.integers(3, size=n)
    chance = np.clip(p + effect * (region - 1), 0, 1)
    y = (rng.random(n) < chance).astype(int)
    weight = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    X = np.column_stack([region, rng.normal(size=n)]).astype(float)
    return GroupingProblem(pairs(p), pairs(y), weight, X, ["rest", "event"])


def expected_fit(score, problem, bins, measured, region, rules, curve, options, rng):
    """All terms of the measured samples; names of regions as they are given."""
    level, forecast, target = bins[measured], problem.forecast[measured], problem.target[measured]
    weight = problem.weight[measured]
    terms = partition_terms(score, level, region, forecast, target, curve, weight)
    names = ("plugin", "bias", "induced", "variance", "lower_bound", "calibration", "correction")
    values = {name: getattr(terms, name) for name in names}
    loss = score.loss(problem.target, problem.forecast)
    values["mean_loss"] = np.average(loss, weights=problem.weight)
    values["refinement"] = np.average(score.loss(target, curve), weights=weight)
    values["pvalue"] = permutation_pvalue(
        level, region, forecast, target - curve, weight, options.n_permutations, rng
    )
    table = region_table(problem.events, level, region, rules, forecast, target, curve, weight, 0.9)
    return values, table


def smoothed_curve(problem):
    return QuantileBins(4).fit(problem.forecast, problem.target, problem.weight).smooth_held_out()


def assert_fit(fit, values):
    for name, value in values.items():
        assert getattr(fit, name) == pytest.approx(value, rel=1e-11, nan_ok=True), name


@pytest.mark.parametrize("score", [Brier(), LogLoss()], ids=repr)
def test_one_problem_with_a_half_that_is_measured(score):
    problem, smoother = problem_of(), QuantileBins(4)
    bins = level_sets(problem.forecast, 2, "quantile")
    rng = np.random.RandomState(5)
    half = stratified_half(problem.forecast, bins, 0.5, rng)
    fits = {}
    for measured in (half, ~half):
        curve = smoother.fit(
            problem.forecast[~measured], problem.target[~measured], problem.weight[~measured]
        ).predict(problem.forecast[measured])
        number = np.unique(3 * bins[measured] + problem.features[measured, 0], return_inverse=True)
        rules = [f"FirstColumn region {int(k) % 3}" for k in number[0]]
        fits[measured is half] = expected_fit(
            score, problem, bins, measured, number[1], rules, curve, OPTIONS, rng
        )
    model = FirstColumn()
    half_fit = fit_partition(problem, score, smoother, model, OPTIONS, 5)
    values, table = fits[True]
    assert 0.02 < values["pvalue"] < 1
    assert_fit(half_fit, values)
    assert half_fit.table == table
    assert (half_fit.n_regions, half_fit.n_measured, half_fit.singletons) == (6, 60, 0)
    assert np.isnan(half_fit.scale)
    # Both directions: means, the square of the mean standard error, twice the smaller p-value.
    both = fit_partition(problem, score, smoother, model, replace(OPTIONS, swap=True), 5)
    other_values, other_table = fits[False]
    mean = {name: (values[name] + other_values[name]) / 2 for name in values}
    mean["variance"] = ((values["variance"] ** 0.5 + other_values["variance"] ** 0.5) / 2) ** 2
    mean["pvalue"] = min(1, 2 * min(values["pvalue"], other_values["pvalue"]))
    assert_fit(both, mean)
    assert (both.n_regions, both.n_measured, both.singletons) == (12, 120, 0)
    halved = [replace(r, share=r.share / 2, harm=r.harm / 2) for r in table + other_table]
    assert both.table == halved
    # through the door of all methods
    again = fit_problem(problem, score, smoother, model, None, OPTIONS, "partition", 5)
    assert again == half_fit


def test_options_reach_the_fit():
    def fit(partitioner=None, **changes):
        options = replace(OPTIONS, **changes)
        return fit_partition(problem_of(), Brier(), QuantileBins(4), partitioner, options, 0)

    plain = fit()
    assert fit(region_ratio=5).n_regions > plain.n_regions and fit(test_size=0.3).n_measured == 36
    assert fit(strategy="uniform").plugin != plain.plugin
    assert math.isnan(fit(n_permutations=0).pvalue)
    assert any("a" in region.rule for region in plain.table)
    assert fit("kmeans").table[0].rule.startswith("KMeans region")


def test_one_problem_with_given_regions():
    """All samples are measured; the curve is held out; single samples join the largest region."""
    problem, options = problem_of(), replace(OPTIONS, n_permutations=99)
    names = np.array(["north", "south", "east"], dtype=object)[problem.features[:, 0].astype(int)]
    bins = level_sets(problem.forecast, 2, "quantile")
    lonely = np.flatnonzero(bins == 1)[3]
    names[lonely] = "alone"
    fit = fit_given_regions(problem, Brier(), QuantileBins(4), names, options, 3)
    largest = pd.Series(names[bins == 1]).mode()[0]
    joined = np.where(names == "alone", largest, names)
    label = np.array([f"{b} {name}" for b, name in zip(bins, joined, strict=True)])
    order, number = np.unique(label, return_inverse=True)
    rules = [f"region {name.split()[1]}" for name in order]
    curve, rng = smoothed_curve(problem), np.random.RandomState(3)
    values, table = expected_fit(
        Brier(), problem, bins, bins >= 0, number, rules, curve, options, rng
    )
    assert 0.02 < values["pvalue"] < 1
    assert_fit(fit, values)
    strip = [replace(region, region=0) for region in fit.table]
    assert strip == [replace(region, region=0) for region in table]
    assert fit.n_regions == 7 and fit.singletons == pytest.approx(1 / 7)
    assert fit.n_measured == 120
    same = fit_problem(problem, Brier(), QuantileBins(4), None, names, options, "partition", 3)
    assert same == fit


def test_level_sets_of_one_sample_are_left_out():
    """A first level set of a single sample changes nothing but the count and the mean loss."""
    problem = problem_of(weighted=False)
    p = 0.4 + 0.6 * problem.forecast[:, 1]
    p[7] = 0.1
    problem = replace(problem, forecast=pairs(p))
    region, options = problem.features[:, 0], replace(OPTIONS, strategy="uniform", n_bins=3)
    fit = fit_given_regions(problem, Brier(), QuantileBins(4), region, options, 0)
    bins = level_sets(problem.forecast, 3, "uniform")
    assert np.bincount(bins)[0] == 1
    keep = bins > 0
    curve, rng = smoothed_curve(problem)[keep], np.random.RandomState(0)
    number = np.unique(3 * bins[keep] + region[keep], return_inverse=True)[1]
    values, _ = expected_fit(
        Brier(), problem, bins, keep, number, list("abcdef"), curve, options, rng
    )
    assert_fit(fit, values)
    assert len(fit.table) == 6 and fit.n_regions == 7 and fit.n_measured == 120


@pytest.mark.parametrize("score", [Brier(), LogLoss()], ids=repr)
def test_one_problem_with_a_model(score):
    """Weighted means of what a model saves, their spread, and a one-sided normal test."""
    problem = problem_of()
    fit = fit_risk(problem, score, QuantileBins(4), LinearRegression(), OPTIONS, 0)
    curve = smoothed_curve(problem)
    labels = problem.target.argmax(axis=1)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(labels, labels))
    terms = risk_terms(problem, score, curve, LinearRegression(), folds, 0)
    share = problem.weight / problem.weight.sum()
    bound = share @ terms.differences
    before = score.loss(problem.target, problem.forecast)
    after = score.loss(problem.target, curve)
    mean = share @ terms.slope
    error = math.sqrt(2 * np.sum((share * (terms.slope - mean)) ** 2))
    values = {
        "lower_bound": bound,
        "variance": np.sum((share * (terms.differences - bound)) ** 2),
        "calibration": share @ (before - after),
        "mean_loss": share @ before,
        "refinement": share @ after,
        "pvalue": norm.sf(mean / error),
        "scale": terms.scale,
    } | dict.fromkeys(("plugin", "bias", "induced", "correction"), math.nan)
    assert_fit(fit, values)
    assert 0.01 < fit.pvalue < 0.5
    assert (fit.table, fit.n_regions, fit.n_measured, fit.singletons) == ([], 0, 120, 0.0)


def test_the_default_model_one_that_says_nothing_and_few_samples():
    problem = problem_of()

    def fit(partitioner, method):
        return fit_problem(problem, Brier(), QuantileBins(4), partitioner, None, OPTIONS, method, 4)

    by_model, both, regions = (fit(None, method) for method in ("risk", "auto", "partition"))
    assert by_model == fit_risk(problem, Brier(), QuantileBins(4), None, OPTIONS, 4)
    names = ("plugin", "bias", "induced", "n_regions", "n_measured", "singletons", "table")
    assert both == replace(by_model, **{name: getattr(regions, name) for name in names})
    problem = replace(problem_of(weighted=False), features=np.zeros((120, 2)))
    silent = fit(DummyRegressor(strategy="constant", constant=0.0), "risk")
    assert silent.pvalue == 1 and silent.lower_bound == 0 and silent.variance == 0
    # of the other methods tests/grouping/test_grouping.py has the words
    four = fit_risk(problem_of(4), Brier(), QuantileBins(1), LinearRegression(), OPTIONS, 0)
    assert four.n_measured == 4
    with pytest.raises(ValueError, match="^Every region has a single sample: use fewer bins"):
        options = replace(OPTIONS, n_bins=3)
        fit_given_regions(problem_of(3), Brier(), QuantileBins(1), "abc", options, 0)
