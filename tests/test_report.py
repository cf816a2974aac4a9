import json
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import (
    CalibrationReport,
    GroupingDisplay,
    proper_calibration_error,
)
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.report._from_data import _kind
from skcalib.report._numbers import interval, number, points, points_between
from skcalib.report._run import noted
from skcalib.report.advice import RECALIBRATOR_NAMES, in_code
from skcalib.selection import default_candidates


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
    search = GridSearchCV(make_pipeline(classifier), {"logisticregression__C": [1.0]}, cv=3)
    assert _kind(search) == "GridSearchCV"
    assert _kind(search.fit(X[::2], names[::2])) == "LogisticRegression"
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


def test_both_kinds_of_error_are_in_the_headline():
    data = make_grouping_problem(4000, random_state=0)
    sharpened = data.y_proba**3 / np.sum(data.y_proba**3, axis=1, keepdims=True)
    shown = CalibrationReport.from_predictions(data.y, sharpened, data.X)
    headline = "Miscalibrated: over-confident, and wrong for some groups."
    assert shown.verdict.splitlines()[0] == headline


def test_no_grouping_loss_where_there_is_none():
    data = make_grouping_problem(4000, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert shown.verdict.splitlines()[0] == "No miscalibration found."
    assert "No groups were found that the same score treats differently" in shown.verdict


def test_features_that_cannot_be_cut_do_not_stop_the_report():
    data = make_tempered_simplex(300, 2, random_state=0)
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=300)})
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, frame)
    assert "Grouping loss was not estimated: X has columns that are no numbers" in shown.verdict
    assert shown.grouping_estimator is None
    assert "not estimated" in shown._repr_html_()


def test_features_of_other_samples_are_refused():
    data = make_tempered_simplex(300, 2, random_state=0)
    for n_rows in (299, 301):
        for X in (np.zeros((n_rows, 2)), [[0.0]] * n_rows):
            with pytest.raises(ValueError, match=f"same number of samples: X has {n_rows}"):
                CalibrationReport.from_predictions(data.y, data.y_proba, X)


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


def test_warnings_become_notes():
    """Three samples of each class tell next to nothing of single classes: the page says so."""
    data = make_tempered_simplex(60, 20, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, labels=np.arange(20))
    (note,) = shown.findings.notes
    assert note.startswith("60 samples of 20 classes")
    assert f"Note: {note}" in shown.verdict.splitlines()
    assert report(300).findings.notes == ()
    with pytest.warns(FutureWarning, match="old"), noted() as notes:
        for _ in range(2):
            warnings.warn("bad", UserWarning, stacklevel=1)
        warnings.warn("old", FutureWarning, stacklevel=1)
    assert notes == ["bad"]


def test_the_advice_can_be_followed():
    data = make_tempered_simplex(300, 3, random_state=0)
    for n_classes in (2, 3):
        names = {type(one).__name__ for one in default_candidates(n_classes)}
        assert names - {"IdentityRecalibrator"} <= set(RECALIBRATOR_NAMES)
    for name in RECALIBRATOR_NAMES:
        advice = SimpleNamespace(chosen=name)
        code = in_code(SimpleNamespace(advice=advice)).split("recalibrator = ")[1].split(".fit(")[0]
        fitted = eval(code, vars(skcalib)).fit(data.y_proba[:, :2] / data.y_proba[:, :2].sum(
            axis=1, keepdims=True), data.y % 2)  # fmt: skip
        assert fitted.predict_proba(np.array([[0.3, 0.7]])).shape == (1, 2)
    assert "In code: recalibrator = TemperatureScaling()" in str(report())
    assert "In code" not in str(report(temperature=1.0))


def test_how_it_was_computed():
    data = make_tempered_simplex(4000, 100, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, labels=np.arange(100))
    told = " ".join(shown.to_dict()["method"])
    assert "4,000; 3,162 of them, drawn at random, in the kernel test" in told
    assert "VectorScaling was left out" in told
    few = " ".join(report(30).to_dict()["method"])
    assert "30, all of them" in few and "left out" not in few and "Grouping" not in few


def test_weights_are_told():
    weight = np.random.default_rng(0).exponential(size=300)
    size = weight.sum() ** 2 / np.sum(weight**2)
    assert f"300 samples (weighted, worth {size:,.0f})" in str(report(300, sample_weight=weight))
    assert "weighted" not in str(report(300, sample_weight=np.full(300, 0.1)))


def test_labels_may_come_as_strings_numbers_or_booleans():
    data = make_tempered_simplex(200, 2, random_state=0)
    p = data.y_proba[:, 1]
    error = proper_calibration_error(data.y, p, method="risk")
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
