"""The study of choosing by refinement runs, and its gains are paired by data set."""

import numpy as np
import pytest
from doc_studies import load, needs_studies, rows_of

study = load("refinement")


@pytest.mark.slow
@needs_studies
def test_a_small_run(tmp_path, monkeypatch):
    path = study.logistic  # of thirteen penalties, of which five are enough
    monkeypatch.setitem(
        study.FAMILIES, "logistic regression", lambda *arguments: path(*arguments)[::3]
    )
    options = ["--families", "logistic regression", "--repetitions", "1", "--output", str(tmp_path)]
    study.main(["--sets", "iris", "wine", *options])
    rows, table = (rows_of(tmp_path / f"refinement{suffix}.csv") for suffix in ("", "_gain"))
    after = {(row["data"], row["loss"], row["rule"]): float(row["average"]) for row in rows}
    for row in (line for line in table if line["map"] == "average"):
        both = [[after[d, row["loss"], r] for r in (row["rule"], "loss")] for d in ("iris", "wine")]
        gain = np.mean([100 * (1 - ours / theirs) for ours, theirs in both])
        assert float(row["gain in per cent"]) == pytest.approx(gain, abs=0.02)
