"""Summary of the calibration of a risk model, like that of `val.prob` in R."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from skcalib._util.formatting import Record, import_pandas, pvalue_text, record_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib.data.notions import Canonical
from skcalib.data.problem import binary_events, only_problem
from skcalib.error_intervals.proper import estimates_of_solved
from skcalib.errors.logistic import (
    calibration_intercept_slope,
    coefficient_intervals,
    uncertain_logits,
)
from skcalib.proper.proper import solve_notion
from skcalib.scores import Brier, LogLoss, TotalVariation, weighted_mean, weighted_quantile
from skcalib.significance.binary import JointRatio, run_test
from skcalib.stats.means import (
    MeanInterval,
    concordance_interval,
    mean_interval,
    mean_loss_interval,
    observed_expected_ratio,
    rate_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from skcalib.data.problem import LabelsLike, Problem
    from skcalib.proper.map_average import AveragedProblem

#: Field -> (name, perfect value, explanation), in the order of the table.
ROWS = {
    "mean_predicted": ("Mean predicted", None, "mean forecast of the event"),
    "observed": ("Observed", None, "share of samples with the event"),
    "observed_expected_ratio": ("Ratio O/E", 1.0, "below 1: predictions are too high"),
    "in_the_large": ("Calibration in the large", 0.0, "log odds; below 0: too high"),
    "intercept": ("Calibration intercept", 0.0, "log odds at a forecast of one half"),
    "slope": ("Calibration slope", 1.0, "below 1: too extreme"),
    "unreliability": ("Unreliability index U", 0.0, "gain of a logistic recalibration"),
    "unreliability_pvalue": ("p-value of U", None, "for intercept 0 and slope 1"),
    "discrimination": ("Discrimination index D", None, "gain over the mean, recalibrated"),
    "quality": ("Quality index Q", None, "gain over the mean, D - U"),
    "ici": ("ICI", 0.0, "mean distance to a smooth curve"),
    "e50": ("E50", 0.0, "median distance to the curve"),
    "e90": ("E90", 0.0, "90th percentile of the distance"),
    "emax": ("Emax", 0.0, "largest distance"),
    "eci": ("ECI", 0.0, "100 times the mean squared distance"),
    "brier_calibration_error": ("Brier calibration error", 0.0, "saved by perfect recalibration"),
    "brier": ("Brier score", 0.0, "mean squared error"),
    "brier_skill": ("Scaled Brier score", 1.0, "0: no better than the mean"),
    "log_loss": ("Log loss", 0.0, "in nats"),
    "auc": ("AUC (concordance)", 1.0, "0.5: no information"),
}
LINES = ("in_the_large", "intercept", "slope")
RATIO = ("unreliability", "unreliability_pvalue", "discrimination", "quality")
CURVE = ("ici", "e50", "e90", "emax", "eci", "brier_calibration_error")
NO_SPREAD = "Every sample has the same loss, so its spread cannot be estimated."
ONE_CLASS = "All labels are of one class: the interval does not allow for labels of the other."


@dataclass(frozen=True)
class CalibrationSummary(Record):
    r"""Result of :func:`~skcalib.calibration_summary`: the numbers reported for a risk model.

    A quantity that does not exist for the data is None, and `notes` gives the reason.

    Attributes
    ----------
    event : str
        Name of the class whose probability was predicted.
    n_samples, n_events : int
        Samples of positive weight, and those of them with the event.
    n_clusters : int or None
        Number of clusters; None without `groups`.
    confidence_level : float
        Level of all intervals.
    mean_predicted : float
        Mean predicted probability of the event.
    observed : MeanInterval
        Frequency of the event, with its exact interval.
    observed_expected_ratio : MeanInterval or None
        Observed over expected number of events; below 1 the predictions are too high.
    in_the_large : MeanInterval or None
        Calibration in the large, in units of the logit; below 0 the predictions are too high.
    intercept, slope : MeanInterval or None
        Coefficients of the logistic recalibration; a slope below 1 means that predictions are too
        extreme.
    unreliability, unreliability_pvalue : float or None
        Unreliability index U of `val.prob`, :math:`(2 \{\ell(\hat a, \hat b) - \ell(0, 1)\} - 2) /
        n` with the log likelihood :math:`\ell` of the logistic recalibration. It is the improvement
        by the recalibration, corrected for optimism. The p-value is that of
        :func:`~skcalib.significance.logistic_calibration_test`.
    discrimination, quality : float or None
        Discrimination index :math:`D = (2 \{\ell(\hat a, \hat b) - \ell_0\} - 1) / n`, with the log
        likelihood :math:`\ell_0` of the mean frequency, and quality index Q = D - U. With `groups`
        the 2 and the 1 are replaced by the means of the gains that clusters give by chance.
    ici, e50, e90, emax : float or None
        Mean, median, 90th percentile and maximum of the distance to a smooth calibration curve, in
        units of probability. The curve is fitted to the same samples. They have no interval here,
        and are biased upward.
    eci : float or None
        Estimated calibration index: 100 times the mean squared distance to the same curve.
    brier_calibration_error : MeanInterval or None
        The reduction of the Brier score by a perfect recalibration, in squared units: the default
        of `proper_calibration_error` with the interval of `CalibrationErrorEstimator`. The estimate
        may be below zero, the interval is not.
    brier : MeanInterval
        Mean squared error of the probability of the event, in [0, 1].
    brier_skill : MeanInterval or None
        Scaled Brier score, at most 1. It is 0 for a constant forecast equal to the frequency of the
        event.
    log_loss : MeanInterval
        Mean log loss in nats; infinite if an event had probability 0.
    auc : MeanInterval or None
        Concordance in [0, 1].
    notes : dict
        For the name of a quantity, the reason why it is missing, or its limitation.

    See Also
    --------
    skcalib.calibration_summary : Makes this record.
    skcalib.CalibrationReport : A verdict with figures.

    Examples
    --------
    >>> from skcalib import calibration_summary
    >>> summary = calibration_summary([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9])
    >>> summary.slope is None
    True
    >>> "separate the two classes" in summary.notes["slope"]
    True
    """

    event: str
    n_samples: int
    n_events: int
    confidence_level: float
    mean_predicted: float
    observed: MeanInterval
    observed_expected_ratio: MeanInterval | None
    in_the_large: MeanInterval | None
    intercept: MeanInterval | None
    slope: MeanInterval | None
    unreliability: float | None
    unreliability_pvalue: float | None
    discrimination: float | None
    quality: float | None
    ici: float | None
    e50: float | None
    e90: float | None
    emax: float | None
    eci: float | None
    brier_calibration_error: MeanInterval | None
    brier: MeanInterval
    brier_skill: MeanInterval | None
    log_loss: MeanInterval
    auc: MeanInterval | None
    notes: dict = field(default_factory=dict)
    n_clusters: int | None = None

    _beside = ("event", "n_samples", "n_events", "n_clusters", "confidence_level")

    def _columns(self):
        rows = []
        for key, (quantity, perfect, explanation) in ROWS.items():
            value, limits = getattr(self, key), (None, None)
            if isinstance(value, MeanInterval):
                value, limits = value.estimate, (value.low, value.high)
            rows.append((quantity, value, *limits, perfect, self.notes.get(key, explanation)))
        names = ("quantity", "estimate", "low", "high", "perfect", "explanation")
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def to_frame(self) -> DataFrame:
        """One row per quantity, for a paper or a spreadsheet; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Index: the name of the field. Columns: ``quantity`` (a name to print), ``estimate``,
            ``low``, ``high``, ``perfect`` (the value of a perfect forecast) and ``explanation``.
            Numbers that do not exist are missing values, and the explanation gives the reason.
        """
        pandas, table = import_pandas(), self._columns()
        for name in ("estimate", "low", "high", "perfect"):
            table[name] = pandas.array(table[name], dtype="Float64")
        return pandas.DataFrame(table, index=pandas.Index(ROWS, name="name"))

    def lines(self) -> list[tuple[str, str]]:
        """Names and numbers as text, for a table beside a figure."""
        counts = ("Samples", f"{self.n_samples:,}"), ("Events", f"{self.n_events:,}")
        named = [
            (name, " ".join(_interval_text(key, getattr(self, key))).strip())
            for key, (name, *_) in ROWS.items()
        ]
        return [*counts, *named, ("Level of intervals", f"{100 * self.confidence_level:g} %")]

    def __str__(self) -> str:
        clusters = "" if self.n_clusters is None else f" in {self.n_clusters} clusters"
        head = f"{self.n_samples} samples{clusters}, {self.n_events} with the event {self.event}; "
        lines = [f"{head}intervals of {100 * self.confidence_level:g} %"]
        cells = [("", "estimate", "interval", "perfect", "")]
        for key, (name, perfect, explanation) in ROWS.items():
            estimate, interval = _interval_text(key, getattr(self, key))
            best = "" if perfect is None else f"{perfect:g}"
            cells.append((name, estimate, interval, best, explanation))
        width = [max(len(row[j]) for row in cells) for j in range(4)]
        for row in cells:
            parts = [row[0].ljust(width[0])]
            parts += [row[j].rjust(width[j]) for j in (1, 2, 3)]
            lines.append("  ".join([*parts, row[4]]).rstrip())
        for note in dict.fromkeys(self.notes.values()):
            names = ", ".join(ROWS[key][0] for key in ROWS if self.notes.get(key) == note)
            lines += wrap(f"{names}: {note}", 100)
        return "\n".join(lines)


def _interval_text(key, value):
    """Estimate and interval of a quantity as text."""
    if value is None:
        return "none", ""
    if not isinstance(value, MeanInterval):
        if key.endswith("pvalue"):
            return pvalue_text(value).removeprefix("p ").removeprefix("= "), ""
        return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.1g}", ""
    if not np.isfinite([value.low, value.high]).all():
        return f"{value.estimate:z.3f}", ""
    estimate, _, interval = record_text(value).partition(" ")
    if key == "brier_calibration_error" and value.estimate <= 0:
        estimate = "none detected"
    return estimate, interval


@checks_parameters
def calibration_summary(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> CalibrationSummary:
    r"""Summary of the calibration of a risk model, as reported by validation studies.

    The model predicts the probability p of an event, such as a disease or a default. The labels y
    are from data that the model was not fitted to. The summary has four levels:

    - *mean*: the mean forecast against the observed frequency, their ratio
      :math:`O/E = \sum y_i / \sum p_i`, and the calibration in the large;
    - *weak*: intercept a and slope b of :math:`\operatorname{logit} P(Y = 1 | p) = a + b
      \operatorname{logit} p` (:func:`~skcalib.calibration_intercept_slope`), and the unreliability
      index U, the gain in likelihood by this recalibration, with the p-value of a = 0 and b = 1
      (:func:`~skcalib.significance.logistic_calibration_test`);
    - *moderate*: mean (ICI), median (E50), 90th percentile (E90) and maximum (Emax) of the distance
      :math:`|\hat C_i - p_i|` to a smooth calibration curve
      (:func:`~skcalib.integrated_calibration_index`), and 100 times its mean square (ECI). Also the
      Brier calibration error (:func:`~skcalib.proper_calibration_error`), the mean squared distance
      corrected for the optimism of the fitted curve;
    - *overall*: the discrimination index D and the quality index Q = D - U, the Brier score
      :math:`B = \overline{(p - y)^2}`, the scaled Brier score :math:`1 - B / (\bar y (1 - \bar
      y))`, also called index of prediction accuracy, the log loss, and the concordance, which is
      the area under the ROC curve.

    The levels of calibration are those of Van Calster et al. [1]_; the choice of numbers follows
    Steyerberg [2]_, ``val.prob`` in the R package rms and ``val.prob.ci.2`` in CalibrationCurves.
    Their curve is loess or a spline. Here it is the average of recalibration maps by which the
    default of :func:`~skcalib.proper_calibration_error` estimates C, so ICI, E50, E90 and Emax
    differ.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples,) or (n_samples, 2), optional
        Probability of the event, or of both classes; omitted with a sketch.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights: a weight of 2 is not two samples.
    pos_label : label, default=None
        The event; by default the last class.

    Returns
    -------
    CalibrationSummary
        Record with one field per quantity, `to_frame` and a table when printed.

    Raises
    ------
    ValueError
        For invalid input, and for more than two classes.

    See Also
    --------
    CalibrationReport : A report with figures and advice.

    Notes
    -----
    Intervals: exact (Clopper-Pearson at the effective size) for the observed frequency and O/E,
    given the forecasts; Student's with the sandwich covariance for intercept and slope; Student's
    for means of losses, or with fewer than 40 events those of a score test; by test inversion for
    the Brier calibration error (:func:`~skcalib.calibration_error_interval`); by the delta method
    for the scaled Brier score; DeLong's on the logit scale, and with few events Newcombe's too, for
    the concordance. They refer to new samples from the same population, for the fixed model. Cost:
    at most eight logistic regressions of fewer than twenty terms, and O(n log n) for sorting.

    References
    ----------
    .. [1] B. Van Calster et al. A calibration hierarchy for risk models was defined: from utopia to
       empirical data. Journal of Clinical Epidemiology 74, 2016.
    .. [2] E. W. Steyerberg. Clinical Prediction Models. Springer, 2nd edition, 2019. Chapter 15.

    Examples
    --------
    >>> from skcalib import calibration_summary
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)  # too extreme: the true slope is 0.6
    >>> summary = calibration_summary(data.y, data.y_proba[:, 1])
    >>> print(summary.slope)
    0.601 [0.549, 0.654]
    >>> print(summary.observed_expected_ratio)
    0.983 [0.939, 1.028]
    """
    problem, _ = only_problem(
        y_true,
        y_proba,
        Canonical(),
        groups=groups,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    if problem.forecast.shape[1] > 2:
        raise ValueError(
            f"calibration_summary is for two classes, but y_proba has "
            f"{problem.forecast.shape[1]} columns: pass one class against the rest, "
            "(y_true == c, y_proba[:, c])."
        )
    ((_, problem),) = binary_events(problem, pos_label, Canonical())
    return summary_of_problem(problem, confidence_level)


def summary_of_problem(
    problem: Problem, confidence_level: float, solved: AveragedProblem | None = None
) -> CalibrationSummary:
    """`calibration_summary` of the `Problem` of an event, and its `AveragedProblem` if known."""
    label, forecast, weight = problem.target[:, 1], problem.forecast[:, 1], problem.weight
    notes: dict[str, str] = {}
    rows: dict[str, Any] = {"weight": weight, "square": problem.square, "cluster": problem.cluster}
    rows["confidence_level"] = confidence_level

    def attempt(names, make, *arguments, **options):
        """The quantities by name, or None for each with the error message in the notes."""
        try:
            values = make(*arguments, **options)
        except ValueError as error:
            notes.update(dict.fromkeys(names, str(error)))
            return dict.fromkeys(names)
        return values if isinstance(values, dict) else {names[0]: values}

    ratio = ("observed_expected_ratio",)
    return CalibrationSummary(
        event=str(problem.classes.tolist()[-1]),
        n_samples=problem.n_samples,
        n_events=problem.take(label == 1).n_samples,
        n_clusters=None if problem.cluster is None else problem.n_clusters,
        confidence_level=float(confidence_level),
        mean_predicted=float(weighted_mean(forecast, weight)),
        observed=rate_interval(label, **rows),
        **attempt(ratio, observed_expected_ratio, label, forecast, **rows),
        **attempt(LINES, _lines, problem, confidence_level, notes),
        **attempt(RATIO, _likelihood, problem),
        **attempt(CURVE, _curve, problem, solved, confidence_level, notes),
        **_losses(problem, confidence_level, notes),
        **attempt(("auc",), concordance_interval, label, forecast, **rows),
        notes=notes,
    )


def _lines(problem, confidence_level, notes):
    """Calibration in the large, intercept and slope; the first may exist without the others."""
    try:
        line = calibration_intercept_slope(
            problem, problem.forecast, confidence_level=confidence_level
        )
        return {name: getattr(line, name) for name in LINES}
    except ValueError as error:
        uncertain, log_odds = uncertain_logits(problem)
        outcome = uncertain.target[:, 1]
        if outcome.size == 0 or outcome.min() == outcome.max():
            raise
        notes |= dict.fromkeys(("intercept", "slope"), str(error))
        ones = np.ones((len(outcome), 1))
        (in_the_large,) = coefficient_intervals(ones, log_odds, uncertain, confidence_level)
        return {"in_the_large": in_the_large, "intercept": None, "slope": None}


def _likelihood(problem):
    """U with its p-value, D and Q."""
    uncertain_logits(problem)  # raises for an impossible label
    label = problem.target[:, 1]
    if label.min() == label.max():
        raise ValueError("Discrimination needs labels of both classes, and all are of one class.")
    test = JointRatio(problem)
    unreliability = run_test(test, problem)
    rate = float(weighted_mean(label, problem.weight))
    mean_loss = test.size * float(entr(rate) + entr(1 - rate))
    gain = 2 * (mean_loss - test.least_loss(label[test.uncertain]))
    # A slope adds one to the gain on average; with clusters as much as they make of one sample.
    optimism = 1.0 if problem.cluster is None else float(np.mean(test.law))
    discrimination = float((gain - optimism) / test.size)
    return {
        "unreliability": unreliability.estimate,
        "unreliability_pvalue": unreliability.pvalue,
        "discrimination": discrimination,
        "quality": discrimination - unreliability.estimate,
    }


def _curve(problem, solved, confidence_level, notes):
    """ICI, E50, E90, Emax and ECI, and the Brier calibration error, from one average of maps."""
    if solved is None:
        (solved,) = solve_notion(problem, notion=Canonical(), smoother=None)
    conditional, weight = solved.conditional, problem.weight
    distance = TotalVariation().divergence(conditional, problem.forecast)
    (error,) = estimates_of_solved(
        [solved], losses=[Brier()], notion=Canonical(), confidence_level=confidence_level
    )
    if problem.target[:, 1].min() == problem.target[:, 1].max():
        notes["brier_calibration_error"] = ONE_CLASS
    square = weighted_mean(Brier().divergence(conditional, problem.forecast), weight)
    quantiles = {"e50": 0.5, "e90": 0.9, "emax": 1}
    return {
        "ici": float(weighted_mean(distance, weight)),
        **{name: float(weighted_quantile(distance, weight, q)) for name, q in quantiles.items()},
        "eci": 100 * float(square),
        "brier_calibration_error": _inside(error.interval, 0.0, 1.0),
    }


def _losses(problem, confidence_level, notes):
    """Brier score, scaled Brier score and log loss, each in its range."""
    target, forecast, weight = problem.target, problem.forecast, problem.weight
    rows = {"weight": weight, "square": problem.square, "cluster": problem.cluster}
    losses = {}
    for name, score, highest in (("brier", Brier(), 1.0), ("log_loss", LogLoss(), np.inf)):
        interval = mean_loss_interval(
            partial(score.loss, forecast=forecast),
            forecast,
            target,
            confidence_level,
            estimate=problem.mean_loss(score),
            **rows,
        )
        if not np.isfinite(interval.estimate):
            wrong = problem.take(~np.isfinite(score.loss(target, forecast))).n_samples
            share = f"{wrong} of {problem.n_samples} samples"
            notes[name] = f"Infinite: the class that occurred has the forecast 0 in {share}."
        elif interval.standard_error == 0 and (forecast != 0.5).any():
            notes[name] = NO_SPREAD
            interval = MeanInterval(interval.estimate, 0.0, highest, np.inf)
        else:
            interval = _inside(interval, 0.0, highest)
        losses[name] = interval
    rate, loss = float(weighted_mean(target[:, 1], weight)), losses["brier"].estimate
    variance = rate * (1 - rate)
    if not variance > 0 or target[:, 1].min() == target[:, 1].max():
        notes |= {name: notes.get(name, ONE_CLASS) for name in losses}
        notes["brier_skill"] = "All labels are of one class: no forecast can improve on the mean."
        return losses | {"brier_skill": None}
    # The influence of a sample on 1 - B / (rate (1 - rate)), by the delta method.
    moved = (1 - 2 * rate) * (target[:, 1] - rate)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = Brier().loss(target, forecast) - loss
        influence = (moved * loss / variance - spread) / variance
    skill = 1 - loss / variance
    if not np.isfinite([skill, *influence]).all():
        notes["brier_skill"] = "Nearly all of the weight is on one class."
        return losses | {"brier_skill": None}
    interval = mean_interval(influence, confidence_level=confidence_level, estimate=skill, **rows)
    return losses | {"brier_skill": _inside(interval, -np.inf, 1.0)}


def _inside(interval, low, high):
    """An interval cut at the limits of the possible values."""
    return replace(interval, low=max(interval.low, low), high=min(interval.high, high))
