"""Compute `Findings` from a validated problem, one function for each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from skcalib._util.formatting import limit_of_noise
from skcalib._util.parallel import threads_for
from skcalib._util.progress import stage
from skcalib._util.shared_fits import shared_fits
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

#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")
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
        own = {"random_state": seed, "cluster": part.cluster}
        folds = [test for _, test in check_folds(5, part.target, **own)]
    else:
        divided, folds = part.split(5, seed)
    binary = binary_problem(problem)
    data = problem.forecast if features is None else features
    with noted() as notes, threads_for(data, n_jobs):
        with stage("calibration errors", verbose, name):
            errors, solved = _find_errors(problem, part, confidence_level, n_jobs)
            logistic = logistic_recalibration(binary, confidence_level)
        with stage("kernel test", verbose, name):
            test, n_tested = _find_test(problem, seed, n_jobs)
        with stage("direction", verbose, name):
            gains = gains_of(solved)
        with stage("recalibration maps", verbose, name):
            forecasts_of: dict[str, np.ndarray] = {}
            advice = compare_maps(divided, folds, confidence_level, n_jobs, forecasts_of, solved)
        with stage("numbers that others report", verbose, name):
            reported = _find_reported(problem, solved, confidence_level, seed, n_jobs)
    grouping, split, encoded = None, None, None
    if features is not None:
        encoded = _encoded(features)
        confidence = "canonical" if n_classes == 2 else "top_label"
        refinement = next(e for e in errors if e.loss == "brier" and e.notion == confidence)
        with stage("grouping loss", verbose, name):
            grouping, split = find_grouping(
                problem, encoded, refinement.refinement, confidence_level, seed, n_jobs
            )
    if by is not None and not isinstance(by, GroupCalibrations):
        with stage("groups that were named", verbose, name):
            how: Any = {"intersections": intersections, "confidence_level": confidence_level}
            by = calibration_by_group(problem, problem.forecast, by, notion="auto", **how)
    decision = None
    if threshold is not None or costs is not None:
        run: Any = {"confidence_level": confidence_level, "random_state": seed, "n_jobs": n_jobs}
        with stage("decisions", verbose, name):
            usable = None if isinstance(encoded, str) else encoded
            decision = find_decision(problem, usable, threshold, costs, **run)
    found = Findings(
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
    found = find_direction(found, solved)
    found = replace(found, advice=choose_advice(found, problem))
    recalibrated = None
    if found.advice.recommended is not None:
        with stage("recalibrated forecasts", verbose, name):
            recalibrated = recalibrate(divided, found.advice.recommended, folds, forecasts_of)
    return found, split, recalibrated


def _encoded(features):
    """The features as numbers, or why none can be used; the rest of the report is unaffected."""
    try:
        return encode_features(features, warn=False)
    except ValueError as error:
        return str(error)


def _effective_size(problem):
    """Independent samples of equal weight whose mean Brier score is as accurate."""
    size = effective_size(problem.weight, problem.square)
    if problem.cluster is None:
        return size
    loss = Brier().loss(problem.target, problem.forecast)
    errors = [mean_interval(loss, problem.weight, cluster=c) for c in (None, problem.cluster)]
    one, other = (found.standard_error for found in errors)
    return size * min(1.0, (one / other) ** 2) if 0 < other < np.inf else size


def _averages(problem, binary, confidence_level):
    """Means of the event (two classes) or of the confidence, with intervals inside their range."""
    forecast, target, weight = binary.forecast, binary.target, binary.weight
    rows = weight, confidence_level, binary.square, binary.cluster
    top_label = next(TopLabel().problems(problem.forecast, problem.target))
    confidence, right = (part[:, 1] for part in top_label)
    predicted = float(weighted_mean(forecast[:, 1], weight))
    ratio = None
    if predicted > np.finfo(np.float64).tiny:
        ratio = observed_expected_ratio(target[:, 1], forecast[:, 1], *rows)
    gap = mean_interval(confidence - right, *rows)
    return {
        "event": str(problem.classes[1]) if len(problem.classes) == 2 else None,
        "n_events": n_labels(binary, 1) if len(problem.classes) == 2 else None,
        "mean_predicted": predicted,
        "observed_rate": rate_interval(target[:, 1], *rows),
        "observed_expected_ratio": ratio,
        "accuracy": rate_interval(right, *rows),
        "confidence_gap": MeanInterval(
            gap.estimate, max(gap.low, -1.0), min(gap.high, 1.0), gap.standard_error
        ),
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
    run: dict[str, Any] = {"notion": notion, "confidence_level": confidence_level}
    return estimates_of_solved(solved, losses=losses, **run), solved


def _find_errors(problem, part, confidence_level, n_jobs=None):
    """The losses under each notion, and the averaged maps of all classes.

    All classes together are estimated on `part` of the problem, which is smaller if there are many
    classes; the confidence on all samples. The maps of the event or confidence are shared.
    """
    n_classes = problem.forecast.shape[1]
    kept = {}

    def measure(data, notion, losses):
        jobs = n_jobs if notion == "classwise" else None  # a single problem needs no workers
        found, solved = estimate_errors(data, losses, notion, confidence_level, jobs)
        kept.setdefault(notion, solved[0])
        for loss, one in zip(losses, found, strict=True):
            several = notion == "canonical" and n_classes > 2  # the Brier score is halved for two
            most = np.inf if loss == "log" else 1.0 + several
            yield _error_finding(loss, notion, one, confidence_level, most)

    errors = list(measure(part, "canonical", LOSSES))
    if n_classes > 2:
        errors += measure(problem, "top_label", LOSSES)
    if n_classes > 2 and problem.forecast.size <= HUGE:
        errors += measure(problem, "classwise", LOSSES)
    event = kept["canonical" if n_classes == 2 else "top_label"]
    if type(event.average) is ModelAverage:  # of all samples
        samples = event.forecast, event.average.label, event.weight, event.square
        add_averaged_map(event.average, *samples, cluster=event.cluster)
    return tuple(errors), kept["canonical"]


def _error_finding(loss, notion, found, confidence_level, most):
    """`ProperEstimate` -> `ErrorFinding`; intervals lie in [0, most].

    No interval begins at its estimate, and no part exceeds the limit of the mean loss.
    """
    terms, calibration = found.terms, _in_range(_around(found.interval, confidence_level), most)
    rows = terms.weight, confidence_level, terms.square, terms.cluster
    mean_loss, refinement = (
        _in_range(mean_interval(one, *rows), most) for one in (terms.loss, terms.refinement)
    )
    highest = max(mean_loss.high, limit_of_noise(calibration), refinement.high)
    mean_loss = replace(mean_loss, high=highest)
    parts = decompose(terms), mean_loss, calibration, refinement
    own = found.target, found.evidence, found.residual_pvalue, found.lower_bound
    return ErrorFinding(loss, notion, *parts, *own)


def _around(interval, confidence_level):
    """An interval that begins at its estimate is longer: normal on that side, for the logarithm."""
    estimate, low, _, error = astuple(interval)
    if not (low >= estimate > 0 and 0 < error < np.inf):
        return interval
    reach = norm.ppf(0.5 + confidence_level / 2) * error
    return replace(interval, low=estimate * float(np.exp(-reach / estimate)))


def _in_range(interval, most):
    """An interval of a loss, cut at zero and at the largest possible value."""
    low, high = np.clip([interval.low, interval.high], 0.0, most).tolist()
    return replace(interval, low=low, high=high)


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


def _find_test(problem, random_state, n_jobs=None):
    """Kernel test of all classes at once on a random part of large samples, and its size."""
    n_samples, n_classes = problem.n_samples, problem.forecast.shape[1]
    if min(n_samples, problem.n_clusters or n_samples) < MIN_SAMPLES:
        return None, 0
    most = max(MIN_SAMPLES, int(np.sqrt(_PAIRS / n_classes)))
    part: Any = problem.samples(most, random_state)  # time grows as n^2 K
    if np.ptp(part.forecast, axis=0).max() == 0:
        return None, 0  # equal forecasts have distance 0: the kernel has no scale
    run: dict[str, Any] = {"random_state": random_state, "n_jobs": n_jobs}
    test = kernel_calibration_test(part, part.forecast, statistic="unbiased", **run)
    return test, len(part.weight)


def _omitted(problem, part):
    """Text on what was omitted, or computed on a part, and on classes without samples."""
    said, n_classes = [], problem.forecast.shape[1]
    absent = ", ".join(map(str, problem.classes[~problem.target.any(axis=0)]))
    if absent and n_classes > 2:
        said.append(f"No sample is of these classes: {absent}.")
    if n_classes > 2 and problem.forecast.size > HUGE:
        said.append("Errors by class were omitted: they take too long for so many probabilities.")
    if (size := len(part.weight)) < len(problem.weight):
        said.append(f"All classes, direction and maps: a random {size:,} of the samples.")
    return tuple(said)


# --- The numbers that others report ---------------------------------------------------------------


def _find_reported(problem, solved, confidence_level, random_state, n_jobs=None):
    """`Problem` -> tuple of `ReportedNumber`; of two classes the summary of a risk model first.

    `solved` is the `AveragedProblem` of all classes, of all samples or of a part.
    """
    data = {
        "y_true": problem if problem.count is None else ProblemSummary(problem),
        "y_proba": problem.forecast if problem.count is None else None,
        "confidence_level": confidence_level,
    }
    run = {"random_state": random_state, "n_jobs": n_jobs}
    binary = len(problem.classes) == 2
    summary = _summary(problem, solved, confidence_level) if binary else []
    return tuple(summary + [_error(one, data, run, binary) for one in by("note").values()])


def _summary(problem, solved, confidence_level):
    """The quantities of `calibration_summary`."""
    known = solved if len(solved.weight) == len(problem.weight) else None
    found = summary_of_problem(problem, confidence_level, known)
    numbers = []
    for key, (name, perfect, explanation) in ROWS.items():
        value = getattr(found, key)
        if isinstance(value, float):
            value = MeanInterval(value, value, value, 0.0)
        note = found.notes.get(key) or f"{explanation[0].upper()}{explanation[1:]}."
        if perfect is not None:
            name += f" ({perfect:g} is perfect)"
        numbers.append(ReportedNumber(key, name, note, value))
    return numbers


def _error(one, data, run, binary):
    """An error, of the confidence, or of the event for two classes."""
    notion, label, note = {}, one.label + one.detail, one.note
    if one.binary:
        notion = {"notion": "auto"}
        label += "" if binary else ", of the confidence"
    try:
        found = calibration_error_interval(**data, metric=one.name, **run, **notion)
    except ValueError as error:
        return ReportedNumber(one.name, label, str(error), None)
    value = MeanInterval(found.estimate, found.low, found.high, found.standard_error)
    if not found.valid:
        note += f" It may not hold: {found.reason}."
    return ReportedNumber(one.name, label, note, value, found.target, found.valid)
