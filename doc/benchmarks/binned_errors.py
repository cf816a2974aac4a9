"""Goal 7: binned errors against a loop of masks over bins and against one sort.

One run, one core, n = 1,000,000 scores of a binary forecast, 15 bins. "Sums" are the bins and
their sums, from arrays that are valid; "function" is `calibration_error` with its checks, from
labels and probabilities as a user has them. The peak is what one call allocates over its input,
for ten million samples. Classwise: 100,000 forecasts of 100 classes.

    python doc/benchmarks/binned_errors.py [--quick]

The goals are 10 times the loop of masks for the sums of equal width and at most 3 sorts for equal
mass, through the function, in less than 1 GB; half of each is asserted.
"""

import argparse
from itertools import pairwise

import numpy as np
from _measure import Row, finish, peak_bytes, shortest

from skcalib import calibration_error, ks_calibration_error
from skcalib.errors.binned import BinSums, quantile_edges, uniform_edges

GOAL_MASKS, GOAL_SORTS, GOAL_MEGABYTES, N_BINS = 10.0, 3.0, 1000.0, 15


def make_data(n_samples):
    """Calibrated scores, many near 0 and 1, and labels."""
    rng = np.random.default_rng(0)
    score = rng.beta(0.5, 0.5, n_samples)
    return (rng.random(n_samples) < score).astype(np.int64), score


def masks(y, score):
    """The loop that everybody writes."""
    error = 0.0
    for low, high in pairwise(np.linspace(0, 1, N_BINS + 1)):
        inside = (score > low) & (score <= high)
        if inside.any():
            error += abs(y[inside].mean() - score[inside].mean()) * inside.mean()
    return error


def main():
    """Run, print a table, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    quick = parser.parse_args().quick
    n_samples, times = (100_000, 20) if quick else (1_000_000, 9)
    y, score = make_data(n_samples)
    event = y == 1

    def function(notion="canonical", **options):
        return lambda: calibration_error(y, score, notion=notion, n_bins=N_BINS, **options)

    runs = {
        "loop of masks": lambda: masks(y, score),
        "one sort": lambda: np.sort(score)[0],
        "equal width, sums": lambda: BinSums.of(
            score, event, None, uniform_edges(N_BINS), spread=False
        ).mass[0],
        "equal mass, sums": lambda: BinSums.of(
            score, event, None, quantile_edges(score, N_BINS), spread=False
        ).mass[0],
        "equal width, function": function(strategy="uniform"),
        "equal mass, function": function(),
        "equal mass, debiased": function(norm="l2", debiased=True),
        "equal mass, top label": function("top_label"),
        "Kolmogorov-Smirnov": lambda: ks_calibration_error(y, score, notion="canonical"),
    }
    seconds, values = {}, {}
    print(f"n = {n_samples}, {N_BINS} bins")
    print(f"{'':<24} {'ms':>8} {'masks':>7} {'sorts':>7}")
    for name, run in runs.items():
        seconds[name], values[name] = shortest(run, times)
        print(
            f"{name:<24} {1e3 * seconds[name]:8.1f} "
            f"{seconds['loop of masks'] / seconds[name]:7.2f} "
            f"{seconds[name] / seconds.get('one sort', np.nan):7.2f}"
        )
    assert abs(values["equal width, function"] - values["loop of masks"]) < 1e-12

    rng = np.random.default_rng(0)
    rows = 10_000 if quick else 100_000
    proba = rng.dirichlet(np.full(100, 0.1), rows)
    labels = np.minimum((proba.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), 99)
    for strategy in ("uniform", "quantile"):
        taken, _ = shortest(
            lambda strategy=strategy: calibration_error(
                labels, proba, notion="classwise", strategy=strategy, n_bins=N_BINS
            ),
            2,
        )
        print(f"classwise, {rows} x 100, {strategy}: {1e3 * taken:.0f} ms")

    large = n_samples if quick else 10_000_000
    y, score = make_data(large)
    peaks = {
        name: peak_bytes(lambda options=options: calibration_error(y, score, **options))
        for name, options in {
            "uniform, top label": {"notion": "top_label", "strategy": "uniform"},
            "quantile, top label": {"notion": "top_label"},
            "quantile, classwise": {"notion": "classwise"},
        }.items()
    }
    for name, peak in peaks.items():
        print(
            f"n = {large}, {name}: {peak / 1e6:.0f} MB over {score.nbytes / 1e6:.0f} MB of scores"
        )
    ratio = seconds["loop of masks"] / seconds["equal width, sums"]
    sorts = seconds["equal mass, function"] / seconds["one sort"]
    function = f"{seconds['loop of masks'] / seconds['equal width, function']:.1f} with its checks"
    width = f"Sums of 15 bins of equal width, n = {n_samples:,}, against masks"
    rows = [
        Row(width, ratio, GOAL_MASKS, "times", least=True, note=function),
        Row(f"Bins of equal mass, n = {n_samples:,}", sorts, GOAL_SORTS, "sorts of the scores"),
        Row(
            f"Bins, n = {large:,}: memory",
            max(peaks.values()) / 1e6,
            GOAL_MEGABYTES,
            "MB",
            strict=True,
        ),
    ]
    finish(rows, quick=quick)


if __name__ == "__main__":
    main()
