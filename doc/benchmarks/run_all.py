"""All benchmarks, one after the other, each in a process of its own with one thread.

    python doc/benchmarks/run_all.py [--quick]

Prints the table of each script, and at the end a line for each: passed, or the assertion that
failed. Ends with status 1 if one failed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
WITHOUT_QUICK = ("import_time.py", "main_job.py")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller problems")
    quick = parser.parse_args().quick
    environment = os.environ | dict.fromkeys(THREADS, "1")
    results = {}
    for script in sorted(FOLDER.glob("[!_]*.py")):
        if script.name == Path(__file__).name:
            continue
        options = ["--quick"] if quick and script.name not in WITHOUT_QUICK else []
        print(f"--- {script.name}", flush=True)
        command = [sys.executable, str(script), *options]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
        last = done.stderr.strip().rpartition("\n")[2]
        results[script.name] = "passed" if done.returncode == 0 else f"FAILED: {last}"
    print()
    for name, result in results.items():
        print(f"{name:24s}{result}")
    sys.exit(any(result != "passed" for result in results.values()))


if __name__ == "__main__":
    main()
