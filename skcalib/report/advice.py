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
    if found.chosen == found.names[0]:
        return (
            f"Leave it: no recalibration map lowers the log loss ({number(before)}) on samples "
            "that it has not seen beyond one standard error."
        )
    name = f"{RECALIBRATOR_NAMES[found.chosen]} ({found.chosen})"
    if not np.isfinite(before):
        return (
            "The log loss is infinite: a label was given probability 0. Recalibrate by "
            f"{name}: on samples that it has not seen the log loss is then {number(after)}."
        )
    error = found.gain.standard_error
    lowers = (
        f"it lowers the log loss from {number(before, error)} to {number(after, error)}, by "
        f"{interval(found.gain)}"
    )
    if not findings.recalibrator_helps:
        return (
            f"Leave it, or collect more samples: the best map is {name}, and on samples that it "
            f"has not seen {lowers}, which may be chance."
        )
    share = f"{100 * found.gain.estimate / before:.1f} %"
    return f"Recalibrate by {name}: on samples that it has not seen {lowers} ({share})."


def in_code(findings):
    """How the chosen map is applied."""
    name = findings.advice.chosen
    options = "strict=True" if name == "IsotonicRecalibrator" else ""
    return (
        f"In code: recalibrator = {name}({options}).fit(y_proba, y_true) with held-out samples "
        "such as these, then recalibrator.predict_proba(new_proba); or "
        f"RecalibratedClassifierCV(classifier, {name}({options}), cv=5), which fits both."
    )
