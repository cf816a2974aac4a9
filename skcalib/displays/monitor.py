"""A stream of forecasts over time: the statistic, the alarms and the calibration of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import AxesLike
from skcalib.displays._constructors import complete_docstrings
from skcalib.monitoring import Alarm, CalibrationMonitor, SequentialCalibrationTest, Window


@complete_docstrings
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
        display = cls(
            _with_alarms(monitor.path_, monitor.alarms_),
            alpha=monitor.alpha,
            alarms=[one.at for one in monitor.alarms_],
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
        from skcalib.displays import _monitor_plots, _plotting

        artists = _monitor_plots.draw_stream(
            self.path,
            self.windows,
            ax,
            alpha=self.alpha,
            alarms=self.alarms,
            level=self.confidence_level,
            name=name,
            legend=legend,
            style=_plotting.line_style(kwargs, None),
        )
        return _plotting.keep(self, artists)


def _with_alarms(path: np.ndarray, alarms: Sequence[Alarm]) -> np.ndarray:
    """The path with its values at the alarms, after which it is interrupted."""
    points = {at: [value] for at, value in path.tolist() if np.isfinite(value) or value > 0}
    for one in alarms:
        points[float(one.at)] = [one.log_statistic, np.nan]
    rows = [(at, value) for at in sorted(points) for value in points[at]]
    return np.array(rows).reshape(-1, 2)
