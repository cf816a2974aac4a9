r"""Exact sums of Dirichlet kernels on the simplex, for any number of classes.

The log of the kernel of P24 eq. 12 between a point x and a source :math:`s_j`, times its weight,

.. math::

    \log w_j k(x, s_j) = \langle \log x, s_j / h \rangle + c_j, \qquad
    c_j = \log \Gamma(K + \tfrac1h \textstyle\sum_k s_{jk})
          - \sum_k \log \Gamma(s_{jk} / h + 1) + \log w_j,

is one product of :math:`[\log x, 1]` with :math:`[s_j / h, c_j]`, taken in blocks that stay in the
cache (`_kernel_sums`). One-hot values are summed as segments of sources that are sorted by class.
Where points crowd together, as those of confident networks do, their rows follow a tree and
sources that cannot matter are dropped (`_tiles`). Time O(n^2 K), memory O(n K).

Sums are exact up to rounding. What it permits: a log kernel is a sum of K + 1 terms and is off by
1e-16 (:math:`|\langle \log x, s_j / h \rangle| + |c_j|`) or so, which is the relative error of a
weight. Measured against extended precision with the same :math:`c_j`, averages of labels are off
by 1e-14 at h = 1e-2 and 1e-12 at h = 1e-5 for ten classes, 1e-13 and 1e-11 for a hundred, and ten
times more at a point that is far from all sources. The :math:`c_j` themselves, differences of log
Gamma functions of 1/h, have a rounding error of 1e-10 at h = 1e-5.
"""

from functools import cache

import numpy as np
from joblib import Parallel, delayed
from scipy.special import gammaln
from threadpoolctl import ThreadpoolController

from skcalib.smoothers._base import check_at_least_two
from skcalib.smoothers._dirichlet.pruning import Dropping, kd_tiles, worth_trying
from skcalib.smoothers._dirichlet.sums import Sources, blocks_of_rows, sum_tiles

# Forecasts of exactly 0 stand for the smallest positive number: log 0 would turn weights that
# belong together (0 against 0) into indeterminate ones.
_TINY = np.finfo(np.float64).tiny
_TILE = 32  # rows of a tile that drops sources: fewer have tighter bounds
_TASK = 1024  # rows that a thread takes at a time
_NARROW = 16  # classes up to which a product per bandwidth is faster than a shared one
_UNDERFLOW = 1e-290  # shares below are sums of exponentials that were cut off, that is 0


def canonical_average(points, forecast, weight, values, bandwidth, *, leave_out=False, n_jobs=None):
    r"""Kernel averages of values, and the log of the total kernel weight.

    :math:`\sum_j w_j k(x_i, s_j) v_j / M_i` and :math:`\log M_i` with
    :math:`M_i = \sum_j w_j k(x_i, s_j)` and the kernel in the module's docstring.

    Parameters
    ----------
    points : array-like of shape (m, K)
        Where to average. Zeros stand for the smallest positive number.
    forecast : array-like of shape (n, K)
        The sources :math:`s_j`.
    weight : array-like of shape (n,)
        Their positive weights :math:`w_j`.
    values : array-like of shape (n, C)
        What to average; C may be 0. One-hot rows are recognised and summed faster; the error of
        their shares is relative to each share, down to 1e-290, below which a share is 0. The
        error of other averages is relative to the largest absolute value.
    bandwidth : float
        The bandwidth h > 0.
    leave_out : bool, default=False
        Whether `points` are the forecasts and point i does without source i.
    n_jobs : int, default=None
        Number of threads; None means 1 or what :func:`joblib.parallel_config` says. The result
        does not depend on it.

    Returns
    -------
    averages : ndarray of shape (m, C)
        The averages.
    log_mass : ndarray of shape (m,)
        The logs of the total weights :math:`M_i`.
    """
    values = np.asarray(values, dtype=np.float64)
    n_samples, n_values = values.shape
    by_segment = n_values == 0 or _is_one_hot(values)
    segment, factors = np.zeros(n_samples, dtype=np.intp), None
    if not by_segment:
        factors = np.column_stack([values, np.ones(n_samples)])  # the ones sum the weights
    elif n_values > 0:
        segment = values.argmax(axis=1)
    scaled = np.asarray(forecast, dtype=np.float64) / bandwidth
    constant = _log_constant(scaled, weight)
    n_segments = max(1, n_values) if by_segment else 1
    sources = Sources.sorted(scaled, np.ones(1), constant[None], segment, n_segments, factors)
    (total,), (peak,) = _sums(points, sources, leave_out, n_jobs)
    mass = total.sum(axis=1) if by_segment else total[:, -1]
    averages = total[:, :n_values] / mass[:, None]
    if by_segment:
        averages[averages < _UNDERFLOW] = 0.0
    return averages, peak + np.log(mass)


def canonical_log_likelihoods(forecast, weight, bandwidths, *, n_jobs=None):
    r"""Leave-one-out log likelihood of forecasts under their kernel density, by bandwidth.

    :math:`\sum_i w_i \log \bigl( \sum_{j \ne i} w_j k(s_i, s_j) / \sum_{j \ne i} w_j \bigr)`. For
    many classes the product :math:`\langle \log s_i, s_j \rangle` of a block serves all
    bandwidths; for few it costs less than to rescale it, and each bandwidth has its own.

    Parameters
    ----------
    forecast : array-like of shape (n, K)
        The forecasts, at least two.
    weight : array-like of shape (n,)
        Their positive weights :math:`w_j`.
    bandwidths : array-like of shape (B,)
        The bandwidths h > 0.
    n_jobs : int, default=None
        As in `canonical_average`.

    Returns
    -------
    ndarray of shape (B,)
        The log likelihoods.
    """
    forecast = np.asarray(forecast, dtype=np.float64)
    weight = np.asarray(weight, dtype=np.float64)
    bandwidths = np.asarray(bandwidths, dtype=np.float64)
    if forecast.shape[1] <= _NARROW:
        groups = bandwidths[:, None]
    else:
        groups = [bandwidths] if len(bandwidths) else []
    log_mass = np.empty((0, len(forecast)))
    for group in groups:
        constants = np.array([_log_constant(forecast / h, weight) for h in group])
        segment = np.zeros(len(forecast), dtype=np.intp)
        sources = Sources.sorted(forecast, 1 / group, constants, segment, 1)
        total, peak = _sums(forecast, sources, True, n_jobs)
        log_mass = np.concatenate([log_mass, peak + np.log(total[:, :, 0])])
    return (log_mass - np.log(_weight_of_others(weight))) @ weight


def _log_constant(scaled, weight):
    """The constants c_j of the sources s_j / h."""
    constant = gammaln(scaled.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    return constant + np.log(np.asarray(weight, dtype=np.float64))


def _weight_of_others(weight):
    """The weight of all others, as a sum: a difference would cancel beside a heavy sample."""
    before, after = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)


def _is_one_hot(values):
    """Whether each row is a single 1 beside zeros."""
    return bool(np.all((values == 0) | (values == 1)) and np.all(values.sum(axis=1) == 1))


@cache
def _libraries():
    """The controller of threads in the linear algebra libraries."""
    return ThreadpoolController()


def _sums(points, sources, leave_out, n_jobs):
    """Sums (B, m, V) of kernels relative to the exponentials of their peaks (B, m)."""
    points = np.asarray(points, dtype=np.float64)
    log_points = np.log(np.maximum(points, _TINY))
    n_points, n_sources, position = len(points), len(sources.order), None
    if leave_out:
        check_at_least_two(n_sources)
        position = np.empty(n_points, dtype=np.intp)
        position[sources.order] = np.arange(n_points)
    # Products this small gain nothing from several threads; blocks do.
    with _libraries().limit(limits=1, user_api="blas"):
        tiles, dropping = _tiles(points, log_points, sources, position)
        together = max(1, _TASK * len(tiles) // max(1, n_points))
        tasks = [tiles[start : start + together] for start in range(0, len(tiles), together)]
        done = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(sum_tiles)(task, log_points, sources, position, dropping) for task in tasks
        )
    total = np.empty((len(sources.slopes), n_points, sources.n_sums))
    peak = np.empty((len(sources.slopes), n_points))
    for task, results in zip(tasks, done, strict=True):
        for rows, (sums, largest) in zip(task, results, strict=True):
            total[:, rows], peak[:, rows] = sums, largest
    return total, peak


def _tiles(points, log_points, sources, position):
    """Rows of points by tile, and what drops sources there, None if that does not pay."""
    if worth_trying(len(points), len(sources.order)):
        tiles = kd_tiles(np.sqrt(points), _TILE)
        dropping = Dropping(sources.columns, sources.slopes, sources.constants, sources.edges)
        if dropping.pays(tiles, log_points, position):
            return tiles, dropping
    return blocks_of_rows(len(points)), None
