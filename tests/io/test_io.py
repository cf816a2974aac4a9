"""Labels and the classes of the columns of probabilities; damaged, hostile or unusual files."""

import io
import pickle
import random
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import Trap
from engines import polars as pl

from skcalib.__main__ import main
from skcalib.datasets import make_tempered_simplex
from skcalib.io import read_predictions

CLASSES = np.array(["ape", "bee", "cat"])


@pytest.fixture
def read(tmp_path):
    """Read a table, whose rows semicolons separate."""

    def read(rows, **options):
        path = tmp_path / "p.csv"
        path.write_text(rows.replace(";", "\n"))
        return read_predictions(path, **options)

    return read


P = np.array([[0.5, 0.25, 0.25], [0.125, 0.5, 0.375]])


def test_npz(tmp_path):
    for arrays, event, labels, read_event in (
        ({"y_true": [0, 2], "y_proba": P}, None, [0, 1, 2], None),
        ({"ground_truth": [0, 1], "predictions": P.astype(np.float32)}, None, [0, 1, 2], None),
        ({"y_true": CLASSES[[0, 2]], "y_proba": P, "labels": CLASSES}, None, [*CLASSES], None),
        ({"y_true": [0, 1], "y_proba": P[:, 0]}, None, None, None),
        ({"y_true": [0, 0], "y_proba": P[:, 0]}, "1", None, 1),
        ({"y_true": [0, 1], "y_proba": np.eye(2)}, "0", [0, 1], 0),
        ({"y_true": ["sick", "well"], "y_proba": P[:, 0]}, "Sick", None, "sick"),
    ):
        np.savez(tmp_path / "p.npz", **arrays)
        read = read_predictions(tmp_path / "p.npz", event=event)
        y_true, y_proba = list(arrays.values())[:2]
        assert read.y_true.tolist() == list(y_true) and read.y_proba.tolist() == y_proba.tolist()
        assert labels == (read.labels if read.labels is None else read.labels.tolist())
        assert read.event == read_event
    with pytest.raises(ValueError, match="--event ill is not a class of p.npz"):
        read_predictions(tmp_path / "p.npz", event="ill")


def test_the_column_of_labels_is_chosen(read):
    for name in ("CHURN", "churn"):
        predictions = read("churn,p_churn;1,0.2;0,0.5", label_column=name)
        assert predictions.labels.tolist() == [0, 1] and predictions.y_true.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"no column 'result'; its columns are churn, p_churn\.$"):
        read("churn,p_churn;1,0.2;0,0.5", label_column="result")


def test_labels_as_numpy_writes_them_and_row_numbers_of_pandas(tmp_path, read):
    """Whole numbers with an exponent are numbers; others are no labels."""
    sample, path = make_tempered_simplex(50, 3, random_state=0), tmp_path / "p.csv"
    rows = np.column_stack([sample.y, sample.y_proba])
    np.savetxt(path, rows, delimiter=",", header="y,p_0,p_1,p_2", comments="")
    predictions = read_predictions(path)
    np.testing.assert_array_equal(predictions.y_true, sample.y)
    np.testing.assert_array_equal(predictions.y_proba, sample.y_proba)
    assert predictions.labels.tolist() == [0, 1, 2]
    assert set(read("y,p;-1.0e+00,0.5;1.50e+01,0.25", event="15").y_true) == {-1, 15}
    with pytest.raises(ValueError, match=r"has the label '1.25e\+01'.* words or whole numbers"):
        read("y,p;0.0e+00,0.5;1.25e+01,0.25")
    frame = pd.DataFrame(sample.y_proba, columns=["0", "1", "2"]).assign(y=sample.y)
    for name in ("", "Unnamed: 0"):
        frame.to_csv(path, index_label=name)
        predictions = read_predictions(path)
        assert predictions.labels.tolist() == [0, 1, 2]
        np.testing.assert_allclose(predictions.y_proba, sample.y_proba)
        frame.iloc[::-1].to_csv(path, index_label=name)  # these do not count the rows
        with pytest.raises(ValueError, match=r"a first column .* does not number the rows from 0"):
            read_predictions(path)


CHURN = "y,{};churn,0.75;stay,0.25"
BOTH = "y,{};churn,0.75,0.25;stay,0.5,0.5"
BITS = "y,{};1,0.75;0,0.25"


@pytest.mark.parametrize(
    ("rows", "event", "labels", "proba"),
    [
        # one column: that of the last class
        (CHURN.format("p_churn"), None, ["stay", "churn"], [0.75, 0.25]),
        (CHURN.format("P(churn)"), "churn", ["stay", "churn"], [0.75, 0.25]),
        (CHURN.format("Churn Probability"), "CHURN", ["stay", "churn"], [0.75, 0.25]),
        (CHURN.format("p_churn"), "stay", ["churn", "stay"], [0.25, 0.75]),
        (CHURN.format("p_stay"), None, ["churn", "stay"], [0.75, 0.25]),
        (CHURN.format("p"), "Stay", ["churn", "stay"], [0.75, 0.25]),
        *((BITS.format(name), None, [0, 1], [0.75, 0.25]) for name in ("p_1", "Score", "")),
        (BITS.format("p"), "1", [0, 1], [0.75, 0.25]),
        (BITS.format("prob[0]"), None, [1, 0], [0.75, 0.25]),
        (BITS.format("p_0"), "1", [0, 1], [0.25, 0.75]),
        (BITS.format("rf_p"), "0", [1, 0], [0.75, 0.25]),
        *((BITS.format(name), None, [0, 1], [0.75, 0.25]) for name in ("rf_p", "p_churn")),
        ("y,rf_p;yes,0.75;no,0.25", None, ["no", "yes"], [0.75, 0.25]),
        ("y,p;1.0,0.2;0.0,0.9;;1.0,1e-3", None, [0, 1], [0.2, 0.9, 1e-3]),
        ("y,p;-1,0.2;1,0.5", None, [-1, 1], [0.2, 0.5]),
        ("y,p;True,0.2;False,0.5", None, ["False", "True"], [0.2, 0.5]),
        ("y,p_1;1,0.2;2,0.5", None, [2, 1], [0.2, 0.5]),
        ("y,p;1,0.2;2,0.5", "2", [1, 2], [0.2, 0.5]),
        # the rows lack a class
        ("y,p_1;1,0.2", None, [0, 1], [0.2]),
        ("y,p_0;1,0.2", None, [1, 0], [0.2]),
        ("y,p_sick;sick,0.2", None, ["not sick", "sick"], [0.2]),
        ("y,p_sick;well,0.2", "sick", ["well", "sick"], [0.2]),
        ("y,p_7;7,0.2", None, ["not 7", "7"], [0.2]),
        ("y,p_7;7,0.2", "9", ["7", "9"], [0.8]),
        ("y,p_a,p_B,p_c;a,0.2,0.5,0.3;c,0.1,0.4,0.5", None, ["a", "B", "c"], None),
        ("y,c0,c1,c10;0,0.2,0.5,0.3;10,0.1,0.4,0.5", None, [0, 1, 10], None),
        ("y,p_0,p_x;0,0.2,0.8;0,0.1,0.9", None, ["0", "x"], None),
        # several columns keep their order
        (BOTH.format("churn,stay"), None, ["churn", "stay"], [[0.75, 0.25], [0.5, 0.5]]),
        (BOTH.format("P_STAY,P_CHURN"), "Churn", ["stay", "churn"], [[0.75, 0.25], [0.5, 0.5]]),
        (BOTH.format("churn_p,proba_stay"), None, ["churn", "stay"], [[0.75, 0.25], [0.5, 0.5]]),
        ("c score,y,a score,b score;.2,a,.5,.3", None, ["c", "a", "b"], [[0.2, 0.5, 0.3]]),
    ],
)
def test_names_decide(read, rows, event, labels, proba):
    predictions = read(rows, event=event)
    assert predictions.labels.tolist() == labels
    assert proba is None or predictions.y_proba.tolist() == proba
    assert str(predictions.event).lower() == str(event).lower()


REFUSED = [
    ("y,p;sick,0.2;well,0.5", None, "does not name its class .*: rename it 'p_sick' or"),
    ("y,p;1,0.2;2,0.5", None, "or choose its class: pass event='1' or event='2'"),
    ("y,p_not_sick;sick,0.2;well,0.5", "sick", "does not say clearly whether"),
    ("y,score_0;1,0.2;0,0.5", None, "does not say clearly whether .* of 0 or of 1: rename it"),
    ("y,rf_sick;sick,0.2;well,0.5", "well", "does not say clearly"),
    ("y,p;sick,0.2;well,0.5", "ill", "--event ill is not a class of p.csv: .* sick and well"),
    ("y,p;a,0.2;b,0.5;c,0.5", None, "3 labels .a, b and c., but one column .* such as 'p_a'"),
    ("y,p_a,p_b,p_c;a,0.2,0.5,0.3", "a", "--event is for two classes, but p.csv has 3"),
    ("y,p_sick;well,0.2", None, "only the label 'well'.* name the other class with --event"),
    ("y,p;0.5,0.2;1,0.5", None, "has the label '0.5' in the column 'y'"),
    # several columns
    ("y,p_a,p_b,z;a,0.7,0.5,0.5;b,0.2,0.8,1", None, "the column 'z', which is not"),
    ("y,p_a,p_b,rf_score;a,0.7,0.3,0.5;b,0.2,0.8,1", None, "the column 'rf_score', which is not"),
    ("y,a,b,z;a,0.7,0.5,0.5;b,0.2,0.8,1", None, "the column 'z', .* that sums to 2"),
    ("y,p_a,p_b,prob_a;a,0.7,0.5,0.3;b,0.2,0.8,0.9", None, "two columns for the class 'a'"),
    ("y,c,d;a,0.7,0.3;b,0.2,0.8;e,.5,.5", None, "label 'a', but no column .* such as 'p_a'"),
    ("y,p_a,prob_a;a,0.7,0.3;b,0.2,0.8", None, "score_column='p_a' or score_column='prob_a'"),
    ("y,c,d;a,0.7,0.3;b,0.2,0.8", None, "score_column='c' or score_column='d'"),
    *(
        (BITS.format(name), None, f"a column that may be its probability, '{name}': pass score_col")
        for name in ("1", "rf")
    ),
]


def test_columns_that_are_refused(read):
    for rows, event, message in REFUSED:
        with pytest.raises(ValueError, match=message) as error:
            read(rows, event=event)
        assert "\n" not in str(error.value) and "np." not in str(error.value)


def test_another_order_of_classes(read):
    predictions = read("y,p_a,p_b;a,0.25,0.75;b,0.5,0.5")
    turned = predictions.in_order_of(np.array(["b", "a"]))
    assert turned.labels.tolist() == ["b", "a"]
    np.testing.assert_array_equal(turned.y_proba, predictions.y_proba[:, ::-1])
    assert (
        predictions.in_order_of(None) is predictions
        and predictions.in_order_of(np.array(["a", "z"])) is predictions
    )
    chosen = read("y,p_a,p_b;a,0.25,0.75;b,0.5,0.5", event="a")
    assert chosen.in_order_of(np.array(["b", "a"])) is chosen  # reports put the event last
    single = read("y,p_a;a,0.25;b,0.5").in_order_of(np.array(["a", "b"]))
    assert single.labels.tolist() == ["a", "b"] and single.y_proba.tolist() == [0.75, 0.5]


def header(shape, dtype="<f8"):
    """The header of an array of that shape, without its values."""
    file = io.BytesIO()
    content = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, content)
    return file.getvalue()


def array(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def archive(path, compression=zipfile.ZIP_STORED, **members):
    """Write an archive; members without data are arrays that are in order."""
    usual = {"y_true.npy": array([0, 1]), "y_proba.npy": array([0.25, 0.5])}
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in {**usual, **members}.items():
            if content is not None:
                file.writestr(name, content)
    return path


MEMBERS = [
    ({"y_true.npy": None, "y_true": b"0101"}, "has a member 'y_true' that is not an array"),
    ({"y_true": b"0101"}, "has two arrays 'y_true': keep one"),
    ({"y_proba.npy": header((10**13,))}, "is damaged: the header of its array 'y_proba' announces"),
    ({"y_proba.npy": header((10**10, 0, 5)) + b"x"}, "is damaged"),
    ({"y_proba.npy": header((-1,))}, "is damaged"),
    ({"y_true.npy": header((10**13,), "<U0")}, "has values of the type <U0 in its array 'y_true'"),
    ({"y_true.npy": header((2,), [("a", "<i8")]) + bytes(16)}, "has values of the type .*'y_true'"),
    ({"y_proba.npy": array([0.25, 0.5])[:-3]}, "is damaged"),
    ({"y_proba.npy": array([0.25, 0.5])[:20]}, r"is not a readable \.npz archive"),
    ({"y_proba.npy": b""}, r"is not a readable \.npz archive"),
    ({"y_true.npy": array(1)}, "has a single number in place of labels or probabilities"),
    ({"y_true.npy": None}, "p.npz has no array y_true or ground_truth; its arrays: y_proba."),
    ({"y_proba.npy": None}, "p.npz has no array y_proba or predictions"),
    (
        {"y_true.npy": array([1, 3]), "y_proba.npy": array(P)},
        "p.npz has 3 columns of .* labels from 1 to 3",
    ),
]


@pytest.mark.parametrize(("members", "message"), MEMBERS)
def test_archives_that_are_refused(tmp_path, members, message, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of zipfile on the same name twice
        path = archive(tmp_path / "p.npz", **members)
    tracemalloc.start()
    with pytest.raises(ValueError, match=message) as error:
        read_predictions(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22 and "\n" not in str(error.value)
    tracemalloc.stop()
    assert main(["report", str(path), "--out", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_other_members_compressions_single_arrays_and_pickles(tmp_path):
    """Members that are not needed are not read, and pickles are not opened."""
    others = {"notes.txt": b"text", "other.npy": header((10**13,))}
    path = archive(tmp_path / "p.npz", **others)
    assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]
    archive(path, zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match="in a compression other than deflate"):
        read_predictions(path)
    for content in (array([1.0]), pickle.dumps(Trap())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a readable \.npz archive"):
            read_predictions(path)


def damaged(content, rng):
    """Content that is cut, or in which bytes are changed."""
    content = bytearray(content)
    if rng.random() < 0.3:
        return bytes(content[: rng.randrange(len(content))])
    for _ in range(rng.choice([1, 2, 20])):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_damaged_bytes_are_refused_in_one_sentence(tmp_path, kind):
    rng, p = random.Random(0), np.random.default_rng(0).dirichlet(np.ones(3), 30)
    path, labels = tmp_path / f"p.{kind}", np.array(["a", "b", "c"])[np.arange(30) % 3]
    frame = pl.DataFrame({"y": labels, "a": p[:, 0], "b": p[:, 1], "c": p[:, 2]})
    if kind == "npz":
        np.savez_compressed(path, y_true=labels, y_proba=p, labels=["a", "b", "c"])
    elif kind == "csv":
        frame.write_csv(path)
    else:
        pytest.importorskip("pyarrow")
        frame.write_parquet(path, row_group_size=10)
    content, refused = path.read_bytes(), 0
    for _ in range(150):
        path.write_bytes(damaged(content, rng))
        try:
            read_predictions(path)
        except ValueError as error:
            assert str(error).startswith(("p.", "--")) and "\n" not in str(error)
            refused += 1
    assert refused > 50


def test_parquet_that_announces_other_rows_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "p.parquet"
    pl.DataFrame({"y": [0, 1] * 50, "p": [0.5] * 100}).write_parquet(path)
    content = path.read_bytes()
    metadata = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    place = content.index(b"\xc8\x01", metadata)  # 100, the number of rows of the file
    path.write_bytes(content[:place] + b"\xca" + content[place + 1 :])
    with pytest.raises(ValueError, match=r"^p.parquet is damaged: it announces 101 rows and has 1"):
        read_predictions(path)
