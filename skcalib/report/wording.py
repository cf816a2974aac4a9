"""The verdict of a report and that of a comparison: a headline, and sentences.

Headline, sentences and advice use the same decisions (`Findings.direction`,
`Findings.miscalibrated`, `Findings.advice`, `Findings.named_groups`), so they cannot contradict
each other. Sentences on signs of an invalid input and on directions stand in `diagnosis`, those on
maps and decisions in `advice`, each with its condition. Those on groups are here.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from skcalib._util.formatting import (
    interval,
    is_not_positive,
    level_text,
    nonnegative,
    number,
    numbers,
    points,
    points_between,
    pvalue,
    rates,
)
from skcalib.grouping.by_group import MARGINS
from skcalib.report.advice import advice_on_decisions, advice_on_maps, ties_of
from skcalib.report.diagnosis import DIRECTIONS, headline_of_direction
from skcalib.report.findings import (
    HIGHER_IS_BETTER,
    ROUNDING,
    Compared,
    Findings,
    GroupingFinding,
    event_name,
    shorten,
)
from skcalib.stats.means import MeanInterval

#: Most groups that a sentence of the verdict names: found by the report, and named by the user.
GROUPS_IN_VERDICT, _GROUPS_LISTED = 2, 3
#: Words of a verdict, which is read on one screen.
MOST_WORDS = 110
_CONCLUSIVE = 0.2  # typical error, in standard deviations of a label
_UNIT = "percentage points, root mean square"


def headline(findings: Findings) -> str:
    """The verdict in one line."""
    if findings.input_is_suspect:
        return next(s.headline for s in findings.suspicions if s.invalidates)
    if findings.direction is not None:
        return headline_of_direction(findings)
    but = ", but groups with equal scores differ" if findings.groups_differ else ""
    return f"No evidence of miscalibration{but}."


def sentences(findings: Findings) -> list[str]:
    """The verdict in full: suspicions, size, averages, advice, decisions, groups.

    It names fewer groups where it would have more than `MOST_WORDS` words.
    """
    before = [suspicion.sentence for suspicion in findings.suspicions]
    before += [*sizes(findings), advice_on_maps(findings)]
    if findings.decision is not None:
        before.append(advice_on_decisions(findings.decision))
    after = [] if findings.by is None else [sentence_on_named_groups(findings)]
    for most in range(GROUPS_IN_VERDICT, 0, -1):
        middle = [] if findings.grouping is None else [sentence_on_groups(findings, most)]
        verdict = [*before, *middle, *after]
        if len(" ".join([headline(findings), *verdict]).split()) <= MOST_WORDS:
            break
    return verdict


def short_verdict(findings: Findings) -> str:
    """The direction in a few words, for a table."""
    if findings.input_is_suspect:
        return "check the input"
    if findings.direction is None:
        return "none detected"
    return DIRECTIONS[findings.direction]


def sizes(findings: Findings) -> list[str]:
    """How large the error is, and the averages: a page shows them as tiles."""
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    averages = f"Mean confidence {predicted}; accuracy {observed}."
    if findings.n_classes == 2:
        ratio = findings.observed_expected_ratio
        shown = "" if ratio is None else f" ({observed_expected(ratio)})"
        event = event_name(findings)
        averages = f"Mean predicted probability of {event} {predicted}; observed {observed}{shown}."
    if findings.input_is_suspect:
        return [averages]
    if findings.miscalibrated:
        error, note = typical_error(findings)
        return [f"Typical error{findings.of_confidence}: {error} ({note}).", averages]
    missed = (
        f"With {findings.n_samples:,} samples, errors{findings.of_confidence} of up to "
        f"{points(findings.typical_error['high'])} could be missed ({_UNIT})."
    )
    return [missed, averages]


def typical_error(findings: Findings) -> tuple[str, str]:
    """The root mean square error in points, and what it is with its interval."""
    error, level = findings.typical_error, level_text(findings.confidence_level)
    if findings.confidence.lower_bound:
        least = max(error["low"], error["estimate"])
        return f"at least {points(least)}", f"{_UNIT}; more than the averaged maps can express"
    if error["low"] == 0:
        return f"up to {points(error['high'])}", f"{_UNIT}; {level} upper limit"
    ends = points_between(error["low"], error["high"])
    return points(error["estimate"]), f"{_UNIT}; {level} CI {ends}"


def observed_expected(ratio: MeanInterval) -> str:
    """O/E with its interval."""
    values = (ratio.estimate, ratio.low, ratio.high)
    decimals = 2 if max(values) < 10 else 1
    decimals = 3 if 0 < ratio.estimate < 0.1 else decimals
    estimate, low, high = (f"{value:.{decimals}f}" for value in values)
    return f"O/E {estimate} [{low}, {high}]"


def tone(findings: Findings) -> str:
    """The colour of the verdict: no evidence from few samples is not shown as good.

    Evidence is conclusive if no large error could be missed, compared with the spread of labels.
    """
    if findings.miscalibrated or findings.groups_differ or findings.suspicions:
        return "bad"
    rate = findings.observed_rate.estimate
    conclusive = findings.typical_error["high"] < _CONCLUSIVE * np.sqrt(rate * (1 - rate))
    return "good" if conclusive else "weak"


# --- Sentences on groups --------------------------------------------------------------------------


def sentence_on_groups(findings: Findings, most: int = GROUPS_IN_VERDICT) -> str:
    """The sentence of the verdict on groups with equal scores, with at most so many names."""
    grouping, named = findings.grouping, findings.named_groups
    if not grouping.n_tried:
        note = grouping.note or "each has too few samples or too few labels of one kind."
        return f"Groups were not compared: {note.removeprefix('Groups were not compared: ')}"
    if named:
        differences = []
        for group in named:
            observed, expected = rates(group.observed, group.expected)
            differences.append(
                f"where {shorten(group.rule)}, {findings.observed_name} {observed}, "
                f"{expected} expected"
            )
        listed = _first(differences, most, "; ")
        return f"Groups with equal scores differ: {listed}. {_remedy(findings)}"
    if grouping.detected:
        return (
            f"Samples with equal scores differ (grouping loss at least "
            f"{number(grouping.grouping_loss.low)}), but no simple group explains it. "
            f"{_remedy(findings)}"
        )
    missed, least = "these samples are too few to find one of 10 %", findings.missed_difference
    if least is not None:
        missed = f"a group of 10 % would have to differ by about {points(least)} to be found"
    # Another sentence is about the groups that the user named.
    which = "No other group" if findings.named_by_user_differ else "No group"
    return f"{which} was found that differs from others with equal scores; {missed}."


def _remedy(findings):
    """What the features would save beyond recalibration, where that is significant."""
    if not findings.grouping.corrects:
        return "Recalibration cannot remove this; a better model may."
    (before,) = numbers(findings.confidence.terms.loss)
    return (
        "Recalibration cannot remove this; a better model can save "
        f"{interval(findings.grouping.correction)} of the Brier score{findings.of_confidence} "
        f"{before}."
    )


def bounds_by_features(grouping: GroupingFinding) -> list[str]:
    """The lower bound of the grouping loss and the gain by the features, for the details."""
    if grouping.grouping_loss is None:
        return []
    bound = "grouping loss not detected"
    if not is_not_positive(grouping.grouping_loss):
        bound = f"grouping loss at least {nonnegative(grouping.grouping_loss)}"
    bounds = [
        f"A model of score and features, against the score alone, on {grouping.n_measured:,} "
        f"samples: {bound}, {pvalue(grouping.pvalue)}."
    ]
    if grouping.correction is not None:
        gain = "no significant gain on held-out samples"
        if grouping.corrects:
            gain = f"saves {interval(grouping.correction)} of the held-out Brier score"
        bounds.append(
            f"Correction by the features (GroupRecalibrator): {gain} beyond recalibration by the "
            "score alone."
        )
    return bounds


def sentence_on_named_groups(findings: Findings) -> str:
    """Which groups that the user names differ from their predictions, and which at equal scores."""
    groups = sorted(findings.by.groups, key=attrgetter("pvalue"))
    n_groups = len(groups)
    off = [group for group in groups if group.detected]
    beyond = [group for group in groups if group.equal_scores_detected]
    if not off and not beyond:
        margins = f" {MARGINS}" if MARGINS in findings.by.note else ""
        largest = max(max(-group.difference.low, group.difference.high) for group in groups)
        return (
            f"No difference was found in the {n_groups} groups that you named; differences of "
            f"{points(largest)} are not excluded.{margins}"
        )
    averages = ""
    if off:
        verb = "differs from its" if len(off) == 1 else "differ from their"
        who = f"Of the {n_groups} groups that you named, {len(off)}"
        if len(off) == n_groups > 1:
            who = f"{'Both' if n_groups == 2 else f'All {n_groups}'} groups that you named"
        mean, means = "predicted" if findings.n_classes == 2 else "mean confidence", []
        for group in off:
            observed, predicted = rates(group.observed, group.mean_predicted)
            means.append(f"{group.name}, {findings.observed_name} {observed}, {mean} {predicted}")
        listed = _first(means, _GROUPS_LISTED, "; ")
        averages = f"{who} {verb} mean prediction: {listed}. "
    if not beyond:
        return f"{averages}None was found to differ from all samples with equal scores."
    differ = "At equal scores the two groups differ from each other"
    if n_groups != 2:  # the difference of one of two is that of the other
        names = _first([group.name for group in beyond], _GROUPS_LISTED, ", ")
        verb = "differs" if len(beyond) == 1 else "differ"
        differ = f"Compared with all samples with equal scores, {len(beyond)} {verb} ({names})"
    return f"{averages}{differ}: recalibration of the score alone cannot remove this."


def _first(texts, most, between):
    """The first texts of a list, and how many more the details have."""
    shown = texts[:most]
    if len(texts) > most:
        shown.append(f"{len(texts) - most} more in the details")
    return between.join(shown)


# --- The verdict of a comparison ------------------------------------------------------------------


QUANTITIES = {
    "log": "Log loss",
    "brier": "Brier score",
    "calibration": "Brier calibration error",
    "refinement": "Brier score after recalibration",
    "errors": "Error rate",
    "kernel": "Squared kernel calibration error",
}
#: The same for decisions at a threshold, or with costs.
OF_DECISIONS = {
    "net_benefit": "Net benefit",
    "cost": "Mean cost of a decision",
    "regret": "Mean cost that recalibration would save",
}


def headline_of_comparison(comparison: Compared) -> str:
    """Which models are best, in one line."""
    predicts, tied, higher = _standing(comparison, "brier")
    calibrated, _, worse = _standing(comparison, "calibration")
    if not higher and not worse:
        return "No significant difference between the models."
    n_models = len(comparison.reports)
    alone, best_calibrated = len(higher) == n_models - 1, len(worse) == n_models - 1
    best, lowest = ("best", "lowest") if n_models > 2 else ("better", "lower")
    if alone and best_calibrated and predicts == calibrated:
        return f"{predicts} is {best} calibrated and has the {lowest} Brier score."
    parts = []
    if best_calibrated:
        parts.append(f"{calibrated} is {best} calibrated")
    elif worse:
        parts.append(f"{_joined(worse)} {'is' if len(worse) == 1 else 'are'} worse calibrated")
    if alone:
        parts.append(f"{predicts} has the {lowest} Brier score")
    elif higher:
        parts.append(f"{_joined([predicts, *tied])} have the {lowest} Brier scores")
    if not worse:
        parts.append("calibration does not differ significantly")
    if not higher:
        parts.append("the Brier scores do not differ significantly")
    return f"{'; '.join(parts)}."


def sentences_of_comparison(comparison: Compared) -> list[str]:
    """Sentences on each loss, the calibration error, miscalibrated models and decision values."""
    measured = {difference.quantity for difference in comparison.differences}
    quantities = ["log", "brier", "calibration"]
    quantities += [quantity for quantity in OF_DECISIONS if quantity in measured][:1]
    verdict = [_sentence_on(comparison, quantity) for quantity in quantities]
    findings_of = {name: report.findings for name, report in comparison.reports.items()}
    decisions = {name: findings.decision for name, findings in findings_of.items()}
    ties = {name: decision for name, decision in decisions.items() if decision and decision.tied}
    if ties:
        shares = [f"{100 * decision.tied:.2g} % of {name}" for name, decision in ties.items()]
        verdict.append(f"{ties_of(next(iter(ties.values())))}: {', '.join(shares)}.")
    off = [
        f"{name} ({short_verdict(findings)})"
        for name, findings in findings_of.items()
        if findings.miscalibrated
    ]
    verdict.append(f"Miscalibrated: {', '.join(off)}." if off else "No evidence of miscalibration.")
    values = [
        name
        for name, findings in findings_of.items()
        if any(suspicion.kind == "decision_values" for suspicion in findings.suspicions)
    ]
    if values:
        verdict.append(
            f"The scores of {_joined(values)} are decision values, divided by their spread unless "
            "they are log odds, and passed through the logistic function: losses and calibration "
            "depend on this scale, so compare the losses after recalibration."
        )
    return list(filter(None, verdict))


def _sentence_on(comparison, quantity):
    """Which model is lowest, or highest where more is better, and by how much."""
    best, level, worse = _standing(comparison, quantity)
    name, side = QUANTITIES.get(quantity), "below"
    if name is None:
        name = OF_DECISIONS[quantity]
        side = "above" if quantity in HIGHER_IS_BETTER else "below"
        decision = next(iter(comparison.reports.values())).findings.decision
        if decision is not None and decision.threshold is not None:
            name += f" at the threshold {decision.threshold:g}"
    parts = []
    if worse:
        against = _differences_of(comparison, quantity, best)
        amounts = [
            f"{model} by {interval(_turned(against[model]))}"
            if np.isfinite(against[model].estimate)
            else f"{model} by an infinite amount"
            for model in worse
        ]
        parts.append(f"{best} is {side} {', '.join(amounts)}")
    if level:
        subject = "it" if worse else best
        parts.append(f"{subject} does not differ significantly from {', '.join(level)}")
    return f"{name}: {'; '.join(parts)}." if parts else ""


def _standing(comparison, quantity):
    """The best model, those that do not differ from it significantly, and those that are worse.

    It is the one with no better estimate beside it; with rounding errors there may be none.
    """
    against = {name: _differences_of(comparison, quantity, name) for name in comparison.reports}
    leaders = (
        name
        for name, differences in against.items()
        if all(difference.estimate <= 0 for difference in differences.values())
    )
    best = next(leaders, next(iter(against)))
    worse = [name for name, difference in against[best].items() if _is_below(difference)]
    return best, [name for name in against[best] if name not in worse], worse


def ranks(comparison: Compared, quantity: str) -> dict[str, tuple[int, int, int]]:
    """{model: (rank, lowest, highest)}; the last two follow from the simultaneous intervals."""
    ranks_of = {}
    for name in comparison.reports:
        differences = _differences_of(comparison, quantity, name).values()
        better = sum(_is_below(_turned(difference)) for difference in differences)
        worse = sum(map(_is_below, differences))
        rank = 1 + sum(difference.estimate > ROUNDING for difference in differences)
        ranks_of[name] = rank, 1 + better, len(comparison.reports) - worse
    return ranks_of


def _differences_of(comparison, quantity, model):
    """Differences of a model minus each of the others; the others minus it where more is better."""
    differences = {}
    for pair in comparison.differences:
        if pair.quantity == quantity and model in (pair.first, pair.second):
            is_first = pair.first == model
            as_it_is = is_first == (quantity not in HIGHER_IS_BETTER)
            difference = pair.difference if as_it_is else _turned(pair.difference)
            differences[pair.second if is_first else pair.first] = difference
    return differences


def _turned(difference):
    """The same difference with opposite sign."""
    return MeanInterval(
        -difference.estimate, -difference.high, -difference.low, difference.standard_error
    )


def _is_below(difference):
    """Whether the first model is significantly below the second, by more than rounding."""
    return difference.high < 0 and difference.estimate < -ROUNDING


def _joined(names):
    """A list of names as part of a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
