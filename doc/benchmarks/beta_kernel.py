"""Goals 3, 4 and 5: near-linear Beta kernels, and the choice of a bandwidth.

One run. Goal 3: classwise leave-one-out averages, n = 10,000 and K = 100, against a dense kernel in
blocks and in logs, exact sums on a sample of rows. Goal 4: one binary problem of a million, against
one sort of its scores; growth from 100,000; peak memory of a process of its own. Goal 5: the
leave-one-out likelihood that the search reaches in at most ten evaluations, against a grid of 55.

    python doc/benchmarks/beta_kernel.py [--quick]

Fails below half of each goal; the quick run fails where an error is too large.
"""

import argparse

import numpy as np
from _measure import Row, finish, megabytes_of_fresh_process, peak_megabytes, shortest
from scipy.special import gammaln, logsumexp

from skcalib.datasets import make_tempered_simplex
from skcalib.smoothers import DirichletKernel
from skcalib.smoothers.kernel import MOST_EVALUATIONS
from skcalib.smoothers.kernel_sums import leave_one_out

RATIO, ERROR, MEGABYTES, EXPONENT, SORTS = 100.0, 1e-9, 300.0, 1.1, 5.0
GRID = np.r_[np.logspace(-5, -1, 50), np.linspace(0.2, 1, 5)]


def network(n_samples, n_classes):
    """Forecasts of a confident network, and its labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_samples)
    logits = 2 * rng.standard_normal((n_samples, n_classes))
    logits[np.arange(n_samples), y] += rng.normal(7, 4, n_samples)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def pairs(p):
    return np.column_stack([1 - p, p])


def dense(forecast, target, bandwidth, rows, block=64):
    """Leave-one-out averages at some rows, by all pairs, in blocks and in the space of logs."""
    s = forecast / bandwidth
    constant = gammaln(2 + s.sum(axis=1)) - gammaln(s + 1).sum(axis=1)
    log_forecast = np.log(np.maximum(forecast, np.finfo(float).tiny))
    averages = np.empty((len(rows), target.shape[1]))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        log_kernel = log_forecast[part] @ s.T + constant
        log_kernel[np.arange(len(part)), part] = -np.inf
        log_kernel -= logsumexp(log_kernel, axis=1, keepdims=True)
        averages[start : start + block] = np.exp(log_kernel) @ target
    return averages


def classwise(proba, y, bandwidth):
    weight = np.ones(len(y))
    problems = [(pairs(p), np.eye(2)[(y == k).astype(int)]) for k, p in enumerate(proba.T)]
    time, averages = shortest(
        lambda: [leave_one_out(f, weight, t)(bandwidth) for f, t in problems], 5
    )
    rows = np.arange(0, len(y), max(1, len(y) // 640))
    slow, expected = shortest(lambda: [dense(f, t, bandwidth, rows) for f, t in problems[:3]])
    error = max(np.abs(a[rows] - b).max() for a, b in zip(averages, expected, strict=False))
    return time, slow / 3 * len(y) / len(rows) * len(problems) / time, error


def binary(n_samples):
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, n_samples)
    return pairs(p), np.eye(2)[(rng.random(n_samples) < p).astype(int)]


def million(n_samples):
    """Peak memory, in megabytes, over imports and input."""
    before = peak_megabytes()
    forecast, target = binary(n_samples)
    weight = np.ones(n_samples)
    leave_one_out(forecast, weight, target)(1e-3)
    given = (forecast.nbytes + target.nbytes + weight.nbytes) / 2**20
    print(peak_megabytes() - before - given)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        million(arguments.memory)
        return
    scale = 10 if arguments.quick else 1
    ratios, errors, sorts, exponents, most, short = [], [], [], [], [], []
    proba, y = network(10_000 // scale, 100)
    for bandwidth in (0.1, 1e-2, 1e-3):
        time, ratio, error = classwise(proba, y, bandwidth)
        print(
            f"goal 3  classwise {proba.shape}, h = {bandwidth:g}: {time:.2f} s, {ratio:.0f} "
            f"times a blocked dense kernel, largest error {error:.1e}"
        )
        ratios.append(ratio)
        errors.append(error)
    n_samples = 1_000_000 // scale
    for bandwidth in (1e-2, 1e-3, 1e-4):
        times = {}
        for n in (n_samples // 10, n_samples):
            forecast, target = binary(n)
            weight = np.ones(n)
            times[n], _ = shortest(
                lambda f=forecast, t=target, w=weight, h=bandwidth: leave_one_out(f, w, t)(h),
                5,
            )
        sort, _ = shortest(lambda f=forecast: np.argsort(f[:, 1]), 5)
        exponent = np.log10(times[n_samples] / times[n_samples // 10])
        print(
            f"goal 4  binary n = {n_samples:,}, h = {bandwidth:g}: {times[n_samples]:.3f} s, "
            f"{times[n_samples] / sort:.1f} times one argsort of the scores, growth {exponent:.2f}"
        )
        sorts.append(times[n_samples] / sort)
        exponents.append(exponent)
    memory = megabytes_of_fresh_process(__file__, n_samples)
    print(f"goal 4  peak memory over imports and input: {memory:.0f} MB")
    for n_classes in (2, 3):
        data = make_tempered_simplex(10_000 // scale, n_classes, random_state=0)
        forecast = pairs(data.y_proba) if data.y_proba.ndim == 1 else data.y_proba
        kernel = DirichletKernel().fit(forecast, np.eye(n_classes)[data.y])
        grid = kernel._log_likelihoods()(GRID).max() / len(forecast)
        found = -kernel.bandwidth_search_.costs.min()
        n_evaluations = len(kernel.bandwidth_search_.bandwidths)
        print(
            f"goal 5  K = {n_classes}: h = {kernel.bandwidth_:.2e}, {n_evaluations} evaluations "
            f"on all rows, mean log likelihood {found:.6f}, best of 55: {grid:.6f}"
        )
        most.append(n_evaluations)
        short.append(grid - found)
    classes = f"Beta kernels, n = {len(y):,}, K = 100 classwise, h >= 1e-3"
    one = f"Beta kernel, n = {n_samples:,}, h >= 1e-4"
    search = f"Bandwidth by likelihood, n = {len(forecast):,}"
    rows = [
        Row(f"{classes}, against all pairs", min(ratios), RATIO, "times", least=True),
        Row(f"{classes}: error", max(errors), ERROR, strict=True),
        Row(one, max(sorts), SORTS, "argsorts of the scores"),
        Row(f"{one}: exponent of growth", max(exponents), EXPONENT, limit=EXPONENT + 0.2),
        Row(f"{one}: memory", memory, MEGABYTES, "MB"),
        Row(search, max(most), MOST_EVALUATIONS, "evaluations", limit=MOST_EVALUATIONS),
        Row(f"{search}: less likely than the best of 55", max(*short, 0.0), 1e-9, strict=True),
    ]
    finish(rows, quick=arguments.quick)


if __name__ == "__main__":
    main()
