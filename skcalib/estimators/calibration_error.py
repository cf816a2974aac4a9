"""Estimators of calibration errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import CV, ArrayLike, MatrixLike, Method, RandomState, ResponseMethod
from skcalib._util.validation import check_proba
from skcalib.data.notions import Multilabel, NotionLike, resolve_notion
from skcalib.data.problem import Problem, check_problem, reduced_fields
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.estimators.classifiers import ClassifierInspector
from skcalib.proper.proper import ScoreDecomposition, decompose, reads_only, resolve_estimate
from skcalib.scores import LossLike, resolve_loss
from skcalib.stats.means import MeanInterval

if TYPE_CHECKING:
    from skcalib.smoothers import SmootherLike


@completes_docstrings
class CalibrationErrorEstimator(ClassifierInspector):
    r"""Estimate the calibration error of a classifier, with a confidence interval.

    Estimates the terms of :func:`~skcalib.score_decomposition`,

    .. math:: E\, L(Y, S) = E\, D(C, S) + E\, H(C), \qquad C = E[Y|S],

    on held-out data. There are three ways to use it:

    - ``CalibrationErrorEstimator().fit(P, y)``, where P is the matrix of probabilities;
    - with a fitted classifier (or a `FrozenEstimator`): ``fit(X, y)`` on *held-out* data;
    - with ``cv``: the classifier is cloned, fitted on the folds of (X, y) and evaluated out of
      fold.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The classifier. None: X holds the probabilities.
    smoother : None, str, Smoother or classifier, default=None
        Estimates C, as in :func:`~skcalib.proper_calibration_error`. None with ``method="auto"``
        and the Brier score or the log loss: averaged recalibration maps, without folds.
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        How the error is computed from a smoother, as in :func:`~skcalib.proper_calibration_error`.
    cv : None, int or splitter, default=None
        None: the classifier is fitted already. Else folds for out-of-fold probabilities. Of the
        test samples, at most a tenth may have a class that their training samples lack.
    labels : array-like of shape (n_classes,), default=None
        With ``estimator=None``, the class of each column of X, needed where y may lack a class.
    random_state : int, RandomState instance or None, default=0
        Seed of the smoother, if it is `LogitSmoother` by default or is named by a string. None
        keeps the default of the smoother, which is fixed. A smoother object keeps its own seed.
        Averaged maps need no seed.

    Attributes
    ----------
    calibration_error_ : float
        The estimate, which may be negative. For "risk" it is a lower bound in expectation.
    evidence_ : dict or None
        For averaged maps, the weight of the maps with each feature, in [0, 1]: "shift", "slope",
        "class_slopes" (different slopes of the classes), "curve" and "confusion" (shifts that
        depend on the predicted class). A map may have several features. The weights are means
        over the problems of the notion. None with a smoother.
    confidence_interval_ : tuple of float, or None
        (low, high), cut at zero, the lowest possible error. It accounts for the sampling of the
        evaluation data, but not for refitting the classifier; see the notes. None for "direct",
        whose bias is larger than its spread.
    lower_bound_ : str
        Why the error may exceed the upper limit; empty if nothing was found, see the notes.
    standard_error_ : float or None
        Standard error used for the interval; for averaged maps that of the squared norm in the
        notes.
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
    There is no ``score`` method. A search would minimise an estimated error, and a calibration
    error alone prefers uninformative models. Use the scorers of :func:`~skcalib.get_scorer`
    together with a proper score.

    **Interval by default.** The residuals Y - S are projected onto the directions of all maps. The
    squared length of the mean projection measures the error without choosing a map. The interval
    contains all errors under which this length is not rejected (test inversion, as in
    :func:`~skcalib.calibration_error_interval`), and the estimate, if that is positive. The lower
    limit is zero unless a second test rejects calibration; below about 30 samples it nearly always
    is. The upper limit is at least :math:`(\log(1 - level) / n)^2`. This is the error if an event
    that did not occur has a probability of :math:`-\log(1 - level) / n`.

    **Target of the default interval.** For two classes, "top_label" and "classwise", it is the
    error of any curve that c polynomials of the log odds represent. Their number c grows with the
    cube root of the number of samples, from 6 to 15. For "canonical" with more classes, it is the
    error within these maps: a common temperature; a bias and a slope for each class; a curve of the
    top class and one shared by all classes; and a common nonlinear function of all logits. With
    fewer than 20 samples per class the maps of single classes are left out, and
    ``calibration_error_interval(...).target`` states this.

    **Jumps and confused classes.** For at most 20 classes the residuals of the best map are tested
    in nested cells of the forecasts, and for pairs of classes that are confused with each other
    (:ref:`jumps`). What is found enters the estimate and the interval. If a large part of it is in
    the smallest cells only, or if similar forecasts still have similar residuals, there may be
    more, and ``lower_bound_`` states this. Miscalibration that is neither in the maps nor found is
    not covered: the lower limit remains valid for the whole error, the upper limit does not
    (:ref:`estimator`).

    **Interval with a smoother.** It is Student's interval of the mean of the paired differences
    :math:`L(y, S) - L(y, \hat C)`. For "cross" it has the same width around the "cross" estimate.
    Close to zero the upper limit uses the spread at the limit itself, like Wilson's interval of a
    rate. The target is the part of the error that the smoother detects.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import CalibrationErrorEstimator
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> estimator = CalibrationErrorEstimator(GaussianNB(), cv=5).fit(X, y)
    >>> round(estimator.calibration_error_, 3)
    0.013
    >>> low, high = estimator.confidence_interval_
    >>> low < estimator.calibration_error_ < high
    True
    >>> max(estimator.evidence_, key=estimator.evidence_.get)
    'slope'
    """

    _takes_incomplete = True

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
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Estimate the calibration error on (X, y).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in any form that the classifier accepts; the probabilities with
            ``estimator=None``.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels. For probabilities or a fitted classifier also soft labels, as in
            :func:`~skcalib.proper_calibration_error`. With ``estimator=None`` and
            ``notion=Multilabel()`` an indicator matrix. A ``skcalib.data.problem.Problem`` of the
            rows of X holds validated forecasts too.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the means and the smoother; with `cv` also passed to the classifier.
        groups : array-like of shape (n_samples,), default=None
            The cluster of each sample, such as a patient, by any labels: the estimate then leaves
            out products of residuals of a cluster, the interval allows for dependence within
            clusters (:ref:`clusters`), and folds of a smoother hold whole clusters. A splitter gets
            them too; a number of folds in `cv` means `StratifiedGroupKFold`.
        **fit_params : dict
            With `cv`: further parameters of the `fit` of the classifier. Routed as metadata where
            metadata routing is enabled.
        """
        check_parameters_of(self)
        problem, _ = self._forecasts(X, y, sample_weight, fit_params, groups=groups)
        # A smoother that was not passed, and draws, has the seed of the estimator.
        smoother = self.smoother
        resolved, _ = resolve_estimate(smoother, self.method, resolve_loss(self.loss))
        named = smoother is None or isinstance(smoother, str)
        draws = resolved is not None and "random_state" in resolved.get_params()
        if named and draws and self.random_state is not None:
            smoother = clone(resolved).set_params(random_state=self.random_state)
        estimate = partial(
            estimate_proper_error,
            loss=self.loss,
            smoother=smoother,
            method=self.method,
            confidence_level=float(self.confidence_level),
            n_jobs=self.n_jobs,
        )
        if problem.is_incomplete:
            estimates = [estimate(label, notion="canonical") for label in problem.of_labels()]
        else:
            estimates = [estimate(problem, notion=self.notion)]
        mean = partial(reduced_fields, notion=resolve_notion(self.notion))
        terms = mean(ScoreDecomposition, [decompose(part.terms) for part in estimates])
        self.calibration_error_ = terms.calibration
        self.refinement_ = terms.refinement
        self.sharpness_ = terms.sharpness
        self.uncertainty_ = terms.uncertainty
        self.expected_loss_ = terms.loss
        self.lower_bound_ = next((part.lower_bound for part in estimates if part.lower_bound), "")
        self.confidence_interval_ = self.standard_error_ = self.evidence_ = None
        if all(part.interval is not None for part in estimates):
            interval = mean(MeanInterval, [part.interval for part in estimates])
            self.confidence_interval_ = (interval.low, interval.high)
            self.standard_error_ = interval.standard_error
        evidence = [part.evidence for part in estimates if part.evidence is not None]
        if len(evidence) == len(estimates):
            self.evidence_ = {
                name: float(np.mean([shares[name] for shares in evidence])) for name in evidence[0]
            }
        return self

    def _given_forecasts(self, X, y, *, sample_weight, groups):
        try:
            if not isinstance(self.notion, Multilabel):  # whose rows need not sum to one
                check_proba(X, name="X", copy=False)
        except ValueError as error:
            raise ValueError(
                f"{error} Without an estimator X must be probabilities, one column per class; pass "
                "estimator=... for features."
            ) from None
        notion = resolve_notion(self.notion)
        problem = check_problem(
            y,
            X,
            notion,
            sample_weight,
            self.labels,
            groups=groups,
            soft=True,
            name="X",
            remedy="labels",
            copy=not reads_only(self.loss, notion, self.smoother, self.method),
            incomplete=True,
        )
        if np.ndim(X) == 2:
            validate_data(self, X, skip_check_array=True)
        return problem

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.positive_only = True  # X holds probabilities
        return tags
