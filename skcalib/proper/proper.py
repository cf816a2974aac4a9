r"""Proper calibration errors: error, refinement, sharpness, decomposition and upper bound.

The estimates are weighted means of terms of each sample. `ProperTerms` holds arrays over samples
whose weighted means estimate the loss of the forecast, its calibration error and its refinement.
Without a smoother and a method, the terms of the Brier score and of the log loss are those of
averaged recalibration maps, which `skcalib.proper.map_average` defines. With the calibrated scores
:math:`\hat C` that a smoother estimates without the label of the sample, they are

=========  =====================================================  =============================
method     calibration                                            refinement
=========  =====================================================  =============================
"risk"     L(Y, S) - refinement                                   L(Y, Ĉ), or H(Ĉ) for P24
"direct"   D(Ĉ, S)                                                as for "risk"
"cross"    (D(Ĉ, S) + L(Y, S) - L(Y, Ĉ)) / 2 = c <Y - S, Ĉ - S>   L(Y, S) - calibration
=========  =====================================================  =============================

With a smoother, "auto" is "cross" for scores that are a quadratic form, and "risk" for the others.
Without one, an explicit method, or another score than these two, uses `LogitSmoother`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from skcalib._util.formatting import Record
from skcalib._util.messages import refusal
from skcalib._util.parallel import run_each
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, Method
from skcalib._util.validation import check_finite_columns, check_indices, drop_zero_weights
from skcalib.data.clusters import outside_level
from skcalib.data.labels import check_label_list, check_y, one_hot, unique_labels
from skcalib.data.notions import Canonical, Notion, NotionLike, resolve_notion
from skcalib.data.problem import (
    LabelsLike,
    Problem,
    check_problem,
    only_problem,
    over_labels,
    over_problems,
    reduced,
    reduced_fields,
)
from skcalib.links.averaging import PER_CLASS, averaged_map
from skcalib.proper.map_average import AveragedProblem, averaged_problem, compress_rows, n_fitted
from skcalib.scores import (
    Brier,
    Divergence,
    LogLoss,
    LossLike,
    ProperScore,
    Spherical,
    resolve_loss,
    resolve_method,
    weighted_mean,
)
from skcalib.smoothers import (
    DirichletKernel,
    LogitSmoother,
    Smoother,
    SmootherLike,
    resolve_smoother,
)
from skcalib.smoothers._base import smooth_other_clusters


@dataclass(frozen=True)
class SmoothedProblem:
    """One problem of a notion with its calibrated scores Ĉ, which depend on no score.

    ``by_entropy`` is true if the smoother estimates the refinement by the entropy of Ĉ.
    """

    forecast: np.ndarray
    target: np.ndarray
    conditional: np.ndarray
    weight: np.ndarray
    by_entropy: bool
    square: np.ndarray | None = None
    cluster: np.ndarray | None = None

    def refinement(self, score: ProperScore) -> np.ndarray:
        """Refinement of each sample, by the rule of the smoother."""
        if self.by_entropy:
            return score.entropy(self.conditional)
        return score.loss(self.target, self.conditional)


def smooth_held_out(problem: Problem, smoother: Smoother) -> SmoothedProblem:
    """Each Ĉ by a clone of the smoother without the label of the sample, or of its cluster.

    The samples of a row that stands for several are divided among five random parts.
    """
    by_entropy = smoother.refinement == "entropy"
    if problem.square is not None:
        problem, parts = problem.split(5, smoother.random_state)
        conditional = np.empty_like(problem.forecast)
        for part in parts:
            others = problem.take(np.setdiff1d(np.arange(len(problem.weight)), part))
            recalibrate = averaged_map(
                others.forecast, others.outcome, others.weight, others.square
            )
            conditional[part] = recalibrate(problem.forecast[part])
    elif problem.cluster is not None:
        conditional = smooth_other_clusters(
            smoother, problem.forecast, problem.target, problem.weight, problem.cluster
        )
    else:
        fitted = clone(smoother).fit(problem.forecast, problem.target, problem.weight)
        conditional, by_entropy = fitted.smooth_held_out(), fitted.refinement == "entropy"
    return SmoothedProblem(
        problem.forecast,
        problem.target,
        conditional,
        problem.weight,
        by_entropy,
        problem.square,
        problem.cluster,
    )


def solve_notion(
    problem: Problem,
    *,
    notion: Notion,
    smoother: Smoother | None,
    n_jobs: int | None = None,
    merge: bool = False,
) -> list[SmoothedProblem] | list[AveragedProblem]:
    """Estimate C for every problem of a notion; without a smoother by averaged maps.

    With `merge` the rows of the only problem may stand for several samples, see `compress_rows`;
    rows of several problems belong to the same samples.
    """
    problems = problems_of(problem, notion)
    if smoother is None:
        first = list(islice(problems, 2))
        _warn_if_slow(*first[0].forecast.shape)
        if merge and len(first) == 1:
            first = [compress_rows(first[0])]
        return run_each(
            averaged_problem, ((part,) for part in chain(first, problems)), n_jobs=n_jobs
        )
    if problem.square is not None and type(smoother) is not LogitSmoother:
        raise ValueError(
            "A smoother leaves out the label of each sample, so it needs the samples, not a "
            "sketch: leave out smoother=."
        )
    return run_each(smooth_held_out, ((part, smoother) for part in problems), n_jobs=n_jobs)


def problems_of(problem: Problem, notion: Notion) -> Iterator[Problem]:
    """The problems of a notion; that of all classes is the problem itself."""
    if type(notion) is Canonical:
        yield problem
        return
    for forecast, target in notion.problems(problem.forecast, problem.target):
        yield replace(problem, forecast=forecast, labels_or_target=target)


def _warn_if_slow(n_samples, n_classes):
    """Warn before the averaged maps of several classes take about ten seconds or more.

    Slopes and shifts of single classes have products of all pairs of classes.
    """
    time = (n_fitted(n_samples, n_classes) + n_samples / 20) * n_classes
    if n_samples >= PER_CLASS * n_classes:
        time *= 1 + (n_classes / 140) ** 2
    if n_classes > 2 and time > SIZES.slow_averages:
        warnings.warn(
            f"The default estimate for {n_samples:,} samples of {n_classes:,} classes takes about "
            "ten seconds or more: pass a random part of the samples, or notion='top_label'.",
            UserWarning,
            stacklevel=outside_level(),
        )


def resolve_estimate(
    smoother: SmootherLike, method: Method, score: ProperScore
) -> tuple[Smoother | None, str]:
    """The smoother and the method of a score; (None, "auto") stands for averaged maps."""
    automatic = isinstance(method, str) and method == "auto"
    if smoother is None and automatic and type(score) in (Brier, LogLoss):
        return None, "auto"
    return resolve_smoother(smoother).for_loss(score), resolve_method(method, score)


def reads_only(loss: object, notion: Notion, smoother: SmootherLike, method: Method) -> bool:
    """Whether only code of the library gets the forecasts, which certainly does not change them."""
    known = loss in ("brier", "log") if isinstance(loss, str) else type(loss) in (Brier, LogLoss)
    automatic = isinstance(method, str) and method == "auto"
    return known and type(notion) is Canonical and smoother is None and automatic


def proper_terms(
    problem: Problem,
    *,
    loss: LossLike,
    notion: NotionLike,
    smoother: SmootherLike,
    method: Method,
    n_jobs: int | None = None,
) -> ProperTerms:
    """Arguments of a public function -> `ProperTerms`, whose rows may stand for several samples."""
    score, notion = resolve_loss(loss), resolve_notion(notion)
    smoother, method = resolve_estimate(smoother, method, score)
    problem.require_order(notion, score)
    solved = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs, merge=True)
    return reduce_terms(solved, score=score, notion=notion, method=method)


def mean_distance(
    problem: Problem,
    *,
    loss: Divergence,
    notion: NotionLike,
    smoother: SmootherLike,
    method: Method,
    n_jobs: int | None = None,
) -> float:
    """Mean distance of the calibrated scores from the forecasts, where there is no loss."""
    if not isinstance(method, str) or method != "direct":
        raise ValueError(
            f"{loss!r} is a distance without a loss, which only method='direct' can use, got "
            f"method={method!r}."
        )
    rule = resolve_notion(notion)
    smoothed = solve_notion(
        problem, notion=rule, smoother=resolve_smoother(smoother), n_jobs=n_jobs
    )
    means = [
        weighted_mean(loss.divergence(part.conditional, part.forecast), part.weight)
        for part in smoothed
    ]
    return float(sum(means)) / (len(means) if rule.reduce == "mean" else 1)


class ProperTerms:
    """Arrays over samples, reduced over the problems of the notion, computed when read."""

    def __init__(self, parts: Sequence[_SmoothedTerms | _AveragedTerms], reduce: str) -> None:
        self._parts, first = parts, parts[0].solved
        self._share = 1 / len(parts) if reduce == "mean" else 1.0
        self.weight, self.square, self.cluster = first.weight, first.square, first.cluster

    @cached_property
    def loss(self) -> np.ndarray:
        """Loss of the forecast (n,)."""
        return self._total("loss")

    @cached_property
    def calibration(self) -> np.ndarray:
        """Calibration error (n,)."""
        return self._total("calibration")

    @cached_property
    def refinement(self) -> np.ndarray:
        """Refinement (n,)."""
        return self._total("refinement")

    @cached_property
    def influence(self) -> np.ndarray | None:
        """Paired differences of losses (n,), which give the standard error; None for "direct"."""
        return self._total("influence")

    @cached_property
    def uncertainty(self) -> float:
        """Entropy of the mean label."""
        return self._total("uncertainty")

    def mean(self, name: str) -> float:
        """Weighted mean of a term."""
        return float(weighted_mean(getattr(self, name), self.weight))

    def _total(self, name):
        values = [getattr(part, name) for part in self._parts]
        if values[0] is None or len(values) == 1:
            return values[0]
        return self._share * sum(values)


def reduce_terms(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    *,
    score: ProperScore,
    notion: Notion,
    method: str,
) -> ProperTerms:
    """Terms of the problems of a notion, reduced to one record."""
    if isinstance(solved[0], AveragedProblem):
        return ProperTerms([_AveragedTerms(part, score) for part in solved], notion.reduce)
    return ProperTerms([_SmoothedTerms(part, score, method) for part in solved], notion.reduce)


class _AveragedTerms:
    """As `ProperTerms`, of one problem with averaged maps; computed where they are read."""

    def __init__(self, solved, score):
        self.solved, self._score = solved, score

    @cached_property
    def loss(self):
        return self.solved.loss(self._score)

    @property
    def calibration(self):
        return self.solved.errors(self._score)

    @property
    def influence(self):
        return self.solved.differences(self._score)

    @property
    def refinement(self):
        return self.solved.refinement(self._score, self.loss)

    @property
    def uncertainty(self):
        return float(self._score.entropy(self.solved.mean_target))


class _SmoothedTerms:
    """As `ProperTerms`, of one problem with a smoother."""

    def __init__(self, solved, score, method):
        self.solved, target, forecast = solved, solved.target, solved.forecast
        self.uncertainty = float(score.entropy(weighted_mean(target, solved.weight)))
        self.loss, self.refinement = score.loss(target, forecast), solved.refinement(score)
        if method == "direct":
            self.calibration = score.divergence(solved.conditional, forecast)
            self.influence = None
        elif method == "risk":
            refuse_infinite(self.refinement)
            self.calibration = self.influence = self.loss - self.refinement
        else:
            self.influence = self.loss - score.loss(target, solved.conditional)
            distance = score.divergence(solved.conditional, forecast)
            self.calibration = 0.5 * (distance + self.influence)
            self.refinement = self.loss - self.calibration


def refuse_infinite(refinement: np.ndarray) -> None:
    """Raise for infinite losses of the smoother, which are not a property of the forecast."""
    infinite = np.sum(~np.isfinite(refinement))
    if infinite:
        raise ValueError(
            f"The smoother gives probability 0 to the label of {infinite} held-out samples, so "
            "its own log loss is infinite and no comparison is possible: use the default "
            "smoother, method='direct' or loss='brier'."
        )


# --- Errors ---------------------------------------------------------------------------------------


@checks_parameters
def proper_calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike | Divergence = "brier",
    notion: NotionLike = "canonical",
    smoother: SmootherLike = None,
    method: Method = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> float:
    r"""Calibration error of a proper score: the loss that a perfect recalibration would remove.

    Estimates :math:`CE = E\, D(C, S)` with :math:`C = E[Y|S]`, where D is the divergence of the
    score (P24, G22): the squared calibration error for Brier, the Kullback-Leibler calibration
    error for the log loss.

    **Default** (``smoother=None`` and ``method="auto"``), for the Brier score and the log loss: an
    average of nested recalibration maps :math:`m(S) = softmax(\log S + \sum_j \theta_j g_j(S))`.
    The maps have shifts, slopes, slopes of single classes, and curves of the logits; one map is the
    identity. Each is fitted to all samples by penalised maximum likelihood. Its weight :math:`a_m`
    is the softmax of its log evidence. The estimate is :math:`\sum_m a_m T_m`, where the term of
    the identity is 0 and those of the other maps are

    .. math::

        T_m^{Brier} &= \frac1n \sum_i c \langle y_i - S_i, m(S_i) - S_i \rangle
            - \frac{c\, (h_i^\top e_i)^\top H^{-1} x_i}{1 - l_i} , \\
        T_m^{log} &= \frac1n \sum_i L(y_i, S_i) - L(y_i, m(S_i))
            - \frac{x_i^\top H^{-1} x_i}{2 (1 - l_i)} .

    Here :math:`e_i = y_i - m(S_i)` is the residual, :math:`x_i = g_i^\top e_i` the score, H the
    penalised Hessian, :math:`l_i` the leverage and :math:`h_i = \partial m(S_i) / \partial \theta`.
    The constant c is 1/2 for two classes and 1 otherwise. The second terms subtract the optimism of
    the fit to first order, so neither folds nor random numbers are needed. The optimism of the
    weights is not subtracted, so the estimate is slightly above zero on average for calibrated
    forecasts. It is too small if no map has the form of C, and if an error is too small to give its
    map much weight. :ref:`averaged_maps` lists the functions :math:`g_j`, the maps and the cost of
    parameters in the log evidence.

    **With a smoother or a method**, :math:`\hat C` is the smoother's estimate of C without the
    sample's own label:

    - ``"risk"``: :math:`\frac1n \sum_i L(y_i, S_i) - L(y_i, \hat C_i)`, a plain mean of paired
      differences (Berta and others, arXiv:2602.24230, 2026). A lower bound in expectation for any
      smoother and any score; the bias is of second order in the error of :math:`\hat C`. For a
      smoother with ``refinement="entropy"``, the default of `DirichletKernel`, the second term is
      the mean entropy :math:`H(\hat C_i)` instead (P24 eq. 14), which is not a lower bound.
    - ``"direct"``: :math:`\frac1n \sum_i D(\hat C_i, S_i)` (P24 eq. 9). Never negative, biased
      upward by the variance of :math:`\hat C`. D may also be a distance without a loss, `Lp` or
      `TotalVariation`: the L_p calibration errors of P24.
    - ``"cross"``: for Brier, :math:`\frac1n \sum_i c \langle y_i - S_i, \hat C_i - S_i \rangle`,
      the average of "direct" and the loss-based "risk". The variance of :math:`\hat C` cancels;
      unbiased if the smoother is, but not a lower bound.
    - ``"auto"``: "cross" if D is a multiple of the squared distance, as for Brier, else "risk".

    With ``smoother=None`` and an explicit method, or a score other than Brier and log (spherical
    or user-defined), the smoother is `LogitSmoother`: the same maps, fitted out of fold.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_classes), or ForecastSketch
        Labels. Also soft labels: label distributions (rows that sum to one) or counts of
        annotators, whose mean loss is used. Also an indicator matrix with ``notion=Multilabel()``,
        or a sketch in place of labels, forecasts and weights. A `smoother` needs the samples and
        does not accept a sketch.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), optional
        Probability of the positive class, or of each class; omitted with a sketch. Rows sum to one.
    loss : {"brier", "log", "spherical", "rps"}, ProperScore or Divergence, default="brier"
        The proper score; with ``method="direct"`` also a distance without a loss.
    notion : str or Notion, default="canonical"
        "canonical": all classes at once. "classwise": the mean over one-vs-rest problems, each with
        the binary convention of the score. "top_label": the confidence against whether the
        prediction is right. "auto": the positive class of two, otherwise the top label.
        "cumulative": for ordered classes, the mean over the events that the class is at most k.
    smoother : None, str, Smoother or classifier, default=None
        Estimates C. None is described above. "isotonic", "quantile" (or "binning"), "uniform",
        "smooth" and "kernel" are smoothers, with the names of ``strategy=`` of diagrams. A
        scikit-learn classifier is cross-fitted on the forecasts (`CrossFitted`).
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        See above.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean and of the maps or the smoother.

    Returns
    -------
    float
        The error, without a root: in squared units for Brier (halved for K = 2, as in
        scikit-learn), in nats for the log loss. May be negative, as an unbiased estimate of zero
        must be, except for "direct". Infinite if the log loss of the forecasts is infinite.

    Raises
    ------
    ValueError
        For invalid input, for "cross" with a score that is not a quadratic form, for fewer than two
        samples, and if the smoother gives probability 0 to a label under the log loss.

    See Also
    --------
    CalibrationErrorEstimator : The same with a confidence interval.
    skcalib.recalibration.ModelAverageScaling : The averaged map as a recalibrator.
    score_decomposition : All terms of a loss at once.

    Notes
    -----
    The default fits at most 8 maps for two classes and 17 for more, each in a few Newton steps. A
    step costs O(n J^2) for two classes, with J < 20 functions :math:`g_j`, and O(n K^2) for more.
    Large data are summed or subsampled first (:ref:`proper_errors`). `LogitSmoother` fits the maps
    in each of five folds; `DirichletKernel` is O(n^2 K).

    With more than two classes and fewer than 20 samples for each, there are no maps of single
    classes; from 20 classes on, there is a warning. Where the fits take about ten seconds or more,
    there is a warning before. The default is neither a lower nor an upper bound in expectation.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> round(proper_calibration_error(data.y, data.y_proba[:, 1], loss="log"), 3)
    0.036
    >>> round(data.truth["log"], 3)
    0.037
    """
    return _mean_term(
        "calibration",
        y_true,
        y_proba,
        notion=notion,
        columns={"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label},
        loss=loss,
        smoother=smoother,
        method=method,
        n_jobs=n_jobs,
    )


@checks_parameters
def refinement_loss(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike = "brier",
    notion: NotionLike = "canonical",
    smoother: SmootherLike = None,
    method: Method = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> float:
    r"""Refinement: the loss that remains after a perfect recalibration of the forecasts.

    Estimates :math:`E\, H(C) = E\, L(Y, C)` with :math:`C = E[Y|S]`, the generalised entropy of the
    calibrated scores. Positive, lower is better. By default it is, for the Brier score and the log
    loss, the mean loss minus the default calibration error. By "risk" it is estimated as the mean
    loss of :math:`\hat C` on held-out labels, which is biased upward by the error of :math:`\hat
    C`. For smoothers with ``refinement="entropy"``, the default of `DirichletKernel`, it is the
    mean entropy of :math:`\hat C` instead (P24 eq. 15). By "cross" it is the mean loss minus the
    "cross" calibration error, which is affected only by the bias of the smoother. With the same
    smoother and method, mean loss = calibration error + refinement exactly, except for "direct".
    Where a forecast gave probability 0 to the label, the log loss is infinite; by default the
    refinement of this sample is then the loss of the averaged map.

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, sample_weight, labels, pos_label, n_jobs
        As in :func:`~skcalib.proper_calibration_error`.
    method : {"auto", "risk", "direct", "cross"}, default="auto"
        As in :func:`~skcalib.proper_calibration_error`; with a smoother "direct" is the same as
        "risk" here.

    Returns
    -------
    float
        Refinement in the units of the loss.

    Raises
    ------
    ValueError
        As :func:`~skcalib.proper_calibration_error`.

    See Also
    --------
    score_decomposition : All terms at once.

    Examples
    --------
    >>> from skcalib import refinement_loss
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> round(refinement_loss(data.y, data.y_proba), 2), round(data.truth["refinement_brier"], 2)
    (0.16, 0.16)
    """
    return _mean_term(
        "refinement",
        y_true,
        y_proba,
        notion=notion,
        columns={"sample_weight": sample_weight, "labels": labels, "pos_label": pos_label},
        loss=loss,
        smoother=smoother,
        method=method,
        n_jobs=n_jobs,
    )


def _mean_term(name, y_true, y_proba, *, notion, columns, **estimation):
    """Mean of one of the `ProperTerms`; forecasts that others may change are copied first."""
    notion, loss = resolve_notion(notion), estimation["loss"]
    by_distance = isinstance(loss, Divergence) and not isinstance(loss, ProperScore)

    def mean(problem, notion):
        if by_distance and name == "calibration":
            return mean_distance(problem, notion=notion, **estimation)
        return proper_terms(problem, notion=notion, **estimation).mean(name)

    copy = not reads_only(loss, notion, estimation["smoother"], estimation["method"])
    return over_problems(y_true, y_proba, notion, mean, soft=True, copy=copy, **columns)


@checks_parameters
def sharpness(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    transform: Literal["simplex"] | None = None,
    loss: LossLike = "brier",
    notion: NotionLike = "canonical",
    smoother: SmootherLike = None,
    method: Method = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> float:
    r"""Sharpness (resolution): how much of the label's uncertainty the forecasts explain.

    Estimates :math:`E\, D(C, E[Y]) = H(E[Y]) - E\, H(C)` with :math:`C = E[Y|S]` (P24 eq. 4-5):
    uncertainty minus refinement. Higher is better. It does not depend on calibration, only on the
    information in S, and is never increased by a layer (P24 theorem 6.2). So it is defined for any
    representation Z. With ``transform="simplex"`` the columns of `y_proba` are features. They are
    standardised and mapped into the simplex by the injective map :math:`z \mapsto softmax(0, z)`.

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, method, sample_weight, labels, pos_label, n_jobs
        As in :func:`~skcalib.proper_calibration_error`; for refinement as in
        :func:`~skcalib.refinement_loss`. With ``transform="simplex"``, `y_proba` is any real array
        of shape (n_samples, n_features), and `labels` lists the classes in any order. `notion` must
        be "canonical", and `method` must be "risk" or "auto", which means "risk" here. Without a
        `smoother`, ``DirichletKernel("risk", refinement="loss")`` is used, because the entropy form
        is optimistic where a kernel overfits, and more so in more dimensions.
    transform : {None, "simplex"}, default=None
        None for probabilities; "simplex" for any representation.

    Returns
    -------
    float
        Sharpness in the units of the loss. At most the uncertainty; an estimate may be slightly
        negative if there is nothing to explain.

    Raises
    ------
    ValueError
        As :func:`~skcalib.proper_calibration_error`.

    See Also
    --------
    score_decomposition : All terms at once.

    Examples
    --------
    >>> from skcalib import sharpness
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(1000, random_state=0)
    >>> of_scores = sharpness(data.y, data.y_proba)
    >>> of_features = sharpness(data.y, data.X, transform="simplex")
    >>> round(of_scores, 2), round(of_features, 2)
    (0.16, 0.17)
    """
    estimation: dict[str, Any] = {"loss": loss, "smoother": smoother, "method": method}
    if isinstance(transform, str) and transform == "simplex":
        return _representation_sharpness(
            y_true, y_proba, sample_weight, labels, notion=notion, **estimation
        )
    if transform is not None:
        raise refusal("transform", "None or 'simplex'", transform, ["simplex"])

    def explained(problem, notion):
        terms = proper_terms(problem, notion=notion, n_jobs=n_jobs, **estimation)
        return terms.uncertainty - terms.mean("refinement")

    rule = resolve_notion(notion)
    problem = check_problem(
        y_true, y_proba, rule, sample_weight, labels, pos_label, soft=True, incomplete=True
    )
    return over_labels(problem, rule, explained)


# --- Sharpness of representations -----------------------------------------------------------------


def _representation_sharpness(
    y_true, representation, sample_weight, labels, *, notion, loss, smoother, method
):
    """Arguments of `sharpness` with ``transform="simplex"`` -> the sharpness of the features."""
    if not isinstance(resolve_notion(notion), Canonical):
        raise ValueError("sharpness of a representation needs notion='canonical'.")
    check_indices(y_true=y_true, y_proba=representation, sample_weight=sample_weight)
    y = check_y(y_true)
    features = check_finite_columns(representation, name="y_proba", n_samples=len(y))
    classes = unique_labels(y) if labels is None else check_label_list(labels)
    weight, target, features = drop_zero_weights(
        sample_weight, one_hot(y, classes), np.ascontiguousarray(features)
    )
    score = resolve_loss(loss)
    if not isinstance(method, str) or method not in ("auto", "risk"):
        raise ValueError(
            "sharpness of a representation needs method='risk': there is no forecast "
            "for the other methods."
        )
    chosen = resolve_smoother(DirichletKernel("risk", "loss") if smoother is None else smoother)
    smoother = chosen.for_loss(score)
    if target.shape[1] < 2:
        return 0.0  # one class: no uncertainty to explain
    # Standardise, then softmax(0, z): injective up to constant columns.
    features = _unit_reach(features)  # first, so that differences and squares do not overflow
    varies = np.ptp(features, axis=0) > 0
    centred = _unit_reach(np.where(varies, features - weighted_mean(features, weight), 0.0))
    spread = np.sqrt(weighted_mean(centred**2, weight))
    z = centred / np.where(spread > 0, spread, 1.0)
    forecast = softmax(np.column_stack([np.zeros(len(z)), z]), axis=1)
    smoothed = smooth_held_out(Problem(forecast, target, weight, classes), smoother)
    refinement = smoothed.refinement(score)
    refuse_infinite(refinement)
    return float(score.entropy(weighted_mean(target, weight)) - weighted_mean(refinement, weight))


def _unit_reach(columns):
    reach = np.abs(columns).max(axis=0)
    return columns / np.where(reach > 0, reach, 1.0)


# --- Score decomposition --------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreDecomposition(Record):
    """Terms of a mean loss; see :func:`~skcalib.score_decomposition`.

    ``loss = calibration + refinement`` and ``refinement = uncertainty - sharpness``.

    See Also
    --------
    skcalib.score_decomposition : Makes this record.
    """

    loss: float
    calibration: float
    refinement: float
    sharpness: float
    uncertainty: float


@checks_parameters
def score_decomposition(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike = "brier",
    notion: NotionLike = "canonical",
    smoother: SmootherLike = None,
    method: Literal["auto", "risk", "cross"] = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> ScoreDecomposition:
    r"""Decompose the mean loss: calibration + uncertainty - sharpness.

    .. math::

        E\, L(Y, S) = \underbrace{E\, D(C, S)}_{calibration} + \underbrace{E\, H(C)}_{refinement},
        \qquad E\, H(C) = \underbrace{H(E[Y])}_{uncertainty}
        - \underbrace{E\, D(C, E[Y])}_{sharpness}

    with :math:`C = E[Y|S]` (P24 eq. 4-5, G22). The estimates satisfy both identities exactly if the
    mean loss is finite. By default calibration is the average over recalibration maps that
    :func:`~skcalib.proper_calibration_error` defines, and refinement the rest of the loss.

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, sample_weight, labels, pos_label, n_jobs
        As in :func:`~skcalib.proper_calibration_error`.
    method : {"auto", "risk", "cross"}, default="auto"
        As in :func:`~skcalib.proper_calibration_error`. "direct" is not allowed: its terms do not
        add up.

    Returns
    -------
    ScoreDecomposition
        The terms, in the units of the loss.

    Raises
    ------
    ValueError
        As :func:`~skcalib.proper_calibration_error`; for ``method="direct"``.

    See Also
    --------
    corp_decomposition : The same by isotonic regression.
    DecompositionDisplay : Parts of the loss of several models as bars.

    Examples
    --------
    >>> from skcalib import score_decomposition
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> terms = score_decomposition(data.y, data.y_proba)
    >>> round(terms.loss, 3), round(terms.calibration, 3), round(terms.sharpness, 3)
    (0.168, 0.007, 0.09)
    """
    if isinstance(method, str) and method == "direct":
        raise ValueError(
            "method='direct' estimates the calibration error only, and does not add up with a "
            "refinement to the loss: use 'risk' or 'cross'."
        )
    notion = resolve_notion(notion)
    problem, notion = only_problem(
        y_true,
        y_proba,
        notion,
        soft=True,
        copy=not reads_only(loss, notion, smoother, method),
        incomplete=True,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )

    def terms(problem, notion):
        estimation = {"loss": loss, "smoother": smoother, "method": method, "n_jobs": n_jobs}
        return decompose(proper_terms(problem, notion=notion, **estimation))

    if not problem.is_incomplete:
        return terms(problem, notion)
    parts = [terms(label, Canonical()) for label in problem.of_labels()]
    return reduced_fields(ScoreDecomposition, parts, notion)


def decompose(terms: ProperTerms) -> ScoreDecomposition:
    """`ProperTerms` -> `ScoreDecomposition`."""
    refinement = terms.mean("refinement")
    return ScoreDecomposition(
        loss=terms.mean("loss"),
        calibration=terms.mean("calibration"),
        refinement=refinement,
        sharpness=terms.uncertainty - refinement,
        uncertainty=terms.uncertainty,
    )


# --- Upper bound ----------------------------------------------------------------------------------


@checks_parameters
def calibration_upper_bound(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike = "brier",
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Upper bound of the proper calibration error: mean loss minus its infimum (G22).

    :math:`U = E\, L(Y, S) - \inf H \ge CE`. It is estimated by a mean without bias, smoother, bins
    or bandwidth, and hardly depends on the sample size. An injective recalibration changes U and
    the calibration error by the same amount, so differences of U measure the gain.

    Parameters
    ----------
    y_true, y_proba, notion, sample_weight, labels, pos_label
        As in :func:`~skcalib.proper_calibration_error`.
    loss : {"brier", "log", "spherical", "rps"} or ProperScore, default="brier"
        A proper score whose entropy has an infimum.

    Returns
    -------
    float
        Not negative, in the units of the loss, not rooted.

    Raises
    ------
    ValueError
        For invalid input, and for scores without an infimum, for which there is no bound.

    See Also
    --------
    root_brier_score : The root of the bound for the Brier score.

    Examples
    --------
    >>> from skcalib import calibration_upper_bound
    >>> round(calibration_upper_bound([0, 1], [0.2, 0.6]), 3)
    0.1
    """
    # Domain and infimum of the score are checked before the data.
    score = resolve_loss(loss)
    if score.infimum is None:
        raise ValueError(
            f"{score!r} has no lowest entropy, so its mean loss is not a bound: use 'brier', "
            "'log', 'spherical' or a ProperScore that declares its infimum."
        )

    def bound(problem, notion):
        problem.require_order(notion, score)
        bounds = [part.mean_loss(score) - score.infimum for part in problems_of(problem, notion)]
        return reduced(bounds, notion)

    notion = resolve_notion(notion)
    # Scores and notions of others may write into the forecasts.
    copy = type(notion) is not Canonical or type(score) not in (Brier, LogLoss, Spherical)
    return over_problems(
        y_true,
        y_proba,
        notion,
        bound,
        soft=True,
        copy=copy,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )


@checks_parameters
def root_brier_score(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Root Brier score: :math:`RBS = \sqrt{U_{Brier}}`, an upper bound of the rooted error (G22).

    The root of the mean squared distance to the label, which is halved for K = 2 before the root as
    in scikit-learn. G22 sums both columns, so their binary value is :math:`\sqrt 2` times ours. It
    is at least the root of the Brier calibration error, and hardly depends on the sample size,
    unlike binned errors.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels, pos_label
        As in :func:`~skcalib.proper_calibration_error`.

    Returns
    -------
    float
        In [0, sqrt 2], for K = 2 in [0, 1]; units of probability. Cost: O(n K) in one pass by
        blocks of rows. Probabilities of type float64 are not copied.

    Raises
    ------
    ValueError
        For invalid input.

    See Also
    --------
    calibration_upper_bound : The same bound for other losses.

    Examples
    --------
    >>> from skcalib import root_brier_score
    >>> round(root_brier_score([0, 1], [0.2, 0.6]), 3)
    0.316
    """
    bound = calibration_upper_bound(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    return float(np.sqrt(bound))
