"""Do the tests notice wrong formulas? Mutants of modules, made and run by mutmut 3.

    python .ci/mutants.py skcalib/errors/corp.py             # all mutants of a module
    python .ci/mutants.py --sample 40 skcalib/errors/*.py    # forty of each, drawn at random
    python .ci/mutants.py --shard 3/14 --sample 100          # of the third part of all modules

Needs the extra "test" and mutmut. A module is judged by the tests of its package (or by its own
file of tests) and by the laws, of which every eighth instance runs, as the README's command runs
them; the recorded numbers do not count, since they do not say what is right. Prints the mutants
that survive, and fails where less than LEAST percent of a module's are killed: of those that are
not listed in .ci/equivalent_mutants, which change no result.
"""

import argparse
import ast
import difflib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changed import NUMBERS, ROOT
from changed import tests_of as judges_of

LISTED = ROOT / ".ci" / "equivalent_mutants"
#: Modules that hold numbers.
MODULES = """
errors/*.py proper/*.py error_intervals/*.py grouping/*.py links/*.py recalibration/*.py
significance/*.py smoothers/*.py stats/*.py monitoring/*.py regression/*.py risk_models/*.py
sketches/*.py estimators/*.py theory/*.py datasets/*.py scores.py kernels.py _util/arithmetic.py
"""
#: Tests that judge every module.
LAWS = ["tests/laws", "tests/test_golden.py", f"--ignore={NUMBERS}"]
CONFIGURATION = """
[tool.mutmut]
source_paths = ["skcalib"]
only_mutate = {modules}
do_not_mutate_patterns = ["raise ", 'f"']
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {tests}
also_copy = ["conftest.py", "doc", "examples"]
process_isolation = "forkserver" # tests that start processes would otherwise confuse mutmut
timeout_constant = 10.0
timeout_multiplier = 8.0
"""


def all_modules():
    """Paths of the modules that hold numbers, from the root of the repository."""
    files = [path for pattern in MODULES.split() for path in (ROOT / "skcalib").glob(pattern)]
    files = [path for path in files if "def " in path.read_text(encoding="utf-8")]
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def part(items, shard):
    """The i-th of n parts, given as "i/n": neighbours stay together."""
    i, n = map(int, shard.split("/"))
    if not 1 <= i <= n:
        raise ValueError(f"{shard} is no part of a whole: from 1/{n} to {n}/{n}")
    return items[len(items) * (i - 1) // n : len(items) * i // n]


def tests_of(module):
    """Arguments of pytest that choose the tests that judge a module."""
    places = [place for place in judges_of(module) if place not in (NUMBERS, *LAWS)]
    return ["--every", "8", *places, *LAWS]


def lines_of(function):
    """The statements of a function, each in one line, without name, decorators and annotations."""
    function.returns, function.decorator_list = None, []
    for argument in (node for node in ast.walk(function) if isinstance(node, ast.arg)):
        argument.annotation = None
    header, *body = ast.unparse(function).splitlines()
    return [header.partition("(")[2], *(line.strip() for line in body)]


def mutants(module, code):
    """Mutants in a file that mutmut wrote, by name: (function, lines before, lines after).

    Without those that change a text alone: they test words, or names that no option has.
    """
    tree = ast.parse(code)
    parents = [("", tree)]
    parents += [(node.name + ".", node) for node in tree.body if isinstance(node, ast.ClassDef)]
    dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    changed = {}
    for prefix, parent in parents:
        functions = {node.name: node for node in parent.body if isinstance(node, ast.FunctionDef)}
        for name, function in functions.items():
            stem, _, number = name.partition("__mutmut_")
            if number.isdigit():
                before, after = lines_of(functions[f"{stem}__mutmut_orig"]), lines_of(function)
                steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
                steps = [step for step in steps if step[0] != "equal"]
                old = " ".join(line for _, i, j, _, _ in steps for line in before[i:j])
                new = " ".join(line for _, _, _, i, j in steps for line in after[i:j])
                if re.sub("'[^']*'", "''", old) != re.sub("'[^']*'", "''", new):
                    original = prefix + stem.removeprefix("x_").rpartition("ǁ")[2]
                    changed[f"{dotted}.{name}"] = original, old, new
    return changed


def names(line, module, mutant):
    """Does a line of .ci/equivalent_mutants name a mutant, by a part of its statement or by all?"""
    function, before, after = mutant
    if not line.startswith(f"{module} | {function} | "):
        return False
    fields = line.split(" | ")[2:-1]  # " | " may also be an operator
    for k in range(1, len(fields)):
        old, new = " | ".join(fields[:k]), " | ".join(fields[k:])
        places = (match.start() for match in re.finditer(re.escape(old), before))
        if any(before[:i] + new + before[i + len(old) :] == after for i in places):
            return True
    return False


def sort_out(module, changed, lines):
    """Names of the mutants that no line names, and the lines about the module that name none."""
    about = [line for line in lines if line.startswith(f"{module} | ")]
    named = {line: {key for key in changed if names(line, module, changed[key])} for line in about}
    listed = set().union(*named.values())
    left = [key for key in changed if key not in listed]
    return left, [line for line in about if not named[line]]


def equivalent_mutants():
    """Lines of the list: module | function | original | mutated | reason."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def copy_tree(folder):
    """What git knows of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def generate(modules):
    """The mutants of each module, as mutmut makes them again when it runs them."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # reads pyproject.toml here

    sources = {module: Path(module).read_text(encoding="utf-8") for module in modules}
    return {
        module: mutants(module, mutate_file_contents(module, source).code)
        for module, source in sources.items()
    }


def run(keys, folder, jobs):
    """Run mutants by mutmut."""
    environment = os.environ | {"PYTHONPATH": f"{folder}/mutants", "MPLBACKEND": "Agg"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with open("mutmut.log", "w+", encoding="utf-8") as log:
        command = ["mutmut", "run", "--max-children", str(jobs), *keys]
        if subprocess.run(command, env=environment, stdout=log, stderr=log).returncode:
            log.seek(0)
            sys.exit(f"mutmut failed:\n{log.read()[-5000:]}")


def judge(modules, tests, options):
    """Run the mutants of modules that the same tests judge, print what survives: is it too much?"""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        os.chdir(folder)
        os.mkdir("mutants")  # now: Python would remember that PYTHONPATH does not exist
        with open("pyproject.toml", "a", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(modules=json.dumps(modules), tests=json.dumps(tests)))
        changed, lines = generate(modules), equivalent_mutants()
        tried, listed, unused = {}, {}, []
        for module in modules:
            keys, without = sort_out(module, changed[module], lines)
            tried[module], listed[module] = keys, len(changed[module]) - len(keys)
            if options.sample and options.sample < len(keys):
                tried[module] = random.Random(options.seed).sample(keys, options.sample)
            unused += without
        keys = [key for drawn in tried.values() for key in drawn]
        if keys and not options.list:
            run(keys, folder, options.jobs)
        failed = bool(unused)
        for module, keys in tried.items():
            codes = dict.fromkeys(keys, 0)  # with --list, all survive
            if not options.list:
                meta = Path(f"mutants/{module}.meta").read_text(encoding="utf-8")
                codes = json.loads(meta)["exit_code_by_key"]
            # 0: all tests pass; 5 and 33: no test reaches the function; None: mutmut has stopped
            alive = [key for key in keys if codes[key] in (0, 5, 33, None)]
            for key in alive:
                unreached = "" if codes[key] == 0 else " (no test reaches it)"
                print(" | ".join([module, *changed[module][key]]) + unreached)
            if keys and not options.list:
                share = 100 - 100 * len(alive) / len(keys)
                failed |= share < options.least
                late = sum(codes[key] in (24, -24, 36, 152, 255) for key in keys)
                notes = f"{late} by the limit of time; {listed[module]} listed as equivalent"
                print(f"{module}: {share:.0f} % of {len(keys)} killed, {notes}", flush=True)
        for line in unused:
            print(f"names no mutant: {line}")
        os.chdir(home)
    return failed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", help="default: all that hold numbers")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts of them")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--least", type=float, default=95, help="percent that must be killed")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at a time")
    parser.add_argument("--tests", help="arguments of pytest that choose the tests")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run none")
    options = parser.parse_args(arguments)
    together = defaultdict(list)
    for module in part(options.modules or all_modules(), options.shard):
        together[tuple(shlex.split(options.tests or "") or tests_of(module))].append(module)
    # all, also after one that fails
    return max([judge(modules, list(tests), options) for tests, modules in together.items()])


if __name__ == "__main__":
    sys.exit(main())
