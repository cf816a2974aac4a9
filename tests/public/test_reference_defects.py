"""The known defects of other packages, from the end of REFERENCE: `DEFECTS` names their tests."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import skcalib
from skcalib.datasets import make_tempered_simplex, make_widmann

# --- "a p-value of -7e-12 (1 - cdf at large n: use sf)" -------------------------------------------


def test_no_tail_is_a_difference_from_one():
    """In the whole library a distribution function is never subtracted from 1."""
    for file in Path(skcalib.__file__).parent.rglob("*.py"):
        assert not re.search(r"1(\.0)? - [\w.]*\.?(cdf|ndtr)\(", file.read_text()), file


# --- "p = 1.0 in a phantom bin" -------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_one_belongs_to_the_last_bin(strategy):
    """A forecast of exactly 1 opens no bin of its own behind the last one."""
    p = np.array([0.05, 0.15, 0.95, 1.0, 1.0, 0.0])
    y = np.array([0, 0, 1, 1, 0, 0])
    (bins,) = skcalib.reliability_bins(y, p, n_bins=5, strategy=strategy, notion="canonical")
    assert bins.edges[0] == 0 and bins.edges[-1] == 1 and len(bins.edges) <= 6
    assert bins.index.max() == len(bins.edges) - 2
    assert bins.mass.sum() == 6 and bins.mean_score.max() <= 1
    error = skcalib.calibration_error(y, p, n_bins=5, strategy="uniform", notion="canonical")
    assert error == pytest.approx((abs(0.2) + abs(2 - 2.95)) / 6)


# --- "nan for the classes that are not the top one" -----------------------------------------------


def test_classes_that_are_never_the_top_one_have_numbers():
    """A rare class is never predicted; its calibration error is a number, and counts."""
    data = make_tempered_simplex(600, 2, random_state=0)
    rare = np.full((600, 1), 0.02)
    proba = np.hstack([0.98 * data.y_proba, rare])
    y = data.y.copy()
    y[:6] = 2
    assert not np.any(proba.argmax(axis=1) == 2)
    records = skcalib.reliability_bins(y, proba, notion="classwise", n_bins=5)
    assert len(records) == 3
    for record in records:
        assert np.isfinite(record.mean_label).all() and np.isfinite(record.mean_score).all()
    assert np.isfinite(skcalib.calibration_error(y, proba, notion="classwise"))
    assert np.isfinite(skcalib.proper_calibration_error(y, proba, notion="classwise"))
    only = skcalib.calibration_error(y == 2, rare[:, 0], notion="canonical", n_bins=5)
    assert only == pytest.approx(abs(6 / 600 - 0.02))


# --- "a crash when a bin holds one sample" --------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_bin_may_hold_a_single_sample(norm):
    p = np.array([0.05, 0.31, 0.33, 0.35, 0.95])
    y = np.array([0, 0, 1, 0, 1])
    options = {"n_bins": 10, "strategy": "uniform", "notion": "canonical", "norm": norm}
    assert np.isfinite(skcalib.calibration_error(y, p, **options))
    (bins,) = skcalib.reliability_bins(y, p, n_bins=10, strategy="uniform", notion="canonical")
    assert bins.mass.tolist() == [1, 3, 1]
    assert bins.gap_variance[[0, 2]].tolist() == [np.inf, np.inf]  # it says so, and breaks nothing
    if norm == "l2":
        alone = skcalib.calibration_error(y, p, **options, debiased=True, squared=True)
        gap, variance = 1 / 3 - 0.33, np.var((y - p)[1:4], ddof=1) / 3
        assert alone == pytest.approx(3 / 5 * (gap**2 - variance))
    assert np.isfinite(skcalib.hosmer_lemeshow_test(y, p, strategy="uniform").statistic)


# --- traps of the papers' own code, named in the sections on P24 and W19 ----------------------


@pytest.mark.parametrize("smoother", [None, "kernel", "binning"])
def test_certain_forecasts_and_absent_classes_are_no_trap(smoother):
    """P24: p = 0 or 1 raises or gives nan; a class absent from y raises."""
    y = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 1])
    certain = np.eye(3)[y]
    certain[:4] = [0.3, 0.3, 0.4]
    for loss in ("brier", "log"):
        options = {"loss": loss, "method": "direct", "labels": [0, 1, 2], "smoother": smoother}
        assert skcalib.proper_calibration_error(y, certain, **options) >= 0
        assert np.isfinite(skcalib.calibration_upper_bound(y, certain, loss=loss, labels=[0, 1, 2]))


def test_a_negative_kernel_estimate_is_no_evidence():
    """W19: the published code squares it."""
    data = make_widmann(250, model="M1", random_state=1)
    tests = [skcalib.distribution_free_bound(data.y[i:], data.y_proba[i:]) for i in range(30)]
    negative = [test for test in tests if test.estimate < 0]
    assert negative and all(test.pvalue == 1 for test in negative)


# --- the list is complete -------------------------------------------------------------------------

#: The words of REFERENCE, each with its test: above, or in the file that is named.
DEFECTS = {
    "a p-value of -7e-12 (1 - cdf at large n: use `sf`)": (
        "test_binary_tests.py::test_pvalues_are_never_negative"
    ),
    "a one-sided Spiegelhalter test": "test_binary_tests.py::test_spiegelhalter_is_two_sided",
    "p = 1.0 in a phantom bin": "test_one_belongs_to_the_last_bin",
    "nan for the classes that are not the top one": (
        "test_classes_that_are_never_the_top_one_have_numbers"
    ),
    "a decomposition of multiclass input read as several models": (
        "test_proper_errors.py::test_loss_is_calibration_plus_refinement"
    ),
    "a crash when a bin holds one sample": "test_a_bin_may_hold_a_single_sample",
    "Platt on probabilities instead of logits": (
        "test_recalibration.py::test_maps_of_one_logit_are_logistic_regressions"
    ),
}


@pytest.mark.parametrize("where", DEFECTS.values(), ids=DEFECTS)
def test_tests_of_defects_exist(where):
    file, _, name = where.rpartition("::")
    (path,) = Path(__file__).parents[1].rglob(file or Path(__file__).name)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_defect_of_the_reference_has_its_test():
    reference = Path(__file__).parents[3] / "shared" / "REFERENCE.md"
    if not reference.exists():
        pytest.skip("the reference is not here")
    (listed,) = re.findall(
        r"Known defects elsewhere, each a test here: (.*?)\n- ", text_of(reference)
    )
    found = [re.sub(r" \(worse log loss.*", "", one) for one in listed.split("; ")]
    assert [one.rstrip(".") for one in found] == list(DEFECTS)


def text_of(path):
    """Lines that a list item was broken into are one line again."""
    return re.sub(r"\n +", " ", path.read_text(encoding="utf-8"))
