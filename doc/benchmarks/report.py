"""A report of 10,000 forecasts of ten classes, in fits of one temperature to the same forecasts.

    python doc/benchmarks/report.py [--quick] [--data FOLDER]

One run, one core; simulated forecasts, and those of a network where FOLDER has them. The report
compares six recalibration maps on five folds, and vector scaling chooses its shrinkage by five
folds of its own. The goal is 150 fits; twice as many fail. The fits are timed before and after. Run
it on an idle machine: other work slows the large arrays of a report more than those of a fit.
"""

import argparse
from pathlib import Path

import numpy as np
from _measure import DATA, Row, finish, shortest

from skcalib import CalibrationReport, TemperatureScaling
from skcalib.datasets import make_tempered_simplex

GOAL = 150.0


def samples(folder, n_samples):
    """Names, labels and forecasts."""
    data = make_tempered_simplex(n_samples, 10, random_state=0)
    yield "simulated", data.y, data.y_proba
    path = folder / "cifar10_lenet5.npz"
    if path.exists():
        with np.load(path) as stored:
            rows = slice(n_samples)
            yield "LeNet-5", stored["ground_truth"][rows], stored["predictions"][rows].astype(float)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 2,000, and no assertion")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    n_samples, ratios = 2000 if arguments.quick else 10_000, {}
    for name, y, proba in samples(arguments.data, n_samples):
        CalibrationReport.from_predictions(y[:500], proba[:500])  # imports

        def fit(y=y, proba=proba):
            return TemperatureScaling().fit(proba, y)

        before = [shortest(fit)[0] for _ in range(15)]
        seconds, report = shortest(lambda y=y, p=proba: CalibrationReport.from_predictions(y, p), 2)
        after = [shortest(fit)[0] for _ in range(15)]
        ratios[name] = seconds / np.median(before + after)
        print(
            f"{name}: report {seconds:.2f} s, {ratios[name]:.0f} temperature fits (goal {GOAL:g})"
        )
        print(f"  {str(report).splitlines()[0]}")
    finish(
        [
            Row(f"Report, n = {n_samples:,}, K = 10, {name}", ratio, GOAL, "temperature fits")
            for name, ratio in ratios.items()
        ],
        quick=arguments.quick,
    )


if __name__ == "__main__":
    main()
