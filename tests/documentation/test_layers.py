"""A module imports only from strictly lower layers: read from the source, not from memory."""

import ast
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from sources import PATHS, ROOT, parsed, statements, text_of

#: Modules and packages from the lowest layer to the highest, with their task.
# layers: begin
LAYERS = (
    {"_util": "what every package uses: arguments, messages, records, loops"},
    {
        "kernels": "kernels on the simplex",
        "scores": "proper scores and distances, and their means",
    },
    {"data": "labels, forecasts, weights, clusters and features; the problems of a notion"},
    {
        "datasets": "simulators with known truth",
        "io": "predictions from files and tables",
        "links": "parametric maps of logits",
        "sketches": "sums over cells that stand for forecasts",
        "stats": "intervals of means, p-values, laws of statistics, the number of bins",
    },
    {"smoothers": "estimates of conditional expectations"},
    {
        "proper": "proper calibration errors, and the estimates of the calibrated forecast",
        "recalibration": "maps of forecasts, and what they gain",
    },
    {"errors": "other calibration errors of labels and forecasts"},
    {"error_intervals": "an interval for every error"},
    {
        "estimators": "calibration errors of classifiers, and recalibrated classifiers",
        "significance": "tests of calibration, and comparisons",
    },
    {
        "export": "maps as JSON and ONNX",
        "grouping": "the grouping loss, and groups at equal scores",
        "regression": "variances of regressors",
        "theory": "bounds of binned errors",
    },
    {
        "monitoring": "streams of forecasts: tests and alarms",
        "risk_models": "one record for a risk model; what decisions cost",
    },
    {
        "displays": "figures",
        "scorers": "for searches and cross-validation",
        "testing": "laws for those who extend the library",
    },
    {"report": "reports on one or several models"},
    {"__init__": "public names"},
    {"cli": "the commands report and monitor, and their options"},
    {"__main__": "the command line"},
)
# layers: end
LAYER = {f"skcalib.{unit}": n for n, layer in enumerate(LAYERS) for unit in layer}
LAYER["skcalib"] = LAYER.pop("skcalib.__init__")
NUMPY_AND_SCIPY_ONLY = ("skcalib.kernels", "skcalib.scores", "skcalib.links")
NUMPY_AND_SCIPY = {"numpy", "scipy", *sys.stdlib_module_names}
MAY_DRAW = ("skcalib.displays", "skcalib.report", "skcalib.testing")


def module_name(path, root=ROOT):
    parts = ("skcalib", *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in PATHS}


def imports(source, module, *, is_package, types=False):
    """Names of what a source imports, as dotted paths, each with whether it is at the top level.

    What only type checkers import, below ``if TYPE_CHECKING:``, is left out unless `types`.
    """
    body = [
        node
        for node in parsed(source).body
        if types or not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING"
    ]
    for node, top in statements(body):
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
    name = module if module in LAYER else ".".join(module.split(".")[:2])
    assert name in LAYER, f"{name} has no layer: give it one in LAYERS"
    return name


def violations(module, source, *, is_package=False, modules=SOURCES):
    """Sentences about the imports of one module that break a rule; empty if all is well."""
    sentences = []
    for path, top in imports(source, module, is_package=is_package):
        outer = path.split(".")[0]
        if outer == "skcalib":
            sentences += _upward(module, resolve(path, modules))
        elif unit(module) in NUMPY_AND_SCIPY_ONLY and outer not in NUMPY_AND_SCIPY:
            sentences.append(f"{module} imports {path}, but may use numpy and scipy only")
        if outer == "matplotlib" and top:
            sentences.append(f"{module} imports {path} outside of a function")
        if outer == "matplotlib" and unit(module) not in MAY_DRAW:
            sentences.append(f"{module} imports {path}, but only displays and report may draw")
        if outer == "sklearn" and any(part.startswith("_") for part in path.split(".")):
            sentences.append(f"{module} imports {path}, which is private to scikit-learn")
    return sentences


def _upward(module, imported):
    if unit(imported) == unit(module) and unit(module) != "skcalib":
        return [f"{module} imports its own package {imported}"] * (imported == unit(module))
    if LAYER[unit(imported)] >= LAYER[unit(module)]:
        return [f"{module} imports {imported}, which is not in a lower layer"]
    return []


def test_every_module_has_a_layer():
    assert {unit(module) for module in SOURCES} == set(LAYER)


@pytest.mark.parametrize("module", SOURCES)
def test_imports(module):
    path = SOURCES[module]
    assert violations(module, text_of(path), is_package=path.name == "__init__.py") == []


#: Private modules that tests may import, beside `_util.sizes`: no public name shows these numbers.
MAY_IMPORT = {
    "estimators/test_cluster_estimators.py": ("smoothers._base",),
    "public/test_progress.py": ("_util.progress",),  # names of given frames
    "public/test_annotations.py": ("_util.types",),  # types against tables of names
    "io/test_files.py": ("_util.files",),  # errors in the middle of writing
    "_util/test_formatting.py": ("_util.formatting",),  # decimals of given numbers
    "_util/test_rows.py": ("_util.arithmetic",),  # against scipy
    "_util/test_ties.py": ("_util.arithmetic",),  # levels against a naive loop
    "public/test_suggestions.py": ("_util.messages",),  # the table of other names
    "public/test_validation.py": ("_util.validation",),  # every container, once
    "report/test_report.py": ("_util.validation",),  # how often forecasts are validated
    "report/test_report_fits.py": ("_util.parallel",),  # which inputs are equal
}


#: Names of private modules and packages: a source without them imports none.
PRIVATE = {part for name in SOURCES for part in name.split(".") if part[0] == "_" != part[1]}
_PRIVATE = re.compile(rf"\b(?:{'|'.join(PRIVATE)})\b")


def private_imports(source):
    """Private modules of ours that a source imports, without the name of the library."""
    private = set()
    if not _PRIVATE.search(source):
        return private
    for path, _ in imports(source, "tests", is_package=False):
        module = resolve(path, SOURCES).removeprefix("skcalib.")
        parts = module.split(".")
        places = [i for i, part in enumerate(parts) if part[0] == "_" and part[:2] != "__"]
        if path.startswith("skcalib.") and places:
            stop = places[0] + (2 if parts[0] == "_util" else 1)
            private.add(".".join(parts[:stop]))
    return private


def in_test_files(find):
    """What a function finds in the sources of the tests, by file, where it finds something."""
    tests = Path(__file__).parents[1]
    results = {path: find(path.read_text("utf-8")) for path in tests.rglob("*.py")}
    return {path.relative_to(tests).as_posix(): names for path, names in results.items() if names}


def test_tests_reach_through_public_names():
    by_file = in_test_files(lambda source: private_imports(source) - {"_util.sizes"})
    assert {name: tuple(sorted(modules)) for name, modules in by_file.items()} == MAY_IMPORT


def test_private_imports_are_found():
    source = (
        "from skcalib._util.validation import f\nfrom skcalib._util import formatting, arithmetic\n"
    )
    source += "def f():\n    import skcalib.smoothers._base\nimport skcalib.__main__"
    utilities = {"_util.validation", "_util.formatting", "_util.arithmetic"}
    assert private_imports(source) == {*utilities, "smoothers._base"}


#: Private names that tests may patch; sizes are lowered by `set_sizes`.
MAY_PATCH = {
    "studies/test_accuracy_study.py": {"_TRUTHS"},  # the truths that a study has stored
    "studies/test_default_coverage.py": {"_TRUTHS"},
}


#: Methods that set names for the length of a test or a block.
PATCHES = ("setattr", "delattr", "object", "patch", "multiple")
_PATCHES = re.compile(rf"\.\s*(?:{'|'.join(PATCHES)})\b")


def private_patches(source):
    """Private names that a source sets for the length of a test or a block."""
    patched = set()
    nodes = ast.walk(ast.parse(source)) if _PATCHES.search(source) else ()
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in PATCHES:
            named = [arg.value for arg in call.args[:2] if isinstance(arg, ast.Constant)]
            names = ".".join(name for name in named if isinstance(name, str)).split(".")
            patched |= {name for name in names if name[:1] == "_" and name[:2] != "__"}
    return patched


def test_no_test_patches_a_private_name():
    assert in_test_files(private_patches) == MAY_PATCH
    source = "monkeypatch.setattr('skcalib._util.a.b', 1); patch.object(module, '_C')"
    assert private_patches(f"{source}; monkeypatch.setattr(A, '__init__', f)") == {"_util", "_C"}


def test_no_cycles():
    """Imports for type checkers count."""
    graph = {}
    for module, path in SOURCES.items():
        options = {"is_package": path.name == "__init__.py", "types": True}
        imported = imports(text_of(path), module, **options)
        graph[module] = {resolve(p, SOURCES) for p, _ in imported if p.split(".")[0] == "skcalib"}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(SOURCES)


@pytest.mark.parametrize(
    ("module", "source", "word"),
    [
        ("skcalib._util.arithmetic", "from skcalib.scores import Brier", "lower layer"),
        ("skcalib._util.arithmetic", "from ..scores import Brier", "lower layer"),
        ("skcalib.scores", "def f():\n    import skcalib.errors.binned", "lower layer"),
        ("skcalib.scores", "from skcalib import Brier", "lower layer"),
        ("skcalib.data.notions", "from skcalib.smoothers import Smoother", "lower layer"),
        ("skcalib.smoothers.kernel", "from skcalib.smoothers import Smoother", "own package"),
        ("skcalib.smoothers.kernel", "from . import Smoother", "own package"),
        ("skcalib.scores", "from sklearn.base import clone", "numpy and scipy only"),
        ("skcalib.displays", "import matplotlib.pyplot as plt", "outside of a function"),
        ("skcalib.errors.binned", "def f():\n    import matplotlib", "may draw"),
        ("skcalib._util.validation", "from sklearn.utils import _param_validation", "private"),
        ("skcalib._util.validation", "from sklearn.utils._response import f", "private"),
        ("skcalib.scores", "from skcalib._util.arithmetic import reach_of", ""),
        ("skcalib._util.arithmetic", "if TYPE_CHECKING:\n    from skcalib.scores import Brier", ""),
        ("skcalib.report", "def f():\n    import matplotlib.pyplot as plt", ""),
        ("skcalib.errors.corp", "from skcalib.errors.binned import check_bins", ""),
        ("skcalib.__main__", "from skcalib import CalibrationReport", ""),
        ("skcalib.estimators", "from skcalib import datasets", ""),
    ],
)
def test_the_reader_finds_planted_violations(module, source, word):
    """None, where there is no word."""
    sentences = " ".join(violations(module, source))
    assert word in sentences if word else not sentences
