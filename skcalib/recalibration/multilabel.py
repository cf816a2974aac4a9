"""Recalibration of several labels per sample: one map for each label."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skcalib._util.parallel import run_each
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import ArrayLike, MatrixLike, RecalibratorLike
from skcalib._util.validation import check_indices
from skcalib.data.problem import check_label_probabilities, indicator_problem
from skcalib.recalibration._base import (
    TransformerOfColumns,
    fit_recalibrator,
    forecast_range,
    outside_range,
    recalibrated_proba,
)
from skcalib.recalibration.stacked import resolve_recalibrator

_ABSENT_PRESENT = np.array([0, 1])


@completes_docstrings
class MultilabelRecalibrator(TransformerOfColumns, BaseEstimator):
    """Recalibrate several labels per sample: one map for each label.

    Each column of the indicator matrix is a problem of two classes with its own map. The
    recalibrated probabilities of the labels of a sample are not divided by their sum, which has no
    meaning here. :class:`~skcalib.PlattScaling` and the others divide by it when they are used
    alone, because they assume one label per sample.

    Parameters
    ----------
    recalibrator : recalibrator, name or None, default=None
        Cloned for each label; any object with ``fit(P, y)`` and ``predict_proba(P)``, or a name as
        in `RecalibratedClassifierCV`. None is `PlattScaling`.

    Attributes
    ----------
    recalibrators_ : list
        The fitted recalibrator of each label.
    labels_ : array of shape (n_labels,)
        Names of the labels: those of the columns of a data frame, or 0 to L - 1.
    n_features_in_ : int
        Number of labels.
    calibration_range_ : array of shape (n_labels, 2)
        Smallest and largest probability of each label in its known cells. `outside` finds forecasts
        beyond them.

    See Also
    --------
    skcalib.data.notions.Multilabel : The errors of several labels.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import MultilabelRecalibrator, proper_calibration_error
    >>> from skcalib.data.notions import Multilabel
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=(4000, 2))
    >>> y = (rng.uniform(size=truth.shape) < truth).astype(int)
    >>> proba = truth**2 / (truth**2 + (1 - truth) ** 2)  # over-confident
    >>> recalibrator = MultilabelRecalibrator().fit(proba[:2000], y[:2000])
    >>> after = recalibrator.predict_proba(proba[2000:])
    >>> for p in (proba[2000:], after):
    ...     print(round(proper_calibration_error(y[2000:], p, notion=Multilabel()), 4))
    0.01
    0.0005
    """

    _labels_of_columns = "labels_"

    def __init__(self, recalibrator: RecalibratorLike = None, *, n_jobs: int | None = None) -> None:
        self.recalibrator = recalibrator
        self.n_jobs = n_jobs

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels), or list of arrays (n_samples, 2)
            Probabilities of held-out samples, as ``predict_proba`` gives them.
        y : array-like of shape (n_samples, n_labels)
            Indicator matrix of 0 and 1, with NaN or None for cells that are not known: each map is
            fitted to the known cells of its label.

        Raises
        ------
        ValueError
            For labels that are not an indicator matrix, a label without known cells, and for
            probabilities outside [0, 1] by more than a rounding error of 1e-9.

        Warns
        -----
        UserWarning
            For a label that all samples have, or none.
        """
        recalibrator: Any = resolve_recalibrator(
            "platt" if self.recalibrator is None else self.recalibrator
        )
        check_parameters_of(self)
        check_indices(X=X, y=y, sample_weight=sample_weight)
        problem = indicator_problem(y, X, sample_weight=sample_weight, name="X", labels_name="y")
        self.labels_, self.n_features_in_ = problem.classes, len(problem.classes)
        tasks: list[tuple[Any, ...]] = []
        ranges = []
        for label, one in zip(self.labels_.tolist(), problem.of_labels(), strict=True):
            ranges.append(forecast_range(one.forecast[:, 1:]))
            event = one.target[:, 1].astype(int)
            if event.min() == event.max():
                warnings.warn(
                    f"The label {label!r} is {event[0]} in all of its known cells, so its map "
                    "rests on one class only.",
                    UserWarning,
                    stacklevel=2,
                )
            tasks.append((recalibrator, one.forecast, event, one.sample_weight, _ABSENT_PRESENT))
        self.recalibrators_ = run_each(fit_recalibrator, tasks, n_jobs=self.n_jobs)
        self.calibration_range_ = np.vstack(ranges)
        return self

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Recalibrated probabilities of the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels), or list of arrays (n_samples, 2)
            Probabilities, as in `fit`.

        Returns
        -------
        array of shape (n_samples, n_labels)
            In [0, 1]; rows need not sum to one.
        """
        check_is_fitted(self)
        proba = check_label_probabilities(X, self.labels_, name="X")
        pairs = zip(self.recalibrators_, proba.T, strict=True)
        columns = [recalibrated_proba(one, _two(p), _ABSENT_PRESENT)[:, 1] for one, p in pairs]
        return np.column_stack(columns)

    def outside(self, X: MatrixLike) -> np.ndarray:
        """Whether the forecasts of each label lie beyond those of the calibration set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels), or list of arrays (n_samples, 2)
            Probabilities, as in `fit`.

        Returns
        -------
        array of bool of shape (n_samples, n_labels)
            True where a probability is below or above the ``calibration_range_`` of its label by
            more than the rounding errors of single precision. There no label supports the map.

        Raises
        ------
        ValueError
            For a map without a calibration set, such as one that was read from a file.
        """
        check_is_fitted(self)
        return outside_range(self, check_label_probabilities(X, self.labels_, name="X"))

    def _write_map(self, add, x):
        own = np.eye(len(self.labels_))[:, :, None]
        pairs = [add.pair(add("matrix", x, coef=one)) for one in own]
        maps = zip(self.recalibrators_, pairs, strict=True)
        return add("columns", *(add.second(add.recalibrator(*one)) for one in maps))

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Recalibrated probabilities: the same as `predict_proba`."""
        return self.predict_proba(X)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Indicator matrix of the labels whose recalibrated probability exceeds 1/2.

        Returns
        -------
        array of int of shape (n_samples, n_labels)
            0 and 1.
        """
        return (self.predict_proba(X) > 0.5).astype(int)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.positive_only = True
        return tags


def _two(score):
    """Probabilities of absence and presence."""
    return np.column_stack([1 - score, score])
