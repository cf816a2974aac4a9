"""Advice: which recalibration map to use, and what to do about decisions, each with its sentences.

The maps are compared by held-out losses. Decisions at a threshold, or with costs, have a cost, of
which recalibration and a better model would save some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.formatting import numbers, rates
from skcalib._util.parallel import out_of_fold
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, MatrixLike
from skcalib.data.notions import Canonical, TopLabel
from skcalib.data.problem import Problem, ProblemSummary
from skcalib.links.averaging import ModelAverage, averaged_map
from skcalib.recalibration import ModelAverageScaling, VectorScaling
from skcalib.recalibration.base import recalibrated_proba
from skcalib.recalibration.held_out import (
    HeldOutMixture,
    RecalibratorSelection,
    StackedRecalibrator,
    candidate_names,
    default_candidates,
    fit_to_problem,
    held_out_forecasts,
    held_out_losses,
    is_nondecreasing,
    one_standard_error,
)
from skcalib.report.findings import (
    Advice,
    BrierChange,
    DecisionFinding,
    Findings,
    binary_problem,
    n_labels,
)
from skcalib.risk_models.decisions import decision_regret, no_saving_by_features, no_saving_shown
from skcalib.scores import resolve_loss, weighted_mean
from skcalib.stats.means import MeanInterval

if TYPE_CHECKING:
    from skcalib.proper.map_average import AveragedProblem

#: Smallest number of labels of the rarer kind for recommending a recalibration map.
FEWEST_LABELS = 10
SLOW = (VectorScaling, ModelAverageScaling)
MIXTURE = StackedRecalibrator.__name__
_LARGE_GAIN = 0.5  # share of the log loss


# --- Comparison of the maps -----------------------------------------------------------------------


def candidates_of(problem: Problem) -> tuple[list[BaseEstimator], tuple[str, ...]]:
    """The maps to compare, and the names of those that would take too long."""
    candidates = default_candidates(problem.forecast.shape[1], n_samples=problem.n_samples)
    fast = candidates
    if problem.forecast.size > SIZES.report_entries:
        fast = [candidate for candidate in fast if not isinstance(candidate, SLOW)]
    if problem.forecast.shape[1] > SIZES.many_classes:
        fast = fast[:2]
    left_out = tuple(type(candidate).__name__ for candidate in candidates if candidate not in fast)
    return fast, left_out


def compare_maps(
    problem: Problem,
    folds: list[np.ndarray],
    confidence_level: float,
    n_jobs: int | None,
    solved: AveragedProblem | None = None,
) -> tuple[Advice, dict[str, np.ndarray]]:
    """The choice among the maps by held-out log losses, and the held-out forecasts of each map.

    The simplest map within a standard error of the best is chosen, or the mixture of all maps where
    that map loses more than .5 %. A map that raises the held-out Brier score is rejected, and the
    others are compared again: the log loss may decrease because a few forecasts near 0 change. The
    identity is one of the maps. If there are very many forecasts, they are not kept, and there is
    no mixture. `solved` is the `AveragedProblem` of the same samples, if there is one. Of two
    classes, a map that never falls is preferred where it loses at most 1 %, or not significantly
    more, and the mixture leaves out maps that fall, as `StackedRecalibrator`.
    """
    candidates, left_out = candidates_of(problem)
    scores = [resolve_loss(name) for name in ("log", "brier")]
    names, target = candidate_names(candidates), problem.target
    if problem.count is None:
        average: dict[str, Any] = {}
        if solved is not None and type(solved.average) is ModelAverage:  # not one of a part
            same = len(solved.weight) == len(problem.weight)
            average = {"average": solved.average if same else None}
        losses, weight, forecasts = held_out_losses(
            candidates,
            problem.forecast,
            problem.labels,
            classes=problem.classes,
            folds=folds,
            scores=scores,
            weight=problem.weight,
            n_jobs=n_jobs,
            forecasts=problem.forecast.size <= SIZES.report_entries,
            **average,
        )
    else:
        forecasts, weight = held_out_forecasts(candidates, problem, folds), problem.weight
        losses = np.array([[score.loss(target, p) for p in forecasts] for score in scores])
    mixture, forecasts_of = None, dict[str, np.ndarray]()
    if forecasts is not None:
        mixture = HeldOutMixture(candidates, [forecasts], [folds], problem)
        mixed = [[score.loss(target, mixture.mixed)] for score in scores]
        names, losses = [*names, MIXTURE], np.concatenate([losses, mixed], axis=1)
        forecasts_of = dict(zip(names, [*forecasts, mixture.mixed], strict=True))
    monotonicity = _Monotonicity(candidates, problem, mixture)
    refused: list[BrierChange] = []
    while True:
        means = [float(weighted_mean(row, weight)) for row in losses[0]]
        if np.isinf(means).all():
            nothing = MeanInterval(0.0, 0.0, 0.0, 0.0)
            selection = RecalibratorSelection(
                (names[0],), (float("inf"),), (0.0,), (0.0,), names[0], names[0], nothing
            )
            advice = Advice(None, "no_gain", selection, None, tuple(refused), left_out)
            return advice, forecasts_of
        compare = partial(
            one_standard_error,
            names,
            losses[0],
            weight,
            confidence_level,
            square=problem.square,
            cluster=problem.cluster,
            mixture=names[-1] == MIXTURE,
        )
        selection = compare()
        rising = monotonicity.rising_mixture() if selection.chosen == MIXTURE else None
        if rising is not None:
            losses[:, -1] = [score.loss(target, rising.mixed) for score in scores]
            forecasts_of[MIXTURE] = rising.mixed
            continue
        if monotonicity.falls(selection.chosen):
            selection = compare(falling=[name for name in names if monotonicity.falls(name)])
        chosen = names.index(selection.chosen)
        advice = Advice(None, "no_gain", selection, None, tuple(refused), left_out)
        if chosen == 0:
            return advice, forecasts_of
        before, after = (float(weighted_mean(losses[1, k], weight)) for k in (0, chosen))
        brier = BrierChange(selection.chosen, means[chosen], before, after)
        if not brier.harmful:
            advice = replace(advice, brier=brier, falls=monotonicity.falls(selection.chosen))
            return advice, forecasts_of
        refused.append(brier)
        names = [name for name in names if name != selection.chosen]
        losses = np.delete(losses, chosen, axis=1)


class _Monotonicity:
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
            self._falls[name] = not is_nondecreasing(partial(self._mapped, name))
        return self._falls[name]

    def rising_mixture(self):
        """The mixture of the maps that never fall, if it replaces one that falls; else None."""
        if not self.falls(MIXTURE):
            return None
        weights = zip(self.mixture.weights, self.candidates, strict=True)
        falling = [k for k, (weight, name) in enumerate(weights) if weight > 0 and self.falls(name)]
        rising = self.mixture.without(falling) if falling else None
        if rising is not None:
            self.mixture = rising
            del self._falls[MIXTURE]
        return rising

    def _mapped(self, name, forecast):
        if name == MIXTURE:
            pairs = enumerate(zip(self.mixture.weights, self.candidates, strict=True))
            return sum(
                weight * self.mixture.blend(k, self._mapped(part, forecast))
                for k, (weight, part) in pairs
                if weight > 0
            )
        if name not in self._fitted:
            self._fitted[name] = fit_to_problem(self.candidates[name], self.problem)
        return recalibrated_proba(self._fitted[name], forecast, self.problem.classes)


def recalibrate(
    problem: Problem,
    name: str,
    folds: list[np.ndarray],
    forecasts_of: dict[str, np.ndarray] | None = None,
) -> Problem:
    """The binary problem of the event or confidence after the named map, fitted on other folds.

    `forecasts_of` holds the held-out forecasts of some maps.
    """
    if forecasts_of and name in forecasts_of:
        return binary_problem(replace(problem, forecast=forecasts_of[name]))
    (candidate,) = (c for c in candidates_of(problem)[0] if type(c).__name__ == name)

    def mapped(train, test):
        fitted = fit_to_problem(candidate, problem.take(train))
        return recalibrated_proba(fitted, problem.forecast[test], problem.classes)

    n_rows = len(problem.forecast)
    splits = [(np.setdiff1d(np.arange(n_rows), test), test) for test in folds]
    forecast, _ = out_of_fold(mapped, splits, n_rows)
    return binary_problem(replace(problem, forecast=forecast))


# --- Whether to recalibrate -----------------------------------------------------------------------


def choose_advice(findings: Findings, problem: Problem) -> Advice:
    """The advice of the findings, with the chosen map or the reason why there is none."""
    reason = _reason_for_none(findings, binary_problem(problem))
    chosen = findings.advice.selection.chosen
    return replace(findings.advice, recommended=None if reason else chosen, reason=reason)


def _reason_for_none(findings, binary):
    """The first reason against a map, or empty; a sentence on each is in `advice_on_maps`."""
    if any(suspicion.invalidates or suspicion.stops_advice for suspicion in findings.suspicions):
        return "input"
    if min(n_labels(binary, column) for column in (0, 1)) < FEWEST_LABELS:
        return "few_labels"  # of the event, or for several classes of right or wrong predictions
    hits, misses = (binary.forecast[binary.target[:, column] == 1, 1] for column in (1, 0))
    if hits.min() > misses.max() or hits.max() < misses.min():
        return "separated"
    if not findings.miscalibrated:
        return "calibrated"
    selection = findings.advice.selection
    without_gain = selection.chosen == selection.names[0] or selection.gain.low <= 0
    return "no_gain" if without_gain else ""


def advice_on_maps(findings: Findings) -> str:
    """The recommended map with both held-out losses, or why there is none."""
    advice = findings.advice
    if advice.recommended is not None and advice.brier is not None:
        log = numbers(advice.log_loss["before"], advice.log_loss["after"])
        brier = numbers(advice.brier.before, advice.brier.after)
        order = " It is not monotone: some larger scores get smaller probabilities." * advice.falls
        return (
            f"Recalibrate with {recalibrator_name(advice.recommended)}: cross-validated log loss "
            f"{' -> '.join(log)}, Brier score {' -> '.join(brier)}.{order}"
        )
    if advice.reason == "input":
        return "Correct the input first; recalibration would conceal the mistake."
    if advice.reason == "few_labels":
        labels = "labels of one class" if findings.n_classes == 2 else "right or wrong predictions"
        return f"Fewer than {FEWEST_LABELS} {labels} are too few to choose a recalibration map."
    if advice.reason == "separated":
        return (
            "The scores separate the labels completely, so these samples cannot determine a "
            "recalibration map."
        )
    shown = "no gain can be shown"
    if advice.reason == "no_gain":
        shown = "no map lowers both log loss and Brier score reliably"
    gain, share = "even a large gain", findings.missed_gain
    if share < _LARGE_GAIN:
        gain = f"a gain of up to {rates(share)[0]} of the log loss"
    return f"Recalibration is not recommended: with these samples {shown}; {gain} could be missed."


RECALIBRATOR_NAMES = {
    "TemperatureScaling": "temperature scaling",
    "InterceptRecalibrator": "a shift of the log odds",
    "PlattScaling": "Platt scaling",
    "BetaCalibration": "beta calibration",
    "BiasCorrectedTemperatureScaling": "temperature scaling with class biases",
    "VectorScaling": "vector scaling",
    "ModelAverageScaling": "model averaging",
    "LabelNoiseScaling": "label noise scaling",
    "QuadraticScaling": "quadratic scaling",
    "SplineScaling": "spline scaling",
    "MatrixScaling": "matrix scaling",
    "VennAbersRecalibrator": "Venn-Abers predictors",
    "IsotonicRecalibrator": "isotonic regression",
    "StackedRecalibrator": "a mixture of maps",
}

#: Those of them that are not names of the root: code says where they stand.
_NOT_AT_THE_ROOT = {
    "BiasCorrectedTemperatureScaling",
    "LabelNoiseScaling",
    "MatrixScaling",
    "ModelAverageScaling",
    "QuadraticScaling",
}


def recalibrator_name(name: str | None) -> str:
    """The name of a map in a sentence."""
    return RECALIBRATOR_NAMES.get(str(name), str(name))


def line_of_code(
    name: str, source: str, *, is_frozen: bool = False, classes: Sequence[Any] = ()
) -> str:
    """One line of code that applies the recommended map to forecasts of this source.

    A model is fitted again, out of fold; a frozen one needs samples that it was not fitted to. The
    columns of probabilities without their model are `classes`. A map of the confidence alone is no
    recalibrator, so the line is empty.
    """
    if source == "top_label":
        return ""
    options = ["strict=True"] if name == "IsotonicRecalibrator" else []
    if source == "predictions" and sorted(classes) != list(classes):
        options.append(f"labels={list(classes)!r}")  # otherwise columns follow the sorted classes
    package = "skcalib.recalibration." if name in _NOT_AT_THE_ROOT else ""
    recalibrator = f"{package}{name}({', '.join(options)})"
    if source == "predictions":
        return f"{recalibrator}.fit(y_proba, y_true).predict_proba(new_proba)"
    if source == "canonical":
        return f"{recalibrator}.fit_sketch(sketch).predict_proba(new_proba)"
    method = ', response_method="decision_function"' if source == "decision_function" else ""
    if is_frozen:
        return f"RecalibratedClassifierCV(model, {recalibrator}{method}).fit(X_new, y_new)"
    model = f"clone(model), {recalibrator}, cv=5{method}"
    return f"RecalibratedClassifierCV({model}).fit(X_train, y_train)"


# --- Decisions ------------------------------------------------------------------------------------


_PER = 1000  # samples to which the costs of the report refer


def find_decision(
    problem: Problem,
    features: MatrixLike,
    threshold: float | None,
    costs: ArrayLike | None,
    *,
    confidence_level: float,
    random_state: int,
    n_jobs: int | None,
) -> DecisionFinding:
    """The parts of the cost; a threshold with several classes is that of the confidence."""
    several = len(problem.classes) > 2
    notion = TopLabel() if several and threshold is not None else Canonical()
    samples: dict[str, Any] = {"y_true": ProblemSummary(problem)}
    if problem.count is None:
        samples = {"y_true": problem.labels, "y_proba": problem.forecast, "X": features}
        samples |= {"labels": problem.classes, "groups": problem.cluster}
        samples |= {"sample_weight": problem.sample_weight}
    regret = decision_regret(
        **samples,
        threshold=threshold,
        costs=costs,
        notion=notion,
        confidence_level=confidence_level,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    forecast, target = next(iter(notion.problems(problem.forecast, problem.target)))
    moved = None
    if forecast.shape[1] == 2 and np.ptp(target[:, 1]) > 0:
        curve = averaged_map(forecast, target, problem.weight, problem.square, problem.cluster)
        score = np.unique(forecast[:, 1])
        act = regret.score.decisions(curve(np.column_stack([1 - score, score])))
        jump = np.flatnonzero(np.diff(act))
        if len(jump) == 1:  # else one decision for all, or not a single threshold
            moved = float(score[jump[0] : jump[0] + 2].mean())
    return DecisionFinding(
        threshold=None if threshold is None else float(threshold),
        costs=() if costs is None else tuple(map(tuple, np.asarray(costs, float).tolist())),
        expected_cost=regret.expected_cost,
        calibration=regret.calibration,
        grouping=regret.grouping,
        rest=regret.rest,
        changed=regret.changed,
        moved=moved,
        tied=float(weighted_mean(regret.score.tied(forecast), problem.weight)),
    )


def advice_on_decisions(decision: DecisionFinding) -> str:
    """What to do about the decisions, what they cost, and what it would save."""
    text, threshold = partial(_number, decision), decision.threshold
    recalibrate = "recalibrate"
    if decision.moved is not None:
        recalibrate += f", or move the threshold to {decision.moved:.3g}"
    actions = [recalibrate] if decision.recalibration_saves else []
    actions += ["look for a better model"] if decision.model_saves else []
    action = "; and ".join(actions) or "no change is recommended"
    amount = _amount(decision, decision.expected_cost)
    where, cost = "", f"They cost {amount} per {_PER:,} samples, in the units of the given costs."
    if threshold is not None:
        where, ratio = f" at the threshold {threshold:g}", (1 - threshold) / threshold
        as_much = f"a miss costs as much as {ratio:.3g} false alarms"
        if ratio == 1:
            as_much = "a miss and a false alarm cost the same"
        elif ratio < 1:
            as_much = f"a false alarm costs as much as {1 / ratio:.3g} misses"
        unit = "false alarms" if ratio >= 1 else "misses"
        cost = (
            f"At this threshold {as_much}; the decisions cost {amount} {unit} per {_PER:,} samples."
        )
    if decision.recalibration_saves:
        saving = f"Recalibration would save {_amount(decision, decision.calibration)}."
    else:
        limited = threshold is not None or np.shape(decision.costs) == (2, 2)
        saving = no_saving_shown(decision.calibration.high, limited, text)
    if decision.grouping is None:
        better = "Features are needed to find out what a better model would save."
    elif not decision.model_saves:
        better = no_saving_by_features(decision.grouping.high, text)
    else:
        beyond = "beyond that " if decision.recalibration_saves else ""
        amount = _amount(decision, decision.grouping)
        better = f"Better use of the features would save {beyond}at least {amount}."
    ties = f" {ties_of(decision)}: {100 * decision.tied:.2g} %." if decision.tied else ""
    return f"Decisions{where}: {action}. {cost} {saving} {better}{ties}"


def ties_of(decision: DecisionFinding) -> str:
    """What happens to forecasts for which two decisions cost the same."""
    if decision.threshold is None:
        return "Where two decisions cost the same, the first is taken"
    return "Forecasts that equal the threshold count as below it"


def _amount(decision, interval):
    low, high = (_number(decision, value) for value in (interval.low, interval.high))
    return f"{_number(decision, interval.estimate)} [{low}, {high}]"


def _number(decision, value):
    """A mean cost per sample, as the number of false alarms or misses among many samples."""
    unit = 1.0
    if decision.threshold is not None:
        unit = min(decision.threshold, 1 - decision.threshold)
    amount = _PER * value / unit
    size = abs(amount)
    decimals = 0 if size >= 100 or size == 0 else 1 if size >= 1 else 2
    return f"{amount:z,.{decimals}f}"
