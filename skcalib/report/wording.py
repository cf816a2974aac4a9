"""From findings to words: the verdict."""

import numpy as np

from skcalib.report._numbers import points, points_between, pvalue
from skcalib.report.advice import advice
from skcalib.report.whom import grouping

LOSS_NAMES = {"brier": "Brier score", "log": "Log loss"}
NOTION_NAMES = {
    "canonical": "all classes at once",
    "top_label": "top label",
    "classwise": "class by class (mean)",
}
#: Where only an error of this size would have been found, there are too few samples.
_WEAK = 0.2


def notion_name(notion, n_classes):
    """What is compared with the labels; with two classes it is one probability."""
    return "the forecast" if n_classes == 2 else NOTION_NAMES[notion]


def headline(findings):
    """The verdict in one line."""
    if findings.miscalibrated:
        groups = ", and wrong for some groups" if wrong_for_some(findings) else ""
        return f"Miscalibrated{_direction(findings)}{groups}."
    if wrong_for_some(findings):
        return "Calibrated on average, and wrong for some groups."
    if findings.reach > _WEAK:
        return "No miscalibration found, with few samples."
    return "No miscalibration found."


def wrong_for_some(findings):
    """True where groups were found that the same score treats differently."""
    return findings.grouping is not None and findings.grouping.detected


def finding(findings):
    """The verdict in two or three words, for a table."""
    if findings.miscalibrated:
        return _direction(findings).removeprefix(": ") or "miscalibrated"
    return "wrong for some groups" if wrong_for_some(findings) else "none found"


def _direction(findings):
    gap = findings.confidence_gap
    if gap.low > 0:
        return ": over-confident"
    return ": under-confident" if gap.high < 0 else ""


def sentences(findings):
    """The verdict in full: is it real, how large, which way, and is it worth mending."""
    told = [_size(findings), _gap(findings), advice(findings), _information(findings)]
    if findings.grouping is not None:
        told += grouping(findings.grouping)[:2]
    return told + [f"Note: {note}" for note in findings.notes]


def _size(findings):
    what = "The predicted probability" if findings.n_classes == 2 else "The stated confidence"
    if not findings.miscalibrated:
        seen = "would very probably have shown" if findings.reach <= _WEAK else "may go unseen"
        return (
            f"{what} cannot be told from a calibrated one with these {findings.n_samples:,} "
            f"samples. A slope or shift that puts it off by {points(min(findings.reach, 1))} (root "
            f"mean square) {seen}."
        )
    seen = [look.calibration for look in (findings.confidence, findings.flexible) if look.detected]
    if not seen and not findings.error("brier", "canonical").detected:
        return (
            f"No curve of {what.lower().removeprefix('the ')} that was fitted here is off beyond "
            "its interval, but the kernel test of the whole forecast finds that it is "
            f"({pvalue(findings.test.pvalue)})."
        )
    if not seen:
        return (
            f"{what} passes on its own, but the probabilities of all classes taken together do not."
        )
    largest = max(seen, key=lambda found: found.estimate)
    low, middle, high = np.sqrt([largest.low, largest.estimate, largest.high])
    return (
        f"{what} is off by about {points(middle)} (root mean square; interval "
        f"{points_between(low, high)})."
    )


def kernel_test(findings):
    """The kernel test in words."""
    test = findings.test
    if test is None:
        return "The kernel test needs more samples, or forecasts that differ."
    what = "the forecast" if findings.n_classes == 2 else "all classes at once"
    said = f"Kernel test of {what}: {pvalue(test.pvalue)}."
    share = f"{100 * test.pvalue:.2g} %" if test.pvalue >= 0.001 else "less than 0.1 %"
    if test.rejects():
        return f"{said} Calibrated forecasts would look as wrong as these in {share} of cases."
    if findings.miscalibrated:
        return f"{said} It has little power here: what the intervals see, it does not."
    return f"{said} Calibrated forecasts look at least as wrong as these in {share} of cases."


def _gap(findings):
    gap, accuracy = findings.confidence_gap, findings.accuracy.estimate
    average = f"mean confidence {accuracy + gap.estimate:.3f}, accuracy {accuracy:.3f}"
    if gap.low <= 0 <= gap.high:
        return f"On average it promises neither too much nor too little ({average})."
    much = "too much" if gap.low > 0 else "too little"
    ends = points_between(gap.low, gap.high)
    size = f"{points(gap.estimate)} on average (interval {ends}; {average})"
    if findings.miscalibrated:
        return f"It promises {much}, by {size}."
    return f"It promises {much}, by {size}; among several looks that may still be chance."


def _information(findings):
    terms = findings.error("brier", "canonical").terms
    if terms.uncertainty == 0:
        return "All labels are of one class, so there was nothing to explain."
    share = 100 * terms.sharpness / terms.uncertainty
    return (
        f"Recalibrated, the forecasts explain {max(share, 0.0):.0f} % of the uncertainty of the "
        "labels (Brier score)."
    )
