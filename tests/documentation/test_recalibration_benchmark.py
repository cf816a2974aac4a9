"""The benchmark of recalibration: its worlds, its rule for failures, its published tables."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "doc" / "benchmarks" / "recalibration"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs the folder doc")


@pytest.fixture(scope="module")
def load():
    """A function that imports a script of the folder."""
    before, names = set(sys.modules), [path.stem for path in FOLDER.glob("*.py")]
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    for name in set(names) - before:
        sys.modules.pop(name, None)


def test_worlds_are_what_they_say(load):
    """Class frequencies within five standard errors of the mean posterior of other forecasts."""
    worlds = load("worlds")
    for world in [w for w in worlds.worlds() if w[2] >= 2_000 and w[1] < 20]:
        sample = worlds.draw("dev", *world)
        mean = sample.target.mean(axis=0)
        np.testing.assert_allclose(sample.target.sum(axis=1), 1, atol=1e-9)
        frequency = np.bincount(sample.y_true, minlength=sample.n_classes) / sample.n_samples
        error = np.sqrt(mean * (1 - mean) * (1 / sample.n_samples + 1 / len(sample.target)))
        assert np.all(np.abs(frequency - mean) < 5 * error), sample.name
        assert sample.kind.endswith("calibrated") == np.allclose(
            sample.target, sample.test_proba
        ), sample.name


def test_failures_count_as_losses(load, monkeypatch):
    run, tables, methods = load("run"), load("tables"), load("methods")
    monkeypatch.setitem(methods.METHODS, "broken", lambda: None)
    sample = load("worlds").draw("dev", "noise", 3, 400)
    rows = run.merged([], list(run.run([(sample, ["no recalibration", "broken"])] * 2, "dev")))
    assert len(rows) == 1 and rows[0]["broken"] == "failed"
    summary = tables.methods(tables.Results(rows))[-1]
    assert summary["mean excess %"] == "100.00 / 100.00" and summary["harm"] == "100.0 / 100.0"
    assert summary["failed"] == "1" and run.merged(rows, rows) == rows


def test_published_tables_are_those_of_the_rows(load):
    tables = load("tables")
    page = (ROOT / "doc/user_guide/recalibration_benchmark.rst").read_text(encoding="utf-8")
    results = tables.published()
    assert (FOLDER / "results.csv").stat().st_size < 500_000
    for name in tables.TABLES:
        assert (FOLDER / f"{name}.csv").read_text(encoding="utf-8") == tables.text(name, results)
        assert f"recalibration/{name}.csv" in page
    for package, version in load("methods").VERSIONS.items():
        assert f"{package} {version}" in " ".join(page.split())
