"""Summary of any number of forecasts, from which errors of one score at a time are computed.

`ForecastSketch` is the public class; its sums are the `CellSums` of each group. `summarize` makes
sketches of data frames, computed by the engine that holds the data.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal, Self
from warnings import catch_warnings, filterwarnings

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._util.arithmetic import RESOLUTION
from skcalib._util.formatting import import_pandas
from skcalib._util.messages import is_missing, shown
from skcalib._util.packing import json_value, pack, refused, require, unpack
from skcalib._util.parameters import checks_parameters, completes_docstrings
from skcalib._util.types import ArrayLike
from skcalib._util.validation import (
    PROBABILITY_ROUNDING,
    ROW_SUM_TOLERANCE,
    check_count,
    check_indices,
    error_sentence,
    look_up,
    to_numpy,
)
from skcalib.data.class_columns import NAMES_FORM, ColumnNames
from skcalib.data.labels import check_class_order, check_label_list, listed
from skcalib.data.notions import NOTIONS
from skcalib.data.problem import ForecastSummary, Samples, ScoredRows
from skcalib.scores import Brier, LogLoss
from skcalib.sketches.sketch_sums import (
    CellPlan,
    CellSums,
    cell_starts,
    check_known_labels,
    sum_events,
)

if TYPE_CHECKING:
    from pandas import DataFrame

#: Cells of the probability between 0 and 1.
N_CELLS = 1 << 16

#: Held while a chunk is added to the sums, so that threads may share a sketch.
ADDING = threading.Lock()


@completes_docstrings
class ForecastSketch(ForecastSummary, BaseEstimator):
    r"""Mergeable summary of forecasts and labels: sums over cells of the probability.

    Samples are read in chunks (`partial_fit`), on any number of machines (`merge`, ``+``), and are
    not stored. There is one score for each problem of the notion: the positive class, the top
    label, or each class. For each problem and each group, the sketch divides the scores into C
    cells of equal width in

    .. math:: s(p) = \sqrt p - \sqrt{1 - p} \in [-1, 1] ,

    and has two more cells for scores of exactly 0 and 1. For each cell it stores the numbers of
    events and of non-events, and the sums of their weights, squared weights and weighted scores.
    The cells are narrow at both ends: around p the width is :math:`\delta(p) \approx (4 / C)
    \sqrt{p (1 - p)} / (\sqrt p + \sqrt{1 - p})`, at most :math:`2.2 \cdot 10^{-5}` for C = 65,536,
    and about :math:`10^{-9}` for the cells next to 0 and 1.

    A function of the sketch replaces each score by the mean score of its cell. So every sum of
    scores or labels over whole cells is exact, and scores that share a cell are treated as ties.
    Squares and logarithms are computed from the mean score. Methods that read the sums raise
    `NotFittedError` before the first chunk.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The class of each column of `y_proba`, by names or finite numbers; [negative, positive] for
        a single column. Needed because a chunk may lack a class.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"}, default="auto"
        What is summarised: "auto" is the probability of the positive class for two classes, and
        otherwise the top label. "canonical" is for two classes, "cumulative" for classes that
        `labels` lists from the lowest to the highest.
    n_cells : int, default=65536
        Number C of cells, from 16 to 4,194,304.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    groups_ : list
        The groups, in the order in which they appeared; [None] without groups.
    n_samples_seen_ : int
        Number of samples of positive weight.
    label_name_, score_name_ : str or None
        Names of the labels and of a single column of scores, if a chunk was a named Series or a
        data frame. Chunks and sketches with other names are not added.

    See Also
    --------
    calibration_error : One of the functions that take a sketch.

    Notes
    -----
    Many functions take a sketch in place of `y_true` and `y_proba`
    (:ref:`very_large_data` lists them). Also leave out `sample_weight`, `labels` and `pos_label`.
    The notion is that of the sketch. Results differ a little from those for the samples:
    :ref:`sketch_accuracy` has the bound or the measured difference of each function.

    Intervals, :func:`~skcalib.score_decomposition`, :func:`~skcalib.decision_regret` and
    :func:`~skcalib.errors.corp_test` need a sketch of one event. Other losses or a ``method`` of a
    proper error use maps that are fitted out of fold: the samples of each cell are divided among
    five folds at random. A smoother, resampling, ``reduce="predicted"`` and `n_resamples` of a test
    for two classes need the samples and raise an error.

    A sketch stores the probability of the event only. A score that rounds to 1 is taken as 1, with
    an infinite log loss of any other label. Standard errors of the log loss are too small where
    labels occur at scores far below 1e-9.

    The method ``fit_sketch`` fits these recalibrators to a sketch: `PlattScaling`,
    `BetaCalibration`, `QuadraticScaling`, `SplineScaling`, `IsotonicRecalibrator`,
    `VennAbersRecalibrator` and `HistogramBinning`, and for two classes `TemperatureScaling`,
    `InterceptRecalibrator`, `LabelNoiseScaling`, `BiasCorrectedTemperatureScaling` and
    `ModelAverageScaling`.

    Whole-number sums are exact up to :math:`2^{53}`; others depend on the order of chunks by at
    most their last bit, and on the chunks by about 1e-14. A sketch takes at most 5.2 MB, or 9.5 MB
    with weights, for each problem and group at C = 65,536. A chunk of m samples needs O(m + C) time
    for each problem and group.

    A sketch may be read by several threads, but only one may add samples. Let each thread have its
    own sketch, and merge them.

    Examples
    --------
    >>> from skcalib import ForecastSketch
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(3000, 3, random_state=0)
    >>> one, two = (ForecastSketch([0, 1, 2]) for _ in range(2))
    >>> for rows in (slice(0, 1000), slice(1000, 2000)):
    ...     _ = one.partial_fit(data.y[rows], data.y_proba[rows])
    >>> _ = two.partial_fit(data.y[2000:], data.y_proba[2000:])  # on another machine
    >>> sketch = one + two
    >>> sketch.n_samples_seen_
    3000
    >>> from skcalib import calibration_error
    >>> round(calibration_error(sketch, strategy="uniform", n_bins=15), 4)
    0.1019
    >>> round(calibration_error(data.y, data.y_proba, strategy="uniform", n_bins=15), 4)
    0.1019
    """

    # The arguments of a metric are data, not metadata that a meta-estimator could route.
    __metadata_request__fit = {"y_true": UNUSED, "y_proba": UNUSED, "by": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = __metadata_request__fit

    def __init__(
        self,
        labels: ArrayLike | None = None,
        *,
        notion: Literal["auto", "top_label", "classwise", "canonical", "cumulative"] = "auto",
        n_cells: int = N_CELLS,
    ) -> None:
        self.labels = labels
        self.notion = notion
        self.n_cells = n_cells

    def fit(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        by: ArrayLike | None = None,
    ) -> Self:
        """Reset the sketch, and add these samples.

        Parameters
        ----------
        y_true, y_proba, sample_weight, by
            As in `partial_fit`.
        """
        plan = self._plan()
        self._become(plan, self._read(plan, y_true, y_proba, sample_weight, by))
        ColumnNames.of(y_true, y_proba).store(self)
        return self

    def partial_fit(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        by: ArrayLike | None = None,
    ) -> Self:
        """Add a chunk of samples. Several threads may add chunks to one object.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, on one scale for all chunks; samples of a chunk without weights have weight 1.
        by : array-like of shape (n_samples,), default=None
            The group of each sample, by names or finite numbers; dates as text. `group` returns the
            sketch of one.

        Raises
        ------
        ValueError
            For invalid input, labels or groups that cannot be saved, an empty chunk, a chunk whose
            weights sum to zero, parameters changed since the first chunk, and labels or a single
            score of another name than `label_name_` or `score_name_`. Previous chunks are kept.
        """
        plan = self._plan()
        self._stored(plan)  # raises for changed parameters before any work
        chunk = self._read(plan, y_true, y_proba, sample_weight, by)
        with ADDING:
            names = ColumnNames.known_of(self).joined(ColumnNames.of(y_true, y_proba), plan.labels)
            self._become(plan, _added(self._stored(plan), chunk))
            names.store(self)
        return self

    def merge(self, other: ForecastSketch) -> Self:
        """Combine the samples of two sketches, group by group.

        Parameters
        ----------
        other : ForecastSketch
            A sketch with the same labels, notion and cells. An empty one adds nothing.

        Returns
        -------
        ForecastSketch
            A new object; neither of the two is changed.

        Raises
        ------
        ValueError
            If labels, notions, cells, or the names of labels or of a single score differ.
        """
        if not isinstance(other, ForecastSketch):
            raise ValueError(f"Only another ForecastSketch can be merged, got {shown(other)}.")
        plan = self._plan()
        mine, theirs = self._stored(plan), other._stored(plan)
        names = ColumnNames.known_of(self).joined(
            ColumnNames.known_of(other), plan.labels, merged=True
        )
        return self._part(plan, names, _added(mine, theirs))

    def __add__(self, other: ForecastSketch) -> Self:
        return self.merge(other)

    def group(self, key: Hashable) -> Self:
        """The sketch of the samples of one group.

        Parameters
        ----------
        key : hashable
            One of `groups_`.

        Returns
        -------
        ForecastSketch
            A new object with this group only.

        Raises
        ------
        ValueError
            If no sample is of this group.
        """
        check_is_fitted(self)
        if key not in self._cells:
            raise ValueError(f"{key!r} is not one of the groups {listed(self.groups_)}.")
        return self._part(self._plan(), ColumnNames.known_of(self), {key: self._cells[key]})

    def scored(self) -> list[ScoredRows]:
        """Rows that stand for the samples, for each problem of the notion.

        Returns
        -------
        list of ScoredRows
            For each cell one row of the non-events and one of the events, at the mean score of the
            cell, with their number, their weight and the sum of their squared weights.
        """
        check_is_fitted(self)
        cells = reduce(CellSums.__add__, self._sums)  # of all groups
        problem, event, slot = cells.places()
        count, excess, weight, square = cells.moderate()
        losses, rows = cells.mean_losses(), []
        for k in range(self._fitted_plan.n_problems):
            here = np.flatnonzero((problem == k) & (weight > 0))  # beside 1e200, 1e-200 is 0
            occupied, place = np.unique(slot[here], return_inverse=True)
            mean = np.bincount(place, excess[here]) / np.bincount(place, weight[here])
            mean += cell_starts(self._fitted_plan.n_cells)[occupied]
            mean_losses: dict[type, float] = {Brier: losses[k, 0], LogLoss: losses[k, 1]}
            rows.append(
                ScoredRows(
                    mean[place],
                    event[here],
                    weight[here],
                    square[here],
                    count[here],
                    mean_losses,
                )
            )
        return rows

    def summarised_notion(self) -> tuple[str, int, np.ndarray]:
        """Name of the notion, number of samples, and the classes.

        Returns
        -------
        tuple
            (name of the notion, number of samples of positive weight, labels).
        """
        check_is_fitted(self)
        return self._fitted_plan.notion, self.n_samples_seen_, self.classes_

    def to_frame(self) -> DataFrame:
        """The occupied cells as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            A row for each group, problem, cell and label: the number of the cell, from 0 for
            scores of 0 to C + 1 for scores of 1, whether the event occurred, the number of samples,
            the sums of their weights and squared weights, and the weighted mean score.
        """
        check_is_fitted(self)
        pandas = import_pandas()
        plan, frames = self._plan(), []
        for group, cells in self._cells.items():
            problem, event, cell = cells.places()
            count, excess, weight, square = cells.unscaled()
            frames.append(
                pandas.DataFrame(
                    {
                        "group": [group] * len(cell),
                        "problem": np.array(plan.names(), dtype=object)[problem],
                        "cell": cell,
                        "event": event,
                        "count": count.astype(np.int64),
                        "weight": weight,
                        "square_weight": square,
                        "mean_score": cell_starts(plan.n_cells)[cell] + excess / weight,
                    }
                )
            )
        return pandas.concat(frames, ignore_index=True)

    def to_bytes(self) -> bytes:
        """The sketch as bytes, for `from_bytes`; contains no pickle.

        Returns
        -------
        bytes
            A NumPy archive of a header in JSON and arrays, which :ref:`formats` defines.
        """
        check_is_fitted(self)
        plan = self._plan()
        header = {
            "labels": [json_value(label, "labels") for label in plan.labels],
            "notion": plan.notion,
            "n_cells": plan.n_cells,
            "names": asdict(ColumnNames.known_of(self)),
            "groups": [
                {"key": key, "n_samples": sums.n_samples, "scale": sums.scale}
                for key, sums in self._cells.items()
            ],
        }
        arrays = {
            f"{k}.{name}": array
            for k, sums in enumerate(self._sums)
            for name, array in sums.arrays().items()
        }
        return pack("ForecastSketch", header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sketch that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned, from any machine.

        Raises
        ------
        ValueError
            If the bytes are not a sketch, are damaged or incomplete, or have another version of the
            format.
        """
        header, arrays = unpack(data, "ForecastSketch", _FORM)
        sketch = cls(**{name: header[name] for name in ("labels", "notion", "n_cells")})
        groups: dict[Hashable, CellSums] = {}
        with refused("state of a ForecastSketch"):
            plan = sketch._plan()
            for k, group in enumerate(header["groups"]):
                group_arrays = {name: arrays.pop(f"{k}.{name}") for name in CellSums.ARRAYS}
                sums = CellSums(plan, group["n_samples"], float(group["scale"]), **group_arrays)
                sums.require_sums()
                groups[json_value(_tuples(group["key"]), "by")] = sums
            require(not arrays and 0 < len(groups) == len(header["groups"]), "the list of groups")
        sketch._become(plan, groups)
        ColumnNames(**header["names"]).store(sketch)
        return sketch

    def _plan(self) -> CellPlan:
        """The validated parameters."""
        labels, n_cells = check_known_labels(self.labels), check_count(self.n_cells, "n_cells")
        if not _FEWEST <= n_cells <= _MOST:
            raise ValueError(f"n_cells must be from {_FEWEST} to {_MOST}, got {n_cells}.")
        look_up(self.notion, NOTIONS, "notion")
        notion = self.notion
        if notion == "auto":
            notion = "canonical" if len(labels) == 2 else "top_label"
        if notion == "cumulative":
            check_class_order(labels)
            notion = "canonical" if len(labels) == 2 else notion
        if notion == "canonical" and len(labels) > 2:
            raise ValueError(
                "A sketch summarises one score at a time: notion='canonical' is for two classes, "
                f"got {len(labels)}. Use 'top_label', 'classwise' or 'cumulative'."
            )
        return CellPlan(labels, notion, n_cells)

    def _stored(self, plan):
        """Sums of the samples so far by group; raises for changed parameters."""
        if not hasattr(self, "_sums"):
            return {}
        self._fitted_plan.refuse_other(plan)
        return self._cells

    def _read(self, plan, y_true, y_proba, sample_weight, by):
        """Sums over one chunk, by group."""
        check_indices(y_true=y_true, by=by)  # `Samples` compares the others
        notion = NOTIONS[plan.notion]()
        events = Samples.of(y_true, y_proba, notion, sample_weight, plan.labels, remedy="labels")
        if by is None:
            return {None: sum_events(events, plan)[0]}
        by = np.asarray(to_numpy(by, name="by"))
        if by.shape != (len(events.raw),):
            raise ValueError(
                f"by must have shape ({len(events.raw)},), one group per sample; got shape "
                f"{by.shape}."
            )
        numbers: dict[Hashable, int] = {}  # of the groups, in the order in which they appear
        rows = by if by.dtype.kind in "mM" else by.tolist()  # a list would have numbers for dates
        codes = np.array([numbers.setdefault(key, len(numbers)) for key in rows], dtype=np.intp)
        keys = [json_value(key, "by") for key in numbers]
        if events.weight is not None:
            codes = codes[events.weight > 0]
        sums = sum_events(events, plan, codes, len(keys))
        return {key: part for key, part in zip(keys, sums, strict=True) if part.n_samples}

    def _become(self, plan, groups):
        """Take the sums of groups."""
        if groups:
            self._sums, self._fitted_plan = list(groups.values()), plan
            self.classes_, self.groups_ = plan.labels, list(groups)
            self.n_samples_seen_ = sum(sums.n_samples for sums in groups.values())
        return self

    def _part(self, plan: CellPlan, names: ColumnNames, groups: dict[Hashable, CellSums]) -> Self:
        """A sketch with the same parameters, of these sums."""
        part = clone(self)._become(plan, groups)
        names.store(part)
        return part

    @property
    def _cells(self):
        """Sums of the samples by group."""
        return dict(zip(self.groups_, self._sums, strict=True))


def _added(groups, others):
    """The sums of two dicts of groups, added where they share a group."""
    total = dict(groups)
    for key, sums in others.items():
        total[key] = total[key] + sums if key in total else sums
    return total


_FEWEST, _MOST = 16, 1 << 22  # cells
#: The form of the header of the bytes.
_FORM = {
    "labels": [object],
    "notion": str,
    "n_cells": int,
    "names": NAMES_FORM,
    "groups": [{"key": object, "n_samples": int, "scale": float}],
}


def _tuples(key):
    """Lists of JSON as the tuples that were written."""
    return tuple(map(_tuples, key)) if isinstance(key, list) else key


# --- Frames ---------------------------------------------------------------------------------------


@checks_parameters
def summarize(
    frame: Any,
    *,
    y_true: str,
    y_proba: str | Sequence[str],
    sample_weight: str | None = None,
    by: str | Sequence[str] | None = None,
    notion: Literal["auto", "top_label", "classwise", "canonical", "cumulative"] = "auto",
    labels: ArrayLike | None = None,
    n_cells: int = N_CELLS,
) -> Any:
    """The sketch of a data frame, with the sums computed where the data are.

    The cells of :class:`~skcalib.ForecastSketch` are grouped and summed by the engine of the frame;
    only the sums of occupied cells are fetched, and the distinct labels if `labels` is None.

    Parameters
    ----------
    frame : data frame
        A pandas, polars (eager or lazy) or pyarrow table, a DuckDB relation, a Dask or PySpark data
        frame, or any other that `narwhals <https://narwhals-dev.github.io/narwhals/>`_ supports,
        which is needed: ``pip install "skcalib[frames]"``. scikit-learn 1.9 installs it.
    y_true : str
        Name of the column of labels.
    y_proba : str or list of str
        Name of the column of probabilities of the positive class, or names of the columns of all
        classes, in the order of `labels`.
    sample_weight : str, optional
        Name of the column of weights. Rows of weight 0 are ignored.
    by : str or list of str, optional
        Name of the column, or of several columns, that define groups by text or finite numbers.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"}, default="auto"
        As in :class:`~skcalib.ForecastSketch`.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`; [negative, positive] for a single column. By default
        the sorted labels of the frame, which takes one more pass over that column.
    n_cells : int, default=65536
        As in :class:`~skcalib.ForecastSketch`.

    Returns
    -------
    ForecastSketch or dict of ForecastSketch
        The sketch of all rows. With `by`, a dict with one sketch for each group. Its keys are
        values if `by` is a string, and tuples of values if it is a list. Groups without a row of
        positive weight are left out. The data are read once for each problem of the notion: K times
        for "classwise", K - 1 times for "cumulative", and once otherwise. The engine computes the
        sums in float64, without compensation for rounding errors.

    Raises
    ------
    ValueError
        For an unknown kind of frame or column, missing values, probabilities outside [0, 1] by more
        than a rounding error of 1e-9, rows that do not sum to 1 within 1e-5, labels that are not in
        `labels`, negative weights.

    See Also
    --------
    ForecastSketch.partial_fit : The same for arrays, chunk by chunk.

    Examples
    --------
    >>> import pandas as pd
    >>> from skcalib import calibration_error, summarize
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> frame = pd.DataFrame({"died": data.y, "risk": data.y_proba[:, 1]})
    >>> sketch = summarize(frame, y_true="died", y_proba="risk")
    >>> round(calibration_error(sketch), 4), sketch.n_samples_seen_
    (0.0826, 2000)
    """
    columns = _names(y_proba, "y_proba")
    groups = [] if by is None else _names(by, "by")
    weights = [] if sample_weight is None else [sample_weight]
    engine = _Engine(frame)
    engine.check_names([y_true, *columns, *weights, *groups])
    classes = engine.labels_of(y_true) if labels is None else check_label_list(labels)
    if len(classes) != max(len(columns), 2):
        raise ValueError(
            f"{y_true!r} has {len(classes)} classes {listed(classes)}, but y_proba names "
            f"{len(columns)} column(s): pass labels= with the class of each column."
        )
    empty = ForecastSketch(classes, notion=notion, n_cells=n_cells)
    plan, sketches = empty._plan(), {}
    names = ColumnNames(y_true, columns[0] if len(columns) == 1 else None)
    for key, sums in engine.sums(plan, y_true, columns, sample_weight, groups).items():
        key = json_value(None if by is None else key[0] if isinstance(by, str) else key, "by")
        sketches[key] = empty._part(plan, names, {key: sums})
    return sketches[None] if by is None else sketches


def _names(value, parameter):
    """Names of columns as a list."""
    names = (
        [value] if isinstance(value, str) else list(value if isinstance(value, Iterable) else ())
    )
    texts = all(isinstance(name, str) for name in names)
    if not names or not texts or len(set(names)) < len(names):
        raise ValueError(
            f"{parameter} must be the name of a column, or a list of different names, got "
            f"{shown(value)}."
        )
    return names


# --- Sums by the engine of a frame ----------------------------------------------------------------


_PREFIX = "skcalib_"
_FIELDS = ("count", "excess", "weight", "square", "score2", "loss")
#: What makes a row invalid, and the sentence for it.
_FAULTS = {
    "bad_label": "{n} rows of {y_true!r} have a label that is missing or none of the classes "
    "{labels}: pass labels= with the class of each column.",
    "bad_score": "{n} rows of y_proba are missing or outside [0, 1]: probabilities are expected.",
    "bad_sum": f"{{n}} rows of y_proba do not sum to 1 within {ROW_SUM_TOLERANCE:g}: pass one "
    "probability per class.",
    "bad_weight": "{n} rows of {weight!r} are missing, infinite or negative: weights are expected.",
}


class _Engine:
    """A frame of any kind that narwhals supports."""

    def __init__(self, frame):
        try:
            import narwhals
        except ImportError:
            raise ValueError(
                f"A frame of type {type(frame).__name__} needs narwhals: pip install "
                '"skcalib[frames]". Without it, add its columns to a ForecastSketch.'
            ) from None
        self.nw = narwhals
        try:
            with catch_warnings():  # what narwhals moves to other packages is nothing to do here
                filterwarnings("ignore", r"\w+ support is moving out of Narwhals", FutureWarning)
                self.frame = narwhals.from_native(frame)
        except TypeError as error:
            raise ValueError(
                f"frame must be a data frame that narwhals supports, such as pandas, polars, "
                f"pyarrow, DuckDB, Dask or PySpark, got {type(frame).__name__}: "
                f"{error_sentence(error)}"
            ) from error
        except ValueError as error:
            raise ValueError(f"frame cannot be read: {error_sentence(error)}") from error

    def check_names(self, names):
        known = self.frame.collect_schema().names()
        for name in names:
            if known.count(name) != 1:
                n = "no column" if name not in known else "more than one column"
                raise ValueError(f"The frame has {n} {name!r}; its columns are {listed(known)}.")

    def labels_of(self, y_true):
        labels = self._fetch(self.frame.select(y_true).unique())[y_true].to_list()
        if any(map(is_missing, labels)):
            raise ValueError(f"{y_true!r} has missing values: labels are needed in all rows.")
        try:
            return np.array(sorted(labels))
        except TypeError as error:
            raise ValueError(f"{y_true!r} mixes labels of types that cannot be ordered.") from error

    def sums(self, plan, y_true, columns, sample_weight, groups):
        """`CellSums` by group, from one query for each problem."""
        numbers: dict[Hashable, int] = {}  # of the groups
        group, number, sums = [], [], []
        for k in range(plan.n_problems):
            table = self._fetch(self._query(plan, k, y_true, columns, sample_weight, groups))
            self._refuse_faults(table, plan, y_true, sample_weight)
            names = [table[f"{_PREFIX}by{i}"].to_list() for i in range(len(groups))]
            keys = zip(*names, strict=True) if groups else [()] * len(table)
            group += [numbers.setdefault(key, len(numbers)) for key in keys]
            event, cell = (
                table[_PREFIX + name].to_numpy().astype(np.int64) for name in ("event", "cell")
            )
            number.append((2 * k + event) * plan.n_slots + cell)
            sums.append([table[_PREFIX + name].to_numpy() for name in _FIELDS])
        columns_of_rows = np.array(group), np.concatenate(number), np.concatenate(sums, axis=1)
        has_samples = columns_of_rows[2][0] > 0  # cells of rows of weight 0 only have no samples
        codes, number, sums = (array[..., has_samples] for array in columns_of_rows)
        n_fields = 2 if sample_weight is None else 4
        sums_of_groups = {}
        for key, code in numbers.items():
            here = codes == code
            if here.any():
                sums_of_groups[key] = _cell_sums(plan, number[here], sums[:, here], n_fields)
        return sums_of_groups

    def _added(self, name):
        """A column that the query adds."""
        return self.nw.col(_PREFIX + name)

    def _fetch(self, frame):
        return frame.collect() if isinstance(frame, self.nw.LazyFrame) else frame

    def _query(self, plan, k, y_true, columns, sample_weight, groups):
        nw, added, frame = self.nw, self._added, self.frame
        unit, zero = nw.lit(1.0), nw.lit(0.0)

        def named(**expressions):
            return frame.with_columns(
                *(value.alias(_PREFIX + name) for name, value in expressions.items())
            )

        def flag(condition):  # 1 where it is false or missing
            return nw.when(condition).then(zero).otherwise(unit)

        scores = [f"p{j}" for j in range(len(columns))]
        frame = named(
            **{s: nw.col(c).cast(nw.Float64) for s, c in zip(scores, columns, strict=True)},
            weight=unit if sample_weight is None else nw.col(sample_weight).cast(nw.Float64),
        )
        least = -PROBABILITY_ROUNDING
        top = 1 + (ROW_SUM_TOLERANCE if len(columns) > 1 else PROBABILITY_ROUNDING)
        inside = [(added(s) >= least) & (added(s) <= top) for s in scores]
        known = nw.col(y_true).is_in(plan.labels.tolist())
        good_weight = (added("weight") >= 0) & (added("weight") < np.inf)
        frame = named(
            bad_label=flag(known),
            bad_score=flag(reduce(and_, inside)),
            bad_weight=flag(good_weight),
            weight=nw.when(good_weight).then(added("weight")).otherwise(zero),
            **{s: nw.when(good & (added(s) > 0)).then(added(s)).otherwise(zero)
               for s, good in zip(scores, inside, strict=True)},
        )  # fmt: skip
        total = sum((added(s) for s in scores[1:]), start=added(scores[0]))
        score, event = self._scored(plan, k, scores, nw.col(y_true))
        frame = named(
            bad_sum=zero if len(columns) == 1 else flag((total - 1).abs() <= ROW_SUM_TOLERANCE),
            score=nw.when(score < 1).then(score).otherwise(unit),
            event=nw.when(event).then(unit).otherwise(zero),
        )
        place = added("score").sqrt() - (1 - added("score")).sqrt()
        frame = named(place=((place + 1) * (plan.n_cells / 2)).floor().clip(0, plan.n_cells - 1))
        frame = named(end=added("place") * (2 / plan.n_cells) - 1)
        frame = named(start=(added("end") + (2 - added("end") * added("end")).sqrt()) * 0.5)
        place = nw.when(added("score") <= 0).then(zero).otherwise(added("place") + 1)
        happened = nw.when(added("event") > 0).then(added("score")).otherwise(1 - added("score"))
        frame = named(
            cell=nw.when(added("score") >= 1).then(nw.lit(plan.n_cells + 1.0)).otherwise(place),
            happened=happened,
        )
        frame = named(
            loss=nw.when(added("happened") > 0).then(added("happened")).otherwise(unit).log()
        )
        frame = named(
            count=nw.when(added("weight") > 0).then(unit).otherwise(zero),
            square=added("weight") * added("weight"),
            score2=added("weight") * added("score") * added("score"),
            loss=added("weight") * -added("loss"),
            **{f"by{i}": nw.col(name) for i, name in enumerate(groups)},
        )
        inner = (added("score") > 0) & (added("score") < 1)
        excess = (
            nw.when(inner).then(added("score") - added("start") * added("start")).otherwise(zero)
        )
        frame = named(excess=added("weight") * excess)
        keys = [
            _PREFIX + name for name in (*(f"by{i}" for i in range(len(groups))), "cell", "event")
        ]
        summed = [added(name).sum() for name in (*_FIELDS, *_FAULTS)]
        return frame.group_by(keys).agg(summed)

    def _scored(self, plan, k, scores, label):
        """The score of problem k, and the condition that its event occurred."""
        nw, added = self.nw, self._added
        labels = [label == class_ for class_ in plan.labels.tolist()]
        if plan.notion == "canonical":
            return added(scores[-1]), labels[1]
        if len(scores) == 1:
            raise ValueError(
                f"notion={plan.notion!r} needs the columns of both classes: name them, or leave "
                "notion= out."
            )
        if plan.notion == "classwise":
            return added(scores[k]), labels[k]
        if plan.notion == "cumulative":
            up_to, event = added(scores[0]), labels[0]
            for s, here in zip(scores[1 : k + 1], labels[1 : k + 1], strict=True):
                up_to, event = up_to + added(s), event | here
            return up_to, event
        largest = added(scores[0])
        for s in scores[1:]:  # Dask frames do not evaluate conditions of max_horizontal
            largest = nw.when(added(s) > largest).then(added(s)).otherwise(largest)
        event = labels[-1]
        for s, here in zip(scores[-2::-1], labels[-2::-1], strict=True):  # the first of tied ones
            tied = added(s) + RESOLUTION >= largest
            event = (tied & here) | (~tied & event)
        return largest, event

    def _refuse_faults(self, table, plan, y_true, sample_weight):
        words = {"y_true": y_true, "weight": sample_weight, "labels": listed(plan.labels)}
        for name, sentence in _FAULTS.items():
            n_rows = int(table[_PREFIX + name].to_numpy().sum())
            if n_rows:
                raise ValueError(sentence.format(n=f"{n_rows:,}", **words))
        if not table[_PREFIX + "count"].to_numpy().sum():
            raise ValueError("The frame has no rows of positive weight: at least one is needed.")


def _cell_sums(plan, key, sums, n_fields):
    """Numbers (m,) and sums of the fields (6, m) of the cells of one group -> `CellSums`."""
    order = np.argsort(key)
    key, sums = key[order], sums[:, order].astype(np.float64)
    kind = key // plan.n_slots
    total = np.stack([np.bincount(kind, row, 2 * plan.n_problems) for row in sums[4:]])
    n_samples = int(np.rint(sums[0, kind < 2].sum()))  # of the first problem
    high = sums[:n_fields]
    return CellSums(
        plan, n_samples, 1.0, key, high, np.zeros_like(high), total, np.zeros_like(total)
    )
