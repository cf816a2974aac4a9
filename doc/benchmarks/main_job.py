"""Processor time and memory of ``python -m skcalib``, the main job of the README.

    python doc/benchmarks/main_job.py

Each run is a process of its own, after one that compiles the modules and fills the caches of the
file system. Printed are the least times, beside those of the imports that the job cannot avoid:
scikit-learn's forests, which import pandas and scipy.stats, and matplotlib's figures. The goal is 3
seconds, or twice these imports on a slower machine; twice as much fails.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import Row, finish

GOAL, TIMES, RUNS = 3.0, 2.0, 3
IMPORTS = "import sklearn.ensemble, sklearn.datasets, sklearn.model_selection, matplotlib.figure"
MEASURE = """
import runpy, sys, time
from pathlib import Path
import contextlib, io
sys.argv = ["skcalib"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    {}
times = time.process_time()
sys.path.insert(0, {!r})
from _measure import peak_megabytes
print(times, peak_megabytes())
"""
JOB = 'runpy.run_module("skcalib", run_name="__main__")'


def run(statement, folder):
    """Seconds and megabytes of a statement in a process of its own."""
    script = MEASURE.format(statement, str(Path(__file__).parent))
    own = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "MPLBACKEND": "agg"}
    environment = {**os.environ, **own}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    given = filter(None, environment.get("PYTHONPATH", "").split(":"))
    environment["PYTHONPATH"] = ":".join(str(Path(path).absolute()) for path in given)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        least, (job, megabytes) = (
            min(run(statement, folder) for _ in range(RUNS + 1)) for statement in (IMPORTS, JOB)
        )
    print(f"imports of scikit-learn and matplotlib  {least[0]:6.2f} s")
    print(f"python -m skcalib                       {job:6.2f} s, {megabytes:.0f} MB")
    goal = max(GOAL, TIMES * least[0])
    note = (
        f"{job / least[0]:.1f} times the imports of scikit-learn and matplotlib; {megabytes:.0f} MB"
    )
    finish([Row("python -m skcalib, the main job of the README", job, goal, "s", note=note)])


if __name__ == "__main__":
    main()
