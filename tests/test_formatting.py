"""What records print: short, and nothing that double precision cannot tell."""

import re

import numpy as np
import pytest

from skcalib import cumulative_test, hosmer_lemeshow_test, spiegelhalter_test
from skcalib._formatting import class_text, nonnegative_text
from skcalib.error_intervals import ErrorInterval
from skcalib.errors import CalibrationInterceptSlope
from skcalib.inference import MeanInterval, mean_interval
from skcalib.recalibration import CalibrationImprovement
from skcalib.significance import CalibrationComparison, CalibrationTest

INF = float("inf")
MEAN = MeanInterval(0.155, 0.125, 0.178, 0.0135)


def error_interval(*limits, level=0.95, **notes):
    return ErrorInterval(*limits, 0.0135, level, "method", "target", **notes)


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({}, "(95 %)"),
        ({"level": 0.999}, "(99.9 %)"),
        ({"conservative": True, "reason": "few bins"}, "(95 %, conservative: few bins)"),
        ({"valid": False, "reason": "no spread"}, "(95 %, not valid: no spread)"),
        ({"valid": False, "conservative": True, "reason": "r"}, "(95 %, not valid: r)"),
        ({"conservative": True}, "(95 %, conservative)"),
        ({"reason": "few bins"}, "(95 %, few bins)"),
    ],
)
def test_error_interval(notes, words):
    found = error_interval(0.155, 0.125, 0.178, **notes)
    assert str(found) == f"0.155 [0.125, 0.178] {words}"
    assert repr(found).startswith("ErrorInterval(estimate=0.155, low=0.125")


def test_an_interval_has_the_decimals_that_tell_its_limits_apart():
    assert str(MEAN) == "0.155 [0.125, 0.178]"
    assert repr(MEAN).startswith("MeanInterval(estimate=0.155")
    assert str(MeanInterval(1.23e-5, 1e-5, 2e-5, 3e-6)) == "0.000012 [0.000010, 0.000020]"
    assert str(MeanInterval(-1e-9, -1e-9, 0.2, 0.1)) == "0.000 [0.000, 0.200]"


@pytest.mark.parametrize("number", [float, np.float64])
def test_infinite_limits_are_shown(number):
    inf = number(np.inf)
    assert str(MeanInterval(number(0.2), -inf, inf, inf)) == "0.200 [-inf, inf]"
    assert str(MeanInterval(inf, inf, inf, 0.0)) == "inf [inf, inf]"
    assert str(error_interval(inf, inf, inf)) == "inf [inf, inf] (95 %)"
    assert str(mean_interval([3.0])) == "3.000 [-inf, inf]"


def test_intercept_and_slope():
    found = str(CalibrationInterceptSlope(MEAN, MEAN, MEAN))
    assert found == f"In the large {MEAN}, intercept {MEAN}, slope {MEAN}"


@pytest.mark.parametrize(
    ("pvalue", "words"), [(0.0, "p < 1e-16"), (9e-17, "p < 1e-16"), (2e-16, "p = 2e-16")]
)
def test_no_pvalue_is_printed_as_zero(pvalue, words):
    comparison = CalibrationComparison(-0.1, -0.2, -0.05, 0.01, pvalue, (0.1, 0.2), 9)
    assert str(comparison) == f"The first model is better calibrated: {words}."
    test = CalibrationTest(99.0, pvalue, 0.1, "law")
    assert str(test) == f"Miscalibrated at the 5 % level: {words} (law), estimate 0.1."
    assert f"pvalue={pvalue}" in repr(test)
    gain = CalibrationImprovement(0.155, 0.125, 0.178, 0.0135, pvalue, 0.35, 0.195, True)
    assert str(gain) == f"0.155 [0.125, 0.178] ({words}; loss 0.35 before, 0.195 after)"


EVENT, NONE = "an event where the forecast said 0", "no event where the forecast said 1"


@pytest.mark.parametrize("test", [hosmer_lemeshow_test, spiegelhalter_test, cumulative_test])
@pytest.mark.parametrize(
    ("y", "reasons"),
    [([1, 0, 1, 1], {EVENT}), ([0, 0, 1, 0], {NONE}), ([1, 0, 1, 0], {EVENT, NONE})],
)
@pytest.mark.parametrize("n_resamples", [None, 19])
def test_an_infinite_statistic_says_which_label_made_it(test, y, reasons, n_resamples):
    found = test(y, [0.0, 0.0, 1.0, 1.0], n_resamples=n_resamples, random_state=0)
    assert found.statistic in (np.inf, -np.inf)
    assert found.pvalue == (0 if n_resamples is None else 1 / 20)
    assert {words for words in (EVENT, NONE) if words in found.method} == reasons


def test_hosmer_lemeshow_says_that_an_excluded_event_occurred():
    y, proba = [1, 0, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0.3, 0.6, 0.7, 0.9]
    found = hosmer_lemeshow_test(y, proba, n_bins=4)
    assert found.statistic == np.inf and found.pvalue == 0
    assert EVENT in found.method and NONE not in found.method
    assert re.search(rf"p < 1e-16 \(Hosmer.*asymptotic; {EVENT}", str(found))
    as_good_as_excluded = np.maximum(proba, 1e-320)
    assert "event" not in hosmer_lemeshow_test(y, as_good_as_excluded, n_bins=4).method
    right = hosmer_lemeshow_test([0, *y[1:]], proba, n_bins=4)
    assert np.isfinite(right.statistic) and "event" not in right.method


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ((0.155, 0.125, 0.178), "0.155 [0.125, 0.178]"),
        ((0.004, -0.002, 0.010), "0.004 [0, 0.010]"),
        ((0.0, 0.0, 0.010), "0.000 [0, 0.010]"),
        ((-1e-9, -0.01, 0.010), "0.000 [0, 0.010]"),
        # The limit is what it would be around an estimate of zero.
        ((-0.0138, -0.0261, -0.0015), "none detected (upper limit 0.012)"),
        ((-0.002, -0.012, 0.008), "none detected (upper limit 0.010)"),
        ((-0.002, -0.004, 0.020), "none detected (upper limit 0.022)"),
        ((0.2, -INF, INF), "0.200"),
        ((-0.2, -INF, INF), "none detected"),
        ((INF, INF, INF), "inf"),
    ],
)
def test_nonnegative_text(limits, words):
    assert nonnegative_text(MeanInterval(*limits, 0.01)) == words


def test_class_text():
    names = {"churn": "churn", "3rd floor": "3rd floor", np.str_("dog"): "dog", 1: "class 1"}
    names |= {"b": "class b", "yes": "class yes", "17": "class 17"}
    assert {label: class_text(label) for label in names} == names
    assert class_text(True) == "class True" and class_text(2.0) == "class 2.0"
