"""What maps gain on held-out samples: the improvement by one map, and the choice among several."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from skcalib._util.formatting import Record, pvalue_text, record_text
from skcalib._util.messages import shown
from skcalib._util.parallel import join_folds, run_each
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_indices
from skcalib.data.clusters import independent_size, outside_level
from skcalib.data.labels import one_hot
from skcalib.data.notions import Canonical
from skcalib.data.problem import Problem, ProblemSummary, check_problem
from skcalib.links.averaging import ModelAverage
from skcalib.recalibration.base import IdentityRecalibrator
from skcalib.recalibration.curves import IsotonicRecalibrator, SplineScaling, VennAbersRecalibrator
from skcalib.recalibration.fitting import (
    check_fitted_recalibrator,
    fit_recalibrator,
    fit_without_each,
    is_injective,
    recalibrated_proba,
    require_recalibrator,
    steps_of,
    takes_features,
)
from skcalib.recalibration.label_shift import InterceptRecalibrator
from skcalib.recalibration.one_vs_rest import BetaCalibration, PlattScaling, QuadraticScaling
from skcalib.recalibration.scaling import MatrixScaling, ModelAverageScaling, VectorScaling
from skcalib.recalibration.temperature import (
    BiasCorrectedTemperatureScaling,
    LabelNoiseScaling,
    TemperatureScaling,
)
from skcalib.scores import LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.stats.means import (
    MeanInterval,
    between_forecasts,
    first_within_one_standard_error,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)

if TYPE_CHECKING:
    from skcalib.recalibration.base import Recalibrator


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
_MANY_CLASSES = 200  # above which only maps with few parameters for each class are compared
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
        columns = (self.names, self.losses, self.differences, self.standard_errors)
        for name, loss, worse, error in zip(*columns, strict=True):
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
    if n_classes > _MANY_CLASSES:
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
    """Losses (m, scores) and forecasts of the test rows, by `fitted` or a fit to the other rows."""
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
