"""Calibration errors over the grid of W19's appendix: which estimates are right on average?

Data sets of 250 samples with K classes, forecasts from Dirichlet(a, ..., a), and a share of the
labels that does not depend on the forecasts: for "M2" these are class 0, for "M3" uniform, and
without them the model is "M1". For each cell of the grid, the truth (total variation), the mean of
the ECE with ten uniform bins of each coordinate and with data-dependent bins, and 1,000 times the
mean of three estimates of the squared kernel error with the standard error of the unbiased one,
which is right on average and so stands for the truth of the other two.

    python doc/studies/widmann_grid.py
"""

import argparse

import numpy as np

from skcalib import kernel_calibration_error
from skcalib.datasets import make_widmann
from skcalib.errors import simplex_calibration_error
from skcalib.smoothers import MedianCells

CLASSES = (2, 10, 100)
CONCENTRATIONS = (0.1, 1.0)
SHARES = {"M1": (0.0,), "M2": (0.25, 0.5, 0.75, 1.0), "M3": (0.25, 0.5, 0.75, 1.0)}
STATISTICS = ("biased", "unbiased", "linear")
BINS = {"uniform": "uniform", "data-dep.": MedianCells(min_samples=5)}


def estimates(data, n_classes):
    """The two binned errors and the three kernel errors of one data set."""
    labels = np.arange(n_classes)
    binned = [
        simplex_calibration_error(data.y, data.y_proba, bins=bins, labels=labels)
        for bins in BINS.values()
    ]
    kernel = [
        kernel_calibration_error(data.y, data.y_proba, statistic=statistic, labels=labels)
        for statistic in STATISTICS
    ]
    return [*binned, *kernel]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--samples", type=int, default=250)
    options = parser.parse_args()
    columns = ("truth", *BINS, *STATISTICS, "+-")
    print("model classes   a share" + "".join(f"{name:>10}" for name in columns))
    for model, shares in SHARES.items():
        for n_classes in CLASSES:
            for concentration in CONCENTRATIONS:
                for share in shares:
                    found = []
                    for seed in range(options.sets):
                        data = make_widmann(
                            options.samples,
                            model=model,
                            n_classes=n_classes,
                            concentration=concentration,
                            mixture=share,
                            random_state=seed,
                        )
                        found.append(estimates(data, n_classes))
                    found = np.array(found) * [1, 1, 1000, 1000, 1000]
                    error = found[:, 3].std(ddof=1) / np.sqrt(options.sets)
                    row = (data.truth["total_variation"], *found.mean(axis=0), error)
                    print(
                        f"{model:5} {n_classes:7} {concentration:3} {share:5}"
                        + "".join(f"{value:10.4f}" for value in row),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
