"""Bounds for binned errors: bias, number of bins, and error on new data (F24).

`evaluate_supersample` refits a classifier on halves of supersamples; the information that it
estimates enters the bounds of the error on new data. The formulas are in `skcalib.stats.bins`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from skcalib._util.formatting import Record
from skcalib._util.parameters import check_choice, checks_parameters
from skcalib._util.types import (
    ArrayLike,
    BinCount,
    Label,
    MatrixLike,
    RandomState,
    ResponseMethod,
    Strategy,
)
from skcalib._util.validation import check_count, check_indices, take_rows
from skcalib.data.labels import check_classes, check_y, one_hot, unique_labels
from skcalib.data.notions import Auto
from skcalib.errors import calibration_error
from skcalib.estimators.classifiers import classifier_proba, clone_estimator, fit_rows
from skcalib.recalibration.base import align_columns
from skcalib.stats.bins import (
    BIN_RULES,
    LOG2,
    STRATEGIES,
    ece_bias_bound,
    ece_generalization_bound,
    optimal_n_bins,
    parse_bins,
)

__all__ = [
    "InformationEstimate",
    "SupersampleEvaluation",
    "ece_bias_bound",
    "ece_generalization_bound",
    "evaluate_supersample",
    "optimal_n_bins",
]

NOTE = (
    "A plug-in estimate from k draws cannot exceed ln k for any information, and is not an "
    "upper bound of it: an estimate near ln k only shows that k draws are not sufficient."
)


@dataclass(frozen=True)
class InformationEstimate(Record):
    """Plug-in estimate of a conditional mutual information, with its limits, in nats.

    Attributes
    ----------
    estimate : float
        Mean over supersamples of the mutual information of the observed draws.
    ceiling : float
        ln k for k draws per supersample: no estimate can be larger.
    maximum : float
        n ln 2: the information itself cannot be larger.
    note : str
        Interpretation of the estimate.

    See Also
    --------
    skcalib.theory.SupersampleEvaluation : Has three of these estimates.
    """

    estimate: float
    ceiling: float
    maximum: float
    note: str = field(default=NOTE, repr=False)


@dataclass(frozen=True, eq=False)
class SupersampleEvaluation(Record):
    """Result of :func:`~skcalib.theory.evaluate_supersample`.

    S supersamples of n pairs have k draws each.

    `to_frame` has a row for each draw, with ``supersample``, ``draw``, ``train_error``,
    ``test_error`` and ``gap``.

    Attributes
    ----------
    train_error, test_error : array of shape (S, k)
        ECE on the n samples that the classifier was trained on, and on the other n.
    selection : array of int of shape (S, k, n)
        U: the sample of each pair, 0 or 1, that was trained on.
    rows : array of int of shape (S, n, 2)
        Row of X of each sample of each pair.
    forecast, target : array of shape (S, k, n, 2)
        Probability of the positive class and whether it occurred, or confidence and whether the
        prediction was right, for all samples of the supersample. ``target - forecast`` is the
        residual that the ECE adds up.
    n_bins : int
        Number of bins.
    ecmi : InformationEstimate
        Information of the number ``abs(gap)`` about U (F24, eq. 15). The choice U also determines
        which rows are compared, so the estimate is usually near the ceiling even for classifiers
        that do not depend on their training samples.
    residual_cmi : InformationEstimate
        Information of the residuals of all 2 n samples about U, for which the bound of
        :func:`~skcalib.theory.ece_generalization_bound` is proven.
    fcmi : InformationEstimate
        Information of the forecasts of all 2 n samples about U (F24, eq. 17). For two classes the
        label determines the residual from the forecast, so this equals `residual_cmi`.

    See Also
    --------
    skcalib.theory.evaluate_supersample : Makes this record.
    """

    train_error: np.ndarray = field(repr=False)
    test_error: np.ndarray = field(repr=False)
    selection: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)
    forecast: np.ndarray = field(repr=False)
    target: np.ndarray = field(repr=False)
    n_bins: int
    ecmi: InformationEstimate
    residual_cmi: InformationEstimate
    fcmi: InformationEstimate

    _beside = ("n_bins", "ecmi", "residual_cmi", "fcmi")

    @property
    def gap(self) -> np.ndarray:
        """Test error minus training error of each draw, shape (S, k)."""
        return self.test_error - self.train_error

    def _columns(self):
        supersample, draw = np.indices(self.train_error.shape)
        names = ("train_error", "test_error", "gap")
        errors = {name: getattr(self, name).ravel() for name in names}
        return {"supersample": supersample.ravel(), "draw": draw.ravel(), **errors}


@checks_parameters
def evaluate_supersample(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    *,
    n_supersamples: int = 5,
    n_draws: int = 10,
    n_pairs: int | None = None,
    n_bins: BinCount = "auto",
    strategy: Strategy = "uniform",
    response_method: ResponseMethod = "auto",
    pos_label: Label = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SupersampleEvaluation:
    r"""Train on random halves of supersamples, and evaluate the ECE on both halves (F24).

    A supersample is n pairs of rows, drawn without replacement from the data. A draw chooses one
    row of each pair at random (U), trains a clone of the classifier on these n rows, and evaluates
    it on all 2 n. The mean of :math:`|ECE(test) - ECE(train)|` over draws and supersamples
    estimates the quantity that :func:`~skcalib.theory.ece_generalization_bound` bounds. The
    supersamples are independent only if the data are many times larger than 2 n. Otherwise they
    share rows, and their variation is too small.

    The ECE is that of F24: the probability of the positive class for two classes, the confidence of
    the top label for more, with the bins of each half.

    The three estimates of information (``ecmi``, ``residual_cmi``, ``fcmi``) are means over
    supersamples of the plug-in mutual information of k draws. They are at most ln k, and not upper
    bounds of the information (:ref:`ece_bias`).

    Parameters
    ----------
    estimator : classifier
        Cloned for every draw. A `random_state` of None, in it or in a nested estimator, is replaced
        by drawn seeds.
    X : array-like, data frame or sparse matrix of shape (n_samples, ...)
        Features.
    n_supersamples, n_draws : int, default=5 and 10
        S and k: S k classifiers are trained.
    n_pairs : int, default=None
        Pairs n of a supersample, the size of each training set; by default half of the data.
    n_bins : int, "auto" or "cube_root", default="auto"
        Bins; "auto" is :func:`~skcalib.optimal_n_bins` of n for bins of equal mass, "cube_root" the
        cube root of n, rounded. Limits as in :func:`~skcalib.calibration_error`.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass; equal width first, as in F24.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        Method of the classifier that gives the probabilities.
    pos_label : label, default=None
        The positive class of two; by default the last in order.
    random_state : int, RandomState instance or None, default=0
        Seed of the supersamples, of the choices, and of the seeds of the clones.
    verbose : int, default=0
        Passed to joblib.

    Returns
    -------
    SupersampleEvaluation
        Arrays of errors, choices and forecasts, and plug-in estimates of the information in nats.
        The arrays of forecasts take 32 S k n bytes.

    Raises
    ------
    ValueError
        If the data hold fewer than 2 n rows or a single class, a training half holds a single
        class, or an argument is out of its range.

    See Also
    --------
    skcalib.theory.ece_generalization_bound : The bound on the gap.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skcalib.theory import evaluate_supersample
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = evaluate_supersample(
    ...     DecisionTreeClassifier(), X, y, n_supersamples=2, n_draws=4, random_state=0)
    >>> bool(result.train_error.max() == 0 and result.test_error.min() > 0.03)
    True
    >>> round(result.fcmi.estimate, 3), round(result.fcmi.ceiling, 3), round(result.fcmi.maximum)
    (1.386, 1.386, 197)
    """
    check_indices(X=X, y=y)
    (X,) = indexable(X)
    check_classification_targets(y)
    y = check_y(y, name="y")
    check_consistent_length(X, y)
    n_classes = len(unique_labels(y))
    if n_classes < 2:
        raise ValueError(
            f"y holds one class, {y.tolist()[0]!r}: no classifier can be trained on it."
        )
    classes = check_classes(y, 1 if n_classes == 2 else n_classes, pos_label=pos_label, name="y")
    n_supersamples = check_count(n_supersamples, "n_supersamples")
    n_draws = check_count(n_draws, "n_draws")
    n_pairs = check_count(len(y) // 2 if n_pairs is None else n_pairs, "n_pairs")
    if n_pairs > len(y) // 2:
        raise ValueError(
            f"n_pairs={n_pairs} pairs need {2 * n_pairs} rows, but X has {len(y)}: use at most "
            f"{len(y) // 2} pairs."
        )
    check_choice(strategy, "strategy", choices=STRATEGIES)
    if isinstance(n_bins, str) and n_bins in BIN_RULES:
        n_bins = BIN_RULES[n_bins](n_pairs)
    n_bins = check_count(n_bins, "n_bins", kind="'auto', 'cube_root' or a whole number")
    n_bins = int(parse_bins(n_bins, n_pairs, strategy))

    # All random numbers are drawn before the parallel part.
    rng, shape = check_random_state(random_state), (n_supersamples, n_draws)
    rows = np.stack([rng.permutation(len(y))[: 2 * n_pairs] for _ in range(n_supersamples)])
    rows = rows.reshape(n_supersamples, n_pairs, 2)
    selection = rng.randint(2, size=(*shape, n_pairs))
    seeds = rng.randint(np.iinfo(np.int32).max, size=shape)
    draws = Parallel(n_jobs=n_jobs, verbose=verbose)(
        delayed(_evaluate_draw)(
            _with_seeds(estimator, seeds[s, d]),
            X,
            y,
            rows[s],
            selection[s, d],
            classes=classes,
            bins={"n_bins": n_bins, "strategy": strategy},
            response_method=response_method,
        )
        for s, d in np.ndindex(shape)
    )
    forecast, target, train_error, test_error = (
        np.reshape(part, (*shape, *np.shape(part[0]))) for part in zip(*draws, strict=True)
    )
    return SupersampleEvaluation(
        train_error=train_error,
        test_error=test_error,
        selection=selection,
        rows=rows,
        forecast=forecast,
        target=target,
        n_bins=n_bins,
        # Equal gaps may differ by rounding, as the halves are summed in different orders.
        ecmi=_information(np.abs(test_error - train_error).round(12), selection),
        residual_cmi=_information(target - forecast, selection),
        fcmi=_information(forecast, selection),
    )


def _with_seeds(estimator, seed):
    """A clone with seeds for its random states of None, so that the order of fits has no effect."""
    seeded, rng = clone_estimator(estimator), np.random.RandomState(seed)
    names = sorted(
        name
        for name, value in seeded.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    )
    seeds = {name: rng.randint(np.iinfo(np.int32).max) for name in names}
    return seeded.set_params(**seeds) if seeds else seeded


def _evaluate_draw(estimator, X, y, rows, selection, *, classes, bins, response_method):
    """Train on the chosen row of each pair -> forecast, target (n, 2), train and test error."""
    train = rows[np.arange(len(rows)), selection]
    if len(np.unique(y[train])) < 2:
        raise ValueError(
            f"A training half of {len(train)} rows has only the class "
            f"{y[train].tolist()[0]!r}: use more pairs (n_pairs=), or more data of the rare class."
        )
    model = fit_rows(estimator, X, y, train, None)
    proba = classifier_proba(model, take_rows(X, rows.ravel()), response_method=response_method)
    proba = align_columns(proba, model.classes_, classes)
    pair = next(iter(Auto().problems(proba, one_hot(y[rows.ravel()], classes))))
    forecast, target = (array[:, 1].reshape(rows.shape) for array in pair)
    half, options = np.arange(len(rows)), {"notion": "canonical", "labels": [0, 1], **bins}
    errors = (
        calibration_error(target[half, column], forecast[half, column], **options)
        for column in (selection, 1 - selection)
    )
    return forecast, target, *errors


def _information(values, selection):
    """Mean over supersamples of the plug-in information of values (S, k, ...) about U."""
    n_supersamples, n_draws, n_pairs = selection.shape
    nats = [
        _entropy(flat) + _entropy(chosen) - _entropy(np.hstack([flat, chosen]))
        for flat, chosen in zip(values.reshape(n_supersamples, n_draws, -1), selection, strict=True)
    ]
    # Rounding may make a difference of equal entropies negative.
    return InformationEstimate(max(float(np.mean(nats)), 0.0), log(n_draws), n_pairs * LOG2)


def _entropy(rows):
    """Entropy in nats of the empirical distribution of the rows."""
    share = np.unique(rows, axis=0, return_counts=True)[1] / len(rows)
    return float(-np.sum(share * np.log(share)))
