"""All sentences of a report, derived from its findings.

The headline, the sentences and the advice use the same decisions (`Findings.direction`,
`Findings.miscalibrated`, `Findings.advice`, `Findings.named_groups`), so they cannot contradict
each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skcalib._util.formatting import (
    interval,
    number,
    numbers,
    percent,
    points,
    points_between,
    pvalue,
    rate_interval,
    rates,
)
from skcalib.report.advice import advice_on_decisions, advice_on_maps
from skcalib.report.direction import DIRECTIONS
from skcalib.report.findings import (
    TEST_LEVEL,
    BrierChange,
    Findings,
    Reported,
    event_name,
    versions,
)
from skcalib.report.subgroups import (
    GROUPS_IN_VERDICT,
    sentence_on_groups,
    sentence_on_named_groups,
)

if TYPE_CHECKING:
    from skcalib.stats.means import MeanInterval

LOSS_NAMES = {"brier": "Brier score", "log": "Log loss"}
NOTION_NAMES = {
    "canonical": "all classes",
    "top_label": "top label",
    "classwise": "mean over classes",
}
#: Words of a verdict, which is read on one screen.
MOST_WORDS = 110
_CONCLUSIVE = 0.2  # typical error, in standard deviations of a label


# --- The verdict -------------------------------------------------------------------------------


def headline(findings: Findings) -> str:
    """The verdict in one line."""
    if findings.input_is_suspect:
        return next(one.headline for one in findings.suspicions if one.invalidates)
    if findings.direction is None:
        if findings.groups_differ:
            return "No evidence of miscalibration, but groups with equal scores differ."
        return "No evidence of miscalibration."
    return DIRECTIONS[findings.direction].headline(findings)


def sentences(findings: Findings) -> list[str]:
    """The verdict in full: suspicions, size, averages, advice, decisions, groups.

    It names fewer groups where it would have more than `MOST_WORDS` words.
    """
    before = [
        *(suspicion.sentence for suspicion in findings.suspicions),
        *sizes(findings),
        advice_on_maps(findings),
        *([] if findings.decision is None else [advice_on_decisions(findings.decision)]),
    ]
    after = [] if findings.by is None else [sentence_on_named_groups(findings)]
    for most in range(GROUPS_IN_VERDICT, 0, -1):
        middle = [] if findings.grouping is None else [sentence_on_groups(findings, most)]
        said = [*before, *middle, *after]
        if len(" ".join([headline(findings), *said]).split()) <= MOST_WORDS:
            break
    return said


def sizes(findings: Findings) -> list[str]:
    """How large the error is, and the averages: a page shows them as tiles."""
    size = f"{typical_error(findings)}." if findings.miscalibrated else missed(findings)
    return [*([] if findings.input_is_suspect else [size]), _averages(findings)]


def short_verdict(findings: Findings) -> str:
    """The direction in a few words, for a table."""
    if findings.input_is_suspect:
        return "check the input"
    if findings.direction is None:
        return "none detected"
    return DIRECTIONS[findings.direction].words


def missed(findings: Findings) -> str:
    """The upper limit of errors that were not detected."""
    of = "" if findings.n_classes == 2 else " of the confidence"
    most = f"of up to {points(findings.typical_error['high'])}"
    return f"With {findings.n_samples:,} samples, errors{of} {most} could be missed ({_RMS})."


_RMS = "percentage points, root mean square"


def typical_error(findings: Findings) -> str:
    """The root mean square error in points, with its interval."""
    what = "Typical error" if findings.n_classes == 2 else "Typical error of the confidence"
    found, note = typical_parts(findings)
    return f"{what}: {found} ({note})"


def typical_parts(findings: Findings) -> tuple[str, str]:
    """The typical error in points, and what it is with its interval."""
    found, level = findings.typical_error, percent(findings.confidence_level)
    if findings.confidence.lower_bound:
        least = max(found["low"], found["estimate"])
        return f"at least {points(least)}", f"{_RMS}; more than the averaged maps can express"
    if found["low"] == 0:
        return f"up to {points(found['high'])}", f"{_RMS}; {level} upper limit"
    ends = points_between(found["low"], found["high"])
    return points(found["estimate"]), f"{_RMS}; {level} CI {ends}"


def _averages(findings):
    """Mean prediction against observed rate."""
    predicted, observed = rates(findings.mean_predicted, findings.observed_rate.estimate)
    if findings.n_classes > 2:
        return f"Mean confidence {predicted}; accuracy {observed}."
    event = event_name(findings)
    ratio = _ratio(findings)
    return f"Mean predicted probability of {event} {predicted}; observed {observed}{ratio}."


def _ratio(findings):
    ratio = findings.observed_expected_ratio
    return "" if ratio is None else f" ({observed_expected(ratio)})"


def observed_expected(ratio: MeanInterval) -> str:
    """O/E with its interval."""
    values = (ratio.estimate, ratio.low, ratio.high)
    decimals = 2 if max(values) < 10 else 1
    decimals = 3 if 0 < ratio.estimate < 0.1 else decimals
    estimate, low, high = (f"{value:.{decimals}f}" for value in values)
    return f"O/E {estimate} [{low}, {high}]"


def is_conclusive(findings: Findings) -> bool:
    """Whether no large error could be missed, compared with the spread of the labels."""
    rate = findings.observed_rate.estimate
    return findings.typical_error["high"] < _CONCLUSIVE * np.sqrt(rate * (1 - rate))


# --- Details -----------------------------------------------------------------------------------

SECTIONS = {
    "ranges": "By range of scores",
    "classes": "By class",
    "groups": "By group",
    "named": "Groups that you named",
    "maps": "Recalibration maps",
    "loss": "Where the loss comes from",
    "tests": "Tests",
    "others": "Other numbers",
    "method": "Method",
}
RANGES_NOTE = "The ranges are about equally informative: equal sums of p (1 - p)."
GROUPS_CAPTION = (
    "Rates of each group against the rate of all samples with equal scores. {:,} groups "
    "were tested at the false discovery rate {:.2g} (Benjamini and Hochberg), which the "
    "intervals allow for."
)
NAMED_CAPTION = (
    "Mean prediction and observed frequency of each group, their difference in percentage points, "
    "and the difference from all samples with equal scores. {:,} groups were compared; "
    "intervals hold for all at once (*: found at the false discovery rate {:.2g})."
)
FIGURE_OF_NAMED = (
    "Observed frequency minus mean prediction of each group: left of zero, predictions are too "
    "high. Filled markers: found at the false discovery rate."
)
FIGURE_OF_GROUPS = (
    "Two regions in each of five ranges of scores, at equal scores. Colour and marker show regions "
    "that differ significantly; area shows the number of samples."
)
PARTS = (
    ("calibration", "calibration error: recalibration can remove it"),
    ("grouping", "grouping loss, at least: better use of the features can remove it"),
    ("rest", "rest: irreducible, or due to missing features or an imperfect model"),
)


def ranges_caption(findings: Findings, level: float) -> str:
    """Caption of the table of ranges."""
    if findings.n_classes == 2:
        what = f"Predicted and observed probability of {event_name(findings)} by range of scores"
    else:
        what = "Mean confidence and accuracy by range of confidence"
    return f"{what}. Simultaneous {percent(level)} intervals (*: significant)."


def classes_caption(level: float) -> str:
    """Caption of the table of classes."""
    return (
        "Mean predicted probability and observed frequency of each class. "
        f"Simultaneous {percent(level)} intervals (*: significant)."
    )


def confusions_caption(level: float) -> str:
    """Caption of the table of pairs of classes."""
    return (
        "Pairs of classes: where the first is predicted with at least this probability, mean "
        "probability and observed frequency of the second. Simultaneous "
        f"{percent(level)} intervals."
    )


def lower_bound(findings: Findings) -> str:
    """Why the error may exceed its upper limit, or empty."""
    reason = findings.error("brier", "canonical").lower_bound
    return f"Calibration error of all classes: {reason}." if reason else ""


def kernel_test(findings: Findings) -> str:
    """Where the kernel test disagrees with the other tests, or with the interval of the error."""
    test = findings.test
    if test is None:
        return "The kernel test needs more samples, or forecasts that differ."
    said = []
    if findings.kernel_test_rejects != findings.miscalibrated:
        other = "the other tests do" if findings.miscalibrated else "the other tests do not"
        verb = "rejects" if findings.kernel_test_rejects else "does not reject"
        said.append(f"The kernel test {verb} calibration ({pvalue(test.pvalue)}); {other}.")
    found = findings.error("brier", "canonical").calibration
    if findings.kernel_test_rejects and found.low == 0:
        said.append(
            "The kernel test assumes no form of miscalibration and rejects, but the interval of "
            "the calibration error reaches zero: the averaged maps may not represent this "
            "miscalibration, and the error may exceed the upper limit."
        )
    return " ".join(said)


_EVIDENCE = {
    "shift": "a shift",
    "slope": "a slope",
    "class_slopes": "different slopes of the classes",
    "curve": "a curve",
    "confusion": "shifts that depend on the predicted class",
}


def evidence(findings: Findings) -> str:
    """Weights of the kinds of maps in the average, if miscalibration was found."""
    found = findings.error("brier", "canonical").evidence
    if not findings.miscalibrated or not found:
        return ""
    two = {"class_slopes": "other slopes of high than of low forecasts", "confusion": ""}
    names = _EVIDENCE | (two if findings.n_classes == 2 else {})
    said = [f"with {names[k]} {100 * share:.0f} %" for k, share in found.items() if names[k]]
    return f"Weights of the averaged recalibration maps: {', '.join(said)}."


def caption_of_tests() -> str:
    """Caption of the table of tests."""
    return (
        "Tests behind the verdict: an interval above zero, or a p-value below "
        f"{TEST_LEVEL:g}, is significant (*)."
    )


def refused_map(one: BrierChange) -> str:
    """Why a map is not recommended."""
    before, after = numbers(one.before, one.after)
    return f"Not recommended: it raises the held-out Brier score from {before} to {after}."


def subtitle(findings: Findings, level: float, *, of_one_model: bool = True) -> str:
    """Samples, events or classes, and how well the model discriminates."""
    weighted = findings.effective_size < findings.n_samples * (1 - 1e-9)
    effective = f" (effective size {findings.effective_size:,.0f})" if weighted else ""
    if findings.n_classes == 2:
        classes = f"{findings.n_events:,} of them {event_name(findings)} (the event)"
    else:
        classes = f"{findings.n_classes} classes"
    quality = f", {_discrimination(findings)}" if of_one_model else ""
    return (
        f"{findings.n_samples:,} samples{_clusters(findings)}{effective}, {classes}{quality}. "
        f"Brackets: {percent(level)} intervals."
    )


def _clusters(findings):
    return "" if findings.n_clusters is None else f" in {findings.n_clusters:,} clusters"


def _discrimination(findings):
    """AUC for two classes, if available, else the accuracy."""
    auc = next((one.value for one in findings.reported if one.key == "auc"), None)
    if auc is not None:
        return f"AUC {interval(auc)}"
    found = findings.accuracy
    ends = rate_interval(found.low, found.high, found.estimate)
    return f"accuracy {rates(found.estimate)[0]} {ends}"


def method(report: Reported, *, of_several: bool = False) -> tuple[str, ...]:
    """How the numbers of a report were computed: samples, estimators, units, seed, versions."""
    findings = report.findings
    level = percent(report.confidence_level)
    target = findings.error("brier", "canonical").target
    maps = target.partition(" as far as ")[2].partition(" represent ")[0]  # without the symbols
    said = [
        _samples(findings),
        "Calibration error: the default of proper_calibration_error, an average of recalibration "
        f"maps weighted by their evidence. The {level} intervals are of errors that these maps can "
        f"express: {maps}. Typical error: the root of the Brier "
        "calibration error, in percentage points. The error that could be missed is the upper "
        "limit of its interval, the gain that could be missed that of the calibration error of "
        "the log loss.",
        "Direction: gains of the log loss by a shift, a slope and the average of all maps, without "
        "the optimism of their fits" + ("." if of_several else f"; {_gains(findings)}."),
        "Recalibration maps: held-out losses on five folds. A map is recommended if the interval "
        "of its gain of the log loss excludes zero and it does not raise the Brier score. The "
        "gain is slightly optimistic, as the choice uses the same samples." + _left_out(findings),
    ]
    if findings.n_clusters is not None:
        said.append(
            "Clusters: samples of a cluster may depend on each other. Intervals and tests use sums "
            "over clusters, and folds hold whole clusters."
        )
    if report.sketched_notion is not None:
        said.append(
            "Sketch: the scores of a cell were replaced by their mean. Folds divide the samples of "
            "each cell at random; the kernel test uses samples drawn from the cells."
        )
    if findings.grouping is not None and findings.grouping.grouping_loss is not None:
        said.append(
            "Groups: each is compared with the calibrated frequency at its scores; false discovery "
            f"rate below {1 - findings.confidence_level:.2g} over all groups tested "
            f"({findings.grouping.n_tried:,}). The difference of a group of 10 % that would be "
            "found: with probability 80 %, by the standard error of a tenth of the samples and the "
            "correction for the number of groups. Grouping loss: a lower bound by a model on "
            "held-out folds; detected if above zero with p < 0.05. Where groups differ, the gain "
            "of a correction by the features is measured on held-out folds."
        )
    said += list(findings.omitted)
    said += [f"Note: {note}" for note in findings.notes]
    said += [
        "Brier score: summed over classes, halved for two. Log loss: in nats.",
        f"random_state = {report.random_state}; "
        + ", ".join(f"{name} {version}" for name, version in versions().items())
        + ".",
    ]
    return tuple(said)


def _gains(findings):
    gains = findings.gains
    shift, slope, whole = (number(max(v, 0.0)) for v in (gains.shift, gains.slope, gains.whole))
    return f"shift {shift}, slope {slope}, whole {whole} nats"


def _samples(findings):
    said = f"Samples: {findings.n_samples:,}{_clusters(findings)}"
    if findings.test is None:
        return f"{said}."
    if findings.n_tested == findings.n_samples:
        return f"{said}, all in the kernel test."
    return f"{said}; a random {findings.n_tested:,} of them in the kernel test."


def _left_out(findings):
    names = ", ".join(findings.advice.left_out)
    return f" Omitted, as they take too long for so many probabilities: {names}." if names else ""
