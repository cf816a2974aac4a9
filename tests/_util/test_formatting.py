"""What records print: short, and nothing that double precision cannot tell."""

import numpy as np
import pytest

from skcalib._util.formatting import (
    class_text,
    common_spread,
    interval,
    nonnegative,
    nonnegative_text,
    number,
    numbers,
    points,
    points_between,
    rate_interval_text,
    rates,
)
from skcalib.error_intervals import ErrorInterval
from skcalib.errors import CalibrationInterceptSlope
from skcalib.recalibration import CalibrationImprovement
from skcalib.significance import CalibrationComparison, CalibrationTest, hosmer_lemeshow_test
from skcalib.stats.means import MeanInterval, mean_interval

INF = float("inf")
MEAN = MeanInterval(0.155, 0.125, 0.178, 0.0135)


def error_interval(estimate, low, high, level=0.95, **notes):
    return ErrorInterval(estimate, low, high, 0.0135, level, "method", "target", **notes)


def test_error_interval():
    for notes, words in (
        ({}, "(95 %)"),
        ({"level": 0.999}, "(99.9 %)"),
        ({"conservative": True, "reason": "few bins"}, "(95 %, conservative: few bins)"),
        ({"valid": False, "reason": "no spread"}, "(95 %, not valid: no spread)"),
        ({"valid": False, "conservative": True, "reason": "r"}, "(95 %, not valid: r)"),
        ({"conservative": True}, "(95 %, conservative)"),
        ({"reason": "few bins"}, "(95 %, few bins)"),
    ):
        estimate = error_interval(0.155, 0.125, 0.178, **notes)
        assert str(estimate) == f"0.155 [0.125, 0.178] {words}"
        assert repr(estimate).startswith("ErrorInterval(estimate=0.155, low=0.125")


def test_an_interval_has_the_decimals_that_tell_its_limits_apart():
    assert str(MEAN) == "0.155 [0.125, 0.178]"
    assert repr(MEAN).startswith("MeanInterval(estimate=0.155")
    text = str(CalibrationInterceptSlope(MEAN, MEAN, MEAN))
    assert text == f"In the large {MEAN}, intercept {MEAN}, slope {MEAN}"
    assert str(MeanInterval(1.23e-5, 1e-5, 2e-5, 3e-6)) == "0.000012 [0.000010, 0.000020]"
    assert str(MeanInterval(-1e-9, -1e-9, 0.2, 0.1)) == "0.000 [0.000, 0.200]"
    for inf in (INF, np.float64(INF)):
        assert str(MeanInterval(type(inf)(0.2), -inf, inf, inf)) == "0.200 [-inf, inf]"
        assert str(MeanInterval(inf, inf, inf, 0.0)) == "inf [inf, inf]"
        assert str(error_interval(inf, inf, inf)) == "inf [inf, inf] (95 %)"
    assert str(mean_interval([3.0])) == "3.000 [-inf, inf]"


def test_a_comparison_names_the_better_model_from_a_level_of_5_percent():
    for pvalue, estimate, words in (
        (0.051, -0.1, "No significant difference"),
        (0.049, -0.1, "The first model is better"),
        (0.049, 0.1, "The second model is better"),
    ):
        assert str(CalibrationComparison(estimate, -1, 1, 0.1, pvalue, (0, 0), 9)).startswith(words)


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


def test_rare_and_excluded_events_that_did_not_occur_do_not_refute():
    y, proba = [1, 0, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0.3, 0.6, 0.7, 0.9]
    for labels, forecasts in ((y, np.maximum(proba, 1e-320)), ([0, *y[1:]], proba)):
        assert "refuted" not in hosmer_lemeshow_test(labels, forecasts, n_bins=4).method


def test_nonnegative_text():
    for (estimate, low, high), words in (
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
    ):
        assert nonnegative_text(MeanInterval(estimate, low, high, 0.01)) == words


def test_class_text():
    names = {"churn": "churn", "3rd floor": "3rd floor", np.str_("dog"): "dog", 1: "class 1"}
    names |= {"b": "class b", "yes": "class yes", "17": "class 17"}
    assert {label: class_text(label) for label in names} == names
    assert class_text(True) == "class True" and class_text(2.0) == "class 2.0"


def test_numbers_have_the_decimals_of_their_error():
    assert number(0.123456, 0.0123) == "0.123"
    assert number(0.123456, 0.000123) == "0.12346"
    assert number(-0.0001, 0.01) == "0.000"  # no minus before a zero
    assert [number(v) for v in (np.inf, -np.inf, 0.0)] == ["infinite", "-infinite", "0.000"]
    assert [points(v) for v in (0.031, -0.31, 4e-4)] == ["3.1 points", "31 points", "0.04 points"]
    assert points_between(0.031, 0.31) == "3.1 to 31"
    for values, texts in (
        ((0.355, 0.053), ["35.5 %", "5.3 %"]),
        ((0.995, 0.996), ["99.5 %", "99.6 %"]),
        ((0.71049, 0.71051), ["71.0 %", "71.1 %"]),
        ((0.710501, 0.710502), ["71.1 %", "71.1 %"]),  # they cannot be told apart
        ((0.0004, 0.00041), ["0.040 %", "0.041 %"]),
        ((0.99998, 1.0), ["99.998 %", "100.000 %"]),
        ((0.0, 1.0), ["0.0 %", "100.0 %"]),
    ):
        assert rates(*values) == texts
    column = (0.003, 0.5, 0.99998, 1.0)  # one number of decimals, and not four of a half
    assert rates(*column, distinct=False) == ["0.30 %", "50.00 %", "100.00 %", "100.00 %"]
    assert rates(0.5, distinct=False, column=column) == ["50.00 %"]
    assert rate_interval_text(0.881, 1.0, *column) == "[88.10, 100.00]"
    assert rate_interval_text(0.01234, 0.5, 0.1, 0.2) == "[1.2, 50.0]"
    assert numbers(0.2221, 0.1287) == ["0.222", "0.129"]
    assert numbers(0.00012, 0.00015) == ["0.00012", "0.00015"]
    assert numbers(np.inf, 0.5) == ["infinite", "0.500"]


def test_estimates_of_a_column_have_the_same_decimals():
    """And what cannot be negative is shown so."""
    column = [
        MeanInterval(0.0043, 0.0018, 0.0073, 0.0014),
        MeanInterval(0.0042, 0.003, 0.006, 9e-4),
    ]
    spread = common_spread(*column)
    texts = ["0.00430 [0.00180, 0.00730]", "0.00420 [0.00300, 0.00600]"]
    assert [interval(mean, spread) for mean in column] == texts
    assert nonnegative(column[0], spread) == texts[0]
    assert common_spread(MeanInterval(1.0, 1.0, 1.0, 0.0)) is None
    for mean, words in (
        (MeanInterval(-0.0138, -0.0261, -0.0015, 0.006), "none detected (upper limit 0.0123)"),
        (MeanInterval(-0.001, -0.02, 0.018, 0.01), "none detected (upper limit 0.019)"),
        (MeanInterval(0.01, -0.01, 0.03, 0.01), "0.010 [0.000, 0.030]"),
    ):
        assert nonnegative(mean) == words
