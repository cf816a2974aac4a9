"""Other ways to fit a recalibrator than `fit`: samples in parts, a sketch, in an estimator.

`FittedFromParts` and `FittedFromSketch` have the public methods. What is kept of samples in parts
is a random subsample of a fixed size, whose map is that of `fit`; fewer samples than that are all
kept. The functions at the end fit and apply any object with ``fit(P, y)`` and ``predict_proba(P)``,
pipelines included; its columns follow a given list of classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from skcalib._util.messages import shown
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_indices, check_proba, check_weight, drop_zero_weights
from skcalib.data.chunks import Chunks, check_chunk_labels
from skcalib.data.clusters import outside_level
from skcalib.data.labels import check_label_list, class_columns, listed
from skcalib.data.problem import ForecastSummary
from skcalib.recalibration.base import CalibrationSamples, Recalibrator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._util.types import MatrixLike
    from skcalib.links.averaging import ModelAverage

# --- Samples in parts -----------------------------------------------------------------------------


class FittedFromParts(Recalibrator):
    """Adds `partial_fit` and `fit_chunks` to a recalibrator."""

    _most_samples, _most_values = 100_000, 10_000_000  # that are kept: rows, and probabilities
    n_samples_seen_: int

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the map from these samples and those of the calls before.

        The map is that of `fit` to all samples so far, up to 100,000 samples and ten million
        probabilities. Beyond that it is that of `fit` to a random part of this size, in which every
        sample is equally likely: a map of q parameters then has a log loss that is higher by about
        q / 200,000 on average. The sizes of the calls have no effect. Of a rare event too few may
        be in that part: a map of a sketch (``fit_sketch``) uses all samples.

        Cost: one `fit` in each call; memory for the samples that are kept, also in a pickle.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            The class of each column. The first call needs it, or ``labels`` in the constructor,
            because the first samples may lack a class.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the further attribute ``n_samples_seen_``, the number of
            samples of positive weight.

        Raises
        ------
        ValueError
            For invalid samples, which leave the recalibrator as it was; for other classes than in
            the first call.

        Warns
        -----
        UserWarning
            After `fit`, whose samples are not kept: the map then has the new samples only.
        ConvergenceWarning
            As `fit`; the first samples may be separable.
        """
        self._check_call(X, y)
        before = self.__dict__.get("_subsample")
        if before is None and hasattr(self, "classes_"):
            warnings.warn(
                f"This {type(self).__name__} was fitted by another method, whose samples are not "
                "kept: partial_fit begins again, with these samples.",
                UserWarning,
                stacklevel=outside_level(),
            )
        known = self._known_classes(classes, before is None)
        seen = 0 if before is None else self.n_samples_seen_
        # The key of a sample depends on its number, and not on the sizes of the calls.
        rng, most = np.random.Generator(np.random.PCG64(0).advance(seen)), self._most(known)
        added = _read_subsample(self, known, rng, X, y, sample_weight)
        if before is None and added is None:
            raise ValueError("X has no sample of positive weight: at least one is needed.")
        if np.ndim(X) == 2:
            validate_data(self, X, reset=before is None, skip_check_array=True)
        subsample = before
        if added is not None:
            seen += len(added.keys)
            subsample = added.smallest(most) if before is None else before.joined(added, most)
        self.classes_ = known
        try:
            return self._learn_subsample(subsample)
        finally:  # a warning that is an error must not lose the samples
            self._subsample, self.n_samples_seen_ = subsample, seen

    def _known_classes(self, classes, first):
        """Classes of the columns, from the constructor, the argument or the first call."""
        if classes is None and hasattr(self, "classes_"):
            return self.classes_
        if classes is None:
            return check_chunk_labels(self.labels, type(self).__name__)
        classes = check_label_list(classes)
        known = self.labels if first else self.classes_
        if known is not None and check_label_list(known).tolist() != classes.tolist():
            raise ValueError(
                f"classes is {listed(classes)}, but "
                f"{'labels' if first else 'that of the first call'} is "
                f"{listed(check_label_list(known))}: pass the same, or leave it out."
            )
        return classes

    def fit_chunks(self, chunks: Iterable[tuple[Any, ...]] | tuple[Any, ...]) -> Self:
        """Learn the map from samples in chunks, in one pass; they are never in memory together.

        The map is that of `fit` to a random part of the samples, as for `partial_fit`, which fits
        in each call. The first chunk is read twice.

        Parameters
        ----------
        chunks : iterable of tuples, or tuple of Dask arrays
            Tuples ``(X, y)`` or ``(X, y, sample_weight)``, in an iterable that can be read several
            times, or one such tuple of Dask arrays. Joblib's context, or Dask, reads chunks in
            parallel.

        Returns
        -------
        Recalibrator
            The fitted recalibrator.

        Raises
        ------
        ValueError
            For an iterator, such as a generator; for invalid samples, with the number of the chunk;
            if the constructor has no ``labels``, which must list the classes.
        """
        self._check_parameters()
        classes = check_chunk_labels(self.labels, type(self).__name__)
        source, most = Chunks(chunks), self._most(classes)
        read, join = partial(_read_chunk, self, classes, most), partial(Subsample.joined, most=most)
        subsample = source.reduce(read, join)
        self._set_columns(source.first(), classes)
        return self._learn_subsample(subsample)

    def _most(self, classes):
        """Number of samples that are kept."""
        return min(self._most_samples, self._most_values // len(classes))

    def _learn_subsample(self, subsample):
        """Learn the map from the samples that are kept."""
        weight, values, labels = drop_zero_weights(
            subsample.weight, subsample.values, subsample.labels
        )
        return self._learn(self._samples(values, labels, weight))

    def _learn(self, samples):
        for name in ("_subsample", "n_samples_seen_"):  # of earlier calls of partial_fit
            self.__dict__.pop(name, None)
        return super()._learn(samples)


@dataclass(frozen=True, eq=False)
class Subsample:
    """Values (m, K), columns of the labels, weights and random keys (m,) of samples.

    Those of the smallest keys are kept, so every sample is as likely to be.
    """

    values: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    keys: np.ndarray

    def smallest(self, most: int) -> Subsample:
        """The samples of the smallest keys, at most `most`, in order."""
        rows = np.sort(np.argsort(self.keys, kind="stable")[:most])
        return Subsample(self.values[rows], self.labels[rows], self.weight[rows], self.keys[rows])

    def joined(self, later: Subsample, most: int) -> Subsample:
        """What is kept of these and later samples."""
        both = Subsample(
            np.concatenate([self.values, later.values]),
            np.concatenate([self.labels, later.labels]),
            np.concatenate([self.weight, later.weight]),
            np.concatenate([self.keys, later.keys]),
        )
        return both if len(both.keys) <= most else both.smallest(most)


def _read_subsample(recalibrator, classes, rng, values, y, sample_weight=None):
    """The validated `Subsample` of all samples of positive weight; None without any."""
    check_indices(X=values, y=y, sample_weight=sample_weight)
    raw, labels, _ = recalibrator._check_labels(values, y, classes)
    weight = np.ones(len(raw)) if sample_weight is None else np.asarray(sample_weight)
    if not weight.any():
        return None
    weight, values = check_weight(weight, len(raw)), recalibrator._validated(raw)
    rows = weight > 0
    if not rows.all():
        values, labels, weight = values[rows], labels[rows], weight[rows]
    return Subsample(values, labels, weight, rng.random(len(weight)))


def _read_chunk(recalibrator, classes, most, number, *chunk):
    """What is kept of a chunk."""
    try:
        rng = np.random.default_rng([0, number])
        subsample = _read_subsample(recalibrator, classes, rng, *chunk)
    except ValueError as error:
        raise ValueError(f"Chunk {number}: {error}") from error
    return None if subsample is None else subsample.smallest(most)


# --- Sketches -------------------------------------------------------------------------------------


class FittedFromSketch(Recalibrator):
    """Adds `fit_sketch` to a recalibrator."""

    #: Whether the map takes one probability at a time; else a sketch can only have two classes.
    _takes_columns = False

    def fit_sketch(self, sketch: ForecastSummary) -> Self:
        r"""Learn the map from a sketch: sums over cells of any number of forecasts.

        For two classes, the sketch holds the probability of the last class. For more, it holds the
        probability of each class (``notion="classwise"``). The groups of a sketch are combined.

        Parameters
        ----------
        sketch : ForecastSketch
            The labels and forecasts. Its classes, in the order of its columns, become ``classes_``.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the attributes that `fit` sets for one column per class.
            For more than two classes ``loss_before_`` and ``loss_after_`` are nan: they need all
            probabilities of a sample at once.

        Raises
        ------
        ValueError
            For an object that is not a sketch, or is empty; for a sketch of another notion, or of
            classes other than ``labels``; for ``input="logits"``, because a sketch has
            probabilities.

        Warns
        -----
        ConvergenceWarning
            As `fit`.

        Notes
        -----
        The rows of the fit are the cells of the sketch, each with the number and the weight of its
        samples. The result is that of `fit` on samples whose scores are replaced by the mean score
        of their cell. :ref:`sketch_accuracy` has the measured differences: below 2e-6 for
        parametric maps and scores from 1e-10 to 1 - 1e-10, and on average below .002 for step
        functions.

        Scores of exactly 0 and 1 have their own cells. The sketch has one probability p of each
        event; the complement has the probability 1 - p. Where an array has the columns (1e-20, 1),
        the first therefore counts as 0. ``detection_limit_`` follows from the smallest mean score
        of a cell.
        """
        self._check_parameters()
        problems, classes = self._problems_of(sketch)
        self.n_features_in_, self.classes_ = len(classes), classes
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        samples = [
            self._samples(
                rows.forecast, rows.target, rows.weight, count=rows.count, square=rows.square
            )
            for rows in problems
        ]
        return self._learn(samples[0] if len(samples) == 1 else ClasswiseSamples(samples))

    def _problems_of(self, sketch):
        """A `Problem` for each map, and the classes."""
        name = type(self).__name__
        if not isinstance(sketch, ForecastSummary):
            raise ValueError(
                f"sketch must be a ForecastSketch, got {type(sketch).__name__}: make one by "
                f"ForecastSketch(labels).partial_fit(y, y_proba), or use {name}.fit(y_proba, y)."
            )
        notion, _, classes = sketch.summarised_notion()
        if self.input != "proba":
            raise ValueError(
                f"A sketch has probabilities, but {name} has input={self.input!r}: use "
                "input='proba', and pass the softmax of the logits to predict_proba."
            )
        if self.labels is not None:
            labels = check_label_list(self.labels)
            if labels.tolist() != classes.tolist():
                raise ValueError(
                    f"{name} has labels={listed(labels)}, but the classes of the sketch are "
                    f"{listed(classes)}: leave labels= out, or make the sketch with the same."
                )
        if len(classes) > 2 and not self._takes_columns:
            raise ValueError(
                f"{name} needs all probabilities of a sample, and a sketch has one at a time, "
                f"which is sufficient for two classes only, got {len(classes)}: use "
                "TemperatureScaling.fit_chunks, or PlattScaling with a sketch of "
                "notion='classwise'."
            )
        notions = ("canonical", "classwise") if len(classes) == 2 else ("classwise",)
        if notion not in notions:
            raise ValueError(
                f"{name} needs the probability of each class, but the sketch was made for "
                f"notion={notion!r}: make one with notion={notions[0]!r}."
            )
        problems = [rows.problem(classes) for rows in sketch.scored()]
        return problems[-1:] if len(classes) == 2 else problems, classes


@dataclass(frozen=True, eq=False)
class ClasswiseSamples:
    """Samples of each class against the rest, from sketches that have their own rows.

    It has those methods of `CalibrationSamples` that need one class at a time.
    """

    of_classes: list[CalibrationSamples]

    def per_class(self) -> list[CalibrationSamples]:
        """The samples of each class against the rest."""
        return self.of_classes

    def ranges(self, recalibrator: Recalibrator) -> np.ndarray:
        """The lowest and the highest probability of each class."""
        return np.array([samples.ranges(recalibrator)[1] for samples in self.of_classes])

    def mean_losses(self, recalibrator: Recalibrator) -> tuple[float, float]:
        """Not known: losses need all probabilities of a sample."""
        return float("nan"), float("nan")


# --- Objects with fit and predict_proba -----------------------------------------------------------


def require_recalibrator(recalibrator: object) -> None:
    """Raise for objects without `fit` or `predict_proba`."""
    fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "predict_proba")
    if not fits or isinstance(recalibrator, type):
        raise ValueError(
            f"recalibrator must have fit(P, y) and predict_proba(P), unlike {shown(recalibrator)}: "
            "pass 'auto', a name such as 'isotonic', 'platt' or 'beta', an object such as "
            "TemperatureScaling(), or a Pipeline that ends in one (IdentityRecalibrator() "
            "where it would end in 'passthrough')."
        )


def check_fitted_recalibrator(recalibrator: object, *, features: str, unfitted: str = "") -> None:
    """Raise for objects that are not fitted maps of probabilities.

    `features` says what to do with a classifier of features, and `unfitted` what else to do than to
    fit the map.
    """
    name = type(recalibrator).__name__
    if any(getattr(step, "_of_features", False) for step in steps_of(recalibrator)):
        raise ValueError(
            f"This {name} is a classifier of features, not a recalibrator: {features}."
        )
    if isinstance(recalibrator, type) or not hasattr(recalibrator, "predict_proba"):
        raise ValueError(
            f"A fitted recalibrator is needed, an object with predict_proba(P), got "
            f"{shown(recalibrator)}; a Pipeline may end in IdentityRecalibrator(), not in "
            "'passthrough', and IsotonicRecalibrator() replaces IsotonicRegression()."
        )
    if isinstance(recalibrator, BaseEstimator):
        check_is_fitted(
            recalibrator,
            msg="This %(name)s is not fitted: fit it to held-out probabilities and labels first"
            f"{unfitted}.",
        )
    columns, classes = (getattr(recalibrator, key, None) for key in ("n_features_in_", "classes_"))
    if columns is None or classes is None:  # it is from outside this library
        return
    if columns != len(classes) and (columns, len(classes)) != (1, 2):
        raise ValueError(
            f"{name} was fitted to {columns} columns, which are not probabilities of "
            f"{len(classes)} classes: a recalibrator maps probabilities."
        )


def steps_of(recalibrator: Any) -> list[Any]:
    """A recalibrator alone, or the steps of a Pipeline that are not the identity."""
    recalibrator = getattr(recalibrator, "best_estimator_", recalibrator)
    if not isinstance(recalibrator, Pipeline):
        return [recalibrator]
    steps = [step for _, step in recalibrator.steps if step not in ("passthrough", None)]
    return [inner for step in steps for inner in steps_of(step)]


def takes_features(recalibrator: object) -> bool:
    """Whether `fit` and `predict_proba` of a recalibrator also take the features of the samples."""
    return bool(getattr(recalibrator, "takes_features", False))


def fit_recalibrator(
    recalibrator: Any,
    proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    classes: np.ndarray,
    features: MatrixLike | ArrayLike | None = None,
    *,
    folds: Sequence[np.ndarray] | None = None,
    measure: bool = True,
) -> Any:
    """Clone and fit a recalibrator, with the weights, features and folds if it accepts them.

    Probabilities and weights are validated already, so recalibrators of the library do not validate
    them again. `y` are labels, or label distributions with a column for each of `classes`. `folds`
    are test rows.

    Every parameter ``labels`` and ``*__labels`` is set to `classes`, so that calibration data may
    lack a class. Without `measure` recalibrators of the library need not compute their losses.
    """
    if _is_plain(recalibrator, "fit"):
        fitted, samples = _clone_with_samples(recalibrator, proba, y, weight, classes, folds)
        fitted._measures = measure
        return fitted._learn(samples)
    fitted = _clone_for(recalibrator, classes)
    # Weights are passed explicitly here, so metadata routing is disabled.
    with config_context(enable_metadata_routing=False):
        fitted.fit(proba, y, **weight_params(fitted, weight), **_feature_params(fitted, features))
    return fitted


def fit_without_each(
    recalibrator: Any,
    proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    classes: np.ndarray,
    folds: Sequence[np.ndarray],
    average: ModelAverage | None = None,
) -> list[Recalibrator] | None:
    """`fit_recalibrator` to the samples outside of each fold, where a single fit gives them.

    A list with one recalibrator for each fold; None where each fold needs a fit of its own.
    `average` is the `ModelAverage` of all samples, where it is known. Samples of weight zero are
    dropped.
    """
    if not _is_plain(recalibrator, "fit"):
        return None
    fitted, samples = _clone_with_samples(recalibrator, proba, y, weight, classes, folds)
    return fitted._fit_without_each(samples, average) if all(map(len, samples.folds)) else None


def folds_among(rows: np.ndarray, folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Test rows of folds as rows of those samples that `rows` selects."""
    place = np.cumsum(rows) - 1
    return [place[test[rows[test]]] for test in folds]


def _clone_with_samples(recalibrator, proba, y, weight, classes, folds):
    """A clone of a recalibrator of the library, and its samples of positive weight."""
    fitted = _clone_for(recalibrator, classes)
    fitted._check_parameters()
    fitted.classes_, fitted.n_features_in_ = classes, proba.shape[1]
    if folds is not None and weight is not None:
        folds = folds_among(weight > 0, folds)
    weight, proba, y = drop_zero_weights(weight, proba, y)
    labels = y if np.ndim(y) == 2 else class_columns(y, classes)
    return fitted, fitted._samples(proba, labels, weight, folds=folds)


def _clone_for(recalibrator, classes):
    """A clone that knows the class of each column."""
    cloned = clone(recalibrator, safe=False)  # objects without get_params are copied
    if hasattr(cloned, "get_params"):
        names = [name for name in cloned.get_params() if name.split("__")[-1] == "labels"]
        cloned.set_params(**dict.fromkeys(names, classes))
    return cloned


def _feature_params(recalibrator, features):
    """Arguments of `fit` and `predict_proba` that pass features to a recalibrator that takes them.

    Empty if it does not, or without features.
    """
    return {"features": features} if takes_features(recalibrator) and features is not None else {}


def _is_plain(recalibrator, method):
    """Whether an object takes probabilities and has this method from `Recalibrator` unchanged."""
    if not isinstance(recalibrator, Recalibrator) or recalibrator.input != "proba":
        return False
    inherited = getattr(type(recalibrator), method) is getattr(Recalibrator, method)
    return inherited or (method == "fit" and recalibrator._takes_folds)


def weight_params(estimator: Any, weight: np.ndarray | None) -> dict[str, np.ndarray]:
    """Arguments of `fit` that pass weights to an estimator, or to the steps that accept them.

    Empty if none accepts weights.
    """
    if weight is None:
        return {}
    if isinstance(estimator, Pipeline):
        return {
            f"{name}__{key}": value
            for name, step in estimator.steps
            for key, value in weight_params(step, weight).items()
        }
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):  # they pass parameters on
        return weight_params(estimator.estimator, weight)
    takes = hasattr(estimator, "fit") and has_fit_parameter(estimator, "sample_weight")
    return {"sample_weight": weight} if takes else {}


def warn_without_weight(estimator: Any, affected: str) -> None:
    """Warn if an estimator and all of its steps take no weights."""
    if not weight_params(estimator, np.ones(1)):
        warnings.warn(
            f"{type(estimator).__name__} takes no sample_weight: the weights affect the {affected} "
            "only.",
            UserWarning,
            stacklevel=4,  # the caller of the method that calls this
        )


def warn_if_slow(name: str, shape: tuple[int, ...], most: int, others: str) -> None:
    """Warn before a fit to (samples, classes) takes ten seconds or more, from so many entries."""
    n_samples, n_classes = shape
    if n_samples * n_classes > most:
        warnings.warn(
            f"{name} on {n_samples:,} samples of {n_classes:,} classes takes about ten seconds for "
            f"every {most // 10**6} million probabilities: fit it to a random part of the samples, "
            f"or use {others}.",
            UserWarning,
            stacklevel=outside_level(),
        )


def recalibrated_proba(
    recalibrator: Any,
    proba: np.ndarray,
    classes: np.ndarray,
    features: MatrixLike | ArrayLike | None = None,
) -> np.ndarray:
    """Probabilities (n, K) of a fitted recalibrator, one column for each of `classes`."""
    known = getattr(recalibrator, "classes_", classes)
    if _is_plain(recalibrator, "predict_proba") and proba.shape[1] == len(known):
        return align_columns(recalibrator._apply_map(recalibrator._read(proba)), known, classes)
    name = f"{type(recalibrator).__name__}.predict_proba(P)"
    response = recalibrator.predict_proba(proba, **_feature_params(recalibrator, features))
    if len(known) == 1:  # fitted to a single class
        response = np.ones((len(proba), 1))
    else:
        response = check_proba(response, name=name)
    if response.shape != (len(proba), len(known)):
        raise ValueError(
            f"{name} has shape {response.shape}, but {len(proba)} samples of {len(known)} classes "
            "were expected."
        )
    return align_columns(response, known, classes)


def align_columns(proba: np.ndarray, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Columns of the classes `known` -> columns of `classes`; 0 for classes not in `known`."""
    if np.array_equal(known, classes):
        return proba
    position = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    extra = [label for label in np.asarray(known).tolist() if label not in position]
    if extra:
        raise ValueError(
            f"The fitted model predicts the class {extra[0]!r}, which y lacks (it holds "
            f"{np.asarray(classes).tolist()}): it was not fitted to this y. If it was fitted "
            "before, wrap the whole model in sklearn.frozen.FrozenEstimator."
        )
    aligned = np.zeros((len(proba), len(classes)))
    aligned[:, [position[label] for label in np.asarray(known).tolist()]] = proba
    return aligned


def is_injective(recalibrator: Any) -> bool | None:
    """The `injective_` of a fitted recalibrator, or None where it is not declared.

    A Pipeline is injective if all of its steps are, and a search if its best estimator is.
    """
    recalibrator = getattr(recalibrator, "best_estimator_", recalibrator)
    if isinstance(recalibrator, Pipeline):
        declared = [is_injective(step) for _, step in recalibrator.steps if step != "passthrough"]
        return None if None in declared else all(declared)
    declared = getattr(recalibrator, "injective_", None)
    return None if declared is None else bool(declared)


def is_increasing(recalibrator: Any, classes: np.ndarray) -> bool:
    """Whether a fitted map of two classes is known to be strictly increasing."""
    low, high = recalibrated_proba(recalibrator, np.array([[0.75, 0.25], [0.25, 0.75]]), classes)
    return bool(is_injective(recalibrator) and low[1] < high[1])
