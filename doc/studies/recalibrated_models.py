"""Do recalibrated models keep a grouping loss?

L23 shows for networks that recalibration removes the calibration error and leaves the grouping
loss. Here six families of models are fitted to data that come with scikit-learn and to a simulation
of land cover, alone and recalibrated (`RecalibratedClassifierCV`). One half of the samples fits the
model and its map, the other half evaluates both. For each of several divisions: accuracy, mean
loss, calibration error and grouping loss by the Brier score, with their intervals.

    python doc/studies/recalibrated_models.py                 # about ten minutes on one core
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from _interval_tables import write_as_found
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import CalibrationErrorEstimator, GroupingLossEstimator, RecalibratedClassifierCV

RESULTS = Path(__file__).parent / "results" / "recalibrated_models.csv"
FIELDS = ("data", "model", "recalibrated", "division", "accuracy", "loss", "calibration")
FIELDS += ("calibration_low", "calibration_high", "grouping", "grouping_low", "pvalue")
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "naive Bayes": GaussianNB(var_smoothing=1e-3),
    "nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
    "random forest": RandomForestClassifier(200, min_samples_leaf=2, random_state=0),
    "boosted trees": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    "network": make_pipeline(
        StandardScaler(), MLPClassifier((50,), max_iter=400, early_stopping=True, random_state=0)
    ),
}


def tables(*, small=False):
    """Features and labels by name; `small` keeps few samples of each."""
    land = make_classification(
        6000,
        12,
        n_informative=8,
        n_redundant=2,
        n_classes=7,
        n_clusters_per_class=3,
        class_sep=1.2,
        flip_y=0.05,
        weights=[0.36, 0.3, 0.12, 0.1, 0.06, 0.04],
        random_state=1,
    )
    found = {
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
        "land cover (simulated)": land,
    }
    if small:
        return {name: (X[:400], y[:400]) for name, (X, y) in found.items()}
    return found


def rows_of(name, X, y, division, models=MODELS):
    """A row for each model, alone and recalibrated."""
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=division
    )
    for model_name, model in models.items():
        for recalibrated in (False, True):
            fitted = RecalibratedClassifierCV(model, cv=5) if recalibrated else clone(model)
            proba = fitted.fit(train, y_train).predict_proba(test)
            error = CalibrationErrorEstimator(loss="brier").fit(proba, y_test)
            loss = GroupingLossEstimator(loss="brier", random_state=division)
            loss.fit(test, y_test, y_proba=proba)
            values = np.mean(proba.argmax(axis=1) == y_test), error.expected_loss_
            values += error.calibration_error_, *error.confidence_interval_
            values += loss.grouping_loss_, loss.confidence_interval_[0], loss.pvalue_
            key = name, model_name, int(recalibrated), division
            yield dict(zip(FIELDS, (*key, *(f"{v:.4g}" for v in values)), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisions", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = (
        row
        for division in range(options.divisions)
        for name, (X, y) in tables().items()
        for row in rows_of(name, X, y, division)
    )
    write_as_found(options.output, FIELDS, rows)


if __name__ == "__main__":
    main()
