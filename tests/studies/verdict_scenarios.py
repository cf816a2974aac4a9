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

from functools import partial
from itertools import product

import numpy as np
import verdict_groups as groups
import verdict_worlds as w
from verdict_worlds import Scenario, bent, simplex


def _must(share, *claims):
    return dict.fromkeys(claims, share)


always, usually, often, in_half = (partial(_must, share) for share in (1.0, 0.95, 0.9, 0.5))
NONE, LEAVE, NOBODY = often("none"), always("leave"), usually("no group")
INFINITE = frozenset({"infinite_log_loss"})
RIGHT = frozenset({"every_label_right", "hard_predictions"})


def _base_rates():
    """Six shapes at four base rates."""
    for rate, n, strength, extreme, moderate in (
        (0.5, 2000, 0.5, 0.6, 1.6),
        (0.2, 2000, 0.5, 0.6, 1.6),
        (0.05, 4000, 0.7, 0.5, 1.7),
        (0.01, 8000, 1.0, 0.35, 2.0),
    ):
        of = f"rate {rate:g}"
        yield f"calibrated, {of}", bent(rate), n, NONE
        for name, bends in _directions(strength, extreme, moderate):
            must = usually(name) | often("recommended")
            yield f"{name}, {of}", bent(rate, **bends), n, must
        must = often("miscalibrated") if rate > 0.1 else {}
        yield f"wave, {of}", bent(rate, wave=0.9), n, must


def _directions(strength, extreme, moderate):
    """Directions of forecasts, and the curves that have them."""
    yield "too_high", {"shift": -strength}
    yield "too_low", {"shift": strength}
    yield "too_extreme", {"slope": extreme, "spread": 1.6}
    yield "too_moderate", {"slope": moderate, "spread": 0.9}


SIZES = [
    ("calibrated, n = 20", bent(0.5), 20, often("leave")),
    ("too_high, n = 20", bent(0.5, shift=-1.5), 20, {}),
    ("calibrated, n = 150", bent(0.4), 150, NONE),
    ("calibrated rare event, n = 150", bent(0.05), 150, NONE),
    ("too_extreme, n = 150", bent(0.5, slope=0.35, spread=2), 150, in_half("too_extreme")),
    ("too_high, n = 150", bent(0.2, shift=-1.2), 150, often("too_high")),
    ("calibrated, n = 20,000", bent(0.3), 20_000, NONE),
    ("slightly too_high, n = 20,000", bent(0.3, shift=-0.15), 20_000, usually("too_high")),
]
EXTREME, MODERATE, SHIFT = (
    usually(name, "recommended") for name in ("too_extreme", "too_moderate", "class_shift")
)
SEVERAL_CLASSES = [
    ("ten classes, calibrated", simplex(10), 2000, NONE),
    ("ten classes, too_extreme", simplex(10, slope=0.6), 2000, EXTREME),
    ("ten classes, too_moderate", simplex(10, slope=1.6, spread=1.2), 2000, MODERATE),
    ("ten classes, class_shift", simplex(10, biases=0.7), 2000, SHIFT),
    ("ten unequal classes, calibrated", simplex(10, tilt=2.0), 2000, NONE),
    ("ten unequal classes, too_extreme", simplex(10, tilt=2.0, slope=0.6), 2000,
     usually("too_extreme")),
    ("ten classes, calibrated, n = 150", simplex(10), 150, NONE),
    ("three classes, calibrated", simplex(3), 2000, NONE),
    ("three classes, class_shift", simplex(3, biases=0.5), 2000, usually("class_shift")),
    ("three classes, too_extreme, n = 150", simplex(3, slope=0.4), 150, often("too_extreme")),
    ("ten confident classes, calibrated", w.confident_ten(None), 2000, NONE),
    ("ten confident classes, too_extreme", w.confident_ten(0.8), 2000, usually("too_extreme")),
]  # fmt: skip


def _groups():
    for kind, name in (("numeric", "z"), ("category", "region"), ("interaction", "z|region")):
        for state, bends, must in (
            ("calibrated", {}, NONE),
            ("too_high", {"shift": -0.8}, usually("too_high")),
            ("too_extreme", {"slope": 0.5}, {}),
        ):
            draw, must = groups.grouped(kind, **bends), must | often(f"cause:{name}")
            yield f"{kind} groups, {state}", draw, 6000, must
    for state, bends in (
        ("calibrated", {}),
        ("too_high", {"shift": -0.8}),
        ("too_extreme", {"slope": 0.5, "spread": 1.6}),
    ):
        yield f"noise features, {state}", groups.noise_only(**bends), 2000, NOBODY


OTHER_GROUPS = [
    ("noise categories, too_high", groups.grouped("nothing", shift=-0.8), 2000, NOBODY),
    ("forty noise categories, too_high", groups.many_categories, 4000, NOBODY),
    ("noise features, rare event", groups.noise_only(0.05, shift=-0.7), 4000, NOBODY),
    ("ten classes, noise features", groups.grouped_classes("nothing"), 2000, NOBODY),
    ("ten classes, numeric groups", groups.grouped_classes("numeric"), 6000, often("cause:z")),
    ("overlooked feature, coin-tossed region", groups.overlooked_feature, 6000,
     usually("too_high") | often("cause:z")),
    ("rare event, overlooked feature", groups.overlooked_rare, 8000,
     usually("miscalibrated") | often("recommended")),
]  # fmt: skip
ONE_CLASS = always("suspicion:one_class", "leave")
ALL_RIGHT, CONSTANT = always("suspicion:every_label_right"), always("suspicion:constant")
SURE = (0.9, 0.95, 0.98, 0.99)
#: Degenerate data, ties, weights.
ODD_DATA = [
    ("all labels 0", w.one_class(0), 30, ONE_CLASS),
    ("all labels 1", w.one_class(1), 30, ONE_CLASS),
    ("all labels 0, rare forecasts", w.one_class(0, 4.0), 400, ONE_CLASS),
    ("two rows", w.fixed([0, 1], [0.3, 0.8]), 2, LEAVE, RIGHT),
    ("two rows, both wrong", w.fixed([1, 0], [0.3, 0.8]), 2, LEAVE),
    ("twenty right, two wrong", w.fixed([1] * 20 + [0] * 2, [0.9] * 21 + [0.8]), 22,
     always("leave", "none")),
    ("separated, n = 20", w.separated, 20, LEAVE, RIGHT),
    ("separated, n = 2,000", w.separated, 2000, ALL_RIGHT, RIGHT),
    ("constant, calibrated", w.stated([0.3], [0.3]), 1000, CONSTANT),
    ("constant, too_low", w.stated([0.3], [0.5]), 1000, CONSTANT | usually("too_low")),
    ("hard predictions", w.stated([0.0, 1.0], [0.2, 0.8]), 1000,
     always("suspicion:hard_predictions"), INFINITE),
    ("perfect", w.stated([0.0, 1.0], [0.0, 1.0]), 1000, ALL_RIGHT, RIGHT),
    ("ties, calibrated", w.rounded(1.0), 2000, NONE),
    ("ties, too_extreme", w.rounded(0.5), 2000, usually("too_extreme")),
    ("weights at random, calibrated", w.weights_at_random, 2000, NONE),
    ("weights that matter, too_low", w.weights_that_matter, 4000, usually("too_low")),
    ("certain misses", w.certain_misses, 2000, usually("suspicion:infinite_log_loss"), INFINITE),
    ("outliers that only the log loss sees", w.far_outliers, 2000, {}),
    ("weak signal, calibrated", bent(0.5, spread=0.25), 2000, often("none", "leave")),
    ("stated confidences, calibrated", w.stated(SURE, SURE), 2000, NONE),
    ("stated confidences, too_high", w.stated(SURE, (0.75, 0.78, 0.82, 0.85)), 2000,
     always("miscalibrated") | usually("recommended")),
    ("forest of two classes", w.forest(2), 2000, {}, INFINITE),
    ("forest of four classes", w.forest(4), 2000, {}, INFINITE),
]  # fmt: skip
OTHER_CLASS = always("suspicion:other_class", "leave")
_swapped = partial(w.misread, change=lambda p: 1 - p)
MISTAKES = [
    ("the other class", _swapped(bent(0.3, spread=2)), 1000, OTHER_CLASS),
    ("the other class, accuracy .04", _swapped(bent(0.5, spread=6)), 400, OTHER_CLASS, INFINITE),
    ("two columns swapped", _swapped(w.two_columns(bent(0.3, spread=2))), 1000, OTHER_CLASS),
    ("ten columns moved", w.misread(simplex(10), lambda p: np.roll(p, 3, axis=1)), 1000,
     always("suspicion:column_order", "leave")),
    ("percentages twice", w.misread(bent(0.4), lambda p: p / 100), 1000,
     always("suspicion:percent_scale", "leave")),
]  # fmt: skip
CHURN = w.two_names(bent(0.1, shift=-0.8), ("churn", "stay"), "churn"), 2000
CHURN += (usually("too_high") | always("event:churn"), frozenset())
HIGH = usually("too_high", "recommended")
#: What users met first.
REPRODUCTIONS = [
    ("balanced class weights, rare event", w.odds_multiplied(w.rare(1 / 18, shape=1), 13), 4000,
     HIGH | always("event:1"), frozenset({"balanced_training"})),
    ("confidence of a network as two classes", w.network_confidence, 2000,
     always("miscalibrated") | usually("recommended")),
    ("very rare event", bent(0.004, shift=-0.9, spread=1.6), 20_000,
     usually("too_high") | always("event:1")),
    ("pos_label, first in order", *CHURN),
    *((f"file with the column {column}", *CHURN, column)
      for column in ("p_churn", "churn", "proba_churn", "PROB_Churn")),
    ("frame with the column p_churn", *CHURN, "frame:p_churn"),
]  # fmt: skip
REPEATED = always("suspicion:repeated_rows", "none", "leave")
ORDER = always("suspicion:label_order", "leave")
#: Samples that are not what they should be, and what may pass for it.
SAMPLES = [
    ("rows ten times", w.repeated(bent(0.3), 10), 2000, REPEATED),
    ("rows twice, rare event", w.repeated(bent(0.05), 2), 2000, REPEATED),
    ("labels in reverse", w.reordered(bent(0.3), lambda rows, rng: rows[::-1]), 1000, ORDER),
    ("labels moved by a row", w.reordered(bent(0.3), lambda rows, rng: np.roll(rows, 1)), 1000,
     ORDER),
    ("labels shuffled", w.reordered(bent(0.3), lambda rows, rng: rng.permutation(rows)), 1000,
     usually("suspicion:unrelated_labels", "leave")),
    ("odds ten times too high", w.odds_multiplied(bent(0.05), 10), 4000,
     HIGH | often("suspicion:balanced_training")),
    ("decision values", bent(0.4, slope=2.0, spread=1.85), 1000,
     MODERATE | always("suspicion:decision_values"), frozenset(), "decision values"),
    ("three classes, one without samples", w.without_class(simplex(3), 2), 1000,
     always("suspicion:absent_class", "leave")),
]  # fmt: skip
#: Calibrated forecasts of a rare event, with no event or some: 13 seeds are 312 draws.
RARE = [
    (f"rare, rate {rate:g}, n = {n:,}", w.rare(rate), n, usually("none", "leave"),
     frozenset({"one_class"}))
    for rate, n in product((0.005, 0.01, 0.02, 0.05), (50, 100, 200, 500, 1000, 2000))
]  # fmt: skip
TABLE = (
    *_base_rates(), *SIZES, *RARE, *SEVERAL_CLASSES, *_groups(), *OTHER_GROUPS, *ODD_DATA,
    *MISTAKES, *REPRODUCTIONS, *SAMPLES,
)  # fmt: skip
SCENARIOS = {row[0]: Scenario(*row) for row in TABLE}


def built_in_directions():
    """Forty worlds of a plain direction at base rates of .5 to .02."""
    common, rare = ((0.5, 0.6, 1.6), (1.0, 0.4, 2.2)), ((0.7, 0.45, 1.8), (1.2, 0.3, 2.4))
    rows = [
        (
            f"{name} {k}, rate {rate:g}",
            bent(rate, **bends),
            2000 if rate > 0.05 else 4000,
            {name: 1},
        )
        for rate in (0.5, 0.2, 0.1, 0.05, 0.02)
        for k, sizes in enumerate(common if rate > 0.05 else rare)
        for name, bends in _directions(*sizes)
    ]
    return {row[0]: Scenario(*row) for row in rows}
