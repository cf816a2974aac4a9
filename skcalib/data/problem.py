"""The validated input of public functions: labels, forecasts and weights as a `Problem`.

Forecasts are float64 arrays of shape (n, K) with K >= 2, targets are one-hot arrays of the same
shape and weights are positive float64 arrays of shape (n,). The class of each column follows from
the arguments and from the names of the columns. Where `check_problem` permits it, targets may also
be label distributions, or an indicator matrix whose columns are separate labels. A target takes as
much memory as the forecasts, so it is made from the labels where it is first read.

`read_samples` is for errors of one score at a time. Scores are read in blocks, because a one-hot
target and the problems of a notion take several times the memory of a binary forecast.
`binary_events` lists the events that have one calibration curve each. Functions that take labels
also take a `ForecastSummary` in place of the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from skcalib._util.arithmetic import reach_of, top_class
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import (
    check_column,
    check_finite_columns,
    check_indices,
    check_proba,
    check_simplex,
    check_weight,
    drop_zero_weights,
    to_numpy,
    weighted_rows,
)
from skcalib.data.class_columns import check_order, classes_of_columns, is_numbering
from skcalib.data.clusters import (
    check_groups,
    design_effect,
    number_clusters,
    numbers_by_appearance,
)
from skcalib.data.labels import (
    LabelTable,
    check_class_order,
    check_indicators,
    check_label_list,
    check_soft_labels,
    check_y,
    column_of_labels,
    has_columns,
    labels_or_shares,
    listed,
    one_hot_rows,
    ordered_categories,
    put_positive_last,
    unique_labels,
)
from skcalib.data.notions import (
    NOTIONS,
    Auto,
    Canonical,
    Classwise,
    Cumulative,
    Multilabel,
    Notion,
    TopLabel,
)
from skcalib.scores import weighted_mean

if TYPE_CHECKING:
    from skcalib.scores import ProperScore


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
                cluster=None if known.cluster is None else numbers_by_appearance(known.cluster),
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
        losses, step = np.empty(n_samples), max(1, SIZES.block_entries // n_classes)
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
        if y_true.indicator != indicator:
            raise ValueError(
                "The Problem holds an indicator matrix: pass notion=Multilabel(), or one column."
                if y_true.indicator
                else "notion=Multilabel() needs an indicator matrix, and the Problem holds labels."
            )
        if y_true.votes is not None and not soft:
            raise ValueError(
                "The Problem holds soft labels, and this function needs one label per sample."
            )
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
        raw = check_finite_columns(y_proba, name=name, n_samples=len(y))
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
    weight, forecast, column = drop_zero_weights(
        sample_weight, forecast, column_of_labels(y, classes)
    )
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
    raw = check_finite_columns(y_proba, name=name, n_samples=len(target))
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
    forecast = check_label_probabilities(y_proba, classes, name=name)
    if len(forecast) != len(target):
        raise ValueError(
            f"{labels_name} and {name} must have the same number of samples: {labels_name} has "
            f"{len(target)}, {name} has {len(forecast)}."
        )
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
    columns = y_proba
    if isinstance(y_proba, (list, tuple)) and len(y_proba):
        parts = [np.asarray(to_numpy(part, name=name)) for part in y_proba]
        if all(part.ndim == 2 and part.shape == (len(parts[0]), 2) for part in parts):
            columns = np.column_stack([part[:, 1] for part in parts])
    raw = check_finite_columns(columns, name=name)
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


# --- Samples: rows of labels and forecasts, read in blocks ----------------------------------------


@dataclass(frozen=True)
class Samples:
    """Labels and forecasts of a notion in memory, of the samples of positive weight.

    ``raw`` are forecasts (n, columns), validated as they are read unless ``validated``; ``outcome``
    are columns (n,) or indicators (n, L). ``weight`` is None for equal weights. Weights are divided
    by ``scale``, a power of two, so that squares of weights neither overflow nor vanish.
    ``clustered`` is the `Problem` of these samples if they are in clusters.
    """

    classes: np.ndarray
    notion: Notion
    raw: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray | None
    scale: float = 1.0
    validated: bool = False
    clustered: Problem | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples of positive weight."""
        return len(self.raw) if self.weight is None else int(np.count_nonzero(self.weight))

    @property
    def n_independent(self) -> int:
        """Number of independent samples."""
        return self.n_samples if self.clustered is None else self.clustered.n_independent

    @classmethod
    def of(
        cls,
        y_true: Any,
        y_proba: Any,
        notion: Notion,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        *,
        name: str = "y_proba",
        remedy: Literal["pos_label", "labels"] | None = "pos_label",
    ) -> Samples:
        """Arguments of a public function, or a `Problem` in place of the labels."""
        if isinstance(y_true, Problem) or isinstance(notion, Multilabel):
            return cls.of_problem(
                check_problem(
                    y_true,
                    y_proba,
                    notion,
                    sample_weight=sample_weight,
                    labels=labels,
                    pos_label=pos_label,
                ),
                notion,
            )
        if y_proba is None:
            raise ValueError(f"{name} is missing: pass labels and forecasts, or a ForecastSketch.")
        check_indices(**{"y_true": y_true, name: y_proba, "sample_weight": sample_weight})
        y = check_y(y_true)
        raw = check_finite_columns(y_proba, name=name, n_samples=len(y))
        try:
            table = LabelTable.of(y)
        except TypeError:
            unique_labels(y)  # raises with a clear message
            raise
        categories = ordered_categories(y_true)
        classes = classes_of_columns(
            table.distinct,
            y_proba,
            raw.shape[1],
            labels=labels,
            pos_label=pos_label,
            name=name,
            remedy=remedy,
            categories=categories,
        )
        if notion.ordered:
            check_class_order(classes, categories)
        outcome = table.columns(classes, np.uint8 if len(classes) <= 256 else np.intp)
        weight, scale = None, 1.0
        if sample_weight is not None:
            weight, scale = _scaled(check_weight(sample_weight, len(y)))
        notion = notion.for_columns(len(classes))
        return cls(classes, notion, raw, outcome, weight, scale)

    @classmethod
    def of_problem(cls, problem: Problem, notion: Notion) -> Samples:
        """Samples of a problem without missing cells."""
        outcome = problem.target == 1 if problem.indicator else problem.outcome
        weight, scale = problem.sample_weight, 1.0
        if weight is not None:
            weight, scale = _scaled(weight.copy())
        return cls(
            problem.classes,
            notion.for_columns(len(problem.classes)),
            problem.forecast,
            outcome,
            weight,
            scale,
            validated=True,
            clustered=None if problem.cluster is None else problem,
        )

    def per(self, notion: Notion) -> Samples:
        """The same under another notion."""
        return replace(self, notion=notion.for_columns(len(self.classes)))

    def blocks(self, size: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield scores (m, P), events (m, P) and weights (m,) of the P problems of the notion."""
        step = max(1, max(size, SIZES.block_entries) // len(self.classes))
        columns = np.arange(len(self.classes)).astype(self.outcome.dtype)
        if type(self.notion) is Canonical and self.raw.shape[1] == 1:
            columns = columns[1:]  # one score of one event: the column itself
        for start in range(0, len(self.raw), step):
            rows = slice(start, start + step)
            forecast, weight, hit = self._forecast(rows, len(columns)), None, self.outcome[rows]
            if hit.ndim == 1:
                hit = (columns[:, None] == hit).T  # far faster than untransposed
            if self.weight is not None:
                counts = self.weight[rows] > 0
                forecast, hit, weight = forecast[counts], hit[counts], self.weight[rows][counts]
            if len(forecast):
                if len(columns) > 1:
                    forecast, hit = _scores(self.notion, forecast, hit)
                yield forecast, hit, weight

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scores (P, n), events (P, n) and weights (n,): a row for each problem."""
        score, event, at = np.empty((0, 0)), np.empty((0, 0)), 0
        for s, e, _ in self.blocks():
            if at == 0:
                shape = (s.shape[1], self.n_samples)
                score, event = np.empty(shape), np.empty(shape, dtype=bool)
            score[:, at : at + len(s)], event[:, at : at + len(s)] = s.T, e.T
            at += len(s)
        return score, event, None if self.weight is None else self.weight[self.weight > 0]

    def scored(self) -> list[ScoredRows]:
        """The rows of positive weight, for each problem of the notion."""
        scores, events, weight = self.columns()
        pairs = zip(scores, events, strict=True)
        return [ScoredRows(score, event, weight) for score, event in pairs]

    def _forecast(self, rows, n_columns):
        if self.validated:
            return self.raw[rows]
        check = check_column if n_columns == 1 else check_proba
        try:
            return check(self.raw[rows])
        except ValueError:
            check_proba(self.raw)  # raises as well, with the number of the row in the whole array
            raise


@dataclass(frozen=True)
class SketchedSamples:
    """Rows for each problem of a notion in place of samples, as those of a sketch."""

    classes: np.ndarray
    notion: Notion
    n_samples: int
    sketch_rows: list[ScoredRows]
    scale: float = 1.0
    clustered: None = None

    @property
    def n_independent(self) -> int:
        """Number of independent samples."""
        return self.n_samples

    def scored(self) -> list[ScoredRows]:
        """The rows."""
        return self.sketch_rows


def read_samples(
    y_true: ArrayLike | Problem | ForecastSummary,
    y_proba: ArrayLike | None,
    notion: Notion,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> Samples | SketchedSamples:
    """Labels and forecasts, or a summary, or labels with missing cells, of one score at a time."""
    columns: dict[str, Any] = {
        "sample_weight": sample_weight,
        "labels": labels,
        "pos_label": pos_label,
    }
    if isinstance(y_true, ForecastSummary):
        refuse_data_of_summary(y_true, y_proba, **columns)
        name, n_samples, classes = y_true.summarised_notion()
        summarised = NOTIONS[name]()
        if isinstance(notion, Auto):
            notion = summarised
        if type(notion.for_columns(len(classes))) is not type(summarised):
            raise ValueError(
                f"The {type(y_true).__name__} was made for notion={name!r}, got notion="
                f"{notion!r}: pass notion={name!r} if the function has it, or make another one."
            )
        return SketchedSamples(classes, notion, n_samples, y_true.scored())
    if not isinstance(notion, Multilabel):
        return Samples.of(y_true, y_proba, notion, **columns)
    problem = check_problem(y_true, y_proba, notion, incomplete=True, **columns)
    if not problem.is_incomplete:
        return Samples.of_problem(problem, notion)
    rows = [
        ScoredRows(label.forecast[:, 1], label.labels_or_target[:, 1] == 1, label.sample_weight)
        for label in problem.of_labels()
    ]
    return SketchedSamples(problem.classes, notion, problem.n_samples, rows)


def _scaled(weight):
    """Weights divided in place by a power of two, and this power."""
    scale = float(np.ldexp(1.0, int(np.frexp(weight.max())[1]) - 1))
    weight /= scale
    return weight, scale


def refuse_data_of_summary(
    summary: ForecastSummary, y_proba: ArrayLike | None, **options: Any
) -> None:
    """Raise if forecasts or other data are given beside a summary."""
    surplus = [name for name, value in options.items() if value is not None]
    if y_proba is not None or surplus:
        names = ", ".join(["y_proba"] * (y_proba is not None) + surplus)
        raise ValueError(
            f"{type(summary).__name__} has forecasts, labels, weights and classes already: "
            f"leave out {names}."
        )


def refuse_groups(groups: ArrayLike | None) -> None:
    """Raise if clusters are given beside a summary."""
    if groups is not None:
        raise ValueError(
            "A sketch holds sums over samples, and not their clusters: omit groups, or pass labels "
            "and forecasts."
        )


def _scores(notion, forecast, hit):
    """Second columns of the problems of a notion, (m, P); for built-in notions without copies."""
    kind = type(notion)
    if kind in (Classwise, Multilabel):
        return forecast, hit
    if kind is Canonical and forecast.shape[1] == 2:
        return np.ascontiguousarray(forecast[:, 1:]), np.ascontiguousarray(hit[:, 1:])
    if kind is TopLabel:
        return _top(forecast, hit)
    if kind is Cumulative:
        return np.cumsum(forecast, axis=1)[:, :-1], np.logical_or.accumulate(hit, axis=1)[:, :-1]
    pairs = list(notion.problems(forecast, hit.astype(np.float64)))
    for score, _ in pairs:
        if score.shape[1] != 2:
            raise ValueError(
                f"One score at a time needs problems of two columns, and {notion!r} gives "
                f"{score.shape[1]}: use notion='top_label' or 'classwise', or "
                "simplex_calibration_error for all columns at once."
            )
    score = np.stack([s[:, 1] for s, _ in pairs], axis=1)
    event = np.stack([e[:, 1] for _, e in pairs], axis=1)
    if not np.all((event == 0) | (event == 1)):
        raise ValueError(f"{notion!r} maps labels to numbers other than 0 and 1.")
    return score, event == 1


def _top(forecast, hit):
    if forecast.shape[1] == 2:  # comparing two columns is faster than an argmax of pairs
        second = forecast[:, 1] > reach_of(forecast[:, 0])
        score = np.maximum(forecast[:, 0], forecast[:, 1])
        return score[:, None], np.where(second, hit[:, 1], hit[:, 0])[:, None]
    top, rows = top_class(forecast), np.arange(len(forecast))
    return forecast[rows, top][:, None], hit[rows, top][:, None]


# --- Binary events with a calibration curve -------------------------------------------------------


def binary_events(problem: Problem, pos_label: Label, notion: Notion) -> list[tuple[str, Problem]]:
    """Each event of the notion, by its name, with its `Problem` of the columns (not, event)."""
    notion = notion.for_columns(len(problem.classes))
    problem.require_order(notion)
    if problem.is_incomplete:
        names = _event_names(notion, problem.classes)
        return list(zip(names, problem.of_labels(), strict=True))
    if isinstance(notion, Canonical):
        problem = event_last(problem, pos_label)
    pairs = list(notion.problems(problem.forecast, problem.target))
    columns = pairs[0][0].shape[1]
    if columns != 2:
        raise ValueError(
            f"A calibration curve belongs to a binary event, but {notion!r} gives {columns} "
            "columns: use notion='top_label' or 'classwise'."
        )
    names = _event_names(notion, problem.classes)
    return [
        (name, replace(problem, forecast=forecast, labels_or_target=target))
        for name, (forecast, target) in zip(names, pairs, strict=False)
    ]


def _event_names(notion, classes):
    """Name of the event of each problem; empty where the notion has none."""
    for columns in notion.column_names(classes):
        yield "" if columns is None else columns[-1]


def named_events(
    y_true: ArrayLike | Problem | ForecastSummary,
    y_proba: ArrayLike | None,
    notion: Notion,
    *,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    **columns: Any,
) -> list[tuple[str, Problem]]:
    """As `binary_events`, for functions that also take a summary in place of the samples.

    The other keywords are ``sample_weight`` and ``labels``.
    """
    columns |= {"pos_label": pos_label}
    if not isinstance(y_true, ForecastSummary):
        problem = check_problem(y_true, y_proba, notion, groups=groups, incomplete=True, **columns)
        return binary_events(problem, pos_label, notion)
    refuse_groups(groups)
    samples = read_samples(y_true, y_proba, notion, **columns)
    names = _event_names(samples.notion.for_columns(len(samples.classes)), samples.classes)
    events = zip(names, samples.scored(), strict=False)
    return [(name, rows.problem(samples.classes)) for name, rows in events]


# --- One estimate from samples, or from each event of a summary -----------------------------------


def over_problems(
    y_true: ArrayLike | Problem | ForecastSummary,
    y_proba: ArrayLike | None,
    notion: Notion,
    estimate: Callable[[Problem, Notion], float],
    *,
    soft: bool = False,
    copy: bool = True,
    **columns: Any,
) -> float:
    """An estimate of the samples; of a summary its value for each event, reduced by the notion.

    Keywords are those of `check_problem`.
    """
    if not isinstance(y_true, ForecastSummary):
        columns |= {"soft": soft, "copy": copy, "incomplete": True}
        return over_labels(check_problem(y_true, y_proba, notion, **columns), notion, estimate)
    events = named_events(y_true, y_proba, notion, **columns)
    return reduced([estimate(problem, Canonical()) for _, problem in events], notion)


def over_labels(
    problem: Problem, notion: Notion, estimate: Callable[[Problem, Notion], float]
) -> float:
    """An estimate; where cells of labels are missing, its reduced values for their known cells."""
    if not problem.is_incomplete:
        return estimate(problem, notion)
    return reduced([estimate(label, Canonical()) for label in problem.of_labels()], notion)


def reduced(values: Sequence[float], notion: Notion) -> float:
    """The mean, or the sum, of values of the problems of a notion."""
    return float(np.mean(values) if notion.reduce == "mean" else np.sum(values))


def reduced_fields(kind: type, records: Sequence[Any], notion: Notion) -> Any:
    """A record of this kind with the mean, or the sum, of each field of the records."""
    names = [field.name for field in fields(kind)]
    columns = {name: [getattr(record, name) for record in records] for name in names}
    return kind(**{name: reduced(column, notion) for name, column in columns.items()})


def only_problem(
    y_true: ArrayLike | Problem | ForecastSummary,
    y_proba: ArrayLike | None,
    notion: Notion,
    *,
    soft: bool = False,
    copy: bool = True,
    incomplete: bool = False,
    **columns: Any,
) -> tuple[Problem, Notion]:
    """The samples and their notion; or the binary problem of a summary, which has one event.

    Keywords are those of `check_problem`.
    """
    if not isinstance(y_true, ForecastSummary):
        columns |= {"soft": soft, "copy": copy, "incomplete": incomplete}
        return check_problem(y_true, y_proba, notion, **columns), notion
    events = named_events(y_true, y_proba, notion, **columns)
    if len(events) > 1:
        raise ValueError(
            f"The {type(y_true).__name__} has {len(events)} separate classes, and the dependence "
            "of their errors is not known: make a sketch of the top label, or of one class "
            "against the rest."
        )
    ((_, problem),) = events
    return problem, Canonical()
