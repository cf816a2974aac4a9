"""Is a model that is chosen by its refinement better than one chosen by its loss?

Thirty data sets: four that come with scikit-learn, and 26 of its generators. Three families of
models: stages of gradient boosting, regularisation of logistic regression, and epochs of a network.
Each is fitted to a training set. A validation set chooses one model of the family, by the loss or
by an estimate of the refinement, and fits a map to it. The loss of the recalibrated forecasts is
measured on test samples: 10,000 of the generators, three tenths of the others. There, one uniform
forecast is mixed with as many forecasts as there are validation samples, so that it is finite.

``refinement.csv`` has a row for each data set, family, loss and rule: the mean test loss of the
chosen models over the repetitions, as they are and after two maps. ``refinement_gain.csv`` has the
mean gain over choosing by the loss, in per cent, with its standard error over data sets, and for
how many of them the loss is better or worse by .1 % or more.

    python doc/studies/refinement.py --jobs 2                    # ten minutes of processor time
    python doc/studies/refinement.py --sets moons --repetitions 1 --output /tmp
"""

import argparse
import csv
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import TemperatureScaling, refinement_loss
from skcalib.recalibration import ModelAverageScaling
from skcalib.scorers import RefinementScorer
from skcalib.scores import Brier, LogLoss

RESULTS = Path(__file__).parent / "results"
N_TRAIN, N_VALIDATION, N_TEST = 800, 500, 10_000
LOSSES = {"log": LogLoss(), "brier": Brier()}


# --- data sets ------------------------------------------------------------------------------------


def _mixture(n_classes, n_features, n_informative, clusters, separation, flipped, weights=None):
    return partial(
        datasets.make_classification, n_features=n_features, n_informative=n_informative,
        n_redundant=0, n_classes=n_classes, n_clusters_per_class=clusters, class_sep=separation,
        flip_y=flipped, weights=weights,
    )  # fmt: skip


SHIPPED = {
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}
#: Classes, features, informative ones, clusters of a class, separation, flipped labels, weights.
MIXTURES = [
    *((2, 20, 5, 4, 1.0, flipped) for flipped in (0, 0.1, 0.3)),
    *((2, 40, 10, 8, separation, 0.02) for separation in (0.5, 1.0, 2.0)),
    *((2, 10, 4, 2, 0.7, 0.05, [share]) for share in (0.7, 0.9)),
    *((2, features, 8, 2, 0.8, 0.1) for features in (8, 100)),
    *((3, 20, 6, 3, 1.0, flipped) for flipped in (0, 0.2)),
    *((3, 60, 8, 4, separation, 0.05) for separation in (0.6, 1.5)),
    (3, 15, 5, 2, 0.8, 0.05, [0.6, 0.3]),
    *((5, 30, 10, 2, separation, 0.05) for separation in (0.7, 1.5)),
    (5, 20, 8, 4, 1.0, 0),
    (8, 30, 12, 1, 1.0, 0.1),
]
GENERATED = {
    **{"mixture " + ", ".join(map(str, one)): _mixture(*one) for one in MIXTURES},
    "moons": partial(datasets.make_moons, noise=0.35),
    "circles": partial(datasets.make_circles, noise=0.2, factor=0.6),
    "Hastie": datasets.make_hastie_10_2,
    **{
        f"quantiles, K = {k}, {d} features": partial(
            datasets.make_gaussian_quantiles, n_features=d, n_classes=k
        )
        for k, d in ((2, 5), (3, 4), (4, 3))
    },
    "blobs": partial(datasets.make_blobs, n_features=5, centers=4, cluster_std=6.0),
}
SETS = [*SHIPPED, *GENERATED]


def draw(name, seed):
    """(X, y) of training, validation and test samples."""
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        sizes = int(0.4 * len(y)), int(0.3 * len(y))
    else:
        n_samples = N_TRAIN + N_VALIDATION + N_TEST
        X, y = GENERATED[name](n_samples=n_samples, random_state=seed)
        sizes = N_TRAIN, N_VALIDATION
    y = np.unique(y, return_inverse=True)[1]
    X, X_rest, y, y_rest = train_test_split(
        X, y, train_size=sizes[0], stratify=y, random_state=seed
    )
    return (X, y), *_halves(X_rest, y_rest, sizes[1], seed)


def _halves(X, y, size, seed):
    first, second, y_first, y_second = train_test_split(
        X, y, train_size=size, stratify=y, random_state=seed
    )
    return (first, y_first), (second, y_second)


# --- families -------------------------------------------------------------------------------------


def boosting(X, y, samples, seed):
    """Forecasts after 18 numbers of stages between 1 and 150."""
    model = HistGradientBoostingClassifier(
        learning_rate=0.1, max_iter=150, early_stopping=False, random_state=seed
    ).fit(X, y)
    kept = set(np.round(np.geomspace(1, 150, 20)).astype(int) - 1)
    stages = zip(*(model.staged_predict_proba(one) for one in samples), strict=True)
    return [pair for stage, pair in enumerate(stages) if stage in kept]


def logistic(X, y, samples, seed):
    """Forecasts of 13 strengths of the penalty."""
    models = (
        make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=2000)).fit(X, y)
        for C in np.logspace(-4, 4, 13)
    )
    return [[model.predict_proba(one) for one in samples] for model in models]


def network(X, y, samples, seed):
    """Forecasts after every third of 60 epochs."""
    scaler = StandardScaler().fit(X)
    X, samples = scaler.transform(X), [scaler.transform(one) for one in samples]
    model = MLPClassifier(
        100, learning_rate_init=2e-3, batch_size=min(64, len(X)), random_state=seed
    )
    path = []
    for epoch in range(1, 61):
        model.partial_fit(X, y, classes=np.unique(y))
        if epoch % 3 == 0:
            path.append([model.predict_proba(one) for one in samples])
    return path


FAMILIES = {"boosting": boosting, "logistic regression": logistic, "network": network}


# --- rules and maps -------------------------------------------------------------------------------


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its forecasts of the classes 0 to K - 1."""

    def __init__(self, n_classes):
        self.classes_ = np.arange(n_classes)

    def predict_proba(self, X):
        return X


def mean_loss(y, proba, loss):
    """Mean loss of forecasts of the classes 0 to K - 1."""
    return float(LOSSES[loss].loss(np.eye(proba.shape[1])[y], proba).mean())


def held_out(y, proba, loss, recalibrator):
    """Mean loss after a cross-fitted map."""
    return -RefinementScorer(loss, recalibrator)(Given(proba.shape[1]), proba, y)


#: What the validation samples minimise.
RULES = {
    "loss": mean_loss,
    "averaged maps, five folds": partial(held_out, recalibrator=ModelAverageScaling()),
    "temperature, five folds": partial(held_out, recalibrator=TemperatureScaling()),
    "averaged maps, no folds": refinement_loss,
}
MAPS = {"average": ModelAverageScaling, "temperature": TemperatureScaling}


def softened(proba, n_samples):
    """Forecasts mixed with one uniform forecast, which keeps the log loss finite."""
    return (n_samples * proba + 1 / proba.shape[1]) / (n_samples + 1)


def compare(name, family, seed):
    """For each loss and rule: the model chosen, and its test losses."""
    (X, y), (X_val, y_val), (X_test, y_test) = draw(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = FAMILIES[family](X, y, (X_val, X_test), seed)
        rows = []
        for loss in LOSSES:
            for rule, criterion in RULES.items():
                values = [criterion(y_val, proba, loss=loss) for proba, _ in path]
                chosen = int(np.argmin(values))
                validation, test = path[chosen]
                maps = {key: kind().fit(validation, y_val) for key, kind in MAPS.items()}
                after = {key: one.predict_proba(test) for key, one in maps.items()}
                losses = {
                    key: mean_loss(y_test, softened(proba, len(y_val)), loss)
                    for key, proba in {"as it is": test, **after}.items()
                }
                model = {"data": name, "family": family, "loss": loss, "rule": rule}
                rows.append({**model, "position": chosen / (len(path) - 1), **losses})
    return rows


# --- tables ---------------------------------------------------------------------------------------

KEYS, VALUES = ("data", "family", "loss", "rule"), ("position", "as it is", *MAPS)


def means(rows):
    """Means over the repetitions of each data set, family, loss and rule."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    return [
        dict(zip(KEYS, key, strict=True))
        | {value: float(f"{np.mean([row[value] for row in group]):.5g}") for value in VALUES}
        for key, group in groups.items()
    ]


def gains(rows):
    """Mean gain of each rule over the loss in per cent, and its standard error over data sets."""
    of = {tuple(row[key] for key in KEYS): row for row in rows}
    given = list(dict.fromkeys(row["data"] for row in rows))
    families = list(dict.fromkeys(row["family"] for row in rows))
    groups = {"all": given, "generated": [name for name in given if name in GENERATED]}
    rules = [rule for rule in RULES if rule != "loss"]
    table = []
    for loss, after, rule, group in product(LOSSES, MAPS, rules, groups):
        if not groups[group]:
            continue

        def gain(name, family, keys=(loss, rule), after=after):
            ours, theirs = (of[name, family, keys[0], r][after] for r in (keys[1], "loss"))
            return 100 * (1 - ours / theirs)

        every = np.array([[gain(name, family) for name in groups[group]] for family in families])
        for family, values in zip(("all", *families), (every.mean(axis=0), *every), strict=True):
            row = {"loss": loss, "map": after, "rule": rule, "family": family, "sets": group}
            spread = values.std(ddof=1) if len(values) > 1 else np.inf
            row["gain in per cent"] = f"{values.mean():.2f}"
            row["standard error"] = f"{spread / len(values) ** 0.5:.2f}"
            row["better"], row["worse"] = int((values > 0.1).sum()), int((values < -0.1).sum())
            table.append(row)
    return table


def write(path, rows):
    """Rows as a table with a header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main(arguments=None):
    """Write both tables, and print the second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--families", nargs="+", default=[*FAMILIES], choices=FAMILIES)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    tasks = [
        (name, family, seed)
        for name in options.sets
        for family in options.families
        for seed in range(options.repetitions)
    ]
    found = Parallel(n_jobs=options.jobs, verbose=5)(delayed(compare)(*task) for task in tasks)
    rows = means([row for part in found for row in part])
    table = gains(rows)
    write(options.output / "refinement.csv", rows)
    write(options.output / "refinement_gain.csv", table)
    for row in table:
        print(*row.values(), sep=", ")


if __name__ == "__main__":
    main()
