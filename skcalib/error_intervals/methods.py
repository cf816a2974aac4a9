"""The interval method of each metric of the library, and the distributions that it uses.

The functions of an `IntervalRequest`, such as `upper_bound`, are the entries of `QUANTITIES`.
`Gaps` are the cells that errors of bins, of the simplex and of cumulative sums share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.stats import norm as normal
from scipy.stats import t as student

from skcalib._util.sizes import SIZES
from skcalib._util.validation import look_up
from skcalib.data.clusters import cluster_sums, effective_size, independent_size, inflation
from skcalib.data.notions import Canonical, resolve_notion, resolve_reduced
from skcalib.data.problem import ForecastSummary, Problem, Samples, check_problem, only_problem
from skcalib.error_intervals.proper import (
    FEW_REASON,
    SMOOTHED,
    estimate_proper_error,
    estimates_of_solved,
    is_few,
    rarest_label,
)
from skcalib.error_intervals.request import jackknife
from skcalib.errors.binned import (
    DISTANCES,
    bin_numbers,
    cells_for,
    check_bins,
    quantile_edges,
    resolve_norm,
)
from skcalib.errors.kernel import (
    Embedding,
    ResidualKernel,
    block_estimates,
    check_components,
    check_locations,
    check_pairs,
    drawn_embedding_pvalue,
    drawn_kernel_pvalue,
    few_labels,
    one_problem,
    random_blocks,
    resolve_kernel,
    takes_blocks,
)
from skcalib.errors.logistic import index_of_solved
from skcalib.errors.unbinned import KS_REDUCTIONS, PredictedClass
from skcalib.proper.proper import solve_notion
from skcalib.scores import (
    Brier,
    Divergence,
    Lp,
    ProperScore,
    TotalVariation,
    resolve_loss,
    weighted_quantile,
)
from skcalib.stats.means import mean_interval, mean_loss_interval
from skcalib.stats.squared_norm import SquaredNorm, noise_cumulants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from skcalib._util.types import ArrayLike
    from skcalib.error_intervals.request import ErrorInterval, IntervalRequest
    from skcalib.errors.kernel import ClusterKernel

NOISY: dict[str, Any] = {
    "valid": False,
    "reason": "noise of the curve biases the distance upward, by an amount that is not known",
}
BETWEEN = "a norm lies between those of lower and higher power, whose limits these are"
QUANTILE_OF_CELLS = (
    "the quantile {:g} of the distances of S from C, as far as C - S is constant in each of {} "
    "intervals of the forecasts with equal numbers of samples"
)
SIMULTANEOUS = "the limits are those of all cells simultaneously"
PART_OF_CELL = "the largest distance may be that of a part of a cell, and above the upper limit"
_FEWEST_CELLS, _MOST_CELLS = 6, 15  # of a curve
MOMENTS = "the limits are bounds from those of the squared distance"
INVERSION, BOTH_SIDES = "test inversion", "limits for all bias and none"
FEW: dict[str, Any] = {"method": "exact limits", "conservative": True, "reason": FEW_REASON}
BINNED = "the {} of E[Y|bin] from E[S|bin], with the bins of this sample"
#: Estimates of at least this many standard errors are far from zero.
FAR = 4.0
NOT_REFUTED = "few labels are uncertain, and labels drawn from the forecasts do not refute zero"
NEAR_ZERO = "the lower limit is zero unless two tests reject calibration"
_ROUNDING = 1e-15  # of equal losses, relative to their mean
#: A margin in the standard error that has a visible effect on coverage.
PADDED = 1.15
MARGIN = (
    "the growth of the noise with the error cannot be estimated well: its upper limit makes "
    "the standard error {:.1f} times as large"
)
BENT = (
    "noise biases absolute differences upward by up to {:.1f} standard errors: the lower limit "
    "allows for this bias, the upper one for none"
)
#: Gaps of at least this many standard errors have a known sign.
CLEAR = 3.0
#: Biases of up to this many standard errors have a negligible effect on coverage.
NEGLIGIBLE = 0.2
#: Distances that differ by this many standard errors of one of them are not both the largest.
CLEAR_CUMULATIVE = 4.0
_POINTS = 300  # thresholds of all problems together
_FEWEST = 40  # thresholds of a problem
_ROWS_OF_GAPS = 2000  # samples at a time


def _error_of(low, high, confidence_level):
    """The standard error of a normal estimate with these limits."""
    return (high - low) / (2 * float(normal.isf((1 - confidence_level) / 2)))


def _inverted(request, norm, target, ceiling, *, rooted=False):
    """Test inversion on the laws of a squared norm; limits of a root are roots of the limits."""
    if not norm.noise2 > 0:
        return request.nothing_varies(target=target, ceiling=ceiling)
    low, high = norm.interval(request.normal_level)
    error = norm.standard_error
    if rooted:
        low, high = np.sqrt(low), np.sqrt(high)
        error = _error_of(low, high, request.confidence_level)
    flags = {"method": INVERSION, "target": target, "ceiling": ceiling, **_margin(norm, low)}
    return request.answer(low, high, error, **flags)


def _margin(norm, low):
    """Flags of an interval whose spread has a margin."""
    if low > 0 and norm.padding > PADDED:
        return {"conservative": True, "reason": MARGIN.format(norm.padding)}
    return {}


def _both_sides(request, low, high, error, *, bias, target, ceiling):
    """Limits of an absolute value: the lower one allows for all of a bias, the upper one for none.

    Biases that have an effect on coverage are stated.
    """
    flags = {"method": BOTH_SIDES, "target": target, "ceiling": ceiling}
    if bias > NEGLIGIBLE * error:
        size = bias / error if error > 0 else np.inf
        flags |= {"conservative": True, "reason": BENT.format(size)}
    return request.answer(low, high, error, **flags)


# --- Gaps of cells --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gaps:
    """Mean residuals of the cells of one or several columns.

    ``cell`` (P, n) has for each column the cell of each sample; cells are numbered consecutively
    over all columns. ``share`` (M,) and ``column`` (M,) are the share and the number of the column
    of each cell. ``event`` (P, n) are the labels or their means. ``weight`` (n,) sums to one.
    ``root`` (n,) are the roots of the sums of squared weights of the samples of each row, which are
    the weights where a row is one sample. With a ``cluster`` (n,) sums over clusters replace the
    contributions and influences of single samples, (G, ...) instead of (n, ...).
    """

    cell: np.ndarray
    score: np.ndarray
    event: np.ndarray
    weight: np.ndarray
    root: np.ndarray
    share: np.ndarray
    column: np.ndarray
    cluster: np.ndarray | None = None

    @classmethod
    def of_columns(
        cls,
        cells: Iterable[np.ndarray],
        score: np.ndarray,
        event: np.ndarray,
        weight: np.ndarray | None,
        share: ArrayLike,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> Self:
        """Cells of each column, by any integers, (P, n); scores and events (P, n); shares (P,)."""
        numbered, column = [], []
        for j, of_column in enumerate(cells):
            distinct, index = np.unique(of_column, return_inverse=True)
            numbered.append(index.ravel() + len(column))
            column += [j] * len(distinct)
        n_samples = np.shape(score)[1]
        mass = n_samples if weight is None else weight.sum()
        weight = np.full(n_samples, 1 / n_samples) if weight is None else weight / mass
        root = weight if square is None else np.sqrt(square) / mass
        column = np.array(column)
        share = np.asarray(share)[column]
        return cls(np.array(numbered), score, event, weight, root, share, column, cluster)

    @classmethod
    def of_scores(cls, options: Mapping[str, Any]) -> Self:
        """Those of the bins of `calibration_error`, from all its arguments."""
        names = "y_true", "y_proba", "notion", "sample_weight", "labels", "pos_label"
        arguments, problem = {name: options[name] for name in names}, options["y_true"]
        if isinstance(problem, ForecastSummary):
            rows, _ = only_problem(**arguments)
            score, event = rows.forecast[None, :, 1], rows.target[None, :, 1]
            weight, square, count, share = rows.weight, rows.square, rows.count, np.ones(1)
            n_samples, binned = rows.n_samples, score
        else:
            samples = Samples.of(**arguments)
            score, event, weight = binned, _, _ = samples.columns()
            n_samples, square, count = samples.n_independent, None, None
            if isinstance(samples.notion, PredictedClass):
                predicted = score.any(axis=1)
                score, event = score[predicted], event[predicted]
                binned = [values[values > 0] for values in score]
            share = np.full(len(score), 1 / len(score) if samples.notion.reduce == "mean" else 1.0)
        bins = check_bins(options["n_bins"], options["strategy"], n_samples)
        edges = [quantile_edges(s, bins, count) if isinstance(bins, int) else bins for s in binned]
        cells = [bin_numbers(s, e) for s, e in zip(score, edges, strict=True)]
        cluster = problem.cluster if isinstance(problem, Problem) else None
        return cls.of_columns(cells, score, event, weight, share, square, cluster)

    @cached_property
    def residual(self) -> np.ndarray:
        """Label - score, (P, n)."""
        return self.event - self.score

    @property
    def n_cells(self) -> int:
        """Number of cells of all columns."""
        return len(self.column)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sums over the cells of values (P, n)."""
        return np.bincount(self.cell.ravel(), np.ravel(values), self.n_cells)

    def mass(self) -> np.ndarray:
        """Share of the weight in each cell; one in every column."""
        return self.sum(np.broadcast_to(self.weight, self.cell.shape))

    def gap(self) -> np.ndarray:
        """Mean residual of each cell."""
        return self.sum(self.weight * self.residual) / self.mass()

    def inverse_size(self) -> np.ndarray:
        """Sum of w^2 over the square of the sum of w in each cell; of clusters if there are any."""
        if self.cluster is None:
            return self.inverse_count()
        pieces = cluster_sums(
            self._sparse(np.broadcast_to(self.weight, self.cell.shape)), self.cluster
        )
        return np.asarray(pieces.multiply(pieces).sum(axis=0)).ravel() / self.mass() ** 2

    def inverse_count(self) -> np.ndarray:
        """Sum of w^2 of the samples over the square of the sum of w in each cell."""
        return self.sum(np.broadcast_to(self.root**2, self.cell.shape)) / self.mass() ** 2

    def inflation(self) -> float:
        """Factor of variances for the centring of few clusters; 1 for independent samples."""
        if self.cluster is None:
            return 1.0
        return inflation(independent_size(self.weight, cluster=self.cluster))

    def contributions(self) -> csr_matrix:
        """Sparse (n, M): contribution of each sample to the error of each gap.

        The products of its columns are the covariance of the gaps, and its squares sum to their
        unbiased variance. The only sample of a cell contributes nothing.
        """
        inverse = self.inverse_size()
        several = inverse < 1 - 1e-9
        factor = np.where(several, 1 / np.sqrt(np.where(several, 1 - inverse, 1.0)), 0.0)
        centred = self.residual - self.gap()[self.cell]
        values = self._sparse(self.root * centred * (factor / self.mass())[self.cell])
        return cluster_sums(values, self.cluster)

    def rows(self) -> csr_matrix:
        """Sparse (n, M): root times residual of each sample in its cells."""
        return cluster_sums(self._sparse(self.root * self.residual), self.cluster)

    def _sparse(self, values):
        n_columns, n_samples = self.cell.shape
        starts = n_columns * np.arange(n_samples + 1)
        shape = (n_samples, self.n_cells)
        return csr_matrix((values.T.ravel(), self.cell.T.ravel(), starts), shape=shape)

    def influence(self, slope: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Influence of each sample or cluster on sum_c share p f(gap); slopes f', values f."""
        centred = self.residual - self.gap()[self.cell]
        inside = (self.share * slope)[self.cell] * centred
        between = np.sum((self.share * value)[self.cell], axis=0)
        total = np.sum(inside, axis=0) + between
        influence = cluster_sums(self.root * (total - self.weight @ total), self.cluster)
        return influence * np.sqrt(self.inflation())

    def variance(self, contributions: csr_matrix, *, smooth: bool = False) -> np.ndarray:
        """Variance of each gap, at least that of labels drawn from the forecasts.

        A few labels that are equal by chance have no sample variance, which is not evidence of
        certainty. The only sample of a cell gets 1/4, the largest variance of a label. ``smooth``
        gives each cell at least the variance with one more event and one more non-event; this is
        needed if the result depends on a single gap.
        """
        variance = np.asarray(contributions.multiply(contributions).sum(axis=0)).ravel()
        mass = self.mass()
        size = np.abs(self.residual)  # of y - s with y in {0, 1}, so that s (1 - s) is:
        drawn = self.sum(self.root**2 * size * (1 - size)) / mass**2
        variance = np.where(self.inverse_size() < 1 - 1e-9, np.maximum(variance, drawn), 0.25)
        if not smooth:
            return variance
        cases = 1 / self.inverse_count()
        rate = (cases * self.sum(self.weight * (self.residual > 0)) / mass + 1) / (cases + 2)
        return np.maximum(variance, rate * (1 - rate) / (cases + 2))

    def sizes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Absolute gaps, their standard errors, and the degrees of freedom of Student's t."""
        spread = np.sqrt(self.variance(self.contributions(), smooth=True))
        return np.abs(self.gap()), spread, np.maximum(1 / self.inverse_size() - 1, 1.0)


def normal_draws(
    contributions: csr_matrix,
    n_draws: int,
    rng: np.random.RandomState,
    *,
    total: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Normal vectors (n_draws, M) with the covariance of the columns of `contributions` (n, M).

    With `total` (M,) and `weight` (n,), their products are subtracted from the columns first.
    """
    n_samples, n_cells = contributions.shape
    if n_cells <= SIZES.dense_cells:
        matrix = covariance(contributions)
        if weight is not None and total is not None:
            cross = np.outer(contributions.T @ weight, total)
            matrix += np.outer(total, total) * (weight @ weight) - cross - cross.T
        values, vectors = np.linalg.eigh(matrix)
        # The symmetric root: unlike eigenvectors it does not depend on rounding.
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        return rng.standard_normal((n_draws, n_cells)) @ root
    draws = np.zeros((n_cells, n_draws))
    for start in range(0, n_samples, _ROWS_OF_GAPS):
        rows = contributions[start : start + _ROWS_OF_GAPS]
        noise = rng.standard_normal((rows.shape[0], n_draws))
        draws += rows.T @ noise
        if weight is not None and total is not None:
            draws -= np.outer(total, weight[start : start + _ROWS_OF_GAPS] @ noise)
    return draws.T


def covariance(contributions: csr_matrix) -> np.ndarray:
    """The products of the columns of `contributions`, dense."""
    return (contributions.T @ contributions).toarray()


def _with_few(request, usual, gaps, power, *, rooted=False, whole=False):
    """Exact limits where events are few; the upper one is at least that of the other interval.

    The error is the sum of share times mass times |gap|^power, the largest |gap|, or with the power
    0 the sum of the largest cumulative differences. With `whole` the columns are the classes of one
    problem, else each is a problem. Classes of a cell are marked alike, so the mean gap of all
    cells with one sign each is at most the error. The sign of a cumulative difference changes once:
    it is at least a third of this mean.
    """
    if whole:
        problems = [(gaps.score.T, gaps.event.T, gaps.cell[0])]
    else:
        forecast, label = (np.stack([1 - v, v], axis=2) for v in (gaps.score, gaps.event))
        problems = list(zip(forecast, label, gaps.cell, strict=True))
    rows = {"weight": gaps.weight, "square": gaps.root**2, "cluster": gaps.cluster}
    marked = [rarest_label(s, y, **rows, cell=cell - cell.min()) for s, y, cell in problems]
    marks, numbers = zip(*marked, strict=True)
    if not is_few(numbers):
        return usual
    level = 1 - (1 - request.normal_level) / len(marks)
    distance = np.array([abs(mark.nearest(level) - mark.means[0]) for mark in marks])
    ends = []
    for mark in marks:  # moved to the limit that is farther from the mean forecast
        rates, mean = mark.rates(request.normal_level), mark.means[0]
        ends.append(mark.moved(max(rates, key=lambda rate, mean=mean: abs(rate - mean))).T)
    gap = replace(gaps, event=ends[0] if whole else np.array([end[1] for end in ends])).gap()
    size, mass = np.abs(gap), gaps.mass()
    share = gaps.share[np.searchsorted(gaps.column, np.arange(len(gaps.cell)))]
    if whole:  # the other classes share the distance of the marked one
        distance = np.append(distance, np.full(len(share) - 1, distance / (len(share) - 1)))
    if power == np.inf:
        low, high = float(distance.max()), float(size.max())
    elif power == 0:
        turned = [np.ptp(mark.column) > 0 for mark in marks]
        curves = [np.cumsum((mass * gap)[gaps.column == j]) for j in range(len(share))]
        low = float(share @ np.where(turned, distance / 3, distance))
        high = float(share @ [np.abs(curve).max() for curve in curves])
    else:
        low, high = float(share @ distance**power), float((gaps.share * mass) @ size**power)
    if rooted:
        low, high = np.sqrt(low), np.sqrt(high)
    if np.isfinite(usual.standard_error):
        high = max(high, usual.high)
    error = _error_of(low, high, request.confidence_level)
    return request.answer(low, high, error, target=usual.target, **FEW)


# --- Binned errors --------------------------------------------------------------------------------


def binned(request: IntervalRequest) -> ErrorInterval:
    """Interval of `calibration_error`."""
    options = dict(request.options)
    options["notion"] = resolve_reduced(options["notion"], options["reduce"])
    p = resolve_norm(options["norm"])
    if p not in (1, 2, np.inf):  # a norm grows with its power
        lower, upper = (
            binned(replace(request, options=dict(request.options, norm=norm)))
            for norm in (("l1", "l2") if p < 2 else ("l2", "max"))
        )
        return request.answer(
            lower.low,
            upper.high,
            _error_of(lower.low, upper.high, request.confidence_level),
            method="limits of norms",
            target=BINNED.format(f"distance in the norm of power {p:g}"),
            conservative=True,
            reason=BETWEEN,
        )
    gaps = Gaps.of_scores(options)
    ceiling = 1.0 if options["notion"].reduce == "mean" else float(len(gaps.cell))
    rooted = p == 2 and not options["squared"]
    if p == np.inf:
        usual = _largest(request, gaps)
    elif p == 1:
        usual = _absolute(request, gaps, BINNED.format("mean absolute distance"), ceiling)
    else:
        target = BINNED.format(("root of the " if rooted else "") + "mean squared distance")
        norm = squared_gaps(gaps, request.n_resamples, request.rng)
        usual = _inverted(request, norm, target, ceiling, rooted=rooted)
    return _with_few(request, usual, gaps, p, rooted=rooted)


def simplex(request: IntervalRequest) -> ErrorInterval:
    """Interval of `simplex_calibration_error`."""
    options, problem = request.options, request.problem()
    cells = cells_for(problem, options["bins"])
    cells = cells.fit(problem.forecast, problem.target, problem.weight).cells_
    n_classes = problem.forecast.shape[1]
    distance, kind, share = options["distance"], "squared", 0.5 if n_classes == 2 else 1.0
    if isinstance(distance, str):
        distance = look_up(distance, DISTANCES, "distance", kind=object)
    if isinstance(distance, TotalVariation):
        kind, share = "absolute", 0.5
    elif isinstance(distance, Lp) and distance.p == 1:
        kind = "absolute"
    elif not (isinstance(distance, Brier) or (isinstance(distance, Lp) and distance.p == 2)):
        return jackknife(request, at_zero=True)  # no sum over the classes
    gaps = Gaps.of_columns(
        [cells] * n_classes,
        problem.forecast.T,
        problem.target.T,
        problem.weight,
        [share] * n_classes,
        cluster=problem.cluster,
    )
    target = f"the mean {kind} distance of E[Y|cell] from E[S|cell], with the cells of this sample"
    if kind == "absolute":
        usual = _absolute(request, gaps, target, 2.0 * share)
        return _with_few(request, usual, gaps, 1, whole=True)
    norm = squared_gaps(gaps, request.n_resamples, request.rng)
    usual = _inverted(request, norm, target, 2.0 * share)
    return _with_few(request, usual, gaps, 2, whole=True)


def squared_gaps(gaps: Gaps, n_draws: int, rng: np.random.RandomState) -> SquaredNorm:
    """`SquaredNorm` of the debiased sum of share times mass times squared gap."""
    gap, mass, contributions = gaps.gap(), gaps.mass(), gaps.contributions()
    several = gaps.inverse_size() < 1 - 1e-9
    root = np.sqrt(gaps.share * mass)
    mean = np.where(several, root * gap, 0.0)
    noise = contributions @ diags(root)
    trace, raw = float(noise.multiply(noise).sum()), float(mean @ mean)
    along = noise @ mean
    signal = float(along @ along)
    if gaps.n_cells > SIZES.dense_cells:
        norms = np.square(normal_draws(noise, n_draws, rng)).sum(axis=1)
        noise2, noise3 = norms.var(), np.mean((norms - norms.mean()) ** 3)
    elif gaps.cluster is not None:
        noise2, noise3 = noise_cumulants(noise.toarray())
    else:
        matrix = covariance(noise)
        noise2, noise3 = 2 * np.sum(matrix**2), 8 * np.sum((matrix @ matrix) * matrix)
    masses = gaps.influence(np.zeros_like(gap), gap**2)
    between = float(masses @ masses) / raw**2 if raw > 0 else 0.0
    return SquaredNorm.from_mean(signal, raw, raw - trace, noise2, noise3, between)


def _absolute(request, gaps, target, ceiling):
    """Limits of the sum of share times mass times |gap|."""
    rng, n_draws = request.rng, request.n_resamples
    gap, mass = gaps.gap(), gaps.mass()
    contributions = gaps.contributions()
    spread = np.sqrt(gaps.variance(contributions))
    clear = np.abs(gap) > CLEAR * spread
    factor = gaps.share * mass
    influence = gaps.influence(np.sign(gap), np.abs(gap))
    error = float(np.sqrt(np.sum(influence**2)))
    noise = normal_draws(contributions, n_draws, rng)
    # If the assumed variance exceeds the estimated one, the draws are rescaled to it.
    drawn = np.sqrt(np.asarray(contributions.multiply(contributions).sum(axis=0)).ravel())
    extra = np.sqrt(np.maximum(spread**2 - drawn**2, 0.0))
    noise = noise + extra * rng.standard_normal(noise.shape) if extra.any() else noise
    # With maximal bias: gaps of unknown sign are zero, and all noise adds to them.
    linear = factor * np.sign(gap)
    folded = noise[:, clear] @ linear[clear] + np.abs(noise[:, ~clear]) @ factor[~clear]
    between = error**2 - float(np.sum((contributions @ linear) ** 2))
    folded = folded + np.sqrt(max(between, 0.0)) * rng.standard_normal(n_draws)
    tail = (1 - request.normal_level) / 2
    estimate = float(factor @ np.abs(gap))
    error = max(error, float(np.std(noise @ linear)))
    low = estimate - float(np.quantile(folded, 1 - tail))
    high = estimate + float(normal.isf(tail)) * error
    bias = float(factor[~clear] @ spread[~clear]) * np.sqrt(2 / np.pi)
    if error == 0 and bias == 0:
        return request.nothing_varies(target=target, ceiling=ceiling)
    return _both_sides(request, low, high, error, bias=bias, target=target, ceiling=ceiling)


def _largest(request, gaps):
    """Limits of the largest |gap|, from those of all bins that may have it."""
    size, spread, degrees = gaps.sizes()
    tail = (1 - request.confidence_level) / 2
    candidates = int(np.sum(size + CLEAR * spread >= np.max(size - CLEAR * spread)))
    # Sidak: P(max |Z| <= q) >= P(|Z| <= q)^m for normal Z of any correlation.
    both = (1 - (1 - tail) ** (1 / candidates)) / 2 if candidates > 1 else tail
    low = float(np.max(size - student.isf(both, degrees) * spread))
    high = float(np.max(size + student.isf(tail, degrees) * spread))
    flags = {}
    if candidates > 1:
        reason = f"any of {candidates} bins may have the largest gap: the limits allow for all"
        flags = {"conservative": True, "reason": reason}
    target = BINNED.format("largest distance")
    flags |= {"method": "simultaneous limits", "target": target, "ceiling": 1.0}
    return request.answer(low, high, float(spread[size.argmax()]), **flags)


# --- The largest cumulative difference ------------------------------------------------------------


def largest_cumulative(request: IntervalRequest) -> ErrorInterval:
    """Interval of `ks_calibration_error`."""
    options, reduce = dict(request.options), request.options["reduce"]
    options["notion"] = resolve_reduced(options["notion"], reduce, KS_REDUCTIONS)
    if reduce == "predicted":
        options["notion"] = PredictedClass()
    n_problems = len(list(options["notion"].problems(np.eye(2), np.eye(2))))
    if n_problems > 1:
        n_problems = request.problem_of(options["notion"])[0].forecast.shape[1]
    options |= {"n_bins": max(_FEWEST, _POINTS // n_problems), "strategy": "quantile"}
    gaps = Gaps.of_scores(options)
    ceiling = float(len(gaps.cell)) if reduce == "sum" else 1.0
    target = "the largest |E (Y - S) 1{S <= t}| over thresholds t"
    if reduce == "predicted":
        target += ", for each class where it is predicted"
    return _with_few(request, _cumulative(request, gaps, target, ceiling), gaps, 0)


def _cumulative(request, gaps, target, ceiling):
    """Limits of the share-weighted sum of largest |cumulative difference|.

    The noise of the curve is Gaussian. At thresholds whose distance from zero may be the largest,
    it can only increase the maximum: the lower limit uses the largest noise over all of them, on
    both sides of zero if necessary. The upper limit is that of the observed threshold, as the true
    maximum is at least the distance there.

    The estimate is the maximum over all scores, but the noise is drawn at some of them only. So the
    lower limit is based on the maximum at these thresholds. What the curve exceeds between them is
    noise, which would accumulate in the mean over many problems, and very little signal.
    """
    n_draws = request.n_resamples
    increment, root = gaps.sum(gaps.weight * gaps.residual), cluster_sums(gaps.root, gaps.cluster)
    draws = normal_draws(gaps.rows(), n_draws, request.rng, total=increment, weight=root)
    draws = draws * np.sqrt(gaps.inflation())
    at_top, largest, bias, observed = 0.0, np.zeros(n_draws), 0.0, 0.0
    for j in range(len(gaps.cell)):
        inside = gaps.column == j
        curve, noise = np.cumsum(increment[inside]), np.cumsum(draws[:, inside], axis=1)
        distance, spread = np.abs(curve), noise.std(axis=0)
        signed = np.concatenate([curve, -curve])
        both = np.concatenate([noise, -noise], axis=1)
        top = int(distance.argmax())
        near = signed >= distance[top] - CLEAR_CUMULATIVE * np.maximum(
            np.tile(spread, 2), spread[top]
        )
        share = gaps.share[inside][0]
        noisy = both[:, near].max(axis=1)
        observed += share * distance[top]
        largest += share * noisy
        bias += share * float(noisy.mean())
        at_top = at_top + share * np.sign(curve[top]) * noise[:, top]
    tail, error = (1 - request.normal_level) / 2, float(np.std(at_top))
    if error == 0:
        return request.nothing_varies(target=target, ceiling=ceiling)
    low = observed - float(np.quantile(largest, 1 - tail))
    high = request.estimate + float(normal.isf(tail)) * error
    return _both_sides(request, low, high, error, bias=bias, target=target, ceiling=ceiling)


# --- Kernel calibration error and error of mean embeddings ----------------------------------------


def _problem_of(options):
    """The problem and its notion, from all arguments of an error that has a kernel."""
    names = "y_true", "y_proba", "sample_weight", "labels", "pos_label"
    notion = resolve_notion(options["notion"])
    return check_problem(**{name: options[name] for name in names}, notion=notion), notion


def kernel(request: IntervalRequest) -> ErrorInterval:
    """Interval of `kernel_calibration_error`."""
    options = request.options
    statistic, size = options["statistic"], options["block_size"]
    (problem, notion), of_pairs = _problem_of(options), resolve_kernel(options["kernel"])
    h, norm = ResidualKernel.of_problem(problem, of_pairs, notion, request.n_jobs), None
    h = h.of_clusters(problem.cluster, statistic)
    target = "the squared kernel calibration error, with the kernel of this sample"
    if statistic in ("linear", "block"):
        if request.clustered:
            raise ValueError(
                f"statistic={statistic!r} takes consecutive samples as independent: use "
                "statistic='unbiased' with groups."
            )
        size = 2 if statistic == "linear" else size
        estimates, weight = block_estimates(h, size)
        mean = mean_interval(estimates, weight, request.confidence_level)
        usual = request.answer(
            mean.low, mean.high, mean.standard_error, method="delta method", target=target
        )
    elif len(h) < 4:
        return request.nothing_varies(target=target, ceiling=np.inf)
    else:
        blocks = not request.clustered and takes_blocks(statistic, len(h))
        norm = (squared_block_norm if blocks else squared_embedding_norm)(h, request.rng)
        usual = _inverted(request, norm, target, np.inf)
    drawing = {"statistic": statistic, "block_size": size}
    pvalue = partial(drawn_kernel_pvalue, problem, of_pairs, notion, **drawing)
    return _exact_near_zero(request, usual, norm, pvalue, problem=problem, notion=notion)


def embedding(request: IntervalRequest) -> ErrorInterval:
    """Interval of `unconditional_mean_embedding_error`."""
    target = "the error of the mean embedding at these locations, with the kernel of this sample"
    options = request.options
    problem, notion = _problem_of(options)
    if len(problem.weight) < 4:
        return request.nothing_varies(target=target, ceiling=np.inf)
    points = check_locations(options["locations"], one_problem(problem, notion)[0].shape[1])
    component = check_components(options["location_labels"], problem, notion, points)
    features = Embedding(problem, resolve_kernel(options["kernel"]), notion, points, component)
    values = features.features(slice(None), features.target) / np.sqrt(len(points))
    n_samples = len(values)
    mean = values.mean(axis=0)
    noise = values - features.weight[:, None] * mean
    if problem.cluster is None:
        noise /= np.sqrt(n_samples * (n_samples - 1))
    else:
        size = independent_size(problem.weight, cluster=problem.cluster)
        noise = cluster_sums(noise, problem.cluster) * (np.sqrt(inflation(size)) / n_samples)
    matrix, raw = noise.T @ noise, float(mean @ mean)
    norm = SquaredNorm.from_mean(
        signal=float(mean @ matrix @ mean),
        raw=raw,
        estimate=raw - float(np.trace(matrix)),
        noise2=2 * float(np.sum(matrix**2)),
        noise3=8 * float(np.sum((matrix @ matrix) * matrix)),
    )
    usual = _inverted(request, norm, target, np.inf)
    pvalue = partial(drawn_embedding_pvalue, problem, features, notion)
    return _exact_near_zero(request, usual, norm, pvalue, problem=problem, notion=notion)


def _exact_near_zero(request, usual, norm, pvalue, *, problem, notion):
    """With few uncertain labels: wider, and from 0 unless labels drawn from forecasts reject it.

    The variance is that of the observed labels or of the forecasts, whichever is larger, and of two
    more events: a few labels that are equal by chance are not evidence of certainty.
    """
    if not few_labels(problem, notion):
        return usual
    interval = usual
    if norm is not None and norm.noise2 > 0:
        square, forecast = problem.weight**2, problem.forecast
        drawn = np.sum(forecast * (1 - forecast), axis=1)
        observed = square @ np.sum((problem.target - forecast) ** 2, axis=1)
        two_events = 4 * np.average(square, weights=drawn if drawn.any() else None)
        ratio = (max(observed, square @ drawn) + two_events) / observed
        wider = {"noise2": ratio**2 * norm.noise2, "noise3": ratio**3 * norm.noise3}
        norm = replace(norm, slope=ratio * norm.slope, **wider)
        interval = _inverted(request, norm, usual.target, np.inf)
    level = 1 - interval.confidence_level
    draws = {"n_draws": request.n_resamples, "rng": request.rng, "level": level}
    if interval.low == 0 or pvalue(**draws) <= level:
        return interval
    return replace(interval, low=0.0, conservative=True, reason=NOT_REFUTED)


def squared_embedding_norm(
    h: ResidualKernel | ClusterKernel, rng: np.random.RandomState
) -> SquaredNorm:
    """`SquaredNorm` of the unbiased kernel calibration error.

    The mean is that of the features w_i k(S_i, .)(y_i - S_i), whose products are h. Centred
    products give the noise; the second and third cumulants of its distribution omit the
    diagonal, as unbiased estimates do.
    """
    n_samples, weight = len(h), h.weight
    ones = np.ones((n_samples, 1))
    mean = h.multiply(ones)[:, 0] / n_samples
    raw = float(mean.mean())
    along = mean - weight * raw
    pairs = n_samples**2 - float(weight @ weight)  # weights have the mean one
    unbiased = (n_samples**2 * raw - h.diagonal().sum()) / pairs
    signal = float(along @ along) / (n_samples * (n_samples - 1))
    noise2, noise3 = _noise_cumulants(h, mean, raw, n_samples, rng)
    return SquaredNorm.from_mean(signal, raw, unbiased, noise2, noise3)


def squared_block_norm(
    h: ResidualKernel | ClusterKernel, rng: np.random.RandomState
) -> SquaredNorm:
    """`SquaredNorm` of the mean of the unbiased estimates of random blocks.

    Blocks are independent of each other, so that the cumulants of the mean of B estimates are those
    of one block over B and B^2.
    """
    rows = random_blocks(len(h))
    n_blocks, size = rows.shape
    mean, signal, total, raw = np.zeros(len(h)), 0.0, 0.0, 0.0
    for block in rows:
        part = h.take(block)
        mean[block] = part.multiply(np.ones((size, 1)))[:, 0] / size
        level = float(mean[block].mean())
        along = mean[block] - part.weight * level
        signal += float(along @ along) / (size * (size - 1))
        total += size**2 * level - float(part.diagonal().sum())
        raw += level / n_blocks
    used = rows.ravel()
    unbiased = total / float(np.sum(check_pairs(h.weight[rows])))
    noise2, noise3 = _noise_cumulants(h.take(used), mean[used], raw, size, rng)
    signal, noise2, noise3 = signal / n_blocks**2, noise2 / n_blocks, noise3 / n_blocks**2
    return SquaredNorm.from_mean(signal, raw, unbiased, noise2, noise3)


def _noise_cumulants(h, mean, raw, size, rng):
    """Second and third cumulants of the noise of `size` samples, from at most 600 rows."""
    n_samples, weight = len(h), h.weight
    rows = np.arange(n_samples)
    if n_samples > SIZES.cumulant_rows:
        rows = rng.choice(n_samples, SIZES.cumulant_rows, replace=False)
    m, some = len(rows), h.take(rows)
    w, a = weight[rows], mean[rows]
    noise = some.matrix() - np.outer(w, a) - np.outer(a, w) + raw * np.outer(w, w)
    np.fill_diagonal(noise, 0.0)
    noise2 = 2 * np.sum(noise**2) / (m * (m - 1) * size**2)
    noise3 = 8 * np.sum((noise @ noise) * noise) / (m * (m - 1) * (m - 2) * size**3)
    return noise2, noise3


# --- Proper errors, mean losses, and distances of a curve -----------------------------------------


def proper(request: IntervalRequest) -> ErrorInterval:
    """Interval of `proper_calibration_error`: test inversion, or paired losses of a smoother."""
    options = request.options
    problem, notion = request.problem_of(resolve_notion(options["notion"]), soft=True)
    if isinstance(options["loss"], Divergence) and not isinstance(options["loss"], ProperScore):
        return jackknife(request, at_zero=True, target=SMOOTHED)
    estimate = estimate_proper_error(
        problem,
        loss=options["loss"],
        notion=notion,
        smoother=options["smoother"],
        method=options["method"],
        confidence_level=request.confidence_level,
        n_jobs=request.n_jobs,
    )
    interval = estimate.interval
    if interval is None:
        return jackknife(request, at_zero=True, target=estimate.target)
    if not np.isfinite(interval.high) and not estimate.terms.loss.any():
        return request.nothing_varies(target=estimate.target, ceiling=np.inf)
    low, high, error = interval.low, interval.high, interval.standard_error
    flags: dict[str, Any] = {"method": "delta method", "target": estimate.target}
    flags["estimate"] = interval.estimate
    if estimate.few:
        flags |= FEW
    elif estimate.norm is not None:
        flags |= {"method": INVERSION, **_margin(estimate.norm, low)}
        flags |= {} if low > 0 else {"conservative": True, "reason": NEAR_ZERO}
        if estimate.lower_bound:
            flags |= {"valid": False, "reason": estimate.lower_bound}
    elif not np.isfinite(interval.estimate):
        flags |= {"valid": False, "reason": "the estimate is infinite"}
    elif 0 < error < np.inf and interval.estimate < FAR * error:
        reason = "close to zero the estimate varies less than the paired differences suggest"
        flags |= {"conservative": True, "reason": reason}
    return request.answer(low, high, error, **flags)


def upper_bound(request: IntervalRequest) -> ErrorInterval:
    """Interval of `calibration_upper_bound`: a mean loss."""
    score, notion = resolve_loss(request.options["loss"]), resolve_notion(request.options["notion"])
    return _mean_loss(request, score, notion, "the mean loss minus its infimum")


def root_brier(request: IntervalRequest) -> ErrorInterval:
    """Interval of `root_brier_score`: the root of the interval of a mean loss."""
    return _mean_loss(request, Brier(), Canonical(), "the root of E L(Y, S)", rooted=True)


def _mean_loss(request, score, notion, target, *, rooted=False):
    problem, notion = request.problem_of(notion, soft=True)

    def loss(labels):
        pairs = notion.problems(problem.forecast, labels)
        losses = [score.loss(label, forecast) - score.infimum for forecast, label in pairs]
        return sum(losses) / (len(losses) if notion.reduce == "mean" else 1)

    rows = {"weight": problem.weight, "square": problem.square, "cluster": problem.cluster}
    rows |= {"confidence_level": request.confidence_level}
    if problem.losses is not None:
        rows["estimate"] = problem.mean_loss(score) - score.infimum
    if problem.indicator:
        mean = mean_interval(loss(problem.target), **rows)
    else:
        mean = mean_loss_interval(loss, problem.forecast, problem.target, **rows)
    low, high, error = max(mean.low, 0.0), mean.high, mean.standard_error
    if rooted:
        low, high, error = np.sqrt(low), np.sqrt(high), error / (2 * request.estimate or 1.0)
    flags = {}
    if error <= _ROUNDING * mean.estimate:
        reason = "every sample has the same loss, so its spread cannot be estimated"
        flags = {"valid": False, "reason": reason}
    return request.answer(low, high, error, method="delta method", target=target, **flags)


def smooth_distance(request: IntervalRequest) -> ErrorInterval:
    r"""Interval of `integrated_calibration_index`: by that of the squared distance, or a jackknife.

    With :math:`x = |C - S|` of a problem of two columns,

    .. math:: E x^2 / \max x \le E x \le \sqrt{E x^2} .

    The interval of :math:`E x^2` is that of the Brier error; the maximum is that of the averaged
    maps. The index itself shrinks to zero near calibration, so neither its spread nor a jackknife
    shows how large the distance may be. Where events are few the lower limit of E x is exact.

    Limits of a quantile of x are the quantiles of simultaneous limits of the curve, as far as it is
    constant in cells.
    """
    options, target = request.options, "the mean distance of S from C, as far as {}"
    quantile, level = options["quantile"], request.confidence_level
    if quantile is not None:
        target = f"the quantile {quantile:g} of the distances of S from C, as far as {{}}"
    if options["smoother"] is not None:
        limit = "the distance of S from the large-sample limit of the smoother's curve"
        return replace(jackknife(request, at_zero=True, target=limit), **NOISY)
    problem, notion = request.problem_of(resolve_notion(options["notion"]))
    solved = solve_notion(problem, notion=notion, smoother=None, n_jobs=request.n_jobs)
    (brier,) = estimates_of_solved(solved, losses=["brier"], notion=notion, confidence_level=level)
    squared, shown = brier.interval, target.format(brier.target.rpartition("as far as ")[2])
    binary, certain = solved[0].forecast.shape[1] == 2, not brier.terms.loss.any()
    if certain and notion.reduce == "mean" and not (binary and brier.few):
        return request.nothing_varies(target=shown, ceiling=1.0)
    if not binary or squared is None or (brier.norm is None and not certain):
        limit = target.format("the averaged maps show it")
        return replace(jackknife(request, at_zero=True, target=limit), **NOISY)
    estimate = index_of_solved(solved, notion, quantile)
    n_problems = 1 if notion.reduce == "mean" else len(solved)
    if quantile is not None:
        # Too few samples in a cell: a bound of a square is one of its quantiles.
        bound = np.sqrt(n_problems * squared.high / max(1 - quantile, 1e-12)) if brier.few else None
        return _quantile_of_distance(request, solved[0], notion, estimate, n_problems, bound)
    most = max(np.abs(part.conditional - part.forecast).max() for part in solved)
    most, single = 1.0 if brier.few else float(most), len(solved) == 1
    low, high = squared.low, n_problems * squared.high
    low = np.sqrt(low) if brier.few and single else low / (most or 1.0)
    low, high = float(low), float(min(np.sqrt(high), n_problems))
    flags: dict[str, Any] = {"method": INVERSION, "conservative": True, "reason": MOMENTS}
    flags |= {"estimate": estimate, "target": shown}
    flags |= FEW if brier.few else {}
    flags |= {"valid": False, "reason": brier.lower_bound} if brier.lower_bound else {}
    return request.answer(min(low, high), high, _error_of(low, high, level), **flags)


def _quantile_of_distance(request, problem, notion, estimate, n_problems, bound):
    """Limits of a quantile of |C - S|, from limits of all gaps at once, or a bound of it.

    They are those of Sidak, so that no cell is chosen, of the (lower) quantile of the |gaps| of the
    samples, as the sum over problems.
    """
    quantile, level = request.options["quantile"], request.normal_level
    size = effective_size(problem.weight, problem.square)
    cells = max(round(size ** (1 / 3)), np.ceil(1 / max(1 - quantile, 1e-3)) + 1)
    cells = int(np.clip(cells, _FEWEST_CELLS, _MOST_CELLS))
    gaps = Gaps.of_scores(
        {**request.options, "notion": notion, "n_bins": cells, "strategy": "quantile"}
    )
    size, spread, degrees = gaps.sizes()
    tail = (1 - level ** (1 / gaps.n_cells)) / 2
    reach, mass, low, high = student.isf(tail, degrees) * spread, gaps.mass(), 0.0, 0.0
    lowest, highest = np.maximum(size - reach, 0.0), np.minimum(size + reach, 1.0)
    for j in range(len(gaps.cell)):
        inside = gaps.column == j
        share = gaps.share[inside][0]
        low += share * weighted_quantile(lowest[inside], mass[inside], quantile)
        high += share * weighted_quantile(highest[inside], mass[inside], quantile)
    if bound is not None:
        low, high = 0.0, bound
    low, high = min(low, estimate), max(min(high, n_problems), estimate)
    partial_cell = quantile > 1 - 1 / cells
    return request.answer(
        low,
        high,
        _error_of(low, high, request.confidence_level),
        method="simultaneous limits",
        target=QUANTILE_OF_CELLS.format(quantile, cells),
        estimate=estimate,
        valid=not partial_cell,
        conservative=True,
        reason=PART_OF_CELL if partial_cell else SIMULTANEOUS,
    )
