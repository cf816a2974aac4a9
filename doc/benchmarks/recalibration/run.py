"""Which recalibration map is the best, over worlds, classifiers and shipped data?

    python doc/benchmarks/recalibration/run.py --cache FOLDER              # development seeds
    python doc/benchmarks/recalibration/run.py --seeds holdout             # once for a release
    python doc/benchmarks/recalibration/run.py --methods "skcalib default" "betacal" --tiers 1
    python doc/benchmarks/recalibration/run.py --data FOLDER --calarena FOLDER --output FILE

Every method is fitted to the calibration forecasts of every setting and judged on its test
forecasts. Rows go to ``results.csv``, a row for each setting and a column for each method; methods
that were not run keep their column. With ``--resume``, only the cells that are missing are run.
``tables.py`` writes the tables of the guide from it.
"""

import argparse
import csv
import signal
import time
import warnings
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from _setting import SEEDS, losses
from folders import calarena, networks
from joblib import Parallel, delayed
from methods import METHODS, TwoClassesOnly
from settings import settings

RESULTS = Path(__file__).parent / "results.csv"
HEAD = ("seeds", "tier", "kind", "setting", "K", "n")
#: Seconds of CPU time after which a method has failed.
LIMIT = 60


def evaluate(make, setting):
    """Log loss, Brier score, CPU seconds of a method; None if it fails, "-" if not for this K."""
    start = time.process_time()
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT, 1)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            fitted = make()
            fitted.fit(setting.y_proba.copy(), setting.y_true.copy())
            proba = np.asarray(fitted.predict_proba(setting.test_proba.copy()), dtype=float)
    except TwoClassesOnly:
        return "-"
    except Exception:  # whatever it is, the user has no forecast
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    seconds = time.process_time() - start
    sums = proba.sum(axis=1) if proba.shape == setting.test_proba.shape else np.zeros(1)
    if not (np.all(np.abs(sums - 1) < 1e-3) and proba.min() >= -1e-6):
        return None
    proba = np.maximum(proba, 0)
    return *losses(setting.target, proba / proba.sum(axis=1, keepdims=True)), seconds


def _stop(signal_number, frame):
    raise TimeoutError


def evaluate_all(setting, names):
    """Head and results of every method of one setting."""
    head = (setting.tier, setting.kind, setting.name, setting.n_classes, setting.n_samples)
    return head, {name: evaluate(METHODS[name], setting) for name in names}


def cell(found):
    """Text of the results of all repetitions: the means, "failed" if one failed, or "-"."""
    if "-" in found:
        return "-"
    if None in found:
        return "failed"
    log, brier, seconds = np.mean(found, axis=0)
    return f"{log:.5g} {brier:.5g} {seconds:.2g}"


def installed(names):
    """The methods whose package is there; the others are printed."""
    found = []
    for name in names:
        try:
            METHODS[name]()
            found.append(name)
        except (ImportError, AttributeError) as error:
            print(f"skipped: {name} ({error})", flush=True)
    return found


def read(path=RESULTS):
    """All rows, as dictionaries of text."""
    if not Path(path).exists():
        return []
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    """The rows by seeds and tier, the methods in that of `METHODS`; others come last."""
    known = dict.fromkeys(name for row in rows for name in row if name not in HEAD)
    names = [name for name in METHODS if name in known]
    names += [name for name in known if name not in METHODS]
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*HEAD, *names], lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["seeds"], row["tier"])))


def run(tasks, seeds, n_jobs=1):
    """Yield the row of each setting, from pairs (setting, names); repeated splits are one row."""
    every = Parallel(n_jobs, return_as="generator", pre_dispatch=2 * n_jobs)(
        delayed(evaluate_all)(*task) for task in tasks
    )
    for head, repeats in groupby(every, key=itemgetter(0)):
        found = [results for _, results in repeats]
        cells = {name: cell([results[name] for results in found]) for name in found[0]}
        yield dict(zip(HEAD, (seeds, *map(str, head)), strict=True)) | cells


def key(row):
    """What names a setting."""
    return row["seeds"], row["tier"], row["setting"]


def merged(old, new):
    """Old rows with new columns; settings that are new come last."""
    rows = {key(row): dict(row) for row in old}
    for row in new:
        rows.setdefault(key(row), {}).update(row)
    return list(rows.values())


def main(arguments=None):
    """Run, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", choices=SEEDS, default="dev")
    parser.add_argument("--tiers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--cache", metavar="FOLDER", help="keeps the classifiers' forecasts")
    parser.add_argument("--data", metavar="FOLDER", help="networks: files *.npz")
    parser.add_argument("--calarena", metavar="FOLDER", help="CalArena's files *.h5")
    parser.add_argument("--resume", action="store_true", help="only what the output lacks")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    names = installed(given.methods)

    rows = read(given.output)
    known = {key(row): row for row in rows} if given.resume else {}

    def chosen():
        yield from settings(given.seeds, cache=given.cache, tiers=given.tiers)
        if given.data:
            yield from networks(given.seeds, given.data)
        if given.calarena:
            yield from calarena(given.calarena)

    def tasks():
        for one in chosen():
            row = known.get((given.seeds, str(one.tier), one.name), {})
            missing = [name for name in names if not row.get(name)]
            if missing:
                yield one, missing

    for row in run(tasks(), given.seeds, given.jobs):
        print(*(row[name] for name in HEAD), sep="; ", flush=True)
        rows = merged(rows, [row])
        write(given.output, rows)


if __name__ == "__main__":
    main()
