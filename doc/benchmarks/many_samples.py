"""Proper calibration error and reliability diagram of very many samples, in sorts of the scores.

    python doc/benchmarks/many_samples.py [--quick]

One run, one core, n = 1,000,000 scores without ties of a binary forecast. The error is
`proper_calibration_error` with its defaults, which sums over cells of the log odds. It is compared
with the same models on the samples themselves. The diagram has an isotonic curve, its consistency
band of 500 resamples, and the error with its interval in the legend. Both goals are 20 sorts; twice
as many fail.
"""

import argparse

import matplotlib as mpl
import numpy as np
from _measure import shortest

from skcalib import ReliabilityDisplay, proper_calibration_error
from skcalib.errors import merged

GOAL, DIFFERENCE = 20.0, 1e-5


def make_data(n_samples):
    """Over-confident scores and labels."""
    rng = np.random.default_rng(0)
    score = rng.random(n_samples)
    return (rng.random(n_samples) < score**1.2).astype(int), score


def of_samples(y, score):
    """The error without cells."""
    many, merged._MANY = merged._MANY, np.inf
    try:
        return proper_calibration_error(y, score)
    finally:
        merged._MANY = many


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n=300,000, and no assertion of speed")
    quick = parser.parse_args().quick
    mpl.use("agg")
    y, score = make_data(300_000 if quick else 1_000_000)
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
    print(f"relative difference of the errors {difference:.0e} (goals: {GOAL:g} sorts)")
    assert difference <= DIFFERENCE, f"difference {difference:.1e}, goal {DIFFERENCE:g}"
    for name, time in (("proper error", error_time), ("ReliabilityDisplay", display_time)):
        assert quick or time <= 2 * GOAL * sort, f"{name}: {time / sort:.0f} sorts, goal {GOAL:g}"


if __name__ == "__main__":
    main()
