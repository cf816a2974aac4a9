"""The examples of extension run: the documentation includes these very files."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "extend"
FILES = sorted(FOLDER.glob("add_a_*.py"))
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the examples are not here")


def test_every_protocol_has_an_example():
    names = {path.stem.removeprefix("add_a_") for path in FILES}
    protocols = {"display", "kernel", "link", "notion", "recalibrator", "score", "smoother"}
    assert names == protocols | {"calibration_error"}


@pytest.mark.slow  # the gallery of the documentation runs them, too
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_page_includes_the_file(path):
    page = FOLDER.parents[1] / "doc" / "extend" / f"{path.stem}.rst"
    if not page.parent.exists():
        pytest.skip("the documentation is not here")
    assert f"literalinclude:: ../../examples/extend/{path.name}" in page.read_text()


@pytest.mark.slow
def test_one_of_each_can_be_added_to_the_library():
    """In a copy, as a contributor would; the script says what failed."""
    script = FOLDER.parents[1] / "doc" / "extend" / "add_one_of_each.py"
    if not script.exists():
        pytest.skip("the documentation is not here")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("tests passed") == len(FILES) + 3  # the laws of each; completeness
