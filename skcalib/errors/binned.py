"""Binned calibration errors: ECE, RMSCE, MCE and their variants, and bins of the whole simplex.

`calibration_error` and `reliability_bins` are of one score. The sums over bins follow (`BinSums`),
then the expectation of a binned error over data sets, by the folded normal distribution (G22), and
`simplex_calibration_error` (W19).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import erf
from sklearn.base import clone

from skcalib._util.arithmetic import bin_ends, split_centre
from skcalib._util.formatting import Record
from skcalib._util.messages import is_finite, refusal
from skcalib._util.parameters import check_choice, checks_parameters
from skcalib._util.types import ArrayLike, Bins, Label, Strategy
from skcalib._util.validation import look_up
from skcalib.data.notions import NotionLike, resolve_notion, resolve_reduced
from skcalib.data.problem import Samples, SketchedSamples, check_problem, read_samples
from skcalib.scores import Brier, Divergence, Lp, TotalVariation, expected_divergence
from skcalib.smoothers import MedianCells, UniformBins
from skcalib.smoothers.partition import PartitionSmoother, quantile_cuts
from skcalib.stats.bins import parse_bins

if TYPE_CHECKING:
    from skcalib.data.problem import LabelsLike, Problem

NORMS = {"l1": 1.0, "l2": 2.0, "max": np.inf}  # the power of a gap


@dataclass(frozen=True)
class BinRows(Record):
    """The bin of each sample, and its share of the error.

    `to_frame` has a row for each sample, in the order of the labels, and a column for each field.

    Attributes
    ----------
    bin : ndarray of shape (n_samples,)
        Number of the bin of the sample, as in ``index`` of :class:`ReliabilityBins`.
    score : ndarray of shape (n_samples,)
        The forecast.
    label : ndarray of shape (n_samples,)
        1 where the event occurred, else 0.
    gap : ndarray of shape (n_samples,)
        The gap of the bin, 0 for a bin whose samples have no weight. Positive where forecasts are
        too low.
    share : ndarray of shape (n_samples,)
        Share of the sample in the error of the norm "l1": its weight times the size of the gap,
        over the sum of these. Between 0 and 1, with the sum 1, or all 0 if the error is 0.

    See Also
    --------
    skcalib.reliability_bins : Makes this record with ``rows=True``.
    """

    bin: np.ndarray
    score: np.ndarray
    label: np.ndarray
    gap: np.ndarray
    share: np.ndarray

    _rows = ("bin", "score", "label", "gap", "share")


@dataclass(frozen=True)
class ReliabilityBins(Record):
    """Points of a reliability diagram, one entry per occupied bin.

    `to_frame` has a row for each bin: its number ``bin``, its edges ``left`` and ``right``, and the
    fields.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of all bins, empty ones included: bin i lies between edges[i] and edges[i + 1]. A
        score on an inner edge belongs to the bin nearer to 1/2. If 1/2 is an edge and some score is
        1/2, it is there twice, and those scores have the bin between the two.
    index : ndarray of shape (m,)
        Numbers of the occupied bins.
    mass : ndarray of shape (m,)
        Sum of the weights; without weights the number of samples.
    mean_score, mean_label : ndarray of shape (m,)
        Mean forecast and frequency of the event.
    gap_variance : ndarray of shape (m,)
        Estimated variance of ``gap``; infinite for a single sample.
    rows : BinRows or None
        The bin of each sample, with ``rows=True``.
    gap : ndarray of shape (m,)
        ``mean_label - mean_score``: positive where forecasts are too low.

    See Also
    --------
    skcalib.reliability_bins : Makes this record.
    skcalib.ReliabilityDisplay : Draws the points.
    """

    edges: np.ndarray
    index: np.ndarray
    mass: np.ndarray
    mean_score: np.ndarray
    mean_label: np.ndarray
    gap_variance: np.ndarray
    rows: BinRows | None = None

    @property
    def gap(self) -> np.ndarray:
        """Signed miscalibration of each bin."""
        return self.mean_label - self.mean_score

    def _columns(self):
        ends = {"left": self.edges[self.index], "right": self.edges[self.index + 1]}
        names = ("mass", "mean_score", "mean_label", "gap", "gap_variance")
        return {"bin": self.index, **ends, **{name: getattr(self, name) for name in names}}


@checks_parameters
def calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    norm: Literal["l1", "l2", "max"] | float = "l1",
    squared: bool = False,
    notion: NotionLike = "auto",
    n_bins: Bins = "auto",
    strategy: Strategy = "quantile",
    debiased: bool = False,
    reduce: Literal["mean", "sum"] = "mean",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Binned calibration error: the ECE and its relatives.

    With bins :math:`I_b` of the score s (the confidence, or the probability of a class), their
    share :math:`p_b` of the samples, mean score :math:`\bar s_b` and frequency of the event
    :math:`\bar y_b`,

    .. math::

        \Big( \sum_b p_b |\bar y_b - \bar s_b|^p \Big)^{1/p}

    with p = 1 ("l1"), 2 ("l2"), any other :math:`p \ge 1`, or the largest gap ("max"). It
    estimates the distance of :math:`E[Y|S_B]` from :math:`S_B = E[S|B]`, the forecast averaged in
    its bin. This distance is at most the true calibration error (TCE). The estimate is **biased
    upward**, most for calibrated forecasts and many bins. :func:`~skcalib.theory.ece_bias_bound`
    bounds the bias, ``debiased=True`` removes it for squared errors, and
    :func:`~skcalib.proper_calibration_error` needs no bins.

    Parameters
    ----------
    norm : {"l1", "l2", "max"} or float, default="l1"
        How gaps are averaged; a number is the power p, at least 1, and infinity is "max".
    squared : bool, default=False
        Omit the root of "l2". Not allowed for the other norms.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        "auto": the probability of the positive class for two classes, the top label for more. The
        positive class is the last one, as in F24 and in the pending binary function of
        scikit-learn. "top_label": the confidence against whether the prediction is right.
        "classwise": each class against the rest; the power p is averaged over classes before the
        root is taken, and "max" is the largest gap of all. "cumulative": the same for the events
        that an ordered class is at most k (:class:`~skcalib.data.notions.Cumulative`). "canonical":
        the probability of the positive class, for two classes only.
    n_bins : int, "auto", "cube_root" or array-like of edges, default="auto"
        "auto" is :func:`~skcalib.optimal_n_bins` of bins of equal mass, which minimises the bound
        of the bias of F24, for both strategies. "cube_root" is :math:`n^{1/3}`, rounded: the rate
        of F24 without a constant. An array gives the edges, which increase from 0 to 1; `strategy`
        is then not used. The number of bins of equal mass is at most the number of samples. More
        than 10^6 bins of equal width raise an error.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass, cut midway between order statistics so that ties stay together, or of
        equal width.
    debiased : bool, default=False
        Subtract from each squared gap the estimated variance of the mean *residual* in the bin,
        :math:`\widehat{var}_b(Y - S) / n_b`. K19 subtract the variance of the label instead, which
        is exact only if the forecast is constant in the bin. Only for "l2": for the other norms no
        unbiased correction is known. The variance of a single sample is unknown, so the gap and the
        correction of its bin are set to zero. The squared error may be negative, which keeps it
        unbiased. The root of a negative estimate is 0, so average squares, not roots.
    reduce : {"mean", "sum"}, default="mean"
        Reduction over classes, or thresholds, for ``notion="classwise"`` and "cumulative"; a notion
        object has its own.
    sample_weight : array-like of shape (n_samples,), optional
        Weights for averages. Their scale does not matter, and they affect neither the edges of
        equal mass nor "auto". With given or uniform edges, whole numbers have the effect of
        repeated samples, except in the debiasing.

    Returns
    -------
    float
        The error, in units of probability, or squared. Between 0 and 1, except for ``reduce="sum"``
        and a debiased square, which may be negative.

    Raises
    ------
    ValueError
        For invalid input, for `debiased` or `squared` without "l2", `reduce` without "classwise"
        and "canonical" with more than two classes, and if no bin has the two samples needed for
        debiasing.

    See Also
    --------
    reliability_bins : The bins themselves.
    skcalib.errors.simplex_calibration_error : An error with bins of the whole simplex.

    Notes
    -----
    Names in the literature and the arguments for them:

    =======  ===================================================================================
    ECE      ``strategy="uniform", n_bins=15``; of equal mass with ``strategy="quantile"``
    MCE      ``norm="max", strategy="uniform", n_bins=15``
    ACE      ``notion="classwise", strategy="quantile", n_bins=15``
    RMSCE    ``norm="l2", strategy="quantile"``
    TCE_p    ``norm=p``, of the top label (G22, binned)
    CWCE_p   ``norm=p, notion="classwise"``; as in G22 with ``reduce="sum"``
    F24      two classes: the probability of the positive class
    =======  ===================================================================================

    For two classes "top_label" and "auto" differ: the first uses max(p, 1 - p). Empty bins
    contribute nothing. For the same bins, :math:`ECE \le RMSCE \le MCE`. Uniform bins and given
    edges cost O(n K) and store no scores. Quantile bins need a partition of the scores.

    The bins do not depend on the name of the event: 1 - y with 1 - p gives the same error as y with
    p. So a score on an inner edge belongs to the bin nearer to 1/2: the edges i/B make bins that
    are left-closed below 1/2 and right-closed above, as ((i-1)/B, i/B] in F24. Scores of exactly
    1/2, where it is an edge, have a separate bin. A cut between bins of equal mass is made
    where the number of samples below is nearest to n b / B. Ties that could go to both sides go to
    the side nearer to 1/2. F24 cut at the order statistic of rank floor(n b / B), from below; the
    bins are the same if B divides n and there are no ties. Other bins are given by their edges.

    Examples
    --------
    >>> from skcalib import calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> round(calibration_error(data.y, data.y_proba, strategy="uniform", n_bins=15), 3)
    0.115
    >>> round(calibration_error(data.y, data.y_proba, norm="l2", debiased=True), 3)
    0.114
    """
    check_options(norm, squared, debiased)
    rule = resolve_reduced(notion, reduce)
    samples = read_samples(y_true, y_proba, rule, sample_weight, labels, pos_label)
    tallies = _list_bins(samples, n_bins, strategy, spread=debiased)
    p, unit = resolve_norm(norm), 1.0
    if p > 2:  # large powers of small gaps would underflow
        unit = max(float(sums.gaps().max()) for sums in tallies)
    if p == np.inf or unit == 0:
        return unit
    powers = [_mean_power(sums, (sums.gaps() / unit) ** p, debiased) for sums in tallies]
    power = sum(powers) / (len(powers) if samples.notion.reduce == "mean" else 1)
    return power if p == 1 or squared else unit * float(max(power, 0.0) ** (1 / p))


def _mean_power(sums, power, debiased):
    """Mean of a power of the gaps of the occupied bins of one problem."""
    occupied = sums.mass > 0
    mass = sums.mass[occupied]
    if debiased:
        variance = sums.mean_variance()[occupied]
        several = np.isfinite(variance)
        if not several.any():
            raise ValueError(
                "debiased=True needs bins of at least two samples, or with groups of two clusters: "
                "use fewer bins."
            )
        power = np.where(several, power - np.where(several, variance, 0.0), 0.0)
    return float(mass @ power / mass.sum())


@checks_parameters
def reliability_bins(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    notion: NotionLike = "auto",
    n_bins: Bins = "auto",
    strategy: Strategy = "quantile",
    rows: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> list[ReliabilityBins]:
    """Mean score, frequency and mass of each bin, for each problem of a notion.

    Parameters
    ----------
    y_true, y_proba, notion, n_bins, strategy, sample_weight, labels, pos_label
        As in :func:`~skcalib.calibration_error`.
    rows : bool, default=False
        Whether the field ``rows`` of the records has the bin of each sample, its gap and its share
        of the error: which samples make it.

    Returns
    -------
    list of ReliabilityBins
        One record for a notion with a single score, one per class for "classwise" and one per
        threshold for "cumulative".

    Raises
    ------
    ValueError
        As :func:`~skcalib.calibration_error`; for ``rows=True`` and a sketch, which has no samples.

    See Also
    --------
    calibration_error : The mean gap.

    Examples
    --------
    >>> from skcalib import reliability_bins
    >>> bins, = reliability_bins([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], n_bins=2, notion="canonical")
    >>> bins.edges.tolist(), bins.mean_score.round(2).tolist(), bins.mean_label.tolist()
    ([0.0, 0.5, 1.0], [0.3, 0.75], [0.5, 1.0])

    The samples of the bin with the largest share of the error:

    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 2, random_state=0)
    >>> (bins,) = reliability_bins(data.y, data.y_proba, n_bins=5, rows=True)
    >>> largest = (bins.mass * abs(bins.gap)).argmax()
    >>> worst = bins.rows.bin == bins.index[largest]
    >>> print(f"{worst.sum()} samples, {bins.rows.share[worst].sum():.0%} of the error")
    200 samples, 35% of the error
    >>> print(f"forecast {data.y_proba[worst, 1].mean():.2f}, observed {data.y[worst].mean():.2f}")
    forecast 0.20, observed 0.29
    """
    samples = read_samples(
        y_true, y_proba, resolve_notion(notion), sample_weight, labels, pos_label
    )
    records = [
        record_of_bins(sums, samples.scale) for sums in _list_bins(samples, n_bins, strategy)
    ]
    if not rows:
        return records
    if isinstance(samples, SketchedSamples):
        raise ValueError(
            "rows=True needs the samples, which a sketch does not have: pass labels and forecasts."
        )
    # Samples without weight have a bin, and no share.
    scores, events, _ = replace(samples, weight=None).columns()
    weight = np.ones(len(samples.raw)) if samples.weight is None else samples.weight
    with_rows = []
    for record, score, event in zip(records, scores, events, strict=True):
        cell = bin_numbers(score, record.edges) - 1
        gaps = np.zeros(len(record.edges) - 1)
        gaps[record.index] = record.gap
        share = weight * np.abs(gaps[cell])
        share /= max(share.sum(), np.finfo(np.float64).tiny)
        of_samples = BinRows(cell, score, event.astype(np.float64), gaps[cell], share)
        with_rows.append(replace(record, rows=of_samples))
    return with_rows


def record_of_bins(sums: BinSums, scale: float) -> ReliabilityBins:
    """The occupied bins of `BinSums`, whose weights were divided by `scale`."""
    index = np.flatnonzero(sums.mass > 0)
    mass = sums.mass[index]
    return ReliabilityBins(
        edges=sums.edges,
        index=index,
        mass=scale * mass,
        mean_score=sums.score[index] / mass,
        mean_label=sums.label[index] / mass,
        gap_variance=sums.mean_variance()[index],
    )


def _list_bins(samples, n_bins, strategy, *, spread=True):
    """`BinSums` of each problem of `Samples`, of weights divided by their scale."""
    edges = check_bins(n_bins, strategy, samples.n_independent)
    clustered = spread and samples.clustered is not None
    if isinstance(samples, Samples) and not isinstance(edges, int) and not clustered:
        # Known edges: one pass, without storing scores.
        blocks = samples.blocks(4 * len(edges) * len(samples.classes))
        sums = _sum_blocks(blocks, edges, spread=spread)
        return [BinSums(edges, *columns).without_empty_centre() for columns in sums]
    tallies = []
    for rows in samples.scored():
        size = round(rows.n_samples * samples.n_independent / samples.n_samples)
        cuts = check_bins(n_bins, strategy, size)
        cuts = quantile_edges(rows.score, cuts, rows.count) if isinstance(cuts, int) else cuts
        sums = BinSums.of(rows.score, rows.event, rows.weight, cuts, spread=spread)
        if clustered:
            sums = _with_clusters(sums, rows, samples.clustered.cluster)
        elif spread and rows.square is not None:
            cell = bin_numbers(rows.score, cuts) - 1
            sums = replace(sums, square_mass=np.bincount(cell, rows.square, len(cuts) - 1))
        tallies.append(sums.without_empty_centre())
    return tallies


def _with_clusters(sums, rows, cluster):
    """Sums whose squares are those of the sums over each cluster (n,) in each bin."""
    n_bins, cell = len(sums.mass), bin_numbers(rows.score, sums.edges) - 1
    weight = np.ones(len(cell)) if rows.weight is None else rows.weight
    gap = (sums.label - sums.score) / np.where(sums.mass > 0, sums.mass, 1.0)
    centred = rows.event - rows.score - gap[cell]
    pairs, part = np.unique(cluster * n_bins + cell, return_inverse=True)
    mass, deviation = np.bincount(part, weight), np.bincount(part, weight * centred)
    square_mass, square_gap = (
        np.bincount(pairs % n_bins, sums_of_pairs**2, n_bins) for sums_of_pairs in (mass, deviation)
    )
    return replace(sums, square_mass=square_mass, cluster_gap=square_gap)


def resolve_norm(norm: Literal["l1", "l2", "max"] | float) -> float:
    """The power p of a norm, infinite for "max"."""
    if isinstance(norm, str) and norm in NORMS:
        return NORMS[norm]
    if isinstance(norm, Real) and norm >= 1 and (is_finite(norm) or norm == np.inf):
        return float(norm)
    raise refusal("norm", "'l1', 'l2', 'max' or a number p of at least 1", norm, NORMS)


def check_options(norm: Literal["l1", "l2", "max"] | float, squared: bool, debiased: bool) -> None:
    """Raise for invalid combinations of norm, root and debiasing."""
    p = resolve_norm(norm)
    if squared and p != 2:
        raise ValueError(f"squared=True omits the root of norm='l2', got norm={norm!r}.")
    if debiased and p != 2:
        raise ValueError(
            f"debiased=True needs norm='l2': for {norm!r} no unbiased correction is known. Use "
            "norm='l2', or proper_calibration_error."
        )


# --- Edges and sums of bins -----------------------------------------------------------------------


STRATEGIES = ("quantile", "uniform")
_CHUNK = 1 << 16  # scores per block, which fits into the cache


@dataclass(frozen=True)
class BinSums:
    """Sums over the samples of each bin.

    ``edges`` are the B + 1 edges, from 0 to 1; ``mass`` sums the weights, ``score`` and ``label``
    the weighted scores and labels, ``square_mass`` the squared weights, and ``square_gap`` the
    weighted squares of label - score. The last two are None unless variances are requested. For
    samples in clusters ``square_mass`` has the squared sums of the weights of each cluster, and
    ``cluster_gap`` those of the weighted deviations of label - score from its mean in the bin.
    """

    edges: np.ndarray
    mass: np.ndarray
    score: np.ndarray
    label: np.ndarray
    square_mass: np.ndarray | None = None
    square_gap: np.ndarray | None = None
    cluster_gap: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        score: np.ndarray,
        event: np.ndarray,
        weight: np.ndarray | None,
        edges: np.ndarray,
        *,
        spread: bool = True,
    ) -> BinSums:
        """Sums over bins, 0 in the first and 1 in the last; with `spread` of squares."""
        event, step = np.asarray(event, dtype=bool), max(_CHUNK, 4 * len(edges))
        slices = (slice(start, start + step) for start in range(0, len(score), step))
        blocks = (
            (score[rows, None], event[rows, None], None if weight is None else weight[rows])
            for rows in slices
        )
        return cls(edges, *_sum_blocks(blocks, edges, spread=spread)[0])

    def gaps(self) -> np.ndarray:
        """Absolute gaps of the occupied bins."""
        occupied = self.mass > 0
        return np.abs(self.label - self.score)[occupied] / self.mass[occupied]

    def without_empty_centre(self) -> BinSums:
        """Without the bin of scores of exactly 1/2, where there are none."""
        empty = np.flatnonzero((np.diff(self.edges) == 0) & (self.mass == 0))
        known = {name: column for name, column in vars(self).items() if column is not None}
        return replace(self, **{name: np.delete(column, empty) for name, column in known.items()})

    def mean_variance(self) -> np.ndarray:
        """Variance of the mean of label - score in each bin; infinite for one sample or cluster.

        spread * q / (1 - q), with the weighted variance of the residual and q = sum w^2 / W^2: for
        equal weights the unbiased variance divided by the number of samples.
        """
        mass = np.where(self.mass > 0, self.mass, 1.0)
        mean = (self.label - self.score) / mass
        inverse_size = np.where(self.mass > 0, self.square_mass / mass**2, 1.0)
        several = inverse_size < 1 - 1e-9
        complement = np.where(several, 1 - inverse_size, 1.0)
        if self.cluster_gap is not None:
            return np.where(several, self.cluster_gap / mass**2 / complement, np.inf)
        spread = np.maximum(self.square_gap / mass - mean**2, 0.0)
        return np.where(several, spread * inverse_size / complement, np.inf)


def uniform_edges(n_bins: int) -> np.ndarray:
    """The edges i / B."""
    return np.arange(n_bins + 1) / n_bins


def quantile_edges(score: np.ndarray, n_bins: int, count: np.ndarray | None = None) -> np.ndarray:
    """0, the `quantile_cuts`, 1."""
    inner = quantile_cuts(score, n_bins, count)
    # Probabilities above 1 by rounding belong to the last bin.
    return np.concatenate([[0.0], inner[inner < 1], [1.0]])


def check_bins(n_bins: Any, strategy: Strategy, n_samples: int) -> int | np.ndarray:
    """`n_bins` and `strategy` of a public function -> edges, or the number of quantile bins.

    If 1/2 is one of the edges, it is there twice: scores of 1/2 have a separate bin.
    """
    check_choice(strategy, "strategy", choices=STRATEGIES)
    bins = parse_bins(n_bins, n_samples, strategy)
    edges = uniform_edges(bins) if isinstance(bins, int) and strategy == "uniform" else bins
    return edges if isinstance(edges, int) else split_centre(edges)


def _sum_blocks(blocks, edges, *, spread=True):
    """Blocks of scores (m, P), events (m, P) and weights (m,) or None -> sums (P, 3 or 5, B)."""
    n_bins = len(edges) - 1
    uniform = split_centre(uniform_edges(n_bins - _has_centre(edges)))
    place = _uniform_bins if np.array_equal(edges, uniform) else bin_numbers
    total: Any = 0.0
    for score, event, weight in blocks:
        total = total + _tallies(place(score, edges), score, event, weight, n_bins + 2, spread)
    total[..., -2] += total[..., -1]  # probabilities above 1 by rounding
    return total[..., 1:-1].transpose(1, 0, 2)


def _tallies(bins, score, event, weight, n_slots, spread):
    """Sums of one block, (3 or 5, P, n_slots), by problem, label and bin."""
    n_problems = score.shape[1]
    bins += n_slots * event
    if n_problems > 1:
        bins += 2 * n_slots * np.arange(n_problems)
    cell, score, shape = bins.ravel(), score.ravel(), (n_problems, 2, n_slots)
    w = None if weight is None else np.broadcast_to(weight[:, None], bins.shape).ravel()

    def tally(values):
        return np.bincount(cell, values, 2 * n_slots * n_problems).reshape(shape)

    def times(values):
        return values if w is None else w * values

    mass = tally(w)
    rows = [mass.sum(axis=1), tally(times(score)).sum(axis=1), mass[:, 1]]
    if spread:
        square = times((event.ravel() - score) ** 2)
        rows += [rows[0] if w is None else tally(w * w).sum(axis=1), tally(square).sum(axis=1)]
    return np.array(rows, dtype=np.float64)


def bin_numbers(score: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Number of the bin of each score, from 1 on."""
    return np.searchsorted(bin_ends(edges[1:-1]), score, side="left") + 1


def _has_centre(edges):
    """Whether 1/2 is an edge twice, so that it has a separate bin."""
    return bool((edges[1:] == edges[:-1]).any())


def _uniform_bins(score, edges):
    """The same by a product, where rounding cannot move it past an edge.

    The product s B and the edge i / B times B differ from their exact values by at most 1.5 B 2^-53
    together, and ties reach 1e-15 beyond an edge. So the product gives the bin if it is further
    than B 2^-49 from a whole number. Where 1/2 is an edge, its bin is between the halves. Above 1
    it is one more than the number of bins.
    """
    centre = _has_centre(edges)
    n_bins = len(edges) - 1 - centre
    product = score * n_bins
    distance = np.rint(product)
    distance -= product
    near = np.abs(distance, out=distance) <= n_bins * 2.0**-49
    bins = np.ceil(product, out=product).astype(np.intp)
    if centre:
        bins += score > 0.5
    if near.any():
        bins[near] = bin_numbers(score[near], edges)
    return bins


# --- Expected binned error ------------------------------------------------------------------------


def folded_normal_mean(mean: ArrayLike, variance: ArrayLike) -> np.ndarray:
    r"""Mean of :math:`|X|` for normal X; :math:`|mean|` where the variance is 0.

    :math:`\sigma \sqrt{2 / \pi}\, e^{-\mu^2 / 2 \sigma^2} + \mu\, erf(\mu / \sqrt 2 \sigma)`, for
    shapes that broadcast. At least :math:`|mean|`.
    """
    mean, variance = np.broadcast_arrays(np.abs(mean), np.asarray(variance, dtype=np.float64))
    spread = np.sqrt(variance)
    ratio = np.divide(mean, spread, out=np.full(mean.shape, np.inf), where=spread > 0)
    return spread * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * erf(ratio / np.sqrt(2))


def expected_binned_error(
    share: np.ndarray, gap: np.ndarray, variance: np.ndarray, n_samples: int | np.ndarray
) -> float | np.ndarray:
    r"""Mean of the l1 binned error over data sets of `n_samples`, bins fixed (G22).

    :math:`E\, ECE_n \approx \sum_b p_b\, E|N(g_b, v_b / (n p_b))|`: in every bin the mean residual
    is nearly normal around the true gap :math:`g_b` of label - score, with the probability
    :math:`p_b` and the variance :math:`v_b` of label - score. G22 use the variance of the score
    plus that of the label, which ignores their covariance; the two agree for narrow bins. Falls
    with n to :math:`\sum_b p_b |g_b|`, the binned error itself. Bins of few samples (n p_b below
    about 5) are not normal.
    """
    share, variance = np.asarray(share, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    size = np.asarray(n_samples, dtype=np.float64)[..., None] * share
    expected = folded_normal_mean(gap, variance / size) @ share
    return float(expected) if expected.ndim == 0 else expected


def expected_errors_of_subsamples(
    score: np.ndarray, event: np.ndarray, weight: np.ndarray, bins: int | np.ndarray, size: int
) -> np.ndarray:
    """Mean error at a size: of subsamples, and of calibrated forecasts with the same scores."""
    edges = quantile_edges(score, bins) if isinstance(bins, int) else bins
    cell = bin_numbers(score, edges) - 1
    mass = np.bincount(cell, weight)
    full = mass > 0
    mass = mass[full]

    def mean(values):
        return np.bincount(cell, weight * values)[full] / mass

    share = mass / mass.sum()
    # Unequal weights increase the variance of the mean of a bin; the factor is 1 for equal weights.
    spread = mean(weight) / mass * share * len(score)
    residual = event - score
    gap = mean(residual)
    # Finite population correction: a subsample without replacement varies less.
    label_variance = np.maximum(mean(score - score**2), 0.0)  # rounded scores may exceed 1
    variance = (1 - size / len(score)) * spread * np.maximum(mean(residual**2) - gap**2, 0.0)
    return np.array(
        [
            expected_binned_error(share, gap, variance, size),
            expected_binned_error(share, np.zeros(len(gap)), spread * label_variance, size),
        ]
    )


# --- Bins of the whole simplex --------------------------------------------------------------------


class Euclidean(Divergence):
    """Root of `Lp` with p = 2; for two classes the difference of the probabilities."""

    def divergence(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return np.sqrt(Lp(2).divergence(target, forecast))


DISTANCES = {
    "total_variation": TotalVariation,
    "squared_euclidean": Brier,
    "cityblock": lambda: Lp(1),
    "euclidean": Euclidean,
}
BINS = {"median": lambda: MedianCells(15), "uniform": lambda: UniformBins(10)}


@checks_parameters
def simplex_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    distance: Any = "total_variation",
    bins: Literal["median", "uniform"] | PartitionSmoother = "median",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Expected calibration error of all classes at once, over bins of the simplex (W19, eq. 5).

    :math:`\sum_b p_b\, d(\bar y_b, \bar s_b)`: the mean distance between the class frequencies and
    the mean forecast of each bin, where bins are cells of the simplex. It depends on every class,
    not only the predicted one. Most cells become empty as the number of classes grows: with many
    cells it is far above zero for calibrated forecasts too.
    :func:`~skcalib.kernel_calibration_error` has neither bins nor that bias.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    distance : str or object with a method ``divergence``, default="total_variation"
        "total_variation" is half of the sum of absolute differences, "squared_euclidean" the
        divergence of `Brier`, "cityblock" the sum of absolute differences, and "euclidean" the root
        of the sum of squares. All but the first halve their sums for two classes, as `Brier` does.
        Or `TotalVariation`, `Lp`, a proper score, or anything with ``divergence(target,
        forecast)``.
    bins : {"median", "uniform"} or partition smoother, default="median"
        "median" is ``MedianCells(15)``: the data-dependent bins of W19, which cut the cell of the
        largest variance at the median of its most variable coordinate, at most 15 of them with at
        least 10 samples each. The published errors of networks on CIFAR-10 are those of
        ``MedianCells(min_samples=100)``. "uniform" cuts every coordinate into ten. For other
        numbers of cells pass `UniformBins`, `QuantileBins` or `LevelSets`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights. They do not affect the cells; if the cells do not depend on the data, as for
        "uniform", whole numbers mean repetition.

    Returns
    -------
    float
        In units of the distance, not negative. Cost: O(n K) for each level of cuts of "median".
        Probabilities of type float64 are not copied.

    See Also
    --------
    calibration_error : Bins of one score.

    Examples
    --------
    >>> from skcalib.errors import simplex_calibration_error
    >>> from skcalib.datasets import make_widmann
    >>> for model in ("M1", "M2"):
    ...     data = make_widmann(2000, model=model, random_state=0)
    ...     print(round(simplex_calibration_error(data.y, data.y_proba), 2))
    0.06
    0.45
    """
    cells = look_up(bins, BINS, "bins", kind=PartitionSmoother)
    # Cells of the library do not depend on the labels, so the target need not exist.
    without_labels = type(cells) in (MedianCells, UniformBins)
    problem = check_problem(
        y_true,
        y_proba,
        copy=not without_labels,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    cells = cells_for(problem, bins)
    if isinstance(distance, type) or not hasattr(distance, "divergence"):
        distance = look_up(distance, DISTANCES, "distance", kind=Divergence)
    measure: Any = distance
    if without_labels:
        cells.fit(problem.forecast, problem.weight[:, None], problem.weight)
        target = cells.label_means(problem.outcome, problem.forecast.shape[1])
    else:
        target = cells.fit(problem.forecast, problem.target, problem.weight).cell_means()
    forecast = cells.cell_means(problem.forecast)
    return expected_divergence(measure, target, forecast, cells.mass_)


def cells_for(problem: Problem, bins: Any) -> PartitionSmoother:
    """The smoother of a public function; cells by default have enough independent samples."""
    cells = clone(look_up(bins, BINS, "bins", kind=PartitionSmoother))
    if isinstance(bins, str) and isinstance(cells, MedianCells) and problem.cluster is not None:
        size = cells.min_samples * problem.n_samples / problem.n_independent
        cells.set_params(min_samples=int(np.ceil(size)))
    return cells
