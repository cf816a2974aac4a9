"""Names that people look for: advice that works, and a module that behaves."""

import ast
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import whole
from sklearn.dummy import DummyClassifier
from sklearn.metrics import brier_score_loss

import skcalib
from skcalib import GUESSES
from skcalib.datasets import make_tempered_simplex

ASKED_FOR = {
    *("ece", "expected_calibration_error", "CalibrationDisplay", "reliability_diagram"),
    *("grouping_loss", "brier_score", "reliability_curve", "temperature_scaling"),
}

MOST_NAMES = 65


def test_the_message():
    assert GUESSES["ece"] == "calibration_error(y_true, y_proba, strategy='uniform', n_bins=15)"
    with pytest.raises(AttributeError, match="^module 'skcalib' has no attribute 'other'\\.$"):
        skcalib.other  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean 'TemperatureScaling'\\?$"):
        skcalib.TemperatureScalling  # noqa: B018
    assert set(GUESSES) >= ASKED_FOR


@pytest.mark.parametrize("name", GUESSES)
def test_the_advice_works(name):
    """Also where the name is imported: of an AttributeError Python would drop the words."""
    assert not hasattr(skcalib, name) and name not in dir(skcalib)
    words = f"module 'skcalib' has no attribute {name!r}: use {GUESSES[name]}"
    with pytest.raises(ImportError, match=whole(words)):
        exec(f"from skcalib import {name}", {})
    sample = make_tempered_simplex(200, random_state=0)
    names = {public: getattr(skcalib, public) for public in skcalib.__all__}
    names |= {"y_true": sample.y, "y_proba": sample.y_proba[:, 1], "X": sample.y_proba}
    names |= {"estimator": DummyClassifier(), "brier_score_loss": brier_score_loss}
    for advice in GUESSES[name].replace("sklearn.metrics.", "").split(", or for its parts "):
        assert eval(advice, names) is not None


def test_building_blocks_are_named_with_their_module():
    for name, module in (("Brier", "scores"), ("TopLabel", "data.notions"), ("Region", "grouping")):
        with pytest.raises(AttributeError, match=f"use skcalib.{module}.{name}$"):
            getattr(skcalib, name)
        with pytest.raises(ImportError, match=f"use skcalib.{module}.{name}$"):
            exec(f"from skcalib import {name}", {})


def test_few_names_and_all_of_the_stub_are_read():
    assert len(skcalib.__all__) <= MOST_NAMES + 1  # the version
    stub = Path(skcalib.__file__).with_suffix(".pyi").read_text()
    typed = {
        (node.module, alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    table = {(f"skcalib.{module}", name) for name, module in skcalib._HOME.items()}
    assert typed == table | {("skcalib", "datasets")}
    imported = (node for node in ast.parse(stub).body if isinstance(node, ast.Import))
    modules = [alias.name for node in imported for alias in node.names]
    assert sorted([*modules, "skcalib.datasets"]) == [f"skcalib.{m}" for m in skcalib._SUBMODULES]


def test_importing_the_package_imports_no_module_of_it_and_not_matplotlib():
    code = "print([m for m in sys.modules if m.startswith(('skcalib.', 'matplotlib'))])"
    code = [sys.executable, "-c", f"import sys, skcalib; {code}"]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_module_behaves():
    assert getattr(skcalib, "other", 3) == 3
    namespace = {}
    exec("from skcalib import *", namespace)
    assert set(skcalib.__all__) <= set(namespace) and not set(GUESSES) & set(namespace)
    assert pickle.loads(pickle.dumps(skcalib.calibration_error)) is skcalib.calibration_error
    assert np.isin(skcalib.__all__, dir(skcalib)).all()
    assert "evaluate and improve the calibration" in pydoc.render_doc(skcalib)
