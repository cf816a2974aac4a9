"""Level sets, halves and regions: who is compared with whom."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, get_tags
from sklearn.utils.parallel import Parallel, delayed

from skcalib.smoothers import MedianCells, QuantileBins, UniformBins
from skcalib.trees import FeatureBins, HistogramTree

STRATEGIES = {"quantile": QuantileBins, "uniform": UniformBins}


def check_features(X, *, allow_nan):
    """Features as a dense matrix of numbers."""
    if issparse(X):
        raise ValueError(
            "X is sparse: regions are cut from dense features. Pass a dense representation, for "
            "example of sklearn.decomposition.TruncatedSVD."
        )
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        kinds = zip(X.columns, X.dtypes, strict=True)
        odd = [str(name) for name, kind in kinds if not _is_number(kind)]
        if odd:
            raise ValueError(
                f"X has columns that are no numbers ({', '.join(odd[:5])}): encode them first, for "
                "example by pd.get_dummies(X)."
            )
    elif np.asarray(X).dtype.kind in "USmM":
        raise ValueError(
            "X holds strings or dates, no numbers: encode them first, for example by "
            "pd.get_dummies(pd.DataFrame(X))."
        )
    try:
        return check_array(
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if allow_nan else True,
            input_name="X",
        )
    except ValueError as error:
        if "could not convert string" in str(error):
            raise ValueError(f"X holds strings, no numbers: encode them first ({error}).") from None
        raise


def _is_number(kind):
    """Whether a column of this type, of pandas or polars, holds numbers or booleans."""
    if hasattr(kind, "kind"):
        return kind.kind in "biuf"
    return str(kind) == "Boolean" or (hasattr(kind, "is_numeric") and kind.is_numeric())


def level_sets(forecast, n_bins, strategy):
    """Level set of each forecast; vectors of more than two columns are cut at medians."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        names = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {names}, got {strategy!r}.")
    if forecast.shape[1] == 2:
        partition = STRATEGIES[strategy](n_bins)
    elif strategy == "quantile":
        partition = MedianCells(n_bins)
    else:
        raise ValueError(
            "strategy='uniform' cuts one probability: with more than two columns use 'quantile', "
            "or notion='classwise' or 'top_label'."
        )
    return partition.fit(forecast, forecast).cells_


def stratified_half(forecast, bins, test_size, rng):
    """Mask of the measured samples: a share `test_size` of each few neighbours in the score.

    Neighbours are shuffled: every test_size-th in the very order would leave two halves to draw.
    """
    shuffled = rng.permutation(len(bins))
    order = shuffled[np.lexsort((order_of(forecast)[shuffled], bins[shuffled]))]
    few = int(np.ceil(1 / min(test_size, 1 - test_size)))
    order = order[np.argsort(np.arange(len(bins)) // few + rng.random_sample(len(bins)))]
    ticks = np.floor(np.arange(len(bins) + 1) * test_size + rng.random_sample())
    measured = np.empty(len(bins), dtype=bool)
    measured[order] = np.diff(ticks) > 0
    return measured


def order_of(forecast):
    """What samples are sorted by: the probability of two columns, the confidence of more."""
    return forecast[:, 1] if forecast.shape[1] == 2 else forecast.max(axis=1)


@dataclass(frozen=True)
class Regions:
    """Region of each measured sample, numbered over all level sets.

    ``rules`` has one sentence for each region; ``singletons`` is the share of regions that held a
    single sample before they were merged.
    """

    region: np.ndarray
    rules: list
    singletons: float
    n_before: int


class Partitioner:
    """Cuts a level set: learns regions on one half of its samples and finds them on the other."""

    def __init__(self, partitioner, region_ratio, rng, feature_names):
        self.partitioner, self.region_ratio, self.rng = partitioner, region_ratio, rng
        self.names = feature_names
        self.kind = _kind(partitioner)

    def prepare(self, X):
        """What all level sets share: codes for the trees, standardised features for k-means."""
        if self.kind in ("tree", "stump"):
            self._bins = FeatureBins().fit(X, self.rng)
            return self._bins.transform(X)
        return StandardScaler().fit_transform(X) if self.kind == "kmeans" else X

    def seed(self):
        """What a level set draws from: one after the other, so that n_jobs changes nothing."""
        return self.rng.randint(2**31 - 1) if self.kind == "kmeans" else None

    def cut(self, prepared, target, weight, fitting, measured, seed):
        """Regions (local numbers) of the rows `fitting` and `measured`, and their rules."""
        labels = target.argmax(axis=1)
        n_regions = max(1, len(measured) // self.region_ratio)
        if self.kind in ("tree", "stump"):
            stump = self.kind == "stump"
            tree = HistogramTree(
                2 if stump else n_regions,
                # A balanced stump: no side below a third of the level set.
                # Else half of the ratio: with less, many regions hold a single measured sample.
                min_samples_leaf=max(1, len(fitting) // 3 if stump else self.region_ratio // 2),
            )
            equal = np.ptp(weight) == 0
            tree.fit(
                prepared[fitting],
                labels[fitting],
                target.shape[1],
                None if equal else weight[fitting],
            )
            rules = tree.rules(self._bins.edges_, self.names, self._bins.missing_)
            return tree.apply(prepared[fitting]), tree.apply(prepared[measured]), rules
        if self.kind == "kmeans":
            n_clusters = min(n_regions, len(fitting))
            model = KMeans(n_clusters, n_init=1, random_state=seed)
        else:
            model = clone(self.partitioner)
            if is_classifier(model) and np.ptp(labels[fitting]) == 0:  # nothing to separate
                return np.zeros_like(fitting), np.zeros_like(measured), ["all"]
        with warnings.catch_warnings():
            # Fewer distinct points than clusters: fewer regions, which is right.
            warnings.filterwarnings("ignore", "Number of distinct clusters", ConvergenceWarning)
            model.fit(prepared[fitting], labels[fitting])
        return _numbered(model, prepared, fitting, measured)


def _kind(partitioner):
    if partitioner is None:
        return "tree"
    if isinstance(partitioner, str) and partitioner in ("stump", "kmeans"):
        return partitioner
    if _is_estimator(partitioner):
        return "estimator"
    raise ValueError(
        "partitioner must be None, 'stump', 'kmeans' or a scikit-learn estimator with apply or "
        f"predict, got {partitioner!r}."
    )


def allows_nan(partitioner):
    """Whether a partitioner takes missing values: our trees do, estimators say so in their tags."""
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
            f"{type(model).__name__} puts nearly every sample into a region of its own: use an "
            "estimator that predicts few values, such as a tree or a clustering."
        )
    kind = type(model).__name__
    return number[: len(fitting)], number[len(fitting) :], [f"{kind} region {k}" for k in names]


def merge_singletons(region, likeness):
    """Join each region of a single sample to the one of several samples that is most alike.

    Parameters
    ----------
    region : array of int of shape (n,)
        Regions of the measured samples of one level set.
    likeness : array of shape (n_regions, C)
        What regions are compared by: label frequencies on the *other* half, so that the measured
        labels have no say.

    Returns
    -------
    array of int of shape (n,)
        Regions of two samples or more, unless the level set has only one.
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


def cut_level_sets(partitioner, prepared, target, weight, bins, measured, n_jobs=None):
    """Regions of the measured samples over all level sets -> `Regions`."""
    region = np.full(len(bins), -1)
    rules, n_single, n_before = [], 0, 0
    levels = [
        (np.flatnonzero(here & ~measured), np.flatnonzero(here & measured))
        for here in (bins == level for level in range(bins.max() + 1))
    ]
    cuts = iter(
        Parallel(n_jobs=n_jobs)(
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
