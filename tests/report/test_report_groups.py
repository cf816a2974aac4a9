"""Groups and decisions in a report: who is named, what is true of it, and what is taken."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import pairs
from scipy.optimize import brentq
from scipy.special import expit, logit

from skcalib import CalibrationReport, ForecastSketch, calibration_by_group
from skcalib.__main__ import main
from skcalib.data.features import encode_features
from skcalib.data.problem import check_problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.grouping import differences_at_equal_scores
from skcalib.report import findings as groups
from skcalib.report.advice import advice_on_decisions, find_decision
from skcalib.report.findings import Findings, GroupingFinding, find_grouping
from skcalib.report.wording import sentence_on_groups
from skcalib.stats.means import MeanInterval

report = CalibrationReport.from_predictions
REFINEMENT = MeanInterval(0.2, 0.19, 0.21, 0.005)
pytestmark = pytest.mark.usefixtures("few_maps")  # recalibration is not the subject


def find(y, p, X, weight=None):
    features = encode_features(X, warn=False)
    return find_grouping(check_problem(y, p, sample_weight=weight), features, REFINEMENT, 0.95, 0)


def interaction(n_samples=3000, harm=2.5, seed=0):
    """A small group, of two features at once, for which the forecasts are too high."""
    rng = np.random.default_rng(seed)
    age, region = rng.integers(18, 90, n_samples), rng.integers(0, 4, n_samples)
    noise = rng.normal(size=(n_samples, 6))
    score = 1.5 * rng.normal(size=n_samples)
    harmed = (age > 62) & (region == 2)
    truth = expit(np.where(harmed, score - harm, score + 0.08 * harm))
    frame = pd.DataFrame(noise, columns=[f"z{k}" for k in range(6)]).assign(age=age, region=region)
    return frame, (rng.random(n_samples) < truth).astype(int), expit(score)


def test_a_group_of_two_features():
    X, y, p = interaction(1500)
    finding, split = find(y, p, X)
    group = finding.named[0]
    assert group.rule.startswith("age > ") and group.rule.endswith(" and region = 2")
    assert group.direction == "too_high" and finding.detected
    assert finding.rest.estimate == pytest.approx(0.2 - finding.grouping_loss.estimate)
    assert finding.n_tried > 20
    # The figure shows that group against all others, in the same direction.
    assert {region.rule for region in split.regions_} == {group.rule, "others"}
    told = {r.direction for r in split.regions_ if r.rule == group.rule}
    assert "too_high" in told and "too_low" not in told


def test_a_forecast_that_is_wrong_for_everybody_accuses_nobody(rng):
    """And the cause that the forecast does not know is named."""
    x, z = rng.normal(size=(2, 1000))
    y = (rng.random(1000) < expit(-2 + x + z)).astype(int)
    X = pd.DataFrame({"x": x, "z": z, "region": rng.choice(list("nesw"), 1000)})
    content = report(y, expit(-1 + x), X).to_dict()
    rules = [group["rule"] for group in content["named_groups"]]
    assert "z" in rules[0] and "region" not in "".join([*rules, *content["verdict"]])


@pytest.mark.slow
def test_the_gain_of_a_better_model_is_that_of_the_simulation():
    """Mean over 3 data sets within 4 standard errors of the truth, and at most 30 % below it."""
    worlds = [make_grouping_problem(2000, link="step", random_state=seed) for seed in range(3)]
    samples = [(simulation.y, simulation.y_proba, simulation.X) for simulation in worlds]
    groupings = [find(y, p, X)[0] for y, p, X in samples]
    assert all(grouping.corrects and grouping.correction.low > 0 for grouping in groupings)
    gains = [grouping.correction for grouping in groupings]
    error = np.sqrt(sum(gain.standard_error**2 for gain in gains)) / 3
    mean, truth = np.mean([gain.estimate for gain in gains]), worlds[0].truth["grouping_brier"]
    assert 0.7 * truth - 4 * error < mean < truth + 4 * error


def test_a_better_model():
    """Its gains of the Brier score and at a threshold, in a world whose best ones are known."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    y = (rng.random(800) < expit(x[:, 0] + 1.5 * x[:, 1])).astype(int)
    shown = report(y, expit(0.75 * x[:, 0]), x, threshold=0.5)  # about E[y | first feature]
    said = sentence(shown, "Decisions at the threshold 0.5: look for a better model")
    assert "a miss and a false alarm cost the same" in said
    saved, correction = shown.findings.decision.grouping, shown.findings.grouping.correction
    many = rng.normal(size=(100_000, 2))
    truth, known = expit(many[:, 0] + 1.5 * many[:, 1]), expit(0.75 * many[:, 0])
    best = np.minimum(truth, 1 - truth).mean() / 2
    plain = np.where(many[:, 0] > 0, 1 - truth, truth).mean() / 2
    assert saved.low < plain - best and saved.estimate > 0.7 * (plain - best)
    assert correction.low < np.mean((truth - known) ** 2)
    assert correction.estimate > 0.6 * np.mean((truth - known) ** 2)
    told = shown.to_dict()
    estimate = f"{correction.estimate:.4f} [{correction.low:.4f}, {correction.high:.4f}]"
    assert f"a better model can save {estimate} of the Brier score" in " ".join(told["verdict"])
    assert told["grouping"]["correction"]["estimate"] == correction.estimate
    assert "Correction by the features (GroupRecalibrator): saves" in shown.to_text(details=True)


def test_several_classes_gain_in_their_confidence(rng):
    proba, group = rng.dirichlet([2.0, 2.0, 2.0], 800), rng.integers(2, size=800)
    top = proba.argmax(axis=1)
    right = rng.random(800) < np.clip(proba.max(axis=1) + np.where(group, 0.15, -0.15), 0, 1)
    y = np.where(right, top, (top + 1) % 3)
    X = pd.DataFrame({"site": np.array(["a", "b"])[group]})
    shown = report(y, proba, X)
    correction = shown.findings.grouping.correction
    assert correction.low < 0.15**2 < correction.high  # about: some of the shifts are cut at 1
    assert "of the Brier score of the confidence 0." in " ".join(shown.to_dict()["verdict"])


def test_nothing_is_promised_where_nothing_is_gained():
    """No gain is measured without groups that differ, and an insignificant one is not said."""
    samples = make_grouping_problem(500, heterogeneity=0.0, random_state=0)
    finding, _ = find(samples.y, samples.y_proba, samples.X)
    assert finding.correction is None and not finding.corrects
    assert not GroupingFinding(correction=MeanInterval(0.01, -0.01, 0.03, 0.01)).corrects
    # A group is detected by its interval and its test.
    zero, some = MeanInterval(0.0, -0.01, 0.01, 0.005), MeanInterval(0.02, 0.01, 0.03, 0.005)
    finding = GroupingFinding(grouping_loss=some, pvalue=0.01)
    assert finding.detected and not GroupingFinding().detected
    for change in ({"pvalue": 0.2}, {"grouping_loss": zero}):
        assert not replace(finding, **change).detected


def test_a_bound_below_zero_takes_nothing_off_the_rest():
    low, high = MeanInterval(-0.01, -0.02, -0.005, 0.004), MeanInterval(0.05, 0.03, 0.07, 0.01)
    refinement = groups.remaining_loss(REFINEMENT, low)
    assert (refinement.estimate, refinement.low, refinement.high) == pytest.approx(
        (0.2, 0.19, 0.21)
    )
    refinement = groups.remaining_loss(REFINEMENT, high)
    assert (refinement.estimate, refinement.high - refinement.estimate) == pytest.approx(
        (0.15, 0.03)
    )


def test_many_rows_are_sampled_for_the_model(set_sizes):
    set_sizes(searched_samples=150)
    X, y, p = interaction(300)
    finding, _ = find(y, p, X.to_numpy().tolist())
    assert finding.n_measured == 150


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_categories(library, rng):
    frames = pytest.importorskip(library)
    n = 600
    region = rng.choice(["north", "south", "east"], n)
    p = rng.uniform(0.2, 0.8, n)
    y = (rng.random(n) < p + np.where(region == "south", -0.2, 0.1)).astype(int)
    X = frames.DataFrame({"z": rng.normal(size=n), "region": region, "flag": rng.random(n) < 0.5})
    if library == "pandas":
        X["region"] = X["region"].astype("category")
        X.index = X.index[::-1]
    before = X.copy() if library == "pandas" else X.clone()
    finding, split = find(y, p, X)
    (group,) = finding.named
    assert X.equals(before) and finding.detected
    assert (group.rule, group.direction) == ("region = south", "too_high")
    assert group.n_samples == np.sum(region == "south")
    assert group.low < -0.2 < group.high or abs(group.estimate + 0.2) < 0.05
    assert {r.rule for r in split.regions_} == {"region = south", "others"}


def test_features_of_which_no_numbers_can_be_made(words_only):
    """They do not stop a report."""
    samples = make_tempered_simplex(60, 2, random_state=0)
    flags = pd.DataFrame({"flag": [False] * 60, "z": np.arange(60.0)})
    assert find(samples.y, samples.y_proba, flags)[0].rest is not None
    names = pd.DataFrame({"name": [f"person {k}" for k in range(60)]})
    shown = report(samples.y, samples.y_proba, names)
    assert shown.grouping_estimator is None and shown.findings.grouping.named == ()
    words = "Groups were not compared: X has no column that can be used: name (text or an"
    for text in (shown.verdict, shown._repr_html_()):
        assert words in text
    shown = report(samples.y, samples.y_proba, names.assign(z=np.arange(60.0), gap=None))
    assert shown.findings.grouping.n_tried >= 3  # cuts at the quartiles
    words = "Columns of X are left out: name (text or an identifier, 60 different values), gap (no"
    for text in (" ".join(shown.to_text(details=True).split()), shown._repr_html_()):
        assert words in text


def test_few_samples_one_class_and_several_classes(rng):
    for n_samples in (2, 5, 20, 60):
        y = np.arange(n_samples) % 2
        finding, _ = find(y, rng.random(n_samples), rng.normal(size=(n_samples, 2)))
        assert finding.named == ()
        assert finding.grouping_loss is None or np.isfinite(finding.grouping_loss.estimate)
    problem = check_problem([0] * 60, rng.random(60), labels=[0, 1])
    finding, _ = find_grouping(
        problem, encode_features(rng.normal(size=(60, 2))), REFINEMENT, 0.95, 0
    )
    assert finding.named == () and "fewer than 2 labels" in finding.note
    samples = make_tempered_simplex(200, 3, random_state=0)
    finding, split = find(
        samples.y, samples.y_proba, rng.normal(size=(200, 2)), rng.uniform(1, 2, 200)
    )
    assert {region.event for region in split.regions_} == {"top label"}


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "n"), [(0.5, 500), (0.05, 2000)])
def test_the_difference_that_would_be_found_is_found_in_four_of_five(rate, n):
    """A tenth of the samples differs by it on average: 40 data sets, standard error .06."""
    detections = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = np.clip(rng.beta(4 * rate, 4 * (1 - rate), n), 0.01, 0.99)
        tenth = rng.random(n) < 0.1
        X = np.column_stack([rng.normal(size=(n, 2)), tenth])
        groups = GroupingFinding(n_tried=15, n_compared=n)
        loss = SimpleNamespace(terms=SimpleNamespace(loss=np.mean(p * (1 - p))))
        known = SimpleNamespace(grouping=groups, observed_rate=MeanInterval(p.mean(), 0, 1, 0),
            effective_size=n, n_samples=n, confidence=loss, confidence_level=0.95)  # fmt: skip
        difference = Findings.missed_difference.fget(known)
        shift = brentq(lambda b, p=p, d=difference: np.mean(expit(logit(p) + b) - p) - d, 0, 20)
        y = rng.random(n) < expit(logit(p) + shift * tenth)
        compared = differences_at_equal_scores(y, p, X)
        assert compared.n_tried == pytest.approx(15, abs=8)
        detections += any("x2" in group.rule for group in compared.named)
    assert 0.8 - 4 * 0.063 <= detections / 40 <= 0.8 + 3 * 0.063


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


def sentence(report, start):
    (line,) = [text for text in report.verdict.splitlines() if text.startswith(start)]
    return line


def test_recalibrate_or_move_the_threshold():
    """The saving, and the threshold that saves the same, against the truth."""
    y, p, _ = world(6000)
    shown = report(y, p, threshold=0.2)
    said = sentence(shown, "Decisions at the threshold 0.2: recalibrate, or move the threshold to")
    decision = shown.findings.decision
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
            shown = report(y, p, threshold=0.3)
            said = sentence(shown, "Decisions at the threshold 0.3: no change is")
            assert "With these samples no saving by recalibration can be shown; it" in said
            assert "Features are needed" in said and "would save at most" in said
        wrong += decided(y, p, 0.3).recalibration_saves
    assert wrong / 60 <= 0.05 + 0.056


def test_costs_of_several_classes_and_of_the_other_event():
    samples = make_tempered_simplex(1000, 3, random_state=0)
    costs = ((0, 10, 20), (30, 0, 20), (5, 5, 0))
    decision = decided(samples.y, samples.y_proba, costs=costs)
    said = advice_on_decisions(decision)
    assert "per 1,000 samples, in the units of the given costs" in said and decision.costs == costs
    y, p, _ = world(400)
    names, options = np.array(["no", "yes"])[y], {"costs": [[0, 1], [4, 0]]}
    both = [report(names, pairs(p), pos_label=event, **options) for event in (None, "no")]
    first, second = (shown.findings.decision.expected_cost.estimate for shown in both)
    assert first == pytest.approx(second)


def test_threshold_of_the_confidence_and_of_a_sketch():
    samples = make_tempered_simplex(2000, 3, random_state=0)
    decision = decided(samples.y, samples.y_proba, 0.6)
    right = samples.y_proba.argmax(axis=1) == samples.y
    act = samples.y_proba.max(axis=1) > 0.6
    cost = np.where(act, 0.6 * ~right, 0.4 * right).mean()
    assert decision.expected_cost.estimate == pytest.approx(cost)
    y, p, _ = world(4000)
    sketch = ForecastSketch([0, 1]).fit(y, p)
    sketched = CalibrationReport.from_sketch(sketch, threshold=0.2).findings.decision
    exact = decided(y, p, 0.2)
    assert sketched.expected_cost.estimate == pytest.approx(exact.expected_cost.estimate, rel=1e-3)
    assert sketched.moved == pytest.approx(exact.moved, rel=0.01)


def test_groups_that_differ_are_named():
    y, p, site = world(1200, slope=1.0, groups=True)
    shown = report(y, p, pd.DataFrame({"site": site, "coin": np.arange(1200) % 2}), by="site")
    said = sentence(shown, "Of the 3 groups that you named")
    for words in ("site = south, observed", "site = north, observed"):
        assert words in said
    assert "Compared with all samples with equal scores" in said and shown.findings.groups_differ
    numbers = json.loads(json.dumps(shown.to_dict()))["by"]["groups"]
    assert [group["name"] for group in numbers] == ["site = east", "site = north", "site = south"]
    text, titles = shown.to_text(details=True), [s.title for s in shown._document().sections]
    assert (
        "Groups that you named" in text
        and f"{np.sum(site == 'east')}" in text
        and "Groups that you named" in titles
    )
    two = site != "east"  # which differ from each other
    said = report(y[two], p[two], by=site[two]).verdict
    assert "At equal scores the two groups differ from each other: recalibration" in said
    assert "Both groups that you named differ from their mean prediction: " in said


@pytest.mark.parametrize(("differ", "words"), [(True, "No other group"), (False, "No group")])
def test_no_group_beside_named_groups(differ, words, rng):
    """Where named groups differ at equal scores, the search has found no *other* group."""
    n, p = 800, rng.random(800)
    group = np.where(rng.random(n) < 0.5, "F", "M")
    chance = np.clip(p + 0.2 * differ * np.where(group == "F", 1, -1), 0.02, 0.98)
    y = (rng.random(n) < chance).astype(int)
    shown = report(y, p, rng.normal(size=(n, 1)), by=group)
    said = sentence_on_groups(shown.findings)
    assert said.startswith(f"{words} was found that differs from others with equal scores")
    assert ("the two groups differ from each other" in shown.verdict) == differ


def test_groups_without_a_difference():
    y, p, site = world(1000, slope=1.0)
    shown = report(y, p, by=site)
    said = r"No difference was found in the 3 groups that you named; differences of ([\d.]+) points"
    ends = np.abs([(g.difference.low, g.difference.high) for g in shown.findings.by.groups])
    assert float(re.search(said, shown.verdict)[1]) == pytest.approx(100 * ends.max(), rel=0.05)
    assert shown.verdict.startswith("No evidence of miscalibration.")
    y, p, site = world(3000)
    off = report(y, p, by=site)
    assert "None was found to differ from all samples with equal scores." in off.verdict


@pytest.mark.slow
def test_groups_with_weights_of_a_sketch_and_of_a_classifier():
    y, p, site = world(3000, groups=True)
    weight = (np.arange(3000) < 2500).astype(float)
    short = report(y[:2500], p[:2500], by=site[:2500]).findings.by
    assert report(y, p, by=site, sample_weight=weight).findings.by == short
    sketch = ForecastSketch([0, 1]).partial_fit(y, p, by=site)
    shown = CalibrationReport.from_sketch(sketch)
    exact = calibration_by_group(y, p, site)
    for sketched, counted in zip(shown.findings.by.groups, exact.groups, strict=True):
        assert sketched.difference.estimate == pytest.approx(counted.difference.estimate, abs=1e-5)


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


def test_command_line(here, printed, words_only):
    y, p, site = world(800, groups=True)
    frame = pd.DataFrame({"site": site, "age": np.arange(800) % 50, "event": y, "p_1": p})
    frame.to_csv("t.csv", index=False)
    start = ["report", "t.csv", "--label-column", "event", "--features"]
    text = " ".join(printed([*start, "age", "--by", "site", "--threshold", "0.3"]).out.split())
    assert "Decisions at the threshold 0.3" in text and "3 groups that you named" in text
    assert "Features are needed" not in text
    text = " ".join(printed([*start, "age,site", "--costs", "0,1;4,0"]).out.split())
    assert "in the units of the given costs" in text and "differ: where site = north" in text
    error = printed([*start, "age,site", "--costs", "0,1;4"], 2).err
    assert "--costs must be rows of numbers of equal length" in error
    with pytest.raises(SystemExit):
        main([*start, "age", "--costs", "0,1;4,0", "--threshold", "0.3"])
