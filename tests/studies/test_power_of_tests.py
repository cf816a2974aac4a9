"""The study of all tests runs, its worlds are what they say, and its tables those of its rows."""

import numpy as np
import pytest
from doc_studies import assert_labels_follow, imported, needs_studies, rows_of

pytestmark = needs_studies
study = imported("power_of_tests", "_interval_tables")


def test_worlds_are_calibrated_or_not_as_they_say(study):
    """Mean residuals within five standard errors of 0; 3,000 samples of up to 100 classes."""
    assert (len(study.NULLS), len(study.ALTERNATIVES)) == (8, 14)
    for n_classes in study.REPETITIONS:
        for world in study.WORLDS:
            y, forecast, conditional = study.draw(world, n_classes, 3000, 0)
            assert_labels_follow(conditional, y, forecast)
            assert (world in study.NULLS) == np.array_equal(forecast, conditional)


def test_numbers_of_data_sets_are_their_seeds(study):
    first, again, second = (study.draw("spread", 3, 50, number)[1] for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, second).any()


def test_rejections_and_their_standard_error(study, monkeypatch):
    """A test that rejects every fourth data set, and one that refuses the data."""
    states = []

    def fourth(y, proba, state):
        states.append(state)
        return 0.05 if state % 4 == 0 else 0.06

    def refused(y, proba, state):
        raise ValueError

    monkeypatch.setattr(study, "TESTS", {"fourth": fourth, "refused": refused})
    rows = study.rows_of("step", 3, 50, 20)
    assert states == list(range(10**6, 10**6 + 20))
    assert [row["rejected"] for row in rows] == ["0.25", "0"]
    assert float(rows[0]["standard_error"]) == pytest.approx(np.sqrt(0.25 * 0.75 / 20), rel=1e-3)
    assert all(row["calibrated"] == 0 and list(row) == list(study.FIELDS) for row in rows)


def test_the_highest_share_that_is_likely(study):
    """Of 8 independent exact tests with 100 data sets each: simulated, 20,000 times."""
    drawn = np.random.default_rng(0).binomial(100, 0.05, (20_000, 8)).max(axis=1) / 100
    likely = study.likely_highest(100, 8)
    assert np.mean(drawn <= likely) > 0.945 and np.mean(drawn < likely) < 0.955


def test_a_small_run(study, tmp_path):
    path = tmp_path / "power.csv"
    options = ["--worlds", "spread", "rotated mass", "--classes", "3", "--samples", "50", "1000"]
    study.main([*options, "--times", "0.03", "--output", str(path)])
    rows = rows_of(path)
    assert len(rows) == 2 * 2 * len(study.TESTS)
    assert all(0 <= float(row["rejected"]) <= 1 for row in rows)
    tables = {name: rows_of(tmp_path / f"power_{name}.csv") for name in ("levels", "power")}
    assert all([row["n"] for row in table] == ["50", "1,000"] for table in tables.values())
    settings = rows_of(tmp_path / "power_settings.csv")
    assert [row["setting"] for row in settings] == ["rotated mass"]


def test_failures_are_where_another_test_has_more_power(study, tmp_path):
    def row(test, rejected, world="step"):
        values = (world, int(world in study.NULLS), 3, 50, test, 100, rejected, 0.03)
        return dict(zip(study.FIELDS, values, strict=True))

    shares = {"step": (0.3, 0.5), "narrow error": (0.3, 0.35), "spread": (0.0, 0.9)}
    rows = [
        row(test, share, world)
        for world, both in shares.items()
        for test, share in zip((study.OURS, "kernel"), both, strict=True)
    ]
    path = tmp_path / "power.csv"
    study.write_as_found(path, study.FIELDS, rows)
    (found,) = study.failures(study.read(path))
    assert found == ("step", 3, 50, 0.3, "kernel", 0.5, pytest.approx(0.2), np.hypot(0.03, 0.03))


def test_stored_tables_are_those_of_the_stored_rows(study, tmp_path):
    copy = tmp_path / study.RESULTS.name
    copy.write_bytes(study.RESULTS.read_bytes())
    study.main(["--tables", "--output", str(copy)])
    for path in tmp_path.glob("*_*_*_*.csv"):
        assert path.read_bytes() == study.RESULTS.with_name(path.name).read_bytes()


def test_stored_results_are_whole_and_bear_out_the_guide(study):
    found = study.read(study.RESULTS)
    sizes = [(k, n) for k, sets in study.REPETITIONS.items() for n in sets]
    assert list(found) == sizes
    for worlds in found.values():
        assert list(worlds) == list(study.WORLDS)
        assert all(list(tests) == list(study.TESTS) for tests in worlds.values())
    levels, power = ({test: [] for test in study.TESTS} for _ in range(2))
    for worlds in found.values():
        for test in study.TESTS:
            rows = [(worlds[world][test], world in study.NULLS) for world in study.WORLDS]
            levels[test] += [(r["rejected"], r["data_sets"]) for r, null in rows if null]
            power[test].append(np.mean([r["rejected"] for r, null in rows if not null]))
    for shares in levels.values():
        share, data_sets = np.transpose(shares)
        assert np.average(share, weights=data_sets) == pytest.approx(0.05, abs=0.01)
    best = np.max([shares for test, shares in power.items() if test != study.OURS], axis=0)
    assert np.all(np.array(power[study.OURS])[1:] > best[1:])
