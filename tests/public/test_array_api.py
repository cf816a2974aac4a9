"""Tensors at the door: the same numbers as from NumPy, Python floats back, clear refusals."""

import warnings
from contextlib import ExitStack

import numpy as np
import pytest
import sklearn
from conftest import make_forecasts
from public_estimators import RECALIBRATORS, quick
from public_functions import FORECASTS, numbers, only_own_warnings
from sklearn.exceptions import ConvergenceWarning

import skcalib as s
from skcalib.grouping import differences_at_equal_scores
from skcalib.scores import Brier, LogLoss, Spherical

LIBRARIES = ("array_api_strict", "torch")
SCORES = (Brier(), LogLoss(), Spherical())


@pytest.fixture(params=LIBRARIES)
def asarray(request):
    """`asarray` of a library that need not be there."""
    return pytest.importorskip(request.param).asarray


def test_one_column_and_mixed_libraries(asarray, binary):
    y, proba = binary
    column = np.ascontiguousarray(proba[:, 1])
    expected = s.calibration_error(y, column, notion="canonical")
    for of_labels, of_forecasts in (
        (asarray, asarray),
        (np.ndarray.tolist, asarray),
        (asarray, list),
    ):
        assert (
            s.calibration_error(of_labels(y), of_forecasts(column), notion="canonical") == expected
        )


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_scores(score, asarray, multiclass):
    y, proba = multiclass
    target = np.eye(3)[y]
    for method in (score.loss, score.divergence):
        values = method(asarray(target), asarray(proba))
        assert type(values) is np.ndarray
        np.testing.assert_array_equal(values, method(target, proba))


def test_features_of_samples_of_positive_weight(asarray, binary):
    y, proba = binary
    X, weight = np.random.default_rng(0).normal(size=(len(y), 2)), np.ones(len(y))
    weight[::5] = 0
    options = {"sample_weight": weight, "random_state": 0}
    expected = differences_at_equal_scores(y, proba, X, **options)
    assert str(differences_at_equal_scores(y, proba, asarray(X), **options)) == str(expected)


def test_every_function(asarray):
    """The table of all public functions, each once."""
    once = {recipe.function: recipe for recipe in FORECASTS[::-1]}.values()
    assert len(once) > 25
    for recipe in once:
        y, proba = make_forecasts(40, 2 if recipe.binary else 3, seed=1)
        arrays = [y, *recipe.arrays(proba)]
        options = {"sample_weight": np.ones(40), "labels": np.unique(y)}
        options = {name: value for name, value in options.items() if recipe.accepts(name)}
        tensors = {name: asarray(value) for name, value in options.items()}
        with only_own_warnings():
            expected, answer = recipe(*arrays, **options), recipe(*map(asarray, arrays), **tensors)
        assert type(answer) is type(expected), recipe
        np.testing.assert_array_equal(numbers(answer), numbers(expected), err_msg=str(recipe))


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_every_recalibrator(recalibrator, asarray):
    y, proba = make_forecasts(40, 3, seed=1)
    weight = np.linspace(1, 2, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = quick(recalibrator).fit(proba, y, weight).predict_proba(proba)
        fitted = quick(recalibrator).fit(asarray(proba), asarray(y), asarray(weight))
    recalibrated = fitted.predict_proba(asarray(proba))
    assert type(recalibrated) is np.ndarray
    np.testing.assert_array_equal(recalibrated, expected)


def test_evaluators(asarray):
    y, proba = make_forecasts(120, 3, seed=1)
    X = np.random.default_rng(0).normal(size=(120, 2))
    expected = s.CalibrationErrorEstimator().fit(proba, y)
    evaluator = s.CalibrationErrorEstimator().fit(asarray(proba), asarray(y))
    assert evaluator.confidence_interval_ == expected.confidence_interval_
    grouping = s.GroupingLossEstimator(method="partition", n_bins=2, n_permutations=3)
    bound = grouping.fit(X, y, y_proba=proba).grouping_loss_
    assert grouping.fit(asarray(X), asarray(y), y_proba=asarray(proba)).grouping_loss_ == bound


def test_stream(asarray, multiclass):
    y, proba = multiclass
    stream = s.ForecastSketch(labels=[0, 1, 2])
    stream.partial_fit(asarray(y), asarray(proba), asarray(np.ones(len(y))))
    expected = s.calibration_error(y, proba, strategy="uniform", n_bins=5)
    error = s.calibration_error(stream, strategy="uniform", n_bins=5)
    assert error == pytest.approx(expected, abs=1e-14)


def test_gradients_are_left_behind(multiclass):
    (y, proba), torch = multiclass, pytest.importorskip("torch")
    tensor = torch.tensor(proba, requires_grad=True)
    assert s.calibration_error(torch.tensor(y), tensor) == s.calibration_error(y, proba)
    np.testing.assert_array_equal(
        Brier().loss(torch.eye(3)[y], tensor), Brier().loss(np.eye(3)[y], proba)
    )
    logits = torch.log(tensor + 0.01)  # no leaf
    recalibrated = s.TemperatureScaling(input="logits").fit(logits, y).transform(logits)
    assert type(recalibrated) is np.ndarray and tensor.requires_grad and tensor.grad is None


def test_half_precision(multiclass):
    (y, proba), torch = multiclass, pytest.importorskip("torch")
    half = proba.astype(np.float16)
    assert s.calibration_error(y, torch.tensor(half)) == s.calibration_error(y, half)
    with pytest.raises(ValueError, match=r"y_proba is a torch.Tensor \(torch.bfloat16, cpu\) that"):
        s.calibration_error(y, torch.tensor(proba).to(torch.bfloat16))
    with pytest.raises(ValueError, match="convert bfloat16 to float32 before the softmax"):
        s.root_brier_score(y, proba, sample_weight=torch.ones(len(y), dtype=torch.bfloat16))


@pytest.mark.parametrize("name", ["y_true", "y_proba", "sample_weight", "labels"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_other_devices_are_refused(name, library, multiclass):
    xp = pytest.importorskip(library)
    # No GPU is needed: both have a device whose memory NumPy cannot read.
    device = "meta" if library == "torch" else xp.Device("device1")
    arguments = dict(zip(("y_true", "y_proba"), multiclass, strict=True))
    arguments |= {"sample_weight": np.ones(len(arguments["y_true"])), "labels": np.arange(3)}
    arguments[name] = xp.asarray(arguments[name], device=device)
    message = rf"{name} is a {library}.* copy it to the CPU, for example with {name}.cpu\(\)"
    for function in (s.calibration_error, s.proper_calibration_error):
        with pytest.raises(ValueError, match=message):
            function(**arguments)
    scaling = s.TemperatureScaling().fit(multiclass[1], multiclass[0])
    with pytest.raises(ValueError, match=rf"X is a {library}.* copy it to the CPU"):
        scaling.transform(xp.asarray(multiclass[1], device=device))


def test_dispatch_changes_nothing(asarray, multiclass, monkeypatch):
    """scikit-learn's switch keeps tensors in its own estimators; ours compute in NumPy."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    y, proba = multiclass
    expected = s.calibration_error(y, proba)
    with ExitStack() as stack:
        try:
            stack.enter_context(sklearn.config_context(array_api_dispatch=True))
        except (ImportError, RuntimeError):
            pytest.skip("array_api_dispatch needs a SciPy that was imported with SCIPY_ARRAY_API=1")
        assert s.calibration_error(asarray(y), asarray(proba)) == expected
        recalibrated = s.TemperatureScaling().fit(asarray(proba), y).transform(asarray(proba))
        assert type(recalibrated) is np.ndarray


class OnlyDLPack:
    """An array whose library knows the exchange protocol and nothing of NumPy."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Unreadable(OnlyDLPack):
    def __dlpack__(self, **options):
        raise BufferError("no")


def test_exchange_without_numpy(multiclass):
    y, proba = multiclass
    assert s.root_brier_score(OnlyDLPack(y), OnlyDLPack(proba)) == s.root_brier_score(y, proba)
    with pytest.raises(ValueError, match=r"Unreadable \(\?, \?\) that NumPy cannot read"):
        s.root_brier_score(y, Unreadable(proba))
