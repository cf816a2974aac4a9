import runpy
import subprocess
import sys
from functools import partial
from io import BytesIO, TextIOWrapper
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import skcalib
from skcalib import ForecastSketch
from skcalib.__main__ import main
from skcalib.data.problem import check_problem, event_last
from skcalib.datasets import make_tempered_simplex


class Recorder:
    """Stands for a report: what it was made from, and how it was shown."""

    made: ClassVar = []

    def __init__(self, options, problem=None, sketch=None):
        self.options, self.problem, self.sketch = options, problem, sketch
        self.made.append(self)

    @classmethod
    def from_predictions(cls, y_true, y_proba, features=None, **options):
        event = options["pos_label"]
        problem = check_problem(y_true, y_proba, labels=options["labels"], pos_label=event)
        return cls({"features": features, **options}, event_last(problem, event))

    @classmethod
    def from_sketch(cls, sketch, **options):
        return cls(options, sketch=sketch)

    def to_text(self, *, details=False):
        return f"report of {self.options['name']}, details: {details}"

    def to_html(self, path):
        path.write_text('<!DOCTYPE html>\n<meta name="generator" content="skcalib">\n<title>')
        return path


@pytest.fixture
def made(monkeypatch):
    """Reports that are made, without the time that they take."""
    monkeypatch.setattr("skcalib.cli.commands.CalibrationReport", Recorder)
    monkeypatch.setattr(Recorder, "made", [])
    return Recorder.made


def test_demonstration(here, printed, monkeypatch, few_maps):
    monkeypatch.setattr("skcalib.cli.commands.load_digits", partial(load_digits, n_class=2))
    out = printed([]).out
    assert "random forest on held-out digits" in out
    assert f"Written: {here / 'skcalib-report.html'}" in out
    assert "<svg" in (here / "skcalib-report.html").read_text(encoding="utf-8")


def test_report_of_files(here, printed, few_maps, words_only):
    sample = make_tempered_simplex(600, 2, random_state=0)
    np.savez("p.npz", y_true=sample.y, y_proba=sample.y_proba[:, 1], X=sample.y_proba)
    np.savez("truth.npz", y_true=sample.y, y_proba=sample.posterior)
    assert "truth is better calibrated" in printed(["report", "p.npz", "truth.npz"]).out
    assert (here / "skcalib-report.html").exists()


def test_options_reach_the_report(here, made, printed):
    np.savez("p.npz", y_true=[0, 1], y_proba=[0.2, 0.6], X=np.zeros((2, 1)))
    options = ["--random-state", "3", "--n-jobs", "2", "--confidence-level", "0.9"]
    assert printed(["report", "p.npz", *options]).out.startswith("report of p, details: False\n")
    assert printed(["report", "p.npz", "--details", "--name", "toy", "--verbose"]).out.startswith(
        "report of toy, details: True\n"
    )
    first, second = (report.options for report in made)
    assert (first["random_state"], first["n_jobs"], first["confidence_level"]) == (3, 2, 0.9)
    assert (second["random_state"], second["n_jobs"], second["confidence_level"]) == (0, None, 0.95)
    assert first["features"].shape == (2, 1) and second["verbose"] and not first["verbose"]
    assert first["pos_label"] is None


def test_columns_of_features_and_the_event_of_arrays(here, made):
    (here / "p.csv").write_text("y,p,Age,sex\n0,0.2,33,f\n1,0.6,,m\n")
    assert main(["report", "p.csv", "--features", "age, sex"]) == 0
    features = made[0].options["features"]
    assert list(features.columns) == ["Age", "sex"]
    np.testing.assert_array_equal(features["Age"], [33, np.nan])
    assert features["sex"].tolist() == ["f", "m"]
    assert main(["report", "p.csv", "--features", "age,sex", "--label-column", "y"]) == 0
    np.savez("p.npz", y_true=["churn", "stay"], y_proba=[0.75, 0.25])
    for event in ("churn", "stay"):  # the column has no name: it is that of the event
        assert main(["report", "p.npz", "--event", event]) == 0
        assert made[-1].problem.classes[1] == event
        assert made[-1].problem.forecast[:, 1].tolist() == [0.75, 0.25]


def test_a_table_whose_columns_have_any_names(here, made, capsys, monkeypatch):
    rows = [f"{k},{k % 50},{'fm'[k % 2]},{k % 2},{k / 97:.3f}" for k in range(90)]
    text = "\n".join(["id,age,sex,churned,model_score", *rows])
    (here / "churn.csv").write_text(text)
    assert main(["report", "churn.csv"]) == 0
    said = "labels: churned (by its name); probability of 1: model_score (by its name)"
    captured = capsys.readouterr()
    assert captured.err.startswith(f"skcalib: churn.csv: {said}; features: age, sex; not used: id")
    assert captured.err.count("\n") == 1 and made[-1].options["name"] == "churn"
    assert list(made[-1].options["features"].columns) == ["age", "sex"]
    assert main(["report", "churn.csv", "--ignore", "age,id", "--by", "sex"]) == 0
    assert made[-1].options["features"] is None and len(made[-1].options["by"]) == 90
    assert main(["report", "churn.csv", "--sketch"]) == 0
    assert made[-1].sketch.n_samples_seen_ == 90
    assert f"{said}; not used: id (no feature), age" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode())))
    assert main(["report", "-", "--score-column", "model_score"]) == 0
    assert made[-1].options["name"] == "standard-input"
    (here / "churn.csv").rename(here / "A.B.CSV")
    assert main(["report", "A.B.CSV"]) == 0 and made[-1].options["name"] == "A.B"


@pytest.mark.parametrize(
    ("options", "last"), [([], "churn"), (["--event", "stay"], "stay"), (["--sketch"], "churn")]
)
def test_models_whose_columns_are_in_another_order(here, made, monkeypatch, options, last):
    """The classes of all files follow those of the first, however their columns are called."""
    monkeypatch.setattr("skcalib.cli.commands.ComparisonReport", lambda reports, n_jobs: made[0])
    (here / "1.csv").write_text("y,p_churn\nchurn,0.75\nstay,0.25\n")
    (here / "2.csv").write_text("y,churn,stay\nchurn,0.75,0.25\nstay,0.25,0.75\n")
    (here / "3.csv").write_text("label,proba_stay\nchurn,0.25\nstay,0.75\n")
    assert main(["report", "1.csv", "2.csv", "3.csv", *options]) == 0
    if options == ["--sketch"]:
        assert [report.sketch.classes_[1] for report in made] == [last] * 3
        for report in made:
            report.sketch.label_name_ = report.sketch.score_name_ = None
        assert len({report.sketch.to_bytes() for report in made}) == 1
        return
    for problem in (report.problem for report in made):
        assert problem.classes[1] == last
        np.testing.assert_array_equal(problem.forecast, made[0].problem.forecast)
        np.testing.assert_array_equal(problem.target, made[0].problem.target)


def test_rounded_probabilities_are_normalized_on_request(here, made, capsys, printed, set_sizes):
    """Also part by part; a part that is refused is named."""
    set_sizes(text_rows=2, part_entries=1)
    rounded = np.array([[0.33, 0.33, 0.33], [0.2, 0.3, 0.5], [0.1, 0.4, 0.51]])
    rows = "\n".join(f"{y},{a},{b},{c}" for y, (a, b, c) in zip("abc", rounded, strict=True))
    (here / "p.csv").write_text(f"y,a,b,c\n{rows}\n")
    for sketch in ([], ["--sketch"]):
        error = printed(["report", "p.csv", *sketch], 2).err
        assert "must sum to 1" in error and "--normalize" in error
        assert main(["report", "p.csv", "--normalize", *sketch]) == 0
    expected = rounded / rounded.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(made[0].problem.forecast, expected)
    assert made[1].sketch.n_samples_seen_ == 3
    (here / "p.csv").write_text("y,p_1\n1,0.5\n0,0.5\n1,0.5\n0,1.5\n")
    assert main(["report", "p.csv", "--sketch"]) == 2
    said = "p.csv, rows from 3: y_proba has the value 1.5, outside [0, 1]"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("absent.npz", "absent.npz is not a file"),
        ("bad.csv", "Each row of y_proba must sum to 1"),
        ("good.csv --confidence-level 95", "confidence_level must lie"),
        ("good.csv --out nowhere/page.html", "nowhere is not a folder"),
        ("wide.csv", "'c', which is not named after a label (labels: a and b)"),
        ("three.npz --event 1", "--event is for two classes, but three.npz has"),
        ("percent.csv", "value 60, outside [0, 1]: probabilities are expected. If"),
        ("zero.csv", "value 60, outside [0, 1]: probabilities are expected. If these are perc"),
        ("zero.csv --event 1", "expected. If these are percentages, divide by 100"),
        ("both.csv", "so these are percentages: divide by 100."),
        ("both.csv --event 1", "so these are percentages: divide by 100."),
        ("long.npz --label-column y", "A label column or score column ('y') is"),
        ("long.npz --features x", "Names of columns (x) are for tables"),
        ("long.npz", "X and y_true must have the same number of samples"),
        ("logits.npz --normalize", "--normalize is for rounding"),
        ("good.csv good.csv", "Two files have the same name: name each model with --name"),
        ("good.csv three.npz --name one", "There are 2 files, but 1 names"),
        ("good.csv --sketch --features a", "A sketch has no features: leave out"),
        ("good.csv --save-sketch p.bin", "--save-sketch is for one table, and a file that"),
        ("good.csv three.npz --save-sketch p.sketch", "--save-sketch is for one table"),
        ("good.csv --no-sketch --save-sketch a.sketch", "There is no sketch to save"),
        ("three.npz --sketch", "--sketch is for tables, and three.npz is not one: leave it out"),
        ("absent.sketch", "absent.sketch is not a file."),
        ("bad.sketch", "bad.sketch cannot be read: The bytes are no state of a Fore"),
        ("bad.sketch --event 1", "--event is for samples, but bad.sketch is a sketch"),
        ("bad.sketch --normalize", "--normalize is for samples, but bad.sketch is a sketch"),
        ("one.csv --sketch", "has only the label 'a'"),
        ("unnamed.csv --sketch", "which does not name its class"),
        ("labels.csv --sketch", "has 3 labels"),
        ("numbers.csv --sketch", "that does not number the rows"),
        ("percent.csv --sketch", "percent.csv, rows from 1: y_proba has the value 60, outside"),
    ],
)
def test_errors_are_one_sentence_and_status_2(here, printed, set_sizes, arguments, message):
    for name, content in {
        "bad.csv": "y,a,b\na,0.5,0.6\nb,0.2,0.2\n",
        "good.csv": "y,a,b\na,0.5,0.5\nb,0.2,0.8\nb,0.4,0.6\n",
        "wide.csv": "y,a,b,c\na,0.5,0.4,0.1\nb,0.2,0.8,1\n",
        "percent.csv": "label,p_1\n0,50\n1,60\n",
        "zero.csv": "y,p_0\n0,45\n1,60\n",
        "both.csv": "y,p_0,p_1\n0,45,55\n1,30,70\n",
        "one.csv": "y,p\na,0.5\na,0.5\n",
        "unnamed.csv": "y,p\na,0.5\nb,0.5\n",
        "labels.csv": "y,p_b\na,0.5\na,0.5\nb,0.5\nc,0.5\n",
        "numbers.csv": ",y,p\n0,1,0.5\n1,0,0.5\n2,1,0.5\n7,1,0.5\n",
        "bad.sketch": "no sketch at all",
    }.items():
        (here / name).write_text(content)
    np.savez("three.npz", y_true=[0, 1, 2], y_proba=np.eye(3))
    np.savez("long.npz", y_true=[0, 1], y_proba=[0.2, 0.6], X=np.zeros((3, 1)))
    np.savez("logits.npz", y_true=[0, 1], y_proba=[[0.0, -2.0], [-1.0, 3.0]])
    set_sizes(text_rows=2, part_entries=1)
    captured = printed(["report", *arguments.split()], 2)
    assert captured.out == ""
    assert captured.err.startswith("skcalib: ") and message in captured.err
    assert captured.err.count("\n") == 1


def test_stages_are_shown_at_a_terminal_only(here, printed, monkeypatch, few_maps, words_only):
    np.savez("p.npz", y_true=[0, 1, 1, 0] * 5, y_proba=[0.2, 0.6, 0.7, 0.4] * 5)
    piped = printed(["report", "p.npz"])
    assert piped.err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = printed(["report", "p.npz"])
    assert shown.out == piped.out
    assert shown.err.count("skcalib: p: ") >= 3 and ": page, " in shown.err


def test_wrong_usage_and_version(here, capsys, printed):
    for arguments, status in ((["unknown"], 2), (["--version"], 0)):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == status
    assert skcalib.__version__ in capsys.readouterr().out
    np.savez("p.npz", y_true=[0, 1], y_proba=[0.2, 0.6])
    for name in ("p.npz", "absent.csv"):
        assert printed([name], 2).err == f"skcalib: which command? Try: skcalib report {name}\n"


def test_python_dash_m(here, capsys, monkeypatch):
    """In this process; `test_processes` starts others."""
    monkeypatch.setattr(sys, "argv", ["skcalib", "report", "absent.npz"])
    monkeypatch.delitem(sys.modules, "skcalib.__main__")
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr("atexit.register", lambda *_: None)
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("skcalib", run_name="__main__")
    assert stop.value.code == 2
    assert capsys.readouterr().err == "skcalib: absent.npz is not a file.\n"


def test_a_report_of_a_sketch(here, printed, few_maps, words_only):
    sample = make_tempered_simplex(800, 2, random_state=0)
    for name, proba in (("p", sample.y_proba), ("truth", sample.posterior)):
        sketch = ForecastSketch([0, 1]).fit(sample.y, proba[:, 1])
        (here / f"{name}.sketch").write_bytes(sketch.to_bytes())
    pd.DataFrame({"y": sample.y, "p_1": sample.y_proba[:, 1]}).to_csv("p.csv", index=False)
    said = []
    for command in (["p.sketch"], ["p.csv", "--sketch"]):
        said.append(printed(["report", *command]))
    assert said[0] == said[1]
    assert "Over-confident: predictions are too extreme." in said[0].out
    assert ".fit_sketch(sketch)" in said[0].out
    assert "scores of a cell were replaced by" in (here / "skcalib-report.html").read_text()
    assert (
        "truth is better calibrated"
        in printed(["report", "p.sketch", "truth.sketch", "--out", "page.html"]).out
    )
    assert (here / "page.html").is_file()


def test_when_a_table_becomes_a_sketch(here, made, capsys, set_sizes):
    set_sizes(sketched_rows=1000)
    (here / "p.csv").write_text("y,p_1\n" + "1,0.75\n0,0.25\n" * 750)
    assert main(["report", "p.csv"]) == 0
    said = "p.csv has about 1,501 rows: their sums are taken block by block"
    assert said in capsys.readouterr().err and made[-1].sketch.n_samples_seen_ == 1500
    assert main(["report", "p.csv", "--save-sketch", "new.sketch"]) == 0
    assert (here / "new.sketch").read_bytes() == made[-1].sketch.to_bytes()
    assert main(["report", "p.csv", "--no-sketch"]) == 0 and len(made[-1].problem.forecast) == 1500
    assert main(["report", "absent.csv"]) == 2


@pytest.mark.parametrize(
    ("rows", "event", "classes", "last"),
    [
        ("label,p_churn;stay,.25;stay,.5;churn,.75", None, ["stay", "churn"], [0.25, 0.5, 0.75]),
        ("label,p_churn;stay,.25;stay,.5;churn,.75", "stay", ["churn", "stay"], [0.75, 0.5, 0.25]),
        ("label,p;1,.25;1,.5;0,.75", None, [0, 1], [0.25, 0.5, 0.75]),
        ("label,p_0;1,.25;1,.5;0,.75", "1", [0, 1], [0.75, 0.5, 0.25]),
        ("label,a,b;b,.25,.75;b,.5,.5;a,.3,.7", None, ["a", "b"], [0.75, 0.5, 0.7]),
        ("label,a,b;b,.25,.75;b,.5,.5;a,.3,.7", "A", ["b", "a"], [0.25, 0.5, 0.3]),
        ("label,b,a;b,.25,.75;b,.5,.5;a,.3,.7", None, ["b", "a"], [0.75, 0.5, 0.7]),
        ("label,a,b,c;b,.25,.7,.05;b,.5,.3,.2;a,.3,.3,.4", None, ["a", "b", "c"], [0.05, 0.2, 0.4]),
    ],
)
@pytest.mark.parametrize("part", [1, 4, 1 << 22])
def test_the_event_and_parts_of_a_table(here, made, set_sizes, rows, event, classes, last, part):
    """Labels may be sorted, so that the first part has one class only."""
    set_sizes(text_rows=1, part_entries=part)
    (here / "p.csv").write_text(rows.replace(";", "\n"))
    options = [] if event is None else ["--event", event]
    assert main(["report", "p.csv", *options]) == main(["report", "p.csv", "--sketch", *options])
    whole, sketch = made[0].problem, made[1].sketch
    assert sketch.classes_.tolist() == classes == whole.classes.tolist()
    np.testing.assert_allclose(whole.forecast[:, -1], last)
    labels = whole.classes[whole.target.argmax(axis=1)]
    assert labels.astype(str).tolist() == [row.split(",")[0] for row in rows.split(";")[1:]]
    expected = ForecastSketch(whole.classes).fit(labels, whole.forecast)
    assert sketch.to_frame().round(12).equals(expected.to_frame().round(12))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_needs_no_package(option):
    """Imports of NumPy and scikit-learn take more than a second."""
    code = f"""
import sys
from skcalib.__main__ import main
try:
    main(["{option}"])
except SystemExit:
    print(sorted({{"numpy", "scipy", "sklearn"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "skcalib" in done.stdout and done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        ("csv", "The reports of a and b are not on the same samples"),
        ("sketch", "b.sketch has the labels 'survived', and a.sketch has 'Died': compare models"),
    ],
)
def test_files_of_different_outcomes_are_not_compared(
    here, capsys, printed, few_maps, words_only, suffix, words
):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60)
    died = (rng.random(60) < p).astype(int)
    for name, label, y in (("a", "Died", died), ("b", "survived", 1 - died), ("c", "DIED", died)):
        pd.DataFrame({label: y, "risk_score": p}).to_csv(f"{name}.csv", index=False)
        if suffix == "sketch":
            sketch = ["--save-sketch", f"{name}.sketch", "--out", f"{name}.html"]
            assert main(["report", f"{name}.csv", *sketch]) == 0
    capsys.readouterr()
    assert words in printed(["report", f"a.{suffix}", f"b.{suffix}"], 2).err
    assert main(["report", f"a.{suffix}", f"c.{suffix}"]) == 0
