"""Sketches of data frames, computed by the engine that holds the data: `summarize`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any, Literal
from warnings import catch_warnings, filterwarnings

import numpy as np

from skcalib._util.messages import is_missing, shown
from skcalib._util.packing import plain
from skcalib._util.parameters import checks_parameters
from skcalib._util.ties import RESOLUTION
from skcalib._util.types import ArrayLike
from skcalib._util.validation import PROBABILITY_ROUNDING, ROW_SUM_TOLERANCE, in_words
from skcalib.data.class_columns import ColumnNames
from skcalib.data.labels import check_label_list, listed
from skcalib.sketches.sketch import N_CELLS, ForecastSketch
from skcalib.sketches.sketch_sums import CellSums


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
        key = plain(None if by is None else key[0] if isinstance(by, str) else key, "by")
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
                f"pyarrow, DuckDB, Dask or PySpark, got {type(frame).__name__}: {in_words(error)}"
            ) from error
        except ValueError as error:
            raise ValueError(f"frame cannot be read: {in_words(error)}") from error

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
