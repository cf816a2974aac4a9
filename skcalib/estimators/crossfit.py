"""A classifier as a transformer: the next step is fitted to its out-of-fold probabilities."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_memory

from skcalib._util.parallel import threads_for
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import CV, ArrayLike, MatrixLike, ResponseMethod
from skcalib.estimators._base import ClassifierTrainer
from skcalib.estimators._response import (
    ClassifierResponse,
    aligned_proba,
    check_fold_classes,
    classes_of,
    clone_estimator,
    cross_fit,
    method_to_recalibrate,
    some_rows,
)
from skcalib.recalibration.base import TransformerOfColumns


@completes_docstrings
class CrossFitProba(TransformerOfColumns, ClassifierTrainer):
    r"""Turn a classifier into a transformer of its cross-fitted probabilities.

    The first step of a Pipeline of recalibrators. The next step must not be fitted to predictions
    of a model that was trained on the same labels. Therefore `fit_transform` differs from
    `transform`, as in scikit-learn's `TargetEncoder` and in stacking:

    - ``fit_transform(X, y)`` returns :math:`\hat p^{(-f(i))}(x_i)`, where f(i) is the fold that
      tests sample i and :math:`\hat p^{(-f)}` the classifier fitted without that fold;
    - ``transform(X)`` returns :math:`\hat p(x)` of the classifier fitted on all samples.

    Parameters
    ----------
    estimator : classifier, default=None
        The classifier; cloned, never fitted in place. A `sklearn.frozen.FrozenEstimator` is used as
        it is, and then the data of `fit_transform` must be held-out data. None is
        `LogisticRegression`.
    cv : None, int or splitter, default=None
        Folds; None means five, stratified. Repeated splitters average the predictions for each
        sample. Each sample must be tested at least once, and the training samples of a fold must
        have every class that it tests.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        As in `RecalibratedClassifierCV`: "auto" takes decision values where predict_proba
        saturates.
    memory : str, path or object with the interface of joblib.Memory, default=None
        Folder, or cache, in which `fit_transform` keeps the fitted classifier and its out-of-fold
        probabilities, as `sklearn.pipeline.Pipeline` does. The key is the classifier with its
        parameters, the samples, the folds and the parameters of `fit`. A classifier that draws
        random numbers without a seed is not drawn again.

    Attributes
    ----------
    estimator_ : classifier
        The classifier fitted on all samples, or the frozen one.
    response_ : object
        How its probabilities are obtained, as one of the `responses_` of
        `RecalibratedClassifierCV`. `fit` learns the scale of decision values from X, and
        `fit_transform` from held-out values.
    classes_ : array of shape (n_classes,)
        Class of each column.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    RecalibratedClassifierCV : The same in one object, also for folds that do not test all samples.

    Notes
    -----
    Cost: one fit for each fold and one on all samples; none if `memory` has them. A fitted
    classifier that is not frozen is cloned, with a warning. Without metadata routing, `fit` and
    `fit_transform` pass ``groups`` to the splitter and all other parameters, such as
    ``sample_weight``, to the classifier; in a Pipeline write ``crossfitproba__sample_weight=...``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import CrossFitProba, PlattScaling
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(CrossFitProba(GaussianNB()), PlattScaling()).fit(X, y)
    >>> model.predict_proba(X).shape
    (569, 2)
    """

    _fitting_methods = ("fit", "fit_transform")

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        cv: CV = None,
        response_method: ResponseMethod = "auto",
        n_jobs: int | None = None,
        memory: str | os.PathLike[str] | Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.response_method = response_method
        self.n_jobs = n_jobs
        self.memory = memory

    def fit(self, X: MatrixLike, y: ArrayLike | None, **fit_params: Any) -> Self:
        """Fit the classifier on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in any form that the classifier accepts.
        **fit_params : dict
            Parameters of the classifier's `fit`.
        """
        check_parameters_of(self)
        y = self._check_data(X, y)
        params, _ = self._route("fit", fit_params)
        if self._is_frozen():
            self.estimator_ = self.estimator
        else:
            with threads_for(X, self.n_jobs):
                self.estimator_ = clone_estimator(self._wrapped()).fit(X, y, **params)
        self.classes_ = classes_of(self.estimator_)
        few = some_rows(X)
        method = method_to_recalibrate(self.estimator_, few, self.response_method)
        self.response_ = ClassifierResponse.of(self.estimator_, few, method)
        return self

    def fit_transform(
        self, X: MatrixLike, y: ArrayLike | None = None, **fit_params: Any
    ) -> np.ndarray:
        """Fit the classifier on all samples, and return its out-of-fold probabilities.

        Parameters
        ----------
        **fit_params : dict
            Parameters of the classifier's `fit`, and ``groups`` for the splitter.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.

        Raises
        ------
        ValueError
            For invalid input or parameters, and for folds that leave samples untested or whose
            training samples lack a class that they test.
        """
        check_parameters_of(self)
        y = self._check_data(X, y)
        params, split_params = self._route("fit_transform", fit_params)
        folds = [] if self._is_frozen() else self._folds(X, y, split_params)
        n_tested = len(np.unique(np.concatenate([test for _, test in folds]))) if folds else len(y)
        if n_tested < len(y):
            raise ValueError(
                f"The folds of cv leave {len(y) - n_tested} of {len(y)} samples untested, but a "
                "transformer must return every row: use RecalibratedClassifierCV, which leaves "
                "these samples out, or folds that test each sample."
            )
        check_fold_classes(y, folds, ensemble=False)
        (held_out,) = self._held_out(X, y, folds, params)
        self.estimator_, self.response_ = held_out.model, held_out.response
        self.classes_ = classes_of(self.estimator_)
        return held_out.proba

    def _cross_fit(self, X, y, folds, params, weight):
        memory = os.fspath(self.memory) if isinstance(self.memory, os.PathLike) else self.memory
        cached = check_memory(memory).cache(cross_fit, ignore=["n_jobs"])
        how = {"response_method": self.response_method, "n_jobs": self.n_jobs}
        return cached(self._wrapped(), X, y, folds, params, **how)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classifier that was fitted on all samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.
        """
        check_is_fitted(self)
        self._check_new(X)
        return aligned_proba(self.estimator_, X, self.classes_, self.response_)
