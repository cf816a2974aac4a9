r"""Where few events are expected, asymptotic laws fail: the rule that all tests and intervals use.

An event is rare, or a forecast is confident, if its label is nearly certain. Sums over such labels
are far from normal, however many samples there are: what counts is the number of labels that the
forecasts leave uncertain. Below `FEW` of them, tests draw labels from the forecasts, and intervals
use exact limits of the number of events.
"""

from __future__ import annotations

import numpy as np

#: Uncertain labels from which asymptotic laws hold.
FEW = 40.0
#: Events or wrong predictions below which intervals use exact limits.
FEW_LABELS = 20.0


def uncertain_labels(
    forecast: np.ndarray, weight: np.ndarray, square: np.ndarray | None = None
) -> float:
    r"""Effective number of labels that the forecasts leave uncertain.

    With :math:`v_i = (1 - \|S_i\|^2) / 2`, which is S (1 - S) for two classes, it is :math:`(\sum w
    v)^2 / \sum w^2 v`. With equal weights and a rare event this is the expected number of events;
    with confident forecasts nearly that of wrong predictions. `square` (n,) has the sums of squared
    weights where a row stands for several samples.
    """
    variance = np.maximum(1 - np.einsum("ik,ik->i", forecast, forecast), 0.0) / 2
    scale = weight.max()  # squares of weights may over- or underflow
    square = np.square(weight / scale) if square is None else square / scale / scale
    weight = weight / scale
    spread = float(square @ variance)
    return float(weight @ variance) ** 2 / spread if spread > 0 else 0.0


def impossible_labels(forecast: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Which samples (n,) have a label with a forecast of exactly 0: it refutes calibration."""
    return ((forecast == 0) & (target > 0)).any(axis=1)


def refutation(forecast: np.ndarray, target: np.ndarray) -> str:
    """The reason why impossible labels refute the forecasts, in words; empty without any."""
    columns = ((forecast == 0) & (target > 0)).any(axis=0)
    if not columns.any():
        return ""
    if len(columns) > 2:
        return "refuted by a label where the forecast said 0"
    words = ("no event where the forecast said 1", "an event where the forecast said 0")
    reasons = [reason for reason, refutes in zip(words, columns, strict=True) if refutes]
    return "refuted by " + " and ".join(reasons)
