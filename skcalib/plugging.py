"""Plug in any object with ``fit(P, y)`` and ``predict_proba(P)`` as a recalibrator.

Pipelines of such objects count as one. Columns always follow a given list of classes.
"""

import warnings

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from skcalib._validation import check_proba


def check_recalibrator(recalibrator):
    """Refuse what cannot be fitted or gives no probabilities."""
    fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "predict_proba")
    if not fits or isinstance(recalibrator, type):
        raise ValueError(
            f"recalibrator must have fit(P, y) and predict_proba(P), but {recalibrator!r} has not: "
            "pass 'auto', an object such as TemperatureScaling(), or a Pipeline that ends in one "
            "(IdentityRecalibrator() where it would end in 'passthrough')."
        )


def fit_recalibrator(recalibrator, proba, y, weight, classes):
    """Clone, tell it the classes of the columns, and fit with the weights that it takes.

    Every parameter ``labels`` and ``*__labels`` is set to `classes`, so that calibration data may
    lack a class.
    """
    fitted = clone(recalibrator, safe=False)  # objects that know no get_params are copied
    if hasattr(fitted, "get_params"):
        names = [name for name in fitted.get_params() if name.split("__")[-1] == "labels"]
        fitted.set_params(**dict.fromkeys(names, classes))
    # The weights have arrived: from here on they are handed over, not requested.
    with config_context(enable_metadata_routing=False):
        fitted.fit(proba, y, **weight_params(fitted, weight))
    return fitted


def weight_params(estimator, weight):
    """Arguments of `fit` that hand weights to an estimator, or to the steps that take them.

    Empty where nothing takes weights.
    """
    if weight is None:
        return {}
    if isinstance(estimator, Pipeline):
        return {
            f"{name}__{key}": value
            for name, step in estimator.steps
            for key, value in weight_params(step, weight).items()
        }
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):  # they pass parameters on
        return weight_params(estimator.estimator, weight)
    takes = hasattr(estimator, "fit") and has_fit_parameter(estimator, "sample_weight")
    return {"sample_weight": weight} if takes else {}


def warn_without_weight(estimator, other):
    """Warn if an estimator, or no step of it, takes weights."""
    if not weight_params(estimator, np.ones(1)):
        warnings.warn(
            f"{type(estimator).__name__} takes no sample_weight: the weights count for the {other} "
            "only.",
            UserWarning,
            stacklevel=4,  # the caller of the method that calls this
        )


def recalibrated_proba(recalibrator, proba, classes):
    """Probabilities (n, K) of a fitted recalibrator, one column for each of `classes`."""
    name = f"{type(recalibrator).__name__}.predict_proba(P)"
    response = recalibrator.predict_proba(proba)
    known = getattr(recalibrator, "classes_", classes)
    if len(known) == 1:  # fitted to a single class
        response = np.ones((len(proba), 1))
    else:
        response = check_proba(response, name=name)
    if response.shape != (len(proba), len(known)):
        raise ValueError(
            f"{name} has shape {response.shape}, but {len(proba)} samples of {len(known)} classes "
            "were asked for."
        )
    return align_columns(response, known, classes)


def align_columns(proba, known, classes):
    """Columns of the classes `known` -> columns of `classes`; 0 for a class that is not known."""
    if np.array_equal(known, classes):
        return proba
    position = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    extra = [label for label in np.asarray(known).tolist() if label not in position]
    if extra:
        raise ValueError(
            f"The fitted model predicts the class {extra[0]!r}, which y lacks (it holds "
            f"{np.asarray(classes).tolist()}): it was not fitted to this y. If it knew its classes "
            "before, wrap the whole of it in sklearn.frozen.FrozenEstimator."
        )
    aligned = np.zeros((len(proba), len(classes)))
    aligned[:, [position[label] for label in np.asarray(known).tolist()]] = proba
    return aligned


def is_injective(recalibrator):
    """What a fitted recalibrator declares: True, False, or None where it declares nothing.

    A Pipeline is injective if all of its steps are.
    """
    if isinstance(recalibrator, Pipeline):
        declared = [is_injective(step) for _, step in recalibrator.steps if step != "passthrough"]
        if None in declared:
            return None
        return all(declared)
    declared = getattr(recalibrator, "injective_", None)
    return None if declared is None else bool(declared)
