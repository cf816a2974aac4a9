"""Held-out losses of maps: the improvement by one map, the choice, and the mixture of all."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg import null_space
from scipy.special import expit
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from skcalib._util.formatting import Record, pvalue_text, record_text
from skcalib._util.messages import shown
from skcalib._util.parallel import join_folds, run_each
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import CV, ArrayLike, Label
from skcalib._util.validation import check_indices, check_weight
from skcalib.data.clusters import (
    check_groups,
    effective_size,
    independent_size,
    numbers_by_appearance,
    outside_level,
)
from skcalib.data.labels import one_hot
from skcalib.data.notions import Canonical
from skcalib.data.problem import Problem, ProblemSummary, check_problem
from skcalib.links.averaging import ModelAverage
from skcalib.links.newton import minimise_convex
from skcalib.recalibration.base import (
    FittedFromParts,
    FittedFromSketch,
    IdentityRecalibrator,
    Recalibrator,
    check_fitted_recalibrator,
    check_seed,
    fit_recalibrator,
    fit_without_each,
    folds_among,
    is_increasing,
    is_injective,
    recalibrated_proba,
    require_recalibrator,
    steps_of,
    takes_features,
)
from skcalib.recalibration.label_shift import InterceptRecalibrator
from skcalib.recalibration.one_vs_rest import (
    BetaCalibration,
    IsotonicRecalibrator,
    PlattScaling,
    QuadraticScaling,
    SplineScaling,
    VennAbersRecalibrator,
)
from skcalib.recalibration.scaling import (
    BiasCorrectedTemperatureScaling,
    LabelNoiseScaling,
    MatrixScaling,
    ModelAverageScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.scores import LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import (
    MeanInterval,
    between_forecasts,
    first_within_one_standard_error,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)

# --- Gains on held-out samples --------------------------------------------------------------------


@dataclass(frozen=True)
class CalibrationImprovement(Record):
    """Result of :func:`~skcalib.calibration_improvement`.

    Attributes
    ----------
    estimate : float
        Mean loss before minus mean loss after; positive if the map helps.
    low, high : float
        Confidence interval.
    standard_error : float
        Standard error of the estimate.
    pvalue : float
        Two-sided p-value of no improvement.
    loss_before, loss_after : float
        The two mean losses.
    injective : bool or None
        Whether the map is injective, as far as it is known.

    See Also
    --------
    skcalib.calibration_improvement : Makes this record.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    pvalue: float
    loss_before: float
    loss_after: float
    injective: bool | None

    def __str__(self) -> str:
        losses = f"loss {self.loss_before:.3g} before, {self.loss_after:.3g} after"
        return f"{record_text(self)} ({pvalue_text(self.pvalue)}; {losses})"


@checks_parameters
def calibration_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    *,
    loss: LossLike = "brier",
    confidence_level: float = 0.95,
    injective: bool | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
) -> CalibrationImprovement:
    r"""Improvement of a proper score by a recalibration, with interval and p-value.

    On data that were used to fit neither the classifier nor the map, the mean paired difference

    .. math:: \Delta = \frac{\sum_i w_i d_i}{\sum_i w_i} , \qquad
        d_i = L(y_i, s_i) - L(y_i, g(s_i)) ,

    has a Student interval, and a two-sided p-value of :math:`E\,d = 0`,
    :math:`2 P(t_{m-1} > |\Delta| / se)`, where m is the effective number of samples: below 0.05
    exactly where the 95 % interval excludes 0.

    For an *injective* map, which keeps all information in s, the improvement of the proper score
    **is** the improvement of the calibration error (G22), so no calibration error has to be
    estimated (:ref:`recalibration`). For every other map it is a lower bound of it.

    The interval accounts for the sampling of the held-out data, not for the training of the map.
    On the data that the map was fitted to, the estimate is optimistic.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out data.
    before : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities without the map.
    after : array-like of the same kind, or fitted recalibrator
        Probabilities with the map. Or the map itself, or a Pipeline of maps: it is applied to
        `before`, and declares whether it is injective (``injective_``).
    injective : bool, default=None
        Whether different forecasts remain different. None uses the recalibrator's declaration.
    labels : array-like of shape (n_classes,), default=None
        The class of each column; needed where `y_true` may lack a class. By default those of the
        recalibrator, if `after` is one.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels: differences
        are added by cluster before they are squared, and m is the effective number of clusters
        (:ref:`clusters`).

    Returns
    -------
    CalibrationImprovement
        The improvement. Under the log loss, a label may have probability 0 before the map and not
        after it: estimate and interval are then infinite, and the p-value is 0. The reverse case
        gives minus infinity.

    Raises
    ------
    ValueError
        For invalid input, for fewer than four samples, and if there are infinite losses both before
        and after, whose difference is undefined.
    NotFittedError
        If `after` is a recalibrator that is not fitted.

    Warns
    -----
    UserWarning
        Unless the map is known to be injective: then the estimate is a lower bound of the
        improvement of the calibration error.

    See Also
    --------
    RecalibratedClassifierCV : Train the map, with an option to choose it automatically.
    proper_calibration_error : What further recalibration could gain at most.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, calibration_improvement
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(4000, 3, random_state=0)
    >>> P, y = data.y_proba, data.y
    >>> temperature = TemperatureScaling().fit(P[:2000], y[:2000])
    >>> gain = calibration_improvement(y[2000:], P[2000:], temperature, loss="log")
    >>> gain.low > 0 and gain.injective
    True
    """
    score = resolve_loss(loss)
    is_recalibrator = is_fitted_map(after)
    if is_recalibrator:
        labels = getattr(after, "classes_", None) if labels is None else labels
        injective = is_injective(after) if injective is None else injective
    names: dict[str, Any] = {"labels": labels, "pos_label": pos_label}
    rows: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups}
    problem = check_problem(y_true, before, name="before", **rows, **names)
    problem.require_order(Canonical(), score)
    if is_recalibrator:
        classes = np.asarray(getattr(after, "classes_", problem.classes))
        if not np.array_equal(classes, problem.classes):
            raise ValueError(
                f"The recalibrator was fitted to columns of the classes {classes.tolist()}, but "
                f"those of before are {problem.classes.tolist()}."
            )
        recalibrated = recalibrated_proba(after, problem.forecast, problem.classes)
    else:
        check_indices(before=before, after=after)
        recalibrated = check_after(after, y_true, problem, sample_weight, names)
    improvement = improvement_of_forecasts(
        score, problem, recalibrated, confidence_level, injective, name="calibration_improvement"
    )
    if injective is not True:
        verb, advice = "is not", ""
        if injective is None:
            verb = "may not be"
            advice = (
                " Pass the fitted recalibrator as after, or injective=True if you know that it is."
            )
        warnings.warn(
            f"The map from before to after {verb} injective, so the improvement of the score is a "
            f"lower bound of the improvement of the calibration error.{advice}",
            UserWarning,
            stacklevel=outside_level(),
        )
    return improvement


def improvement_of_forecasts(
    score: ProperScore,
    problem: Problem,
    after: np.ndarray,
    confidence_level: float,
    injective: bool | None,
    *,
    name: str,
) -> CalibrationImprovement:
    """The record of forecasts `after` (n, K) in place of those of a problem."""
    before, weight, cluster = problem.forecast, problem.weight, problem.cluster
    improvement = improvement_of_losses(
        score.loss(problem.target, before),
        score.loss(problem.target, after),
        weight,
        confidence_level,
        injective,
        name=name,
        cluster=cluster,
    )
    between = between_forecasts(before, after)
    few = has_few_labels(between, problem.target, weight)
    if not (few and np.isfinite([improvement.estimate, improvement.standard_error]).all()):
        return improvement
    interval = mean_loss_interval(
        lambda target: score.loss(target, before) - score.loss(target, after),
        between,
        problem.target,
        confidence_level,
        weight=weight,
        cluster=cluster,
    )
    if interval.standard_error == 0:  # the same difference for every label
        return improvement
    pvalue = interval_pvalue(interval, confidence_level)
    return replace(improvement, **vars(interval), pvalue=pvalue)


def improvement_of_losses(
    before: np.ndarray,
    after: np.ndarray,
    weight: np.ndarray,
    confidence_level: float,
    injective: bool | None,
    *,
    name: str,
    cluster: np.ndarray | None = None,
) -> CalibrationImprovement:
    """The record of paired losses (n,) with positive weights; `name` is the caller's name.

    `cluster` (n,) are the numbers of the clusters of dependent samples.
    """
    if len(weight) < 4:
        raise ValueError(
            f"{name} needs at least 4 samples of positive weight, got {len(weight)}: fewer give "
            "no usable standard error."
        )
    gained, lost = np.isinf(before), np.isinf(after)
    if gained.any() and lost.any():
        raise ValueError(
            f"The losses are infinite for {np.sum(gained)} samples before and {np.sum(lost)} "
            "after, because labels of probability 0 occurred, and inf - inf is undefined: use "
            "loss='brier', or probabilities that are all positive."
        )
    interval = mean_interval(before - after, weight, confidence_level, cluster=cluster)
    return CalibrationImprovement(
        **vars(interval),
        pvalue=_pvalue(interval, independent_size(weight, cluster=cluster) - 1),
        loss_before=float(weighted_mean(before, weight)),
        loss_after=float(weighted_mean(after, weight)),
        injective=injective,
    )


def is_fitted_map(after: Any) -> bool:
    """Whether `after` is a recalibrator and no array; raises if it cannot be applied."""
    if not (isinstance(after, type) or hasattr(after, "fit") or hasattr(after, "predict_proba")):
        return False
    crossed = (
        ", or pass its out-of-fold probabilities as after, "
        "cross_val_predict(recalibrator, before, y_true, cv=5, method='predict_proba')"
    )
    check_fitted_recalibrator(
        after,
        features="pass its probabilities as after, model.predict_proba(X)",
        unfitted="" if takes_features(after) else crossed,
    )
    name = type(after).__name__
    if getattr(steps_of(after)[0], "input", "proba") == "logits":
        raise ValueError(
            f"This {name} takes logits, but before are probabilities: pass its probabilities as "
            "after, recalibrator.predict_proba(logits)."
        )
    if getattr(after, "_labels_of_columns", "classes_") != "classes_":
        raise ValueError(
            f"This {name} maps the probabilities of several labels, and before are those of "
            "classes: pass each label and its map, recalibrator.recalibrators_[k], on its own."
        )
    return True


def check_after(
    after: ArrayLike,
    y_true: ArrayLike,
    problem: Problem,
    sample_weight: ArrayLike | None,
    names: dict[str, Any],
) -> np.ndarray:
    """Validated probabilities `after`, one column for each class of the `problem` before."""
    mapped = check_problem(y_true, after, sample_weight=sample_weight, name="after", **names)
    if mapped.forecast.shape != problem.forecast.shape:
        raise ValueError(
            f"before and after must be of the same classes, but have {len(problem.classes)} and "
            f"{len(mapped.classes)} columns."
        )
    if not np.array_equal(mapped.classes, problem.classes):  # one column and two columns
        return mapped.forecast[:, ::-1]
    return mapped.forecast


def _pvalue(interval, degrees):
    """Two-sided, consistent with the interval."""
    if interval.estimate == 0 or np.isinf(interval.standard_error):
        return 1.0
    if interval.standard_error == 0:  # the same difference everywhere, or an infinite one
        return 0.0
    return float(2 * student.sf(abs(interval.estimate) / interval.standard_error, degrees))


# --- The choice among several maps ----------------------------------------------------------------


_FEW_CLASSES = 5  # up to which Venn-Abers predictors are compared
_FEW_FOR_MATRIX = 20  # classes, whose matrix has 420 parameters
_TOLERATED = 0.005  # share of the loss by which a single map may be worse than the mixture
_TOLERATED_FALL = 0.01  # the same of a map that does not fall against one that does


@dataclass(frozen=True)
class RecalibratorSelection(Record):
    """Result of the selection, with candidates from simple to complex.

    `to_frame` has a row for each candidate: ``name``, ``loss``, ``difference``, ``standard_error``
    and whether it was ``chosen``.

    Attributes
    ----------
    names : tuple of str
        Names of the candidates.
    losses : tuple of float
        Mean held-out loss of each.
    differences : tuple of float
        Difference of each loss from the lowest.
    standard_errors : tuple of float
        Standard error of each paired difference; 0 for the best.
    best : str
        The candidate with the lowest loss.
    chosen : str
        The first candidate whose difference is no larger than its standard error.
    gain : MeanInterval
        Mean held-out loss of the first candidate, by default the identity, minus that of the chosen
        one, with an interval. Slightly optimistic, because the choice was made on the same samples.

    See Also
    --------
    RecalibratedClassifierCV : Chooses with ``recalibrator="select"``.
    """

    names: tuple
    losses: tuple
    differences: tuple
    standard_errors: tuple
    best: str
    chosen: str
    gain: MeanInterval

    _beside = ("chosen", "best", "gain")

    def _columns(self):
        return {
            "name": self.names,
            "loss": self.losses,
            "difference": self.differences,
            "standard_error": self.standard_errors,
            "chosen": [name == self.chosen for name in self.names],
        }

    def __str__(self) -> str:
        width = max(map(len, self.names))
        rows = [f"{'':{width}}  held-out loss  worse than best by"]
        for name, loss, worse, error in zip(
            self.names, self.losses, self.differences, self.standard_errors, strict=True
        ):
            row = f"{name:{width}}  {loss:13.5f}  {worse:9.5f} +- {error:.5f}"
            rows.append(row + ("  chosen" if name == self.chosen else ""))
        return "\n".join(rows)


def default_candidates(
    n_classes: int, loss: LossLike = "log", n_samples: float = np.inf
) -> list[BaseEstimator]:
    """The maps that are compared or mixed, from simple to complex, fitted under `loss`.

    All begin with identity, temperature, uniform label noise, and a shift of the log odds. Two
    classes: Platt, beta, quadratic and spline. More: bias-corrected temperature, vector scaling,
    and matrix scaling of at most 20 classes with K (K - 1) samples. Then, of at most 200 classes,
    the model average, Venn-Abers of at most five, and strictly increasing isotonic regression.
    """
    kinds: list[Any] = [IdentityRecalibrator, TemperatureScaling, LabelNoiseScaling]
    kinds += [partial(InterceptRecalibrator, shrinkage="auto")]
    if n_classes == 2:
        kinds += [PlattScaling, BetaCalibration, QuadraticScaling, SplineScaling]
    else:
        kinds += [BiasCorrectedTemperatureScaling, VectorScaling]
        matrix = n_classes <= _FEW_FOR_MATRIX and n_classes * (n_classes - 1) <= n_samples
        kinds += [MatrixScaling] if matrix else []
    if n_classes > SIZES.many_classes:
        return [kind(loss=loss) for kind in kinds]
    kinds += [ModelAverageScaling]
    kinds += [VennAbersRecalibrator] if n_classes <= _FEW_CLASSES else []
    return [*(kind(loss=loss) for kind in kinds), IsotonicRecalibrator(loss=loss, strict=True)]


def select_recalibrator(
    candidates: Sequence[BaseEstimator] | None,
    proba: np.ndarray,
    y: np.ndarray,
    *,
    classes: np.ndarray,
    folds: Sequence[np.ndarray],
    weight: np.ndarray | None = None,
    loss: LossLike = "log",
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> tuple[RecalibratorSelection, BaseEstimator]:
    r"""Held-out loss of every candidate, and the one-standard-error rule.

    Each candidate c is fitted on the samples outside a test fold and evaluated on the fold. With at
    least 5,000 samples and 150 for each class, and folds of at most 30 %, `ModelAverageScaling` and
    `VectorScaling` are fitted once to all samples, and one Newton step leaves a fold out where that
    is accurate and the fold is like a random one (``skcalib.links.newton``). Let
    :math:`\ell_i(c)` be the loss of sample i, averaged if several folds test it, and b the
    candidate with the lowest mean. The choice is the first c in the list with

    .. math:: \bar\ell(c) - \bar\ell(b) \le se\bigl(\ell_i(c) - \ell_i(b)\bigr) .

    The differences are *paired*: similar candidates are distinguished although the losses
    themselves vary strongly. A complex map is chosen only if it is significantly better. Candidates
    with infinite mean loss are never chosen.

    The candidates go from simple to complex; None is `default_candidates`. `proba` (n, K) are
    forecasts of a model that was not fitted to the samples, `classes` the class of each column, and
    `folds` indices of test sets; samples in none of them are not used. Weights count in fits and
    means, and `confidence_level` is that of the interval of the gain. Returns the comparison and
    the chosen candidate, not fitted.
    """
    score = resolve_loss(loss)
    if candidates is None:
        candidates = default_candidates(len(classes), loss)
    names = candidate_names(candidates)
    (losses,), weight, _ = held_out_losses(
        candidates,
        proba,
        y,
        classes=classes,
        folds=folds,
        scores=(score,),
        weight=weight,
        n_jobs=n_jobs,
    )
    record = one_standard_error(names, losses, weight, confidence_level)
    return record, candidates[names.index(record.chosen)]


def held_out_losses(
    candidates: Sequence[BaseEstimator],
    proba: np.ndarray,
    y: np.ndarray,
    *,
    classes: np.ndarray,
    folds: Sequence[np.ndarray],
    scores: Sequence[ProperScore],
    weight: np.ndarray | None = None,
    n_jobs: int | None = None,
    forecasts: bool = False,
    average: ModelAverage | None = None,
) -> tuple[np.ndarray, np.ndarray | None, list[np.ndarray] | None]:
    """Losses (scores, candidates, n) of maps on held-out samples, weights (n,) and forecasts.

    Each candidate is fitted without each fold, and evaluated by all scores. Parameters are those of
    `select_recalibrator`; samples in no test fold and zero-weight samples are dropped. The held-out
    forecasts (n, K) of each candidate, of all samples, are None without `forecasts`. `average` is
    the fit of `ModelAverageScaling` to all samples, where it is known.
    """
    used = np.unique(np.concatenate(folds)) if folds else np.empty(0, dtype=int)
    folds = [test for test in folds if 0 < len(test) < len(used)]
    if len(folds) < 2:
        raise ValueError(
            "A recalibrator is fitted without each test fold of cv, which needs at least two of "
            "them: choose another cv."
        )
    n_folds, tasks = len(folds), []
    trains = [np.setdiff1d(used, test) for test in folds]
    for candidate in candidates:
        known = average if isinstance(candidate, ModelAverageScaling) else None
        fits: Sequence[Recalibrator | None] | None = None
        if len(used) == len(y):
            fits = fit_without_each(candidate, proba, y, weight, classes, folds, known)
        fits = fits or [None] * n_folds
        tasks += [(candidate, *task) for task in zip(fits, trains, folds, strict=True)]
    evaluate = partial(
        _of_fold,
        proba=proba,
        y=y,
        weight=weight,
        classes=classes,
        scores=scores,
        forecasts=forecasts,
    )
    parts = run_each(evaluate, tasks, n_jobs=n_jobs)
    starts = range(0, len(parts), n_folds)
    joined = [join_folds(parts[start : start + n_folds], folds, len(y)) for start in starts]
    n_scores, tested = len(scores), joined[0][1]
    losses = np.array([columns[:, :n_scores].T for columns, _ in joined]).swapaxes(0, 1)
    counts = tested if weight is None else tested & (weight > 0)
    held_out = [columns[:, n_scores:] for columns, _ in joined] if forecasts else None
    return losses[:, :, counts], None if weight is None else weight[counts], held_out


def held_out_forecasts(
    candidates: Sequence[BaseEstimator],
    problem: Problem,
    folds: Sequence[np.ndarray],
    n_jobs: int | None = None,
) -> list[np.ndarray]:
    """Held-out forecasts (n, K) of each map; a row of two classes may stand for several samples."""
    if problem.count is None:
        _, _, forecasts = held_out_losses(
            candidates,
            problem.forecast,
            _labels_of(problem),
            classes=problem.classes,
            folds=folds,
            scores=(),
            weight=problem.weight,
            n_jobs=n_jobs,
            forecasts=True,
        )
        return forecasts or []
    forecasts = [np.empty_like(problem.forecast, dtype=np.float64) for _ in candidates]
    for test in folds:
        train = problem.take(np.setdiff1d(np.arange(len(problem.weight)), test))
        for candidate, forecast in zip(candidates, forecasts, strict=True):
            fitted = fit_to_problem(candidate, train)
            forecast[test] = recalibrated_proba(fitted, problem.forecast[test], problem.classes)
    return forecasts


def fit_to_problem(candidate: BaseEstimator, problem: Problem) -> Any:
    """A fitted clone; a row of two classes may stand for several samples.

    Whether a fit converged is no subject of a comparison.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if problem.count is not None and not isinstance(candidate, IdentityRecalibrator):
            fitted: Any = clone(candidate)
            return fitted.fit_sketch(ProblemSummary(problem))
        y, weight = _labels_of(problem), problem.weight
        return fit_recalibrator(
            candidate, problem.forecast, y, weight, problem.classes, measure=False
        )


def _labels_of(problem):
    """Labels (n,), or label distributions."""
    return problem.labels if problem.outcome.ndim == 1 else problem.outcome


def one_standard_error(
    names: list[str],
    losses: np.ndarray,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    *,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    mixture: bool = False,
    falling: Collection[str] = (),
) -> RecalibratorSelection:
    """Losses (m, n) of candidates from simple to complex -> `RecalibratorSelection`.

    With `mixture` the last candidate is one of all others, and is chosen only where the mean loss
    of the choice among them is more than .5 % above its own. In place of one of the `falling` maps,
    which are not increasing, the first other map is chosen whose mean loss is at most 1 % higher,
    and lower than that of the first candidate. If there is none, it is the best other map whose
    mean loss is not significantly higher.
    """
    means = np.array([weighted_mean(row, weight) for row in losses])
    if np.isinf(means.min()):
        raise ValueError(
            "Every candidate gives probability 0 to a held-out label, so all log "
            "losses are infinite: add a candidate such as TemperatureScaling(), or choose by "
            "loss='brier'."
        )
    rows: dict[str, Any] = {"square": square, "cluster": cluster}
    chosen, best, intervals = first_within_one_standard_error(losses, weight, **rows)
    if mixture:
        if np.isfinite(means[:-1]).any():
            chosen, *_ = first_within_one_standard_error(losses[:-1], weight, **rows)
        chosen = chosen if means[chosen] <= (1 + _TOLERATED) * means[-1] else len(names) - 1
    if names[chosen] in falling:
        rising = [k for k, name in enumerate(names) if k and name not in falling]
        rising = [k for k in rising if means[k] <= means[0]]
        near = [k for k in rising if means[k] <= (1 + _TOLERATED_FALL) * means[chosen]]
        for k in sorted(rising, key=means.__getitem__):
            higher = losses[k] - losses[chosen]
            if not near and mean_interval(higher, weight, confidence_level, **rows).low <= 0:
                near = [k]
        chosen = near[0] if near else chosen
    return RecalibratorSelection(
        names=tuple(names),
        losses=tuple(means.tolist()),
        differences=tuple(interval.estimate for interval in intervals),
        standard_errors=tuple(interval.standard_error for interval in intervals),
        best=names[best],
        chosen=names[chosen],
        gain=mean_interval(losses[0] - losses[chosen], weight, confidence_level, **rows),
    )


def _of_fold(candidate, fitted, train, test, *, proba, y, weight, classes, scores, forecasts):
    """Losses (m, scores) and forecasts of the test rows, by `fitted` or a fit to the others."""
    if fitted is None:
        with warnings.catch_warnings():
            # If the chosen one does not converge, its final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            train_weight = None if weight is None else weight[train]
            fitted = fit_recalibrator(
                candidate, proba[train], y[train], train_weight, classes, measure=False
            )
    forecast = recalibrated_proba(fitted, proba[test], classes)
    target = y[test] if np.ndim(y) == 2 else one_hot(y[test], classes)
    losses = [score.loss(target, forecast) for score in scores]
    return np.column_stack([*losses, forecast] if forecasts else losses)


def candidate_names(candidates: Sequence[BaseEstimator]) -> list[str]:
    """Names of the candidates: their classes, numbered if one occurs repeatedly."""
    if not isinstance(candidates, (list, tuple)) or len(candidates) == 0:
        raise ValueError(
            "candidates must be a list of at least one recalibrator, such as "
            f"[TemperatureScaling()], got {shown(candidates)}."
        )
    for candidate in candidates:
        require_recalibrator(candidate)
    kinds, names = [type(c).__name__ for c in candidates], []
    for k, kind in enumerate(kinds, start=1):
        names.append(f"{kind}-{kinds[:k].count(kind)}" if kinds.count(kind) > 1 else kind)
    return names


# --- The mixture of all maps ----------------------------------------------------------------------


_FOLDS = 5
_FEWEST = 20  # samples below which the map is the identity
_ROUNDED, _MOST_ROUNDS = 2_000, 4  # samples below which there are several rounds of folds
_SIMPLE = 0.3  # prior, in samples, of the weights of identity and temperature; others share one
_ODDS = 3.0  # prior odds that the forecasts need no recalibration
_ROUNDING = 1e-12  # by which a monotone map may decrease
_LEAST = 1e-3  # weights below it are set to zero
_SHOWN = 0.05  # weights below it are printed together
_CAP = 34.5  # largest log loss that counts in the comparison with the identity
_FEW_ROWS, _MOST_ROWS, _MOST_VALUES = 5_000, 100_000, 500_000  # that give the weights
_TOLERANCE = 1e-6  # of the criterion, in samples
_GRID = np.linspace(-30.0, 30.0, 4001)  # logits at which a map of two classes is checked


@dataclass(frozen=True)
class RecalibratorMixture(Record):
    """What a `StackedRecalibrator` holds.

    `to_frame` has a row for each candidate: its ``name``, ``weight`` and mean held-out ``loss``.

    Attributes
    ----------
    names : tuple of str
        Names of the candidates.
    weights : tuple of float
        Weight of each; they sum to one.
    losses : tuple of float
        Mean held-out loss of each.
    gain : MeanInterval
        Mean held-out loss of the forecasts as they are, minus that of the mixture, with a 95 %
        interval. The weights for a fold are computed without it.
    monotone : bool
        Whether the map is monotone.

    See Also
    --------
    StackedRecalibrator : Has it as ``mixture_``.
    """

    names: tuple
    weights: tuple
    losses: tuple
    gain: MeanInterval
    monotone: bool

    _beside = ("gain", "monotone")

    def _columns(self):
        return {"name": self.names, "weight": self.weights, "loss": self.losses}

    def __str__(self) -> str:
        held = sorted(zip(self.weights, self.names, strict=True), reverse=True)
        large = [(weight, name) for weight, name in held if weight >= _SHOWN] or held[:1]
        small = 1 - sum(weight for weight, _ in large)
        parts = [f"{short_name(name)} {weight:.2f}" for weight, name in large]
        parts += [f"others {small:.2f}"] if small >= 0.005 else []
        kind = "monotone" if self.monotone else "not monotone"
        return f"{', '.join(parts)}\ngain {self.gain}; {kind}"


def short_name(name: str) -> str:
    """The name of a class of maps in words: "bias corrected temperature"."""
    stem = re.sub(r"(Scaling|Calibration|Recalibrator)(?=-|$)", "", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", stem).lower() or name


class StackedRecalibrator(FittedFromSketch, FittedFromParts):  # numpydoc ignore=PR02
    r"""Mixture of recalibration maps, with weights from their held-out losses.

    This is the default of `RecalibratedClassifierCV`, because no single map is best everywhere
    (:ref:`recalibration_benchmark`). The map is

    .. math:: g(s) = \sum_m w_m\, g_m(s), \qquad w_m \ge 0, \quad \sum_m w_m = 1 ,

    with the maps :math:`g_m` of the candidates, fitted to all samples. The weights maximise

    .. math:: \sum_i \omega_i \Bigl[\tfrac12 \log q_i(y_i) - \tfrac r2
        \|q_i - e_{y_i}\|^2\Bigr] + \sum_m \alpha_m \log w_m , \qquad
        q_i = \sum_m w_m\, g_m^{(-i)}(s_i) ,

    where :math:`g_m^{(-i)}` is fitted without the fold of sample i, :math:`\omega` are the sample
    weights divided so that they sum to the effective number of samples n, and r is the lowest
    log loss of a candidate divided by the lowest Brier score. The prior strengths :math:`\alpha`
    are 0.3 for the identity and one temperature; the others share 1.

    With few samples a mixture may do harm. So the weights are computed again without each fold. The
    total gain G of these mixtures over the identity, in the units of the criterion, gives the
    posterior probability of the mixture against no recalibration, with prior odds of 1 : 3:

    .. math:: \pi = \frac{e^G}{3 + e^G}, \qquad w \leftarrow \pi w + (1 - \pi)\, e_{identity} .

    Weights below 0.001 are set to zero. All maps but one temperature and, unless forecasts of the
    calibration set are zero, the identity are averaged with the class frequencies
    :math:`\bar y`, :math:`(n\, q + \bar y) / (n + 1)`. So no single map gives an infinite log loss.
    Of fewer than twenty samples the map is the identity. Beyond the forecasts of the calibration
    set each map continues in its own way (:ref:`beyond_the_scores`).

    For two classes, larger forecasts should not get smaller probabilities. If the mixture falls
    somewhere, the maps that do are left out, unless their total gain over the mixture of the others
    exceeds :math:`\log 3`. So a map that falls needs the same evidence as any recalibration.

    Parameters
    ----------
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        What the default candidates are fitted to, and what ``mixture_`` and ``loss_before_`` are
        measured in. The weights do not depend on it.
    candidates : list of recalibrators, default=None
        The maps, Pipelines of maps, or other objects with ``fit(P, y)`` and ``predict_proba(P)``.
        The identity is added if it is not among them. None is the list of the notes.
    cv : int, splitter or iterable, default=None
        Folds of the samples. None is five, stratified, and up to four divisions into five folds
        where there are fewer than 1,000 samples. With ``groups`` in `fit` an integer gives folds
        of whole groups.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    weights_ : dict
        Weight of each map, by the name of its class.
    maps_ : dict
        The fitted maps of positive weight, by the same names.
    mixture_ : RecalibratorMixture
        Names, weights and held-out losses of all candidates, and the gain with an interval. Prints
        in two lines.
    monotone_ : bool
        Whether the map is monotone: for two classes, whether a larger forecast never becomes
        smaller, as checked at 4,001 logits in [-30, 30] and at the calibration set. For more
        classes whether all maps are monotone operators of the logits, as temperatures and biases
        are.

    Warns
    -----
    UserWarning
        If a class has fewer samples than there are folds: some folds are then compared without it.

    See Also
    --------
    RecalibratorSelection : Chooses one map in place of a mixture.

    Notes
    -----
    The candidates begin with `IdentityRecalibrator`, `TemperatureScaling`, `LabelNoiseScaling` and
    `InterceptRecalibrator`. Two classes: `PlattScaling`, `BetaCalibration`, `QuadraticScaling` and
    `SplineScaling`. More: `BiasCorrectedTemperatureScaling`, `VectorScaling`, and `MatrixScaling`
    of at most 20 classes with K (K - 1) samples. Then, of at most 200 classes,
    `ModelAverageScaling`, `VennAbersRecalibrator` (at most five classes) and
    `IsotonicRecalibrator` (strictly increasing).

    `fit_sketch` divides the samples of each row of a sketch into five folds at random.

    Cost: each candidate is fitted to all samples and without each fold. The weights come from a
    random part of at most 100,000 samples and half a million probabilities, but at least 5,000
    samples.

    Examples
    --------
    >>> from skcalib import StackedRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> stack = StackedRecalibrator().fit(data.y_proba, data.y)
    >>> stack.mixture_.gain.low > 0, stack.loss_after_ < stack.loss_before_
    (True, True)
    """

    _takes_folds = True

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        candidates: Sequence[BaseEstimator] | None = None,
        cv: CV = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.candidates = candidates
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn the maps and their weights.

        Parameters
        ----------
        groups : array-like of shape (n_samples,), default=None
            The cluster of each sample, such as a patient. Folds hold whole clusters.
        """
        check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups)
        samples = self._check_samples(X, y, sample_weight)
        if groups is not None:
            weight = check_weight(sample_weight, np.shape(y)[0])
            samples.cluster = numbers_by_appearance(check_groups(groups, len(weight))[weight > 0])
        return self._learn(samples)

    def _check_parameters(self):
        super()._check_parameters()
        check_seed(self.random_state)
        if self.candidates is not None:
            candidate_names(self.candidates)  # raises for what is no recalibrator

    def _fit_map(self, samples):
        n_classes, size = len(self.classes_), effective_size(samples.weight, samples.square)
        candidates = self.candidates
        if candidates is None:
            candidates = default_candidates(n_classes, self.loss, size)
        elif not any(isinstance(candidate, IdentityRecalibrator) for candidate in candidates):
            candidates = [IdentityRecalibrator(loss=self.loss), *candidates]
        unchanged = [isinstance(candidate, IdentityRecalibrator) for candidate in candidates]
        names = candidate_names(candidates)
        problem = Problem(
            samples.forecast,
            samples.labels_or_target,
            samples.weight,
            self.classes_,
            square=samples.square,
            count=samples.count,
            cluster=samples.cluster,
        )
        self._blend = _Blend(candidates, problem, problem.forecast.min())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # held-out losses judge each fit
            mixture, fits = self._weigh(candidates, problem, samples.folds), {}
            while True:
                weights = np.array(unchanged if mixture is None else mixture.weights, float)
                self._kept = np.flatnonzero(weights > 0).tolist()
                for k in self._kept:
                    if k not in fits:
                        fits[k] = fit_to_problem(candidates[k], problem)
                self.maps_ = {names[k]: fits[k] for k in self._kept}
                self.weights_ = {names[k]: float(weights[k]) for k in self._kept}
                self._declare(samples.forecast)
                falling = []
                if not self.monotone_ and n_classes == 2:
                    for k in self._kept:
                        apply = partial(recalibrated_proba, fits[k], classes=self.classes_)
                        if not is_nondecreasing(apply, samples.forecast):
                            falling.append(k)
                rising = mixture.without(falling) if falling else None
                if rising is None:
                    break
                mixture = rising
        losses, gain = np.full(len(names), np.nan), MeanInterval(0.0, -np.inf, np.inf, np.inf)
        if mixture is not None:
            losses, gain = mixture.losses(samples.score)
        self.mixture_ = RecalibratorMixture(
            names=tuple(names),
            weights=tuple(map(float, weights)),
            losses=tuple(map(float, losses)),
            gain=gain,
            monotone=self.monotone_,
        )

    def _weigh(self, candidates, problem, folds):
        """The `HeldOutMixture` of the maps; None for too few samples."""
        problem, rounds = self._rounds(problem, folds)
        if not rounds or len(candidates) == 1:
            return None
        forecasts = [
            held_out_forecasts(candidates, problem, tests, self.n_jobs) for tests in rounds
        ]
        return HeldOutMixture(candidates, forecasts, rounds, problem)

    def _rounds(self, problem, folds):
        """The samples that give the weights, and lists of test folds of these.

        Samples of a row of a sketch are divided at random.
        """
        if problem.count is not None:
            divided, tests = problem.split(_FOLDS, self.random_state)
            return divided, [tests] if problem.n_samples >= _FEWEST else []
        n_samples, n_classes = problem.forecast.shape
        most = np.clip(_MOST_VALUES // n_classes, _FEW_ROWS, _MOST_ROWS)
        rng, rows = np.random.RandomState(self.random_state), np.arange(n_samples)
        if n_samples > most:
            rows = np.sort(rng.choice(n_samples, most, replace=False))
        problem, size = problem.take(rows), len(rows)
        if folds is not None:
            folds = folds_among(np.isin(np.arange(n_samples), rows), folds)
        tests = [test for test in folds or () if 0 < len(test) < size]
        if len(tests) > 1:
            return problem, [tests]
        if size < _FEWEST:
            return problem, []
        cv = _FOLDS if self.cv is None else self.cv
        target, cluster = problem.target, problem.cluster
        if not isinstance(cv, Integral) or cluster is not None:
            pairs = check_folds(cv, target, random_state=self.random_state, cluster=cluster)
            return problem, [[test for _, test in pairs]]
        labels = target.argmax(axis=1)
        counts = np.bincount(labels)
        rare = self.classes_[np.flatnonzero((counts > 0) & (counts < cv))]
        if len(rare):
            warnings.warn(
                f"{len(rare)} of {len(self.classes_)} classes, such as {shown(rare[0])}, have "
                f"fewer samples than the {cv} folds: some maps are compared without them. Their "
                "probabilities are uncertain.",
                UserWarning,
                stacklevel=outside_level(),
            )
        n_rounds, n_folds = int(np.clip(_ROUNDED // size, 1, _MOST_ROUNDS)), min(cv, size)
        rounds = [_random_folds(labels, problem.forecast, n_folds, rng) for _ in range(n_rounds)]
        return problem, rounds

    def _apply_map(self, forecast):
        mixed = np.zeros(forecast.shape)
        for k, (name, fitted) in zip(self._kept, self.maps_.items(), strict=True):
            proba = recalibrated_proba(fitted, forecast, self.classes_)
            mixed += self.weights_[name] * self._blend(k, proba)
        return np.minimum(mixed, 1.0, out=mixed)  # weights sum to one up to rounding

    def _write_map(self, add, x):
        parts = []
        for k, (name, fitted) in zip(self._kept, self.maps_.items(), strict=True):
            weight = self.weights_[name]
            prior = 0.0 if self._blend.pure[k] else weight / (self._blend.size + 1)
            proba = add.recalibrator(fitted, x, self.classes_)
            shift = prior * self._blend.prior
            parts.append(add("scale", proba, factor=weight - prior, shift=shift))
        return add("sum", *parts)

    def _declare(self, forecast):
        """Properties of the mixture, from those of its maps and, of two classes, its values."""
        maps = self.maps_.values()
        pure = all(self._blend.pure[k] for k in self._kept)
        for name in ("preserves_argmax_", "preserves_order_"):
            setattr(self, name, pure and all(getattr(fitted, name, False) for fitted in maps))
        if len(self.classes_) > 2:
            # A sum of monotone operators of the logits is one; they are injective.
            self.monotone_ = self.injective_ = all(map(_is_monotone, maps))
            return
        self.monotone_ = is_nondecreasing(self._apply_map, forecast)
        self.injective_ = self.monotone_ and any(
            is_increasing(fitted, self.classes_) for fitted in maps
        )


def is_nondecreasing(
    apply: Callable[[np.ndarray], np.ndarray], forecast: np.ndarray | None = None
) -> bool:
    """Whether a map of two classes never falls, at 4,001 logits and at some forecasts (n, 2)."""
    p = expit(_GRID) if forecast is None else np.append(expit(_GRID), forecast[:, 1])
    p = np.unique(p)
    return bool(np.all(np.diff(apply(np.column_stack([1 - p, p]))[:, 1]) >= -_ROUNDING))


class _Blend:
    """Averages forecasts of maps with the class frequencies, which are one sample among n + 1."""

    def __init__(self, candidates, problem, smallest):
        # The log loss of these two is finite wherever that of the forecasts is.
        kinds = (TemperatureScaling, IdentityRecalibrator)[: 1 if smallest == 0 else 2]
        self.pure = [type(candidate) in kinds for candidate in candidates]
        self.size = effective_size(problem.weight, problem.square)
        counts = problem.weight @ problem.target
        share = counts / counts.sum()
        self.prior = (share * self.size + 1 / len(share)) / (self.size + 1)

    def __call__(self, k, forecast):
        """The forecast (m, K) of candidate k, blended."""
        if self.pure[k]:
            return forecast
        return (self.size * forecast + self.prior) / (self.size + 1)


class HeldOutMixture:
    """The mixture of maps, by their held-out forecasts.

    `candidates` are the M maps, with the identity. For each round of folds, `rounds` has the test
    rows of the folds, and `forecasts` the held-out forecasts (n_samples, n_classes) of each map;
    samples in no fold are not used. `problem` are the samples.

    ``weights`` (M,) are the weights of the maps, whose forecasts ``blend`` averages with the class
    frequencies. ``sample`` (N,) are the samples of the pooled rows
    of all rounds, and ``mixed`` (N, n_classes) their forecasts by mixtures whose weights were
    computed without the fold of the sample.
    """

    def __init__(
        self,
        candidates: Sequence[BaseEstimator],
        forecasts: Sequence[Sequence[np.ndarray]],
        rounds: Sequence[Sequence[np.ndarray]],
        problem: Problem,
    ) -> None:
        tested = [np.unique(np.concatenate(folds)) for folds in rounds]
        is_identity = [isinstance(candidate, IdentityRecalibrator) for candidate in candidates]
        identity = is_identity.index(True)
        unchanged = forecasts[0][identity][tested[0]]
        self.blend = blend = _Blend(candidates, problem, unchanged.min())
        self.sample, self._problem = np.concatenate(tested), problem
        self.forecasts = np.concatenate(
            [
                [blend(k, proba[rows]) for k, proba in enumerate(of_maps)]
                for of_maps, rows in zip(forecasts, tested, strict=True)
            ],
            axis=1,
        )
        weight, size = problem.weight, blend.size
        self.target = problem.target[self.sample]
        self.weight = weight[self.sample] * (size / (weight.sum() * len(rounds)))
        kinds = IdentityRecalibrator, TemperatureScaling
        simple = [isinstance(candidate, kinds) for candidate in candidates]
        self._prior = np.where(simple, _SIMPLE, 1 / max(simple.count(False), 1))
        self._ratio = 1.0
        log, brier = np.min([self._losses(f) @ self.weight for f in self.forecasts], axis=0)
        self._ratio = log / brier if brier > 0 else 1.0

        self._allowed, self._identity, self._rounds = np.arange(len(candidates)), identity, rounds
        self._mix()

    def _mix(self):
        """Compute the weights, and the forecasts by mixtures without each fold."""
        unchanged = self.forecasts[self._identity]
        # Forecasts of mixtures whose weights are computed without each fold.
        nested, start = np.empty(self.target.shape), 0
        for folds in self._rounds:
            end = start + len(np.unique(np.concatenate(folds)))
            for test in folds:
                left_out = np.isin(self.sample, test)
                weights = self._weights(~left_out)
                left_out[:start] = left_out[end:] = False
                nested[left_out] = np.tensordot(weights, self.forecasts[:, left_out], 1)
            start = end
        share = float(expit(self._gain(unchanged, nested) - np.log(_ODDS)))
        weights = share * self._weights(slice(None))
        weights[self._identity] += 1 - share
        weights[weights < _LEAST] = 0.0
        self.weights = weights / weights.sum()
        self.mixed = share * nested + (1 - share) * unchanged

    def without(self, maps: Sequence[int]) -> HeldOutMixture | None:
        """The mixture of the other maps; None if these maps gain more than the prior odds."""
        smaller = copy(self)
        smaller._allowed = np.setdiff1d(self._allowed, maps)
        smaller._mix()
        return None if self._gain(smaller.mixed, self.mixed) > np.log(_ODDS) else smaller

    def _gain(self, before, after):
        """Total gain of forecasts (N, K) over others, in units of independent samples."""
        gain = self._criterion(before) - self._criterion(after)
        mean, unclustered = self.interval(gain), self.interval(gain, clustered=False)
        # Dependent samples have less evidence than as many independent ones.
        independent = min(1.0, unclustered.standard_error / max(mean.standard_error, 1e-300)) ** 2
        return independent * self.blend.size * mean.estimate

    def interval(self, values: np.ndarray, clustered: bool = True) -> MeanInterval:
        """Interval of the mean of values (N,), which are averaged for each sample first."""
        used, place = np.unique(self.sample, return_inverse=True)
        mean = np.bincount(place, values) / np.bincount(place)
        weight, square, cluster = self._problem.weight[used], self._problem.square, None
        if clustered and self._problem.cluster is not None:
            cluster = np.unique(self._problem.cluster[used], return_inverse=True)[1]
        square = None if square is None else square[used]
        return mean_interval(mean, weight, square=square, cluster=cluster)

    def losses(self, score: ProperScore) -> tuple[list[float], MeanInterval]:
        """Mean loss of each map, and the interval of the gain over the forecasts as they are."""
        losses = [
            float(weighted_mean(score.loss(self.target, forecast), self.weight))
            for forecast in self.forecasts
        ]
        before = score.loss(self.target, self._problem.forecast[self.sample])
        return losses, self.interval(before - score.loss(self.target, self.mixed))

    def _losses(self, forecast):
        """Log losses and Brier scores (N,)."""
        log = -np.sum(self.target * np.log(np.maximum(forecast, np.exp(-_CAP))), axis=1)
        return np.stack([log, np.sum((forecast - self.target) ** 2, axis=1)])

    def _criterion(self, forecast):
        """The mean of log loss and Brier score (N,), in units of the lowest log loss."""
        log, brier = self._losses(forecast)
        return 0.5 * (log + self._ratio * brier)

    def _weights(self, rows):
        """Weights (M,) that minimise the criterion on the rows, with a weak prior."""
        allowed, target, weight = self._allowed, self.target[rows], self.weight[rows]
        forecasts = self.forecasts[allowed][:, rows]
        row, column = np.nonzero(target)
        hit = np.maximum(forecasts[:, row, column].T, np.finfo(float).tiny)
        share = weight[row] * target[row, column]
        scaled = (np.sqrt(weight)[:, None] * forecasts).reshape(len(forecasts), -1)
        gram, reach, prior = scaled @ scaled.T, share @ hit, self._prior[allowed]
        start = (prior + 0.1) / (prior + 0.1).sum()
        free = null_space(np.ones((1, len(prior))))

        def value(step):
            w = start + free @ step
            if w.min() <= 0:
                return np.inf, None
            mixed = hit @ w
            log, brier = -share @ np.log(mixed), w @ gram @ w - 2 * reach @ w
            return 0.5 * (log + self._ratio * brier) - prior @ np.log(w), (w, mixed)

        def slopes(step, state):
            w, mixed = state
            relative = hit / mixed[:, None]
            gradient = -0.5 * share @ relative + self._ratio * (gram @ w - reach) - prior / w
            hessian = 0.5 * (relative.T * share) @ relative + self._ratio * gram
            hessian += np.diag(prior / w**2)
            return free.T @ gradient, free.T @ hessian @ free

        minimum = minimise_convex(value, slopes, np.zeros(len(prior) - 1), tolerance=_TOLERANCE)
        weights = np.zeros(len(self.forecasts))
        weights[allowed] = start + free @ minimum.parameters
        return weights


def _random_folds(labels, forecast, n_folds, rng):
    """Random test folds, stratified by label, that do not depend on the order of the samples."""
    # Not stratified by score: where labels and scores of folds agree, overfitting looks right.
    order = rng.permutation(np.lexsort((*forecast.T, labels)))
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[k::n_folds]) for k in range(n_folds)]


def _is_monotone(recalibrator):
    """Whether a fitted map is a strictly monotone operator of the logits."""
    if isinstance(recalibrator, BiasCorrectedTemperatureScaling):
        return recalibrator.temperature_ > 0
    if isinstance(recalibrator, ModelAverageScaling):
        return recalibrator.injective_
    kinds = IdentityRecalibrator, TemperatureScaling, LabelNoiseScaling
    return isinstance(recalibrator, kinds)


# --- Recalibrators by name, for the estimators that take one --------------------------------------


#: "sigmoid" is what scikit-learn calls Platt scaling.
RECALIBRATORS = {
    "auto": StackedRecalibrator,
    "temperature": TemperatureScaling,
    "isotonic": IsotonicRecalibrator,
    "platt": PlattScaling,
    "sigmoid": PlattScaling,
    "beta": BetaCalibration,
}


def resolve_recalibrator(recalibrator: Any) -> Recalibrator:
    """A recalibrator, by its name or as an object; raises for other values."""
    if isinstance(recalibrator, str) and recalibrator in RECALIBRATORS:
        return RECALIBRATORS[recalibrator]()
    require_recalibrator(recalibrator)
    return recalibrator
