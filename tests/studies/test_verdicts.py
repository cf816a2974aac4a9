"""Reports of worlds with a known truth: hardly a claim is wrong, and those that must be are made.

The fast part runs some scenarios once, the slow part all of them and the forty directions.
"""

import numpy as np
import pandas as pd
import pytest
import verdict_bench as bench
from verdict_claims import judge
from verdict_scenarios import SCENARIOS, built_in_directions
from verdict_texts import n_words
from verdict_truth import matches

#: Reports of a second or less, of every kind.
FAST = (
    "calibrated, rate 0.5", "too_high, rate 0.5", "too_extreme, rate 0.2", "calibrated, n = 20",
    "rare, rate 0.01, n = 200", "ten classes, calibrated, n = 150",
    "three classes, too_extreme, n = 150", "all labels 0", "two rows", "twenty right, two wrong",
    "hard predictions", "perfect", "the other class", "ten columns moved",
    "balanced class weights, rare event", "file with the column PROB_Churn", "rows ten times",
    "decision values", "weights that matter, too_low", "constant, calibrated",
    "three classes, one without samples",
)  # fmt: skip


def assert_true(judgements):
    """No more wrong claims than chance explains, none of them gravely, and none too often missing.

    A calibrated world has a false verdict in one of twenty, with up to three wrong claims.
    """
    told = "\n".join(["", *bench.details(judgements)])
    assert sum(len(judgement.claims) for judgement in judgements) >= len(judgements), told
    assert not bench.too_often_false(judgements), told
    assert not any(claim.grave for judgement in judgements for claim in judgement.claims), told
    assert not bench.too_often_missing(judgements), told


def test_bench_is_large_enough():
    assert len(SCENARIOS) >= 60
    assert len(built_in_directions()) == 40
    assert len([name for name in SCENARIOS if name.startswith("rare, ")]) == 24
    assert set(FAST) <= set(SCENARIOS)


@pytest.mark.parametrize("name", FAST)
def test_no_wrong_claim(name):
    """Nor a forbidden word, which is a claim here, in the texts and on pages of two kinds."""
    judgement = bench.run(name, 0, page=name.startswith(("too_high", "ten classes")))
    assert not judgement.wrong, bench.details([judgement])
    assert not judgement.missing, bench.details([judgement])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_few_claims_of_all_scenarios_are_wrong(part):
    """A third of them each; the pages of one third, for the claims are those of the text."""
    judgements = bench.run_all(list(SCENARIOS)[part::3], [100], page=part == 0)
    assert_true(judgements)
    assert max(n_words(judgement.record) for judgement in judgements) <= 110
    for name, (held, n) in bench.coverage(judgements).items():
        # 95 % of the data sets, up to three standard errors
        assert held >= 0.95 * n - 3 * np.sqrt(n * 0.95 * 0.05), (name, held, n)


@pytest.mark.slow
def test_directions_are_named():
    judgements = bench.run_all(list(built_in_directions()), [200])
    named = sum(not judgement.missing for judgement in judgements)
    assert named >= 38, bench.details(judgements)
    assert not any(claim.grave for judgement in judgements for claim in judgement.claims)


@pytest.mark.slow
def test_noise_features_are_hardly_named():
    names = [name for name in SCENARIOS if name.startswith("noise") and "rare" not in name]
    judgements = bench.run_all(names, range(300, 306))
    named = sum(bool(judgement.record["named_groups"]) for judgement in judgements)
    n = len(judgements)
    assert named <= 0.05 * n + 2 * np.sqrt(n * 0.05 * 0.95), f"{named} of {n}"


# The bench itself: a claim that is not true is found.


@pytest.fixture(scope="module")
def world():
    """A world that is too high, with a group; a draw of it, and its truth."""
    name = "numeric groups, too_high"
    return SCENARIOS[name], bench.draw_of(name, 0), bench.truth_of(name)


def around(estimate, reach=0.01):
    return {"estimate": estimate, "low": estimate - reach, "high": estimate + reach}


def honest(draw, truth):
    """A report of the truth."""
    score, outcome = float(draw.score.mean()), float(draw.code.mean())
    loss = float(-np.log(draw.matrix[np.arange(len(draw.y)), draw.code]).mean())
    low, high = draw.score < 0.3, draw.score >= 0.3
    places = [
        {"kind": "scores", "label": label, "n_samples": int(rows.sum()), "detected": True,
         "mean_score": float(draw.score[rows].mean()), "low": 0.0, "high": 0.1,
         "low_score": float(draw.score[rows].min()), "high_score": float(draw.score[rows].max()),
         "mean_outcome": float(draw.truth[rows].mean())}
        for label, rows in (("below 0.3", low), ("0.3 and more", high))
    ]  # fmt: skip
    advice = "Recalibrate with Platt scaling: RecalibratedClassifierCV(model, PlattScaling())"
    headline = f"Predictions are too high: mean {score:.1%}, observed {outcome:.1%}."
    return {
        "headline": headline.replace("%", " %"), "advice": advice,
        "verdict": ["Groups with equal scores differ.", advice],
        "miscalibrated": True, "direction": "too_high", "event": "1", "mean_predicted": score,
        "observed_rate": around(outcome), "typical_error": around(truth.rms),
        "observed_expected_ratio": around(outcome / score, 0.1),
        "suspicions": [], "suspicion_kinds": [], "named_groups": [group("z > 0.1", 0.5, 0.4)],
        "recommended": "PlattScaling", "log_loss": {"before": loss, "after": loss - 0.01},
        "brier_score": {"before": 0.2, "after": 0.1}, "places": places,
    }  # fmt: skip


def judged(world, change, **shown):
    scenario, draw, truth = world
    report = {**honest(draw, truth), **change}
    return judge(scenario, 0, draw, report, shown, truth)


def test_an_honest_report_passes(world):
    judgement = judged(world, {})
    assert judgement.wrong == [] and judgement.missing == []
    assert all(judgement.covered.values()) and len(judgement.covered) == 3
    assert {"miscalibrated", "direction", "place", "group", "recommended"} == {
        claim.kind for claim in judgement.claims
    }


def group(rule, observed, expected):
    return {"rule": rule, "observed": observed, "expected": expected, "harm": 0.01,
            **around(observed - expected, 0.02)}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("direction", {"direction": "too_low", "headline": "Predictions are too low."}),
        ("direction", {"direction": "too_extreme", "headline": "Over-confident."}),
        ("direction", {"direction": "uneven", "headline": "Miscalibrated, unevenly."}),
        ("group", {"named_groups": [group("z > 0.1", 0.4, 0.5)]}),
        ("group", {"named_groups": [group("region = east", 0.5, 0.4)]}),
        ("group", {"named_groups": [group("-1 < follows <= 0.5", 0.5, 0.4)]}),
        ("suspicion", {"suspicions": ["Another."], "suspicion_kinds": ["other_class"]}),
        ("number", {"mean_predicted": 0.2}),
        ("number", {"typical_error": around(0.17, 0.2)}),
        ("number", {"observed_rate": around(0.4, 0.7)}),
        ("number", {"event": None}),
        ("number", {"headline": "Predictions are too high: mean 30.0 %, observed 10.0 %."}),
        ("sentence", {"headline": "Predictions are too high: the mean is off."}),
        ("number", {"log_loss": {"before": 0.2, "after": 0.1}}),
        ("number", {"verdict": ["word"] * 120}),
        ("contradiction", {"recommended": None}),
    ],
)
def test_a_false_claim_is_found(world, kind, change):
    assert kind in {claim.kind for claim in judged(world, change).wrong}


#: What a verdict says where nothing was found, of a typical error of at most 4.2 points.
NOTHING = {
    "miscalibrated": False, "direction": None, "recommended": None, "named_groups": [],
    "typical_error": {"estimate": 0.0, "low": 0.0, "high": 0.042},
    "headline": "No evidence of miscalibration.", "places": [],
}  # fmt: skip
MISSED = "With 200 samples, errors of up to 4.2 points could be missed (95 % upper limit)."
GROUPS = (
    "No group was found that differs from others with equal scores; a group of 10 % would have to "
    "differ by about 12 points to be found."
)
LEFT = "Recalibration is not recommended: a gain of up to 3.1 % of the log loss could be missed."


@pytest.mark.parametrize(
    ("kinds", "said", "text"),
    [
        ([], [MISSED, GROUPS, LEFT], ""),
        ([], ["With 20 samples, even large errors could be missed."], ""),
        (["sentence"], [GROUPS, LEFT], ""),
        (["sentence"], [MISSED, GROUPS.partition(";")[0] + "."], ""),
        (["sentence"], [MISSED, LEFT.partition(":")[0] + "."], ""),
        (["number"], [MISSED.replace("4.2", "7.4"), LEFT], ""),
        (["number"], [MISSED, LEFT.replace("3.1 %", "310 %")], ""),
        (["words"], [MISSED], "Recalibration would not help: no map is better."),
        (["words"], [MISSED], "Recalibration changes much and does not help."),
        (["words"], [MISSED], "No group differs from others with equal scores."),
        (["words"], [MISSED], "Features would save at least -.003."),
        (["words"], [MISSED], "Recalibration would save at most -2 false alarms."),
    ],
)  # fmt: skip
def test_sentences_where_nothing_was_found(world, kinds, said, text):
    loss = {**honest(*world[1:])["log_loss"], "after": None}
    change = NOTHING | {"verdict": said, "advice": said[-1], "log_loss": loss}
    wrong = judged(world, change, details=text).wrong
    assert [claim.kind for claim in wrong if claim.kind != "contradiction"] == kinds


def test_a_gain_that_is_missed_is_held_to_that_of_the_truth(world):
    """The truth lowers the log loss by about 10 %."""
    for limit, holds in (("3.1 %", False), ("30 %", True)):
        said = f"a gain of up to {limit} of the log loss could be missed."
        judgement = judged(world, {"verdict": [said], "advice": said})
        assert judgement.covered["gain that could be missed"] == holds


def test_a_range_on_the_wrong_side_and_what_is_missing_are_found(world):
    places = honest(*world[1:])["places"]
    places[1]["mean_outcome"] = places[1]["mean_score"] + 0.1
    assert [claim.kind for claim in judged(world, {"places": places}).wrong] == ["place"]
    change = {"direction": None, "miscalibrated": False, "named_groups": []}
    judgement = judged(world, {**change, "typical_error": around(0.5, 0.1)})
    assert set(judgement.missing) == {"too_high", "cause:z"}
    assert not judgement.covered["typical error"]


def test_gravely_wrong_is_the_other_sign_of_a_clear_shift_or_slope():
    names = {"too_high, rate 0.5": "too_low", "too_extreme, rate 0.2": "too_moderate"}
    for name, opposite in names.items():
        truth = bench.truth_of(name)
        right = name.partition(",")[0]
        assert truth.is_gravely_false(opposite) and truth.is_false(opposite)
        assert not truth.is_gravely_false(right) and not truth.is_false(right)
    assert not bench.truth_of("calibrated, rate 0.5").is_gravely_false("too_high")


def test_rules_are_read():
    X = pd.DataFrame({"z": [-1.0, 0.0, 1.0, 2.0], "region": ["east", "west", "east", "east"]})
    for rule, rows in {
        "z > 0": [2, 3],
        "-1 < z <= 1": [1, 2],
        "z > 0 and region = east": [2, 3],
        "region is not east": [1],
        "all": [0, 1, 2, 3],
    }.items():
        assert np.flatnonzero(matches(rule, X)).tolist() == rows
    assert np.flatnonzero(matches("x1 > 0.5", np.eye(3))).tolist() == [1]
    with pytest.raises(NameError, match="somewhere"):
        matches("somewhere", X)
