"""Maps of fitted recalibrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, AxesLike, Label, MatrixLike
from skcalib.data.problem import check_problem
from skcalib.displays._constructors import Display
from skcalib.displays._maps import (
    RecalibrationMap,
    default_name,
    estimator_maps,
    fitted_map,
    given_maps,
    name_recalibrators,
)


class RecalibrationDisplay(Display):
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
        problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
        maps = fitted_map(problem, recalibrator, name, classes, max_points, pos_label)
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
        >>> [one.event for one in display.maps]
        ['class 0', 'class 1', 'class 2']
        """
        name = default_name(recalibrator) if name is None else name
        maps = given_maps([(name, recalibrator)], y_proba, classes, max_points, pos_label)
        return cls(maps).plot(ax=ax, **plot_params)

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
        >>> several = [TemperatureScaling(), IsotonicRecalibrator()]
        >>> fitted = [one.fit(data.y_proba, data.y) for one in several]
        >>> display = RecalibrationDisplay.from_recalibrators(fitted, data.y_proba)
        >>> [one.name for one in display.maps]
        ['TemperatureScaling', 'IsotonicRecalibrator']
        """
        maps = given_maps(
            name_recalibrators(recalibrators), y_proba, classes, max_points, pos_label
        )
        return cls(maps).plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_estimator(
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
        return cls(estimator_maps(estimator, X, name, classes, max_points, pos_label)).plot(
            ax=ax, **plot_params
        )

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
        from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

        panels = {}
        for one in self.maps:
            panels.setdefault(one.event, []).append(one)
        names = list(dict.fromkeys(one.name for one in self.maps))
        if name is not None and len(names) > 1:
            raise ValueError(
                f"name is for a single recalibrator, but there are {len(names)}: name them with a "
                "dict in from_recalibrators."
            )
        style = draw.line_style(kwargs, curve_kwargs)
        axes = draw.panel_axes(ax, len(panels))
        rows = [(one.scores, one.weight) for one in self.maps if one.scores is not None]
        draw.scale_panels(axes, rows, scale)
        styles = draw.Styles(style, None, hist_kwargs, ref_line_kwargs)
        artists = {part: [] for part in ("line", "ref_line", "ax_hist")}
        own = {} if name is None else {names[0]: name}
        for panel, maps in zip(axes, panels.values(), strict=True):
            _draw_maps(panel, maps, artists, own, styles, ref_line, histogram)
        if legend:
            entries = zip(*axes[0].get_legend_handles_labels(), strict=True)
            entries = sorted(entries, key=lambda entry: entry[1] == draw.UNCHANGED)
            draw.draw_common_legend(axes, entries, outside=ax is None, markerscale=2.5)
        return draw.keep(self, artists | {"ax": axes})


# --- Drawing of the maps of recalibrators on given axes -------------------------------------------


def _draw_maps(ax, maps, artists, names, styles, ref_line, histogram):
    """Draw the maps of one class, and add the artists to the lists of their kinds."""
    from skcalib.displays import _plotting as draw  # matplotlib is imported here, not before

    if ref_line:
        style = draw.without_aliases(styles.ref_line)
        artists["ref_line"].append(draw.draw_reference(ax, draw.UNCHANGED, **style))
    lines, colors, numbers = [], {}, {}
    for one in maps:
        alike = [other for other in maps if other.name == one.name]
        first = one.name not in colors
        color = colors.setdefault(one.name, draw.next_color(ax))
        style, marker = draw.numbered(numbers.setdefault(one.name, draw.next_number(ax)))
        style |= {"color": color, "label": _label(alike, names) if first else None, "zorder": 3}
        if one.joined:
            # The folds of a cross-validation share a colour and one entry of the legend.
            style |= {"linewidth": 1.6, "alpha": 1.0 if len(alike) == 1 else 0.6}
        else:
            style |= {"linestyle": "", "marker": marker, "markeredgewidth": 0}
            style |= {"markersize": 2 if len(maps) == 1 else 1.8, "alpha": 0.4, "rasterized": True}
        lines += ax.plot(one.before, one.after, **{**style, **styles.curve})
    artists["line"] += lines
    known = [one for one in maps if one.scores is not None]
    if histogram and known:
        color = lines[0].get_color() if len(colors) == 1 else "0.4"
        style = {"color": color, **(styles.histogram or {})}
        artists["ax_hist"].append(draw.draw_scores(ax, *draw.scores_of(known), **style))
    draw.square_axes(ax, maps[0].event)
    ax.set_ylabel(ax.get_xlabel().replace("Predicted", "Recalibrated", 1))


def _label(maps, names):
    """Name and declared properties; for several folds, all that occur."""
    name = names.get(maps[0].name, maps[0].name)
    folds = f" ({len(maps)} folds)" if len(maps) > 1 else ""
    words = " / ".join(dict.fromkeys(one.declared for one in maps))
    return f"{name}{folds}\n{words}".strip("\n")
