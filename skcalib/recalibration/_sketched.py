"""Recalibrators that are fitted to a summary of forecasts: sums, in place of the samples.

`FittedFromSketch` has the public method. The rows of the samples that `_fit_map` is given stand for
several samples each. A map of all probabilities at once is fitted for two classes only.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skcalib.data.labels import check_label_list, listed
from skcalib.data.problem import ForecastSummary
from skcalib.recalibration._base import CalibrationSamples, Recalibrator


class FittedFromSketch(Recalibrator):
    """Adds `fit_sketch` to a recalibrator."""

    #: Whether the map takes one probability at a time; else a sketch can only have two classes.
    _takes_columns = False
    input: Any
    labels: Any
    loss: Any

    def fit_sketch(self, sketch: ForecastSummary) -> Self:
        r"""Learn the map from a sketch: sums over cells of any number of forecasts.

        For two classes, the sketch holds the probability of the last class. For more, it holds the
        probability of each class (``notion="classwise"``). The groups of a sketch are combined.

        Parameters
        ----------
        sketch : ForecastSketch
            The labels and forecasts. Its classes, in the order of its columns, become ``classes_``.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the attributes that `fit` sets for one column per class.
            For more than two classes ``loss_before_`` and ``loss_after_`` are nan: they need all
            probabilities of a sample at once.

        Raises
        ------
        ValueError
            For an object that is not a sketch, or is empty; for a sketch of another notion, or of
            classes other than ``labels``; for ``input="logits"``, because a sketch has
            probabilities.

        Warns
        -----
        ConvergenceWarning
            As `fit`.

        Notes
        -----
        The rows of the fit are the cells of the sketch, each with the number and the weight of its
        samples. The result is that of `fit` on samples whose scores are replaced by the mean score
        of their cell. :ref:`sketch_accuracy` has the measured differences: below 2e-6 for
        parametric maps and scores from 1e-10 to 1 - 1e-10, and on average below .002 for step
        functions.

        Scores of exactly 0 and 1 have their own cells. The sketch has one probability p of each
        event; the complement has the probability 1 - p. Where an array has the columns (1e-20, 1),
        the first therefore counts as 0. ``detection_limit_`` follows from the smallest mean score
        of a cell.
        """
        self._check_parameters()
        problems, classes = self._problems_of(sketch)
        self.n_features_in_, self.classes_ = len(classes), classes
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        parts = [
            self._samples(one.forecast, one.target, one.weight, count=one.count, square=one.square)
            for one in problems
        ]
        return self._learn(parts[0] if len(parts) == 1 else ClasswiseSamples(parts))

    def _problems_of(self, sketch):
        """A `Problem` for each map, and the classes."""
        name = type(self).__name__
        if not isinstance(sketch, ForecastSummary):
            raise ValueError(
                f"sketch must be a ForecastSketch, got {type(sketch).__name__}: make one by "
                f"ForecastSketch(labels).partial_fit(y, y_proba), or use {name}.fit(y_proba, y)."
            )
        notion, _, classes = sketch.summarised_notion()
        if self.input != "proba":
            raise ValueError(
                f"A sketch has probabilities, but {name} has input={self.input!r}: use "
                "input='proba', and pass the softmax of the logits to predict_proba."
            )
        if self.labels is not None:
            labels = check_label_list(self.labels)
            if labels.tolist() != classes.tolist():
                raise ValueError(
                    f"{name} has labels={listed(labels)}, but the classes of the sketch are "
                    f"{listed(classes)}: leave labels= out, or make the sketch with the same."
                )
        if len(classes) > 2 and not self._takes_columns:
            raise ValueError(
                f"{name} needs all probabilities of a sample, and a sketch has one at a time, "
                f"which is sufficient for two classes only, got {len(classes)}: use "
                "TemperatureScaling.fit_chunks, or PlattScaling with a sketch of "
                "notion='classwise'."
            )
        known = ("canonical", "classwise") if len(classes) == 2 else ("classwise",)
        if notion not in known:
            raise ValueError(
                f"{name} needs the probability of each class, but the sketch was made for "
                f"notion={notion!r}: make one with notion={known[0]!r}."
            )
        problems = [one.problem(classes) for one in sketch.scored()]
        return problems[-1:] if len(classes) == 2 else problems, classes


class ClasswiseSamples:
    """Samples of each class against the rest, from sketches that have their own rows."""

    def __init__(self, parts: list[CalibrationSamples]) -> None:
        self.parts = parts

    def per_class(self) -> list[CalibrationSamples]:
        """As `CalibrationSamples.per_class`."""
        return self.parts

    def ranges(self, recalibrator: Recalibrator) -> np.ndarray:
        """As `CalibrationSamples.ranges`."""
        return np.array([one.ranges(recalibrator)[1] for one in self.parts])

    def mean_losses(self, recalibrator: Recalibrator) -> tuple[float, float]:
        """Not known: losses need all probabilities of a sample."""
        return float("nan"), float("nan")
