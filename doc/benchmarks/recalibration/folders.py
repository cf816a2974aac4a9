"""Settings from files that the project does not have: networks (tier 4) and CalArena (tier 5).

Networks are files ``*.npz`` with probabilities ``predictions`` (n, K) and labels ``ground_truth``.
CalArena (Berta et al. 2026) is the folder of its repository, with its ``*.h5`` files beside their
lists ``*-experiments.csv`` in ``calibration_benchmarks``. Nothing is downloaded.

    python doc/benchmarks/recalibration/folders.py CALARENA

prints the means of its published rows beside those of ``results.csv``.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from _setting import Setting, generator

NETWORK_SIZES = (400, 1_000, 5_000)
N_REPEATS = 2


def networks(seeds, folder):
    """Random parts of the forecasts of every file: one calibrates, all others test."""
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as file:
            proba, labels = file["predictions"].astype(float), file["ground_truth"].astype(int)
        proba /= proba.sum(axis=1, keepdims=True)
        for n_samples in NETWORK_SIZES:
            name = f"{path.stem}, n = {n_samples}"
            for repeat in range(N_REPEATS):
                order = generator(seeds, name, repeat).permutation(len(labels))
                first, second = order[:n_samples], order[n_samples:]
                head = name, 4, path.stem, proba.shape[1], n_samples
                yield Setting(*head, proba[first], labels[first], proba[second], labels[second])


def calarena(folder):
    """All experiments of CalArena's files that are there; this needs h5py."""
    import h5py

    for path in sorted((Path(folder) / "calibration_benchmarks").glob("*.h5")):
        with h5py.File(path) as file:
            for row in _rows(path.with_name(f"{path.stem}-experiments.csv")):
                group = file[f"{row['dataset']}/{row['model']}"]
                names = ("probas_cal", "labels_cal", "probas_test", "labels_test")
                proba, labels, test_proba, test_labels = (group[name][:] for name in names)
                proba, test_proba = _all_classes(proba), _all_classes(test_proba)
                name = f"{path.stem}, {row['dataset']}, {row['model']}"
                yield Setting(
                    *(name, 5, path.stem, proba.shape[1], len(proba)),
                    *(proba, labels.astype(int), test_proba, test_labels.astype(int)),
                )


def published(folder):
    """{experiment: {method: (log loss, Brier score)}} of the rows that CalArena publishes."""
    found = {}
    for path in sorted((Path(folder) / "results").glob("*/*.csv")):
        method = path.stem
        for row in _rows(path):
            name = f"{path.parent.name}, {row['dataset']}, {row['model']}"
            both = row[f"{method}_logloss"], row[f"{method}_brier"]
            found.setdefault(name, {})[method] = tuple(map(float, both))
    return found


def _rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _all_classes(proba):
    """Probabilities (n, K), of class 1 alone in some files."""
    proba = np.asarray(proba, dtype=float).reshape(len(proba), -1)
    proba = np.column_stack([1 - proba, proba]) if proba.shape[1] == 1 else proba
    return proba / proba.sum(axis=1, keepdims=True)


def main():
    """Mean losses on the experiments that all methods of a benchmark have."""
    from run import read

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="CalArena's repository")
    theirs = published(parser.parse_args().folder)
    ours = {row["setting"]: row for row in read() if row["tier"] == "5"}
    for benchmark in sorted({name.partition(",")[0] for name in theirs}):
        rows = {name: dict(row) for name, row in theirs.items() if name.startswith(benchmark + ",")}
        for name, row in rows.items():
            for method, text in ours.get(name, {}).items():
                if len(text.split()) == 3 and method.startswith("skcalib"):
                    row[method] = tuple(map(float, text.split()[:2]))
        methods = sorted({method for row in rows.values() for method in row})
        print(f"\n{benchmark}: {len(rows)} experiments; log loss, Brier score")
        for method in methods:
            known = [row[method] for row in rows.values() if method in row]
            means = "  ".join(f"{mean:.5f}" for mean in np.mean(known, axis=0))
            print(f"{method:32s}{means}  ({len(known)})")


if __name__ == "__main__":
    main()
