"""The binned errors, number by number: sums over bins by plain loops, edges by hand, words."""

import math
from itertools import pairwise

import numpy as np
import pytest
from golden import P3, Y3

from skcalib import calibration_error, optimal_n_bins, reliability_bins
from skcalib.data.notions import Classwise
from skcalib.errors.binned import BinSums, bin_numbers, check_bins, quantile_edges, uniform_edges

WEIGHT = np.array([1.0, 2, 0.5, 3, 1, 1, 4, 0.25, 1, 2, 1, 0.75, 2, 1])
EDGES = (0, 0.25, 0.3, 0.5, 0.9, 1)
CENTRED = np.array([0, 0.25, 0.3, 0.5, 0.5, 0.9, 1])  # the same, and a bin for 1/2
PROBLEMS = {
    "top_label": [(P3.max(axis=1), P3.argmax(axis=1) == Y3)],
    "classwise": [(P3[:, k], k == Y3) for k in range(3)],
}


def inside(low, high, score):
    """Which scores are in a bin: those on its edges if they are nearer to 1/2 there."""
    on_low, on_high = score == low, score == high
    return (
        (low < score) & (score < high)
        | on_low & (low < 0.5)
        | on_high & (high > 0.5)
        | (on_low & on_high)
    )


def sums_by_hand(score, event, weight, edges):
    """Rows (mass, score, label, square mass, square gap) for each bin."""
    cells = np.array([inside(low, high, score) for low, high in pairwise(edges)], dtype=float)
    assert (cells.sum(axis=0) == 1).all()
    values = weight * [score**0, score, event, weight, (event - score) ** 2]
    return values @ cells.T


def rows_of(sums):
    return [sums.mass, sums.score, sums.label, sums.square_mass, sums.square_gap]


def power_by_hand(score, event, weight, edges, norm, debiased=False):
    """Weighted mean of |gap|^p over bins; without the variance of the mean residual."""
    gaps, shares = [], []
    for low, high in pairwise(edges):
        rows = inside(low, high, score)
        if not rows.any():
            continue
        share, residual = weight[rows] / weight[rows].sum(), (event - score)[rows]
        gap, q = share @ residual, share @ share
        power = abs(gap) ** {"l1": 1, "l2": 2, "max": 1}[norm]
        if debiased:
            power = 0 if len(share) == 1 else power - share @ (residual - gap) ** 2 * q / (1 - q)
        gaps.append(power)
        shares.append(weight[rows].sum() / weight.sum())
    return max(gaps) if norm == "max" else np.dot(shares, gaps)


@pytest.mark.parametrize(
    ("score", "n_bins", "edges"),
    [
        # nearest to 7 b / 3 = 2.3 and 4.7; of 7 b / 4 = 1.75, 3.5, 5.25 the second is a draw, in
        # which .4 goes up, towards 1/2
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 3, [0, 0.25, 0.55, 1]),
        ([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], 4, [0, 0.25, 0.35, 0.55, 1]),
        ([0.1, 0.2, 0.3], 1, [0, 1]),
        ([0.1, 0.2, 0.3], 2, [0, 0.15, 1]),
        ([0.9, 0.8, 0.7], 2, [0, 0.85, 1]),
        ([0.3, 0.5, 0.7], 2, [0, 0.4, 0.6, 1]),  # the centre has no nearer side
        ([0.2, 0.5, 0.5, 0.7], 2, [0, 0.35, 0.6, 1]),
        ([0.2, 0.3, 0.5, 0.5, 0.7], 2, [0, 0.4, 1]),  # 2 and 4 below: 2 is nearer to 2.5
        ([0.1, 0.2], 2, [0, 0.15, 1]),
        ([0.1, 0.2, 0.3], 5, [0, 0.15, 0.25, 1]),  # 3 b / 5 = .6, 1.2, 1.8, 2.4
        ([0.4], 3, [0, 1]),
        ([0.2, 0.2, 0.2, 0.2, 0.8, 0.8], 3, [0, 0.5, 1]),  # ties give an edge once
        ([0.0, 0.0, 0.3, 0.6], 2, [0, 0.15, 1]),
        ([0.3, 1.0, 1.0, 1.0], 2, [0, 0.65, 1]),  # 1 and 4 below: 1 is nearer to 2
        ([1.0, 1 + 1e-6, 1 + 2e-6], 3, [0, 1]),  # no edge at 1 but the last
        ([0.0, 0.0, 5e-324, 1.0], 2, [0, 5e-324, 1]),  # no number is midway
        # beside ties nor: an edge in the middle would be tied to both
        ([0.2, 0.2 + 1.5e-15, 0.6, 0.6 + 1.5e-15], 4, [0, 0.2 + 1.5e-15, 0.4 + 7.5e-16, 0.6, 1]),
    ],
)
def test_quantile_edges_by_hand(score, n_bins, edges):
    computed = quantile_edges(np.array(score), n_bins)
    np.testing.assert_allclose(computed, edges, rtol=4e-16, atol=0)
    shares = np.bincount(bin_numbers(np.array(score), computed), minlength=len(edges))[1:]
    np.testing.assert_array_equal(
        shares, [sum(scores_in_bin) for scores_in_bin in _held(score, edges)]
    )


def _held(score, edges):
    """Which scores lie in each bin, where an edge may be a score."""
    return [
        inside(low, high, np.array(score)) | (high == 1) & (np.array(score) > 1)
        for low, high in pairwise(edges)
    ]


def test_bins_at_the_door():
    bins = check_bins(np.int8(7), "quantile", 9)
    assert bins == 7 and type(bins) is int and check_bins(1, "quantile", 3) == 1
    assert check_bins("auto", "quantile", 1000) == 9 == optimal_n_bins(1000, strategy="quantile")
    assert len(check_bins("auto", "uniform", 1000)) == 10 and optimal_n_bins(1000) == 23
    roots = [check_bins("cube_root", "quantile", n) for n in (1, 3, 4, 1000, 1200)]
    assert roots == [1, 1, 2, 10, 11] and len(check_bins("cube_root", "uniform", 1000)) == 12
    np.testing.assert_array_equal(check_bins(np.int64(2), "uniform", 100), [0, 0.5, 0.5, 1])
    np.testing.assert_array_equal(check_bins(3, "uniform", 100), np.arange(4) / 3)
    centred = [0, 0.25, 0.5, 0.5, 0.75, 1]  # scores of 1/2 have their own bin
    np.testing.assert_array_equal(check_bins("auto", "uniform", 100), centred)
    bins = check_bins([0, 0.5, 1], "quantile", 100)
    assert bins.dtype == np.float64 and bins.tolist() == [0, 0.5, 0.5, 1]
    edges = np.array([0.0, 0.5, 1.0])
    assert check_bins(edges, "uniform", 3) is not edges  # nobody can move them later


@pytest.mark.parametrize("n_bins", [1, 2, 3, 7, 10, 15, 49, 100, 1000])
def test_every_edge_and_its_neighbours(n_bins):
    """Ties of an edge are nearer to 1/2, or are its own bin at 1/2; others lie beside it."""
    edges = uniform_edges(n_bins)
    tied = np.nextafter(edges, 2)[:-1], np.nextafter(edges, -1)[1:], edges[1:-1] + 4e-16
    beside = edges[:-1] + 3e-15, edges[1:] - 3e-15
    score = np.concatenate([edges, *tied, *beside, (edges[1:] + edges[:-1]) / 2])
    for shift in (0, 1e-13):  # with the second they are no longer i / B: by a search
        edges_given = np.array([0, *(edges[1:-1] + shift), 1.0])
        cuts = check_bins(edges_given, "uniform", 1)
        assert len(cuts) == len(edges_given) + (n_bins % 2 == 0 and shift == 0)
        expected = np.ones(len(score), dtype=int)
        for edge in edges_given[1:-1]:
            tie = min(1e-15, 1e-12 * edge)
            expected += score > edge + tie if edge >= 0.5 else score >= edge - tie
            if edge == 0.5:
                expected += score >= edge - tie
        sums = BinSums.of(score, np.zeros(len(score)), None, cuts)
        sizes = np.bincount(expected, minlength=len(cuts))[1:]
        np.testing.assert_array_equal(sums.mass, sizes)
        totals = np.bincount(expected, score, len(cuts))[1:]
        np.testing.assert_allclose(sums.score, totals, rtol=1e-12)


@pytest.mark.parametrize("edges", [uniform_edges(4), np.array([0, 0.3, 1.0])])
def test_zeros_and_probabilities_that_rounding_left_above_one(edges):
    score = np.array([0.1, 1.0, np.nextafter(1, 2), 1 + 9e-6])
    sums = BinSums.of(score, np.array([0, 1, 1, 0]), np.array([1.0, 2, 3, 4]), edges)
    assert (sums.mass[0], sums.mass[-1]) == (1, 9) and sums.mass.sum() == 10
    assert sums.label[-1] == 5 and sums.square_mass[-1] == 29
    assert sums.score[-1] == pytest.approx(9 + 4 * 9e-6, rel=1e-12)
    # the edges 1/2, 1/2: scores of 1/2 are between the others
    score = np.array([0.0, 0.4, 0.5, 0.5, 0.7])
    sums = BinSums.of(score, np.zeros(5), None, np.array([0, 0.5, 0.5, 1]))
    np.testing.assert_array_equal(sums.mass, [2, 2, 1])
    assert sums.without_empty_centre().edges.tolist() == [0, 0.5, 0.5, 1]
    sums = BinSums.of(score[score != 0.5], np.zeros(3), None, np.array([0, 0.5, 0.5, 1]))
    assert sums.without_empty_centre().edges.tolist() == [0, 0.5, 1]
    np.testing.assert_array_equal(sums.without_empty_centre().mass, [2, 1])


@pytest.mark.parametrize("edges", [uniform_edges(3), np.array([0, 0.2, 1.0])])
def test_more_samples_than_a_chunk(edges):
    """Nothing is lost or counted twice where one chunk ends and the next begins."""
    score = np.linspace(0, 1, 3 * (1 << 16) + 5)
    event = np.arange(len(score)) % 3 == 0
    weight = np.linspace(1, 2, len(score))
    rows = rows_of(BinSums.of(score, event, weight, edges))
    np.testing.assert_allclose(rows, sums_by_hand(score, event, weight, edges), rtol=1e-11)


def test_variance_of_a_mean_residual():
    """Infinite for one sample, or where one has all the weight up to 1e-9; never negative."""

    def variances(score, event, weight, edges):
        bins = {"n_bins": edges, "labels": [0, 1], "sample_weight": weight}
        return reliability_bins(event, score, **bins)[0].gap_variance

    score = [0.1, 0.2, 0.15, 0.4, 0.9]
    several = variances(score, [0, 1, 0, 1, 1], None, [0, 0.3, 0.5, 0.6, 1])
    expected = np.var([-0.1, 0.8, -0.15], ddof=1) / 3
    np.testing.assert_allclose(several, [expected, np.inf, np.inf], rtol=1e-12)
    same = variances([0.1] * 7, [0] * 7, [0.3] * 7, [0, 1])
    assert 0 <= same[0] < 1e-17
    for second, is_known in ((1e-12, False), (1e-3, True)):
        assert np.isfinite(variances([0.2, 0.4], [0, 1], [1, second], [0, 1])[0]) == is_known


def edges_of(score, n_bins, strategy):
    bins = check_bins(n_bins, strategy, len(score))
    return quantile_edges(score, bins) if isinstance(bins, int) else bins


@pytest.mark.parametrize("notion", PROBLEMS)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 3, EDGES], ids=["1", "3", "edges"])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_by_loops(notion, strategy, n_bins, weighted):
    """Every norm, squared or not, debiased or not, and mean or sum over the classes."""
    weight = WEIGHT if weighted else np.ones(14)
    options = {"notion": notion, "strategy": strategy, "n_bins": n_bins}
    if weighted:
        options["sample_weight"] = WEIGHT

    def powers(*arguments):
        return [
            power_by_hand(s, e, weight, edges_of(s, n_bins, strategy), *arguments)
            for s, e in PROBLEMS[notion]
        ]

    def error(**others):
        value = calibration_error(Y3, P3, **options, **others)
        assert type(value) is float
        return value

    l1, l2, largest = powers("l1"), powers("l2"), powers("max")
    square, unbiased = np.mean(l2), np.mean(powers("l2", True))
    assert error() == error(norm="l1") == pytest.approx(np.mean(l1), rel=1e-12)
    assert error(norm="l2") == pytest.approx(math.sqrt(square), rel=1e-12)
    assert error(norm="l2", squared=True) == pytest.approx(square, rel=1e-12)
    assert error(norm="max") == pytest.approx(max(largest), rel=1e-12)
    debiased = error(norm="l2", squared=True, debiased=True)
    assert debiased == pytest.approx(unbiased, rel=1e-11, abs=1e-15)
    root = error(norm="l2", debiased=True)
    assert root == pytest.approx(math.sqrt(max(unbiased, 0)), rel=1e-11)
    if notion == "classwise":
        assert error(reduce="sum") == pytest.approx(sum(l1), rel=1e-12)
        assert error(reduce="sum", norm="l2") == pytest.approx(math.sqrt(sum(l2)), rel=1e-12)
        options["notion"] = Classwise("sum")
        assert error(norm="max") == pytest.approx(max(largest), rel=1e-12)


@pytest.mark.parametrize("weight", [None, WEIGHT, 1024 * WEIGHT, 0.3 * WEIGHT])
@pytest.mark.parametrize("notion", PROBLEMS)
def test_records_of_the_bins(weight, notion):
    w = np.ones(14) if weight is None else weight
    records = reliability_bins(Y3, P3, notion=notion, n_bins=EDGES, sample_weight=weight)
    assert len(records) == len(PROBLEMS[notion])
    for record, (score, event) in zip(records, PROBLEMS[notion], strict=True):
        edges = CENTRED if (score == 0.5).any() else np.array(EDGES)
        mass, s, e, square_mass, square_gap = sums_by_hand(score, event, w, edges)
        there = np.flatnonzero(mass)
        np.testing.assert_array_equal(record.edges, edges)
        np.testing.assert_array_equal(record.index, there)
        np.testing.assert_allclose(record.mass, mass[there], rtol=1e-13)
        np.testing.assert_allclose(record.mean_score, s[there] / mass[there], rtol=1e-13)
        np.testing.assert_allclose(record.mean_label, e[there] / mass[there], rtol=1e-13)
        np.testing.assert_allclose(record.gap, (e - s)[there] / mass[there], atol=1e-15)
        q = (square_mass[there] / mass[there] ** 2).clip(0, 1)
        spread = square_gap[there] / mass[there] - record.gap**2
        variance = np.where(q < 1 - 1e-9, spread * q / np.where(q < 1 - 1e-9, 1 - q, 1), np.inf)
        np.testing.assert_allclose(record.gap_variance, variance, rtol=1e-10)


NO_EDGES = [[0, 1, 0.5], [0.1, 1], [0, 0.9], [0, 0.5, 0.5, 1], [0], [[0, 1]], [], [1], ["a", 1]]
NO_EDGES += [[0, np.nan, 1], [0, 1j], [[0, 1], [0]], [0, {}, 1]]
TWO_SAMPLES = {"sample_weight": np.isin(np.arange(14), [6, 7]), "n_bins": [0, 0.34, 0.4, 1]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            ({"n_bins": edges}, "must be numbers that increase strictly from 0 to 1")
            for edges in NO_EDGES
        ),
        ({"norm": 0.5}, "^norm must be 'l1', 'l2', 'max' or a number p of at least 1, got 0.5"),
        ({"squared": True}, "^squared=True omits the root of norm='l2', got norm='l1'"),
        ({"norm": "max", "squared": True}, "^squared=True omits the root of norm='l2', got"),
        ({"debiased": True}, "^debiased=True needs norm='l2': .* no unbiased correction is known"),
        (
            {"norm": "l2", "debiased": True, **TWO_SAMPLES},
            "^debiased=True needs bins of at least two samples",
        ),
        ({"notion": "top_label", "reduce": "sum"}, "^reduce='sum' is for notion='classwise' or"),
        ({"notion": "classwise", "reduce": "median"}, "^reduce must be "),
    ],
)
def test_words_of_refused_options(options, words):
    with pytest.raises(ValueError, match=words):
        calibration_error(Y3, P3, **options)
