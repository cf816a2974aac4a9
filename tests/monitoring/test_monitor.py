"""Alarms at changes, the mean run length without one, and what an alarm reports."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import follow_a_power
from grids import covering
from scipy.special import expit

from skcalib import CalibrationMonitor, ForecastSketch, SequentialCalibrationTest
from skcalib.data.notions import Multilabel
from skcalib.kernels import GaussianKernel, LaplacianKernel
from skcalib.monitoring import Alarm


def changing(n, at, rng, shift=-0.6):
    """Binary forecasts that are too high from a sample on."""
    z = rng.normal(0, 1.5, n)
    y = rng.random(n) < expit(z + shift * (np.arange(n) >= at))
    return y.astype(int), expit(z)


def test_the_statistic_is_the_sum_over_starts():
    """By hand, for alternatives of a shift and a uniform distribution, forecasts of 1/2."""
    y = np.array([1, 1, 0, 1])
    monitor = CalibrationMonitor(features=lambda p: np.empty((len(p), 0)))
    monitor.partial_fit(y, np.full(4, 0.5))
    sizes = np.array([0.6, -0.6, 0.3, -0.3, 0.15, -0.15])
    ratio = np.exp(np.outer(y, sizes)) / (1 + 0.5 * np.expm1(sizes))
    total = np.zeros(6)
    for step in ratio:
        total = (total + 1) * step
    # slopes of equal forecasts and a uniform distribution have ratios of 1: their sum is 4
    expected = (total.mean() + 4 + 0.25 * 4) / 2.25
    assert monitor.log_statistic_ == pytest.approx(np.log(expected), abs=1e-12)


@pytest.mark.parametrize(("n_classes", "notion"), [(2, "auto"), (3, "canonical"), (3, "classwise")])
def test_the_mean_of_the_statistic(n_classes, notion):
    """R - T is a martingale for calibrated forecasts: over all labels its mean is the time."""
    p = np.random.default_rng(n_classes).dirichlet(np.ones(n_classes), 4)
    labels = np.array(list(product(range(n_classes), repeat=4)))
    chance = p[np.arange(4), labels].prod(axis=1)
    monitors = [CalibrationMonitor(range(n_classes), alpha=1e-12, notion=notion) for _ in labels]
    statistic = [
        np.exp(monitor.partial_fit(y, p).log_statistic_)
        for monitor, y in zip(monitors, labels, strict=True)
    ]
    assert chance @ statistic == pytest.approx(4, abs=1e-9) and np.std(statistic) > 0.03


def test_a_change_is_found_and_described():
    """In all groups, or in one."""
    rng = np.random.default_rng(1)
    y, p = changing(9000, 5000, rng)
    site = rng.choice(["north", "south"], 9000)
    rows = slice(5700)
    monitor = CalibrationMonitor(window=500).partial_fit(y[rows], p[rows], by=site[rows])
    (first,) = monitor.alarms_
    assert 5000 < first.at < 5600 and abs(first.since - 5000) < 200
    assert first.evidence.direction == "too_high" and first.groups == ("north", "south")
    assert abs(first.before[0] - first.before[1]) < 0.03
    assert first.after[0] - first.after[1] > 0.05
    assert first.log_statistic >= np.log(1e5)
    text = str(first)
    assert text.startswith(f"Alarm at sample {first.at:,}. Forecasts are too high")
    assert (
        f" Before (samples 1 to {first.since:,}), mean forecast {p[: first.since].mean():.3f}"
        in text
    )
    assert f"; after (samples {first.since + 1:,} to {first.at:,}), 0.4" in text
    assert f" In samples {first.groups_first:,} to {first.at:,}, observed differs" in text
    assert abs(first.groups_first - first.since) < 500
    assert text.endswith("in 2 of 2 groups (false discovery rate .05): north, south.")
    rng = np.random.default_rng(0)
    y, p = changing(8000, 0, rng, shift=0)
    site = rng.choice(["north", "south"], 8000)
    wrong = (site == "south") & (np.arange(8000) >= 4000)
    y = np.where(wrong, rng.random(8000) < 0.6 * p, y).astype(int)
    rows = slice(5700)
    monitor = CalibrationMonitor(window=500).partial_fit(y[rows], p[rows], by=site[rows])
    assert monitor.alarms_[0].groups == ("south",)


def position_of(p):
    """The scale on which cells of scores have equal width."""
    return np.sqrt(p) - np.sqrt(1 - p)


def in_range(p, evidence):
    """Forecasts in the cells of a range, whose ends are edges of cells."""
    low, high = (position_of(np.array(end)) - 1e-9 for end in (evidence.low, evidence.high))
    return (position_of(p) >= low) & ((position_of(p) < high) | (evidence.high == 1))


@pytest.mark.parametrize("window", [700, 40, 1000, 5000])
@pytest.mark.parametrize("kind", ["one batch", "small batches", "saved", "weights", "classwise"])
def test_means_before_and_after_are_those_of_the_named_samples(window, kind):
    """Of any window, although the change is inside of one; also of a second change."""
    rng = np.random.default_rng(3)
    z = rng.normal(-2, 1.2, 7000)
    slope = 1.2 * (np.arange(7000) >= 3600) - 3.4 * (np.arange(7000) >= 4800)
    p, y = expit(z), (rng.random(7000) < expit(z + slope)).astype(int)
    weight = rng.choice([0.0, 0.8, 1.0, 1.0], 7000) if kind == "weights" else None
    monitor = CalibrationMonitor(
        window=window, notion="classwise" if kind == "classwise" else "auto", alpha=1e-4
    )
    for rows in np.split(np.arange(7000), {"one batch": 1, "saved": 7}.get(kind, 70)):
        monitor.partial_fit(y[rows], p[rows], None if weight is None else weight[rows])
        if kind == "saved":
            monitor = CalibrationMonitor.from_bytes(monitor.to_bytes())
    if weight is not None:
        p, y, weight = (values[weight > 0] for values in (p, y, weight))
    assert len(monitor.alarms_) > 1
    first, last = monitor.alarms_[0], monitor.alarms_[-1]
    assert first.before_first == 1 and first.at < last.before_first <= last.since + 1
    for alarm in monitor.alarms_:
        parts = {
            "before": slice(alarm.before_first - 1, alarm.since),
            "after": slice(alarm.since, alarm.at),
        }
        if alarm.before is None:  # it began at once after the last start
            assert alarm.since == alarm.before_first - 1
            del parts["before"]
        for name, rows in parts.items():
            weight_of_rows = None if weight is None else weight[rows]
            means = [np.average(values[rows], weights=weight_of_rows) for values in (p, y)]
            if alarm.evidence.event == "class 0":
                means = [1 - mean for mean in means]
            assert getattr(alarm, name) == pytest.approx(means, rel=1e-9)
        assert alarm.evidence.since == alarm.since
        score, hit = p[alarm.since : alarm.at], y[alarm.since : alarm.at]
        if kind == "classwise" and alarm.evidence.event == "class 0":
            score, hit = 1 - score, 1 - hit
        rows = in_range(score, alarm.evidence)
        gap = (hit - score)[rows].mean()
        assert rows.sum() > 10 and alarm.evidence.difference == pytest.approx(gap, rel=1e-9)
    gaps = [
        (alarm.after[1] - alarm.after[0]) * (-1 if alarm.evidence.event == "class 0" else 1)
        for alarm in (first, last)
    ]
    assert gaps[0] > 0.08 and gaps[1] < -0.02
    assert abs(first.before[1] - first.before[0]) < 0.02


def test_the_evidence_of_a_test_is_about_the_samples_since():
    rng = np.random.default_rng(5)
    y, p = changing(3000, 1500, rng, shift=-0.9)
    test = SequentialCalibrationTest().partial_fit(y, p)
    evidence = test.evidence()
    assert abs(evidence.since - 1500) < 150
    rows = np.arange(3000) >= evidence.since
    rows &= in_range(p, evidence)
    assert evidence.difference == pytest.approx((y - p)[rows].mean(), rel=1e-9)
    assert evidence.difference < 2 * (y - p)[in_range(p, evidence)].mean() * 0.8  # not diluted


def test_where_the_change_began():
    """The median of five estimates; a single one may be a thousand samples off."""
    streams = [changing(3500, 2500, np.random.default_rng(seed)) for seed in range(5)]
    alarms = [CalibrationMonitor(window=500).partial_fit(y, p).alarms_[0] for y, p in streams]
    assert abs(np.median([alarm.since for alarm in alarms]) - 2500) < 100


@pytest.mark.parametrize(
    ("base", "shift", "slope", "direction"),
    [
        (0, 1, 1, "too_low"),
        (0, -1, 1, "too_high"),
        (0, 0, 0.6, "too_extreme"),
        (0, 0, 1.6, "too_moderate"),
        (-2.5, 1, 1, "too_low"),
    ],
)
def test_a_change_that_lasts_is_one_alarm(base, shift, slope, direction):
    """The statistic reaches its threshold up to 16 times in 3,000 samples."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        z = rng.normal(0, 1.5, 3000)
        y = rng.random(3000) < expit(base + slope * z + shift)
        monitor = CalibrationMonitor().partial_fit(y, expit(base + z))
        assert monitor.n_alarms_ == 1 and monitor.alarms_[0].evidence.direction == direction


def changing_classes(factors, seed=0, n=4000, at=1500):
    """Labels of classes whose odds are multiplied by factors from a sample on, and forecasts."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(factors), 2.0), n)
    true = np.where(np.arange(n)[:, None] < at, p, p * factors)
    true /= true.sum(axis=1, keepdims=True)
    return (rng.random((n, 1)) > true.cumsum(axis=1)[:, :-1]).sum(axis=1), p


@pytest.mark.parametrize("notion", ["classwise", "canonical", "cumulative"])
def test_a_change_of_several_classes_is_one_alarm(notion):
    """Class 2 is too low and class 0 too high: this is the same change."""
    y, p = changing_classes([0.5, 1, 1.8])
    monitor = CalibrationMonitor(alpha=1e-4, notion=notion)
    for start in range(0, 4000, 200):
        monitor.partial_fit(y[start : start + 200], p[start : start + 200])
    assert monitor.n_alarms_ == 1 and 1500 < monitor.alarms_[0].at < 1800


@pytest.mark.parametrize("notion", ["classwise", "cumulative", "canonical"])
@pytest.mark.parametrize("factors", [[0.5, 1, 1, 1.8], [1, 1, 0.4, 1], [2, 1, 1, 0.5]])
def test_the_means_of_an_alarm_are_those_of_its_event(notion, factors):
    """By hand, of the event that the evidence names."""
    y, p = changing_classes(factors, n=3000)
    monitor = CalibrationMonitor(alpha=1e-4, notion=notion)
    first = monitor.partial_fit(y, p).alarms_[0]
    name, _, label = first.evidence.event.rpartition(" ")
    score, event = p.max(axis=1), y == p.argmax(axis=1)
    if name == "class":
        score, event = p[:, int(label)], y == int(label)
    elif name == "class <=":
        score, event = p[:, : int(label) + 1].sum(axis=1), y <= int(label)
    rows = [slice(0, first.since), slice(first.since, first.at)]
    expected = [(score[part].mean(), event[part].mean()) for part in rows]
    np.testing.assert_allclose([first.before, first.after], expected, rtol=1e-9)
    assert name.startswith("class") or notion == "canonical"


@pytest.mark.parametrize("kind", [CalibrationMonitor, SequentialCalibrationTest])
def test_several_labels_per_sample_are_refused(kind):
    said = f"^{kind.__name__} takes one label at a time: pass a column of y_true and of y_proba.$"
    with pytest.raises(ValueError, match=said):
        kind(notion=Multilabel()).partial_fit([[0, 1], [1, 1]], [[0.2, 0.7], [0.6, 0.9]])


def test_two_changes_are_two_alarms():
    """A second one after the first is gone, or at once in the opposite direction."""
    z = np.random.default_rng(0).normal(0, 1.5, 9000)
    for second, size in ((-0.8, 2000), (0.8, 0)):
        shift = np.repeat([0, -0.8, 0, second], [1500, 1500, size, 6000 - size])
        y = np.random.default_rng(1).random(9000) < expit(z + shift)
        monitor = CalibrationMonitor(n_windows=4).partial_fit(y, expit(z))
        first, last = (alarm.at for alarm in monitor.alarms_)
        assert monitor.n_alarms_ == 2 and len(monitor.windows_) == 4
        assert 1500 < first < 2000 and 0 < last - 3000 - size < 600
        said = monitor.summary()
        assert f"2 alarms, the first at sample {first:,}, the last at sample {last:,}." in said
        assert "9,000 samples, statistic" in said and "(alarm at 100,000)" in said


def test_the_summary_of_few_alarms():
    monitor = CalibrationMonitor().partial_fit([0, 1], [0.4, 0.6])
    assert monitor.summary().endswith("(alarm at 100,000), no alarm.")
    monitor.partial_fit([1, 0], [0.0, 0.5])
    assert "1 alarm. Alarm at sample 3. Forecasts are too extreme" in monitor.summary()
    assert monitor.alarms_[0].log_statistic == np.inf


def test_windows():
    y, p = changing(1050, 0, np.random.default_rng(0))
    weight = np.random.default_rng(1).uniform(0.1, 1, 1050)
    monitor = CalibrationMonitor(window=200, n_windows=3)
    for rows in np.split(np.arange(1050), 15):
        monitor.partial_fit(y[rows], p[rows], weight[rows])
    ends = [(window.first, window.last) for window in monitor.windows_]
    assert ends == [(401, 600), (601, 800), (801, 1000)]
    rows, window = slice(800, 1000), monitor.windows_[-1]
    assert window.mean_predicted == pytest.approx(np.average(p[rows], weights=weight[rows]))
    assert window.observed == pytest.approx(np.average(y[rows], weights=weight[rows]))
    assert (
        window.weight == pytest.approx(weight[rows].sum()) and window.sketch.n_samples_seen_ == 200
    )
    narrow, wide = window.difference(0.9), window.difference()
    assert narrow.estimate == pytest.approx(window.observed - window.mean_predicted, abs=1e-9)
    assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high


KERNEL = 0.5 * LaplacianKernel(0.3) + GaussianKernel(1.0)


def columns(score):
    return np.column_stack([np.sin(6 * score), np.cos(6 * score)])


@pytest.mark.parametrize(
    ("kind", "notion", "features", "n_classes", "weighted"),
    covering(
        [SequentialCalibrationTest, CalibrationMonitor],
        ["top_label", "classwise", "canonical"],
        ["auto", 2, columns, KERNEL],
        [2, 12],
        [False, True],
    ),
)
def test_batches_and_restarts_do_not_change_a_bit(kind, notion, features, n_classes, weighted):
    """After each batch the state of one of two streams is saved and read again."""
    rng = np.random.default_rng(0)
    y, p = follow_a_power(120, rng, power=0.3, n_classes=n_classes)
    labels = [f"class {k:02}" for k in range(n_classes)]
    weight = rng.uniform(0, 1, 120) * (np.arange(120) % 5 > 0)
    beside = {"sample_weight": weight} if weighted else {}
    options = {"notion": notion, "features": features, "alpha": 0.02}
    if kind is CalibrationMonitor:
        beside["by"], options["window"] = rng.choice(["a", "b"], 120), 100
    again = {"features": features} if features is columns else {}
    paths = set()
    for size in (7, 60, 120) if weighted else (1, 60, 120):
        stream, copy = (kind(labels, **options) for _ in range(2))
        forecast = np.asfortranarray(p) if size == 60 else p
        for start in range(0, 120, size):
            rows = slice(start, start + size)
            batch = {name: values[rows] for name, values in beside.items()}
            for monitor in (stream, copy):
                monitor.partial_fit(np.array(labels)[y[rows]], forecast[rows], **batch)
            copy = kind.from_bytes(copy.to_bytes(), **again)
        assert copy.to_bytes() == stream.to_bytes() and b"pickle" not in stream.to_bytes()
        assert copy.get_params()["alpha"] == 0.02 and (copy.path_ == stream.path_).all()
        assert copy.n_samples_seen_ == ((weight > 0).sum() if weighted else 120)
        told = [stream.alarms_] if kind is CalibrationMonitor else [stream.evidence()]
        paths.add((stream.path_.tobytes(), repr(told)))
    assert len(paths) == 1 or features is KERNEL  # whose sums are rounded


REFUSED = [
    (lambda m: m.partial_fit([0, 1], [0.5, 0.5], by=["a"]), r"by must have shape \(2,\)"),
    (lambda m: m.partial_fit([0, 1], [0.5, 0.5], [1, 0], by=["a"]), r"by must have shape \(2"),
    (lambda m: m.partial_fit([0], [0.5], source="monday"), "'monday' have been added before"),
    (lambda m: m.set_params(window=5).partial_fit([0], [0.5]), "window has changed from 1000"),
]
#: Batches that a test refuses as well; to `fit` the last two are new classes.
BATCHES = [
    (([0, 1], [0.5, 1.5]), "1.5"),
    (([0, 1], [0.5]), "samples"),
    (([0, 1], [0.5, 0.5], [1, 2]), "Weights must be at most 1 here, got 2"),
    (([], []), "sample"),
    (([0, 2], [0.5, 0.5]), "2"),
    (([0, 1], np.full((2, 3), 1 / 3)), "columns"),
]


def test_refusals_change_nothing():
    test = SequentialCalibrationTest().partial_fit([0, 1, 1], [0.2, 0.7, 0.4])
    monitor = CalibrationMonitor().partial_fit([0, 1], [0.2, 0.7], source="monday")
    before = test.to_bytes(), monitor.to_bytes()
    calls = [(partial(call, monitor), words) for call, words in REFUSED]
    for stream in (test, monitor):
        calls += [(partial(stream.partial_fit, *batch), words) for batch, words in BATCHES]
        calls += [(partial(stream.fit, *batch), words) for batch, words in BATCHES[:4]]
    for call, words in calls:
        with pytest.raises(ValueError, match=words):
            call()
        monitor.set_params(window=1000)
        assert (test.to_bytes(), monitor.to_bytes()) == before
    assert monitor.sources_ == ["monday"]


DATES = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")


@pytest.mark.parametrize("kind", [ForecastSketch, SequentialCalibrationTest, CalibrationMonitor])
def test_what_cannot_be_saved_is_refused_before_it_is_added(kind):
    """And what is accepted is saved, with numbers of NumPy as numbers."""
    wrong = [("labels", DATES), ("labels", pd.DatetimeIndex(DATES)), ("labels", [b"a", b"b"])]
    right = [("labels", np.array([np.int64(0), np.int64(1)], dtype=object))]
    if kind is not SequentialCalibrationTest:
        wrong += [("by", column) for column in ([np.nan, 1.5], [np.inf, 1], DATES, [b"a", b"b"])]
        wrong += [("by", pd.Series(DATES)), ("by", [pd.NA, "a"]), ("by", [1 + 2j, 1])]
        right += [("by", np.array([np.int64(3), np.float32(2)], dtype=object)), ("by", [None, 1])]
    if kind is CalibrationMonitor:
        wrong += [("source", source) for source in (DATES[0], np.nan, b"a", ["a"])]
        kernel = LaplacianKernel(0.25, max_samples=np.int64(9))
        right += [("source", np.int64(3)), ("features", kernel)]
    for name, value in [*wrong, *right]:
        labels = value if name == "labels" else [0, 1]
        monitor = kind(labels, **({name: value} if name == "features" else {}))
        options = {name: value} if name in ("by", "source") else {}
        if any(value is known for _, known in right):
            monitor.partial_fit(np.asarray(labels), [0.2, 0.7], **options)
            assert kind.from_bytes(monitor.to_bytes()).to_bytes() == monitor.to_bytes()
            continue
        with pytest.raises(ValueError, match=f"{name} takes strings and finite numbers only.*got"):
            monitor.partial_fit(np.asarray(labels), [0.2, 0.7], **options)
        assert not hasattr(monitor, "classes_")


def test_more_groups_than_can_be_compared_and_a_kernel():
    """No groups and no evidence are told, but the alarm is."""
    monitor = CalibrationMonitor(alpha=1e-9, window=2000)
    monitor.partial_fit(np.tile([0, 1], 501), np.full(1002, 0.5), by=np.arange(1002))
    monitor.partial_fit([1], [0.0], by=[0])
    assert monitor.n_alarms_ == 1 and monitor.alarms_[0].groups == ()
    y, p = changing(1500, 500, np.random.default_rng(0), shift=-1.5)
    monitor = CalibrationMonitor(features=LaplacianKernel(0.3)).partial_fit(y, p)
    assert monitor.n_alarms_ > 0 and monitor.alarms_[0].evidence is None
    assert str(monitor.alarms_[0]).startswith("Alarm at sample")


@pytest.mark.parametrize("kind", [SequentialCalibrationTest, CalibrationMonitor])
def test_threads_may_share_a_stream(kind):
    """Batches are added one after the other: never two at a time, and the same state as in one."""
    inside, most = [], []

    def features(score):
        inside.append(score)
        most.append(len(inside))
        time.sleep(0.005)
        inside.pop()
        return np.sin(6 * score)

    y, p = changing(60, 0, np.random.default_rng(0))
    shared, single = kind([0, 1], features=features), kind([0, 1], features=features)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: shared.partial_fit(y, p), range(4)))
    assert max(most) == 1 and shared.n_samples_seen_ == 240
    for _ in range(4):
        single.partial_fit(y, p)
    assert shared.to_bytes() == single.to_bytes()


@pytest.mark.parametrize("kind", [SequentialCalibrationTest, CalibrationMonitor])
def test_pandas_objects_with_different_indices(kind):
    y, stream = pd.Series([0, 1, 1, 0], index=[3, 1, 2, 0]), kind([0, 1])
    p, reindexed = pd.Series([0.2, 0.6, 0.7, 0.4], index=y.index), pd.Series([0.2, 0.6, 0.7, 0.4])
    wrong = {"y_proba": (reindexed,), "sample_weight": (p, reindexed)}
    for name, arguments in wrong.items():
        with pytest.raises(ValueError, match=f"y_true and {name} have different indices"):
            stream.partial_fit(y, *arguments)
    if kind is CalibrationMonitor:
        with pytest.raises(ValueError, match="y_true and by have different indices"):
            stream.partial_fit(y, p, by=reindexed)
    assert not hasattr(stream, "classes_") and stream.partial_fit(y, p).n_samples_seen_ == 4


@pytest.mark.slow
@pytest.mark.parametrize(("n", "alpha"), [(9000, 0.01), (200_000, 1 / 500)])
def test_the_mean_run_length(n, alpha):
    """Of new monitors, one after the other: at least 1 / alpha up to 3 standard errors."""
    y, p = changing(n, 0, np.random.default_rng(0), shift=0)
    lengths, start, cap = [], 0, int(4 / alpha)  # a longer run counts as `cap`
    while start + cap <= n:
        monitor = CalibrationMonitor(alpha=alpha, window=cap)
        for rows in np.split(np.arange(start, start + cap), 16):
            if monitor.partial_fit(y[rows], p[rows]).n_alarms_:
                break
        lengths.append(monitor.alarms_[0].at if monitor.n_alarms_ else cap)
        start += lengths[-1]
    assert len(lengths) > 50
    assert np.mean(lengths) > 1 / alpha - 3 * np.std(lengths) / np.sqrt(len(lengths))


def test_samples_without_a_group_are_no_group():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    y = rng.random(3000) < np.where(np.arange(3000) < 2100, p, p**3)
    monitor = CalibrationMonitor().partial_fit(y[:2150], p[:2150])
    monitor.partial_fit(y[2150:], p[2150:], by=np.tile(["north", "south"], 425))
    (alarm,) = monitor.alarms_
    assert alarm.groups_first <= 2150 < alarm.at
    assert (sorted(alarm.groups), alarm.n_groups) == (["north", "south"], 2)


@pytest.mark.parametrize(("before", "words"), [(1, "one sample"), (19, "19 samples"), (20, None)])
def test_means_of_few_samples_are_not_told(before, words):
    alarm = Alarm(100, before, 12.0, None, (0.3, 0.0), (0.5, 0.9), 1, (), 0, 1)
    text = str(alarm)
    if words is None:
        assert "Before (samples 1 to 20), mean forecast 0.300 and observed 0.000; after" in text
    else:
        assert text == (
            f"Alarm at sample 100. After (samples {before + 1} to 100), mean forecast 0.500 and "
            f"observed 0.900. Only {words} before."
        )
