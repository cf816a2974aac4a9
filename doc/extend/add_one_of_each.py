"""Add a score, a calibration error, a display, ... to a copy of skcalib, and run the laws.

    python doc/extend/add_one_of_each.py            # everything
    python doc/extend/add_one_of_each.py score      # one of them

The classes and the function are those of ``examples/extend/add_a_*.py``. Each becomes a part of a
fresh copy of the working tree as a contributor would add it: the class, its name among the public
ones, a line of documentation, and a line of test where the tests do not find it by themselves. Then
the laws run in the copy. The tests that public names are complete run in three copies, to which a
third of them each were added: the number of names at the root is limited. The table says what was
added, and what passed; the exit status is 1 if anything failed.
"""

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
LEFT_OUT = (".*", "__pycache__", "_build", "generated", "auto_examples")
#: Layers, lists of public names and their pages, tables that the suites of tests run over.
COMPLETE = [
    "tests/documentation/test_layers.py::test_every_module_has_a_layer",
    "tests/documentation/test_layers.py::test_imports",
    "tests/documentation/test_layers.py::test_no_cycles",
    "tests/public/test_root.py",
    "tests/documentation/test_documentation.py::test_every_public_name_is_in_the_reference",
    "tests/documentation/test_documentation.py::test_every_name_in_the_reference_exists",
    "tests/public/test_conformance.py::test_no_public_estimator_is_missing",
    "tests/public/test_inputs.py::test_every_public_function_is_in_the_table",
    "tests/public/test_inputs.py::test_every_function_of_a_public_module_is_in_the_table",
    "tests/public/test_inputs.py::test_every_door_of_a_display_is_in_the_table",
]


@dataclass(frozen=True)
class Addition:
    """A class or function of an example and the places that have to know it.

    ``lines`` are triples: a file, a pattern, and a line to add before the first one that the
    pattern matches. ``laws`` are the tests to run, beside those of completeness.
    """

    kind: str
    name: str
    module: str
    lines: tuple
    laws: tuple

    def add(self, copy):
        """Write class and lines into the copy -> the number of lines by file."""
        example = copy / "examples" / "extend" / f"add_a_{self.kind}.py"
        counts = {self.module: append_class(example, self.name, copy / self.module)}
        for file, before, line in self.lines:
            insert(copy / file, before, line)
            counts[file] = counts.get(file, 0) + 1
        return counts


def exported(package, file, name, before):
    """The two lines by which a package exports a class of one of its modules."""
    home = f"skcalib/{package}/__init__.py"
    line = f"from skcalib.{package}.{file} import {name}"
    return (home, "^from skcalib", line), listed(home, name, before)


def listed(file, name, before):
    """The line of ``__all__``."""
    return file, f'^    "{before}",$', f'    "{name}",'


def in_reference(name, before):
    """The line of documentation."""
    return "doc/api.rst", f"^   {re.escape(before)}$", f"   {name}"


def in_suites(name, facts):
    """The line of test, in the table that the suites run over, with facts of the display."""
    line = f"        *_recipes(s.displays.{name}.from_predictions, {facts}),"
    return "tests/public_functions.py", r"^        \*_recipes\(s.RecalibrationDisplay", line


def in_quantities(name, entry):
    """The three lines of the table of errors: two imports, and the entry."""
    file = "skcalib/error_intervals/quantities.py"
    home = f"from skcalib.errors.{name.removesuffix('_error')} import {name}"
    method = "from skcalib.error_intervals.request import subsampling"
    return (
        (file, "^from skcalib.errors.logistic", home),
        (file, r"^from skcalib.errors import \(", method),
        (file, r'^    Quantity\("ici"', f"    {entry},"),
    )


ADDITIONS = (
    Addition(
        "calibration_error",
        "cumulative_range_error",
        "skcalib/errors/cumulative_range.py",
        (
            *exported(
                "errors",
                "cumulative_range",
                "cumulative_range_error",
                "integrated_calibration_index",
            ),
            *in_quantities(
                "cumulative_range_error",
                'Quantity("cumulative_range", cumulative_range_error, subsampling, '
                'label="Cumulative range", scorer="neg_cumulative_range_error", curve="range")',
            ),
            in_reference("errors.cumulative_range_error", "ks_calibration_error"),
            (
                "tests/public_functions.py",
                r"^        \*_recipes\(s.smooth_calibration_error",
                "        *_recipes(s.errors.cumulative_range_error, {}, classwise, one_row=True),",
            ),
        ),
        (
            "tests/laws/test_quantities.py",
            "tests/public/test_inputs.py",
            "tests/public/test_determinism.py",
            "-k",
            "cumulative_range or distinct",
        ),
    ),
    Addition(
        "recalibrator",
        "FrequencyMixture",
        "skcalib/recalibration/frequency_mixture.py",
        (
            *exported(
                "recalibration", "frequency_mixture", "FrequencyMixture", "TemperatureScaling"
            ),
            in_reference("recalibration.FrequencyMixture", "recalibration.LabelFrequency"),
        ),
        (
            "tests/laws/test_recalibrator_laws.py",
            "tests/public/test_conformance.py",
            "tests/public/test_serialization.py",
            "-k",
            "FrequencyMixture",
        ),
    ),
    Addition(
        "display",
        "PredictivenessDisplay",
        "skcalib/displays/predictiveness.py",
        (
            *exported(
                "displays", "predictiveness", "PredictivenessDisplay", "RecalibrationDisplay"
            ),
            in_reference("displays.PredictivenessDisplay", "RecalibrationDisplay"),
            in_suites("PredictivenessDisplay", "binary=True, one_row=True"),
        ),
        (
            "tests/laws/test_display_laws.py",
            "tests/public/test_inputs.py",
            "tests/public/test_determinism.py",
            "-k",
            "PredictivenessDisplay",
        ),
    ),
    Addition(
        "score",
        "Tsallis",
        "skcalib/scores.py",
        (
            listed("skcalib/scores.py", "Tsallis", "TotalVariation"),
            in_reference("scores.Tsallis", "scores.TotalVariation"),
        ),
        ("tests/test_scores.py", "-k", "Tsallis"),
    ),
    Addition(
        "smoother",
        "HellingerKernel",
        "skcalib/smoothers/hellinger.py",
        (
            *exported("smoothers", "hellinger", "HellingerKernel", "IsotonicSmoother"),
            in_reference("smoothers.HellingerKernel", "smoothers.NearestNeighborsSmoother"),
        ),
        (
            "tests/smoothers/test_smoothers.py",
            "tests/public/test_conformance.py",
            "-k",
            "HellingerKernel",
        ),
    ),
    Addition(
        "kernel",
        "RationalQuadratic",
        "skcalib/kernels.py",
        (
            listed("skcalib/kernels.py", "RationalQuadratic", "median_distance"),
            in_reference("kernels.RationalQuadratic", "kernels.median_distance"),
        ),
        ("tests/test_kernels.py", "-k", "RationalQuadratic"),
    ),
    Addition(
        "notion",
        "AtLeast",
        "skcalib/data/notions.py",
        (
            listed("skcalib/data/notions.py", "AtLeast", "Canonical"),
            in_reference("data.notions.AtLeast", "data.notions.Canonical"),
        ),
        ("tests/data/test_notions.py", "-k", "AtLeast"),
    ),
    Addition(
        "link",
        "TwoSlopesMap",
        "skcalib/links/two_slopes.py",
        (
            *exported("links", "two_slopes", "TwoSlopesMap", "VectorMap"),
            in_reference("links.TwoSlopesMap", "recalibration.Recalibrator"),
        ),
        ("tests/laws/test_link_laws.py", "-k", "test_laws"),
    ),
)


def append_class(example, name, target):
    """Put a class or function at the end of a module, or into a new one -> the lines added."""
    source = example.read_text(encoding="utf-8")
    body = ast.parse(source).body
    kinds = ast.ClassDef | ast.FunctionDef
    node = next(one for one in body if isinstance(one, kinds) and one.name == name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    old = before or f'"""{name}."""\n'
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    imports = import_lines(body, used - bound_names(old) - bound_names(source, node))
    lines = old.splitlines()
    end = ast.parse(old).body[0].end_lineno  # of the docstring
    lines[end:end] = ["", *imports] if imports else []
    lines += ["", "", *source.splitlines()[first - 1 : node.end_lineno]]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - len(before.splitlines())


def bound_names(source, inside=None):
    """Names that the top level of a module defines or imports, or that a class imports inside."""
    found = set()
    for node in ast.parse(source).body if inside is None else ast.walk(inside):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif inside is None and isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found


def import_lines(body, names):
    """Imports of an example for these names; a class of ours is imported from where it stands."""
    lines = []
    for node in body:
        if isinstance(node, ast.Import):
            lines += [
                f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                for alias in node.names
                if (alias.asname or alias.name) in names
            ]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in names:
                    home = node.module
                    if home.partition(".")[0] == "skcalib":
                        found = getattr(importlib.import_module(home), alias.name)
                        home = found.__module__
                    lines.append(f"from {home} import {alias.name}")
    return lines


def insert(path, before, line):
    """Add a line before the first one that a pattern matches."""
    lines = path.read_text(encoding="utf-8").splitlines()
    places = [i for i, old in enumerate(lines) if re.search(before, old)]
    if not places:
        raise SystemExit(f"{path} has no line {before!r}: where should {line.strip()!r} go?")
    lines.insert(places[0], line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_tests(copy, arguments):
    """Run tests in the copy -> whether they passed, their number, and what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    passed = re.search(r"(\d+) passed", done.stdout)
    number = int(passed[1]) if passed else 0
    return done.returncode == 0 and number > 0, number, done.stdout + done.stderr


@contextmanager
def fresh_copy():
    """A copy of the working tree in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "skcalib"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        yield copy


def try_out(addition):
    """Add one class to a fresh copy, and test it -> whether all is well."""
    with fresh_copy() as copy:
        counts = addition.add(copy)
        outcome = run_tests(copy, addition.laws)
    print(f"{addition.kind}: {addition.name}")
    for file, count in counts.items():
        print(f"    {count:4} line{'s' * (count > 1)} in {file}")
    if not any(file.startswith("tests/") for file in counts):
        print("       0 lines in tests: the laws run over all public classes of the kind")
    return told("laws", outcome)


def try_out_together(additions):
    """Add several to a fresh copy, and test that it is complete -> whether all is well."""
    with fresh_copy() as copy:
        for addition in additions:
            addition.add(copy)
        outcome = run_tests(copy, COMPLETE)
    print("together: " + ", ".join(addition.name for addition in additions))
    return told("completeness", outcome)


def told(name, outcome):
    """Print what came of some tests -> whether they passed."""
    well, number, output = outcome
    print(f"    {name}: {number} tests passed" if well else f"    {name} FAILED\n{output}")
    return well


def main(kinds):
    """Try out some kinds, or all of them -> the exit status."""
    known = {addition.kind: addition for addition in ADDITIONS}
    if not set(kinds) <= set(known):
        raise SystemExit(f"{sorted(set(kinds) - set(known))} is none of {sorted(known)}.")
    additions = [known[kind] for kind in kinds or known]
    parts = [part for k in range(3) if (part := additions[k::3])]
    return 0 if all([*map(try_out, additions), *map(try_out_together, parts)]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
