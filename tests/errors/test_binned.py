"""The binned family: golden values, powers, and edges that weights do not move."""

import numpy as np
import pytest
from golden import golden_input, golden_rows, needs_golden

import skcalib as s


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


#: Quantity -> options of `calibration_error` from the parameters of a row.
GOLDEN = {
    "ece": lambda row: uniform(row["bins"]),
    "tce2": lambda row: uniform(row["bins"], norm="l2"),
    "ece_uwb": lambda row: uniform(row["B"], of_f24(row)),
    "ece_umb": lambda row: {"n_bins": row["B"], "notion": of_f24(row)},
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
    for params, value in rows:
        assert s.calibration_error(y, proba, **GOLDEN[quantity](params)) == pytest.approx(
            value, rel=1e-9
        )


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_golden_debiased(name):
    """Theirs gives the samples that are left over to the first bins.

    It subtracts the variance of the label, ours that of the residual.
    """
    y, proba, rows = golden(name, "tce2sq_debiased_unclipped")
    assert len(rows) == 2
    for params, value in rows:
        chunks = np.array_split(np.sort(proba.max(axis=1)), params["bins"])
        edges = {"notion": "top_label", "n_bins": [0, *(chunk[-1] for chunk in chunks[:-1]), 1]}
        options = {"norm": "l2", "squared": True, **edges}
        found = s.calibration_error(y, proba, **options)
        (bins,) = s.reliability_bins(y, proba, **edges)
        label = bins.mean_label * (1 - bins.mean_label) / (bins.mass - 1)
        shares = bins.mass / bins.mass.sum()
        assert found - shares @ label == pytest.approx(value, rel=1e-9)
        ours = s.calibration_error(y, proba, debiased=True, **options)
        assert found - shares @ bins.gap_variance == pytest.approx(ours, rel=1e-9)


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_golden_edges_and_kolmogorov_smirnov(name):
    y, proba, rows = golden(name, "umb_boundaries")
    for params, value in rows:
        (bins,) = s.reliability_bins(y, proba, n_bins=params["B"], notion=of_f24(params))
        np.testing.assert_allclose(bins.edges[1:], value, rtol=1e-12)
    for _, value in golden(name, "ks_ties_merged")[2]:
        found = s.ks_calibration_error(y, proba, notion="top_label")
        assert found == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("p", [1, 1.5, 2, 10.0])
@pytest.mark.parametrize("notion", ["top_label", "classwise"])
def test_any_power(multiclass, p, notion):
    """TCE_p and CWCE_p of G22 from the gaps of the bins, and an interval that holds them."""
    options = {"notion": notion, "n_bins": 7}
    bins = s.reliability_bins(*multiclass, **options)
    powers = [np.average(np.abs(b.gap) ** p, weights=b.mass) for b in bins]
    found = s.calibration_error(*multiclass, norm=p, **options)
    assert found == pytest.approx(np.mean(powers) ** (1 / p), rel=1e-12)
    if p in (1, 2):
        assert found == s.calibration_error(*multiclass, norm=f"l{p}", **options)
    options |= {"metric": s.calibration_error, "norm": p}
    interval = s.calibration_error_interval(*multiclass, **options)
    assert 0 <= interval.low <= found <= interval.high <= 1 and interval.estimate == found
    assert (interval.method == "limits of norms") == (p not in (1, 2))
    assert interval.conservative or p == 2


def test_the_largest_power_is_the_largest_gap(multiclass):
    largest = s.calibration_error(*multiclass, norm="max")
    assert s.calibration_error(*multiclass, norm=np.inf) == largest
    for p in (400, 4000):
        assert s.calibration_error(*multiclass, norm=p) == pytest.approx(largest, rel=20 / p)


def test_the_root_of_a_negative_estimate_is_zero():
    y, p = [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]
    options = {"norm": "l2", "debiased": True, "n_bins": 1, "notion": "canonical"}
    assert s.calibration_error(y, p, squared=True, **options) == pytest.approx(-1 / 12)  # not 0
    assert s.calibration_error(y, p, **options) == 0
