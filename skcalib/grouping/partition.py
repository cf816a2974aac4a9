"""Level sets of the scores, and regions of similar features within them.

`level_sets` cuts the scores. `Partitioner` and `cut_level_sets` cut each level set into regions:
they are learned from one half of its samples and found on the other.

The default is a classification tree on histograms. Features are cut once into at most 255 bins,
and all trees share the codes. A node then needs one `bincount` over (class, feature, bin), and the
larger of two children gets its histogram by subtraction from the parent. The criterion is the Brier
score in the node (Gini impurity). `BalancedStump` is one split into halves, on the values
themselves.
"""

from __future__ import annotations

import heapq
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.arithmetic import merge_ties
from skcalib._util.messages import shown
from skcalib._util.sizes import SIZES
from skcalib._util.types import MatrixLike, PartitionerLike, Strategy
from skcalib._util.validation import look_up
from skcalib.data.clusters import cluster_sums
from skcalib.data.features import Feature
from skcalib.data.labels import labels_or_shares
from skcalib.smoothers import MedianCells, QuantileBins, UniformBins

STRATEGIES = {"quantile": QuantileBins, "uniform": UniformBins}


def level_sets(forecast: np.ndarray, n_bins: int, strategy: Strategy) -> np.ndarray:
    """Level set of each forecast; vectors of more than two columns are cut at medians."""
    look_up(strategy, STRATEGIES, "strategy")
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
        if partitioner is None:
            self.kind = "tree"
        elif isinstance(partitioner, str) and partitioner in ("stump", "kmeans"):
            self.kind = partitioner
        elif is_estimator(partitioner):
            self.kind = "estimator"
        else:
            raise ValueError(
                "partitioner must be None, 'stump', 'kmeans' or a scikit-learn estimator with "
                f"apply or predict, got {shown(partitioner)}."
            )

    def prepare(self, X: MatrixLike) -> np.ndarray:
        """Data shared by all level sets: codes for the tree, standardised features for "kmeans"."""
        if self.kind in ("stump", "tree"):
            self._missing = np.isnan(X).any(axis=0)
        if self.kind == "tree":
            X, self._edges = quantile_codes(X, self.rng)
        return StandardScaler().fit_transform(X) if self.kind == "kmeans" else X

    def seed(self) -> int | None:
        """Generators of the level sets, drawn in sequence so that n_jobs has no effect."""
        drawn = self.kind == "kmeans" or _unseeded(self.partitioner)
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
        if self.kind in ("stump", "tree"):
            tree: Any = BalancedStump()
            edges = ()
            if self.kind == "tree":
                # Half of the ratio: with less, many regions have a single measured sample.
                tree = HistogramTree(n_regions, min_samples_leaf=max(1, self.region_ratio // 2))
                edges = (self._edges,)
            fit_weight = None if np.ptp(weight) == 0 else weight[fitting]
            tree.fit(prepared[fitting], labels[fitting], target.shape[1], fit_weight)
            rules = tree.rules(*edges, self.features, self._missing)
            return tree.apply(prepared[fitting]), tree.apply(prepared[measured]), rules
        if self.kind == "kmeans":
            from sklearn.cluster import KMeans  # here, not before: rare, and slow to import

            n_clusters = min(n_regions, len(fitting))
            model = KMeans(n_clusters, n_init=1, random_state=seed)
        else:
            model = clone(self.partitioner)
            if seed is not None:
                model.set_params(**dict.fromkeys(_unseeded(model), seed))
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
            outcome = labels[:, 1] if np.shape(labels)[1:] == (2,) else labels
            model.fit(prepared[fitting], outcome[fitting])
        return _numbered(model, prepared, fitting, measured)


def _unseeded(partitioner):
    """Parameters of an estimator, or of its parts, that are a seed and None."""
    params = partitioner.get_params() if hasattr(partitioner, "get_params") else {}
    seeds = [name for name in params if name.split("__")[-1] == "random_state"]
    return [name for name in seeds if params[name] is None]


def allows_nan(partitioner: PartitionerLike) -> bool:
    """Whether a partitioner accepts missing values: our trees do, estimators have a tag for it."""
    if partitioner is None or isinstance(partitioner, str):
        return partitioner in (None, "stump")
    return is_estimator(partitioner) and get_tags(partitioner).input_tags.allow_nan


def is_estimator(partitioner: Any) -> bool:
    """Whether this finds regions as an estimator: it is fitted, and applied or predicts."""
    finds = hasattr(partitioner, "apply") or hasattr(partitioner, "predict")
    return hasattr(partitioner, "fit") and finds and not isinstance(partitioner, type)


def _numbered(model, prepared, fitting, measured):
    find = model.apply if hasattr(model, "apply") else model.predict
    names_of_rows = [np.asarray(find(prepared[rows])) for rows in (fitting, measured)]
    if names_of_rows[0].ndim != 1:
        raise ValueError(
            f"{type(model).__name__} gives several regions for each sample: use a single tree or "
            "a clustering."
        )
    names, number = np.unique(np.concatenate(names_of_rows), return_inverse=True)
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
            delayed(partitioner.cut)(prepared, target, weight, fitting, testing, partitioner.seed())
            for fitting, testing in levels
            if len(fitting) and len(testing)
        )
    )
    for fitting, testing in levels:
        if len(testing) == 0:
            continue
        if len(fitting) == 0:
            region[testing] = len(rules)
            rules.append("all")
            n_before += 1
            continue
        fitted, local, names = next(cuts)
        counts = np.bincount(local, minlength=len(names))
        n_before += int(np.sum(counts > 0))
        n_single += int(np.sum(counts == 1))
        size = np.bincount(fitted, minlength=len(names))[:, None]
        sums = [np.bincount(fitted, column, len(names)) for column in target[fitting].T]
        frequency = np.stack(sums, axis=1) / np.maximum(size, 1)
        likeness = np.where(size > 0, frequency, target[fitting].mean(axis=0))
        region[testing] = len(rules) + merge_singletons(local, likeness)
        rules += names
    numbers, compact = np.unique(region[measured], return_inverse=True)
    return Regions(compact, [rules[k] for k in numbers], n_single / max(n_before, 1), n_before)


# --- Trees ----------------------------------------------------------------------------------------


_MISSING = 255  # code of missing values; they follow the larger values


def quantile_codes(
    X: np.ndarray, rng: np.random.RandomState, n_bins: int = 32, subsample: int = 10_000
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Codes (n, d), uint8, of quantile bins of each feature, and the inner edges of these.

    Edges are learned from at most `subsample` rows, drawn by the RandomState `rng`. A value on an
    edge belongs to the bin below it.
    """
    rows = slice(None)
    if len(X) > subsample:
        rows = rng.choice(len(X), subsample, replace=False)
    all_edges = [_edges(column, n_bins) for column in np.asarray(X[rows]).T]
    codes = np.empty(X.shape, dtype=np.uint8)
    for j, edges in enumerate(all_edges):
        codes[:, j] = np.searchsorted(edges, X[:, j], side="left")
        codes[np.isnan(X[:, j]), j] = _MISSING
    return codes, all_edges


def _edges(column, n_bins):
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) < 2:
        return np.empty(0)
    middles = values[:-1] + (values[1:] - values[:-1]) / 2
    if len(values) <= n_bins:
        return middles
    rank = np.cumsum(counts)[:-1] / counts.sum()
    cut = np.searchsorted(rank, np.arange(1, n_bins) / n_bins)
    return middles[np.unique(np.minimum(cut, len(middles) - 1))]


class HistogramTree:
    """Best-first tree on the `quantile_codes`: the split of largest gain comes first.

    Of the nodes ``feature_`` is -1 for leaves, ``leaf_`` the number of the leaf, or -1 for splits;
    codes up to ``threshold_`` go left.
    """

    def __init__(self, max_leaf_nodes: int, min_samples_leaf: int = 1) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf

    def fit(
        self,
        codes: np.ndarray,
        labels: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None = None,
    ) -> Self:
        """Grow on codes (n, d) and labels (n,) in 0 to n_classes - 1, or their shares (n, C)."""
        if labels.ndim == 2 and weight is None:
            weight = np.ones(len(labels))
        self._codes, self._labels, self._weight = codes, labels, weight
        self._n_classes, n_features = n_classes, codes.shape[1]
        self._n_bins = int(codes[codes != _MISSING].max(initial=0)) + 2
        self._offset = np.arange(n_features, dtype=np.int64) * self._n_bins
        splits = [[-1, 0, -1, -1]]
        rows = np.arange(len(codes))
        histogram = self._histogram(rows)
        self._nodes = {0: (rows, histogram)}
        heap = []
        self._propose(heap, 0)
        n_leaves = 1
        while heap and n_leaves < self.max_leaf_nodes:
            _, node, feature, threshold = heapq.heappop(heap)
            rows, histogram = self._nodes.pop(node)
            goes_left = self._bin(codes[rows, feature]) <= threshold
            children = rows[goes_left], rows[~goes_left]
            small = int(len(children[0]) > len(children[1]))
            part = self._histogram(children[small])
            parts = (part, histogram - part) if small == 0 else (histogram - part, part)
            names = len(splits), len(splits) + 1
            splits[node] = [feature, threshold, *names]
            splits += [[-1, 0, -1, -1], [-1, 0, -1, -1]]
            for name, child_rows, child in zip(names, children, parts, strict=True):
                self._nodes[name] = (child_rows, child)
                self._propose(heap, name)
            n_leaves += 1
        self.feature_, self.threshold_, self.left_, self.right_ = np.array(splits).T
        self.leaf_ = np.full(len(splits), -1)
        leaves = sorted(self._nodes)
        self.leaf_[leaves] = np.arange(len(leaves))
        del self._codes, self._labels, self._weight, self._nodes
        return self

    def apply(self, codes: np.ndarray) -> np.ndarray:
        """Leaf of each row of codes, 0 to n_leaves - 1."""
        node = np.zeros(len(codes), dtype=np.int64)
        active = np.arange(len(codes))
        while len(active):
            at = node[active]
            active = active[self.feature_[at] >= 0]
            at = node[active]
            code = self._bin(codes[active, self.feature_[at]])
            node[active] = np.where(code <= self.threshold_[at], self.left_[at], self.right_[at])
        return self.leaf_[node]

    def rules(
        self, edges: list[np.ndarray], features: list[Feature], missing: np.ndarray
    ) -> list[str]:
        """One sentence a leaf: the splits on its path, merged by feature.

        `missing` marks features with missing values, which are sorted above all others.
        """
        rules = {}
        stack = [(0, {})]
        while stack:
            node, bounds = stack.pop()
            feature = self.feature_[node]
            if feature < 0:
                rules[self.leaf_[node]] = _rule(bounds, edges, features, missing)
                continue
            low, high = bounds.get(feature, (-1, None))
            cut = self.threshold_[node]
            stack.append((self.left_[node], {**bounds, feature: (low, cut)}))
            stack.append((self.right_[node], {**bounds, feature: (cut, high)}))
        return [rules[leaf] for leaf in range(len(rules))]

    def _bin(self, codes):
        return np.where(codes == _MISSING, self._n_bins - 1, codes)

    def _histogram(self, rows):
        """Weight by (class, feature, bin); with weights, one more layer counts samples."""
        n_features, weighted = len(self._offset), self._weight is not None
        layer = n_features * self._n_bins
        total = np.zeros((self._n_classes + weighted) * layer)
        step = max(1, SIZES.table_entries // n_features)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            cell = self._bin(self._codes[part]) + self._offset
            if self._labels.ndim == 2:
                for k, share in enumerate(self._labels[part].T):
                    mass = np.repeat(self._weight[part] * share, n_features)
                    class_layer = slice(k * layer, (k + 1) * layer)
                    total[class_layer] += np.bincount(cell.ravel(), mass, minlength=layer)
            else:
                place = (cell + self._labels[part].astype(np.int64)[:, None] * layer).ravel()
                weight = np.repeat(self._weight[part], n_features) if weighted else None
                total += np.bincount(place, weight, minlength=len(total))
            if weighted:
                total[-layer:] += np.bincount(cell.ravel(), minlength=layer)
        return total.reshape(-1, n_features, self._n_bins)

    def _propose(self, heap, node):
        """Put the best split of a node on the heap, if there is one."""
        rows, histogram = self._nodes[node]
        if len(rows) < 2 * self.min_samples_leaf:
            return
        left = histogram.cumsum(axis=2)
        total = left[:, :1, -1:]
        left = left[:, :, :-1]
        right = total - left
        if self._weight is None:
            size_left, size_right = left.sum(axis=0), right.sum(axis=0)
            mass_left, mass_right = size_left, size_right
        else:
            size_left, size_right = left[-1], right[-1]
            left, right, total = left[:-1], right[:-1], total[:-1]
            mass_left, mass_right = left.sum(axis=0), right.sum(axis=0)
        least = max(self.min_samples_leaf, 1)
        legal = (size_left >= least) & (size_right >= least)
        legal &= (mass_left > 0) & (mass_right > 0)  # tiny weights vanish next to huge ones
        if not legal.any():
            return
        # The parent's own term is the same for all splits of the node.
        gain = np.full(legal.shape, -np.inf)
        gain[legal] = (left**2).sum(axis=0)[legal] / mass_left[legal]
        gain[legal] += (right**2).sum(axis=0)[legal] / mass_right[legal]
        best = int(gain.argmax())
        rise = gain.flat[best] - float((total**2).sum() / total.sum())
        if rise > 1e-9 * total.sum():
            heapq.heappush(heap, (-rise, node, *divmod(best, gain.shape[1])))


class BalancedStump:
    """One split in halves, on the feature of the largest gain (L23, grouping diagrams).

    Every feature is cut at its median, so that both sides have half of the samples, up to one. Ties
    at the median make that impossible; such a feature is cut beside them, where the sides are most
    equal, and not at all if one side would have less than a third. Missing values lie above all
    others; they may also be cut off, if both sides have a third of the samples. The criterion is
    the Brier score in the two sides, as in `HistogramTree`.

    ``feature_`` is -1 if no feature can be cut with a gain. Values up to ``cut_`` are in region 0;
    it is infinite if region 1 has exactly the missing values.
    """

    def fit(
        self, X: np.ndarray, labels: np.ndarray, n_classes: int, weight: np.ndarray | None = None
    ) -> Self:
        """Cut X (n, d), with missing values, for labels (n,) from 0 or their shares (n, C)."""
        self.feature_, self.cut_ = -1, np.inf
        n_samples = len(X)
        mass = np.zeros((n_classes, n_samples))
        if labels.ndim == 2:
            mass[:] = labels.T if weight is None else labels.T * weight
        else:
            mass[labels, np.arange(n_samples)] = 1.0 if weight is None else weight
        best = 1e-9 * mass.sum()
        step = max(1, SIZES.table_entries // max(n_samples, 1))
        for start in range(0, X.shape[1] if n_samples > 1 else 0, step):
            values = np.asarray(X[:, start : start + step], dtype=np.float64)
            values = np.where(np.isnan(values), np.inf, values)
            median = np.partition(values, n_samples // 2, axis=0)[n_samples // 2]
            # The two cuts beside the median, and the values that are known.
            sides = np.stack([values < median, values <= median, values < np.inf])
            size = sides.sum(axis=1)
            smaller = np.minimum(size, n_samples - size)
            allowed = smaller >= max(1, n_samples // 3)
            # Of the cuts beside the median only the most equal one.
            allowed[:2] &= smaller[:2] == smaller[:2].max(axis=0)
            gain = np.where(allowed, _gains(sides, mass), -np.inf)
            if gain.max() > best:
                best = gain.max()
                side, column = divmod(int(gain.argmax()), values.shape[1])
                self.feature_ = start + column
                left = sides[side, :, column]
                low, high = values[left, column].max(), values[~left, column].min()
                middle = low / 2 + high / 2  # infinite if the right side has missing values only
                self.cut_ = float(low if low < high <= middle < np.inf else middle)
        return self

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Region of each row of X, 0 or 1; 0 for all without a split."""
        if self.feature_ < 0:
            return np.zeros(len(X), dtype=np.int64)
        values = np.asarray(X[:, self.feature_], dtype=np.float64)
        return (~(values <= self.cut_)).astype(np.int64)  # missing values are not below the cut

    def rules(self, features: list[Feature], missing: np.ndarray) -> list[str]:
        """One sentence a region; `missing` marks features with missing values."""
        if self.feature_ < 0:
            return ["all"]
        edges = {self.feature_: [] if np.isinf(self.cut_) else [self.cut_]}
        return [
            _rule({self.feature_: bounds}, edges, features, missing)
            for bounds in ((-1, 0), (0, None))
        ]


def _gains(sides, mass):
    """Gain (3, d) of the left sides (3, n, d) for weights by class, mass (C, n)."""
    left = np.stack([mass @ side for side in sides.astype(np.float64)])
    total = mass.sum(axis=1)[:, None]
    gain = np.full((len(sides), sides.shape[2]), -float((total**2).sum() / total.sum()))
    for part in (left, np.maximum(total - left, 0.0)):  # rounding of weights
        side_mass = part.sum(axis=1)
        # Tiny weights vanish next to huge ones.
        gain += np.where(
            side_mass > 0, (part**2).sum(axis=1) / np.where(side_mass > 0, side_mass, 1.0), -np.inf
        )
    return gain


def _rule(bounds, edges, features, missing):
    parts = []
    for number, (low, high) in sorted(bounds.items()):
        cuts, feature = edges[number], features[number]
        if low >= len(cuts):
            parts.append(f"{feature.name} is missing")
            continue
        above = None if low < 0 else cuts[low]
        below = None if high is None or high >= len(cuts) else cuts[high]
        if above is below:  # both are None
            parts.append(f"{feature.name} is not missing")
            continue
        rule = feature.rule(above, below, digits=4)
        absent = high is None and missing[number]
        parts.append(f"({rule} or {feature.name} is missing)" if absent else rule)
    return " and ".join(parts) if parts else "all"
