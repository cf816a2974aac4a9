"""All benchmarks, one after the other, each in a process of its own with one thread.

    python doc/benchmarks/run_all.py [--quick] [--keep FOLDER] [SCRIPT ...]

Prints what each script prints, then a line for each, and at the end the table of the guide: every
row that was measured, with its goal. A row is "missed" beyond its goal, and it has "FAILED" at
half of its goal: a script with such a row fails, and so does this one. With a folder to keep the
rows, the table also has those of earlier runs of other scripts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from _measure import ROWS, Row, table

FOLDER = Path(__file__).parent
#: All scripts, in the order of the table.
SCRIPTS = (
    "canonical_kernel.py",
    "beta_kernel.py",
    "kernel_error.py",
    "binned_errors.py",
    "sketch.py",
    "temperature.py",
    "recalibrators.py",
    "grouping_tree.py",
    "grouping_model.py",
    "many_samples.py",
    "intervals.py",
    "large_samples.py",
    "large_classes.py",
    "grid_search.py",
    "report.py",
    "main_job.py",
    "import_time.py",
)
WITHOUT_QUICK = ("grid_search.py", "import_time.py", "main_job.py")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(script, options, rows):
    """Run a script that writes its rows to a file; return "passed", or what failed."""
    environment = os.environ | dict.fromkeys(THREADS, "1") | {ROWS: str(rows)}
    print(f"--- {script}", flush=True)
    command = [sys.executable, str(FOLDER / script), *options]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return "passed"
    return "FAILED: " + done.stderr.strip().rpartition("\n")[2]


def main():
    """Run, print, and end with status 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller problems")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to keep the rows")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="default: all")
    arguments = parser.parse_args()
    results, rows = {}, []
    with TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for script in arguments.scripts or SCRIPTS:
            quick = arguments.quick and script not in WITHOUT_QUICK
            of_script = (folder / script).with_suffix(".json").absolute()
            of_script.unlink(missing_ok=True)
            results[script] = run(script, ["--quick"] if quick else [], of_script)
        for script in SCRIPTS:
            of_script = (folder / script).with_suffix(".json")
            if of_script.exists():
                rows += [Row(**row) for row in json.loads(of_script.read_text())]
    print()
    for script, result in results.items():
        print(f"{script:24s}{result}")
    print()
    print(table(rows))
    sys.exit(any(result != "passed" for result in results.values()))


if __name__ == "__main__":
    main()
