"""How often do intervals of errors hold what they are about?

Data sets with known E[Y|S]. The target of each interval is computed from a large sample of
forecasts, with the bins of the small one. Prints, for each metric, notion and sample size, the
share of intervals that hold their target, the shares that lie above it and below it, the mean
length, and how many of them call themselves conservative; then what the percentile bootstrap
does instead.

    python doc/studies/interval_coverage.py
    python doc/studies/interval_coverage.py --metrics squared_l2 kernel --sizes 300 1000
"""

import argparse
from functools import partial

import numpy as np
from sklearn.base import clone

from skcalib import (
    Brier,
    LaplacianKernel,
    LogLoss,
    TotalVariation,
    calibration_error_interval,
    reliability_bins,
)
from skcalib.datasets import make_logistic_scores, make_tempered_simplex
from skcalib.notions import NOTIONS
from skcalib.smoothers import MedianCells

#: Name -> (simulator of n samples, notion).
WORLDS = {
    "calibrated, binary": (partial(make_tempered_simplex, score_temperature=1), "canonical"),
    "nearly calibrated, binary": (
        partial(make_tempered_simplex, score_temperature=0.9),
        "canonical",
    ),
    "miscalibrated, binary": (make_logistic_scores, "canonical"),
    "calibrated, K = 10, classwise": (
        partial(make_tempered_simplex, n_classes=10, score_temperature=1),
        "classwise",
    ),
    "miscalibrated, K = 10, classwise": (partial(make_tempered_simplex, n_classes=10), "classwise"),
    "calibrated, K = 10, top label": (
        partial(make_tempered_simplex, n_classes=10, score_temperature=1),
        "top_label",
    ),
    "miscalibrated, K = 10, top label": (partial(make_tempered_simplex, n_classes=10), "top_label"),
}
SIZES = (300, 1000, 5000)
METRICS = (
    "squared_l2",
    "l2",
    "l1",
    "max",
    "ks",
    "simplex",
    "kernel",
    "embedding",
    "brier",
    "log",
    "upper_bound",
    "root_brier_score",
    "ici",
)
WHOLE = ("simplex", "embedding", "root_brier_score")  # metrics of all classes at once
KERNEL = LaplacianKernel(0.5)
SCORES = {"brier": Brier(), "log": LogLoss()}


class World:
    """A simulator with a large sample of its forecasts and their conditional probabilities."""

    def __init__(self, name, n_reference=200_000):
        self.simulate, self.notion = WORLDS[name]
        data = self.simulate(n_reference, random_state=10**6)
        self.forecast, self.posterior = data.y_proba, data.posterior
        self.n_classes = self.forecast.shape[1]
        self.problems = list(NOTIONS[self.notion]().problems(self.forecast, self.posterior))
        self.curves = []
        for score, conditional in self.problems:
            order = np.argsort(score[:, 1])
            gap = np.cumsum((conditional - score)[order, 1]) / len(order)
            self.curves.append((score[order, 1], np.concatenate([[0.0], gap])))
        self.constants = {}

    def samples(self, n_samples, n_repetitions):
        """Pairs of labels and forecasts."""
        data = self.simulate(n_samples * n_repetitions, random_state=0)
        for start in range(0, len(data.y), n_samples):
            rows = slice(start, start + n_samples)
            yield data.y[rows], data.y_proba[rows]

    def options(self, metric):
        """Keywords of the metric."""
        options = {"labels": np.arange(self.n_classes)}
        if metric not in WHOLE:
            options["notion"] = self.notion
        if metric == "kernel":
            options["kernel"] = KERNEL
        if metric == "embedding":
            options |= {"kernel": KERNEL, "locations": self.forecast[:5]}
        return options

    def target(self, metric, y, proba):
        """What the interval should hold; the data only say where the bins are."""
        if metric in ("l1", "l2", "squared_l2", "max"):
            options = self.options(metric)
            bins = [bin_.edges for bin_ in reliability_bins(y, proba, **options)]
            return self.binned(metric, bins)
        if metric == "simplex":
            cells = clone(MedianCells()).fit(proba, np.eye(self.n_classes)[y])
            some = slice(0, 20_000)
            return self.over_cells(cells.assign(self.forecast[some]), some)
        if metric not in self.constants:
            self.constants[metric] = getattr(self, metric)()
        return self.constants[metric]

    def binned(self, metric, bins):
        """Distances between the edges of the bins, from differences of the cumulated curve."""
        values = []
        for (score, curve), edges in zip(self.curves, bins, strict=True):
            inner = edges[1:-1]
            place = np.searchsorted(score, inner, side="right")
            place = np.concatenate([[0], place, [len(score)]])
            mass = np.diff(place) / len(score)
            gap = np.abs(np.diff(curve[place])) / np.where(mass > 0, mass, 1.0)
            power = {"l1": 1}.get(metric, 2)
            values.append(gap.max() if metric == "max" else mass @ gap**power)
        if metric == "max":
            return max(values)
        return np.sqrt(np.mean(values)) if metric == "l2" else np.mean(values)

    def over_cells(self, cells, some):
        """Total variation between the means of cells."""
        mass = np.bincount(cells)
        gap = (self.posterior - self.forecast)[some]
        sums = np.array([np.bincount(cells, column) for column in gap.T])
        return 0.5 * np.abs(sums).sum() / mass.sum()

    def ks(self):
        return np.mean([np.abs(curve).max() for _, curve in self.curves])

    def kernel(self):
        """The mean of h over pairs of forecasts, with E[Y|S] in the place of the label."""
        from skcalib._checks import Problem
        from skcalib.errors._residual_kernel import ResidualKernel
        from skcalib.errors.kernel_error import estimate

        n = 20_000
        problem = Problem(self.forecast[:n], self.posterior[:n], np.ones(n), None)
        h = ResidualKernel.of_problem(problem, KERNEL, NOTIONS[self.notion]())
        return estimate(h, "unbiased")

    def embedding(self):
        locations = self.forecast[:5]
        weight = KERNEL(self.forecast, locations)
        mean = weight.T @ (self.posterior - self.forecast) / len(weight)
        return float(np.sum(mean**2) / len(locations))

    def proper(self, loss):
        divergence = SCORES[loss].divergence
        return np.mean([np.mean(divergence(c, s)) for s, c in self.problems])

    def brier(self):
        return self.proper("brier")

    def log(self):
        return self.proper("log")

    def upper_bound(self):
        """The mean Brier loss: divergence from E[Y|S] plus its entropy."""
        score = SCORES["brier"]
        return np.mean(
            [np.mean(score.divergence(c, s) + score.entropy(c)) for s, c in self.problems]
        )

    def root_brier_score(self):
        score, c, s = SCORES["brier"], self.posterior, self.forecast
        return np.sqrt(np.mean(score.divergence(c, s) + score.entropy(c)))

    def ici(self):
        return np.mean([np.mean(TotalVariation().divergence(c, s)) for s, c in self.problems])


def coverage(world, metric, n_samples, n_repetitions, **options):
    """Shares of intervals of data sets of one size that hold or miss their target, as a dict."""
    given = {**world.options(metric), **options}
    pairs = [
        (calibration_error_interval(metric, y, p, **given), world.target(metric, y, p))
        for y, p in world.samples(n_samples, n_repetitions)
    ]
    low, high, target = np.array([(f.low, f.high, t) for f, t in pairs]).T
    # A target of zero is a sum that rounds to it.
    above, below = low > target + 1e-12, high < target - 1e-12
    return {
        "coverage": 1 - np.mean(above | below),
        "above": np.mean(above),
        "below": np.mean(below),
        "target": np.mean(target),
        "length": np.mean(high - low),
        "valid": np.mean([f.valid for f, _ in pairs]),
        "conservative": np.mean([f.conservative for f, _ in pairs]),
    }


COLUMNS = ("coverage", "above", "below", "target", "length", "valid", "conservative")


def show(name, world, metric, n_samples, n_repetitions, **options):
    row = coverage(world, metric, n_samples, n_repetitions, **options)
    print(
        f"{name:34}{metric:18}{n_samples:6}" + "".join(f"{row[c]:10.4f}" for c in COLUMNS),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    arguments = parser.parse_args()
    print(f"{'world':34}{'metric':18}{'n':>6}" + "".join(f"{c:>10.10}" for c in COLUMNS))
    for name in arguments.worlds:
        world = World(name)
        for metric in arguments.metrics:
            for n_samples in arguments.sizes:
                # 39 draws are enough for an exact test at the level .025.
                draws = 39 if metric in ("ici", "brier", "log") else 400
                options = {"n_resamples": draws}
                show(name, world, metric, n_samples, arguments.repetitions, **options)


if __name__ == "__main__":
    main()
