"""Every public function takes every kind of array, and gives the answer of a plain float64 one.

Probabilities are multiples of 1/64, which float16 holds exactly, so that equal means equal: what a
type rounds away is the business of one test of its own.
"""

import inspect
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pkgutil import walk_packages
from tempfile import NamedTemporaryFile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from engines import in_arrow
from engines import polars as pl
from grids import rotated
from public_functions import (
    BESIDE,
    DISPLAYS,
    DOORS_ELSEWHERE,
    ELSEWHERE,
    FOR_EXTENDERS,
    FORECASTS,
    MOMENTS,
    REPORT,
    SCALARS,
    SIMULATORS,
    firsts,
    ignoring,
    numbers,
    only_own_warnings,
    package_names,
    public_name,
)
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib import CalibrationReport
from skcalib.datasets import make_tempered_simplex

EVERY = [*FORECASTS, *DISPLAYS]
FEW = ("float32", "list", "memory map", "pandas, shuffled index", "polars")  # for slow functions


FUNCTIONS = firsts(FORECASTS)
DOORS = [*FUNCTIONS, *firsts(DISPLAYS)]


def test_every_public_function_is_in_the_table():
    known = {public_name(recipe.function) for recipe in (*FORECASTS, *MOMENTS)}
    known |= {public_name(function) for function in SCALARS}
    public = {name for name, thing in package_names().items() if inspect.isfunction(thing)}
    known |= public & set(ELSEWHERE)
    assert known - public == BESIDE and public <= known


def test_every_function_of_a_public_module_is_in_the_table():
    """Also those that have no name in `skcalib` itself; a class is its constructor."""
    listed = {*SIMULATORS, *SCALARS, *(recipe.function for recipe in (*FORECASTS, *MOMENTS))}
    names = {public_name(function) for function in listed} | FOR_EXTENDERS | set(ELSEWHERE)
    modules = [module.name for module in walk_packages(skcalib.__path__, "skcalib.")]
    modules = [name for name in modules if not name.rpartition(".")[2].startswith("_")]
    assert len(modules) > 40
    for module in map(import_module, modules):
        for name in getattr(module, "__all__", ()):
            assert not inspect.isfunction(getattr(module, name)) or name in names, name


def test_every_door_of_a_display_is_in_the_table():
    known = {public_name(recipe.function) for recipe in (*DISPLAYS, REPORT)}
    classes = {name: thing for name, thing in package_names().items() if inspect.isclass(thing)}
    doors = {(name, door) for name, thing in classes.items() for door in dir(thing)}
    doors = {f"{n}.{d}" for n, d in doors if d.startswith("from_") and d not in DOORS_ELSEWHERE}
    assert doors == known | {name for name in ELSEWHERE if ".from_" in name}


def grid_forecasts(n_samples, n_classes, seed=0):
    """Labels and miscalibrated forecasts whose entries are multiples of 1/64."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, 65, (n_samples, n_classes - 1)), axis=1)
    edges = np.column_stack([np.zeros(n_samples, int), cuts, np.full(n_samples, 64)])
    proba = np.diff(edges, axis=1) / 64
    proba[:n_classes] = np.eye(n_classes)
    blurred = 0.6 * proba + 0.4 / n_classes
    y = (blurred.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    y[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)  # impossible labels are tested elsewhere
    proba[n_classes : 2 * n_classes] = 1 / n_classes if n_classes == 2 else [0.5, 0.25, 0.25]
    assert np.all(proba.sum(axis=1) == 1) and (proba == proba.astype(np.float16)).all()
    possible = proba[np.arange(n_samples), y] > 0
    y = np.where(possible, y, proba.argmax(axis=1))
    assert len(np.unique(y)) == n_classes and len(np.unique(proba, axis=0)) < n_samples
    assert len(np.unique(proba)) > 10
    return y, proba


DATA = {2: grid_forecasts(30, 2), 3: grid_forecasts(30, 3, seed=1)}


def shapes(recipe):
    """Data sets that a recipe is called with: pairs, a single column, three classes.

    Displays take a second or so, and have their own tests of single columns.
    """
    y, pairs = DATA[2]
    yield y, pairs
    if recipe not in DISPLAYS:
        yield y, np.ascontiguousarray(pairs[:, 1])
    if not recipe.binary:
        yield DATA[3]


def run(recipe, y, proba, *, convert=lambda array: array, weight=None, **arguments):
    """Numbers of the result for forecasts (and what goes with them) of another kind."""
    if weight is not None:
        arguments["sample_weight"] = weight
    with only_own_warnings():
        copies = (array.copy() for array in recipe.arrays(proba))
        return numbers(recipe(y, *map(convert, copies), **arguments))


def strided(array):
    """The same values with gaps between them, in memory that runs backwards."""
    wide = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    wide[::2] = array[::-1]
    return wide[::2][::-1]


def memory_map(array):
    """A file that is mapped into memory, and cannot be written to."""
    with NamedTemporaryFile() as file:
        np.asarray(array).tofile(file.name)
        return np.memmap(file.name, dtype=array.dtype, mode="r", shape=array.shape)


def frame(library, array):
    if array.ndim == 1:
        return library.Series(array)
    return library.DataFrame({f"p{k}": values for k, values in enumerate(array.T)})


def pandas_shuffled(array):
    """Rows have a name that says another order; they are taken as they stand."""
    index = np.random.default_rng(0).permutation(len(array))
    return frame(pd, array).set_axis(index, axis=0)


CONTAINERS = {
    "float32": partial(np.asarray, dtype=np.float32),
    "float16": partial(np.asarray, dtype=np.float16),
    "longdouble": partial(np.asarray, dtype=np.longdouble),
    "big-endian": partial(np.asarray, dtype=">f8"),
    "object": partial(np.asarray, dtype=object),
    "list": lambda array: array.tolist(),
    "tuple": lambda array: tuple(array.tolist()),
    "fortran": np.asfortranarray,
    "strided": strided,
    "read-only": lambda array: np.broadcast_to(array, array.shape),
    "memory map": memory_map,
    "column": lambda array: array.reshape(len(array), -1),
    "pandas": partial(frame, pd),
    "pandas, shuffled index": pandas_shuffled,
    "pandas, nullable": lambda array: frame(pd, array).astype("Float64"),
    "pandas, arrow": lambda array: in_arrow(frame(pd, array), "double[pyarrow]"),
    "polars": partial(frame, pl),
    "polars, float32": lambda array: frame(pl, array.astype(np.float32)),
}


@cache
def expected_of(recipe):
    """Numbers for plain arrays, shape by shape."""
    return [run(recipe, y, proba) for y, proba in shapes(recipe)]


@pytest.mark.parametrize(
    ("recipe", "container"),
    [*rotated(FUNCTIONS, CONTAINERS, 5), *rotated(firsts(DISPLAYS), FEW, 2)],
    ids=str,
)
def test_forecasts_in_every_container(recipe, container):
    for (y, proba), expected in zip(shapes(recipe), expected_of(recipe), strict=True):
        got = run(recipe, y, proba, convert=CONTAINERS[container])
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("recipe", EVERY, ids=str)
def test_every_option_with_frames_and_single_precision(recipe):
    """Not only the defaults; and the answer is no accident: finite, or infinite by definition."""
    kinds = ("pandas", "float32", "pandas")
    for kind, (y, proba), expected in zip(kinds, shapes(recipe), expected_of(recipe), strict=False):
        assert len(expected) and (recipe.infinite or np.isfinite(expected).all())
        got = run(recipe, y, proba, convert=CONTAINERS[kind])
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("recipe", "dtype"),
    rotated([r for r in FUNCTIONS if r.takes == "forecast"], [bool, np.int8, np.uint8, int], 2),
    ids=str,
)
def test_forecasts_of_zero_and_one_as_integers_and_booleans(recipe, dtype):
    """Certain forecasts are probabilities, whatever type holds them."""
    y = np.array([0, 1, 0, 1, 1, 0] * 4)
    proba = y.astype(float)
    for certain in (proba, np.column_stack([1 - proba, proba])):
        if "intercept" in str(recipe):  # certain forecasts determine no slope
            for array in (certain, certain.astype(dtype)):
                with pytest.raises(ValueError, match="have no finite estimate"):
                    run(recipe, y, array)
            continue
        expected = run(recipe, y, certain)
        got = run(recipe, y, certain, convert=lambda array: np.asarray(array).astype(dtype))
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("recipe", [r for r in DOORS if not r.binary], ids=str)
def test_rows_of_half_precision_pass_every_door_on_the_way(recipe):
    """Functions that call others with what they have read: rows may miss one by 1e-3."""
    rng = np.random.default_rng(1)
    proba = rng.dirichlet(np.ones(4), 40).astype(np.float16)
    proba[0] = [1.001, 0, 0, 0]  # the next number after 1
    assert np.abs(proba.astype(float).sum(axis=1) - 1).max() > 2e-4 and proba[0, 0] > 1
    assert not np.isnan(run(recipe, np.arange(40) % 4, proba)).any()


WORDS = np.array(["ant", "bee", "cat"])
AS_FORECASTS = ("list", "tuple", "column", "strided", "read-only", "memory map")
LABELS = {
    **{name: CONTAINERS[name] for name in AS_FORECASTS},
    "fortran column": lambda y: np.asfortranarray(y[:, None]),
    "int8": lambda y: y.astype(np.int8),
    "uint8": lambda y: y.astype(np.uint8),
    "uint64": lambda y: y.astype(np.uint64),
    "float32": lambda y: y.astype(np.float32),
    "huge": lambda y: y + 2**62,
    "wide": lambda y: y * 10**12,
    "negative": lambda y: y - 5,
    "object": lambda y: y.astype(object),
    "strings": lambda y: WORDS[y],
    "strings, list": lambda y: WORDS[y].tolist(),
    "strings, object": lambda y: WORDS[y].astype(object),
    "bytes": lambda y: WORDS[y].astype("S"),
    "dates": lambda y: np.datetime64("2026-01-01") + y,
    "pandas": pd.Series,
    "pandas, shuffled index": pandas_shuffled,
    "pandas, frame": lambda y: pd.DataFrame({"label": y}),
    "pandas, nullable": lambda y: pd.Series(y, dtype="Int64"),
    "pandas, strings": lambda y: pd.Series(WORDS[y], dtype="string"),
    "pandas, categorical": lambda y: pd.Series(pd.Categorical(WORDS[y])),
    "pandas, categories in another order": lambda y: pd.Series(
        pd.Categorical(WORDS[y], categories=WORDS[::-1], ordered=True)
    ),
    "pandas, category without samples": lambda y: pd.Categorical(WORDS[y], [*WORDS, "dog"]),
    "polars": pl.Series,
    "polars, strings": lambda y: pl.Series(WORDS[y]),
    "polars, categorical": lambda y: pl.Series(WORDS[y], dtype=pl.Categorical),
    "polars, frame": lambda y: pl.DataFrame({"label": y}),
}
BINARY_LABELS = {
    "bool": lambda y: y == 1,
    "bool, list": lambda y: (y == 1).tolist(),
    "bool, nullable": lambda y: pd.Series(y == 1, dtype="boolean"),
    "bool, polars": lambda y: pl.Series(y == 1),
    "minus one": lambda y: 2 * y - 1,
}
SAVED = ("CalibrationMonitor()", "SequentialCalibrationTest()")  # labels become JSON
FEW_LABELS = ("strings, list", "pandas, categorical", "polars, strings", "negative")


@pytest.mark.parametrize(
    ("recipe", "kind"),
    [*rotated(FUNCTIONS, [*LABELS, *BINARY_LABELS], 8), *rotated(firsts(DISPLAYS), FEW_LABELS, 2)],
    ids=str,
)
def test_labels_of_every_kind(recipe, kind):
    which = 0 if kind in BINARY_LABELS else -1  # two classes, or the most that it takes
    y, proba = list(shapes(recipe))[which]
    labels = {**LABELS, **BINARY_LABELS}[kind](y)
    if kind in ("bytes", "dates") and str(recipe) in SAVED:
        with pytest.raises(ValueError, match="which can be saved"):
            run(recipe, labels, proba)
        return
    np.testing.assert_array_equal(run(recipe, labels, proba), expected_of(recipe)[which])


@pytest.fixture
def problem_of(monkeypatch):
    """The problem that a report is made of, without the time that its computation takes."""
    problems = []

    def remember(self, problem, **options):
        problems.append(problem)

    monkeypatch.setattr(CalibrationReport, "__init__", remember)

    def make(door, *arguments, **options):
        getattr(CalibrationReport, door)(*arguments, **options)
        return problems.pop()

    return make


EVENTS = np.array(["churn", "stay"])


@pytest.mark.parametrize("event", [None, *EVENTS])
@pytest.mark.parametrize("container", ["list", "pandas", "polars"])
def test_the_event_of_a_report_of_two_columns(problem_of, event, container):
    y, proba = DATA[2]
    proba_of = CONTAINERS[container](proba)
    problem = problem_of("from_predictions", EVENTS[y], proba_of, pos_label=event)
    last = 1 if event is None else EVENTS.tolist().index(event)
    assert problem.classes.tolist() == EVENTS[[1 - last, last]].tolist()
    np.testing.assert_array_equal(problem.forecast, proba[:, [1 - last, last]])
    np.testing.assert_array_equal(problem.target[:, 1], y == last)


@pytest.mark.parametrize("library", [pd, pl])
def test_the_event_of_a_report_of_one_named_column(problem_of, library):
    y, proba = DATA[2]
    column = library.DataFrame({"p_churn": proba[:, 0]})
    for arguments in ({}, {"pos_label": "churn"}, {"labels": ["stay", "churn"]}):
        problem = problem_of("from_predictions", EVENTS[y], column, **arguments)
        assert problem.classes.tolist() == ["stay", "churn"]
        np.testing.assert_array_equal(problem.forecast[:, 1], proba[:, 0])


@pytest.mark.parametrize("cv", [None, 3])
def test_the_event_of_a_classifier(problem_of, cv):
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = EVENTS[(X[:, 0] > 0).astype(int)]
    model = LogisticRegression().fit(X, y)
    problem = problem_of("from_estimator", model, X, y, cv=cv)
    assert problem.classes.tolist() == EVENTS.tolist()
    turned = problem_of("from_estimator", model, X, y, cv=cv, pos_label="churn")
    assert turned.classes.tolist() == ["stay", "churn"]
    np.testing.assert_array_equal(turned.forecast, problem.forecast[:, ::-1])
    np.testing.assert_array_equal(turned.target, problem.target[:, ::-1])
    with pytest.raises(ValueError, match="pos_label='x' is not one of the classes"):
        problem_of("from_estimator", model, X, y, cv=cv, pos_label="x")


WEIGHTS = {
    **{name: CONTAINERS[name] for name in (*AS_FORECASTS, "float32", "polars")},
    "int": lambda w: w.astype(int),
    "bool": lambda w: w.astype(bool),
    "pandas": pandas_shuffled,
}
WEIGHTED = [recipe for recipe in FORECASTS if recipe.accepts("sample_weight")]


@pytest.mark.parametrize(("recipe", "kind"), rotated(firsts(WEIGHTED), WEIGHTS, 3), ids=str)
def test_weights_of_every_kind(recipe, kind):
    y, proba = list(shapes(recipe))[-1]
    weight = np.ones(len(y))
    weight[::7] = 0
    expected = run(recipe, y, proba, weight=weight)
    got = run(recipe, y, proba, weight=WEIGHTS[kind](weight))
    np.testing.assert_array_equal(got, expected)
    assert not np.array_equal(expected, expected_of(recipe)[-1])


@pytest.mark.parametrize("recipe", WEIGHTED, ids=str)
def test_a_sample_of_weight_zero_is_not_there(recipe):
    y, proba = list(shapes(recipe))[-1]
    weight = np.repeat([2.0, 0.0], [len(y) - 4, 4])  # the last: positions decide the groups
    arrays = recipe.arrays(proba)
    with only_own_warnings():
        got, expected = (
            numbers(recipe(y[:n], *(array[:n] for array in arrays), sample_weight=weight[:n]))
            for n in (len(y), len(y) - 4)
        )
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("law", "arguments"),
    [
        (test_weights_of_every_kind, ["list"]),
        (test_a_sample_of_weight_zero_is_not_there, []),
    ],
)
def test_laws_of_weights_find_those_that_are_ignored(law, arguments):
    for recipe in firsts(WEIGHTED)[:3]:
        with pytest.raises(AssertionError):
            law(ignoring(recipe, "sample_weight"), *arguments)


@pytest.mark.parametrize("notion", ["top_label", "classwise"])
@pytest.mark.parametrize("recipe", [r for r in FUNCTIONS if r.accepts("notion")], ids=str)
def test_one_column_stands_for_two(recipe, notion):
    recipe, answers = replace(recipe, options=recipe.options | {"notion": notion}), []
    p = np.arange(1.0, 41) % 13 / 16 + 1 / 32
    for proba in (p, np.column_stack([1 - p, p])):
        with only_own_warnings():
            try:
                answers.append(numbers(recipe(np.arange(40) % 3 % 2, proba)))
            except ValueError as error:
                answers.append(str(error)[:20])
    np.testing.assert_equal(answers[0], answers[1])


@pytest.mark.parametrize(("recipe", "scale"), rotated(WEIGHTED, [1e-300, 1e300], 1), ids=str)
def test_the_scale_of_weights_does_not_matter(recipe, scale):
    if public_name(recipe.function) == "reliability_bins":
        return  # their masses are sums of the weights
    y, proba = DATA[2]
    weight = np.append(np.ones(len(y) - 1), 0.0)
    expected = run(recipe, y, proba, weight=weight)
    got = run(recipe, y, proba, weight=scale * weight)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_million_samples():
    """Functions whose cost is linear, but for sorting; the truth is known, or a line of numpy."""
    sample = make_tempered_simplex(1_000_000, 2, random_state=0)
    y, p = sample.y, sample.y_proba[:, 1].astype(np.float32)
    chance = np.mean(np.abs(sample.posterior[:, 1] - p))
    assert skcalib.calibration_error(y, p, n_bins=100) == pytest.approx(chance, abs=2e-3)
    cell = np.ceil(p.astype(float) * 20).astype(int)
    gaps = np.abs(np.bincount(cell, y - p.astype(float))).sum() / len(y)
    uniform = {"strategy": "uniform", "n_bins": 20, "notion": "canonical"}
    assert skcalib.calibration_error(y, p, **uniform) == pytest.approx(gaps, rel=1e-9)
    (bins,) = skcalib.reliability_bins(y, p, **uniform)
    np.testing.assert_array_equal(bins.mass, np.bincount(cell)[1:])
    order = np.argsort(p, kind="stable")
    largest = np.abs(np.cumsum((y - p.astype(float))[order])).max() / len(y)
    error = skcalib.ks_calibration_error(y, p, notion="canonical")
    assert error == pytest.approx(largest, rel=0.01)
    truth = sample.truth["brier"]
    assert skcalib.proper_calibration_error(y, p) == pytest.approx(truth, abs=4e-4)
    terms = skcalib.corp_decomposition(y, p)
    assert terms.miscalibration == pytest.approx(truth, abs=4e-4)
    loss = np.mean((p.astype(float) - y) ** 2)
    assert terms.score == pytest.approx(loss, rel=1e-12)
    parts = terms.miscalibration - terms.discrimination + terms.uncertainty
    assert terms.score == pytest.approx(parts, rel=1e-12)


@pytest.mark.parametrize("recipe", DOORS, ids=str)
def test_sparse_arrays_are_refused_in_words(recipe):
    y, proba = DATA[2]
    for make in (sp.csr_array, sp.coo_matrix):
        words = r"is sparse: pass a dense array, for .*\.toarray\(\)\.$"
        with pytest.raises(ValueError, match=words):
            run(recipe, y, proba, convert=make)
        with pytest.raises(ValueError, match="y_true must hold one label per sample"):
            recipe(make(np.eye(2)[y]), proba, *([proba] if recipe.takes != "forecast" else []))


@pytest.mark.parametrize("recipe", DOORS, ids=str)
def test_nothing_at_all_is_refused_in_words(recipe):
    for empty in (np.empty((0, 2)), np.empty(0), [], pd.DataFrame({"a": [], "b": []})):
        with pytest.raises(ValueError, match=r"^y_true is empty: at least one sample is needed\.$"):
            recipe([], *([empty] * (1 if recipe.takes == "forecast" else 2)))


ONE_IS_ENOUGH = {
    *("calibration_error", "calibration_error_interval", "kde_calibration_error"),
    *("ks_calibration_error", "simplex_calibration_error", "smooth_calibration_error"),
    *("corp_decomposition", "corp_test", "corp_bands", "calibration_summary", "root_brier_score"),
    *("calibration_upper_bound", "cumulative_curve", "cumulative_test", "hosmer_lemeshow_test"),
    *("reliability_bins", "net_benefit", "spiegelhalter_test", "differences_at_equal_scores"),
    "unconditional_mean_embedding_error",
}


@pytest.mark.parametrize("recipe", DOORS, ids=str)
def test_a_single_row(recipe):
    """An answer where one exists, and otherwise how many samples are needed."""
    y, proba = np.array([1]), np.array([[0.25, 0.75]])
    joint = recipe.options.get("hypothesis") == "joint"
    if recipe.one_row or joint or public_name(recipe.function) in ONE_IS_ENOUGH:
        assert not np.isnan(run(recipe, y, proba, labels=[0, 1])).any()
    elif public_name(recipe.function) == "consistency_test":  # as many as its metric needs
        assert numbers(recipe(y, proba, labels=[0, 1]))[1] <= 1
    else:
        with pytest.raises(ValueError, match="(?i)at least|two|finite|samples"):
            run(recipe, y, proba, labels=[0, 1])


@pytest.mark.parametrize("recipe", EVERY, ids=str)
def test_nothing_that_is_passed_in_is_modified(recipe):
    """Arrays that could be written to keep their values; lists and frames too."""
    for y, proba in shapes(recipe):
        options = {"sample_weight": np.ones(len(y)), "labels": np.unique(y)}
        options = {name: array for name, array in options.items() if recipe.accepts(name)}
        arrays = [array.copy() for array in (y, *recipe.arrays(proba))]
        before = [array.copy() for array in (*arrays, *options.values())]
        with only_own_warnings():
            recipe(*arrays, **options)
        for array, original in zip((*arrays, *options.values()), before, strict=True):
            np.testing.assert_array_equal(array, original)
            assert array.flags.writeable


RNG = np.random.default_rng(0)
MEAN, VARIANCE = np.round(RNG.normal(size=40), 2), RNG.integers(1, 5, 40) / 4
OUTCOME = np.round(MEAN + np.sqrt(VARIANCE) * RNG.normal(size=40), 2)
NUMBERS = {name: CONTAINERS[name] for name in CONTAINERS if name not in ("float32", "float16")} | {
    "polars, float32": pl.Series
}


@pytest.mark.parametrize("container", NUMBERS)
@pytest.mark.parametrize("recipe", MOMENTS, ids=str)
def test_moments_in_every_container(recipe, container):
    convert, plain = NUMBERS[container], (OUTCOME, MEAN, VARIANCE)
    expected = numbers(recipe(*plain))
    copies = [array.copy() for array in plain]
    np.testing.assert_array_equal(numbers(recipe(*map(convert, copies))), expected)
    np.testing.assert_array_equal(copies, plain)


@pytest.mark.parametrize("recipe", [r for r in MOMENTS if r.takes == "moments"], ids=str)
def test_moments_that_are_refused(recipe):
    with pytest.raises(ValueError, match="y_mean is sparse: pass a dense array"):
        recipe(OUTCOME, sp.csr_array(MEAN[:, None]), VARIANCE)
    with pytest.raises(ValueError, match="y_true is empty"):
        recipe([], [], [])
