"""A plugin of pytest: which tests reach each line of the library, and how long they take.

    python -m pytest -p reached_lines   # with .ci in PYTHONPATH, and a folder in REACHED_LINES

The library is imported with a call before each statement of a function, which adds the line to a
set: this takes a tenth of the time of the tests, where a tracer takes as long as they do. Each
process writes files of its own into the folder; `read` joins them. Lines of a fixture are reached
by all tests that use it. A test that fails is left out: it says nothing about a changed line.
REACHED_BY is a file with names of tests; without it all run.
"""

import ast
import builtins
import json
import os
import sys
import time
from array import array
from collections import defaultdict
from importlib.machinery import PathFinder, SourceFileLoader
from itertools import islice
from pathlib import Path

import pytest

LIBRARY, MOST_LINES = "skcalib", 100_000
#: Files of the library in the order of import, and numbers of lines: those of the second file
#: begin at MOST_LINES.
FILES, LINES = [], set()
#: Lines of the fixtures of modules, by the identity of their values. One that is used again, after
#: its fixture is gone, only adds lines to a test.
SHARED = {}


class Marked(ast.NodeTransformer):
    """Puts a call before each statement of a function, but not before its docstring."""

    def __init__(self, first):
        self.first, self.depth = first, 0

    def visit_FunctionDef(self, node):
        self.depth += 1
        super().generic_visit(node)
        self.depth -= 1
        return self.marked(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def generic_visit(self, node):
        super().generic_visit(node)
        return self.marked(node) if isinstance(node, ast.stmt) else node

    def marked(self, node):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not self.depth or is_text:
            return node
        line = ast.Constant(self.first + node.lineno)
        call = ast.Expr(ast.Call(ast.Name("__reached__", ast.Load()), [line], []))
        return [ast.fix_missing_locations(ast.copy_location(call, node)), node]


class MarkedLoader(SourceFileLoader):
    """Reads a module with marked statements; nothing is read from or written to __pycache__."""

    def get_code(self, fullname):
        tree = ast.parse(self.get_data(self.path))
        first = MOST_LINES * len(FILES)
        FILES.append(self.path[self.path.rindex(f"/{LIBRARY}/") + 1 :])
        return compile(Marked(first).visit(tree), self.path, "exec")


class Finder:
    """Finds the modules of the library."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname.partition(".")[0] != LIBRARY:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = MarkedLoader(fullname, spec.origin)
        return spec


def pytest_load_initial_conftests():
    """Before anything imports the library."""
    builtins.__reached__ = LINES.add
    sys.meta_path.insert(0, Finder)


def pytest_configure(config):
    config.reached, config.reached_seconds, config.reached_failed = {}, {}, set()


def pytest_collection_modifyitems(items):
    if path := os.environ.get("REACHED_BY"):
        names = set(Path(path).read_text(encoding="utf-8").splitlines())
        items[:] = [one for one in items if one.nodeid in names]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    config, started = item.config, time.perf_counter()
    LINES.clear()
    try:
        return (yield)
    finally:
        if item.nodeid not in config.reached_failed:
            config.reached_seconds[item.nodeid] = time.perf_counter() - started
            config.reached[item.nodeid] = array("I", LINES)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """Note the lines of a fixture that several tests may share."""
    before = set(LINES)
    LINES.clear()
    try:
        value = yield
        if fixturedef.scope != "function" and value is not None:
            SHARED[id(value)] = set(LINES)
        return value
    finally:
        LINES.update(before)


def pytest_runtest_call(item):
    for value in getattr(item, "funcargs", {}).values():
        LINES.update(SHARED.get(id(value), ()))


def pytest_runtest_makereport(item, call):
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        item.config.reached_failed.add(item.nodeid)


def pytest_unconfigure(config):
    path = Path(os.environ["REACHED_LINES"]) / f"{os.getpid()}.lines"
    with path.open("wb") as file:
        for lines in config.reached.values():
            lines.tofile(file)
    lengths = [len(lines) for lines in config.reached.values()]
    text = json.dumps([FILES, lengths, config.reached_seconds])
    path.with_suffix(".json").write_text(text, encoding="utf-8")


def read(folder):
    """Tests that pass and reach each line, {file: {line: {test, ...}}}, and their seconds."""
    seconds, found = {}, defaultdict(lambda: defaultdict(set))
    for path in Path(folder).glob("*.json"):
        files, lengths, own = json.loads(path.read_text(encoding="utf-8"))
        seconds |= own
        lines = array("I", path.with_suffix(".lines").read_bytes())
        values = iter(lines)
        for test, length in zip(own, lengths, strict=True):
            for value in islice(values, length):
                number, line = divmod(value, MOST_LINES)
                found[files[number]][line].add(test)
    return found, seconds
