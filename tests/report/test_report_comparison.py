import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import scale

from skcalib import CalibrationReport, ComparisonReport, compare_calibration
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.inference import mean_interval
from skcalib.problem import check_problem
from skcalib.report.comparison import _find_differences
from skcalib.report.comparison_wording import QUANTITIES, ranks
from skcalib.scores import Brier

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
    return _find_differences(problems, 0.95, 0)


def by_pair(differences):
    return {(one.quantity, one.first, one.second): one for one in differences}


def test_swapped_models_flip_all_signs():
    one = by_pair(find({"a": RAW, "b": TRUTH}, Y))
    two = by_pair(find({"b": TRUTH, "a": RAW}, Y))
    assert {quantity for quantity, *_ in one} == set(QUANTITIES)
    for (quantity, first, second), found in one.items():
        other = two[quantity, second, first]
        a, b = found.difference, other.difference
        assert (a.estimate, a.low, a.high) == (-b.estimate, -b.high, -b.low)
        assert (a.standard_error, found.better) == (b.standard_error, other.better)
    for one in find({"a": RAW, "b": RAW.copy()}, Y):
        assert (one.difference.estimate, one.difference.low, one.difference.high) == (0, 0, 0)
        assert not one.detected and one.better == ""


def test_differences_are_those_of_the_functions(comparison):
    found = {one.quantity: one.difference for one in comparison.differences}
    problems = [check_problem(Y, p) for p in (RAW, TRUTH)]
    losses = [Brier().loss(p.target, p.forecast) for p in problems]
    assert found["brier"] == mean_interval(losses[0] - losses[1])
    for part in ("calibration", "refinement"):
        one, two = (getattr(r.findings.error("brier", "canonical"), part).estimate
                    for r in comparison.reports.values())  # fmt: skip
        assert found[part].estimate == pytest.approx(one - two)
    order = np.random.RandomState(0).permutation(1000)
    kernel = compare_calibration(Y[order], RAW[order], TRUTH[order])
    assert found["kernel"].estimate == kernel.estimate
    content = json.loads(json.dumps(comparison.to_dict()))
    assert set(content["reports"]) == {"raw", "truth"}
    told = {one["quantity"]: one for one in content["differences"]}
    assert set(told) == set(QUANTITIES)
    assert told["brier"]["better"] == "truth" and told["brier"]["detected"] is True


def mirrored(seed):
    """Two models of equal errors: each is right on one half, over-confident on the other."""
    rng = np.random.default_rng(seed)
    temperatures = {"score_temperature": 0.6, "label_temperature": 1.0}
    data = make_tempered_simplex(400, 2, **temperatures, random_state=seed)
    half = rng.random(400)[:, None] < 0.5
    raw, truth = data.y_proba, data.posterior
    return data.y, {"a": np.where(half, raw, truth), "b": np.where(half, truth, raw)}


@pytest.mark.slow
def test_equal_errors_are_told_apart_as_rarely_as_the_level_says():
    """100 data sets, standard error 2.2 % at 5 %; conservative is allowed, too."""
    alarms = dict.fromkeys(QUANTITIES, 0)
    for seed in range(100):
        y, models = mirrored(seed)
        for one in find(models, y):
            alarms[one.quantity] += one.detected
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
    one, two = comparison.reports.values()
    three = ComparisonReport({"raw": one, "truth": two, "same": two})
    assert ranks(three, "log") == {"raw": (3, 3, 3), "truth": (1, 1, 2), "same": (1, 1, 2)}
    assert "1 (1 to 2)" in str(three)


def test_infinite_losses_and_few_samples(words_only):
    y = np.array([0, 1, 1, 0] * 10)
    hard, soft = np.array([0.0, 1.0, 0.0, 0.1] * 10), np.array([0.2, 0.9, 0.4, 0.1] * 10)
    one = compare(y, {"hard": hard, "soft": soft})
    assert "Log loss: soft is below hard by an infinite amount." in one.verdict
    both = ComparisonReport(dict.fromkeys("ab", one.reports["hard"]))
    assert "log" not in {difference.quantity for difference in both.differences}
    assert "infinite" in both._repr_html_()
    few = compare(y[:4], {"a": soft[:4], "b": 1 - soft[:4]})
    assert {d.quantity for d in few.differences} == set(QUANTITIES) - {"kernel"}
    assert len(str(few)) > 0


def test_reports_that_are_there_already_are_compared():
    data = make_grouping_problem(100, random_state=0)
    reports = [
        make(data.y, p, data.X, name=name)
        for name, p in (("a", data.y_proba), ("b", data.posterior))
    ]
    one = ComparisonReport(reports)
    renamed = ComparisonReport(dict(zip("xy", reports, strict=True)))
    assert list(one.reports) == ["a", "b"] and "Rank by log loss" in str(one)
    assert {d.first for d in renamed.differences} == {"x"} and list(renamed.reports) == ["x", "y"]
    assert "x" in renamed.verdict


def test_estimators_share_their_folds():
    """A splitter that shuffles anew each time must not compare models on other folds."""
    X, y = load_breast_cancer(return_X_y=True)
    cv = KFold(3, shuffle=True, random_state=np.random.RandomState(0))
    models = {"one": GaussianNB(), "two": GaussianNB(), "other": LogisticRegression()}
    one = of_models(models, scale(X[:150, :5]), y[:150], cv=cv)
    found = by_pair(one.differences)
    assert found["brier", "one", "two"].difference.estimate == 0
    assert found["brier", "one", "other"].difference.estimate != 0
    assert one.reports["one"].name == "one"


def test_refusals():
    y, proba = Y[:200], RAW[:200]
    one, turned = make(y, proba, name="a"), make(y[::-1], proba, name="b")
    seeded = make(y, proba, name="b", random_state=1)
    for call, words in (
        (lambda: ComparisonReport([one]), "at least two reports, got 1"),
        (lambda: ComparisonReport([one, one]), "same name"),
        (lambda: ComparisonReport([one, turned]), "reports of a and b are not on the same samples"),
        (lambda: ComparisonReport([one, seeded]), "differ in confidence_level or random_state"),
        (lambda: compare(y, {"a": proba}), "dict of at least two"),
        (lambda: compare(y, [proba, proba]), "dict of at least two"),
        (lambda: of_models(GaussianNB(), proba, y), "dict of at least two classifiers"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
