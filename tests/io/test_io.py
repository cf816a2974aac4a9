import pickle

import numpy as np
import pandas as pd
import pytest

from skcalib import CalibrationReport
from skcalib.datasets import make_tempered_simplex
from skcalib.io import read_predictions

CLASSES = np.array(["ape", "bee", "cat"])


@pytest.fixture
def data():
    return make_tempered_simplex(50, 3, random_state=0)


@pytest.fixture
def frame(data):
    table = pd.DataFrame(data.y_proba, columns=CLASSES)
    table.insert(1, "label", CLASSES[data.y])
    return table


@pytest.mark.parametrize("names", [("y_true", "y_proba"), ("ground_truth", "predictions")])
def test_npz(tmp_path, data, names):
    path = tmp_path / "p.npz"
    np.savez(path, **dict(zip(names, (data.y, data.y_proba.astype(np.float32)), strict=True)))
    read = read_predictions(path)
    np.testing.assert_array_equal(read.y_true, data.y)
    np.testing.assert_array_equal(read.labels, [0, 1, 2])
    np.testing.assert_allclose(read.y_proba, data.y_proba, rtol=1e-6)


def test_npz_that_lacks_a_class_or_names_classes(tmp_path, data):
    path = tmp_path / "p.npz"
    np.savez(path, y_true=np.minimum(data.y, 1), y_proba=data.y_proba)
    assert read_predictions(path).labels.tolist() == [0, 1, 2]
    np.savez(path, y_true=CLASSES[data.y], y_proba=data.y_proba, labels=CLASSES)
    assert read_predictions(path).labels.tolist() == CLASSES.tolist()
    np.savez(path, y_true=np.array([0, 1]), y_proba=np.array([0.1, 0.6]))
    assert read_predictions(path).labels is None


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)


@pytest.mark.parametrize("form", ["{}", "proba_{}", "p_{}", "{}_score", "P({})", "rf {}"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, data, frame, form, kind):
    path = tmp_path / f"p.{kind}"
    write(frame.rename(columns={c: form.format(c) for c in CLASSES}), path)
    read = read_predictions(path)
    assert read.labels.tolist() == CLASSES.tolist()
    np.testing.assert_array_equal(read.y_true, CLASSES[data.y])
    np.testing.assert_allclose(read.y_proba, data.y_proba)


def test_table_of_numbers_and_chosen_label_column(tmp_path, data):
    frame = pd.DataFrame(data.y_proba, columns=["0", "1", "2"]).assign(outcome=data.y)
    path = tmp_path / "p.csv"
    frame.to_csv(path, index=False)
    read = read_predictions(path, label_column="outcome")
    assert read.labels.tolist() == [0, 1, 2]
    assert set(read.y_true) <= {0, 1, 2}
    frame.columns = ["ape", "bee", "cat", "outcome"]
    frame.outcome = CLASSES[data.y]
    frame.to_csv(path, index=False)
    assert read_predictions(path, label_column="OUTCOME").labels.tolist() == CLASSES.tolist()
    with pytest.raises(ValueError, match=r"no column 'result'; its columns are ape, bee, cat"):
        read_predictions(path, label_column="result")


def test_labels_as_numpy_writes_them(tmp_path, data):
    """Whole numbers with an exponent are numbers; others are no labels."""
    path = tmp_path / "p.csv"
    rows = np.column_stack([data.y, data.y_proba])
    np.savetxt(path, rows, delimiter=",", header="y,p_0,p_1,p_2", comments="")
    read = read_predictions(path)
    np.testing.assert_array_equal(read.y_true, data.y)
    np.testing.assert_array_equal(read.y_proba, data.y_proba)
    assert read.labels.tolist() == [0, 1, 2]
    path.write_text("y,p\n-1.0e+00,0.5\n1.50e+01,0.25\n")
    assert set(read_predictions(path, event="15").y_true) == {-1, 15}
    path.write_text("y,p\n0.0e+00,0.5\n1.25e+01,0.25\n")
    with pytest.raises(ValueError, match=r"has the label '1.25e\+01'.* words or whole numbers"):
        read_predictions(path)


def test_table_with_one_probability(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("y,p\n0,0.2\n1,0.9\n\n1,1e-3\n")
    read = read_predictions(path)
    assert read.y_true.tolist() == [0.0, 1.0, 1.0]
    assert read.y_proba.tolist() == [0.2, 0.9, 1e-3]
    CalibrationReport.from_predictions(read.y_true, read.y_proba)


SINGLE = [
    *(
        "p_churn",
        "churn",
        "proba_churn",
        "prob_churn",
        "Churn",
        "P_CHURN",
        "p(churn)",
        "churn_proba",
    ),
    *("Churn Probability", "predChurn"),
]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", SINGLE)
def test_a_single_column_is_the_probability_of_the_class_that_it_names(tmp_path, name, kind):
    path = tmp_path / f"p.{kind}"
    frame = pd.DataFrame({"label": ["churn", "stay", "churn"], name: [0.75, 0.25, 0.5]})
    write(frame, path)
    for event in (None, "churn", "CHURN"):
        read = read_predictions(path, event=event)
        assert read.labels.tolist() == ["stay", "churn"]
        assert read.y_proba.tolist() == [0.75, 0.25, 0.5]
        assert read.event == (event and "churn")
    turned = read_predictions(path, event="stay")
    assert turned.labels.tolist() == ["churn", "stay"] and turned.event == "stay"
    assert turned.y_proba.tolist() == [0.25, 0.75, 0.5]
    frame.label = ["stay", "churn", "stay"]  # the name decides, whatever the labels of the rows
    write(frame, path)
    assert read_predictions(path).labels.tolist() == ["stay", "churn"]


def single(tmp_path, rows, **options):
    path = tmp_path / "p.csv"
    path.write_text(rows.replace(";", "\n"))
    read = read_predictions(path, **options)
    return read.labels.tolist(), read.y_proba.tolist()


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        *((name, [0, 1]) for name in ("p_1", "proba_1", "p1", "score_1", "1", "P(Y=1)")),
        *((name, [0, 1]) for name in ("p", "y_proba", "y_pred_proba", "Score", "positive", "")),
        *((name, [1, 0]) for name in ("p_0", "p0", "proba_0", "prob[0]")),
    ],
)
def test_single_columns_of_labels_0_and_1(tmp_path, name, labels):
    for y in ("1,0", "1.0,0.0"):
        first, second = y.split(",")
        rows = f"y,{name};{first},0.75;{second},0.5"
        assert single(tmp_path, rows) == (labels, [0.75, 0.5])
        assert single(tmp_path, rows, event="1")[0] == [0, 1]
    one = single(tmp_path, f"y,{name};1,0.75;1,0.5")  # a class that no row has
    assert one[0] == labels


def test_single_columns_of_other_labels(tmp_path):
    assert single(tmp_path, "y,p;-1,0.2;1,0.5")[0] == [-1, 1]
    assert single(tmp_path, "y,p;True,0.2;False,0.5")[0] == ["False", "True"]
    assert single(tmp_path, "churn,p_churn;1,0.2;0,0.5", label_column="churn")[0] == [0, 1]
    assert single(tmp_path, "y,p_1;1,0.2;2,0.5")[0] == [2, 1]
    assert single(tmp_path, "y,p;1,0.2;2,0.5", event="2")[0] == [1, 2]
    assert single(tmp_path, "y,p;sick,0.2;well,0.5", event="Sick") == (["well", "sick"], [0.2, 0.5])
    assert single(tmp_path, "y,rf;1,0.2;0,0.5", event="0") == ([1, 0], [0.2, 0.5])
    assert single(tmp_path, "y,p_sick;sick,0.2")[0] == ["not sick", "sick"]
    assert single(tmp_path, "y,p_sick;well,0.2", event="sick") == (["well", "sick"], [0.2])
    assert single(tmp_path, "y,p_7;7,0.2")[0] == ["not 7", "7"]
    assert single(tmp_path, "y,p_7;7,0.2", event="9") == (["7", "9"], [0.8])


@pytest.mark.parametrize(
    ("rows", "event", "message"),
    [
        ("y,p;sick,0.2;well,0.5", None, "does not name its class .*: rename it 'p_sick' or"),
        ("y,p;1,0.2;2,0.5", None, "or choose its class with --event 1 or --event 2"),
        ("y,rf;1,0.2;0,0.5", None, "'rf', which names no class .classes: 0 and 1.: rename it"),
        ("y,p_churn;1,0.2;0,0.5", None, "'p_churn', which names no class"),
        ("y,psick;sick,0.2;well,0.5", None, "'psick', which names no class"),
        ("y,p_not_sick;sick,0.2;well,0.5", "sick", "named after the opposite of a class"),
        ("y,1-p;0,0.2;1,0.5", "1", "named after the opposite of a class"),
        ("y,score_0;1,0.2;0,0.5", None, "does not say clearly whether .* of 0 or of 1: rename it"),
        ("y,0;1,0.2;0,0.5", "1", "does not say clearly"),
        ("y,p_2;1,0.2;0,0.5", None, "does not say clearly"),
        ("y,rf_sick;sick,0.2;well,0.5", "well", "does not say clearly"),
        ("y,p;sick,0.2;well,0.5", "ill", "--event ill is not a class of p.csv: .* sick and well"),
        ("y,p;a,0.2;b,0.5;c,0.5", None, "3 labels .a, b and c., but one column .* such as 'p_a'"),
        ("y,p_a,p_b,p_c;a,0.2,0.5,0.3", "a", "--event is for two classes, but p.csv has 3"),
        ("y,p_sick;well,0.2", None, "only the label 'well'.* name the other class with --event"),
        ("y,p;0,45%;1,50%", None, "column 'p' holds '45%': write 0.45 for 45 %"),
        ("y,p;0.5,0.2;1,0.5", None, "has the label '0.5' in the column 'y'"),
        ("y,p,p;0,0.2,0.8", None, "two columns named 'p'"),
    ],
)
def test_single_columns_that_are_refused(tmp_path, rows, event, message):
    with pytest.raises(ValueError, match=message) as error:
        single(tmp_path, rows, event=event)
    assert "\n" not in str(error.value) and "np." not in str(error.value)


def test_percentages_are_refused_by_the_report_that_gives_the_advice(tmp_path):
    path = tmp_path / "p.csv"
    for rows in ("y,p_0;0,45;1,60", "y,p_0,p_1;0,45,55;1,30,70"):
        path.write_text(rows.replace(";", "\n"))
        for event in (None, "1"):
            read = read_predictions(path, event=event)
            with pytest.raises(ValueError, match=r"value \d\d, outside .*divide by 100"):
                CalibrationReport.from_predictions(
                    read.y_true, read.y_proba, labels=read.labels, pos_label=read.event
                )


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        ("p_churn,p_stay", ["churn", "stay"]),
        ("P_STAY,P_CHURN", ["stay", "churn"]),
        ("churn_p,proba_stay", ["churn", "stay"]),  # each names a class, though not alike
        ("stay,churn", ["stay", "churn"]),
    ],
)
def test_columns_follow_their_names(tmp_path, header, labels):
    rows = f"label,{header};churn,0.75,0.25;stay,0.5,0.5"
    assert single(tmp_path, rows)[0] == labels
    path = tmp_path / "p.csv"
    read = read_predictions(path, event="Churn")
    assert read.event == "churn" and read.labels.tolist() == labels
    same = read.in_order_of(np.array(["churn", "stay"]))
    assert same is read  # from_predictions puts the event last


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "p_churn,age;churn,0.7,33;stay,0.2,44",
            "the column 'age', which is not .*of two classes, one is enough",
        ),
        ("p_churn,p_stay,z;churn,0.7,0.3,0.5;stay,0.2,0.8,1", "the column 'z', which is not"),
        ("churn,stay,z;churn,0.7,0.3,0.5;stay,0.2,0.8,1", "the column 'z', .* that sums to 2"),
        (
            "churn,stay,a,b;churn,0.7,0.3,5,1;stay,0.2,0.8,1,2",
            "columns 'a' and 'b' with values .*, which are not named after labels",
        ),
        ("rf_churn,rf_stay,a;churn,0.7,0.3,5;stay,0.2,0.8,1", "the column 'a'.*, which is not"),
        ("p_churn,prob_churn;churn,0.7,0.3;stay,0.2,0.8", "2 columns for the class 'churn'"),
        ("a,b;churn,0.7,0.3;stay,0.2,0.8", "label 'churn', but no column .* such as 'p_churn'"),
    ],
)
def test_columns_that_are_no_classes_are_named(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        single(tmp_path, f"label,{rows}")


def test_classes_that_no_row_has(tmp_path):
    rows = "y,p_a,p_B,p_c;a,0.2,0.5,0.3;c,0.1,0.4,0.5"
    assert single(tmp_path, rows)[0] == ["a", "B", "c"]
    assert single(tmp_path, "y,c0,c1,c10;0,0.2,0.5,0.3;10,0.1,0.4,0.5")[0] == [0, 1, 10]
    assert single(tmp_path, "y,p_0,p_x;0,0.2,0.8;0,0.1,0.9")[0] == ["0", "x"]


def test_another_order_of_classes(tmp_path):
    rows = "y,p_a,p_b;a,0.25,0.75;b,0.5,0.5"
    single(tmp_path, rows)
    read = read_predictions(tmp_path / "p.csv")
    turned = read.in_order_of(np.array(["b", "a"]))
    assert turned.labels.tolist() == ["b", "a"]
    np.testing.assert_array_equal(turned.y_proba, read.y_proba[:, ::-1])
    assert read.in_order_of(None) is read and read.in_order_of(np.array(["a", "z"])) is read
    single(tmp_path, "y,p_a;a,0.25;b,0.5")
    one = read_predictions(tmp_path / "p.csv").in_order_of(np.array(["a", "b"]))
    assert one.labels.tolist() == ["a", "b"] and one.y_proba.tolist() == [0.75, 0.5]


def test_the_event_of_arrays(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, y_true=["sick", "well"], y_proba=[0.75, 0.5])
    assert read_predictions(path, event="Sick").event == "sick"
    with pytest.raises(ValueError, match=r"--event ill is not a class of p\.npz"):
        read_predictions(path, event="ill")
    np.savez(path, y_true=[0, 0], y_proba=[0.75, 0.5])
    assert read_predictions(path, event="1").event == 1
    np.savez(path, y_true=[0, 1], y_proba=np.eye(2))
    assert read_predictions(path, event="0").event == 0


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def test_pickles_are_not_opened(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, y_true=np.array([Trap(), Trap()], dtype=object), y_proba=np.array([0.1, 0.2]))
    with pytest.raises(ValueError, match="has Python objects in its array 'y_true'"):
        read_predictions(path)
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match=r"not a readable \.npz archive"):
        read_predictions(path)


def test_errors(tmp_path, data, frame):
    def refuse(name, message, content=None, **arrays):
        path = tmp_path / name
        if arrays:
            np.savez(path, **arrays)
        elif content is not None:
            path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            read_predictions(path)
        assert "\n" not in str(error.value)

    refuse("absent.npz", "is not a file")
    refuse("p.txt", r"must end in \.npz, \.csv, \.parquet", b"")
    refuse("p.npz", "has no array y_true or ground_truth", y_proba=data.y_proba)
    refuse("p.npz", "has no array y_proba or predictions", y_true=data.y)
    refuse("p.npz", "labels from 1 to 3", y_true=data.y + 1, y_proba=data.y_proba)
    refuse("p.csv", "at least one row", b"y,p\n")
    refuse("p.csv", "row 3 has 1 cells", b"y,p\n0,0.1\n1\n")
    refuse("p.csv", "no column of labels", b"a,b\n0,0.1\n")
    refuse("p.csv", "must hold numbers in every column but 'y'", b"y,p\n0,high\n")
    refuse("p.csv", "no column of probabilities", b"y\n0\n")
    refuse("p.csv", "has the label 'dog', but no column", b"y,ape,bee\ndog,0.5,0.5\n")
    refuse("p.csv", "not a readable text table", b"\xff\xfe\x00y,p\n")
    refuse("p.parquet", "not a readable parquet file", b"no parquet")


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_row_numbers_of_pandas_are_left_out(tmp_path, data, name):
    frame = pd.DataFrame(data.y_proba, columns=["0", "1", "2"]).assign(y=data.y)
    path = tmp_path / "p.csv"
    frame.to_csv(path, index_label=name)
    read = read_predictions(path)
    assert read.labels.tolist() == [0, 1, 2]
    np.testing.assert_allclose(read.y_proba, data.y_proba)
    frame.iloc[::-1].to_csv(path, index_label=name)  # these do not count the rows
    with pytest.raises(ValueError, match=r"a first column .* that does not number the rows from 0"):
        read_predictions(path)
