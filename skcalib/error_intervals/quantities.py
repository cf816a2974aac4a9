"""The calibration errors of the library: one record for each, from which every list is made.

A new error is a function and an entry here. The entry gives its name in
:func:`~skcalib.calibration_error_interval`, and where else it is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skcalib.error_intervals import methods
from skcalib.errors import (
    calibration_error,
    calibration_upper_bound,
    kernel_calibration_error,
    ks_calibration_error,
    proper_calibration_error,
    root_brier_score,
    simplex_calibration_error,
    unconditional_mean_embedding_error,
)
from skcalib.errors.logistic import integrated_calibration_index


@dataclass(frozen=True)
class Quantity:
    """A calibration error.

    ``function(y_true, y_proba, *, sample_weight, labels, **options)`` returns a float; ``options``
    are the arguments that the name fixes. ``interval(request)`` returns the `ErrorInterval` of the
    method "auto". ``label`` is for figures and tables; in reports ``detail`` is added to it, and
    ``note`` explains it: errors without a note are not in reports. ``scorer`` and ``curve`` are its
    names as a scorer and in `EstimationDisplay`, where it is offered there. Of a ``squared`` error,
    means over data sets are those of a square, of which the root is shown. A ``binary`` one has an
    interval for one event, also of a sketch.
    """

    name: str
    function: Callable[..., float]
    interval: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    detail: str = ""
    note: str = ""
    scorer: str = ""
    curve: str = ""
    squared: bool = False
    binary: bool = False

    @property
    def metric(self) -> Callable[..., float]:
        """The function with its options."""
        return partial(self.function, **self.options) if self.options else self.function


def _binned(name, options, **fields):
    return Quantity(name, calibration_error, methods.binned, options, binary=True, **fields)


def _proper(loss, **fields):
    return Quantity(
        loss,
        proper_calibration_error,
        methods.proper,
        {"loss": loss},
        scorer=f"neg_{loss}_calibration_error",
        binary=True,
        **fields,
    )


_FIFTEEN = {"strategy": "uniform", "n_bins": 15}
_SQUARED = {"norm": "l2", "squared": True, "debiased": True}

#: In the order in which messages name them.
QUANTITIES = (
    _proper("brier", label="Brier calibration error, root", curve="proper", squared=True),
    _proper("log"),
    _binned("l1", {"norm": "l1"}, scorer="neg_l1_calibration_error"),
    _binned(
        "ece",
        {"norm": "l1", **_FIFTEEN},
        label="ECE",
        detail=", 15 bins of equal width",
        note="Biased upward, most where forecasts are calibrated; the interval is for these bins.",
        curve="ece",
    ),
    _binned("l2", {"norm": "l2"}, scorer="neg_l2_calibration_error"),
    _binned("debiased_l2", {"norm": "l2", "debiased": True}),
    _binned("squared_l2", _SQUARED),
    _binned("max", {"norm": "max"}, scorer="neg_max_calibration_error"),
    Quantity(
        "ks",
        ks_calibration_error,
        methods.largest_cumulative,
        label="Kolmogorov-Smirnov error",
        note="The largest cumulative difference, without bins; biased upward by noise.",
        scorer="neg_ks_calibration_error",
        curve="ks",
        binary=True,
    ),
    Quantity("simplex", simplex_calibration_error, methods.simplex),
    Quantity(
        "kernel",
        kernel_calibration_error,
        methods.kernel,
        label="Kernel error, root",
        scorer="neg_kernel_calibration_error",
        curve="kernel",
        squared=True,
    ),
    Quantity("embedding", unconditional_mean_embedding_error, methods.embedding),
    Quantity(
        "upper_bound",
        calibration_upper_bound,
        methods.upper_bound,
        label="Root Brier score",
        curve="rbs",
        squared=True,
    ),
    Quantity(
        "root_brier_score",
        root_brier_score,
        methods.root_brier,
        label="Root Brier score",
        note="An upper bound of the typical error, as it includes the irreducible loss.",
        scorer="neg_root_brier_score",
    ),
    Quantity("ici", integrated_calibration_index, methods.smooth_distance, binary=True),
)
#: Figures only: "squared_l2" with the bins of "ece".
DEBIASED = _binned(
    "debiased", {**_SQUARED, **_FIFTEEN}, label="Debiased l2 error", curve="debiased", squared=True
)


def by(attribute: str, quantities: Iterable[Quantity] = QUANTITIES) -> dict[str, Quantity]:
    """The errors that have a value of the attribute, by that value."""
    pairs = ((getattr(quantity, attribute), quantity) for quantity in quantities)
    return {value: quantity for value, quantity in pairs if value}
