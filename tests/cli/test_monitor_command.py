"""The command line: one line, an exit status, and a state that is whole at any time."""

import csv
import gzip
import lzma
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from engines import to_parquet
from scipy.special import expit

from skcalib import CalibrationMonitor
from skcalib.__main__ import main
from skcalib.cli.commands import run_monitor


def write(path, y, p, *, words=("stay", "churn"), site=None):
    columns = {"label": np.array(words)[np.asarray(y, dtype=int)], "p_churn": p}
    pd.DataFrame(columns | ({} if site is None else {"site": site})).to_csv(path, index=False)


def monitor_of(path):
    return CalibrationMonitor.from_bytes(path.read_bytes())


def weeks(n, change=np.inf):
    rng = np.random.default_rng(0)
    for week in range(n):
        z = rng.normal(0, 1.5, 400)
        yield (rng.random(400) < expit(z - 1.5 * (week >= change))).astype(int), expit(z)


def test_weeks_with_an_alarm(here, capsys):
    status = []
    for number, (y, p) in enumerate(weeks(6, change=4)):
        write(here / f"week{number}.csv", y, p)
        status.append(main(["monitor", f"week{number}.csv", "--state", "churn.state"]))
        said = capsys.readouterr()
        assert said.out.count("\n") == 1 and not said.err
    assert status[:4] == [0] * 4 and status[4] == 1
    assert said.out.startswith("week5.csv: ") and "2,400 samples" in said.out
    assert "Forecasts are" in said.out
    monitor = monitor_of(here / "churn.state")
    whole = CalibrationMonitor(["stay", "churn"])
    for y, p in weeks(6, change=4):
        whole.partial_fit(np.array(["stay", "churn"])[y], p)
    assert monitor.log_statistic_ == whole.log_statistic_ and monitor.alarms_ == whole.alarms_
    assert sorted(path.name for path in here.iterdir())[0] == "churn.state"  # nothing beside it


def test_other_separators_and_arrays(here, capsys):
    (here / "a.csv").write_text("y;p\n0;0,25\n1;0,5\n")
    assert main(["monitor", "a.csv", "--state", "s"]) == 2
    assert "is separated by ';'" in capsys.readouterr().err
    assert main(["monitor", "a.csv", "--state", "s", "--sep", ";", "--decimal", ","]) == 0
    (here / "b.csv").write_text("y\tp\n0\t.25\n1\t.75\n")
    assert main(["monitor", "b.csv", "--state", "s", "--sep", "tab"]) == 0
    assert monitor_of(here / "s").n_samples_seen_ == 4
    rng = np.random.default_rng(0)
    np.savez("a.npz", y_true=rng.integers(0, 3, 50), y_proba=rng.dirichlet(np.ones(3), 50))
    assert main(["monitor", "a.npz", "--state", "t"]) in (0, 1)
    assert monitor_of(here / "t").n_samples_seen_ == 50


def test_options_of_the_first_call(here, capsys):
    ((y, p),) = weeks(1, change=0)
    write(here / "a.csv", y, p, site=np.where(np.arange(400) % 2, "north", "south"))
    options = ["--alpha", "0.001", "--window", "100", "--by", "site", "--event", "stay"]
    assert main(["monitor", "a.csv", "--state", "s", *options]) == 1
    said, monitor = capsys.readouterr().out, monitor_of(here / "s")
    assert "(alarm at 1,000)" in said
    assert "2 of 2 groups (false discovery rate .05): north, south" in said
    assert (monitor.labels, monitor.window) == (["churn", "stay"], 100)
    assert monitor.windows_[0].observed == pytest.approx(1 - y[:100].mean())


def test_notions_and_rounded_probabilities(here, capsys):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 60)
    rows = [f"{k % 3},{','.join(f'{v:.2f}' for v in forecast)}" for k, forecast in enumerate(p)]
    (here / "a.csv").write_text("\n".join(["y,p_0,p_1,p_2", *rows]))
    (here / "b.csv").write_text("\n".join(["y,p_0,p_1,p_2", *rows[:30]]))
    first = ["monitor", "a.csv", "--state", "s", "--notion", "classwise"]
    assert main(first) == 2
    assert "must sum to 1" in capsys.readouterr().err and not (here / "s").exists()
    assert main([*first, "--normalize"]) in (0, 1)
    monitor = monitor_of(here / "s")
    assert monitor.notion == "classwise"
    rounded = np.array([row.split(",")[1:] for row in rows], dtype=float)
    rounded /= rounded.sum(axis=1, keepdims=True)
    whole = CalibrationMonitor([0, 1, 2], notion="classwise").partial_fit([0, 1, 2] * 20, rounded)
    assert monitor.log_statistic_ == whole.log_statistic_
    capsys.readouterr()
    second = ["monitor", "b.csv", "--state", "s"]
    for option, words in (
        (["--normalize", "--notion", "top_label"], "--notion is classwise in s, got top_label"),
        ([], "On the command line: --normalize."),
    ):
        assert main([*second, *option]) == 2
        assert words in capsys.readouterr().err
    assert main([*second, "--normalize", "--notion", "classwise"]) in (0, 1)
    assert main(["monitor", "b.csv", "--state", "t", "--normalize", "--notion", "other"]) == 2
    assert "notion must be one of 'auto', 'canonical'" in capsys.readouterr().err


def test_a_week_with_one_class_only(here):
    ((y, p),) = weeks(1)
    write(here / "a.csv", y, p)
    for word in ("stay", "churn"):
        write(here / f"{word}.csv", [0, 0], np.array([0.4, 0.6]), words=(word, ""))
    for name in ("a", "stay", "churn"):
        assert main(["monitor", f"{name}.csv", "--state", "s", "--event", "churn"]) == 0
    monitor = monitor_of(here / "s")
    assert monitor.n_samples_seen_ == 404 and monitor.labels == ["stay", "churn"]


@pytest.mark.parametrize(
    ("prepare", "arguments", "words"),
    [
        (None, ["a.csv"], "a.csv has been added to s before"),
        (None, ["none.csv"], "none.csv is not a file"),
        (None, ["b.csv", "--alpha", "0.1"], "--alpha is 1e-05 in s, got 0.1"),
        (None, ["b.csv", "--window", "7"], "--window is 1000 in s, got 7"),
        (None, ["b.csv", "--event", "stay"], "--event is churn in s, got stay"),
        (None, ["other.csv"], "has the classes no and yes, and s has stay and churn"),
        (None, ["wrong.csv"], "wrong.csv"),
        (None, ["s"], "s"),
        (
            lambda state: state[:-5],
            ["b.csv"],
            "s cannot be read: The state of a CalibrationMonitor",
        ),
        (lambda state: b"label,p\n", ["b.csv"], "s cannot be read: The bytes are no state"),
        (lambda state: b"", ["b.csv"], "s cannot be read: The bytes are no state"),
    ],
)
def test_errors_leave_the_state(here, capsys, prepare, arguments, words):
    (y, p), (z, q) = weeks(2)
    write(here / "a.csv", y, p)
    write(here / "b.csv", z, q)
    (here / "other.csv").write_text("label,p_yes\nyes,0.5\nno,0.25\n")
    (here / "wrong.csv").write_text("label,p_churn\nchurn,1.5\nstay,0.25\n")
    assert main(["monitor", "a.csv", "--state", "s"]) == 0
    if prepare is not None:
        (here / "s").write_bytes(prepare((here / "s").read_bytes()))
    before = (here / "s").read_bytes()
    capsys.readouterr()
    assert main(["monitor", *arguments, "--state", "s"]) == 2
    said = capsys.readouterr()
    assert words in said.err and said.err.count("\n") == 1 and not said.out
    assert (here / "s").read_bytes() == before


@pytest.mark.parametrize("function", ["sys.stdout.flush", "os.replace"])
def test_an_interrupted_write_leaves_the_state(here, capsys, monkeypatch, function):
    """Of the line that is printed, or of the state."""
    (y, p), (z, q) = weeks(2, change=1)
    write(here / "a.csv", y, p)
    write(here / "b.csv", z, q)
    assert main(["monitor", "a.csv", "--state", "s"]) == 0
    before = (here / "s").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(function, full)
        assert main(["monitor", "b.csv", "--state", "s"]) == 2
    assert (here / "s").read_bytes() == before
    assert sorted(file.name for file in here.iterdir()) == ["a.csv", "b.csv", "s"]
    assert main(["monitor", "b.csv", "--state", "s"]) == 1  # the alarm is not lost


def test_links_devices_and_files_of_killed_writers(here, capsys):
    ((y, p),) = weeks(1)
    write(here / "a.csv", y, p)
    (here / "link").symlink_to(here / "s")
    assert main(["monitor", "a.csv", "--state", "missing/s"]) == 2
    assert "missing is not a folder" in capsys.readouterr().err
    for state in (os.devnull, "pipe"):
        if state == "pipe":
            os.mkfifo(state)
        assert main(["monitor", "a.csv", "--state", state]) == 2
        assert f"--state must be a regular file, got {state}" in capsys.readouterr().err
    left = f".skcalib-{zlib.crc32(b's'):08x}-0.tmp"  # of a process that was killed
    for name in (left, ".skcalib-00000000-0.tmp"):  # the other one is for another file
        (here / name).write_bytes(b"half")
    assert main(["monitor", "a.csv", "--state", "link"]) == 0
    assert (here / "link").is_symlink() and (here / "s").is_file()
    names = {".skcalib-00000000-0.tmp", "a.csv", "link", "pipe", "s"}
    assert {file.name for file in here.iterdir()} == names


def test_twenty_writers_at_once(here):
    """Each of them has its own file of the state; locks of threads are those of processes."""
    for number in range(20):
        write(here / f"{number}.csv", [0, 1], np.array([0.25, 0.5 + number / 100]))
    names = ("label_column", "score_column", "event", "sep", "decimal", "by", "alpha", "window")
    unset = dict.fromkeys((*names, "notion", "normalize")) | {"ignore": []}
    said, status = [], []

    def add(number):
        options = SimpleNamespace(files=[here / f"{number}.csv"], state=here / "s", **unset)
        status.append(run_monitor(options, said.append))

    with ThreadPoolExecutor(20) as writers:
        list(writers.map(add, range(20)))
    monitor = monitor_of(here / "s")
    assert status == [0] * 20 and len(said) == 20
    assert monitor.n_samples_seen_ == 40 and len(monitor.sources_) == 20
    assert not list(here.glob(".skcalib*"))


def text(frame, **options):
    return frame.to_csv(index=False, **options).encode()


def other_class(frame):
    return frame.assign(p_stay=1 - frame.p_churn).drop(columns="p_churn")


#: Encodings of the same rows: the name of a file, its content, and options.
ENCODINGS = {
    "another name": ("g.csv", text, ()),
    "gzip": ("f.csv.gz", lambda frame: gzip.compress(text(frame)), ()),
    "xz": ("f.csv.xz", lambda frame: lzma.compress(text(frame)), ()),
    "an empty line": ("f.csv", lambda frame: text(frame) + b"\n", ()),
    "blanks": ("f.csv", lambda frame: text(frame).replace(b",", b" , "), ()),
    "CRLF": ("f.csv", lambda frame: text(frame).replace(b"\n", b"\r\n"), ()),
    "a BOM": ("f.csv", lambda frame: b"\xef\xbb\xbf" + text(frame), ()),
    "quotes": ("f.csv", lambda frame: text(frame, quoting=csv.QUOTE_ALL), ()),
    "columns in another order": ("f.csv", lambda frame: text(frame[frame.columns[::-1]]), ()),
    "separators": ("f.csv", partial(text, sep=";", decimal=","), ("--sep", ";", "--decimal", ",")),
    "decimals": ("f.csv", lambda frame: text(frame).replace(b",0.", b",."), ()),
    "zeros": ("f.csv", partial(text, float_format="%.9f"), ()),
    "an index": ("f.csv", lambda frame: frame.to_csv().encode(), ()),
    "parquet": ("f.parquet", to_parquet, ()),
    "single precision": (
        "f.parquet",
        lambda frame: to_parquet(frame.astype({"p_churn": np.float32})),
        (),
    ),
}
#: The same predictions, where there are many of them, which no new samples repeat.
REWRITTEN = {
    "a column more": ("f.csv", lambda frame: text(frame.assign(week=7)), ()),
    "a column less": ("f.csv", lambda frame: text(frame.drop(columns="id")), ()),
    "rows in another order": ("f.csv", lambda frame: text(frame[::-1]), ()),
    "the other class": ("f.csv", lambda frame: text(other_class(frame)), ()),
    "both classes": ("f.csv", lambda frame: text(frame.assign(p_stay=1 - frame.p_churn)), ()),
    "arrays": ("f.npz", lambda frame: archive(frame), ("--event", "churn")),
}


def archive(frame):
    content = BytesIO()
    np.savez(content, y_true=frame.label.to_numpy(str), y_proba=frame.p_churn.to_numpy())
    return content.getvalue()


def predictions(n_rows, seed=0):
    """Rows with decimals that single precision holds well enough to be told apart."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.01, 0.99, n_rows).round(4)
    label = np.where(rng.random(n_rows) < p, "churn", "stay")
    label[:2] = "churn", "stay"
    return pd.DataFrame({"id": np.arange(n_rows) + 7, "label": label, "p_churn": p})


@pytest.mark.parametrize("n_rows", [3, 60])
@pytest.mark.parametrize("name", [*ENCODINGS, *REWRITTEN])
def test_the_same_rows_are_added_once(here, capsys, name, n_rows):
    """Whatever the encoding; of a few rows, the bytes count, as new samples may have the same p."""
    file, encode, options = (ENCODINGS | REWRITTEN)[name]
    frame = predictions(n_rows)
    (here / "f.csv").write_bytes(text(frame))
    assert main(["monitor", "f.csv", "--state", "s"]) == 0
    before = (here / "s").read_bytes()
    (here / "f.csv").unlink()
    (here / file).write_bytes(encode(frame))
    capsys.readouterr()
    status = main(["monitor", file, "--state", "s", *options])
    if name != "another name" and n_rows == 3:
        assert status in (0, 1) and monitor_of(here / "s").n_samples_seen_ == 6
        return
    assert status == 2 and (here / "s").read_bytes() == before
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"skcalib: {file} has been added to s before") and said.endswith("only.")


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(p_churn=frame.p_churn + 1e-4),
        lambda frame: frame.assign(label=frame.label[::-1].to_numpy()),
        lambda frame: frame[:-1],
    ],
)
@pytest.mark.parametrize("n_rows", [3, 60])
def test_other_rows_are_added(here, change, n_rows):
    for number, frame in enumerate((predictions(n_rows), change(predictions(n_rows)))):
        (here / f"{number}.csv").write_bytes(text(frame))
        assert main(["monitor", f"{number}.csv", "--state", "s"]) in (0, 1)
    assert monitor_of(here / "s").n_samples_seen_ == n_rows + len(frame)


def test_a_file_is_read_once(here, monkeypatch):
    """What is counted is what identifies the rows, also if the file changes meanwhile."""
    (here / "f.csv").write_bytes(text(predictions(60)))
    opened, plain = [], Path.open

    def count(path, *arguments, **options):
        opened.append(path.name)
        return plain(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", count)
    monkeypatch.setattr(Path, "read_bytes", None)
    assert main(["monitor", "f.csv", "--state", "s"]) == 0
    assert opened.count("f.csv") == 1


WAYS = {
    "files": ["w1.csv", "w2.csv", "w3.csv"],
    "folder": ["weeks"],
    "pattern": ["w*.csv"],
    "folder with a slash": ["weeks/"],
}


@pytest.mark.parametrize("way", WAYS)
def test_several_files_in_one_call(here, capsys, way):
    """As one call for each, in the order of their names."""
    frames = [predictions(40, seed) for seed in range(3)]
    (here / "weeks").mkdir()
    for number, frame in enumerate(frames, start=1):
        frame.to_csv(here / f"w{number}.csv", index=False)
        frame.to_csv(here / "weeks" / f"w{number}.csv", index=False)
        assert main(["monitor", f"w{number}.csv", "--state", "t"]) == 0
    assert main(["monitor", *WAYS[way], "--state", "s"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4 and said[-1].startswith("w1.csv, w2.csv, w3.csv: no alarm. All: 120 sam")
    assert (here / "s").read_bytes() == (here / "t").read_bytes()
    assert main(["monitor", "weeks/w2.csv", "--state", "s"]) == 2
    to_parquet(frames[1], here / "w4.parquet")
    assert main(["monitor", "w1.csv", "w2.csv", "w4.parquet", "--state", "u"]) == 2
    assert "w4.parquet has the same rows as w2.csv: files must" in capsys.readouterr().err
    assert not (here / "u").exists()
    (here / "weeks" / "w9.csv").write_bytes(text(frames[0]))
    assert main(["monitor", "weeks", "--state", "u"]) == 2
    assert "w9.csv has the same rows as w1.csv" in capsys.readouterr().err


def test_whole_files_are_compared(here, capsys):
    """As the guide states: a part of earlier files, or several in one, is added; they are not."""
    first, second = (predictions(40, seed) for seed in range(2))
    for name, frame in {"a": first, "b": second}.items():
        frame.to_csv(here / f"{name}.csv", index=False)
    pd.concat([first, second]).to_csv(here / "both.csv", index=False)
    first[:20].to_csv(here / "part.csv", index=False)
    counts = {"a": 40, "b": 80, "both": 160, "part": 180}
    for name, n_samples in counts.items():
        assert main(["monitor", f"{name}.csv", "--state", "s"]) in (0, 1)
        assert monitor_of(here / "s").n_samples_seen_ == n_samples
    for name in counts:
        assert main(["monitor", f"{name}.csv", "--state", "s"]) == 2
        assert f"{name}.csv has been added to s before as a whole" in capsys.readouterr().err


def test_standard_input(here, capsys, monkeypatch):
    content = text(predictions(40))
    for status in (0, 2):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
        assert main(["monitor", "-", "--state", "s"]) == status
    assert "standard-input.csv has been added to s before" in capsys.readouterr().err
    assert monitor_of(here / "s").n_samples_seen_ == 40


def test_sketches_have_no_order(here, capsys):
    (here / "a.sketch").write_bytes(b"skcalib-sketch")
    assert main(["monitor", "a.sketch", "--state", "s"]) == 2
    assert "a.sketch is a sketch, whose samples have no order: pass" in capsys.readouterr().err


# --- Names of the columns -------------------------------------------------------------------------


def named(path, label="Died", score="RISK_SCORE", *, seed=0, words=(0, 1), **columns):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=60).round(4)
    y = np.array(words)[(rng.random(60) < p).astype(int)]
    pd.DataFrame({label: y, score: p, **columns}).to_csv(path, index=False)


#: A second file, the options of its call, and what is said if it is refused.
SECOND_FILES = {
    "same names": ({}, [], ""),
    "other case": ({"label": "DIED", "score": "riskScore"}, [], ""),
    "opposite": ({"label": "survived"}, [], "'survived', and s has 'Died': start another state"),
    "other label": (
        {"label": "outcome"},
        [],
        "b.csv has the labels 'outcome', and s has 'Died': start another state or, if these are "
        "the same labels, name the column: skcalib monitor b.csv --state s --label-column outcome.",
    ),
    "no name of labels": ({"label": "flag"}, [], "b.csv --state s --label-column flag."),
    "other label, named": ({"label": "flag"}, ["--label-column", "flag"], ""),
    "another word for a score": ({"score": "RISK"}, [], ""),
    "other score": ({"score": "score_b"}, [], "'score_b', which names no class"),
    "no name of a score": ({"score": "model_b"}, [], "b.csv --state s --score-column model_b."),
    "other score, named": ({"score": "model_b"}, ["--score-column", "model_b"], ""),
    "opposite score": ({"score": "survival_score"}, [], "which names no class"),
    "other classes": ({"words": ("no", "yes")}, [], "has the classes no and yes, and s has 0 and"),
    "two labels": ({"survived": np.tile([0, 1], 30)}, [], ""),
    "two scores": ({"model_b": np.linspace(0, 1, 60)}, [], ""),
    "weights": ({"weight": np.tile([1.0, 2.5], 30)}, [], ""),
    "groups": ({"site": np.tile(["north", "south"], 30)}, ["--by", "site"], ""),
}


@pytest.mark.parametrize("case", SECOND_FILES)
def test_columns_of_later_files(here, capsys, case):
    columns, options, refused = SECOND_FILES[case]
    named("a.csv")
    named("b.csv", seed=1, **columns)
    assert main(["monitor", "a.csv", "--state", "s"]) == 0
    before = (here / "s").read_bytes()
    capsys.readouterr()
    assert main(["monitor", "b.csv", "--state", "s", *options]) == (2 if refused else 0)
    assert refused in capsys.readouterr().err
    if refused:
        assert (here / "s").read_bytes() == before
        return
    monitor = monitor_of(here / "s")
    assert (monitor.label_name_, monitor.score_name_) == ("Died", "RISK_SCORE")
    whole = CalibrationMonitor()
    for name in ("a.csv", "b.csv"):
        labels, scores, *_ = pd.read_csv(name).to_numpy().T
        whole.partial_fit(labels.astype(int), scores.astype(float))
    assert monitor.log_statistic_ == whole.log_statistic_


def test_a_score_of_the_other_class_in_a_later_file(here):
    """It is converted: the state is that of two files of one class."""
    named("a.csv", "outcome", "p_yes", words=("no", "yes"))
    named("b.csv", "outcome", "p_yes", words=("no", "yes"), seed=1)
    frame = pd.read_csv("b.csv")
    frame.assign(p_yes=1 - frame["p_yes"]).rename(columns={"p_yes": "p_no"}).to_csv("c.csv")
    for name, state in (("a", "s"), ("b", "s"), ("a", "t"), ("c", "t")):
        assert main(["monitor", f"{name}.csv", "--state", state]) == 0
    statistics = [monitor_of(here / state).log_statistic_ for state in "st"]
    assert statistics[0] == pytest.approx(statistics[1], abs=1e-12)


def test_a_state_without_names(here, capsys):
    """As of an earlier version, or of arrays: the names of the next file are stored, and said."""
    named("a.csv")
    frame = pd.read_csv("a.csv")
    np.savez("a.npz", y_true=frame["Died"], y_proba=frame["RISK_SCORE"])
    named("b.csv", seed=1)
    named("c.csv", "survived", seed=2)
    assert main(["monitor", "a.npz", "--state", "s"]) == 0
    assert main(["monitor", "b.csv", "--state", "s"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "skcalib: s has no names of columns; from now on they are Died, RISK_SCORE."
    assert main(["monitor", "c.csv", "--state", "s"]) == 2
    assert "'survived', and s has 'Died': start another state" in capsys.readouterr().err
