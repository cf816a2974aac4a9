"""Calls on 50,000 forecasts of 1,000 classes: memory and time, or a warning before.

    python doc/benchmarks/large_classes.py [--quick]

Each call runs in a process of its own, with 400 MB of data. Memory is what it takes beside the
data and the imports; the goal is 300 MB. The unit of time is one pass over the data that takes
their logarithms. Calls that take longer than ten seconds warn before they start: their time ends
with the warning. Twice a goal fails.
"""

import argparse
import subprocess
import sys
import warnings
from time import process_time

import numpy as np
from _measure import Row, finish, peak_megabytes, shortest

from skcalib import TemperatureScaling, VectorScaling, proper_calibration_error, root_brier_score
from skcalib.errors import simplex_calibration_error
from skcalib.recalibration import BiasCorrectedTemperatureScaling

MEGABYTES, SECONDS = 300.0, 10.0
#: The call, and its goal in passes.
CALLS = {
    "root_brier_score": (root_brier_score, 10.0),
    "simplex_calibration_error": (simplex_calibration_error, 100.0),
    "TemperatureScaling": (lambda y, p: TemperatureScaling().fit(p, y), 40.0),
}
#: Calls that take ten seconds, or warn before.
SLOW = {
    "proper_calibration_error": proper_calibration_error,
    "BiasCorrectedTemperatureScaling": lambda y, p: BiasCorrectedTemperatureScaling().fit(p, y),
    "VectorScaling": lambda y, p: VectorScaling().fit(p, y),
}
_ROWS = 200


def make_data(n_samples, n_classes=1000):
    """Forecasts and labels, made by blocks of rows so that the peak is that of the data."""
    rng = np.random.default_rng(0)
    proba, y = np.empty((n_samples, n_classes)), np.empty(n_samples, dtype=int)
    for start in range(0, n_samples, _ROWS):
        some = rng.standard_exponential((_ROWS, n_classes)) ** 3
        some /= some.sum(axis=1, keepdims=True)
        levels = some.cumsum(axis=1)[:, :-1]
        rows = slice(start, start + _ROWS)
        proba[rows], y[rows] = some, (levels < rng.random((_ROWS, 1))).sum(axis=1)
    y[:n_classes] = np.arange(n_classes)  # every class occurs
    return y, proba


def measure(name, n_samples):
    """Print megabytes beside the data, seconds of the call, and seconds of a pass."""
    y, proba = make_data(n_samples)
    call = CALLS[name][0]
    call(*make_data(1000))  # imports
    before, start = peak_megabytes(), process_time()
    call(y, proba)
    seconds, megabytes = process_time() - start, peak_megabytes() - before
    out = np.empty((_ROWS, proba.shape[1]))
    blocks = [proba[start : start + _ROWS] for start in range(0, n_samples, _ROWS)]
    one_pass, _ = shortest(lambda: [np.log(block, out=out) for block in blocks], 2)
    print(megabytes, seconds, one_pass)


def measure_slow(name, n_samples):
    """Print the seconds of a call, or those until it warns that it is slow, and which it is."""
    y, proba = make_data(n_samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SLOW[name](*make_data(1000, 20))  # imports
    ends, start = "result", process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*takes (about|more than) ten seconds.*")
        try:
            SLOW[name](y, proba)
        except UserWarning:
            ends = "warning"
    print(process_time() - start, ends)


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 10,000")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, n_samples = arguments.measure
        (measure if name in CALLS else measure_slow)(name, int(n_samples))
        return
    n_samples = 10_000 if arguments.quick else 50_000
    print(f"n = {n_samples:,}, K = 1,000: {8e-3 * n_samples:.0f} MB of data")
    rows = []
    for name in [*CALLS, *SLOW]:
        command = [sys.executable, __file__, "--measure", name, str(n_samples)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        call = f"{name}, n = {n_samples:,}, K = 1,000"
        if name in SLOW:
            seconds, ends = done.stdout.split()
            call += ": time to the result, or to a warning"
            rows.append(Row(call, float(seconds), SECONDS, "s", note=f"the {ends}"))
            continue
        megabytes, seconds, one_pass = map(float, done.stdout.split())
        goal, taken = CALLS[name][1], f"{seconds:.1f} s"
        rows.append(Row(f"{call}: memory", megabytes, MEGABYTES, "MB beside the data"))
        rows.append(Row(call, seconds / one_pass, goal, "passes over the data", note=taken))
    finish(rows, quick=arguments.quick)


if __name__ == "__main__":
    main()
