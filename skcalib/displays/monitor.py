"""A stream of forecasts over time: the statistic, the alarms and the calibration of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import AxesLike
from skcalib.displays import base
from skcalib.monitoring import CalibrationMonitor, SequentialCalibrationTest, Window


@base.complete_docstrings
class MonitorDisplay:
    r"""A stream over time: the statistic with its threshold, the alarms, and the windows.

    Create one with `from_monitor` or `from_test`.

    - **Statistic**, on a logarithmic scale: R of a `CalibrationMonitor`, or the e-value of a
      `SequentialCalibrationTest`, with the threshold :math:`1 / \alpha`. At most 2,000 points are
      drawn, so narrow peaks may be missing between them. The sum R starts again after an alarm.
    - **Alarms**, vertical lines. A test has one, where it first rejects.
    - **Windows** of a monitor, in a second panel: observed frequency minus mean forecast, which is
      below 0 where forecasts are too high. The interval is that of each single window. With many
      windows some intervals exclude 0 by chance: at a level of 95 %, one of 20. Only the last
      `n_windows` windows are stored.

    Parameters
    ----------
    path : ndarray of shape (n_points, 2)
        Number of samples, and the logarithm of the statistic.
    alpha : float
        One over the threshold.
    alarms : sequence of int, default=()
        Numbers of samples at the alarms.
    windows : sequence of Window or None, default=None
        The windows; None for a test, which has none.

    Attributes
    ----------
    line_ : Line2D
        The statistic.
    threshold_ : Line2D
        The threshold.
    alarms_ : LineCollection or None
        The alarms in the first panel.
    differences_ : ErrorbarContainer or None
        The windows.

    See Also
    --------
    skcalib.CalibrationMonitor : The numbers.

    Examples
    --------
    .. plot::
        :alt: Statistic of a stream with its threshold and the alarms, above the windows.

        >>> import numpy as np
        >>> from skcalib import CalibrationMonitor
        >>> from skcalib.displays import MonitorDisplay
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=6000)
        >>> y = rng.random(6000) < np.where(np.arange(6000) < 3000, p, p**1.5)
        >>> monitor = CalibrationMonitor(window=500).partial_fit(y, p)
        >>> display = MonitorDisplay.from_monitor(monitor)
        >>> len(display.windows)
        12
    """

    def __init__(
        self,
        path: np.ndarray,
        *,
        alpha: float,
        alarms: Sequence[int] = (),
        windows: Sequence[Window] | None = None,
        confidence_level: float = 0.95,
    ) -> None:
        self.path = path
        self.alpha = alpha
        self.alarms = alarms
        self.windows = windows
        self.confidence_level = confidence_level

    @classmethod
    @checks_parameters
    def from_monitor(
        cls,
        monitor: CalibrationMonitor,
        *,
        confidence_level: float = 0.95,
        ax: AxesLike | None = None,
        **plot_params: Any,
    ) -> Self:
        """The statistic, the alarms and the windows of a monitor.

        Parameters
        ----------
        monitor : CalibrationMonitor
            A monitor with samples.
        ax : array of two Axes, default=None
            The panels; None for a new figure.

        Raises
        ------
        ValueError
            For anything but a `CalibrationMonitor`, and a level that is not between 0 and 1.
        NotFittedError
            For a monitor without samples.
        """
        if not isinstance(monitor, CalibrationMonitor):
            raise ValueError(
                f"monitor must be a CalibrationMonitor, got {shown(monitor)}; use from_test for a "
                "SequentialCalibrationTest."
            )
        path = monitor.path_.tolist()
        points = {at: [value] for at, value in path if np.isfinite(value) or value > 0}
        for alarm in monitor.alarms_:  # the path is interrupted after its value at an alarm
            points[float(alarm.at)] = [alarm.log_statistic, np.nan]
        rows = [(at, value) for at in sorted(points) for value in points[at]]
        display = cls(
            np.array(rows).reshape(-1, 2),
            alpha=monitor.alpha,
            alarms=[alarm.at for alarm in monitor.alarms_],
            windows=list(monitor.windows_),
            confidence_level=confidence_level,
        )
        return display.plot(ax=ax, **plot_params)

    @classmethod
    @checks_parameters
    def from_test(
        cls, test: SequentialCalibrationTest, *, ax: AxesLike | None = None, **plot_params: Any
    ) -> Self:
        """The e-value of a test.

        Parameters
        ----------
        test : SequentialCalibrationTest
            A test with samples.
        ax : Axes, default=None
            The panel; None for a new figure.

        Raises
        ------
        ValueError
            For anything but a `SequentialCalibrationTest`.
        NotFittedError
            For a test without samples.

        Examples
        --------
        >>> from skcalib import SequentialCalibrationTest
        >>> from skcalib.displays import MonitorDisplay
        >>> test = SequentialCalibrationTest().partial_fit([0, 1], [0.2, 0.7])
        >>> print(MonitorDisplay.from_test(test).ax_.get_ylabel())
        e-value
        """
        if not isinstance(test, SequentialCalibrationTest):
            raise ValueError(
                f"test must be a SequentialCalibrationTest, got {shown(test)}; use from_monitor "
                "for a CalibrationMonitor."
            )
        check_is_fitted(test, "classes_")
        alarms = [] if test.rejected_at_ is None else [test.rejected_at_]
        return cls(test.path_, alpha=test.alpha, alarms=alarms).plot(ax=ax, **plot_params)

    def plot(
        self,
        ax: AxesLike | None = None,
        *,
        name: str | None = None,
        legend: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : Axes or array of two Axes, default=None
            The panels: two for a monitor, one for a test. None for a new figure.
        name : str, default=None
            Name of the statistic in the legend; "Statistic" or "e-value" by default.
        legend : bool, default=True
            Whether to draw legends.
        **kwargs : dict
            Properties of the line of the statistic.
        """
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        style = base.line_style(kwargs)
        monitor = self.windows is not None
        size = (6.6, 5.8) if monitor else (6.6, 3.6)
        axes = base.panel_axes(ax, 2 if monitor else 1, size=size, sharex=True)
        top, threshold = axes[0], -np.log10(self.alpha)
        statistic, alarm = ("Statistic", "Alarm") if monitor else ("e-value", "First rejection")
        line = _draw_path(top, self.path, threshold, {"label": name or statistic, **style})
        limit = {
            "color": base.GREY,
            "linestyle": "--",
            "linewidth": 1.2,
            "zorder": 2,
            "label": f"Threshold {1 / self.alpha:,.6g}",
        }
        artists = {
            "line": [line],
            "threshold": [top.axhline(threshold, **limit)],
            "alarms": [_draw_alarms(top, self.alarms, alarm)],
            "differences": [],
        }
        top.set_ylabel("Evidence of a change" if monitor else "e-value")
        top.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        top.yaxis.set_major_formatter(FuncFormatter(_power))
        if monitor:
            windows = _draw_windows(axes[1], self.windows, self.confidence_level)
            artists["differences"] = [windows]
            _draw_alarms(axes[1], self.alarms, None)
            top.tick_params(labelbottom=False)
        for panel in axes:
            panel.set_xlim(0, 1.02 * max(1.0, np.nanmax(self.path[:, 0])))
            panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.grid(axis="y", color="0.92", linewidth=0.8)
            panel.set_axisbelow(True)
        axes[-1].set_xlabel("Number of samples")
        if legend and monitor and base.fills_figure(axes):
            entries = [pair for panel in axes for pair in base.legend_entries(panel)]
            base.common_legend(axes, entries)
        elif legend:
            base.draw_legends(axes)
        return base.set_artists(self, axes, artists)


# --- Drawing --------------------------------------------------------------------------------------


_LOWEST = -3.0  # powers of ten below 1 that are drawn at least


def _draw_path(ax, path, threshold, style):
    """The statistic in powers of ten; infinite values are at the upper end."""
    power = path[:, 1] / np.log(10)
    finite = power[np.isfinite(power)]
    top = max(threshold, finite.max(initial=0.0)) + 0.5
    bottom = finite.min(initial=0.0) - 0.3
    if finite.min(initial=0.0) >= _LOWEST:
        bottom = np.clip(bottom, _LOWEST, -0.5)
    shown = np.where(power == np.inf, top, np.where(power == -np.inf, np.nan, power))
    style = {"color": base.COLORS[0], "linewidth": 1.4, "zorder": 3, **style}
    ax.set_ylim(bottom, top)
    return ax.plot(path[:, 0], shown, **style)[0]


def _draw_alarms(ax, alarms, label):
    if not len(alarms):
        return None
    style = {"color": base.COLORS[1], "linewidth": 1.0, "alpha": 0.8, "zorder": 2.5, "label": label}
    return ax.vlines(alarms, 0, 1, transform=ax.get_xaxis_transform(), **style)


def _draw_windows(ax, windows, level):
    ax.axhline(0, **base.DOTTED)
    ax.set_ylabel("Observed - forecast")
    if not windows:
        return None
    centre, reach = base.ends_of([window.difference(level) for window in windows])
    place = [(window.first + window.last) / 2 for window in windows]
    many = len(windows) > base.FEW
    style = {
        "markersize": 2.5 if many else 4.5,
        "elinewidth": 0.8 if many else 1.2,
        "capsize": 0 if many else 2,
        "color": base.COLORS[0],
        "linestyle": "none",
        "marker": "o",
        "zorder": 3,
        "label": f"Window, {level * 100:g} % interval",
    }
    return ax.errorbar(place, centre, yerr=np.where(np.isfinite(reach), reach, 0), **style)


def _power(value, _):
    """A power of ten as a tick: numbers up to 1,000, and beyond them the power."""
    if value != int(value):
        return ""
    return f"{10.0**value:,g}" if -3 <= value <= 3 else f"$10^{{{int(value)}}}$"
