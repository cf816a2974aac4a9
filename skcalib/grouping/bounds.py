r"""The bounds of the grouping loss of one problem: by regions, and by what a model saves.

The partition bound: `fit_partition` learns regions from one half of the samples and measures them
on the other; `fit_given_regions` measures given ones on all. With the label frequencies
:math:`R_j` of the regions, :math:`C_b` of the level sets, and a calibration curve
:math:`\hat C(S)`, the terms of `partition_terms` are

.. math::

    \text{explained (plug-in)} = \sum_j \tfrac{n_j}{n} D(R_j, C_{b(j)}), \qquad
    \text{induced} = \tfrac1n \sum_i D(\hat C(S_i), \bar C_{b(i)}) .

The calibration error of the scores is that of the binned scores plus what binning induces, which is
estimated with the curve. The explained part is debiased by a jackknife. The variance of the bound
is that of its terms, row by row. `region_table` describes the regions, and `permutation_pvalue`
tests whether there is a grouping loss.

The risk bound: `fit_risk` evaluates any model of the score and the features with the weight that is
best on the other folds. `ScoreCurve` is the curve of the score that it is compared with. What a
function of the score explains is no grouping loss: `residual_on_score` removes it.

doc/design.rst and :ref:`grouping_loss` have the derivations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.linalg import qr
from scipy.special import ndtri, softmax
from scipy.stats import norm
from sklearn.base import clone, is_classifier

from skcalib._util.formatting import Record
from skcalib._util.parallel import out_of_fold, run_each, threads_for
from skcalib._util.sizes import SIZES
from skcalib._util.validation import take_rows, weights_of_mean_one
from skcalib.data.clusters import cluster_sums, independent_size, inflation
from skcalib.data.labels import is_one_hot
from skcalib.grouping.equal_scores import functions_of_position, intervals_for
from skcalib.grouping.partition import (
    Partitioner,
    Regions,
    cut_level_sets,
    half_of_clusters,
    level_sets,
    merge_single_clusters,
    merge_singletons,
    order_of,
    stratified_half,
)
from skcalib.links.averaging import averaged_map
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.group import (
    MOST_COMPONENTS,
    Components,
    Mixing,
    held_out_paths,
)
from skcalib.scores import weighted_mean
from skcalib.smoothers import LogitSmoother
from skcalib.smoothers._base import check_folds, smooth_other_clusters
from skcalib.stats.means import clopper_pearson, mean_interval, rate_interval
from skcalib.stats.pvalues import bonferroni, drawn_pvalue

if TYPE_CHECKING:
    from skcalib._util.types import CV, Fold, PartitionerLike, Strategy
    from skcalib.data.features import Feature
    from skcalib.scores import ProperScore
    from skcalib.smoothers import Smoother


@dataclass(frozen=True, kw_only=True)
class BoundTerms:
    """Terms over the measured samples of one problem; ``variance`` is that of ``lower_bound``.

    The terms of regions are nan without them.
    """

    plugin: float = np.nan
    bias: float = np.nan
    induced: float = np.nan
    variance: float
    lower_bound: float
    calibration: float
    calibration_induced: float
    correction: float = np.nan


@dataclass(frozen=True, kw_only=True)
class GroupingFit(BoundTerms):
    """The fit of one problem, averaged over the two directions where halves were swapped.

    With regions there is no ``scale``.
    """

    mean_loss: float
    refinement: float
    pvalue: float
    table: list[Region] = field(default_factory=list)
    n_regions: int = 0
    n_measured: int
    singletons: float = 0.0
    scale: float = np.nan


@dataclass(frozen=True)
class GroupingProblem:
    """One problem of a notion with its options; ``events`` names its columns."""

    forecast: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    features: np.ndarray
    events: list[str]
    cluster: np.ndarray | None = None


@dataclass(frozen=True)
class Options:
    """Options shared by the fits of all problems."""

    n_bins: int
    strategy: Strategy
    region_ratio: int
    test_size: float
    swap: bool
    by_curve: bool
    n_permutations: int
    folds: CV
    confidence_level: float
    features: list[Feature]


def fit_partition(
    problem: GroupingProblem,
    score: ProperScore,
    smoother: Smoother,
    partitioner: PartitionerLike,
    options: Options,
    seed: int,
) -> GroupingFit:
    """Partition bound: regions of one half, measured on the other."""
    if len(problem.forecast) < 2:
        raise ValueError(
            "The grouping loss of a single sample cannot be estimated: one half of the samples "
            "determines the regions, the other measures them."
        )
    rng = np.random.RandomState(seed)
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    bins = level_sets(forecast, options.n_bins, options.strategy)
    cutter = Partitioner(partitioner, options.region_ratio, rng, options.features)
    prepared = cutter.prepare(problem.features)
    if problem.cluster is None:
        half = stratified_half(forecast, bins, options.test_size, rng)
    else:
        half = half_of_clusters(forecast, problem.cluster, options.test_size, rng)
    fits = []
    for measured in (half, ~half) if options.swap else (half,):
        with threads_for(prepared):
            cut = cut_level_sets(cutter, prepared, target, weight, bins, measured)
        fitting = ~measured
        fitted = clone(smoother).fit(forecast[fitting], target[fitting], weight[fitting])
        curve = fitted.predict(forecast[measured])
        fits.append(_measure(problem, score, bins, measured, cut, curve, options, rng))
    if not options.swap:
        return fits[0]
    # Means of both directions; the variance counts them as dependent, the p-value doubles.
    first, second = fits
    names = ("plugin", "bias", "induced", "lower_bound", "calibration", "calibration_induced")
    names += ("mean_loss", "refinement", "correction", "singletons")
    means = {name: 0.5 * (getattr(first, name) + getattr(second, name)) for name in names}
    spread = 0.25 * (np.sqrt(first.variance) + np.sqrt(second.variance)) ** 2
    table = [
        replace(region, share=0.5 * region.share, harm=0.5 * region.harm)
        for region in first.table + second.table
    ]
    return replace(
        first,
        **means,
        variance=float(spread),
        pvalue=bonferroni([first.pvalue, second.pvalue]),
        table=table,
        n_regions=first.n_regions + second.n_regions,
        n_measured=first.n_measured + second.n_measured,
    )


def fit_given_regions(
    problem: GroupingProblem,
    score: ProperScore,
    smoother: Smoother,
    regions: np.ndarray,
    options: Options,
    seed: int,
) -> GroupingFit:
    """Partition bound with given regions: all samples are measured."""
    rng = np.random.RandomState(seed)
    bins = level_sets(problem.forecast, options.n_bins, options.strategy)
    names, number = np.unique([str(name) for name in regions], return_inverse=True)
    _, first, region = np.unique(bins * len(names) + number, return_index=True, return_inverse=True)
    rules = [f"region {names[k]}" for k in number[first]]
    singletons = np.mean(np.bincount(region) == 1)
    for level in range(bins.max() + 1):
        here = bins == level
        local_names, local = np.unique(region[here], return_inverse=True)
        # Labels are not used: a region of one sample joins the largest of its level set.
        size = np.bincount(local)[:, None].astype(float)
        region[here] = local_names[merge_singletons(local, np.where(size == 1, size.max(), size))]
    numbers, region = np.unique(region, return_inverse=True)
    cut = Regions(region, [rules[k] for k in numbers], float(singletons), len(rules))
    curve, measured = held_out_curve(problem, smoother), np.ones(len(bins), dtype=bool)
    return _measure(problem, score, bins, measured, cut, curve, options, rng)


def held_out_curve(problem: GroupingProblem, smoother: Smoother) -> np.ndarray:
    """The curve at each sample without its own label, or without those of its cluster."""
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    if problem.cluster is None:
        return clone(smoother).fit(forecast, target, weight).smooth_held_out()
    return smooth_other_clusters(smoother, forecast, target, weight, problem.cluster)


def _measure(problem, score, bins, measured, cut, curve, options, rng):
    """Terms, p-value and table of the regions of the measured samples, with the curve at these."""
    cluster, region, single = take_rows(problem.cluster, measured), cut.region, "sample"
    lonely = np.bincount(region)[region] == 1
    if cluster is not None:
        single = "cluster"
        region, lonely = merge_single_clusters(bins[measured], region, cluster)
    if lonely.all():
        raise ValueError(
            f"Every region has a single {single}: use fewer bins or a larger region_ratio."
        )
    several = ~lonely  # level sets of one sample are omitted from all terms
    rows = np.flatnonzero(measured)[several]
    level, weight = bins[rows], problem.weight[rows]
    forecast, target = problem.forecast[rows], problem.target[rows]
    curve, cluster = curve[several], take_rows(cluster, several)
    residual = target - curve
    numbers, region = np.unique(region[several], return_inverse=True)
    positive = curve
    if options.by_curve:  # which divides by frequencies: none may be 0
        positive = softmax(log_forecast(curve, detection_limit(curve)), axis=1)
    terms = partition_terms(
        score,
        level,
        region,
        forecast,
        target,
        positive,
        weight,
        cluster,
        by_curve=options.by_curve,
    )
    pvalue, n_draws = np.nan, options.n_permutations
    if n_draws and cluster is not None:
        pvalue = sign_pvalue(level, region, residual, weight, cluster, n_draws, rng)
    elif n_draws:
        pvalue = permutation_pvalue(level, region, forecast, residual, weight, n_draws, rng)
    table = region_table(
        problem.events,
        level,
        region,
        [cut.rules[k] for k in numbers],
        forecast,
        target,
        curve,
        weight,
        options.confidence_level,
        cluster,
    )
    mean_loss = weighted_mean(score.loss(problem.target, problem.forecast), problem.weight)
    return GroupingFit(
        **vars(terms),
        mean_loss=float(mean_loss),
        refinement=float(weighted_mean(score.loss(target, curve), weight)),
        pvalue=pvalue,
        table=table,
        n_regions=cut.n_before,
        n_measured=int(measured.sum()),
        singletons=cut.singletons,
    )


# --- Terms of the grouping loss -------------------------------------------------------------------


def partition_terms(
    score: ProperScore,
    bins: np.ndarray,
    regions: np.ndarray,
    forecast: np.ndarray,
    target: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    cluster: np.ndarray | None = None,
    *,
    by_curve: bool = False,
) -> BoundTerms:
    """Terms for level sets `bins` and the regions nested in them, in the units of the score.

    With `by_curve` the labels of a cell are compared with the mean of the curve in it, so the width
    of a level set induces nothing. What is subtracted is the error of the curve in the level sets.

    `regions` are numbers that are unique over all level sets. Regions of a single sample have no
    variance, and must not be passed. `curve` (n, C) is the calibration curve at each forecast. With
    a `cluster` (n,) the jackknife leaves out all samples of a cluster in a cell at once; then
    regions of a single cluster must not be passed.
    """
    fine, coarse = Cells(regions, weight), Cells(bins, weight)
    region_mean, bin_mean = fine.mean(target), coarse.mean(target)

    def peak(mean):
        return -score.entropy(mean)

    def error(means):
        return score.divergence(means[:, :n_columns], means[:, n_columns:])

    def bias(cells, function, values):
        if cluster is None:
            return cells.jackknife_bias(function, values)
        parts, values = cells.by_cluster(cluster, values)
        return parts.jackknife_bias(function, values)

    n_columns = target.shape[1]
    pairs = np.hstack([target, forecast])
    if by_curve:
        of_regions, of_bins = fine.mean(curve), coarse.mean(curve)

        def saved(outcome):
            before = score.loss(outcome, of_regions) - score.loss(outcome, of_bins)
            return before - score.loss(outcome, region_mean) + score.loss(outcome, bin_mean)

        with np.errstate(invalid="ignore"):  # infinite where a region has no label of a class
            of_curve = saved(curve)[:, None]
        of_curve = np.where(np.isfinite(of_curve), of_curve, 0.0)
        influence = saved(target) - (of_curve - fine.mean(of_curve))[:, 0]
        both = np.hstack([target, curve])
        plugin, plugin_bias = score.divergence(region_mean, of_regions), bias(fine, error, both)
        induced = score.divergence(bin_mean, of_bins) - bias(coarse, error, both)
    else:
        plugin = score.divergence(region_mean, bin_mean)
        plugin_bias = bias(fine, peak, target) - bias(coarse, peak, target)
        induced = score.divergence(curve, coarse.mean(curve))
        influence = score.loss(target, bin_mean) - score.loss(target, region_mean) - induced
    # The error of the scores minus that of the binned scores, both by the curve (L23 prop. C.2).
    binned = score.divergence(coarse.mean(curve), coarse.mean(forecast))
    known = np.isfinite(binned)  # an infinite error of the binned scores is left as it is
    excess = np.zeros(len(binned))
    excess[known] = score.divergence(curve, forecast)[known] - binned[known]
    mean_plugin, mean_induced = (float(weighted_mean(v, weight)) for v in (plugin, induced))
    return BoundTerms(
        plugin=mean_plugin,
        bias=plugin_bias,
        induced=mean_induced,
        variance=variance_of_mean(influence, weight, cluster),
        lower_bound=mean_plugin - plugin_bias - mean_induced,
        calibration=float(weighted_mean(error(coarse.mean(pairs)), weight))
        - bias(coarse, error, pairs),
        calibration_induced=float(weighted_mean(excess, weight)),
        correction=_binning_correction(score, coarse, forecast, target),
    )


def variance_of_mean(
    values: np.ndarray, weight: np.ndarray, cluster: np.ndarray | None = None
) -> float:
    """Squared standard error of a weighted mean, by clusters if there are any."""
    share = weight / weight.sum()
    variance = float(np.sum(cluster_sums(share * (values - share @ values), cluster) ** 2))
    if cluster is None:
        return variance
    return variance * inflation(independent_size(weight, cluster=cluster))


def _binning_correction(score, coarse, forecast, target):
    r"""The effect of binning on :math:`E\,D(Q, S)`, for quadratic scores; nan for others.

    :math:`E\|Q - S\|^2 = CE(S_B) + GL(S_B) - E[2 cov(C, S | S_B) - var(S | S_B)]` exactly, and
    cov(C, S | S_B) = cov(Y, S | S_B) needs no calibration curve (L23 theorem C.1, corollary C.2).
    """
    if not score.separable:
        return np.nan
    corners = np.eye(target.shape[1])
    scale = score.divergence(corners[:1], corners[1:2])[0] / 2
    of_score = forecast - coarse.mean(forecast)
    of_label = target - coarse.mean(target)
    size = coarse.size[coarse.cells]
    unbiased = np.divide(size, size - 1, out=np.zeros_like(size), where=size > 1 + 1e-9)
    moments = np.sum(2 * of_label * of_score - of_score**2, axis=1)
    return float(scale * weighted_mean(unbiased * moments, coarse.weight))


class Cells:
    """Weighted cells: their means, and the bias of functions of the means."""

    def __init__(self, cells: np.ndarray, weight: np.ndarray) -> None:
        self.cells = np.unique(cells, return_inverse=True)[1].ravel()
        self.weight = weight
        self.mass = np.bincount(self.cells, weight)
        largest = np.zeros(len(self.mass))
        np.maximum.at(largest, self.cells, weight)
        # Relative to the largest of the cell: tiny weights times tiny values would vanish.
        self._relative = weight / largest[self.cells]
        self._mass = np.bincount(self.cells, self._relative)
        self.size = self._mass**2 / np.bincount(self.cells, self._relative**2)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean over the cell of each sample, shape of `values`."""
        sums = [np.bincount(self.cells, self._relative * column) for column in values.T]
        return (np.stack(sums, axis=1) / self._mass[:, None])[self.cells]

    def by_cluster(self, cluster: np.ndarray, values: np.ndarray) -> tuple[Cells, np.ndarray]:
        """Cells of the parts of clusters in each cell, and the means of values (n, C) of these."""
        pairs = np.column_stack([self.cells, cluster])
        distinct, part = np.unique(pairs, axis=0, return_inverse=True)
        part = part.ravel()
        mass = np.bincount(part, self._relative)
        sums = [np.bincount(part, self._relative * column) for column in values.T]
        parts = Cells(distinct[:, 0], np.bincount(part, self.weight))
        return parts, np.stack(sums, axis=1) / mass[:, None]

    def jackknife_bias(
        self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
    ) -> float:
        """Bias of the mean over samples of a function of the cell means.

        Weights enter so that the changes of the means cancel in each cell, and each cell is scaled
        so that squares are corrected exactly; with equal weights it is the usual jackknife.
        Cells of a single sample contribute nothing, nor do cells in which one weight dominates all
        others; nor does a sample without which the function is infinite: a divergence from a
        forecast of zero.
        """
        mean, mass, weight = self.mean(values), self.mass[self.cells], self.weight
        mass_without = mass - weight
        # Without the heavy sample of a cell the changes by the light ones would not cancel.
        several = np.bincount(self.cells, mass_without <= 1e-9 * mass)[self.cells] == 0
        # The variance of a mean of labels of variance 1, over what the jackknife expects.
        share = weight / mass
        squares = np.bincount(self.cells, share**2)
        spread = share**2 / np.where(several, 1 - share, 1.0)
        spread *= 1 - 2 * share + squares[self.cells]
        expected = np.bincount(self.cells, np.where(several, spread, 0.0))
        scale = (squares / np.where(expected > 0, expected, 1.0))[self.cells][several]
        mean, mass_without, weight = (
            mean[several],
            mass_without[several, None],
            weight[several, None],
        )
        others = mean - weight / mass_without * (values[several] - mean)
        others = np.clip(others, 0.0, 1.0)  # rounding can leave the simplex by one unit
        before, after = function(mean), function(others)
        finite = np.isfinite(before) & np.isfinite(after)
        change = np.where(finite, after, 0.0) - np.where(finite, before, 0.0)
        return float(np.sum(scale * mass_without[:, 0] * change) / self.mass.sum())


# --- Table of regions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Region(Record):
    """A region compared with the whole of its level set, on the measured samples.

    Attributes
    ----------
    event : str
        The event: a class, or "top label".
    level_set, region : int
        Numbers of the level set and of the region.
    rule : str
        Definition of the region.
    n_samples : int
        Measured samples.
    share : float
        Their weight, between 0 and 1.
    mean_score : float
        Mean predicted probability.
    expected : float
        Frequency of the event in the level set, moved along the calibration curve to the scores of
        the region: the mean calibrated score of its samples.
    mean_outcome : float
        Frequency of the event in the region.
    low, high : float
        Clopper-Pearson interval of `mean_outcome`, of this region alone.
    gap : float
        ``expected - mean_outcome``: positive where even the calibrated score is too high.
    harm : float
        Contribution of the region to the explained grouping loss: the share times the squared gap,
        minus the part that is due to the noise of the labels. It is unbiased, in the units of the
        Brier score, and negative where the noise explains more than the gap.
    effective_size : float
        Number of equally weighted samples with the same precision.

    See Also
    --------
    skcalib.GroupingLossEstimator : Finds the regions.
    skcalib.GroupingDisplay : Draws them.
    """

    event: str
    level_set: int
    region: int
    rule: str
    n_samples: int
    share: float
    mean_score: float
    expected: float
    mean_outcome: float
    low: float
    high: float
    gap: float
    harm: float
    effective_size: float

    @property
    def direction(self) -> Literal["too_high", "too_low", ""]:
        """ "too_high", "too_low", or "" if the interval contains the calibrated score."""
        if self.low <= self.expected <= self.high:
            return ""
        return "too_high" if self.gap > 0 else "too_low"


def region_table(
    events: Sequence[str],
    bins: np.ndarray,
    regions: np.ndarray,
    rules: Sequence[str],
    forecast: np.ndarray,
    target: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    confidence_level: float,
    cluster: np.ndarray | None = None,
) -> list[Region]:
    """A `Region` for each number of a region, in order, for the column with the largest gap."""
    cells, levels = Cells(regions, weight), Cells(bins, weight)
    first = np.unique(cells.cells, return_index=True)[1]
    level = levels.cells[first]
    score, outcome = cells.mean(forecast)[first], cells.mean(target)[first]
    # The curve gives differences within the level set, the level set gives the mean frequency.
    expected = cells.mean(curve + levels.mean(target - curve))[first]
    spread = (cells.mean((target - curve) ** 2) - cells.mean(target - curve) ** 2)[first]
    column = np.full(len(first), 1)
    if forecast.shape[1] > 2:
        column = np.abs(expected - outcome).round(12).argmax(axis=1)  # the first of equal ones
    rows = np.arange(len(first))
    score, outcome, expected, spread = (
        part[rows, column] for part in (score, outcome, expected, spread)
    )
    gap, size = expected - outcome, cells.size
    low, high = clopper_pearson(outcome, size, confidence_level)
    share = cells.mass / cells.mass.sum()
    alone = spread / np.maximum(size - 1, 1)  # variance of the mean residual of each region
    if cluster is not None:
        for j in rows:
            here, k = cells.cells == j, column[j]
            samples = {"weight": weight[here], "cluster": cluster[here]}
            residual = mean_interval(
                (target - curve)[here, k], confidence_level=confidence_level, **samples
            )
            rate = rate_interval(target[here, k], confidence_level=confidence_level, **samples)
            alone[j], low[j], high[j] = residual.standard_error**2, rate.low, rate.high
    # The difference is that from the level set, of which the region is a part itself.
    part = cells.mass / levels.mass[level]
    together = np.bincount(level, part**2 * alone)
    noise = (1 - 2 * part) * alone + together[level]
    harm = share * (gap**2 - noise)
    expected = np.clip(expected, 0.0, 1.0)
    counts = np.bincount(cells.cells)
    return [
        Region(
            event=events[column[j]],
            level_set=int(bins[first[j]]),
            region=int(regions[first[j]]),
            rule=rule,
            n_samples=int(counts[j]),
            share=float(share[j]),
            mean_score=float(score[j]),
            expected=float(expected[j]),
            mean_outcome=float(outcome[j]),
            low=float(low[j]),
            high=float(high[j]),
            gap=float(expected[j] - outcome[j]),
            harm=float(harm[j]),
            effective_size=float(size[j]),
        )
        for j, rule in enumerate(rules)
    ]


# --- Permutation test -----------------------------------------------------------------------------


_SLOW = 16  # times as long as a sum over the samples: an order of them, and sums over regions


def sign_pvalue(
    bins: np.ndarray,
    regions: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    cluster: np.ndarray,
    n_resamples: int,
    rng: np.random.RandomState,
) -> float:
    """As `permutation_pvalue`, for samples in clusters, which cannot be permuted one by one.

    The residuals, minus their mean in the level set, get a random sign for each cluster. The
    p-value is exact if the distribution of the residuals of a cluster is symmetric, and
    asymptotically valid for many clusters otherwise.
    """
    pull = weight[:, None] * (residual - Cells(bins, weight).mean(residual))
    cells = [np.unique(numbers, return_inverse=True)[1].ravel() for numbers in (regions, bins)]
    mass = [np.bincount(cell, weight) for cell in cells]

    def statistic(signs):
        between = 0.0
        for cell, size, sign in zip(cells, mass, (1, -1), strict=True):
            sums = (np.bincount(cell, signs * column) for column in pull.T)
            between += sign * sum(np.sum(s**2 / size) for s in sums)
        return between

    def draw(size):
        draws = rng.choice([-1.0, 1.0], size=(size, int(cluster.max()) + 1))
        return np.array([statistic(signs[cluster]) for signs in draws])

    observed = float(statistic(np.ones(len(bins))))
    return drawn_pvalue(draw, observed, n_resamples, size=_SLOW * len(bins))[0]


def permutation_pvalue(
    bins: np.ndarray,
    regions: np.ndarray,
    forecast: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    n_permutations: int,
    rng: np.random.RandomState,
    width: int = 20,
) -> float:
    r"""p-value of the null hypothesis E[Y|X] = E[Y|S].

    The statistic is the variance between regions of the residual :math:`Y - \hat C(S)`, within
    level sets. Residuals are permuted among samples of one level set that are neighbours in the
    score, `width` at a time: there they are exchangeable under the null, up to the change of
    :math:`\hat C` over the band. The p-value is that of `drawn_pvalue`, never 0.
    """
    order = np.lexsort((rng.random_sample(len(bins)), order_of(forecast), bins))
    bins, regions, mass = bins[order], regions[order], weight[order]
    # Weight and residual are permuted together, so that level sets keep their sums.
    pull = mass[:, None] * residual[order]
    position = np.arange(len(bins)) - np.searchsorted(bins, bins)
    band = np.cumsum(position % width == 0)
    n_regions = int(regions.max()) + 1

    def statistics(rows):
        """The part of the statistic that permutations change, for each order of rows (draws, n)."""
        cells = regions + n_regions * np.arange(len(rows))[:, None]
        size = np.bincount(cells.ravel(), mass[rows].ravel())
        size[size == 0] = 1.0  # numbers without samples, whose sums are 0
        sums = (np.bincount(cells.ravel(), column[rows].ravel()) for column in pull.T)
        between = sum(of_column**2 / size for of_column in sums)
        return between.reshape(len(rows), n_regions).sum(axis=1)

    def shuffled(keys):
        return statistics(np.argsort(band + keys, axis=1))

    def draw(size):
        """Statistics of batches, whose keys are drawn in this order for any number of jobs."""
        most = max(1, SIZES.block_entries // len(bins))
        sizes = [min(most, size - start) for start in range(0, size, most)]
        keys = ((rng.random_sample((n_drawn, len(bins))),) for n_drawn in sizes)
        return np.concatenate(run_each(shuffled, keys, prefer="threads"))

    observed = float(statistics(np.arange(len(bins))[None])[0])
    return drawn_pvalue(draw, observed, n_permutations, size=_SLOW * len(bins))[0]


# --- Risk bound -----------------------------------------------------------------------------------


_NEAR_ZERO = 1e-4
_LEAST_SHARE = 0.05  # of a probability of the curve
_LEAST_KNOWN = 10  # values of a feature, to be of use to a model


def fit_risk(
    problem: GroupingProblem,
    score: ProperScore,
    smoother: Smoother,
    model: Any,
    options: Options,
    seed: int,
) -> GroupingFit:
    """Risk bound: the reduction of the loss by a model of (score, features) on held-out samples."""
    curve, cluster = held_out_curve(problem, smoother), problem.cluster
    folds = check_folds(options.folds, problem.target, random_state=seed, cluster=cluster)
    terms = risk_terms(problem, score, curve, model, folds, seed)
    weight = problem.weight / problem.weight.sum()
    before, after = score.loss(problem.target, problem.forecast), score.loss(problem.target, curve)
    # At a small scale the saving per scale is the slope of the loss towards the model. Folds learn
    # from each other, which under the null doubles the variance of the mean.
    mean = float(weight @ terms.slope)
    error = float(np.sqrt(2 * variance_of_mean(terms.slope, weight, cluster)))
    return GroupingFit(
        variance=variance_of_mean(terms.differences, weight, cluster),
        lower_bound=float(weight @ terms.differences),
        calibration=float(weight @ (before - after)),
        calibration_induced=0.0,  # no bins
        mean_loss=float(weight @ before),
        refinement=float(weight @ after),
        pvalue=float(norm.sf(mean / error)) if error > 0 else 1.0,
        n_measured=len(weight),
        scale=terms.scale,
    )


@dataclass(frozen=True)
class RiskTerms:
    """Paired differences of the loss, whose weighted mean is the lower bound, and the mean scale.

    ``slope`` is the saving per unit of the scale near a = 0.
    """

    differences: np.ndarray
    slope: np.ndarray
    scale: float


def risk_terms(
    problem: GroupingProblem,
    score: ProperScore,
    curve: np.ndarray,
    model: Any,
    folds: Sequence[Fold],
    seed: int,
) -> RiskTerms:
    """Steps from the held-out `curve`, mixed by the losses of the other folds.

    `model` is None for the corrected model, or a regressor of the residual, a column at a time, or
    a classifier of the label. What a function of the score explains is removed from the steps.
    """
    # Penalties depend on the scale of the weights.
    target, weight = problem.target, weights_of_mean_one(problem.weight)
    if model is None:
        start = log_forecast(curve, detection_limit(curve))
        finish = partial(_steps_of_fold, start, problem.forecast, curve, weight)
        paths = held_out_paths(
            start, problem.features, target, weight, folds, seed=seed, finish=finish
        )
    else:
        features = np.column_stack([problem.forecast[:, 1:], problem.features])
        predict = partial(_model_steps, model, features, problem.forecast, target, curve, weight)
        paths = [out_of_fold(predict, folds, len(curve))[0][None]]

    def losses(step, rows):
        return score.loss(target[rows], curve_after_step(curve[rows], step))

    mixing = Mixing(losses, paths, weight, problem.cluster)
    differences, slope, scale = np.zeros((3, len(curve)))
    for test, mixture in mixing.of_other_folds(folds):
        before, far = mixing.before[test], mixture.of(paths, test)
        near = _NEAR_ZERO * mixture.of(paths, test, direction=True)
        differences[test] = _saved(before, losses(far, test))
        slope[test] = _saved(before, losses(near, test)) / _NEAR_ZERO
        scale[test] = mixture.weights.sum()
    return RiskTerms(differences, slope, float(weighted_mean(scale, weight)))


def _saved(before, after):
    """Differences of losses; equal infinite ones differ by 0."""
    equal = before == after
    return np.where(equal, 0.0, before) - np.where(equal, 0.0, after)


def curve_after_step(curve: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The curve after a step, in the simplex; no probability falls below a twentieth of its value.

    Else the log loss of a single label could be infinite, and one sample near the border would hold
    back the weight of all.
    """
    moved = np.maximum(curve + step, _LEAST_SHARE * curve)
    return moved / moved.sum(axis=1, keepdims=True)


def _fit_predict(model, X, residual, weighted, X_new):
    return clone(model).fit(X, residual, **weighted).predict(X_new)


def _steps_of_fold(start, forecast, curve, weight, predict, train, test):
    """Steps of the probabilities for the corrections of their logarithms."""
    rows = rows_of_regression(train, test)
    steps = softmax(start[rows] + predict(rows), axis=2) - softmax(start[rows], axis=1)
    residuals = residual_on_score(np.hstack(steps), forecast[rows], curve[rows], weight[rows])
    return np.stack(np.split(residuals[: len(test)], len(steps), axis=1))


def _model_steps(model, features, forecast, target, curve, weight, train, test):
    """Steps from the curve to the predictions of a model, with the threads that it can feed."""
    rows = rows_of_regression(train, test)
    with threads_for(features):
        steps = model_step(model, features, target, curve, weight, train, rows)
        return residual_on_score(steps, forecast[rows], curve[rows], weight[rows])[: len(test)]


def model_step(
    model: Any,
    features: np.ndarray,
    target: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> np.ndarray:
    """Steps from the curve to the predictions of the model at the rows `test`."""
    weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight[train]}
    # Boosting fails on a feature without any value, also in its early-stopping split.
    known = np.count_nonzero(~np.isnan(features[train]), axis=0)
    hollow = (known < len(train)) & (known < _LEAST_KNOWN)
    if hollow.any():
        features = np.where(hollow, 0.0, features)
    if is_classifier(model):
        if not is_one_hot(target):
            raise ValueError(
                f"{type(model).__name__} is a classifier, which cannot be fitted to soft labels: "
                "pass a regressor, or leave out partitioner=."
            )
        labels = target[train].argmax(axis=1)
        if len(np.unique(labels)) == 1:
            return np.zeros_like(curve[test])
        fitted = clone(model).fit(features[train], labels, **weighted)
        refined = np.zeros((len(test), target.shape[1]))
        refined[:, fitted.classes_] = fitted.predict_proba(features[test])
        return refined - curve[test]
    residual = target[train] - curve[train]
    columns = range(1, target.shape[1]) if target.shape[1] == 2 else range(target.shape[1])
    step = np.zeros((len(test), target.shape[1]))
    tasks = ((model, features[train], residual[:, k], weighted, features[test]) for k in columns)
    step[:, columns] = np.stack(run_each(_fit_predict, tasks), axis=1)
    if target.shape[1] == 2:
        step[:, 0] = -step[:, 1]
    return step


# --- Functions of the score -----------------------------------------------------------------------


_DOUBT = 5.0  # log evidence by which the ranks of scores must be better than the scores
_ROUNDING = 1e-9  # share of a step that the functions leave by rounding
_TIED = 1e-13  # largest difference of centred logits that are equal up to rounding
_LEAST = 1e-15  # smallest share of the mass below a score
_SAMPLES = 100  # of each component
_ROWS = 2000  # of a regression, if there are as many


class ScoreCurve(LogitSmoother):
    """`LogitSmoother` of the forecasts, or of their ranks where the evidence for these is larger.

    Its curves are not finer than cells of log odds, and most scores may lie in one cell.
    """

    def _fit_one(self, forecast, target, weight, cluster=None):
        ranks = _Ranks(forecast, weight)
        plain = averaged_map(forecast, target, weight, None, cluster)
        ranked = averaged_map(ranks(forecast), target, weight, None, cluster)
        if not ranked.log_evidence > plain.log_evidence + _DOUBT:
            return plain
        return lambda new: ranked(ranks(new))


class _Ranks:
    """Forecasts whose logits are normal scores of the ranks of the centred logits of each class.

    Between and beyond the forecasts that it was learned from, it is linear and constant.
    """

    def __init__(self, forecast, weight):
        self.limit, self.scores = detection_limit(forecast), []
        for column in self._places(forecast).T:
            order = np.argsort(column, kind="stable")
            values, which = column[order], np.empty(len(column), dtype=int)
            first = np.append(True, np.diff(values) > _TIED * np.maximum(1, np.abs(values[1:])))
            which[order], values = np.cumsum(first) - 1, values[first]
            mass = np.bincount(which, weight)
            share = (np.cumsum(mass) - mass / 2) / mass.sum()  # 0 and 1 by rounding
            self.scores.append((values, ndtri(np.clip(share, _LEAST, 1 - _LEAST))))

    def __call__(self, forecast):
        columns = zip(self._places(forecast).T, self.scores, strict=True)
        scores = [np.interp(column, values, score) for column, (values, score) in columns]
        return softmax(np.column_stack(scores), axis=1)

    def _places(self, forecast):
        log = log_forecast(forecast, self.limit)
        return log - log.mean(axis=1, keepdims=True)


def rows_of_regression(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Rows of the regression of the steps of a fold on the forecasts: `test`, then some of `train`.

    There are no rows of `train` if those of `test` are many. The regression is that of the model of
    one fold: that of the steps of all folds would follow the labels of all folds, and take away
    what the models have found.
    """
    n_further = min(max(_ROWS - len(test), 0), len(train))
    return np.append(test, train[np.linspace(0, len(train) - 1, n_further).astype(int)])


def residual_on_score(
    values: np.ndarray, forecast: np.ndarray, curve: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    r"""Values (n, m) minus their regression on functions of the forecasts (n, K).

    The residual :math:`\tilde m` of a step m fulfils :math:`E[\tilde m | S] \approx 0`. Then
    :math:`E \langle Y - \hat C, \tilde m \rangle = E \langle Q - C, \tilde m \rangle` for the curve
    :math:`\hat C` (n, K), up to the product of the errors with which the functions approximate C
    and m: a step finds grouping loss only, no calibration error that the curve has left.

    The functions are piecewise linear in the position of the probability of the event or of the top
    label. They are also linear in principal components of the logits and of the probabilities of
    the curve, and linear and quadratic in those of the forecasts and of their ranks: at most ten
    components, one for each hundred samples.
    """
    root = np.sqrt(weight)[:, None]
    # With pivots, functions that depend on others come last, and can be left out.
    basis, triangle, _ = qr(
        root * functions_of_score(forecast, curve, weight), mode="economic", pivoting=True
    )
    size = np.abs(np.diag(triangle))
    basis = basis[:, size > 1e-8 * size.max()]
    residuals = values - (basis @ (basis.T @ (root * values))) / root
    size, least = np.linalg.norm(root * residuals, axis=0), np.linalg.norm(root * values, axis=0)
    return np.where(size > _ROUNDING * least, residuals, 0.0)


def functions_of_score(forecast: np.ndarray, curve: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Functions (n, m) of the forecasts on which `residual_on_score` regresses."""
    n_samples, n_classes = forecast.shape
    n_used = int(np.clip(n_samples // _SAMPLES, 1, min(n_classes - 1, MOST_COMPONENTS)))
    parts = [functions_of_position(order_of(forecast), weight, intervals_for(n_samples))[0]]
    for proba in (forecast, _Ranks(forecast, weight)(forecast), curve):
        logits = np.log(np.maximum(proba, proba[proba > 0].min()))
        scores, shares = (Components(x, n_used).read(x) for x in (logits, proba))
        parts += [scores, shares]
        if proba is not curve:
            first, second = np.triu_indices(min(scores.shape[1], 3), 1)
            parts += [scores**2, shares**2, scores[:, first] * scores[:, second]]
    return np.hstack(parts)
