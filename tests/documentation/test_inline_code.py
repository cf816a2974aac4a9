"""Calls in sentences of pages and docstrings, between double backquotes, run as they are written.

Examples at a prompt are doctests, and the calls of the table of migration have a test of their own.
"""

import ast
import importlib
import inspect
import operator
import re
import textwrap
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.utils.estimator_checks import check_estimator

import skcalib
from skcalib._util.sizes import sizes
from skcalib.export import to_json, to_onnx

DOC = Path(__file__).parents[2] / "doc"
pytestmark = pytest.mark.skipif(not DOC.exists(), reason="needs the folder doc")
MODULES = (
    *("risk_models", "grouping", "io", "kernels", "data.notions", "scorers", "scores", "smoothers"),
)
PUBLIC = {
    **{name: getattr(skcalib, name) for name in skcalib.__all__},
    **{
        name: thing
        for module in MODULES
        for name, thing in vars(operator.attrgetter(module)(skcalib)).items()
        if not name.startswith("_") and getattr(thing, "__module__", "").startswith("skcalib")
    },
    **{"to_json": to_json, "to_onnx": to_onnx},
}
#: Functions of scikit-learn and joblib that sentences name.
OTHERS = {
    **{"CalibratedClassifierCV": CalibratedClassifierCV, "FrozenEstimator": FrozenEstimator},
    **{"KMeans": KMeans, "TimeSeriesSplit": TimeSeriesSplit, "check_estimator": check_estimator},
    **{"clone": clone, "joblib": joblib, "pandas": pd},
}


def values(n=80):
    """What the sentences name: labels, forecasts, features, models and reports."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    clf = LogisticRegression()
    model, P = clone(clf).fit(X, y), clone(clf).fit(X[: n // 2], y[: n // 2]).predict_proba(X)
    p, Y = P[:, 1], np.column_stack([y, 1 - y, y])
    report = skcalib.CalibrationReport.from_predictions(y, p)
    stream = skcalib.SequentialCalibrationTest().partial_fit(y, p)
    cluster = np.arange(n) // 4
    objects: dict = {
        **{"y": y, "y_true": y, "y_test": y, "y_train": y, "accepted": y, "matched": y},
        **{"p": p, "f": p, "predicted": p, "confidence": p, "P": P, "proba": P, "y_proba": P},
        **{"X": X, "X_test": X, "X_train": X, "boxes": X, "frame": X[:1]},
        **{"prompt": cluster, "image": cluster, "month": cluster, "sigma": 0.1, "np": np},
        **{"clf": clf, "classifier": clf, "model": model, "logits": np.log(P), "Z": P},
        **{"Y": Y, "P_labels": np.column_stack([p, 1 - p, p]), "y_other": p**2},
        **{"report": report, "stream": stream, "frequencies": P.mean(axis=0)},
        "sketch": skcalib.ForecastSketch([0, 1]).fit(y, p, by=np.resize(["north", "south"], n)),
        "comparison": skcalib.ComparisonReport.from_predictions(y, {"a": p, "b": p**2}),
    }
    assert objects.keys() == NAMES
    return objects


#: Pages in which a name stands for something else.
ON_PAGE = {
    "report": lambda objects: {
        "other": skcalib.CalibrationReport.from_predictions(
            objects["y"], objects["p"] ** 2, name="other"
        )
    },
    "deploy_a_map": lambda objects: {
        "model": skcalib.RecalibratedClassifierCV(objects["clf"], "platt").fit(
            objects["X"], objects["y"]
        )
    },
    "grouping_loss": lambda objects: {
        "classifier": objects["model"],
        "grouping": skcalib.GroupingLossEstimator(objects["model"]).fit(objects["X"], objects["y"]),
    },
    "soft_labels": lambda objects: {"y": objects["Y"]},
}
#: No calls: a probability; of a Dask array; a suite that fails, as the page says.
NOT_RUN = {"P(churn)", "y_proba.compute()", "check_estimator(TemperatureScaling())"}


#: Names of what `values` makes, and functions of Python.
NAMES = {
    *("y", "y_true", "y_test", "y_train", "accepted", "matched", "Y", "y_other"),
    *("p", "f", "predicted", "confidence", "P", "proba", "y_proba", "P_labels", "logits", "Z"),
    *("X", "X_test", "X_train", "boxes", "frame", "prompt", "image", "month", "sigma", "np"),
    *("clf", "classifier", "model", "report", "comparison", "stream", "sketch", "frequencies"),
}
BUILT_IN = {"dict", "len", "print"}


def inline(text):
    """The snippets between double backquotes of a text, without blocks of code."""
    return re.findall(r"(?<!`)``([^`]+?)``(?!`)", re.sub(r"\s+", " ", text))


def tree_of(snippet):
    """The expression of a snippet; of ``loss=f()`` that of the arguments; None for other text."""
    for code in (snippet, f"dict({snippet})"):
        try:
            return ast.parse(code, mode="eval")
        except SyntaxError:
            continue
    return None


def is_call(tree):
    """Whether it calls a public name or a known object, with all arguments that it needs."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree)):
        return False
    known, calls_ours = {*PUBLIC, *OTHERS, *NAMES, *BUILT_IN}, False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in calls if names <= known else ():
        root = node.func
        while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
            root = root.func if isinstance(root, ast.Call) else root.value
        if not isinstance(root, ast.Name):
            return False
        calls_ours |= root.id not in BUILT_IN
        function = PUBLIC.get(root.id) if root is node.func else None
        if function is not None:
            try:
                inspect.signature(function).bind(
                    *node.args, **{keyword.arg: keyword.value for keyword in node.keywords}
                )
            except TypeError:
                return False  # an abbreviation, whose parameters another test compares
    return calls_ours


PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (*DOC.glob("*.rst"), *DOC.glob("user_guide/*.rst"))
    if path.stem != "migration"
}


def lines(text):
    """The snippets that are whole calls."""
    trees = {snippet: tree_of(snippet) for snippet in {*inline(text)} - NOT_RUN}
    return sorted(snippet for snippet, tree in trees.items() if tree is not None and is_call(tree))


@pytest.fixture(scope="module")
def objects():
    with sizes(many_classes=1, drawn_numbers=0):
        yield values()


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if lines(text)])
@pytest.mark.usefixtures("few_maps", "words_only")
def test_lines_of_a_page(page, objects, here, capsys):
    namespace = PUBLIC | OTHERS | objects | ON_PAGE.get(page, lambda objects: {})(objects)
    assert_runs(lines(PAGES[page]), namespace, f"{page}.rst")


def assert_runs(calls, namespace, where):
    for line in calls:
        try:
            with joblib.parallel_config():  # which a line may change
                eval(compile(tree_of(line), line, "eval"), dict(namespace))
        except Exception as error:
            raise AssertionError(f"{where}: {line} gives {error!r}") from error


def docstrings():
    """Those of public names, and of the methods of classes."""
    for name in re.findall(r"^   ([\w.]+)$", PAGES["api"], re.MULTILINE):
        thing = attrgetter(name)(skcalib)
        yield name, inspect.getdoc(thing) or ""
        for key in dir(thing) if inspect.isclass(thing) else ():
            if not key.startswith("_"):
                yield f"{name}.{key}", inspect.getdoc(getattr(thing, key)) or ""


@pytest.mark.usefixtures("few_maps", "words_only")
def test_lines_of_docstrings(objects, here):
    n_calls = 0
    for name, text in docstrings():
        calls = lines(text)
        if calls:
            on_page = ON_PAGE["deploy_a_map"](objects) if name == "export.to_onnx" else {}
            if find_spec("onnx") or name != "export.to_onnx":
                assert_runs(calls, PUBLIC | OTHERS | objects | on_page, name)
        n_calls += len(calls)
    assert n_calls >= 15


def test_lines_are_found():
    assert sum(len(lines(text)) for text in PAGES.values()) > 60
    assert 'TemperatureScaling(input="logits").fit(logits, y)' in lines(PAGES["a_to_z"])
    text = (
        "``PlattScaling().fit(p, y)``, ``loss=Brier()``, ``PlattScaling``, ``fit(P, y)``, "
        "``calibration_error(n_bins=3)``, ``calibration_error(y, p, norm=...)``, ``other(y, p)``"
    )
    assert lines(text) == ["PlattScaling().fit(p, y)", "loss=Brier()"]


def blocks():
    """Blocks of Python in pages that are no doctests."""
    for page, text in PAGES.items():
        for block in re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text):
            yield pytest.param(textwrap.dedent(block), id=page)


@pytest.mark.parametrize("block", [*blocks()])
def test_calls_in_blocks_have_such_arguments(block):
    """Blocks that need a cluster, a file or another package cannot be run here."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "skcalib":
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            function = function_of(node.func)
            if function is not None and all(keyword.arg for keyword in node.keywords):
                arguments = {keyword.arg: keyword.value for keyword in node.keywords}
                inspect.signature(function).bind(*node.args, **arguments)


def function_of(node):
    """The public function or constructor that a node of a call names; None for others."""
    if isinstance(node, ast.Name):
        return PUBLIC.get(node.id)
    owner = PUBLIC.get(node.value.id) if isinstance(node.value, ast.Name) else None
    return getattr(owner, node.attr, None)
