"""Numbers of the structure of the library, counted in its source and in one report.

    python doc/studies/structure.py            # everything, in a quarter of a minute
    python doc/studies/structure.py --source   # without running anything

``lists of errors`` are literals that name four errors of `QUANTITIES` outside of its module,
``names that a recalibrator may override`` private methods that some recalibrator redefines of its
base, and ``constructors`` the methods ``from_...`` of displays. Circles count imports inside
functions and for type checkers. A fit is ``repeated`` if the same method was fitted to the same
arrays, with the same options, earlier in the same report.
"""

import argparse
import ast
import cProfile
import hashlib
import inspect
import pstats
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import skcalib
from skcalib.datasets import make_tempered_simplex
from skcalib.error_intervals.quantities import DEBIASED, QUANTITIES
from skcalib.grouping.partition import BalancedStump, HistogramTree
from skcalib.links.averaging import AverageWithout, ModelAverage
from skcalib.recalibration import Recalibrator
from skcalib.smoothers.spline import SplineCurve

ROOT = Path(skcalib.__file__).parent
TABLE = ROOT / "error_intervals" / "quantities.py"
NAMES = {
    getattr(one, kind)
    for one in (*QUANTITIES, DEBIASED)
    for kind in ("name", "scorer", "curve")
    if getattr(one, kind)
}


def sources():
    """{path: syntax tree} of all modules."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def strings(node):
    """Strings of a tree that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = [one.body[0] for one in ast.walk(node) if isinstance(one, documented) and one.body]
    docs = {id(one.value) for one in first if isinstance(one, ast.Expr)}
    constants = (one for one in ast.walk(node) if isinstance(one, ast.Constant))
    return [one.value for one in constants if isinstance(one.value, str) and id(one) not in docs]


def lists_of_errors(trees):
    """Literals with the names of four errors outside of the table."""
    kinds = (ast.Dict, ast.List, ast.Set, ast.Tuple)
    return sum(
        len(NAMES.intersection(strings(node))) >= 4
        for path, tree in trees.items()
        if path != TABLE
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )


def overridden_names():
    """Private methods of recalibrators that a class derived from them defines again."""
    classes, found = [Recalibrator], set()
    for kind in classes:
        classes.extend(one for one in kind.__subclasses__() if one not in classes)
        if kind.__module__.startswith("skcalib."):
            bases = [vars(base) for base in kind.__mro__[1:] if base.__module__[:8] == "skcalib."]
            own = {name for name, value in vars(kind).items() if inspect.isfunction(value)}
            found.update(name for name in own if any(name in base for base in bases))
    return sorted(name for name in found if name[0] == "_" and name[:2] != "__")


def lines_of_constructors(trees):
    """Lines of the methods from_... of displays, with decorators and docstrings."""
    return sum(
        node.end_lineno - min([node.lineno, *(one.lineno for one in node.decorator_list)]) + 1
        for path, tree in trees.items()
        if path.parent.name == "displays"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("from_")
    )


def n_circles(trees):
    """Sets of modules that import each other, in any way."""
    modules = {}
    for path in trees:
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    reached = {}
    for name, path in modules.items():
        found = set()
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                for one in node.names:
                    whole = f"{node.module}.{one.name}"
                    found.add(whole if whole in modules else node.module)
        reached[name] = found - {name}
    graph = np.array([[two in own for two in modules] for own in reached.values()])
    _, circle = connected_components(graph, connection="strong")
    return int(np.sum(np.bincount(circle) > 1))


def function_calls():
    """Calls of functions in one calibration_error of 1,000 samples.

    Without those by which recent versions of scikit-learn ask narwhals what the arrays are.
    """
    data = make_tempered_simplex(1000, 2, random_state=0)
    skcalib.calibration_error(data.y, data.y_proba)
    profile = cProfile.Profile()
    profile.runcall(skcalib.calibration_error, data.y, data.y_proba)
    stats = pstats.Stats(profile).stats
    foreign = ("narwhals", "inspect.py")
    return sum(n for (path, *_), (_, n, *_) in stats.items() if not any(x in path for x in foreign))


BOOSTING = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
#: Classes with a method that fits arrays, and functions that do, wherever they are imported.
FITTING = {
    ModelAverage: "fit",
    AverageWithout: "__init__",
    SplineCurve: "fit",
    HistogramTree: "fit",
    BalancedStump: "fit",
    **dict.fromkeys(BOOSTING, "fit"),
}
FUNCTIONS = (
    "optimal_inverse_temperature",
    "fit_bias_corrected",
    "fit_link",
    "logistic_regression",
    "isotonic_regression",
    "quantile_codes",
    "_newton",
)


@contextmanager
def recorded_fits():
    """A counter of the fits inside, by their name and the hash of their inputs."""
    seen = Counter()

    def noted(name, fit, *, method):
        signature = inspect.signature(fit)

        def call(*arrays, **options):
            given = dict(signature.bind(*arrays, **options).arguments)
            if method:
                given["self"] = type(given["self"]).__name__, vars(given["self"])
            digest = hashlib.sha1()
            _feed(digest, given)
            seen[name, digest.hexdigest()] += 1
            return fit(*arrays, **options)

        return call

    modules = [one for name, one in sys.modules.items() if name.startswith("skcalib.")]
    patches = [
        mock.patch.object(kind, name, noted(kind.__name__, getattr(kind, name), method=True))
        for kind, name in FITTING.items()
    ]
    patches += [
        mock.patch.object(module, name, noted(name, getattr(module, name), method=False))
        for module in modules
        for name in FUNCTIONS
        if hasattr(module, name)
    ]
    for patch in patches:
        patch.start()
    try:
        yield seen
    finally:
        for patch in reversed(patches):
            patch.stop()


def _feed(digest, value, depth=0):
    """Add a value to a hash: arrays with their numbers, objects with their attributes."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = value.astype(np.float64)
        digest.update(str(value.shape).encode() + value.tobytes())
    elif isinstance(value, np.random.RandomState):
        _feed(digest, value.get_state(), depth + 1)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _feed(digest, one, depth + 1)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            _feed(digest, value[key], depth + 1)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and depth < 6:
        digest.update(type(value).__name__.encode())
        _feed(digest, vars(value), depth + 1)
    else:
        digest.update(repr(value).encode())


def repeated(seen):
    """Number of fits whose inputs occurred before, by their names."""
    found = Counter()
    for (name, _), times in seen.items():
        found[name] += times - 1
    return +found


def fits_of_a_report():
    """Fits by name in a report of 1,000 samples of three classes with features."""
    data = make_tempered_simplex(1000, 3, random_state=0)
    features = np.random.default_rng(0).standard_normal((1000, 3))
    with recorded_fits() as seen:
        skcalib.CalibrationReport.from_predictions(data.y, data.y_proba, features)
    fits = Counter()
    for (name, _), times in seen.items():
        fits[name] += times
    return {
        "fits in a report": fits.total(),
        "of these averaged maps": fits["ModelAverage"],
        "of these temperatures": fits["optimal_inverse_temperature"],
        "of these boosting": sum(fits[one.__name__] for one in BOOSTING),
        "of these repeated": repeated(seen).total(),
    }


def counted(run=True):
    """{what: number}."""
    trees = sources()
    found = {
        "lists of errors by hand": lists_of_errors(trees),
        "names that a recalibrator may override": len(overridden_names()),
        "lines of constructors of displays": lines_of_constructors(trees),
        "import circles, with types": n_circles(trees),
        "lines of skcalib": sum(len(path.read_text("utf-8").splitlines()) for path in trees),
        "files of skcalib": len(trees),
    }
    if run:
        found["function calls of calibration_error, n = 1,000"] = function_calls()
        found |= fits_of_a_report()
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="store_true", help="count in the source only")
    for what, number in counted(run=not parser.parse_args().source).items():
        print(f"{what:<50}{number:>8,}")


if __name__ == "__main__":
    main()
