import json

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skcalib import (
    CalibrationErrorEstimator,
    CalibrationReport,
    GroupingDisplay,
    calibration_error_interval,
    calibration_intercept_slope,
    calibration_upper_bound,
    proper_calibration_error,
    root_brier_score,
)
from skcalib._checks import check_problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.report._numbers import interval, number, points, points_between
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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("temperature", "found", "headline"),
    [
        (0.6, True, "Miscalibrated: over-confident."),
        (1.6, True, "Miscalibrated: under-confident."),
        (1.0, False, "No miscalibration found."),
    ],
)
def test_verdict(n_classes, temperature, found, headline):
    shown = report(n_classes=n_classes, temperature=temperature)
    assert shown.miscalibrated is found
    assert shown.verdict.splitlines()[0] == headline
    advice = "Recalibrate by" if found else "Leave it"
    assert any(line.startswith(advice) for line in shown.verdict.splitlines())
    assert shown.findings.recalibrator_helps is found


def test_few_samples_are_said():
    shown = report(30, temperature=1.0)
    assert shown.verdict.splitlines()[0] == "No miscalibration found, with few samples."
    assert "may go unseen" in shown.verdict


def test_a_gain_that_may_be_chance_is_no_advice():
    shown = report(30)
    assert shown.findings.advice.chosen == "TemperatureScaling"
    assert shown.findings.advice.gain.low < 0
    assert "Leave it, or collect more samples: the best map is temperature scaling" in shown.verdict


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
        estimator = CalibrationErrorEstimator(loss=finding.loss, notion=finding.notion)
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


def test_dictionary_is_ready_for_json():
    content = json.loads(json.dumps(report(n_classes=3).to_dict()))
    assert content["miscalibrated"] is True
    assert content["n_samples"] == 2000 and content["n_classes"] == 3
    assert content["n_tested"] == 2000 and content["random_state"] == 0
    assert len(content["errors"]) == 6
    assert {"skcalib", "scikit-learn", "numpy", "scipy", "matplotlib"} == set(content["versions"])


def test_from_estimator():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    classifier = LogisticRegression(max_iter=1000).fit(X[::2], names[::2])
    shown = CalibrationReport.from_estimator(classifier, X[1::2], names[1::2])
    assert shown.name == "LogisticRegression"
    assert shown.findings.n_samples == 75
    assert shown.to_dict()["classes"] == ["setosa", "versicolor", "virginica"]
    crossed = CalibrationReport.from_estimator(
        LogisticRegression(max_iter=1000), X, names, cv=5, name="crossed"
    )
    assert crossed.findings.n_samples == 150 and crossed.name == "crossed"
    assert "<style>" in crossed._repr_html_()


def test_grouping_loss_where_features_are_given():
    data = make_grouping_problem(8000, random_state=0)
    frame = pd.DataFrame(data.X, columns=["age", "dose"])
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, frame)
    lines = shown.verdict.splitlines()
    assert lines[0] == "Calibrated on average, and wrong for some groups."
    assert any(line.startswith("Beyond calibration:") for line in lines)
    assert any(line.startswith(("Where age", "Where dose")) for line in lines)
    found = shown.findings.grouping
    truth = data.truth["grouping_brier"]
    assert 0.5 * truth < found.grouping_loss.estimate < 1.2 * truth
    whole = shown.findings.confidence
    total = whole.calibration.estimate + found.grouping_loss.estimate + found.rest.estimate
    assert total == pytest.approx(whole.expected_loss.estimate)
    assert found.rest.low < data.truth["grouping_brier"] + found.rest.estimate
    display = GroupingDisplay.from_grouping_estimator(shown.grouping_estimator)
    named = {region.rule for region in found.regions}
    assert named <= {region.rule for region in display.diagrams[0].regions}
    json.dumps(shown.to_dict())


def test_no_grouping_loss_where_there_is_none():
    data = make_grouping_problem(4000, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert shown.verdict.splitlines()[0] == "No miscalibration found."
    assert "The features do not tell groups" in shown.verdict


def test_features_that_cannot_be_cut_do_not_stop_the_report():
    data = make_tempered_simplex(300, 2, random_state=0)
    frame = pd.DataFrame({"word": ["a", "b", "c"] * 100})
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, frame)
    assert "Grouping loss was not estimated: X has columns that are no numbers" in shown.verdict
    assert shown.grouping_estimator is None
    assert "not estimated" in shown._repr_html_()


def test_features_follow_the_samples_that_count():
    data = make_grouping_problem(2000, random_state=0)
    weight = (np.arange(2000) % 2).astype(float)
    one = CalibrationReport.from_predictions(data.y, data.y_proba, data.X, sample_weight=weight)
    two = CalibrationReport.from_predictions(data.y[1::2], data.y_proba[1::2], data.X[1::2])
    assert one.to_dict()["grouping"] == two.to_dict()["grouping"]


def test_the_seed_decides():
    def numbers(seed, **run):
        content = report(300, random_state=seed, **run).to_dict()
        return {key: content[key] for key in ("errors", "advice", "test", "random_state")}

    assert numbers(1) == numbers(1)
    with parallel_config(backend="threading"):
        assert numbers(1) == numbers(np.int64(1), n_jobs=2)
    assert numbers(1)["errors"] != numbers(2)["errors"]
    drawn = numbers(np.random.RandomState(3))
    assert drawn == numbers(np.random.RandomState(3))
    assert drawn == numbers(drawn["random_state"])
    with pytest.raises(ValueError, match="random_state|seed"):
        report(30, random_state="1")


def test_verbose_tells_the_stages(capsys):
    report(30)
    assert capsys.readouterr().out == ""
    report(30, verbose=1, name="toy")
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("[CalibrationReport] toy: ") for line in lines] == [True] * 4


def test_weights_are_told():
    weight = np.random.default_rng(0).exponential(size=300)
    size = weight.sum() ** 2 / np.sum(weight**2)
    assert f"300 samples (weighted, worth {size:,.0f})" in str(report(300, sample_weight=weight))
    assert "weighted" not in str(report(300, sample_weight=np.full(300, 0.1)))


def test_labels_may_come_as_strings_numbers_or_booleans():
    data = make_tempered_simplex(200, 2, random_state=0)
    p = data.y_proba[:, 1]
    error = proper_calibration_error(data.y, p)
    for y, parameters in [
        (np.array(["no", "yes"])[data.y], {"pos_label": "yes"}),
        (np.array(["a", "b"])[1 - data.y], {"pos_label": "a"}),
        (data.y.astype(bool), {}),
    ]:
        shown = CalibrationReport.from_predictions(y, p, **parameters)
        found = shown.findings.error("brier", "canonical").calibration.estimate
        assert found == pytest.approx(error, abs=2e-4)
        json.dumps(shown.to_dict())


def test_numbers_have_the_decimals_of_their_error():
    assert number(0.123456, 0.0123) == "0.123"
    assert number(0.123456, 0.000123) == "0.12346"
    assert number(-0.0001, 0.01) == "0.000"  # no minus before a zero
    assert [number(v) for v in (np.inf, -np.inf, 0.0)] == ["infinite", "-infinite", "0.000"]
    assert (points(0.031), points(-0.31)) == ("3.1 points", "31 points")
    assert points_between(-0.31, -0.031) == "3.1 to 31 points"
    finding = report(300).findings.accuracy
    assert interval(finding).startswith(number(finding.estimate, finding.standard_error) + " [")
