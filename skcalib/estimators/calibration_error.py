"""Estimators of calibration errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from skcalib._arguments import resolve_loss
from skcalib._validation import check_confidence_level, check_proba
from skcalib.error_intervals.methods import estimate_proper_error
from skcalib.errors.proper import decompose, resolve_estimate
from skcalib.estimators._base import ClassifierInspector
from skcalib.problem import Problem, check_problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags

    from skcalib._arguments import (
        CV,
        LossLike,
        MatrixLike,
        Method,
        NotionLike,
        RandomState,
        ResponseMethod,
        SmootherLike,
    )


class CalibrationErrorEstimator(ClassifierInspector):
    r"""Estimate the calibration error of a classifier, with a confidence interval.

    Estimates the terms of :func:`~skcalib.score_decomposition`,

    .. math:: E\, L(Y, S) = E\, D(C, S) + E\, H(C), \qquad C = E[Y|S],

    on held-out data. Three forms of use:

    - ``CalibrationErrorEstimator().fit(P, y)``: P is the matrix of probabilities;
    - with a fitted classifier (or a `FrozenEstimator`), ``fit(X, y)`` on *held-out* data;
    - with ``cv``, the classifier is cloned, fitted on the folds of (X, y) and evaluated out of
      fold.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The classifier. None: X holds the probabilities.
    loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
        The proper score.
    notion : {"canonical", "auto", "classwise", "top_label"} or Notion, default="canonical"
        The notion of calibration.
    smoother : None, str, Smoother or classifier, default=None
        Estimates C, as in :func:`~skcalib.proper_calibration_error`.
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        How the error is computed from the smoother, as in
        :func:`~skcalib.proper_calibration_error`.
    cv : None, int or splitter, default=None
        None: the classifier is fitted already. Else folds for out-of-fold probabilities.
    confidence_level : float, default=0.95
        Level of the interval.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Decision values become probabilities through the logistic function or the softmax.
    labels : array-like of shape (n_classes,), default=None
        With ``estimator=None``, the class of each column of X, needed where y may lack a class.
    n_jobs : int, default=None
        Folds, and problems of the notion, in parallel.
    random_state : int, RandomState instance or None, default=0
        Seed of the default smoother, or of one named by a string; None keeps its own default,
        which is fixed. A smoother object keeps its own seed.

    Attributes
    ----------
    calibration_error_ : float
        The estimate; may be negative. For "risk" a lower bound in expectation.
    confidence_interval_ : tuple of float, or None
        (low, high): a Student interval of the mean of paired differences :math:`L(y, S) -
        L(y, \hat C)`. For "cross" the same spread around the "cross" estimate. None for "direct",
        whose bias is larger than its spread. The interval accounts for the sampling of the
        evaluation data, not for refitting the classifier. It is cut at zero, the lowest possible
        error. Close to zero the upper limit uses the spread at the limit itself, as Wilson's
        interval of a rate does.
    standard_error_ : float or None
        Standard error used for the interval.
    refinement_, sharpness_, uncertainty_, expected_loss_ : float
        The other terms, as in :func:`~skcalib.score_decomposition`.
    classes_ : array of shape (n_classes,)
        Classes, in the order of the columns.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    proper_calibration_error : The estimate as a function.

    Notes
    -----
    There is no ``score`` method: a search would minimise an estimated error, and a calibration
    error alone prefers uninformative models. Use the scorers of :func:`~skcalib.get_scorer`
    together with a proper score. In simulations where the smoother contains the truth, the interval
    at n = 2000 covered the true error in 97 to 98 % of 400 simulations by "risk", and in 98 % by
    "cross", which varies less than that spread. For calibrated forecasts its lower end was above
    zero in less than 2.5 % (``tests/studies/test_coverage.py``). In other simulations it covers
    less often, see :ref:`accuracy`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import CalibrationErrorEstimator
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> estimator = CalibrationErrorEstimator(GaussianNB(), cv=5).fit(X, y)
    >>> round(estimator.calibration_error_, 3)
    0.01
    >>> low, high = estimator.confidence_interval_
    >>> low < estimator.calibration_error_ < high
    True
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        loss: LossLike = "brier",
        notion: NotionLike = "canonical",
        smoother: SmootherLike = None,
        method: Method = "auto",
        cv: CV = None,
        confidence_level: float = 0.95,
        response_method: ResponseMethod = "auto",
        labels: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.notion = notion
        self.smoother = smoother
        self.method = method
        self.cv = cv
        self.confidence_level = confidence_level
        self.response_method = response_method
        self.labels = labels
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | Problem,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Estimate the calibration error on (X, y).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in any form that the classifier accepts; the probabilities with
            ``estimator=None``.
        y : array-like of shape (n_samples,)
            Labels. A ``skcalib.problem.Problem`` of the rows of X holds validated forecasts too.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the means and the smoother; with `cv` also passed to the classifier.
        **fit_params : dict
            With `cv`: further parameters of the classifier's `fit`, and ``groups`` for the
            splitter. Routed as metadata where metadata routing is enabled.

        Returns
        -------
        CalibrationErrorEstimator
            The fitted estimator.
        """
        check_confidence_level(self.confidence_level)
        problem, _ = self._forecasts(X, y, sample_weight, fit_params)
        found = estimate_proper_error(
            problem,
            loss=self.loss,
            notion=self.notion,
            smoother=self._seeded_smoother(),
            method=self.method,
            confidence_level=self.confidence_level,
            n_jobs=self.n_jobs,
        )
        parts, interval = decompose(found.terms), found.interval
        self.calibration_error_ = parts.calibration
        self.refinement_ = parts.refinement
        self.sharpness_ = parts.sharpness
        self.uncertainty_ = parts.uncertainty
        self.expected_loss_ = parts.loss
        self.confidence_interval_ = self.standard_error_ = None
        if interval is not None:
            self.confidence_interval_ = (interval.low, interval.high)
            self.standard_error_ = interval.standard_error
        self.evidence_ = found.evidence
        return self

    def _given_forecasts(self, X, y, sample_weight):
        try:
            check_proba(X, name="X")
        except ValueError as error:
            raise ValueError(
                f"{error} Without an estimator X must be probabilities, one column per class; pass "
                "estimator=... for features."
            ) from None
        given = {"sample_weight": sample_weight, "labels": self.labels}
        problem = check_problem(y, X, name="X", remedy="labels", **given)
        if np.ndim(X) == 2:
            validate_data(self, X, skip_check_array=True)
        return problem

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.positive_only = True  # X holds probabilities
        return tags

    def _seeded_smoother(self):
        """The smoother with the seed of the estimator; None if no smoother is needed."""
        smoother, _ = resolve_estimate(self.smoother, self.method, resolve_loss(self.loss))
        named = self.smoother is None or isinstance(self.smoother, str)
        seeded = smoother is not None and "random_state" in smoother.get_params()
        if named and seeded and self.random_state is not None:
            return clone(smoother).set_params(random_state=self.random_state)
        return smoother if self.smoother is None else self.smoother
