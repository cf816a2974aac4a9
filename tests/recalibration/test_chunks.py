"""Fits from chunks are those in memory, in few passes, without ever holding all samples."""

import warnings

import joblib
import numpy as np
import pytest
from conftest import Alive, Counted, cut, lazy
from grids import covering, rotated
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

import skcalib as s
from skcalib.datasets import make_tempered_simplex

FITS = {
    "temperature": (s.TemperatureScaling, {}),
    "temperature, brier": (s.TemperatureScaling, {"loss": "brier"}),
    "temperature, spherical": (s.TemperatureScaling, {"loss": "spherical"}),
    "temperature, logits": (s.TemperatureScaling, {"input": "logits"}),
    "biases": (s.BiasCorrectedTemperatureScaling, {}),
    "biases, brier": (s.BiasCorrectedTemperatureScaling, {"loss": "brier"}),
    "vector": (s.VectorScaling, {"shrinkage": 5}),
    "vector, logits": (s.VectorScaling, {"shrinkage": 5, "input": "logits"}),
    "vector, free": (s.VectorScaling, {"shrinkage": 0}),
    "vector, infinite": (s.VectorScaling, {"shrinkage": np.inf}),
}
PARAMETERS = ("temperature_", "intercept_", "coef_", "detection_limit_", "shrinkage_")


def samples(n_samples, n_classes, *, shift=0.6, seed=0):
    """Forecasts whose slopes and class frequencies are wrong, some of them with zeros."""
    data = make_tempered_simplex(n_samples, n_classes, score_temperature=0.6, random_state=seed)
    proba = data.y_proba * np.exp(np.linspace(-shift, shift, n_classes))
    proba[3, 0] = 0.0
    return proba / proba.sum(axis=1, keepdims=True), data.y


def pair(name, n_classes):
    kind, options = FITS[name]
    labels = np.arange(n_classes)
    return kind(labels=labels, **options), kind(labels=labels, **options)


def assert_same(found, expected, values):
    for name in (*PARAMETERS, "loss_before_", "loss_after_"):
        assert hasattr(found, name) == hasattr(expected, name)
        if hasattr(expected, name):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=0, atol=1e-8, err_msg=name
            )
    np.testing.assert_allclose(
        found.predict_proba(values), expected.predict_proba(values), rtol=0, atol=1e-8
    )
    for name in ("injective_", "preserves_argmax_", "preserves_order_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name)
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.n_passes_ <= 18


def inputs_of(recalibrator, proba):
    return np.log(np.maximum(proba, 1e-9)) if recalibrator.input == "logits" else proba


@pytest.mark.parametrize(
    ("name", "n_classes", "weighted"), covering(FITS, [2, 3, 8], [False, True])
)
def test_the_same_as_in_memory(name, n_classes, weighted):
    proba, y = samples(1500, n_classes)
    found, expected = pair(name, n_classes)
    values = inputs_of(found, proba)
    weight = np.random.default_rng(0).integers(0, 4, 1500) * 0.7 if weighted else None
    arrays = (values, y) if weight is None else (values, y, weight)
    found.fit_chunks(cut(400, *arrays))
    assert_same(found, expected.fit(values, y, sample_weight=weight), values)


@pytest.mark.parametrize(("name", "size"), rotated(FITS, [1, 7, 120], 1))
def test_the_size_of_chunks_has_no_effect(name, size):
    proba, y = samples(120, 3)
    found, expected = pair(name, 3)
    values = inputs_of(found, proba)
    assert_same(found.fit_chunks(cut(size, values, y)), expected.fit(values, y), values)


@pytest.mark.parametrize("name", ["temperature", "biases", "vector"])
def test_more_samples_than_the_first_pass_keeps(name):
    proba, y = samples(30_000, 4)
    order = np.argsort(y, kind="stable")  # each chunk has one or two classes
    found, expected = pair(name, 4)
    found.fit_chunks(cut(1000, proba[order], y[order]))
    assert_same(found, expected.fit(proba, y), proba)


def test_biases_are_fitted_where_the_totals_are_wrong():
    proba, y = samples(3000, 3)
    scaling, _ = pair("biases", 3)
    assert np.abs(scaling.fit_chunks(cut(500, proba, y)).intercept_).min() > 0.01 / 3
    calibrated = make_tempered_simplex(3000, 3, score_temperature=1.0, random_state=0)
    scaling.fit_chunks(cut(500, calibrated.y_proba, calibrated.y))
    assert (scaling.intercept_ == 0).all()


def test_a_single_column_and_text_labels():
    proba, y = samples(500, 2)
    y = np.array(["no", "yes"])[y]
    for kind in (s.TemperatureScaling, s.BiasCorrectedTemperatureScaling):
        found = kind(labels=["no", "yes"]).fit_chunks(cut(60, proba[:, 1], y))
        expected = kind().fit(proba[:, 1], y)
        assert found.predict_proba([0.3]) == pytest.approx(expected.predict_proba([0.3]), abs=1e-10)


def test_names_of_columns_are_kept_and_checked():
    pd = pytest.importorskip("pandas")
    proba, y = samples(200, 3, shift=0.2)
    frame = pd.DataFrame(proba, columns=["a", "b", "c"])
    y = np.array(["a", "b", "c"])[y]
    chunks = [(frame[:90], y[:90]), (frame[90:], y[90:])]
    scaling = s.TemperatureScaling(labels=["a", "b", "c"]).fit_chunks(chunks)
    assert scaling.feature_names_in_.tolist() == ["a", "b", "c"]
    single = pd.Series(proba[:, 0], name="p_a")
    two = s.TemperatureScaling(labels=["a", "b"])
    refused([(single, np.where(y == "a", "a", "b"))], "Chunk 0: The column of X is named", two)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_the_scale_of_weights_has_no_effect(scale):
    proba, y = samples(300, 3)
    weight = np.linspace(1, 2, 300)
    found, expected = pair("biases", 3)
    found.fit_chunks(cut(50, proba, y, weight * scale))
    assert_same(found, expected.fit(proba, y, weight), proba)


def test_chunks_without_weight_or_samples_are_skipped():
    proba, y = samples(300, 3)
    found, expected = pair("vector", 3)
    chunks = [
        *cut(100, proba, y, np.ones(300)),
        (proba[:50] ** 2 * 0 + 1 / 3, y[:50], np.zeros(50)),
    ]
    chunks.insert(1, (proba[:0], y[:0]))
    assert_same(found.fit_chunks(chunks), expected.fit(proba, y), proba)


@pytest.mark.parametrize(("name", "temperature"), rotated(FITS, [0.02, 1.0, 30.0], 1))
def test_number_of_passes(name, temperature):
    data = make_tempered_simplex(6000, 3, score_temperature=temperature, random_state=0)
    scaling, _ = pair(name, 3)
    source = Counted(cut(700, inputs_of(scaling, data.y_proba), data.y))
    scaling.fit_chunks(source)
    # Once more for the kind of the first chunk, which is not read to the end.
    assert source.readings == scaling.n_passes_ + 1 <= 19


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("separable", [True, False])
def test_number_of_passes_where_the_optimum_is_infinite(name, separable):
    y = np.arange(300) % 3
    proba = 0.1 + 0.7 * np.eye(3)[y if separable else (y + np.arange(300) // 100) % 3]
    scaling, _ = pair(name, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scaling.fit_chunks(cut(40, inputs_of(scaling, proba), y))
    assert scaling.n_passes_ <= 18
    assert np.isfinite(scaling.predict_proba(inputs_of(scaling, proba))).all()


def test_warnings_are_those_of_fits_in_memory():
    y = np.arange(300) % 3
    proba = 0.1 + 0.7 * np.eye(3)[y]
    for name, message in [
        ("temperature", "separable by the scores"),
        ("temperature, brier", "separable by the scores"),
        ("vector, free", "temperature is 0|are separable|stopped after"),
    ]:
        for scaling, work in zip(pair(name, 3), ("fit_chunks", "fit"), strict=True):
            arguments = ([(proba, y)],) if work == "fit_chunks" else (proba, y)
            with pytest.warns(ConvergenceWarning, match=message):
                getattr(scaling, work)(*arguments)


def test_one_chunk_in_memory():
    proba, y = samples(2000, 3)
    alive = Alive()

    class Lazy:
        def __iter__(self):
            return ((alive.block(p), labels) for p, labels in cut(100, proba, y))

    s.VectorScaling(labels=[0, 1, 2], shrinkage=3).fit_chunks(Lazy())
    assert alive.most == 1
    with joblib.parallel_config("threading", n_jobs=2):
        s.VectorScaling(labels=[0, 1, 2], shrinkage=3).fit_chunks(Lazy())
    assert alive.most <= 6


def test_progress_and_jobs_of_the_context(capfd):
    proba, y = samples(300, 3)
    alone, together = pair("vector", 3)
    alone.fit_chunks(cut(30, proba, y))
    assert "Parallel" not in "".join(capfd.readouterr())
    with joblib.parallel_config("threading", n_jobs=2, verbose=5):
        together.fit_chunks(cut(30, proba, y))
    assert "Done" in "".join(capfd.readouterr())
    np.testing.assert_array_equal(alone.coef_, together.coef_)


# --- Input that is refused ------------------------------------------------------------------------


def refused(chunks, match, scaling=None):
    scaling = s.TemperatureScaling(labels=[0, 1, 2]) if scaling is None else scaling
    with pytest.raises(ValueError, match=match):
        scaling.fit_chunks(chunks)
    with pytest.raises(NotFittedError):
        check_is_fitted(scaling)


def test_sources_that_are_no_chunks_are_refused():
    proba, y = samples(100, 3)
    refused((one for one in cut(10, proba, y)), "iterator .generator., which can be read only once")
    refused(iter(cut(10, proba, y)), "read only once")
    refused((proba, y), "a single chunk is")
    refused(3, "must be an iterable of tuples")
    refused([], "chunks is empty")
    refused([(proba, y, None, None)], "but is a tuple of 4")
    refused([(proba, y), proba], "Chunk 1 must be a tuple")


def test_a_source_that_is_exhausted_is_refused():
    proba, y = samples(100, 3)
    chunks = iter([*cut(25, proba, y)] * 2)

    class Exhausted:
        def __iter__(self):
            return chunks if next(chunks, None) else iter(())

    source = Exhausted()
    with pytest.raises(ValueError, match=r"gave \d+ samples in the first pass and \d+ in another"):
        s.TemperatureScaling(labels=[0, 1, 2]).fit_chunks(source)


def test_invalid_samples_are_refused_with_the_number_of_the_chunk():
    proba, y = samples(100, 3)
    binary = samples(100, 2)
    two = s.TemperatureScaling(labels=[0, 1])
    refused([(proba, y), (proba * 2, y)], "Chunk 1: ")
    refused([(proba, y), (proba, y[:50])], "Chunk 1: .* must have the same number of samples")
    refused([(proba, y), (proba, y + 1)], "Chunk 1: y_true contains 3")
    refused([(proba, y), (proba, y, -np.ones(100))], "Chunk 1: sample_weight must be finite")
    pairs = proba[:, :2] / proba[:, :2].sum(axis=1, keepdims=True)
    refused([(proba[:3], y[:3]), (pairs[4:], y[4:])], "Chunk 1: labels lists 3 classes")
    refused([binary, (binary[0][:, 1], binary[1])], "Some chunks have 1 columns", two)
    refused([(proba, y, np.zeros(100))], "no sample of positive weight")
    refused([(proba, y, np.full(100, 1e308))], "sum of sample_weight is infinite")


def test_parameters_that_are_refused():
    chunks = [samples(100, 3)]
    refused(chunks, "labels must list the classes", s.TemperatureScaling())
    brier = s.VectorScaling(labels=[0, 1, 2], shrinkage=1, loss="brier")
    refused(chunks, "for loss='log' only", brier)
    refused(chunks, "shrinkage must be", s.VectorScaling(labels=[0, 1, 2], shrinkage=-1))


# --- Shrinkage by cross-validation ----------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, True), (3, False), (8, True)])
def test_a_chosen_shrinkage(n_classes, weighted):
    """Up to 20,000 samples it is that in memory, for any chunks."""
    proba, y = samples(2000, n_classes)
    weight = np.random.default_rng(0).integers(1, 4, 2000) * 0.7 if weighted else np.ones(2000)
    expected = s.VectorScaling(labels=range(n_classes)).fit(proba, y, sample_weight=weight)
    for size in (130, 2000):
        found = s.VectorScaling(labels=range(n_classes)).fit_chunks(cut(size, proba, y, weight))
        assert_same(found, expected, proba)


def test_a_shrinkage_from_a_part(monkeypatch):
    """Of more samples it is that of the samples which the first pass keeps."""
    monkeypatch.setattr(s.VectorScaling, "_pilot", 500)
    proba, y = samples(4000, 3, shift=0.1)
    found = s.VectorScaling(labels=range(3)).fit_chunks(cut(4000, proba, y))
    kept = np.unique(np.linspace(0, 3999, 500).astype(int))
    part = s.VectorScaling(labels=range(3)).fit(proba[kept], y[kept])
    assert found.shrinkage_ == part.shrinkage_ > 0
    assert_same(
        found, s.VectorScaling(labels=range(3), shrinkage=part.shrinkage_).fit(proba, y), proba
    )


def test_few_samples_have_one_temperature():
    proba, y = samples(9, 3)
    assert s.VectorScaling(labels=range(3)).fit_chunks(cut(4, proba, y)).shrinkage_ == np.inf


# --- Dask arrays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITS)
def test_dask_arrays(name):
    proba, y = samples(1000, 3)
    weight = np.linspace(0, 2, 1000)
    found, expected = pair(name, 3)
    values = inputs_of(found, proba)
    found.fit_chunks(lazy(values, y, weight, rows=130))
    assert_same(found, expected.fit(values, y, weight), values)


def test_a_dask_array_is_never_in_memory_as_a_whole():
    """Blocks exist only while they are read: a few for each thread of Dask."""
    dask = pytest.importorskip("dask")
    proba, y = samples(4000, 3)
    alive = Alive()
    arrays = lazy(proba, y, rows=100)
    arrays = arrays[0].map_blocks(alive.block, meta=np.empty((0, 0))), arrays[1]
    with dask.config.set(scheduler="threads", num_workers=2):
        scaling = s.VectorScaling(labels=[0, 1, 2], shrinkage=3).fit_chunks(arrays)
    assert scaling.n_features_in_ == 3
    assert 1 <= alive.most <= 8 < 40


def test_dask_arrays_that_are_refused():
    proba, y = samples(100, 3)
    p, labels = lazy(proba, y, rows=20)
    refused((p, y), "with Dask arrays only")
    refused((p, labels[:90]), "y_proba has 100, y has 90")
    refused(p, "a single Dask collection")
    unknown = p[p[:, 0] > 0.2], labels
    refused(unknown, "Chunk [0-4]: .* must have the same number of samples")
    refused((unknown[0], labels.rechunk(50)), r"\.compute_chunk_sizes")
    refused((p, labels + 1), "Chunk [0-4]: y_true contains 3")


def test_dask_arrays_are_not_computed_by_other_functions():
    """They were, as a whole and without a message."""
    proba, y = samples(100, 3)
    p, labels = lazy(proba, y, rows=20)

    def fail(block):
        raise AssertionError("computed")

    p = p.map_blocks(fail, meta=np.empty((0, 0)))
    for work in (
        lambda: s.TemperatureScaling().fit(p, y),
        lambda: s.TemperatureScaling().fit(proba, labels),
        lambda: s.TemperatureScaling().fit(proba, y).predict_proba(p),
        lambda: s.proper_calibration_error(y, p),
        lambda: s.calibration_error(y, p),
        lambda: s.calibration_error(y, proba, sample_weight=labels),
    ):
        with pytest.raises(ValueError, match="is a Dask collection, which would be computed"):
            work()
