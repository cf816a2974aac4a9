"""Recalibration of the variance of a regressor by an affine map.

`VarianceScaling` is the map of pairs of a mean and a variance, and `RecalibratedRegressorCV` fits
it to the out-of-fold forecasts of a regressor.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_array, column_or_1d, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skcalib._util.messages import shown
from skcalib._util.parallel import run_each
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.sizes import SIZES
from skcalib._util.types import CV, ArrayLike, MatrixLike
from skcalib._util.validation import check_indices, check_weight, take_rows
from skcalib.data.clusters import folds_of_groups
from skcalib.estimators.classifiers import MetaEstimator, clone_estimator, fit_rows
from skcalib.regression.evaluation import (
    centred,
    check_moments,
    check_numbers,
    mean_score,
)
from skcalib.scores import DawidSebastiani, weighted_mean


@completes_docstrings
class VarianceScaling(TransformerMixin, BaseEstimator):
    r"""Platt scaling of the variance, :math:`v \mapsto w v + b` with :math:`w, b \ge 0` (G22).

    Forecasts are pairs of a mean and a variance. The means are kept; w and b minimise the mean
    Dawid-Sebastiani score of held-out samples,

    .. math:: \frac{1}{n} \sum_i \left( \frac{(y_i - \mu_i)^2}{w v_i + b} + \log(w v_i + b) \right).

    **The scale is exact on the calibration set.** Along the ray :math:`s (w, b)` the score is
    :math:`A / s + \log s` up to a constant, with A the mean of :math:`(y - \mu)^2 / (w v + b)`,
    and the ray stays in the feasible set. Hence :math:`s = A`. At *every* optimum, inside or on the
    boundary, the mean of :math:`(y - \mu)^2 / (w v + b)` is exactly 1.

    With the best scale, one parameter remains, the ratio b / w in [0, infinity]. The optimum is the
    best of the two ends and of the roots of the analytic derivative, which are bracketed on a fine
    grid, because the score is not convex.

    Parameters
    ----------
    fit_intercept : bool, default=True
        False fixes b = 0: the variance is rescaled by w, the mean of
        :math:`(y - \mu)^2 / v`.

    Attributes
    ----------
    coef_ : float
        The slope w.
    intercept_ : float
        The intercept b.
    loss_before_, loss_after_ : float
        Mean Dawid-Sebastiani score of the calibration set before and after recalibration. The
        identity, w = 1 and b = 0, is in the family, so the score never increases.
    n_iter_ : int
        Iterations of the bracketing; 0 where the optimum has a closed form.
    converged_ : bool
        Whether an optimum was found. If not, a `ConvergenceWarning` gives the reason.
    injective_ : bool
        True if w > 0. Then the variances keep their order, and by the theorem of G22 the expected
        improvement of the score is the improvement of its calibration error. With w = 0 all
        samples get the same variance: the map is calibrated and loses the information in the
        variances.
    preserves_mean_ : bool
        True: the means are kept.
    n_features_in_ : int
        Two.

    See Also
    --------
    skcalib.regression.RecalibratedRegressorCV : Fits the map on out-of-fold forecasts.
    skcalib.regression.variance_reliability : Whether the variances are calibrated, by bins.

    Notes
    -----
    Where all variances are equal, w and b cannot be distinguished, and b is 0. Where every residual
    is zero the score has no minimum, because the variance would go to zero. Then w = 1 and b = 0,
    with a `ConvergenceWarning`. The cost is a few dozen passes over the data.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import VarianceScaling
    >>> rng = np.random.default_rng(0)
    >>> variance = rng.uniform(1, 3, 5000)
    >>> y = np.sqrt(2 * variance + 1) * rng.standard_normal(5000)  # true variance: 2 v + 1
    >>> mean_and_var = np.column_stack([np.zeros(5000), variance])
    >>> scaling = VarianceScaling().fit(mean_and_var, y)
    >>> print(f"{scaling.coef_:.1f} v + {scaling.intercept_:.1f}")
    1.9 v + 1.3
    """

    def __init__(self, *, fit_intercept: bool = True) -> None:
        self.fit_intercept = fit_intercept

    def fit(
        self, mean_and_var: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the map to held-out forecasts and their outcomes.

        Parameters
        ----------
        mean_and_var : array-like of shape (n_samples, 2)
            Forecast mean and variance (not the standard deviation), in this order. Variances must
            be positive.
        y : array-like of shape (n_samples,)
            Outcomes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the score; only their proportions matter, and zero-weight samples
            are dropped.
        """
        if y is None:
            raise ValueError("VarianceScaling requires y to be passed, but the target y is None.")
        check_parameters_of(self)
        check_indices(mean_and_var=mean_and_var, y=y, sample_weight=sample_weight)
        mean, variance = self._columns(mean_and_var, reset=True)
        name = "y_var, the second column of mean_and_var,"
        moments = check_moments(y, mean, variance, sample_weight, name="y", var_name=name)
        self.coef_, self.intercept_, self.n_iter_, self.converged_ = 1.0, 0.0, 0, True
        squared = np.square(moments.residual)
        if not squared.any():
            self._warn(
                "all residuals are zero, so the Dawid-Sebastiani score has no minimum (the "
                "variances would go to zero). They are not changed"
            )
        else:
            (self.coef_, self.intercept_), self.n_iter_, self.converged_ = _fit_variance_map(
                squared, moments.variance, moments.weight, fit_intercept=self.fit_intercept
            )
            if not self.converged_:
                self._warn(f"no optimum was reached in {self.n_iter_} iterations")
        self.injective_, self.preserves_mean_ = self.coef_ > 0, True
        self.loss_before_ = mean_score(moments)
        after = replace(moments, variance=self._map(moments.variance))
        self.loss_after_ = mean_score(after)
        return self

    def transform(self, mean_and_var: ArrayLike) -> np.ndarray:
        """Recalibrated means and variances.

        Parameters
        ----------
        mean_and_var : array-like of shape (n_samples, 2)
            Forecast mean and variance. A variance of zero is mapped as any other.

        Returns
        -------
        array of shape (n_samples, 2)
            The unchanged mean, and the recalibrated variance.
        """
        return np.column_stack(self._recalibrate(mean_and_var))

    def predict(
        self, mean_and_var: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Means, and recalibrated standard deviations, as scikit-learn's regressors return them.

        Parameters
        ----------
        mean_and_var : array-like of shape (n_samples, 2)
            Forecast mean and variance.
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        mean : array of shape (n_samples,)
            The unchanged mean.
        std : array of shape (n_samples,)
            Square root of the recalibrated variance, with ``return_std=True``.
        """
        mean, variance = self._recalibrate(mean_and_var)
        return (mean, np.sqrt(variance)) if return_std else mean

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Ignored.

        Returns
        -------
        array of shape (2,)
            "mean" and "variance".
        """
        check_is_fitted(self)
        return np.array(["mean", "variance"], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _columns(self, mean_and_var, *, reset):
        """Validated means and variances."""
        if np.ndim(mean_and_var) != 2 or np.shape(mean_and_var)[1] != 2:
            raise ValueError(
                "mean_and_var must have two columns, the mean and the variance, got shape "
                f"{np.shape(mean_and_var)}: np.column_stack([mean, std**2]) makes it from the "
                "output of predict(X, return_std=True)."
            )
        columns = [str(column) for column in getattr(mean_and_var, "columns", ())]
        if columns[1:] == ["mean"] or columns[:1] in (["var"], ["variance"]):
            raise ValueError(
                f"The columns of mean_and_var are named {columns}, but the mean comes first and "
                "the variance second: reorder them."
            )
        array = validate_data(
            self, mean_and_var, reset=reset, dtype=np.float64, ensure_all_finite=False
        )
        return check_numbers(array[:, 0], "y_mean"), check_numbers(array[:, 1], "y_var")

    def _recalibrate(self, mean_and_var):
        """Means and recalibrated variances."""
        check_is_fitted(self)
        mean, variance = self._columns(mean_and_var, reset=False)
        if variance.min() < 0:
            raise ValueError(
                "y_var, the second column of mean_and_var, must not be negative, but row "
                f"{int(variance.argmin())} holds {variance.min():g}."
            )
        return mean, self._map(variance)

    def _map(self, variance):
        return self.coef_ * variance + self.intercept_

    def _warn(self, reason):
        self.converged_ = False
        message = f"VarianceScaling did not converge: {reason}."
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


# --- Fit of the affine map ------------------------------------------------------------------------


# Search range of b / w: points per decade, and its margin beyond the range of the variances.
POINTS_PER_DECADE, MARGIN = 5, 10.0


def _fit_variance_map(squared, variance, weight, *, fit_intercept=True):
    """(w, b) >= 0 of the least mean score, iterations, and whether they were sufficient."""
    # Squared residuals are not all zero; variances and weights are positive.
    unit, size = (float(weighted_mean(v, weight)) for v in (variance, squared))
    relative = variance / unit
    low, high = relative.min(), relative.max()
    profile = Profile(squared / size, relative, weight)
    share, n_iter, converged = 0.0, 0, True
    if fit_intercept and high - low > 1e-12:
        decades = np.log10(high / low) + 2 * np.log10(MARGIN)
        odds = np.geomspace(low / MARGIN, high * MARGIN, int(decades * POINTS_PER_DECADE) + 2)
        shares = np.concatenate([[0.0], odds / (1 + odds), [1.0]])
        slopes = np.array([profile.slope(share) for share in shares])
        options = {
            "xtol": 1e-300,
            "maxiter": SIZES.bracket_iterations,
            "full_output": True,
            "disp": False,
        }
        rising = np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0))
        optima = [brentq(profile.slope, *shares[i : i + 2], **options) for i in rising]
        candidates = [root for root, _ in optima]
        candidates += [0.0] if slopes[0] >= 0 else []
        candidates += [1.0] if slopes[-1] <= 0 else []
        share = min(candidates, key=profile.value)
        n_iter = sum(report.iterations for _, report in optima)
        converged = all(report.converged for _, report in optima)
    scale = profile.scale(share) * size
    return (float(scale * (1 - share) / unit), float(scale * share)), n_iter, converged


class Profile:
    """Mean score along the shapes u(t) = (1 - t) v + t, each with its best scale."""

    def __init__(self, squared: np.ndarray, variance: np.ndarray, weight: np.ndarray) -> None:
        self.squared, self.variance, self.weight = squared, variance, weight
        self.target = centred(squared)  # the loss depends on the second moment about the mean only
        self.score = DawidSebastiani()

    def shape(self, share: float) -> np.ndarray:
        """Variances (1 - t) v + t, up to scale."""
        return (1 - share) * self.variance + share

    def scale(self, share: float) -> float:
        """The best scale of a shape: the mean of squared residual over shape."""
        return weighted_mean(self.squared / self.shape(share), self.weight)

    def value(self, share: float) -> float:
        """Mean score of a shape with its best scale."""
        forecast = centred(self.scale(share) * self.shape(share))
        return weighted_mean(self.score.loss(self.target, forecast), self.weight)

    def slope(self, share: float) -> float:
        """Derivative of `value`; the derivative of the best scale contributes nothing.

        Along the variance v the gradient of the entropy is H' = 1 / v, so H'' = -(H')^2 and the
        derivative of the loss is (H')^2 (v - squared) = H' (1 - H' squared).
        """
        scale = self.scale(share)
        precision = self.score.gradient(centred(scale * self.shape(share)))[:, 1]
        slope = precision * (1 - precision * self.squared)
        return scale * weighted_mean(slope * (1 - self.variance), self.weight)


# --- Regressors with recalibrated variances -------------------------------------------------------


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
        recalibrator: Any = VarianceScaling() if self.recalibrator is None else self.recalibrator
        fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "transform")
        if not fits or isinstance(recalibrator, type):
            raise ValueError(
                "recalibrator must have fit(mean_and_var, y) and transform(mean_and_var), such as "
                f"VarianceScaling(), unlike {shown(recalibrator)}."
            )
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
            (indexed,) = indexable(X)
            tasks = ((estimator, indexed, y, *fold, params) for fold in folds)
            moments = np.concatenate(run_each(_fold_moments, tasks, n_jobs=self.n_jobs))
            rows = np.concatenate([np.arange(len(y))[test] for _, test in folds])
            self.estimator_ = clone_estimator(estimator).fit(X, y, **params)
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        self.recalibrator_ = clone(recalibrator).fit(moments, y[rows], **weights)
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


def _check_returns_std(estimator):
    """Raise for regressors whose `predict` has no `return_std`; a Pipeline passes it on."""
    last = estimator
    while isinstance(last, Pipeline):
        last = last[-1]
    parameters = inspect.signature(last.predict).parameters if hasattr(last, "predict") else {}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if not ("return_std" in parameters or takes_any):
        raise ValueError(
            "RecalibratedRegressorCV needs a regressor with predict(X, return_std=True), such as "
            f"BayesianRidge or GaussianProcessRegressor; got {shown(estimator)}."
        )


# --- Means and variances of regressors ------------------------------------------------------------


def predict_moments(estimator: BaseEstimator, X: MatrixLike) -> np.ndarray:
    """Mean and variance of a fitted regressor, shape (n, 2)."""
    if isinstance(X, np.ndarray) and X.dtype == object and all(isinstance(v, Real) for v in X.flat):
        X = X.astype(np.float64)  # BayesianRidge cannot take roots of object arrays
    mean, std = estimator.predict(X, return_std=True)
    return np.column_stack([mean, np.square(np.asarray(std, dtype=np.float64))])


def _fold_moments(estimator, X, y, train, test, params):
    model = fit_rows(estimator, X, y, train, params)
    return predict_moments(model, take_rows(X, test))
