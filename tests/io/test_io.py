"""Labels and the classes of the columns of probabilities, from arrays and from names in tables."""

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
def read(tmp_path):
    """Read a table, whose rows semicolons separate."""

    def read(rows, **options):
        path = tmp_path / "p.csv"
        path.write_text(rows.replace(";", "\n"))
        return read_predictions(path, **options)

    return read


# --- Arrays ---------------------------------------------------------------------------------------


@pytest.fixture
def read_npz(tmp_path):
    def read(event=None, **arrays):
        np.savez(tmp_path / "p.npz", **arrays)
        return read_predictions(tmp_path / "p.npz", event=event)

    return read


@pytest.mark.parametrize("names", [("y_true", "y_proba"), ("ground_truth", "predictions")])
def test_npz(read_npz, data, names):
    read = read_npz(**dict(zip(names, (data.y, data.y_proba.astype(np.float32)), strict=True)))
    np.testing.assert_array_equal(read.y_true, data.y)
    np.testing.assert_array_equal(read.labels, [0, 1, 2])
    np.testing.assert_allclose(read.y_proba, data.y_proba, rtol=1e-6)


def test_npz_that_lacks_a_class_or_names_classes(read_npz, data):
    read = read_npz(y_true=np.minimum(data.y, 1), y_proba=data.y_proba)
    assert read.labels.tolist() == [0, 1, 2]
    read = read_npz(y_true=CLASSES[data.y], y_proba=data.y_proba, labels=CLASSES)
    assert read.labels.tolist() == CLASSES.tolist()
    assert read_npz(y_true=[0, 1], y_proba=[0.1, 0.6]).labels is None


def test_the_event_of_arrays(read_npz):
    words = {"y_true": ["sick", "well"], "y_proba": [0.75, 0.5]}
    assert read_npz("Sick", **words).event == "sick"
    with pytest.raises(ValueError, match=r"--event ill is not a class of p\.npz"):
        read_npz("ill", **words)
    assert read_npz("1", y_true=[0, 0], y_proba=[0.75, 0.5]).event == 1
    assert read_npz("0", y_true=[0, 1], y_proba=np.eye(2)).event == 0


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def test_pickles_are_not_opened(read_npz, tmp_path):
    with pytest.raises(ValueError, match="has Python objects in its array 'y_true'"):
        read_npz(y_true=np.array([Trap(), Trap()], dtype=object), y_proba=np.array([0.1, 0.2]))
    path = tmp_path / "p.npz"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match=r"not a readable \.npz archive"):
        read_predictions(path)


def test_files_that_are_refused(tmp_path, read_npz, data):
    with pytest.raises(ValueError, match=r"absent.npz is not a file\.$"):
        read_predictions(tmp_path / "absent.npz")
    (tmp_path / "p.txt").touch()
    with pytest.raises(ValueError, match=r"^p.txt must end in \.npz, \.csv, \.parquet: write its"):
        read_predictions(tmp_path / "p.txt")
    for arrays, message in [
        ({"y_proba": data.y_proba}, "has no array y_true or ground_truth"),
        ({"y_true": data.y}, "has no array y_proba or predictions"),
        ({"y_true": data.y + 1, "y_proba": data.y_proba}, "labels from 1 to 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_npz(**arrays)


# --- Labels of tables -----------------------------------------------------------------------------


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


def test_labels_as_numpy_writes_them(tmp_path, read, data):
    """Whole numbers with an exponent are numbers; others are no labels."""
    path = tmp_path / "p.csv"
    rows = np.column_stack([data.y, data.y_proba])
    np.savetxt(path, rows, delimiter=",", header="y,p_0,p_1,p_2", comments="")
    found = read_predictions(path)
    np.testing.assert_array_equal(found.y_true, data.y)
    np.testing.assert_array_equal(found.y_proba, data.y_proba)
    assert found.labels.tolist() == [0, 1, 2]
    assert set(read("y,p;-1.0e+00,0.5;1.50e+01,0.25", event="15").y_true) == {-1, 15}
    with pytest.raises(ValueError, match=r"has the label '1.25e\+01'.* words or whole numbers"):
        read("y,p;0.0e+00,0.5;1.25e+01,0.25")


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


# --- One column of probabilities ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p_churn", "P(churn)", "Churn Probability"])
def test_a_single_column_is_the_probability_of_the_class_that_it_names(read, name):
    rows = f"label,{name};churn,0.75;stay,0.25;churn,0.5"
    for event in (None, "churn", "CHURN"):
        found = read(rows, event=event)
        assert found.labels.tolist() == ["stay", "churn"]
        assert found.y_proba.tolist() == [0.75, 0.25, 0.5]
        assert found.event == (event and "churn")
    turned = read(rows, event="stay")
    assert turned.labels.tolist() == ["churn", "stay"] and turned.event == "stay"
    assert turned.y_proba.tolist() == [0.25, 0.75, 0.5]
    # the name decides, whatever the labels of the rows
    rows = f"label,{name};stay,0.75;churn,0.25;stay,0.5"
    assert read(rows).labels.tolist() == ["stay", "churn"]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["p_1", "1", "p", "y_pred_proba", "Score", ""], [0, 1]),
        (["p_0", "prob[0]"], [1, 0]),
    ],
)
def test_single_columns_of_labels_0_and_1(read, names, labels):
    for name in names:
        for y in ("1;0", "1.0;0.0", "1;1"):  # the last lacks a class
            first, second = y.split(";")
            rows = f"y,{name};{first},0.75;{second},0.5"
            found = read(rows)
            assert found.labels.tolist() == labels and found.y_proba.tolist() == [0.75, 0.5]
            assert read(rows, event="1").labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "options", "labels", "proba"),
    [
        ("y,p;-1,0.2;1,0.5", {}, [-1, 1], [0.2, 0.5]),
        ("y,p;True,0.2;False,0.5", {}, ["False", "True"], [0.2, 0.5]),
        ("churn,p_churn;1,0.2;0,0.5", {"label_column": "churn"}, [0, 1], [0.2, 0.5]),
        ("y,p_1;1,0.2;2,0.5", {}, [2, 1], [0.2, 0.5]),
        ("y,p;1,0.2;2,0.5", {"event": "2"}, [1, 2], [0.2, 0.5]),
        ("y,p;sick,0.2;well,0.5", {"event": "Sick"}, ["well", "sick"], [0.2, 0.5]),
        ("y,rf;1,0.2;0,0.5", {"event": "0"}, [1, 0], [0.2, 0.5]),
        ("y,p_sick;sick,0.2", {}, ["not sick", "sick"], [0.2]),
        ("y,p_sick;well,0.2", {"event": "sick"}, ["well", "sick"], [0.2]),
        ("y,p_7;7,0.2", {}, ["not 7", "7"], [0.2]),
        ("y,p_7;7,0.2", {"event": "9"}, ["7", "9"], [0.8]),
        ("y,p;0,0.2;1,0.9;;1,1e-3", {}, [0, 1], [0.2, 0.9, 1e-3]),
    ],
)
def test_single_columns_of_other_labels(read, rows, options, labels, proba):
    found = read(rows, **options)
    assert found.labels.tolist() == labels and found.y_proba.tolist() == proba


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
        ("y,p;0.5,0.2;1,0.5", None, "has the label '0.5' in the column 'y'"),
        # several columns
        ("y,p_a,z;a,0.7,33;b,0.2,44", None, "the column 'z', which is not .*of two classes, one"),
        ("y,p_a,p_b,z;a,0.7,0.3,0.5;b,0.2,0.8,1", None, "the column 'z', which is not"),
        ("y,a,b,z;a,0.7,0.3,0.5;b,0.2,0.8,1", None, "the column 'z', .* that sums to 2"),
        ("y,a,b,c,d;a,0.7,0.3,5,1;b,0.2,0.8,1,2", None, "columns 'c' and 'd' with values .*, whi"),
        ("y,rf_a,rf_b,c;a,0.7,0.3,5;b,0.2,0.8,1", None, "the column 'c'.*, which is not"),
        ("y,p_a,prob_a;a,0.7,0.3;b,0.2,0.8", None, "2 columns for the class 'a'"),
        ("y,c,d;a,0.7,0.3;b,0.2,0.8", None, "label 'a', but no column .* such as 'p_a'"),
    ],
)
def test_columns_that_are_refused(read, rows, event, message):
    with pytest.raises(ValueError, match=message) as error:
        read(rows, event=event)
    assert "\n" not in str(error.value) and "np." not in str(error.value)


@pytest.mark.parametrize("rows", ["y,p_0;0,45;1,60", "y,p_0,p_1;0,45,55;1,30,70"])
@pytest.mark.parametrize("event", [None, "1"])
def test_percentages_are_refused_by_the_report_that_gives_the_advice(read, rows, event):
    found = read(rows, event=event)
    with pytest.raises(ValueError, match=r"value \d\d, outside .*divide by 100"):
        CalibrationReport.from_predictions(
            found.y_true, found.y_proba, labels=found.labels, pos_label=found.event
        )


# --- One column for each class --------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "p_{}", "{} score"])
def test_tables(tmp_path, data, form):
    path = tmp_path / "p.csv"
    table = pd.DataFrame(data.y_proba, columns=[form.format(c) for c in CLASSES])
    table.insert(1, "label", CLASSES[data.y])
    table.to_csv(path, index=False)
    read = read_predictions(path)
    assert read.labels.tolist() == CLASSES.tolist()
    np.testing.assert_array_equal(read.y_true, CLASSES[data.y])
    np.testing.assert_array_equal(read.y_proba, data.y_proba)


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        ("p_churn,p_stay", ["churn", "stay"]),
        ("P_STAY,P_CHURN", ["stay", "churn"]),
        ("churn_p,proba_stay", ["churn", "stay"]),  # each names a class, though not alike
        ("stay,churn", ["stay", "churn"]),
    ],
)
def test_columns_follow_their_names(read, header, labels):
    rows = f"label,{header};churn,0.75,0.25;stay,0.5,0.5"
    assert read(rows).labels.tolist() == labels
    found = read(rows, event="Churn")
    assert found.event == "churn" and found.labels.tolist() == labels
    assert found.in_order_of(np.array(["churn", "stay"])) is found  # reports put the event last


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ("y,p_a,p_B,p_c;a,0.2,0.5,0.3;c,0.1,0.4,0.5", ["a", "B", "c"]),
        ("y,c0,c1,c10;0,0.2,0.5,0.3;10,0.1,0.4,0.5", [0, 1, 10]),
        ("y,p_0,p_x;0,0.2,0.8;0,0.1,0.9", ["0", "x"]),
    ],
)
def test_classes_that_no_row_has(read, rows, labels):
    assert read(rows).labels.tolist() == labels


def test_another_order_of_classes(read):
    found = read("y,p_a,p_b;a,0.25,0.75;b,0.5,0.5")
    turned = found.in_order_of(np.array(["b", "a"]))
    assert turned.labels.tolist() == ["b", "a"]
    np.testing.assert_array_equal(turned.y_proba, found.y_proba[:, ::-1])
    assert found.in_order_of(None) is found and found.in_order_of(np.array(["a", "z"])) is found
    one = read("y,p_a;a,0.25;b,0.5").in_order_of(np.array(["a", "b"]))
    assert one.labels.tolist() == ["a", "b"] and one.y_proba.tolist() == [0.75, 0.5]
