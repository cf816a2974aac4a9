"""The base of estimators that inspect a classifier: fit, then read the attributes.

They never train, so none has a method `score`.
"""

from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, validate_data

from skcalib._validation import check_weight, check_y
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
        if fit_params and (self.estimator is None or self.cv is None):
            raise ValueError(
                f"{type(self).__name__}.fit got {', '.join(sorted(fit_params))}, but only a "
                "classifier that is cross-validated has a use for it: pass estimator and cv, or "
                "drop it."
            )
        if self.estimator is None:
            return self._given_forecasts(X, y, sample_weight)
        check_consistent_length(X, y)
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        params, groups = self._route(weight, fit_params)
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
        if not self._trains():
            return {}, None
        params = dict(fit_params)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if params and get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **params)
            return routed.estimator.fit, routed.splitter.split.get("groups")
        groups = params.pop("groups", None)
        return params, groups

    def _trains(self):
        """Whether clones of the classifier are fitted."""
        given = self.estimator is None or isinstance(self.estimator, FrozenEstimator)
        return self.cv is not None and not given

    def get_metadata_routing(self):
        """Routing: with `cv`, metadata of `fit` go to the classifier's `fit` and to the splitter.

        Returns
        -------
        MetadataRouter
            The routing information.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if self._trains():
            to_fit = MethodMapping().add(caller="fit", callee="fit")
            router.add(estimator=self.estimator, method_mapping=to_fit)
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=self.cv, method_mapping=to_split)
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
