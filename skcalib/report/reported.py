"""The numbers that others report, each with an interval and what is known of its bias."""

from skcalib.error_intervals import calibration_error_interval
from skcalib.intervals import MeanInterval
from skcalib.report.findings import ReportedNumber
from skcalib.slopes import calibration_intercept_slope

_ERRORS = {
    "ece": (
        "ECE, 15 bins of equal width",
        "Biased upward, most where the forecasts are calibrated, and different with other bins; "
        "the interval is for these bins.",
    ),
    "ks": (
        "Kolmogorov-Smirnov error",
        "The largest cumulative difference, without bins; biased upward by noise.",
    ),
    "root_brier_score": (
        "Root Brier score",
        "An upper bound of the rooted Brier calibration error, nearly without bias; it also holds "
        "what no forecast can know.",
    ),
}
_LINES = {
    "in_the_large": (
        "Calibration in the large (0 is right)",
        "Log odds by which events are more frequent than forecast; bias of order 1/n.",
    ),
    "intercept": (
        "Calibration intercept (0 is right)",
        "Of the line whose slope is below; bias of order 1/n.",
    ),
    "slope": (
        "Calibration slope (1 is right)",
        "Below 1 the forecasts are too extreme; sees lines in the logit only; bias of order 1/n.",
    ),
}


def find_reported(problem, level, random_state, n_jobs=None):
    """`Problem` -> tuple of `ReportedNumber`."""
    data = {
        "y_true": problem.classes[problem.target.argmax(axis=1)],
        "y_proba": problem.forecast,
        "confidence_level": level,
        "labels": problem.classes,
    }
    if problem.weight.min() < problem.weight.max():
        data["sample_weight"] = problem.weight
    run = {"random_state": random_state, "n_jobs": n_jobs}
    numbers = [_error(key, data, run) for key in _ERRORS]
    return tuple(numbers + (_lines(data) if len(problem.classes) == 2 else []))


def _error(key, data, run):
    """An error by its name, of the confidence, or for two classes of the forecast."""
    name, note = _ERRORS[key]
    notion = {}
    if key != "root_brier_score":
        binary = len(data["labels"]) == 2
        notion = {"notion": "canonical" if binary else "top_label"}
        name += "" if binary else ", of the confidence"
    try:
        found = calibration_error_interval(key, **data, **run, **notion)
    except ValueError as error:
        return ReportedNumber(key, name, str(error), None)
    value = MeanInterval(found.estimate, found.low, found.high, found.standard_error)
    if not found.valid:
        note += f" It may not hold: {found.reason}."
    return ReportedNumber(key, name, note, value, found.target, found.valid)


def _lines(data):
    """Intercept and slope of Cox; data that separate the classes have none."""
    try:
        found = calibration_intercept_slope(**data)
    except ValueError as error:
        return [ReportedNumber("slope", _LINES["slope"][0], str(error), None)]
    return [
        ReportedNumber(key, name, note, getattr(found, key)) for key, (name, note) in _LINES.items()
    ]
