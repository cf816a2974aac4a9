"""What is saved and loaded again answers as before, and no reader of ours executes a file."""

import ast
import io
import pickle
import re
import tokenize
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
from conftest import Trap, make_forecasts
from grids import rotated
from public_estimators import (
    RECALIBRATORS,
    answers,
    data_for,
    draw,
    instances,
    other_instances,
    quick,
)
from public_functions import FORECASTS, REPORT, numbers, only_own_warnings
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import skcalib as s
from skcalib.__main__ import main
from skcalib.data.notions import Classwise
from skcalib.io import read_predictions
from skcalib.scores import Brier, Spherical
from skcalib.smoothers import DirichletKernel, LogitSmoother

INSTANCES = [
    *instances(),
    # parameters that are objects of ours
    (s.TemperatureScaling(loss=Brier()), "proba"),
    (s.recalibration.KernelRecalibrator(loss=Spherical()), "proba"),
    (s.CalibrationErrorEstimator(notion=Classwise("sum"), smoother=DirichletKernel()), "proba"),
    (s.CalibrationErrorEstimator(smoother=LogitSmoother(), method="cross"), "proba"),
    (make_pipeline(s.CrossFitProba(GaussianNB()), s.TemperatureScaling()), "features"),
]


def through_joblib(value):
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return joblib.load(file)


def through_skops(value):
    """Load what was dumped, trusting the types of scikit-learn (the default) and our own."""
    skops = pytest.importorskip("skops.io")
    content = skops.dumps(value)
    types = skops.get_untrusted_types(data=content)
    # scikit-learn's trees of neighbours and splitters are not on the list of skops
    assert all(name.startswith(("skcalib.", "sklearn.")) for name in types), types
    return skops.loads(content, trusted=types)


EACH = range(len(INSTANCES))
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "joblib": through_joblib,
    "skops": through_skops,
}


@cache
def fitted_once(which):
    """An estimator fitted, what it was fitted to, and its answers."""
    estimator, kind = INSTANCES[which]
    X, y = data_for(kind)
    fitted = clone(estimator).fit(X, y)
    return fitted, X, y, answers(fitted, X)


@pytest.mark.filterwarnings("ignore:The regions hold")  # a hundred samples, and rightly so
@pytest.mark.parametrize(
    ("which", "way"),
    [*rotated(EACH, ["pickle", "joblib"], 1), *((k, "skops") for k in EACH)],
    ids=lambda parameter: re.sub(
        r"\s+",
        "",
        str(parameter if parameter in WAYS else INSTANCES[parameter][0]),
    )[:70],
)
def test_estimators_come_back(which, way):
    fitted, X, y, expected = fitted_once(which)
    way = WAYS[way]
    again = way(fitted)
    assert repr(again) == repr(fitted) and type(again) is type(fitted)
    answers_again = answers(again, X)
    assert expected and expected.keys() == answers_again.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(answers_again[name], value)
    assert getattr(again, "regions_", 0) == getattr(fitted, "regions_", 0)
    assert getattr(again, "selection_", 0) == getattr(fitted, "selection_", 0)
    unfitted = way(clone(fitted))
    assert repr(unfitted) == repr(fitted) and type(unfitted) is type(fitted)
    with pytest.raises(NotFittedError):
        check_is_fitted(unfitted)
    if way is through_skops:  # what has no state is rebuilt from its parameters by all of them
        for name, value in answers(unfitted.fit(X, y), X).items():
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("instance", other_instances(), ids=lambda o: type(o).__name__)
def test_smoothers_and_streams_come_back(instance, way):
    _, y, P = draw(n_classes=2)
    assert repr(way(instance)) == repr(instance)
    if isinstance(instance, s.MultilabelRecalibrator):
        fitted = clone(instance).fit(P, np.eye(2, dtype=int)[y])
        np.testing.assert_array_equal(way(fitted).predict_proba(P), fitted.predict_proba(P))
    elif hasattr(instance, "to_bytes"):
        fitted = clone(instance).fit(y, P)
        assert way(fitted).to_bytes() == fitted.to_bytes()
    else:
        fitted = clone(instance).fit(P, np.eye(2)[y])
        np.testing.assert_array_equal(way(fitted).smooth(), fitted.smooth())
        np.testing.assert_array_equal(way(fitted).predict(P), fitted.predict(P))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_scorers_and_searches_come_back(way):
    X, y, _ = draw(n_classes=2)
    classifier = LogisticRegression().fit(X, y)
    for name in set(s.get_scorer_names()) - {"neg_grouping_loss"}:
        scorer = s.get_scorer(name).set_score_request(sample_weight=True)
        assert way(scorer)(classifier, X, y) == scorer(classifier, X, y)
        assert repr(way(scorer)) == repr(scorer)
    assert repr(way(s.get_scorer("neg_grouping_loss"))) == repr(s.get_scorer("neg_grouping_loss"))
    scoring = s.get_scorer("neg_brier_calibration_error")
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring).fit(X, y)
    assert way(search).score(X, y) == search.score(X, y)


@cache
def results():
    """One result of every public function, and a report."""
    answers_of_functions = []
    for recipe in ({r.function: r for r in FORECASTS[::-1]} | {None: REPORT}).values():
        y, proba = make_forecasts(40, 2 if recipe.binary else 3, seed=1)
        with only_own_warnings():
            answers_of_functions.append(recipe(y, proba))
    return answers_of_functions


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_records_come_back(way):
    assert len({type(result) for result in results()}) > 10
    for result in results():
        again = way(result)
        assert type(again) is type(result) and repr(again) == repr(result)
        np.testing.assert_array_equal(numbers(again), numbers(result))


def test_skops_asks_before_it_loads_our_types():
    """The README of skops: types outside scikit-learn are named, and refused until trusted."""
    skops = pytest.importorskip("skops.io")
    _, y, P = draw()
    content = skops.dumps(s.TemperatureScaling().fit(P, y))
    names = ["skcalib.recalibration.scaling.TemperatureScaling"]
    assert skops.get_untrusted_types(data=content) == names
    with pytest.raises(Exception, match="Untrusted types found"):
        skops.loads(content)


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_only_smoothers_keep_the_training_data(recalibrator):
    """Recalibrators that are formulas store parameters: small, and safe to hand out."""
    sizes = []
    for n_samples in (150, 1500):
        _, y, P = draw(n_samples)
        sizes.append(len(pickle.dumps(quick(recalibrator).fit(P, y))))
    if recalibrator in (
        s.HistogramBinning,
        s.recalibration.KernelRecalibrator,
        s.VennAbersRecalibrator,
    ):
        assert sizes[1] > 5 * sizes[0]
    else:  # isotonic maps have more cells
        allowed = 3000 if recalibrator in (s.IsotonicRecalibrator, s.StackedRecalibrator) else 500
        assert max(sizes) < 8200 and abs(sizes[1] - sizes[0]) < allowed


@pytest.mark.parametrize("name", ["y_true", "y_proba", "labels"])
def test_archives_with_objects_are_refused(tmp_path, name, capsys):
    path = tmp_path / "p.npz"
    arrays = {"y_true": np.array([0, 1]), "y_proba": np.array([0.1, 0.9])}
    np.savez(path, **{**arrays, name: np.array([Trap(), Trap()], dtype=object)})
    with pytest.raises(ValueError, match=f"p.npz has Python objects in its array {name!r}") as e:
        read_predictions(path)
    assert "never loaded" in str(e.value) and "\n" not in str(e.value)
    assert main(["report", str(path)]) == 2
    assert "never loaded" in capsys.readouterr().err


def test_nothing_in_the_library_executes_files():
    """Read from the source: no unpickling, no evaluation of text, and numpy told not to."""
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__"}
    words = re.compile("|".join(banned | {rf"(?<![.\w]){name}\(" for name in calls} | {"load"}))
    for path in sorted(Path(s.__file__).parent.rglob("*.py")):
        if path.parent.name == "testing":  # its laws pickle and unpickle what they were given
            continue
        with tokenize.open(path) as file:
            text = file.read()
        if not words.search(text):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}, path
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").split(".")[0] not in banned, path
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    assert node.func.id not in calls, path
                elif isinstance(node.func, ast.Attribute) and node.func.attr == "load":
                    keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
                    assert keywords.get("allow_pickle") == "False", path
