import re
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import report_of as report
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import CalibrationReport, _validation, problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.problem import check_problem
from skcalib.recalibration.selection import default_candidates
from skcalib.report import analysis
from skcalib.report.findings import noted
from skcalib.report.report import _kind
from skcalib.report.wording import RECALIBRATOR_NAMES, in_code, in_code_predictions

NAMES = {name: getattr(skcalib, name) for name in skcalib.__all__}


def test_a_gain_that_may_be_chance_is_no_advice():
    shown = report(30)
    assert shown.findings.advice.selection.chosen == "TemperatureScaling"
    assert shown.findings.advice.selection.gain.low < 0
    assert shown.findings.advice.recommended is None
    assert shown.to_dict()["log_loss"]["after"] is None
    assert "Recalibrate with" not in str(shown)
    assert "too few to choose a recalibration map" in report(10, temperature=1.0).verdict


def stub_losses(log, brier):
    """As held_out_losses, from means by the names of maps; their standard error."""
    noise = np.resize([-1.0, 1.0], 200)

    def losses(candidates, *args, **rest):
        names = [type(one).__name__ for one in candidates]
        means = np.array([[mean[name] for name in names] for mean in (log, brier)])
        return means[:, :, None] + 0.02 * np.arange(len(names))[:, None] * noise, None

    return losses


LOG = {
    "IdentityRecalibrator": 0.9, "TemperatureScaling": 0.7, "LabelNoiseScaling": 0.87,
    "InterceptRecalibrator": 0.85, "BiasCorrectedTemperatureScaling": 0.5, "VectorScaling": 0.65,
    "MatrixScaling": 0.77, "ModelAverageScaling": 0.75, "VennAbersRecalibrator": 0.78,
    "IsotonicRecalibrator": 0.8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("brier", "log", "recommended", "refused"),
    [
        ({}, {}, "BiasCorrectedTemperatureScaling", []),
        ({"BiasCorrectedTemperatureScaling": 0.323}, {}, "VectorScaling",
         ["BiasCorrectedTemperatureScaling"]),
        ({"BiasCorrectedTemperatureScaling": 0.3141}, {}, "VectorScaling",
         ["BiasCorrectedTemperatureScaling"]),
        (dict.fromkeys(LOG, 0.4), {}, None, [*LOG, "StackedRecalibrator"][1:]),
        (dict.fromkeys(LOG, 0.4), {"IdentityRecalibrator": np.inf}, None,
         [*LOG, "StackedRecalibrator"][1:]),
        ({}, dict.fromkeys(LOG, np.inf), None, ["StackedRecalibrator"]),
    ],
)  # fmt: skip
def test_a_map_that_raises_a_loss_is_not_recommended(monkeypatch, brier, log, recommended, refused):
    brier = {**dict.fromkeys(LOG, 0.3), **brier, "IdentityRecalibrator": 0.314}
    stub = stub_losses({**LOG, **log}, brier)

    def with_forecasts(candidates, forecast, *args, **rest):
        return *stub(candidates), [forecast] * len(candidates)

    monkeypatch.setattr(analysis, "held_out_losses", with_forecasts)
    data = make_tempered_simplex(200, 3, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba)
    found = shown.to_dict()
    assert found["recommended"] == recommended
    assert sorted(one["name"] for one in found["recalibration_maps"]["refused"]) == sorted(refused)
    assert (found["log_loss"]["after"] is None) == (recommended is None)
    assert (found["brier_score"]["after"] is None) == (recommended is None)
    for text in (shown._repr_html_(), " ".join(shown.to_text(details=True).split())):
        assert ("it raises the held-out Brier score from 0.314" in text) == bool(refused)
    if recommended is None:
        assert "Recalibration is not recommended" in shown.verdict and ".fit(" not in str(shown)
    else:
        assert "Brier score 0.314 -> 0.300" in shown.verdict
        assert f"{recommended}(" in str(shown)


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


def test_groups_that_differ_beside_the_direction_and_none():
    data = make_grouping_problem(2500, random_state=0)
    sharpened = data.y_proba**3 / np.sum(data.y_proba**3, axis=1, keepdims=True)
    shown = CalibrationReport.from_predictions(data.y, sharpened, data.X)
    assert shown.verdict.splitlines()[0] == "Over-confident: predictions are too extreme."
    assert "Groups with equal scores differ" in shown.verdict
    data = make_grouping_problem(2500, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert shown.verdict.splitlines()[0] == "No evidence of miscalibration."
    said = "No group was found that differs .* a group of 10 % would have to differ by about (.*?) "
    missed = 100 * shown.findings.missed_difference
    assert float(re.search(said, shown.verdict)[1]) == pytest.approx(missed, rel=0.05)


def test_features_that_cannot_be_cut_do_not_stop_the_report():
    data = make_tempered_simplex(300, 2, random_state=0)
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=300)})
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, frame)
    assert "Groups were not compared: X has non-numeric columns" in shown.verdict
    assert shown.grouping_estimator is None
    assert "Groups were not compared" in shown._repr_html_()
    for X in (np.zeros((299, 2)), [[0.0]] * 301):  # features of other samples
        with pytest.raises(ValueError, match=f"same number of samples: X has {len(X)}"):
            CalibrationReport.from_predictions(data.y, data.y_proba, X)


def test_features_follow_the_samples_that_count():
    data = make_grouping_problem(1200, random_state=0)
    weight = (np.arange(1200) % 2).astype(float)
    one = CalibrationReport.from_predictions(data.y, data.y_proba, data.X, sample_weight=weight)
    two = CalibrationReport.from_predictions(data.y[1::2], data.y_proba[1::2], data.X[1::2])
    assert one.to_dict()["grouping"] == two.to_dict()["grouping"]


def test_the_seed_decides():
    def numbers(seed, **run):
        content = report(200, random_state=seed, **run).to_dict()
        names = ("errors", "recalibration_maps", "test", "random_state")
        return {key: content[key] for key in names}

    one = numbers(1)
    with parallel_config(backend="threading"):
        assert one == numbers(np.int64(1), n_jobs=2)
    assert one["recalibration_maps"] != numbers(2)["recalibration_maps"]
    drawn = numbers(np.random.RandomState(3))
    assert drawn == numbers(np.random.RandomState(3)) == numbers(drawn["random_state"])
    with pytest.raises(ValueError, match="random_state|seed"):
        report(30, random_state="1")


def test_verbose_tells_the_stages(capsys):
    report(30)
    assert capsys.readouterr().err == ""
    report(30, verbose=1, name="toy")
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == ""
    assert [line.startswith("skcalib: toy: ") for line in lines] == [True] * 5


def test_what_a_long_call_computes_is_shown(capsys):
    """A line for the waiting metric; none for a fast call, and none after the context."""

    def slow(y, p, **_):
        time.sleep(0.02)
        return 0.0

    y, p = [0, 1] * 10, np.linspace(0, 1, 20)
    with skcalib.show_progress(600):
        skcalib.calibration_error(y, p)
    skcalib.consistency_test(y, p, metric=slow, n_resamples=2)
    assert capsys.readouterr() == ("", "")
    with skcalib.show_progress(0.005):
        skcalib.consistency_test(y, p, metric=slow, n_resamples=20)
    shown = capsys.readouterr()
    assert re.search(r"skcalib: 0 s, in consistency_test > \w+", shown.err) and not shown.out
    with pytest.raises(ValueError, match="seconds must be a number above 0"):
        skcalib.show_progress(0)


def test_warnings_become_notes():
    """Three samples of each class tell next to nothing of single classes: the page says so."""
    data = make_tempered_simplex(60, 20, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, labels=np.arange(20))
    (note,) = shown.findings.notes
    assert note.startswith("60 samples of 20 classes")
    assert note not in shown.verdict
    assert f"Note: {note}" in shown.to_dict()["method"]
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
        findings = SimpleNamespace(advice=SimpleNamespace(recommended=name))
        code = in_code_predictions(findings, [0, 1]).split(".fit(")[0]
        fitted = eval(code, NAMES).fit(data.y_proba[:, :2] / data.y_proba[:, :2].sum(
            axis=1, keepdims=True), data.y % 2)  # fmt: skip
        assert fitted.predict_proba(np.array([[0.3, 0.7]])).shape == (1, 2)
        assert code in in_code(findings)
    assert "TemperatureScaling().fit(y_proba, y_true).predict_proba(new_proba)" in str(report())
    assert ".fit(" not in str(report(temperature=1.0))
    y, p = data.y % 2, data.y_proba[:, 0]
    other = CalibrationReport.from_predictions(
        np.array(["a", "b"])[y], 0.5 + 0.4 * np.cos(7 * p) * (y == 0), pos_label="a"
    )
    assert "labels=['b', 'a'])" in str(other)


def test_the_code_of_a_classifier_can_be_run():
    X, y = load_breast_cancer(return_X_y=True)
    model = GaussianNB().fit(X[::2], y[::2])
    shown = CalibrationReport.from_estimator(model, X[1::2], y[1::2])
    (code,) = (line for line in str(shown).splitlines() if "RecalibratedClassifierCV(" in line)
    names = {**NAMES, "model": clone(model), "X_train": X[::2], "y_train": y[::2]}
    assert eval(code.strip(), names).predict_proba(X[1::2]).shape == (284, 2)


@pytest.mark.slow
def test_what_many_probabilities_leave_out():
    data = make_tempered_simplex(3200, 100, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, labels=np.arange(100))
    told = " ".join(shown.to_dict()["method"])
    assert "3,200; a random 3,162 of them in the kernel test" in told
    assert "Omitted, as they take too long for so many probabilities: VectorScaling" in told


def test_how_it_was_computed():
    found = report(30, n_classes=3).to_dict()
    few = " ".join(found["method"])
    assert (found["n_samples"], found["n_tested"], len(found["errors"])) == (30, 30, 6)
    assert {"skcalib", "scikit-learn", "numpy", "scipy", "matplotlib"} == set(found["versions"])
    assert "30, all in the kernel test" in few and "Left out" not in few and "Groups" not in few
    weight = np.random.default_rng(0).exponential(size=100)
    size = weight.sum() ** 2 / np.sum(weight**2)
    assert f"100 samples (effective size {size:,.0f})" in str(report(100, sample_weight=weight))
    assert "effective" not in str(report(100, sample_weight=np.full(100, 0.1)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_forecasts_are_validated_once(n_classes, monkeypatch):
    """What a report calls gets the `Problem`, and recalibrators of the library its arrays."""
    validated = []
    check = _validation._check_simplex

    def counted(*arguments, **options):
        validated.append(arguments)
        return check(*arguments, **options)

    for module in (_validation, problem):
        monkeypatch.setattr(module, "_check_simplex", counted)
    data = make_tempered_simplex(400, n_classes, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba)
    assert shown._repr_html_() and shown.to_text(details=True) and shown.to_dict()
    assert len(validated) == 1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_forecasts_of_the_comparison_are_those_of_new_fits(n_classes, monkeypatch):
    """The recalibrated forecasts of a report are computed once; exactly the same."""
    data = make_tempered_simplex(300, n_classes, random_state=0)
    problem = check_problem(data.y, data.y_proba)
    folds = [np.arange(300)[k::5] for k in range(5)]
    known = {}
    found = analysis._compare_maps(problem, folds, 0.95, None, known)
    monkeypatch.setattr(analysis, "LARGE", problem.forecast.size - 1)
    kept = dict(known)
    assert set(kept) == set(found[0].names) and "StackedRecalibrator" in kept
    for name in ("TemperatureScaling", "IsotonicRecalibrator"):
        once = analysis.recalibrate(problem, name, folds, kept)
        again = analysis.recalibrate(problem, name, folds)
        np.testing.assert_array_equal(once.forecast, again.forecast)
        np.testing.assert_array_equal(once.target, again.target)
    known.clear()
    names = analysis._compare_maps(problem, folds, 0.95, None, known)[0].names
    assert known == {} and set(names) < set(found[0].names)
