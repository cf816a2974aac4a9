"""Performance that is expected of forecasts without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from skcalib._ties import merge_ties
from skcalib._validation import check_confidence_level, check_proba, check_weight
from skcalib.inference import MeanInterval
from skcalib.problem import check_problem
from skcalib.scores import Brier, LogLoss

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from skcalib._arguments import Label

#: Field -> (name, smallest and largest value).
METRICS = {
    "accuracy": ("Accuracy", 0.0, 1.0),
    "brier": ("Brier score", 0.0, np.inf),
    "log_loss": ("Log loss", 0.0, np.inf),
    "auc": ("AUC (concordance)", 0.0, 1.0),
}
LIMITS = (
    "Without labels, a change of the frequency of the classes at equal features cannot be "
    "detected: these numbers would not change."
)


@dataclass(frozen=True)
class ExpectedPerformance:
    """Result of :func:`~skcalib.expected_performance`.

    Attributes
    ----------
    n_samples, n_labelled : int
        Samples without labels, and those of the labelled window (0 if there is none).
    confidence_level : float
        Level of all intervals.
    accuracy, brier, log_loss : MeanInterval
        Expected of calibrated forecasts, with the range that the random labels leave.
    auc : MeanInterval or None
        The same for the area under the ROC curve; None for more than two classes, and if no pair
        of an event and another sample is possible.
    corrected : dict of str to MeanInterval
        The same, plus the deviation of the labelled window from its own expectation, with the
        uncertainty of both. Empty without a labelled window. A deviation that is infinite is left
        out.
    """

    n_samples: int
    n_labelled: int
    confidence_level: float
    accuracy: MeanInterval
    brier: MeanInterval
    log_loss: MeanInterval
    auc: MeanInterval | None
    corrected: dict[str, MeanInterval]

    def __str__(self) -> str:
        lines = [f"Expected of {self.n_samples:,} samples without labels"]
        lines[0] += f"; intervals of {100 * self.confidence_level:g} %"
        lines += [f"{'':18} {'if calibrated':>24}" + f"  {'corrected':>24}" * bool(self.corrected)]
        for key, (name, *_) in METRICS.items():
            found = [getattr(self, key)] + [self.corrected.get(key)] * bool(self.corrected)
            cells = ["-" if one is None else _text(one) for one in found]
            lines.append(f"{name:18} " + "  ".join(f"{cell:>24}" for cell in cells))
        return "\n".join([*lines, LIMITS])

    def to_frame(self) -> DataFrame:
        """One row per metric; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Columns: estimate, low and high if calibrated, and the same corrected by the labelled
            window.
        """
        import pandas as pd

        rows = {}
        for key in METRICS:
            row = {}
            for prefix, one in (("", getattr(self, key)), ("corrected_", self.corrected.get(key))):
                for name in ("estimate", "low", "high"):
                    row[prefix + name] = np.nan if one is None else getattr(one, name)
            rows[key] = row
        return pd.DataFrame.from_dict(rows, orient="index")


def expected_performance(
    y_proba: ArrayLike,
    *,
    labelled: tuple[ArrayLike, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    confidence_level: float = 0.95,
) -> ExpectedPerformance:
    r"""Performance that forecasts will have if they are calibrated, before labels are known.

    A metric that is a mean of values :math:`v(p_i, y_i)` has, given the forecasts and under
    calibration, the expectation and the variance

    .. math::

       \frac 1 n \sum_i e_i, \quad e_i = \sum_k p_{ik}\, v(p_i, k), \qquad
       \frac 1 {n^2} \sum_i \Bigl(\sum_k p_{ik}\, v(p_i, k)^2 - e_i^2\Bigr) .

    The accuracy expected is the mean of the largest probability, and the Brier score and log loss
    expected are the mean entropies of the forecasts. The area under the ROC curve is a ratio of
    sums over pairs; the expectations of both are divided,

    .. math::

       \frac{\sum_{i \ne j} p_i (1 - p_j)\,(1[p_i > p_j] + \tfrac 1 2 1[p_i = p_j])}
            {\sum_{i \ne j} p_i (1 - p_j)} ,

    and its variance is that of its linear part in the labels.

    No label is used, so calibration is an assumption. With a labelled window, its *deviation*, the
    mean of :math:`v(p_i, y_i) - e_i` there, is added: the calibration error as this metric measures
    it, with its uncertainty. This assumes that the deviation is still the same: that the relation
    of labels and forecasts has not changed, and that the forecasts are distributed similarly.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Forecasts whose labels are unknown.
    labelled : tuple (y_true, y_proba), default=None
        Labels and forecasts of the last labelled window.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights of the samples without labels.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, for the labelled window.
    pos_label : label, default=None
        The class of a single column, for the labelled window; by default the last class.
    confidence_level : float, default=0.95
        Level of the intervals: of the metric on these samples, not of a mean over other samples.

    Returns
    -------
    ExpectedPerformance
        The metrics, if calibrated and corrected. Log loss in nats; the Brier score is that of
        :func:`~skcalib.score_decomposition`.

    Raises
    ------
    ValueError
        For invalid forecasts, and a labelled window with another number of classes.

    See Also
    --------
    CalibrationMonitor : Detects a loss of calibration once labels arrive.
    compare_windows : Compares two labelled windows.

    Notes
    -----
    **What it cannot detect.** If the frequency of the classes at equal features changes, neither
    the forecasts nor these numbers do. Cost: one sort.

    References
    ----------
    .. [1] S. Garg, S. Balakrishnan, Z. Lipton, B. Neyshabur and H. Sedghi. Leveraging unlabeled
       data to predict out-of-distribution performance. ICLR 2022 (average confidence).

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import expected_performance
    >>> p = np.random.default_rng(0).beta(1, 3, 2000)
    >>> expected = expected_performance(p)
    >>> round(expected.accuracy.estimate, 2), round(expected.auc.estimate, 2)
    (0.79, 0.78)
    """
    check_confidence_level(confidence_level)
    forecast = check_proba(y_proba)
    weight = check_weight(sample_weight, len(forecast))
    forecast, weight = forecast[weight > 0], weight[weight > 0]
    tables = _tables(forecast, weight)
    expected = {key: _moments(forecast, weight, table) for key, table in tables.items()}
    quantile = float(norm.ppf((1 + confidence_level) / 2))
    found = {key: _interval(key, *parts, quantile) for key, parts in expected.items()}
    corrected, n_labelled = {}, 0
    if labelled is not None:
        problem = _labelled_problem(labelled, labels, pos_label, forecast.shape[1])
        n_labelled = problem.n_samples
        for key, (shift, error) in _deviations(problem).items():
            if key in expected and np.isfinite(shift):
                estimate, own = expected[key]
                total = float(np.hypot(own, error))
                corrected[key] = _interval(key, estimate + shift, total, quantile)
    return ExpectedPerformance(
        n_samples=len(weight),
        n_labelled=n_labelled,
        confidence_level=float(confidence_level),
        accuracy=found["accuracy"],
        brier=found["brier"],
        log_loss=found["log_loss"],
        auc=found.get("auc"),
        corrected=corrected,
    )


def _tables(forecast, weight):
    """Values (n, K) of each metric for every possible label."""
    classes = np.eye(forecast.shape[1])
    tables = {"accuracy": classes[forecast.argmax(axis=1)]}
    for key, score in (("brier", Brier()), ("log_loss", LogLoss())):
        with np.errstate(divide="ignore"):
            columns = [
                score.loss(np.broadcast_to(one, forecast.shape), forecast) for one in classes
            ]
        tables[key] = np.column_stack(columns)
    if forecast.shape[1] == 2:
        area = _area(forecast[:, 1], weight)
        if area is not None:
            tables["auc"] = area
    return tables


def _moments(forecast, weight, table):
    """Expectation of the mean of the values, and its standard error."""
    possible = forecast > 0
    values = np.where(possible, table, 0.0)
    mean = (forecast * values).sum(axis=1)
    variance = np.maximum((forecast * values**2).sum(axis=1) - mean**2, 0.0)
    share = weight / weight.sum()
    return float(share @ mean), float(np.sqrt(share**2 @ variance))


def _area(p, weight):
    """Values (n, 2) whose expected mean is the area, and whose deviations are its linear part."""
    _, place = np.unique(merge_ties(p), return_inverse=True)
    event, other = weight * p, weight * (1 - p)
    at_event, at_other = np.bincount(place, event), np.bincount(place, other)
    below = np.cumsum(at_other) - at_other / 2  # weight of the other class below each score
    above = at_event.sum() - np.cumsum(at_event) + at_event / 2
    own = event * other  # a sample is no pair with itself
    pairs = event.sum() * other.sum() - own.sum()
    if not pairs > 0:
        return None
    area = (event @ below[place] - own.sum() / 2) / pairs
    gain = weight * (below[place] - other / 2 - area * (other.sum() - other))
    loss = weight * (above[place] - event / 2 - area * (event.sum() - event))
    slope = (gain - loss) / pairs * weight.sum() / weight
    return np.column_stack([area - slope * p, area + slope * (1 - p)])


def _labelled_problem(labelled, labels, pos_label, n_classes) -> Any:
    if not isinstance(labelled, (tuple, list)) or len(labelled) != 2:
        raise ValueError("labelled must be a tuple (y_true, y_proba) of the last labelled window.")
    problem = check_problem(
        labelled[0], labelled[1], labels=labels, pos_label=pos_label, name="y_proba of labelled"
    )
    if problem.forecast.shape[1] != n_classes:
        raise ValueError(
            f"labelled has {problem.forecast.shape[1]} classes, and y_proba has {n_classes}: both "
            "must be forecasts of the same classes."
        )
    return problem


def _deviations(problem):
    """Mean deviation of each metric from its expectation, and its standard error."""
    forecast, weight = problem.forecast, problem.weight
    share = weight / weight.sum()
    found = {}
    for key, table in _tables(forecast, weight).items():
        hit = problem.target == 1
        value = table[hit]
        mean = (forecast * np.where(forecast > 0, table, 0.0)).sum(axis=1)
        if not np.isfinite(value).all():
            found[key] = np.inf, np.inf
            continue
        difference = value - mean
        shift = float(share @ difference)
        found[key] = shift, float(np.sqrt(share**2 @ (difference - shift) ** 2))
    return found


def _interval(key, estimate, error, quantile):
    _, lowest, highest = METRICS[key]
    low, high = estimate - quantile * error, estimate + quantile * error
    estimate = float(np.clip(estimate, lowest, highest))
    return MeanInterval(estimate, max(low, lowest), min(high, highest), error)


def _text(one):
    return f"{one.estimate:.4f} [{one.low:.4f}, {one.high:.4f}]"
