"""Columns of features and groups with one name, and groups whose names look alike."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import skcalib as s
from skcalib.grouping import differences_at_equal_scores, grouping_improvement

RNG = np.random.default_rng(0)
N = 300
P = RNG.uniform(0.1, 0.9, N)
Y = (RNG.random(N) < P).astype(int)
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "a"])
FITTED = LogisticRegression().fit(X.to_numpy(), Y)
CALLS = {
    "report": lambda: s.CalibrationReport.from_predictions(Y, P, X),
    "report by": lambda: s.CalibrationReport.from_predictions(Y, P, by=X),
    "report by name": lambda: s.CalibrationReport.from_predictions(Y, P, X, by="a"),
    "report of a classifier": lambda: s.CalibrationReport.from_estimator(FITTED, X, Y),
    "comparison": lambda: s.ComparisonReport.from_predictions(Y, {"p": P, "q": P**2}, X),
    "display": lambda: s.GroupingDisplay.from_predictions(Y, P, X),
    "display by": lambda: s.GroupCalibrationDisplay.from_predictions(Y, P, X),
    "grouping loss": lambda: s.GroupingLossEstimator().fit(X, Y, y_proba=P),
    "equal scores": lambda: differences_at_equal_scores(Y, P, X),
    "improvement": lambda: grouping_improvement(Y, P, P, X),
    "groups": lambda: s.calibration_by_group(Y, P, X),
    "columns": lambda: s.calibration_by_group(Y, P, {1: Y, "1": Y}),
    "masks": lambda: s.calibration_by_group(Y, P, {1: Y > 0, "1": Y < 1}),
    "group recalibrator": lambda: s.GroupRecalibrator().fit(P, Y, features=X),
    "monitor": lambda: s.CalibrationMonitor().partial_fit(Y, P, by=X),
    "classifier": lambda: s.RecalibratedClassifierCV(FITTED).fit(X, Y),
    "out of fold": lambda: s.CrossFitProba(FITTED).fit(X, Y),
    "error": lambda: s.CalibrationErrorEstimator(FITTED, cv=3).fit(X, Y),
    "regressor": lambda: s.regression.RecalibratedRegressorCV(Ridge()).fit(X, P),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_two_columns_of_one_name(call):
    with pytest.raises(ValueError, match=r"^(X|by|features) has 2 columns named '[a1]': rename"):
        call()


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["north", "North", "north ", "north\xa0"], ["'north '", r"'north\xa0'", "North", "north"]),
        ([True, "True", False, "x"], ["'True'", "False", "True", "x"]),
        ([None, "missing", "x"], ["'missing'", "missing", "x"]),
        (["missing", "x"], ["missing", "x"]),
        ([1, 1.0, "1", "x"], ["1", "x"]),  # spellings of one number
        (["True", "False"], ["False", "True"]),
    ],
)
def test_groups_that_look_alike(cells, names):
    """They are shown apart, and a recalibrator has a group for each."""
    by = np.resize(np.array(cells, dtype=object), N)
    assert sorted(group.name for group in s.calibration_by_group(Y, P, by).groups) == names
    report = s.CalibrationReport.from_predictions(Y, P, by=by)
    assert all(name in str(report.to_dict()) or "\\" in name for name in names)
    assert len(s.GroupRecalibrator().fit(P, Y, features=by)._reader.names) == len(names)


def test_names_of_columns_with_outer_spaces():
    frame = pd.DataFrame({"a": np.resize(["u", "v"], N), "a ": np.resize(["u", "v", "v"], N)})
    names = [group.name for group in s.calibration_by_group(Y, P, frame).groups]
    assert sorted(names) == ["'a ' = u", "'a ' = v", "a = u", "a = v"]
