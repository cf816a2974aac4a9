"""Do the tests notice wrong formulas? python .ci/mutation.py [module ...]

A mutant is the library with one operator, number, comparison or argument changed. One of the tests
that reach the changed line must fail. All modules that hold numbers are covered, by a sample of
their mutants: the seed is the number of the week, so that other mutants are tried each week. Run it
in an environment with the test extra. The library and the tests are read from a copy; nothing is
written into the checkout. Prints what survived, and a score for each module. Which tests reach a
line is found first, by one run of the tests (reached_lines.py), or of quick ones with --quick; a
folder that --reached names keeps it. A table that --scores names keeps which mutants were tried:
those that survived are tried again, and the sample is of others. Fails if fewer than --least per
cent are killed, of all or of a module, where 20 were tried.

    python .ci/mutation.py --sample 12                  # 12 mutants of each module: two hours
    python .ci/mutation.py --changed origin/main --sample 60 --least 80  # half an hour
    python .ci/mutation.py --changed HEAD~9 --sample 60 --quick seconds.xml --each 15  # 6 minutes
    python .ci/mutation.py --sample 0 errors/corp.py    # all mutants of a module

With --changed the sample is that of all files together. Mutants that change no result are listed
with a reason in .ci/equivalent_mutants, and are not counted.
"""

import argparse
import ast
import csv
import datetime
import functools
import gc
import importlib.abc
import importlib.util
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest
import reached_lines

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / ".ci" / "equivalent_mutants"
#: Modules that draw, write or read texts, and checkers for authors of extensions.
WITHOUT_NUMBERS = (
    "displays/",
    "io/",
    "testing/",
    "report/",
    "__",
    "cli/",
    "datasets/",
    "data/class_columns",
    "data/column_names",
    "sketches/frames",
    *(f"_util/{name}" for name in ("docstrings", "files", "formatting", "messages", "records")),
    *("_util/shared_fits", "_util/types"),
)
#: Tests that hold no numbers of the library, or take long; and those of recorded numbers.
SKIPPED = ("documentation", "studies", "report/test_browser.py")
RECORDED = "tests/laws/test_recorded_numbers.py"
#: Seconds of recorded numbers before the other tests; of the closest and of quick ones of these,
#: and of the next. A quick one takes less than QUICK: tests of refusals reach many lines.
FIRST, NEAR, MANY, FURTHER, QUICK = 10, 15, 10, 30, 0.1
#: Quick tests for --quick, in seconds; and those in files with the name of a module.
SHORT, CLOSE = 0.3, 3.0
#: Mutants of a module, or of all, from which their score can be too low.
ENOUGH = 20
#: A test that takes longer than this, in seconds, hangs: the mutant is killed.
HANGS = 60

OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Pow: "*",
}
OPPOSITE = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
OPPOSITE |= {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
OTHERS = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "log": "log1p"}
OTHERS |= {"argmin": "argmax", "argmax": "argmin", "ceil": "floor", "floor": "ceil", "any": "all"}
OTHERS |= {"all": "any", "zeros": "ones", "ones": "zeros", "sum": "mean", "exp": "expm1"}
WITHOUT = ("abs", "sqrt", "clip", "sorted")  # these become their first argument
CHECKS = ("strict", "stacklevel", "n_jobs", "repr", "warn")  # keywords that change no number
#: Smaller numbers are rounding errors, and larger ones how many values are computed at once.
TOLERANCE, SIZE = 1e-6, 1000


# --- The mutants of a file ------------------------------------------------------------------------


class Mutants(ast.NodeVisitor):
    """Changes of a source text: the function, its code, start, end and text of each."""

    def __init__(self, source):
        self.found, self.scope, self.statement, self.code = [], [], (0, 0), None
        lines = source.encode().splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.source = source.encode()
        self.visit(ast.parse(source))

    def visit(self, node):
        """Note the lines of the statement, without those of a block in it."""
        if isinstance(node, ast.stmt):
            block = getattr(node, "body", None)
            last = block[0].lineno - 1 if block else node.end_lineno
            self.statement = node.lineno, max(node.lineno, last)
        return super().visit(node)

    def place(self, node):
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node):
        start, end = self.place(node)
        return self.source[start:end].decode()

    def add(self, node, text, length=None):
        """The node, or so many of its last characters, become a text."""
        start, end = self.place(node)
        if self.scope:
            start = start if length is None else end - length
            self.found.append((".".join(self.scope), self.code, self.statement, start, end, text))

    def visit_ClassDef(self, node):
        self.scope.append(node.name)
        for part in node.body:
            self.visit(part)
        self.scope.pop()

    def visit_FunctionDef(self, node):
        """Note the name and the first line of the outermost function: its code can be replaced."""
        outermost = self.code is None
        if outermost:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            self.code = ".".join((*self.scope, node.name)), first
        self.visit_ClassDef(node)
        if outermost:
            self.code = None

    def _skip(self, node):
        """Messages, annotations and imports hold no numbers."""

    visit_Raise = visit_Import = visit_ImportFrom = visit_JoinedStr = visit_Assert = _skip

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node):
        if "TYPE_CHECKING" not in self.text(node.test):
            self.generic_visit(node)

    def visit_Expr(self, node):
        if not (isinstance(node.value, ast.Constant) or "warn" in self.text(node.value)[:20]):
            self.generic_visit(node)

    def visit_BinOp(self, node):
        words = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and isinstance(
            getattr(node.left, "value", ""), str
        )
        if type(node.op) in OPERATORS and not words:
            left, right = self.text(node.left), self.text(node.right)
            self.add(node, f"(({left}) {OPERATORS[type(node.op)]} ({right}))")
        self.generic_visit(node)

    def visit_Compare(self, node):
        if len(node.ops) == 1 and type(node.ops[0]) in OPPOSITE:
            left, right = self.text(node.left), self.text(node.comparators[0])
            self.add(node, f"({left} {OPPOSITE[type(node.ops[0])]} {right})")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        word = " or " if isinstance(node.op, ast.And) else " and "
        self.add(node, "(" + word.join(f"({self.text(one)})" for one in node.values) + ")")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.USub, ast.Not)):
            self.add(node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self.add(
            node,
            f"(({self.text(node.orelse)}) if {self.text(node.test)} else ({self.text(node.body)}))",
        )
        self.generic_visit(node)

    def visit_Constant(self, node):
        if type(node.value) is bool:
            self.add(node, str(not node.value))
        elif type(node.value) is int and node.value < SIZE:
            self.add(node, str(node.value + 1))
        elif type(node.value) is float and not 0 < node.value <= TOLERANCE:
            self.add(node, repr(1.5 * node.value + (node.value == 0)))

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in OTHERS:
            owner = self.text(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            reduces = owner and name in ("min", "max", "sum", "any", "all", "argmax", "argmin")
            if owner == "np" or reduces or (not owner and name in ("min", "max")):
                self.add(node.func, OTHERS[name], len(name))
        if name in WITHOUT and node.args:
            self.add(node, f"({self.text(node.args[0])})")
        if name == "reshape":  # any negative number stands for the length that is left
            node.args = [one for one in node.args if not isinstance(one, ast.UnaryOp)]
        node.keywords = [one for one in node.keywords if one.arg not in CHECKS]
        for word in node.keywords:
            same = isinstance(word.value, ast.Name) and word.value.id == word.arg
            if same:
                others = [self.text(one) for one in (*node.args, *node.keywords) if one is not word]
                self.add(node, f"{self.text(node.func)}({', '.join(others)})")
        self.generic_visit(node)


def mutants_of(path):
    """Mutants of a file: its name, function, text before and after, lines, code, new source."""
    source = path.read_text(encoding="utf-8")
    whole = source.encode()
    for function, code, lines, start, end, text in Mutants(source).found:
        first = whole.rfind(b"\n", 0, start) + 1
        last = whole.find(b"\n", end)
        old = " ".join(whole[first:last].decode().split())
        new = " ".join((whole[first:start] + text.encode() + whole[end:last]).decode().split())
        yield path, function, old, new, lines, code, whole[:start] + text.encode() + whole[end:]


# --- The tests that reach a line ------------------------------------------------------------------


class Reached:
    """Which tests reach a line, by a run of all instances; or of the tests of a list of names."""

    def __init__(self, root, folder, n_jobs, quick=None):
        self.root = root
        if not any(folder.glob("*.lines")):
            options = ["-q", "-p", "reached_lines", "-p", "no:cacheprovider", "-n", str(n_jobs)]
            environment = os.environ | {"REACHED_LINES": str(folder)}
            environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / ".ci"), str(root)])
            if quick is not None:
                names = folder / "names"
                names.write_text("".join(f"{one}\n" for one in quick), encoding="utf-8")
                environment["REACHED_BY"] = str(names)
            skipped = [f"--ignore=tests/{one}" for one in SKIPPED]
            command = [sys.executable, "-m", "pytest", *options, "tests", *skipped]
            done = subprocess.run(command, cwd=root, env=environment, check=False)
            if done.returncode not in (0, 1):  # 1: a test fails; it is left out
                raise SystemExit(f"pytest ended with status {done.returncode}")
        self.lines, seconds = reached_lines.read(folder)
        self.seconds = defaultdict(lambda: 9, seconds)
        self.n_lines = Counter()  # that a test reaches, in all modules
        for by_line in self.lines.values():
            for found in by_line.values():
                self.n_lines.update(found)

    def tests(self, path, lines):
        """Tests that reach some lines; none if these are executed when the module is imported."""
        reached = self.lines[str(path.relative_to(self.root))]
        return {one for line in range(lines[0], lines[1] + 1) for one in reached.get(line, ())}

    def batches(self, path, tests):
        """Lists of tests to run one after the other: recorded numbers, then those closest.

        Without `tests` all that reach the file are taken. Of recorded numbers each entry comes in
        one world before it comes in a second one. Of the other tests those in files with the name
        of the module come first, then those in a folder of the same name; among them those that
        reach the fewest lines, as they are about this one. After the closest come quick ones.
        """
        of_file = self.lines[str(path.relative_to(self.root))].values()
        tests = tests or {one for found in of_file for one in found}
        recorded, others, worlds = {}, [], Counter()
        module, folder = path.stem.strip("_"), f"/{path.parent.name.strip('_')}/"

        def distance(test):
            name = file_of(test)
            return module not in Path(name).stem, folder not in name, self.n_lines[test]

        for test in sorted(tests, key=lambda one: self.seconds[one]):
            if file_of(test) == RECORDED:
                entry = test.partition("-")[2]
                recorded[test] = worlds[entry] = worlds[entry] + 1
            else:
                others.append(test)
        first, later = self._parted(sorted(recorded, key=recorded.get), FIRST)
        near, others = self._parted(sorted(others, key=distance), NEAR)
        others.sort(key=lambda one: self.seconds[one] > QUICK)
        quick, others = self._parted(others, MANY)
        further, rest = self._parted(others, FURTHER)
        yield from filter(None, (first, near + quick, further, later, rest))

    def _parted(self, tests, limit):
        """The first ones, which take so many seconds, and the rest."""
        times = itertools.accumulate(self.seconds[test] for test in tests)
        n_first = sum(one < limit for one in times)
        return tests[:n_first], tests[n_first:]


def file_of(test):
    return test.partition("::")[0]


def quick_tests(path, modules):
    """Names of quick tests, of a file that --junitxml wrote; all worlds of recorded numbers."""
    names, entries, worlds = [], defaultdict(float), set()
    stems = [Path(one).stem.strip("_") for one in modules]
    for case in ElementTree.parse(path).iter("testcase"):
        file = case.get("classname").replace(".", "/") + ".py"
        test, seconds = f"{file}::{case.get('name')}", float(case.get("time"))
        world, _, entry = test.partition("-")
        if file == RECORDED:
            worlds.add(world)
            entries[entry] = max(entries[entry], seconds)
        elif seconds < (CLOSE if any(one in Path(file).stem for one in stems) else SHORT):
            names.append(test)
    quick = [entry for entry, seconds in entries.items() if seconds < SHORT]
    return names + [f"{world}-{entry}" for world, entry in itertools.product(worlds, quick)]


class Tests:
    """A plugin of pytest that runs the tests of a mutant."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def pytest_runtestloop(self, session):
        run_tests(session, *self.arguments)


def run_tests(session, batches, function, seconds):
    """End the process: with status 1 if a test fails, else with 0, after so many seconds."""
    items = {one.nodeid: one for one in session.items}
    names = [one for one in function.split(".") if len(one) > 4 and one[0] != "_"]
    chosen = [items[test] for test in in_order(items, batches, names) if test in items]
    session.config.pluginmanager.register(EndsIfFailed())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    ends = time.process_time() + seconds
    for item, following in itertools.zip_longest(chosen, chosen[1:]):
        signal.alarm(HANGS)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if time.process_time() > ends:
            break
    os._exit(0)


def in_order(items, batches, names):
    """Tests that reach a line, then their other instances, and those that name the function.

    The others may use what the first has computed. Those of recorded numbers come last, as it is
    known which of them reach a line.
    """
    order = dict.fromkeys(itertools.chain(*batches))
    functions = {test.partition("[")[0] for test in order}
    recorded, beside, named = [], [], []
    for test in items:
        function, _, instance = test.partition("[")
        if file_of(test) == RECORDED:
            recorded.append(test)
        elif function in functions:
            beside.append(test)
        elif any(name in instance for name in names):
            named.append(test)
    return order | dict.fromkeys(beside + named + recorded)


class EndsIfFailed:
    """A plugin of pytest that ends the process at the first failure."""

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os._exit(1)


def module_of(place):
    return ".".join(place.with_suffix("").parts)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module from another source."""

    def __init__(self, name, path, source):
        self.name, self.path, self.source = name, str(path), source

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def get_filename(self, fullname):
        return self.path

    def get_data(self, path):
        if path == self.path:
            return self.source
        raise OSError(path)


OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]


class Collected:
    """A process that has collected all tests; each mutant gets a copy of it, in which the code of
    its function is replaced. (Collecting takes longer than most mutants live.)
    """

    def __init__(self, root):
        here, there = multiprocessing.Pipe()
        if os.fork() == 0:
            here.close()
            self.pipe = there
            enter(root)
            skipped = [f"--ignore={root}/tests/{one}" for one in SKIPPED]
            pytest.main([*OPTIONS, *skipped, "tests"], plugins=[self])
            os._exit(0)
        there.close()
        self.pipe = here

    def pytest_runtestloop(self, session):
        """Wait for mutants, and answer with the status of a copy that has run their tests."""
        mine = [one for one in gc.get_objects() if is_of_the_library(one)]
        gc.freeze()  # so that copies share their memory
        while True:
            try:
                path, function, code, source, batches, seconds = self.pipe.recv()
            except EOFError:
                os._exit(0)
            child = os.fork()
            if child == 0:
                try:
                    replace(code_of(compile(source, path, "exec"), code), path, mine)
                except (LookupError, SyntaxError, ValueError):
                    os._exit(NOT_REPLACED)
                run_tests(session, batches, function, seconds)
            self.pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def status(self, mutant, batches, seconds):
        path, function, *_, code, source = mutant
        self.pipe.send((str(path), function, code, source, batches, seconds))
        return self.pipe.recv()


NOT_REPLACED = 3
CACHED = type(functools.cache(len))


def is_of_the_library(one):
    own = isinstance(one, (types.FunctionType, CACHED))
    return own and str(one.__module__).startswith("skcalib")


def replace(new, path, functions):
    """Replace the code of a function wherever it is used; forget what was computed before.

    Raises `LookupError` where it is not found, and `ValueError` where the new code has other
    variables of the function around it.
    """
    place, old = (path, *key_of_code(new)), []
    for one in functions:
        if isinstance(one, CACHED):
            one.cache_clear()
        elif (one.__code__.co_filename, *key_of_code(one.__code__)) == place:
            old.append(one)
    if not old:
        raise LookupError(place)
    for one in old:
        one.__code__ = new


def key_of_code(code):
    return code.co_qualname, code.co_firstlineno


def code_of(module, key):
    """The code of a function in that of its module."""
    parts = [module]
    for code in parts:
        if key_of_code(code) == key:
            return code
        parts += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    raise KeyError(key)


def enter(root):
    os.chdir(root)
    sys.path[:0] = [str(root), str(root / "tests")]
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def status_of_import(mutant, root, batches, seconds):
    """As `Collected.status`, by a child that imports the module and collects the tests itself."""
    path, function, *_, source = mutant
    child = os.fork()
    if child == 0:
        signal.alarm(2 * HANGS)  # test modules, too, may call what hangs when they are imported
        enter(root)
        name = "skcalib." + module_of(path.relative_to(root / "skcalib"))
        sys.meta_path.insert(0, Changed(name, path, source))
        files = dict.fromkeys(map(file_of, itertools.chain(*batches)))
        code = pytest.main([*OPTIONS, *files], plugins=[Tests(batches, function, seconds)])
        os._exit(int(code not in (0, 5)))  # 5: no tests
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Worker:
    """Tries mutants, in a process of its own."""

    def __init__(self, mutants, again, root, reached, seconds, ends):
        self.mutants, self.again, self.root, self.reached = mutants, again, root, reached
        self.seconds, self.ends = seconds, ends
        self.collected = Collected(root)

    def is_killed(self, number):
        """Whether a test fails; None after the time.

        The module is imported for functions that no test calls, as they may run at import, and for
        mutants that survived before.
        """
        if time.monotonic() > self.ends:
            return None
        mutant, status = self.mutants[number], NOT_REPLACED
        tests = self.reached.tests(mutant[0], mutant[4])
        batches = list(self.reached.batches(mutant[0], tests))
        if mutant[5] and tests and not self.again[number]:
            status = self.collected.status(mutant, batches, self.seconds)
        if status == NOT_REPLACED:
            status = status_of_import(mutant, self.root, batches, self.seconds)
        if status == 0:
            path, function, old, new, *_ = mutant
            print(f"survived: {path.relative_to(self.root)}, {function}\n    - {old}\n    + {new}")
            sys.stdout.flush()
        return status != 0


def start_worker(*arguments):
    global worker
    worker = Worker(*arguments)


def is_killed(number):
    return worker.is_killed(number)


# --- What is chosen, and its score ----------------------------------------------------------------


def key_of(mutant, root):
    path, function, old, new, *_ = mutant
    return f"{path.relative_to(root / 'skcalib')} | {function} | {old} | {new}"


def changed_since(reference):
    """Files of the library that differ from a commit; none where it does not exist."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", reference, "--", "skcalib"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line.removeprefix("skcalib/") for line in done.stdout.splitlines()]


def has_numbers(name):
    return name.endswith(".py") and not name.startswith(WITHOUT_NUMBERS) and "__init__" not in name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="such as errors/corp.py; default: all")
    parser.add_argument("--changed", metavar="REF", help="files that differ from this commit")
    parser.add_argument("--sample", type=int, default=12, help="mutants of each module; 0: all")
    year, number, _ = datetime.date.today().isocalendar()
    parser.add_argument(
        "--seed", type=int, default=100 * year + number, help="default: year and week"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time for all")
    parser.add_argument("--each", type=float, default=90, help="seconds of tests for a mutant")
    parser.add_argument("--least", type=float, default=95, help="per cent that must be killed")
    parser.add_argument("--reached", type=Path, help="folder of which tests reach each line")
    parser.add_argument(
        "--quick", type=Path, help="seconds of tests (--junitxml): quick ones find these tests"
    )
    parser.add_argument("--scores", type=Path, help="table of the scores, which is added to")
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    names = options.modules or sorted(
        str(path.relative_to(ROOT / "skcalib")) for path in (ROOT / "skcalib").rglob("*.py")
    )
    if options.changed:
        names = [name for name in changed_since(options.changed) if name in names]
    names = [name for name in names if has_numbers(name) or name in options.modules]
    listed = EQUIVALENT.read_text(encoding="utf-8").splitlines() if EQUIVALENT.exists() else []
    listed = {line.strip() for line in listed if not line.startswith("#")}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in ("skcalib", "tests", "doc", "examples"):
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "conftest.py", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / part, root)
        by_module = {name: list(mutants_of(root / "skcalib" / name)) for name in names}
        keyed = {key_of(one, root): one for own in by_module.values() for one in own}
        for key in sorted(listed - keyed.keys()):
            if key.partition(" | ")[0] in names:
                print(f"{EQUIVALENT.name} has a mutant that does not exist: {key}")
        tried = {  # without mutants of lines that have changed
            key: killed
            for key, killed in read_scores(options.scores).items()
            if key not in listed and (key in keyed or key.partition(" | ")[0] not in names)
        }
        rng = random.Random(options.seed)
        chosen = [keyed[key] for key, killed in tried.items() if key in keyed and not killed]
        pools = (
            [[m for own in by_module.values() for m in own]]
            if options.changed
            else by_module.values()
        )
        known = listed | tried.keys()
        for pool in pools:
            pool = [one for one in pool if key_of(one, root) not in known]
            some = options.sample and options.sample < len(pool)
            chosen += rng.sample(pool, options.sample) if some else pool
        if not chosen:
            print("there is no mutant to try")
            return 0
        rng.shuffle(chosen)  # where time ends, all modules have had some
        warm_up()
        jobs = int(os.environ.get("CHILDREN", os.cpu_count() or 1))
        lines = options.reached or root / "reached"
        lines.mkdir(exist_ok=True)
        quick = quick_tests(options.quick, names) if options.quick else None
        reached = Reached(root, lines, jobs, quick)
        started = time.monotonic()
        again = [key_of(one, root) in tried for one in chosen]
        given = chosen, again, root, reached, options.each, ends
        context = multiprocessing.get_context("fork")
        outcome = {}
        with ProcessPoolExecutor(jobs, context, start_worker, given) as workers:
            for one, killed in zip(chosen, workers.map(is_killed, range(len(chosen))), strict=True):
                if killed is not None:
                    outcome[key_of(one, root)] = killed
                    if len(outcome) % 100 == 0:
                        print(f"{len(outcome)} of {len(chosen)} mutants tried", flush=True)
        tried |= outcome
        if options.scores:
            write_scores(options.scores, tried)
    seconds = time.monotonic() - started
    print(f"{len(outcome)} of {len(chosen)} mutants tried, seed {options.seed}, {seconds:.0f} s")
    return report(tried, options.least)


def warm_up():
    """Import what all tests need, once; the library itself is imported by each child."""
    for name in ("numpy", "scipy.stats", "scipy.optimize", "scipy.special", "pandas", "polars"):
        importlib.import_module(name)
    for name in ("sklearn.ensemble", "sklearn.model_selection", "sklearn.linear_model", "pytest"):
        importlib.import_module(name)
    importlib.import_module("matplotlib.pyplot")


def read_scores(path):
    """Whether the mutants that were tried were killed, by their key."""
    if path is None or not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {key: killed == "1" for key, killed in list(csv.reader(file))[1:]}


def write_scores(path, tried):
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = [("mutant", "killed"), *sorted((key, int(one)) for key, one in tried.items())]
        csv.writer(file, lineterminator="\n").writerows(rows)


def report(tried, least):
    """Print the scores; whether that of all, or of a module with enough mutants, is too low."""
    modules = defaultdict(list)
    for key, killed in tried.items():
        modules[key.partition(" | ")[0]].append(killed)
    low = False
    for name, own in sorted(modules.items()):
        if not all(own):
            print(f"{name}: {sum(own)} of {len(own)} killed")
            low |= len(own) >= ENOUGH and 100 * sum(own) < least * len(own)
    killed = sum(tried.values())
    print(f"{killed} of {len(tried)} mutants killed, {100 * killed / max(len(tried), 1):.1f} %")
    return int(low or (len(tried) >= ENOUGH and 100 * killed < least * len(tried)))


if __name__ == "__main__":
    sys.exit(main())
