"""Mean divergences; their laws are in laws/test_paper_laws.py."""

import numpy as np
import pytest

from skcalib.scores import Brier, LogLoss, Lp, Spherical, TotalVariation
from skcalib.tower import expected_divergence

SCORES = [Brier(), LogLoss(), Spherical()]


@pytest.mark.parametrize("score", [*SCORES, TotalVariation(), Lp(3)], ids=repr)
def test_expected_divergence_by_loops(score):
    rng = np.random.default_rng(0)
    q, s, weight = *rng.dirichlet(np.ones(3), (2, 20)), rng.uniform(size=20)
    found = expected_divergence(score, q, s, weight)
    each = [score.divergence(q[i : i + 1], s[i : i + 1])[0] for i in range(20)]
    assert isinstance(found, float)
    assert found == pytest.approx(np.average(each, weights=weight), rel=1e-13)
    assert expected_divergence(score, q, s, 7 * weight) == pytest.approx(found, rel=1e-13)
