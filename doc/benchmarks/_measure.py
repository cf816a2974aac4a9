"""What all benchmarks measure alike: the shortest time of some runs, and memory."""

import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import process_time


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
