"""The known defects of other packages, listed at the end of REFERENCE: each is a test here.

A test says what the defect was; longer studies of the same matter are named in `STUDIES`.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2
from sklearn.metrics import log_loss

import skcalib
from skcalib import (
    PlattScaling,
    calibration_error,
    calibration_upper_bound,
    compare_calibration,
    cumulative_test,
    distribution_free_bound,
    hosmer_lemeshow_test,
    kernel_calibration_test,
    proper_calibration_error,
    reliability_bins,
    score_decomposition,
    spiegelhalter_test,
)
from skcalib.datasets import make_tempered_simplex, make_widmann
from skcalib.scores import LogLoss
from skcalib.significance.chi_square_mixture import chi_square_mixture_sf

# --- "a p-value of -7e-12 (1 - cdf at large n: use sf)" -------------------------------------------


@pytest.mark.parametrize("n_samples", [100, 2000, 50_000])
def test_pvalues_are_never_negative(n_samples):
    """Tails come from survival functions: small, ordered, and never below zero."""
    data = make_tempered_simplex(n_samples, 2, score_temperature=0.3, random_state=0)
    y, p = data.y, data.y_proba[:, 1]
    tests = [spiegelhalter_test(y, p), hosmer_lemeshow_test(y, p), cumulative_test(y, p)]
    tests += [distribution_free_bound(y[:500], p[:500], statistic="biased")]
    tests += [kernel_calibration_test(y[:1000], p[:1000], random_state=0)]
    tests += [compare_calibration(y, data.posterior, data.y_proba)]
    for test in tests:
        assert 0 <= test.pvalue <= 1
    if n_samples > 1000:  # labels are drawn where a bin has few uncertain ones
        assert tests[0].pvalue < 1e-30 and tests[1].pvalue <= 1e-3


def test_far_tails_keep_their_order():
    """1 - cdf would give 0, or less, for all of these."""
    tails = [chi_square_mixture_sf(x, np.ones(4)) for x in (100.0, 200.0, 400.0)]
    np.testing.assert_allclose(tails, chi2.sf([100.0, 200.0, 400.0], 4), rtol=1e-9)
    assert tails[0] > tails[1] > tails[2] > 0


def test_no_tail_is_a_difference_from_one():
    """In the whole library a distribution function is never subtracted from 1."""
    for file in Path(skcalib.__file__).parent.rglob("*.py"):
        assert not re.search(r"1(\.0)? - [\w.]*\.?(cdf|ndtr)\(", file.read_text()), file


# --- "a one-sided Spiegelhalter test" -------------------------------------------------------------


def test_spiegelhalter_is_two_sided():
    """Forecasts that are too timid are as wrong as those that are too extreme."""
    zs = []
    for temperature in (0.5, 2.0):
        data = make_tempered_simplex(2000, 2, score_temperature=temperature, random_state=0)
        test = spiegelhalter_test(data.y, data.y_proba)
        assert test.pvalue < 1e-6
        zs.append(test.statistic)
    assert zs[0] > 0 > zs[1]


# --- "p = 1.0 in a phantom bin" -------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_one_belongs_to_the_last_bin(strategy):
    """A forecast of exactly 1 opens no bin of its own behind the last one."""
    p = np.array([0.05, 0.15, 0.95, 1.0, 1.0, 0.0])
    y = np.array([0, 0, 1, 1, 0, 0])
    (bins,) = reliability_bins(y, p, n_bins=5, strategy=strategy, notion="canonical")
    assert bins.edges[0] == 0 and bins.edges[-1] == 1 and len(bins.edges) <= 6
    assert bins.index.max() == len(bins.edges) - 2
    assert bins.mass.sum() == 6 and bins.mean_score.max() <= 1
    error = calibration_error(y, p, n_bins=5, strategy="uniform", notion="canonical")
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
    records = reliability_bins(y, proba, notion="classwise", n_bins=5)
    assert len(records) == 3
    for record in records:
        assert np.isfinite(record.mean_label).all() and np.isfinite(record.mean_score).all()
    assert np.isfinite(calibration_error(y, proba, notion="classwise"))
    assert np.isfinite(proper_calibration_error(y, proba, notion="classwise"))
    only = calibration_error(y == 2, rare[:, 0], notion="canonical", n_bins=5)
    assert only == pytest.approx(abs(6 / 600 - 0.02))


# --- "a decomposition of multiclass input read as several models" ---------------------------------


def test_the_columns_of_a_forecast_are_classes_of_one_model():
    """One record, whose loss is that of the whole forecast; the order of the classes is free."""
    data = make_widmann(200, model="M2", n_classes=4, random_state=0)
    terms = score_decomposition(data.y, data.y_proba)
    target = np.eye(4)[np.asarray(data.y) - np.min(data.y)]
    whole = np.mean(np.sum((data.y_proba - target) ** 2, axis=1))
    assert isinstance(terms.loss, float) and terms.loss == pytest.approx(whole)
    assert terms.loss == pytest.approx(terms.calibration + terms.refinement)
    assert terms.refinement == pytest.approx(terms.uncertainty - terms.sharpness)
    labels = np.unique(data.y)
    order = [2, 0, 3, 1]
    turned = score_decomposition(data.y, data.y_proba[:, order], labels=labels[order])
    assert turned.loss == pytest.approx(terms.loss)


# --- "a crash when a bin holds one sample" --------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_bin_may_hold_a_single_sample(norm):
    p = np.array([0.05, 0.31, 0.33, 0.35, 0.95])
    y = np.array([0, 0, 1, 0, 1])
    options = {"n_bins": 10, "strategy": "uniform", "notion": "canonical", "norm": norm}
    assert np.isfinite(calibration_error(y, p, **options))
    (bins,) = reliability_bins(y, p, n_bins=10, strategy="uniform", notion="canonical")
    assert bins.mass.tolist() == [1, 3, 1]
    assert bins.gap_variance[[0, 2]].tolist() == [np.inf, np.inf]  # it says so, and breaks nothing
    if norm == "l2":
        alone = calibration_error(y, p, **options, debiased=True, squared=True)
        gap, variance = 1 / 3 - 0.33, np.var((y - p)[1:4], ddof=1) / 3
        assert alone == pytest.approx(3 / 5 * (gap**2 - variance))
    assert np.isfinite(hosmer_lemeshow_test(y, p, strategy="uniform").statistic)


# --- "Platt on probabilities instead of logits" ---------------------------------------------------


def test_platt_is_a_map_of_the_logit():
    """Labels that are logistic in the logit are recalibrated without error; on p they cannot be."""
    rng = np.random.default_rng(0)
    z = rng.normal(scale=2, size=4000)
    truth = expit(0.5 * z - 0.7)
    y = (rng.random(4000) < truth).astype(int)
    proba = np.column_stack([expit(-z), expit(z)])
    platt = PlattScaling().fit(proba, y)
    after = platt.predict_proba(proba)
    line = np.polyfit(z, logit(after[:, 1]), 1)
    np.testing.assert_allclose(logit(after[:, 1]), np.polyval(line, z), atol=1e-6)
    np.testing.assert_allclose(line, [0.5, -0.7], atol=0.1)
    excess = LogLoss().divergence(np.column_stack([1 - truth, truth]), after).mean()
    assert excess < 1e-3  # two parameters cost about 1 / n
    from sklearn.linear_model import LogisticRegression

    on_proba = LogisticRegression(C=np.inf).fit(proba[:, 1:], y).predict_proba(proba[:, 1:])
    assert log_loss(y, after) < log_loss(y, on_proba) - 1e-3


# --- traps of the papers' own code, named in the sections on P24 and W19 ----------------------


def test_a_probability_of_zero_costs_its_own_entropy_only():
    """P24: a whole row of entropy is zeroed when one component is 0."""
    entropy = LogLoss().entropy(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(entropy, [np.log(2), 0])


@pytest.mark.parametrize("smoother", [None, "kernel", "binning"])
def test_certain_forecasts_and_absent_classes_are_no_trap(smoother):
    """P24: p = 0 or 1 raises or gives nan; a class absent from y raises."""
    y = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 1])
    certain = np.eye(3)[y]
    certain[:4] = [0.3, 0.3, 0.4]
    for loss in ("brier", "log"):
        options = {"loss": loss, "method": "direct", "labels": [0, 1, 2], "smoother": smoother}
        assert proper_calibration_error(y, certain, **options) >= 0
        assert np.isfinite(calibration_upper_bound(y, certain, loss=loss, labels=[0, 1, 2]))


def test_a_negative_kernel_estimate_is_no_evidence():
    """W19: the published code squares it."""
    data = make_widmann(250, model="M1", random_state=1)
    tests = [distribution_free_bound(data.y[i:], data.y_proba[i:]) for i in range(30)]
    negative = [test for test in tests if test.estimate < 0]
    assert negative and all(test.pvalue == 1 for test in negative)


# --- the list is complete -------------------------------------------------------------------------

#: The words of REFERENCE, each with its test above.
DEFECTS = {
    "a p-value of -7e-12 (1 - cdf at large n: use `sf`)": "test_pvalues_are_never_negative",
    "a one-sided Spiegelhalter test": "test_spiegelhalter_is_two_sided",
    "p = 1.0 in a phantom bin": "test_one_belongs_to_the_last_bin",
    "nan for the classes that are not the top one": (
        "test_classes_that_are_never_the_top_one_have_numbers"
    ),
    "a decomposition of multiclass input read as several models": (
        "test_the_columns_of_a_forecast_are_classes_of_one_model"
    ),
    "a crash when a bin holds one sample": "test_a_bin_may_hold_a_single_sample",
    "Platt on probabilities instead of logits": "test_platt_is_a_map_of_the_logit",
}


def test_every_defect_of_the_reference_has_its_test():
    assert all(callable(globals()[name]) for name in DEFECTS.values())
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


# --- where each of them is studied at length ------------------------------------------------------

STUDIES = {
    "negative p-value": "test_binary_tests.py::test_laws_of_brownian_motion",
    "one-sided test": "test_binary_tests.py::test_alternatives_of_spiegelhalter",
    "decomposition": "test_proper_errors.py::test_loss_is_calibration_plus_refinement",
    "classes": "test_error_laws.py::test_notions_are_means_and_sums_of_binary_problems",
    "logits": "test_recalibration.py::test_maps_of_one_logit_are_logistic_regressions",
}


@pytest.mark.parametrize("where", STUDIES.values(), ids=STUDIES)
def test_studies_exist(where):
    file, name = where.split("::")
    (path,) = Path(__file__).parents[1].rglob(file)
    tree = ast.parse(path.read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
