"""Every parameter of every public callable refuses about twenty kinds of garbage in one sentence.

The sentence names the parameter, and it comes before the computation. What is valid for a parameter
is read from its annotation; the tables below hold the rest.
"""

import inspect
import re
import warnings

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
from skcalib import kernels, notions, scores, smoothers
from skcalib.grouping import differences_at_equal_scores
from skcalib.problem import check_problem

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

# --- What is valid --------------------------------------------------------------------------------

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
    "Label": {"None", "0", "True"},  # True is the class 1
}
#: The same for the name of a parameter.
VALID_NAMES = {
    "n_jobs": {"-1", "np.int64"},
    "verbose": {"0", "True"},
    "ddof": {"0"},
    "tol": {"1.5"},
    "shrinkage": {"0", "inf"},
    "locations": {"None"} - {"None"},
    "bandwidth": {"1.5"},
    "norm": {"inf"},
    **dict.fromkeys(("lipschitz", "ecmi", "residual_cmi", "fcmi", "log_covering_number"), {"0"}),
    **dict.fromkeys(("quantile", "heterogeneity", "mixture", "n_permutations"), {"0"}),
    **dict.fromkeys(("intercept", "slope"), {"0", *NEGATIVE}),
    "classes": {"0", "True"},  # True is the class 1
}


def valid_kinds(name, parameter):
    """Kinds of garbage that are no garbage for a parameter."""
    parts = str(parameter.annotation).split(" | ")
    return VALID_NAMES.get(name, set()).union(*(VALID.get(part, set()) for part in parts))


# --- Data -----------------------------------------------------------------------------------------

DRAWN = np.random.default_rng(0)
P = DRAWN.uniform(0.1, 0.9, 40)
Y = (DRAWN.random(40) < P).astype(int)
PAIRS = np.column_stack([1 - P, P])
X = np.column_stack([np.log(P / (1 - P)), DRAWN.normal(size=40)])
CLASSIFIER = GaussianNB().fit(X, Y)
MAP = skcalib.TemperatureScaling().fit(PAIRS, Y)
SKETCH = skcalib.ForecastSketch([0, 1]).fit(Y, PAIRS)
REPORT = skcalib.CalibrationReport.from_predictions(Y, PAIRS)
#: What required parameters, and data, are by their name.
GIVEN = {
    "y_true": Y,
    "y": Y,
    "y_proba": PAIRS,
    "X": X,
    "estimator": CLASSIFIER,
    "estimators": {"one": CLASSIFIER},
    "sketch": SKETCH,
    "sketches": {"one": SKETCH},
    "recalibrator": MAP,
    "recalibrators": [MAP],
    "by": np.where(np.arange(40) % 2, "odd", "even"),
    "first": PAIRS,
    "second": PAIRS[::-1],
    "before": PAIRS,
    "after": PAIRS[::-1],
    "y_mean": P,
    "y_var": P,
    "locations": np.eye(2),
    "problem": check_problem(Y, PAIRS),
    "name": "neg_brier_calibration_error",
    "names": ["neg_brier_calibration_error"],
    "n_samples": 40,
    "n_bins": 5,
    "groups": [[0], [1]],
    "costs": [[0, 1], [1, 0]],
    "threshold": 0.5,
    "forecast": PAIRS,
    "matrix": np.eye(2),
    "kernel": kernels.LaplacianKernel(),
    "reports": {"one": REPORT},
}

#: Arguments that the functions of one name need instead of these.
OWN = {
    "ClassGroups": {"groups": [[0], [1]]},
    "get_scorers": {},
    "ForecastSketch.from_bytes": {"data": SKETCH.to_bytes()},
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
    "calibration_by_group": {"by": GIVEN["by"]},
    "hosmer_lemeshow_test": {},
    "decision_regret": {"threshold": 0.5},
    "ComparisonReport.from_predictions": {"y_proba": {"one": PAIRS}},
    "summarize": {"frame": pd.DataFrame({"y": Y, "p": P}), "y_true": "y", "y_proba": "p"},
}
#: Parameters that hold data, not options; the suites of inputs are about them.
DATA = {
    "y_true", "y", "y_proba", "X", "sample_weight", "groups", "by", "features", "first", "second",
    "before", "after", "y_mean", "y_var", "votes", "forecast", "frame", "sketch", "sketches",
    "problem", "reports", "cv_results", "calibrations", "data", "curves", "terms", "diagrams", "maps",
    "regions", "location_labels", "matrix",
}  # fmt: skip
FITTED_TO = {
    skcalib.MultilabelRecalibrator: (PAIRS, np.column_stack([Y, 1 - Y])),
    skcalib.VarianceScaling: (np.column_stack([P, P]), Y.astype(float)),
    skcalib.ForecastSketch: (Y, PAIRS),
    skcalib.IncrementalReliability: (Y, PAIRS),
    **dict.fromkeys(SMOOTHERS, (PAIRS, PAIRS)),
}
FITTED_WITH = {
    skcalib.CalibrationErrorEstimator: {"estimator": CLASSIFIER},
    skcalib.GroupingLossEstimator: {"estimator": CLASSIFIER},
    skcalib.ForecastSketch: {"labels": [0, 1]},
    skcalib.IncrementalReliability: {"labels": [0, 1]},
    smoothers.CrossFitted: {"estimator": LogisticRegression()},
}


def fitting(estimator):
    """A function with the parameters of an estimator, which fits it."""
    data = FITTED_TO.get(estimator, (PAIRS, Y) if estimator in RECALIBRATORS else (X, Y))

    def fit(**parameters):
        return estimator(**{**FITTED_WITH.get(estimator, {}), **parameters}).fit(*data)

    fit.__name__, fit.__signature__ = estimator.__name__, inspect.signature(estimator)
    return fit


def callables():
    """Everything public that has parameters, by name."""
    public = public_names()
    found = {
        public_name(one): one
        for one in (*public.values(), *SCALARS, *SIMULATORS, differences_at_equal_scores)
        if inspect.isfunction(one)
    }
    for name, owner in public.items():
        if inspect.isclass(owner):
            doors = [door for door in dir(owner) if door.startswith("from_")]
            found |= {f"{name}.{door}": getattr(owner, door) for door in doors}
            if owner in public_estimators():
                found[name] = fitting(owner)
            elif owner not in (*ABSTRACT, *RECORDS) and not name.endswith("Display"):
                found[name] = owner
    return {name: one for name, one in found.items() if list(options_of(name, one))}


#: Results, which nobody makes.
RECORDS = (skcalib.RecalibratorSelection,)


def options_of(name, function):
    """Parameters that are no data, with the kinds of garbage that they must refuse."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in DATA and parameter.kind not in (2, 4):
            valid = valid_kinds(parameter.name, parameter)
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
    found = {
        f"{parameter}={kind}": words
        for parameter, kinds in options_of(name, function)
        for kind in kinds
        if (words := complaint(name, function, arguments, parameter, GARBAGE[kind]))
    }
    assert not found, "\n".join(f"{case}: {words}" for case, words in found.items())
