"""Goal 6: the kernel calibration error against a loop over rows, and what its test costs.

One run, seconds of one core. n = 10,000 forecasts of K = 10 classes, both distances: the unbiased
estimate against a loop that vectorises over the partners of one row at a time, its relative
difference, and the time of the test's null law (eigenvalues of 1,000 rows and the tail of a
mixture) in units of the estimate. The peak memory is that of a process of its own, its data
included, for n = 10,000 and 50,000.

    python doc/benchmarks/kernel_error.py [--quick]

Half of each goal is asserted, and in the quick run the difference alone.
"""

import argparse
from math import fsum

import numpy as np
from _measure import Row, finish, megabytes_of_fresh_process, peak_megabytes, shortest
from threadpoolctl import threadpool_limits

from skcalib import kernel_calibration_error
from skcalib.data.notions import Canonical
from skcalib.data.problem import check_problem
from skcalib.errors.kernel import ResidualKernel
from skcalib.kernels import LaplacianKernel
from skcalib.significance.kernel import spectral

RATIO, ERROR, MEGABYTES, LARGE_MEGABYTES, LAW = 5.0, 1e-12, 150.0, 300.0, 2.0
BANDWIDTH = 0.5


def make_data(n_samples, n_classes=10):
    """Over-confident forecasts and labels."""
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.full(n_classes, 0.3), n_samples)
    levels = posterior.cumsum(axis=1)
    y = (levels[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    forecast = posterior**1.5
    return y, forecast / forecast.sum(axis=1, keepdims=True)


def row_loop(y, forecast, metric):
    """The unbiased estimate, one row against all later ones."""
    residual = np.eye(forecast.shape[1])[y] - forecast
    sums = []
    for i in range(len(y) - 1):
        difference = forecast[i + 1 :] - forecast[i]
        if metric == "euclidean":
            distance = np.sqrt((difference**2).sum(axis=1))
        else:
            distance = 0.5 * np.abs(difference).sum(axis=1)
        sums.append((np.exp(-distance / BANDWIDTH) * (residual[i + 1 :] @ residual[i])).sum())
    return 2 * fsum(sums) / (len(y) * (len(y) - 1))


def compare(n_samples, metric):
    """Print and return speed, difference and the cost of the null law, for one distance."""
    y, forecast = make_data(n_samples)
    kernel = LaplacianKernel(BANDWIDTH, metric)
    ours, value = shortest(lambda: kernel_calibration_error(y, forecast, kernel=kernel), 5)
    loop, expected = shortest(lambda: row_loop(y, forecast, metric))
    h = ResidualKernel.of_problem(check_problem(y, forecast), kernel, Canonical())
    total, diagonal = h.total(), h.diagonal()
    rng = np.random.RandomState(0)
    law, _ = shortest(lambda: spectral(h, total, diagonal, None, rng), 3)
    error = abs(value / expected - 1)
    print(f"{metric}, n = {n_samples:,}, K = 10: estimate {value:.3e}")
    print(f"  skcalib      {ours:8.3f} s")
    print(f"  row loop     {loop:8.3f} s{loop / ours:8.1f} x, relative difference {error:.1e}")
    print(f"  null law     {law:8.3f} s{law / ours:8.2f} estimates")
    return loop / ours, error, law / ours


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 4,000, memory at 20,000")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        before = peak_megabytes()
        kernel_calibration_error(*make_data(arguments.memory))
        print(peak_megabytes() - before)
        return
    small, large = (4000, 20_000) if arguments.quick else (10_000, 50_000)
    # First: a process starts with the peak memory of the one that started it.
    megabytes = [megabytes_of_fresh_process(__file__, n) for n in (small, large)]
    with threadpool_limits(1):
        found = [compare(small, metric) for metric in ("euclidean", "total_variation")]
    ratio, error, law = min(f[0] for f in found), max(f[1] for f in found), max(f[2] for f in found)
    name = f"Kernel calibration error, n = {small:,}, K = 10"
    rows = [
        Row(f"{name}, against a loop over rows", ratio, RATIO, "times", least=True),
        Row(f"{name}: relative difference", error, ERROR, strict=True),
        Row(f"{name}: memory", megabytes[0], MEGABYTES, "MB"),
        Row(f"Law of its test, n = {small:,}", law, LAW, "estimates"),
        Row(f"The error of n = {large:,}: memory", megabytes[1], LARGE_MEGABYTES, "MB"),
    ]
    finish(rows, quick=arguments.quick)


if __name__ == "__main__":
    main()
