"""Base classes of estimators around another estimator.

`MetaEstimator` decides which estimator is fitted, with which metadata and tags.
`ClassifierInspector` assesses a classifier; `ClassifierTrainer` fits one and cross-fits its
probabilities.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import InputTags, Tags, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from skcalib._util.parallel import run_each
from skcalib._util.validation import check_indices, check_weight, weighted_rows
from skcalib.data.clusters import folds_of_groups
from skcalib.data.labels import check_y, has_columns, unique_labels
from skcalib.data.notions import Multilabel, resolve_notion
from skcalib.data.problem import Problem, check_problem
from skcalib.estimators._response import (
    classes_of,
    classifier_proba,
    cross_fit,
    fit_fold,
    held_out_problem,
    is_fitted,
    label_proba,
    refuse_unlabelled,
    use_fitted,
)
from skcalib.recalibration.fitting import warn_without_weight, weight_params


class MetaEstimator(MetaEstimatorMixin, BaseEstimator):
    """Base class: which estimator is fitted, and with which metadata and tags.

    A `FrozenEstimator` is used as it is, and the data are held out. Everything else is cloned.
    Subclasses have the parameters ``estimator`` and ``cv``.
    """

    estimator: Any  # a classifier or regressor, or None for the default
    #: Methods that take metadata.
    _fitting_methods: tuple[str, ...] = ("fit",)
    #: Whether the object itself requests ``sample_weight``.
    _requests_weight = False
    #: What uses the weights if the wrapped estimator cannot, for the warning.
    _weighted = "recalibrator"

    def _default(self):
        """What ``estimator=None`` stands for."""
        return LogisticRegression()

    def _wrapped(self):
        """The given estimator, or the default one."""
        if self.estimator is not None:
            return self.estimator
        default = self._default()
        if get_config()["enable_metadata_routing"]:
            default.set_fit_request(sample_weight=True)
        return default

    def _is_frozen(self):
        return isinstance(self.estimator, FrozenEstimator)

    def _trains(self):
        """Whether clones of the estimator are fitted."""
        return not self._is_frozen()

    def _splits(self):
        """Whether a splitter is used, which may take metadata."""
        return True

    def _is_fitted(self):
        return is_fitted(self.estimator)

    def _check_wrapped(self):
        """A frozen estimator must be fitted; any other is refitted, with a warning."""
        if self._is_frozen():
            if not self._is_fitted():
                kind = type(self.estimator.estimator).__name__
                raise NotFittedError(
                    f"{type(self).__name__} was given a FrozenEstimator of {kind}, which is not "
                    "fitted: fit it on other data before freezing it."
                )
        elif self.estimator is not None and self._is_fitted():
            warnings.warn(
                f"The fitted {type(self.estimator).__name__} is cloned and fitted again, out of "
                "fold. To use it as it is, with (X, y) as held-out data, wrap it in "
                "sklearn.frozen.FrozenEstimator.",
                UserWarning,
                stacklevel=4,  # the caller of fit
            )

    def _check_passed(self, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return y

    def _route(self, caller, params, weight=None):
        """Metadata -> (parameters of the estimator's fit, parameters of the splitter).

        Without metadata routing `weight` goes wherever the estimator takes weights.
        """
        if get_config()["enable_metadata_routing"]:
            metadata = params if weight is None else {"sample_weight": weight, **params}
            routed = process_routing(self, caller, **metadata)
            return routed.estimator.fit if self._trains() else {}, routed.splitter.split
        params = dict(params)
        groups = params.pop("groups", None)
        if weight is not None and self._trains():
            warn_without_weight(self._wrapped(), self._weighted)
            params = {**weight_params(self._wrapped(), weight), **params}
        return params, {} if groups is None else {"groups": groups}

    def get_metadata_routing(self) -> MetadataRouter:
        """Routing: metadata of `fit` go to the `fit` of the estimator and to the splitter.

        Returns
        -------
        MetadataRouter
            The routing information.
        """
        router = MetadataRouter(owner=self)
        if self._requests_weight:
            router.add_self_request(self)
        to_fit, to_split = MethodMapping(), MethodMapping()
        for method in self._fitting_methods:
            to_fit.add(caller=method, callee="fit")
            to_split.add(caller=method, callee="split")
        if self._splits():
            router.add(splitter=self.cv, method_mapping=to_split)
        if self._trains():
            router.add(estimator=self._wrapped(), method_mapping=to_fit)
        return router

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        wrapped = get_tags(self._wrapped()).input_tags
        tags.input_tags.sparse = wrapped.sparse
        tags.input_tags.allow_nan = wrapped.allow_nan
        tags.input_tags.positive_only = wrapped.positive_only
        return tags


# --- Estimators that assess a classifier ----------------------------------------------------------


class ClassifierInspector(MetaEstimator):
    """Base class: obtains held-out forecasts from (estimator, X, y) in all forms of use.

    Subclasses have the parameters ``estimator, cv, response_method, n_jobs``. They never train, so
    none has a method `score`.
    """

    #: In a pipeline with metadata routing, clusters need no request, as those of a splitter.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    _requests_weight = True
    _weighted = "estimate"
    #: Whether cells of an indicator matrix may be missing.
    _takes_incomplete = False

    def _forecasts(self, X, y, sample_weight, fit_params, *, groups=None, **given):
        """The `Problem` of the samples that can be assessed, and their rows.

        Sets ``classes_``, the class of each column. Without a classifier `given` is passed on to
        `_given_forecasts`. A `Problem` in place of y is validated already; X has its rows. `groups`
        are the clusters of the samples; a splitter gets them too.
        """
        if isinstance(y, Problem):
            kind: dict[str, Any] = {"soft": True, "incomplete": self._takes_incomplete}
            check_problem(y, None, resolve_notion(self.notion), **kind)  # checks its kind
            self.classes_ = y.classes
            validate_data(self, X, skip_check_array=True)
            return y, np.arange(len(y.weight))
        check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups, **given)
        several = has_columns(y)
        if not several:
            y = check_y(self._check_passed(y), name="y")
        elif self._trains():
            raise ValueError(
                f"{type(self).__name__} cannot fit a classifier to labels of shape {np.shape(y)}: "
                "pass cv=None and a classifier that is fitted, or its probabilities."
            )
        if fit_params and (self.estimator is None or self.cv is None):
            raise ValueError(
                f"{type(self).__name__}.fit got {', '.join(sorted(fit_params))}, but only a "
                "classifier that is cross-validated uses it: pass estimator and cv, or "
                "drop it."
            )
        if self.estimator is None:
            given |= {"sample_weight": sample_weight, "groups": groups}
            problem = self._given_forecasts(X, y, **given)
            self.classes_ = problem.classes
            return problem, weighted_rows(sample_weight, len(y))
        check_consistent_length(X, y)
        if several:
            return self._soft_problem(X, y, sample_weight), weighted_rows(sample_weight, len(y))
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        params, split_params = {}, {}
        if self._trains():
            metadata = fit_params if groups is None else {"groups": groups, **fit_params}
            params, split_params = self._route("fit", metadata, weight)
        how = {"cv": self.cv, "response_method": self.response_method, "n_jobs": self.n_jobs}
        how |= {"fit_params": params, "owner": type(self).__name__}
        how |= {"groups": groups, "split_groups": split_params.get("groups")}
        problem, rows = held_out_problem(self.estimator, X, y, weight, **how)
        validate_data(self, X, skip_check_array=True)  # stores the number and names of the features
        self.classes_ = problem.classes
        return problem, rows

    def _soft_problem(self, X, y, sample_weight):
        """The `Problem` of soft labels, whose columns are the classes of a fitted classifier."""
        if not self._is_fitted():
            raise NotFittedError(
                f"{type(self).__name__} needs a fitted classifier for soft labels: fit it on other "
                "data first."
            )
        notion, how = resolve_notion(self.notion), {"response_method": self.response_method}
        if isinstance(notion, Multilabel):
            proba, labels = label_proba(self.estimator, X, **how), None
        else:
            proba, labels = classifier_proba(self.estimator, X, **how), classes_of(self.estimator)
        data = y, proba, notion, sample_weight, labels
        how = {"incomplete": self._takes_incomplete}
        problem = check_problem(*data, soft=True, remedy="labels", **how)
        validate_data(self, X, skip_check_array=True)
        self.classes_ = problem.classes
        return problem

    def _given_forecasts(self, X, y, *, sample_weight, groups, **given):
        """The `Problem` without a classifier; `given` are further arguments of `fit`."""
        raise NotImplementedError

    def _trains(self):
        return self.estimator is not None and self.cv is not None and not self._is_frozen()

    _splits = _trains

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:  # then X holds probabilities
            tags.input_tags = InputTags()
        return tags


# --- Estimators that train a classifier and cross-fit its probabilities ---------------------------


class ClassifierTrainer(MetaEstimator):
    """Base class: trains a classifier and cross-fits its probabilities.

    Subclasses have the parameters ``estimator, cv, response_method, n_jobs``.
    """

    #: It maps features, where a recalibrator maps probabilities.
    _of_features = True

    def _check_data(self, X, y):
        """Labels as an array; also stores the number and names of the features of X."""
        check_indices(X=X, y=self._check_passed(y))
        y = column_or_1d(y, warn=True)
        with np.errstate(invalid="ignore"):  # infinity is cast to an integer before the check
            check_classification_targets(y)
        y = check_y(y, name="y")
        check_consistent_length(X, y)
        self._check_wrapped()
        refuse_unlabelled(self._wrapped(), y)
        validate_data(self, X, skip_check_array=True)
        return y

    def _check_new(self, X):
        """Compare the features with those of `fit`; 1-d data are checked by the classifier."""
        if getattr(X, "ndim", 2) != 1:
            validate_data(self, X, reset=False, skip_check_array=True)

    def _folds(self, X, y, split_params):
        """Pairs (train, test), drawn once so that all later steps use the same folds."""
        splitter = check_cv(self.cv, y, classifier=True)
        return folds_of_groups(splitter, X, y, **split_params)

    def _held_out(self, X, y, folds, params, weight=None, *, ensemble=False):
        """A list of `HeldOut`: one, or one per fold."""
        if self._is_frozen():
            return [self._use_frozen(X, y, weight)]
        if ensemble:
            return self._fit_folds(X, y, folds, params, weight)
        return [self._cross_fit(X, y, folds, params, weight)]

    def _use_frozen(self, X, y, weight):
        classes = self.estimator.classes_
        unknown = np.setdiff1d(y, classes)
        if len(unknown):
            raise ValueError(
                f"y contains {unknown.tolist()[0]!r}, but the classes of the frozen classifier are "
                f"{classes.tolist()}: no map of its probabilities can predict it."
            )
        how = classes, self.response_method, weight
        return use_fitted(self.estimator, X, *how, rows=np.arange(len(y)))

    def _cross_fit(self, X, y, folds, params, weight):
        how = {"response_method": self.response_method, "n_jobs": self.n_jobs, "weight": weight}
        return cross_fit(self._wrapped(), X, y, folds, params, **how)

    def _fit_folds(self, X, y, folds, params, weight):
        (X,) = indexable(X)
        options = unique_labels(y), self.response_method, params, weight
        tasks = ((self._wrapped(), X, y, *fold, *options) for fold in folds)
        return run_each(fit_fold, tasks, n_jobs=self.n_jobs)
