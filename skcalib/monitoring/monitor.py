"""Alarms for a loss of calibration in a stream, and the calibration of its windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from skcalib._validation import check_count, take_rows
from skcalib.grouping import GroupCalibration, calibration_by_group
from skcalib.kernels import Kernel
from skcalib.monitoring._streams import Evidence, Streams, check_alpha, check_stream
from skcalib.sketch import ForecastSketch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import NotionLike

_BLOCK = 4096  # samples at a time


@dataclass(frozen=True)
class Window:
    """Consecutive samples of a stream: their numbers from 1, and their sketch."""

    first: int
    last: int
    sketch: ForecastSketch

    @property
    def mean_predicted(self) -> float:
        """Mean forecast of the event."""
        return _means(self.sketch)[0]

    @property
    def observed(self) -> float:
        """Frequency of the event."""
        return _means(self.sketch)[1]


@dataclass(frozen=True)
class Alarm:
    """An alarm of a `CalibrationMonitor`.

    Attributes
    ----------
    at : int
        Number of samples at the alarm.
    since : int
        Number of samples after which the leading alternative has gained: an estimate of where the
        change began.
    evidence : Evidence or None
        What the change is; None with a kernel.
    before, after : tuple of two floats, or None
        Mean forecast and frequency of the event in the windows before and after the change.
    groups : tuple of GroupCalibration
        With groups, those that are found to differ from their forecasts after the change.
    """

    at: int
    since: int
    evidence: Evidence | None
    before: tuple[float, float] | None
    after: tuple[float, float] | None
    groups: tuple[GroupCalibration, ...] = ()

    def __str__(self) -> str:
        said = [f"Alarm at sample {self.at:,}."]
        if self.evidence is not None:
            said.append(str(self.evidence))
        if self.before is not None and self.after is not None:
            (p, y), (q, z) = self.before, self.after
            said.append(
                f"Before, mean forecast {p:.3f} and observed {y:.3f}; after, {q:.3f} and {z:.3f}."
            )
        if self.groups:
            said.append(f"Groups: {', '.join(one.name for one in self.groups)}.")
        return " ".join(said)


class CalibrationMonitor(BaseEstimator):
    r"""Alarms for a loss of calibration in a stream, and the calibration of its windows.

    :class:`SequentialCalibrationTest` looks for miscalibration from the first sample on. This class
    looks for a change at an unknown time. With the likelihood ratios :math:`L_{a,t}` of the same
    alternatives a, the Shiryaev-Roberts statistic

    .. math:: R_T = \sum_a \pi_a \sum_{s \le T} \prod_{t = s}^T L_{a,t}

    is the sum of the e-values of all tests that start at one of the samples. There is an alarm
    where :math:`R_T \ge 1 / \alpha`, and then the sum starts again. For calibrated forecasts
    :math:`R_T - T` is a martingale, so the mean number of samples up to an alarm is at least
    :math:`1 / \alpha`.

    Parameters
    ----------
    labels : array-like of shape (n_classes,), default=None
        The class of each column, as in `SequentialCalibrationTest`.
    notion : {"auto", "top_label", "classwise", "canonical"} or Notion, default="auto"
        What is monitored, as in `SequentialCalibrationTest`.
    features : "auto", int, callable or Kernel, default="auto"
        The alternatives, as in `SequentialCalibrationTest`.
    alpha : float, default=1e-5
        One over the least mean number of samples between two false alarms.
    window : int, default=1000
        Number of samples of a window.
    n_windows : int, default=100
        Number of windows that are kept, the last ones.

    Attributes
    ----------
    log_statistic_ : float
        Logarithm of R now.
    alarms_ : list of Alarm
        The alarms, each with what has changed.
    windows_ : list of Window
        Sketches of the last complete windows.
    n_samples_seen_ : int
        Number of samples of positive weight.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.

    References
    ----------
    .. [1] J. Shin, A. Ramdas and A. Rinaldo. E-detectors: a nonparametric framework for sequential
       change detection. New England Journal of Statistics in Data Science 2, 2023.
    """

    __metadata_request__partial_fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012

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

    def partial_fit(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        by: ArrayLike | None = None,
    ) -> Self:
        """Add samples, in the order in which their labels became known.

        Parameters
        ----------
        y_true, y_proba, sample_weight
            As in `SequentialCalibrationTest.partial_fit`.
        by : array-like of shape (n_samples,), default=None
            The group of each sample; an alarm then names the groups that differ.

        Returns
        -------
        CalibrationMonitor
            The object itself.

        Raises
        ------
        ValueError
            For invalid input or parameters. The samples before are kept.
        """
        check_alpha(self.alpha)
        size = check_count(self.window, "window")
        check_count(self.n_windows, "n_windows")
        known = getattr(self, "classes_", None)
        problem, weight = check_stream(y_true, y_proba, sample_weight, self.labels, known)
        if sample_weight is not None and by is not None:
            by = take_rows(by, np.flatnonzero(np.asarray(sample_weight) > 0))
        if known is None:
            self._start(problem.classes)
        start = 0
        while start < len(problem.weight):
            room = size - self._in_window
            rows = slice(start, min(start + min(_BLOCK, room), len(problem.weight)))
            start = rows.stop
            own = None if weight is None else weight[rows]
            part = None if by is None else take_rows(by, np.arange(rows.start, rows.stop))
            self._add(problem.take(rows), own, part)
        return self

    def _start(self, classes):
        self.classes_ = classes
        self._streams = Streams(self.notion, self.features, classes)
        self._starts = [np.full(len(one.alternatives.prior), -np.inf)
                        for one in self._streams.streams]  # fmt: skip
        self.n_samples_seen_, self.log_statistic_ = 0, -np.inf
        self.alarms_, self.windows_ = [], []
        self._in_window, self._sketch = 0, self._empty_sketch()
        self._cells: list[dict[int, np.ndarray]] = []

    def _empty_sketch(self):
        several = len(self.classes_) > 2
        notion: Any = "top_label" if several else "canonical"
        return ForecastSketch(self.classes_, notion=notion)

    def _add(self, problem, weight, by):
        """Samples of one window; after an alarm the rest of them starts the sum again."""
        self._sketch.partial_fit(problem.labels, problem.forecast, weight, by=by)
        self._in_window += len(problem.weight)
        while len(problem.weight):
            used = self._advance(problem, weight)
            problem = problem.take(slice(used, None))
            weight = None if weight is None else weight[used:]
        if self._in_window == self.window:
            first = self.n_samples_seen_ - self.window + 1
            self.windows_.append(Window(first, self.n_samples_seen_, self._sketch))
            del self.windows_[: -self.n_windows]
            self._in_window, self._sketch = 0, self._empty_sketch()

    def _advance(self, problem, weight):
        """Number of samples up to an alarm, or all; with their state."""
        before = {name: array.copy() for name, array in self._streams.arrays().items()}
        sums, starts = self._sums(problem, weight)
        path = self._streams.average(sums)
        above = np.flatnonzero(path >= -np.log(self.alpha))
        if not len(above):
            self._starts = starts
            self.n_samples_seen_ += len(path)
            self.log_statistic_ = float(path[-1])
            return len(path)
        used = int(above[0]) + 1
        if used < len(path):
            self._streams.restore(before)
            rows = slice(0, used)
            sums, _ = self._sums(problem.take(rows), None if weight is None else weight[rows])
        self.n_samples_seen_ += used
        self._alarm(sums)
        return used

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

    def _alarm(self, sums):
        """Record the alarm, and start the sum again."""
        ends = [own[-1] for own in sums]
        evidence = self._streams.evidence(ends)
        leading = int(np.argmax([own.max() for own in ends]))
        alternatives = self._streams.streams[leading].alternatives
        since = int(alternatives.lowest_at[int(np.argmax(ends[leading]))])
        earlier = [one.sketch for one in self.windows_ if one.last <= since]
        later = [one.sketch for one in self.windows_ if one.first > since]
        later += [self._sketch] if self._in_window else []
        after = sum(later[1:], later[0]) if later else None
        groups: tuple = ()
        if after is not None and after.groups_ != [None]:
            found = calibration_by_group(after).groups
            groups = tuple(one for one in found if one.detected)
        self.alarms_.append(
            Alarm(
                at=self.n_samples_seen_,
                since=since,
                evidence=None if evidence is None else replace(evidence, since=since),
                before=_means(sum(earlier[1:], earlier[0])) if earlier else None,
                after=None if after is None else _means(after),
                groups=groups,
            )
        )
        for one in self._streams.streams:
            one.alternatives.forget()
        self._starts = [np.full(len(one), -np.inf) for one in self._starts]
        self.log_statistic_ = -np.inf


def _means(sketch):
    """Mean forecast and frequency of the event of a sketch."""
    (rows,) = sketch.scored()
    return (
        float(np.average(rows.score, weights=rows.weight)),
        float(np.average(rows.event, weights=rows.weight)),
    )
