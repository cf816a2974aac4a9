"""The CORP decomposition of a score: miscalibration - discrimination + uncertainty (D21)."""

from dataclasses import dataclass, field

import numpy as np

from skcalib._arguments import check_loss, check_notion
from skcalib._parallel import run_each
from skcalib.errors._corp_bands import IsotonicCurve
from skcalib.notions import binary_events
from skcalib.problem import check_problem
from skcalib.tower import weighted_mean


@dataclass(frozen=True, eq=False)
class CorpCurve:
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
    """

    event: str
    forecast: np.ndarray
    recalibrated: np.ndarray
    weight: np.ndarray
    block: np.ndarray


@dataclass(frozen=True, eq=False)
class CorpDecomposition:
    """Terms of a mean score; see :func:`corp_decomposition`.

    Attributes
    ----------
    score, miscalibration, discrimination, uncertainty : float
        ``score = miscalibration - discrimination + uncertainty``, in the units of the loss.
    scores, miscalibrations, discriminations, uncertainties : ndarray of shape (P,)
        The same for each of the P binary events: one for "canonical" and "top_label", one per
        class for "classwise", whose mean (or sum, as the notion says) the floats are.
    curves : tuple of CorpCurve
        Isotonic curve of each event.
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


def corp_decomposition(
    y_true,
    y_proba,
    *,
    loss="brier",
    notion="canonical",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Decompose a mean score by isotonic regression: CORP (D21).

    Let :math:`\hat C_i` be the isotonic regression of the labels on the forecasts :math:`S_i` of
    a binary event, ties of the forecasts pooled first, and :math:`\bar y` the mean label. With
    the mean loss :math:`\bar L(f) = \sum_i w_i L(y_i, f_i) / \sum_i w_i`

    .. math::

        \underbrace{\bar L(S)}_{score}
        = \underbrace{\bar L(S) - \bar L(\hat C)}_{miscalibration}
        - \underbrace{(\bar L(\bar y) - \bar L(\hat C))}_{discrimination}
        + \underbrace{\bar L(\bar y)}_{uncertainty} .

    Miscalibration (MCB) is what the best increasing map of the forecasts would save on these very
    labels: never negative, and zero where the forecasts are their own isotonic
    regression. It is :math:`\bar D(\hat C, S)` or more. Discrimination (DSC) is
    :math:`\bar D(\hat C, \bar y)`: never negative, it depends on the order of the forecasts only,
    and no strictly increasing map changes it. The curve is the same for every proper score,
    and there is nothing to choose.

    **In sample.** The curve has seen the labels that it is judged by, so MCB and DSC are both too
    large, by the same optimism. Calibrated forecasts show an MCB above zero, for uniform forecasts
    and Brier about :math:`0.55\, n^{-2/3}`: .023 for 100 samples, .0054 for 1,000, .0012 for
    10,000. :func:`corp_test` compares with what chance alone would show.
    :func:`score_decomposition` estimates the same terms (calibration, sharpness, uncertainty) with
    calibrated scores fitted without the label of the sample: a lower bound in expectation,
    that may be negative. With ``smoother="isotonic"`` it is CORP held out, and biased
    downward; with its default it has a small bias.

    **Increasing.** Where events are less likely the higher the forecast, the isotonic curve is
    flat: such forecasts have hardly any DSC, although they tell something.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class. Rows sum to one.
    loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
        The proper score.
    notion : {"canonical", "classwise", "top_label"} or Notion, default="canonical"
        For two classes the probability of the positive one; the mean over classes against the
        rest, each with the binary convention of the score; or the confidence against being right.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the means and of the isotonic regression; whole numbers mean repetition.
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`; needed where `y_true` may lack a class.
    pos_label : label, default=None
        The positive class of a binary problem; by default the last in order.

    Returns
    -------
    CorpDecomposition
        Record with the floats ``score, miscalibration, discrimination, uncertainty``, the same as
        arrays over the events, and the curves. Units of the loss: squared probability for Brier,
        halved as for K = 2, nats for the log loss. A forecast of 0 for what happened makes score
        and MCB infinite under the log loss, while DSC and uncertainty stay finite. The identity
        holds up to rounding, that of rows which do not quite sum to one included.

    Raises
    ------
    ValueError
        For invalid input, and for "canonical" with more than two classes: isotonic regression
        needs forecasts that can be ordered.

    See Also
    --------
    corp_bands : How far the curve may be from the diagonal, or from the truth, by chance.
    corp_test : Whether the miscalibration is more than chance.
    score_decomposition : Held-out estimates of the terms.
    IsotonicSmoother : The same curve as a smoother.

    Notes
    -----
    Cost O(n log n) per event. One sample is enough: its curve is its label.

    References
    ----------
    .. [1] T. Dimitriadis, T. Gneiting and A. I. Jordan. Stable reliability diagrams for
       probabilistic classifiers. PNAS 118, 2021 (D21).

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
    score, notion = check_loss(loss), check_notion(notion)
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    events = binary_events(problem, pos_label, notion)
    found = run_each(_decompose_event, ((score, *event) for event in events))
    terms, curves = zip(*found, strict=True)
    columns = np.array(terms).T
    totals = columns.mean(axis=1) if notion.reduce == "mean" else columns.sum(axis=1)
    return CorpDecomposition(*totals.tolist(), *columns, tuple(curves))


def _decompose_event(score, event, problem):
    """Terms (score, miscalibration, discrimination, uncertainty) of an event, and its curve."""
    curve = event_curve(problem)
    mean, best = mean_losses(score, problem, curve, problem.target)
    chance = _uncertainty(score, curve)
    # Neither is negative but by rounding; the loss of the curve is always finite.
    terms = (mean, max(mean - best, 0.0), max(chance - best, 0.0), chance)
    return terms, _record(event, curve)


def event_curve(problem):
    """Isotonic curve of a binary problem."""
    return IsotonicCurve(problem.forecast[:, 1], problem.target[:, 1], problem.weight)


def mean_losses(score, problem, curve, target):
    """Mean loss of the forecasts of a binary problem for labels (n, 2), and of their best curve.

    The loss of the curve is its mean entropy: the curve is the mean label over each block.
    """
    mean = weighted_mean(score.loss(target, problem.forecast), problem.weight)
    level = curve.levels(target[:, 1])
    best = weighted_mean(score.entropy(_two(level)), curve.tied.mass)
    return float(mean), float(best)


def _uncertainty(score, curve):
    mass = curve.tied.mass
    # The quotient is exactly 1 where all labels are, and not a rounding above.
    return float(score.entropy(_two(np.sum(mass * curve.mean) / np.sum(mass))))


def _record(event, curve):
    share = curve.tied.mass / curve.tied.mass.sum()
    return CorpCurve(event, curve.tied.score, curve.level, share, curve.block)


def _two(p):
    """Probability of the event -> columns (not, event)."""
    return np.stack([1 - p, p], axis=-1)
