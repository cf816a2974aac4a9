"""The figure of a stream: its numbers are those of the monitor, and certain values are drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from refusals import check_refusals
from scipy.special import expit
from sklearn.exceptions import NotFittedError

from skcalib import CalibrationMonitor, SequentialCalibrationTest
from skcalib.displays import MonitorDisplay

make, of_test = MonitorDisplay.from_monitor, MonitorDisplay.from_test
RNG = np.random.default_rng(1)
Z = RNG.normal(0, 1.5, 4000)
Y, P = RNG.random(4000) < expit(Z - 0.8 * (np.arange(4000) >= 2000)), expit(Z)


def test_a_monitor():
    monitor = CalibrationMonitor(window=500).partial_fit(Y, P)
    display = make(monitor, confidence_level=0.9, linewidth=3)
    top, below = display.ax_
    drawn = display.line_.get_xydata()
    for alarm in monitor.alarms_:
        here = drawn[drawn[:, 0] == alarm.at, 1]
        assert here[0] == pytest.approx(alarm.log_statistic / np.log(10)) and np.isnan(here[1])
    assert np.nanmax(drawn[:, 1]) < 5.3 and display.threshold_.get_ydata()[0] == pytest.approx(5)
    places = [path.vertices[0, 0] for path in display.alarms_.get_paths()]
    assert places == [raised.at for raised in monitor.alarms_]
    line, _, (bars,) = display.differences_
    first = monitor.windows_[0].difference(0.9)
    assert line.get_xydata()[0].tolist() == pytest.approx([250.5, first.estimate])
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([first.low, first.high])
    assert (display.line_.get_linewidth(), below.get_xlabel()) == (3, "Number of samples")
    assert top.get_xlim() == below.get_xlim()
    (legend,) = display.figure_.legends
    words = {text.get_text() for text in legend.get_texts()}
    assert words == {"Statistic", "Threshold 100,000", "Alarm", "Window, 90 % interval"}


def test_a_test():
    test = SequentialCalibrationTest().partial_fit(Y, P)
    display = of_test(test)
    assert display.differences_ is None and display.ax_.get_ylabel() == "e-value"
    drawn = display.line_.get_xydata()
    np.testing.assert_allclose(drawn, test.path_ / [1, np.log(10)])
    assert display.alarms_.get_paths()[0].vertices[0, 0] == test.rejected_at_
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert words == ["e-value", "Threshold 20", "First rejection"]
    assert of_test(SequentialCalibrationTest().partial_fit([0], [0.4])).alarms_ is None


def test_infinite_values_no_windows_and_windows_of_one_sample():
    y, p = [0, 1, 1], [0.4, 0, 0.4]
    for made in (
        of_test(SequentialCalibrationTest().partial_fit(y, p)),
        make(CalibrationMonitor().partial_fit(y, p)),
    ):
        assert made.differences_ is None
        ax = made.figure_.axes[0]
        assert np.isfinite(ax.get_ylim()).all()
        assert np.nanmax(made.line_.get_ydata()) == ax.get_ylim()[1]
        made.figure_.canvas.draw()
    assert made.windows == []
    display = make(CalibrationMonitor(window=1).partial_fit([0, 1], [0.2, 0.7]))
    assert len(display.windows) == 2
    display.figure_.canvas.draw()


def test_given_axes_and_refusals():
    monitor, test = CalibrationMonitor().partial_fit(Y, P), SequentialCalibrationTest()
    axes = plt.subplots(2)[1]
    assert make(monitor, ax=axes, legend=False).ax_ == list(axes)
    check_refusals(
        (lambda: make(monitor, ax=axes[0]), "array of 2 Axes"),
        (lambda: make(test), "use from_test for a SequentialCalibrationTest"),
        (lambda: of_test(CalibrationMonitor()), "use from_monitor for a CalibrationMonitor"),
    )
    check_refusals(
        (lambda: of_test(test), "SequentialCalibrationTest instance is not fitted"),
        (lambda: make(CalibrationMonitor()), "CalibrationMonitor instance is not fitted"),
        error=NotFittedError,
    )
    words = "unexpected keyword argument 'color_of'"
    check_refusals((lambda: make(monitor, color_of="red"), words), error=TypeError)
