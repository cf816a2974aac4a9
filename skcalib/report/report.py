"""`CalibrationReport` of one model, and `ComparisonReport` of several.

`find_differences` compares the models, and `DecisionRule` their decisions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable

from skcalib._util.files import check_writable, write_atomically
from skcalib._util.formatting import frame_of, printable
from skcalib._util.parallel import seed_of, shared_fits, threads_for
from skcalib._util.parameters import check_choice, checks_parameters, completes_docstrings
from skcalib._util.progress import stage
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
from skcalib.data.clusters import independent_size
from skcalib.data.features import encode_features
from skcalib.data.labels import check_y
from skcalib.data.notions import Auto, Canonical, Notion, TopLabel
from skcalib.data.problem import (
    ForecastSummary,
    Problem,
    check_problem,
    check_sketch,
    event_last,
    only_problem,
)
from skcalib.error_intervals.proper import saving_interval
from skcalib.errors.kernel import resolve_kernel
from skcalib.estimators.classifiers import held_out_problem, make_folds, response_of
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group, take_groups
from skcalib.proper.proper import solve_notion
from skcalib.report.advice import (
    advice_on_maps,
    choose_advice,
    compare_maps,
    find_decision,
    recalibrate,
)
from skcalib.report.diagnosis import (
    confusions_of,
    find_direction,
    find_suspicions,
    gains_of,
    logistic_recalibration,
)
from skcalib.report.findings import (
    DecisionFinding,
    Findings,
    GroupingFinding,
    PairedDifference,
    averages_of,
    binary_problem,
    collected_warnings,
    estimate_errors,
    find_errors,
    find_grouping,
    find_places,
    find_reported,
    find_test,
    omissions,
    subsample,
    versions,
)
from skcalib.report.page import comparison_page, method, report_page
from skcalib.report.rendering import render_body, render_page, render_text
from skcalib.report.wording import (
    OF_DECISIONS,
    QUANTITIES,
    headline,
    headline_of_comparison,
    sentences,
    sentences_of_comparison,
)
from skcalib.risk_models.decisions import score_of_decision
from skcalib.scores import Brier, DecisionCost, LogLoss
from skcalib.significance.comparison import compare_problems
from skcalib.smoothers import LogitSmoother
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import (
    MeanInterval,
    between_forecasts,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from pandas import DataFrame

    from skcalib.proper.map_average import AveragedProblem


class Rendered:
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


# --- One model ------------------------------------------------------------------------------------


_SOURCES = ("predictions", "predict_proba", "decision_function", "canonical", "top_label")


@completes_docstrings
class CalibrationReport(Rendered):
    r"""Calibration report: a verdict on probabilities, and the numbers behind it.

    Create one with `from_estimator` or `from_predictions`. ``print(report)`` shows the first
    screen, `to_text` returns the full text, `to_html` writes one self-contained page with figures,
    `to_dict` returns the numbers. :class:`~skcalib.ComparisonReport` compares several models.

    With two classes the report refers to the probability of the event (`pos_label`). With more
    classes it refers to the confidence of the predicted class, then to the classes.

    - **Miscalibrated**: the interval of a Brier calibration error lies above zero, or one of two
      tests rejects at the level .005. The errors are those of all classes, of the confidence, and
      of the confidence by cross-fitted isotonic regression. The tests are Cox's test of shift and
      slope, and `calibration_test` of all classes.
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
        self.findings, self.grouping_estimator, self.recalibrated = _find(
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
        costs = _costs_in_order(costs, problem, pos_label)
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
        Folds divide the samples of each cell at random.

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
        costs = _costs_in_order(costs, problem, pos_label)
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


# --- The findings ---------------------------------------------------------------------------------


@shared_fits()
def _find(
    problem,
    *,
    name,
    features,
    by,
    intersections,
    threshold,
    costs,
    confidence_level,
    random_state,
    n_jobs,
    verbose,
    decision_values,
):
    """The findings, the fitted split of the grouping diagram, the recalibrated forecasts.

    The second and the third, a binary problem of the event or confidence, may be None.
    """
    n_classes, seed = problem.forecast.shape[1], random_state
    part = subsample(problem, seed)
    if problem.count is None:
        divided = part
        splits = check_folds(5, part.target, random_state=seed, cluster=part.cluster)
        folds = [test for _, test in splits]
    else:
        divided, folds = part.split(5, seed)
    run = {"confidence_level": confidence_level, "n_jobs": n_jobs}
    table = problem.forecast if features is None else features
    with collected_warnings() as notes, threads_for(table, n_jobs):
        with stage("calibration errors", verbose, name):
            errors, solved = find_errors(problem, part, confidence_level, n_jobs)
            logistic = logistic_recalibration(binary_problem(problem), confidence_level)
        with stage("calibration test", verbose, name):
            test, n_tested = find_test(problem, seed, n_jobs)
        with stage("direction", verbose, name):
            gains = gains_of(solved)
        with stage("recalibration maps", verbose, name):
            advice, forecasts_of = compare_maps(divided, folds, confidence_level, n_jobs, solved)
        with stage("numbers that others report", verbose, name):
            reported = find_reported(problem, solved, random_state=seed, **run)
    findings = Findings(
        confidence_level=confidence_level,
        n_classes=n_classes,
        **averages_of(problem, confidence_level),
        suspicions=find_suspicions(problem, features, logistic, gains, decision_values),
        errors=errors,
        direction=None,
        gains=gains,
        logistic=logistic,
        advice=advice,
        reported=reported,
        places=find_places(problem, confidence_level),
        test=test,
        n_tested=n_tested,
        notes=tuple(notes),
        omitted=omissions(problem, part),
        confusions=confusions_of(solved, problem.classes, confidence_level),
    )
    split, encoded = None, None
    if features is not None:
        with stage("grouping loss", verbose, name):
            try:
                encoded = encode_features(features, warn=False)
            except ValueError as error:  # the rest of the report is unaffected
                grouping = GroupingFinding(note=str(error))
            else:
                refinement = findings.confidence.refinement
                grouping, split = find_grouping(
                    problem, encoded, refinement, random_state=seed, **run
                )
        findings = replace(findings, grouping=grouping)
    if by is not None and not isinstance(by, GroupCalibrations):
        with stage("groups that were named", verbose, name):
            by = calibration_by_group(
                problem,
                problem.forecast,
                by,
                notion="auto",
                intersections=intersections,
                confidence_level=confidence_level,
            )
    decision = None
    if threshold is not None or costs is not None:
        with stage("decisions", verbose, name):
            decision = find_decision(problem, encoded, threshold, costs, random_state=seed, **run)
    findings = find_direction(replace(findings, by=by, decision=decision), solved)
    advice, recalibrated = choose_advice(findings, problem), None
    if advice.recommended is not None:
        with stage("recalibrated forecasts", verbose, name):
            recalibrated = recalibrate(divided, advice.recommended, folds, forecasts_of)
    return replace(findings, advice=advice), split, recalibrated


# --- Several models -------------------------------------------------------------------------------


@completes_docstrings
class ComparisonReport(Rendered):
    r"""Comparison of several models: calibration, loss, and significance of differences.

    Create one with `from_estimators`, with `from_predictions`, or from existing reports.
    ``print(report)`` shows the first screen, `to_text` returns the full text, `to_html` writes one
    self-contained page, `to_dict` returns the numbers.

    All models are evaluated on the same samples, so differences are *paired*: the common part of
    two losses cancels, and a difference may be significant although the two intervals overlap. Let
    :math:`L_i^a` be the Brier score of sample i under model a, and :math:`E_i^a` the term of the
    sample in the default estimate of the Brier calibration error
    (:func:`~skcalib.proper_calibration_error`). The table has the means, each with a Student
    interval, of

    - Brier calibration error: :math:`E_i^a - E_i^b`;
    - Brier score: :math:`L_i^a - L_i^b`, and the same for the log loss;
    - Brier score after recalibration: :math:`(L_i^a - E_i^a) - (L_i^b - E_i^b)`;
    - share of wrong predictions;
    - squared kernel calibration error, by :func:`~skcalib.compare_calibration` on blocks of samples
      in random order.

    With ``threshold=`` or ``costs=`` there are also, for the decisions that follow from the
    forecasts,

    - with a threshold the net benefit (:func:`~skcalib.risk_models.net_benefit`):
      :math:`NB^a - NB^b = -E(L_t^a - L_t^b) / (1 - t)` for two classes;
    - the cost: :math:`L_i^a - L_i^b` with the cost of :class:`~skcalib.scores.Elementary` or
      :class:`~skcalib.scores.DecisionCost`, in units of the sum of both costs, or of ``costs``;
    - what recalibration would save, the regret of miscalibration
      (:func:`~skcalib.decision_regret`).

    All are negative if a is better, except the net benefit, which is then positive; they change
    their sign with the order of the models. For two classes the intervals of these three follow
    from exact limits of the shares of samples whose decision changes, because these may be few.
    With more than two models the intervals are widened (Bonferroni), so that those of one quantity
    hold for all pairs simultaneously, and p-values are multiplied by the number of pairs. A model
    is called better if such an interval excludes zero.

    Sketches (`from_sketches`) have no samples to pair. Then the half-lengths of the intervals of
    both models are added. This is valid for any dependence, and also for models on different
    samples. The kernel calibration error and the savings by recalibration are left out.

    A better calibrated model is not necessarily the better model: a constant forecast can be
    calibrated. The verdict therefore also compares the losses.

    Parameters
    ----------
    reports : dict of str to CalibrationReport, or list of CalibrationReport
        At least two, with different names, on the same samples with the same weights, classes,
        level and seed; reports of sketches with the same classes, level and seed.

    Attributes
    ----------
    reports : dict of str to CalibrationReport
        The report of each model.
    differences : tuple of PairedDifference
        Records ``quantity``, ``first``, ``second``, ``difference`` (with ``estimate``, ``low``,
        ``high``, ``standard_error``), the two-sided ``pvalue`` of no difference, ``detected`` and
        ``better``. The quantities are "log", "brier", "calibration", "refinement", "errors",
        "kernel", and of decisions "net_benefit", "cost" and "regret". The last two are means per
        sample, in the unit of ``costs``, or in that of `decision_regret`: with a threshold t a
        false alarm costs t and a miss 1 - t. A quantity that is infinite for two models, or has too
        few samples, is missing.
    paired : bool
        Whether differences are paired: all reports were made from samples.
    verdict : str
        Text that states which model is better.

    Raises
    ------
    ValueError
        For fewer than two models, duplicate names, and reports on different samples.

    See Also
    --------
    CalibrationReport : The report of one model.
    decision_regret : The cost of the decisions of one model.
    DecompositionDisplay : The parts of the loss of several models as a figure.

    Examples
    --------
    >>> from skcalib import ComparisonReport
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> models = {"raw": data.y_proba, "truth": data.posterior}
    >>> comparison = ComparisonReport.from_predictions(data.y, models)
    >>> print(comparison.verdict.splitlines()[0])
    truth is better calibrated and has the lower Brier score.
    """

    @checks_parameters
    def __init__(
        self,
        reports: Mapping[str, CalibrationReport] | Sequence[CalibrationReport],
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.reports = _check_reports(reports)
        first = next(iter(self.reports.values()))
        self.confidence_level = first.confidence_level
        self.random_state = first.random_state
        problems = {name: report.problem for name, report in self.reports.items()}
        self.paired = all(problem.count is None for problem in problems.values())
        self.differences = find_differences(
            problems,
            self.confidence_level,
            self.random_state,
            n_jobs,
            decision=first.findings.decision,
        )

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Mapping[str, ArrayLike],
        X: MatrixLike = None,
        *,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare probabilities of several models for the same held-out samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : dict of str to array-like
            The probabilities of each model, as for `CalibrationReport.from_predictions`.
        X : array-like of shape (n_samples, n_features), default=None
            Features or any representation, for the grouping loss.
        **params : dict
            ``sample_weight``, ``labels``, ``pos_label`` (the event of two classes), ``groups``
            (clusters of dependent samples), ``threshold`` or ``costs`` of decisions,
            ``confidence_level`` and ``verbose``, as for `CalibrationReport.from_predictions`.
        """
        _check_mapping(y_proba, "y_proba", "probabilities")
        params = {"random_state": seed_of(random_state), "n_jobs": n_jobs, **params}

        def report(proba, name):
            return CalibrationReport.from_predictions(y_true, proba, X, name=name, **params)

        return cls(_report_each(report, y_proba), n_jobs=n_jobs)

    @classmethod
    @checks_parameters
    def from_sketches(
        cls,
        sketches: Mapping[str, ForecastSummary],
        *,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare models by a sketch of each, on the same or on different samples.

        Parameters
        ----------
        sketches : dict of str to ForecastSketch
            The sketch of each model, of the same classes and notion.
        **params : dict
            ``threshold`` or ``costs`` of decisions, ``confidence_level`` and ``verbose``, as for
            `CalibrationReport.from_sketch`.

        Returns
        -------
        ComparisonReport
            The comparison; its differences are not paired.

        Examples
        --------
        >>> from skcalib import ComparisonReport, ForecastSketch
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> models = {"raw": data.y_proba, "truth": data.posterior}
        >>> sketches = {
        ...     name: ForecastSketch([0, 1]).fit(data.y, proba) for name, proba in models.items()
        ... }
        >>> comparison = ComparisonReport.from_sketches(sketches)
        >>> print(comparison.verdict.splitlines()[0])
        truth is better calibrated; the Brier scores do not differ significantly.
        """
        _check_mapping(sketches, "sketches", "sketches")
        params = {"random_state": seed_of(random_state), "n_jobs": n_jobs, **params}

        def report(sketch, name):
            return CalibrationReport.from_sketch(sketch, name=str(name), **params)

        return cls(_report_each(report, sketches), n_jobs=n_jobs)

    @classmethod
    @checks_parameters
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator],
        X: MatrixLike,
        y: ArrayLike,
        *,
        cv: CV = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare classifiers on the same samples.

        Parameters
        ----------
        estimators : dict of str to classifier
            Classifiers by name: fitted, with (X, y) held out; or any classifier with `cv`.
        cv : None, int or splitter, default=None
            None: the classifiers are used as they are. Else they are cloned, fitted on the same
            folds and evaluated by their out-of-fold probabilities.
        **params : dict
            ``sample_weight``, ``pos_label`` (the event of two classes), ``groups`` (clusters of
            dependent samples), ``threshold`` or ``costs`` of decisions, ``confidence_level``,
            ``response_method`` and ``verbose``, as for `CalibrationReport.from_estimator`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from skcalib import ComparisonReport
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> logistic = make_pipeline(StandardScaler(), LogisticRegression())
        >>> models = {"logistic": logistic, "Bayes": GaussianNB()}
        >>> comparison = ComparisonReport.from_estimators(models, X, y, cv=5)
        >>> print(comparison.verdict.splitlines()[0])
        logistic is better calibrated and has the lower Brier score.
        """
        _check_mapping(estimators, "estimators", "classifiers")
        params = {"random_state": seed_of(random_state), "n_jobs": n_jobs, **params}
        if cv is not None:  # a shuffling splitter must give all models the same folds
            (X,) = indexable(X)
            y = check_y(y, name="y")
            groups = params.get("groups")
            cv = make_folds(cv, X, y, groups, groups)

        def report(estimator, name):
            return CalibrationReport.from_estimator(estimator, X, y, cv=cv, name=name, **params)

        return cls(_report_each(report, estimators), n_jobs=n_jobs)

    @property
    def verdict(self) -> str:
        """The verdict as text: a headline, then one sentence per line."""
        return "\n".join(
            map(printable, [headline_of_comparison(self), *sentences_of_comparison(self)])
        )

    def _document(self):
        return comparison_page(self)

    def __repr__(self) -> str:
        return printable(
            f"<ComparisonReport of {', '.join(self.reports)}: {headline_of_comparison(self)}>"
        )

    def to_frame(self) -> DataFrame:
        """One row for each difference of two models; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Columns: ``quantity``, the models ``first`` and ``second``, ``difference`` with its
            interval ``difference_low`` and ``difference_high``, ``pvalue`` and ``detected``.
        """
        names = ("quantity", "first", "second", "difference", "pvalue", "detected")
        columns = {name: [getattr(row, name) for row in self.differences] for name in names}
        return frame_of(columns, ["difference"])

    def to_dict(self) -> dict[str, Any]:
        """All numbers as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The verdict, the differences, and the report of each model.
        """
        return {
            "headline": printable(headline_of_comparison(self)),
            "verdict": list(map(printable, sentences_of_comparison(self))),
            "differences": [
                as_json({**asdict(row), "detected": row.detected, "better": row.better})
                for row in self.differences
            ],
            "reports": {name: report.to_dict() for name, report in self.reports.items()},
            "confidence_level": self.confidence_level,
            "random_state": self.random_state,
            "versions": versions(),
        }


def _check_mapping(models, name, kind):
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(f"{name} must be a dict of at least two {kind} by model name.")


def _report_each(make, models):
    """The report of each model; a warning about their common clusters appears once."""
    reports = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            if reports:
                warnings.filterwarnings("ignore", "groups has only")
            reports[str(name)] = make(model, name)
    return reports


def _check_reports(reports):
    """Reports by name, on the same samples."""
    if not isinstance(reports, Mapping):
        named = {report.name: report for report in reports}
        if len(named) < len(reports):
            raise ValueError("Two reports have the same name: pass a dict of reports by name.")
        reports = named
    if len(reports) < 2:
        raise ValueError(f"A comparison needs at least two reports, got {len(reports)}.")
    reports = {str(name): report for name, report in reports.items()}
    (first_name, first), *others = reports.items()
    for name, second in others:
        difference = _difference_of_reports(first, second)
        if difference:
            raise ValueError(f"The reports of {first_name} and {name} {difference}")
    return reports


def _difference_of_reports(first, second):
    """Why two reports cannot be compared, or an empty text."""
    sketched = first.problem.count is not None or second.problem.count is not None
    parts = ("classes",) if sketched else ("classes", "target", "weight", "cluster")
    if not all(
        np.array_equal(getattr(first.problem, part), getattr(second.problem, part))
        for part in parts
    ):
        if sketched:
            return "have different classes: only models of the same event can be compared."
        return (
            "are not on the same samples: labels, weights, classes and groups must agree, in this "
            "order."
        )
    if (first.confidence_level, first.random_state) != (
        second.confidence_level,
        second.random_state,
    ):
        return "differ in confidence_level or random_state: use the same values for all."
    rules = (
        decision and (decision.threshold, decision.costs)
        for decision in (first.findings.decision, second.findings.decision)
    )
    if len({*rules}) > 1:
        return "differ in threshold or costs: use the same values for all, or none."
    return ""


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


def _costs_in_order(costs, problem, pos_label):
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


# --- Differences of models, and what is compared --------------------------------------------------


def find_differences(
    problems: Mapping[str, Problem],
    confidence_level: float,
    random_state: int,
    n_jobs: int | None = None,
    *,
    decision: DecisionFinding | None = None,
) -> tuple[PairedDifference, ...]:
    """Problems by model name -> all differences, paired where every row is a sample.

    Intervals are widened (Bonferroni): those of one quantity hold for all pairs simultaneously.
    """
    pairs = list(combinations(problems, 2))
    level = 1 - (1 - confidence_level) / len(pairs)
    paired = all(problem.count is None for problem in problems.values())
    quantities, rule, seed = list(QUANTITIES), None, random_state if paired else None
    if decision is not None:
        rule = DecisionRule.of(decision, next(iter(problems.values())))
        quantities += [name for name in OF_DECISIONS if name != "net_benefit" or rule.threshold]
    models = {name: _Model.of(problem, rule, seed, n_jobs) for name, problem in problems.items()}
    differences = []
    for quantity in quantities:
        for first_name, second_name in pairs:
            first, second = models[first_name], models[second_name]
            if not paired:
                compared = _unpaired(first, second, quantity, level)
            elif quantity == "kernel":
                reverse = first_name > second_name
                compared = _kernel(first.problem, second.problem, level, seed, n_jobs, reverse)
            elif rule is not None and rule.exact and quantity in OF_DECISIONS:
                compared = rule.difference(quantity, first.solved, second.solved, level)
            else:
                compared = _paired(first, second, quantity, level)
            if compared is not None:
                interval, pvalue = compared
                pvalue = min(1.0, len(pairs) * pvalue)
                differences.append(
                    PairedDifference(quantity, first_name, second_name, interval, pvalue)
                )
    return tuple(differences)


@dataclass(frozen=True)
class _Model:
    """What is compared of one model: the terms of each quantity, one per sample.

    The ``estimates`` of some quantities are not the means of their ``terms``. ``curve`` is the
    calibrated forecast of all classes, and ``solved`` the problem of the decisions.
    """

    problem: Problem
    terms: dict[str, np.ndarray]
    estimates: dict[str, float]
    curve: np.ndarray
    solved: AveragedProblem | None = None

    @classmethod
    def of(cls, problem, rule, seed, n_jobs):
        """The terms of a problem; those of recalibrated decisions only with a seed."""
        with collected_warnings():  # the warnings are in the report of each model
            estimates, solved = estimate_errors(problem, "canonical", 0.95)
        brier, log = (estimate.terms for estimate in estimates)
        right = next(TopLabel().problems(problem.forecast, problem.target))[1][:, 1]
        terms = {
            "calibration": brier.influence,
            "brier": brier.loss,
            "log": log.loss,
            "refinement": brier.refinement,
            "errors": 1 - right,
        }
        decisions = None
        if rule is not None:
            of_decisions, decisions = rule.terms(problem, seed, n_jobs)
            terms |= of_decisions
        estimates = {"calibration": brier.mean("calibration")}
        return cls(problem, terms, estimates, solved[0].conditional, decisions)


# --- Intervals and p-values of differences --------------------------------------------------------


def _paired(first, second, quantity, level):
    """Interval of a mean difference, and its p-value; two infinite losses have none.

    Its centre is the difference of the estimates, if these are not the means of the terms. Labels
    decide the losses, and what each model would gain by recalibration, which "calibration"
    compares: with few of them the limits are those of `mean_loss_interval`.
    """
    problem, is_gain, estimate = first.problem, quantity == "calibration", None
    rows = {"weight": problem.weight, "cluster": problem.cluster}
    loss = _LOSSES.get("brier" if is_gain else quantity)

    def terms(model, target):
        if loss is None:
            return model.terms[quantity]
        values = loss(target, model.problem.forecast)
        return values - loss(target, model.curve) if is_gain else values

    minuend, subtrahend = terms(first, problem.target), terms(second, problem.target)
    if np.isinf(minuend).any() and np.isinf(subtrahend).any():
        return None
    if quantity in first.estimates:
        estimate = first.estimates[quantity] - second.estimates[quantity]
    mean = mean_interval(minuend - subtrahend, confidence_level=level, estimate=estimate, **rows)
    error, degrees = mean.standard_error, independent_size(**rows) - 1
    of_student = mean, _pvalue(mean.estimate, [error], [degrees])
    if loss is None or not np.isfinite([mean.estimate, error]).all():
        return of_student
    between = between_forecasts(first.problem.forecast, second.problem.forecast)
    if not has_few_labels(between, problem.target, problem.weight):
        return of_student
    limits = mean_loss_interval(
        lambda target: terms(first, target) - terms(second, target),
        between,
        problem.target,
        level,
        estimate=estimate,
        **rows,
    )
    if limits.standard_error == 0:  # the same difference for every label
        return of_student
    return limits, interval_pvalue(limits, level)


def _wrong(target, forecast):
    """Whether the predicted class is another one than the label, for one-hot rows or shares."""
    return 1 - target[np.arange(len(forecast)), forecast.argmax(axis=1)]


#: Losses that labels decide, by the name of their quantity.
_LOSSES = {"brier": Brier().loss, "log": LogLoss().loss, "errors": _wrong}


def _unpaired(first, second, quantity, level):
    """Interval of a difference whose two parts may depend on each other in any way; its p-value.

    None for a quantity without terms, or if both means are infinite.
    """
    if quantity not in first.terms:
        return None
    means, degrees = [], []
    for model in (first, second):
        problem, estimate = model.problem, model.estimates.get(quantity)
        means.append(
            mean_interval(
                model.terms[quantity], problem.weight, level, problem.square, estimate=estimate
            )
        )
        degrees.append(independent_size(problem.weight, problem.square) - 1)
    if np.isinf([mean.estimate for mean in means]).all():
        return None
    middle = means[0].estimate - means[1].estimate
    error = means[0].standard_error + means[1].standard_error
    reach = 0.0
    if np.isfinite(middle):
        reach = means[0].high - means[0].estimate + means[1].high - means[1].estimate
    interval = MeanInterval(middle, middle - reach, middle + reach, error)
    return interval, _pvalue(middle, [mean.standard_error for mean in means], degrees)


_LEAST_LOG = -700.0  # logarithm of the smallest p-value


def _pvalue(estimate, errors, degrees):
    """One minus the level at which an interval touches zero.

    Its half-length is the sum of those of Student intervals, with these errors and degrees.
    """
    errors, degrees = np.array(errors), np.array(degrees)
    if estimate == 0 or not np.isfinite(errors).all():
        return 1.0

    def gap(log_level):
        reach = np.where(errors > 0, student.isf(np.exp(log_level) / 2, degrees), 0.0)
        return float(errors @ reach) - abs(estimate)

    if not np.isfinite(estimate) or gap(_LEAST_LOG) < 0:
        return 0.0
    return float(np.exp(brentq(gap, _LEAST_LOG, 0.0)))


def _kernel(first, second, level, random_state, n_jobs, reverse):
    """Blocks of samples in random order; in one order of the models, so that signs flip."""
    rows = np.random.RandomState(random_state).permutation(len(first.weight))
    if reverse:
        first, second = second, first
    try:
        compared = compare_problems(
            first.take(rows),
            second.take(rows),
            kernel=resolve_kernel(None),
            notion=Canonical(),
            confidence_level=level,
            n_jobs=n_jobs,
        )
    except ValueError:  # too few samples for blocks: only this quantity is missing
        return None
    difference, low, high = compared.estimate, compared.low, compared.high
    if reverse:
        difference, low, high = -difference, -high, -low
    return MeanInterval(difference, low, high, compared.standard_error), compared.pvalue


# --- Differences of decisions ---------------------------------------------------------------------


@dataclass(frozen=True)
class DecisionRule:
    """The cost of a decision, and the notion whose event it is about.

    ``threshold`` is that of the probability, or None where costs are given. ``exact`` says whether
    intervals follow from exact limits of shares: for two classes.
    """

    score: DecisionCost
    notion: Notion
    threshold: float | None
    exact: bool

    @classmethod
    def of(cls, decision: DecisionFinding, problem: Problem) -> Self:
        """The rule of the decisions of a report."""
        threshold, several = decision.threshold, problem.forecast.shape[1] > 2
        score = score_of_decision(threshold, decision.costs or None)
        notion = TopLabel() if several and threshold is not None else Canonical()
        return cls(score, notion, threshold, exact=not several)

    def terms(
        self, problem: Problem, seed: int | None, n_jobs: int | None
    ) -> tuple[dict[str, np.ndarray], AveragedProblem | None]:
        """Terms of each sample, and with a seed the solved problem, for recalibration."""
        forecast, target = next(iter(self.notion.problems(problem.forecast, problem.target)))
        cost = self.score.loss(target, forecast)
        terms: dict[str, np.ndarray] = {"cost": cost}
        solved: Any = None
        if self.threshold is not None:
            terms["net_benefit"] = target[:, 1] - cost / (1 - self.threshold)
        if seed is not None:
            smoother = LogitSmoother(random_state=seed)
            (solved,) = solve_notion(problem, notion=self.notion, smoother=smoother, n_jobs=n_jobs)
            terms["regret"] = cost - self.score.loss(target, solved.conditional)
        return terms, solved

    def difference(
        self, quantity: str, first: Any, second: Any, confidence_level: float
    ) -> tuple[MeanInterval, float]:
        """The interval of a difference between two solved problems, and its p-value."""
        if quantity == "regret":
            interval_at = partial(self._regret_interval, first, second)
        else:
            interval_at = partial(
                saving_interval,
                self.score,
                [first],
                before=[first.forecast],
                after=[second.forecast],
                share=1.0,
                every_change=not np.array_equal(first.forecast, second.forecast),
            )
        sign = 1.0
        if quantity == "net_benefit" and self.threshold is not None:
            sign = -1 / (1 - self.threshold)
        interval = interval_at(confidence_level=confidence_level)
        low, high = sorted((sign * interval.low, sign * interval.high))
        error = abs(sign) * interval.standard_error
        difference = MeanInterval(sign * interval.estimate, low, high, error)
        return difference, _pvalue_of_limits(interval_at)

    def _regret_interval(self, first, second, confidence_level):
        """Of the saving by recalibration of the first minus that of the second.

        The squared distances of the limits of both from their estimates add up (Zou and Donner,
        2008), and the interval has at least the length of Student's for paired differences.
        """
        savings, saved = [], []
        for p in (first, second):
            before, after = p.forecast, p.conditional
            savings.append(
                saving_interval(
                    self.score, [p], [before], [after], 1.0, confidence_level, every_change=True
                )
            )
            saved.append(self.score.loss(p.target, before) - self.score.loss(p.target, after))
        mean = mean_interval(
            saved[0] - saved[1], first.weight, confidence_level, None, first.cluster
        )
        middle, (minuend, subtrahend) = mean.estimate, savings
        if np.array_equal(first.forecast, second.forecast):
            return replace(mean, low=float(middle), high=float(middle))
        down = np.hypot(minuend.estimate - minuend.low, subtrahend.high - subtrahend.estimate)
        up = np.hypot(minuend.high - minuend.estimate, subtrahend.estimate - subtrahend.low)
        low, high = min(mean.low, middle - down), max(mean.high, middle + up)
        return replace(mean, low=float(low), high=float(high))


def _pvalue_of_limits(interval_at):
    """One minus the largest level at which the interval excludes zero; not below 1e-12."""
    if interval_at(confidence_level=0.5).estimate == 0:
        return 1.0
    low, high = np.log(1e-12), 0.0
    for _ in range(30):
        middle = (low + high) / 2
        interval = interval_at(confidence_level=1 - np.exp(middle))
        low, high = (low, middle) if interval.low > 0 or interval.high < 0 else (middle, high)
    return float(np.exp(high))
