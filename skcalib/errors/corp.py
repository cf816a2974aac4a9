"""CORP (D21): decomposition of a score by isotonic regression, bands of the curve, and a test.

`corp_decomposition` gives score = miscalibration - discrimination + uncertainty. `corp_bands` and
`corp_test` follow, then `IsotonicCurve`, the consistency band, which covers the curves of
calibrated forecasts, and the confidence band, which covers the true curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import rel_entr
from scipy.stats import chi2
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.formatting import Record
from skcalib._util.messages import is_whole, shown
from skcalib._util.parallel import draw_each, run_each
from skcalib._util.parameters import check_choice, checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count
from skcalib.data.clusters import independent_size, intraclass_correlation, student_level
from skcalib.data.labels import draw_codes
from skcalib.data.notions import Canonical, Multilabel, NotionLike, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    LabelsLike,
    Problem,
    binary_events,
    check_problem,
    named_events,
    reduced,
)
from skcalib.scores import LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.smoothers.partition import TiedScores
from skcalib.stats.means import refutation
from skcalib.stats.pvalues import MOST_TIMES, CalibrationTest, drawn_pvalue


@dataclass(frozen=True, eq=False)
class CorpCurve(Record):
    """Isotonic calibration curve of a binary event, one entry per distinct forecast.

    Attributes
    ----------
    event : str
        "class c" for the probability of a class, "top label" for the confidence, or empty.
    forecast : ndarray of shape (m,)
        Distinct forecasts in increasing order.
    recalibrated : ndarray of shape (m,)
        Height of the curve, not decreasing: the weighted mean label of the block.
    weight : ndarray of shape (m,)
        Share of the samples at the forecast, by weight; sums to one.
    block : ndarray of int of shape (m,)
        Number of the block of pooled forecasts, from 0; constant where the curve is.

    See Also
    --------
    skcalib.corp_decomposition : Fits these curves.
    skcalib.errors.corp_bands : Bands of the curve.
    skcalib.ReliabilityDisplay : Draws the curve.
    """

    event: str
    forecast: np.ndarray
    recalibrated: np.ndarray
    weight: np.ndarray
    block: np.ndarray

    _rows = ("forecast", "recalibrated", "weight", "block")
    _beside = ("event",)


@dataclass(frozen=True, eq=False)
class CorpDecomposition(Record):
    """Terms of a mean score; see :func:`~skcalib.corp_decomposition`.

    `to_frame` has a row for each ``event`` with its four terms.

    Attributes
    ----------
    score, miscalibration, discrimination, uncertainty : float
        ``score = miscalibration - discrimination + uncertainty``, in the units of the loss.
    scores, miscalibrations, discriminations, uncertainties : ndarray of shape (P,)
        The same terms for each of the P binary events: one event for a notion with a single score,
        one per class for "classwise" and one per threshold for "cumulative". The floats are their
        means, or their sums for a notion that sums over classes.
    curves : tuple of CorpCurve
        Isotonic curve of each event.

    See Also
    --------
    skcalib.corp_decomposition : Makes this record.
    skcalib.errors.CorpCurve : The curve of each event.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    scores: np.ndarray = field(repr=False)
    miscalibrations: np.ndarray = field(repr=False)
    discriminations: np.ndarray = field(repr=False)
    uncertainties: np.ndarray = field(repr=False)
    curves: tuple = field(repr=False)

    _beside = ("score", "miscalibration", "discrimination", "uncertainty")

    def _columns(self):
        return {
            "event": [curve.event for curve in self.curves],
            "score": self.scores,
            "miscalibration": self.miscalibrations,
            "discrimination": self.discriminations,
            "uncertainty": self.uncertainties,
        }


@checks_parameters
def corp_decomposition(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike = "brier",
    notion: NotionLike = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> CorpDecomposition:
    r"""Decompose a mean score by isotonic regression: CORP (D21).

    Let :math:`\hat C_i` be the isotonic regression of the labels on the forecasts :math:`S_i` of a
    binary event, where tied forecasts are pooled first. Let :math:`\bar y` be the mean label. With
    the mean loss :math:`\bar L(f) = \sum_i w_i L(y_i, f_i) / \sum_i w_i`

    .. math::

        \underbrace{\bar L(S)}_{score}
        = \underbrace{\bar L(S) - \bar L(\hat C)}_{miscalibration}
        - \underbrace{(\bar L(\bar y) - \bar L(\hat C))}_{discrimination}
        + \underbrace{\bar L(\bar y)}_{uncertainty} .

    Miscalibration (MCB) is the loss that the best increasing map of the forecasts would remove on
    these labels. It is at least :math:`\bar D(\hat C, S)`, so it is never negative. It is zero if
    the forecasts are their own isotonic regression. Discrimination (DSC) is :math:`\bar D(\hat C,
    \bar y)`. It is never negative, depends only on the order of the forecasts, and is not changed
    by strictly increasing maps. The curve is the same for every proper score, and there are no
    tuning parameters.

    **In sample.** The curve is evaluated on the labels that it was fitted to, so MCB and DSC are
    both too large, by the same optimism. Calibrated forecasts have an MCB above zero. For uniform
    forecasts and Brier it is about :math:`0.55\, n^{-2/3}`. :func:`~skcalib.errors.corp_test`
    compares MCB with calibrated forecasts. :func:`~skcalib.score_decomposition` estimates the same
    terms (calibration, sharpness, uncertainty) from calibrated scores that are fitted without the
    label of the sample. Its calibration term may be negative. With ``smoother="isotonic"`` it is
    held-out CORP and is biased downward. Its default has a small bias.

    **Increasing.** If events are less likely for higher forecasts, the isotonic curve is flat: such
    forecasts have almost no DSC, although they are informative.

    Parameters
    ----------
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        "auto": the probability of the positive class for two classes, as for "canonical", and the
        top label for more: the confidence against whether the prediction is right. "classwise": the
        mean over classes, each against the rest, with the binary convention of the score.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the means and of the isotonic regression; whole numbers mean repetition.

    Returns
    -------
    CorpDecomposition
        Record with the floats ``score, miscalibration, discrimination, uncertainty``, the same
        terms as arrays over the events, and the curves. The units are those of the loss: squared
        probability for Brier, halved as for K = 2, and nats for the log loss. A forecast of 0 for
        the class that occurred makes score and MCB infinite under the log loss, while DSC and
        uncertainty stay finite. The identity holds up to rounding errors, including those of the
        row sums. Cost O(n log n) per event. One sample is enough: its curve is its label.

    Raises
    ------
    ValueError
        For invalid input, and for "canonical" with more than two classes: isotonic regression
        needs forecasts that can be ordered.

    See Also
    --------
    skcalib.errors.corp_bands : Consistency and confidence bands of the curve.
    skcalib.errors.corp_test : Whether the miscalibration is significant.
    skcalib.smoothers.IsotonicSmoother : The same curve as a smoother.

    Examples
    --------
    >>> from skcalib import corp_decomposition
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> terms = corp_decomposition(data.y, data.y_proba)
    >>> round(terms.score, 3), round(terms.uncertainty, 3)
    (0.168, 0.25)
    >>> round(terms.miscalibration, 3), round(terms.discrimination, 3)
    (0.012, 0.094)
    """
    score, notion = resolve_loss(loss), resolve_notion(notion)
    events = named_events(
        y_true, y_proba, notion, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    tasks = ((score, event, problem) for event, problem in events)
    terms, curves = zip(*run_each(_decompose_event, tasks, n_jobs=n_jobs), strict=True)
    terms = np.array(terms).T
    totals = terms.mean(axis=1) if notion.reduce == "mean" else terms.sum(axis=1)
    numbers: list[Any] = [*totals.tolist(), *terms, curves]
    return CorpDecomposition(*numbers)


def _decompose_event(score, event, problem):
    """Terms (score, miscalibration, discrimination, uncertainty) of an event, and its curve."""
    curve = IsotonicCurve.of(problem)
    mean, best = mean_losses(score, problem, curve, problem.target)
    mass = curve.tied.mass
    # This quotient is exactly 1 where all labels are 1.
    chance = float(score.entropy(_two(np.sum(mass * curve.mean) / np.sum(mass))))
    # Both are nonnegative up to rounding; the loss of the curve is always finite.
    terms = (mean, max(mean - best, 0.0), max(chance - best, 0.0), chance)
    return terms, CorpCurve(event, curve.tied.score, curve.level, mass / mass.sum(), curve.block)


def mean_losses(
    score: ProperScore, problem: Problem, curve: IsotonicCurve, target: np.ndarray
) -> tuple[float, float]:
    """Mean loss of the forecasts of a binary problem for labels (n, 2), and of their best curve.

    The loss of the curve is its mean entropy: the curve is the mean label over each block.
    """
    mean = weighted_mean(score.loss(target, problem.forecast), problem.weight)
    level = curve.levels(target[:, 1])
    best = weighted_mean(score.entropy(_two(level)), curve.tied.mass)
    return float(mean), float(best)


def _two(p):
    """Probability of the event -> columns (not, event)."""
    return np.stack([1 - p, p], axis=-1)


# --- Bands and test -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CorpBand(Record):
    """Pointwise band of an isotonic calibration curve.

    Attributes
    ----------
    event : str
        As in `CorpCurve`.
    forecast : ndarray of shape (m,)
        Forecasts in increasing order: all distinct ones if there are at most 400, otherwise every
        knot of the curve and about 400 others.
    recalibrated : ndarray of shape (m,)
        Height of the curve at each forecast.
    low, high : ndarray of shape (m,)
        Ends of the band at each forecast, in [0, 1] and not decreasing.

    See Also
    --------
    skcalib.errors.corp_bands : Makes this record.
    skcalib.ReliabilityDisplay : Draws the band.
    """

    event: str
    forecast: np.ndarray
    recalibrated: np.ndarray
    low: np.ndarray
    high: np.ndarray

    _rows = ("forecast", "recalibrated", "low", "high")
    _beside = ("event",)


@checks_parameters
def corp_bands(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    band: Literal["consistency", "confidence"] = "consistency",
    notion: NotionLike = "auto",
    confidence_level: float = 0.95,
    n_resamples: int = 500,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> list[CorpBand]:
    r"""Pointwise bands for the isotonic calibration curve (CORP, D21).

    ``"consistency"``: where the curve of *calibrated* forecasts would lie, hence around the
    diagonal. Labels are drawn from the forecasts `n_resamples` times, and the isotonic curve is
    fitted again to each draw. The band lies between the order statistics of ranks k and B + 1 - k
    of the B curves, with :math:`k = \lfloor (B + 1)(1 - level)/2 \rfloor`. The forecasts are fixed,
    so the coverage is not asymptotic. If the forecasts are calibrated, each point of the observed
    curve is inside the band with probability (B + 1 - 2k) / (B + 1) or more, at every n, with ties
    and with weights.

    ``"confidence"``: where the true curve :math:`C(s) = P(Y = 1 \mid S = s)` may lie, hence around
    the isotonic curve. It contains the heights through which an increasing curve passes with a
    deviance of at most the quantile of :math:`\chi^2_1`. This is the likelihood-ratio interval,
    with weights scaled to sum to their effective number. Here no labels are drawn. D21 draw labels
    from the curve and take percentiles of the refitted curves. This bootstrap of isotonic
    regression is not consistent, and it failed at the lowest and highest forecasts (:ref:`corp`).

    Both are pointwise: the curve as a whole leaves a 95 % band with a probability above 5 %. For a
    test of the whole curve use :func:`~skcalib.errors.corp_test`.

    Parameters
    ----------
    band : {"consistency", "confidence"}, default="consistency"
        See above.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        As in :func:`~skcalib.corp_decomposition`: which binary events have a curve.
    confidence_level : float, default=0.95
        Level of each point.
    n_resamples : int, default=500
        Draws B of the consistency band, at least 2 / (1 - confidence_level) - 1.
    random_state : int, RandomState instance or None, default=0
        Seed of the draws. The result does not depend on `n_jobs`.
    sample_weight : array-like of shape (n_samples,), default=None
        Fixed weights of the averages: each sample is one label for any weight. So unequal weights
        widen the bands, and a weight of two does not mean two labels.

    Returns
    -------
    list of CorpBand
        One band for "auto", "canonical" and "top_label", one per class for "classwise" and one per
        threshold for "cumulative".

    Raises
    ------
    ValueError
        For invalid input, too few resamples for the level, and "canonical" with more than two
        classes.

    See Also
    --------
    corp_decomposition : The curve at every forecast, and its terms.

    Notes
    -----
    Coverages of the confidence band: :ref:`corp`. Where C is constant or decreases, no band of an
    increasing curve is reliable.

    Cost: B passes over the sorted forecasts; 100 draws for 100,000 samples take less than a second.

    References
    ----------
    .. [1] M. Banerjee and J. A. Wellner. Likelihood ratio tests for monotone functions. Annals of
       Statistics 29, 2001.

    Examples
    --------
    >>> from skcalib.errors import corp_bands
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> (one,) = corp_bands(data.y, data.y_proba, random_state=0)
    >>> outside = (one.recalibrated < one.low) | (one.recalibrated > one.high)
    >>> bool(outside.mean() > 0.3)
    True
    """
    check_choice(band, "band", choices=("consistency", "confidence"))
    if band == "consistency":
        check_resamples(n_resamples, confidence_level)
    notion = resolve_notion(notion)
    events = named_events(
        y_true,
        y_proba,
        notion,
        groups=groups,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    rng, bands = check_random_state(random_state), []
    for event, problem in events:
        curve = IsotonicCurve.of(problem)
        if band == "consistency":
            low, high = consistency_band(curve, problem, confidence_level, n_resamples, rng, n_jobs)
        else:
            low, high = curve.confidence(confidence_level, n_resamples, rng)
        bands.append(CorpBand(event, curve.prob_pred, curve.prob_true, low, high))
    return bands


@checks_parameters
def corp_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    loss: LossLike = "brier",
    notion: NotionLike = "auto",
    n_resamples: int = 500,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Test whether the CORP miscalibration is larger than expected of calibrated forecasts.

    The miscalibration MCB of :func:`~skcalib.corp_decomposition` is never negative, so it is above
    zero on average even for calibrated forecasts. Labels are drawn from the forecasts B times, the
    curve is refitted each time, and

    .. math::

        p = \frac{1 + \#\{b : MCB_b \ge MCB\}}{1 + B} .

    The test is exact: if the forecasts are calibrated, the observed MCB is one more draw, so
    :math:`P(p \le \alpha) \le \alpha` at every n, with ties and weights. For several events
    ("classwise"), labels are drawn from whole rows of `y_proba`, and the null hypothesis is
    canonical calibration. So a sketch may have only one event. With a sketch of weighted samples,
    the effective number of labels is drawn in each cell.

    Parameters
    ----------
    y_true, y_proba, loss, notion, sample_weight, labels, pos_label
        As in :func:`~skcalib.corp_decomposition`; weights stay with their samples.
    n_resamples : int, default=500
        Number of draws B. While no MCB of a draw is as large, B is doubled, up to eight times
        `n_resamples`; the p-value remains valid. The smallest one is 1 / (1 + B).

    Returns
    -------
    CalibrationTest
        ``statistic`` is MCB, and ``estimate`` is MCB minus its mean over the draws. The estimate is
        zero on average for calibrated forecasts, and may be negative. For other forecasts it is
        nearly unbiased, although the labels are drawn from the forecasts (:ref:`corp`).
        A label that occurred at a forecast of exactly 0 refutes the forecasts: the statistic is
        infinite and p = 0. If the log loss is infinite, so is the estimate.

    Raises
    ------
    ValueError
        As :func:`~skcalib.corp_decomposition`.

    See Also
    --------
    skcalib.significance.consistency_test : The same principle for any error.
    calibration_test : For all classes at once.

    Examples
    --------
    >>> from skcalib.errors import corp_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 2, random_state=0)
    >>> corp_test(data.y, data.y_proba, random_state=0).rejects()
    True
    >>> calibrated = make_tempered_simplex(500, 2, score_temperature=1, random_state=0)
    >>> corp_test(calibrated.y, calibrated.y_proba, random_state=0).rejects()
    False
    """
    score, notion = resolve_loss(loss), resolve_notion(notion)
    n_resamples = check_count(n_resamples, "n_resamples")
    rng = check_random_state(random_state)
    columns: dict[str, Any] = {
        "sample_weight": sample_weight,
        "labels": labels,
        "pos_label": pos_label,
    }
    if isinstance(y_true, ForecastSummary):
        events = named_events(y_true, y_proba, notion, **columns)
        return _test_of_summary(events, score, n_resamples, rng)
    if isinstance(notion, Multilabel):
        raise ValueError(
            "corp_test draws one label from each row of y_proba; how several labels of a sample "
            "depend on each other is not known: test one column at a time."
        )
    problem = check_problem(y_true, y_proba, **columns)
    events = [event for _, event in binary_events(problem, pos_label, notion)]
    curves = [IsotonicCurve.of(event) for event in events]
    # For a single event the null hypothesis concerns its own probability only.
    source, draws_of = (problem, notion) if len(events) > 1 else (events[0], Canonical())
    levels, codes = source.forecast.cumsum(axis=1), np.eye(source.forecast.shape[1])

    def miscalibration(target):
        pairs = draws_of.problems(source.forecast, target)
        excesses = [
            np.subtract(*mean_losses(score, event, curve, labels))
            for event, curve, (_, labels) in zip(events, curves, pairs, strict=True)
        ]
        return max(reduced(excesses, notion), 0.0)

    def draw(generator):
        return miscalibration(codes[draw_codes(levels, generator)])

    def draws(size):
        return draw_each(draw, size, rng, n_jobs=n_jobs)

    return _record_test(miscalibration(source.target), draws, n_resamples, source)


def _test_of_summary(events, score, n_resamples, rng):
    """`corp_test` of rows that stand for several samples: binomial draws at each score."""
    if len(events) > 1:
        raise ValueError(
            "corp_test draws labels from whole rows of y_proba, which a sketch of several classes "
            "does not have: make a sketch of one class against the rest, or of the top label."
        )
    ((_, problem),) = events
    curve = IsotonicCurve.of(problem)
    observed = max(float(np.subtract(*mean_losses(score, problem, curve, problem.target))), 0.0)
    one_label = [np.tile(label, (len(problem.weight), 1)) for label in np.eye(2)]
    losses = np.column_stack([score.loss(label, problem.forecast) for label in one_label])
    share = problem.weight / problem.weight.sum()

    def miscalibration(rate):
        parts = _two(rate)
        with np.errstate(invalid="ignore"):  # 0 times an infinite loss
            loss = share @ np.where(parts > 0, parts * losses, 0.0).sum(axis=1)
        best = weighted_mean(score.entropy(_two(curve.levels(rate))), curve.tied.mass)
        return max(float(loss - best), 0.0)

    def draws(size):
        rates = (rate for part in label_draws(problem, size, rng) for rate in part)
        return np.array([miscalibration(rate) for rate in rates])

    return _record_test(observed, draws, n_resamples, problem)


def _record_test(observed, draws, n_resamples, problem):
    most = MOST_TIMES * n_resamples
    pvalue, drawn = drawn_pvalue(draws, observed, n_resamples, size=len(problem.weight), most=most)
    statistic, reason = observed, "labels drawn at the given forecasts"
    if refuted := refutation(problem.forecast, problem.target):
        statistic, pvalue, reason = np.inf, 0.0, refuted
    estimate = float(observed - drawn.mean())
    return CalibrationTest(statistic, pvalue, estimate, f"CORP miscalibration, {reason}")


# --- Isotonic curves and their bands --------------------------------------------------------------


BANDS = ("consistency", "confidence")
_ROUNDING = 1e-12  # heights that differ by at most this are one block
_POINTS = 200  # points of a curve with many distinct scores, in rank and in value, besides knots


class IsotonicCurve:
    """Isotonic regression of labels on scores, which are sorted and whose ties are merged once.

    ``tied`` holds the distinct scores. ``mean``, ``level`` and ``block`` are the mean label, the
    height of the curve and the number of the block of constant height at each score. ``prob_pred``
    and ``prob_true`` are the points of the curve to plot.
    """

    joined = True

    def __init__(
        self,
        score: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> None:
        self.tied = TiedScores(score, weight)
        self.mean = self.tied.means(label)
        level = self._fit(self.mean)
        rises = np.diff(level, prepend=-np.inf) > _ROUNDING
        self.block = np.cumsum(rises) - 1
        self.level = level[rises][self.block]
        squares = weight**2 if square is None else square
        self._share = weight.sum() / np.sum(squares)  # effective number of labels per weight
        self._units = np.inf
        if cluster is not None:
            self._share = self._share / self._design_effect(label, weight, cluster)
            self._units = independent_size(weight, cluster=cluster)
        knots = np.concatenate([np.flatnonzero(rises), np.flatnonzero(rises)[1:] - 1])
        self._points = spread(self.tied.score, knots)
        self.prob_pred = self.tied.score[self._points]
        self.prob_true = self.level[self._points]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The curve of a binary problem."""
        score, label = problem.forecast[:, 1], problem.target[:, 1]
        return cls(score, label, problem.weight, problem.square, problem.cluster)

    def levels(self, label: np.ndarray) -> np.ndarray:
        """Height of the curve for other labels (n,) at each distinct score."""
        return self._fit(self.tied.means(label))

    def refit(self, labels: np.ndarray) -> np.ndarray:
        """Heights for other labels (n, B) at the points to plot."""
        return np.stack([self.levels(label)[self._points] for label in labels.T], axis=1)

    def grouped(self, problem: Problem) -> tuple[Self, Problem]:
        r"""The curve and its problem with neighbouring scores as one, for refits to other labels.

        Scores s of rank u in (0, 1) are one group if
        :math:`G (\arcsin \sqrt u + \arcsin \sqrt s) / \pi` rounds down to the same number, with
        G = 2,500, which keeps single scores apart near the ends. If the forecasts are calibrated,
        a block of an isotonic curve of n labels is about :math:`n^{-1/3}` long in units of the
        angle of s or of u, and a group is less than a tenth of it up to n = 1,000,000. With at most
        10,000 distinct scores nothing changes.
        """
        tied = self.tied
        if len(tied.score) <= SIZES.band_scores:
            return self, problem
        rank = (np.cumsum(tied.mass) - 0.5 * tied.mass) / tied.mass.sum()
        angles = np.arcsin(np.sqrt(rank)) + np.arcsin(np.sqrt(np.clip(tied.score, 0, 1)))
        place = np.floor(angles * (SIZES.band_groups / np.pi))
        group = np.cumsum(np.diff(place, prepend=place[0]) > 0)
        mass = np.bincount(group, tied.mass)
        score = np.bincount(group, tied.mass * tied.score) / mass
        square = np.bincount(group[tied.place], problem.squares)
        grouped = copy(self)
        grouped.tied, grouped._points = TiedScores(score, mass), group[self._points]
        forecast = np.column_stack([1 - score, score])
        return grouped, Problem(forecast, forecast, mass, problem.classes, square)

    def confidence(
        self, confidence_level: float, n_resamples: int, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray]:
        """Likelihood-ratio interval at the points to plot; uses no random numbers."""
        if np.isfinite(self._units):
            confidence_level = student_level(confidence_level, self._units)
        mass = self._share * self.tied.mass
        return isotonic_interval(self.mean, mass, self._points, confidence_level)

    def _design_effect(self, label, weight, cluster):
        """Variance of the mean of each block over that of independent labels; one correlation."""
        place = self.tied.place
        level, block = self.level[place], self.block[place]
        spread = np.sqrt(level * (1 - level))
        common = intraclass_correlation(label - level, spread, weight, cluster)
        _, pair = np.unique(np.column_stack([block, cluster]), axis=0, return_inverse=True)
        sums = np.bincount(pair.ravel(), weight)
        of_block = np.zeros(len(sums), dtype=np.intp)
        of_block[pair.ravel()] = block
        together = np.bincount(of_block, sums**2) / np.bincount(block, weight**2)
        return (1 + common * (together - 1))[self.block]

    def _fit(self, mean):
        return self.tied.isotonic(mean).clip(0, 1)  # only rounding leaves [0, 1]


def spread(score: np.ndarray, knots: ArrayLike = ()) -> np.ndarray:
    """Indices of the knots, and of distinct scores spread evenly in rank and in value."""
    if len(score) <= 2 * _POINTS:
        return np.arange(len(score))
    rank = np.linspace(0, len(score) - 1, _POINTS).astype(int)
    value = np.searchsorted(score, np.linspace(score[0], score[-1], _POINTS))
    return np.unique(np.concatenate([rank, value, np.asarray(knots, dtype=int)]))


def isotonic_interval(
    mean: np.ndarray, mass: np.ndarray, points: np.ndarray, confidence_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Likelihood-ratio interval of an increasing curve at some of its knots.

    `mean` and `mass` are the mean label and the effective number of labels of each distinct score.
    A height is kept unless the log likelihood of the best increasing curve through it is below that
    of the best increasing curve by more than half the chi-squared quantile (Banerjee & Wellner,
    2001). No derivative and no bandwidth has to be estimated. The bootstrap of isotonic curves
    fails.
    """
    below = _prefix_pools(mean, mass, points)
    above = _prefix_pools(1 - mean[::-1], mass[::-1], len(mean) - 1 - points[::-1])[::-1]
    at_points = zip(mean[points, None], mass[points, None], strict=True)
    pools = [(0.0, level, size) for level, size in at_points]
    # Constraint: pools on the left of t are at most the height, pools on the right at least.
    pools += [(-1.0, level, size) for level, size in below]
    pools += [(1.0, 1 - level, size) for level, size in above]
    row = np.repeat(np.tile(np.arange(len(points)), 3), [len(level) for _, level, _ in pools])
    side = np.concatenate([np.full(len(level), side) for side, level, _ in pools])
    level = np.concatenate([level for _, level, _ in pools])
    size = np.concatenate([size for _, _, size in pools])

    def cost(height):
        height = height[row]
        moved = np.where(side < 0, np.minimum(height, level), height)
        moved = np.where(side > 0, np.maximum(height, level), moved)
        divergence = rel_entr(level, moved) + rel_entr(1 - level, 1 - moved)
        return np.bincount(row, size * divergence, len(points))

    best = isotonic_regression(mean, weights=mass).x[points].clip(0, 1)
    limit = cost(best) + 0.5 * chi2.ppf(confidence_level, 1)
    lowest, highest = np.zeros(len(best)), np.ones(len(best))
    return _last_within(cost, limit, best, lowest), _last_within(cost, limit, best, highest)


def _prefix_pools(mean, mass, ends):
    """Levels and sizes of the pools of the isotonic fit to mean[:end], for increasing ends."""
    level, size, start, pools = np.empty(0), np.empty(0), 0, []
    for end in ends:  # pools of a prefix stay pooled in longer prefixes
        level = np.concatenate([level, mean[start:end]])
        size = np.concatenate([size, mass[start:end]])
        if len(level):
            fit = isotonic_regression(level, weights=size).x.clip(0, 1)
            first = np.flatnonzero(np.diff(fit, prepend=-np.inf))
            level, size = fit[first], np.add.reduceat(size, first)
        pools.append((level, size))
        start = end
    return pools


def _last_within(cost, limit, inside, outside):
    """Bisection between a height that is within the limit and the end of the scale."""
    reached = cost(outside) <= limit
    end = outside
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        within = cost(middle) <= limit
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(reached, end, inside)


# --- Labels drawn from the forecasts --------------------------------------------------------------


def check_resamples(n_resamples: int, confidence_level: float) -> None:
    """Enough resamples for order statistics to enclose the level."""
    needed = int(np.ceil(2 / (1 - confidence_level) - 1e-9)) - 1
    if not is_whole(n_resamples) or n_resamples < needed:
        raise ValueError(
            f"n_resamples must be a whole number of at least {needed} for a band of level "
            f"{confidence_level:g}, got {shown(n_resamples)}."
        )


def consistency_band(
    curve: IsotonicCurve,
    problem: Problem,
    confidence_level: float,
    n_resamples: int,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise band of the curves that calibrated forecasts would give, at `curve.prob_pred`.

    Labels are drawn from the forecasts and the curve is fitted to them again. The band lies between
    two order statistics of the B refitted curves, of ranks k and B + 1 - k with
    k = floor((B + 1)(1 - level) / 2). If the forecasts are calibrated, the observed curve is one
    more draw of the same kind, so each point is inside with probability (B + 1 - 2k) / (B + 1) or
    more, at every sample size. For clusters, forecasts plus residuals with a random sign of each
    cluster take the place of labels. With more than 10,000 distinct scores, the refitted curves are
    those of `IsotonicCurve.grouped`.
    """
    if isinstance(curve, IsotonicCurve) and problem.cluster is None:
        curve, problem = curve.grouped(problem)
    draws = label_draws(problem, n_resamples, rng)
    refits = Parallel(n_jobs=n_jobs)(delayed(curve.refit)(draw.T) for draw in draws)
    curves = np.concatenate(refits, axis=1)
    curves.sort(axis=1)
    # 1e-9 corrects rounding: (B + 1)(1 - level) / 2 should be whole for B = 199 and level .95.
    rank = int((n_resamples + 1) * (1 - confidence_level) / 2 + 1e-9)
    return curves[:, rank - 1], curves[:, n_resamples - rank]


def label_draws(
    problem: Problem, n_resamples: int, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Labels of a binary problem drawn from its forecasts, in chunks of rows of (B, n).

    Where a row stands for several samples, as many labels as the effective number of samples are
    drawn at each distinct score, and each of its rows gets their mean.
    """
    probability = problem.forecast[:, 1]
    step, size = max(1, SIZES.drawn_entries // len(probability)), None
    if problem.cluster is not None:
        residual = problem.target[:, 1] - probability
        for start in range(0, n_resamples, step):
            shape = min(step, n_resamples - start), int(problem.cluster.max()) + 1
            signs = rng.choice([-1.0, 1.0], size=shape)
            yield probability + signs[:, problem.cluster] * residual
        return
    if problem.square is not None:
        distinct, place = np.unique(probability, return_inverse=True)
        mass, square = (np.bincount(place, sums) for sums in (problem.weight, problem.square))
        size, probability = np.rint(mass**2 / square).astype(np.int64), np.clip(distinct, 0, 1)
    for start in range(0, n_resamples, step):
        shape = min(step, n_resamples - start), len(probability)
        if size is None:
            yield rng.random_sample(shape) < probability
        else:
            yield (rng.binomial(size, probability, shape) / size)[:, place]
