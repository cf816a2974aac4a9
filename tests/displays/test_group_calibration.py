"""`GroupCalibrationDisplay`: what is drawn, of which groups, and where."""

import numpy as np
from numpy.testing import assert_allclose

from skcalib import ForecastSketch, GroupCalibrationDisplay, calibration_by_group

draw = GroupCalibrationDisplay.from_predictions


def world(n_groups):
    """Predictions that are too low for the last group alone."""
    rng = np.random.default_rng(0)
    group, p = rng.integers(n_groups, size=3000), rng.uniform(0.1, 0.6, 3000)
    return (rng.random(3000) < p + 0.15 * (group == n_groups - 1)).astype(int), p, group


Y, P, GROUP = world(3)


def test_points_and_intervals():
    display = draw(Y, P, GROUP)
    groups = calibration_by_group(Y, P, GROUP).groups
    for container, field in ((display.differences_, "difference"),
                             (display.equal_scores_, "equal_scores")):  # fmt: skip
        numbers = [getattr(group, field) for group in groups]
        assert_allclose(container.lines[0].get_xdata(), [interval.estimate for interval in numbers])
        (bars,) = container.lines[2]
        ends = [segment[:, 0] for segment in bars.get_segments()]
        assert_allclose(ends, [[interval.low, interval.high] for interval in numbers])
    assert display.shrunk_ is None and len(display.ref_line_.get_xdata()) == 2
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["0", "1", "2"]
    low, high = display.ax_.get_ylim()
    assert low > high  # the first group is above


def test_filled_markers_are_the_groups_that_were_found():
    for rows, different in ((slice(None), [2]), (GROUP < 2, [])):
        display = draw(Y[rows], P[rows], GROUP[rows])
        lines = [line for line in display.ax_.lines if line.get_label().startswith("Filled")]
        filled = [x for line in lines for x in line.get_xdata()]
        assert_allclose(filled, [display.groups_[k].difference.estimate for k in different])
    assert display.ax_.get_xlabel().endswith("\n◇ Observed frequency - frequency at equal scores")


def test_the_smallest_pvalues_of_many_groups():
    y, p, group = world(12)
    group = group.astype(str)  # more numbers than ten would be cut
    display = draw(y, p, group, max_groups=3)
    results = calibration_by_group(y, p, group).groups
    pvalues = {result.name: result.pvalue for result in results}
    names = [result.name for result in display.groups_]
    assert set(names) == set(sorted(pvalues, key=pvalues.get)[:3]) and "11" in names
    assert names == sorted(names, key=int)
    assert display.ax_.get_title() == "3 of 12 groups: the smallest p-values"


def test_shrunken_differences_and_parts_left_out():
    display = draw(Y, P, GROUP, shrunk=True, equal_scores=False, legend=False)
    assert_allclose(display.shrunk_.get_xdata(), [group.shrunk for group in display.groups_])
    assert display.equal_scores_ is None and display.ax_.get_legend() is None
    assert display.ax_.get_xlabel() == "Observed frequency - mean prediction"


def test_a_sketch_and_long_names():
    sketch = ForecastSketch([0, 1]).partial_fit(Y, P, by=GROUP)
    both = draw(Y, P, GROUP), GroupCalibrationDisplay.from_sketch(sketch)
    exact, sketched = (display.differences_.lines[0].get_xdata() for display in both)
    assert_allclose(exact, sketched, atol=1e-6)
    names = np.array(["$a$", "a" * 60])[GROUP % 2]
    texts = [text.get_text() for text in draw(Y, P, names).ax_.get_yticklabels()]
    assert texts == [r"\$a\$", "a" * 31 + "…"]
