"""Types of arguments that many functions have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
#: Classes, sorted or in the order of their columns.
Classes: TypeAlias = Sequence[Label] | np.ndarray
RandomState: TypeAlias = int | np.random.RandomState | None
#: Training and test rows of a validated fold.
Fold: TypeAlias = tuple[np.ndarray, np.ndarray]
#: Training and test rows of each fold, as users pass them.
Folds: TypeAlias = Iterable[tuple[ArrayLike, ArrayLike]]
CV: TypeAlias = int | Splitter | Folds | None
#: Some of the rows of an array.
RowIndex: TypeAlias = slice | np.ndarray
RecalibratorLike: TypeAlias = (
    Literal["auto", "temperature", "isotonic", "platt", "sigmoid", "beta"] | BaseEstimator | None
)
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
