"""Modules of the folder doc/studies, which is no package and may be absent."""

import csv
import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

STUDIES = Path(__file__).parents[1] / "doc" / "studies"
needs_studies = pytest.mark.skipif(not STUDIES.exists(), reason="needs the folder doc")


def imported(name, *others, folder=STUDIES):
    """A fixture: the module of a study that imports `others`, all forgotten afterwards."""

    @pytest.fixture(scope="module")
    def study():
        sys.path.insert(0, str(folder))
        try:
            yield importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))
            for module in (name, *others):
                sys.modules.pop(module, None)

    return study


def rows_of(path):
    """The rows of a file of comma-separated values, as dictionaries."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def assert_labels_follow(conditional, y, forecast):
    """The mean residual of each class is within five standard errors of 0."""
    for proba in (forecast, conditional):
        assert np.all(proba >= 0)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
    residual = np.eye(conditional.shape[1])[y] - conditional
    error = np.sqrt(np.mean(conditional * (1 - conditional), axis=0) / len(y))
    assert np.all(np.abs(residual.mean(axis=0)) < 5 * error)


def load(name):
    """The module of a study that imports no other study, or None without the folder."""
    path = STUDIES / f"{name}.py"
    if not path.exists():
        return None
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look themselves up
        spec.loader.exec_module(module)
    return sys.modules[name]
