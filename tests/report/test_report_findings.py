"""The numbers of a report: where it is wrong, and that they agree with the functions."""

import numpy as np
import pytest
from conftest import report_of as report

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.inference import MeanInterval
from skcalib.problem import check_problem
from skcalib.report.analysis import _around, _find_errors, _find_test
from skcalib.report.direction import logistic_recalibration
from skcalib.report.findings import TEST_LEVEL
from skcalib.report.subgroups import find_places, worst_places


@pytest.mark.slow
def test_calibrated_forecasts_are_rarely_called_miscalibrated():
    """An interval and three tests at .005: 100 data sets, 3 expected at most, 2.5 % error."""
    alarms = 0
    for seed in range(100):
        data = make_tempered_simplex(500, 2, score_temperature=1.0, random_state=seed)
        problem = check_problem(data.y, data.y_proba)
        errors, _ = _find_errors(problem, problem, 0.95, 0)
        test, _ = _find_test(problem, 0)
        line = logistic_recalibration(problem, 0.95)
        alarms += (
            errors[0].detected
            or errors[0].residual_pvalue < TEST_LEVEL
            or test.rejects(TEST_LEVEL)
            or line.pvalue < TEST_LEVEL
        )
    assert alarms <= 5


def test_a_curve_that_no_slope_can_follow_is_found():
    """Right on average and symmetric on the logit, at four values only."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.4, 0.6, 0.8], size=4000)
    truth = np.select([p == 0.2, p == 0.4, p == 0.6], [0.2, 0.28, 0.72], 0.8)
    shown = s.CalibrationReport.from_predictions((rng.random(4000) < truth).astype(int), p)
    assert shown.miscalibrated
    wrong = worst_places(shown.findings.places, "scores", 3)
    assert sorted(place.label for place in wrong) == ["40.0 %", "60.0 %"]


def test_places_of_calibrated_forecasts_are_rarely_accused():
    """Each kind holds for all of its places at once: 5 % or less; 200 data sets."""
    alarms = np.zeros(2)
    for seed in range(200):
        data = make_tempered_simplex(300, 3, score_temperature=1.0, random_state=seed)
        places = find_places(check_problem(data.y, data.y_proba), 0.95)
        alarms += [bool(worst_places(places, kind, 9)) for kind in ("scores", "class")]
    assert alarms.max() / 200 <= 0.05 + 3 * 0.0154


def test_places_hold_all_samples_once():
    data = make_tempered_simplex(1000, 3, random_state=0)
    weight = np.random.default_rng(0).exponential(size=1000)
    places = find_places(check_problem(data.y, data.y_proba, sample_weight=weight), 0.95)
    scores = [place for place in places if place.kind == "scores"]
    assert sum(place.n_samples for place in scores) == 1000
    assert sum(place.share for place in scores) == pytest.approx(1)
    mean = sum(place.share * place.mean_score for place in scores)
    assert mean == pytest.approx(np.average(data.y_proba.max(axis=1), weights=weight))
    assert [place.label for place in places if place.kind == "class"] == ["0", "1", "2"]


def test_numbers_agree_with_the_estimators():
    data = make_tempered_simplex(300, 3, random_state=0)
    shown = s.CalibrationReport.from_predictions(data.y, data.y_proba)
    for finding in shown.findings.errors:
        options = {"loss": finding.loss, "notion": finding.notion}
        estimator = s.CalibrationErrorEstimator(random_state=0, **options)
        estimator.fit(data.y_proba, data.y)
        error, refinement = finding.calibration, finding.refinement.estimate
        assert error.estimate == pytest.approx(estimator.calibration_error_)
        assert (error.low, error.high) == pytest.approx(estimator.confidence_interval_)
        interval = s.calibration_error_interval(
            data.y, data.y_proba, metric=finding.loss, notion=finding.notion
        )
        assert (interval.low, interval.high) == pytest.approx((error.low, error.high))
        assert refinement == pytest.approx(estimator.refinement_)
        function = s.proper_calibration_error(data.y, data.y_proba, **options)
        assert error.estimate == pytest.approx(function, abs=1e-12)
        assert finding.expected_loss.estimate == pytest.approx(error.estimate + refinement)
    error = s.proper_calibration_error(data.y, data.y_proba, notion="top_label")
    assert shown.findings.typical_error["estimate"] ** 2 == pytest.approx(error, rel=1e-9)


def test_reported_numbers_agree_with_the_functions():
    data = make_tempered_simplex(300, 2, random_state=0)
    weight = np.random.default_rng(0).exponential(size=300)
    given = (data.y, data.y_proba), {"sample_weight": weight}
    shown = s.CalibrationReport.from_predictions(*given[0], **given[1])
    numbers = {one.key: one.value for one in shown.findings.reported}
    rbs = s.root_brier_score(*given[0], **given[1])
    assert numbers["root_brier_score"].estimate == pytest.approx(rbs)
    line = s.calibration_intercept_slope(*given[0], **given[1])
    assert numbers["slope"].estimate == pytest.approx(line.slope.estimate)
    assert numbers["in_the_large"].low == pytest.approx(line.in_the_large.low)
    for key in ("ece", "ks"):
        found = s.calibration_error_interval(*given[0], metric=key, notion="canonical", **given[1])
        for end in ("estimate", "low", "high"):
            assert getattr(numbers[key], end) == pytest.approx(getattr(found, end))
    multiclass = report(300, n_classes=3).findings.reported
    assert [one.key for one in multiclass] == ["ece", "ks", "root_brier_score"]
    assert multiclass[0].name.endswith("of the confidence") and multiclass[0].target


def test_all_intervals_have_the_level():
    wide, narrow = (report(300, confidence_level=level).findings for level in (0.99, 0.8))
    for part in ("accuracy", "confidence_gap", "observed_rate", "observed_expected_ratio", "gain"):
        a, b = (
            f.advice.selection.gain if part == "gain" else getattr(f, part) for f in (wide, narrow)
        )
        assert a.low < b.low < b.estimate == a.estimate < b.high < a.high


@pytest.mark.parametrize("limits", [(0.0972, 0.0972, 0.1209, 0.0062), (1e-4, 1e-4, 8e-4, 3e-4)])
def test_no_interval_begins_at_its_estimate(limits):
    found = _around(MeanInterval(*limits), 0.95)
    assert 0 < found.low < found.estimate == limits[0] and found.high == limits[2]
    assert _around(found, 0.95) == found


def test_no_part_exceeds_the_limit_of_the_whole():
    y = np.zeros(300, dtype=int)
    y[:2] = 1  # the spread of two events says little about the mean loss
    proba = np.r_[0.1, 0.17, np.random.default_rng(0).beta(0.5, 25, 298)]
    for error in s.CalibrationReport.from_predictions(y, proba).findings.errors:
        assert max(error.calibration.high, error.refinement.high) <= error.expected_loss.high
