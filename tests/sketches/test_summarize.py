"""Sketches by the engine of a frame: the same sums as from arrays, and nothing but sums fetched."""

import sys
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from conftest import processes_of_dask
from engines import polars as pl
from grids import rotated

from skcalib import ForecastSketch, calibration_error, summarize

LABELS = ["bird", "cat", "dog"]


def animals(n_samples=600, seed=0):
    """Columns of probabilities with zeros and ones, text labels, weights with zeros, groups."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(3), n_samples)
    proba[::7] = np.eye(3)[rng.integers(3, size=len(proba[::7]))]
    proba[1::7] = [0.2, 0.4, 0.4]
    code = (proba.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    return {f"p{k}": column for k, column in enumerate(proba.T)} | {
        "animal": np.array(LABELS)[code],
        "sick": code == 1,
        "w": rng.integers(0, 4, n_samples) / 2,
        "site": rng.choice(["north", "south"], n_samples),
        "ward": rng.integers(3, size=n_samples),
    }


def arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


ENGINES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "pyarrow": arrow,
    "duckdb": lambda columns: pytest.importorskip("duckdb").from_arrow(arrow(columns)),
    "dask": lambda columns: pytest.importorskip("dask.dataframe").from_pandas(
        pd.DataFrame(columns), npartitions=3
    ),
}


@pytest.fixture(params=ENGINES)
def make(request):
    """A frame of each engine."""
    return ENGINES[request.param]


def agree(sketch, expected):
    """The same cells and numbers of samples, and the same sums up to rounding."""
    frames = [s.to_frame().drop(columns="group") for s in (sketch, expected)]
    pd.testing.assert_frame_equal(*frames, rtol=1e-12, atol=0)
    assert sketch.n_samples_seen_ == expected.n_samples_seen_
    assert sketch.classes_.tolist() == expected.classes_.tolist()


ANIMALS = {"y_true": "animal", "y_proba": ["p0", "p1", "p2"]}


def of_arrays(columns, rows=slice(None), notion="top_label", weighted=True):
    """The sketch of the columns as arrays."""
    proba = np.column_stack([columns[f"p{k}"] for k in range(3)])[rows]
    weight = columns["w"][rows] if weighted else None
    return ForecastSketch(LABELS, notion=notion).fit(columns["animal"][rows], proba, weight)


def test_several_classes(make):
    frame = make(columns := animals())
    for notion in ("top_label", "classwise"):
        summarized = summarize(frame, sample_weight="w", notion=notion, **ANIMALS)
        expected = of_arrays(columns, notion=notion)
        agree(summarized, expected)
        for options in ({"norm": "l2", "debiased": True, "n_bins": 9}, {"n_bins": 9}):
            first, second = (
                calibration_error(sketch, **options) for sketch in (summarized, expected)
            )
            assert first == pytest.approx(second, rel=1e-10)
    for labels in ([False, True], [True, False]):  # one column of the event
        summarized = summarize(frame, y_true="sick", y_proba="p1", labels=labels)
        agree(summarized, ForecastSketch(labels).fit(columns["sick"], columns["p1"]))
    assert summarize(frame, y_true="sick", y_proba="p1").classes_.tolist() == [False, True]


def test_groups(make):
    frame = make(columns := animals())
    sketches = summarize(frame, by="site", sample_weight="w", **ANIMALS)
    assert sorted(sketches) == ["north", "south"]
    for site, sketch in sketches.items():
        agree(sketch.group(site), of_arrays(columns, columns["site"] == site))
    sketches = summarize(frame, by=["site", "ward"], **ANIMALS)
    assert sorted(sketches) == [(s, w) for s in ("north", "south") for w in range(3)]
    whole = reduce(ForecastSketch.merge, sketches.values())
    assert whole.n_samples_seen_ == 600 and len(whole.groups_) == 6
    again = ForecastSketch.from_bytes(sketches["south", 2].to_bytes())
    agree(again.group(("south", 2)), sketches["south", 2])


def changed(name, row, value, dtype=None):
    columns = animals(50)
    columns[name] = columns[name].astype(dtype or columns[name].dtype)
    columns[name][row] = value
    return columns


FAULTS = [
    (changed("p0", 3, np.nan), "y_proba are missing or outside|y_proba contains NaN"),
    (changed("p0", 3, 1.5), "y_proba are missing or outside|outside \\[0, 1\\]"),
    (changed("p0", 3, -0.1), "y_proba are missing or outside|outside \\[0, 1\\]"),
    (changed("p1", 4, 0.9), "do not sum to 1 within 1e-05|must sum to 1"),
    (changed("w", 5, -1.0), "missing, infinite or negative|finite and not negative"),
    (changed("w", 5, np.inf), "missing, infinite or negative|finite and not negative"),
    (changed("w", slice(None), 0.0), "no rows of positive weight|sums to zero"),
    (changed("animal", 2, "fish", "U5"), "none of the classes"),
]


@pytest.mark.parametrize("fault, make", rotated(range(len(FAULTS)), ENGINES, 3), indirect=["make"])
def test_faults_are_refused(make, fault):
    columns, words = FAULTS[fault]
    with pytest.raises(ValueError, match=words):
        summarize(make(columns), labels=LABELS, sample_weight="w", **ANIMALS)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"y_proba": ["p0", "p1", "p9"]}, "no column 'p9'; its columns are"),
        ({"y_proba": ["p0", "p1"]}, r"'animal' has 3 classes .* but y_proba names 2 column"),
        *(
            ({"by": wrong}, "by must be the name of a column, or a list of diff")
            for wrong in (0, False, [], ["site", "site"], [None])
        ),
    ],
)
def test_names_are_refused(make, names, words):
    with pytest.raises(ValueError, match=words):
        summarize(make(animals(50)), **ANIMALS | names)


def test_without_narwhals(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ValueError, match=r'DataFrame needs narwhals: pip install "skcalib\[frames'):
        summarize(pd.DataFrame(animals()), **ANIMALS)


def test_other_objects_are_refused():
    twice = pd.DataFrame([[0, 0.5, 0.5]], columns=["y", "p", "p"])
    dates = pd.DataFrame({"y": [0, 1], "p": [0.5, 0.5], "d": pd.to_datetime(["2024-01-01"] * 2)})
    missing = pl.DataFrame(changed("animal", 3, None, object), strict=False)
    columns = {"y_true": "y", "y_proba": "p"}
    for frame, names, words in (
        (twice, columns, "'p' 2 times|more than one column 'p'"),
        (dates, columns | {"by": "d"}, "by takes strings and finite numbers only"),
        ({"p": [0.5]}, columns, "frame must be a data frame .* got dict"),
        (missing, ANIMALS, "'animal' has missing values"),
    ):
        with pytest.raises(ValueError, match=words):
            summarize(frame, **names)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # PySpark on pandas 3
def test_spark():
    sql = pytest.importorskip("pyspark.sql")
    columns, builder = animals(), sql.SparkSession.builder.master("local[2]")
    builder = builder.config("spark.ui.enabled", "false")
    for name in ("bindAddress", "host"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    try:
        session = builder.getOrCreate()
    except Exception as error:  # no Java, or an old one
        pytest.skip(f"PySpark does not start: {error}")
    try:
        frame = session.createDataFrame(pd.DataFrame(columns))
        for notion in ("top_label", "classwise"):
            sketch = summarize(frame, notion=notion, sample_weight="w", **ANIMALS)
            agree(sketch, of_arrays(columns, notion=notion))
    finally:
        session.stop()


@pytest.mark.slow
def test_processes_of_dask():
    """Two workers that share nothing: only sums come back."""
    dd = pytest.importorskip("dask.dataframe")
    columns = animals(2000)
    with processes_of_dask() as client:
        assert len(client.nthreads()) == 2
        frame = dd.from_pandas(pd.DataFrame(columns), npartitions=4)
        agree(summarize(frame, **ANIMALS), of_arrays(columns, weighted=False))
