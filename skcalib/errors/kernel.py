r"""Kernel calibration errors (W19): patterns of indices over one function of two samples.

.. math::

    h_{ij} = w_i w_j\, (y_i - S_i)^\top k(S_i, S_j) (y_j - S_j),

with weights of mean one. A notion with several problems has the mean (or sum) of their h, which is
a function of the same kind. Statistics and tests are patterns of indices (i, j) over h and do not
depend on kernels or notions. Matrices of h are computed in blocks and not stored: sums take O(n^2
K) time and O(n K) memory. So beyond 20,000 samples the default takes the pairs of random blocks.
The error of mean embeddings at given locations takes linear time.

**Few uncertain labels.** Given calibrated forecasts, labels drawn from them have the distribution
of the observed ones, so the p-value :math:`(1 + \#\{b: T_b \ge T\}) / (1 + B)` is exact for every
sample size and every statistic T. A drawn label is the usual one, the most probable, except in few
rows. A draw takes only these rows, by a field that is computed once, in twice the time of the
estimate (formulas: doc/design.rst).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from math import fsum
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.messages import shown
from skcalib._util.parallel import one_thread
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, RowIndex
from skcalib._util.validation import check_proba, look_up, weights_of_mean_one
from skcalib.data.clusters import cluster_sums
from skcalib.data.labels import check_y, column_of_labels, draw_codes, one_hot_rows
from skcalib.data.notions import Canonical, Notion, NotionLike, resolve_notion
from skcalib.data.problem import Problem, check_problem, over_labels
from skcalib.kernels import KERNELS, Kernel, KernelLike, LaplacianKernel
from skcalib.stats.means import FEW, impossible_labels, uncertain_labels
from skcalib.stats.pvalues import drawn_pvalue

STATISTICS = ("auto", "biased", "unbiased", "linear", "block")
_NO_PAIRS = 1e-9  # share of the weight of all pairs; below it differences are mostly rounding
_SMALL = 32  # block sizes up to which many blocks are evaluated at once
ROUNDING = 1e-12  # of a sum over all pairs, relative to its diagonal


@checks_parameters
def kernel_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kernel: KernelLike = None,
    statistic: Literal["auto", "unbiased", "biased", "linear", "block"] = "auto",
    notion: NotionLike = "canonical",
    block_size: int | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> float:
    r"""Squared kernel calibration error (W19): products of residuals of similar forecasts.

    .. math::

        SKCE = E\, (e_Y - S)^\top k(S, S') (e_{Y'} - S') = E\, h

    for two independent samples (S, Y) and (S', Y'). This is the squared norm of the mean of
    :math:`k(S, \cdot)(e_Y - S)` in the space of the kernel. With a characteristic kernel, such as
    the default, it is zero if and only if E[Y|S] = S. Nothing is smoothed or binned, and the error
    is as suitable for many classes as for two. The statistics are means of :math:`h_{ij}` over
    different pairs of samples i and j:

    - ``"auto"``: "unbiased" for at most 20,000 samples. For more, the mean of the unbiased
      estimates of random blocks of equal size, at least 400, with at most as many pairs as 20,000
      samples have. The mean is unbiased too, with a larger variance (:ref:`kernel_errors`);
    - ``"unbiased"``: the mean over all pairs with :math:`i \ne j`;
    - ``"biased"``: the mean over all pairs, ((n - 1) unbiased + mean :math:`h_{ii}`) / n. It is
      never negative, and far above zero for calibrated forecasts in small samples;
    - ``"block"``: the mean of the unbiased estimates of consecutive blocks of ``block_size``
      samples; an incomplete last block is dropped;
    - ``"linear"``: blocks of two: the first and second sample, the third and fourth, and so on.

    "block" and "linear" depend on the order of the samples. The random blocks have a fixed seed,
    and depend on the order by chance only. Problems of a notion have two columns, so binary errors
    are twice those of papers that use the residual of one column. The unit is that of the kernel.
    Values for different kernels or bandwidths cannot be compared, and a value alone is hard to
    interpret. Use :func:`~skcalib.kernel_calibration_test` for its significance.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class. Rows sum to one.
    kernel : None, {"laplacian", "gaussian"} or Kernel, default=None
        None is W19's :class:`~skcalib.kernels.LaplacianKernel`, on total variation with the median
        distance as bandwidth. A bandwidth rule uses the forecasts of each problem of the notion.
    statistic : {"auto", "unbiased", "biased", "linear", "block"}, default="auto"
        See above.
    block_size : int, default=None
        Samples of a block, for ``statistic="block"`` only; from 2 to n.
    sample_weight : array-like of shape (n_samples,), default=None
        A pair has weight :math:`w_i w_j`, a block the sum over its pairs. Weights are not
        repetitions: a repeated sample would be paired with itself.

    Returns
    -------
    float
        The estimate, not rooted. At most 2 ``kernel.bound()`` in absolute value; all but "biased"
        may be negative, as unbiased estimates of zero must be.

    Raises
    ------
    ValueError
        For invalid input; for a single sample unless "biased"; for an invalid `block_size`.

    See Also
    --------
    skcalib.errors.unconditional_mean_embedding_error : A similar error in linear time, at given
        locations.
    proper_calibration_error : A calibration error in units of a loss.

    Notes
    -----
    Cost: time O(n^2 K) and memory O(n K) for "biased" and "unbiased", O(n B K) for blocks of size
    B. With "auto" at most the time of 20,000 samples, about two seconds, up to a million samples,
    and O(n K) beyond.

    The maximum mean calibration error of a classifier (MMCE, [2]_) is the root of the biased
    estimate for the top label with ``kernel=0.5 * LaplacianKernel(0.4)``. The factor compensates
    for the two columns.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests in multi-class
       classification: a unifying framework. NeurIPS 2019.
    .. [2] A. Kumar, S. Sarawagi and U. Jain. Trainable calibration measures for neural networks
       from kernel mean embeddings. ICML 2018.

    Examples
    --------
    >>> from skcalib import kernel_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 3, random_state=0)
    >>> print(f"{kernel_calibration_error(data.y, data.y_proba):.5f}")
    0.00214
    """
    notion = resolve_notion(notion)
    problem = check_problem(
        y_true,
        y_proba,
        notion,
        incomplete=True,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    chosen = resolve_kernel(kernel)

    def error(problem, notion):
        check_statistic(statistic, block_size, len(problem.weight))
        h = ResidualKernel.of_problem(problem, chosen, notion, n_jobs)
        h = h.of_clusters(problem.cluster, statistic)
        return estimate(h, statistic, block_size)

    return over_labels(problem, notion, error)


def estimate(h: ResidualKernel | ClusterKernel, statistic: str, block_size: Any = None) -> float:
    """The estimate of one of the four statistics from the function h."""
    if statistic in ("linear", "block") or takes_blocks(statistic, len(h)):
        size = 2 if statistic == "linear" else block_size
        values, weight = random_block_estimates(h) if size is None else block_estimates(h, size)
        return float(np.average(values, weights=weight))
    total = h.total()
    if statistic == "biased":
        return float(total / len(h) ** 2)
    return float((total - h.diagonal().sum()) / check_pairs(h.weight))


def block_estimates(
    h: ResidualKernel | ClusterKernel, block_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased estimates of consecutive blocks, and their weights, two arrays."""
    n_blocks = len(h) // block_size
    starts = block_size * np.arange(n_blocks)
    if block_size > _SMALL:
        blocks = [h.take(slice(start, start + block_size)) for start in starts]
        sums = np.array([block.total() - block.diagonal().sum() for block in blocks])
    else:
        i, j = np.triu_indices(block_size, 1)
        together = max(1, SIZES.block_entries // len(i))
        some = np.split(starts[:, None], range(together, n_blocks, together))
        sums = np.concatenate([2 * h.pairs(s + i, s + j).sum(axis=1) for s in some])
    weight = check_pairs(h.weight[: n_blocks * block_size].reshape(n_blocks, block_size))
    return np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0), weight


def takes_blocks(statistic: str, n_samples: int) -> bool:
    """Whether a statistic takes random blocks in place of all pairs."""
    return statistic == "auto" and n_samples > SIZES.paired_samples


def random_blocks(n_samples: int) -> np.ndarray:
    """Rows of random blocks of equal size (n_blocks, size): pairs of at most 20,000 samples."""
    most = n_samples // SIZES.pair_block_samples
    n_blocks = min(-(-(n_samples**2) // SIZES.paired_samples**2), most)
    size = n_samples // n_blocks
    order = np.random.RandomState(0).permutation(n_samples)
    return order[: n_blocks * size].reshape(n_blocks, size)


def random_block_estimates(h: ResidualKernel | ClusterKernel) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased estimates of `random_blocks`, and their weights, two arrays."""
    rows = random_blocks(len(h))
    weight = check_pairs(h.weight[rows])
    sums = []
    for block in rows:
        part = h.take(block)
        total, diagonal = part.total(), part.diagonal().sum()
        # One uncertain sample among certain ones: the remainder is rounding error, not evidence.
        sums.append(0.0 if abs(total - diagonal) <= ROUNDING * diagonal else total - diagonal)
    return np.divide(sums, weight, out=np.zeros(len(rows)), where=weight > 0), weight


def pair_weight(weight: np.ndarray) -> Any:
    """Sum of the weights of pairs i != j along the last axis."""
    # A cumulative sum: the square of the sum would lose small weights next to a large one.
    return 2 * np.sum(np.cumsum(weight, axis=-1)[..., :-1] * weight[..., 1:], axis=-1)


def check_pairs(weight: np.ndarray) -> Any:
    """The same; raises if it is almost zero."""
    pairs = pair_weight(weight)
    if np.sum(pairs) <= _NO_PAIRS * np.sum(np.sum(weight, axis=-1) ** 2):
        raise ValueError(
            "sample_weight gives nearly all of the weight to one sample of every pair, so there "
            "are no effective pairs: use statistic='biased', or more even weights."
        )
    return pairs


def resolve_kernel(kernel: KernelLike) -> Kernel:
    """A kernel from None (the default), a name or a kernel."""
    return LaplacianKernel() if kernel is None else look_up(kernel, KERNELS, "kernel", kind=Kernel)


def check_statistic(statistic: str, block_size: int | None, n_samples: int) -> None:
    """Check the statistic, the number of samples, and the block size of "block"."""
    look_up(statistic, STATISTICS, "statistic")
    if statistic != "biased" and n_samples < 2:
        named = "unbiased" if statistic == "auto" else statistic
        raise ValueError(
            f"statistic={named!r} needs at least two samples of positive weight: use 'biased'."
        )
    if statistic != "block":
        if block_size is not None:
            raise ValueError(f"block_size is for statistic='block', not for {statistic!r}.")
    elif not isinstance(block_size, Integral) or not 2 <= block_size <= n_samples:
        raise ValueError(
            f"statistic='block' needs a block_size, a whole number from 2 to the number of "
            f"samples, {n_samples}; got {shown(block_size)}."
        )


# --- The function h of two samples (W19) ----------------------------------------------------------


_TASK = 16  # blocks that a thread takes at a time
_PAIRS_AT_ONCE = 1 << 14  # pairs of samples at a time


@dataclass(frozen=True)
class Part:
    """One scalar kernel of one problem: `left` is the residual times matrix and share."""

    kernel: Kernel
    forecast: np.ndarray
    left: np.ndarray
    residual: np.ndarray

    def take(self, rows: RowIndex) -> Part:
        """The same part for some of the samples."""
        arrays = {name: getattr(self, name)[rows] for name in ("forecast", "left", "residual")}
        return replace(self, **arrays)

    def sum(self, i: slice, j: slice) -> float:
        """Sum of h over a block: the kernel times residuals needs no matrix of products."""
        kernel = self.kernel(self.forecast[i], self.forecast[j])
        return float(np.vdot(self.left[i], kernel @ self.residual[j]))

    def block(self, i: RowIndex, j: RowIndex) -> np.ndarray:
        """Values of h in a block."""
        kernel = self.kernel(self.forecast[i], self.forecast[j])
        return kernel * (self.left[i] @ self.residual[j].T)

    def pairs(self, i: RowIndex, j: RowIndex) -> np.ndarray:
        """Values of h for samples i[m] and j[m]."""
        kernel = self.kernel.pairs(self.forecast[i], self.forecast[j])
        return kernel * np.einsum("...k,...k->...", self.left[i], self.residual[j])


def kernel_terms(problem: Problem, kernel: Kernel, notion: Notion) -> list[Any]:
    """Scalar kernels and matrices of each problem of a notion, with parameters from the data.

    Data of a label with missing cells are its known rows. Its kernels are divided by the share of
    the weight of their pairs, so that the mean over all pairs is the mean over these.
    """

    def pairs(weight):
        return pair_weight(
            weight if problem.cluster is None else cluster_sums(weight, problem.cluster)
        )

    terms, weight = [], weights_of_mean_one(problem.weight)
    for columns, outcome in notion.problems(problem.forecast, problem.target):
        known = ~np.isnan(outcome[:, 0])
        kernels = kernel.for_data(columns[known]).terms(columns.shape[1])
        if not known.all():
            share = pairs(weight * known) / pairs(weight)
            kernels = [((1 / share) * scalar, matrix) for scalar, matrix in kernels]
        terms.append(kernels)
    return terms


def residual_parts(
    forecast: np.ndarray, target: np.ndarray, weight: np.ndarray, notion: Notion, terms: list[Any]
) -> list[Part]:
    """The parts of h for forecasts and targets (n, K), with the `kernel_terms` of all data."""
    share = 1 / len(terms) if notion.reduce == "mean" else 1.0
    parts = []
    for (columns, outcome), kernels in zip(notion.problems(forecast, target), terms, strict=True):
        residual = weight[:, None] * (outcome - columns)
        for scalar, matrix in kernels:
            left = share * (residual if matrix is None else residual @ matrix)
            parts.append(Part(scalar, columns, left, residual))
    return parts


class ResidualKernel:
    """The function h of a sample, as parts, whose residuals contain the weights, of mean one."""

    def __init__(
        self,
        parts: Sequence[Any],
        weight: np.ndarray,
        n_problems: int = 1,
        n_jobs: int | None = None,
    ) -> None:
        self.parts, self.weight = tuple(parts), weight
        self.n_problems, self.n_jobs = n_problems, n_jobs

    @classmethod
    def of_problem(
        cls, problem: Problem, kernel: Kernel, notion: Notion, n_jobs: int | None = None
    ) -> Self:
        """Arguments of a public function, validated -> the function h."""
        weight = weights_of_mean_one(problem.weight)
        terms = kernel_terms(problem, kernel, notion)
        parts = residual_parts(problem.forecast, problem.known_target, weight, notion, terms)
        return cls(parts, weight, len(terms), n_jobs)

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: RowIndex) -> ResidualKernel:
        """The function h of some of the samples."""
        parts = [part.take(rows) for part in self.parts]
        return ResidualKernel(parts, self.weight[rows], self.n_problems, self.n_jobs)

    def of_clusters(
        self, cluster: np.ndarray | None, statistic: str | None = None
    ) -> ResidualKernel | ClusterKernel:
        """The same function of two clusters, from the numbers of the clusters (n,); or itself.

        For the statistic "auto" it is that of a part of very many samples.
        """
        most_rows = SIZES.paired_samples if statistic == "auto" else None
        return self if cluster is None else ClusterKernel(self, cluster, most_rows)

    def pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Values of h for samples i[m] and j[m], in arrays of any equal shape."""
        flat_i, flat_j = np.ravel(i), np.ravel(j)
        values = np.empty(len(flat_i))
        for start in range(0, len(flat_i), _PAIRS_AT_ONCE):
            some = slice(start, start + _PAIRS_AT_ONCE)
            values[some] = sum(part.pairs(flat_i[some], flat_j[some]) for part in self.parts)
        return values.reshape(np.shape(i))

    def diagonal(self) -> np.ndarray:
        """Values h(i, i), shape (n,)."""
        rows = np.arange(len(self))
        return self.pairs(rows, rows)

    def matrix(self) -> np.ndarray:
        """All values, shape (n, n)."""
        values = np.empty((len(self), len(self)))
        for i, j in _upper_blocks(len(self)):
            values[i, j] = sum(part.block(i, j) for part in self.parts)
            values[j, i] = values[i, j].T
        return values

    def total(self) -> float:
        """Sum of h over all pairs, the diagonal included."""
        blocks = _upper_blocks(len(self))
        tasks = [blocks[start : start + _TASK] for start in range(0, len(blocks), _TASK)]

        def sum_of_blocks(task):
            return fsum(
                (1 if i == j else 2) * sum(part.sum(i, j) for part in self.parts) for i, j in task
            )

        return fsum(self._in_threads(sum_of_blocks, tasks))

    def multiply(self, columns: np.ndarray) -> np.ndarray:
        """The product H v for each column v of (n, R), in memory O(n R)."""
        strips = row_slices(len(self))

        def product(i):
            return sum(part.block(i, j) @ columns[j] for j in strips for part in self.parts)

        return np.concatenate(self._in_threads(product, strips))

    def sum_clusters(self, cluster: np.ndarray) -> np.ndarray:
        """Sums of h over all pairs of samples of two clusters (G, G), from numbers (n,)."""
        strips, n_clusters = row_slices(len(self)), int(cluster.max()) + 1

        def strip_sums(i):
            totals = np.zeros((i.stop - i.start, n_clusters))
            for j in strips:
                columns = sum(part.block(i, j) for part in self.parts).T
                sums = cluster_sums(columns, cluster[j])
                totals[:, : len(sums)] += sums.T
            return totals

        return cluster_sums(np.concatenate(self._in_threads(strip_sums, strips)), cluster)

    def _in_threads(self, run, tasks):
        """Results of tasks in their order; they do not depend on the number of threads."""
        if len(tasks) == 1:
            return [run(tasks[0])]
        # Products this small gain nothing from several threads; blocks do.
        with one_thread("blas"):
            return Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(run)(task) for task in tasks
            )


class ClusterKernel:
    r"""The function h of two clusters of samples, in place of a `ResidualKernel`.

    A cluster g is one unit, whose feature is the sum of those of its samples times G / n with G
    clusters of n samples, so that the mean over clusters is that over samples. Its weight is the
    sum of the weights times G / n. Pairs of different clusters are independent. The matrix (G, G)
    is kept, of at most 2,000 clusters, drawn at random from more. Its sums take
    `most_rows` samples of these clusters, drawn at random; None for all.
    """

    def __init__(
        self, h: ResidualKernel, cluster: np.ndarray, most_rows: int | None = None
    ) -> None:
        distinct, cluster = np.unique(cluster, return_inverse=True)
        if len(distinct) > SIZES.kernel_clusters:
            chosen = np.random.RandomState(0).permutation(len(distinct))[: SIZES.kernel_clusters]
            rows = np.flatnonzero(np.isin(cluster, chosen))
            h, cluster = h.take(rows), np.unique(cluster[rows], return_inverse=True)[1]
        if most_rows is not None and len(h) > most_rows:
            rows = np.sort(np.random.RandomState(0).choice(len(h), most_rows, replace=False))
            h, cluster = h.take(rows), np.unique(cluster[rows], return_inverse=True)[1]
        weight = cluster_sums(h.weight, cluster)
        scale = 1 / weight.mean()
        self.weight, self.values = scale * weight, scale**2 * h.sum_clusters(cluster)
        self.n_problems, self.n_jobs = h.n_problems, h.n_jobs

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: RowIndex) -> ClusterKernel:
        """The function of some of the clusters."""
        chosen = copy(self)
        chosen.weight, chosen.values = self.weight[rows], self.values[rows][:, rows]
        return chosen

    def pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Values for clusters i[m] and j[m], in arrays of any equal shape."""
        return self.values[i, j]

    def diagonal(self) -> np.ndarray:
        """Values of a cluster with itself (G,)."""
        return np.diag(self.values)

    def matrix(self) -> np.ndarray:
        """A copy of all values (G, G)."""
        return self.values.copy()

    def total(self) -> float:
        """Sum over all pairs, the diagonal included."""
        return float(self.values.sum())

    def multiply(self, columns: np.ndarray) -> np.ndarray:
        """The product with each column of (G, R)."""
        return self.values @ columns


def row_slices(n_samples: int, size: int | None = None) -> list[slice]:
    """Consecutive rows, `size` at a time."""
    size = SIZES.kernel_rows if size is None else size
    return [slice(start, min(start + size, n_samples)) for start in range(0, n_samples, size)]


def _upper_blocks(n_samples):
    slices = row_slices(n_samples)
    return [(i, j) for a, i in enumerate(slices) for j in slices[a:]]


# --- Mean embeddings at locations, in linear time -------------------------------------------------


@checks_parameters
def unconditional_mean_embedding_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    locations: ArrayLike,
    location_labels: ArrayLike | None = None,
    kernel: KernelLike = None,
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Error of the mean embedding of the residuals at given locations (UCME), in linear time.

    .. math::

        UCME = \frac1J \sum_{j=1}^J \| \frac1n \sum_i k(S_i, t_j) (e_{Y_i} - S_i) \|^2

    at the locations :math:`t_j` on the simplex; with labels :math:`l_j` of the locations only the
    component :math:`l_j` enters the norm. The error is zero for calibrated forecasts. For others it
    is almost surely not zero if the locations are drawn from a density and the kernel is
    characteristic and analytic, as the Gaussian kernel is.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`~skcalib.kernel_calibration_error`.
    locations : array-like of shape (n_locations,) or (n_locations, n_columns)
        Points of the simplex, with as many columns as the forecasts of the notion; shape
        (n_locations,) for two columns. They must not depend on `y_true`.
    location_labels : array-like of shape (n_locations,), default=None
        The class whose component is used at each location; for "canonical" only.
    kernel : None, {"laplacian", "gaussian"} or Kernel, default=None
        As in :func:`~skcalib.kernel_calibration_error`.
    notion : {"canonical", "auto", "top_label"} or Notion, default="canonical"
        A notion with one problem.
    sample_weight, labels, pos_label
        As in :func:`~skcalib.kernel_calibration_error`. Weights are averaging weights.

    Returns
    -------
    float
        The error, not rooted, at least 0. Biased upward by the variance of the means over n. Time
        O(n J K).

    Raises
    ------
    ValueError
        For invalid input, and for notions with several problems.

    See Also
    --------
    kernel_calibration_test : With ``method="embedding"``, the test of this error.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests beyond classification.
       ICLR 2021.
    .. [2] W. Jitkrittum, Z. Szabo, K. Chwialkowski and A. Gretton. Interpretable distribution
       features with maximum testing power. NeurIPS 2016.

    Examples
    --------
    >>> from skcalib.errors import unconditional_mean_embedding_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> corners = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    >>> error = unconditional_mean_embedding_error(data.y, data.y_proba, locations=corners)
    >>> print(f"{error:.4f}")
    0.0010
    """
    notion = resolve_notion(notion)
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    problem.require_order(notion)
    points = check_locations(locations, one_problem(problem, notion)[0].shape[1])
    component = check_components(location_labels, problem, notion, points)
    return Embedding(problem, resolve_kernel(kernel), notion, points, component).error()


class Embedding:
    """Features k(S_i, t_j) (y_i - S_i) of samples at locations, and their mean over samples.

    Features have shape (n, J * K); with a column `component[j]` for each location, (n, J).
    """

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        notion: Notion,
        points: np.ndarray,
        component: np.ndarray | None = None,
    ) -> None:
        self.forecast, self.target = one_problem(problem, notion)
        self.weight = weights_of_mean_one(problem.weight)
        self.points, self.component = points, component
        n_columns = self.forecast.shape[1]
        self.terms = [
            (scalar, np.eye(n_columns) if matrix is None else matrix)
            for scalar, matrix in kernel.for_data(self.forecast).terms(n_columns)
        ]

    def error(self) -> float:
        """Mean over the locations of the squared norm of the mean feature."""
        mean = self.total(self.target) / len(self.forecast)
        return float(np.sum(mean**2) / len(self.points))

    def total(self, target: np.ndarray) -> np.ndarray:
        """Sum of the features of all samples, with their targets."""
        total: Any = sum(
            self.features(i, target[i]).sum(axis=0)
            for i in row_slices(len(self.forecast), SIZES.feature_rows)
        )
        return total

    def sums(self, cluster: np.ndarray) -> np.ndarray:
        """Sums of the features over clusters, from the numbers of these (n,)."""
        parts = [
            self.features(rows, self.target[rows])
            for rows in row_slices(len(self.forecast), SIZES.feature_rows)
        ]
        return cluster_sums(np.concatenate(parts), cluster)

    def null_covariance(self) -> np.ndarray:
        r"""Covariance of a feature under calibration, where labels are drawn from forecasts.

        Known given the forecasts: with the features :math:`z_i(k)` that a label k would give,
        :math:`\frac1n \sum_i \sum_k S_{ik} z_i(k) z_i(k)^\top`.
        """
        total: Any = 0.0
        for rows in row_slices(len(self.forecast), SIZES.feature_rows):
            for share, label in zip(
                self.forecast[rows].T, np.eye(len(self.forecast[0])), strict=True
            ):
                features = self.features(rows, label)
                total = total + features.T @ (share[:, None] * features)
        return total / len(self.forecast)

    def features(self, rows: RowIndex, target: np.ndarray) -> np.ndarray:
        """Features of some of the samples, with their targets."""
        forecast = self.forecast[rows]
        residual = self.weight[rows, None] * (target - forecast)
        features: Any = 0.0
        for scalar, matrix in self.terms:
            left = residual @ matrix
            left = left[:, None, :] if self.component is None else left[:, self.component, None]
            features = features + scalar(forecast, self.points)[:, :, None] * left
        return features.reshape(len(forecast), -1)


def one_problem(problem: Problem, notion: Notion) -> tuple[np.ndarray, np.ndarray]:
    """The only pair (forecast, target) of a notion."""
    problems = list(notion.problems(problem.forecast, problem.target))
    if len(problems) > 1:
        raise ValueError(
            f"{notion!r} has {len(problems)} problems, but locations belong to one: use "
            "'canonical' or 'top_label'."
        )
    return problems[0]


def check_locations(locations: ArrayLike, n_columns: int) -> np.ndarray:
    """Points of the simplex with as many columns as the forecasts."""
    points = check_proba(locations, name="locations")
    if points.shape[1] != n_columns:
        raise ValueError(
            f"locations have {points.shape[1]} columns, but the forecasts have {n_columns}."
        )
    return points


def check_components(
    location_labels: ArrayLike | None, problem: Problem, notion: Notion, points: np.ndarray
) -> np.ndarray | None:
    """The column of the label of each location."""
    if location_labels is None:
        return None
    if not isinstance(notion.for_columns(len(problem.classes)), Canonical):
        raise ValueError("location_labels name classes, and need notion='canonical'.")
    component = column_of_labels(check_y(location_labels, name="location_labels"), problem.classes)
    if len(component) != len(points):
        raise ValueError(
            f"There are {len(points)} locations, but {len(component)} location_labels."
        )
    return component


# --- P-values by labels drawn from the forecasts --------------------------------------------------

_MOST = 150  # expected unusual labels of a draw
_TOGETHER = 100  # unusual labels of the draws that are evaluated at a time


def few_labels(problem: Problem, notion: Notion) -> bool:
    """Whether a problem leaves fewer than `FEW` labels uncertain.

    They are those of the event of a notion with a single problem, of the class if it has several,
    and of the most uncertain label of an indicator matrix.
    """
    pairs = notion.problems(problem.forecast, problem.target)
    if problem.indicator:
        labels = (
            uncertain_labels(columns, problem.weight * ~np.isnan(event[:, 0]))
            for columns, event in pairs
        )
        return max(labels) < FEW
    first = [columns for columns, _ in islice(pairs, 2)]
    columns = first[0] if len(first) == 1 else problem.forecast
    return uncertain_labels(columns, problem.weight) < FEW


def any_impossible(problem: Problem, notion: Notion) -> bool:
    """Whether an event occurred whose forecast is exactly 0."""
    pairs = notion.problems(problem.forecast, problem.target)
    return any(impossible_labels(forecast, target).any() for forecast, target in pairs)


def drawn_kernel_pvalue(
    problem: Problem,
    kernel: Kernel,
    notion: Notion,
    *,
    statistic: str,
    block_size: int | None,
    n_draws: int,
    rng: np.random.RandomState,
    level: float = 0.0,
) -> float:
    """P-value of a kernel calibration error, by `drawn_pvalue`."""
    if problem.cluster is not None and statistic == "auto":
        problem = problem.samples(SIZES.paired_samples, 0)
    drawn, weight = _Drawn(problem, notion, rng), weights_of_mean_one(problem.weight)
    terms = kernel_terms(problem, kernel, notion)
    usual = residual_parts(problem.forecast, drawn.usual, weight, notion, terms)
    block = _blocks(len(weight), statistic, block_size)
    unit = np.arange(len(block)) if problem.cluster is None else problem.cluster
    unit = np.where(block < 0, -1, unit)  # rows of no block have no pairs
    fields = [_field(part, block, unit) for part in usual]

    def change(draw, rows, target):
        parts = residual_parts(problem.forecast[rows], target, weight[rows], notion, terms)
        total = np.zeros(len(rows))
        for part, old, field in zip(parts, usual, fields, strict=True):
            left, right = part.left - old.left[rows], part.residual - old.residual[rows]
            for i in row_slices(len(rows)):
                together = (draw[i, None] == draw) & _pairs(block, unit, rows[i], rows)
                near = (part.kernel(part.forecast[i], part.forecast) * together) @ right
                total[i] += np.einsum("ik,ik->i", left[i], 2 * field[rows[i]] + near)
        return np.bincount(draw, total)

    return drawn.pvalue(change, n_draws, level)


def drawn_embedding_pvalue(
    problem: Problem,
    embedding: Embedding,
    notion: Notion,
    *,
    n_draws: int,
    rng: np.random.RandomState,
    level: float = 0.0,
) -> float:
    """P-value of the error of mean embeddings, by `drawn_pvalue`."""
    drawn = _Drawn(problem, notion, rng)
    usual = next(iter(notion.problems(problem.forecast, drawn.usual)))[1]
    total = embedding.total(usual)

    def change(draw, rows, target):
        target = next(iter(notion.problems(problem.forecast[rows], target)))[1]
        sums = np.zeros((draw[-1] + 1, len(total)))
        features = embedding.features(rows, target) - embedding.features(rows, usual[rows])
        np.add.at(sums, draw, features)
        return np.einsum("bj,bj->b", sums + 2 * total, sums)

    return drawn.pvalue(change, n_draws, level)


class _Drawn:
    """Draws of labels by their differences from the usual ones.

    With very unequal weights, only labels of the rows with the largest variances are drawn, until
    `_MOST` are expected to be unusual. Others stay as observed: the test is exact given these.
    """

    def __init__(self, problem, notion, rng):
        self.problem, self.notion, self.rng = problem, notion, rng
        forecast = problem.forecast
        # An order that depends on the values only, so that those of rows and columns do not matter.
        some = np.sort(forecast, axis=0)[:: max(1, len(forecast) // 100)]
        self.columns = np.lexsort(some)
        self.rows = np.lexsort((problem.weight, *forecast[:, self.columns].T))
        if problem.indicator:
            known = ~np.isnan(problem.target)
            likely = np.where(known, np.maximum(forecast, 1 - forecast), 1.0)[:, self.columns]
            self.usual = np.where(known, forecast >= 0.5, forecast)
        else:
            likely = forecast.max(axis=1, keepdims=True)
            first = self.columns[forecast[:, self.columns].argmax(axis=1)]
            self.usual = one_hot_rows(first, forecast.shape[1])
        unusual = np.sum(1 - likely, axis=1)
        order = np.argsort(-(problem.weight**2) * unusual, kind="stable")
        observed = order[np.cumsum(unusual[order]) > _MOST]
        self.target = problem.known_target
        self.usual[observed] = self.target[observed]
        self.rate = -np.log(np.minimum(likely, 1.0))
        self.rate[observed] = 0.0

    def pvalue(self, change, n_draws, level):
        """From the change of the statistic for arrays of numbers of draws, rows and targets.

        Draws are doubled while none is as large and the p-value exceeds `level`.
        """
        if any_impossible(self.problem, self.notion):
            return 0.0
        rows = np.flatnonzero((self.target != self.usual).any(axis=1))
        observed = 0.0
        if len(rows):
            observed = float(change(np.zeros(len(rows), int), rows, self.target[rows])[0])

        def draw_values(size):
            values = np.zeros(size)
            for draw, row, target in self._batches(size):
                changes = change(draw - draw[0], row, target)
                values[draw[0] : draw[0] + len(changes)] = changes
            return values + 1e-9 * np.abs(values).max()  # rounding errors of sums are no difference

        unusual = int(np.ceil(self.rate.sum())) + 1  # labels of a draw, with all pairs of them
        size = unusual**2 + unusual * 400
        return drawn_pvalue(draw_values, observed, n_draws, size=size, level=level)[0]

    def _batches(self, n_draws):
        """Numbers of draws in order, rows, and targets of these rows, some draws at a time.

        A label is unusual with probability 1 - exp(-rate), that of at least one event of a Poisson
        variable. The events of all draws are drawn at once, and divided among them.
        """
        forecast, (n_samples, n_columns) = self.problem.forecast, self.rate.shape
        times = self.rng.poisson(n_draws * self.rate[self.rows].ravel())
        cell = np.repeat(np.arange(len(times)), times)
        at = np.unique(self.rng.randint(n_draws, size=len(cell)) * len(times) + cell)
        starts = np.flatnonzero(np.diff(at // len(times), prepend=-1))
        ends = starts[np.flatnonzero(np.diff(starts // _TOGETHER)) + 1]
        for some in np.split(at, ends) if len(at) else ():
            key, place = np.unique(some // n_columns, return_inverse=True)
            draw, row = np.divmod(key, n_samples)
            row = self.rows[row]
            target = self.usual[row]
            if self.problem.indicator:
                column = self.columns[some % n_columns]
                target[place, column] = 1 - target[place, column]
            else:
                others = np.where(target > 0, 0.0, forecast[row])[:, self.columns]
                codes = self.columns[draw_codes(others.cumsum(axis=1), self.rng)]
                target = one_hot_rows(codes, forecast.shape[1])
            yield draw, row, target


def _blocks(n_samples, statistic, block_size):
    """The block of each row within which a statistic takes pairs (n,); -1 for none."""
    block = np.zeros(n_samples, int)
    if takes_blocks(statistic, n_samples):
        rows = random_blocks(n_samples)
        block[:] = -1
        block[rows] = np.arange(len(rows))[:, None]
    elif statistic in ("linear", "block"):
        size = block_size or 2
        block = np.arange(n_samples) // size
        block[n_samples // size * size :] = -1
    return block


def _pairs(block, unit, i, j):
    """Which pairs of rows i (m,) and j (l,) a statistic takes (m, l)."""
    return (block[i, None] == block[j]) & (unit[i, None] != unit[j])


def _field(part, block, unit):
    """Sum of the kernel times the residual over the partners of each row (n, K)."""
    field, wide = np.zeros_like(part.residual), 2 * SIZES.kernel_rows
    order = np.argsort(block, kind="stable")
    for i in (order[strip] for strip in row_slices(len(order))):
        first, last = np.searchsorted(block[order], block[i[[0, -1]]] + np.array([0, 1]))
        for start in range(first, last, wide):
            j = order[start : min(start + wide, last)]
            kernel = part.kernel(part.forecast[i], part.forecast[j])
            field[i] += (kernel * _pairs(block, unit, i, j)) @ part.residual[j]
    return field
