"""The numbers that others report, each with an interval and what is known of its bias."""

from skcalib.error_intervals import calibration_error_interval
from skcalib.inference import MeanInterval
from skcalib.report.findings import ReportedNumber
from skcalib.summary import ROWS, calibration_summary

_ERRORS = {
    "ece": (
        "ECE, 15 bins of equal width",
        "Biased upward, most where forecasts are calibrated; the interval is for these bins.",
    ),
    "ks": (
        "Kolmogorov-Smirnov error",
        "The largest cumulative difference, without bins; biased upward by noise.",
    ),
    "root_brier_score": (
        "Root Brier score",
        "An upper bound of the typical error, as it includes the irreducible loss.",
    ),
}


def find_reported(problem, level, random_state, n_jobs=None):
    """`Problem` -> tuple of `ReportedNumber`; of two classes the summary of a risk model first."""
    data = {
        "y_true": problem.classes[problem.target.argmax(axis=1)],
        "y_proba": problem.forecast,
        "confidence_level": level,
        "labels": problem.classes,
    }
    if problem.weight.min() < problem.weight.max():
        data["sample_weight"] = problem.weight
    run = {"random_state": random_state, "n_jobs": n_jobs}
    summary = _summary(data, random_state) if len(problem.classes) == 2 else []
    return tuple(summary + [_error(key, data, run) for key in _ERRORS])


def _summary(data, random_state):
    """The quantities of `calibration_summary`."""
    found = calibration_summary(**data, random_state=random_state)
    numbers = []
    for key, (name, perfect, explanation) in ROWS.items():
        value = getattr(found, key)
        if isinstance(value, float):
            value = MeanInterval(value, value, value, 0.0)
        note = found.notes.get(key) or f"{explanation[0].upper()}{explanation[1:]}."
        if perfect is not None:
            name += f" ({perfect:g} is perfect)"
        numbers.append(ReportedNumber(key, name, note, value))
    return numbers


def _error(key, data, run):
    """An error by its name, of the confidence, or for two classes of the event."""
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
