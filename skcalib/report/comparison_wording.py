"""From differences to words: which model is better, and whether that is real."""

import numpy as np

from skcalib.intervals import MeanInterval
from skcalib.report._numbers import interval

TOPICS = {
    "calibration": ("Calibration", "Brier calibration error"),
    "brier": ("Prediction", "Brier score"),
    "log": ("Prediction", "log loss"),
    "refinement": ("Once recalibrated", "Brier score"),
}


def headline(comparison):
    """The verdict in one line."""
    calibrated, calibration_shown = leader(comparison, "calibration")
    predicts, prediction_shown = leader(comparison, "brier")
    several = len(comparison.reports) > 2
    best, lowest = ("best", "lowest") if several else ("better", "lower")
    if calibration_shown and prediction_shown and calibrated == predicts:
        return f"{calibrated} is {best} calibrated, and predicts {best}."
    if calibration_shown and prediction_shown:
        return f"{calibrated} is {best} calibrated; {predicts} has the {lowest} Brier score."
    if calibration_shown:
        return f"{calibrated} is {best} calibrated; which one predicts {best} is not clear."
    if prediction_shown:
        return f"{predicts} predicts {best}; which one is {best} calibrated is not clear."
    return "No model is clearly the best." if several else "No clear difference."


def leader(comparison, quantity):
    """The model of the lowest estimate, and whether it is told from all others."""
    against = {name: _against(comparison, quantity, name) for name in comparison.reports}
    for name, others in against.items():
        if all(other.estimate <= 0 for other in others.values()):
            return name, all(other.high < 0 for other in others.values())
    return next(iter(against)), False  # rounding may leave no model below all others


def sentences(comparison):
    """A sentence for each topic that has an answer."""
    told = []
    for quantity, (topic, what) in TOPICS.items():
        best, _ = leader(comparison, quantity)
        others = _against(comparison, quantity, best)
        beaten = [f"{n}, {_size(d, what)}" for n, d in others.items() if d.high < 0]
        level = [f"{n} ({interval(turned(d))})" for n, d in others.items() if d.high >= 0]
        parts = [f"{best} is better than {', and than '.join(beaten)}"] if beaten else []
        if level:
            lead = "it is" if beaten else f"{best} looks best, but is"
            parts.append(f"{lead} not told apart from {' and '.join(level)}")
        if parts:
            told.append(f"{topic} ({what}): {'; '.join(parts)}.")
    return told


def _against(comparison, quantity, name):
    """Differences of a model minus each of the others."""
    found = {}
    for one in comparison.differences:
        if one.quantity == quantity and name in (one.first, one.second):
            other = one.second if one.first == name else one.first
            found[other] = one.difference if one.first == name else turned(one.difference)
    return found


def turned(difference):
    """The same difference the other way round."""
    return MeanInterval(
        -difference.estimate, -difference.high, -difference.low, difference.standard_error
    )


def _size(difference, what):
    """How much lower the better model is."""
    if np.isinf(difference.estimate):
        return f"whose {what} is infinite"
    return f"by {interval(turned(difference))}"
