"""Sketches: time, memory and differences from the samples.

One run, one core, n scores of a binary forecast. "Reading" is `ForecastSketch.partial_fit` in
chunks of a million; its unit is one `numpy.bincount` of the same rows, from cell numbers that are
known. For functions of the sketch the unit is the same function of the samples. The last number is
their difference. The peak is what reading allocates over the rows.

    python doc/benchmarks/sketch.py [--quick]

The goal of reading is 3 times the unit, which is not reached; a weaker limit is asserted. An
isotonic curve and a summary of a sketch of 10^6 samples are not slower than those of the samples.
The default proper error of so many samples sums them into cells first, fewer than a sketch has:
its goal is in seconds.
"""

import argparse

import numpy as np
from _measure import Row, finish, peak_bytes, shortest

from skcalib import (
    ForecastSketch,
    calibration_error_interval,
    calibration_summary,
    corp_decomposition,
    proper_calibration_error,
)

GOAL_READ, LIMIT_READ, GOAL_FUNCTION, GOAL_ERROR = 3.0, 40.0, 1.0, 1.0
CHUNK = 1_000_000


def make_data(n_samples):
    """Scores, many near 0 and 1, and labels of another curve."""
    rng = np.random.default_rng(0)
    score = rng.beta(0.5, 0.5, n_samples)
    return (rng.random(n_samples) < 0.1 + 0.75 * score).astype(np.int64), score


def read(y, score):
    """The sketch of the rows, by chunks."""
    sketch = ForecastSketch([0, 1])
    for start in range(0, len(y), CHUNK):
        sketch.partial_fit(y[start : start + CHUNK], score[start : start + CHUNK])
    return sketch


def compare(y, score, sketch, names):
    """Ratios of times, and differences."""
    functions = {
        "corp_decomposition": (corp_decomposition, lambda r: r.miscalibration),
        "proper_calibration_error": (proper_calibration_error, float),
        "calibration_error_interval": (calibration_error_interval, lambda r: r.estimate),
        "calibration_summary": (calibration_summary, lambda r: r.slope.estimate),
    }
    ratios, seconds = [], []
    for name in names:
        function, number = functions[name]
        short, found = shortest(lambda function=function: function(sketch), 3)
        long, exact = shortest(lambda function=function: function(y, score), 1)
        ratios.append(short / long)
        seconds.append(short)
        print(
            f"n = {len(y)}, {name:<27} {long / short:8.1f} times as fast; "
            f"{number(exact):.6g}, sketch - exact {number(found) - number(exact):.1e}"
        )
    return max(ratios), max(seconds)


def main():
    """Run, print a table, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    quick = parser.parse_args().quick
    n_samples = 1_000_000 if quick else 10_000_000
    y, score = make_data(n_samples)
    cell = y * (1 << 16) + np.minimum((score * (1 << 16)).astype(np.int64), (1 << 16) - 1)
    unit, _ = shortest(lambda: np.bincount(cell), 3)
    taken, sketch = shortest(lambda: read(y, score), 2)
    ratio = taken / unit
    print(f"n = {n_samples}, reading: {ratio:.1f} times one bincount (goal {GOAL_READ:g})")
    print(f"n = {n_samples}, size of the bytes: {len(sketch.to_bytes()) / 1e6:.1f} MB")
    peak = peak_bytes(lambda: read(y, score))
    print(f"n = {n_samples}, peak over the rows: {peak / 1e6:.0f} MB")
    few = n_samples // 10
    part = y[:few], score[:few], read(y[:few], score[:few])
    slowest, _ = compare(*part, ["corp_decomposition", "calibration_summary"])
    slowest = max(slowest, compare(y, score, sketch, ["corp_decomposition"])[0])
    _, longest = compare(*part, ["proper_calibration_error", "calibration_error_interval"])
    read_row = f"ForecastSketch of n = {n_samples:,}"
    curves = f"Isotonic curve and summary of a sketch, n >= {few:,}"
    errors = f"Proper error of a sketch, with its interval, n = {few:,}"
    rows = [
        Row(read_row, ratio, GOAL_READ, "times one bincount", limit=LIMIT_READ),
        Row(curves, slowest, GOAL_FUNCTION, "times the samples"),
        Row(errors, longest, GOAL_ERROR, "s"),
    ]
    finish(rows, quick=quick)


if __name__ == "__main__":
    main()
