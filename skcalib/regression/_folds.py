"""Means and variances of regressors, fitted or out of fold."""

from numbers import Real

import numpy as np
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from skcalib.responses import fit_rows, take_rows


def predict_moments(estimator, X):
    """Mean and variance of a fitted regressor, shape (n, 2)."""
    if isinstance(X, np.ndarray) and X.dtype == object and all(isinstance(v, Real) for v in X.flat):
        X = X.astype(np.float64)  # numbers in disguise: BayesianRidge cannot take their root
    mean, std = estimator.predict(X, return_std=True)
    return np.column_stack([mean, np.square(np.asarray(std, dtype=np.float64))])


def out_of_fold_moments(estimator, X, y, *, folds, params, n_jobs):
    """Moments (m, 2) of every forecast that a fold makes, and the row of each."""
    (X,) = indexable(X)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fold_moments)(estimator, X, y, train, test, params) for train, test in folds
    )
    rows = np.concatenate([np.arange(len(y))[test] for _, test in folds])
    return np.concatenate(parts), rows


def _fold_moments(estimator, X, y, train, test, params):
    model = fit_rows(estimator, X, y, train, params)
    return predict_moments(model, take_rows(X, test))
