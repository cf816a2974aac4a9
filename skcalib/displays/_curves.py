"""From a problem to the curves of a reliability diagram; nothing here draws."""

from dataclasses import dataclass

import numpy as np

from skcalib._formatting import nonnegative_text
from skcalib._validation import check_confidence_level, from_table
from skcalib.displays._strategies import make_curve
from skcalib.error_intervals.methods import proper_interval
from skcalib.errors.isotonic_curve import BANDS, check_resamples, consistency_band
from skcalib.inference import MeanInterval
from skcalib.notions import Canonical, Classwise, Notion, TopLabel, binary_events
from skcalib.smoothers import (
    DirichletKernel,
    IsotonicSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)

MAX_PANELS = 25
DEFAULT_BINS = 10


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """What is drawn for one binary event.

    ``event`` is "class c" for the probability of a class, "top label" for the confidence, or empty.
    ``low`` and ``high`` are None without a band; ``error`` is None where it has no estimate (one
    sample). ``joined`` tells whether the curve means something between its points.
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


@dataclass(frozen=True)
class CurveOptions:
    """Options of the constructors, checked and with strings turned into objects."""

    smoother: Smoother
    notion: Notion | None
    band: str | None
    confidence_level: float
    n_resamples: int


def check_options(strategy, n_bins, notion, band, confidence_level, n_resamples):
    """Arguments of `ReliabilityDisplay` -> `CurveOptions`; a notion of None means "auto"."""
    size = DEFAULT_BINS if n_bins is None else n_bins
    binned = {"quantile": lambda: QuantileBins(size), "uniform": lambda: UniformBins(size)}
    strategies = {
        "isotonic": IsotonicSmoother,
        **binned,
        "kernel": lambda: DirichletKernel("risk", "loss"),
        "smooth": SplineSmoother,
    }
    smoother = from_table(strategy, strategies, name="strategy", kind=Smoother)
    if n_bins is not None and not (isinstance(strategy, str) and strategy in binned):
        raise ValueError(
            f"n_bins={n_bins!r} is for strategy='quantile' or 'uniform', but strategy is "
            f"{strategy!r}: choose one of these two, or leave n_bins out."
        )
    notion = check_binary_notion(notion)
    if isinstance(band, str) and band == "auto":
        band = "confidence" if isinstance(smoother, SplineSmoother) else "consistency"
    if band is not None and band not in BANDS:
        raise ValueError(f"band must be 'auto', 'consistency', 'confidence' or None, got {band!r}.")
    check_confidence_level(confidence_level)
    if band is not None:
        check_resamples(n_resamples, confidence_level)
    return CurveOptions(smoother, notion, band, confidence_level, n_resamples)


def check_binary_notion(notion):
    """A notion, by its name or as an object; None means "auto"."""
    notions = {"auto": lambda: None, "top_label": TopLabel, "classwise": Classwise}
    return from_table(notion, notions, name="notion", kind=Notion)


def reliability_curves(problem, pos_label, options, rng):
    """One `ReliabilityCurve` for each binary event of the notion."""
    events = binary_problems(problem, pos_label, options.notion)
    return [_one_curve(event, one, options, rng) for event, one in events]


def binary_problems(problem, pos_label, notion):
    """Each binary event of the notion and its `Problem`; a notion of None means "auto"."""
    n_classes = len(problem.classes)
    if notion is None:
        notion = Canonical() if n_classes == 2 else TopLabel()
    if isinstance(notion, Classwise) and n_classes > MAX_PANELS:
        raise ValueError(
            f"notion='classwise' draws a panel for each class, and {n_classes} are more than the "
            f"{MAX_PANELS} that one can read: draw single classes by y_true == c and "
            "y_proba[:, column of c], or use notion='top_label'."
        )
    return binary_events(problem, pos_label, notion)


def _one_curve(event, problem, options, rng):
    forecast, target, weight = problem.forecast, problem.target, problem.weight
    curve = make_curve(options.smoother, forecast, target, weight)
    level, resamples = options.confidence_level, options.n_resamples
    low = high = None
    if options.band == "consistency":
        low, high = consistency_band(curve, forecast[:, 1], level, resamples, rng)
    elif options.band == "confidence":
        low, high = curve.confidence(level, resamples, rng)
    return ReliabilityCurve(
        event=event,
        prob_pred=curve.prob_pred,
        prob_true=curve.prob_true,
        low=low,
        high=high,
        joined=curve.joined,
        scores=forecast[:, 1],
        weight=weight,
        error=_error(problem, level),
    )


def _error(problem, level):
    """Brier calibration error of the binary problem; one sample has no held-out estimate."""
    if len(problem.forecast) < 2:
        return None
    return proper_interval(problem, loss="brier", notion="canonical", confidence_level=level)[1]


def legend_label(curves, name):
    """Name and calibration error, with its interval, or with its spread over folds.

    The number is `proper_calibration_error` of the curve's event, or of the top label.
    """
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
