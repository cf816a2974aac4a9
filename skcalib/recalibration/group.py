"""Recalibration by forecast and features, by forecast and group, or of several labels.

`GroupRecalibrator` has the corrections of `corrected_model`; `FeatureReader` makes numbers of its
features. `MultilabelRecalibrator` has a recalibrator for each label.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.parallel import run_each
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import ArrayLike, MatrixLike, RandomState, RecalibratorLike
from skcalib._util.validation import (
    check_indices,
    mean_one,
    refuse_frames_to_fetch,
    take_rows,
    weighted_rows,
)
from skcalib.data.features import FeatureEncoder, as_cells, is_frame, read_column
from skcalib.data.problem import check_label_probabilities, indicator_problem
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.base import (
    IdentityRecalibrator,
    Recalibrator,
    TransformerOfColumns,
    forecast_range,
    outside_range,
)
from skcalib.recalibration.corrected_model import (
    SPREADS,
    CorrectedModel,
    GroupEffects,
    Mixing,
)
from skcalib.recalibration.fitting import (
    fit_recalibrator,
    is_increasing,
    recalibrated_proba,
)
from skcalib.recalibration.one_vs_rest import PlattScaling
from skcalib.recalibration.scaling import ModelAverageScaling
from skcalib.recalibration.stacked import resolve_recalibrator
from skcalib.scores import LossLike, weighted_mean
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import MeanInterval, mean_difference

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
            _refuse_values(read_column(features))
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


def _refuse_values(column):
    """Raise for a vector of a feature, whose values are no groups."""
    values = column.numbers()[~column.missing]
    measured = column.kind in ("time", "duration") or np.any(values != np.rint(values))
    if len(values) >= _MANY and measured and len(np.unique(values)) > 0.5 * len(values):
        raise ValueError(
            f"features is a vector of {len(values):,} {column.kind}s that mostly differ, but a "
            "vector holds the group of each sample: for a feature pass a column, of shape "
            "(n_samples, 1)."
        )


def _group_names(features):
    """Names of groups; missing ones are a group too."""
    texts = read_column(features).texts()
    return np.array(["is missing" if text is None else f"= {text}" for text in texts.tolist()])


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
        weight, table = mean_one(samples.weight), samples.features
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
        self._finish(forecast, target, weight, table)
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
                model.fit(train_start, table[train], target[train], mean_one(weight[train]))
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

    def _finish(self, forecast, target, weight, table):
        """Fit g and F to all samples."""
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
