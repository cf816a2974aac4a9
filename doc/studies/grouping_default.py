"""How much of the grouping loss does the default find, and does it find any where there is none?

The forecast is the mean of two hidden posteriors, so it is calibrated, and its grouping loss is
known. Of six features one tells, with noise, which posterior is true. For each number of classes
and samples, and a grouping loss of 0, .01 and .06 (Brier): the mean estimate, the share of p-values
below .05, of lower limits at most the truth and of intervals below 0, and processor seconds. Beside
it, the estimate of the paper (``method="partition"``).

    OMP_NUM_THREADS=1 python doc/studies/grouping_default.py    # less than an hour on one core
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from _interval_tables import write, write_as_found
from scipy.optimize import brentq
from scipy.special import softmax

from skcalib import GroupingLossEstimator

RESULTS = Path(__file__).parent / "results" / "grouping_default.csv"
FIELDS = ("classes", "samples", "size", "data_sets", "truth", "estimate", "deviation", "found")
FIELDS += ("below", "limits", "partition", "seconds")
TRUTHS = (0.0, 0.01, 0.06)
CLASSES = (2, 3, 10, 100)
#: Samples -> data sets, of at most ten classes and of more.
REPETITIONS = {1000: (40, 6), 4000: (20, 4), 20_000: (4, 2)}


def make_data(n_classes, n_samples, size, seed):
    """Features, labels, forecasts, and the grouping loss of these samples."""
    fixed, rng = np.random.default_rng(n_classes), np.random.default_rng(seed)
    map_, tilt = fixed.normal(size=(5, n_classes)), fixed.normal(size=n_classes)
    x, side = rng.normal(size=(n_samples, 5)), rng.random(n_samples) < 0.5
    one, two = (softmax(0.6 * x @ map_ + sign * size * tilt, axis=1) for sign in (1, -1))
    forecast, posterior = (one + two) / 2, np.where(side[:, None], one, two)
    X = np.column_stack([x, side + 0.3 * rng.normal(size=n_samples)])
    y = (posterior.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    unit = 2 if n_classes == 2 else 1  # the Brier score of two classes is halved
    return X, y, forecast, np.mean(np.sum((posterior - forecast) ** 2, axis=1)) / unit


def size_of(n_classes, truth):
    """How far the posteriors differ."""
    if truth == 0:
        return 0.0
    return brentq(lambda size: make_data(n_classes, 20_000, size, 0)[3] - truth, 0, 20, xtol=1e-3)


def row_of(n_classes, n_samples, size, repetitions):
    """One row of the results."""
    found = []
    for seed in range(repetitions):
        X, y, forecast, truth = make_data(n_classes, n_samples, size, seed + 1)
        run = {"labels": range(n_classes), "random_state": seed}
        start = time.process_time()
        auto = GroupingLossEstimator(n_permutations=0, **run).fit(X, y, y_proba=forecast)
        seconds = time.process_time() - start
        paper = GroupingLossEstimator(method="partition", n_permutations=0, **run)
        paper.fit(X, y, y_proba=forecast)
        low, high = auto.confidence_interval_
        row = truth, auto.grouping_loss_, auto.pvalue_ < 0.05, high < 0, low <= truth
        found.append([*row, paper.grouping_loss_, seconds])
    truth, estimate, detected, below, limits, partition, seconds = np.mean(found, axis=0)
    deviation = np.std(found, axis=0)[1]
    numbers = truth, estimate, deviation, detected, below, limits, partition, seconds
    rounded = [float(f"{number:.4g}") for number in numbers]
    given = n_classes, n_samples, round(size, 3), repetitions
    return dict(zip(FIELDS, [*given, *rounded], strict=True))


def write_table(results):
    """The table of the guide."""
    with results.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    header = ["classes", "n", "data sets", "truth", "default", "p < .05", "below 0"]
    lines = [
        [
            *(row[name] for name in ("classes", "samples", "data_sets")),
            *(f"{float(row[name]):.4f}" for name in ("truth", "estimate")),
            *(f"{float(row[name]):.2f}" for name in ("found", "below", "limits")),
            f"{float(row['partition']):.4f}",
            f"{float(row['seconds']):.2g}",
        ]
        for row in rows
    ]
    write(results, "table", [[*header, "lower limit holds", "partition", "seconds"], *lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--samples", type=int, nargs="+", default=tuple(REPETITIONS))
    parser.add_argument("--times", type=float, default=1, help="multiply the repetitions")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = {(k, t): size_of(k, t) for k in options.classes for t in TRUTHS}
    rows = (
        row_of(k, n, sizes[k, t], max(2, round(options.times * REPETITIONS[n][k > 10])))
        for n in options.samples
        for k in options.classes
        for t in TRUTHS
    )
    write_as_found(options.output, FIELDS, rows)
    write_table(options.output)


if __name__ == "__main__":
    main()
