r"""Recalibration by forecast and features, by forecast and group, or of several labels.

`GroupRecalibrator` corrects by features, of which `FeatureReader` makes numbers, and
`MultilabelRecalibrator` has a recalibrator for each label. `CorrectedModel` is the model of
corrections by features that bounds of the grouping loss, decisions and recalibrators use.

Forecasts with logarithms f (n, K) become :math:`softmax(f + \sum_j a_j F_j)`; without any
correction they stay exactly as they are. `CorrectedModel` fits paths of the parts F: lists of
corrections from simple to complex, whose places are their levels.

1. *linear*: :math:`F = z^\top B` for standardised features z and indicators of categories, of few
   values and of missing values; a multinomial regression with the penalty
   :math:`\lambda \|B\|^2 / 2`.
2. *products*: the same for products of two features, or of a feature and a principal component of
   the logits. Features enter by their rank.
3. *trees*: boosting of the log loss. A tree has one structure for all classes. It is fitted to the
   three principal components of the residuals y - p (SketchBoost, Iosipoi and Vakhrushev, NeurIPS
   2022). A leaf adds :math:`\frac{K - 1}{K} \sum w (y - p) / (\sum w p (1 - p) + \lambda)` times
   the learning rate (Friedman, Hastie and Tibshirani, Annals of Statistics 28, 2000).

`GroupEffects` fits the path of a hierarchical logistic model instead: each named group has a shift
and a slope of its logits, with normal priors of standard deviation :math:`\tau` and of half of it.
:ref:`correction_by_features` has the formula.

`Mixing` chooses the level of each part and the weights :math:`a \ge 0` by held-out losses. The
weights are 0 unless the gain exceeds its standard error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import Tags, check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.parallel import out_of_fold, run_each, threads_for
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import ArrayLike, MatrixLike, RandomState, RecalibratorLike
from skcalib._util.validation import (
    check_indices,
    refuse_frames_to_fetch,
    take_rows,
    weighted_rows,
    weights_of_mean_one,
)
from skcalib.data.features import FeatureEncoder, as_cells, is_frame, read_column
from skcalib.data.problem import check_label_probabilities, indicator_problem
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.base import (
    IdentityRecalibrator,
    Recalibrator,
    TransformerOfColumns,
    fit_recalibrator,
    forecast_range,
    is_increasing,
    outside_range,
    recalibrated_proba,
)
from skcalib.recalibration.held_out import resolve_recalibrator
from skcalib.recalibration.one_vs_rest import PlattScaling
from skcalib.recalibration.scaling import ModelAverageScaling
from skcalib.scores import LossLike, weighted_mean
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import MeanInterval, first_within_one_standard_error, mean_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from skcalib._util.types import Fold, RowIndex

    #: Corrections (L, m, K) of some rows.
    PathsOfRows: TypeAlias = Callable[[np.ndarray], np.ndarray]


# --- Corrections by features or groups ------------------------------------------------------------


_FEWEST = 20  # samples, to learn anything
_NONE = MeanInterval(0.0, 0.0, 0.0, 0.0)


class GroupRecalibrator(Recalibrator):
    r"""Recalibrate by features or groups, where that lowers the held-out loss.

    A recalibrator of the forecast alone cannot reduce the grouping loss, which comes from groups
    with equal forecasts and different frequencies. This one corrects the forecast s of a sample
    with features x:

    .. math:: s' = softmax\bigl(\log g(s) + F(g(s), x)\bigr) .

    - g is a *plain* recalibrator, a function of the forecast alone.
    - For features, F is a mixture of three corrections: linear in the features, products of two
      features or of a feature and the forecast, and boosted trees. It is the model of
      `GroupingLossEstimator`, and starts at the plain forecast, as in multicalibration
      (Hebert-Johnson and others, ICML 2018).
    - For named groups, F is a shift and a slope for each group. Both are shrunk towards zero, more
      strongly in small groups (a hierarchical logistic model).

    **It may do nothing.** On `cv` folds, losses are measured with s, with g(s), and with F of
    several penalties, numbers of trees, or standard deviations between the groups. The mixture of
    the lowest loss is chosen. F is used only if its held-out gains over g and over s exceed their
    standard errors. Otherwise g is used, if the interval of its own gain lies above 0. Otherwise
    the forecast is unchanged. The gain of each fold is measured with the mixture that the other
    folds choose.

    Parameters
    ----------
    recalibrator : recalibrator or name, default=None
        The plain recalibrator g, or a name as in `RecalibratedClassifierCV`. None is
        `ModelAverageScaling`, or `PlattScaling` with `monotone`.
    monotone : bool, default=False
        For two classes: with equal features, the higher of two forecasts stays higher. The identity
        replaces a plain recalibrator that is not known to be increasing, groups have shifts only,
        and corrections depend on the features alone.
    cv : int, default=5
        Number of folds, stratified by class.
    confidence_level : float, default=0.95
        Level of the intervals of the gains.
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        The held-out loss that chooses, and the unit of the gains. Corrections are fitted by
        likelihood.
    random_state : int, RandomState instance or None, default=0
        Folds.

    Attributes
    ----------
    chosen_ : {"identity", "plain", "features"}
        What is applied: nothing, g, or g and F.
    identity_ : bool
        Whether forecasts are unchanged.
    gain_ : MeanInterval
        Held-out gain of what is applied: mean loss of s minus that with it. 0 for the identity.
    plain_gain_ : MeanInterval
        Held-out gain of g over s.
    feature_gain_ : MeanInterval
        Held-out gain of g and F over g. Up to noise, it is a lower bound of what a model that uses
        the features fully would gain beyond recalibration. It is measured even where F is not used,
        and is 0 if no fold would use F.
    weights_ : dict
        The weights of the parts of F that are applied, by name: "linear", "products" and "trees",
        or "groups".
    spread_ : float
        With groups, the prior standard deviation of their shifts of the log odds; 0 for no shifts,
        and for features.
    plain_ : recalibrator
        The fitted g.

    See Also
    --------
    skcalib.RecalibratedClassifierCV : Passes its X to this recalibrator as features.
    skcalib.GroupingLossEstimator : The loss that this recalibrator reduces.
    skcalib.grouping.grouping_improvement : What remains of that loss, on unused samples.

    Notes
    -----
    **What is assumed.** X holds forecasts of held-out samples, as for each recalibrator. New
    samples have the features of `fit` and come from the same population. Fit again for another
    population.

    **Unseen groups** get the plain correction. Unseen categories of a feature are treated as its
    rare ones, which have no effect of their own (:ref:`features`).

    **Cost.** ``cv + 1`` fits of the plain recalibrator and of F. This takes some seconds for 10,000
    samples of 20 features.

    A correction by features has no declared properties: it changes the order of forecasts and may
    change the predicted class.

    Examples
    --------
    >>> from skcalib import GroupRecalibrator
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(8000, random_state=0)
    >>> P, y, X = data.y_proba, data.y, data.X
    >>> correction = GroupRecalibrator().fit(P[:4000], y[:4000], features=X[:4000])
    >>> correction.chosen_, correction.gain_.low > 0
    ('features', True)
    >>> after = correction.predict_proba(P[4000:], features=X[4000:])
    """

    takes_features = True
    _takes_soft = False

    def __init__(
        self,
        recalibrator: RecalibratorLike = None,
        *,
        monotone: bool = False,
        cv: int = 5,
        confidence_level: float = 0.95,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.recalibrator = recalibrator
        self.monotone = monotone
        self.cv = cv
        self.confidence_level = confidence_level
        super().__init__(input=input, loss=loss, labels=labels)
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: MatrixLike | ArrayLike | None = None,
    ) -> Self:
        """Learn the correction, or the identity where no correction lowers the held-out loss.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Forecasts of held-out samples.
        y : array-like of shape (n_samples,)
            Labels.
        features : array-like of shape (n_samples, n_features) or (n_samples,), default=None
            Features: numbers, times and categories, with missing values. A warning names columns
            that are left out, such as free text and identifiers (:ref:`features`). A vector holds
            the group of each sample. With None only the plain recalibrator is learned.

        Raises
        ------
        ValueError
            For invalid input or parameters, features with other rows than X, and ``monotone=True``
            with more than two classes.
        """
        check_indices(X=X, y=y, sample_weight=sample_weight, features=features)
        reader = None
        if features is not None and np.ndim(y) > 0:  # other y are refused below
            n_samples = np.shape(y)[0]
            _check_rows(features, n_samples)
            features = take_rows(features, weighted_rows(sample_weight, n_samples))
            reader = FeatureReader().fit(features)
        samples = self._check_samples(X, y, sample_weight)
        if self.monotone and len(self.classes_) > 2:
            raise ValueError(
                f"monotone=True needs two classes, but there are {len(self.classes_)}: set it to "
                "False, or recalibrate the probability of each class against the others."
            )
        self._reader = reader
        if reader is not None:
            samples.features = reader.read(features)
        return self._learn(samples)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: MatrixLike | ArrayLike | None = None,
    ) -> np.ndarray:
        """`fit` and `transform` of the same samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.
        """
        options = _features_option(features)
        return self.fit(X, y, sample_weight, **options).transform(X, **options)

    def predict_proba(
        self, X: ArrayLike, *, features: MatrixLike | ArrayLike | None = None
    ) -> np.ndarray:
        """Corrected probabilities, shape (n_samples, n_classes).

        Parameters
        ----------
        features : array-like of shape (n_samples, n_features) or (n_samples,), default=None
            Features or groups, as in `fit`; required if `fit` had them.
        """
        values = self._check_forecasts(X)
        return self._mapped(values, self._table(features, len(values)))

    def predict(
        self, X: ArrayLike, *, features: MatrixLike | ArrayLike | None = None
    ) -> np.ndarray:
        """Class of largest corrected probability."""
        proba = self.predict_proba(X, **_features_option(features))
        return self.classes_[proba.argmax(axis=1)]

    def transform(
        self, X: ArrayLike, *, features: MatrixLike | ArrayLike | None = None
    ) -> np.ndarray:
        """Corrected probabilities: the same as `predict_proba`."""
        return self.predict_proba(X, **_features_option(features))

    def _check_parameters(self):
        whole = isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool)
        if not whole or self.cv < 2:
            raise ValueError(f"cv must be a number of folds, at least 2, got {shown(self.cv)}.")
        super()._check_parameters()
        self._plain()

    def _plain(self):
        default = PlattScaling() if self.monotone else ModelAverageScaling()
        return default if self.recalibrator is None else resolve_recalibrator(self.recalibrator)

    def _table(self, features, n_samples):
        """Numbers of the features of new samples, or None if `fit` had none."""
        if self._reader is None:
            if features is not None:
                raise ValueError("features were given, but fit had none: fit with features=.")
            return None
        if features is None:
            raise ValueError(
                "features is None, but the recalibrator was fitted with features: pass "
                "features=, one row for each forecast."
            )
        _check_rows(features, n_samples)
        return self._reader.read(features)

    def _fit_map(self, samples):
        score, forecast, target = samples.score, samples.forecast, samples.target
        weight, table = weights_of_mean_one(samples.weight), samples.features
        mixture, gains = None, (_NONE, _NONE, _NONE)
        if len(weight) >= _FEWEST:
            mixture, gains = self._cross_validate(score, forecast, target, weight, table)
        self.plain_gain_, self.feature_gain_, total = gains
        self._mixture = None
        gained = all(gain.estimate > gain.standard_error for gain in (self.feature_gain_, total))
        if mixture is not None and mixture.weights.any() and gained:
            self.chosen_, self.gain_, self._mixture = "features", total, mixture
        elif self.plain_gain_.low > 0:
            self.chosen_, self.gain_ = "plain", self.plain_gain_
        else:
            self.chosen_, self.gain_ = "identity", _NONE
        self.identity_ = self.chosen_ == "identity"
        with warnings.catch_warnings():
            if self.identity_:  # the plain recalibrator is not applied
                warnings.simplefilter("ignore", ConvergenceWarning)
            self.plain_ = self._fit_plain(forecast, target, weight)
        self.weights_, self.spread_ = {}, 0.0
        if self._mixture is not None:
            plain = recalibrated_proba(self.plain_, forecast, self.classes_)
            self._limit = detection_limit(plain)
            start = log_forecast(plain, self._limit)
            self._correction = self._model().fit(start, table, target, weight)
            weights = self._mixture.weights.tolist()
            self.weights_ = dict(zip(self._correction.names, weights, strict=True))
            if self._reader.is_groups:
                self.spread_ = SPREADS[self._mixture.levels[0]]
        declared = {"identity": True, "features": False}
        for name in ("injective_", "preserves_argmax_", "preserves_order_"):
            of_plain = bool(getattr(self.plain_, name, False))
            setattr(self, name, declared.get(self.chosen_, of_plain))
        before = score.loss(target, forecast)
        after = score.loss(target, self._apply_map(forecast, table))
        return float(weighted_mean(before, weight)), float(weighted_mean(after, weight))

    def _cross_validate(self, score, forecast, target, weight, table):
        """The mixture that all folds choose, and the gains of g, of F beyond g, and of both."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        folds = check_folds(self.cv, target, random_state=seed)
        before, plain = score.loss(target, forecast), np.empty(len(weight))
        start, folds_paths, mixture = np.empty_like(forecast), [], None
        for train, test in folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = self._fit_plain(forecast[train], target[train], weight[train])
            proba = recalibrated_proba(fitted, forecast[test], self.classes_)
            plain[test] = score.loss(target[test], proba)
            train_proba = recalibrated_proba(fitted, forecast[train], self.classes_)
            limit = detection_limit(train_proba)
            start[test] = log_forecast(proba, limit)
            if table is not None:
                model, train_start = self._model(), log_forecast(train_proba, limit)
                model.fit(
                    train_start, table[train], target[train], weights_of_mean_one(weight[train])
                )
                folds_paths.append(model.paths(start[test], table[test]))
        nested = plain.copy()
        if folds_paths:
            order = np.argsort(np.concatenate([test for _, test in folds]))
            paths = [
                np.concatenate(of_folds, axis=1)[:, order]
                for of_folds in zip(*folds_paths, strict=True)
            ]

            def losses(step, rows):
                return score.loss(target[rows], softmax(start[rows] + step, axis=1))

            mixing = Mixing(losses, paths, weight, cautious=True)
            mixture = mixing.choose(np.arange(len(weight)))
            for test, chosen in mixing.of_other_folds(folds):
                if chosen.weights.any():
                    nested[test] = losses(chosen.of(paths, test), test)
        return mixture, [
            mean_difference(worse, better, weight, float(self.confidence_level))
            for worse, better in ((before, plain), (plain, nested), (before, nested))
        ]

    def _fit_plain(self, forecast, target, weight):
        """The plain recalibrator; the identity where order is kept and it is not increasing."""
        labels = self.classes_[target.argmax(axis=1)]
        plain = fit_recalibrator(self._plain(), forecast, labels, weight, self.classes_)
        if self.monotone and not is_increasing(plain, self.classes_):
            identity = IdentityRecalibrator()
            plain = fit_recalibrator(identity, forecast, labels, weight, self.classes_)
        return plain

    def _model(self):
        """An unfitted correction F."""
        if self._reader.is_groups:
            return GroupEffects(len(self._reader.names), slopes=not self.monotone)
        return CorrectedModel(by_score=not self.monotone)

    def _apply_map(self, forecast, table=None):
        if self.identity_:
            return forecast
        plain = recalibrated_proba(self.plain_, forecast, self.classes_)
        if self._mixture is None:
            return plain
        start = log_forecast(plain, self._limit)
        paths = self._correction.paths(start, table)
        corrected = softmax(start + self._mixture.of(paths, slice(None)), axis=1)
        unseen = table == -1 if table.ndim == 1 else np.zeros(len(table), dtype=bool)
        return np.where(unseen[:, None], plain, corrected)

    def _write_map(self, add, x):
        if self._mixture is not None:
            raise ValueError(
                "This GroupRecalibrator corrects by features, which an exported map does not get: "
                "export its plain_ recalibrator, which corrects by the forecast alone."
            )
        return x if self.identity_ else add.recalibrator(self.plain_, x, self.classes_)


def _features_option(features):
    """Arguments of methods; subclasses need not accept features that are not given."""
    return {} if features is None else {"features": features}


# --- Features, or the group of each sample, as numbers --------------------------------------------


_MANY = 20  # different values, to be surely no groups


class FeatureReader:
    """Learns the columns of features, and reads them as numbers; missing values are nan.

    A vector has the name of the group of each sample (``is_groups``): `read` gives their numbers,
    and -1 for groups that `fit` has not seen. A matrix or a data frame is read by `FeatureEncoder`.
    """

    def fit(self, features: MatrixLike | ArrayLike) -> Self:
        """Learn columns, names and categories; returns the reader."""
        self.is_groups = _is_vector(features)
        if self.is_groups:
            column = read_column(features)
            values = column.numbers()[~column.missing]
            measured = column.kind in ("time", "duration") or np.any(values != np.rint(values))
            if len(values) >= _MANY and measured and len(np.unique(values)) > 0.5 * len(values):
                raise ValueError(
                    f"features is a vector of {len(values):,} {column.kind}s that mostly differ, "
                    "but a vector holds the group of each sample: for a feature pass a column, of "
                    "shape (n_samples, 1)."
                )
            self.names = {name: k for k, name in enumerate(np.unique(_group_names(features)))}
        else:
            self.encoder = FeatureEncoder("features").fit(features)
            self.encoder.warn()
        return self

    def read(self, features: MatrixLike | ArrayLike) -> np.ndarray:
        """Numbers (n, d); of groups (n,), whole numbers."""
        if _is_vector(features) != self.is_groups:
            words = {True: "the group of each sample", False: "a matrix of features"}
            raise ValueError(
                f"features is {words[not self.is_groups]}, but was {words[self.is_groups]} in fit: "
                "pass the same kind."
            )
        if self.is_groups:
            names = _group_names(features).tolist()
            return np.array([self.names.get(name, -1) for name in names], dtype=np.intp)
        return self.encoder.transform(features)


def _check_rows(features, n_samples):
    """Raise unless there is one row of features for each sample."""
    refuse_frames_to_fetch(features, "features")
    if not hasattr(features, "__len__") or getattr(features, "shape", None) == ():
        raise ValueError(f"features must have a row for each forecast, got {shown(features)}.")
    n_rows = features.shape[0] if hasattr(features, "shape") else len(features)
    if n_rows != n_samples:
        raise ValueError(
            f"features has {n_rows} rows, but there are {n_samples} forecasts: pass one row of "
            "features for each."
        )


def _is_vector(features):
    return not is_frame(features) and getattr(features, "ndim", np.ndim(as_cells(features))) == 1


def _group_names(features):
    """Names of groups; missing ones are a group too."""
    texts = read_column(features).texts()
    return np.array(["is missing" if text is None else f"= {text}" for text in texts.tolist()])


# --- Parts of a correction by features ------------------------------------------------------------


_PENALTIES = (300.0, 100.0, 30.0, 10.0, 3.0)
_ROUNDS = (5, 10, 20, 40)
_LEARNING_RATE, _LEAVES, _LEAST, _PRIOR = 0.2, 6, 20, 20.0
_SHARE, _MOST_TRIED = 0.4, 32  # features that a split tries
MOST_COMPONENTS, _FEW_COMPONENTS = 10, 3  # of logits and of residuals
_FEW_VALUES = 50  # that get an indicator each
_RARE = 0.05  # share of one of two values that is shrunk as a rare category, without products
_LEAST_KNOWN = 10  # values of a feature, or missing ones, to be of any use
_KNOTS = np.linspace(0, 1, 101)
_FAR = np.sqrt(3.0)  # ranks lie between -_FAR and _FAR, with variance 1
_MOST_PRODUCTS = 4000  # times classes
_MOST_COLUMNS, _RANK = 600, 300  # of a regression, before and after a reduction
_STEPS = 12  # of L-BFGS at each penalty
_LARGEST = 3.0  # weight of a part
_LEAST_CURVATURE = 1e-4
#: Standard deviations between groups, from simple to complex.
SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_MOST_STEPS, _LARGEST_STEP, _CLOSE = 30, 2.0, 1e-8  # of Newton's method for groups


class CorrectedModel:
    """Paths of corrections of logits (n, K) by logits and features (n, d), which may be missing.

    Without ``by_score`` corrections depend on the features alone, so that the order of forecasts
    with equal features stays.
    """

    #: Names of the parts, in this order.
    names = ("linear", "products", "trees")

    def __init__(self, *, by_score: bool = True, seed: int = 0) -> None:
        self.by_score, self.seed = by_score, seed

    def fit(
        self, start: np.ndarray, table: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Self:
        """Fit all parts to samples with logits `start`; weights have mean one."""
        # scikit-learn's checks of its parameters take a third of the time of a small tree
        with threads_for(table), config_context(skip_parameter_validation=True):
            self._columns = _Columns(table)
            self._components = Components(start, MOST_COMPONENTS if self.by_score else 0)
            inputs = self._columns.read(table, self._components.read(start))
            self._parts: list[_Regression | _Trees] = [
                _Regression(inputs, start, target, weight, products=False, seed=self.seed),
                _Regression(inputs, start, target, weight, products=True, seed=self.seed),
                _Trees(inputs, start, target, weight, seed=self.seed),
            ]
        return self

    def paths(self, start: np.ndarray, table: np.ndarray) -> list[np.ndarray]:
        """Corrections of the logits of samples, for each part and level: arrays (L, n, K)."""
        with threads_for(table):
            inputs = self._columns.read(table, self._components.read(start))
            return [part.path(inputs) for part in self._parts]


def held_out_paths(
    start: np.ndarray,
    table: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    folds: Sequence[Fold],
    *,
    seed: int,
    n_jobs: int | None = None,
    finish: Callable[[PathsOfRows, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The paths of `CorrectedModel` at each sample, fitted to the other folds.

    ``finish(predict, train, test)`` can replace the paths of a fold, with ``predict(rows)`` (L, m,
    K) those of any rows.
    """
    predict = partial(_paths_of_fold, seed, finish, start, table, target, weight)
    with threads_for(table, n_jobs):
        paths, _ = out_of_fold(predict, folds, len(start), n_jobs=n_jobs)
    ends = np.cumsum([len(_PENALTIES), len(_PENALTIES), len(_ROUNDS)])[:-1]
    return np.split(np.moveaxis(paths, 1, 0), ends)


def _paths_of_fold(seed, finish, start, table, target, weight, train, test):
    model = CorrectedModel(seed=seed)
    model.fit(start[train], table[train], target[train], weight[train])

    def predict(rows):
        return np.concatenate(model.paths(start[rows], table[rows]))

    return np.moveaxis(predict(test) if finish is None else finish(predict, train, test), 0, 1)


@dataclass(frozen=True)
class _Inputs:
    """Features of samples: ``standard``, ``rank``, ``indicators`` and whether they are ``missing``.

    Missing values are 0, the mean. ``components`` are those of the logits.
    """

    standard: np.ndarray
    rank: np.ndarray
    indicators: np.ndarray
    missing: np.ndarray
    components: np.ndarray


class _Columns:
    """Learns the values of features, and reads them in the forms that the parts need."""

    def __init__(self, table):
        known = ~np.isnan(table)
        enough = known.sum(axis=0) >= _LEAST_KNOWN
        self.numbers, self.knots, self.scales, self.values = [], [], [], []
        for j in np.flatnonzero(enough):
            column = table[known[:, j], j].astype(np.float64)
            values, counts = np.unique(column, return_counts=True)
            if len(values) == 2 and counts.min() < _RARE * counts.sum():
                if counts.min() > 1:
                    self.values.append((j, values[counts.argmin()]))
                continue
            if len(values) > 1:
                self.numbers.append(j)
                self.knots.append(np.unique(np.quantile(column, _KNOTS)))
                unit = np.abs(column).max()  # squares of large values would overflow
                self.scales.append((unit, (column / unit).mean(), (column / unit).std() or 1.0))
            if 2 < len(values) <= min(_FEW_VALUES, len(column) / _LEAST_KNOWN):
                self.values += [(j, value) for value in values[counts >= 2]]
        hidden = (~known).sum(axis=0) >= _LEAST_KNOWN
        self.hidden = np.flatnonzero(enough & hidden)

    def read(self, table, components):
        """The `_Inputs` of features (n, d) and components of the logits (n, c)."""
        shape = len(table), len(self.numbers)
        standard, rank = np.zeros(shape), np.zeros(shape)
        missing = np.isnan(table)
        for k, (j, knots, (unit, mean, spread)) in enumerate(
            zip(self.numbers, self.knots, self.scales, strict=True)
        ):
            standard[:, k] = np.clip((table[:, j].astype(float) / unit - mean) / spread, -5, 5)
            rank[:, k] = np.interp(table[:, j], knots, np.linspace(-_FAR, _FAR, len(knots)))
        absent = missing[:, self.numbers]
        standard[absent] = rank[absent] = 0.0
        shown = [table[:, j] == value for j, value in self.values]
        shown += [missing[:, j] for j in self.hidden]
        indicators = np.column_stack(shown) if shown else np.empty((len(table), 0))
        return _Inputs(standard, rank, indicators.astype(np.float64), absent, components)


class Components:
    """The largest standardised principal components of centred rows (n, K), at most `most`.

    Of logits of two classes it is the log odds.
    """

    def __init__(self, values: np.ndarray, most: int) -> None:
        centred = values - values.mean(axis=1, keepdims=True)
        self.mean = centred.mean(axis=0)
        size, vectors = np.linalg.eigh(np.cov(centred.T, bias=True))
        keep = np.flatnonzero(size > 1e-8 * max(size[-1], 1e-300))[::-1][:most]
        sign = np.cos(np.arange(len(vectors))) @ vectors[:, keep]  # LAPACK may return either
        self.map = vectors[:, keep] / np.copysign(np.sqrt(size[keep]), sign)

    def read(self, values: np.ndarray) -> np.ndarray:
        """The components (n, c) of other rows."""
        return (values - values.mean(axis=1, keepdims=True) - self.mean) @ self.map


class _Regression:
    """Multinomial ridge regression from the logits, for each of several penalties."""

    def __init__(self, inputs, start, target, weight, *, products, seed):
        n_classes, self.pairs, proba = start.shape[1], None, softmax(start, axis=1)
        if products:
            pull = inputs.rank.T @ (weight[:, None] * (target - proba))
            strength = np.sum(pull**2, axis=1)
            self.pairs = pairs_of_columns(strength, inputs.components.shape[1], n_classes)
        basis = self._basis(inputs)
        self.centre = np.average(basis, axis=0, weights=weight)
        spread = np.sqrt(np.average((basis - self.centre) ** 2, axis=0, weights=weight))
        n_numbers = basis.shape[1] - (0 if products else inputs.indicators.shape[1])
        self.scale = np.where(spread > 1e-9, spread, np.inf)
        self.scale[n_numbers:] = 1.0  # rare categories are shrunk more
        basis = (basis - self.centre) / self.scale
        root = np.sqrt(weight)[:, None]
        self.turn, size = _directions(root * basis, seed)
        basis = basis @ self.turn
        curvature = np.maximum(weighted_mean(proba * (1 - proba), weight), _LEAST_CURVATURE)
        effects = np.zeros((len(size), n_classes))
        self.effects = []
        for penalty in _PENALTIES:
            unit = 1 / np.sqrt(size[:, None] * curvature + penalty)
            effects = _maximise(effects, unit, basis, start, target, weight, penalty)
            self.effects.append(effects)

    def path(self, inputs):
        """Corrections (L, n, K)."""
        basis = ((self._basis(inputs) - self.centre) / self.scale) @ self.turn
        return np.stack([basis @ effects for effects in self.effects])

    def _basis(self, inputs):
        if self.pairs is None:
            return np.hstack([inputs.standard, inputs.indicators])
        both = np.hstack([inputs.rank, inputs.components])
        return both[:, self.pairs[0]] * both[:, self.pairs[1]]


def pairs_of_columns(
    strength: np.ndarray, n_components: int, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of features and components to multiply: those of the strongest features."""
    most, n_used = max(_MOST_PRODUCTS // n_classes, 50), len(strength)
    while n_used * (n_used + 1) / 2 + n_used * n_components > most:
        n_used -= 1
    used = np.sort(np.argsort(-strength, kind="stable")[:n_used])
    columns = np.append(used, len(strength) + np.arange(n_components))
    first, second = np.triu_indices(len(columns))
    with_feature = first < n_used
    return columns[first[with_feature]], columns[second[with_feature]]


def _directions(basis, seed):
    """Principal directions (p, q) of the columns of a basis (n, p), and their sums of squares."""
    if basis.shape[1] > _MOST_COLUMNS:
        rank = min(_RANK, *basis.shape)
        _, size, turn = randomized_svd(basis, rank, random_state=seed)
        size, turn = size**2, turn.T
    else:
        size, turn = np.linalg.eigh(basis.T @ basis)
    keep = size > 1e-8 * size.max(initial=1e-300)
    return turn[:, keep], size[keep]


def _maximise(effects, unit, basis, start, target, weight, penalty):
    """Effects of largest posterior density, from others; `unit` are their approximate errors."""
    if len(effects) == 0:
        return effects

    def loss_and_gradient(values):
        scaled = values.reshape(effects.shape) * unit
        logits = start + basis @ scaled
        logits -= logits.max(axis=1, keepdims=True)
        total = np.exp(logits)
        sums = total.sum(axis=1, keepdims=True)
        loss = -weight @ np.sum(target * (logits - np.log(sums)), axis=1)
        pull = weight[:, None] * (total / sums - target)
        gradient = (basis.T @ pull + penalty * scaled) * unit
        return loss + 0.5 * penalty * np.sum(scaled**2), gradient.ravel()

    options = {"maxiter": _STEPS, "ftol": 1e-6}
    begin = (effects / unit).ravel()
    minimum = minimize(loss_and_gradient, begin, jac=True, method="L-BFGS-B", options=options)
    return minimum.x.reshape(effects.shape) * unit


class _Trees:
    """Boosted trees of features and components of the logits, after several numbers of rounds."""

    def __init__(self, inputs, start, target, weight, *, seed):
        rng, columns = np.random.RandomState(seed), self._columns(inputs)
        n_classes, logits = start.shape[1], start
        weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight}
        tried = int(np.clip(np.ceil(_SHARE * columns.shape[1]), 2, _MOST_TRIED))
        self.trees, self.n_classes = [], n_classes
        for _ in range(_ROUNDS[-1] if columns.shape[1] else 0):
            proba = softmax(logits, axis=1)
            residual = target - proba
            # Sums on this grid are exact without weights: equal splits are equal on any processor.
            rounded = np.rint(_sketch(residual) * 2.0**30) / 2.0**30
            tree = DecisionTreeRegressor(
                max_leaf_nodes=_LEAVES,
                min_samples_leaf=_LEAST,
                max_features=min(tried, columns.shape[1]),
                random_state=rng,
            ).fit(columns, rounded, check_input=False, **weighted)
            leaf, n_nodes = tree.apply(columns, check_input=False), tree.tree_.node_count
            sums, information = (
                np.stack([np.bincount(leaf, weight * column, n_nodes) for column in values.T])
                for values in (residual, proba * (1 - proba))
            )
            share = _LEARNING_RATE * (n_classes - 1) / n_classes
            values = share * (sums / (information + _PRIOR)).T
            self.trees.append((tree, values))
            logits = logits + values[leaf]

    def path(self, inputs):
        """Corrections (L, n, K)."""
        columns, levels = self._columns(inputs), []
        total = np.zeros((len(columns), self.n_classes))
        for number, (tree, values) in enumerate(self.trees, start=1):
            total = total + values[tree.apply(columns, check_input=False)]
            if number in _ROUNDS:
                levels.append(total)
        return np.stack(levels) if levels else np.stack([total] * len(_ROUNDS))

    def _columns(self, inputs):
        rank = np.where(inputs.missing, -2 * _FAR, inputs.rank)
        components = inputs.components[:, :_FEW_COMPONENTS]
        return np.hstack((rank, inputs.indicators, components)).astype(np.float32)


def _sketch(residual):
    """The principal components of residuals (n, K) that vary most; the event of two classes."""
    if residual.shape[1] == 2:
        return residual[:, 1]
    if residual.shape[1] <= _FEW_COMPONENTS:
        return residual
    return residual @ np.linalg.eigh(residual.T @ residual)[1][:, -_FEW_COMPONENTS:]


# --- Named groups ---------------------------------------------------------------------------------


class GroupEffects:
    """Shifts and slopes of groups (n,); without slopes, the order of forecasts in a group is kept.

    Groups are numbered from 0; -1 stands for groups without effects.
    """

    names = ("groups",)

    def __init__(self, n_groups: int, *, slopes: bool) -> None:
        self.n_groups, self.slopes = n_groups, slopes

    def fit(
        self, start: np.ndarray, group: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Self:
        """Estimate the effects at each spread, from samples with logits `start`."""
        n_classes = start.shape[1]
        self.effects, self.levels = np.zeros((self.n_groups, n_classes + 1)), []
        centred = start - start.mean(axis=1, keepdims=True)
        self.centre = np.average(centred, axis=0, weights=weight)
        variance = np.average((centred - self.centre) ** 2, axis=0, weights=weight).mean()
        self.scale = 2 * np.sqrt(variance) if variance > 0 else 1.0
        for spread in SPREADS:
            prior = np.append(np.full(n_classes, 2 / spread**2), 4 / spread**2)
            self._maximise(start, group, target, weight, prior)
            self.levels.append(self.effects)
        return self

    def paths(self, start: np.ndarray, group: np.ndarray) -> list[np.ndarray]:
        """Corrections of logits, of one part for each spread: a list of one array (L, n, K)."""
        directions = self._directions(start)
        padded = (np.vstack([effects, 0 * effects[:1]])[group] for effects in self.levels)
        return [np.stack([rows[:, :-1] + rows[:, -1:] * directions for rows in padded])]

    def apply(self, start: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Logits (n, K) with the effects; unchanged where the group is -1."""
        effects = np.vstack([self.effects, np.zeros(self.effects.shape[1])])[group]
        return start + effects[:, :-1] + effects[:, -1:] * self._directions(start)

    def _maximise(self, start, group, target, weight, prior):
        """Newton's method from the present effects, for all groups at once."""
        direction, diagonal = self._directions(start), np.arange(len(prior))
        for _ in range(_MOST_STEPS):
            proba = softmax(self.apply(start, group), axis=1)
            residual = weight[:, None] * (target - proba)
            along = np.einsum("nk,nk->n", residual, direction)
            columns = [*residual.T, along]
            sums = [np.bincount(group, column, self.n_groups) for column in columns]
            gradient = np.stack(sums, axis=1) - prior * self.effects
            curvature = self._curvature(proba, direction, group, weight)
            curvature[:, diagonal, diagonal] += prior
            step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
            self.effects = self.effects + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
            if np.abs(step).max() < _CLOSE:
                break

    def _directions(self, start):
        """What slopes multiply, (n, K)."""
        if not self.slopes:
            return np.zeros_like(start)
        return (start - start.mean(axis=1, keepdims=True) - self.centre) / self.scale

    def _curvature(self, proba, direction, group, weight):
        """Information (G, K + 1, K + 1) of each group."""
        n_classes = proba.shape[1]
        information = np.empty((self.n_groups, n_classes + 1, n_classes + 1))

        def enter(j, k, values):
            sums = np.bincount(group, values, self.n_groups)
            information[:, j, k] = information[:, k, j] = sums

        mean = np.einsum("nk,nk->n", proba, direction)
        for j in range(n_classes):
            mass = weight * proba[:, j]
            for k in range(j, n_classes):
                enter(j, k, mass * ((j == k) - proba[:, k]))
            enter(j, -1, mass * (direction[:, j] - mean))
        square = np.einsum("nk,nk->n", proba, direction**2)
        enter(-1, -1, weight * (square - mean**2))
        return information


# --- Weights by held-out losses -------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """The level of each part, their ``weights``, and the ``direction``: weights of sum one.

    The direction is that of the best weights, also where the weights are 0.
    """

    levels: list[int]
    weights: np.ndarray
    direction: np.ndarray

    def of(
        self, paths: Sequence[np.ndarray], rows: RowIndex, *, direction: bool = False
    ) -> np.ndarray:
        """The mixture of the paths (L, n, K) at some rows, (m, K)."""
        weights = self.direction if direction else self.weights
        parts = zip(weights, paths, self.levels, strict=True)
        return sum(weight * path[level, rows] for weight, path, level in parts)


class Mixing:
    """Chooses mixtures of held-out paths (L, n, K): ``losses(step, rows)`` are those of a step.

    ``cautious``, for corrections that are applied: the simplest level and the smallest fifths of
    the weights within one standard error of the best, and weights of at most 1. Small groups are
    then shrunk as far as large ones allow.
    """

    def __init__(
        self,
        losses: Callable[[np.ndarray, np.ndarray], np.ndarray],
        paths: Sequence[np.ndarray],
        weight: np.ndarray,
        cluster: np.ndarray | None = None,
        *,
        cautious: bool = False,
    ) -> None:
        self.cautious = cautious
        self.losses, self.paths, self.weight, self.cluster = losses, paths, weight, cluster
        everything = np.arange(len(weight))
        self.before = losses(np.zeros(paths[0].shape[1:]), everything)
        self.levels = [np.stack([losses(step, everything) for step in path]) for path in paths]

    def of_other_folds(self, folds: Iterable[Fold]) -> Iterator[tuple[np.ndarray, Mixture]]:
        """The rows of each test fold, and the `Mixture` that all other rows choose."""
        for _, test in folds:
            yield test, self.choose(np.setdiff1d(np.arange(len(self.weight)), test))

    def choose(self, rows: np.ndarray) -> Mixture:
        """The `Mixture` of lowest mean loss of some rows."""
        finite = rows[np.isfinite(self.before[rows])]
        weight, before = self.weight[finite], self.before[finite]
        of_levels = [losses[:, finite] for losses in self.levels]
        n_parts = len(of_levels)
        none, equal = np.zeros(n_parts), np.full(n_parts, 1 / n_parts)
        if len(finite) == 0:
            return Mixture([0] * n_parts, none, equal)
        if self.cautious:
            best = [first_within_one_standard_error(rows, weight)[0] for rows in of_levels]
        else:
            best = [int(np.argmin(weighted_mean(rows.T, weight))) for rows in of_levels]
        steps = [path[level, finite] for path, level in zip(self.paths, best, strict=True)]

        def losses(shares):
            step = sum(share * step for share, step in zip(shares, steps, strict=True))
            return self.losses(step, finite)

        def mean_loss(shares):
            return float(weighted_mean(losses(shares), weight))

        bounds = [(0, 1 if self.cautious else _LARGEST)] * len(steps)
        # The step of derivatives is wide, and the result rounded: rounding errors change neither.
        options = {"maxiter": 15, "eps": 1e-5}
        minimum = minimize(mean_loss, equal, bounds=bounds, options=options).x
        shares = min((none, equal, np.round(minimum, 3)), key=mean_loss)
        if self.cautious:
            scales = np.linspace(0.2, 1, 5)
            scaled = [losses(scale * shares) for scale in scales]
            shares = scales[first_within_one_standard_error(scaled, weight)[0]] * shares
        cluster = None if self.cluster is None else self.cluster[finite]
        gain = mean_difference(before, losses(shares), weight, cluster=cluster)
        total = shares.sum()
        direction = shares / total if total > 0 else equal
        certain = gain.estimate > (1 + 1e-9) * gain.standard_error  # equal for a gain of one sample
        return Mixture(best, shares if certain else none, direction)


# --- Several labels -------------------------------------------------------------------------------


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
        for label, cells in zip(self.labels_.tolist(), problem.of_labels(), strict=True):
            ranges.append(forecast_range(cells.forecast[:, 1:]))
            event = cells.target[:, 1].astype(int)
            if event.min() == event.max():
                warnings.warn(
                    f"The label {label!r} is {event[0]} in all of its known cells, so its map "
                    "rests on one class only.",
                    UserWarning,
                    stacklevel=2,
                )
            weight = cells.sample_weight
            tasks.append((recalibrator, cells.forecast, event, weight, _ABSENT_PRESENT))
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
        columns = []
        for recalibrator, p in zip(self.recalibrators_, proba.T, strict=True):
            pair = np.column_stack([1 - p, p])
            columns.append(recalibrated_proba(recalibrator, pair, _ABSENT_PRESENT)[:, 1])
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
        labels = np.eye(len(self.labels_))[:, :, None]
        pairs = [add.pair(add("matrix", x, coef=label)) for label in labels]
        return add(
            "columns",
            *(
                add.second(add.recalibrator(recalibrator, pair))
                for recalibrator, pair in zip(self.recalibrators_, pairs, strict=True)
            ),
        )

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
