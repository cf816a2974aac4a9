"""Figures of estimated errors: parts of the loss as bars, and errors against the sample size (G22).

Each display stands above its records and estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.formatting import Record, decimals_of, nonnegative_text
from skcalib._util.messages import is_finite, is_whole, shown
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import CV, ArrayLike, Label, MatrixLike, RandomState, ResponseMethod
from skcalib._util.validation import check_indices, weighted_features
from skcalib.data.notions import Classwise, Cumulative, NotionLike, TopLabel, resolve_notion
from skcalib.data.problem import Problem, Samples, check_problem, event_last
from skcalib.displays import base
from skcalib.displays.groups import grouping_interval
from skcalib.error_intervals.quantities import DEBIASED, QUANTITIES, by
from skcalib.errors import calibration_error
from skcalib.errors.binned import check_bins, expected_errors_of_subsamples
from skcalib.estimators.calibration_error import CalibrationErrorEstimator
from skcalib.grouping import GroupingLossEstimator
from skcalib.scores import LossLike, resolve_loss
from skcalib.stats.means import MeanInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skcalib.smoothers import SmootherLike

__all__ = ["DecompositionDisplay", "EstimationCurve", "EstimationDisplay"]


# --- Parts of the loss ----------------------------------------------------------------------------


class DecompositionDisplay(base.Display):
    r"""Parts of the loss of several models, as stacked bars with intervals.

    Create one with `from_estimator`, `from_estimators` or `from_predictions`. The mean loss of a
    score S of the label Y, with C = E[Y|S] and Q = E[Y|X], is

    .. math:: E\,L(Y, S) = \underbrace{E\,D(C, S)}_{calibration} +
        \underbrace{E\,D(Q, C)}_{grouping} + \underbrace{E\,L(Y, Q)}_{irreducible} .

    - **Calibration**, of `CalibrationErrorEstimator`: the loss that recalibration would remove.
    - **Grouping**, the lower bound of `GroupingLossEstimator`: at least this much loss could be
      removed by a better use of the features. Shown only if features are given.
    - **Rest**: the remaining loss, an upper bound of the irreducible loss up to the noise of the
      estimates; without features it is the refinement.

    The lengths of the bars are the estimates themselves, which add up to the loss, the black mark.
    An estimate below zero is drawn to the left of zero, and the bar exceeds the mark by the same
    length. Whiskers are the intervals of calibration (upper) and grouping (lower), each from where
    its bar starts, cut at zero. If the estimate is negative, the whisker extends from zero to the
    upper limit.

    All bars of a figure use the same labels, so their errors are correlated. The difference of two
    models may be more certain than their whiskers suggest.

    Parameters
    ----------
    terms : list of LossTerms
        One record per bar: ``name``, ``loss``, ``calibration``, ``grouping`` and ``rest``;
        ``str(terms[0])`` is the line above the bar.
    unit : str, default="Brier score"
        Name and unit of the loss.

    Attributes
    ----------
    bars_ : dict of BarContainer
        The bars of each part by name: "calibration", "grouping" if available, "rest".
    whiskers_ : dict of ErrorbarContainer
        The intervals, by the same keys.
    loss_ : LineCollection
        The marks of the losses.
    ax_ : Axes
        The axes.

    See Also
    --------
    GroupingDisplay : Shows the groups that the second part comes from.

    Examples
    --------
    .. plot::
        :alt: Bar of the Brier score: calibration, grouping and the rest.

        >>> from skcalib import DecompositionDisplay
        >>> from skcalib.datasets import make_grouping_problem
        >>> data = make_grouping_problem(10_000, random_state=0)
        >>> display = DecompositionDisplay.from_predictions(data.y, data.y_proba, data.X)
        >>> print(display.terms[0])
        calibration 0.000..., grouping ≥ 0.00..., rest ≤ 0.07...
    """

    def __init__(
        self, terms: list[LossTerms], *, confidence_level: float = 0.95, unit: str = "Brier score"
    ) -> None:
        self.terms = list(terms)
        self.confidence_level = confidence_level
        self.unit = unit

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike | Mapping[str, ArrayLike],
        X: MatrixLike = None,
        *,
        loss: LossLike = "brier",
        notion: NotionLike = "canonical",
        smoother: SmootherLike = None,
        grouping: Literal["auto", "partition", "risk"] | GroupingLossEstimator | None = "auto",
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Parts of the loss of given probabilities.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or dict of such
            Probability of the positive class, or of each class; of several models by their names.
        X : array-like of shape (n_samples, n_features), default=None
            Features, or any representation, for the grouping loss, read as in
            `GroupingLossEstimator`. Without them it is not estimated.
        smoother : None, str, Smoother or classifier, default=None
            Estimates C, as in `CalibrationErrorEstimator`. None is its default: averaged maps for
            the Brier score and the log loss.
        grouping : {"auto", "partition", "risk"}, GroupingLossEstimator or None, default="auto"
            Estimator of the grouping loss: a method of `GroupingLossEstimator`, or an estimator
            whose other settings are used; None for calibration and refinement only.
        random_state : int, RandomState instance or None, default=0
            Seed of the grouping loss, the same for all models.

        Raises
        ------
        ValueError
            For invalid input, and for a model of infinite loss.
        """
        if not isinstance(y_proba, Mapping):
            y_proba = {"Predictions" if name is None else name: y_proba}
        options = check_options(loss, notion, smoother, grouping, confidence_level, random_state)
        check_indices(y_true=y_true, X=X, **y_proba)
        if X is not None:
            n_samples = len(y_true.weight) if isinstance(y_true, Problem) else np.shape(y_true)[0]
            X = weighted_features(X, sample_weight, n_samples)
        terms, columns = [], 0
        for model, proba in y_proba.items():
            problem = check_problem(
                y_true,
                proba,
                options.shared["notion"],
                sample_weight=sample_weight,
                labels=labels,
                pos_label=pos_label,
                soft=True,
                incomplete=True,
            )
            problem = event_last(problem, pos_label) if problem is y_true else problem
            columns = len(problem.classes)
            terms.append(loss_terms(model, problem, X, options))
        display = cls(terms, confidence_level=confidence_level, unit=options.unit(columns))
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def _for_rows(cls, options, X, rows, n_samples):
        return options | {"X": X}

    @classmethod
    @checks_parameters
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator],
        X: MatrixLike,
        y: ArrayLike,
        *,
        cv: CV = None,
        response_method: ResponseMethod = "auto",
        loss: LossLike = "brier",
        notion: NotionLike = "canonical",
        smoother: SmootherLike = None,
        grouping: Literal["auto", "partition", "risk"] | GroupingLossEstimator | None = "auto",
        confidence_level: float = 0.95,
        random_state: RandomState = 0,
        sample_weight: ArrayLike | None = None,
        pos_label: Label = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Parts of the loss of several classifiers on held-out data.

        Parameters
        ----------
        estimators : dict of str to classifier
            The classifiers by their names, fitted unless `cv` is given.
        X : array-like of shape (n_samples, n_features)
            Features. For another representation, see `from_predictions`.
        cv : None, int or splitter, default=None
            None: the classifiers are fitted and (X, y) is held out. Else they are cloned, and
            assessed by their out-of-fold probabilities.
        loss, notion, smoother, grouping, confidence_level, random_state
            As in `from_predictions`.
        sample_weight, pos_label, ax, **plot_params
            As in `from_predictions`; with `cv` weights are also passed to the classifiers.

        Raises
        ------
        ValueError
            As `from_predictions`, and if `estimators` is not a dict.
        NotFittedError
            For classifiers that are not fitted, without `cv`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from skcalib import DecompositionDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0)
        >>> models = {"Bayes": GaussianNB(), "Tree": tree}
        >>> display = DecompositionDisplay.from_estimators(models, X, y, cv=5)
        >>> [round(term.loss, 3) for term in display.terms]
        [0.056, 0.066]
        """
        if not isinstance(estimators, Mapping) or not estimators:
            raise ValueError(
                "estimators must be a dict of classifiers by name; for a single one use "
                "from_estimator."
            )
        options = check_options(loss, notion, smoother, grouping, confidence_level, random_state)
        terms, columns = [], 0
        for name, estimator in estimators.items():
            problem, features, _ = base.held_out(
                estimator,
                X,
                y,
                cv=cv,
                response_method=response_method,
                sample_weight=sample_weight,
                owner=cls.__name__,
            )
            columns = len(problem.classes)
            terms.append(loss_terms(name, event_last(problem, pos_label), features, options))
        display = cls(terms, confidence_level=confidence_level, unit=options.unit(columns))
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        values: bool | Literal["auto"] = "auto",
        legend: bool = True,
        bar_kwargs: dict[str, Any] | None = None,
        whisker_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        values : bool or "auto", default="auto"
            Whether to write the numbers above each bar; by default where the axes are wide enough.
        legend : bool, default=True
            Whether to draw the legend, above the axes.
        bar_kwargs, whisker_kwargs : dict, default=None
            Arguments for ``Axes.barh`` and ``Axes.errorbar``.

        Raises
        ------
        ValueError
            If `ax` is not an Axes.
        """
        whisker_style = base.without_aliases(whisker_kwargs)
        (self.ax_,) = base.panel_axes(ax, 1, size=(6.6, 1.4 + 0.62 * len(self.terms)))
        self.figure_ = self.ax_.figure
        self.bars_, self.whiskers_, right = _draw_bars(
            self.ax_,
            self.terms,
            level=f"{self.confidence_level * 100:g} %",
            bar_style=bar_kwargs or {},
            whisker_style=whisker_style,
        )
        losses, rows = np.array([term.loss for term in self.terms]), np.arange(len(self.terms))
        bottom, top = rows - _HEIGHT / 2, rows + _HEIGHT / 2
        self.ax_.vlines(np.zeros(len(rows)), bottom, top, color="black", linewidth=0.8, zorder=3)
        self.loss_ = self.ax_.vlines(
            losses, bottom, top, color="black", linewidth=2, zorder=5, label="Loss"
        )
        wide = base.width_of(self.ax_) > _WIDE
        _write_terms(self.ax_, self.terms, right, values=wide if values == "auto" else values)
        if legend:
            self.ax_.legend(
                handles=[*self.bars_.values(), self.loss_, self.whiskers_["calibration"]],
                loc="lower right",
                bbox_to_anchor=(1, 1.0),
                frameon=False,
                ncols=3 if wide else 2,
                fontsize="small" if wide else "x-small",
                handlelength=1.2,
                columnspacing=1.2,
            )
        self.ax_.set_xlabel(self.unit[:1].upper() + self.unit[1:])
        return self


@dataclass(frozen=True)
class LossTerms(Record):
    """Parts of the mean loss of one model; ``grouping`` is a lower bound, or None."""

    name: str
    loss: float
    calibration: MeanInterval
    grouping: MeanInterval | None

    _intervals = ("calibration", "grouping")

    @property
    def rest(self) -> float:
        """The remaining loss: the refinement, or an upper bound of the irreducible loss."""
        explained = 0.0 if self.grouping is None else self.grouping.estimate
        return self.loss - self.calibration.estimate - explained

    @property
    def parts(self) -> dict[str, MeanInterval]:
        """The parts that have an interval, by their name."""
        parts = {"calibration": self.calibration, "grouping": self.grouping}
        return {name: part for name, part in parts.items() if part is not None}

    def __str__(self) -> str:
        texts = [f"calibration {nonnegative_text(self.calibration)}"]
        if self.grouping is not None:
            at_least = "≥ " if self.grouping.estimate >= 0 else ""
            texts.append(f"grouping {at_least}{nonnegative_text(self.grouping)}")
        decimals = min(decimals_of(part) for part in self.parts.values())
        sign = "refinement" if self.grouping is None else "rest ≤"
        return ", ".join([*texts, f"{sign} {self.rest:z.{decimals}f}"])


@dataclass(frozen=True)
class TermOptions:
    """Validated options: parameters of both estimators, and the grouping estimator."""

    shared: dict
    grouping: GroupingLossEstimator | None

    def unit(self, n_columns: int) -> str:
        """Name of the loss, and of what it is about."""
        about = {
            TopLabel: " of the top label",
            Classwise: ", one class against the rest",
            Cumulative: ", classes up to each threshold",
        }
        notion = self.shared["notion"].for_columns(n_columns)
        return base.unit(self.shared["loss"]) + about.get(type(notion), "")


def check_options(
    loss: LossLike,
    notion: NotionLike,
    smoother: SmootherLike,
    grouping: Literal["auto", "partition", "risk"] | GroupingLossEstimator | None,
    confidence_level: float,
    random_state: RandomState,
) -> TermOptions:
    """Arguments of `DecompositionDisplay` -> `TermOptions`."""
    shared = dict(
        loss=resolve_loss(loss),
        notion=resolve_notion(notion),
        smoother=smoother,
        confidence_level=confidence_level,
    )
    if grouping is None:
        return TermOptions(shared, None)
    if isinstance(grouping, str) and grouping in ("auto", "partition", "risk"):
        estimator = GroupingLossEstimator(method=grouping)
    elif isinstance(grouping, GroupingLossEstimator):
        estimator = clone(grouping).set_params(estimator=None, cv=None)
    else:
        raise ValueError(
            f"grouping must be 'auto', 'partition', 'risk', a GroupingLossEstimator or None, got "
            f"{shown(grouping)}."
        )
    seed = seed_of(random_state)  # all models have the same halves
    return TermOptions(shared, estimator.set_params(n_permutations=0, random_state=seed))


def loss_terms(name: str, problem: Problem, X: MatrixLike, options: TermOptions) -> LossTerms:
    """Parts of the loss of one model on a `Problem`, whose samples X describes."""
    calibration: Any = CalibrationErrorEstimator(**options.shared).fit(problem.forecast, problem)
    if not np.isfinite(calibration.expected_loss_):
        raise ValueError(
            f"The loss of {name} is infinite, because it gives probability 0 to a label that "
            "occurs: there is no bar of that length; use loss='brier'."
        )
    low, high = calibration.confidence_interval_
    interval = MeanInterval(calibration.calibration_error_, low, high, calibration.standard_error_)
    bound = None
    if options.grouping is not None and X is not None:
        estimator = clone(options.grouping).set_params(**options.shared)
        bound = grouping_interval(estimator.fit(X, problem))
    return LossTerms(str(name), calibration.expected_loss_, interval, bound)


# Okabe and Ito: distinguishable with any colour vision, and of different lightness.
COLORS = {"calibration": "#d55e00", "grouping": "#56b4e9", "rest": "#d9d9d9"}
TEXTS = {"calibration": "Calibration", "grouping": "Grouping (at least)"}
_HEIGHT = 0.46
_WIDE = 4.0  # inches that a line of numbers needs
_OFFSET = {"calibration": -0.11, "grouping": 0.11}  # so that whiskers do not overlap


def _draw_bars(ax, terms, *, level, bar_style, whisker_style):
    """Bars and whiskers by the name of the part, and the right end of each row of bars."""
    names = [name for name in _OFFSET if any(name in term.parts for term in terms)]
    lengths = {
        name: np.array([getattr(term.parts.get(name), "estimate", 0.0) for term in terms])
        for name in names
    }
    lengths["rest"] = np.array([term.rest for term in terms])
    remainder = "Rest: irreducible (at most)" if "grouping" in names else "Refinement"
    # Positive parts are stacked to the right of zero, negative ones to the left.
    right, left = np.zeros(len(terms)), np.zeros(len(terms))
    bars, whiskers = {}, {}
    for name, length in lengths.items():
        start = np.where(length < 0, left, right)
        style = {
            "height": _HEIGHT,
            "color": COLORS[name],
            "label": TEXTS.get(name, remainder),
            "zorder": 2,
            **bar_style,
        }
        bars[name] = ax.barh(np.arange(len(terms)), length, left=start, **style)
        if name in names:
            style = {
                "fmt": ".",
                "color": "black",
                "markersize": 3.5,
                "capsize": 2.5,
                "linewidth": 1.0,
                "label": f"{level} interval" if name == names[0] else None,
                "zorder": 4,
                **whisker_style,
            }
            whiskers[name] = _draw_whiskers(ax, terms, name, start, style)
        right, left = right + np.maximum(length, 0), left + np.minimum(length, 0)
    return bars, whiskers, right


def _draw_whiskers(ax, terms, name, start, style):
    """Intervals of one part, measured from the start of each bar and cut at zero.

    An estimate below zero is drawn at zero, with the upper limit given in the text.
    """
    here = [k for k, term in enumerate(terms) if name in term.parts]
    parts = [terms[k].parts[name] for k in here]
    estimate, low, high = (
        np.array([getattr(part, field) for part in parts]) for field in ("estimate", "low", "high")
    )
    shown = np.maximum(estimate, 0)
    reach = np.stack([shown - np.maximum(low, 0), np.maximum(high, high - estimate) - shown])
    reach = np.where(np.isfinite(high - low), reach, 0.0)  # a single sample has no interval
    return ax.errorbar(
        np.maximum(start[here], 0) + shown,
        np.array(here) + _OFFSET[name],
        xerr=np.maximum(reach, 0),
        **style,
    )


def _write_terms(ax, terms, right, *, values):
    """Names, losses and numbers of the rows, the first on top."""
    rows = range(len(terms))
    for row, term in enumerate(terms):
        end = max(right[row], term.loss), row
        style = {"textcoords": "offset points", "va": "center", "fontsize": "small"}
        ax.annotate(f"{term.loss:#.3g}", end, (5, 0), **style)
        if values:
            style |= {"xycoords": ("axes fraction", "data"), "va": "bottom", "wrap": True}
            text = ax.annotate(str(term), (0, row - _HEIGHT / 2), (3, 2), **style)
            text.set_in_layout(False)  # a long line must not squeeze the bars
    ax.set_yticks(rows, [term.name for term in terms])
    ax.set_ylim(len(terms) - 0.65, -0.7 if values else -0.35)
    ax.tick_params(left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.margins(x=0.08)


# --- Errors against the sample size ---------------------------------------------------------------


class EstimationDisplay(base.Display):
    r"""Plot estimated errors against the number of samples.

    Create one with `from_estimator` or `from_predictions`. Every error is evaluated on random
    subsamples of the data. An error with a flat curve is comparable between data sets of different
    sizes. The curve of the ECE decreases, and most steeply for good forecasts (G22).

    ==========  ====================================================================================
    Name        Error
    ==========  ====================================================================================
    "ece"       :func:`~skcalib.calibration_error` with 15 bins of equal width
    "debiased"  the same bins, l2, squared and debiased
    "ks"        :func:`~skcalib.ks_calibration_error`
    "proper"    :func:`~skcalib.proper_calibration_error`, Brier
    "kernel"    :func:`~skcalib.kernel_calibration_error`, unbiased
    "rbs"       :func:`~skcalib.root_brier_score`, an upper bound of the root of "proper"
    ==========  ====================================================================================

    All errors have the same notion. By default it is one score at a time: the probability of the
    positive class for two classes, and the top label for more.

    "debiased", "proper", "kernel" and "rbs" are unbiased as squares, and the first three may be
    negative. So the signed root of the mean square is drawn. The unit is that of a probability; for
    "kernel" it is that of the kernel.

    For an l1 :func:`~skcalib.calibration_error` with any bins, two more curves follow from the
    folded normal distribution (G22). With the share :math:`p_b` of bin b, its gap :math:`g_b` (mean
    label minus mean score) and the variance :math:`v_b` of label minus score,

    .. math:: E\,ECE_n \approx \sum_b p_b\, E\, |N(g_b, v_b / (n p_b))| .

    - **Prediction**, dashed: the formula with the gaps and variances of all N samples. The variance
      :math:`v_b` is multiplied by 1 - n / N, as subsamples are drawn without replacement.
    - **Floor**, dotted: the formula if the same forecasts were calibrated, with :math:`g_b = 0` and
      the mean of s (1 - s) as :math:`v_b`. An ECE near its floor is no evidence of miscalibration.

    Subsamples of a size near N share most of their samples, so the band narrows there by
    construction. The last point, all N samples, is one evaluation without a band.

    Parameters
    ----------
    curves : list of EstimationCurve
        One record per error: ``name``, ``size``, ``mean``, ``low``, ``high``, ``prediction`` and
        ``floor``.
    truth : float or dict of str to float, default=None
        The true error: one value, or a dict by the names of the curves.
    confidence_level : float, default=0.95
        Share of the subsamples between ``low`` and ``high``.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The mean of each error; a list where there are several.
    band_ : artist, list of artists or None
        Area of the central subsamples.
    prediction_, floor_ : Line2D, list of Line2D or None
        The folded-normal curves of errors that have them.
    truth_ : Line2D, list of Line2D or None
        Lines of the true errors.
    ax_ : Axes
        The axes, with a log scale of sizes.

    See Also
    --------
    skcalib.theory.ece_bias_bound : A bound of that bias for every forecast.

    Examples
    --------
    .. plot::
        :alt: Two errors against the sample size: the ECE falls, the root Brier score does not.

        >>> from skcalib.displays import EstimationDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(5000, 3, random_state=0)
        >>> display = EstimationDisplay.from_predictions(  # of calibrated forecasts
        ...     data.y, data.posterior, errors=["ece", "rbs"])
        >>> for curve in display.curves:
        ...     print(curve.name, "falls" if curve.mean[-1] < curve.mean[0] / 2 else "stays")
        ECE falls
        Root Brier score stays
    """

    def __init__(
        self,
        curves: list[EstimationCurve],
        *,
        truth: float | Mapping[str, float] | None = None,
        name: str | None = None,
        confidence_level: float = 0.95,
    ) -> None:
        self.curves = list(curves)
        self.truth = truth
        self.name = name
        self.confidence_level = confidence_level

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        errors: str | Callable[..., float] | Sequence[Any] | Mapping[str, Any] = ("ece", "proper"),
        notion: NotionLike = "auto",
        sample_sizes: Sequence[int] | None = None,
        n_repeats: int = 50,
        confidence_level: float = 0.95,
        truth: float | Mapping[str, float] | None = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Errors of random subsamples of given probabilities.

        Parameters
        ----------
        errors : str, callable, list or dict of them by name, default=("ece", "proper")
            The errors to draw: names from the table in `EstimationDisplay`, or any error of this
            library or function ``error(y_true, y_proba, *, labels)`` (with `sample_weight` if
            weights are given); ``functools.partial`` fixes its options. The keys of a dict are the
            names in the legend.
        notion : str or Notion, default="auto"
            Notion of the errors that are named by strings, with the names of
            :func:`~skcalib.calibration_error`; a function has its own.
        sample_sizes : list of int, default=None
            Sizes of the subsamples, at most the number of samples; by default nine between about
            100 and all, evenly spaced on a log scale.
        n_repeats : int, default=50
            Subsamples of each size, drawn without replacement and the same for all errors. The full
            data are evaluated once.
        confidence_level : float, default=0.95
            Central share of the subsamples that the band contains.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which stay with their samples.

        Raises
        ------
        ValueError
            For invalid input, unknown errors, two errors of the same name, sizes larger than the
            data, and errors that return NaN or raise on a subsample (for example, one that is too
            small).
        """
        errors = check_errors(errors, notion)
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        problem.require_order(resolve_notion(notion))
        problem = event_last(problem, pos_label)
        check_truth(truth, [error.name for error in errors])
        curves = estimation_curves(
            problem,
            errors,
            check_sizes(sample_sizes, len(problem.forecast)),
            weighted=problem.sample_weight is not None,
            n_repeats=n_repeats,
            confidence_level=confidence_level,
            rng=check_random_state(random_state),
            n_jobs=n_jobs,
        )
        display = cls(curves, truth=truth, name=name, confidence_level=confidence_level)
        return display.plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        band: bool = True,
        prediction: bool = True,
        floor: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        band, prediction, floor, legend : bool, default=True
            Whether to draw the bands, the two folded-normal curves and the legend.

        Raises
        ------
        ValueError
            If `ax` is not an Axes, or `truth` is neither a number nor a dict by names of the
            curves.
        """
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        style = base.line_style(kwargs, curve_kwargs)
        truths = check_truth(self.truth, [curve.name for curve in self.curves])
        axes = base.panel_axes(ax, 1, size=(6.4, 4.6))
        (panel,), name = axes, self.name if name is None else name
        artists: dict[str, list] = {part: [] for part in ("line", "band", *KEYS)}
        for curve in self.curves:
            # Line styles distinguish predictions, floors and truths from means; markers
            # distinguish errors.
            look = base.next_style(panel) | {"linestyle": "-", "linewidth": None}
            look |= {"markersize": 4.5}
            look |= {"label": curve.name if name is None else f"{name}: {curve.name}", **style}
            artists["line"] += panel.plot(curve.size, curve.mean, **look)
            color = artists["line"][-1].get_color()
            if band:
                area = {"color": color, "alpha": 0.18, "zorder": 1, **(band_kwargs or {})}
                drawn = base.draw_band(panel, curve.size, curve.low, curve.high, area)
                artists["band"].append(drawn)
            for part, is_drawn in (("prediction", prediction), ("floor", floor)):
                heights = getattr(curve, part)
                if is_drawn and heights is not None:
                    dashes = {"linestyle": KEYS[part][1], "linewidth": 1.5, "zorder": 4}
                    artists[part] += panel.plot(curve.size, heights, color=color, **dashes)
            if curve.name in truths:
                dashes = {"linestyle": KEYS["truth"][1], "linewidth": 1.0, "zorder": 2}
                line = panel.axhline(truths[curve.name], color=color, **dashes)
                artists["truth"].append(line)
        panel.set(xscale="log", xlabel="Number of samples", ylabel="Estimated error")
        if legend:
            # A line for each error of all displays on the axes, and a grey key for each style.
            entries = base.legend_entries(panel)
            entries += [
                (Line2D([], [], color=base.GREY, linewidth=1.3, linestyle=dashes), text)
                for part, (text, dashes) in KEYS.items()
                if artists[part]
            ]
            if artists["band"]:
                level = f"{self.confidence_level * 100:g} % of the subsamples"
                entries.append((Patch(color=base.GREY, alpha=0.25, linewidth=0), level))
            base.place_legend(panel, entries)
        return base.set_artists(self, axes, artists)


@dataclass(frozen=True)
class EstimationCurve(Record):
    """One error against the sample size; arrays of shape (m,).

    ``mean`` is that over subsamples, for a squared error the signed root of the mean; the central
    share of the subsamples lies between ``low`` and ``high``. For l1 binned errors ``prediction``
    is the expected value by the folded-normal distribution, and ``floor`` the expected error at
    this size if the same forecasts were calibrated; None for others.
    """

    name: str
    size: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prediction: np.ndarray | None = None
    floor: np.ndarray | None = None

    _rows = ("size", "mean", "low", "high", "prediction", "floor")
    _beside = ("name",)


@dataclass(frozen=True)
class NamedError:
    """An error ``function(y_true, y_proba, *, labels, sample_weight)`` and its name.

    ``squared`` errors are averaged as squares and shown as the root, in units of probability.
    """

    name: str
    function: object
    squared: bool = False


#: Names of errors for `EstimationDisplay`.
ERRORS = {
    name: NamedError(quantity.label, quantity.metric, quantity.squared)
    for name, quantity in by("curve", (*QUANTITIES, DEBIASED)).items()
}

#: Lines of constant or expected error: legend text and line style.
KEYS: dict[str, tuple[str, Any]] = {
    "prediction": ("expected by the folded normal", "--"),
    "floor": ("expected if calibrated", ":"),
    "truth": ("truth", "-."),
}


_POINTS = 9  # sample sizes, by default
_FIRST = 100  # the smallest size, if the data are at least ten times larger


def check_errors(errors, notion):
    """Names for the notion, functions, or a dict of them by label -> list of `NamedError`."""
    options = {"notion": resolve_notion(notion)}
    if isinstance(errors, Mapping):
        named = [_check_error(error, options, str(name)) for name, error in errors.items()]
    else:
        several = isinstance(errors, (list, tuple))
        named = [_check_error(error, options) for error in (errors if several else [errors])]
    labels = [error.name for error in named]
    if not named or len(set(labels)) < len(labels):
        raise ValueError(
            f"errors must contain at least one error, with distinct names, got {labels}: pass a "
            "dict of errors by name."
        )
    return named


def _check_error(error, options, name=None):
    if isinstance(error, str) and error in ERRORS:
        known = ERRORS[error]
        return NamedError(name or known.name, partial(known.function, **options), known.squared)
    if not callable(error) or isinstance(error, type):
        names = ", ".join(map(repr, ERRORS))
        raise ValueError(
            f"errors must be among {names}, or functions of (y_true, y_proba, labels=...); got "
            f"{shown(error)}."
        )
    inner = getattr(error, "func", error)  # of functools.partial
    return NamedError(name or getattr(inner, "__name__", repr(error)), error)


def check_sizes(sample_sizes, n_samples):
    """Increasing sample sizes; by default nine from about 100 to all samples."""
    if sample_sizes is None:
        first = min(_FIRST, max(n_samples // 10, 2), n_samples)
        return np.unique(np.rint(np.geomspace(first, n_samples, _POINTS)).astype(int))
    sizes = list(sample_sizes) if np.ndim(sample_sizes) == 1 else []
    if not sizes or not all(map(is_whole, sizes)) or min(sizes) < 1 or max(sizes) > n_samples:
        raise ValueError(
            f"sample_sizes must be a list of whole numbers from 1 to the number of samples, "
            f"{n_samples}; got {shown(sample_sizes)}."
        )
    return np.unique(sizes)


def check_truth(truth: float | Mapping[str, float] | None, names: list[str]) -> dict[str, float]:
    """True errors by the names of the errors; one number is that of all."""
    if truth is None:
        return {}
    truths = dict(truth) if isinstance(truth, Mapping) else dict.fromkeys(names, truth)
    if not set(truths) <= set(names) or not all(map(is_finite, truths.values())):
        raise ValueError(
            f"truth must be a number, or a dict of numbers by names among {names}; got "
            f"{shown(truth)}."
        )
    return truths


def estimation_curves(
    problem, errors, sizes, *, weighted, n_repeats, confidence_level, rng, n_jobs
):
    """Curves of several errors on the same random subsamples of a `Problem`."""
    n_samples = len(problem.forecast)
    repeats = [1 if size == n_samples else n_repeats for size in sizes]
    tasks = [size for size, times in zip(sizes, repeats, strict=True) for _ in range(times)]
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(tasks))
    estimates = Parallel(n_jobs=n_jobs)(
        delayed(_subsample_errors)(problem, errors, size, seed, weighted)
        for size, seed in zip(tasks, seeds, strict=True)
    )
    ends = np.cumsum(repeats)[:-1]
    tail = 50 * (1 - confidence_level)
    curves = []
    for error, values in zip(errors, np.array(estimates).T, strict=True):
        if np.isnan(values).any():
            raise ValueError(
                f"{error.name} returned NaN: pass an error that is defined on subsamples."
            )
        parts = np.split(values, ends)
        numbers = [[part.mean(), *np.percentile(part, [tail, 100 - tail])] for part in parts]
        mean, low, high = np.array(numbers).T
        if error.squared:  # the signed root, in units of probability
            mean, low, high = (np.sign(v) * np.sqrt(np.abs(v)) for v in (mean, low, high))
        expected = _expected(problem, error.function, sizes, weighted)
        curves.append(EstimationCurve(error.name, sizes, mean, low, high, *expected))
    return curves


def _subsample_errors(problem, errors, size, seed, weighted):
    """Every error on one subsample, drawn without replacement and kept in the original order."""
    n_samples = len(problem.forecast)
    rows = slice(None)
    if size < n_samples:
        rows = np.random.default_rng(seed).choice(n_samples, size, replace=False)
    y, labels = problem.target[rows].argmax(axis=1), np.arange(len(problem.classes))
    options = {"sample_weight": problem.weight[rows]} if weighted else {}
    forecast = problem.forecast[rows]
    return [float(error.function(y, forecast, labels=labels, **options)) for error in errors]


def _expected(problem, function, sizes, weighted):
    """Folded-normal prediction and floor of an l1 `calibration_error`; None for other errors."""
    known = function if isinstance(function, partial) else partial(function)
    options = dict(known.keywords)
    if known.func is not calibration_error or options.pop("norm", "l1") != "l1":
        return None, None
    reduce = options.pop("reduce", "mean")
    notion = resolve_notion(options.pop("notion", "auto"))
    if type(notion) in (Classwise, Cumulative) and reduce == "sum":
        notion = type(notion)(reduce)
    n_bins, strategy = options.pop("n_bins", "auto"), options.pop("strategy", "quantile")
    y, weight = problem.target.argmax(axis=1), problem.weight if weighted else None
    labels = np.arange(len(problem.classes))
    events = Samples.of(y, problem.forecast, notion, weight, labels)
    score, event, weight = events.columns()
    weight = np.ones(score.shape[1]) if weight is None else weight
    share = 1 / len(score) if notion.reduce == "mean" else 1.0
    rows = []
    for size in sizes:
        bins = check_bins(n_bins, strategy, int(size))
        problems = zip(score, event, strict=True)
        rows.append(
            share
            * sum(expected_errors_of_subsamples(s, e, weight, bins, size) for s, e in problems)
        )
    return tuple(np.array(rows).T)
