"""From a validated problem to `Findings`: each look is a function of its own."""

from dataclasses import replace

import numpy as np

from skcalib.errors._terms import check_loss, check_notion, reduce_terms, smooth_notion
from skcalib.errors.decomposition import decompose
from skcalib.hypothesis import kernel_calibration_test
from skcalib.hypothesis.kernel import MIN_SAMPLES
from skcalib.intervals import MeanInterval, mean_interval
from skcalib.notions import TopLabel
from skcalib.recalibration import VectorScaling
from skcalib.report._grouping import find_grouping
from skcalib.report._run import noted, stage
from skcalib.report.findings import BrierChange, ErrorFinding, Findings
from skcalib.report.places import find_places
from skcalib.report.reported import find_reported
from skcalib.selection import (
    candidate_names,
    default_candidates,
    held_out_losses,
    one_standard_error,
)
from skcalib.smoothers import IsotonicSmoother, LogitSmoother
from skcalib.smoothers._base import check_folds
from skcalib.tower import weighted_mean

#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")
#: Probabilities beyond which a report leaves out the candidates that take minutes.
_LARGE = 300_000
_PAIRS = 1e9  # pairs of samples, times classes, that the kernel test may take


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
            advice, change, refused = find_recalibrator(problem, level, seed, n_jobs)
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
        brier_change=change,
        refused=refused,
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
    """Which map lowers the log loss on samples that it has not seen; doing nothing included.

    A map that raises the held-out Brier score by more than its standard error is refused, and the
    others are compared again: a log loss may fall because a few forecasts near 0 are moved.
    """
    n_samples, n_classes = problem.forecast.shape
    candidates = default_candidates(n_classes)
    if n_samples * n_classes > _LARGE:
        candidates = [c for c in candidates if not isinstance(c, VectorScaling)]
    folds = check_folds(5, problem.target, random_state=random_state)

    losses, weight = held_out_losses(
        candidates,
        problem.forecast,
        problem.classes[problem.target.argmax(axis=1)],
        classes=problem.classes,
        folds=[test for _, test in folds],
        scores=[check_loss(name) for name in ("log", "brier")],
        weight=problem.weight,
        n_jobs=n_jobs,
    )
    names, refused = candidate_names(candidates), []
    while True:
        try:
            record = one_standard_error(names, losses[0], weight, level)
        except ValueError:
            if not refused:
                raise
            return _nothing_left(record), None, tuple(refused)  # all others are infinite
        at = names.index(record.chosen)
        if at == 0:
            return record, None, tuple(refused)
        change = _brier_change(record, losses[1, 0], losses[1, at], weight)
        if not change.harmful:
            return record, change, tuple(refused)
        refused.append(change)
        names = [name for name in names if name != record.chosen]
        losses = np.delete(losses, at, axis=1)


def _nothing_left(record):
    """The record where no map is left to compare with doing nothing."""
    name, gain = record.names[0], MeanInterval(0.0, 0.0, 0.0, 0.0)
    numbers = {"losses": record.losses[:1], "differences": (0.0,), "standard_errors": (0.0,)}
    return replace(record, names=(name,), best=name, chosen=name, gain=gain, **numbers)


def _brier_change(record, before, after, weight):
    """What the chosen map does to the Brier scores of samples that it has not seen."""
    return BrierChange(
        name=record.chosen,
        log_loss=record.losses[record.names.index(record.chosen)],
        before=float(weighted_mean(before, weight)),
        after=float(weighted_mean(after, weight)),
        standard_error=mean_interval(after - before, weight).standard_error,
    )


def binary_confidence(problem):
    """The confidence, and whether it was right."""
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return forecast[:, 1], target[:, 1]
