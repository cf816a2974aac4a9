"""All public names and the main job under `python -OO`, and from copies of the package.

A copy in a zip file or in another folder has no metadata of an installer.
"""

import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.machinery import SourceFileLoader
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages

import numpy as np
import pytest

import skcalib
from skcalib.__main__ import main
from skcalib.datasets import make_tempered_simplex

PACKAGE = Path(skcalib.__file__).parent
SCRIPT = """
import importlib.metadata
import sys

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression



def need(holds, message):  # `python -OO` leaves out assertions
    if not holds:
        raise RuntimeError(message)


find_distribution = importlib.metadata.distribution


def distribution(name):
    if name == "skcalib":
        raise importlib.metadata.PackageNotFoundError(name)
    return find_distribution(name)


importlib.metadata.distribution = distribution
import skcalib

need(skcalib.__file__.startswith(sys.argv[1]), skcalib.__file__)
public = [(skcalib, name) for name in skcalib.__all__]
for module in map(skcalib.__getattr__, skcalib._SUBMODULES):
    public += [(module, name) for name in getattr(module, "__all__", ())]
need(len(public) > 200, "few public names")
for module, name in public:
    getattr(module, name)

from skcalib.__main__ import main

need(main(["report", sys.argv[2], "--details", "--out", "page.html"]) == 0, "the command failed")

y, p = np.loadtxt(sys.argv[2], delimiter=",", skiprows=1, unpack=True)
model = LogisticRegression().fit(p[:, None], y)
display = skcalib.ReliabilityDisplay.from_estimator(model, p[:, None], y)
need(display.figure_ is not None, "no figure")
recalibrated = skcalib.RecalibratedClassifierCV(FrozenEstimator(model), "platt").fit(p[:, None], y)
display = skcalib.RecalibrationDisplay.from_estimator(recalibrated, p[:, None])
need(display.figure_ is not None, "no figure")

from skcalib import testing
from skcalib.scores import Brier


class Wrong(Brier):
    def entropy(self, forecast):
        return -super().entropy(forecast)


testing.check_score(Brier())
try:
    testing.check_score(Wrong())
except AssertionError as error:
    need("breaks the law '" in str(error) and "concave" in str(error), error)
else:
    need(False, "a wrong score was accepted")
"""


def zip_file(folder):
    """The package in a zip file, from which Python imports it."""
    shutil.copytree(PACKAGE, folder / "root" / "skcalib", ignore=IGNORED)
    return shutil.make_archive(str(folder / "packages"), "zip", folder / "root")


def other_folder(folder):
    """A copy of the folder of the package beside other code."""
    shutil.copytree(PACKAGE, folder / "vendored" / "skcalib", ignore=IGNORED)
    return str(folder / "vendored")


IGNORED = shutil.ignore_patterns("__pycache__")
#: Warnings to users are errors; deprecations in other packages are not ours, of whatever class.
WARNINGS = ("-W", "error::UserWarning", "-W", "ignore::DeprecationWarning")
INSTALLATIONS = {
    "without docstrings": (lambda folder: str(PACKAGE.parent), {"PYTHONOPTIMIZE": "2"}),
    "zip file": (zip_file, {}),
    "other folder": (other_folder, {}),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """A file of forecasts, and what the command prints and writes in this process."""
    folder = tmp_path_factory.mktemp("report")
    sample = make_tempered_simplex(200, 2, random_state=0)
    table = np.column_stack([sample.y, sample.y_proba[:, 1]])
    forecasts, page = folder / "forecasts.csv", folder / "page.html"
    np.savetxt(forecasts, table, delimiter=",", header="label,score", comments="")
    with redirect_stdout(StringIO()) as said:
        assert main(["report", str(forecasts), "--details", "--out", str(page)]) == 0
    text = said.getvalue().replace(str(page), "page.html")
    assert f"skcalib {skcalib.__version__}" in text
    return forecasts, text, page.read_text(encoding="utf-8")


@pytest.fixture
def optimized(monkeypatch):
    """A second copy of the package in this process, compiled as by `python -OO`."""

    def of_package(name):
        return name.partition(".")[0] == "skcalib"

    def code(self, name):
        if not of_package(name):
            return read(self, name)
        return compile(self.get_data(self.path), self.path, "exec", optimize=2)

    read, loaded = SourceFileLoader.get_code, [*filter(of_package, sys.modules)]
    monkeypatch.setattr(SourceFileLoader, "get_code", code)
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    yield import_module("skcalib")
    for name in [*filter(of_package, sys.modules)]:
        del sys.modules[name]


def test_every_module_without_docstrings_and_assertions(optimized):
    """Also that a law which does not hold is an error there."""
    modules = [module.name for module in walk_packages(optimized.__path__, "skcalib.")]
    public = [import_module(name) for name in modules if not name.endswith("__main__")]
    names = [(module, name) for module in public for name in getattr(module, "__all__", ())]
    assert len(names) > 200 and optimized is not skcalib
    for module, name in names:
        getattr(module, name)
    assert optimized.calibration_error.__doc__ is None
    table = np.array([[0, 0.2], [1, 0.7], [1, 0.4], [0, 0.6]])
    expected = skcalib.calibration_summary(*table.T)
    assert str(optimized.calibration_summary(*table.T)) == str(expected)
    wrong = type(
        "Wrong", (optimized.scores.Brier,), {"entropy": lambda self, p: np.square(p[..., 0])}
    )
    with pytest.raises(AssertionError, match="breaks the law"):
        optimized.testing.check_score(wrong())


@pytest.mark.slow
@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_public_names_and_the_main_job(installation, here, expected):
    """What the command prints and the page that it writes are those of this process."""
    place, variables = INSTALLATIONS[installation]
    forecasts, text, page = expected
    path = place(here)
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", SCRIPT, path, str(forecasts)],
        capture_output=True,
        text=True,
        env=variables,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(str(here / "page.html"), "page.html") == text
    assert Path("page.html").read_text(encoding="utf-8") == page and "<svg" in page
