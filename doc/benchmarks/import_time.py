"""Processor time of ``import skcalib``, beside that of ``import sklearn.base``.

    python doc/benchmarks/import_time.py

Each import runs in fresh processes, after one that fills the caches of the file system. Printed
are the least times: of sklearn.base, of skcalib after it, and of the report, which imports most of
the library and what it stands on; and of ``skcalib --help``.
"""

import os
import subprocess
import sys

from _measure import Row, finish

GOAL, RUNS = 0.15, 7
MEASURE = """
import time
start = time.process_time()
import sklearn.base
base = time.process_time()
import skcalib
root = time.process_time()
from skcalib import CalibrationReport
print(base - start, root - base, time.process_time() - root)
"""


def main():
    runs = []
    for _ in range(RUNS + 1):
        done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, check=True)
        runs.append([float(word) for word in done.stdout.split()])
    base, root, report = (min(column) for column in zip(*runs[1:], strict=True))
    print(f"import sklearn.base         {base:6.3f} s")
    print(f"import skcalib              {root:+6.3f} s, at most {GOAL:g} s")
    print(f"import CalibrationReport    {report:+6.3f} s")
    helps = []
    for _ in range(RUNS):
        before = os.times()
        subprocess.run([sys.executable, "-m", "skcalib", "--help"], capture_output=True, check=True)
        after = os.times()
        helps.append(sum(after[2:4]) - sum(before[2:4]))
    rows = [Row("import skcalib, after sklearn.base", root, GOAL, "s")]
    finish([*rows, Row("skcalib --help", min(helps), 0.3, "s")])


if __name__ == "__main__":
    main()
