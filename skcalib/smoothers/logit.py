r"""The smoother that averages recalibration maps, out of fold."""

from __future__ import annotations

import warnings
from typing import Self

import numpy as np

from skcalib._util.types import CV, ArrayLike, RandomState
from skcalib._util.validation import ROW_SUM_TOLERANCE
from skcalib.links.averaging import PER_CLASS, averaged_map
from skcalib.smoothers._base import OutOfFoldSmoother

_MANY_CLASSES = 20  # from which few samples per class give a warning


class LogitSmoother(OutOfFoldSmoother):
    r"""Cross-fitted average of recalibration maps, weighted by their evidence.

    Estimates :math:`E[Y|S] = \sum_m a_m\, softmax(\log S + \sum_j \theta_{mj} g_j(S))`. The maps m
    change slopes, shifts, slopes of single classes and curves of the logits; the identity is one of
    them. The weights a follow from the log evidence of each map (:ref:`averaged_maps`). The default
    of the proper calibration errors fits the same maps to all samples, and this smoother fits them
    on the other folds. :ref:`smoothers` states where it is used. In the method "risk" its estimates
    are a lower bound in expectation; the default is not.

    Half of the smallest positive probability of the training fold replaces forecasts of exactly 0.
    Logarithms below -87, the end of single precision, are compressed, as in `TemperatureScaling`.
    This affects the fitted maps only, not the forecasts under evaluation.

    With more than two classes and fewer than 20 samples for each, there are no maps of single
    classes. With 20 or more classes, `fit` then gives a warning.

    Parameters
    ----------
    cv : None, int or splitter, default=None
        Folds, as in `CrossFitted`; five by default.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.

    See Also
    --------
    skcalib.recalibration.ModelAverageScaling : The same maps as a recalibrator.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.smoothers import LogitSmoother
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=LogitSmoother())
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.007, 0.006)
    """

    def __init__(self, cv: CV = None, random_state: RandomState = 0) -> None:
        self.cv = cv
        self.random_state = random_state

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        super().fit(forecast, target, sample_weight)
        warn_few_per_class(*self.forecast_.shape)
        return self

    def _fit_one(self, forecast, target, weight, cluster=None):
        return averaged_map(forecast, target, weight, None, cluster)

    def _refit(self, forecast, values, weight, cluster=None):
        predict = super()._refit(forecast, values, weight)
        return predict if cluster is None else self._fit_one(forecast, values, weight, cluster)

    def _check_target(self, values):
        shares = values.ndim == 2 and values.shape[1] > 1 and values.min() >= 0
        if not (shares and np.allclose(values.sum(axis=1), 1, atol=ROW_SUM_TOLERANCE)):
            super()._check_target(values)
        if values.shape != self.forecast_.shape:
            raise ValueError(
                "LogitSmoother needs one forecast column per class; got forecasts of shape "
                f"{self.forecast_.shape} and a target of shape {values.shape}. For other "
                "representations use DirichletKernel or CrossFitted."
            )


def warn_few_per_class(n_samples: int, n_classes: int) -> None:
    """Warn if there are many classes and too few samples for maps of each."""
    if n_classes >= _MANY_CLASSES and n_samples < PER_CLASS * n_classes:
        warnings.warn(
            f"{n_samples} samples of {n_classes} classes are fewer than {PER_CLASS} per class: "
            "miscalibration that is common to all classes is detected, but not that of single "
            "classes. The error may be larger than the estimate: use more samples, or "
            "notion='top_label'.",
            UserWarning,
            stacklevel=3,
        )
