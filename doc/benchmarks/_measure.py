"""What all benchmarks share: the shortest time of some runs, memory, and rows of a table."""

import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

#: A folder of networks beside the repository; the benchmarks that use it do without, too.
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
#: The variable with the name of the file to which `finish` writes its rows, for `run_all.py`.
ROWS = "SKCALIB_BENCHMARK_ROWS"


def shortest(run, repeats=1):
    """Least seconds of some runs, and the last result.

    Processor time: other work on the machine does not count, so run with one thread.
    """
    times = []
    for _ in range(repeats):
        start = process_time()
        result = run()
        times.append(process_time() - start)
    return min(times), result


def peak_bytes(run):
    """What one call allocates at most."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def peak_megabytes():
    """The most memory that this process has had so far.

    Linux tells it for the process alone; `getrusage`, which other systems have, may count the
    parent's as well.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def megabytes_of_fresh_process(script, n_samples):
    """What ``script --memory n_samples`` prints, in a process of its own."""
    arguments = [sys.executable, script, "--memory", str(n_samples)]
    return float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


@dataclass(frozen=True)
class Row:
    """What is measured, with its goal.

    A row fails beyond twice the goal, or below half of it if the goal is a least value; beyond
    `limit`, if that is given; and beyond the goal itself if it is `strict`.
    """

    operation: str
    measured: float
    goal: float
    unit: str = ""
    least: bool = False
    strict: bool = False
    limit: float | None = None
    note: str = ""

    def reaches(self, value):
        """Whether the measured value is as good."""
        return self.measured >= value if self.least else self.measured <= value

    @property
    def result(self):
        """Whether the row passed: "missed" is beyond the goal, and "FAILED" beyond its limit."""
        if self.reaches(self.goal):
            return "passed"
        limit = self.limit or self.goal * (1 if self.strict else 0.5 if self.least else 2)
        return "missed" if self.reaches(limit) else "FAILED"

    def cells(self):
        """The four columns of the table."""
        bound = "at least" if self.least else "at most"
        goal = f"{bound} {_short(self.goal)} {self.unit}".strip()
        measured = f"{_short(self.measured)} {self.unit}".strip()
        return self.operation, goal, "; ".join(filter(None, [measured, self.note])), self.result


def _short(value):
    """Up to three digits."""
    if value and abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows):
    """Rows as a table of the guide."""
    cells = [("What", "Goal", "Measured", "Result"), *(row.cells() for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(4)]
    border = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join([border, lines[0], border, *lines[1:], border])


def finish(rows, *, quick=False):
    """Print the rows, write them for `run_all.py`, and fail if one failed.

    In a quick run only memory and what is strict can fail: its problems are too small for ratios.
    """
    print(table(rows))
    if ROWS in os.environ:
        Path(os.environ[ROWS]).write_text(json.dumps([asdict(row) for row in rows]))
    counted = [row for row in rows if not quick or row.strict or row.unit.startswith("MB")]
    failed = [row for row in counted if row.result == "FAILED"]
    assert not failed, "; ".join("{0}: {2}, goal {1}".format(*row.cells()) for row in failed)
