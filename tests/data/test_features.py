"""Features of any type: one rule for every name that takes them, and what is left out."""

import pickle
import warnings
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pandas as pd
import pytest
from engines import Engine, in_arrow
from engines import polars as pl
from scipy.sparse import csr_array
from sklearn.dummy import DummyClassifier

import skcalib as s
from skcalib.data.features import EncodedFeatures, FeatureEncoder, encode_features
from skcalib.grouping import differences_at_equal_scores, grouping_improvement

N = 200


def mixed(n_samples=N, seed=0):
    """A number, a category, a date, truth values; text, an identifier, lists and no value."""
    rng = np.random.default_rng(seed)
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n_samples) * np.timedelta64(1, "D")
    site = rng.choice(["north", "south", "east"], n_samples).astype(object)
    site[:15] = None
    return pd.DataFrame({
        "age": np.where(rng.random(n_samples) < 0.1, np.nan, rng.normal(50, 10, n_samples)),
        "id": [f"P{k:05d}" for k in range(n_samples)],
        "site": site,
        "day": day.astype("M8[us]"),
        "wait": rng.integers(0, 50, n_samples) * np.timedelta64(6, "h"),
        "comment": [f"seen by {k}" for k in rng.integers(0, 10**6, n_samples)],
        "flag": rng.random(n_samples) < 0.4,
        "tags": [[k, k + 1] for k in range(n_samples)],
        "empty": np.full(n_samples, None),
        "stage": pd.Categorical(rng.integers(1, 4, n_samples)),
        "wave": rng.normal(size=n_samples) * 1j,
    })  # fmt: skip


LEFT_OUT = ["id", "comment", "tags", "empty", "wave"]


def by_hand(frame):
    """The usable columns as numbers."""
    columns = {"age": frame["age"]}
    for name in ("east", "north", "south"):
        columns[f"site = {name}"] = (frame["site"] == name).astype(float)
    columns["site is missing"] = frame["site"].isna().astype(float)
    columns["day"] = (frame["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    columns["wait"] = frame["wait"] / pd.Timedelta(days=1)
    columns["flag = True"] = frame["flag"].astype(float)
    for k in (1, 2, 3):
        columns[f"stage = {k}"] = (frame["stage"] == k).astype(float)
    return pd.DataFrame(columns)


def outcome(frame, n_samples=N):
    """Forecasts, and labels that depend on the number, the site and the day too."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.2, 0.8, n_samples)
    late = (frame["day"] > pd.Timestamp("2024-06-01")).to_numpy()
    off = 0.2 * (frame["site"] == "south").to_numpy() - 0.15 * late
    return (rng.random(n_samples) < np.clip(p + off, 0, 1)).astype(int), p


def numbers_of_estimator(X, y, p):
    estimator = s.GroupingLossEstimator(n_permutations=20).fit(X, y, y_proba=p)
    return [estimator.grouping_loss_, estimator.pvalue_, estimator.explained_]


def numbers_of_regions(X, y, p):
    estimator = s.GroupingLossEstimator(method="partition", partitioner="stump", n_permutations=20)
    estimator.fit(X, y, y_proba=p)
    return [estimator.grouping_loss_, *(region.harm for region in estimator.regions_)]


def numbers_of_recalibrator(X, y, p):
    fitted = s.GroupRecalibrator(cv=2).fit(p, y, features=X)
    return [fitted.feature_gain_.estimate, *fitted.predict_proba(p, features=X)[:, 1]]


def numbers_of_report(X, y, p):
    findings = s.CalibrationReport.from_predictions(y, p, X, threshold=0.4).findings
    grouping = findings.grouping
    assert findings.decision.grouping is not None
    return [
        grouping.grouping_loss.estimate,
        grouping.pvalue,
        findings.decision.grouping.estimate,
        *(group.pvalue for group in grouping.named),
    ]


def numbers_of_scorer(X, y, p):
    class Known(DummyClassifier):
        def predict_proba(self, X):
            assert set(type(X).__name__.split()) & {"DataFrame", "ndarray"}
            return np.column_stack([1 - p, p])

    model = Known().fit(X, y)
    return [s.get_scorer("neg_grouping_loss")(model, X, y)]


def numbers_of_improvement(X, y, p):
    improvement = grouping_improvement(y, p, s.GroupRecalibrator(cv=2).fit(p, y, features=X), X)
    return [
        improvement.gain.estimate,
        improvement.grouping_before.estimate,
        improvement.grouping_after.estimate,
    ]


#: Every public name that takes features: its numbers for features, labels and forecasts.
USERS = {
    "GroupingLossEstimator": numbers_of_estimator,
    "GroupingLossEstimator, regions": numbers_of_regions,
    "neg_grouping_loss": numbers_of_scorer,
    "grouping_improvement": numbers_of_improvement,
    "GroupRecalibrator": numbers_of_recalibrator,
    "differences_at_equal_scores": lambda X, y, p: [
        number
        for difference in differences_at_equal_scores(y, p, X, confidence_level=0.5).named
        for number in (difference.pvalue, difference.estimate, difference.n_samples)
    ],
    "decision_regret": lambda X, y, p: [
        s.decision_regret(y, p, threshold=0.4, X=X).grouping.estimate
    ],
    "DecompositionDisplay": lambda X, y, p: [
        s.DecompositionDisplay.from_predictions(y, p, X).terms[0].grouping.estimate
    ],
    "GroupingDisplay": lambda X, y, p: [
        region.mean_outcome
        for region in s.GroupingDisplay.from_predictions(y, p, X, n_bins=3).diagrams[0].regions
    ],
    "CalibrationReport": numbers_of_report,
}


#: Those that compare groups of features know which categories are of one column.
SEARCHES = ("differences_at_equal_scores", "CalibrationReport")


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Columns? of|A column of")
        warnings.filterwarnings("ignore", "The regions hold")
        yield


@pytest.mark.usefixtures("quiet", "few_maps")
@pytest.mark.parametrize("user", USERS)
def test_mixed_columns_give_the_numbers_of_the_usable_ones(user):
    """As encoded by hand, in an array of objects too; and the frame is not changed."""
    frame = mixed()
    y, p = outcome(frame)
    before = frame.copy(deep=True)
    expected = USERS[user](frame.drop(columns=LEFT_OUT), y, p)
    assert len(expected) and np.isfinite(expected).all()
    if user not in SEARCHES:
        np.testing.assert_array_equal(USERS[user](by_hand(frame), y, p), expected)
    np.testing.assert_array_equal(USERS[user](frame, y, p), expected)
    pd.testing.assert_frame_equal(frame, before)
    objects = frame.assign(stage=frame["stage"].astype(str)).to_numpy(dtype=object)
    np.testing.assert_array_equal(USERS[user](objects, y, p), expected)


@pytest.mark.usefixtures("few_maps")
def test_the_report_names_what_is_left_out():
    frame = mixed()
    y, p = outcome(frame)
    report = s.CalibrationReport.from_predictions(y, p, frame.assign(big=np.inf))
    words = (
        "Columns of X are left out: id (text or an identifier, 200 different values), comment "
        "(text or an identifier, 200 different values), tags (lists or other objects), empty (no "
        "value), wave (complex numbers), and 1 more."
    )
    assert report.findings.grouping.left_out == words and words in report._repr_html_()
    assert "left_out" in report.to_dict()["grouping"]
    with pytest.warns(UserWarning, match=r"Columns of X are left out: id \(text or an identifier"):
        encode_features(frame)


def test_encoded_columns_are_those_by_hand():
    frame = mixed()
    expected = by_hand(frame)
    encoded = encode_features(frame, warn=False)
    assert [feature.title for feature in encoded.features] == list(expected)
    np.testing.assert_array_equal(encoded.values, expected.to_numpy())
    assert encode_features(encoded) is encoded
    part = encoded[np.arange(5)]
    assert isinstance(part, EncodedFeatures) and part.shape == (5, expected.shape[1])


def times():
    start = datetime(2024, 3, 1, 12)
    return [start + timedelta(hours=7 * k) for k in range(40)]


#: The same values in several containers; each gives the same numbers.
SAME = {
    "dates": [
        pd.DataFrame({"x": pd.to_datetime(times())}),
        pd.DataFrame({"x": times()}, dtype=object),
        pd.DataFrame({"x": [moment.isoformat(" ") for moment in times()]}),
        pd.DataFrame({"x": pd.to_datetime(times()).tz_localize("America/New_York")}),
        pd.DataFrame({"x": [moment.replace(tzinfo=UTC) for moment in times()]}, dtype=object),
        pd.DataFrame({"x": pd.PeriodIndex(times(), freq="h")}),
        in_arrow(pd.DataFrame({"x": pd.to_datetime(times())})),
        pl.DataFrame({"x": times()}),
        pl.DataFrame({"x": times()}).with_columns(pl.col("x").dt.replace_time_zone("Asia/Tokyo")),
        np.array(times(), dtype="M8[us]")[:, None],
        [[moment] for moment in times()],
    ],
    "whole dates": [
        pd.DataFrame({"x": [date(2024, 1, 1 + k % 28) for k in range(40)]}, dtype=object),
        pl.DataFrame({"x": [date(2024, 1, 1 + k % 28) for k in range(40)]}),
        pd.DataFrame({"x": [f"2024-01-{1 + k % 28:02d}" for k in range(40)]}),
    ],
    "durations": [
        pd.DataFrame({"x": [timedelta(hours=k) for k in range(40)]}),
        pl.DataFrame({"x": [timedelta(hours=k) for k in range(40)]}),
        np.array([timedelta(hours=k) for k in range(40)], dtype=object)[:, None],
    ],
    "times of the day": [
        pd.DataFrame({"x": [time(k % 24, 30) for k in range(40)]}),
        pl.DataFrame({"x": [time(k % 24, 30) for k in range(40)]}),
    ],
    "numbers": [
        pd.DataFrame({"x": pd.array([None, *range(39)], dtype="Int64")}),
        pd.DataFrame({"x": [None, *range(39)]}, dtype=object),
        pl.DataFrame({"x": [None, *range(39)]}),
        in_arrow(pd.DataFrame({"x": [np.nan, *range(39)]}), "double[pyarrow]"),
    ],
    "categories": [
        pd.DataFrame({"x": ["a", "b", None, "b"] * 10}),
        pd.DataFrame({"x": ["a", "b", None, "b"] * 10}).astype("category"),
        pd.DataFrame({"x": pd.array(["a", "b", None, "b"] * 10, dtype="string")}),
        pl.DataFrame({"x": ["a", "b", None, "b"] * 10}),
        pl.DataFrame({"x": ["a", "b", None, "b"] * 10}).cast(pl.Categorical),
        pl.DataFrame({"x": ["a", "b", None, "b"] * 10}).cast(pl.Enum(["a", "b"])),
        np.array(["a", "b", None, "b"] * 10, dtype=object)[:, None],
        [["a"], ["b"], [None], ["b"]] * 10,
    ],
    "truth values": [
        pd.DataFrame({"x": [True, False] * 20}),
        pl.DataFrame({"x": [True, False] * 20}),
        np.array([True, False] * 20)[:, None],
        pd.DataFrame({"x": pd.array([True, False] * 20, dtype="boolean")}),
    ],
    "codes": [
        pd.DataFrame({"x": pd.Categorical([1, 2] * 20)}),
        pd.DataFrame({"x": pd.Categorical([1.0, 2.0] * 20)}),
        pd.DataFrame({"x": ["1", 2] * 20}),
        np.array([["1"], ["2"]] * 20),
    ],
}


@pytest.mark.parametrize("kind", SAME)
def test_containers_give_the_same_numbers(kind):
    tables = [table for table in SAME[kind] if not isinstance(table, Engine)]
    first, *others = (encode_features(table) for table in tables)
    assert len(first) == 40 and len(np.unique(first.values, axis=0)) > 1
    for encoded in others:
        np.testing.assert_array_equal(encoded.values, first.values)
        assert [feature.category for feature in encoded.features] == [
            feature.category for feature in first.features
        ]


def test_what_is_text_and_what_is_a_category():
    """More than half of the samples have a value of their own, or of few samples."""
    rng = np.random.default_rng(0)
    usable = {
        "twice": np.repeat([f"w{k}" for k in range(10)], 20),
        "skewed": np.where(rng.random(N) < 0.6, "none", [f"text {k}" for k in range(N)]),
        "100 sites": np.repeat([f"s{k}" for k in range(20)], 10),
    }
    for values in usable.values():
        assert not FeatureEncoder().fit(pd.DataFrame({"x": values})).left_out
    left_out = {
        "identifiers": [f"P{k}" for k in range(N)],
        "identifiers of six visits": [f"P{k // 6}" for k in range(N)],
        "numbers and text": [k if k % 2 else f"< {k}" for k in range(N)],
        "few rows": ["x", "y", "z", *[None] * (N - 3)],
        "identifiers of 19 digits": 10**18 + np.arange(N),
        "whole numbers beyond floats": [10**30 + k for k in range(N)],
    }
    for values in left_out.values():
        encoder = FeatureEncoder().fit(pd.DataFrame({"x": values, "z": range(N)}))
        assert list(encoder.left_out) == ["x"]
        assert encoder.left_out["x"].startswith("text or an identifier, ")
    encoded = encode_features(pd.DataFrame({"x": ["", "b", None, "b", ""] * 4}))
    assert [feature.title for feature in encoded.features] == ["x = ''", "x = b", "x is missing"]
    np.testing.assert_array_equal(encoded.values[:3], np.eye(3))
    objects = [pd.Series([1]), {"k": 1}, {1}, np.ones(2), object()]
    for value in objects:
        cells = pd.Series([value] * 5, dtype=object)
        assert FeatureEncoder().fit(pd.DataFrame({"x": cells, "z": range(5)})).left_out == {
            "x": "lists or other objects"
        }
    names = [f"c{k:03d}" for k in range(250 + 5) for _ in range(10 + (k >= 5))]
    encoded = encode_features(pd.DataFrame({"x": names})).features
    assert [feature.category for feature in encoded] == sorted(set(names))[5:]


def test_rules_of_times_hold_for_their_members():
    """Rules name the first day, minute or second of a group."""
    n = 120
    frame = pd.DataFrame({
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 100, "D"),
        "minute": pd.Timestamp("2024-03-01 08:00") + pd.to_timedelta(np.arange(n), "min"),
        "year": pd.to_datetime([f"{2000 + k % 4}-01-01" for k in range(n)]),
        "wait": pd.to_timedelta(np.arange(n) * 6, "h"),
    })  # fmt: skip
    frame.loc[:15, "minute"] = pd.NaT
    from skcalib.grouping.differences import form_groups

    groups = form_groups(encode_features(frame), np.ones(n), 10)
    held = {"day": 0, "minute": 0}
    for k, rule in enumerate(groups.rules):
        name, sign, *end = rule.split(" ", 2)
        if name in held and sign in ("<", ">="):
            cut = pd.Timestamp(end[0])
            inside = frame[name] < cut if sign == "<" else frame[name] >= cut
            np.testing.assert_array_equal(groups.member[:, k], inside, rule)
            held[name] += 1
    assert held["day"] == 3 and held["minute"] == 6
    assert "year = 2001-01-01" in groups.rules and "minute is missing" in groups.rules
    assert any(rule.startswith("wait <= ") and rule.endswith(" days") for rule in groups.rules)
    assert all(len(rule.split(" ")) == 3 for rule in groups.rules if rule.startswith("day "))


def test_regions_of_times_and_categories_have_readable_rules():
    n = 1200
    frame = mixed(n)[["age", "site", "day"]]
    y, p = outcome(frame, n)
    names = ("north", "south", "east", "missing")
    for partitioner in ("stump", None):
        estimator = s.GroupingLossEstimator(
            partitioner=partitioner, method="partition", n_permutations=0, n_bins=2
        )
        rules = {region.rule for region in estimator.fit(frame[["day"]], y, y_proba=p).regions_}
        assert all("day >= 2024-" in rule or "day < 2024-" in rule for rule in rules), rules
        rules = {region.rule for region in estimator.fit(frame[["site"]], y, y_proba=p).regions_}
        sites = {f"site {word} {name}" for word in ("=", "is not") for name in names}
        parts = {part for rule in rules for part in rule.split(" and ")}
        assert parts <= {*sites, "site is missing"}
    (region,) = differences_at_equal_scores(y, p, frame[["site"]]).named
    assert region.rule == "site = south"


def test_new_rows_are_read_as_in_fit(quiet):
    """Unseen categories, missing times, other types of the same numbers, and other zones."""
    frame = mixed()
    y, p = outcome(frame)
    frame["at"] = frame["day"].dt.tz_localize("Europe/Berlin")
    fitted = s.GroupRecalibrator(cv=2).fit(p, y, features=frame)
    fitted = pickle.loads(pickle.dumps(fitted))
    expected = fitted.predict_proba(p, features=frame)
    strange_values = frame.assign(
        at=frame["at"].dt.tz_convert("UTC"),
        id="someone",
        tags=None,
        age=frame["age"].astype("Float64"),
        stage=frame["stage"].astype(str),
    )
    np.testing.assert_array_equal(fitted.predict_proba(p, features=strange_values), expected)
    strange = frame.head(3).assign(
        site=["west", None, "south"], day=pd.NaT, at=None, age=[None, 3, 4], stage="9"
    )
    recalibrated = fitted.predict_proba(p[:3], features=strange)
    assert np.isfinite(recalibrated).all()
    for change, words in (
        ({"age": "old"}, "Column age of features had numbers in fit, but now has other values"),
        ({"day": 5.0}, "Column day of features had times in fit, but now has other values"),
        ({"at": frame["day"]}, "times of column 'at' are without a time zone, but were with one"),
        ({"age": np.inf}, "Column age of features contains infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted.predict_proba(p, features=frame.assign(**change))


def test_a_classifier_gets_the_original_features(quiet):
    """Of a recalibrated classifier, and of the scorer above."""
    frame = mixed()
    y, p = outcome(frame)

    class Reading(DummyClassifier):
        def predict_proba(self, X):
            assert list(X.columns) == list(frame.columns) and X["tags"].map(len).eq(2).all()
            return np.column_stack([1 - p, p])[: len(X)]

    model = s.RecalibratedClassifierCV(Reading(), s.GroupRecalibrator(cv=2), cv=2)
    assert model.fit(frame, y).predict_proba(frame).shape == (N, 2)


@pytest.mark.parametrize("user", ["GroupingLossEstimator", "GroupRecalibrator", "decision_regret"])
def test_refusals(user):
    y, p = outcome(mixed())
    names = np.array([f"P{k}" for k in range(N)])
    numbers = np.arange(float(N))
    for X, words in (
        (pd.DataFrame({"id": names}), r"no column that can be used: id \(text or an identifier"),
        (names[:, None], r"no column that can be used: x0 \(text or an identifier"),
        (np.full((N, 2), np.nan), r"no column that can be used: x0 \(no value\), x1 \(no value\)"),
        (csr_array(np.eye(N)), "is sparse: pass dense features"),
        (np.where(numbers == 3, np.inf, numbers)[:, None], "Column x0 of .* contains infinity"),
        (np.zeros((N, 2, 2)), r"must have shape \(n_samples, n_features\), got \(200, 2, 2\)"),
        (np.zeros((N, 0)), "no column that can be used. Pass at least one"),
        (np.ma.masked_equal(np.eye(N), 1), "masked"),
    ):
        with pytest.raises(ValueError, match=words):
            USERS[user](X, y, p)
