"""Bars of the decomposition of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from skcalib._util.formatting import Record, decimals_of, nonnegative_text
from skcalib._util.messages import shown
from skcalib._util.parallel import seed_of
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import CV, ArrayLike, Label, MatrixLike, RandomState, ResponseMethod
from skcalib._util.validation import check_indices, weighted_features
from skcalib.data.notions import Classwise, Cumulative, NotionLike, TopLabel, resolve_notion
from skcalib.data.problem import Problem, check_problem, event_last
from skcalib.displays import drawing as draw
from skcalib.displays.display import Display, held_out, unit
from skcalib.displays.grouping import grouping_interval
from skcalib.estimators.calibration_error import CalibrationErrorEstimator
from skcalib.grouping import GroupingLossEstimator
from skcalib.scores import LossLike, resolve_loss
from skcalib.stats.means import MeanInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skcalib.smoothers import SmootherLike


class DecompositionDisplay(Display):
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
            problem, features, _ = held_out(
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
        if ax is None:
            ax = draw.new_axes((6.6, 1.4 + 0.62 * len(self.terms)))
        (self.ax_,) = draw.panel_axes(ax, 1)
        self.bars_, self.whiskers_, self.loss_ = _draw_terms(
            self.ax_,
            self.terms,
            level=f"{self.confidence_level * 100:g} %",
            values=values,
            legend=legend,
            bar_style=bar_kwargs or {},
            whisker_style=draw.without_aliases(whisker_kwargs),
        )
        self.ax_.set_xlabel(self.unit[:1].upper() + self.unit[1:])
        self.figure_ = self.ax_.figure
        return self


# --- From predictions to the parts of the loss. No drawing code -----------------------------------


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
        return unit(self.shared["loss"]) + about.get(type(notion), "")


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
    return TermOptions(shared, _check_grouping(grouping, random_state))


def _check_grouping(grouping, random_state):
    """The estimator of the grouping loss: None, or an unfitted estimator."""
    if grouping is None:
        return None
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
    return estimator.set_params(n_permutations=0, random_state=seed)


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


# --- Drawing of the parts of losses on given matplotlib axes --------------------------------------


# Okabe and Ito: distinguishable with any colour vision, and of different lightness.
COLORS = {"calibration": "#d55e00", "grouping": "#56b4e9", "rest": "#d9d9d9"}
TEXTS = {"calibration": "Calibration", "grouping": "Grouping (at least)"}
_HEIGHT = 0.46
_WIDE = 4.0  # inches that a line of numbers needs
_OFFSET = {"calibration": -0.11, "grouping": 0.11}  # so that whiskers do not overlap


def _draw_terms(ax, terms, *, level, values, legend, bar_style, whisker_style):
    """Bars and whiskers by the name of the part, and the marks of the losses."""
    rows = np.arange(len(terms))
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
        }
        bars[name] = ax.barh(rows, length, left=start, **{**style, **bar_style})
        if name in names:
            label = f"{level} interval" if name == names[0] else None
            style = {"fmt": ".", "color": "black", "markersize": 3.5, "capsize": 2.5}
            style |= {"linewidth": 1.0, "label": label, "zorder": 4, **whisker_style}
            whiskers[name] = _whiskers(ax, terms, name, start, style)
        right, left = right + np.maximum(length, 0), left + np.minimum(length, 0)
    losses = np.array([term.loss for term in terms])
    span = (rows - _HEIGHT / 2, rows + _HEIGHT / 2)
    ax.vlines(np.zeros(len(rows)), *span, color="black", linewidth=0.8, zorder=3)
    marks = ax.vlines(losses, *span, color="black", linewidth=2, zorder=5, label="Loss")
    wide = draw.width_of(ax) > _WIDE
    _write(ax, terms, right, values=wide if values == "auto" else values)
    if legend:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1.0), "frameon": False}
        place |= {"ncols": 3, "fontsize": "small"} if wide else {"ncols": 2, "fontsize": "x-small"}
        handles = [*bars.values(), marks, whiskers[names[0]]]
        ax.legend(handles=handles, handlelength=1.2, columnspacing=1.2, **place)
    return bars, whiskers, marks


def _whiskers(ax, terms, name, start, style):
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


def _write(ax, terms, right, *, values):
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
