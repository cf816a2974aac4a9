"""The kernel calibration error: four patterns of indices over one function of two samples."""

from numbers import Integral

import numpy as np

from skcalib._arguments import check_notion
from skcalib._validation import from_table
from skcalib.errors._residual_kernel import ResidualKernel
from skcalib.kernels import KERNELS, Kernel, LaplacianKernel
from skcalib.problem import check_problem

ESTIMATORS = ("biased", "unbiased", "linear", "block")
_NO_PAIRS = 1e-9  # share of the weight of all pairs; below it differences are mostly rounding
_SMALL = 32  # block sizes up to which many blocks are evaluated at once
_PAIRS = 1 << 18  # pairs of samples in them


def kernel_calibration_error(
    y_true,
    y_proba,
    *,
    kernel=None,
    estimator="unbiased",
    notion="canonical",
    block_size=None,
    sample_weight=None,
    labels=None,
    pos_label=None,
    n_jobs=None,
):
    r"""Squared kernel calibration error (W19): residuals of like forecasts against each other.

    .. math::

        SKCE = E\, (e_Y - S)^\top k(S, S') (e_{Y'} - S') = E\, h

    for two independent samples, the squared norm of the mean of :math:`k(S, \cdot)(e_Y - S)` in
    the space of the kernel. With a characteristic kernel, such as the default, it is zero
    if and only if E[Y|S] = S. Nothing is smoothed or binned, and many classes are no harder than
    two. With :math:`h_{ij}` for samples i and j, the estimators are patterns of indices:

    - ``"unbiased"``: mean of :math:`h_{ij}` over :math:`i \ne j`;
    - ``"biased"``: mean over all pairs; it is ((n - 1) unbiased + mean :math:`h_{ii}`) / n, never
      negative, and far above zero for calibrated forecasts in small samples;
    - ``"block"``: the mean of the unbiased estimates of consecutive blocks of ``block_size``
      samples; an incomplete last block is dropped;
    - ``"linear"``: blocks of two, h of the first and second sample, the third and fourth, ...

    "block" and "linear" depend on the order of the samples. The unit is that of the kernel: values
    of different kernels or bandwidths cannot be compared, and the size alone says little. Ask
    :func:`kernel_calibration_test` whether it is real.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class. Rows sum to one.
    kernel : None, {"laplacian", "gaussian"} or Kernel, default=None
        None is W19's :class:`LaplacianKernel`, on total variation with the median distance as
        bandwidth. A bandwidth rule uses the forecasts of each problem of the notion.
    estimator : {"unbiased", "biased", "linear", "block"}, default="unbiased"
        See above.
    notion : {"canonical", "classwise", "top_label"} or Notion, default="canonical"
        All classes at once; the mean over one-vs-rest problems; or the confidence against being
        right. Problems have their two columns, so binary errors are twice those of
        papers that take the residual of one column.
    block_size : int, default=None
        Samples of a block, for ``estimator="block"`` only; from 2 to n.
    sample_weight : array-like of shape (n_samples,), default=None
        A pair counts :math:`w_i w_j`, a block the sum of its pairs. Not repetitions: a repeated
        sample would meet itself.
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`.
    pos_label : label, default=None
        The class that a `y_proba` of shape (n_samples,) refers to; by default the last in order.
    n_jobs : int, default=None
        Number of threads; None means 1 or what ``joblib.parallel_config`` says. The result
        does not depend on it.

    Returns
    -------
    float
        The estimate, not rooted. At most 2 ``kernel.bound()`` in absolute value; all but "biased"
        may be negative, as estimates of zero must be.

    Raises
    ------
    ValueError
        For invalid input; for a single sample unless "biased"; for a `block_size` that does not
        fit.

    See Also
    --------
    kernel_calibration_test : Is the error real?
    unconditional_mean_embedding_error : In linear time, at given locations.
    proper_calibration_error : In units of a loss.

    Notes
    -----
    Time O(n^2 K) and memory O(n K) for "biased" and "unbiased", O(n B K) for blocks of size B.

    The maximum mean calibration error of a classifier (MMCE, G22) is a recipe: the root of the
    biased estimate for the top label with ``kernel=0.5 * LaplacianKernel(0.4)``. The factor
    undoes the two columns.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests in multi-class
       classification: a unifying framework. NeurIPS 2019.

    Examples
    --------
    >>> from skcalib import LaplacianKernel, kernel_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 3, random_state=0)
    >>> print(f"{kernel_calibration_error(data.y, data.y_proba):.5f}")
    0.00214
    >>> calibrated = make_tempered_simplex(1000, 3, score_temperature=1, random_state=0)
    >>> print(f"{kernel_calibration_error(calibrated.y, calibrated.y_proba):.5f}")
    -0.00007
    >>> mmce = kernel_calibration_error(data.y, data.y_proba, notion="top_label",
    ...                                 estimator="biased", kernel=0.5 * LaplacianKernel(0.4))
    >>> print(f"{mmce ** 0.5:.3f}")
    0.087
    """
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    check_estimator(estimator, block_size, len(problem.weight))
    h = ResidualKernel.of_problem(problem, check_kernel(kernel), check_notion(notion), n_jobs)
    return estimate(h, estimator, block_size)


def estimate(h, estimator, block_size=None):
    """The estimate of one of the four estimators from the function h."""
    if estimator in ("linear", "block"):
        values, weight = block_estimates(h, 2 if estimator == "linear" else block_size)
        return float(np.average(values, weights=weight))
    n_samples, diagonal = len(h), h.diagonal().sum()
    total = h.total()
    if estimator == "biased":
        return float(total / n_samples**2)
    return float((total - diagonal) / check_pairs(h.weight))


def block_estimates(h, block_size):
    """Unbiased estimates of consecutive blocks, and their weights, two arrays."""
    n_blocks = len(h) // block_size
    starts = block_size * np.arange(n_blocks)
    if block_size > _SMALL:
        blocks = [h.take(slice(start, start + block_size)) for start in starts]
        sums = np.array([block.total() - block.diagonal().sum() for block in blocks])
    else:
        i, j = np.triu_indices(block_size, 1)
        together = max(1, _PAIRS // len(i))
        some = np.split(starts[:, None], range(together, n_blocks, together))
        sums = np.concatenate([2 * h.pairs(s + i, s + j).sum(axis=1) for s in some])
    weight = check_pairs(h.weight[: n_blocks * block_size].reshape(n_blocks, block_size))
    return np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0), weight


def pair_weight(weight):
    """Sum of the weights of pairs i != j along the last axis."""
    # Summed from one side: the square of the sum would lose small weights beside a large one.
    return 2 * np.sum(np.cumsum(weight, axis=-1)[..., :-1] * weight[..., 1:], axis=-1)


def check_pairs(weight):
    """The same; refused if it is next to nothing."""
    pairs = pair_weight(weight)
    if np.sum(pairs) <= _NO_PAIRS * np.sum(np.sum(weight, axis=-1) ** 2):
        raise ValueError(
            "sample_weight gives nearly all of the weight to one sample of every pair, and there "
            "is nothing to compare it with: use estimator='biased', or more even weights."
        )
    return pairs


def check_kernel(kernel):
    """None is the default; names and kernels pass."""
    return (
        LaplacianKernel()
        if kernel is None
        else from_table(kernel, KERNELS, name="kernel", kind=Kernel)
    )


def check_estimator(estimator, block_size, n_samples):
    """One of the four estimators, with samples enough and a block size where it needs one."""
    if estimator not in ESTIMATORS:
        names = ", ".join(map(repr, ESTIMATORS))
        raise ValueError(f"estimator must be one of {names}, got {estimator!r}.")
    if estimator != "biased" and n_samples < 2:
        raise ValueError(
            f"estimator={estimator!r} needs at least two samples that count: use 'biased'."
        )
    if estimator != "block":
        if block_size is not None:
            raise ValueError(f"block_size is for estimator='block', not for {estimator!r}.")
    elif not isinstance(block_size, Integral) or not 2 <= block_size <= n_samples:
        raise ValueError(
            f"estimator='block' needs a block_size, a whole number from 2 to the number of "
            f"samples, {n_samples}; got {block_size!r}."
        )
