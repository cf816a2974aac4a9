import subprocess
import sys

import numpy as np
import pytest

import skcalib
from skcalib.__main__ import main
from skcalib.datasets import make_tempered_simplex


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demonstration(here, capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "Calibration report: random forest on held-out digits" in out
    assert "Miscalibrated: under-confident." in out
    assert "<svg" in (here / "skcalib-report.html").read_text(encoding="utf-8")


def test_report_of_a_file(here, capsys):
    data = make_tempered_simplex(500, 3, random_state=0)
    np.savez("p.npz", y_true=data.y, y_proba=data.y_proba.astype(np.float32))
    assert main(["report", "p.npz", "--out", "page.html", "--name", "toy"]) == 0
    assert "Calibration report: toy" in capsys.readouterr().out
    assert (here / "page.html").exists()


def test_features_in_a_file_and_options(here, capsys):
    data = make_tempered_simplex(300, 2, random_state=0)
    np.savez("p.npz", y_true=data.y, y_proba=data.y_proba[:, 1], X=data.y_proba)
    options = ["--random-state", "3", "--n-jobs", "2", "--verbose"]
    assert main(["report", "p.npz", *options]) == 0
    out, err = capsys.readouterr()
    assert "[CalibrationReport] p: grouping loss" in err and "[CalibrationReport]" not in out
    assert "What calibration cannot see" in out and "random_state = 3" in " ".join(out.split())


def test_several_files_are_compared(here, capsys):
    data = make_tempered_simplex(300, 3, random_state=0)
    np.savez("raw.npz", y_true=data.y, y_proba=data.y_proba)
    np.savez("truth.npz", y_true=data.y, y_proba=data.posterior)
    assert main(["report", "raw.npz", "truth.npz"]) == 0
    out = capsys.readouterr().out
    assert "Calibration of 2 models\nraw, truth: the same 300 samples" in out
    assert "Is the difference real?" in (here / "skcalib-report.html").read_text(encoding="utf-8")
    assert main(["report", "raw.npz", "raw.npz", "--name", "one", "--name", "two"]) == 0
    assert "No clear difference." in capsys.readouterr().out
    for arguments, message in [
        (["raw.npz", "raw.npz"], "Two files have the same name"),
        (["raw.npz", "truth.npz", "--name", "one"], "There are 2 files, but 1 names"),
    ]:
        assert main(["report", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_rounded_probabilities_are_normalized_on_request(here, capsys):
    data = make_tempered_simplex(200, 4, random_state=0)
    rows = [
        f"{y},{','.join(f'{v:.2f}' for v in p)}" for y, p in zip(data.y, data.y_proba, strict=True)
    ]
    (here / "p.csv").write_text("\n".join(["y,p_0,p_1,p_2,p_3", *rows]))
    assert main(["report", "p.csv"]) == 2
    error = capsys.readouterr().err
    assert "must sum to 1" in error and "--normalize" in error
    assert main(["report", "p.csv", "--normalize"]) == 0
    np.savez("logits.npz", y_true=data.y, y_proba=np.log(data.y_proba))
    capsys.readouterr()
    assert main(["report", "logits.npz", "--normalize"]) == 2
    assert "--normalize is for rounding" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "absent.npz"], "absent.npz is not a file"),
        (["report", "bad.csv"], "Each row of y_proba must sum to 1"),
        (["report", "good.csv", "--confidence-level", "95"], "confidence_level must lie"),
        (["report", "good.csv", "--out", "nowhere/page.html"], "No such file"),
        (["report", "wide.csv"], "'age' with values outside [0, 1]"),
        (["report", "hole.csv"], "hole.csv has an empty cell in row 3, column 'b'"),
        (["report", "long.npz", "--label-column", "y"], "A label column ('y') is for tables"),
        (["report", "long.npz"], "X and y_true must have the same number of samples"),
    ],
)
def test_errors_are_one_sentence_and_status_2(here, capsys, arguments, message):
    (here / "bad.csv").write_text("y,a,b\na,0.5,0.6\nb,0.2,0.2\n")
    (here / "good.csv").write_text("y,a,b\na,0.5,0.5\nb,0.2,0.8\nb,0.4,0.6\n")
    (here / "wide.csv").write_text("y,a,b,age\na,0.5,0.5,33\nb,0.2,0.8,44\n")
    (here / "hole.csv").write_text("y,a,b\na,0.5,0.5\nb,0.2,\n")
    np.savez("long.npz", y_true=[0, 1], y_proba=[0.2, 0.6], X=np.zeros((3, 1)))
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("skcalib: ") and message in captured.err
    assert captured.err.count("\n") == 1


def test_a_file_without_a_command(here, capsys):
    np.savez("p.npz", y_true=[0, 1], y_proba=[0.2, 0.6])
    for name in ("p.npz", "absent.csv"):
        assert main([name]) == 2
        assert capsys.readouterr().err == f"skcalib: which command? Try: skcalib report {name}\n"


def test_stages_are_told_at_a_terminal_only(here, capsys, monkeypatch):
    data = make_tempered_simplex(100, 2, random_state=0)
    np.savez("p.npz", y_true=data.y, y_proba=data.y_proba[:, 1])
    assert main(["report", "p.npz"]) == 0
    piped = capsys.readouterr()
    assert piped.err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["report", "p.npz"]) == 0
    shown = capsys.readouterr()
    assert shown.out == piped.out
    stages = ("calibration errors", "kernel test", "recalibrators", "page")
    assert all(f": {one}, " in shown.err for one in stages)


def test_wrong_usage_and_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["unknown"])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert skcalib.__version__ in capsys.readouterr().out


def test_python_dash_m(here):
    done = subprocess.run(
        [sys.executable, "-m", "skcalib", "report", "absent.npz"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "skcalib: absent.npz is not a file.\n"
