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

from skcalib._util.formatting import frame_of, printable
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import checks_parameters, completes_docstrings
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

    from skcalib.data.problem import ForecastSummary, Problem
    from skcalib.proper.map_average import AveragedProblem

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
        self.differences = find_differences(
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
        columns = {name: [getattr(row, name) for row in self.differences] for name in names}
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
                as_json({**asdict(row), "detected": row.detected, "better": row.better})
                for row in self.differences
            ],
            "reports": {name: report.to_dict() for name, report in self.reports.items()},
            "confidence_level": self.confidence_level,
            "random_state": self.random_state,
            "versions": versions(),
        }


def _check_mapping(models, name, kind):
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(f"{name} must be a dict of at least two {kind} by model name.")


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
    for name, second in others:
        difference = _difference_of_reports(first, second)
        if difference:
            raise ValueError(f"The reports of {first_name} and {name} {difference}")
    return reports


def _difference_of_reports(first, second):
    """Why two reports cannot be compared, or an empty text."""
    sketched = first.problem.count is not None or second.problem.count is not None
    parts = ("classes",) if sketched else ("classes", "target", "weight", "cluster")
    if not all(
        np.array_equal(getattr(first.problem, part), getattr(second.problem, part))
        for part in parts
    ):
        if sketched:
            return "have different classes: only models of the same event can be compared."
        return (
            "are not on the same samples: labels, weights, classes and groups must agree, in this "
            "order."
        )
    if (first.confidence_level, first.random_state) != (
        second.confidence_level,
        second.random_state,
    ):
        return "differ in confidence_level or random_state: use the same values for all."
    rules = (
        decision and (decision.threshold, decision.costs)
        for decision in (first.findings.decision, second.findings.decision)
    )
    if len({*rules}) > 1:
        return "differ in threshold or costs: use the same values for all, or none."
    return ""


# --- Differences of models ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Model:
    """What is compared of one model: the terms of each quantity, one per sample.

    The ``estimates`` of some quantities are not the means of their ``terms``. ``curve`` is the
    calibrated forecast of all classes, and ``solved`` the problem of the decisions.
    """

    problem: Problem
    terms: dict[str, np.ndarray]
    estimates: dict[str, float]
    curve: np.ndarray
    solved: AveragedProblem | None = None

    @classmethod
    def of(cls, problem, rule, seed, n_jobs):
        """The terms of a problem; those of recalibrated decisions only with a seed."""
        with noted():  # the warnings are in the report of each model
            estimates, solved = estimate_errors(problem, LOSSES, "canonical", 0.95)
        brier, log = (estimate.terms for estimate in estimates)
        right = next(TopLabel().problems(problem.forecast, problem.target))[1][:, 1]
        terms = {
            "calibration": brier.influence,
            "brier": brier.loss,
            "log": log.loss,
            "refinement": brier.refinement,
            "errors": 1 - right,
        }
        decisions = None
        if rule is not None:
            of_decisions, decisions = rule.terms(problem, seed, n_jobs)
            terms |= of_decisions
        estimates = {"calibration": brier.mean("calibration")}
        return cls(problem, terms, estimates, solved[0].conditional, decisions)


def find_differences(
    problems: Mapping[str, Problem],
    confidence_level: float,
    random_state: int,
    n_jobs: int | None = None,
    *,
    decision: DecisionFinding | None = None,
) -> tuple[PairedDifference, ...]:
    """Problems by model name -> all differences, paired where every row is a sample.

    Intervals are widened (Bonferroni): those of one quantity hold for all pairs simultaneously.
    """
    pairs = list(combinations(problems, 2))
    level = 1 - (1 - confidence_level) / len(pairs)
    paired = all(problem.count is None for problem in problems.values())
    quantities, rule, seed = list(QUANTITIES), None, random_state if paired else None
    if decision is not None:
        rule = DecisionRule.of(decision, next(iter(problems.values())))
        quantities += [name for name in OF_DECISIONS if name != "net_benefit" or rule.threshold]
    models = {name: _Model.of(problem, rule, seed, n_jobs) for name, problem in problems.items()}
    differences = []
    for quantity in quantities:
        for first_name, second_name in pairs:
            first, second = models[first_name], models[second_name]
            if not paired:
                compared = _unpaired(first, second, quantity, level)
            elif quantity == "kernel":
                reverse = first_name > second_name
                compared = _kernel(first.problem, second.problem, level, seed, n_jobs, reverse)
            elif quantity == "calibration" or quantity in _LOSSES:
                compared = _paired_losses(first, second, quantity, level)
            elif rule is not None and rule.exact and quantity in OF_DECISIONS:
                compared = rule.difference(quantity, first.solved, second.solved, level)
            else:
                compared = _paired(first, second, quantity, level)
            if compared is not None:
                interval, pvalue = compared
                pvalue = min(1.0, len(pairs) * pvalue)
                differences.append(
                    PairedDifference(quantity, first_name, second_name, interval, pvalue)
                )
    return tuple(differences)


def _paired(first, second, quantity, level):
    """Interval of a mean difference, and its p-value; two infinite losses have none.

    Its centre is the difference of the estimates, if these are not the means of the terms.
    """
    terms = first.terms[quantity], second.terms[quantity]
    if np.isinf(terms[0]).any() and np.isinf(terms[1]).any():
        return None
    estimate = None
    if quantity in first.estimates:
        estimate = first.estimates[quantity] - second.estimates[quantity]
    weight, cluster = first.problem.weight, first.problem.cluster
    mean = mean_interval(terms[0] - terms[1], weight, level, cluster=cluster, estimate=estimate)
    size = independent_size(weight, cluster=cluster)
    return mean, _pvalue(mean.estimate, [mean.standard_error], [size - 1])


def _paired_losses(first, second, quantity, level):
    """Interval of the mean difference of losses that labels decide, and its p-value.

    "calibration" compares what each model would gain by recalibration. With few labels the limits
    are those of `mean_loss_interval`.
    """
    is_gain = quantity == "calibration"
    loss = _LOSSES["brier" if is_gain else quantity]
    problem = first.problem

    def terms(model, target):
        values = loss(target, model.problem.forecast)
        return values - loss(target, model.curve) if is_gain else values

    models = [
        replace(model, terms={quantity: terms(model, problem.target)}) for model in (first, second)
    ]
    plain = _paired(*models, quantity, level)
    between = between_forecasts(first.problem.forecast, second.problem.forecast)
    if plain is None or not has_few_labels(between, problem.target, problem.weight):
        return plain
    if not np.isfinite([plain[0].estimate, plain[0].standard_error]).all():
        return plain
    interval = mean_loss_interval(
        lambda target: np.subtract(terms(first, target), terms(second, target)),
        between,
        problem.target,
        level,
        weight=problem.weight,
        cluster=problem.cluster,
        estimate=plain[0].estimate if is_gain else None,
    )
    if interval.standard_error == 0:  # the same difference for every label
        return plain
    return interval, interval_pvalue(interval, level)


def _wrong(target, forecast):
    """Whether the predicted class is another one than the label, for one-hot rows or shares."""
    return 1 - target[np.arange(len(forecast)), forecast.argmax(axis=1)]


#: Losses that labels decide, by the name of their quantity.
_LOSSES = {"brier": Brier().loss, "log": LogLoss().loss, "errors": _wrong}


def _unpaired(first, second, quantity, level):
    """Interval of a difference whose two parts may depend on each other in any way; its p-value.

    None for a quantity without terms, or if both means are infinite.
    """
    if quantity not in first.terms:
        return None
    means, degrees = [], []
    for model in (first, second):
        problem, estimate = model.problem, model.estimates.get(quantity)
        means.append(
            mean_interval(
                model.terms[quantity], problem.weight, level, problem.square, estimate=estimate
            )
        )
        degrees.append(independent_size(problem.weight, problem.square) - 1)
    if np.isinf([mean.estimate for mean in means]).all():
        return None
    middle = means[0].estimate - means[1].estimate
    error = means[0].standard_error + means[1].standard_error
    reach = 0.0
    if np.isfinite(middle):
        reach = means[0].high - means[0].estimate + means[1].high - means[1].estimate
    interval = MeanInterval(middle, middle - reach, middle + reach, error)
    return interval, _pvalue(middle, [mean.standard_error for mean in means], degrees)


def _pvalue(estimate, errors, degrees):
    """One minus the level at which an interval touches zero.

    Its half-length is the sum of those of Student intervals, with these errors and degrees.
    """
    errors, degrees = np.array(errors), np.array(degrees)
    if estimate == 0 or not np.isfinite(errors).all():
        return 1.0

    def gap(log_level):
        reach = np.where(errors > 0, student.isf(np.exp(log_level) / 2, degrees), 0.0)
        return float(errors @ reach) - abs(estimate)

    if not np.isfinite(estimate) or gap(_LEAST_LOG) < 0:
        return 0.0
    return float(np.exp(brentq(gap, _LEAST_LOG, 0.0)))


def _kernel(first, second, level, random_state, n_jobs, reverse):
    """Blocks of samples in random order; in one order of the models, so that signs flip."""
    rows = np.random.RandomState(random_state).permutation(len(first.weight))
    problems = [first.take(rows), second.take(rows)]
    if reverse:
        problems.reverse()
    try:
        compared = compare_problems(
            *problems,
            kernel=resolve_kernel(None),
            notion=Canonical(),
            confidence_level=level,
            n_jobs=n_jobs,
        )
    except ValueError:  # too few samples for blocks: only this quantity is missing
        return None
    difference, low, high = compared.estimate, compared.low, compared.high
    if reverse:
        difference, low, high = -difference, -high, -low
    return MeanInterval(difference, low, high, compared.standard_error), compared.pvalue


# --- Decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecisionRule:
    """The cost of a decision, and the notion whose event it is about.

    ``threshold`` is that of the probability, or None where costs are given. ``exact`` says whether
    intervals follow from exact limits of shares: for two classes.
    """

    score: DecisionCost
    notion: Notion
    threshold: float | None
    exact: bool

    @classmethod
    def of(cls, decision: DecisionFinding, problem: Problem) -> Self:
        """The rule of the decisions of a report."""
        threshold, several = decision.threshold, problem.forecast.shape[1] > 2
        score = score_of_decision(threshold, decision.costs or None)
        notion = TopLabel() if several and threshold is not None else Canonical()
        return cls(score, notion, threshold, exact=not several)

    def terms(
        self, problem: Problem, seed: int | None, n_jobs: int | None
    ) -> tuple[dict[str, np.ndarray], AveragedProblem | None]:
        """Terms of each sample, and with a seed the solved problem, for recalibration."""
        forecast, target = next(iter(self.notion.problems(problem.forecast, problem.target)))
        cost = self.score.loss(target, forecast)
        terms: dict[str, np.ndarray] = {"cost": cost}
        solved: Any = None
        if self.threshold is not None:
            terms["net_benefit"] = target[:, 1] - cost / (1 - self.threshold)
        if seed is not None:
            smoother = LogitSmoother(random_state=seed)
            (solved,) = solve_notion(problem, notion=self.notion, smoother=smoother, n_jobs=n_jobs)
            terms["regret"] = cost - self.score.loss(target, solved.conditional)
        return terms, solved

    def difference(
        self, quantity: str, first: Any, second: Any, confidence_level: float
    ) -> tuple[MeanInterval, float]:
        """The interval of a difference between two solved problems, and its p-value."""
        limits = self._regret_interval if quantity == "regret" else self._cost_interval
        interval_at = partial(limits, first, second)
        sign = 1.0
        if quantity == "net_benefit" and self.threshold is not None:
            sign = -1 / (1 - self.threshold)
        interval = interval_at(confidence_level)
        low, high = sorted((sign * interval.low, sign * interval.high))
        error = abs(sign) * interval.standard_error
        difference = MeanInterval(sign * interval.estimate, low, high, error)
        return difference, _pvalue_of_limits(interval_at)

    def _cost_interval(self, first, second, level):
        """Of the mean cost of the first forecasts minus that of the second."""
        return saving_interval(
            self.score,
            [first],
            [first.forecast],
            [second.forecast],
            1.0,
            level,
            every_change=not np.array_equal(first.forecast, second.forecast),
        )

    def _regret_interval(self, first, second, level):
        """Of the saving by recalibration of the first minus that of the second.

        The squared distances of the limits of both from their estimates add up (Zou and Donner,
        2008), and the interval has at least the length of Student's for paired differences.
        """
        savings, saved = [], []
        for p in (first, second):
            before, after = [p.forecast], [p.conditional]
            savings.append(
                saving_interval(self.score, [p], before, after, 1.0, level, every_change=True)
            )
            saved.append(
                self.score.loss(p.target, p.forecast) - self.score.loss(p.target, p.conditional)
            )
        mean = mean_interval(saved[0] - saved[1], first.weight, level, None, first.cluster)
        middle = mean.estimate
        if np.array_equal(first.forecast, second.forecast):
            return replace(mean, low=float(middle), high=float(middle))
        minuend, subtrahend = savings
        down = np.hypot(minuend.estimate - minuend.low, subtrahend.high - subtrahend.estimate)
        up = np.hypot(minuend.high - minuend.estimate, subtrahend.estimate - subtrahend.low)
        low, high = min(mean.low, middle - down), max(mean.high, middle + up)
        return replace(mean, low=float(low), high=float(high))


def _pvalue_of_limits(interval_at):
    """One minus the largest level at which the interval excludes zero; not below 1e-12."""
    if interval_at(0.5).estimate == 0:
        return 1.0
    low, high = np.log(1e-12), 0.0
    for _ in range(30):
        middle = (low + high) / 2
        interval = interval_at(1 - np.exp(middle))
        low, high = (low, middle) if interval.low > 0 or interval.high < 0 else (middle, high)
    return float(np.exp(high))
