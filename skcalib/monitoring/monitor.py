"""Alarms for a loss of calibration in a stream, and the calibration of its windows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._util.packing import plain, require, require_arrays
from skcalib._util.parameters import completes_docstrings
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_count, check_indices, take_rows, to_numpy
from skcalib.data.class_columns import ColumnNames
from skcalib.data.notions import Auto, NotionLike, refuse_multilabel
from skcalib.grouping import calibration_by_group
from skcalib.grouping.by_group import MOST_GROUPS
from skcalib.kernels import Kernel
from skcalib.monitoring._records import ALARM_FORM, Alarm, Window, alarm_of, windows_frame
from skcalib.monitoring._state import StreamEstimator, write_state
from skcalib.monitoring._streams import (
    check_alpha,
    check_stream,
    check_unchanged,
    event_terms,
    keep_points,
    kept_on_error,
    one_at_a_time,
)
from skcalib.sketches.sketch import ForecastSketch

if TYPE_CHECKING:
    from pandas import DataFrame

_BLOCK = 4096  # samples at a time
_GONE = 4  # delays of an alarm without another one, after which its change is gone


@completes_docstrings
class CalibrationMonitor(StreamEstimator):
    r"""Alarms for a loss of calibration in a stream, and the calibration of its windows.

    :class:`SequentialCalibrationTest` tests for miscalibration from the first sample on. This class
    detects a change at an unknown time. With the likelihood ratios :math:`L_{a,t}` of the same
    alternatives a, the Shiryaev-Roberts statistic

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

    _version = 5
    _form = {  # noqa: RUF012
        "n_alarms": int,
        "alarms": [ALARM_FORM],
        "windows": [[float]],
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

    @one_at_a_time
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

    @one_at_a_time
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
        check_alpha(self.alpha)
        refuse_multilabel(self.notion, type(self).__name__)
        size = check_count(self.window, "window")
        check_count(self.n_windows, "n_windows")
        known = getattr(self, "classes_", None)
        if known is not None:
            check_unchanged(self, self._fitted_parameters)
        source = plain(source, "source")
        if source is not None and source in getattr(self, "sources_", []):
            raise ValueError(f"The samples of {source!r} have been added before: leave them out.")
        check_indices(y_true=y_true, by=by)  # check_stream compares the others
        problem, weight = check_stream(y_true, y_proba, sample_weight, self.labels, known)
        by = _groups(by, sample_weight, len(problem.weight))
        names = ColumnNames.known_of(self).joined(ColumnNames.of(y_true, y_proba), problem.classes)
        with kept_on_error(self):
            if known is None:
                self._start(problem.classes)
            names.store(self)
            start = 0
            while start < len(problem.weight):
                room = min(_BLOCK, size - self._in_window)
                rows = slice(start, min(start + room, len(problem.weight)))
                start = rows.stop
                own = None if weight is None else weight[rows]
                self._add(problem.take(rows), own, None if by is None else by[rows])
            if source is not None:
                self._add_source(source)
        return self

    def summary(self) -> str:
        """One line: samples, alarms, and the statistic against its threshold.

        Returns
        -------
        str
            A line of text. For several alarms it gives the first one kept and the last.
        """
        check_is_fitted(self, "classes_")
        said = f"{self.n_samples_seen_:,} samples, statistic {_number(self.log_statistic_)} "
        said += f"(alarm at {1 / float(self.alpha):,.6g}), "
        if not self.n_alarms_:
            return f"{said}no alarm."
        said += "1 alarm" if self.n_alarms_ == 1 else f"{self.n_alarms_:,} alarms"
        first, last = self.alarms_[0], self.alarms_[-1]
        when = "" if self.n_alarms_ == 1 else f"the last at sample {last.at:,}. "
        if 1 < len(self.alarms_) == self.n_alarms_:
            when = f"the first at sample {first.at:,}, {when}"
        return f"{said}{', ' if when else '. '}{when}{last}"

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """The state as bytes, for `from_bytes`; contains no pickle.

        Returns
        -------
        bytes
            The text ``skcalib-CalibrationMonitor``, a header in JSON, arrays, sketches and a check
            sum; :ref:`formats` defines all of them.
        """
        check_is_fitted(self, "classes_")
        arrays: dict[str, np.ndarray] = {f"start.{k}": one for k, one in enumerate(self._starts)}
        known = [self.log_statistic_, *(one.log_statistic for one in self.alarms_)]
        arrays["statistic"], arrays["current"] = np.array(known), self._current
        arrays["total"] = self._total
        arrays |= {f"lowest.{k}": one for k, one in enumerate(self._lowest)}
        blobs = [one.sketch.to_bytes() for one in self.windows_]
        if self._in_window:
            blobs.append(self._sketch.to_bytes())
        header = {
            "n_alarms": self.n_alarms_,
            "alarms": [asdict(replace(one, log_statistic=0.0)) for one in self.alarms_],
            "windows": [
                [one.first, one.last, one.weight, one.mean_predicted, one.observed]
                for one in self.windows_
            ],
            "in_window": self._in_window,
            "same_until": self._same_until,
            "restarted": self._restarted,
            "sources": self.sources_,
        }
        return write_state(self, header, arrays, blobs)

    @property
    def path_(self) -> np.ndarray:
        """Number of samples and log R, at no more than about 2,000 times."""
        check_is_fitted(self, "classes_")
        last = (self.n_samples_seen_, self.log_statistic_)
        points = self._points if self._points[-1:] == [last] else [*self._points, last]
        return np.array(points)

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
        return windows_frame(self.windows_)

    def _start(self, classes: np.ndarray) -> None:
        super()._start(classes)
        self._starts = [
            np.full(len(one.alternatives.prior), -np.inf) for one in self._streams.streams
        ]
        self.alarms_: list[Alarm] = []
        self.windows_: list[Window] = []
        self.sources_: list[str] = []
        self.n_alarms_ = self._same_until = 0  # samples up to which a change is that of an alarm
        self._empty_window()
        self._restart()

    def _restart(self) -> None:
        """Sums of weights, forecasts and events since now, and where each ratio was lowest.

        Those of a stream are of its own event.
        """
        self._restarted = self.n_samples_seen_
        self._total = np.zeros((len(self._streams.streams), 3))
        sizes = (len(one.alternatives.prior) for one in self._streams.streams)
        self._lowest = [np.zeros((size, 3)) for size in sizes]

    def _restore(self, own, arrays, blobs):
        size, kept = check_count(self.window, "window"), check_count(self.n_windows, "n_windows")
        alarms, windows = own["alarms"], own["windows"]
        expected = {f"start.{k}": one for k, one in enumerate(self._starts)}
        expected |= {"statistic": np.zeros(1 + len(alarms)), "current": self._current}
        expected["total"] = self._total
        expected |= {f"lowest.{k}": one for k, one in enumerate(self._lowest)}
        require_arrays(arrays, expected)
        self._current, self._in_window = arrays["current"], own["in_window"]
        self._restarted, self._total = own["restarted"], arrays["total"]
        self._lowest = [arrays[f"lowest.{k}"] for k in range(len(self._lowest))]
        for one in (self._current, self._total, *self._lowest):
            require(np.isfinite(one).all() and (one >= 0).all(), "the sums of windows")
        require(0 <= self._restarted <= self.n_samples_seen_, "the sums of windows")
        self.n_alarms_, self._same_until = own["n_alarms"], own["same_until"]
        require(len(alarms) == min(self.n_alarms_, kept), "the number of alarms")
        require(alarms or not self._same_until, "the number of alarms")
        self._starts = [arrays[f"start.{k}"] for k in range(len(self._starts))]
        self.log_statistic_, *known = arrays["statistic"].tolist()
        self.sources_ = [plain(one, "source") for one in own["sources"]]
        self.alarms_ = [
            alarm_of(record, value) for record, value in zip(alarms, known, strict=True)
        ]
        sketches = [ForecastSketch.from_bytes(one) for one in blobs]
        require(len(sketches) == len(windows) + (self._in_window > 0), "the number of windows")
        require(self._in_window < size and len(windows) <= kept, "the number of windows")
        for one in sketches:
            one._plan().refuse_other(self._sketch._plan())
        self.windows_ = [
            Window(*record, sketch) for record, sketch in zip(windows, sketches, strict=False)
        ]
        require(all(one.weight > 0 for one in self.windows_), "the weight of a window")
        if self._in_window:
            self._sketch = sketches[-1]

    def _add_source(self, source: str) -> None:
        self.sources_ = [*self.sources_, source]

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
            one = Window(first, self.n_samples_seen_, weight, mean, observed, sketch=self._sketch)
            self.windows_ = [*self.windows_, one][-self.n_windows :]
            self._empty_window()

    def _advance(self, problem, weight, by):
        """Number of samples up to an alarm, or all; with their state."""
        before = self._streams.arrays()
        sums, starts = self._sums(problem, weight)
        path = self._streams.average(sums)
        above = np.flatnonzero(path >= -np.log(float(self.alpha)))
        used = int(above[0]) + 1 if len(above) else len(path)
        rows, own = slice(0, used), None if weight is None else weight[:used]
        if used < len(path):
            self._streams.restore(before)
            sums, starts = self._sums(problem.take(rows), own)
        first, path = self.n_samples_seen_ + 1, path[rows]
        self._step, self._points = keep_points(self._step, self._points, first, path)
        self._starts, self.log_statistic_ = starts, float(path[-1])
        self.n_samples_seen_ += used
        self._add_to_total(problem.take(rows), own)
        self._add_to_window(problem.take(rows), own, None if by is None else by[rows])
        if len(above):
            self._alarm([one[-1] for one in sums])
        return used

    def _add_to_window(self, part, weight, by):
        self._in_window += len(part.weight)
        self._sketch = copy(self._sketch).partial_fit(part.labels, part.forecast, weight, by=by)
        terms = event_terms(part, weight, Auto())
        self._current = np.cumsum(np.vstack([self._current, terms]), axis=0)[-1]

    def _add_to_total(self, part, weight):
        """Sums since the last start, and at the new lowest ratios among these samples."""
        total, lowest = [], []
        for one, start, known in zip(self._streams.streams, self._total, self._lowest, strict=True):
            sums = np.cumsum(np.vstack([start, one.terms(part, weight)]), axis=0)
            place = one.alternatives.lowest_at - (self.n_samples_seen_ - len(part.weight))
            lowest.append(np.where(place[:, None] > 0, sums[np.maximum(place, 0)], known))
            total.append(sums[-1])
        self._total, self._lowest = np.array(total), lowest

    def _sums(self, problem, weight):
        """Logarithms of the sums over starts (n, A) of each stream, and the state after them."""
        first = [one.alternatives.log_ratio for one in self._streams.streams]
        sums, starts = [], []
        ratios = self._streams.advance(problem, weight)
        for start, path, known in zip(first, ratios, self._starts, strict=True):
            earlier = np.vstack([start, path[:-1]])
            total = np.logaddexp.accumulate(np.vstack([known, -earlier]), axis=0)[1:]
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
        windows = [one for one in self.windows_ if one.first > since]
        first = windows[0].first if windows else self.n_samples_seen_ - self._in_window + 1
        names, n_groups = _different_groups([*(one.sketch for one in windows), self._sketch])
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
        for one in self._streams.streams:
            one.alternatives.forget()
        self._restart()
        self._starts = [np.full(len(one), -np.inf) for one in self._starts]
        self.log_statistic_ = -np.inf


def _groups(by, sample_weight, n_samples):
    """The groups of the samples of positive weight: an array, or None."""
    if by is None:
        return None
    by = np.asarray(to_numpy(by, name="by"))
    kept = (
        None
        if sample_weight is None
        else np.asarray(to_numpy(sample_weight, name="sample_weight")) > 0
    )
    expected = n_samples if kept is None else len(kept)
    if by.shape != (expected,):
        raise ValueError(
            f"by must have shape ({expected},), one group per sample; got shape {by.shape}."
        )
    return by if kept is None else take_rows(by, np.flatnonzero(kept))


def _means(sums):
    """Weight, mean forecast and frequency of the event, from their sums."""
    weight, forecast, event = sums.tolist()
    return weight, forecast / weight, event / weight


def _different_groups(sketches):
    """Names of the groups that differ in some windows together, and the number of groups.

    Samples without a group, of batches without `by`, are in none.
    """
    keys = [(one, key) for one in sketches for key in one.groups_ if key is not None]
    if not 0 < len({key for _, key in keys}) <= MOST_GROUPS:
        return (), 0
    first, *others = (one.group(key) for one, key in keys)
    found = calibration_by_group(sum(others, first)).groups
    return tuple(one.name for one in found if one.detected), len(found)


def _number(log_value):
    """A statistic given by its logarithm, as text."""
    if log_value > 20:  # 5e8
        return "infinity" if np.isinf(log_value) else f"10^{log_value / np.log(10):.0f}"
    return f"{np.exp(log_value):,.3g}"
