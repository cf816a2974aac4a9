"""Compute `Findings` from a validated problem, one function for each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from skcalib._util.formatting import limit_of_noise
from skcalib._util.parallel import shared_fits, threads_for
from skcalib._util.progress import stage
from skcalib._util.types import ArrayLike
from skcalib.data.clusters import effective_size
from skcalib.data.features import encode_features
from skcalib.data.notions import NotionLike, TopLabel, resolve_notion
from skcalib.data.problem import Problem, ProblemSummary
from skcalib.error_intervals import calibration_error_interval
from skcalib.error_intervals.proper import ProperEstimate, estimates_of_solved
from skcalib.error_intervals.quantities import by
from skcalib.grouping.by_group import GroupCalibrations, calibration_by_group
from skcalib.links.averaging import ModelAverage, add_averaged_map
from skcalib.proper.proper import decompose, solve_notion
from skcalib.report.advice import choose_advice, compare_maps, find_decision, recalibrate
from skcalib.report.direction import (
    confusions_of,
    find_direction,
    gains_of,
    logistic_recalibration,
)
from skcalib.report.findings import (
    ErrorFinding,
    Findings,
    ReportedNumber,
    binary_problem,
    n_labels,
    noted,
)
from skcalib.report.subgroups import find_grouping, find_places
from skcalib.report.suspicions import find_suspicions
from skcalib.risk_models.summary import ROWS, summary_of_problem
from skcalib.scores import Brier, LossLike, weighted_mean
from skcalib.significance import kernel_calibration_test
from skcalib.significance.kernel import MIN_SAMPLES
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import MeanInterval, mean_interval, observed_expected_ratio, rate_interval

if TYPE_CHECKING:
    from skcalib.grouping import GroupingLossEstimator
    from skcalib.proper.map_average import AveragedProblem
    from skcalib.stats.pvalues import CalibrationTest

#: Losses of a report, in the order of its table.
LOSSES: tuple[LossLike, ...] = ("brier", "log")
#: With more probabilities than this, a report omits steps that take minutes.
HUGE = 5_000_000
_PAIRS = 1e9  # most pairs of samples, times classes, in the kernel test


@shared_fits()
def find(
    problem: Problem,
    *,
    features: np.ndarray | None = None,
    by: GroupCalibrations | ArrayLike | None = None,
    intersections: bool = False,
    threshold: float | None = None,
    costs: ArrayLike | None = None,
    confidence_level: float,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    name: str = "",
    decision_values: bool = False,
) -> tuple[Findings, GroupingLossEstimator | None, Problem | None]:
    """`Problem`, and features or None -> `Findings`, the split, the recalibrated forecasts.

    The second is the fitted split of the grouping diagram or None; the third is None or the binary
    problem of the event or confidence after recalibration.
    """
    n_classes = problem.forecast.shape[1]
    seed = random_state
    part = part_of(problem, seed)
    if problem.count is None:
        divided = part
        splits = check_folds(5, part.target, random_state=seed, cluster=part.cluster)
        folds = [test for _, test in splits]
    else:
        divided, folds = part.split(5, seed)
    binary = binary_problem(problem)
    table = problem.forecast if features is None else features
    run: dict[str, Any] = {"confidence_level": confidence_level, "n_jobs": n_jobs}
    with noted() as notes, threads_for(table, n_jobs):
        with stage("calibration errors", verbose, name):
            errors, solved = find_errors(problem, part, confidence_level, n_jobs)
            logistic = logistic_recalibration(binary, confidence_level)
        with stage("kernel test", verbose, name):
            test, n_tested = find_test(problem, seed, n_jobs)
        with stage("direction", verbose, name):
            gains = gains_of(solved)
        with stage("recalibration maps", verbose, name):
            forecasts_of: dict[str, np.ndarray] = {}
            advice = compare_maps(divided, folds, confidence_level, n_jobs, forecasts_of, solved)
        with stage("numbers that others report", verbose, name):
            reported = _find_reported(problem, solved, random_state=seed, **run)
    grouping, split, encoded = None, None, None
    if features is not None:
        try:
            encoded = encode_features(features, warn=False)
        except ValueError as error:  # the rest of the report is unaffected
            encoded = str(error)
        confidence = "canonical" if n_classes == 2 else "top_label"
        error = next(e for e in errors if e.loss == "brier" and e.notion == confidence)
        with stage("grouping loss", verbose, name):
            grouping, split = find_grouping(
                problem, encoded, error.refinement, random_state=seed, **run
            )
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
            usable = None if isinstance(encoded, str) else encoded
            decision = find_decision(problem, usable, threshold, costs, random_state=seed, **run)
    findings = Findings(
        confidence_level=confidence_level,
        n_samples=problem.n_samples,
        effective_size=_effective_size(problem),
        n_clusters=problem.n_clusters,
        n_classes=n_classes,
        **_averages(problem, binary, confidence_level),
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
        grouping=grouping,
        notes=tuple(notes),
        omitted=_omitted(problem, part),
        by=by,
        decision=decision,
        confusions=confusions_of(solved, problem.classes, confidence_level),
    )
    findings = find_direction(findings, solved)
    advice = choose_advice(findings, problem)
    recalibrated = None
    if advice.recommended is not None:
        with stage("recalibrated forecasts", verbose, name):
            recalibrated = recalibrate(divided, advice.recommended, folds, forecasts_of)
    return replace(findings, advice=advice), split, recalibrated


def _effective_size(problem):
    """Independent samples of equal weight whose mean Brier score is as accurate."""
    size = effective_size(problem.weight, problem.square)
    if problem.cluster is None:
        return size
    loss = Brier().loss(problem.target, problem.forecast)
    independent = mean_interval(loss, problem.weight).standard_error
    clustered = mean_interval(loss, problem.weight, cluster=problem.cluster).standard_error
    if not 0 < clustered < np.inf:
        return size
    return size * min(1.0, (independent / clustered) ** 2)


def _averages(problem, binary, confidence_level):
    """Means of the event (two classes) or of the confidence, with intervals inside their range."""
    forecast, target, weight = binary.forecast, binary.target, binary.weight
    options = {"square": binary.square, "cluster": binary.cluster}
    top_label = next(TopLabel().problems(problem.forecast, problem.target))
    confidence, right = (pair[:, 1] for pair in top_label)
    predicted = float(weighted_mean(forecast[:, 1], weight))
    ratio = None
    if predicted > np.finfo(np.float64).tiny:
        ratio = observed_expected_ratio(
            target[:, 1], forecast[:, 1], weight, confidence_level, **options
        )
    gap = mean_interval(confidence - right, weight, confidence_level, **options)
    has_event = len(problem.classes) == 2
    return {
        "event": str(problem.classes[1]) if has_event else None,
        "n_events": n_labels(binary, 1) if has_event else None,
        "mean_predicted": predicted,
        "observed_rate": rate_interval(target[:, 1], weight, confidence_level, **options),
        "observed_expected_ratio": ratio,
        "accuracy": rate_interval(right, weight, confidence_level, **options),
        "confidence_gap": replace(gap, low=max(gap.low, -1.0), high=min(gap.high, 1.0)),
    }


def estimate_errors(
    problem: Problem,
    losses: Sequence[LossLike],
    notion: NotionLike,
    confidence_level: float,
    n_jobs: int | None = None,
) -> tuple[list[ProperEstimate], list]:
    """`ProperEstimate` of several losses under one notion, and its solved problems.

    They are those of `proper_calibration_error` and `CalibrationErrorEstimator`.
    """
    notion = resolve_notion(notion)
    solved = solve_notion(problem, notion=notion, smoother=None, n_jobs=n_jobs)
    estimates = estimates_of_solved(
        solved, losses=losses, notion=notion, confidence_level=confidence_level
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
    if n_classes > 2 and problem.forecast.size <= HUGE:
        samples_of["classwise"] = problem
    errors, solved_of = [], {}
    for notion, samples in samples_of.items():
        jobs = n_jobs if notion == "classwise" else None  # a single problem needs no workers
        estimates, solved = estimate_errors(samples, LOSSES, notion, confidence_level, jobs)
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
    calibration = interval_around(estimate.interval, confidence_level)
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
        for interval in (mean_loss, calibration, refinement)
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


def part_of(problem: Problem, random_state: int) -> Problem:
    """All samples, or a random part if there are too many probabilities for some steps."""
    n_samples, n_classes = problem.forecast.shape
    if problem.forecast.size <= HUGE:
        return problem
    most = max(HUGE * 2 // n_classes, 2_000)
    if n_samples <= most:
        return problem
    rows = np.sort(np.random.RandomState(random_state).choice(n_samples, most, replace=False))
    return problem.take(rows)


def find_test(
    problem: Problem, random_state: int, n_jobs: int | None = None
) -> tuple[CalibrationTest | None, int]:
    """Kernel test of all classes at once on a random part of large samples, and its size."""
    n_samples, n_classes = problem.n_samples, problem.forecast.shape[1]
    if min(n_samples, problem.n_clusters or n_samples) < MIN_SAMPLES:
        return None, 0
    most = max(MIN_SAMPLES, int(np.sqrt(_PAIRS / n_classes)))
    part: Any = problem.samples(most, random_state)  # time grows as n^2 K
    if np.ptp(part.forecast, axis=0).max() == 0:
        return None, 0  # equal forecasts have distance 0: the kernel has no scale
    test = kernel_calibration_test(
        part, part.forecast, statistic="unbiased", random_state=random_state, n_jobs=n_jobs
    )
    return test, len(part.weight)


def _omitted(problem, part):
    """Text on what was omitted, or computed on a part, and on classes without samples."""
    omitted, n_classes = [], problem.forecast.shape[1]
    absent = ", ".join(map(str, problem.classes[~problem.target.any(axis=0)]))
    if absent and n_classes > 2:
        omitted.append(f"No sample is of these classes: {absent}.")
    if n_classes > 2 and problem.forecast.size > HUGE:
        omitted.append(
            "Errors by class were omitted: they take too long for so many probabilities."
        )
    if (size := len(part.weight)) < len(problem.weight):
        omitted.append(f"All classes, direction and maps: a random {size:,} of the samples.")
    return tuple(omitted)


# --- The numbers that others report ---------------------------------------------------------------


def _find_reported(problem, solved, confidence_level, random_state, n_jobs):
    """`Problem` -> tuple of `ReportedNumber`; of two classes the summary of a risk model first.

    `solved` is the `AveragedProblem` of all classes, of all samples or of a part.
    """
    is_binary = len(problem.classes) == 2
    options = {
        "y_true": problem if problem.count is None else ProblemSummary(problem),
        "y_proba": problem.forecast if problem.count is None else None,
        "confidence_level": confidence_level,
        "random_state": random_state,
        "n_jobs": n_jobs,
    }
    numbers = _summary(problem, solved, confidence_level) if is_binary else []
    return (*numbers, *(_error(quantity, is_binary, options) for quantity in by("note").values()))


def _summary(problem, solved, confidence_level):
    """The quantities of `calibration_summary`."""
    known = solved if len(solved.weight) == len(problem.weight) else None
    summary = summary_of_problem(problem, confidence_level, known)
    numbers = []
    for key, (name, perfect, explanation) in ROWS.items():
        value = getattr(summary, key)
        if isinstance(value, float):
            value = MeanInterval(value, value, value, 0.0)
        note = summary.notes.get(key) or f"{explanation[0].upper()}{explanation[1:]}."
        if perfect is not None:
            name += f" ({perfect:g} is perfect)"
        numbers.append(ReportedNumber(key, name, note, value))
    return numbers


def _error(quantity, is_binary, options):
    """An error, of the confidence, or of the event for two classes."""
    notion, label, note = {}, quantity.label + quantity.detail, quantity.note
    if quantity.binary:
        notion = {"notion": "auto"}
        label += "" if is_binary else ", of the confidence"
    try:
        error = calibration_error_interval(metric=quantity.name, **options, **notion)
    except ValueError as reason:
        return ReportedNumber(quantity.name, label, str(reason), None)
    value = MeanInterval(error.estimate, error.low, error.high, error.standard_error)
    if not error.valid:
        note += f" It may not hold: {error.reason}."
    return ReportedNumber(quantity.name, label, note, value, error.target, error.valid)
