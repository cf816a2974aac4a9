"""Tables from files: results depend neither on the packages installed nor on blocks."""

import random
import sys
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skcalib.io import read_predictions

HIDDEN = {"pandas": (), "polars": ("pandas",), "numpy": ("pandas", "polars")}


def hide(monkeypatch, *names):
    """Make packages look as if they were not installed."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture(params=HIDDEN)
def parser(request, monkeypatch):
    """Each package that parses text, where those before it are missing."""
    hide(monkeypatch, *HIDDEN[request.param])
    return request.param


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "p.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return read_predictions(path, **options)

    return read


def result(read, content, **options):
    """Content of the file, or the error message."""
    try:
        found = read(content, **options)
    except ValueError as error:
        assert "\n" not in str(error)
        return str(error)
    return found.y_true.tolist(), found.y_proba.tolist(), found.labels.tolist()


PLAIN = (["a", "b"], [0.25, 0.5], ["a", "b"])
TABLES = {
    "plain": ("y,p_b\na,0.25\nb,0.5\n", PLAIN),
    "no end of the last line": ("y,p_b\na,0.25\nb,0.5", PLAIN),
    "CRLF": ("y,p_b\r\na,0.25\r\nb,0.5\r\n", PLAIN),
    "CR": ("y,p_b\ra,0.25\rb,0.5\r", PLAIN),
    "BOM": ("\ufeffy,p_b\na,0.25\nb,0.5\n", PLAIN),
    "BOM and quotes": ('\ufeff"y","p_b"\n"a","0.25"\n"b","0.5"\n', PLAIN),
    "blanks": (" y , p_b\n a,0.25 \n\n   \nb ,\t0.5\n\n", PLAIN),
    "no-break space": ("y,p_b\na\u00a0,\u00a00.25\nb,0.5\n", PLAIN),
    "blank lines above the names": ("\n\ny,p_b\na,0.25\nb,0.5\n", PLAIN),
    "comma in quotes": ('y,"p_b,c"\n"a,a",0.25\n"b,c",0.5\n', (["a,a", "b,c"], [0.25, 0.5])),
    "line end in quotes": (
        'y,"p_b\nc"\n"a\na",0.25\n"b\nc",0.5\n',
        (["a\na", "b\nc"], [0.25, 0.5]),
    ),
    "quotes in quotes": ('y,"p_""b"""\na,0.25\n"""b""",0.5\n', (["a", '"b"'], [0.25, 0.5])),
    "quote in a cell": ('y,p_b\n5" a,0.25\nb,0.5\n', (['5" a', "b"], [0.25, 0.5])),
    "words for missing values": ("y,p_null\nNA,0.25\nnull,0.5\n", (["NA", "null"], [0.25, 0.5])),
    "True and False": ("y,p_True\nTrue,1\nFalse,0\n", (["True", "False"], [1, 0])),
    "zeros in front": ("y,p_007\n1,0.25\n007,0.5\n", (["1", "007"], [0.25, 0.5])),
    "umlauts": ("y,p_ü\nä,0.25\nü,0.5\n", (["ä", "ü"], [0.25, 0.5])),
    "digits": ("y,p\n0,0.30000000000000004\n1,5e-324\n", ([0, 1], [0.1 + 0.2, 5e-324])),
    "underscore": ("y,p\n0,1_0e-2\n1,+.5\n", ([0, 1], [0.1, 0.5])),
    "row numbers": (",y,p\n0,0,0.25\n1,1,0.5\n", ([0, 1], [0.25, 0.5])),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(read, parser, name):
    content, expected = TABLES[name]
    assert result(read, content)[: len(expected)] == expected


MESSAGES = [
    ("", "p.csv must have a line of column names and at least one row."),
    ("\n \n", "p.csv must have a line of column names and at least one row."),
    ("y,p\n\n", "p.csv must have a line of column names and at least one row."),
    ("y,p\n0,0.1\n\n1\n", "p.csv has 2 columns, but row 3 has 1 cells."),
    ("y,p\n0,0.1,2\n1\n", "p.csv has 2 columns, but row 2 has 3 cells."),
    ("y,p\n0,0.1\n1,0.2,\n", "p.csv has 2 columns, but row 3 has 3 cells."),
    (
        "y,p\n0,0.1\n1,\n",
        "p.csv has an empty cell in row 3, column 'p': fill it, or leave out the row.",
    ),
    (
        'y,p\n0,0.1\n1,0.2\n" ",0.2\n',
        "p.csv has an empty cell in row 4, column 'y': fill it, or leave out the row.",
    ),
    (
        "y,p\n0,0.1\n1,high\n",
        "p.csv must hold numbers in every column but 'y', and the column 'p' holds 'high': if it "
        "is a feature, name it with --features.",
    ),
    (
        "y,p\n0,True\n1,False\n",
        "p.csv must hold numbers in every column but 'y', and the column 'p' holds 'True': if it "
        "is a feature, name it with --features.",
    ),
    (
        f"y,p\n0,0.1\n1,{'x' * 100}\n",
        "p.csv must hold numbers in every column but 'y', and the column 'p' holds "
        f"'{'x' * 60}...': if it is a feature, name it with --features.",
    ),
    (
        "y,p\n0,0.5\n1,45%\n",
        "p.csv must hold numbers in every column but 'y', and the column 'p' holds '45%': write "
        "0.45 for 45 %.",
    ),
    (
        b"y,p\n\xe4,0.5\nb,0.1\n",
        "p.csv is not a readable text table: it is not encoded in UTF-8. Save it in this encoding.",
    ),
    (
        f"y,p_b\na,0.1\n\n{'b' * 100_000},0.2\n",
        "p.csv has a cell of 100,000 characters in row 3, column 'y': labels and features have at "
        "most 1,000. Shorten it, or close its quotes.",
    ),
    (
        f'y,p_b\na,0.1\n"b,0.2\n{"a,0.1" * 30_000}',
        "p.csv is not a readable text table: field larger than field limit (131072)",
    ),
]


@pytest.mark.parametrize(("content", "message"), MESSAGES)
def test_messages(read, parser, content, message):
    assert result(read, content) == message


def random_table(rng):
    """A table in which records do not end where lines end, and the place of a defect."""
    labels = rng.choice([["a", "b"], ['"a"', "b"], ['"a\nx"', '"b,c"'], ["0", "1"], ['a"x', "é"]])
    names = ["p_" + label.strip('"') for label in labels]
    rows = [["y", *(f'"{name}"' if name.count('"') == 0 else name for name in names)]]
    for _ in range(rng.randint(1, 40)):
        p = rng.choice(["0.5", "0.25", " 0.5", '"1"', "0.30000000000000004"])
        rows.append([rng.choice(labels), p, rng.choice(["0", "1e-3", "0.5 "])])
    if rng.random() < 0.3:
        rows[-1][-1] = rng.choice(["", "x", "0.1,0.2", "45%", "nan"])
    ends = rng.choice([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\n\n"]])
    return "".join(",".join(row) + rng.choice(ends) for row in rows).encode("utf-8")


def test_blocks_have_no_effect(read, parser, monkeypatch):
    rng = random.Random(0)
    for _ in range(40):
        content = random_table(rng)
        monkeypatch.setattr("skcalib.io._csv.BLOCK", 2**22)
        monkeypatch.setattr("skcalib.io._csv._CHUNK", 10_000)
        whole = result(read, content)
        for block in (1, 20, 100):
            monkeypatch.setattr("skcalib.io._csv.BLOCK", block)
            monkeypatch.setattr("skcalib.io._csv._CHUNK", block)
            np.testing.assert_equal(result(read, content), whole)


def test_a_line_without_end_is_not_read_to_its_end(read, monkeypatch):
    monkeypatch.setattr("skcalib.io._csv._LINE", 1000)
    monkeypatch.setattr("skcalib.io._csv.BLOCK", 100)
    message = "p.csv has a line of more than 1,000 characters: a text table with one line"
    for content in ("y" * 5000, "y,p\n" + "0" * 5000):
        assert result(read, content).startswith(message)


def peak_memory(call):
    tracemalloc.start()
    try:
        found = call()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_the_result_and_one_block(read, parser, monkeypatch):
    read(TABLES["plain"][0])  # imports
    monkeypatch.setattr("skcalib.io._csv.BLOCK", 2**16)
    rows = [f"{k % 3},0.{k % 7 + 1}2345678901,0.2345678901,0.3456789012\n" for k in range(60_000)]
    content = ("y,p_0,p_1,p_2\n" + "".join(rows)).encode()
    found, peak = peak_memory(lambda: read(content))
    assert len(found.y_true) == 60_000
    assert peak < 1.5 * (found.y_true.nbytes + found.y_proba.nbytes) + 40 * 2**16


def test_long_cells_need_little_memory(read, parser):
    read(TABLES["plain"][0])
    long = "b" * 100_000
    content = "y,p_b,note\n" + "a,0.25,x\nb,0.5,y\n" * 10_000
    for row in (f"{long},0.5,x\n", f"a,0.5,{long}\n"):
        found, peak = peak_memory(partial(result, read, content + row, features=["note"]))
        assert "has a cell of 100,000 characters in row 20002, column" in found
        assert peak < 50 * 2**20
    content = "y,p_a\n" + f"a,0.25\n{'b' * 1000},0.5\n" * 1000
    found = read(content)
    assert found.y_true.dtype == object and found.labels.tolist() == ["b" * 1000, "a"]


# --- Features -------------------------------------------------------------------------------------


FEATURES = "y,p,age,sex,note\n0,0.25,33,f,7\n1,0.5,,,x\n0,0.75,1e1,m,\n"


def test_features_are_numbers_or_categories(read, parser):
    if parser == "numpy":
        with pytest.raises(ValueError, match="features that are text, which need pandas or polars"):
            read(FEATURES, features=["sex", "age", "note"])
        found = read("y,p,age\n0,0.25,33\n1,0.5,\n0,0.75,1e1\n", features=["age"])
        np.testing.assert_array_equal(found.features, [[33], [np.nan], [10]])
        return
    found = read(FEATURES, features=("sex", "AGE", "note"))
    assert type(found.features) is (pd.DataFrame if parser == "pandas" else pl.DataFrame)
    assert list(found.features.columns) == ["sex", "age", "note"]
    np.testing.assert_array_equal(found.features["age"], [33, np.nan, 10])
    for name, expected in (("sex", ["f", None, "m"]), ("note", ["7", "x", None])):
        values = found.features[name]
        values = values.to_list() if parser == "polars" else values.astype(object).tolist()
        assert [None if value != value else value for value in values] == expected
    assert found.y_proba.tolist() == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["size"], "p.csv has no column 'size'; its columns are y, p, age, sex, note."),
        (
            ["Y"],
            "The feature 'Y' is the column of labels of p.csv: leave it out of --features, or name "
            "the labels with --label-column.",
        ),
        (
            ["p", "age", "sex", "note"],
            "p.csv has no column of probabilities besides 'y' and the features p, age, sex, note: "
            "leave the probability out of --features.",
        ),
        (["age", "Age"], "The feature 'Age' is named twice: name it once."),
        ("age", "features must be a sequence of names of columns, such as ['age'], got 'age'."),
    ],
)
def test_features_that_are_refused(read, features, message):
    assert result(read, FEATURES, features=features) == message


def test_probabilities_are_no_features(read):
    message = "The feature '{}' of p.csv is the probability of the class 'b': leave it out of"
    for rows, name in (
        ("y,p_a,p_b\na,0.5,0.5\nb,0.2,0.8\n", "p_b"),
        ("y,a,b\na,0.5,0.5\nb,0.2,0.8\n", "b"),
        ("y,rf_a,rf_b\na,0.5,0.5\nb,0.2,0.8\n", "rf_b"),
    ):
        assert result(read, rows, features=[name]).startswith(message.format(name))
    rows = "y,p_1,x1,risk\n0,0.5,1,2\n1,0.2,3,4\n"  # these names are not clearly those of a class
    assert list(read(rows, features=["x1", "risk"]).features.columns) == ["x1", "risk"]


# --- Parquet --------------------------------------------------------------------------------------


@pytest.fixture(params=["pyarrow", "polars"])
def library(request, monkeypatch):
    """Each package that reads parquet."""
    if request.param == "polars":
        hide(monkeypatch, "pyarrow")
    else:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return request.param


def write(path, columns, **options):
    pl.DataFrame(columns).write_parquet(path, **options)
    return path


def test_several_row_groups(tmp_path, library, monkeypatch):
    monkeypatch.setattr("skcalib.io._parquet._BATCH", 7)
    monkeypatch.setattr("skcalib.io._parquet._SLICE", 7)
    rng = np.random.default_rng(0)
    p = rng.random(100)
    columns = {
        "sex": rng.choice(["f", "m"], 100),
        "label": rng.choice(["a", "b"], 100),
        "p_b": p.astype(np.float32),
        "age": [None, *range(99)],
        "flag": p < 0.5,
    }
    path = write(tmp_path / "p.parquet", columns, row_group_size=20)
    found = read_predictions(path, features=["age", "flag", "sex"])
    np.testing.assert_array_equal(found.y_true, columns["label"])
    np.testing.assert_array_equal(found.y_proba, columns["p_b"])
    np.testing.assert_array_equal(found.features["age"], [np.nan, *range(99)])
    assert found.features["sex"].tolist() == columns["sex"].tolist()
    assert (found.features["flag"] == "True").tolist() == columns["flag"].tolist()


@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0], ["0", "1"], [False, True]])
def test_types_of_labels(tmp_path, library, labels):
    columns = {"y": labels, "p": [0.25, 0.5]}
    found = read_predictions(write(tmp_path / "p.parquet", columns))
    expected = ["False", "True"] if labels[1] is True else [0, 1]
    assert found.y_true.tolist() == expected and found.labels.tolist() == expected
    columns["p"] = ["0.25", "0.5"]
    assert read_predictions(write(tmp_path / "p.parquet", columns)).y_proba.tolist() == [0.25, 0.5]


@pytest.mark.parametrize("missing", [(), ("pyarrow",)])
@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_pandas_is_left_out(tmp_path, monkeypatch, missing, name):
    pytest.importorskip("pyarrow", reason="pandas writes the file through pyarrow")
    if name and missing and not hasattr(pl, "read_parquet_metadata"):
        pytest.skip("this version of polars reads no metadata")
    path = tmp_path / "p.parquet"
    index = pd.Index([7, 5], name=name)
    pd.DataFrame({"y": [0, 1], "p": [0.25, 0.5]}, index=index).to_parquet(path)
    hide(monkeypatch, *missing)
    assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": ["a", None], "p_a": [0.1, 0.2]}, "has a missing label in the column 'y'"),
        ({"y": [0.0, np.nan], "p": [0.1, 0.2]}, "has a missing label in the column 'y'"),
        ({"y": [0, 1], "p": ["0.1", "45%"]}, "holds '45%': write 0.45 for 45 %"),
        ({"y": [0, 1], "p": ["0.1", "high"]}, "holds 'high': if it is a feature, name it"),
        ({"y": ["a" * 2000, "b"], "p_b": [0.1, 0.2]}, "has a cell of 2,000 characters in the col"),
        ({"y": [], "p": []}, "p.parquet must have at least one row"),
        ({"q": [0], "p": [0.1]}, "has no column of labels"),
    ],
)
def test_messages_of_parquet(tmp_path, library, columns, message):
    path = write(tmp_path / "p.parquet", columns)
    with pytest.raises(ValueError, match=message):
        read_predictions(path)


def test_dates_are_no_features(tmp_path, library):
    columns = {"y": [0, 1], "p": [0.25, 0.5], "day": pl.Series([1, 2]).cast(pl.Date)}
    path = write(tmp_path / "p.parquet", columns)
    with pytest.raises(ValueError, match="has the feature 'day' of the type .*: numbers, text or"):
        read_predictions(path, features=["day"])


def test_files_that_are_not_parquet(tmp_path, library):
    path = tmp_path / "p.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"p\.parquet is not a readable parquet file"):
        read_predictions(path)


def test_parquet_without_a_reader_is_refused(tmp_path, monkeypatch):
    hide(monkeypatch, "pyarrow", "polars")
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1")
    message = r"^Reading \.parquet needs pyarrow or polars: install one of them, or use \.csv\.$"
    with pytest.raises(ValueError, match=message):
        read_predictions(path)
