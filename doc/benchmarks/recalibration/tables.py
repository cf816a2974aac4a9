"""The tables of the guide, from the rows of ``results.csv``.

    python doc/benchmarks/recalibration/tables.py

They are those of the hold-out seeds if it has their rows, else those of development. The excess of
a method in a setting is its loss over the lowest of all methods, minus 1. An excess above 100 %,
and a failure, counts as 100 %.
"""

import csv
from collections import defaultdict
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
from methods import METHODS, OURS
from run import HEAD, read

FOLDER = Path(__file__).parent
LOSSES = ("log", "Brier")
NONE = "no recalibration"
CLOSE, HARM, WORST = 0.01, 0.005, 1.0
CLASSES = {"2": (2, 2), "3 to 5": (3, 5), "10, 12": (10, 12), "20 to 100": (20, 1000)}
SIZES = {"n <= 400": (0, 400), "n >= 800": (800, 10**9)}
NAMES = ("simulated", "classifiers", "shipped data", "networks", "CalArena")
TIERS = {str(tier): name for tier, name in enumerate(NAMES, 1)}


class Results:
    """Losses (2, settings, methods): nan where a method is not for the setting, inf: failed."""

    def __init__(self, rows):
        self.rows = rows
        names = dict.fromkeys(name for row in rows for name in row if name not in HEAD)
        self.names = [
            name for name in names if any(row.get(name) not in (None, "", "-") for row in rows)
        ]
        cells = [[_numbers(row.get(name) or "-") for name in self.names] for row in rows]
        numbers = np.array(cells).reshape(len(rows), len(self.names), 3)
        self.loss, self.seconds = numbers[:, :, :2].transpose(2, 0, 1), numbers[:, :, 2]
        ratio = self.loss / np.nanmin(self.loss, axis=2, keepdims=True)
        self.excess = np.minimum(ratio - 1, WORST)

    @property
    def first(self):
        """The method that others are compared with: the first of `METHODS` that was run."""
        return next(name for name in METHODS if name in self.names)

    def place(self, name):
        return self.names.index(name)

    def where(self, column, low, high):
        """Settings whose number in a column lies in a range."""
        return np.array([low <= int(row[column]) <= high for row in self.rows])


def _numbers(text):
    if text == "-":
        return [np.nan] * 3
    return [np.inf, np.inf, np.nan] if text == "failed" else [float(x) for x in text.split()]


def published():
    """The rows of the hold-out seeds, or of development."""
    rows = read()
    held_out = [row for row in rows if row["seeds"] == "holdout"]
    return Results(held_out or rows)


# --- tables: lists of dictionaries of text --------------------------------------------------------


def both(values, digits=1):
    """ "log / Brier" """
    return " / ".join(f"{value:.{digits}f}" for value in values)


def methods(results, chosen=None):
    """Every method over all settings, or over the chosen ones: the columns of the guide."""
    chosen = np.ones(len(results.rows), dtype=bool) if chosen is None else chosen
    none = results.loss[:, chosen, results.place(NONE)]
    first = results.excess[:, chosen, results.place(results.first)]
    table = []
    for name in results.names:
        k = results.place(name)
        loss, excess = results.loss[:, chosen, k], results.excess[:, chosen, k]
        judged = ~np.isnan(excess[0])
        if not judged.any():
            continue
        loss, excess = loss[:, judged], excess[:, judged]
        difference = 100 * (excess - first[:, judged])
        error = difference.std(axis=1) / np.sqrt(max(judged.sum() - 1, 1))
        pairs = zip(difference.mean(axis=1), error, strict=True)
        seconds = np.nanmedian(results.seconds[chosen, k]) if np.isfinite(loss[0]).any() else np.nan
        table.append(
            {
                "method": name,
                "settings": str(judged.sum()),
                "within 1 %": both(100 * (excess <= CLOSE).mean(axis=1), 0),
                "mean excess %": both(100 * excess.mean(axis=1), 2),
                "95th percentile": both(100 * np.quantile(excess, 0.95, axis=1)),
                "harm": both(100 * (loss > (1 + HARM) * none[:, judged]).mean(axis=1)),
                "failed": str(int(np.isinf(loss[0]).sum())),
                "more than the first": " / ".join(f"{m:+.2f} ± {e:.2f}" for m, e in pairs),
                "CPU s": "< .01" if seconds < 0.01 else f"{seconds:.2g}",
            }
        )
    head, *rest = table
    return [head, *sorted(rest, key=_mean_excess)]


def _mean_excess(row):
    return -int(row["settings"]), float(row["mean excess %"].split(" / ")[0])


def parts(results):
    """Name -> settings (mask) by number of classes, by number of samples, and by tier."""
    found = {f"K = {name}": results.where("K", *ends) for name, ends in CLASSES.items()}
    found |= {name: results.where("n", *ends) for name, ends in SIZES.items()}
    found |= {name: results.where("tier", int(tier), int(tier)) for tier, name in TIERS.items()}
    return {f"{name} ({mask.sum()})": mask for name, mask in found.items() if mask.any()}


def by_part(results, quantity, digits):
    """A quantity of the excess of each method in each part; nothing where it lacks settings."""
    table = []
    for name in results.names:
        row = {"method": name}
        for part, mask in parts(results).items():
            excess = results.excess[:, mask, results.place(name)]
            known = not np.isnan(excess).any()
            row[part] = both(100 * quantity(excess).mean(axis=1), digits) if known else ""
        table.append(row)
    return table


def lost_settings(results):
    """Settings in which the map of another package is better by more than 1 %."""
    return [
        {"tier": TIERS[row["tier"]], "setting": row["setting"]} | found
        for i, row in enumerate(results.rows)
        for found in _lost(results, results.loss[:, i])
    ]


def lost_groups(results):
    """Kinds of settings in which one map of another package is better by 1 % in the mean."""
    groups = defaultdict(list)
    for i, row in enumerate(results.rows):
        classes = next(k for k, (low, high) in CLASSES.items() if low <= int(row["K"]) <= high)
        groups[TIERS[row["tier"]], row["kind"], classes].append(i)
    return [
        {"tier": tier, "kind": kind, "K": classes, "settings": str(len(places))} | found
        for (tier, kind, classes), places in groups.items()
        for found in _lost(results, 1 + results.excess[:, places].mean(axis=1))
    ]


def _lost(results, loss):
    """The best peer for losses (2, methods), if it is better than our default by over 1 %."""
    peers = [k for k, name in enumerate(results.names) if name not in OURS]
    for j, which in enumerate(LOSSES):
        if not peers or np.isnan(loss[j, peers]).all():
            continue
        best = peers[np.nanargmin(loss[j, peers])]
        worse = loss[j, results.place(results.first)] / loss[j, best] - 1
        if worse > CLOSE:
            peer = results.names[best]
            yield {"loss": which, "worse by %": f"{100 * min(worse, WORST):.1f}", "than": peer}


def winners(results):
    """Name of the single map of lowest log loss in each setting, without stack and selection."""
    several = ("skcalib default", "skcalib selected", "skcalib model average")
    single = [k for k, name in enumerate(results.names) if name not in several]
    return [results.names[single[k]] for k in np.nanargmin(results.loss[0][:, single], axis=1)]


#: File name -> rows of the table.
TABLES = {
    "lost_groups": lost_groups,
    "lost_settings": lost_settings,
    "methods": methods,
    "methods_few": lambda results: methods(results, results.where("n", *SIZES["n <= 400"])),
    "methods_many": lambda results: methods(results, results.where("n", *SIZES["n >= 800"])),
    "excess": partial(by_part, quantity=lambda excess: excess, digits=2),
    "within": partial(by_part, quantity=lambda excess: excess <= CLOSE, digits=0),
}


def text(name, results):
    """A table as comma-separated values."""
    rows = TABLES[name](results)
    file = StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else ["none"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def main():
    """Write all tables."""
    results = published()
    for name in TABLES:
        (FOLDER / f"{name}.csv").write_text(text(name, results), encoding="utf-8")


if __name__ == "__main__":
    main()
