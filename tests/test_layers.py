"""A module imports only from strictly lower layers: read from the source, not from memory."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import skcalib

ROOT = Path(skcalib.__file__).parent

LAYERS = {
    "skcalib._array_api": -1,
    "skcalib._jobs": -1,
    "skcalib._version": 0,
    "skcalib._labels": 0,
    "skcalib._guesses": 0,
    "skcalib._column_names": 0,
    "skcalib._tables": 1,
    "skcalib._texts": 0,
    "skcalib._checks": 1,
    "skcalib.divergences": 1,
    "skcalib.bounds": 2,
    "skcalib.kernels": 2,
    "skcalib.plugging": 2,
    "skcalib.scores": 2,
    "skcalib.links": 2,
    "skcalib._simulators": 3,
    "skcalib.generalization": 3,
    "skcalib.smoothers": 3,
    "skcalib.notions": 3,
    "skcalib.tower": 3,
    "skcalib.trees": 3,
    "skcalib.datasets": 4,
    "skcalib.errors": 4,
    "skcalib.recalibration": 5,
    "skcalib.integrated_index": 5,
    "skcalib.hypothesis": 5,
    "skcalib.intervals": 4,
    "skcalib.reading": 5,
    "skcalib.responses": 5,
    "skcalib.streaming": 5,
    "skcalib.inspector": 6,
    "skcalib.trainer": 6,
    "skcalib.selection": 6,
    "skcalib.corp_inference": 6,
    "skcalib.slopes": 6,
    "skcalib.error_intervals": 6,
    "skcalib.improvement": 6,
    "skcalib.supersample": 6,
    "skcalib.regression": 6,
    "skcalib.estimators": 7,
    "skcalib.grouping": 7,
    "skcalib.crossfit": 7,
    "skcalib.recalibrated": 7,
    "skcalib.summary": 7,
    "skcalib.scorers": 8,
    "skcalib.displays": 8,
    "skcalib.report": 9,
    "skcalib.testing": 9,
    "skcalib": 10,
    "skcalib.__main__": 11,
}
#: The order inside packages; those that are not listed here must be free of cycles.
INNER = {
    "skcalib.smoothers._base": 0,
    "skcalib.smoothers._curve": 0,
    "skcalib.smoothers._kernel_sums": 0,
    "skcalib.smoothers._tiles": 0,
    "skcalib.smoothers._canonical": 1,
    "skcalib.smoothers.partition": 1,
    "skcalib.smoothers.crossfit": 1,
    "skcalib.smoothers._bandwidth": 0,
    "skcalib.smoothers._beta_plan": 0,
    "skcalib.smoothers._emptiness": 0,
    "skcalib.smoothers._beta": 2,
    "skcalib.smoothers.kernel": 3,
    "skcalib.smoothers.neighbors": 1,
    "skcalib.smoothers.isotonic": 2,
    "skcalib.smoothers.logit": 2,
    "skcalib.smoothers.median": 2,
    "skcalib.smoothers.spline": 2,
    "skcalib.errors._residual_kernel": 0,
    "skcalib.errors._binary_events": 0,
    "skcalib.errors._corp_bands": 0,
    "skcalib.errors._terms": 0,
    "skcalib.errors._bins": 0,
    "skcalib.errors._events": 0,
    "skcalib.errors._folded": 0,
    "skcalib.errors.binned": 1,
    "skcalib.errors.bounds": 1,
    "skcalib.errors.corp": 1,
    "skcalib.errors.cumulative": 1,
    "skcalib.errors.general": 1,
    "skcalib.errors.kernel_error": 1,
    "skcalib.errors._representation": 1,
    "skcalib.errors.decomposition": 1,
    "skcalib.errors.embedding_error": 2,
    "skcalib.errors.proper": 2,
}
#: Private modules that draw: matplotlib at their top, and imported inside functions only.
DRAWING = (
    "skcalib.displays._legends",
    "skcalib.displays._plotting",
    "skcalib.displays._probability_scale",
)
NUMPY_AND_SCIPY_ONLY = (
    "skcalib.divergences",
    "skcalib.kernels",
    "skcalib.scores",
    "skcalib.links",
    "skcalib.tower",
)
MAY_DRAW = ("skcalib.displays", "skcalib.report")


def module_name(path, root=ROOT):
    parts = ("skcalib", *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(source, module, *, is_package):
    """Names of what a source imports, as dotted paths, each with whether it is at the top level."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        top = id(node) not in inside
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, top
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                yield f"{base}.{alias.name}", top


def resolve(path, modules):
    """The module that a dotted path leads to: the longest prefix that is one."""
    while path not in modules and "." in path:
        path = path.rpartition(".")[0]
    return path


def unit(module):
    """The module or package that has a layer."""
    name = module if module in LAYERS else ".".join(module.split(".")[:2])
    assert name in LAYERS, f"{name} has no layer: give it one, here and in doc/design.rst"
    return name


def violations(module, source, *, is_package=False, modules=SOURCES):
    """Sentences about the imports of one module that break a rule; empty if all is well."""
    found = []
    for path, top in imports(source, module, is_package=is_package):
        outer = path.split(".")[0]
        if outer == "skcalib":
            found += _upward(module, resolve(path, modules), is_package=is_package)
            if top and resolve(path, modules) in DRAWING and module not in DRAWING:
                found.append(f"{module} imports {path} outside of a function")
        elif unit(module) in NUMPY_AND_SCIPY_ONLY and outer not in {
            "numpy",
            "scipy",
            *sys.stdlib_module_names,
        }:
            found.append(f"{module} imports {path}, but may use numpy and scipy only")
        if outer == "matplotlib" and top and module not in DRAWING:
            found.append(f"{module} imports {path} outside of a function")
        if outer == "matplotlib" and unit(module) not in MAY_DRAW:
            found.append(f"{module} imports {path}, but only displays and report may draw")
        if outer == "sklearn" and any(part.startswith("_") for part in path.split(".")):
            found.append(f"{module} imports {path}, which is private to scikit-learn")
    return found


def _upward(module, imported, *, is_package):
    if unit(imported) == unit(module) and unit(module) != "skcalib":
        if imported == unit(module):
            return [f"{module} imports its own package {imported}"]
        if is_package:
            return []  # a package gathers its modules
        if module in INNER and INNER[imported] >= INNER[module]:
            return [f"{module} imports {imported}, which is not below it in their package"]
        return []
    if LAYERS[unit(imported)] >= LAYERS[unit(module)]:
        return [f"{module} imports {imported}, which is not in a lower layer"]
    return []


def test_every_module_has_a_layer():
    assert all(unit(module) in LAYERS for module in SOURCES)
    with_order = {unit(module) for module in INNER}
    listed = {m for m in SOURCES if unit(m) in with_order and m not in LAYERS}
    assert listed == set(INNER)


@pytest.mark.parametrize("module", SOURCES)
def test_imports(module):
    path = SOURCES[module]
    source = path.read_text(encoding="utf-8")
    assert violations(module, source, is_package=path.name == "__init__.py") == []


def test_importing_the_library_does_not_import_matplotlib():
    code = "import sys, skcalib; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_cycles():
    graph = {}
    for module, path in SOURCES.items():
        found = imports(path.read_text("utf-8"), module, is_package=path.name == "__init__.py")
        graph[module] = {resolve(p, SOURCES) for p, _ in found if p.split(".")[0] == "skcalib"}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(SOURCES)


@pytest.mark.parametrize(
    ("module", "source", "word"),
    [
        ("skcalib.scores", "from skcalib.tower import weighted_mean", "lower layer"),
        ("skcalib.scores", "from .tower import weighted_mean", "lower layer"),
        ("skcalib.scores", "def f():\n    import skcalib.errors.proper", "lower layer"),
        ("skcalib.tower", "from skcalib import Brier", "lower layer"),
        ("skcalib.notions", "from skcalib.tower import weighted_mean", "lower layer"),
        ("skcalib.smoothers.isotonic", "from skcalib.smoothers.kernel import f", "not below it"),
        ("skcalib.smoothers.kernel", "from skcalib.smoothers import Smoother", "own package"),
        ("skcalib.smoothers.kernel", "from . import Smoother", "own package"),
        ("skcalib.tower", "from sklearn.base import clone", "numpy and scipy only"),
        ("skcalib.displays", "import matplotlib.pyplot as plt", "outside of a function"),
        ("skcalib.displays.x", "from skcalib.displays import _plotting", "outside of a function"),
        ("skcalib.errors.proper", "def f():\n    import matplotlib", "may draw"),
        ("skcalib._checks", "from sklearn.utils import _param_validation", "private"),
        ("skcalib._checks", "from sklearn.utils._response import f", "private"),
    ],
)
def test_the_reader_finds_planted_violations(module, source, word):
    assert word in " ".join(violations(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("skcalib.tower", "from skcalib.scores import Brier"),
        ("skcalib.report", "def f():\n    import matplotlib.pyplot as plt"),
        ("skcalib.errors.proper", "from skcalib.errors._terms import check_loss"),
        ("skcalib.__main__", "from skcalib import CalibrationReport"),
        ("skcalib.estimators", "from skcalib import datasets"),
    ],
)
def test_the_reader_allows_what_is_allowed(module, source):
    assert violations(module, source) == []
