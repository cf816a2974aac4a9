"""The scripts of `doc/benchmarks`: all are run together, and their rows fail at half of a goal."""

import ast
import json
from pathlib import Path

import pytest
from doc_studies import imported

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "doc" / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs the folder doc")
SCRIPTS = sorted(path.name for path in FOLDER.glob("[!_]*.py") if path.name != "run_all.py")
measure = imported("_measure", folder=FOLDER)
run_all = imported("run_all", "_measure", folder=FOLDER)


def test_run_all_knows_each(run_all):
    assert sorted(run_all.SCRIPTS) == SCRIPTS
    without = [name for name in SCRIPTS if '"--quick"' not in (FOLDER / name).read_text()]
    assert sorted(run_all.WITHOUT_QUICK) == without


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_compile_and_end_with_rows(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    tree = ast.parse(text, name)
    compile(tree, name, "exec")
    assert f"python doc/benchmarks/{name}" in ast.get_docstring(tree)
    main = next(node for node in tree.body if getattr(node, "name", None) == "main")
    assert ast.unparse(main.body[-1]).startswith("finish(")
    assert "/work" not in text  # no folder of one machine


def test_rows_fail_at_half_of_their_goal(measure, monkeypatch, tmp_path, capsys):
    Row = measure.Row
    results = ["passed", "missed", "missed", "FAILED"]
    assert [Row("a", x, 60, least=True).result for x in (60, 59, 30, 29)] == results
    assert [Row("a", x, 3.0).result for x in (3, 3.1, 6, 6.1)] == results
    assert [Row("a", x, 1e-9, strict=True).result for x in (1e-9, 1.1e-9)] == ["passed", "FAILED"]
    assert [Row("a", x, 3, limit=40).result for x in (39, 41)] == ["missed", "FAILED"]
    written = tmp_path / "rows.json"
    monkeypatch.setenv(measure.ROWS, str(written))
    slow = Row("b", 20.0, 60.0, "times", least=True)
    measure.finish([slow], quick=True)  # ratios of small problems do not fail
    assert "b     at least 60 times  20 times  FAILED" in capsys.readouterr().out
    assert [Row(**row) for row in json.loads(written.read_text())] == [slow]
    with pytest.raises(AssertionError, match="b: 20 times, goal at least 60 times"):
        measure.finish([slow])
    with pytest.raises(AssertionError, match="c: 2, goal at most 1"):
        measure.finish([Row("c", 2.0, 1.0, strict=True)], quick=True)


def test_the_guide_has_the_table(measure):
    """With its columns."""
    lines = (ROOT / "doc/user_guide/benchmarks.rst").read_text(encoding="utf-8").splitlines()
    start, _, stop = (i for i, line in enumerate(lines) if set(line) == {"=", " "})
    assert lines[start + 1].split() == measure.table([]).splitlines()[1].split()
    rows = lines[start + 3 : stop]
    assert len(rows) > 2 * len(SCRIPTS)
    assert {row.split()[-1] for row in rows} <= {"passed", "missed", "FAILED"}
