"""From findings to words: the verdict, and numbers as people read them."""

import numpy as np

LOSS_NAMES = {"brier": "Brier score", "log": "Log loss"}
NOTION_NAMES = {
    "canonical": "all classes at once",
    "top_label": "top label",
    "classwise": "class by class (mean)",
}
RECALIBRATOR_NAMES = {
    "TemperatureScaling": "temperature scaling (TemperatureScaling)",
    "PlattScaling": "Platt scaling of the logit (PlattScaling)",
    "BetaCalibration": "beta calibration (BetaCalibration)",
    "BiasCorrectedTemperatureScaling": (
        "temperature scaling with class biases (BiasCorrectedTemperatureScaling)"
    ),
    "VectorScaling": "vector scaling (VectorScaling)",
    "IsotonicRecalibrator": "strictly increasing isotonic regression (IsotonicRecalibrator)",
}


def number(value, spread=None):
    """A number with as many decimals as its standard error deserves: two of its digits."""
    if not np.isfinite(value):
        return "infinite" if value > 0 else "-infinite"
    scale = abs(value) / 30 if spread is None or not 0 < spread < np.inf else spread
    if scale == 0:
        return "0.000"
    decimals = int(np.clip(1 - np.floor(np.log10(scale)), 2, 7))
    return f"{value:.{decimals}f}"


def interval(estimate):
    """A `MeanInterval` as "estimate [low, high]"."""
    if not np.isfinite(estimate.estimate):
        return number(estimate.estimate)
    parts = (number(v, estimate.standard_error) for v in (estimate.low, estimate.high))
    return f"{number(estimate.estimate, estimate.standard_error)} [{', '.join(parts)}]"


def points(value):
    """A probability difference in percentage points."""
    size = 100 * abs(value)
    return f"{size:.1f} points" if size < 10 else f"{size:.0f} points"


def headline(findings):
    """The verdict in one line."""
    if not is_miscalibrated(findings):
        if findings.grouping is not None and findings.grouping.detected:
            return "Calibrated on average, and wrong for some groups."
        return "No miscalibration found."
    return f"Miscalibrated{_direction(findings)}."


def is_miscalibrated(findings):
    """True where a calibration error is above zero beyond its interval."""
    canonical = findings.error("brier", "canonical")
    looks = (canonical, findings.confidence, findings.flexible)
    return any(look.detected for look in looks) or _test_finds(findings)


def _test_finds(findings):
    """The kernel test counts for the verdict at the 1 % level: three other looks were taken."""
    return findings.test is not None and findings.test.rejects(0.01)


def _direction(findings):
    gap = findings.confidence_gap
    if gap.low > 0:
        return ": over-confident"
    return ": under-confident" if gap.high < 0 else ""


def sentences(findings):
    """The verdict in full: is it real, how large, which way, and is it worth mending."""
    told = [_size(findings), *_test(findings), _gap(findings), _gain(findings)]
    told.append(_information(findings))
    return told + ([] if findings.grouping is None else _grouping(findings.grouping))


def _size(findings):
    what = "The predicted probability" if findings.n_classes == 2 else "The stated confidence"
    looks = (findings.confidence, findings.flexible)
    if not is_miscalibrated(findings):
        # Off by r, a mean of paired differences is r^2 with a standard error of 2 r sqrt(loss / n):
        # it lies 1.96 + 1.64 of them above zero, and is found with 95 %, from this r on.
        reach = 2 * (1.96 + 1.64) * np.sqrt(findings.confidence.terms.loss / findings.n_samples)
        return (
            f"{what} cannot be told from a calibrated one with these {findings.n_samples:,} "
            f"samples. A slope or shift that puts it off by {points(reach)} (root mean square) "
            "would very probably have shown."
        )
    seen = [look.calibration for look in looks if look.detected]
    if not seen and not findings.error("brier", "canonical").detected:
        return (
            f"No curve of {what.lower().removeprefix('the ')} that was fitted here is off beyond "
            "its interval, but the test of the whole forecast finds that it is."
        )
    if not seen:
        return (
            f"{what} passes on its own, but the probabilities of all classes taken together do not."
        )
    largest = max(seen, key=lambda found: found.estimate)
    low, middle, high = np.sqrt([largest.low, largest.estimate, largest.high])
    return (
        f"{what} is off by about {points(middle)} (root mean square; interval "
        f"{points(low)} to {points(high)})."
    )


def _test(findings):
    """The kernel test in words."""
    test = findings.test
    if test is None:
        return []
    what = "the forecast" if findings.n_classes == 2 else "all classes at once"
    said = f"Kernel test of {what}: {pvalue(test.pvalue)}."
    if test.rejects():
        return [f"{said} Calibrated forecasts would look as wrong as these that rarely."]
    return [f"{said} Calibrated forecasts often look as wrong as these."]


def _gap(findings):
    gap, accuracy = findings.confidence_gap, findings.accuracy.estimate
    stated = accuracy + gap.estimate
    average = f"mean confidence {stated:.3f}, accuracy {accuracy:.3f}"
    if gap.low > 0:
        return f"It promises too much, by {points(gap.estimate)} on average ({average})."
    if gap.high < 0:
        return f"It promises too little, by {points(gap.estimate)} on average ({average})."
    return f"On average it promises neither too much nor too little ({average})."


def _gain(findings):
    """Which map helps, by how much, measured on samples that it has not seen."""
    advice = findings.advice
    before, after = advice.losses[0], advice.losses[advice.names.index(advice.chosen)]
    if advice.chosen == advice.names[0]:
        return (
            f"Leave it: no recalibration map lowers the log loss ({number(before)}) on samples "
            "that it has not seen beyond one standard error."
        )
    name = RECALIBRATOR_NAMES.get(advice.chosen, advice.chosen)
    if not np.isfinite(before):
        return (
            "The log loss is infinite: a label was given probability 0. Recalibrate by "
            f"{name}: on samples that it has not seen the log loss is then {number(after)}."
        )
    error = advice.gain.standard_error
    return (
        f"Recalibrate by {name}: on samples that it has not seen it lowers the log loss from "
        f"{number(before, error)} to {number(after, error)}, by {interval(advice.gain)} "
        f"({100 * advice.gain.estimate / before:.1f} %)."
    )


def _information(findings):
    terms = findings.error("brier", "canonical").terms
    if terms.uncertainty == 0:
        return "All labels are of one class, so there was nothing to explain."
    share = 100 * terms.sharpness / terms.uncertainty
    return (
        f"Recalibrated, the forecasts explain {max(share, 0.0):.0f} % of the uncertainty of the "
        "labels (Brier score)."
    )


def _grouping(grouping):
    """What calibration cannot see, and whom it concerns."""
    if grouping.grouping_loss is None:
        return [f"Grouping loss was not estimated: {grouping.note}"]
    size = f"{interval(grouping.grouping_loss)}, {pvalue(grouping.pvalue)}"
    if not grouping.detected:
        return [
            "The features do not tell groups that the same score treats differently (lower bound "
            f"of the grouping loss: {size})."
        ]
    told = [
        "Beyond calibration: the same score means different things for different groups (grouping "
        f"loss at least {size}). No recalibration removes that; a better model can."
    ]
    return told + [region(worst) for worst in grouping.regions]


def pvalue(value):
    """A p-value of a permutation test, which cannot be zero."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def region(found):
    """One region in words."""
    promises = "too much" if found.gap > 0 else "too little"
    return (
        f"Where {found.rule}, a score of {found.mean_score:.2f} promises {promises}: "
        f"{found.mean_outcome:.2f} [{found.low:.2f}, {found.high:.2f}] came true "
        f"({found.n_samples:,} samples)."
    )
