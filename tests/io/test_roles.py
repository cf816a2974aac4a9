"""Which column of a table is the label, and which the probability: by name, or refused."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

from skcalib.__main__ import main
from skcalib.io import read_predictions
from skcalib.io.files import read_parts

N = 60
FIRST = 2000  # rows whose values show what a column is, as documented
_RNG = np.random.default_rng(0)


def two(first, second):
    """Two values, in another order for each call."""
    return np.where(_RNG.random(N) < 0.4, second, first)


P = np.round(_RNG.uniform(0.05, 0.95, N), 3)
Q = np.round(_RNG.uniform(0.05, 0.95, N), 3)
AGE = _RNG.integers(20, 60, N)
VIP, FLAG, BITS = two("False", "True"), two(0, 1), two(0, 1)
CHURN, SEX = two("stay", "churn"), two("m", "f")
THREE = np.resize(["ant", "bee", "cat"], N)
SHARES = np.round(_RNG.dirichlet([1, 1, 1], N), 6)
SHARES[:, 2] = 1 - SHARES[:, 0] - SHARES[:, 1]
P0, P1, P2 = SHARES.T
DIGIT = np.resize([0, 1, 2], N)
EACH = {"ant": SHARES[:, 0], "bee": SHARES[:, 1], "cat": SHARES[:, 2]}

#: Columns, and what is taken: label, probabilities, class of a single column, reasons.
TAKEN = {
    "a name among flags": (
        {"age": AGE, "vip": VIP, "churned": FLAG, "score": P},
        ("churned", "score", 1, "by its name"),
    ),
    "a name after the flags": (
        {"smoker": BITS, "vip": VIP, "score": P, "died": FLAG},
        ("died", "score", 1, "by its name"),
    ),
    "a name of words": (
        {"sex": SEX, "p_churn": P, "vip": VIP, "churn": CHURN},
        ("churn", "p_churn", "churn", "by its name"),
    ),
    "a prefix and camel case": (
        {"vip": VIP, "isFraud": FLAG, "fraudScore": P},
        ("isFraud", "fraudScore", 1, "by its name"),
    ),
    "a suffix": (
        {"vip": VIP, "default_flag": two("no", "yes"), "default_score": P},
        ("default_flag", "default_score", "yes", "by its name"),
    ),
    "words of time": (
        {"SEX": two(1, 2), "default.payment.next.month": FLAG, "p": P},
        ("default.payment.next.month", "p", 1, "by its name"),
    ),
    "y_true beside another outcome": (
        {"default": BITS, "y_true": FLAG, "y_pred_proba": P},
        ("y_true", "y_pred_proba", 1, "by its name"),
    ),
    "an outcome that never happened": (
        {"vip": VIP, "churned": np.zeros(N, int), "score": P},
        ("churned", "score", 1, "by its name"),
    ),
    "a coordinate called y": (
        {"x": Q * 9, "y": P * 7, "churned": FLAG, "score": P},
        ("churned", "score", 1, "by its name"),
    ),
    "a decision beside the label": (
        {"outcome": FLAG, "prediction": BITS, "score": P},
        ("outcome", "score", 1, "by its name"),
    ),
    "the truth in capitals": (
        {"GroundTruth": FLAG, "fold": BITS, "Score": P},
        ("GroundTruth", "Score", 1, "by its name"),
    ),
    "what happened": (
        {"vip": VIP, "actual": FLAG, "predicted": P},
        ("actual", "predicted", 1, "by its name"),
    ),
    "a share beside the score": (
        {"churned": FLAG, "utilization": Q, "score": P},
        ("churned", "score", 1, "by its name"),
    ),
    "votes of 0 and 1": (
        {"churned": FLAG, "score": BITS},
        ("churned", "score", 1, "by its name"),
    ),
}


def written(path, columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(tmp_path, name, suffix):
    """The same from text, from parquet and from parts."""
    columns, (label, proba, event, why) = TAKEN[name]
    path = written(tmp_path / "x.csv", columns)
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        path = tmp_path / "x.parquet"
        pd.DataFrame(columns).to_parquet(path)
    predictions = read_predictions(path)
    assert predictions.y_true.astype(str).tolist() == [_plain(cell) for cell in columns[label]]
    several = isinstance(proba, list)
    expected = np.column_stack([columns[cell] for cell in proba]) if several else columns[proba]
    np.testing.assert_allclose(predictions.y_proba, expected)
    assert several or str(predictions.labels[1]) == str(event)
    (part,) = read_parts(path)
    np.testing.assert_array_equal(part.y_true, predictions.y_true)
    if predictions.note:
        assert predictions.note.startswith(f"labels: {label} ({why}); ")
        assert f"{', '.join(proba) if several else proba} (" in predictions.note
    else:  # nothing else could have been taken
        assert len(columns) == 2


def _plain(value):
    return "1" if str(value) == "1.0" else str(value)


LABEL, SCORE = "label_column", "score_column"
#: Columns, and the choices that are left.
REFUSED = {
    "two flags": ({"vip": VIP, "bought": FLAG, "score": P}, LABEL, ["vip", "bought"]),
    "sex and a flag": ({"sex": SEX, "bought": FLAG, "score": P}, LABEL, ["sex", "bought"]),
    "two outcomes": ({"default": FLAG, "y": BITS, "score": P}, LABEL, ["default", "y"]),
    "two codings": ({"target": FLAG, "outcome": CHURN, "p": P}, LABEL, ["target", "outcome"]),
    "a decision beside a label of another name": (
        {"bought": FLAG, "y_pred": BITS, "score": P},
        LABEL,
        ["bought"],
    ),
    "only two values": (
        {"age": AGE, "bought": FLAG, "score": P},
        LABEL,
        ["bought"],
    ),
    "identifiers of two": (
        {"site_id": BITS, "bought": FLAG, "score": P},
        LABEL,
        ["bought"],
    ),
    "dates of two": (
        {"month": two("2026-01-01", "2026-02-01"), "bought": FLAG, "score": P},
        LABEL,
        ["bought"],
    ),
    "an outcome of two dates": (
        {"event": two("2026-01-01", "2026-02-01"), "bought": FLAG, "score": P},
        LABEL,
        ["bought"],
    ),
    "two spellings of a number": (
        {"visits": AGE, "bought": two("0", "1.0"), "score": P},
        LABEL,
        ["bought"],
    ),
    "a class that a column names": (
        {"vip": VIP, "result": two("win", "loss"), "p_win": P},
        LABEL,
        ["vip", "result"],
    ),
    "columns of classes": (
        {"vip": VIP, "species": THREE, **EACH},
        LABEL,
        ["vip", "species"],
    ),
    "columns of numbered classes": (
        {"digit": DIGIT, "vip": VIP, "size": AGE, "p_0": P0, "p_1": P1, "p_2": P2},
        LABEL,
        ["digit", "vip"],
    ),
    "numbers of columns that are features": (
        {"rooms": DIGIT, "f0": P, "f1": Q, "f2": P, "bought": FLAG, "score": Q},
        LABEL,
        ["rooms", "bought"],
    ),
    "columns of classes and a predicted class": (
        {"species": THREE, "predicted": np.roll(THREE, 1), **EACH},
        LABEL,
        ["species"],
    ),
    "columns of classes and an outcome": (
        {"label": THREE, "churned": FLAG, **EACH},
        LABEL,
        ["label", "churned"],
    ),
    "classes of a ship beside the outcome": (
        {"class": np.resize(["1st", "2nd", "3rd"], N), "survived": FLAG, "p_survived": P},
        LABEL,
        ["class", "survived"],
    ),
    "three classes and one score": (
        {"class": THREE, "vip": VIP, "score": P},
        LABEL,
        ["class", "vip"],
    ),
    "a share of another name": ({"churned": FLAG, "rf": P}, SCORE, ["rf"]),
    "a share of no name beside features": ({"y": FLAG, "age": AGE, "q": P}, SCORE, ["q"]),
    "two scores": ({"churned": FLAG, "score": P, "score2": Q}, SCORE, ["score", "score2"]),
    "two models": (
        {"churned": FLAG, "rf_proba": P, "lr_proba": Q},
        SCORE,
        ["rf_proba", "lr_proba"],
    ),
    "two shares": ({"churned": FLAG, "rf": P, "lr": Q}, SCORE, ["rf", "lr"]),
    "percentages beside a share": (
        {"churned": FLAG, "score": 100 * P, "discount": Q},
        SCORE,
        ["score", "discount"],
    ),
    "two decisions": (
        {"churned": FLAG, "pred_a": BITS, "pred_b": FLAG},
        SCORE,
        ["pred_a", "pred_b"],
    ),
    "a decision beside a share": (
        {"true_label": FLAG, "pred_label": BITS, "confidence": P},
        SCORE,
        ["pred_label", "confidence"],
    ),
    "words without an event": (
        {"vip": VIP, "defaulted": CHURN, "score": P},
        "event",
        ["churn", "stay"],
    ),
    "numbers without an event": ({"churned": two(1, 2), "age": AGE, "p": P}, "event", ["1", "2"]),
    "another outcome": ({"died": FLAG, "age": AGE, "p_survival": P}, "event", ["0", "1"]),
}


@pytest.mark.parametrize("command", ["report", "monitor"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(here, capsys, name, command):
    """Status 2, and a command for each choice, which then runs."""
    columns, argument, choices = REFUSED[name]
    path = written(here / "my x.csv", columns)
    with pytest.raises(ValueError) as error:
        read_predictions(path)
    assert [choice[argument] for choice in error.value.choices] == choices
    for choice in choices:
        assert f"{argument}={choice!r}" in str(error.value)
    state = ["--state", "s"] if command == "monitor" else []
    assert main([command, path.name, *state]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and not (here / "skcalib-report.html").exists()
    option = f"--{argument.replace('_', '-')}"
    commands = re.findall(f"skcalib {command} .*?{option} \\S+(?= or|\\.$)", said)
    assert len(commands) == len(choices)
    for line, choice in zip(commands, choices, strict=True):
        assert shlex.split(line)[1:] == [command, path.name, *state, option, choice]
        read_or_ask(path, {argument: choice})


def read_or_ask(path, chosen):
    """The choice is taken, or the next question is about another column."""
    try:
        predictions = read_predictions(path, **chosen)
    except ValueError as error:
        is_next_question = hasattr(error, "choices") and not set(error.choices[0]) & set(chosen)
        assert (
            is_next_question or "3 labels" in str(error) or "no column of that name" in str(error)
        )
    else:
        (argument,) = chosen
        assert argument == "event" or f"{chosen[argument]} (as requested)" in predictions.note


def test_the_event_chooses_the_column_that_has_it(tmp_path):
    path = written(tmp_path / "x.csv", {"target": VIP, "outcome": CHURN, "score": P})
    with pytest.raises(ValueError, match="label_column='target' or label_column='outcome'"):
        read_predictions(path)
    predictions = read_predictions(path, event="churn")
    assert predictions.y_true.tolist() == CHURN.tolist()
    assert predictions.note.startswith("labels: outcome (by its name); probability of churn: score")
    path = written(tmp_path / "x.csv", {"class": THREE, "state": CHURN, "score": P})
    with pytest.raises(ValueError, match="may be its labels, 'state': pass label_column='state'"):
        read_predictions(path, event="churn")


def test_columns_with_another_role_are_no_labels(tmp_path):
    path = written(tmp_path / "x.csv", {"default": BITS, "churned": FLAG, "died": two(0, 1)})
    chosen = {"features": ["default"], "score_column": "died"}
    assert read_predictions(path, **chosen).y_true.tolist() == FLAG.tolist()
    with pytest.raises(ValueError, match="label_column='churned' or label_column='died'"):
        read_predictions(path, ignore=["default"])


def test_a_label_that_is_sorted(tmp_path):
    """The first rows have one class of the column whose name says nothing."""
    n_rows = FIRST + 500
    rows = {"bought": np.arange(n_rows) >= FIRST, "vip": np.arange(n_rows) % 2 == 0}
    rows["score"] = np.linspace(0.01, 0.99, n_rows)
    path = written(tmp_path / "x.csv", rows)
    with pytest.raises(ValueError, match="label_column='bought' or label_column='vip'"):
        read_predictions(path)


def test_a_table_without_probabilities_is_refused(tmp_path):
    path = written(tmp_path / "x.csv", {"churned": FLAG, "vip": BITS, "age": AGE})
    with pytest.raises(ValueError, match="has no column of probabilities besides 'churned'"):
        read_predictions(path)
    path = written(tmp_path / "x.csv", {"id": np.arange(N), "age": AGE, "score": P})
    with pytest.raises(ValueError, match="has no column of labels: none has a name such as y_true"):
        read_predictions(path)


def test_the_first_line_says_what_was_taken(here, capsys):
    path = written(here / "x.csv", {"age": AGE, "vip": VIP, "churned": FLAG, "score": P})
    assert main(["monitor", path.name, "--state", "s"]) in (0, 1)
    assert capsys.readouterr().err == (
        "skcalib: x.csv: labels: churned (by its name); probability of 1: score (by its name); "
        "not used: age (no feature), vip (no feature).\n"
    )


@pytest.mark.parametrize(
    ("event", "absence"),
    [("YES", "no"), ("Yes", "no"), ("TRUE", "false"), ("Y", "n"), ("Positive", "negative")],
)
def test_letter_case_does_not_choose_the_event(here, event, absence):
    """The event of a plain pair is the same in any letter case, also where it sorts first."""
    columns = {"outcome": np.where(np.array(FLAG) == 1, event, absence), "score": P}
    read = read_predictions(written(here / "x.csv", columns))
    assert list(read.labels) == [absence, event]
    assert f"probability of {event}: score" in read.note


OTHERS = [
    ("passed", "p_fail"),
    ("died", "p_survival"),
    ("good", "catboost_score"),
    ("default", "p_bad"),
]
ALIKE = [
    ("passed", "p_pass"),
    ("churned", "Churn.Probability"),
    ("died", "risk_score"),
    ("label", "rf_proba"),  # the label says nothing
]


@pytest.mark.parametrize(("label", "score"), OTHERS + ALIKE)
def test_scores_that_are_named_after_something_else(here, label, score):
    """They ask for their class, unless they were requested."""
    path = written(here / "x.csv", {label: FLAG, score: P})
    if (label, score) in OTHERS:
        with pytest.raises(ValueError, match="names no class .* event='0' or event='1'"):
            read_predictions(path, label_column=label)
    for options in ({}, {"event": "1"}) if (label, score) in ALIKE else ({"event": "1"},):
        assert list(read_predictions(path, label_column=label, **options).labels) == [0, 1]
    assert list(read_predictions(path, label_column=label, score_column=score).labels) == [0, 1]


@pytest.mark.parametrize(
    ("classes", "label", "score"),
    [
        (["churn", "stay"], "churned", "score"),
        (["alive", "died"], "outcome", "risk"),
        (["fail", "pass"], "outcome", "p"),
    ],
)
def test_events_that_no_column_names(here, classes, label, score):
    """The meaning of words is not guessed."""
    p = np.linspace(0.01, 0.99, 60)
    columns = {label: np.array(classes)[np.arange(60) % 2], score: p}
    pd.DataFrame(columns).to_csv(here / "a.csv", index=False)
    with pytest.raises(ValueError, match=f"pass event='{classes[0]}' or event='{classes[1]}'"):
        read_predictions("a.csv")
    for event in classes:
        read = read_predictions("a.csv", event=event)
        assert read.labels[1] == event
        np.testing.assert_array_equal(read.y_proba, p)
