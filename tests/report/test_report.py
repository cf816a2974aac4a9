import re
import time
import warnings

import numpy as np
import pytest
from conftest import report_of as report
from joblib import parallel_config
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skcalib as s
from skcalib import CalibrationReport
from skcalib._util import validation
from skcalib.data import problem
from skcalib.data.problem import check_problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.recalibration.held_out import default_candidates, one_standard_error
from skcalib.report import advice as maps
from skcalib.report.advice import RECALIBRATOR_NAMES, line_of_code
from skcalib.report.diagnosis import logistic_recalibration
from skcalib.report.findings import (
    TEST_LEVEL,
    collected_warnings,
    find_errors,
    find_places,
    find_test,
    interval_around,
)
from skcalib.report.report import kind_of
from skcalib.stats.means import MeanInterval

DATA = make_tempered_simplex(300, 3, random_state=0)


def test_a_gain_that_may_be_chance_is_no_advice():
    shown = report(30)
    advice = shown.findings.advice
    assert advice.selection.chosen == "TemperatureScaling" and advice.selection.gain.low < 0
    assert advice.recommended is shown.to_dict()["log_loss"]["after"] is None
    assert "too few to choose a recalibration map" in report(10, temperature=1.0).verdict


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
def test_a_map_that_raises_a_loss_is_not_recommended(
    monkeypatch, words_only, brier, log, recommended, refused
):
    brier = {**dict.fromkeys(LOG, 0.3), **brier, "IdentityRecalibrator": 0.314}
    noise = np.resize([-1.0, 1.0], 200)

    def stub(candidates, forecast, *args, **options):
        """As held_out_losses, from means by the names of maps and their standard error."""
        names = [type(recalibrator).__name__ for recalibrator in candidates]
        means = np.array([[mean[name] for name in names] for mean in ({**LOG, **log}, brier)])
        losses = means[:, :, None] + 0.02 * np.arange(len(names))[:, None] * noise
        return losses, None, [forecast] * len(names)

    monkeypatch.setattr(maps, "held_out_losses", stub)
    shown = report(200, 3)
    content = shown.to_dict()
    assert content["recommended"] == recommended
    assert sorted(
        refusal["name"] for refusal in content["recalibration_maps"]["refused"]
    ) == sorted(refused)
    assert (content["log_loss"]["after"] is None) == (recommended is None)
    assert (content["brier_score"]["after"] is None) == (recommended is None)
    for text in (shown._repr_html_(), " ".join(shown.to_text(details=True).split())):
        assert ("it raises the held-out Brier score from 0.314" in text) == bool(refused)
    if recommended is None:
        assert "Recalibration is not recommended" in shown.verdict and ".fit(" not in str(shown)
    else:
        assert "Brier score 0.314 -> 0.300" in shown.verdict
        assert f"{recommended}(" in str(shown)


@pytest.mark.parametrize(("wave", "falls"), [(0.9, True), (0.0, False)])
def test_a_map_that_falls_is_named(words_only, wave, falls):
    """The truth falls, or it is a line; the map is that of all samples, on a grid of (0, 1)."""
    rng = np.random.default_rng(1)
    odds = rng.normal(size=800)
    y = (rng.random(800) < expit(0.4 * odds + wave * np.sin(2 * odds))).astype(int)
    shown = CalibrationReport.from_predictions(y, expit(odds))
    advice = shown.findings.advice
    assert advice.falls == falls == shown.to_dict()["recalibration_maps"]["falls"]
    assert ("some larger scores get smaller probabilities" in shown.verdict) == falls
    fitted = getattr(s.recalibration, advice.recommended)().fit(expit(odds), y)
    grid = fitted.predict_proba(expit(np.linspace(-20, 20, 2001)))[:, 1]
    assert (np.diff(grid).min() < -1e-9) == falls


def test_a_map_that_does_not_fall_is_preferred_where_it_loses_little():
    names = ["identity", "falling", "rising", "best"]
    noise = np.resize([-1.0, 1.0], 100)

    def chosen(rising, falling):
        losses = np.array([0.7, 0.6, rising, 0.61])[:, None] + 1e-3 * noise * np.arange(4)[:, None]
        return one_standard_error(names, losses, falling=falling).chosen

    assert chosen(0.605, []) == chosen(0.607, ["falling"]) == "falling"
    assert chosen(0.605, ["falling"]) == "rising"
    assert chosen(0.602, ["falling", "rising"]) == "falling"


def test_from_estimator(few_maps, words_only):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    classifier, make = LogisticRegression(max_iter=1000), CalibrationReport.from_estimator
    crossed = make(classifier, X, names, cv=5, name="crossed")
    assert crossed.findings.n_samples == 150 and crossed.name == "crossed"
    assert "<style>" in crossed._repr_html_()
    shown = make(classifier.fit(X[::2], names[::2]), X[1::2], names[1::2])
    assert (shown.name, shown.findings.n_samples) == ("LogisticRegression", 75)
    assert shown.to_dict()["classes"] == ["setosa", "versicolor", "virginica"]
    search = GridSearchCV(make_pipeline(classifier), {"logisticregression__C": [1.0]}, cv=3)
    assert kind_of(search) == "GridSearchCV"
    assert kind_of(search.fit(X[::2], names[::2])) == "LogisticRegression"


def test_groups_that_differ_beside_the_direction_and_none(few_maps):
    samples = make_grouping_problem(1000, random_state=0)
    sharpened = samples.y_proba**3 / np.sum(samples.y_proba**3, axis=1, keepdims=True)
    said = CalibrationReport.from_predictions(samples.y, sharpened, samples.X).verdict
    assert said.startswith("Over-confident: predictions are too extreme.\n")
    assert "Groups with equal scores differ" in said
    samples = make_grouping_problem(500, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(samples.y, samples.y_proba, samples.X)
    assert shown.verdict.startswith("No evidence of miscalibration.\n")
    said = "No group was found that differs .* a group of 10 % would have to differ by about (.*?) "
    missed = 100 * shown.findings.missed_difference
    assert float(re.search(said, shown.verdict)[1]) == pytest.approx(missed, rel=0.05)


def test_features_follow_the_samples_that_count(few_maps):
    samples = make_grouping_problem(600, random_state=0)
    weight = (np.arange(600) % 2).astype(float)
    weighted = CalibrationReport.from_predictions(
        samples.y, samples.y_proba, samples.X, sample_weight=weight
    )
    halved = CalibrationReport.from_predictions(
        samples.y[1::2], samples.y_proba[1::2], samples.X[1::2]
    )
    assert weighted.to_dict()["grouping"] == halved.to_dict()["grouping"]


def test_the_seed_decides(few_maps):
    def numbers(seed, **run):
        content = report(60, random_state=seed, **run).to_dict()
        return [content[key] for key in ("recalibration_maps", "errors", "test", "random_state")]

    first = numbers(1)
    with parallel_config(backend="threading"):
        assert first == numbers(np.int64(1), n_jobs=2)
    drawn = numbers(np.random.RandomState(3))
    assert first[0] != drawn[0] and first[-1] != drawn[-1]
    assert drawn == numbers(np.random.RandomState(3)) == numbers(drawn[-1])


def test_verbose_tells_the_stages(capsys, few_maps):
    report(30)
    assert capsys.readouterr() == ("", "")
    report(30, verbose=1, name="toy")
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 5
    assert all(line.startswith("skcalib: toy: ") for line in shown.err.splitlines())


def test_what_a_long_call_computes_is_shown(capsys):
    """A line for the waiting metric; none for a fast call, and none after the context."""

    def slow(y, p, **_):
        time.sleep(0.02)
        return 0.0

    y, p = [0, 1] * 10, np.linspace(0, 1, 20)
    with s.show_progress(600):
        s.calibration_error(y, p)
    s.significance.consistency_test(y, p, metric=slow, n_resamples=2)
    assert capsys.readouterr() == ("", "")
    with s.show_progress(0.005):
        s.significance.consistency_test(y, p, metric=slow, n_resamples=20)
    shown = capsys.readouterr()
    assert re.search(r"skcalib: 0 s, in consistency_test > \w+", shown.err) and not shown.out
    with pytest.raises(ValueError, match="seconds must be a number above 0"):
        s.show_progress(0)


def test_warnings_become_notes(few_maps):
    """Three samples of each class tell next to nothing of single classes: the page says so."""
    shown = report(60, 20)
    (note,) = shown.findings.notes
    assert note.startswith("60 samples of 20 classes") and note not in shown.verdict
    assert f"Note: {note}" in shown.to_dict()["method"]
    assert report(30).findings.notes == ()
    with pytest.warns(FutureWarning, match="old"), collected_warnings() as notes:
        for kind in (UserWarning, UserWarning, FutureWarning):
            warnings.warn("old" if kind is FutureWarning else "bad", kind, stacklevel=1)
    assert notes == ["bad"]


def test_the_advice_can_be_followed():
    for n_classes in (2, 3):
        names = {type(candidate).__name__ for candidate in default_candidates(n_classes)}
        assert names - {"IdentityRecalibrator"} <= set(RECALIBRATOR_NAMES)
    for name in RECALIBRATOR_NAMES:
        code = line_of_code(name, "predictions").split(".fit(")[0]
        assert code in line_of_code(name, "predict_proba")
    assert "TemperatureScaling().fit(y_proba, y_true).predict_proba(new_proba)" in str(report(600))
    assert ".fit(" not in str(report(100, temperature=1.0))
    y = DATA.y[:60] % 2
    score = 0.5 + 0.4 * np.cos(7 * DATA.y_proba[:60, 0]) * (y == 0)
    turned = CalibrationReport.from_predictions(np.array(["a", "b"])[y], score, pos_label="a")
    assert "labels=['b', 'a'])" in str(turned)


@pytest.mark.slow
def test_what_many_probabilities_leave_out():
    told = " ".join(report(3200, 100).to_dict()["method"])
    assert "3,200, all in the calibration test" in told
    assert "Omitted, as they take too long for so many probabilities: VectorScaling" in told


def test_how_it_was_computed(few_maps):
    content = report(30, n_classes=3).to_dict()
    few = " ".join(content["method"])
    assert (content["n_samples"], content["n_tested"], len(content["errors"])) == (30, 30, 6)
    assert {"skcalib", "scikit-learn", "numpy", "scipy", "matplotlib"} == set(content["versions"])
    assert (
        "30, all in the calibration test" in few and "Left out" not in few and "Groups" not in few
    )
    weight = np.random.default_rng(0).exponential(size=100)
    size = weight.sum() ** 2 / np.sum(weight**2)
    assert f"100 samples (effective size {size:,.0f})" in str(report(100, sample_weight=weight))
    assert "effective" not in str(report(100, sample_weight=np.full(100, 0.1)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_forecasts_are_validated_once(n_classes, monkeypatch):
    """What a report calls gets the `Problem`, and recalibrators of the library its arrays."""
    validated = []
    check = validation.check_simplex

    def counted(*arguments, **options):
        validated.append(arguments)
        return check(*arguments, **options)

    for module in (validation, problem):
        monkeypatch.setattr(module, "check_simplex", counted)
    shown = report(60, n_classes)
    assert shown._repr_html_() and shown.to_text(details=True) and shown.to_dict()
    assert len(validated) == 1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_forecasts_of_the_comparison_are_those_of_new_fits(n_classes, set_sizes):
    """The recalibrated forecasts of a report are computed once; exactly the same."""
    samples = make_tempered_simplex(300, n_classes, random_state=0)
    problem = check_problem(samples.y, samples.y_proba)
    folds = [np.arange(300)[k::5] for k in range(5)]
    advice, forecasts = maps.compare_maps(problem, folds, 0.95, None)
    selection = advice.selection
    set_sizes(report_entries=problem.forecast.size - 1)
    assert set(forecasts) == set(selection.names) and "StackedRecalibrator" in forecasts
    for name in ("TemperatureScaling", "IsotonicRecalibrator"):
        once = maps.recalibrate(problem, name, folds, forecasts)
        again = maps.recalibrate(problem, name, folds)
        np.testing.assert_array_equal(once.forecast, again.forecast)
        np.testing.assert_array_equal(once.target, again.target)
    advice, forecasts = maps.compare_maps(problem, folds, 0.95, None)
    assert forecasts == {} and set(advice.selection.names) < set(selection.names)


@pytest.mark.slow
def test_calibrated_forecasts_are_rarely_called_miscalibrated():
    """An interval and three tests at .005: 100 data sets, 3 expected at most, 2.5 % error."""
    alarms = 0
    for seed in range(100):
        samples = make_tempered_simplex(500, 2, score_temperature=1.0, random_state=seed)
        problem = check_problem(samples.y, samples.y_proba)
        errors, _ = find_errors(problem, problem, 0.95, 0)
        test, _ = find_test(problem, 0)
        pvalues = errors[0].residual_pvalue, logistic_recalibration(problem, 0.95).pvalue
        alarms += errors[0].detected or test.rejects(TEST_LEVEL) or min(pvalues) < TEST_LEVEL
    assert alarms <= 5


def test_a_curve_that_no_slope_can_follow_is_found(rng, few_maps):
    """Right on average and symmetric on the logit, at four values only."""
    p = rng.choice([0.2, 0.4, 0.6, 0.8], size=2000)
    truth = np.select([p == 0.2, p == 0.4, p == 0.6], [0.2, 0.28, 0.72], 0.8)
    shown = s.CalibrationReport.from_predictions((rng.random(2000) < truth).astype(int), p)
    assert shown.miscalibrated
    wrong = shown.findings.worst_places("scores", 3)
    assert sorted(place.label for place in wrong) == ["40.0 %", "60.0 %"]


@pytest.mark.slow
def test_places_of_calibrated_forecasts_are_rarely_accused():
    """Each kind holds for all of its places at once: 5 % or less; 200 data sets."""
    alarms = np.zeros(2)
    for seed in range(200):
        samples = make_tempered_simplex(300, 3, score_temperature=1.0, random_state=seed)
        places = find_places(check_problem(samples.y, samples.y_proba), 0.95)
        off = {place.kind for place in places if place.detected}
        alarms += [kind in off for kind in ("scores", "class")]
    assert alarms.max() / 200 <= 0.05 + 3 * 0.0154


def test_places_hold_all_samples_once():
    samples = make_tempered_simplex(1000, 3, random_state=0)
    weight = np.random.default_rng(0).exponential(size=1000)
    places = find_places(check_problem(samples.y, samples.y_proba, sample_weight=weight), 0.95)
    scores = [
        (place.n_samples, place.share, place.mean_score)
        for place in places
        if place.kind == "scores"
    ]
    size, share, score = np.array(scores).T
    assert (size.sum(), share.sum()) == (1000, pytest.approx(1))
    assert share @ score == pytest.approx(np.average(samples.y_proba.max(axis=1), weights=weight))
    assert [place.label for place in places if place.kind == "class"] == ["0", "1", "2"]


def test_numbers_agree_with_the_estimators(few_maps):
    shown = CalibrationReport.from_predictions(DATA.y, DATA.y_proba)
    for finding in shown.findings.errors:
        options = {"loss": finding.loss, "notion": finding.notion}
        estimator = s.CalibrationErrorEstimator(random_state=0, **options)
        estimator.fit(DATA.y_proba, DATA.y)
        error, refinement = finding.calibration, finding.refinement.estimate
        assert error.estimate == pytest.approx(estimator.calibration_error_)
        assert (error.low, error.high) == pytest.approx(estimator.confidence_interval_)
        assert refinement == pytest.approx(estimator.refinement_)
        function = s.proper_calibration_error(DATA.y, DATA.y_proba, **options)
        assert error.estimate == pytest.approx(function, abs=1e-12)
        assert finding.expected_loss.estimate == pytest.approx(error.estimate + refinement)
    error = s.proper_calibration_error(DATA.y, DATA.y_proba, notion="top_label")
    assert shown.findings.typical_error["estimate"] ** 2 == pytest.approx(error, rel=1e-9)


def test_reported_numbers_agree_with_the_functions(few_maps):
    samples = make_tempered_simplex(100, 2, random_state=0)
    weight = np.random.default_rng(0).exponential(size=100)
    arguments = {"y_true": samples.y, "y_proba": samples.y_proba, "sample_weight": weight}
    shown = CalibrationReport.from_predictions(**arguments)
    numbers = {number.key: number.value for number in shown.findings.reported}
    assert numbers["root_brier_score"].estimate == pytest.approx(s.root_brier_score(**arguments))
    line = s.calibration_intercept_slope(**arguments)
    assert numbers["slope"].estimate == pytest.approx(line.slope.estimate)
    assert numbers["in_the_large"].low == pytest.approx(line.in_the_large.low)
    for key in ("ece", "ks"):
        interval = s.calibration_error_interval(**arguments, metric=key, notion="canonical")
        for end in ("estimate", "low", "high"):
            assert getattr(numbers[key], end) == pytest.approx(getattr(interval, end))
    multiclass = report(60, n_classes=3).findings.reported
    assert [number.key for number in multiclass] == ["ece", "ks", "root_brier_score"]
    assert multiclass[0].name.endswith("of the confidence") and multiclass[0].target


def test_all_intervals_have_the_level(few_maps):
    wide, narrow = (report(600, confidence_level=level).findings for level in (0.99, 0.8))
    names = ("accuracy", "confidence_gap", "observed_rate", "observed_expected_ratio")
    pairs = [
        [findings.advice.selection.gain, *(getattr(findings, name) for name in names)]
        for findings in (wide, narrow)
    ]
    for a, b in zip(*pairs, strict=True):
        assert a.low < b.low < b.estimate == a.estimate < b.high < a.high


@pytest.mark.parametrize("limits", [(0.0972, 0.0972, 0.1209, 0.0062), (1e-4, 1e-4, 8e-4, 3e-4)])
def test_no_interval_begins_at_its_estimate(limits):
    interval = interval_around(MeanInterval(*limits), 0.95)
    assert 0 < interval.low < interval.estimate == limits[0] and interval.high == limits[2]
    assert interval_around(interval, 0.95) == interval


def test_no_part_exceeds_the_limit_of_the_whole(few_maps):
    y = np.zeros(300, dtype=int)
    y[:2] = 1  # the spread of two events says little about the mean loss
    proba = np.r_[0.1, 0.17, np.random.default_rng(0).beta(0.5, 25, 298)]
    for error in s.CalibrationReport.from_predictions(y, proba).findings.errors:
        assert max(error.calibration.high, error.refinement.high) <= error.expected_loss.high
