"""Exported maps: JSON, ONNX graphs in onnxruntime, and the readers of the guide, for each map."""

import doctest
import json
import re
import sys
from copy import deepcopy
from functools import cache, partial, reduce
from itertools import product
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from public_estimators import RECALIBRATORS
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.export import from_json, register_converter, to_json, to_onnx
from skcalib.links import BinaryMap

duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
onnxruntime, skl2onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("skl2onnx")
close = partial(np.testing.assert_allclose, rtol=0, atol=1e-12)
GUIDE = Path(__file__).parents[1] / "doc" / "user_guide" / "deploy_a_map.rst"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the documentation is not here")
VARIANTS = [
    *(s.IsotonicRecalibrator(**{name: True}) for name in ("centered", "strict")),
    *(s.BetaCalibration(parameters=name) for name in ("am", "ab")),
    s.HistogramBinning(n_bins=60, strategy="uniform"),  # bins without samples
    s.recalibration.DiagonalOrderPreserving(variant="pieces"),
    make_pipeline(s.TemperatureScaling(), "passthrough", s.IsotonicRecalibrator()),
    s.StackedRecalibrator(candidates=[make_pipeline(s.PlattScaling()), s.TemperatureScaling()]),
]
INSTANCES = [*(kind() for kind in RECALIBRATORS), *VARIANTS]
NAMES = {number: f"{number} {type(instance).__name__}" for number, instance in enumerate(INSTANCES)}
NO_SQL = {k for k, name in NAMES.items() if re.search("Kernel|LabelShift|LabelFrequency", name)}


@cache
def samples(n_samples, n_classes):
    """Labels and forecasts with ties, zeros and ones."""
    world = make_tempered_simplex(n_samples, n_classes, score_temperature=0.6, random_state=1)
    y, P = world.y.copy(), world.y_proba.copy()
    P[: 2 * n_classes], y[:n_classes] = np.tile(np.eye(n_classes), (2, 1)), range(n_classes)
    return y, P


def features(n_samples, n_classes):
    """Six features of classes."""
    kinds = {"n_informative": 5, "n_redundant": 0, "n_classes": n_classes}
    return make_classification(n_samples, 6, **kinds, random_state=0)


def as_input(P, kind):
    return P if kind == "proba" else 1.3 * np.log(np.maximum(P, 1e-12)) + 0.4


@cache
def fitted(number, n_classes=2, kind="proba"):
    recalibrator, (y, P) = clone(INSTANCES[number]), samples(700, n_classes)
    y = np.array([False, True] if n_classes == 2 else ["a", "b", "c"])[y]
    if isinstance(recalibrator, Pipeline):
        return recalibrator.fit(P, y), "proba"
    if type(recalibrator) is s.StackedRecalibrator and recalibrator.candidates is None:
        maps = s.PlattScaling, s.VectorScaling, s.IsotonicRecalibrator
        recalibrator.candidates = [kind() for kind in maps]
    if isinstance(recalibrator, s.GroupRecalibrator):
        recalibrator.cv = 2
    if isinstance(recalibrator, s.LabelShiftRecalibrator):
        recalibrator.target_prior = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    return recalibrator.set_params(input=kind).fit(as_input(P, kind), y), kind


def run(model, X):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(["probabilities"], {"X": X})[0]


@cache
def guide():
    names = {}
    for example in doctest.DocTestParser().get_examples(GUIDE.read_text(encoding="utf-8")):
        if example.source.startswith(
            ("import numpy", "def ", "operations", "expressions", "number")
        ):
            exec(example.source, names)
    return names


@pytest.mark.parametrize(("n_classes", "kind"), [(2, "proba"), (3, "logits"), (3, "proba")])
@pytest.mark.parametrize("number", range(len(INSTANCES)), ids=NAMES.get)
def test_maps(number, n_classes, kind):
    """Documents and graphs are the fitted map, of 1,500 rows with zeros, ones and ties."""
    recalibrator, kind = fitted(number, n_classes, kind)
    X = as_input(np.vstack([samples(n, n_classes)[1] for n in (800, 700)]), kind)
    expected, text = recalibrator.predict_proba(X), to_json(recalibrator)
    again = from_json(text)
    close(again.predict_proba(X), expected)
    close(run(to_onnx(recalibrator, dtype="float64"), X), expected)
    assert to_json(again) == text and again.predict(X).tolist() == recalibrator.predict(X).tolist()
    if n_classes == 3 and kind == "proba":
        close(guide()["read"](json.loads(text), X), expected)
        return
    single = X.astype(np.float32)
    expected = recalibrator.predict_proba(single.astype(float))
    close(run(to_onnx(again), single), expected, atol=1e-6)
    if n_classes == 2:
        expected = recalibrator.predict_proba(X[:, 1])
        close(again.predict_proba(X[:, 1]), expected)
        close(run(to_onnx(recalibrator, dtype="float64", n_columns=1), X[:, 1:]), expected)


def test_documents_of_every_map():
    """Of logits of three classes, and few samples."""
    y, P = samples(90, 3)
    logits = as_input(P, "logits")
    for recalibrator in map(clone, INSTANCES):
        if not isinstance(recalibrator, (Pipeline, s.StackedRecalibrator, s.GroupRecalibrator)):
            recalibrator = clone(recalibrator.set_params(input="logits")).fit(logits, y)
            expected = recalibrator.predict_proba(logits)
            mapped = from_json(to_json(recalibrator)).predict_proba(logits)
            close(mapped, expected, atol=1e-10)


@pytest.mark.parametrize("number", sorted(NAMES.keys() - NO_SQL), ids=NAMES.get)
def test_sql_of_the_guide(number):
    p = np.concatenate([samples(700, 2)[1][:, 1], samples(600, 2)[1][:, 1]])
    scores = pandas.DataFrame({"p": p, "row": np.arange(len(p))})
    recalibrator, _ = fitted(number)
    query = guide()["sql"](json.loads(to_json(recalibrator)), "scores")
    table = duckdb.connect().register("scores", scores).sql(query).df().sort_values("row")
    close(table["probability"], recalibrator.predict_proba(p)[:, 1])


def test_several_labels():
    rng = np.random.default_rng(0)
    P = rng.random((10_000, 3))
    Y = (rng.random(P.shape) < P**2).astype(int)
    recalibrator = s.MultilabelRecalibrator("isotonic").fit(P[:900], Y[:900])
    again = from_json(to_json(recalibrator))
    close(again.predict_proba(P), recalibrator.predict_proba(P))
    np.testing.assert_array_equal(again.predict(P), recalibrator.predict(P))
    close(run(to_onnx(again, dtype="float64"), P), recalibrator.predict_proba(P))


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize(("n_classes", "ensemble"), [(2, False), (3, True)])
def test_classifiers(n_classes, ensemble, dtype, atol):
    X, y = features(10_400, n_classes)
    X, y = X.astype(dtype), np.array(["a", "b", "c"])[y]
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    alone = s.RecalibratedClassifierCV(linear, "platt", cv=3, ensemble=ensemble).fit(
        X[:400], y[:400]
    )
    frozen = FrozenEstimator(linear.fit(X[:200], y[:200]))
    behind = s.RecalibratedClassifierCV(frozen, s.VectorScaling())
    for model in (alone, make_pipeline(StandardScaler(), behind).fit(X[200:400], y[200:400])):
        graph = to_onnx(model, dtype=dtype)
        proba = run(graph, X[400:])
        assert proba.dtype == dtype and json.loads(graph.metadata_props[0].value) == sorted({*y})
        close(proba, model.predict_proba(X[400:]), atol=atol)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_values(n_classes):
    """A linear classifier without probabilities, on features of strange scales."""
    X, y = features(600, n_classes)
    X *= 10.0 ** np.arange(-3, 3)
    for classifier in (RidgeClassifier(), make_pipeline(StandardScaler(), LinearSVC())):
        model = s.RecalibratedClassifierCV(classifier, "platt", cv=3).fit(X[:400], y[:400])
        proba = run(to_onnx(model, dtype="float64"), X[400:])
        close(proba, model.predict_proba(X[400:]))
    assert model.responses_[0].method == "decision_function"


TREES = [
    DecisionTreeClassifier(min_samples_leaf=5),
    RandomForestClassifier(10, min_samples_leaf=3, random_state=0),
    ExtraTreesClassifier(10, min_samples_leaf=3, random_state=0),
    GradientBoostingClassifier(n_estimators=8),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5),
    BaggingClassifier(n_estimators=4, random_state=0),
]
SCALED = [*TREES, SVC(), NuSVC(), SVC(kernel="linear"), LogisticRegression(), LinearSVC()]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("classifier", SCALED, ids=lambda model: type(model).__name__)
def test_classifiers_behind_a_scaler(classifier, scaled, n_classes):
    """Double precision, of features of strange scales whose values in single precision differ.

    A tree meets them in single precision, which its converter forgets. In single precision a graph
    equals the model at the rounded features; else there is a warning with the difference.
    """
    X, y = features(600, n_classes)
    X = X * 10.0 ** np.arange(-3, 3) + 100
    steps = [StandardScaler(), classifier] if scaled else [classifier]
    if not (scaled or classifier in TREES):
        X = StandardScaler().fit_transform(X)
    for method in ("auto", "decision_function"):
        if not hasattr(classifier, method) and method != "auto":
            continue
        model = s.RecalibratedClassifierCV(
            make_pipeline(*steps), "platt", cv=2, response_method=method
        ).fit(X[:300], y[:300])
        graph = to_onnx(model, X, dtype="float64")
        close(run(graph, X), model.predict_proba(X), atol=5e-6)


def test_a_graph_is_compared_with_its_model(monkeypatch):
    """By up to 1,000 rows; the model here is followed by another one, or the graph is invalid."""
    X, y = make_classification(1500, 4, random_state=0)
    model = s.RecalibratedClassifierCV(LogisticRegression(), "platt", cv=2).fit(X, y)
    make = onnxruntime.InferenceSession

    class Shifted:
        def __init__(self, content):
            self.session = make(content)

        def run(self, names, values):
            assert len(values["X"]) == 1000
            return [self.session.run(names, values)[0] + [0.25, -0.25] * (values["X"][:, :1] > 0)]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Shifted)
    expected = "by up to 0.25, and by more than 0.0001 in [45].. of 1,000 rows: "
    with pytest.warns(UserWarning, match=expected + "export the map alone, to_onnx.model.recal"):
        to_onnx(model, X)
    with pytest.warns(UserWarning, match=expected + "rounding the features to single precision"):
        to_onnx(model, X.astype(np.float32))
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda content: 1 / 0)
    with pytest.raises(ValueError, match="cannot be run: export the map alone, to_onnx.model"):
        to_onnx(model, X)


@pytest.mark.parametrize("kind", RECALIBRATORS)
def test_logits_of_any_scale(kind):
    """The document divides logits by the unit that the map has learned."""
    y, P = samples(200, 2)
    logits = 1e6 * as_input(P, "logits")
    recalibrator = kind(input="logits", labels=[0, 1]).fit(logits, y)
    assert recalibrator.logit_unit_ > 1e5
    close(
        from_json(to_json(recalibrator)).predict_proba(logits), recalibrator.predict_proba(logits)
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [s.PlattScaling, s.IsotonicRecalibrator, s.TemperatureScaling])
def test_logits_with_heavy_tails(kind, n_classes):
    y, P = samples(400, n_classes)
    logits = 1e9 * np.sinh(9 * np.clip(as_input(P, "logits"), -4, 4))
    recalibrator = kind(input="logits", labels=np.arange(n_classes)).fit(logits, y)
    assert recalibrator.logit_tails_ is not None and recalibrator.logit_unit_ == 1
    close(
        from_json(to_json(recalibrator)).predict_proba(3 * logits),
        recalibrator.predict_proba(3 * logits),
    )
    close(run(to_onnx(recalibrator, dtype="float64"), logits), recalibrator.predict_proba(logits))


def test_a_linear_classifier_with_heavy_tails():
    X = np.random.default_rng(0).normal(size=(400, 1))
    y = (X[:, 0] > np.random.default_rng(1).normal(size=400)).astype(int)
    model = s.RecalibratedClassifierCV(RidgeClassifier(), "platt", cv=3).fit(np.sinh(9 * X), y)
    with pytest.raises(ValueError, match="have heavy tails, and to_onnx takes those with a unit"):
        to_onnx(model, np.sinh(9 * X))


def test_trees_and_a_frame():
    X, y = make_classification(1400, 4, n_redundant=0, random_state=0)
    X = X.astype(np.float32)
    model = s.RecalibratedClassifierCV(RandomForestClassifier(20, random_state=0), "beta", cv=3)
    model.fit(X[:400], y[:400])
    proba = run(to_onnx(model, dtype="float64"), X[400:].astype(float))
    close(proba, model.predict_proba(X[400:]))
    close(run(to_onnx(model), X[400:]), proba, atol=1e-6)
    frame = pandas.DataFrame(X, columns=[*"abcd"])
    linear = make_pipeline(make_column_transformer(("passthrough", [*"ad"])), LogisticRegression())
    graph = to_onnx(s.RecalibratedClassifierCV(linear, "platt").fit(frame, y), frame)
    assert {value.name for value in graph.graph.input} >= {*"ad"}


LOGISTIC, FOREST = LogisticRegression(), RandomForestClassifier(20, random_state=0)
CHAINS = {
    "alone": s.RecalibratedClassifierCV(LOGISTIC, "platt", cv=3),
    "forest": make_pipeline(StandardScaler(), s.RecalibratedClassifierCV(FOREST, "isotonic", cv=3)),
    "top": s.RecalibratedClassifierCV(LOGISTIC, s.recalibration.LabelFrequency(), cv=2),
    "vote": VotingClassifier(
        [(str(k), s.RecalibratedClassifierCV(LOGISTIC, k, cv=2)) for k in ("auto", "beta")],
        voting="soft",
        flatten_transform=False,
    ),
}


@pytest.mark.parametrize("opset", [None, {"": 15, "ai.onnx.ml": 3}, {"": 21, "ai.onnx.ml": 3}])
@pytest.mark.parametrize("name", CHAINS)
def test_models_that_contain_a_recalibrated_classifier(name, opset):
    X, y = make_classification(600, 6, n_informative=4, n_classes=3, random_state=0)
    register_converter()
    for dtype, classes in ((np.float32, np.arange(3)), (np.float64, np.array(["a", "b", "c"]))):
        model, rows = clone(CHAINS[name]).fit(X, classes[y]), X.astype(dtype)
        options = {"zipmap": False} | ({"nocl": True} if name == "top" else {})
        graph = skl2onnx.to_onnx(model, rows[:1], options={id(model): options}, target_opset=opset)
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        label, proba = session.run(None, {"X": rows})
        assert ((model.classes_[label] if name == "top" else label) == model.predict(rows)).all()
        assert proba.dtype == dtype
        close(proba, model.predict_proba(rows), atol=1e-6 if dtype is np.float32 else 1e-12)
    settings = {"options": {id(model): {"zipmap": True}}, "target_opset": opset}
    graph = skl2onnx.to_onnx(model, rows[:1], **settings).graph
    assert "ZipMap" in [node.op_type for node in graph.node]


Y, P = samples(200, 2)
PLATT, OWN_LINK = s.PlattScaling().fit(P, Y), s.PlattScaling().fit(P, Y)
OWN_LINK._maps[0].link = BinaryMap()
CHANGED = type("Changed", (s.PlattScaling,), {"_apply_map": lambda self, forecast: forecast})
HISTOGRAMS = HistGradientBoostingClassifier(max_iter=3)
MARGIN = s.RecalibratedClassifierCV(HISTOGRAMS, "platt", cv=2, response_method="decision_function")
CHAIN = make_pipeline(StandardScaler(), s.PlattScaling(input="logits"))
GROUPS, BY_GROUP = np.repeat([0, 1], 100).astype(str), np.arange(200) % 10 < np.repeat([1, 9], 100)
REFUSED = {
    "Changed cannot be exported: pass a fitted recalibrator": (to_json, CHANGED().fit(P, Y)),
    "BinaryMap cannot be exported": (to_json, OWN_LINK),
    "StandardScaler cannot be exported": (to_onnx, CHAIN.fit(P, Y)),
    "not fitted yet": (to_json, s.PlattScaling()),
    "unlike those of HistGradientBoostingClassifier: fit with response_method='predict_proba', or "
    "convert the classifier alone, and its map by to_onnx.model.recalibrator_., whose input is": (
        to_onnx,
        MARGIN.fit(P, Y),
    ),
    "strings and finite numbers only": (to_json, s.PlattScaling().fit(P, Y.astype("M8[D]"))),
    "by features": (to_json, s.GroupRecalibrator().fit(0 * Y + 0.5, BY_GROUP, features=GROUPS)),
    r"^n_columns must be 2 or 1, got 3\.$": (partial(to_onnx, n_columns=3), PLATT),
    "dtype must be one of 'float32', 'float64', got 8": (partial(to_onnx, dtype=8), PLATT),
    "A map from JSON cannot be fitted": (
        lambda recalibrator: from_json(to_json(recalibrator)).fit(P, Y),
        PLATT,
    ),
    "^text must be JSON, a str or bytes, got int.$": (from_json, 3),
    "The document is damaged, or does not fit": (from_json, "{"),
    "The document is damaged.*recursion": (from_json, "[" * 10**5),
    "must be a map of version 1, got None": (from_json, b"[]"),
    "version 1, got 2: write it with to_json, or update": (from_json, '{"skcalib": 2}'),
    "its form is not as it was": (from_json, '{"skcalib": 1, "steps": NaN}'),
    "is damaged.*step 2": (from_json, to_json(PLATT).replace("[[-1.0], [1.0]]", "[[-1.0]]")),
    "is damaged.*step 1": (from_json, re.sub(r'"far": [^}]*', '"far": 1e999', to_json(PLATT))),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    call, argument = REFUSED[message]
    with pytest.raises(ValueError, match=message):
        call(argument)


class Foreign(LogisticRegression):
    """A classifier that skl2onnx does not know."""


class LGBMClassifier(LogisticRegression):
    """Stands for the one of LightGBM."""

    __module__ = "lightgbm.sklearn"


@pytest.mark.parametrize("where", ["alone", "in a Pipeline", "behind a step", "in folds"])
@pytest.mark.parametrize("kind", [Foreign, LGBMClassifier])
def test_a_classifier_without_a_converter(kind, where):
    """The message says what to install, and its call of the map alone gives the same answer."""
    X, y = make_classification(200, 3, n_informative=3, n_redundant=0, random_state=0)
    inner = make_pipeline(StandardScaler(), kind()) if where == "in a Pipeline" else kind()
    model = s.RecalibratedClassifierCV(inner, "platt", cv=2, ensemble=where == "in folds")
    model = make_pipeline(StandardScaler(), model) if where == "behind a step" else model
    model.fit(X, y)
    with pytest.raises(ValueError, match=f"^skl2onnx cannot convert {kind.__name__}: ") as caught:
        to_onnx(model, X)
    assert ("pip install onnxmltools" in str(caught.value)) == (kind is LGBMClassifier)
    (call,) = re.findall(r"map alone, to_onnx\((.*?)(?: of each fold k)?\),", str(caught.value))
    last = model[-1] if where == "behind a step" else model
    X = model[:-1].transform(X) if where == "behind a step" else X
    proba = 0
    for k, classifier in enumerate(last.estimators_):
        graph = to_onnx(eval(call, {"model": model, "k": k}), dtype="float64")
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        inputs = {"X": classifier.predict_proba(X)}
        proba = proba + session.run(["probabilities"], inputs)[0] / len(last.estimators_)
    close(proba, last.predict_proba(X))


@pytest.mark.parametrize("name", ["lightgbm.LGBMClassifier", "xgboost.XGBClassifier"])
def test_real_boosting_without_a_converter(name):
    package, kind = name.split(".")
    boosting = getattr(pytest.importorskip(package), kind)(n_estimators=3)
    X, y = make_classification(200, 3, n_informative=3, n_redundant=0, random_state=0)
    model = s.RecalibratedClassifierCV(boosting, "platt", cv=2).fit(X, y)
    with pytest.raises(ValueError, match=f"{kind}: pip install onnxmltools and register"):
        to_onnx(model, X)


def test_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    words = r"^ONNX graphs need onnx: pip install skcalib\[onnx\]\.$"
    with pytest.raises(ImportError, match=words):
        to_onnx(PLATT)


WRONG = (None, True, -1, 0, 0.5, 7, 2**70, 1e308, "x", [], {}, [[1]], ["a", {}], [[1, 2], [3]])


def places(value, path):
    yield path
    pairs = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for name, element in pairs:
        yield from places(element, (*path, name))


@pytest.mark.parametrize(
    "kind", [s.PlattScaling, s.HistogramBinning, s.recalibration.LabelFrequency]
)
def test_forged_documents(kind):
    document = json.loads(to_json(kind().fit(P, Y)))
    for (*start, name), wrong in product(places(document, ("",)), WRONG):
        forged = {"": deepcopy(document)}
        reduce(getitem, start, forged)[name] = wrong
        try:
            again = from_json(json.dumps(forged[""]))
        except ValueError as error:
            assert str(error).startswith("The document ") and "\n" not in str(error)
        else:
            with np.errstate(all="ignore"):
                assert again.predict_proba(P[:5]).shape == (5, 2)
