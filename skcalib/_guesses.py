"""Names that people look for in the library, and where to find what they mean."""

_ECE = "calibration_error(y_true, y_proba, strategy='uniform', n_bins=15)"
_MCE = "calibration_error(y_true, y_proba, norm='max', strategy='uniform', n_bins=15)"
_DIAGRAM = "ReliabilityDisplay.from_predictions(y_true, y_proba)"
_BINS = "reliability_bins(y_true, y_proba)"
_BRIER = (
    "sklearn.metrics.brier_score_loss(y_true, y_proba), or for its parts "
    "score_decomposition(y_true, y_proba)"
)

#: What is looked for, and what to use.
GUESSES = {
    "ece": _ECE,
    "expected_calibration_error": _ECE,
    "mce": _MCE,
    "maximum_calibration_error": _MCE,
    "CalibrationDisplay": _DIAGRAM,
    "reliability_diagram": _DIAGRAM,
    "calibration_curve": _BINS,
    "reliability_curve": _BINS,
    "grouping_loss": "GroupingLossEstimator().fit(X, y_true, y_proba=y_proba)",
    "brier_score": _BRIER,
    "brier_score_loss": _BRIER,
    "temperature_scaling": "TemperatureScaling().fit(y_proba, y_true)",
    "CalibratedClassifierCV": "RecalibratedClassifierCV(estimator)",
}


def missing_attribute(module, name):
    """The `AttributeError` of a name that a module lacks, with advice if it was to be expected."""
    message = f"module {module!r} has no attribute {name!r}"
    if name in GUESSES:
        return AttributeError(f"{message}: use {GUESSES[name]}")
    return AttributeError(message)
