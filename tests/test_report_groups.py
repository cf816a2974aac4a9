"""The second look for groups, columns of categories, and maps that must not be advised."""

import numpy as np
import pandas as pd
import pytest

from skcalib import CalibrationReport
from skcalib._checks import check_problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.intervals import MeanInterval
from skcalib.report import _grouping, finders
from skcalib.report._features import MOST_CATEGORIES, encode_features, plain_rule
from skcalib.report._numbers import bound


def planted(n_samples=3000, harm=2.5, seed=0):
    """A small group, of two features at once, whose forecasts promise too much."""
    rng = np.random.default_rng(seed)
    age, region = rng.integers(18, 90, n_samples), rng.integers(0, 4, n_samples)
    noise = rng.normal(size=(n_samples, 6))
    logit = 1.5 * rng.normal(size=n_samples)
    harmed = (age > 62) & (region == 2)
    truth = 1 / (1 + np.exp(-np.where(harmed, logit - harm, logit + 0.08 * harm)))
    frame = pd.DataFrame(noise, columns=[f"z{k}" for k in range(6)]).assign(age=age, region=region)
    return frame, (rng.random(n_samples) < truth).astype(int), 1 / (1 + np.exp(-logit))


def test_groups_that_only_the_second_look_finds():
    X, y, p = planted()
    shown = CalibrationReport.from_predictions(y, p, X)
    found = shown.findings.grouping
    assert found.detected and not found.by_trees
    assert found.bound == found.second.grouping_loss and found.bound.low > 0
    assert found.second.n_samples == 3000
    whole = shown.findings.confidence
    total = whole.calibration.estimate + found.bound.estimate + found.rest.estimate
    assert total == pytest.approx(whole.expected_loss.estimate)
    assert "rong for some groups" in shown.verdict.splitlines()[0]
    content = shown.to_dict()
    assert content["wrong_for_some_groups"] is True
    assert content["grouping"]["second"]["pvalue"] < 0.001
    for text in (shown.verdict, shown._repr_html_(), str(shown).replace("\n    ", " ")):
        assert "there are groups that the same score treats differently" in text
        assert "Trees could not name them" in text
    assert "grouping, at least" in " ".join(str(shown).split())
    assert "seen (3,000 samples)" in " ".join(content["method"])


def test_neither_look_finds_what_is_not_there():
    """Twenty data sets without grouping loss; each look is at 5 %, beside its interval."""
    alarms = 0
    for seed in range(20):
        data = make_grouping_problem(800, heterogeneity=0.0, random_state=seed)
        problem = check_problem(data.y, data.y_proba)
        refinement = MeanInterval(0.2, 0.1, 0.3, 0.05)
        found, _ = _grouping.find_grouping(problem, data.X, refinement, 0.95, 0)
        alarms += found.detected
    assert alarms <= 3
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert "differently, by trees nor by a model of all features" in shown.verdict


def test_many_rows_are_sampled_for_the_second_look(monkeypatch):
    monkeypatch.setattr(_grouping, "MOST_ROWS", 500)
    X, y, p = planted(1200)
    shown = CalibrationReport.from_predictions(y, p, X.to_numpy().tolist())
    assert shown.findings.grouping.second.n_samples == 500
    assert "seen (500 samples" in " ".join(shown.to_dict()["method"])


def test_a_bound_below_zero_is_none():
    assert bound(MeanInterval(-0.0112, -0.0188, -0.0035, 0.004)) == "none (estimate -0.0112)"
    assert bound(MeanInterval(1e-19, -1e-19, 1e-18, 1e-19)) == "none (estimate 0)"
    assert bound(MeanInterval(0.0112, 0.0035, 0.0188, 0.004)) == "0.0112 [0.0035, 0.0188]"
    data = make_grouping_problem(500, heterogeneity=0.0, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba, data.X)
    assert shown.findings.grouping.grouping_loss.estimate < 0
    for text in (shown._repr_html_(), " ".join(str(shown).split())):
        assert "trees none (estimate -0." in text
        assert "grouping: none (estimate -0." in text


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_categories(library):
    pytest.importorskip(library)
    n = 4000
    rng = np.random.default_rng(0)
    region = rng.choice(["north", "south", "east"], n)
    p = rng.uniform(0.2, 0.8, n)
    y = (rng.random(n) < p + np.where(region == "south", -0.2, 0.1)).astype(int)
    content = {"z": rng.normal(size=n), "region": region, "flag": rng.random(n) < 0.5}
    X = pd.DataFrame(content)
    if library == "polars":
        import polars as pl

        X = pl.DataFrame(content)
    else:
        X["region"] = X["region"].astype("category")
        X.index = X.index[::-1]
    before = X.copy() if library == "pandas" else X.clone()
    shown = CalibrationReport.from_predictions(y, p, X)
    assert X.equals(before)
    found = shown.findings.grouping
    assert found.detected
    assert found.categories[0].rule == "region = south"
    assert "Where region = south, a score of 0.49" in shown.verdict
    if library == "polars" and not hasattr(shown.grouping_estimator, "feature_names_in_"):
        return  # scikit-learn 1.6 reads the names of polars frames of its time only
    names = list(shown.grouping_estimator.feature_names_in_)
    assert names == ["z", "region = east", "region = north", "region = south", "flag = True"]


def test_what_is_encoded():
    words = [f"w{k:02d}" for k in range(30) for _ in range(1 + (k >= 10))]
    frame = pd.DataFrame({"word": words, "number": np.arange(50.0)})
    encoded, added = encode_features(frame)
    assert added == tuple(f"word = w{k}" for k in range(10, 10 + MOST_CATEGORIES))
    assert list(encoded.columns) == [*added, "number"] and encoded["word = w10"].sum() == 2
    frame = pd.DataFrame({"a": ["x", None, "y"], "b": pd.array([True, None, False])})
    encoded, added = encode_features(frame)
    assert added == ("a = x", "a = y", "b = True")
    assert encoded.to_numpy().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    for X in (np.eye(2), [["a"]], pd.DataFrame({"n": [1, 2]}), pd.DataFrame({"a": [None, None]})):
        assert encode_features(X) == (X, ()) if isinstance(X, list) else encode_features(X)[0] is X
    rule = "a = x > 0.5 and number <= 3 and b = y <= 0.5"
    assert plain_rule(rule, ("a = x", "b = y")) == "a = x and number <= 3 and b is not y"


def test_features_of_which_no_numbers_can_be_made():
    data = make_tempered_simplex(300, 2, random_state=0)
    dates = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=300)})
    for X in (dates, [["a"]] * 300):
        shown = CalibrationReport.from_predictions(data.y, data.y_proba, X)
        assert "Grouping loss was not estimated: X h" in shown.verdict
        assert "pd.get_dummies" in shown.verdict
    flags = pd.DataFrame({"flag": [False] * 300, "z": np.arange(300.0)})
    assert CalibrationReport.from_predictions(data.y, data.y_proba, flags).findings.grouping.rest


def stub_losses(log, brier):
    """As held_out_losses, from means by the names of maps; their standard error."""
    noise = np.resize([-1.0, 1.0], 400)

    def losses(candidates, *args, **rest):
        names = [type(one).__name__ for one in candidates]
        means = np.array([[mean[name] for name in names] for mean in (log, brier)])
        return means[:, :, None] + 0.02 * np.arange(len(names))[:, None] * noise, None

    return losses


LOG = {
    "IdentityRecalibrator": 0.9, "TemperatureScaling": 0.7, "BiasCorrectedTemperatureScaling": 0.5,
    "VectorScaling": 0.65, "IsotonicRecalibrator": 0.8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("brier", "log", "chosen", "said"),
    [
        ({}, {}, "BiasCorrectedTemperatureScaling", "it takes the Brier score from 0.314"),
        ({"BiasCorrectedTemperatureScaling": 0.323}, {}, "VectorScaling",
         "Not temperature scaling with class biases (BiasCorrectedTemperatureScaling): it lowers "
         "the log loss to 0.500, but raises the Brier score from 0.314"),
        ({"BiasCorrectedTemperatureScaling": 0.3141}, {}, "BiasCorrectedTemperatureScaling",
         "within one standard error"),
        (dict.fromkeys(LOG, 0.4), {}, "IdentityRecalibrator",
         "Leave it: no other recalibration map lowers the log loss"),
        (dict.fromkeys(LOG, 0.4), {"IdentityRecalibrator": np.inf}, "IdentityRecalibrator",
         "Leave it: no other recalibration map lowers the log loss"),
    ],
)  # fmt: skip
def test_a_map_that_raises_the_brier_score_is_not_advised(monkeypatch, brier, log, chosen, said):
    brier = {**dict.fromkeys(LOG, 0.3), **brier, "IdentityRecalibrator": 0.314}
    monkeypatch.setattr(finders, "held_out_losses", stub_losses({**LOG, **log}, brier))
    data = make_tempered_simplex(400, 3, random_state=0)
    shown = CalibrationReport.from_predictions(data.y, data.y_proba)
    assert shown.findings.advice.chosen == chosen
    assert said in shown.verdict
    content = shown.to_dict()
    assert (content["brier_change"] is None) == (chosen == "IdentityRecalibrator")
    if shown.findings.refused:
        for text in (shown._repr_html_(), " ".join(str(shown).split())):
            assert "Refused: it raises the Brier score from 0.3140 to" in text
    if "Recalibrate by" in shown.verdict:
        assert f"recalibrator = {chosen}(" in str(shown)
