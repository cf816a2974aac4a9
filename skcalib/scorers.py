"""Scorers: calibration errors that plug into scikit-learn's searches and cross-validation."""

from copy import deepcopy

from sklearn.utils.metadata_routing import MetadataRequest

from skcalib._labels import check_y
from skcalib.errors import proper_calibration_error
from skcalib.responses import align_classes, classifier_proba


class ProbaScorer:
    r"""Scorer that reads the classes of the fitted classifier: ``scorer(estimator, X, y)``.

    What ``make_scorer(metric, response_method="predict_proba")`` does, and two things it cannot:
    it knows the columns from ``estimator.classes_``, so a fold whose labels lack a class, string
    labels and both binary and multiclass problems just work; and a label that was never seen in
    training counts as one of probability 0. It takes part in metadata routing
    (``set_score_request(sample_weight=True)``) and can be pickled.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_proba, *, labels, sample_weight, **kwargs)`` -> float.
    greater_is_better : bool, default=False
        False for errors: the scorer returns minus the metric.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Decision values become probabilities through the logistic function or the softmax.
    **kwargs
        Further arguments of the metric.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.scorers import ProbaScorer
    >>> scorer = ProbaScorer(proper_calibration_error, loss="log", notion="top_label")
    >>> X, y = load_iris(return_X_y=True)
    >>> len(cross_val_score(LogisticRegression(max_iter=1000), X, y, scoring=scorer, cv=3))
    3
    """

    def __init__(self, metric, *, greater_is_better=False, response_method="auto", **kwargs):
        self.metric = metric
        self.greater_is_better = greater_is_better
        self.response_method = response_method
        self.kwargs = kwargs
        self._request = MetadataRequest(owner=self)
        self._request.score.add_request(param="sample_weight", alias=None)

    def __call__(self, estimator, X, y, *, sample_weight=None):
        """Score of a fitted classifier on (X, y); higher is better."""
        y = check_y(y, name="y")
        proba = classifier_proba(estimator, X, response_method=self.response_method)
        proba, classes = align_classes(proba, estimator.classes_, y)
        value = self.metric(y, proba, labels=classes, sample_weight=sample_weight, **self.kwargs)
        return value if self.greater_is_better else -value

    def set_score_request(self, *, sample_weight):
        """Request `sample_weight` in metadata routing: True, False, None or an alias.

        Parameters
        ----------
        sample_weight : bool, None or str
            The request.

        Returns
        -------
        ProbaScorer
            The scorer itself.
        """
        self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self):
        """Metadata that the scorer requests.

        Returns
        -------
        MetadataRequest
            The request.
        """
        return self._request

    def _accept_sample_weight(self):
        """Asked by scikit-learn's searches where metadata routing is off."""
        return True

    def __repr__(self):
        options = "".join(f", {name}={value!r}" for name, value in self.kwargs.items())
        sign = "" if self.greater_is_better else "neg "
        return f"{type(self).__name__}({sign}{self.metric.__name__}{options})"


neg_brier_calibration_error = ProbaScorer(proper_calibration_error, loss="brier")
neg_log_calibration_error = ProbaScorer(proper_calibration_error, loss="log")

_SCORERS = {
    "neg_brier_calibration_error": neg_brier_calibration_error,
    "neg_log_calibration_error": neg_log_calibration_error,
}


def get_scorer(name):
    """Scorer by its name, a fresh copy.

    scikit-learn has no register for names of other packages, so pass the object:
    ``GridSearchCV(..., scoring=skcalib.get_scorer("neg_brier_calibration_error"))``. A
    calibration error alone as the target of a search favours uninformative models (a constant
    forecast of the base rate is calibrated): search by a proper score such as "neg_log_loss" or
    "neg_brier_score", and watch the calibration error beside it.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`.

    Returns
    -------
    ProbaScorer
        Higher is better: errors come with a minus sign.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skcalib import get_scorer
    >>> scoring = {"loss": "neg_brier_score",
    ...     "calibration": get_scorer("neg_brier_calibration_error")}
    >>> search = GridSearchCV(
    ...     DecisionTreeClassifier(random_state=0, min_samples_leaf=20), {"max_depth": [2, 4]},
    ...     scoring=scoring, refit="loss")
    >>> _ = search.fit(*load_breast_cancer(return_X_y=True))
    >>> search.cv_results_["mean_test_calibration"].shape
    (2,)
    """
    if not isinstance(name, str) or name not in _SCORERS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _SCORERS))}, got {name!r}.")
    return deepcopy(_SCORERS[name])


def get_scorer_names():
    """Names that :func:`get_scorer` knows, sorted.

    Returns
    -------
    list of str
        The names.

    Examples
    --------
    >>> from skcalib import get_scorer_names
    >>> get_scorer_names()
    ['neg_brier_calibration_error', 'neg_log_calibration_error']
    """
    return sorted(_SCORERS)
