"""skcalib: evaluate and improve the calibration of classifiers.

This module exports functions, estimators, recalibrators, displays and the report. Their building
blocks are public in submodules: scores, smoothers, kernels, data.notions and links. A submodule is
imported when one of its names is accessed.
"""

import sys
from importlib import import_module

__version__ = "0.2.0"

#: The public names of the root, by the module that defines them.
_NAMES = {
    "displays": (
        "DecisionCurveDisplay",
        "DecompositionDisplay",
        "GroupCalibrationDisplay",
        "GroupingDisplay",
        "MurphyDisplay",
        "RecalibrationDisplay",
        "ReliabilityDisplay",
    ),
    "error_intervals": ("calibration_error_interval",),
    "errors": (
        "calibration_error",
        "calibration_intercept_slope",
        "calibration_upper_bound",
        "corp_decomposition",
        "integrated_calibration_index",
        "kernel_calibration_error",
        "ks_calibration_error",
        "proper_calibration_error",
        "refinement_loss",
        "reliability_bins",
        "root_brier_score",
        "score_decomposition",
        "sharpness",
        "smooth_calibration_error",
    ),
    "estimators": (
        "CalibrationErrorEstimator",
        "CrossFitProba",
        "RecalibratedClassifierCV",
    ),
    "grouping": (
        "GroupingLossEstimator",
        "calibration_by_group",
        "soft_label_decomposition",
    ),
    "monitoring": (
        "CalibrationMonitor",
        "SequentialCalibrationTest",
        "expected_performance",
    ),
    "recalibration": (
        "BetaCalibration",
        "DirichletCalibration",
        "GroupRecalibrator",
        "HistogramBinning",
        "IdentityRecalibrator",
        "InterceptRecalibrator",
        "IsotonicRecalibrator",
        "LabelShiftRecalibrator",
        "MultilabelRecalibrator",
        "PlattScaling",
        "RecalibratorSelection",
        "SplineScaling",
        "StackedRecalibrator",
        "TemperatureScaling",
        "VectorScaling",
        "VennAbersRecalibrator",
        "calibration_improvement",
    ),
    "report": (
        "CalibrationReport",
        "ComparisonReport",
    ),
    "risk_models": (
        "calibration_summary",
        "decision_regret",
    ),
    "scorers": (
        "get_scorer",
        "get_scorer_names",
        "get_scorers",
    ),
    "significance": (
        "calibration_test",
        "compare_calibration",
        "compare_windows",
        "hosmer_lemeshow_test",
        "kernel_calibration_test",
    ),
    "sketches.sketch": ("ForecastSketch", "summarize"),
    "theory": ("optimal_n_bins",),
    "_util.progress": ("show_progress",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
#: Public modules, available as attributes of the package.
_SUBMODULES = (
    "data",
    "datasets",
    "displays",
    "error_intervals",
    "errors",
    "estimators",
    "export",
    "grouping",
    "io",
    "kernels",
    "links",
    "monitoring",
    "proper",
    "recalibration",
    "regression",
    "report",
    "risk_models",
    "scorers",
    "scores",
    "significance",
    "sketches",
    "smoothers",
    "stats",
    "testing",
    "theory",
)
#: Modules whose public names users may look for at the root.
_BLOCKS = (
    "scores",
    "smoothers",
    "kernels",
    "data.notions",
    "links",
    "errors",
    "error_intervals",
    "significance",
    "theory",
    "recalibration",
    "grouping",
    "regression",
    "monitoring",
    "displays",
    "risk_models",
)

__all__ = sorted([*_HOME, "__version__", "datasets"])

_ECE = "calibration_error(y_true, y_proba, strategy='uniform', n_bins=15)"
_MCE = "calibration_error(y_true, y_proba, norm='max', strategy='uniform', n_bins=15)"
_ICI = "integrated_calibration_index(y_true, y_proba)"
_DIAGRAM = "ReliabilityDisplay.from_predictions(y_true, y_proba)"
_BINS = "reliability_bins(y_true, y_proba)"
_BRIER = (
    "sklearn.metrics.brier_score_loss(y_true, y_proba), or for its parts "
    "score_decomposition(y_true, y_proba)"
)

#: Common names from elsewhere, and what to use instead.
GUESSES = {
    "ece": _ECE,
    "ECE": _ECE,
    "expected_calibration_error": _ECE,
    "mce": _MCE,
    "MCE": _MCE,
    "ici": _ICI,
    "ICI": _ICI,
    "maximum_calibration_error": _MCE,
    "CalibrationDisplay": _DIAGRAM,
    "CalibrationCurveDisplay": _DIAGRAM,
    "reliability_diagram": _DIAGRAM,
    "calibration_curve": _BINS,
    "reliability_curve": _BINS,
    "grouping_loss": "GroupingLossEstimator().fit(X, y_true, y_proba)",
    "brier_score": _BRIER,
    "brier_score_loss": _BRIER,
    "IsotonicCalibration": "IsotonicRecalibrator().fit(y_proba, y_true)",
    "IsotonicRegression": "IsotonicRecalibrator().fit(y_proba, y_true)",
    "PlattCalibration": "PlattScaling().fit(y_proba, y_true)",
    "SigmoidCalibration": "PlattScaling().fit(y_proba, y_true)",
    "temperature_scaling": "TemperatureScaling().fit(y_proba, y_true)",
    "CalibratedClassifierCV": "RecalibratedClassifierCV(estimator)",
}


def __getattr__(name):
    """Import the requested name; for those known from elsewhere, say what to use."""
    if name in _HOME:
        globals()[name] = getattr(import_module(f"skcalib.{_HOME[name]}"), name)
        return globals()[name]
    if name in _SUBMODULES:
        return import_module(f"skcalib.{name}")
    message = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(message)
    place = _place_of(name)
    if place is None:
        messages = import_module("skcalib._util.messages")
        raise AttributeError(f"{message}.{messages.did_you_mean(name, [*_HOME, *_SUBMODULES])}")
    # The import system asks whether there is a name, and drops the words of an AttributeError.
    imported = sys._getframe(1).f_code.co_name == "_handle_fromlist"
    raise (ImportError if imported else AttributeError)(f"{message}: use {place}")


def _place_of(name):
    """What to use for a name that is known from elsewhere, or stands in a package; or None."""
    if name in GUESSES:
        return GUESSES[name]
    for module in _BLOCKS:
        if name in import_module(f"skcalib.{module}").__all__:
            return f"skcalib.{module}.{name}"
    return None


def __dir__():
    """Public names and modules, imported or not."""
    return sorted({*__all__, *_SUBMODULES, "GUESSES", "__all__", "__doc__", "__file__", "__name__"})
