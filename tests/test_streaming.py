"""Streams: the same numbers as from all samples at once, whatever the chunks and the merges."""

import copy
import pickle
from fractions import Fraction
from functools import reduce
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import get_routing_for_object

from skcalib import IncrementalReliability, calibration_error, reliability_bins, streaming
from skcalib.notions import Canonical, ClassGroups, Classwise

RECORDS = ("edges", "index", "mass", "mean_score", "mean_label", "gap_variance")
EDGES = [0.0, 0.2, 0.35, 0.5, 0.501, 0.9, 1.0]
NOTIONS = ("top_label", "classwise", Classwise("sum"), ClassGroups([[0, 2]]))
MEASURES = (
    {},
    {"norm": "l2"},
    {"norm": "max"},
    {"norm": "l2", "squared": True},
    {"norm": "l2", "debiased": True},
    {"norm": "l2", "squared": True, "debiased": True},
)


def sample(n_samples, n_classes=3, *, seed=0, weighted=False):
    """Labels, forecasts with ties on edges, and weights of several magnitudes or None."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n_samples)
    proba[::5] = np.round(10 * proba[::5]) / 10
    proba[::5, -1] = 1 - proba[::5, :-1].sum(axis=1)
    proba[::5] = np.abs(proba[::5])
    proba[:n_classes] = np.eye(n_classes)[: len(proba)]
    y = (proba.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    weight = rng.gamma(0.5, 1.0, n_samples) * 10.0 ** rng.integers(-3, 3, n_samples)
    weight[1::7] = 0.0
    return y, proba, weight if weighted else None


def chunks(arrays, sizes):
    """Consecutive rows of arrays; None stays None."""
    stops = np.cumsum(sizes)
    for stop, size in zip(stops, sizes, strict=True):
        yield tuple(None if a is None else a[stop - size : stop] for a in arrays)


def stream_of(parts, **options):
    stream = IncrementalReliability(**{"labels": [0, 1, 2], **options})
    for part in parts:
        stream.partial_fit(*part)
    return stream


def sums(stream):
    return stream._sums.scale * stream._sums.high[:, [0, 1, 2, 4]]


def same_bins(found, expected, **tolerance):
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        for name in RECORDS:
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), **tolerance)


# --- the same numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_bins", [1, 15, EDGES], ids=str)
@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_agrees_with_the_whole(notion, n_bins, weighted):
    data = sample(2000, weighted=weighted)
    whole = {
        "notion": notion,
        "n_bins": n_bins,
        "strategy": "uniform",
        "labels": [0, 1, 2],
        "sample_weight": data[2],
    }
    stream = stream_of(chunks(data, [10, 700, 300, 990]), n_bins=n_bins, notion=notion)
    for measure in MEASURES:
        expected = calibration_error(*data[:2], **whole, **measure)
        found = stream.calibration_error(**measure)
        assert type(found) is float
        assert found == pytest.approx(expected, rel=0, abs=1e-13)
    expected = reliability_bins(*data[:2], **whole)
    same_bins(stream.reliability_bins(), expected, rtol=1e-9, atol=1e-13)


def test_one_chunk_is_the_function():
    y, proba, weight = sample(500, weighted=True)
    for own in (None, weight):
        stream = stream_of([(y, proba, own)], n_bins=7)
        whole = {"n_bins": 7, "strategy": "uniform", "sample_weight": own}
        for measure in MEASURES:
            assert stream.calibration_error(**measure) == calibration_error(
                y, proba, **whole, **measure
            )
        same_bins(stream.reliability_bins(), reliability_bins(y, proba, **whole), rtol=0)


def test_a_single_column():
    y, proba, _ = sample(400, 2, seed=3)
    column = proba[:, 1]
    stream = stream_of(
        [(y[:100], column[:100]), (y[100:], proba[100:])], labels=[0, 1], notion="canonical"
    )
    expected = calibration_error(y, column, notion="canonical", strategy="uniform", n_bins=15)
    assert stream.calibration_error() == pytest.approx(expected, abs=1e-14)
    turned = IncrementalReliability([1, 0], notion=Canonical()).partial_fit(y, 1 - column)
    assert turned.calibration_error() == pytest.approx(
        calibration_error(
            y, 1 - column, pos_label=0, notion="canonical", strategy="uniform", n_bins=15
        ),
        abs=1e-14,
    )


def test_chunks_may_lack_classes_and_have_one_sample():
    y, proba, _ = sample(60, seed=1)
    names = np.array(["a", "b", "c"])
    stream = IncrementalReliability(labels=names, n_bins=4)
    for k in np.argsort(y, kind="stable"):  # classes one after the other, a sample at a time
        stream.partial_fit(names[[y[k]]], proba[[k]])
    expected = calibration_error(names[y], proba, n_bins=4, strategy="uniform")
    assert stream.calibration_error() == pytest.approx(expected, abs=1e-14)
    assert stream.n_samples_seen_ == 60 and stream.classes_.tolist() == ["a", "b", "c"]


def test_edges_of_a_pilot():
    y, proba, _ = sample(3000, seed=2)
    (pilot,) = reliability_bins(y[:500], proba[:500], n_bins=8)
    edges = np.unique(pilot.edges)
    stream = stream_of(chunks((y, proba), [500, 2500]), n_bins=edges)
    assert stream.calibration_error() == pytest.approx(
        calibration_error(y, proba, n_bins=edges), abs=1e-14
    )
    np.testing.assert_array_equal(stream.edges_, edges)


def test_other_kinds_of_input():
    pandas = pytest.importorskip("pandas")
    y, proba, _ = sample(50, seed=4)
    names = np.array(["no", "maybe", "yes"])
    expected = stream_of([(y, proba)]).calibration_error()
    for labels, target, forecast in (
        (names, names[y].tolist(), pandas.DataFrame(proba)),
        (names, pandas.Series(names[y]), np.asfortranarray(proba)),
        ([0.0, 1.0, 2.0], y.astype(float), proba.tolist()),
    ):
        assert stream_of([(target, forecast)], labels=labels).calibration_error() == expected
    single = stream_of([(y, proba.astype(np.float32))]).calibration_error()
    assert single == calibration_error(y, proba.astype(np.float32), n_bins=15, strategy="uniform")


# --- laws of merging ------------------------------------------------------------------------------


def parts_of(weighted, n_parts=5, **options):
    data = sample(1500, seed=7, weighted=weighted)
    return [stream_of([part], **options) for part in chunks(data, [1500 // n_parts] * n_parts)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("notion", ["top_label", "classwise"])
def test_merging_is_associative_and_commutative(notion, weighted):
    """Bit by bit, which compensation makes nearly certain and these seeds certain."""
    parts = parts_of(weighted, n_parts=5, notion=notion)
    expected = sums(reduce(IncrementalReliability.merge, parts))
    for order in permutations(parts):
        np.testing.assert_array_equal(sums(reduce(IncrementalReliability.merge, order)), expected)
    a, b, c, d, e = parts
    tree = a.merge(b).merge(c.merge(d.merge(e)))
    np.testing.assert_array_equal(sums(tree), expected)
    assert tree.n_samples_seen_ == sum(part.n_samples_seen_ for part in parts)


def test_merging_is_reading_on():
    data = sample(900, seed=8, weighted=True)
    one, two, three = chunks(data, [200, 300, 400])
    on = stream_of([one, two, three])
    merged = stream_of([one]).merge(stream_of([two, three]))
    np.testing.assert_array_equal(sums(on), sums(merged))
    assert on.calibration_error(norm="l2", debiased=True) == merged.calibration_error(
        norm="l2", debiased=True
    )


def test_nothing_is_neutral_and_nothing_is_changed():
    (part,) = parts_of(True, n_parts=1)
    empty = clone(part)
    before = copy.deepcopy(vars(part)["_sums"])
    for merged in (part.merge(empty), empty.merge(part)):
        assert merged is not part and merged.calibration_error() == part.calibration_error()
        merged.partial_fit([0], [[0.2, 0.3, 0.5]])
    assert not hasattr(empty, "edges_") and not hasattr(empty.merge(clone(empty)), "edges_")
    np.testing.assert_array_equal(part._sums.high, before.high)
    assert part.n_samples_seen_ == before.n_samples


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 299), max_size=12, unique=True),
    seed=st.integers(0, 10),
    weighted=st.booleans(),
)
def test_any_chunks(cuts, seed, weighted):
    data = sample(300, seed=seed, weighted=weighted)
    stops = [0, *sorted(cuts), 300]
    parts = [p for p in chunks(data, np.diff(stops)) if not weighted or p[2].sum() > 0]
    stream = stream_of(parts)
    expected = calibration_error(
        *data[:2], n_bins=15, strategy="uniform", sample_weight=data[2], labels=[0, 1, 2]
    )
    assert stream.calibration_error() == pytest.approx(expected, rel=0, abs=1e-13)


# --- precision ------------------------------------------------------------------------------------


def of_thousand_million():
    """1e9 forecasts: 25 doublings, and 500 other chunks, each lost in a naive sum.

    Doubling alone is exact for naive sums too. -> mean score, exact mean score.
    """
    scores = np.random.default_rng(0).random(50) / 10
    stream = IncrementalReliability([0, 1], n_bins=1, notion="canonical")
    stream.partial_fit(np.zeros(50), scores)
    for _ in range(25):
        stream = stream.merge(stream)
    one = IncrementalReliability([0, 1], n_bins=1, notion="canonical").partial_fit([0], [0.1])
    for _ in range(500):
        stream = stream.merge(one)
    assert stream.n_samples_seen_ == 50 * 2**25 + 500 > 1_000_000_000
    total = 2**25 * sum(map(Fraction, scores)) + 500 * Fraction(0.1)
    return stream, float(total / stream.n_samples_seen_)


def test_thousand_million_forecasts():
    """The mean keeps all its digits."""
    stream, expected = of_thousand_million()
    assert stream.calibration_error() == pytest.approx(expected, rel=4e-16)
    (bins,) = stream.reliability_bins()
    assert bins.mass.tolist() == [50 * 2**25 + 500]


def test_thousand_million_forecasts_detect_naive_sums(monkeypatch):
    """The test above fails if the rounding errors of the sums are dropped."""

    def naive(one, two):
        return one[0] + two[0], np.zeros_like(one[0])

    monkeypatch.setattr(streaming, "add_pairs", naive)
    stream, expected = of_thousand_million()
    assert abs(stream.calibration_error() / expected - 1) > 1e-14


def test_variance_of_thousand_million_forecasts():
    scores = np.random.default_rng(0).random(50) / 10
    stream = IncrementalReliability([0, 1], n_bins=1, notion="canonical")
    stream.partial_fit(np.zeros(50), scores)
    for _ in range(25):
        stream = stream.merge(stream)
    (bins,) = stream.reliability_bins()
    assert bins.gap_variance[0] == pytest.approx(np.var(scores) / (50 * 2**25), rel=1e-9)


def test_many_small_chunks_after_a_large_sum():
    """Two thousand chunks on top of 1e15 samples: each changes the sum by a part in 1e15."""
    stream = IncrementalReliability([0, 1], n_bins=1, notion="canonical")
    stream.partial_fit([0], [0.3], [1e15])
    one = IncrementalReliability([0, 1], n_bins=1, notion="canonical").partial_fit([0], [0.1])
    for _ in range(2_000):
        stream = stream.merge(one)
    score = stream._sums.scale * stream._sums.high[0, 1, 0]
    exact = Fraction(0.3) * 10**15 + 2_000 * Fraction(0.1)
    # The product 0.3 * 1e15 was rounded inside its chunk; the additions lose nothing.
    exact += Fraction(0.3 * 1e15) - Fraction(0.3) * 10**15
    assert abs(Fraction(score) - exact) <= Fraction(1, 32)
    naive = 0.3 * 1e15
    for _ in range(2_000):
        naive += 0.1
    assert abs(Fraction(naive) - exact) > 10


def test_whole_numbers_are_exact():
    """Weights that are whole numbers are counted without an error up to 2^53."""
    stream = IncrementalReliability([0, 1], n_bins=1, notion="canonical")
    stream.partial_fit([0], [0.5], [2.0**52])
    one = clone(stream).partial_fit([0], [0.5], [1.0])
    for merged in (stream.merge(one).merge(one), one.merge(stream.merge(one))):
        (bins,) = merged.reliability_bins()
        assert bins.mass.tolist() == [2**52 + 2] and merged.n_samples_seen_ == 3


def test_weights_of_any_scale():
    y, proba, weight = sample(300, seed=5, weighted=True)
    expected = stream_of(chunks((y, proba, weight), [100, 200]))
    for factor in (2.0**-900, 2.0**900):
        stream = stream_of(chunks((y, proba, weight * factor), [100, 200]))
        for measure in MEASURES:
            assert stream.calibration_error(**measure) == expected.calibration_error(**measure)
    # Beside weights of 1e300 those of 1 are rounding.
    stream = stream_of([(y, proba), (y[:9], proba[:9], np.full(9, 1e300))], n_bins=3)
    assert stream.calibration_error() == pytest.approx(
        stream_of([(y[:9], proba[:9])], n_bins=3).calibration_error(), rel=1e-12
    )


def test_whole_weights_are_repetitions():
    y, proba, _ = sample(200, seed=6)
    times = np.random.default_rng(0).integers(1, 5, 200)
    weighted = stream_of(chunks((y, proba, times), [50, 150]))
    repeated = stream_of([(np.repeat(y, times), np.repeat(proba, times, axis=0))])
    for norm in ("l1", "l2", "max"):
        found = weighted.calibration_error(norm=norm)
        assert found == pytest.approx(repeated.calibration_error(norm=norm), abs=1e-14)
    assert weighted.n_samples_seen_ == 200


def test_memory_does_not_grow():
    y, proba, _ = sample(5000, seed=9)
    sizes = []
    for n_samples in (50, 5000):
        stream = stream_of([(y[:n_samples], proba[:n_samples])] * 3)
        sizes.append(len(pickle.dumps(stream)))
    assert abs(sizes[1] - sizes[0]) < 20


# --- an object of scikit-learn --------------------------------------------------------------------


def test_parameters_clone_and_pickle():
    y, proba, _ = sample(100)
    stream = IncrementalReliability([0, 1, 2], n_bins=9, notion=Classwise("sum"))
    assert stream.get_params()["n_bins"] == 9
    assert "IncrementalReliability(" in repr(stream) and stream._repr_html_()
    assert stream.partial_fit(y, proba) is stream
    again = pickle.loads(pickle.dumps(stream))
    assert again.calibration_error() == stream.calibration_error()
    assert not hasattr(clone(stream), "edges_")
    assert copy.deepcopy(stream).partial_fit(y, proba).n_samples_seen_ == 200
    assert stream.n_samples_seen_ == 100


def test_fit_forgets():
    y, proba, _ = sample(100)
    stream = stream_of([(y, proba)])
    stream.set_params(n_bins=3).fit(y[:50], proba[:50])
    assert stream.n_samples_seen_ == 50 and len(stream.edges_) == 4
    assert (
        stream.calibration_error()
        == stream_of([(y[:50], proba[:50])], n_bins=3).calibration_error()
    )


def test_only_weights_can_be_routed():
    routing = get_routing_for_object(IncrementalReliability([0, 1]))
    assert set(routing.partial_fit.requests) == set(routing.fit.requests) == {"sample_weight"}


def test_nothing_passed_in_is_modified():
    y, proba, weight = sample(100, weighted=True)
    edges = np.array(EDGES)
    copies = [a.copy() for a in (y, proba, weight, edges)]
    for array in (y, proba, weight, edges):
        array.setflags(write=False)
    stream_of([(y, proba, weight)] * 2, n_bins=edges).calibration_error(norm="l2", debiased=True)
    for array, old in zip((y, proba, weight, edges), copies, strict=True):
        np.testing.assert_array_equal(array, old)


# --- refusals -------------------------------------------------------------------------------------


def test_not_fitted():
    stream = IncrementalReliability([0, 1])
    for question in (stream.calibration_error, stream.reliability_bins):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            question()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": None}, "labels must list the classes in the order of the columns"),
        ({"labels": [0]}, "at least two classes"),
        ({"labels": [0, 1, 1]}, "has a class twice"),
        ({"labels": [0, 1]}, "labels lists 2 classes but y_proba has 3 columns"),
        ({"labels": [0, 1, 3]}, "y_true contains 2, which is none of the classes"),
        ({"n_bins": "auto"}, "fixed before its first sample"),
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1"),
        ({"n_bins": [0.1, 1]}, "increase strictly from 0 to 1"),
        ({"notion": "joint"}, "notion must be one of"),
        ({"notion": "canonical"}, "problems of two columns"),
    ],
)
def test_parameters_are_checked(options, message):
    y, proba, _ = sample(30)
    with pytest.raises(ValueError, match=message):
        stream_of([(y, proba)], **options)


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (([], np.empty((0, 3))), "y_true is empty"),
        (([0], [[0.5, 0.5, 0.5]]), "must sum to 1"),
        (([0], [[np.nan, 0.5, 0.5]]), "contains NaN"),
        (([0, 1], [[0.2, 0.3, 0.5]]), "same number of samples"),
        (([0], [[0.2, 0.3, 0.5]], [0.0]), "sums to zero"),
        (([0], [[0.2, 0.3, 0.5]], [-1.0]), "finite and not negative"),
        (([[0.2, 0.3, 0.5]], [0]), "one label per sample"),
        (([0.3, 0.4], [0, 1]), "continuous values"),
    ],
)
def test_a_refused_chunk_leaves_no_trace(chunk, message):
    y, proba, _ = sample(30)
    stream = stream_of([(y, proba)])
    before = stream._sums
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(*chunk)
    assert stream._sums is before and stream.n_samples_seen_ == 30


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_bins": 3}, "n_bins"),
        ({"labels": [2, 1, 0]}, "labels"),
        ({"notion": "classwise"}, "notion"),
    ],
)
def test_parameters_do_not_change_on_the_way(change, name):
    y, proba, _ = sample(30)
    stream, other = stream_of([(y, proba)]), stream_of([(y, proba)], **change)
    message = f"with different {name} cannot be combined"
    for refused in (lambda: stream.merge(other), lambda: clone(stream).merge(other)):
        with pytest.raises(ValueError, match=message):
            refused()
    stream.set_params(**change)
    for refused in (lambda: stream.partial_fit(y, proba), lambda: stream.merge(other)):
        with pytest.raises(ValueError, match=message):
            refused()
    with pytest.raises(ValueError, match="Only another IncrementalReliability"):
        other.merge(3)


def test_options_are_checked_before_anything_else():
    stream = IncrementalReliability([0, 1])
    with pytest.raises(ValueError, match="norm must be"):
        stream.calibration_error(norm="l3")
    with pytest.raises(ValueError, match="debiased=True needs norm='l2'"):
        stream.calibration_error(debiased=True)
    stream.partial_fit([0, 1], [0.2, 0.8])
    with pytest.raises(ValueError, match="bins of at least two samples"):
        stream.set_params().fit([0], [0.2]).calibration_error(norm="l2", debiased=True)
