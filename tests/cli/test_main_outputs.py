"""What the command line writes, what it never overwrites, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from skcalib import CalibrationReport, ComparisonReport, ForecastSketch
from skcalib.__main__ import main

HOSTILE = "red\x1b[31m\n\r\x00\x9b\u2028\u202eend"
ESCAPED = r"red\x1b[31m\n\r\x00\x9b\u2028\u202eend"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


@pytest.fixture
def here(here):
    """A folder with predictions in three formats."""
    np.savez("p.npz", y_true=[0, 1, 1, 0], y_proba=[0.2, 0.6, 0.7, 0.4])
    (here / "p.csv").write_text("y,p\n0,0.25\n1,0.5\n")
    sketch = ForecastSketch([0, 1]).fit([0, 1], [0.25, 0.5])
    (here / "p.sketch").write_bytes(sketch.to_bytes())
    return here


class Quick:
    """Stands for a report that takes no time."""

    text = "the report"
    problem = SimpleNamespace(classes=np.arange(2))

    def to_text(self, *, details=False):
        return self.text

    to_html = CalibrationReport.to_html

    def _document(self):
        return self.document


@pytest.fixture(scope="module", autouse=True)
def document():
    """The document of a true report, made once."""
    report = CalibrationReport.from_predictions([0, 1, 1, 0], [0.2, 0.6, 0.7, 0.4], name="toy")
    Quick.document = replace(report._document(), opening=(), sections=())


@pytest.fixture
def quick(monkeypatch):
    """Reports take no time; the list has one entry for each."""
    made = []

    def make(*_, **options):
        made.append(options)
        return Quick()

    for name in ("from_predictions", "from_sketch", "from_estimator"):
        monkeypatch.setattr(CalibrationReport, name, make)
    monkeypatch.setattr("skcalib.cli.commands.load_digits", partial(load_digits, n_class=2))
    return made


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("name", ["p.npz", "p.csv", "p.sketch"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_predictions_are_never_overwritten(here, quick, printed, name, force):
    (here / "other.csv").write_text("y,p\n0,0.25\n")
    (here / "link.html").symlink_to(here / name)
    os.link(here / name, here / "hard.html")
    before = content(here)
    suffix = "--out must be a name that ends in .html, a folder or -, got {}: no other file is"
    overwriting = "--out {} is a file of predictions, which is not overwritten: choose"
    for out, said in [
        *(
            (place, suffix)
            for place in (name, str(here / name), "other.csv", "new.csv", os.devnull)
        ),
        *((place, overwriting) for place in ("link.html", "hard.html")),
    ]:
        assert said.format(out) in printed(["report", name, "--out", out, *force], 2).err
    assert main(["report", "p.npz", "p.csv", "--out", "p.csv", *force]) == 2
    assert not quick and content(here) == before


def test_only_reports_are_overwritten(here, quick, printed):
    pages = {"notes.html": b"notes", "page.html": b"<!DOCTYPE html>\n<p>", "empty.html": b""}
    for name, content in pages.items():
        (here / name).write_bytes(content)
        for command in (["report", "p.npz"], []):
            assert printed([*command, "--out", name], 2).err == (
                f"skcalib: {name} exists and is not a report of skcalib: choose another name, or "
                "replace it with --force.\n"
            )
            assert (here / name).read_bytes() == content
    assert not quick
    for _ in range(2):  # a report is replaced by the next one
        assert main(["report", "p.npz", "--out", "new.html"]) == 0
    assert main(["report", "p.npz", "--out", "notes.html", "--force"]) == 0
    assert main(["--force", "--out", "page.html", "report", "p.npz"]) == 0
    for name in ("notes.html", "page.html", "new.html"):
        assert "<title>Calibration report: toy" in (here / name).read_text()
    assert main(["--out", "page.html"]) == 0


def test_a_folder_standard_output_and_options_before_the_command(here, quick, capsys, printed):
    (here / "pages").mkdir()
    for command in (["report", "p.npz"], []):
        assert main([*command, "--out", "pages"]) == 0
        assert content(here / "pages").keys() == {"skcalib-report.html"}
    before = content(here)
    capsys.readouterr()
    said = printed(["report", "p.npz", "--out", "-"]).out
    assert said.startswith("<!DOCTYPE html>") and said.endswith("</html>\n")
    assert content(here) == before
    assert main(["--out", "first.html", "report", "p.npz"]) == 0
    assert main(["--out", "no.html", "report", "p.npz", "--out", "second.html"]) == 0
    assert content(here).keys() - before.keys() == {"first.html", "second.html"}


def test_symbolic_links_are_not_followed(here, quick, printed):
    (here / "data").write_text("data")
    for name, target in (("link.html", "data"), ("dangling.html", "nothing")):
        (here / name).symlink_to(here / target)
        assert (
            f"{name} is a symbolic link: choose"
            in printed(["report", "p.npz", "--out", name], 2).err
        )
        assert main(["report", "p.npz", "--out", name, "--force"]) == 0
        assert not (here / name).is_symlink()
    assert (here / "data").read_text() == "data" and not (here / "nothing").exists()


def test_the_folder_is_checked_first(here, quick, printed):
    """Before the predictions are read, which are damaged here."""
    (here / "p.npz").write_bytes(b"damaged")
    (here / "a.html" / "skcalib-report.html").mkdir(parents=True)
    for out, message in (
        ("nowhere/page.html", "nowhere/page.html cannot be written: nowhere is not a folder."),
        ("p.csv/page.html", "p.csv/page.html cannot be written: p.csv is not a folder."),
        ("a.html", "a.html/skcalib-report.html cannot be written: it is a folder."),
    ):
        for command in (["report", "p.npz"], []):
            assert printed([*command, "--out", out], 2).err == f"skcalib: {message}\n"
    assert not quick


def test_sketches_that_are_saved(here, quick, printed):
    notes = 'a log of "kind": "ForecastSketch"'  # as an archive of skcalib has it inside
    (here / "notes.sketch").write_text(notes)
    for option, message in [
        ("notes.sketch", "notes.sketch exists and is not a sketch of skcalib: choose"),
        ("nowhere/new.sketch", "nowhere is not a folder"),
        ("p.csv", "--save-sketch p.csv is a file of predictions"),
    ]:
        assert message in printed(["report", "p.csv", "--save-sketch", option], 2).err
    assert not quick and (here / "notes.sketch").read_text() == notes
    assert main(["report", "p.csv", "--save-sketch", "p.sketch"]) == 0  # an earlier sketch
    assert main(["report", "p.csv", "--save-sketch", "notes.sketch", "--force"]) == 0
    assert (here / "notes.sketch").read_bytes() == (here / "p.sketch").read_bytes()


@pytest.mark.parametrize(
    "place", ["skcalib.cli.commands.report_of_files", "os.fsync", "test_main_outputs.Quick.to_text"]
)
def test_ctrl_c(here, quick, printed, monkeypatch, place):
    def stop(*_, **__):
        raise KeyboardInterrupt

    earlier = b'<!DOCTYPE html>\n<meta name="generator" content="skcalib">\n<title>'
    (here / "page.html").write_bytes(earlier)
    before = content(here)
    monkeypatch.setattr(place, stop)
    assert printed(["report", "p.npz", "--out", "page.html"], 130) == (
        "",
        "skcalib: interrupted.\n",
    )
    assert (content(here) == before) != ("Quick" in place)  # where the new page is complete


@pytest.mark.parametrize("said", [["Unable to allocate 9. TiB"], []])
def test_too_little_memory(here, printed, monkeypatch, said):
    def fail(*_, **__):
        raise MemoryError(*said)

    monkeypatch.setattr(CalibrationReport, "from_predictions", fail)
    error = printed(["report", "p.npz"], 2).err
    assert error.startswith("skcalib: ") and "memory" in error and error.count("\n") == 1
    assert all(words in error for words in said)


class Output(io.TextIOWrapper):
    """Standard output of an encoding, or one that fails."""

    def __init__(self, encoding="utf-8", error=None):
        super().__init__(io.BytesIO(), encoding=encoding)
        self.error = error

    def flush(self):
        super().flush()
        if self.error is not None:
            raise self.error

    def close(self):
        self.error = None  # Python 3.13 reports errors of the finalizer, in another test
        super().close()


@pytest.mark.parametrize("arguments", [["report", "p.npz"], ["--help"], ["--version"]])
def test_standard_output_that_cannot_be_written(here, quick, capsys, monkeypatch, arguments):
    monkeypatch.setattr(sys, "stdout", Output(error=OSError(28, "No space left on device")))
    assert main(arguments) == 2
    said = "skcalib: standard output cannot be written: No space left on device.\n"
    assert capsys.readouterr().err == said


def test_a_reader_that_stops_is_no_error(here, quick, printed, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Output(error=BrokenPipeError(32, "Broken pipe")))
    assert printed(["report", "p.npz"]).err == "" and (here / "skcalib-report.html").exists()
    for stream in ("stdout", "stderr"):  # there may be none
        monkeypatch.setattr(sys, stream, None)
    assert main(["report", "p.npz"]) == 0
    assert main(["report", "absent.npz"]) == 2


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("ascii", r"\xb1 \u2265 \u0434"), ("latin-1", r"± \u2265 \u0434"), ("utf-8", "± ≥ д")],
)
def test_terminals_that_lack_characters(here, quick, monkeypatch, encoding, expected):
    monkeypatch.setattr(Quick, "text", "± ≥ д")
    monkeypatch.setattr(sys, "stdout", Output(encoding))
    assert main(["report", "p.npz"]) == 0
    sys.stdout.seek(0)
    assert sys.stdout.readline() == f"{expected}\n"


@pytest.mark.slow
def test_processes(here, rng):
    """The same with true files, terminals and signals."""

    def run(*arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [sys.executable, "-m", "skcalib", *arguments]
        return subprocess.Popen(command, cwd=here, text=True, **options)

    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = run("report", "p.npz", stdout=full)
            _, said = done.communicate()
        assert done.returncode == 2
        assert said == ("skcalib: standard output cannot be written: No space left on device.\n")
    done = run("report", "p.npz")
    done.stdout.close()
    with done.stderr:
        assert done.wait() == 0 and done.stderr.read() == ""
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    np.savez("u.npz", y_true=["\u00b1", "b"], y_proba=[0.5, 0.2], labels=["b", "\u00b1"])
    done = run("report", "u.npz", env={**os.environ, **plain})
    out, said = done.communicate()
    assert (done.returncode, said) == (0, "") and r"\xb1" in out
    os.remove("skcalib-report.html")
    proba = rng.dirichlet(np.ones(10), 50_000)
    np.savez("large.npz", y_true=proba.argmax(axis=1), y_proba=proba)
    for waits in ("", "skcalib: "):  # during imports, and during the computation
        done = run("report", "large.npz", "--verbose")
        if waits:
            assert waits in done.stderr.readline()
        else:
            time.sleep(1)
        done.send_signal(signal.SIGINT)
        out, said = done.communicate()
        assert done.returncode in (130, -signal.SIGINT) and out == ""
        assert "Traceback" not in said
    assert "skcalib-report.html" not in os.listdir(here)


def test_control_characters_are_escaped(tmp_path, rng, few_maps):
    """Of reports in which every name that a user gives has such characters."""
    p, region = rng.uniform(0.2, 0.8, 600), rng.integers(2, size=600)
    y = (rng.random(600) < p + np.where(region, -0.3, 0.3)).astype(int)
    regions = np.array([f"{HOSTILE}a", f"{HOSTILE}b"])[region]
    X = pd.DataFrame({f"{HOSTILE}f": rng.random(600), f"{HOSTILE}r": pd.Categorical(regions)})
    labels = np.array([f"{HOSTILE}{k}" for k in range(3)])
    make, pairs = CalibrationReport.from_predictions, np.column_stack([1 - p, p])
    options = {"labels": labels[:2], "by": {"\x1b[1mg": region == 1, "rest": region == 0}}
    two = make(labels[y], pairs, X, name=f"{HOSTILE}\udcff", **options)
    one_category = len(X.iloc[:, 1].cat.categories) == 1  # pandas 2 reads names up to \x00 only
    assert two.findings.named_groups or one_category
    column = make(labels[y], pairs[:, ::-1], name="other", labels=labels[:2])
    proba = rng.dirichlet(np.ones(3), 40)
    three = make(labels[rng.integers(3, size=40)], proba, name=f"{HOSTILE}\udcff", labels=labels)
    for report in (two, three, ComparisonReport({f"{HOSTILE}m": two, f"{HOSTILE}o": column})):
        page = report.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        texts = [report.to_text(details=True), page, report.verdict]
        texts += [repr(report), str(report)]
        assert not any(map(CONTROLS.search, texts))
        assert ESCAPED in texts[0] and ESCAPED in page and "\n" not in repr(report)
        said = report.to_dict()
        for text in (said["headline"], *said["verdict"]):
            assert not CONTROLS.search(text) and "\n" not in text
        json.dumps(said)


def test_control_characters_in_messages(here, capsys):
    name = "a\x1b[31m\n.npz"
    assert main([name]) == 2
    assert main(["report", name]) == 2
    assert main(["report", "p.csv", "--label-column", name]) == 2
    np.savez(name, y_true=[0, 5], y_proba=np.eye(2))
    assert main(["report", name]) == 2
    with pytest.raises(SystemExit):
        main(["report", "p.npz", f"--{name}"])
    said = capsys.readouterr().err
    assert not CONTROLS.search(said) and r"a\x1b[31m" in said
    assert all(line.startswith(("skcalib", "usage", " ")) for line in said.splitlines())
