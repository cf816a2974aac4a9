"""Expected performance of forecasts without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from scipy.stats import pearson3

from skcalib._util.arithmetic import merge_ties, top_class
from skcalib._util.formatting import Record
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_indices, check_proba, drop_zero_weights
from skcalib.data.class_columns import check_column_names
from skcalib.data.clusters import effective_size, inflation
from skcalib.data.problem import check_problem
from skcalib.error_intervals import ErrorInterval
from skcalib.links import BiasCorrectedTemperature
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.links.maps import fit_bias_corrected
from skcalib.scores import Brier, LogLoss
from skcalib.stats.means import MeanInterval

_FEWEST_PAIRS = 1e-100  # as a share of all pairs; below it there is no area
#: Field -> (name, smallest and largest value).
METRICS = {
    "accuracy": ("Accuracy", 0.0, 1.0),
    "brier": ("Brier score", 0.0, 2.0),
    "log_loss": ("Log loss", 0.0, np.inf),
    "auc": ("AUC", 0.0, 1.0),
}
#: Losses that are means over samples.
SCORES = {"brier": Brier(), "log_loss": LogLoss()}
LIMITS = (
    "Not visible without labels: a change of P(Y | X), and so of calibration, since the labelled "
    "window.\nThe forecasts, and these numbers, would stay the same."
)
#: Samples of the labelled window, at least.
FEWEST = 10
_WEAK_PRIOR = 0.01  # information that is added to each parameter of the map, in samples
_LEAST_TAIL = 1e-3  # share of the errors of the intervals that is left for the labels
_WIDTH = 28  # of a column of the text


@dataclass(frozen=True)
class ExpectedPerformance(Record):
    """Result of :func:`~skcalib.expected_performance`.

    It cannot detect a change of P(Y | X) since the labelled window, as its text states.

    `to_frame` has one row per metric, whose name is in the column ``metric``, with the intervals
    ``expected`` and ``adjusted``.

    Attributes
    ----------
    n_samples, n_labelled : int
        Samples without labels, and those of the labelled window (0 if there is none).
    confidence_level : float
        Level of all intervals.
    accuracy, brier, log_loss : MeanInterval
        Expected value for calibrated forecasts, with an interval for the metric of the random
        labels.
    auc : MeanInterval or None
        The same for the area under the ROC curve; None for more than two classes, and if no pair
        of an event and another sample is possible.
    adjusted : dict of str to MeanInterval
        The same if the calibration is still that of the labelled window, or within the error
        interval. Empty if neither was given. A metric is left out if it is infinite or does not
        exist there.

    See Also
    --------
    skcalib.expected_performance : Makes this record.
    """

    n_samples: int
    n_labelled: int
    confidence_level: float
    accuracy: MeanInterval
    brier: MeanInterval
    log_loss: MeanInterval
    auc: MeanInterval | None
    adjusted: dict[str, MeanInterval]

    _beside: ClassVar = ("n_samples", "n_labelled", "confidence_level")
    _intervals: ClassVar = ("expected", "adjusted")

    def __str__(self) -> str:
        title = f"Expected of {self.n_samples:,} samples without labels"
        title += f", intervals of {100 * self.confidence_level:g} %"
        heads = ["if calibrated"]
        if self.n_labelled:
            title += f"; {self.n_labelled:,} samples with labels"
            heads.append("if as the labelled window")
        elif self.adjusted:
            heads.append("within the error interval")
        lines = [title, " " * 12 + "".join(f"{head:>{_WIDTH}}" for head in heads)]
        for key, (name, *_) in METRICS.items():
            intervals = [getattr(self, key), self.adjusted.get(key)][: len(heads)]
            cells = [
                "-"
                if interval is None
                else f"{interval.estimate:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
                for interval in intervals
            ]
            lines.append(f"{name:12}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells))
        return "\n".join([*lines, LIMITS])

    def _columns(self):
        return {
            "metric": list(METRICS),
            "expected": [getattr(self, key) for key in METRICS],
            "adjusted": [self.adjusted.get(key) for key in METRICS],
        }


@checks_parameters
def expected_performance(
    y_proba: ArrayLike,
    *,
    labelled: tuple[ArrayLike, ...] | None = None,
    error_interval: ErrorInterval | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    confidence_level: float = 0.95,
) -> ExpectedPerformance:
    r"""Expected accuracy, Brier score, log loss and AUC of forecasts without labels.

    **If calibrated.** For a metric that is a mean of values :math:`v(p_i, y_i)`, the expectation
    and the variance given the forecasts, under calibration, are

    .. math::

       M(p) = \frac 1 n \sum_i \sum_k p_{ik}\, v(p_i, k), \qquad
       \frac 1 {n^2} \sum_i \sum_k p_{ik} \Bigl(v(p_i, k) - \sum_l p_{il} v(p_i, l)\Bigr)^2 .

    So the expected accuracy is the mean of the largest probability. The expected Brier score and
    log loss are the mean entropies of the forecasts. The area under the ROC curve is a ratio of
    sums over pairs of an event and another sample. It is estimated by the ratio of their
    expectations,

    .. math::

       \frac{\sum_{i \ne j} p_i (1 - p_j)\,(1[p_i > p_j] + \tfrac 1 2 1[p_i = p_j])}
            {\sum_{i \ne j} p_i (1 - p_j)} ,

    with the variance of its linear approximation in the labels. The interval is a prediction
    interval for the metric that the labels of these samples will give. It uses the quantiles of a
    gamma distribution with the third moment of the labels.

    **If calibrated as the labelled window.** Without labels, calibration is an assumption. If there
    is a labelled window, a map C of the forecasts is fitted to it, with one slope for all log
    probabilities and a bias for each class. The metric is then estimated by

    .. math:: M_{new}(C) + M_{labelled}(y) - M_{labelled}(C) ,

    where :math:`M(C)` uses the probabilities :math:`C(p_i)` of the labels in place of :math:`p_i`.
    The difference of the last two terms corrects for shapes that the map cannot represent. The
    variance has two parts. One is that of the random labels of the new samples under C. The other
    is that of the labelled window, from the error of the map (delta method) and of the difference.
    The forecasts of the two windows may be distributed differently if the map is correct.

    **Within an error interval.** The interval of the Brier calibration error from an earlier report
    can replace the labels. The estimate is then the one under calibration, and the limits allow for
    any miscalibration of at most this size. By the Cauchy-Schwarz inequality the expectation of a
    metric changes by at most

    .. math:: \Bigl| \frac 1 n \sum_i \langle C_i - p_i, v(p_i, \cdot) \rangle \Bigr|
       \le \sqrt{ u \cdot \frac 1 n \sum_i \|v(p_i, \cdot) - \bar v(p_i)\|^2 }

    with the upper limit u of :math:`E \|C - p\|^2` and the mean :math:`\bar v` over the classes.
    There is no such limit for the AUC.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Forecasts whose labels are unknown: probabilities of the positive class, or of each class.
    labelled : tuple, default=None
        The last labelled window: ``(y_true, y_proba)`` or ``(y_true, y_proba, sample_weight)``,
        with as many columns as `y_proba`.
    error_interval : ErrorInterval, default=None
        In place of `labelled`, the result of :func:`~skcalib.calibration_error_interval` with
        ``metric="brier"`` (the default) for the same classes, ``notion="canonical"`` or "auto".
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights of the samples without labels.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, for the labelled window.
    pos_label : label, default=None
        The class of a single column, for the labelled window; by default the last class.

    Returns
    -------
    ExpectedPerformance
        ``accuracy``, ``brier``, ``log_loss`` and ``auc`` (`MeanInterval`) if calibrated, and the
        dict ``adjusted`` of the same. The log loss is in nats. The Brier score is that of
        :class:`~skcalib.scores.Brier`, :math:`(p - y)^2` for two classes. There is no AUC for more
        than two classes.

    Raises
    ------
    ValueError
        For invalid forecasts, a labelled window with another number of columns or fewer than 10
        samples, an error interval that is invalid or of another metric, and if `labelled` and
        `error_interval` are both given.

    See Also
    --------
    CalibrationMonitor : Detects a loss of calibration once labels arrive.
    compare_windows : Compares two labelled windows.

    Notes
    -----
    **What it cannot detect.** If P(Y | X) changes, the forecasts stay the same, and so do these
    numbers. Calibration can also change with the distribution of X alone. Labels are assumed
    independent given the forecasts.

    Cost: one sort, and the fit of the map. Coverage in simulations: :ref:`without_labels`.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel. A baseline for detecting misclassified and
       out-of-distribution examples in neural networks. ICLR 2017.
    .. [2] S. Garg, S. Balakrishnan, Z. Lipton, B. Neyshabur and H. Sedghi. Leveraging unlabeled
       data to predict out-of-distribution performance. ICLR 2022 (average confidence).
    .. [3] A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan and T. Zrnic.
       Prediction-powered inference. Science 382, 2023 (the correction by a labelled window).

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import expected_performance
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 3, 2000)
    >>> expected = expected_performance(p)
    >>> round(expected.accuracy.estimate, 2), round(expected.auc.estimate, 2)
    (0.78, 0.78)
    """
    if labelled is not None and error_interval is not None:
        raise ValueError("Pass labelled or error_interval, not both. Labels give more information.")
    if labelled is None and not (labels is None and pos_label is None):
        raise ValueError("labels and pos_label belong to labelled: pass labelled too.")
    check_indices(y_proba=y_proba, sample_weight=sample_weight)
    forecast = check_proba(y_proba)
    weight, forecast = drop_zero_weights(sample_weight, forecast)
    expected = _expectations(forecast, forecast, weight)
    tail = (1 - confidence_level) / 2
    intervals = {
        key: _interval(key, expectation, _Error.of_labels(expectation), tail)
        for key, expectation in expected.items()
    }
    adjusted, n_labelled = {}, 0
    if labelled is not None:
        problem = _labelled_problem(labelled, labels, pos_label, y_proba)
        adjusted, n_labelled = _as_labelled(problem, forecast, weight, tail), problem.n_samples
    elif error_interval is not None:
        adjusted = _within_error(error_interval, expected, confidence_level)
    return ExpectedPerformance(
        n_samples=len(weight),
        n_labelled=n_labelled,
        confidence_level=float(confidence_level),
        accuracy=intervals["accuracy"],
        brier=intervals["brier"],
        log_loss=intervals["log_loss"],
        auc=intervals.get("auc"),
        adjusted=adjusted,
    )


# --- Metrics whose labels have known probabilities ------------------------------------------------


@dataclass(frozen=True)
class _Expectation:
    """A metric of forecasts whose labels have the probabilities ``chance`` (n, K).

    ``value`` changes by ``share @ sum(slope * change, axis=1)`` with a small change of the chances;
    for means ``slope`` has the value of each possible label. ``share`` (n,) sums to one.
    """

    value: float
    slope: np.ndarray
    chance: np.ndarray
    share: np.ndarray

    @property
    def centred(self) -> np.ndarray:
        """Slopes, 0 for labels of infinite loss, minus their mean under the chances of a sample."""
        slope = np.where(np.isfinite(self.slope), self.slope, 0.0)
        return slope - (self.chance * slope).sum(axis=1, keepdims=True)


def _expectations(forecast, chance, weight):
    """`_Expectation` of each metric that exists; with one-hot chances, what labels give."""
    share = weight / weight.sum()
    slopes = {"accuracy": np.eye(forecast.shape[1])[top_class(forecast)]}
    for key, score in SCORES.items():  # the loss of each possible label
        gradient = score.gradient(forecast)
        inner = np.where(forecast > 0, gradient, 0.0) * forecast
        slopes[key] = (score.entropy(forecast) - inner.sum(axis=1))[:, None] + gradient
    expectations = {}
    for key, slope in slopes.items():
        mean = np.where(chance > 0, slope, 0.0)
        value = float(share @ (chance * mean).sum(axis=1))
        expectations[key] = _Expectation(value, slope, chance, share)
    area = _area(forecast[:, 1], chance[:, 1], weight) if forecast.shape[1] == 2 else None
    if area is not None:
        value, slope = area
        expectations["auc"] = _Expectation(value, slope, chance, share)
    return expectations


def _area(p, chance, weight):
    """The area under the ROC curve of p for events of some chances, and its slopes (n, 2)."""
    _, place = np.unique(merge_ties(p), return_inverse=True)
    event, non_event = weight * chance, weight * (1 - chance)
    at_event, at_other = np.bincount(place, event), np.bincount(place, non_event)
    below = (np.cumsum(at_other) - at_other / 2)[place]  # weight of the others below
    above = (at_event.sum() - np.cumsum(at_event) + at_event / 2)[place]
    with_itself = event * non_event  # a sample is no pair with itself
    pairs = event.sum() * non_event.sum() - with_itself.sum()
    if not pairs / weight.sum() > _FEWEST_PAIRS * weight.sum():
        return None
    area = float(np.clip((event @ below - with_itself.sum() / 2) / pairs, 0.0, 1.0))
    gain = below - non_event / 2 - area * (non_event.sum() - non_event)
    loss = above - event / 2 - area * (event.sum() - event)
    slope = (gain - loss) * (weight.sum() / pairs)
    return area, np.column_stack([np.zeros(len(p)), slope])


# --- Intervals ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Error:
    """Second and third central moment of an error."""

    variance: float
    third: float

    @classmethod
    def of_labels(cls, expectation):
        """Of a metric of random labels; infinite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = expectation.share[:, None] * expectation.centred
            variance, third = (
                float(np.sum(expectation.chance * values**power)) for power in (2, 3)
            )
        return cls(variance if np.isfinite(variance) else np.inf, third)


def _interval(key, expectation, error, tail, *, shift=0.0, reach=0.0):
    """Interval of value + shift, whose limits are further away by `reach`."""
    _, lowest, highest = METRICS[key]
    value, spread = expectation.value + shift, float(np.sqrt(error.variance))
    low = high = value
    if 0 < spread < np.inf:
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            skew = np.float64(error.third) / np.float64(spread) ** 3
        ends = pearson3.ppf([tail, 1 - tail], skew if np.isfinite(skew) else 0.0)
        low, high = value + spread * min(ends[0], 0.0), value + spread * max(ends[1], 0.0)
    elif spread == np.inf:
        low, high = lowest, highest
    value, low, high = (
        float(np.clip(end, lowest, highest)) for end in (value, low - reach, high + reach)
    )
    return MeanInterval(value, low, high, spread)


# --- The labelled window --------------------------------------------------------------------------


def _labelled_problem(labelled, labels, pos_label, y_proba) -> Any:
    if not isinstance(labelled, (tuple, list)) or len(labelled) not in (2, 3):
        raise ValueError(
            "labelled must be a tuple (y_true, y_proba) or (y_true, y_proba, sample_weight) of the "
            "last labelled window."
        )
    name = "y_proba of labelled"
    y_true, labelled_proba = labelled[:2]
    weight = labelled[2] if len(labelled) == 3 else None
    problem = check_problem(y_true, labelled_proba, None, weight, labels, pos_label, name=name)
    shapes = np.shape(labelled_proba), np.shape(y_proba)
    columns, others = (shape[1] if len(shape) == 2 else 1 for shape in shapes)
    if columns != others:
        raise ValueError(
            f"{name} has {columns} columns, and y_proba has {others}: both must be forecasts of "
            "the same classes, in the same form."
        )
    check_column_names(y_proba, problem.classes, "y_proba")
    if problem.n_samples < FEWEST:
        raise ValueError(
            f"The labelled window has {problem.n_samples} samples of positive weight: at least "
            f"{FEWEST} are needed, preferably some hundreds."
        )
    return problem


def _as_labelled(problem, forecast, weight, tail):
    """The metrics if the relation of labels and forecasts is that of the labelled window."""
    recalibrate = _Map(problem)
    new = _expectations(forecast, recalibrate(forecast), weight)
    old = _expectations(problem.forecast, recalibrate.chance, problem.weight)
    observed = _expectations(problem.forecast, problem.target, problem.weight)
    residual = problem.target - recalibrate.chance
    size = inflation(effective_size(problem.weight))
    adjusted = {}
    for key, expectation in new.items():
        if key not in old or key not in observed:
            continue
        shift = observed[key].value - old[key].value
        if not (np.isfinite(shift) and np.isfinite(expectation.value)):
            continue
        slope = old[key].centred + recalibrate.slope_of_fit(expectation, forecast, old[key])
        terms = old[key].share * (residual * slope).sum(axis=1)
        terms -= old[key].share * terms.sum()
        labels = _Error.of_labels(expectation)
        error = _Error(
            labels.variance + size * float(terms @ terms), labels.third - float(np.sum(terms**3))
        )
        adjusted[key] = _interval(key, expectation, error, tail, shift=shift)
    return adjusted


class _Map:
    """The recalibration map of the labelled window; a forecast of 0 stays 0.

    ``chance`` (n, K) is what it makes of the forecasts of that window.
    """

    def __init__(self, problem):
        self.limit, self.link = detection_limit(problem.forecast), BiasCorrectedTemperature()
        self.z = log_forecast(problem.forecast, self.limit)
        self.theta = fit_bias_corrected(self.z, problem.target, problem.weight).theta
        self.mass = problem.weight.sum()
        self.chance = chance = self(problem.forecast)
        centred = chance * (self.z - (chance * self.z).sum(axis=1, keepdims=True))
        n_classes, share = chance.shape[1], problem.weight / self.mass
        information = np.empty((1 + n_classes, 1 + n_classes))
        information[0, 0] = share @ (centred * self.z).sum(axis=1)
        information[0, 1:] = information[1:, 0] = share @ centred
        information[1:, 1:] = np.diag(share @ chance) - (chance.T * share) @ chance
        information[np.diag_indices(1 + n_classes)] += _WEAK_PRIOR / problem.n_samples
        self.free = np.append(True, np.full(n_classes, np.any(self.theta[1:] != 0)))
        self.information = information[np.ix_(self.free, self.free)]

    def __call__(self, forecast):
        chance = softmax(self.link.apply(self.theta, log_forecast(forecast, self.limit)), axis=1)
        chance = np.where(forecast > 0, chance, 0.0)
        return chance / chance.sum(axis=1, keepdims=True)

    def slope_of_fit(self, new, forecast, old):
        """Slopes (n, K) in the labels of the error of the fitted parameters."""
        z = log_forecast(forecast, self.limit)
        change = self._gradient(new, z) - self._gradient(old, self.z)
        direction = np.zeros(len(self.theta))
        direction[self.free] = np.linalg.solve(self.information, change[self.free])
        return self.link.apply(direction, self.z)

    def _gradient(self, expectation, z):
        """Derivative of a metric in the parameters."""
        return self.link.vjp(
            self.theta, z, expectation.chance * expectation.centred * expectation.share[:, None]
        )


# --- The error interval ---------------------------------------------------------------------------


def _within_error(interval, expected, confidence_level):
    """The metrics if the Brier calibration error is at most the upper limit of its interval."""
    if not isinstance(interval, ErrorInterval):
        raise ValueError(
            "error_interval must be an ErrorInterval, the result of calibration_error_interval; "
            f"got {type(interval).__name__}."
        )
    if not interval.target.startswith("E D(C, S)"):
        raise ValueError(
            "error_interval must be that of the Brier calibration error, "
            f"calibration_error_interval(..., metric='brier'), but its target is {interval.target}."
        )
    if not interval.valid:
        raise ValueError(
            f"error_interval is not valid, as {interval.reason}: its upper limit may be too small."
        )
    tail = (1 - confidence_level - (1 - interval.confidence_level) / 2) / 2
    if not tail > _LEAST_TAIL * (1 - confidence_level):
        raise ValueError(
            f"error_interval has the level {interval.confidence_level:g}, which is too low for "
            f"intervals of level {confidence_level:g}: compute it with "
            f"confidence_level={confidence_level:g} or higher."
        )
    adjusted = {}
    for key, expectation in expected.items():
        # Brier halves the squared distance of two classes.
        size = max(interval.high, 0.0) * (2 if expectation.chance.shape[1] == 2 else 1)
        if key != "auc" and np.isfinite(expectation.slope).all():
            square = (expectation.slope - expectation.slope.mean(axis=1, keepdims=True)) ** 2
            reach = float(np.sqrt(size * (expectation.share @ square.sum(axis=1))))
            adjusted[key] = _interval(
                key, expectation, _Error.of_labels(expectation), tail, reach=reach
            )
    return adjusted
