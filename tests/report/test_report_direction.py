"""Which way forecasts are off, and signs that the input is not what it should be."""

import re

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import CalibrationReport
from skcalib.errors.averaged import AveragedProblem
from skcalib.problem import check_problem
from skcalib.report.direction import direction_of, gains_of, logistic_recalibration
from skcalib.report.findings import Gains
from skcalib.report.subgroups import _equal_information, range_label
from skcalib.report.suspicions import find_suspicions
from skcalib.scores import LogLoss


def event(n=4000, *, shift=0.0, slope=1.0, mean=-1.0, seed=0):
    """Labels, and forecasts whose logit is off by a shift and a slope about its mean."""
    rng = np.random.default_rng(seed)
    x = mean + rng.normal(size=n)
    y = (rng.random(n) < expit(x)).astype(int)
    return y, expit(x.mean() + (x - x.mean()) / slope - shift)


def classes(n=3000, n_classes=4, *, temperature=1.0, bias=(), seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes)) * 1.5
    p = softmax(z, axis=1)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return y, softmax(z / temperature + np.append(bias, np.zeros(n_classes - len(bias))), axis=1)


def assert_verdict(report, direction, headline):
    """The direction in the headline; a map is advised where there is one; few words."""
    assert report.direction == direction
    assert report.miscalibrated is (direction is not None)
    lines = report.verdict.splitlines()
    assert lines[0].startswith(headline)
    advice = "Recalibrate with" if direction else "Recalibration is not recommended: with these"
    assert any(line.startswith(advice) for line in lines)
    assert (report.findings.advice.recommended is None) == (direction is None)
    assert len(report.verdict.split()) <= 110


@pytest.mark.parametrize(
    ("parameters", "direction", "headline"),
    [
        ({"shift": -0.7}, "too_high", "Predictions are too high: mean "),
        ({"shift": 0.7}, "too_low", "Predictions are too low: mean "),
        ({"slope": 0.6}, "too_extreme", "Over-confident: predictions are too extreme."),
        ({"slope": 1.7}, "too_moderate", "Under-confident: predictions are not extreme enough."),
        ({}, None, "No evidence of miscalibration."),
    ],
)
def test_direction_of_an_event(parameters, direction, headline):
    mean = -3.0 if "slope" in parameters else 0.0
    report = CalibrationReport.from_predictions(*event(3000, mean=mean, **parameters))
    assert_verdict(report, direction, headline)


@pytest.mark.parametrize(
    ("mean", "forecast", "direction", "headline"),
    [
        (-4.0, (-3.2, 1.3), "too_high", r"Predictions are too high, and more so the higher they "
         r"are: mean 7\.\d %, observed [23]\.\d %\."),
        (-4.4, (-4.4, 2.2), "too_extreme", r"Over-confident: predictions are too extreme\."),
        (-1.0, (-2.0, 1.4), "too_low", r"Predictions are too low: mean 18"),
    ],
)  # fmt: skip
def test_too_extreme_needs_samples_on_both_sides(mean, forecast, direction, headline):
    """Logits mean + x, forecasts a + b x: nearly all above the curve, half of them, few."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=8000)
    y = (rng.random(8000) < expit(mean + x)).astype(int)
    report = CalibrationReport.from_predictions(y, expit(forecast[0] + forecast[1] * x))
    assert report.direction == direction
    assert re.match(headline, report.verdict)


@pytest.mark.parametrize(
    ("parameters", "direction", "headline"),
    [
        ({"temperature": 0.5}, "too_extreme", "Over-confident: predictions are too extreme."),
        ({"temperature": 2.0}, "too_moderate", "Under-confident"),
        ({"bias": [1.0]}, "class_shift", "Some classes are predicted too often: class 0."),
        ({"bias": [-1.5]}, "class_shift", "Some classes are predicted too often: class "),
        ({}, None, "No evidence of miscalibration."),
    ],
)
def test_direction_of_several_classes(parameters, direction, headline):
    report = CalibrationReport.from_predictions(*classes(**parameters))
    assert_verdict(report, direction, headline)


def test_direction_by_the_gains():
    for gains, shift, slope, direction in (
        ((0.1, 0.0, 0.15), 1, 0, "too_high"),
        ((0.1, 0.0, 0.15), -1, 0, "too_low"),
        ((0.1, 0.0, 0.25), 1, 1, None),
        ((0.1, 0.2, 0.25), 1, 1, "too_extreme"),
        ((0.1, 0.2, 0.25), 1, -1, "too_moderate"),
        ((0.1, 0.2, 0.25), 1, 0, None),
        ((-0.1, -0.1, -0.1), 1, 1, None),
    ):
        assert direction_of(Gains(*gains), shift, slope) == direction


def test_gains_have_no_optimism():
    """Of calibrated forecasts those of a shift and of a slope are zero on average."""
    found = []
    for seed in range(60):
        y, p = event(300, seed=seed)
        problem = check_problem(y, p)
        solved = AveragedProblem.of(problem)
        gains = gains_of(solved)
        assert gains.whole == pytest.approx(solved.errors(LogLoss()).mean(), abs=1e-12)
        found.append((gains.shift, gains.slope))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(60)
    assert (np.abs(mean) < 4 * error).all()


def test_logistic_recalibration_is_a_test_of_its_level():
    """Shift 0 and slope 1: the p-value is uniform; 400 data sets, standard error of .05: .011."""
    rejected, covered = 0, np.zeros(2)
    for seed in range(400):
        found = logistic_recalibration(check_problem(*event(400, seed=seed)), 0.95)
        rejected += found.pvalue < 0.05
        covered += [found.shift.low < 0 < found.shift.high, found.slope.low < 1 < found.slope.high]
    assert abs(rejected / 400 - 0.05) < 0.035
    assert (np.abs(covered / 400 - 0.95) < 0.035).all()
    found = logistic_recalibration(check_problem(*event(200_000, shift=-0.5, slope=0.8)), 0.95)
    assert found.shift.estimate == pytest.approx(-0.5, abs=4 * found.shift.standard_error)
    assert found.slope.estimate == pytest.approx(0.8, abs=4 * found.slope.standard_error)
    assert found.pvalue == 0
    assert logistic_recalibration(check_problem([0, 1, 1], [0.5] * 3), 0.95) is None


def kinds(y, p, **parameters):
    return [one.kind for one in find_suspicions(check_problem(y, p, **parameters))]


def test_suspicions_are_rarely_wrong():
    """Poor but honest models: in 3 times 100 data sets no suspicion of the input."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 60)
        assert "other_class" not in kinds(y, rng.random(60))
        assert "column_order" not in kinds(*classes(200, bias=[2.0, 0.0, -1.0], seed=seed))
        rare = rng.random(3000) * 0.01
        labels = (rng.random(3000) < 3 * rare).astype(int)  # too low by a factor of three
        assert "percent_scale" not in kinds(labels, rare, labels=[0, 1])


def test_a_suspicion_comes_first_and_replaces_the_advice():
    y, p = event(2000, mean=-3)
    report = CalibrationReport.from_predictions(1 - y, p)
    found = report.to_dict()
    assert report.verdict.startswith("Check the labels: the forecasts fit the other class.")
    assert found["suspicion_kinds"] == ["other_class"] and "accuracy" in found["suspicions"][0]
    assert found["recommended"] is None and found["direction"] is None
    assert "Correct the input first" in found["advice"]


def test_ranges_hold_equal_information():
    rng = np.random.default_rng(0)
    score = rng.beta(0.3, 8, 5000)
    ranges = _equal_information(score, np.ones(5000))
    information = [np.sum(score[rows] * (1 - score[rows])) for rows, _, _ in ranges]
    assert len(ranges) == 10
    assert max(information) < 1.2 * min(information)
    assert np.array_equal(np.sort(np.concatenate([rows for rows, _, _ in ranges])), np.arange(5000))
    ends = [end for _, pair, _ in ranges for end in pair]
    assert ends == sorted(ends)


@pytest.mark.parametrize("scores", [
    np.r_[np.zeros(500), np.ones(500)], np.full(300, 0.2), np.repeat([0.1, 0.10001, 0.9], 200),
    1 - 10.0 ** -np.linspace(1, 12, 2000), np.linspace(0, 1e-7, 400),
])  # fmt: skip
def test_no_two_ranges_have_the_same_label(scores):
    ranges = _equal_information(scores, np.ones(len(scores)))
    labels = [label for _, _, label in ranges]
    assert len(set(labels)) == len(labels)
    assert sum(len(rows) for rows, _, _ in ranges) == len(scores)
    for value in np.unique(scores):  # equal scores stay together
        assert sum(value in scores[rows] for rows, _, _ in ranges) == 1
    assert range_label(0.1, 0.1) == "10.0 %" and range_label(0.1, 0.25) == "10.0 to 25.0 %"


def confused(n=3000, rate=0.2, seed=0):
    """Four classes; where the first has at least .8, a share of it is the second."""
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(4, 0.3), n)
    mass = rate * forecast[:, 0] * (forecast[:, 0] >= 0.8)
    posterior = forecast.copy()
    posterior[:, 0] -= mass
    posterior[:, 1] += mass
    drawn = (posterior.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return np.array(["cat", "dog", "fox", "owl"])[drawn], forecast


def test_confused_classes_are_named():
    y, forecast = confused()
    report = CalibrationReport.from_predictions(y, forecast)
    first = report.findings.confusions[0]
    assert report.direction == report.to_dict()["direction"] == "confused"
    assert (first.predicted, first.other) == ("cat", "dog")
    rows = (forecast.argmax(axis=1) == 0) & (forecast[:, 0] >= first.at_least)
    assert first.n_samples == rows.sum()
    assert first.observed.estimate == pytest.approx(np.mean(y[rows] == "dog"))
    assert first.mean_score == pytest.approx(forecast[rows, 1].mean())
    assert first.mean_score < first.observed.low <= first.observed.estimate <= first.observed.high
    headline = report.verdict.splitlines()[0]
    assert headline.startswith("Some classes are confused: where cat is predicted with at least")
    page = report._repr_html_()
    assert "Pairs of classes" in page and "Residuals of the averaged maps" in page
    report = CalibrationReport.from_predictions(*confused(rate=0.0))  # calibrated
    assert report.direction is None and report.findings.confusions == ()
    assert not report.findings.residuals_reject


def test_residuals_that_cells_cannot_resolve_give_a_lower_bound():
    rng = np.random.default_rng(0)
    s = np.sort(rng.uniform(0.3, 0.7, 4000))
    high = np.arange(4000) * 128 // 4000 % 2 == 1
    y = (rng.random(4000) < s + np.where(high, 0.25, -0.25)).astype(int)
    report = CalibrationReport.from_predictions(y, s)
    assert report.miscalibrated and report.findings.residuals_reject
    sizes = [line for line in report.verdict.splitlines() if line.startswith("Typical error")]
    assert sizes[0].startswith("Typical error: at least ")
    assert "even a large gain could be missed" in report.verdict
    assert "may exceed the upper limit" in report._repr_html_()
