"""The sentence on groups of the features, beside groups that the user named."""

import numpy as np
import pytest

import skcalib
from skcalib.report.wording import sentence_on_groups


@pytest.mark.parametrize(("differ", "words"), [(True, "No other group"), (False, "No group")])
def test_no_group_beside_named_groups(differ, words):
    """Where named groups differ at equal scores, the search has found no *other* group."""
    rng = np.random.default_rng(0)
    n, p = 3000, rng.random(3000)
    group = np.where(rng.random(n) < 0.5, "F", "M")
    chance = np.clip(p + 0.12 * differ * np.where(group == "F", 1, -1), 0.02, 0.98)
    y = (rng.random(n) < chance).astype(int)
    report = skcalib.CalibrationReport.from_predictions(y, p, rng.normal(size=(n, 1)), by=group)
    sentence = sentence_on_groups(report.findings)
    assert sentence.startswith(f"{words} was found that differs from others with equal scores")
    assert ("the two groups differ from each other" in report.verdict) == differ
