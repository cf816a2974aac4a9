"""The base of estimators that inspect a classifier: fit, then read the attributes.

They never train, so none has a method `score`.
"""

from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, validate_data

from skcalib._checks import check_weight
from skcalib._labels import check_y
from skcalib.responses import held_out_proba


class ClassifierInspector(MetaEstimatorMixin, BaseEstimator):
    """Base class: turns (estimator, X, y) into held-out forecasts in all forms of use.

    Subclasses have the parameters ``estimator, cv, response_method, n_jobs``.
    """

    def _forecasts(self, X, y, sample_weight, fit_params):
        """Probabilities, labels and weights of the samples that can be assessed, and which.

        Sets ``classes_``, the class of each column.
        """
        y = self._check_y(y)
        if self.estimator is None:
            return self._given_forecasts(X, y, sample_weight)
        check_consistent_length(X, y)
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        params, groups = ({}, None) if self.cv is None else self._route(weight, fit_params)
        proba, self.classes_, tested = held_out_proba(
            self.estimator,
            X,
            y,
            cv=self.cv,
            response_method=self.response_method,
            n_jobs=self.n_jobs,
            fit_params=params,
            groups=groups,
            owner=type(self).__name__,
        )
        validate_data(self, X, skip_check_array=True)  # remembers the features
        return proba[tested], y[tested], None if weight is None else weight[tested], tested

    def _check_y(self, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return check_y(y, name="y")

    def _given_forecasts(self, X, y, sample_weight):
        """As `_forecasts`, without a classifier."""
        raise NotImplementedError

    def _route(self, sample_weight, fit_params):
        """Parameters of the classifier's fit, and groups for the splitter."""
        fit_params = dict(fit_params)
        groups = fit_params.pop("groups", None)
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        if not fit_params:
            return {}, groups
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **fit_params).estimator.fit, groups
        return fit_params, groups

    def get_metadata_routing(self):
        """Routing: `fit` passes its metadata on to the `fit` of the wrapped classifier.

        Returns
        -------
        MetadataRouter
            The routing information.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if self.estimator is not None:
            router.add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.estimator is not None:
            wrapped = get_tags(self.estimator).input_tags
            tags.input_tags.sparse = wrapped.sparse
            tags.input_tags.allow_nan = wrapped.allow_nan
            tags.input_tags.positive_only = wrapped.positive_only
        return tags
