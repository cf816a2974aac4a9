"""Exported maps: JSON, ONNX graphs in onnxruntime, and the readers of the guide, for each map."""

import doctest
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from public_estimators import RECALIBRATORS
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.export import from_json, to_json, to_onnx
from skcalib.links import BinaryMap
from skcalib.recalibration import BinaryLinkRecalibrator

GUIDE = Path(__file__).parents[1] / "doc" / "user_guide" / "deploy_a_map.rst"
VARIANTS = [
    s.IsotonicRecalibrator(centered=True),
    s.IsotonicRecalibrator(strict=True),
    s.HistogramBinning(n_bins=60, strategy="uniform"),  # bins without samples
    s.BetaCalibration(parameters="am"),
    s.BetaCalibration(parameters="ab"),
    s.DiagonalOrderPreserving(variant="pieces"),
    make_pipeline(s.TemperatureScaling(), "passthrough", s.IsotonicRecalibrator()),
    s.StackedRecalibrator(candidates=[make_pipeline(s.PlattScaling()), s.TemperatureScaling()]),
]
INSTANCES = [*(kind() for kind in RECALIBRATORS), *VARIANTS]
NO_SQL = (s.KernelRecalibrator, s.LabelShiftRecalibrator, s.LabelFrequency)


@cache
def samples(n_samples, n_classes):
    """Labels and forecasts with ties, zeros and ones."""
    data = make_tempered_simplex(n_samples, n_classes, score_temperature=0.6, random_state=1)
    y, P = data.y.copy(), data.y_proba.copy()
    P[: 2 * n_classes], y[:n_classes] = np.tile(np.eye(n_classes), (2, 1)), range(n_classes)
    return y, P


def as_input(P, kind):
    return P if kind == "proba" else 1.3 * np.log(np.maximum(P, 1e-12)) + 0.4


@cache
def fitted(number, n_classes=2, kind="proba"):
    one, (y, P) = clone(INSTANCES[number]), samples(700, n_classes)
    if isinstance(one, Pipeline):
        return one.fit(P, y), "proba"
    if isinstance(one, s.LabelShiftRecalibrator):
        one.target_prior = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    return one.set_params(input=kind).fit(as_input(P, kind), y), kind


def run(model, X, name="X"):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(["probabilities"], {name: X})[0]


@cache
def guide():
    """The functions of the page."""
    if not GUIDE.exists():
        pytest.skip("the documentation is not here")
    names = {}
    for one in doctest.DocTestParser().get_examples(GUIDE.read_text(encoding="utf-8")):
        if one.source.startswith(("import numpy", "def ", "operations", "expressions", "number")):
            exec(one.source, names)
    return names


def name_of(number):
    return f"{number}-{type(INSTANCES[number]).__name__}"


@pytest.mark.parametrize(("n_classes", "kind"), [(2, "proba"), (3, "logits"), (3, "proba")])
@pytest.mark.parametrize("number", range(len(INSTANCES)), ids=name_of)
def test_maps(number, n_classes, kind):
    """Documents and graphs are the fitted map, of 10,000 rows with zeros, ones and ties."""
    one, kind = fitted(number, n_classes, kind)
    P = np.concatenate([samples(n_samples, n_classes)[1] for n_samples in (9300, 700)])
    X = as_input(P, kind)
    expected, text = one.predict_proba(X), to_json(one)
    again = from_json(text)
    np.testing.assert_allclose(again.predict_proba(X), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run(to_onnx(one, dtype="float64"), X), expected, rtol=0, atol=1e-12)
    assert to_json(again) == text and again.classes_.tolist() == one.classes_.tolist()
    if n_classes == 3 and kind == "proba":
        np.testing.assert_allclose(guide()["read"](json.loads(text), X), expected, atol=1e-12)
        return
    single = X.astype(np.float32)
    expected = one.predict_proba(single.astype(float))
    np.testing.assert_allclose(run(to_onnx(again), single), expected, rtol=0, atol=1e-6)
    if n_classes == 2:
        column, expected = X[:, 1], one.predict_proba(X[:, 1])
        found = run(to_onnx(one, dtype="float64", n_columns=1), column[:, None])
        np.testing.assert_allclose(again.predict_proba(column), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "number", [k for k, one in enumerate(INSTANCES) if not isinstance(one, NO_SQL)], ids=name_of
)
def test_sql_of_the_guide(number):
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    p = np.concatenate([samples(700, 2)[1][:, 1], samples(2000, 2)[1][:, 1]])
    scores = pandas.DataFrame({"p": p, "row": np.arange(len(p))})
    one, _ = fitted(number)
    query = guide()["sql"](json.loads(to_json(one)), "scores")
    found = duckdb.connect().register("scores", scores).sql(query).df().sort_values("row")
    expected = one.predict_proba(p)[:, 1]
    np.testing.assert_allclose(found["probability"], expected, rtol=0, atol=1e-12)


def test_several_labels():
    rng = np.random.default_rng(0)
    P = rng.random((3000, 3))
    Y = (rng.random(P.shape) < P**2).astype(int)
    one = s.MultilabelRecalibrator("isotonic").fit(P[:900], Y[:900])
    again = from_json(to_json(one))
    np.testing.assert_allclose(again.predict_proba(P), one.predict_proba(P), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(again.predict(P), one.predict(P))
    found = run(to_onnx(again, dtype="float64"), P)
    np.testing.assert_allclose(found, one.predict_proba(P), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize(("n_classes", "ensemble"), [(2, False), (3, True)])
def test_classifiers(n_classes, ensemble, dtype, atol):
    pytest.importorskip("skl2onnx")
    X, y = make_classification(
        10_400, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    X, y = X.astype(dtype), np.array(["a", "b", "c"])[y]
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    own = s.RecalibratedClassifierCV(linear, "platt", cv=3, ensemble=ensemble).fit(X[:400], y[:400])
    frozen = FrozenEstimator(linear.fit(X[:200], y[:200]))
    behind = s.RecalibratedClassifierCV(frozen, s.VectorScaling())
    for model in (own, make_pipeline(StandardScaler(), behind).fit(X[200:400], y[200:400])):
        graph = to_onnx(model, dtype=dtype)
        found = run(graph, X[400:])
        assert found.dtype == dtype and json.loads(graph.metadata_props[0].value) == sorted({*y})
        np.testing.assert_allclose(found, model.predict_proba(X[400:]), rtol=0, atol=atol)


def test_trees_and_a_frame():
    """Shares of trees are exact, though skl2onnx computes them in single precision."""
    pytest.importorskip("skl2onnx")
    pandas = pytest.importorskip("pandas")
    X, y = make_classification(10_400, 4, n_redundant=0, random_state=0)
    X = X.astype(np.float32)
    model = s.RecalibratedClassifierCV(RandomForestClassifier(60, random_state=0), cv=3)
    model.fit(X[:400], y[:400])
    found = run(to_onnx(model, dtype="float64"), X[400:].astype(float))
    np.testing.assert_allclose(found, model.predict_proba(X[400:]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(run(to_onnx(model), X[400:]), found, rtol=0, atol=1e-6)
    frame = pandas.DataFrame(X, columns=[*"abcd"])
    linear = make_pipeline(make_column_transformer(("passthrough", [*"ad"])), LogisticRegression())
    graph = to_onnx(s.RecalibratedClassifierCV(linear, "platt").fit(frame, y), frame)
    assert {one.name for one in graph.graph.input} >= {*"ad"}


# --- What is refused ------------------------------------------------------------------------------


class Changed(s.PlattScaling):
    def _apply_map(self, forecast):
        return super()._apply_map(forecast) ** 2


class Cubic(BinaryMap):
    identity = (1.0, 0.0)

    def features(self, logits):
        odds = logits[:, 1] - logits[:, 0]
        return np.column_stack([odds, odds**3])


class OwnLink(BinaryLinkRecalibrator):
    def _fit_map(self, samples):
        self._fit_links(Cubic(), samples)


def with_features():
    group = np.repeat(["a", "b"], 100)
    p, y = np.full(200, 0.5), (np.arange(200) % 10 < np.repeat([1, 9], 100)).astype(int)
    return s.GroupRecalibrator().fit(p, y, features=group)


Y, P = samples(200, 2)
REFUSED = {
    "Changed cannot be exported: pass a fitted recalibrator": lambda: Changed().fit(P, Y),
    "Cubic cannot be exported": lambda: OwnLink().fit(P, Y),
    "corrects by features, which an exported map does not get": with_features,
    "LogisticRegression cannot be exported": lambda: LogisticRegression().fit(P, Y),
    "StandardScaler cannot": lambda: make_pipeline(
        StandardScaler(), s.PlattScaling(input="logits")
    ).fit(P, Y),
    "not fitted yet": s.PlattScaling,
    "takes strings and finite numbers only": lambda: s.PlattScaling().fit(
        P, np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")[Y]
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_exported(message):
    for write in (to_json, to_onnx):
        with pytest.raises(ValueError, match=message):
            write(REFUSED[message]())


def test_options_and_a_missing_package(monkeypatch):
    one = s.PlattScaling().fit(P, Y)
    with pytest.raises(ValueError, match=r"^n_columns must be 2 or 1, got 3\.$"):
        to_onnx(one, n_columns=3)
    with pytest.raises(ValueError, match="dtype must be one of 'float32', 'float64', got 'half'"):
        to_onnx(one, dtype="half")
    with pytest.raises(ValueError, match="A map from JSON cannot be fitted"):
        from_json(to_json(one)).fit(P, Y)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"^to_onnx needs onnx: pip install skcalib\[onnx\]\.$"):
        to_onnx(one)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 4]])
def test_classes_are_kept(labels):
    one = s.PlattScaling(labels=labels).fit(P, np.array(labels, dtype=object)[Y])
    again = from_json(to_json(one).encode())
    assert again.predict(P).tolist() == one.predict(P).tolist()
    assert again.classes_.dtype.kind == one.classes_.dtype.kind


WRONG = (None, True, -1, 0, 0.5, 7, 2**70, 1e308, "x", [], {}, [[1]], ["a", {}], [[1, 2], [3]])


def places(value, path=()):
    yield path
    inner = value if isinstance(value, (dict, list)) else ()
    for name in inner if isinstance(inner, dict) else range(len(inner)):
        yield from places(value[name], (*path, name))


@pytest.mark.parametrize("kind", [s.PlattScaling, s.HistogramBinning, s.LabelFrequency])
def test_forged_documents(kind):
    """A sentence, or a map of the given columns."""
    document = json.loads(to_json(kind().fit(P, Y)))
    for path in places(document):
        for wrong in WRONG:
            forged = json.loads(json.dumps({"": document}))
            where = ["", *path]
            place = forged
            for name in where[:-1]:
                place = place[name]
            place[where[-1]] = wrong
            try:
                again = from_json(json.dumps(forged[""]))
            except ValueError as error:
                assert str(error).startswith("The document ") and "\n" not in str(error)
            else:
                with np.errstate(all="ignore"):
                    assert again.predict_proba(P[:5]).shape == (5, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (3, "text must be JSON, a str or bytes, got int"),
        ("{", "The document is damaged"),
        ("[" * 10**5, "The document is damaged"),
        ("[]", "must be a map of version 1, got None"),
        ('{"skcalib": 2}', "must be a map of version 1, got 2: write it with to_json, or update"),
        ('{"skcalib": 1, "steps": NaN}', "The document is damaged.*its form is not as it was"),
        (to_json(s.PlattScaling().fit(P, Y)).replace("0.", "1e999", 1), "is damaged.*step"),
    ],
)
def test_other_documents(text, message):
    with pytest.raises(ValueError, match=message):
        from_json(text)
