"""Corrections by features against other packages: held-out loss, worst group and time.

`GroupRecalibrator` corrects forecasts by features with the model that measures the grouping loss.
Here it is compared with MCGrad (multicalibration by boosting, Tax and others, KDD 2026) and with
CatBoost on the score and the features, on ten simulated settings whose E[Y|X] is known, and on four
data sets of scikit-learn. The loss is the held-out log loss, in simulations that of labels with the
probabilities E[Y|X]; "excess" is the divergence from E[Y|X]. The group error is the largest
difference between mean forecast and mean E[Y|X], or label, over groups of at least a twentieth of
the samples: quarters of each feature, and categories.

    pip install mcgrad catboost
    python doc/studies/field_of_features.py                 # about a quarter of an hour
"""

import argparse
import csv
import time
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from _interval_tables import write, write_as_found
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib.recalibration import GroupRecalibrator

RESULTS = Path(__file__).parent / "results" / "field_of_features.csv"
FIELDS = ("setting", "classes", "samples", "seed", "method", "loss", "excess", "group", "seconds")
_TEST = 20_000
_LEAST_SHARE = 0.05


# --- Settings: forecasts S, features X and posteriors Q -------------------------------------------


def _features(rng, n_samples, n_features=8):
    return rng.normal(size=(n_samples, n_features))


def _moved(s, x):
    """Posteriors of two classes: log odds of s moved by x, and forecasts that average over x."""
    return _two(expit(np.log(s / (1 - s)) + x))


def _two(event):
    return np.column_stack([1 - event, event])


def nothing(rng, n):
    """Calibrated in every group."""
    X, s = _features(rng, n), rng.beta(1, 2, n)
    return _two(s), X, _two(s)


def one_group(rng, n):
    """A tenth of the samples has odds that are three times as high."""
    X, s = _features(rng, n), rng.beta(1, 2, n)
    X[:, 0] = rng.random(n) < 0.1
    return _two(s), X, _moved(s, np.log(3) * X[:, 0])


def linear(rng, n):
    """Log odds that the forecast lacks, linear in eight features."""
    X, s = _features(rng, n), rng.beta(2, 2, n)
    return _two(s), X, _moved(s, X @ np.linspace(-0.5, 0.5, 8))


def product(rng, n):
    """A product of two features."""
    X, s = _features(rng, n), rng.beta(2, 2, n)
    return _two(s), X, _moved(s, 0.9 * X[:, 0] * X[:, 1])


def threshold(rng, n):
    """Steps in two features."""
    X, s = _features(rng, n), rng.beta(2, 2, n)
    return _two(s), X, _moved(s, 0.8 * (2.0 * (X[:, 0] > 0.5) - 1) * (X[:, 1] > -0.5))


def categories(rng, n):
    """Forty categories with effects of their own."""
    effect = np.random.default_rng(40).normal(scale=0.6, size=40)
    X, s = _features(rng, n, 4), rng.beta(2, 2, n)
    X[:, 0] = rng.integers(0, 40, n)
    return _two(s), X, _moved(s, effect[X[:, 0].astype(int)])


def many_features(rng, n):
    """Three of sixty features matter."""
    X, s = _features(rng, n, 60), rng.beta(2, 2, n)
    return _two(s), X, _moved(s, 0.6 * X[:, :3].sum(axis=1))


def rare(rng, n):
    """Two per cent of events, twice as many or half as many by a feature."""
    X = _features(rng, n)
    s = expit(-4.4 + rng.normal(scale=0.8, size=n))
    return _two(s), X, _moved(s, np.log(2) * np.sign(X[:, 0]))


def overconfident(rng, n):
    """Logits of the forecast are too large by one half, and a feature is missing."""
    X, s = _features(rng, n), rng.beta(2, 2, n)
    true = _moved(s, 0.5 * X[:, 0])
    return softmax(1.5 * np.log(_two(s)), axis=1), X, true


def three_classes(rng, n):
    """Two hidden posteriors of three classes; a noisy feature tells which."""
    X, tilt = _features(rng, n), np.array([1.2, -0.4, -0.8])
    side = np.sign(X[:, 0])[:, None]
    logits = rng.normal(size=(n, 3))
    both = [softmax(logits + sign * tilt, axis=1) for sign in (-1, 1)]
    X[:, 0] += 0.3 * rng.normal(size=n)
    return sum(both) / 2, X, np.where(side > 0, both[1], both[0])


SETTINGS = (nothing, one_group, linear, product, threshold)
SETTINGS += (categories, many_features, rare, overconfident, three_classes)


def _diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X, (y > np.median(y)).astype(int)


REAL = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "diabetes": _diabetes,
}


# --- Methods: training and test data -> forecasts -------------------------------------------------


def plain(forecast, X, y, new_forecast, new_X, seed):
    return new_forecast


def ours(forecast, X, y, new_forecast, new_X, seed):
    fitted = GroupRecalibrator().fit(forecast, y, features=X)
    return fitted.predict_proba(new_forecast, features=new_X)


def mcgrad(forecast, X, y, new_forecast, new_X, seed):
    """One model for each class but the first of two; probabilities are divided by their sum."""
    from mcgrad.methods import MCGrad

    names = [f"x{k}" for k in range(X.shape[1])]
    found = []
    n_classes = forecast.shape[1]
    for k in [1] if n_classes == 2 else range(n_classes):
        train, test = (pd.DataFrame(one, columns=names) for one in (X, new_X))
        train["p"], test["p"], train["y"] = forecast[:, k], new_forecast[:, k], y == k
        model = MCGrad(random_state=seed)
        model.fit(train.astype(float), "p", "y", numerical_feature_column_names=names)
        found.append(model.predict(test, "p", numerical_feature_column_names=names))
    found = np.clip(np.column_stack(found), 1e-6, 1 - 1e-6)
    return _two(found[:, 0]) if n_classes == 2 else found / found.sum(axis=1, keepdims=True)


def catboost(forecast, X, y, new_forecast, new_X, seed):
    """Defaults, with early stopping on a fifth of the samples."""
    from catboost import CatBoostClassifier

    logits, new_logits = (np.log(np.maximum(p, 1e-9))[:, 1:] for p in (forecast, new_forecast))
    first = np.log(np.maximum(forecast, 1e-9))[:, :1], np.log(np.maximum(new_forecast, 1e-9))[:, :1]
    table, new_table = np.hstack([logits - first[0], X]), np.hstack([new_logits - first[1], new_X])
    rows, stop = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    loss = "Logloss" if forecast.shape[1] == 2 else "MultiClass"
    options = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = CatBoostClassifier(loss_function=loss, random_seed=seed, **options)
    held_out = table[stop], y[stop]
    model.fit(table[rows], y[rows], eval_set=held_out, early_stopping_rounds=50)
    return model.predict_proba(new_table)


METHODS = {"none": plain, "skcalib": ours, "MCGrad": mcgrad, "CatBoost": catboost}


# --- Measures -------------------------------------------------------------------------------------


def group_error(proba, truth, X):
    """Largest difference of means over groups of at least a twentieth of the samples."""
    worst = 0.0
    for column in X.T:
        values = np.unique(column)
        if len(values) > 40:
            column = np.searchsorted(np.quantile(column, [0.25, 0.5, 0.75]), column)
            values = np.unique(column)
        for value in values:
            rows = column == value
            if rows.mean() >= _LEAST_SHARE / (2 if len(values) > 20 else 1):
                worst = max(worst, np.abs((proba[rows] - truth[rows]).mean(axis=0)).max())
    return worst


def evaluate(train, test, truth, name, n_classes, seed):
    """A row for each method; `truth` are posteriors or one-hot labels of the test samples."""
    forecast, X, y = train
    new_forecast, new_X = test
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(truth > 0, truth * np.log(truth), 0).sum(axis=1)
    for method, predict in METHODS.items():
        start = time.process_time()
        proba = np.clip(predict(forecast, X, y, new_forecast, new_X, seed), 1e-9, 1)
        seconds = time.process_time() - start
        loss = float(-np.mean(np.sum(truth * np.log(proba), axis=1)))
        numbers = loss, loss + entropy.mean(), group_error(proba, truth, new_X), seconds
        key = name, n_classes, len(y), seed, method
        yield dict(zip(FIELDS, (*key, *(f"{x:.5g}" for x in numbers)), strict=True))


def rows_of_setting(setting, n_samples, seed, n_test=_TEST):
    rng = np.random.default_rng([seed, len(setting.__name__)])
    forecast, X, truth = setting(rng, n_samples + n_test)
    level = rng.random((len(truth), 1))
    y = np.minimum((truth.cumsum(axis=1) < level).sum(axis=1), truth.shape[1] - 1)
    a, b = slice(n_samples), slice(n_samples, None)
    name = setting.__name__.replace("_", " ")
    train, test = (forecast[a], X[a], y[a]), (forecast[b], X[b])
    yield from evaluate(train, test, truth[b], name, truth.shape[1], seed)


def rows_of_data(name, seed):
    """A third each for the classifier, the corrections and the evaluation."""
    X, y = REAL[name]()
    parts = {"stratify": y, "test_size": 2 / 3, "random_state": seed}
    first, rest, y_first, y_rest = train_test_split(X, y, **parts)
    parts = {"stratify": y_rest, "test_size": 0.5, "random_state": seed}
    X_fit, X_test, y_fit, y_test = train_test_split(rest, y_rest, **parts)
    few = max(2, X.shape[1] // 3)  # a classifier that sees a third of the features
    regression = LogisticRegression(max_iter=1000)
    model = GaussianNB() if seed % 2 else make_pipeline(StandardScaler(), regression)
    model.fit(first[:, :few], y_first)
    forecast, new_forecast = (
        np.clip(model.predict_proba(one[:, :few]), 1e-6, 1) for one in (X_fit, X_test)
    )
    forecast, new_forecast = (p / p.sum(axis=1, keepdims=True) for p in (forecast, new_forecast))
    n_classes = forecast.shape[1]
    truth = np.eye(n_classes)[y_test]
    train, test = (forecast, X_fit, y_fit), (new_forecast, X_test)
    yield from evaluate(train, test, truth, name, n_classes, seed)


def write_table(results):
    """Means over seeds for each setting, of losses and worst groups, beside the results."""
    with results.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    head = ["setting", "n", *METHODS, *(f"group: {method}" for method in METHODS)]
    lines = []
    for name, n in dict.fromkeys((row["setting"], row["samples"]) for row in rows):
        own = [row for row in rows if (row["setting"], row["samples"]) == (name, n)]
        found = {
            (column, method): np.mean([float(r[column]) for r in own if r["method"] == method])
            for column in ("loss", "group")
            for method in METHODS
        }
        line = [name, f"{int(n):,}", *(f"{found['loss', m]:.4f}" for m in METHODS)]
        lines.append(line + [f"{found['group', m]:.3f}" for m in METHODS])
    write(results, "table", [head, *lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, nargs="+", default=(1000, 4000))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = []
    for seed in range(options.seeds):
        runs += [rows_of_setting(s, n, seed) for n in options.samples for s in SETTINGS]
        runs += [rows_of_data(name, seed) for name in REAL]
    write_as_found(options.output, FIELDS, chain.from_iterable(runs))
    write_table(options.output)


if __name__ == "__main__":
    main()
