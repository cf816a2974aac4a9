"""A classifier with a cross-fitted recalibrator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skcalib._util.parallel import run_each
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import CV, ArrayLike, MatrixLike, RecalibratorLike, ResponseMethod
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.labels import check_class_order, ordered_categories, unique_labels
from skcalib.estimators._base import ClassifierTrainer
from skcalib.estimators._response import aligned_proba, check_fold_classes
from skcalib.recalibration.base import forecast_range, outside_range
from skcalib.recalibration.fitting import (
    fit_recalibrator,
    recalibrated_proba,
    takes_features,
    warn_without_weight,
)
from skcalib.recalibration.held_out import candidate_names, select_recalibrator
from skcalib.recalibration.stacked import StackedRecalibrator, resolve_recalibrator
from skcalib.scores import LossLike, resolve_training_loss

if TYPE_CHECKING:
    from sklearn.utils.metadata_routing import MetadataRouter


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
        self.estimators_ = [one.model for one in held_out]
        self.responses_ = [one.response for one in held_out]
        features = X if takes_features(recalibrator) else None
        alone = len(held_out) == 1
        own_folds = None
        if divides and alone:
            own_folds = [np.searchsorted(held_out[0].rows, test) for _, test in folds]
        tasks = (
            (
                recalibrator,
                proba,
                y[rows],
                take_rows(weight, rows),
                self.classes_,
                take_rows(features, rows),
            )
            for proba, rows in ((one.proba, one.rows) for one in held_out)
        )
        fit = partial(fit_recalibrator, folds=own_folds)
        self.recalibrators_ = run_each(fit, tasks, n_jobs=self.n_jobs)
        proba = np.concatenate([one.proba for one in held_out])
        if weight is not None:
            proba = proba[weight[np.concatenate([one.rows for one in held_out])] > 0]
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
        return np.all([outside_range(self, one).any(axis=1) for one in forecasts], axis=0)

    def _selects(self):
        return isinstance(self.recalibrator, str) and self.recalibrator == "select"

    def _is_stack(self):
        named = isinstance(self.recalibrator, str) and self.recalibrator == "auto"
        return named or self.recalibrator is None

    def _recalibrator(self):
        if self._is_stack():
            own = {"loss": self.loss, "candidates": self.candidates, "n_jobs": self.n_jobs}
            return StackedRecalibrator(**own)
        return resolve_recalibrator(self.recalibrator)

    def _check_parameters(self):
        if not self._selects():
            self._refuse_hidden_features(self._recalibrator())
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

    def _refuse_hidden_features(self, recalibrator):
        """Raise for a step of a Pipeline that takes features, as a Pipeline does not pass them."""
        steps = recalibrator.steps if isinstance(recalibrator, Pipeline) else []
        for _, step in steps:
            if takes_features(step):
                name = type(step).__name__
                raise ValueError(
                    f"The Pipeline of recalibrators has a {name}, but passes it no features: use "
                    f"{name} alone, with the other recalibrator as its parameter."
                )

    def _select(self, held_out, y, weight, folds):
        """Compare the candidates on all held-out predictions."""
        total, times = np.zeros((len(y), len(self.classes_))), np.zeros((len(y), 1))
        for one in held_out:
            total[one.rows] += one.proba
            times[one.rows] += 1
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

    def get_metadata_routing(self) -> MetadataRouter:
        """Routing: the requests of the parts, and ``sample_weight`` for the recalibrator."""
        return super().get_metadata_routing().add_self_request(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self._wrapped()).classifier_tags
        if wrapped is not None:
            tags.classifier_tags.multi_class = wrapped.multi_class
        return tags


def _answer(model, recalibrator, response, X, classes):
    proba = aligned_proba(model, X, classes, response)
    return recalibrated_proba(recalibrator, proba, classes, X)
