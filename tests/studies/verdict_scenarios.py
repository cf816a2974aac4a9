"""The scenarios of the bench of verdicts: each a world, a size, and what its report must say.

A key of `must` is a claim; its value is the share of data sets in which it has to be made:

- a direction ("too_high", ...), or "none": no evidence of miscalibration,
- "miscalibrated": some direction,
- "recommended", "leave": a map is recommended, or none,
- "suspicion:KIND": that record is among the suspicions,
- "cause:A|B": the rule of the most harmful group holds feature A or B,
- "no group": nobody is named,
- "event:NAME": the event is of that name.
"""

import numpy as np
import verdict_groups as groups
import verdict_worlds as worlds
from verdict_worlds import Scenario, bent, simplex

ALWAYS, USUALLY, OFTEN = 1.0, 0.95, 0.9

#: Events of each base rate: samples that a report of it is made of.
_SIZES = {0.5: 2000, 0.2: 2000, 0.05: 4000, 0.01: 8000}
_INFINITE = frozenset({"infinite_log_loss"})


def _base_rates():
    """Six shapes at four base rates."""
    for rate, n in _SIZES.items():
        strength = {0.5: 0.5, 0.2: 0.5, 0.05: 0.7, 0.01: 1.0}[rate]
        extreme, moderate = {0.5: (0.6, 1.6), 0.2: (0.6, 1.6), 0.05: (0.5, 1.7)}.get(
            rate, (0.35, 2.0)
        )
        of = f"rate {rate:g}"
        yield Scenario(f"calibrated, {of}", bent(rate), n, {"none": OFTEN})
        for name, bends in (
            ("too_high", {"shift": -strength}),
            ("too_low", {"shift": strength}),
            ("too_extreme", {"slope": extreme, "spread": 1.6}),
            ("too_moderate", {"slope": moderate, "spread": 0.9}),
        ):
            must = {name: USUALLY, "recommended": OFTEN}
            yield Scenario(f"{name}, {of}", bent(rate, **bends), n, must)
        must = {"miscalibrated": OFTEN} if rate > 0.1 else {}
        yield Scenario(f"wave, {of}", bent(rate, wave=0.9), n, must)


def _sizes():
    """Few samples, and many."""
    yield Scenario("calibrated, n = 20", bent(0.5), 20, {"leave": OFTEN})
    yield Scenario("too_high, n = 20", bent(0.5, shift=-1.5), 20, {})
    yield Scenario("calibrated, n = 150", bent(0.4), 150, {"none": OFTEN})
    yield Scenario("calibrated rare event, n = 150", bent(0.05), 150, {"none": OFTEN})
    yield Scenario("too_extreme, n = 150", bent(0.5, slope=0.35, spread=2), 150,
                   {"too_extreme": 0.5})  # fmt: skip
    yield Scenario("too_high, n = 150", bent(0.2, shift=-1.2), 150, {"too_high": OFTEN})
    yield Scenario("calibrated, n = 20,000", bent(0.3), 20_000, {"none": OFTEN})
    yield Scenario("slightly too_high, n = 20,000", bent(0.3, shift=-0.15), 20_000,
                   {"too_high": USUALLY})  # fmt: skip


def _several_classes():
    yield Scenario("ten classes, calibrated", simplex(10), 2000, {"none": OFTEN})
    yield Scenario("ten classes, too_extreme", simplex(10, slope=0.6), 2000,
                   {"too_extreme": USUALLY, "recommended": USUALLY})  # fmt: skip
    yield Scenario("ten classes, too_moderate", simplex(10, slope=1.6, spread=1.2), 2000,
                   {"too_moderate": USUALLY, "recommended": USUALLY})  # fmt: skip
    yield Scenario("ten classes, class_shift", simplex(10, biases=0.7), 2000,
                   {"class_shift": USUALLY, "recommended": USUALLY})  # fmt: skip
    yield Scenario("ten unequal classes, calibrated", simplex(10, tilt=2.0), 2000,
                   {"none": OFTEN})  # fmt: skip
    yield Scenario("ten unequal classes, too_extreme", simplex(10, tilt=2.0, slope=0.6), 2000,
                   {"too_extreme": USUALLY})  # fmt: skip
    yield Scenario("ten classes, calibrated, n = 150", simplex(10), 150, {"none": OFTEN})
    yield Scenario("three classes, calibrated", simplex(3), 2000, {"none": OFTEN})
    yield Scenario("three classes, class_shift", simplex(3, biases=0.5), 2000,
                   {"class_shift": USUALLY})  # fmt: skip
    yield Scenario("three classes, too_extreme, n = 150", simplex(3, slope=0.4), 150,
                   {"too_extreme": OFTEN})  # fmt: skip
    yield Scenario("ten confident classes, calibrated", worlds.confident_ten(None), 2000,
                   {"none": OFTEN})  # fmt: skip
    yield Scenario("ten confident classes, too_extreme", worlds.confident_ten(0.8), 2000,
                   {"too_extreme": USUALLY})  # fmt: skip


def _groups():
    for kind, name in (("numeric", "z"), ("category", "region"), ("interaction", "z|region")):
        for state, bends, must in (
            ("calibrated", {}, {"none": OFTEN}),
            ("too_high", {"shift": -0.8}, {"too_high": USUALLY}),
            ("too_extreme", {"slope": 0.5}, {}),
        ):
            yield Scenario(f"{kind} groups, {state}", groups.grouped(kind, **bends), 6000,
                           {**must, f"cause:{name}": OFTEN})  # fmt: skip
    for state, bends in (
        ("calibrated", {}),
        ("too_high", {"shift": -0.8}),
        ("too_extreme", {"slope": 0.5, "spread": 1.6}),
    ):
        yield Scenario(f"noise features, {state}", groups.noise_only(**bends), 2000,
                       {"no group": USUALLY})  # fmt: skip
    yield Scenario("noise categories, too_high", groups.grouped("nothing", shift=-0.8), 2000,
                   {"no group": USUALLY})  # fmt: skip
    yield Scenario("forty noise categories, too_high", groups.many_categories, 4000,
                   {"no group": USUALLY})  # fmt: skip
    yield Scenario("noise features, rare event", groups.noise_only(0.05, shift=-0.7), 4000,
                   {"no group": USUALLY})  # fmt: skip
    yield Scenario("ten classes, noise features", groups.grouped_classes("nothing"), 2000,
                   {"no group": USUALLY})  # fmt: skip
    yield Scenario("ten classes, numeric groups", groups.grouped_classes("numeric"), 6000,
                   {"cause:z": OFTEN})  # fmt: skip
    yield Scenario("overlooked feature, coin-tossed region", groups.overlooked_feature, 6000,
                   {"too_high": USUALLY, "cause:z": OFTEN})  # fmt: skip


def _odd_data():
    """Degenerate data, ties, weights, and mistakes of the input."""
    right = frozenset({"every_label_right", "hard_predictions"})
    for code in (0, 1):
        yield Scenario(f"all labels {code}", worlds.one_class(code), 30,
                       {"suspicion:one_class": ALWAYS, "leave": ALWAYS})  # fmt: skip
    yield Scenario("all labels 0, rare forecasts", worlds.one_class(0, 4.0), 400,
                   {"suspicion:one_class": ALWAYS, "leave": ALWAYS})  # fmt: skip
    yield Scenario("two rows", worlds.fixed([0, 1], [0.3, 0.8]), 2, {"leave": ALWAYS}, right)
    yield Scenario("two rows, both wrong", worlds.fixed([1, 0], [0.3, 0.8]), 2,
                   {"leave": ALWAYS})  # fmt: skip
    yield Scenario("twenty right, two wrong",
                   worlds.fixed([1] * 20 + [0] * 2, [0.9] * 21 + [0.8]), 22,
                   {"leave": ALWAYS, "none": ALWAYS})  # fmt: skip
    yield Scenario("separated, n = 20", worlds.separated, 20, {"leave": ALWAYS}, right)
    yield Scenario("separated, n = 2,000", worlds.separated, 2000,
                   {"suspicion:every_label_right": ALWAYS}, right)  # fmt: skip
    yield Scenario("constant, calibrated", worlds.constant(0.3, 0.3), 1000,
                   {"suspicion:constant": ALWAYS})  # fmt: skip
    yield Scenario("constant, too_low", worlds.constant(0.3, 0.5), 1000,
                   {"suspicion:constant": ALWAYS, "too_low": USUALLY})  # fmt: skip
    yield Scenario("hard predictions", worlds.hard(0.8), 1000,
                   {"suspicion:hard_predictions": ALWAYS}, _INFINITE)  # fmt: skip
    yield Scenario("perfect", worlds.hard(1.0), 1000,
                   {"suspicion:every_label_right": ALWAYS}, right)  # fmt: skip
    yield Scenario("ties, calibrated", worlds.rounded(1.0), 2000, {"none": OFTEN})
    yield Scenario("ties, too_extreme", worlds.rounded(0.5), 2000, {"too_extreme": USUALLY})
    yield Scenario("weights at random, calibrated", worlds.weights_at_random, 2000,
                   {"none": OFTEN})  # fmt: skip
    yield Scenario("weights that matter, too_low", worlds.weights_that_matter, 4000,
                   {"too_low": USUALLY})  # fmt: skip
    yield Scenario("certain misses", worlds.certain_misses, 2000,
                   {"suspicion:infinite_log_loss": USUALLY}, _INFINITE)  # fmt: skip
    yield Scenario("outliers that only the log loss sees", worlds.far_outliers, 2000, {})
    yield Scenario("weak signal, calibrated", bent(0.5, spread=0.25), 2000,
                   {"none": OFTEN, "leave": OFTEN})  # fmt: skip
    stated = worlds.stated((0.9, 0.95, 0.98, 0.99), (0.9, 0.95, 0.98, 0.99))
    yield Scenario("stated confidences, calibrated", stated, 2000, {"none": OFTEN})
    stated = worlds.stated((0.9, 0.95, 0.98, 0.99), (0.75, 0.78, 0.82, 0.85))
    yield Scenario("stated confidences, too_high", stated, 2000,
                   {"miscalibrated": ALWAYS, "recommended": USUALLY})  # fmt: skip
    yield Scenario("forest of two classes", worlds.forest(2), 2000, {}, _INFINITE)
    yield Scenario("forest of four classes", worlds.forest(4), 2000, {}, _INFINITE)


def _mistakes():
    yield Scenario("the other class", worlds.mistaken(bent(0.3, spread=2)), 1000,
                   {"suspicion:other_class": ALWAYS, "leave": ALWAYS})  # fmt: skip
    yield Scenario("the other class, accuracy .04",
                   worlds.mistaken(bent(0.5, spread=6.0)), 400,
                   {"suspicion:other_class": ALWAYS, "leave": ALWAYS}, _INFINITE)  # fmt: skip
    yield Scenario("two columns swapped",
                   worlds.mistaken(worlds.two_columns(bent(0.3, spread=2))), 1000,
                   {"suspicion:other_class": ALWAYS, "leave": ALWAYS})  # fmt: skip
    yield Scenario("ten columns moved", worlds.columns_moved, 1000,
                   {"suspicion:column_order": ALWAYS, "leave": ALWAYS})  # fmt: skip
    yield Scenario("percentages twice", worlds.percentages_twice, 1000,
                   {"suspicion:percent_scale": ALWAYS, "leave": ALWAYS})  # fmt: skip


def _reproductions():
    """What users met first."""
    yield Scenario("balanced class weights, rare event", worlds.odds_multiplied, 4000,
                   {"too_high": USUALLY, "recommended": USUALLY, "event:1": ALWAYS},
                   frozenset({"balanced_training"}))  # fmt: skip
    yield Scenario("confidence of a network as two classes", worlds.network_confidence, 2000,
                   {"miscalibrated": ALWAYS, "recommended": USUALLY})  # fmt: skip
    yield Scenario("very rare event", bent(0.004, shift=-0.9, spread=1.6), 20_000,
                   {"too_high": USUALLY, "event:1": ALWAYS})  # fmt: skip
    churn = worlds.two_names(bent(0.1, shift=-0.8), ("churn", "stay"), "churn")
    must = {"too_high": USUALLY, "event:churn": ALWAYS}
    yield Scenario("pos_label, first in order", churn, 2000, must)
    for column in ("p_churn", "churn", "proba_churn", "PROB_Churn"):
        yield Scenario(f"file with the column {column}", churn, 2000, must, by=column)
    yield Scenario("frame with the column p_churn", churn, 2000, must, by="frame:p_churn")


def _samples():
    """Samples that are not what they should be, and what may pass for it."""
    for name, draw in (("rows ten times", worlds.repeated(bent(0.3), 10)),
                       ("rows twice, rare event", worlds.repeated(bent(0.05), 2))):  # fmt: skip
        must = {"suspicion:repeated_rows": ALWAYS, "none": ALWAYS, "leave": ALWAYS}
        yield Scenario(name, draw, 2000, must)
    orders = {
        "in reverse": lambda rows, rng: rows[::-1],
        "moved by a row": lambda rows, rng: np.roll(rows, 1),
    }
    for name, order in orders.items():
        yield Scenario(f"labels {name}", worlds.reordered(bent(0.3), order), 1000,
                       {"suspicion:label_order": ALWAYS, "leave": ALWAYS})  # fmt: skip
    shuffled = worlds.reordered(bent(0.3), lambda rows, rng: rng.permutation(rows))
    yield Scenario("labels shuffled", shuffled, 1000,
                   {"suspicion:unrelated_labels": USUALLY, "leave": USUALLY})  # fmt: skip
    yield Scenario("odds ten times too high", worlds.odds_of(bent(0.05), 10), 4000,
                   {"suspicion:balanced_training": OFTEN, "too_high": USUALLY,
                    "recommended": USUALLY})  # fmt: skip
    yield Scenario("decision values", bent(0.4, slope=2.0, spread=0.8), 1000,
                   {"suspicion:decision_values": ALWAYS, "too_moderate": USUALLY,
                    "recommended": USUALLY}, by="decision values")  # fmt: skip
    yield Scenario("three classes, one without samples", worlds.without_class(simplex(3), 2), 1000,
                   {"suspicion:absent_class": ALWAYS, "leave": ALWAYS})  # fmt: skip


def _rare():
    """Calibrated forecasts of a rare event, with no event or some: 13 seeds are 312 draws."""
    one_class = frozenset({"one_class"})
    for rate in (0.005, 0.01, 0.02, 0.05):
        for n in (50, 100, 200, 500, 1000, 2000):
            must = {"none": USUALLY, "leave": USUALLY}
            yield Scenario(f"rare, rate {rate:g}, n = {n:,}", worlds.rare(rate), n, must, one_class)
    must = {"miscalibrated": USUALLY, "recommended": OFTEN}
    yield Scenario("rare event, overlooked feature", groups.overlooked_rare, 8000, must)


SCENARIOS = {
    scenario.name: scenario
    for make in (
        _base_rates, _sizes, _rare, _several_classes, _groups, _odd_data, _mistakes, _reproductions,
        _samples,
    )
    for scenario in make()
}  # fmt: skip


def built_in_directions():
    """Forty worlds of a plain direction at base rates of .5 to .02."""
    found = {}
    for rate in (0.5, 0.2, 0.1, 0.05, 0.02):
        n = 2000 if rate > 0.05 else 4000
        strengths = (0.5, 1.0) if rate > 0.05 else (0.7, 1.2)
        slopes = (0.6, 0.4) if rate > 0.05 else (0.45, 0.3)
        steep = (1.6, 2.2) if rate > 0.05 else (1.8, 2.4)
        for k in range(2):
            for name, bends in (
                ("too_high", {"shift": -strengths[k]}),
                ("too_low", {"shift": strengths[k]}),
                ("too_extreme", {"slope": slopes[k], "spread": 1.6}),
                ("too_moderate", {"slope": steep[k], "spread": 0.9}),
            ):
                scenario = Scenario(f"{name} {k}, rate {rate:g}", bent(rate, **bends), n, {name: 1})
                found[scenario.name] = scenario
    return found
