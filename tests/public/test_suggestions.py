"""Did you mean: misspelled names and those of other packages lead to names of ours."""

import inspect
import re

import numpy as np
import pytest
from public_estimators import RECALIBRATORS
from public_functions import DISPLAYS, FORECASTS, package_names, public_name

import skcalib
from skcalib import CalibrationMonitor, SequentialCalibrationTest
from skcalib._util.messages import OTHER_NAMES, suggestion
from skcalib.kernels import KERNELS
from skcalib.recalibration.held_out import RECALIBRATORS as NAMED_RECALIBRATORS

Y, P = np.array([0, 1, 1, 0] * 10), np.random.default_rng(0).uniform(0.1, 0.9, 40)


def choices(function):
    """Parameter -> its strings, by the braces of the docstring."""
    entries = re.findall(r"^(\w+) : \{([^}]*)\}", inspect.getdoc(function) or "", re.MULTILINE)
    return {name: re.findall(r'"([\w-]+)"', strings) for name, strings in entries}


CALLS = {
    (public_name(recipe.function), name): (recipe, strings)
    for recipe in (*FORECASTS, *DISPLAYS)
    if recipe.takes == "forecast"
    for name, strings in choices(recipe.function).items()
    if strings
}


@pytest.mark.parametrize("call", CALLS, ids=".".join)
def test_misspelled_values(call):
    recipe, strings = CALLS[call]
    misspelled = strings[-1].upper().replace("_", "-")
    options = dict(recipe.options) | {call[1]: misspelled}
    with pytest.raises(ValueError, match=rf"Did you mean '{strings[-1]}'\?"):
        recipe.function(Y, P, **options)


@pytest.mark.parametrize("name", sorted(OTHER_NAMES))
def test_other_names_lead_to_names_of_ours(name):
    """Each stands for a value or a parameter of the library, or for a method."""
    words = {word for thing in package_names().values() for word in vocabulary(thing)}
    words |= {*KERNELS, *NAMED_RECALIBRATORS}
    assert set(OTHER_NAMES[name]) <= words


def vocabulary(thing):
    """Names of parameters, their strings, and methods of a function or class."""
    doors = [thing, *(getattr(thing, name) for name in dir(thing) if name[0] != "_")]
    for door in filter(callable, doors if inspect.isclass(thing) else [thing]):
        yield door.__name__
        yield from inspect.signature(door).parameters
        for strings in choices(door).values():
            yield from strings


@pytest.mark.parametrize("recalibrator", RECALIBRATORS)
def test_misspelled_parameters(recalibrator):
    for name in inspect.signature(recalibrator).parameters:
        with pytest.raises(TypeError, match=rf"^{recalibrator.__name__} has no .*mean '{name}'\?$"):
            recalibrator(**{name + "_": 1})


def test_misspelled_parameters_of_functions():
    with pytest.raises(TypeError, match=r"^calibration_error\(\) has no parameter 'debias'\. Did"):
        skcalib.calibration_error(Y, P, debias=True)
    with pytest.raises(TypeError, match=r"Did you mean 'confidence_level'\?"):
        skcalib.compare_calibration(Y, P, P, level=0.9)
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        skcalib.calibration_error(Y, P, zzz=True)


@pytest.mark.parametrize("stream", [CalibrationMonitor(), SequentialCalibrationTest()])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("update", r" Did you mean 'partial_fit'\?"),
        ("from_byte", r" Did you mean 'from_bytes'\?"),
        ("zzz", ""),
    ],
)
def test_methods_of_streams(stream, name, said):
    """Other packages add samples by `update`."""
    with pytest.raises(AttributeError, match=f"object has no attribute '{name}'.{said}$"):
        getattr(stream, name)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("top-label", "top_label"),
        ("TOP LABEL", "top_label"),
        ("toplabels", "top_label"),
        ("x", None),
    ],
)
def test_suggestions(value, meant):
    assert suggestion(value, ["auto", "top_label", "classwise"]) == meant
