"""Estimators that train a classifier and cross-fit its probabilities.

`RecalibratedClassifierCV` fits a recalibrator to them, and `CrossFitProba` passes them to the
next step of a Pipeline.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_memory,
    column_or_1d,
    validate_data,
)

from skcalib._util.parallel import run_each, threads_for
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import CV, ArrayLike, MatrixLike, RecalibratorLike, ResponseMethod
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.clusters import folds_of_groups
from skcalib.data.labels import (
    check_class_order,
    check_y,
    ordered_categories,
    unique_labels,
)
from skcalib.estimators.classifiers import (
    ClassifierResponse,
    MetaEstimator,
    aligned_proba,
    check_fold_classes,
    classes_of,
    clone_estimator,
    cross_fit,
    fit_fold,
    method_to_recalibrate,
    refuse_unlabelled,
    some_rows,
    use_fitted,
)
from skcalib.recalibration.base import (
    TransformerOfColumns,
    fit_recalibrator,
    forecast_range,
    outside_range,
    recalibrated_proba,
    takes_features,
    warn_without_weight,
)
from skcalib.recalibration.held_out import (
    StackedRecalibrator,
    candidate_names,
    resolve_recalibrator,
    select_recalibrator,
)
from skcalib.scores import LossLike, resolve_training_loss


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

    def _held_out(self, X, y, folds, params, weight=None, *, ensemble=False, memory=None):
        """A list of `HeldOut`: one, which `memory` keeps, or one per fold."""
        if self._is_frozen():
            classes, rows = self.estimator.classes_, np.arange(len(y))
            unknown = np.setdiff1d(y, classes)
            if len(unknown):
                raise ValueError(
                    f"y contains {unknown.tolist()[0]!r}, but the classes of the frozen classifier "
                    f"are {classes.tolist()}: no map of its probabilities can predict it."
                )
            method = self.response_method
            return [use_fitted(self.estimator, X, classes, method, weight, rows=rows)]
        if not ensemble:
            memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
            fit = check_memory(memory).cache(cross_fit, ignore=["n_jobs"])
            held_out = fit(
                self._wrapped(),
                X,
                y,
                folds,
                params,
                response_method=self.response_method,
                n_jobs=self.n_jobs,
                weight=weight,
            )
            return [held_out]
        (X,) = indexable(X)
        fit = partial(
            fit_fold,
            self._wrapped(),
            X,
            y,
            classes=unique_labels(y),
            response_method=self.response_method,
            fit_params=params,
            weight=weight,
        )
        return run_each(fit, folds, n_jobs=self.n_jobs)


@completes_docstrings
class RecalibratedClassifierCV(ClassifierMixin, ClassifierTrainer):
    r"""A classifier whose probabilities are recalibrated on held-out data.

    1. The classifier is cloned, fitted on the folds of (X, y), and predicts out of fold.
    2. The recalibrator g is fitted to these probabilities and y.
    3. The classifier is refitted on all samples; the prediction is :math:`g(\hat p(x))`.

    With ``ensemble=True`` the models of the folds are kept instead, each with its own recalibrator,
    and the prediction is :math:`\frac1F \sum_f g_f(\hat p^{(-f)}(x))`, as in scikit-learn's
    `CalibratedClassifierCV`.

    Parameters
    ----------
    estimator : classifier, default=None
        The classifier; cloned, never fitted in place. With a `sklearn.frozen.FrozenEstimator` there
        are no folds: it is used as it is, and (X, y) must be held-out data. None is
        `LogisticRegression`.
    recalibrator : recalibrator, Pipeline of recalibrators, name, "auto" or "select", default=None
        Any object with ``fit(P, y)`` and ``predict_proba(P)``, from this library or not; or a name:
        "temperature", "isotonic", "platt" ("sigmoid") or "beta". It is cloned, and each of its
        parameters ``labels`` and ``*__labels`` is set to `classes_`. One that declares
        ``takes_features = True``, such as `GroupRecalibrator`, also gets ``features=X``. None and
        "auto" are `StackedRecalibrator`, a mixture of maps with weights from held-out losses.
        "select" chooses one simple map by cross-validation, see the notes.
    cv : None, int or splitter, default=None
        Folds; None means five, stratified. Samples that are in no test fold, as with
        `TimeSeriesSplit`, are not used in step 2; repeated splitters average the predictions for
        each sample. The training samples of a fold must contain every class of its test samples.
        With ``ensemble=True`` they must contain every class, and the test samples at least two. Use
        a `FrozenEstimator` where other libraries use "prefit".
    ensemble : bool, default=False
        Keep the models of the folds. Has no effect on a frozen classifier.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        What the recalibrator is fitted to. "auto" is predict_proba, if there is one. It is
        decision_function, if there is one, where predict_proba saturates: where at least one in a
        hundred rows has a probability of exactly 1, and their decision values differ. See the
        notes.
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        Loss of the candidates of "auto" and "select", and by which "select" chooses.
    candidates : list of recalibrators, default=None
        Candidates for "auto", or *from simple to complex* for "select". None are those of the
        notes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Classes, in the order of the columns.
    estimators_, recalibrators_ : list
        Fitted classifiers and their recalibrators: one of each, or one for each fold.
    estimator_, recalibrator_ : object
        The classifier and its recalibrator, if there is one of each; else None.
    responses_ : list
        How the probabilities of each of `estimators_` are obtained: ``method`` is "predict_proba"
        or "decision_function", and ``scale`` has the ``unit`` and the ``shift`` of decision values,
        and ``tails``, the increasing function of those with heavy tails, or None.
    calibration_range_ : array of shape (n_classes, 2)
        Smallest and largest held-out probability of each class, before recalibration, of all folds.
        `outside` finds samples beyond them.
    selection_ : RecalibratorSelection or None
        With "select": ``names``, held-out ``losses``, ``differences`` from the best,
        their ``standard_errors``, ``best``, ``chosen`` and ``gain``. Prints as a table.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if X has names.

    See Also
    --------
    CrossFitProba : Steps 1 and 3 as a transformer, for Pipelines.
    calibration_improvement : The improvement by a recalibration map.

    Notes
    -----

    **"auto"** mixes the candidates of the notes of `StackedRecalibrator`, which go from simple to
    complex. `recalibrator_` is a `StackedRecalibrator`, whose ``mixture_`` prints what it holds. If
    `cv` is a splitter, its test folds also give the weights of the maps. With ``ensemble=True``
    each map divides the samples of its fold.

    **"select"** evaluates each candidate on each test fold, fitted to the out-of-fold probabilities
    of the others. The choice is the first candidate whose mean loss exceeds the lowest by at most
    one standard error of the paired difference.

    **Decision values** d, whose rows are centred, become the logits d / u - b. They are logits
    already, with u = 1 and b = 0, if their softmax is predict_proba. Otherwise the unit u is a
    robust spread, and the offset b is 0 unless their means are more than ten units from 0
    (:ref:`decision_values`). Both are learned from the held-out values that the recalibrator is
    fitted to. The models of the folds and that of all samples may have different scales. So the
    values of each are first standardised by their mean and spread in the same rows of X, at most
    2,000. With ``ensemble=True`` or a frozen classifier each model has its own held-out values, and
    needs no such step.

    **Weights** are passed to the recalibrator (in a Pipeline to each step that accepts them) and to
    the classifier, if it accepts them. Without metadata routing `fit` also takes ``groups`` for the
    splitter; all other parameters are passed to the `fit` of the classifier. With metadata routing
    the classifier gets what it requests, and a meta-estimator around this object must request
    ``sample_weight`` from it.

    **Cost**: one fit of the classifier for each fold, and one more unless ``ensemble=True``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import RecalibratedClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RecalibratedClassifierCV(GaussianNB()).fit(X, y)
    >>> mixture = model.recalibrator_.mixture_  # naive Bayes is over-confident
    >>> mixture.names[0], mixture.gain.low > 0
    ('IdentityRecalibrator', True)
    """

    _requests_weight = True  # for the recalibrator

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        recalibrator: RecalibratorLike | Literal["select"] = None,
        *,
        cv: CV = None,
        ensemble: bool = False,
        response_method: ResponseMethod = "auto",
        loss: LossLike = "log",
        candidates: Sequence[BaseEstimator] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.loss = loss
        self.candidates = candidates
        self.n_jobs = n_jobs

    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit classifier and recalibrator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in any form that the classifier accepts.
        **fit_params : dict
            Parameters of the classifier's `fit`, and ``groups`` for the splitter.

        Raises
        ------
        ValueError
            For invalid input or parameters, for folds that lack a class, see `cv`, and for labels
            -1 of a semi-supervised classifier, which mean no label.
        """
        self._check_parameters()
        check_indices(X=X, y=y, sample_weight=sample_weight)
        categories, y = ordered_categories(y), self._check_data(X, y)
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        params, split_params = self._route("fit", fit_params, weight)
        selects, frozen = self._selects(), self._is_frozen()
        # Splitters of one's own, such as those by groups, also divide the samples of the mixture.
        divides = self._is_stack() and not isinstance(self.cv, Integral | None)
        self.classes_ = self.estimator.classes_ if frozen else unique_labels(y)
        if resolve_training_loss(self.loss).ordered:
            check_class_order(self.classes_, categories)
        folds = self._folds(X, y, split_params) if selects or divides or not frozen else []
        if not frozen:
            check_fold_classes(y, folds, ensemble=self.ensemble)
        held_out = self._held_out(X, y, folds, params, weight, ensemble=self.ensemble)
        self.selection_, recalibrator = None, None if selects else self._recalibrator()
        if selects:
            self.selection_, recalibrator = self._select(held_out, y, weight, folds)
        elif weight is not None:
            warn_without_weight(recalibrator, "classifier")
        self.estimators_ = [part.model for part in held_out]
        self.responses_ = [part.response for part in held_out]
        features = X if takes_features(recalibrator) else None
        alone = len(held_out) == 1
        mixture_folds = None
        if divides and alone:
            mixture_folds = [np.searchsorted(held_out[0].rows, test) for _, test in folds]
        tasks = (
            (
                recalibrator,
                part.proba,
                y[part.rows],
                take_rows(weight, part.rows),
                self.classes_,
                take_rows(features, part.rows),
            )
            for part in held_out
        )
        fit = partial(fit_recalibrator, folds=mixture_folds)
        self.recalibrators_ = run_each(fit, tasks, n_jobs=self.n_jobs)
        proba = np.concatenate([part.proba for part in held_out])
        if weight is not None:
            proba = proba[weight[np.concatenate([part.rows for part in held_out])] > 0]
        self.calibration_range_ = forecast_range(proba)
        self.estimator_ = self.estimators_[0] if alone else None
        self.recalibrator_ = self.recalibrators_[0] if alone else None
        return self

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Recalibrated probabilities.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.
        """
        check_is_fitted(self)
        self._check_new(X)
        parts = zip(self.estimators_, self.recalibrators_, self.responses_, strict=True)
        tasks = ((*part, X, self.classes_) for part in parts)
        # Threads: sending X and the models to processes costs more than most predictions.
        answers = run_each(_answer, tasks, n_jobs=self.n_jobs, prefer="threads")
        return sum(answers) / len(answers)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Class of largest recalibrated probability.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def outside(self, X: MatrixLike) -> np.ndarray:
        """Whether the forecasts for samples lie beyond those that the map was fitted to.

        There no label supports the recalibrated probabilities, which follow the continuation of the
        map (:ref:`beyond_the_scores`). The forecasts are those of the classifier, before
        recalibration. Whether the features of a sample are unusual does not matter.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        array of bool of shape (n_samples,)
            True where the probability of a class is below or above ``calibration_range_`` by more
            than the rounding errors of single precision; with ``ensemble=True``, where this holds
            for the forecasts of every model. The sum is the number of such samples.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from skcalib import RecalibratedClassifierCV
        >>> X = np.linspace(-1, 1, 200)[:, None]
        >>> y = X[:, 0] + np.sin(40 * X[:, 0]) > 0
        >>> model = RecalibratedClassifierCV(LogisticRegression(), "platt").fit(X, y)
        >>> model.outside([[0.0], [5.0]]).tolist()
        [False, True]
        """
        check_is_fitted(self)
        self._check_new(X)
        parts = zip(self.estimators_, self.responses_, strict=True)
        tasks = ((model, X, self.classes_, response) for model, response in parts)
        forecasts = run_each(aligned_proba, tasks, n_jobs=self.n_jobs, prefer="threads")
        return np.all([outside_range(self, forecast).any(axis=1) for forecast in forecasts], axis=0)

    def _selects(self):
        return isinstance(self.recalibrator, str) and self.recalibrator == "select"

    def _is_stack(self):
        named = isinstance(self.recalibrator, str) and self.recalibrator == "auto"
        return named or self.recalibrator is None

    def _recalibrator(self):
        if self._is_stack():
            return StackedRecalibrator(
                loss=self.loss, candidates=self.candidates, n_jobs=self.n_jobs
            )
        return resolve_recalibrator(self.recalibrator)

    def _check_parameters(self):
        recalibrator = None if self._selects() else self._recalibrator()
        for _, step in recalibrator.steps if isinstance(recalibrator, Pipeline) else []:
            if takes_features(step):
                name = type(step).__name__
                raise ValueError(
                    f"The Pipeline of recalibrators has a {name}, but passes it no features: use "
                    f"{name} alone, with the other recalibrator as its parameter."
                )
        resolve_training_loss(self.loss)
        if self.candidates is not None:
            candidate_names(self.candidates)  # raises for what is no recalibrator
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise ValueError(
                "cv='prefit' is not an option here: to use a fitted classifier as it is, leave cv "
                "out, wrap the classifier, RecalibratedClassifierCV(FrozenEstimator(clf)) with "
                "FrozenEstimator from sklearn.frozen, and fit to held-out data."
            )
        check_parameters_of(self)

    def _select(self, held_out, y, weight, folds):
        """Compare the candidates on all held-out predictions."""
        total, times = np.zeros((len(y), len(self.classes_))), np.zeros((len(y), 1))
        for part in held_out:
            total[part.rows] += part.proba
            times[part.rows] += 1
        return select_recalibrator(
            self.candidates,
            total / np.maximum(times, 1),  # rows in no test fold stay at 0 and are not used
            y,
            classes=self.classes_,
            folds=[test for _, test in folds],
            weight=weight,
            loss=self.loss,
            n_jobs=self.n_jobs,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self._wrapped()).classifier_tags
        if wrapped is not None:
            tags.classifier_tags.multi_class = wrapped.multi_class
        return tags


def _answer(model, recalibrator, response, X, classes):
    proba = aligned_proba(model, X, classes, response)
    return recalibrated_proba(recalibrator, proba, classes, X)


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
        check_fold_classes(y, folds)
        (held_out,) = self._held_out(X, y, folds, params, memory=self.memory)
        self.estimator_, self.response_ = held_out.model, held_out.response
        self.classes_ = classes_of(self.estimator_)
        return held_out.proba

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
