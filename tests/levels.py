"""Levels of tests on calibrated data sets, for tests of several folders."""

import numpy as np


def need_level(pvalues, levels=(0.05, 0.2), *, errors=3.5):
    """The shares of p-values up to a level are at most the level and so many standard errors."""
    for level in levels:
        share, error = np.mean(np.array(pvalues) <= level + 1e-12), level * (1 - level)
        assert share <= level + errors * np.sqrt(error / len(pvalues)), (level, share)
