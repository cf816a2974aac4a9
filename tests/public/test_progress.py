"""Long work tells how far it is, where it is asked to."""

from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skcalib as s
from skcalib._util.progress import running_names
from skcalib.datasets import make_logistic_scores

DATA = make_logistic_scores(200, random_state=0)
X = np.random.default_rng(0).normal(size=(200, 2))


@pytest.mark.parametrize(
    "work",
    [
        lambda y, p: s.significance.consistency_test(
            y, p, metric=s.ks_calibration_error, n_resamples=19
        ),
        lambda y, p: s.errors.corp_test(y, p, n_resamples=19),
        lambda y, p: s.calibration_error_interval(
            y, p, metric="ici", smoother="isotonic", n_resamples=39
        ),
        lambda y, p: s.GroupingLossEstimator(n_permutations=19).fit(X, y, y_proba=p),
        lambda y, p: s.CalibrationErrorEstimator(LogisticRegression(), cv=3).fit(X, y),
    ],
    ids=["consistency", "corp", "interval", "grouping", "estimator"],
)
def test_progress_where_the_context_asks_for_it(work, capfd):
    work(DATA.y, DATA.y_proba)
    assert "Parallel" not in "".join(capfd.readouterr())
    with joblib.parallel_config(verbose=5):
        work(DATA.y, DATA.y_proba)
    assert "Done" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        ("fit", "fit"),
        ("fit solve", "fit solve"),
        ("fit solve step", "fit solve step"),
        ("fit solve step value slope", "fit value slope"),
        ("fit fit <lambda> Step.__init__ other.value", "fit Step"),
    ],
)
def test_the_first_function_and_the_last_two_are_named(called, shown):
    """Of the stack, from outside to inside; not those of other packages, and none twice in turn."""
    frame = None
    for name in called.split():
        package = "numpy" if name.startswith("other") else "skcalib.errors"
        code = SimpleNamespace(co_qualname=name)
        frame = SimpleNamespace(f_globals={"__name__": package}, f_code=code, f_back=frame)
    assert running_names(frame) == shown.split()
