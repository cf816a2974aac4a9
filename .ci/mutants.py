"""Do the tests notice wrong formulas? Mutants of modules, made and run by mutmut 3.

    python .ci/mutants.py skcalib/errors/corp.py              # all mutants of a module
    python .ci/mutants.py --sample 40 skcalib/errors/*.py     # forty of each module, drawn at random
    python .ci/mutants.py --shard 3/14 --sample 100           # of the third part of all modules

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
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTED = ROOT / ".ci" / "equivalent_mutants"
#: Modules that hold numbers.
MODULES = """
errors/*.py proper/*.py error_intervals/*.py grouping/*.py links/*.py recalibration/*.py
significance/*.py smoothers/*.py stats/*.py monitoring/*.py regression/*.py risk_models/*.py
sketches/*.py theory/*.py datasets/*.py scores.py kernels.py _util/arithmetic.py
"""
LAWS = ["tests/laws", "tests/test_golden.py", "--ignore=tests/laws/test_recorded_numbers.py"]
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
timeout_multiplier = 5.0
"""


def all_modules():
    """Paths of the modules that hold numbers, from the root of the repository."""
    files = (path for pattern in MODULES.split() for path in (ROOT / "skcalib").glob(pattern))
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def part(items, shard):
    """The i-th of n parts, given as "i/n": neighbours stay together."""
    i, n = map(int, shard.split("/"))
    if not 1 <= i <= n:
        raise ValueError(f"{shard} is no part of a whole: from 1/{n} to {n}/{n}")
    return items[len(items) * (i - 1) // n : len(items) * i // n]


def tests_of(module):
    """Arguments of pytest that choose the tests that judge a module."""
    name = module.removeprefix("skcalib/").removesuffix(".py")
    places = [f"tests/{os.path.dirname(name)}", f"tests/test_{name}.py"]
    places = [place for place in places if place != "tests/" and (ROOT / place).exists()]
    return ["--every", "8", *places, *LAWS]


def lines_of(function):
    """The statements of a function, each in one line, without its name and its annotations."""
    function.returns = None
    for argument in (node for node in ast.walk(function) if isinstance(node, ast.arg)):
        argument.annotation = None
    header, *body = ast.unparse(function).splitlines()
    return [header.partition("(")[2], *(line.strip() for line in body)]


def mutants(module, code):
    """Mutants in a file that mutmut wrote: their names, and what .ci/equivalent_mutants says of them."""
    classes = [("", ast.parse(code))]
    classes += [(c.name + ".", c) for c in classes[0][1].body if isinstance(c, ast.ClassDef)]
    found = {}
    for prefix, parent in classes:
        functions = {f.name: f for f in parent.body if isinstance(f, ast.FunctionDef)}
        for name, function in functions.items():
            stem, _, number = name.partition("__mutmut_")
            if not number.isdigit():
                continue
            before, after = lines_of(functions[f"{stem}__mutmut_orig"]), lines_of(function)
            changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
            changes = [change for change in changes if change[0] != "equal"]
            old = " ".join(line for _, i, j, _, _ in changes for line in before[i:j])
            new = " ".join(line for _, _, _, i, j in changes for line in after[i:j])
            function_name = prefix + stem.removeprefix("x_").rpartition("ǁ")[2]
            dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            found[f"{dotted}.{name}"] = f"{module} | {function_name} | {old} | {new}"
    return found


def listed(path=LISTED):
    """Lines of .ci/equivalent_mutants: module | function | original | mutated | reason."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


def sort_out(module, found, lines):
    """Names of the mutants that no line names, and the lines about the module that name none."""
    known = {name: [line for line in lines if line.startswith(f"{text} | ")] for name, text in found.items()}
    used = {line for matches in known.values() for line in matches}
    about = [line for line in lines if line.startswith(f"{module} | ")]
    return [name for name in found if not known[name]], [line for line in about if line not in used]


def copy_tree(folder):
    """What git knows of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def generate(modules):
    """Mutants of modules, by module: made here, as mutmut makes them again when it runs them."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    sources = {module: Path(module).read_text(encoding="utf-8") for module in modules}
    return {
        module: mutants(module, mutate_file_contents(module, source).code)
        for module, source in sources.items()
    }


def judge(modules, tests, options):
    """Run the mutants of modules that the same tests judge, and print their shares: is any too low?"""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        os.chdir(folder)
        os.mkdir("mutants")  # now: Python would remember that PYTHONPATH does not exist
        with open("pyproject.toml", "a", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(modules=json.dumps(modules), tests=json.dumps(tests)))
        found, lines = generate(modules), listed()
        tried, stale = {}, []
        for module in modules:
            names, unused = sort_out(module, found[module], lines)
            stale += unused
            number = min(options.sample or len(names), len(names))
            tried[module] = random.Random(options.seed).sample(names, number)
        names = sum(tried.values(), [])
        if names and not options.list:
            environment = os.environ | {"PYTHONPATH": f"{folder}/mutants"}
            for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
                environment[threads] = "1"
            environment["MPLBACKEND"] = "Agg"
            command = ["mutmut", "run", "--max-children", str(options.jobs), *names]
            with open("mutmut.log", "w+", encoding="utf-8") as log:
                done = subprocess.run(command, env=environment, stdout=log, stderr=log)
                if done.returncode:
                    log.seek(0)
                    sys.exit(f"mutmut failed:\n{log.read()[-5000:]}")
        failed = bool(stale)
        for module in modules:
            if not tried[module]:
                continue
            if options.list:
                print(*(found[module][name] for name in tried[module]), sep="\n")
                continue
            codes = json.loads(Path(f"mutants/{module}.meta").read_text())["exit_code_by_key"]
            # 0: all tests pass; 5 and 33: no test reaches the function; None: mutmut stopped early
            left = [name for name in tried[module] if codes[name] in (0, 5, 33, None)]
            share = 100 * (1 - len(left) / len(tried[module]))
            failed |= share < options.least
            for name in sorted(left, key=tried[module].index):
                print(found[module][name], "" if codes[name] == 0 else "(no test reaches it)")
            killed = f"{len(tried[module]) - len(left)} of {len(tried[module])} killed"
            print(f"{module}: {killed}, {share:.0f} %; {len(found[module])} in all", flush=True)
        for line in stale:
            print(f"matches no mutant: {line}")
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
