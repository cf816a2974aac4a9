"""Do the default intervals of the calibration error hold what they are about?

Simulated settings whose errors are known (`_worlds.py`): smooth maps, jumps, and classes that are
confused with each other. For each setting, number of samples and loss: the share of 95 % intervals
that hold the error of all classes at once, the share of intervals that call themselves valid, the
mean width, and bias and root mean squared error of the estimate. Rows go to
``results/default_coverage.csv`` as they are found, and from there to the tables of the user guide.

    python doc/studies/default_coverage.py                 # about an hour on one core
    python doc/studies/default_coverage.py --last          # the settings that nothing was tuned on
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from _interval_tables import write, write_as_found
from _worlds import World, true_error

from skcalib.data.notions import Canonical
from skcalib.data.problem import check_problem
from skcalib.error_intervals.proper import estimates_of_solved
from skcalib.proper.map_average import squared_norms
from skcalib.proper.proper import solve_notion
from skcalib.scores import Brier, LogLoss

SETTINGS = (
    ("calibrated", 2),
    ("over-confident", 2),
    ("class-dependent", 2),
    ("non-monotone", 2),
    ("S-curve", 2),
    ("local bump", 2),
    ("rare event, over-confident", 2),
    ("step", 2),
    ("four steps", 2),
    ("sawtooth", 2),
    ("one region", 2),
    ("plateau", 2),
    ("two waves", 2),
    ("halves", 2),
    ("cyclic region", 3),
    ("calibrated", 4),
    ("class slopes", 4),
    ("local bump", 4),
    ("confused pairs", 4),
    ("confident confusion", 4),
    ("swapped when sure", 4),
    ("confident confusion", 5),
    ("tied pairs", 6),
    ("calibrated", 10),
    ("over-confident", 10),
    ("label noise", 10),
    ("confused pairs", 10),
)
LAST = (("narrow band", 2), ("margin wave", 5), ("unlikely pair", 4))
#: Samples -> data sets.
REPETITIONS = {500: 200, 2000: 200, 10_000: 60, 30_000: 60}
RESULTS = Path(__file__).parent / "results" / "default_coverage.csv"
LOSSES = {"brier": Brier(), "log": LogLoss()}
FIELDS = ("setting", "classes", "samples", "loss", "repetitions", "truth", "coverage", "valid")
FIELDS += (
    "held",
    "below",
    "width",
    "before",
    "before_width",
    "bias",
    "rmse",
    "before_rmse",
    "time",
)


def intervals(y, proba):
    """Estimate, limits and validity for each loss, and the same without cells and transitions."""
    start = time.process_time()
    problem = check_problem(y, proba, labels=np.arange(proba.shape[1]))
    solved = solve_notion(problem, notion=Canonical(), smoother=None, merge=True)
    plain = squared_norms(solved, list(LOSSES.values()))
    before = [
        (
            float(np.average(solved[0].map_terms(score, "errors"), weights=solved[0].weight)),
            *norm.interval(0.95),
        )
        for score, norm in zip(LOSSES.values(), plain, strict=True)
    ]
    middle = time.process_time()
    found = estimates_of_solved(solved, losses=list(LOSSES), notion=Canonical())
    after = [
        (one.interval.estimate, one.interval.low, one.interval.high, not one.lower_bound)
        for one in found
    ]
    ratio = (time.process_time() - start) / (middle - start)
    return np.hstack([after, before]), ratio


def rows_of(kind, n_classes, n_samples, repetitions):
    """A row of the table for each loss."""
    setting = World(kind, n_classes, n_samples)
    draws = (setting.draw(seed)[:2] for seed in range(repetitions))
    found, ratios = zip(*(intervals(y, proba) for y, proba in draws), strict=True)
    for (loss, _), values in zip(LOSSES.items(), np.moveaxis(found, 1, 0), strict=True):
        truth = true_error(setting, loss, "canonical")
        estimate, low, high, valid, old, old_low, old_high = values.T
        holds = (low <= truth * (1 + 1e-12)) & (truth <= high)
        miss = [np.sqrt(np.mean((one - truth) ** 2)) for one in (estimate, old)]
        numbers = truth, holds.mean(), valid.mean(), np.mean(holds | (valid == 0))
        numbers += np.mean(high < truth), np.mean(high - low)
        numbers += (np.mean((old_low <= truth * (1 + 1e-12)) & (truth <= old_high)),)
        numbers += np.mean(old_high - old_low), np.mean(estimate) - truth, *miss, np.median(ratios)
        key = kind, n_classes, n_samples, loss, repetitions
        yield dict(zip(FIELDS, (*key, *(f"{x:.4g}" for x in numbers)), strict=True))


# --- Tables of the user guide --------------------------------------------------------------------

KINDS = {
    "calibrated": "calibrated",
    "maps": "smooth maps",
    "jumps": "jumps",
    "confused": "confused",
}
_JUMPS = ("step", "four steps", "sawtooth", "one region", "plateau", "two waves", "halves")
_CONFUSED = ("confused", "confident", "swapped", "label noise", "cyclic", "tied")
LOW = 0.88


def kind_of(setting):
    """The kind of a setting in the summary."""
    if setting in _JUMPS:
        return "jumps"
    if setting.startswith(_CONFUSED):
        return "confused"
    return "calibrated" if setting == "calibrated" else "maps"


def write_tables(results):
    """Tables of failures, of coverage by setting, and a summary, beside the results."""
    with results.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    low = [row for row in rows if float(row["held"]) < LOW]
    low.sort(key=lambda row: float(row["held"]))
    head = ["setting", "K", "n", "loss", "coverage", "standard error", "before", "called valid"]
    lines = [
        [row["setting"], row["classes"], row["samples"], row["loss"], _two(row["coverage"])]
        + [_two(_error(row)), _two(row["before"]), _two(row["valid"])]
        for row in low
    ]
    write(results, "failures", [head, *lines])
    last = [row for row in rows if (row["setting"], int(row["classes"])) in LAST]
    for name, chosen in (("table", [row for row in rows if row not in last]), ("last", last)):
        found = {
            (row["setting"], row["classes"], row["loss"], row["samples"]): row for row in chosen
        }
        sizes = list(dict.fromkeys(row["samples"] for row in chosen))
        head = ["setting", "K", *(f"{loss} {int(n):,}" for loss in LOSSES for n in sizes)]
        keys = dict.fromkeys((row["setting"], row["classes"]) for row in chosen)
        lines = [
            [*key, *(_two(found[*key, loss, n]["held"]) for loss in LOSSES for n in sizes)]
            for key in keys
        ]
        write(results, name, [head, *lines])
    head = ["kind", "loss", "coverage", "before", "lowest", "before", "width", "error"]
    lines = []
    for kind, title in KINDS.items():
        for loss in LOSSES:
            own = [
                r
                for r in rows
                if kind_of(r["setting"]) == kind and r["loss"] == loss and r not in last
            ]
            if not own:
                continue
            held, before = ([float(r[name]) for r in own] for name in ("held", "before"))
            width, error = (
                _ratio(own, *names)
                for names in (("width", "before_width"), ("rmse", "before_rmse"))
            )
            numbers = np.mean(held), np.mean(before), min(held), min(before), width, error
            lines.append([title, loss, *map(_two, numbers)])
    write(results, "summary", [head, *lines])


def _error(row):
    share = float(row["coverage"])
    return np.sqrt(share * (1 - share) / int(row["repetitions"]))


def _ratio(rows, above, below):
    """Geometric mean of the ratio of two columns."""
    return np.exp(np.mean([np.log(float(row[above]) / float(row[below])) for row in rows]))


def _two(value):
    return f"{float(value):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--last", action="store_true", help="the settings that are used once")
    parser.add_argument("--samples", type=int, nargs="+", default=tuple(REPETITIONS))
    parser.add_argument("--times", type=float, default=1, help="multiply the repetitions")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    append = options.last and options.output.exists()
    rows = (
        row
        for n_samples in options.samples
        for setting in (LAST if options.last else SETTINGS)
        for row in rows_of(
            *setting, n_samples, max(2, round(options.times * REPETITIONS[n_samples]))
        )
    )
    write_as_found(options.output, FIELDS, rows, append=append)
    write_tables(options.output)


if __name__ == "__main__":
    main()
