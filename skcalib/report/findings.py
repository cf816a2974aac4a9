"""The results of a report: numbers with intervals, without figures.

Records first, then the functions that compute errors, tests, ranges and groups from a validated
problem. Maps and decisions are in `advice`, signs of an invalid input and the direction in
`diagnosis`. Names of classes for sentences come last.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.stats import norm

from skcalib._util.arithmetic import level_starts, merge_ties
from skcalib._util.formatting import Record, limit_of_noise
from skcalib._util.sizes import SIZES
from skcalib.data.clusters import effective_size
from skcalib.data.features import EncodedFeatures
from skcalib.data.notions import NotionLike, TopLabel, resolve_notion
from skcalib.data.problem import Problem, ProblemSummary
from skcalib.error_intervals import calibration_error_interval
from skcalib.error_intervals.proper import ProperEstimate, estimates_of_solved
from skcalib.error_intervals.quantities import by
from skcalib.errors import ScoreDecomposition
from skcalib.grouping import GroupingLossEstimator
from skcalib.grouping.by_group import GroupCalibrations
from skcalib.grouping.differences import compare_groups
from skcalib.links.averaging import ModelAverage, add_averaged_map
from skcalib.proper.proper import decompose, solve_notion
from skcalib.recalibration import GroupRecalibrator
from skcalib.recalibration.held_out import RecalibratorSelection
from skcalib.risk_models.summary import ROWS, summary_of_problem
from skcalib.scores import Brier, LossLike, weighted_mean
from skcalib.significance import OmnibusTest, calibration_test
from skcalib.stats.means import MeanInterval, mean_interval, observed_expected_ratio, rate_interval

if TYPE_CHECKING:
    from skcalib.grouping import GroupDifference
    from skcalib.proper.map_average import AveragedProblem


#: Level of each test that enters the verdict besides the intervals; strict, as there are several.
TEST_LEVEL = 0.005
#: Level of the tests of grouping loss, which count only if the interval is also above zero.
GROUPING_LEVEL = 0.05
#: Differences of losses up to this are rounding errors.
ROUNDING = 1e-12
#: Quantities of a comparison of which more is better.
HIGHER_IS_BETTER = ("net_benefit",)


@dataclass(frozen=True)
class Place:
    """A range of scores, or a class: mean prediction against observed frequency.

    ``low_score`` and ``high_score`` are the ends of a range; a class has 0 and 1. [low, high] is
    the Clopper-Pearson interval of ``mean_outcome``, widened so that the intervals of all places of
    the ``kind`` ("scores" or "class") hold simultaneously. ``share`` is the weighted share of the
    samples.
    """

    kind: str
    label: str
    low_score: float
    high_score: float
    n_samples: int
    share: float
    mean_score: float
    mean_outcome: float
    low: float
    high: float

    @property
    def detected(self) -> bool:
        """True if the interval does not contain the mean score."""
        return not self.low <= self.mean_score <= self.high

    @property
    def too_high(self) -> bool:
        """True if the mean prediction exceeds the observed frequency."""
        return self.mean_score > self.mean_outcome

    @property
    def squared_gap(self) -> float:
        """Share of the weight times the squared gap, noise included."""
        return self.share * (self.mean_score - self.mean_outcome) ** 2


@dataclass(frozen=True)
class LogisticRecalibration:
    """Shift and slope of an event on the logit, fitted together, and the test of both.

    ``shift`` is the log odds by which the event is more frequent than forecast at the mean logit
    (0 if calibrated), ``slope`` that of the centred logit (1 if calibrated). ``pvalue`` is that of
    Cox's likelihood-ratio test of both.
    """

    shift: MeanInterval
    slope: MeanInterval
    pvalue: float


@dataclass(frozen=True)
class Gains:
    """Gains of the log loss without the optimism of the fits, in nats.

    Of the shift alone, the slope alone, and the whole averaged map.
    """

    shift: float
    slope: float
    whole: float


@dataclass(frozen=True)
class Confusion:
    """A class that is more frequent than predicted where another class is predicted.

    ``n_samples`` have ``predicted`` as their most likely class, with a probability of at least
    ``at_least``. Their mean probability of ``other`` is ``mean_score``, and ``observed`` its
    frequency, with an interval that holds for all confusions of a report simultaneously.
    """

    predicted: str
    other: str
    at_least: float
    n_samples: int
    mean_score: float
    observed: MeanInterval


@dataclass(frozen=True)
class GroupingFinding:
    """Groups and grouping loss of the event (with more than two classes: of the confidence).

    ``named`` are the groups that differ from others with equal scores (`GroupDifference`, the most
    harmful first, false discovery rate below .05 over the ``n_tried`` groups tested on
    ``n_compared`` samples). They do not depend on ``grouping_loss``, the lower bound by a model of
    score and features on ``n_measured`` samples, with its ``pvalue``. A lower bound that is not
    above zero means that no grouping loss was detected. ``rest`` is what calibration and grouping
    loss leave of the Brier score, with a conservative interval. ``correction``
    is the held-out gain of the Brier score by a correction that uses the features, beyond
    recalibration; measured where groups differ. ``note`` explains missing or imprecise numbers, and
    ``left_out`` names the columns of X that are not used.
    """

    grouping_loss: MeanInterval | None = None
    rest: MeanInterval | None = None
    pvalue: float | None = None
    n_measured: int = 0
    named: tuple = ()
    n_tried: int = 0
    n_compared: int = 0
    correction: MeanInterval | None = None
    note: str = ""
    left_out: str = ""

    @property
    def corrects(self) -> bool:
        """True if the gain by the features is significant."""
        return self.correction is not None and self.correction.low > 0

    @property
    def detected(self) -> bool:
        """True if the interval lies above zero and the test rejects."""
        loss, pvalue = self.grouping_loss, self.pvalue
        return loss is not None and loss.low > 0 and pvalue is not None and pvalue < GROUPING_LEVEL


@dataclass(frozen=True)
class ErrorFinding:
    """The decomposition of one loss under one notion, with an interval for each part.

    ``expected_loss`` = ``calibration`` + ``refinement``. ``calibration`` is the number of
    `proper_calibration_error` with its defaults, and the interval that of
    `CalibrationErrorEstimator`. ``target`` says what the interval covers, and ``evidence`` holds
    the weights of a shift, a slope, different slopes of the classes and a curve.
    ``residual_pvalue`` is that of the residuals of the maps in cells; ``lower_bound`` is the reason
    why the error may exceed the upper limit, or empty.
    """

    loss: str
    notion: str
    terms: ScoreDecomposition
    expected_loss: MeanInterval
    calibration: MeanInterval
    refinement: MeanInterval
    target: str = ""
    evidence: dict | None = None
    residual_pvalue: float = 1.0
    lower_bound: str = ""

    @property
    def detected(self) -> bool:
        """True if the interval of the calibration error lies above zero."""
        return self.calibration.low > 0


@dataclass(frozen=True)
class ReportedNumber:
    """A commonly reported number, with its interval, and one sentence on its bias.

    ``name`` is for display, ``key`` for programs. ``target`` is the quantity that the interval
    covers; a biased number may differ from it. If there is no value, ``note`` gives the reason.
    ``valid`` says whether the interval covers its target with its nominal probability.
    """

    key: str
    name: str
    note: str
    value: MeanInterval | None
    target: str = ""
    valid: bool = True


@dataclass(frozen=True)
class BrierChange:
    """Held-out Brier score ``before`` and ``after`` a map, and its held-out ``log_loss``."""

    name: str
    log_loss: float
    before: float
    after: float

    @property
    def harmful(self) -> bool:
        """True if the Brier score increases."""
        return self.after > self.before


@dataclass(frozen=True)
class Advice:
    """Which recalibration map to use, by held-out losses.

    ``recommended`` is the name of a map whose held-out log loss is significantly lower and whose
    held-out Brier score is not higher, else None, with a ``reason``: "calibrated" (no
    miscalibration was found), "no_gain" (no map lowers both losses), "few_labels", "separated" (the
    score separates the labels completely), or "input" (the input is suspect). ``selection``
    compares the maps, ``brier`` belongs to the chosen one, ``refused`` lists the maps with a lower
    log loss that raise the Brier score, and ``left_out`` those that take too long. ``falls`` says
    whether, of two classes, the chosen map gives a smaller probability to some larger score.
    """

    recommended: str | None
    reason: str
    selection: RecalibratorSelection
    brier: BrierChange | None = None
    refused: tuple = ()
    left_out: tuple = ()
    falls: bool = False

    @property
    def log_loss(self) -> dict[str, float | None]:
        """Held-out log loss before and after; the second is None if nothing is recommended."""
        losses, names = self.selection.losses, self.selection.names
        after = None if self.recommended is None else losses[names.index(self.recommended)]
        return {"before": losses[0], "after": after}


@dataclass(frozen=True)
class DecisionFinding:
    """Parts of the mean cost of a decision; see :func:`~skcalib.decision_regret`.

    ``threshold`` is that of the probability, or None where ``costs`` are given. ``calibration`` is
    what recalibration would save, ``grouping`` what a better model of the features would save
    beyond that (None without features). ``changed`` is the share of decisions that recalibration
    changes. ``moved`` is the threshold for the forecasts as they are that gives the same decisions
    as recalibration by the averaged map, or None. ``tied`` is the share of forecasts for which two
    decisions cost the same, as at the threshold.
    """

    threshold: float | None
    costs: tuple
    expected_cost: MeanInterval
    calibration: MeanInterval
    grouping: MeanInterval | None
    rest: MeanInterval
    changed: float
    moved: float | None
    tied: float = 0.0

    @property
    def recalibration_saves(self) -> bool:
        """True if recalibration saves significantly."""
        return self.calibration.low > 0

    @property
    def model_saves(self) -> bool:
        """True if a better model of the features saves significantly."""
        return self.grouping is not None and self.grouping.low > 0


@dataclass(frozen=True)
class Findings:
    """All results of a report, as numbers.

    With two classes all results refer to the ``event``, with more to the confidence of the
    predicted class: ``mean_predicted`` against ``observed_rate``, and their ratio, observed over
    predicted. ``errors`` holds the two losses under each notion. ``logistic`` is the
    logistic recalibration of the event or confidence, ``test`` the calibration test of all classes
    at once on ``n_tested`` samples; each is None if it does not exist. ``places`` are the ranges of
    scores and the classes, ``reported`` the commonly reported numbers, ``notes`` the warnings of
    the estimators, ``omitted`` what was omitted or computed on a part of the samples. ``by`` are
    the groups that the user names, ``decision`` the cost of decisions at the given threshold.
    ``more_where`` is "higher" or "lower" if these predictions are further too high or too low.
    ``confusions`` are the pairs of classes that the predictions confuse, the strongest first. With
    clusters of dependent samples, of which there are ``n_clusters``, ``effective_size`` is divided
    by the design effect of the mean Brier score.
    """

    confidence_level: float
    n_samples: int
    effective_size: float
    n_classes: int
    event: str | None
    n_events: int | None
    mean_predicted: float
    observed_rate: MeanInterval
    observed_expected_ratio: MeanInterval | None
    accuracy: MeanInterval
    confidence_gap: MeanInterval
    suspicions: tuple
    errors: tuple
    direction: str | None
    gains: Gains
    logistic: LogisticRecalibration | None
    advice: Advice
    reported: tuple
    places: tuple
    test: OmnibusTest | None = None
    n_tested: int = 0
    grouping: GroupingFinding | None = None
    notes: tuple = ()
    omitted: tuple = ()
    by: GroupCalibrations | None = None
    decision: DecisionFinding | None = None
    more_where: str = ""
    n_clusters: int | None = None
    confusions: tuple = ()

    def error(self, loss: str, notion: str) -> ErrorFinding:
        """The error of that loss and notion."""
        return next(e for e in self.errors if (e.loss, e.notion) == (loss, notion))

    @property
    def confidence(self) -> ErrorFinding:
        """Brier error of the confidence; with two classes it is that of the event."""
        return self.error("brier", "canonical" if self.n_classes == 2 else "top_label")

    @property
    def brier_errors(self) -> list[ErrorFinding]:
        """The Brier errors that enter the verdict."""
        canonical = self.error("brier", "canonical")
        return [canonical, *([self.confidence] if self.n_classes > 2 else [])]

    @property
    def calibration_test_rejects(self) -> bool:
        """True if the calibration test rejects at the level of the verdict."""
        return self.test is not None and self.test.rejects(TEST_LEVEL)

    @property
    def logistic_test_rejects(self) -> bool:
        """True if the test of shift and slope rejects at the level of the verdict."""
        return self.logistic is not None and self.logistic.pvalue < TEST_LEVEL

    @property
    def residuals_reject(self) -> bool:
        """True if the residuals of the averaged maps are not noise, at the level of the verdict."""
        return self.error("brier", "canonical").residual_pvalue < TEST_LEVEL

    @property
    def miscalibrated(self) -> bool:
        """True if a calibration error is significantly above zero, or a test rejects.

        Never with repeated rows, which make all intervals and p-values too small.
        """
        if any(suspicion.kind == "repeated_rows" for suspicion in self.suspicions):
            return False
        tests = self.calibration_test_rejects or self.logistic_test_rejects or self.residuals_reject
        return tests or any(error.detected for error in self.brier_errors)

    @property
    def input_is_suspect(self) -> bool:
        """True if the probabilities probably do not belong to these labels."""
        return any(suspicion.invalidates for suspicion in self.suspicions)

    @property
    def typical_error(self) -> dict[str, float]:
        """Root mean square of prediction minus calibrated prediction, as a probability.

        The root of the Brier calibration error and of the ends of its interval; ends below zero
        are zero. Where nothing is found, the upper limit is the error that could be missed.
        """
        error = self.confidence.calibration
        ends = np.clip([error.estimate, error.low, limit_of_noise(error)], 0.0, 1.0)
        estimate, low, high = np.sqrt(ends).tolist()
        return {"estimate": estimate, "low": low, "high": high}

    @property
    def missed_gain(self) -> float:
        """Upper limit of what recalibration could save, as a share of the log loss."""
        error = self.error("log", "canonical")
        if error.lower_bound:
            return np.inf
        loss = error.terms.loss
        return limit_of_noise(error.calibration) / loss if 0 < loss < np.inf else np.inf

    @property
    def missed_difference(self) -> float | None:
        """Difference of a tenth of the samples from others that is found with probability 80 %.

        It is the x with :math:`x^2 = a (v + |1 - 2 r| x)`, where :math:`a = (z_{\\alpha / 2 m} +
        z_{.2})^2 / (.09\\, n)`, for m groups tested, n samples compared, the event rate r and the
        Brier score v as variance of the labels. None if there are too few samples.
        """
        grouping, rate = self.grouping, self.observed_rate.estimate
        if grouping is None or not grouping.n_tried:
            return None
        size = self.effective_size * grouping.n_compared / self.n_samples
        variance = max(self.confidence.terms.loss, 1 / (size + 1))
        quantiles = norm.isf([(1 - self.confidence_level) / (2 * grouping.n_tried), 0.2])
        unit = quantiles.sum() ** 2 / (0.09 * size)
        half = unit * abs(0.5 - rate)
        difference = float(half + np.sqrt(half**2 + unit * variance))
        possible = 0.1 * size * variance >= 1 and difference <= max(rate, 1 - rate)
        return difference if possible else None

    @property
    def named_groups(self) -> tuple[GroupDifference, ...]:
        """The groups that differ from others with equal scores, the most harmful first."""
        named = () if self.grouping is None else self.grouping.named
        return tuple(sorted(named, key=lambda group: -group.harm))

    def worst_places(self, kind: str, most: int | None = None) -> list[Place]:
        """Significantly miscalibrated places of a kind, the most harmful first."""
        detected = [place for place in self.places if place.kind == kind and place.detected]
        return sorted(detected, key=lambda place: -place.squared_gap)[:most]

    def is_off(self, place: Place) -> bool:
        """True if a range or class is significantly miscalibrated, and so are the forecasts."""
        return self.miscalibrated and place.detected

    @property
    def groups_differ(self) -> bool:
        """True if groups are found to differ at equal scores, or the grouping loss is significant.

        The groups are those that the report finds, and those that the user names.
        """
        loss = self.grouping is not None and self.grouping.detected
        return bool(self.named_groups) or loss or self.named_by_user_differ

    @property
    def named_by_user_differ(self) -> bool:
        """True if a group that the user names differs from others with equal scores."""
        groups = () if self.by is None else self.by.groups
        return any(group.equal_scores_detected for group in groups)

    @property
    def predicted_name(self) -> str:
        """What is predicted: the probability of the event, or the confidence."""
        return "predicted" if self.n_classes == 2 else "confidence"

    @property
    def observed_name(self) -> str:
        """What it is compared with: the observed frequency, or the accuracy."""
        return "observed" if self.n_classes == 2 else "accuracy"

    @property
    def of_confidence(self) -> str:
        """What an error is of, as the end of its name: nothing is added for an event."""
        return "" if self.n_classes == 2 else " of the confidence"


@dataclass(frozen=True)
class PairedDifference(Record):
    """First model minus second, with an interval and a two-sided p-value.

    It is negative if the first model is better, except for "net_benefit", of which more is better.
    The p-value is below one minus the level where the interval excludes zero: where there are
    several pairs, both allow for all of them.
    """

    quantity: str
    first: str
    second: str
    difference: MeanInterval
    pvalue: float

    _intervals = ("difference",)

    @property
    def detected(self) -> bool:
        """True if the interval excludes zero, by more than rounding."""
        interval = self.difference
        return (interval.low > 0 or interval.high < 0) and abs(interval.estimate) > ROUNDING

    @property
    def better(self) -> str:
        """The better model, or "" if the difference is not significant."""
        if not self.detected:
            return ""
        lower, higher = self.first, self.second
        if self.quantity in HIGHER_IS_BETTER:
            lower, higher = higher, lower
        return lower if self.difference.estimate < 0 else higher


class Reported(Protocol):
    """What the page of a report reads: its findings, and the samples behind the figures."""

    findings: Findings
    problem: Problem
    name: str
    confidence_level: float
    random_state: int
    grouping_estimator: GroupingLossEstimator | None
    recalibrated: Problem | None
    is_frozen: bool

    @property
    def source(self) -> str:
        """Where the forecasts are from."""
        ...

    @property
    def binary(self) -> Problem:
        """The problem of the event or, for several classes, of the confidence."""
        ...


class Compared(Protocol):
    """What the page of a comparison reads."""

    confidence_level: float
    paired: bool

    @property
    def reports(self) -> Mapping[str, Reported]:
        """The report of each model."""
        ...

    @property
    def differences(self) -> Sequence[PairedDifference]:
        """All differences."""
        ...


# --- The event of a report ------------------------------------------------------------------------


def binary_problem(problem: Problem) -> Problem:
    """The problem of the event of two classes, else of the confidence and correctness."""
    if problem.forecast.shape[1] == 2:
        return problem
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return replace(problem, forecast=forecast, labels_or_target=target)


def n_labels(binary: Problem, column: int) -> int:
    """Number of samples with this label."""
    return binary.take(binary.target[:, column] == 1).n_samples


# --- Sizes, averages, errors and tests ------------------------------------------------------------


#: Losses of a report, in the order of its table.
LOSSES: tuple[LossLike, ...] = ("brier", "log")


def averages_of(problem: Problem, confidence_level: float) -> dict[str, Any]:
    """Sizes, and means of the event (two classes) or of the confidence, as fields of `Findings`.

    The effective size is the number of independent samples of equal weight whose mean Brier score
    is as accurate. Intervals lie inside the range of their mean.
    """
    binary, weight, n_classes = binary_problem(problem), problem.weight, len(problem.classes)
    forecast, target = binary.forecast[:, 1], binary.target[:, 1]
    rows: dict[str, Any] = {"weight": weight, "confidence_level": confidence_level}
    rows |= {"square": problem.square, "cluster": problem.cluster}
    size = effective_size(weight, problem.square)
    if problem.cluster is not None:
        loss = Brier().loss(problem.target, problem.forecast)
        independent = mean_interval(loss, weight).standard_error
        clustered = mean_interval(loss, weight, cluster=problem.cluster).standard_error
        if 0 < clustered < np.inf:
            size *= min(1.0, (independent / clustered) ** 2)
    top_label = next(TopLabel().problems(problem.forecast, problem.target))
    confidence, right = (pair[:, 1] for pair in top_label)
    gap = mean_interval(confidence - right, **rows)
    predicted, ratio = float(weighted_mean(forecast, weight)), None
    if predicted > np.finfo(np.float64).tiny:
        ratio = observed_expected_ratio(target, forecast, **rows)
    return {
        "n_samples": problem.n_samples,
        "n_clusters": problem.n_clusters,
        "effective_size": size,
        "event": str(problem.classes[1]) if n_classes == 2 else None,
        "n_events": n_labels(binary, 1) if n_classes == 2 else None,
        "mean_predicted": predicted,
        "observed_rate": rate_interval(target, **rows),
        "observed_expected_ratio": ratio,
        "accuracy": rate_interval(right, **rows),
        "confidence_gap": replace(gap, low=max(gap.low, -1.0), high=min(gap.high, 1.0)),
    }


def estimate_errors(
    problem: Problem, notion: NotionLike, confidence_level: float, n_jobs: int | None = None
) -> tuple[list[ProperEstimate], list]:
    """`ProperEstimate` of each of the `LOSSES` under one notion, and its solved problems.

    They are those of `proper_calibration_error` and `CalibrationErrorEstimator`.
    """
    notion = resolve_notion(notion)
    solved = solve_notion(problem, notion=notion, smoother=None, n_jobs=n_jobs)
    estimates = estimates_of_solved(
        solved, losses=LOSSES, notion=notion, confidence_level=confidence_level
    )
    return estimates, solved


def find_errors(
    problem: Problem, part: Problem, confidence_level: float, n_jobs: int | None = None
) -> tuple[tuple[ErrorFinding, ...], AveragedProblem]:
    """The losses under each notion, and the averaged maps of all classes.

    All classes together are estimated on `part` of the problem, which is smaller if there are many
    classes; the confidence on all samples. The maps of the event or confidence are shared.
    """
    n_classes = problem.forecast.shape[1]
    samples_of: dict[Any, Problem] = {"canonical": part}
    if n_classes > 2:
        samples_of["top_label"] = problem
    if n_classes > 2 and problem.forecast.size <= SIZES.subsampled_entries:
        samples_of["classwise"] = problem
    errors, solved_of = [], {}
    for notion, samples in samples_of.items():
        jobs = n_jobs if notion == "classwise" else None  # a single problem needs no workers
        estimates, solved = estimate_errors(samples, notion, confidence_level, jobs)
        solved_of[notion] = solved[0]
        for loss, estimate in zip(LOSSES, estimates, strict=True):
            several = notion == "canonical" and n_classes > 2  # the Brier score is halved for two
            largest = np.inf if loss == "log" else 1.0 + several
            errors.append(_error_finding(loss, notion, estimate, confidence_level, largest))
    event = solved_of["canonical" if n_classes == 2 else "top_label"]
    if type(event.average) is ModelAverage:  # of all samples
        add_averaged_map(
            event.average,
            event.forecast,
            event.average.label,
            event.weight,
            event.square,
            cluster=event.cluster,
        )
    return tuple(errors), solved_of["canonical"]


def _error_finding(loss, notion, estimate, confidence_level, largest):
    """`ProperEstimate` -> `ErrorFinding`; intervals lie in [0, largest].

    No interval begins at its estimate, and no part exceeds the limit of the mean loss.
    """
    terms = estimate.terms
    mean_loss, refinement = (
        mean_interval(values, terms.weight, confidence_level, terms.square, terms.cluster)
        for values in (terms.loss, terms.refinement)
    )
    mean_loss, calibration, refinement = (
        replace(
            interval,
            low=float(np.clip(interval.low, 0.0, largest)),
            high=float(np.clip(interval.high, 0.0, largest)),
        )
        for interval in (
            mean_loss,
            interval_around(estimate.interval, confidence_level),
            refinement,
        )
    )
    highest = max(mean_loss.high, limit_of_noise(calibration), refinement.high)
    return ErrorFinding(
        loss,
        notion,
        terms=decompose(terms),
        expected_loss=replace(mean_loss, high=highest),
        calibration=calibration,
        refinement=refinement,
        target=estimate.target,
        evidence=estimate.evidence,
        residual_pvalue=estimate.residual_pvalue,
        lower_bound=estimate.lower_bound,
    )


def interval_around(interval: MeanInterval, confidence_level: float) -> MeanInterval:
    """An interval that begins at its estimate is longer: normal on that side, for the logarithm."""
    estimate, error = interval.estimate, interval.standard_error
    if not (interval.low >= estimate > 0 and 0 < error < np.inf):
        return interval
    reach = norm.ppf(0.5 + confidence_level / 2) * error
    return replace(interval, low=estimate * float(np.exp(-reach / estimate)))


def subsample(problem: Problem, random_state: int) -> Problem:
    """All samples, or a random part if there are too many probabilities for some steps."""
    n_samples, n_classes = problem.forecast.shape
    if problem.forecast.size <= SIZES.subsampled_entries:
        return problem
    most = max(SIZES.subsampled_entries * 2 // n_classes, 2_000)
    if n_samples <= most:
        return problem
    return problem.take(_random_rows(n_samples, most, random_state))


def _random_rows(n_samples, most, random_state):
    """Numbers of all rows, or of a random part of them, in order."""
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(np.random.RandomState(random_state).choice(n_samples, most, replace=False))


def find_test(
    problem: Problem, random_state: int, n_jobs: int | None = None
) -> tuple[OmnibusTest, int]:
    """Calibration test of all classes at once, on a random part of very many probabilities."""
    n_classes = problem.forecast.shape[1]
    part: Any = problem  # a validated problem is taken as it is
    if problem.count is None:
        part = problem.samples(max(1, SIZES.tested_entries // n_classes), random_state)
    test = calibration_test(
        part,
        part.forecast,
        n_resamples=SIZES.labelings,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    return test, part.n_samples


def omissions(problem: Problem, part: Problem) -> tuple[str, ...]:
    """Text on what was omitted, or computed on a part, and on classes without samples."""
    omitted, n_classes = [], problem.forecast.shape[1]
    absent = ", ".join(map(str, problem.classes[~problem.target.any(axis=0)]))
    if absent and n_classes > 2:
        omitted.append(f"No sample is of these classes: {absent}.")
    if n_classes > 2 and problem.forecast.size > SIZES.subsampled_entries:
        omitted.append(
            "Errors by class were omitted: they take too long for so many probabilities."
        )
    size = len(part.weight)
    if size < len(problem.weight):
        omitted.append(f"All classes, direction and maps: a random {size:,} of the samples.")
    return tuple(omitted)


# --- The numbers that others report ---------------------------------------------------------------


def find_reported(
    problem: Problem,
    solved: AveragedProblem,
    confidence_level: float,
    random_state: int,
    n_jobs: int | None,
) -> tuple[ReportedNumber, ...]:
    """Numbers that others report; of two classes the summary of a risk model first.

    Errors are of the confidence, or for two classes of the event. `solved` is the `AveragedProblem`
    of all classes, of all samples or of a part.
    """
    reported, is_binary = [], len(problem.classes) == 2
    if is_binary:
        known = solved if len(solved.weight) == len(problem.weight) else None
        summary = summary_of_problem(problem, confidence_level, known)
        for key, (name, perfect, explanation) in ROWS.items():
            value = getattr(summary, key)
            if isinstance(value, float):
                value = MeanInterval(value, value, value, 0.0)
            note = summary.notes.get(key) or f"{explanation[0].upper()}{explanation[1:]}."
            if perfect is not None:
                name += f" ({perfect:g} is perfect)"
            reported.append(ReportedNumber(key, name, note, value))
    samples: dict[str, Any] = {"y_true": ProblemSummary(problem)}
    if problem.count is None:
        samples = {"y_true": problem, "y_proba": problem.forecast}
    run: dict[str, Any] = {"confidence_level": confidence_level, "n_jobs": n_jobs}
    for quantity in by("note").values():
        label, note = quantity.label + quantity.detail, quantity.note
        if quantity.binary and not is_binary:
            label += ", of the confidence"
        notion: Any = {"notion": "auto"} if quantity.binary else {}
        try:
            error = calibration_error_interval(
                metric=quantity.name, random_state=random_state, **samples, **run, **notion
            )
        except ValueError as reason:
            reported.append(ReportedNumber(quantity.name, label, str(reason), None))
            continue
        value = MeanInterval(error.estimate, error.low, error.high, error.standard_error)
        if not error.valid:
            note += f" It may not hold: {error.reason}."
        reported.append(
            ReportedNumber(quantity.name, label, note, value, error.target, error.valid)
        )
    return tuple(reported)


# --- Ranges of scores and classes -----------------------------------------------------------------


_MOST_RANGES = 10
_FEWEST_SAMPLES = 10
_FEW_RANGES = 4  # for any information: overconfident scores underestimate it
_SAMPLES_PER_RANGE = 20
_INFORMATION_PER_RANGE = 4.0  # sum of p (1 - p)


def find_places(problem: Problem, confidence_level: float) -> tuple[Place, ...]:
    """Ranges of the confidence (for two classes: of the event's probability), then classes.

    Each has the exact interval of its mean outcome, at its effective size.
    """
    binary, n_classes = binary_problem(problem), problem.forecast.shape[1]
    score = merge_ties(binary.forecast[:, 1])
    binary = replace(
        binary, forecast=np.column_stack([1 - score, score]), labels_or_target=binary.target
    )
    ranges = [
        ("scores", label, ends, binary.take(rows), 1)
        for rows, ends, label in ranges_of_scores(score, problem.weight, problem.count)
    ]
    classes = [
        ("class", str(problem.classes[column]), (0.0, 1.0), problem, column)
        for column in ([1] if n_classes == 2 else range(n_classes))
    ]
    level, total, places = place_level(confidence_level), float(problem.weight.sum()), []
    for simultaneous in (ranges, classes):
        level_of_each = 1 - (1 - level) / len(simultaneous)
        for kind, label, ends, part, column in simultaneous:
            weight = part.weight
            observed = rate_interval(
                part.target[:, column], weight, level_of_each, part.square, part.cluster
            )
            places.append(
                Place(
                    kind,
                    label,
                    *ends,
                    n_samples=part.n_samples,
                    share=float(weight.sum() / total),
                    mean_score=float(np.average(part.forecast[:, column], weights=weight)),
                    mean_outcome=observed.estimate,
                    low=observed.low,
                    high=observed.high,
                )
            )
    return tuple(places)


def place_level(confidence_level: float) -> float:
    """Level at which the intervals of all ranges, or of all classes, hold simultaneously.

    It is stricter than that of the report, as there are many ranges and classes.
    """
    return 1 - (1 - confidence_level) / 5


def ranges_of_scores(
    score: np.ndarray, weight: np.ndarray, count: np.ndarray | None = None
) -> list[tuple[np.ndarray, tuple[float, float], str]]:
    """Ranges of equal sums of p (1 - p): list of (rows, (lowest, highest score), label).

    For a rare event the ranges are narrow where the events are. Equal scores stay together, in the
    range of their middle, and no two ranges have the same label. The ranges of 1 - score are the
    same. `count` (n,) are the numbers of samples of the rows.
    """
    count = np.ones(len(score)) if count is None else count
    n_samples = count.sum()
    order = np.argsort(score, kind="stable")
    sorted_score = score[order]
    # A small weight for each sample separates the ranges of scores of exactly 0 and 1.
    information = weight[order] * (sorted_score * (1 - sorted_score) + 1e-6)
    size = n_samples * information.sum() / weight.sum()
    informative = max(size / _INFORMATION_PER_RANGE, _FEW_RANGES)
    n_ranges = int(np.clip(min(informative, n_samples / _SAMPLES_PER_RANGE), 1, _MOST_RANGES))
    levels = level_starts(sorted_score)
    sums = np.add.reduceat(information, levels)
    middle = (np.cumsum(sums) - sums / 2) / sums.sum() * n_ranges
    towards_centre = np.where(sorted_score[levels] <= 0.5, 1e-9, -1e-9)
    which = np.clip((middle + towards_centre).astype(int), 0, n_ranges - 1)
    starts = levels[np.flatnonzero(np.diff(which, prepend=-1))]
    parts = _large_enough(np.split(order, starts[1:]), score, count)
    groups = [(part, (float(score[part].min()), float(score[part].max()))) for part in parts]
    for decimals in (1, 2, 3, 4):
        labels = [range_label(*ends, decimals) for _, ends in groups]
        if len(set(labels)) == len(labels):
            break
    ranges = []
    for (rows, ends), label in zip(groups, labels, strict=True):
        if ranges and ranges[-1][2] == label:  # too narrow for four decimals
            rows_below, (lowest, _), _ = ranges.pop()
            rows, ends = np.concatenate([rows_below, rows]), (lowest, ends[1])
        ranges.append((rows, ends, label))
    return ranges


def _large_enough(parts, score, count):
    """Parts with too few samples are merged with their smaller neighbour, the smallest first.

    Of equal ones it is that which is further from 1/2, and its neighbour nearer to 1/2.
    """

    def size(place):
        samples = count[parts[place]]
        return samples.sum(), -abs(samples @ score[parts[place]] / samples.sum() - 0.5)

    while len(parts) > 1:
        smallest = min(range(len(parts)), key=size)
        if size(smallest)[0] >= _FEWEST_SAMPLES:
            break
        beside = [place for place in (smallest - 1, smallest + 1) if 0 <= place < len(parts)]
        chosen = min(beside, key=lambda place: (size(place)[0], -size(place)[1]))
        first = min(smallest, chosen)
        parts[first : first + 2] = [np.concatenate(parts[first : first + 2])]
    return parts


def range_label(low: float, high: float, decimals: int = 1) -> str:
    """Ends in percent; equal ends are shown once."""
    first, last = f"{100 * low:.{decimals}f}", f"{100 * high:.{decimals}f}"
    return f"{first} %" if first == last else f"{first} to {last} %"


# --- Groups in a report ---------------------------------------------------------------------------


#: Level sets of the figure.
N_LEVEL_SETS = 5


def find_grouping(
    problem: Problem,
    features: EncodedFeatures,
    refinement: MeanInterval,
    confidence_level: float,
    random_state: int,
    n_jobs: int | None = None,
) -> tuple[GroupingFinding, GroupingLossEstimator | None]:
    """Groups that differ at equal scores, and a lower bound of the grouping loss.

    `refinement` is that of the Brier score of the same event. The second is the split for
    `GroupingDisplay`, or None: the most harmful named group against all others, or a balanced split
    of each level set.
    """
    run: dict[str, Any] = {"confidence_level": confidence_level, "random_state": random_state}
    compared, rows, members = compare_groups(problem, features, **run)
    notes = [compared.note] if compared.note else []
    common: dict[str, Any] = {"notion": "auto", "labels": problem.classes, "n_jobs": n_jobs, **run}
    finding = GroupingFinding(
        named=compared.named,
        n_tried=compared.n_tried,
        n_compared=compared.n_samples,
        left_out=features.note,
    )
    some = _random_rows(len(problem.weight), SIZES.searched_samples, random_state)
    part, table = problem.take(some), features[some]
    try:
        with collected_warnings() as warned:
            model = GroupingLossEstimator(method="risk", **common)
            model.fit(table, part)
    except ValueError as error:  # too few samples
        return replace(finding, note=" ".join([*notes, str(error)])), None
    low, high = model.confidence_interval_
    bound = MeanInterval(model.grouping_loss_, low, high, model.standard_error_)
    finding = replace(
        finding,
        grouping_loss=bound,
        pvalue=float(model.pvalue_),
        n_measured=len(some),
        rest=remaining_loss(refinement, bound),
        note=" ".join([*notes, *warned]),
    )
    if finding.named or finding.detected:
        binary = binary_problem(part)
        correction = GroupRecalibrator(loss="brier", labels=[0, 1], **run)
        label = binary.target[:, 1].astype(int)
        with collected_warnings():
            correction.fit(binary.forecast, label, binary.weight, features=table.values)
        finding = replace(finding, correction=correction.feature_gain_)
    if not compared.named:
        return finding, _split(features, problem, common)
    groups = np.where(members[0], compared.named[0].rule, "others")
    return finding, _split(np.zeros((len(rows), 1)), problem.take(rows), common, groups)


def _split(features, problem, common, groups=None):
    """Two regions of each level set: of given groups, or learned on one half of the samples."""
    estimator = GroupingLossEstimator(
        method="partition", partitioner="stump", n_bins=N_LEVEL_SETS, n_permutations=0, **common
    )
    try:
        with collected_warnings():
            estimator.fit(features, problem, regions=groups)
    except ValueError:  # too few samples for level sets
        return None
    if groups is not None:
        estimator.regions_ = [
            replace(region, rule=region.rule.removeprefix("region "))
            for region in estimator.regions_
        ]
    return estimator


def remaining_loss(refinement: MeanInterval, bound: MeanInterval) -> MeanInterval:
    """The loss minus calibration and grouping; a grouping bound below zero counts as zero.

    The standard errors are added, which is conservative: their covariance is unknown.
    """
    grouping, high = max(bound.estimate, 0.0), max(bound.high, 0.0)
    estimate = refinement.estimate - grouping
    reach = refinement.high - refinement.estimate + high - grouping
    error = refinement.standard_error + bound.standard_error
    return MeanInterval(estimate, estimate - reach, estimate + reach, error)


# --- Names in sentences ---------------------------------------------------------------------------


#: Most ranges, classes or groups named in a sentence or a list.
N_NAMED = 3
_LONGEST_NAME = 60


def event_name(findings: Findings) -> str:
    """The event as text: a numeric label is shown as "class 1"."""
    return class_name(str(findings.event))


def class_name(label: str) -> str:
    """A class in a sentence."""
    label = class_label(label)
    plain = label.replace(".", "", 1).lstrip("-").isdigit() or label in ("True", "False")
    return f"class {label}" if plain else label


def class_label(label: str) -> str:
    """A class in a table: "1" for the number 1.0, and a shortened name."""
    whole = label.removesuffix(".0")
    return whole if whole.lstrip("-").isdigit() else shorten(label)


def shorten(name: str) -> str:
    """A name, shortened if it is too long for a sentence."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def first_classes(labels: Iterable[str]) -> str:
    """The first classes of a list, and how many more."""
    names = list(map(class_name, labels))
    others = f" and {len(names) - N_NAMED} more" if len(names) > N_NAMED else ""
    return ", ".join(names[:N_NAMED]) + others


# --- Versions, seed, warnings and progress of a report --------------------------------------------


#: Packages whose versions a report records, and their modules.
PACKAGES = {
    "skcalib": "skcalib",
    "scikit-learn": "sklearn",
    "numpy": "numpy",
    "scipy": "scipy",
    "matplotlib": "matplotlib",
}


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on: those that are imported.

    A copy of a package in a zip file or beside the code has no metadata that an installer wrote.
    """
    return {name: import_module(module).__version__ for name, module in PACKAGES.items()}


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings raised inside, each once; a report lists them on its page."""
    notes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield notes
    for warning in caught:
        if not issubclass(warning.category, UserWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif (note := " ".join(str(warning.message).split())) not in notes:
            notes.append(note)
