"""Cost and net benefit of decisions at many thresholds, computed from problems. No drawing code.

A sample is positive where its probability exceeds the threshold t. At every t it is then a true
positive, a false positive, a false negative or a true negative. The cost and the net benefit take
one value for each of these four kinds. So their means and variances follow from the shares of the
kinds, which are cumulative sums over the sorted scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.stats import t as student

from skcalib._util.messages import shown
from skcalib._util.parallel import seed_of
from skcalib._util.records import Record
from skcalib._util.ties import reach_of
from skcalib.data.clusters import effective_size
from skcalib.data.notions import Auto, Canonical, resolve_notion
from skcalib.data.problem import ForecastSummary, check_problem
from skcalib.displays._curves import binary_problems, summarised_problems
from skcalib.proper.proper import solve_notion
from skcalib.scores import Brier
from skcalib.smoothers import LogitSmoother


@dataclass(frozen=True, eq=False)
class DecisionCurve(Record):
    """Mean cost or net benefit of one model at m thresholds.

    ``event`` is that of `ReliabilityCurve`, ``rate`` its frequency. ``threshold`` is increasing;
    ``estimate``, its interval [``low``, ``high``] and ``reference``, the value without a model, are
    (m,).
    """

    name: str
    event: str
    rate: float
    threshold: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reference: np.ndarray

    _rows: ClassVar[tuple[str, ...]] = ("threshold", "estimate", "low", "high", "reference")
    _beside: ClassVar[tuple[str, ...]] = ("name", "event", "rate")


@dataclass(frozen=True, eq=False)
class MurphyCurve(DecisionCurve):
    """The mean cost, the Brier score, and the cost after recalibration (m,), or None."""

    brier: float
    remaining: np.ndarray | None

    _rows = (*DecisionCurve._rows, "remaining")
    _beside = (*DecisionCurve._beside, "brier")

    @property
    def regret(self) -> np.ndarray | None:
        """The regret of miscalibration (m,): the cost that recalibration saves."""
        return None if self.remaining is None else self.estimate - self.remaining


# --- From arguments to the binary events of models ------------------------------------------------


def model_events(y_true, y_proba, notion, name, sample_weight, labels, pos_label):
    """Name of the model, name of the event, and `Problem` of each curve."""
    if isinstance(y_true, ForecastSummary):
        return [(single_name(name), *event) for event in summarised_problems(y_true, Auto())]
    notion = resolve_notion(notion)
    if not isinstance(y_proba, Mapping):
        models = [(single_name(name), y_proba, "y_proba")]
    elif name is not None:
        raise ValueError(
            f"name={name!r} is for a single model: leave it out, as the keys of y_proba are the "
            "names of the models."
        )
    elif not y_proba:
        raise ValueError("y_proba is an empty dict: pass the probabilities of a model or more.")
    else:
        models = [(str(model), proba, f"y_proba[{model!r}]") for model, proba in y_proba.items()]
    found = []
    for model, proba, argument in models:
        rest = sample_weight, labels, pos_label
        problem = check_problem(y_true, proba, notion, *rest, name=argument, incomplete=True)
        found += [(model, *event) for event in binary_problems(problem, pos_label, notion)]
    return found


def single_name(name):
    """The name of the only model."""
    return "Predictions" if name is None else str(name)


def check_thresholds(thresholds):
    """Distinct thresholds in increasing order (m,), or None for the default."""
    if thresholds is None:
        return None
    try:
        found = np.asarray(thresholds, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or len(found) == 0 or not np.all((found > 0) & (found < 1)):
        raise ValueError(
            "thresholds must be a list of numbers strictly between 0 and 1, such as "
            f"numpy.linspace(0.01, 0.3, 30); got {shown(thresholds)}."
        )
    return np.unique(found)


# --- Curves ---------------------------------------------------------------------------------------


def murphy_curves(events, thresholds, *, parts, confidence_level, random_state):
    """One `MurphyCurve` for each model and event."""
    if parts and len({model for model, _, _ in events}) > 1:
        raise ValueError(
            "parts=True is for a single model, as the areas of several models overlap: pass the "
            "probabilities of one model, or parts=False."
        )
    threshold = np.arange(1, 200) / 200 if thresholds is None else thresholds
    seed, found = seed_of(random_state), []
    for name, event, problem in events:
        kinds = _Kinds.of(problem, threshold)
        cost, reach = kinds.mean(_costs(threshold), confidence_level)
        remaining = None
        if parts:
            recalibrated = _Kinds.of(_recalibrated(problem, seed), threshold)
            remaining, _ = recalibrated.mean(_costs(threshold), confidence_level)
        curve = MurphyCurve(
            name=name,
            event=event,
            rate=kinds.rate,
            threshold=threshold,
            estimate=cost,
            low=cost - reach,
            high=cost + reach,
            reference=np.minimum(threshold * (1 - kinds.rate), (1 - threshold) * kinds.rate),
            brier=problem.mean_loss(Brier()),
            remaining=remaining,
        )
        found.append(curve)
    return found


def net_benefit_curves(events, thresholds, *, standardized, confidence_level):
    """One `DecisionCurve` of the net benefit for each model and event."""
    threshold = _thresholds_to_largest(events) if thresholds is None else thresholds
    odds = threshold / (1 - threshold)
    none = np.zeros_like(odds)
    found = []
    for name, event, problem in events:
        kinds = _Kinds.of(problem, threshold)
        benefit, reach = kinds.mean([none + 1, -odds, none, none], confidence_level)
        reference = kinds.rate - (1 - kinds.rate) * odds
        if standardized:
            if kinds.rate == 0:
                raise ValueError(
                    "standardized=True divides by the prevalence, which is 0, as no sample is "
                    "positive: pass standardized=False."
                )
            benefit, reference = benefit / kinds.rate, reference / kinds.rate
            # The error of a ratio of means, by the delta method.
            _, reach = kinds.mean([1 - benefit, -odds, -benefit, none], confidence_level)
            reach = reach / kinds.rate
        curve = DecisionCurve(
            name=name,
            event=event,
            rate=kinds.rate,
            threshold=threshold,
            estimate=benefit,
            low=benefit - reach,
            high=benefit + reach,
            reference=reference,
        )
        found.append(curve)
    return found


def _thresholds_to_largest(events):
    """200 thresholds up to the largest probability, above which no sample is treated."""
    largest = max(problem.forecast[:, 1].max() for _, _, problem in events)
    last = np.clip(largest, 0.01, 0.99)
    return np.linspace(last / 200, last, 200)


def _costs(threshold):
    """The elementary score of each kind."""
    none = np.zeros_like(threshold)
    return [none, threshold, 1 - threshold, none]


def _recalibrated(problem, seed):
    """The same samples with out-of-fold recalibrated probabilities."""
    smoother = LogitSmoother(random_state=seed)
    (solved,) = solve_notion(problem, notion=Canonical(), smoother=smoother)
    return replace(
        problem,
        forecast=solved.conditional,
        labels_or_target=solved.target,
        weight=solved.weight,
        square=solved.square,
        count=None,
    )


@dataclass(frozen=True)
class _Kinds:
    """Shares of true and false positives, false and true negatives at each threshold.

    ``share`` (4, m) has the sums of the weights, ``square`` (4, m) those of the squared weights,
    both relative to the total weight. ``size`` is the effective number of samples.
    """

    share: np.ndarray
    square: np.ndarray
    size: float
    rate: float

    @classmethod
    def of(cls, problem, threshold):
        score, event = problem.forecast[:, 1], problem.target[:, 1]
        weight, square = problem.weight, problem.squares
        total = weight.sum()
        order = np.argsort(score, kind="stable")
        n_negative = np.searchsorted(score[order], reach_of(threshold), side="right")
        rows = (np.stack([event, 1 - event])[:, None] * np.stack([weight, square]))[..., order]
        start = np.zeros((2, 2, 1))
        below = np.concatenate([start, rows.cumsum(axis=-1)], axis=-1)[..., n_negative]
        above = rows[..., ::-1].cumsum(axis=-1)[..., ::-1]
        above = np.concatenate([above, start], axis=-1)[..., n_negative]
        share, squares = np.concatenate([above, below]).swapaxes(0, 1)
        rate = float(np.sum(weight * event) / total)
        return cls(share / total, squares / total**2, effective_size(weight, square), rate)

    def mean(self, values, confidence_level):
        """Mean (m,) of the values (4, m) of the kinds, and the half-width of `mean_interval`."""
        values = np.asarray(values)
        mean = np.sum(self.share * values, axis=0)
        if self.size - 1 < 1e-9:
            return mean, np.full(len(mean), np.inf)
        variance = np.sum(self.square * (values - mean) ** 2, axis=0)
        quantile = student.ppf(0.5 + confidence_level / 2, self.size - 1)
        return mean, quantile * np.sqrt(variance * self.size / (self.size - 1))
