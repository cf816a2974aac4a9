"""Tables of text and parquet: what is read, what is refused, and how much memory that needs."""

import re
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from conftest import peak_memory
from engines import polars as pl
from engines import to_parquet

from skcalib.io import read_predictions
from skcalib.io.files import count_table_rows, read_parts


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "p.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return read_predictions(path, **options)

    return read


@pytest.fixture
def parquet(tmp_path):
    """Write columns, and give the path."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(columns, metadata=None, **options):
        path = tmp_path / "p.parquet"
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path, **options)
        return path

    return write


def message_of(call, *arguments, **options):
    with pytest.raises(ValueError) as error:
        call(*arguments, **options)
    return str(error.value)


PLAIN = (["a", "b"], [0.25, 0.5])
LONG = 2**53  # as a float it equals the next number
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
    "columns out of order": ("p_b,y\n0.25,a\n0.5,b\n", PLAIN),
    "comma in quotes": ('y,"p_b,c"\n"a,a",0.25\n"b,c",0.5\n', (["a,a", "b,c"], [0.25, 0.5])),
    "line end in quotes": ('y,"p_b\r\nc"\n"a\na",1\n"b\r\nc",0\n', (["a\na", "b\r\nc"], [1, 0])),
    "quotes in quotes": ('y,"p_""b"""\na,0.25\n"""b""",0.5\n', (["a", '"b"'], [0.25, 0.5])),
    "quote in a cell": ('y,p_b\n5" a,0.25\nb,0.5\n', (['5" a', "b"], [0.25, 0.5])),
    "words for missing values": ("y,p_null\nNA,0.25\nnull,0.5\n", (["NA", "null"], [0.25, 0.5])),
    "True and False": ("y,p_True\nTrue,1\nFalse,0\n", (["True", "False"], [1, 0])),
    "zeros in front": ("y,p_007\n1,0.25\n007,0.5\n", (["1", "007"], [0.25, 0.5])),
    "umlauts": ("y,p_ü\nä,0.25\nü,0.5\n", (["ä", "ü"], [0.25, 0.5])),
    "digits": ("y,p\n0,0.30000000000000004\n1,5e-324\n", ([0, 1], [0.1 + 0.2, 5e-324])),
    "row numbers": (",y,p\n0,0,0.25\n1,1,0.5\n", ([0, 1], [0.25, 0.5])),
    "long labels": (f"y,p_{LONG + 1}\n{LONG}.0,1\n{LONG + 1},0\n", ([LONG, LONG + 1], [1, 0])),
}


@pytest.mark.parametrize("rows_of_a_block", [1, 500])
@pytest.mark.parametrize("name", TABLES)
def test_tables(read, set_sizes, name, rows_of_a_block):
    set_sizes(text_rows=rows_of_a_block)
    content, expected = TABLES[name]
    predictions = read(content)
    assert (predictions.y_true.tolist(), predictions.y_proba.tolist()) == expected


NO_ROW = "must have a line of column names and at least one row."
NO_NUMBER = "must hold numbers in every column but 'y', and the column 'p' holds "
NO_FEATURE = ": if it is a feature, name it with --features."
MESSAGES = [
    ("", NO_ROW),
    ("\n \n", NO_ROW),
    ("y,p\n\n", NO_ROW),
    ("a,b\n0,.1\n", "has a column that may be its labels, 'a': pass label_column='a'."),
    ("a,b\n.2,.1\n", "has no column of labels: none has a name such as y_true, label, target, ou"),
    ("y,vote\n0,1\n", "has no column of probabilities besides 'y': none has a name such as p or"),
    ("Label,LABEL,p\n0,1,.1\n", "has 2 columns that may be its labels, 'Label' or 'LABEL': pass"),
    ("y\n0\n", "has no column of probabilities besides 'y'."),
    ("y,p,p\n0,0.2,0.8\n", "has two columns named 'p': rename one of them."),
    (",y,,p\n0,0,0.2,0.8\n", "has two columns named '': rename one of them."),
    ("y,p\n0,0.1\n\n1\n", "has 2 columns, but row 3 has 1 cells."),
    ("y,p\n0,0.1,2\n1\n", "has 2 columns, but row 2 has 3 cells."),
    ("y,p\n0,0.1\n1,0.2,\n", "has 2 columns, but row 3 has 3 cells."),
    ("y,p\n0,.1\n1,\n", "has an empty cell in row 3, column 'p': fill it, or leave out the row."),
    ('y,p\n0,1\n1,0\n" ",0\n', "has an empty cell in row 4, column 'y': fill it, or leave out the"),
    ("y,p\n0,0.1\n1,high\n", f"{NO_NUMBER}'high'{NO_FEATURE}"),
    ("y,p\n0,0.1\n1,0_5\n", f"{NO_NUMBER}'0_5'{NO_FEATURE}"),
    ("y,p\n0,True\n1,False\n", f"{NO_NUMBER}'True'{NO_FEATURE}"),
    (f"y,p\n0,0.1\n1,{'x' * 100}\n", f"{NO_NUMBER}'{'x' * 60}...'{NO_FEATURE}"),
    ("y,p\n0,0.5\n1,45%\n", f"{NO_NUMBER}'45%': write 0.45 for 45 %."),
    ('y,p\n0,"0,5"\n', f"{NO_NUMBER}'0,5': write decimals with a point, 0.45 for 0,45, or"),
    ("y;p\n0;0,5\n", "is separated by ';', not by ',': pass sep=';' (--sep ';')."),
    ("y\tp\n0\t.5\n", "is separated by '\\t', not by ',': pass sep='\\t' (--sep tab)."),
    (b"y,p\n\xe4,0.5\nb,0.1\n", "is not a readable text table: it is not encoded in UTF-8. Save"),
    ("y,p\n0,.5\n".encode("utf-16"), "is not a readable text table: it is not encoded in UTF-8."),
    ("y,p\n0,.5\n".encode("utf-16-le"), "is not a readable text table: it has NUL bytes. Save it"),
    (
        f"y,p_b\na,0.1\n\n{'b' * 100_000},0.2\n",
        "has a cell of 100,000 characters in row 3, column 'y': labels and features have at most "
        "1,000. Shorten it, or close its quotes.",
    ),
    (
        f'y,p_b\na,0.1\n"b,0.2\n{"a,0.1" * 30_000}',
        "is not a readable text table: field larger than field limit (131072).",
    ),
    (
        ",y,p\n7,0,0.5\n",
        "has a first column without a name that does not number the rows from 0: remove it, or",
    ),
]


@pytest.mark.parametrize(("content", "message"), MESSAGES)
def test_messages(read, content, message):
    said = message_of(read, content)
    assert said.startswith(f"p.csv {message}") and "\n" not in said


@pytest.mark.parametrize("sep", [";", "\t"])
def test_other_separators_and_decimal_marks(tmp_path, sep):
    path = tmp_path / "p.csv"
    rows = ["y;p_b;size;city", "a;0,25;1,5;x,y", "b;0,75;;z", "a;1;2;x,y"]
    path.write_text("\n".join(rows).replace(";", sep))
    predictions = read_predictions(path, sep=sep, decimal=",", features=["size", "city"])
    assert predictions.y_proba.tolist() == [0.25, 0.75, 1] and predictions.y_true.tolist() == [
        "a",
        "b",
        "a",
    ]
    assert predictions.features["size"].tolist()[::2] == [1.5, 2]
    assert predictions.features["city"].tolist() == ["x,y", "z", "x,y"]
    path.write_text(f"y{sep}p\n0{sep}0.5\n")
    with pytest.raises(ValueError, match=r"the column 'p' holds '0\.5'"):
        read_predictions(path, sep=sep, decimal=",")
    for wrong in ({"sep": ";;"}, {"sep": ",", "decimal": ","}, {"decimal": ","}, {"sep": "\n"}):
        with pytest.raises(ValueError, match="sep must be one character but the decimal mark"):
            read_predictions(path, **wrong)
    with pytest.raises(ValueError, match="decimal must be '.' or ',', got ';'"):
        read_predictions(path, sep=sep, decimal=";")


def test_row_numbers_of_messages_count_all_blocks(read, set_sizes):
    set_sizes(text_rows=2)
    ends = {"0": "has 1 cells", "0,": "column 'p'", "b" * 2000 + ",0": "column 'y'"}
    for last, message in ends.items():
        said = message_of(read, "y,p\n" + "0,0.5\n1,0.5\n\n" * 2 + "1,0.5\n" + last)
        assert re.search(f"row 7,? {message}", said)


CHURN = {
    "customer_id": np.arange(60) + 1000,
    "age": np.arange(60) % 40 + 20,
    "sex": np.where(np.arange(60) % 3, "f", "m"),
    "since": [f"2026-01-{k % 28 + 1:02}" for k in range(60)],
    "churned": np.arange(60) % 2,
    "model_score": np.linspace(0.02, 0.98, 60).round(3),
}
CATS = dict(zip(("ant", "bee", "cat"), np.full((3, 60), [[0.25], [0.25], [0.5]]), strict=True))
CATS |= {"species": np.resize(["ant", "bee", "cat"], 60), "size": np.arange(60) / 7}


@pytest.mark.parametrize(
    ("columns", "options", "features", "note"),
    [
        (
            CHURN,
            {},
            ["age", "sex", "since"],
            "labels: churned (by its name); probability of 1: model_score (by its name); features: "
            "age, sex, since; not used: customer_id (another value in each row)",
        ),
        (CHURN, {"features": ["AGE"], "ignore": ["customer_id", "sex", "since"]}, ["age"], None),
        (
            CHURN | {"churned": np.where(CHURN["churned"], "yes", "no")},
            {"event": "no", "ignore": ["since", "customer_id", "age"]},
            ["sex"],
            "labels: churned (by its name); probability of no: model_score (by its name); "
            "features: sex",
        ),
        (
            CHURN | {"member": np.arange(60) % 2, "rate": np.linspace(0, 1, 60)},
            {"label_column": "churned", "score_column": "model_score", "ignore": ["since"]},
            ["age", "sex", "member", "rate"],
            "labels: churned (as requested); probability of 1: model_score (as requested); "
            "features: age, sex, member, rate; not used: customer_id (another value in each row)",
        ),
        (
            CATS,
            {"label_column": "species"},
            ["size"],
            "labels: species (as requested); probabilities: ant, bee, cat (by their names); "
            "features: size",
        ),
    ],
)
def test_values_show_what_a_column_is(tmp_path, parquet, columns, options, features, note):
    paths = [tmp_path / "p.csv", parquet({k: list(v) for k, v in columns.items()})]
    pd.DataFrame(columns).to_csv(paths[0], index=False)
    for path in paths:
        predictions = read_predictions(path, **options)
        assert list(predictions.features.columns) == features
        assert note is None or predictions.note == note
        label = "species" if "species" in columns else "churned"
        assert predictions.y_true.tolist() == columns[label].tolist()
        assert len(predictions.to_frame()) == 60
        parts = list(read_parts(path, **{k: v for k, v in options.items() if k != "features"}))
        np.testing.assert_array_equal(parts[0].y_proba, predictions.y_proba)


def test_compressed_tables_and_parts(tmp_path, set_sizes):
    set_sizes(text_rows=7)
    table = pd.DataFrame(CHURN)
    expected = None
    (tmp_path / "folder").mkdir()
    for k in range(3):
        rows = table[20 * k : 20 * (k + 1)]
        rows.to_csv(tmp_path / f"part-{k}.csv.gz", index=False)
        to_parquet(rows, tmp_path / "folder" / f"{k}.parquet")
    names = [f"p.csv{end}" for end in ("", ".gz", ".bz2", ".xz")]
    for name in names:
        table.to_csv(tmp_path / name, index=False)
    for name in (*names, "part-*.csv.gz", "folder"):
        predictions = read_predictions(tmp_path / name)
        expected = predictions.to_frame() if expected is None else expected
        assert predictions.to_frame().equals(expected), name
        assert 40 < count_table_rows(tmp_path / name) < 80
    table[20:].rename(columns={"age": "years"}).to_csv(tmp_path / "part-1.csv.gz", index=False)
    said = message_of(read_predictions, tmp_path / "part-*.csv.gz")
    assert said.startswith("part-1.csv.gz has the columns customer_id, years") and "same" in said
    table[20:21].drop(columns="age").to_csv(tmp_path / "part-1.csv.gz", index=False)
    (tmp_path / "part-2.parquet").touch()
    said = message_of(read_predictions, tmp_path / "part-*")
    assert "stands for 4 files with the endings .csv, .parquet" in said
    for name in names[1:]:
        damaged = (tmp_path / name).read_bytes()[:-20]
        (tmp_path / name).write_bytes(damaged)
        said = message_of(read_predictions, tmp_path / name)
        assert said.startswith(f"{name} is not a readable text table: ")
    (tmp_path / "none").mkdir()
    assert message_of(read_predictions, tmp_path / "none").endswith("in .csv or .parquet.")


N = 80_000


@pytest.fixture(params=["csv", "parquet"])
def large(request, tmp_path, parquet):
    """A table of many rows of a label and a probability."""
    columns = {"y": np.arange(N) % 2, "p_0": np.arange(N) / N}
    if request.param == "parquet":
        return parquet(columns, row_group_size=2000)
    pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
    return tmp_path / "p.csv"


def test_memory_is_twice_that_of_the_result_and_a_block(large, set_sizes):
    """That of parts does not depend on the number of rows."""
    read_predictions(large)  # imports
    predictions, peak = peak_memory(lambda: read_predictions(large, event="1"))
    np.testing.assert_array_equal(predictions.y_proba, 1 - np.arange(N) / N)
    assert peak < 2.1 * (predictions.y_true.nbytes + predictions.y_proba.nbytes) + 2**19
    set_sizes(part_entries=2**13)
    n_rows, peak = peak_memory(lambda: sum(len(part.y_true) for part in read_parts(large)))
    assert n_rows == N and peak < 2**20 < N * 2 * 8


def test_long_cells(read, tmp_path, set_sizes):
    """Labels are in memory once, and a line without end is not read to its end."""
    predictions = read("y,p_a\n" + f"a,0.25\n{'b' * 1000},0.5\n" * 1000)
    assert predictions.y_true.dtype == object and predictions.labels.tolist() == ["b" * 1000, "a"]
    assert len({id(label) for label in predictions.y_true}) == 2
    set_sizes(line_characters=2**18)
    for start in ("y", "y,p\n0"):
        said = message_of(read, start + "0" * 2**24)
        assert said.startswith("p.csv is not a readable text table: field larger than field limit")
        _, peak = peak_memory(lambda: message_of(read_predictions, tmp_path / "p.csv"))
        assert peak < 2**22


FEATURES = "y,p,age,sex,note\n0,0.25,33,f,7\n1,0.5,,,x\n0,0.75,1e1,m,\n"


@pytest.mark.parametrize("missing", [False, True])
def test_features_are_numbers_or_categories(read, monkeypatch, missing):
    """In a frame of pandas, or of polars where pandas is missing."""
    if missing:
        monkeypatch.setitem(sys.modules, "pandas", None)
    predictions = read(FEATURES, features=("sex", "AGE", "note"))
    assert type(predictions.features) is (pl.DataFrame if missing else pd.DataFrame)
    assert list(predictions.features.columns) == ["sex", "age", "note"]
    np.testing.assert_array_equal(predictions.features["age"], [33, np.nan, 10])
    for name, expected in (("sex", ["f", None, "m"]), ("note", ["7", "x", None])):
        values = predictions.features[name]
        values = values.to_list() if missing else values.astype(object).tolist()
        assert [None if value != value else value for value in values] == expected
    assert predictions.y_proba.tolist() == [0.25, 0.5, 0.75]
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    numbers = read("y,age,p\n0,33,0.25\n1,,0.5\n", features=["age"])
    np.testing.assert_array_equal(numbers.features, [[33], [np.nan]])
    said = message_of(read, FEATURES, features=["sex", "age", "note"])
    assert "features that are text, which need pandas or polars" in said


def test_features_that_are_refused(read):
    for features, message in (
        (["size"], "p.csv has no column 'size'; its columns are y, p, age, sex, note."),
        (["Y"], "The feature 'Y' is the column of labels of p.csv: leave it out of --features, or"),
        (
            ["p", "age", "sex", "note"],
            "p.csv has no column of probabilities besides 'y' and the features p, age, sex, note: "
            "leave the probability out of --features.",
        ),
        (["age", "Age"], "The feature 'Age' is named twice: name it once."),
        ("age", "features must be a sequence of names of columns, such as ['age'], got 'age'."),
    ):
        assert message_of(read, FEATURES, features=features).startswith(message)
    for name in ("p_{}", "{}", "rf_{}"):
        a, b = name.format("a"), name.format("b")
        message = f"The feature {b!r} of p.csv is the probability of the class 'b': leave it out of"
        rows = f"y,{a},{b}\na,0.5,0.5\nb,0.2,0.8\n"
        assert message_of(read, rows, features=[b]).startswith(message)
    rows = "y,p_1,x1,risk\n0,0.5,1,2\n1,0.2,3,4\n"  # these names are not clearly those of a class
    assert list(read(rows, features=["x1", "risk"]).features.columns) == ["x1", "risk"]


def test_several_row_groups(parquet, set_sizes):
    set_sizes(parquet_rows=7)
    rng = np.random.default_rng(0)
    p = rng.random(100)
    columns = {
        "sex": rng.choice(["f", "m"], 100),
        "label": rng.choice(["a", "b"], 100),
        "p_b": p.astype(np.float32),
        "age": [None, *range(99)],
        "flag": p < 0.5,
        "zip": ["01234"] * 99 + [None],
    }
    path = parquet(columns, row_group_size=20)
    predictions = read_predictions(path, features=["age", "flag", "sex", "zip"])
    np.testing.assert_array_equal(predictions.y_true, columns["label"])
    np.testing.assert_array_equal(predictions.y_proba, columns["p_b"])
    np.testing.assert_array_equal(predictions.features["age"], [np.nan, *range(99)])
    assert predictions.features["sex"].tolist() == columns["sex"].tolist()
    assert (predictions.features["flag"] == "True").tolist() == columns["flag"].tolist()
    assert predictions.features["zip"].value_counts().to_dict() == {"01234": 99}


@pytest.mark.parametrize("p", [[0.25, 0.5], ["0.25", "0.5"], [Decimal("0.25"), Decimal("0.50")]])
def test_types_of_columns(parquet, p):
    for labels, expected in (
        ([0, 1], [0, 1]),
        ([0.0, 1.0], [0, 1]),
        (["0", "1"], [0, 1]),
        ([LONG, LONG + 1], [LONG, LONG + 1]),
        ([False, True], ["False", "True"]),
        ([b"\xc3\xa9", b"z"], ["\u00e9", "z"]),
        ([Decimal("0.0"), Decimal("1.0")], [0, 1]),
    ):
        predictions = read_predictions(parquet({"y": labels, f"p_{expected[1]}": p}))
        assert predictions.y_true.tolist() == predictions.labels.tolist() == expected
        assert predictions.y_proba.tolist() == [0.25, 0.5]


def test_the_index_of_pandas_is_left_out(tmp_path, parquet):
    columns = {"y": [0, 1], "p": [0.25, 0.5]}
    for name in (None, "id"):
        path = tmp_path / "p.parquet"
        pd.DataFrame(columns, index=pd.Index([7, 5], name=name)).to_parquet(path)
        assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]
    for pandas in ("{no", "[1]", '{"index_columns": 3}', "null"):  # which it did not write
        path = parquet({**columns, "__index_level_0__": [7, 5]}, {"pandas": pandas})
        assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]


def test_a_named_index_is_no_feature(tmp_path):
    pytest.importorskip("pyarrow")
    path, columns = tmp_path / "p.parquet", {"y": [0, 1, 0, 1], "p": [0.25, 0.5, 0.75, 1.0]}
    pd.DataFrame(columns, index=pd.Index([5, 5, 7, 7], name="site")).to_parquet(path)
    with pytest.raises(ValueError, match="has no column 'site'"):
        read_predictions(path, features=["site"])


def test_parts_of_parquet_without_rows(tmp_path):
    """As Spark writes them, first, between and alone."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"y": [0, 1, 0, 1], "p": [0.25, 0.5, 0.75, 1.0]})
    for name, part in (("a", frame[:0]), ("b", frame), ("c", frame[:0]), ("d", frame)):
        part.to_parquet(tmp_path / f"{name}.parquet", index=False)
    predictions = read_predictions(tmp_path)
    assert predictions.y_proba.tolist() == [*frame["p"], *frame["p"]]
    with pytest.raises(ValueError, match="at least one row"):
        read_predictions(tmp_path / "a.parquet")


def test_decimals_of_parquet_are_numbers(parquet):
    amounts = [Decimal("1.5"), None, Decimal("2.0"), Decimal("-3.25")]
    path = parquet({"y": [0, 1, 0, 1], "p": [0.25, 0.5, 0.75, 1.0], "amount": amounts})
    amount = read_predictions(path, features=["amount"]).features["amount"]
    assert amount.dtype.kind == "f"
    np.testing.assert_array_equal(amount, [1.5, np.nan, 2.0, -3.25])


def test_messages_of_parquet(parquet):
    for columns, message in (
        ({"y": ["a", None], "p_a": [0.1, 0.2]}, "has an empty cell in row 2, column 'y': fill it"),
        ({"y": [0, None], "p": [0.1, 0.2]}, "has an empty cell in row 2, column 'y': fill it"),
        ({"y": [0.0, np.nan], "p": [0.1, 0.2]}, "has an empty cell in row 2, column 'y': fill it"),
        ({"y": [0, 1], "p": [0.1, None]}, "has an empty cell in row 2, column 'p': fill it"),
        ({"y": [0, 1], "p": ["0.1", None]}, "has an empty cell in row 2, column 'p': fill it"),
        ({"y": [0, 1], "p": ["0.1", "45%"]}, f"{NO_NUMBER}'45%': write 0.45 for 45 %"),
        ({"y": [0, 1], "p": [date(2026, 1, 1)] * 2}, f"{NO_NUMBER}'2026-01-01'{NO_FEATURE}"),
        ({"y": ["a" * 2000, "b"], "p_b": [0.1, 0.2]}, "has a cell of 2,000 characters in row 1, c"),
        ({"y": [b"\xff", b"b"], "p_b": [0.1, 0.2]}, "is not a readable parquet file: 'utf-8'"),
        ({"y": [[1], [2]], "p_b": [0.1, 0.2]}, "has one column of probabilities, 'p_b', which"),
        ({"y": [], "p": []}, "must have a line of column names and at least one row"),
        ({"q": [0.5], "p": [0.1]}, "has no column of labels"),
    ):
        said = message_of(read_predictions, parquet(columns))
        assert said.startswith(f"p.parquet {message}")


def test_parquet_without_pyarrow(tmp_path, monkeypatch, set_sizes):
    """By polars, in blocks, and an error is told once."""
    polars = pytest.importorskip("polars")
    pytest.importorskip("narwhals")
    path = tmp_path / "p.parquet"
    polars.DataFrame({"y": [0, 1, 0], "p": [0.25, 0.5, 0.75]}).write_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    set_sizes(parquet_rows=2)
    assert read_predictions(path).y_proba.tolist() == [0.25, 0.5, 0.75]
    path.write_bytes(b"PAR1" + b"x" * 20 + b"PAR1")
    said = message_of(read_predictions, path)
    assert said.count("p.parquet is not a readable parquet file: ") == 1


@pytest.mark.parametrize("missing", [["narwhals"], ["pyarrow", "polars"]])
def test_parquet_without_a_library_is_refused(tmp_path, monkeypatch, missing):
    for library in missing:
        monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "p.parquet").write_bytes(b"PAR1")
    assert message_of(read_predictions, tmp_path / "p.parquet") == (
        'Reading .parquet needs narwhals, and pyarrow or polars: pip install "skcalib[parquet]"'
        ", or save the table as .csv."
    )
