"""Losses, notions, smoothers and methods: the names and objects that callers pass, and their types.

The aliases at the end are the types of arguments that many functions have. Modules import them for
type checkers only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skcalib._validation import look_up
from skcalib._values import shown
from skcalib.kernels import Kernel
from skcalib.notions import NOTIONS, Classwise, Notion
from skcalib.problem import ForecastSummary
from skcalib.scores import SCORES, ProperScore
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LogitSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("auto", "risk", "direct", "cross")
#: Smoothers by name, for the errors and for the curves of diagrams; "binning" is "quantile".
SMOOTHERS = {
    "isotonic": IsotonicSmoother,
    "quantile": QuantileBins,
    "uniform": UniformBins,
    "smooth": SplineSmoother,
    "kernel": DirichletKernel,
    "binning": QuantileBins,
}
#: Notions that take a parameter, or have another name here.
GUESSED_NOTIONS = {
    "top_k": "notion=TopK(k) of skcalib.notions",
    "multilabel": "notion=Multilabel() of skcalib.notions",
    "groups": "notion=ClassGroups(groups) of skcalib.notions",
    "confidence": "notion='top_label'",
    "marginal": "notion='classwise'",
    "strong": "notion='canonical'",
}


def resolve_loss(loss: LossLike) -> ProperScore:
    """A proper score for class probabilities."""
    score = look_up(loss, SCORES, "loss", kind=ProperScore)
    if score.domain != "simplex":
        raise ValueError(
            f"{score!r} scores means and variances, not class probabilities: use 'brier', 'log', "
            "'spherical' or a ProperScore on the simplex."
        )
    return score


def resolve_training_loss(loss: LossLike) -> ProperScore:
    """A proper score by which a map can be fitted."""
    score = resolve_loss(loss)
    if not score.strictly_proper:
        raise ValueError(
            f"{score!r} is the same for all forecasts with the same decision, so no map can be "
            "fitted by it: fit with loss='log' or 'brier', and evaluate the decisions afterwards."
        )
    return score


def resolve_notion(notion: NotionLike) -> Notion:
    """A notion, by its name or as an object."""
    if isinstance(notion, str) and notion in GUESSED_NOTIONS:
        raise ValueError(
            f"notion must be one of {', '.join(map(repr, NOTIONS))} or a Notion, got "
            f"{shown(notion)}: use {GUESSED_NOTIONS[notion]}."
        )
    return look_up(notion, NOTIONS, "notion", kind=Notion)


def resolve_reduced(
    notion: NotionLike, reduce: str, choices: Sequence[str] = ("mean", "sum")
) -> Notion:
    """The notion with `reduce`, which is for "classwise" only; what is not "sum" is a mean."""
    if not isinstance(reduce, str) or reduce not in choices:
        names = ", ".join(map(repr, choices[:-1]))
        raise ValueError(f"reduce must be {names} or {choices[-1]!r}, got {shown(reduce)}.")
    if isinstance(notion, str) and notion == "classwise":
        return Classwise("sum" if reduce == "sum" else "mean")
    if reduce != "mean":
        raise ValueError(
            f"reduce={reduce!r} is for notion='classwise', got notion={notion!r}: leave it out."
        )
    return resolve_notion(notion)


def resolve_method(method, score):
    """The method with a smoother: "auto" is "cross" if the score supports it, else "risk"."""
    look_up(method, dict.fromkeys(METHODS), "method")
    if method == "auto":
        return "cross" if score.separable else "risk"
    if method == "cross" and not score.separable:
        raise ValueError(
            f"method='cross' needs a score that is a fixed quadratic form, such as 'brier'; "
            f"{score!r} is not: use method='risk'."
        )
    return method


def resolve_smoother(smoother: SmootherLike) -> Smoother:
    """A smoother from None, a string, a smoother or a scikit-learn classifier.

    None is `LogitSmoother`. `resolve_estimate` decides where no smoother is needed at all.
    """
    if smoother is None:
        return LogitSmoother()
    if hasattr(smoother, "predict_proba") and not isinstance(smoother, (Smoother, type)):
        return CrossFitted(smoother)
    return look_up(smoother, SMOOTHERS, "smoother", kind=Smoother)


# --- Types ----------------------------------------------------------------------------------------


class Splitter(Protocol):
    """An object that divides samples into folds, such as the splitters of scikit-learn."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Pairs of training and test rows."""
        ...


#: Features as an estimator takes them: arrays, data frames, sparse matrices.
MatrixLike: TypeAlias = Any
#: Groups as `calibration_by_group` takes them: arrays, data frames, dicts of masks.
GroupsLike: TypeAlias = Any
#: The label of a class.
Label: TypeAlias = Hashable
RandomState: TypeAlias = int | np.random.RandomState | None
#: Training and test rows of each fold.
Folds: TypeAlias = Iterable[tuple[ArrayLike, ArrayLike]]
CV: TypeAlias = int | Splitter | Folds | None
#: Some of the rows of an array.
RowIndex: TypeAlias = slice | np.ndarray
#: Labels, or sums that stand for labels and forecasts.
LabelsLike: TypeAlias = ArrayLike | ForecastSummary
LossLike: TypeAlias = Literal["brier", "log", "spherical"] | ProperScore
NotionLike: TypeAlias = Literal["auto", "canonical", "classwise", "top_label"] | Notion
SmootherLike: TypeAlias = (
    Literal["isotonic", "quantile", "uniform", "smooth", "kernel", "binning"]
    | Smoother
    | BaseEstimator
    | None
)
RecalibratorLike: TypeAlias = (
    Literal["temperature", "isotonic", "platt", "sigmoid", "beta"] | BaseEstimator | None
)
KernelLike: TypeAlias = Literal["laplacian", "gaussian"] | Kernel | None
PartitionerLike: TypeAlias = Literal["stump", "kmeans"] | BaseEstimator | None
Method: TypeAlias = Literal["auto", "risk", "direct", "cross"]
ResponseMethod: TypeAlias = Literal["auto", "predict_proba", "decision_function"]
Strategy: TypeAlias = Literal["quantile", "uniform"]
#: One set of axes, or one for each panel.
AxesLike: TypeAlias = "Axes | Sequence[Axes] | np.ndarray"
#: A number of bins, or the rule for it.
BinCount: TypeAlias = int | Literal["auto", "cube_root"]
#: The same, or edges.
Bins: TypeAlias = BinCount | ArrayLike
#: A rule, a number, or a function of the number of samples and of columns.
Bandwidth: TypeAlias = Literal["risk", "loo", "scott"] | float | Callable[[int, int], float]
