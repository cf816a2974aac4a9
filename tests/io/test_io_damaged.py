"""Files that are damaged, hostile or unusual: one sentence, and no more memory than they need."""

import io
import random
import tracemalloc
import warnings
import zipfile

import numpy as np
import polars as pl
import pytest

from skcalib.__main__ import main
from skcalib.io import read_predictions


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
        for name, data in {**usual, **members}.items():
            if data is not None:
                file.writestr(name, data)
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
    ({"y_true.npy": None}, "has no array y_true or ground_truth; its arrays: y_proba."),
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


def test_other_members_compressions_and_single_arrays(tmp_path):
    """Members that are not needed are not read."""
    others = {"notes.txt": b"text", "other.npy": header((10**13,))}
    path = archive(tmp_path / "p.npz", **others)
    assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]
    archive(path, zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match="in a compression other than deflate"):
        read_predictions(path)
    path.write_bytes(array([1.0]))
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
