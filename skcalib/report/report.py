"""The report: a verdict on probabilities, with the numbers behind it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from skcalib._util.files import check_writable, write_atomically
from skcalib._util.formatting import printable
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import check_choice, checks_parameters, completes_docstrings
from skcalib._util.types import (
    CV,
    ArrayLike,
    GroupsLike,
    Label,
    MatrixLike,
    RandomState,
    ResponseMethod,
)
from skcalib._util.validation import (
    check_indices,
    check_weight,
    take_rows,
    weighted_features,
    weighted_rows,
)
from skcalib.data.labels import check_y
from skcalib.data.notions import Auto
from skcalib.data.problem import (
    ForecastSummary,
    Problem,
    check_problem,
    check_sketch,
    event_last,
    only_problem,
)
from skcalib.estimators.classifiers import held_out_problem, response_of
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group, take_groups
from skcalib.report.advice import advice_on_maps
from skcalib.report.analysis import find
from skcalib.report.findings import binary_problem, versions
from skcalib.report.page import method, report_page
from skcalib.report.rendering import render_body, render_page, render_text
from skcalib.report.wording import headline, sentences
from skcalib.risk_models.decisions import score_of_decision

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


class Shown:
    """Text, page and HTML fragment of the result of `_document`."""

    def _document(self):
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self):
        return render_body(self._document())

    def to_text(self, *, details: bool = False) -> str:
        """The report as plain text.

        Parameters
        ----------
        details : bool, default=False
            False: the first screen, as ``print(report)`` shows it. True: all sections.

        Returns
        -------
        str
            Lines of at most 100 characters.
        """
        return render_text(self._document(), details=details)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write one self-contained HTML page, with its figures inside.

        The page replaces an earlier file once it is complete: if it cannot be drawn or written, the
        earlier file remains. A symbolic link is replaced, not the file that it points to.

        Parameters
        ----------
        path : str or path-like
            File to write, in a folder that exists.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        OSError
            If the file cannot be written; a missing folder is reported before the page is drawn.
        """
        path = check_writable(path)
        return write_atomically(path, render_page(self._document()))


_SOURCES = ("predictions", "predict_proba", "decision_function", "canonical", "top_label")


@completes_docstrings
class CalibrationReport(Shown):
    r"""Calibration report: a verdict on probabilities, and the numbers behind it.

    Create one with `from_estimator` or `from_predictions`. ``print(report)`` shows the first
    screen, `to_text` returns the full text, `to_html` writes one self-contained page with figures,
    `to_dict` returns the numbers. :class:`~skcalib.ComparisonReport` compares several models.

    With two classes the report refers to the probability of the event (`pos_label`). With more
    classes it refers to the confidence of the predicted class, then to the classes.

    - **Miscalibrated**: the interval of a Brier calibration error lies above zero, or one of two
      tests rejects at the level .005. The errors are those of all classes, of the confidence, and
      of the confidence by cross-fitted isotonic regression. The tests are Cox's test of shift and
      slope, and the kernel test of all classes.
    - **Direction**: "too_high" or "too_low" if a shift of the logit alone has at least half of the
      gain of the log loss by the averaged map, and no less than a slope; "too_extreme" or
      "too_moderate" if the slope alone has half of it; "class_shift" if, for several classes, one
      bias per class has it. Everything else is "uneven". Gains exclude the optimism of the fit.
    - **Typical error**: the root of the Brier calibration error, in points of probability:
      :func:`~skcalib.proper_calibration_error` with its defaults, and the interval of
      :class:`~skcalib.CalibrationErrorEstimator`, whose notes describe what it covers.
    - **Groups** that differ from others with equal scores, if features are given, at a false
      discovery rate of .05 over all groups tested; and a lower bound of the grouping loss
      (:class:`~skcalib.GroupingLossEstimator`).
    - **Advice**: a recalibration map, if its held-out log loss is significantly lower and its
      held-out Brier score is not higher.
    - **Suspicions**, which come first, such as labels of the other class, repeated rows, hard
      predictions or training data.

    :ref:`report` has the formulas, and all suspicions.

    About 5 s for 10,000 samples of 10 classes with features, on one core.

    Parameters
    ----------
    problem : Problem
        Validated forecasts; use the class methods.
    name : str
        Name of the model.
    features : array-like of shape (n_samples, n_features), default=None
        Features, for the groups.
    by : array-like, data frame, dict of masks or GroupCalibrations, default=None
        Groups to report on, one entry for each row of the problem.
    intersections : bool, default=False
        With several columns in `by`, whether the groups are their intersections, as in
        :func:`~skcalib.calibration_by_group`.
    threshold : float, default=None
        Threshold of the probability (for several classes of the confidence) from which decisions
        follow. The report then states what the decisions cost, and whether to recalibrate, to move
        the threshold or to look for a better model (:func:`~skcalib.decision_regret`).
    costs : array-like of shape (n_classes, n_decisions), default=None
        Cost of each decision for each class, in the order of the columns of `y_proba`, instead of a
        threshold.
    random_state : int, RandomState instance or None, default=0
        Seed of folds, permutations and bands. A whole number makes the report reproducible;
        otherwise a seed is drawn.
    verbose : int, default=0
        If above 0, each stage and its time are printed to standard error.
    source : str, default="predictions"
        Where the forecasts are from: "predictions" for arrays; "predict_proba" or
        "decision_function", the method of a classifier; "canonical" or "top_label", the notion of a
        sketch. The lines of code that are shown depend on it.

    Attributes
    ----------
    findings : Findings
        All numbers, as frozen records.
    verdict : str
        The verdict as text.
    miscalibrated : bool
        Whether miscalibration was found.
    direction : str or None
        "too_high", "too_low", "too_extreme", "too_moderate", "class_shift", "confused" (pairs of
        classes, see ``findings.confusions``) or "uneven"; None if no miscalibration was found.
    is_frozen : bool
        Whether the classifier is a `FrozenEstimator`, which the line of code does not fit again.
    random_state : int
        The seed.
    grouping_estimator : GroupingLossEstimator or None
        The split in the figure of groups, for `GroupingDisplay.from_grouping_estimator`.

    See Also
    --------
    calibration_summary : The numbers usually reported in validations of risk models.

    Examples
    --------
    >>> from skcalib import CalibrationReport
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> report = CalibrationReport.from_predictions(data.y, data.y_proba, name="simulation")
    >>> print(report.verdict.splitlines()[0])
    Over-confident: predictions are too extreme.
    >>> report.direction
    'too_extreme'
    >>> round(report.to_dict()["typical_error"]["estimate"], 3)
    0.086
    """

    @checks_parameters
    def __init__(
        self,
        problem: Problem,
        *,
        name: str,
        features: MatrixLike = None,
        by: GroupCalibrations | GroupsLike = None,
        intersections: bool = False,
        threshold: float | None = None,
        costs: ArrayLike | None = None,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        source: Literal[
            "predictions", "predict_proba", "decision_function", "canonical", "top_label"
        ] = "predictions",
    ) -> None:
        if threshold is not None or costs is not None:
            score_of_decision(threshold, costs)  # raises for what is no decision
        self.problem = problem
        self.name = str(name)
        self.confidence_level = confidence_level
        self.random_state = seed_of(random_state)
        check_choice(source, "source", choices=_SOURCES)
        self.source = source
        self.is_frozen = False
        self.findings, self.grouping_estimator, self.recalibrated = find(
            problem,
            features=features,
            by=by,
            intersections=intersections,
            threshold=threshold,
            costs=costs,
            confidence_level=confidence_level,
            random_state=self.random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            name=self.name,
            decision_values=source == "decision_function",
        )

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        X: MatrixLike = None,
        *,
        by: GroupsLike = None,
        intersections: bool = False,
        threshold: float | None = None,
        costs: ArrayLike | None = None,
        name: str = "forecasts",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Self:
        """Report on labels and probabilities of held-out samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the event, or of each class. Rows sum to one. A Series, or a data frame
            of one column, whose name contains a class (``p_churn``, ``churn``, ``churn_proba``)
            holds the probability of that class.
        X : array-like of shape (n_samples, n_features), default=None
            Features or any representation, for the grouping loss: numbers, times and categories.
            The report names columns that are left out, such as free text and identifiers
            (:ref:`features`).
        by : str, list of str, array-like, data frame or dict of masks, default=None
            Groups to report on, with simultaneous intervals: names of columns of `X`, or as in
            :func:`~skcalib.calibration_by_group`.
        intersections : bool, default=False
            With several columns in `by`, whether the groups are their intersections.
        pos_label : label, default=None
            The event of a binary problem: the class that the report refers to, and whose
            probability a `y_proba` of shape (n_samples,) holds. By default the class named by a
            single column, or the last class.

        Raises
        ------
        ValueError
            For invalid labels, probabilities or weights, a column name that matches no class or a
            class other than `pos_label`, and a `pos_label` for more than two classes.
        """
        check_indices(y_true=y_true, y_proba=y_proba, X=X, by=by, sample_weight=sample_weight)
        problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label, groups)
        costs = _in_order(costs, problem, pos_label)
        n_samples = np.shape(y_true)[0]
        if by is not None:
            rows = weighted_rows(sample_weight, n_samples)
            by = take_groups(groups_of_columns(by, X), rows, n_samples)
        if X is not None:
            X = weighted_features(X, sample_weight, n_samples)
        return cls(
            event_last(problem, pos_label),
            name=name,
            features=X,
            by=by,
            intersections=intersections,
            threshold=threshold,
            costs=costs,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    @classmethod
    @checks_parameters
    def from_sketch(
        cls,
        sketch: ForecastSummary,
        *,
        threshold: float | None = None,
        costs: ArrayLike | None = None,
        name: str = "forecasts",
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Self:
        """Report on a sketch, without the samples.

        For two classes the report equals that of the samples, up to the differences that the notes
        of `ForecastSketch` state. A sketch has no features, so groups are not searched. For more
        classes the event is that the prediction is right, and its probability is the confidence.
        Folds divide the samples of each cell at random. The kernel test uses samples that are drawn
        from the cells.

        Parameters
        ----------
        sketch : ForecastSketch
            Sums over cells of the probability, of one event: two classes, or
            ``notion="top_label"``. Groups are combined, and reported on as groups that the user
            names; ``sketch.group(key)`` is one of them.

        Raises
        ------
        ValueError
            For an object that is not a sketch, an empty sketch, and one of ``notion="classwise"``.

        Examples
        --------
        >>> from skcalib import CalibrationReport, ForecastSketch
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> sketch = ForecastSketch([0, 1]).fit(data.y, data.y_proba)
        >>> CalibrationReport.from_sketch(sketch).direction
        'too_extreme'
        """
        check_sketch(sketch)
        problem, _ = only_problem(sketch, None, Auto())
        notion: Any = sketch.summarised_notion()[0]
        if notion == "top_label":
            problem = replace(
                problem, classes=np.array(["a wrong prediction", "a right prediction"])
            )
        grouped = getattr(sketch, "groups_", [None]) != [None]
        by = calibration_by_group(sketch, confidence_level=confidence_level) if grouped else None
        return cls(
            problem,
            name=name,
            by=by,
            threshold=threshold,
            costs=costs,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            source=notion,
        )

    @classmethod
    @checks_parameters
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        by: GroupsLike = None,
        intersections: bool = False,
        threshold: float | None = None,
        costs: ArrayLike | None = None,
        cv: CV = None,
        name: str | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        groups: ArrayLike | None = None,
        confidence_level: float = 0.95,
        response_method: ResponseMethod = "auto",
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Self:
        """Report on a classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted, with (X, y) held out; or any classifier with `cv`.
        by : str, list of str, array-like, data frame or dict of masks, default=None
            As in `from_predictions`.
        intersections : bool, default=False
            As in `from_predictions`.
        cv : None, int or splitter, default=None
            None: the classifier is used as it is. Else it is cloned, fitted on the folds and
            evaluated by its out-of-fold probabilities. Of the test samples, at most a tenth may
            have a class that their training samples lack; its probability is 0 there.
        name : str, default=None
            Name of the model; by default its class, or that of the last step of a pipeline and
            of the best estimator of a search.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the evaluation; not passed to the classifier.
        pos_label : label, default=None
            The event of a binary problem: the class that the report refers to; by default the last
            class.
        groups : array-like of shape (n_samples,), default=None
            The cluster of each sample, as in `from_predictions`. A number of folds in `cv` then
            means `StratifiedGroupKFold`; a splitter gets them too.

        Raises
        ------
        ValueError
            For invalid labels or weights, an object without probabilities or decision values, and a
            `pos_label` that is not a class or is given for more than two classes.
        """
        check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups, by=by)
        y = check_y(y, name="y")
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        problem, rows = held_out_problem(
            estimator,
            X,
            y,
            weight,
            cv=cv,
            response_method=response_method,
            n_jobs=n_jobs,
            groups=groups,
            split_groups=groups,
            owner=cls.__name__,
        )
        costs = _in_order(costs, problem, pos_label)
        report = cls(
            event_last(problem, pos_label),
            name=kind_of(estimator) if name is None else name,
            features=take_rows(X, rows),
            by=None if by is None else take_groups(groups_of_columns(by, X), rows, len(y)),
            intersections=intersections,
            threshold=threshold,
            costs=costs,
            confidence_level=confidence_level,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            source=response_of(estimator, response_method),
        )
        report.is_frozen = isinstance(estimator, FrozenEstimator)
        return report

    @property
    def miscalibrated(self) -> bool:
        """True if miscalibration was found."""
        return self.findings.miscalibrated

    @property
    def direction(self) -> str | None:
        """Direction of the miscalibration; None if no miscalibration was found."""
        return self.findings.direction

    @property
    def verdict(self) -> str:
        """The verdict as text: a headline, then one sentence per line."""
        return "\n".join(map(printable, [headline(self.findings), *sentences(self.findings)]))

    @property
    def binary(self) -> Problem:
        """The problem of the event or, for several classes, of the confidence."""
        return binary_problem(self.problem)

    def _document(self):
        return report_page(self)

    def __repr__(self) -> str:
        return printable(f"<CalibrationReport of {self.name}: {headline(self.findings)}>")

    def to_dict(self) -> dict[str, Any]:
        """All numbers as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The verdict, all results, and how they were computed. Infinite losses are infinite
            floats, and unknown numbers None. Classes that JSON has no type for, such as dates and
            bytes, are text.
        """
        findings, advice = self.findings, self.findings.advice
        brier_before = findings.error("brier", "canonical").expected_loss.estimate
        brier = {"before": brier_before, "after": None}
        if advice.recommended is not None:
            brier = {"before": advice.brier.before, "after": advice.brier.after}
        numbers = {
            **asdict(findings),
            "name": self.name,
            "headline": printable(headline(findings)),
            "verdict": list(map(printable, sentences(findings))),
            "advice": printable(advice_on_maps(findings)),
            "miscalibrated": self.miscalibrated,
            "typical_error": findings.typical_error,
            "suspicions": [printable(suspicion.sentence) for suspicion in findings.suspicions],
            "suspicion_kinds": [suspicion.kind for suspicion in findings.suspicions],
            "named_groups": [asdict(group) for group in findings.named_groups],
            "groups_differ": findings.groups_differ,
            "recommended": advice.recommended,
            "recalibration_maps": asdict(advice),
            "log_loss": advice.log_loss,
            "brier_score": brier,
            "places": [
                {**asdict(place), "detected": findings.is_off(place)} for place in findings.places
            ],
            "method": method(self),
            "classes": list(self.problem.classes),
            "random_state": self.random_state,
            "versions": versions(),
        }
        return {key: as_json(value) for key, value in numbers.items()}


# --- Inputs of a report ---------------------------------------------------------------------------


def groups_of_columns(by: ArrayLike, X: MatrixLike) -> ArrayLike:
    """Names of columns of a data frame -> these columns; other groups as they are."""
    names = [by] if isinstance(by, str) else by
    columns = list(getattr(X, "columns", ()))
    if not isinstance(names, (list, tuple)) or not names:
        return by
    if not all(isinstance(name, str) for name in names):
        return by
    missing = [name for name in names if name not in columns]
    if not missing:
        return X[list(names)]
    if isinstance(by, str):
        raise ValueError(
            f"by={by!r} is not a column of X: pass the name of a column of a data frame, or the "
            "group of each sample."
        )
    return by


def _in_order(costs, problem, pos_label):
    """Rows of costs in the order in which the report has the classes."""
    if costs is None or event_last(problem, pos_label) is problem:
        return costs
    return np.asarray(costs)[::-1]


def kind_of(estimator: BaseEstimator) -> str:
    """The class name of a model; searches and pipelines are unwrapped."""
    if hasattr(estimator, "best_estimator_"):
        return kind_of(estimator.best_estimator_)
    if hasattr(estimator, "steps"):
        return kind_of(estimator.steps[-1][1])
    return type(estimator).__name__


# --- Values that JSON has -------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """Nested results with the types of JSON.

    Arrays and tuples become lists, numbers of numpy those of Python, NaN becomes None. Labels of
    other types, such as dates and bytes, become the text that reports show for them.
    """
    if isinstance(value, dict):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_json(entry) for entry in value]
    if isinstance(value, np.timedelta64):  # numpy calls it an integer
        return str(value)
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else float(value)
    if isinstance(value, (bool, int)) or value is None:
        return value
    return str(value)
