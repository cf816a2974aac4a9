import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Text
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from skcalib import (
    CalibrationReport,
    ComparisonReport,
    DecisionCurveDisplay,
    ForecastSketch,
    ReliabilityDisplay,
    calibration_improvement,
    compare_calibration,
    decision_regret,
)
from skcalib.data.problem import check_problem
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.report.report import DecisionRule, find_differences
from skcalib.report.wording import OF_DECISIONS, QUANTITIES, ranks
from skcalib.risk_models.decisions import net_benefit
from skcalib.scores import Brier, DecisionCost, Elementary
from skcalib.stats.means import mean_interval

compare, of_models = ComparisonReport.from_predictions, ComparisonReport.from_estimators
make = CalibrationReport.from_predictions
DATA = make_tempered_simplex(1000, 2, random_state=0)
Y, RAW, TRUTH = DATA.y, DATA.y_proba, DATA.posterior
pytestmark = pytest.mark.usefixtures("few_maps")  # recalibration is not the subject


@pytest.fixture(scope="module")
def comparison():
    return compare(Y, {"raw": RAW, "truth": TRUTH})


def find(models, y):
    problems = {name: check_problem(y, p, labels=range(2)) for name, p in models.items()}
    return find_differences(problems, 0.95, 0)


def by_pair(differences):
    return {(row.quantity, row.first, row.second): row for row in differences}


def test_swapped_models_flip_all_signs():
    in_order = by_pair(find({"a": RAW, "b": TRUTH}, Y))
    swapped = by_pair(find({"b": TRUTH, "a": RAW}, Y))
    assert {quantity for quantity, *_ in in_order} == set(QUANTITIES)
    for (quantity, first, second), row in in_order.items():
        mirror = swapped[quantity, second, first]
        a, b = row.difference, mirror.difference
        assert (a.estimate, a.low, a.high) == (-b.estimate, -b.high, -b.low)
        assert (a.standard_error, row.better) == (b.standard_error, mirror.better)
    for same in find({"a": RAW, "b": RAW.copy()}, Y):
        assert (same.difference.estimate, same.difference.low, same.difference.high) == (0, 0, 0)
        assert not same.detected and same.better == ""


def test_differences_are_those_of_the_functions(comparison):
    differences = {row.quantity: row.difference for row in comparison.differences}
    problems = [check_problem(Y, p) for p in (RAW, TRUTH)]
    losses = [Brier().loss(p.target, p.forecast) for p in problems]
    assert differences["brier"] == mean_interval(losses[0] - losses[1])
    for part in ("calibration", "refinement"):
        first, second = (getattr(r.findings.error("brier", "canonical"), part).estimate
                         for r in comparison.reports.values())  # fmt: skip
        assert differences[part].estimate == pytest.approx(first - second)
    order = np.random.RandomState(0).permutation(1000)
    kernel = compare_calibration(Y[order], RAW[order], TRUTH[order])
    assert differences["kernel"].estimate == kernel.estimate
    content = json.loads(json.dumps(comparison.to_dict()))
    assert set(content["reports"]) == {"raw", "truth"}
    told = {entry["quantity"]: entry for entry in content["differences"]}
    assert set(told) == set(QUANTITIES)
    assert told["brier"]["better"] == "truth" and told["brier"]["detected"] is True


def mirrored(seed):
    """Two models of equal errors: each is right on one half, over-confident on the other."""
    rng = np.random.default_rng(seed)
    temperatures = {"score_temperature": 0.6, "label_temperature": 1.0}
    samples = make_tempered_simplex(400, 2, **temperatures, random_state=seed)
    half = rng.random(400)[:, None] < 0.5
    raw, truth = samples.y_proba, samples.posterior
    return samples.y, {"a": np.where(half, raw, truth), "b": np.where(half, truth, raw)}


@pytest.mark.slow
def test_equal_errors_are_told_apart_as_rarely_as_the_level_says():
    """100 data sets, standard error 2.2 % at 5 %; conservative is allowed, too."""
    alarms = dict.fromkeys(QUANTITIES, 0)
    for seed in range(100):
        y, models = mirrored(seed)
        for row in find(models, y):
            alarms[row.quantity] += row.detected
    assert max(alarms.values()) <= 100 * (0.05 + 3 * 0.022), alarms


def test_intervals_hold_for_all_pairs_at_once():
    models = {"a": RAW, "b": TRUTH}
    two = by_pair(find(models, Y))["brier", "a", "b"].difference
    three = by_pair(find({**models, "c": np.full_like(RAW, 0.5)}, Y))
    assert sum(quantity == "brier" for quantity, *_ in three) == 3
    wide = three["brier", "a", "b"].difference
    assert wide.estimate == two.estimate and wide.low < two.low and wide.high > two.high


def test_verdict_names_the_better_model(comparison):
    lines = comparison.verdict.splitlines()
    assert lines[0] == "truth is better calibrated and has the lower Brier score."
    assert lines[1].startswith("Log loss: truth is below raw by")
    assert lines[3].startswith("Brier calibration error: truth is below raw by")
    constant = np.tile(np.bincount(Y, minlength=2) / 1000, (1000, 1))
    raw, truth = comparison.reports.values()
    two = ComparisonReport({"raw": raw, "constant": make(Y, constant)})
    assert two.verdict.startswith("constant is better calibrated; ")
    same = ComparisonReport({"a": truth, "b": truth})
    assert same.verdict.startswith("No significant difference between the models.\n")
    assert "Log loss: a does not differ significantly from b." in same.verdict
    assert (comparison._document().tone, same._document().tone) == ("bad", "good")


def test_ranks_have_simultaneous_intervals(comparison):
    raw, truth = comparison.reports.values()
    three = ComparisonReport({"raw": raw, "truth": truth, "same": truth})
    assert ranks(three, "log") == {"raw": (3, 3, 3), "truth": (1, 1, 2), "same": (1, 1, 2)}
    assert "1 (1 to 2)" in str(three)


def test_infinite_losses_and_few_samples(words_only):
    y = np.array([0, 1, 1, 0] * 10)
    hard, soft = np.array([0.0, 1.0, 0.0, 0.1] * 10), np.array([0.2, 0.9, 0.4, 0.1] * 10)
    comparison = compare(y, {"hard": hard, "soft": soft})
    assert "Log loss: soft is below hard by an infinite amount." in comparison.verdict
    both = ComparisonReport(dict.fromkeys("ab", comparison.reports["hard"]))
    assert "log" not in {difference.quantity for difference in both.differences}
    assert "infinite" in both._repr_html_()
    few = compare(y[:4], {"a": soft[:4], "b": 1 - soft[:4]})
    assert {d.quantity for d in few.differences} == set(QUANTITIES) - {"kernel"}
    assert len(str(few)) > 0


def test_reports_that_are_there_already_are_compared():
    samples = make_grouping_problem(40, random_state=0)
    reports = [
        make(samples.y, p, samples.X, name=name)
        for name, p in (("a", samples.y_proba), ("b", samples.posterior))
    ]
    comparison = ComparisonReport(reports)
    renamed = ComparisonReport(dict(zip("xy", reports, strict=True)))
    assert list(comparison.reports) == ["a", "b"] and "Rank by log loss" in str(comparison)
    assert {d.first for d in renamed.differences} == {"x"} and list(renamed.reports) == ["x", "y"]
    assert "x" in renamed.verdict


def test_estimators_share_their_folds():
    """A splitter that shuffles anew each time must not compare models on other folds."""
    X, y = load_breast_cancer(return_X_y=True)
    cv = KFold(3, shuffle=True, random_state=np.random.RandomState(0))
    models = {"one": GaussianNB(), "two": GaussianNB(), "other": GaussianNB(var_smoothing=0.1)}
    comparison = of_models(models, scale(X[:60, :5]), y[:60], cv=cv)
    differences = by_pair(comparison.differences)
    assert differences["brier", "one", "two"].difference.estimate == 0
    assert differences["brier", "one", "other"].difference.estimate != 0
    assert comparison.reports["one"].name == "one"


def test_refusals():
    y, proba = Y[:30], RAW[:30]
    report, turned = make(y, proba, name="a"), make(y[::-1], proba, name="b")
    seeded = make(y, proba, name="b", random_state=1)
    for call, words in (
        (lambda: ComparisonReport([report]), "at least two reports, got 1"),
        (lambda: ComparisonReport([report, report]), "same name"),
        (
            lambda: ComparisonReport([report, turned]),
            "reports of a and b are not on the same samples",
        ),
        (lambda: ComparisonReport([report, seeded]), "differ in confidence_level or random_state"),
        (lambda: compare(y, {"a": proba}), "dict of at least two"),
        (lambda: compare(y, [proba, proba]), "dict of at least two"),
        (lambda: of_models(GaussianNB(), proba, y), "dict of at least two classifiers"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    models, sketches = {"a": GaussianNB(), "b": GaussianNB()}, dict.fromkeys("ab", ForecastSketch())
    for call in (
        partial(compare, y, {"a": proba, "b": proba}),
        partial(of_models, models, proba, y, cv=3),
        partial(ComparisonReport.from_sketches, sketches),
    ):  # the names are those of the dict
        with pytest.raises(TypeError, match="multiple values for keyword argument 'name'"):
            call(name="c")


# --- Decisions ------------------------------------------------------------------------------------


def two_models(n_samples, seed, rate=0.3):
    """Labels, their probabilities, and those of a model that sees the score with noise."""
    rng = np.random.default_rng(seed)
    x, middle = rng.normal(size=n_samples), np.log(rate / (1 - rate))
    p = expit(1.5 * x + middle)
    return (
        (rng.random(n_samples) < p).astype(int),
        p,
        expit(1.5 * (x + 0.5 * rng.normal(size=n_samples)) + middle),
    )


def rows_of(y, models, *, n_repeats=1, **decision):
    """Differences of two models by quantity; samples may be repeated in clusters."""
    rows = np.repeat(np.arange(len(y)), n_repeats)
    groups = None if n_repeats == 1 else rows
    problems = {name: check_problem(y[rows], p[rows], groups=groups) for name, p in models.items()}
    rule = SimpleNamespace(**{"threshold": None, "costs": (), **decision})
    return {row.quantity: row for row in find_differences(problems, 0.95, 0, decision=rule)}


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.62])
def test_net_benefits_of_two_models(threshold, tmp_path):
    y, a, b = two_models(600, 0)
    weight = 1.0 + np.arange(600) % 3
    options = {"threshold": threshold, "sample_weight": weight}
    comparison = compare(y, {"a": a, "b": b}, **options)
    differences = {row.quantity: row for row in comparison.differences}
    assert set(differences) == {*QUANTITIES, *OF_DECISIONS}
    benefits = [net_benefit(y, p, **options) for p in (a, b)]
    gain = differences["net_benefit"].difference
    assert gain.estimate == pytest.approx(benefits[0] - benefits[1])
    regrets = [decision_regret(y, p, **options) for p in (a, b)]
    for quantity, part in (("cost", "expected_cost"), ("regret", "calibration")):
        first, second = (getattr(regret, part).estimate for regret in regrets)
        assert differences[quantity].difference.estimate == pytest.approx(first - second)
    cost = differences["cost"].difference
    assert gain.low == pytest.approx(-cost.high / (1 - threshold))
    assert gain.high == pytest.approx(-cost.low / (1 - threshold))
    same = calibration_improvement(
        y, b, a, loss=Elementary(threshold), injective=True, sample_weight=weight
    )
    assert same.estimate / (1 - threshold) == pytest.approx(gain.estimate)
    told = json.loads(json.dumps(comparison.to_dict()))["differences"]
    told = {row["quantity"]: row for row in told}["net_benefit"]
    assert told["pvalue"] == differences["net_benefit"].pvalue
    assert (told["difference"]["low"], told["better"]) == (
        gain.low,
        differences["net_benefit"].better,
    )
    assert f"Net benefit at the threshold {threshold:g}: a " in comparison.verdict
    comparison.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (comparison.to_text(details=True), page):
        assert "for the net benefit a positive one" in " ".join(text.split())
        assert text.count("Net benefit") >= 2  # the sentence, and the row of the table
    assert comparison.to_frame()["pvalue"].between(0, 1).all()


def test_costs_and_several_classes_and_sketches():
    y, a, b = two_models(600, 1)
    costs = [[0, 40], [500, 60]]
    comparison = compare(y, {"a": a, "b": b}, costs=costs)
    differences = {row.quantity: row.difference for row in comparison.differences}
    assert "net_benefit" not in differences and "Mean cost of a decision: " in comparison.verdict
    losses = [DecisionCost(costs).loss(np.eye(2)[y], np.column_stack([1 - p, p])) for p in (a, b)]
    assert differences["cost"].estimate == pytest.approx(np.mean(losses[0] - losses[1]))
    samples = make_tempered_simplex(100, 3, random_state=0)
    many = {"raw": samples.y_proba, "truth": samples.posterior}
    differences = {
        row.quantity: row.difference for row in compare(samples.y, many, threshold=0.6).differences
    }
    first, second = (
        net_benefit(samples.y, p, threshold=0.6, notion="top_label") for p in many.values()
    )
    assert differences["net_benefit"].estimate == pytest.approx(first - second)
    sketches = {"a": ForecastSketch([0, 1]).fit(y, a), "b": ForecastSketch([0, 1]).fit(y, b)}
    apart = ComparisonReport.from_sketches(sketches, threshold=0.3)
    differences = {row.quantity: row for row in apart.differences}
    expected = net_benefit(y, a, threshold=0.3) - net_benefit(y, b, threshold=0.3)
    assert differences["net_benefit"].difference.estimate == pytest.approx(expected, abs=1e-9)
    paired = rows_of(y, {"a": a, "b": b}, threshold=0.3)["net_benefit"].difference
    assert differences["net_benefit"].difference.low < paired.low and "regret" not in differences
    reports = {"a": make(y[:20], a[:20], threshold=0.3), "b": make(y[:20], b[:20], threshold=0.4)}
    with pytest.raises(ValueError, match="differ in threshold or costs"):
        ComparisonReport(reports)


@pytest.mark.parametrize("seed", [0, 1])
def test_pvalues_agree_with_their_intervals_and_do_not_depend_on_the_order(seed):
    y, a, b = two_models(300, seed)
    first, second = (
        rows_of(y, models, threshold=0.3) for models in ({"a": a, "b": b}, {"b": b, "a": a})
    )
    assert set(first) == {*QUANTITIES, *OF_DECISIONS}
    for quantity, row in first.items():
        swapped = second[quantity]
        assert row.pvalue == pytest.approx(swapped.pvalue, rel=1e-6)
        assert row.difference.estimate == pytest.approx(-swapped.difference.estimate, abs=1e-15)
        assert row.detected == (row.pvalue < 0.05) and 0 < row.pvalue <= 1


def test_more_net_benefit_is_better():
    y, a, b = two_models(2000, 0)
    rows = rows_of(y, {"a": a, "b": b}, threshold=0.3)
    assert rows["net_benefit"].better == rows["cost"].better == "a"
    assert rows["net_benefit"].difference.low > 0 > rows["cost"].difference.high


def test_equal_decisions_of_different_models_are_not_certainly_equal():
    y, a, _ = two_models(300, 0)
    models = {"a": a, "b": 1e-3 + 0.998 * a}
    near = rows_of(y, models, threshold=0.999)["net_benefit"]
    assert near.difference.estimate == 0 and near.pvalue == 1
    assert near.difference.low < 0 < near.difference.high
    same = rows_of(y, {"a": a, "b": a.copy()}, threshold=0.3)["net_benefit"]
    assert (same.difference.low, same.difference.high, same.pvalue) == (0, 0, 1)


def test_repeated_samples_in_clusters_carry_no_information():
    """The interval is that of one row per cluster; taken as independent it is half as long."""
    y, a, b = two_models(400, 0)
    models = {"a": a, "b": b}
    once, many = (rows_of(y, models, n_repeats=n, threshold=0.3) for n in (1, 4))
    for quantity in ("net_benefit", "cost"):
        few, repeated = once[quantity].difference, many[quantity].difference
        ratio = (repeated.high - repeated.low) / (few.high - few.low)
        assert ratio == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_intervals_of_net_benefits_cover():
    """40 samples of 300 with 15 events: 36 or more cover (p < .05 at 95 %); Student's, 88 %."""
    y, a, b = two_models(400_000, 10**6, rate=0.05)
    truth = net_benefit(y, a, threshold=0.05) - net_benefit(y, b, threshold=0.05)
    assert truth > 0.002  # its standard error is .0002
    intervals = [difference_of(*two_models(300, seed, rate=0.05), 0.05) for seed in range(40)]
    assert sum(interval.low <= truth <= interval.high for interval in intervals) >= 36


def difference_of(y, a, b, threshold):
    """The interval alone, without the other quantities."""
    problems = check_problem(y, a), check_problem(y, b)
    rule = DecisionRule.of(SimpleNamespace(threshold=threshold, costs=()), problems[0])
    return rule.difference("net_benefit", *problems, 0.95)[0]


def test_decision_values_are_named(words_only, comparison):
    """In the verdict, and in the legends of displays; a model with probabilities has neither."""
    X, y = make_classification(100, 5, random_state=0)
    models = {"svm": LinearSVC().fit(X[:50], y[:50]), "lr": LogisticRegression().fit(X, y)}
    shown = ComparisonReport.from_estimators(models, X[50:], y[50:])
    assert "The scores of svm are decision values, divided by their spread" in shown.verdict
    assert "decision values" not in comparison.verdict
    for display in (ReliabilityDisplay, DecisionCurveDisplay):
        legends = [
            " ".join(
                text.get_text()
                for text in display.from_estimator(model, X, y).figure_.findobj(Text)
            )
            for model in models.values()
        ]
        assert ["LinearSVC, decision values" in legend for legend in legends] == [True, False]
        assert "LogisticRegression, decision" not in legends[1]


@pytest.mark.parametrize("events", [40, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("clustered", [True, False])
def test_net_benefits_at_tied_forecasts(events, clustered, words_only, rng):
    """Forecasts on the threshold count as below it, which is said; the other class is its mirror.

    The mirror of the threshold and of costs has the decisions of the other side there, so its net
    benefit is that of acting from the threshold on.
    """
    models = {name: rng.integers(1, 10, 200) / 10 for name in "ab"}
    y = np.zeros(200, dtype=int)
    y[np.argsort(-models["a"], kind="stable")[:events]] = 1
    rows = {"sample_weight": rng.uniform(0.5, 2, 200)}
    if clustered:
        rows["groups"] = np.arange(200) // 4
    shown = compare(y, models, threshold=0.3, **rows)
    known = {row.quantity: row.difference for row in shown.differences}
    weight, odds = rows["sample_weight"] / rows["sample_weight"].sum(), 0.3 / 0.7
    value = {name: np.sum(weight * (p > 0.35) * (y - odds * (1 - y))) for name, p in models.items()}
    assert known["net_benefit"].estimate == pytest.approx(value["a"] - value["b"], abs=1e-12)
    assert known["cost"].estimate == pytest.approx(0.7 * (value["b"] - value["a"]), abs=1e-12)
    assert all(row.low <= row.estimate <= row.high for row in known.values())
    shares = [f"{100 * weight[p == 0.3].sum():.2g} % of {name}" for name, p in models.items()]
    assert f"threshold count as below it: {', '.join(shares)}." in shown.verdict
    tied = {name: 1 - p for name, p in models.items()}
    turned = compare(1 - y, tied, threshold=0.7, **rows)
    (cost,) = (row for row in turned.differences if row.quantity == "cost")
    value = {name: np.sum(weight * (p > 0.25) * (y - odds * (1 - y))) for name, p in models.items()}
    assert cost.difference.estimate == pytest.approx(0.7 * (value["b"] - value["a"]), abs=1e-12)
    assert "count as below" not in compare(y, models, threshold=0.35, **rows).verdict


@pytest.mark.parametrize("threshold", [1e-6, 0.99999])
def test_thresholds_beyond_all_forecasts(threshold, words_only):
    """The same decisions of both models: no difference, and no claim."""
    models = {"a": RAW[:100, 1].clip(0.01, 0.99), "b": TRUTH[:100, 1].clip(0.01, 0.99)}
    shown = compare(Y[:100], models, threshold=threshold)
    for row in shown.differences:
        if row.quantity in OF_DECISIONS:
            assert row.difference.estimate == 0 and row.pvalue == 1
            assert row.difference.low < 0 < row.difference.high
    assert "does not differ significantly" in shown.verdict.split("Net benefit")[1]
