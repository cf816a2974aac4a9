"""Files that are damaged, hostile or unusual: one sentence, and no more memory than they need."""

import io
import random
import sys
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


def test_members_that_are_not_needed_are_not_read(tmp_path):
    others = {"notes.txt": b"text", "other.npy": header((10**13,))}
    assert read_predictions(archive(tmp_path / "p.npz", **others)).y_proba.tolist() == [0.25, 0.5]


def test_other_compressions_and_single_arrays_are_refused(tmp_path):
    path = archive(tmp_path / "p.npz", zipfile.ZIP_LZMA)
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


@pytest.mark.parametrize("kind", ["npz", "csv", "pyarrow", "polars"])
def test_damaged_bytes_are_refused_in_one_sentence(tmp_path, monkeypatch, kind):
    rng, p = random.Random(0), np.random.default_rng(0).dirichlet(np.ones(3), 30)
    path = tmp_path / f"p.{'parquet' if kind in ('pyarrow', 'polars') else kind}"
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]
    frame = pl.DataFrame({"y": labels, "a": p[:, 0], "b": p[:, 1], "c": p[:, 2]})
    if kind == "npz":
        np.savez_compressed(path, y_true=labels, y_proba=p, labels=["a", "b", "c"])
    elif kind == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    if kind == "pyarrow":
        pytest.importorskip("pyarrow")
    if kind == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    content, refused = path.read_bytes(), 0
    for _ in range(150):
        path.write_bytes(damaged(content, rng))
        try:
            read_predictions(path)
        except ValueError as error:
            assert str(error).startswith(("p.", "--")) and "\n" not in str(error)
            refused += 1
    assert refused > 50


# --- Tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("y,p\n0,.5\n1\0,.2\n", "p.csv is not a readable text table: it has NUL bytes. Save it in"),
        ("y,p\n0,.5\n".encode("utf-16"), "it is not encoded in UTF-8"),
        ("y,p\n0,.5\n".encode("utf-16-le"), "it has NUL bytes"),
        ('y,p\n0,"0,5"\n', "holds '0,5': write decimals with a point, 0.45 for 0,45."),
        ("y,p\n0,1.000.5\n", "holds '1.000.5'"),
    ],
)
def test_text_of_other_kinds(tmp_path, content, message):
    path = tmp_path / "p.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_predictions(path)


def test_long_whole_numbers_are_different_classes(tmp_path):
    path = tmp_path / "p.csv"
    first, second = 2**53, 2**53 + 1  # equal as floats
    path.write_text(f"y,p_{second}\n{first}.0,0.5\n{second},0.25\n")
    found = read_predictions(path)
    assert found.y_true.tolist() == found.labels.tolist() == [first, second]


def parquet(path, columns, **metadata):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(columns).replace_schema_metadata(metadata or None)
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    return path


@pytest.fixture(params=["pyarrow", "polars"])
def library(request, monkeypatch):
    """Call it once files are written: only one package reads them."""
    return lambda: (
        monkeypatch.setitem(sys.modules, "pyarrow", None) if request.param == "polars" else None
    )


def test_labels_that_are_bytes(tmp_path, library):
    path = parquet(tmp_path / "p.parquet", {"y": [b"\xc3\xa9", b"b"], "p_b": [0.25, 0.5]})
    library()
    assert read_predictions(path).labels.tolist() == ["\u00e9", "b"]


@pytest.mark.parametrize("labels", [[b"\xff", b"b"], [[1], [2]], [{"a": 1}, {"a": 2}]])
def test_labels_that_are_no_labels(tmp_path, library, labels):
    path = parquet(tmp_path / "p.parquet", {"y": labels, "p_b": [0.25, 0.5]})
    library()
    with pytest.raises(ValueError, match="has labels of the type .* in the column 'y': words or"):
        read_predictions(path)


@pytest.mark.parametrize("pandas", ["{no", "[1]", '{"index_columns": 3}', "null"])
def test_metadata_that_pandas_did_not_write(tmp_path, library, pandas):
    path = parquet(tmp_path / "p.parquet", {"y": [0, 1], "p": [0.25, 0.5]}, pandas=pandas)
    library()
    assert read_predictions(path).y_proba.tolist() == [0.25, 0.5]
