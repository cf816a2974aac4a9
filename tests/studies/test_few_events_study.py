"""The study of few events runs, its worlds are what they say, and it finds what is off."""

from types import SimpleNamespace

import numpy as np
import pytest
from doc_studies import assert_labels_follow, imported, needs_studies, rows_of

import skcalib

pytestmark = needs_studies
study = imported("few_events", "interval_coverage")


def test_worlds_are_calibrated_or_not_as_they_say(study):
    """Mean residuals within five standard errors of those of the truth; 20,000 samples."""
    for worlds in (study.LEVELS, study.INTERVALS):
        for name in worlds:
            world = study.draw(worlds, name, 20_000, 0)
            assert_labels_follow(world.posterior, world.y, world.y_proba)
            equal = np.array_equal(world.y_proba, world.posterior)
            off = ("impossible", "odds", "all .049", "slope", "wave")
            assert equal != any(word in name for word in off), name
    rates = [
        study.draw(study.LEVELS, f"rate {r}", 20_000, 1).posterior[:, 1] for r in (".005", ".02")
    ]
    assert [p.mean() for p in rates] == pytest.approx([0.005, 0.02], rel=0.1)
    refuted = study.draw(study.LEVELS, "impossible label", 50, 3)
    assert ((refuted.y_proba[:, 1] == 0) & (refuted.y == 1)).sum() == 1


def test_a_small_run_of_both_parts(study, tmp_path):
    names = ["--worlds", "rate .02", "K = 3, confidence .99", "impossible label"]
    options = [*names, "--sizes", "50", "--draws", "3", "--output", str(tmp_path)]
    study.main([*options, "--part", "levels", "--only", "linear"])
    rows = rows_of(tmp_path / "few_events_levels.csv")
    assert [(row["test"], row["wanted"]) for row in rows] == [
        ("kernel, linear", "0.05"), ("kernel, linear", "0.05"), ("kernel, linear", "1")
    ]  # fmt: skip
    study.main([*options, "--part", "intervals", "--only", "root_brier"])
    rows = rows_of(tmp_path / "few_events_intervals.csv")
    assert [row["world"] for row in rows] == ["rate .02", "K = 3, confidence .99"]
    assert all(0 <= float(row["coverage"]) <= 1 and row["refused"] == "0" for row in rows)


def test_a_level_and_its_standard_error(study, monkeypatch):
    """400 draws: five standard errors of a share of .05 are .054."""
    monkeypatch.setitem(
        study.TESTS, "kernel", lambda sample: np.random.default_rng(sample.y).random()
    )
    row = study.level("U-shaped", 50, "kernel", 400)
    assert row["rejected"] == pytest.approx(0.05, abs=0.054) and row["off"] == 0
    share = row["rejected"]
    assert row["standard_error"] == pytest.approx(np.sqrt(share * (1 - share) / 400))


@pytest.mark.parametrize(
    ("low", "high", "covered", "off"),
    [(0.0, 1.0, 1, 0), (0.3, 1.0, 0, 1), (0.0, 0.02, 0, 1), (0.028, 0.03, 1, 0)],
)
def test_a_coverage(study, monkeypatch, low, high, covered, off):
    """All .049, rate .02: every distance is .029."""
    interval = SimpleNamespace(low=low, high=high, valid=True, conservative=False)
    monkeypatch.setattr(
        skcalib, "calibration_error_interval", lambda *arguments, **options: interval
    )
    for error in ("ks", "E90", "ece", "debiased_l2"):
        row = study.coverage("all .049, rate .02", 50, error, 20)
        assert row["target"] == pytest.approx(0.029)
        assert row["coverage"] == covered == row["coverage_few"] and row["off"] == off
        assert row["above_zero"] == (low > 0) and 0 < row["samples_with_few"] <= 20
