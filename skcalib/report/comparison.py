"""Several models, on the same samples or from a sketch of each."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils import indexable

from skcalib._util.formatting import printable
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import checks_parameters, completes_docstrings
from skcalib._util.records import frame_of
from skcalib._util.types import CV, ArrayLike, MatrixLike, RandomState
from skcalib.data.clusters import independent_size
from skcalib.data.labels import check_y
from skcalib.data.notions import Canonical, Notion, TopLabel
from skcalib.error_intervals.proper import saving_interval
from skcalib.errors.kernel import resolve_kernel
from skcalib.estimators.classifiers import make_folds
from skcalib.proper.proper import solve_notion
from skcalib.report.analysis import LOSSES, estimate_errors
from skcalib.report.findings import DecisionFinding, PairedDifference, noted, versions
from skcalib.report.page import comparison_page
from skcalib.report.report import CalibrationReport, Shown, as_json
from skcalib.report.wording import (
    OF_DECISIONS,
    QUANTITIES,
    headline_of_comparison,
    sentences_of_comparison,
)
from skcalib.risk_models.decisions import score_of_decision
from skcalib.scores import Brier, DecisionCost, LogLoss
from skcalib.significance.comparison import compare_problems
from skcalib.smoothers import LogitSmoother
from skcalib.stats.means import (
    MeanInterval,
    between_forecasts,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from skcalib.data.problem import ForecastSummary

_LEAST_LOG = -700.0  # logarithm of the smallest p-value


@completes_docstrings
class ComparisonReport(Shown):
    r"""Comparison of several models: calibration, loss, and significance of differences.

    Create one with `from_estimators`, with `from_predictions`, or from existing reports.
    ``print(report)`` shows the first screen, `to_text` returns the full text, `to_html` writes one
    self-contained page, `to_dict` returns the numbers.

    All models are evaluated on the same samples, so differences are *paired*: the common part of
    two losses cancels, and a difference may be significant although the two intervals overlap. Let
    :math:`L_i^a` be the Brier score of sample i under model a, and :math:`E_i^a` the term of the
    sample in the default estimate of the Brier calibration error
    (:func:`~skcalib.proper_calibration_error`). The table has the means, each with a Student
    interval, of

    - Brier calibration error: :math:`E_i^a - E_i^b`;
    - Brier score: :math:`L_i^a - L_i^b`, and the same for the log loss;
    - Brier score after recalibration: :math:`(L_i^a - E_i^a) - (L_i^b - E_i^b)`;
    - share of wrong predictions;
    - squared kernel calibration error, by :func:`~skcalib.compare_calibration` on blocks of samples
      in random order.

    With ``threshold=`` or ``costs=`` there are also, for the decisions that follow from the
    forecasts,

    - with a threshold the net benefit (:func:`~skcalib.risk_models.net_benefit`):
      :math:`NB^a - NB^b = -E(L_t^a - L_t^b) / (1 - t)` for two classes;
    - the cost: :math:`L_i^a - L_i^b` with the cost of :class:`~skcalib.scores.Elementary` or
      :class:`~skcalib.scores.DecisionCost`, in units of the sum of both costs, or of ``costs``;
    - what recalibration would save, the regret of miscalibration
      (:func:`~skcalib.decision_regret`).

    All are negative if a is better, except the net benefit, which is then positive; they change
    their sign with the order of the models. For two classes the intervals of these three follow
    from exact limits of the shares of samples whose decision changes, because these may be few.
    With more than two models the intervals are widened (Bonferroni), so that those of one quantity
    hold for all pairs simultaneously, and p-values are multiplied by the number of pairs. A model
    is called better if such an interval excludes zero.

    Sketches (`from_sketches`) have no samples to pair. Then the half-lengths of the intervals of
    both models are added. This is valid for any dependence, and also for models on different
    samples. The kernel calibration error and the savings by recalibration are left out.

    A better calibrated model is not necessarily the better model: a constant forecast can be
    calibrated. The verdict therefore also compares the losses.

    Parameters
    ----------
    reports : dict of str to CalibrationReport, or list of CalibrationReport
        At least two, with different names, on the same samples with the same weights, classes,
        level and seed; reports of sketches with the same classes, level and seed.

    Attributes
    ----------
    reports : dict of str to CalibrationReport
        The report of each model.
    differences : tuple of PairedDifference
        Records ``quantity``, ``first``, ``second``, ``difference`` (with ``estimate``, ``low``,
        ``high``, ``standard_error``), the two-sided ``pvalue`` of no difference, ``detected`` and
        ``better``. The quantities are "log", "brier", "calibration", "refinement", "errors",
        "kernel", and of decisions "net_benefit", "cost" and "regret". The last two are means per
        sample, in the unit of ``costs``, or in that of `decision_regret`: with a threshold t a
        false alarm costs t and a miss 1 - t. A quantity that is infinite for two models, or has too
        few samples, is missing.
    paired : bool
        Whether differences are paired: all reports were made from samples.
    verdict : str
        Text that states which model is better.

    Raises
    ------
    ValueError
        For fewer than two models, duplicate names, and reports on different samples.

    See Also
    --------
    CalibrationReport : The report of one model.
    decision_regret : The cost of the decisions of one model.
    DecompositionDisplay : The parts of the loss of several models as a figure.

    Examples
    --------
    >>> from skcalib import ComparisonReport
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> models = {"raw": data.y_proba, "truth": data.posterior}
    >>> comparison = ComparisonReport.from_predictions(data.y, models)
    >>> print(comparison.verdict.splitlines()[0])
    truth is better calibrated and has the lower Brier score.
    """

    @checks_parameters
    def __init__(
        self,
        reports: Mapping[str, CalibrationReport] | Sequence[CalibrationReport],
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.reports = _check_reports(reports)
        first = next(iter(self.reports.values()))
        self.confidence_level = first.confidence_level
        self.random_state = first.random_state
        problems = {name: report.problem for name, report in self.reports.items()}
        self.paired = all(problem.count is None for problem in problems.values())
        self.differences = _find_differences(
            problems,
            self.confidence_level,
            self.random_state,
            n_jobs,
            decision=first.findings.decision,
        )

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Mapping[str, ArrayLike],
        X: MatrixLike = None,
        *,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare probabilities of several models for the same held-out samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : dict of str to array-like
            The probabilities of each model, as for `CalibrationReport.from_predictions`.
        X : array-like of shape (n_samples, n_features), default=None
            Features or any representation, for the grouping loss.
        **params : dict
            ``sample_weight``, ``labels``, ``pos_label`` (the event of two classes), ``groups``
            (clusters of dependent samples), ``threshold`` or ``costs`` of decisions,
            ``confidence_level`` and ``verbose``, as for `CalibrationReport.from_predictions`.
        """
        _check_mapping(y_proba, "y_proba", "probabilities")
        seed = seed_of(random_state)
        params = {"random_state": seed, "n_jobs": n_jobs, **params}

        def _report(name, proba):
            return CalibrationReport.from_predictions(y_true, proba, X, name=name, **params)

        return cls(_report_each(_report, y_proba), n_jobs=n_jobs)

    @classmethod
    @checks_parameters
    def from_sketches(
        cls,
        sketches: Mapping[str, ForecastSummary],
        *,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare models by a sketch of each, on the same or on different samples.

        Parameters
        ----------
        sketches : dict of str to ForecastSketch
            The sketch of each model, of the same classes and notion.
        **params : dict
            ``threshold`` or ``costs`` of decisions, ``confidence_level`` and ``verbose``, as for
            `CalibrationReport.from_sketch`.

        Returns
        -------
        ComparisonReport
            The comparison; its differences are not paired.

        Examples
        --------
        >>> from skcalib import ComparisonReport, ForecastSketch
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> models = {"raw": data.y_proba, "truth": data.posterior}
        >>> sketches = {
        ...     name: ForecastSketch([0, 1]).fit(data.y, proba) for name, proba in models.items()
        ... }
        >>> comparison = ComparisonReport.from_sketches(sketches)
        >>> print(comparison.verdict.splitlines()[0])
        truth is better calibrated; the Brier scores do not differ significantly.
        """
        _check_mapping(sketches, "sketches", "sketches")
        seed = seed_of(random_state)
        return cls(
            {
                str(name): CalibrationReport.from_sketch(
                    sketch, name=str(name), random_state=seed, n_jobs=n_jobs, **params
                )
                for name, sketch in sketches.items()
            },
            n_jobs=n_jobs,
        )

    @classmethod
    @checks_parameters
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator],
        X: MatrixLike,
        y: ArrayLike,
        *,
        cv: CV = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Self:
        """Compare classifiers on the same samples.

        Parameters
        ----------
        estimators : dict of str to classifier
            Classifiers by name: fitted, with (X, y) held out; or any classifier with `cv`.
        cv : None, int or splitter, default=None
            None: the classifiers are used as they are. Else they are cloned, fitted on the same
            folds and evaluated by their out-of-fold probabilities.
        **params : dict
            ``sample_weight``, ``pos_label`` (the event of two classes), ``groups`` (clusters of
            dependent samples), ``threshold`` or ``costs`` of decisions, ``confidence_level``,
            ``response_method`` and ``verbose``, as for `CalibrationReport.from_estimator`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from skcalib import ComparisonReport
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> logistic = make_pipeline(StandardScaler(), LogisticRegression())
        >>> models = {"logistic": logistic, "Bayes": GaussianNB()}
        >>> comparison = ComparisonReport.from_estimators(models, X, y, cv=5)
        >>> print(comparison.verdict.splitlines()[0])
        logistic is better calibrated and has the lower Brier score.
        """
        _check_mapping(estimators, "estimators", "classifiers")
        seed = seed_of(random_state)
        if cv is not None:  # a shuffling splitter must give all models the same folds
            (X,) = indexable(X)
            y = check_y(y, name="y")
            groups = params.get("groups")
            cv = make_folds(cv, X, y, groups, groups)
        params = {"random_state": seed, "n_jobs": n_jobs, **params}

        def _report(name, estimator):
            return CalibrationReport.from_estimator(estimator, X, y, cv=cv, name=name, **params)

        return cls(_report_each(_report, estimators), n_jobs=n_jobs)

    @property
    def verdict(self) -> str:
        """The verdict as text: a headline, then one sentence per line."""
        return "\n".join(
            map(printable, [headline_of_comparison(self), *sentences_of_comparison(self)])
        )

    def _document(self):
        return comparison_page(self)

    def __repr__(self) -> str:
        return printable(
            f"<ComparisonReport of {', '.join(self.reports)}: {headline_of_comparison(self)}>"
        )

    def to_frame(self) -> DataFrame:
        """One row for each difference of two models; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Columns: ``quantity``, the models ``first`` and ``second``, ``difference`` with its
            interval ``difference_low`` and ``difference_high``, ``pvalue`` and ``detected``.
        """
        names = ("quantity", "first", "second", "difference", "pvalue", "detected")
        columns = {name: [getattr(one, name) for one in self.differences] for name in names}
        return frame_of(columns, ["difference"])

    def to_dict(self) -> dict[str, Any]:
        """All numbers as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The verdict, the differences, and the report of each model.
        """
        return {
            "headline": printable(headline_of_comparison(self)),
            "verdict": list(map(printable, sentences_of_comparison(self))),
            "differences": [
                as_json({**asdict(one), "detected": one.detected, "better": one.better})
                for one in self.differences
            ],
            "reports": {name: report.to_dict() for name, report in self.reports.items()},
            "confidence_level": self.confidence_level,
            "random_state": self.random_state,
            "versions": versions(),
        }


def _check_mapping(models, name, what):
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(f"{name} must be a dict of at least two {what} by model name.")


def _report_each(make, models):
    """The report of each model; a warning about their common clusters appears once."""
    reports = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            if reports:
                warnings.filterwarnings("ignore", "groups has only")
            reports[str(name)] = make(name, model)
    return reports


def _check_reports(reports):
    """Reports by name, on the same samples."""
    if not isinstance(reports, Mapping):
        named = {report.name: report for report in reports}
        if len(named) < len(reports):
            raise ValueError("Two reports have the same name: pass a dict of reports by name.")
        reports = named
    if len(reports) < 2:
        raise ValueError(f"A comparison needs at least two reports, got {len(reports)}.")
    reports = {str(name): report for name, report in reports.items()}
    (first_name, first), *others = reports.items()
    for name, other in others:
        sketched = first.problem.count is not None or other.problem.count is not None
        alike = ("classes",) if sketched else ("classes", "target", "weight", "cluster")
        same = all(
            np.array_equal(getattr(first.problem, part), getattr(other.problem, part))
            for part in alike
        )
        if not same and sketched:
            raise ValueError(
                f"The reports of {first_name} and {name} have different classes: only models of "
                "the same event can be compared."
            )
        if not same:
            raise ValueError(
                f"The reports of {first_name} and {name} are not on the same samples: labels, "
                "weights, classes and groups must agree, in this order."
            )
        if (first.confidence_level, first.random_state) != (
            other.confidence_level,
            other.random_state,
        ):
            raise ValueError(
                f"The reports of {first_name} and {name} differ in confidence_level or "
                "random_state: use the same values for all."
            )
        if _decision_parameters(first) != _decision_parameters(other):
            raise ValueError(
                f"The reports of {first_name} and {name} differ in threshold or costs: use the "
                "same values for all, or none."
            )
    return reports


def _decision_parameters(report):
    decision = report.findings.decision
    return None if decision is None else (decision.threshold, decision.costs)


# --- Differences of models ------------------------------------------------------------------------


def _find_differences(
    problems,
    confidence_level,
    random_state,
    n_jobs=None,
    *,
    decision: DecisionFinding | None = None,
):
    """Problems by model name -> all differences, paired where every row is a sample.

    Intervals are widened (Bonferroni): those of one quantity hold for all pairs simultaneously.
    """
    pairs = list(combinations(problems, 2))
    confidence_level = 1 - (1 - confidence_level) / len(pairs)
    paired = all(problem.count is None for problem in problems.values())
    values = {name: _per_sample(p) for name, p in problems.items()}
    quantities, rule = list(QUANTITIES), None
    if decision is not None:
        rule = _DecisionRule.of(decision, next(iter(problems.values())))
        quantities += [one for one in OF_DECISIONS if one != "net_benefit" or rule.threshold]
        seed = random_state if paired else None
        for name, problem in problems.items():
            values[name] |= rule.per_sample(problem, seed, n_jobs)
    found = []
    for quantity in quantities:
        for first, second in pairs:
            one, other = ((values[name].get(quantity), problems[name]) for name in (first, second))
            if not paired:
                difference = _unpaired(one, other, confidence_level)
            elif quantity == "kernel":
                run = confidence_level, random_state, n_jobs
                difference = _kernel(problems, first, second, *run)
            elif quantity == "calibration":
                difference = _paired_losses(
                    problems[first],
                    problems[second],
                    Brier().loss,
                    confidence_level,
                    curves=[values[name]["curve"] for name in (first, second)],
                    estimate=one[0][1] - other[0][1],
                )
            elif quantity in _LOSSES:
                loss = _LOSSES[quantity]
                difference = _paired_losses(
                    problems[first], problems[second], loss, confidence_level
                )
            elif rule is not None and rule.exact and quantity in OF_DECISIONS:
                solved = [values[name]["solved"] for name in (first, second)]
                difference = rule.difference(quantity, *solved, confidence_level)
            else:
                difference = _paired(one[0], other[0], one[1], confidence_level)
            if difference is not None:
                interval, pvalue = difference
                pvalue = min(1.0, len(pairs) * pvalue)
                found.append(PairedDifference(quantity, first, second, interval, pvalue))
    return tuple(found)


def _per_sample(problem):
    """The terms of each quantity, one per sample, and the calibration curve of all classes."""
    with noted():  # the warnings are in the report of each model
        found, solved = estimate_errors(problem, LOSSES, "canonical", 0.95)
    brier, log = (one.terms for one in found)
    right = next(TopLabel().problems(problem.forecast, problem.target))[1][:, 1]
    return {
        "calibration": (brier.influence, brier.mean("calibration")),
        "curve": solved[0].conditional,
        "brier": brier.loss,
        "log": log.loss,
        "refinement": brier.refinement,
        "errors": 1 - right,
    }


def _paired(first, second, problem, confidence_level):
    """Interval of a mean difference, and its p-value; two infinite losses have none.

    In a pair (values, estimate), the values give the spread and the estimate the centre.
    """
    estimate = None
    if isinstance(first, tuple):
        estimate = first[1] - second[1]
        first, second = first[0], second[0]
    if np.isinf(first).any() and np.isinf(second).any():
        return None
    rows = problem.weight, confidence_level, None, problem.cluster
    found = mean_interval(first - second, *rows, estimate=estimate)
    size = independent_size(problem.weight, cluster=problem.cluster)
    return found, _pvalue(found.estimate, [(found.standard_error, size - 1)])


def _paired_losses(first, second, loss, confidence_level, *, curves=None, estimate=None):
    """Interval of the mean difference of losses that labels decide, and its p-value.

    With the curves of both models, what each would gain by recalibration is compared. With few
    labels the limits are those of `mean_loss_interval`.
    """
    forecasts = [problem.forecast for problem in (first, second)]

    def values(target):
        found = [loss(target, forecast) for forecast in forecasts]
        if curves is not None:
            found = [own - loss(target, one) for own, one in zip(found, curves, strict=True)]
        return found

    one, other = values(first.target)
    centre = None if estimate is None else ((one, estimate), (other, 0.0))
    plain = _paired(*(centre or (one, other)), first, confidence_level)
    between = between_forecasts(*forecasts)
    if plain is None or not has_few_labels(between, first.target, first.weight):
        return plain
    if not np.isfinite([plain[0].estimate, plain[0].standard_error]).all():
        return plain
    found = mean_loss_interval(
        lambda target: np.subtract(*values(target)),
        between,
        first.target,
        confidence_level,
        weight=first.weight,
        cluster=first.cluster,
        estimate=estimate,
    )
    if found.standard_error == 0:  # the same difference for every label
        return plain
    return found, interval_pvalue(found, confidence_level)


def _wrong(target, forecast):
    """Whether the predicted class is another one than the label, for one-hot rows or shares."""
    return 1 - target[np.arange(len(forecast)), forecast.argmax(axis=1)]


#: Losses that labels decide, by the name of their quantity.
_LOSSES = {"brier": Brier().loss, "log": LogLoss().loss, "errors": _wrong}


def _unpaired(first, second, confidence_level):
    """Interval of a difference whose two parts may depend on each other in any way; its p-value.

    Of pairs (values, problem); None for a quantity without values, or if both are infinite.
    """
    found, parts = [], []
    for values, problem in (first, second):
        if values is None:
            return None
        values, estimate = values if isinstance(values, tuple) else (values, None)
        options = {"estimate": estimate, "square": problem.square}
        found.append(mean_interval(values, problem.weight, confidence_level, **options))
        size = independent_size(problem.weight, problem.square)
        parts.append((found[-1].standard_error, size - 1))
    one, other = found
    if np.isinf(one.estimate) and np.isinf(other.estimate):
        return None
    middle, error = one.estimate - other.estimate, one.standard_error + other.standard_error
    reach = one.high - one.estimate + other.high - other.estimate if np.isfinite(middle) else 0.0
    interval = MeanInterval(middle, middle - reach, middle + reach, error)
    return interval, _pvalue(middle, parts)


def _pvalue(estimate, parts):
    """One minus the level at which an interval touches zero.

    Its half-length is the sum of those of Student intervals, of (standard error, degrees).
    """
    errors, degrees = map(np.array, zip(*parts, strict=True))
    if estimate == 0 or not np.isfinite(errors).all():
        return 1.0

    def gap(log_level):
        reach = np.where(errors > 0, student.isf(np.exp(log_level) / 2, degrees), 0.0)
        return float(errors @ reach) - abs(estimate)

    if not np.isfinite(estimate) or gap(_LEAST_LOG) < 0:
        return 0.0
    return float(np.exp(brentq(gap, _LEAST_LOG, 0.0)))


def _kernel(problems, first, second, confidence_level, random_state, n_jobs):
    """Blocks of samples in random order. The order of the models is fixed, so that signs flip."""
    one, two = sorted((first, second))
    problem = problems[one]
    rows = np.random.RandomState(random_state).permutation(len(problem.weight))
    try:
        found = compare_problems(
            problem.take(rows),
            problems[two].take(rows),
            kernel=resolve_kernel(None),
            notion=Canonical(),
            confidence_level=confidence_level,
            n_jobs=n_jobs,
        )
    except ValueError:  # too few samples for blocks: only this quantity is missing
        return None
    difference, low, high = found.estimate, found.low, found.high
    if one != first:
        difference, low, high = -difference, -high, -low
    return MeanInterval(difference, low, high, found.standard_error), found.pvalue


# --- Decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DecisionRule:
    """The cost of a decision, and the notion whose event it is about.

    ``threshold`` is that of the probability, or None where costs are given. ``exact`` says whether
    intervals follow from exact limits of shares: for two classes.
    """

    score: DecisionCost
    notion: Notion
    threshold: float | None
    exact: bool

    @classmethod
    def of(cls, decision, problem):
        threshold, several = decision.threshold, problem.forecast.shape[1] > 2
        score = score_of_decision(threshold, decision.costs or None)
        notion = TopLabel() if several and threshold is not None else Canonical()
        return cls(score, notion, threshold, exact=not several)

    def per_sample(self, problem, seed, n_jobs):
        """Values of each sample; those of recalibration only with a seed."""
        forecast, target = next(iter(self.notion.problems(problem.forecast, problem.target)))
        cost = self.score.loss(target, forecast)
        found = {"cost": cost}
        if self.threshold is not None:
            found["net_benefit"] = target[:, 1] - cost / (1 - self.threshold)
        if seed is not None:
            options: Any = {"smoother": LogitSmoother(random_state=seed), "n_jobs": n_jobs}
            (found["solved"],) = solve_notion(problem, notion=self.notion, **options)
            found["regret"] = cost - self.score.loss(target, found["solved"].conditional)
        return found

    def difference(self, quantity, first, second, confidence_level):
        """The interval of a difference between two solved problems, and its p-value."""
        if quantity == "regret":
            interval_at = partial(self._regret_interval, first, second)
        else:
            interval_at = partial(self._cost_interval, first, second)
        sign = -1 / (1 - self.threshold) if quantity == "net_benefit" else 1.0
        found = interval_at(confidence_level)
        low, high = sorted((sign * found.low, sign * found.high))
        error = abs(sign) * found.standard_error
        return MeanInterval(sign * found.estimate, low, high, error), _pvalue_of_limits(interval_at)

    def _cost_interval(self, first, second, level):
        """Of the mean cost of the first forecasts minus that of the second."""
        different = not np.array_equal(first.forecast, second.forecast)
        both: Any = [first.forecast], [second.forecast]
        return saving_interval(self.score, [first], *both, 1.0, level, every_change=different)

    def _regret_interval(self, first, second, level):
        """Of the saving by recalibration of the first minus that of the second.

        The squared distances of the limits of both from their estimates add up (Zou and Donner,
        2008), and the interval has at least the length of Student's for paired differences.
        """
        one, other = (
            saving_interval(
                self.score, [p], [p.forecast], [p.conditional], 1.0, level, every_change=True
            )
            for p in (first, second)
        )
        saved = [
            self.score.loss(p.target, p.forecast) - self.score.loss(p.target, p.conditional)
            for p in (first, second)
        ]
        found = mean_interval(saved[0] - saved[1], first.weight, level, None, first.cluster)
        middle = found.estimate
        down = np.hypot(one.estimate - one.low, other.high - other.estimate)
        up = np.hypot(one.high - one.estimate, other.estimate - other.low)
        low, high = min(found.low, middle - down), max(found.high, middle + up)
        if np.array_equal(first.forecast, second.forecast):
            low = high = middle
        return replace(found, low=float(low), high=float(high))


def _pvalue_of_limits(interval_at):
    """One minus the largest level at which the interval excludes zero; not below 1e-12."""
    if interval_at(0.5).estimate == 0:
        return 1.0
    low, high = np.log(1e-12), 0.0
    for _ in range(30):
        middle = (low + high) / 2
        found = interval_at(1 - np.exp(middle))
        low, high = (low, middle) if found.low > 0 or found.high < 0 else (middle, high)
    return float(np.exp(high))
