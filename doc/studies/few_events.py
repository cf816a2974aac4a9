"""Do tests and intervals hold their level where few events are expected?

Rare events, confident forecasts of three classes, uneven weights and forecasts near 0 and 1, in
samples of 50 to 200. ``levels``: the share of rejections at .05 of every test of calibration, with
its standard error, where forecasts are calibrated; beside them a label that its forecast excludes,
which each test should reject. ``intervals``: how often the interval of every error holds its
target, over all samples and over those with at most three events, how often its lower limit lies
above zero, and how often the median and .9 quantile of the distance (E50, E90) are covered.
Tests that refuse the data or return nan are counted as such: they do not reject.

Rows go to ``few_events_levels.csv`` and ``few_events_intervals.csv`` as they are found.

    python doc/studies/few_events.py --jobs 2                    # some hours on two cores
    python doc/studies/few_events.py --part levels --only kernel --worlds "rate .02" --output /tmp
"""

import argparse
import csv
import sys
import warnings
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from interval_coverage import METRICS, RESULTS, World
from joblib import Parallel, delayed
from scipy.special import expit

import skcalib

LEVEL = 0.05
#: A share of rejections above this, by two standard errors, is too high.
MOST_REJECTED = 0.07
#: Coverages below these, by two standard errors, are too low: over all samples, over few events.
LEAST_COVERED, LEAST_COVERED_FEW = 0.94, 0.9
#: Samples with at most so many events are few.
FEW_SEEN = 3
SIZES = (50, 100, 200)


# --- worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Labels, forecasts and P(Y | S) of each class, and weights."""

    y: np.ndarray
    y_proba: np.ndarray
    posterior: np.ndarray
    weight: np.ndarray | None = None

    @property
    def binary(self):
        """Labels and forecasts of the event, or of the predicted class of several."""
        if self.y_proba.shape[1] == 2:
            return self.y, self.y_proba[:, 1]
        return (self.y == self.y_proba.argmax(axis=1)).astype(int), self.y_proba.max(axis=1)


def sample(score, truth, rng, weight=None):
    """Labels of two classes, drawn from the truth."""
    y = (rng.random(len(score)) < truth).astype(int)
    both = (np.column_stack([1 - p, p]) for p in (score, truth))
    return Sample(y, *both, weight)


def rare(n_samples, random_state, rate=0.02, odds=1.0):
    """P(Y | S) ~ Beta(.5, .5 / rate - .5); the odds are so many times too high."""
    rng = np.random.default_rng(random_state)
    truth = rng.beta(0.5, 0.5 / rate - 0.5, n_samples)
    return sample(odds * truth / (1 - truth + odds * truth), truth, rng)


def confident(n_samples, random_state, confidence=0.99):
    """Three classes: one at random is forecast with .99, and the other two are equally likely."""
    rng = np.random.default_rng(random_state)
    score = np.full((n_samples, 3), (1 - confidence) / 2)
    score[np.arange(n_samples), rng.integers(3, size=n_samples)] = confidence
    y = (score.cumsum(axis=1)[:, :2] < rng.random((n_samples, 1))).sum(axis=1)
    return Sample(y, score, score)


def weighted(n_samples, random_state):
    """Forecasts of all sizes, with cubes of exponential variables as weights."""
    rng = np.random.default_rng(random_state)
    score = rng.uniform(size=n_samples)
    return sample(score, score, rng, rng.exponential(size=n_samples) ** 3)


def u_shaped(n_samples, random_state):
    """Beta(.1, .1): most forecasts are near 0 or 1."""
    rng = np.random.default_rng(random_state)
    score = rng.beta(0.1, 0.1, n_samples)
    return sample(score, score, rng)


def impossible(n_samples, random_state):
    """One label 1 with a forecast of exactly 0; the others are calibrated."""
    rng = np.random.default_rng(random_state)
    score = rng.uniform(size=n_samples)
    score[0] = 0.0
    truth = score.copy()
    truth[0] = 1.0
    return sample(score, truth, rng)


def constant(n_samples, random_state, score=0.049, rate=0.02):
    """One forecast for all, and another rate."""
    rng = np.random.default_rng(random_state)
    return sample(np.full(n_samples, score), np.full(n_samples, rate), rng)


def curved(n_samples, random_state, slope=1.0, wave=0.0, spread=1.3):
    """The log odds are a slope times those forecast, and a wave."""
    rng = np.random.default_rng(random_state)
    u = spread * rng.standard_normal(n_samples)
    return sample(expit(u), expit(slope * u + wave * np.sin(3 * u)), rng)


#: Name -> simulator of n samples. All are calibrated but the last.
LEVELS = {
    "rate .005": partial(rare, rate=0.005),
    "rate .02": partial(rare, rate=0.02),
    "K = 3, confidence .99": confident,
    "weights exp^3": weighted,
    "U-shaped": u_shaped,
    "impossible label": impossible,
}
#: Of intervals; those of the last two are for 500 samples.
INTERVALS = {
    "rate .005": partial(rare, rate=0.005),
    "rate .01": partial(rare, rate=0.01),
    "rate .02": partial(rare, rate=0.02),
    "rate .02, odds 2.5 times too high": partial(rare, rate=0.02, odds=2.5),
    "all .049, rate .02": constant,
    "K = 3, confidence .99": confident,
    "U-shaped": u_shaped,
    "slope .9": partial(curved, slope=0.9),
    "wave": partial(curved, wave=0.9),
}
LARGER = ("slope .9", "wave")


def draw(worlds, name, n_samples, number):
    """One data set of a world; all tests and all intervals see the same ones."""
    seed = [number, n_samples, list(worlds).index(name)]
    return worlds[name](n_samples, random_state=seed)


# --- levels ---------------------------------------------------------------------------------------


def of_all_classes(test, **options):
    """P-value of a test of all classes at once."""

    def pvalue(data):
        labels = np.arange(data.y_proba.shape[1])
        given = {"labels": labels, "sample_weight": data.weight, **options}
        return test(data.y, data.y_proba, **given).pvalue

    return pvalue


def of_events(test, **options):
    """P-value of a test of two classes."""

    def pvalue(data):
        return test(*data.binary, labels=[0, 1], sample_weight=data.weight, **options).pvalue

    return pvalue


def of_windows(quantity):
    """P-value of a quantity of two windows, the two halves of the sample; nan if there is none."""

    def pvalue(data):
        window = np.arange(len(data.y)) % 2
        given = {"labels": [0, 1], "sample_weight": data.weight}
        found = getattr(skcalib.compare_windows(*data.binary, window, **given), quantity)
        return np.nan if found is None else found.pvalue

    return pvalue


_kernel = partial(of_all_classes, skcalib.kernel_calibration_test)
_logistic = partial(of_events, skcalib.significance.logistic_calibration_test)
_consistency = partial(of_all_classes, skcalib.significance.consistency_test, n_resamples=199)
WINDOWS = "calibration_error observed_minus_expected in_the_large intercept slope brier log_loss"
#: Name -> p-value of a sample. Windows have n samples each.
TESTS = {
    "kernel": _kernel(),
    "kernel, linear": _kernel(statistic="linear"),
    "kernel, block of 5": _kernel(statistic="block", block_size=5),
    "kernel, bootstrap": _kernel(method="bootstrap"),
    "kernel, multipliers": _kernel(method="multipliers"),
    "kernel, embedding": _kernel(method="embedding"),
    "e-value": of_all_classes(skcalib.significance.calibration_e_value),
    "Spiegelhalter": of_events(skcalib.significance.spiegelhalter_test),
    "Hosmer-Lemeshow": of_events(skcalib.hosmer_lemeshow_test),
    "logistic": _logistic(),
    "logistic, intercept": _logistic(hypothesis="intercept"),
    "logistic, slope": _logistic(hypothesis="slope"),
    "cumulative, ks": of_events(skcalib.significance.cumulative_test),
    "cumulative, kuiper": of_events(skcalib.significance.cumulative_test, statistic="kuiper"),
    "CORP": of_events(skcalib.errors.corp_test, n_resamples=199),
    "consistency": _consistency(),
    "consistency, labels only": _consistency(resample_forecasts=False),
    **{f"windows, {name}": of_windows(name) for name in WINDOWS.split()},
}


def level_cells(worlds, sizes, only):
    """Yield (world, n, test)."""
    for world in worlds:
        for n_samples in sizes:
            for test in TESTS:
                if only in test and not (test.startswith("windows") and "impossible" in world):
                    yield world, n_samples, test


def level(world, n_samples, test, draws):
    """Share of rejections in so many data sets, and of those without a p-value."""
    times = 2 if test.startswith("windows") else 1
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(draws):
            try:
                found.append(TESTS[test](draw(LEVELS, world, times * n_samples, number)))
            except ValueError:
                found.append(np.nan)
    pvalues = np.array(found)
    none = np.isnan(pvalues)
    rejected = np.mean(pvalues <= LEVEL)
    wanted = 1.0 if "impossible" in world else LEVEL
    error = np.sqrt(rejected * (1 - rejected) / draws)
    off = rejected < 1 if wanted == 1 else rejected > MOST_REJECTED + 2 * error
    return {
        "test": test,
        "world": world,
        "samples": n_samples,
        "draws": draws,
        "rejected": rejected,
        "standard_error": error,
        "wanted": wanted,
        "no_pvalue": none.mean(),
        "smallest": np.nan if none.all() else np.nanmin(pvalues),
        "off": int(off),
    }


# --- intervals ------------------------------------------------------------------------------------

#: Name -> metric and its keywords.
ERRORS = {
    **{metric: {"metric": metric} for metric in METRICS if metric != "bootstrap"},
    **{metric: {"metric": metric} for metric in ("ece", "l2", "debiased_l2")},
    "E50": {"metric": "ici", "quantile": 0.5},
    "E90": {"metric": "ici", "quantile": 0.9},
}
#: Errors of one number for all classes: the target of the others is of the event.
_ALL_CLASSES = ("simplex", "kernel", "embedding", "brier", "log", "upper_bound", "root_brier_score")


class FewEvents(World):
    """A world of `INTERVALS` with its large sample."""

    def __init__(self, name):
        super().__init__(name, worlds={name: (INTERVALS[name], "canonical")})

    def mean_divergence(self, divergence):
        """Forecasts tell all that is known: no bins are needed."""
        return np.mean(divergence(self.posterior, self.forecast))

    def target_of(self, error, data):
        """What the interval of an error should hold."""
        if error in ("E50", "E90"):
            gap = 0.5 * np.abs(self.forecast - self.posterior).sum(axis=1)
            return np.quantile(gap, ERRORS[error]["quantile"])
        if error in ("ece", "debiased_l2"):
            error = {"ece": "l1", "debiased_l2": "l2"}[error]
        return self.target(error, data.y, data.y_proba)


@cache
def world_of(name):
    """A world by its name; a process has one large sample of each."""
    return FewEvents(name)


def interval_cells(worlds, sizes, only):
    """Yield (world, n, error); errors of the event alone are not asked of three classes."""
    for world in worlds:
        for n_samples in (500,) if world in LARGER else sizes:
            for error in ERRORS:
                several = "K = 3" in world and error not in _ALL_CLASSES
                if only in error and not several:
                    yield world, n_samples, error


def coverage(world, n_samples, error, draws):
    """Coverage of the intervals of so many data sets, as a dict."""
    rows, large = [], world_of(world)
    options = dict(ERRORS[error])
    options |= large.options(options["metric"])
    if "K = 3" not in world:
        options.pop("notion", None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(draws):
            data = draw(INTERVALS, world, n_samples, number)
            try:
                found = skcalib.calibration_error_interval(
                    data.y, data.y_proba, n_resamples=200, **options
                )
            except ValueError:
                continue
            target = large.target_of(error, data)
            seen = min(data.binary[0].sum(), (1 - data.binary[0]).sum())
            held = found.low <= target + 1e-12 and target <= found.high + 1e-12
            rows.append((held, found.low > 1e-12, seen <= FEW_SEEN, found.valid, target,
                         found.high - found.low, found.conservative))  # fmt: skip
    return _summary(error, world, n_samples, draws, np.array(rows, dtype=float))


def _summary(error, world, n_samples, draws, rows):
    names = ("coverage", "above_zero", "few", "valid", "target", "length", "conservative")
    found = dict(zip(names, rows.mean(axis=0), strict=True)) if len(rows) else {}
    few = rows[rows[:, 2] == 1, 0] if len(rows) else np.empty(0)
    standard = {
        "coverage_error": _error(found.get("coverage", np.nan), len(rows)),
        "samples_with_few": len(few),
        "coverage_few": few.mean() if len(few) else np.nan,
    }
    standard["coverage_few_error"] = _error(standard["coverage_few"], len(few))
    off = (
        not found
        or found["coverage"] + 2 * standard["coverage_error"] < LEAST_COVERED
        or standard["coverage_few"] + 2 * standard["coverage_few_error"] < LEAST_COVERED_FEW
    )
    if found and found["target"] == 0:
        spread = _error(found["above_zero"], len(rows))
        off |= found["above_zero"] > MOST_REJECTED + 2 * spread
    return {
        "error": error,
        "world": world,
        "samples": n_samples,
        "draws": draws,
        "refused": 1 - len(rows) / draws,
        **{name: found.get(name, np.nan) for name in names if name != "few"},
        **standard,
        "off": int(off),
    }


def _error(share, n):
    return np.sqrt(share * (1 - share) / n) if n else np.nan


# --- the run --------------------------------------------------------------------------------------

PARTS = {
    "levels": (LEVELS, level_cells, level),
    "intervals": (INTERVALS, interval_cells, coverage),
}


def run(part, options):
    """Write the rows of a part as they are found, and print them."""
    known, cells, measure = PARTS[part]
    names = known if options.worlds is None else [name for name in known if name in options.worlds]
    todo = list(cells(names, options.sizes, options.only))
    if not todo:
        return
    rows = Parallel(n_jobs=options.jobs, batch_size=1, return_as="generator")(
        delayed(measure)(*cell, options.draws) for cell in todo
    )
    n_off, writer = 0, None
    path = options.output / f"few_events_{part}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        for row in rows:
            shown = {key: number(value) for key, value in row.items()}
            if writer is None:
                writer = csv.DictWriter(file, shown, lineterminator="\n")
                writer.writeheader()
            writer.writerow(shown)
            file.flush()
            print("  ".join(f"{key} {value}" for key, value in shown.items()), flush=True)
            n_off += row["off"]
    print(f"{part}: {n_off} of {len(todo)} cells are off")


def number(value):
    """Four digits; what is not a float as it is."""
    return f"{value:.4g}" if isinstance(value, float) else value


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="one part instead of both")
    parser.add_argument("--worlds", nargs="+", choices=dict.fromkeys([*LEVELS, *INTERVALS]))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--only", default="", help="part of the names of tests and errors")
    parser.add_argument("--draws", type=int, default=1000, help="data sets of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, default=RESULTS.parent, help="folder of the tables")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for part in PARTS if options.part is None else [options.part]:
        run(part, options)


if __name__ == "__main__":
    import few_events  # worker processes find the functions of a module, not of a script

    sys.exit(few_events.main())
