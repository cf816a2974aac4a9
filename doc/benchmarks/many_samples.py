"""Proper calibration error and reliability diagram of very many samples.

    python doc/benchmarks/many_samples.py [--quick]

One run, one core, n = 1,000,000 scores without ties of a binary forecast. The error is
`proper_calibration_error` with its defaults, which sums over cells of the log odds. It is compared
with the same models on the samples themselves. The diagram has an isotonic curve, its consistency
band of 500 resamples, and the error with its interval in the legend. Both goals are 20 sorts; twice
as many fail. The error of as many forecasts of ten classes, 80 MB, runs in a process of its own:
the goals are 3 seconds, and no copy of the data.
"""

import argparse
import subprocess
import sys
import warnings
from time import process_time

import matplotlib as mpl
import numpy as np
from _measure import Row, finish, peak_megabytes, shortest

from skcalib import ReliabilityDisplay, proper_calibration_error
from skcalib._util.sizes import sizes

GOAL, DIFFERENCE, SECONDS = 20.0, 1e-5, 3.0


def make_data(n_samples):
    """Over-confident scores and labels."""
    rng = np.random.default_rng(0)
    score = rng.random(n_samples)
    return (rng.random(n_samples) < score**1.2).astype(int), score


def of_samples(y, score):
    """The error without cells."""
    with sizes(merged_samples=len(y)):
        return proper_calibration_error(y, score)


def ten_classes(n_samples):
    """Print seconds of the error, and megabytes beside the data."""
    rng = np.random.default_rng(0)
    proba = rng.standard_gamma(0.5, (n_samples, 10))
    proba /= proba.sum(axis=1, keepdims=True)
    y = np.empty(n_samples, dtype=int)
    for rows in np.array_split(np.arange(n_samples), 100):
        levels = proba[rows].cumsum(axis=1)[:, :-1]
        y[rows] = (levels < rng.random((len(rows), 1))).sum(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the time that it takes
        proper_calibration_error(y[:2000], proba[:2000])  # imports
        before, start = peak_megabytes(), process_time()
        proper_calibration_error(y, proba)
        print(process_time() - start, peak_megabytes() - before)


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n=300,000, and no assertion of speed")
    parser.add_argument("--ten-classes", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ten_classes:
        ten_classes(arguments.ten_classes)
        return
    quick = arguments.quick
    mpl.use("agg")
    n_samples = 300_000 if quick else 1_000_000
    # First: a process starts with the peak memory of the one that started it.
    command = [sys.executable, __file__, "--ten-classes", str(n_samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    y, score = make_data(n_samples)
    ReliabilityDisplay.from_predictions(y[:1000], score[:1000])  # imports, and fonts of the figure

    sort, _ = shortest(lambda: np.sort(score), 5)
    error_time, error = shortest(lambda: proper_calibration_error(y, score), 3)
    exact_time, exact = shortest(lambda: of_samples(y, score))
    display_time, _ = shortest(lambda: ReliabilityDisplay.from_predictions(y, score), 2)
    difference = abs(error / exact - 1)

    print(f"n = {len(y):,}, K = 2; one sort of the scores: {sort:.3f} s")
    print(f"{'':36s}{'seconds':>10s}{'sorts':>8s}")
    names = "proper error", "the same, without cells", "ReliabilityDisplay"
    for name, time in zip(names, (error_time, exact_time, display_time), strict=True):
        print(f"{name:36s}{time:10.2f}{time / sort:8.1f}")
    name, sorts = f"Proper calibration error, n = {n_samples:,}", "sorts of the scores"
    exact_sorts = f"{exact_time / sort:.0f} on the samples themselves"
    diagram = f"Reliability diagram with band and error, n = {n_samples:,}"
    rows = [
        Row(f"{name}, K = 2", error_time / sort, GOAL, sorts, note=exact_sorts),
        Row(f"{name}, K = 2: relative difference", difference, DIFFERENCE, strict=True),
        Row(f"{name}, K = 10", seconds, SECONDS, "s"),
        Row(f"{name}, K = 10: memory", megabytes, 8e-5 * n_samples, "MB beside the data"),
        Row(diagram, display_time / sort, GOAL, sorts, note=f"{display_time:.1f} s"),
    ]
    finish(rows, quick=quick)


if __name__ == "__main__":
    main()
