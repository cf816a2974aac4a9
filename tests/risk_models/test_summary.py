"""The summary of a risk model: each number against its source, and what does not exist."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import forty
from scipy.special import expit, logit
from sklearn.metrics import log_loss

import skcalib as s
from skcalib.links.averaging import ModelAverage
from skcalib.risk_models.summary import ROWS
from skcalib.stats.means import (
    MeanInterval,
    concordance_interval,
    mean_interval,
    observed_expected_ratio,
    rate_interval,
)


def patients(n_samples=800, shift=0.5, seed=0):
    """Outcomes with a known risk, and forecasts whose odds are exp(shift) times as high."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-2, 1, n_samples)
    y = (rng.random(n_samples) < expit(log_odds)).astype(int)
    return y, expit(log_odds + shift)


Y, P = patients()
SUMMARY = s.calibration_summary(Y, P)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_number_is_that_of_its_function(weighted):
    weight = np.random.default_rng(1).uniform(0.2, 2, len(Y)) if weighted else None
    options, level = {"sample_weight": weight}, {"confidence_level": 0.8}
    summary = s.calibration_summary(Y, P, **options, **level)
    assert summary.mean_predicted == pytest.approx(np.average(P, weights=weight))
    for name, interval in {
        "observed": rate_interval(Y, weight, **level),
        "observed_expected_ratio": observed_expected_ratio(Y, P, weight, **level),
        "brier": mean_interval((Y - P) ** 2, weight, **level),
        "log_loss": mean_interval(-np.log(np.where(Y, P, 1 - P)), weight, **level),
        "auc": concordance_interval(Y, P, weight, **level),
    }.items():
        quantity = getattr(summary, name)
        limits = quantity.low, quantity.estimate, quantity.high
        assert limits == pytest.approx((interval.low, interval.estimate, interval.high), rel=1e-9)
    lines = s.calibration_intercept_slope(Y, P, **options, **level)
    for name in ("in_the_large", "intercept", "slope"):
        assert getattr(summary, name) == getattr(lines, name)
    for name, quantile in (("ici", None), ("e50", 0.5), ("e90", 0.9), ("emax", 1)):
        index = s.integrated_calibration_index(Y, P, quantile=quantile, **options)
        assert getattr(summary, name) == pytest.approx(index, abs=1e-12)
    error = s.proper_calibration_error(Y, P, **options)
    assert summary.brier_calibration_error.estimate == pytest.approx(error, abs=1e-12)
    limits = s.CalibrationErrorEstimator(**level).fit(P[:, None], Y, weight).confidence_interval_
    interval = summary.brier_calibration_error
    assert interval.low == pytest.approx(max(limits[0], 0), abs=1e-12)
    assert interval.high >= limits[1]
    rate = summary.observed.estimate
    skill = 1 - summary.brier.estimate / (rate * (1 - rate))
    assert summary.brier_skill.estimate == pytest.approx(skill)
    variance = rate * (1 - rate)  # the delta method
    values = (1 - 2 * rate) * summary.brier.estimate / variance**2 * Y - (Y - P) ** 2 / variance
    interval = mean_interval(values, weight, **level, estimate=skill)
    limits = summary.brier_skill.low, summary.brier_skill.high
    assert limits == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert (summary.n_samples, summary.n_events, summary.event) == (800, Y.sum(), "1")
    assert summary.notes == {}
    assert "0.000" in str(replace(summary, emax=0.0)) and "5e-05" in str(
        replace(summary, emax=5e-5)
    )
    endless = str(replace(summary, brier=MeanInterval(0.25, 0.0, np.inf, 0.1)))
    assert "0.250" in endless and " inf" not in endless.split("AUC")[0]


def test_likelihood_indices_of_r():
    """U, D and Q of forty predictions without random numbers.

    val.prob of rms 6.5-0 prints U and U:p as here. Its D is that of the predictions as they are,
    0.4072464256; D of the recalibrated ones, as in CalibrationCurves, follows from the model
    chi-square 17.8708941771 of lrm.fit.
    """
    y, p = forty()
    summary = s.calibration_summary(y, p)
    assert summary.unreliability == pytest.approx(-0.0354740711719, rel=1e-9)
    assert summary.unreliability_pvalue == pytest.approx(0.7478756362247, abs=0.05)  # drawn
    assert summary.discrimination == pytest.approx((17.8708941771 - 1) / 40, rel=1e-9)
    assert summary.quality == summary.discrimination - summary.unreliability
    as_they_are = summary.discrimination - (summary.unreliability + 2 / 40)
    assert as_they_are == pytest.approx(0.4072464255989, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_quality_is_the_gain_of_the_log_loss(weighted):
    """Q - 1 / n = 2 (log loss of the mean - log loss of the forecast), and with weights nearly."""
    weight = np.random.default_rng(1).uniform(0.2, 2, len(Y)) if weighted else np.ones(len(Y))
    summary = s.calibration_summary(Y, P, sample_weight=weight)
    mean = np.full(len(Y), np.average(Y, weights=weight))
    gain = 2 * (log_loss(Y, mean, sample_weight=weight) - log_loss(Y, P, sample_weight=weight))
    size = weight.sum() ** 2 / np.sum(weight**2)
    reach = 0.2 / size if weighted else 1e-12
    assert summary.quality == pytest.approx(gain + 1 / size, abs=reach)
    test = s.significance.logistic_calibration_test(Y, P, sample_weight=weight)
    assert (summary.unreliability, summary.unreliability_pvalue) == (test.estimate, test.pvalue)
    scaled = s.calibration_summary(Y, P, sample_weight=3 * weight)
    assert scaled.discrimination == pytest.approx(summary.discrimination, rel=1e-9)


def test_eci_is_the_mean_squared_distance():
    proba = np.column_stack([1 - P, P])
    conditional = ModelAverage().fit(proba, np.eye(2)[Y], np.ones(800)).averaged[:, 1]
    assert SUMMARY.eci == pytest.approx(100 * np.mean((conditional - P) ** 2), rel=1e-12)
    assert SUMMARY.ici**2 <= SUMMARY.eci / 100 <= SUMMARY.emax**2
    # Of a rare event the predictions are too high.
    rng = np.random.default_rng(0)
    risk = rng.beta(1, 17, 4000)
    summary = s.calibration_summary(rng.random(4000) < risk, 13 * risk / (1 - risk + 13 * risk))
    assert summary.event == "True"
    assert summary.observed_expected_ratio.high < 0.2
    assert summary.in_the_large.low < -np.log(13) < summary.in_the_large.high
    assert summary.brier_skill.high < 0
    assert summary.ici == pytest.approx(0.3, abs=0.03)


@pytest.mark.slow
def test_the_interval_of_the_skill_holds_the_truth():
    """300 data sets of 400 patients; .95 has a standard error of .013 here."""
    log_odds = np.random.default_rng(10**6).normal(-2, 1, 400_000)
    q, p = expit(log_odds), expit(log_odds + 0.5)
    brier = np.mean((p - q) ** 2 + q * (1 - q))
    truth = 1 - brier / (q.mean() * (1 - q.mean()))
    skills = [s.calibration_summary(*patients(400, seed=seed)).brier_skill for seed in range(300)]
    assert 0.91 <= np.mean([skill.low <= truth <= skill.high for skill in skills]) <= 0.985


def test_the_event_can_be_any_class_in_any_form():
    y, p = patients(300)
    names = np.array(["no", "yes"])[y]
    expected = s.calibration_summary(y, p)
    summary = s.calibration_summary(names, p)
    assert summary.event == "yes" and summary.observed == expected.observed
    assert summary.slope.estimate == pytest.approx(expected.slope.estimate)
    turned = s.calibration_summary(names, 1 - p, pos_label="no")
    assert turned.event == "no" and turned.n_events == 300 - expected.n_events
    assert turned.slope.estimate == pytest.approx(expected.slope.estimate)
    assert turned.in_the_large.estimate == pytest.approx(-expected.in_the_large.estimate)


HARD = {
    "one class": ([0] * 30, np.linspace(0.1, 0.4, 30), {"auc", "slope", "brier_skill"}),
    "events only": ([1] * 50, np.linspace(0.1, 0.9, 50), {"auc", "slope", "brier_skill"}),
    "separated": ([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], {"intercept", "slope"}),
    "equal forecasts": ([0, 1, 1], [0.5] * 3, {"intercept", "slope"}),
    "one sample": ([1], [0.2], {"ici", "brier_calibration_error", "auc", "slope"}),
    "forecasts of zero": ([0, 1, 0], [0.0] * 3, {"observed_expected_ratio", "slope"}),
    "impossible event": ([1, 0, 1, 0, 1], [0, 0, 0.2, 0.3, 0.9], {"slope", "in_the_large"}),
    "perfect": ([0, 0, 1, 1], [0, 0, 1, 1], {"slope", "in_the_large"}),
}


@pytest.mark.parametrize("case", HARD)
def test_what_does_not_exist_is_none_with_a_reason(case):
    y, p, missing = HARD[case]
    summary = s.calibration_summary(y, p)
    absent = {name for name in ROWS if getattr(summary, name) is None}
    assert missing <= absent <= set(summary.notes)
    for note in summary.notes.values():
        assert note.endswith(".") and "\n" not in note
    for name in ROWS:
        value = getattr(summary, name)
        numbers = [] if value is None else [value]
        if isinstance(value, MeanInterval):
            numbers = [value.low, value.estimate, value.high]
            assert value.low <= max(value.estimate, 0) and value.estimate <= value.high
        assert not np.isnan(numbers).any()
    assert "nan" not in str(summary).lower()
    assert summary.to_frame().shape == (len(ROWS), 6)


def test_separated_data_have_a_calibration_in_the_large():
    summary = s.calibration_summary([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9])
    assert summary.slope is None and "separate the two classes" in summary.notes["slope"]
    grid = np.linspace(-3, 3, 60_001)
    excess = 2 - expit(grid[:, None] + logit([0.1, 0.3, 0.6, 0.9])).sum(axis=1)
    assert summary.in_the_large.estimate == pytest.approx(grid[np.abs(excess).argmin()], abs=1e-3)


def test_weights_that_vanish_beside_others():
    """The area under the curve does not depend on the scale of the weights of a class."""
    summary = s.calibration_summary(Y, P, sample_weight=np.where(Y == 1, 1e-300, 1.0))
    assert str(summary.auc) == str(SUMMARY.auc)
    assert summary.brier_skill is None and "weight is on one class" in summary.notes["brier_skill"]
    weight = np.where(Y == 1, 1e-160, 1.0)  # the squares are subnormal numbers
    saved = s.decision_regret(Y, P, costs=[[0, 1], [3, 0]], sample_weight=weight).calibration
    assert np.isfinite([saved.low, saved.high]).all()


def test_equal_losses_are_certain_for_forecasts_of_one_half_only():
    fair, unequal = (s.calibration_summary([0, y] * 15, [p] * 30) for y, p in ((1, 0.5), (0, 0.2)))
    assert fair.brier.low == fair.brier.high == pytest.approx(0.25) and "brier" not in fair.notes
    fair = s.calibration_summary([0, 1] * 50, [0.5] * 100)
    assert fair.brier.low == fair.brier.high == 0.25 and "brier" not in fair.notes
    rate = 1 - 0.025 ** (1 / 30)  # the exact upper limit of no event of 30
    assert unequal.brier.low == pytest.approx(0.04) and "same loss" not in unequal.notes["brier"]
    assert unequal.brier.high == pytest.approx(0.04 + rate * 0.6, rel=0.1)
    sure = s.calibration_summary([0, 1] * 15, [0.0, 1.0] * 15)
    assert (sure.brier.low, sure.brier.high) == (0, 1) and "same loss" in sure.notes["brier"]


def test_the_frame_and_the_table_have_a_row_per_quantity():
    frame = SUMMARY.to_frame()
    columns = "quantity estimate low high perfect explanation"
    assert list(frame.columns) == columns.split() and list(frame.index) == list(ROWS)
    assert frame.loc["slope", "estimate"] == SUMMARY.slope.estimate
    assert frame.loc["slope", "perfect"] == 1
    assert frame.loc["ici", "low"] is pd.NA and frame.loc["ici", "estimate"] == SUMMARY.ici
    missing = s.calibration_summary([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]).to_frame()
    assert missing.loc["slope", "estimate"] is pd.NA
    assert "separate" in missing.loc["slope", "explanation"]
    lines = str(SUMMARY).splitlines()
    assert lines[0].startswith("800 samples, ") and "intervals of 95 %" in lines[0]
    assert len(lines) == 2 + len(ROWS) and max(map(len, lines)) <= 100
    assert len({line.index("]") for line in lines if "]" in line}) == 1
    for number in ("0.000", "0.0004", "0.123"):
        assert f" {number} " in str(replace(SUMMARY, ici=float(number)))
    for name, _, explanation in ROWS.values():
        assert any(line.startswith(name) and line.endswith(explanation) for line in lines)


def test_several_classes_are_refused():
    with pytest.raises(ValueError, match="is for two classes, but y_proba has 3 columns: pass one"):
        s.calibration_summary([0, 1, 2], np.eye(3))


def test_clusters_are_counted():
    summary = s.calibration_summary(Y, P, groups=np.arange(800) // 8)
    assert summary.n_clusters == 100 and str(summary).startswith("800 samples in 100 clusters, ")
    assert SUMMARY.n_clusters is None and SUMMARY.observed.low < summary.observed.estimate


def test_an_error_below_zero_is_none_detected():
    for seed in range(20):
        y, p = patients(200, shift=0.0, seed=seed)
        summary = s.calibration_summary(y, p)
        if summary.brier_calibration_error.estimate < 0:
            assert "none detected" in str(summary) and summary.brier_calibration_error.high > 0
            return
    raise AssertionError("no estimate below zero in twenty data sets of calibrated forecasts")
