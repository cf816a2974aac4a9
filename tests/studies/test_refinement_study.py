"""The study of choosing by refinement runs, and its gains are paired by data set."""

import csv

import numpy as np
import pytest
from doc_studies import load

study = load("refinement")


@pytest.mark.skipif(study is None, reason="needs the folder doc")
def test_a_small_run(tmp_path):
    options = ["--families", "logistic regression", "--repetitions", "1", "--output", str(tmp_path)]
    study.main(["--sets", "iris", "wine", *options])
    paths = tmp_path / "refinement.csv", tmp_path / "refinement_gain.csv"
    rows, table = (list(csv.DictReader(path.read_text().splitlines())) for path in paths)
    after = {(row["data"], row["loss"], row["rule"]): float(row["average"]) for row in rows}
    for row in (one for one in table if one["map"] == "average"):
        both = [[after[d, row["loss"], r] for r in (row["rule"], "loss")] for d in ("iris", "wine")]
        gain = np.mean([100 * (1 - ours / theirs) for ours, theirs in both])
        assert float(row["gain in per cent"]) == pytest.approx(gain, abs=0.02)
