"""Intervals of proper calibration errors near zero, in times of the default error.

    python doc/benchmarks/intervals.py [--quick]

One run, one core, n = 2,000 calibrated forecasts of two classes. The default interval inverts
tests on sums that the error computes anyway. With ``method="direct"`` the interval is a jackknife:
the error of the cross-fitted maps twenty times. With a smoother and "direct" the lower limit needs
draws of labels too, which end when the answer is known. The goal is 15 times for the default; twice
as much fails. The others are printed.
"""

import argparse
from functools import partial

import numpy as np
from _measure import Row, finish, shortest

from skcalib import calibration_error_interval, proper_calibration_error

GOAL = 15.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 500")
    quick = parser.parse_args().quick
    n_samples = 500 if quick else 2000
    rng = np.random.default_rng(0)
    score = rng.random(n_samples)
    y = (rng.random(n_samples) < score).astype(int)
    direct = partial(proper_calibration_error, method="direct")
    rows = {
        "brier": "brier",
        "log": "log",
        "direct": direct,
        "direct, isotonic": partial(direct, smoother="isotonic"),
    }
    proper_calibration_error(y, score)  # imports
    least, _ = shortest(lambda: proper_calibration_error(y, score), 10)
    print(f"n = {n_samples:,}, K = 2; the default error: {least:.4f} s")
    print(f"{'interval':20s}{'seconds':>9s}{'times the error':>17s}")
    times = {}
    for name, metric in rows.items():
        run = partial(calibration_error_interval, y, score, metric=metric)
        seconds, _ = shortest(run, 5 if isinstance(metric, str) else 1)
        times[name] = seconds / least
        print(f"{name:20s}{seconds:9.3f}{times[name]:17.1f}")
    interval = f"Interval of a proper error near zero, n = {n_samples:,}, K = 2"
    worst = max(times["brier"], times["log"])
    finish([Row(interval, worst, GOAL, "times the error")], quick=quick)


if __name__ == "__main__":
    main()
