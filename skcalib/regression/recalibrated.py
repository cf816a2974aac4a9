"""Regressors whose variances are recalibrated on out-of-fold forecasts."""

from __future__ import annotations

import inspect
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, column_or_1d, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skcalib._util.messages import shown
from skcalib._util.parallel import run_each
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import CV, ArrayLike, MatrixLike
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.clusters import folds_of_groups
from skcalib.estimators._base import MetaEstimator
from skcalib.estimators._response import clone_estimator, fit_rows
from skcalib.regression.scaling import VarianceScaling


@completes_docstrings
class RecalibratedRegressorCV(RegressorMixin, MetaEstimator):
    r"""Regressor whose standard deviations are recalibrated on out-of-fold forecasts.

    `fit` clones the regressor on the folds of (X, y), collects the out-of-fold means and variances,
    fits the recalibrator to them, and refits the regressor on all samples. `predict` passes its
    mean and variance through the recalibrator.

    Parameters
    ----------
    estimator : regressor, default=None
        A regressor with ``predict(X, return_std=True)``, such as `GaussianProcessRegressor`,
        `BayesianRidge`, `ARDRegression` or a pipeline that ends in one. None: `BayesianRidge`. A
        `FrozenEstimator` is used as it is: then (X, y) must be held-out data, and
        there are no folds.
    recalibrator : recalibrator, default=None
        None: :class:`~skcalib.regression.VarianceScaling`. Any object with ``fit(mean_and_var, y)``
        and ``transform(mean_and_var)``. Both take an array of two columns, mean and variance;
        ``transform`` returns a new one.
    cv : int, splitter or iterable, default=None
        Folds; None: 5. An integer means consecutive folds, as in scikit-learn. Pass
        ``KFold(5, shuffle=True, random_state=0)`` where the rows are sorted. Splitters need not
        test every sample (`TimeSeriesSplit`) and may test it several times (`RepeatedKFold`): every
        out-of-fold forecast counts once.

    Attributes
    ----------
    estimator_ : regressor
        The regressor, refitted on all samples; the frozen one itself.
    recalibrator_ : recalibrator
        The fitted recalibrator.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where X has names that are strings.

    See Also
    --------
    skcalib.regression.variance_reliability : Whether the standard deviations are calibrated.

    Notes
    -----
    ``score`` is the :math:`R^2` of the mean, as for every regressor of scikit-learn; it does not
    depend on the variance. Evaluate the variance with
    :func:`~skcalib.regression.dawid_sebastiani_score` on new data.

    Out-of-fold forecasts come from regressors fitted to fewer samples than the refitted one.
    Their errors are slightly larger, and so are the recalibrated standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skcalib.regression import RecalibratedRegressorCV, dawid_sebastiani_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(300)
    >>> process = GaussianProcessRegressor(RBF(), alpha=0.25, optimizer=None)
    >>> model = RecalibratedRegressorCV(process).fit(X[:200], y[:200])
    >>> # the std of a process is that of the curve alone; the variance of the noise is 0.25
    >>> print(f"{model.recalibrator_.intercept_:.3f}")
    0.265
    >>> for regressor in (model.estimator_, model):
    ...     mean, std = regressor.predict(X[200:], return_std=True)
    ...     print(f"{dawid_sebastiani_score(y[200:], mean, std**2):.2f}")
    19.54
    -0.51
    """

    _requests_weight = True

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        recalibrator: BaseEstimator | None = None,
        *,
        cv: CV = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit the regressor and the recalibrator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, in any form that the regressor accepts.
        y : array-like of shape (n_samples,)
            Outcomes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the regressor and the recalibrator. A regressor that does not accept
            weights, such as `GaussianProcessRegressor`, is fitted without them, with a warning.
        **fit_params : dict
            Further parameters of the regressor's `fit`, sliced by fold where they have one entry
            per sample, and ``groups`` for the splitter. Routed as metadata where metadata routing
            is enabled.
        """
        self._check_passed(y)
        check_parameters_of(self)
        if self.recalibrator is not None:
            _check_maps_moments(self.recalibrator)
        check_indices(X=X, y=y, sample_weight=sample_weight)
        y = column_or_1d(y, warn=True)
        y = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y")
        check_consistent_length(X, y)
        estimator = self._wrapped()
        _check_returns_std(estimator)
        self._check_wrapped()
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        if self._is_frozen():
            self.estimator_ = estimator
            moments, rows = predict_moments(estimator, X), np.arange(len(y))
        else:
            params, split_params = self._route("fit", fit_params, weight)
            splitter = check_cv(self.cv, y, classifier=False)
            folds = folds_of_groups(splitter, X, y, **split_params)
            moments, rows = _out_of_fold_moments(estimator, X, y, folds, params, self.n_jobs)
            self.estimator_ = clone_estimator(estimator).fit(X, y, **params)
        recalibrator = VarianceScaling() if self.recalibrator is None else clone(self.recalibrator)
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        self.recalibrator_ = recalibrator.fit(moments, y[rows], **weights)
        self._recalibrated(moments)  # raises unless they are moments
        validate_data(self, X, skip_check_array=True)  # stores the number and names of the features
        return self

    def predict(
        self, X: MatrixLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Means, and recalibrated standard deviations.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        mean : array of shape (n_samples,)
            Forecast means.
        std : array of shape (n_samples,)
            Recalibrated standard deviations, with ``return_std=True``.
        """
        check_is_fitted(self)
        if not return_std and getattr(self.recalibrator_, "preserves_mean_", False):
            return self.estimator_.predict(X)
        mean, variance = self._recalibrated(predict_moments(self.estimator_, X)).T
        return (mean, np.sqrt(variance)) if return_std else mean

    def _recalibrated(self, moments):
        recalibrated = np.asarray(self.recalibrator_.transform(moments), dtype=np.float64)
        if recalibrated.shape != moments.shape or not np.all(recalibrated[:, 1] > 0):
            raise ValueError(
                f"transform of {type(self.recalibrator_).__name__} must return a mean and a "
                "positive variance for each forecast: use VarianceScaling()."
            )
        return recalibrated

    def _default(self):
        return BayesianRidge()

    def _is_fitted(self):  # a Gaussian process passes check_is_fitted before `fit`
        inner = self.estimator.estimator if self._is_frozen() else self.estimator
        return hasattr(inner, "n_features_in_")


def _check_maps_moments(recalibrator):
    """Raise for objects without `fit` or `transform`."""
    fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "transform")
    if not fits or isinstance(recalibrator, type):
        raise ValueError(
            "recalibrator must have fit(mean_and_var, y) and transform(mean_and_var), such as "
            f"VarianceScaling(), unlike {shown(recalibrator)}."
        )


def _check_returns_std(estimator):
    """Raise for regressors whose `predict` has no `return_std`; a Pipeline passes it on."""
    last = estimator
    while isinstance(last, Pipeline):
        last = last[-1]
    if not (hasattr(last, "predict") and _takes(last.predict, "return_std")):
        raise ValueError(
            "RecalibratedRegressorCV needs a regressor with predict(X, return_std=True), such as "
            f"BayesianRidge or GaussianProcessRegressor; got {shown(estimator)}."
        )


def _takes(method, name):
    """Whether a method has a parameter of this name, or accepts any keyword."""
    parameters = inspect.signature(method).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


# --- Means and variances of regressors ------------------------------------------------------------


def predict_moments(estimator: BaseEstimator, X: MatrixLike) -> np.ndarray:
    """Mean and variance of a fitted regressor, shape (n, 2)."""
    if isinstance(X, np.ndarray) and X.dtype == object and all(isinstance(v, Real) for v in X.flat):
        X = X.astype(np.float64)  # BayesianRidge cannot take roots of object arrays
    mean, std = estimator.predict(X, return_std=True)
    return np.column_stack([mean, np.square(np.asarray(std, dtype=np.float64))])


def _out_of_fold_moments(estimator, X, y, folds, params, n_jobs):
    """Moments (m, 2) of all out-of-fold forecasts, and the row of each."""
    (X,) = indexable(X)
    tasks = ((estimator, X, y, *fold, params) for fold in folds)
    parts = run_each(_fold_moments, tasks, n_jobs=n_jobs)
    rows = np.concatenate([np.arange(len(y))[test] for _, test in folds])
    return np.concatenate(parts), rows


def _fold_moments(estimator, X, y, train, test, params):
    model = fit_rows(estimator, X, y, train, params)
    return predict_moments(model, take_rows(X, test))
