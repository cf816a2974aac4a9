"""The numbers of a report: where it is wrong, and that they agree with the functions."""

import numpy as np
import pytest

from skcalib import (
    CalibrationErrorEstimator,
    CalibrationReport,
    calibration_error_interval,
    calibration_intercept_slope,
    calibration_upper_bound,
    root_brier_score,
)
from skcalib._checks import check_problem
from skcalib.datasets import make_tempered_simplex
from skcalib.report.finders import find_errors, find_test
from skcalib.report.findings import Findings
from skcalib.report.places import find_places, worst_places


def report(n_samples=2000, n_classes=2, temperature=0.6, **parameters):
    data = make_tempered_simplex(
        n_samples, n_classes, score_temperature=temperature, random_state=0
    )
    return CalibrationReport.from_predictions(
        data.y, data.y_proba, labels=np.arange(n_classes), **parameters
    )


def test_calibrated_forecasts_are_rarely_accused():
    """Two looks at 2.5 % and a test at 1 %: few false alarms; 100 data sets, standard error 2 %."""
    alarms = 0
    for seed in range(100):
        data = make_tempered_simplex(500, 2, score_temperature=1.0, random_state=seed)
        problem = check_problem(data.y, data.y_proba)
        errors, flexible = find_errors(problem, 0.95, 0)
        test, n_tested = find_test(problem, 0)
        rest = dict.fromkeys(("accuracy", "confidence_gap", "advice"))
        alarms += Findings(
            500, 500.0, 2, errors=errors, flexible=flexible, test=test, n_tested=n_tested,
            reported=(), places=(), **rest,
        ).miscalibrated  # fmt: skip
    assert alarms <= 9


def test_a_curve_that_no_slope_can_follow_is_found():
    """Right on average and symmetric on the logit: only isotonic regression sees it."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.4, 0.6, 0.8], size=4000)
    truth = np.select([p == 0.2, p == 0.4, p == 0.6], [0.2, 0.28, 0.72], 0.8)
    shown = CalibrationReport.from_predictions((rng.random(4000) < truth).astype(int), p)
    assert shown.findings.flexible.detected
    assert shown.miscalibrated
    wrong = worst_places(shown.findings.places, "scores", 3)
    assert sorted(place.where for place in wrong) == [
        "a score of 0.4 for class 1", "a score of 0.6 for class 1",
    ]  # fmt: skip


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
    assert [place.where for place in places if place.kind == "class"] == [
        "class 0", "class 1", "class 2",
    ]  # fmt: skip


def test_a_class_that_is_promised_too_often_is_named():
    data = make_tempered_simplex(4000, 3, score_temperature=1.0, label_temperature=1.0,
                                 random_state=0)  # fmt: skip
    shifted = data.y_proba * [1.0, 1.0, 2.0]
    shifted /= shifted.sum(axis=1, keepdims=True)
    names = np.array(["ape", "bee", "cat"])
    shown = CalibrationReport.from_predictions(names[data.y], shifted)
    worst = worst_places(shown.findings.places, "class", 3)[0]
    assert worst.where == "class cat" and worst.mean_score > worst.high
    assert "Class cat: promised" in str(shown)


def test_numbers_agree_with_the_estimators():
    data = make_tempered_simplex(500, 3, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba)
    for finding in shown.findings.errors:
        estimator = CalibrationErrorEstimator(
            loss=finding.loss, notion=finding.notion, method="risk"
        )
        estimator.fit(data.y_proba, data.y)
        assert finding.calibration.estimate == pytest.approx(estimator.calibration_error_)
        low, high = estimator.confidence_interval_
        assert (finding.calibration.low, finding.calibration.high) == pytest.approx((low, high))
        assert finding.refinement.estimate == pytest.approx(estimator.refinement_)
        total = finding.calibration.estimate + finding.refinement.estimate
        assert finding.expected_loss.estimate == pytest.approx(total)


def reported(shown):
    return {one.key: one.value for one in shown.findings.reported}


def test_reported_numbers_agree_with_the_functions():
    data = make_tempered_simplex(500, 2, random_state=0)
    weight = np.random.default_rng(0).exponential(size=500)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, sample_weight=weight)
    numbers = reported(shown)
    rbs = root_brier_score(data.y, data.y_proba, sample_weight=weight)
    assert numbers["root_brier_score"].estimate == pytest.approx(rbs)
    bound = calibration_upper_bound(data.y, data.y_proba, sample_weight=weight)
    assert rbs**2 == pytest.approx(bound)
    line = calibration_intercept_slope(data.y, data.y_proba, sample_weight=weight)
    assert numbers["slope"] == line.slope
    assert numbers["in_the_large"] == line.in_the_large
    for key in ("ece", "ks"):
        found = calibration_error_interval(
            key, data.y, data.y_proba, notion="canonical", sample_weight=weight
        )
        shown_value = numbers[key]
        assert shown_value.estimate == pytest.approx(found.estimate)
        assert (shown_value.low, shown_value.high) == pytest.approx((found.low, found.high))
    multiclass = report(n_classes=3).findings.reported
    assert [one.key for one in multiclass] == ["ece", "ks", "root_brier_score"]
    assert multiclass[0].name.endswith("of the confidence") and multiclass[0].target


def test_all_intervals_have_the_level():
    wide, narrow = (report(300, confidence_level=level).findings for level in (0.99, 0.8))
    for part in ("accuracy", "confidence_gap", "advice"):
        a, b = ((f.advice.gain if part == "advice" else getattr(f, part)) for f in (wide, narrow))
        assert a.low < b.low < b.estimate == a.estimate < b.high < a.high


def test_labels_of_ranges():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(100) * 1e-6, rng.random(100), 1 - rng.random(100) * 1e-6])
    y = np.tile([0, 1], 150)
    places = find_places(check_problem(y, p), 0.95)
    ranges = [place for place in places if place.kind == "scores"]
    assert "below 0.00001" in [place.label for place in ranges]
    assert "scores above 0.99999 for class 1" in [place.where for place in ranges]
    assert places[-1].label == "1"
