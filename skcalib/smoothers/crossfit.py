"""Out-of-fold smoothing with any scikit-learn classifier."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skcalib.smoothers._base import Smoother, check_folds, cross_predict


class OutOfFoldSmoother(Smoother):
    """Base class: `smooth` predicts each sample by a model that was fitted on other folds.

    To add one, implement ``_fit_one(forecast, target, weight)``, which returns a function from
    forecasts to estimates of the target. Constructors have the parameters ``cv`` and
    ``random_state``.
    """

    def fit(self, forecast, target, sample_weight=None):
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        self._store(forecast, target, sample_weight)
        self._check_target(self.target_)
        self._model = None
        return self

    def smooth(self, values=None):
        """Out-of-fold predictions of `values`."""
        check_is_fitted(self)
        values = self._values(values)
        self._check_target(values)
        folds = check_folds(self.cv, values, random_state=self.random_state)
        return cross_predict(self.forecast_, values, self.weight_, self._fit_one, folds)

    def smooth_held_out(self, values=None):
        """Identical to `smooth`, which is out of fold."""
        return self.smooth(values)

    def predict(self, forecast):
        """Predictions of one model fitted on all samples."""
        check_is_fitted(self)
        if self._model is None:
            self._model = self._fit_one(self.forecast_, self.target_, self.weight_)
        return self._model(np.asarray(forecast, dtype=np.float64))

    def _fit_one(self, forecast, target, weight):
        raise NotImplementedError

    def _check_target(self, values):
        """Refuse targets that the model cannot learn; classifiers learn one-hot rows."""
        rows_are_labels = values.ndim == 2 and values.shape[1] >= 2
        if not (
            rows_are_labels
            and np.isin(values, (0.0, 1.0)).all()
            and np.array_equal(values.sum(axis=1), np.ones(len(values)))
        ):
            raise ValueError(
                f"{type(self).__name__} smooths one-hot labels of shape (n, C) only, because a "
                "classifier cannot be fitted to other values: use a partition or a kernel."
            )


class CrossFitted(OutOfFoldSmoother):
    """Out-of-fold probabilities of any scikit-learn classifier fitted on the forecasts (B26).

    The classifier sees the forecast as its features and learns the label, so that its
    out-of-fold probabilities estimate E[Y|S]. Any classifier gives a valid lower bound with
    ``method="risk"``; a better one a tighter bound.

    Parameters
    ----------
    estimator : classifier with predict_proba
        Cloned for every fold, never fitted in place.
    cv : int or splitter, default=5
        Folds; an integer means shuffled folds, stratified by label where every class is frequent
        enough. Repeated splitters average their predictions.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from skcalib import CrossFitted, proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> smoother = CrossFitted(HistGradientBoostingClassifier(max_depth=2, max_iter=30))
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=smoother, method="cross")
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.01, 0.006)
    """

    def __init__(self, estimator, cv=5, random_state=0):
        self.estimator = estimator
        self.cv = cv
        self.random_state = random_state

    def _fit_one(self, forecast, target, weight):
        labels = target.argmax(axis=1)
        present = np.unique(labels)
        if len(present) == 1:  # nothing to learn; many classifiers refuse a single class
            constant = np.eye(target.shape[1])[present[0]]
            return lambda new: np.tile(constant, (len(new), 1))
        model = clone(self.estimator)
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"CrossFitted needs a classifier with predict_proba, got {self.estimator!r}."
            )
        weighted = np.ptp(weight) > 0
        if weighted and not has_fit_parameter(model, "sample_weight"):
            raise ValueError(
                f"{type(model).__name__} does not take sample_weight, but the samples have "
                "different weights: choose another smoother or leave the weights out."
            )
        # Weights average: their scale must not compete with a penalty of the classifier.
        weight = weight * (len(weight) / weight.sum())
        model.fit(forecast, labels, **({"sample_weight": weight} if weighted else {}))

        def predict(new):
            proba = np.zeros((len(new), target.shape[1]))
            proba[:, model.classes_] = model.predict_proba(new)
            return proba

        return predict
