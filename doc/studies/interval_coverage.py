"""How often do intervals of errors hold what they are about?

Data sets with known E[Y|S]. The target of each interval is computed from a large sample of
forecasts, with the bins of the small one. For each metric, world and sample size: the share of
intervals that hold their target, the shares that lie above it and below it, the mean length, and
how many call themselves valid or conservative; then what the percentile bootstrap does instead.
Rows go to ``results/interval_coverage.csv`` as they are found, and from there to the tables of the
user guide. A row has at most 1,000 repetitions and stops earlier after ``--seconds`` of computing;
except for slow metrics and the bootstrap, not before 400.

    python doc/studies/interval_coverage.py                      # about half an hour
    python doc/studies/interval_coverage.py --metrics squared_l2 --sizes 300 --output /tmp/a.csv
"""

import argparse
import csv
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from skcalib import calibration_error_interval, reliability_bins
from skcalib.data.notions import NOTIONS
from skcalib.datasets import make_logistic_scores, make_tempered_simplex
from skcalib.kernels import LaplacianKernel
from skcalib.scores import Brier, LogLoss, TotalVariation
from skcalib.smoothers import DirichletKernel, MedianCells

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
METRICS = ("squared_l2", "l1", "max", "ks", "simplex", "embedding", "upper_bound")
METRICS += ("root_brier_score", "kernel", "brier", "log", "ici", "bootstrap")
SLOW = ("kernel", "brier", "log", "ici")
WHOLE = ("simplex", "embedding", "root_brier_score")  # metrics of all classes at once
KERNEL = LaplacianKernel(0.5)
FEWEST, OFTEN = 10, 400  # repetitions, however slow: of slow metrics, of the others
RESULTS = Path(__file__).parent / "results" / "interval_coverage.csv"
SCORES = {"brier": Brier(), "log": LogLoss()}


class World:
    """A simulator with a large sample of its forecasts and their conditional probabilities."""

    def __init__(self, name, n_reference=200_000, worlds=None):
        self.simulate, self.notion = (WORLDS if worlds is None else worlds)[name]
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
        """Pairs of labels and forecasts, simulated in blocks."""
        at_once = max(1, 100_000 // n_samples)
        for start in range(0, n_repetitions, at_once):
            data = self.simulate(n_samples * at_once, random_state=1 + start)
            for k in range(min(at_once, n_repetitions - start)):
                rows = slice(k * n_samples, (k + 1) * n_samples)
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
            cells = MedianCells(15).fit(proba, np.eye(self.n_classes)[y])
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
        from skcalib.data.problem import Problem
        from skcalib.errors.kernel import ResidualKernel, estimate

        n = 20_000
        problem = Problem(self.forecast[:n], self.posterior[:n], np.ones(n), None)
        h = ResidualKernel.of_problem(problem, KERNEL, NOTIONS[self.notion]())
        return estimate(h, "unbiased")

    def embedding(self):
        locations = self.forecast[:5]
        weight = KERNEL(self.forecast, locations)
        mean = weight.T @ (self.posterior - self.forecast) / len(weight)
        return float(np.sum(mean**2) / len(locations))

    def given_score(self):
        """Scores of each problem and E[Y|score], by means over 400 bins of the large sample.

        The posterior of a class given all scores is more than its own score tells.
        """
        for score, conditional in self.problems:
            order = np.argsort(score[:, 1]).reshape(400, -1)
            gap = np.empty(len(score))
            gap[order] = (conditional - score)[order, 1].mean(axis=1, keepdims=True)
            event = np.clip(score[:, 1] + gap, 0, 1)
            yield score, np.column_stack([1 - event, event])

    def mean_divergence(self, divergence):
        return np.mean([np.mean(divergence(c, s)) for s, c in self.given_score()])

    def brier(self):
        return self.mean_divergence(SCORES["brier"].divergence)

    def log(self):
        return self.mean_divergence(SCORES["log"].divergence)

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
        return self.mean_divergence(TotalVariation().divergence)


def coverage(world, metric, n_samples, n_repetitions, seconds=np.inf, fewest=OFTEN, **options):
    """Shares of intervals of data sets of one size that hold or miss their target, as a dict.

    After so many seconds `fewest` repetitions are enough.
    """
    given = {**world.options(metric), **options}
    pairs, start = [], None
    for y, p in world.samples(n_samples, n_repetitions):
        found = calibration_error_interval(y, p, metric=metric, **given)
        pairs.append((found, world.target(metric, y, p)))
        start = start or time.process_time()  # the first target may take longer than the rest
        if time.process_time() - start > seconds and len(pairs) >= fewest:
            break
    low, high, target = np.array([(f.low, f.high, t) for f, t in pairs]).T
    # A target of zero is a sum that rounds to it.
    above, below = low > target + 1e-12, high < target - 1e-12
    return {
        "repetitions": len(pairs),
        "coverage": 1 - np.mean(above | below),
        "above": np.mean(above),
        "below": np.mean(below),
        "target": np.mean(target),
        "length": np.mean(high - low),
        "valid": np.mean([f.valid for f, _ in pairs]),
        "conservative": np.mean([f.conservative for f, _ in pairs]),
    }


def cells(metrics, sizes, worlds):
    """Yield (method, metric, n, world, keywords)."""
    for metric, n_samples, world in product(metrics, sizes, worlds):
        if metric == "bootstrap" or (metric in WHOLE and "top label" in world):
            continue  # the same as beside "classwise"
        if metric == "ici" and "classwise" in world:
            continue  # ten fits for each draw
        # 39 draws are enough for an exact test at the level .025.
        draws = 39 if metric == "ici" else 200
        yield "auto", metric, n_samples, world, {"n_resamples": draws}
    if "bootstrap" in metrics:
        yield from bootstrap_cells([n for n in sizes if n <= 1000])


def bootstrap_cells(sizes):
    """The percentile bootstrap, and the intervals of the library with the same smoother."""
    naive = {"method": "bootstrap", "n_resamples": 200}
    worlds = [w for w in WORLDS if "binary" in w and "nearly" not in w]
    metrics = ("l1", "squared_l2", "upper_bound")
    for metric, n_samples, world in product(metrics, sizes, worlds):
        yield "bootstrap", metric, n_samples, world, naive
    kernel = {"smoother": DirichletKernel(0.003, refinement="loss")}
    for name, options in (("bootstrap", naive), ("auto", {"n_resamples": 39})):
        for world in worlds:
            yield name + ", kernel smoother", "brier", 300, world, {**options, **kernel}


def number(value):
    """Four digits, and no negative zero."""
    return value if isinstance(value, int) else f"{round(value, 4) + 0.0:.4f}"


def main():
    from _interval_tables import write_tables  # beside this script, which tests import too

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=12, help="of computing, for a row")
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    worlds = {name: World(name) for name in WORLDS}
    with arguments.output.open("w", newline="", encoding="utf-8") as file:
        writer = None
        for method, metric, n_samples, name, options in cells(
            arguments.metrics, arguments.sizes, arguments.worlds
        ):
            fewest = FEWEST if metric in SLOW or method != "auto" else OFTEN
            row = {"method": method, "metric": metric, "samples": n_samples, "world": name}
            many, seconds = arguments.repetitions, arguments.seconds
            found = coverage(worlds[name], metric, n_samples, many, seconds, fewest, **options)
            row |= {key: number(value) for key, value in found.items()}
            if writer is None:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()
    write_tables(arguments.output)


if __name__ == "__main__":
    main()
