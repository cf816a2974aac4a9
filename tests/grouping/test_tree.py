"""The histogram tree against that of scikit-learn, and its rules against the rows they name."""

import numpy as np
import pandas as pd
import pytest
from conftest import rule_holds
from sklearn.tree import DecisionTreeClassifier

from skcalib.data.features import Feature
from skcalib.grouping import partition as trees
from skcalib.grouping.partition import BalancedStump, FeatureBins, HistogramTree

NAMES = ["a", "b", "c", "d"]


def features_of(names):
    return [Feature(name, k) for k, name in enumerate(names)]


def assert_same_leaves(leaf, X, labels, weight=None, **parameters):
    """As the best-first tree of scikit-learn, for which missing values lie above all others."""
    peer = DecisionTreeClassifier(random_state=0, **parameters)
    peer_leaf = peer.fit(np.nan_to_num(X, nan=99.0), labels, weight).apply(
        np.nan_to_num(X, nan=99.0)
    )
    pairs = set(zip(leaf.tolist(), peer_leaf.tolist(), strict=True))
    assert len(pairs) == len(set(leaf)) == len(set(peer_leaf)) == peer.get_n_leaves()


def make_codes(seed, *, n_samples=500, n_classes=2, missing=0.0):
    """Few-valued features, labels that depend on them, bins and codes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, [3, 5, 8, 10], size=(n_samples, 4)).astype(float)
    lean = 1 / (1 + np.exp(-(X[:, 1] - 2) * (X[:, 2] - 3) / 4))
    labels = rng.binomial(n_classes - 1, 0.1 + 0.8 * lean)
    X[rng.random(X.shape) < missing] = np.nan
    assert set(labels) == set(range(n_classes)) and np.nanstd(X, axis=0).min() > 0
    bins = FeatureBins().fit(X, np.random.RandomState(0))
    return X, labels, bins, bins.transform(X)


def test_few_values_have_bins_of_their_own():
    X = np.array([[3.0, 7.0], [1.0, 7.0], [2.0, 7.0], [np.nan, np.nan], [1.0, 7.0]])
    bins = FeatureBins().fit(X, np.random.RandomState(0))
    np.testing.assert_array_equal(bins.edges_[0], [1.5, 2.5])
    assert len(bins.edges_[1]) == 0
    codes = bins.transform(X)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, [[2, 0], [0, 0], [1, 0], [255, 255], [0, 0]])
    assert bins.missing_.tolist() == [True, True]
    bins = FeatureBins().fit(np.array([[0.0], [1.0]]), None)
    codes = bins.transform(np.array([[-5.0], [0.5], [np.nextafter(0.5, 1)], [9.0]]))
    np.testing.assert_array_equal(codes.ravel(), [0, 0, 1, 1])  # an edge belongs below


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_values_are_cut_into_equal_masses(dtype):
    X = np.random.default_rng(0).exponential(size=(8000, 2)).astype(dtype)
    bins = FeatureBins(n_bins=16).fit(X, np.random.RandomState(0))
    codes = bins.transform(X)
    for j in range(2):
        np.testing.assert_allclose(np.bincount(codes[:, j]), 500, atol=2)
        order = np.argsort(X[:, j])
        assert (np.diff(codes[order, j].astype(int)) >= 0).all()
    assert not bins.missing_.any()


def test_edges_are_learned_from_some_rows_only():
    X = np.random.default_rng(0).normal(size=(2000, 1))
    few = FeatureBins(n_bins=8, subsample=500)
    first, again, another_seed = (few.fit(X, np.random.RandomState(s)).edges_[0] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, another_seed)
    share = np.bincount(few.transform(X).ravel()) / len(X)
    np.testing.assert_allclose(share, 1 / 8, atol=0.06)


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 5, 9])
@pytest.mark.parametrize(("n_classes", "missing"), [(2, 0.0), (3, 0.0), (2, 0.15)])
def test_tree_is_the_exact_greedy_one(n_classes, missing, max_leaf_nodes):
    X, labels, _, codes = make_codes(1, n_classes=n_classes, missing=missing)
    tree = HistogramTree(max_leaf_nodes).fit(codes, labels, n_classes)
    assert_same_leaves(tree.apply(codes), X, labels, max_leaf_nodes=max_leaf_nodes)
    assert len(tree.value_) == max_leaf_nodes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("min_samples_leaf", [1, 7, 30, 80])
def test_leaves_hold_enough_samples(min_samples_leaf, weighted):
    """Samples, not weight: with weights the counts are kept beside them."""
    X, labels, _, codes = make_codes(2)
    weight = np.random.default_rng(5).uniform(0.001, 5, len(X)) if weighted else None
    tree = HistogramTree(8, min_samples_leaf).fit(codes, labels, 2, weight)
    options = {"max_leaf_nodes": 8, "min_samples_leaf": min_samples_leaf}
    assert_same_leaves(tree.apply(codes), X, labels, weight, **options)
    assert np.bincount(tree.apply(codes)).min() >= min_samples_leaf


def test_values_are_frequencies():
    """Whatever the scale of the weights."""
    X, labels, _, codes = make_codes(4, n_classes=3)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    for scale in (1.0, 1e-20, 1e20):
        tree = HistogramTree(6).fit(codes, labels, 3, scale * weight)
        cells = tree.apply(codes), labels, weight
        expected = pd.crosstab(*cells, aggfunc="sum", normalize="index")
        assert len(tree.value_) == 6
        np.testing.assert_allclose(tree.value_, expected, rtol=1e-9, atol=1e-12)


def test_nothing_to_split_and_blocks_of_rows(monkeypatch):
    _, labels, bins, codes = make_codes(7)
    pure = HistogramTree(9).fit(codes, np.zeros_like(labels), 2)
    flat = HistogramTree(9).fit(np.zeros_like(codes), labels, 2)
    small = HistogramTree(9, 300).fit(codes, labels, 2)
    for tree in (pure, flat, small):
        assert len(tree.value_) == 1 and (tree.apply(codes) == 0).all()
        assert tree.rules(bins.edges_, features_of(NAMES), bins.missing_) == ["all"]
    whole = HistogramTree(9).fit(codes, labels, 2)
    monkeypatch.setattr(trees, "_BLOCK", 100)
    blocks = HistogramTree(9).fit(codes, labels, 2)
    np.testing.assert_array_equal(whole.apply(codes), blocks.apply(codes))


@pytest.mark.parametrize("missing", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_rules_name_exactly_the_rows_of_their_leaves(seed, missing):
    """Also for rows that the fit has not seen, and values beyond the ones it has."""
    X, labels, bins, codes = make_codes(10 + seed, missing=missing)
    half = len(X) // 2
    tree = HistogramTree(12).fit(codes[:half], labels[:half], 2)
    leaf, rules = tree.apply(codes), tree.rules(bins.edges_, features_of(NAMES), bins.missing_)
    frame = pd.DataFrame(X, columns=NAMES)
    assert len(rules) == 12 and len(set(rules)) == 12
    for k, rule in enumerate(rules):
        np.testing.assert_array_equal(rule_holds(rule, frame), leaf == k, err_msg=rule)


def test_missing_values_are_a_reason_to_split():
    X = np.array([[0.0], [1.0], [2.0], [np.nan], [np.nan], [np.nan]])
    bins = FeatureBins().fit(X, None)
    codes = bins.transform(X)
    tree = HistogramTree(2).fit(codes, np.array([0, 0, 0, 1, 1, 1]), 2)
    rules = tree.rules(bins.edges_, features_of(["age"]), bins.missing_)
    assert rules == ["age is not missing", "age is missing"]
    np.testing.assert_array_equal(tree.apply(codes), [0, 0, 0, 1, 1, 1])
    later = HistogramTree(2).fit(codes, np.array([0, 1, 1, 1, 1, 1]), 2)
    rules = later.rules(bins.edges_, features_of(["age"]), bins.missing_)
    assert rules == ["age <= 0.5", "(age > 0.5 or age is missing)"]


def halves_by_sorting(x, labels, weight, n_classes):
    """Largest reduction of the sum of squares by a cut of one feature into halves, up to one."""
    order, gains = np.argsort(x), []
    whole = np.bincount(labels, weight, n_classes)
    for size in {len(x) // 2, len(x) - len(x) // 2}:
        first = order[:size]
        left = np.bincount(labels[first], weight[first], n_classes)
        gains.append(sum(np.sum(side**2) / side.sum() for side in (left, whole - left)))
    return max(gains) - np.sum(whole**2) / whole.sum()


@pytest.mark.parametrize("n_samples", [2, 3, 24, 25, 101])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_stump_cuts_in_halves_where_it_gains_most(n_samples, n_classes, dtype, monkeypatch):
    """Both sides have half of the samples, up to one; an integer weight acts as repetition."""
    names, missing = list("abcdef"), np.zeros(6, dtype=bool)
    for seed in range(5):
        monkeypatch.setattr(trees, "_BLOCK", (6, 2)[seed % 2] * n_samples)  # all features, or two
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_samples, 6)).astype(dtype)
        labels = rng.integers(n_classes, size=n_samples)
        weight = rng.integers(1, 4, n_samples).astype(float) if seed > 2 else np.ones(n_samples)
        stump = BalancedStump().fit(X, labels, n_classes, weight)
        gains = [halves_by_sorting(x, labels, weight, n_classes) for x in X.T]
        rules = stump.rules(features_of(names), missing)
        if max(gains) < 1e-9 * n_samples:
            assert stump.feature_ == -1 and not stump.apply(X).any() and rules == ["all"]
            continue
        assert gains[stump.feature_] == pytest.approx(max(gains), rel=1e-9)
        sides = np.bincount(stump.apply(X)).tolist()
        assert sorted(sides) == [n_samples // 2, n_samples - n_samples // 2]
        name = names[stump.feature_]
        assert rules[0].startswith(f"{name} <= ") and rules[1].startswith(f"{name} > ")


def test_ties_of_a_stump():
    """A feature with ties at its median is cut beside them (at a third, say tests/laws)."""
    names, missing = ["a"], np.zeros(1, dtype=bool)
    # The larger gain of the cuts at 0.5 (10 and 20) and 1.5 (20 and 10).
    x = np.repeat([0.0, 1.0, 2.0], 10)[:, None]
    for last, rule in ((0, "a <= 0.5"), (2, "a <= 1.5")):
        stump = BalancedStump().fit(x, (x[:, 0] == last).astype(int), 2)
        assert stump.rules(features_of(names), missing)[0] == rule
    # The most equal cut of a feature, although another one of it would gain more.
    x = np.repeat([0.0, 1.0, 2.0, 3.0], [10, 4, 1, 15])[:, None]
    stump = BalancedStump().fit(x, (x[:, 0] > 0).astype(int), 2)
    assert stump.rules(features_of(names), missing)[0] == "a <= 2.5"


def test_missing_values_of_a_stump():
    """They lie above all others, in the rules too."""
    x = np.concatenate([np.arange(20.0), np.full(10, np.nan)])[:, None]
    missing = np.ones(1, dtype=bool)
    stump = BalancedStump().fit(x, (np.arange(30) >= 15).astype(int), 2)
    assert stump.cut_ == 14.5
    assert stump.rules(features_of(["a"]), missing) == ["a <= 14.5", "(a > 14.5 or a is missing)"]
    np.testing.assert_array_equal(stump.apply(x), np.arange(30) >= 15)
    x[12:20] = np.nan
    stump = BalancedStump().fit(x, (np.arange(30) >= 12).astype(int), 2)
    assert stump.rules(features_of(["a"]), missing) == ["a is not missing", "a is missing"]
    np.testing.assert_array_equal(stump.apply(x), np.isnan(x[:, 0]))
    # They may be cut off beside the median too, from a third of the samples.
    for n_missing, rule in ((10, "a is not missing"), (9, "a <= 14.5")):
        x = np.arange(30.0)[:, None]
        x[30 - n_missing :] = np.nan
        stump = BalancedStump().fit(x, (np.arange(30) >= 30 - n_missing).astype(int), 2)
        assert stump.rules(features_of(["a"]), missing)[0] == rule


def test_extreme_values_of_a_stump():
    """The cut separates neighbouring numbers, and no sum overflows."""
    for low, high in (
        (1.0, np.nextafter(1, 2)),
        (0.0, 5e-324),
        (-1.7e308, 1.7e308),
        (np.float32(1), np.nextafter(np.float32(1), np.float32(2))),
    ):
        x = np.repeat(np.array([low, high]), 5)[:, None]
        stump = BalancedStump().fit(x, np.repeat([0, 1], 5), 2)
        np.testing.assert_array_equal(stump.apply(x), np.repeat([0, 1], 5))
