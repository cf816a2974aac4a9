"""The histogram tree against that of scikit-learn, and its rules against the rows they name."""

import numpy as np
import pandas as pd
import pytest
from conftest import rule_holds
from sklearn.tree import DecisionTreeClassifier

from skcalib.data.features import Feature
from skcalib.grouping.partition import BalancedStump, HistogramTree, quantile_codes

NAMES = list("abcdef")
FEATURES = [Feature(name, k) for k, name in enumerate(NAMES)]


def make_codes(seed, *, n_classes=2, missing=0.0):
    """500 rows of few-valued features, labels that depend on them, codes and edges."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, [3, 5, 8, 10], size=(500, 4)).astype(float)
    lean = 1 / (1 + np.exp(-(X[:, 1] - 2) * (X[:, 2] - 3) / 4))
    labels = rng.binomial(n_classes - 1, 0.1 + 0.8 * lean)
    X[rng.random(X.shape) < missing] = np.nan
    assert set(labels) == set(range(n_classes)) and np.nanstd(X, axis=0).min() > 0
    return X, labels, *quantile_codes(X, np.random.RandomState(0))


def test_few_values_have_bins_of_their_own():
    X = np.array([[3.0, 7.0], [1.0, 7.0], [2.0, 7.0], [np.nan, np.nan], [1.0, 7.0]])
    codes, edges = quantile_codes(X, np.random.RandomState(0))
    assert [edge.tolist() for edge in edges] == [[1.5, 2.5], []]
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, [[2, 0], [0, 0], [1, 0], [255, 255], [0, 0]])
    codes, edges = quantile_codes(np.array([[1.0], [np.nextafter(1, 2)]]), None)
    assert edges[0] == 1 and codes.ravel().tolist() == [0, 1]  # an edge belongs below


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_values_are_cut_into_equal_masses(dtype):
    X = np.random.default_rng(0).exponential(size=(8000, 2)).astype(dtype)
    codes, _ = quantile_codes(X, np.random.RandomState(0), 16)
    for j in range(2):
        np.testing.assert_allclose(np.bincount(codes[:, j]), 500, atol=2)
        order = np.argsort(X[:, j])
        assert (np.diff(codes[order, j].astype(int)) >= 0).all()


def test_edges_are_learned_from_some_rows_only():
    X = np.random.default_rng(0).normal(size=(2000, 1))
    first, again, another_seed = (
        quantile_codes(X, np.random.RandomState(s), 8, 500)[0] for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, another_seed)
    np.testing.assert_allclose(np.bincount(first.ravel()) / len(X), 1 / 8, atol=0.06)


@pytest.mark.parametrize(
    ("n_leaves", "least"), [(2, 1), (3, 1), (5, 1), (9, 1), (8, 7), (8, 30), (8, 80)]
)
@pytest.mark.parametrize(
    ("n_classes", "missing", "scale"),
    [(2, 0.0, 0), (3, 0.0, 0), (2, 0.15, 0), (2, 0.0, 1), (3, 0.0, 1e-20), (2, 0.0, 1e20)],
)
def test_tree_is_the_exact_greedy_one(n_classes, missing, scale, n_leaves, least):
    """That of scikit-learn, for which missing values lie above all others, with equal weights or
    others of any scale. Leaves hold samples, not weight.
    """
    X, labels, codes, _ = make_codes(1, n_classes=n_classes, missing=missing)
    weight = np.random.default_rng(5).uniform(0.001, 5, len(X)) if scale else None
    scaled = scale * weight if scale else None
    limits = {"max_leaf_nodes": n_leaves, "min_samples_leaf": least}
    leaf = HistogramTree(**limits).fit(codes, labels, n_classes, scaled).apply(codes)
    peer, filled = DecisionTreeClassifier(random_state=0, **limits), np.nan_to_num(X, nan=99.0)
    peer_leaf = peer.fit(filled, labels, weight).apply(filled)
    pairs = set(zip(leaf.tolist(), peer_leaf.tolist(), strict=True))
    assert len(pairs) == len(set(leaf)) == len(set(peer_leaf)) == peer.get_n_leaves()
    assert np.bincount(leaf).min() >= least


def test_nothing_to_split_and_blocks_of_rows(set_sizes):
    _, labels, codes, edges = make_codes(7)
    pure = HistogramTree(9).fit(codes, np.zeros_like(labels), 2)
    flat = HistogramTree(9).fit(np.zeros_like(codes), labels, 2)
    small = HistogramTree(9, 300).fit(codes, labels, 2)
    for tree in (pure, flat, small):
        assert not tree.apply(codes).any()
        assert tree.rules(edges, FEATURES, np.zeros(4, dtype=bool)) == ["all"]
    whole = HistogramTree(9).fit(codes, labels, 2)
    set_sizes(table_entries=100)
    blocks = HistogramTree(9).fit(codes, labels, 2)
    np.testing.assert_array_equal(whole.apply(codes), blocks.apply(codes))


@pytest.mark.parametrize("missing", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_rules_name_exactly_the_rows_of_their_leaves(seed, missing):
    """Also for rows that the fit has not seen, and values beyond the ones it has."""
    X, labels, codes, edges = make_codes(10 + seed, missing=missing)
    half = len(X) // 2
    tree = HistogramTree(12).fit(codes[:half], labels[:half], 2)
    leaf, rules = tree.apply(codes), tree.rules(edges, FEATURES, np.isnan(X).any(axis=0))
    frame = pd.DataFrame(X, columns=NAMES[:4])
    assert len(rules) == 12 and len(set(rules)) == 12
    for k, rule in enumerate(rules):
        np.testing.assert_array_equal(rule_holds(rule, frame), leaf == k, err_msg=rule)


@pytest.mark.parametrize(
    ("first", "rules"),
    [(3, ["a is not missing", "a is missing"]), (1, ["a <= 0.5", "(a > 0.5 or a is missing)"])],
)
def test_missing_values_are_a_reason_to_split(first, rules):
    codes, edges = quantile_codes(np.array([[0.0], [1.0], [2.0], *[[np.nan]] * 3]), None)
    tree = HistogramTree(2).fit(codes, (np.arange(6) >= first).astype(int), 2)
    assert tree.rules(edges, FEATURES, np.ones(1, dtype=bool)) == rules
    np.testing.assert_array_equal(tree.apply(codes), np.arange(6) >= first)


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
@pytest.mark.parametrize("seed", range(5))
def test_stump_cuts_in_halves_where_it_gains_most(seed, n_samples, n_classes, dtype, set_sizes):
    """Both sides have half of the samples, up to one; an integer weight acts as repetition."""
    set_sizes(table_entries=(6, 2)[seed % 2] * n_samples)  # all features, or two
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6)).astype(dtype)
    labels = rng.integers(n_classes, size=n_samples)
    weight = rng.integers(1, 4, n_samples).astype(float) if seed > 2 else np.ones(n_samples)
    stump = BalancedStump().fit(X, labels, n_classes, weight)
    gains = [halves_by_sorting(x, labels, weight, n_classes) for x in X.T]
    rules = stump.rules(FEATURES, np.zeros(6, dtype=bool))
    if max(gains) < 1e-9 * n_samples:
        assert stump.feature_ == -1 and not stump.apply(X).any() and rules == ["all"]
        return
    assert gains[stump.feature_] == pytest.approx(max(gains), rel=1e-9)
    sides = np.bincount(stump.apply(X)).tolist()
    assert sorted(sides) == [n_samples // 2, n_samples - n_samples // 2]
    name = NAMES[stump.feature_]
    assert rules[0].startswith(f"{name} <= ") and rules[1].startswith(f"{name} > ")


THIRDS = np.repeat([0.0, 1.0, 2.0], 10)
COUNT, MISSING = np.arange(30), np.full(30, np.nan)


@pytest.mark.parametrize(
    ("x", "second", "rules"),
    [
        # The larger gain of the cuts at 0.5 (10 and 20) and 1.5 (20 and 10).
        (THIRDS, THIRDS == 0, ["a <= 0.5", "a > 0.5"]),
        (THIRDS, THIRDS == 2, ["a <= 1.5", "a > 1.5"]),
        # The most equal cut of a feature, although another one of it would gain more.
        (np.repeat([0.0, 1, 2, 3], [10, 4, 1, 15]), COUNT >= 10, ["a <= 2.5", "a > 2.5"]),
        # Missing values lie above all others, in the rules too.
        (
            np.where(COUNT < 20, COUNT, MISSING),
            COUNT >= 15,
            ["a <= 14.5", "(a > 14.5 or a is missing)"],
        ),
        (
            np.where(COUNT < 12, COUNT, MISSING),
            COUNT >= 12,
            ["a is not missing", "a is missing"],
        ),
        # They may be cut off beside the median too, from a third of the samples.
        (
            np.where(COUNT < 20, COUNT, MISSING),
            COUNT >= 20,
            ["a is not missing", "a is missing"],
        ),
        (
            np.where(COUNT < 21, COUNT, MISSING),
            COUNT >= 21,
            ["a <= 14.5", "(a > 14.5 or a is missing)"],
        ),
    ],
)
def test_ties_and_missing_values_of_a_stump(x, second, rules):
    """A feature with ties at its median is cut beside them (at a third, say tests/laws)."""
    stump = BalancedStump().fit(x[:, None], second.astype(int), 2)
    assert stump.rules(FEATURES, np.isnan([x]).any(axis=1)) == rules
    is_second = rule_holds(rules[1], pd.DataFrame({"a": x}))
    np.testing.assert_array_equal(stump.apply(x[:, None]), is_second)


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
