"""Alarms and windows of a stream: what a `CalibrationMonitor` reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skcalib._util.records import Record, frame_of
from skcalib.monitoring._streams import Evidence
from skcalib.sketches.sketch import ForecastSketch
from skcalib.stats.means import MeanInterval, mean_interval

if TYPE_CHECKING:
    from pandas import DataFrame


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


def windows_frame(windows: list[Window]) -> DataFrame:
    """A data frame with one row for each window."""
    return frame_of(_columns_of(windows), ["difference"])


def _columns_of(windows):
    names = ("first", "last", "weight", "mean_predicted", "observed")
    columns = {name: [getattr(one, name) for one in windows] for name in names}
    return {**columns, "difference": [one.difference() for one in windows]}


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
        found = {mine.direction, theirs.direction}
        return found in ({"too_high", "too_low"}, {"too_extreme", "too_moderate"})

    def _columns(self):
        columns = {name: [getattr(self, name)] for name in ("at", "since", "log_statistic")}
        for name in ("event", "direction", "low", "high", "difference"):
            columns[name] = [getattr(self.evidence, name, None)]
        columns["evidence_since"] = [getattr(self.evidence, "since", None)]
        for name in ("before", "after"):
            columns[f"mean_predicted_{name}"], columns[f"observed_{name}"] = (
                [one] for one in getattr(self, name) or (None, None)
            )
        columns |= {"groups": [self.groups]}
        names = ("n_groups", "before_first", "groups_first")
        return {**columns, **{name: [getattr(self, name)] for name in names}}

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
#: Fields of an alarm in JSON.
ALARM_FORM = {
    **dict.fromkeys(("at", "since", "n_groups", "before_first", "groups_first"), int),
    "log_statistic": float,
    "evidence": (None, {"event": str, "direction": str, "since": int, **_NUMBERS}),
    "before": (None, [float]),
    "after": [float],
    "groups": [str],
}


def alarm_of(record: dict[str, Any], log_statistic: float) -> Alarm:
    """An alarm from its fields in JSON."""
    found = dict(record, log_statistic=log_statistic, groups=tuple(record["groups"]))
    for name in ("before", "after"):
        found[name] = None if found[name] is None else tuple(found[name])
    if found["evidence"] is not None:
        found["evidence"] = Evidence(**found["evidence"])
    alarm = Alarm(**found)
    str(alarm)  # raises for an unknown direction, and for other numbers before and after
    return alarm
