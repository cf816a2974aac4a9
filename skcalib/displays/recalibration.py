"""Maps of fitted recalibrators: their numbers, and the figure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skcalib._util.formatting import Record
from skcalib._util.messages import shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label, MatrixLike
from skcalib._util.validation import check_proba
from skcalib.data.problem import check_problem
from skcalib.displays import base
from skcalib.estimators.classifiers import aligned_proba
from skcalib.estimators.recalibrated import CrossFitProba, RecalibratedClassifierCV
from skcalib.recalibration.base import (
    check_fitted_recalibrator,
    fit_recalibrator,
    is_injective,
    recalibrated_proba,
    steps_of,
)
from skcalib.recalibration.held_out import resolve_recalibrator

__all__ = ["RecalibrationDisplay", "RecalibrationMap"]


# --- The figure -----------------------------------------------------------------------------------


class RecalibrationDisplay(base.DiagonalDisplay):
    r"""Plot the map of a fitted recalibrator: probability after against probability before.

    Create one with `from_predictions`, `from_recalibrator`, `from_recalibrators` or
    `from_estimator`.

    **Two classes**: a recalibrator is a function :math:`p \mapsto p'` of the probability of the
    positive class. It is drawn as a curve over [0, 1], also with ``input="logits"``. A jump of a
    step function is drawn as a vertical line. On the diagonal the probability is unchanged, and
    above the diagonal it increases. A flat section maps different forecasts to one value.

    **More classes**: the recalibrated probability of a class depends on the probabilities of all
    classes. There is a panel for each class with one point for each forecast, so forecasts are
    needed. If the points lie on a curve, the result is a function of this probability alone. A
    cloud shows that it also depends on the others. If there are more than `max_points` forecasts,
    that many are drawn, evenly spaced in their order, and the legend states this.

    The legend states the declared properties of the recalibrator: whether it is injective, so that
    no sharpness is lost, and whether it keeps the order of the classes. For a Pipeline it states
    the properties that all steps have. A recalibrator without declared properties is shown by name
    only.

    Parameters
    ----------
    maps : list of RecalibrationMap
        The maps: ``before`` and ``after``, with ``name``, ``event`` (the class), ``joined``
        (whether they are a curve), ``scores`` (all forecasts of the class, or None) and
        ``declared``. Maps of one event share a panel, maps of one name a colour.

    Attributes
    ----------
    line_ : Line2D or list of Line2D
        The curve, or the points; a list where there are several, panel by panel.
    ref_line_ : Line2D, list of Line2D or None
        The diagonal of each panel.
    ax_hist_ : Axes, list of Axes or None
        The thin axes above, with the histogram of the forecasts before recalibration.

    See Also
    --------
    ReliabilityDisplay : The curve that an ideal map has.
    calibration_improvement : Whether the map is worthwhile.

    Notes
    -----
    Probabilities of exactly 0 have no logarithm. Maps of the logit replace them by half of the
    smallest positive probability of their calibration set, which may appear as a short vertical
    line at the border. A map of logits is evaluated at the logarithms of the probabilities, with 0
    replaced by the smallest positive number in double precision.

    Examples
    --------
    .. plot::
        :alt: S-shaped map of a Platt scaling for the probability of class 1.

        >>> from skcalib import IsotonicRecalibrator, PlattScaling, RecalibrationDisplay
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> platt = PlattScaling().fit(data.y_proba, data.y)
        >>> display = RecalibrationDisplay.from_recalibrator(platt)
        >>> print(display.line_.get_label())
        PlattScaling
        injective, may change the predicted class
    """

    _parts = ("line", "ref_line", "ax_hist")
    _diagonal = base.UNCHANGED
    _outcome = "Recalibrated probability"

    def __init__(self, maps: list[RecalibrationMap]) -> None:
        self.maps = list(maps)

    @classmethod
    @checks_parameters
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        recalibrator: BaseEstimator | str = "auto",
        *,
        classes: Sequence[Any] | np.ndarray | None = None,
        max_points: int = 3000,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Label = None,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Map that a recalibrator learns from labels and probabilities.

        Parameters
        ----------
        recalibrator : recalibrator or str, default="auto"
            A clone is fitted to the data: "auto" (`StackedRecalibrator`), "temperature",
            "isotonic", "platt", "beta" or an object, as in `RecalibratedClassifierCV`.
        classes, max_points, name
            As in `from_recalibrator`.

        Raises
        ------
        ValueError
            For invalid input, an object that is no recalibrator or takes logits, unknown classes,
            and more than 25 panels.
        """
        problem = check_problem(
            y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
        )
        recalibrator = resolve_recalibrator(recalibrator)
        if any(getattr(step, "input", "proba") == "logits" for step in steps_of(recalibrator)):
            raise ValueError(
                "recalibrator takes logits, but y_proba are probabilities: leave out "
                "input='logits', or fit it to logits and use from_recalibrator."
            )
        known, proba, weight = problem.classes, problem.forecast, problem.sample_weight
        fitted = fit_recalibrator(recalibrator, proba, problem.labels, weight, known, measure=False)
        name = default_name(fitted) if name is None else name
        columns = _columns(known, classes, _positive(known, pos_label))
        maps = recalibration_maps(
            fitted, name, known, columns, proba=proba, max_points=max_points, weight=weight
        )
        return cls(maps).plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_recalibrator(
        cls,
        recalibrator: BaseEstimator,
        y_proba: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | np.ndarray | None = None,
        pos_label: Label = None,
        max_points: int = 3000,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Map of one recalibrator.

        Parameters
        ----------
        recalibrator : recalibrator or Pipeline of recalibrators
            Fitted; any object with ``predict_proba(P)``.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Forecasts before recalibration, always probabilities, with ``input="logits"`` too.
            Needed for more than two classes. For two they add the histogram.
        classes : list of labels, default=None
            The classes to draw, at most 25; by default the positive class of a binary problem, else
            all.
        max_points : int, default=3000
            Largest number of points in a panel, for more than two classes; further forecasts are
            omitted.
        name : str, default=None
            Name in the legend; the class of the recalibrator by default.

        Raises
        ------
        ValueError
            If the object is not a recalibrator, for more than two classes without forecasts,
            forecasts of other classes, unknown classes, and more than 25 panels.
        NotFittedError
            For a recalibrator that is not fitted.

        Examples
        --------
        >>> from skcalib import RecalibrationDisplay, VectorScaling
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(1000, 3, random_state=0)
        >>> scaling = VectorScaling(shrinkage=10).fit(data.y_proba, data.y)
        >>> display = RecalibrationDisplay.from_recalibrator(scaling, data.y_proba)
        >>> [drawn.event for drawn in display.maps]
        ['class 0', 'class 1', 'class 2']
        """
        name = default_name(recalibrator) if name is None else name
        return cls.from_recalibrators(
            {name: recalibrator},
            y_proba,
            classes=classes,
            pos_label=pos_label,
            max_points=max_points,
            ax=ax,
            **plot_params,
        )

    @classmethod
    @checks_parameters
    def from_recalibrators(
        cls,
        recalibrators: Sequence[BaseEstimator] | Mapping[str, BaseEstimator],
        y_proba: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | np.ndarray | None = None,
        pos_label: Label = None,
        max_points: int = 3000,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Maps of several recalibrators of the same forecasts, overlaid.

        Parameters
        ----------
        recalibrators : dict of str to recalibrator, or list of recalibrators
            Fitted, by their names or with the names of their classes.
        y_proba, classes, pos_label, max_points, ax, **plot_params
            As in `from_recalibrator`.

        Raises
        ------
        ValueError
            As `from_recalibrator`, and for recalibrators of different classes.
        NotFittedError
            For a recalibrator that is not fitted.

        Examples
        --------
        >>> from skcalib import IsotonicRecalibrator, RecalibrationDisplay, TemperatureScaling
        >>> from skcalib.datasets import make_tempered_simplex
        >>> data = make_tempered_simplex(2000, 2, random_state=0)
        >>> fitted = [
        ...     recalibrator.fit(data.y_proba, data.y)
        ...     for recalibrator in (TemperatureScaling(), IsotonicRecalibrator())]
        >>> display = RecalibrationDisplay.from_recalibrators(fitted, data.y_proba)
        >>> [drawn.name for drawn in display.maps]
        ['TemperatureScaling', 'IsotonicRecalibrator']
        """
        pairs = name_recalibrators(recalibrators)
        proba = None if y_proba is None else check_proba(y_proba)
        classes_of_maps = [_known_classes(recalibrator, proba) for _, recalibrator in pairs]
        known = classes_of_maps[0]
        for different in classes_of_maps[1:]:
            if not np.array_equal(different, known):
                raise ValueError(
                    f"The recalibrators have different classes, {known.tolist()} and "
                    f"{different.tolist()}: draw them one by one."
                )
        names = list(getattr(y_proba, "columns", ()))  # of a data frame
        for _, recalibrator in pairs:
            fitted = list(getattr(recalibrator, "feature_names_in_", ()))
            if len(names) == len(fitted) and names != fitted:
                raise ValueError(
                    f"The columns of y_proba are named {names}, but {type(recalibrator).__name__} "
                    f"was fitted to {fitted}."
                )
        positive = _positive(known, pos_label)
        # A single column is the probability of the first class.
        if positive == 0 and proba is not None and np.asarray(y_proba).size == len(proba):
            proba = proba[:, ::-1]
        columns = _columns(known, classes, positive)
        maps = []
        for name, recalibrator in pairs:
            maps += recalibration_maps(
                recalibrator, name, known, columns, proba=proba, max_points=max_points
            )
        return cls(maps).plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_estimator(  # type: ignore[override]
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        *,
        classes: Sequence[Any] | np.ndarray | None = None,
        pos_label: Label = None,
        max_points: int = 3000,
        name: str | None = None,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """Map inside a recalibrated classifier, at the probabilities of its inner classifier.

        With ``ensemble=True`` each fold has its own classifier and map. Their maps are overlaid in
        one colour; the classifier averages over them.

        Parameters
        ----------
        estimator : RecalibratedClassifierCV or Pipeline
            Fitted; a Pipeline ends in one, or has a `CrossFitProba` and recalibrators after it.
        classes, pos_label, max_points, name, ax, **plot_params
            As in `from_recalibrator`.

        Raises
        ------
        ValueError
            As `from_recalibrator`, and for estimators without a recalibrator.
        NotFittedError
            For an estimator that is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from skcalib import RecalibratedClassifierCV, RecalibrationDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = RecalibratedClassifierCV(GaussianNB(), "temperature").fit(X[::2], y[::2])
        >>> display = RecalibrationDisplay.from_estimator(model, X[1::2])
        >>> print(display.line_.get_label())
        TemperatureScaling
        injective, keeps the order of classes
        """
        pairs, known = _inner(estimator, X)
        name = default_name(pairs[0][0]) if name is None else name
        columns = _columns(known, classes, _positive(known, pos_label))
        maps = []
        for recalibrator, proba in pairs:
            maps += recalibration_maps(
                recalibrator, name, known, columns, proba=proba, max_points=max_points
            )
        return cls(maps).plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        name: str | None = None,
        scale: Literal["auto", "linear", "sqrt", "logit"] = "auto",
        ref_line: bool = True,
        histogram: bool = True,
        legend: bool = True,
        curve_kwargs: dict[str, Any] | None = None,
        hist_kwargs: dict[str, Any] | None = None,
        ref_line_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the map.

        Parameters
        ----------
        scale : {"auto", "linear", "sqrt", "logit"}, default="auto"
            Scale of both axes, see `ReliabilityDisplay.plot`; linear without forecasts.

        Raises
        ------
        ValueError
            If `ax` cannot hold the panels, for a name of several recalibrators, and for an unknown
            scale.
        """
        panels = base.grouped(self.maps)
        n_names = len({drawn.name for drawn in self.maps})
        if name is not None and n_names > 1:
            raise ValueError(
                f"name is for a single recalibrator, but there are {n_names}: name them with a "
                "dict in from_recalibrators."
            )
        style = base.line_style(kwargs, curve_kwargs)
        ref_style = base.without_aliases(ref_line_kwargs) if ref_line else None
        axes = base.panel_axes(ax, len(panels))
        with_scores = [drawn for drawn in self.maps if drawn.scores is not None]
        base.scale_panels(axes, [(drawn.scores, drawn.weight) for drawn in with_scores], scale)
        artists = self._draw_panels(
            axes,
            panels.items(),
            [base.scores_of(maps) for maps in panels.values()],
            ref_style=ref_style,
            hist_style=(hist_kwargs or {}) if histogram else None,
            name=name,
            style=style,
        )
        if legend:
            base.draw_legends(axes, markerscale=2.5)
        return base.set_artists(self, axes, artists)

    def _draw_curves(self, ax, maps, artists, *, name, style):
        """Lines of the maps of one class; those of one name, as of folds, share a colour."""
        for name_of_map, folds in base.grouped(maps, "name").items():
            number = f" ({len(folds)} folds)" if len(folds) > 1 else ""
            declared = " / ".join(dict.fromkeys(fold.declared for fold in folds))
            label = f"{name_of_map if name is None else name}{number}\n{declared}".strip("\n")
            look = base.next_style(ax) | {"label": label}
            if folds[0].joined:
                look |= {"marker": None, "markersize": None}
                look |= {"alpha": 1.0 if len(folds) == 1 else 0.6}
            else:
                look |= {"linestyle": "", "linewidth": None, "markeredgewidth": 0, "alpha": 0.4}
                look |= {"markersize": 2 if len(maps) == 1 else 1.8, "rasterized": True}
            for fold in folds:
                artists["line"] += ax.plot(fold.before, fold.after, **{**look, **style})
                look["label"] = None  # one entry of the legend
        several = len({drawn.name for drawn in self.maps}) > 1
        return "0.4" if several else artists["line"][-1].get_color()


# --- What is drawn --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RecalibrationMap(Record):
    """The map of one recalibrator for the probability of one class.

    ``before`` and ``after`` are a curve if ``joined``, else single forecasts. ``scores`` are all
    given forecasts of the class, or None, and ``weight`` their weights.
    ``declared`` is the text of the declared properties.
    """

    name: str
    event: str
    before: np.ndarray
    after: np.ndarray
    joined: bool
    scores: np.ndarray | None
    declared: str
    weight: np.ndarray | None = None

    _rows = ("before", "after")
    _beside = ("name", "event", "declared")


def recalibration_maps(recalibrator, name, known, columns, *, proba, max_points, weight=None):
    """The `RecalibrationMap` of each class that is drawn, at the forecasts `proba` or None."""
    declared = ", ".join(_declared(recalibrator))
    joined = len(known) == 2
    if not joined:
        if proba is None:
            raise ValueError(
                f"The map of {len(known)} classes is not a single curve and is drawn at forecasts: "
                "pass y_proba."
            )
        n_points = min(len(proba), max_points)
        rows = np.linspace(0, len(proba) - 1, n_points).round().astype(int)
        forecast, answer = proba[rows], _apply(recalibrator, known, proba[rows])
        if len(rows) < len(proba):
            declared = f"{declared}\n{len(rows):,} of {len(proba):,} forecasts".lstrip("\n")
    if weight is None and proba is not None:
        weight = np.ones(len(proba))
    maps = []
    for k in columns:
        curve = _trace(recalibrator, known, k) if joined else (forecast[:, k], answer[:, k])
        recalibration_map = RecalibrationMap(
            name=name,
            event=f"class {known[k]}",
            before=curve[0],
            after=curve[1],
            joined=joined,
            scores=None if proba is None else proba[:, k],
            declared=declared,
            weight=weight,
        )
        maps.append(recalibration_map)
    return maps


def _declared(recalibrator):
    """Declared properties of a map as text, if any. For a Pipeline: those of all its steps."""
    injective = is_injective(recalibrator)
    if injective is not None:
        yield "injective" if injective else "not injective"
    steps = steps_of(recalibrator)
    if all(getattr(step, "preserves_order_", False) for step in steps):
        yield "keeps the order of classes"
    elif all(getattr(step, "preserves_argmax_", False) for step in steps):
        yield "keeps the predicted class"
    elif all(hasattr(step, "preserves_argmax_") for step in steps):
        yield "may change the predicted class"


def _apply(recalibrator, known, proba):
    """Recalibrated probabilities, columns in the order of the classes."""
    columns = getattr(recalibrator, "n_features_in_", len(known))
    first = next(iter(steps_of(recalibrator)), None)
    if getattr(first, "input", "proba") == "logits":
        # 0 and 1 have no logit: they are replaced by the nearest value with a finite one.
        values = np.log(np.maximum(proba, np.finfo(np.float64).tiny))
        values = values[:, 1:] - values[:, :1] if columns == 1 else values
    else:
        values = proba[:, 1:] if columns == 1 else proba
    with warnings.catch_warnings():  # fitted to a data frame; names are checked above
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return recalibrated_proba(recalibrator, values, known)


_STEEP = 0.01  # grid neighbours that differ by more than this get a point between them


def _trace(recalibrator, known, k):
    """The map of the probability of class k of two, on a grid that is fine at the ends and jumps.

    Neighbours differ by at most 0.01, unless they lie on the two sides of a jump.
    """

    def curve(p):
        columns = np.column_stack([p, 1 - p] if k == 0 else [1 - p, p])
        return _apply(recalibrator, known, columns)[:, k]

    ends = np.geomspace(1e-6, 0.01, 81)
    before = np.unique(np.concatenate([np.linspace(0, 1, 501), ends, 1 - ends]))
    after = curve(before)
    for _ in range(50):
        steep = np.flatnonzero(np.abs(np.diff(after)) > _STEEP)
        middle = (before[steep] + before[steep + 1]) / 2
        inside = (middle > before[steep]) & (middle < before[steep + 1])
        if not inside.any():
            break
        place, middle = steep[inside] + 1, middle[inside]
        before, after = np.insert(before, place, middle), np.insert(after, place, curve(middle))
    return before, after


# --- Names of the recalibrators, and columns of their classes -------------------------------------


def name_recalibrators(recalibrators):
    """A dict as it is, or a sequence with the names of the classes -> pairs (name, object)."""
    if isinstance(recalibrators, Mapping):
        pairs = list(recalibrators.items())
    elif isinstance(recalibrators, (list, tuple)):
        pairs, times = [], {}
        for recalibrator in recalibrators:
            name = default_name(recalibrator)
            times[name] = times.get(name, 0) + 1
            number = f" ({times[name]})" if times[name] > 1 else ""
            pairs.append((name + number, recalibrator))
    else:
        raise ValueError(
            "recalibrators must be a list of recalibrators, or a dict of them by name; for "
            "a single one use from_recalibrator."
        )
    if not pairs:
        raise ValueError("recalibrators is empty: there is no map to draw.")
    return pairs


def default_name(recalibrator):
    """Class of a recalibrator; the classes of the steps of a Pipeline."""
    steps = steps_of(recalibrator)
    return " → ".join(type(step).__name__ for step in steps) or type(recalibrator).__name__


def _inner(estimator, X):
    """Pairs (recalibrator, its probabilities) of a classifier, and the classes of the columns."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        for last, (_, step) in enumerate(estimator.steps, start=1):
            if isinstance(step, CrossFitProba) and last < len(estimator.steps):
                proba = check_proba(estimator[:last].transform(X))
                return [(estimator[last:], proba)], step.classes_
        if len(estimator.steps) > 1 and isinstance(estimator[-1], RecalibratedClassifierCV):
            return _inner(estimator[-1], estimator[:-1].transform(X))
    if not isinstance(estimator, RecalibratedClassifierCV):
        raise ValueError(
            "from_estimator takes a fitted RecalibratedClassifierCV, or a Pipeline of a "
            f"CrossFitProba and recalibrators, got {type(estimator).__name__}: for a recalibrator "
            "itself use from_recalibrator."
        )
    check_is_fitted(estimator)
    folds = zip(estimator.estimators_, estimator.recalibrators_, estimator.responses_, strict=True)
    classes = estimator.classes_
    pairs = [
        (recalibrator, aligned_proba(model, X, classes, response))
        for model, recalibrator, response in folds
    ]
    return pairs, classes


def _known_classes(recalibrator, proba):
    """Classes of a fitted recalibrator; raises if it is not one or does not match `proba`."""
    check_fitted_recalibrator(recalibrator, features="use from_estimator")
    known = getattr(recalibrator, "classes_", None)
    if known is None:  # a recalibrator from outside this library
        fitted_columns = getattr(recalibrator, "n_features_in_", None)
        columns = fitted_columns if proba is None else proba.shape[1]
        return np.arange(max(columns or 2, 2))
    if proba is not None and proba.shape[1] != len(known):
        raise ValueError(
            f"y_proba has {proba.shape[1]} columns, but {type(recalibrator).__name__} was fitted "
            f"with {len(known)} classes."
        )
    return np.asarray(known)


def _positive(known, pos_label):
    """Position of the positive class; None where it is not given."""
    if pos_label is None:
        return None
    if len(known) > 2:
        raise ValueError(
            f"pos_label is for binary problems, but there are {len(known)} classes: choose some by "
            "classes=[...]."
        )
    matches = [label == pos_label for label in known.tolist()]
    if not any(matches):
        raise ValueError(
            f"pos_label={shown(pos_label)} is not one of the classes {known.tolist()}."
        )
    return matches.index(True)


def _columns(known, classes, positive):
    """Positions of the classes to draw; by default the positive class, or all of three or more."""
    if len(known) < 2:
        raise ValueError(
            f"There is only one class, {known[0]!r}: its probability is always 1, so there "
            "is no map to draw."
        )
    if classes is None:
        last = 1 if positive is None else positive
        columns = [last] if len(known) == 2 else list(range(len(known)))
    else:
        position = {label: k for k, label in enumerate(known.tolist())}
        asked = [] if isinstance(classes, (dict, set)) else np.ravel(classes).tolist()
        asked = [label for k, label in enumerate(asked) if label not in asked[:k]]
        unknown = [label for label in asked if label not in position]
        if unknown or not asked:
            error = f"contains {shown(unknown[0])}" if unknown else "must list classes"
            raise ValueError(f"classes {error}: the classes are {known.tolist()}.")
        columns = [position[label] for label in asked]
    if len(columns) > base.MAX_PANELS:
        raise ValueError(
            f"There is one panel per class, and {len(columns)} exceed the limit of "
            f"{base.MAX_PANELS} panels: choose some with classes=[...]."
        )
    return columns
