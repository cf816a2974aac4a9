"""From a validated problem to `Findings`: each look is a function of its own."""

import numpy as np

from skcalib.errors._terms import check_loss, check_notion, reduce_terms, smooth_notion
from skcalib.errors.proper import decompose
from skcalib.grouping import GroupingLossEstimator
from skcalib.hypothesis import kernel_calibration_test
from skcalib.hypothesis.kernel import MIN_SAMPLES
from skcalib.intervals import MeanInterval, mean_interval
from skcalib.notions import TopLabel
from skcalib.recalibration import VectorScaling
from skcalib.report._run import noted, stage
from skcalib.report.findings import ErrorFinding, Findings, GroupingFinding
from skcalib.report.places import find_places
from skcalib.report.reported import find_reported
from skcalib.selection import default_candidates, select_recalibrator
from skcalib.smoothers import IsotonicSmoother, LogitSmoother
from skcalib.smoothers._base import check_folds

#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")
#: Probabilities beyond which a report leaves out the candidates that take minutes.
_LARGE = 300_000
_PAIRS = 1e9  # pairs of samples, times classes, that the kernel test may take
#: Regions that a report names at the most.
N_REGIONS = 3


def find(
    problem, *, features=None, confidence_level, random_state=0, n_jobs=None, verbose=0, name=""
):
    """`Problem`, and the features where there are any -> `Findings`, and the fitted split."""
    n_classes = problem.forecast.shape[1]
    level, seed = confidence_level, random_state
    with noted() as notes:
        with stage("calibration errors", verbose, name):
            errors, flexible = find_errors(problem, level, seed, n_jobs)
        with stage("kernel test", verbose, name):
            test, n_tested = find_test(problem, seed, n_jobs)
        with stage("recalibrators", verbose, name):
            advice = find_recalibrator(problem, level, seed, n_jobs)
        with stage("numbers that others report", verbose, name):
            reported = find_reported(problem, level, seed, n_jobs)
    grouping, split = None, None
    if features is not None:
        confidence = "canonical" if n_classes == 2 else "top_label"
        refinement = next(e for e in errors if e.loss == "brier" and e.notion == confidence)
        with stage("grouping loss", verbose, name):
            grouping, split = find_grouping(
                problem, features, refinement.refinement, level, seed, n_jobs
            )
    confidence, right = binary_confidence(problem)
    found = Findings(
        n_samples=len(problem.forecast),
        effective_size=float(problem.weight.sum() ** 2 / np.sum(problem.weight**2)),
        n_classes=n_classes,
        accuracy=mean_interval(right, problem.weight, level),
        confidence_gap=mean_interval(confidence - right, problem.weight, level),
        errors=errors,
        flexible=flexible,
        advice=advice,
        reported=reported,
        places=find_places(problem, level),
        test=test,
        n_tested=n_tested,
        grouping=grouping,
        notes=tuple(notes),
    )
    return found, split


def paired_terms(problem, loss, notion, smoother, n_jobs=None):
    """`ProperTerms` of several losses under one notion, which share the smoothing."""
    notion = check_notion(notion)
    smoothed = smooth_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
    return [
        reduce_terms(smoothed, score=check_loss(name), notion=notion, method="risk")
        for name in loss
    ]


def find_errors(problem, level, random_state, n_jobs=None):
    """The losses under each notion, and the second look by isotonic regression."""
    n_classes = problem.forecast.shape[1]
    smoother = LogitSmoother(random_state=random_state)
    confidence = "canonical" if n_classes == 2 else "top_label"
    notions = ("canonical",) if n_classes == 2 else ("canonical", "top_label", "classwise")

    def look(notion, smoother, losses):
        jobs = n_jobs if notion == "classwise" else None  # one problem is smoothed where we are
        found = paired_terms(problem, losses, notion, smoother, jobs)
        for loss, terms in zip(losses, found, strict=True):
            intervals = (
                mean_interval(values, terms.weight, level)
                for values in (terms.loss, terms.influence, terms.refinement)
            )
            yield ErrorFinding(loss, notion, type(smoother).__name__, decompose(terms), *intervals)

    (flexible,) = look(confidence, IsotonicSmoother(), ("brier",))
    return tuple(found for name in notions for found in look(name, smoother, LOSSES)), flexible


def find_test(problem, random_state, n_jobs=None):
    """Kernel test of all classes at once on a random part of large samples, and its size."""
    n_samples, n_classes = problem.forecast.shape
    if n_samples < MIN_SAMPLES:
        return None, 0
    rows = np.arange(n_samples)
    most = max(MIN_SAMPLES, int(np.sqrt(_PAIRS / n_classes)))
    if n_samples > most:  # time grows as n^2 K
        rows = np.random.RandomState(random_state).choice(n_samples, most, replace=False)
    if np.ptp(problem.forecast[rows], axis=0).max() == 0:
        return None, 0  # equal forecasts have no distances; a kernel would have no scale
    test = kernel_calibration_test(
        problem.classes[problem.target[rows].argmax(axis=1)],
        problem.forecast[rows],
        sample_weight=problem.weight[rows],
        labels=problem.classes,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    return test, len(rows)


def find_recalibrator(problem, level, random_state, n_jobs=None):
    """Which map lowers the log loss on samples that it has not seen; doing nothing included."""
    n_samples, n_classes = problem.forecast.shape
    candidates = default_candidates(n_classes)
    if n_samples * n_classes > _LARGE:
        candidates = [c for c in candidates if not isinstance(c, VectorScaling)]
    folds = check_folds(5, problem.target, random_state=random_state)
    record, _ = select_recalibrator(
        candidates,
        problem.forecast,
        problem.classes[problem.target.argmax(axis=1)],
        classes=problem.classes,
        folds=[test for _, test in folds],
        weight=problem.weight,
        confidence_level=level,
        n_jobs=n_jobs,
    )
    return record


def find_grouping(problem, features, refinement, level, random_state, n_jobs=None):
    """Grouping loss of the confidence, and the fitted split whose worst regions are named."""
    common = {
        "notion": "canonical" if problem.forecast.shape[1] == 2 else "top_label",
        "labels": problem.classes,
        "confidence_level": level,
        "n_jobs": n_jobs,
        "random_state": random_state,
    }
    y = problem.classes[problem.target.argmax(axis=1)]
    data = {"sample_weight": problem.weight, "y_proba": problem.forecast}
    n_permutations = int(np.clip(20_000_000 // len(y), 200, 999))
    try:
        with noted() as notes:
            found = GroupingLossEstimator(swap=True, n_permutations=n_permutations, **common).fit(
                features, y, **data
            )
            named = GroupingLossEstimator(
                partitioner="stump", n_bins=5, n_permutations=0, **common
            ).fit(features, y, **data)
    except ValueError as error:  # features that cannot be cut: the rest of the report stands
        return GroupingFinding(note=str(error)), None
    low, high = found.confidence_interval_
    bound = MeanInterval(found.grouping_loss_, low, high, found.standard_error_)
    rest = refinement.estimate - bound.estimate
    # Standard errors of two estimates add at the most; how these two move together is not known.
    error = refinement.standard_error + bound.standard_error
    reach = refinement.high - refinement.estimate + high - bound.estimate
    finding = GroupingFinding(
        grouping_loss=bound,
        rest=MeanInterval(rest, rest - reach, rest + reach, error),
        pvalue=found.pvalue_,
        regions=tuple(region for region in named.regions_ if region.direction)[:N_REGIONS],
        note=" ".join(notes),
    )
    return finding, named


def binary_confidence(problem):
    """The confidence, and whether it was right."""
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return forecast[:, 1], target[:, 1]
