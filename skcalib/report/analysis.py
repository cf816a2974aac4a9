"""Compute `Findings` from a validated problem, one function for each part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skcalib._util.formatting import limit_of_noise
from skcalib._util.parallel import out_of_fold, threads_for
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
from skcalib.recalibration import ModelAverageScaling, VectorScaling
from skcalib.recalibration.fitting import fit_recalibrator, recalibrated_proba
from skcalib.recalibration.held_out import (
    RecalibratorSelection,
    candidate_names,
    default_candidates,
    fit_rows,
    held_out_forecasts_of_rows,
    held_out_losses,
    one_standard_error,
    recalibrated_rows,
)
from skcalib.recalibration.stacked import HeldOutMixture, StackedRecalibrator, never_falls
from skcalib.report.decision import find_decision
from skcalib.report.direction import confusions_of, direction_of, gains_of, logistic_recalibration
from skcalib.report.findings import (
    FEWEST_LABELS,
    Advice,
    BrierChange,
    ErrorFinding,
    Findings,
    ReportedNumber,
    noted,
)
from skcalib.report.subgroups import find_grouping, find_places, worst_places
from skcalib.report.suspicions import find_suspicions
from skcalib.risk_models.summary import ROWS, summary_of_problem
from skcalib.scores import Brier, LossLike, resolve_loss, weighted_mean
from skcalib.significance import kernel_calibration_test
from skcalib.significance.kernel import MIN_SAMPLES
from skcalib.smoothers._base import check_folds
from skcalib.smoothers.partition import quantile_cuts
from skcalib.stats.means import MeanInterval, mean_interval, observed_expected_ratio, rate_interval

if TYPE_CHECKING:
    from skcalib.grouping import GroupingLossEstimator

#: Losses of a report, in the order of its table.
LOSSES = ("brier", "log")
#: With more probabilities than this, a report omits steps that take minutes.
LARGE = 300_000
HUGE = 5_000_000
SLOW = (VectorScaling, ModelAverageScaling)
MIXTURE = StackedRecalibrator.__name__
#: With more classes than this, only temperature scaling is compared with no recalibration.
MANY_CLASSES = 200
_PAIRS = 1e9  # most pairs of samples, times classes, in the kernel test
_CLEAR = 2.0  # standard errors by which a shift or slope must differ from none
_CLEARER = 3.0  # the same, for the second clause of a headline
_ON_BOTH_SIDES = 0.15  # share of the samples above and below the curve, if too extreme


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
            known: dict[str, np.ndarray] = {}
            selection, brier, refused, left_out, falls = _compare_maps(
                divided, folds, confidence_level, n_jobs, known, solved
            )
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
        advice=Advice(None, "no_gain", selection, brier, refused, left_out, falls),
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
    found = _decide(found, problem, solved)
    recalibrated = None
    if found.advice.recommended is not None:
        with stage("recalibrated forecasts", verbose, name):
            recalibrated = recalibrate(divided, found.advice.recommended, folds, known)
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
        "n_events": _n_labels(binary, 1) if len(problem.classes) == 2 else None,
        "mean_predicted": predicted,
        "observed_rate": rate_interval(target[:, 1], *rows),
        "observed_expected_ratio": ratio,
        "accuracy": rate_interval(right, *rows),
        "confidence_gap": MeanInterval(
            gap.estimate, max(gap.low, -1.0), min(gap.high, 1.0), gap.standard_error
        ),
    }


def binary_problem(problem: Problem) -> Problem:
    """The problem of the event of two classes, else of the confidence and correctness."""
    if problem.forecast.shape[1] == 2:
        return problem
    forecast, target = next(TopLabel().problems(problem.forecast, problem.target))
    return replace(problem, forecast=forecast, labels_or_target=target)


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


def candidates_of(problem: Problem) -> tuple[list[BaseEstimator], tuple[str, ...]]:
    """The maps to compare, and the names of those that would take too long."""
    candidates = default_candidates(problem.forecast.shape[1], n_samples=problem.n_samples)
    kept = candidates
    if problem.forecast.size > LARGE:
        kept = [one for one in kept if not isinstance(one, SLOW)]
    if problem.forecast.shape[1] > MANY_CLASSES:
        kept = kept[:2]
    return kept, tuple(type(one).__name__ for one in candidates if one not in kept)


def _compare_maps(problem, folds, confidence_level, n_jobs, known, solved=None):
    """Held-out log losses of the maps, the identity included, and the choice among them.

    The simplest map within a standard error of the best is chosen, or the mixture of all maps where
    that map loses more than .5 %. A map that raises the held-out Brier score is rejected, and the
    others are compared again: the log loss may decrease because a few forecasts near 0 change. The
    held-out forecasts of each map are added to `known`, by name, unless there are very many; then
    there is no mixture. `solved` is the `AveragedProblem` of the same samples, if there is
    one. Of two classes, a map that never falls is preferred where it loses at most 1 %, or not
    significantly more, and the mixture leaves out maps that fall, as `StackedRecalibrator`. Returns
    the comparison, the `BrierChange` of the choice, those of the rejected maps, names of maps that
    are left out, and whether the chosen one falls.
    """
    candidates, left_out = candidates_of(problem)
    scores = [resolve_loss(name) for name in ("log", "brier")]
    names, target, refused = candidate_names(candidates), problem.target, []
    mixture = None
    if problem.count is None:
        data: dict[str, Any] = {"classes": problem.classes, "folds": folds, "scores": scores}
        data |= {"weight": problem.weight, "n_jobs": n_jobs}
        samples = candidates, problem.forecast, problem.labels
        if solved is not None and type(solved.average) is ModelAverage:  # not one of a part
            data["average"] = solved.average if len(solved.weight) == len(problem.weight) else None
        losses, weight, forecasts = held_out_losses(
            *samples, **data, forecasts=problem.forecast.size <= LARGE
        )
    else:
        forecasts, weight = held_out_forecasts_of_rows(candidates, problem, folds), problem.weight
        losses = np.array([[score.loss(target, one) for one in forecasts] for score in scores])
    if forecasts is not None:
        held_out = candidates, [forecasts], [folds], target, problem.weight
        mixture = HeldOutMixture(*held_out, problem.cluster, problem.square)
        own = [[score.loss(target, mixture.mixed)] for score in scores]
        names, losses = [*names, MIXTURE], np.concatenate([losses, own], axis=1)
        known |= dict(zip(names, [*forecasts, mixture.mixed], strict=True))
    shapes = _Shapes(candidates, problem, mixture)
    while True:
        means = [float(weighted_mean(row, weight)) for row in losses[0]]
        if np.isinf(means).all():
            return _no_comparison(names[0]), None, tuple(refused), left_out, False
        rows: dict[str, Any] = {"square": problem.square, "cluster": problem.cluster}
        rows["mixture"] = names[-1] == MIXTURE
        compare = partial(one_standard_error, names, losses[0], weight, confidence_level, **rows)
        record = compare()
        rising = shapes.rising_mixture() if record.chosen == MIXTURE else None
        if rising is not None:
            mixture = rising
            losses[:, -1] = [score.loss(target, mixture.mixed) for score in scores]
            known[MIXTURE] = mixture.mixed
            continue
        if shapes.falls(record.chosen):
            record = compare(falling=[name for name in names if shapes.falls(name)])
        at = names.index(record.chosen)
        if at == 0:
            return record, None, tuple(refused), left_out, False
        before, after = (float(weighted_mean(losses[1, k], weight)) for k in (0, at))
        brier = BrierChange(record.chosen, means[at], before, after)
        if not brier.harmful:
            return record, brier, tuple(refused), left_out, shapes.falls(record.chosen)
        refused.append(brier)
        names = [name for name in names if name != record.chosen]
        losses = np.delete(losses, at, axis=1)


class _Shapes:
    """Whether maps of two classes fall somewhere, if they are fitted to all samples."""

    def __init__(self, candidates, problem, mixture):
        self.candidates = dict(zip(candidate_names(candidates), candidates, strict=True))
        self.problem, self.mixture = problem, mixture
        self._fitted, self._falls = dict[str, Any](), dict[str, bool]()

    def falls(self, name):
        """Whether the map of this name falls; False for more classes than two."""
        if self.problem.forecast.shape[1] > 2:
            return False
        if name not in self._falls:
            self._falls[name] = not never_falls(partial(self._mapped, name))
        return self._falls[name]

    def rising_mixture(self):
        """The mixture of the maps that never fall, if it replaces one that falls; else None."""
        if not self.falls(MIXTURE):
            return None
        kept = zip(self.mixture.weights, self.candidates, strict=True)
        falling = [k for k, (weight, name) in enumerate(kept) if weight > 0 and self.falls(name)]
        rising = self.mixture.without(falling) if falling else None
        if rising is not None:
            self.mixture = rising
            del self._falls[MIXTURE]
        return rising

    def _mapped(self, name, forecast):
        if name == MIXTURE:
            pairs = enumerate(zip(self.mixture.weights, self.candidates, strict=True))
            return sum(
                weight * self.mixture.blend(k, self._mapped(one, forecast))
                for k, (weight, one) in pairs
                if weight > 0
            )
        if name not in self._fitted:
            self._fitted[name] = self._fit(self.candidates[name])
        return recalibrated_proba(self._fitted[name], forecast, self.problem.classes)

    def _fit(self, candidate):
        problem = self.problem
        if problem.count is not None:
            return fit_rows(candidate, problem)
        data = problem.forecast, problem.labels, problem.weight, problem.classes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_recalibrator(candidate, *data, measure=False)


def _no_comparison(name):
    """The record if every loss is infinite: no recalibration."""
    nothing = MeanInterval(0.0, 0.0, 0.0, 0.0)
    return RecalibratorSelection((name,), (float("inf"),), (0.0,), (0.0,), name, name, nothing)


def recalibrate(
    problem: Problem, name: str, folds: list, known: dict[str, np.ndarray] | None = None
) -> Problem:
    """The binary problem of the event or confidence after the named map, fitted on other folds.

    `known` holds the held-out forecasts of some maps.
    """
    if known and name in known:
        return binary_problem(replace(problem, forecast=known[name]))
    (candidate,) = (c for c in candidates_of(problem)[0] if type(c).__name__ == name)
    y = problem.labels

    def mapped(train, test):
        if problem.count is not None:
            return recalibrated_rows(candidate, problem.take(train), problem.forecast[test])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = fit_recalibrator(
                candidate, problem.forecast[train], y[train], problem.weight[train], problem.classes
            )
        return recalibrated_proba(fitted, problem.forecast[test], problem.classes)

    splits = [(np.setdiff1d(np.arange(len(y)), test), test) for test in folds]
    forecast, _ = out_of_fold(mapped, splits, len(y))
    return binary_problem(replace(problem, forecast=forecast))


def _decide(found, problem, solved):
    """Direction and advice, which depend on all other findings."""
    direction, more = _direction(found), ""
    if found.n_classes == 2 and direction is not None:
        gap = (solved.forecast - solved.conditional)[:, 1]
        above, below = solved.share @ (gap > 0), solved.share @ (gap < 0)
        if not direction.endswith(("high", "low")) and min(above, below) < _ON_BOTH_SIDES:
            off = {place.too_high for place in worst_places(found.places, "scores", 99)}
            sign = 0 if len(off) > 1 else _mean_sign(found)
            direction = {1: "too_high", -1: "too_low"}.get(sign, "uneven")
        more = _more_where(found, direction, solved, gap)
    found = replace(found, direction=direction, more_where=more)
    chosen = found.advice.selection.chosen
    first = found.advice.selection.names[0]
    helps = chosen != first and found.advice.selection.gain.low > 0
    if any(one.comes_before_advice for one in found.suspicions):
        recommended, reason = None, "input"
    elif _rarer_labels(problem) < FEWEST_LABELS:
        recommended, reason = None, "few_labels"
    elif _separated(problem):
        recommended, reason = None, "separated"
    elif not found.miscalibrated:
        recommended, reason = None, "calibrated"
    elif helps:
        recommended, reason = chosen, ""
    else:
        recommended, reason = None, "no_gain"
    return replace(found, advice=replace(found.advice, recommended=recommended, reason=reason))


def _direction(found):
    """The direction, if miscalibration was found and the input is not suspect."""
    if not found.miscalibrated or found.input_is_suspect:
        return None
    if found.n_classes == 2:
        return direction_of(found.gains, _mean_sign(found), _slope_sign(found)) or "uneven"
    named = direction_of(found.gains, 1, _gap_sign(found))
    if named in ("too_high", "too_low"):  # class biases gain more
        named = "class_shift" if worst_places(found.places, "class", 1) else None
    return named or ("confused" if found.confusions else "uneven")


def _mean_sign(found):
    """+1 if the mean prediction is clearly too high, -1 if it is clearly too low."""
    observed, predicted = found.observed_rate, found.mean_predicted
    return int(predicted > observed.high) - int(predicted < observed.low)


def _more_where(found, direction, solved, gap):
    """Whether the "higher" or "lower" predictions of a shifted event are clearly further off.

    The slope must agree with the fitted curve: its mean differences from the predictions in both
    halves of these, as probabilities and as log odds. Else the text is empty.
    """
    sign = {"too_high": 1, "too_low": -1}.get(direction, 0) * _slope_sign(found, _CLEARER)
    if not sign:
        return ""
    forecast = solved.forecast[:, 1]
    odds = logit(np.clip([forecast, forecast - gap], 1e-9, 1 - 1e-9))
    cuts = quantile_cuts(forecast, 2)
    if not len(cuts):
        return ""
    halves = forecast > cuts[-1], forecast < cuts[0]
    for size in map(np.abs, (gap, odds[0] - odds[1])):
        high, low = (weighted_mean(size[side], solved.weight[side]) for side in halves)
        if sign * (high - low) <= 0:
            return ""
    return "higher" if sign > 0 else "lower"


def _slope_sign(found, clear=_CLEAR):
    """+1 for a slope clearly below 1 (forecasts too extreme), -1 for one clearly above 1."""
    if found.logistic is None:
        return 0
    slope = found.logistic.slope
    clear *= slope.standard_error
    return int(slope.estimate < 1 - clear) - int(slope.estimate > 1 + clear)


def _gap_sign(found):
    """+1 if the confidence exceeds the accuracy, -1 if it is lower, 0 if the slope disagrees."""
    gap, slope = int(np.sign(found.confidence_gap.estimate)), _slope_sign(found)
    clear = found.confidence_gap.low > 0 or found.confidence_gap.high < 0
    return gap if clear or gap == slope else 0


def _rarer_labels(problem):
    """The smaller number of events and non-events; for several classes of right and wrong ones."""
    binary = binary_problem(problem)
    return min(_n_labels(binary, k) for k in (0, 1))


def _n_labels(binary, column):
    """Number of samples with this label."""
    return binary.take(binary.target[:, column] == 1).n_samples


def _separated(problem):
    """Whether the score of the event, or the confidence, separates the labels completely."""
    binary = binary_problem(problem)
    hits, misses = (binary.forecast[binary.target[:, k] == 1, 1] for k in (1, 0))
    return hits.min() > misses.max() or hits.max() < misses.min()


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
