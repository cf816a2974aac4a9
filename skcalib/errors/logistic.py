"""Calibration intercept and slope, and the integrated calibration index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, stdtrit

from skcalib._util.formatting import Record, interval_rows
from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib.data.clusters import cluster_sums, effective_size, independent_size
from skcalib.data.notions import Auto, Notion, NotionLike, resolve_notion
from skcalib.data.problem import only_problem, over_problems, reduced
from skcalib.links.newton import likelihood_tolerance, logistic_regression
from skcalib.proper.proper import SmoothedProblem, solve_notion
from skcalib.scores import TotalVariation, weighted_mean, weighted_quantile
from skcalib.smoothers import SmootherLike, resolve_smoother
from skcalib.stats.means import FEW, MeanInterval, uncertain_labels

if TYPE_CHECKING:
    from skcalib.data.problem import LabelsLike, Problem
    from skcalib.proper.map_average import AveragedProblem


@dataclass(frozen=True)
class CalibrationInterceptSlope(Record):
    """Result of :func:`~skcalib.calibration_intercept_slope`: three estimates with their intervals.

    `to_frame` has the columns ``quantity``, ``estimate``, ``low``, ``high`` and ``standard_error``.

    Attributes
    ----------
    in_the_large : MeanInterval
        Intercept of the model whose slope is 1; 0 if the mean forecast fits.
    intercept, slope : MeanInterval
        Coefficients of the model with both; 0 and 1 for a calibrated forecast.

    See Also
    --------
    skcalib.calibration_intercept_slope : Makes this record.
    skcalib.significance.logistic_calibration_test : Tests of intercept and slope.
    """

    in_the_large: MeanInterval
    intercept: MeanInterval
    slope: MeanInterval

    def _columns(self):
        names = ("in_the_large", "intercept", "slope")
        return interval_rows("quantity", {name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        return f"In the large {self.in_the_large}, intercept {self.intercept}, slope {self.slope}"


@checks_parameters
def calibration_intercept_slope(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
) -> CalibrationInterceptSlope:
    r"""Calibration in the large, and intercept and slope of the logistic recalibration (Cox 1958).

    The coefficients are estimated by maximum likelihood in the models

    .. math::

        \operatorname{logit} P(Y = 1 | f) = a_0 + \operatorname{logit} f, \qquad
        \operatorname{logit} P(Y = 1 | f) = a + b \operatorname{logit} f .

    :math:`a_0`, the calibration in the large, is positive if events are more frequent than
    forecast. A slope b below 1 means that the forecasts are too extreme (over-confident), and a
    slope above 1 that they are not extreme enough (under-confident). The intercept a is the log
    odds of the event where the forecast is one half. Calibrated forecasts have :math:`a_0 = 0`,
    :math:`a = 0` and :math:`b = 1`, but so may miscalibrated forecasts whose error is not linear in
    the logit.

    The intervals use Student's distribution with m - d degrees of freedom and the *sandwich*
    covariance :math:`H^{-1} M H^{-1} m / (m - d)`. Here H is the Hessian of the loss, M the sum of
    the squared weighted gradients, d = 1 or 2 the number of parameters, and :math:`m = (\sum w)^2 /
    \sum w^2` the effective size. The intervals are valid for weights and for misspecified models.
    With fewer than 40 labels that the fitted model leaves uncertain, which for a rare event is the
    number of events, M is too small: a model fits the few events too closely. There a variance is
    not smaller than with the M of independent labels of the fitted model.

    A correct forecast of exactly 0 or 1 fits every intercept and every positive slope, so it is not
    informative and is omitted from the fits.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights: a weight of 2 does not mean two samples.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, as labels of any type. The gradients are
        summed by cluster before they are squared, and m is the effective number of clusters
        (:ref:`clusters`).

    Returns
    -------
    CalibrationInterceptSlope
        Estimates in units of the logit (the slope has none), each with interval and standard
        error.

    Raises
    ------
    ValueError
        For more than two classes, and if the likelihood has no finite maximum: a single class among
        the forecasts other than 0 and 1, equal forecasts, forecasts that separate the classes, or a
        forecast of exactly 0 for the class that occurred.

    See Also
    --------
    PlattScaling : The same model as a recalibrator.
    integrated_calibration_index : Distance of the forecast from a smooth calibration curve.

    References
    ----------
    .. [1] D. R. Cox. Two further applications of a model for binary regression. Biometrika 45,
       1958.
    .. [2] B. Van Calster et al. Calibration: the Achilles heel of predictive analytics. BMC
       Medicine 17, 2019.

    Examples
    --------
    >>> from skcalib import calibration_intercept_slope
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, random_state=0)  # true slope 0.6
    >>> slope = calibration_intercept_slope(data.y, data.y_proba).slope
    >>> round(slope.estimate, 2), round(slope.low, 2), round(slope.high, 2)
    (0.6, 0.55, 0.65)
    """
    problem, _ = only_problem(
        y_true,
        y_proba,
        Auto(),
        groups=groups,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    problem, log_odds = uncertain_logits(problem)
    events, others = (log_odds[problem.target[:, column] == 1] for column in (1, 0))
    why = ""  # the likelihood has no unique finite maximum
    if len(events) == 0 or len(others) == 0:
        why = "all labels of forecasts other than 0 and 1 are of one class"
    elif np.ptp(log_odds) == 0:
        why = "all forecasts are equal, so they have no slope"
    elif events.min() >= others.max() or events.max() <= others.min():
        why = "the forecasts separate the two classes, so the slope is infinite"
    if why:
        raise ValueError(
            f"The calibration intercept and slope have no finite estimate: {why}. More samples are "
            "needed."
        )
    ones, scale = np.ones(len(log_odds)), float(np.sqrt(weighted_mean(log_odds**2, problem.weight)))
    (in_the_large,) = coefficient_intervals(ones[:, None], log_odds, problem, confidence_level)
    features = np.column_stack([ones, log_odds / scale])  # of comparable size
    intercept, slope = coefficient_intervals(features, 0.0, problem, confidence_level)
    slope = MeanInterval(
        slope.estimate / scale, slope.low / scale, slope.high / scale, slope.standard_error / scale
    )
    return CalibrationInterceptSlope(in_the_large, intercept, slope)


def uncertain_logits(problem: Problem) -> tuple[Problem, np.ndarray]:
    """The samples whose forecast of two classes is not 0 or 1, and their log odds (n,)."""
    forecast, target = problem.forecast, problem.target
    if forecast.shape[1] > 2:
        raise ValueError(
            f"The calibration slope is for two classes, but y_proba has {forecast.shape[1]} "
            "columns: pass one class against the rest, (y_true == c, y_proba[:, c]), or whether "
            "the prediction was right and its confidence."
        )
    wrong = ((target == 1) & (forecast == 0)).any(axis=1)
    impossible = problem.take(wrong).n_samples
    if impossible:
        raise ValueError(
            f"y_proba is exactly 0 for the class that occurred in {impossible} samples, so the "
            "likelihood is 0 for every intercept and positive slope: use "
            "integrated_calibration_index, which allows such forecasts, or a classifier that never "
            "predicts exactly 0 or 1 (a forest with larger leaves, a softmax in double precision)."
        )
    uncertain = np.flatnonzero((forecast > 0).all(axis=1))
    log_odds = np.log(forecast[uncertain, 1]) - np.log(forecast[uncertain, 0])
    return problem.take(uncertain), log_odds


def coefficient_intervals(
    columns: np.ndarray,
    offset: np.ndarray | float,
    problem: Problem,
    confidence_level: float,
) -> list[MeanInterval]:
    """Intervals of the coefficients of a logistic regression of the event of a binary problem."""
    y, weight, square = problem.target[:, 1], problem.weight, problem.squares
    share, size = weight / weight.sum(), effective_size(weight, square)
    theta, hessian = logistic_regression(
        columns, offset, y, size * share, tolerance=likelihood_tolerance(size)
    )
    units = independent_size(weight, square, problem.cluster)
    freedom = units - len(theta)
    if freedom < 1e-9:
        return [MeanInterval(float(value), -np.inf, np.inf, np.inf) for value in theta]
    root = np.sqrt(square) / weight.sum()
    chance = expit(offset + columns @ theta)
    scores = cluster_sums(columns * (root * (chance - y))[:, None], problem.cluster)
    inverse = np.linalg.inv(hessian / size)
    variance = np.diag(inverse @ (scores.T @ scores) @ inverse) * units / freedom
    if uncertain_labels(np.column_stack([1 - chance, chance]), weight, square) < FEW:
        scores = columns * (root * np.sqrt(chance * (1 - chance)))[:, None]
        of_the_model = np.diag(inverse @ (scores.T @ scores) @ inverse) * units / freedom
        variance = np.maximum(variance, of_the_model)
    quantile = float(stdtrit(freedom, 0.5 + confidence_level / 2))
    return [
        MeanInterval(value, value - quantile * error, value + quantile * error, error)
        for value, error in zip(theta.tolist(), np.sqrt(variance).tolist(), strict=True)
    ]


# --- Integrated calibration index -----------------------------------------------------------------


@checks_parameters
def integrated_calibration_index(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    quantile: float | None = None,
    notion: NotionLike = "auto",
    smoother: SmootherLike = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> float:
    r"""Distance of the forecasts from a smooth calibration curve: mean, median, maximum.

    The mean of :math:`|\hat C_i - S_i|`, where :math:`\hat C` is an estimate of the calibrated
    forecast, is the integrated calibration index (ICI) of Austin and Steyerberg. A `quantile` of
    the same distances replaces the mean: 0.5 is their E50, 0.9 their E90, 1 their Emax. With
    "canonical", :math:`|\cdot|` is the total variation, half of the L1 distance.

    By default :math:`\hat C` is the average of recalibration maps with which
    :func:`~skcalib.proper_calibration_error` estimates C (`ModelAverageScaling`). The maps are
    fitted to the samples on which they are evaluated. With a smoother, each :math:`\hat C_i` is
    estimated without the sample's own label.

    The index is the method "direct" in the L1 norm. So it is never negative, and the noise of
    :math:`\hat C` biases it upward. Calibrated forecasts have a positive index, unless the identity
    has all of the weight, and the index is larger for a more flexible smoother. The noise of the
    averaged maps is small, because the weights shrink them towards the identity. The original index
    used loess, evaluated in sample; ``smoother="kernel"`` is similarly flexible.

    Parameters
    ----------
    quantile : float, default=None
        None for the mean; a number in [0, 1] for that (lower) quantile of the distances.
    smoother : None, str, Smoother or classifier, default=None
        Estimates C, as in :func:`~skcalib.proper_calibration_error`; None for averaged maps.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean or the quantile, and of the maps or the smoother.

    Returns
    -------
    float
        In [0, 1], in units of probability.

    Raises
    ------
    ValueError
        For a single sample, from which nothing can be fitted, or a `quantile` outside [0, 1].

    See Also
    --------
    calibration_error : The same distance with bins.

    References
    ----------
    .. [1] P. C. Austin and E. W. Steyerberg. The Integrated Calibration Index (ICI) and related
       metrics for quantifying the calibration of logistic regression models. Statistics in
       Medicine 38, 2019.

    Examples
    --------
    >>> from skcalib import integrated_calibration_index
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, random_state=0)
    >>> [round(integrated_calibration_index(data.y, data.y_proba, quantile=q), 3)
    ...     for q in (None, 0.5, 0.9, 1)]
    [0.072, 0.081, 0.11, 0.114]
    """
    if quantile is not None and not (is_finite(quantile) and 0 <= quantile <= 1):
        raise ValueError(f"quantile must be None or a number in [0, 1], got {shown(quantile)}.")
    notion = resolve_notion(notion)
    smoother = None if smoother is None else resolve_smoother(smoother)

    def index(problem, notion):
        solved = solve_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
        return index_of_solved(solved, notion, quantile)

    return over_problems(
        y_true,
        y_proba,
        notion,
        index,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )


def index_of_solved(
    solved: list[SmoothedProblem] | list[AveragedProblem],
    notion: Notion,
    quantile: float | None = None,
) -> float:
    """The index of problems from `solve_notion`."""
    distances = [
        (TotalVariation().divergence(problem.conditional, problem.forecast), problem.weight)
        for problem in solved
    ]
    if quantile is None:
        return reduced([weighted_mean(x, weight) for x, weight in distances], notion)
    return reduced([weighted_quantile(x, weight, quantile) for x, weight in distances], notion)
