"""What to do, in words."""

import numpy as np

from skcalib.report._numbers import interval, number

RECALIBRATOR_NAMES = {
    "TemperatureScaling": "temperature scaling",
    "PlattScaling": "Platt scaling of the logit",
    "BetaCalibration": "beta calibration",
    "BiasCorrectedTemperatureScaling": "temperature scaling with class biases",
    "VectorScaling": "vector scaling",
    "IsotonicRecalibrator": "strictly increasing isotonic regression",
}


def advice(findings):
    """Which map helps, by how much, measured on samples that it has not seen."""
    found = findings.advice
    before, after = found.losses[0], found.losses[found.names.index(found.chosen)]
    refused = _refused(findings)
    if found.chosen == found.names[0]:
        other = "other " if refused else ""
        return (
            f"Leave it: no {other}recalibration map lowers the log loss ({number(before)}) on "
            f"samples that it has not seen beyond one standard error.{refused}"
        )
    name = _named(found.chosen)
    if not np.isfinite(before):
        return (
            "The log loss is infinite: a label was given probability 0. Recalibrate by "
            f"{name}: on samples that it has not seen the log loss is then {number(after)}"
            f"{_brier(findings)}.{refused}"
        )
    error = found.gain.standard_error
    lowers = (
        f"it lowers the log loss from {number(before, error)} to {number(after, error)}, by "
        f"{interval(found.gain)}"
    )
    if not findings.recalibrator_helps:
        return (
            f"Leave it, or collect more samples: the best map is {name}, and on samples that it "
            f"has not seen {lowers}, which may be chance{_brier(findings)}.{refused}"
        )
    share = f"{100 * found.gain.estimate / before:.1f} %"
    return (
        f"Recalibrate by {name}: on samples that it has not seen {lowers} ({share})"
        f"{_brier(findings)}.{refused}"
    )


def _brier(findings):
    """What the map does to the Brier score."""
    change = findings.brier_change
    if change is None:
        return ""
    after, before = (number(v, change.standard_error) for v in (change.after, change.before))
    if change.after <= change.before:
        return f"; it takes the Brier score from {before} to {after}"
    return f"; it takes the Brier score from {before} to {after}, within one standard error"


def _refused(findings):
    """The maps of lower log loss that are not advised, and why."""
    told = ""
    for one in findings.refused:
        before, after = (number(v, one.standard_error) for v in (one.before, one.after))
        told += (
            f" Not {_named(one.name)}: it lowers the log loss to {number(one.log_loss)}, but "
            f"raises the Brier score from {before} to {after}, by more than its standard error "
            f"({number(one.standard_error)})."
        )
    return told


def _named(name):
    words = RECALIBRATOR_NAMES.get(name)
    return name if words is None else f"{words} ({name})"


def in_code(findings):
    """How the chosen map is applied."""
    name = findings.advice.chosen
    options = "strict=True" if name == "IsotonicRecalibrator" else ""
    return (
        f"In code: recalibrator = {name}({options}).fit(y_proba, y_true) with held-out samples "
        "such as these, then recalibrator.predict_proba(new_proba); or "
        f"RecalibratedClassifierCV(classifier, {name}({options}), cv=5), which fits both."
    )
