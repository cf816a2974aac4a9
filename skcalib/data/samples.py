"""Samples of a notion: their scores in blocks, their problems, and the same from a summary.

`read_samples` is for errors of one score at a time. Scores are read in blocks, because a one-hot
target and the problems of a notion take several times the memory of a binary forecast.
`binary_events` lists the events that have one calibration curve each. The other functions also take
a `ForecastSummary` in place of the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from skcalib._util.ties import reach_of, top_class
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import (
    check_column,
    check_features,
    check_indices,
    check_proba,
    check_weight,
)
from skcalib.data.class_columns import classes_of_columns
from skcalib.data.labels import (
    LabelTable,
    check_class_order,
    check_y,
    ordered_categories,
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
from skcalib.data.problem import ForecastSummary, Problem, ScoredRows, check_problem, event_last

# --- Samples: rows of labels and forecasts, read in blocks ----------------------------------------


_BLOCK = 1 << 16  # entries per block, which fits into the cache


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
        raw = check_features(y_proba, name=name, n_samples=len(y))
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

    def blocks(
        self, size: int = _BLOCK
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield scores (m, P), events (m, P) and weights (m,) of the P problems of the notion."""
        step = max(1, max(size, _BLOCK) // len(self.classes))
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
        return _of_summary(y_true, notion)
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


def _of_summary(summary, notion):
    """The rows of a summary, which has its own notion."""
    name, n_samples, classes = summary.summarised_notion()
    summarised = NOTIONS[name]()
    if isinstance(notion, Auto):
        notion = summarised
    if type(notion.for_columns(len(classes))) is not type(summarised):
        raise ValueError(
            f"The {type(summary).__name__} was made for notion={name!r}, got notion="
            f"{notion!r}: pass notion={name!r} if the function has it, or make another one."
        )
    return SketchedSamples(classes, notion, n_samples, summary.scored())


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
