r"""Level sets, regions, and the terms of the grouping loss on them.

`level_sets` cuts the scores, `Partitioner` and `cut_level_sets` cut each level set into regions of
similar features, and `partition_terms` computes the terms. With the label frequencies :math:`R_j`
of the regions, :math:`C_b` of the level sets, and a calibration curve :math:`\hat C(S)`,

.. math::

    \text{explained (plug-in)} = \sum_j \tfrac{n_j}{n} D(R_j, C_{b(j)}), \qquad
    \text{induced} = \tfrac1n \sum_i D(\hat C(S_i), \bar C_{b(i)}) .

The calibration error of the scores is that of the binned scores plus what binning induces, which is
estimated with the curve. The explained part is debiased by a jackknife. The variance of the bound
is that of its terms, row by row. doc/design.rst and :ref:`grouping_loss` have the derivations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.messages import shown
from skcalib._util.ties import merge_ties
from skcalib._util.types import MatrixLike, PartitionerLike, Strategy
from skcalib.data.clusters import cluster_sums, independent_size, inflation
from skcalib.data.features import Feature
from skcalib.data.labels import labels_or_shares
from skcalib.grouping.tree import BalancedStump, FeatureBins, HistogramTree
from skcalib.scores import weighted_mean
from skcalib.smoothers import MedianCells, QuantileBins, UniformBins

if TYPE_CHECKING:
    from skcalib.scores import ProperScore

STRATEGIES = {"quantile": QuantileBins, "uniform": UniformBins}


def level_sets(forecast: np.ndarray, n_bins: int, strategy: Strategy) -> np.ndarray:
    """Level set of each forecast; vectors of more than two columns are cut at medians."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        names = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {names}, got {shown(strategy)}.")
    if forecast.shape[1] == 2:
        partition = STRATEGIES[strategy](n_bins)
    elif strategy == "quantile":
        # At least half of the samples of equal sets: few forecasts may have the largest variance.
        partition = MedianCells(n_bins, min_samples=max(len(forecast) // (2 * n_bins), 1))
    else:
        raise ValueError(
            "strategy='uniform' cuts one probability: with more than two columns use 'quantile', "
            "or notion='classwise' or 'top_label'."
        )
    return partition.fit(forecast, forecast).cells_


def stratified_half(
    forecast: np.ndarray, bins: np.ndarray, test_size: float, rng: np.random.RandomState
) -> np.ndarray:
    """Mask of the measured samples: a share `test_size` of each few neighbours in the score.

    Neighbours are shuffled: with every test_size-th sample in order there would be only two halves.
    """
    shuffled = rng.permutation(len(bins))
    order = shuffled[np.lexsort((order_of(forecast)[shuffled], bins[shuffled]))]
    few = int(np.ceil(1 / min(test_size, 1 - test_size)))
    order = order[np.argsort(np.arange(len(bins)) // few + rng.random_sample(len(bins)))]
    ticks = np.floor(np.arange(len(bins) + 1) * test_size + rng.random_sample())
    measured = np.empty(len(bins), dtype=bool)
    measured[order] = np.diff(ticks) > 0
    return measured


def half_of_clusters(
    forecast: np.ndarray, cluster: np.ndarray, test_size: float, rng: np.random.RandomState
) -> np.ndarray:
    """As `stratified_half`, by the mean scores of whole clusters (n,); no half is empty."""
    distinct, cluster = np.unique(cluster, return_inverse=True)
    means = cluster_sums(forecast, cluster) / np.bincount(cluster)[:, None]
    half = stratified_half(means, np.zeros(len(distinct), dtype=int), test_size, rng)
    if half.all() or not half.any():
        half[rng.randint(len(half))] = not half[0]
    return half[cluster]


def order_of(forecast: np.ndarray) -> np.ndarray:
    """Sort key of the samples: the probability for two columns, the confidence for more."""
    return merge_ties(forecast[:, 1] if forecast.shape[1] == 2 else forecast.max(axis=1))


@dataclass(frozen=True)
class Regions:
    """Region of each measured sample, the rule of each, and the share of merged ``singletons``."""

    region: np.ndarray
    rules: list
    singletons: float
    n_before: int


class Partitioner:
    """Cuts a level set: learns regions on one half of its samples and finds them on the other."""

    def __init__(
        self,
        partitioner: PartitionerLike,
        region_ratio: int,
        rng: np.random.RandomState,
        features: list[Feature],
    ) -> None:
        self.partitioner, self.region_ratio, self.rng = partitioner, region_ratio, rng
        self.features = features
        self.kind = _kind(partitioner)

    def prepare(self, X: MatrixLike) -> np.ndarray:
        """Data shared by all level sets: codes for the tree, standardised features for "kmeans"."""
        if self.kind == "stump":
            self._missing = np.isnan(X).any(axis=0)
            return X
        if self.kind == "tree":
            self._bins = FeatureBins().fit(X, self.rng)
            return self._bins.transform(X)
        return StandardScaler().fit_transform(X) if self.kind == "kmeans" else X

    def seed(self) -> int | None:
        """Generators of the level sets, drawn in sequence so that n_jobs has no effect."""
        drawn = self.kind == "kmeans" or unseeded(self.partitioner)
        return self.rng.randint(2**31 - 1) if drawn else None

    def cut(
        self,
        prepared: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        fitting: np.ndarray,
        measured: np.ndarray,
        seed: int | None,
    ) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Regions (local numbers) of the rows `fitting` and `measured`, and their rules."""
        labels = labels_or_shares(target)
        n_regions = max(1, len(measured) // self.region_ratio)
        own_weight = None if np.ptp(weight) == 0 else weight[fitting]
        if self.kind == "stump":
            halves = BalancedStump().fit(
                prepared[fitting], labels[fitting], target.shape[1], own_weight
            )
            rules = halves.rules(self.features, self._missing)
            return halves.apply(prepared[fitting]), halves.apply(prepared[measured]), rules
        if self.kind == "tree":
            # Half of the ratio: with less, many regions have a single measured sample.
            tree = HistogramTree(n_regions, min_samples_leaf=max(1, self.region_ratio // 2))
            tree.fit(prepared[fitting], labels[fitting], target.shape[1], own_weight)
            rules = tree.rules(self._bins.edges_, self.features, self._bins.missing_)
            return tree.apply(prepared[fitting]), tree.apply(prepared[measured]), rules
        if self.kind == "kmeans":
            from sklearn.cluster import KMeans  # here, not before: rare, and slow to import

            n_clusters = min(n_regions, len(fitting))
            model = KMeans(n_clusters, n_init=1, random_state=seed)
        else:
            model = clone(self.partitioner)
            if seed is not None:
                model.set_params(**dict.fromkeys(unseeded(model), seed))
            if is_classifier(model) and labels.ndim == 2:
                raise ValueError(
                    f"{type(model).__name__} is a classifier, which cannot be fitted to soft "
                    "labels: use the default partitioner, 'stump', 'kmeans' or a regressor."
                )
            if is_classifier(model) and np.ptp(labels[fitting]) == 0:  # nothing to separate
                return np.zeros_like(fitting), np.zeros_like(measured), ["all"]
        with warnings.catch_warnings():
            # With fewer distinct points than clusters there are fewer regions, as intended.
            warnings.filterwarnings("ignore", "Number of distinct clusters", ConvergenceWarning)
            own = labels[:, 1] if np.shape(labels)[1:] == (2,) else labels
            model.fit(prepared[fitting], own[fitting])
        return _numbered(model, prepared, fitting, measured)


def unseeded(partitioner: Any) -> list[str]:
    """Parameters of an estimator, or of its parts, that are a seed and None."""
    params = partitioner.get_params() if hasattr(partitioner, "get_params") else {}
    seeds = [name for name in params if name.split("__")[-1] == "random_state"]
    return [name for name in seeds if params[name] is None]


def _kind(partitioner):
    if partitioner is None:
        return "tree"
    if isinstance(partitioner, str) and partitioner in ("stump", "kmeans"):
        return partitioner
    if _is_estimator(partitioner):
        return "estimator"
    raise ValueError(
        "partitioner must be None, 'stump', 'kmeans' or a scikit-learn estimator with apply or "
        f"predict, got {shown(partitioner)}."
    )


def allows_nan(partitioner: PartitionerLike) -> bool:
    """Whether a partitioner accepts missing values: our trees do, estimators have a tag for it."""
    if partitioner is None or isinstance(partitioner, str):
        return partitioner in (None, "stump")
    return _is_estimator(partitioner) and get_tags(partitioner).input_tags.allow_nan


def _is_estimator(partitioner):
    finds = hasattr(partitioner, "apply") or hasattr(partitioner, "predict")
    return hasattr(partitioner, "fit") and finds and not isinstance(partitioner, type)


def _numbered(model, prepared, fitting, measured):
    find = model.apply if hasattr(model, "apply") else model.predict
    found = [np.asarray(find(prepared[rows])) for rows in (fitting, measured)]
    if found[0].ndim != 1:
        raise ValueError(
            f"{type(model).__name__} gives several regions for each sample: use a single tree or "
            "a clustering."
        )
    names, number = np.unique(np.concatenate(found), return_inverse=True)
    if len(names) > 0.5 * len(number) and len(number) > 4:
        raise ValueError(
            f"{type(model).__name__} puts nearly every sample into its own region: use an "
            "estimator that predicts few values, such as a tree or a clustering."
        )
    kind = type(model).__name__
    return number[: len(fitting)], number[len(fitting) :], [f"{kind} region {k}" for k in names]


def merge_singletons(region: np.ndarray, likeness: np.ndarray) -> np.ndarray:
    """Merge each region of a single sample into the most similar larger region.

    `region` (n,) are those of the measured samples of one level set. They are compared by
    `likeness` (n_regions, C), label frequencies on the *other* half, so that the measured labels
    are not used. Regions then have two samples or more, unless the level set has only one.
    """
    counts = np.bincount(region, minlength=len(likeness))
    single, several = np.flatnonzero(counts == 1), np.flatnonzero(counts > 1)
    if len(single) == 0:
        return region
    target = np.arange(len(likeness))
    if len(several) == 0:
        target[single] = single[0]
    else:
        distance = np.sum((likeness[single, None, :] - likeness[None, several, :]) ** 2, axis=2)
        target[single] = several[distance.argmin(axis=1)]
    return target[region]


def merge_single_clusters(
    bins: np.ndarray, region: np.ndarray, cluster: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Merge regions of a single cluster, because its effect and that of the region are confounded.

    All such regions of a level set join its region with the most clusters. Labels are not used, and
    the bound also holds for a coarser partition. -> (region of each sample, whether it still has
    one cluster)
    """
    region = region.copy()
    for level in np.unique(bins):
        here = np.flatnonzero(bins == level)
        numbers = _n_clusters(region[here], cluster[here])
        largest = region[here][numbers.argmax()]
        region[here] = np.where(numbers > 1, region[here], largest)
    return region, _n_clusters(region, cluster) == 1


def _n_clusters(region, cluster):
    """Number of clusters in the region of each sample (n,)."""
    pairs = np.unique(np.column_stack([region, cluster]), axis=0)
    return np.bincount(pairs[:, 0])[region]


def cut_level_sets(
    partitioner: Partitioner,
    prepared: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    bins: np.ndarray,
    measured: np.ndarray,
) -> Regions:
    """Regions of the measured samples over all level sets -> `Regions`."""
    region = np.full(len(bins), -1)
    rules, n_single, n_before = [], 0, 0
    levels = [
        (np.flatnonzero(here & ~measured), np.flatnonzero(here & measured))
        for here in (bins == level for level in range(bins.max() + 1))
    ]
    cuts = iter(
        Parallel()(
            delayed(partitioner.cut)(prepared, target, weight, *rows, partitioner.seed())
            for rows in levels
            if min(map(len, rows)) > 0
        )
    )
    for fitting, testing in levels:
        if len(testing) == 0:
            continue
        if len(fitting) == 0:
            region[testing], rules = len(rules), [*rules, "all"]
            n_before += 1
            continue
        fitted, found, names = next(cuts)
        counts = np.bincount(found, minlength=len(names))
        n_before += int(np.sum(counts > 0))
        n_single += int(np.sum(counts == 1))
        likeness = _frequencies(fitted, target[fitting], len(names))
        region[testing] = len(rules) + merge_singletons(found, likeness)
        rules = rules + list(names)
    kept, compact = np.unique(region[measured], return_inverse=True)
    return Regions(compact, [rules[k] for k in kept], n_single / max(n_before, 1), n_before)


def _frequencies(region, target, n_regions):
    counts = np.bincount(region, minlength=n_regions)[:, None]
    sums = np.stack([np.bincount(region, column, n_regions) for column in target.T], axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), target.mean(axis=0))


# --- Terms of the grouping loss -------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionTerms:
    """Terms over the measured samples of one problem; ``variance`` is that of the bound."""

    plugin: float
    bias: float
    induced: float
    variance: float
    calibration: float
    calibration_induced: float
    correction: float

    @property
    def explained(self) -> float:
        """Debiased explained grouping loss; may be negative."""
        return self.plugin - self.bias

    @property
    def lower_bound(self) -> float:
        """Lower bound of the grouping loss (L23 prop. 4.2)."""
        return self.explained - self.induced


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
) -> PartitionTerms:
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
    return PartitionTerms(
        plugin=float(weighted_mean(plugin, weight)),
        bias=plugin_bias,
        induced=float(weighted_mean(induced, weight)),
        variance=variance_of_mean(influence, weight, cluster),
        calibration=float(weighted_mean(error(coarse.mean(pairs)), weight))
        - bias(coarse, error, pairs),
        calibration_induced=_calibration_induced(score, coarse, curve, forecast),
        correction=_binning_correction(score, coarse, forecast, target),
    )


def variance_of_mean(
    values: np.ndarray, weight: np.ndarray, cluster: np.ndarray | None = None
) -> float:
    """Squared standard error of a weighted mean, by clusters if there are any."""
    share = weight / weight.sum()
    found = float(np.sum(cluster_sums(share * (values - share @ values), cluster) ** 2))
    if cluster is None:
        return found
    return found * inflation(independent_size(weight, cluster=cluster))


def _calibration_induced(score, coarse, curve, forecast):
    """Error of the scores minus that of the binned scores, both by the curve (L23 prop. C.2)."""
    binned = score.divergence(coarse.mean(curve), coarse.mean(forecast))
    known = np.isfinite(binned)  # an infinite error of the binned scores is left as it is
    excess = np.zeros(len(binned))
    excess[known] = score.divergence(curve, forecast)[known] - binned[known]
    return float(weighted_mean(excess, coarse.weight))


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
        found = Cells(distinct[:, 0], np.bincount(part, self.weight))
        return found, np.stack(sums, axis=1) / mass[:, None]

    def jackknife_bias(
        self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
    ) -> float:
        """Bias of the mean over samples of a function of the cell means.

        Weights enter so that the changes of the means cancel in each cell, and each cell is scaled
        so that squares are corrected exactly; with equal weights it is the formula of the module.
        Cells of a single sample contribute nothing, nor do cells in which one weight dominates all
        others; nor does a sample without which the function is infinite: a divergence from a
        forecast of zero.
        """
        mean, mass, weight = self.mean(values), self.mass[self.cells], self.weight
        rest = mass - weight
        # Without the heavy sample of a cell the changes by the light ones would not cancel.
        several = np.bincount(self.cells, rest <= 1e-9 * mass)[self.cells] == 0
        scale = self._jackknife_scale(several)[several]
        mean, rest, weight = mean[several], rest[several, None], weight[several, None]
        others = mean - weight / rest * (values[several] - mean)
        others = np.clip(others, 0.0, 1.0)  # rounding can leave the simplex by one unit
        before, after = function(mean), function(others)
        finite = np.isfinite(before) & np.isfinite(after)
        change = np.where(finite, after, 0.0) - np.where(finite, before, 0.0)
        return float(np.sum(scale * rest[:, 0] * change) / self.mass.sum())

    def _jackknife_scale(self, several):
        """Variance of a weighted mean of labels of variance 1, over what the jackknife expects."""
        share = self.weight / self.mass[self.cells]
        squares = np.bincount(self.cells, share**2)
        spread = share**2 / np.where(several, 1 - share, 1.0)
        spread *= 1 - 2 * share + squares[self.cells]
        expected = np.bincount(self.cells, np.where(several, spread, 0.0))
        return (squares / np.where(expected > 0, expected, 1.0))[self.cells]
