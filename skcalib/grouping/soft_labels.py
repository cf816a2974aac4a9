r"""Parts of a mean loss where several annotators label each sample.

With one label per sample, only a lower bound of the grouping loss can be estimated. With label
distributions, or the votes of several annotators, all parts can be estimated.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import entr
from scipy.stats import binom

from skcalib._util.formatting import Record, interval_rows
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import weighted_rows
from skcalib.data.clusters import outside_level
from skcalib.data.notions import Multilabel, NotionLike, resolve_notion
from skcalib.data.problem import check_problem
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.scores import Brier, LogLoss, LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.stats.means import MeanInterval, mean_interval

_MANY_VOTES = 50  # from which the bias of the jackknife is extrapolated
_WHOLE = 1e-3  # largest difference of counts from whole numbers that rounding of shares can cause


@dataclass(frozen=True)
class SoftLabelDecomposition(Record):
    """Parts of a mean loss; see :func:`~skcalib.soft_label_decomposition`.

    ``expected_loss = calibration + grouping + irreducible`` and
    ``excess = calibration + grouping``.

    `to_frame` has the columns ``part``, ``estimate``, ``low``, ``high`` and ``standard_error``.

    Attributes
    ----------
    expected_loss : MeanInterval
        Mean loss of the forecasts.
    calibration : MeanInterval
        Calibration error, which recalibration removes.
    grouping : MeanInterval
        Grouping loss, which a better model of the features removes.
    irreducible : MeanInterval
        Mean entropy of the label distributions, which no model removes.
    excess : MeanInterval
        Excess risk E D(Q, S): the loss of the forecasts minus that of the best possible ones.
    n_measured : int
        Number of samples from which the irreducible part is estimated: those with at least two
        votes.

    See Also
    --------
    skcalib.soft_label_decomposition : Makes this record.
    """

    expected_loss: MeanInterval
    calibration: MeanInterval
    grouping: MeanInterval
    irreducible: MeanInterval
    excess: MeanInterval
    n_measured: int

    _beside = ("n_measured",)

    def _columns(self):
        names = ("expected_loss", "calibration", "grouping", "irreducible", "excess")
        return interval_rows("part", {name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        words = {
            "expected_loss": "Expected loss",
            "calibration": "  calibration",
            "grouping": "  grouping",
            "irreducible": "  irreducible",
        }
        return "\n".join(f"{text:<16}{getattr(self, name)}" for name, text in words.items())


@checks_parameters
def soft_label_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: LossLike = "brier",
    votes: ArrayLike | None = None,
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> SoftLabelDecomposition:
    r"""Decompose a mean loss into calibration, grouping and irreducible (aleatoric) parts.

    The label distribution :math:`Q = E[Y|X]` of each sample is given, or estimated from the votes
    of its annotators, who are drawn independently of each other. The function estimates the parts
    of

    .. math::

        E\, L(Y, S) = \underbrace{E\, D(C, S)}_{calibration}
        + \underbrace{E\, D(Q, C)}_{grouping} + \underbrace{E\, H(Q)}_{irreducible} ,
        \qquad C = E[Y|S] .

    Labels alone give the sum of the last two (the refinement) and a lower bound of the grouping
    loss, :class:`~skcalib.GroupingLossEstimator`. Here all three are estimated, and so is the
    excess risk :math:`E\, D(Q, S)`, which is calibration plus grouping. No features are needed.

    - ``expected_loss`` is the mean of :math:`\sum_k \hat q_{ik} L(k, S_i)`, with the share
      :math:`\hat q_{ik}` of class k among the votes. The loss is linear in it, so the estimate has
      no bias for any number of votes.
    - ``irreducible`` is the mean of :math:`H(Q_i)`. The entropy of the shares of m votes is biased
      downward. Each row is corrected by a jackknife, which leaves out one vote at a time: :math:`m
      H(\hat q) - (m - 1) \sum_k \hat q_k H(\hat q^{(-k)})`. For Brier this is :math:`\frac{m}{m -
      1} H(\hat q)` and has no bias. Rows with one vote contain no information about the entropy and
      are left out of this mean, so the number of votes must not depend on Q.
    - ``calibration`` is the default of :func:`~skcalib.proper_calibration_error`.
    - ``grouping`` is the remainder, so the parts add up exactly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_classes)
        Either counts of votes, whole numbers with at least one vote in each row, or label
        distributions, whose rows sum to one. The columns follow `labels`, the names of the columns
        of a data frame, or 0 to K - 1.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the last class (or `pos_label`) of two, or of each class.
    loss : {"brier", "log", "spherical", "rps"} or ProperScore, default="brier"
        The proper score, which must be strictly proper.
    votes : int or array-like of shape (n_samples,), default=None
        Number of votes behind each row of label distributions. None means that the distributions
        are exact. For counts the number of votes is known.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. A row counts once, for any number of votes.

    Returns
    -------
    SoftLabelDecomposition
        The parts, each with ``estimate``, ``low``, ``high`` and ``standard_error``, in the units of
        the loss (squared probability for Brier, nats for log). Estimates of the grouping loss may
        be negative, because an unbiased estimate of zero must be. Limits are not negative.

    Raises
    ------
    ValueError
        For invalid input; for one label per sample or one-hot rows, from which the irreducible part
        is unknown; if no row has two votes; for scores that are not strictly proper.

    See Also
    --------
    score_decomposition : Calibration, sharpness and uncertainty, from labels of any kind.

    Notes
    -----
    **Bias for other scores.** No estimator of Shannon's entropy from m votes is unbiased. With
    ``loss="log"`` the limits of the irreducible part, the grouping loss and the excess risk allow
    for the bias of any label distributions: from -.17 to 0 nats for two votes and three classes,
    -.04 to .02 for ten votes. Estimates are not corrected for it. For other scores than "brier"
    and "log" the bias is unknown, and these limits are NaN (a `UserWarning`). Label distributions
    that are exact have no bias.

    **What the maps miss.** The averaged maps may not represent all of the calibration error. The
    part that they miss counts as grouping loss. The excess risk does not depend on the maps.

    **Intervals.** Intervals are Student's for the expected loss, the irreducible part and the
    excess risk. The interval of the calibration error is that of
    :class:`~skcalib.CalibrationErrorEstimator`. The interval of the grouping loss is Student's with
    the standard deviation of :math:`L(\hat q_i, \hat C_i) - \hat H_i`. The unit is the sample with
    all its votes. Computational cost: that of the default calibration error.

    References
    ----------
    J. Bröcker, Quarterly Journal of the Royal Meteorological Society 135 (2009) 1512-1519, and
    S. Zahl, Ecology 58 (1977) 907-913 for the jackknife of entropies.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import soft_label_decomposition
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([1, 1, 1], size=4000)
    >>> votes = rng.multinomial(5, truth)  # five annotators
    >>> forecast = truth**2 / (truth**2).sum(axis=1, keepdims=True)  # over-confident
    >>> found = soft_label_decomposition(votes, forecast)
    >>> print(found.irreducible)
    0.506 [0.498, 0.514]
    """
    score, notion = resolve_loss(loss), resolve_notion(notion)
    if not score.strictly_proper:
        raise ValueError(
            f"{score!r} is the same for all forecasts with the same decision: use loss='brier', "
            "'log' or 'spherical', or decision_regret for the costs of decisions."
        )
    if isinstance(notion, Multilabel):
        raise ValueError(
            "soft_label_decomposition takes one label distribution per sample: pass the votes for "
            "and against each label, one label at a time."
        )
    problem = check_problem(y_true, y_proba, notion, sample_weight, labels, pos_label, soft=True)
    if problem.votes is None:
        raise ValueError(
            "y_true has one label per sample, which does not show the irreducible part: pass "
            "counts of annotators or label distributions (n, n_classes)."
        )
    n_votes = problem.votes
    if votes is not None:
        n_votes = _check_votes(votes, problem, len(np.asarray(y_true)), sample_weight)
    measured: Any = n_votes > 1
    if not measured.any():
        raise ValueError(
            "No row of y_true has two votes, so the irreducible part is unknown: use "
            "score_decomposition."
        )
    error = estimate_proper_error(
        problem, loss=score, notion=notion, confidence_level=confidence_level, n_jobs=n_jobs
    )
    entropies = np.zeros(len(problem.weight))
    few, few_votes = problem.take(np.flatnonzero(measured)), n_votes[measured]
    targets = [target for _, target in notion.problems(few.forecast, few.target)]
    total = 1 if notion.reduce == "mean" else len(targets)
    sum_of_entropies: Any = sum(_entropy(score, target, few_votes) for target in targets)
    entropies[measured] = total * sum_of_entropies / len(targets)
    bias = total * _bias_limits(score, targets[0].shape[1], few_votes, few.weight)
    calibration: Any = error.interval
    terms, weight = error.terms, problem.weight
    entropy = float(weighted_mean(entropies[measured], few.weight))
    # Terms over all rows with the same mean, and the spread of a mean over some of them.
    irreducible = np.full(len(weight), entropy)
    irreducible[measured] += (weight.sum() / few.weight.sum()) * (entropies[measured] - entropy)

    def mean(values, estimate=None):
        return mean_interval(values, weight, confidence_level, estimate=estimate)

    refined = terms.loss - terms.influence if np.isfinite(terms.loss).all() else terms.refinement
    refinement = terms.mean("refinement")
    return SoftLabelDecomposition(
        expected_loss=mean(terms.loss),
        calibration=calibration,
        grouping=_widened(mean(refined - irreducible, refinement - entropy), bias),
        irreducible=_widened(mean(irreducible), -bias[::-1]),
        excess=_widened(mean(terms.loss - irreducible), bias),
        n_measured=int(measured.sum()),
    )


def _check_votes(votes, problem, n_samples, sample_weight):
    """Votes behind each row of label distributions that has a positive weight."""
    if np.isfinite(problem.votes).all():
        raise ValueError("votes is for label distributions, and y_true holds counts: leave it out.")
    try:
        n_votes = np.broadcast_to(np.asarray(votes, dtype=np.float64), (n_samples,))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"votes must be a number, or one for each of the {n_samples} samples, got shape "
            f"{np.shape(votes)}."
        ) from error
    n_votes = n_votes[weighted_rows(sample_weight, n_samples)]
    if not (n_votes >= 1).all():
        raise ValueError("votes must be at least 1 for each sample.")
    finite = np.isfinite(n_votes)
    counts = problem.target[finite] * n_votes[finite, None]
    if np.any(np.abs(counts - np.rint(counts)) > _WHOLE * (1 + counts)):
        raise ValueError(
            "Label distributions times votes must be whole numbers, as shares of votes are: pass "
            "the counts as y_true, or leave out votes= for exact distributions."
        )
    return n_votes


def _widened(interval, bias):
    """Limits of a quantity that cannot be negative, moved by the limits of a bias."""
    low, high = interval.low + bias[0], interval.high + bias[1]
    return replace(interval, low=max(low, 0.0), high=max(high, 0.0))


def _bias_limits(score, n_classes, votes, weight):
    """Smallest and largest bias of the mean entropy, over all label distributions."""
    number, place = np.unique(votes, return_inverse=True)
    if isinstance(score, Brier) or np.isinf(number[0]):
        return np.zeros(2)
    if not isinstance(score, LogLoss):
        warnings.warn(
            f"Entropies of {score!r} have an unknown bias where the number of votes is finite: the "
            "limits of grouping, irreducible and excess are NaN. Use loss='brier'.",
            UserWarning,
            stacklevel=outside_level(),
        )
        return np.full(2, np.nan)
    limits = np.array([_jackknife_bias(m, n_classes) for m in number.tolist()])
    return weighted_mean(limits[place], weight)


def _jackknife_bias(m, n_classes):
    """Smallest and largest bias of the jackknife of Shannon's entropy from m votes."""
    if m > _MANY_VOTES:  # the bias decreases as 1 / m
        return _jackknife_bias(_MANY_VOTES, n_classes) * _MANY_VOTES / m
    k, q = np.arange(m + 1), np.linspace(0, 1, 401)
    others = k * entr(np.maximum(k - 1, 0) / (m - 1))
    others += (m - k) * entr(np.minimum(k / (m - 1), 1))
    # The jackknife is a sum over classes, of which each has a binomial number of votes.
    bias = binom.pmf(k, m, q[:, None]) @ (m * entr(k / m) - (m - 1) / m * others) - entr(q)
    return np.array([sign * _smallest_sum(sign * bias, n_classes) for sign in (1, -1)])


def _smallest_sum(values, n_terms):
    """Smallest sum of so many values on a grid, whose places add up to the last place."""
    place = np.arange(len(values))
    back = place[:, None] - place

    def add(first, second):
        return np.min(first + np.where(back >= 0, second[back], np.inf), axis=1)

    total = np.where(place == 0, 0.0, np.inf)
    while n_terms:
        if n_terms % 2:
            total = add(total, values)
        values, n_terms = add(values, values), n_terms // 2
    return total[-1]


def _entropy(score: ProperScore, target: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Entropy of label distributions (n, K), corrected for votes (n,) of at least two, (n,).

    The jackknife: m H minus m - 1 times the mean of H without one of the m votes.
    """
    entropy = score.entropy(target)
    finite = np.flatnonzero(np.isfinite(votes))
    counts = np.rint(target[finite] * votes[finite, None])
    without, step = np.zeros(len(finite)), max(1, SIZES.table_entries // target.shape[1] ** 2)
    for start in range(0, len(finite), step):
        rows, classes = np.nonzero(counts[start : start + step])
        rows = rows + start
        remaining, m = counts[rows], votes[finite][rows]
        remaining[np.arange(len(rows)), classes] -= 1
        shares = counts[rows, classes] / m * score.entropy(remaining / (m - 1)[:, None])
        without += np.bincount(rows, shares, minlength=len(finite))
    m = votes[finite]
    entropy[finite] = m * entropy[finite] - (m - 1) * without
    return entropy
