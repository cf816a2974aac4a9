"""skcalib: can you trust the probabilities of your classifier?

Functions, estimators, recalibrators, displays and the report stand here. What they are built from
is public in modules: scores, smoothers, kernels, notions and links. A module is imported when one
of its names is asked for.
"""

from importlib import import_module

__version__ = "0.1.0"

#: Where each public name stands; ``__init__.pyi`` tells type checkers the same.
_MODULES = {
    "displays": (
        "DecompositionDisplay",
        "EstimationDisplay",
        "GroupingDisplay",
        "RecalibrationDisplay",
        "ReliabilityDisplay",
    ),
    "error_intervals": ("calibration_error_interval",),
    "errors": (
        "calibration_error",
        "calibration_intercept_slope",
        "calibration_upper_bound",
        "corp_bands",
        "corp_decomposition",
        "corp_test",
        "cumulative_curve",
        "integrated_calibration_index",
        "kernel_calibration_error",
        "ks_calibration_error",
        "proper_calibration_error",
        "refinement_loss",
        "reliability_bins",
        "root_brier_score",
        "score_decomposition",
        "sharpness",
        "simplex_calibration_error",
        "unconditional_mean_embedding_error",
    ),
    "estimators": (
        "CalibrationErrorEstimator",
        "CrossFitProba",
        "RecalibratedClassifierCV",
        "RecalibratorSelection",
    ),
    "grouping": ("GroupingLossEstimator",),
    "recalibration": (
        "BetaCalibration",
        "BiasCorrectedTemperatureScaling",
        "DiagonalOrderPreserving",
        "DirichletCalibration",
        "EnsembleTemperatureScaling",
        "HistogramBinning",
        "IdentityRecalibrator",
        "IsotonicRecalibrator",
        "KernelRecalibrator",
        "LabelFrequency",
        "MatrixScaling",
        "PlattScaling",
        "QuadraticScaling",
        "TemperatureScaling",
        "VectorScaling",
        "calibration_improvement",
    ),
    "regression": (
        "RecalibratedRegressorCV",
        "VarianceScaling",
        "dawid_sebastiani_score",
        "kernel_calibration_error_gaussian",
        "kernel_calibration_test_gaussian",
        "variance_reliability",
    ),
    "report": (
        "CalibrationReport",
        "ComparisonReport",
    ),
    "scorers": (
        "get_scorer",
        "get_scorer_names",
        "get_scorers",
    ),
    "significance": (
        "compare_calibration",
        "consistency_test",
        "cumulative_test",
        "distribution_free_bound",
        "hosmer_lemeshow_test",
        "kernel_calibration_test",
        "spiegelhalter_test",
    ),
    "streaming": ("IncrementalReliability",),
    "summary": ("calibration_summary",),
    "theory": (
        "ece_bias_bound",
        "ece_generalization_bound",
        "evaluate_supersample",
        "optimal_n_bins",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
#: Public modules: attributes of the package, as if they had been imported.
_SUBMODULES = (
    "datasets",
    "displays",
    "error_intervals",
    "errors",
    "estimators",
    "grouping",
    "inference",
    "io",
    "kernels",
    "links",
    "notions",
    "problem",
    "recalibration",
    "regression",
    "report",
    "scorers",
    "scores",
    "significance",
    "smoothers",
    "streaming",
    "summary",
    "testing",
    "theory",
    "tower",
)
#: Modules whose public names are looked for at the root.
_BLOCKS = (
    "scores",
    "smoothers",
    "kernels",
    "notions",
    "links",
    "errors",
    "error_intervals",
    "significance",
    "theory",
    "recalibration",
    "grouping",
    "regression",
)

__all__ = sorted([*_HOME, "__version__", "datasets"])

_ECE = "calibration_error(y_true, y_proba, strategy='uniform', n_bins=15)"
_MCE = "calibration_error(y_true, y_proba, norm='max', strategy='uniform', n_bins=15)"
_DIAGRAM = "ReliabilityDisplay.from_predictions(y_true, y_proba)"
_BINS = "reliability_bins(y_true, y_proba)"
_BRIER = (
    "sklearn.metrics.brier_score_loss(y_true, y_proba), or for its parts "
    "score_decomposition(y_true, y_proba)"
)

#: Names that people look for, and what to use.
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


def __getattr__(name):
    """Import what is asked for; names that people look for elsewhere get advice."""
    if name in _HOME:
        found = getattr(import_module(f"skcalib.{_HOME[name]}"), name)
        globals()[name] = found
        return found
    if name in _SUBMODULES:
        return import_module(f"skcalib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_advice(name)}")


def _advice(name):
    if name in GUESSES:
        return f": use {GUESSES[name]}"
    if name.startswith("_"):
        return ""
    for module in _BLOCKS:
        if name in import_module(f"skcalib.{module}").__all__:
            return f": use skcalib.{module}.{name}"
    return ""


def __dir__():
    """Public names and modules, imported or not."""
    return sorted({*__all__, *_SUBMODULES, "GUESSES", "__all__", "__doc__", "__file__", "__name__"})
