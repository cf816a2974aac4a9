"""Tiers 2 and 3: forecasts of scikit-learn's classifiers, on generated tasks and on shipped data.

Tier 2: a classifier is fitted to a generated task, and its forecasts of new samples are
recalibrated; 20,000 test samples. Tier 3: out-of-fold forecasts on data that ship with
scikit-learn, in repeated halves. The hold-out has other classifiers than the development.
"""

from functools import partial
from pathlib import Path

import numpy as np
from _setting import SEEDS, Setting, generator
from scipy.special import expit, softmax
from sklearn import datasets
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

N_TEST = 20_000
#: Name -> factory, which takes `random_state` where the classifier is random.
FAMILIES = {
    "logistic": partial(LogisticRegression, C=10.0, max_iter=500),
    "LDA": LinearDiscriminantAnalysis,
    "QDA": partial(QuadraticDiscriminantAnalysis, solver="eigen", shrinkage=0.01),
    "naive Bayes": GaussianNB,
    "kNN": partial(KNeighborsClassifier, 10),
    "tree": partial(DecisionTreeClassifier, min_samples_leaf=3),
    "forest": partial(RandomForestClassifier, 60, min_samples_leaf=2),
    "boosting": partial(HistGradientBoostingClassifier, max_iter=60, max_leaf_nodes=15),
    "AdaBoost": partial(AdaBoostClassifier, n_estimators=50),
    "MLP": partial(MLPClassifier, (40,), alpha=1e-5, max_iter=100, early_stopping=False),
    "SVC": SVC,  # softmax of its decision values
}
SIZES = (100, 200, 400, 1_000, 2_000, 5_000)
#: Families on shipped data.
SHIPPED = {
    "dev": ("logistic", "naive Bayes", "forest", "kNN"),
    "holdout": ("LDA", "boosting", "AdaBoost", "MLP"),
}
N_REPEATS = 4


def make(family, seed):
    """The classifier, on standardised features."""
    model = FAMILIES[family]()
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    return make_pipeline(StandardScaler(), model)


def forecast(model, features):
    """Probabilities; the softmax of decision values where the classifier has none."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(features).astype(float)
    return from_decision(model.decision_function(features))


def from_decision(values):
    """Probabilities of decision values (n,) or (n, K)."""
    if values.ndim == 1:
        return np.column_stack([expit(-values), expit(values)])
    return softmax(values, axis=1)


# --- tier 2 ---------------------------------------------------------------------------------------


def tasks():
    """Family, K and n of every setting: two sizes for each family and number of classes."""
    for i, family in enumerate(FAMILIES):
        for k, n_classes in enumerate((2, 3, 10)):
            for j in (0, 3):
                yield family, n_classes, SIZES[(i + k + j) % 6]


def task(seeds, family, n_classes, n_samples, cache=None):
    """Forecasts of a fitted classifier on samples that it has not seen."""
    name = f"{family}, K = {n_classes}, n = {n_samples}"
    data = _cached(cache, f"{seeds} {name}", _fit, seeds, name, family, n_classes, n_samples)
    return Setting(name, 2, family, n_classes, n_samples, *data)


def _fit(seeds, name, family, n_classes, n_samples):
    rng = generator(seeds, name)
    n_train = int(rng.choice([300, 1_000, 3_000] if n_classes < 10 else [1_000, 3_000]))
    n_informative = int(rng.integers(4 if n_classes < 10 else 6, 12))
    features, labels = datasets.make_classification(
        n_train + n_samples + N_TEST,
        n_features=n_informative + int(rng.integers(4, 12)),
        n_informative=n_informative,
        n_redundant=int(rng.integers(0, 4)),
        n_classes=n_classes,
        n_clusters_per_class=int(rng.integers(1, 4)),
        weights=rng.dirichlet(np.full(n_classes, 8.0)) if rng.random() < 0.5 else None,
        flip_y=float(rng.choice([0, 0.02, 0.1])),
        class_sep=float(rng.uniform(0.5, 1.6)),
        random_state=int(rng.integers(2**31)),
    )
    seed = int(rng.integers(2**31))
    model = make(family, seed).fit(features[:n_train], labels[:n_train])
    proba = forecast(model, features[n_train:])
    rest = labels[n_train:]
    return proba[:n_samples], rest[:n_samples], proba[n_samples:], rest[n_samples:]


def _cached(cache, name, make_arrays, *arguments):
    """Arrays that a function makes, kept in a folder if one is given."""
    if cache is None:
        return make_arrays(*arguments)
    path = Path(cache) / (name.replace(" ", "_").replace(",", "") + ".npz")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, *make_arrays(*arguments))
    with np.load(path) as file:
        return [file[key] for key in file.files]


# --- tier 3 ---------------------------------------------------------------------------------------

DATA = {
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
}


def shipped(seeds, data, family, cache=None):
    """Halves of the out-of-fold forecasts of shipped data: one calibrates, the other one tests."""
    name = f"{data}, {family}"
    proba, labels = _cached(cache, f"{seeds} {name}", _out_of_fold, seeds, data, family)
    for repeat in range(N_REPEATS):
        first, second = train_test_split(
            np.arange(len(labels)),
            test_size=0.5,
            stratify=labels,
            random_state=100 * SEEDS[seeds] + repeat,
        )
        head = name, 3, data, proba.shape[1], len(first)
        yield Setting(*head, proba[first], labels[first], proba[second], labels[second])


def _out_of_fold(seeds, data, family):
    features, labels = DATA[data](return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=SEEDS[seeds])
    model = make(family, SEEDS[seeds])
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    values = cross_val_predict(model, features, labels, cv=folds, method=method)
    return (values if method == "predict_proba" else from_decision(values)), labels
