"""Kernel error, its test, and smoothers of very many samples.

    python doc/benchmarks/large_samples.py [--quick]

One run, one core, forecasts without ties. The kernel error and its test take random blocks beyond
20,000 samples; their unit is the error of 20,000 samples, which takes all pairs. The unit of the
smoothers is one sort of the scores: neighbours of 100,000 samples, isotonic regression and a kernel
with its bandwidth of a million, each with the estimates that leave samples out. Twice a goal fails.
"""

import argparse

import numpy as np
from _measure import Row, finish, shortest

from skcalib import kernel_calibration_error, kernel_calibration_test
from skcalib.smoothers import DirichletKernel, IsotonicSmoother, NearestNeighborsSmoother

PAIRS_GOAL, NEIGHBOURS_GOAL, ISOTONIC_GOAL, KERNEL_GOAL = 4.0, 200.0, 50.0, 50.0
ALL_PAIRS = 20_000


def make_data(n_samples):
    """Over-confident scores, and labels."""
    rng = np.random.default_rng(0)
    score = rng.random(n_samples)
    return (rng.random(n_samples) < score**1.2).astype(int), score


def smooth(smoother, y, score):
    """Fit, and smooth with each sample left out."""
    target = np.column_stack([1 - y, y])
    return smoother.fit(np.column_stack([1 - score, score]), target).smooth_held_out()


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    quick = parser.parse_args().quick
    y, score = make_data(100_000 if quick else 1_000_000)
    some = slice(0, len(y) // 10)
    for smoother in (DirichletKernel(), IsotonicSmoother(), NearestNeighborsSmoother()):
        smooth(smoother, y[:2000], score[:2000])  # imports

    few = make_data(ALL_PAIRS)
    pairs, _ = shortest(lambda: kernel_calibration_error(*few), 2)
    error, _ = shortest(lambda: kernel_calibration_error(y, score), 2)
    test, found = shortest(lambda: kernel_calibration_test(y, score))
    sort, _ = shortest(lambda: np.sort(score), 5)
    small_sort, _ = shortest(lambda: np.sort(score[some]), 20)
    neighbours, _ = shortest(
        lambda: smooth(NearestNeighborsSmoother(), y[some], score[some]), 1 + 2 * quick
    )
    isotonic, _ = shortest(lambda: smooth(IsotonicSmoother(), y, score), 1 + 2 * quick)
    kernel, _ = shortest(lambda: smooth(DirichletKernel(), y, score), 1 + 2 * quick)

    of_pairs = "times that of 20,000"
    sorts = "sorts of the scores"
    rows = [
        ("Kernel calibration error", len(y), error, pairs, of_pairs, PAIRS_GOAL),
        ("Its test", len(y), test, pairs, of_pairs, PAIRS_GOAL),
        ("Nearest neighbours", len(y[some]), neighbours, small_sort, sorts, NEIGHBOURS_GOAL),
        ("Isotonic smoother, five folds", len(y), isotonic, sort, sorts, ISOTONIC_GOAL),
        ("Beta kernel with its bandwidth", len(y), kernel, sort, sorts, KERNEL_GOAL),
    ]
    print(f"error of {ALL_PAIRS:,} samples, all pairs: {pairs:.2f} s; one sort: {sort:.3f} s")
    print(found.method)
    finish(
        [
            Row(f"{name}, n = {n:,}, K = 2", time / one, goal, unit, note=f"{time:.1f} s")
            for name, n, time, one, unit, goal in rows
        ],
        quick=quick,
    )


if __name__ == "__main__":
    main()
