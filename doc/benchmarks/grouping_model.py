"""The default grouping loss, and a report of boosted trees: cost, and threads beside other work.

One run: n = 4,000 samples of ten classes with six features, in processor seconds of one thread, and
in fits of scikit-learn's boosted trees to the same samples. Then the same estimate, and a report of
boosted trees with their features, in processes with the default number of threads and with one:
alone, and beside as many busy loops as there are cores. The ratios of their times have a goal of
1.5; twice as much fails.

    python doc/benchmarks/grouping_model.py [--quick]
"""

import argparse
import os
import subprocess
import sys
from time import perf_counter

import numpy as np
from _measure import Row, finish, shortest
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from skcalib import CalibrationReport, GroupingLossEstimator

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
BUSY = "while True: pass"
SECONDS, FITS, RATIO = 3.0, 3.0, 1.5


def make_data(n_samples):
    """Features, labels, and a score that is the mean of two posteriors; a feature tells which."""
    rng = np.random.default_rng(0)
    maps, x = rng.normal(size=(2, 5, 10)), rng.normal(size=(n_samples, 5))
    side = rng.random(n_samples) < 0.5
    one, two = (softmax(x @ own, axis=1) for own in maps)
    posterior = np.where(side[:, None], one, two)
    y = (posterior.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    X = np.column_stack([x, side + 0.3 * rng.normal(size=n_samples)])
    return X, y, (one + two) / 2


def estimate(n_samples):
    """The grouping loss."""
    X, y, score = make_data(n_samples)
    return lambda: GroupingLossEstimator().fit(X, y, y_proba=score)


def report(n_samples):
    """A report of boosted trees with the features, of half of the samples."""
    X, y, _ = make_data(n_samples)
    half = n_samples // 2
    model = HistGradientBoostingClassifier(max_iter=30).fit(X[:half], y[:half])
    return lambda: CalibrationReport.from_estimator(model, X[half:], y[half:])


JOBS = {"grouping loss": estimate, "report": report}


def seconds(job, n_samples, threads):
    """Seconds of the clock of one job in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment |= dict.fromkeys(THREADS, str(threads)) if threads else {}
    command = [sys.executable, __file__, "--once", job, "--samples", str(n_samples)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def ratios(job, n_samples):
    """Default number of threads over one thread: alone, and beside busy loops."""
    for n_busy in (0, os.cpu_count() or 1):
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(n_busy)]
        try:
            pairs = [[seconds(job, n_samples, one) for one in (None, 1)] for _ in range(2)]
        finally:
            for other in others:
                other.kill()
                other.wait()
        yield n_busy, float(np.divide(*np.min(pairs, axis=0)))


def main():
    """Run, print a table, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 1,000")
    parser.add_argument("--once", choices=JOBS)
    parser.add_argument("--samples", type=int)
    arguments = parser.parse_args()
    if arguments.once:
        run = JOBS[arguments.once](arguments.samples)
        start = perf_counter()
        run()
        print(perf_counter() - start)
        return
    n_samples = 1000 if arguments.quick else 4000
    X, y, _ = make_data(n_samples)
    run = estimate(n_samples)
    run()  # imports
    time, _ = shortest(run, 2)
    fit, _ = shortest(lambda: HistGradientBoostingClassifier(early_stopping=False).fit(X, y), 2)
    name = f"Grouping loss, n = {n_samples:,}, K = 10"
    rows = [
        Row(f"{name}, one thread", time, SECONDS, "s"),
        Row(f"{name}, against a fit of boosted trees", time / fit, FITS, "fits"),
    ]
    for job in JOBS:
        for n_busy, ratio in ratios(job, n_samples):
            where = f"beside {n_busy} busy loops" if n_busy else "alone"
            what = f"{job.capitalize()}, n = {n_samples:,}, K = 10, {where}"
            rows.append(Row(f"{what}: default over one thread", ratio, RATIO, "times"))
    finish(rows, quick=arguments.quick)


if __name__ == "__main__":
    main()
