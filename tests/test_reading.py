import pickle

import numpy as np
import pandas as pd
import pytest

from skcalib import CalibrationReport
from skcalib.datasets import make_tempered_simplex
from skcalib.reading import read_predictions

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


@pytest.mark.parametrize("prefix", ["", "proba_", "p_"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, data, frame, prefix, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"p.{kind}"
    frame = frame.rename(columns={c: prefix + c for c in CLASSES})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    read = read_predictions(path)
    assert read.labels.tolist() == CLASSES.tolist()
    np.testing.assert_array_equal(read.y_true, CLASSES[data.y])
    np.testing.assert_allclose(read.y_proba, data.y_proba)


def test_table_of_numbers_and_chosen_label_column(tmp_path, data):
    frame = pd.DataFrame(data.y_proba, columns=["0", "1", "2"]).assign(outcome=data.y)
    path = tmp_path / "p.csv"
    frame.to_csv(path, index=False)
    read = read_predictions(path, label_column="outcome")
    assert read.labels.tolist() == ["0", "1", "2"]
    assert set(read.y_true) <= {"0", "1", "2"}


def test_table_with_one_probability(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("y,p\n0,0.2\n1,0.9\n\n1,1e-3\n")
    read = read_predictions(path)
    assert read.y_true.tolist() == [0.0, 1.0, 1.0]
    assert read.y_proba.tolist() == [0.2, 0.9, 1e-3]
    CalibrationReport.from_predictions(read.y_true, read.y_proba)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def test_pickles_are_not_opened(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, y_true=np.array([Trap(), Trap()], dtype=object), y_proba=np.array([0.1, 0.2]))
    with pytest.raises(ValueError, match="holds Python objects in its array 'y_true'"):
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
    assert read.labels.tolist() == ["0", "1", "2"]
    np.testing.assert_allclose(read.y_proba, data.y_proba)
    frame.iloc[::-1].to_csv(path, index_label=name)  # these do not count the rows
    with pytest.raises(ValueError, match="values outside"):
        read_predictions(path)
