"""The validated input of public functions: labels, forecasts and weights as a `Problem`.

Forecasts are float64 arrays of shape (n, K) with K >= 2, targets are one-hot arrays of the same
shape and weights are positive float64 arrays of shape (n,). The class of each column follows from
the arguments and from the names of the columns. For functions that ask for it, targets may also be
label distributions, or an indicator matrix whose columns are separate labels. A target takes as
much memory as the forecasts, so it is made from the labels where it is first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import (
    check_column,
    check_features,
    check_indices,
    check_simplex,
    drop_zero_weights,
    to_numpy,
    weighted_rows,
)
from skcalib.data.class_columns import check_order, classes_of_columns
from skcalib.data.clusters import check_groups, design_effect, in_order, number_clusters
from skcalib.data.column_names import is_numbering
from skcalib.data.labels import (
    check_class_order,
    check_indicators,
    check_label_list,
    check_soft_labels,
    check_y,
    class_columns,
    has_columns,
    labels_or_shares,
    listed,
    one_hot_rows,
    ordered_categories,
    put_positive_last,
)
from skcalib.data.notions import Canonical, Multilabel, Notion
from skcalib.scores import weighted_mean

if TYPE_CHECKING:
    from skcalib.scores import ProperScore

_BLOCK = 1 << 18  # entries of a block of rows


@dataclass(frozen=True)
class Problem:
    """Validated forecasts, targets and weights of the same samples.

    ``forecast`` and ``target`` have shape (n, K), K >= 2; ``weight`` has shape (n,) and is
    positive; ``classes`` names the K columns. ``labels_or_target`` is the target, or for labels
    their columns (n,), from which it is made. A row is one sample, or stands for ``count`` samples
    (n,) with equal labels and forecasts whose squared weights sum to ``square`` (n,).
    ``losses`` has mean losses by the type of the score, where they are known more precisely than
    from the rows. With soft labels the rows of ``target`` are label distributions, and ``votes``
    (n,) has the number of labels behind each of them, infinite where the distribution itself is
    known. With ``indicator`` the columns are labels of which a sample may have several. ``cluster``
    (n,) are the numbers of the clusters of dependent samples, from 0; None if all samples are
    independent. ``categories`` are those of labels that are an ordered categorical, else None.
    """

    forecast: np.ndarray
    labels_or_target: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    square: np.ndarray | None = None
    count: np.ndarray | None = None
    losses: Mapping[type, float] | None = None
    votes: np.ndarray | None = None
    indicator: bool = False
    cluster: np.ndarray | None = None
    categories: tuple[Any, ...] | None = None

    @cached_property
    def target(self) -> np.ndarray:
        """One-hot labels (n, K), label distributions or indicators."""
        if self.labels_or_target.ndim == 2:
            return self.labels_or_target
        return one_hot_rows(self.labels_or_target, self.forecast.shape[1])

    @cached_property
    def is_incomplete(self) -> bool:
        """Whether cells of an indicator matrix are missing."""
        return self.indicator and bool(np.isnan(self.labels_or_target).any())

    @property
    def known_target(self) -> np.ndarray:
        """The target with the forecast in missing cells, whose residuals are then 0."""
        if not self.is_incomplete:
            return self.target
        return np.where(np.isnan(self.labels_or_target), self.forecast, self.labels_or_target)

    def of_labels(self) -> Iterator[Problem]:
        """The problem (not, label) of each label of an indicator matrix, of its known cells."""
        for score, event in zip(self.forecast.T, self.labels_or_target.T, strict=True):
            rows = np.flatnonzero(~np.isnan(event))
            known = self.take(rows)
            yield replace(
                known,
                forecast=_not_and_event(score)[rows],
                labels_or_target=_not_and_event(event)[rows],
                classes=np.arange(2),
                indicator=False,
                cluster=None if known.cluster is None else in_order(known.cluster),
            )

    @property
    def squares(self) -> np.ndarray:
        """Sums of squared weights of the samples of each row (n,)."""
        return self.weight**2 if self.square is None else self.square

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.weight) if self.count is None else int(self.count.sum())

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None if all samples are independent."""
        return None if self.cluster is None else len(np.unique(self.cluster))

    @cached_property
    def n_independent(self) -> int:
        """Number of independent samples: of clusters, samples over the `design_effect`."""
        if self.cluster is None:
            return self.n_samples
        spread = np.sqrt(np.maximum(self.forecast * (1 - self.forecast), 0.0))
        effect = design_effect(self.target - self.forecast, spread, self.weight, self.cluster)
        return max(round(self.n_samples / effect), 1)

    def require_order(self, notion: Notion, score: ProperScore | None = None) -> None:
        """Raise if the notion or the score needs the order of the classes, and it is not known.

        Problems of two columns, of other notions than `Canonical`, have no order.
        """
        ordered = score is not None and score.ordered and isinstance(notion, Canonical)
        if ordered or notion.ordered:
            check_class_order(self.classes, self.categories)

    def mean_loss(self, score: ProperScore) -> float:
        """Weighted mean of the losses."""
        if self.losses is not None and type(score) in self.losses:
            return self.losses[type(score)]
        if self.labels_or_target.ndim == 2:
            return float(weighted_mean(score.loss(self.target, self.forecast), self.weight))
        n_samples, n_classes = self.forecast.shape
        losses, step = np.empty(n_samples), max(1, _BLOCK // n_classes)
        for start in range(0, n_samples, step):
            rows = slice(start, start + step)
            losses[rows] = score.loss(
                one_hot_rows(self.labels_or_target[rows], n_classes), self.forecast[rows]
            )
        return float(weighted_mean(losses, self.weight))

    @property
    def outcome(self) -> np.ndarray:
        """Columns of the labels (n,), or label distributions (n, K)."""
        return labels_or_shares(self.labels_or_target)

    @property
    def labels(self) -> np.ndarray:
        """Labels (n,)."""
        return self.classes[self.outcome]

    @property
    def sample_weight(self) -> np.ndarray | None:
        """Weights (n,), or None where all are equal."""
        return None if self.weight.min() == self.weight.max() else self.weight

    def samples(self, most: int, random_state: int) -> Problem:
        """Rows of one sample each: all samples in order, or at most `most` of them, at random."""
        rng = np.random.RandomState(random_state)
        if self.count is None:
            if self.n_samples <= most:
                return self
            return self.take(rng.choice(self.n_samples, most, replace=False))
        count = self.count.astype(np.int64)
        if self.n_samples > most:
            share = count / count.sum()
            count = np.bincount(rng.choice(len(count), most, p=share), minlength=len(count))
        rows = np.repeat(np.arange(len(count)), count)
        samples = self.take(rows)
        return replace(samples, weight=(self.weight / self.count)[rows], square=None, count=None)

    def split(self, n_parts: int, random_state: int) -> tuple[Problem, list[np.ndarray]]:
        """Rows whose samples are divided at random into parts, and the rows of each part."""
        rng = np.random.default_rng(random_state)
        count = np.ones(len(self.weight)) if self.count is None else self.count
        drawn = rng.multinomial(count.astype(np.int64), np.full(n_parts, 1 / n_parts))
        row, part = np.nonzero(drawn)
        parts, share = self.take(row), drawn[row, part] / count[row]
        parts = replace(
            parts,
            weight=share * parts.weight,
            square=share * parts.squares,
            count=drawn[row, part].astype(np.float64),
        )
        return parts, [np.flatnonzero(part == k) for k in range(n_parts)]

    def take(self, rows: np.ndarray | slice) -> Problem:
        """The problem of some of the rows."""
        names = ("forecast", "labels_or_target", "weight", "square", "count", "votes", "cluster")
        columns: dict[str, Any] = {name: getattr(self, name) for name in names}
        columns = {name: array[rows] for name, array in columns.items() if array is not None}
        return replace(self, losses=None, **columns)


@dataclass(frozen=True)
class ScoredRows:
    """Scores of an event (n,), whether it occurred, and weights, or None for equal ones.

    A row is one sample, or stands for ``count`` samples (n,) whose squared weights sum to
    ``square`` (n,). ``losses`` is that of `Problem`.
    """

    score: np.ndarray
    event: np.ndarray
    weight: np.ndarray | None = None
    square: np.ndarray | None = None
    count: np.ndarray | None = None
    losses: Mapping[type, float] | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.score) if self.count is None else int(self.count.sum())

    def problem(self, classes: np.ndarray) -> Problem:
        """The rows as a `Problem` of the columns (not, event) of classes (K,)."""
        return Problem(
            _not_and_event(self.score),
            _not_and_event(self.event.astype(np.float64)),
            np.ones(len(self.event)) if self.weight is None else self.weight,
            classes,
            self.square,
            self.count,
            self.losses,
        )


def _not_and_event(column):
    """Columns (n, 2) of the complement of a column (n,), and of itself."""
    return np.column_stack([1 - column, column])


class ForecastSummary:
    """Base class of sums that stand for labels and forecasts.

    Functions of one score at a time take an instance in place of `y_true` and `y_proba`.
    """

    def scored(self) -> list[ScoredRows]:
        """Rows that stand for the samples, for each problem of the notion."""
        raise NotImplementedError

    def summarised_notion(self) -> tuple[str, int, np.ndarray]:
        """Name of the notion, number of samples, and the classes."""
        raise NotImplementedError


@dataclass(frozen=True)
class ProblemSummary(ForecastSummary):
    """A binary problem whose rows stand for several samples, as a summary."""

    problem: Problem

    def scored(self) -> list[ScoredRows]:
        """The rows of the problem."""
        problem = self.problem
        return [
            ScoredRows(
                problem.forecast[:, 1],
                problem.target[:, 1] == 1,
                problem.weight,
                problem.squares,
                problem.count,
                problem.losses,
            )
        ]

    def summarised_notion(self) -> tuple[str, int, np.ndarray]:
        """Name of the notion, number of samples, and the classes."""
        return "canonical", self.problem.n_samples, self.problem.classes


def check_sketch(sketch: object) -> None:
    """Raise unless the argument of ``from_sketch`` is a summary."""
    if not isinstance(sketch, ForecastSummary):
        raise ValueError(
            f"from_sketch needs a ForecastSketch, got {type(sketch).__name__}: use "
            "from_predictions for labels and probabilities."
        )


def check_problem(
    y_true: ArrayLike | Problem | ForecastSummary,
    y_proba: ArrayLike | None,
    notion: Notion | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    *,
    soft: bool = False,
    name: str = "y_proba",
    remedy: Literal["pos_label", "labels"] | None = "pos_label",
    copy: bool = True,
    incomplete: bool = False,
) -> Problem:
    """Arguments of a public function -> `Problem`.

    A `Problem` in place of the labels is returned as it is: it is validated already, and the other
    arguments are ignored. `remedy` is the argument that messages recommend: "labels" if there is no
    `pos_label`. `y_true` are labels, soft labels too if `soft`, and an indicator matrix for
    `Multilabel`. `groups` are the labels of the clusters of dependent samples. Without `copy` the
    forecasts of labels may be a view of the caller's array, which cannot be written to: for
    functions that only read it, and return nothing that refers to it. With `incomplete`, cells of
    an indicator matrix may be missing.
    """
    indicator = isinstance(notion, Multilabel)
    if isinstance(y_true, Problem):
        _check_kind(y_true, indicator, soft)
        _check_complete(y_true, incomplete)
        if notion is not None:
            y_true.require_order(notion)
        return y_true
    if isinstance(y_true, ForecastSummary):
        raise ValueError(
            f"This function needs the labels and forecasts themselves, got a "
            f"{type(y_true).__name__}: pass y_true and {name}."
        )
    if y_proba is None:
        check_y(y_true)
        raise ValueError(f"{name} is missing: pass labels and forecasts.")
    rows = {"y_true": y_true, name: y_proba, "sample_weight": sample_weight, "groups": groups}
    check_indices(**rows)
    columns: dict[str, Any] = {"labels": labels, "pos_label": pos_label}
    columns |= {"name": name, "remedy": remedy}
    if indicator:
        if pos_label is not None:
            raise ValueError("pos_label is for two classes, not for notion=Multilabel(): omit it.")
        problem = indicator_problem(y_true, y_proba, sample_weight, labels, name=name)
        _check_complete(problem, incomplete)
    elif soft and has_columns(y_true):
        problem = _soft_problem(y_true, y_proba, sample_weight, columns)
    else:
        y = check_y(y_true)
        raw = check_features(y_proba, name=name, n_samples=len(y))
        categories = ordered_categories(y_true)
        classes = classes_of_columns(y, y_proba, raw.shape[1], categories=categories, **columns)
        forecast = check_simplex(raw, name, copy=copy)
        if not copy:
            forecast = forecast.view()
            forecast.flags.writeable = False
        problem = problem_of(y, forecast, classes, sample_weight)
        problem = replace(problem, categories=categories)
    if notion is not None:
        problem.require_order(notion)
    return _with_clusters(problem, groups, sample_weight, y_true)


def problem_of(
    y: np.ndarray,
    forecast: np.ndarray,
    classes: np.ndarray,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Problem:
    """Labels and validated forecasts (n, K) of known classes -> `Problem`."""
    weight, forecast, column = drop_zero_weights(sample_weight, forecast, class_columns(y, classes))
    problem = Problem(forecast, column, weight, classes)
    return _with_clusters(problem, groups, sample_weight, y)


def _with_clusters(problem, groups, sample_weight, y_true):
    """The problem with the clusters of its samples, from those of all samples."""
    if groups is None:
        return problem
    n_samples = len(y_true)
    codes = check_groups(groups, n_samples)[weighted_rows(sample_weight, n_samples)]
    return replace(problem, cluster=number_clusters(codes))


# --- Labels with several columns ------------------------------------------------------------------


def _check_kind(problem, indicator, soft):
    """Raise for a `Problem` of soft labels or of an indicator matrix where it is not expected."""
    if problem.indicator != indicator:
        raise ValueError(
            "The Problem holds an indicator matrix: pass notion=Multilabel(), or one column."
            if problem.indicator
            else "notion=Multilabel() needs an indicator matrix, and the Problem holds labels."
        )
    if problem.votes is not None and not soft:
        raise ValueError(
            "The Problem holds soft labels, and this function needs one label per sample."
        )


def _check_complete(problem, incomplete):
    """Raise for missing cells of an indicator matrix where they are not expected."""
    if not incomplete and problem.is_incomplete:
        raise ValueError(
            "y_true has missing cells (NaN), and this function needs all labels of each sample: "
            "pass one label at a time, as its known cells and their probabilities."
        )


def _soft_problem(y_true, y_proba, sample_weight, columns):
    """`Problem` of label distributions or annotator counts (n, K)."""
    target, votes = check_soft_labels(y_true)
    name = columns["name"]
    raw = check_features(y_proba, name=name, n_samples=len(target))
    if max(raw.shape[1], 2) != target.shape[1]:
        raise ValueError(
            f"y_true has {target.shape[1]} columns and {name} has {raw.shape[1]}: soft labels and "
            "forecasts need a column for each class (for two classes a forecast of one column is "
            "the probability of the last)."
        )
    check_not_swapped(raw, votes, name)
    named = soft_classes(y_true, columns["labels"], target.shape[1])
    if columns["labels"] is None and raw.shape[1] > 1:
        check_order(y_proba, named, name, remedy=None)
    classes = classes_of_columns(named, y_proba, raw.shape[1], **{**columns, "labels": named})
    order = [named.tolist().index(label) for label in classes.tolist()]
    weight, forecast, target, votes = drop_zero_weights(
        sample_weight, check_simplex(raw, name), target[:, order], votes
    )
    return Problem(forecast, target, weight, classes, votes=votes)


def check_not_swapped(
    forecast: np.ndarray, votes: np.ndarray, name: str, labels_name: str = "y_true"
) -> None:
    """Raise for label distributions with forecasts of 0 and 1 only, which are probably labels."""
    if np.isinf(votes).all() and bool(((forecast == 0) | (forecast == 1)).all()):
        raise ValueError(
            f"{labels_name} holds probabilities and {name} only 0 and 1: did you swap them?"
        )


def soft_classes(
    y_true: ArrayLike, labels: ArrayLike | None, n_columns: int, name: str = "y_true"
) -> np.ndarray:
    """The class of each column: `labels`, the names of the columns of a frame, or 0 to K - 1."""
    named = _named_columns(y_true)
    if labels is None:
        return np.arange(n_columns) if named is None else named
    classes = check_label_list(labels)
    if len(classes) != n_columns:
        raise ValueError(
            f"labels lists {len(classes)} classes but {name} has {n_columns} columns: list one for "
            "each column."
        )
    if named is not None:
        check_order(y_true, classes, name, remedy=None)
    return classes


def indicator_problem(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    name: str = "y_proba",
    labels_name: str = "y_true",
) -> Problem:
    """`Problem` of an indicator matrix (n, L) and a probability for each label.

    `y_proba` may also be a list of L arrays (n, 2), as some classifiers of scikit-learn give it.
    Missing cells are NaN; each label has a known one.
    """
    target = check_indicators(y_true, name=labels_name)
    raw = _label_columns(y_proba, name)
    if len(raw) != len(target):
        raise ValueError(
            f"{labels_name} and {name} must have the same number of samples: {labels_name} has "
            f"{len(target)}, {name} has {len(raw)}."
        )
    named = _named_columns(y_true)
    if labels is not None:
        classes = np.asarray(labels)
        if classes.shape != target.shape[1:] or len(set(classes.tolist())) < len(classes):
            raise ValueError(
                f"labels must name the {target.shape[1]} columns of {labels_name}, each once; got "
                f"{listed(classes)}."
            )
    else:
        classes = np.arange(target.shape[1]) if named is None else named
    if labels is not None and named is not None:
        check_order(y_true, classes, labels_name, remedy=None)
    forecast = _check_label_columns(raw, y_proba, classes, name)
    weight, forecast, target = drop_zero_weights(sample_weight, forecast, target)
    unknown = np.isnan(target).all(axis=0)
    if unknown.any():
        raise ValueError(
            f"The label {classes[unknown].tolist()[0]!r} of {labels_name} has no known cell of "
            "positive weight: leave out its column."
        )
    return Problem(forecast, target, weight, classes, indicator=True)


def check_label_probabilities(
    y_proba: ArrayLike, classes: np.ndarray, *, name: str = "y_proba"
) -> np.ndarray:
    """Probabilities (n, L) of the labels `classes`, from what `indicator_problem` takes."""
    return _check_label_columns(_label_columns(y_proba, name), y_proba, classes, name)


def _label_columns(y_proba, name):
    """Numbers (n, L) from a matrix, or from a list of L arrays (n, 2) of two columns each."""
    if isinstance(y_proba, (list, tuple)) and len(y_proba):
        parts = [np.asarray(to_numpy(part, name=name)) for part in y_proba]
        if all(part.ndim == 2 and part.shape == (len(parts[0]), 2) for part in parts):
            y_proba = np.column_stack([part[:, 1] for part in parts])
    return check_features(y_proba, name=name)


def _check_label_columns(raw, y_proba, classes, name):
    """Probabilities of the labels; a column for each, in their order."""
    if raw.shape[1] != len(classes):
        raise ValueError(
            f"There are {len(classes)} labels but {name} has {raw.shape[1]} columns: pass a "
            "probability for each label, (n, n_labels), or the list of arrays (n, 2) of a "
            "classifier's predict_proba."
        )
    check_order(y_proba, classes, name, remedy=None)
    return check_column(raw, name=name)


def _named_columns(values):
    """Names of the columns of a data frame as an array, or None for an array or plain numbers."""
    columns = getattr(values, "columns", None)
    if columns is None:
        return None
    names = np.asarray(list(columns))
    return None if names.dtype.kind in "UO" and is_numbering(names) else names


def event_last(problem: Problem, pos_label: Label = None) -> Problem:
    """The same problem with `pos_label` as the class of its last column; two classes only."""
    if pos_label is None:
        return problem
    classes = put_positive_last(problem.classes, pos_label, reorder=True)
    if classes is problem.classes:
        return problem
    forecast, target = (a[:, ::-1].copy() for a in (problem.forecast, problem.target))
    return replace(problem, forecast=forecast, labels_or_target=target, classes=classes)


#: Labels, or sums that stand for labels and forecasts.
LabelsLike: TypeAlias = ArrayLike | ForecastSummary
