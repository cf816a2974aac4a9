"""Clusters of dependent samples, and effective numbers of samples and clusters.

Sums over clusters are independent of each other, for any dependence within a cluster, so that
variances are sums of their squares.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.special import ndtr, stdtrit

from skcalib._util.messages import is_missing
from skcalib._util.types import ArrayLike
from skcalib._util.validation import to_numpy

_FEW_CLUSTERS = 10  # below which there is a warning


def check_groups(groups: ArrayLike, n_samples: int) -> np.ndarray:
    """One label of a cluster per sample -> codes (n,), as `numbers_by_appearance`."""
    values = np.asarray(to_numpy(groups, name="groups"))
    if values.shape != (n_samples,):
        raise ValueError(
            f"groups must have shape ({n_samples},), one label of a cluster per sample; got shape "
            f"{values.shape}."
        )
    n_missing = sum(map(is_missing, values.tolist()))
    if n_missing:
        raise ValueError(
            f"groups is missing for {n_missing} samples: each sample needs the label of its "
            "cluster. Give samples that belong to no cluster a label of their own."
        )
    if values.dtype.kind != "O":
        return numbers_by_appearance(values)
    try:
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(name, len(numbers)) for name in values.tolist()])
    except TypeError:
        raise ValueError(
            "groups must hold labels, such as numbers or strings: a value cannot be a label."
        ) from None


def number_clusters(codes: np.ndarray) -> np.ndarray | None:
    """Codes (n,) of the samples that count, from 0; None if every cluster is one sample.

    Raises for a single cluster, and warns of few, at the line that called the library.
    """
    codes = numbers_by_appearance(codes)
    n_clusters = int(codes.max(initial=-1)) + 1
    if n_clusters == len(codes):
        return None
    if n_clusters < 2:
        raise ValueError(
            f"groups has one cluster for all {len(codes)} samples, so nothing is known about how "
            "clusters vary: at least two are needed, preferably forty."
        )
    if n_clusters < _FEW_CLUSTERS:
        warnings.warn(
            f"groups has only {n_clusters} clusters: standard errors from so few are unreliable, "
            "and intervals are usually too short. Use at least ten, preferably forty.",
            UserWarning,
            stacklevel=outside_level(),
        )
    return codes


def numbers_by_appearance(values: np.ndarray) -> np.ndarray:
    """Numbers (n,) of equal values, from 0 in the order of their first appearance.

    Draws, folds and sums then do not depend on the names of the clusters.
    """
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.ravel()]


def sample_of_each_cluster(cluster: np.ndarray) -> np.ndarray:
    """Rows of one sample of each cluster, drawn with a fixed seed, in order."""
    order = np.random.RandomState(0).permutation(len(cluster))
    return np.sort(order[np.unique(cluster[order], return_index=True)[1]])


def outside_level() -> int:
    """The stack level, for the calling function, of the first caller outside of the library."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("skcalib."):
        frame, level = frame.f_back, level + 1
    return level


# --- Sums and effective numbers -------------------------------------------------------------------


def effective_size(weight: np.ndarray, square: np.ndarray | None = None) -> float:
    r"""Number of equally weighted samples whose mean varies as much, :math:`(\sum w)^2 / \sum w^2`.

    Weights (n,), Kish's formula; 0 where all are 0. `square` (n,) has the sums of squared weights
    where a row stands for several samples.
    """
    if square is None:
        weight = np.ldexp(weight, -np.frexp(np.max(weight, initial=0.0))[1])  # or squares vanish
        square = np.square(weight)
    return float(effective_size_of_sums(np.sum(weight), np.sum(square)))


def effective_size_of_sums(mass: ArrayLike, square_mass: ArrayLike) -> np.ndarray:
    """`effective_size` from the sums of weights and of their squares, for arrays of any shape."""
    mass, square_mass = np.asarray(mass), np.asarray(square_mass)
    some = square_mass > 0
    return np.divide(mass**2, square_mass, out=np.zeros(np.shape(mass)), where=some)


def cluster_sums(values: Any, cluster: np.ndarray | None, n_clusters: int | None = None) -> Any:
    """Sums over clusters (G, ...) of an array or sparse matrix (n, ...).

    Of a part of the samples, which may lack the last clusters, `n_clusters` is G.

    Sums of different clusters are independent. Their squares give variances that allow for any
    dependence within a cluster. Without clusters (None) it is the array itself.
    """
    if cluster is None:
        return values
    if not issparse(values) and np.ndim(values) == 1:
        return np.bincount(cluster, values, n_clusters or 0)
    shape = (n_clusters or int(cluster.max()) + 1, len(cluster))
    return csr_matrix((np.ones(len(cluster)), (cluster, np.arange(len(cluster)))), shape) @ values


def independent_size(
    weight: np.ndarray, square: np.ndarray | None = None, cluster: np.ndarray | None = None
) -> float:
    r"""Effective number of independent units: of clusters, or of samples if there are none.

    For clusters it is :math:`(\sum_g W_g)^2 / \sum_g W_g^2` with the sum :math:`W_g` of the weights
    of each. It is the number of clusters if all have the same weight, else less.
    """
    if cluster is None:
        return effective_size(weight, square)
    return effective_size(cluster_sums(weight, cluster))


def intraclass_correlation(
    residual: np.ndarray, spread: np.ndarray, weight: np.ndarray, cluster: np.ndarray
) -> float:
    r"""Correlation of the residuals of two samples of a cluster, between 0 and 1.

    :math:`\sum w_i w_j r_i r_j / \sum w_i w_j \sigma_i \sigma_j` over pairs of different samples of
    a cluster, with residuals r and their standard deviations :math:`\sigma`; 1 if there is no
    spread. Of residuals (n, K) the products are added over the columns.
    """

    def pairs(values):
        values = (weight * values.T).T
        return float(np.sum(cluster_sums(values, cluster) ** 2) - np.vdot(values, values))

    whole = pairs(spread)
    factor = inflation(independent_size(weight, cluster=cluster))
    return float(np.clip(factor * pairs(residual) / whole, 0.0, 1.0)) if whole > 0 else 1.0


def design_effect(
    residual: np.ndarray, spread: np.ndarray, weight: np.ndarray, cluster: np.ndarray
) -> float:
    r"""Number of samples in clusters that are worth one independent sample, at least 1.

    :math:`1 + \rho\, (\sum_g W_g^2 / \sum_i w_i^2 - 1)` with the `intraclass_correlation`
    :math:`\rho` of these residuals, and the sums :math:`W_g` of the weights of the clusters.
    """
    rows = effective_size(weight) / independent_size(weight, cluster=cluster)
    return 1 + intraclass_correlation(residual, spread, weight, cluster) * (rows - 1)


def inflation(size: float) -> float:
    """Factor m / (m - 1) of a variance around a mean of m independent units; 1 for a single one."""
    return size / (size - 1) if size - 1 > 1e-9 else 1.0


def student_level(confidence_level: float, size: float) -> float:
    """Level of a normal interval that is as long as Student's with `size` - 1 degrees."""
    quantile = stdtrit(max(size - 1, 1.0), 0.5 + confidence_level / 2)
    return float(min(2 * ndtr(quantile) - 1, 1 - 1e-12))


def folds_of_groups(splitter: Any, X: Any, y: Any, **split_params: Any) -> list[Any]:
    """Folds of a splitter; warns if it ignores groups and divides one of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = list(splitter.split(X, y, **split_params))
    ignores_groups = False
    for warning in caught:
        if "groups parameter is ignored" in str(warning.message):
            ignores_groups = True
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if ignores_groups:
        groups = np.asarray(split_params["groups"])
        divided = {
            group for train, test in folds for group in np.intersect1d(groups[train], groups[test])
        }
        if divided:
            warnings.warn(
                f"cv={splitter!r} takes no groups: {len(divided)} groups have samples in both the "
                "training and the test set of a fold, so the model is assessed on groups that it "
                "has seen. A number of folds, such as cv=5, or a splitter such as GroupKFold keeps "
                "them whole.",
                UserWarning,
                stacklevel=outside_level(),
            )
    return folds
