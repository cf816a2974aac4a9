"""Decisions and groups that the user names in a report: sentences that are true, and inputs."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from skcalib import CalibrationReport, ForecastSketch, calibration_by_group
from skcalib.__main__ import main
from skcalib.datasets import make_tempered_simplex
from skcalib.problem import check_problem
from skcalib.report.decision import decision_advice, find_decision

report = CalibrationReport.from_predictions


def world(n_samples, seed=0, slope=1.7, groups=False):
    """Risks that are too extreme by a slope; groups have other risks at equal scores."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 6, n_samples)
    site = rng.choice(["east", "north", "south"], n_samples)
    risk = p * np.array([1.0, 0.6, 1.5])[np.searchsorted(["east", "north", "south"], site)]
    y = (rng.random(n_samples) < np.clip(risk if groups else p, 0, 1)).astype(int)
    return y, expit(slope * logit(p)), site


def decided(y, p, threshold=None, costs=None):
    """The finding, without the rest of a report."""
    options = {"confidence_level": 0.95, "random_state": 0, "n_jobs": None}
    return find_decision(check_problem(y, p), None, threshold, costs, **options)


def sentence(found, start):
    (line,) = [one for one in found.verdict.splitlines() if one.startswith(start)]
    return line


def test_recalibrate_or_move_the_threshold():
    """The saving, and the threshold that saves the same, against the truth."""
    y, p, _ = world(6000)
    found = report(y, p, threshold=0.2)
    said = sentence(found, "Decisions at the threshold 0.2: recalibrate, or move the threshold to")
    decision = found.findings.decision
    assert decision.recalibration_saves and not decision.model_saves
    assert decision.moved == pytest.approx(expit(1.7 * logit(0.2)), rel=0.1)
    many, scores, _ = world(400_000, seed=1)
    cost = [np.mean(np.where(s > 0.2, 0.2 * (1 - many), 0.8 * many))
            for s in (scores, expit(logit(scores) / 1.7))]  # fmt: skip
    assert decision.calibration.low < cost[0] - cost[1] < decision.calibration.high
    assert decision.expected_cost.low < cost[0] < decision.expected_cost.high
    assert "a miss costs as much as 4 false alarms" in said
    assert f"the decisions cost {1000 * decision.expected_cost.estimate / 0.2:.0f} [" in said
    moved = np.mean(np.where(scores > decision.moved, 0.2 * (1 - many), 0.8 * many))
    assert moved == pytest.approx(cost[1], abs=0.0005)


@pytest.mark.slow
def test_nothing_to_save():
    """Calibrated predictions: at most .05 of the data sets, with a standard error of .028."""
    wrong = 0
    for seed in range(60):
        y, p, _ = world(1500, seed, slope=1.0)
        if seed == 0:
            found = report(y, p, threshold=0.3)
            said = sentence(found, "Decisions at the threshold 0.3: no change is")
            assert "With these samples no saving by recalibration can be shown; it" in said
            assert "Features are needed" in said and "would save at most" in said
        wrong += decided(y, p, 0.3).recalibration_saves
    assert wrong / 60 <= 0.05 + 0.056


def test_a_better_model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    risk = expit(x[:, 0] + 1.5 * x[:, 1])
    y = (rng.random(3000) < risk).astype(int)
    calibrated = expit(0.75 * x[:, 0])  # about E[y | first feature]
    found = report(y, calibrated, x, threshold=0.5)
    said = sentence(found, "Decisions at the threshold 0.5: look for a better model")
    assert "a miss and a false alarm cost the same" in said
    saved = found.findings.decision.grouping
    many = rng.normal(size=(400_000, 2))
    truth = expit(many[:, 0] + 1.5 * many[:, 1])
    best = np.minimum(truth, 1 - truth).mean() / 2
    plain = np.where(many[:, 0] > 0, 1 - truth, truth).mean() / 2
    assert saved.low < plain - best and saved.estimate > 0.7 * (plain - best)


def test_costs_of_several_classes_and_of_the_other_event():
    data = make_tempered_simplex(1000, 3, random_state=0)
    costs = [[0, 10, 20], [30, 0, 20], [5, 5, 0]]
    found = decided(data.y, data.y_proba, costs=costs)
    (said,) = decision_advice(found)
    assert "per 1,000 samples, in the units of the given costs" in said
    assert found.costs == tuple(map(tuple, np.array(costs, float)))
    y, p, _ = world(400)
    proba, names = np.column_stack([1 - p, p]), np.array(["no", "yes"])[y]
    one, other = (
        report(names, proba, costs=[[0, 1], [4, 0]], pos_label=event).findings.decision
        for event in (None, "no")
    )
    assert one.expected_cost.estimate == pytest.approx(other.expected_cost.estimate)


def test_threshold_of_the_confidence_and_of_a_sketch():
    data = make_tempered_simplex(2000, 3, random_state=0)
    found = decided(data.y, data.y_proba, 0.6)
    right = data.y_proba.argmax(axis=1) == data.y
    act = data.y_proba.max(axis=1) > 0.6
    cost = np.where(act, 0.6 * ~right, 0.4 * right).mean()
    assert found.expected_cost.estimate == pytest.approx(cost)
    y, p, _ = world(4000)
    sketch = ForecastSketch([0, 1]).fit(y, p)
    one = CalibrationReport.from_sketch(sketch, threshold=0.2).findings.decision
    two = decided(y, p, 0.2)
    assert one.expected_cost.estimate == pytest.approx(two.expected_cost.estimate, rel=1e-3)
    assert one.moved == pytest.approx(two.moved, rel=0.01)


def test_groups_that_differ_are_named():
    y, p, site = world(6000, slope=1.0, groups=True)
    found = report(y, p, pd.DataFrame({"site": site, "coin": np.arange(6000) % 2}), by="site")
    said = sentence(found, "Of the 3 groups that you named")
    assert "site = south, observed" in said and "site = north, observed" in said
    assert "Compared with all samples with equal scores" in said
    assert found.findings.groups_differ
    numbers = found.to_dict()["by"]["groups"]
    assert [one["name"] for one in numbers] == ["site = east", "site = north", "site = south"]
    json.dumps(found.to_dict())
    text, sections = found.to_text(details=True), found._document().sections
    assert "Groups that you named" in text and "2,0" in text
    assert any(section.title == "Groups that you named" for section in sections)
    two = site != "east"  # which differ from each other
    said = report(y[two], p[two], by=site[two]).verdict
    assert "At equal scores the two groups differ from each other: recalibration" in said
    assert "Both groups that you named differ from their mean prediction: " in said


def test_groups_without_a_difference():
    y, p, site = world(3000, slope=1.0)
    found = report(y, p, by=site)
    said = r"No difference was found in the 3 groups that you named; differences of ([\d.]+) points"
    ends = np.abs([(g.difference.low, g.difference.high) for g in found.findings.by.groups])
    assert float(re.search(said, found.verdict)[1]) == pytest.approx(100 * ends.max(), rel=0.05)
    assert found.verdict.startswith("No evidence of miscalibration.")
    y, p, site = world(6000)
    off = report(y, p, by=site)
    assert "None was found to differ from all samples with equal scores." in off.verdict


@pytest.mark.slow
def test_groups_with_weights_of_a_sketch_and_of_a_classifier():
    y, p, site = world(3000, groups=True)
    weight = (np.arange(3000) < 2500).astype(float)
    short = report(y[:2500], p[:2500], by=site[:2500]).findings.by
    assert report(y, p, by=site, sample_weight=weight).findings.by == short
    sketch = ForecastSketch([0, 1]).partial_fit(y, p, by=site)
    found = CalibrationReport.from_sketch(sketch)
    exact = calibration_by_group(y, p, site)
    for one, two in zip(found.findings.by.groups, exact.groups, strict=True):
        assert one.difference.estimate == pytest.approx(two.difference.estimate, abs=1e-5)


def test_refusals():
    y, p = [0, 1, 0, 1, 1, 0], [0.1, 0.6, 0.3, 0.8, 0.7, 0.4]
    for arguments, message in (
        ({"by": "site"}, "by='site' is not a column of X: pass the name of a column"),
        ({"by": ["a", "b"]}, "by must have the group of each of the 6 samples, got"),
        ({"threshold": 0.2, "costs": [[0, 1], [1, 0]]}, "Pass either threshold= .* or costs="),
        ({"threshold": 1.5}, "threshold"),
        ({"costs": [[0, 1]]}, "costs"),
    ):
        with pytest.raises(ValueError, match=message):
            report(y, p, **arguments)


def test_command_line(here, capsys):
    y, p, site = world(800, groups=True)
    frame = pd.DataFrame({"site": site, "age": np.arange(800) % 50, "event": y, "p_1": p})
    frame.to_csv("t.csv", index=False)
    start = ["report", "t.csv", "--label-column", "event", "--features"]
    assert main([*start, "age", "--by", "site", "--threshold", "0.3"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Decisions at the threshold 0.3" in text and "3 groups that you named" in text
    assert main([*start, "age,site", "--costs", "0,1;4,0"]) == 0
    assert "in the units of the given costs" in " ".join(capsys.readouterr().out.split())
    assert main([*start, "age,site", "--costs", "0,1;4"]) == 2
    assert "--costs must be rows of numbers of equal length" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*start, "age", "--costs", "0,1;4,0", "--threshold", "0.3"])
