"""Alarms for a loss of calibration in a stream, and the calibration of its windows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._util.formatting import Record, frame_of
from skcalib._util.packing import bytes_array, json_value, require, require_arrays
from skcalib._util.parameters import completes_docstrings
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_count, check_indices, take_rows, to_numpy
from skcalib.data.notions import Auto, NotionLike
from skcalib.grouping import calibration_by_group
from skcalib.kernels import Kernel
from skcalib.monitoring.sequential import (
    Evidence,
    StreamEstimator,
    event_terms,
    serialised,
)
from skcalib.sketches.sketch import ForecastSketch
from skcalib.stats.means import MeanInterval, mean_interval

if TYPE_CHECKING:
    from pandas import DataFrame

_GONE = 4  # delays of an alarm without another one, after which its change is gone


@dataclass(frozen=True)
class Window(Record):
    """Consecutive samples of a stream.

    `to_frame` has one row: the fields but `sketch`, and `difference` with its 95 % interval.

    Attributes
    ----------
    first, last : int
        Numbers of the samples, from 1.
    weight : float
        Sum of their weights.
    mean_predicted, observed : float
        Mean forecast and frequency of the event. For several classes the event is that the top
        label is right.
    sketch : ForecastSketch
        Their forecasts and labels.

    See Also
    --------
    skcalib.CalibrationMonitor : Has the windows.
    skcalib.compare_windows : Differences of two windows.
    """

    first: int
    last: int
    weight: float
    mean_predicted: float
    observed: float
    sketch: ForecastSketch

    _intervals = ("difference",)

    def _columns(self):
        return _columns_of([self])

    def difference(self, confidence_level: float = 0.95) -> MeanInterval:
        """Observed frequency minus mean forecast, with an interval for this window alone.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Level of the interval.

        Returns
        -------
        MeanInterval
            Student's interval of the mean of label minus forecast.
        """
        (rows,) = self.sketch.scored()
        residual = rows.event - rows.score
        return mean_interval(residual, rows.weight, confidence_level, square=rows.square)


def _columns_of(windows):
    columns = {name: [getattr(window, name) for window in windows] for name in _WINDOW_FORM}
    return {**columns, "difference": [window.difference() for window in windows]}


@dataclass(frozen=True)
class Alarm(Record):
    """An alarm of a `CalibrationMonitor`.

    `to_frame` has one row: ``at``, ``since``, ``log_statistic``, ``groups`` and ``n_groups``; of
    the evidence ``event``, ``direction``, ``low``, ``high``, ``difference`` and
    ``evidence_since``; ``mean_predicted_before``, ``observed_before``, ``mean_predicted_after`` and
    ``observed_after``; ``before_first`` and ``groups_first``. Missing values are None.

    Attributes
    ----------
    at : int
        Number of samples at the alarm.
    since : int
        Number of samples after which the evidence for the leading alternative began to grow: an
        estimate of where the change began.
    log_statistic : float
        Logarithm of the statistic at the alarm.
    evidence : Evidence or None
        Description of the change; None with a kernel.
    before : tuple of two floats, or None
        Mean forecast and frequency of the event of `evidence` in the samples from `before_first` to
        `since`; None if there is none. With a kernel the event is the positive class or, for
        several classes, that the top label is right.
    after : tuple of two floats
        The same in the samples from ``since + 1`` to `at`.
    before_first : int
        Number of the first sample of `before`: the one after the sum last started again, or 1.
    groups : tuple of str
        Groups whose frequency differs significantly from their mean forecast, at a false discovery
        rate of .05, in the samples from `groups_first` to `at`.
    n_groups : int
        Number of groups that were compared.
    groups_first : int
        Number of the first sample of the groups. Groups are compared in the windows that begin
        after the change, and in the current one, which may begin before it.

    See Also
    --------
    skcalib.displays.MonitorDisplay : Draws them.
    """

    at: int
    since: int
    log_statistic: float
    evidence: Evidence | None
    before: tuple[float, float] | None
    after: tuple[float, float]
    before_first: int
    groups: tuple[str, ...]
    n_groups: int
    groups_first: int

    def is_opposite(self, other: Alarm) -> bool:
        """Whether the same event errs in the opposite direction: too high after too low, say."""
        mine, theirs = self.evidence, other.evidence
        if mine is None or theirs is None or mine.event != theirs.event:
            return False
        directions = {mine.direction, theirs.direction}
        return directions in ({"too_high", "too_low"}, {"too_extreme", "too_moderate"})

    def _columns(self):
        columns = {name: [getattr(self, name)] for name in ("at", "since", "log_statistic")}
        for name in ("event", "direction", "low", "high", "difference"):
            columns[name] = [getattr(self.evidence, name, None)]
        columns["evidence_since"] = [getattr(self.evidence, "since", None)]
        for name in ("before", "after"):
            predicted, observed = getattr(self, name) or (None, None)
            columns[f"mean_predicted_{name}"], columns[f"observed_{name}"] = [predicted], [observed]
        for name in ("groups", "n_groups", "before_first", "groups_first"):
            columns[name] = [getattr(self, name)]
        return columns

    def __str__(self) -> str:
        said = [f"Alarm at sample {self.at:,}."]
        if self.evidence is not None:
            said.append(str(self.evidence))
        (q, z), rows = self.after, f"(samples {self.since + 1:,} to {self.at:,})"
        n_before = self.since - self.before_first + 1
        if self.before is not None and n_before >= _FEWEST:
            p, y = self.before
            said.append(
                f"Before (samples {self.before_first:,} to {self.since:,}), mean forecast {p:.3f} "
                f"and observed {y:.3f}; after {rows}, {q:.3f} and {z:.3f}."
            )
        else:
            said.append(f"After {rows}, mean forecast {q:.3f} and observed {z:.3f}.")
            if self.before is not None:
                samples = "one sample" if n_before == 1 else f"{n_before} samples"
                said.append(f"Only {samples} before.")
        if self.groups:
            said.append(
                f"In samples {self.groups_first:,} to {self.at:,}, observed differs from forecast "
                f"in {len(self.groups)} of {self.n_groups} groups (false discovery rate .05): "
                f"{', '.join(self.groups)}."
            )
        return " ".join(said)


_FEWEST = 20  # samples whose means are told
_NUMBERS = {"low": float, "high": float, "difference": float}
#: Fields of a window in JSON.
_WINDOW_FORM = {
    **dict.fromkeys(("first", "last"), int),
    **dict.fromkeys(("weight", "mean_predicted", "observed"), float),
}
#: Fields of an alarm in JSON.
_ALARM_FORM = {
    **dict.fromkeys(("at", "since", "n_groups", "before_first", "groups_first"), int),
    "log_statistic": float,
    "evidence": (None, {"event": str, "direction": str, "since": int, **_NUMBERS}),
    "before": (None, [float]),
    "after": [float],
    "groups": [str],
}


def _alarm_of(record: dict[str, Any], log_statistic: float) -> Alarm:
    """An alarm from its fields in JSON."""
    fields = dict(record, log_statistic=log_statistic, groups=tuple(record["groups"]))
    for name in ("before", "after"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    if fields["evidence"] is not None:
        fields["evidence"] = Evidence(**fields["evidence"])
    alarm = Alarm(**fields)
    str(alarm)  # raises for an unknown direction, and for other numbers before and after
    return alarm


# --- The monitor ----------------------------------------------------------------------------------


@completes_docstrings
class CalibrationMonitor(StreamEstimator):
    r"""Alarms for a loss of calibration in a stream, and the calibration of its windows.

    :class:`~skcalib.SequentialCalibrationTest` tests for miscalibration from the first sample on.
    This class detects a change at an unknown time. With the likelihood ratios :math:`L_{a,t}` of
    the same alternatives a, the Shiryaev-Roberts statistic

    .. math:: R_T = \sum_a \pi_a \sum_{s \le T} \prod_{t = s}^T L_{a,t}

    is the sum of the e-values of all tests that start at one of the samples. There is an alarm when
    :math:`R_T \ge 1 / \alpha`, once for each change. The sum then restarts at zero. For calibrated
    forecasts :math:`R_T - T` is a martingale, so the mean number of samples up to an alarm is at
    least :math:`1 / \alpha`. Methods that read the state raise `NotFittedError` before the first
    sample.

    Parameters
    ----------
    labels : array-like of shape (n_classes,), default=None
        The class of each column, as in `SequentialCalibrationTest`.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"}, default="auto"
        What is monitored, as in `SequentialCalibrationTest`.
    features : "auto", int, callable or Kernel, default="auto"
        The alternatives, as in `SequentialCalibrationTest`.
    alpha : float, default=1e-5
        The mean number of samples between two false alarms is at least one over `alpha`, a rate
        and not the level of an interval.
    window : int, default=1000
        Number of samples of a window.
    n_windows : int, default=100
        Number of windows, and of alarms, that are kept. Older ones are dropped.

    Attributes
    ----------
    log_statistic_ : float
        Logarithm of R now.
    n_alarms_ : int
        Number of alarms.
    alarms_ : list of Alarm
        The last alarms, each with a description of the change.
    windows_ : list of Window
        The most recent complete windows.
    n_samples_seen_ : int
        Number of samples of positive weight.
    sources_ : list of str
        Names of the batches that were given one.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    label_name_, score_name_ : str or None
        Names of the labels and of a single column of forecasts, if a batch was a named Series or a
        data frame. Batches with other names are refused.
    path_ : ndarray of shape (n_points, 2)
        Number of samples and log R, at no more than 2,000 times.

    See Also
    --------
    skcalib.displays.MonitorDisplay : The statistic, the alarms and the windows as a figure.
    compare_windows : Differences between two windows, such as those of ``windows_``.
    expected_performance : Expected performance before the labels arrive.

    Notes
    -----
    **A change is one alarm.** While a change lasts there is no other alarm until the sum has stayed
    below the threshold for four times the delay ``at - since`` of the alarm, and for `window`
    samples, or the direction for the same event is the opposite one (:ref:`monitoring`).

    **No bound on the probability of an alarm.** Within n samples it is at most :math:`\alpha n`,
    because the expectation of :math:`R_n` is n.

    **Order, delayed labels, weights and threads** are as in `SequentialCalibrationTest`. The
    statistic is the same to the last bit for any division into batches, or up to rounding with a
    kernel. The sketches of windows are the same up to rounding.

    Cost: that of `SequentialCalibrationTest`, and 40 bytes for each cell and label that occur in a
    window. No samples are stored, except for 50 forecasts with a kernel.

    References
    ----------
    .. [1] J. Shin, A. Ramdas and A. Rinaldo. E-detectors: a nonparametric framework for sequential
       change detection. New England Journal of Statistics in Data Science 2, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=6000)
    >>> changed = np.arange(6000) >= 3000
    >>> y = rng.random(6000) < np.where(changed, p**1.5, p)
    >>> monitor = CalibrationMonitor(window=500)
    >>> for week in np.split(np.arange(6000), 60):
    ...     _ = monitor.partial_fit(y[week], p[week])
    >>> print(monitor.alarms_[0].evidence.direction, 3000 < monitor.alarms_[0].at < 3500)
    too_high True
    """

    sources_: list[str]
    _value = "log_statistic_"
    _form = {  # noqa: RUF012
        "n_alarms": int,
        "alarms": [_ALARM_FORM],
        "windows": [_WINDOW_FORM],
        "in_window": int,
        "same_until": int,
        "restarted": int,
        "sources": [object],
    }
    __metadata_request__fit = {"y_true": UNUSED, "y_proba": UNUSED, "by": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = {  # noqa: RUF012
        "y_true": UNUSED,
        "y_proba": UNUSED,
        "by": UNUSED,
        "source": UNUSED,
    }

    def __init__(
        self,
        labels: ArrayLike | None = None,
        *,
        notion: NotionLike = "auto",
        features: Literal["auto"] | int | Callable[..., np.ndarray] | Kernel = "auto",
        alpha: float = 1e-5,
        window: int = 1000,
        n_windows: int = 100,
    ) -> None:
        self.labels = labels
        self.notion = notion
        self.features = features
        self.alpha = alpha
        self.window = window
        self.n_windows = n_windows

    @serialised
    def fit(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        by: ArrayLike | None = None,
    ) -> Self:
        """Start again, with these samples.

        Parameters
        ----------
        y_true, y_proba, sample_weight, by
            As in `partial_fit`.
        """
        fresh = type(self)(**self.get_params(deep=False))
        fresh.partial_fit(y_true, y_proba, sample_weight, by=by)
        self.__dict__ = fresh.__dict__
        return self

    @serialised
    def partial_fit(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        by: ArrayLike | None = None,
        source: str | None = None,
    ) -> Self:
        """Add samples, in the order in which their labels became known.

        Parameters
        ----------
        y_true, y_proba, sample_weight
            As in `SequentialCalibrationTest.partial_fit`.
        by : array-like of shape (n_samples,), default=None
            The group of each sample, by names or finite numbers; dates as text. An alarm then names
            the groups that differ.
        source : str, default=None
            A name of the batch, such as its date as text. A name that was used before raises an
            error, so that no batch is added twice.

        Raises
        ------
        ValueError
            For invalid input or parameters, labels that are unknown, labels, groups or a `source`
            that cannot be saved, such as dates, weights above 1, a `source` that was added before,
            labels or a single column of forecasts of another name than before, and parameters
            changed since the first sample. Then none of the samples is added.
        """
        size = check_count(self.window, "window")
        check_count(self.n_windows, "n_windows")
        check_indices(y_true=y_true, by=by)  # `check_problem` compares the others
        problem, weight, names = self._read_samples(y_true, y_proba, sample_weight)
        source = json_value(source, "source")
        if source is not None and source in getattr(self, "sources_", []):
            raise ValueError(f"The samples of {source!r} have been added before: leave them out.")
        by = _groups(by, sample_weight, len(problem.weight))
        with self._adding(problem.classes, names):
            start = 0
            while start < len(problem.weight):
                room = min(SIZES.feature_rows, size - self._in_window)
                rows = slice(start, min(start + room, len(problem.weight)))
                start = rows.stop
                part_weight = None if weight is None else weight[rows]
                self._add(problem.take(rows), part_weight, None if by is None else by[rows])
            if source is not None:
                self.sources_ = [*self.sources_, source]
        return self

    def summary(self) -> str:
        """One line: samples, alarms, and the statistic against its threshold.

        Returns
        -------
        str
            A line of text. For several alarms it gives the first one kept and the last.
        """
        check_is_fitted(self, "classes_")
        statistic = f"{np.exp(min(self.log_statistic_, 20)):,.3g}"
        if self.log_statistic_ > 20:  # 5e8
            power = self.log_statistic_ / np.log(10)
            statistic = "infinity" if np.isinf(power) else f"10^{power:.0f}"
        said = f"{self.n_samples_seen_:,} samples, statistic {statistic} "
        said += f"(alarm at {1 / float(self.alpha):,.6g}), "
        if not self.n_alarms_:
            return f"{said}no alarm."
        said += "1 alarm" if self.n_alarms_ == 1 else f"{self.n_alarms_:,} alarms"
        first, last = self.alarms_[0], self.alarms_[-1]
        when = "" if self.n_alarms_ == 1 else f"the last at sample {last.at:,}. "
        if 1 < len(self.alarms_) == self.n_alarms_:
            when = f"the first at sample {first.at:,}, {when}"
        return f"{said}{', ' if when else '. '}{when}{last}"

    @property
    def path_(self) -> np.ndarray:
        """Number of samples and log R, at no more than about 2,000 times."""
        return np.array(self._path())

    def to_frame(self) -> DataFrame:
        """One row for each window of `windows_`; needs pandas.

        Returns
        -------
        pandas.DataFrame
            Columns: ``first``, ``last``, ``weight``, ``mean_predicted``, ``observed``, and
            ``difference``, observed minus predicted, with its interval of level 95 %,
            ``difference_low`` and ``difference_high``.
        """
        check_is_fitted(self, "classes_")
        return frame_of(_columns_of(self.windows_), ["difference"])

    def _start(self, classes: np.ndarray) -> None:
        super()._start(classes)
        self.alarms_: list[Alarm] = []
        self.windows_: list[Window] = []
        self.sources_ = []
        self.n_alarms_ = self._same_until = 0  # samples up to which a change is that of an alarm
        self._empty_window()
        self._restart()

    def _restart(self) -> None:
        """Sums over starts, and of weights, forecasts and events since now and each lowest ratio.

        Those of a stream are of its own event.
        """
        self._restarted = self.n_samples_seen_
        priors = [stream.alternatives.prior for stream in self._streams.streams]
        self._starts = [np.full(len(prior), -np.inf) for prior in priors]
        self._total = np.zeros((len(priors), 3))
        self._lowest = [np.zeros((len(prior), 3)) for prior in priors]

    def _own_state(self):
        log_statistics = [self.log_statistic_, *(alarm.log_statistic for alarm in self.alarms_)]
        arrays = {"statistic": np.array(log_statistics), "current": self._current}
        arrays["total"] = self._total
        arrays |= {f"start.{k}": array for k, array in enumerate(self._starts)}
        arrays |= {f"lowest.{k}": array for k, array in enumerate(self._lowest)}
        sketches = [window.sketch for window in self.windows_]
        if self._in_window:
            sketches.append(self._sketch)
        arrays |= {
            f"sketch.{k}": bytes_array(sketch.to_bytes()) for k, sketch in enumerate(sketches)
        }
        header = {
            "n_alarms": self.n_alarms_,
            "alarms": [asdict(replace(alarm, log_statistic=0.0)) for alarm in self.alarms_],
            "windows": [
                {name: getattr(window, name) for name in _WINDOW_FORM} for window in self.windows_
            ],
            "in_window": self._in_window,
            "same_until": self._same_until,
            "restarted": self._restarted,
            "sources": self.sources_,
        }
        return header, arrays

    def _restore(self, header, arrays):
        size = check_count(self.window, "window")
        n_windows = check_count(self.n_windows, "n_windows")
        alarms, windows = header["alarms"], header["windows"]
        n_sketches = len(windows) + (header["in_window"] > 0)
        require(header["in_window"] < size and len(windows) <= n_windows, "the number of windows")
        sketches = [
            ForecastSketch.from_bytes(arrays.pop(f"sketch.{k}").tobytes())
            for k in range(n_sketches)
        ]
        expected = {f"start.{k}": array for k, array in enumerate(self._starts)}
        expected |= {f"lowest.{k}": array for k, array in enumerate(self._lowest)}
        expected |= {"statistic": np.zeros(1 + len(alarms)), "current": self._current}
        require_arrays(arrays, {**expected, "total": self._total})
        self._current, self._in_window = arrays["current"], header["in_window"]
        self._restarted, self._total = header["restarted"], arrays["total"]
        self._lowest = [arrays[f"lowest.{k}"] for k in range(len(self._lowest))]
        for sums in (self._current, self._total, *self._lowest):
            require(np.isfinite(sums).all() and (sums >= 0).all(), "the sums of windows")
        require(0 <= self._restarted <= self.n_samples_seen_, "the sums of windows")
        self.n_alarms_, self._same_until = header["n_alarms"], header["same_until"]
        require(len(alarms) == min(self.n_alarms_, n_windows), "the number of alarms")
        require(alarms or not self._same_until, "the number of alarms")
        self._starts = [arrays[f"start.{k}"] for k in range(len(self._starts))]
        self.log_statistic_, *log_statistics = arrays["statistic"].tolist()
        self.sources_ = [json_value(source, "source") for source in header["sources"]]
        self.alarms_ = [
            _alarm_of(record, value) for record, value in zip(alarms, log_statistics, strict=True)
        ]
        for sketch in sketches:
            sketch._plan().refuse_other(self._sketch._plan())
        self.windows_ = [
            Window(**record, sketch=sketch)
            for record, sketch in zip(windows, sketches, strict=False)
        ]
        require(all(window.weight > 0 for window in self.windows_), "the weight of a window")
        if self._in_window:
            self._sketch = sketches[-1]

    def _empty_window(self) -> None:
        """Start a window: number of samples, sketch, and sums of weights, forecasts and events."""
        self._in_window, self._sketch = 0, ForecastSketch(self.classes_)
        self._current = np.zeros(3)

    def _add(self, problem, weight, by):
        """Samples of one window; after an alarm the rest of them starts the sum again."""
        while len(problem.weight):
            used = self._advance(problem, weight, by)
            problem = problem.take(slice(used, None))
            weight = None if weight is None else weight[used:]
            by = None if by is None else by[used:]
        if self._in_window == self.window:
            first = self.n_samples_seen_ - int(self.window) + 1
            weight, mean, observed = _means(self._current)
            window = Window(
                first, self.n_samples_seen_, weight, mean, observed, sketch=self._sketch
            )
            self.windows_ = [*self.windows_, window][-self.n_windows :]
            self._empty_window()

    def _advance(self, problem, weight, by):
        """Number of samples up to an alarm, or all; with their state."""
        before = self._streams.arrays()
        sums, starts = self._sums(problem, weight)
        path = self._streams.average(sums)
        above = np.flatnonzero(path >= -np.log(float(self.alpha)))
        used = int(above[0]) + 1 if len(above) else len(path)
        part, weight = problem.take(slice(0, used)), None if weight is None else weight[:used]
        if used < len(path):
            self._streams.restore(before)
            sums, starts = self._sums(part, weight)
        first, path = self.n_samples_seen_ + 1, path[:used]
        self._keep_points(first, path)
        self._starts, self.log_statistic_ = starts, float(path[-1])
        self.n_samples_seen_ += used
        self._add_to_total(part, weight)
        self._in_window += used
        by = None if by is None else by[:used]
        self._sketch = copy(self._sketch).partial_fit(part.labels, part.forecast, weight, by=by)
        terms = event_terms(part, weight, Auto())
        self._current = np.cumsum(np.vstack([self._current, terms]), axis=0)[-1]
        if len(above):
            self._alarm([path[-1] for path in sums])
        return used

    def _add_to_total(self, part, weight):
        """Sums since the last start, and at the new lowest ratios among these samples."""
        total, lowest = [], []
        before = zip(self._streams.streams, self._total, self._lowest, strict=True)
        for stream, start, earlier in before:
            sums = np.cumsum(np.vstack([start, stream.terms(part, weight)]), axis=0)
            place = stream.alternatives.lowest_at - (self.n_samples_seen_ - len(part.weight))
            lowest.append(np.where(place[:, None] > 0, sums[np.maximum(place, 0)], earlier))
            total.append(sums[-1])
        self._total, self._lowest = np.array(total), lowest

    def _sums(self, problem, weight):
        """Logarithms of the sums over starts (n, A) of each stream, and the state after them."""
        first = [stream.alternatives.log_ratio for stream in self._streams.streams]
        sums, starts = [], []
        ratios = self._streams.advance(problem, weight)
        for start, path, earlier_sum in zip(first, ratios, self._starts, strict=True):
            earlier = np.vstack([start, path[:-1]])
            total = np.logaddexp.accumulate(np.vstack([earlier_sum, -earlier]), axis=0)[1:]
            sums.append(path + total)
            starts.append(total[-1])
        return sums, starts

    def _alarm(self, ends):
        """Record a new alarm, and start the sum again; `ends` are the log sums of each stream."""
        leading, number = self._streams.leading(ends)
        alternatives = self._streams.streams[leading].alternatives
        since, before = int(alternatives.lowest_at[number]), self._lowest[leading][number]
        if since == self.n_samples_seen_:  # the lowest ratio is that of now
            since, before = self._restarted, np.zeros(3)
        windows = [window for window in self.windows_ if window.first > since]
        first = windows[0].first if windows else self.n_samples_seen_ - self._in_window + 1
        names, n_groups = _different_groups([*(w.sketch for w in windows), self._sketch])
        alarm = Alarm(
            at=self.n_samples_seen_,
            since=since,
            log_statistic=self.log_statistic_,
            evidence=self._streams.evidence(ends, (leading, number)),
            before=_means(before)[1:] if since > self._restarted else None,
            after=_means(np.maximum(self._total[leading] - before, 0.0))[1:],
            before_first=self._restarted + 1,
            groups=names,
            n_groups=n_groups,
            groups_first=first,
        )
        if alarm.at > self._same_until or alarm.is_opposite(self.alarms_[-1]):
            self.n_alarms_ += 1
            self.alarms_ = [*self.alarms_, alarm][-self.n_windows :]
        delay = self.alarms_[-1].at - self.alarms_[-1].since
        self._same_until = alarm.at + max(_GONE * delay, int(self.window))
        for stream in self._streams.streams:
            stream.alternatives.forget()
        self._restart()
        self.log_statistic_ = -np.inf


def _groups(by, sample_weight, n_samples):
    """The groups of the samples of positive weight: an array, or None."""
    if by is None:
        return None
    by = np.asarray(to_numpy(by, name="by"))
    has_weight = np.ones(n_samples, dtype=bool)
    if sample_weight is not None:
        has_weight = np.asarray(to_numpy(sample_weight, name="sample_weight")) > 0
    if by.shape != has_weight.shape:
        raise ValueError(
            f"by must have shape ({len(has_weight)},), one group per sample; got shape {by.shape}."
        )
    return take_rows(by, np.flatnonzero(has_weight))


def _means(sums):
    """Weight, mean forecast and frequency of the event, from their sums."""
    weight, forecast, event = sums.tolist()
    return weight, forecast / weight, event / weight


def _different_groups(sketches):
    """Names of the groups that differ in some windows together, and the number of groups.

    Samples without a group, of batches without `by`, are in none.
    """
    keys = [(sketch, key) for sketch in sketches for key in sketch.groups_ if key is not None]
    if not 0 < len({key for _, key in keys}) <= SIZES.compared_groups:
        return (), 0
    first, *others = (sketch.group(key) for sketch, key in keys)
    groups = calibration_by_group(sum(others, first)).groups
    return tuple(group.name for group in groups if group.detected), len(groups)
