"""One table of all public functions: how each is called with labels and forecasts.

The suites of inputs, robustness, messages and determinism run over it; that nothing public is
missing from it is tested in `test_inputs`.
"""

import inspect
import re
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import skcalib
from skcalib import datasets, kernels, scores, smoothers, testing
from skcalib.data import notions
from skcalib.data.problem import check_problem
from skcalib.grouping import differences_at_equal_scores
from skcalib.kernels import median_distance
from skcalib.regression import dawid_sebastiani_improvement
from skcalib.risk_models.decisions import net_benefit

#: Public modules of building blocks, whose names are not at the root.
BLOCKS = (kernels, notions, scores, smoothers)
#: Packages whose functions, estimators and displays are used by name, at the root or not.
PACKAGES = (
    *("displays", "error_intervals", "errors", "estimators", "grouping", "monitoring"),
    *("recalibration", "regression", "report", "risk_models", "significance", "theory"),
)
#: Bases of recalibrators, which do nothing by themselves.
BASES = {
    *("BinaryLinkRecalibrator", "LogitRecalibrator", "OneVsRestRecalibrator", "Recalibrator"),
    "RecalibratorMixture",
}


def package_names():
    """Functions and classes of the root and of its packages, without records and bases."""
    names = {name: getattr(skcalib, name) for name in skcalib.__all__}
    for package in (getattr(skcalib, package) for package in PACKAGES):
        names |= {name: getattr(package, name) for name in package.__all__ if name not in BASES}
    return {name: thing for name, thing in names.items() if not is_dataclass(thing)}


def public_names():
    """The same, and the names of the building blocks."""
    names = package_names()
    return names | {name: getattr(block, name) for block in BLOCKS for name in block.__all__}


def others(module, base, listed, *, abstract=()):
    """Default instances of the public classes of a kind that a list of instances lacks.

    A new class is then held to the laws as soon as it is public; what cannot be made without
    arguments fails here until the list has an instance.
    """
    known = {base, *abstract, *(type(instance) for instance in listed)}
    classes = filter(inspect.isclass, (getattr(module, name) for name in module.__all__))
    return [kind() for kind in classes if issubclass(kind, base) and kind not in known]


#: Warnings of our own that say something about a forecast; anything else is a failure.
OWN_WARNINGS = (
    "The map from before to after",
    "The logit map of LogitSmoother did not converge",
    "A kernel average here uses",
    "The regions hold",
    "y_true has the ordered categories",
)


@contextmanager
def only_own_warnings():
    """Warnings are errors, except our own words about a forecast."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # matplotlib 3.8 calls pyparsing by names that pyparsing 3.3 deprecates
        warnings.filterwarnings("ignore", "", DeprecationWarning, r"(matplotlib|pyparsing)\.")
        for words in OWN_WARNINGS:
            warnings.filterwarnings("ignore", message=words)
        yield


@dataclass(frozen=True, eq=False)
class Recipe:
    """A public function with some of its options.

    ``takes`` is "forecast" (y, P), "two forecasts" (y, P, Q), "features" (y, P, X), "moments" (y,
    mean, variance) or "moment pairs" (two of them). ``order`` tells that the result depends on the
    order of the rows by definition, ``infinite`` that infinity is a documented answer to valid
    input, ``one_row`` that a single row is enough (for displays; see ONE_IS_ENOUGH of
    `test_inputs`).
    """

    function: Callable
    takes: str = "forecast"
    binary: bool = False
    infinite: bool = False
    order: bool = False
    one_row: bool = False
    options: dict = field(default_factory=dict)

    def __str__(self):
        chosen = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{public_name(self.function)}({chosen})"

    def __call__(self, y, *arrays, **arguments):
        """Call it with forecasts (and what it takes beside them) and shared arguments."""
        if len(arrays) == 1:
            arrays = self.arrays(arrays[0])
        if self.accepts("random_state"):
            arguments.setdefault("random_state", 0)
        return self.function(y, *arrays, **self.options, **arguments)

    def arrays(self, proba):
        """Forecasts, and what the function takes beside them."""
        if self.takes == "two forecasts":
            return proba, proba[::-1]
        return (proba, _features(proba)) if self.takes == "features" else (proba,)

    def accepts(self, name):
        """Whether the function has a parameter of this name."""
        return name in inspect.signature(self.function).parameters


def _short(value):
    return repr(value) if isinstance(value, (str, int, float)) else type(value).__name__


def _features(proba):
    n_samples = len(proba)
    columns = np.zeros((n_samples, 1))
    if np.ndim(proba) and np.size(proba):  # no array or an empty one is refused, and not here
        columns = np.asarray(proba, dtype=np.float64).reshape(n_samples, -1)
    return np.column_stack([columns[:, -1], np.arange(len(columns)) % 7])


def public_name(function):
    """Name under which a function or a door of a class is public."""
    owner = getattr(function, "__self__", None)
    return function.__name__ if owner is None else f"{owner.__name__}.{function.__name__}"


def firsts(recipes):
    """The first recipe of each function: its defaults."""
    names = [public_name(recipe.function) for recipe in recipes]
    return [recipe for k, recipe in enumerate(recipes) if names[k] not in names[:k]]


def ignoring(recipe, name):
    """A recipe of the same function that ignores an argument: what a law has to notice."""

    def call(y_true, *arrays, **arguments):
        arguments.pop(name, None)
        if name == "y_true":
            y_true = np.resize(np.unique(y_true), len(y_true))
        if name == "y_proba":
            columns = arrays[0].shape[1] if arrays[0].ndim == 2 else 2
            arrays = (np.full_like(arrays[0], 1 / columns), *arrays[1:])
        return recipe.function(y_true, *arrays, **arguments)

    call.__name__ = public_name(recipe.function)
    call.__signature__ = inspect.signature(recipe.function)
    return replace(recipe, function=call)


def _given(function, extra_arguments):
    """The function with more arguments, which are made of labels and forecasts."""

    def call(y_true, y_proba, **arguments):
        return function(y_true, y_proba, **extra_arguments(y_true, y_proba), **arguments)

    call.__name__, call.__signature__ = public_name(function), inspect.signature(function)
    return call


def _locations(y_true, y_proba):
    """Locations at the corners, as many columns as the forecast has."""
    n_columns = np.shape(y_proba)[1] if np.ndim(y_proba) == 2 else 1
    return {"locations": np.eye(max(2, n_columns))}


def _two_groups(y_true, y_proba):
    """Every other sample is in the other group."""
    return {"by": np.where(np.arange(np.size(y_true)) % 2, "odd", "even")}


def _moment_pair(function):
    """Mean and variance before; the same with twice the variance after."""

    def call(y_true, y_mean, y_var, **arguments):
        before = np.column_stack([y_mean, y_var])
        return function(y_true, before, before * [1, 2], **arguments)

    call.__name__, call.__signature__ = function.__name__, inspect.signature(function)
    return call


def _watched(kind, **parameters):
    """A test or a monitor of a stream, whose numbers are read off; weights are at most 1."""

    def call(y_true, y_proba, *, sample_weight=None, labels=None):
        problem = check_problem(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight, dtype=np.float64)
            sample_weight = sample_weight / sample_weight.max()
        stream = kind(problem.classes, **parameters)
        stream.partial_fit(y_true, y_proba, sample_weight)
        windows = [
            (window.mean_predicted, window.observed) for window in getattr(stream, "windows_", ())
        ]
        return stream.path_, stream.n_samples_seen_, getattr(stream, "alarms_", None), windows

    call.__name__ = kind.__name__
    return call


def _unlabelled(y_true, y_proba, *, sample_weight=None, labels=None, pos_label=None):
    """The performance of forecasts without labels; the labelled window is the same."""
    options = {"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label}
    check_problem(y_true, y_proba, **options)  # its messages call the window by another name
    labelled = (y_true, y_proba) if sample_weight is None else (y_true, y_proba, sample_weight)
    return skcalib.expected_performance(y_proba, labelled=labelled, **options)


_unlabelled.__name__ = "expected_performance"


def _recipes(function, *options, **facts):
    return [Recipe(function, options=arguments, **facts) for arguments in (options or ({},))]


def _forecast_recipes():
    s = skcalib
    proper = s.proper_calibration_error
    log, classwise, top = {"loss": "log"}, {"notion": "classwise"}, {"notion": "top_label"}
    ordered_classes = {"notion": "cumulative"}
    kernel, binning = {"smoother": "kernel"}, {"smoother": "binning"}
    folds = {"order": True}  # of a cross-fitted smoother, such as the default, go by row
    watched = {"order": True, "infinite": True, "one_row": True}
    narrow = {"bandwidth": 0.05, **top}
    ordered = ({"statistic": "linear"}, {"statistic": "block", "block_size": 3})
    test = s.kernel_calibration_test
    draws = {"n_resamples": 19}
    embedding = _given(s.errors.unconditional_mean_embedding_error, _locations)
    metrics = s.calibration_error, s.ks_calibration_error, s.root_brier_score
    intervals = [
        _given(s.calibration_error_interval, lambda *_, metric=metric: {"metric": metric})
        for metric in (*metrics, s.kernel_calibration_error)
    ]
    few = {"n_resamples": 39}
    tested = {**top, **few}, {**classwise, **few}
    side = {"alternative": "greater"}
    ratio, joint = s.significance.logistic_calibration_test, {"hypothesis": "joint"}
    by_group = _given(s.calibration_by_group, _two_groups)
    windows = _given(s.compare_windows, _two_groups)
    curves = _given(s.grouping.calibration_curve_equality_test, _two_groups)
    regret, act = s.decision_regret, {"threshold": 0.3}
    return [
        *_recipes(
            proper,
            {},
            {"loss": "spherical"},
            {"loss": "rps"},
            {"method": "direct"},
            {"method": "cross"},
            classwise,
            top,
            {"smoother": "isotonic", **top, "method": "cross"},
            {"smoother": LogisticRegression()},
            **folds,
        ),
        *_recipes(
            proper,
            kernel,
            binning,
            {"smoother": s.smoothers.LevelSets()},
            {"smoother": s.smoothers.NearestNeighborsSmoother()},
            {"smoother": s.smoothers.DirichletKernel("scott", refinement="loss")},
        ),
        *_recipes(
            proper,
            log,
            {**log, "method": "direct"},
            {**log, **classwise},
            infinite=True,
            **folds,
        ),
        *_recipes(proper, {**log, **kernel}, {**log, **binning, "method": "direct"}, infinite=True),
        *(
            recipe
            for function in (s.refinement_loss, s.sharpness, s.score_decomposition)
            for recipe in (
                *_recipes(function, {}, {"method": "cross", **classwise}, **folds),
                *_recipes(function, kernel),
                *_recipes(function, log, infinite=True, **folds),
            )
        ),
        *_recipes(s.calibration_upper_bound, {}, classwise, top, {"loss": "spherical"}),
        *_recipes(s.calibration_upper_bound, log, {**log, **top}, infinite=True),
        *_recipes(s.root_brier_score),
        *_recipes(
            s.calibration_error,
            {},
            {"strategy": "uniform", "n_bins": 15},
            {"norm": "l2", "squared": True, "debiased": True, "n_bins": 2},
            {"norm": "max", **classwise},
            ordered_classes,
            {"n_bins": [0, 0.25, 1], **classwise, "reduce": "sum"},
        ),
        *_recipes(s.calibration_error, {"notion": "canonical"}, binary=True),
        # The variance of a sample that is alone in its bin is infinite, as documented.
        *_recipes(s.reliability_bins, {}, classwise, infinite=True),
        *_recipes(_watched(s.SequentialCalibrationTest, notion="canonical"), **watched),
        *_recipes(_watched(s.CalibrationMonitor, window=20, alpha=0.01), **watched),
        *_recipes(_unlabelled, infinite=True),
        *_recipes(s.ks_calibration_error, {}, classwise),
        *_recipes(s.errors.cumulative_curve, {}, classwise),
        *_recipes(s.smooth_calibration_error, {}, classwise, narrow),
        *_recipes(s.errors.kde_calibration_error, {}, {"norm": "l2", **classwise}, narrow),
        *_recipes(
            s.errors.simplex_calibration_error,
            {},
            {"distance": "squared_euclidean", "bins": "uniform"},
        ),
        *_recipes(s.integrated_calibration_index, {}, classwise, {"quantile": 0.9}, **folds),
        *_recipes(
            s.kernel_calibration_error, {}, {"statistic": "biased", "kernel": "gaussian"}, classwise
        ),
        *_recipes(s.kernel_calibration_error, *ordered, order=True),
        *_recipes(test, {}, classwise, {"method": "bound"}, {"statistic": "biased"}),
        *_recipes(
            test,
            {"method": "multipliers", **draws},
            {"method": "bootstrap", **draws},
            {"method": "embedding", "locations": 3},
            order=True,
        ),
        # All blocks alike leave no doubt: a statistic of infinity.
        *_recipes(test, *ordered, order=True, infinite=True),
        *_recipes(embedding, {}, {"kernel": "gaussian"}),
        *_recipes(s.significance.distribution_free_bound, {}, {"statistic": "biased"}),
        *_recipes(s.significance.distribution_free_bound, {"statistic": "linear"}, order=True),
        *_recipes(s.significance.calibration_e_value, {}, classwise, infinite=True, one_row=True),
        *_recipes(
            s.significance.consistency_test,
            {"n_resamples": 9},
            {"n_resamples": 9, "metric": s.ks_calibration_error, "resample_forecasts": False},
            order=True,
        ),
        *(
            recipe
            for interval in intervals
            for recipe in _recipes(interval, {"n_resamples": 99}, infinite=True, order=True)
        ),
        *_recipes(s.corp_decomposition, top, classwise),
        *_recipes(s.corp_decomposition, {**top, **log}, infinite=True),
        *_recipes(s.calibration_test, few, {**top, **few}, {**classwise, **few}, infinite=True),
        *_recipes(s.errors.corp_test, *tested, order=True, infinite=True),
        *_recipes(s.errors.corp_bands, {**top, **few}, order=True),
        *_recipes(s.errors.corp_bands, {**top, **few, "band": "confidence"}, order=True),
        *_recipes(s.corp_decomposition, binary=True),
        # Forecasts of 0 and 1 that are wrong are impossible: a statistic of infinity.
        *(
            recipe
            for function in (
                s.significance.spiegelhalter_test,
                s.hosmer_lemeshow_test,
                s.significance.cumulative_test,
            )
            for recipe in (
                *_recipes(function, binary=True, infinite=True),
                *_recipes(function, draws, binary=True, infinite=True, order=True),
            )
        ),
        *_recipes(s.significance.spiegelhalter_test, side, binary=True, infinite=True),
        *_recipes(
            s.significance.cumulative_test, {"statistic": "kuiper"}, binary=True, infinite=True
        ),
        *_recipes(ratio, joint, {"hypothesis": "intercept"}, binary=True, infinite=True),
        *_recipes(ratio, {**joint, **draws}, binary=True, infinite=True, order=True),
        # One effective sample, by its weight, leaves the whole line as the interval.
        *_recipes(s.calibration_intercept_slope, binary=True, infinite=True),
        *_recipes(s.calibration_summary, binary=True, infinite=True, order=True),
        *_recipes(by_group, {}, classwise, infinite=True, one_row=True, **folds),
        *_recipes(windows, {}, infinite=True, order=True),
        *_recipes(curves, {}, order=True),
        *_recipes(regret, {**act, **top}, {**act, **classwise}, infinite=True, **folds),
        *_recipes(regret, {"costs": [[0, 1], [3, 0]]}, binary=True, infinite=True, **folds),
        *_recipes(net_benefit, {}, {"threshold": 0.1}, classwise, top),
    ]


def _other_recipes():
    s = skcalib
    two = {"takes": "two forecasts"}
    return [
        *_recipes(s.calibration_improvement, infinite=True, **two),
        *_recipes(s.calibration_improvement, {"loss": "log"}, infinite=True, **two),
        *_recipes(s.compare_calibration, {"block_size": 2}, {}, order=True, **two),
        *_recipes(s.sharpness, {"transform": "simplex"}, order=True),  # folds again
        *_recipes(differences_at_equal_scores, takes="features", order=True),
    ]


def _display_recipes():
    s = skcalib
    fast = {"recalibrator": "isotonic"}  # the default is slow
    small = {"n_repeats": 2}
    decisions = {"infinite": True, "one_row": True}
    by_group = _given(s.GroupCalibrationDisplay.from_predictions, _two_groups)
    features = {"takes": "features", "infinite": True, "order": True}
    return [
        *_recipes(
            s.ReliabilityDisplay.from_predictions,
            {},
            {"strategy": "quantile", "band": None, "notion": "classwise"},
            {"strategy": "kernel", "band": None},
            {"strategy": "uniform", "band": "confidence", "notion": "top_label"},
            infinite=True,
            one_row=True,
            order=True,
        ),
        *_recipes(s.RecalibrationDisplay.from_predictions, fast, order=True, one_row=True),
        *_recipes(s.displays.EstimationDisplay.from_predictions, small, infinite=True, order=True),
        *_recipes(s.MurphyDisplay.from_predictions, {}, {"notion": "classwise"}, **decisions),
        *_recipes(s.DecisionCurveDisplay.from_predictions, {}, **decisions),
        *_recipes(by_group, {}, {"notion": "classwise"}, order=True, **decisions),
        *_recipes(s.GroupingDisplay.from_predictions, {}, **features),
        *_recipes(s.DecompositionDisplay.from_predictions, {}, {"loss": "log"}, **features),
    ]


def _moment_recipes():
    s = skcalib
    improvement = _moment_pair(dawid_sebastiani_improvement)
    ordered = {"order": True, "infinite": True}
    return [
        *_recipes(s.regression.dawid_sebastiani_score, takes="moments"),
        *_recipes(improvement, takes="moment pairs", infinite=True),
        *_recipes(s.regression.variance_reliability, {"n_bins": 3}, takes="moments", infinite=True),
        *(
            recipe
            for function in (
                s.regression.kernel_calibration_error_gaussian,
                s.regression.kernel_calibration_test_gaussian,
            )
            for recipe in (
                *_recipes(function, {}, takes="moments"),
                *_recipes(function, {"statistic": "linear"}, takes="moments", **ordered),
            )
        ),
    ]


FORECASTS = [*_forecast_recipes(), *_other_recipes()]
MOMENTS = list(_moment_recipes())
DISPLAYS = list(_display_recipes())
#: All of the above in one; a second or so each.
REPORT = Recipe(skcalib.CalibrationReport.from_predictions, "features", infinite=True, order=True)

#: Functions of a few numbers or names: valid arguments of each.
SCALARS = {
    skcalib.theory.ece_bias_bound: (1000, 10),
    skcalib.theory.ece_generalization_bound: (1000, 10),
    skcalib.optimal_n_bins: (1000,),
    skcalib.get_scorer: ("neg_brier_calibration_error",),
    skcalib.get_scorer_names: (),
    skcalib.get_scorers: (["neg_brier_calibration_error"],),
    median_distance: (np.eye(3),),
    skcalib.significance.combine_tests: (
        [skcalib.significance.CalibrationTest(0.0, 0.5, 0.0, "test", 2.0)],
    ),
}

#: Simulators, all of them called with ``random_state``.
SIMULATORS = [getattr(datasets, name) for name in datasets.__all__]

#: In the tables, but no function of `skcalib` itself: the door of a class, and one of a module.
BESIDE = {
    *("CalibrationMonitor", "SequentialCalibrationTest", "median_distance"),
}

#: For those who add a score, a smoother, ...: `test_testing` and `test_links` feed them instances.
FOR_EXTENDERS = {*testing.__all__, "fit_link", "fit_bias_corrected"}

#: Public, but fed with other things; suites of their own hold them to the same rules.
ELSEWHERE = {
    "evaluate_supersample": "classifiers: tests/theory/test_generalization.py",
    "read_predictions": "files: tests/io/test_io.py",
    "show_progress": "what runs: tests/report/test_report.py",
    "summarize": "data frames: tests/sketches/test_summarize.py",
    **dict.fromkeys(("from_json", "to_json", "to_onnx"), "fitted maps: tests/test_export.py"),
    "register_converter": "models of scikit-learn: tests/test_export.py",
    "soft_label_decomposition": "several votes per sample: tests/grouping/test_soft_labels.py",
    "grouping_improvement": (
        "two forecasts and features: tests/grouping/test_grouping_improvement.py"
    ),
    "ComparisonReport.from_predictions": "several models: tests/report/test_report.py",
}
DOORS_ELSEWHERE = {  # doors of displays that fetch probabilities and then do as from_predictions
    *("from_estimator", "from_estimators", "from_cv_results", "from_grouping_estimator"),
    *("from_recalibrator", "from_recalibrators", "from_test"),
    "from_monitor",  # tests/displays/test_monitor_display.py
    "from_bytes",  # of a sketch: test_sketch.py
    *("from_sketch", "from_sketches"),  # test_report_sketch.py
}


#: Values of parameters beside those that an annotation lists.
VALUES = {
    "alpha": [0.3], "bandwidth": [0.2], "bins": [smoothers.QuantileBins(3)], "block_size": [3],
    "confidence_level": [0.6], "costs": [[[0, 1], [3, 0]]], "cv": [3], "ddof": [1],
    "distance": [scores.Brier(), "l2"], "features": [3], "forecast_bandwidth": [0.7],
    "kernel": [kernels.GaussianKernel(0.4)], "loss": ["log", "spherical", "classwise_log"],
    "locations": [3], "max_iter": [3], "min_samples": [4], "n_bins": [4, "auto"], "n_cells": [500],
    "n_knots": [6], "n_neighbors": [9], "n_permutations": [9], "n_resamples": [29],
    "n_windows": [1], "norm": [1.5, 3],
    "notion": ["top_label", "classwise", notions.TopK(2), notions.Classwise()],
    "partitioner": ["kmeans", "stump", Ridge()], "pos_label": [0], "quantile": [0.8],
    "recalibrator": ["isotonic", "temperature"], "region_ratio": [5], "shrinkage": [0.5, 20.0],
    "smoother": [smoothers.NearestNeighborsSmoother(9), smoothers.QuantileBins(4), "isotonic"],
    "strategy": ["uniform", "quantile"], "target_bandwidth": [0.7], "target_prior": [[0.7, 0.3]],
    "test_size": [0.3], "threshold": [0.2], "window": [25],
    "method": ["auto", "direct", "cross", "risk"], "metric": ["ece", "log", "kernel", "smooth"],
}  # fmt: skip
NOT_VARIED = {"n_jobs", "verbose", "labels", "random_state", "name", "tol"}


def other_values(function):
    """Names of options and a value of each that is not its default."""
    for option in inspect.signature(function).parameters.values():
        listed = re.findall(r"'(\w+)'", str(option.annotation))
        others = VALUES.get(option.name, [True] if str(option.annotation) == "bool" else [])
        values = [*listed, *(choice for choice in others if choice not in listed)]
        for value in () if option.name in NOT_VARIED else values:
            if value != option.default:
                yield option.name, value


def numbers(result):
    """Every number of a result, in a fixed order: a flat float64 array."""
    return np.array([*_each(result)], dtype=np.float64)


def _each(value):
    if isinstance(value, np.ndarray):
        value = value.astype(float) if value.dtype.kind in "biuf" else value
        value = value.ravel().tolist() if value.dtype.kind in ("f", "O") else ()
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        yield float(value)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _each(element)
    elif isinstance(value, dict):
        yield from _each([value[key] for key in sorted(value, key=str)])
    elif is_dataclass(value):
        yield from _each([getattr(value, field.name) for field in fields(value)])
    elif type(value).__module__.startswith("skcalib"):
        yield from _each({name: member for name, member in vars(value).items() if name[-1] != "_"})
