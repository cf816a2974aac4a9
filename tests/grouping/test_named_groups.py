"""Groups of columns: fifths of numbers, units of the calendar, intersections, and what is kept."""

import re
from datetime import UTC
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl

from skcalib import CalibrationReport, GroupCalibrationDisplay, calibration_by_group
from skcalib.grouping.by_group import named_groups

N = 400


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.7, N)
    return (rng.random(N) < p).astype(int), p


def sizes(by, n_samples=N, **options):
    """Names of groups and their numbers of samples."""
    groups = named_groups(by, n_samples, **options)
    return dict(zip(groups.names, groups.members.sum(axis=0).tolist(), strict=True))


def ages(n_samples=N):
    return np.random.default_rng(1).integers(18, 91, n_samples)


#: The same whole ages in all forms.
FORMS = {
    "array": lambda age: age,
    "list": lambda age: age.tolist(),
    "float": lambda age: age.astype(float),
    "object": lambda age: age.astype(object),
    "nullable": lambda age: pd.array(age, dtype="Int64"),
    "series": lambda age: pd.Series(age, index=np.arange(len(age))[::-1]),
    "polars": pl.Series,
    "uint8": lambda age: age.astype(np.uint8),
}


@pytest.mark.parametrize("form", FORMS)
def test_whole_ages_are_cut_into_fifths(form):
    """73 ages are 5 groups, whose names are their first and last age."""
    age = ages()
    size_of = sizes(FORMS[form](age))
    assert len(size_of) == 5 and max(size_of.values()) <= 1.3 * N / 5
    ends = [tuple(map(int, name.split(" to "))) for name in size_of]
    assert ends[0][0] == 18 and ends[-1][1] == 90
    for (low, high), size in zip(ends, size_of.values(), strict=True):
        assert size == np.sum((age >= low) & (age <= high))
    assert all(high < low for (_, high), (low, _) in pairwise(ends))


def test_only_numbers_of_more_than_ten_values_are_cut():
    age = ages()
    assert list(sizes(age % 10)) == [str(k) for k in range(10)]
    assert list(sizes(age % 10 / 2))[:3] == ["0", "0.5", "1"]
    assert len(sizes(age % 11)) == 5
    for labels in (
        age.astype(str),
        pd.Categorical(age),
        pl.Series(age.astype(str)).cast(pl.Categorical),
    ):
        assert len(sizes(labels)) == len(np.unique(age))
    assert list(sizes(pd.Categorical(age)))[:2] == ["18", "19"]
    size_of = sizes(
        pd.DataFrame({"age": age, "zip": (age + 10_000).astype(str), "sex": age % 2 == 0})
    )
    assert next(iter(size_of)).startswith("age 18 to ") and list(size_of)[-2:] == [
        "sex = False",
        "sex = True",
    ]
    assert sum(name.startswith("zip = ") for name in size_of) == len(np.unique(age))


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (10**18 + np.arange(N) % 12, [str(10**18 + k) for k in range(12)]),
        (123_456_789_000 + np.arange(N) % 3, [str(123_456_789_000 + k) for k in range(3)]),
        (
            (123_456_789_000 + np.arange(N) % 3) / 1e12,
            ["0.123456789", "0.123456789001", "0.123456789002"],
        ),
        (
            [None, *(10**18 + np.arange(1, N) % 12).tolist()],
            [*(str(10**18 + k) for k in range(12)), "missing"],
        ),
        (["", "a"] * 200, ["''", "a"]),
        (pd.Series([("F", 1), ("M", 2)] * 200), ["('F', 1)", "('M', 2)"]),
    ],
)
def test_codes_stay_apart(codes, names):
    """Numbers of 19 digits that are equal as floats, empty text, and pairs."""
    assert list(sizes(codes)) == names


def test_missing_and_infinite_numbers():
    age = ages().astype(float)
    age[:40] = np.nan
    for by in (age, np.where(np.isnan(age), None, age), pd.Series(age).astype("Int64")):
        size_of = sizes(by)
        assert list(size_of)[-1] == "missing" and size_of["missing"] == 40 and len(size_of) == 6
    age[40:60] = np.inf
    assert sum(sizes(age).values()) == N and list(sizes(age))[-2].endswith("to inf")


@pytest.mark.parametrize("zeros", [0.3, 0.5, 0.85, 0.99])
def test_counts_with_heavy_ties(zeros):
    """Equal counts are in one group; it has no other count if it has two fifths of the samples."""
    rng = np.random.default_rng(2)
    count = np.where(rng.random(2000) < zeros, 0, rng.integers(1, 40, 2000))
    groups = named_groups(count, 2000)
    of_zeros = groups.members[count == 0].any(axis=0)
    assert of_zeros.sum() == 1 and 2 <= len(groups.names) <= 5
    if zeros > 0.4:
        assert groups.names[0] == "0"
    assert groups.members.sum() == 2000 and len(set(groups.names)) == len(groups.names)


def test_ranges_of_fractions_meet_and_have_different_names():
    x = np.random.default_rng(0).uniform(18, 90, N)
    limits = [name.split(" to ") for name in sizes(x)]
    assert all(below[1] == above[0] for below, above in pairwise(limits))
    assert set(sizes(x).values()) == {N // 5}
    near = 1e6 + np.random.default_rng(0).uniform(0, 1e-3, N)
    assert len(set(sizes(near))) == 5


def days(start, n, step):
    return np.datetime64(start) + np.arange(n) * np.timedelta64(1, step)


@pytest.mark.parametrize(
    ("times", "names"),
    [
        (days("2024-01-01", 366, "D"), ["2024 Q1", "2024 Q2", "2024 Q3", "2024 Q4"]),
        (days("2024-01-01", 150, "D"), [f"2024-{k:02d}" for k in range(1, 6)]),
        (days("2019-07", 60, "M"), [str(year) for year in range(2019, 2025)]),
        (days("2024-03-01", 120, "h"), [f"2024-03-0{k}" for k in range(1, 6)]),
        (days("2024-03-01T08:30", 200, "m"), [f"2024-03-01 {k:02d}:00" for k in range(8, 12)]),
        (days("2024-03-01", 3, "D"), ["2024-03-01", "2024-03-02", "2024-03-03"]),
    ],
)
def test_times_are_cut_into_units_of_the_calendar(times, names):
    for by in (
        times,
        pd.Series(times.astype("M8[ns]")),
        pd.Series(times.astype("M8[ns]")).dt.tz_localize("Europe/Berlin"),
        times.astype("M8[us]").tolist(),
        pl.Series(times.astype("M8[us]")),
        pl.Series(times.astype("M8[us]")).dt.replace_time_zone("Asia/Tokyo"),
        np.datetime_as_string(times.astype("M8[s]")),
    ):
        assert list(sizes(by, len(times))) == names


def test_other_times_are_cut_into_fifths():
    """400 hours are 17 days of one month; and times of one minute have no unit that is long."""
    size_of = sizes(days("2024-03-01", 400, "h"), 400)
    assert next(iter(size_of)).startswith("2024-03-01 to 2024-03-04") and len(size_of) == 5
    size_of = sizes(days("2024-03-01T12:00:00", 60, "s"), 60)
    assert next(iter(size_of)) == "2024-03-01 12:00:00 to 2024-03-01 12:00:11"
    wait = np.arange(50) * np.timedelta64(6, "h")
    assert next(iter(sizes(wait, 50))) == "0 to 2.375 days"
    gaps = pd.Series(days("2024-01-01", 366, "D")).astype("M8[ns]").where(np.arange(366) > 20)
    assert list(sizes(gaps, 366))[-1] == "missing"
    mixed = [pd.Timestamp("2024-01-01", tz=UTC), pd.Timestamp("2024-01-01")] * 10
    with pytest.raises(ValueError, match="by has times with and without a time zone: pass"):
        sizes(mixed, 20)


def test_the_result_says_how_columns_were_cut(world):
    y, p = world
    by_group = calibration_by_group(y, p, ages())
    assert re.findall(r"\d+", by_group.note) == ["73"] and "fifths" in by_group.note
    assert str(by_group).endswith(by_group.note) and by_group.note in by_group._repr_html_()
    day = days("2024-01-01", N, "D")
    by_group = calibration_by_group(y, p, pd.DataFrame({"age": ages(), "day": day.astype("M8[s]")}))
    assert re.findall(r"(\w+) \((\d+)", by_group.note) == [("age", "73"), ("day", "400")]
    assert calibration_by_group(y, p, ages() % 3).note == ""


# --- Intersections --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crossed():
    """Two columns whose groups are calibrated, and whose intersections are off by .12."""
    rng = np.random.default_rng(0)
    n = 4000
    sex, site = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    p = rng.uniform(0.2, 0.7, n)
    off = np.where((sex == "F") == (site == "north"), 0.12, -0.12)
    return (rng.random(n) < p + off).astype(int), p, pd.DataFrame({"sex": sex, "site": site}), off


def test_intersections_show_what_margins_hide(crossed):
    y, p, frame, off = crossed
    margins = calibration_by_group(y, p, frame)
    assert not any(group.detected for group in margins.groups) and margins.overlapping
    assert "intersections=True" in margins.note
    assert str(margins).endswith(margins.note)
    crossings = calibration_by_group(y, p, frame, intersections=True)
    assert all(group.detected and group.equal_scores_detected for group in crossings.groups)
    assert not crossings.overlapping and crossings.note == ""
    assert [group.name for group in crossings.groups] == [
        f"sex = {sex} and site = {site}" for sex in "FM" for site in ("north", "south")
    ]
    for group in crossings.groups:
        inside = (frame["sex"] == group.name[6]) & (frame["site"] == group.name[-5:])
        assert group.n_samples == inside.sum()
        error = group.difference.standard_error
        assert abs(group.difference.estimate - off[inside].mean()) < 4 * error


def test_intersections_by_hand_and_in_all_forms(crossed):
    """They are the groups of one column of pairs."""
    y, p, frame, _ = crossed
    pair = (frame["sex"] + " " + frame["site"]).to_numpy()
    expected = calibration_by_group(y, p, pair).groups
    for by in (
        frame,
        frame.to_numpy(),
        frame.astype("category"),
        pl.DataFrame(frame.to_dict("list")),
        {name: frame[name].to_numpy() for name in frame},  # as fairlearn takes sensitive features
    ):
        groups = calibration_by_group(y, p, by, intersections=True).groups
        for group, of_pair in zip(groups, expected, strict=True):
            assert group.n_samples == of_pair.n_samples and group.difference == of_pair.difference
            assert group.pvalue == of_pair.pvalue and group.equal_scores == of_pair.equal_scores
    assert calibration_by_group(y, p, pair, intersections=True).groups == expected


def test_small_intersections_form_one_group(world):
    y, p = world
    frame = pd.DataFrame({"a": np.arange(N) // 10 % 8, "b": np.where(np.arange(N) < 380, "x", "y")})
    by_group = calibration_by_group(y, p, frame, intersections=True)
    assert [group.name for group in by_group.groups][-1] == "smaller intersections"
    assert (
        by_group.groups[-1].n_samples == 20
        and sum(group.n_samples for group in by_group.groups) == N
    )
    assert re.findall(r"\d+", by_group.note)[:3] == ["2", "20", "20"]
    alone = frame.assign(b=np.where(np.arange(N) < 390, "x", "y"))
    by_group = calibration_by_group(y, p, alone, intersections=True)
    assert by_group.groups[-1].name == "a = 7 and b = y" and by_group.note == ""


def test_intersections_with_weights_of_zero(world):
    """Rows of weight 0 do not count, also for the fifths."""
    y, p = world
    weight = (np.arange(N) % 3 > 0).astype(float)
    frame = pd.DataFrame({"age": ages(), "sex": np.arange(N) % 2})
    for options in ({}, {"intersections": True}):
        by_group = calibration_by_group(y, p, frame, sample_weight=weight, **options)
        counted = weight > 0
        assert by_group == calibration_by_group(y[counted], p[counted], frame[counted], **options)


def test_refusals(world):
    y, p = world
    half = np.arange(N) < 200
    for by, options, words in (
        ({"a": half}, {"intersections": True}, "intersections=True is for columns of groups"),
        ({"a": half, "b": ages()}, {}, r"by\['b'\] must be a mask of 400 booleans too"),
        ({"a": half[:5]}, {}, r"by\['a'\] must be a mask of 400 booleans, got shape \(5,\)"),
        ({}, {}, "by is an empty dict"),
        (np.zeros((N, 2, 2)), {}, "by must have the group of each of the 400 samples, got shape"),
        (np.zeros(3), {}, r"by must have the group of each of the 400 samples, got shape \(3,\)"),
        (pd.DataFrame(index=range(N)), {}, "by has no columns"),
        (pd.Series([[k] for k in range(N)]), {}, "by has lists or other objects: pass numbers"),
        (pd.DataFrame({"a": 1j, "b": half}), {}, "Column a of by has complex numbers: pass"),
    ):
        with pytest.raises(ValueError, match=words):
            calibration_by_group(y, p, by, **options)
    names = np.arange(1500).astype(str)
    frame = pd.DataFrame({"id": names, "a": np.arange(1500) % 2})
    for by, start in ((names, "by"), (frame, "Column id of by")):
        with pytest.raises(ValueError, match=f"^{start} has 1,500 groups, more than 1,000: join"):
            named_groups(by, 1500)
    assert sizes(frame, 1500, intersections=True) == {"smaller intersections": 1500}


def test_displays_and_reports_take_intersections(crossed):
    y, p, frame, _ = crossed
    display = GroupCalibrationDisplay.from_predictions(y, p, frame, intersections=True)
    assert next(group.name for group in display.groups_) == "sex = F and site = north"
    small = slice(0, 240)
    shown = CalibrationReport.from_predictions(
        y[small], p[small], frame[small], by=["sex", "site"], intersections=True
    )
    assert len(shown.findings.by.groups) == 4 and shown.findings.by.note == ""
    shown = CalibrationReport.from_predictions(y[small], p[small], by=frame[small])
    assert "intersections=True gives those of all columns" in " ".join(str(shown).split())
