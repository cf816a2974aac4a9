"""Tables with a fault that has a name: no line of names, a missing code, a total, a confidence."""

import gzip

import numpy as np
import pandas as pd
import pytest

from skcalib.__main__ import main
from skcalib.io import read_predictions

RNG = np.random.default_rng(0)
N = 100
P = np.round(RNG.uniform(0.02, 0.98, N), 3)
Y = (RNG.random(N) < P).astype(int)
WORDS = np.where(Y == 1, "churn", "stay")
ANIMALS = np.resize(["ant", "bee", "cat"], N)
ROWS = "\n".join(f"{y},{p}" for y, p in zip(Y, P, strict=True))
SHARES = "ant,.2,.3,.5\nbee,.2,.3,.5\ncat,.2,.3,.5\n"


def lines(*columns):
    return "\n".join(",".join(map(str, row)) for row in zip(*columns, strict=True)) + "\n"


#: Text of a table without a line of names, and a part of the message.
WITHOUT_NAMES = {
    "a label and a share": (f"1,1.0\n{ROWS}", r"has numbers in its first line \(1, 1\.0\)"),
    "two labels": (f"0,1\n{ROWS}", r"numbers in its first line \(0, 1\), .*a line of names"),
    "two columns of one name": (f"1,1\n{ROWS}", r"numbers in its first line \(1, 1\)"),
    "any row": (ROWS, "has numbers in its first line"),
    "each class": (lines(Y, 1 - P, P), "has numbers in its first line"),
    "words": (f"churn,0.93\n{lines(WORDS, P)}", r"the values of a row in its first line \(churn"),
    "names of rows": (lines([f"u{k}" for k in range(N)], P, Y), "the values of a row in its first"),
}


@pytest.mark.parametrize("form", ["csv", "gz", "report", "monitor", "second"])
@pytest.mark.parametrize(("text", "words"), WITHOUT_NAMES.values(), ids=WITHOUT_NAMES)
def test_tables_without_names(text, words, form, tmp_path, capsys):
    """No row becomes a line of names in silence."""
    path = tmp_path / ("f.csv.gz" if form == "gz" else "f.csv")
    path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    if form in ("csv", "gz"):
        with pytest.raises(ValueError, match=words):
            read_predictions(path)
        return
    state = ["--state", str(tmp_path / "state")]
    if form == "second":
        (tmp_path / "e.csv").write_text(f"y,p\n{ROWS}\n")
        assert main(["monitor", str(tmp_path / "e.csv"), *state]) == 0
    command = ["report", str(path)] if form == "report" else ["monitor", str(path), *state]
    assert main(command) == 2
    assert pd.Series(capsys.readouterr().err).str.contains(words, regex=True).all()


def test_names_that_are_numbers(tmp_path):
    """They are names beside words, after an index, if one of them is requested, and in parquet."""
    path = tmp_path / "f.csv"
    for names in ("label,0,1", "label,0.0,1.0"):
        path.write_text(f"{names}\n{lines(Y, 1 - P, P)}")
        assert len(read_predictions(path).y_true) == N
    chosen = {"label_column": "0", "score_column": "1"}
    path.write_text(f",0,1\n{lines(range(N), Y, P)}")
    assert len(read_predictions(path, **chosen).y_true) == N
    path.write_text(f"0,1\n{ROWS}\n")
    predictions = read_predictions(path, **chosen)
    assert len(predictions.y_true) == N and np.array_equal(predictions.y_proba, P)
    pytest.importorskip("pyarrow")
    pd.DataFrame({"0": Y, "1": P}).to_parquet(tmp_path / "f.parquet")
    assert len(read_predictions(tmp_path / "f.parquet", **chosen).y_true) == N


MISSING = "looks like a missing value: leave out its rows"
#: Text of a table, and a part of the message.
FAULTY = {
    **{
        f"a label {code}": (f"y,p\n{ROWS}\n{code},0.5\n", f"'{code}' {MISSING}")
        for code in ("NA", "nan", "missing", "-999", "9", "-1")
    },
    "a label ?": (f"y,p\n{ROWS}\n?,0.5\n", rf"'\?' {MISSING}"),
    "a total": (f"y,p\n{ROWS}\nTotal,0.5\n", "'Total' looks like the row of a total: leave it out"),
    "spellings": (
        f"y,p\n{lines(np.resize(['True', 'TRUE', 'False'], N), P)}",
        "'TRUE' and 'True' differ in letter case only: write each class in one way",
    ),
    "only spellings": (
        f"y,p\n{lines(np.resize(['Yes', 'yes'], N), P)}",
        "'Yes' and 'yes' differ in letter case only",
    ),
    "three labels": (f"y,p\n{ROWS}\n2,0.5\n", "one column for each class is expected, such as"),
    "ten labels": (f"y,p\n{lines(np.arange(N) % 10, P)}", "one column for each class is expected"),
    "a missing class": (f"y,p_ant,p_bee,p_cat\n{SHARES}NA,.2,.3,.5\n", f"'NA' {MISSING}"),
    "a total of classes": (f"y,p_ant,p_bee,p_cat\n{SHARES}All,.2,.3,.5\n", "'All' looks like the"),
    "a class in capitals": (
        f"y,p_ant,p_bee,p_cat\n{SHARES}ANT,.2,.3,.5\n",
        "'ANT' and 'ant' differ in letter case only",
    ),
    "names again": (f"y,p\n{ROWS}\ny,p\n{ROWS}\n", "repeats its line of column names in row 102:"),
    "names late": (f"y,p\n{f'{ROWS}{chr(10)}' * 30} y ,p\n", "column names in row 3002: remove"),
}


@pytest.mark.parametrize(("text", "words"), FAULTY.values(), ids=FAULTY)
def test_labels_that_are_no_classes(text, words, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_predictions(path)
    assert str(caught.value).count("f.csv") == 1


CONFIDENCE = np.maximum(P, 1 - P)
PREDICTED, SPELLED = (P > 0.5).astype(int), np.where(P > 0.5, "churn", "stay")
RIGHT = (PREDICTED == Y).astype(int)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("label,pred,confidence", (Y, PREDICTED, CONFIDENCE)),
        ("label,confidence", (Y, CONFIDENCE)),
        ("y_true,predicted_label,score", (Y, PREDICTED, CONFIDENCE)),
        ("label,prediction,conf", (WORDS, SPELLED, CONFIDENCE)),
        ("label,pred,confidence", (ANIMALS, ANIMALS[::-1], CONFIDENCE)),
        ("label,pred,max_prob", (ANIMALS, ANIMALS[::-1], CONFIDENCE)),
    ],
    ids=["two", "without predictions", "score", "words", "three", "maximum"],
)
def test_confidences(names, columns, tmp_path):
    """The probability of the predicted class is never read as that of one class."""
    path = tmp_path / "f.csv"
    path.write_text(f"{names}\n{lines(*columns)}")
    with pytest.raises(ValueError, match="the probability of the predicted class: .* labels that"):
        read_predictions(path)
    if columns[0] is Y:
        column = names.rpartition(",")[2]
        assert np.array_equal(read_predictions(path, score_column=column).y_proba, CONFIDENCE)


@pytest.mark.parametrize(
    ("names", "columns", "proba"),
    [
        ("label,score", (Y, P), P),
        ("y_true,score", (RIGHT, CONFIDENCE), CONFIDENCE),
        ("label,pred,p_1,confidence", (Y, PREDICTED, P, CONFIDENCE), P),
        ("label,pred,score", (Y, PREDICTED, P), P),  # with values below one half
    ],
    ids=["low", "correct", "beside a probability", "score"],
)
def test_probabilities_beside_predictions(names, columns, proba, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(f"{names}\n{lines(*columns)}")
    assert np.array_equal(read_predictions(path).y_proba, proba)


def test_the_calibration_of_a_confidence(tmp_path):
    """As the message advises, by names that are asked for."""
    path = tmp_path / "f.csv"
    path.write_text(f"label,confidence\n{lines(Y, P)}")  # with values below one half
    with pytest.raises(ValueError, match="its probability, 'confidence': pass score_column="):
        read_predictions(path)
    path.write_text(f"correct,confidence\n{lines(RIGHT, CONFIDENCE)}")
    for chosen, words in (
        ({}, "label_column='correct'"),
        ({"label_column": "correct"}, "score_column='confidence'"),
    ):
        with pytest.raises(ValueError, match=f": pass {words}\\.$"):
            read_predictions(path, **chosen)
    read = read_predictions(path, label_column="correct", score_column="confidence")
    assert np.array_equal(read.y_true, RIGHT) and np.array_equal(read.y_proba, CONFIDENCE)
