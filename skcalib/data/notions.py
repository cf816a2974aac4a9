"""Notions of calibration: maps from a problem to the problems that are evaluated.

A notion maps forecasts and targets of shape (n, K) to one or several problems with their own
columns. Targets may be labels or any conditional expectation of them: the maps are linear in the
target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal, TypeAlias

import numpy as np

from skcalib._util.arithmetic import ranked_classes, top_class
from skcalib._util.messages import is_whole, shown
from skcalib._util.parameters import check_choice
from skcalib._util.validation import look_up

__all__ = [
    "Auto",
    "Canonical",
    "ClassGroups",
    "Classwise",
    "Cumulative",
    "Multilabel",
    "Notion",
    "TopK",
    "TopLabel",
]


class Notion:
    """Base class of notions: implement `problems`.

    Attributes
    ----------
    reduce : {"mean", "sum"}
        How errors of several problems are combined into one number.
    ordered : bool
        Whether the problems depend on the order of the classes. Labels whose order is not known
        are then refused.

    See Also
    --------
    skcalib.testing.check_notion : Checks the laws of notions.
    """

    reduce = "mean"
    ordered = False

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs (forecast, target) of arrays of equal shape (n, columns), columns >= 2."""
        raise NotImplementedError

    def for_columns(self, n_columns: int) -> Notion:
        """The notion for this number of columns: itself, unless it has another for two."""
        return self

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        """Names of the columns of each problem, in the order of `problems`; None if unknown."""
        return repeat(None)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"


class _SeveralProblems(Notion):
    """Base class of notions whose errors of several problems are averaged or added."""

    def __init__(self, reduce: Literal["mean", "sum"] = "mean") -> None:
        self.reduce = check_choice(reduce, "reduce", choices=("mean", "sum"))


class Canonical(Notion):
    """All classes at once: the whole forecast against the whole label, one problem.

    See Also
    --------
    skcalib.data.notions.Classwise : Each class separately.
    skcalib.data.notions.TopLabel : The predicted class only.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import Canonical
    >>> [forecast.shape for forecast, _ in Canonical().problems(np.eye(3), np.eye(3))]
    [(3, 3)]
    """

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield forecast, target

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        return [[f"class {label}" for label in classes]]


class Classwise(_SeveralProblems):  # numpydoc ignore=PR02
    """Each class against the rest: K problems of two columns (rest, class).

    Parameters
    ----------
    reduce : {"mean", "sum"}, default="mean"
        The mean over classes, each with the binary convention of the score, or their sum.

    See Also
    --------
    skcalib.data.notions.Canonical : All classes at once.
    skcalib.data.notions.Multilabel : Labels that do not exclude each other.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import Classwise
    >>> forecast = np.array([[0.5, 0.3, 0.2]])
    >>> [p.tolist() for p, _ in Classwise().problems(forecast, forecast)]
    [[[0.5, 0.5]], [[0.7, 0.3]], [[0.8, 0.2]]]
    """

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from zip(rests_and_classes(forecast), rests_and_classes(target), strict=True)

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        return [["rest", f"class {label}"] for label in classes]


class Cumulative(_SeveralProblems):  # numpydoc ignore=PR02
    r"""Ordered classes: whether the class is at most k, K - 1 problems of two columns.

    For ordinal labels, such as grades, stages or ratings. The classes are ordered as the columns of
    the forecast are. Problem k has the event :math:`Y \le k`, with the cumulative probability

    .. math:: F_k = S_1 + \dots + S_k, \qquad k = 1, \dots, K - 1 .

    Its columns are (above, at most k). The error is the mean, or the sum, of the binary errors of
    the pairs :math:`(1\{Y \le k\}, F_k)`. For two classes it is `Canonical`, whose event is the
    last class. With ``reduce="sum"`` the mean Brier score is the ranked probability score,
    ``loss="rps"``.

    The order is that of the columns: sorted labels, or ``labels=``. Numbers must rise, and labels
    of an ordered categorical must have the order of its categories. Strings in alphabetical order
    are refused, because "high, low, medium" is hardly their order, unless they are numbered as
    "-1, 0, 1", "G1, G2, G3", "stage I, stage II" or "A, B, C".

    Parameters
    ----------
    reduce : {"mean", "sum"}, default="mean"
        The mean over thresholds, each with the binary convention of the score, or their sum.

    See Also
    --------
    skcalib.data.notions.Classwise : Each class separately, in no order.
    skcalib.scores.RankedProbability : The proper score of ordered classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import Cumulative
    >>> forecast = np.array([[0.5, 0.3, 0.2]])
    >>> [p.round(6).tolist() for p, _ in Cumulative().problems(forecast, forecast)]
    [[[0.5, 0.5]], [[0.2, 0.8]]]
    >>> list(Cumulative().column_names(np.array([1, 2, 3])))
    [['class > 1', 'class <= 1'], ['class > 2', 'class <= 2']]
    """

    ordered = True

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if forecast.shape[1] == 2:
            yield forecast, target
            return
        yield from zip(_above_and_up_to(forecast), _above_and_up_to(target), strict=True)

    def for_columns(self, n_columns: int) -> Notion:
        """`Canonical` for two columns, itself for more."""
        return Canonical() if n_columns == 2 else self

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        if len(classes) == 2:
            return Canonical().column_names(classes)
        return [[f"class > {label}", f"class <= {label}"] for label in classes[:-1]]


class Multilabel(_SeveralProblems):  # numpydoc ignore=PR02
    r"""Several labels per sample: each label against its absence, L problems of two columns.

    `y_true` is an indicator matrix (n, L) of 0 and 1, whose rows may have any number of ones.
    `y_proba` has a probability for each label, (n, L), and its rows need not sum to one, as for
    ``predict_proba`` of a `OneVsRestClassifier`. The list of L arrays (n, 2) that forests,
    neighbours or `MultiOutputClassifier` return is accepted too. The names of the labels are the
    columns of a data frame, ``labels=``, or 0 to L - 1.

    With the binary error of label l, from the pairs :math:`(Y_l, S_l)` alone, the error is

    .. math:: \frac1L \sum_{l=1}^L CE(Y_l, S_l) .

    Each label counts equally. The dependence between labels does not affect the error. Functions
    with an argument `notion` accept this notion. For other functions pass one column at a time.

    **Missing cells.** NaN, None or NA marks a label that is not known of a sample. Errors, their
    intervals, diagrams, `GroupingLossEstimator` and `MultilabelRecalibrator` use the known cells of
    each label, and each label still counts equally, however many of its cells are known. The labels
    then have different samples, so the limits of an interval are the means of those of the labels.
    That is valid for any dependence between them, but up to :math:`\sqrt L` times as long as
    needed. So are those of :func:`~skcalib.decision_regret`.
    :func:`~skcalib.kernel_calibration_test` sums over the labels that both samples of a pair have,
    and :func:`~skcalib.significance.calibration_e_value` averages the e-values of the labels.
    Functions that need all labels of a sample refuse missing cells.

    Parameters
    ----------
    reduce : {"mean", "sum"}, default="mean"
        The mean over labels, each with the binary convention of the score, or their sum.

    See Also
    --------
    skcalib.data.notions.Classwise : Classes that exclude each other.
    skcalib.MultilabelRecalibrator : Recalibrates each label.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import calibration_error
    >>> from skcalib.data.notions import Multilabel
    >>> y_true = np.array([[1, 1], [0, 1], [0, 0], [1, 0]])
    >>> y_proba = np.array([[0.8, 0.9], [0.4, 0.9], [0.4, 0.1], [0.8, 0.1]])
    >>> error = calibration_error(y_true, y_proba, notion=Multilabel(), n_bins=2)
    >>> alone = [calibration_error(y, p, n_bins=2) for y, p in zip(y_true.T, y_proba.T)]
    >>> bool(np.isclose(error, np.mean(alone)))
    True
    """

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for score, event in zip(forecast.T, target.T, strict=True):
            yield np.column_stack([1 - score, score]), np.column_stack([1 - event, event])

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        return [[f"not {label}", f"label {label}"] for label in classes]


class TopLabel(Notion):
    """The confidence against correctness: one problem of two columns (wrong, right).

    The predicted class is the first one of largest probability.

    See Also
    --------
    skcalib.data.notions.TopK : The k most probable classes.
    skcalib.data.notions.Canonical : All classes at once.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import TopLabel
    >>> forecast, target = np.array([[0.5, 0.3, 0.2]]), np.array([[0.0, 1.0, 0.0]])
    >>> next(TopLabel().problems(forecast, target))
    (array([[0.5, 0.5]]), array([[1., 0.]]))
    """

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        top = top_class(forecast)[:, None]
        first, second = (
            np.hstack([np.take_along_axis(a, top, axis=1) for a in (_rest(array), array)])
            for array in (forecast, target)
        )
        yield first, second

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        return [["wrong", "top label"]]


class Auto(Notion):
    """One score at a time: the positive class for two columns, the top label for more.

    It is `Canonical` for two columns, where the last one is the positive class, and `TopLabel` for
    more.

    See Also
    --------
    skcalib.data.notions.TopLabel : The notion for several classes.

    Examples
    --------
    >>> from skcalib.data.notions import Auto
    >>> Auto().for_columns(2), Auto().for_columns(3)
    (Canonical(), TopLabel())
    """

    def for_columns(self, n_columns: int) -> Notion:
        """`Canonical` for two columns, `TopLabel` for more."""
        return Canonical() if n_columns == 2 else TopLabel()

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self.for_columns(forecast.shape[1]).problems(forecast, target)

    def column_names(self, classes: np.ndarray) -> Iterable[list[str] | None]:
        return self.for_columns(len(classes)).column_names(classes)


class TopK(Notion):
    """A calibration lens (W19): the k largest probabilities in decreasing order, and the rest.

    One problem whose columns are "the most likely class is right", "the second is", ..., "none of
    them is". ``TopK(1)`` is `TopLabel` with its columns swapped. With k = K there is no rest.

    Parameters
    ----------
    k : int, default=5
        Number of ranks, at least 1 and at most the number of classes.

    See Also
    --------
    skcalib.data.notions.TopLabel : The most probable class alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import TopK
    >>> forecast, target = np.array([[0.1, 0.2, 0.4, 0.3]]), np.array([[0.0, 0.0, 0.0, 1.0]])
    >>> ranked, hit = next(TopK(2).problems(forecast, target))
    >>> ranked.round(6), hit
    (array([[0.4, 0.3, 0.3]]), array([[0., 1., 0.]]))
    """

    def __init__(self, k: int = 5) -> None:
        if not is_whole(k) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {shown(k)}.")
        self.k = k

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self.k > forecast.shape[1]:
            raise ValueError(
                f"TopK(k={self.k}) needs at least {self.k} classes, got {forecast.shape[1]}."
            )
        order = ranked_classes(forecast)
        yield tuple(self._ranks(np.take_along_axis(a, order, axis=1)) for a in (forecast, target))

    def _ranks(self, ranked):
        if self.k == ranked.shape[1]:
            return ranked
        remainder = ranked[:, self.k :].sum(axis=1, keepdims=True)
        return np.hstack([ranked[:, : self.k], remainder])


class ClassGroups(Notion):
    """A calibration lens (W19): the probability of groups of classes.

    Parameters
    ----------
    groups : sequence of sequences of int
        Column numbers of each group, disjoint. Classes in no group form one last group.

    See Also
    --------
    skcalib.data.notions.Canonical : Without groups.
    skcalib.data.notions.Classwise : Each class separately.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.data.notions import ClassGroups
    >>> forecast = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> next(ClassGroups([[0, 3], [1]]).problems(forecast, forecast))[0]
    array([[0.5, 0.2, 0.3]])
    """

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        try:
            self.groups = tuple(tuple(int(k) for k in group) for group in groups)
        except (OverflowError, TypeError, ValueError):
            self.groups = ()
        members = [k for group in self.groups for k in group]
        if not members or not all(self.groups) or len(set(members)) != len(members):
            raise ValueError(
                f"groups must be disjoint, non-empty lists of column numbers, got {shown(groups)}."
            )

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        n_classes = forecast.shape[1]
        members = {k for group in self.groups for k in group}
        if min(members) < 0 or max(members) >= n_classes:
            raise ValueError(
                f"groups name columns {sorted(members)}, but the forecast has columns 0 to "
                f"{n_classes - 1}."
            )
        remainder = tuple(k for k in range(n_classes) if k not in members)
        groups = [*self.groups, remainder] if remainder else list(self.groups)
        if len(groups) < 2:
            raise ValueError("groups has all classes in one group: its probability is always 1.")
        first, second = (
            np.stack([array[:, list(group)].sum(axis=1) for group in groups], axis=1)
            for array in (forecast, target)
        )
        yield first, second


def rests_and_classes(array: np.ndarray) -> Iterator[np.ndarray]:
    """For each column the sum of all others, and the column: arrays (n, 2)."""
    for others, column in zip(_rest(array).T, array.T, strict=True):
        yield np.column_stack([others, column])


def _above_and_up_to(array):
    """For each column but the last: the sum of the columns behind it, and that up to it (n, 2).

    Both are sums, as in `_rest`: 1 minus the one would lose the digits of the other.
    """
    up_to = np.cumsum(array, axis=1)[:, :-1]
    above = np.cumsum(array[:, ::-1], axis=1)[:, -2::-1]
    for pair in zip(above.T, up_to.T, strict=True):
        yield np.column_stack(pair)


def _rest(array):
    """Sum of all other columns, for each column.

    Summed from both sides: 1 - p would lose a rest of 1e-20 if p is 1, and would be negative where
    rounding left a probability above one.
    """
    before, after = np.zeros_like(array), np.zeros_like(array)
    np.cumsum(array[:, :-1], axis=1, out=before[:, 1:])
    np.cumsum(array[:, :0:-1], axis=1, out=after[:, -2::-1])
    return before + after


# --- Notions by name ------------------------------------------------------------------------------


#: Notions by the names that arguments accept.
NOTIONS = {
    "auto": Auto,
    "canonical": Canonical,
    "classwise": Classwise,
    "top_label": TopLabel,
    "cumulative": Cumulative,
}


#: Notions that take a parameter, or have another name here.
GUESSED_NOTIONS = {
    "top_k": "notion=TopK(k) of skcalib.data.notions",
    "multilabel": "notion=Multilabel() of skcalib.data.notions",
    "groups": "notion=ClassGroups(groups) of skcalib.data.notions",
    "confidence": "notion='top_label'",
    "ordinal": "notion='cumulative'",
    "ordered": "notion='cumulative'",
    "marginal": "notion='classwise'",
    "strong": "notion='canonical'",
}
NotionLike: TypeAlias = (
    Literal["auto", "canonical", "classwise", "top_label", "cumulative"] | Notion
)


def resolve_notion(notion: NotionLike) -> Notion:
    """A notion, by its name or as an object."""
    if isinstance(notion, str) and notion in GUESSED_NOTIONS:
        raise ValueError(
            f"notion must be one of {', '.join(map(repr, NOTIONS))} or a Notion, got "
            f"{shown(notion)}: use {GUESSED_NOTIONS[notion]}."
        )
    return look_up(notion, NOTIONS, "notion", kind=Notion)


def refuse_multilabel(notion: NotionLike, name: str) -> None:
    """Raise for `Multilabel`, for a function or class, `name`, of one label per sample."""
    if isinstance(notion, Multilabel):
        raise ValueError(
            f"{name} takes one label at a time: pass a column of y_true and of y_proba."
        )


def resolve_reduced(
    notion: NotionLike, reduce: str, choices: Sequence[str] = ("mean", "sum")
) -> Notion:
    """The notion with `reduce`, which is for notions of several problems by their names.

    Only "sum" adds: the other choices of "classwise" are means here.
    """
    check_choice(reduce, "reduce", choices=choices)
    if isinstance(notion, str) and notion == "classwise":
        return Classwise("sum" if reduce == "sum" else "mean")
    if isinstance(notion, str) and notion == "cumulative" and reduce in ("mean", "sum"):
        return Cumulative("sum" if reduce == "sum" else "mean")
    if reduce != "mean":
        names = "'classwise' or 'cumulative'" if reduce == "sum" else "'classwise'"
        raise ValueError(
            f"reduce={reduce!r} is for notion={names}, got notion={notion!r}: leave it out."
        )
    return resolve_notion(notion)
