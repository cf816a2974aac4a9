"""Curves of a reliability diagram, computed from a problem. No drawing code.

Each curve has the abscissae ``prob_pred`` and heights ``prob_true``, shape (m,); ``refit(labels)``,
which applies the same rule to other labels (n, B) of the same forecasts and returns heights of
shape (m, B); and ``confidence(confidence_level, n_resamples, rng)``, an interval for the true
heights.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skcalib._util.formatting import nonnegative_text
from skcalib._util.messages import shown
from skcalib._util.records import Record
from skcalib._util.suggestions import did_you_mean
from skcalib._util.ties import merge_ties
from skcalib._util.validation import check_count, look_up
from skcalib.data.clusters import (
    effective_size,
    effective_size_of_sums,
    independent_size,
    intraclass_correlation,
    student_level,
)
from skcalib.data.notions import Classwise, Cumulative, Multilabel, Notion, resolve_notion
from skcalib.data.samples import binary_events, named_events
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.errors.corp import (
    BANDS,
    IsotonicCurve,
    check_resamples,
    consistency_band,
    spread,
)
from skcalib.risk_models.summary import summary_of_problem
from skcalib.smoothers import (
    SMOOTHERS,
    DirichletKernel,
    IsotonicSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)
from skcalib.smoothers.partition import PartitionSmoother
from skcalib.smoothers.spline import SplineCurve
from skcalib.stats.means import MeanInterval, clopper_pearson, rate_interval

MAX_PANELS = 25
DEFAULT_BINS = 10


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(Record):
    """The curve of one binary event.

    ``event`` is "class c" for the probability of a class, "top label" for the confidence, or empty.
    ``low`` and ``high`` are None without a band; ``error`` is None where it has no estimate (one
    sample) or no legend. ``joined`` is True if the curve is defined between its points.
    """

    event: str
    prob_pred: np.ndarray
    prob_true: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    joined: bool
    scores: np.ndarray
    weight: np.ndarray
    error: MeanInterval | None

    _rows = ("prob_pred", "prob_true", "low", "high")
    _beside = ("event", "error")


@dataclass(frozen=True)
class CurveOptions:
    """Validated options of the constructors, with names resolved to objects."""

    smoother: Smoother
    notion: Notion
    band: str | None
    confidence_level: float
    n_resamples: int


def check_options(strategy, n_bins, notion, band, confidence_level, n_resamples):
    """Arguments of `ReliabilityDisplay` -> `CurveOptions`."""
    check_count(n_resamples, "n_resamples")
    size = DEFAULT_BINS if n_bins is None else n_bins
    edges = not np.isscalar(size)  # which leave nothing to the strategy

    def of_equal_mass():
        return UniformBins(size) if edges else QuantileBins(size)

    binned = {
        "quantile": of_equal_mass,
        "uniform": lambda: UniformBins(size),
        "binning": of_equal_mass,
    }
    options = {**binned, "kernel": lambda: DirichletKernel("risk", "loss")}
    smoother = look_up(strategy, {**SMOOTHERS, **options}, "strategy", kind=Smoother)
    if n_bins is not None and not (isinstance(strategy, str) and strategy in binned):
        raise ValueError(
            f"n_bins={shown(n_bins)} is for strategy='quantile' or 'uniform', but strategy is "
            f"{shown(strategy)}: choose one of these two, or leave n_bins out."
        )
    notion = resolve_notion(notion)
    if isinstance(band, str) and band == "auto":
        band = "confidence" if isinstance(smoother, SplineSmoother) else "consistency"
    if band is not None and not (isinstance(band, str) and band in BANDS):
        raise ValueError(
            f"band must be 'auto', 'consistency', 'confidence' or None, got {shown(band)}."
            f"{did_you_mean(band, ('auto', *BANDS))}"
        )
    if band is not None:
        check_resamples(n_resamples, confidence_level)
    return CurveOptions(smoother, notion, band, confidence_level, n_resamples)


def reliability_curves(events, options, rng, *, errors=True):
    """One `ReliabilityCurve` for each event and its `Problem`; `errors` are for a legend."""
    return [_one_curve(event, one, options, rng, errors) for event, one in events]


def binary_problems(problem, pos_label, notion):
    """Each binary event of the notion and its `Problem`; few enough to draw a panel of each."""
    _check_panels(notion, len(problem.classes))
    return binary_events(problem, pos_label, notion)


def summarised_problems(sketch, notion):
    """As `binary_problems`, from a summary."""
    events = named_events(sketch, None, notion)
    _check_panels(Classwise(), len(events))
    return events


def summary_of_event(events, confidence_level):
    """The `CalibrationSummary` of the only event, which must be a class."""
    (name, problem), *others = events
    if others or name == "top label":
        what = f"{len(events)} events" if others else "the top label"
        raise ValueError(
            f"summary=True is for the event of two classes, but the diagram shows {what}: pass one "
            "class against the rest, (y_true == c, y_proba[:, c]), or leave out summary."
        )
    return summary_of_problem(problem, confidence_level)


def _check_panels(notion, n_classes):
    if isinstance(notion, Multilabel) and n_classes > MAX_PANELS:
        raise ValueError(
            f"{notion!r} draws one panel per label, and {n_classes} labels exceed the limit of "
            f"{MAX_PANELS} panels: pass some of the columns of y_true and y_proba."
        )
    if isinstance(notion, Cumulative) and n_classes - 1 > MAX_PANELS:
        raise ValueError(
            f"notion='cumulative' draws one panel per threshold, and {n_classes - 1} thresholds "
            f"exceed the limit of {MAX_PANELS} panels: draw single thresholds with y_true <= c and "
            "the sum of the columns up to c."
        )
    if isinstance(notion, Classwise) and n_classes > MAX_PANELS:
        raise ValueError(
            f"notion='classwise' draws one panel per class, and {n_classes} classes exceed the "
            f"limit of {MAX_PANELS} panels: draw single classes with y_true == c and "
            "y_proba[:, column of c], or use notion='top_label'."
        )


def _one_curve(event, problem, options, rng, errors):
    curve = make_curve(options.smoother, problem)
    confidence_level, resamples = options.confidence_level, options.n_resamples
    low = high = None
    if options.band == "consistency":
        low, high = consistency_band(curve, problem, confidence_level, resamples, rng)
    elif options.band == "confidence":
        low, high = curve.confidence(confidence_level, resamples, rng)
    return ReliabilityCurve(
        event=event,
        prob_pred=curve.prob_pred,
        prob_true=curve.prob_true,
        low=low,
        high=high,
        joined=curve.joined,
        scores=problem.forecast[:, 1],
        weight=problem.weight,
        error=_error(problem, confidence_level) if errors else None,
    )


def _error(problem, confidence_level):
    """Brier calibration error of the binary problem; one sample has no held-out estimate."""
    if problem.n_samples < 2:
        return None
    return estimate_proper_error(
        problem, loss="brier", notion="canonical", confidence_level=confidence_level
    ).interval


def legend_label(curves, name):
    """Name and `proper_calibration_error`, with its interval, or with its spread over folds."""
    errors = [curve.error for curve in curves if curve.error is not None]
    lines = ["Calibration curve" if name is None else str(name)]
    if errors:
        notion = " of the top label" if curves[0].event == "top label" else ""
        lines += [f"Brier calibration error{notion}", _errors_text(errors)]
    return "\n".join(lines)


def _errors_text(errors):
    if len(errors) == 1:
        return nonnegative_text(errors[0])
    mean, spread = (float(f([error.estimate for error in errors])) for f in (np.mean, np.std))
    known = "none detected" if float(f"{mean:.3f}") < 0 else f"{mean:z.3f}"
    return f"{known} (mean of {len(errors)} folds, sd {spread:.3f})"


# --- Kinds of calibration curve on the smoothers --------------------------------------------------


_GROUPS = 1000  # of neighbouring scores, for the many fits of a consistency band


def make_curve(smoother, problem):
    """The kind of curve for the smoother; the isotonic curve is that of CORP (D21)."""
    if isinstance(smoother, IsotonicSmoother):
        return IsotonicCurve.of(problem)
    if isinstance(smoother, PartitionSmoother):
        return BinnedCurve(smoother, problem)
    if isinstance(smoother, SplineSmoother):
        return SplinedCurve(smoother, problem)
    if problem.square is not None:
        raise ValueError(
            f"{smoother!r} needs the samples, not a sketch: use strategy='isotonic', 'smooth', "
            "'quantile' or 'uniform'."
        )
    rows = problem.forecast, problem.target, problem.weight
    return SmoothCurve(smoother, *rows, problem.cluster)


def score_grid(score):
    """Scores at which a smooth curve is drawn: some observed scores, and some between them."""
    score = np.unique(merge_ties(score))
    grid = np.concatenate([score[spread(score)], np.linspace(score[0], score[-1], 101)])
    return np.unique(merge_ties(grid))


class BinnedCurve:
    """Mean label against mean forecast, cell by cell."""

    joined = False

    def __init__(self, smoother, problem):
        rows = problem.forecast, problem.target, problem.weight
        self._bins = clone(smoother).fit_rows(*rows, problem.count)
        self._problem = problem
        prob_pred = self._bins.cell_means(problem.forecast)[:, 1]
        self._order = np.argsort(prob_pred)
        self.prob_pred = prob_pred[self._order]
        self.prob_true = self._bins.cell_means()[self._order, 1]

    def refit(self, labels):
        return self._bins.cell_means(labels)[self._order]

    def confidence(self, confidence_level, n_resamples, rng):
        cells, problem = self._bins.cells_, self._problem
        if problem.cluster is not None:
            here = [problem.take(np.flatnonzero(cells == j)) for j in self._order]
            found = [
                rate_interval(one.target[:, 1], one.weight, confidence_level, cluster=one.cluster)
                for one in here
            ]
            return np.array([one.low for one in found]), np.array([one.high for one in found])
        square_mass = np.bincount(cells, problem.squares)
        size = effective_size_of_sums(self._bins.mass_, square_mass)[self._order]
        return clopper_pearson(self.prob_true, size, confidence_level)


class SmoothCurve:
    """A linear smoother (kernel, nearest neighbours) on a grid of scores."""

    joined = True

    def __init__(self, smoother, forecast, target, weight, cluster=None):
        self._fitted = clone(smoother).fit(forecast, target, weight)
        self._cluster = cluster
        self.prob_pred = score_grid(forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = np.clip(self._fitted.predict(self._grid)[:, 1], 0, 1)

    def refit(self, labels):
        return self._apply(labels.astype(np.float64))

    def confidence(self, confidence_level, n_resamples, rng):
        # The estimate is a weighted mean. For any smoother, averages of random signs estimate the
        # sum of the squared weights, which is the inverse of the effective size. Signs of clusters
        # give that of perfectly dependent samples of a cluster.
        signs = rng.choice([-1.0, 1.0], size=(len(self._fitted.forecast_), n_resamples))
        inverse = np.mean(self._apply(signs) ** 2, axis=1)
        if self._cluster is not None:
            fitted = np.interp(self._fitted.forecast_[:, 1], self.prob_pred, self.prob_true)
            rows = np.sqrt(fitted * (1 - fitted)), self._fitted.weight_, self._cluster
            common = intraclass_correlation(self._fitted.target_[:, 1] - fitted, *rows)
            together = np.mean(self._apply(signs[self._cluster]) ** 2, axis=1)
            inverse = inverse + common * np.maximum(together - inverse, 0.0)
            units = independent_size(self._fitted.weight_, cluster=self._cluster)
            confidence_level = student_level(confidence_level, units)
        size = 1 / inverse
        return clopper_pearson(self.prob_true, np.maximum(size, 1), confidence_level)

    def _apply(self, values):
        again = clone(self._fitted)
        if hasattr(self._fitted, "bandwidth_"):  # depends on the forecasts only, which are the same
            again.set_params(bandwidth=self._fitted.bandwidth_)
        again.fit(self._fitted.forecast_, values, self._fitted.weight_)
        return again.predict(self._grid)


class SplinedCurve:
    """Logistic regression on a spline of the logit, with a band by the delta method."""

    joined = True

    def __init__(self, smoother, problem):
        self._fitted = clone(smoother).fit(problem.forecast, problem.target, problem.weight)
        self._size = effective_size(problem.weight, problem.square)
        rows = self._fitted.forecast_[:, 1], problem.target[:, 1], problem.weight
        self._curve, self._units = self._fit(*rows), np.inf
        if problem.cluster is not None:
            self._curve.allow_for_clusters(*rows, problem.cluster)
            self._units = independent_size(problem.weight, cluster=problem.cluster)
        self.prob_pred = score_grid(problem.forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = self._curve(self._grid)[:, 1]

    def refit(self, labels):
        score, weight = self._fitted.forecast_[:, 1], self._fitted.weight_
        distinct, group = np.unique(score, return_inverse=True)
        if len(distinct) > _GROUPS:  # average neighbouring scores: the curve hardly changes
            group = group * _GROUPS // len(distinct)
        mass = np.bincount(group, weight)
        score = np.bincount(group, weight * score) / mass
        means = (np.bincount(group, weight * one) / mass for one in labels.T)
        return np.stack([self._fit(score, one, mass)(self._grid)[:, 1] for one in means], axis=1)

    def confidence(self, confidence_level, n_resamples, rng):
        if np.isfinite(self._units):
            confidence_level = student_level(confidence_level, self._units)
        return self._curve.interval(self._grid, confidence_level)

    def _fit(self, score, label, weight):
        """A curve whose weights sum to the effective number of samples."""
        return SplineCurve(self._fitted.n_knots).fit(score, label, weight, size=self._size)
