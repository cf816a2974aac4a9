"""How accurate are the estimates of calibration errors? Ours and those of other packages.

Simulated worlds whose errors are known (`_worlds.py`), every estimator (`_estimators.py`): bias,
root mean squared error and coverage of the 95 % interval, one row per world, target and
estimator, written to `results/accuracy.csv`; then the summaries that the user guide includes. The
packages that it compares with are optional.

    pip install uncertainty-calibration probmetrics numba torchmetrics relplot netcal
    python doc/studies/accuracy.py              # all worlds, one to two hours on one core
    python doc/studies/accuracy.py --default    # the default again, beside stored results of others
    python doc/studies/accuracy.py --summary    # only the summaries of the stored results
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from _estimators import LOSSES, installed, ours, peers
from _summary import DEFAULT, L1_REFERENCE, read, write
from _worlds import JUMPS, KINDS, MORE_KINDS, OF_TWO, World, true_error

RESULTS = Path(__file__).parent / "results" / "accuracy.csv"
CLASSES = (2, 3, 10, 100)
#: Data sets per world, by the number of samples: of the default, and of everything else.
REPETITIONS = {300: 400, 1000: 400, 3000: 100, 10_000: 40, 30_000: 20}
OTHERS = {300: 100, 1000: 100, 3000: 40, 10_000: 20, 30_000: 10}  # half of ten and more classes
SLOW_REPETITIONS = 20  # of kernels and of our other smoothers
LARGEST_100 = 3000  # samples of 100 classes
LARGEST_MORE = 3000  # samples of the worlds that nothing was tuned on
FIELDS = (
    "classes",
    "kind",
    "samples",
    "target",
    "estimator",
    "ours",
    "repetitions",
    "truth",
    "bias",
    "rmse",
    "rmse_error",
    "default_rmse",
    "coverage",
    "width",
    "positive",
)


def worlds(classes=CLASSES, samples=tuple(REPETITIONS)):
    """All worlds of the study; none of 100 classes has more than `LARGEST_100` samples."""
    return [
        World(kind, k, n)
        for k in classes
        for n in samples
        for kind in KINDS | MORE_KINDS | JUMPS
        if (k < 100 or n <= LARGEST_100)
        and (kind not in JUMPS or ((k == 2) == (kind in OF_TWO) and (k < 10 or n <= 1000)))
        and (kind in KINDS or (k < 100 and n <= LARGEST_MORE))
        and (k == 2 or not kind.startswith("rare"))
    ]


def notions(world):
    """Top-label errors from three classes on, classwise errors of three and ten classes."""
    names = ["canonical"]
    if world.n_classes > 2:
        names.append("top_label")
    if world.n_classes in (3, 10):
        names.append("classwise")
    return names


def study(world, available, times=1, others=1):
    """Rows of one world; `times` multiplies all data sets, `others` those of other estimators."""
    found = {}
    repetitions = max(2, round(times * REPETITIONS[world.n_samples]))
    half = 0.5 if world.n_classes >= 10 else 1
    beside = max(2, round(times * others * half * OTHERS[world.n_samples]))
    for seed in range(repetitions):
        y, proba, _ = world.draw(seed)
        slow = seed < SLOW_REPETITIONS * times * others
        for notion in notions(world):
            for target, name, *numbers in ours(y, proba, notion, slow):
                found.setdefault((target, name, 1), {})[seed] = numbers
            if seed >= beside:
                continue
            targets = [f"{notion} {loss}" for loss in LOSSES[notion]]
            for target in targets + ["top_label l1"] * (notion == "top_label"):
                for name, value in peers(y, proba, target, available, slow):
                    own = int(name.startswith("calibration_error"))
                    found.setdefault((target, name, own), {})[seed] = (value, np.nan, np.nan)
    rows = []
    for (target, name, own), values in found.items():
        default = found.get((target, DEFAULT, 1), found.get((target, L1_REFERENCE, 1)))
        same = np.array([default[seed] for seed in values])
        rows.append(_row(world, target, name, own, np.array(list(values.values())), same))
    return rows


def _row(world, target, name, own, values, default):
    """Bias, errors and coverage, and the error of the default on the same data sets."""
    notion, loss = target.split()
    truth = true_error(world, loss, notion)
    miss = values[:, 0] - truth
    square = miss**2
    rmse = np.sqrt(square.mean())
    error = square.std() / np.sqrt(len(square)) / (2 * rmse) if rmse > 0 else 0.0
    same = np.sqrt(np.mean((default[:, 0] - truth) ** 2))
    numbers = [f"{x:.4g}" for x in (truth, miss.mean(), rmse, error, same)]
    low, high = values[:, 1:].T
    intervals = ["", "", ""]
    if not np.isnan(low).any():
        covers = (low <= truth * (1 + 1e-12)) & (truth <= high)
        intervals = f"{covers.mean():.3f}", f"{np.mean(high - low):.4g}", f"{np.mean(low > 0):.3f}"
    key = (world.n_classes, world.kind, world.n_samples, target, name, own, len(values))
    return dict(zip(FIELDS, (*key, *numbers, *intervals), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--summary", action="store_true", help="summarise the stored results")
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--samples", type=int, nargs="+", default=tuple(REPETITIONS))
    parser.add_argument("--times", type=float, default=1, help="multiply the repetitions")
    parser.add_argument("--others", type=float, default=1, help="multiply those of the others")
    parser.add_argument("--append", action="store_true", help="keep the worlds that are stored")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--kinds", nargs="+", help="only these kinds, with --default")
    parser.add_argument("--default", action="store_true", help="replace results of the default")
    options = parser.parse_args()
    if options.default:
        repeat_default(options.output, options.classes, options.kinds)
    elif not options.summary:
        run(options)
    write(options.output)


def run(options):
    """Study the worlds and store a row for each estimator and target as soon as it is known."""
    available = installed()
    print("packages:", ", ".join(f"{p} {v}" for p, v in available.items()) or "none", flush=True)
    warnings.simplefilter("ignore")
    options.output.parent.mkdir(exist_ok=True)
    stored = set()
    if options.append:
        stored = {key for worlds in read(options.output).values() for key in worlds}
    with options.output.open("a" if stored else "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not stored:
            writer.writeheader()
        for world in worlds(options.classes, options.samples):
            if (world.n_classes, world.kind, world.n_samples) in stored:
                continue
            writer.writerows(study(world, available, options.times, options.others))
            file.flush()
            print(world, flush=True)


def repeat_default(path, classes, kinds):
    """Replace the stored results of the default; the data sets of all others stay the same."""
    warnings.simplefilter("ignore")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in FIELDS[:3]), []).append(row)
    for (n_classes, kind, n_samples), own in groups.items():
        if int(n_classes) not in classes or (kinds and kind not in kinds):
            continue
        world, found = World(kind, int(n_classes), int(n_samples)), {}
        repetitions = max(int(row["repetitions"]) for row in own if row["estimator"] == DEFAULT)
        for seed in range(repetitions):
            y, proba, _ = world.draw(seed)
            for notion in notions(world):
                for target, _, *numbers in ours(y, proba, notion, slow=False):
                    found.setdefault(target, []).append(numbers)
        for row in own:
            if row["target"] not in found:
                continue
            values = np.array(found[row["target"]])
            if row["estimator"] == DEFAULT:
                row |= _row(world, row["target"], DEFAULT, 1, values, values)
            else:
                truth = float(row["truth"])
                same = values[: int(row["repetitions"]), 0] - truth
                row["default_rmse"] = f"{np.sqrt(np.mean(same**2)):.4g}"
        print(world, flush=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
