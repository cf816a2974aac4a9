"""Choose a recalibrator by cross-validation; the identity is a candidate."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from skcalib._util.messages import shown
from skcalib._util.parallel import join_folds, run_each
from skcalib._util.records import Record
from skcalib.data.labels import one_hot
from skcalib.data.problem import Problem, ProblemSummary
from skcalib.recalibration._base import (
    fit_recalibrator,
    fit_without_each,
    recalibrated_proba,
    require_recalibrator,
)
from skcalib.recalibration.label_shift import InterceptRecalibrator
from skcalib.recalibration.one_vs_rest import (
    BetaCalibration,
    IsotonicRecalibrator,
    PlattScaling,
    QuadraticScaling,
)
from skcalib.recalibration.scaling import MatrixScaling, VectorScaling
from skcalib.recalibration.simple import (
    IdentityRecalibrator,
    LabelNoiseScaling,
    ModelAverageScaling,
)
from skcalib.recalibration.spline import SplineScaling
from skcalib.recalibration.temperature import BiasCorrectedTemperatureScaling, TemperatureScaling
from skcalib.recalibration.venn_abers import VennAbersRecalibrator
from skcalib.scores import LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.stats.means import MeanInterval, first_within_one_standard_error, mean_interval

if TYPE_CHECKING:
    from skcalib.links.averaging import ModelAverage


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
    is accurate and the fold is like a random one (``skcalib.links.leave_out``). Let
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
    data: dict[str, Any] = {"classes": classes, "folds": folds, "weight": weight}
    (losses,), weight, _ = held_out_losses(
        candidates, proba, y, scores=(score,), n_jobs=n_jobs, **data
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
    data, n_folds = (proba, y, weight, classes), len(folds)
    pairs = [(np.setdiff1d(used, test), test) for test in folds]
    tasks = []
    for candidate in candidates:
        known = average if isinstance(candidate, ModelAverageScaling) else None
        every = [None] * n_folds
        if len(used) == len(y):
            every = fit_without_each(candidate, *data, folds, known) or every
        tasks += [(candidate, fitted, *pair) for fitted, pair in zip(every, pairs, strict=True)]
    tasks = [(*task, *data, scores, forecasts) for task in tasks]
    parts = run_each(_of_fold, tasks, n_jobs=n_jobs)
    starts = range(0, len(parts), n_folds)
    found = [join_folds(parts[start : start + n_folds], folds, len(y)) for start in starts]
    m, tested = len(scores), found[0][1]
    losses = np.array([columns[:, :m].T for columns, _ in found]).swapaxes(0, 1)
    counts = tested if weight is None else tested & (weight > 0)
    held_out = [columns[:, m:] for columns, _ in found] if forecasts else None
    return losses[:, :, counts], None if weight is None else weight[counts], held_out


def held_out_forecasts_of_rows(
    candidates: Sequence[BaseEstimator], problem: Problem, folds: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Held-out forecasts (n, 2) of each map, of a binary problem with rows of several samples."""
    found = [np.empty_like(problem.forecast, dtype=np.float64) for _ in candidates]
    for test in folds:
        train = problem.take(np.setdiff1d(np.arange(len(problem.weight)), test))
        for candidate, forecast in zip(candidates, found, strict=True):
            forecast[test] = recalibrated_rows(candidate, train, problem.forecast[test])
    return found


def recalibrated_rows(candidate: BaseEstimator, train: Problem, forecast: np.ndarray) -> np.ndarray:
    """Forecasts (m, 2) after a map fitted to a problem whose rows stand for several samples."""
    return recalibrated_proba(fit_rows(candidate, train), forecast, train.classes)


def fit_rows(candidate: BaseEstimator, train: Problem) -> Any:
    """A clone that is fitted to a binary problem whose rows stand for several samples."""
    if isinstance(candidate, IdentityRecalibrator):
        data = train.forecast, train.labels, None, train.classes
        return fit_recalibrator(candidate, *data, measure=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted: Any = clone(candidate)
        return fitted.fit_sketch(ProblemSummary(train))


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
        tuple(names),
        tuple(means.tolist()),
        tuple(interval.estimate for interval in intervals),
        tuple(interval.standard_error for interval in intervals),
        names[best],
        names[chosen],
        mean_interval(losses[0] - losses[chosen], weight, confidence_level, **rows),
    )


def _of_fold(candidate, fitted, train, test, proba, y, weight, classes, scores, forecasts):
    """Losses (m, scores) and forecasts of the test rows, by `fitted` or a fit to the other rows."""
    if fitted is None:
        with warnings.catch_warnings():
            # If the chosen one does not converge, its final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            own = None if weight is None else weight[train]
            fitted = fit_recalibrator(
                candidate, proba[train], y[train], own, classes, measure=False
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
