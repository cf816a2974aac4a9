"""The binned family: golden values, powers, and the recipe of the guide for predicted classes."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from golden import golden_input, golden_rows, needs_golden
from scipy.special import softmax

import skcalib as s

PAGE = Path(__file__).parents[2] / "doc" / "user_guide" / "binned_errors.rst"


def golden(name, quantity):
    y, proba = golden_input(name)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    rows = [row for row in golden_rows(name) if row["quantity"] == quantity]
    return y.ravel(), proba, [(row["params"], row["value"]) for row in rows]


def uniform(n_bins, notion="top_label", **options):
    return {"strategy": "uniform", "n_bins": n_bins, "notion": notion, **options}


def of_f24(row):
    return "top_label" if row["on"] == "toplabel" else "canonical"


def f24_bins(row):
    """Their bins: the same number where it divides n, else their edges, as bins then differ.

    Theirs have floor(n b / B) samples below each edge, which depends on the name of the event.
    """
    if row["n"] % row["B"] == 0:
        return row["B"]
    score = np.sort(row["proba"].max(axis=1) if row["on"] == "toplabel" else row["proba"][:, 1])
    last = next(edges for of, edges in row["boundaries"] if of == (row["B"], row["on"]))[:-1]
    return [0, *midway(score, last), 1]


def midway(score, last):
    """Edges between the last scores of bins and the following ones."""
    return (last + score[np.searchsorted(score, last, side="right")]) / 2


#: Quantity -> options of `calibration_error` from the parameters of a row.
GOLDEN = {
    "ece": lambda row: uniform(row["bins"]),
    "tce2": lambda row: uniform(row["bins"], norm="l2"),
    "ece_uwb": lambda row: uniform(row["B"], of_f24(row)),
    "ece_umb": lambda row: {"n_bins": f24_bins(row), "notion": of_f24(row)},
    "cwce_binned_mean_root": lambda row: uniform(row["bins"], "classwise", norm=f"l{row['p']}"),
    "cwce_binned_sum": lambda row: uniform(
        row["bins"], "classwise", norm=f"l{row['p']}", squared=row["p"] == 2, reduce="sum"
    ),
    # G22: the sum over classes, then the root; a root of the sum is no sum of roots.
    "cwce_binned_paper": lambda row: uniform(
        row["bins"], "classwise", norm=f"l{row['p']}", reduce="sum"
    ),
    "binary_ce_p1": lambda row: uniform(row["bins"], "canonical", norm=f"l{row['p']}"),
}
FEWEST = {"ece_uwb": 5, "ece_umb": 5, "tce2": 2, "binary_ce_p1": 6}


@needs_golden
@pytest.mark.parametrize("quantity", GOLDEN)
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_golden(name, quantity):
    y, proba, rows = golden(name, quantity)
    assert len(rows) >= FEWEST.get(quantity, 1) or (name, quantity) == ("tri300", "binary_ce_p1")
    boundaries = [
        ((params_of_edge["B"], params_of_edge["on"]), u)
        for params_of_edge, u in golden(name, "umb_boundaries")[2]
    ]
    for params, value in rows:
        params = {**params, "n": len(y), "proba": proba, "boundaries": boundaries}
        error = s.calibration_error(y, proba, **GOLDEN[quantity](params))
        assert error == pytest.approx(value, rel=1e-9)


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_golden_debiased(name):
    """Theirs gives the samples that are left over to the first bins.

    It subtracts the variance of the label, ours that of the residual.
    """
    y, proba, rows = golden(name, "tce2sq_debiased_unclipped")
    assert len(rows) == 2
    for params, value in rows:
        score = np.sort(proba.max(axis=1))
        last = [chunk[-1] for chunk in np.array_split(score, params["bins"])[:-1]]
        edges = {"notion": "top_label", "n_bins": [0, *midway(score, last), 1]}
        options = {"norm": "l2", "squared": True, **edges}
        error = s.calibration_error(y, proba, **options)
        (bins,) = s.reliability_bins(y, proba, **edges)
        label = bins.mean_label * (1 - bins.mean_label) / (bins.mass - 1)
        shares = bins.mass / bins.mass.sum()
        assert error - shares @ label == pytest.approx(value, rel=1e-9)
        ours = s.calibration_error(y, proba, debiased=True, **options)
        assert error - shares @ bins.gap_variance == pytest.approx(ours, rel=1e-9)


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_golden_edges_and_kolmogorov_smirnov(name):
    y, proba, rows = golden(name, "umb_boundaries")
    tested = 0
    for params, value in rows:
        if len(y) % params["B"]:
            continue  # theirs are cut lower: see `f24_bins`
        (bins,) = s.reliability_bins(y, proba, n_bins=params["B"], notion=of_f24(params))
        score = np.sort(proba.max(axis=1) if params["on"] == "toplabel" else proba[:, 1])
        last = [score[score <= edge][-1] for edge in bins.edges[1:-1]]  # below each cut
        np.testing.assert_allclose(last, value[:-1], rtol=1e-12)
        np.testing.assert_allclose(bins.edges[1:-1], midway(score, last), rtol=1e-12)
        tested += 1
    assert tested >= 4
    for _, value in golden(name, "ks_ties_merged")[2]:
        error = s.ks_calibration_error(y, proba, notion="top_label")
        assert error == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("notion", ["auto", "top_label", "classwise"])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_rows_of_bins(notion, strategy, n_classes, weighted):
    """Sums over the rows are those of the bins, and shares those of the error."""
    rng = np.random.default_rng(n_classes)
    proba = rng.dirichlet(np.ones(n_classes), 180)
    proba[:60] = rng.multinomial(10, np.full(n_classes, 1 / n_classes), 60) / 10  # ties on edges
    y = (proba.cumsum(axis=1) < rng.random(180)[:, None]).sum(axis=1).clip(0, n_classes - 1)
    weight = 3 * rng.random(180) * (rng.random(180) < 0.8) if weighted else np.ones(180)
    options = {"notion": notion, "strategy": strategy, "n_bins": 6}
    if weighted:
        options["sample_weight"] = weight
    plain = s.reliability_bins(y, proba, **options)
    records = s.reliability_bins(y, proba, rows=True, **options)
    errors = []
    for before, bins in zip(plain, records, strict=True):
        rows = bins.rows
        assert before.rows is None and len(rows.bin) == 180
        np.testing.assert_array_equal(before.mass, bins.mass)
        for values, of_bins in (
            (1, 1),
            (rows.score, bins.mean_score),
            (rows.label, bins.mean_label),
        ):
            sums = np.bincount(rows.bin, weight * values, len(bins.edges) - 1)[bins.index]
            np.testing.assert_allclose(sums, bins.mass * of_bins, rtol=1e-9)
        some = weight > 0
        gaps = dict(zip(bins.index.tolist(), bins.gap, strict=True))
        np.testing.assert_array_equal(rows.gap[some], [gaps[b] for b in rows.bin[some].tolist()])
        assert rows.share.sum() == pytest.approx(1) and not rows.share[~some].any()
        shares = np.bincount(rows.bin, rows.share, len(bins.edges) - 1)[bins.index]
        size = bins.mass * np.abs(bins.gap)
        np.testing.assert_allclose(shares, size / size.sum(), rtol=1e-9, atol=1e-15)
        errors.append(np.average(np.abs(rows.gap), weights=weight))
        assert all(np.isfinite(getattr(rows, name)).all() for name in ("gap", "share", "score"))
    assert s.calibration_error(y, proba, **options) == pytest.approx(np.mean(errors), rel=1e-9)
    order = rng.permutation(180)
    if weighted:
        options["sample_weight"] = weight[order]
    for record, permuted in zip(
        records, s.reliability_bins(y[order], proba[order], rows=True, **options), strict=True
    ):
        np.testing.assert_array_equal(record.rows.bin[order], permuted.rows.bin)
        np.testing.assert_allclose(record.rows.share[order], permuted.rows.share, rtol=1e-9)


def test_rows_without_an_error_or_without_samples():
    (bins,) = s.reliability_bins([0, 1, 0, 1], [0, 1, 0.5, 0.5], n_bins=2, rows=True)
    assert not bins.rows.share.any() and not bins.rows.gap.any()
    (bins,) = s.reliability_bins(
        [0, 1, 1], [0.1, 0.2, 0.9], strategy="uniform", n_bins=3, sample_weight=[1, 2, 0], rows=True
    )
    assert bins.rows.bin.tolist() == [0, 0, 2] and bins.rows.gap[2] == bins.rows.share[2] == 0
    sketch = s.ForecastSketch([0, 1]).fit([0, 1], [0.2, 0.7])
    with pytest.raises(ValueError, match="^rows=True needs the samples, which a sketch does not"):
        s.reliability_bins(sketch, rows=True)


@pytest.mark.parametrize("p", [1, 1.5, 2, 10.0])
@pytest.mark.parametrize("notion", ["top_label", "classwise"])
def test_any_power(multiclass, p, notion):
    """TCE_p and CWCE_p of G22 from the gaps of the bins, and an interval that holds them."""
    y, proba = multiclass
    options = {"notion": notion, "n_bins": 7}
    bins = s.reliability_bins(y, proba, **options)
    powers = [np.average(np.abs(b.gap) ** p, weights=b.mass) for b in bins]
    error = s.calibration_error(y, proba, norm=p, **options)
    assert error == pytest.approx(np.mean(powers) ** (1 / p), rel=1e-12)
    if p in (1, 2):
        assert error == s.calibration_error(y, proba, norm=f"l{p}", **options)
    options |= {"metric": s.calibration_error, "norm": p}
    interval = s.calibration_error_interval(y, proba, **options)
    assert 0 <= interval.low <= error <= interval.high <= 1 and interval.estimate == error
    assert (interval.method == "limits of norms") == (p not in (1, 2))
    assert interval.conservative or p == 2


def test_the_largest_power_is_the_largest_gap(multiclass):
    y, proba = multiclass
    largest = s.calibration_error(y, proba, norm="max")
    assert s.calibration_error(y, proba, norm=np.inf) == largest
    for p in (400, 4000):
        assert s.calibration_error(y, proba, norm=p) == pytest.approx(largest, rel=20 / p)


def test_the_root_of_a_negative_estimate_is_zero():
    y, p = [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]
    options = {"norm": "l2", "debiased": True, "n_bins": 1, "notion": "canonical"}
    assert s.calibration_error(y, p, squared=True, **options) == pytest.approx(-1 / 12)  # not 0
    assert s.calibration_error(y, p, **options) == 0


@pytest.fixture(scope="module")
def recipe():
    """The function `top_label_errors` of the guide: top-label errors by predicted class."""
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    (source,) = [example.source for example in examples if "def top_label_errors" in example.source]
    names = {"np": np}
    exec(source, names)
    return names["top_label_errors"]


def regular():
    """Labels and over-confident forecasts of three classes, without random numbers."""
    i = np.arange(1, 601)
    logits = 2.5 * np.column_stack([np.sin(i), np.sin(2.3 * i), np.cos(1.7 * i)])
    truth, proba = (softmax(scale * logits, axis=1) for scale in (0.5, 1.0))
    u = i * 0.4142135623730951 % 1
    return (u[:, None] > truth.cumsum(axis=1)[:, :2]).sum(axis=1), proba


@pytest.mark.parametrize(
    ("n_edges", "expected"),
    [(6, 0.1567280371011013), (11, 0.1633499457808152), (16, 0.16447921231640059)],
)
def test_mapie(recipe, n_edges, expected):
    """top_label_ece of MAPIE 1.6 with num_bins=n_edges and split_strategy="uniform"."""
    options = {"strategy": "uniform", "n_bins": n_edges - 1}
    errors = recipe(*regular(), [0, 1, 2], s.calibration_error, **options)
    assert np.mean([error for _, error in errors.values()]) == pytest.approx(expected, rel=1e-12)


def test_by_hand(recipe):
    """Class "a" is predicted with .8 and right in 2 of 4 cases, "b" with .6 and always right."""
    proba = np.array([[0.8, 0.2]] * 4 + [[0.4, 0.6]] * 2)
    y = np.array(["a", "a", "b", "b", "b", "b"])
    errors = recipe(y, proba, ["a", "b"], s.calibration_error, n_bins=1)
    assert errors["a"] == pytest.approx((4 / 6, 0.3))
    assert errors["b"] == pytest.approx((2 / 6, 0.4))
    wide, above = np.column_stack([proba, np.zeros(6)]), {"threshold": 0.7, "n_bins": 1}
    assert recipe(y, wide, ["a", "b", "c"], s.calibration_error, **above) == {"a": errors["a"]}
    error = s.calibration_error(y, proba, notion="top_label", n_bins=1)  # the errors cancel
    assert error == s.calibration_error(y, proba, notion="top_label", n_bins=[0, 1])
    assert error == pytest.approx(abs(4 * 0.3 - 2 * 0.4) / 6)
