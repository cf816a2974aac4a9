"""The accuracy study runs, its worlds are what they say, and its stored results are whole."""

import csv
import sys

import numpy as np
import pytest
from doc_studies import STUDIES, assert_labels_follow, imported, needs_studies, rows_of

pytestmark = needs_studies
RESULTS = STUDIES / "results" / "accuracy.csv"
stored = pytest.mark.skipif(not RESULTS.exists(), reason="the sdist has no stored results")


study = imported("accuracy", "_worlds", "_estimators", "_summary")


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_worlds_are_wrong_in_the_way_they_say(study, n_classes):
    for kind in study.KINDS:
        y, forecast, conditional = study.World(kind, n_classes, 5000).draw(seed=0)
        assert_labels_follow(conditional, y, forecast)
        assert (kind == "calibrated") == np.array_equal(forecast, conditional)


@pytest.mark.slow
def test_a_small_study(study, tmp_path, monkeypatch):
    """Two data sets of two worlds, the published formulas beside ours: rows and summaries."""
    monkeypatch.setattr(study, "SLOW_REPETITIONS", 0)
    monkeypatch.setitem(sys.modules["_worlds"]._REFERENCE, 3, 20_000)
    monkeypatch.setattr(sys.modules["_worlds"], "_TRUTHS", {})
    rows = [
        row
        for world in study.worlds(classes=(2, 3), samples=(300,))
        if world.kind == "over-confident"
        for row in study.study(world, {}, times=0.005)
    ]
    assert {row["target"] for row in rows} >= {"canonical brier", "canonical log"}
    for row in rows:
        assert np.isfinite([float(row[name]) for name in ("truth", "bias", "rmse")]).all()
        assert row["rmse"] == "0" or float(row["rmse"]) > 0
    path = tmp_path / "accuracy.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, study.FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    study.write(path)
    written = {p.name for p in tmp_path.iterdir()}
    assert {"accuracy_against_peers.csv", "accuracy_our_own.csv"} <= written


@stored
def test_stored_results_belong_to_the_study(study):
    """Every stored world is one of the study, and the default was tried in each of them.

    Worlds with jumps and confused classes came after the previous default.
    """
    rows = rows_of(study.RESULTS)
    names = {(w.n_classes, w.kind, w.n_samples) for w in study.worlds()}
    stored = {(int(r["classes"]), r["kind"], int(r["samples"])) for r in rows}
    for estimator in ("default", "previous default"):
        ours = [r for r in rows if r["estimator"] == estimator]
        settings = {(int(r["classes"]), r["kind"], int(r["samples"])) for r in ours}
        assert settings == {n for n in names if estimator == "default" or n[1] not in study.JUMPS}
    assert stored == names
    keys = [(r["classes"], r["kind"], r["samples"], r["target"], r["estimator"]) for r in rows]
    assert len(keys) == len(set(keys))


@stored
def test_stored_results_bear_out_the_default(study):
    """The error of miscalibrated forecasts is lower than that of the previous default."""
    summary = sys.modules["_summary"]
    rows = summary.against_previous(summary.read(study.RESULTS))
    assert len(rows) == 12
    for row in rows:
        assert float(row["coverage"]) >= 0.93
        if row["forecasts"] == "miscalibrated":
            assert float(row["error"]) < 1
            assert float(row["coverage"]) > float(row["coverage before"])


@stored
def test_stored_results_bear_out_the_comparison(study):
    """Within 10 % of the best peer in five settings of six, for all classes at once."""
    summary = sys.modules["_summary"]
    results = summary.read(study.RESULTS)
    for target in ("canonical brier", "canonical log"):
        wrong = [e for e in results[target].values() if e[summary.DEFAULT]["truth"] > 0]
        peers = [[summary.relative(r) for r in e.values() if r["ours"] == "0"] for e in wrong]
        near = np.array([1.1 * min(ratios) >= 1 for ratios in peers if ratios])
        assert len(near) > 140 and near.mean() >= (0.83 if target.endswith("brier") else 0.93)


@stored
def test_stored_results_of_the_default_bear_out_the_guide(study):
    """Coverage of two and three classes of at least .92, with few false alarms; 400 data sets.

    Four steps of two classes with 1,000 samples are covered in .89.
    """
    rows = [row for row in rows_of(study.RESULTS) if row["estimator"] == "default"]
    small = [row for row in rows if int(row["classes"]) < 10 and int(row["samples"]) <= 1000]
    assert len(small) == 228 and all(row["repetitions"] == "400" for row in small)
    low = [row for row in small if float(row["coverage"]) < 0.92]
    assert {(row["kind"], row["samples"]) for row in low} <= {("four steps", "1000")}
    assert min(float(row["coverage"]) for row in low) >= 0.88
    alarms = [
        float(row["positive"])
        for row in rows
        if float(row["truth"]) == 0 and int(row["repetitions"]) >= 100
    ]
    assert alarms and max(alarms) <= 0.04
