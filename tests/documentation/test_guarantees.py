"""The page of guarantees names tests: they exist, and each line of its tables has one."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from sources import PATHS, nodes_of, tree_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "doc" / "user_guide" / "guarantees.rst"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


def rows():
    """Cells (what is guaranteed, what holds it) of all tables, without the headers."""
    text = PAGE.read_text(encoding="utf-8")
    cells = re.findall(r"^   \* - (.+?)\n     - (.+?)(?=\n   \* -|\n\n|\Z)", text, re.S | re.M)
    return [cell for cell in cells if cell[0] != "Guaranteed"]


def named(text):
    return re.findall(r"``(test_\w+\.py)::(test_\w+)``", text)


@pytest.mark.parametrize(("guarantee", "held_by"), rows(), ids=lambda cell: cell[:40])
def test_each_line_names_tests_that_exist_with_their_marks(guarantee, held_by):
    pattern = r"``(test_\w+\.py)::(test_\w+)``((?: \(slow\)| \(optional\))*)"
    assert not named(guarantee) and named(held_by)
    without = re.sub(pattern, "", held_by)
    assert not without.strip(" ,\n"), f"this is no name of a test: {without}"
    for file, test, stated in re.findall(pattern, held_by):
        (path,) = (ROOT / "tests").rglob(file)
        assert marks_of(path, test) == set(re.findall(r"\((\w+)\)", stated)), test


def marks_of(path, test):
    """ "slow" for a test that is, and "optional" for one that may be skipped, by its source."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    marks = [text for text in map(ast.unparse, tree.body) if text.startswith("pytestmark = ")]
    kinds, todo = set(), [test]
    while todo:
        function = functions[todo.pop()]
        todo += [argument.arg for argument in function.args.args if argument.arg in functions]
        marks += [ast.unparse(decorator) for decorator in function.decorator_list]
        if re.search(r"pytest\.(skip|importorskip)\(", ast.unparse(function)):
            kinds.add("optional")
    if any("mark.slow" in mark and "param(" not in mark for mark in marks):
        kinds.add("slow")
    if any("mark.skip" in mark and "param(" not in mark for mark in marks):
        kinds.add("optional")
    return kinds


def test_the_page_is_read():
    text = PAGE.read_text(encoding="utf-8")
    assert len(rows()) > 40
    assert sum(len(named(held_by)) for _, held_by in rows()) == len(named(text)) > 60
    parts = ("Inputs", "Hostile", "Errors", "Determinism", "Versions", "Serial", "Security")
    for part in (*parts, "Scale", "Arrays"):
        assert re.search(rf"^{part}.*\n=+$", text, re.M), part


def test_the_lowest_versions_are_those_of_pyproject():
    """The pins of .ci/lowest are the lower bounds that the package declares."""
    script = ROOT / ".ci" / "lowest"
    if not script.exists():
        pytest.skip("the scripts are not here")
    pins = dict(re.findall(r'^    "([\w-]+)==([\d.]+)\.\*"', script.read_text(), re.M))
    assert {"scikit-learn", "numpy", "scipy", "matplotlib", "pandas"} <= set(pins)
    declared = (ROOT / "pyproject.toml").read_text()
    for name, version in pins.items():
        bound = re.search(rf'"{name}>=([\d.]+)"', declared).group(1)
        assert bound == version or bound.startswith(f"{version}."), name
    stated = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    for name in ("scikit-learn", "numpy", "scipy", "matplotlib", "pandas"):
        assert f"{name} {pins[name]}" in stated


def test_only_declared_dependencies_are_imported():
    """All of them, when a module is imported; what is imported inside functions is optional."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("the project is not here")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    declared = {
        re.match(r"[\w-]+", requirement)[0].replace("scikit-learn", "sklearn")
        for requirement in needed
    }
    optional = {"dask", "narwhals", "onnx", "pandas", "polars", "pyarrow"}
    imported = {True: set(), False: set()}
    for path in PATHS:
        for node in nodes_of(path):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            if names:
                imported[node in tree_of(path).body].update(
                    name.partition(".")[0] for name in names
                )
    # drawing methods import matplotlib
    assert imported[True] - sys.stdlib_module_names - {"skcalib"} == declared - {"matplotlib"}
    assert imported[False] - sys.stdlib_module_names - {"skcalib"} - declared <= optional
