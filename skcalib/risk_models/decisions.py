r"""The cost of miscalibration for decisions that follow from a probability.

The decision is the one with the smallest expected cost at the forecast. Its cost is a proper score
(`skcalib.scores.DecisionCost`), so its mean can be decomposed like that of any proper score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import cross_val_predict

from skcalib._util.formatting import Record, interval_rows
from skcalib._util.messages import shown
from skcalib._util.parallel import seed_of, threads_for
from skcalib._util.parameters import check_estimator, checks_parameters
from skcalib._util.types import ArrayLike, Label, MatrixLike, RandomState
from skcalib._util.validation import (
    check_indices,
    refuse_sparse,
    take_rows,
    weighted_features,
    weights_of_mean_one,
)
from skcalib.data.features import encode_features
from skcalib.data.notions import Canonical, NotionLike, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    LabelsLike,
    event_last,
    only_problem,
    read_samples,
    reduced_fields,
)
from skcalib.error_intervals.proper import regret_interval, saving_interval
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.proper.proper import solve_notion
from skcalib.recalibration.base import warn_without_weight, weight_params
from skcalib.recalibration.group import Mixing, held_out_paths
from skcalib.scores import DecisionCost, Elementary, LogLoss, weighted_mean
from skcalib.smoothers import LogitSmoother
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import MeanInterval, mean_interval, mean_loss_interval


@dataclass(frozen=True)
class DecisionRegret(Record):
    """Parts of the expected cost of decisions; see :func:`~skcalib.decision_regret`.

    ``expected_cost = calibration + grouping + rest``, without ``grouping`` where there are no
    features.

    `to_frame` has the columns ``part``, ``estimate``, ``low``, ``high`` and ``standard_error``.

    Attributes
    ----------
    expected_cost : MeanInterval
        Mean cost of a sample with the decisions that follow from the forecasts.
    calibration : MeanInterval
        What recalibration saves with the fitted maps, with an upper limit for all maps.
    grouping : MeanInterval or None
        Lower bound of what a model of the features would save beyond recalibration.
    rest : MeanInterval
        The cost that remains.
    changed : float
        Share of the samples for which recalibration changes the decision.
    score : DecisionCost
        The cost of a decision, as a proper score.

    See Also
    --------
    skcalib.decision_regret : Makes this record.
    skcalib.MurphyDisplay : The cost at all thresholds.
    """

    expected_cost: MeanInterval
    calibration: MeanInterval
    grouping: MeanInterval | None
    rest: MeanInterval
    changed: float
    score: DecisionCost

    _beside = ("changed",)

    def _parts(self):
        names = ("expected_cost", "calibration", "grouping", "rest")
        parts = {name: getattr(self, name) for name in names}
        return {name: part for name, part in parts.items() if part is not None}

    def _columns(self):
        return interval_rows("part", self._parts())

    def __str__(self) -> str:
        limited, text = np.shape(self.score.costs) == (2, 2), "{:.3g}".format
        words = {
            "expected_cost": "Expected cost",
            "calibration": "  recalibration would save",
            "grouping": "  features would save at least",
            "rest": "  rest",
        }
        lines = {name: f"{words[name]:<32}{part}" for name, part in self._parts().items()}
        if self.calibration.low <= 0:
            lines["calibration"] = f"  {no_saving_shown(self.calibration.high, limited, text)}"
        if self.grouping is not None and self.grouping.low <= 0:
            lines["grouping"] = f"  {no_saving_by_features(self.grouping.high, text)}"
        changed = f"Recalibration changes {self.changed:.1%} of the decisions."
        return "\n".join([*lines.values(), changed])


def no_saving_shown(high: float, limited: bool, text: Callable[[float], str]) -> str:
    """The sentence where no saving by recalibration is significant, with a limit if it is known."""
    said = "With these samples no saving by recalibration can be shown"
    return f"{said}; it would save at most {text(high)}." if limited else f"{said}."


def no_saving_by_features(high: float, text: Callable[[float], str]) -> str:
    """The sentence where a model of the features saves nothing significant."""
    tried = f"the one that was tried saves {f'at most {text(high)}' if high > 0 else 'nothing'}"
    return f"No saving by a model of the features was found: {tried}, others may save more."


@checks_parameters
def decision_regret(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    threshold: float | None = None,
    *,
    costs: ArrayLike | None = None,
    X: MatrixLike | None = None,
    model: BaseEstimator | None = None,
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> DecisionRegret:
    r"""Expected cost of decisions, and the savings by recalibration or by a better model.

    A forecast S leads to the decision with the smallest expected cost. L is the cost of this
    decision, and H is the expected cost of the best one (see
    :class:`~skcalib.scores.DecisionCost`). The function estimates the parts of

    .. math::

        E\, L(Y, S) = E\, D(C, S) + E\, D(Q, C) + E\, H(Q) , \qquad C = E[Y|S],\ Q = E[Y|X] :

    the regret of miscalibration, the regret of grouping, and the remaining cost (Perez-Lebel and
    others, AISTATS 2025). They are means of paired differences on held-out samples,

    .. math::

        \frac1n \sum_i L(y_i, S_i) - L(y_i, \hat C_i) , \qquad
        \frac1n \sum_i L(y_i, \hat C_i) - L(y_i, \hat Q_i) , \qquad
        \frac1n \sum_i L(y_i, \hat Q_i) ,

    with the maps :math:`\hat C` of :class:`~skcalib.smoothers.LogitSmoother` and the predictions
    :math:`\hat Q` of `model`, both out of fold. The parts add up exactly. The first part and the
    sum of the first two are lower bounds in expectation. Their intervals are for the savings by
    these maps and this model, and better ones may save more. Each difference may be negative. The
    upper limit of the first part is for the regret itself.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels, or a sketch of an event, without `X`. Folds then divide the samples of each cell at
        random.
    threshold : float, optional
        For two classes: act where the probability of the positive class exceeds the threshold. It
        is the cost of a false alarm divided by the sum of the costs of a false alarm and of a miss.
        The result is in units of this sum.
    costs : array-like of shape (n_classes, n_decisions), optional
        Cost of each decision for each class, in the order of the columns of `y_proba`, instead of a
        threshold; the result is in the same units.
    X : array-like or data frame of shape (n_samples, n_features), optional
        Features for the regret of grouping. The default `model` reads numbers, times and
        categories, with missing values; a warning names columns that are left out
        (:ref:`features`). Any other model receives X unchanged.
    model : classifier, optional
        Predicts the label from the features and the logits of the forecast. The default corrects
        the recalibrated forecast as :class:`~skcalib.GroupingLossEstimator` does, and leaves it
        unchanged where no correction lowers the log loss on the other folds.
    notion : str or Notion, default="canonical"
        As in :func:`~skcalib.proper_calibration_error`. A threshold with several classes needs
        "top_label" (act if the predicted class is right), "classwise" (the mean over classes) or
        "cumulative" (act if the class is at most k; the mean over k). Of several labels with
        missing cells (:class:`~skcalib.data.notions.Multilabel`) each part is the mean over labels
        of that of their known cells, and its limits and standard error are the means of theirs:
        valid for any dependence between labels, and longer than needed.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels. Intervals then allow for
        dependence within clusters, and folds hold whole clusters.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds and of the model of `X`.
    n_jobs : int, default=None
        Number of parallel jobs, over problems of the notion and folds of the model.

    Returns
    -------
    DecisionRegret
        ``expected_cost``, ``calibration``, ``grouping`` (None without `X`) and ``rest``, each with
        ``estimate``, ``low``, ``high`` and ``standard_error``, and ``changed``, the share of the
        samples whose decision recalibration changes. For two classes, intervals of savings follow
        from exact limits of the shares of events and non-events whose decision changes. They are
        Student's for several classes or problems, and for the other parts.

        For two decisions the upper limit of ``calibration`` needs no family of maps. It is the
        largest upper limit of the mean saving by the other decision over ranges of forecasts beside
        the threshold. It covers :math:`E\, D(C, S)` where C crosses the threshold at most once on
        either side of it. For more decisions or classes it allows for the error of the maps.

    Raises
    ------
    ValueError
        For invalid input, for `X` with a sketch, and unless exactly one of `threshold` and `costs`
        is given.

    See Also
    --------
    skcalib.scores.Elementary : The cost at a threshold, for errors, intervals and scorers.
    GroupingLossEstimator : The grouping loss of a proper score.

    Notes
    -----
    Computational cost: the maps of the default calibration error are fitted in each of five folds
    and, with `X`, the model is fitted five times. Where recalibration changes no decision, the
    first part is zero, and its upper limit is what other maps may save.

    Examples
    --------
    >>> from skcalib import decision_regret
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(5000, random_state=0)
    >>> found = decision_regret(data.y, data.y_proba, threshold=0.2)
    >>> print(found.expected_cost)
    0.042 [0.039, 0.045]
    """
    score = score_of_decision(threshold, costs)
    if model is not None:
        check_estimator(model, "model")
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"model must be a classifier with predict_proba, not {shown(model)}: wrap others "
                "in CalibratedClassifierCV."
            )
        if sample_weight is not None:
            warn_without_weight(model, "costs")
    if X is not None and isinstance(y_true, ForecastSummary):
        raise ValueError("A sketch has no features: leave out X, or pass labels and y_proba.")
    check_indices(y_true=y_true, y_proba=y_proba, X=X, sample_weight=sample_weight)
    problem, notion = only_problem(
        y_true,
        y_proba,
        resolve_notion(notion),
        groups=groups,
        incomplete=True,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    if isinstance(notion, Canonical) and threshold is not None and len(problem.classes) == 2:
        problem = event_last(problem, pos_label)
    if X is not None:
        X = weighted_features(X, sample_weight, len(np.asarray(y_true)))
    regret = partial(
        _regret,
        score=score,
        model=model,
        seed=seed_of(random_state),
        confidence_level=confidence_level,
        n_jobs=n_jobs,
    )
    if not problem.is_incomplete:
        return regret(problem, notion, X)
    regrets = []
    of_labels = zip(problem.of_labels(), ~np.isnan(problem.labels_or_target.T), strict=True)
    for label, known in of_labels:
        features = take_rows(X, np.flatnonzero(known))
        regrets.append(regret(label, Canonical(), features))
    intervals = [record._parts() for record in regrets]
    means = {
        name: reduced_fields(MeanInterval, [parts[name] for parts in intervals], notion)
        for name in intervals[0]
    }
    changed = float(np.mean([record.changed for record in regrets]))
    return replace(regrets[0], **means, changed=changed)


def _regret(problem, notion, X, *, score, model, seed, confidence_level, n_jobs):
    """The regret of the samples of a problem, with the rows of features that belong to them."""
    smoother = LogitSmoother(random_state=seed)
    solved: Any = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
    share = 1 / len(solved) if notion.reduce == "mean" else 1.0
    conditional = [part.conditional for part in solved]
    best, grouping = conditional, None
    if X is not None:
        best = [_predict(model, part, X, seed, n_jobs) for part in solved]
        grouping = saving_interval(score, solved, conditional, best, share, confidence_level)

    def mean_cost(forecasts):
        rows = {"weight": solved[0].weight, "square": solved[0].square}
        rows |= {"cluster": solved[0].cluster, "confidence_level": confidence_level}
        if len(solved) == 1:
            (forecast,) = forecasts
            loss = partial(score.loss, forecast=forecast)
            return mean_loss_interval(loss, forecast, solved[0].target, **rows)
        losses = map(score.loss, [part.target for part in solved], forecasts)
        return mean_interval(share * sum(losses), **rows)

    changed = [
        weighted_mean(
            score.decisions(part.forecast) != score.decisions(part.conditional), part.weight
        )
        for part in solved
    ]
    return DecisionRegret(
        expected_cost=mean_cost([part.forecast for part in solved]),
        calibration=regret_interval(score, solved, share, confidence_level),
        grouping=grouping,
        rest=mean_cost(best),
        changed=float(np.mean(changed)),
        score=score,
    )


@checks_parameters
def net_benefit(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    threshold: float = 0.5,
    *,
    notion: NotionLike = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Net benefit of acting where the probability exceeds a threshold t; higher is better.

    With the shares TP and FP of true and false positives among all samples (Vickers and Elkin,
    2006, doi:10.1177/0272989X06295361),

    .. math:: \frac{TP}{n} - \frac{FP}{n}\, \frac{t}{1 - t} = \bar y - \frac{\bar L_t}{1 - t},

    where :math:`L_t` is the cost of :class:`~skcalib.scores.Elementary`. It is in units of the
    benefit of a true positive, and at most the event rate; acting nowhere has 0. Scorers are
    ``get_scorer("net_benefit")`` and ``ProbaScorer(net_benefit, greater_is_better=True)``.

    Parameters
    ----------
    threshold : float, default=0.5
        The threshold, between 0 and 1; the odds t / (1 - t) are the harm of a false positive in
        units of the benefit of a true one.

    Returns
    -------
    float
        The net benefit.

    See Also
    --------
    skcalib.DecisionCurveDisplay : The net benefit at all thresholds, with intervals.
    skcalib.ComparisonReport : With ``threshold=``, the difference in net benefit of two models.
    decision_regret : What recalibration would save.

    Examples
    --------
    >>> from skcalib.risk_models import net_benefit
    >>> round(net_benefit([1, 0, 0, 1, 0], [0.9, 0.6, 0.2, 0.3, 0.1], threshold=0.25), 3)
    0.333
    """
    score, benefits = Elementary(threshold), []
    notion = resolve_notion(notion)
    samples = read_samples(y_true, y_proba, notion, sample_weight, labels, pos_label)
    for event in samples.scored():
        cost = event.problem(np.arange(2)).mean_loss(score)
        benefits.append(
            float(weighted_mean(event.event, event.weight)) - cost / (1 - score.threshold)
        )
    return float(np.mean(benefits)) if samples.notion.reduce == "mean" else sum(benefits)


def score_of_decision(threshold: float | None, costs: ArrayLike | None) -> DecisionCost:
    """The cost of a decision as a score."""
    if threshold is not None and costs is None:
        return Elementary(threshold)
    if costs is not None and threshold is None:
        return DecisionCost(costs)
    raise ValueError(
        "Pass either threshold= (a probability) or costs= (a row for each class, a column for "
        "each decision)."
    )


_NEVER = 1e-12  # probability that stands for 0 and for the distance from 1


def _predict(model, solved, X, seed, n_jobs):
    """Out-of-fold probabilities of the label, from the features and the forecast."""
    target, weight = solved.target, solved.weight
    label = target.argmax(axis=1)
    if (label == label[0]).all():
        return target  # nothing to learn
    folds = check_folds(5, target, random_state=seed, cluster=solved.cluster)
    if model is None:
        return _correct(solved, X, folds, seed, n_jobs)
    if any(np.ptp(label[train]) == 0 for train, _ in folds):
        n_rarest = np.unique(label, return_counts=True)[1].min()
        raise ValueError(
            "model is cross-validated, and the training samples of a fold have one class: the "
            f"other has {n_rarest} of {len(label)} samples. Omit model, or pass more of them."
        )
    refuse_sparse(X, "X")
    forecast = solved.forecast[:, 1:] if target.shape[1] == 2 else solved.forecast
    logits = logit(np.clip(forecast, _NEVER, 1 - _NEVER))  # which a tree can separate
    if hasattr(X, "assign"):
        inputs = X.assign(**{f"forecast_logit_{k}": row for k, row in enumerate(logits.T)})
    else:
        inputs = np.column_stack([np.asarray(X).reshape(len(logits), -1), logits])
    params = {} if weight.min() == weight.max() else weight_params(model, weight)
    columns = np.zeros_like(target)
    with threads_for(inputs, n_jobs):
        columns[:, np.unique(label)] = cross_val_predict(
            clone(model),
            inputs,
            label,
            cv=folds,
            method="predict_proba",
            n_jobs=n_jobs,
            params=params,
        )
    return columns


def _correct(solved, X, folds, seed, n_jobs):
    """The recalibrated forecasts, corrected by the features where that lowers the log loss."""
    table = encode_features(X).values
    target, weight = solved.target, weights_of_mean_one(solved.weight)
    start = log_forecast(solved.conditional, detection_limit(solved.conditional))
    paths = held_out_paths(start, table, target, weight, folds, seed=seed, n_jobs=n_jobs)

    def losses(step, rows):
        return LogLoss().loss(target[rows], softmax(start[rows] + step, axis=1))

    mixing, corrected = Mixing(losses, paths, weight, solved.cluster), solved.conditional.copy()
    for test, mixture in mixing.of_other_folds(folds):
        if mixture.weights.any():
            corrected[test] = softmax(start[test] + mixture.of(paths, test), axis=1)
    return corrected
