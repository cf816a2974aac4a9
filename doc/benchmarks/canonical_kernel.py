"""Goals 1 and 2: exact canonical kernels against plain versions, and what they cost at least.

One run, seconds of one core. Goal 1: n = 5,000 forecasts of K = 10 classes, against the density
transcribed into an array of n x n x K entries. Goal 2: n = 50,000, K = 10, against nothing but
the matrix product and the exponential of all pairs, and the peak memory of a process of its own.
Beside them: a blocked dense kernel, the growth from n = 12,500 to 50,000, and what is gained by
dropping sources for networks (those in --data, if the folder exists, and a simulated one).

    python doc/benchmarks/canonical_kernel.py [--quick] [--data FOLDER]

Half of each goal is asserted, and in the quick run the differences alone.
"""

import argparse
from pathlib import Path

import numpy as np
from _measure import DATA, Row, finish, megabytes_of_fresh_process, peak_megabytes, shortest
from scipy.special import gammaln, xlogy
from threadpoolctl import threadpool_limits

from skcalib._util.sizes import sizes
from skcalib.smoothers.kernel_sums import dirichlet_average, dirichlet_log_likelihoods

RATIO, ERROR, MEGABYTES, TIMES = 60.0, 1e-12, 200.0, 2.5
BANDWIDTH = 0.02


def make_data(n_samples, n_classes, *, confident=False):
    """Forecasts from a Dirichlet law or of a simulated network, and one-hot labels."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.full(n_classes, 0.5), n_samples)
    labels = (forecast.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    if confident:
        logits = 2.5 * rng.standard_normal((n_samples, n_classes))
        logits[np.arange(n_samples), labels] += rng.normal(9, 4, n_samples)
        forecast = np.exp(logits - logits.max(axis=1, keepdims=True))
        forecast /= forecast.sum(axis=1, keepdims=True)
    return forecast, np.eye(n_classes)[labels]


def engine(forecast, target, bandwidth=BANDWIDTH):
    """Leave-one-out averages of skcalib."""
    weight = np.ones(len(forecast))
    return dirichlet_average(forecast, forecast, weight, target, bandwidth, leave_out=True)[0]


def without_dropping(forecast, target, bandwidth=BANDWIDTH):
    """The same, with every source of every row."""
    with sizes(dropping_samples=10**9):
        return engine(forecast, target, bandwidth)


def plain(forecast, target, *, log_once=False):
    """The Dirichlet density as it is written, for all pairs at once."""
    alpha = forecast / BANDWIDTH + 1
    if log_once:
        powers = np.log(forecast)[:, None, :] * (alpha - 1)[None, :, :]
    else:
        powers = xlogy((alpha - 1)[None, :, :], forecast[:, None, :])
    log_kernel = powers.sum(axis=2) + gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    np.fill_diagonal(log_kernel, -np.inf)
    kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
    return kernel @ target / kernel.sum(axis=1, keepdims=True)


def blocked(forecast, target):
    """A product per block of 64 rows with all sources, dense one-hot sums."""
    scaled, log_forecast = forecast / BANDWIDTH, np.log(forecast)
    constant = gammaln(scaled.shape[1] + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
    averages = np.empty_like(target)
    for start in range(0, len(forecast), 64):
        rows = slice(start, start + 64)
        log_kernel = log_forecast[rows] @ scaled.T + constant
        here = np.arange(len(log_kernel))
        log_kernel[here, start + here] = -np.inf
        kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
        averages[rows] = kernel @ target / kernel.sum(axis=1, keepdims=True)
    return averages


def product_and_exp(n_samples, n_classes):
    """Nothing but the product and the exponential of all pairs, in blocks that fit the cache."""
    rng = np.random.default_rng(0)
    left, right = rng.random((64, n_classes + 1)), rng.random((n_classes + 1, n_samples))
    out, argument = np.empty((64, 1024)), -30 * rng.random((64, 1024))
    for _ in range(0, n_samples, 64):
        for start in range(0, n_samples, 1024):
            part = right[:, start : start + 1024]
            np.matmul(left, part, out=out[:, : part.shape[1]])
            np.exp(argument[:, : part.shape[1]], out=out[:, : part.shape[1]])


def networks(folder, n_samples):
    """Names, forecasts, one-hot labels."""
    for path in sorted(folder.glob("*.npz")):
        stored = np.load(path)
        forecast = stored["predictions"].astype(np.float64)
        forecast /= forecast.sum(axis=1, keepdims=True)
        yield path.stem, forecast, np.eye(forecast.shape[1])[stored["ground_truth"].ravel()]
    yield "simulated", *make_data(n_samples, 10, confident=True)


def goal_1(n_samples):
    """Print and return ratio, that of the product and exp alone, and difference."""
    forecast, target = make_data(n_samples, 10)
    ours, averages = shortest(lambda: engine(forecast, target), 15)
    least = shortest(lambda: product_and_exp(n_samples, 10), 5)[0]
    print(f"goal 1: n = {n_samples:,}, K = 10\n  skcalib{ours:33.3f} s")
    for name, run in (
        ("blocked dense kernel", lambda: blocked(forecast, target)),
        ("n x n x K, logs taken once", lambda: plain(forecast, target, log_once=True)),
        ("n x n x K", lambda: plain(forecast, target)),
    ):
        time, expected = shortest(run, 2)
        difference = np.abs(averages - expected).max()
        print(f"  {name:30s}{time:10.3f} s{time / ours:10.1f} x{difference:12.1e} difference")
    print(f"  product and exp alone{least:19.3f} s{time / least:10.1f} x")
    return time / ours, time / least, difference


def goal_2(n_samples, megabytes):
    """Print and return the time in units of the limiting operations."""
    forecast, target = make_data(n_samples, 10)
    least = shortest(lambda: product_and_exp(n_samples, 10))[0]
    ours, averages = shortest(lambda: engine(forecast, target))
    dense, expected = shortest(lambda: blocked(forecast, target))
    quarter = shortest(lambda: engine(forecast[: n_samples // 4], target[: n_samples // 4]))[0]
    grid = np.geomspace(BANDWIDTH / 4, 2 * BANDWIDTH, 8)
    some = slice(n_samples // 4)
    ones = np.ones(n_samples // 4)
    several = shortest(lambda: dirichlet_log_likelihoods(forecast[some], ones, grid))[0]
    print(f"goal 2: n = {n_samples:,}, K = 10")
    print(f"  product and exp alone{least:19.3f} s")
    print(f"  skcalib{ours:33.3f} s{ours / least:10.2f} x the limit")
    print(f"  blocked dense kernel{dense:20.3f} s{dense / least:10.2f} x the limit")
    print(f"  difference {np.abs(averages - expected).max():.1e}, memory {megabytes:.0f} MB")
    print(f"  growth exponent from n / 4: {np.log(ours / quarter) / np.log(4):.2f}")
    print(f"  likelihood of 8 bandwidths at n / 4: {several / quarter:.1f} x one set of averages")
    return ours / least


def gain_of_dropping(folder, n_samples):
    """Print a table; return the largest change of an average."""
    print(f"dropping sources\n  {'network':30s}{'n':>8s}{'K':>5s}{'h':>8s}{'gain':>7s}  difference")
    largest = 0.0
    for name, forecast, target in networks(folder, n_samples):
        for bandwidth in (1e-3, 1e-2, 5e-2):
            time, averages = shortest(lambda: engine(forecast, target, bandwidth))  # noqa: B023
            slow, expected = shortest(lambda: without_dropping(forecast, target, bandwidth))  # noqa: B023
            difference = np.abs(averages - expected).max()
            largest = max(largest, difference)
            n, k = forecast.shape
            print(f"  {name:30s}{n:8,d}{k:5d}{bandwidth:8g}{slow / time:7.2f}{difference:12.1e}")
    return largest


def main():
    """Run, print, assert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 3,000 and 10,000")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        before = peak_megabytes()
        engine(*make_data(arguments.memory, 10))
        print(peak_megabytes() - before)
        return
    small, large = (3000, 10_000) if arguments.quick else (5000, 50_000)
    # First: a process starts with the peak memory of the one that started it.
    megabytes = megabytes_of_fresh_process(__file__, large)
    with threadpool_limits(1):
        ratio, possible, difference = goal_1(small)
        times = goal_2(large, megabytes)
        change = gain_of_dropping(arguments.data, large)
    alone = f"product and exp alone: {possible:.0f}"
    of_small, of_large = (f"Dirichlet kernel, n = {n:,}, K = 10" for n in (small, large))
    rows = [
        Row(f"{of_small}, against n x n x K", ratio, RATIO, "times", least=True, note=alone),
        Row(f"{of_small}: difference", difference, ERROR, strict=True),
        Row(of_large, times, TIMES, "times product and exp"),
        Row(f"{of_large}: memory", megabytes, MEGABYTES, "MB"),
        Row(f"{of_large}, sources dropped: difference", change, ERROR, strict=True),
    ]
    finish(rows, quick=arguments.quick)


if __name__ == "__main__":
    main()
