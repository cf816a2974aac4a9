"""The study of the default intervals runs, and its stored results bear out the guide."""

import sys

import numpy as np
import pytest
from doc_studies import assert_labels_follow, imported, needs_studies, rows_of

pytestmark = needs_studies
study = imported("default_coverage", "_worlds", "_interval_tables")


@pytest.fixture(scope="module")
def rows(study):
    named = ("setting", "loss")
    return [
        {k: v if k in named else float(v) for k, v in row.items()} for row in rows_of(study.RESULTS)
    ]


def test_labels_follow_the_posterior(study):
    for kind, n_classes in study.SETTINGS + study.LAST:
        y, forecast, conditional = study.World(kind, n_classes, 4000).draw(seed=0)
        assert_labels_follow(conditional, y, forecast)
        assert (kind == "calibrated") == np.array_equal(forecast, conditional)


def test_a_small_study(study, monkeypatch):
    monkeypatch.setitem(sys.modules["_worlds"]._REFERENCE, 2, 20_000)
    monkeypatch.setattr(sys.modules["_worlds"], "_TRUTHS", {})
    for row in study.rows_of("step", 2, 600, 3):
        assert list(row) == list(study.FIELDS)
        assert 0 <= float(row["coverage"]) <= float(row["held"]) <= 1
        assert float(row["width"]) >= 0.99 * float(row["before_width"]) > 0


def test_stored_results_are_whole(study, rows):
    keys = {(row["setting"], int(row["classes"]), row["samples"], row["loss"]) for row in rows}
    assert len(keys) == len(rows) == len(study.SETTINGS + study.LAST) * 4 * 2


def test_stored_results_bear_out_the_guide(study, rows):
    """Coverage by kind, few intervals called invalid without need, and widths."""
    developed = [r for r in rows if (r["setting"], int(r["classes"])) not in study.LAST]
    for kind in study.KINDS:
        of_kind = [r for r in developed if study.kind_of(r["setting"]) == kind]
        assert np.mean([r["held"] for r in of_kind]) >= 0.92
    low = [r for r in developed if r["held"] < study.LOW]
    tied = [r for r in low if r["setting"] == "tied pairs"]
    assert tied and all(r["samples"] <= 2000 and r["held"] > 0.5 for r in tied)
    others = [r for r in low if r not in tied]
    assert {r["setting"] for r in others} == {"sawtooth", "step"} and len(others) <= 6
    assert min(r["held"] for r in others) > 0.75
    last = [r["held"] for r in rows if (r["setting"], int(r["classes"])) in study.LAST]
    assert np.mean(last) >= 0.92
    assert all(r["held"] >= r["before"] for r in rows)
    good = [r for r in developed if r["coverage"] >= 0.92]
    assert np.mean([r["valid"] for r in good]) >= 0.98
    before = [r for r in developed if r["before"] >= 0.92]
    ratio = np.array([r["width"] / r["before_width"] for r in before])
    assert np.median(ratio) < 1.1 and np.mean(ratio > 1.25) < 0.1
    assert np.median([r["time"] for r in rows]) < 2
