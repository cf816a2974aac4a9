"""Maxima, sums and softmax of rows against scipy."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from skcalib._util.arithmetic import row_max, row_sum, softmax_parts


@pytest.mark.parametrize("n_columns", [1, 2, 10, 40])
def test_rows(n_columns):
    values = np.random.default_rng(n_columns).normal(size=(57, n_columns)) * 30
    values.flags.writeable = False
    np.testing.assert_array_equal(row_max(values), values.max(axis=1))
    np.testing.assert_allclose(row_sum(values), values.sum(axis=1), rtol=1e-13, atol=1e-12)
    shifted, proba, log_total = softmax_parts(values)
    np.testing.assert_allclose(proba, softmax(values, axis=1), rtol=1e-13)
    expected = log_softmax(values, axis=1)
    np.testing.assert_allclose(shifted - log_total[:, None], expected, rtol=1e-13, atol=1e-15)
