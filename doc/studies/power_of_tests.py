"""Which test of calibration detects what? Level and power of all tests in the same worlds.

Eight calibrated worlds and fourteen miscalibrated ones, for 2 to 100 classes and 50 to 5,000
samples: the share of data sets in which each test rejects at .05, with its standard error. Tests of
two classes see the predicted class of more: its probability, and whether it is right. Data sets and
draws of labels have states of their own. Rows go to ``results/power_of_tests.csv`` as they are
found, and from there to the tables of the user guide.

    python doc/studies/power_of_tests.py --jobs 2                    # half an hour
    python doc/studies/power_of_tests.py --classes 2 --samples 200 --output /tmp/power.csv
    python doc/studies/power_of_tests.py --tables                    # from the stored rows
"""

import argparse
import csv
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from _interval_tables import write, write_as_found
from joblib import Parallel, delayed
from scipy.special import expit, logit, softmax
from scipy.stats import binom

from skcalib import (
    calibration_test,
    hosmer_lemeshow_test,
    kernel_calibration_test,
)
from skcalib.significance import cumulative_test, logistic_calibration_test, spiegelhalter_test

LEVEL = 0.05
#: Another test with so much more power is a failure of `calibration_test`.
SHORTFALL = 0.1
#: Samples of the table of all worlds.
OF_WORLDS = 1000
#: Classes -> samples -> data sets.
REPETITIONS = {
    2: {50: 100, 200: 100, 1000: 60, 5000: 20},
    3: {50: 60, 200: 60, 1000: 40, 5000: 12},
    10: {50: 60, 200: 60, 1000: 40, 5000: 12},
    100: {200: 24, 1000: 12},
}
#: The state of a test is the number of the data set plus this.
STATE = 10**6
RESULTS = Path(__file__).parent / "results" / "power_of_tests.csv"
FIELDS = ("world", "calibrated", "classes", "samples", "test", "data_sets", "rejected")
FIELDS += ("standard_error",)
#: Standard deviation of the log odds: accuracies of .75, .68, .53 and .44.
SPREAD = {2: 1.2, 3: 1.5, 10: 2.0, 100: 3.0}


# --- calibrated worlds ----------------------------------------------------------------------------


def spread(n_samples, n_classes, rng, scale=1.0):
    """Normal log odds."""
    return softmax(scale * SPREAD[n_classes] * rng.standard_normal((n_samples, n_classes)), axis=1)


def dirichlet(n_samples, n_classes, rng):
    """Most of the mass in one or two classes."""
    return rng.dirichlet(np.full(n_classes, 0.1), n_samples)


def rare_class(n_samples, n_classes, rng):
    """Class 0 has odds lower by a factor of 150."""
    odds = spread(n_samples, n_classes, rng)
    odds[:, 0] /= 150
    return odds / odds.sum(axis=1, keepdims=True)


def constant(n_samples, n_classes, rng):
    """The same forecast for all samples, in proportion to 1, 2, ..., K."""
    return np.tile(np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum(), (n_samples, 1))


def ties(n_samples, n_classes, rng):
    """Log odds that are whole numbers."""
    logits = SPREAD[n_classes] * rng.standard_normal((n_samples, n_classes))
    return softmax(np.round(logits), axis=1)


def few_uncertain(n_samples, n_classes, rng):
    """One of ten forecasts is as in "spread", the others are sure of a class to .999."""
    proba = spread(n_samples, n_classes, rng)
    sure = rng.random(n_samples) > 0.1
    rest = 0.001 / (n_classes - 1)
    proba[sure] = rest
    proba[sure, rng.integers(n_classes, size=n_samples)[sure]] = 0.999
    return proba


NULLS = {
    "spread": spread,
    "sharp": partial(spread, scale=4.0),
    "near uniform": partial(spread, scale=0.1),
    "Dirichlet": dirichlet,
    "rare class": rare_class,
    "constant": constant,
    "ties": ties,
    "few uncertain": few_uncertain,
}


# --- miscalibrated worlds -------------------------------------------------------------------------


def tempered(proba, rng, slope):
    """The logits are too large or too small."""
    return softmax(slope * np.log(proba), axis=1)


def shifted_mean(proba, rng):
    """Class 0 occurs in place of others in 4 % of the samples."""
    conditional = 0.96 * proba
    conditional[:, 0] += 0.04
    return conditional


def wrong_labels(proba, rng):
    """Another label in 6 % of the samples, all alike."""
    return 0.94 * proba + 0.06 * (1 - proba) / (proba.shape[1] - 1)


def noisy(proba, rng):
    """The forecasts have normal errors in their logits, those of the truth are given."""
    noise = rng.standard_normal(proba.shape)
    return softmax(np.log(proba) + 0.4 * SPREAD[proba.shape[1]] * noise, axis=1)


def top_is(proba, right):
    """The predicted class is right as often as the function of its confidence says."""
    rows, top = np.arange(len(proba)), proba.argmax(axis=1)
    confidence = proba[rows, top]
    share = np.clip(right(confidence), 0, 1)
    conditional = proba * ((1 - share) / (1 - confidence))[:, None]
    conditional[rows, top] = share
    return conditional


def narrow(proba, rng):
    """Confidences from .6 to .7 are too high by .2."""
    return top_is(proba, lambda c: c - 0.2 * ((c > 0.6) & (c < 0.7)))


def confused(proba, rng):
    """A fifth of the probability of class 0 is that of class 1."""
    conditional = proba.copy()
    conditional[:, 0] *= 0.8
    conditional[:, 1] += 0.2 * proba[:, 0]
    return conditional


def rotated(proba, rng):
    """12 % of the probability of each class is that of the next one."""
    return 0.88 * proba + 0.12 * np.roll(proba, 1, axis=1)


def shifted_prior(proba, rng):
    """The odds of the last class are too low by a factor of 1.5."""
    odds = proba.copy()
    odds[:, -1] *= 1.5
    return odds / odds.sum(axis=1, keepdims=True)


def one_slope(proba, rng):
    """The log odds of class 0 are too far from their mean."""
    odds = logit(proba[:, 0])
    share = expit(odds.mean() + 0.6 * (odds - odds.mean()))
    conditional = proba * ((1 - share) / (1 - proba[:, 0]))[:, None]
    conditional[:, 0] = share
    return conditional


def step(proba, rng):
    """Confidences above the middle of their range are too high by .06, others too low."""
    middle = (1 + 1 / proba.shape[1]) / 2
    return top_is(proba, lambda c: c - 0.06 * np.sign(c - middle))


def over_confident_end(proba, rng):
    """Only confidences above .9 are too high, by .06."""
    return top_is(proba, lambda c: c - 0.06 * (c > 0.9))


def s_curve(proba, rng):
    """Centred logits are steeper in the middle and flat far from it."""
    logits = np.log(proba)
    logits -= logits.mean(axis=1, keepdims=True)
    scale = 1.5 * SPREAD[proba.shape[1]]
    return softmax(1.3 * scale * np.tanh(logits / scale), axis=1)


def alternating(proba, rng):
    """The error of the confidence has three waves over its range."""
    least = 1 / proba.shape[1]

    def right(c):
        wave = np.sin(6 * np.pi * (c - least) / (1 - least))
        return c + 0.5 * np.minimum(1 - c, 0.2) * wave

    return top_is(proba, right)


ALTERNATIVES = {
    "over-confident": partial(tempered, slope=0.8),
    "under-confident": partial(tempered, slope=1.2),
    "mean of a class": shifted_mean,
    "6 % wrong labels": wrong_labels,
    "noisy forecasts": noisy,
    "narrow error": narrow,
    "confused classes": confused,
    "rotated mass": rotated,
    "prior of a class": shifted_prior,
    "slope of a class": one_slope,
    "step": step,
    "over-confident above .9": over_confident_end,
    "S-curve": s_curve,
    "alternating": alternating,
}
WORLDS = (*NULLS, *ALTERNATIVES)


def draw(world, n_classes, n_samples, number):
    """Labels, forecasts and the probabilities of the labels; all tests see the same ones."""
    rng = np.random.default_rng([number, n_samples, n_classes, WORLDS.index(world)])
    forecast = NULLS.get(world, spread)(n_samples, n_classes, rng)
    conditional = ALTERNATIVES[world](forecast, rng) if world in ALTERNATIVES else forecast
    level = rng.random((n_samples, 1)) * conditional.sum(axis=1, keepdims=True)
    labels = np.sum(conditional.cumsum(axis=1) <= level, axis=1)
    return np.minimum(labels, n_classes - 1), forecast, conditional


# --- tests ----------------------------------------------------------------------------------------


def of_all_classes(test):
    """P-value of a test of all classes at once."""

    def pvalue(y, proba, state):
        return test(y, proba, labels=np.arange(proba.shape[1]), random_state=state).pvalue

    return pvalue


def of_events(test, **options):
    """P-value of a test of two classes; with more, of whether the predicted class is right."""

    def pvalue(y, proba, state):
        event, score = y, proba[:, 1]
        if proba.shape[1] > 2:
            event, score = (y == proba.argmax(axis=1)).astype(int), proba.max(axis=1)
        return test(event, score, labels=[0, 1], random_state=state, **options).pvalue

    return pvalue


TESTS = {
    "calibration_test": of_all_classes(calibration_test),
    "kernel": of_all_classes(kernel_calibration_test),
    "logistic": of_events(logistic_calibration_test),
    "Hosmer-Lemeshow": of_events(hosmer_lemeshow_test),
    "Kuiper": of_events(cumulative_test, statistic="kuiper"),
    "Spiegelhalter": of_events(spiegelhalter_test),
}
OURS = "calibration_test"


def rows_of(world, n_classes, n_samples, data_sets):
    """A row for each test. A test that refuses the data does not reject."""
    rejected = np.zeros(len(TESTS))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(data_sets):
            y, proba, _ = draw(world, n_classes, n_samples, number)
            for k, test in enumerate(TESTS.values()):
                try:
                    rejected[k] += test(y, proba, STATE + number) <= LEVEL
                except ValueError:
                    continue
    key = (world, int(world in NULLS), n_classes, n_samples)
    return [
        dict(zip(FIELDS, (*key, test, data_sets, *map(_number, _share(n, data_sets))), strict=True))
        for test, n in zip(TESTS, rejected, strict=True)
    ]


def _share(n, size):
    share = n / size
    return share, np.sqrt(share * (1 - share) / size)


def _number(value):
    return f"{value:.4g}"


# --- tables of the user guide ---------------------------------------------------------------------


def read(results):
    """{(K, n): {world: {test: row}}}, with numbers, in the order of the study."""
    found = {}
    with results.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row |= {name: int(row[name]) for name in ("classes", "samples", "data_sets")}
            row |= {name: float(row[name]) for name in ("rejected", "standard_error")}
            worlds = found.setdefault((row["classes"], row["samples"]), {})
            worlds.setdefault(row["world"], {})[row["test"]] = row
    return dict(sorted(found.items()))


def failures(found):
    """Rows (world, K, n, ours, best other, its power, difference, its standard error)."""
    rows = []
    for (n_classes, n_samples), worlds in found.items():
        for world in ALTERNATIVES:
            if world not in worlds:
                continue
            ours, others = worlds[world][OURS], dict(worlds[world])
            del others[OURS]
            best = max(others.values(), key=lambda row: row["rejected"])
            gap = best["rejected"] - ours["rejected"]
            if gap > SHORTFALL:
                error = np.hypot(best["standard_error"], ours["standard_error"])
                row = (ours["rejected"], best["test"], best["rejected"], gap, error)
                rows.append((world, n_classes, n_samples, *row))
    return sorted(rows, key=lambda row: -row[-2])


def likely_highest(data_sets, n_worlds):
    """Quantile .95 of the highest of the shares that exact tests reject."""
    return binom.ppf(0.95 ** (1 / n_worlds), data_sets, LEVEL) / data_sets


def write_tables(results):
    """Failures, levels, mean power, and power by world, beside the results."""
    found = read(results)
    head = ["setting", "K", "n", OURS, "best other", "its power", "difference", "standard error"]
    lines = [
        [world, k, f"{n:,}", _two(ours), best, *map(_two, numbers)]
        for world, k, n, ours, best, *numbers in failures(found)
    ]
    write(results, "failures", [head, *lines])
    write(results, "levels", _summary(found, NULLS, _level, by_chance=True))
    write(results, "power", _summary(found, ALTERNATIVES, _mean))
    head = ["setting", "K", *TESTS]
    lines = [
        [world, k, *(_two(worlds[world][test]["rejected"]) for test in TESTS)]
        for world in ALTERNATIVES
        for (k, n), worlds in found.items()
        if n == OF_WORLDS and world in worlds
    ]
    write(results, "settings", [head, *lines])


def _summary(found, of_worlds, cell, by_chance=False):
    """Lines of a table: a cell of the shares of these worlds for each test, by K and n."""
    lines = [["K", "n", "data sets", *TESTS, *(["by chance"] if by_chance else [])]]
    for (k, n), worlds in found.items():
        own = [worlds[world] for world in of_worlds if world in worlds]
        if own:
            size = own[0][OURS]["data_sets"]
            cells = [cell([one[test]["rejected"] for one in own]) for test in TESTS]
            chance = [_two(likely_highest(size, len(own)))] if by_chance else []
            lines.append([k, f"{n:,}", size, *cells, *chance])
    return lines


def _level(shares):
    return f"{np.mean(shares):.2f} ({max(shares):.2f})"


def _mean(shares):
    return _two(np.mean(shares))


def _two(value):
    return f"{value:.2f}"


# --- the run --------------------------------------------------------------------------------------


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--classes", type=int, nargs="+", default=tuple(REPETITIONS))
    parser.add_argument("--samples", type=int, nargs="+", default=tuple(REPETITIONS[2]))
    parser.add_argument("--times", type=float, default=1, help="multiply the data sets")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--tables", action="store_true", help="only the tables")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if not options.tables:
        cells = [
            (world, k, n, max(2, round(options.times * REPETITIONS[k][n])))
            for k in options.classes
            for n in options.samples
            for world in options.worlds
            if n in REPETITIONS[k]
        ]
        found = Parallel(n_jobs=options.jobs, batch_size=1, return_as="generator")(
            delayed(rows_of)(*cell) for cell in cells
        )
        write_as_found(options.output, FIELDS, (row for rows in found for row in rows))
    write_tables(options.output)


if __name__ == "__main__":
    import power_of_tests  # worker processes find the functions of a module, not of a script

    sys.exit(power_of_tests.main())
