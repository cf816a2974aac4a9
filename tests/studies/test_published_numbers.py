"""Numbers of the five papers beside ours: the records of doc/studies/published_numbers.py."""

import csv

import numpy as np
import pytest
from doc_studies import load
from scipy.stats import norm

study = load("published_numbers")
pytestmark = pytest.mark.skipif(study is None, reason="needs the folder doc")
RECORDS = study.records() if study else []


def name_of(record):
    return f"{record.paper}, {record.place}: {record.what}"


def difference(record):
    ours, tolerance = record.compare()
    assert ours == pytest.approx(record.published, rel=0, abs=tolerance)


@pytest.mark.parametrize("record", [r for r in RECORDS if not r.n_sets], ids=name_of)
def test_formulas(record):
    """To the digits that the paper prints."""
    difference(record)


@pytest.mark.slow
@pytest.mark.parametrize("record", [r for r in RECORDS if r.n_sets], ids=name_of)
def test_simulations(record):
    """Within four standard errors of the difference of two means."""
    difference(record)


def test_one_simulated_mean(monkeypatch):
    """What `test_simulations` does at length."""
    monkeypatch.setattr(study, "SETS", 20)
    mean, error = study.widmann_mean("data-dependent", model="M3")
    assert abs(mean - 0.63007191) < 4 * error * np.sqrt(1 + 20 / study.THEIR_SETS)
    assert error < 0.01


def test_every_paper_has_records():
    assert {record.paper for record in RECORDS} == {"P24", "W19", "G22", "F24", "L23"}
    names = [name_of(record) for record in RECORDS]
    assert len(set(names)) == len(names) > 100
    assert sum(record.n_sets > 0 for record in RECORDS) >= 70
    exact = [record for record in RECORDS if not record.n_sets]
    assert all(
        record.tolerance <= 0.05 * abs(record.published) or record.published == 0
        for record in exact
    )


def by_loops(y, proba):
    """Estimates and p-values pair by pair; 150 samples share one data-dependent cell."""
    n, n_classes = proba.shape
    residual = np.eye(n_classes)[y] - proba
    _, cells = np.unique(np.ceil(10 * proba).clip(1), axis=0, return_inverse=True)
    uniform = np.abs(np.eye(cells.max() + 1)[:, cells] @ residual).sum() / 2 / n
    whole = np.abs(residual.mean(axis=0)).sum() / 2
    distance = np.abs(proba[:, None] - proba[None]).sum(axis=2) / 2
    h = (residual @ residual.T) * np.exp(-distance / np.median(distance))
    pairs = [h[i, i + 1] for i in range(0, n - 1, 2)]
    unbiased = (h.sum() - np.trace(h)) / (n * (n - 1))
    linear = np.mean(pairs)
    bounds = [np.exp(-75 * max(t, 0) ** 2 / 8) for t in (unbiased, linear)]
    biased = np.exp(-(max(0, np.sqrt(n * h.mean() / 2) - 1) ** 2) / 2)
    pvalues = biased, *bounds, norm.sf(linear / np.std(pairs) * np.sqrt(75))
    return uniform, whole, h.mean(), unbiased, linear, *pvalues


@pytest.fixture
def networks(tmp_path):
    """A folder like the published one: two networks, and a third without predictions."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=150)
    rows = []
    for name in ("small", "smaller"):
        proba = rng.dirichlet(np.full(4, 0.5), size=150)
        np.savetxt(tmp_path / f"{name}.csv", proba, delimiter=",", fmt="%.17g")
        rows.append([name, *by_loops(y, proba)])
    rows.append(["absent", *[0.1] * 9])
    np.savetxt(tmp_path / "labels.csv", y + 1, fmt="%d")
    for table in ("errors.csv", "pvalues.csv"):
        with (tmp_path / table).open("w", newline="") as file:
            csv.writer(file).writerows([["model", *study.NUMBERS], *rows])
    return tmp_path


def test_predictions_of_networks(networks):
    records = list(study.network_records(networks))
    assert [(network, name) for network, name, *_ in records] == [
        (network, name) for network in ("small", "smaller") for name in study.NUMBERS
    ]
    for network, name, published, ours in records:
        assert ours == pytest.approx(published, rel=0, abs=1e-9), (network, name)
