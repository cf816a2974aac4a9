import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skcalib import (
    CalibrationErrorEstimator,
    CalibrationReport,
    calibration_upper_bound,
    root_brier_score,
)
from skcalib.datasets import make_grouping_problem, make_tempered_simplex


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
    advice = "Recalibrate by" if found else "Leave it:"
    assert any(line.startswith(advice) for line in shown.verdict.splitlines())


def test_calibrated_forecasts_are_rarely_accused():
    """Two looks at 2.5 % each: at most 5 % false alarms; 100 data sets, standard error 2 %."""
    alarms = 0
    for seed in range(100):
        data = make_tempered_simplex(500, 2, score_temperature=1.0, random_state=seed)
        alarms += CalibrationReport.from_predictions(data.y, data.y_proba).miscalibrated
    assert alarms <= 9


def test_a_curve_that_no_slope_can_follow_is_found():
    """Right on average and symmetric on the logit: only isotonic regression sees it."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.4, 0.6, 0.8], size=4000)
    truth = np.select([p == 0.2, p == 0.4, p == 0.6], [0.2, 0.28, 0.72], 0.8)
    shown = CalibrationReport.from_predictions((rng.random(4000) < truth).astype(int), p)
    assert shown.findings.flexible.detected
    assert shown.miscalibrated


def test_numbers_agree_with_the_estimators():
    data = make_tempered_simplex(500, 3, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba)
    for finding in shown.findings.errors:
        estimator = CalibrationErrorEstimator(loss=finding.loss, notion=finding.notion)
        estimator.fit(data.y_proba, data.y)
        assert finding.calibration.estimate == pytest.approx(estimator.calibration_error_)
        low, high = estimator.confidence_interval_
        assert (finding.calibration.low, finding.calibration.high) == pytest.approx((low, high))
        assert finding.terms.refinement == pytest.approx(estimator.refinement_)
    rbs = root_brier_score(data.y, data.y_proba)
    assert shown.findings.root_brier_score == pytest.approx(rbs)
    assert rbs**2 == pytest.approx(calibration_upper_bound(data.y, data.y_proba))


def test_dictionary_is_ready_for_json():
    content = json.loads(json.dumps(report(n_classes=3).to_dict()))
    assert content["miscalibrated"] is True
    assert content["n_samples"] == 2000 and content["n_classes"] == 3
    assert len(content["errors"]) == 6
    assert {"skcalib", "scikit-learn", "numpy", "scipy", "matplotlib"} == set(content["versions"])


class Reader(HTMLParser):
    void = frozenset({"meta", "br", "img", "hr", "link"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href") and not v.startswith("#")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_self_contained(tmp_path):
    shown = report(n_classes=3, name="<b>model</b> & co")
    path = shown.to_html(tmp_path / "r.html")
    page = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.tags.count("svg") == 2 and "script" not in reader.tags
    assert [link for link in reader.links if "w3.org" not in link] == []
    assert "&lt;b&gt;model&lt;/b&gt;" in page and "<b>model" not in page
    assert shown.verdict.splitlines()[0] in page
    assert "nan" not in re.sub("<svg.*?</svg>", "", page, flags=re.S).lower()


def test_page_is_reproducible(tmp_path):
    one, two = (report(300).to_html(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert one == two


def test_text():
    text = str(report(n_classes=3, name="my model"))
    assert text.startswith("Calibration report: my model\n2,000 samples, 3 classes")
    assert max(map(len, text.splitlines())) <= 100
    assert "nan" not in text.lower()
    assert "Miscalibrated: over-confident" in repr(report(2000))


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


def test_grouping_loss_where_features_are_given(tmp_path):
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
    total = found.calibration + found.grouping_loss.estimate + found.irreducible_bound
    assert total == pytest.approx(found.loss)
    page = shown.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "What calibration cannot see" in page and "age" in page
    assert "grouping (at least)" in str(shown)
    json.dumps(shown.to_dict())


def test_no_grouping_loss_where_there_is_none():
    data = make_grouping_problem(4000, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert shown.verdict.splitlines()[0] == "No miscalibration found."
    assert "The features do not tell groups" in shown.verdict


def test_features_that_cannot_be_cut_do_not_stop_the_report(tmp_path):
    data = make_tempered_simplex(300, 2, random_state=0)
    frame = pd.DataFrame({"word": ["a", "b", "c"] * 100})
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, frame)
    assert "Grouping loss was not estimated: X has columns that are no numbers" in shown.verdict
    assert "Not estimated" in shown.to_html(tmp_path / "r.html").read_text(encoding="utf-8")


def test_features_follow_the_samples_that_count():
    data = make_grouping_problem(2000, random_state=0)
    weight = (np.arange(2000) % 2).astype(float)
    one = CalibrationReport.from_predictions(
        data.y, data.y_proba, data.X, sample_weight=weight
    )
    two = CalibrationReport.from_predictions(data.y[1::2], data.y_proba[1::2], data.X[1::2])
    assert one.to_dict()["grouping"] == two.to_dict()["grouping"]


def test_edges(tmp_path):
    """Hard forecasts, infinite log loss, ties, few samples: a page without NaN."""
    cases = {
        "hard": ([0, 1, 1, 0, 1], [0.0, 1.0, 1.0, 0.0, 1.0]),
        "hard and wrong": ([0, 1, 1, 0, 1, 0], [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
        "constant": ([0, 1, 1, 0, 1, 0], [0.5] * 6),
        "one class": ([1, 1, 1, 1], [0.2, 0.9, 0.7, 0.6]),
        "two samples": ([0, 1], [0.3, 0.6]),
    }
    for name, (y, p) in cases.items():
        shown = CalibrationReport.from_predictions(y, p, labels=[0, 1], name=name)
        page = shown.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
        for text in (str(shown), re.sub("<svg.*?</svg>", "", page, flags=re.S)):
            assert "nan" not in text.lower(), name
    with pytest.raises(ValueError, match="At least 2 samples are needed"):
        CalibrationReport.from_predictions([1], [0.3])


def test_infinite_log_loss_is_said():
    shown = CalibrationReport.from_predictions([0, 1, 1, 0] * 5, [0.0, 1.0, 0.0, 0.1] * 5)
    assert "The log loss is infinite" in shown.verdict
    assert "infinite" in str(shown)
