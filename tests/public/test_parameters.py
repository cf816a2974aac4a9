"""Every parameter of every public callable refuses about twenty kinds of garbage in one sentence.

The sentence names the parameter, and it comes before the computation. What is valid for a parameter
is read from its annotation; the tables below hold the rest.
"""

import inspect
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from public_estimators import ABSTRACT, RECALIBRATORS, SMOOTHERS, public_estimators
from public_functions import SCALARS, SIMULATORS, public_name, public_names
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib import kernels, smoothers
from skcalib.data.problem import check_problem
from skcalib.grouping import differences_at_equal_scores

GARBAGE = {
    "None": None,
    "no": "no",
    "nonsense": "nonsense",
    "empty string": "",
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "huge": 10**400,
    "list": [],
    "dict": {},
    "set": {1, 2},
    "object": object(),
    "lambda": lambda *_: None,
    "array": np.array([1, 2]),
    "bytes": b"x",
    "complex": 1j,
    "True": True,
    "np.float64": np.float64(-2.5),
    "np.int64": np.int64(-3),
    "np.str_": np.str_("nonsense"),
    "np.nan": np.float64("nan"),
    "class": LogisticRegression,
}
TEXTS = {"no", "nonsense", "empty string", "np.str_"}
NEGATIVE = {"-1", "np.int64", "np.float64"}

#: Kinds of garbage that are valid for an annotation, or for a part of one between vertical bars.
VALID = {
    "None": {"None"},
    "bool": {"True"},
    "str": TEXTS,
    "float": {"1.5"},
    "CV": {"None"},
    "RandomState": {"None", "0"},
    "SmootherLike": {"None"},
    "KernelLike": {"None"},
    "PartitionerLike": {"None"},
    "RecalibratorLike": {"None"},
    "Label": {"None", "0", "True"},  # True is the class 1
    "Callable[..., float]": {"lambda"},
    "Callable[..., np.ndarray]": {"lambda"},
}
#: The same for the name of a parameter.
VALID_NAMES = {
    "n_jobs": {"-1", "np.int64"},
    "verbose": {"0", "True"},
    "memory": {"None", "no", "nonsense", "np.str_"},  # folders
    "ddof": {"0"},
    "tol": {"1.5"},
    "shrinkage": {"0", "inf"},
    "names": {"list", "dict"},  # of no names
    "sample_sizes": {"array"},
    "truth": {"0", "dict", *NEGATIVE},
    "bandwidth": {"1.5"},
    "norm": {"inf"},
    **{name: {"0"} for name in ("lipschitz", "ecmi", "residual_cmi", "fcmi")},
    **{name: {"0"} for name in ("log_covering_number", "quantile", "heterogeneity", "mixture")},
    "n_permutations": {"0"},
    **{name: {"0", *NEGATIVE} for name in ("intercept", "slope")},
    "classes": {"0", "True"},  # True is the class 1
}
ASYMPTOTIC = ("cumulative", "hosmer_lemeshow", "logistic_calibration", "spiegelhalter")
#: The same for parameters of single callables.
VALID_HERE = {
    **{(f"{name}_test", "n_resamples"): {"0"} for name in ASYMPTOTIC},
    ("CalibrationErrorEstimator", "labels"): {"array"},  # those of the classifier count
    ("GroupingLossEstimator", "labels"): {"array"},
    ("DiagonalOrderPreserving", "random_state"): {"0"},
    ("StackedRecalibrator", "random_state"): {"0"},
}


def valid_kinds(name, parameter):
    """Kinds of garbage that are no garbage for a parameter of a callable."""
    parts = str(parameter.annotation).split(" | ")
    valid = VALID_NAMES.get(parameter.name, set()) | VALID_HERE.get((name, parameter.name), set())
    return valid.union(*(VALID.get(part, set()) for part in parts))


DRAWN = np.random.default_rng(0)
P = DRAWN.uniform(0.1, 0.9, 40)
Y = (DRAWN.random(40) < P).astype(int)
PAIRS = np.column_stack([1 - P, P])
X = np.column_stack([np.log(P / (1 - P)), DRAWN.normal(size=40)])
CLASSIFIER = GaussianNB().fit(X, Y)
MAP = skcalib.TemperatureScaling().fit(PAIRS, Y)
SKETCH = skcalib.ForecastSketch([0, 1]).fit(Y, PAIRS)
MONITOR = skcalib.CalibrationMonitor(window=20).fit(Y, PAIRS)
STREAM = skcalib.SequentialCalibrationTest().fit(Y, PAIRS)
REPORT = skcalib.CalibrationReport.from_predictions(Y, PAIRS)
#: What required parameters, and data, are by their name.
GIVEN = {
    **dict.fromkeys(("y_true", "y"), Y),
    **dict.fromkeys(("y_proba", "first", "before", "forecast"), PAIRS),
    **dict.fromkeys(("y_mean", "y_var"), P),
    "X": X,
    "estimator": CLASSIFIER,
    "estimators": {"one": CLASSIFIER},
    "sketch": SKETCH,
    "sketches": {"one": SKETCH},
    "recalibrator": MAP,
    "recalibrators": [MAP],
    "by": np.where(np.arange(40) % 2, "odd", "even"),
    "after": PAIRS[::-1],
    "locations": np.eye(2),
    "problem": check_problem(Y, PAIRS),
    "name": "neg_brier_calibration_error",
    "names": ["neg_brier_calibration_error"],
    "n_samples": 40,
    "n_bins": 5,
    "costs": [[0, 1], [1, 0]],
    "threshold": 0.5,
    "rule": lambda p, q, y, z: np.sum(p - y, 1),
    "kernel": kernels.LaplacianKernel(),
    "reports": {"one": REPORT},
    "monitor": MONITOR,
    "test": STREAM,
}

TWO_GROUPS = ("calibration_by_group", "compare_windows", "calibration_curve_equality_test")
#: Arguments that the functions of one name need instead of these.
OWN = {
    "ReliabilityDisplay.from_cv_results": {
        "cv_results": {
            "estimator": [CLASSIFIER, CLASSIFIER],
            "indices": {"test": [np.arange(20), np.arange(20, 40)]},
        }
    },
    "GroupingDisplay.from_grouping_estimator": {
        "estimator": skcalib.GroupingLossEstimator(n_permutations=0).fit(X, Y, y_proba=PAIRS)
    },
    "RecalibrationDisplay.from_estimator": {
        "estimator": skcalib.RecalibratedClassifierCV(FrozenEstimator(CLASSIFIER)).fit(X, Y)
    },
    **{name: {"by": GIVEN["by"]} for name in TWO_GROUPS},
    "expected_performance": {"labelled": (Y, PAIRS)},
    "combine_tests": {"tests": [skcalib.significance.calibration_e_value(Y, PAIRS)]},
    "compare_calibration": {"second": PAIRS[::-1]},
    "decision_regret": {"threshold": 0.5},
    "RecalibrationDisplay.from_predictions": {"recalibrator": "platt"},  # the default is slow
    "ComparisonReport.from_predictions": {"y_proba": {"one": PAIRS}},
    "summarize": {"frame": pd.DataFrame({"y": Y, "p": P}), "y_true": "y", "y_proba": "p"},
}
#: Parameters that hold data, not options; the suites of inputs are about them.
DATA = {
    "y_true", "y", "y_proba", "X", "sample_weight", "groups", "by", "features", "first", "second",
    "before", "after", "y_mean", "y_var", "votes", "forecast", "frame", "sketch", "sketches",
    "problem", "reports", "cv_results", "data", "regions", "location_labels", "matrix",
}  # fmt: skip
FITTED_TO = {
    skcalib.MultilabelRecalibrator: (PAIRS, np.column_stack([1 - Y, Y])),
    skcalib.regression.VarianceScaling: (np.column_stack([P, P]), Y.astype(float)),
    skcalib.ForecastSketch: (Y, PAIRS),
    skcalib.SequentialCalibrationTest: (Y, PAIRS),
    skcalib.CalibrationMonitor: (Y, PAIRS),
    **dict.fromkeys(SMOOTHERS, (PAIRS, PAIRS)),
}
FITTED_WITH = {
    skcalib.CalibrationErrorEstimator: {"estimator": CLASSIFIER},
    skcalib.GroupingLossEstimator: {"estimator": CLASSIFIER},
    skcalib.ForecastSketch: {"labels": [0, 1]},
    smoothers.CrossFitted: {"estimator": LogisticRegression()},
}


def fitting(estimator):
    """A function with the parameters of an estimator, which fits it."""
    training = FITTED_TO.get(estimator, (PAIRS, Y) if estimator in RECALIBRATORS else (X, Y))

    def fit(**parameters):
        return estimator(**{**FITTED_WITH.get(estimator, {}), **parameters}).fit(*training)

    fit.__name__, fit.__signature__ = estimator.__name__, inspect.signature(estimator)
    return fit


def callables():
    """Everything public that has parameters, by name."""
    public = public_names()
    functions = {
        public_name(function): function
        for function in (*public.values(), *SCALARS, *SIMULATORS, differences_at_equal_scores)
        if inspect.isfunction(function)
    }
    for name, owner in public.items():
        if inspect.isclass(owner):
            doors = [door for door in dir(owner) if door.startswith("from_")]
            functions |= {f"{name}.{door}": getattr(owner, door) for door in doors}
            if owner in public_estimators():
                functions[name] = fitting(owner)
            # Nobody makes displays, which have doors, and the result of a selection.
            elif owner not in ABSTRACT and not name.endswith(("Display", "RecalibratorSelection")):
                functions[name] = owner
    return {
        name: function for name, function in functions.items() if list(options_of(name, function))
    }


def options_of(name, function):
    """Parameters that are no data, with the kinds of garbage that they must refuse."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in DATA and parameter.kind not in (2, 4):
            valid = valid_kinds(name, parameter)
            yield parameter.name, [kind for kind in GARBAGE if kind not in valid]


def required(name, function):
    """Valid values of all required parameters."""
    known = GIVEN | OWN.get(name, {})
    needed = {
        p.name: known[p.name]
        for p in inspect.signature(function).parameters.values()
        if p.name in known and (p.default is p.empty or p.name in ("y_proba", "X"))
    }
    return needed | OWN.get(name, {})


def complaint(name, function, arguments, parameter, garbage):
    """What is wrong with a refusal, None if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**{**arguments, parameter: garbage})
    except (ValueError, TypeError) as error:
        words = str(error)
        if not re.search(rf"\b{parameter}\b", words):
            return f"not named: {type(error).__name__}: {words[:150]}"
        if "np." in words or "\n" in words or not words.endswith(".") or len(words) > 400:
            return f"no plain sentence: {words[:150]}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:150]}"
    return "accepted"


CALLABLES = callables()


@pytest.mark.parametrize("name", CALLABLES)
def test_garbage_is_refused_in_a_sentence(name):
    function = CALLABLES[name]
    arguments = required(name, function)
    complaints = {
        f"{parameter}={kind}": words
        for parameter, kinds in options_of(name, function)
        for kind in kinds
        if (words := complaint(name, function, arguments, parameter, GARBAGE[kind]))
    }
    assert not complaints, "\n".join(f"{case}: {words}" for case, words in complaints.items())


class Unread:
    """Data that tell when they are read."""

    shape = (40, 2)

    def __len__(self):
        raise AssertionError("the data were read")

    def __array__(self, *_, **__):
        raise AssertionError("the data were read")


#: Parameters that are checked by their name, before the data are looked at.
FIRST = ("n_jobs", "random_state", "confidence_level", "cv", "response_method", "verbose", "ax")


@pytest.mark.parametrize("name", [name for name in CALLABLES if "report" not in name.lower()])
def test_shared_parameters_are_refused_before_the_data_are_read(name):
    function = CALLABLES[name]
    if function.__name__ == "fit" and "y_true" not in inspect.signature(function).parameters:
        pytest.skip("the data of fit are those of the class")
    arguments = required(name, function)
    unread = {key: Unread() for key in arguments if key in ("y_true", "y_proba", "X", "y")}
    if name == "summarize":
        unread = {}
    for parameter in FIRST:
        if parameter in inspect.signature(function).parameters:
            words = complaint(name, function, {**arguments, **unread}, parameter, "nonsense")
            assert words is None, (parameter, words)


@pytest.mark.parametrize("kind", [np.float32, np.float64, Fraction, lambda level: level])
def test_a_confidence_level_is_any_real_number(kind):
    level = kind(0.75)
    plain = skcalib.calibration_intercept_slope(Y, PAIRS, confidence_level=0.75)
    assert skcalib.calibration_intercept_slope(Y, PAIRS, confidence_level=level) == plain
    display = skcalib.MurphyDisplay.from_predictions(Y, PAIRS, confidence_level=level)
    assert display.confidence_level == 0.75
    estimator = skcalib.CalibrationErrorEstimator(confidence_level=level).fit(PAIRS, Y)
    assert estimator.confidence_interval_[0] < estimator.confidence_interval_[1]


def test_scalars_of_numpy_are_numbers():
    answers = [
        skcalib.calibration_error(Y, PAIRS, n_bins=n_bins, squared=squared, norm=norm)
        for n_bins, squared, norm in ((4, True, "l2"), (np.int8(4), np.True_, np.str_("l2")))
    ]
    assert answers[0] == answers[1]
    scaling = skcalib.recalibration.MatrixScaling(
        shrinkage=np.float32(1), max_iter=np.int64(9), tol=np.float64(1e-3)
    )
    assert scaling.fit(PAIRS, Y).n_iter_ <= 9
    with pytest.raises(ValueError, match=r"got -0\.5\.$"):
        skcalib.calibration_intercept_slope(Y, PAIRS, confidence_level=np.float64(-0.5))
    index = skcalib.integrated_calibration_index
    for n_jobs in (1, -1, np.int64(1)):
        assert index(Y, PAIRS, n_jobs=n_jobs) == index(Y, PAIRS)


def test_a_subclass_may_use_the_name_of_a_parameter_for_another_thing():
    class Own(skcalib.recalibration.Recalibrator):
        def __init__(self, *, input="proba", loss="log", labels=None, tol="loose"):
            self.input, self.loss, self.labels, self.tol = input, loss, labels, tol

        def _fit_map(self, samples):
            self.injective_ = True

        def _apply_map(self, forecast):
            return forecast

    assert Own().fit(PAIRS, Y).tol == "loose"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("isotonic", skcalib.IsotonicRecalibrator),
        ("platt", skcalib.PlattScaling),
        ("sigmoid", skcalib.PlattScaling),
        ("beta", skcalib.BetaCalibration),
        ("temperature", skcalib.TemperatureScaling),
    ],
)
def test_recalibrators_have_names(name, kind):
    model = skcalib.RecalibratedClassifierCV(FrozenEstimator(CLASSIFIER), name).fit(X, Y)
    assert type(model.recalibrator_) is kind and clone(model).recalibrator == name
    several = skcalib.MultilabelRecalibrator(name).fit(PAIRS, np.column_stack([1 - Y, Y]))
    assert {type(recalibrator) for recalibrator in several.recalibrators_} == {kind}
    if name == "platt":
        by_name, by_kind = (
            skcalib.GroupRecalibrator(recalibrator).fit(PAIRS, Y) for recalibrator in (name, kind())
        )
        np.testing.assert_array_equal(by_name.predict_proba(PAIRS), by_kind.predict_proba(PAIRS))


def test_guessed_names_get_advice():
    words = "RecalibratedClassifierCV has no parameter 'method'. Did you mean 'recalibrator'?"
    with pytest.raises(TypeError, match=f"^{re.escape(words)}$"):
        skcalib.RecalibratedClassifierCV(method="isotonic")
    with pytest.raises(ValueError, match=r"got 'ECE'\. Did you mean 'ece'\?$"):
        skcalib.calibration_error_interval(Y, PAIRS, metric="ECE")


def test_what_a_function_of_the_user_returns_and_numbers_of_other_types():
    """One sentence names the parameter, and numbers of other types are read as numbers."""
    p = np.random.default_rng(0).random(100)
    y = (np.arange(100) % 2).astype(int)
    for function in (skcalib.calibration_error_interval, skcalib.significance.consistency_test):
        with pytest.raises(ValueError, match="metric must return a number, got CorpDecomp"):
            function(y, p, metric=skcalib.corp_decomposition)
    with pytest.raises(ValueError, match="features must have a row for each forecast, got 5"):
        skcalib.GroupRecalibrator().fit(p, y, features=5)
    for number in (Fraction(3, 10), np.float32(0.3)):
        kernel = kernels.LaplacianKernel(number)
        assert type(kernel.bandwidth) is float and np.isfinite(kernel(p[:, None], p[:, None])).all()
        options = {"alpha": number, "window": np.int64(50)}
        monitor = skcalib.CalibrationMonitor(**options).partial_fit(y, 1 - p)
        again = skcalib.CalibrationMonitor.from_bytes(monitor.to_bytes())
        assert monitor.n_alarms_ and again.summary() == monitor.summary()
