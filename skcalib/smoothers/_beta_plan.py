r"""Panels and small matrices that turn a sum of Beta kernels into a few numbers per panel.

With :math:`L = 1/h`, logit :math:`t` of the point and :math:`a = L s` of the source, the kernel is,
up to a factor that depends on the source only, :math:`(1 - x)^L e^{a t}`: a sum over sources is a
Laplace transform. Relative to the kernel of the point on itself, :math:`a^* = L x`,

.. math::

    \log \rho(t, a) = -d(a, a^*) - d(L - a, L - a^*)
                      - [g(a) - g(a^*)] - [g(L - a) - g(L - a^*)],

with the deviance :math:`d(a, m) = a \log(a/m) - a + m` and
:math:`g(z) = \log \Gamma(z + 1) - z \log z + z`, which is of the size of log z only. This
saddle-point form loses nothing to the cancellation of numbers of the size of :math:`L \log L`.

:math:`\rho` is analytic in both arguments. Both axes are cut into panels such that the length of a
panel times the length of the other axis on which :math:`\rho > e^{-39}` is about 36; there
polynomials of degree 31 in t and in a represent it to about 1e-13. So

.. math::

    \sum_j w_j \rho(t, a_j) = \sum_k T_k(z_t) \sum_{k'} B_{kk'} M_{k'}, \qquad
    M_{k'} = \sum_j w_j T_{k'}(z_{a_j}),

with Chebyshev polynomials T of the position in the panel, moments M of the sources in the panels
of a, and a matrix B for each panel of t and those panels of a that are within reach, some eight.
The number of panels grows as :math:`\sqrt{L}`.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

TINY = np.finfo(np.float64).tiny  # what a probability of 0 stands for
DEGREE = 32  # Chebyshev polynomials of a panel
_LOG_REACH = -39.0  # kernels below e^-39 of the kernel of the point on itself do not count
_EXTENT = 36.0  # length of a panel times length of what it reaches
_CURVED = 3.0  # longest panel where logarithms curve
_T_MAX = 709.0  # logits of TINY and of its complement lie within
_GRID = 260  # points on which reaches are found by bisection, and interpolated in between
_SERIES_FROM = 16.0  # Stirling's series is exact to 1e-14 from here


def log_gamma_rest(z):
    """g(z) = log Gamma(z + 1) - z log z + z, without cancellation for large z."""
    z = np.asarray(z, dtype=np.float64)
    large = np.maximum(z, _SERIES_FROM)
    inverse = 1 / large
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    small = np.minimum(z, _SERIES_FROM)
    return np.where(
        z >= _SERIES_FROM,
        0.5 * np.log(2 * np.pi * large) + series,
        gammaln(small + 1) - xlogy(small, small) + small,
    )


def split(t, total):
    """L times the probability with logit t, and L times its complement, both to full precision."""
    e = np.exp(-np.abs(t))
    larger, smaller = total / (1 + e), total * e / (1 + e)
    return np.where(t > 0, larger, smaller), np.where(t > 0, smaller, larger)


def deviances(a, b, a_star, b_star):
    """d(a, a*) + d(b, b*) where a + b = a* + b*: the linear terms cancel."""
    # The difference of the two that are smaller, so that nothing is lost beside L.
    difference = np.where(a_star > b_star, b_star - b, a - a_star)
    return _xlog_ratio(a, a_star, difference) + _xlog_ratio(b, b_star, -difference)


def _xlog_ratio(x, y, difference):
    """x log(x / y), through the difference where they are close."""
    relative = difference / y
    close = np.abs(relative) < 0.5
    return np.where(close, xlog1py(x, np.where(close, relative, 0.0)), xlogy(x, x / y))


def log_ratio(t, a, b):
    """log rho(t, a) with b = L - a, the shapes broadcast."""
    a_star, b_star = split(t, a + b)
    rest = log_gamma_rest(a) - log_gamma_rest(a_star) + log_gamma_rest(b) - log_gamma_rest(b_star)
    return -deviances(a, b, a_star, b_star) - rest


def log_self(t, total):
    """Log density of the Beta kernel of a point on itself."""
    a, b = split(t, total)
    return np.log1p(total) + log_gamma_rest(total) - log_gamma_rest(a) - log_gamma_rest(b)


@dataclass(frozen=True)
class Plan:
    """Edges of the panels of t and a, and the matrix of each panel of t with its reach.

    ``blocks`` holds, for each size m of a reach, the panels of t that have it and their matrices
    (panels, DEGREE, m DEGREE). ``log_self`` is the Chebyshev series of the log density of a point
    on itself.
    """

    total: float
    t_edges: np.ndarray
    a_edges: np.ndarray
    first: np.ndarray
    last: np.ndarray
    blocks: tuple
    log_self: np.ndarray

    def transfer(self, moments):
        """Moments (panels of a, DEGREE, V) -> Chebyshev coefficients (panels of t, DEGREE, V)."""
        coefficients = np.empty((len(self.first), *moments.shape[1:]))
        for panels, matrices in self.blocks:
            reach = self.first[panels, None] + np.arange(matrices.shape[2] // DEGREE)
            near = moments[reach].reshape(len(panels), matrices.shape[2], -1)
            coefficients[panels] = matrices @ near
        return coefficients


@lru_cache(maxsize=6)
def make_plan(bandwidth):
    """The plan of a bandwidth, shared by all problems that use it."""
    total = 1 / bandwidth
    t = _grid_of_logits(total)
    low, high = _reach(t, total)
    # The logarithms of 1 + e^t and of Gamma(1 + L e^t) have branch points at a distance of pi.
    curved = np.abs(t) < max(np.log(total), 0) + 40
    t_edges = _cut(t, np.maximum((high - low) / _EXTENT, curved / _CURVED))
    a = split(t, total)[0]
    a = np.unique(np.clip(np.concatenate([[0.0, total], a, low, high]), 0, total))
    # Which logits does a source reach? The inverse of the two increasing functions low and high.
    rising = np.arange(len(t)) * 1e-13 * total
    enter, leave = np.interp(a, high + rising, t), np.interp(a, low + rising, t)
    a_edges = _cut(a, np.maximum(leave - enter, 1e-9) / _EXTENT)
    first = np.searchsorted(a_edges, np.interp(t_edges[:-1], t, low), "right") - 1
    first = np.clip(first, 0, len(a_edges) - 2)
    last = np.searchsorted(a_edges, np.interp(t_edges[1:], t, high), "left")
    last = np.clip(last, first + 1, len(a_edges) - 1)
    nodes, to_coefficients = chebyshev_nodes()
    centre, half = 0.5 * (t_edges[1:] + t_edges[:-1]), 0.5 * np.diff(t_edges)
    series = log_self(centre[:, None] + half[:, None] * nodes, total) @ to_coefficients.T
    blocks = _blocks(total, t_edges, a_edges, first, last)
    return Plan(total, t_edges, a_edges, first, last, blocks, series)


def _grid_of_logits(total):
    """Dense where the kernels of the middle live, logarithmic in the tails."""
    bend = max(np.log(total), 1.0) + 4
    angle = np.linspace(0, np.pi / 2, _GRID + 2)[1:-1]
    middle = 2 * np.log(np.tan(angle))
    tail = np.geomspace(bend, _T_MAX, _GRID // 4)
    inner = np.linspace(-bend, bend, _GRID)
    return np.unique(np.concatenate([-tail, middle[np.abs(middle) < bend], inner, tail]))


def _reach(t, total):
    """For each logit the interval of a on which rho > e^_LOG_REACH, by bisection."""
    a_star = split(t, total)[0]

    def end(outermost):
        inside, outside = a_star.copy(), np.full_like(a_star, outermost)
        everything = log_ratio(t, outside, total - outside) >= _LOG_REACH
        for _ in range(40):
            middle = 0.5 * (inside + outside)
            near = log_ratio(t, middle, total - middle) >= _LOG_REACH
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return np.where(everything, outermost, outside)

    low, high = end(0.0), end(total)
    return np.maximum.accumulate(low), np.maximum.accumulate(high)


def _cut(x, density):
    """Edges with about one unit of the integral of the density in each panel."""
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(x)
    integral = np.concatenate([[0.0], np.cumsum(steps)])
    n_panels = max(1, int(np.ceil(integral[-1])))
    edges = np.interp(np.linspace(0, integral[-1], n_panels + 1), integral, x)
    edges[0], edges[-1] = x[0], x[-1]
    return np.unique(edges)


def chebyshev_nodes():
    """Chebyshev nodes, and the matrix from values at the nodes to coefficients."""
    angle = (np.arange(DEGREE) + 0.5) * np.pi / DEGREE
    to_coefficients = 2 / DEGREE * np.cos(np.outer(np.arange(DEGREE), angle))
    to_coefficients[0] /= 2
    return np.cos(angle), to_coefficients


def _blocks(total, t_edges, a_edges, first, last):
    """B of each panel of t, coefficients in t of the kernel for moments in a, by size of reach."""
    nodes, to_coefficients = chebyshev_nodes()
    centre, half = 0.5 * (a_edges[1:] + a_edges[:-1]), 0.5 * np.diff(a_edges)
    a = np.clip(centre[:, None] + half[:, None] * nodes, 0, total)
    rest = log_gamma_rest(a) + log_gamma_rest(total - a)
    t0, step = 0.5 * (t_edges[1:] + t_edges[:-1]), 0.5 * np.diff(t_edges)[:, None] * nodes
    a0, b0 = split(t0, total)
    # rho(t, a) = rho(t0, a) rho(t, a0) e^((t - t0)(a - a0)): one product and one exponential.
    shift = log_ratio(t0[:, None] + step, a0[:, None], b0[:, None])
    shift += (log_gamma_rest(a0) + log_gamma_rest(b0))[:, None]
    blocks = []
    for size in np.unique(last - first):
        panels = np.flatnonzero(last - first == size)
        reach = first[panels, None] + np.arange(size)
        here = a[reach].reshape(len(panels), -1)
        log_rho = -deviances(here, total - here, a0[panels, None], b0[panels, None])
        log_rho -= rest[reach].reshape(len(panels), -1)
        kernel = step[panels, :, None] * (here - a0[panels, None])[:, None, :]
        kernel += log_rho[:, None, :] + shift[panels, :, None]
        np.exp(np.maximum(kernel, -700, out=kernel), out=kernel)
        kernel = kernel.reshape(len(panels), DEGREE, size, DEGREE) @ to_coefficients.T
        matrices = to_coefficients @ kernel.reshape(len(panels), DEGREE, -1)
        blocks.append((panels, matrices))
    return tuple(blocks)
