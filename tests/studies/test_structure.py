"""The study of the structure counts what it says, and the guide names functions that exist."""

import ast
import re
from pathlib import Path

import pytest
from doc_studies import load, needs_studies

import skcalib

structure = load("structure")
pytestmark = needs_studies
DESIGN = Path(__file__).parents[2] / "doc" / "design.rst"


@pytest.mark.slow
def test_no_list_of_errors_by_hand():
    assert structure.lists_of_errors(structure.sources()) == 0


def test_what_is_planted_is_counted():
    module = structure.ROOT / "displays" / "x.py"
    source = '''
"""l1, l2, max, ks are named here."""
from skcalib.displays.y import f

FOUR = {"l1": 1, "l2": 2, "max": 3, "ks": 4}
THREE = ["l1", "l2", "max"]

class Display:
    @classmethod
    def from_predictions(cls):
        pass
'''
    second_module = structure.ROOT / "displays" / "y.py"
    trees = {module: ast.parse(source), second_module: ast.parse("from skcalib.displays import x")}
    assert structure.lists_of_errors(trees) == 1
    assert structure.lines_of_constructors(trees) == 3
    assert structure.n_circles(trees) == 1
    trees[second_module] = ast.parse("def f(): pass")
    assert structure.n_circles(trees) == 0


def test_functions_that_the_design_names_exist():
    """Names such as ``proper_terms.solve_notion`` and ``labels.check_y``, of any module."""
    text = DESIGN.read_text(encoding="utf-8").partition("Five calls, step by step")[2]
    text = text.partition("Why held-out estimates")[0]
    names = re.findall(r"``([\w.]+)``", text)
    paths = list(Path(skcalib.__file__).parent.rglob("*.py"))
    defined = {path.stem for path in paths}
    for path in paths:
        defined.update(re.findall(r"(?:def|class) (\w+)", path.read_text("utf-8")))
    called = {name.rpartition(".")[2] for name in names} - {"debiased"}  # a parameter
    assert len(called) > 30 and called <= defined, called - defined


def test_files_that_the_design_names_exist():
    """The table "Where is it?": each name is a path in the package, or beside the one before it."""
    text = DESIGN.read_text(encoding="utf-8").partition("Where is it?")[2].partition("Rules\n")[0]
    names = re.findall(r"``([\w/]+\.py)``", text)
    paths = [path.relative_to(structure.ROOT).as_posix() for path in structure.ROOT.rglob("*.py")]
    assert len(names) > 25
    assert [
        name for name in names if not any(f"/{path}".endswith(f"/{name}") for path in paths)
    ] == []
